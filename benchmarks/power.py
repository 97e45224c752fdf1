"""How fast something grows: the slope on logarithmic scales."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def power(points: Sequence[tuple[float, float]]) -> float | None:
    """Of values with the size, by least squares: 1 is linear, 2 quadratic; None for fewer than two points."""
    if len(points) < 2:
        return None
    sizes, values = np.log(np.array(points, dtype=np.float64)).T
    return float(np.polyfit(sizes, values, 1)[0])
