"""A feed-forward ReLU network as a list of affine layers, read from its ONNX graph.

Consecutive affine operators (Gemm, MatMul, Add, Sub, Mul, Div with constants, scaling of inputs) become one layer. A
layer also has a bound of its rounding: the runtime's sums differ from exact ones by at most `rounding * (weight_size @
|inputs| + bias_size) + tiny`, in any order of summation (docs/mathematics-exact.md, "Bounds by branch and bound"). Any
other operator is refused with a message that names it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.base import Model
from fairchain.models.onnx.file_checks import attribute
from fairchain.models.onnx.inputs import Feed
from fairchain.models.onnx.session import OnnxModel

if TYPE_CHECKING:
    from onnx import NodeProto

Floats = NDArray[np.float64]
FEATURE_NETWORKS_ONLY = "{name}: bounds are computed for ONNX networks of features only"
# ONNX codes of single and double precision, with the unit roundoff of each.
UNITS = {1: 2.0**-24, 11: 2.0**-53}
# The largest contribution of underflow to a sum, for each term: the smallest normal number of single precision.
UNDERFLOW = 2.0**-126
# Operators that may come last: both preserve the order of the scores.
LAST_OPERATORS = {"Sigmoid": "sigmoid", "Softmax": "softmax"}
# Operators of a network that is probably supported. Others may stand beside the way to the decision.
KNOWN_OPERATORS = frozenset(
    {"Gemm", "MatMul", "Add", "Sub", "Mul", "Div", "Relu", "Identity", "Dropout", "Flatten", "Reshape", "Cast"}
    | {"Concat", "Constant", "Sigmoid", "Softmax"}
)
NOT_FEED_FORWARD = (
    "{name}: operator {op_type} is not supported by bounds, which need a feed-forward ReLU network (Gemm, MatMul, "
    "Add, Sub, Mul, Div, Relu; Sigmoid or Softmax last)"
)
WEIGHTS_NOT_FINITE = "{name}: has weights that are not finite numbers, so its bounds cannot be computed"


@dataclass(frozen=True, eq=False)
class AffineLayer:
    """weights @ inputs + bias, computed by the runtime with rounding.

    Parameters
    ----------
    weights, bias
        (outputs, inputs) and (outputs,).
    weight_size, bias_size
        The same with absolute values in every step, to which rounding errors are proportional.
    tiny
        (outputs,): the contribution of underflow to the error.
    peak_weights, peak_bias
        (inputs,) and a number: apart from rounding, no number, product or partial sum of any step is larger than
        peak_weights @ |inputs| + peak_bias.
    terms
        Largest number of roundings of a number from the inputs to an output.
    unit
        The unit roundoff of the arithmetic; 0 for a layer that only selects inputs.
    """

    weights: Floats
    bias: Floats
    weight_size: Floats
    bias_size: Floats
    tiny: Floats
    peak_weights: Floats
    peak_bias: float
    terms: int
    unit: float

    @classmethod
    def of(
        cls, weights: Floats, bias: Floats, terms: int, unit: float, peak: float = 1.0, growth: float = 1.0
    ) -> AffineLayer:
        """Return the layer of one operator.

        Before its last step, numbers may be `peak` times as large; the last step may multiply them by `growth`.
        """
        sizes = np.abs(weights), np.abs(bias)
        most = peak * sizes[0].max(axis=0, initial=0.0), peak * float(sizes[1].max(initial=0.0))
        return cls(weights, bias, *sizes, np.full(len(bias), terms * UNDERFLOW * growth), *most, terms, unit)

    @property
    def rounding(self) -> float:
        """Relative error of a sum of `terms` roundings, in any order: n u / (1 - n u)."""
        return self.terms * self.unit / (1 - self.terms * self.unit)

    def then(self, after: AffineLayer) -> AffineLayer:
        """Return both layers as one. The rounding of the product of weights in double precision is included."""
        # The largest numbers of the second layer, from the sizes of those that it gets.
        weights, bias = after.peak_weights @ self.weight_size, after.peak_weights @ self.bias_size
        return AffineLayer(
            after.weights @ self.weights,
            after.weights @ self.bias + after.bias,
            after.weight_size @ self.weight_size,
            after.weight_size @ self.bias_size + after.bias_size,
            after.weight_size @ self.tiny + after.tiny,
            np.maximum(self.peak_weights, weights),
            max(self.peak_bias, float(bias) + after.peak_bias),
            self.terms + after.terms + (len(self.bias) + 2 if self.unit else 0),
            max(self.unit, after.unit),
        )


@dataclass(frozen=True, eq=False)
class ReluNetwork:
    """Affine layers with a ReLU after each but the last; `end` is "sigmoid", "softmax" or ""."""

    layers: tuple[AffineLayer, ...]
    end: str

    @property
    def units(self) -> int:
        """The number of ReLUs."""
        return sum(len(layer.bias) for layer in self.layers[:-1])


@dataclass(frozen=True)
class _Flow:
    """The description of a tensor: finished layers, each with a ReLU, then an affine map of the last one.

    `scales` are the scalars by which it was multiplied last. The runtime may multiply by them after the next product
    with weights, which then gets larger or smaller numbers.
    """

    done: tuple[AffineLayer, ...]
    last: AffineLayer
    kind: int
    scales: tuple[float, ...] = ()


def relu_network(model: Model | None) -> ReluNetwork:
    """Return a feed-forward ReLU network of features as its layers.

    Raises a ModelError for any other model, with the operator that is the reason.
    """
    model = features_network(model)
    with np.errstate(over="ignore", invalid="ignore"):
        network = _Reader(model).network()
    if not all(np.isfinite(layer.weight_size).all() and np.isfinite(layer.bias_size).all() for layer in network.layers):
        raise ModelError(WEIGHTS_NOT_FINITE.format(name=model.name))
    return network


def features_network(model: Model | None) -> OnnxModel:
    """Return the model if it is an ONNX network of features, or raise a ModelError."""
    if not isinstance(model, OnnxModel) or not isinstance(model.inputs, Feed):
        name = "recorded decisions" if model is None else model.name
        raise ModelError(FEATURE_NETWORKS_ONLY.format(name=name))
    return model


def has_known_operators(model: OnnxModel) -> bool:
    """Return whether a network has no operators but those that layers are read from; it takes microseconds."""
    return all(node.op_type in KNOWN_OPERATORS for node in model.network.model.graph.node)


class _Reader:
    def __init__(self, model: OnnxModel) -> None:
        self._model, self._graph = model, model.network.model.graph
        self._constants = _constants(model)
        assert isinstance(model.inputs, Feed)
        slots, kinds = model.inputs.slots, {each.name: each.type.tensor_type.elem_type for each in self._graph.input}
        width = sum(int(np.prod(slot.shape)) for slot in slots)
        self._flows: dict[str, _Flow] = {}
        start = 0
        for slot in slots:
            if len(slot.shape) != 1:
                raise ModelError(
                    f'{model.name}: input "{slot.name}" has the shape {slot.shape} for each row, and bounds need a '
                    "plain list of features"
                )
            chosen = np.eye(width)[start : start + slot.shape[0]]
            self._flows[slot.name] = _Flow((), AffineLayer.of(chosen, np.zeros(len(chosen)), 0, 0.0), kinds[slot.name])
            start += slot.shape[0]

    def network(self) -> ReluNetwork:
        wanted = self._model.decision.output
        for node in self._graph.node:
            if all(name in self._constants for name in node.output if name):
                continue
            end = LAST_OPERATORS.get(node.op_type)
            if end is not None and node.output[0] == wanted:
                flow = self._flows.get(node.input[0])
                if flow is None or (end == "softmax" and attribute(node, "axis", -1) not in (-1, 1)):
                    self._refuse(node)
                return ReluNetwork((*flow.done, flow.last), end)
            # Operators after or beside the output that decides are irrelevant.
            if any(name in self._flows for name in node.input):
                flow = self._next(node)
                if flow is not None:
                    self._flows[node.output[0]] = flow
            if wanted in self._flows:
                flow = self._flows[wanted]
                return ReluNetwork((*flow.done, flow.last), "")
        self._refuse(self._model.network.makers.get(wanted, self._graph.node[-1]))

    def _next(self, node: NodeProto) -> _Flow | None:
        """Describe an operator's output; None for an operator that is refused only if the decision uses it."""
        kind, given = node.op_type, [name for name in node.input if name]
        if node.domain not in ("", "ai.onnx"):
            return None
        flows = [self._flows.get(name) for name in given]
        first = flows[0] if flows else None
        if kind in ("Identity", "Dropout", "Flatten", "Reshape"):
            return first if self._keeps_rows(node) else None
        if kind == "Relu" and first is not None:
            done = (*first.done, first.last)
            return _Flow(done, _identity(len(first.last.bias)), first.kind)
        if kind == "Cast" and first is not None:
            to = attribute(node, "to", 0)
            if to not in UNITS:
                return None
            exact = first.kind == to or (first.kind == 1 and to == 11)
            step = replace(_identity(len(first.last.bias)), terms=0 if exact else 1, unit=UNITS[to])
            return _Flow(first.done, first.last.then(step), to, first.scales)
        if kind == "Concat" and attribute(node, "axis", 1) in (1, -1):
            return self._joined(flows)
        if kind in ("Gemm", "MatMul") and first is not None and first.kind in UNITS:
            return self._product(node, first)
        if kind in ("Add", "Sub", "Mul", "Div") and len(given) == 2:
            return self._elementwise(node, flows)
        return None

    def _keeps_rows(self, node: NodeProto) -> bool:
        """Return whether an operator passes (rows, values) on unchanged."""
        if node.op_type == "Dropout":
            return len([name for name in node.input if name]) <= 2
        if node.op_type == "Flatten":
            return bool(attribute(node, "axis", 1) == 1)
        if node.op_type == "Reshape":
            shape, flow = self._constants.get(node.input[1]), self._flows.get(node.input[0])
            width = -1 if flow is None else len(flow.last.bias)
            return shape is not None and shape.tolist() in ([-1, width], [0, width], [0, -1])
        return True

    def _joined(self, flows: list[_Flow | None]) -> _Flow | None:
        parts = [flow for flow in flows if flow is not None]
        if len(parts) < len(flows) or any(part.done != parts[0].done for part in parts):
            return None
        lasts = [part.last for part in parts]
        arrays = [(each.weights, each.bias, each.weight_size, each.bias_size, each.tiny) for each in lasts]
        weights, bias, weight_size, bias_size, tiny = map(np.concatenate, zip(*arrays, strict=True))
        peaks = np.maximum.reduce([each.peak_weights for each in lasts]), max(each.peak_bias for each in lasts)
        terms, unit = max(each.terms for each in lasts), max(each.unit for each in lasts)
        last = AffineLayer(weights, bias, weight_size, bias_size, tiny, *peaks, terms, unit)
        return _Flow(parts[0].done, last, parts[0].kind)

    def _product(self, node: NodeProto, flow: _Flow) -> _Flow | None:
        weights, gemm = self._constants.get(node.input[1]), node.op_type == "Gemm"
        if weights is None or weights.ndim != 2 or (gemm and attribute(node, "transA", 0)):
            return None
        if not (gemm and attribute(node, "transB", 0)):
            weights = weights.T
        if weights.shape[1] != len(flow.last.bias):
            return None
        bias, scales = np.zeros(len(weights)), [abs(scale) for scale in flow.scales]
        if gemm:
            if not (alpha := float(attribute(node, "alpha", 1.0))):
                return None
            # The runtime may multiply by alpha last.
            weights, scales = weights * alpha, [*scales, abs(alpha)]
            if len(node.input) > 2 and node.input[2]:
                added = self._row(node.input[2], len(weights))
                if added is None:
                    return None
                bias = added * float(attribute(node, "beta", 1.0))
        peak, growth = prod(max(1.0, 1 / scale) for scale in scales), prod(max(1.0, scale) for scale in scales)
        step = AffineLayer.of(weights, bias, weights.shape[1] + 4, UNITS[flow.kind], peak, growth)
        return _Flow(flow.done, flow.last.then(step), flow.kind)

    def _elementwise(self, node: NodeProto, flows: list[_Flow | None]) -> _Flow | None:
        kind, flow, place = node.op_type, flows[0], 1
        if flow is None:
            flow, place = flows[1], 0
        if flow is None or flow.kind not in UNITS:
            return None
        width = len(flow.last.bias)
        added = self._row(node.input[place], width)
        if added is None or (kind == "Div" and (place == 0 or (added == 0).any())):
            return None
        factor, shift, scales = np.ones(width), np.zeros(width), tuple[float, ...]()
        if kind in ("Add", "Sub"):
            factor = -factor if kind == "Sub" and place == 0 else factor
            shift = -added if kind == "Sub" and place == 1 else added
        else:
            factor = added if kind == "Mul" else 1 / added
            if self._constants[node.input[place]].size == 1:
                if not factor[0]:
                    return None
                scales = (*flow.scales, float(factor[0]))
        step = AffineLayer.of(np.diag(factor), shift, 2, UNITS[flow.kind])
        return _Flow(flow.done, flow.last.then(step), flow.kind, scales)

    def _row(self, name: str, width: int) -> Floats | None:
        """Return a constant as one number for each value of a row; None if it is not constant, or has a batch axis."""
        array = self._constants.get(name)
        if array is None or array.size not in (1, width) or any(size != 1 for size in array.shape[:-1]):
            return None
        return np.broadcast_to(array.reshape(-1), width).copy()

    def _refuse(self, node: NodeProto) -> NoReturn:
        """Raise the error for the first unsupported operator on the path to the decision."""
        while True:
            unknown = [name for name in node.input if name and name not in self._flows and name not in self._constants]
            maker = self._model.network.makers.get(unknown[0]) if unknown else None
            if maker is None:
                break
            node = maker
        raise ModelError(NOT_FEED_FORWARD.format(name=self._model.name, op_type=node.op_type))


def _identity(width: int) -> AffineLayer:
    return AffineLayer.of(np.eye(width), np.zeros(width), 0, 0.0)


def _constants(model: OnnxModel) -> dict[str, Floats]:
    """Return every numeric tensor of the file, in double precision."""
    from onnx import numpy_helper

    graph = model.network.model.graph
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    written = {node.output[0]: attribute(node, "value") for node in graph.node if node.op_type == "Constant"}
    tensors |= {name: tensor for name, tensor in written.items() if tensor is not None}
    found = {name: numpy_helper.to_array(tensor) for name, tensor in tensors.items()}
    return {name: array.astype(np.float64) for name, array in found.items() if array.dtype.kind in "fiu"}
