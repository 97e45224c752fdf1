"""Promises of `population.rejection`: every subgroup has exactly the distribution of its people for whom `given` holds.

Each statistical test would fail for one seed in a million if what it promises held; the seeds are fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from fairchain.errors import DataError, SpecError
from fairchain.populations import Rounds, Scratch, UniformPopulation
from fairchain.populations.derived import (
    CONDITION_TOO_RARE,
    GROUP_TOO_RARE,
    SUBGROUP_NOT_DRAWN,
    DerivedPopulation,
    RejectionPopulation,
)
from fairchain.populations.functions import FunctionPopulation
from fairchain.populations.streams import Address
from fairchain.spec.conditions import Predicate, parse_predicate
from fairchain.spec.subgroups import Subgroup
from tests.messages import says
from tests.questions import category, integer, spec

RARE = 1e-6
SEX = category("sex", "Female", "Male")
FEATURES = [integer("age", 0, 4), integer("hours", 0, 3), SEX]
PEOPLE = np.array(list(product(range(5), range(4), range(2))), np.float64)


def when(condition: str) -> Predicate:
    return parse_predicate(condition, spec(*FEATURES).features)


RICH = when("hours >= 2")
MIXED = when("(sex == 'Female' and age > 2 or sex == 'Male' and age < 2) and hours > 0")
RARELY = when("age == 4 and hours == 3")
NEVER = when("age > hours and hours > age")
WOMEN = when("sex == 'Female'")


def uniform(*subgroups: Subgroup) -> UniformPopulation:
    asked = spec(*FEATURES)
    return UniformPopulation(asked, [*UniformPopulation(asked).subgroups, *subgroups], np.float64)


def given(predicate: Predicate | None, *subgroups: Subgroup, **more: Any) -> RejectionPopulation:
    source = uniform(*subgroups)
    return RejectionPopulation(source, predicate, source.subgroups, **more)


def number(people: NDArray[Any]) -> NDArray[np.int64]:
    """The place of each person in PEOPLE."""
    return (people @ [8, 2, 1]).astype(np.int64)


def likely(people: NDArray[Any], expected: NDArray[np.float64]) -> bool:
    """Whether these people are drawn with these probabilities, as far as can be seen."""
    counts = np.bincount(number(people), minlength=len(PEOPLE))
    possible = expected > 0
    return not counts[~possible].any() and (
        possible.sum() == 1 or chisquare(counts[possible], expected[possible] * len(people)).pvalue > RARE
    )


def conditional(predicate: Predicate, sex: int | None) -> NDArray[np.float64]:
    """By hand: the distribution over PEOPLE of those of a sex for whom the predicate holds."""
    mass = predicate.holds(PEOPLE) & (True if sex is None else PEOPLE[:, 2] == sex)
    return mass / mass.sum()


@pytest.mark.parametrize("predicate", [RICH, MIXED, RARELY])
def test_each_subgroup_has_its_conditional_distribution(predicate: Predicate) -> None:
    rounds = given(predicate, Subgroup("everybody")).rounds(1, 2, 20_000)
    for subgroup, sex in enumerate((0, 1, None)):
        assert likely(rounds.show(subgroup), conditional(predicate, sex))


def test_rounds_are_independent_of_each_other() -> None:
    """Pairs of neighbours have the product of their distributions, early and late ones alike."""
    shown = given(MIXED).rounds(3, 3, 40_000).show(0)
    first, second = number(shown[::2]), number(shown[1::2])
    expected = conditional(MIXED, 0)
    joint = np.outer(expected, expected).ravel()
    counts = np.bincount(first * 40 + second, minlength=1600)
    assert chisquare(counts[joint > 0], joint[joint > 0] * len(first)).pvalue > RARE


def test_subgroups_that_accept_the_same_people_stay_coupled() -> None:
    female, male = given(RICH).rounds(1, 2, 500).inputs([0, 1]).reshape(2, 500, 3)
    assert np.array_equal(female[:, :2], male[:, :2])


def test_draws_follow_from_the_address_whichever_subgroups_are_looked_at() -> None:
    drawn = given(MIXED, Subgroup("everybody"))
    every = drawn.rounds(5, 6, 700).inputs([0, 1, 2]).reshape(3, 700, 3)
    scratch = Scratch()
    for count in (1, 3000, 20):
        drawn.rounds(5, 6, count, scratch=scratch)
    again = drawn.rounds(5, 6, 700, scratch=scratch)
    assert np.array_equal(again.show(2), every[2])
    assert np.array_equal(again.inputs([1, 0]).reshape(2, 700, 3), every[[1, 0]])
    others = [drawn.rounds(*place).inputs([0]).tobytes() for place in ((5, 6, 700, 1), (5, 7, 700), (6, 6, 700))]
    assert len({every[0].tobytes(), *others}) == 4


class Watched(DerivedPopulation):
    """A population that records the addresses and numbers of rows it draws."""

    def __init__(self, source: UniformPopulation) -> None:
        super().__init__(source, source.subgroups)
        self.drawn: list[tuple[Address, int]] = []

    def draw(self, address: Address, count: int, scratch: Scratch, subgroups: Sequence[int], /) -> Rounds:
        self.drawn.append((address, count))
        return self.source.draw(address, count, scratch, subgroups)


def test_no_candidate_is_used_twice_by_copies_of_a_chunk() -> None:
    watched = Watched(uniform())
    drawn = RejectionPopulation(watched, RARELY, watched.source.subgroups)
    for copy in range(4):
        drawn.rounds(1, 1, 300, copy)
    places = [address.copy for address, _ in watched.drawn]
    assert len(set(places)) == len(places)


def test_few_waiting_rounds_get_several_candidates_and_many_get_one() -> None:
    watched = Watched(uniform())
    RejectionPopulation(watched, RARELY, watched.source.subgroups).rounds(1, 1, 5000)
    counts = [count for _, count in watched.drawn]
    assert counts[0] == 5000
    assert max(counts) == 5000
    assert all(count >= 512 or count <= 2**attempt * 8 for attempt, count in enumerate(counts))
    # One candidate a round would take about ln(5000) / -ln(1 - 1/20) = 166 attempts for the last of them.
    assert len(counts) < 80
    easy = Watched(uniform())
    RejectionPopulation(easy, RICH, easy.source.subgroups).rounds(1, 1, 16)
    assert easy.drawn[0][1] == 16
    assert sum(count for _, count in easy.drawn) < 300


def test_people_are_shown_in_the_precision_that_was_asked_for() -> None:
    drawn = given(RICH, dtype=np.float32)
    assert drawn.rounds(1, 1, 10).inputs([0, 1]).dtype == np.float32
    assert drawn.rounds(1, 1, 10).show(0).dtype == np.float32


# ------------------------------------------------------------------------------------------------ subgroups by
# rejection
def crowd(rng: np.random.Generator, count: int) -> Any:
    """One in four is a woman, and women work longer."""
    sex = (rng.random(count) < 0.75).astype(int)
    return np.stack([rng.integers(0, 5, count), np.where(sex == 0, 3, rng.integers(0, 4, count)), sex], axis=1)


def test_groups_are_picked_out_of_everybody() -> None:
    source = FunctionPopulation(spec(*FEATURES), None, crowd, np.float64)
    everybody = FunctionPopulation(spec(*FEATURES), [*source.subgroups, Subgroup("everybody")], crowd, np.float64)
    rounds = RejectionPopulation(everybody, None, everybody.subgroups).rounds(1, 1, 20_000)
    women = (PEOPLE[:, 2] == 0) & (PEOPLE[:, 1] == 3)
    men = PEOPLE[:, 2] == 1
    assert likely(rounds.show(0), women / women.sum())
    assert likely(rounds.show(1), men / men.sum())
    assert likely(rounds.show(2), 0.25 * women / women.sum() + 0.75 * men / men.sum())


def test_groups_and_a_predicate_together() -> None:
    source = FunctionPopulation(spec(*FEATURES), None, crowd, np.float64)
    rounds = RejectionPopulation(source, MIXED, source.subgroups).rounds(1, 1, 10_000)
    women = (PEOPLE[:, 2] == 0) & (PEOPLE[:, 1] == 3) & (PEOPLE[:, 0] > 2)
    assert likely(rounds.show(0), women / women.sum())
    assert likely(rounds.show(1), conditional(MIXED, 1))


# -------------------------------------------------------------------------------------------------------- mistakes
def test_a_predicate_that_is_never_true() -> None:
    with pytest.raises(SpecError) as caught:
        given(NEVER, most=5000).rounds(1, 1, 1000)
    for word in ("property.given", '"age > hours and hours > age"', "0 of 6,000", '"sex=Female"', "weaken"):
        assert word in str(caught.value)


def test_a_predicate_that_is_never_true_in_one_subgroup() -> None:
    with pytest.raises(SpecError) as caught:
        given(WOMEN, most=5000).rounds(1, 1, 1000)
    for word in ("property.given", "sex == 'Female'", '0 of 6,000 inputs of "sex=Male"', "leave out the groups"):
        assert word in str(caught.value)


def no_men(rng: np.random.Generator, count: int) -> Any:
    return np.stack([rng.integers(0, 5, count), rng.integers(0, 4, count), np.zeros(count)], axis=1)


@pytest.mark.parametrize("predicate", [None, RICH])
def test_a_group_that_nobody_belongs_to(predicate: Predicate | None) -> None:
    source = FunctionPopulation(spec(*FEATURES), None, no_men, np.float64)
    with pytest.raises(DataError) as caught:
        RejectionPopulation(source, predicate, source.subgroups, most=5000).rounds(1, 1, 1000)
    for word in ("Python function no_men", "0 of 6,000 inputs", '"sex=Male"', "leave that group out"):
        assert word in str(caught.value)


def test_the_rarer_of_group_and_predicate_is_blamed() -> None:
    def few_men(rng: np.random.Generator, count: int) -> Any:
        people = no_men(rng, count)
        people[:, 2] = rng.random(count) < 0.01
        return people

    source = FunctionPopulation(spec(*FEATURES), None, few_men, np.float64)
    with pytest.raises(DataError, match=says(GROUP_TOO_RARE, name="sex=Male")):
        RejectionPopulation(source, RICH, source.subgroups, most=20).rounds(1, 1, 1000)
    with pytest.raises(SpecError, match=says(CONDITION_TOO_RARE, key="given")):
        RejectionPopulation(source, NEVER, source.subgroups, most=20).rounds(1, 1, 1000)


def test_an_subgroup_that_is_not_drawn_costs_nothing_and_ends_nothing() -> None:
    """One in 20,000 is a man: nobody waits for him, and he is not missed, while only women are compared."""
    calls = []

    def hardly_men(rng: np.random.Generator, count: int) -> Any:
        calls.append(count)
        people = no_men(rng, count)
        people[:, 2] = rng.random(count) < 5e-5
        return people

    source = FunctionPopulation(spec(*FEATURES), None, hardly_men, np.float64)
    drawn = RejectionPopulation(source, None, source.subgroups, most=50)
    calls.clear()
    rounds = drawn.rounds(1, 1, 1000, subgroups=[0])
    assert (rounds.show(0)[:, 2] == 0).all()
    assert sum(calls) < 1100
    with pytest.raises(ValueError, match=says(SUBGROUP_NOT_DRAWN, subgroup="1")):
        rounds.show(1)
    with pytest.raises(DataError, match=says(GROUP_TOO_RARE, name="sex=Male")):
        drawn.rounds(1, 1, 1000)


def test_an_subgroup_with_a_rare_predicate_is_not_given_up_while_some_are_found() -> None:
    """One in twenty is accepted, far more candidates than `most` are needed for all rounds together."""
    assert likely(given(RARELY, most=300).rounds(1, 1, 2000).show(0), conditional(RARELY, 0))


def test_one_in_a_hundred_thousand_is_waited_for() -> None:
    """By the default limit; each seed would be given up with probability exp(-10), all three pass but for 2e-4."""
    asked = spec(integer("age", 0, 99_999), SEX)
    source = UniformPopulation(asked, None, np.float64)
    drawn = RejectionPopulation(source, parse_predicate("age == 7", asked.features), source.subgroups)
    for seed in range(3):
        assert drawn.rounds(seed, 1, 1).show(0)[:, 0].tolist() == [7]


def test_shares_are_those_of_the_source_unless_a_predicate_changes_them() -> None:
    assert given(None).shares() == (0.5, 0.5)
    assert given(RICH).shares() is None


def test_the_phrase_names_the_condition() -> None:
    phrase = "independent uniform inputs over the declared ranges of 3 features"
    assert str(given(RICH)) == f"{phrase}, among inputs with hours >= 2"
    assert str(given(None)) == phrase
