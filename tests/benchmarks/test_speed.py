"""The benchmarks in small: they run, they count what they say they count, and a broken limit is seen.

Nothing here looks at a clock, and the networks of the paper are not needed: one of the same shape is made up.
"""

from __future__ import annotations

import importlib
import itertools
import json
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from tests.comments import fill_cache


@pytest.fixture
def bench() -> Any:
    return importlib.import_module("benchmarks.parts.speed")


def test_verifair_decides_right_and_is_charged_for_every_sample() -> None:
    rule = importlib.import_module("benchmarks.baselines.verifair")

    def draw(first: int, count: int) -> Any:
        rng = np.random.default_rng(first)
        return rng.random((3, count)) < np.array([[0.2], [0.3], [0.5]])

    unfair = rule.verifair(draw, 3, 0.1, 1e-6)
    fair = rule.verifair(draw, 3, 0.5, 1e-6)
    assert (unfair.decision, fair.decision) == ("UNFAIR", "FAIR")
    for stopped, threshold in ((unfair, 0.1), (fair, 0.5)):
        each = stopped.evaluations // 3
        assert 2 * rule.half_width(each, 1e-6 / 3) <= abs(stopped.gap - threshold)
        assert 2 * rule.half_width(each // 2, 1e-6 / 3) > abs(stopped.gap - threshold)
    assert rule.verifair(draw, 3, 0.3, 1e-6, most=30_000).decision == "UNDECIDED"


def test_the_inequality_of_verifair_is_the_published_one() -> None:
    rule = importlib.import_module("benchmarks.baselines.verifair")
    by_hand = np.sqrt((0.6 * np.log(np.log(1000) / np.log(1.1) + 1) + np.log(24 / 0.05) / 1.8) / 1000)
    assert rule.half_width(1000, 0.05) == pytest.approx(by_hand)
    assert np.all(np.diff(rule.half_width(np.arange(10, 10_000), 1e-6)) < 0)


@pytest.mark.parametrize(("protected", "groups"), [("sex", 2), ("race", 5), ("age", 9)])
def test_a_long_run_evaluates_as_often_as_it_says_and_leaves_no_group_out(
    bench: Any, protected: str, groups: int
) -> None:
    verdict = bench.verify(None, bench.long_spec(protected, 20_000), workers=1)
    assert verdict.evaluations == 20_000 // groups * groups
    assert all(len(plan.groups) == groups for plan, _ in verdict.evidence.entries)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_bare_network_evaluates_as_many_inputs_as_asked(bench: Any, threads: int) -> None:
    case = bench.census("sex")
    network = bench.BareNetwork(case.spec.model.path, case.population.rounds(1, 0, 1024).inputs((0,)))
    assert network.run(5001, 256, threads) == 5001


def test_memory_is_read_of_a_run_of_the_size_asked_for(bench: Any) -> None:
    found = bench.peak_memory("race", 1000, 1)
    assert (found.rounds, found.evaluations) == (200, 1000)
    assert 10 < found.before <= found.peak < 2000


def test_the_papers_networks_come_from_a_folder(bench: Any, tmp_path: Path) -> None:
    models = importlib.import_module("benchmarks.paper_models")
    _made_up_networks(tmp_path)
    specs = models.paper_specs(tmp_path, tmp_path, threshold=0.5, delta=0.1)
    assert list(specs) == list(models.KNOWN_GAPS)
    layers = models.read_layers(tmp_path / "bank_model.npz")
    inputs = np.random.default_rng(5).integers(0, 4, (200, 2)).astype(np.float32)
    spec = specs["bank", "age"]
    wanted = (np.maximum(inputs @ layers[0][0] + layers[0][1], 0) @ layers[1][0] + layers[1][1]).argmax(axis=1)
    assert bench.OnnxModel(spec.model.path, spec).predict(inputs).tolist() == wanted.tolist()


def test_known_facts_about_the_papers_networks_are_checked(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    verification = importlib.import_module("benchmarks.parts.verification")
    case = replace(bench.census("sex"), owner="the paper's")
    found = {case: verification.verdicts_on(case, 2)}
    monkeypatch.setitem(verification.KNOWN_GAPS, ("census", "sex"), 0.009)
    assert [check.holds for check in verification._known_networks(found)] == [True, True]
    monkeypatch.setitem(verification.KNOWN_GAPS, ("census", "sex"), 0.9)
    monkeypatch.setitem(verification.PROTOTYPE_EVALUATIONS, ("census", "sex"), 1)
    assert [check.holds for check in verification._known_networks(found)] == [False, False]
    assert verification._known_networks({bench.census("sex"): found[case]}) == []


def test_what_is_judged_is_measured_more_often_than_what_is_reported(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(bench, "RESIDENT", 2**14)
    monkeypatch.setattr(bench, "TIME_LIMITS", {"sex": 1.5})
    sizes = replace(importlib.import_module("benchmarks.sizes").QUICK, bare=2000, turns=2, few_turns=1)
    one, two = bench.against_bare_network(sizes)
    assert (len(one.ours), len(two.ours)) == (2, 1)
    # The limit is for long runs.
    assert one.limit is None


def timed(ours: list[float], other: list[float], limit: float | None = 1.3) -> Any:
    bench = importlib.import_module("benchmarks.parts.speed")
    sides = (tuple(bench.Spent(seconds, seconds) for seconds in side) for side in (ours, other))
    return bench.Timed("race", 5, 1, 1000, 8192, *sides, limit)


def test_the_median_of_the_turns_is_judged_and_the_best_of_each_is_told() -> None:
    speed = importlib.import_module("benchmarks.parts.speed")
    # The shortest run of ours would keep the limit; the turns do not.
    each = timed([1.0, 4.0, 2.8], [1.0, 2.0, 2.0])
    assert each.seconds == (2.8, 2.0)
    assert each.ratio() == pytest.approx(1.4)
    assert each.best == pytest.approx(1.0)
    (check,) = speed.time_checks([each], enforced=True)
    assert (check.holds, check.enforced, check.found) == (False, True, "1.40 (best of each 1.00)")
    (row,) = speed.time_table([each]).rows
    named = dict(zip([column.name for column in speed.time_table([each]).columns], row, strict=True))
    assert (named["ratio, median of turns"], named["ratio, best of each"], named["turns"]) == (
        pytest.approx(1.4),
        pytest.approx(1.0),
        3,
    )
    assert speed.time_checks([timed([9.0], [1.0], None)], enforced=True) == []


def test_a_warm_verdict_is_judged_by_its_median_beyond_the_network(bench: Any) -> None:
    one, other = bench.census("sex"), bench.census("race")
    quick, slow = bench.Warm((9.0, 3.0, 30.0), (4.0, 1.0, 5.0)), bench.Warm((9.0, 8.0), (3.0, 1.0))
    assert (quick.beyond, slow.beyond) == (5.0, 6.5)
    check = bench.warm_check({one: quick, other: slow}, enforced=True)
    assert (check.holds, check.enforced, check.found) == (False, True, "6.5 ms (census race (ours))")
    assert bench.warm_check({one: quick}, enforced=False).holds
    assert bench.warm_table({one: quick}).rows == [["ours", "census sex", 9.0, 4.0, 5.0]]


def test_verdicts_about_every_kind_of_input_are_measured_warm(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path / "cache"))
    fill_cache(tmp_path / "cache")
    comments = importlib.import_module("benchmarks.cases").text_cases()
    assert [case.name for case in comments] == ["comments religion", "comments race"]
    for case in (bench.census("sex"), *comments):
        warm = bench._warm_verdict(case, 2)
        assert (len(warm.whole), len(warm.network)) == (2, 2)


def test_a_full_run_judges_one_worker_by_fifteen_turns() -> None:
    sizes = importlib.import_module("benchmarks.sizes").PAPER
    assert (sizes.turns, sizes.bare) == (15, importlib.import_module("benchmarks.parts.speed").LONG)


def test_ratios_become_rows_and_checks_of_those_with_a_limit() -> None:
    results = importlib.import_module("benchmarks.results")
    good = results.Ratio("start", "fast enough", "1 s", "1 s", 1.0, 2.0)
    bad = results.Ratio("texts", "too few", "5", "10", 2.0, 10.0, at_least=True)
    free = results.Ratio("texts", "no limit", "5", "10", 2.0)
    checks = results.ratio_checks([good, bad, free], enforced=True)
    assert [(check.holds, check.required) for check in checks] == [(True, "at most 2"), (False, "at least 10")]
    (table,) = results.ratio_tables([good, bad, free], {"texts": ("T", "ours", "other"), "empty": ("E", "a", "b")})
    assert [row[0] for row in table.rows] == ["too few", "no limit"]


def _made_up_networks(folder: Path) -> None:
    rng = np.random.default_rng(3)
    spaces = {}
    for name, protected in {"census": ["race", "age", "sex"], "credit": ["age", "sex"], "bank": ["age", "job"]}.items():
        width = len(protected)
        shapes = {"W0": (width, 4), "b0": (4,), "W1": (4, 2), "b1": (2,)}
        np.savez(folder / f"{name}_model.npz", **{key: rng.normal(size=shape) for key, shape in shapes.items()})
        features = [{"name": each, "low": 0, "high": 3} for each in protected]
        spaces[name] = {"features": features, "classes": ["no", "yes"], "protected": protected}
    (folder / "spaces.json").write_text(json.dumps(spaces), encoding="utf-8")


def test_two_engines_in_turns_have_the_same_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    part = importlib.import_module("benchmarks.parts.bounds")
    ticks = itertools.count()
    # Each look at the clock costs a millisecond of a made-up processor.
    monkeypatch.setattr(part.time, "process_time", lambda: next(ticks) / 1000)
    worked: list[str] = []

    class Working:
        def __init__(self, name: str) -> None:
            self.name = name

        def answer(self, _case: Any, *, cancel: Event, **_others: Any) -> str:
            while not cancel.is_set():
                worked.append(self.name)
            return self.name

    assert part.in_turns(0.1, None, [Working("a"), Working("b")]) == ["a", "b"]
    lengths = [len(list(turn)) for _, turn in itertools.groupby(worked)]
    # Twenty turns of 5 ms for each, one after the other.
    assert 38 <= len(lengths) <= 42
    assert max(lengths) <= 6
    assert abs(worked.count("a") - worked.count("b")) <= 2


@pytest.mark.parametrize("ticks_for_boxes", [0, 40])
def test_sampling_alone_gets_the_rounds_that_fit_into_the_time_of_boxes(
    ticks_for_boxes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = importlib.import_module("benchmarks.parts.bounds")
    case = part._at_its_gap(part.random_case(6, (12, 12), 0, delta=1e-20), 400_000)
    ticks = itertools.count()
    monkeypatch.setattr(part.time, "process_time", lambda: next(ticks) / 1000)
    # What is too short for the clock is left out.
    monkeypatch.setattr(part.WatchedRun, "price_of_looks", lambda _run: 0.0)

    def forecast(_run: Any) -> bool:
        # The watch itself takes one tick.
        return bool(sum(1 for _ in itertools.islice(ticks, ticks_for_boxes)) > 100)

    monkeypatch.setattr(part.BoundingRun, "begins_with_boxes", forecast)
    pair = part.at_equal_cost(case, 0.1)
    assert pair.beside == pytest.approx((ticks_for_boxes + 1) / 100, abs=0.05)
    # The width goes with one over the root of the rounds.
    assert pair.ratio == pytest.approx((1 - pair.beside) ** -0.5, rel=0.1)
