"""Bounds of an answer contain it, for every chain within the intervals; and they say when they cannot tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairchain import example, learn_chain
from fairchain.chain import Chain
from fairchain.errors import QueryError
from fairchain.pctl import check_chain
from fairchain.pctl.checker import NO_EVIDENCE
from tests.messages import says
from tests.pctl.builders import chain_of, random_chain

FORMULAS = [
    'P=? [ F "a" ]',
    'P=? [ G "c" ]',
    'P=? [ "c" U "a" ]',
    'P=? [ X "b" ]',
    'P=? [ F<=6 "a" ]',
    'P=? [ "b" U<=4 "a" ]',
]


def widened(chain: Chain, rng: np.random.Generator) -> Chain:
    """The same chain with an interval around each probability."""
    width = rng.random(len(chain.probabilities)) * 0.1
    single = np.bincount(chain.sources, minlength=len(chain))[chain.sources] == 1
    low = np.where(single, 1.0, np.clip(chain.probabilities - width, 0, 1))
    high = np.where(single, 1.0, np.clip(chain.probabilities + width, 0, 1))
    return replace(chain, low=low, high=high)


def inside(chain: Chain, rng: np.random.Generator) -> Chain:
    """A chain somewhere between the bounds: mass is moved between two successors as far as both allow."""
    assert chain.low is not None
    assert chain.high is not None
    values = chain.probabilities.copy()
    for source in range(len(chain)):
        row = np.flatnonzero(chain.sources == source)
        for _ in range(3):
            give, take = rng.choice(row, 2)
            moved = rng.random() * min(values[give] - chain.low[give], chain.high[take] - values[take])
            if give != take:
                values[give] -= moved
                values[take] += moved
    return replace(chain, probabilities=values, low=None, high=None)


@pytest.mark.parametrize("formula", FORMULAS)
def test_bounds_contain_the_answers_of_all_chains_within_the_intervals(formula: str) -> None:
    """200 chains in all for each formula, at the corners and between."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        chain = widened(random_chain(rng, int(rng.integers(3, 12))), rng)
        answer = check_chain(chain, formula)
        assert answer.low is not None
        assert answer.high is not None
        assert answer.low - 1e-9 <= answer.value <= answer.high + 1e-9
        for _ in range(10):
            value = check_chain(inside(chain, rng), formula).value
            assert answer.low - 1e-9 <= value <= answer.high + 1e-9


def test_a_comparison_that_the_bounds_allow_both_ways_is_undecided() -> None:
    chain = learn_chain(None, example("census"), rounds=500)
    value = check_chain(chain, 'P=? [ F "Y=>50K" ]').value
    assert check_chain(chain, f'P>={value} [ F "Y=>50K" ]').undecided
    assert not check_chain(chain, 'P>=0.1 [ F "Y=>50K" ]').undecided


def test_a_state_without_evidence_is_no_place_to_ask_from() -> None:
    chain = learn_chain(None, example("census"), units=["hours-per-week:bins=10.2,10.6"], rounds=300)
    with pytest.raises(QueryError, match=says(NO_EVIDENCE)):
        check_chain(chain, 'P=? [ F "Y=>50K" ]', start="race=White & 10.2 <= hours-per-week < 10.6")


def test_an_answer_that_depends_on_a_state_without_evidence_says_so() -> None:
    """A row that was made up on the way to the label: its name stands with the answer."""
    chain = chain_of([{1: 1.0}, {2: 0.5, 3: 0.5}, {2: 1.0}, {3: 1.0}], {"yes": [2]}, unvisited=frozenset({1}))
    assert check_chain(chain, 'P=? [ F "yes" ]').depends_on == ("s1",)
    assert check_chain(replace(chain, unvisited=frozenset()), 'P=? [ F "yes" ]').depends_on == ()
