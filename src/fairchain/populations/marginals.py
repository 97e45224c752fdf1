"""Independent features with given frequencies: those of a table's columns, or those that the spec states.

Rounds are coupled as those of uniform features are. A subgroup's protected features have the overall distribution,
restricted to the group's values; the others do not depend on the subgroup. A value is found by inverse CDF from words
that all subgroups share: each subgroup has exactly its distribution, and two subgroups differ no more than needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairchain.errors import DataError, SpecError
from fairchain.messages import suggest
from fairchain.populations.base import Inputs, Rounds, Scratch, columns_of, shown_groups
from fairchain.populations.distributions import (
    Counted,
    Distribution,
    Listed,
    Stated,
    independent_space,
    stated_distribution,
    uniform_over,
)
from fairchain.populations.streams import Address, HalfWords
from fairchain.populations.uniform import Draws, IndependentPopulation
from fairchain.spec import Domain, Group, Spec, domain_of
from fairchain.spec.schema import Marginals
from fairchain.spec.subgroups import Subgroup

if TYPE_CHECKING:
    from fairchain.populations.finite import FiniteSpace
    from fairchain.tables import TableRows

# Features that a phrase names before it only counts them.
MOST_NAMED = 4
# First bits of a word that settle most values of a distribution that is searched.
GUIDE_BITS = 13


class MarginalPopulation(IndependentPopulation):
    """The product distribution of features with stated or counted frequencies.

    Parameters
    ----------
    spec
        Its `population.frequencies` come first; a feature without any has those of its column.
    subgroups
        Groups or the overall population; by default each group of the spec.
    rows
        Rows of a table; without one a feature whose frequencies are not stated is uniform over its range.
    dtype
        Of the values that are shown.

    Raises
    ------
    SpecError, DataError
        If frequencies are invalid, or a subgroup has probability 0.
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
        self._stated = distributions = distributions_of(spec, rows)
        self._shares = _shares(distributions, self.protected_columns, self.groups)
        for subgroup, shares in zip(self.subgroups, self._shares, strict=True):
            if 0 in shares:
                raise _impossible(spec, rows, subgroup, spec.property.protected[shares.index(Fraction(0))])
        self._distributions = tuple(distribution.ready() for distribution in distributions)
        # Subgroups with the same values of a feature share a distribution and the substream of its redraws.
        domains = [(place, domain) for group in self.groups for place, domain in enumerate(group.domains)]
        restricted = {key: distributions[self.protected_columns[key[0]]].within(key[1]).ready() for key in domains}
        self._restricted = {
            key: (distribution, 1 + self.width + number)
            for number, (key, distribution) in enumerate(restricted.items())
        }
        self._tabulate()
        self._spread_words()

    def __str__(self) -> str:
        return self._phrase

    def shares(self) -> tuple[float, ...]:
        """Return the probability of each subgroup."""
        return tuple(float(prod(parts)) for parts in self._shares)

    def finite_space(self, cuts: Mapping[int, Sequence[float]], /) -> FiniteSpace | None:
        """Return every input with its weight; None if a range is too large, or real and not cut."""
        return independent_space(self._stated, cuts)

    def draw(self, address: Address, count: int, scratch: Scratch, _subgroups: Sequence[int], /) -> Rounds:
        """Draw `count` rounds at an address."""
        drawn, (product, _, starts, again) = self.scale(address, count, self._further, scratch)
        np.right_shift(product, np.uint64(32), out=product)
        entries = product.view(np.int64)
        np.add(entries, starts, out=entries)
        # Every entry exists; "clip" only spares numpy a copy that it would need to undo a wrong one.
        np.take(self._table, entries, out=drawn.values.reshape(-1), mode="clip")
        if again is not None:
            self.redraw(drawn, again)
        for column in self._apart:
            words = self._words_of(drawn, column)
            drawn.values[:, column] = self._distributions[column].draw(words, address, 1 + column)
        if self._guided:
            self._settle(drawn)
        return self.shown(drawn)

    def values_at(self, column: int, index: NDArray[np.uint32]) -> Inputs:
        """Return entries of the column's list."""
        entries: Inputs = self._table[self.shifts[column] + index]
        return entries

    def protected_values(self, drawn: Draws, subgroup: int, place: int) -> Inputs | float:
        """Return one protected feature of a subgroup, a value for each round."""
        distribution, substream = self._restricted[place, self.groups[subgroup].domains[place]]
        return distribution.draw(self._words_of(drawn, self.protected_columns[place]), drawn.address, substream)

    def _words_of(self, drawn: Draws, column: int) -> list[HalfWords]:
        return [drawn.words[:, column], *(drawn.fine[:, place] for place in self._fine[column])]

    def _settle(self, drawn: Draws) -> None:
        """Search for the values that the first bits of a word did not settle."""
        unsettled = np.isnan(drawn.values)
        for column in self._guided:
            rows = np.flatnonzero(unsettled[:, column])
            fresh = self._distributions[column].draw([drawn.words[rows, column]], drawn.address, 1 + column)
            drawn.values[rows, column] = fresh

    def _tabulate(self) -> None:
        """Put the lists of all columns into one table, so that one look-up draws them all.

        A distribution that is searched has a guide there: values for the first bits of a word, NaN if more are needed.
        Columns that are overwritten later (protected ones, and those without list or guide) look at a single entry.
        """
        lists: list[NDArray[np.float64]] = []
        self._apart: list[int] = []
        self._guided: list[int] = []
        for column, distribution in enumerate(self._distributions):
            entries = np.zeros(1)
            if column in self.protected_columns:
                pass
            elif isinstance(distribution, Listed):
                entries = distribution.values
            elif (guide := distribution.guide(GUIDE_BITS)) is not None:
                entries = guide
                self._guided.append(column)
            else:
                self._apart.append(column)
            lists.append(entries)
        self._table = np.concatenate(lists).astype(self.dtype)
        sizes = [len(values) for values in lists]
        self.set_columns(sizes, np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64))

    def _spread_words(self) -> None:
        """Set the places of the further words of columns that need more than one, for themselves or a subgroup."""
        needs = [
            distribution.words if column in self._apart else 1
            for column, distribution in enumerate(self._distributions)
        ]
        for (place, _), (distribution, _) in self._restricted.items():
            column = self.protected_columns[place]
            needs[column] = max(needs[column], distribution.words)
        ends = np.cumsum([need - 1 for need in needs]).tolist()
        self._fine = [range(end - need + 1, end) for need, end in zip(needs, ends, strict=True)]
        self._further = ends[-1]


def distributions_of(spec: Spec, rows: TableRows | None) -> tuple[Distribution, ...]:
    """Return the distribution of each feature: stated, else that of its column, else uniform."""
    stated = _frequencies(spec)
    names = [feature.name for feature in spec.features]
    for name in stated:
        if name not in names:
            raise SpecError(f'population.frequencies: there is no feature "{name}"; {suggest(name, names)}')
    if not stated and rows is None and isinstance(spec.population, Marginals):
        raise SpecError(
            "population: marginals need frequencies; name a table with path = ..., "
            "or state them: frequencies = {sex = {Female = 0.5, Male = 0.5}}"
        )
    if rows is not None and not len(rows.values):
        raise DataError(f"{rows.source}: has no rows to take frequencies from")
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
                    f'{rows.source}: {missing:,} of {len(rows.values):,} rows have no value of "{feature.name}"; say '
                    "what a missing one counts as with missing = ... in its [[feature]], or state its "
                    "population.frequencies"
                )
            distributions.append(Counted.of(rows.values[:, column]))
    return tuple(distributions)


def marginal_shares(spec: Spec, subgroups: Sequence[Subgroup], rows: TableRows | None) -> tuple[float, ...]:
    """Return the probability of each subgroup, 0 for a subgroup that could not be drawn.

    For a spec whose features are uniform too.
    """
    shares = _shares(distributions_of(spec, rows), columns_of(spec), shown_groups(spec, subgroups))
    return tuple(float(prod(parts)) for parts in shares)


def _shares(
    distributions: Sequence[Distribution], columns: Sequence[int], groups: Sequence[Group]
) -> list[list[Fraction]]:
    """Return for each group the share of each of its protected features."""
    known: dict[tuple[int, Domain], Fraction] = {}
    for group in groups:
        for column, domain in zip(columns, group.domains, strict=True):
            if (column, domain) not in known:
                known[column, domain] = distributions[column].within(domain).mass / distributions[column].mass
    return [[known[column, domain] for column, domain in zip(columns, group.domains, strict=True)] for group in groups]


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
    named = ", ".join(stated) if len(stated) <= MOST_NAMED else f"{len(stated)} features"
    others = f"with {table}" if table else "uniform over their ranges"
    return f"independent features with the stated frequencies of {named}, the others {others}"
