"""Confidence sequences: each group's rate has bounds that hold at all times, delta is shared among the groups.

The bounds are the mixture's (docs/mathematics-intervals.md, "Group probabilities"), about the tightest known for coins.
The rule stops as soon as interval arithmetic on them decides; it looks whenever inputs grew by 1%, which costs it at
most that much. What it lacks against fairchain: groups are compared by their own rates and not in common rounds, and
there is a union bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.counts import (
    Bounds,
    Count,
    Draw,
    Floats,
    Runs,
    Stopped,
    difference,
    first_decided,
    until_decided,
    verdicts_of,
)
from fairchain.statistics.intervals import probability_any_time

FIRST, GROWTH = 128, 1.01
# Of the bounds' reach as the normal distribution gives it; from so little on exact bounds are worth computing.
WORTH = 0.8


def _bounds(groups: int, threshold: float, delta: float) -> Bounds:
    """Exact bounds where they may decide, none elsewhere: a rule that holds at all times may choose when to look."""

    def bounds(successes: NDArray[np.int64], sizes: NDArray[np.int64]) -> tuple[Floats, Floats]:
        worth = _may_decide(successes, sizes, threshold, delta / groups)
        least, most = np.full(len(sizes), -1.0), np.full(len(sizes), 1.0)
        trials = np.broadcast_to(sizes[:, None], successes.shape)
        if worth.any():
            low, high = probability_any_time(successes[worth], trials[worth], delta / groups)
            least[worth], most[worth] = difference(low, high)
        return least, most

    return bounds


def _may_decide(
    successes: NDArray[np.int64], sizes: NDArray[np.int64], threshold: float, delta: float
) -> NDArray[np.bool_]:
    n = sizes[:, None].astype(float)
    rates = successes / n
    variance = rates * (1 - rates)
    # The logarithm of the mixture's price for not knowing the rate (Laplace).
    price = 0.5 * np.log(np.maximum(n / (2 * np.pi * np.maximum(variance, 1 / n)), 1.0))
    reach = WORTH * np.sqrt(2 * variance / n * (price - np.log(delta)))
    may: NDArray[np.bool_] = verdicts_of(difference(rates - reach, rates + reach), threshold) != "UNDECIDED"
    return may


def confidence_sequences(count: Count, groups: int, threshold: float, delta: float, most: int = 10**9) -> Runs:
    """Sample until decided, or UNDECIDED after about `most` evaluations; many runs at once."""
    bounds = _bounds(groups, threshold, delta)
    return until_decided(count, groups, bounds, threshold, first=FIRST, growth=GROWTH, most=most)


def sequences_on_network(draw: Draw, groups: int, threshold: float, delta: float, most: int = 10**8) -> Stopped:
    """The same rule in one run, input by input."""
    bounds = _bounds(groups, threshold, delta)
    return first_decided(draw, groups, bounds, threshold, first=FIRST, growth=GROWTH, most=most)
