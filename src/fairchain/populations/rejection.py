"""Only some of the people: those of a group where a population cannot draw them, those for whom `given` holds.

A round goes through a sequence of candidates, and each subgroup takes the first one that it accepts, as the candidate
is
shown in that subgroup. Candidates are independent of each other, so what an subgroup takes has exactly the
distribution of its
people given that they are accepted, and rounds stay independent. Subgroups go through the same candidates: where they
accept the same one, their round is coupled as the population couples it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairchain.errors import DataError, SpecError
from fairchain.populations.uniform import Inputs
from fairchain.spec.subgroups import Subgroup

# Candidates without anybody accepted after which an subgroup is given up. If one in 100,000 is accepted, a chunk is
# given up
# by mistake with probability exp(-10), 5 in 100,000.
MOST_CANDIDATES = 1_000_000
# Rows below which a draw hardly gets cheaper: when fewer rounds wait, each gets several candidates at once.
ROWS_AT_ONCE = 1024
# Attempts of one copy of a chunk; more than any run can make.
COPY_STRIDE = 2**40


class Predicate(Protocol):
    """A condition on people; `str()` says which."""

    def holds(self, values: NDArray[np.floating], /) -> NDArray[np.bool_]:
        """Whether it holds for each of these rows, (rows, features)."""


class Shown(Protocol):
    """The rounds of one chunk, as each subgroup would show them."""

    def inputs(self, groups: Sequence[int], /) -> Inputs:
        """Feature values, a block of rows for each of these subgroups."""

    def show(self, group: int, /) -> Inputs:
        """The rows of one subgroup; valid until the next call."""


class Source(Protocol):
    """What a wrapper needs of a population; one that shows an subgroup other people too has `accepts(subgroup,
    values)`.
    """

    @property
    def width(self) -> int:
        """How many features there are."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""

    def desk(self) -> Any:
        """Memory to draw into, for one worker."""

    def rounds(
        self,
        seed: int,
        chunk: int,
        count: int,
        copy: int = 0,
        desk: Any = None,
        subgroups: Sequence[int] | None = None,
    ) -> Shown:
        """Draw the rounds of a chunk, to be shown as these subgroups only; as all of them by default."""

    def shares(self) -> Any:
        """A number for each subgroup, the share of all people that belongs to it; None if that is not known."""


class RejectionPopulation:
    """A population restricted, for each subgroup, to the people that belong to it and for whom a predicate holds.

    Parameters
    ----------
    source
        Draws the candidates. It should draw in double precision, so that a condition is decided on values as the
        caller wrote them and not on rounded ones.
    predicate
        Must hold for a person as shown in the subgroup; None for no condition.
    subgroups
        The source's subgroups, in its order.
    most
        Candidates per accepted one after which an subgroup is given up.
    dtype
        Of the feature values handed out; by default the source's.
    """

    def __init__(
        self,
        source: Source,
        predicate: Predicate | None,
        subgroups: Sequence[Subgroup],
        most: int = MOST_CANDIDATES,
        dtype: DTypeLike | None = None,
    ) -> None:
        self.subgroups = tuple(subgroups)
        self.source, self.predicate, self.most = source, predicate, most
        self.dtype = np.dtype(source.dtype if dtype is None else dtype)
        self._accepts = getattr(source, "accepts", _everybody)

    def __str__(self) -> str:
        """In one phrase, for the statement under a verdict."""
        given = "" if self.predicate is None else f", among people for whom {self.predicate}"
        return f"{self.source}{given}"

    @property
    def width(self) -> int:
        """How many features there are."""
        return self.source.width

    def desk(self) -> RejectionDesk:
        """Memory to draw into, for one worker."""
        return RejectionDesk(self)

    def shares(self) -> Any:
        """The source's shares; None among people for whom a predicate holds, since that changes them."""
        return self.source.shares() if self.predicate is None else None

    def rounds(
        self,
        seed: int,
        chunk: int,
        count: int,
        copy: int = 0,
        desk: RejectionDesk | None = None,
        subgroups: Sequence[int] | None = None,
    ) -> RejectionRounds:
        """Draw `count` rounds of a chunk: the same for the same arguments, the subgroups included.

        Only candidates for `subgroups` are drawn, by default for all: an subgroup that a rule no longer compares
        costs nothing.
        Which candidates a round gets depends on these subgroups, so all subgroups of one round must come from one call.

        Raises
        ------
        DataError, SpecError
            If one of these subgroups accepts nobody, or so few that no run could wait for them.
        """
        desk = desk or self.desk()
        wanted = range(len(self.subgroups)) if subgroups is None else subgroups
        search = _Search(self, desk.clear(count), wanted)
        attempt = 0
        while (rounds := np.flatnonzero(search.waiting.any(axis=0))).size:
            # Doubled from one attempt to the next, since most rounds may end with the next candidate.
            each = max(1, min(2 ** min(attempt, 10), ROWS_AT_ONCE // rounds.size))
            address = (seed, chunk, rounds.size * each, copy * COPY_STRIDE + attempt)
            search.go_on(rounds, each, self.source.rounds(*address, desk=desk.source, subgroups=wanted))
            attempt += 1
        return RejectionRounds(search.people, frozenset(wanted))

    def belong(self, subgroup: int, values: Inputs) -> NDArray[np.bool_]:
        """Which of these people belong to an subgroup."""
        accepted: NDArray[np.bool_] | None = self._accepts(subgroup, values)
        return np.ones(len(values), bool) if accepted is None else accepted

    def hold(self, values: Inputs) -> NDArray[np.bool_]:
        """For which of these people the predicate holds."""
        return np.ones(len(values), bool) if self.predicate is None else self.predicate.holds(values)


@dataclass(frozen=True)
class RejectionRounds:
    """The inputs that each subgroup took, (subgroups, rounds, features); rows of subgroups that were not drawn have
    no meaning.
    """

    people: Inputs
    subgroups: frozenset[int]

    def inputs(self, groups: Sequence[int]) -> Inputs:
        """Feature values, one block of rows after another for each subgroup: (subgroups * rounds, features)."""
        self._must_be_drawn(groups)
        shown: Inputs = self.people[list(groups)].reshape(-1, self.people.shape[2])
        return shown

    def show(self, group: int) -> Inputs:
        """The people of one subgroup, (rounds, features); valid until the next draw at the same desk."""
        self._must_be_drawn([group])
        shown: Inputs = self.people[group]
        return shown

    def _must_be_drawn(self, groups: Sequence[int]) -> None:
        if not self.subgroups.issuperset(groups):
            raise ValueError(f"subgroups {sorted(self.subgroups)} were drawn, and {list(groups)} are to be shown")


class RejectionDesk:
    """Memory to draw into again and again, and the source's own."""

    def __init__(self, population: RejectionPopulation) -> None:
        self.source = population.source.desk()
        self._people = np.empty((len(population.subgroups), 0, population.width), population.dtype)

    def clear(self, rounds: int) -> Inputs:
        """Room for the people of all subgroups."""
        subgroups, have, width = self._people.shape
        if rounds > have:
            self._people = np.empty((subgroups, rounds, width), self._people.dtype)
        return self._people[:, :rounds]


class _Search:
    """The state of one draw: who was taken, which rounds of which subgroup still wait, and what was seen on the way."""

    def __init__(self, population: RejectionPopulation, people: Inputs, wanted: Sequence[int]) -> None:
        subgroups, rounds, _ = people.shape
        self.people = people
        self.waiting = np.zeros((subgroups, rounds), bool)
        self.waiting[list(wanted)] = True
        self._population = population
        # For each subgroup: candidates looked at, those who belong to it, and those for whom the predicate holds too.
        self._seen = np.zeros((subgroups, 3), np.int64)

    def go_on(self, rounds: NDArray[np.intp], each: int, drawn: Shown) -> None:
        """Show each of these rounds its next candidates, `each` rows after another."""
        for subgroup in np.flatnonzero(self.waiting[:, rounds].any(axis=1)).tolist():
            needed = np.flatnonzero(self.waiting[subgroup, rounds])
            candidates = drawn.show(subgroup)
            if needed.size < rounds.size:
                candidates = candidates.reshape(rounds.size, each, -1)[needed].reshape(needed.size * each, -1)
            accepted = self._accepted(subgroup, candidates).reshape(-1, each)
            found = np.flatnonzero(accepted.any(axis=1))
            first = found * each + accepted.argmax(axis=1)[found]
            self.people[subgroup, rounds[needed[found]]] = candidates[first]
            self.waiting[subgroup, rounds[needed[found]]] = False
            tested, _, taken = self._seen[subgroup]
            if tested > self._population.most * (taken + 1) and self.waiting[subgroup].any():
                raise self._too_few(subgroup)

    def _accepted(self, subgroup: int, candidates: Inputs) -> NDArray[np.bool_]:
        accepted = self._population.belong(subgroup, candidates)
        members = np.flatnonzero(accepted)
        if members.size == len(candidates):
            accepted = self._population.hold(candidates)
        elif members.size:
            accepted = np.zeros(len(candidates), bool)
            accepted[members] = self._population.hold(candidates[members])
        self._seen[subgroup] += len(candidates), members.size, np.count_nonzero(accepted)
        return accepted

    def _too_few(self, subgroup: int) -> SpecError | DataError:
        """What to say: whether too few belong to the subgroup, or the predicate holds for too few of those who do."""
        name, predicate = self._population.subgroups[subgroup].name, self._population.predicate
        tested, members, taken = (int(count) for count in self._seen[subgroup])
        if predicate is not None and members and taken * tested <= members * members:
            return SpecError(
                f'property.given: "{predicate}" holds for {taken:,} of {members:,} people of "{name}" that were '
                "drawn; weaken it, or leave out the groups for whom it cannot hold"
            )
        return DataError(
            f'{self._population.source}: {members:,} of {tested:,} people that were drawn belong to "{name}"; '
            "leave that group out, join it with another in the feature's groups, or use a population that has it"
        )


def _everybody(_subgroup: int, _values: Inputs) -> None:
    """What a population accepts that shows every subgroup its own people."""
    return
