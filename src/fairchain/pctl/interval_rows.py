"""Rows of an interval Markov chain, their extremal distributions, and the largest and smallest expectations.

Each row may be any distribution between its bounds. For given values of the states the extremal one is found by
sorting: every target gets its lower bound, then the remaining mass goes to the targets in the order of their values.

Bounds are rounded outward: the floating-point error of a row is added to an upper bound and subtracted from a lower one
(docs/mathematics-chains.md, "Rounding").

Extreme expectations over all chains between the bounds come from policy iteration. Without cycles one pass from the end
is enough. With cycles the extreme chain is guessed, its linear equations are solved, and the guess is improved until it
is stable. The result is checked independently: values that no chain between the bounds can make worse by one more step
are bounds, however they were found.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np

from fairchain.chain import Chain
from fairchain.chain.chain import ROW_SUM_ERROR
from fairchain.errors import ChainError
from fairchain.pctl.equations import UnsolvedError, solve
from fairchain.pctl.graph import Floats, Indices, Mask, components_of

# Rows with at most this many transitions are compared pair by pair, which is faster than sorting.
FEW_TRANSITIONS = 8
# Masses below this are treated as 0 if the certainty of a transition depends on it.
CERTAIN = 1e-9
# The rounding error of the extreme expectation of a row, relative to the largest value: this much for each of its
# transitions, and twice more. Derived in docs/mathematics-chains.md, "Rounding".
NOISE = 16 * 2.0**-53
NO_DISTRIBUTION = 'no probabilities fit between the bounds of state "{states}"'
# Number of guesses of the extreme chain; fewer if many states would have to be solved.
MOST_GUESSES = 100
MOST_SOLVED = 1e6
# The relative rounding error of a few further operations.
LAST_DIGITS = 16 * 2.0**-53
# The guess is stable if the values change by no more than this, relative to the largest.
SETTLED = 1e-13
# Up to this many stages are processed one by one.
MOST_STAGES = 2000


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
    def _buckets(self) -> list[tuple[Indices, Indices, Mask, Floats, Floats]]:
        """Rows with nearly the same number of transitions, as the columns of matrices, padded with empty transitions.

        (places, targets, whether a transition is real, slack, remaining mass of each row) for each number.
        """
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
            buckets.append((places, self.targets[places], real, np.where(real, slack[places], 0), remaining))
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
    """Subtract finite numbers and round outward: up if `largest`, otherwise down; exact results are unchanged."""
    found = more - less
    # Knuth's error of a difference, exact for finite numbers.
    part = found - more
    error = (more - (found - part)) - (less + part)
    away = np.nextafter(found, np.inf if largest else -np.inf)
    result: Floats = np.where(error > 0 if largest else error < 0, away, found)
    return result


def _tightened(sources: Indices, low: Floats, high: Floats, size: int) -> tuple[Floats, Floats]:
    """Return bounds that some distribution attains: a transition has at least the mass that the others cannot take."""
    degrees = np.bincount(sources, minlength=size)[sources]
    least, most = (sums(sources, bound, size)[sources] for bound in (low, high))
    needed = 1 - (most - high)
    remaining = 1 - (least - low)
    noise = 4 * np.finfo(float).eps * degrees
    # Rounding must never make a transition sure or impossible.
    tight_low = np.where(needed > CERTAIN, np.maximum(low, needed - noise), low)
    # Whether the lower bounds of a row's other transitions sum to less than 1, exactly if near 1.
    possible = np.ones(len(low), bool)
    states = np.unique(sources[remaining <= noise])
    for begin, end in zip(*(np.searchsorted(sources, states, side) for side in ("left", "right")), strict=True):
        row = [Fraction(one) for one in low[begin:end].tolist()]
        total = sum(row, Fraction(0))
        possible[begin:end] = [total - one < 1 for one in row]
    tight_high = np.where(possible, np.minimum(high, np.maximum(remaining, 0) + noise), 0.0)
    tight_high = np.maximum(tight_high, low)
    return np.minimum(tight_low, tight_high), tight_high


def extreme_value(rows: IntervalRows, inside: Mask, values: Floats, *, largest: bool) -> Floats:
    """Return a bound of the expected value, in [0, 1], of the state outside of `inside` that is reached.

    `inside` must be left with certainty in every chain between the bounds. The result is an upper bound if `largest`,
    otherwise a lower one; for the states outside it is the given value.
    """
    if not inside.any():
        return values
    rows = rows.only(inside)
    stages = staged(rows, inside)
    # No expectation is outside of [0, 1], and a margin of 1 must cover everything.
    found = np.clip(_iterated(stages, values, 0.0, largest=largest), 0.0, 1.0)
    margin = _margin(rows, stages, inside, found, largest=largest) * (1 + LAST_DIGITS) + LAST_DIGITS
    safe = np.minimum(found + margin, 1.0) if largest else np.maximum(found - margin, 0.0)
    result: Floats = np.where(inside, safe, values)
    return result


def extreme_steps(rows: IntervalRows, inside: Mask, values: Floats, *, largest: bool) -> Floats:
    """Return a bound of the expected number of steps until `inside` is left, plus the value of the reached state.

    It is an upper bound if `largest`, and then `inside` must be left with certainty; otherwise a lower one, and
    `values` must contain for the states inside a number of steps that some chain between the bounds attains.
    """
    if not inside.any():
        return values
    rows = rows.only(inside)
    found = _iterated(staged(rows, inside), values, 1.0, largest=largest)
    after = 1 + rows.back(found, largest=largest)
    worth = found[rows.targets]
    scale = max(float(found[inside].max()), float(worth[np.isfinite(worth)].max(initial=1.0)))
    wrong = _wrong(found[inside], after[inside], largest=largest) + float(rows.noise.max()) * scale + LAST_DIGITS
    # Each step costs 1: slightly larger costs cover the error of one step.
    if wrong < 0.5:
        safe = found / (1 - wrong) if largest else found * (1 - wrong)
    else:
        safe = np.full(rows.size, np.inf if largest else 0.0)
    result: Floats = np.where(inside, safe, values)
    return result


def _iterated(stages: list[IntervalRows], values: Floats, gain: float, *, largest: bool) -> Floats:
    """Return the extreme values of all stages, from the last to the first."""
    values = values.copy()
    for rows in stages:
        states = np.unique(rows.sources)
        if np.isin(rows.targets, states).any():
            inside = np.zeros(rows.size, bool)
            inside[states] = True
            values = _improved(rows, inside, values, gain, largest=largest)
        else:
            values[states] = gain + rows.back(values, largest=largest)[states]
    return values


def _improved(rows: IntervalRows, inside: Mask, values: Floats, gain: float, *, largest: bool) -> Floats:
    """Return the values of the last policy of policy iteration, from given values."""
    from scipy.sparse import coo_array

    policy = rows.extremal(values, largest=largest)
    size, place = int(inside.sum()), np.cumsum(inside) - 1
    for _ in range(min(MOST_GUESSES, 2 + int(MOST_SOLVED / size))):
        used = policy > 0
        sources, targets, weights = rows.sources[used], rows.targets[used], policy[used]
        stays = inside[targets]
        leaving = sums(sources[~stays], weights[~stays], rows.size)[inside]
        right = gain + sums(sources[~stays], (weights * values[targets])[~stays], rows.size)[inside]
        entries = (weights[stays], (place[sources[stays]], place[targets[stays]]))
        found = values.copy()
        try:
            found[inside] = solve(coo_array(entries, shape=(size, size)).tocsr(), leaving, right)
        except UnsolvedError:
            # If a guess cannot be solved, the earlier result is checked like any other.
            return values
        better = rows.extremal(found, largest=largest)
        settled = np.abs(found[inside] - values[inside]).max() <= SETTLED * np.abs(found[inside]).max()
        values = found
        if settled or np.array_equal(better, policy):
            break
        policy = better
    return values


def _margin(rows: IntervalRows, stages: list[IntervalRows], inside: Mask, found: Floats, *, largest: bool) -> Floats:
    """Return the margin that turns values which one more step may change slightly into bounds that no step changes.

    With w at least 1 larger than its own largest expectation, an error of e in one step is covered by e * w.
    """
    after = rows.back(found, largest=largest)
    wrong = _wrong(found[inside], after[inside], largest=largest) + float(rows.noise.max())
    length = _iterated(stages, np.zeros(rows.size), 1.0, largest=True)
    progress = (length - rows.back(length, largest=True))[inside].min() - float(rows.noise.max()) * length.max()
    if not progress > CERTAIN:
        return np.ones(rows.size)
    margin: Floats = wrong * length / progress
    return margin


def _wrong(found: Floats, after: Floats, *, largest: bool) -> float:
    """Return by how much one more step would exceed the values."""
    return max(0.0, float((after - found if largest else found - after).max()))


def staged(rows: IntervalRows, inside: Mask) -> list[IntervalRows]:
    """Return the rows in stages, each of which needs only values of earlier ones; in one if there were too many."""
    within = inside[rows.targets]
    count, component = components_of(rows.size, rows.sources[within], rows.targets[within])
    stage = _heights(count, component[rows.sources[within]], component[rows.targets[within]])
    if stage is None:
        return [rows]
    of_row = stage[component[rows.sources]]
    order = np.argsort(of_row, kind="stable")
    ends = np.searchsorted(of_row[order], np.arange(int(of_row.max()) + 2))
    return [rows.part(order[begin:end]) for begin, end in pairwise(ends) if end > begin]


def _heights(count: int, sources: Indices, targets: Indices) -> Indices | None:
    """Return for each node the longest path to a node without successors; None if that is very long."""
    other = sources != targets
    order = np.argsort(targets[other], kind="stable")
    sources, targets = sources[other][order], targets[other][order]
    starts = np.searchsorted(targets, np.arange(count + 1))
    waiting = np.bincount(sources, minlength=count)
    height = np.zeros(count, np.intp)
    ready = np.flatnonzero(waiting == 0)
    for level in range(MOST_STAGES):
        height[ready] = level
        lengths = starts[ready + 1] - starts[ready]
        if not lengths.any():
            return height
        shift = np.repeat(starts[ready] - np.cumsum(lengths) + lengths, lengths)
        before = sources[shift + np.arange(len(shift))]
        np.subtract.at(waiting, before, 1)
        candidates = np.unique(before)
        ready = candidates[waiting[candidates] == 0]
    return None
