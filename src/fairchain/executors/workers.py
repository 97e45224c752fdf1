"""Workers of a run: units of work in, results in the order of the units.

Threads compute in this process. Other executors get units in groups, which take long enough for the way there and
back to cost little, and the work itself once for each process (`tasks`). The results do not depend on the workers, so
that a unit that is lost with its worker, or late, is simply computed again.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ExecutorError, SpecError
from fairchain.executors.tasks import Job, Reply, WorkerFacts, run_units

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future, ThreadPoolExecutor

Unit = TypeVar("Unit")
Found = TypeVar("Found")
# Whether work that takes so many seconds more should not be begun.
Halted = Callable[[float], bool]

# A group of units should take so many seconds, and no fewer than these while there is enough for all workers.
GROUP_SECONDS, LEAST_SECONDS = 0.25, 0.1
# Processor time that a scheduler may need for a group: with many workers groups are longer, or it could not follow.
SCHEDULER_SECONDS = 0.004
# So many workers, if there are as many, get a part of any work.
FEW_WORKERS = 8
# Work that takes less in all is done here, whatever the executor: sending it would take as long. Threads begin sooner.
SMALL_SECONDS, SMALL_FOR_THREADS = 0.1, 0.02
# Work of Python itself that takes longer is tried in processes, which stay if they are so many times as fast; of work
# that comes in small batches all together must take so many seconds.
TRIAL_SECONDS, LEAST_GAIN, WORTH_SECONDS = 3.0, 1.1, 10.0
# How often a group is sent before the run gives up.
TRIES = 4
# A group is sent to a second worker if it takes so many times as long as expected, and at least so many seconds; the
# first ones, which load the model, may take longer.
LATE, LATE_SECONDS, FIRST_SECONDS = 5, 5.0, 60.0
# Seconds between two looks at what is late, and at whether the run should end.
LOOK_SECONDS = 0.2
# Jobs up to this size are sent with every group, larger ones where they are missing.
SMALL_JOB = 2**16
LOST_WORK = (
    "the executor lost the same work {tries} times, most recently with {error}: {message}; look at its workers "
    "(memory, connection), then run again"
)
TOO_FEW_WORKERS = "workers: found {workers}; give at least one, or leave it out for one for each core"


def default_workers() -> int:
    """Return as many threads as this process may use cores."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(eq=False)
class _Group:
    """Some units that are computed together: where they begin, how often they were sent, and when last."""

    start: int
    units: Sequence[Any]
    size: float
    tries: int = 0
    sent: float = 0.0
    copies: int = 0


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
        if self._function != function:
            self._function, self._job, self._last, self._each = function, None, 0.0, 0.0
        # A view of one number where all are the same: there can be a hundred million units.
        weights = np.broadcast_to(1.0, len(units)) if sizes is None else np.asarray(sizes, float)
        halted = halted or (lambda _: False)
        if self.pool is None or len(units) == 1:
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

    def _timed(self, function: Callable[[Unit], Found], unit: Unit, size: float) -> Found:
        start = time.perf_counter()
        found = function(unit)
        self.took(time.perf_counter() - start, 1, size)
        return found

    def _here(
        self, function: Callable[[Unit], Found], units: Sequence[Unit], sizes: NDArray[np.float64], halted: Halted
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
        run = _Sending(self, self._job, units, sizes)
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


def group_size(left: float, total: float, count: int, each: float) -> float:
    """Return the size of the next group: less towards the end, so that all workers end together.

    Parameters
    ----------
    left, total
        The size of all units that were not sent yet, and of all.
    count, each
        The workers, and the seconds of a unit of size 1.
    """
    seconds = left * each
    # Little work is faster with few workers: n groups take its n-th part, and n times what the scheduler needs.
    few = min(count * SCHEDULER_SECONDS, math.sqrt(seconds * SCHEDULER_SECONDS))
    longest, least = max(GROUP_SECONDS, count * SCHEDULER_SECONDS), max(LEAST_SECONDS, few)
    if (share := seconds / (2 * count)) > least:
        return min(longest, share) / each
    # No more than a share of all, however little it seems: the first units may have been quick ones.
    return min(left / math.ceil(seconds / least), total / min(count, FEW_WORKERS))


class _Sending:
    """The groups of one call of `map` that are on their way, and the results that came back."""

    def __init__(self, workers: Workers, job: Job, units: Sequence[Any], sizes: NDArray[np.float64]) -> None:
        self._workers, self._job, self._units, self._sizes = workers, job, units, sizes
        self._left = self._total = float(sizes.sum())
        self._with_job = 0
        self.place = 0
        self.waiting: dict[Future[Any], _Group] = {}
        # The size of all that is waited for, and what came back: with a thousand workers no reply may take longer the
        # more groups are on their way.
        self._queued = 0.0
        self._arrived: SimpleQueue[Future[Any]] = SimpleQueue()
        self.finished: dict[int, Sequence[Any]] = {}

    @property
    def room(self) -> bool:
        """Whether another group should be sent: two for each worker, so that none has to wait for us."""
        return self.place < len(self._units) and len(self.waiting) < 2 * self._workers.count

    @property
    def ahead(self) -> float:
        """The seconds until a group that is sent now would be back."""
        return float(self._sizes[self.place] + self._queued / self._workers.count) * self._workers.each

    def send_next(self) -> None:
        """Send the next units: as many as take long enough."""
        count, each = self._workers.count, self._workers.each
        most = (
            group_size(self._left, self._total, count, each)
            if each
            else min(self._left / (8 * count), self._left / len(self._units))
        )
        start, size = self.place, 0.0
        while self.place < len(self._units) and (self.place == start or size + self._sizes[self.place] <= most):
            size += self._sizes[self.place]
            self.place += 1
        self._left -= size
        self._send(_Group(start, self._units[start : self.place], size))

    def _send(self, group: _Group, *, with_job: bool = False) -> None:
        # The first groups bring the job along; a worker that does not know it later requests it.
        first = self._with_job < 2 * self._workers.count and group.tries == 0
        job = self._job if with_job or first or len(self._job.content) <= SMALL_JOB else None
        self._with_job += job is not None
        group.tries += 1
        group.copies += 1
        group.sent = time.perf_counter()
        assert self._workers.pool is not None
        try:
            future = self._workers.pool.submit(run_units, self._job.sha256, job, group.units)
        except Exception as error:  # a broken pool, a closed connection
            group.copies -= 1
            raise self._given_up(group, error) from None
        self.waiting[future] = group
        self._queued += group.size
        future.add_done_callback(self._arrived.put)

    def receive(self) -> None:
        """Wait for a group, or until one is late; take what came, and send again what was lost."""
        try:
            future = self._arrived.get(timeout=LOOK_SECONDS)
        except Empty:
            # While others answer, a group that is late may wait behind theirs.
            self._send_late()
            return
        # A copy of a group that came back before is not waited for.
        if (group := self._no_longer(future)) is not None:
            self._take(future, group)

    def _no_longer(self, future: Future[Any]) -> _Group | None:
        """Stop waiting for one copy of a group; return the group."""
        group = self.waiting.pop(future, None)
        if group is not None:
            group.copies -= 1
            self._queued -= group.size
        return group

    def _take(self, future: Future[Any], group: _Group) -> None:
        from concurrent.futures import CancelledError

        try:
            reply: Reply = future.result()
        except (Exception, CancelledError) as error:  # each executor has its own ways to lose a worker
            self._again(group, error)
            return
        if not isinstance(reply, Reply):
            self._again(group, TypeError(f"a reply of type {type(reply).__name__}"))
            return
        if reply.error is not None:
            raise reply.error
        if reply.missing:
            group.tries -= 1
            self._send(group, with_job=True)
        elif reply.memory:
            self._again(group, MemoryError(f"worker {reply.process} has not enough memory"))
        elif len(reply.results) != len(group.units):
            # Results that are too few or too many would belong to other units.
            self._again(group, ValueError(f"{len(reply.results)} results for {len(group.units)} units of work"))
        else:
            self._workers.met(reply)
            self._workers.took(reply.seconds, len(group.units), group.size)
            self.finished[group.start] = reply.results
            for other in [each for each, copy in self.waiting.items() if copy is group] if group.copies else ():
                self._no_longer(other)
                other.cancel()

    def _again(self, group: _Group, error: BaseException) -> None:
        """Send a group that was lost again, to any worker; alone if it was too much for one worker's memory."""
        if group.copies:
            return
        if group.tries >= TRIES:
            raise self._given_up(group, error)
        if isinstance(error, MemoryError) and len(group.units) > 1:
            for place, unit in enumerate(group.units):
                self._send(_Group(group.start + place, [unit], group.size / len(group.units), group.tries))
            return
        self._send(group, with_job=True)

    def _send_late(self) -> None:
        """Send groups that are late to another worker too; give up when several workers do not answer."""
        for group in list(self.waiting.values()):
            # Two groups may be in front of it.
            each = self._workers.each
            late = max(LATE_SECONDS, LATE * 3 * group.size * each) if each else FIRST_SECONDS
            if time.perf_counter() - group.sent > late * 2 ** (group.copies - 1):
                if group.tries >= TRIES:
                    raise self._given_up(group, TimeoutError("no worker answers"))
                self._send(group, with_job=True)

    def _given_up(self, group: _Group, error: BaseException) -> ExecutorError:
        last = str(error).strip().splitlines() or [type(error).__name__]
        return ExecutorError(LOST_WORK.format(tries=group.tries, error=type(error).__name__, message=last[0][:300]))

    def cancel(self) -> None:
        """Ask for nothing further."""
        for future in self.waiting:
            future.cancel()


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
