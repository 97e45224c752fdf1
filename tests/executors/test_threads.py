"""Threads share units of work: the caller computes too, results come in order, and the first ones are complete."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from fairchain import verify
from fairchain.executors import open_workers
from fairchain.executors.threads import SharedUnits, Threads
from fairchain.spec import parse_spec
from tests.questions import category, changed, integer, question, real


class Noting:
    """A function that notes each place for which it is called, and returns it."""

    def __init__(self) -> None:
        self.begun: list[int] = []

    def __call__(self, place: int) -> int:
        self.begun.append(place)
        return place


class NeverAwake(Threads):
    """Threads of which only that of the caller ever works."""

    def submit(self, work: Callable[[], None]) -> None:
        """Forget the work."""


def test_the_caller_waits_for_no_other_thread() -> None:
    units = SharedUnits(lambda place: place**2, 20, ahead=4)
    assert list(units.computed_by(NeverAwake(3), 3)) == [place**2 for place in range(20)]


def test_the_caller_and_another_thread_compute_at_the_same_time() -> None:
    """Each of the two units waits for the other to have begun."""
    both, seen = threading.Barrier(2, timeout=30), []

    def meet(unit: int) -> int:
        both.wait()
        seen.append(threading.get_ident())
        return unit

    with open_workers(2) as workers:
        assert list(workers.map(meet, range(2))) == [0, 1]
    assert threading.get_ident() in seen
    assert len(set(seen)) == 2


def test_a_batch_of_two_milliseconds_is_shared() -> None:
    both = threading.Barrier(2, timeout=30)

    def meet(_unit: int) -> int:
        return both.wait()

    with open_workers(2) as workers:
        list(workers.map(meet, range(2)))
        # What a unit took, as if it had been measured.
        workers.took(0.001, 1, 1.0)
        assert sorted(workers.map(meet, range(2))) == [0, 1]


def test_results_come_in_order_and_few_units_are_ahead() -> None:
    begun: list[int] = []
    yielded, furthest = 0, 0

    def compute(place: int) -> int:
        nonlocal furthest
        begun.append(place)
        furthest = max(furthest, place - yielded)
        return place

    threads = Threads(3)
    found = []
    for result in SharedUnits(compute, 200, ahead=4).computed_by(threads, 3):
        found.append(result)
        yielded += 1
    threads.shutdown()
    assert found == sorted(begun) == list(range(200))
    # One that is yielded and not counted yet, here, beside those that are ahead.
    assert furthest <= 4


def test_what_is_yielded_before_a_halt_is_complete() -> None:
    threads, compute = Threads(3), Noting()
    units = SharedUnits(compute, 100, ahead=6, halted=lambda place: place >= 17)
    assert list(units.computed_by(threads, 3)) == list(range(17))
    threads.shutdown()
    assert sorted(compute.begun) == list(range(17))


def test_an_error_is_raised_in_its_place() -> None:
    def compute(place: int) -> int:
        if place == 5:
            raise LookupError(str(place))
        return place

    threads, found = Threads(3), list[int]()
    with pytest.raises(LookupError, match="5"):
        found.extend(SharedUnits(compute, 100, ahead=6).computed_by(threads, 3))
    threads.shutdown()
    assert found == list(range(5))


def test_nothing_is_begun_after_the_end() -> None:
    threads, compute = Threads(2), Noting()
    results = SharedUnits(compute, 10_000, ahead=4).computed_by(threads, 2)
    assert next(results) == 0
    results.close()
    threads.shutdown()
    assert len(compute.begun) <= 5


class Meeting:
    """Units 0 and 1 are computed by two threads, and unit 1 ends once the expected unit 2 has begun."""

    def __init__(self, fails: int = -1) -> None:
        self.begun: list[int] = []
        self._both, self._expected = threading.Barrier(2, timeout=30), threading.Event()
        self._fails = fails

    def __call__(self, place: int) -> int:
        self.begun.append(place)
        if place < 2:
            self._both.wait()
        if place == 1:
            assert self._expected.wait(30)
        if place == 2:
            self._expected.set()
        if place == self._fails:
            raise LookupError(str(place))
        return place


def test_expected_units_are_begun_by_whoever_is_free_and_computed_once() -> None:
    threads, compute = Threads(2), Meeting()
    first = SharedUnits(compute, [0, 1], ahead=4, expected=[2])
    assert list(first.computed_by(threads, 2)) == [0, 1]
    second = SharedUnits(lambda place: compute(2 + place), [2, 3, 4], ahead=4, earlier=first)
    assert list(second.computed_by(threads, 2)) == [2, 3, 4]
    threads.shutdown()
    assert sorted(compute.begun) == [0, 1, 2, 3, 4]


def test_units_that_were_expected_in_vain_are_not_yielded() -> None:
    threads, compute = Threads(2), Noting()
    first = SharedUnits(compute, [0, 1], ahead=4, expected=[2, 3])
    assert list(first.computed_by(threads, 2)) == [0, 1]
    second = SharedUnits(lambda place: -place, [8, 9], ahead=4, earlier=first)
    assert list(second.computed_by(threads, 2)) == [0, -1]
    threads.shutdown()


def test_no_expected_unit_is_begun_after_a_halt() -> None:
    threads, compute = Threads(2), Noting()
    units = SharedUnits(compute, 4, ahead=4, halted=lambda place: place >= 4, expected=[4, 5])
    assert list(units.computed_by(threads, 2)) == [0, 1, 2, 3]
    threads.shutdown()
    assert sorted(compute.begun) == [0, 1, 2, 3]


def test_the_error_of_an_expected_unit_is_raised_where_the_unit_is_yielded() -> None:
    threads, compute = Threads(2), Meeting(fails=2)
    first = SharedUnits(compute, [0, 1], ahead=4, expected=[2])
    assert list(first.computed_by(threads, 2)) == [0, 1]
    second = SharedUnits(lambda place: compute(2 + place), [2, 3], ahead=4, earlier=first)
    with pytest.raises(LookupError, match="2"):
        list(second.computed_by(threads, 2))
    threads.shutdown()
    assert compute.begun.count(2) == 1


class CountingRows:
    """A function of the user that counts the rows it gets; each of eight groups has its own rate."""

    def __init__(self) -> None:
        self.rows, self._lock = 0, threading.Lock()

    def __call__(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        with self._lock:
            self.rows += len(values)
        shift = np.array([0, 0.02, 0.021, 0.03, 0.035, 0.04, 0.041, 0.0425])[values[:, 2].astype(int)]
        return np.asarray(0.02 * values[:, 0] + 0.5 * values[:, 1] + shift > 1.2, np.int64)


def test_the_users_own_code_gets_no_row_in_vain() -> None:
    """Groups are cleared one by one, so that chunks of all of them would often be begun in vain."""
    data = question(integer("age", 0, 100), real("x"), category("group", *"ABCDEFGH"))
    data = changed(changed(data, "model.path", ...), "property.threshold", 0.0213)
    data = changed(changed(data, "guarantee.delta", 1e-6), "guarantee.budget", {"evaluations": 2_000_000})
    rows = []
    for workers in (1, 8):
        function = CountingRows()
        assert verify(function, parse_spec(data), workers=workers).evaluations <= 2_000_000
        rows.append(function.rows)
    assert rows[0] == rows[1]
