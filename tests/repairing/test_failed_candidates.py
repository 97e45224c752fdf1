"""A candidate without a decision for some input fails, and the repair goes on; of the original it is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain.errors import ModelError
from fairchain.models import OnnxModel
from fairchain.models.edit.candidates import Tunable
from fairchain.models.edit.weights import Weights
from fairchain.models.onnx.decision import OUTPUT_NOT_DECISION
from fairchain.prepare import prepare
from fairchain.repairing import diff_report, repair
from fairchain.repairing.judge import Judge, WeightEdits
from fairchain.repairing.parameters import Shifts
from fairchain.repairing.repair_data import LabelledRows, inputs_of
from fairchain.repairing.search import UNDECIDED_INPUT, WORST_SCORE, Candidate, CandidateTrial, Score
from fairchain.spec import Spec
from tests.messages import says
from tests.networks import save
from tests.repairing.builders import SEX, asked, fragile

# How b3 must move so that nobody's score is a number, and only that of a row with x = -0.2 is not.
NOBODY, ONE_ROW = -1.0, -0.4


def question(folder: Path, **changes: Any) -> Spec:
    save(fragile(), folder / "network.onnx")
    return asked(folder, **changes)


def judge_of(spec: Spec, held_out: LabelledRows | None = None) -> tuple[Judge, Shifts]:
    """A judge, and two numbers to choose: one breaks scores, one turns the weight of sex down to 0."""
    model = OnnxModel(spec.model.path or "", spec)
    weights = Weights(model)
    places = (("b3", 0), ("w1", 4 * SEX + 2))
    parameters = Shifts(weights.values, places, (1.0, -2.0), ("b3[0]", "w1[2, 2]"))
    return Judge(WeightEdits(weights, model), prepare(model, spec), held_out, workers=1), parameters


def candidate(*point: float) -> Candidate:
    return Candidate(np.array(point), Score(0.0, 1.0), 0.0)


def rows(*x: float) -> LabelledRows:
    values = np.column_stack([np.resize(x, 40), np.arange(40) % 10, np.arange(40) % 2])
    return LabelledRows(values, (values[:, :2].sum(axis=1) > 9.5).astype(int))


def test_the_judge_records_why_a_candidate_failed_and_goes_on_to_the_next(tmp_path: Path) -> None:
    spec = question(tmp_path)
    judge, parameters = judge_of(spec)
    failed, accepted = judge.all([candidate(NOBODY, 1), candidate(0, 1), candidate(0, 1)], parameters)
    assert failed.verdict is None
    assert not failed.attempt.accepted
    assert failed.attempt.decision == "FAILED"
    assert failed.attempt.why.startswith("no decision for the input x=0, y=")
    assert failed.attempt.gap is None
    assert failed.attempt.price is None
    assert accepted.attempt.accepted
    # The share of delta of an attempt that failed is spent all the same.
    deltas = [each.attempt.delta for each in (failed, accepted)]
    assert deltas == [spec.guarantee.delta / 2, spec.guarantee.delta / 4]


def test_a_candidate_that_fails_on_held_out_rows_only_is_not_accepted(tmp_path: Path) -> None:
    judge, parameters = judge_of(question(tmp_path), rows(-0.2, 3, 5, 8))
    failed, accepted = judge.all([candidate(ONE_ROW, 1), candidate(0, 1)], parameters)
    assert failed.attempt.decision == "FAILED"
    assert failed.attempt.why.startswith("no decision for the input x=-0.2, y=")
    assert accepted.attempt.accepted


def test_held_out_rows_without_a_decision_of_the_original_are_an_error(tmp_path: Path) -> None:
    judge, parameters = judge_of(question(tmp_path), rows(-1, 3, 5, 8))
    with pytest.raises(ModelError, match=says(OUTPUT_NOT_DECISION)):
        judge.one(candidate(0, 1), parameters, 1)


def trial_of(spec: Spec, searched: LabelledRows | None) -> CandidateTrial:
    model = OnnxModel(spec.model.path or "", spec)
    return CandidateTrial(Tunable(model, Weights(model), ["b3"]), inputs_of(prepare(model, spec), 1, 4000), searched)


@pytest.mark.parametrize("searched", [None, rows(3, 5, 8)], ids=["agreement", "accuracy"])
def test_a_candidate_that_fails_in_the_search_has_the_worst_score(
    tmp_path: Path, searched: LabelledRows | None
) -> None:
    trial = trial_of(question(tmp_path), searched)
    assert trial.score({"b3": np.array([0.5 + NOBODY], np.float32)}) == WORST_SCORE
    assert trial.score({"b3": np.array([0.5 + ONE_ROW], np.float32)}) == trial.score({})


def test_searched_rows_without_a_decision_of_the_original_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=says(UNDECIDED_INPUT)):
        trial_of(question(tmp_path), rows(-1, 3, 5, 8))


def test_a_repair_all_of_whose_candidates_fail_ends_with_their_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To this search everything looks fair, and whatever it tries breaks the scores."""
    spec = question(tmp_path)
    monkeypatch.setattr(CandidateTrial, "score", lambda *_: Score(0.0, 1.0))
    monkeypatch.setattr(Shifts, "weights", lambda *_: {"b3": np.array([-0.5], np.float32)})
    result = repair(None, spec, change="biases", max_units=0, iterations=1, workers=1)
    assert not result.accepted
    assert result.after is None
    assert result.price is None
    assert {attempt.decision for attempt in result.attempts} == {"FAILED"}
    assert "no decision for the input x=0" in result.statement
    assert "FAILED, no decision for the input x=0" in diff_report(result)
    assert str(result).startswith("NOT REPAIRED: the largest gap is")
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert plain["attempts"][0]["gap"] is None


def test_an_original_without_a_decision_for_somebody_is_an_error(tmp_path: Path) -> None:
    model = fragile()
    next(each for each in model.graph.initializer if each.name == "b3").raw_data = np.float32(-0.5).tobytes()
    save(model, tmp_path / "network.onnx")
    with pytest.raises(ModelError, match=says(OUTPUT_NOT_DECISION, output="y", answer="nan, nan")):
        repair(None, asked(tmp_path), max_units=0, iterations=1, workers=1)


def test_scores_that_overflow_have_no_decision_and_no_warning(tmp_path: Path) -> None:
    """Both scores are infinite, and their difference is no number."""
    spec = asked(tmp_path)
    model = OnnxModel(spec.model.path or "", spec)
    trial = CandidateTrial(Tunable(model, Weights(model), ["b2"]), inputs_of(prepare(model, spec), 1, 4000), None)
    assert trial.score({"b2": np.full(2, np.inf, np.float32)}) == WORST_SCORE
