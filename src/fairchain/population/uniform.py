"""Independent uniform features, shown to the network in coupled rounds.

A round draws one person and shows it once per group, with only the protected features changed, all groups reading
the same random words (docs/mathematics.md, "The coupled round"). A group that spans several values draws among
them from those words too. Every group's own distribution is exactly uniform on its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairchain.population.streams import Address, HalfWords, scaled, surplus, unit_reals
from fairchain.spec import Domain, Group, Spec, domain_of, groups_of

Inputs = NDArray[np.floating]


@dataclass(frozen=True)
class Rounds:
    """The draws of one chunk: `inputs(groups)` gives them as each of these groups would show them."""

    population: UniformPopulation
    address: Address
    people: Inputs
    words: HalfWords
    fine: HalfWords

    def inputs(self, groups: Sequence[int]) -> Inputs:
        """Feature values, one block of rows after another for each group: (groups * rounds, features)."""
        shown = np.empty((len(groups), *self.people.shape), self.people.dtype)
        for block, group in zip(shown, groups, strict=True):
            block[:] = self.show(group)
        return shown.reshape(-1, self.people.shape[1])

    def show(self, group: int) -> Inputs:
        """Everybody as one group would show them, (rounds, features); valid until the next call.

        The same array each time, with its protected columns overwritten: a copy for each group would cost more than
        all the rest of a draw.
        """
        for place, column in enumerate(self.population.protected_columns):
            self.people[:, column] = self._protected(group, place, column)
        return self.people

    def _protected(self, group: int, place: int, column: int) -> Inputs | float:
        """The protected feature in this column, as this group has it in each round."""
        domain = self.population.groups[group].domains[place]
        if domain.real:
            return _stretch(domain, self.words[:, column], self.fine[:, self.population.fine_column(column)])
        if domain.size == 1:
            return domain.low
        index, low = scaled(self.words[:, column], np.uint64(domain.size))
        again = low < surplus(domain.size)
        if again.any():
            lane = self.population.group_lane(group, place)
            index[again] = self.address.integers(domain.size, int(again.sum()), lane)
        return np.asarray(domain.points)[index] if domain.points else np.float64(domain.low) + index


class UniformPopulation:
    """Where inputs come from when every feature is independent and uniform.

    Parameters
    ----------
    spec
        Gives the features in the order of the columns, and the groups.
    dtype
        Of the feature values handed out: float32 unless the network wants more digits.
    """

    def __init__(self, spec: Spec, dtype: DTypeLike = np.float32) -> None:
        names = [feature.name for feature in spec.features]
        domains = tuple(domain_of(feature) for feature in spec.features)
        self.groups: tuple[Group, ...] = groups_of(spec)
        self.protected_columns = tuple(names.index(name) for name in spec.property.protected)
        self.dtype = np.dtype(dtype)
        self._domains = domains
        self._real = [i for i, domain in enumerate(domains) if domain.real]
        # Columns that are overwritten later (real or protected ones) are drawn as the single value 0.
        drawn = [not domain.real and i not in self.protected_columns for i, domain in enumerate(domains)]
        self._sizes = [domain.size if use else 1 for domain, use in zip(domains, drawn, strict=True)]
        self._lows = [domain.low if use else 0 for domain, use in zip(domains, drawn, strict=True)]
        self._surplus = [surplus(size) for size in self._sizes]
        # An index is as large as the range is wide, so that too must be exact.
        exact = max(max(abs(d.low), abs(d.high), d.high - d.low) for d in domains) <= 2**24
        self._arithmetic = np.float32 if exact and self.dtype == np.float32 else np.float64
        self._tiles: tuple[NDArray[np.uint64], Inputs] | None = None

    def __str__(self) -> str:
        """In one phrase, for the statement under a verdict."""
        return f"independent uniform inputs over the declared ranges of {len(self._domains)} features"

    def group_lane(self, group: int, place: int) -> int:
        """Lane 0 is everybody's, then comes one for each column, then one for each (group, protected feature)."""
        return 1 + len(self._domains) + group * len(self.protected_columns) + place

    def fine_column(self, column: int) -> int:
        """Where the second word of a real column stands."""
        return self._real.index(column)

    def rounds(self, seed: int, chunk: int, count: int, copy: int = 0) -> Rounds:
        """Draw `count` rounds of a chunk: the same bytes for the same arguments, always and everywhere.

        `copy` addresses independent draws of the same chunk, for rules that do not couple groups.
        """
        address = Address(seed, chunk, copy)
        width = len(self._domains)
        drawn = address.halfwords(count * (width + len(self._real)))
        words, fine = drawn[: count * width].reshape(count, width), drawn[count * width :].reshape(count, -1)
        people = self._whole_numbers(words, address)
        for place, column in enumerate(self._real):
            if column not in self.protected_columns:
                people[:, column] = _stretch(self._domains[column], words[:, column], fine[:, place])
        return Rounds(self, address, people, words, fine)

    def _whole_numbers(self, words: HalfWords, address: Address) -> Inputs:
        """All integer columns at once; the few surplus words of a column are drawn again on the column's lane."""
        sizes, lows = self._tiled(words.size)
        index, low = scaled(words.reshape(-1), sizes)
        # One pass that almost always says no, before the exact test column by column.
        if low.min(initial=2**32 - 1) < max(self._surplus):
            index, low = index.reshape(words.shape), low.reshape(words.shape)
            for column, limit in enumerate(self._surplus):
                again = low[:, column] < limit
                if again.any():
                    index[again, column] = address.integers(self._sizes[column], int(again.sum()), 1 + column)
        people = np.add(index.reshape(-1), lows, dtype=self._arithmetic, casting="unsafe")
        return people.astype(self.dtype, copy=False).reshape(words.shape)

    def _tiled(self, count: int) -> tuple[NDArray[np.uint64], Inputs]:
        """Sizes and lows repeated for each row: equal shapes are several times faster than broadcasting rows."""
        tiles = self._tiles
        if tiles is None or len(tiles[0]) < count:
            rows = count // len(self._sizes)
            sizes = np.tile(np.array(self._sizes, np.uint64), rows)
            tiles = self._tiles = sizes, np.tile(np.array(self._lows, self._arithmetic), rows)
        return tiles[0][:count], tiles[1][:count]


def _stretch(domain: Domain, words: HalfWords, fine: HalfWords) -> NDArray[np.float64]:
    return domain.low + (domain.high - domain.low) * unit_reals(words, fine)
