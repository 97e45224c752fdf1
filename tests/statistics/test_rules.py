"""What the rules do with counts: monotone answers, estimates of the promised accuracy, the paper's constant."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaln
from scipy.stats import binom

from fairchain.statistics import (
    DIFFERENCE,
    RATIO,
    SHARE,
    BatchPlan,
    BettingRule,
    Decision,
    EstimateRule,
    PaperRule,
    Payoff,
    Tally,
    count_together,
)
from fairchain.statistics.payoff import payoff_of
from fairchain.statistics.rules import betting_batch, every_pair
from tests.statistics.simulation import simulate


def after(threshold: float, delta: float, together: np.ndarray, rounds: int) -> BettingRule:
    """A rule that has seen a first batch without a leader, and then the same counts again with one."""
    rule = BettingRule(2, 1, threshold, delta)
    tally = Tally.of_batch(rounds, together, (0, 1), 2)
    rule.observe(BatchPlan(rounds, (0, 1)), tally)
    leader = rule.widest()
    if rule.decision is Decision.UNDECIDED:
        rule.observe(BatchPlan(rounds, (0, 1), leader), tally)
    return rule


@st.composite
def batches(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    n11, n10, n01, n00 = (draw(st.integers(0, 2000)) for _ in range(4))
    return np.array([[[n11 + n10, n11], [n11, n11 + n01]]]), n11 + n10 + n01 + n00 + 1


@given(batch=batches(), thresholds=st.tuples(st.floats(0.01, 0.9), st.floats(0.01, 0.9)))
def test_fair_stays_fair_at_a_larger_threshold_and_unfair_at_a_smaller(
    batch: tuple[np.ndarray, int], thresholds: tuple[float, float]
) -> None:
    low, high = sorted(thresholds)
    at_low, at_high = (after(t, 0.01, *batch).decision for t in (low, high))
    if at_low is Decision.FAIR:
        assert at_high is Decision.FAIR
    if at_high is Decision.UNFAIR:
        assert at_low is Decision.UNFAIR


@given(batch=batches(), deltas=st.tuples(st.floats(1e-9, 0.5), st.floats(1e-9, 0.5)))
def test_a_verdict_at_a_small_delta_is_one_at_a_large_delta(
    batch: tuple[np.ndarray, int], deltas: tuple[float, float]
) -> None:
    strict, lax = sorted(deltas)
    decided = after(0.1, strict, *batch).decision
    if decided is not Decision.UNDECIDED:
        assert after(0.1, lax, *batch).decision is decided


@settings(max_examples=40)
@given(batch=batches())
def test_the_bounds_of_the_gap_agree_with_the_verdict(batch: tuple[np.ndarray, int]) -> None:
    rule = after(0.1, 0.01, *batch)
    estimate, low, high = rule.gap()
    assert 0 <= low <= high <= 1
    assert 0 <= estimate <= 1
    if rule.decision is Decision.FAIR:
        assert high <= 0.1 + 1e-9
    if rule.decision is Decision.UNFAIR:
        assert low >= 0.1 - 1e-9


def test_an_undecided_rule_forecasts_what_is_still_needed() -> None:
    rule = BettingRule(2, 1, 0.1, 1e-6)
    simulate(rule, [0.5, 0.53], seed=3, most=200)
    forecast = rule.forecast()
    assert rule.decision is Decision.UNDECIDED
    assert forecast is not None
    _, evaluations = simulate(BettingRule(2, 1, 0.1, 1e-6), [0.5, 0.53], seed=3, most=10**6)
    assert 0.2 < (200 + forecast) / (evaluations / 2) < 5


def test_only_pairs_known_to_be_above_the_threshold_are_named() -> None:
    rule = BettingRule(3, 1, 0.1, 1e-3, narrow=False)
    rule.observe(BatchPlan(5000, (0, 1, 2)), _batch([0.3, 0.33, 0.6], 5000))
    assert {(i, j) for i, j, _ in rule.violators()} == {(2, 0), (2, 1)}


def _batch(probabilities: list[float], rounds: int) -> Tally:
    u = np.random.default_rng(0).random(rounds)
    got = (u < np.array(probabilities)[:, None]).astype(int)
    return Tally.of_batch(rounds, np.array([got @ got.T]), range(len(probabilities)), len(probabilities))


@pytest.mark.parametrize("coupled", [True, False])
def test_estimates_are_as_exact_as_promised(coupled: bool) -> None:
    """200 runs at delta 0.1: more than the limit are off with probability below 1e-6."""
    truth, epsilon, delta, runs = np.array([0.5, 0.3, 0.42]), 0.05, 0.1, 200
    gap = truth[:, None] - truth
    off = 0
    for run in range(runs):
        rule = EstimateRule(3, 1, 0.1, delta, epsilon)
        simulate(rule, truth.tolist(), seed=run, most=10**6, coupled=coupled)
        assert rule.plan() is None
        low, high = rule.probabilities()
        assert (np.maximum(rule.rates() - low, high - rule.rates()) <= epsilon).all()
        right = (np.abs(rule.rates()[0] - truth) <= epsilon).all() and (
            np.abs(rule.tally.gaps[0] - gap) <= epsilon
        ).all()
        off += not right
    assert off <= binom.ppf(1 - 1e-6, runs, delta)


def test_estimates_cost_little_more_than_knowing_the_answer_would() -> None:
    """p = 1/2, epsilon 0.005: about 50,000 rounds would do for somebody who knew p."""
    rule = EstimateRule(2, 1, 0.1, 0.05, 0.005)
    simulate(rule, [0.5, 0.5], seed=0, most=10**7)
    assert rule.plan() is None
    assert 40_000 < int(rule.tally.trials[0]) < 75_000


def _spent_at_any_time(successes: int, trials: int, low: float) -> float:
    """The level whose any-time interval of this count begins at `low`: the likelihood there over the mixture."""
    failures = trials - successes
    likelihood = successes * np.log(low) + failures * np.log1p(-low)
    return float(np.exp(likelihood - betaln(successes + 1, failures + 1)))


def _spent_exactly(successes: int, trials: int, low: float) -> float:
    """The level, both sides together, whose Clopper-Pearson interval of this count begins at `low`."""
    return 2 * float(binom.sf(successes - 1, trials, low))


def test_the_intervals_of_all_tries_and_of_a_run_cut_short_spend_one_share_together() -> None:
    """What each interval spends is read off its ends; a run may show the one or the other, so they must sum up.

    Every third round has the outcome, so that the interval of a rate of 1/3 at epsilon 0.01 is never good enough
    early; tries are made to end by setting what they want.
    """
    delta, groups = 0.1, 2
    share = delta / 2 / groups

    def played(rule: EstimateRule, rounds: int) -> EstimateRule:
        got = np.tile(np.arange(rounds) % 3 == 0, (groups, 1)).astype(np.uint8)
        plan = rule.plan()
        assert plan is not None
        rule.observe(plan, Tally.of_batch(rounds, count_together(got, [1]), (0, 1), groups))
        return rule

    cut = played(EstimateRule(groups, 1, 0.1, delta, 0.01), 900)
    low, _ = cut.probabilities()
    spent = [_spent_at_any_time(300, 900, low[0, 0])]
    for tries in range(1, 8):
        rule = played(EstimateRule(groups, 1, 0.1, delta, 0.01), 1024)
        for _ in range(tries - 1):
            played(rule, rule._wanted // 3)
            rule._wanted = int(rule._fresh.joint.max())
            rule._finish_try()
        played(rule, 3 * 40_000)
        low, high = rule.probabilities()
        assert rule.rates()[0, 0] == pytest.approx(1 / 3)
        assert high[0, 0] - low[0, 0] < 0.02
        spent.append(_spent_exactly(40_000, 120_000, low[0, 0]))
    # Each later try spends half of the one before it.
    assert spent[-1] == pytest.approx(spent[-2] / 2, rel=1e-3)
    assert 0.9 * share < sum(spent) + spent[-1] <= share * (1 + 1e-3)


def test_the_papers_rule_stops_at_its_constant_whatever_the_data() -> None:
    """About 1401 for each of two groups at accuracy 0.01: where its 2850 traces come from."""
    stops = set()
    for probabilities in ([0.5, 0.5], [0.1, 0.9], [0.01, 0.99]):
        rule = PaperRule(2, 1, 0.1, 0.1, 0.01, labels=2)
        simulate(rule, probabilities, seed=1, most=10**6, coupled=False)
        stops.add(int(rule.tally.trials.min()))
    assert len(stops) == 1
    assert stops.pop() == pytest.approx(1402, abs=15)


def test_the_papers_accuracy_is_missed_far_more_often_than_promised() -> None:
    """It promises each probability within 0.005 with probability 0.95; a sound rule would fail this in 1e-6."""
    missed, runs = 0, 100
    for run in range(runs):
        rule = PaperRule(2, 1, 0.1, 0.1, 0.01, labels=2)
        simulate(rule, [0.5, 0.5], seed=run, most=10**6, coupled=False)
        missed += bool((np.abs(rule.rates() - 0.5) > 0.005).any())
    assert missed > binom.ppf(1 - 1e-6, runs, 0.05)
    assert not rule.sound


def test_the_papers_answer_is_its_estimate() -> None:
    rule = PaperRule(2, 1, 0.1, 0.1, 0.05, labels=2)
    simulate(rule, [0.2, 0.6], seed=0, most=10**6, coupled=False)
    assert rule.decision is Decision.UNFAIR
    assert math.isclose(rule.gap()[0], float(np.ptp(rule.rates())))


@given(
    done=st.integers(1, 10**7),
    to_go=st.one_of(st.floats(0, 1e9), st.just(math.inf)),
    evaluated=st.integers(2, 9),
    above=st.booleans(),
)
def test_a_batch_is_short_enough_for_progress_and_long_enough_to_be_worth_a_look(
    done: int, to_go: float, evaluated: int, above: bool
) -> None:
    rounds = betting_batch(done, 9, 1, to_go, evaluated=evaluated, above=above)
    assert rounds <= max(32, done // 8, min(done, 1024))
    assert rounds >= min(max(8, done // 32), 32 * 1024)
    # A forecast that is right is never passed by more than the least batch.
    assert rounds <= max(to_go + 1, 8, done // 12)


@pytest.mark.parametrize(("gap", "looks"), [(0.0, 6), (0.05, 7), (0.3, 5)])
def test_few_looks_decide_about_two_groups(gap: float, looks: int) -> None:
    """Batches that grow by an eighth take 6, 24 and 6 looks at these rounds."""
    rng, rule, seen = np.random.default_rng(3), BettingRule(2, 1, 0.1, 1e-6), 0
    while (plan := rule.plan()) is not None:
        uniform = rng.random(plan.rounds)
        labels = np.stack([uniform < 0.5 + gap, uniform < 0.5]).astype(np.uint8)
        rule.observe(plan, Tally.of_batch(plan.rounds, count_together(labels, [1]), (0, 1), 2))
        seen += 1
    assert seen <= looks


@pytest.mark.parametrize("payoff", [DIFFERENCE, RATIO, SHARE])
@pytest.mark.parametrize(
    "chances", [(0.5, 0.47), (0.5, 0.47, 0.44), (0.2, 0.25, 0.45, 0.4), (0.6, 0.59, 0.58, 0.5, 0.4)]
)
def test_pairs_are_looked_at_one_by_one_as_all_at_once(
    payoff: Payoff, chances: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which pairs are cleared, which groups are sampled and for how long do not depend on how it is computed."""
    groups = len(chances)
    # Of a share one way round is bet on.
    compared = np.triu(np.ones((1, groups, groups), bool), 1) if payoff.share else None
    found = []
    for most in (0, 4, 100):
        monkeypatch.setattr("fairchain.statistics.betting.MOST_ONE_BY_ONE", most)
        rule = BettingRule(groups, 1, 0.1, 1e-6, payoff=payoff, compared=compared)
        rng, plans = np.random.default_rng(groups), []
        while len(plans) < 40 and (plan := rule.plan()) is not None:
            got = (rng.random(plan.rounds) < np.array(chances)[list(plan.groups), None]).astype(np.uint8)
            rule.observe(plan, Tally.of_batch(plan.rounds, count_together(got, [1]), plan.groups, groups))
            plans.append((plan, rule.cleared.tolist()))
        found.append((plans, rule.decision))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("groups", [2, 3, 4, 6])
@pytest.mark.parametrize("reference", [False, True])
def test_gaps_found_one_by_one_lead_to_the_plans_of_arrays(
    groups: int, reference: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gaps near the threshold, where the leader changes and falls below it, and equal gaps in the first rounds."""
    compared = every_pair(groups, 2)
    if reference:
        # How far the others are behind the first group.
        compared[:, 1:] = False
    payoff = payoff_of("difference", compared)
    for seed in range(20):
        found = []
        for most in (0, 80):
            monkeypatch.setattr("fairchain.statistics.betting.MOST_GAPS_ONE_BY_ONE", most)
            rng, plans = np.random.default_rng(seed), []
            chances = 0.4 + 0.12 * rng.random((groups, 1))
            rule = BettingRule(groups, 2, 0.1, 1e-6, payoff=payoff, compared=compared)
            assert bool(rule._plain_pairs) == bool(most)
            while len(plans) < 60 and (plan := rule.plan()) is not None:
                got = (rng.random(plan.rounds) < chances[list(plan.groups)]).astype(np.uint8)
                rule.observe(plan, Tally.of_batch(plan.rounds, count_together(got, [0, 1]), plan.groups, groups))
                plans.append(plan)
            found.append((plans, rule.decision))
        assert found[0] == found[1]
