"""From counts of what followed a state to probabilities: frequency, Laplace, Good-Turing."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Estimator = Literal["frequency", "laplace", "good-turing"]
ESTIMATORS: tuple[Estimator, ...] = ("frequency", "laplace", "good-turing")
Floats = NDArray[np.float64]


def estimate(table: NDArray[np.int64], estimator: Estimator) -> Floats:
    """(states, successors): probabilities from counts; a state that was never seen goes everywhere alike.

    Frequency is what was seen. Laplace adds one to every count. Good-Turing gives what was never seen the share of
    what was seen once, and takes it from the rest.
    """
    counts = table.astype(np.float64)
    if estimator == "laplace":
        counts += 1
    visits = counts.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = counts / visits
    if estimator == "good-turing":
        found = _good_turing(counts, found, visits)
    return np.where(visits > 0, found, 1 / table.shape[1])


def _good_turing(counts: Floats, found: Floats, visits: Floats) -> Floats:
    """Where everything was seen, or nothing twice, there is nothing to shift."""
    unseen = (counts == 0).sum(axis=1, keepdims=True)
    once = (counts == 1).sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        missing = np.where((unseen > 0) & (once < visits), once / visits, 0.0)
        shifted = np.where(counts == 0, missing / unseen, found * (1 - missing))
    return np.where(unseen > 0, shifted, found)
