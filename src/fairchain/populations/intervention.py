"""Counterfactual inputs: each is drawn once from the overall population and shown as every group.

Only the protected features differ between groups. If features depend on each other, this differs from drawing members
of each group, whose other features would differ too.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairchain.populations.base import DerivedPopulation, Inputs, Population, Rounds, Scratch, columns_of
from fairchain.populations.streams import Address
from fairchain.spec import Spec
from fairchain.spec.subgroups import Subgroup

# Copies of a chunk from this number on are used only here, so protected values are independent of the inputs.
VALUES_COPY = 2**20


class IntervenedPopulation(DerivedPopulation):
    """A population in which every subgroup shows the same inputs, with the protected features of its group.

    Parameters
    ----------
    spec, subgroups
        The protected features, and the groups as which inputs are shown.
    source
        The population that draws the inputs; its only subgroup is the overall population.
    values
        The population that draws members of the subgroups, of which only the protected features are used: a group with
        several values draws among them independently of the input. None if every group has one value.
    """

    def __init__(
        self, spec: Spec, subgroups: Sequence[Subgroup], source: Population, values: Population | None
    ) -> None:
        super().__init__(source, subgroups)
        self.values = values
        self.columns = list(columns_of(spec))

    def draw(self, address: Address, count: int, scratch: Scratch, subgroups: Sequence[int], /) -> Rounds:
        """Draw `count` rounds at an address."""
        shown = self.source.draw(address, count, scratch.part("source"), [0]).show(0)
        values = None
        if self.values is not None:
            copy = Address(address.seed, address.chunk, address.copy + VALUES_COPY)
            values = self.values.draw(copy, count, scratch.part("values"), subgroups)

        def show(subgroup: int) -> Inputs:
            if values is not None:
                shown[:, self.columns] = values.show(subgroup)[:, self.columns]
                return shown
            group = self.subgroups[subgroup].group
            assert group is not None
            for column, domain in zip(self.columns, group.domains, strict=True):
                shown[:, column] = domain.low
            return shown

        return Rounds(show)
