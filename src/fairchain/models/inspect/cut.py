"""A network split at one of its tensors: the operators after it, evaluated with changed activations.

The second part is a network that takes the tensor as an input, and also the network's inputs if a path bypasses the
tensor. Activations are computed once; each change of them costs only the operators after them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.base import check_shape
from fairchain.models.onnx.decision import Labels, NoDecisionError
from fairchain.models.onnx.file_checks import check_bytes
from fairchain.models.onnx.runtime import Runtime
from fairchain.models.onnx.session import OnnxModel

if TYPE_CHECKING:
    from onnx import ModelProto

# The ONNX codes of the types that a layer may have.
ELEMENTS = {"float32": 1, "float16": 10, "float64": 11}
TENSOR_CANNOT_BE_CUT = (
    '{name}: tensor "{tensor}" has shape {shape} and type {dtype} for {values_count} inputs; only layers of numbers '
    "with the batch first can be intervened on"
)
OTHER_ACTIVATIONS = '{path}: with other activations in "{tensor}": {problem}; leave that layer out'


class Cut:
    """The part of a network after a tensor, whose first dimension must be the batch.

    `values` are a few rows of feature values, to determine the tensor's shape. `reaches` is whether the decision
    depends on the tensor.
    """

    def __init__(self, model: OnnxModel, tensor: str, values: NDArray[np.floating]) -> None:
        self.model, self.tensor = model, tensor
        sample = model.with_outputs([tensor]).run(values, [tensor])[0]
        if sample.ndim < 1 or len(sample) != len(values) or sample.dtype.name not in ELEMENTS:
            raise ModelError(
                TENSOR_CANNOT_BE_CUT.format(
                    name=model.name, tensor=tensor, shape=sample.shape, dtype=sample.dtype, values_count=len(values)
                )
            )
        self._shape, self._dtype = sample.shape[1:], sample.dtype
        network = model.network.copy()
        self.reaches = keep_behind(network, tensor, model.decision.output, sample.dtype, self._shape)
        if self.reaches:
            self._inputs = [node.name for node in network.graph.input if node.name != tensor]
            self._runtime = Runtime(check_bytes(model.path, network.SerializeToString(), model.limits), model.limits)

    def predict(self, hidden: NDArray[np.floating], values: NDArray[np.floating]) -> Labels:
        """Return the class of each row of `values` if the tensor had the values `hidden`, (rows, units)."""
        whole = self.model.inputs(values) if self._inputs else {}
        feed = {name: whole[name] for name in self._inputs}
        feed[self.tensor] = hidden.astype(self._dtype, copy=False).reshape(len(hidden), *self._shape)
        decision = self.model.decision
        answer = self._runtime.run(feed, [decision.output])[0]
        check_shape(self.model.name, decision, answer, len(hidden))
        try:
            return decision(answer, len(hidden))
        except NoDecisionError as problem:
            raise ModelError(
                OTHER_ACTIVATIONS.format(path=self.model.path, tensor=self.tensor, problem=problem)
            ) from None


def keep_behind(
    network: ModelProto, tensor: str, output: str, dtype: np.dtype[Any], shape: Sequence[int] | None = None
) -> bool:
    """Keep only the operators that the output needs if a tensor is given as an input; return whether it needs the
    tensor.

    The input has this shape after the batch, or any shape if it is None.
    """
    graph = network.graph
    makers = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    needed, read, pending = set[int](), set[str](), [output]
    while pending:
        name = pending.pop()
        read.add(name)
        if name != tensor and name in makers and makers[name] not in needed:
            needed.add(makers[name])
            pending.extend(each for each in graph.node[makers[name]].input if each)
    if tensor not in read or output == tensor:
        return False
    keep: dict[str, Callable[[int, Any], bool]] = {
        "node": lambda place, _: place in needed,
        "initializer": lambda _, each: each.name in read,
        "sparse_initializer": lambda _, each: each.values.name in read,
        "input": lambda _, each: each.name in read,
        "output": lambda _, each: each.name == output,
        "value_info": lambda *_: False,
    }
    for field, is_used in keep.items():
        parts = getattr(graph, field)
        for place in reversed(range(len(parts))):
            if not is_used(place, parts[place]):
                del parts[place]
    added = graph.input.add()
    added.name = tensor
    added.type.tensor_type.elem_type = ELEMENTS[dtype.name]
    if shape is not None:
        added.type.tensor_type.shape.dim.add().dim_param = "batch"
        for size in shape:
            added.type.tensor_type.shape.dim.add().dim_value = size
    return True
