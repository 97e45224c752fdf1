"""Promises about slow and paid models: each distinct row is asked for once, and a stopped run says what it knows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

import fairchain
from fairchain.errors import CertificateError, ModelError
from fairchain.executors import Workers
from fairchain.models.adapters.answer_memo import ANSWERS_CHANGE
from fairchain.prepare import prepare
from fairchain.spec import parse_spec
from fairchain.statements import NO_PARTIAL_CERTIFICATE
from fairchain.statistics import Decision
from fairchain.verification.counting import CountingEngine, count_rows
from fairchain.verification.verdict import assemble
from tests.messages import says
from tests.networks import linear, save

SPEC = {
    "model": {"labels": ["no", "yes"]},
    "feature": [
        {"name": "hours", "kind": "integer", "low": 0, "high": 99999},
        {"name": "sex", "kind": "category", "values": ["F", "M"]},
    ],
    "population": {"kind": "table", "as": "population"},
    "property": {"kind": "difference", "protected": ["sex"], "outcome": "yes", "threshold": 0.1},
}


def table(count: int = 2000) -> dict[str, list[Any]]:
    return {"hours": list(range(count)), "sex": ["FM"[row % 2] for row in range(count)]}


class Service:
    """Counts how often it is asked for each input; women are granted a third of their requests, men two thirds."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[float, ...]] = Counter()
        self.sizes: list[int] = []

    def __call__(self, rows: Any) -> Any:
        self.asked.update(map(tuple, rows.tolist()))
        self.sizes.append(len(rows))
        return (rows[:, 0] // 2 % 3 <= rows[:, 1]).astype(int)


def spec(reading: str = "population", **guarantee: Any) -> Any:
    return parse_spec(SPEC | {"population": {"kind": "table", "as": reading}, "guarantee": guarantee})


def test_each_distinct_row_is_asked_for_once_but_for_some_repeats() -> None:
    service, rows = Service(), table()
    rows["hours"] = [each // 2 * 2 for each in rows["hours"]]
    verdict = fairchain.verify(service, spec(), data=rows)
    assert len(service.asked) == 2000
    repeated = sum(service.asked.values()) - 2000
    assert 16 <= repeated <= 2000 // 16 + 16
    assert verdict.evaluations == 2000
    same = {"hours": [7] * 500 + [8] * 500, "sex": ["F", "M"] * 500}
    once = Service()
    fairchain.verify(once, spec(allow_constant=True), data=same)
    assert len(once.asked) == 4
    assert sum(once.asked.values()) <= 8


def test_drafting_and_verifying_share_the_answers() -> None:
    service = Service()
    rows = table() | {"granted": ["yes", "no"] * 1000}
    fairchain.check(service, rows, protected="sex", label="granted", reading="population")
    assert len(service.asked) == 2000
    assert sum(service.asked.values()) <= 2000 + 2000 // 8


def test_a_loaded_model_keeps_its_answers_for_the_next_question() -> None:
    service, rows = Service(), table()
    case = prepare(service, spec(), data=rows)
    first = fairchain.verify(case.model, spec(), data=rows)
    asked = sum(service.asked.values())
    assert fairchain.verify(case.model, spec(), data=rows, threshold=0.2).gap == first.gap
    assert sum(service.asked.values()) == asked


def test_a_function_that_is_random_or_looks_at_its_batch_is_refused() -> None:
    random = np.random.default_rng(0)

    def guesses(rows: Any) -> Any:
        return random.integers(0, 2, len(rows))

    def by_size(rows: Any) -> Any:
        return np.full(len(rows), int(len(rows) > 20))

    for function in (guesses, by_size):
        with pytest.raises(ModelError, match=says(ANSWERS_CHANGE)):
            fairchain.verify(function, spec(), data=table())


@pytest.mark.parametrize("reading", ["population", "sample"])
def test_a_budget_is_kept_and_the_bounds_contain_the_whole_answer(reading: str) -> None:
    """The random order follows from the seed; the truth is in the interval except with probability 1e-6."""
    whole = fairchain.verify(Service(), spec("population"), data=table()).gap.estimate
    service = Service()
    verdict = fairchain.verify(service, spec(reading), data=table(), max_evaluations=900)
    assert sum(service.asked.values()) <= 900 + 2 * 16 + 900 // 16
    assert (verdict.evaluations, verdict.unseen, verdict.stopped) == (900, 1100, "evaluations")
    assert verdict.rule == ("random part" if reading == "population" else "fixed sample")
    assert verdict.gap.low <= whole <= verdict.gap.high
    assert verdict.decision is Decision.UNFAIR
    assert verdict.notes[-1] == "900 of 2,000 rows seen, in random order: the budget of evaluations is spent."
    with pytest.raises(CertificateError, match=says(NO_PARTIAL_CERTIFICATE)):
        fairchain.make_certificate(verdict)


def interrupted(reading: str, after: int, **changes: Any) -> Any:
    """The verdict on a run that is stopped after some rows."""
    case = prepare(Service(), fairchain.spec.revise(spec(reading), **changes), data=table())
    cancel = Event()

    def stop(progress: Any) -> None:
        if progress.evaluations >= after:
            cancel.set()

    answer = CountingEngine().answer(case, workers=Workers(), cancel=cancel, progress=stop)
    return assemble(case, answer, 0.0)


@pytest.mark.parametrize("kind", ["difference", "individual"])
@pytest.mark.parametrize("reading", ["population", "sample"])
def test_a_stopped_run_says_how_many_rows_it_saw_and_bounds_the_rest(reading: str, kind: str) -> None:
    whole = fairchain.verify(Service(), spec("population"), data=table(), kind=kind).gap.estimate
    verdict = interrupted(reading, 40, property__kind=kind)
    assert verdict.unseen > 0
    assert verdict.stopped == "interrupted"
    assert verdict.gap.low <= whole <= verdict.gap.high
    assert any("rows seen, in random order: the run was stopped" in note for note in verdict.notes)
    if reading == "population":
        assert (verdict.rule, verdict.delta) == ("worst case", 0.0)
        assert "nothing is assumed about the other" in verdict.statement
    else:
        assert (verdict.rule, verdict.delta) == ("any time", 1e-6)


def test_a_stopped_run_about_shifts_bounds_the_rest_too() -> None:
    whole = fairchain.verify(Service(), spec("population"), data=table(), shift=1.2).gap.estimate
    verdict = interrupted("population", 40, property__shift=1.2)
    assert (verdict.rule, verdict.delta, verdict.unseen > 0) == ("worst case", 0.0, True)
    assert verdict.gap.low <= whole <= verdict.gap.high
    assert verdict.decision is Decision.UNDECIDED


def test_chunks_follow_the_time_of_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that takes a tenth of a second for each row gets few rows at a time, a fast one many."""
    from fairchain.models.adapters import answer_memo

    clock = [0.0]

    class Slow(Service):
        def __call__(self, rows: Any) -> Any:
            clock[0] += 0.1 * len(rows)
            return super().__call__(rows)

    monkeypatch.setattr(answer_memo, "perf_counter", lambda: clock[0])
    slow = Slow()
    fairchain.verify(slow, spec(), data=table(200))
    assert max(slow.sizes[2:]) <= 6
    monkeypatch.undo()
    fast = Service()
    fairchain.verify(fast, spec(), data=table(20_000))
    assert len(fast.sizes) < 60


@pytest.mark.parametrize("reading", ["population", "sample"])
def test_a_one_sided_gap_below_zero_stays_below_zero_where_rows_were_not_seen(reading: str) -> None:
    """More F than M get the outcome by 0.2, so a limit of -0.1 is kept; an interval cut off at 0 would say UNFAIR."""
    random = np.random.default_rng(0)
    sex = random.integers(0, 2, 20_000)
    rows = {"sex": np.where(sex == 0, "F", "M").tolist(), "x": random.random(20_000).tolist()}
    spec = fairchain.parse_spec(
        {
            "model": {"labels": ["no", "yes"], "decision": "label"},
            "feature": [
                {"name": "sex", "kind": "category", "values": ["F", "M"]},
                {"name": "x", "kind": "real", "low": 0, "high": 1},
            ],
            "property": {"kind": "formula", "formula": "P(yes | sex=M) - P(yes | sex=F) <= -0.1"},
            "population": {"kind": "table", "as": reading},
            "guarantee": {"delta": 0.001, "budget": {"evaluations": 10_000}},
        }
    )
    verdict = fairchain.verify(lambda v: (v[:, 1] < np.where(v[:, 0] == 0, 0.6, 0.4)).astype(int), spec, data=rows)
    assert verdict.decision is fairchain.Decision.FAIR
    assert verdict.gap.low < -0.15 < -0.1 > verdict.gap.high


def test_rows_of_a_network_are_seen_in_random_order_too(tmp_path: Path) -> None:
    """A table may be sorted; its first rows are then no random part."""
    path = save(linear([[0.0, 0.0], [0.0, 0.01]], [0.0, -5.0]), tmp_path / "net.onnx")
    spec = fairchain.parse_spec(
        {
            "model": {"labels": ["no", "yes"], "decision": "argmax"},
            "feature": [
                {"name": "sex", "kind": "category", "values": ["F", "M"]},
                {"name": "x", "kind": "real", "low": 0, "high": 1000},
            ],
            "property": {"kind": "difference", "protected": ["sex"], "threshold": 0.1},
            "population": {"kind": "table", "as": "sample"},
        }
    )
    rows = {"sex": ["F", "M"] * 20_000, "x": np.linspace(0, 1000, 40_000).tolist()}
    case = prepare(path, spec, data=rows)
    cancel = Event()
    found = count_rows(case, progress=lambda *_: cancel.set(), cancel=cancel)
    assert 0 < len(found.rows) < 40_000
    assert 0.4 < found.counts.rates.mean() < 0.6
