"""VeriFair's stopping rule (Bastani, Zhang, Solar-Lezama 2019), for the largest difference over several groups.

Every group is sampled by itself, equally often. An adaptive concentration inequality bounds each group's probability
at all sample sizes at once; a union bound shares delta among the groups; interval arithmetic turns that into bounds
of every difference, which are twice as wide. The rule stops as soon as these lie on one side of the threshold.

To its advantage it looks after every single sample, which the inequality allows, and nothing but samples is charged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks.baselines.counts import Count, Floats, Runs, until_decided

# (first sample, samples) -> (groups, samples): whether each group got the outcome.
Draw = Callable[[int, int], NDArray[np.bool_]]


@dataclass(frozen=True)
class Stopped:
    """What the rule said, after how many evaluations of the network."""

    decision: str
    gap: float
    evaluations: int


def half_width(samples: ArrayLike, delta: float) -> NDArray[np.float64]:
    """The inequality: |mean - p| is below this at all sample sizes at once, with probability 1 - delta."""
    n = np.asarray(samples, float)
    width: NDArray[np.float64] = np.sqrt((0.6 * np.log(np.log(n) / np.log(1.1) + 1) + np.log(24 / delta) / 1.8) / n)
    return width


def verifair(draw: Draw, groups: int, threshold: float, delta: float, most: int = 100_000_000) -> Stopped:
    """Sample until the rule decides, or UNDECIDED after about `most` evaluations."""
    seen = np.zeros((groups, 1), np.int64)
    done, step, gap = 0, 1024, 0.0
    while done * groups < most:
        means = seen + draw(done, step).cumsum(axis=1)
        samples = np.arange(done + 1, done + step + 1)
        gaps = (means.max(axis=0) - means.min(axis=0)) / samples
        width = 2 * half_width(samples, delta / groups)
        ends = np.flatnonzero((gaps + width <= threshold) | (gaps - width > threshold))
        if ends.size:
            place = int(ends[0])
            gap = float(gaps[place])
            return Stopped("FAIR" if gap <= threshold else "UNFAIR", gap, (done + place + 1) * groups)
        seen, gap, done = means[:, -1:], float(gaps[-1]), done + step
    return Stopped("UNDECIDED", gap, done * groups)


def verifair_on_counts(count: Count, groups: int, threshold: float, delta: float, most: int = 10**9) -> Runs:
    """The same rule on counts, for very long runs: it looks every 1%, which costs it at most that much."""

    def bounds(successes: NDArray[np.int64], people: int) -> tuple[Floats, Floats]:
        gaps, width = np.ptp(successes / people, axis=-1), 2 * half_width(people, delta / groups)
        return gaps - width, gaps + width

    return until_decided(count, groups, bounds, threshold, first=128, growth=1.01, most=most)
