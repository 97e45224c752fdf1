"""Populations derived from the draws of another one: rejection sampling, means of groups, counterfactual inputs.

Rejection: members of a group that a population cannot draw directly, and inputs for which `given` holds. A round has a
sequence of candidates, and each subgroup takes the first one that it accepts, as the candidate is shown in that
subgroup. Candidates are independent of each other, so a subgroup's inputs have exactly its distribution conditional on
acceptance, and rounds are independent. Subgroups see the same candidates: if they accept the same one, their round is
coupled as the population couples it.

Mean of groups: each round selects one of them with equal probability, and shows the input as that group. The rate of
such a subgroup is exactly the mean of the groups' rates, whatever their sizes.

Counterfactual inputs: each is drawn once from the overall population and shown as every group. Only the protected
features differ between groups. If features depend on each other, this differs from drawing members of each group, whose
other features would differ too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairchain.errors import DataError, SpecError
from fairchain.populations.base import Inputs, Population, Rounds, Scratch, columns_of
from fairchain.populations.streams import Address
from fairchain.spec import Spec
from fairchain.spec.subgroups import Subgroup

if TYPE_CHECKING:
    from fairchain.populations.finite import FiniteSpace
    from fairchain.spec.conditions import Predicate

# Number of candidates without an accepted one after which sampling of a subgroup fails. If one in 100,000 is accepted,
# a chunk fails by mistake with probability exp(-10), 5 in 100,000.
MOST_REJECTED = 1_000_000
SUBGROUP_NOT_DRAWN = "subgroups {drawn} were drawn, and {subgroup} is to be shown"
# Number of rows below which a draw is hardly cheaper: if fewer rounds wait, each gets several candidates at once.
CHEAP_ROWS = 1024
# Attempts of one copy of a chunk; more than any run can make.
COPY_STRIDE = 2**40
GROUP_TOO_RARE = (
    '{source}: {members:,} of {tested:,} inputs that were drawn belong to "{name}"; leave that group out, join it with '
    "another in the feature's groups, or use a population that has it"
)
CONDITION_TOO_RARE = (
    'property.{key}: "{predicate}" holds for {taken:,} of {members:,} inputs of "{name}" that were drawn; weaken it, '
    "or leave out the groups for which it cannot hold"
)
# Substreams of the selections of a mean of groups: far above those that populations use.
FIRST_SUBSTREAM = 2**62
# Copies of a chunk from this number on are used only for protected values, so these are independent of the inputs.
VALUES_COPY = 2**20


class DerivedPopulation(Population):
    """A population derived from the draws of another one, `source`; it has the files and notes of the source."""

    def __init__(self, source: Population, subgroups: Sequence[Subgroup], dtype: DTypeLike | None = None) -> None:
        super().__init__(subgroups, source.width, source.dtype if dtype is None else dtype)
        self.source = source

    def __str__(self) -> str:
        return str(self.source)

    def finite_space(self, cuts: Mapping[int, Sequence[float]], /) -> FiniteSpace | None:
        """Return the space of the source: the caller applies conditions and groups."""
        return self.source.finite_space(cuts)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes of the source."""
        return self.source.notes

    @property
    def sha256(self) -> str | None:
        """Return the hash of the source."""
        return self.source.sha256


class RejectionPopulation(DerivedPopulation):
    """A population restricted, for each subgroup of the source, to its members for which a predicate holds.

    The source should draw in double precision, so that a condition is evaluated on unrounded values. The predicate must
    hold for an input as shown in the subgroup; a group of a formula has its own. Sampling of a subgroup fails after
    `most` candidates per accepted one.
    """

    def __init__(
        self,
        source: Population,
        predicate: Predicate | None,
        subgroups: Sequence[Subgroup],
        most: int = MOST_REJECTED,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(source, subgroups, dtype)
        self.predicate, self.most = predicate, most

    def __str__(self) -> str:
        given = "" if self.predicate is None else f", among inputs with {self.predicate}"
        return f"{self.source}{given}"

    def shares(self) -> Sequence[float] | None:
        """Return the source's shares; None with a predicate, which changes them."""
        plain = all(self.condition_of(subgroup) is None for subgroup in range(len(self.subgroups)))
        return self.source.shares() if plain else None

    def condition_of(self, subgroup: int) -> Predicate | None:
        """Return the condition on the inputs of a subgroup, besides membership."""
        group = self.subgroups[subgroup].group
        return self.predicate if group is None or group.condition is None else group.condition

    def draw(self, address: Address, count: int, scratch: Scratch, subgroups: Sequence[int], /) -> Rounds:
        """Draw `count` rounds at an address.

        Only candidates for `subgroups` are drawn: a subgroup that a rule no longer compares costs nothing. The
        candidates of a round depend on these subgroups, so all subgroups of one round must come from one call. Raises a
        DataError or SpecError if one of these subgroups accepts no candidate, or too few for a run.
        """
        values = {
            subgroup: scratch.rows(f"values {subgroup}", count, lambda rows: np.empty((rows, self.width), self.dtype))
            for subgroup in subgroups
        }
        waiting = np.zeros((len(self.subgroups), count), bool)
        waiting[list(values)] = True
        # For each subgroup: candidates tested, members among them, and members for which the predicate holds.
        seen = np.zeros((len(self.subgroups), 3), np.int64)
        attempt = 0
        while (rounds := np.flatnonzero(waiting.any(axis=0))).size:
            # Doubled from one attempt to the next, because most rounds may end with the next candidate.
            each = max(1, min(2 ** min(attempt, 10), CHEAP_ROWS // rounds.size))
            copy = Address(address.seed, address.chunk, address.copy * COPY_STRIDE + attempt)
            drawn = self.source.draw(copy, rounds.size * each, scratch.part("source"), subgroups)
            for subgroup in np.flatnonzero(waiting[:, rounds].any(axis=1)).tolist():
                needed = np.flatnonzero(waiting[subgroup, rounds])
                candidates = drawn.show(subgroup)
                if needed.size < rounds.size:
                    candidates = candidates.reshape(rounds.size, each, -1)[needed].reshape(needed.size * each, -1)
                accepted = self._accepted(subgroup, candidates, seen[subgroup]).reshape(-1, each)
                found = np.flatnonzero(accepted.any(axis=1))
                first = found * each + accepted.argmax(axis=1)[found]
                values[subgroup][rounds[needed[found]]] = candidates[first]
                waiting[subgroup, rounds[needed[found]]] = False
                tested, members, taken = seen[subgroup].tolist()
                if tested > self.most * (taken + 1) and waiting[subgroup].any():
                    raise self._too_few(subgroup, tested, members, taken)
            attempt += 1

        def show(subgroup: int) -> Inputs:
            if subgroup not in values:
                raise ValueError(SUBGROUP_NOT_DRAWN.format(drawn=sorted(values), subgroup=subgroup))
            return values[subgroup]

        return Rounds(show)

    def _accepted(self, subgroup: int, candidates: Inputs, seen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which candidates a subgroup accepts, and count them in `seen`."""
        accepted, predicate = self.source.accepts(subgroup, candidates), self.condition_of(subgroup)
        accepted = np.ones(len(candidates), bool) if accepted is None else accepted
        members = np.flatnonzero(accepted)
        if predicate is not None and members.size == len(candidates):
            accepted = predicate.holds(candidates)
        elif predicate is not None and members.size:
            accepted = np.zeros(len(candidates), bool)
            accepted[members] = predicate.holds(candidates[members])
        seen += len(candidates), members.size, int(accepted.sum())
        return accepted

    def _too_few(self, subgroup: int, tested: int, members: int, taken: int) -> SpecError | DataError:
        """Return the error: too few members of the subgroup, or too few members for which the predicate holds."""
        name, predicate = self.subgroups[subgroup].name, self.condition_of(subgroup)
        if predicate is not None and members and taken * tested <= members * members:
            key = "given" if predicate is self.predicate else "formula"
            return SpecError(
                CONDITION_TOO_RARE.format(key=key, predicate=predicate, taken=taken, members=members, name=name)
            )
        return DataError(GROUP_TOO_RARE.format(source=self.source, members=members, tested=tested, name=name))


class AveragePopulation(DerivedPopulation):
    """A population in which some subgroups are means of groups.

    The source has the subgroups `unmixed(subgroups)`: each group of a mean is a separate subgroup there.
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


class IntervenedPopulation(DerivedPopulation):
    """A population in which every subgroup shows the same inputs, with the protected features of its group.

    The source draws the inputs; its only subgroup is the overall population. `values` draws members of the subgroups,
    of which only the protected features are used: a group with several values draws among them independently of the
    input. It is None if every group has one value.
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
