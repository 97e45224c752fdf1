"""Intervals that hold at any time, and one that holds for a sample size planned before (docs/mathematics.md).

Each takes counts only and gives bounds by bisection on the value that is still not refuted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairchain.evidence.bets import log_wealth
from fairchain.evidence.payoff import DIFFERENCE, Payoff
from fairchain.evidence.tally import Counts

Floats = NDArray[np.float64]
# Bisection of an interval of length 2 down to 2**-44, far below what counts can resolve.
STEPS = 45


@dataclass(frozen=True)
class Interval:
    """A number with its bounds; prints as `0.055 [0.043, 0.069]`.

    >>> print(Interval(0.055, 0.043, 0.069))
    0.055 [0.043, 0.069]
    >>> 0.06 in Interval(0.055, 0.043, 0.069)
    True
    """

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self:.3f}"

    def __format__(self, form: str) -> str:
        form = form or ".3f"
        return f"{self.estimate:{form}} [{self.low:{form}}, {self.high:{form}}]"

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def bisect(refuted: Callable[[Floats], NDArray[np.bool_]], inside: ArrayLike, outside: ArrayLike) -> Floats:
    """The refuted end of a shrinking bracket: a bound that errs, by less than rounding, on the safe side."""
    inside, outside = np.array(inside, float), np.array(outside, float)
    for _ in range(STEPS):
        middle = (inside + outside) / 2
        gone = refuted(middle)
        inside, outside = np.where(gone, inside, middle), np.where(gone, middle, outside)
    return outside


def largest_above(
    cells: Counts,
    log_bar: float,
    known_below: NDArray[np.bool_] | bool = False,
    limit: float = 1.0,
    payoff: Payoff = DIFFERENCE,
) -> float:
    """The largest of the upper bounds of many gaps, without finding the others.

    Pairs `known_below` the limit count as refuted from there on. A pair that is refuted where another is not has the
    smaller bound, and need not be looked at again.
    """
    flat = cells.reshape(-1, 3)
    known = np.broadcast_to(np.asarray(known_below), cells.shape[:-1]).reshape(-1)
    low, high = -1.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        held = ~((log_wealth(flat, payoff.against_at_least(middle)) >= log_bar) | (known & (middle >= limit)))
        if held.any():
            low, flat, known = middle, flat[held], known[held]
        else:
            high = middle
    return high


def largest_below(cells: Counts, log_bar: float, payoff: Payoff = DIFFERENCE) -> float:
    """The largest of the lower bounds of many gaps: as far up as some pair refutes "my gap is at most this"."""
    flat = cells.reshape(-1, 3)
    low, high = -1.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        refuted = log_wealth(flat, payoff.against_at_most(middle)) >= log_bar
        if refuted.any():
            low, flat = middle, flat[refuted]
        else:
            high = middle
    return low


def pair_bounds(cells: Counts, log_bar: float, payoff: Payoff = DIFFERENCE) -> tuple[Floats, Floats]:
    """Bounds of every pair's own gap that hold at every time, (...,) from (..., 3); each side spends exp(-log_bar)."""
    below = np.full(cells.shape[:-1], -1.0)
    above = np.ones(cells.shape[:-1])

    def too_small(gap: Floats) -> NDArray[np.bool_]:
        return log_wealth(cells, payoff.against_at_most(gap)) >= log_bar

    def too_large(gap: Floats) -> NDArray[np.bool_]:
        return log_wealth(cells, payoff.against_at_least(gap)) >= log_bar

    # "At most -1" and "at least 1" bet with nothing to lose: the ends themselves are left as they are.
    return bisect(too_small, above, below), bisect(too_large, below, above)


def probability_any_time(successes: ArrayLike, trials: ArrayLike, alpha: float | Floats) -> tuple[Floats, Floats]:
    """Bounds of probabilities that hold at every time at once: the mixture of all bets under a uniform prior."""
    successes, trials = (np.atleast_1d(np.asarray(a, float)) for a in (successes, trials))
    failures = trials - successes
    log_gamma = np.vectorize(math.lgamma, otypes=[float])
    evidence = log_gamma(successes + 1) + log_gamma(failures + 1) - log_gamma(trials + 2)
    bar = -np.log(alpha)

    def refuted(p: Floats) -> NDArray[np.bool_]:
        with np.errstate(divide="ignore", invalid="ignore"):
            likelihood = np.where(successes > 0, successes * np.log(p), 0.0) + np.where(
                failures > 0, failures * np.log1p(-p), 0.0
            )
        gone: NDArray[np.bool_] = evidence - likelihood >= bar
        return gone

    middle = successes / np.maximum(trials, 1)
    low = np.where(successes > 0, bisect(refuted, middle, np.zeros_like(middle)), 0.0)
    high = np.where(failures > 0, bisect(refuted, middle, np.ones_like(middle)), 1.0)
    return low, high


def clopper_pearson(successes: ArrayLike, trials: ArrayLike, alpha: float | Floats) -> tuple[Floats, Floats]:
    """Exact bounds of probabilities for a number of trials fixed beforehand."""
    from scipy.special import betainccinv, betaincinv

    successes, trials = np.asarray(successes, float), np.asarray(trials, float)
    failures = trials - successes
    low = np.where(successes > 0, betaincinv(np.maximum(successes, 1), failures + 1, alpha / 2), 0.0)
    high = np.where(failures > 0, betainccinv(successes + 1, np.maximum(failures, 1), alpha / 2), 1.0)
    return low, high
