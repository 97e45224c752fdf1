"""Promises of `population.uniform`: every group's inputs are exactly uniform, and rounds differ in nothing else.

Each statistical test would fail for one seed in a million if what it promises held; the seeds are fixed.
"""

from __future__ import annotations

import hashlib
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare, kstest

from fairchain.populations import UniformPopulation
from fairchain.populations.base import DRAWN_BY_AVERAGE
from fairchain.spec import Group
from fairchain.spec.subgroups import Subgroup
from tests.messages import says
from tests.questions import category, integer, real, spec

RARE = 1e-6
SEX = category("sex", "Female", "Male")
PEOPLE = [integer("age", 3, 9), real("income", -2, 5), category("job", "a", "b", "c"), SEX]
AWKWARD = 3 * 2**30

GOLDEN_ROWS = [[4.0, 2.1814557330128403, 1.0, 0.0], [5.0, 1.397905033281651, 1.0, 0.0]]
GOLDEN_HASH = "67e9ec0c42a5eb36d04ddfd3c2acb6de6957d5aa08bcd8b87d5322f0665dfe61"


def population(
    *features: dict[str, Any], protected: list[str] | None = None, dtype: Any = np.float64
) -> UniformPopulation:
    return UniformPopulation(spec(*features, protected=protected), dtype=dtype)


def column(name: str, *features: dict[str, Any], group: int = 0, count: int = 20_000, **more: Any) -> NDArray[Any]:
    """What one group shows in one column."""
    place = [feature["name"] for feature in features].index(name)
    return population(*features, **more).rounds(17, 1, count).inputs([group])[:, place]


def even(values: NDArray[Any], expected: list[float]) -> bool:
    """Whether these values are just the expected ones and equally frequent."""
    found, counts = np.unique(values, return_counts=True)
    return found.tolist() == sorted(expected) and (len(found) == 1 or chisquare(counts).pvalue > RARE)


def test_the_draws_of_a_chunk_are_pinned() -> None:
    """Certificates are checked by drawing again: a change here would make every one of them uncheckable."""
    young = {"young": [3, 5], "odd": {"values": [7, 9]}}
    drawn = population(integer("age", 3, 9, groups=young), *PEOPLE[1:], protected=["age", "sex"])
    shown = drawn.rounds(42, 7, 100, copy=1).inputs(range(4))
    assert shown[:2].tolist() == GOLDEN_ROWS
    assert hashlib.sha256(shown.astype("<f8").tobytes()).hexdigest() == GOLDEN_HASH


def test_the_same_chunk_is_the_same_bytes_whatever_was_drawn_before_and_by_whom() -> None:
    fresh = population(*PEOPLE).rounds(5, 3, 500).inputs([0, 1]).tobytes()
    used = population(*PEOPLE)
    with ThreadPoolExecutor(4) as pool:
        for count in (7, 9000, 1):
            list(pool.map(lambda chunk, count=count: used.rounds(5, chunk, count).inputs([1]), range(8)))
        again = list(pool.map(lambda _: used.rounds(5, 3, 500).inputs([0, 1]).tobytes(), range(8)))
    assert set(again) == {fresh}


def test_a_copy_for_another_process_draws_the_same_without_what_is_kept_between_runs() -> None:
    used = population(*PEOPLE)
    drawn = used.rounds(5, 3, 500).inputs([0, 1]).tobytes()
    sent = pickle.dumps(used)
    assert len(sent) < 10_000
    assert pickle.loads(sent).rounds(5, 3, 500).inputs([0, 1]).tobytes() == drawn


def test_seeds_chunks_and_copies_differ() -> None:
    drawn = population(*PEOPLE)
    places = [(seed, chunk, copy) for seed in (1, 2) for chunk in (0, 1) for copy in (0, 1)]
    assert len({drawn.rounds(seed, chunk, 50, copy).inputs([0]).tobytes() for seed, chunk, copy in places}) == 8


def test_copies_are_independent() -> None:
    """The correlation of 20,000 independent pairs exceeds 5 standard deviations once in 1.7 million."""
    drawn = population(real("x"), SEX)
    x = [drawn.rounds(1, 1, 20_000, copy).inputs([0])[:, 0] for copy in (0, 1, 2)]
    assert np.abs(np.corrcoef(x) - np.eye(3)).max() < 5 / np.sqrt(20_000)


def test_columns_are_independent() -> None:
    """The correlation of 20,000 independent pairs exceeds 5 standard deviations once in 1.7 million."""
    drawn = population(*PEOPLE).rounds(1, 1, 20_000).inputs([0])[:, :3]
    assert np.abs(np.corrcoef(drawn.T) - np.eye(3)).max() < 5 / np.sqrt(20_000)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (3, 9), (-20, 5), (10**9, 10**9 + 6), (-(2**33), -(2**33) + 2)])
def test_an_integer_feature_takes_every_value_equally_often(low: int, high: int) -> None:
    assert even(column("k", integer("k", low, high), SEX), list(range(low, high + 1)))


def test_a_category_is_drawn_as_its_index() -> None:
    assert even(column("job", *PEOPLE), [0, 1, 2])


def test_a_feature_with_one_value_has_it() -> None:
    assert even(column("k", integer("k", 4, 4), SEX), [4])


def test_a_real_feature_is_uniform_between_its_ends() -> None:
    values = column("income", *PEOPLE)
    assert values.min() >= -2
    assert values.max() < 5
    assert kstest((values + 2) / 7, "uniform").pvalue > RARE


def test_large_ranges_are_drawn_with_rejection() -> None:
    """Without it every third value would come twice as often."""
    values = column("k", integer("k", 0, AWKWARD - 1), SEX)
    assert chisquare(np.bincount(values.astype(np.int64) % 3)).pvalue > RARE
    assert chisquare(np.histogram(values, bins=16, range=(0, AWKWARD))[0]).pvalue > RARE


def test_float64_keeps_large_integers_exact() -> None:
    values = column("k", integer("k", 2**50, 2**50 + 2**31), SEX)
    assert values.dtype == np.float64
    assert even(values % 4, [0, 1, 2, 3])


@pytest.mark.parametrize(("low", "high"), [(0, 2**24), (-(2**24), 2**24), (-(2**24), 0), (-5, 2**24)])
def test_float32_keeps_every_integer_that_it_can_hold(low: int, high: int) -> None:
    values = column("k", integer("k", low, high), SEX, dtype=np.float32)
    assert values.dtype == np.float32
    assert even(values.astype(np.int64) % 2, [0, 1])
    assert even((values[values > 0] if high else values[values < 0]).astype(np.int64) % 2, [0, 1])


@pytest.mark.parametrize(
    ("low", "high", "expression", "expected"),
    [
        (0, 9, 4, [4]),
        (0, 9, [2, 6], [2, 3, 4, 5, 6]),
        (0, 9, {"values": [1, 3, 7]}, [1, 3, 7]),
        (0, 9, {"values": [8, 7, 6]}, [6, 7, 8]),
        (0, 9, {"low": 1, "high": 2}, [1, 2]),
        (-20, 9, [-20, -18], [-20, -19, -18]),
        (-20, 9, [-2, 1], [-2, -1, 0, 1]),
        (-20, 9, {"values": [-20, 0, 8]}, [-20, 0, 8]),
        (2**32 - 5, 2**32 + 5, [2**32 - 2, 2**32 + 1], [2**32 - 2, 2**32 - 1, 2**32, 2**32 + 1]),
        (2**40, 2**40 + 20, [2**40, 2**40 + 2], [2**40, 2**40 + 1, 2**40 + 2]),
        (-(2**40), -(2**40) + 20, [-(2**40), -(2**40) + 2], [-(2**40), -(2**40) + 1, -(2**40) + 2]),
    ],
)
def test_an_integer_group_is_uniform_on_its_own_values(
    low: int, high: int, expression: Any, expected: list[float]
) -> None:
    groups = {"all the others": high, "these": expression}
    assert even(column("k", integer("k", low, high, groups=groups), SEX, group=0, protected=["k"]), expected)


def test_a_group_of_categories_is_uniform_on_them() -> None:
    job = category("job", "a", "b", "c", "d", "e", groups={"some": ["a", "c", "e"], "other": "b"})
    assert even(column("job", job, SEX, protected=["job"]), [0, 2, 4])


def test_a_group_that_is_a_real_range_is_uniform_on_it() -> None:
    x = real("x", 0, 10, groups={"low": [1, 3], "high": [3, 10]})
    for group, low, high in ((0, 1, 3), (1, 3, 10)):
        values = column("x", x, SEX, group=group, protected=["x"])
        assert values.min() >= low
        assert values.max() < high
        assert kstest((values - low) / (high - low), "uniform").pvalue > RARE


def test_a_large_group_is_drawn_with_rejection() -> None:
    k = integer("k", 0, 2**32 - 1, groups={"most": [0, AWKWARD - 1], "few": [AWKWARD, 2**32 - 1]})
    values = column("k", k, SEX, protected=["k"])
    assert values.max() < AWKWARD
    assert chisquare(np.bincount(values.astype(np.int64) % 3)).pvalue > RARE


def test_a_combination_is_uniform_on_the_product_of_its_parts() -> None:
    age = integer("age", 0, 9, groups={"young": [0, 2], "odd": {"values": [5, 9]}})
    drawn = population(age, category("race", "x", "y"), real("z"), protected=["age", "race"])
    assert [group.name for group in drawn.groups][3] == "age=odd & race=y"
    shown = drawn.rounds(3, 3, 20_000).inputs(range(4)).reshape(4, -1, 3)
    for block, ages, race in zip(shown, ([0, 1, 2], [0, 1, 2], [5, 9], [5, 9]), (0, 1, 0, 1), strict=True):
        assert even(block[:, 0], ages)
        assert even(block[:, 1], [race])


def test_two_wide_protected_features_of_a_group_are_independent() -> None:
    halves = {"low": [0, 2], "high": [3, 5]}
    drawn = population(integer("a", 0, 5, groups=halves), integer("b", 0, 5, groups=halves), protected=["a", "b"])
    shown = drawn.rounds(3, 4, 20_000).inputs([1])
    assert even(shown[:, 0] * 10 + shown[:, 1], [a * 10 + b for a in (0, 1, 2) for b in (3, 4, 5)])


def test_only_protected_columns_differ_between_the_groups_of_a_round() -> None:
    groups = {"young": [3, 5], "old": [6, 9]}
    drawn = population(integer("age", 3, 9, groups=groups), *PEOPLE[1:], protected=["age", "sex"])
    shown = drawn.rounds(1, 2, 300).inputs(range(4)).reshape(4, 300, 4)
    assert (shown[:, :, 1:3] == shown[0, :, 1:3]).all()
    assert (shown[2:, :, 0] > shown[:2, :, 0]).all()
    assert shown[:, :, 3].tolist() == [[0] * 300, [1] * 300, [0] * 300, [1] * 300]


def test_any_choice_of_groups_shows_the_same_people() -> None:
    rounds = population(*PEOPLE, protected=["job", "sex"]).rounds(9, 9, 40)
    everyone = rounds.inputs(range(6)).reshape(6, 40, 4)
    assert np.array_equal(rounds.inputs([4, 1]).reshape(2, 40, 4), everyone[[4, 1]])


def test_everybody_has_all_values_of_the_protected_features() -> None:
    asked = spec(integer("age", 0, 9, groups={"young": [0, 2], "old": [7, 9]}), SEX, protected=["age", "sex"])
    drawn = UniformPopulation(asked, [Subgroup("everybody")], np.float64)
    shown = drawn.rounds(3, 5, 20_000).show(0)
    assert even(shown[:, 0] * 2 + shown[:, 1], list(range(20)))
    assert drawn.groups[0].name == "everybody"


def test_everybody_beside_the_groups_changes_nothing_that_they_show() -> None:
    asked = spec(*PEOPLE, protected=["job", "sex"])
    alone = UniformPopulation(asked, dtype=np.float64)
    beside = UniformPopulation(asked, [*alone.subgroups, Subgroup("everybody")], np.float64)
    shown = [each.rounds(3, 5, 500).inputs(range(6)) for each in (alone, beside)]
    assert np.array_equal(*shown)


def test_shares_are_those_of_the_ranges() -> None:
    x = real("x", 0, 10, groups={"low": [1, 3], "high": [3, 10]})
    drawn = population(x, category("job", "a", "b", "c", groups={"some": ["a", "c"], "other": "b"}))
    assert drawn.shares() == (2 / 3, 1 / 3)
    asked = spec(x, SEX, protected=["x", "sex"])
    assert UniformPopulation(asked).shares() == (0.1, 0.1, 0.35, 0.35)
    assert UniformPopulation(asked, [Subgroup("everybody")]).shares() == (1.0,)


def test_a_mean_of_groups_is_not_shown_as_if_it_were_everybody() -> None:
    asked = spec(*PEOPLE)
    groups: tuple[Group, ...] = UniformPopulation(asked).groups
    with pytest.raises(ValueError, match=says(DRAWN_BY_AVERAGE)):
        UniformPopulation(asked, [Subgroup("mean", mixed=groups)])


def test_single_precision_is_the_double_precision_rounded() -> None:
    single, double = (population(*PEOPLE, dtype=kind).rounds(2, 2, 500).inputs([0, 1]) for kind in ("f4", "f8"))
    assert np.array_equal(single, double.astype(np.float32))


@pytest.mark.parametrize("protected", [["sex"], ["sex", "job"]])
def test_several_groups_are_shown_together_as_each_is_shown_alone(protected: list[str]) -> None:
    drawn = population(*PEOPLE, protected=protected).rounds(17, 1, 50)
    assert drawn.together is not None
    places = range(2 if len(protected) == 1 else 6)
    alone = np.concatenate([drawn.show(place).copy() for place in places[::-1]])
    assert np.array_equal(drawn.inputs(places[::-1]), alone)
