"""Keras models that are a chain of recurrent layers, written with the recurrent operators of ONNX.

Keras's own export unrolls every step, or writes a loop if steps are masked: this is slow, shows no states, and loops
are refused in untrusted files. Models that are not supported here are left to that export.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.adapters.onnx_graph import OnnxGraph
from fairchain.spec import TextFeature

KERAS_ACTIVATIONS = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}
KERAS_RECURRENT = {"LSTM": "LSTM", "GRU": "GRU", "SimpleRNN": "RNN"}
IDLE_LAYERS = ("Dropout", "InputLayer", "SpatialDropout1D", "GaussianNoise", "GaussianDropout", "AlphaDropout")


class UnknownLayerError(ModelError):
    """A layer, or a setting of it, that is not supported here."""


@dataclass(frozen=True)
class KerasTensor:
    """The tensor so far, whether it has the shape (batch, steps, units), and the lengths of texts if masked."""

    tensor: str
    steps: bool
    lengths: str = ""


def to_network(model: Any, text: TextFeature | None, width: int) -> bytes:
    """Return the ONNX bytes of a model with recurrent layers; for texts, or for features of this width in all.

    Raises
    ------
    UnknownLayerError
        If there is no recurrent layer, or an unsupported layer.
    """
    layers = list(_chain(model)) if model.inputs else []
    if not any(_kind(layer) in (*KERAS_RECURRENT, "Bidirectional") for layer in layers):
        raise UnknownLayerError("no recurrent layer")
    graph, shape = OnnxGraph(), tuple(model.inputs[0].shape[1:])
    if text is not None:
        words = _kind(layers[0]) == "Embedding"
        sizes = ["batch", "time"] if words else ["batch", "time", shape[-1]]
        inputs = [("input", np.int32 if words else np.float32, sizes)]
        flow = KerasTensor("input", steps=not words)
    else:
        inputs = [("input", np.float32, ["batch", width])]
        if None in shape or prod(shape) != width:
            raise UnknownLayerError("an input of free size")
        flow = KerasTensor(graph.reshaped("input", -1, *shape), steps=len(shape) == 2)
    for layer in layers:
        flow = _written(graph, layer, flow, left=text is not None and text.pad == "left")
    if flow.steps:
        raise UnknownLayerError("an answer for every step")
    return graph.to_bytes(inputs, int(model.outputs[0].shape[-1]), flow.tensor)


def _chain(model: Any) -> Iterator[Any]:
    """Yield the layers of a model in which each takes the output of the one before it."""
    before = None
    for layer in model.layers:
        if _kind(layer) in ("Sequential", "Functional"):
            raise UnknownLayerError("a model inside")
        if _kind(model) != "Sequential" and before is not None:
            try:
                follows = layer.input is before.output
            except (AttributeError, ValueError):  # raised for a layer that is called several times, or never
                follows = False
            if not follows:
                raise UnknownLayerError("layers that are not a chain")
        before = layer
        if _kind(layer) not in IDLE_LAYERS:
            yield layer


def _kind(layer: Any) -> str:
    own = type(layer).__module__.partition(".")[0] != "keras"
    return "" if own else str(type(layer).__name__)


def _written(graph: OnnxGraph, layer: Any, flow: KerasTensor, *, left: bool) -> KerasTensor:
    """Add the operators of a layer, or raise an UnknownLayerError."""
    kind = _kind(layer)
    if kind == "Embedding" and not flow.steps:
        return _embedded(graph, layer, flow, left=left)
    if kind == "Dense":
        kernel, *bias = _numbers(layer)
        made = graph.dense(flow.tensor, kernel, bias[0] if layer.use_bias else None)
        return KerasTensor(_activated(graph, layer.activation, made), flow.steps, flow.lengths)
    if kind == "Activation":
        return KerasTensor(_activated(graph, layer.activation, flow.tensor), flow.steps, flow.lengths)
    if kind in KERAS_RECURRENT and flow.steps:
        return _recurrent(graph, layer, [layer], flow)
    if kind == "Bidirectional" and flow.steps and layer.merge_mode == "concat":
        return _recurrent(graph, layer.forward_layer, [layer.forward_layer, layer.backward_layer], flow)
    pools = {"GlobalMaxPooling1D": "ReduceMax", "GlobalAveragePooling1D": "ReduceMean"}
    pooled = kind in pools and flow.steps and not flow.lengths
    if pooled and not layer.keepdims and layer.data_format == "channels_last":
        return KerasTensor(graph.node(pools[kind], flow.tensor, axes=[1], keepdims=0), steps=False)
    if kind == "Reshape" and not flow.steps and len(layer.target_shape) == 2 and min(layer.target_shape) > 0:
        return KerasTensor(graph.reshaped(flow.tensor, -1, *layer.target_shape), steps=True)
    raise UnknownLayerError(f"layer {kind or type(layer).__name__}")


def _numbers(layer: Any) -> list[NDArray[Any]]:
    return [np.asarray(weight) for weight in layer.get_weights()]


def _activated(graph: OnnxGraph, function: Any, tensor: str) -> str:
    match getattr(function, "__name__", ""):
        case "linear":
            return tensor
        case "softmax":
            return graph.node("Softmax", tensor, axis=-1)
    return graph.node(_activation(function), tensor)


def _activation(function: Any) -> str:
    name = getattr(function, "__name__", "")
    if name not in KERAS_ACTIVATIONS:
        raise UnknownLayerError(f"function {name}")
    return KERAS_ACTIVATIONS[name]


def _embedded(graph: OnnxGraph, layer: Any, flow: KerasTensor, *, left: bool) -> KerasTensor:
    """Look up vectors by the words' numbers. If 0 is masked, words are counted, and moved to the front if needed."""
    ids, lengths = graph.node("Cast", flow.tensor, to=6), ""
    if layer.mask_zero:
        first, zero, one = (graph.constant(value, np.int64) for value in ([1], 0, 1))
        lengths = graph.node("ReduceSum", graph.node("Sign", ids), first, keepdims=0)
        if left:
            # Word t of a text of n words is at index T - n + t; the padding follows the words.
            steps = graph.node("Gather", graph.node("Shape", ids), one)
            places = graph.node("Range", zero, steps, one)
            skipped = graph.node("Sub", steps, graph.node("Cast", lengths, to=7))
            moved = graph.node("Mod", graph.node("Add", places, graph.node("Unsqueeze", skipped, first)), steps)
            ids = graph.node("GatherElements", ids, moved, axis=1)
    vectors = graph.node("Gather", graph.constant(_numbers(layer)[0]), ids)
    return KerasTensor(vectors, steps=True, lengths=lengths)


def _recurrent(graph: OnnxGraph, first: Any, directions: list[Any], flow: KerasTensor) -> KerasTensor:
    """Add one operator for one direction or both, with the gates in ONNX's order."""
    operator, units = KERAS_RECURRENT.get(_kind(first), ""), int(first.units)
    plain = all(not layer.stateful and not layer.return_state and not layer.unroll for layer in directions)
    backwards = [bool(layer.go_backwards) for layer in directions]
    if not operator or not plain or backwards not in ([False], [False, True]):
        raise UnknownLayerError("a recurrent layer with unsupported settings")
    parts = [_weights(layer, operator) for layer in directions]
    steps = graph.node("Transpose", flow.tensor, perm=[1, 0, 2])
    inputs = [steps, *(graph.constant(np.stack(part)) for part in zip(*parts, strict=True)), flow.lengths]
    functions = []
    for layer in directions:
        own = _activation(layer.activation)
        gates = [] if operator == "RNN" else [_activation(layer.recurrent_activation)]
        functions += [*gates, own, *([own] if operator == "LSTM" else [])]
    more = {"linear_before_reset": int(first.reset_after)} if operator == "GRU" else {}
    direction = "bidirectional" if len(directions) == 2 else "forward"
    every, final = graph.nodes(
        operator, inputs, 2, hidden_size=units, direction=direction, activations=functions, **more
    )
    both = graph.constant([0, 0, len(directions) * units], np.int64)
    if first.return_sequences:
        # (steps, directions, batch, units) to (batch, steps, units of both)
        made = graph.node("Reshape", graph.node("Transpose", every, perm=[2, 0, 1, 3]), both)
        return KerasTensor(made, steps=True, lengths=flow.lengths)
    rows = graph.node("Transpose", final, perm=[1, 0, 2])
    return KerasTensor(graph.reshaped(rows, 0, len(directions) * units), steps=False)


def _weights(layer: Any, operator: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return W, R and B of one direction. Keras has the gates of an LSTM as input, forget, candidate, output."""
    kernel, recurrent, *bias = _numbers(layer)
    gates = kernel.shape[1] // layer.units
    order = [0, 3, 1, 2] if operator == "LSTM" else list(range(gates))

    def ordered(part: NDArray[Any]) -> NDArray[Any]:
        blocks = np.split(part, gates)
        return np.concatenate([blocks[gate] for gate in order])

    # (2, gates * units) for the inputs and for the states, or only the former
    both = np.zeros((2, kernel.shape[1]), kernel.dtype)
    if bias:
        both[: bias[0].ndim] = bias[0]
    return ordered(kernel.T), ordered(recurrent.T), np.concatenate([ordered(both[0]), ordered(both[1])])
