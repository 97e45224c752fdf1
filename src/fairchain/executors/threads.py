"""Threads of this process: the caller's own thread computes units of work, and the other threads help it.

Whichever thread is free begins the next unit. The caller begins at once and never waits for a thread to wake up, so
that two threads pay even for a millisecond of work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
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


class SharedUnits(Generic[Found]):
    """Units that several threads compute together: each begins the next one that no thread has begun.

    Parameters
    ----------
    compute
        Returns the result of the unit at a place.
    count
        How many units there are.
    ahead
        How many units may be begun and not yielded yet.
    halted
        Called with the place of a unit before it is begun: whether to begin none from there on.
    """

    def __init__(
        self,
        compute: Callable[[int], Found],
        count: int,
        *,
        ahead: int,
        halted: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self._compute, self._count, self._ahead, self._halted = compute, count, ahead, halted
        self._begun = self._yielded = 0
        # Results by place, and errors, which are raised at their place.
        self._found: dict[int, tuple[Found | None, BaseException | None]] = {}
        self._changed = threading.Condition()

    def computed_by(self, threads: Threads | Executor, count: int) -> Generator[Found, None, None]:
        """Yield the results in order, computed by this thread and `count - 1` others."""
        try:
            for _ in range(min(count, self._count) - 1):
                threads.submit(self._help)
            while self._yielded < self._count:
                if self._yielded not in self._found and (place := self._begin()) is not None:
                    self._store(place, Exception)
                    continue
                with self._changed:
                    while self._yielded < self._begun and self._yielded not in self._found:
                        self._changed.wait()
                    if self._yielded == self._begun:
                        return
                    found, error = self._found.pop(self._yielded)
                    self._yielded += 1
                    self._changed.notify_all()
                if error is not None:
                    raise error
                yield found  # type: ignore[misc]  # there is a result where there is no error
        finally:
            with self._changed:
                self._count = 0
                self._changed.notify_all()

    def _help(self) -> None:
        """Compute units until none is left."""
        while (place := self._begin(wait=True)) is not None:
            self._store(place, BaseException)

    def _begin(self, *, wait: bool = False) -> int | None:
        """Return the place of a unit to compute now, if there is one; wait until there is if that is only too early."""
        with self._changed:
            while self._begun < self._count and self._begun - self._yielded >= self._ahead:
                if not wait:
                    return None
                self._changed.wait()
            if self._begun >= self._count:
                return None
            if self._halted(self._begun):
                self._count = self._begun
                self._changed.notify_all()
                return None
            self._begun += 1
            return self._begun - 1

    def _store(self, place: int, caught: type[BaseException]) -> None:
        """Compute a unit, and store what it returned or raised."""
        try:
            found: tuple[Found | None, BaseException | None] = self._compute(place), None
        except caught as error:
            found = None, error
        with self._changed:
            self._found[place] = found
            self._changed.notify_all()
