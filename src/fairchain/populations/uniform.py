"""Independent uniform features, shown in coupled rounds (docs/mathematics.md, "The coupled round").

A round draws one input and shows it once for each subgroup with only the protected features changed. All subgroups read
the same random words; a subgroup of several protected values draws one of them from these words. The distribution of
every subgroup is exactly uniform on its values.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairchain.populations.base import FeaturePopulation, Inputs, Rounds, Scratch
from fairchain.populations.streams import Address, HalfWords, scaled, surplus, unit_reals
from fairchain.spec import Domain, Spec, domain_of
from fairchain.spec.subgroups import Subgroup

if TYPE_CHECKING:
    from fairchain.populations.finite import FiniteSpace


# Chunks with at most this many values share one allocation: the first chunks of a run are short, and each one is
# longer. A population keeps the arrays that all of them need, from one run to the next.
LEAST_CELLS = 2**15


# Scaled words, flat: products, their high halves, the shifts to add, and which (rounds, columns) to redraw.
Scaled = tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[Any], NDArray[np.bool_] | None]


class Draws(NamedTuple):
    """The draws of one chunk.

    `words` are the random words of all columns, and `fine` the further words of columns that need more than one.
    Subgroups of several values draw theirs from the words of the protected columns.
    """

    address: Address
    values: Inputs
    words: HalfWords
    fine: HalfWords


class IndependentPopulation(FeaturePopulation):
    """A population of independent features, drawn from one random word for each column and some further ones."""

    # The protected values of each subgroup, (subgroups, protected features), if each has one.
    _single: NDArray[np.float64] | None = None

    def set_columns(self, sizes: Sequence[int], shifts: NDArray[np.generic]) -> None:
        """Set for each column the number of values to which a word is scaled, and what is added to the scaled word."""
        self.sizes, self.shifts = np.array(sizes, np.uint64), shifts
        self.surplus = np.array([surplus(size) for size in sizes], np.uint64)
        self._most_surplus = int(self.surplus.max())

    @abstractmethod
    def protected_values(self, drawn: Draws, subgroup: int, place: int) -> Inputs | float:
        """Return one protected feature of a subgroup, a value for each round."""

    @abstractmethod
    def values_at(self, column: int, index: NDArray[np.uint32]) -> Inputs:
        """Return the values of a column at these indices below its size."""

    def scale(self, address: Address, count: int, further: int, scratch: Scratch) -> tuple[Draws, Scaled]:
        """Draw the words of a chunk, `further` ones for each round too, and scale them to the sizes of the columns.

        The values of the rounds are not filled in yet. Equal shapes are much faster than broadcasting, so sizes and
        shifts are repeated for each row.
        """
        width, cells = self.width, count * self.width
        values, product = scratch.keep(
            "columns",
            max(count, LEAST_CELLS // width),
            lambda rows: (np.empty((rows, width), self.dtype), np.empty(rows * width, np.uint64)),
        )
        sizes, shifts = self._repeated if cells <= LEAST_CELLS else scratch.keep("repeated", count, self._repeat)
        values, product, sizes, shifts = values[:count], product[:cells], sizes[:cells], shifts[:cells]
        each, raw = width + further, None
        # After each of several pieces, a thread would wait for the others.
        if cells > LEAST_CELLS and scratch.alone:
            raw = scratch.keep("raw", count, lambda rows: np.empty(-(-rows * each // 2), np.uint64))
        random = address.halfwords(count * each, out=raw)
        words, fine = random[:cells].reshape(values.shape), random[cells:].reshape(count, -1)
        index, low = scaled(random[:cells], sizes, out=product)
        # One fast test that is almost always negative, before the exact test for each column.
        again = low.reshape(values.shape) < self.surplus if np.minimum.reduce(low) < self._most_surplus else None
        return Draws(address, values, words, fine), (product, index, shifts, again)

    def _repeat(self, rows: int) -> tuple[NDArray[np.uint64], NDArray[Any]]:
        """Return the sizes and shifts of all columns repeated for each row, flat."""
        return np.tile(self.sizes, rows), np.tile(self.shifts, rows)

    @cached_property
    def _repeated(self) -> tuple[NDArray[np.uint64], NDArray[Any]]:
        return self._repeat(-(-LEAST_CELLS // self.width))

    def __getstate__(self) -> dict[str, Any]:
        """Copy everything into another process but what is computed there too."""
        return {name: value for name, value in self.__dict__.items() if name != "_repeated"}

    def shown(self, drawn: Draws) -> Rounds:
        """Return the rounds of a chunk: for each subgroup the same array, with its protected columns overwritten.

        A copy for each subgroup would cost a third of a draw.
        """

        def show(subgroup: int) -> Inputs:
            for place, column in enumerate(self.protected_columns):
                drawn.values[:, column] = self.protected_values(drawn, subgroup, place)
            return drawn.values

        if (single := self._single) is None:
            return Rounds(show)

        def together(subgroups: Sequence[int]) -> Inputs:
            blocks = np.empty((len(subgroups), *drawn.values.shape), drawn.values.dtype)
            blocks[:] = drawn.values
            shown = single.take(subgroups, axis=0)
            for place, column in enumerate(self.protected_columns):
                blocks[:, :, column] = shown[:, place, None]
            return blocks

        return Rounds(show, together)

    def redraw(self, drawn: Draws, again: NDArray[np.bool_]) -> None:
        """Draw the few values from surplus words again, each column from a separate substream."""
        for column in np.flatnonzero(again.any(axis=0)).tolist():
            rows = np.flatnonzero(again[:, column])
            fresh = drawn.address.integers(int(self.sizes[column]), len(rows), 1 + column)
            drawn.values[rows, column] = self.values_at(column, fresh)


class UniformPopulation(IndependentPopulation):
    """The uniform distribution over the declared ranges of all features; parameters as for `FeaturePopulation`."""

    def __init__(self, spec: Spec, subgroups: Sequence[Subgroup] | None = None, dtype: DTypeLike = np.float32) -> None:
        super().__init__(spec, subgroups, dtype)
        self._domains = domains = tuple(domain_of(feature) for feature in spec.features)
        self._real = [i for i, domain in enumerate(domains) if domain.real]
        # Columns that are overwritten later (real or protected ones) are drawn as the single value 0.
        drawn = [not domain.real and i not in self.protected_columns for i, domain in enumerate(domains)]
        sizes = [domain.size if use else 1 for domain, use in zip(domains, drawn, strict=True)]
        self._lows = [domain.low if use else 0 for domain, use in zip(domains, drawn, strict=True)]
        # An index can be as large as the width of the range, so the width must be exact too.
        exact = max(max(abs(d.low), abs(d.high), d.high - d.low) for d in domains) <= 2**24
        self.arithmetic = np.float32 if exact and self.dtype == np.float32 else np.float64
        self.set_columns(sizes, np.array(self._lows, self.arithmetic))
        if all(not domain.real and domain.size == 1 for group in self.groups for domain in group.domains):
            self._single = np.array([[domain.low for domain in group.domains] for group in self.groups], float)

    def __str__(self) -> str:
        return f"independent uniform inputs over the declared ranges of {len(self._domains)} features"

    def shares(self) -> tuple[float, ...]:
        """Return the probability of each subgroup."""
        wholes = [self._domains[column] for column in self.protected_columns]
        return tuple(
            float(prod(_share(part, whole) for part, whole in zip(group.domains, wholes, strict=True)))
            for group in self.groups
        )

    def finite_space(self, cuts: Mapping[int, Sequence[float]], /) -> FiniteSpace | None:
        """Return every input with its weight; None if a range is too large, or real without bins or steps."""
        from fairchain.populations.distributions import independent_space, uniform_over

        return independent_space([uniform_over(domain) for domain in self._domains], cuts)

    def draw(self, address: Address, count: int, scratch: Scratch, _subgroups: Sequence[int], /) -> Rounds:
        """Draw `count` rounds at an address."""
        drawn, (_, index, lows, again) = self.scale(address, count, len(self._real), scratch)
        np.add(index, lows, out=drawn.values.reshape(-1), dtype=self.arithmetic, casting="unsafe")
        if again is not None:
            self.redraw(drawn, again)
        if self._real:
            self._draw_reals(drawn, scratch)
        return self.shown(drawn)

    def _draw_reals(self, drawn: Draws, scratch: Scratch) -> None:
        """Fill in all real columns at once: a few operations on long arrays, for which threads need not wait."""
        rows, reals = drawn.fine.shape
        kept = scratch.keep("reals", max(rows, LEAST_CELLS // reals), self._real_arrays)
        high, low, values, further, lows, widths = (array[: rows * reals] for array in kept)
        for places, columns in self._runs:
            high.reshape(rows, reals)[:, places] = drawn.words[:, columns]
        unit_reals(high, drawn.fine.reshape(-1), (values, low, further))
        np.multiply(values, widths, out=values)
        np.add(values, lows, out=values)
        for places, columns in self._runs:
            drawn.values[:, columns] = values.reshape(rows, reals)[:, places]

    @cached_property
    def _runs(self) -> list[tuple[slice, slice]]:
        """The runs of adjacent real columns: their places among the real columns, and the columns."""
        starts = [place for place, column in enumerate(self._real) if not place or self._real[place - 1] != column - 1]
        ends = [*starts[1:], len(self._real)]
        return [
            (slice(start, end), slice(self._real[start], self._real[end - 1] + 1))
            for start, end in zip(starts, ends, strict=True)
        ]

    def _real_arrays(self, rows: int) -> tuple[NDArray[Any], ...]:
        """Return arrays for the words and values of real columns, and their lows and widths for each row, all flat."""
        domains = [self._domains[column] for column in self._real]
        ends = [domain.low for domain in domains], [domain.high - domain.low for domain in domains]
        types = (np.uint32, np.uint32, np.float64, np.float64)
        empty = [np.empty(rows * len(domains), kind) for kind in types]
        return *empty, *(np.tile(np.array(each, float), rows) for each in ends)

    def values_at(self, column: int, index: NDArray[np.uint32]) -> Inputs:
        """Return the integers from the column's low on."""
        return self._lows[column] + index.astype(np.float64)

    def protected_values(self, drawn: Draws, subgroup: int, place: int) -> Inputs | float:
        """Return one protected feature of a subgroup, a value for each round."""
        column, domain = self.protected_columns[place], self.groups[subgroup].domains[place]
        if domain.real:
            return _stretch(domain, drawn.words[:, column], drawn.fine[:, self._real.index(column)])
        if domain.size == 1:
            return domain.low
        # Substream 0 is shared; the next ones belong to the columns, the last ones to subgroups and protected features.
        substream = 1 + self.width + subgroup * len(self.protected_columns) + place
        index = drawn.address.below(drawn.words[:, column], domain.size, substream)
        return np.asarray(domain.points)[index] if domain.points else np.float64(domain.low) + index


def _share(part: Domain, whole: Domain) -> Fraction:
    """Return the probability of a part of a uniform feature."""
    if whole.real:
        return (Fraction(part.high) - Fraction(part.low)) / (Fraction(whole.high) - Fraction(whole.low))
    return Fraction(part.size, whole.size)


def _stretch(domain: Domain, words: HalfWords, fine: HalfWords) -> NDArray[np.float64]:
    return domain.low + (domain.high - domain.low) * unit_reals(words, fine)
