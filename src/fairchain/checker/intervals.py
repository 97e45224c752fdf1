"""Rows of a chain of which only bounds are known, and the best and worst that they allow.

Each row may be any distribution between its bounds. For given values of the states the extreme ones are found by
sorting: give every target its lower bound, then the rest of the mass to the targets in the order of their values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fairchain.chain import Chain
from fairchain.checker.graph import Floats, Indices, Mask
from fairchain.errors import ChainError

# What bounds that do not quite leave room for a distribution may miss.
ROUNDING = 1e-6
# Transitions of rows with no more of them are compared pair by pair, which is faster than sorting.
FEW = 8
# Masses below are not told apart from 0 where being sure of a transition depends on it.
CERTAIN = 1e-9


class _Bucket(NamedTuple):
    """Rows with nearly the same number of transitions, as the columns of matrices; filled up with empty transitions."""

    places: Indices
    targets: Indices
    real: Mask
    room: Floats
    slack: Floats


@dataclass(frozen=True, eq=False)
class IntervalRows:
    """Transitions sorted by source, with bounds of each probability; a state without any has no row."""

    size: int
    sources: Indices
    targets: Indices
    low: Floats
    high: Floats

    @classmethod
    def of(cls, chain: Chain) -> IntervalRows:
        """The rows of a chain, without those of states that were never seen.

        Raises
        ------
        ChainError
            If no distribution is between the bounds of a row.
        """
        assert chain.low is not None
        assert chain.high is not None
        low, high = np.clip(chain.low, 0, 1), np.clip(chain.high, 0, 1)
        size = len(chain)
        least = sums(chain.sources, low, size)
        most = sums(chain.sources, high, size)
        crossed = np.zeros(size, bool)
        crossed[chain.sources[~(low <= high)]] = True
        for state in np.flatnonzero(crossed | ~(least <= 1 + ROUNDING) | ~(most >= 1 - ROUNDING))[:1]:
            raise ChainError(f'no probabilities fit between the bounds of state "{chain.states[state]}"')
        low = low / np.maximum(least, 1)[chain.sources]
        high = np.minimum(high / np.minimum(most, 1)[chain.sources], 1)
        low, high = _tightened(chain.sources, low, high, size)
        seen = np.ones(size, bool)
        seen[list(chain.unvisited)] = False
        used = seen[chain.sources] & (high > 0)
        return cls(size, chain.sources[used], chain.targets[used], low[used], high[used])

    def only(self, states: Mask) -> IntervalRows:
        """The rows of some states."""
        used = states[self.sources]
        return IntervalRows(self.size, self.sources[used], self.targets[used], self.low[used], self.high[used])

    @cached_property
    def _buckets(self) -> list[_Bucket]:
        states, begins, degrees = np.unique(self.sources, return_index=True, return_counts=True)
        left = 1 - sums(self.sources, self.low, self.size)[states]
        width = np.left_shift(1, np.ceil(np.log2(np.maximum(degrees, 1))).astype(int))
        room = self.high - self.low
        buckets = []
        for columns in np.unique(width):
            chosen = width == columns
            place = np.arange(columns)[:, None]
            real = place < degrees[chosen]
            places = begins[chosen] + np.where(real, place, 0)
            slack = np.maximum(left[chosen], 0)
            buckets.append(_Bucket(places, self.targets[places], real, np.where(real, room[places], 0), slack))
        return buckets

    @cached_property
    def most_transitions(self) -> int:
        """The number of transitions in the longest row."""
        return int(np.bincount(self.sources).max(initial=0))

    def best(self, values: Floats, *, largest: bool) -> Floats:
        """For each transition its probability when the expected value of the next state is largest, or smallest."""
        chosen = self.low.copy()
        for places, targets, real, room, slack in self._buckets:
            worth = values[targets] if largest else -values[targets]
            before = _compared(worth, room) if len(room) <= FEW else _sorted(worth, room)
            given = np.clip(slack - before, 0, room)
            chosen[places[real]] += given[real]
        return chosen

    def expected(self, values: Floats, weights: Floats) -> Floats:
        """(states,): expected value of the next state; 0 times infinity is 0. States without a row get 0."""
        worth = values[self.targets]
        with np.errstate(invalid="ignore"):
            parts = np.where(weights > 0, weights * worth, 0.0)
        return sums(self.sources, parts, self.size)

    def back(self, values: Floats, *, largest: bool) -> Floats:
        """(states,): the largest or smallest expected value of the next state."""
        return self.expected(values, self.best(values, largest=largest))


def _compared(worth: Floats, room: Floats) -> Floats:
    """How much room is in the transitions of a row that are worth more, or as much and stand before."""
    before = np.zeros_like(room)
    for later in range(1, len(room)):
        for sooner in range(later):
            first = worth[sooner] >= worth[later]
            before[later] += np.where(first, room[sooner], 0.0)
            before[sooner] += np.where(first, 0.0, room[later])
    return before


def _sorted(worth: Floats, room: Floats) -> Floats:
    """The same as `_compared`, for long rows."""
    order = np.argsort(-worth, axis=0, kind="stable")
    sorted_room = np.take_along_axis(room, order, 0)
    before = np.empty_like(room)
    np.put_along_axis(before, order, np.cumsum(sorted_room, axis=0) - sorted_room, 0)
    return before


def sums(sources: Indices, weights: Floats, size: int) -> Floats:
    """(size,): the weights of each source, added up."""
    return np.bincount(sources, weights, minlength=size).astype(np.float64, copy=False)


def _tightened(sources: Indices, low: Floats, high: Floats, size: int) -> tuple[Floats, Floats]:
    """Bounds that some distribution reaches: a transition gets at least what the others cannot take."""
    degrees = np.bincount(sources, minlength=size)[sources]
    least, most = (sums(sources, bound, size)[sources] for bound in (low, high))
    left = 1 - (most - high)
    room = 1 - (least - low)
    noise = 4 * np.finfo(float).eps * degrees
    # Rounding must never make a transition sure, and may not keep alive one that has no room.
    tight_low = np.where(left > CERTAIN, np.maximum(low, left - noise), low)
    tight_high = np.where(room <= noise, np.where(low > 0, low, 0.0), np.minimum(high, room + noise))
    return np.minimum(tight_low, tight_high), tight_high
