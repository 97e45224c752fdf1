"""Promises of a draft about answers: which column holds labels, what they are called, and how scores decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain.drafting.signature import SEVERAL_OUTPUTS
from fairchain.drafting.trials import DECISION_THRESHOLD_NEEDED, LABELS_DO_NOT_FIT_SCORES, ORDER_NOT_SHOWN
from fairchain.errors import DataError, ModelError
from fairchain.messages import unknown
from tests.drafting.builders import applicants, by_hours, draft, features, named, numbers, one_score
from tests.messages import says
from tests.networks import INT64, constant, graph, node, value
from tests.tables.builders import write_csv

# Labels


def test_the_label_may_be_the_only_column_that_is_no_input(tmp_path: Path) -> None:
    people = applicants()
    people["what_came_of_it"] = people.pop("hired")
    del people["job"]
    made = draft(people, named(tmp_path / "network.onnx"))
    assert made.spec.population.label == "what_came_of_it"  # type: ignore[union-attr]
    assert "since the model does not take it" in made.about("population.label")[0]


def test_the_label_may_be_the_last_column_if_the_width_says_so() -> None:
    people = numbers()
    people["what_came_of_it"] = people.pop("hired")
    assert draft(people, by_hours()).spec.population.label == "what_came_of_it"  # type: ignore[union-attr]


def test_a_column_that_sounds_like_a_label_may_be_an_input() -> None:
    people = numbers()
    del people["hired"]
    people["status"] = [1, 2] * 200
    made = draft(people, by_hours(4))
    assert list(features(made)) == ["age", "hours", "sex", "status"]
    assert made.spec.population.label is None  # type: ignore[union-attr]
    assert made.spec.model.labels == ("0", "1")
    assert '"status" seems to hold the true labels' in made.warnings[0]


def test_labels_in_another_order_than_the_sorted_one_are_noticed() -> None:
    made = draft(numbers(), by_hours(sign=-1))
    assert made.spec.model.labels == ("yes", "no")
    assert "in this order the model agrees" in made.about("model.labels")[0]
    assert made.warnings == ()


@pytest.mark.parametrize("classes", ["texts", "numbers"])
def test_a_column_that_the_model_does_not_take_does_not_rename_its_labels_unseen(classes: str) -> None:
    """The status of an earlier application: its favourable value is no name for the answer "no"."""
    pytest.importorskip("sklearn")
    pandas = pytest.importorskip("pandas")
    from sklearn.linear_model import LogisticRegression

    row = np.arange(400)
    frame = pandas.DataFrame({"x": row % 8 == 0}).astype(float)
    labels = np.where(row % 8 == 0, "yes", "no") if classes == "texts" else (row % 8 == 0).astype(int)
    table = frame.assign(sex=np.where(row % 3, "F", "M"), status=np.where(row // 8 % 2, "approved", "rejected"))
    made = draft(table, LogisticRegression().fit(frame, labels))
    if classes == "texts":
        assert made.spec.model.labels == ("no", "yes")
        assert made.spec.population.label is None  # type: ignore[union-attr]
        assert made.warnings == ()
    else:
        # Zeros and ones may stand for other labels, and no row shows for which.
        assert any(ORDER_NOT_SHOWN in warning for warning in made.warnings)


def test_whole_numbers_are_labels_by_themselves(tmp_path: Path) -> None:
    people = numbers()
    people["hired"] = [int(each == "yes") for each in people["hired"]]
    made = draft(people, named(tmp_path / "network.onnx"))
    assert (made.spec.model.labels, made.spec.model.codes) == (("0", "1"), None)
    assert made.about("model.labels") == ()


def test_labels_that_the_network_returns_as_other_numbers_get_codes() -> None:
    people = numbers()
    people["hired"] = [1 + (each == "yes") for each in people["hired"]]
    nodes = [
        node("Gemm", ["x", "w", "b"], ["score"]),
        node("ArgMax", ["score"], ["place"], axis=1, keepdims=0),
        node("Add", ["place", "one"], ["label"]),
    ]
    weights = [constant("w", [[0, 0], [0, 1], [0, 0]]), constant("b", [0, -30]), constant("one", 1, np.int64)]
    network = graph(nodes, [value("x", shape=("N", 3))], [value("label", INT64, ("N",))], weights)
    made = draft(people, network)
    assert (made.spec.model.labels, made.spec.model.codes) == (("1", "2"), (1, 2))


def test_every_label_is_looked_at_if_no_name_tells_which_is_hoped_for() -> None:
    people = numbers()
    people["grade"] = ["red", "green", "blue", "green"] * 100
    made = draft(people, label="grade")
    assert made.spec.model.labels == ("blue", "green", "red")
    assert made.spec.property.outcome is None
    assert "Every label is compared" in made.about("property.outcome")[0]


# What the answer means


@pytest.mark.parametrize(
    ("network", "decision", "why"),
    [
        (one_score("Sigmoid"), "probability", "The network ends in a Sigmoid."),
        (by_hours(end="Sigmoid"), "argmax", "Guess: the largest of the 2 outputs is the class."),
    ],
)
def test_the_decision_is_seen_in_the_network_or_its_scores(network: bytes, decision: str, why: str) -> None:
    made = draft(numbers(), network)
    assert made.spec.model.decision == decision
    assert why in made.about("model.decision")[0]
    assert made.warnings == ()


@pytest.mark.parametrize("network", [one_score(), one_score("Clip", 0.01)])
def test_a_score_that_cannot_be_a_probability_needs_a_cut_off(network: bytes) -> None:
    with pytest.raises(ModelError, match=says(DECISION_THRESHOLD_NEEDED)):
        draft(numbers(), network)
    made = draft(numbers(), network, decision_threshold=0.0)
    assert (made.spec.model.decision, made.spec.model.decision_threshold) == ("score", 0.0)
    assert made.spec.model.labels == ("no", "yes")


def test_scores_between_0_and_1_are_taken_for_probabilities() -> None:
    def score(rows: Any) -> Any:
        return 1 / (1 + np.exp(30 - rows[:, 1]))

    made = draft(numbers(), score)
    assert made.spec.model.decision == "probability"
    assert made.about("model.decision")[0].startswith("Guess")


def test_a_decision_that_is_given_stays() -> None:
    made = draft(numbers(), one_score(), decision="logit")
    assert (made.spec.model.decision, made.about("model.decision")) == ("logit", ())


def test_several_outputs_are_chosen_from_by_name() -> None:
    one, other = value("a", shape=("N", 2)), value("b", shape=("N", 2))
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Neg", ["a"], ["b"])]
    network = graph(nodes, [value("x", shape=("N", 3))], [one, other], [constant("w", [[0, 0], [-1, 1], [0, 0]])])
    with pytest.raises(ModelError, match=says(SEVERAL_OUTPUTS, by_name="a, b")):
        draft(numbers(), network)
    assert draft(numbers(), network, model_output="b").spec.model.output == "b"
    with pytest.raises(ModelError, match=says(unknown("output", "c", ["a", "b"]))):
        draft(numbers(), network, model_output="c")


def test_labels_that_do_not_fit_the_network_are_refused() -> None:
    people = {**numbers(), "hired": ["no", "yes", "perhaps", "never"] * 100}
    with pytest.raises(DataError, match=says(LABELS_DO_NOT_FIT_SCORES, scores="2")):
        draft(people, by_hours())


def test_labels_with_a_needless_fraction_are_whole_numbers(tmp_path: Path) -> None:
    people = {**numbers(), "hired": [float(each == "yes") for each in numbers()["hired"]]}
    path = write_csv(tmp_path / "people.csv", people)
    made = draft(path, by_hours())
    assert made.spec.model.labels == ("0", "1")
    assert made.warnings == ()
