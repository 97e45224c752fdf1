"""A fixed sample: so many inputs of each group, Clopper and Pearson's exact intervals, a union bound over them.

The textbook method, valid if the number of inputs was fixed beforehand. The right number is unknown in practice; to its
advantage the method knows the true rates, and takes as many as decide in nine of ten runs. It looks once: what is
undecided then stays undecided.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks.baselines.counts import Names, difference, verdicts_of
from fairchain.statistics.intervals import clopper_pearson

POWER = 0.9


def fixed_sample(successes: ArrayLike, size: int, threshold: float, delta: float) -> Names:
    """The verdict of each run from so many inputs of each group, (runs, groups)."""
    positive = np.asarray(successes)
    low, high = clopper_pearson(positive, np.full(positive.shape, size), delta / positive.shape[-1])
    return verdicts_of(difference(low, high), threshold)


def planned(rates: ArrayLike, threshold: float, delta: float, runs: int = 200) -> int:
    """The fewest inputs of each group, to 1%, with which the rule decides in nine of ten runs, given the true rates."""
    p: NDArray[np.float64] = np.asarray(rates, float)

    def enough(size: int) -> bool:
        positive = np.random.default_rng(size).binomial(size, p, (runs, len(p)))
        return float((fixed_sample(positive, size, threshold, delta) != "UNDECIDED").mean()) >= POWER

    high = 16
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
