"""Random feed-forward ReLU networks for tests of bounds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from onnx import ModelProto

from tests.networks import FLOAT, constant, graph, node, value


def relu_net(
    rng: np.random.Generator, widths: Sequence[int], *, end: str | None = None, kind: int = FLOAT, gain: float = 1.0
) -> ModelProto:
    """Gemm and Relu in turn, or MatMul, Add and Relu: chosen at random for each layer."""
    dtype: Any = np.float32 if kind == FLOAT else np.float64
    nodes, constants, flow = [], [], "x"
    for number, (before, after) in enumerate(pairwise(widths)):
        weights = rng.standard_normal((before, after)) * np.sqrt(2 / before) * (gain if number == 0 else 1.0)
        bias = rng.standard_normal(after) * 0.5
        w, b, m, s, r = (f"{name}{number}" for name in "wbmsr")
        constants += [constant(b, bias, dtype)]
        if rng.random() < 0.5:
            constants.append(constant(w, weights.T, dtype))
            nodes.append(node("Gemm", [flow, w, b], [s], transB=1))
        else:
            constants.append(constant(w, weights, dtype))
            nodes += [node("MatMul", [flow, w], [m]), node("Add", [m, b], [s])]
        flow = s
        if number < len(widths) - 2:
            nodes.append(node("Relu", [s], [r]))
            flow = r
    nodes.append(node(end or "Identity", [flow], ["y"]))
    shape = [value("x", kind, ("N", widths[0]))], [value("y", kind, ("N", widths[-1]))]
    return graph(nodes, *shape, constants)
