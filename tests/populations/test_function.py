"""Promises of `population.function`: the function's people and no others, drawn by address, mistakes named."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from fairchain.errors import DataError
from fairchain.populations.functions import FunctionPopulation
from fairchain.spec.subgroups import Subgroup
from tests.questions import category, integer, real, spec

SEX = category("sex", "Female", "Male")
FEATURES = [integer("age", 3, 9), real("income", 0, 5), SEX]
ASKED = spec(*FEATURES)


def everybody(rng: np.random.Generator, count: int) -> Any:
    return np.stack([rng.integers(3, 10, count), rng.uniform(0, 5, count), rng.integers(0, 2, count)], axis=1)


def by_group(rng: np.random.Generator, count: int, group: str | None) -> Any:
    age, income = rng.integers(3, 10, count), rng.uniform(0, 5, count)
    sexes = {"sex=Female": ["Female"], "sex=Male": ["Male"], None: ["Female", "Male"]}[group]
    return {"age": age, "income": income, "sex": rng.choice(sexes, count)}


def population(function: Callable[..., Any], subgroups: list[Subgroup] | None = None) -> FunctionPopulation:
    return FunctionPopulation(ASKED, subgroups, function, np.float64)


def test_a_function_of_everybody_shows_the_same_people_to_every_subgroup() -> None:
    drawn = population(everybody)
    shown = drawn.rounds(1, 2, 50).inputs([0, 1]).reshape(2, 50, 3)
    assert np.array_equal(shown[0], shown[1])
    assert not drawn.exact
    female, male = (drawn.accepts(subgroup, shown[0]) for subgroup in (0, 1))
    assert female is not None
    assert male is not None
    assert np.array_equal(female, shown[0][:, 2] == 0)
    assert np.array_equal(male, ~female)


def test_everybody_is_accepted_by_the_subgroup_of_everybody() -> None:
    drawn = population(everybody, [Subgroup("everybody")])
    assert drawn.exact
    assert drawn.accepts(0, drawn.rounds(1, 1, 5).show(0)) is None


def test_a_function_of_a_group_gets_an_independent_generator_for_each_subgroup() -> None:
    drawn = population(by_group, [*population(by_group).subgroups, Subgroup("everybody")])
    assert drawn.exact
    female, male, both = drawn.rounds(1, 2, 50).inputs([0, 1, 2]).reshape(3, 50, 3)
    assert drawn.accepts(0, female) is None
    incomes = np.concatenate([female[:, 1], male[:, 1], both[:, 1]])
    assert len(set(incomes.tolist())) == 150
    assert (female[:, 2] == 0).all()
    assert (male[:, 2] == 1).all()
    assert 0 < both[:, 2].mean() < 1


def test_draws_follow_from_the_address_alone() -> None:
    drawn = population(by_group)
    places = [(1, 2, 50), (1, 2, 50, 1), (1, 3, 50), (2, 2, 50)]
    fresh = [drawn.rounds(*place).inputs([0, 1]).tobytes() for place in places]
    assert len(set(fresh)) == 4
    with ThreadPoolExecutor(4) as pool:
        again = pool.map(lambda place: drawn.rounds(*place).inputs([0, 1]).tobytes(), places * 3)
    assert list(again) == fresh * 3


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_frames_are_taken_as_mappings_are(package: str) -> None:
    frames = pytest.importorskip(package)

    def framed(rng: np.random.Generator, count: int, group: str | None) -> Any:
        return frames.DataFrame(by_group(rng, count, group))

    shown = [population(each).rounds(1, 2, 20).inputs([0, 1]) for each in (by_group, framed)]
    assert np.array_equal(*shown)


def test_columns_and_cells_may_be_called_as_tables_call_them() -> None:
    asked = spec(integer("age"), category("sex", "Female", "Male", column="SEX", aliases=["F", "M"]))

    def drawing(rng: np.random.Generator, count: int) -> Any:
        return {"age": rng.integers(0, 10, count), "SEX": rng.choice(["F", "M", "Male"], count)}

    assert set(FunctionPopulation(asked, None, drawing).rounds(0, 0, 99).show(0)[:, 1].tolist()) == {0, 1}


def test_objects_can_draw_and_names_can_be_given() -> None:
    class Drawing:
        def __call__(self, rng: np.random.Generator, count: int) -> Any:
            return everybody(rng, count)

    assert str(population(Drawing())) == "the inputs that the Python function Drawing draws"
    assert FunctionPopulation(ASKED, None, everybody, name="mine").name == "mine"


def with_column(place: int, value: Any) -> Callable[..., Any]:
    def drawing(rng: np.random.Generator, count: int) -> Any:
        people = everybody(rng, count).astype(np.asarray(value).dtype if isinstance(value, str) else np.float64)
        people[3, place] = value
        return people

    return drawing


def mapped(**changes: Any) -> Callable[..., Any]:
    def drawing(rng: np.random.Generator, count: int) -> Any:
        columns = by_group(rng, count, None) | {
            name: np.ma.repeat(value, count) if value is np.ma.masked else np.full(count, value)
            for name, value in changes.items()
        }
        return {name: column for name, column in columns.items() if changes.get(name, 0) is not None}

    return drawing


def another_group(rng: np.random.Generator, count: int, group: str | None) -> Any:
    return by_group(rng, count, None)


def failing(_rng: np.random.Generator, _count: int) -> Any:
    raise RuntimeError("the simulator is off")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda _rng: None, ["<lambda>", "f(rng, count)", "f(rng, count, group)"]),
        (lambda _rng, _count, _people: None, ["cannot be called", "f(rng, count, group)"]),
        (7, ["int", "not a function"]),
        (failing, ["failing", "RuntimeError: the simulator is off"]),
        (lambda _rng, _count: None, ["<lambda>", "NoneType", "(8, 3)"]),
        (lambda rng, count: everybody(rng, count)[1:], ["shape (7, 3)", "8 rows with 3 features"]),
        (lambda rng, count: everybody(rng, count)[:, :2], ["shape (8, 2)"]),
        (with_column(0, np.nan), ['"age" has nan in row 3', "whole number from 3 to 9"]),
        (with_column(0, 4.5), ['"age" has 4.5', "whole number"]),
        (with_column(0, 10), ['"age" has 10', "3 to 9"]),
        (with_column(1, np.inf), ['"income" has inf', "a number from 0 to 5"]),
        (with_column(2, 2), ['"sex" has 2', "index of a category", "0 to 1"]),
        (lambda rng, count: np.ma.masked_equal(everybody(rng, count), 5), ["returned masked values"]),
        (mapped(age=np.ma.masked), ["returned masked values"]),
        (mapped(sex="Divers"), ['"sex" has "Divers"', 'expected one of "Female", "Male"']),
        (mapped(sex="Femal"), ['did you mean "Female"']),
        (mapped(sex=np.nan), ['"sex" has "nan"']),
        (mapped(income="much"), ['"income" must contain only numbers']),
        (mapped(age=None), ['unknown column "age"; expected one of "income", "sex"']),
        (lambda rng, count: by_group(rng, count, None) | {"age": np.zeros(3)}, ['"age" has shape (3,)', "8 rows"]),
        (another_group, ['do not belong to the requested group "sex=Female"', "rows of that group"]),
        (lambda _rng, count: everybody(np.random.default_rng(), count), ["same state", "from rng"]),
    ],
)
def test_mistakes_name_the_function_and_the_remedy(function: Any, words: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        population(function)
    for word in words:
        assert word in str(caught.value)
