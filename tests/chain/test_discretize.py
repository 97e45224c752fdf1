"""Numbers become a few named states, the same ones for ever once they are fitted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairchain.chain.state_units import (
    BINS_NOT_RISING,
    CATEGORY_NO_ORDER,
    TOO_FEW_DISTINCT_VALUES,
    TOO_MANY_STATES,
    VALUES_NEED_WHOLE_NUMBERS,
    Discretization,
    fit_feature,
    fit_layer,
    fit_number,
)
from fairchain.errors import ChainError
from tests.messages import says
from tests.questions import category, integer, real, spec

PILOT = np.random.default_rng(0).normal(size=1000)


def feature(data: dict[str, object]) -> object:
    return spec(data, category("sex", "Female", "Male")).features[0]


def test_a_category_and_few_whole_numbers_have_a_state_for_each_value() -> None:
    made = fit_feature(feature(category("education", "Bachelors", "Masters")), np.array([0.0, 1.0]), None, None, ())
    assert made.names == ("education=Bachelors", "education=Masters")
    assert made(np.array([[0.0], [1.0], [0.0]])).tolist() == [0, 1, 0]
    made = fit_feature(feature(integer("age", 3, 6)), np.array([3.0]), None, None, ())
    assert made.names == ("age=3", "age=4", "age=5", "age=6")
    assert made(np.array([[6.0], [3.0]])).tolist() == [3, 0]


def test_given_bins_are_read_as_edges() -> None:
    made = fit_feature(feature(integer("gain", 0, 99)), np.array([0.0]), None, None, (5, 10))
    assert made.names == ("gain < 5", "5 <= gain < 10", "gain >= 10")
    assert made(np.array([[4.0], [5.0], [9.9], [10.0]])).tolist() == [0, 1, 1, 2]


def test_a_neuron_is_on_or_off() -> None:
    made = fit_number("layer3[2]", PILOT, None, None)
    assert made.names == ("layer3[2] off", "layer3[2] on")
    assert made(np.array([[-1.0], [0.0], [1e-30]])).tolist() == [0, 0, 1]


@pytest.mark.parametrize("method", ["width", "quantiles", "kmeans"])
def test_every_part_is_inhabited_and_in_order(method: Discretization) -> None:
    made = fit_number("x", PILOT, method, 4)
    states = made(PILOT[:, None])
    assert set(states) == {0, 1, 2, 3}
    assert [PILOT[states == state].max() for state in range(3)] <= [PILOT[states == state].min() for state in (1, 2, 3)]


def test_quantiles_are_of_equal_size() -> None:
    sizes = np.bincount(fit_number("x", PILOT, "quantiles", 5)(PILOT[:, None]))
    assert sizes.tolist() == [200] * 5


def test_clusters_are_found_where_they_are() -> None:
    points = np.concatenate([np.random.default_rng(1).normal(centre, 0.1, (50, 3)) for centre in (0, 5, 9)])
    made = fit_layer("layer1", points, None)
    assert len(made.names) == len(set(made(points)))
    states = made(points)
    assert all(len(set(states[start : start + 50])) == 1 for start in (0, 50, 100)) or len(made.names) == 2
    assert len(set(fit_layer("layer1", points, 3)(points))) == 3


@given(st.lists(st.floats(-5, 5), min_size=8, max_size=60), st.sampled_from(["width", "quantiles"]), st.integers(2, 6))
def test_fitting_never_makes_names_that_are_not_all_different(
    values: list[float], method: Discretization, parts: int
) -> None:
    try:
        made = fit_number("x", np.array(values), method, parts)
    except ChainError:
        return
    assert len(set(made.names)) == len(made.names) == len(made.edges or ()) + 1
    assert (made(np.array(values)[:, None]) < len(made.names)).all()


def test_more_parts_than_distinct_values_is_an_error() -> None:
    with pytest.raises(ChainError, match=says(TOO_FEW_DISTINCT_VALUES, name="x", parts="5", distinct="2")):
        fit_number("x", np.array([0.0, 1.0, 1.0]), "kmeans", 5)
    with pytest.raises(ChainError, match=says(TOO_FEW_DISTINCT_VALUES, name="layer2", parts="3", distinct="1")):
        fit_layer("layer2", np.zeros((10, 4)), 3)


def test_what_cannot_be_divided_so_is_an_error() -> None:
    with pytest.raises(ChainError, match=says(CATEGORY_NO_ORDER)):
        fit_feature(feature(category("job", "a", "b")), np.array([0.0]), "quantiles", 2, ())
    with pytest.raises(ChainError, match=says(VALUES_NEED_WHOLE_NUMBERS)):
        fit_feature(feature(real("score")), np.array([0.0]), "values", None, ())
    with pytest.raises(ChainError, match=says(TOO_MANY_STATES, name="id", size="1,000,000,000", most_values="100,000")):
        fit_feature(feature(integer("id", 1, 10**9)), np.array([1.0]), "values", None, ())
    with pytest.raises(ChainError, match=says(BINS_NOT_RISING)):
        fit_number("x", PILOT, "bins", None, (3, 1))


@pytest.mark.parametrize("data", [category("job", "clerk", "nurse"), integer("job", 0, 1), real("job", 0, 9)])
def test_missing_values_have_a_state_of_their_own(data: dict[str, object]) -> None:
    pilot = np.array([0.0, 1.0, np.nan, 1.0])
    made = fit_feature(feature(data), pilot, None, None, (), missing=True)
    known = fit_feature(feature(data), pilot[[0, 1, 3]], None, None, ())
    assert made.names == (*known.names, "job missing")
    assert made(pilot[:, None]).tolist() == [0, len(known.names) - 1, len(known.names), len(known.names) - 1]


def test_a_number_that_is_missing_everywhere_has_both_states() -> None:
    made = fit_feature(feature(real("score")), np.full(4, np.nan), None, None, (), missing=True)
    assert made.names == ("score", "score missing")
    assert made(np.array([[1.0], [np.nan]])).tolist() == [0, 1]
