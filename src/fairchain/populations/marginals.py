"""Independent features with given frequencies: those of a table's columns, or those that the spec states.

Rounds are coupled like those of uniform features. A subgroup's protected features have the overall distribution,
restricted to the group's values; the others do not depend on the subgroup. A value is found by inverse CDF from words
that all subgroups share: each subgroup has exactly its distribution, and two subgroups differ no more than needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairchain.errors import DataError, SpecError
from fairchain.messages import unknown
from fairchain.populations.base import Inputs, Rounds, Scratch, columns_of, shown_groups
from fairchain.populations.distributions import (
    Counted,
    Distribution,
    Ranges,
    Stated,
    independent_space,
    stated_distribution,
    uniform_over,
)
from fairchain.populations.streams import Address, HalfWords
from fairchain.populations.uniform import Draws, IndependentPopulation
from fairchain.spec import Domain, Group, Marginals, Spec, domain_of
from fairchain.spec.subgroups import Subgroup

if TYPE_CHECKING:
    from fairchain.populations.finite import FiniteSpace
    from fairchain.tables import TableRows

# Largest number of features that a phrase names; more are counted.
MOST_NAMED_FEATURES = 4


class MarginalPopulation(IndependentPopulation):
    """The product distribution of features with stated or counted frequencies.

    The spec's `population.frequencies` come first, and a feature without any has those of its column in `rows`; without
    rows it is uniform over its range. Raises a SpecError or DataError if frequencies are invalid, or a subgroup has
    probability 0.
    """

    def __init__(
        self,
        spec: Spec,
        subgroups: Sequence[Subgroup] | None = None,
        rows: TableRows | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__(spec, subgroups, dtype)
        self._phrase = _phrase(spec, rows)
        self._distributions = distributions_of(spec, rows)
        self._shares = _shares(self._distributions, self.protected_columns, self.groups)
        for subgroup, shares in zip(self.subgroups, self._shares, strict=True):
            if 0 in shares:
                raise _impossible(spec, rows, subgroup, spec.protected[shares.index(Fraction(0))])
        # Subgroups with the same values of a feature share a distribution and the substream of its redraws.
        domains = dict.fromkeys(both for group in self.groups for both in enumerate(group.domains))
        self._restricted = {
            (place, domain): (
                self._distributions[self.protected_columns[place]].within(domain),
                1 + self.width + number,
            )
            for number, (place, domain) in enumerate(domains)
        }
        # One table has the lists of all columns, so that one lookup draws them all. Columns that are overwritten later
        # (protected ones and ranges) read a single entry.
        lists = [
            each.entries if isinstance(each, Counted) and column not in self.protected_columns else np.zeros(1)
            for column, each in enumerate(self._distributions)
        ]
        self._table = np.concatenate(lists).astype(self.dtype)
        sizes = [len(entries) for entries in lists]
        self.set_columns(sizes, np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64))
        self._ranges = [i for i, each in enumerate(self._distributions) if isinstance(each, Ranges)]

    def __str__(self) -> str:
        return self._phrase

    def shares(self) -> tuple[float, ...]:
        """Return the probability of each subgroup."""
        return tuple(float(prod(parts)) for parts in self._shares)

    def finite_space(self, cuts: Mapping[int, Sequence[float]], /) -> FiniteSpace | None:
        """Return every input with its weight; None if a range is too large, or real without cuts."""
        return independent_space(self._distributions, cuts)

    def draw(self, address: Address, count: int, scratch: Scratch, _subgroups: Sequence[int], /) -> Rounds:
        """Draw `count` rounds at an address."""
        drawn, (product, _, starts, again) = self.scale(address, count, len(self._ranges), scratch)
        np.right_shift(product, np.uint64(32), out=product)
        entries = product.view(np.int64)
        np.add(entries, starts, out=entries)
        # Every entry exists; "clip" avoids a copy that numpy would need to undo an error.
        np.take(self._table, entries, out=drawn.values.reshape(-1), mode="clip")
        if again is not None:
            self.redraw(drawn, again)
        for column in self._ranges:
            if column not in self.protected_columns:
                drawn.values[:, column] = self._distributions[column].draw(*self._source(drawn, column, 1 + column))
        return self.shown(drawn)

    def values_at(self, column: int, index: NDArray[np.uint32]) -> Inputs:
        """Return entries of the column's list."""
        entries: Inputs = self._table[self.shifts[column] + index]
        return entries

    def protected_values(self, drawn: Draws, subgroup: int, place: int) -> Inputs | float:
        """Return one protected feature of a subgroup, a value for each round."""
        distribution, substream = self._restricted[place, self.groups[subgroup].domains[place]]
        return distribution.draw(*self._source(drawn, self.protected_columns[place], substream))

    def _source(self, drawn: Draws, column: int, substream: int) -> tuple[list[HalfWords], Address, int]:
        """Return the words of a column, two of them for ranges, and the substream for rejected ones."""
        fine = [drawn.fine[:, self._ranges.index(column)]] if column in self._ranges else []
        return [drawn.words[:, column], *fine], drawn.address, substream


def distributions_of(spec: Spec, rows: TableRows | None) -> tuple[Distribution, ...]:
    """Return the distribution of each feature: stated, otherwise that of its column, otherwise uniform."""
    stated = _frequencies(spec)
    names = [feature.name for feature in spec.features]
    for name in stated:
        if name not in names:
            raise SpecError(f"population.frequencies: {unknown('feature', name, names)}")
    if not stated and rows is None and isinstance(spec.population, Marginals):
        raise SpecError(
            "population: marginals need frequencies; name a table with path = ..., "
            "or state them: frequencies = {sex = {Female = 0.5, Male = 0.5}}"
        )
    if rows is not None and not len(rows.values):
        raise DataError(f"{rows.source}: has no rows, so it has no frequencies")
    distributions: list[Distribution] = []
    for column, feature in enumerate(spec.features):
        if feature.name in stated:
            distributions.append(stated_distribution(feature, stated[feature.name]))
        elif rows is None:
            distributions.append(uniform_over(domain_of(feature)))
        else:
            missing = int(np.isnan(rows.values[:, column]).sum())
            if missing:
                raise DataError(
                    f'{rows.source}: {missing:,} of {len(rows.values):,} rows have no value of "{feature.name}"; '
                    "state the value of a missing cell with missing = ... in its [[feature]], or state its "
                    "population.frequencies"
                )
            distributions.append(Counted.of(rows.values[:, column]))
    return tuple(distributions)


def marginal_shares(spec: Spec, subgroups: Sequence[Subgroup], rows: TableRows | None) -> tuple[float, ...]:
    """Return the probability of each subgroup, 0 for a subgroup that could not be drawn.

    This also applies to a spec with uniform features.
    """
    shares = _shares(distributions_of(spec, rows), columns_of(spec), shown_groups(spec, subgroups))
    return tuple(float(prod(parts)) for parts in shares)


def _shares(
    distributions: Sequence[Distribution], columns: Sequence[int], groups: Sequence[Group]
) -> list[list[Fraction]]:
    """Return for each group the share of each of its protected features."""

    @cache
    def share(column: int, domain: Domain) -> Fraction:
        return distributions[column].within(domain).mass / distributions[column].mass

    return [[share(column, domain) for column, domain in zip(columns, group.domains, strict=True)] for group in groups]


def _frequencies(spec: Spec) -> dict[str, Stated]:
    return dict(spec.population.frequencies) if isinstance(spec.population, Marginals) else {}


def _impossible(spec: Spec, rows: TableRows | None, subgroup: Subgroup, name: str) -> SpecError | DataError:
    """Return the error: a subgroup's values of a feature have probability 0."""
    remedy = f'leave the group out with groups = {{...}} in the [[feature]] "{name}", or '
    if rows is None or name in _frequencies(spec):
        return SpecError(
            f'population.frequencies.{name}: group "{subgroup.name}" has share 0; {remedy}give its values a share'
        )
    return DataError(
        f'{rows.source}: 0 of {len(rows.values):,} rows have a value of "{name}" that belongs to group '
        f'"{subgroup.name}"; {remedy}use a table that has it'
    )


def _phrase(spec: Spec, rows: TableRows | None) -> str:
    stated = [feature.name for feature in spec.features if feature.name in _frequencies(spec)]
    table = f"those of the {len(rows.values):,} rows of {rows.source}" if rows is not None else ""
    if not stated:
        return f"independent features with {table.replace('those', 'the frequencies')}"
    if len(stated) == len(spec.features):
        return "independent features with the stated frequencies"
    named = ", ".join(stated) if len(stated) <= MOST_NAMED_FEATURES else f"{len(stated)} features"
    others = f"with {table}" if table else "uniform over their ranges"
    return f"independent features with the stated frequencies of {named}, the others {others}"
