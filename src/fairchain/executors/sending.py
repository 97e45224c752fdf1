"""Sending units of work to other processes in groups; lost and late groups are sent again.

A group takes long enough that its transfer costs little. Results do not depend on the worker that computes them, so a
group that is lost with its worker, or late, is computed again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ExecutorError
from fairchain.executors.tasks import Job, Reply, Sealed, run_units
from fairchain.executors.threads import Threads

if TYPE_CHECKING:
    from concurrent.futures import Future

    from fairchain.executors.workers import Workers

# Seconds that a group of units should take, and the fewest seconds while there is enough work for all workers.
GROUP_SECONDS, LEAST_SECONDS = 0.25, 0.1
# Processor time of a scheduler for a group: with many workers groups are longer, so that the scheduler keeps up.
SCHEDULER_SECONDS = 0.004
# Number of workers that get a part of any work, if there are that many.
FEW_WORKERS = 8
# Number of times that a group is sent before the run ends with an error.
TRIES = 4
# A group is sent to a second worker if it takes LATE times as long as expected, and at least LATE_SECONDS; the first
# groups, which load the model, may take longer (FIRST_SECONDS).
LATE, LATE_SECONDS, FIRST_SECONDS = 5, 5.0, 60.0
# Seconds between two checks for late groups and for the end of the run.
LOOK_SECONDS = 0.2
# Jobs up to this size are sent with every group, larger ones only to workers that lack them.
SMALL_JOB = 2**16
LOST_WORK = (
    "the executor lost the same work {tries} times, most recently with {error}: {message}; check its workers "
    "(memory, connection), then run again"
)


@dataclass(eq=False)
class _Group:
    """Units that are computed together: their first index, the number of times they were sent, and the last time."""

    start: int
    units: Sequence[Any]
    size: float
    tries: int = 0
    sent: float = 0.0
    copies: int = 0


def group_size(left: float, total: float, count: int, each: float) -> float:
    """Return the size of the next group: smaller towards the end, so that all workers end together.

    `left` and `total` are the sizes of the units that were not sent yet and of all units, `count` is the number of
    workers, and `each` the seconds of a unit of size 1.
    """
    seconds = left * each
    # Little work is faster with few workers: n groups take an n-th of its time, plus n times the scheduler's time.
    few = min(count * SCHEDULER_SECONDS, math.sqrt(seconds * SCHEDULER_SECONDS))
    longest, least = max(GROUP_SECONDS, count * SCHEDULER_SECONDS), max(LEAST_SECONDS, few)
    if (share := seconds / (2 * count)) > least:
        return min(longest, share) / each
    # At most a share of all work, even if it seems little: the first units may have been quick ones.
    return min(left / math.ceil(seconds / least), total / min(count, FEW_WORKERS))


def load(workers: Workers, job: Job) -> list[Future[Any]]:
    """Let some workers load a job, without work yet; what goes wrong there is noticed with the first group."""
    assert not isinstance(workers.pool, Threads | None)
    try:
        return [
            workers.pool.submit(run_units, job.sha256, job, Sealed(())) for _ in range(min(workers.count, FEW_WORKERS))
        ]
    except Exception:  # a broken pool, a closed connection
        return []


class Sending:
    """The groups of one call of `map` that are being computed, and the results so far."""

    def __init__(self, workers: Workers, job: Job, units: Sequence[Any], sizes: NDArray[np.float64]) -> None:
        self._workers, self._job, self._units, self._sizes = workers, job, units, sizes
        self._left = self._total = float(sizes.sum())
        self._with_job = 0
        self.place = 0
        self.waiting: dict[Future[Any], _Group] = {}
        # The total size of the waiting groups, and the futures that are done: with a thousand workers, the cost of a
        # reply must not grow with the number of groups.
        self._queued = 0.0
        self._arrived: SimpleQueue[Future[Any]] = SimpleQueue()
        self.finished: dict[int, Sequence[Any]] = {}

    @property
    def room(self) -> bool:
        """Whether another group should be sent: two for each worker, so that no worker is idle."""
        return self.place < len(self._units) and len(self.waiting) < 2 * self._workers.count

    @property
    def ahead(self) -> float:
        """The seconds until the result of a group that is sent now is expected."""
        return float(self._sizes[self.place] + self._queued / self._workers.count) * self._workers.each

    def send_next(self) -> None:
        """Send the next units, as many as fill a group."""
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
        # The first groups contain the job; a worker that lacks it later requests it.
        first = self._with_job < 2 * self._workers.count and group.tries == 0
        job = self._job if with_job or first or len(self._job.content) <= SMALL_JOB else None
        self._with_job += job is not None
        group.tries += 1
        group.copies += 1
        group.sent = time.perf_counter()
        pool = self._workers.pool
        assert not isinstance(pool, Threads | None)
        try:
            future = pool.submit(run_units, self._job.sha256, job, Sealed(group.units))
        except Exception as error:  # a broken pool, a closed connection
            group.copies -= 1
            raise self._given_up(group, error) from None
        self.waiting[future] = group
        self._queued += group.size
        future.add_done_callback(self._arrived.put)

    def receive(self) -> None:
        """Wait for a group, or until one is late; collect results, and send lost groups again."""
        from concurrent.futures import CancelledError

        try:
            future = self._arrived.get(timeout=LOOK_SECONDS)
        except Empty:
            # While other groups are answered, a late group may wait behind them.
            self._send_late()
            return
        # No copy of a group is awaited once its result is known.
        if (group := self._no_longer(future)) is None:
            return
        try:
            reply = future.result()
            reply = reply.value if isinstance(reply, Sealed) else reply
        except (Exception, CancelledError) as error:  # each executor has its own exceptions for a lost worker
            self._again(group, error)
            return
        if not isinstance(reply, Reply):
            self._again(group, TypeError(f"a reply of type {type(reply).__name__}"))
        elif reply.error is not None:
            raise reply.error
        elif reply.missing:
            group.tries -= 1
            self._send(group, with_job=True)
        elif reply.memory:
            self._again(group, MemoryError(f"worker {reply.process} has not enough memory"))
        elif len(reply.results) != len(group.units):
            # A reply with too few or too many results could be mistaken for results of other units.
            self._again(group, ValueError(f"{len(reply.results)} results for {len(group.units)} units of work"))
        else:
            self._workers.processes[reply.process] = reply.facts
            self._workers.took(reply.seconds, len(group.units), group.size)
            self.finished[group.start] = reply.results
            for other in [each for each, copy in self.waiting.items() if copy is group] if group.copies else ():
                self._no_longer(other)
                other.cancel()

    def _no_longer(self, future: Future[Any]) -> _Group | None:
        """Stop waiting for one copy of a group; return the group."""
        group = self.waiting.pop(future, None)
        if group is not None:
            group.copies -= 1
            self._queued -= group.size
        return group

    def _again(self, group: _Group, error: BaseException) -> None:
        """Send a lost group again, to any worker; send its units one by one if a worker ran out of memory."""
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
        """Send late groups to another worker too; raise an error if several workers do not answer."""
        for group in list(self.waiting.values()):
            # Two groups may be ahead of it.
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
        """Cancel all groups that are still waiting."""
        for future in self.waiting:
            future.cancel()
