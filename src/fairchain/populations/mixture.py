"""The mean of groups: in each round one of them is picked, all alike, and the person is shown as that group.

So the rate of an subgroup drawn this way is exactly the mean of the groups' rates, whatever their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairchain.populations.rejection import Shown, Source
from fairchain.populations.streams import Address
from fairchain.populations.uniform import Inputs
from fairchain.spec.subgroups import Subgroup

# Lanes of the picks: far above those that populations draw from.
FIRST_LANE = 2**62


class AveragePopulation:
    """A population in which some subgroups are means of groups.

    Parameters
    ----------
    source
        Its subgroups are `unmixed(subgroups)`: each group of a mean is an subgroup of its own there.
    subgroups
        Who is shown.
    """

    def __init__(self, source: Source, subgroups: Sequence[Subgroup]) -> None:
        self.source, self.subgroups = source, tuple(subgroups)
        self.dtype = source.dtype
        ends = np.cumsum([max(len(subgroup.mixed), 1) for subgroup in self.subgroups]).tolist()
        self.places = tuple(range(start, end) for start, end in zip([0, *ends], ends, strict=False))

    def __str__(self) -> str:
        """In one phrase, for the statement under a verdict."""
        return str(self.source)

    @property
    def width(self) -> int:
        """How many features there are."""
        return self.source.width

    def desk(self) -> AverageDesk:
        """Memory to draw into, for one worker."""
        return AverageDesk(self)

    def shares(self) -> None:
        """Not known: a mean of groups has no share of its own."""
        return

    def rounds(
        self,
        seed: int,
        chunk: int,
        count: int,
        copy: int = 0,
        desk: AverageDesk | None = None,
        subgroups: Sequence[int] | None = None,
    ) -> AverageRounds:
        """Draw `count` rounds of a chunk: the same for the same arguments."""
        desk = desk or self.desk()
        places = None if subgroups is None else [place for subgroup in subgroups for place in self.places[subgroup]]
        drawn = self.source.rounds(seed, chunk, count, copy, desk=desk.source, subgroups=places)
        return AverageRounds(drawn, self.places, Address(seed, chunk, copy), desk.clear(count))


@dataclass(frozen=True)
class AverageRounds:
    """The draws of one chunk; `places` says which subgroups of the source each subgroup is made of."""

    drawn: Shown
    places: tuple[range, ...]
    address: Address
    people: Inputs

    def inputs(self, groups: Sequence[int]) -> Inputs:
        """Feature values, one block of rows after another for each subgroup: (subgroups * rounds, features)."""
        return np.concatenate([self.show(group).copy() for group in groups])

    def show(self, group: int) -> Inputs:
        """The people of one subgroup, (rounds, features); valid until the next call."""
        places = self.places[group]
        if len(places) == 1:
            return self.drawn.show(places[0])
        picked: NDArray[np.uint32] = self.address.integers(len(places), len(self.people), FIRST_LANE + group)
        for number, place in enumerate(places):
            rows = np.flatnonzero(picked == number)
            if rows.size:
                self.people[rows] = self.drawn.show(place)[rows]
        return self.people


class AverageDesk:
    """Memory to draw into again and again, and the source's own."""

    def __init__(self, population: AveragePopulation) -> None:
        self.source = population.source.desk()
        self._people = np.empty((0, population.width), population.dtype)

    def clear(self, rounds: int) -> Inputs:
        """Room for the people of one subgroup."""
        if rounds > len(self._people):
            self._people = np.empty((rounds, self._people.shape[1]), self._people.dtype)
        return self._people[:rounds]
