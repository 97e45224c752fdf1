"""Promises of `model.onnx_model` and `model.decision`: how outputs become classes, and what is refused and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

from fairchain.errors import ModelError
from fairchain.models import OnnxModel, describe_input
from fairchain.spec import Spec
from tests.networks import DOUBLE, FLOAT, INT32, INT64, constant, graph, linear, node, save, value
from tests.questions import category, integer, spec

SEX = category("sex", "Female", "Male")
# age from 0 to 9 and sex; the networks below say yes if age > 4 (or 4.5) for women, later for men.
ROWS = np.array([[age, sex] for age in range(10) for sex in (0, 1)], np.float32)
OLDER = ROWS[:, 0] - ROWS[:, 1] > 4.5
ONE_LOGIT = np.array([[1.0], [-1.0]])
TWO_LOGITS = np.array([[0.0, 1.0], [0.0, -1.0]])


def predict(folder: Path, network: ModelProto, question: Spec, rows: Any = ROWS) -> np.ndarray[Any, Any]:
    model = OnnxModel(save(network, folder / "network.onnx"), question)
    return model.predict(np.asarray(rows, model.dtype))


def refused(folder: Path, network: ModelProto, question: Spec, rows: Any = ROWS) -> str:
    with pytest.raises(ModelError) as caught:
        predict(folder, network, question, rows)
    message = str(caught.value)
    assert message.startswith(f"{folder / 'network.onnx'}: ")
    assert "\n" not in message
    return message


def labels(kind: int, shape: tuple[Any, ...] = ("N",)) -> ModelProto:
    """The column `sex` itself as the label."""
    return graph(
        [node("Gather", ["x", "i"], ["g"], axis=1), node("Cast", ["g"], ["y"], to=kind)],
        [value("x")],
        [value("y", kind, shape)],
        [constant("i", 1 if len(shape) == 1 else [1], np.int64)],
    )


def test_a_single_column_is_a_logit_if_the_spec_says_so(tmp_path: Path) -> None:
    found = predict(tmp_path, linear(ONE_LOGIT, -4.5), spec(decision="logit"))
    assert found.tolist() == OLDER.tolist()


def test_a_single_column_made_by_a_sigmoid_is_a_probability(tmp_path: Path) -> None:
    found = predict(tmp_path, linear(ONE_LOGIT, -4.5, end="Sigmoid"), spec())
    assert found.tolist() == OLDER.tolist()


def test_a_single_column_that_could_be_either_is_refused(tmp_path: Path) -> None:
    message = refused(tmp_path, linear(ONE_LOGIT, -4.5), spec())
    assert 'decision = "logit"' in message
    assert 'decision = "probability"' in message


@pytest.mark.parametrize(("decision", "cut", "first"), [("logit", 2.0, 7), ("probability", 2.2, 7), ("logit", -1, 4)])
def test_the_cut_moves_the_decision(tmp_path: Path, decision: str, cut: float, first: int) -> None:
    found = predict(
        tmp_path, linear(ONE_LOGIT, -4.5), spec(decision=decision, decision_threshold=cut), [[k, 0] for k in range(10)]
    )
    assert found.tolist() == [int(k >= first) for k in range(10)]


def test_a_tie_at_the_cut_is_the_first_label(tmp_path: Path) -> None:
    assert predict(tmp_path, linear(ONE_LOGIT, -4), spec(decision="logit"), [[4, 0]]).tolist() == [0]
    assert predict(tmp_path, linear(TWO_LOGITS, [4, 0]), spec(), [[4, 0]]).tolist() == [0]


@pytest.mark.parametrize("end", [None, "Softmax", "LogSoftmax"])
def test_several_columns_are_decided_by_the_largest(tmp_path: Path, end: str | None) -> None:
    assert predict(tmp_path, linear(TWO_LOGITS, [4.5, 0], end=end), spec()).tolist() == OLDER.tolist()


def test_three_classes_are_decided_by_the_largest(tmp_path: Path) -> None:
    network = linear([[0, 1, 2], [0, 0, 0]], [0, -2.5, -8])
    found = predict(tmp_path, network, spec(labels=["low", "middle", "high"]), [[1, 0], [3, 0], [5, 0], [6, 0], [9, 1]])
    assert found.tolist() == [0, 1, 1, 2, 2]


@pytest.mark.parametrize("end", [None, "Softmax"])
def test_columns_without_a_declared_number_are_counted_when_they_come(tmp_path: Path, end: str | None) -> None:
    network = linear(TWO_LOGITS, [4.5, 0], end=end)
    network.graph.output[0].type.tensor_type.shape.dim[1].dim_param = "K"
    assert predict(tmp_path, network, spec()).tolist() == OLDER.tolist()
    assert "name one label for each column" in refused(tmp_path, network, spec(labels=["a", "b", "c"]))


@pytest.mark.parametrize("kind", [INT64, INT32, TensorProto.BOOL, TensorProto.UINT8, TensorProto.INT8])
@pytest.mark.parametrize("shape", [("N",), ("N", 1)])
def test_labels_are_taken_as_they_are(tmp_path: Path, kind: int, shape: tuple[Any, ...]) -> None:
    assert predict(tmp_path, labels(kind, shape), spec()).tolist() == ROWS[:, 1].tolist()


def test_codes_say_what_the_network_calls_its_labels(tmp_path: Path) -> None:
    assert predict(tmp_path, labels(INT64), spec(codes=[1, 0])).tolist() == (1 - ROWS[:, 1]).tolist()


@pytest.mark.parametrize("codes", [[0, 2], [7, 8], [-1, 0]])
def test_a_label_outside_the_codes_is_refused_with_its_input(tmp_path: Path, codes: list[int]) -> None:
    message = refused(tmp_path, labels(INT64), spec(codes=codes), [[3, 1]])
    assert "codes = [...] in [model]" in message
    assert "age=3, sex=Male" in message


def test_a_label_beyond_the_spec_is_refused_in_plain_words(tmp_path: Path) -> None:
    network = graph(
        [node("ArgMax", ["x"], ["y"], axis=1, keepdims=0)], [value("x", FLOAT, ("N", 3))], [value("y", INT64, ("N",))]
    )
    message = refused(tmp_path, network, spec(integer("a"), integer("b"), SEX), [[0, 0, 1]])
    assert 'output "y" is 2, which is none of 0, 1' in message


def test_several_columns_of_labels_are_no_decision(tmp_path: Path) -> None:
    network = graph([node("Cast", ["x"], ["y"], to=INT64)], [value("x")], [value("y", INT64)])
    assert "columns" in refused(tmp_path, network, spec(), [[1, 1], [0, 1]])


@pytest.mark.parametrize(("operator", "shown"), [("Log", "-inf"), ("Reciprocal", "inf"), ("Acosh", "nan")])
def test_an_output_that_is_no_number_is_refused_with_its_input(tmp_path: Path, operator: str, shown: str) -> None:
    network = graph([node(operator, ["x"], ["y"])], [value("x")], [value("y")])
    rows = [[2, 1]] * 5 + [[4, 0]] + [[2, 1]]
    message = refused(tmp_path, network, spec(), rows)
    assert shown in message
    assert "the input was age=4, sex=Female" in message


@pytest.mark.parametrize("batch", [1, 7])
def test_an_output_that_is_no_number_names_its_row_in_a_fixed_batch_too(tmp_path: Path, batch: int) -> None:
    network = graph([node("Log", ["x"], ["y"])], [value("x", FLOAT, (batch, 2))], [value("y", FLOAT, (batch, 2))])
    assert "age=4, sex=Female" in refused(tmp_path, network, spec(), [[2, 1]] * 9 + [[4, 0]])


def test_labels_must_fit_the_columns(tmp_path: Path) -> None:
    message = refused(tmp_path, linear(TWO_LOGITS), spec(labels=["a", "b", "c"]))
    assert "model.labels" in message
    assert "2 columns and the spec names 3 labels" in message


def test_a_single_column_decides_between_two_labels_only(tmp_path: Path) -> None:
    assert "model.labels" in refused(tmp_path, linear(ONE_LOGIT), spec(labels=["a", "b", "c"], decision="logit"))


@pytest.mark.parametrize("decision", ["logit", "probability", "label"])
def test_a_decision_that_cannot_be_is_refused(tmp_path: Path, decision: str) -> None:
    assert "decision = " in refused(tmp_path, linear(TWO_LOGITS), spec(decision=decision))


def test_two_sigmoids_may_be_two_questions_and_are_refused(tmp_path: Path) -> None:
    network = linear(TWO_LOGITS, [4.5, 0], end="Sigmoid")
    assert 'decision = "argmax"' in refused(tmp_path, network, spec())
    assert predict(tmp_path, network, spec(decision="argmax"), [[9, 0], [0, 0]]).tolist() == [1, 0]


def two_outputs() -> ModelProto:
    network = linear(TWO_LOGITS, [4.5, 0])
    network.graph.node.append(node("Neg", ["y"], ["z"]))
    network.graph.output.append(value("z"))
    return network


def test_of_several_outputs_one_is_chosen_by_name(tmp_path: Path) -> None:
    assert predict(tmp_path, two_outputs(), spec(output="y")).tolist() == OLDER.tolist()
    assert predict(tmp_path, two_outputs(), spec(output="z")).tolist() == (~OLDER).tolist()
    assert "choose one: output = " in refused(tmp_path, two_outputs(), spec())
    assert 'expected one of "y", "z"' in refused(tmp_path, two_outputs(), spec(output="w"))


@pytest.mark.parametrize("batch", [1, 7, 20, 64])
@pytest.mark.parametrize("rows", [1, 7, 20])
def test_a_fixed_batch_decides_like_any_other(tmp_path: Path, batch: int, rows: int) -> None:
    found = predict(tmp_path, linear(ONE_LOGIT, -4.5, batch=batch), spec(decision="logit"), ROWS[:rows])
    assert found.tolist() == OLDER[:rows].tolist()


def test_a_batch_of_zero_is_refused(tmp_path: Path) -> None:
    assert "batch" in refused(tmp_path, linear(ONE_LOGIT, batch=0), spec(decision="logit"))


def test_no_rows_have_no_classes(tmp_path: Path) -> None:
    assert predict(tmp_path, linear(TWO_LOGITS), spec(), np.empty((0, 2))).tolist() == []


def test_the_result_does_not_depend_on_how_rows_are_put_together(tmp_path: Path) -> None:
    random = np.random.default_rng(8)
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("Relu", ["h"], ["r"]), node("MatMul", ["r", "v"], ["y"])]
    weights = [constant("w", random.normal(size=(2, 33))), constant("v", random.normal(size=(33, 3)))]
    network = graph(nodes, [value("x")], [value("y", FLOAT, ("N", 3))], weights)
    model = OnnxModel(save(network, tmp_path / "network.onnx"), spec(labels=["a", "b", "c"]))
    rows = random.normal(size=(1000, 2)).astype(np.float32)
    whole = model.predict(rows)
    assert set(whole.tolist()) == {0, 1, 2}
    for size in (1, 13, 500):
        parts = [model.predict(rows[i : i + size]) for i in range(0, 1000, size)]
        assert np.array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize(
    ("operator", "attributes", "shape"),
    [
        ("Transpose", {"perm": [1, 0]}, (2, "N")),
        ("ReduceSum", {"keepdims": 0}, ()),
        ("ReduceMax", {"axes": [0], "keepdims": 0}, (2,)),
        ("ReduceMax", {"axes": [0], "keepdims": 1}, (1, 2)),
    ],
)
def test_an_output_whose_first_dimension_is_not_the_batch_is_refused(
    tmp_path: Path, operator: str, attributes: dict[str, Any], shape: tuple[Any, ...]
) -> None:
    network = graph([node(operator, ["x"], ["y"], **attributes)], [value("x")], [value("y", FLOAT, shape)])
    for rows in (ROWS, ROWS[:2], ROWS[:4]):
        refused(tmp_path, network, spec(), rows)


def test_a_logit_with_more_columns_than_declared_is_refused(tmp_path: Path) -> None:
    network = graph(
        [node("Unsqueeze", ["x", "a"], ["y"])],
        [value("x")],
        [value("y", FLOAT, ("N", 2, 1))],
        [constant("a", [2], np.int64)],
    )
    assert "column" in refused(tmp_path, network, spec(decision="logit"))


def test_a_network_that_mixes_rows_is_refused(tmp_path: Path) -> None:
    """A sum over the batch: what a person gets depends on who else is asked, so there is no P(Y | group)."""
    network = graph([node("CumSum", ["x", "a"], ["y"])], [value("x")], [value("y")], [constant("a", 0, np.int64)])
    assert "batch" in refused(tmp_path, network, spec())


def test_a_network_that_throws_dice_is_refused(tmp_path: Path) -> None:
    constants = [constant("r", 0.5), constant("t", True, np.bool_)]
    network = graph([node("Dropout", ["x", "r", "t"], ["y"])], [value("x")], [value("y")], constants)
    assert "Dropout" in refused(tmp_path, network, spec())


def test_the_number_type_asked_for_is_the_network_s(tmp_path: Path) -> None:
    for kind, dtype in ((FLOAT, np.float32), (DOUBLE, np.float64), (INT64, np.float64)):
        assert OnnxModel(save(linear(TWO_LOGITS, kind=kind), tmp_path / "n.onnx"), spec()).dtype == dtype


def test_the_hash_is_the_file_s_own(tmp_path: Path) -> None:
    import hashlib

    path = save(linear(TWO_LOGITS), tmp_path / "network.onnx")
    assert OnnxModel(path, spec()).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_an_input_is_described_in_the_words_of_the_spec() -> None:
    features = spec(integer("age"), category("job", "cook", 7), SEX).features
    assert describe_input(features, np.array([3, 1, 0], np.float32)) == "age=3, job=7, sex=Female"
