"""Rounds through the network, counted. Chunks are the unit of work; their layout never depends on the workers.

A batch is a run of chunks of one size (the last one may be shorter) that follows from its planned rounds. Workers may
be threads: drawing and the network both run outside Python's lock for most of the time. A batch that is cut short, by a
budget or while it runs, keeps its first rounds, so what is counted is always a prefix of what was planned.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fairchain.certificate_format import MOST_VALUES
from fairchain.executors import Workers
from fairchain.executors.workers import Halted
from fairchain.models import Model
from fairchain.models.base import decide
from fairchain.models.onnx.rounding import check_alone
from fairchain.populations import Population, Scratch
from fairchain.populations.streams import decision_words
from fairchain.spec import Comparison
from fairchain.statistics.rules import GROWTH
from fairchain.statistics.tally import Counts, write_together

# Up to so many rows all groups of a chunk go through the network in one call; beyond, a call for each group is full.
ROWS_PER_CALL = 4096
# Rounds of the largest chunks, those of long batches.
LARGEST_CHUNK = 8192
# Up to this many labels, Python reads their bytes faster than numpy finds the smallest and the largest one.
READ_AS_BYTES = 256
# What a worker returns for one chunk: its counts, and the labels that it saw.
Done = tuple[NDArray[np.integer], set[int]]
# A chunk as a unit of work: its number, the rounds that are drawn and those of them that are counted, and the subgroups
# that are evaluated.
ChunkUnit = tuple[int, int, int, tuple[int, ...]]
# Returns the labels of a chunk (its number, and its rounds counted and drawn); some may be known from other questions.
Recall = Callable[
    [tuple[int, int, int], Sequence[int], Callable[[Sequence[int]], NDArray[np.integer]]], NDArray[np.integer]
]


class Batch(Struct, frozen=True):
    """The counts of a batch of rounds.

    `first` is its first chunk, `size` the rounds in a chunk (fewer in the last), `rounds` and `chunks` how many were
    counted.
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
    while size < LARGEST_CHUNK and 4 * size <= rounds:
        size *= 2
    return size


def labels_in(labels: NDArray[np.integer]) -> set[int]:
    """Return the different labels of an array; those of two neighbouring labels without a pass over all of them."""
    if labels.itemsize == 1 and labels.size <= READ_AS_BYTES:
        return set(labels.tobytes())
    if not labels.size:
        return set()
    flat = labels.reshape(-1)
    low, high = int(np.minimum.reduce(flat)), int(np.maximum.reduce(flat))
    if high - low <= 1:
        return {low, high}
    return set(np.flatnonzero(np.bincount(flat)).tolist())


class Sampler:
    """Runs batches of rounds through a network.

    If `coupled`, all groups share a round's random numbers. Chunks are counted by `workers`, in another process by a
    copy of this object. `recall` is called with the chunk and its rounds, the groups and what evaluates groups, and
    returns labels that are known without evaluating; another process evaluates all of them.
    """

    def __init__(
        self,
        model: Model,
        population: Population,
        seed: int,
        comparison: Comparison,
        *,
        coupled: bool = True,
        workers: Workers | None = None,
        recall: Recall | None = None,
    ) -> None:
        self._model, self._population, self._seed, self._comparison = model, population, seed, comparison
        self._coupled, self._workers, self._recall = coupled, workers or Workers(), recall
        self._own = threading.local()
        self._kept = 0
        # What the last chunk took.
        self.seconds = 0.0
        # Rounds that are probably drawn and counted after the next batch, and for each chunk what follows it: requests
        # to a service are sent ahead.
        self.after: tuple[int, int] | None = None
        self._following: dict[int, ChunkUnit] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy what the counts depend on."""
        return partial(Sampler, coupled=self._coupled), (self._model, self._population, self._seed, self._comparison)

    def labels(self, chunk: int, count: int, groups: Sequence[int], *, drawn: int | None = None) -> NDArray[np.integer]:
        """Return (groups, rounds): the class each group gets in each of the first rounds of a chunk.

        The chunk has `drawn` rounds, by default as many as are returned.
        """
        drawn = drawn or count
        if self._recall is not None:
            return self._recall((chunk, count, drawn), groups, partial(self._evaluate, chunk, count, drawn))
        return self._evaluate(chunk, count, drawn, groups)

    def _evaluate(self, chunk: int, count: int, drawn: int, groups: Sequence[int]) -> NDArray[np.integer]:
        rounds_of = self._population.rounds
        # Each thread has its own scratch memory.
        scratch: Scratch | None = getattr(self._own, "scratch", None)
        if scratch is None:
            alone = self._workers.pool is None or self._workers.remote
            scratch = self._own.scratch = Scratch(alone=alone)
        words = decision_words(self._seed, chunk, count) if self._model.drawn else None
        rounds = rounds_of(self._seed, chunk, count, 0, scratch, groups, drawn) if self._coupled else None
        if rounds is not None and count * len(groups) <= ROWS_PER_CALL:
            # All groups of a round share its word.
            every = None if words is None else np.tile(words, len(groups))
            return self._decide(rounds.inputs(groups), chunk, every).reshape(len(groups), count)
        labels = np.empty((len(groups), count), np.uint16)
        for row, group in zip(labels, groups, strict=True):
            own = rounds or rounds_of(self._seed, chunk, count, 1 + group, scratch, [group], drawn)
            if words is not None and not self._coupled:
                words = decision_words(self._seed, chunk, count, copy=1 + group)
            row[:] = self._decide(own.show(group), chunk, words)
        return labels

    def _decide(self, values: NDArray[Any], chunk: int, words: NDArray[np.uint32] | None = None) -> NDArray[np.integer]:
        """Return the class of each row, some of which are evaluated alone too."""
        labels = decide(self._model, values, words)
        check_alone(self._model, values, labels, chunk, words=words)
        return labels

    def count(self, unit: ChunkUnit) -> Done:
        """Return the counts of one chunk, and the labels that were given in it."""
        chunk, drawn, rounds, subgroups = unit
        if following := self._following.get(chunk):
            self._model.expect(partial(self._inputs, following))  # type: ignore[attr-defined]  # of a `FunctionModel`
        labels = self.labels(chunk, rounds, subgroups, drawn=drawn)
        folded, rows = self._comparison.fold(labels), self._comparison.rows
        # The counts of many chunks are kept, and none is above the rounds of its chunk.
        counts = np.zeros((len(rows), len(folded), len(folded)), np.min_scalar_type(rounds))
        write_together(counts, folded, rows)
        return counts, labels_in(labels)

    def _inputs(self, unit: ChunkUnit) -> NDArray[Any] | None:
        """Return the inputs of a chunk; None where they would fill more than one call."""
        chunk, drawn, rounds, subgroups = unit
        if not self._coupled or rounds * len(subgroups) > ROWS_PER_CALL:
            return None
        # Those of the chunk that is being evaluated stay where they are.
        own = self._population.rounds(self._seed, chunk, rounds, scratch=Scratch(), subgroups=subgroups, drawn=drawn)
        return own.inputs(subgroups)

    def seconds_for(self, planned: int, groups: Sequence[int], most: int) -> float:
        """Return what the first chunk of a batch is expected to take: as much as the last one, or more if longer."""
        size = min(planned, most, chunk_rounds(planned)) * len(self._comparison.evaluated(groups))
        return max(self.seconds, self._workers.mean * size)

    def run(self, first: int, planned: int, groups: Sequence[int], halted: Halted, most: int | None = None) -> Batch:
        """Sample a batch of `planned` rounds from chunk `first` on.

        A budget cuts it to its `most` first rounds, and to fewer whole chunks if it is `halted` meanwhile. What is
        counted does not depend on the budget otherwise: chunks are drawn as planned.
        """
        size = chunk_rounds(planned)
        rounds = planned if most is None else min(planned, most)
        subgroups = tuple(self._comparison.evaluated(groups))
        units = [
            (first + place, min(size, planned - start), min(size, rounds - start), subgroups)
            for place, start in enumerate(range(0, rounds, size))
        ]
        if getattr(self._model, "costly", False):
            last = [(first + len(units), *self.after, subgroups)] if self.after else []
            self._following = {unit[0] - 1: unit for unit in (*units[1:], *last)}
        if len(units) == 1:
            counts, labels = self._workers.one(self.count, units[0], rounds * len(subgroups))
            self.seconds = self._workers.seconds(self.count)
            kept = [counts] if self._keeps(counts) else []
            return Batch(first, size, rounds, 1, counts.astype(np.int64), tuple(kept), tuple(sorted(labels)))
        costs = [count * len(subgroups) for _, _, count, _ in units]
        together: Counts | None = None
        kept, seen, done = [], set[int](), 0
        expected = self._expected(units, planned, most)
        for counts, labels in self._workers.map(self.count, units, sizes=costs, halted=halted, expected=expected):
            together = counts.astype(np.int64) if together is None else np.add(together, counts, out=together)
            if self._keeps(counts):
                kept.append(counts)
            seen |= labels
            done += 1
        self.seconds = self._workers.seconds(self.count)
        assert together is not None
        parts = tuple(kept) if len(kept) == done else ()
        return Batch(first, size, min(done * size, rounds), done, together, parts, tuple(sorted(seen)))

    def _keeps(self, counts: NDArray[np.integer]) -> bool:
        """Return whether the counts of a further chunk are kept: a certificate has each pair of groups once."""
        self._kept += counts.size // 2
        return self._kept <= MOST_VALUES

    def _expected(self, units: Sequence[ChunkUnit], planned: int, most: int | None) -> list[ChunkUnit]:
        """Return the chunks with which the batch after these units probably begins, at most two for each worker.

        It is probably longer by an eighth, and has the same subgroups. None for the user's own code: calls in vain
        would exceed a budget.
        """
        if self._recall is not None or hasattr(self._model, "expect"):  # a `FunctionModel`
            return []
        size = chunk_rounds(planned + planned // GROWTH)
        whole = (planned if most is None else min(planned, most - planned)) // size
        last, _, _, subgroups = units[-1]
        return [(last + 1 + place, size, size, subgroups) for place in range(min(whole, 2 * self._workers.count))]
