"""A network cut at a tensor: with its own activations it answers as the whole, with others as if these were its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fairchain.errors import ModelError
from fairchain.models import OnnxModel
from fairchain.models.base import random_inputs
from fairchain.models.inspect.activations import Probe
from fairchain.models.inspect.cut import OTHER_ACTIVATIONS, TENSOR_CANNOT_BE_CUT, Cut
from tests.messages import says
from tests.networks import constant, graph, node, value
from tests.questions import integer, spec

SPEC = spec(integer("age"), integer("group"))
PEOPLE = random_inputs(SPEC.features, 200).astype(np.float32)


def network(last: list[Any], **more: Any) -> OnnxModel:
    """A hidden layer `h` of three units, and then what is given."""
    rng = np.random.default_rng(1)
    first = [node("MatMul", ["x", "w"], ["z"]), node("Relu", ["z"], ["h"])]
    constants = [
        constant("w", rng.normal(size=(2, 3))),
        constant("v", rng.normal(size=(3, 2))),
        constant("u", [[0, 1.0]]),
    ]
    constants += [constant(name, array) for name, array in more.items()]
    model = graph([*first, *last], [value("x")], [value("y")], constants)
    return OnnxModel.from_bytes(model.SerializeToString(), "cut.onnx", SPEC)


def straight() -> OnnxModel:
    return network([node("MatMul", ["h", "v"], ["y"])])


def skipping() -> OnnxModel:
    """A way leads past the hidden layer."""
    return network([node("MatMul", ["h", "v"], ["inner"]), node("Add", ["inner", "x"], ["y"])])


@pytest.mark.parametrize("make", [straight, skipping])
def test_with_its_own_activations_the_part_behind_answers_as_the_whole(make: Any) -> None:
    model = make()
    labels, hidden = Probe(model, SPEC, ["h"])(PEOPLE)
    cut = Cut(model, "h", PEOPLE[:3])
    assert cut.reaches
    assert 0 < labels.mean() < 1
    np.testing.assert_array_equal(cut.predict(hidden["h"], PEOPLE), labels)


def test_other_activations_are_taken_and_the_rest_follows_from_the_inputs() -> None:
    cut = Cut(skipping(), "h", PEOPLE[:3])
    nothing = np.zeros((len(PEOPLE), 3), np.float32)
    np.testing.assert_array_equal(cut.predict(nothing, PEOPLE), PEOPLE[:, 1] > PEOPLE[:, 0])


def test_a_tensor_that_the_decision_does_not_need_is_said_to_be_one() -> None:
    model = network([node("MatMul", ["h", "v"], ["unused"]), node("Identity", ["x"], ["y"])])
    assert not Cut(model, "h", PEOPLE[:3]).reaches


def test_a_layer_with_more_dimensions_keeps_its_shape() -> None:
    shape = constant("shape", [0, 3, 1], np.int64)
    flat = constant("flat", [0, 3], np.int64)
    rng = np.random.default_rng(1)
    nodes = [
        node("MatMul", ["x", "w"], ["z"]),
        node("Reshape", ["z", "shape"], ["wide"]),
        node("Relu", ["wide"], ["h"]),
        node("Reshape", ["h", "flat"], ["back"]),
        node("MatMul", ["back", "v"], ["y"]),
    ]
    weights = [constant("w", rng.normal(size=(2, 3))), constant("v", rng.normal(size=(3, 2)))]
    made = graph(nodes, [value("x")], [value("y")], [*weights, shape, flat])
    model = OnnxModel.from_bytes(made.SerializeToString(), "wide.onnx", SPEC)
    labels, hidden = Probe(model, SPEC, ["h"])(PEOPLE)
    np.testing.assert_array_equal(Cut(model, "h", PEOPLE[:3]).predict(hidden["h"], PEOPLE), labels)


def test_a_tensor_without_the_batch_first_is_refused() -> None:
    model = network(
        [node("Transpose", ["h"], ["t"]), node("Transpose", ["t"], ["s"]), node("MatMul", ["s", "v"], ["y"])]
    )
    with pytest.raises(ModelError, match=says(TENSOR_CANNOT_BE_CUT, tensor="t", shape="(3, 5)", values_count="5")):
        Cut(model, "t", PEOPLE[:5])


def test_activations_that_lead_to_no_decision_are_an_error_that_says_so() -> None:
    cut = Cut(straight(), "h", PEOPLE[:3])
    with pytest.raises(ModelError, match=says(OTHER_ACTIVATIONS, tensor="h")):
        cut.predict(np.full((2, 3), np.nan, np.float32), PEOPLE[:2])
