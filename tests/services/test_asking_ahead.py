"""Asking a service ahead: no connection waits for the last answers of a batch, and only the time depends on it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from fairchain import Service, parse_spec, verify
from fairchain.models.adapters import kept_answers
from fairchain.models.adapters.answer_memo import REPEATED
from fairchain.models.adapters.kept_answers import ASKED_AHEAD, ahead_within
from tests.services.fake_server import FakeService, Row, serving
from tests.services.test_services import COLUMNS, LABELS, SPEC, older

INPUTS = [*COLUMNS, {"name": "noise", "datatype": "FP64", "shape": [-1]}]
# Rounds of the first batch, and the groups of each.
FIRST, GROUPS = 16, 2


class Holding:
    """Answers as `older` does, and holds one request back until the next one has come."""

    def __init__(self, place: int) -> None:
        self.place, self.seen, self.in_time = place, 0, False
        self._came, self._lock = threading.Event(), threading.Lock()

    def __call__(self, rows: list[Row]) -> list[int]:
        with self._lock:
            self.seen += 1
            number = self.seen
        if number > self.place:
            self._came.set()
        if number == self.place:
            self.in_time = self._came.wait(1.0)
        return older(rows)


def asked(model: Service, **options: Any) -> dict[str, Any]:
    verdict = verify(model, parse_spec(SPEC), seed=3, **options)
    return {**verdict.to_dict(), "seconds": 0, "notes": 0}


def test_the_next_batch_is_asked_for_while_the_last_answer_of_a_batch_is_missing() -> None:
    # Trials, those of them that are repeated, and the first batch.
    answer = Holding(2 * REPEATED + FIRST * GROUPS)
    with serving(FakeService(answer, INPUTS, LABELS)) as running:
        asked(Service(running.v2, connections=2, rows_per_request=1))
    assert answer.in_time


class Pairing:
    """Answers as `older` does, and counts the requests that are alone: each waits a little for another one."""

    def __init__(self) -> None:
        self.alone, self._here = 0, 0
        self._changed = threading.Condition()

    def __call__(self, rows: list[Row]) -> list[int]:
        with self._changed:
            self._here += 1
            self._changed.notify_all()
            self.alone += not self._changed.wait_for(lambda: self._here % 2 == 0, 1.0)
            self._here += self._here % 2
        return older(rows)


def test_rows_of_a_table_are_asked_for_ahead_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of eight rows, of which an odd number is new: the last of them is alone unless the next block is asked."""
    monkeypatch.setattr("fairchain.models.adapters.from_function.SERVICE_SECONDS", 0.0)
    rows = {"sex": ["F", "M"] * 32, "age": [18 + place // 2 for place in range(64)], "noise": [0.5] * 64}
    spec = parse_spec(SPEC | {"population": {"kind": "table", "as": "population"}})
    alone = []
    # On a busy machine a connection may fall behind, and then every request is alone.
    for _ in range(3):
        answer = Pairing()
        with serving(FakeService(answer, INPUTS, LABELS)) as running:
            verify(Service(running.v2, connections=2, rows_per_request=1), spec, data=rows)
        alone.append(answer.alone)
        if answer.alone <= 1:
            break
    assert min(alone) <= 1


@pytest.mark.parametrize(("connections", "rows_per_request"), [(5, 1), (3, 4)])
def test_verdicts_do_not_depend_on_it_and_few_answers_are_in_vain(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, connections: int, rows_per_request: int
) -> None:
    found, totals = [], []
    for most in (0, ASKED_AHEAD):
        monkeypatch.setattr(kept_answers, "ASKED_AHEAD", most)
        with serving(FakeService(older, INPUTS, LABELS, latency=0.002)) as running:
            options = {
                "connections": connections,
                "rows_per_request": rows_per_request,
                "journal": tmp_path / str(most),
            }
            found.append(asked(Service(running.v2, **options)))
            totals.append(running.asked.total())
            # Only what is repeated on purpose comes twice.
            assert running.asked.total() - len(running.asked) == REPEATED
            # A second run has every answer, and nothing to ask ahead.
            assert asked(Service(running.v2, **options)) == found[-1]
            assert running.asked.total() == totals[-1]
    assert found[0] == found[1]
    assert totals[0] <= totals[1] <= totals[0] + ASKED_AHEAD


@pytest.mark.parametrize("budget", [100, 400])
def test_what_is_asked_ahead_is_within_the_budget(budget: int) -> None:
    """A budget ends the run at the same round whatever was asked ahead: what may be in vain is kept back."""
    used = set()
    for connections in (1, 6):
        with serving(FakeService(older, INPUTS, LABELS, latency=0.001)) as running:
            model = Service(running.v2, connections=connections, rows_per_request=1)
            found = asked(model, max_evaluations=budget, threshold=0.07)
            assert running.asked.total() <= budget
        used.add(found["evaluations"])
    (evaluations,) = used
    assert budget - GROUPS < evaluations + 2 * REPEATED + ahead_within(budget) <= budget
