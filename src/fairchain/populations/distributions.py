"""The distribution of one feature, drawn by inverse CDF from words that subgroups share.

A distribution is `Counted`, values with whole counts, or `Ranges`, uniform inside each of several ranges with fractions
as weights. Either can be restricted to a group's domain, and the restricted distribution is exact too: probabilities
are never rounded. What is drawn from is a `Listed` array, of which all entries are equally likely, or `Ranges`.
Frequencies that a spec states are read to six decimals and then taken as whole numbers, so that draws are exact.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from math import ceil, floor, gcd, lcm
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import SpecError
from fairchain.messages import suggest
from fairchain.populations.base import Inputs
from fairchain.populations.streams import Address, HalfWords, scaled, unit_reals
from fairchain.spec import CategoryFeature, Domain, Feature, domain_of
from fairchain.spec.schema import Piece

if TYPE_CHECKING:
    from fairchain.populations.finite import FiniteSpace, Weights

# A list of so many entries stays in the processor's cache, where a look into it is the fastest way to draw; with more
# entries it pays to search, unless there are too many values for that.
MOST_LISTED, MOST_SEARCHED = 2**15, 2**10
# A column is counted without sorting if its values are whole numbers within such a span.
MOST_SPAN = 2**20


class Range(NamedTuple):
    """Values from low to high, both included if they are whole numbers, and their weight among all ranges."""

    low: float
    high: float
    weight: Fraction


@dataclass(frozen=True, eq=False)
class Listed:
    """Every entry of a sorted array is equally likely; a likelier value occurs more often."""

    values: NDArray[np.float64]

    @property
    def words(self) -> int:
        """How many random words a draw needs."""
        return 1

    def draw(self, words: Sequence[HalfWords], address: Address, substream: int) -> Inputs | float:
        """Draw a value for each row of words; rejected words are drawn again on `substream`."""
        size = len(self.values)
        if size == 1:
            return float(self.values[0])
        return self.values[address.below(words[0], size, substream)]


@dataclass(frozen=True, eq=False)
class Ranges:
    """One of several ranges by weight, then uniform inside it: whole numbers, or reals with 53 random bits."""

    parts: tuple[Range, ...]
    real: bool

    @property
    def mass(self) -> Fraction:
        """The sum of all weights."""
        return sum((part.weight for part in self.parts), Fraction(0))

    @property
    def words(self) -> int:
        """How many random words a draw needs: one for the range, if there are several, then for the place in it."""
        return (len(self.parts) > 1) + 1 + self.real

    def within(self, domain: Domain) -> Ranges:
        """Return the part in a domain."""
        if domain.points:
            pieces = [(part, point, point) for part in self.parts for point in domain.points]
        else:
            pieces = [(part, domain.low, domain.high) for part in self.parts]
        cut = (self._cut(part, low, high) for part, low, high in pieces)
        return Ranges(tuple(part for part in cut if part.weight > 0), self.real)

    def _cut(self, part: Range, low: float, high: float) -> Range:
        low, high = max(part.low, low), min(part.high, high)
        length, whole = self._length(low, high), self._length(part.low, part.high)
        return Range(low, high, part.weight * max(length, Fraction(0)) / whole)

    def _length(self, low: float, high: float) -> Fraction:
        return Fraction(high) - Fraction(low) + (not self.real)

    def ready(self) -> Listed | Ranges:
        """Return the same distribution in the form that is drawn fastest."""
        if self.real:
            return self
        mass = self.mass
        each = [part.weight / mass / self._length(part.low, part.high) for part in self.parts]
        entries = lcm(*(share.denominator for share in each))
        if entries > MOST_LISTED:
            return self
        lists = (
            np.repeat(np.arange(part.low, part.high + 1, dtype=np.float64), int(share * entries))
            for part, share in zip(self.parts, each, strict=True)
        )
        return Listed(np.concatenate(list(lists)))

    def draw(self, words: Sequence[HalfWords], address: Address, substream: int) -> Inputs | float:
        """Return a value for each row of words, the place in a range from the last of them.

        Words that do not settle it are continued on `substream`, or drawn again on one for each range far above it.
        """
        lows, highs = self._ends
        chosen = self._choose(words[0], address, substream)
        if self.real:
            place = unit_reals(words[-2], words[-1])
            values: Inputs = lows[chosen] + (highs - lows)[chosen] * place
            np.minimum(values, highs[chosen], out=values)
            return values
        if (lows == highs).all():
            return lows[chosen]
        sizes = (highs - lows).astype(np.uint64) + np.uint64(1)
        index, low = scaled(words[-1], sizes[chosen])
        again = low < np.uint64(2**32) % sizes[chosen]
        for number in np.unique(chosen[again]) if again.any() else ():
            rows = again & (chosen == number)
            index[rows] = address.integers(int(sizes[number]), int(rows.sum()), substream + ((1 + int(number)) << 32))
        return lows[chosen] + index

    def guide(self, bits: int) -> NDArray[np.float64] | None:
        """Return the value of all words that begin with the same bits, NaN if they differ; None if ranges are wide."""
        if any(part.low != part.high for part in self.parts):
            return None
        edges = [0, *(edge * 2**bits for edge in self._edges), 2**bits]
        table = np.full(2**bits, np.nan)
        for part, start, end in zip(self.parts, edges[:-1], edges[1:], strict=True):
            table[ceil(start) : floor(end)] = part.low
        return table

    def _choose(self, words: HalfWords, address: Address, substream: int) -> NDArray[np.intp]:
        """Return the number of the range for each word, read as the first 32 bits of a real number without end.

        Almost always these bits settle it. If the edge of a range lies among the numbers that begin with them, more
        bits are drawn until they do.
        """
        if len(self.parts) == 1:
            return np.zeros(len(words), np.intp)
        chosen = np.searchsorted(self._marks, words, side="right")
        open_rows = np.flatnonzero(self._marks[np.maximum(chosen, 1) - 1] == words)
        more = _words(address, substream)
        for row in open_rows:
            chosen[row] = self._settle(int(words[row]), more)
        return chosen

    def _settle(self, known: int, more: Iterator[int]) -> int:
        span = 2**32
        while True:
            least, most = Fraction(known, span), Fraction(known + 1, span)
            number = bisect_right(self._edges, least)
            if number == bisect_left(self._edges, most):
                return number
            known, span = known * 2**32 + next(more), span * 2**32

    @cached_property
    def _edges(self) -> tuple[Fraction, ...]:
        """Where one range ends and the next begins, between 0 and 1."""
        mass = self.mass
        return tuple(accumulate(part.weight / mass for part in self.parts[:-1]))

    @cached_property
    def _marks(self) -> HalfWords:
        """The first 32 bits of the edges."""
        return np.array([int(edge * 2**32) for edge in self._edges], np.uint32)

    @cached_property
    def _ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        lows, highs = zip(*((part.low, part.high) for part in self.parts), strict=True)
        return np.array(lows, np.float64), np.array(highs, np.float64)


@dataclass(frozen=True, eq=False)
class Counted:
    """Different values in order, each as likely as its count is large."""

    values: NDArray[np.float64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, column: NDArray[np.float64]) -> Counted:
        """Return the distribution of drawing an entry of a column."""
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

    def ready(self) -> Listed | Ranges:
        """Return the same distribution in the form that is drawn fastest."""
        counts = self.counts // gcd(*self.counts.tolist())
        if counts.sum() <= MOST_LISTED or len(counts) > MOST_SEARCHED:
            return Listed(np.repeat(self.values, counts))
        points = zip(self.values.tolist(), counts.tolist(), strict=True)
        return Ranges(tuple(Range(value, value, Fraction(count)) for value, count in points if count), real=False)


Distribution = Counted | Ranges


def uniform_over(domain: Domain) -> Ranges:
    """Return the distribution in which every value is equally likely."""
    return Ranges((Range(domain.low, domain.high, Fraction(1)),), domain.real)


def finite_values(distribution: Distribution, cuts: Sequence[float] | None) -> tuple[Inputs, Weights] | None:
    """Return the values of a distribution with whole weights; None if they are too many, or real and not cut.

    Parameters
    ----------
    distribution
        Of one feature.
    cuts
        Numbers at which a real range is divided into intervals, each of which is one value, its middle; None if the
        place inside an interval matters.
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
    from fairchain.populations.finite import independent

    values, weights = [], []
    for column, distribution in enumerate(distributions):
        found = finite_values(distribution, cuts.get(column))
        if found is None:
            return None
        values.append(found[0])
        weights.append(found[1])
    return independent(values, weights)


def _words(address: Address, substream: int) -> Iterator[int]:
    """Yield the words of a substream, one after the other without end."""
    given, size = 0, 64
    while True:
        yield from map(int, address.halfwords(size, substream)[given:])
        given, size = size, 2 * size


# Shares are read in millionths, and must sum to 1 within one of them (with room for the rounding of a float sum).
UNIT = 10**6
SLACK = 1.000001e-6

Stated = Mapping[str, float] | Sequence[Piece]


def stated_distribution(feature: Feature, stated: Stated) -> Distribution:
    """Return the distribution of a feature whose frequencies the spec states.

    Raises
    ------
    SpecError
        If a value does not exist, a share is not a probability, pieces overlap, or the shares do not sum to 1.
    """
    where = f"population.frequencies.{feature.name}"
    domain = domain_of(feature)
    if isinstance(stated, Mapping):
        if domain.real:
            raise SpecError(f"{where}: a single real value has probability 0; write pieces [[low, high, share], ...]")
        # A value that is not named has no share.
        values = [_value(where, feature, domain, key) for key in stated]
        if len(set(values)) != len(values):
            raise SpecError(f"{where}: a value occurs twice; give each value one share")
        counts = _counts([(f"{where}.{key}", share) for key, share in stated.items()], where)
        order = np.argsort(values)
        return Counted(np.array(values, np.float64)[order], np.array(counts, np.int64)[order])
    if isinstance(feature, CategoryFeature):
        example = f'{{"{feature.values[0]}" = 0.5, ...}}'
        raise SpecError(f"{where}: pieces are for numbers; write the share of each value: {example}")
    for piece in stated:
        _check_piece(f"{where}: {_shown(piece)}", domain, piece)
    counts = _counts([(f"{where}: {_shown(piece)}", piece[2]) for piece in stated], where)
    in_order = sorted(zip(stated, counts, strict=True), key=lambda both: both[0][:2])
    for (one, _), (other, _) in pairwise(in_order):
        if other[0] < one[1] or (other[0] == one[1] and not domain.real):
            raise SpecError(f"{where}: {_shown(one)} and {_shown(other)} overlap; give every number to one piece")
    parts = (Range(piece[0], piece[1], Fraction(count)) for piece, count in in_order if count)
    return Ranges(tuple(parts), domain.real)


def _value(where: str, feature: Feature, domain: Domain, key: str) -> int:
    """Return the value of a key: the index of a category, or a whole number."""
    if isinstance(feature, CategoryFeature):
        names = [str(value) for value in feature.values]
        if key not in names:
            raise SpecError(f'{where}: "{key}" is not one of the feature\'s values; {suggest(key, names)}')
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
    """Return shares as whole millionths, not all zero."""
    for key, share in shares:
        if not 0 <= share <= 1:
            raise SpecError(f"{key}: a share lies between 0 and 1, found {share:g}")
        if 0 < share < 0.5 / UNIT:
            raise SpecError(f"{key}: shares are read to six decimals, and {share:g} would be 0; write 0 or 0.000001")
    total = math.fsum(share for _, share in shares)
    if not abs(total - 1) <= SLACK:
        raise SpecError(f"{where}: the shares sum to {total:.7g}; they must sum to 1 to six decimals")
    return [round(share * UNIT) for _, share in shares]


def _shown(piece: Piece) -> str:
    return f"[{piece[0]:g}, {piece[1]:g}, {piece[2]:g}]"
