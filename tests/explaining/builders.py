"""A network small enough to ask about everybody, so that every effect and every sensitivity is known exactly."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.models import OnnxModel
from fairchain.spec import Spec, parse_spec
from tests.networks import constant, graph, node, value
from tests.questions import category, integer

Array = NDArray[np.float64]
Layers = Sequence[tuple[Array, Array]]
PEOPLE = np.array(list(product(range(4), range(3), range(3))), float)
GROUPS = 3


def small_spec(**changes: Any) -> Spec:
    """Two whole numbers, a category, and three groups; everything uniform."""
    data = {
        "model": {"labels": ["no", "yes"]},
        "feature": [
            integer("income", 0, 3),
            integer("years", 0, 2),
            category("house", "rent", "own", "none"),
            category("group", "a", "b", "c"),
        ],
        "property": {"kind": "difference", "protected": ["group"], "outcome": "yes", "threshold": 0.1},
        "guarantee": {"engine": "sampling", "delta": 1e-6},
    }
    return parse_spec({**data, **changes})


def dense(layers: Layers) -> Any:
    """A dense network with relus between its layers, as ONNX; layers are weights (out, in) and biases."""
    nodes, constants, last = [], [], "x"
    for number, (weights, bias) in enumerate(layers, start=1):
        made = "y" if number == len(layers) else f"z{number}"
        constants += [constant(f"w{number}", weights), constant(f"b{number}", bias)]
        nodes.append(node("Gemm", [last, f"w{number}", f"b{number}"], [made], transB=1))
        if made != "y":
            last = f"relu{number}"
            nodes.append(node("Relu", [made], [last]))
    width = layers[0][0].shape[1], layers[-1][0].shape[0]
    return graph(nodes, [value("x", shape=("N", width[0]))], [value("y", shape=("N", width[1]))], constants)


def random_layers(seed: int, sizes: Sequence[int] = (4, 5, 4, 2)) -> list[tuple[Array, Array]]:
    rng = np.random.default_rng(seed)
    return [(rng.normal(0, 1, (outputs, inputs)), rng.normal(0, 0.5, outputs)) for inputs, outputs in pairwise(sizes)]


def loaded(layers: Layers, spec: Spec) -> OnnxModel:
    return OnnxModel.from_bytes(dense(layers).SerializeToString(), "small.onnx", spec)


def hidden(layers: Layers, people: Array, depth: int) -> Array:
    """Activations of a layer, 0 for the inputs."""
    for weights, bias in layers[:depth]:
        people = np.maximum(people @ weights.T + bias, 0)
    return people


def decided(layers: Layers, activations: Array, depth: int) -> NDArray[np.bool_]:
    """Who gets a yes, from the activations of a layer on."""
    inner = hidden(layers[depth:-1], activations, len(layers) - 1 - depth)
    scores = inner @ layers[-1][0].T + layers[-1][1]
    return scores[:, 1] > scores[:, 0]


def everybody(group: int) -> Array:
    return np.column_stack([PEOPLE, np.full(len(PEOPLE), group)])


def true_rate(layers: Layers, group: int) -> float:
    return float(decided(layers, everybody(group), 0).mean())


def true_rate_after(layers: Layers, group: int, depth: int, unit: int, given: Sequence[float]) -> float:
    """The rate of a yes if the unit takes each of these values, the same for everybody, equally often."""
    rates = []
    for each in given:
        changed = hidden(layers, everybody(group), depth).copy()
        changed[:, unit] = each
        rates.append(decided(layers, changed, depth).mean())
    return float(np.mean(rates))


def true_sensitivity(layers: Layers, depth: int, unit: int) -> float:
    """The paper's sum over on and off, from everybody."""
    on = np.stack([hidden(layers, everybody(group), depth)[:, unit] > 0 for group in range(GROUPS)])
    got = np.stack([decided(layers, everybody(group), 0) for group in range(GROUPS)])
    return float(sum((state & got).mean() * np.ptp(state.mean(axis=1)) for state in (on, ~on)))
