"""Rejection sampling: members of a group that a population cannot draw directly, and inputs for which `given` holds.

A round has a sequence of candidates, and each subgroup takes the first one that it accepts, as the candidate is shown
in that subgroup. Candidates are independent of each other, so a subgroup's inputs have exactly its distribution
conditional on acceptance, and rounds are independent. Subgroups see the same candidates: if they accept the same one,
their round is coupled as the population couples it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairchain.errors import DataError, SpecError
from fairchain.populations.base import DerivedPopulation, Inputs, Population, Rounds, Scratch
from fairchain.populations.streams import Address
from fairchain.spec.conditions import Predicate
from fairchain.spec.subgroups import Subgroup

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


class RejectionPopulation(DerivedPopulation):
    """A population restricted, for each subgroup, to its members for which a predicate holds.

    Parameters
    ----------
    source
        The population that draws the candidates. It should draw in double precision, so that a condition is evaluated
        on unrounded values.
    predicate
        Must hold for an input as shown in the subgroup; None for no condition. A group of a formula has its own.
    subgroups
        The source's subgroups, in its order.
    most
        Candidates per accepted one after which sampling of a subgroup fails.
    dtype
        Data type of the values that are shown; by default the source's.
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
        search = _Search(self, values, count)
        attempt = 0
        while (rounds := np.flatnonzero(search.waiting.any(axis=0))).size:
            # Doubled from one attempt to the next, because most rounds may end with the next candidate.
            each = max(1, min(2 ** min(attempt, 10), CHEAP_ROWS // rounds.size))
            candidates = Address(address.seed, address.chunk, address.copy * COPY_STRIDE + attempt)
            drawn = self.source.draw(candidates, rounds.size * each, scratch.part("source"), subgroups)
            search.go_on(rounds, each, drawn)
            attempt += 1

        def show(subgroup: int) -> Inputs:
            if subgroup not in values:
                raise ValueError(SUBGROUP_NOT_DRAWN.format(drawn=sorted(values), subgroup=subgroup))
            return values[subgroup]

        return Rounds(show)


class _Search:
    """The state of one draw: accepted candidates, waiting rounds of each subgroup, and counts of candidates."""

    def __init__(self, population: RejectionPopulation, values: Mapping[int, Inputs], rounds: int) -> None:
        self._population, self._values = population, values
        self.waiting = np.zeros((len(population.subgroups), rounds), bool)
        self.waiting[list(values)] = True
        # For each subgroup: candidates tested, members among them, and members for which the predicate holds.
        self._seen = np.zeros((len(population.subgroups), 3), np.int64)

    def go_on(self, rounds: NDArray[np.intp], each: int, drawn: Rounds) -> None:
        """Show each of these rounds its next candidates, `each` consecutive rows."""
        for subgroup in np.flatnonzero(self.waiting[:, rounds].any(axis=1)).tolist():
            needed = np.flatnonzero(self.waiting[subgroup, rounds])
            candidates = drawn.show(subgroup)
            if needed.size < rounds.size:
                candidates = candidates.reshape(rounds.size, each, -1)[needed].reshape(needed.size * each, -1)
            accepted = self._accepted(subgroup, candidates).reshape(-1, each)
            found = np.flatnonzero(accepted.any(axis=1))
            first = found * each + accepted.argmax(axis=1)[found]
            self._values[subgroup][rounds[needed[found]]] = candidates[first]
            self.waiting[subgroup, rounds[needed[found]]] = False
            tested, _, taken = self._seen[subgroup]
            if tested > self._population.most * (taken + 1) and self.waiting[subgroup].any():
                raise self._too_few(subgroup)

    def _accepted(self, subgroup: int, candidates: Inputs) -> NDArray[np.bool_]:
        accepted = self._population.source.accepts(subgroup, candidates)
        predicate = self._population.condition_of(subgroup)
        accepted = np.ones(len(candidates), bool) if accepted is None else accepted
        members = np.flatnonzero(accepted)
        if predicate is not None and members.size == len(candidates):
            accepted = predicate.holds(candidates)
        elif predicate is not None and members.size:
            accepted = np.zeros(len(candidates), bool)
            accepted[members] = predicate.holds(candidates[members])
        self._seen[subgroup] += len(candidates), members.size, np.count_nonzero(accepted)
        return accepted

    def _too_few(self, subgroup: int) -> SpecError | DataError:
        """Return the error: too few members of the subgroup, or too few members for which the predicate holds."""
        name, predicate = self._population.subgroups[subgroup].name, self._population.condition_of(subgroup)
        tested, members, taken = (int(count) for count in self._seen[subgroup])
        if predicate is not None and members and taken * tested <= members * members:
            key = "given" if predicate is self._population.predicate else "formula"
            return SpecError(
                CONDITION_TOO_RARE.format(key=key, predicate=predicate, taken=taken, members=members, name=name)
            )
        return DataError(
            GROUP_TOO_RARE.format(source=self._population.source, members=members, tested=tested, name=name)
        )
