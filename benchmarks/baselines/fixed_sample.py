"""A fixed sample: so many people of each group, Clopper and Pearson's exact intervals, a union bound over them.

The textbook way, valid if the number of people was settled beforehand. Nobody knows how many will do; to its advantage
it is told the true rates, and takes as many as decide in nine of ten runs. It looks once: what is undecided then
stays undecided.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks.baselines.counts import Names, difference, said
from fairchain.statistics.intervals import clopper_pearson

POWER = 0.9


def fixed_sample(successes: ArrayLike, people: int, threshold: float, delta: float) -> Names:
    """The verdict of each run from so many people of each group, (runs, groups)."""
    got = np.asarray(successes)
    low, high = clopper_pearson(got, np.full(got.shape, people), delta / got.shape[-1])
    return said(difference(low, high), threshold)


def planned(rates: ArrayLike, threshold: float, delta: float, runs: int = 200) -> int:
    """The fewest people of each group, to 1%, with which the rule decides in nine of ten runs, given the true rates."""
    p: NDArray[np.float64] = np.asarray(rates, float)

    def enough(people: int) -> bool:
        got = np.random.default_rng(people).binomial(people, p, (runs, len(p)))
        return float((fixed_sample(got, people, threshold, delta) != "UNDECIDED").mean()) >= POWER

    high = 16
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
