"""The mean of groups: in each round one of them is picked, all alike, and the person is shown as that group.

So the rate of an arm drawn this way is exactly the mean of the groups' rates, whatever their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairchain.population.rejection import Shown, Source
from fairchain.population.streams import Address
from fairchain.population.uniform import Inputs
from fairchain.spec.arms import Arm

# Lanes of the picks: far above those that populations draw from.
FIRST_LANE = 2**62


class AveragePopulation:
    """A population in which some arms are means of groups.

    Parameters
    ----------
    source
        Its arms are `unmixed(arms)`: each group of a mean is an arm of its own there.
    arms
        Who is shown.
    """

    def __init__(self, source: Source, arms: Sequence[Arm]) -> None:
        self.source, self.arms = source, tuple(arms)
        self.dtype = source.dtype
        ends = np.cumsum([max(len(arm.mixed), 1) for arm in self.arms]).tolist()
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
        arms: Sequence[int] | None = None,
    ) -> AverageRounds:
        """Draw `count` rounds of a chunk: the same for the same arguments."""
        desk = desk or self.desk()
        places = None if arms is None else [place for arm in arms for place in self.places[arm]]
        drawn = self.source.rounds(seed, chunk, count, copy, desk=desk.source, arms=places)
        return AverageRounds(drawn, self.places, Address(seed, chunk, copy), desk.clear(count))


@dataclass(frozen=True)
class AverageRounds:
    """The draws of one chunk; `places` says which arms of the source each arm is made of."""

    drawn: Shown
    places: tuple[range, ...]
    address: Address
    people: Inputs

    def inputs(self, groups: Sequence[int]) -> Inputs:
        """Feature values, one block of rows after another for each arm: (arms * rounds, features)."""
        return np.concatenate([self.show(group).copy() for group in groups])

    def show(self, group: int) -> Inputs:
        """The people of one arm, (rounds, features); valid until the next call."""
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
        """Room for the people of one arm."""
        if rounds > len(self._people):
            self._people = np.empty((rounds, self._people.shape[1]), self._people.dtype)
        return self._people[:rounds]
