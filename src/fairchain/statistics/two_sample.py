"""Bounds of the gap between two groups counted apart, from both counts at once (docs/mathematics.md).

Each count gives a p-value for each true rate. The two are independent, so their product refutes pairs of rates by
Fisher's combination, and the gap lies within what it can be over the pairs that are left. Bounds found one group at
a time and then subtracted add up two errors that hardly ever come together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fairchain.statistics.e_values import Floats
from fairchain.statistics.intervals import clopper_pearson
from fairchain.statistics.tally import Counts

# Steps in which the product of the two p-values is divided between them.
STEPS = 256
# Pairs whose steps are held in memory at once.
PAIRS_AT_ONCE = 4096


def combined_level(alpha: float) -> float:
    """Return ln F, where a product of two p-values is below F with probability alpha: F (1 - ln F) = alpha."""
    low, high = -2.0 * math.log(alpha) + 8.0, -math.log(alpha)
    for _ in range(80):
        middle = (low + high) / 2
        # In logarithms, with x = -ln F: -x + ln(1 + x) against ln alpha.
        if -middle + math.log1p(middle) > math.log(alpha):
            high = middle
        else:
            low = middle
    return -low


@dataclass(frozen=True)
class _Grid:
    """Bounds of every rate at the levels of some of the steps, (outcomes, groups, levels) each."""

    low: Floats
    high: Floats

    @classmethod
    def of(cls, trials: Counts, successes: Counts, alpha: float, steps: int = STEPS) -> _Grid:
        """Compute each count once, however many groups have it."""
        levels = np.exp(np.linspace(combined_level(alpha), 0.0, STEPS + 1))[:: STEPS // steps]
        each = np.stack([np.broadcast_to(trials, successes.shape).ravel(), successes.ravel()], axis=1)
        counts, place = np.unique(each, axis=0, return_inverse=True)
        low, high = clopper_pearson(counts[:, 1:], counts[:, :1], 2 * np.minimum(levels, 1.0))
        shape = (*successes.shape, len(levels))
        return cls(low[place.ravel()].reshape(shape), high[place.ravel()].reshape(shape))


def two_sample_bounds(
    trials: Counts, successes: Counts, pairs: NDArray[np.intp], measure: str, alpha: float
) -> tuple[Floats, Floats]:
    """Return lower and upper bounds of the gaps of some pairs, each of which fails with probability at most alpha.

    Parameters
    ----------
    trials, successes
        (groups,) and (outcomes, groups): rows, and how many got the outcome; groups share no row.
    pairs
        (pairs, 3): outcome, first and second group of each.
    measure, alpha
        "difference" for p_i - p_j, "ratio" for 1 - p_j / p_i; and how often a bound may fail.
    """
    below, above = np.empty((2, len(pairs)))
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        outcome, i, j = pairs[part].T
        # Only the counts of these pairs: two columns for each of them, of one outcome.
        two = _Grid.of(
            np.stack([trials[i], trials[j]]), np.stack([successes[outcome, i], successes[outcome, j]]), alpha
        )
        # A step from level a to the next gives the other rate the level F/a; taking each rate at its worst within the
        # step errs on the safe side.
        above[part] = _gap(two.high[0, :, :-1], two.low[1, :, -2::-1], measure, 0.0).max(axis=-1)
        below[part] = _gap(two.low[0, :, :-1], two.high[1, :, -2::-1], measure, -np.inf).min(axis=-1)
    return below, above


# Steps of a first look, which divides pairs into those that can matter and those that cannot.
COARSE = 8
# More than rounding can do to a bound.
SLACK = 1e-12


def largest_bound(
    trials: Counts, successes: Counts, compared: NDArray[np.bool_], measure: str, alpha: float, *, upper: bool
) -> float:
    """Return the largest upper (or lower) bound of the compared pairs; faster than `two_sample_bounds` for all."""
    best = -math.inf

    def refine(pairs: NDArray[np.intp]) -> None:
        nonlocal best
        best = max(best, float(two_sample_bounds(trials, successes, pairs, measure, alpha)[upper].max(initial=-np.inf)))

    distinct = _distinct(trials, successes, compared)
    looks = _looks(trials, successes, distinct, measure, alpha, lambda: best - SLACK, upper=upper)
    for pairs, at_least, at_most in looks:
        best = max(best, float(at_least.max()))
        if at_most.max() < best - SLACK:
            continue
        refine(pairs[np.argsort(-at_most)[:64]])
        refine(pairs[at_most > best - SLACK])
    return best


def _distinct(trials: Counts, successes: Counts, compared: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return one pair for all compared pairs of an outcome with the same counts, which have the same bounds.

    It consists of the first groups with these counts, whether or not they are compared themselves.
    """
    found = np.zeros_like(compared)
    for outcome, pairs in enumerate(compared):
        counts = np.stack([trials, successes[outcome]], axis=1)
        _, first, place = np.unique(counts, axis=0, return_index=True, return_inverse=True)
        same, (i, j) = first[place.ravel()], np.nonzero(pairs)
        found[outcome, same[i], same[j]] = True
    return found


def lower_beyond(
    trials: Counts, successes: Counts, compared: NDArray[np.bool_], measure: str, alpha: float, limit: Fraction
) -> NDArray[np.intp]:
    """Return the compared pairs, (pairs, 3), whose lower bound is above the limit."""
    found = [np.empty((0, 3), np.intp)]
    looks = _looks(trials, successes, compared, measure, alpha, lambda: float(limit) - SLACK, upper=False)
    for pairs, at_least, at_most in looks:
        above = at_least > float(limit) + SLACK
        unsure = np.flatnonzero(~above & (at_most > float(limit) - SLACK))
        above[unsure] = [
            gap > limit for gap in two_sample_bounds(trials, successes, pairs[unsure], measure, alpha)[0].tolist()
        ]
        found.append(pairs[above])
    return np.concatenate(found)


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
    """Yield the compared pairs of each outcome, and between which values their bounds lie, from few steps.

    A coarse step taken at its worst ends holds all fine steps inside it; the corner that two coarse steps share is not
    beyond the worst of the fine steps next to it. Outcomes all of whose bounds are below `floor()` are passed over: no
    pair is beyond the group with the highest and the group with the lowest rate in every step.
    """
    worst, gap = np.maximum if upper else np.minimum, partial(_gap, at_zero=0.0 if upper else -np.inf)
    for outcome, pairs in enumerate(compared):
        if not pairs.any():
            continue
        used = np.flatnonzero(pairs.any(axis=0) | pairs.any(axis=1))
        grid = _Grid.of(trials[used], successes[outcome : outcome + 1, used], alpha, COARSE)
        more, less = (grid.high[0], grid.low[0]) if upper else (grid.low[0], grid.high[0])
        last = COARSE - 1 if upper else COARSE
        most = worst.reduce([gap(more[:, s].max(), less[:, last - s].min(), measure) for s in range(COARSE)])
        if most < floor():
            continue
        # Groups by groups, one step after another.
        outer = worst.reduce([gap(more[:, s, None], less[None, :, COARSE - s - 1], measure) for s in range(COARSE)])
        inner = worst.reduce([gap(more[:, s, None], less[None, :, COARSE - s], measure) for s in range(COARSE)])
        i, j = np.nonzero(pairs[np.ix_(used, used)])
        named = np.stack([np.full(len(i), outcome), used[i], used[j]], axis=1)
        yield named, *((inner[i, j], outer[i, j]) if upper else (outer[i, j], inner[i, j]))


def _gap(more: Floats, less: Floats, measure: str, at_zero: float) -> Floats:
    """Return the gap of two rates: their difference, or for a ratio 1 - less/more and `at_zero` where more is 0."""
    if measure == "difference":
        return more - less
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(more > 0, 1 - less / more, at_zero)
