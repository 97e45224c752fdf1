"""Linear operators of ONNX become layers with weights, and decide as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fairchain.models import OnnxModel
from fairchain.models.base import random_inputs
from fairchain.models.edit.weights import Weights, with_dense_layers
from tests.networks import INT64, graph, linear, node, value
from tests.questions import category, integer, spec

QUESTION = [integer("x"), integer("y"), category("sex", "Female", "Male")]
COEFFICIENTS = np.array([[-1.0, -0.5, -2.0], [1.0, 0.5, 2.0], [0.3, -0.2, 0.1]])


def classifier(classes: int, transform: str, *, output: str) -> Any:
    attributes: dict[str, Any] = {
        "coefficients": COEFFICIENTS[:classes].ravel().tolist(),
        "intercepts": [8.2, -8.2, 0.5][:classes],
        "classlabels_ints": [0, 1, 2][:classes],
        "post_transform": transform,
    }
    kind = {"kind": INT64, "shape": ("N",)} if output == "label" else {"shape": ("N", classes)}
    return graph(
        [node("LinearClassifier", ["in"], ["label", "scores"], domain="ai.onnx.ml", **attributes)],
        [value("in", shape=("N", 3))],
        [value(output, **kind)],
        ml=True,
    )


@pytest.mark.parametrize("output", ["label", "scores"])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_linear_classifier_becomes_a_layer_that_decides_as_before(classes: int, transform: str, output: str) -> None:
    labels = ["no", "yes", "perhaps"][:classes]
    question = spec(*QUESTION, labels=labels, decision="label" if output == "label" else "argmax")
    content = classifier(classes, transform, output=output).SerializeToString()
    model = OnnxModel.from_bytes(content, "linear.onnx", question)
    dense = with_dense_layers(model)
    values = random_inputs(question.features, 2000).astype(np.float32)
    assert np.array_equal(dense.predict(values), model.predict(values))
    if output == "scores":
        assert np.allclose(dense.scores(values), model.scores(values), atol=1e-6)
    (block,) = Weights(dense).blocks
    assert Weights(dense).values[block.tensor].shape == (classes, 3)
    assert [unit.place for unit in block.incoming or ()] == [0, 1, 2]


def test_a_linear_regressor_becomes_a_layer() -> None:
    question = spec(*QUESTION, decision="logit")
    body = graph(
        [
            node(
                "LinearRegressor",
                ["in"],
                ["out"],
                domain="ai.onnx.ml",
                coefficients=[1.0, 0.5, 2.0],
                intercepts=[-8.2],
            )
        ],
        [value("in", shape=("N", 3))],
        [value("out", shape=("N", 1))],
        ml=True,
    )
    model = OnnxModel.from_bytes(body.SerializeToString(), "linear.onnx", question)
    dense = with_dense_layers(model)
    values = random_inputs(question.features, 500).astype(np.float32)
    assert np.allclose(dense.scores(values), model.scores(values), atol=1e-5)
    assert len(Weights(dense).blocks) == 1


def test_other_networks_are_left_as_they_are() -> None:
    question = spec(*QUESTION, decision="logit")
    content = linear([[1.0], [0.5], [2.0]], -8.2).SerializeToString()
    model = OnnxModel.from_bytes(content, "plain.onnx", question)
    assert with_dense_layers(model) is model
