"""Features that a network provably ignores: every decision is independent of their value.

The network does not take the feature, or its first layers multiply everything derived from it by 0. The proof is read
from the graph (docs/mathematics-exact.md, "Finite input spaces"); nothing is evaluated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.models.base import Model
from fairchain.models.onnx.feature_encoding import extremes, widths
from fairchain.models.onnx.file_checks import attribute
from fairchain.models.onnx.inputs import Feed
from fairchain.models.onnx.session import OnnxModel
from fairchain.spec import Spec

# Operators that may follow the first layer. A product with 0 leaves a sum unchanged up to the sign of a zero, and none
# of these maps 0 and -0 to different numbers.
BLIND_TO_SIGNED_ZERO = frozenset(
    """
    Add ArgMax Cast Clip Concat Dropout Elu Exp Flatten Gemm Identity LeakyRelu LogSoftmax MatMul Max Min Mul Relu
    Reshape Selu Sigmoid Softmax Softplus Squeeze Sub Tanh Unsqueeze
    """.split()  # noqa: SIM905  # a block of names reads better than a list of strings
)
# ONNX codes of the types to which an input may be cast: single precision has numbers up to this.
SINGLE, DOUBLE, MOST_SINGLE = 1, 11, 3e38


def ignored_features(model: Model | None, spec: Spec) -> frozenset[int]:
    """Return the indices in `spec.features` of the features that no decision depends on."""
    found = {place for place, feature in enumerate(spec.features) if not feature.model_input}
    if isinstance(model, OnnxModel) and isinstance(model.inputs, Feed):
        slots = model.inputs.slots
        spans = widths(spec.features)
        for slot in slots if not any(each.steps_first or len(each.shape) != 1 for each in slots) else ():
            largest = max(abs(each) for place in slot.features for each in extremes(spec.features[place]))
            used = _used(model, slot.name, slot.shape[0], largest)
            start = 0
            for place in slot.features:
                if not used[start : start + spans[place]].any():
                    found.add(place)
                start += spans[place]
    return frozenset(found)


def _used(model: OnnxModel, tensor: str, width: int, largest: float) -> NDArray[np.bool_]:
    """Return which numbers of an input can affect the decision: all of them unless the graph proves otherwise.

    No number of the input is larger than `largest`.
    """
    graph = model.network.model.graph
    every = np.ones(width, bool)
    if any(node.domain not in ("", "ai.onnx") or node.op_type not in BLIND_TO_SIGNED_ZERO for node in graph.node):
        return every
    constants = {each.name: each for each in graph.initializer}
    overridable = {each.name for each in graph.input}
    if any(output.name == tensor for output in graph.output):
        return every
    from onnx.numpy_helper import to_array

    used, todo = np.zeros(width, bool), [tensor]
    while todo:
        name = todo.pop()
        for node in model.network.users.get(name, ()):
            if _in_place(node, largest):
                todo.append(node.output[0])
                continue
            # Otherwise it must be a matrix product, which reads the columns whose weights are not all 0.
            product = node.op_type in ("Gemm", "MatMul") and node.input[0] == name and node.input[1] != name
            weights = constants.get(node.input[1]) if product and node.input[1] not in overridable else None
            matrix = np.empty(0) if weights is None else to_array(weights)
            if matrix.ndim != 2 or matrix.dtype.kind != "f" or name in node.input[2:] or attribute(node, "transA", 0):
                return every
            turned = bool(attribute(node, "transB", 0))
            if matrix.shape[turned] != width or not np.isfinite(matrix).all():
                return every
            used |= (matrix != 0).any(axis=0 if turned else 1)
    return used


def _in_place(node: Any, largest: float) -> bool:
    """Return whether an operator keeps every number of a row at its position and finite: 0 times infinity is not 0."""
    if node.op_type == "Cast":
        kind = attribute(node, "to", 0)
        return bool(kind == DOUBLE or (kind == SINGLE and largest < MOST_SINGLE))
    return bool(node.op_type == "Identity" or (node.op_type == "Flatten" and attribute(node, "axis", 1) == 1))
