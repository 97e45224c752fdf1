"""Threads of this process: the caller's own thread computes units of work, and the other threads help it.

Whichever thread is free begins the next unit. The caller begins at once and never waits for a thread to wake up, so
that two threads pay even for a millisecond of work.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Executor

Found = TypeVar("Found")


class Threads:
    """So many threads, that of the caller included; the others start when they are first used.

    The work of many runs is too short for them.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._others: list[threading.Thread] = []

    def submit(self, work: Callable[[], None]) -> None:
        """Call a function, which must not raise anything, in one of the other threads."""
        if len(self._others) < self._count - 1:
            thread = threading.Thread(target=self._serve, name=f"fairchain-{len(self._others) + 1}")
            self._others.append(thread)
            thread.start()
        self._work.put(work)

    def map(self, function: Callable[..., Any], *arguments: Sequence[Any]) -> Iterator[Any]:
        """Yield the results of calls, in order."""
        calls = list(zip(*arguments, strict=False))
        units = SharedUnits(lambda place: function(*calls[place]), len(calls), ahead=len(calls))
        return units.computed_by(self, self._count)

    def shutdown(self) -> None:
        """Wait for what runs."""
        for _ in self._others:
            self._work.put(None)
        for thread in self._others:
            thread.join()

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            # What the work refers to is not kept until the next one comes.
            del work


@dataclass(eq=False, slots=True)
class BegunUnit(Generic[Found]):
    """A unit that a thread has begun, and what it returned or raised once it is `done`."""

    unit: Any
    done: bool = False
    found: Found | None = None
    error: BaseException | None = None


class SharedUnits(Generic[Found]):
    """Units that several threads compute together: each begins the next one that no thread has begun.

    `compute` returns the result of the unit at a place of `units`, or of so many. Up to `ahead` units may be begun and
    not yielded yet. `halted` is called with the place of a unit before it is begun: whether to begin none from there
    on. A thread that has nothing else to do begins units that probably follow, `expected` at the places after the
    others; they are not yielded. Those that `earlier` units expected and have begun are not computed again if they are
    the first here.
    """

    def __init__(
        self,
        compute: Callable[[int], Found],
        units: Sequence[Any] | int,
        *,
        ahead: int,
        halted: Callable[[int], bool] = lambda _: False,
        expected: Sequence[Any] = (),
        earlier: SharedUnits[Found] | None = None,
    ) -> None:
        self._compute, self._ahead, self._halted = compute, ahead, halted
        self._units = range(units) if isinstance(units, int) else units
        self._expected = expected
        self._count, self._yielded = len(self._units), 0
        # Units that are begun and not yielded, in order.
        self._begun: deque[BegunUnit[Found]] = deque()
        # Threads that still compute earlier units notify this object too.
        self._changed: threading.Condition = threading.Condition() if earlier is None else earlier._changed
        if earlier is not None:
            with self._changed:
                begun = list(earlier._begun) if earlier._yielded == len(earlier._units) else []
            same = takewhile(lambda pair: pair[0].unit == pair[1], zip(begun, self._units, strict=False))
            self._begun.extend(each for each, _ in same)

    def computed_by(self, threads: Threads | Executor, count: int) -> Generator[Found, None, None]:
        """Yield the results in order, computed by this thread and `count - 1` others."""
        try:
            for _ in range(min(count, self._count) - 1):
                threads.submit(self._help)
            while self._yielded < self._count:
                if not (self._begun and self._begun[0].done) and (begun := self._begin()) is not None:
                    self._complete(*begun, Exception)
                    continue
                with self._changed:
                    if not self._begun:
                        return
                    while not self._begun[0].done:
                        self._changed.wait()
                    unit = self._begun.popleft()
                    self._yielded += 1
                    self._changed.notify_all()
                if unit.error is not None:
                    raise unit.error
                yield unit.found  # type: ignore[misc]  # there is a result where there is no error
        finally:
            with self._changed:
                self._count, self._expected = 0, ()
                self._changed.notify_all()

    def _help(self) -> None:
        """Compute units until none is left."""
        while (begun := self._begin(wait=True)) is not None:
            self._complete(*begun, BaseException)

    def _begin(self, *, wait: bool = False) -> tuple[int, BegunUnit[Found]] | None:
        """Return the place of a unit to compute now, if there is one; wait until there is if that is only too early."""
        with self._changed:
            while len(self._begun) >= self._ahead and self._yielded + len(self._begun) < self._count:
                if not wait:
                    return None
                self._changed.wait()
            place = self._yielded + len(self._begun)
            if not self._count or place >= self._count + len(self._expected):
                return None
            if self._halted(place):
                self._count, self._expected = min(place, self._count), ()
                self._changed.notify_all()
                return None
            number = place - self._count
            unit = BegunUnit[Found](self._expected[number] if number >= 0 else self._units[place])
            self._begun.append(unit)
            return place, unit

    def _complete(self, place: int, unit: BegunUnit[Found], caught: type[BaseException]) -> None:
        """Compute a unit, and store what it returned or raised."""
        try:
            unit.found = self._compute(place)
        except caught as error:
            unit.error = error
        with self._changed:
            unit.done = True
            self._changed.notify_all()
