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
    assert counts.said((low, high), 0.5).tolist() == ["FAIR"]
    assert counts.said((low, high), 0.4).tolist() == ["UNDECIDED"]
    assert counts.said((low, high), 0.2).tolist() == ["UNFAIR"]


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
    said = counts.said(bootstrap.bootstrap(counting(rates, 100)(2000), 2000, 0), 0.1)
    assert (said == "UNFAIR").mean() > 0.2
