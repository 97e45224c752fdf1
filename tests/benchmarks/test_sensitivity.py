"""The paper's figure of sensitivities, with its points; what is said about them is counted."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest


def module(name: str) -> Any:
    return import_module(f"benchmarks.{name}")


@pytest.fixture(scope="module")
def census() -> Any:
    sizes = replace(module("sizes").QUICK, seeds=2, explained=500)
    case = next(case for case in module("cases").embedded() if case.name == "census sex")
    return module("parts.sensitivity").features_of(case, sizes)


def test_the_papers_points_stand_beside_the_features_of_its_figure(census: Any) -> None:
    names = [unit.name for unit in census.units]
    points = dict(zip(names, module("paper").SENSITIVITIES, strict=True))
    assert "sex" not in points
    # The paper names capital gain as the most sensitive, and divides by it.
    assert max(points, key=lambda name: points[name]) == "capital-gain"
    assert points["capital-gain"] == 1
    rows = module("parts.sensitivity")._figure_table([census]).rows
    assert {row[0]: row[1] for row in rows} == points


def test_shares_are_of_each_runs_largest_and_points_are_counted_where_runs_lie(census: Any) -> None:
    assert len(census.runs) == len(census.more) == 2
    for run in range(2):
        assert max(each[run] for each in census.shares) == 1
    points = module("paper").SENSITIVITIES
    assert replace(census, runs=[list(points), list(points)]).inside == len(points)
    shifted = [point + 0.001 for point in points[:-1]] + [2.0]
    assert replace(census, runs=[shifted, shifted]).inside == 0


def test_the_formula_of_features_shrinks_with_the_number_of_people(census: Any) -> None:
    # Chance alone: a quarter on average; the seeds are fixed.
    few, many = (sum(map(max, runs)) for runs in (census.runs, census.more))
    assert many < 0.5 * few


def test_whose_largest_value_it_was_is_counted() -> None:
    assert module("parts.sensitivity").came_first([[1.0, 2.0], [0.0, 3.0], [5.0, 4.0]], ["a", "b"]) == "b 2, a 1"


def test_each_figure_shows_all_that_its_measures_put_first(census: Any) -> None:
    sensitivity = module("parts.sensitivity")
    figure, effects = sensitivity._figure([census]), sensitivity._effects_plot([census])
    for plot in (figure, effects):
        assert plot.bars == [unit.name for unit in census.units]
        assert plot.series[-1].spread is not None
        for (_, value), (low, high) in zip(plot.series[-1].points, plot.series[-1].spread, strict=True):
            assert low <= value <= high
    neurons = sensitivity._neurons_plot(census.found)
    # The largest of each kind is there, so that a bar of each reaches 1 (features have no sensitivity of their own).
    assert max(abs(value) for _, value in neurons.series[0].points) == 1
