"""Bounds are the smallest and largest answers of any chain between the bounds of the transitions."""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairchain.chain import Chain
from fairchain.errors import ChainError
from fairchain.pctl import check_chain, parse
from fairchain.pctl.formula import Measure
from fairchain.pctl.interval_rows import NO_DISTRIBUTION, IntervalRows
from fairchain.pctl.point_values import Points
from tests.messages import says
from tests.pctl.builders import between, chain_of, corner, random_chain, with_bounds

seeds = st.integers(0, 2**32 - 1)
UNBOUNDED = [
    'P=? [ F "a" ]',
    'P=? [ "c" U "a" ]',
    'P=? [ G "c" ]',
    'P=? [ "c" W "a" ]',
    'P=? [ X "b" ]',
    'R=? [ F "b" ]',
]
OTHERS = [
    'P=? [ F<=4 "a" ]',
    'P=? [ "c" U[1,3] "b" ]',
    'P=? [ G[2,4] "c" ]',
    'P=? [ F>=2 "a" ]',
    'S=? [ "b" ]',
    'P=? [ F P>=0.4 [ X "b" ] ]',
    'P=? [ P<0.5 [ F "a" ] U (R>=2 [ F "b" ] | S>0.3 [ "c" ]) ]',
]


def corners(chain: Chain, most: int) -> Iterator[Chain]:
    """All chains whose rows are corners of what the bounds allow, if there are not too many."""
    lengths = np.diff(chain.starts)
    orders = [list(itertools.permutations(range(length))) for length in lengths]
    if np.prod([float(len(some)) for some in orders]) <= most:
        for chosen in itertools.product(*orders):
            yield replace(chain, probabilities=corner(chain, chosen), low=None, high=None)


def values_of(chain: Chain, formula: str) -> np.ndarray:
    """The answers of a chain without its bounds."""
    asked = parse(formula)
    assert isinstance(asked, Measure)
    return Points(chain).measure(asked)


def small(seed: int, *, open_ends: bool) -> Chain:
    rng = np.random.default_rng(seed)
    return with_bounds(rng, random_chain(rng, int(rng.integers(2, 5))), open_ends=open_ends)


@pytest.mark.parametrize("open_ends", [False, True])
def test_bounds_are_reached_at_corners(open_ends: bool) -> None:
    """Where a run has no end in time, the worst chain is one chain, with rows at corners: no bound is too wide."""
    tried = 0
    for seed in range(16):
        chain = small(seed, open_ends=open_ends)
        others = list(corners(chain, 40))
        tried += bool(others)
        for formula in UNBOUNDED if others else ():
            low, high = check_chain(chain, formula).bounds or ()
            values = np.array([values_of(other, formula) for other in others])
            own = values_of(chain, formula)
            np.testing.assert_allclose(
                low, np.minimum(values.min(0), own), rtol=1e-7, atol=1e-9, err_msg=f"{seed} {formula}"
            )
            np.testing.assert_allclose(
                high, np.maximum(values.max(0), own), rtol=1e-7, atol=1e-9, err_msg=f"{seed} {formula}"
            )
    assert tried > 4


@settings(max_examples=12, deadline=None)
@given(seeds, st.booleans())
def test_bounds_hold_for_every_operator_and_any_chain_between(seed: int, open_ends: bool) -> None:
    """6 chains between the bounds of each of 12: 72 for each operator, from all states."""
    rng = np.random.default_rng(seed)
    chain = with_bounds(rng, random_chain(rng, int(rng.integers(2, 30))), open_ends=open_ends)
    others = [between(rng, chain) for _ in range(6)]
    for formula in UNBOUNDED + OTHERS:
        answer = check_chain(chain, formula)
        assert answer.bounds is not None
        low, high = answer.bounds
        for other in [chain, *others]:
            values = values_of(other, formula)
            assert (low <= values * (1 + 1e-9) + 1e-9).all(), formula
            assert (values * (1 - 1e-9) - 1e-9 <= high).all(), formula


@settings(max_examples=12, deadline=None)
@given(seeds)
def test_what_holds_surely_holds_in_any_chain_between(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chain = with_bounds(rng, random_chain(rng, int(rng.integers(2, 20))), open_ends=True)
    others = [between(rng, chain) for _ in range(5)]
    for formula in (
        'P>=0.41 [ F "a" ]',
        '"b" => P<0.37 [ "c" U "a" ]',
        'P>0.2 [ G "c" ] <=> "b"',
        '!(S<=0.5 [ "b" ] & R<3.3 [ F "b" ])',
        'P>=1 [ F P>0.3 [ X "b" ] ]',
    ):
        answer = check_chain(chain, formula)
        assert answer.bounds is not None
        sure, possible = answer.bounds
        assert (sure <= possible).all()
        assert answer.undecided == (bool(sure[chain.initial]) != bool(possible[chain.initial]))
        for other in others:
            values = check_chain(other, formula).values
            assert (sure <= values).all(), formula
            assert (values <= possible).all(), formula


def test_a_trap_that_may_be_there_is_no_certain_way_out() -> None:
    """A state that may keep everything: nothing is sure to get out, and all that gets out may choose its way."""
    chain = chain_of([{0: 0.5, 1: 0.3, 2: 0.2}, {1: 1.0}, {2: 1.0}], {"a": [1], "end": [1, 2]})
    wide = replace(chain, low=np.array([0, 0, 0, 1.0, 1]), high=np.array([1, 0.4, 0.3, 1, 1]))
    answer = check_chain(wide, 'P=? [ F "a" ]')
    assert (answer.low, answer.value, answer.high) == (0, pytest.approx(0.6), pytest.approx(1))
    steps = check_chain(wide, 'R=? [ F "end" ]')
    assert (steps.low, steps.high) == (pytest.approx(1 / 0.7), np.inf)


def test_a_pair_of_states_that_may_keep_a_run() -> None:
    rows = [{1: 0.9, 2: 0.1}, {0: 0.8, 3: 0.2}, {2: 1.0}, {3: 1.0}]
    chain = chain_of(rows, {"a": [2], "b": [3]})
    wide = replace(chain, low=np.array([0.5, 0, 0.5, 0, 1, 1]), high=np.array([1, 0.3, 1, 0.4, 1, 1.0]))
    for label in "ab":
        answer = check_chain(wide, f'P=? [ F "{label}" ]')
        assert (answer.low, answer.high) == (0, pytest.approx(1))


def test_bounds_without_width_are_the_value() -> None:
    chain = random_chain(np.random.default_rng(3), 60)
    exact = replace(chain, low=chain.probabilities, high=chain.probabilities)
    for formula in UNBOUNDED + OTHERS[:5]:
        answer = check_chain(exact, formula)
        low, high = answer.bounds or ()
        np.testing.assert_allclose(low, answer.values, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(high, answer.values, rtol=1e-8, atol=1e-9)


def test_nothing_is_known_beyond_a_state_that_was_never_seen() -> None:
    """Its made-up row says 1/2, its bounds say the same without width; the answer's bounds do not believe it."""
    rows = [{1: 0.5, 2: 0.5}, {2: 0.5, 3: 0.5}, {2: 1.0}, {3: 1.0}]
    chain = chain_of(rows, {"a": [2]}, unvisited=frozenset({1}))
    chain = replace(chain, low=chain.probabilities, high=chain.probabilities)
    for formula, low, high in (
        ('P=? [ F "a" ]', 0.5, 1),
        ('P=? [ F<=2 "a" ]', 0.5, 1),
        ('P=? [ G !"a" ]', 0, 0.5),
        ('S=? [ "a" ]', 0.5, 1),
        ('R=? [ F ("a" | P<=0 [ F "a" ]) ]', 1, np.inf),
    ):
        answer = check_chain(chain, formula)
        assert (answer.low, answer.high) == (pytest.approx(low), pytest.approx(high)), formula
        assert answer.depends_on == ("s1",)
    direct = check_chain(chain, 'P=? [ X "a" ]')
    assert (direct.low, direct.high, direct.depends_on) == (pytest.approx(0.5), pytest.approx(0.5), ())


def test_bounds_that_leave_no_room_for_a_row_are_refused() -> None:
    chain = chain_of([{0: 0.5, 1: 0.5}, {1: 1.0}], {"a": [1]})
    for low, high in (([0.6, 0.6, 1], [1, 1, 1]), ([0, 0, 1], [0.4, 0.4, 1])):
        wrong = replace(chain, low=np.array(low, float), high=np.array(high, float))
        with pytest.raises(ChainError, match=says(NO_DISTRIBUTION, states="s0")):
            check_chain(wrong, 'P=? [ F "a" ]')


def test_steps_that_no_number_bounds_are_infinite_and_not_nothing() -> None:
    """A walk of 2000 states whose drift may be towards the middle from both sides: left after far too many steps."""
    size = 2000
    rows = [{0: 1.0}, *({state - 1: 0.5, state + 1: 0.5} for state in range(1, size - 1)), {size - 1: 1.0}]
    chain = chain_of(rows, {"end": [0, size - 1], "left": [0]}, initial=size // 2)
    some = chain.probabilities < 1
    wide = replace(chain, low=np.where(some, 0.4, 1.0), high=np.where(some, 0.6, 1.0))
    steps = check_chain(wide, 'R=? [ F "end" ]')
    assert (steps.low, steps.high) == (pytest.approx(5 * (size / 2 - 1), rel=0.02), np.inf)
    left = check_chain(wide, 'P=? [ F "left" ]')
    assert (left.low, left.high) == (0, 1)


def test_transitions_are_chosen_alike_whether_compared_or_sorted() -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        chain = with_bounds(rng, random_chain(rng, 30), open_ends=True)
        values = rng.integers(0, 4, 30) / 4
        for largest in (False, True):
            compared = IntervalRows.of(chain).extremal(values, largest=largest)
            with patch("fairchain.pctl.interval_rows.FEW_TRANSITIONS", 0):
                np.testing.assert_allclose(
                    compared, IntervalRows.of(chain).extremal(values, largest=largest), atol=1e-15
                )


def test_a_hundred_thousand_states_have_bounds() -> None:
    rng = np.random.default_rng(0)
    width, layers = 1000, 100
    size = width * layers
    sources = np.repeat(np.arange(size - width), 3)
    targets = (sources // width + 1) * width + rng.integers(0, width, len(sources))
    last = np.arange(size - width, size)
    pairs = np.unique(np.concatenate([sources * size + targets, last * size + last]))
    sources, targets = pairs // size, pairs % size
    weights = rng.random(len(pairs)) + 0.1
    weights /= np.bincount(sources, weights, minlength=size)[sources]
    chain = Chain(
        states=tuple(map(str, range(size))),
        sources=sources,
        targets=targets,
        probabilities=weights,
        labels={"good": frozenset(last[::2].tolist())},
        low=0.98 * weights,
        high=np.minimum(1.02 * weights, 1),
    )
    answer = check_chain(chain, 'P=? [ F "good" ]')
    assert answer.low is not None
    assert answer.high is not None
    assert 0.3 < answer.low < answer.value < answer.high < 0.7


@pytest.mark.skipif(
    importlib.util.find_spec("stormpy") is None and not os.environ.get("FAIRCHAIN_NO_SKIP"),
    reason="stormpy is not installed: pip install stormpy",
)
def test_bounds_agree_with_storm_where_it_knows_intervals() -> None:
    """Storm iterates from below until little changes, hence the width; it wants every transition to be sure."""
    for seed in range(25):
        rng = np.random.default_rng(seed)
        chain = with_bounds(rng, random_chain(rng, int(rng.integers(2, 40))), open_ends=False)
        for formula, theirs in (
            ('P=? [ F "a" ]', 'P=? [ F "a" ]'),
            ('P=? [ "c" U "a" ]', 'P=? [ "c" U "a" ]'),
            ('P=? [ F<=4 "a" ]', 'P=? [ F<=4 "a" ]'),
            ('R=? [ F "b" ]', 'T=? [ F "b" ]'),
        ):
            for bound, largest in zip(check_chain(chain, formula).bounds or (), (False, True), strict=True):
                np.testing.assert_allclose(bound, storm_bound(chain, theirs, largest=largest), rtol=1e-6, atol=1e-6)


def storm_bound(chain: Chain, formula: str, *, largest: bool) -> np.ndarray:
    import stormpy

    assert chain.low is not None
    assert chain.high is not None
    size = len(chain)
    builder = stormpy.datastructures.SparseMatrixBuilder[stormpy.Interval](
        rows=size, columns=size, entries=len(chain.sources)
    )
    columns = (chain.sources, chain.targets, chain.low, chain.high)
    for source, target, low, high in zip(*(column.tolist() for column in columns), strict=True):
        builder.add_next_value(source, target, stormpy.Interval(low, high))
    labeling = stormpy.models.StateLabeling(size)
    for label, states in {**chain.labels, "init": {chain.initial}}.items():
        labeling.add_label(label)
        labeling.set_states(label, stormpy.datastructures.BitVector(size, sorted(states)))
    components = stormpy.models.SparseModelComponents[stormpy.Interval](
        transition_matrix=builder.build(), state_labeling=labeling
    )
    environment = stormpy.Environment()
    solver = environment.solver().min_max()
    solver.precision = stormpy.Rational("1e-10")
    solver.method = stormpy.environments.MinMaxMethod.VALUE_ITERATION
    modes = stormpy.UncertaintyResolutionMode
    result = stormpy.model_checking(
        stormpy.models.SparseDtmc[stormpy.Interval](components),
        stormpy.parse_property(formula),
        environment=environment,
        uncertainty_resolution_mode=modes.MAXIMIZE if largest else modes.MINIMIZE,
    )
    return np.array(result.get_value_vector())
