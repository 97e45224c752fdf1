"""ONNX graphs in memory: built node by node, and stripped of an exporter's annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# A version that onnxruntime has supported for years; the default of the onnx package may be newer than it accepts.
OPSET, IR_VERSION = 17, 8


class OnnxGraph:
    """A graph under construction; methods that add to it return the names of the new tensors."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def constant(self, values: ArrayLike, dtype: Any = np.float32) -> str:
        """Add a tensor of weights or indices."""
        from onnx import numpy_helper

        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(values, dtype), name))
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator with one output."""
        return self.nodes(operator, inputs, 1, **attributes)[0]

    def nodes(self, operator: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> list[str]:
        """Add an operator with several outputs."""
        from onnx import helper

        names = [f"n{len(self._nodes)}_{place}" for place in range(outputs)]
        self._nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names

    def dense(self, tensor: str, weights: NDArray[Any], bias: NDArray[Any] | None) -> str:
        """Add the product of rows with weights, (inputs, units), and a bias if there is one."""
        made = self.node("MatMul", tensor, self.constant(weights))
        return made if bias is None else self.node("Add", made, self.constant(bias))

    def reshaped(self, tensor: str, *shape: int) -> str:
        """Add a change of shape; 0 keeps the size of an axis, and -1 stands for the remaining size."""
        return self.node("Reshape", tensor, self.constant(shape, np.int64))

    def to_bytes(self, inputs: Sequence[tuple[str, Any, Sequence[int | str]]], columns: int, answer: str) -> bytes:
        """Return the finished network, from these inputs (name, number type, shape) to `output` (batch, columns).

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
    """Return the bytes of a model without the annotations of its exporter: paths of source files, a random name."""
    graph = model.graph
    graph.name = "network"
    for part in (model, *model.functions):
        # Exporters store operator versions in sets, whose order differs between processes.
        versions = sorted(part.opset_import, key=lambda version: version.domain)
        del part.opset_import[:]
        part.opset_import.extend(versions)
    bodies = (graph, *model.functions)
    nodes = [node for body in bodies for node in body.node]
    for part in (model, *bodies, *nodes, *graph.input, *graph.output, *graph.initializer):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    for body in bodies:
        body.ClearField("value_info")
    return bytes(model.SerializeToString(deterministic=True))
