"""Rows of an interval Markov chain, and their extremal distributions.

Each row may be any distribution between its bounds. For given values of the states the extremal one is found by
sorting: every target gets its lower bound, then the remaining mass goes to the targets in the order of their values.

Bounds are rounded outward: the floating-point error of a row is added to an upper bound and subtracted from a lower one
(docs/chains.md, "Rounding").
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

# Tolerance for the sum of the bounds of a row.
ROW_SUM_ERROR = 1e-6
# Rows with at most this many transitions are compared pair by pair, which is faster than sorting.
FEW_TRANSITIONS = 8
# Masses below this are treated as 0 if the certainty of a transition depends on it.
CERTAIN = 1e-9
# The rounding error of the extreme expectation of a row, relative to the largest value: this much for each of its
# transitions, and twice more. Derived in docs/chains.md, "Rounding".
NOISE = 16 * 2.0**-53
NO_DISTRIBUTION = 'no probabilities fit between the bounds of state "{states}"'


class _Bucket(NamedTuple):
    """Rows with nearly the same number of transitions, as the columns of matrices, padded with empty transitions."""

    places: Indices
    targets: Indices
    real: Mask
    slack: Floats
    remaining: Floats


@dataclass(frozen=True, eq=False)
class IntervalRows:
    """Transitions sorted by source, with bounds of each probability; a state without transitions has no row."""

    size: int
    sources: Indices
    targets: Indices
    low: Floats
    high: Floats

    @classmethod
    def of(cls, chain: Chain) -> IntervalRows:
        """Return the rows of a chain, without those of unvisited states.

        Raises a ChainError if no distribution is between the bounds of a row.
        """
        assert chain.low is not None
        assert chain.high is not None
        low, high = np.clip(chain.low, 0, 1), np.clip(chain.high, 0, 1)
        size = len(chain)
        least = sums(chain.sources, low, size)
        most = sums(chain.sources, high, size)
        crossed = np.zeros(size, bool)
        crossed[chain.sources[~(low <= high)]] = True
        for state in np.flatnonzero(crossed | ~(least <= 1 + ROW_SUM_ERROR) | ~(most >= 1 - ROW_SUM_ERROR))[:1]:
            raise ChainError(NO_DISTRIBUTION.format(states=chain.states[state]))
        low = low / np.maximum(least, 1)[chain.sources]
        high = np.minimum(high / np.minimum(most, 1)[chain.sources], 1)
        low, high = _tightened(chain.sources, low, high, size)
        seen = np.ones(size, bool)
        seen[list(chain.unvisited)] = False
        used = seen[chain.sources] & (high > 0)
        return cls(size, chain.sources, chain.targets, low, high).part(used)

    def part(self, chosen: Mask | Indices) -> IntervalRows:
        """Return some of the transitions, in the given order."""
        ends = self.sources[chosen], self.targets[chosen]
        return IntervalRows(self.size, *ends, self.low[chosen], self.high[chosen])

    def only(self, states: Mask) -> IntervalRows:
        """Return the rows of some states."""
        return self.part(states[self.sources])

    def can_stay(self, kept: Mask) -> Mask:
        """Return (states,): whether a row can have all its mass on the transitions in `kept`."""
        forced = np.zeros(self.size, bool)
        forced[self.sources[~kept & (self.low > 0)]] = True
        stays: Mask = ~forced & (sums(self.sources[kept], self.high[kept], self.size) >= 1 - CERTAIN)
        return stays

    @cached_property
    def _buckets(self) -> list[_Bucket]:
        states, begins, degrees = np.unique(self.sources, return_index=True, return_counts=True)
        left = 1 - sums(self.sources, self.low, self.size)[states]
        width = np.left_shift(1, np.ceil(np.log2(np.maximum(degrees, 1))).astype(int))
        slack = self.high - self.low
        buckets = []
        for columns in np.unique(width):
            chosen = width == columns
            place = np.arange(columns)[:, None]
            real = place < degrees[chosen]
            places = begins[chosen] + np.where(real, place, 0)
            remaining = np.maximum(left[chosen], 0)
            buckets.append(_Bucket(places, self.targets[places], real, np.where(real, slack[places], 0), remaining))
        return buckets

    def extremal(self, values: Floats, *, largest: bool) -> Floats:
        """Return the extremal distribution of each row: largest or smallest expected value of the next state."""
        chosen = self.low.copy()
        for places, targets, real, slack, remaining in self._buckets:
            worth = values[targets] if largest else -values[targets]
            before = _compared(worth, slack) if len(slack) <= FEW_TRANSITIONS else _sorted(worth, slack)
            given = np.clip(remaining - before, 0, slack)
            chosen[places[real]] += given[real]
        return chosen

    def back(self, values: Floats, *, largest: bool) -> Floats:
        """Return (states,): the extremal expected value of the next state, up to rounding; 0 without a row."""
        weights, worth = self.extremal(values, largest=largest), values[self.targets]
        # Mass that is left for an infinite value by rounding must not make a smallest expectation infinite.
        least = np.where(np.isinf(worth), 0.0 if largest else CERTAIN, 0.0)
        with np.errstate(invalid="ignore"):
            parts = np.where(weights > least, weights * worth, 0.0)
        return sums(self.sources, parts, self.size)

    @cached_property
    def noise(self) -> Floats:
        """(states,): the rounding error of `back`, relative to the largest of the values."""
        return NOISE * (np.bincount(self.sources, minlength=self.size) + 2).astype(np.float64)

    def outward(self, values: Floats, *, largest: bool) -> Floats:
        """Return (states,): a bound, rounded outward, of the largest or smallest expectation of finite values.

        No expectation is beyond the most extreme value of a row's targets: if all are equal, the bound is exact.
        """
        found = self.back(values, largest=largest)
        margin = self.noise * np.abs(values).max(initial=0.0)
        sign = 1 if largest else -1
        ends = np.full(self.size, -np.inf)
        np.maximum.at(ends, self.sources, sign * values[self.targets])
        result: Floats = np.where(np.isfinite(ends), sign * np.minimum(sign * found + margin, ends), found)
        return result


def _compared(worth: Floats, slack: Floats) -> Floats:
    """Return the slack of the transitions of a row that are worth more, or as much and come first."""
    before = np.zeros_like(slack)
    for later in range(1, len(slack)):
        for sooner in range(later):
            first = worth[sooner] >= worth[later]
            before[later] += np.where(first, slack[sooner], 0.0)
            before[sooner] += np.where(first, 0.0, slack[later])
    return before


def _sorted(worth: Floats, slack: Floats) -> Floats:
    """Return the same as `_compared`, for long rows."""
    order = np.argsort(-worth, axis=0, kind="stable")
    sorted_slack = np.take_along_axis(slack, order, 0)
    before = np.empty_like(slack)
    np.put_along_axis(before, order, np.cumsum(sorted_slack, axis=0) - sorted_slack, 0)
    return before


def sums(sources: Indices, weights: Floats, size: int) -> Floats:
    """Return (size,): the sum of the weights of each source."""
    return np.bincount(sources, weights, minlength=size).astype(np.float64, copy=False)


def difference(more: Floats, less: Floats, *, largest: bool) -> Floats:
    """Subtract finite numbers and round the result outward: up if `largest`, otherwise down; exact results are
    unchanged.
    """
    found = more - less
    # Knuth's error of a difference, exact for finite numbers.
    part = found - more
    error = (more - (found - part)) - (less + part)
    away = np.nextafter(found, np.inf if largest else -np.inf)
    result: Floats = np.where(error > 0 if largest else error < 0, away, found)
    return result


def _has_mass_left(sources: Indices, low: Floats, near: Mask) -> Mask:
    """Return whether the lower bounds of a row's other transitions sum to less than 1; in exact arithmetic if near
    1.
    """
    left = np.ones(len(low), bool)
    states = np.unique(sources[near])
    for begin, end in zip(*(np.searchsorted(sources, states, side) for side in ("left", "right")), strict=True):
        row = [Fraction(one) for one in low[begin:end].tolist()]
        total = sum(row, Fraction(0))
        left[begin:end] = [total - one < 1 for one in row]
    return left


def _tightened(sources: Indices, low: Floats, high: Floats, size: int) -> tuple[Floats, Floats]:
    """Return bounds that some distribution attains: a transition has at least the mass that the others cannot take."""
    degrees = np.bincount(sources, minlength=size)[sources]
    least, most = (sums(sources, bound, size)[sources] for bound in (low, high))
    needed = 1 - (most - high)
    remaining = 1 - (least - low)
    noise = 4 * np.finfo(float).eps * degrees
    # Rounding must never make a transition sure or impossible.
    tight_low = np.where(needed > CERTAIN, np.maximum(low, needed - noise), low)
    possible = _has_mass_left(sources, low, remaining <= noise)
    tight_high = np.where(possible, np.minimum(high, np.maximum(remaining, 0) + noise), 0.0)
    tight_high = np.maximum(tight_high, low)
    return np.minimum(tight_low, tight_high), tight_high
