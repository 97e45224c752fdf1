"""One number has one interval: none that a verdict shows is wider than what its other intervals imply.

The verdict, the gap, the rates and the pairs hold in one event, so that each is intersected with the others
(docs/mathematics-intervals.md, "One event").
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain import Decision, make_certificate, recheck, verify
from fairchain.certificates import dump
from fairchain.prepare import Case, prepare
from fairchain.spec import parse_spec
from fairchain.statistics import BettingRule, Tally
from fairchain.statistics.payoff import DIFFERENCE, RATIO, Payoff, gaps_of
from fairchain.statistics.rules import BatchPlan
from fairchain.verification.all_pairs import all_pairs
from fairchain.verification.verdict import Verdict
from fairchain.verification.verifier import verify_case
from tests.networks import linear
from tests.questions import category, integer, question

GROUPS = ("a", "b", "c", "d")
# Rounding of the last bit, outward.
ROUNDING = 1e-12
KINDS: dict[str, dict[str, Any]] = {
    "difference": {},
    "every label": {"outcome": ...},
    "ratio": {"kind": "ratio", "threshold": 0.8},
    "individual": {"kind": "individual", "outcome": ...},
    "reference": {"reference": "a"},
    "one-sided ratio": {"kind": "ratio", "threshold": 0.8, "reference": "b"},
    "overall": {"compare": "overall"},
    "average": {"compare": "average"},
    "formula": {"kind": "formula", "formula": "P(yes | g=a) - P(yes | g=d) <= 0.1"},
}


def asked(rng: np.random.Generator, about: dict[str, Any], **guarantee: Any) -> Any:
    """A question about four groups, with a budget that may end before the answer."""
    data = question(integer("x", 0, 999), category("g", *GROUPS))
    data["property"] |= {"outcome": "yes", "threshold": float(rng.choice([0.05, 0.1, 0.2]))} | about
    data["property"] = {key: value for key, value in data["property"].items() if value is not ...}
    if data["property"]["kind"] == "formula":
        data["property"] = about
    budget = {"rounds": int(rng.choice([40, 200, 1000, 4000]))}
    data["guarantee"] |= {"delta": float(rng.choice([0.05, 1e-6])), "budget": budget, **guarantee}
    return data


def decided(rng: np.random.Generator) -> Any:
    """Yes below a cutoff of each group."""
    cutoffs = rng.integers(0, 1001, 4) if rng.random() < 0.3 else 300 + rng.integers(0, 250, 4)
    return lambda rows: (rows[:, 0] < cutoffs[rows[:, 1].astype(int)]).astype(np.int64)


def implied(case: Case, verdict: Verdict) -> tuple[float, float]:
    """Bounds of the largest gap that follow from the displayed rates alone, of a ratio those of 1 - ratio."""
    comparison = case.comparison
    rates = {(group.name, group.outcome): group.probability for group in verdict.groups}
    outcomes = list(dict.fromkeys(group.outcome for group in verdict.groups))[-len(comparison.rows) :]
    low, high = (
        np.array(
            [[getattr(rates.get((name, of), verdict.gap), side) for name in comparison.counted] for of in outcomes]
        )
        for side in ("low", "high")
    )
    below, above = (
        gaps_of(*ends, comparison.measure)[comparison.compared].max() for ends in ((low, high), (high, low))
    )
    return float(below), float(above)


def agree(case: Case, verdict: Verdict) -> None:
    """Check every interval of a verdict against the others, and against its word."""
    gap, limit = verdict.gap, case.spec.property.threshold
    ratio = case.comparison.measure == "ratio"
    low, high = (1 - gap.high, 1 - gap.low) if ratio else (gap.low, gap.high)
    limit = 1 - limit if ratio else limit
    assert low <= (1 - gap.estimate if ratio else gap.estimate) <= high
    word = {Decision.FAIR: high <= limit + ROUNDING, Decision.UNFAIR: low >= limit - ROUNDING}
    assert word.get(verdict.decision, low <= limit + ROUNDING and high >= limit - ROUNDING)
    if case.spec.property.shift is None and not case.comparison.individual:
        below, above = implied(case, verdict)
        assert low >= min(below, high) - ROUNDING
        assert high <= max(above, low) + ROUNDING
    found = all_pairs(case, verdict)
    if found is None or case.spec.property.shift is not None:
        return
    rates = {(group.name, group.outcome): group.probability for group in verdict.groups}
    ends, reference = [], case.spec.property.reference
    for pair in found.pairs:
        if reference is not None:
            # One way round: the reference group minus another.
            sign = {verdict.widest.more == pair.first: 1, verdict.widest.more == pair.second: -1}.get(True, 0)
            assert ratio or not sign or max(sign * pair.low, sign * pair.high) <= gap.high + ROUNDING
            assert ratio or not sign or min(sign * pair.low, sign * pair.high) <= gap.low + ROUNDING
            continue
        one, other = rates[pair.first, pair.outcome], rates[pair.second, pair.outcome]
        if ratio:
            assert gap.low - ROUNDING <= pair.low <= pair.estimate <= pair.high
            ends.append((1 - pair.high, 1 - pair.low))
            continue
        assert max(one.low - other.high, -gap.high) - ROUNDING <= pair.low <= pair.estimate
        assert pair.estimate <= pair.high <= min(one.high - other.low, gap.high) + ROUNDING
        ends.append((max(pair.low, -pair.high, 0.0), max(pair.high, -pair.low)))
    if ends:
        assert low >= max(least for least, _ in ends) - ROUNDING
        assert high <= max(most for _, most in ends) + ROUNDING


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_no_interval_of_drawn_inputs_is_wider_than_the_others_imply(kind: str, seed: int) -> None:
    rng = np.random.default_rng([seed, *kind.encode()])
    spec = parse_spec(asked(rng, KINDS[kind]))
    case = prepare(decided(rng), spec, seed=seed)
    agree(case, verify_case(case, workers=1))


@pytest.mark.parametrize(
    "about", [{"shift": 1.3}, {"shift": 1.3, "shift_of": "all_groups_alike"}], ids=["each", "alike"]
)
@pytest.mark.parametrize("seed", range(3))
def test_nor_is_one_of_a_verdict_over_shifts_or_of_estimates(about: dict[str, Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, shifted = decided(rng), parse_spec(asked(rng, about))
    estimated = parse_spec(asked(rng, {}, epsilon=0.1, budget={"rounds": 3000 + seed}))
    for spec in (shifted, estimated):
        case = prepare(model, spec, seed=seed)
        agree(case, verify_case(case, workers=1))


@pytest.mark.parametrize("kind", ["difference", "ratio", "reference", "overall", "average"])
@pytest.mark.parametrize("seed", range(4))
def test_nor_is_one_of_rows(kind: str, seed: int) -> None:
    """Where one group has no success, what the rates imply was narrower than the interval of the gap."""
    rng = np.random.default_rng([seed, *kind.encode()])
    group = rng.integers(0, 4, int(rng.choice([40, 400, 3000])))
    group[:8] = [0, 1, 2, 3] * 2
    rates = rng.random(4) * (rng.random(4) < 0.7)
    data = asked(rng, KINDS[kind])
    data["population"] = {"kind": "table", "as": "sample", "prediction": "said"}
    del data["guarantee"]["engine"]
    table = {
        "x": [0] * len(group),
        "g": [GROUPS[each] for each in group],
        "said": ["yes" if hit else "no" for hit in rng.random(len(group)) < rates[group]],
    }
    case = prepare(None, parse_spec(data), data=table)
    agree(case, verify_case(case))


def test_nor_is_one_of_boxes_and_rounds() -> None:
    network = linear([[0.0, 0.004], [0.0, -0.1]], [0.0, -1.7]).SerializeToString()
    for seed in range(3):
        data = asked(np.random.default_rng(seed), {}, engine="bounds", budget={"rounds": 2000, "seconds": 1})
        case = prepare(network, parse_spec(data), seed=seed)
        agree(case, verify_case(case, workers=1))


def observed(rule: BettingRule, hits: Any, groups: tuple[int, ...], number: int) -> None:
    """Show a batch, (rounds, groups) of 0 and 1, to a rule."""
    tally = Tally.of_batch(len(hits), (hits.T @ hits)[None], groups, number)
    rule.observe(BatchPlan(len(hits), groups, None), tally)


@pytest.mark.parametrize("payoff", [DIFFERENCE, RATIO])
def test_groups_that_were_rarely_shown_together_are_compared_by_their_rates(payoff: Payoff) -> None:
    """The rounds of a pair leave a gap of nearly 1 open; the rates of its groups, each shown often, do not."""
    rng, rule = np.random.default_rng(0), BettingRule(3, 1, 0.5, 0.01, payoff=payoff)
    for groups in ((0, 1), (1, 2), (0, 2)):
        rounds = 12 if groups == (0, 2) else 4000
        observed(rule, (rng.random((rounds, 2)) < 0.5).astype(np.int64), groups, 3)
    low, high = rule.probabilities()
    _, _, above = rule.gap()
    assert above <= gaps_of(high, low, payoff.measure).max() + ROUNDING
    assert above < 0.25


def test_an_interval_that_leaves_out_the_threshold_decides() -> None:
    """Bets on rounds that show two groups together are few; what their rates say is as good as a bet."""
    rng, rule = np.random.default_rng(0), BettingRule(3, 1, 0.3, 0.01)
    for groups, rates in (((0, 1), (0.9, 0.6)), ((1, 2), (0.6, 0.5))):
        observed(rule, (rng.random((3000, 2)) < rates).astype(np.int64), groups, 3)
    assert rule.decision is Decision.UNDECIDED
    rule.settle()
    assert rule.decision is Decision.UNFAIR
    assert rule.gap()[1] > 0.3


def test_a_certificate_has_the_same_interval_and_the_recheck_finds_it_by_itself(tmp_path: Path) -> None:
    """An UNDECIDED run that left out groups: each of the three ways to a bound matters somewhere."""
    for seed, about in enumerate([{}, {"kind": "ratio", "threshold": 0.8}, {"reference": "a"}, {"compare": "overall"}]):
        data = asked(np.random.default_rng(seed), about, budget={"rounds": 600}, delta=0.01, engine="sampling")
        network = linear([[0.0, 0.004], [0.0, -0.2]], [0.0, -1.7]).SerializeToString()
        (tmp_path / "n.onnx").write_bytes(network)
        data["model"]["path"] = str(tmp_path / "n.onnx")
        verdict = verify(None, parse_spec(data), workers=1)
        path = tmp_path / "c.json"
        path.write_text(dump(make_certificate(verdict)), encoding="utf-8")
        found = recheck(path, tmp_path / "n.onnx")
        assert [claim for claim in found.claims if not claim.holds] == []
        claims = json.loads(path.read_text(encoding="utf-8"))["claims"]
        assert (claims["gap"]["low"], claims["gap"]["high"]) == (verdict.gap.low, verdict.gap.high)
