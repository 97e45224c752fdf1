"""The distribution of one feature, drawn by inverse CDF from words that subgroups share.

A distribution is `Counted`, values with integer counts, or `Ranges`, uniform inside each of several ranges with
fractions as weights. Both can be restricted to a group's domain, and the mass remains an exact fraction. Counted values
are drawn with exactly their probabilities, ranges from a random number of 53 bits, like the nodes of a Bayesian
network. Frequencies that a spec states are read to six decimals and then used as integers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import SpecError
from fairchain.messages import near
from fairchain.populations.base import Inputs
from fairchain.populations.streams import Address, HalfWords, unit_reals
from fairchain.spec import CategoryFeature, Domain, Feature, domain_of
from fairchain.spec.population_keys import Piece

if TYPE_CHECKING:
    from fairchain.populations.finite import FiniteSpace, Weights

# A column is counted without sorting if its values are integers within this span.
MOST_SPAN = 2**20


class Range(NamedTuple):
    """Values from low to high, both included if they are integers, and their weight among all ranges."""

    low: float
    high: float
    weight: Fraction


@dataclass(frozen=True, eq=False)
class Ranges:
    """One of several ranges by weight, then uniform inside it: integers or reals."""

    parts: tuple[Range, ...]
    real: bool

    @property
    def mass(self) -> Fraction:
        """The sum of all weights."""
        return sum((part.weight for part in self.parts), Fraction(0))

    def within(self, domain: Domain) -> Ranges:
        """Return the part in a domain."""
        found = []
        for part in self.parts:
            whole = Fraction(part.high) - Fraction(part.low) + (not self.real)
            for start, end in [(point, point) for point in domain.points] or [(domain.low, domain.high)]:
                low, high = max(part.low, start), min(part.high, end)
                length = Fraction(high) - Fraction(low) + (not self.real)
                if length > 0 and part.weight > 0:
                    found.append(Range(low, high, part.weight * length / whole))
        return Ranges(tuple(found), self.real)

    def draw(self, words: Sequence[HalfWords], _address: Address, _substream: int) -> Inputs:
        """Return the value at which the CDF reaches the random number of each pair of words."""
        lows, highs, edges = self._columns
        high, low = words
        uniforms = unit_reals(high, low)
        chosen = np.searchsorted(edges[1:-1], uniforms, side="right")
        start = edges[chosen]
        place = (uniforms - start) / (edges[chosen + 1] - start) * (highs - lows + (not self.real))[chosen]
        values: Inputs = lows[chosen] + (place if self.real else np.floor(place))
        return np.minimum(values, highs[chosen], out=values)

    @cached_property
    def _columns(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Lower and upper ends of the ranges, and their boundaries between 0 and 1."""
        sums = np.cumsum([0.0, *(float(part.weight / self.mass) for part in self.parts)])
        sums[-1] = 1.0
        return np.array([part.low for part in self.parts]), np.array([part.high for part in self.parts]), sums


@dataclass(frozen=True, eq=False)
class Counted:
    """Distinct values in order, with probabilities proportional to their counts."""

    values: NDArray[np.float64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, column: NDArray[np.float64]) -> Counted:
        """Return the distribution of a random entry of a column."""
        low, high = column.min(), column.max()
        if high - low > MOST_SPAN or (column % 1).any():
            return cls(*np.unique(column, return_counts=True))
        counts = np.bincount((column - low).astype(np.int64))
        present = np.flatnonzero(counts)
        return cls(low + present, counts[present])

    @property
    def mass(self) -> Fraction:
        """The sum of all counts."""
        return Fraction(int(self.counts.sum()))

    def within(self, domain: Domain) -> Counted:
        """Return the part in a domain."""
        inner = domain.holds(self.values)
        return Counted(self.values[inner], self.counts[inner])

    def draw(self, words: Sequence[HalfWords], address: Address, substream: int) -> Inputs | float:
        """Draw a value for each of the first words; rejected ones are drawn again on `substream`."""
        entries = self.entries
        return entries[address.below(words[0], len(entries), substream)] if len(entries) > 1 else float(entries[0])

    @cached_property
    def entries(self) -> NDArray[np.float64]:
        """A sorted list of equally likely entries; a likelier value occurs more often."""
        return np.repeat(self.values, self.counts // gcd(*self.counts.tolist()))


Distribution = Counted | Ranges


def uniform_over(domain: Domain) -> Ranges:
    """Return the distribution in which every value is equally likely."""
    return Ranges((Range(domain.low, domain.high, Fraction(1)),), domain.real)


def finite_values(distribution: Distribution, cuts: Sequence[float] | None) -> tuple[Inputs, Weights] | None:
    """Return the values of a distribution with integer weights; None if there are too many, or reals without cuts.

    `cuts` divide a real range into intervals, each of which is one value, its midpoint; None if the position inside an
    interval matters.
    """
    from fairchain.populations.finite import whole_weights

    if isinstance(distribution, Counted):
        kept = distribution.counts > 0
        return distribution.values[kept], whole_weights(map(Fraction, distribution.counts[kept].tolist()))
    parts = distribution.parts
    if distribution.real:
        if cuts is None:
            return None
        low, high = min(part.low for part in parts), max(part.high for part in parts)
        edges = [low, *sorted(cut for cut in set(cuts) if low < cut < high), high]
        cells = [Domain(a, b, real=True) for a, b in pairwise(edges)]
        found = [((cell.low + cell.high) / 2, distribution.within(cell).mass) for cell in cells]
        found = [(middle, share) for middle, share in found if share]
        return np.array([middle for middle, _ in found]), whole_weights(share for _, share in found)
    sizes = [int(part.high - part.low) + 1 for part in parts]
    if sum(sizes) > MOST_SPAN:
        return None
    # Ranges do not overlap, and inside one all values are equally likely.
    values = np.concatenate([np.arange(part.low, part.high + 1, dtype=np.float64) for part in parts])
    each = whole_weights(part.weight / size for part, size in zip(parts, sizes, strict=True))
    return values, np.repeat(each, sizes)


def independent_space(distributions: Sequence[Distribution], cuts: Mapping[int, Sequence[float]]) -> FiniteSpace | None:
    """Return the space of independent features; None if one of them cannot be enumerated."""
    from fairchain.populations.finite import Factor, FiniteSpace

    values, factors = [], []
    for column, distribution in enumerate(distributions):
        found = finite_values(distribution, cuts.get(column))
        if found is None:
            return None
        values.append(found[0])
        factors.append(Factor((column,), found[1]))
    return FiniteSpace(tuple(values), tuple(factors))


# Shares are read in millionths, and must sum to 1 within one of them (with a margin for the rounding of a
# floating-point sum).
SHARE_UNITS = 10**6
SHARE_SLACK = 1.000001e-6

Stated = Mapping[str, float] | Sequence[Piece]


def stated_distribution(feature: Feature, stated: Stated) -> Ranges:
    """Return the distribution of a feature with frequencies in the spec; a value without a share has probability 0.

    Raises a SpecError if a value does not exist, a share is not a probability, pieces overlap, or the shares do not sum
    to 1.
    """
    where = f"population.frequencies.{feature.name}"
    domain = domain_of(feature)
    if isinstance(stated, Mapping):
        if domain.real:
            raise SpecError(f"{where}: a single real value has probability 0; write pieces [[low, high, share], ...]")
        values = [_value(where, feature, domain, key) for key in stated]
        if len(set(values)) != len(values):
            raise SpecError(f"{where}: a value occurs twice; give each value one share")
        named = [f"{where}.{key}" for key in stated]
        pieces: list[Piece] = [(value, value, share) for value, share in zip(values, stated.values(), strict=True)]
    else:
        if isinstance(feature, CategoryFeature):
            example = f'{{"{feature.values[0]}" = 0.5, ...}}'
            raise SpecError(f"{where}: pieces are for numbers; write the share of each value: {example}")
        named, pieces = [f"{where}: {_shown(piece)}" for piece in stated], list(stated)
        for name, piece in zip(named, pieces, strict=True):
            _check_piece(name, domain, piece)
    counts = _counts(list(zip(named, (share for _, _, share in pieces), strict=True)), where)
    in_order = sorted(zip(pieces, counts, strict=True), key=lambda both: both[0][:2])
    for (one, _), (other, _) in pairwise(in_order):
        if other[0] < one[1] or (other[0] == one[1] and not domain.real):
            raise SpecError(f"{where}: {_shown(one)} and {_shown(other)} overlap; give every number to one piece")
    return Ranges(tuple(Range(low, high, Fraction(count)) for (low, high, _), count in in_order if count), domain.real)


def _value(where: str, feature: Feature, domain: Domain, key: str) -> int:
    """Return the value of a key: the index of a category, or an integer."""
    if isinstance(feature, CategoryFeature):
        names = [str(value) for value in feature.values]
        if key not in names:
            raise SpecError(f'{where}: "{key}" is not one of the feature\'s values; {near(key, names)}')
        return names.index(key)
    if not re.fullmatch(r"-?[0-9]{1,18}", key) or not domain.contains(int(key)):
        raise SpecError(
            f'{where}: "{key}" is not a whole number in the feature\'s range [{domain.low:g}, {domain.high:g}]'
        )
    return int(key)


def _check_piece(where: str, domain: Domain, piece: Piece) -> None:
    low, high, _ = piece
    if not (math.isfinite(low) and math.isfinite(high)):
        raise SpecError(f"{where} has an end that is not a finite number; write [low, high, share]")
    if low > high or (domain.real and low == high):
        raise SpecError(f"{where} has no numbers between low and high; write [low, high, share] with low below high")
    if not domain.real and (low != int(low) or high != int(high)):
        raise SpecError(f"{where}: the ends of a piece of an integer feature must be whole numbers, both included")
    if low < domain.low or high > domain.high:
        raise SpecError(
            f"{where} leaves the feature's range [{domain.low:g}, {domain.high:g}]; "
            "narrow the piece or widen the feature"
        )


def _counts(shares: Sequence[tuple[str, float]], where: str) -> list[int]:
    """Return shares as integer millionths, not all zero."""
    for key, share in shares:
        if not 0 <= share <= 1:
            raise SpecError(f"{key}: a share lies between 0 and 1, found {share:g}")
        if 0 < share < 0.5 / SHARE_UNITS:
            raise SpecError(f"{key}: shares are read to six decimals, and {share:g} would be 0; write 0 or 0.000001")
    total = math.fsum(share for _, share in shares)
    if not abs(total - 1) <= SHARE_SLACK:
        raise SpecError(f"{where}: the shares sum to {total:.7g}; they must sum to 1 to six decimals")
    return [round(share * SHARE_UNITS) for _, share in shares]


def _shown(piece: Piece) -> str:
    return f"[{piece[0]:g}, {piece[1]:g}, {piece[2]:g}]"
