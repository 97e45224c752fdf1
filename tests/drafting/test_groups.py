"""Promises about groups: round ends, nobody twice, nobody left out, enough rows in each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairchain.drafting.groups import ENOUGH, group
from fairchain.spec import CategoryFeature, Feature, IntegerFeature, RealFeature


def test_ages_fall_into_decades() -> None:
    ages = np.random.default_rng(0).integers(17, 91, 5000).astype(float)
    made, _ = group(IntegerFeature(name="age", low=17, high=90), ages)
    assert list(made.groups) == ["17-19", "20-29", "30-39", "40-49", "50-59", "60-69", "70-79", "80-90"]
    assert made.groups["20-29"] == (20, 29)
    assert made.groups["80-90"] == (80, 90)


def test_a_decade_with_few_people_joins_its_neighbour() -> None:
    ages = np.array([18] * 5 + [*range(20, 40)] * 10 + [60] * 3 + [75] * 40 + [80] * 2, float)
    made, member = group(IntegerFeature(name="age", low=18, high=80), ages)
    assert list(made.groups) == ["18-29", "30-39", "40-80"]
    assert np.bincount(member).tolist() == [105, 100, 45]


def test_few_whole_numbers_are_groups_of_their_own() -> None:
    made, member = group(IntegerFeature(name="stage", low=0, high=7), np.array([0.0, 7.0, 3.0, 3.0]))
    assert made.groups == {"0": 0, "3": 3, "7": 7}
    assert member.tolist() == [0, 2, 1, 1]


def test_numbered_categories_are_not_put_into_ranges() -> None:
    made, _ = group(IntegerFeature(name="native-country", low=0, high=41), np.arange(42).repeat(40).astype(float))
    assert len(made.groups) == 42


def test_numbers_that_crowd_at_one_end_are_divided_all_the_same() -> None:
    wealth = np.array([0] * 900 + [*range(1, 100_000, 1000)], float)
    made, member = group(IntegerFeature(name="wealth", low=0, high=99_001), wealth)
    assert len(made.groups) >= 2
    assert np.bincount(member).min() >= ENOUGH


def test_negative_and_real_ends_are_written_with_words() -> None:
    made, _ = group(RealFeature(name="t", low=-1.0, high=1.0), np.linspace(-1, 1, 400))
    assert next(iter(made.groups)) == "-1 to -0.8"
    below, _ = group(IntegerFeature(name="d", low=-50, high=50), np.arange(-50, 51).astype(float))
    assert list(below.groups)[:2] == ["-50 to -21", "-20 to 9"]


def test_a_category_has_a_group_for_each_value_already() -> None:
    feature = CategoryFeature(name="sex", values=("F", "M"))
    made, member = group(feature, np.array([1.0, 0.0]))
    assert made == feature
    assert member.tolist() == [1, 0]


NUMBERS = st.lists(st.integers(-(10**6), 10**6), min_size=8, max_size=300)


@settings(max_examples=80, deadline=None)
@given(NUMBERS, st.sampled_from([1.0, 0.01, 1e-7]))
def test_every_person_is_in_the_one_group_that_the_spec_would_put_them_in(cells: list[int], unit: float) -> None:
    from fairchain.spec.groups import groups_of_feature

    column = np.array(cells) * unit
    if len(np.unique(column)) < 2:
        return
    feature: Feature
    if unit == 1.0:
        feature = IntegerFeature(name="x", low=min(cells), high=max(cells))
    else:
        feature = RealFeature(name="x", low=float(column.min()), high=float(column.max()))
    made, member = group(feature, column)
    groups_of_feature(made)
    assert member.min() == 0
    assert member.max() < len(made.groups)
    assert len(np.unique(member)) == len(made.groups) >= 2
    ranges = [each if isinstance(each, tuple) else (each, each) for each in made.groups.values()]
    for value, number in zip(column, member, strict=True):
        low, high = ranges[number]
        assert low <= value <= high  # type: ignore[operator]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(-1.7e308, 1.7e308), min_size=2, max_size=50, unique=True))
def test_numbers_of_any_size_are_divided_or_left_in_one_range(cells: list[float]) -> None:
    column = np.array(cells)
    made, member = group(RealFeature(name="x", low=min(cells), high=max(cells)), column)
    assert len(np.unique(member)) == len(made.groups) >= 1


@pytest.mark.parametrize("seed", range(5))
def test_ranges_have_enough_rows_if_there_are_enough(seed: int) -> None:
    column = np.random.default_rng(seed).lognormal(3, 1, 2000)
    made, member = group(RealFeature(name="x", low=float(column.min()), high=float(column.max())), column)
    assert 2 <= len(made.groups) <= 10
    assert np.bincount(member).min() >= ENOUGH
