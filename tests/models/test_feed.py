"""Promises of `model.feed`: feature values reach the network's inputs in the right place, code and number type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, numpy_helper

from fairchain.errors import ModelError
from fairchain.models import OnnxModel
from fairchain.models.onnx.inputs import FEATURES_DO_NOT_FILL_INPUT, NO_FEATURE, NO_FEATURE_AXIS
from fairchain.spec import Spec
from tests.messages import says
from tests.networks import DOUBLE, FLOAT, INT32, INT64, constant, graph, linear, node, save, value
from tests.questions import category, integer, real, spec

COLOUR = category("colour", "red", "green", "blue")


def load(folder: Path, network: ModelProto, question: Spec) -> OnnxModel:
    return OnnxModel(save(network, folder / "network.onnx"), question)


def decide(folder: Path, network: ModelProto, question: Spec, rows: Any) -> list[int]:
    model = load(folder, network, question)
    found: NDArray[Any] = model.predict(np.asarray(rows, model.dtype))
    return found.tolist()


def reaches(weights: list[float], at: float, kind: int = FLOAT) -> ModelProto:
    """Yes if the weighted sum of the inputs is above `at`."""
    return linear(np.array(weights)[:, None], -at, kind=kind)


@pytest.mark.parametrize(
    "kind", [FLOAT, DOUBLE, INT64, INT32, TensorProto.INT16, TensorProto.INT8, TensorProto.UINT8, TensorProto.FLOAT16]
)
def test_every_number_type_gets_the_values(tmp_path: Path, kind: int) -> None:
    question = spec(integer("age", 0, 100), COLOUR, decision="logit")
    rows = [[0, 0], [99, 0], [99, 1], [100, 2]]
    assert decide(tmp_path, reaches([1, 10], 105, kind), question, rows) == [0, 0, 1, 1]


def test_a_double_network_sees_all_digits(tmp_path: Path) -> None:
    question = spec(integer("k", 2**24, 2**24 + 9), category("s", "a", "b"), decision="logit")
    network = reaches([1, 0], 2**24 + 0.5, DOUBLE)
    assert decide(tmp_path, network, question, [[2**24, 0], [2**24 + 1, 0]]) == [0, 1]


def test_codes_stand_for_the_values(tmp_path: Path) -> None:
    question = spec(integer("age"), {**COLOUR, "codes": [-1.5, 7, 100]}, decision="logit")
    assert decide(tmp_path, reaches([0, 1], 6.9), question, [[0, 0], [0, 1], [0, 2]]) == [0, 1, 1]


def test_one_hot_spans_one_input_for_each_value(tmp_path: Path) -> None:
    question = spec(integer("age"), {**COLOUR, "one_hot": True}, category("s", "a", "b"), decision="logit")
    rows = [[9, 0, 0], [0, 1, 0], [0, 2, 0], [0, 0, 1]]
    assert decide(tmp_path, reaches([0, 0, 1, 0, 0], 0.5), question, rows) == [0, 1, 0, 0]
    assert decide(tmp_path, reaches([0, 0, 0, 0, 1], 0.5), question, rows) == [0, 0, 0, 1]


def test_one_hot_fits_whole_number_inputs(tmp_path: Path) -> None:
    question = spec({**COLOUR, "one_hot": True}, decision="logit")
    assert decide(tmp_path, reaches([0, 0, 1], 0.5, INT64), question, [[0], [1], [2]]) == [0, 0, 1]


def one_input_each(kinds: dict[str, int], width: int | str = 1) -> ModelProto:
    """yes if age + 10 * colour > 15; the inputs in the order of `kinds`."""
    casts = [node("Cast", [name], [f"{name}_r"], to=FLOAT) for name in kinds]
    nodes = [*casts, node("Mul", ["colour_r", "ten"], ["c"]), node("Add", ["age_r", "c"], ["s"])]
    nodes.append(node("Sub", ["s", "at"], ["y"]))
    inputs = [value(name, kind, ("N", width)) for name, kind in kinds.items()]
    return graph(nodes, inputs, [value("y", FLOAT, ("N", 1))], [constant("ten", 10), constant("at", 15)])


@pytest.mark.parametrize("width", [1, "K"])
def test_one_input_for_each_feature_is_matched_by_name_not_by_order(tmp_path: Path, width: int | str) -> None:
    question = spec(integer("age"), COLOUR, decision="logit")
    network = one_input_each({"colour": INT64, "age": FLOAT}, width)
    assert decide(tmp_path, network, question, [[9, 0], [4, 1], [6, 1], [0, 2]]) == [0, 0, 1, 1]


def test_a_feature_may_name_its_input(tmp_path: Path) -> None:
    question = spec(integer("years", input="age"), COLOUR, decision="logit")
    assert decide(tmp_path, one_input_each({"colour": FLOAT, "age": FLOAT}), question, [[6, 1]]) == [1]


def test_inputs_that_no_feature_fills_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=says(NO_FEATURE)):
        load(tmp_path, one_input_each({"colour": FLOAT, "age": FLOAT}), spec(integer("years"), COLOUR))


def test_features_must_give_as_many_values_as_their_input_takes(tmp_path: Path) -> None:
    question = spec(integer("age"), integer("years", input="age"), COLOUR, decision="logit")
    with pytest.raises(
        ModelError,
        match=says(
            FEATURES_DO_NOT_FILL_INPUT, name="age", shape="1", features='features "age", "years" give', width="2"
        ),
    ):
        load(tmp_path, one_input_each({"colour": FLOAT, "age": FLOAT}), question)


@pytest.mark.parametrize("shape", [("N", 1), ("N",)])
def test_several_features_fill_one_of_several_inputs(tmp_path: Path, shape: tuple[Any, ...]) -> None:
    """An embedding of the colour, (3, 1), plus age - years; the numbers are one input of two."""
    nodes = [
        node("Gather", ["table", "colours"], ["e"]),
        node("Reshape", ["e", "flat"], ["c"]),
        node("MatMul", ["numbers", "w"], ["n"]),
        node("Add", ["c", "n"], ["y"]),
    ]
    constants = [constant("table", [[0.0], [5.0], [-5.0]]), constant("w", [[1.0], [-1.0]])]
    constants.append(numpy_helper.from_array(np.array([-1, 1], np.int64), "flat"))
    inputs = [value("colours", INT64, shape), value("numbers", FLOAT, ("N", 2))]
    network = graph(nodes, inputs, [value("y", FLOAT, ("N", 1))], constants)
    question = spec(
        integer("age", input="numbers"), category("colour", *"rgb", input="colours"), integer("years", input="numbers"),
        decision="logit",
    )  # fmt: skip
    rows = [[3, 0, 2], [3, 0, 4], [0, 1, 4], [9, 2, 3], [5, 2, 1]]
    assert decide(tmp_path, network, question, rows) == [1, 0, 1, 1, 0]


def test_text_inputs_get_the_names_of_the_values(tmp_path: Path) -> None:
    encoder = node(
        "LabelEncoder", ["x"], ["y"], "ai.onnx.ml", keys_strings=["red", "blue"], values_int64s=[1, 1], default_int64=0
    )
    network = graph([encoder], [value("x", TensorProto.STRING, ("N", 1))], [value("y", INT64, ("N", 1))], ml=True)
    assert decide(tmp_path, network, spec(COLOUR), [[0], [1], [2]]) == [1, 0, 1]


@pytest.mark.parametrize(
    ("features", "found"),
    [
        ([integer("a")], "1 [[feature]] tables"),
        ([integer("a"), integer("b"), COLOUR], "3 [[feature]] tables"),
        ([{**COLOUR, "one_hot": True}], "1 [[feature]] tables that span 3 inputs"),
    ],
)
def test_a_wrong_number_of_features_is_refused(tmp_path: Path, features: list[dict[str, Any]], found: str) -> None:
    with pytest.raises(ModelError) as caught:
        load(tmp_path, linear([[1, 0], [0, 1]]), spec(*features))
    assert f'input "x" takes 2 values and the spec has {found}' in str(caught.value)
    assert "one [[feature]] each" in str(caught.value)


@pytest.mark.parametrize("shape", [(), ("N",)])
def test_an_input_without_room_for_features_is_refused(tmp_path: Path, shape: tuple[Any, ...]) -> None:
    network = graph([node("Neg", ["x"], ["y"])], [value("x", FLOAT, shape)], [value("y", FLOAT, shape)])
    with pytest.raises(ModelError, match=says(NO_FEATURE_AXIS)):
        load(tmp_path, network, spec(decision="logit"))


def test_more_dimensions_are_filled_in_row_order(tmp_path: Path) -> None:
    network = graph([node("Flatten", ["x"], ["y"])], [value("x", FLOAT, ("N", 1, 2, 1))], [value("y")])
    assert decide(tmp_path, network, spec(), [[0, 1], [1, 0]]) == [1, 0]


@pytest.mark.parametrize(
    ("feature", "kind", "word"),
    [
        (integer("k", 0, 300), TensorProto.INT8, "int8"),
        (integer("k", -1, 5), TensorProto.UINT8, "uint8"),
        (integer("k", 0, 2**31), INT32, "int32"),
        (integer("k", 0, 5), TensorProto.BOOL, "bool"),
        (integer("k", 0, 70_000), TensorProto.FLOAT16, "float16"),
        (real("k", 0, 1), INT64, "int64"),
        (category("k", "a", "b", codes=[0.5, 1.5]), INT64, "int64"),
        (category("k", "a", "b", codes=[0, 1000]), TensorProto.INT8, "int8"),
    ],
)
def test_values_that_the_input_cannot_hold_are_refused_not_changed(
    tmp_path: Path, feature: dict[str, Any], kind: int, word: str
) -> None:
    with pytest.raises(ModelError) as caught:
        load(tmp_path, linear([[1], [1]], kind=kind), spec(feature, category("s", "a", "b"), decision="logit"))
    assert '"k"' in str(caught.value)
    assert word in str(caught.value)


def test_an_unseen_feature_is_asked_about_and_never_fed(tmp_path: Path) -> None:
    """A model trained without sex: the groups are there, the network's input is not."""
    from fairchain import verify

    path = save(linear([[-1.0, 1.0], [0.0, 0.0]], [4.5, 0.0]), tmp_path / "network.onnx")
    asked = spec(
        integer("age"),
        category("sex", "Female", "Male", model_input=False),
        integer("hours"),
        protected=["sex"],
        path=str(path),
    )
    people = np.array([[1.0, 0.0, 7.0], [1.0, 1.0, 7.0], [8.0, 0.0, 7.0]], np.float32)
    assert OnnxModel(path, asked).predict(people).tolist() == [0, 0, 1]
    assert verify(None, asked).gap.estimate == 0
