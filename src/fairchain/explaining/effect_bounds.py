"""From counts to intervals: of effects on the gap, and of the paper's sensitivity (docs/mathematics.md, "Explaining").

Each family of intervals, effects and sensitivities, holds together with probability 1 - delta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairchain.explaining.effect_counts import MOST_PAIRED, STEPS, Look
from fairchain.statistics import Interval, Tally
from fairchain.statistics.e_values import growth, log_wealth
from fairchain.statistics.intervals import bisect, largest_above, probability_any_time

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
# At the end of a range there is nothing left to lose, and no stake: bisection starts, and stays, this far inside.
INSIDE, NEAREST = 1e-9, 1e-12
SIGNS = np.array([-1.0, 0.0, 1.0])


def mean_bounds(counts: Counts, values: Floats, low_level: float, high_level: float) -> tuple[Floats, Floats]:
    """Bounds of means of rounds that take some `values`, from (..., values) counts.

    They hold at every time; each fails with probability at most its level.
    """
    least, most = float(values.min()), float(values.max())
    middle = np.clip(counts @ values / np.maximum(counts.sum(axis=-1), 1), least + INSIDE, most - INSIDE)

    def too_small(mean: Floats) -> NDArray[np.bool_]:
        return log_wealth(counts, growth(values - mean[..., None], np.maximum(mean - least, NEAREST))) >= -math.log(
            low_level
        )

    def too_large(mean: Floats) -> NDArray[np.bool_]:
        return log_wealth(counts, growth(mean[..., None] - values, np.maximum(most - mean, NEAREST))) >= -math.log(
            high_level
        )

    low = bisect(too_small, middle, np.full(middle.shape, least))
    high = bisect(too_large, middle, np.full(middle.shape, most))
    return low, high


def effects(look: Look, delta: float) -> tuple[Interval, ...]:
    """For each unit by how much the gap g of the pair shrinks when it becomes g': g - |g'|.

    That is the smaller one of g - g' and g + g', both means of rounds. Below, only the one that is smaller can fail;
    above, either can.
    """
    units, values = len(look.minus), STEPS.astype(float)
    both = np.stack([look.minus, look.plus])
    low, high = mean_bounds(both, values, delta / (2 * units), delta / (4 * units))
    estimate = (both @ values / look.rounds).min(axis=0)
    return tuple(
        Interval(float(e), float(a), float(b))
        for e, a, b in zip(estimate, low.min(axis=0), high.min(axis=0), strict=True)
    )


def remaining(look: Look) -> Floats:
    """The gap of the pair under each intervention, as estimated."""
    left: Floats = (look.plus - look.minus) @ STEPS / (2 * look.rounds)
    return left


def gap_of_pair(look: Look, delta: float) -> Interval:
    """The gap of the pair as it is; each bound takes a third of delta, and the last is that of `largest_gap`."""
    low, high = mean_bounds(look.now, SIGNS, delta / 3, delta / 3)
    return Interval(float(look.now @ SIGNS / look.rounds), float(low), float(high))


def largest_gap(look: Look, pair: Interval, delta: float) -> Interval:
    """The largest gap over all pairs of groups and outcomes.

    From below by the pair, which was chosen before these rounds; from above by the bound of every pair, of which only
    the largest gap's own can fail.
    """
    groups = look.together.shape[1]
    tally = Tally.of_batch(look.rounds, look.together, range(groups), groups)
    high = largest_above(tally, np.ones(tally.both.shape, bool), math.log(3 / delta))
    return Interval(float(tally.gaps.max()), max(pair.low, 0.0), max(high, pair.high))


def sensitivities(look: Look, sizes: Sequence[int], shares: Floats, delta: float) -> tuple[Interval, ...]:
    """The paper's sensitivity of each unit, whose states stand one after another in the counts.

    It is the sum over states of P(state and label) times the largest difference of P(state | group) between groups.
    Of each state's share of delta one half goes to the first factor, and the other half to the second.
    """
    level = delta / sum(sizes)
    low, high = probability_any_time(look.joint, np.full(look.joint.shape, look.rounds), level / (2 * len(shares)))
    joint = np.stack([look.joint @ shares / look.rounds, low @ shares, np.minimum(high @ shares, 1.0)])
    ends = joint * np.stack(spreads(look.states, look.rounds, level / 2))
    totals = np.add.reduceat(ends, np.cumsum([0, *sizes[:-1]]), axis=1)
    return tuple(Interval(*map(float, total)) for total in totals.T)


def spreads(together: Counts, rounds: int, level: float) -> tuple[Floats, Floats, Floats]:
    """The largest difference of P(state | group) between two groups, with bounds, from (states, groups, groups) counts.

    A pair of groups bounds it from above at `level / 2`, and only the widest pair's own bound can fail; from below all
    pairs share the other half.
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
    """(pairs, 2): how often only the first of two groups, and only the second, was in a state.

    Only pairs that no other surpasses, with more of the first and less of the second: bounds grow with the first
    and fall with the second, so the largest are among these.
    """
    off = ~np.eye(groups, dtype=bool)
    pairs = np.unique(np.stack([only[off], only.T[off]], axis=1), axis=0)
    pairs = pairs[np.lexsort((pairs[:, 1], -pairs[:, 0]))]
    least = np.minimum.accumulate(pairs[:, 1])
    kept = np.concatenate([[True], pairs[1:, 1] < least[:-1]])
    chosen: Counts = pairs[kept]
    return chosen
