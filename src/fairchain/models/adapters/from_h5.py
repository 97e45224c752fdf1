"""Keras 2 models in HDF5 files (.h5): dense layers, read from the file's description and weights without Keras.

Nothing in the file is executed: the description is JSON, layers come from a short list, and weights are arrays of
limited size in this file. h5py runs in a separate process (`native_reader`), because a damaged file can crash it or run
for ever. Other layers need Keras, which `from_keras` uses for its newer files.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.messages import needs
from fairchain.models.adapters import native_reader
from fairchain.models.adapters.onnx_graph import OnnxGraph
from fairchain.models.onnx.feature_encoding import widths
from fairchain.models.onnx.file_checks import Limits, read_file
from fairchain.spec import Spec
from fairchain.system.untrusted_files import object_once

H5_ACTIVATIONS = {name.lower(): name for name in ("Relu", "Sigmoid", "Tanh", "Elu", "Softplus", "Softmax")}
# Layers without an effect in inference.
IDLE_H5_LAYERS = ("InputLayer", "Dropout", "GaussianNoise", "GaussianDropout", "AlphaDropout")
MOST_DESCRIPTION = 20_000_000
REMEDY = (
    "load it with Keras and give the object to fairchain.verify, or save it there as .keras: "
    'keras.models.load_model("model.h5", compile=False).save("model.keras")'
)
LayerWeights = Sequence[NDArray[np.float32]]
NEEDS_H5PY = f"{{path}}: {needs('a .h5 file', 'h5py', 'fairchain[h5]')}"
NOT_HDF5 = "{path}: not an HDF5 file; save the model again with model.save(...)"
WEIGHTS_WITHOUT_LAYERS = (
    "{path}: contains weights without their layers; build the model in Keras, load the weights there with "
    "model.load_weights(...), and give the model to fairchain.verify"
)
NOT_IN_FILE = '{path}: no "{name}" in the file; {remedy}'
BAD_WEIGHTS = "{path}: weights that are not numbers of this file, or too many of them; {remedy}"


def h5_network(path: Path, limits: Limits, spec: Spec | None = None) -> bytes:
    """Return the ONNX bytes of the network of a Keras 2 file: a chain of dense layers with their activations.

    The network takes the features of the spec or, without a spec, as many values as its first weights have rows. This
    needs the h5 extra.
    """
    if spec is not None and spec.text is not None:
        raise ModelError(f"{path}: dense layers take numbers, not texts; {REMEDY}")
    width = None if spec is None else sum(widths(spec.features))
    content = read_file(path, limits.file_bytes, "a .h5 file")
    if not content.startswith(b"\x89HDF\r\n\x1a\n"):
        raise ModelError(NOT_HDF5.format(path=path))
    if find_spec("h5py") is None:
        raise ModelError(NEEDS_H5PY.format(path=path))
    options = {"path": str(path), "width": width, "file_bytes": limits.file_bytes}
    return native_reader.read_in_new_process(".h5", content, options, partial(_damaged, path))


def read_in_child(content: bytes, options: dict[str, Any]) -> bytes:
    """Return the ONNX bytes of the network; for the process of `native_reader`."""
    path = Path(options["path"])
    with native_reader.reading(partial(_damaged, path)), import_module("h5py").File(io.BytesIO(content), "r") as file:
        return _converted(path, file, options["width"], options["file_bytes"])


def _damaged(path: Path, why: str) -> ModelError:
    return ModelError(f"{path}: not a Keras model, or a damaged one ({why}); {REMEDY}")


def _converted(path: Path, file: Any, width: int | None, most: int) -> bytes:
    """Return the ONNX bytes of an open file whose network takes `width` values and whose weights take `most` bytes."""
    if "model_config" not in file.attrs:
        raise ModelError(WEIGHTS_WITHOUT_LAYERS.format(path=path))
    text = _text(file.attrs["model_config"])
    if len(text) > MOST_DESCRIPTION:
        raise ModelError(f"{path}: a huge description of layers; {REMEDY}")
    description = json.loads(text, object_pairs_hook=object_once)
    graph, flow, units, left = OnnxGraph(), "input", width or 0, most
    group = _child(path, file, "model_weights")
    for layer in _chain(path, description):
        kind, config = str(layer.get("class_name")), layer.get("config", {})
        weights, name = [], str(config.get("name"))
        if name in group:
            part = _child(path, group, name)
            order = np.asarray(part.attrs.get("weight_names", [])).reshape(-1)
            weights = [_array(path, part, _text(each), left) for each in order]
        left -= sum(each.nbytes for each in weights)
        if width is None and weights and weights[0].ndim:
            units = width = len(weights[0])
        flow, units = _written(path, graph, kind, config, weights, flow, units)
    if flow == "input":
        raise ModelError(f"{path}: no layer that computes something; {REMEDY}")
    return graph.to_bytes([("input", np.float32, ["batch", width or units])], units, flow)


def _chain(path: Path, description: Any) -> Iterator[dict[str, Any]]:
    """Yield the descriptions of layers; each takes the output of the one before it."""
    kind, config = description.get("class_name"), description.get("config")
    layers = config if isinstance(config, list) else config.get("layers")
    if kind not in ("Sequential", "Model", "Functional") or not isinstance(layers, list):
        raise ModelError(f"{path}: the model is not a chain of layers; {REMEDY}")
    before = ""
    for layer in layers:
        if kind != "Sequential" and before and list(_names(layer.get("inbound_nodes"))) != [before]:
            raise ModelError(f"{path}: the layers are not a chain; {REMEDY}")
        before = str(layer.get("name") or layer.get("config", {}).get("name"))
        if layer.get("class_name") not in IDLE_H5_LAYERS:
            yield layer


def _names(nodes: Any) -> Iterator[str]:
    """Yield the names of the layers from which a layer takes its inputs, in the notation of Keras 2 or Keras 3."""
    history = nodes.get("keras_history") if isinstance(nodes, dict) else None
    if isinstance(history, list) and history:
        yield str(history[0])
    elif isinstance(nodes, list) and len(nodes) >= 3 and isinstance(nodes[0], str):
        yield nodes[0]
    elif isinstance(nodes, dict | list):
        for part in nodes.values() if isinstance(nodes, dict) else nodes:
            yield from _names(part)


def _written(
    path: Path, graph: OnnxGraph, kind: str, config: dict[str, Any], weights: LayerWeights, flow: str, units: int
) -> tuple[str, int]:
    """Add the operators of a layer; return its output tensor, and the number of its units."""
    if kind == "Dense":
        kernel, *bias = weights
        if kernel.ndim != 2 or kernel.shape[0] != units or any(each.shape != kernel.shape[1:] for each in bias):
            raise ModelError(
                f"{path}: a layer takes {kernel.shape[0]} values and gets {units}; describe every input in order, one "
                "[[feature]] each"
            )
        flow, units = graph.dense(flow, kernel, bias[0] if bias else None), int(kernel.shape[1])
    if kind in ("Dense", "Activation"):
        activation = config.get("activation")
        name = activation.get("config") if isinstance(activation, dict) else activation
        if name in (None, "linear"):
            return flow, units
        if name not in H5_ACTIVATIONS:
            raise ModelError(f"{path}: activation {ascii(str(name))[1:-1][:80]} is not read; {REMEDY}")
        softmax = {"axis": -1} if name == "softmax" else {}
        return graph.node(H5_ACTIVATIONS[name], flow, **softmax), units
    if kind == "ReLU" and config.get("max_value") is None and not config.get("negative_slope"):
        return graph.node("Relu", flow), units
    if kind == "Softmax" and config.get("axis", -1) == -1:
        return graph.node("Softmax", flow, axis=-1), units
    if kind == "Flatten":  # rows are already flat
        return flow, units
    if kind == "BatchNormalization":
        left = list(weights)
        scale = left.pop(0) if config.get("scale", True) else np.float32(1)
        shift = left.pop(0) if config.get("center", True) else np.float32(0)
        mean, variance = left
        factor = scale / np.sqrt(variance + np.float32(config.get("epsilon", 1e-3)))
        scaled = graph.node("Mul", flow, graph.constant(factor))
        return graph.node("Add", scaled, graph.constant(shift - mean * factor)), units
    raise ModelError(f"{path}: layer {ascii(kind)[1:-1][:80]} is not read; {REMEDY}")


def _array(path: Path, group: Any, name: str, most: int) -> NDArray[np.float32]:
    found = group
    for step in name.split("/"):
        found = _child(path, found, step)
    inside = isinstance(found, import_module("h5py").Dataset) and not found.external and not found.is_virtual
    if not inside or found.dtype.kind != "f" or found.size * 4 > most:
        raise ModelError(BAD_WEIGHTS.format(path=path, remedy=REMEDY))
    weights: NDArray[np.float32] = np.asarray(found[()], np.float32)
    if not np.isfinite(weights).all():
        raise ModelError(f"{path}: a weight is not a finite number; save the trained model again")
    return weights


def _child(path: Path, group: Any, name: str) -> Any:
    """Return a member of a group in this file: links to other files are not followed."""
    h5py = import_module("h5py")
    if not isinstance(group, h5py.Group) or not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise ModelError(NOT_IN_FILE.format(path=path, name=ascii(name)[1:-1][:80], remedy=REMEDY))
    return group[name]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
