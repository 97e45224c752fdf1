"""Linear models whose weights are attributes of one operator, rewritten with changeable weights.

`LinearClassifier` and `LinearRegressor` of ONNX have their coefficients as attributes. The equivalent Gemm, activation
and argmax have them as tensors, like any layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fairchain.models.onnx.file_checks import attribute
from fairchain.models.onnx.session import OnnxModel

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

# The operator version for a network that has only linear operators.
LINEAR_OPSET = 17
LINEAR_MODELS = ("LinearClassifier", "LinearRegressor")
ACTIVATION = {"NONE": "Identity", "LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}


def with_dense_layers(model: OnnxModel) -> OnnxModel:
    """Return the same network with a Gemm instead of each linear operator; the network itself if it has none."""
    network = model.network.copy()
    changed = False
    for node in list(network.graph.node):
        if node.op_type in LINEAR_MODELS:
            made = _dense(network, node)
            if made is not None:
                place = list(network.graph.node).index(node)
                network.graph.node.remove(node)
                for offset, each in enumerate(made):
                    network.graph.node.insert(place + offset, each)
                changed = True
    if not changed:
        return model
    if not any(each.domain in ("", "ai.onnx") for each in network.opset_import):
        from onnx import helper

        network.opset_import.append(helper.make_opsetid("", LINEAR_OPSET))
    return model.with_graph(network)


def _dense(network: ModelProto, node: NodeProto) -> list[Any] | None:
    """Return operators that are equivalent to a linear one; None for an unsupported form."""
    from onnx import helper

    activation = ACTIVATION.get(_text(attribute(node, "post_transform", b"NONE")))
    coefficients = np.array(attribute(node, "coefficients", []), np.float32)
    intercepts = np.array(attribute(node, "intercepts", []), np.float32)
    labels: list[Any] = list(attribute(node, "classlabels_ints", []) or attribute(node, "classlabels_strings", []))
    regressor = node.op_type == "LinearRegressor"
    outputs = int(attribute(node, "targets", 1)) if regressor else len(labels)
    if activation is None or not outputs or len(coefficients) % outputs or len(intercepts) not in (0, outputs):
        return None
    if not regressor and (outputs < 2 or len(intercepts) != outputs):
        return None
    scores = node.output[0] if regressor else node.output[1]
    base = scores or node.output[0]
    weights = _added(network, f"{base}_weights", coefficients.reshape(outputs, -1))
    bias = _added(network, f"{base}_bias", intercepts if len(intercepts) else np.zeros(outputs, np.float32))
    single, raw = f"{base}_single", f"{base}_sums"
    made = [
        helper.make_node("Cast", [node.input[0]], [single], to=1),
        helper.make_node("Gemm", [single, weights, bias], [raw], transB=1),
    ]
    if scores:
        axis: dict[str, Any] = {"axis": 1} if activation == "Softmax" else {}
        made.append(helper.make_node(activation, [raw], [scores], **axis))
    if not regressor:
        table = _added(network, f"{base}_labels", labels)
        made.append(helper.make_node("ArgMax", [raw], [f"{base}_largest"], axis=1, keepdims=0))
        made.append(helper.make_node("Gather", [table, f"{base}_largest"], [node.output[0]], axis=0))
    return made


def _added(network: ModelProto, name: str, values: Any) -> str:
    """Add a tensor of weights or labels to a network."""
    from onnx import helper, numpy_helper

    if isinstance(values, list):
        texts = isinstance(values[0], bytes | str)
        values = [each.encode() if isinstance(each, str) else each for each in values]
        tensor = helper.make_tensor(name, 8 if texts else 7, [len(values)], values)
    else:
        tensor = numpy_helper.from_array(np.ascontiguousarray(values), name)
    network.ir_version = max(network.ir_version, 4)
    network.graph.initializer.append(tensor)
    return name


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
