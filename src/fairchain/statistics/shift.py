"""Distribution shift: how far a population may change before a verdict could change (docs/mathematics-tables.md).

A population is within the factor G if no input is more than G times as frequent, or as rare, as assumed. A rate p can
then become any number between `least_rate` and `most_rate`. The tipping factor of a verdict is the largest G for which
the verdict is known to hold for every population within G.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

from fairchain.spec.properties import MOST_SHARED_PAIRS
from fairchain.statements import MOST_FACTOR
from fairchain.statistics.intervals import Floats, probability_any_time
from fairchain.statistics.tally import Tally


def most_rate(rate: ArrayLike, factor: float) -> Floats:
    """Return the largest value of a rate within a factor."""
    rate = np.asarray(rate, float)
    return np.asarray(np.minimum(factor * rate, 1 - (1 - rate) / factor))


def least_rate(rate: ArrayLike, factor: float) -> Floats:
    """Return the smallest value of a rate within a factor."""
    rate = np.asarray(rate, float)
    return np.asarray(np.maximum(rate / factor, 1 - factor * (1 - rate)))


def most_of(rate: Fraction, factor: Fraction) -> Fraction:
    """Return `most_rate` of an exact rate."""
    return min(factor * rate, 1 - (1 - rate) / factor)


def least_of(rate: Fraction, factor: Fraction) -> Fraction:
    """Return `least_rate` of an exact rate."""
    return max(rate / factor, 1 - factor * (1 - rate))


def factor_of_rates(
    low: Floats, high: Floats, compared: NDArray[np.bool_], measure: str, limit: float, *, fair: bool
) -> float:
    """Return the tipping factor of a FAIR (or UNFAIR) verdict if each group may shift separately.

    `low` and `high` are simultaneous bounds of the rates, (outcomes, subgroups), `compared` the pairs, (outcomes,
    subgroups, subgroups), and `limit` is the largest fair gap, for a ratio 1 - ratio.
    """
    scale, margin = _units(measure, limit)
    factors = []
    for lows, highs, pairs in zip(low, high, compared, strict=True):
        first = pairs.any(axis=1)
        if not first.any():
            continue
        # For each first group, only the second group with the smallest bound matters.
        other = np.where(pairs[first], lows if fair else highs, np.inf).min(axis=1)
        # The largest G with scale * most_rate(one, G) - least_rate(other, G) <= margin if fair, else up to which
        # scale * least_rate(one, G) - most_rate(other, G) > margin. The left side is the smallest (or largest) of four
        # functions that all rise (or fall) with G, so G is the largest of their roots.
        if fair:
            one = highs[first]
            roots = [
                _root(scale * one, np.full_like(one, margin), other, empty=np.inf),
                _quotient(1 + margin, scale * one + 1 - other),
                (scale * (1 - one) + other) / (scale - margin),
                _root(1 - other, np.full_like(one, 1 - scale + margin), scale * (1 - one), empty=np.inf),
            ]
            factors.append(np.maximum.reduce(roots).min())
        else:
            one = lows[first]
            roots = [
                _root(other, np.full_like(other, -margin), scale * one, empty=0.0),
                (scale * one + 1 - other) / (1 + margin),
                _quotient(scale - margin, scale * (1 - one) + other),
                _root(scale * (1 - one), np.full_like(other, scale - 1 - margin), 1 - other, empty=0.0),
            ]
            factors.append(np.maximum.reduce(roots).max())
    return _reported(min(factors) if fair else max(factors))


def factor_of_rounds(
    tally: Tally, compared: NDArray[np.bool_], measure: str, limit: float, delta: float, *, fair: bool
) -> float | None:
    """Return the tipping factor if all groups shift alike, from rounds that show one individual as every group.

    It is valid at all times with probability 1 - delta. None if too many pairs are compared.
    """
    pairs = int(compared.sum())
    if pairs > MOST_SHARED_PAIRS:
        return None
    cells = [tally.only[compared], tally.only.swapaxes(1, 2)[compared], tally.both[compared]]
    cells = cells if measure == "ratio" else cells[:2]
    trials = np.broadcast_to(tally.joint, compared.shape)[compared]
    # For FAIR, only the pair with the smallest true factor can make the factor too large; for UNFAIR, any pair can.
    alpha = delta / len(cells) / (1 if fair else pairs)
    counts = np.stack(cells)
    ends = probability_any_time(counts, np.broadcast_to(trials, counts.shape), alpha)
    return _factor_of_cells(list(zip(*ends, strict=True)), measure, limit, fair=fair)


class SharedRates(Struct, frozen=True, eq=False):
    """Certain bounds for individuals that are shown as every group, (outcomes, subgroups, subgroups) each.

    `only` are lower and upper bounds of the probability that only the first of two subgroups gets the outcome, `both`
    of the probability that both get it.
    """

    only: tuple[Floats, Floats]
    both: tuple[Floats, Floats]

    def factor(self, compared: NDArray[np.bool_], measure: str, limit: float, *, fair: bool) -> float:
        """Return the tipping factor if all groups shift alike."""
        low, high = self.only
        second = (low.swapaxes(1, 2)[compared], high.swapaxes(1, 2)[compared])
        cells = [(low[compared], high[compared]), second, (self.both[0][compared], self.both[1][compared])]
        return _factor_of_cells(cells if measure == "ratio" else cells[:2], measure, limit, fair=fair)


def _factor_of_cells(cells: Sequence[tuple[Floats, Floats]], measure: str, limit: float, *, fair: bool) -> float:
    """Return the tipping factor from bounds, (pairs,), of the cells: only the first group, only the second, both.

    FAIR is E[V] <= c for every pair, with V = s in the first cell, -1 in the second, and s - 1 in the third. Within G
    the largest E[V] is the smallest t + G E[(V - t)+] - E[(t - V)+]/G over the values t of V, and each of these rises
    with G. The first cell is evidence against FAIR, the others for it (docs/mathematics-tables.md, "Distribution
    shift").
    """
    scale, margin = _units(measure, limit)
    worth = [scale, -1.0, scale - 1][: len(cells)]
    shares = [ends[(place == 0) == fair] for place, ends in enumerate(cells)]
    values, shares = [*worth, 0.0], [*shares, 1 - sum(shares, start=np.zeros_like(shares[0]))]
    factors = []
    for turn in values:
        above = sum((share * max(value - turn, 0) for value, share in zip(values, shares, strict=True)), start=0.0)
        below = sum((share * max(turn - value, 0) for value, share in zip(values, shares, strict=True)), start=0.0)
        linear = np.full_like(shares[0], margin - turn)
        if fair:
            factors.append(_root(np.asarray(above), linear, np.asarray(below), empty=np.inf))
        else:
            factors.append(_root(np.asarray(below), -linear, np.asarray(above), empty=0.0))
    found = np.maximum.reduce(factors)
    return _reported(float(found.min() if fair else found.max()))


def _units(measure: str, limit: float) -> tuple[float, float]:
    """Return s and c: FAIR is s * (first rate) - (second rate) <= c for every compared pair."""
    return (1 - limit, 0.0) if measure == "ratio" else (1.0, limit)


def _reported(factor: float) -> float:
    """Return the reported factor: at least 1, which means the assumed population itself."""
    return float(min(max(factor, 1.0), MOST_FACTOR))


def _root(square: Floats, linear: Floats, constant: Floats, *, empty: float) -> Floats:
    """Return the positive root of square * G^2 - linear * G - constant; `empty` if all three are 0."""
    # If bounds contradict each other, a constant may be negative; then the other roots count.
    spread = np.sqrt(np.maximum(linear**2 + 4 * square * constant, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.where(linear > 0, (linear + spread) / (2 * square), 2 * constant / (spread - linear))
    return np.asarray(np.where(np.isnan(root), empty, root))


def _quotient(above: float, below: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(above / below)
