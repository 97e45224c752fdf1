"""Promises of `population.average`: the mean of groups is the mean of groups, each round shown as one of them.

Each statistical test would fail for one seed in a million if what it promises held; the seeds are fixed.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import chisquare

from fairchain.populations import Scratch, UniformPopulation
from fairchain.populations.derived import AveragePopulation
from fairchain.spec import groups_of
from fairchain.spec.subgroups import AVERAGE, OVERALL, Subgroup, unmixed
from tests.questions import category, integer, spec

RARE = 1e-6
ASKED = spec(
    integer("age", 0, 9, groups={"one": 0, "few": [1, 3], "many": [4, 9]}), category("job", "a", "b"), protected=["age"]
)
GROUPS = groups_of(ASKED)
ARMS = (Subgroup(OVERALL), Subgroup(AVERAGE, mixed=GROUPS), Subgroup(GROUPS[1].name, GROUPS[1]))


def population() -> AveragePopulation:
    return AveragePopulation(UniformPopulation(ASKED, unmixed(ARMS), np.float64), ARMS)


def test_a_mean_is_replaced_by_its_groups() -> None:
    assert [subgroup.name for subgroup in unmixed(ARMS)] == [OVERALL, "age=one", "age=few", "age=many", "age=few"]


def test_every_group_counts_the_same_in_the_mean() -> None:
    shown = population().rounds(1, 2, 36_000).show(1)
    counts = np.bincount(shown[:, 0].astype(np.int64), minlength=10)
    expected = np.array([1 / 3, *[1 / 9] * 3, *[1 / 18] * 6])
    assert chisquare(counts, expected * len(shown)).pvalue > RARE


def test_the_rate_of_the_mean_is_the_mean_of_the_rates() -> None:
    """A decision by age alone, for which each group's rate is known; 5 standard deviations once in 1.7 million."""
    shown = population().rounds(1, 2, 40_000).show(1)
    rate = (shown[:, 0] % 2 == 0).mean()
    expected = (1 + 1 / 3 + 1 / 2) / 3
    assert abs(rate - expected) < 5 * np.sqrt(expected * (1 - expected) / 40_000)


def test_the_pick_is_independent_of_the_person() -> None:
    shown = population().rounds(1, 2, 36_000).show(1)
    counts = np.bincount((shown[:, 0] * 2 + shown[:, 1]).astype(np.int64), minlength=20)
    expected = np.repeat([1 / 3, *[1 / 9] * 3, *[1 / 18] * 6], 2) / 2
    assert chisquare(counts, expected * len(shown)).pvalue > RARE


def test_the_other_subgroups_are_those_of_the_source() -> None:
    drawn = population()
    own = drawn.rounds(3, 4, 100).inputs([0, 1, 2]).reshape(3, 100, 2)
    source = drawn.source.rounds(3, 4, 100).inputs([0, 4]).reshape(2, 100, 2)
    assert np.array_equal(own[[0, 2]], source)


def test_in_a_round_the_mean_shows_the_person_as_one_of_the_groups() -> None:
    drawn = population()
    mean = drawn.rounds(3, 4, 200).inputs([1])
    as_groups = drawn.source.rounds(3, 4, 200).inputs([1, 2, 3]).reshape(3, 200, 2)
    assert (mean == as_groups).all(axis=2).any(axis=0).all()


def test_draws_follow_from_the_address_alone() -> None:
    drawn = population()
    fresh = drawn.rounds(3, 4, 200).inputs([0, 1, 2]).tobytes()
    scratch = Scratch()
    for count in (5, 999):
        drawn.rounds(3, 4, count, scratch=scratch).show(1)
    assert drawn.rounds(3, 4, 200, scratch=scratch).inputs([0, 1, 2]).tobytes() == fresh
    others = [drawn.rounds(*place).inputs([1]).tobytes() for place in ((3, 4, 200, 1), (3, 5, 200), (4, 4, 200))]
    assert len({drawn.rounds(3, 4, 200).inputs([1]).tobytes(), *others}) == 4


def test_the_phrase_is_that_of_the_source() -> None:
    assert str(population()) == str(population().source)
