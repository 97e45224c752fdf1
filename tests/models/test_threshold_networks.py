"""Networks with other thresholds decide by the old scores and the new thresholds, and by nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto

from fairchain.errors import ModelError
from fairchain.models import OnnxModel
from fairchain.models.base import random_inputs
from fairchain.models.edit.thresholds import (
    GROUP_NOT_VISIBLE,
    ScoreTensor,
    reading_groups,
    score_tensors,
    showing_scores,
    with_thresholds,
)
from fairchain.prepare import group_masks
from fairchain.spec import Spec, groups_of
from tests.messages import says
from tests.networks import constant, graph, node, value
from tests.questions import category, integer, real, spec

INPUTS = 500
# Weights for features x and y; that of sex where the network reads it.
X, Y, SEX = 1.0, 0.5, 2.0
SCORED = [integer("x"), integer("y"), category("sex", "Female", "Male", "other")]


def score(values: NDArray[Any], sex: float) -> NDArray[Any]:
    return np.asarray(X * values[:, 0] + Y * values[:, 1] + sex * values[:, 2] - 8.25)


def loaded(model: ModelProto, question: Spec) -> OnnxModel:
    return OnnxModel.from_bytes(model.SerializeToString(), "scored.onnx", question)


def flat(end: str, *, sex: float = SEX, width: int = 3) -> ModelProto:
    """Return a network with one input and a column of scores, or two: a linear score and its negative."""
    weights = np.array([[X], [Y], [sex]])[:width]
    bias, columns = np.array([-8.25]), 1
    if end in ("argmax", "softmax", "labels", "texts"):
        weights, bias, columns = np.hstack([-weights, weights]), np.array([8.25, -8.25]), 2
    nodes = [node("Gemm", ["in", "w", "b"], ["sums"])]
    constants = [constant("w", weights), constant("b", bias)]
    outputs = [value("out", shape=("N", columns))]
    if end == "softmax":
        nodes.append(node("Softmax", ["sums"], ["out"], axis=1))
    elif end == "sigmoid":
        nodes.append(node("Sigmoid", ["sums"], ["out"]))
    elif end in ("labels", "texts"):
        nodes += [node("ArgMax", ["sums"], ["number"], axis=1, keepdims=0)]
        nodes += [node("Gather", ["names", "number"], ["out"])]
        kind = TensorProto.STRING if end == "texts" else TensorProto.INT64
        names = constant("names", [5, 7], np.int64)
        if end == "texts":
            names.CopyFrom(TensorProto(name="names", data_type=kind, dims=[2], string_data=[b"no", b"yes"]))
        constants.append(names)
        outputs = [value("out", kind, shape=("N",))]
    else:
        nodes.append(node("Identity", ["sums"], ["out"]))
    return graph(nodes, [value("in", shape=("N", width))], outputs, constants)


ENDS: dict[str, tuple[dict[str, Any], float]] = {
    "logit": ({"decision": "logit"}, 0.0),
    "argmax": ({"decision": "argmax"}, 0.0),
    "softmax": ({"decision": "argmax"}, 0.5),
    "sigmoid": ({"decision": "probability"}, 0.5),
    "labels": ({"codes": [5, 7]}, 0.0),
    "texts": ({"codes": ["no", "yes"]}, 0.0),
}


def from_score(end: str, scores: NDArray[Any]) -> NDArray[Any]:
    """Return the score that thresholds are compared with, from the linear one."""
    if end == "sigmoid":
        return np.asarray(1 / (1 + np.exp(-scores)))
    return np.asarray({"softmax": 1 / (1 + np.exp(-2 * scores)), "logit": scores}.get(end, 2 * scores))


@pytest.mark.parametrize("reads_sex", [True, False], ids=["reads the group", "gets an input for it"])
@pytest.mark.parametrize("grouped", [False, True], ids=["one threshold", "for each group"])
@pytest.mark.parametrize("end", ENDS)
def test_a_network_decides_by_its_scores_and_its_new_thresholds(end: str, grouped: bool, reads_sex: bool) -> None:
    meaning, cut = ENDS[end]
    features = [*SCORED[:2], {**SCORED[2], "model_input": reads_sex}]
    question = spec(*features, **meaning)
    model = loaded(flat(end, width=3 if reads_sex else 2), question)
    tensor = None
    if end in ("labels", "texts"):
        assert score_tensors(model) == ["sums"]
        assert showing_scores(model, question, "sums").decision.kind == "argmax"
        tensor = ScoreTensor("sums", difference=True)
    groups = groups_of(question) if grouped else ()
    size = 1.0 if cut else 10.0
    thresholds = [cut + size * move for move in (0.21, -0.13, 0.34)][: len(groups) or 1]
    content = with_thresholds(
        model, question, cut=cut, thresholds=thresholds, groups=groups, scores=tensor, doubled=end == "softmax"
    )
    changed = reading_groups(question) if grouped else question
    values = random_inputs(question.features, INPUTS)
    places = values[:, 2].astype(int) if grouped else np.zeros(INPUTS, int)
    scores = from_score(end, score(values, SEX if reads_sex else 0.0))
    new = OnnxModel.from_bytes(content, "new.onnx", changed)
    expected = scores > np.array(thresholds)[places]
    assert np.array_equal(new.predict(values.astype(np.float32)), expected)
    assert not np.array_equal(expected, scores > cut)


@pytest.mark.parametrize(
    "protected",
    [
        category("who", "a", "b", "c", codes=[4, 2, 9]),
        category("who", "a", "b", "c", one_hot=True),
        category("who", "a", "b", "c", groups={"first": ["a", "c"], "second": "b"}),
        integer("who", 17, 60, groups={"young": [17, 24], "old": [25, 60]}),
        integer("who", 17, 60, groups={"young": [17, 24], "old": [30, 60]}, scale={"mean": 30, "std": 7}),
        integer("who", 0, 60, groups={"young": [0, 29], "old": [30, 60]}, step=10),
        real("who", 0, 60, groups={"young": [0, 25], "old": [25, 60]}),
    ],
    ids=["codes", "one-hot", "joined values", "ranges", "scaled", "steps", "reals"],
)
def test_groups_are_those_of_the_spec_however_the_network_gets_them(protected: dict[str, Any]) -> None:
    question = spec(integer("x"), protected, decision="logit")
    width = 4 if protected.get("one_hot") else 2
    body = graph(
        [node("MatMul", ["in", "w"], ["out"])],
        [value("in", shape=("N", width))],
        [value("out", shape=("N", 1))],
        [constant("w", [[1.0]] + [[0.0]] * (width - 1))],
    )
    model, groups = loaded(body, question), groups_of(question)
    values = random_inputs(question.features, INPUTS)
    thresholds = [2.5, 6.5, 4.5][: len(groups)]
    content = with_thresholds(model, question, cut=3.5, thresholds=thresholds, groups=groups)
    masks = group_masks(question, groups, values)
    each = np.where(masks.any(axis=0), np.array(thresholds)[masks.argmax(axis=0)], 3.5)
    # The decision threshold of a logit is 0, and the network shifts by what each threshold moved from 3.5.
    expected = values[:, 0] - (each - 3.5) > 0
    new = OnnxModel.from_bytes(content, "new.onnx", question)
    assert np.array_equal(new.predict(values.astype(new.dtype)), expected)


@pytest.mark.parametrize(
    "protected",
    [
        integer("who", 17, 60, groups={"young": [17, 24], "old": [25, 60]}, step=10),
        real("who", 0, 60, groups={"young": [0, 25], "old": [25, 60]}, bins=[20, 40]),
        category("who", "a", "b", "c", codes=[1, 1, 2]),
    ],
    ids=["steps", "bins", "codes"],
)
def test_a_group_that_the_network_cannot_tell_is_refused(protected: dict[str, Any]) -> None:
    question = spec(integer("x"), protected, decision="logit")
    model = loaded(flat("logit", width=2), question)
    groups = groups_of(question)
    with pytest.raises(ModelError, match=says(GROUP_NOT_VISIBLE, feature_name="who")):
        with_thresholds(model, question, cut=0.0, thresholds=[1.0] * len(groups), groups=groups)


@pytest.mark.parametrize("texts", [True, False], ids=["as text", "as a further input"])
def test_networks_with_an_input_for_each_feature_read_the_group_too(texts: bool) -> None:
    features = [integer("x"), integer("y"), category("sex", "Female", "Male", model_input=texts)]
    question = spec(*features, decision="logit")
    inputs = [value("x", shape=("N", 1)), value("y", shape=("N", 1))]
    inputs += [value("sex", TensorProto.STRING, ("N", 1))] if texts else []
    body = graph([node("Sub", ["x", "y"], ["out"])], inputs, [value("out", shape=("N", 1))])
    model, groups = loaded(body, question), groups_of(question)
    content = with_thresholds(model, question, cut=0.0, thresholds=[-2.5, 1.5], groups=groups)
    new = OnnxModel.from_bytes(content, "new.onnx", reading_groups(question))
    values = random_inputs(question.features, INPUTS)
    expected = values[:, 0] - values[:, 1] > np.array([-2.5, 1.5])[values[:, 2].astype(int)]
    assert np.array_equal(new.predict(values.astype(new.dtype)), expected)
