"""Bounds of the gap between two groups counted apart, from both counts at once (docs/mathematics.md).

Each count gives a p-value for each true rate. The two are independent, so their product refutes pairs of rates by
Fisher's combination, and the gap lies within what it can be over the pairs that are left. Bounds found one group at
a time and then subtracted add up two bad lucks that hardly ever come together.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairchain.evidence.bets import Floats
from fairchain.evidence.interval import clopper_pearson
from fairchain.evidence.tally import Counts

# Steps in which the product of the two p-values is divided between them.
STEPS = 256
# Pairs whose steps are held in memory at once.
PAIRS_AT_ONCE = 4096


def combined_level(alpha: float) -> float:
    """The product of two independent p-values that is undercut with probability alpha: F (1 - ln F) = alpha."""
    low, high = -2.0 * math.log(alpha) + 8.0, -math.log(alpha)
    for _ in range(80):
        middle = (low + high) / 2
        # In logarithms, with x = -ln F: -x + ln(1 + x) against ln alpha.
        if -middle + math.log1p(middle) > math.log(alpha):
            high = middle
        else:
            low = middle
    return -low


def pair_bounds(
    asked: Counts, got: Counts, pairs: NDArray[np.intp], measure: str, alpha: float
) -> tuple[Floats, Floats]:
    """Lower and upper bounds of the gaps of some pairs, each of which fails with probability at most alpha.

    Parameters
    ----------
    asked, got
        (groups,) and (outcomes, groups): rows, and how many got the outcome; groups share no row.
    pairs
        (pairs, 3): outcome, first and second group of each.
    measure, alpha
        "difference" for p_i - p_j, "ratio" for 1 - p_j / p_i; and how often a bound may fail.
    """
    log_level = combined_level(alpha)
    steps = np.exp(np.linspace(log_level, 0.0, STEPS + 1))
    trials = np.broadcast_to(asked, got.shape)[..., None]
    # (outcomes, groups, steps): bounds at each level on its own.
    low, high = clopper_pearson(got[..., None], trials, 2 * np.minimum(steps, 1.0))
    below, above = np.empty((2, len(pairs)))
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        outcome, i, j = pairs[part].T
        above[part] = _widest(high[outcome, i], low[outcome, j], measure).max(axis=-1)
        below[part] = _narrowest(low[outcome, i], high[outcome, j], measure).min(axis=-1)
    return below, above


def _widest(high: Floats, low: Floats, measure: str) -> Floats:
    """The largest gap in each step: the first rate as high, the second as low as the step allows.

    A step from level a to the next gives the other rate the level F/a; taking each at its worst within the step
    errs on the safe side.
    """
    more, less = high[..., :-1], low[..., ::-1][..., 1:]
    if measure == "difference":
        return more - less
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(more > 0, 1 - less / more, 0.0)


def _narrowest(low: Floats, high: Floats, measure: str) -> Floats:
    """The smallest gap in each step: the first rate as low, the second as high as the step allows."""
    more, less = low[..., :-1], high[..., ::-1][..., 1:]
    if measure == "difference":
        return more - less
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(more > 0, 1 - less / more, -np.inf)
