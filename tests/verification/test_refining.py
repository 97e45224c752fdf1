"""Intervals after the verdict: narrower, valid at all times, the same on every machine, and checked by the recheck."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain import Verdict, recheck, verify, write_certificate
from fairchain.certificate_format import digest
from fairchain.examples import example
from fairchain.rechecking import arithmetic
from fairchain.spec import Spec, load_spec, revise
from fairchain.statistics import BettingRule, Decision, Tally, count_together
from fairchain.statistics.intervals import probability_any_time, trials_within
from fairchain.verification.verdict import RunRecord
from tests.statistics.simulation import cut


def spec_of(name: str = "census", **changes: Any) -> Spec:
    return revise(load_spec(example(name)), **{"guarantee__refine": 0.02, "guarantee__engine": "sampling", **changes})


@pytest.fixture(scope="module")
def refined() -> Verdict:
    return verify(None, spec_of())


def test_the_decision_and_its_cost_are_those_of_a_run_that_stops_at_once(refined: Verdict) -> None:
    plain = verify(None, revise(load_spec(example("census")), guarantee__engine="sampling"))
    assert plain.decision is refined.decision
    assert plain.record.seed == refined.record.seed
    assert (plain.rounds, plain.evaluations) == (refined.decision_rounds, refined.decision_evaluations)
    assert (plain.decision_rounds, plain.decision_evaluations) == (plain.rounds, plain.evaluations)
    assert refined.evaluations > 10 * plain.evaluations


def test_a_keyword_of_verify_asks_for_it() -> None:
    stopped = verify(None, example("census"))
    narrow = verify(None, example("census"), refine=0.02)
    assert stopped.evaluations == narrow.decision_evaluations < narrow.evaluations


def test_every_displayed_interval_is_narrow(refined: Verdict) -> None:
    for interval in (refined.gap, *(group.probability for group in refined.groups)):
        assert interval.high - interval.estimate <= 0.02
        assert interval.estimate - interval.low <= 0.02
    assert len({group.evaluations for group in refined.groups}) == 1 or refined.decision_rounds < refined.rounds


def test_few_looks_are_enough_and_little_more_is_drawn_than_needed(refined: Verdict) -> None:
    evidence = refined.evidence
    assert isinstance(evidence, RunRecord)
    assert evidence.decided is not None
    assert 1 <= len(evidence.entries) - evidence.decided <= 4
    widths = [max(each.high - each.estimate, each.estimate - each.low) for each in refined.record.groups]
    # Three standard errors of the rates that the forecast was made from; doubling would end at 0.014 to 0.02.
    assert max(widths) > 0.017


@pytest.mark.parametrize("rate", [0.0, 0.001, 0.02, 0.3, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("within", [0.002, 0.01, 0.05])
def test_the_forecast_of_trials_agrees_with_the_bounds(rate: float, within: float) -> None:
    needed = float(trials_within(rate, 1000, 1e-7, within))
    for share, narrow in ((1.02, True), (0.95, False)):
        trials = np.ceil(share * needed)
        successes = rate * trials
        low, high = probability_any_time(successes, trials, 1e-7)
        assert (max(high[0] - successes / trials, successes / trials - low[0]) <= within) == narrow
    assert needed == pytest.approx(arithmetic.trials_within(int(rate * 1000), 1000, 1e-7, within), rel=1e-9)


def test_a_forecast_of_less_than_one_trial_is_one_trial() -> None:
    # Half of the trials are successes, nearly every rate is within the half width, and delta allows most errors.
    assert float(trials_within(0.5, 32, 0.45, 0.499)) == arithmetic.trials_within(16, 32, 0.45, 0.499) == 1


def test_the_same_seed_gives_the_same_counts_whatever_the_workers(refined: Verdict) -> None:
    for workers in (1, 3):
        assert verify(None, spec_of(), workers=workers).record.groups == refined.record.groups


def test_budgets_hold_and_python_models_are_never_asked_for_more() -> None:
    few = verify(None, spec_of(), max_evaluations=3000)
    assert few.evaluations <= 3000
    assert few.decision is Decision.FAIR
    short = verify(None, spec_of(), rounds=500)
    assert short.rounds <= 500
    spec = revise(spec_of(), model__decision="label")
    asked = verify(lambda rows: (rows[:, 0] > 3).astype(int), spec)
    assert asked.evaluations == asked.decision_evaluations


def test_a_certificate_covers_both_and_is_confirmed(refined: Verdict, tmp_path: Path) -> None:
    path, network = tmp_path / "c.json", load_spec(example("census")).model.path
    write_certificate(refined, path)
    assert recheck(path, network).conclusion == "CONFIRMED"
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["claims"]["decision_evaluations"] == refined.decision_evaluations

    def fails(change: Any) -> set[str]:
        edited = json.loads(path.read_text(encoding="utf-8"))
        change(edited)
        edited["digest"] = digest(edited)
        other = tmp_path / "edited.json"
        other.write_text(json.dumps(edited), encoding="utf-8")
        return {claim.name for claim in recheck(other, network).claims if not claim.holds}

    def fewer(edited: Any) -> None:
        edited["claims"]["decision_evaluations"] -= 5

    def unmarked(edited: Any) -> None:
        edited["evidence"]["batches"][-1]["phase"] = 0

    def other_leader(edited: Any) -> None:
        i, j, outcome = edited["evidence"]["batches"][-1]["leader"]
        edited["evidence"]["batches"][-1]["leader"] = [j, i, outcome]

    def shorter_batch_before_the_last(edited: Any) -> None:
        del edited["evidence"]["batches"][-2]

    def longer_last_batch(edited: Any) -> None:
        edited["evidence"]["batches"][-1]["rounds"] += 1024

    assert "verdict" in fails(fewer)
    assert "choices" in fails(unmarked)
    assert "choices" in fails(other_leader)
    assert fails(longer_last_batch) & {"choices", "layout"}
    assert fails(shorter_batch_before_the_last) & {"choices", "layout"}


def test_the_estimate_lies_in_its_interval_also_where_later_rounds_contradict_the_verdict(tmp_path: Path) -> None:
    verdict = verify(None, example("credit"), threshold=0.1686, delta=0.4, refine=0.01, seed=11)
    widest = verdict.widest
    rates = {each.name: each.probability.estimate for each in verdict.groups if each.outcome == widest.outcome}
    assert verdict.decision is Decision.FAIR
    assert rates[widest.more] - rates[widest.less] > verdict.gap.high
    assert verdict.gap.low <= verdict.gap.estimate == verdict.gap.high <= 0.1686
    write_certificate(verdict, tmp_path / "c.json")
    assert recheck(tmp_path / "c.json", load_spec(example("credit")).model.path).conclusion == "CONSISTENT"


@pytest.mark.parametrize("seed", range(30))
def test_estimates_lie_in_their_intervals_whatever_comes_after_the_decision(seed: int) -> None:
    """Rounds after the decision are of another population, so that they contradict it."""
    rng = np.random.default_rng(seed)
    groups, sign = int(rng.integers(2, 5)), 1 if seed % 2 else -1
    rule, before = BettingRule(groups, 1, 0.1, 0.3), rng.random((groups, 1)) * (0.1 if seed % 2 else 1.0)
    after = np.clip(before + sign * np.linspace(0, 0.5, groups)[:, None], 0, 1)
    for batch in range(40):
        plan = rule.plan() or cut(rule.refine(0.001), 500)
        assert plan is not None
        chances = before if rule.decision is Decision.UNDECIDED else after
        got = (rng.random((len(plan.groups), plan.rounds)) < chances[list(plan.groups)]).astype(np.uint8)
        rule.observe(plan, Tally.of_batch(plan.rounds, count_together(got, [1]), plan.groups, groups))
        estimate, low, high = rule.gap()
        assert low <= estimate <= high, batch


def test_bounds_after_the_decision_hold() -> None:
    # Two coins 0.05 apart, threshold 0.1, delta 0.2: 20 or more wrong intervals of 40 have a chance below 2e-5 for each
    # kind if each is wrong with probability 0.2.
    wrong = {"gap": 0, "rates": 0}
    for seed in range(40):
        rng, chances = np.random.default_rng(seed), np.array([[0.30], [0.35]])
        rule = BettingRule(2, 1, 0.1, 0.2)
        while (plan := rule.plan() or cut(rule.refine(0.02), 4000)) is not None:
            got = (rng.random((1, plan.rounds)) < chances[list(plan.groups)]).astype(np.uint8)
            rule.observe(plan, Tally.of_batch(plan.rounds, count_together(got, [1]), plan.groups, 2))
            if int(rule.tally.joint.max()) > 20_000:
                break
        _, low, high = rule.gap()
        below, above = rule.probabilities()
        wrong["gap"] += not low <= 0.05 <= high
        wrong["rates"] += bool(((below > chances.T) | (above < chances.T)).any())
    assert max(wrong.values()) < 20


def test_an_interval_never_reaches_back_over_the_threshold_of_its_verdict(tmp_path: Path) -> None:
    """The true gap is 0.169. Rounds after the verdict weaken the evidence of seed 58, and cannot take it back."""
    asked = spec_of("credit", guarantee__refine=0.01, guarantee__delta=0.1, property__threshold=0.165)
    verdict = verify(None, asked, seed=58)
    assert verdict.decision is Decision.UNFAIR
    assert verdict.decision_rounds < verdict.rounds
    assert 0.165 <= verdict.gap.low <= verdict.gap.estimate <= verdict.gap.high
    write_certificate(verdict, tmp_path / "c.json")
    network = load_spec(example("credit")).model.path
    assert recheck(tmp_path / "c.json", network).holds


@pytest.mark.parametrize(("first", "then"), [(0.3, 0.0), (0.0, 0.3)])
def test_rounds_that_contradict_a_verdict_leave_an_interval_that_is_not_empty(first: float, then: float) -> None:
    rule = BettingRule(2, 1, 0.1, 0.1)
    gap, rng = first, np.random.default_rng(1)
    while int(rule.tally.joint.max()) < 60_000:
        plan = rule.plan()
        if plan is None:
            gap, plan = then, cut(rule.refine(1e-3), 20_000)
        assert plan is not None
        got = (rng.random((1, plan.rounds)) < np.array([[0.5], [0.5 - gap]])).astype(np.uint8)
        rule.observe(plan, Tally.of_batch(plan.rounds, count_together(got, [1]), plan.groups, 2))
    assert rule.decision is (Decision.UNFAIR if first else Decision.FAIR)
    _, low, high = rule.gap()
    assert low <= high
    assert low == 0.1 if first else high == 0.1
