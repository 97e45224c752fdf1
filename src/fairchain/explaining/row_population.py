"""Rows of a table as people who can be drawn: each group's own rows, one of them at random in each round.

Where the same person is to be compared as each group, every row is shown as every group instead. What is found out in
this way is about these rows, whether they are everybody or a sample of a larger population.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError, SpecError
from fairchain.populations import Population, Rounds, Scratch
from fairchain.populations.streams import Address, unit_reals
from fairchain.spec import Group, Individual, Spec, groups_of
from fairchain.spec.conditions import predicate_of
from fairchain.spec.subgroups import subgroups_of_groups
from fairchain.statements import rows_phrase
from fairchain.tables import People
from fairchain.verification.counting import group_masks

Values = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class RowRounds(Rounds):
    """The draws of one chunk: a place between 0 and 1 for each round, the same for all groups."""

    places: NDArray[np.float64]
    tables: Sequence[Values]

    def show(self, subgroup: int, /) -> Values:
        """The rows that were drawn for one group."""
        table = self.tables[subgroup]
        chosen: Values = table[(self.places * len(table)).astype(np.int64)]
        return chosen


class RowPopulation(Population):
    """Draws rows of a table with replacement.

    Parameters
    ----------
    people
        The rows.
    spec
        Says who belongs to which group, and who is asked about at all.
    dtype
        Of the feature values handed out.
    """

    def __init__(self, people: People, spec: Spec, dtype: Any) -> None:
        concerned = _concerned(people, spec)
        every = groups_of(spec)
        masks = group_masks(spec, every, people.values) & concerned
        sizes = masks.sum(axis=1)
        least = spec.property.min_size or 0
        least = max(1, least if least >= 1 else least * len(people.values))
        kept = np.flatnonzero(sizes >= least).tolist()
        if len(kept) < 2:
            raise DataError(f"{people.source}: {len(kept)} groups have at least {least:g} rows, and two are needed")
        self.groups: tuple[Group, ...] = tuple(every[number] for number in kept)
        self._sizes = tuple(float(sizes[number]) for number in kept)
        super().__init__(subgroups_of_groups(self.groups), people.values.shape[1], dtype)
        values = people.values.astype(dtype)
        self._individual = isinstance(spec.property, Individual)
        self._tables = (
            [_shown_as(values[concerned], spec, group, people.source) for group in self.groups]
            if self._individual
            else [values[masks[number]] for number in kept]
        )
        self._phrase = rows_phrase(len(people.values), people.source, exact=True, given=spec.property.given)

    def __str__(self) -> str:
        """In one phrase, for the statement."""
        return f"{self._phrase}, {'each as every group' if self._individual else 'those of a group with equal weight'}"

    def shares(self) -> tuple[float, ...]:
        """How many rows each group has."""
        return self._sizes

    def draw(self, address: Address, count: int, _scratch: Scratch, _subgroups: Sequence[int], /) -> RowRounds:
        """Draw `count` rounds at an address."""
        words = address.halfwords(2 * count)
        return RowRounds(unit_reals(words[:count], words[count:]), self._tables)


def _shown_as(values: Values, spec: Spec, group: Group, source: str) -> Values:
    """Everybody with the protected features of a group."""
    names = [feature.name for feature in spec.features]
    shown = values.copy()
    for protected, domain in zip(spec.property.protected, group.domains, strict=True):
        if domain.size != 1:
            raise DataError(
                f'{source}: group "{group.name}" has several values, and a person of a table can be shown with one '
                f'only; give "{protected}" groups of single values'
            )
        shown[:, names.index(protected)] = domain.low
    return shown


def _concerned(people: People, spec: Spec) -> NDArray[np.bool_]:
    """Who the question is about: everybody, those for whom the predicate holds, those who deserve the outcome."""
    concerned = np.ones(len(people.values), bool)
    predicate = predicate_of(spec)
    if predicate is not None:
        concerned &= predicate.holds(people.values)
    criterion = getattr(spec.property, "criterion", "demographic_parity")
    if criterion == "demographic_parity":
        return concerned
    if criterion != "equal_opportunity" or spec.property.outcome is None or people.truth is None:
        raise SpecError(
            f'property.criterion: "{criterion}" compares several true labels at once; to explain one of them write '
            'criterion = "equal_opportunity" and outcome = "..."'
        )
    concerned &= people.truth == spec.model.labels.index(spec.property.outcome)
    return concerned
