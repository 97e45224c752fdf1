"""What the methods have in common that look at each group by itself: counts in, bounds of every rate, a verdict out.

All of them play several runs at once, so that repetitions are cheap: arrays are (runs, groups).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Names = NDArray[np.str_]
# (how many more people of each group) -> how many of them got the outcome, (runs, groups).
Count = Callable[[int], NDArray[np.int64]]
# (successes, people of each group so far) -> bounds of the largest difference in each run.
Bounds = Callable[[NDArray[np.int64], int], tuple[Floats, Floats]]


@dataclass(frozen=True)
class Runs:
    """What a rule said in each run, and after how many evaluations of the network."""

    decisions: Names
    evaluations: NDArray[np.int64]


def difference(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Interval arithmetic on bounds of the groups' rates: the largest difference of two lies between these."""
    apart = ~np.eye(low.shape[-1], dtype=bool)
    least = (low[..., :, None] - high[..., None, :])[..., apart].max(axis=-1)
    most = (high[..., :, None] - low[..., None, :])[..., apart].max(axis=-1)
    return least, most


def said(bounds: tuple[Floats, Floats], threshold: float) -> Names:
    """The verdict from bounds of the largest difference."""
    least, most = bounds
    names: Names = np.where(most <= threshold, "FAIR", np.where(least > threshold, "UNFAIR", "UNDECIDED"))
    return names


def until_decided(
    count: Count, groups: int, bounds: Bounds, threshold: float, *, first: int, growth: float, most: int
) -> Runs:
    """Look after `first` people of each group, then whenever they grew by so much; each run stops by itself."""
    seen: NDArray[np.int64] | None = None
    done, decisions, evaluations = 0, np.array(["UNDECIDED"]), np.zeros(1, np.int64)
    while (decisions == "UNDECIDED").any() and done * groups < most:
        more = first if not done else max(1, int(done * (growth - 1)))
        drawn = count(more)
        done += more
        if seen is None:
            seen, decisions = np.zeros_like(drawn), np.full(len(drawn), "UNDECIDED")
            evaluations = np.zeros(len(drawn), np.int64)
        seen += drawn
        going = decisions == "UNDECIDED"
        evaluations[going] = done * groups
        decisions[going] = said(bounds(seen[going], done), threshold)
    return Runs(decisions, evaluations)
