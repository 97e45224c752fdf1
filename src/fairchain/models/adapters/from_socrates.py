"""Networks in the SOCRATES format, converted layer by layer to ONNX.

The format is JSON that names layers. A value is a JSON number or list, a text that holds one (`"(1,13)"`,
`"[[0.5, 1], [2, 3]]"`), or the path of a file with such a text. Nothing is evaluated, and only files in the JSON's own
folder and below are read.

A recurrent network reads a sequence step by step, each step through all layers, and answers after the last; here it
takes the whole sequence as one flat row of steps * values of a step. So rows of the graph are steps times inputs,
ordered by step, until the last recurrent layer returns one row for each input. Texts have lengths, and each is read to
its own end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.adapters.onnx_graph import OnnxGraph
from fairchain.models.onnx.feature_encoding import widths
from fairchain.models.onnx.file_checks import Limits
from fairchain.spec import Spec

NUMBERS_ONLY = re.compile(r"[\s\[\](),0-9eE+.-]*")
MOST_LAYERS = 1000
NOT_SOCRATES_NETWORK = '{path}: not a SOCRATES network: the object "model" is missing'
NOT_WHOLE_STEPS = (
    "{path}: each step of a sequence takes {width} values, and the spec has features for {inputs}, which are not whole "
    "steps; describe every value of every step in order, one [[feature]] each"
)
SOCRATES_RECURRENT = ("rnn", "lstm", "gru")
SOCRATES_ACTIVATIONS = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "softmax": "Softmax"}


class SocratesFile:
    """The description of a network, and the numbers it refers to, within one limit for all its files."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.path = path
        self._left = limits.file_bytes
        self._texts: dict[Path, str] = {}
        try:
            found = json.loads(self._read(path))
        except (ValueError, RecursionError) as error:
            raise ModelError(f"{path}: not valid JSON ({error}); give a SOCRATES network") from None
        model = found.get("model") if isinstance(found, dict) else None
        if not isinstance(model, dict):
            raise ModelError(NOT_SOCRATES_NETWORK.format(path=path))
        layers = model.get("layers")
        if not isinstance(layers, list) or not layers or not all(isinstance(layer, dict) for layer in layers):
            if "labels" in model:
                raise ModelError(f"{path}: is a spec, not a network; give the network's own file")
            pickled = "; it names a pickle (model.path), which is never opened" if "path" in model else ""
            raise ModelError(f"{path}: model.layers: found no list of layers{pickled}; write the layers with weights")
        if len(layers) > MOST_LAYERS:
            raise ModelError(f"{path}: model.layers: {len(layers)} layers are more than {MOST_LAYERS}")
        self.layers: list[dict[str, Any]] = layers
        self._shape = model.get("shape")

    def shape(self) -> tuple[int, ...]:
        """Return the shape of one input, without the batch, which is first in the file."""
        if self._shape is None:
            raise ModelError(f'{self.path}: model.shape: missing; write the shape of an input, for example "(1, 13)"')
        batch, *shape = as_whole_numbers(f"{self.path}: model.shape", self.numbers("model.shape", self._shape)) or (0,)
        if batch != 1 or not shape or min(shape) < 1:
            raise ModelError(
                f'{self.path}: model.shape: write 1 for the batch and then the sizes, for example "(1, 13)"'
            )
        return tuple(shape)

    def numbers(self, where: str, value: Any) -> NDArray[np.float64]:
        """Return the numbers of a value; `where` is for messages."""
        where = f"{self.path}: {where}"
        if isinstance(value, str):
            text = value if NUMBERS_ONLY.fullmatch(value) else self._beside(where, value)
            value = _from_text(where, text)
        try:
            found = np.array(value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise ModelError(f"{where}: not a number or a list of lists of one length; export it again") from None
        # The network computes in single precision, in which a larger number is infinite.
        if not (np.abs(found) <= np.finfo(np.float32).max).all():
            raise ModelError(
                f"{where}: contains a number that is not finite, or too large for a network; export it again"
            )
        return found

    def _beside(self, where: str, name: str) -> str:
        """Return the text of a file in the JSON's folder or below.

        Paths in such files are often relative to the folder of the program that wrote them, so leading parts are
        removed until a file is found.
        """
        folder = self.path.resolve().parent
        parts = [part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in ("/", ".")]
        if ".." in parts or not parts or len(name) > 1000 or "\0" in name:
            raise ModelError(f"{where}: {ascii(name)[:120]} is not a path inside the JSON's folder")
        for start in range(len(parts)):
            target = folder.joinpath(*parts[start:])
            with suppress(OSError):  # the system rejects a name, for example because it is too long
                if target.is_file():
                    if not target.resolve().is_relative_to(folder):
                        break
                    if target not in self._texts:
                        self._texts[target] = self._read(target)
                    return self._texts[target]
        raise ModelError(
            f'{where}: no file "{name}" in the JSON\'s own folder; put it at {folder.joinpath(*parts[-2:])}'
        )

    def _read(self, path: Path) -> str:
        try:
            if path.exists() and not path.is_file():
                raise ModelError(f"{path}: not a plain file; give a SOCRATES network (.json)")
            with path.open("rb") as file:
                content = file.read(self._left + 1)
        except (OSError, ValueError) as error:
            raise ModelError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
        self._left -= len(content)
        if self._left < 0:
            raise ModelError(f"{self.path}: with its text files, larger than the limit on the bytes of a model")
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise ModelError(f"{path}: not UTF-8 text; a SOCRATES network consists of text files") from None


def _from_text(where: str, text: str) -> Any:
    """Read a Python literal of numbers, tuples and lists as JSON."""
    if not NUMBERS_ONLY.fullmatch(text):
        raise ModelError(f"{where}: contains values that are not numbers; write numbers in brackets")
    text = text.translate({ord("("): "[", ord(")"): "]"})
    text = re.sub(r",\s*\]", "]", text)  # (13,) is a tuple of one
    text = re.sub(r"(?<![\d.])\.(?=\d)", "0.", text)  # .5
    text = re.sub(r"(?<=\d)\.(?!\d)", ".0", text)  # 5.
    text = re.sub(r"(?<![eE])\+(?=\d)", "", text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ModelError(f"{where}: not a number or a list of numbers; export it again") from None


def as_whole_numbers(where: str, values: NDArray[np.float64]) -> tuple[int, ...]:
    """Return these numbers as a flat list of integers, or raise a ModelError."""
    if not (values == np.floor(values)).all() or (np.abs(values) > 2**31).any():
        raise ModelError(f"{where}: found {values.ravel()[:8].tolist()}; write whole numbers")
    return tuple(int(value) for value in values.ravel())


@dataclass(frozen=True)
class SocratesTensor:
    """The tensor so far, and the shape of one row of it."""

    tensor: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class SocratesLayer:
    """One layer of the file: its number and entries, its number of steps, and whether it is the last recurrent one.

    For texts the number of steps is a tensor, `free`.
    """

    file: SocratesFile
    graph: OnnxGraph
    place: int
    entries: dict[str, Any]
    steps: int = 1
    last: bool = False
    free: str = ""

    @property
    def kind(self) -> str:
        """The type of the layer."""
        return str(self.entries.get("type", "")).lower()

    def problem(self, text: str) -> ModelError:
        """Return an error that names the file and the layer."""
        return ModelError(f"{self.file.path}: layer {self.place} ({ascii(self.kind)[1:-1][:60]}): {text}")

    def numbers(self, key: str, dimensions: int | None = None) -> NDArray[np.float64]:
        """Return the numbers under a key, which must have this number of dimensions."""
        if key not in self.entries:
            raise self.problem(f'"{key}" is missing')
        found = self.file.numbers(f"layer {self.place} ({self.kind}).{key}", self.entries[key])
        if dimensions is not None and found.ndim != dimensions:
            raise self.problem(f"{key} has {found.ndim} dimensions, expected {dimensions}")
        return found

    def vector(self, key: str, size: int) -> NDArray[np.float64]:
        """Return the numbers under a key, which must have this size."""
        found = self.numbers(key)
        if found.size != size:
            raise self.problem(f"{key} has {found.size} numbers, expected {size}")
        return found.reshape(size)

    def whole(self, key: str) -> tuple[int, ...]:
        """Return integers under a key."""
        return as_whole_numbers(f"{self.file.path}: layer {self.place} ({self.kind}).{key}", self.numbers(key))

    def one(self, key: str, least: int) -> int:
        """Return a single integer under a key."""
        found = self.whole(key)
        if len(found) != 1 or found[0] < least:
            raise self.problem(f"{key} is {list(found)[:8]}; write one whole number from {least} up")
        return found[0]


def socrates_network(path: Path, limits: Limits, spec: Spec | None = None) -> bytes | Path:
    """Return the ONNX bytes of the network of a SOCRATES JSON file and the text files it names.

    Without a spec the number of steps of a sequence is unknown: for a recurrent network the path is returned. Unknown
    types of layers and functions, weights that do not fit, and paths outside the file's folder are refused.
    """
    file, graph = SocratesFile(path, limits), OnnxGraph()
    # The number of values of a row, None for texts.
    inputs = None if spec is None or spec.text is not None else sum(widths(spec.features))
    layers = [SocratesLayer(file, graph, place + 1, entries) for place, entries in enumerate(file.layers)]
    recurrent = [place for place, layer in enumerate(layers) if layer.kind in SOCRATES_RECURRENT]
    last = max(recurrent, default=-1)
    shape = (_step_width(layers[0]),) if 0 in recurrent else file.shape()
    width, steps, free = prod(shape), 1, ""
    taken: list[tuple[str, Any, list[int | str]]]
    if inputs is None and recurrent:
        taken = [("input", np.float32, ["batch", "time", width]), ("lengths", np.int32, ["batch"])]
        free = graph.node("Gather", graph.node("Shape", "input"), graph.constant([1], np.int64))
        flow = SocratesTensor(graph.node("Transpose", "input", perm=[1, 0, 2]), shape)
    else:
        if recurrent and inputs is not None:
            steps, rest = divmod(inputs, width)
            if rest:
                raise ModelError(NOT_WHOLE_STEPS.format(path=path, width=width, inputs=inputs))
        taken = [("input", np.float32, ["batch", steps * width])]
        flow = SocratesTensor("input", shape)
        if steps > 1:
            apart = graph.reshaped("input", -1, steps, width)
            flow = SocratesTensor(graph.node("Transpose", apart, perm=[1, 0, 2]), shape)
    if len(shape) > 1 or flow.tensor != "input":
        flow = _reshaped(graph, flow, shape)
    for place, layer in enumerate(layers):
        flow = _converted(replace(layer, steps=steps if place <= last else 1, last=place == last, free=free), flow)
    if len(flow.shape) != 1:
        flow = _reshaped(graph, flow, (prod(flow.shape),))
    content = graph.to_bytes(taken, flow.shape[0], flow.tensor)
    return path if spec is None and recurrent else content


def _converted(layer: SocratesLayer, flow: SocratesTensor) -> SocratesTensor:
    known: dict[str, tuple[Callable[[SocratesLayer, SocratesTensor], SocratesTensor], set[str]]] = {
        "linear": (_linear, {"weights", "bias", "func"}),
        "function": (_function, {"func", "newshape", "axes"}),
        "rnn": (_rnn, {"weights", "bias", "h0", "func"}),
        "lstm": (_lstm, {"weights", "bias", "h0", "c0"}),
        "gru": (_gru, {"gate_weights", "candidate_weights", "gate_bias", "candidate_bias", "h0"}),
        **{f"conv{n}d": (_conv, {"filters", "bias", "stride", "padding"}) for n in (1, 2, 3)},
        **{f"maxpool{n}d": (_max_pool, {"kernel", "stride", "padding"}) for n in (1, 2, 3)},
    }
    if layer.kind not in known:
        raise layer.problem(f"unknown type of layer; expected one of {', '.join(known)}")
    convert, keys = known[layer.kind]
    extra = sorted(set(layer.entries) - keys - {"type", "name"})
    if extra:
        raise layer.problem(f'unknown key "{ascii(extra[0])[1:-1][:60]}"; expected one of {", ".join(sorted(keys))}')
    return convert(layer, flow)


def _step_width(layer: SocratesLayer) -> int:
    """Return the number of values of a step that a recurrent layer takes, from its weights."""
    weights = layer.numbers("gate_weights" if layer.kind == "gru" else "weights", 2)
    width = int(weights.shape[1]) - layer.numbers("h0").size
    if width < 1:
        raise layer.problem(f"weights have {weights.shape[1]} columns, too few for an input beside the state h0")
    return width


def _reshaped(graph: OnnxGraph, flow: SocratesTensor, shape: tuple[int, ...]) -> SocratesTensor:
    return SocratesTensor(graph.reshaped(flow.tensor, -1, *shape), shape)


def _linear(layer: SocratesLayer, flow: SocratesTensor) -> SocratesTensor:
    weights = layer.numbers("weights", 2)
    if weights.shape[1] != flow.shape[-1]:
        raise layer.problem(f"weights take {weights.shape[1]} values, and the layer gets {flow.shape[-1]}")
    made = layer.graph.dense(flow.tensor, weights.T, layer.vector("bias", len(weights)))
    flow = SocratesTensor(made, (*flow.shape[:-1], len(weights)))
    return _activated(layer, flow) if layer.entries.get("func") is not None else flow


def _activated(layer: SocratesLayer, flow: SocratesTensor) -> SocratesTensor:
    name = str(layer.entries.get("func", "")).lower()
    if name not in SOCRATES_ACTIVATIONS:
        raise layer.problem(
            f'unknown function "{ascii(name)[1:-1][:60]}"; expected one of {", ".join(SOCRATES_ACTIVATIONS)}'
            + (", reshape, transpose" if layer.kind == "function" else "")
        )
    more = {"axis": -1} if name == "softmax" else {}
    return SocratesTensor(layer.graph.node(SOCRATES_ACTIVATIONS[name], flow.tensor, **more), flow.shape)


def _function(layer: SocratesLayer, flow: SocratesTensor) -> SocratesTensor:
    name = str(layer.entries.get("func", "")).lower()
    if name == "reshape":
        batch, *shape = layer.whole("newshape") or (0,)
        size, known = prod(flow.shape), prod(part for part in shape if part != -1)
        if shape.count(-1) == 1 and known > 0 and size % known == 0:
            shape = [size // known if part == -1 else part for part in shape]
        if batch not in (1, -1) or not shape or min(shape) < 1 or prod(shape) != size:
            raise layer.problem(f"newshape must be 1 for the batch, and then sizes for the {size} input values")
        return _reshaped(layer.graph, flow, tuple(shape))
    if name == "transpose":
        axes = layer.whole("axes")
        if sorted(axes) != list(range(len(flow.shape) + 1)) or axes[0] != 0:
            raise layer.problem(f"axes must be 0 and then 1 to {len(flow.shape)} in some order")
        shape = [flow.shape[axis - 1] for axis in axes[1:]]
        return SocratesTensor(layer.graph.node("Transpose", flow.tensor, perm=list(axes)), tuple(shape))
    return _activated(layer, flow)


def _conv(layer: SocratesLayer, flow: SocratesTensor) -> SocratesTensor:
    sizes = int(layer.kind[-2])
    filters = layer.numbers("filters", sizes + 2)
    stride, padding = layer.one("stride", 1), layer.one("padding", 0)
    if len(flow.shape) != sizes + 1 or filters.shape[1] != flow.shape[0]:
        raise layer.problem(f"filters of shape {filters.shape} do not fit an input of shape {(1, *flow.shape)}")
    weights, bias = layer.graph.constant(filters), layer.graph.constant(layer.vector("bias", len(filters)))
    made = layer.graph.node("Conv", flow.tensor, weights, bias, strides=[stride] * sizes, pads=[padding] * (2 * sizes))
    return SocratesTensor(made, (len(filters), *_windows(layer, flow, filters.shape[2:], stride, padding)))


def _max_pool(layer: SocratesLayer, flow: SocratesTensor) -> SocratesTensor:
    sizes = int(layer.kind[-2])
    kernel, stride, padding = layer.whole("kernel"), layer.one("stride", 1), layer.one("padding", 0)
    if len(kernel) != sizes or len(flow.shape) != sizes + 1 or min(kernel) < 1:
        raise layer.problem(f"a kernel of sizes {kernel} does not fit an input of shape {(1, *flow.shape)}")
    if padding >= min(kernel):
        raise layer.problem(f"padding {padding} is as wide as the kernel of sizes {kernel}")
    made = layer.graph.node(
        "MaxPool", flow.tensor, kernel_shape=list(kernel), strides=[stride] * sizes, pads=[padding] * (2 * sizes)
    )
    places = _windows(layer, flow, kernel, stride, padding)
    if padding:
        # The format pads with zeros. ONNX pads with values below all others, and onnxruntime merges a Pad before a
        # MaxPool into that; so the maximum with 0 is taken wherever a window overlaps the padding.
        reaches = np.zeros(places, np.bool_)
        for axis, (size, width, count) in enumerate(zip(flow.shape[1:], kernel, places, strict=True)):
            start = np.arange(count) * stride
            outside = (start < padding) | (start + width > padding + size)
            reaches |= outside.reshape([-1 if other == axis else 1 for other in range(sizes)])
        floor = np.where(reaches, np.float32(0), np.finfo(np.float32).min)[None, None]
        made = layer.graph.node("Max", made, layer.graph.constant(floor))
    return SocratesTensor(made, (flow.shape[0], *places))


def _windows(
    layer: SocratesLayer, flow: SocratesTensor, kernel: tuple[int, ...], stride: int, padding: int
) -> list[int]:
    found = [(size + 2 * padding - width) // stride + 1 for size, width in zip(flow.shape[1:], kernel, strict=True)]
    if min(found) < 1:
        raise layer.problem(f"a window of {kernel} is larger than the padded input of shape {(1, *flow.shape)}")
    return found


def _rnn(layer: SocratesLayer, flow: SocratesTensor) -> SocratesTensor:
    name = layer.entries.get("func")
    activation = {"activations": ["Affine"], "activation_alpha": [1.0], "activation_beta": [0.0]}
    if name is not None:
        if str(name).lower() not in ("relu", "sigmoid", "tanh"):
            raise layer.problem(f'unknown function "{ascii(name)[1:-1][:60]}"; expected relu, sigmoid or tanh')
        activation = {"activations": [SOCRATES_ACTIVATIONS[str(name).lower()]]}
    size = layer.numbers("h0").size
    weights, bias = layer.numbers("weights", 2), layer.vector("bias", size)
    return _recurrent(layer, flow, "RNN", [weights], [bias], **activation)


def _lstm(layer: SocratesLayer, flow: SocratesTensor) -> SocratesTensor:
    size = layer.numbers("h0").size
    weights, bias = layer.numbers("weights", 2), layer.vector("bias", 4 * size)
    if len(weights) != 4 * size:
        raise layer.problem(f"weights have {len(weights)} rows, expected 4 * {size}")
    # The file has the gates in the order input, candidate, forget, output; ONNX uses input, output, forget, candidate.
    order = [0, 3, 2, 1]
    gates = [np.split(part, 4) for part in (weights, bias)]
    return _recurrent(layer, flow, "LSTM", *([part[gate] for gate in order] for part in gates))


def _gru(layer: SocratesLayer, flow: SocratesTensor) -> SocratesTensor:
    size = layer.numbers("h0").size
    gate, candidate = layer.numbers("gate_weights", 2), layer.numbers("candidate_weights", 2)
    gate_bias, candidate_bias = layer.vector("gate_bias", 2 * size), layer.vector("candidate_bias", size)
    if len(gate) != 2 * size or candidate.shape != (size, gate.shape[1]):
        raise layer.problem(f"gate_weights and candidate_weights do not fit a state of {size}")
    (reset, update), (reset_bias, update_bias) = np.split(gate, 2), np.split(gate_bias, 2)
    return _recurrent(
        layer, flow, "GRU", [update, reset, candidate], [update_bias, reset_bias, candidate_bias], linear_before_reset=0
    )


def _recurrent(
    layer: SocratesLayer,
    flow: SocratesTensor,
    operator: str,
    weights: list[NDArray[np.float64]],
    bias: list[NDArray[np.float64]],
    **attributes: Any,
) -> SocratesTensor:
    """Add a recurrent operator, with its gates in ONNX's order; the last one returns only the last step."""
    graph, size = layer.graph, layer.numbers("h0").size
    joined = np.concatenate(weights)
    if len(flow.shape) != 1 or joined.shape != (len(weights) * size, flow.shape[0] + size):
        raise layer.problem(
            f"weights of shape {joined.shape} do not fit an input of {flow.shape} and a state of {size}"
        )
    width = flow.shape[0]
    shape = graph.constant([-1, width] if layer.free else [layer.steps, -1, width], np.int64)
    if layer.free:
        shape = graph.node("Concat", layer.free, shape, axis=0)
    sequence = graph.node("Reshape", flow.tensor, shape)
    both = np.concatenate([*bias, np.zeros(len(bias) * size)])
    # The states before the first step are the same for every row.
    one = graph.constant([1], np.int64)
    rows = graph.node("Gather", graph.node("Shape", sequence), one)
    shape = graph.node("Concat", one, rows, graph.constant([size], np.int64), axis=0)
    states = [
        graph.node("Expand", graph.constant(layer.vector(key, size)[None, None]), shape)
        for key in (("h0", "c0") if operator == "LSTM" else ("h0",))
    ]
    inputs = [
        sequence,
        graph.constant(joined[None, :, :width]),
        graph.constant(joined[None, :, width:]),
        graph.constant(both[None]),
        "lengths" if layer.free else "",
        *states,
    ]
    every, final = graph.nodes(operator, inputs, 2, hidden_size=size, **attributes)
    return _reshaped(graph, SocratesTensor(final if layer.last else every, (size,)), (size,))
