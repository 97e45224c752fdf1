"""The mean of groups: each round selects one of them with equal probability, and shows the input as that group.

The rate of such a subgroup is exactly the mean of the groups' rates, whatever their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairchain.populations.base import DerivedPopulation, Inputs, Population, Rounds, Scratch
from fairchain.populations.streams import Address
from fairchain.spec.subgroups import Subgroup

# Substreams of the selections: far above those that populations use.
FIRST_SUBSTREAM = 2**62


class AveragePopulation(DerivedPopulation):
    """A population in which some subgroups are means of groups.

    Parameters
    ----------
    source
        A population with the subgroups `unmixed(subgroups)`: each group of a mean is a separate subgroup there.
    subgroups
        The subgroups for which inputs are shown.
    """

    def __init__(self, source: Population, subgroups: Sequence[Subgroup]) -> None:
        super().__init__(source, subgroups)
        ends = np.cumsum([max(len(subgroup.mixed), 1) for subgroup in self.subgroups]).tolist()
        self.places = tuple(range(start, end) for start, end in zip([0, *ends], ends, strict=False))

    def draw(self, address: Address, count: int, scratch: Scratch, subgroups: Sequence[int], /) -> Rounds:
        """Draw `count` rounds at an address."""
        places = [place for subgroup in subgroups for place in self.places[subgroup]]
        drawn = self.source.draw(address, count, scratch.part("source"), places)
        values = scratch.rows("values", count, lambda rows: np.empty((rows, self.width), self.dtype))

        def show(subgroup: int) -> Inputs:
            places = self.places[subgroup]
            if len(places) == 1:
                return drawn.show(places[0])
            picked = address.integers(len(places), count, FIRST_SUBSTREAM + subgroup)
            for number, place in enumerate(places):
                rows = np.flatnonzero(picked == number)
                if rows.size:
                    values[rows] = drawn.show(place)[rows]
            return values

        return Rounds(show)
