"""The judge: a candidate is accepted for what fresh inputs say of it, at its share of delta, and for nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain.models import OnnxModel
from fairchain.models.edit.weights import Weights, WeightUnit
from fairchain.prepare import prepare
from fairchain.repairing.judge import Judge, WeightEdits, attempt_spec, candidates_of
from fairchain.repairing.parameters import NamedUnit, Scales, Shifts
from fairchain.repairing.repair_data import (
    CERTIFICATE_SEED,
    OPTIMIZER_SEED,
    PRICE_SEED,
    REFINE_SEED,
    SEARCH_SEED,
    SPLIT_SEED,
    inputs_of,
    seed_for,
)
from fairchain.repairing.search import Candidate, CandidateTrial, Score, front_of, is_almost_constant
from fairchain.spec import revise
from fairchain.spec.seeds import derive_seed
from tests.repairing.builders import SEX, asked


def judged(tmp_path: Path, factor: float, number: int = 1, most_lost: float | None = None) -> Any:
    """What the judge says of the network with this factor for sex, of which the search claims that it is fair."""
    spec = asked(tmp_path)
    model = OnnxModel(spec.model.path or "", spec)
    weights = Weights(model)
    parameters = Scales(weights, [NamedUnit(WeightUnit("", SEX), "feature sex", True)], None)
    judge = Judge(WeightEdits(weights, model), prepare(model, spec), None, most_lost, 1)
    return judge.one(Candidate(np.array([factor - 1]), Score(0.0, 1.0), 0.0), parameters, number)


def test_acceptance_is_the_verdict_of_fresh_inputs_and_nothing_else(tmp_path: Path) -> None:
    assert not judged(tmp_path, 1.0).attempt.accepted
    assert judged(tmp_path, 0.0).attempt.accepted
    dear = judged(tmp_path, 0.0, most_lost=0.001).attempt
    assert not dear.accepted
    assert dear.decision == "FAIR"
    assert "costs more than allowed" in dear.why


def test_attempts_share_delta_and_draw_their_own_inputs(tmp_path: Path) -> None:
    spec = revise(asked(tmp_path), guarantee__seed=0)
    deltas = [attempt_spec(spec, number).guarantee.delta for number in range(1, 6)]
    assert sum(deltas) < spec.guarantee.delta
    seeds = {attempt_spec(spec, number).guarantee.seed for number in range(1, 6)}
    purposes = (SEARCH_SEED, REFINE_SEED, SPLIT_SEED, OPTIMIZER_SEED, PRICE_SEED, CERTIFICATE_SEED)
    others = {seed_for(0, purpose, number) for purpose in purposes for number in (0, 1)}
    assert len(seeds) == 5
    assert len(others | seeds | {0}) == 5 + 12 + 1 - 1  # attempt 1 stands in both
    # Without a chosen seed each attempt has the seed of its own network and its own share of delta.
    assert attempt_spec(asked(tmp_path), 1).guarantee.seed is None
    derived = {derive_seed(attempt_spec(asked(tmp_path), number), "same network", None) for number in range(1, 6)}
    assert len(derived) == 5
    third = judged(tmp_path, 0.0, number=3)
    assert third.attempt.seed == third.verdict.evidence.seed.value
    assert third.attempt.delta == spec.guarantee.delta / 8
    assert third.verdict.spec.guarantee.delta == spec.guarantee.delta / 8
    assert third.attempt.price.delta == pytest.approx(0.05 / 8)


def test_a_network_that_answers_everybody_alike_is_no_repair(tmp_path: Path) -> None:
    spec = asked(tmp_path)
    model = OnnxModel(spec.model.path or "", spec)
    weights = Weights(model)
    from fairchain.models.edit.candidates import Tunable

    inputs = inputs_of(prepare(model, spec), 1, 4000)
    trial = CandidateTrial(Tunable(model, weights, ["b2"]), inputs, None)
    assert trial.score({}).gap > 0.1
    assert trial.score({"b2": np.array([100, 0], np.float32)}).gap == 1.0


@pytest.mark.parametrize(
    ("before", "after", "agreement", "empty"),
    [
        (0.55, 1.0, None, True),
        (0.55, 0.96, None, True),
        (0.55, 0.95, None, False),
        (0.55, 0.6, 0.54, True),
        (0.55, 0.6, 0.56, False),
        (0.999, 0.9995, None, False),
        (1.0, 1.0, 1.0, False),
    ],
)
def test_what_counts_as_the_same_answer_for_everybody(
    before: float, after: float, agreement: float | None, empty: bool
) -> None:
    assert is_almost_constant(before, after, agreement) is empty


@pytest.mark.parametrize(
    ("allowed", "why"),
    [
        (False, "^every input that was tried got the decision"),
        (True, "100.00% of 20,000 freshly drawn inputs the same answer"),
    ],
)
def test_the_judge_too_refuses_the_same_answer_for_everybody(tmp_path: Path, allowed: bool, why: str) -> None:
    spec = revise(asked(tmp_path), guarantee__allow_constant=allowed)
    model = OnnxModel(spec.model.path or "", spec)
    weights = Weights(model)
    parameters = Shifts(weights.values, (("b2", 0),), (100.0,), ("b2[0]",))
    judge = Judge(WeightEdits(weights, model), prepare(model, spec), workers=1)
    found = judge.one(Candidate(np.ones(1), Score(0.0, 1.0), 0.0), parameters, 1)
    assert found.verdict.fair is allowed
    assert not found.attempt.accepted
    assert re.search(why, found.attempt.why)


def test_a_front_holds_what_nothing_else_beats() -> None:
    scores = [(0.3, 0.9), (0.1, 0.8), (0.2, 0.7), (0.1, 0.85), (0.0, 0.5), (0.3, 0.95)]
    tried = [Candidate(np.zeros(1), Score(*score), 0.0) for score in scores]
    assert [(t.score.gap, t.score.accuracy) for t in front_of(tried)] == [(0.0, 0.5), (0.1, 0.85), (0.3, 0.95)]
    lucky = Candidate(np.zeros(1), Score(0.1, 0.9, error=0.2), 0.0)
    assert lucky not in front_of([*tried, lucky])


def test_candidates_are_put_forward_from_the_most_accurate_to_the_safest() -> None:
    front = [Candidate(np.zeros(1), Score(gap, 0.5 + gap), 0.0) for gap in (0.01, 0.04, 0.06, 0.085, 0.095, 0.3)]
    gaps = [each.score.gap for each in candidates_of(front, 0.1, None)]
    assert gaps == [0.085, 0.06, 0.04, 0.01]
    assert [each.score.gap for each in candidates_of(front, 0.1, 0.55)] == [0.06, 0.085, 0.095]
    assert [each.score.gap for each in candidates_of(front[-1:], 0.1, None)] == [0.3]
