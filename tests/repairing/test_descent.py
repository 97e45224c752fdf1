"""Derivatives are right, and lead to candidates that the judge accepts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairchain.errors import ModelError, SpecError
from fairchain.model import OnnxModel
from fairchain.model.gradients import STEPS, Differentiable
from fairchain.model.weights import Weights
from fairchain.repairing import repair
from tests.networks import constant, graph, node, value
from tests.repairing.builders import asked


def network(tmp_path: Path, end: str) -> OnnxModel:
    """Two layers with scaling, every operator that has a derivative in one of its forms."""
    random = np.random.default_rng(3)
    made = graph(
        [
            node("Sub", ["x", "shift"], ["s"]),
            node("Div", ["s", "scale"], ["d"]),
            node("MatMul", ["d", "w1"], ["m"]),
            node("Add", ["m", "b1"], ["a"]),
            node(end, ["a"], ["h"]),
            node("Mul", ["h", "scaled"], ["t"]),
            node("Gemm", ["t", "w2", "b2"], ["z"], transB=1, alpha=0.5, beta=2.0),
            node("Softmax", ["z"], ["y"]),
        ],
        [value("x", shape=("N", 3))],
        [value("y")],
        [
            constant("shift", [1, 2, 0]),
            constant("scale", [[3.0, 3.0, 1.0]]),
            constant("w1", random.normal(size=(3, 4))),
            constant("b1", random.normal(size=4)),
            constant("scaled", [2.0]),
            constant("w2", random.normal(size=(2, 4))),
            constant("b2", random.normal(size=2)),
        ],
    )
    return OnnxModel.from_bytes(made.SerializeToString(), "network.onnx", asked(tmp_path))


@pytest.mark.parametrize("end", ["Tanh", "Sigmoid", "LeakyRelu", "Relu"])
def test_derivatives_are_those_of_small_differences(tmp_path: Path, end: str) -> None:
    model = network(tmp_path, end)
    weights = Weights(model)
    tensors = ["w1", "b1", "w2", "b2"]
    differentiable = Differentiable(model, weights, tensors)
    random = np.random.default_rng(0)
    people = random.integers(0, 10, (40, 3)).astype(np.float64)
    feed = {"x": people}
    values = {name: weights.values[name].astype(np.float64) for name in tensors}
    scores, pull = differentiable.scores(feed, values)
    np.testing.assert_allclose(scores, model.scores(people.astype(np.float32)), rtol=1e-4, atol=1e-5)
    toward = random.normal(size=scores.shape)
    slopes = pull(toward)
    for name in tensors:
        for flat in (0, values[name].size - 1):
            step = 1e-6
            ends = []
            for sign in (1, -1):
                moved = {**values, name: values[name].copy()}
                moved[name].reshape(-1)[flat] += sign * step
                ends.append(float((differentiable.scores(feed, moved)[0] * toward).sum()))
            assert slopes[name].reshape(-1)[flat] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4, abs=1e-6)


def test_a_product_over_the_steps_of_a_series_has_a_derivative_too() -> None:
    random = np.random.default_rng(1)
    first, second, slope = (random.normal(size=size) for size in ((5, 3, 4), (4, 2), (5, 3, 2)))
    out, back = STEPS["MatMul"](node("MatMul", ["a", "b"], ["c"]), [first, second])
    by_first, by_second = back(slope)
    assert out.shape == (5, 3, 2)
    np.testing.assert_allclose(by_first, np.einsum("nto,io->nti", slope, second))
    np.testing.assert_allclose(by_second, np.einsum("nti,nto->io", first, slope))


def test_an_operator_without_a_derivative_is_refused_by_name(tmp_path: Path) -> None:
    model = network(tmp_path, "Softplus")
    with pytest.raises(ModelError, match="Softplus has no derivative"):
        Differentiable(model, Weights(model), ["w1"])


@pytest.mark.usefixtures("few_inputs")
def test_a_descent_repairs_too_and_repeats_itself(tmp_path: Path) -> None:
    spec = asked(tmp_path)
    one, again = (
        repair(None, spec, optimizer="gradient", change="last-layer", iterations=6, workers=1) for _ in range(2)
    )
    assert one.accepted
    assert one.content == again.content
    with pytest.raises(SpecError, match="gradient"):
        repair(None, asked(tmp_path, property__kind="individual"), optimizer="gradient", workers=1)
