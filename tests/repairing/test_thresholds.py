"""Repair by decision thresholds: any model with a score, judged on what the search has not seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fairlearn.metrics import demographic_parity_difference
from fairlearn.postprocessing import ThresholdOptimizer
from numpy.typing import NDArray
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from fairchain import recheck, verify
from fairchain.errors import ModelError, SpecError
from fairchain.models import OnnxModel
from fairchain.prepare import prepare
from fairchain.repairing import Repair, diff_report, repair, write_repair
from fairchain.repairing.change_plan import CHANGE_THRESHOLDS_INSTEAD, NO_WEIGHTS_IN_PYTHON
from fairchain.repairing.parameters import ThresholdParameters
from fairchain.repairing.repair_data import halves
from fairchain.repairing.repairer import HELD_OUT_IS_POPULATION, JUDGED_ROWS_SEARCHED, PART_NOT_CERTIFIED
from fairchain.repairing.thresholds import (
    DECIDES_BETWEEN_LABELS,
    GROUPS_OVERLAP,
    NO_SCORES,
    ThresholdModel,
)
from fairchain.spec import Spec, parse_spec, revise
from tests.messages import says
from tests.questions import category, integer
from tests.repairing.builders import asked

Rows = dict[str, Any]


def people(count: int, seed: int = 0) -> tuple[Rows, NDArray[Any], NDArray[Any]]:
    """Draw rows with a label that depends on hours, age and sex; also as an array, and the labels."""
    rng = np.random.default_rng(seed)
    sex, age = rng.integers(0, 2, count), rng.integers(17, 80, count)
    hours = np.clip(rng.normal(36 + 6 * sex, 10, count).round(), 1, 80).astype(int)
    label = ((hours - 40) / 10 + (age - 40) / 20 + 0.6 * sex + rng.normal(size=count) > 0.3).astype(int)
    rows = {"age": age.tolist(), "hours": hours.tolist(), "sex": [("F", "M")[s] for s in sex]}
    rows["income"] = [("no", "yes")[one] for one in label]
    return rows, np.column_stack([age, hours, sex]).astype(float), label


def question(reading: str = "population", *, sex_input: bool = True, threshold: float = 0.1, **model: Any) -> Spec:
    return parse_spec(
        {
            "model": {"labels": ["no", "yes"], **model},
            "feature": [
                integer("age", 17, 79),
                integer("hours", 1, 80),
                category("sex", "F", "M", model_input=sex_input),
            ],
            "property": {"kind": "difference", "protected": ["sex"], "outcome": "yes", "threshold": threshold},
            "population": {"kind": "table", "as": reading, "label": "income"},
            "guarantee": {"delta": 0.05},
        }
    )


TRAINED = people(1500, seed=9)
ROWS, VALUES, TRUTH = people(1500)


@pytest.fixture(scope="module")
def boosted() -> Any:
    return GradientBoostingClassifier(n_estimators=10, random_state=0).fit(TRAINED[1], TRAINED[2])


def repaired(model: Any, spec: Spec, **options: Any) -> Repair:
    return repair(model, spec, **{"data": ROWS, "iterations": 5, "workers": 1, **options})


@pytest.mark.parametrize("decision", [None, "probability", "argmax"])
def test_trees_get_a_threshold_for_each_group_as_a_network_with_a_certificate(
    boosted: Any, tmp_path: Path, decision: str | None
) -> None:
    spec = question(**({"decision": decision} if decision else {}))
    result = repaired(boosted, spec, change="group-thresholds")
    assert (result.accepted, result.recheckable) == (True, True)
    assert result.after is not None
    assert result.after.exact
    # The thresholds that are reported are those that the saved network uses.
    probability = boosted.predict_proba(VALUES)[:, 1]
    each = np.array([group.threshold for group in result.groups])[VALUES[:, 2].astype(int)]
    assert isinstance(result.model, OnnxModel)
    assert np.mean(result.model.predict(VALUES.astype(np.float32)) == (probability > each)) > 0.999
    for number, group in enumerate(result.groups):
        mine = VALUES[:, 2] == number
        assert group.inputs == mine.sum()
        assert group.before == np.mean(probability[mine] > 0.5)
        assert group.inputs * (group.after - group.before) == pytest.approx(group.gained - group.lost)
    assert any("The decision now uses the group" in note and "unlawful" in note for note in result.notes)
    files = write_repair(result, tmp_path / "fixed.onnx")
    assert [file.name for file in files] == ["fixed.onnx", "fixed.json", "fixed.txt"]
    assert recheck(tmp_path / "fixed.json", tmp_path / "fixed.onnx", data=ROWS).holds
    assert "threshold 0.5 -> " in diff_report(result)


def test_a_model_without_the_protected_column_gets_an_input_for_it(boosted: Any, tmp_path: Path) -> None:
    blind = GradientBoostingClassifier(n_estimators=10, random_state=0).fit(TRAINED[1][:, :2], TRAINED[2])
    result = repaired(blind, question(sex_input=False), change="group-thresholds")
    assert result.accepted
    assert "The network has a further input, for sex." in result.notes
    assert result.after is not None
    assert [feature.model_input for feature in result.after.spec.features] == [True, True, True]
    write_repair(result, tmp_path / "fixed.onnx")
    assert recheck(tmp_path / "fixed.json", tmp_path / "fixed.onnx", data=ROWS).holds


def test_a_model_without_weights_gets_one_threshold_unless_groups_are_asked_for(boosted: Any) -> None:
    result = repaired(boosted, question(threshold=0.2))
    assert result.change == "threshold"
    assert len({group.threshold for group in result.groups}) == 1
    assert not any("uses the group" in note for note in result.notes)
    with pytest.raises(
        ModelError, match=says(CHANGE_THRESHOLDS_INSTEAD, threshold="threshold", group_thresholds="group-thresholds")
    ):
        repaired(boosted, question(), change="low-rank")


def test_a_function_with_scores_is_repaired_in_python(boosted: Any, tmp_path: Path) -> None:
    def probability(values: Any) -> Any:
        return boosted.predict_proba(values)[:, 1]

    spec = question(decision="probability")
    result = repaired(probability, spec, change="group-thresholds")
    assert (result.accepted, result.recheckable, result.content) == (True, False, None)
    assert isinstance(result.model, ThresholdModel)
    assert result.after is not None
    assert verify(result.model, spec, data=ROWS).gap == result.after.gap
    each = np.array([group.threshold for group in result.groups])[VALUES[:, 2].astype(int)]
    assert np.array_equal(result.model.predict(VALUES), probability(VALUES) > each)
    files = write_repair(result, tmp_path / "fixed.onnx")
    assert [file.name for file in files] == ["fixed.json", "fixed.txt"]
    saved = json.loads((tmp_path / "fixed.json").read_text(encoding="utf-8"))
    assert [each["name"] for each in saved["thresholds"]] == ["threshold of sex=F", "threshold of sex=M"]
    with pytest.raises(ModelError, match=says(NO_WEIGHTS_IN_PYTHON)):
        repaired(probability, spec, change="last-layer")


def test_labels_without_scores_and_more_than_two_labels_have_no_threshold(boosted: Any) -> None:
    with pytest.raises(ModelError, match=says(NO_SCORES)):
        repaired(boosted.predict, question())
    with pytest.raises(ModelError, match=says(DECIDES_BETWEEN_LABELS, labels_count="3")):
        repaired(lambda x: np.eye(3)[(x[:, 1] // 30).astype(int)], question(labels=["no", "yes", "perhaps"]))


def test_a_sample_is_divided_and_judged_on_the_half_that_the_search_has_not_seen(
    boosted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search may see half of the rows; the judge gets the others."""
    spec = question("sample", threshold=0.25)
    first, second = halves(prepare(boosted, spec, data=ROWS))
    assert first.rows is not None
    assert second.rows is not None
    assert sorted([*first.rows.numbers, *second.rows.numbers]) == list(range(1, 1501))
    seen: list[int] = []
    from fairchain.repairing import thresholds

    scored = thresholds.ScoreReader.__call__

    def counting(self: Any, values: Any) -> Any:
        seen.append(len(values))
        return scored(self, values)

    monkeypatch.setattr(thresholds.ScoreReader, "__call__", counting)
    result = repaired(boosted, spec, change="group-thresholds")
    assert max(seen) == len(first.rows.values) == 750
    assert result.after is not None
    assert not result.after.exact
    assert result.after.spec.guarantee.delta == pytest.approx(0.05 / 2 ** len(result.attempts))
    assert result.judged_on == "the 750 rows of the final verification"
    assert not result.recheckable
    assert any("750 for the search and 750 for the final verification" in note for note in result.notes)
    # Advice about a certificate only where there is a repair to certify.
    assert (PART_NOT_CERTIFIED in result.notes) is result.accepted
    assert result.price is not None
    assert (result.price.measure, result.price.inputs) == ("accuracy", 750)


def test_labelled_rows_that_are_those_of_the_sample_are_refused(boosted: Any) -> None:
    """With other individuals as labelled rows the same question is answered."""
    spec = question("sample", threshold=0.25)
    with pytest.raises(SpecError, match=says(JUDGED_ROWS_SEARCHED)) as caught:
        repaired(boosted, spec, labelled=ROWS, label="income", change="group-thresholds")
    assert ("must be named there" in str(caught.value)) == (spec.population.label is None)
    others = people(600, seed=8)[0]
    assert repaired(boosted, spec, labelled=others, label="income", change="group-thresholds").needed


def test_rows_to_judge_on_give_a_sample_its_certificate(boosted: Any, tmp_path: Path) -> None:
    others = people(1500, seed=3)[0]
    result = repaired(
        boosted, question("sample", threshold=0.2), held_out=others, change="group-thresholds", iterations=20
    )
    assert result.accepted
    assert result.recheckable
    write_repair(result, tmp_path / "fixed.onnx")
    assert recheck(tmp_path / "fixed.json", tmp_path / "fixed.onnx", data=others).holds
    with pytest.raises(SpecError, match=says(HELD_OUT_IS_POPULATION)):
        repaired(boosted, question("sample"), held_out=ROWS, change="group-thresholds")


def test_a_model_that_is_fair_only_on_searched_rows_is_not_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model knows the searched half: fair there, and the worst possible elsewhere. A judge of that half accepts."""
    rng = np.random.default_rng(4)
    chosen, sex = rng.choice(63 * 80, 600, replace=False), rng.integers(0, 2, 600)
    rows: Rows = {"age": (17 + chosen // 80).tolist(), "hours": (1 + chosen % 80).tolist()}
    rows |= {"sex": [("F", "M")[each] for each in sex], "income": ["no", "yes"] * 300}
    spec = revise(question("sample", threshold=0.3, decision="probability"), guarantee__seed=1)
    first, _ = halves(prepare(lambda values: values[:, 1] / 90, spec, data=rows))
    assert first.rows is not None
    known = {(age, hours) for age, hours, _ in first.rows.values.tolist()}

    def score(values: Any) -> Any:
        seen = np.array([(age, hours) in known for age, hours, _ in values.tolist()])
        return np.where(seen, values[:, 0] * 7 % 10 / 10 + 0.01, 0.1 + 0.8 * values[:, 2] + values[:, 0] / 2000)

    def accepted() -> bool:
        return repair(score, spec, data=rows, change="group-thresholds", iterations=2, workers=1).accepted

    assert not accepted()
    monkeypatch.setattr("fairchain.repairing.repairer.halves", lambda case: [halves(case)[0]] * 2)
    assert accepted()


@pytest.mark.parametrize("kind", ["network", "linear"])
@pytest.mark.usefixtures("few_inputs")
def test_thresholds_and_weights_are_judged_on_fresh_draws(tmp_path: Path, kind: str) -> None:
    spec = asked(tmp_path)
    if kind == "network":
        result = repair(None, spec, change="group-thresholds", iterations=2, workers=1)
        assert {group.group for group in result.groups} == {"sex=Female", "sex=Male"}
    else:
        rng = np.random.default_rng(1)
        values = np.column_stack([rng.integers(0, 10, (800, 2)), rng.integers(0, 2, 800)]).astype(float)
        model = LogisticRegression().fit(values, values @ [1, 1, 3] > 10.5)
        result = repair(model, spec, iterations=8, workers=1)
        assert result.change == "last-layer"
        assert sum(change.changed for change in result.changes) > 0
        assert "Gemm" in {change.operator for change in result.changes}
    assert result.accepted
    assert result.after is not None
    assert not result.after.exact
    assert "The search has not seen the draws of the final verification." in result.statement
    write_repair(result, tmp_path / "fixed.onnx")
    assert recheck(tmp_path / "fixed.json", tmp_path / "fixed.onnx").holds


def test_the_front_is_at_least_as_good_as_one_of_fairlearn(boosted: Any) -> None:
    """On the same rows: at fairlearn's gap, or below, no less accurate than its randomised thresholds by 0.01."""
    other = ThresholdOptimizer(estimator=boosted, constraints="demographic_parity", prefit=True, grid_size=1000)
    other.fit(VALUES, TRUTH, sensitive_features=VALUES[:, 2])
    decided = other.predict(VALUES, sensitive_features=VALUES[:, 2], random_state=0)
    gap = demographic_parity_difference(TRUTH, decided, sensitive_features=VALUES[:, 2])
    result = repaired(boosted, question(threshold=0.05), change="group-thresholds", iterations=30)
    assert result.accepted
    reached = [point.accuracy for point in result.front if point.gap <= max(gap, 0.02)]
    assert max(reached) >= np.mean(decided == TRUTH) - 0.01


def test_thresholds_lie_between_scores_and_move_the_selection_rate_as_asked() -> None:
    scores = np.array([0.1, 0.2, 0.2, 0.6, 0.7, 0.9])
    parameters = ThresholdParameters(0.5, [scores], [""])
    assert parameters.weights(np.zeros(1))["thresholds"].tolist() == [0.5]
    for rate in (0.0, 1 / 6, 2 / 6, 3 / 6, 5 / 6, 1.0):
        threshold = parameters.weights(parameters.point_of([rate]))["thresholds"][0]
        assert np.mean(scores > threshold) == pytest.approx(rate)
        assert threshold not in scores


def formula_spec(limit: str, decision: str = "probability") -> Any:
    return parse_spec(
        {
            "model": {"labels": ["no", "yes"], "decision": decision},
            "feature": [
                {"name": "sex", "kind": "category", "values": ["F", "M"]},
                {"name": "x", "kind": "real", "low": 0, "high": 1},
            ],
            "property": {"kind": "formula", "formula": f"P(yes | sex=M) - P(yes | sex=F) <= {limit}"},
            "population": {"kind": "table", "as": "population"},
        }
    )


FORMULA_ROWS = {"sex": ["F", "M"] * 200, "x": np.linspace(0, 1, 400).tolist()}


def test_groups_of_a_formula_may_overlap_and_get_no_thresholds_of_their_own() -> None:
    with pytest.raises(SpecError, match=says(GROUPS_OVERLAP)):
        repair(
            lambda values: values[:, 1],
            formula_spec("-0.2"),
            data=FORMULA_ROWS,
            change="group-thresholds",
            iterations=2,
            workers=1,
        )


def test_a_constant_model_that_a_formula_calls_unfair_needs_a_repair() -> None:
    """The formula demands a difference of 0.1, and 0.2 + 0.2 x is never above 1/2."""
    result = repair(
        lambda values: 0.2 + 0.2 * values[:, 1],
        formula_spec("-0.1"),
        data=FORMULA_ROWS,
        change="threshold",
        iterations=2,
        workers=1,
    )
    assert result.before.constant == "no"
    assert (result.before.decision.name, result.needed, result.accepted) == ("UNFAIR", True, False)
    assert "Nothing to repair" not in result.statement
