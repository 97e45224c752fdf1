"""Counts of coupled rounds: all the state there is. Tallies add, in any order, across workers and restarts.

For every outcome looked at and every ordered pair of groups (i, j) a tally knows in how many rounds both were
asked, in how many both got the outcome, and in how many only i did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tally:
    """Pair counts over k groups and some outcomes.

    Parameters
    ----------
    asked
        (k, k): rounds in which both groups were shown to the network; the diagonal is one group's own rounds.
    both
        (outcomes, k, k): rounds in which both got the outcome; the diagonal is how often one group got it.
    only
        (outcomes, k, k): rounds in which the first group got the outcome and the second did not.
    """

    asked: Counts
    both: Counts
    only: Counts

    @classmethod
    def empty(cls, groups: int, outcomes: int) -> Tally:
        """No rounds yet."""
        table = np.zeros((outcomes, groups, groups), np.int64)
        return cls(np.zeros((groups, groups), np.int64), table, table)

    @classmethod
    def of_batch(cls, rounds: int, together: Counts, active: Sequence[int], groups: int) -> Tally:
        """The tally of a batch in which exactly the active groups were asked in every round.

        `together` (outcomes, active, active) counts rounds in which both got the outcome; it says everything.
        """
        asked = np.zeros((groups, groups), np.int64)
        both = np.zeros((len(together), groups, groups), np.int64)
        only = np.zeros_like(both)
        where = np.ix_(active, active)
        asked[where] = rounds
        for outcome, table in enumerate(together):
            both[outcome][where] = table
            only[outcome][where] = table.diagonal()[:, None] - table
        return cls(asked, both, only)

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.asked + other.asked, self.both + other.both, self.only + other.only)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and all(
            np.array_equal(mine, theirs)
            for mine, theirs in ((self.asked, other.asked), (self.both, other.both), (self.only, other.only))
        )

    __hash__ = None  # type: ignore[assignment]  # equal by content, and holds arrays

    @cached_property
    def cells(self) -> Counts:
        """(outcomes, k, k, 3): rounds in which [i got it] - [j got it] was +1, 0 and -1."""
        less = self.only.swapaxes(1, 2)
        return np.stack([self.only, self.asked - self.only - less, less], axis=-1)

    @cached_property
    def gaps(self) -> NDArray[np.float64]:
        """(outcomes, k, k): estimates of P(outcome | i) - P(outcome | j) from the rounds both were asked in."""
        asked = np.maximum(self.asked, 1)
        return (self.only - self.only.swapaxes(1, 2)) / asked

    @cached_property
    def errors(self) -> NDArray[np.float64]:
        """(outcomes, k, k): standard errors of `gaps`; infinite where a pair was never asked together."""
        asked = np.maximum(self.asked, 1)
        differ = (self.only + self.only.swapaxes(1, 2)) / asked
        variance = np.maximum(differ - self.gaps**2, 0) / asked
        return np.where(self.asked > 0, np.sqrt(variance), np.inf)

    def widest(self) -> tuple[int, int, int]:
        """(i, j, outcome) of the largest gap between two different groups; the first of equals."""
        proper = np.where(np.eye(len(self.asked), dtype=bool), -2.0, self.gaps)
        outcome, i, j = np.unravel_index(int(proper.argmax()), proper.shape)
        return int(i), int(j), int(outcome)

    @property
    def trials(self) -> Counts:
        """(k,): how often each group was asked."""
        return self.asked.diagonal()

    @property
    def successes(self) -> Counts:
        """(outcomes, k): how often each group got each outcome."""
        return self.both.diagonal(axis1=1, axis2=2)

    @property
    def rates(self) -> NDArray[np.float64]:
        """(outcomes, k): how often each group got each outcome, as a fraction of its rounds."""
        return self.successes / np.maximum(self.trials, 1)


def count_together(labels: NDArray[np.integer], outcomes: Sequence[int]) -> Counts:
    """(outcomes, groups, groups): in how many rounds two groups both got the outcome.

    `labels` is (groups, rounds). One bit for each round: exact integers, and faster than a matrix product, which
    would also start threads of its own.
    """
    groups, rounds = labels.shape
    counts = np.empty((len(outcomes), groups, groups), np.int64)
    for place, outcome in enumerate(outcomes):
        bits = np.zeros((groups, -(-rounds // 64) * 8), np.uint8)
        bits[:, : -(-rounds // 8)] = np.packbits(labels == outcome, axis=1)
        packed = bits.view(np.uint64)
        for group in range(groups):
            common = np.bitwise_count(packed[group:] & packed[group])
            counts[place, group, group:] = counts[place, group:, group] = common.sum(axis=1, dtype=np.int64)
    return counts
