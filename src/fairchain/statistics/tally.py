"""Counts of coupled rounds: the whole state of a run. Tallies are additive, in any order, across workers and restarts.

For every outcome and every ordered pair of groups (i, j) a tally has the number of rounds in which both were evaluated,
in which both got the outcome, and in which only i did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Counts = NDArray[np.int64]
# Pairs and outcomes of a part of a large tally.
PAIRS_IN_PART = 2**18
# Up to this many words of 64 rounds are counted one after another; three of them fit into one byte.
FEW_WORDS = 3
# Up to this many labels, searching for rounds to leave out takes longer than counting them.
FEW_HITS = 2**14
# Up to this many products of two labels a matrix product is faster, and exact in single precision.
FEW_PRODUCTS = 2**14


class Tally(Struct, frozen=True, eq=False, dict=True):
    """Pair counts over k groups and some outcomes.

    Parameters
    ----------
    joint
        (k, k): rounds in which both groups were shown to the network; the diagonal is one group's own rounds.
    both
        (outcomes, k, k): rounds in which both got the outcome; the diagonal is one group's number of outcomes.
    only
        (outcomes, k, k): rounds in which the first group got the outcome and the second did not.
    """

    joint: Counts
    both: Counts
    only: Counts

    @classmethod
    def empty(cls, groups: int, outcomes: int) -> Tally:
        """Return a tally without rounds."""
        table = np.zeros((outcomes, groups, groups), np.int64)
        return cls(np.zeros((groups, groups), np.int64), table, table)

    @classmethod
    def of_batch(cls, rounds: int, together: Counts, active: Sequence[int], groups: int) -> Tally:
        """Return the tally of a batch in which exactly the active groups were evaluated in every round.

        `together` (outcomes, active, active) counts rounds in which both got the outcome; it determines all counts.
        """
        own = together.diagonal(axis1=1, axis2=2)[:, :, None]
        if len(active) == groups:
            joint = np.empty((groups, groups), np.int64)
            joint.fill(rounds)
            return cls(joint, together, own - together)
        outcomes, columns = len(together), np.array(active)
        rows = columns[:, None]
        tables = np.zeros((1 + 2 * outcomes, groups, groups), np.int64)
        tables[0, rows, columns] = rounds
        tables[1 : 1 + outcomes, rows, columns] = together
        tables[1 + outcomes :, rows, columns] = own - together
        return cls(tables[0], tables[1 : 1 + outcomes], tables[1 + outcomes :])

    def __add__(self, other: Tally) -> Tally:
        # Tables of many groups and outcomes are large, so nothing is copied to add zeros.
        if not self.joint[0, 0] and not self.joint.any():
            return other
        return Tally(self.joint + other.joint, self.both + other.both, self.only + other.only)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and all(
            np.array_equal(mine, theirs)
            for mine, theirs in ((self.joint, other.joint), (self.both, other.both), (self.only, other.only))
        )

    __hash__ = None  # type: ignore[assignment]  # equal by content, and holds arrays

    def parts(self) -> Iterator[tuple[slice, Tally]]:
        """Yield the tally in parts of some outcomes each, so that computations for its pairs fit into memory."""
        outcomes, groups, _ = self.both.shape
        size = max(1, PAIRS_IN_PART // (groups * groups))
        if size >= outcomes:
            yield slice(0, outcomes), self
            return
        for start in range(0, outcomes, size):
            part = slice(start, start + size)
            yield part, Tally(self.joint, self.both[part], self.only[part])

    @cached_property
    def cells(self) -> Counts:
        """(outcomes, k, k, 3): rounds in which [i got it] - [j got it] was +1, 0 and -1."""
        cells = np.empty((*self.only.shape, 3), np.int64)
        cells[..., 0] = self.only
        cells[..., 2] = self.only.swapaxes(1, 2)
        cells[..., 1] = self.joint - cells[..., 0] - cells[..., 2]
        return cells

    @cached_property
    def _at_least_one(self) -> Counts:
        """(k, k): `joint`, and 1 for pairs that were never drawn together."""
        return np.maximum(self.joint, 1)

    @cached_property
    def gaps(self) -> NDArray[np.float64]:
        """(outcomes, k, k): estimates of P(outcome | i) - P(outcome | j) from the rounds of both."""
        return (self.only - self.only.swapaxes(1, 2)) / self._at_least_one

    @cached_property
    def errors(self) -> NDArray[np.float64]:
        """(outcomes, k, k): standard errors of `gaps`; infinite if a pair was never drawn together."""
        moment = (self.only + self.only.swapaxes(1, 2)) / self._at_least_one
        moment -= self.gaps * self.gaps
        np.maximum(moment, 0, out=moment)
        moment /= self._at_least_one
        return np.where(self.joint > 0, np.sqrt(moment, out=moment), np.inf)

    @property
    def trials(self) -> Counts:
        """(k,): the rounds of each group."""
        return self.joint.diagonal()

    @property
    def successes(self) -> Counts:
        """(outcomes, k): the number of rounds in which each group got each outcome."""
        return self.both.diagonal(axis1=1, axis2=2)

    @property
    def rates(self) -> NDArray[np.float64]:
        """(outcomes, k): the share of each group's rounds with each outcome."""
        return self.successes / np.maximum(self.trials, 1)


def count_together(labels: NDArray[np.integer], outcomes: Sequence[int]) -> Counts:
    """Count rounds in which both groups have the outcome, (outcomes, groups, groups); `labels` is (groups, rounds)."""
    counts: Counts = np.zeros((len(outcomes), len(labels), len(labels)), np.int64)
    write_together(counts, labels, outcomes)
    return counts


def write_together(counts: NDArray[np.integer], labels: NDArray[np.integer], outcomes: Sequence[int]) -> None:
    """Write these counts into a table of zeros, of any type that can represent the number of rounds.

    One bit for each round: exact integers, and faster than a matrix product over many rounds, which would also start
    its own threads.
    """
    groups = len(labels)
    for place, outcome in enumerate(outcomes):
        hits = labels == outcome
        if groups * hits.size <= FEW_PRODUCTS:
            some = hits.astype(np.float32)
            counts[place] = some @ some.T
            continue
        if hits.size > FEW_HITS:
            # Groups of a round mostly agree, so with many labels each occurs in few rounds.
            occurs = hits.any(axis=0)
            if 2 * np.count_nonzero(occurs) < len(occurs):
                hits = hits[:, occurs]
        if not hits.size:
            continue
        bits = np.packbits(hits, axis=1)
        words = -(-bits.shape[1] // 8)
        packed = np.zeros((groups, words), np.uint64)
        packed.view(np.uint8)[:, : bits.shape[1]] = bits
        # The number of rows at once that fit in the cache.
        rows = max(1, 2**17 // packed.size)
        for start in range(0, groups, rows):
            those, others = packed[start : start + rows, None], packed[start:]
            if words <= FEW_WORDS:
                # A sum along a short axis is slow.
                part = np.add.reduce([np.bitwise_count(those[..., word] & others[:, word]) for word in range(words)])
            else:
                part = np.bitwise_count(those & others).sum(axis=2, dtype=np.int64)
            counts[place, start : start + rows, start:] = part
            counts[place, start:, start : start + rows] = part.T
