"""Promises of the two forms of a population function: rounds are independent, and coupling is free where it is safe."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from fairchain import Coupled, parse_spec, verify
from fairchain.errors import DataError
from fairchain.populations import build_population
from fairchain.populations.derived import RejectionPopulation
from fairchain.populations.functions import ROWS_NOT_INDEPENDENT, WHOLE_CHUNKS, FunctionPopulation
from fairchain.populations.streams import Address
from fairchain.spec import comparison_of
from fairchain.spec.conditions import parse_predicate
from fairchain.statistics.e_values import growth, log_wealth
from tests.messages import says
from tests.questions import category, question, real, spec

ASKED = spec(real("x"), category("sex", "Female", "Male"))
CALLABLE = parse_spec(
    question(real("x"), category("sex", "Female", "Male")) | {"population": {"kind": "callable"}},
)
RUNS, LOOKS, BLOCK, DELTA, THRESHOLD = 1000, 64, 16, 0.1, 0.1
# Wrong answers in RUNS runs that a sound procedure exceeds with probability below 1e-4, whatever the function does.
MOST_WRONG = int(binom.isf(1e-4, RUNS, DELTA))


def rows_of(x: NDArray[Any], group: str | None) -> NDArray[Any]:
    return np.column_stack([x, np.full(len(x), group == "sex=Male")])


def one_more(rng: np.random.Generator, count: int, group: str | None) -> NDArray[Any]:
    """Takes one number more for one of the groups: row t of one group would share its number with row t + 1."""
    if group == "sex=Male":
        rng.random()
    return rows_of(rng.random(count), group)


def backwards(rng: np.random.Generator, count: int, group: str | None) -> NDArray[Any]:
    """Takes as many numbers for both groups, and leaves the generator in the same state."""
    x = rng.random(count)
    size = BLOCK if count % BLOCK == 0 else count
    return rows_of(x.reshape(-1, size)[:, ::-1].ravel() if group == "sex=Male" else x, group)


def everybody(rng: np.random.Generator, count: int) -> NDArray[Any]:
    return np.column_stack([rng.random(count), rng.random(count) < 0.7])


def row_by_row(u: NDArray[Any], group: str | None) -> NDArray[Any]:
    return rows_of(u[:, 0], group)


class SameState(FunctionPopulation):
    """The unsound variant: every group gets a generator in the same state."""

    def values_of(self, address: Address, count: int, subgroup: int) -> Any:
        generator = np.random.Generator(np.random.Philox([address.seed, address.chunk]))
        return self._call(subgroup, count, generator, count)


def wrong_answers(population: Any) -> int:
    """Runs with a verdict although the gap is exactly the threshold, so that both verdicts are wrong.

    P(yes) is 0.55 and 0.45. A run looks every 16 rounds; wealth against "at least" and "at most" needs 2/delta, as in a
    verdict. All runs are drawn at once, and each has rounds of its own.
    """
    shown = population.rounds(0, 0, RUNS * LOOKS * BLOCK).inputs([0, 1])
    female, male = shown[:, 0].reshape(2, RUNS, LOOKS, BLOCK)
    payoff = (female < 0.55).astype(np.int8) - (male > 0.55)
    payoffs = np.array([1.0, 0.0, -1.0])
    cells = np.stack([(payoff == each).sum(axis=2) for each in payoffs], axis=2).cumsum(axis=1)
    below = log_wealth(cells, growth(THRESHOLD - payoffs, 1 - THRESHOLD))
    above = log_wealth(cells, growth(payoffs - THRESHOLD, 1 + THRESHOLD))
    return int((np.maximum(below, above).max(axis=1) >= np.log(2 / DELTA)).sum())


@pytest.mark.parametrize("function", [one_more, backwards])
def test_wrong_verdicts_at_the_threshold_stay_within_delta_however_a_function_uses_its_generator(
    function: Callable[..., Any],
) -> None:
    """False alarm below 1e-4; the same test finds the variant in which groups share the state of their generator."""
    assert wrong_answers(FunctionPopulation(ASKED, None, function, np.float64)) <= MOST_WRONG
    assert wrong_answers(SameState(ASKED, None, function, np.float64)) > MOST_WRONG


def test_wrong_verdicts_stay_within_delta_where_group_members_are_selected() -> None:
    source = FunctionPopulation(ASKED, None, everybody, np.float64)
    assert wrong_answers(RejectionPopulation(source, None, source.subgroups)) <= MOST_WRONG


def test_wrong_verdicts_stay_within_delta_for_coupled_functions() -> None:
    assert wrong_answers(FunctionPopulation(ASKED, None, Coupled(row_by_row, uniforms=1), np.float64)) <= MOST_WRONG


def test_the_generators_of_two_groups_never_meet() -> None:
    """Not by jumping ahead, which leads to the next 2**128 numbers of a stream, and not by spawning."""

    def jumping(rng: np.random.Generator, count: int, group: str | None) -> NDArray[Any]:
        ahead = np.random.Generator(rng.bit_generator.jumped())
        child = rng.spawn(1)[0]
        parts = [source.random(count // 3) for source in (rng, ahead, child)]
        return rows_of(np.concatenate([*parts, np.zeros(count - 3 * (count // 3))]), group)

    drawn = FunctionPopulation(ASKED, None, jumping, np.float64)
    places = [(1, chunk, 300, copy) for chunk in (0, 1, 2**32, 2**32 + 1) for copy in (0, 1, 2**40, 2**60)]
    shown = np.concatenate([drawn.rounds(*place).inputs([0, 1])[:, 0] for place in places])
    assert len(np.unique(shown)) == len(shown)


# ------------------------------------------------------------------------------------------------------- coupled form
def test_all_groups_of_a_round_get_the_same_uniforms() -> None:
    drawn = FunctionPopulation(ASKED, None, Coupled(row_by_row, uniforms=1), np.float64)
    female, male = drawn.rounds(3, 4, 500).inputs([0, 1]).reshape(2, 500, 2)
    assert np.array_equal(female[:, 0], male[:, 0])
    assert (female[:, 1] == 0).all()
    assert (male[:, 1] == 1).all()
    others = [drawn.rounds(*place).show(0).tobytes() for place in ((3, 4, 500, 1), (3, 5, 500), (4, 4, 500))]
    assert len({female.tobytes(), *others}) == 4


def test_uniforms_are_in_the_unit_interval_and_cannot_be_overwritten() -> None:
    seen = []

    def looking(u: NDArray[Any], group: str | None) -> NDArray[Any]:
        seen.append(u)
        return row_by_row(u, group)

    FunctionPopulation(ASKED, None, Coupled(looking, uniforms=3)).rounds(1, 1, 4000).inputs([0, 1])
    assert {u.shape[1] for u in seen} == {3}
    assert not any(u.flags.writeable for u in seen)
    whole = next(u for u in seen if len(u) == 4000)
    assert 0 <= whole.min() < 0.001
    assert 0.999 < whole.max() < 1
    assert abs(np.corrcoef(whole.T) - np.eye(3)).max() < 0.1


def test_coupled_functions_may_return_mappings_and_sums_of_products() -> None:
    weights = np.random.default_rng(0).random((40, 1))

    def mapped(u: NDArray[Any], group: str | None) -> dict[str, Any]:
        # The order in which BLAS adds depends on the number of rows: rounding is no dependence.
        return {"x": (u @ weights / 40)[:, 0], "sex": np.full(len(u), group.split("=")[1] if group else "Male")}

    drawn = FunctionPopulation(ASKED, None, Coupled(mapped, uniforms=40), np.float64)
    for chunk in range(20):
        drawn.rounds(0, chunk, 1000).inputs([0, 1])


def test_a_coupled_function_of_everybody_leaves_the_groups_to_selection() -> None:
    def crowd(u: NDArray[Any]) -> NDArray[Any]:
        return np.column_stack([u[:, 0], u[:, 1] < 0.3])

    drawn = build_population(CALLABLE, comparison_of(ASKED).subgroups, np.float64, function=Coupled(crowd, uniforms=2))
    female, male = drawn.rounds(1, 1, 2000).inputs([0, 1]).reshape(2, 2000, 2)
    assert (female[:, 1] == 0).all()
    assert (male[:, 1] == 1).all()


def test_a_condition_keeps_the_coupling() -> None:
    predicate = parse_predicate("x > 0.75", ASKED.features)
    function, subgroups = Coupled(row_by_row, uniforms=1), comparison_of(ASKED).subgroups
    drawn = build_population(CALLABLE, subgroups, np.float64, function=function, predicate=predicate)
    female, male = drawn.rounds(1, 1, 1000).inputs([0, 1]).reshape(2, 1000, 2)
    assert female[:, 0].min() > 0.75
    assert np.array_equal(female[:, 0], male[:, 0])


def shifted(u: NDArray[Any], group: str | None) -> NDArray[Any]:
    return rows_of(np.roll(u[:, 0], group == "sex=Male"), group)


def reversed_rows(u: NDArray[Any], group: str | None) -> NDArray[Any]:
    return rows_of(u[::-1, 0] if group == "sex=Male" else u[:, 0], group)


def centred(u: NDArray[Any], group: str | None) -> NDArray[Any]:
    return rows_of(np.clip(u[:, 0] - u[:, 0].mean() + 0.5, 0, 1), group)


def ranked(u: NDArray[Any], group: str | None) -> NDArray[Any]:
    return rows_of(u[:, 0].argsort().argsort() / len(u), group)


def own_numbers(u: NDArray[Any], group: str | None) -> NDArray[Any]:
    return rows_of(np.random.default_rng(len(u)).random(len(u)), group)


def without_repetition(u: NDArray[Any], group: str | None) -> NDArray[Any]:
    x = u[:, 0].copy()
    x[1:][np.diff(x) == 0] = 0.5
    return rows_of(x, group)


@pytest.mark.parametrize("function", [shifted, reversed_rows, centred, ranked, own_numbers, without_repetition])
def test_a_coupled_function_whose_rows_depend_on_each_other_is_refused_before_the_run(
    function: Callable[..., Any],
) -> None:
    with pytest.raises(DataError) as caught:
        FunctionPopulation(ASKED, None, Coupled(function, uniforms=1))
    for word in (function.__name__, "depends on other rows of u", "f(rng, count, group)"):
        assert word in str(caught.value)


def test_dependence_that_shows_in_large_calls_only_is_found_during_the_run() -> None:
    def late(u: NDArray[Any], group: str | None) -> NDArray[Any]:
        return rows_of(np.roll(u[:, 0], group == "sex=Male" and len(u) > 500), group)

    drawn = FunctionPopulation(ASKED, None, Coupled(late, uniforms=1))
    drawn.rounds(0, 0, 400).inputs([0, 1])
    with pytest.raises(DataError, match=says(ROWS_NOT_INDEPENDENT)):
        drawn.rounds(0, 0, 1024).inputs([0, 1])


def one_mixed(u: NDArray[Any], group: str | None) -> NDArray[Any]:
    """Of a large call, a single row follows from another row of `u`."""
    x = u[:, 0].copy()
    x[501:502] = x[500:501]
    return rows_of(x, group)


def test_a_single_mixed_row_of_the_first_chunks_is_found_always() -> None:
    for chunk in range(WHOLE_CHUNKS):
        with pytest.raises(DataError, match=says(ROWS_NOT_INDEPENDENT)):
            FunctionPopulation(ASKED, None, Coupled(one_mixed, uniforms=1)).rounds(0, chunk, 1024).show(0)


def test_a_single_mixed_row_of_a_later_chunk_is_found_as_often_as_stated() -> None:
    """In 400 chunks 400 (1 - exp(-1/8)) = 47 times on average; 20 or fewer, or 80 or more, with probability 1e-5."""
    drawn, found = FunctionPopulation(ASKED, None, Coupled(one_mixed, uniforms=1)), 0
    for chunk in range(WHOLE_CHUNKS, WHOLE_CHUNKS + 400):
        try:
            drawn.rounds(0, chunk, 1024).show(0)
        except DataError:
            found += 1
    assert 20 < found < 80


def test_a_coupled_function_that_changes_during_the_run_is_refused() -> None:
    """Every call treats its rows alike, so that checks within a chunk see nothing; later calls draw other inputs."""
    calls = 0

    def drifting(u: NDArray[Any], group: str | None) -> NDArray[Any]:
        nonlocal calls
        calls += 1
        return rows_of(u[:, 0] if calls <= 40 else u[:, 0] ** 2, group)

    drawn = FunctionPopulation(ASKED, None, Coupled(drifting, uniforms=1))
    with pytest.raises(DataError, match=says(ROWS_NOT_INDEPENDENT)):
        np.stack([drawn.rounds(0, chunk, 16).inputs([0, 1]) for chunk in range(40)])


def test_a_coupled_function_may_remember_what_it_computed() -> None:
    known: dict[tuple[float, str | None], float] = {}

    def remembering(u: NDArray[Any], group: str | None) -> NDArray[Any]:
        return rows_of(np.array([known.setdefault((x, group), x**2) for x in u[:, 0].tolist()]), group)

    drawn = FunctionPopulation(ASKED, None, Coupled(remembering, uniforms=1))
    plain = FunctionPopulation(ASKED, None, Coupled(lambda u, group: rows_of(u[:, 0] ** 2, group), uniforms=1))
    for chunk in range(3):
        both = [each.rounds(0, chunk, 64).inputs([0, 1]) for each in (drawn, plain)]
        assert np.array_equal(*both)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: Coupled(row_by_row, uniforms=0), ["row_by_row", "uniforms is 0", "from 1 to 4,096"]),
        (lambda: Coupled(row_by_row, uniforms=2.5), ["uniforms is 2.5"]),
        (lambda: Coupled(row_by_row, uniforms=True), ["uniforms is True"]),
        (lambda: population(Coupled(one_more, uniforms=1)), ["one_more", "array of uniforms", "f(u, group)"]),
        (lambda: population(row_by_row), ["row_by_row", "a generator and a number of rows", "fairchain.Coupled"]),
        (lambda: population(Coupled(7, uniforms=1)), ["int", "not a function", "f(u, group)"]),  # type: ignore[arg-type]
        (lambda: population(Coupled(lambda u: u, uniforms=1)), ["shape (64, 1)", "64 rows with 2 features"]),
        (lambda: population(Coupled(leaving, uniforms=1)), ["leaving", "SystemExit"]),
    ],
)
def test_a_declaration_that_does_not_fit_the_function_is_refused(made: Callable[[], Any], words: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        made()
    for word in words:
        assert word in str(caught.value)


def population(function: Any) -> FunctionPopulation:
    return FunctionPopulation(ASKED, None, function)


def leaving(u: NDArray[Any], group: str | None) -> NDArray[Any]:
    raise SystemExit(0)


# ----------------------------------------------------------------------------------------------------------- verdicts
def decide(v: NDArray[Any]) -> NDArray[Any]:
    """Groups differ by 0.02, next to a threshold of 0.1."""
    return (v[:, 0] < 0.5 + 0.02 * v[:, 1]).astype(int)


def asked(**more: Any) -> Any:
    data = question(real("x"), category("sex", "Female", "Male"), decision="label", codes=[0, 1])
    del data["model"]["path"]
    data["guarantee"] = {"engine": "sampling", "delta": 1e-6, "budget": {"rounds": 100_000, "seconds": 60}}
    data["property"] |= more.pop("property", {})
    return parse_spec(data | more)


def test_coupled_functions_need_no_more_rounds_than_uniform_inputs() -> None:
    """The same distribution three times; independent groups pay for the variance that coupling takes away."""
    callable_spec = asked(population={"kind": "callable"})

    def rounds(spec: Any, **population: Any) -> int:
        verdicts = [verify(decide, spec, workers=1, seed=seed, **population) for seed in range(12)]
        assert {verdict.decision.name for verdict in verdicts} == {"FAIR"}
        return sum(verdict.rounds for verdict in verdicts)

    uniform = rounds(asked())
    coupled = rounds(callable_spec, population=Coupled(row_by_row, uniforms=1))
    assert 0.7 * uniform <= coupled <= 1.4 * uniform
    assert rounds(callable_spec, population=one_more) >= 5 * coupled


def test_the_assumption_about_a_function_that_cannot_be_checked_is_in_the_notes() -> None:
    callable_spec = asked(population={"kind": "callable"})
    assert any("assumed to be independent" in note for note in verify(decide, callable_spec, population=one_more).notes)
    changes = asked(population={"kind": "callable"}, property={"kind": "individual"})
    assert any("assumed to be independent" in note for note in verify(decide, changes, population=one_more).notes)
    coupled = verify(decide, callable_spec, population=Coupled(row_by_row, uniforms=1))
    assert not any("assumed" in note for note in coupled.notes)


@pytest.mark.parametrize("function", [one_more, Coupled(row_by_row, uniforms=1)])
def test_individual_shows_one_input_as_every_group(function: Any) -> None:
    """The decision changes for x between 0.5 and 0.52 and for no other, in both forms."""
    changes = asked(population={"kind": "callable"}, property={"kind": "individual"})
    verdict = verify(decide, changes, population=function, workers=1)
    assert verdict.decision.name == "FAIR"
    assert verdict.gap.low <= 0.02 <= verdict.gap.high
    assert 0 < verdict.gap.estimate < 0.1


@pytest.mark.parametrize("function", [one_more, Coupled(row_by_row, uniforms=1)])
def test_the_mean_of_groups_is_drawn_by_both_forms(function: Any) -> None:
    mean = asked(population={"kind": "callable"}, property={"compare": "average"})
    comparison = comparison_of(mean)
    drawn = build_population(mean, comparison.subgroups, np.float64, function=function)
    shown = drawn.rounds(1, 1, 4000).show(0)
    # Half of the rounds show each group: off by 0.04 with probability below 1e-6.
    assert abs(shown[:, 1].mean() - 0.5) < 0.04


def test_a_coupled_declaration_is_a_value() -> None:
    coupled = Coupled(row_by_row, uniforms=1)
    assert dataclasses.replace(coupled, uniforms=2).uniforms == 2
    assert np.array_equal(coupled(np.array([[0.25]]), group="sex=Male"), [[0.25, 1.0]])
