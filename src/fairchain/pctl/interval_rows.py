"""Rows of a chain of which only bounds are known, and the best and worst that they allow.

Each row may be any distribution between its bounds. For given values of the states the extreme ones are found by
sorting: give every target its lower bound, then the rest of the mass to the targets in the order of their values.

Bounds are rounded outward: what floating point may do to a row is added to an upper bound and taken from a lower one
(docs/queries.md, "Rounding").
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fairchain.chain import Chain
from fairchain.errors import ChainError
from fairchain.pctl.graph import Floats, Indices, Mask

# What bounds that do not quite leave room for a distribution may miss.
ROUNDING = 1e-6
# Transitions of rows with no more of them are compared pair by pair, which is faster than sorting.
FEW = 8
# Masses below are not told apart from 0 where being sure of a transition depends on it.
CERTAIN = 1e-9
# What rounding may do to the extreme expectation of a row, relative to the largest value: so much for each of its
# transitions and twice more. Derived in docs/queries.md, "Rounding".
NOISE = 16 * 2.0**-53


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

    def extremal(self, values: Floats, *, largest: bool) -> Floats:
        """The extremal distribution of each row: with the largest or smallest expected value of the next state."""
        chosen = self.low.copy()
        for places, targets, real, room, slack in self._buckets:
            worth = values[targets] if largest else -values[targets]
            before = _compared(worth, room) if len(room) <= FEW else _sorted(worth, room)
            given = np.clip(slack - before, 0, room)
            chosen[places[real]] += given[real]
        return chosen

    def back(self, values: Floats, *, largest: bool) -> Floats:
        """(states,): the largest or smallest expected value of the next state, up to rounding; 0 without a row."""
        weights, worth = self.extremal(values, largest=largest), values[self.targets]
        # Mass that rounding left over for an infinite value must not make a smallest expectation infinite.
        least = np.where(np.isinf(worth), 0.0 if largest else CERTAIN, 0.0)
        with np.errstate(invalid="ignore"):
            parts = np.where(weights > least, weights * worth, 0.0)
        return sums(self.sources, parts, self.size)

    @cached_property
    def noise(self) -> Floats:
        """(states,): what rounding may do to `back`, relative to the largest of the values."""
        return NOISE * (np.bincount(self.sources, minlength=self.size) + 2).astype(np.float64)

    def outward(self, values: Floats, *, largest: bool) -> Floats:
        """(states,): an upper bound of the largest, or a lower bound of the smallest, expectation of finite values.

        No expectation is beyond the most extreme value of a row's targets: where all are alike, the bound is exact.
        """
        found = self.back(values, largest=largest)
        margin = self.noise * np.abs(values).max(initial=0.0)
        if largest:
            ends = np.full(self.size, -np.inf)
            np.maximum.at(ends, self.sources, values[self.targets])
            bound = np.minimum(found + margin, ends)
        else:
            ends = np.full(self.size, np.inf)
            np.minimum.at(ends, self.sources, values[self.targets])
            bound = np.maximum(found - margin, ends)
        result: Floats = np.where(np.isfinite(ends), bound, found)
        return result


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


def difference(more: Floats, less: Floats, *, largest: bool) -> Floats:
    """Subtract finite numbers and round the result outward: up if `largest`, else down; exact results stay."""
    found = more - less
    # Knuth's error of a difference, exact for finite numbers.
    part = found - more
    error = (more - (found - part)) - (less + part)
    away = np.nextafter(found, np.inf if largest else -np.inf)
    result: Floats = np.where(error > 0 if largest else error < 0, away, found)
    return result


def _has_room(sources: Indices, low: Floats, near: Mask) -> Mask:
    """Where lower bounds of a row's other transitions sum to less than 1: in exact arithmetic where it is near."""
    room = np.ones(len(low), bool)
    states = np.unique(sources[near])
    for begin, end in zip(*(np.searchsorted(sources, states, side) for side in ("left", "right")), strict=True):
        row = [Fraction(one) for one in low[begin:end].tolist()]
        total = sum(row, Fraction(0))
        room[begin:end] = [total - one < 1 for one in row]
    return room


def _tightened(sources: Indices, low: Floats, high: Floats, size: int) -> tuple[Floats, Floats]:
    """Bounds that some distribution reaches: a transition gets at least what the others cannot take."""
    degrees = np.bincount(sources, minlength=size)[sources]
    least, most = (sums(sources, bound, size)[sources] for bound in (low, high))
    left = 1 - (most - high)
    room = 1 - (least - low)
    noise = 4 * np.finfo(float).eps * degrees
    # Rounding must never make a transition sure or impossible.
    tight_low = np.where(left > CERTAIN, np.maximum(low, left - noise), low)
    possible = _has_room(sources, low, room <= noise)
    tight_high = np.where(possible, np.minimum(high, np.maximum(room, 0) + noise), 0.0)
    tight_high = np.maximum(tight_high, low)
    return np.minimum(tight_low, tight_high), tight_high
