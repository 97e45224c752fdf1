"""Bounds of the transitions of a folded chain, where one trace passes a state several times.

Visits of one trace depend on each other, so they are no sample of independent draws and Clopper-Pearson does not hold.
What holds comes from sums over traces, which are independent (docs/mathematics.md, "Chains over time").
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.over_time.time_counts import Moments
from fairchain.statistics.intervals import bisect

Floats = NDArray[np.float64]
# Stakes as multiples of 1 / steps: small ones for many traces, large ones for transitions that are rare.
STAKES = 2.0 ** np.arange(-20, 11)


def folded_bounds(taken: NDArray[np.int64], moments: Moments, steps: int, level: float) -> tuple[Floats, Floats]:
    """Bounds of E[n_pq] / E[n_p] for each transition, each failing with probability at most `level`, at any time.

    Parameters
    ----------
    taken
        (groups, width, following): how often each transition was taken, over all traces.
    moments
        The second moments of how often one trace takes it.
    steps
        How many steps a trace has at most.
    level
        Of each interval.
    """
    visits = taken.sum(axis=2, keepdims=True).astype(np.float64)
    seen = taken.astype(np.float64)
    bar = math.log(2 / level)
    square, cross, both = (
        part.astype(np.float64) for part in (moments.square, moments.cross, moments.visits[..., None])
    )
    # One trace takes a transition between states at most once less than it has steps, and leaves time once.
    most = np.ones(taken.shape[2])
    most[: taken.shape[1]] = max(steps - 1, 1)
    stakes = STAKES.reshape(-1, *[1] * (taken.ndim + 1)) / steps

    def too_small(value: Floats) -> NDArray[np.bool_]:
        gain, spread = seen - value * visits, square - 2 * value * cross + value**2 * both
        return _log_wealth(stakes, gain, spread, value * steps) >= bar

    def too_large(value: Floats) -> NDArray[np.bool_]:
        gain, spread = value * visits - seen, square - 2 * value * cross + value**2 * both
        return _log_wealth(stakes, gain, spread, (1 - value) * most) >= bar

    rate = seen / np.maximum(visits, 1)
    low = np.where(seen > 0, bisect(too_small, rate, np.zeros_like(rate)), 0.0)
    high = np.where(seen < visits, bisect(too_large, rate, np.ones_like(rate)), 1.0)
    return low, high


def _log_wealth(stakes: Floats, gain: Floats, spread: Floats, loss: Floats) -> Floats:
    """At most the logarithm of what bets at these stakes have become, equal parts at each; `loss` is a bet's largest.

    For y > -1, (log(1 + y) - y) / y^2 rises with y, so its value at the largest loss bounds the logarithm of every
    factor from below by a parabola, and that of the product by sums of gains and of their squares.
    """
    worst = stakes * loss
    allowed = worst < 1
    worst = np.where(allowed, worst, 0.5)
    # -(log(1 - u) + u) / u^2 by its series where the difference would round away.
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
