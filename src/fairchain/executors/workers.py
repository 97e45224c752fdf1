"""Workers of a run: from units of work to results in the order of the units.

Threads compute in this process. Other executors get units in groups (`sending`) and the work itself once for each
process (`tasks`). The results do not depend on the workers.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ExecutorError, SpecError
from fairchain.executors.sending import Sending, load
from fairchain.executors.tasks import Job, WorkerFacts
from fairchain.executors.threads import SharedUnits, Threads

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

Unit = TypeVar("Unit")
Found = TypeVar("Found")
# Whether to start no work that takes this many more seconds.
Halted = Callable[[float], bool]

# Work that takes fewer seconds in total is done in this process, whatever the executor: sending it would take as long.
# Threads start earlier.
SMALL_SECONDS, SMALL_FOR_THREADS = 0.1, 0.001
# Threads begin expected units of fewer seconds: the end of a run may wait for one.
SHORT_UNIT = 0.05
# A unit of fewer seconds is computed in this process while other processes start and load the model.
WHILE_LOADING = 0.25
# Work of Python itself that takes longer is tried in processes, which are kept if they are this many times as fast;
# work in small batches must take this many seconds in total.
TRIAL_SECONDS, LEAST_GAIN, WORTH_SECONDS = 3.0, 1.1, 10.0
TOO_FEW_WORKERS = "workers: found {workers}; give at least one, or leave it out for one for each core"


def default_workers() -> int:
    """Return the number of cores that this process may use, as the number of threads."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers:
    """Workers that compute units of work.

    `pool` is None to compute everything in the caller's own thread; `count` units are computed at the same time.
    `note` is the result of a trial of processes, in a sentence; "" without one. `each` are the seconds of a unit of
    size 1 of the current function; 0 before the first.
    """

    note = ""

    def __init__(self, pool: Executor | Threads | None = None, count: int = 1) -> None:
        self.pool, self.count = pool, count
        self.remote = not isinstance(pool, Threads | None)
        if self.remote:
            from concurrent.futures import ThreadPoolExecutor

            self.remote = not isinstance(pool, ThreadPoolExecutor)
        # Other processes that computed something, by name.
        self.processes: dict[str, WorkerFacts] = {}
        # The last function, also pickled; the seconds of its last unit, and those of a unit of size 1.
        self._function: Callable[..., Any] | None = None
        self._job: Job | None = None
        self._last = self.each = 0.0
        # The units of the last call that threads computed.
        self._shared: SharedUnits[Any] | None = None
        # Other processes that are loading the function, until one of them has loaded it.
        self._loading: Sequence[Future[Any]] = ()
        # The seconds of units, and their size, since the last trial.
        self._spent = (0.0, 0.0)
        # Whether the current function holds Python's lock, so that threads do not help and processes may.
        self._may_try = False
        self._own_processes: Executor | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy nothing: work that is copied to a worker is done there by one worker."""
        return Workers, ()

    def allow_processes(self) -> None:
        """Let processes replace threads if they are faster; for work that Python itself does."""
        self._may_try = self.pool is not None and not self.remote

    def batch(self, size: float, seconds: float) -> float:
        """Return the total size of the next units for work of this size: some seconds for all workers.

        It is larger before a trial of processes, if the work justifies one; 0 while nothing is known.
        """
        if not self.each:
            return 0.0
        if self._may_try:
            return 1.01 * TRIAL_SECONDS / self.each if self.each * size > WORTH_SECONDS else 0.0
        return self.count * seconds / self.each if self.remote else 0.0

    def close(self) -> None:
        """End the processes of a trial."""
        if self._own_processes is not None:
            self._own_processes.shutdown(wait=True, cancel_futures=True)

    @property
    def facts(self) -> Counter[WorkerFacts]:
        """The number of other processes of each kind that computed something."""
        return Counter(self.processes.values())

    @property
    def described(self) -> tuple[str, ...]:
        """The other processes in words: versions of packages, and the processor."""
        if not self.processes:
            return ()
        return tuple(f"{count} processes with {facts}" for facts, count in self.facts.items())

    def seconds(self, function: Callable[..., Any]) -> float:
        """Return the seconds of the last unit of this function; 0 before the first."""
        return self._last if self._function == function else 0.0

    @property
    def mean(self) -> float:
        """The mean seconds of a unit of size 1 since the last trial; 0 before the first."""
        seconds, size = self._spent
        return seconds / size if size else 0.0

    def took(self, seconds: float, units: int, size: float) -> None:
        """Record the seconds of some units, and their total size."""
        self._last, self.each = seconds / units, seconds / size
        self._spent = self._spent[0] + seconds, self._spent[1] + size

    def map(
        self,
        function: Callable[[Unit], Found],
        units: Sequence[Unit],
        *,
        sizes: Sequence[float] | None = None,
        halted: Halted | None = None,
        expected: Sequence[Unit] = (),
    ) -> Generator[Found, None, None]:
        """Yield the result of a pure function for each unit, in order, with a few computed ahead.

        Parameters
        ----------
        function, units
            The function and its arguments. For another process both must be copyable by `pickle`, and the function must
            not change between two calls of `map`.
        sizes
            The relative duration of each unit; by default all the same.
        halted
            Called with the seconds of one more unit: whether to start no further one. The first unit is computed in any
            case, and the yielded ones are always the first ones.
        expected
            Units of the average size that the next call probably begins with. A thread that has nothing else to do
            begins one if it is short; where the next call begins with others, it was begun in vain.
        """
        self._begin(function)
        halted = halted or (lambda _: False)
        if len(units) == 1:
            return self._here(function, units, (1.0,) if sizes is None else sizes, halted)
        # A view of one number if all are the same: there can be a hundred million units.
        weights = np.broadcast_to(1.0, len(units)) if sizes is None else np.asarray(sizes, float)
        if self.pool is None:
            return self._here(function, units, weights, halted)
        seconds = self.each * float(weights.sum())
        if self._may_try and seconds >= TRIAL_SECONDS:
            return self._tried(function, units, weights, halted)
        if self._may_try or 0 < seconds < (SMALL_SECONDS if self.remote else SMALL_FOR_THREADS):
            return self._here(function, units, weights, halted)
        if self.remote:
            return self._sent(function, units, weights, halted)
        return self._threaded(function, units, weights, halted, expected)

    def one(self, function: Callable[[Unit], Found], unit: Unit, size: float) -> Found:
        """Return the result for a single unit, which is computed here; quicker than `map`."""
        self._begin(function)
        return self._timed(function, unit, size)

    def _begin(self, function: Callable[..., Any]) -> None:
        """Forget the times of another function; let other processes load this one if it takes long here."""
        if self._function != function:
            self._function, self._job, self._last, self.each = function, None, 0.0, 0.0
            self._loading, self._shared = (), None
        if self.remote and self._job is None and self.each and self._spent[0] > SMALL_SECONDS:
            # A function that cannot be copied is reported once the processes are needed.
            with suppress(ExecutorError):
                self._is_loading(function)

    def _timed(self, function: Callable[[Unit], Found], unit: Unit, size: float) -> Found:
        start = time.perf_counter()
        found = function(unit)
        self.took(time.perf_counter() - start, 1, size)
        return found

    def _here(
        self, function: Callable[[Unit], Found], units: Sequence[Unit], sizes: Iterable[float], halted: Halted
    ) -> Generator[Found, None, None]:
        for place, (unit, size) in enumerate(zip(units, sizes, strict=True)):
            if place and halted(self._last):
                return
            yield self._timed(function, unit, size)

    def _threaded(
        self,
        function: Callable[[Unit], Found],
        units: Sequence[Unit],
        sizes: NDArray[np.float64],
        halted: Halted,
        expected: Sequence[Unit],
    ) -> Generator[Found, None, None]:
        assert self.pool is not None
        expected = expected if 0 < self._last < SHORT_UNIT else ()

        def compute(place: int) -> Found:
            number = place - len(units)
            if number >= 0:
                return self._timed(function, expected[number], float(sizes.mean()))
            return self._timed(function, units[place], sizes[place])

        shared = SharedUnits(
            compute,
            units,
            ahead=2 * self.count,
            halted=lambda place: place > 0 and halted(self._last),
            expected=expected,
            earlier=self._shared,
        )
        self._shared = shared
        return shared.computed_by(self.pool, self.count)

    def _tried(
        self, function: Callable[[Unit], Found], units: Sequence[Unit], sizes: NDArray[np.float64], halted: Halted
    ) -> Generator[Found, None, None]:
        """Compute units in processes, and keep these if they were faster than this process alone."""
        from fairchain.executors.processes import Processes

        self._may_try, alone, threads, done = False, self.each, self.pool, 0
        self.pool = self._own_processes = Processes(self.count)
        self.remote = True
        self._spent = (0.0, 0.0)
        try:
            # All units are computed by the processes: that is the trial.
            self._job = Job.of(function)
            for found in self._sent(function, units, sizes, halted):
                done += 1
                yield found
        except ExecutorError as error:
            self.pool, self.remote, self._job = threads, False, None
            self.note = f"The model is evaluated in one process: {error}."
            yield from self._here(function, units[done:], sizes[done:], halted)
            return
        # From the seconds of the units in their processes: starting a process and loading the model happen once.
        seconds, size = self._spent
        faster = self.count * alone * size / seconds
        kept = faster > LEAST_GAIN
        self.note = (
            f"The model is evaluated in {self.count if kept else 1} {'processes' if kept else 'process'}: "
            f"in a trial {self.count} processes were {faster:.1f} times as fast as one."
        )
        if not kept:
            self.pool, self.remote, self._job, self.each = threads, False, None, alone

    # -- Other processes ---------------------------------------------------------------------------------------------

    def _sent(
        self, function: Callable[[Unit], Found], units: Sequence[Unit], sizes: NDArray[np.float64], halted: Halted
    ) -> Generator[Found, None, None]:
        # A process that starts, or a worker that loads the model, takes seconds: units that are short are computed here
        # until one of them is ready.
        first = 0
        while first < len(units) and self._is_loading(function) and self.each * sizes[first] < WHILE_LOADING:
            if first and halted(self._last):
                return
            yield self._timed(function, units[first], sizes[first])
            first += 1
        assert self._job is not None
        run = Sending(self, self._job, units[first:], sizes[first:])
        try:
            done = 0
            while done < len(units) - first:
                while run.room and not (run.place + first and halted(run.ahead)):
                    run.send_next()
                if (found := run.finished.pop(done, None)) is not None:
                    done += len(found)
                    yield from found
                elif not run.waiting:
                    return
                elif halted(0.0):
                    # The run does not wait for a worker beyond the budget.
                    if not done + first:
                        yield self._timed(function, units[0], sizes[0])
                    return
                else:
                    run.receive()
        finally:
            run.cancel()

    def _is_loading(self, function: Callable[..., Any]) -> bool:
        """Return whether the others are still loading work whose time is known; send it to them first."""
        if self._job is None:
            self._job = Job.of(function)
            self._loading = load(self, self._job) if self.each else ()
        if any(each.done() for each in self._loading):
            self._loading = ()
        return bool(self._loading)


# The argument of internal functions: open workers, a number of threads to open, or None for one for each core.
AnyWorkers = Workers | int | None


@contextmanager
def open_workers(workers: AnyWorkers = None, executor: Executor | str | None = None) -> Iterator[Workers]:
    """Open the workers of a run; already open ones stay open.

    Parameters
    ----------
    workers
        The number of workers: by default those of the executor, or one thread for each core. Or open workers.
    executor
        None for threads; "processes", "dask://HOST:PORT" or "ray://HOST:PORT"; or any executor of `concurrent.futures`,
        which the caller shuts down.
    """
    if isinstance(workers, Workers):
        yield workers
        return
    if workers is not None and workers < 1:
        raise SpecError(TOO_FEW_WORKERS.format(workers=workers))
    if executor is not None:
        from fairchain.executors.connecting import connected

        with connected(executor, workers) as (pool, count):
            yield Workers(pool, count)
        return
    count = workers or default_workers()
    if count < 2:
        yield Workers()
        return
    threads = Threads(count)
    opened = Workers(threads, count)
    try:
        yield opened
    finally:
        opened.close()
        threads.shutdown()
