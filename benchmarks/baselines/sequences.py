"""Confidence sequences: each group's rate has bounds that hold at all times, delta is shared among the groups.

The bounds are the mixture's (docs/mathematics.md, "Group probabilities"), about the tightest known for coins. The rule
stops as soon as interval arithmetic on them decides. What it lacks against fairchain: groups are compared by their
own rates and not in common rounds, and there is a union bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.counts import Count, Floats, Runs, difference, until_decided
from fairchain.evidence.interval import probability_any_time


def confidence_sequences(count: Count, groups: int, threshold: float, delta: float, most: int = 10**9) -> Runs:
    """Sample until decided, or UNDECIDED after about `most` evaluations. It looks every 5%."""

    def bounds(successes: NDArray[np.int64], people: int) -> tuple[Floats, Floats]:
        return difference(*probability_any_time(successes, np.full(successes.shape, people), delta / groups))

    return until_decided(count, groups, bounds, threshold, first=128, growth=1.05, most=most)
