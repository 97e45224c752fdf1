"""The same person as each group: drawn once, whoever they are, with only the protected features changed.

Where features depend on each other this is not the same as drawing people of each group, whose other features would
change too. What is asked here is what the network would say if nothing but the protected features were different.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairchain.populations.rejection import Shown, Source
from fairchain.populations.uniform import Inputs, columns_of
from fairchain.spec import Spec
from fairchain.spec.subgroups import Subgroup

# Independent of the person: copies from here on are drawn by nobody else.
VALUES_COPY = 2**20


class IntervenedPopulation:
    """A population in which every subgroup shows the same people, with the protected features of its group.

    Parameters
    ----------
    spec, subgroups
        What is asked, and the groups that people are shown as.
    people
        Draws everybody; its only subgroup.
    values
        Draws the subgroups' own people, of whom only the protected features are taken: a group with several values
        draws
        among them, whoever the person is. None where every group has one value.
    """

    def __init__(self, spec: Spec, subgroups: Sequence[Subgroup], people: Source, values: Source | None) -> None:
        self.subgroups = tuple(subgroups)
        self.people, self.values = people, values
        self.dtype = people.dtype
        self.columns = list(columns_of(spec))

    def __str__(self) -> str:
        """In one phrase, for the statement under a verdict."""
        return str(self.people)

    @property
    def source(self) -> Source:
        """The population of everybody, whose files and notes are this one's."""
        return self.people

    @property
    def width(self) -> int:
        """How many features there are."""
        return self.people.width

    def desk(self) -> IntervenedDesk:
        """Memory to draw into, for one worker."""
        return IntervenedDesk(self)

    def shares(self) -> None:
        """Not known: everybody is shown as every group."""
        return

    def rounds(
        self,
        seed: int,
        chunk: int,
        count: int,
        copy: int = 0,
        desk: IntervenedDesk | None = None,
        subgroups: Sequence[int] | None = None,
    ) -> IntervenedRounds:
        """Draw `count` rounds of a chunk: the same for the same arguments."""
        desk = desk or self.desk()
        shown = self.people.rounds(seed, chunk, count, copy, desk=desk.people).show(0)
        values = None
        if self.values is not None:
            values = self.values.rounds(seed, chunk, count, copy + VALUES_COPY, desk=desk.values, subgroups=subgroups)
        return IntervenedRounds(self, shown, values)


@dataclass(frozen=True)
class IntervenedRounds:
    """The people of one chunk, and what the protected features of each group are in each round."""

    population: IntervenedPopulation
    people: Inputs
    values: Shown | None

    def inputs(self, groups: Sequence[int]) -> Inputs:
        """Feature values, one block of rows after another for each subgroup: (subgroups * rounds, features)."""
        return np.concatenate([self.show(group).copy() for group in groups])

    def show(self, group: int) -> Inputs:
        """Everybody as one group, (rounds, features); valid until the next call."""
        columns = self.population.columns
        if self.values is not None:
            self.people[:, columns] = self.values.show(group)[:, columns]
            return self.people
        shown_as = self.population.subgroups[group].group
        assert shown_as is not None
        for column, domain in zip(columns, shown_as.domains, strict=True):
            self.people[:, column] = domain.low
        return self.people


class IntervenedDesk:
    """Memory of both draws."""

    def __init__(self, population: IntervenedPopulation) -> None:
        self.people = population.people.desk()
        self.values = population.values.desk() if population.values is not None else None
