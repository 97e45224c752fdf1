"""What is true of a network, as nearly as a large run knows it: rates of the groups, and their largest difference."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.suite import paper
from benchmarks.suite.cases import Case

# Of the large run; no repetition has it.
TRUTH_SEED = 10**6


@dataclass(frozen=True)
class Truth:
    """Rates of the groups (outcomes, groups) from a large run, their largest difference, and how exact they are."""

    rates: NDArray[np.float64]
    # Two standard errors, at most: of a rate, and of a difference of two groups that agree in three of four rounds.
    error: float = 0.0

    @property
    def gap(self) -> float:
        """Over groups, for the outcome that is looked at."""
        return float((self.rates.max(axis=1) - self.rates.min(axis=1)).max())

    @property
    def verdict(self) -> str:
        """What a verdict must say."""
        return "FAIR" if self.gap <= paper.THRESHOLD else "UNFAIR"


def truth_of(case: Case, rounds: int) -> Truth:
    return Truth(case.count(TRUTH_SEED, rounds, coupled=True).rates, 1 / math.sqrt(rounds))
