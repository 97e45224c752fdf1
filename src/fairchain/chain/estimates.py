"""From counts to probabilities and their bounds: frequency, Laplace, Good-Turing; for fixed samples, at any time,
folded.

In a folded chain one trace visits a state several times. Its visits depend on each other, so they are not a sample of
independent draws and Clopper-Pearson bounds are not valid. Bounds come from sums over traces instead, which are
independent (docs/mathematics.md, "Chains over time").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairchain.statistics.intervals import bisect, clopper_pearson, probability_any_time

Estimator = Literal["frequency", "laplace", "good-turing"]
ESTIMATORS: tuple[Estimator, ...] = ("frequency", "laplace", "good-turing")
Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
# Stakes as multiples of 1 / steps: small ones for many traces, large ones for rare transitions.
STAKES = 2.0 ** np.arange(-20, 11)


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over traces for transitions p -> q of a folded chain; n_p and n_pq are the counts of one trace.

    `square` and `cross` are the sums of n_pq^2 and n_pq n_p, (groups, width, following); `visits` of n_p^2,
    (groups, width, 1).
    """

    square: Counts
    cross: Counts
    visits: Counts

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.square + other.square, self.cross + other.cross, self.visits + other.visits)


def estimate(table: Counts, estimator: Estimator) -> Floats:
    """Return (states, successors): probabilities from counts; an unvisited state has equal probabilities.

    "frequency" uses the observed frequencies. "laplace" adds one to every count. "good-turing" gives transitions that
    were never observed the share of those observed once, and takes it from the others; if all transitions were
    observed, or none twice, it changes nothing.
    """
    counts = table.astype(np.float64)
    if estimator == "laplace":
        counts += 1
    visits = counts.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = counts / visits
        if estimator == "good-turing":
            unseen = (counts == 0).sum(axis=1, keepdims=True)
            once = (counts == 1).sum(axis=1, keepdims=True)
            missing = np.where((unseen > 0) & (once < visits), once / visits, 0.0)
            shifted = np.where(counts == 0, missing / unseen, found * (1 - missing))
            found = np.where(unseen > 0, shifted, found)
    return np.where(visits > 0, found, 1 / table.shape[1])


def bounds(seen: Counts, visits: Counts, level: float, *, exact: bool) -> tuple[Floats, Floats]:
    """Return bounds of the probabilities behind counts: Clopper-Pearson, or a confidence sequence.

    See docs/mathematics.md, "Chains". Equal counts have equal bounds, which are computed once.
    """
    times, row = np.unique(visits, return_inverse=True)
    most = int(seen.max(initial=0)) + 1
    codes, place = np.unique(row.reshape(seen.shape) * most + seen, return_inverse=True)
    row, count = np.divmod(codes, most)
    low, high = (clopper_pearson if exact else probability_any_time)(count, times[row], level)
    place = place.reshape(seen.shape)
    return low[place], high[place]


def folded_bounds(taken: Counts, moments: Moments, steps: int, level: float) -> tuple[Floats, Floats]:
    """Return bounds of E[n_pq] / E[n_p], each failing with probability at most `level`, at any time.

    `taken` counts each transition over all traces, (groups, width, following); a trace has at most `steps` steps.
    """
    visits = taken.sum(axis=2, keepdims=True).astype(np.float64)
    seen = taken.astype(np.float64)
    bar = math.log(2 / level)
    square, cross, both = (part.astype(np.float64) for part in (moments.square, moments.cross, moments.visits))
    # A trace of n steps takes a transition between states at most n - 1 times, and its last transition once.
    most = np.ones(taken.shape[2])
    most[: taken.shape[1]] = max(steps - 1, 1)
    stakes = STAKES.reshape(-1, *[1] * (taken.ndim + 1)) / steps

    def too_small(value: Floats) -> Floats:
        gain, spread = seen - value * visits, square - 2 * value * cross + value**2 * both
        return _log_wealth(stakes, gain, spread, value * steps) - bar

    def too_large(value: Floats) -> Floats:
        gain, spread = value * visits - seen, square - 2 * value * cross + value**2 * both
        return _log_wealth(stakes, gain, spread, (1 - value) * most) - bar

    rate = seen / np.maximum(visits, 1)
    low = np.where(seen > 0, bisect(too_small, rate, np.zeros_like(rate)), 0.0)
    high = np.where(seen < visits, bisect(too_large, rate, np.ones_like(rate)), 1.0)
    return low, high


def _log_wealth(stakes: Floats, gain: Floats, spread: Floats, loss: Floats) -> Floats:
    """Return a lower bound of the log wealth of bets with equal shares at these stakes.

    `loss` is the largest loss of a bet.

    For y > -1, (log(1 + y) - y) / y^2 rises with y, so its value at the largest loss bounds the logarithm of every
    factor from below by a parabola, and that of the product by sums of gains and of their squares.
    """
    worst = stakes * loss
    allowed = worst < 1
    worst = np.where(allowed, worst, 0.5)
    # -(log(1 - u) + u) / u^2 by its series if the difference would be lost by rounding.
    small = worst < 1e-3
    bent = np.where(small, 0.5 + worst / 3 + worst**2 / 4 + worst**3, 0.0)
    safe = np.where(small, 0.5, worst)
    bent = np.where(small, bent, (-np.log1p(-safe) - safe) / safe**2)
    logs = np.where(allowed, stakes * gain - stakes**2 * bent * spread, -np.inf)
    top = logs.max(axis=0)
    with np.errstate(invalid="ignore"):
        rest = np.log(np.exp(logs - top).sum(axis=0))
    found: Floats = np.where(np.isfinite(top), top + rest - math.log(len(stakes)), -np.inf)
    return found
