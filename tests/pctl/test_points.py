"""Values: small chains by hand, runs one by one, laws between operators, and large chains in seconds."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, lil_array

from fairchain.chain import Chain
from fairchain.errors import QueryError
from fairchain.pctl import check_chain
from fairchain.pctl.equations import (
    LEFT_TOO_RARELY,
    ROUNDING_ADDS_UP,
    TOO_LARGE_TO_FACTORISE,
    _factorised,
    solve,
)
from fairchain.pctl.graph import COMPONENT_ORDER, components_of
from tests.messages import says
from tests.pctl.builders import chain_of, clustered, random_chain

INFINITE = float("inf")


def die() -> Chain:
    """Knuth and Yao's die from a fair coin."""
    half = {1: (3, 4), 2: (5, 6), 0: (1, 2), 3: (1, 7), 4: (8, 9), 5: (10, 11), 6: (12, 2)}
    rows = [dict.fromkeys(half[state], 0.5) for state in range(7)] + [{state: 1.0} for state in range(7, 13)]
    faces = {f"face {face}": [6 + face] for face in range(1, 7)}
    return chain_of(rows, faces | {"thrown": list(range(7, 13))})


def ruin(up: float, size: int) -> Chain:
    """A gambler who has 2 of `size` pieces and wins one with probability `up` until all or none is theirs."""
    rows = [{0: 1.0}] + [{state - 1: 1 - up, state + 1: up} for state in range(1, size)] + [{size: 1.0}]
    return chain_of(rows, {"broke": [0], "rich": [size], "over": [0, size]}, initial=2)


def value(chain: Chain, formula: str) -> float | bool:
    return check_chain(chain, formula).value


def test_a_die_is_fair() -> None:
    for face in range(1, 7):
        assert value(die(), f'P=? [ F "face {face}" ]') == pytest.approx(1 / 6, abs=1e-15)
    assert value(die(), 'R=? [ F "thrown" ]') == pytest.approx(11 / 3, abs=1e-14)
    assert value(die(), 'P=? [ F<=3 "thrown" ]') == pytest.approx(3 / 4, abs=1e-15)
    assert value(die(), 'P=? [ F=4 "face 1" ]') == pytest.approx(1 / 8, abs=1e-15)
    assert value(die(), 'S=? [ "face 6" ]') == pytest.approx(1 / 6, abs=1e-15)
    assert value(die(), 'P>=1 [ F "thrown" ]') is True
    assert value(die(), 'P>=1 [ F<=9 "thrown" ]') is False


def test_ruin_as_in_the_textbook() -> None:
    ratio = Fraction(2, 3) / Fraction(1, 3)
    rich = (1 - ratio**2) / (1 - ratio**5)
    assert value(ruin(1 / 3, 5), 'P=? [ F "rich" ]') == pytest.approx(float(rich), abs=1e-15)
    assert value(ruin(1 / 3, 5), 'P=? [ !"rich" U "broke" ]') == pytest.approx(float(1 - rich), abs=1e-15)
    assert value(ruin(0.5, 5), 'R=? [ F "over" ]') == pytest.approx(6, abs=1e-13)
    duration = (2 - 5 * rich) / Fraction(1, 3)
    assert value(ruin(1 / 3, 5), 'R=? [ F "over" ]') == pytest.approx(float(duration), abs=1e-13)
    assert value(ruin(0.5, 5), 'R=? [ F "rich" ]') == INFINITE
    # 2 -> 3 -> 4 -> 5, or with one step back on the way: 1/8, and three ways of length 5 that stay clear of 0 and 5.
    assert value(ruin(0.5, 5), 'P=? [ F<=4 "rich" ]') == pytest.approx(1 / 8, abs=1e-16)
    assert value(ruin(0.5, 5), 'P=? [ F<=5 "rich" ]') == pytest.approx(1 / 8 + 3 / 32, abs=1e-16)


def test_the_long_run_of_two_states_and_of_two_classes() -> None:
    weather = chain_of([{0: 0.9, 1: 0.1}, {0: 0.5, 1: 0.5}], {"dry": [0]})
    assert value(weather, 'S=? [ "dry" ]') == pytest.approx(5 / 6, abs=1e-15)
    # A period of two, and a class of three states behind another way out.
    rows = [{1: 0.25, 3: 0.75}, {2: 1.0}, {1: 1.0}, {4: 1.0}, {5: 1.0}, {3: 0.5, 5: 0.5}]
    chain = chain_of(rows, {"x": [1, 4], "all": [1, 2, 3, 4, 5], "y": [5]})
    assert value(chain, 'S=? [ "x" ]') == pytest.approx(1 / 4 * 1 / 2 + 3 / 4 * 1 / 4, abs=1e-15)
    assert value(chain, 'S=? [ "y" ]') == pytest.approx(3 / 4 * 1 / 2, abs=1e-15)
    assert value(chain, 'S=? [ "all" ]') == 1
    assert value(chain, 'S>=1 [ "all" ]') is True


def test_the_long_run_of_a_walk_that_drifts_away_from_its_first_state() -> None:
    """Up with 0.9, down with 0.1: each state is visited nine times as often as the one below."""
    size = 60
    rows = [{max(state - 1, 0): 0.1, min(state + 1, size - 1): 0.9} for state in range(size)]
    chain = chain_of(rows, {"top": [size - 1], "below": [size - 2], "bottom": [0]})
    total = sum(Fraction(1, 9) ** step for step in range(size))
    assert value(chain, 'S=? [ "top" ]') == pytest.approx(float(1 / total), rel=1e-12)
    assert value(chain, 'S=? [ "below" ]') == pytest.approx(float(1 / 9 / total), rel=1e-12)
    assert value(chain, 'S=? [ "bottom" ]') == pytest.approx(float(Fraction(1, 9) ** (size - 1) / total), rel=1e-12)


def test_slow_cycles_keep_most_digits() -> None:
    """Left once in 10^9 steps, to both sides alike; a loop of any weight loses nothing."""
    rare = 1e-9
    loop = chain_of([{0: 1 - 3 * rare, 1: rare, 2: 2 * rare}, {1: 1.0}, {2: 1.0}], {"a": [1]})
    assert value(loop, 'P=? [ F "a" ]') == pytest.approx(1 / 3, abs=1e-15)
    cycle = chain_of([{1: 1 - rare, 2: rare}, {0: 1 - rare, 3: rare}, {2: 1.0}, {3: 1.0}], {"a": [2]})
    assert value(cycle, 'P=? [ F "a" ]') == pytest.approx(1 / (2 - rare), abs=1e-6)


@pytest.mark.parametrize("size", [2, 40, 100])
@pytest.mark.parametrize("rare", [1e-17, 1e-200])
def test_a_small_part_that_is_hardly_ever_left_keeps_its_digits(size: int, rare: float) -> None:
    """A ring with two exits, one three times as likely as the other; elimination subtracts nothing."""
    rows = [{(state + 1) % size: 1.0} for state in range(size)] + [{size: 1.0}, {size + 1: 1.0}]
    rows[0] |= {size: rare, size + 1: 3 * rare}
    chain = chain_of(rows, {"a": [size], "end": [size, size + 1]})
    assert value(chain, 'P=? [ F "a" ]') == pytest.approx(1 / 4, rel=1e-12)
    assert value(chain, 'R=? [ F "end" ]') == pytest.approx(size / (4 * rare), rel=1e-12)


def test_a_small_part_whose_numbers_underflow_is_refused() -> None:
    rows = [{1: 1.0}, {0: 1.0, 2: 1e-300, 3: 1e-300}, {2: 1.0}, {3: 1.0}]
    with pytest.raises(QueryError, match=says(LEFT_TOO_RARELY, size="2")):
        value(chain_of(rows, {"a": [2]}), 'P=? [ F "a" ]')


def test_certainty_does_not_depend_on_rounding() -> None:
    tenths = chain_of([dict.fromkeys(range(1, 11), 0.1)] + [{t: 1.0} for t in range(1, 11)], {"a": range(1, 11)})
    for formula in ('P>=1 [ X "a" ]', 'P>=1 [ F<=1 "a" ]', 'P>=1 [ F "a" ]', 'P<=0 [ G !"a" ]', 'P<=0 [ G<=1 !"a" ]'):
        assert value(tenths, formula) is True
    tiny = chain_of([{0: 0.5, 1: 1e-300, 2: 0.5}, {1: 1.0}, {2: 1.0}], {"a": [1]})
    assert value(tiny, 'P>0 [ F "a" ]') is True
    thirds = chain_of([{1: 0.1, 2: 0.2, 3: 0.7}, {1: 1.0}, {2: 1.0}, {3: 1.0}], {"a": [1, 2]})
    # 0.1 + 0.2 is not 0.3 in floating point, and counts as 0.3.
    assert [value(thirds, f'P{sign}0.3 [ X "a" ]') for sign in (">=", "<=", ">", "<")] == [True, True, False, False]


PATHS = {
    'F[1,3] "a"': lambda a, _: any(a[1:4]),
    'F=2 "a"': lambda a, _: a[2],
    'G[1,3] "a"': lambda a, _: all(a[1:4]),
    'G<=2 "b"': lambda _, b: all(b[:3]),
    '"b" U<=4 "a"': lambda a, b: any(a[i] and all(b[:i]) for i in range(5)),
    '"b" U[2,4] "a"': lambda a, b: any(a[i] and all(b[:i]) for i in range(2, 5)),
    '"b" U=3 "a"': lambda a, b: a[3] and all(b[:3]),
    '"b" W<=4 "a"': lambda a, b: all(b) or any(a[i] and all(b[:i]) for i in range(5)),
    'X "a"': lambda a, _: a[1],
}


@pytest.mark.parametrize("path", PATHS)
def test_bounded_operators_agree_with_all_runs_one_by_one(path: str) -> None:
    rng = np.random.default_rng(1)
    for _ in range(8):
        chain = random_chain(rng, int(rng.integers(2, 5)))
        matrix = chain.matrix.toarray()
        a, b = (np.isin(np.arange(len(chain)), list(chain.labels[label])) for label in "ab")
        total = 0.0
        for run in itertools.product(range(len(chain)), repeat=5):
            if run[0] == chain.initial and PATHS[path](a[list(run)], b[list(run)]):
                total += np.prod([matrix[step] for step in itertools.pairwise(run)])
        assert value(chain, f"P=? [ {path} ]") == pytest.approx(total, abs=1e-14)


seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 40)


@settings(max_examples=60)
@given(seeds, sizes)
def test_laws_between_operators(seed: int, size: int) -> None:
    chain = random_chain(np.random.default_rng(seed), size)

    def values(path: str) -> np.ndarray:
        return check_chain(chain, f"P=? [ {path} ]").values

    def equal(left: np.ndarray, right: np.ndarray, width: float = 1e-12) -> None:
        np.testing.assert_allclose(left, right, rtol=0, atol=width)

    equal(values('F "a"'), 1 - values('G !"a"'))
    equal(values('F "a"'), values('true U "a"'))
    equal(values('F<=4 "a"'), 1 - values('G<=4 !"a"'))
    equal(values('"c" W "a"'), np.minimum(values('"c" U "a"') + values('G ("c" & !"a")'), 1))
    equal(
        values('F "a"'), np.where(np.isin(np.arange(size), list(chain.labels["a"])), 1, chain.matrix @ values('F "a"'))
    )
    equal(values('F>=3 "a"'), np.linalg.matrix_power(chain.matrix.toarray(), 3) @ values('F "a"'))
    assert (values('"c" U "a"') <= values('F "a"') + 1e-12).all()
    bounded = [values(f'F<={steps} "a"') for steps in (0, 1, 5, 50)]
    assert all((early <= late + 1e-12).all() for early, late in itertools.pairwise(bounded))
    assert (bounded[-1] <= values('F "a"') + 1e-12).all()
    both = check_chain(chain, 'S=? [ "b" ]').values + check_chain(chain, 'S=? [ !"b" ]').values
    equal(both, np.ones(size))


def test_bounded_converges_to_unbounded() -> None:
    chain = random_chain(np.random.default_rng(5), 30)
    unbounded = check_chain(chain, 'P=? [ F "a" ]').values
    np.testing.assert_allclose(check_chain(chain, 'P=? [ F<=100000 "a" ]').values, unbounded, atol=1e-9)


@settings(max_examples=40)
@given(seeds, st.integers(2, 60))
def test_expected_steps_solve_their_equations(seed: int, size: int) -> None:
    chain = random_chain(np.random.default_rng(seed), size)
    steps = check_chain(chain, 'R=? [ F "b" ]').values
    sure = check_chain(chain, 'P>=1 [ F "b" ]').values
    np.testing.assert_array_equal(np.isfinite(steps), sure)
    target = np.isin(np.arange(size), list(chain.labels["b"]))
    inner = sure & ~target
    finite = np.where(sure, steps, 0)
    np.testing.assert_allclose(steps[inner], 1 + (chain.matrix @ finite)[inner], rtol=1e-9)
    assert (steps[target] == 0).all()


def test_nested_formulas_use_the_inner_answers() -> None:
    chain = ruin(0.5, 5)
    # From 3 and 4 pieces on the chance to get rich is at least 0.6.
    assert value(chain, 'P=? [ F P>=0.6 [ F "rich" ] ]') == pytest.approx(2 / 3, abs=1e-14)
    assert value(chain, '!"over" & P<0.5 [ F "rich" ] & (R>=6 [ F "over" ] | false)') is True
    assert value(chain, '"rich" => "broke"') is True
    assert value(chain, '"rich" <=> !"broke"') is False
    deep = "P>0 [ " * 60 + '"over"' + ' W "broke" ]' * 60
    assert isinstance(value(chain, deep), bool)


@pytest.mark.parametrize("kind", ["layers", "walk", "pairs"])
def test_a_hundred_thousand_states_are_answered(kind: str) -> None:
    """The known answer of each: everything ends at one of two ends."""
    chain = large(kind, 100_000)
    answer = check_chain(chain, 'P=? [ F ("left" | "right") ]')
    left, right = (check_chain(chain, f'P=? [ F "{end}" ]').values for end in ("left", "right"))
    assert answer.value == 1
    np.testing.assert_allclose(left + right, 1, atol=1e-8)
    assert 0 < left[chain.initial] < 1


def test_a_part_whose_factors_would_fill_the_memory_is_left_to_storm() -> None:
    """100,000 states, each of which leads to four others anywhere."""
    chain = large("graph", 100_000)
    with pytest.raises(QueryError, match=says(TOO_LARGE_TO_FACTORISE)):
        value(chain, 'P=? [ F "left" ]')
    assert 0 < value(chain, 'P=? [ F<=50 "left" ]') < 1


def test_clusters_one_behind_the_other_are_solved_one_by_one() -> None:
    """Thirty of 301 states, each left for the next only: thirty systems of equations, not one."""
    inner, leaving, ends = inner_of(clustered(30, 301, ahead=True))
    with patch("fairchain.pctl.equations._factorised", wraps=_factorised) as parts:
        np.testing.assert_allclose(solve(inner, leaving, ends).sum(axis=1), 1, atol=1e-9)
    assert [part.args[0].shape[0] for part in parts.call_args_list] == [301] * 30


LIMITS = {"batches": (32, 300), "one by one": (3, 300), "factors": (3, 3)}


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(2, 6), st.integers(2, 12), st.sampled_from(list(LIMITS)))
def test_several_components_agree_with_a_dense_solution(seed: int, parts: int, size: int, how: str) -> None:
    """Rings with chords, edges only to later ones, and single states behind; numbered at random."""
    rng = np.random.default_rng(seed)
    count = parts * size
    total = count + parts
    matrix = np.zeros((total, total))
    states = np.arange(count)
    matrix[states, states // size * size + (states + 1) % size] = 0.1 + rng.random(count)
    matrix[states, states // size * size + rng.integers(0, size, count)] += rng.random(count)
    part = np.append(states // size, np.arange(parts, 2 * parts))
    matrix += (part[:, None] < part) * (rng.random((total, total)) < 0.1) * rng.random((total, total))
    leaving = rng.random(total) + 0.01
    rows = matrix.sum(axis=1) + leaving
    shuffled = rng.permutation(total)
    matrix, leaving = (matrix / rows[:, None])[shuffled][:, shuffled], (leaving / rows)[shuffled]
    right = rng.random((total, 2))
    dense = np.eye(total) - matrix
    with patch.multiple(
        "fairchain.pctl.equations", MOST_DENSE_STATES=0, SMALL=LIMITS[how][0], ELIMINATED=LIMITS[how][1]
    ):
        found, visits = (solve(csr_array(matrix), leaving, right, visits=visits) for visits in (False, True))
    np.testing.assert_allclose(found, np.linalg.solve(dense, right), rtol=1e-9)
    np.testing.assert_allclose(visits, np.linalg.solve(dense.T, right), rtol=1e-9)


@pytest.mark.parametrize(("parts", "right"), [(2, True), (4, False)])
def test_errors_of_parts_one_behind_the_other_add_up(parts: int, right: bool) -> None:
    """Each part may be off by 0.3 in the sixth digit; the largest value is between 0.6 and 1."""
    chain = clustered(parts, 60, ahead=True)
    with (
        patch("fairchain.pctl.equations.ELIMINATED", 50),
        patch("fairchain.pctl.equations._largest_error", return_value=np.array([3e-7])),
    ):
        if right:
            assert 0 < value(chain, 'P=? [ F "left" ]') < 1
        else:
            with pytest.raises(QueryError, match=says(ROUNDING_ADDS_UP, parts="4")):
                value(chain, 'P=? [ F "left" ]')


def slow_parts(parts: int, size: int, leave: float) -> tuple[csr_array, np.ndarray, np.ndarray, np.ndarray]:
    """Parts one behind the other, left by their last state with `leave`; what leaves, the goal and exact values."""
    rng = np.random.default_rng(1)
    total = parts * size
    matrix, leaving, goal, exact = lil_array((total, total)), np.zeros(total), np.zeros(total), np.ones(total + 1)
    for start in range(total - size, -1, -size):
        inner = rng.random((size, size))
        inner /= inner.sum(axis=1, keepdims=True)
        inner[-1] *= 1 - leave
        matrix[start : start + size, start : start + size] = inner
        last = start + size - 1
        ahead, lost = 0.999 * leave, 0.001 * leave
        if last + 1 < total:
            matrix[last, last + 1], leaving[last] = ahead, lost
        else:
            goal[last], leaving[last] = ahead, lost + ahead
        # Only the last state leaves, so all states of a part have one value.
        ways = Fraction(leaving[last]) + (Fraction(ahead) if last + 1 < total else 0)
        exact[start : start + size] = float(Fraction(exact[last + 1]) * Fraction(ahead) / ways)
    return matrix.tocsr(), leaving, goal, exact[:-1]


@pytest.mark.parametrize(("parts", "size", "leave"), [(100, 2, 6e-10), (100, 2, 1e-30), (40, 5, 1e-7), (5, 60, 1e-12)])
def test_small_parts_that_are_left_slowly_are_right_to_the_last_digits(parts: int, size: int, leave: float) -> None:
    matrix, leaving, goal, exact = slow_parts(parts, size, leave)
    np.testing.assert_allclose(solve(matrix, leaving, goal), exact, rtol=1e-11)


def test_large_parts_that_are_left_slowly_are_right_or_refused() -> None:
    with patch.multiple("fairchain.pctl.equations", SMALL=10, ELIMINATED=10):
        matrix, leaving, goal, exact = slow_parts(3, 60, 1e-7)
        np.testing.assert_allclose(solve(matrix, leaving, goal), exact, rtol=1e-7)
        matrix, leaving, goal, _ = slow_parts(3, 60, 1e-12)
        with pytest.raises(QueryError, match=says(LEFT_TOO_RARELY, size="60")):
            solve(matrix, leaving, goal)


def test_elimination_is_as_exact_as_its_bound_says() -> None:
    """Against fractions: a ring of 20 states with chords, left with probabilities from 1e-16 to 1e-2."""
    rng = np.random.default_rng(3)
    size = 20
    matrix = rng.random((size, size)) * (rng.random((size, size)) < 0.2)
    matrix[np.arange(size), (np.arange(size) + 1) % size] = 1
    leaving = 10.0 ** -rng.integers(2, 17, size)
    goal = leaving * rng.random(size)
    np.fill_diagonal(matrix, 0)
    exact = by_fractions(matrix, leaving, goal)
    np.testing.assert_allclose(solve(csr_array(matrix), leaving, goal), exact, rtol=24**3 / 3 * 2.0**-52)


def by_fractions(matrix: np.ndarray, leaving: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The solution in exact rational arithmetic, rounded once."""
    size = len(leaving)
    rows = [[Fraction(-entry) for entry in row] + [Fraction(right[state])] for state, row in enumerate(matrix)]
    for state, row in enumerate(rows):
        row[state] = Fraction(leaving[state]) - sum(row[:size])
    for pivot in range(size):
        rows[pivot] = [entry / rows[pivot][pivot] for entry in rows[pivot]]
        for other in set(range(size)) - {pivot}:
            factor = rows[other][pivot]
            rows[other] = [entry - factor * top for entry, top in zip(rows[other], rows[pivot], strict=True)]
    return np.array([float(row[size]) for row in rows])


def test_values_that_do_not_solve_their_equations_are_refused() -> None:
    """The residual is looked at, whoever computed: here the factors are those of another matrix."""
    chain = large("walk", 600)
    with (
        patch("fairchain.pctl.equations._factors", return_value=np.ones_like),
        pytest.raises(QueryError, match=says(LEFT_TOO_RARELY)),
    ):
        value(chain, 'P=? [ F "left" ]')


def test_a_part_that_is_hardly_ever_left_is_refused_not_answered_wrongly() -> None:
    """A walk with random weights digs itself in: its equations cannot be solved in floating numbers."""
    chain = large("walk", 100_000)
    weights = np.random.default_rng(0).random(len(chain.sources)) + 0.1
    weights /= np.bincount(chain.sources, weights, minlength=len(chain))[chain.sources]
    with pytest.raises(QueryError, match=says(LEFT_TOO_RARELY)):
        check_chain(replace(chain, probabilities=weights), 'P=? [ F "left" ]')


def inner_of(chain: Chain) -> tuple[csr_array, np.ndarray, np.ndarray]:
    """The transitions before the two ends, what leaves, and the probability of either end in one step."""
    inner = len(chain) - 2
    ends = chain.matrix[:inner, inner:].toarray()
    return chain.matrix[:inner, :inner], ends.sum(axis=1), ends


def large(kind: str, size: int) -> Chain:
    rng = np.random.default_rng(0)
    ends = 10
    sources = np.repeat(np.arange(size - ends), 4)
    if kind == "layers":
        targets = np.minimum((sources // 100 + 1) * 100 + rng.integers(0, 100, len(sources)), size - 1)
        targets = np.where(targets >= size - 100, size - ends + targets % ends, targets)
    elif kind == "graph":
        targets = rng.integers(0, size, len(sources))
    elif kind == "walk":
        targets = np.clip(sources + np.tile([-2, -1, 1, 2], size - ends), -1, size - ends)
        targets = np.where(targets < 0, size - 1, targets)
    else:
        # Pairs of states that go back and forth, one pair behind the other.
        targets = np.tile([0, 1, 2, 3], size - ends) + sources // 2 * 2
        targets = np.where(targets >= size - ends, size - ends + sources % 2, targets)
    absorbing = np.arange(size - ends, size)
    sources, targets = np.concatenate([sources, absorbing]), np.concatenate([targets, absorbing])
    pairs = np.unique(sources * size + targets)
    sources, targets = pairs // size, pairs % size
    weights = np.ones(len(pairs)) if kind == "walk" else rng.random(len(pairs)) + 0.1
    return Chain(
        states=tuple(map(str, range(size))),
        sources=sources,
        targets=targets,
        probabilities=weights / np.bincount(sources, weights, minlength=size)[sources],
        labels={"left": frozenset(absorbing[::2].tolist()), "right": frozenset(absorbing[1::2].tolist())},
        initial=size // 2 if kind == "walk" else 0,
    )


def test_rows_that_a_file_rounded_are_scaled() -> None:
    chain = chain_of([{0: 0.3333333, 1: 0.3333333, 2: 0.3333333}, {1: 1.0}, {2: 1.0}], {"a": [1]})
    assert value(chain, 'P=? [ F "a" ]') == pytest.approx(0.5, abs=1e-15)


@given(seeds, st.integers(1, 30))
def test_edges_between_components_lead_to_smaller_numbers(seed: int, size: int) -> None:
    """The order in which equations are solved relies on it."""
    rng = np.random.default_rng(seed)
    sources, targets = rng.integers(0, size, (2, int(rng.integers(1, 3 * size + 1))))
    count, component = components_of(size, sources, targets)
    assert sorted(set(component.tolist())) == list(range(count))
    assert (component[sources] >= component[targets]).all()


def test_components_in_another_order_are_refused() -> None:
    with (
        patch("scipy.sparse.csgraph.connected_components", return_value=(2, np.array([0, 1]))),
        pytest.raises(RuntimeError, match=says(COMPONENT_ORDER)),
    ):
        components_of(2, np.array([0]), np.array([1]))


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 80), st.sampled_from([0, 48]))
def test_equations_are_solved_also_transposed(seed: int, size: int, whole: int) -> None:
    """In either way, whatever the size."""
    chain = random_chain(np.random.default_rng(seed), size)
    inner, leaving = chain.matrix * 0.9, np.full(size, 0.1)
    matrix = np.eye(size) - inner.toarray()
    right = np.random.default_rng(seed).random((size, 2))
    with patch("fairchain.pctl.equations.MOST_DENSE_STATES", whole):
        np.testing.assert_allclose(matrix @ solve(inner, leaving, right), right, atol=1e-12)
        np.testing.assert_allclose(matrix.T @ solve(inner, leaving, right, visits=True), right, atol=1e-12)
