"""Bounds of the gap between two separately counted groups, from both counts at once (docs/mathematics-tables.md).

Each count gives a p-value for each true rate. The two are independent, so a weighted product of them refutes pairs of
rates (Fisher, Good), and the gap is within its range over the remaining pairs. Bounds of single groups that are then
subtracted add up two errors that rarely occur together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from fairchain.statistics.e_values import Floats
from fairchain.statistics.intervals import clopper_pearson_bound
from fairchain.statistics.tally import Counts

# Number of steps in which the product of the two p-values is divided between them.
PRODUCT_STEPS = 256
# Weights of the larger group's p-value; the smaller group has weight 1.
WEIGHTS = tuple(2.0**-n for n in range(7))
# Number of pairs whose steps are in memory at once.
PAIRS_IN_MEMORY = 4096


def combined_level(alpha: float, weight: float = 1.0) -> float:
    """Return the c that E + weight E' exceeds with probability alpha, for two independent exponential variables.

    These are the negative logarithms of two p-values. With weight 1, exp(-c) (1 + c) = alpha.
    """
    low, high = -math.log(alpha), -2.0 * math.log(alpha) + 8.0
    for _ in range(80):
        middle = (low + high) / 2
        if weight == 1:
            beyond = -middle + math.log1p(middle)
        else:
            beyond = -middle + math.log1p(-weight * math.exp(middle - middle / weight)) - math.log1p(-weight)
        if beyond > math.log(alpha):
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=64)
def exponents_at(alpha: float) -> tuple[Floats, Floats]:
    """Return -ln of the smallest p-value of the first and of the second group, by the kind of a pair.

    The kind is the weight, and whether the first group is larger. The combination fails with probability alpha.
    """
    levels = np.array([combined_level(alpha, weight) for weight in WEIGHTS])
    larger = levels / np.array(WEIGHTS)
    return np.concatenate([levels, larger]), np.concatenate([larger, levels])


def _kinds(alpha: float, first: Counts, second: Counts) -> NDArray[np.intp]:
    """Return the kind of each pair of sizes, an index into `exponents_at`.

    The weight depends only on the two sizes: it is optimal if both counts are approximately normal with the same
    variance.
    """
    levels, ratio = exponents_at(alpha)[0][: len(WEIGHTS)], np.minimum(first, second) / np.maximum(first, second)
    best: NDArray[np.intp] = (levels * (1 + ratio[..., None] / np.array(WEIGHTS))).argmin(axis=-1)
    return np.asarray(best + len(WEIGHTS) * (first > second))


def _rate_bounds(
    trials: Counts, successes: Counts, exponents: Floats, steps: int = PRODUCT_STEPS, *, upper: bool
) -> Floats:
    """Return (rates, levels): upper (or lower) bounds of some rates at the levels of the steps.

    `exponents` are -ln of the first level of each rate. Each count is computed once, however many groups have it.
    """
    each = np.stack([trials, successes, exponents], axis=1)
    counts, place = np.unique(each, axis=0, return_inverse=True)
    levels = np.minimum(np.exp(-counts[:, 2:] * np.linspace(1.0, 0.0, steps + 1)), 1.0)
    return clopper_pearson_bound(counts[:, 1:2], counts[:, :1], levels, upper=upper)[place.ravel()]


def two_sample_bounds(
    trials: Counts, successes: Counts, pairs: NDArray[np.intp], measure: str, alpha: float, *, upper: bool
) -> Floats:
    """Return upper (or lower) bounds of the gaps of some pairs, each of which fails with probability at most alpha.

    `trials` (groups,) and `successes` (outcomes, groups) count rows, and groups share none. `pairs` is (pairs, 3):
    outcome, first and second group. A gap is p_i - p_j or, for a "ratio", 1 - p_j / p_i.
    """
    found = np.empty(len(pairs))
    for start in range(0, len(pairs), PAIRS_IN_MEMORY):
        part = slice(start, start + PAIRS_IN_MEMORY)
        outcome, i, j = pairs[part].T
        own, others = (each[_kinds(alpha, trials[i], trials[j])] for each in exponents_at(alpha))
        one = _rate_bounds(trials[i], successes[outcome, i], own, upper=upper)
        two = _rate_bounds(trials[j], successes[outcome, j], others, upper=not upper)
        # A step from one level of the first rate to the next gives the second rate the rest of the product; evaluating
        # each rate at its worst within the step is conservative.
        gaps = _gap(one[:, :-1], two[:, -2::-1], measure, 0.0 if upper else -np.inf)
        found[part] = gaps.max(axis=-1) if upper else gaps.min(axis=-1)
    return found


# Number of steps of a coarse pass, which separates pairs that can matter from those that cannot.
COARSE = 8
# An upper bound of the effect of rounding on a bound.
BOUND_SLACK = 1e-12


def largest_bound(
    trials: Counts, successes: Counts, compared: NDArray[np.bool_], measure: str, alpha: float, *, upper: bool
) -> float:
    """Return the largest upper (or lower) bound of the compared pairs; faster than `two_sample_bounds` for all."""
    best = -math.inf

    def refine(pairs: NDArray[np.intp]) -> None:
        nonlocal best
        bounds = two_sample_bounds(trials, successes, pairs, measure, alpha, upper=upper)
        best = max(best, float(bounds.max(initial=-np.inf)))

    distinct = _distinct(trials, successes, compared)
    looks = _looks(trials, successes, distinct, measure, alpha, lambda: best - BOUND_SLACK, upper=upper)
    for pairs, at_least, at_most in looks:
        best = max(best, float(at_least.max()))
        if at_most.max() < best - BOUND_SLACK:
            continue
        refine(pairs[np.argsort(-at_most)[:64]])
        refine(pairs[at_most > best - BOUND_SLACK])
    return best


def _distinct(trials: Counts, successes: Counts, compared: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return one pair for all compared pairs of an outcome with the same counts, which have the same bounds.

    It consists of the first groups with these counts, whether or not they are themselves compared.
    """
    found = np.zeros_like(compared)
    for outcome, pairs in enumerate(compared):
        counts = np.stack([trials, successes[outcome]], axis=1)
        _, first, place = np.unique(counts, axis=0, return_index=True, return_inverse=True)
        same, (i, j) = first[place.ravel()], np.nonzero(pairs)
        found[outcome, same[i], same[j]] = True
    return found


def bounds_beyond(
    trials: Counts,
    successes: Counts,
    compared: NDArray[np.bool_],
    measure: str,
    alpha: float,
    limit: Fraction,
    *,
    upper: bool,
) -> NDArray[np.intp]:
    """Return the compared pairs, (pairs, 3), whose upper (or lower) bound is above the limit."""
    found = [np.empty((0, 3), np.intp)]
    looks = _looks(trials, successes, compared, measure, alpha, lambda: float(limit) - BOUND_SLACK, upper=upper)
    for pairs, at_least, at_most in looks:
        above = at_least > float(limit) + BOUND_SLACK
        unsure = np.flatnonzero(~above & (at_most > float(limit) - BOUND_SLACK))
        above[unsure] = [
            gap > limit
            for gap in two_sample_bounds(trials, successes, pairs[unsure], measure, alpha, upper=upper).tolist()
        ]
        found.append(pairs[above])
    every = np.concatenate(found)
    return every[np.lexsort(every.T[::-1])]


class _CoarseBounds:
    """Bounds at the levels of the coarse pass, computed once for each count, for all groups and outcomes."""

    def __init__(self, trials: Counts, successes: Counts) -> None:
        each = np.stack([np.broadcast_to(trials, successes.shape).ravel(), successes.ravel()], axis=1)
        self._counts, place = np.unique(each, axis=0, return_inverse=True)
        self._place = place.reshape(successes.shape)
        self._known: dict[tuple[float, bool], tuple[NDArray[np.bool_], Floats]] = {}

    def of(self, outcome: int, groups: NDArray[np.intp], exponent: float, *, upper: bool) -> Floats:
        """Return (groups, levels): upper (or lower) bounds of the rates of some groups."""
        if (exponent, upper) not in self._known:
            size = len(self._counts)
            self._known[exponent, upper] = np.zeros(size, bool), np.empty((size, COARSE + 1))
        known, every = self._known[exponent, upper]
        wanted = self._place[outcome, groups]
        new = np.unique(wanted[~known[wanted]])
        if len(new):
            trials, successes = self._counts[new].T
            every[new] = _rate_bounds(trials, successes, np.full(len(new), exponent), COARSE, upper=upper)
            known[new] = True
        found: Floats = every[wanted]
        return found


def _looks(
    trials: Counts,
    successes: Counts,
    compared: NDArray[np.bool_],
    measure: str,
    alpha: float,
    floor: Callable[[], float],
    *,
    upper: bool,
) -> Iterator[tuple[NDArray[np.intp], Floats, Floats]]:
    """Yield the compared pairs of each outcome, with a lower and an upper estimate of their bounds, from few steps.

    A coarse step at its worst ends contains all fine steps inside it; the corner that two coarse steps share is not
    beyond the worst of the adjacent fine steps. Outcomes whose bounds are all below `floor()` are skipped: no pair is
    beyond the group with the highest and the group with the lowest rate in every step.
    """
    worst, gap = np.maximum if upper else np.minimum, partial(_gap, at_zero=0.0 if upper else -np.inf)
    kinds = _kinds(alpha, trials[:, None], trials[None, :])
    bounds = _CoarseBounds(trials, successes)
    exponents = list(zip(*(each.tolist() for each in exponents_at(alpha)), strict=True))
    for outcome, pairs in enumerate(compared):
        # Not by sorting the exponents: with many groups this would take longer than everything else.
        found = np.flatnonzero(np.bincount(kinds[pairs], minlength=len(exponents))).tolist()
        for kind in sorted(found, key=exponents.__getitem__):
            those, (one, other) = pairs & (kinds == kind), exponents[kind]
            first, second = np.flatnonzero(those.any(axis=1)), np.flatnonzero(those.any(axis=0))
            more = bounds.of(outcome, first, one, upper=upper)
            less = bounds.of(outcome, second, other, upper=not upper)
            last = COARSE - 1 if upper else COARSE
            most = worst.reduce([gap(more[:, s].max(), less[:, last - s].min(), measure) for s in range(COARSE)])
            if most < floor():
                continue
            # Groups by groups, one step after another.
            outer = worst.reduce([gap(more[:, s, None], less[None, :, COARSE - s - 1], measure) for s in range(COARSE)])
            inner = worst.reduce([gap(more[:, s, None], less[None, :, COARSE - s], measure) for s in range(COARSE)])
            i, j = np.nonzero(those[np.ix_(first, second)])
            named = np.stack([np.full(len(i), outcome), first[i], second[j]], axis=1)
            yield named, *((inner[i, j], outer[i, j]) if upper else (outer[i, j], inner[i, j]))


def _gap(more: Floats, less: Floats, measure: str, at_zero: float) -> Floats:
    """Return the gap of two rates: their difference, or for a ratio 1 - less/more, and `at_zero` if more is 0."""
    if measure == "difference":
        return more - less
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(more > 0, 1 - less / more, at_zero)
