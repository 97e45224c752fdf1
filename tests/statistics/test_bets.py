"""A bet is fair under its hypothesis: that is the whole guarantee, so it is checked exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairchain.statistics.e_values import (
    BETS,
    LOG_SHARES,
    log_wealth,
    rounds_to_go,
    wealth_and_best,
    wealth_and_best_of_one,
    wealth_of_one,
)
from fairchain.statistics.payoff import DIFFERENCE, RATIO, SHARE, Payoff

against_at_least, against_at_most = DIFFERENCE.against_at_least, DIFFERENCE.against_at_most

cells = st.tuples(*[st.integers(0, 10_000)] * 3)
gaps = st.floats(-0.9, 0.9)


def test_the_shares_of_the_initial_wealth_sum_to_one() -> None:
    assert np.exp(LOG_SHARES).sum() == pytest.approx(1)


def test_no_stake_can_go_bankrupt() -> None:
    assert BETS.max() < 1
    for gap in np.linspace(-0.99, 0.99, 41):
        assert np.isfinite(against_at_least(gap)).all()
        assert np.isfinite(against_at_most(gap)).all()


@given(gap=gaps, differ=st.floats(0, 1), share=st.floats(0, 1))
def test_expected_growth_is_at_most_one_under_the_hypothesis(gap: float, differ: float, share: float) -> None:
    """E[factor] of every stake, summed exactly over the three payoffs, for any distribution the hypothesis allows."""
    plus, minus = differ * share, differ * (1 - share)
    chances = np.array([plus, 1 - differ, minus])
    if plus - minus >= gap:
        assert (chances @ np.exp(against_at_least(gap)) <= 1 + 1e-9).all()
    if plus - minus <= gap:
        assert (chances @ np.exp(against_at_most(gap)) <= 1 + 1e-9).all()


@given(cells=cells, gap=st.floats(-0.8, 0.8))
def test_wealth_is_the_product_of_all_factors(cells: tuple[int, int, int], gap: float) -> None:
    """Against the definition, one stake after another, in plain floats."""
    total = -math.inf
    for bet, log_share in zip(BETS, LOG_SHARES, strict=True):
        stake = bet / (1 - gap)
        won = sum(n * math.log1p(stake * (gap - x)) for n, x in zip(cells, (1, 0, -1), strict=True))
        total = np.logaddexp(total, won + log_share)
    assert float(log_wealth(cells, against_at_least(gap))) == pytest.approx(total, abs=1e-6, rel=1e-9)


@given(cells=cells, first=gaps, second=gaps)
def test_evidence_grows_with_the_distance_of_the_hypothesis(
    cells: tuple[int, int, int], first: float, second: float
) -> None:
    """What makes bounds by bisection valid."""
    low, high = sorted((first, second))
    slack = 1e-7 * (1 + sum(cells))
    assert log_wealth(cells, against_at_least(low)) <= log_wealth(cells, against_at_least(high)) + slack
    assert log_wealth(cells, against_at_most(high)) <= log_wealth(cells, against_at_most(low)) + slack


@given(cells=cells, gap=gaps)
def test_the_two_sides_mirror_each_other(cells: tuple[int, int, int], gap: float) -> None:
    one = log_wealth(cells, against_at_most(gap))
    other = log_wealth(cells[::-1], against_at_least(-gap))
    assert float(one) == pytest.approx(float(other), abs=1e-6, rel=1e-9)


def test_a_forecast_is_about_right() -> None:
    growths = against_at_least(0.1)
    seen = np.array([3, 90, 2])
    more = float(rounds_to_go(log_wealth(seen, growths), seen, growths, 13.8))
    later = seen * (1 + more / seen.sum())
    assert float(log_wealth(later, growths)) == pytest.approx(13.8, abs=1.0)
    assert rounds_to_go(0.0, [200, 800, 0], growths, 13.8) == math.inf


@pytest.mark.parametrize("payoff", [DIFFERENCE, RATIO, SHARE])
@given(counts=cells, gap=st.floats(0.01, 0.9))
def test_quicker_ways_give_the_same_wealth(payoff: Payoff, counts: tuple[int, int, int], gap: float) -> None:
    seen = np.array([*counts[:2], 0 if payoff.share else counts[2]])
    for at_least, growths in ((True, payoff.against_at_least(gap)), (False, payoff.against_at_most(gap))):
        wealth = pytest.approx(float(log_wealth(seen, growths)), rel=1e-11, abs=1e-9)
        assert wealth_of_one(seen.tolist(), *payoff.of_one(gap, at_least=at_least)) == wealth
        assert wealth_and_best(seen[:, None], growths.T)[0][0] == wealth
        assert wealth_and_best_of_one(seen.tolist(), growths)[0] == wealth
