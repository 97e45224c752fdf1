"""Derivatives of a network's scores by its weights, for feed-forward networks of a few plain operators.

Written out in numpy, so that a search along slopes needs no further package. Networks with other operators are
refused: they can be searched without derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.model.cutting import behind
from fairchain.model.onnx_model import OnnxModel
from fairchain.model.untrusted import parse
from fairchain.model.weights import Array, Weights

if TYPE_CHECKING:
    from onnx import NodeProto

# What comes out of an operator, and how a derivative by that becomes one by each of its inputs.
Step = tuple[Array, Callable[[Array], list[Array | None]]]


class Differentiable:
    """A network with derivatives by some of its weights.

    Parameters
    ----------
    model, weights
        The network, and its weights.
    tensors
        Those to differentiate by.

    Raises
    ------
    ModelError
        If it has an operator whose derivative is not known here.
    """

    def __init__(self, model: OnnxModel, weights: Weights, tensors: Collection[str]) -> None:
        from onnx import numpy_helper

        self._model, self._tensors = model, frozenset(tensors)
        graph = parse(model.path, weights.overridable(tensors)).graph
        self._nodes = behind(graph, "", model._rule.output)
        self._constants = {tensor.name: np.array(numpy_helper.to_array(tensor)) for tensor in graph.initializer}
        unknown = sorted({node.op_type for node in self._nodes} - set(STEPS))
        if unknown:
            raise ModelError(
                f'{model.name}: operator {unknown[0]} has no derivative here; search without: optimizer = "evolution"'
            )

    @property
    def cut(self) -> float:
        """Where a single column of scores changes the decision."""
        return float(self._model._rule.cut)

    def feed(self, values: NDArray[Any]) -> dict[str, Array]:
        """What the network gets for these rows."""
        return {name: np.array(part) for name, part in self._model._feed(values).items()}

    def scores(
        self, feed: Mapping[str, Array], weights: Mapping[str, Array]
    ) -> tuple[Array, Callable[[Array], dict[str, Array]]]:
        """The scores of each row under these weights, and a function from a derivative by them to that by weights."""
        known: dict[str, Array] = {**self._constants, **weights, **feed}
        tape: list[tuple[NodeProto, Callable[[Array], list[Array | None]]]] = []
        for node in self._nodes:
            known[node.output[0]], back = STEPS[node.op_type](node, [known[name] for name in node.input])
            tape.append((node, back))
        output = self._model._rule.output

        def pull(slope: Array) -> dict[str, Array]:
            slopes: dict[str, Array] = {output: slope}
            for node, back in reversed(tape):
                arrived = slopes.pop(node.output[0], None)
                if arrived is None:
                    continue
                for name, part in zip(node.input, back(arrived), strict=False):
                    if part is not None and (name in self._tensors or name not in self._constants):
                        shaped = _summed(part, known[name].shape)
                        slopes[name] = slopes[name] + shaped if name in slopes else shaped
            return {name: slopes[name] for name in self._tensors if name in slopes}

        return known[output], pull


def _summed(slope: Array, shape: tuple[int, ...]) -> Array:
    """A derivative by something that was spread over rows is the sum over them."""
    while slope.ndim > len(shape):
        slope = slope.sum(axis=0)
    axes = tuple(axis for axis, size in enumerate(shape) if size == 1 and slope.shape[axis] != 1)
    return slope.sum(axis=axes, keepdims=True) if axes else slope


def _options(node: NodeProto) -> dict[str, float]:
    return {each.name: each.f if each.type == each.FLOAT else each.i for each in node.attribute}


def _gemm(node: NodeProto, inputs: list[Array]) -> Step:
    options = _options(node)
    alpha, beta = options.get("alpha", 1.0), options.get("beta", 1.0)
    first, second = inputs[:2]
    turned = second.T if options.get("transB") else second
    out = alpha * (first @ turned) + (beta * inputs[2] if len(inputs) > 2 else 0)

    def back(slope: Array) -> list[Array | None]:
        by_second = alpha * (first.T @ slope)
        return [alpha * slope @ turned.T, by_second.T if options.get("transB") else by_second, beta * slope]

    return out, back


def _matmul(_node: NodeProto, inputs: list[Array]) -> Step:
    first, second = inputs
    rows = first.reshape(-1, first.shape[-1])
    return first @ second, lambda slope: [slope @ second.T, rows.T @ slope.reshape(len(rows), -1)]


def _add(_node: NodeProto, inputs: list[Array]) -> Step:
    return inputs[0] + inputs[1], lambda slope: [slope, slope]


def _sub(_node: NodeProto, inputs: list[Array]) -> Step:
    return inputs[0] - inputs[1], lambda slope: [slope, -slope]


def _mul(_node: NodeProto, inputs: list[Array]) -> Step:
    return inputs[0] * inputs[1], lambda slope: [slope * inputs[1], slope * inputs[0]]


def _div(_node: NodeProto, inputs: list[Array]) -> Step:
    return inputs[0] / inputs[1], lambda slope: [slope / inputs[1], -slope * inputs[0] / inputs[1] ** 2]


def _relu(_node: NodeProto, inputs: list[Array]) -> Step:
    return np.maximum(inputs[0], 0), lambda slope: [slope * (inputs[0] > 0)]


def _leaky(node: NodeProto, inputs: list[Array]) -> Step:
    factor = np.where(inputs[0] > 0, 1, _options(node).get("alpha", 0.01)).astype(inputs[0].dtype)
    return inputs[0] * factor, lambda slope: [slope * factor]


def _sigmoid(_node: NodeProto, inputs: list[Array]) -> Step:
    out = 0.5 * (1 + np.tanh(0.5 * inputs[0]))
    return out, lambda slope: [slope * out * (1 - out)]


def _tanh(_node: NodeProto, inputs: list[Array]) -> Step:
    out = np.tanh(inputs[0])
    return out, lambda slope: [slope * (1 - out**2)]


def _softmax(_node: NodeProto, inputs: list[Array]) -> Step:
    raised = np.exp(inputs[0] - inputs[0].max(axis=-1, keepdims=True))
    out = raised / raised.sum(axis=-1, keepdims=True)
    return out, lambda slope: [out * (slope - (slope * out).sum(axis=-1, keepdims=True))]


def _same(_node: NodeProto, inputs: list[Array]) -> Step:
    return inputs[0], lambda slope: [slope]


STEPS: dict[str, Callable[[NodeProto, list[Array]], Step]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
    "Relu": _relu,
    "LeakyRelu": _leaky,
    "Sigmoid": _sigmoid,
    "Tanh": _tanh,
    "Softmax": _softmax,
    "Identity": _same,
}
