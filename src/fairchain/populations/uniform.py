"""Independent uniform features, shown to the network in coupled rounds.

A round draws one person and shows it once per subgroup, with only the protected features changed, all subgroups
reading the
same random words (docs/mathematics.md, "The coupled round"). A group that spans several values draws among them
from those words too, and everybody among all. Every subgroup's own distribution is exactly uniform on its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairchain.populations.streams import Address, HalfWords, scaled, surplus, unit_reals
from fairchain.spec import Domain, Group, Spec, domain_of, groups_of
from fairchain.spec.subgroups import Subgroup

Inputs = NDArray[np.floating]


class Independent(Protocol):
    """A population in which an subgroup's protected features do not depend on the others."""

    @property
    def protected_columns(self) -> tuple[int, ...]:
        """Where the protected features stand."""

    def protected_values(self, rounds: Rounds, subgroup: int, place: int) -> Inputs | float:
        """One protected feature, as this subgroup has it in each round."""


@dataclass(frozen=True)
class Rounds:
    """The draws of one chunk: `inputs(groups)` gives them as each of these subgroups would show them.

    `words` are the random words of all columns and `fine` the further ones of the columns that need more than one:
    subgroups that span several values draw theirs from the words of the protected columns.
    """

    population: Independent
    address: Address
    people: Inputs
    words: HalfWords
    fine: HalfWords

    def inputs(self, groups: Sequence[int]) -> Inputs:
        """Feature values, one block of rows after another for each subgroup: (subgroups * rounds, features)."""
        shown = np.empty((len(groups), *self.people.shape), self.people.dtype)
        for block, group in zip(shown, groups, strict=True):
            block[:] = self.show(group)
        return shown.reshape(-1, self.people.shape[1])

    def show(self, group: int) -> Inputs:
        """Everybody as one subgroup would show them, (rounds, features); valid until the next call.

        The same array each time, with its protected columns overwritten: a copy for each subgroup would cost a third of
        a draw.
        """
        for place, column in enumerate(self.population.protected_columns):
            self.people[:, column] = self.population.protected_values(self, group, place)
        return self.people


class UniformPopulation:
    """Where inputs come from when every feature is independent and uniform.

    Parameters
    ----------
    spec
        Gives the features in the order of the columns, and the groups.
    subgroups
        Who is shown: groups, or everybody; by default each group of the spec.
    dtype
        Of the feature values handed out: float32 unless the network wants more digits.
    """

    def __init__(self, spec: Spec, subgroups: Sequence[Subgroup] | None = None, dtype: DTypeLike = np.float32) -> None:
        domains = tuple(domain_of(feature) for feature in spec.features)
        self.subgroups: tuple[Subgroup, ...] = subgroups_of(spec) if subgroups is None else tuple(subgroups)
        self.groups: tuple[Group, ...] = shown_groups(spec, self.subgroups)
        self.protected_columns = columns_of(spec)
        self.dtype = np.dtype(dtype)
        self._domains = domains
        self._real = [i for i, domain in enumerate(domains) if domain.real]
        # Columns that are overwritten later (real or protected ones) are drawn as the single value 0.
        drawn = [not domain.real and i not in self.protected_columns for i, domain in enumerate(domains)]
        self.sizes = [domain.size if use else 1 for domain, use in zip(domains, drawn, strict=True)]
        self.lows = [domain.low if use else 0 for domain, use in zip(domains, drawn, strict=True)]
        self._surplus = np.array([surplus(size) for size in self.sizes], np.uint64)
        self._most_surplus = int(self._surplus.max())
        # An index is as large as the range is wide, so that too must be exact.
        exact = max(max(abs(d.low), abs(d.high), d.high - d.low) for d in domains) <= 2**24
        self.arithmetic = np.float32 if exact and self.dtype == np.float32 else np.float64

    def __str__(self) -> str:
        """In one phrase, for the statement under a verdict."""
        return f"independent uniform inputs over the declared ranges of {len(self._domains)} features"

    @property
    def width(self) -> int:
        """How many features there are."""
        return len(self._domains)

    def group_lane(self, group: int, place: int) -> int:
        """Lane 0 is everybody's, then comes one for each column, then one for each (group, protected feature)."""
        return 1 + len(self._domains) + group * len(self.protected_columns) + place

    def desk(self) -> Desk:
        """Memory to draw into, for one worker."""
        return Desk(self.dtype, np.array(self.sizes, np.uint64), np.array(self.lows, self.arithmetic))

    def shares(self) -> tuple[float, ...]:
        """The share of all people that belongs to each subgroup."""
        wholes = [self._domains[column] for column in self.protected_columns]
        return tuple(
            float(prod(_share(part, whole) for part, whole in zip(group.domains, wholes, strict=True)))
            for group in self.groups
        )

    def fine_column(self, column: int) -> int:
        """Where the second word of a real column stands."""
        return self._real.index(column)

    def rounds(
        self,
        seed: int,
        chunk: int,
        count: int,
        copy: int = 0,
        desk: Desk | None = None,
        subgroups: Sequence[int] | None = None,  # noqa: ARG002
    ) -> Rounds:
        """Draw `count` rounds of a chunk: the same bytes for the same arguments, always and everywhere.

        `copy` addresses independent draws of the same chunk, for rules that do not couple groups. With a desk the
        rounds are drawn into its memory, and are valid until the next draw there.
        """
        address = Address(seed, chunk, copy)
        desk = desk or self.desk()
        people, product = desk.clear(count)
        drawn = address.halfwords(count * (self.width + len(self._real)))
        words, fine = drawn[: people.size].reshape(people.shape), drawn[people.size :].reshape(count, -1)
        sizes, lows = desk.tiles(count)
        index, low = scaled(words.reshape(-1), sizes, out=product)
        np.add(index, lows, out=people.reshape(-1), dtype=self.arithmetic, casting="unsafe")
        # One pass that almost always says no, before the exact test for each column.
        if low.min() < self._most_surplus:
            self._draw_again(low.reshape(people.shape) < self._surplus, people, address)
        for place, column in enumerate(self._real):
            people[:, column] = _stretch(self._domains[column], words[:, column], fine[:, place])
        return Rounds(self, address, people, words, fine)

    def protected_values(self, rounds: Rounds, subgroup: int, place: int) -> Inputs | float:
        """One protected feature, as this subgroup has it in each round."""
        column, domain = self.protected_columns[place], self.groups[subgroup].domains[place]
        if domain.real:
            return _stretch(domain, rounds.words[:, column], rounds.fine[:, self.fine_column(column)])
        if domain.size == 1:
            return domain.low
        index = rounds.address.below(rounds.words[:, column], domain.size, self.group_lane(subgroup, place))
        return np.asarray(domain.points)[index] if domain.points else np.float64(domain.low) + index

    def _draw_again(self, surplus_words: NDArray[np.bool_], people: Inputs, address: Address) -> None:
        """Replace the few values drawn from surplus words, each column from a lane of its own."""
        for column in np.flatnonzero(surplus_words.any(axis=0)):
            rows = np.flatnonzero(surplus_words[:, column])
            fresh = address.integers(self.sizes[column], len(rows), 1 + int(column))
            people[rows, column] = self.lows[column] + fresh.astype(np.float64)


class Desk:
    """Memory to draw into again and again: what is asked of the system anew for each chunk costs more than drawing.

    Parameters
    ----------
    dtype
        Of the values.
    sizes, shifts
        For each column how many values it is drawn from, and what is added to the number that was drawn.
    """

    def __init__(self, dtype: DTypeLike, sizes: NDArray[np.uint64], shifts: NDArray[np.generic]) -> None:
        self._dtype, self._column_sizes, self._column_shifts = dtype, sizes, shifts
        self._rows = 0

    def clear(self, rows: int) -> tuple[Inputs, NDArray[np.uint64]]:
        """Room for the values, (rows, features), and for the products they are made from."""
        width = len(self._column_sizes)
        if rows > self._rows:
            self._rows = rows
            self._people: Inputs = np.empty((rows, width), self._dtype)
            self._product = np.empty(rows * width, np.uint64)
            self._sizes = np.tile(self._column_sizes, rows)
            self._shifts = np.tile(self._column_shifts, rows)
        return self._people[:rows], self._product[: rows * width]

    def tiles(self, rows: int) -> tuple[NDArray[np.uint64], NDArray[Any]]:
        """Sizes and shifts of all columns, repeated for each row: equal shapes are much faster than broadcasting."""
        count = rows * len(self._column_sizes)
        return self._sizes[:count], self._shifts[:count]


def subgroups_of(spec: Spec) -> tuple[Subgroup, ...]:
    """One subgroup for each group of a spec."""
    return tuple(Subgroup(group.name, group) for group in groups_of(spec))


def columns_of(spec: Spec) -> tuple[int, ...]:
    """Where the protected features stand among the columns."""
    names = [feature.name for feature in spec.features]
    return tuple(names.index(name) for name in spec.property.protected)


def shown_groups(spec: Spec, subgroups: Sequence[Subgroup]) -> tuple[Group, ...]:
    """Each subgroup as a group of its name; everybody has all values of the protected features."""
    whole = tuple(domain_of(spec.features[column]) for column in columns_of(spec))
    if any(subgroup.mixed for subgroup in subgroups):
        raise ValueError("a mean of groups is drawn by AveragePopulation")
    return tuple(
        Group(subgroup.name, whole if subgroup.group is None else subgroup.group.domains) for subgroup in subgroups
    )


def _share(part: Domain, whole: Domain) -> Fraction:
    """What part of a uniform feature this is."""
    if whole.real:
        return (Fraction(part.high) - Fraction(part.low)) / (Fraction(whole.high) - Fraction(whole.low))
    return Fraction(part.size, whole.size)


def _stretch(domain: Domain, words: HalfWords, fine: HalfWords) -> NDArray[np.float64]:
    return domain.low + (domain.high - domain.low) * unit_reals(words, fine)
