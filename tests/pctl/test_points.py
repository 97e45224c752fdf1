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
from fairchain.pctl import check
from fairchain.pctl.equations import _large, solve, system, topological
from fairchain.pctl.iterate import iterated
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
    return check(chain, formula).value


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
def test_a_small_part_that_is_hardly_ever_left_is_refused_too(size: int) -> None:
    """A ring that is left once in 10^17 steps; in groups of 10 of them the same."""
    rare = 1e-17
    rows = [{(state + 1) % size: 1.0} for state in range(size)] + [{size: 1.0}, {size + 1: 1.0}]
    rows[0] |= {size: rare, size + 1: rare}
    with pytest.raises(QueryError, match="steps on average, too many"):
        value(chain_of(rows, {"a": [size]}), 'P=? [ F "a" ]')


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
        return check(chain, f"P=? [ {path} ]").values

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
    both = check(chain, 'S=? [ "b" ]').values + check(chain, 'S=? [ !"b" ]').values
    equal(both, np.ones(size))


def test_bounded_converges_to_unbounded() -> None:
    chain = random_chain(np.random.default_rng(5), 30)
    unbounded = check(chain, 'P=? [ F "a" ]').values
    np.testing.assert_allclose(check(chain, 'P=? [ F<=100000 "a" ]').values, unbounded, atol=1e-9)


@settings(max_examples=40)
@given(seeds, st.integers(2, 60))
def test_expected_steps_solve_their_equations(seed: int, size: int) -> None:
    chain = random_chain(np.random.default_rng(seed), size)
    steps = check(chain, 'R=? [ F "b" ]').values
    sure = check(chain, 'P>=1 [ F "b" ]').values
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


@pytest.mark.parametrize("kind", ["layers", "graph", "walk", "pairs"])
def test_a_hundred_thousand_states_are_answered(kind: str) -> None:
    """The known answer of each: everything ends at one of two ends."""
    chain = large(kind, 100_000)
    answer = check(chain, 'P=? [ F ("left" | "right") ]')
    left, right = (check(chain, f'P=? [ F "{end}" ]').values for end in ("left", "right"))
    assert answer.value == 1
    np.testing.assert_allclose(left + right, 1, atol=1e-8)
    assert 0 < left[chain.initial] < 1


def test_a_random_graph_of_a_hundred_thousand_states_agrees_with_stepping_through_it() -> None:
    """Half of the steps end a run, so that after 40 less than 10^-12 of the runs are left."""
    matrix = large("graph", 100_000).matrix / 2
    leaving = np.full(matrix.shape[0], 0.5)
    goal = np.where(np.arange(len(leaving)) % 3, leaving, 0.0)
    stepped = np.zeros_like(goal)
    for _ in range(40):
        stepped = goal + matrix @ stepped
    np.testing.assert_allclose(solve(system(matrix, leaving), goal), stepped, atol=1e-11)


def test_what_can_neither_be_iterated_nor_factorised_is_refused() -> None:
    """With hardly any time allowed; the same equations are solved with more of it."""
    chain = large("graph", 2000)
    with patch.multiple("fairchain.pctl.equations", MOST_PRODUCTS=2, MOST_ITERATING=1e4, MOST_ELIMINATING=1e6):
        with pytest.raises(QueryError, match="cannot be solved in reasonable time; ask with a bound on the steps"):
            value(chain, 'P=? [ F "left" ]')
        assert 0 < value(chain, 'P=? [ F<=1000 "left" ]') < 1
    values = [check(chain, 'P=? [ F "left" ]').values]
    with patch.multiple("fairchain.pctl.equations", MOST_PRODUCTS=2):
        values.append(check(chain, 'P=? [ F "left" ]').values)
    np.testing.assert_allclose(*values, atol=1e-12)


def test_clusters_that_are_hardly_ever_left_are_solved_together() -> None:
    """Thirty of 1,000 states, one component: refused without the equations between clusters; ends add up to 1."""
    matrix, ends = inner_of(clustered(30, 1000, ahead=False))
    with (
        patch("fairchain.pctl.iterate.MOST_GROUPS", 0),
        patch("fairchain.pctl.equations.MOST_ITERATING", 1e7),
        pytest.raises(QueryError, match="30,000 states leads from everywhere to everywhere"),
    ):
        solve(matrix, ends[:, 0])
    values = solve(matrix, ends)
    np.testing.assert_allclose(values.sum(axis=1), 1, atol=1e-9)
    assert 0.1 < values[0, 0] < 0.9


def test_clusters_one_behind_the_other_are_solved_one_by_one() -> None:
    """Thirty of 300 states, each left for the next only: thirty systems of equations, not one."""
    matrix, ends = inner_of(clustered(30, 300, ahead=True))
    with patch("fairchain.pctl.equations._large", wraps=_large) as parts:
        np.testing.assert_allclose(solve(matrix, ends).sum(axis=1), 1, atol=1e-9)
    assert [part.args[0].shape[0] for part in parts.call_args_list] == [300] * 30


@pytest.mark.parametrize("transposed", [False, True])
def test_clusters_solved_together_agree_with_elimination(transposed: bool) -> None:
    matrix, _ = inner_of(clustered(12, 100, ahead=False))
    matrix = (matrix.T if transposed else matrix).tocsr()
    right = np.random.default_rng(0).random(1200)
    grouped = iterated(matrix, right, 100, grouped=True)
    assert grouped is not None
    np.testing.assert_allclose(grouped, np.linalg.solve(matrix.toarray(), right), rtol=1e-9)


def test_a_graph_without_clusters_is_not_taken_for_one_with_them() -> None:
    matrix, ends = inner_of(clustered(1, 2000, ahead=False))
    assert iterated(matrix, ends, 100, grouped=True) is None


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(2, 6), st.integers(2, 12), st.sampled_from(["factors", "iteration", "small"]))
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
    limits = {"factors": (3, 500, 1e8), "iteration": (3, 3, -1.0), "small": (32, 500, 1e8)}[how]
    with patch.multiple("fairchain.pctl.equations", DENSE=0, SMALL=limits[0], MIDDLE=limits[1], EASY=limits[2]):
        found = solve(system(csr_array(matrix), leaving), right)
    np.testing.assert_allclose(found, np.linalg.solve(np.eye(total) - matrix, right), rtol=1e-9)


@pytest.mark.parametrize(("parts", "right"), [(2, True), (4, False)])
def test_errors_of_parts_one_behind_the_other_add_up(parts: int, right: bool) -> None:
    """Each part may be off by 0.3 in the sixth digit; the largest value is between 0.6 and 1."""
    chain = clustered(parts, 60, ahead=True)
    with patch("fairchain.pctl.equations._largest_error", return_value=np.array(3e-7)):
        if right:
            assert 0 < value(chain, 'P=? [ F "left" ]') < 1
        else:
            with pytest.raises(QueryError, match="4 parts of the chain, one behind the other, are left so slowly"):
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


@pytest.mark.parametrize(("parts", "size", "leave"), [(100, 2, 6e-10), (100, 2, 1e-3), (40, 5, 1e-7)])
def test_small_parts_that_are_left_slowly_are_right(parts: int, size: int, leave: float) -> None:
    """With the rounded diagonal alone the first would be off by more than 1e-6."""
    matrix, leaving, goal, exact = slow_parts(parts, size, leave)
    assert np.abs(solve(system(matrix, leaving), goal, leaving) - exact).max() < 1e-9
    if leave < 1e-9:
        assert np.abs(solve(system(matrix, leaving), goal) - exact).max() > 1e-6


def test_small_parts_whose_errors_add_up_are_refused() -> None:
    """Expected steps, which differ within a part: no rounded values solve the equations well enough to be sure."""
    matrix, leaving, goal, _ = slow_parts(100, 2, 6e-10)
    with pytest.raises(QueryError, match="100 parts of the chain, one behind the other, are left so slowly"):
        solve(system(matrix, leaving), np.ones_like(goal), leaving)
    matrix, leaving, goal, _ = slow_parts(100, 2, 1e-7)
    assert solve(system(matrix, leaving), np.ones_like(goal), leaving)[0] > 1e8


def test_values_that_do_not_solve_their_equations_are_refused() -> None:
    """The residual is looked at, whoever computed: here the factors are those of another matrix."""
    chain = large("walk", 600)
    with (
        patch("fairchain.pctl.equations._factorised", return_value=np.ones_like),
        patch("fairchain.pctl.equations.MIDDLE", 10**6),
        pytest.raises(QueryError, match="steps on average, too many"),
    ):
        value(chain, 'P=? [ F "left" ]')


def test_a_part_that_is_hardly_ever_left_is_refused_not_answered_wrongly() -> None:
    """A walk with random weights digs itself in: its equations cannot be solved in floating numbers."""
    chain = large("walk", 100_000)
    weights = np.random.default_rng(0).random(len(chain.sources)) + 0.1
    weights /= np.bincount(chain.sources, weights, minlength=len(chain))[chain.sources]
    with pytest.raises(QueryError, match="steps on average, too many"):
        check(replace(chain, probabilities=weights), 'P=? [ F "left" ]')


def inner_of(chain: Chain) -> tuple[csr_array, np.ndarray]:
    """The equations of the states before the two ends, and the probability of either end in one step."""
    inner = len(chain) - 2
    ends = chain.matrix[:inner, inner:].toarray()
    return system(chain.matrix[:inner, :inner], ends.sum(axis=1)), ends


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
def test_ranks_of_a_graph_without_cycles(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    hidden = rng.permutation(size)
    sources, targets = rng.integers(0, size, (2, 3 * size))
    ahead = hidden[sources] <= hidden[targets]
    sources, targets = sources[ahead], targets[ahead]
    ranks = topological(size, sources, targets)
    assert sorted(ranks) == list(range(size))
    assert ((ranks[sources] < ranks[targets]) | (sources == targets)).all()


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 80), st.sampled_from([0, 48]))
def test_equations_are_solved_also_transposed(seed: int, size: int, dense: int) -> None:
    """In either way, whatever the size."""
    chain = random_chain(np.random.default_rng(seed), size)
    matrix = system(chain.matrix * 0.9, np.full(size, 0.1))
    right = np.random.default_rng(seed).random((size, 2))
    with patch("fairchain.pctl.equations.DENSE", dense):
        np.testing.assert_allclose(matrix @ solve(matrix, right), right, atol=1e-12)
        np.testing.assert_allclose(matrix.T @ solve(matrix.T.tocsr(), right), right, atol=1e-12)
