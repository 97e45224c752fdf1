"""How units are grouped for other processes: long enough for a scheduler, and so that all workers end together."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from fairchain.executors import Workers
from fairchain.executors.sending import GROUP_SECONDS, LEAST_SECONDS, SCHEDULER_SECONDS, Sending, group_size
from fairchain.executors.tasks import Reply, Sealed, own_facts


def groups(seconds: float, count: int) -> list[float]:
    """Return the seconds of the groups into which some work is divided, if units are tiny."""
    found, left = [], seconds
    while left > 1e-9:
        found.append(min(left, group_size(left, seconds, count, 1.0)))
        left -= found[-1]
    return found


@pytest.mark.parametrize("count", [2, 16, 100, 1000])
@pytest.mark.parametrize("each", [0.2, 1.0, 30.0, 300.0])
def test_a_scheduler_can_follow_and_no_worker_is_left_alone_at_the_end(count: int, each: float) -> None:
    found = groups(each * count, count)
    # The scheduler, which takes groups one by one, needs no more than about twice the time of the workers.
    assert len(found) * SCHEDULER_SECONDS <= 2.2 * max(each, (each * count * SCHEDULER_SECONDS) ** 0.5)
    # What the last groups take beyond an equal share is little beside the whole.
    assert found[-1] <= max(LEAST_SECONDS, count * SCHEDULER_SECONDS)
    assert max(found) <= max(GROUP_SECONDS, count * SCHEDULER_SECONDS)


def test_two_workers_share_a_short_batch_equally() -> None:
    assert groups(0.15, 2) == pytest.approx([0.075, 0.075])
    assert min(groups(3.0, 2)) >= LEAST_SECONDS / 2


def test_units_that_seem_quick_are_shared_all_the_same() -> None:
    assert group_size(1000, 1000, 2, 1e-9) == 500


class InAnyOrder(Executor):
    """A thousand workers that answer one by one in a random order; some answers are lost first."""

    def __init__(self, lost: int) -> None:
        self._random, self._lost, self._waiting = random.Random(0), lost, list[tuple[Future[Any], list[int]]]()

    def submit(self, _function: Callable[..., Any], /, *arguments: Any, **_named: Any) -> Future[Any]:
        self._waiting.append((Future(), arguments[2].value))
        added = self._waiting[-1][0]
        if len(self._waiting) > 1500:
            self.answer()
        return added

    def answer(self) -> None:
        if not self._waiting:
            return
        future, units = self._waiting.pop(self._random.randrange(len(self._waiting)))
        if self._lost:
            self._lost -= 1
            future.set_exception(ConnectionError("the worker is gone"))
            return
        squares = [unit * unit for unit in units]
        future.set_result(Sealed(Reply(own_facts(), "host:1", squares, 1.0 * len(units))))


def test_a_thousand_workers_that_answer_in_any_order_give_results_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = InAnyOrder(lost=40)
    crew = Workers(pool, 1000)
    receive = Sending.receive

    def answered(run: Any) -> None:
        pool.answer()
        receive(run)

    monkeypatch.setattr(Sending, "receive", answered)
    assert list(crew.map(abs, range(5000))) == [unit * unit for unit in range(5000)]
