"""Workers of a run: units of work in, results in the order of the units.

Threads compute in this process. Other executors get units in groups (`sending`) and the work itself once for each
process (`tasks`). The results do not depend on the workers.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ExecutorError, SpecError
from fairchain.executors.sending import Sending
from fairchain.executors.tasks import Job, Reply, WorkerFacts

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future, ThreadPoolExecutor

Unit = TypeVar("Unit")
Found = TypeVar("Found")
# Whether work that takes so many seconds more should not be begun.
Halted = Callable[[float], bool]

# Work that takes less in all is done here, whatever the executor: sending it would take as long. Threads begin sooner.
SMALL_SECONDS, SMALL_FOR_THREADS = 0.1, 0.02
# Work of Python itself that takes longer is tried in processes, which stay if they are so many times as fast; of work
# that comes in small batches all together must take so many seconds.
TRIAL_SECONDS, LEAST_GAIN, WORTH_SECONDS = 3.0, 1.1, 10.0
TOO_FEW_WORKERS = "workers: found {workers}; give at least one, or leave it out for one for each core"


def default_workers() -> int:
    """Return as many threads as this process may use cores."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Threads:
    """Threads of this process, started when they are first used: the work of many runs is too short for them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Call a function in one of the threads."""
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self._count, thread_name_prefix="fairchain")
        return self._pool.submit(function, *arguments)

    def map(self, function: Callable[..., Any], *arguments: Sequence[Any]) -> Iterator[Any]:
        """Yield the results of calls, in order."""
        for future in [self.submit(function, *each) for each in zip(*arguments, strict=False)]:
            yield future.result()

    def shutdown(self) -> None:
        """Wait for what runs, and cancel the rest."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


def _are_threads(pool: Executor | Threads) -> bool:
    if isinstance(pool, Threads):
        return True
    from concurrent.futures import ThreadPoolExecutor

    return isinstance(pool, ThreadPoolExecutor)


class Workers:
    """Workers that compute units of work.

    Parameters
    ----------
    pool
        Threads, another executor, or None to compute everything in the caller's own thread.
    count
        How many units are computed at the same time.

    Attributes
    ----------
    note
        The result of a trial of processes, in a sentence; "" without one.
    """

    note = ""

    def __init__(self, pool: Executor | Threads | None = None, count: int = 1) -> None:
        self.pool, self.count = pool, count
        self.remote = pool is not None and not _are_threads(pool)
        self._processes: dict[str, WorkerFacts] = {}
        # The last function, pickled too; the seconds of its last unit, and those of a unit of size 1.
        self._function: Callable[..., Any] | None = None
        self._job: Job | None = None
        self._last = self._each = 0.0
        # The seconds that units took, and their size, since the last trial.
        self._spent = (0.0, 0.0)
        # Whether the function at work holds Python's lock, so that threads do not help and processes may.
        self._may_try = False
        self._own_processes: Executor | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy nothing: work that is copied to a worker is done there by one worker."""
        return Workers, ()

    def allow_processes(self) -> None:
        """Let processes take the place of threads if they are faster; for work that Python itself does."""
        self._may_try = self.pool is not None and not self.remote

    def batch(self, size: float, seconds: float) -> float:
        """Return how large the next units should be together, of work of this size: some seconds for all workers.

        It is more before a trial of processes, if the work is worth one; 0 while nothing is known.
        """
        if not self._each:
            return 0.0
        if self._may_try:
            return 1.01 * TRIAL_SECONDS / self._each if self._each * size > WORTH_SECONDS else 0.0
        return self.count * seconds / self._each if self.remote else 0.0

    def close(self) -> None:
        """End the processes of a trial."""
        if self._own_processes is not None:
            self._own_processes.shutdown(wait=True, cancel_futures=True)

    @property
    def facts(self) -> dict[WorkerFacts, int]:
        """The other processes that computed something: how many there were of each kind."""
        found: dict[WorkerFacts, int] = {}
        for each in self._processes.values():
            found[each] = found.get(each, 0) + 1
        return found

    @property
    def described(self) -> tuple[str, ...]:
        """The other processes in words: versions of packages, and the processor."""
        return tuple(f"{count} processes with {facts}" for facts, count in self.facts.items())

    def seconds(self, function: Callable[..., Any]) -> float:
        """Return what the last unit of this function took; 0 before the first."""
        return self._last if self._function == function else 0.0

    @property
    def each(self) -> float:
        """What a unit of size 1 of the function at work takes; 0 before the first."""
        return self._each

    @property
    def mean(self) -> float:
        """What a unit of size 1 took in the mean since the last trial; 0 before the first."""
        seconds, size = self._spent
        return seconds / size if size else 0.0

    def took(self, seconds: float, units: int, size: float) -> None:
        """Note what some units took, and their size together."""
        self._last, self._each = seconds / units, seconds / size
        self._spent = self._spent[0] + seconds, self._spent[1] + size

    def map(
        self,
        function: Callable[[Unit], Found],
        units: Sequence[Unit],
        *,
        sizes: Sequence[float] | None = None,
        halted: Halted | None = None,
    ) -> Generator[Found, None, None]:
        """Yield the result of a pure function for each unit, in order, a few computed ahead.

        Parameters
        ----------
        function, units
            What to call, with what. For another process both must be copyable by `pickle`, and the function must not
            change between two calls of `map`.
        sizes
            How long each unit takes in comparison to the others; by default all the same.
        halted
            Called with the seconds that one more unit would take: whether to begin no further one. The first unit is
            computed in any case, and those that are yielded are always the first ones.
        """
        self._begin(function)
        halted = halted or (lambda _: False)
        if len(units) == 1:
            return self._here(function, units, (1.0,) if sizes is None else sizes, halted)
        # A view of one number where all are the same: there can be a hundred million units.
        weights = np.broadcast_to(1.0, len(units)) if sizes is None else np.asarray(sizes, float)
        if self.pool is None:
            return self._here(function, units, weights, halted)
        if self._may_try and self._each * float(weights.sum()) >= TRIAL_SECONDS:
            return self._tried(function, units, weights, halted)
        if self._may_try:
            return self._here(function, units, weights, halted)
        if not self.remote:
            short = 0 < self._each * float(weights.sum()) < SMALL_FOR_THREADS
            return (self._here if short else self._threaded)(function, units, weights, halted)
        if 0 < self._each * float(weights.sum()) < SMALL_SECONDS:
            return self._here(function, units, weights, halted)
        return self._sent(function, units, weights, halted)

    def one(self, function: Callable[[Unit], Found], unit: Unit, size: float) -> Found:
        """Return the result for a single unit, which is computed here; quicker than `map`."""
        self._begin(function)
        return self._timed(function, unit, size)

    def _begin(self, function: Callable[..., Any]) -> None:
        """Forget what is known about another function."""
        if self._function != function:
            self._function, self._job, self._last, self._each = function, None, 0.0, 0.0

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
        self, function: Callable[[Unit], Found], units: Sequence[Unit], sizes: NDArray[np.float64], halted: Halted
    ) -> Generator[Found, None, None]:
        assert self.pool is not None
        waiting: deque[Future[Found]] = deque()
        place = 0
        try:
            while place < len(units) or waiting:
                while place < len(units) and len(waiting) < 2 * self.count:
                    if place and halted((1 + len(waiting) // self.count) * self._last):
                        break
                    waiting.append(self.pool.submit(self._timed, function, units[place], sizes[place]))
                    place += 1
                if not waiting:
                    return
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def _tried(
        self, function: Callable[[Unit], Found], units: Sequence[Unit], sizes: NDArray[np.float64], halted: Halted
    ) -> Generator[Found, None, None]:
        """Compute units in processes, and keep them if they were faster than this process is by itself."""
        from fairchain.executors.processes import Processes

        self._may_try, alone, threads, done = False, self._each, self.pool, 0
        self.pool = self._own_processes = Processes(self.count)
        self.remote = True
        self._spent = (0.0, 0.0)
        try:
            for found in self._sent(function, units, sizes, halted):
                done += 1
                yield found
        except ExecutorError as error:
            self.pool, self.remote, self._job = threads, False, None
            self.note = f"The model is evaluated in one process: {error}."
            yield from self._here(function, units[done:], sizes[done:], halted)
            return
        # By what the units took where they were computed: starting a process and loading the model happen once.
        seconds, size = self._spent
        faster = self.count * alone * size / seconds
        kept = faster > LEAST_GAIN
        self.note = (
            f"The model is evaluated in {self.count if kept else 1} {'processes' if kept else 'process'}: "
            f"in a trial {self.count} processes were {faster:.1f} times as fast as one."
        )
        if not kept:
            self.pool, self.remote, self._job, self._each = threads, False, None, alone

    # -- Other processes ---------------------------------------------------------------------------------------------

    def _sent(
        self, function: Callable[[Unit], Found], units: Sequence[Unit], sizes: NDArray[np.float64], halted: Halted
    ) -> Generator[Found, None, None]:
        if self._job is None:
            self._job = Job.of(function)
        run = Sending(self, self._job, units, sizes)
        try:
            done = 0
            while done < len(units):
                while run.room and not (run.place and halted(run.ahead)):
                    run.send_next()
                if (found := run.finished.pop(done, None)) is not None:
                    done += len(found)
                    yield from found
                elif not run.waiting:
                    return
                elif done and halted(0.0):
                    # Nobody waits for a worker beyond the budget.
                    return
                elif not done and halted(0.0):
                    yield self._timed(function, units[0], sizes[0])
                    return
                else:
                    run.receive()
        finally:
            run.cancel()

    def met(self, reply: Reply) -> None:
        """Note who answered."""
        self._processes[reply.process] = reply.facts


# What internal functions take: workers that are open, how many threads to open, or None for one for each core.
AnyWorkers = Workers | int | None


@contextmanager
def open_workers(workers: AnyWorkers = None, executor: Executor | str | None = None) -> Iterator[Workers]:
    """Open the workers of a run; those that are open already stay open.

    Parameters
    ----------
    workers
        How many: by default as many as the executor has, threads for each core. Or workers that are open.
    executor
        None for threads; "processes", "dask://HOST:PORT" or "ray://HOST:PORT"; or any executor of
        `concurrent.futures`, which is the caller's to shut down.
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
