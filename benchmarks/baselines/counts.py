"""What methods that look at each group separately have in common: counts in, bounds of every rate, a verdict out.

On simulated networks several runs are simulated at once, so that repetitions are cheap: arrays are (runs, groups). On a
real network a run is simulated by itself, and a whole piece of it is looked at in one go: (looks, groups).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Names = NDArray[np.str_]
# (how many more inputs of each group) -> the successes among them, (runs, groups).
Count = Callable[[int], NDArray[np.int64]]
# (first input, inputs) -> (groups, inputs): whether each input got the outcome.
Draw = Callable[[int, int], NDArray[np.bool_]]
# (successes (looks, groups), inputs of each group at each look) -> bounds of the largest difference at each.
Bounds = Callable[[NDArray[np.int64], NDArray[np.int64]], tuple[Floats, Floats]]
# Inputs of each group that a network is shown at a time.
PIECE = 1024


@dataclass(frozen=True)
class Runs:
    """The decision of a rule in each run, and its evaluations of the network."""

    decisions: Names
    evaluations: NDArray[np.int64]


@dataclass(frozen=True)
class Stopped:
    """The decision of a rule in one run, and its evaluations of the network."""

    decision: str
    gap: float
    evaluations: int


def difference(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Interval arithmetic on bounds of the groups' rates: the largest difference of two lies between these."""
    apart = ~np.eye(low.shape[-1], dtype=bool)
    least = (low[..., :, None] - high[..., None, :])[..., apart].max(axis=-1)
    most = (high[..., :, None] - low[..., None, :])[..., apart].max(axis=-1)
    return least, most


def verdicts_of(bounds: tuple[Floats, Floats], threshold: float) -> Names:
    """The verdict from bounds of the largest difference."""
    least, most = bounds
    names: Names = np.where(most <= threshold, "FAIR", np.where(least > threshold, "UNFAIR", "UNDECIDED"))
    return names


def until_decided(
    count: Count, groups: int, bounds: Bounds, threshold: float, *, first: int, growth: float, most: int
) -> Runs:
    """Look after `first` inputs of each group, then whenever they grew by so much; each run stops by itself."""
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
        decisions[going] = verdicts_of(bounds(seen[going], np.full(int(going.sum()), done)), threshold)
    return Runs(decisions, evaluations)


def first_decided(
    draw: Draw, groups: int, bounds: Bounds, threshold: float, *, first: int, growth: float, most: int
) -> Stopped:
    """One run, input by input, until the first look that decides."""
    seen, done, look = np.zeros((groups, 1), np.int64), 0, first
    while done * groups < most:
        counts = seen + draw(done, PIECE).cumsum(axis=1)
        sizes, look = _looks(look, done + PIECE, growth)
        least, most_apart = bounds(counts[:, sizes - done - 1].T, sizes)
        decided = np.flatnonzero((most_apart <= threshold) | (least > threshold))
        if decided.size:
            size = int(sizes[decided[0]])
            gap = float(np.ptp(counts[:, size - done - 1]) / size)
            return Stopped("FAIR" if gap <= threshold else "UNFAIR", gap, size * groups)
        seen, done = counts[:, -1:], done + PIECE
    return Stopped("UNDECIDED", float(np.ptp(seen) / done), done * groups)


def _looks(look: int, last: int, growth: float) -> tuple[NDArray[np.int64], int]:
    """The numbers of inputs at which to look, from the next one on as far as they were drawn; and the one after."""
    looks = [look]
    while looks[-1] <= last:
        looks.append(max(looks[-1] + 1, int(looks[-1] * growth)))
    return np.array(looks[:-1], np.int64), looks[-1]
