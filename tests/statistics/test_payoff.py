"""Bets on a ratio keep their promise: fair games by computation, and rare errors where the ratio is the threshold.

The simulations are seeded, so their results are the same every time. At the boundary both answers are wrong; sound
rules must keep to delta times the runs, and rules that are not sound must exceed what a rule with an error of exactly
delta would exceed with probability 1e-6 only.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from fairchain.statistics import DIFFERENCE, RATIO, SHARE, BettingRule, Decision, Payoff, Tally, count_together
from fairchain.statistics.e_values import Floats, log_wealth
from fairchain.statistics.intervals import lower_bounds, upper_bounds
from fairchain.statistics.tally import Counts

RATIO_MET, DELTA, RUNS, ROUNDS, STRIDE = 0.8, 0.1, 300, 480, 80
GAP = 1 - RATIO_MET
# Rates of the group that gets the outcome more often: near 0, in the middle, near 1, and 1.
RATES = (0.05, 0.3, 0.55, 0.95, 1.0)

cells = st.lists(st.floats(1e-6, 1), min_size=4, max_size=4)
payoffs = pytest.mark.parametrize("payoff", [DIFFERENCE, RATIO], ids=["difference", "ratio"])


def factors(growths: np.ndarray, payoff: Payoff) -> np.ndarray:
    """(4, stakes): what wealth is multiplied by when only i, both, only j or neither got it."""
    only, middle, other = np.exp(growths)
    return np.stack([only, middle, other, np.ones_like(middle) if payoff.relative else middle])


@payoffs
@settings(deadline=None)
@given(weights=cells, slack=st.floats(0, 1))
def test_no_stake_can_win_on_average_against_a_true_hypothesis(
    payoff: Payoff, weights: list[float], slack: float
) -> None:
    """The theorem itself, for any joint law of two groups: wealth never turns negative, and its mean never grows."""
    chances = np.array(weights) / sum(weights)
    first, second = chances[0] + chances[1], chances[1] + chances[2]
    gap = 1 - second / first if payoff.relative else first - second
    if -1 < gap < 1:
        at_least = gap - slack * (gap + 1) * 0.999
        at_most = gap + slack * (1 - gap) * 0.999
        for growths in (payoff.against_at_least(at_least), payoff.against_at_most(at_most)):
            assert np.isfinite(growths).all()
            assert (chances @ factors(growths, payoff) <= 1 + 1e-9).all()


@payoffs
@given(
    counts=st.lists(st.integers(0, 500), min_size=3, max_size=3),
    one=st.floats(-0.99, 0.99),
    other=st.floats(-0.99, 0.99),
)
def test_wealth_is_monotone_in_the_gap_so_that_bisection_finds_all_that_is_refuted(
    payoff: Payoff, counts: list[int], one: float, other: float
) -> None:
    low, high = sorted((one, other))
    assert log_wealth(counts, payoff.against_at_least(low)) <= log_wealth(counts, payoff.against_at_least(high)) + 1e-9
    assert log_wealth(counts, payoff.against_at_most(low)) >= log_wealth(counts, payoff.against_at_most(high)) - 1e-9


def pair(only: int, both: int, other: int, rounds: int) -> Tally:
    table = np.array([[[only + both, both], [both, other + both]]])
    return Tally.of_batch(rounds, table, (0, 1), 2)


def test_a_gap_of_ratios_is_what_the_second_group_lacks() -> None:
    gaps = RATIO.gaps(pair(20, 60, 4, 100))[0]
    assert gaps[0, 1] == pytest.approx(1 - 64 / 80)
    assert gaps[1, 0] == pytest.approx(1 - 80 / 64)
    assert RATIO.widest(pair(20, 60, 4, 100), ~np.eye(2, dtype=bool)[None]) == (0, 1, 0)


def test_rounds_in_which_nobody_got_it_say_nothing_about_a_ratio() -> None:
    few, many = (RATIO.cells(pair(20, 60, 4, rounds)) for rounds in (100, 100_000))
    assert np.array_equal(few, many)


def test_of_two_groups_that_never_got_it_nothing_is_known() -> None:
    nothing = RATIO.cells(pair(0, 0, 0, 10**6))[0, 0, 1]
    assert upper_bounds(nothing, math.log(20), RATIO) == pytest.approx(1)
    assert lower_bounds(nothing, math.log(20), RATIO) == pytest.approx(-1)


def at_the_boundary(groups: int, rate: float, run: int) -> np.ndarray:
    """Rates whose smallest ratio is exactly the threshold: one pair, as many as possible, or in equal steps."""
    low = RATIO_MET * rate
    shapes = (
        [low] + [rate] * (groups - 1),
        [rate if place % 2 else low for place in range(groups)],
        np.geomspace(low, rate, groups),
    )
    return np.array(shapes[run % 3])


def play(rule: BettingRule, chances: np.ndarray, seed: int, *, coupled: bool) -> None:
    """Rounds without a network, some dozens between two looks."""
    rng = np.random.default_rng(seed)
    done = 0
    while done < ROUNDS and (plan := rule.plan()) is not None:
        shape = (1 if coupled else len(plan.groups), STRIDE)
        got = rng.random(shape) < chances[list(plan.groups)][:, None]
        together = count_together(got.astype(np.uint8), [1])
        rule.observe(plan, Tally.of_batch(STRIDE, together, plan.groups, len(chances)))
        done += STRIDE


def wrong_verdicts(groups: int, runs: int, make: type[BettingRule] = BettingRule, payoff: Payoff = RATIO) -> int:
    """How many of the runs come to any verdict at all."""
    wrong = 0
    for run in range(runs):
        rule = make(groups, 1, GAP, DELTA, payoff=payoff)
        play(rule, at_the_boundary(groups, RATES[run % len(RATES)], run), run, coupled=run % 2 == 0)
        wrong += rule.decision is not Decision.UNDECIDED
    return wrong


@pytest.mark.parametrize("groups", [2, 3])
def test_wrong_verdicts_about_a_ratio_are_rarer_than_delta(groups: int) -> None:
    assert wrong_verdicts(groups, RUNS) <= DELTA * RUNS


class _OtherCells(Payoff):
    """Counts of a single pair and totals of a ratio follow the table of all pairs, which variants replace."""

    def totals(self, tally: Tally) -> Floats:
        return self.cells(tally).reshape(-1, 3).T.astype(float)

    def cells_of(self, tally: Tally, pair: tuple[int, int, int]) -> Counts:
        i, j, outcome = pair
        cells: Counts = self.cells(tally)[outcome, i, j]
        return cells


class _NeitherAsBoth(_OtherCells):
    """Not sound: counts as a difference does, where rounds in which nobody got the outcome are worth as much."""

    def cells(self, tally: Tally) -> Counts:
        return tally.cells


class _BothForgotten(_OtherCells):
    """Not sound: rounds in which both got the outcome cost nothing."""

    def cells(self, tally: Tally) -> Counts:
        return super().cells(tally) * np.array([1, 0, 1])


@pytest.mark.parametrize("payoff", [DIFFERENCE, RATIO, SHARE])
def test_totals_bring_the_growth_of_the_cells(payoff: Payoff) -> None:
    labels = np.random.default_rng(6).integers(0, 3, (4, 200))
    tally = Tally.of_batch(200, count_together(labels, [0, 2]), range(4), 4)
    at_least, _, of_totals = payoff.growths_at(0.1)
    expected = payoff.cells(tally).reshape(-1, 3) @ at_least
    assert of_totals @ payoff.totals(tally) == pytest.approx(expected.T, rel=1e-12, abs=1e-10)


@pytest.mark.parametrize("payoff", [DIFFERENCE, RATIO])
def test_the_counts_of_one_pair_are_those_in_the_table_of_all(payoff: Payoff) -> None:
    labels = np.random.default_rng(5).integers(0, 3, (4, 200))
    tally = Tally.of_batch(200, count_together(labels, [0, 2]), range(4), 4)
    cells = payoff.cells(tally)
    for outcome, i, j in np.ndindex(*cells.shape[:-1]):
        assert payoff.cells_of(tally, (i, j, outcome)) == tuple(cells[outcome, i, j].tolist())


class _Estimate(BettingRule):
    """Not sound: compares the estimate with the threshold, as soon as there is one."""

    def observe(self, plan, tally) -> None:  # type: ignore[no-untyped-def]
        super().observe(plan, tally)
        i, j, outcome = self.widest()
        above = self._payoff.gaps(self.tally)[outcome, i, j] > self._threshold
        self.decision = Decision.UNFAIR if above else Decision.FAIR


@pytest.mark.parametrize(
    ("make", "payoff"),
    [
        (BettingRule, _NeitherAsBoth(relative=True)),
        (BettingRule, _BothForgotten(relative=True)),
        (BettingRule, DIFFERENCE),
        (_Estimate, RATIO),
    ],
    ids=["neither as both", "both forgotten", "difference", "estimate"],
)
def test_rules_that_take_a_ratio_for_something_else_fail_this_very_test(
    make: type[BettingRule], payoff: Payoff
) -> None:
    runs = 200
    assert wrong_verdicts(2, runs, make, payoff) > binom.ppf(1 - 1e-6, runs, DELTA)


def test_the_bounds_of_a_ratio_contain_it_more_often_than_promised() -> None:
    """Both bounds together fail in at most delta of the runs, whenever one looks; here at the end of each."""
    runs, missed = 100, 0
    for run in range(runs):
        rule = BettingRule(3, 1, GAP, DELTA, payoff=RATIO)
        play(rule, at_the_boundary(3, RATES[run % len(RATES)], run), run, coupled=run % 2 == 0)
        _, low, high = rule.gap()
        missed += not low - 1e-9 <= GAP <= high + 1e-9
    assert missed <= DELTA * runs


def test_verdicts_away_from_the_boundary_are_right() -> None:
    """Power: 40 runs at delta 1e-6, so one wrong verdict has chance below 1e-4."""
    from tests.statistics.simulation import simulate

    for run in range(20):
        fair, _ = simulate(BettingRule(3, 1, GAP, 1e-6, payoff=RATIO), [0.5, 0.48, 0.46], run, 10**5)
        unfair, _ = simulate(BettingRule(3, 1, GAP, 1e-6, payoff=RATIO), [0.5, 0.48, 0.32], run, 10**5)
        assert (fair, unfair) == (Decision.FAIR, Decision.UNFAIR)


@settings(deadline=None)
@given(share=st.floats(0.001, 0.999), slack=st.floats(0, 0.999))
def test_no_stake_on_a_share_can_win_on_average_and_larger_ones_could_go_bankrupt(share: float, slack: float) -> None:
    """X is 0 or 1. Stakes up to 1/c are valid for a share; for a difference, where X may be -1, they are not."""
    chances = np.array([share, 1 - share])
    at_least, at_most = share * (1 - slack), share + slack * (1 - share)
    for growths in (SHARE.against_at_least(at_least), SHARE.against_at_most(at_most)):
        assert np.isfinite(growths).all()
        assert (chances @ np.exp(growths[:2]) <= 1 + 1e-9).all()
    largest = 1 - math.exp(float(SHARE.against_at_most(at_most)[1, 0]))
    assert largest == pytest.approx(0.97)
    assert 1 - largest / at_most * (1 + at_most) < 0


def test_one_changed_decision_refutes_that_no_decision_changes() -> None:
    assert log_wealth(np.array([1, 10**9, 0]), SHARE.against_at_most(0.0)) > math.log(1e9)
    assert log_wealth(np.array([0, 10**9, 0]), SHARE.against_at_most(0.0)) == pytest.approx(0, abs=1e-6)


def test_bounds_of_a_share_are_narrower_than_those_of_a_difference() -> None:
    counts, bar = np.array([30, 270, 0]), math.log(2e6)
    low, high = float(lower_bounds(counts, bar, SHARE)), float(upper_bounds(counts, bar, SHARE))
    assert float(lower_bounds(counts, bar, DIFFERENCE)) < low < 0.1 < high
    assert high == pytest.approx(float(upper_bounds(counts, bar, DIFFERENCE)))
