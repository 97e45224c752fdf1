"""VeriFair's stopping rule (Bastani, Zhang, Solar-Lezama 2019), for the largest difference over several groups.

Every group is sampled by itself, equally often. An adaptive concentration inequality bounds each group's probability
at all sample sizes at once; a union bound shares delta among the groups; interval arithmetic turns that into bounds
of every difference, which are twice as wide. The rule stops as soon as these lie on one side of the threshold, and it
looks after every sample, as its authors' program does.

Published for two groups, with two specifications: demographic parity, which is a *ratio* of two probabilities, and a
"causal" one, which is their difference. The difference is what is verified here, on both sides and for all pairs.
Inputs of a group are drawn directly; the authors' program draws inputs until one is of the group, which is not charged.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks.baselines.counts import Bounds, Count, Draw, Floats, Runs, Stopped, first_decided, until_decided

# In the authors' program, for each of the two groups: together twice that, as it prints.
AUTHORS_DELTA = 5e-11


def authors_delta(groups: int) -> float:
    """The error probability of all groups together that gives each as much as the authors do."""
    return groups * AUTHORS_DELTA


def half_width(samples: ArrayLike, delta: float) -> NDArray[np.float64]:
    """The inequality: |mean - p| is below this at all sample sizes at once, with probability 1 - delta."""
    n = np.asarray(samples, float)
    width: NDArray[np.float64] = np.sqrt((0.6 * np.log(np.log(n) / np.log(1.1) + 1) + np.log(24 / delta) / 1.8) / n)
    return width


def _bounds(groups: int, delta: float) -> Bounds:
    def bounds(successes: NDArray[np.int64], sizes: NDArray[np.int64]) -> tuple[Floats, Floats]:
        gaps, width = np.ptp(successes, axis=-1) / sizes, 2 * half_width(sizes, delta / groups)
        return gaps - width, gaps + width

    return bounds


def verifair(draw: Draw, groups: int, threshold: float, delta: float, most: int = 10**8) -> Stopped:
    """Sample until decided, or UNDECIDED after about `most` evaluations; delta is for all groups together."""
    return first_decided(draw, groups, _bounds(groups, delta), threshold, first=1, growth=1.0, most=most)


def verifair_on_counts(count: Count, groups: int, threshold: float, delta: float, most: int = 10**9) -> Runs:
    """The same rule on counts, for very long runs: it looks every 1%, which costs it at most that much."""
    return until_decided(count, groups, _bounds(groups, delta), threshold, first=128, growth=1.01, most=most)
