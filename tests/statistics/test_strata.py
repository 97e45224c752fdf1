"""Rounds in the open part of a population: bounds are those of a plain run, scaled, with the same error probability."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fairchain.statistics import Decision, Tally
from fairchain.statistics.betting import BettingRule
from fairchain.statistics.payoff import DIFFERENCE, RATIO, SHARE, Payoff
from fairchain.statistics.rules import BatchPlan, every_pair
from fairchain.statistics.strata import StrataRule

# Rounds of both groups, in which the first pair bets on being unfair.
PLAN = BatchPlan(200, (0, 1), (0, 1, 0))


def tally_of(rounds: int, only_first: int, both: int, only_second: int) -> Tally:
    first, second = only_first + both, only_second + both
    return Tally.of_batch(rounds, np.array([[[first, both], [both, second]]]), (0, 1), 2)


def strata_rule(threshold: str = "0.1", delta: float = 0.05, *, payoff: Payoff = DIFFERENCE) -> StrataRule:
    compared = every_pair(2, 1)
    return StrataRule(2, 1, Fraction(threshold), delta, np.triu(compared) if payoff.share else compared, payoff=payoff)


@pytest.mark.parametrize("payoff", [DIFFERENCE, RATIO, SHARE])
def test_with_nothing_settled_every_bound_is_that_of_a_plain_run(payoff: Payoff) -> None:
    """So it is while all inputs are drawn, and so it is in a stratum in which nothing is settled."""
    compared = np.triu(every_pair(2, 1)) if payoff.share else every_pair(2, 1)
    plain = BettingRule(2, 1, 0.1, 0.05, compared=compared, payoff=payoff)
    everywhere, strata = (strata_rule(payoff=payoff) for _ in range(2))
    strata.begin(np.zeros((1, 2)), 1.0, 0.0)
    rng = np.random.default_rng(0)
    for _ in range(6):
        counts = rng.multinomial(60, [0.2, 0.0, 0.0, 0.8] if payoff.share else [0.2, 0.3, 0.1, 0.4])[:3]
        before = plain.plan()
        if before is None:
            break
        assert everywhere.plan() == before
        assert strata.plan().leader == before.leader
        for rule in (plain, everywhere, strata):
            rule.observe(before, tally_of(60, *counts.tolist()))
        assert everywhere.gap()[1:] == plain.gap()[1:]
        assert strata.gap() == pytest.approx(plain.gap(), abs=1e-9)
        assert strata.decision is everywhere.decision is plain.decision
        # Bounds of rates come from other bets than those of a plain run, and are about as narrow.
        (low, high), (plain_low, plain_high) = everywhere.probabilities(), plain.probabilities()
        assert (high - low).max() <= 1.1 * (plain_high - plain_low).max()
    assert plain.trials.max() >= 180


def test_rounds_of_a_new_stratum_belong_to_groups_with_open_pairs() -> None:
    """Of others boxes may have been put aside, so that a round would say nothing about them."""
    compared = every_pair(3, 1)
    rule = StrataRule(3, 1, Fraction("0.1"), 0.05, compared)
    # The third group has the widest gap so far, and is cleared for sure; the first two are not.
    together = np.array([[[10, 5, 0], [5, 10, 0], [0, 0, 0]]])
    rule.observe(rule.plan(), Tally.of_batch(40, together, (0, 1, 2), 3))
    rule.cleared[:, 2, :] = rule.cleared[:, :, 2] = True
    assert 2 in rule.widest()[:2]
    rule.begin(np.zeros((1, 3)), 0.5, 0.0)
    plan = rule.plan()
    assert plan.groups == (0, 1)
    assert plan.leader is not None
    assert set(plan.leader[:2]) == {0, 1}


def test_an_interval_is_the_settled_gap_plus_the_open_part_of_a_plain_interval() -> None:
    plain, strata = (strata_rule("0.5") for _ in range(2))
    strata.begin(np.array([[0.3, 0.2]]), 0.25, 0.0)
    for rule in (plain, strata):
        for _ in range(2):
            rule.observe(PLAN, tally_of(200, 60, 30, 20))
    (_, low, high), (_, plain_low, plain_high) = strata.gap(), plain.gap()
    assert (low, high) == pytest.approx((0.1 + 0.25 * plain_low, 0.1 + 0.25 * plain_high), abs=1e-9)


def test_wealth_is_carried_into_a_new_stratum() -> None:
    rule = strata_rule("0.5")
    for _ in range(3):
        rule.observe(PLAN, tally_of(200, 60, 30, 20))
    _, low, high = rule.gap()
    rule.begin(np.array([[0.1, 0.0]]), 0.5, 0.0)
    _, after_low, after_high = rule.gap()
    # Nothing was drawn yet, and no wealth is lost by spreading it anew.
    assert (after_low, after_high) == pytest.approx((low, high), abs=1e-9)
    for _ in range(3):
        rule.observe(PLAN, tally_of(200, 40, 30, 20))
    assert rule.gap()[2] - rule.gap()[1] < high - low


def test_certain_bounds_decide_with_the_exact_threshold() -> None:
    rule = strata_rule("0.3")
    rule.bound(np.array([[0.5, 0.25]]), np.array([[0.5, 0.25]]))
    assert (rule.decision, rule.proved) == (Decision.FAIR, True)
    at = strata_rule("0.25")
    at.bound(np.array([[0.5, 0.25]]), np.array([[0.5, 0.25]]))
    assert at.decision is Decision.FAIR
    # 0.3 - 0.1 is below 0.2 as floating numbers, and above it as the numbers that they are.
    near = strata_rule("0.2")
    near.bound(np.array([[0.3, 0.1]]), np.array([[0.3, 0.1]]))
    exactly = Fraction(0.3) - Fraction(0.1)
    assert near.decision is (Decision.UNFAIR if exactly > Fraction("0.2") else Decision.FAIR)


def wrong_share(rule_of: type[StrataRule], runs: int = 150, delta: float = 0.1) -> float:
    """The share of runs with a verdict at a gap of exactly the threshold, where every verdict is wrong.

    Settled: 0.2 of the first rate, 0.15 of the second; open, with probability 0.5 and then 0.25, a gap that makes the
    whole 0.1. A verdict at the threshold has probability at most delta.
    """
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(runs):
        rule = rule_of(2, 1, Fraction("0.1"), delta, every_pair(2, 1))
        for settled, mass, cells in (
            ([0.2, 0.15], 0.5, [0.2, 0.1, 0.1, 0.6]),
            ([0.3, 0.25], 0.25, [0.3, 0.1, 0.1, 0.5]),
        ):
            rule.begin(np.array([settled]), mass, 0.0)
            for _ in range(5):
                if rule.decision is Decision.UNDECIDED:
                    rule.observe(rule.plan(), tally_of(100, *rng.multinomial(100, cells)[:3].tolist()))
        wrong += rule.decision is not Decision.UNDECIDED
    return wrong / runs


def test_a_gap_at_the_threshold_gets_a_verdict_with_probability_at_most_delta() -> None:
    # At a true probability of 0.1 more than 18.5% of 150 runs has a chance below 1e-3.
    assert wrong_share(StrataRule) <= 0.185


def test_a_rule_that_forgets_what_is_settled_fails_this_test() -> None:
    class Forgetful(StrataRule):
        def begin(self, settled: np.ndarray, mass: float, slack: float) -> None:
            super().begin(np.zeros_like(settled), mass, slack)

    assert wrong_share(Forgetful, runs=60) > 0.5


def test_rates_and_their_bounds_contain_the_truth() -> None:
    # Bounds at delta 1e-3 for both rates: 60 runs are wrong somewhere with a chance below 6%; the seed is fixed.
    rng = np.random.default_rng(2)
    for _ in range(60):
        rule = strata_rule("0.9", 1e-3)
        rule.bound(np.array([[0.2, 0.1]]), np.array([[0.7, 0.6]]))
        rule.begin(np.array([[0.2, 0.1]]), 0.5, 0.0)
        for _ in range(4):
            rule.observe(rule.plan(), tally_of(100, *rng.multinomial(100, [0.3, 0.2, 0.1, 0.4])[:3].tolist()))
        low, high = rule.probabilities()
        truth = np.array([[0.2 + 0.5 * 0.5, 0.1 + 0.5 * 0.3]])
        assert ((low <= truth) & (truth <= high)).all()
        assert ((low <= rule.rates()) & (rule.rates() <= high)).all()


def test_a_proved_answer_has_certain_bounds_only() -> None:
    rule = strata_rule("0.2")
    for _ in range(3):
        rule.observe(PLAN, tally_of(400, 200, 100, 20))
    sampled = rule.gap()
    rule.bound(np.array([[0.6, 0.1]]), np.array([[0.9, 0.35]]))
    assert rule.proved
    assert rule.gap()[1:] == pytest.approx((0.25, 0.8))
    assert rule.gap()[2] > sampled[2]
    low, high = rule.probabilities()
    assert (low.tolist(), high.tolist()) == ([[0.6, 0.1]], [[0.9, 0.35]])


def test_a_pair_that_certain_bounds_clear_is_not_waited_for() -> None:
    """The second group has at least 0.4 and the first at most 0.5: sampling has to clear the other direction only."""
    rule = StrataRule(2, 1, Fraction(1, 10), 0.1, every_pair(2, 1))
    rule.bound(np.array([[0.5, 0.4]]), np.array([[0.7, 0.6]]))
    rng = np.random.default_rng(0)
    while rule.decision is Decision.UNDECIDED and rule.rounds < 10_000:
        plan = rule.plan()
        labels = (rng.random(plan.rounds) < np.array([[0.5], [0.6]])).astype(np.int64)[list(plan.groups)]
        rule.observe(plan, Tally.of_batch(plan.rounds, (labels @ labels.T)[None], plan.groups, 2))
        assert rule.decision is Decision.FAIR or not rule.cleared.all()
    assert rule.decision is Decision.FAIR
