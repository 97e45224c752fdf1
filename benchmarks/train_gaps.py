"""Measures an ONNX network: its labels on given rows, and its largest gap between groups on uniform inputs.

The gap is measured with coupled inputs: each drawn input is shown once with every value of the protected
feature, so the groups differ in nothing else and the error of a difference is that of paired data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from fairchain.datasets.schemas import EncodedFeature

FloatArray = NDArray[np.float32]

CHUNK = 1 << 14


@dataclass(frozen=True)
class Gap:
    """The largest difference of P(outcome | group): the value, three standard errors, and the two groups."""

    protected: str
    value: float
    three_errors: float
    lowest: str
    highest: str


class Network:
    """An ONNX network on one thread."""

    def __init__(self, content: bytes) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def logits(self, x: FloatArray) -> FloatArray:
        """The two logits of each row."""
        parts = [self._session.run(None, {"input": x[i : i + CHUNK]})[0] for i in range(0, len(x), CHUNK)]
        return np.concatenate(parts)

    def labels(self, x: FloatArray) -> NDArray[np.int64]:
        """The label of each row: the larger logit, the first one if they are equal."""
        labels: NDArray[np.int64] = np.argmax(self.logits(x), axis=1)
        return labels


def uniform(features: tuple[EncodedFeature, ...], count: int, rng: np.random.Generator) -> FloatArray:
    """Inputs whose features are independent and uniform over their declared ranges."""
    columns = [rng.integers(f.low, f.high, count, endpoint=True) for f in features]
    return np.stack(columns, axis=1).astype(np.float32)


def uniform_rate(network: Network, features: tuple[EncodedFeature, ...], samples: int, seed: int) -> float:
    """How often label 1 occurs on uniform inputs."""
    return float(network.labels(uniform(features, samples, np.random.default_rng(seed))).mean())


def measure_gap(network: Network, features: tuple[EncodedFeature, ...], protected: str, samples: int, seed: int) -> Gap:
    """The gap of label 1 between the values of one feature (with two labels, label 0 has the same gap)."""
    place = [feature.name for feature in features].index(protected)
    feature = features[place]
    values = range(feature.low, feature.high + 1)
    rng = np.random.default_rng(seed)
    together = np.zeros((len(values), len(values)))
    chunks = samples // CHUNK
    for _ in range(chunks):
        x = uniform(features, CHUNK, rng)
        said = np.empty((CHUNK, len(values)))
        for column, group in enumerate(values):
            x[:, place] = group
            said[:, column] = network.labels(x)
        together += said.T @ said
    together /= chunks * CHUNK
    rates = together.diagonal()
    low, high = int(rates.argmin()), int(rates.argmax())
    value = float(rates[high] - rates[low])
    # Paired 0/1 answers: the difference is +-1 where the two groups disagree and 0 elsewhere.
    disagree = float(rates[high] + rates[low] - 2 * together[low, high])
    error = 3 * np.sqrt(max(disagree - value**2, 0.0) / (chunks * CHUNK))
    return Gap(protected, value, float(error), group_name(feature, low), group_name(feature, high))


def group_name(feature: EncodedFeature, position: int) -> str:
    """A category's own name; the one protected number, age, is in decades."""
    if feature.values is not None:
        return feature.values[position]
    decade = 10 * (feature.low + position)
    return f"{decade}-{decade + 9}"
