"""Looking inside a network changes nothing about its decisions, and shows what its graph computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairchain import ModelError, OnnxModel, example, load_spec
from fairchain.models.base import random_inputs
from fairchain.models.inspect.activations import UNKNOWN_LAYER_OR_TENSOR, Probe, layers_of
from fairchain.models.onnx.session import NOT_A_LAYER_OF_NUMBERS
from tests.messages import says
from tests.networks import constant, graph, node, save, value
from tests.questions import category, integer, spec

CENSUS = load_spec(example("census"))


def census() -> OnnxModel:
    return OnnxModel(str(CENSUS.model.path), CENSUS)


def test_layers_are_the_activations_in_order() -> None:
    layers = layers_of(census(), CENSUS)
    assert [layer.name for layer in layers] == ["layer1", "layer2", "layer3", "layer4", "layer5"]
    assert [layer.width for layer in layers] == [64, 32, 16, 8, 4]
    assert {layer.operator for layer in layers} == {"Relu"}


def test_decisions_stay_the_same_and_numbers_or_names_mean_the_same_layer() -> None:
    model = census()
    people = random_inputs(CENSUS.features, 500).astype(model.dtype)
    probe = Probe(model, CENSUS, ["layer2", "relu2", "layer5"])
    labels, hidden = probe(people)
    assert np.array_equal(labels, model.predict(people))
    assert np.array_equal(hidden["layer2"], hidden["relu2"])
    assert hidden["layer5"].shape == (500, 4)
    assert (hidden["layer5"] >= 0).all()


def test_what_is_shown_is_what_the_graph_computes(tmp_path: Path) -> None:
    weights = np.array([[1.0, -2.0], [0.5, 3.0]], np.float32)
    nodes = [
        node("MatMul", ["x", "w"], ["sum"]),
        node("Relu", ["sum"], ["hidden"]),
        node("MatMul", ["hidden", "v"], ["y"]),
    ]
    made = graph(nodes, [value("x")], [value("y")], [constant("w", weights), constant("v", np.eye(2))])
    asked = spec(integer("age"), category("sex", "Female", "Male"), path=str(save(made, tmp_path / "n.onnx")))
    model = OnnxModel(str(asked.model.path), asked)
    people = random_inputs(asked.features, 50).astype(np.float32)
    _, hidden = Probe(model, asked, ["layer1", "sum"])(people)
    assert hidden["sum"] == pytest.approx(people @ weights, rel=1e-5)
    assert hidden["layer1"] == pytest.approx(np.maximum(people @ weights, 0), rel=1e-5)


def test_a_name_that_is_not_there_comes_with_what_is_near() -> None:
    with pytest.raises(ModelError, match=says(UNKNOWN_LAYER_OR_TENSOR, name2="relu9")):
        Probe(census(), CENSUS, ["relu9"])
    with pytest.raises(ModelError, match=says(UNKNOWN_LAYER_OR_TENSOR)):
        Probe(census(), CENSUS, ["zzzzzzz"])


def test_only_numbers_with_the_batch_first_can_be_looked_at() -> None:
    nodes = [node("Relu", ["x"], ["h"]), node("Transpose", ["h"], ["t"]), node("Identity", ["h"], ["y"])]
    made = graph(nodes, [value("x")], [value("y")])
    asked = spec(integer("age"), category("sex", "Female", "Male"))
    model = OnnxModel.from_bytes(made.SerializeToString(), "n.onnx", asked)
    with pytest.raises(ModelError, match=says(NOT_A_LAYER_OF_NUMBERS, tensor="t", shape="(2, 3)", rows="3")):
        Probe(model, asked, ["t"])
