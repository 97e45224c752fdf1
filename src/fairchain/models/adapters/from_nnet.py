"""Networks in the .nnet format: plain text with the sizes, the scaling and the weights of dense ReLU layers.

Lines that begin with // are comments. They are followed by numbers between commas: the numbers of layers, inputs and
outputs, and the largest size of a layer; the size of every layer; an unused flag; the smallest and the largest value of
each input; means and ranges of the inputs and of all outputs; and for each layer its weights, one line for each unit,
and its biases. An input is clipped to its range and scaled, each layer except the last is followed by a ReLU, and the
output is scaled back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.adapters.onnx_graph import OnnxGraph
from fairchain.models.onnx.feature_encoding import extremes, widths
from fairchain.models.onnx.file_checks import Limits, read_file
from fairchain.spec import Spec

MOST_LAYERS = 1000
NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
DAMAGED_NNET = "{path}: not a .nnet network, or a damaged one ({error}); export it again"
WIDTH_DOES_NOT_FIT = (
    "{path}: the network takes {low_count} values and the spec has features for {width}; describe every input in "
    "order, one [[feature]] each"
)


@dataclass(frozen=True, eq=False)
class DenseNetwork:
    """The contents of a file: the scaling of inputs, weights and biases of each layer, the scaling of outputs."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    layers: tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...]
    output_mean: float
    output_spread: float


def nnet_network(path: Path, limits: Limits, spec: Spec) -> bytes:
    """Return the ONNX bytes of the network of a .nnet file; its outputs are scores, or one logit.

    Steps that change no input of the spec are left out.
    """
    if spec.text is not None:
        raise ModelError(f"{path}: a .nnet network takes numbers, not texts")
    network = read_nnet(path, limits)
    width = sum(widths(spec.features))
    if width != len(network.low):
        raise ModelError(WIDTH_DOES_NOT_FIT.format(path=path, low_count=len(network.low), width=width))
    graph, flow = OnnxGraph(), "input"
    seen = [extremes(feature) for feature in spec.features if feature.model_input for _ in range(widths([feature])[0])]
    if any(
        min(ends) < low or max(ends) > high for ends, low, high in zip(seen, network.low, network.high, strict=True)
    ):
        flow = graph.node("Max", flow, graph.constant(network.low))
        flow = graph.node("Min", flow, graph.constant(network.high))
    if network.mean.any() or (network.spread != 1).any():
        flow = graph.node("Sub", flow, graph.constant(network.mean))
        flow = graph.node("Div", flow, graph.constant(network.spread))
    for place, (weights, bias) in enumerate(network.layers):
        flow = graph.dense(flow, weights.T, bias)
        if place < len(network.layers) - 1:
            flow = graph.node("Relu", flow)
    if network.output_spread != 1:
        flow = graph.node("Mul", flow, graph.constant([network.output_spread]))
    if network.output_mean:
        flow = graph.node("Add", flow, graph.constant([network.output_mean]))
    return graph.to_bytes([("input", np.float32, ["batch", width])], len(network.layers[-1][1]), flow)


def read_nnet(path: Path, limits: Limits) -> DenseNetwork:
    """Return the contents of a .nnet file, or raise a ModelError that states the defect."""
    lines = _lines(path, read_file(path, limits.file_bytes, "a .nnet file"))

    def numbers(count: int) -> NDArray[np.float64]:
        """Return the next line, which must have this many numbers."""
        parts = next(lines)
        if len(parts) != count:
            raise ValueError(f"{len(parts)} numbers where {count} belong")
        found = np.array(parts, np.float64)
        if (np.abs(found) > np.finfo(np.float32).max).any():
            raise ValueError("a number that is too large for single precision")
        return found

    def sizes_of(count: int) -> list[int]:
        """Return the first whole numbers of the next line, which may have more."""
        parts = next(lines)
        if len(parts) < count:
            raise ValueError(f"{len(parts)} numbers where {count} belong")
        return [int(part) for part in parts[:count]]

    try:
        layers, inputs, outputs, _ = sizes_of(4)
        if not 0 < layers <= MOST_LAYERS:
            raise ValueError(f"{layers} layers")
        sizes = sizes_of(layers + 1)
        if sizes[0] != inputs or sizes[-1] != outputs or min(sizes) < 1:
            raise ValueError("sizes of layers that contradict the first line")
        next(lines)  # a flag without a use
        low, high = numbers(inputs), numbers(inputs)
        mean, spread = numbers(inputs + 1), numbers(inputs + 1)
        if (spread == 0).any() or (low > high).any():
            raise ValueError("a range of 0, or a smallest value above the largest")
        parts = []
        for before, size in pairwise(sizes):
            weights = np.stack([numbers(before) for _ in range(size)])
            parts.append((weights, np.concatenate([numbers(1) for _ in range(size)])))
    except StopIteration:
        raise ModelError(DAMAGED_NNET.format(path=path, error="the file ends before the last layer")) from None
    except (ValueError, OverflowError) as error:
        raise ModelError(DAMAGED_NNET.format(path=path, error=error)) from None
    return DenseNetwork(low, high, mean[:-1], spread[:-1], tuple(parts), float(mean[-1]), float(spread[-1]))


def _lines(path: Path, content: bytes) -> Iterator[list[bytes]]:
    """Yield the numbers of each line, as texts; comments and empty lines are left out."""
    for number, line in enumerate(content.splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith(b"//"):
            continue
        parts = [part.strip() for part in text.rstrip(b",").split(b",")]
        if not all(NUMBER.fullmatch(part) for part in parts):
            raise ModelError(f"{path}: line {number:,} contains more than numbers between commas; export it again")
        yield parts
