"""A small network that looks at sex, and questions about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from fairchain.spec import Spec, parse_spec
from tests.networks import constant, graph, node, value
from tests.questions import category, integer, question

SEX = 2
# A repair that ends soon: nothing ranked, two generations.
QUICK: dict[str, Any] = {"max_units": 0, "iterations": 2, "workers": 1}


def biased(weight: float = 2.0) -> ModelProto:
    """Says yes if x + y + weight * sex is large, through a hidden layer that sex goes through in one neuron only."""
    first = np.array([[1, 0, 0, 0.1], [0, 1, 0, 0.1], [0, 0, weight, 0]])
    second = np.array([[0, 1.0], [0, 1], [0, 1], [0, 0.1]])
    return graph(
        [
            node("Gemm", ["x", "w1", "b1"], ["h"]),
            node("Relu", ["h"], ["r"]),
            node("Gemm", ["r", "w2", "b2"], ["y"]),
        ],
        [value("x", shape=("N", 3))],
        [value("y", shape=("N", 2))],
        [
            constant("w1", first),
            constant("b1", np.zeros(4)),
            constant("w2", second),
            constant("b2", [9.5 + weight / 2, 0.0]),
        ],
    )


def fragile() -> ModelProto:
    """The network of `biased`, with a term that is 0, or NaN where b3 is below -x: nobody's score, as b3 is 0.5."""
    model = biased()
    model.graph.node[-1].output[0] = "z"
    model.graph.node.extend(
        [
            node("Gemm", ["x", "w3", "b3"], ["g"]),
            node("Sqrt", ["g"], ["s"]),
            node("Mul", ["s", "nothing"], ["t"]),
            node("Add", ["z", "t"], ["y"]),
        ]
    )
    model.graph.initializer.extend([constant("w3", [[1], [0], [0]]), constant("b3", [0.5]), constant("nothing", [0])])
    return model


def asked(path: Path, **changes: Any) -> Spec:
    """Whether men and women get yes alike, with the network of `biased` written to this folder."""
    file = path / "network.onnx"
    if not file.exists():
        file.write_bytes(biased().SerializeToString())
    data = question(integer("x"), integer("y"), category("sex", "Female", "Male"))
    data["model"]["path"] = str(file)
    data["guarantee"] |= {"budget": {"rounds": 1_000_000, "seconds": 60}}
    for key, value_ in changes.items():
        part, name = key.split("__")
        data.setdefault(part, {})[name] = value_
    return parse_spec(data)


def labelled(count: int = 400) -> dict[str, Any]:
    """Rows whose true label does not look at sex."""
    random = np.random.default_rng(5)
    x, y, sex = random.integers(0, 10, count), random.integers(0, 10, count), random.integers(0, 2, count)
    return {
        "x": x.tolist(),
        "y": y.tolist(),
        "sex": [("Female", "Male")[s] for s in sex],
        "label": [("no", "yes")[int(total > 9.5)] for total in x + y],
    }
