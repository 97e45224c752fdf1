"""The methods that fairchain is compared with do what their descriptions say."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

RATES = np.array([0.30, 0.35, 0.38])


def baseline(name: str) -> Any:
    return import_module(f"benchmarks.baselines.{name}")


def counting(rates: np.ndarray, runs: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return lambda people: rng.binomial(people, rates, (runs, len(rates)))


def test_bounds_of_rates_bound_the_largest_difference() -> None:
    counts = baseline("counts")
    low, high = counts.difference(np.array([[0.1, 0.3, 0.5]]), np.array([[0.2, 0.4, 0.6]]))
    assert (low[0], high[0]) == (pytest.approx(0.3), pytest.approx(0.5))
    assert counts.verdicts_of((low, high), 0.5).tolist() == ["FAIR"]
    assert counts.verdicts_of((low, high), 0.4).tolist() == ["UNDECIDED"]
    assert counts.verdicts_of((low, high), 0.2).tolist() == ["UNFAIR"]


def test_a_planned_sample_decides_in_about_nine_of_ten_runs_and_a_quarter_of_it_does_not() -> None:
    fixed = baseline("fixed_sample")
    people = fixed.planned(RATES, 0.1, 1e-3)
    for share, least, most in ((1.0, 0.85, 1.0), (0.25, 0.0, 0.1)):
        size = int(share * people)
        said = fixed.fixed_sample(counting(RATES, 400)(size), size, 0.1, 1e-3)
        assert set(said.tolist()) <= {"FAIR", "UNDECIDED"}
        assert least <= (said == "FAIR").mean() <= most


@pytest.mark.parametrize(
    ("rule", "module"), [("confidence_sequences", "sequences"), ("verifair_on_counts", "verifair")]
)
def test_sequential_rules_decide_right_and_each_run_by_itself(rule: str, module: str) -> None:
    decide = getattr(baseline(module), rule)
    fair, unfair = (decide(counting(RATES, 20), 3, threshold, 1e-3) for threshold in (0.16, 0.01))
    assert set(fair.decisions.tolist()) == {"FAIR"}
    assert set(unfair.decisions.tolist()) == {"UNFAIR"}
    assert len(set(fair.evaluations.tolist())) > 1
    assert (fair.evaluations % 3 == 0).all()
    # At the threshold itself nothing is said, however long it takes.
    cut = decide(counting(RATES, 50), 3, 0.08, 1e-3, most=10_000)
    assert set(cut.decisions.tolist()) == {"UNDECIDED"}


def test_verifair_on_counts_needs_what_it_needs_sample_by_sample() -> None:
    rule = baseline("verifair")

    def draw(first: int, count: int) -> Any:
        return np.random.default_rng(first).random((3, count)) < RATES[:, None]

    one = rule.verifair(draw, 3, 0.2, 1e-6).evaluations
    many = rule.verifair_on_counts(counting(RATES, 20), 3, 0.2, 1e-6).evaluations
    assert 0.7 * one < many.mean() < 1.4 * one


def test_the_bootstrap_by_counts_is_that_of_fairlearn() -> None:
    bootstrap = baseline("bootstrap")
    got = np.random.default_rng(3).random((2, 300)) < np.array([[0.3], [0.5]])
    own = bootstrap.by_fairlearn(got, 0, resamples=20)
    low, high = bootstrap.bootstrap(got.sum(axis=1)[None], 300, 0, resamples=2000)
    # Quantiles of 20 resamples whose standard deviation is 0.04.
    assert own == (pytest.approx(low[0], abs=0.08), pytest.approx(high[0], abs=0.08))


def test_with_many_groups_the_bootstrap_calls_fair_networks_unfair() -> None:
    bootstrap, counts = baseline("bootstrap"), baseline("counts")
    rates = np.array([0.3] * 4 + [0.39] * 5)
    said = counts.verdicts_of(bootstrap.bootstrap(counting(rates, 100)(2000), 2000, 0), 0.1)
    assert (said == "UNFAIR").mean() > 0.2


def drawing(rates: np.ndarray) -> Any:
    return lambda first, count: np.random.default_rng(first).random((len(rates), count)) < rates[:, None]


def test_each_group_gets_what_the_authors_of_verifair_give_it() -> None:
    rule = baseline("verifair")
    for groups in (2, 9):
        # Nobody gets the outcome, so the rule stops as soon as the bounds are narrow enough.
        stopped = rule.verifair(drawing(np.zeros(groups)), groups, 0.1, rule.authors_delta(groups))
        people = stopped.evaluations // groups
        assert stopped.decision == "FAIR"
        assert 2 * rule.half_width(people, 5e-11) <= 0.1 < 2 * rule.half_width(people - 1, 5e-11)


def test_sequences_on_a_network_need_what_they_need_on_counts() -> None:
    rule = baseline("sequences")
    one = rule.sequences_on_network(drawing(RATES), 3, 0.2, 1e-6)
    many = rule.confidence_sequences(counting(RATES, 20), 3, 0.2, 1e-6)
    assert {one.decision} == set(many.decisions.tolist()) == {"FAIR"}
    assert 0.9 * many.evaluations.min() <= one.evaluations <= 1.1 * many.evaluations.max()


def test_a_run_goes_on_where_looks_are_farther_apart_than_a_piece() -> None:
    counts = baseline("counts")

    def never_before(successes: Any, people: Any) -> Any:
        late = np.where(people > 250_000, 0.0, 1.0)
        return late - 1, late

    stopped = counts.first_decided(
        drawing(np.array([0.0, 0.0])), 2, never_before, 0.1, first=128, growth=1.01, most=10**7
    )
    looks = [128]
    while looks[-1] <= 250_000:
        looks.append(max(looks[-1] + 1, int(looks[-1] * 1.01)))
    assert (stopped.decision, stopped.evaluations) == ("FAIR", 2 * looks[-1])


def test_exact_bounds_are_left_out_only_where_they_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = baseline("sequences")
    cases = [(np.array(rates), xi) for rates, xi in (([0.1, 0.6], 0.2), ([0.001, 0.002], 0.1))]

    def evaluations() -> list[list[int]]:
        runs = [rule.confidence_sequences(counting(rates, 5), 2, xi, 1e-3) for rates, xi in cases]
        return [each.evaluations.tolist() for each in runs]

    some = evaluations()
    monkeypatch.setattr(rule, "WORTH", 0.0)
    assert some == evaluations()
