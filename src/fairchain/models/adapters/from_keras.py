"""Keras 3 models and files: exported to ONNX and compared with the model, on any back end that supports it.

A `.keras` file is an archive with a description of the layers and their weights. This module checks the description
before Keras loads it, and accepts only layers on a list: Keras's own safe mode has been circumvented more than once.
A chain of recurrent layers is written with the recurrent operators of ONNX: Keras's own export unrolls every step, or
writes a loop if steps are masked, which is slow, shows no states, and loops are refused in untrusted files.
"""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.messages import needs
from fairchain.models.adapters.converting import converted_or_original, quiet, same_scores, unpacked
from fairchain.models.adapters.from_function import FunctionModel, flat_array
from fairchain.models.adapters.from_torch import (
    Arrays,
    Call,
    call_by_name,
    export_module,
    is_module,
    text_calls,
    with_arguments,
)
from fairchain.models.adapters.native_reader import reading
from fairchain.models.adapters.onnx_graph import OnnxGraph, plain_bytes
from fairchain.models.base import random_inputs
from fairchain.models.onnx.feature_encoding import widths
from fairchain.models.onnx.file_checks import Limits, read_file
from fairchain.models.onnx.runtime import TensorInfo
from fairchain.models.onnx.session import OnnxModel
from fairchain.spec import Spec, TextFeature
from fairchain.system.user_code import first_line
from fairchain.tables import TableRows

# Older versions read files that a .keras file points to (CVE-2026-1669), or run code (CVE-2026-1462).
SAFE_KERAS = (3, 13, 2)
# Layers that only compute on the numbers they are given.
LAYERS = frozenset(
    """
    Activation Add AlphaDropout Average AveragePooling1D AveragePooling2D BatchNormalization Bidirectional
    CategoryEncoding Concatenate Conv1D Conv2D Conv3D Dense Discretization Dot Dropout ELU Embedding Flatten Functional
    GRU GRUCell GaussianDropout GaussianNoise GlobalAveragePooling1D GlobalAveragePooling2D GlobalMaxPooling1D
    GlobalMaxPooling2D GroupNormalization InputLayer LSTM LSTMCell LayerNormalization LeakyReLU Maximum MaxPooling1D
    MaxPooling2D Minimum Multiply Normalization PReLU Permute RMSNormalization ReLU RepeatVector Rescaling Reshape
    Sequential SimpleRNN SimpleRNNCell Softmax SpatialDropout1D Subtract TimeDistributed UnitNormalization
    ZeroPadding1D ZeroPadding2D
    """.split()  # noqa: SIM905  # a block of names reads better than a list of strings
)
LAYER_MODULES = frozenset({"keras", "keras.layers", "keras.models", "keras.src.models.functional"})
# Initial values, penalties and number types; and the encodings of arrays in a description.
DETAILS = frozenset(
    """
    Zeros Ones Constant Identity Orthogonal RandomNormal RandomUniform TruncatedNormal VarianceScaling GlorotNormal
    GlorotUniform HeNormal HeUniform LecunNormal LecunUniform L1 L2 L1L2 OrthogonalRegularizer MaxNorm MinMaxNorm
    NonNeg UnitNorm DTypePolicy __keras_tensor__ __numpy__ __tensor__
    """.split()  # noqa: SIM905
)
DETAIL_MODULES = frozenset({None, "keras", "keras.initializers", "keras.regularizers", "keras.constraints"})
MOST_DESCRIPTION = 20_000_000
# Parts of an archive that Keras needs; others, such as assets, belong to layers that are not on the list.
KERAS_PARTS = ("metadata.json", "config.json", "model.weights.h5")
# Entries of a layer's description that determine a lower bound of its number of weights.
SIZES = ("units", "filters", "input_dim", "output_dim")
SEVERAL_INPUTS = (
    "{name}: has {inputs_count} inputs, and a text fills only one; give a function that calls it with the texts alone"
)
NOT_LOADED = "{path}: Keras cannot load this file ({reason}); save it again with this Keras"
WEIGHTS_DAMAGED = "{path}: its weights are damaged ({error}); save the model again"
LAYER_NOT_ALLOWED = (
    "{path}: layer {name} is not allowed in untrusted files; load the model in Python and give it to verify(), or "
    "export it to ONNX"
)
KERAS_TOO_OLD = "{path}: Keras {version} is not safe with such files; update keras"
WEIGHTS_TOO_LARGE = "{path}: weights of more than the limit of {file_bytes} bytes"
LAYER_TOO_LARGE = (
    "{path}: a layer has {key} = {part}, and the file contains only {elements:,} weights; save the model with its "
    "weights"
)
WEIGHTS_WOULD_BE_CAST = (
    "{path}: weights {name} are {dtype}, which Keras would cast; save the model with floating-point weights"
)
KERAS_ACTIVATIONS = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}
KERAS_RECURRENT = {"LSTM": "LSTM", "GRU": "GRU", "SimpleRNN": "RNN"}
IDLE_LAYERS = ("Dropout", "InputLayer", "SpatialDropout1D", "GaussianNoise", "GaussianDropout", "AlphaDropout")


def is_keras(source: object) -> bool:
    """Return whether this is a Keras model; False if Keras was never imported."""
    keras = sys.modules.get("keras")
    return keras is not None and hasattr(keras, "Model") and isinstance(source, keras.Model)


def from_keras(
    model: Any,
    spec: Spec,
    limits: Limits | None = None,
    *,
    name: str = "",
    rows: TableRows | None = None,
    direct: bool = False,
) -> OnnxModel | FunctionModel:
    """Return a model from a Keras model: (batch, inputs), a series of them, texts, or several named inputs.

    A model that cannot be exported is evaluated in Python.
    """
    name = name or f"keras model {model.name}"
    several = len(model.inputs or ()) > 1
    call = _call(model, spec, name)

    def function(arrays: Arrays) -> NDArray[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Keras is in transition between two versions of numpy
            return np.asarray(model.predict_on_batch(list(arrays) if several else arrays[0]))

    def original() -> FunctionModel:
        return FunctionModel(function, spec, name, show=call.show, output="output", rows=rows, local=True)

    def export() -> bytes:
        if is_module(model):  # as is every Keras model on the torch back end
            module = with_arguments(model) if several else model
            return export_module(module, call, call.show(random_inputs(spec.described, 3)))
        from onnx import load_model

        with TemporaryDirectory() as folder, quiet():
            path = Path(folder) / "model.onnx"
            model.export(path, format="onnx", verbose=False)
            return plain_bytes(load_model(path))

    contents = [export]
    if not direct and not several:
        with suppress(UnknownLayerError):  # then only Keras's own export is tried
            content = to_network(model, spec.text, sum(widths(spec.features)))
            contents.insert(0, lambda: content)
    agrees = partial(same_scores, function, spec, call.show)
    later = partial(from_keras, model, limits=limits, name=name) if direct else None
    return converted_or_original(name, spec, limits, contents, agrees, original, rows=rows, later=later)


def _call(model: Any, spec: Spec, name: str) -> Call:
    """Return the contents of the model's inputs: words, the features in its shape, or those that name each input."""
    if len(model.inputs or ()) > 1:
        if spec.text is not None:
            raise ModelError(SEVERAL_INPUTS.format(name=name, inputs_count=len(model.inputs)))
        types = {"float32": "float", "float64": "double", "string": "string"}
        nodes = [
            TensorInfo(each.name, f"tensor({types.get(str(each.dtype), str(each.dtype))})", ("N", *each.shape[1:]))
            for each in model.inputs
        ]
        return call_by_name(name, spec, nodes)
    if spec.text is not None:
        return text_calls(spec.text, ("input",), name)[0]
    shape = tuple(model.inputs[0].shape[1:]) if model.inputs else ()
    if None in shape or prod(shape) != sum(widths(spec.features)):
        shape = (-1,)
    flat = flat_array(spec, name)

    def show(values: NDArray[Any]) -> Arrays:
        return (flat(values).astype(np.float32).reshape(len(values), *shape),)

    return Call(show, ("input",), {"input": {0: "batch"}})


def from_keras_file(path: Path, spec: Spec, limits: Limits | None = None) -> OnnxModel | FunctionModel:
    """Load a model from a `.keras` file, with its layers checked first."""
    return from_keras(read_keras_file(path, limits), spec, limits, name=str(path))


def read_keras_file(path: Path, limits: Limits | None = None) -> Any:
    """Return the Keras model in a `.keras` file, with its layers checked first.

    The file is read once. Keras gets a copy of the checked parts in a temporary folder. Needs the keras extra and one
    of its back ends.
    """
    limits = limits or Limits()
    parts = check_keras_file(path, limits)
    keras = _keras(path)
    version = tuple(int(part) for part in keras.__version__.split(".")[:3] if part.isdigit())
    if version < SAFE_KERAS:
        raise ModelError(KERAS_TOO_OLD.format(path=path, version=keras.__version__))
    _check_weights(path, parts, limits)
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "model.keras"
        with zipfile.ZipFile(copy, "w") as archive:
            for name, content in parts.items():
                archive.writestr(name, content)
        with reading(lambda reason: ModelError(NOT_LOADED.format(path=path, reason=reason))), quiet():
            return keras.saving.load_model(copy, compile=False, safe_mode=True)


def check_keras_file(path: Path, limits: Limits) -> dict[str, bytes]:
    """Return the parts of a Keras archive whose layers are on the list, or raise a ModelError."""
    content = read_file(path, limits.file_bytes, "a .keras file")
    try:
        parts = unpacked(path, content, limits.file_bytes, "a .keras file", KERAS_PARTS)
        if len(parts.get("config.json", b" " * (MOST_DESCRIPTION + 1))) > MOST_DESCRIPTION:
            raise ModelError(f"{path}: no description of layers in it, or a huge one; save it with model.save(...)")
        description = json.loads(parts["config.json"])
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not a .keras file, or a damaged one ({first_line(error)})") from None
    if isinstance(description, dict):
        description.pop("compile_config", None)  # the training configuration is not loaded
    for part in _objects(description):
        if "class_name" not in part:
            continue
        module, name = part.get("module"), str(part["class_name"])
        module = None if module is None else str(module)
        allowed = (name in LAYERS and module in LAYER_MODULES) or (name in DETAILS and module in DETAIL_MODULES)
        # A class of the user appears under its registered name.
        if not allowed or part.get("registered_name") not in (None, name):
            raise ModelError(LAYER_NOT_ALLOWED.format(path=path, name=ascii(name)[1:-1][:80]))
    return parts


def _check_weights(path: Path, parts: Mapping[str, bytes], limits: Limits) -> None:
    """Refuse weights that unpack to too many bytes or would be cast, and layers larger than all stored weights."""
    h5py = import_module("h5py")  # which Keras needs too
    stored: list[Any] = []

    def look(name: str, found: Any) -> None:
        if not isinstance(found, h5py.Dataset):
            return
        whole = found.dtype.kind in "iu" and found.dtype.itemsize >= 4 and found.size <= 2  # counters and seeds
        if found.dtype.kind != "f" and not whole and found.dtype.kind not in "OSU":
            raise ModelError(WEIGHTS_WOULD_BE_CAST.format(path=path, name=ascii(name)[1:-1][:80], dtype=found.dtype))
        if found.external or found.is_virtual:
            raise ModelError(f"{path}: weights {ascii(name)[1:-1][:80]} are in another file; save the model again")
        stored.append(found)
        if sum(each.size * each.dtype.itemsize for each in stored) > limits.file_bytes:
            raise ModelError(WEIGHTS_TOO_LARGE.format(path=path, file_bytes=limits.file_bytes))

    content = io.BytesIO(parts.get("model.weights.h5", b""))
    with reading(lambda why: ModelError(WEIGHTS_DAMAGED.format(path=path, error=why))), h5py.File(content, "r") as file:
        file.visititems(look)
        elements = sum(each.size for each in stored)
    for part in _objects(json.loads(parts["config.json"])):
        for key in SIZES:
            if isinstance(part.get(key), int) and part[key] > max(elements, 1):
                raise ModelError(LAYER_TOO_LARGE.format(path=path, key=key, part=part[key], elements=elements))


def _objects(description: Any) -> Iterator[dict[str, Any]]:
    """Yield every JSON object of a description, including nested ones."""
    pending = [description]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            yield part
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)


def _keras(path: Path) -> Any:
    """Return Keras, on the back end that the user chose, or otherwise on an installed one."""
    if find_spec("keras") is None:
        raise ModelError(f"{path}: {needs('a .keras file', 'keras', 'fairchain[keras]')} torch")
    chosen = "keras" in sys.modules or "KERAS_BACKEND" in os.environ or find_spec("tensorflow") is not None
    installed = [name for name in ("torch", "jax") if find_spec(name) is not None]
    named = bool(installed) and not chosen
    if named:
        os.environ["KERAS_BACKEND"] = installed[0]
    try:
        return import_module("keras")
    except ImportError as error:
        raise ModelError(
            f"{path}: Keras cannot be loaded ({first_line(error)}); install a back end, for example pip install torch"
        ) from None
    finally:
        if named:
            del os.environ["KERAS_BACKEND"]


# ---- Recurrent layers -----------------------------------------------------------------------------------------------


class UnknownLayerError(ModelError):
    """A layer, or a setting of it, that is not supported here."""


@dataclass(frozen=True)
class KerasTensor:
    """The tensor so far, whether it has the shape (batch, steps, units), and the lengths of texts if masked."""

    tensor: str
    steps: bool
    lengths: str = ""


def to_network(model: Any, text: TextFeature | None, width: int) -> bytes:
    """Return the ONNX bytes of a model with recurrent layers, for texts or for features of this width in all.

    Without a recurrent layer, or with an unsupported layer, an UnknownLayerError is raised.
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
    name = getattr(function, "__name__", "")
    if name == "linear":
        return tensor
    return graph.node("Softmax", tensor, axis=-1) if name == "softmax" else graph.node(_activation(function), tensor)


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
