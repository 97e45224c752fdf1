"""Tallies are integers that add: in any order, from any number of workers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairchain.statistics import Tally, count_together
from fairchain.statistics.payoff import DIFFERENCE
from fairchain.statistics.rules import every_pair

GROUPS, OUTCOMES = 4, (0, 2)


@st.composite
def tallies(draw: st.DrawFn) -> Tally:
    rounds = draw(st.integers(1, 80))
    active = draw(st.lists(st.integers(0, GROUPS - 1), min_size=1, max_size=GROUPS, unique=True).map(sorted))
    labels = np.random.default_rng(draw(st.integers(0, 2**32))).integers(0, 3, (len(active), rounds))
    return Tally.of_batch(rounds, count_together(labels, OUTCOMES), active, GROUPS)


@given(tallies(), tallies(), tallies())
def test_merging_is_associative_and_commutative(a: Tally, b: Tally, c: Tally) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + Tally.empty(GROUPS, len(OUTCOMES)) == a


@given(tallies())
def test_cells_of_a_pair_sum_to_the_rounds_it_was_asked_in(tally: Tally) -> None:
    assert (tally.cells.sum(axis=-1) == tally.joint).all()
    assert (tally.cells >= 0).all()


@given(tallies())
def test_gaps_are_antisymmetric_and_the_widest_is_a_proper_pair(tally: Tally) -> None:
    assert np.array_equal(tally.gaps, -tally.gaps.swapaxes(1, 2))
    i, j, outcome = DIFFERENCE.widest(tally, every_pair(len(tally.joint), len(tally.only)))
    assert i != j
    assert tally.gaps[outcome, i, j] == tally.gaps.max()


@pytest.mark.parametrize("rounds", [1, 7, 8, 63, 64, 65, 1000])
@pytest.mark.parametrize("groups", [1, 2, 5, 40])
def test_counting_bits_is_counting(groups: int, rounds: int) -> None:
    labels = np.random.default_rng(rounds).integers(0, 3, (groups, rounds))
    counted = count_together(labels, [0, 1, 2])
    for outcome in range(3):
        got = (labels == outcome).astype(int)
        assert np.array_equal(counted[outcome], got @ got.T)


def test_a_batch_with_some_groups_says_nothing_about_the_others() -> None:
    labels = np.array([[1, 1, 0, 0], [1, 0, 1, 0]])
    tally = Tally.of_batch(4, count_together(labels, [1]), (1, 3), GROUPS)
    assert tally.joint[1, 3] == 4
    assert tally.joint[0].sum() == 0
    assert tally.only[0, 1, 3] == tally.only[0, 3, 1] == 1
    assert tally.both[0, 1, 3] == 1
    assert tally.rates[0].tolist() == [0, 0.5, 0, 0.5]
