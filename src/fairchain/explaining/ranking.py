"""Two orders of the same units compared: Kendall's tau-b, Spearman's rho, and how many lead both."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairchain.explaining.result import Agreement

TOP = 10
# Values that differ by less come from rounding in different orders of adding up.
SAME = 1e-12


def agreement(first: Sequence[float], second: Sequence[float], top: int = TOP) -> Agreement:
    """How far two measures of the same units agree.

    >>> agreement([3, 2, 1], [30, 20, 10], top=2)
    Agreement(kendall=1.0, spearman=1.0, top=2, common=2)
    """
    one, other = np.asarray(first, float), np.asarray(second, float)
    top = min(top, len(one))
    leading = [set(np.argsort(-values, kind="stable")[:top].tolist()) for values in (one, other)]
    return Agreement(_kendall(one, other), _correlation(_ranks(one), _ranks(other)), top, len(leading[0] & leading[1]))


def _kendall(one: NDArray[np.float64], other: NDArray[np.float64]) -> float | None:
    """Pairs in the same order minus pairs in the reverse one, relative to those without ties."""
    signs = [np.sign(np.where(np.abs(d := v[:, None] - v) > SAME, d, 0)).astype(np.int8) for v in (one, other)]
    alike = int((signs[0] * signs[1]).sum(dtype=np.int64))
    untied = [int(np.abs(sign).sum(dtype=np.int64)) for sign in signs]
    return alike / math.sqrt(untied[0] * untied[1]) if all(untied) else None


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks, equal values sharing the mean of theirs."""
    _, place, counts = np.unique(np.round(values, 12), return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[place]


def _correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float | None:
    one, other = one - one.mean(), other - other.mean()
    scale = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / scale if scale else None
