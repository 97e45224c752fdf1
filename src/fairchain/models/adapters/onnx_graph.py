"""ONNX graphs in memory: written node by node, and made plain after another package wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

# What onnxruntime has understood for years; the package's own defaults may be newer than it accepts.
OPSET, IR_VERSION = 17, 8


class OnnxGraph:
    """A graph under construction: each method returns the name of what it made."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def constant(self, values: ArrayLike, dtype: Any = np.float32) -> str:
        """A tensor of weights or indices."""
        from onnx import numpy_helper

        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(values, dtype), name))
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """An operator with one output."""
        return self.nodes(operator, inputs, 1, **attributes)[0]

    def nodes(self, operator: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> list[str]:
        """An operator with several outputs."""
        from onnx import helper

        names = [f"n{len(self._nodes)}_{place}" for place in range(outputs)]
        self._nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names

    def to_bytes(self, inputs: Sequence[tuple[str, Any, Sequence[int | str]]], columns: int, answer: str) -> bytes:
        """The finished network, from these inputs (name, number type, shape) to `output` (batch, columns).

        `answer` is an output of the last operator.
        """
        from onnx import TensorProto, helper

        self._nodes[-1].output[list(self._nodes[-1].output).index(answer)] = "output"
        taken = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), list(shape))
            for name, dtype, shape in inputs
        ]
        outputs = [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", columns])]
        body = helper.make_graph(self._nodes, "network", taken, outputs, self._constants)
        model = helper.make_model(body, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        return bytes(model.SerializeToString(deterministic=True))


def plain_bytes(model: Any) -> bytes:
    """The bytes of a model without what its exporter noted in it: the paths of source files, a name by chance."""
    model.graph.name = "network"
    model.ClearField("metadata_props")
    model.ClearField("doc_string")
    for part in (model, *model.functions):
        # Exporters keep the versions of operators in sets, whose order differs between processes.
        versions = sorted(part.opset_import, key=lambda version: version.domain)
        del part.opset_import[:]
        part.opset_import.extend(versions)
    for part in (model.graph, *model.functions):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
        part.ClearField("value_info")
        for node in part.node:
            node.ClearField("doc_string")
            node.ClearField("metadata_props")
    for value in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        value.ClearField("doc_string")
        value.ClearField("metadata_props")
    return bytes(model.SerializeToString(deterministic=True))
