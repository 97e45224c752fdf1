"""Promises of `population.build`: the spec's population, restricted and averaged as the question asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fairchain.errors import SpecError
from fairchain.populations import UniformPopulation, build_population
from fairchain.populations.build import (
    FUNCTION_NEEDED,
    FUNCTION_NOT_EXPECTED,
    ROWS_TABLE_NOT_DRAWN,
)
from fairchain.populations.derived import AveragePopulation, RejectionPopulation
from fairchain.populations.functions import FunctionPopulation
from fairchain.populations.marginals import MarginalPopulation
from fairchain.spec import Spec, groups_of, parse_spec
from fairchain.spec.conditions import parse_predicate
from fairchain.spec.subgroups import Subgroup
from tests.messages import says
from tests.questions import category, question, real

FEATURES = [real("x", 0, 1), category("sex", "Female", "Male")]


@dataclass(frozen=True)
class Rows:
    values: NDArray[np.float64]
    source: str = "people.csv"


def asked(**population: Any) -> Spec:
    return parse_spec(question(*FEATURES) | {"population": population})


def subgroups(spec: Spec) -> list[Subgroup]:
    return [Subgroup(group.name, group) for group in groups_of(spec)]


def drawing(rng: np.random.Generator, count: int) -> Any:
    return {"x": rng.random(count), "sex": rng.choice(["Female", "Male"], count)}


def drawing_a_group(rng: np.random.Generator, count: int, group: str | None) -> Any:
    return {"x": rng.random(count), "sex": rng.choice([str(group).removeprefix("sex=")], count)}


def test_each_kind_has_its_population() -> None:
    uniform, marginals = asked(kind="uniform"), asked(kind="marginals", path="people.csv")
    rows = Rows(np.array([[0.3, 0], [0.3, 1]]))
    assert isinstance(build_population(uniform, subgroups(uniform)), UniformPopulation)
    drawn = build_population(marginals, subgroups(marginals), rows=rows)
    assert isinstance(drawn, MarginalPopulation)
    assert "2 rows of people.csv" in str(drawn)
    called = asked(kind="callable")
    assert isinstance(build_population(called, subgroups(called), function=drawing_a_group), FunctionPopulation)


def test_groups_of_a_function_of_everybody_are_picked_out() -> None:
    spec = asked(kind="callable")
    drawn = build_population(spec, subgroups(spec), np.float32, function=drawing)
    assert isinstance(drawn, RejectionPopulation)
    assert drawn.source.dtype == np.float64
    shown = drawn.rounds(1, 1, 100).inputs([0, 1])
    assert shown.dtype == np.float32
    assert shown[:, 1].tolist() == [0] * 100 + [1] * 100


def test_a_condition_is_decided_before_values_are_rounded() -> None:
    """0.3 in single precision is above 0.3 in double precision."""
    spec = asked(kind="marginals", path="people.csv")
    rows = Rows(np.array([[0.3, 0], [0.3, 1]]))
    given = parse_predicate("x <= 0.3", spec.features)
    drawn = build_population(spec, subgroups(spec), np.float32, rows=rows, predicate=given)
    assert (drawn.rounds(1, 1, 10).show(0)[:, 0] == np.float32(0.3)).all()


def test_a_mean_of_groups_and_a_condition_together() -> None:
    spec = asked(kind="uniform")
    compared = [Subgroup("mean", mixed=groups_of(spec)), Subgroup("everybody")]
    given = parse_predicate("x > 0.5 and sex == 'Male' or x < 0.1 and sex == 'Female'", spec.features)
    drawn = build_population(spec, compared, predicate=given)
    assert isinstance(drawn, AveragePopulation)
    assert str(drawn).endswith(f"2 features, among inputs with {given}")
    shown = drawn.rounds(1, 1, 20_000).inputs([0, 1]).reshape(2, -1, 2)
    assert given.holds(shown.reshape(-1, 2).astype(np.float64)).all()
    # Half of the mean are men, and five in six of everybody; 5 standard deviations are passed once in 1.7 million.
    for share, expected in zip(shown[:, :, 1].mean(axis=1), (1 / 2, 5 / 6), strict=True):
        assert abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / 20_000)


def test_a_network_is_drawn_too() -> None:
    nodes = [{"name": "x", "mean": 0.5, "std": 0.1}, {"name": "sex", "probabilities": [0.3, 0.7]}]
    spec = asked(kind="network", nodes=nodes)
    given = parse_predicate("x > 0.5", spec.features)
    shown = build_population(spec, subgroups(spec), predicate=given).rounds(1, 1, 50).inputs([0, 1])
    assert (shown[:, 0] > 0.5).all()
    assert shown[:, 1].tolist() == [0] * 50 + [1] * 50


def test_a_function_and_its_kind_belong_together() -> None:
    spec = asked(kind="callable")
    with pytest.raises(SpecError, match=says(FUNCTION_NEEDED)):
        build_population(spec, subgroups(spec))
    with pytest.raises(SpecError, match=says(FUNCTION_NOT_EXPECTED)):
        build_population(asked(kind="uniform"), subgroups(spec), function=drawing)


def test_rows_of_a_table_are_not_drawn() -> None:
    spec = asked(kind="table", path="people.csv", **{"as": "population"})
    with pytest.raises(ValueError, match=says(ROWS_TABLE_NOT_DRAWN)):
        build_population(spec, subgroups(spec))
