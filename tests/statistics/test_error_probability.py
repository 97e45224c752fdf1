"""The promise of a verdict: at a true gap of exactly the threshold both answers are wrong, and rare.

Each test is some hundreds of seeded runs, so its result is the same every time. Sound rules must keep to delta times
the runs (they stay near half of it: the runs are finite and the bets not perfect). Rules that are not sound must exceed
even what a rule with an error of exactly delta would exceed with probability 1e-6 only.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from fairchain.statistics import BettingRule, Decision, PaperRule, Rule, Tally, count_together
from fairchain.statistics.e_values import log_wealth
from fairchain.statistics.payoff import DIFFERENCE
from tests.statistics.simulation import at_the_boundary, simulate

pytestmark = pytest.mark.no_cover
against_at_most = DIFFERENCE.against_at_most

RUNS, ROUNDS, THRESHOLD = 160, 400, 0.1
# Where the lower of the two probabilities lies: near 0, in the middle, near 1.
LOWS = (0.0, 0.02, 0.45, 0.88, 0.9)


def wrong_verdicts(make: type, groups: int, delta: float, **options: object) -> int:
    """How many of the runs come to any verdict at all."""
    wrong = 0
    for run in range(RUNS):
        probabilities = at_the_boundary(groups, THRESHOLD, LOWS[run % len(LOWS)], run)
        rule: Rule = make(groups, 1, THRESHOLD, delta, **options)
        decision, _ = simulate(rule, probabilities, seed=run, most=ROUNDS, coupled=run % 2 == 0)
        wrong += decision is not Decision.UNDECIDED
    return wrong


def limit(delta: float) -> int:
    return int(binom.ppf(1 - 1e-6, RUNS, delta))


@pytest.mark.parametrize(("groups", "delta"), [(2, 0.05), (2, 0.1), (5, 0.1), (9, 0.05)])
def test_wrong_verdicts_are_rarer_than_delta(groups: int, delta: float) -> None:
    assert wrong_verdicts(BettingRule, groups, delta) <= delta * RUNS


def test_they_are_also_rarer_when_no_group_is_left_out() -> None:
    assert wrong_verdicts(BettingRule, 5, 0.1, narrow=False) <= 0.1 * RUNS


def test_they_are_also_rarer_with_three_labels_at_once() -> None:
    """Two of three labels are exactly at the threshold, the third below it."""
    wrong = 0
    chances = np.array([[0.2, 0.3, 0.5], [0.3, 0.2, 0.5], [0.25, 0.25, 0.5]])
    for run in range(RUNS):
        rng = np.random.default_rng(run)
        rule = BettingRule(3, 3, THRESHOLD, 0.1)
        done = 0
        while done < ROUNDS and (plan := rule.plan()) is not None:
            rounds = min(plan.rounds, ROUNDS - done)
            edges = chances[list(plan.groups)].cumsum(axis=1)[:, None, :2]
            labels = (rng.random((1, rounds))[..., None] > edges).sum(axis=2)
            rule.observe(plan, Tally.of_batch(rounds, count_together(labels, (0, 1, 2)), plan.groups, 3))
            done += rounds
        wrong += rule.decision is not Decision.UNDECIDED
    assert wrong <= 0.1 * RUNS


@pytest.mark.parametrize("groups", [2, 5, 9])
def test_the_rule_of_the_paper_fails_this_very_test(groups: int) -> None:
    assert wrong_verdicts(PaperRule, groups, 0.1, epsilon=0.05, labels=2) > limit(0.1)


class _Peeking(BettingRule):
    """Not sound: looks at a fixed-sample test again and again."""

    def observe(self, plan, tally) -> None:  # type: ignore[no-untyped-def]
        super().observe(plan, tally)
        self.decision = Decision.UNDECIDED
        distance = np.abs(self.tally.gaps) - THRESHOLD
        z = -math.sqrt(2) * math.sqrt(math.log(1 / (2 * self._delta)))
        if (self.tally.errors > 0).any() and (distance / np.maximum(self.tally.errors, 1e-9) > -z).any():
            self.decision = Decision.UNFAIR


class _Hindsight(BettingRule):
    """Not sound: the best of all pairs bets, chosen after the batch instead of before it."""

    def observe(self, plan, tally) -> None:  # type: ignore[no-untyped-def]
        super().observe(plan, tally)
        every = log_wealth(tally.cells, against_at_most(THRESHOLD))
        outcome, i, j = np.unravel_index(int(every.argmax()), every.shape)
        self.hindsight = getattr(self, "hindsight", 0) + tally.cells[outcome, i, j]
        if log_wealth(self.hindsight, against_at_most(THRESHOLD)) >= self._bar:
            self.decision = Decision.UNFAIR


@pytest.mark.parametrize("unsound", [_Peeking, _Hindsight])
def test_rules_that_peek_or_choose_with_hindsight_fail_this_very_test(unsound: type) -> None:
    assert wrong_verdicts(unsound, 9, 0.1, narrow=False) > limit(0.1)


def test_verdicts_away_from_the_boundary_are_right() -> None:
    """Power: 60 runs at delta 1e-6, so one wrong verdict has chance below 1e-4."""
    for run in range(30):
        fair, _ = simulate(BettingRule(3, 1, 0.1, 1e-6), [0.5, 0.52, 0.55], run, 10**6)
        unfair, _ = simulate(BettingRule(3, 1, 0.1, 1e-6), [0.5, 0.52, 0.65], run, 10**6)
        assert (fair, unfair) == (Decision.FAIR, Decision.UNFAIR)


def test_leaving_groups_out_saves_evaluations() -> None:
    probabilities = [0.3] + [0.4] * 8 + [0.48]
    costs = {}
    for narrow in (True, False):
        costs[narrow] = np.mean(
            [simulate(BettingRule(10, 1, 0.1, 1e-6, narrow=narrow), probabilities, run, 10**6)[1] for run in range(10)]
        )
    assert costs[True] < 0.6 * costs[False]


def test_of_many_tied_pairs_few_groups_are_sampled() -> None:
    """Ten groups are equally far above ten others; all groups in all rounds would take about 28,000 evaluations."""
    probabilities = [0.545] * 10 + [0.4] * 10
    taken = []
    for run in range(10):
        rng, rule, evaluations = np.random.default_rng(run), BettingRule(20, 1, 0.1, 1e-6), 0
        while (plan := rule.plan()) is not None:
            labels = (rng.random(plan.rounds) < np.array(probabilities)[list(plan.groups), None]).astype(np.uint8)
            rule.observe(plan, Tally.of_batch(plan.rounds, count_together(labels, [1]), plan.groups, 20))
            evaluations += plan.rounds * len(plan.groups)
        assert rule.decision is Decision.UNFAIR
        taken.append(evaluations)
    assert np.mean(taken) < 3.5 * 2757
