"""Common parts of all populations: drawing rounds by chunk number, and showing them as each subgroup.

A round is one joint draw that every subgroup is shown, from common random numbers (docs/mathematics.md, "The coupled
round"). `Scratch` reuses arrays from one chunk to the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import DTypeLike, NDArray

from fairchain.populations.streams import Address
from fairchain.spec import Group, Spec, domain_of, groups_of
from fairchain.spec.subgroups import Subgroup, subgroups_of_groups

if TYPE_CHECKING:
    from fairchain.populations.finite import FiniteSpace

# Feature values with categories as their index, or word numbers of texts.
Inputs = NDArray[Any]
Kept = TypeVar("Kept")
DRAWN_BY_AVERAGE = "a mean of groups is drawn by AveragePopulation"


class Scratch:
    """Arrays that are reused for draws, for one worker: allocating them for each chunk costs more than drawing.

    `alone` states that no other thread of this process draws.
    """

    def __init__(self, *, alone: bool = True) -> None:
        self.alone = alone
        self._kept: dict[str, tuple[int, Any]] = {}
        self._parts: dict[str, Scratch] = {}

    def keep(self, name: str, rows: int, make: Callable[[int], Kept]) -> Kept:
        """Return the object that `make` allocated under this name for at least this many rows."""
        kept = self._kept.get(name)
        if kept is None or kept[0] < rows:
            # Chunks grow a little each time: with twice the memory, few of them have to allocate again.
            rows = rows if kept is None else max(rows, 2 * kept[0])
            kept = self._kept[name] = rows, make(rows)
        found: Kept = kept[1]
        return found

    def rows(self, name: str, rows: int, make: Callable[[int], NDArray[Any]]) -> NDArray[Any]:
        """Return the first rows of the array that `make` allocated under this name."""
        return self.keep(name, rows, make)[:rows]

    def part(self, name: str) -> Scratch:
        """Return the scratch memory of a source population."""
        return self._parts.setdefault(name, Scratch(alone=self.alone))


class Rounds(Struct, frozen=True, eq=False):
    """The rounds of one chunk.

    `show(subgroup)` returns the inputs of one subgroup, (rounds, features); they are valid until the next call.
    `together`, if available, is a faster way for several subgroups and returns new arrays, (subgroups, rounds,
    features).
    """

    show: Callable[[int], Inputs]
    together: Callable[[Sequence[int]], Inputs] | None = None

    def first(self, count: int) -> Rounds:
        """Return only the first rounds."""
        together = self.together
        blocks = None if together is None else lambda subgroups: together(subgroups)[:, :count]
        return Rounds(lambda subgroup: self.show(subgroup)[:count], blocks)

    def inputs(self, subgroups: Sequence[int], /) -> Inputs:
        """Return the inputs of these subgroups, in consecutive blocks of rows: (subgroups * rounds, features)."""
        if self.together is not None:
            blocks = self.together(subgroups)
            return blocks.reshape(-1, blocks.shape[2])
        first = self.show(subgroups[0])
        shown = np.empty((len(subgroups), *first.shape), first.dtype)
        shown[0] = first
        for place, subgroup in enumerate(subgroups[1:], 1):
            shown[place] = self.show(subgroup)
        return shown.reshape(-1, shown.shape[2])


class Population(ABC):
    """The distribution from which inputs are drawn; `str()` describes it in one phrase for the verdict.

    Inputs are shown for `subgroups`, by index, as values of type `dtype`. `width` is the number of features, or of
    words in a text.
    """

    def __init__(self, subgroups: Sequence[Subgroup], width: int, dtype: DTypeLike) -> None:
        self.subgroups: tuple[Subgroup, ...] = tuple(subgroups)
        self.width = width
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    @abstractmethod
    def draw(self, address: Address, count: int, scratch: Scratch, subgroups: Sequence[int], /) -> Rounds:
        """Draw `count` rounds at an address into scratch memory, to be shown only as these subgroups."""

    def rounds(
        self,
        seed: int,
        chunk: int,
        count: int,
        copy: int = 0,
        scratch: Scratch | None = None,
        subgroups: Sequence[int] | None = None,
        drawn: int | None = None,
    ) -> Rounds:
        """Draw `count` rounds of a chunk, a deterministic function of the arguments.

        `copy` addresses independent draws of the same chunk. With `scratch` the rounds are drawn into its memory and
        are valid until the next draw there. They are shown only as `subgroups`, by default as all of them.

        The rounds of a chunk may depend on its length, so a shorter chunk is not a prefix of a longer one. `drawn` is
        the length of the chunk if only its first `count` rounds are needed.
        """
        shown = range(len(self.subgroups)) if subgroups is None else subgroups
        rounds = self.draw(Address(seed, chunk, copy), drawn or count, scratch or Scratch(), shown)
        return rounds if drawn in (None, count) else rounds.first(count)

    @property
    def exact(self) -> bool:
        """Whether every subgroup is shown only its own members; otherwise `accepts` selects them."""
        return True

    def accepts(self, subgroup: int, values: Inputs, /) -> NDArray[np.bool_] | None:  # noqa: ARG002
        """Return which of these rows, (rows, features), belong to a subgroup; None if all shown rows do."""
        return None

    def shares(self) -> Sequence[float] | None:
        """Return the probability of each subgroup, or None if unknown."""
        return None

    def finite_space(self, cuts: Mapping[int, Sequence[float]], /) -> FiniteSpace | None:  # noqa: ARG002
        """Return every input of the overall population with its exact weight; None if there are too many.

        `cuts` has the columns of real numbers that may be enumerated as intervals, each with the boundaries between its
        intervals: inside an interval the value does not matter.
        """
        return None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user about the population."""
        return ()

    @property
    def sha256(self) -> str | None:
        """Hash of the files, such as a corpus, that determine the draws and that the spec only names."""
        return None


class FeaturePopulation(Population):
    """A population over the features of a spec; by default its subgroups are the groups of the spec."""

    def __init__(self, spec: Spec, subgroups: Sequence[Subgroup] | None, dtype: DTypeLike) -> None:
        shown = subgroups_of_groups(groups_of(spec)) if subgroups is None else subgroups
        super().__init__(shown, len(spec.features), dtype)
        self.groups: tuple[Group, ...] = shown_groups(spec, self.subgroups)
        self.protected_columns = columns_of(spec)

    def accepts(self, subgroup: int, values: Inputs, /) -> NDArray[np.bool_] | None:
        """Return which of these rows, (rows, features), belong to a subgroup; None if all shown rows do."""
        return None if self.exact or self.subgroups[subgroup].group is None else self.belong(subgroup, values)

    def belong(self, subgroup: int, values: Inputs) -> NDArray[np.bool_]:
        """Return which of these rows, (rows, features), have the protected values of a subgroup."""
        belong = np.ones(len(values), bool)
        for column, domain in zip(self.protected_columns, self.groups[subgroup].domains, strict=True):
            belong &= domain.holds(values[:, column])
        return belong


def columns_of(spec: Spec) -> tuple[int, ...]:
    """Return the columns of the protected features."""
    names = [feature.name for feature in spec.features]
    return tuple(names.index(name) for name in spec.protected)


def shown_groups(spec: Spec, subgroups: Sequence[Subgroup]) -> tuple[Group, ...]:
    """Return each subgroup as a group with its name; the overall population has all protected values."""
    whole = tuple(domain_of(spec.features[column]) for column in columns_of(spec))
    if any(subgroup.mixed for subgroup in subgroups):
        raise ValueError(DRAWN_BY_AVERAGE)
    return tuple(
        Group(subgroup.name, whole if subgroup.group is None else subgroup.group.domains) for subgroup in subgroups
    )
