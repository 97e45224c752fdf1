"""Tiny ONNX networks for tests, written node by node so that every oddity is on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

FLOAT, DOUBLE, INT64, INT32, BOOL = (
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.INT64,
    TensorProto.INT32,
    TensorProto.BOOL,
)


def node(
    operator: str, inputs: Sequence[str], outputs: Sequence[str], domain: str = "", **attributes: Any
) -> NodeProto:
    return helper.make_node(operator, list(inputs), list(outputs), domain=domain, **attributes)


def value(name: str, kind: int = FLOAT, shape: Sequence[int | str] = ("N", 2)) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, list(shape))


def constant(name: str, array: ArrayLike, dtype: Any = np.float32) -> TensorProto:
    return numpy_helper.from_array(np.asarray(array, dtype), name)


def graph(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    constants: Sequence[TensorProto] = (),
    ml: bool = False,
) -> ModelProto:
    opsets = [helper.make_opsetid("", 17)] + ([helper.make_opsetid("ai.onnx.ml", 3)] if ml else [])
    body = helper.make_graph(list(nodes), "tiny", list(inputs), list(outputs), list(constants))
    return helper.make_model(body, opset_imports=opsets, ir_version=8)


def save(model: ModelProto, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def linear(
    weights: ArrayLike, bias: ArrayLike = 0.0, *, end: str | None = None, kind: int = FLOAT, batch: int | str = "N"
) -> ModelProto:
    """x @ weights + bias, then the operator `end`; whole-number inputs are cast first."""
    real = kind if kind in (FLOAT, DOUBLE) else FLOAT
    dtype = helper.tensor_dtype_to_np_dtype(real)
    table = np.asarray(weights, dtype)
    nodes = [
        node("Cast", ["x"], ["r"], to=real),
        node("MatMul", ["r", "w"], ["m"]),
        node("Add", ["m", "b"], ["y" if end is None else "a"]),
    ]
    if end is not None:
        nodes.append(node(end, ["a"], ["y"]))
    return graph(
        nodes,
        [value("x", kind, (batch, table.shape[0]))],
        [value("y", real, (batch, table.shape[1]))],
        [constant("w", table, dtype), constant("b", np.broadcast_to(np.asarray(bias, dtype), table.shape[1]), dtype)],
    )
