"""Intervals for effects on the gap and for the paper's sensitivity (docs/mathematics-chains.md, "Explaining").

Each family of intervals, effects and sensitivities, holds jointly with probability 1 - delta. `agreement` compares the
rankings of the two measures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairchain.explaining.effect_counts import MOST_PAIRED, PAIR_VALUES, EffectCounts
from fairchain.explaining.result import Agreement
from fairchain.statistics import Interval, Tally
from fairchain.statistics.e_values import growth, log_wealth
from fairchain.statistics.intervals import bisect, largest_above, probability_any_time

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
# At the end of a range the largest loss is 0 and no bet is defined, so bisection stays this far inside.
INSIDE, NEAREST = 1e-9, 1e-12
SIGNS = np.array([-1.0, 0.0, 1.0])
# Number of leading units that are compared, and the difference below which two values are tied by rounding.
RANKED_UNITS, SAME = 10, 1e-12


def mean_bounds(counts: Counts, values: Floats, low_level: float, high_level: float) -> tuple[Floats, Floats]:
    """Return bounds of the mean of a round's value, which is one of `values`, from counts of shape (..., values).

    They are valid at every time; each fails with probability at most its level.
    """
    least, most = float(values.min()), float(values.max())
    middle = np.clip(counts @ values / np.maximum(counts.sum(axis=-1), 1), least + INSIDE, most - INSIDE)

    def too_small(mean: Floats) -> Floats:
        wealth = log_wealth(counts, growth(values - mean[..., None], np.maximum(mean - least, NEAREST)))
        return wealth + math.log(low_level)

    def too_large(mean: Floats) -> Floats:
        wealth = log_wealth(counts, growth(mean[..., None] - values, np.maximum(most - mean, NEAREST)))
        return wealth + math.log(high_level)

    low = bisect(too_small, middle, np.full(middle.shape, least))
    high = bisect(too_large, middle, np.full(middle.shape, most))
    return low, high


def effects(counts: EffectCounts, delta: float) -> tuple[Interval, ...]:
    """Return for each unit the reduction of the gap g of the pair when it becomes g': g - |g'|.

    This is the minimum of g - g' and g + g', both means of rounds. For the lower bound of the minimum only that of the
    smaller mean can fail; for the upper bound, either.
    """
    units, values = len(counts.minus), PAIR_VALUES.astype(float)
    both = np.stack([counts.minus, counts.plus])
    low, high = mean_bounds(both, values, delta / (2 * units), delta / (4 * units))
    estimate = (both @ values / counts.rounds).min(axis=0)
    return tuple(
        Interval(float(e), float(a), float(b))
        for e, a, b in zip(estimate, low.min(axis=0), high.min(axis=0), strict=True)
    )


def gap_of_pair(counts: EffectCounts, delta: float) -> Interval:
    """Return the gap of the pair; each bound has a third of delta, and `gap_of_all_pairs` has the last third."""
    low, high = mean_bounds(counts.now, SIGNS, delta / 3, delta / 3)
    return Interval(float(counts.now @ SIGNS / counts.rounds), float(low), float(high))


def gap_of_all_pairs(counts: EffectCounts, pair: Interval, delta: float) -> Interval:
    """Return the largest gap over all pairs of groups and outcomes.

    The lower bound is that of the pair, which was chosen before these rounds. The upper bound is the largest over all
    pairs; it fails only if the bound of the pair with the largest gap fails.
    """
    groups = counts.together.shape[1]
    tally = Tally.of_batch(counts.rounds, counts.together, range(groups), groups)
    high = largest_above(tally, np.ones(tally.both.shape, bool), math.log(3 / delta))
    return Interval(float(tally.gaps.max()), max(pair.low, 0.0), max(high, pair.high))


def sensitivities(counts: EffectCounts, sizes: Sequence[int], shares: Floats, delta: float) -> tuple[Interval, ...]:
    """Return the paper's sensitivity of each unit; `sizes` are the numbers of states, one unit after another.

    It is the sum over states of P(state and label) times the largest difference of P(state | group) between groups.
    Each state's share of delta is divided equally between the two factors.
    """
    level = delta / sum(sizes)
    low, high = probability_any_time(
        counts.joint, np.full(counts.joint.shape, counts.rounds), level / (2 * len(shares))
    )
    joint = np.stack([counts.joint @ shares / counts.rounds, low @ shares, np.minimum(high @ shares, 1.0)])
    ends = joint * np.stack(spreads(counts.states, counts.rounds, level / 2))
    totals = np.add.reduceat(ends, np.cumsum([0, *sizes[:-1]]), axis=1)
    return tuple(Interval(*map(float, total)) for total in totals.T)


def spreads(together: Counts, rounds: int, level: float) -> tuple[Floats, Floats, Floats]:
    """Return the largest difference of P(state | group) between two groups: estimate, lower and upper bound, (states,).

    The counts are (states, groups, groups). Each pair of groups has an upper bound at `level / 2`, and only that of the
    widest pair can fail; the lower bounds of all pairs share the other half.
    """
    own = together.diagonal(axis1=1, axis2=2)
    estimate = (own.max(axis=1) - own.min(axis=1)) / rounds
    groups = own.shape[1]
    if groups > MOST_PAIRED:
        low, high = probability_any_time(own, np.full(own.shape, rounds), level / groups)
        return estimate, np.maximum(low.max(axis=1) - high.min(axis=1), 0.0), high.max(axis=1) - low.min(axis=1)
    fronts = [_front(own_one[:, None] - both, groups) for own_one, both in zip(own, together, strict=True)]
    only = np.concatenate(fronts)
    cells = np.stack([only[:, 1], rounds - only.sum(axis=1), only[:, 0]], axis=1)
    below, above = mean_bounds(cells, SIGNS, level / (2 * groups * (groups - 1)), level / 2)
    starts = np.cumsum([0, *map(len, fronts[:-1])])
    return estimate, np.maximum(np.maximum.reduceat(below, starts), 0.0), np.maximum.reduceat(above, starts)


def _front(only: Counts, groups: int) -> Counts:
    """Return (pairs, 2): the rounds in which only the first of two groups, and only the second, was in a state.

    Only pairs that no other pair dominates are returned. Bounds grow with the first count and fall with the second, so
    these pairs have the largest bounds.
    """
    off = ~np.eye(groups, dtype=bool)
    pairs = np.unique(np.stack([only[off], only.T[off]], axis=1), axis=0)
    pairs = pairs[np.lexsort((pairs[:, 1], -pairs[:, 0]))]
    least = np.minimum.accumulate(pairs[:, 1])
    kept = np.concatenate([[True], pairs[1:, 1] < least[:-1]])
    chosen: Counts = pairs[kept]
    return chosen


def agreement(first: Sequence[float], second: Sequence[float], top: int = RANKED_UNITS) -> Agreement:
    """Return the agreement of two measures of the same units: Kendall's tau-b, Spearman's rho, common leaders.

    >>> agreement([3, 2, 1], [30, 20, 10], top=2)
    Agreement(kendall=1.0, spearman=1.0, top=2, common=2)
    """
    if not len(first):
        return Agreement(None, None, 0, 0)
    both = np.asarray([first, second], float)
    top = min(top, both.shape[1])
    leading = [set(np.argsort(-values, kind="stable")[:top].tolist()) for values in both]
    return Agreement(_kendall(*both), _spearman(both), top, len(leading[0] & leading[1]))


def _kendall(one: Floats, other: Floats) -> float | None:
    """Return concordant minus discordant pairs, relative to the pairs without ties; None if all tie."""
    signs = [np.sign(np.where(np.abs(d := v[:, None] - v) > SAME, d, 0)).astype(np.int8) for v in (one, other)]
    alike = int((signs[0] * signs[1]).sum(dtype=np.int64))
    untied = [int(np.abs(sign).sum(dtype=np.int64)) for sign in signs]
    return alike / math.sqrt(untied[0] * untied[1]) if all(untied) else None


def _spearman(both: Floats) -> float | None:
    """Return the correlation of ranks, of which equal values share the mean; None if all tie."""
    centred = []
    for values in both:
        _, place, counts = np.unique(np.round(values, 12), return_inverse=True, return_counts=True)
        ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
        centred.append(ranks - ranks.mean())
    one, other = centred
    scale = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / scale if scale else None
