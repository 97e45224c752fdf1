"""Rounds through the network, counted. Chunks are the unit of work; their layout never depends on the workers.

A batch is a run of chunks of one size (the last one may be shorter) that follows from its number of rounds. Workers
are threads: drawing and the network both run outside Python's lock for most of the time. A batch that is cut short
keeps the chunks from its beginning that are done, so what is counted is always a prefix of what was planned.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairchain.certificate_format import MOST_VALUES
from fairchain.models import Model
from fairchain.models.base import decide
from fairchain.models.onnx.rounding import check_alone
from fairchain.populations import Population, Scratch
from fairchain.populations.streams import decision_words
from fairchain.spec import Comparison
from fairchain.statistics.tally import Counts, write_together

# Up to so many rows all groups of a chunk go through the network in one call; beyond, a call for each group is full.
ROWS_PER_CALL = 4096
# What a worker returns for one chunk: its counts, and the labels that it saw.
Done = tuple[NDArray[np.integer], set[int]]
Found = TypeVar("Found")
# Returns the labels of a chunk, of which some may be known from other questions.
Recall = Callable[[int, int, Sequence[int], Callable[[Sequence[int]], NDArray[np.integer]]], NDArray[np.integer]]
# Whether work that takes so many seconds more should not be begun.
Halted = Callable[[float], bool]


@dataclass(frozen=True)
class Batch:
    """The counts of a batch of rounds.

    `first` is its first chunk, `size` the rounds in a chunk (fewer in the last), and `chunks` how many there are.
    `together` counts the rounds in which two groups both got the outcome, (outcomes, groups, groups), and `parts` does
    so for every chunk, since a chunk can be checked without the rest; `parts` is empty in a run with more counts than a
    certificate can hold. `labels` are all labels that the network gave in the batch, counted or not.
    """

    first: int
    size: int
    rounds: int
    chunks: int
    together: Counts
    parts: tuple[NDArray[np.integer], ...]
    labels: tuple[int, ...]


def chunk_rounds(rounds: int) -> int:
    """Return rounds in a chunk of a batch: at least two chunks to share, but none shorter than pays.

    Powers of two: onnxruntime keeps memory for each size that it has seen.
    """
    size = 1024
    while size < 8192 and 4 * size <= rounds:
        size *= 2
    return size


def labels_in(labels: NDArray[np.integer]) -> set[int]:
    """Return the different labels of an array; those of two neighbouring labels without a pass over all of them."""
    if not labels.size:
        return set()
    low, high = int(labels.min()), int(labels.max())
    if high - low <= 1:
        return {low, high}
    return set(np.flatnonzero(np.bincount(labels.ravel())).tolist())


def default_workers() -> int:
    """Return as many threads as this process may use cores."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Sampler:
    """Runs batches of rounds through a network.

    Parameters
    ----------
    model, population
        The network, and the distribution of its inputs.
    seed, comparison
        The seed of the streams; the subgroups that are evaluated, and what is counted.
    coupled
        Whether all groups share a round's random numbers.
    pool, workers
        Threads to use, and how many there are.
    recall
        Called with chunk, rounds, groups and what evaluates groups: returns labels that are known without evaluating.
    """

    def __init__(
        self,
        model: Model,
        population: Population,
        seed: int,
        comparison: Comparison,
        *,
        coupled: bool = True,
        pool: ThreadPoolExecutor | None = None,
        workers: int = 1,
        recall: Recall | None = None,
    ) -> None:
        self._recall = recall
        self._model, self._population, self._seed = model, population, seed
        self._comparison, self._coupled = comparison, coupled
        self._pool, self._workers = pool, workers
        self._own = threading.local()
        self._kept = 0
        # What the last chunk took; the next one is at most twice as long, and mostly as long.
        self.seconds = 0.0

    def labels(self, chunk: int, count: int, groups: Sequence[int]) -> NDArray[np.integer]:
        """Return (groups, rounds): the class each group gets in each round of a chunk."""
        if self._recall is not None:
            return self._recall(chunk, count, groups, partial(self._evaluate, chunk, count))
        return self._evaluate(chunk, count, groups)

    def _evaluate(self, chunk: int, count: int, groups: Sequence[int]) -> NDArray[np.integer]:
        draw = partial(self._population.rounds, self._seed, chunk, count, scratch=self._scratch())
        words = decision_words(self._seed, chunk, count) if self._model.drawn else None
        if self._coupled and count * len(groups) <= ROWS_PER_CALL:
            # All groups of a round share its word.
            every = None if words is None else np.tile(words, len(groups))
            return self._decide(draw(subgroups=groups).inputs(groups), chunk, every).reshape(len(groups), count)
        rounds = draw(subgroups=groups) if self._coupled else None
        labels = np.empty((len(groups), count), np.uint16)
        for row, group in zip(labels, groups, strict=True):
            own = rounds or draw(copy=1 + group, subgroups=[group])
            if words is not None and not self._coupled:
                words = decision_words(self._seed, chunk, count, copy=1 + group)
            row[:] = self._decide(own.show(group), chunk, words)
        return labels

    def _decide(self, values: NDArray[Any], chunk: int, words: NDArray[np.uint32] | None = None) -> NDArray[np.integer]:
        """Return the class of each row, some of which are evaluated alone too."""
        labels = decide(self._model, values, words)
        check_alone(self._model, values, labels, chunk, words=words)
        return labels

    def _scratch(self) -> Scratch:
        """Return the scratch memory of this worker."""
        scratch: Scratch | None = getattr(self._own, "scratch", None)
        if scratch is None:
            scratch = self._own.scratch = Scratch()
        return scratch

    def run(self, first: int, rounds: int, groups: Sequence[int], halted: Halted) -> Batch:
        """Sample `rounds` rounds from chunk `first` on, or fewer whole chunks if it is `halted` meanwhile."""
        size = chunk_rounds(rounds)
        sizes = [min(size, rounds - start) for start in range(0, rounds, size)]
        subgroups = self._comparison.asks(groups)

        def work(place: int) -> Done:
            start = time.perf_counter()
            labels = self.labels(first + place, sizes[place], subgroups)
            folded, rows = self._comparison.fold(labels), self._comparison.rows
            # The counts of many chunks are kept, and none is above the rounds of its chunk.
            counts = np.zeros((len(rows), len(folded), len(folded)), np.min_scalar_type(sizes[place]))
            write_together(counts, folded, rows)
            seen = labels_in(labels)
            self.seconds = time.perf_counter() - start
            return counts, seen

        def no_time(waiting: int) -> bool:
            return halted((1 + waiting // self._workers) * self.seconds)

        together: Counts | None = None
        parts: list[NDArray[np.integer]] = []
        seen: set[int] = set()
        done = 0
        for counts, labels in in_order(self._pool, self._workers, work, len(sizes), no_time):
            together = counts.astype(np.int64) if together is None else np.add(together, counts, out=together)
            # A certificate has each pair of groups once.
            self._kept += counts.size // 2
            if self._kept <= MOST_VALUES:
                parts.append(counts)
            seen |= labels
            done += 1
        assert together is not None
        kept = tuple(parts) if len(parts) == done else ()
        return Batch(first, size, sum(sizes[:done]), done, together, kept, tuple(sorted(seen)))


def in_order(
    pool: ThreadPoolExecutor | None,
    workers: int,
    work: Callable[[int], Found],
    count: int,
    no_time: Callable[[int], bool],
) -> Generator[Found, None, None]:
    """Yield the results of `work` for 0, 1, ..., a few ahead on the workers; the first one in any case.

    Parameters
    ----------
    pool, workers
        Threads to use, and how many there are.
    work, count
        What to call, with which numbers below which.
    no_time
        Called with the number of calls under way: whether no further one should be begun.
    """
    if pool is None or count == 1:
        for place in range(count):
            if place and no_time(0):
                return
            yield work(place)
        return
    waiting: deque[Future[Found]] = deque()
    place = 0
    while place < count or waiting:
        while place < count and len(waiting) < 2 * workers and not (place and no_time(len(waiting))):
            waiting.append(pool.submit(work, place))
            place += 1
        if not waiting:
            return
        yield waiting.popleft().result()


@contextmanager
def thread_pool(workers: int) -> Iterator[ThreadPoolExecutor | None]:
    """Open threads for the time of a run; none for one worker, and none that outlive an interruption."""
    if workers < 2:
        yield None
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="fairchain")
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
