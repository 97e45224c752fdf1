"""Forecasts: simulated rounds have the stated rates, and the rule that is run is the rule of verdicts."""

from __future__ import annotations

from fractions import Fraction
from statistics import fmean

import numpy as np
import pytest

from fairchain import example, load_spec, verify
from fairchain.spec import comparison_of, revise
from fairchain.statistics import BettingRule, Decision, Tally
from fairchain.statistics.forecast import RoundAnswers, Spread, differing, forecast_run
from fairchain.statistics.rate_counts import RowsAnswer, SubgroupCounts, decided_samples
from fairchain.statistics.rules import every_pair
from fairchain.verification.sampling import betting_rule


@pytest.mark.parametrize("rates", [[0.3, 0.25], [0.5, 0.5, 0.4], list(np.linspace(0.9, 0.6, 9)), [0.3] * 14])
@pytest.mark.parametrize("part", [0.0, 0.3, 1.0])
def test_assumed_rounds_have_the_rates_and_the_differences_that_are_assumed(rates: list[float], part: float) -> None:
    least, most = differing(rates)
    answers = RoundAnswers.assumed(rates, least + part * (most - least))
    assert answers.shares.sum() == pytest.approx(1)
    assert answers.shares @ answers.labels == pytest.approx(rates, abs=1e-4)
    i, j = np.triu_indices(len(rates), 1)
    found = (answers.shares @ (answers.labels[:, i] != answers.labels[:, j])).mean()
    # Of more than twelve groups the patterns are drawn: 2**13 of them.
    assert found == pytest.approx(least + part * (most - least), abs=1e-9 if len(rates) <= 12 else 0.01)


def test_rounds_that_were_seen_have_their_own_frequencies() -> None:
    answers = RoundAnswers.seen(np.array([[0, 1, 1, 1], [2, 1, 1, 0]]))
    found = {tuple(row): share for row, share in zip(answers.labels.tolist(), answers.shares.tolist(), strict=True)}
    assert found == {(0, 2): 0.25, (1, 1): 0.5, (1, 0): 0.25}


@pytest.mark.parametrize("rounds", [5, 10_000])
def test_drawn_patterns_have_their_shares(rounds: int) -> None:
    answers = RoundAnswers.assumed(list(np.linspace(0.2, 0.7, 10)))
    rng = np.random.default_rng(3)
    total = sum(answers.draw(rounds, rng) for _ in range(100_000 // rounds))
    assert total.sum() == 100_000 // rounds * rounds
    # Six standard errors: a false alarm has a chance of about 2e-9 for each of ten rates.
    assert total @ answers.labels / total.sum() == pytest.approx(
        answers.shares @ answers.labels, abs=6 * 0.5 / total.sum() ** 0.5
    )


def test_a_forecast_is_the_mean_of_the_rule_round_by_round() -> None:
    """The same rule on rounds that are drawn one by one, without patterns: means of 200 runs within 15%.

    Runs vary by about 40% of their mean, so that two means of 200 differ by 4%: 15% is nearly four standard errors.
    """
    rates, delta = np.array([0.4, 0.35, 0.33]), 1e-3
    forecast = forecast_run(lambda: BettingRule(3, 1, 0.15, delta), RoundAnswers.assumed(rates.tolist()), runs=200)
    rng, spent = np.random.default_rng(5), []
    for _ in range(200):
        rule, evaluations = BettingRule(3, 1, 0.15, delta), 0
        while (plan := rule.plan()) is not None:
            hits = (rng.random((plan.rounds, 3)) < rates)[:, list(plan.groups)].astype(np.int64)
            rule.observe(plan, Tally.of_batch(plan.rounds, (hits.T @ hits)[None], plan.groups, 3))
            evaluations += plan.rounds * len(plan.groups)
        spent.append(evaluations)
    assert forecast.evaluations.mean == pytest.approx(fmean(spent), rel=0.15)
    assert forecast.decision == "FAIR"
    assert forecast.evaluations.most > forecast.evaluations.mean > forecast.rounds.mean


@pytest.mark.parametrize(("name", "protected"), [("census", "sex"), ("census", "race"), ("credit", "sex")])
def test_a_forecast_from_the_models_own_rounds_is_near_the_mean_of_verdicts(name: str, protected: str) -> None:
    spec = revise(load_spec(example(name)), property__protected=[protected])
    comparison = comparison_of(spec)
    verdicts = [verify(None, spec, seed=seed) for seed in range(12)]
    rates = [group.probability.estimate for group in verify(None, spec, seed=99, epsilon=0.01).groups]
    rates = rates[-len(comparison.subgroups) :]
    least, most = differing(rates)
    found = forecast_run(
        lambda: betting_rule(comparison, 0.1, spec.guarantee.delta),
        RoundAnswers.assumed(rates, least + 0.05 * (most - least)),
    )
    assert found.evaluations.mean == pytest.approx(fmean(each.evaluations for each in verdicts), rel=0.35)


def test_a_gap_at_the_threshold_has_no_end_in_sight() -> None:
    answers = RoundAnswers.assumed([0.3, 0.2])
    found = forecast_run(lambda: BettingRule(2, 1, 0.1, 1e-6), answers, runs=5, most_rounds=10**6)
    assert found.evaluations == Spread(None, None)
    assert found.decisions == {"UNDECIDED": 5}


def test_a_spread_is_the_mean_and_the_95th_of_100() -> None:
    assert Spread.of(np.arange(1, 101)) == Spread(50.5, 95)
    assert Spread.of([1, np.inf]) == Spread(None, None)
    assert Spread.of([*range(99), np.inf]) == Spread(None, 94)


@pytest.mark.parametrize("measure", ["difference", "ratio"])
@pytest.mark.parametrize("fair", [False, True])
def test_samples_are_decided_as_a_table_is(measure: str, fair: bool) -> None:
    rng = np.random.default_rng(1)
    trials, compared = np.array([400, 300, 900]), every_pair(3, 2)
    rates = [0.5, 0.48, 0.5] if fair else [0.6, 0.3, 0.5]
    successes = rng.binomial(trials, rates, (40, 3))
    table = np.stack([trials - successes, successes], axis=1)
    limit = Fraction(1, 5)
    found = decided_samples(trials, table, compared, measure, 0.05, limit, fair=fair)
    wanted = Decision.FAIR if fair else Decision.UNFAIR
    expected = [
        RowsAnswer(SubgroupCounts(trials, each), compared, measure, limit, 0.05, disjoint=True).decision is wanted
        for each in table
    ]
    assert found.tolist() == expected
    assert any(expected)
