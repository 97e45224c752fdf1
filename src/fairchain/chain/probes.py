"""Activations of a network with recurrent layers: all their steps, or the last one as an ordinary layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.models import OnnxModel
from fairchain.models.base import random_inputs
from fairchain.models.inspect.activations import Probe
from fairchain.models.inspect.recurrent import RecurrentLayer, RecurrentSteps, StepProbe, steps_of
from fairchain.models.onnx.decision import Labels
from fairchain.models.onnx.session import Hidden
from fairchain.spec import Spec

# Largest number of values that one call of the network may return.
MOST_CALL_NUMBERS = 2**24


class LastSteps:
    """A network that returns some of its layers with each decision; recurrent layers after the last step.

    It is used like a `Probe`; `steps` returns all steps, at most `most`.
    """

    def __init__(self, model: OnnxModel, spec: Spec, names: Sequence[str], recurrent: frozenset[str]) -> None:
        self.model = model
        self.recurrent = recurrent
        self._layers = recurrent_layers(model)
        # Whether the network may take fewer steps for one row than for another, because it has an input for lengths.
        self.varied = any(self._layers[name].varied for name in recurrent)
        self._probe = StepProbe(model, spec, tuple(dict.fromkeys(names)))
        self.widths = dict(self._probe.units)
        one = random_inputs(spec.described, 1).astype(model.dtype)
        self.most = spec.text.steps if spec.text is not None else inside_of(self._probe(one)).shape[1]

    def parts(self, values: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Yield blocks of rows: a large layer has very many values over time."""
        size = max(1, MOST_CALL_NUMBERS // (self.most * sum(self.widths.values())))
        for start in range(0, len(values), size):
            yield values[start : start + size]

    def steps(self, values: NDArray[Any]) -> RecurrentSteps:
        """Return the class of each row, and the states after each step in the order of the steps."""
        shown = self._probe(values)
        states = {
            name: _turned(hidden, shown.lengths) if self._layers[name].direction == "reverse" else hidden
            for name, hidden in shown.states.items()
        }
        return replace(shown, states=states)

    def __call__(self, values: NDArray[Any]) -> tuple[Labels, dict[str, Hidden]]:
        """Return the class of each row, and for each layer its units, (rows, units)."""
        labels: list[Labels] = []
        layers: list[dict[str, Hidden]] = []
        for part in self.parts(values):
            shown = self.steps(part)
            last = {name: self._last(name, hidden, shown.lengths) for name, hidden in shown.states.items()}
            labels.append(shown.labels)
            layers.append({**shown.layers, **last})
        joined = {name: np.concatenate([layer[name] for layer in layers]) for name in layers[0]}
        return np.concatenate(labels), joined

    def _last(self, name: str, hidden: Hidden, lengths: NDArray[np.int64]) -> Hidden:
        last: Hidden = hidden[np.arange(len(hidden)), lengths - 1]
        if self._layers[name].direction == "bidirectional":
            # The backward direction reaches the first word last.
            half = hidden.shape[2] // 2
            last[:, half:] = hidden[:, 0, half:]
        return last


def _turned(hidden: Hidden, lengths: NDArray[np.int64]) -> Hidden:
    """Return every row's steps from the last to the first."""
    steps = np.arange(hidden.shape[1])
    place = np.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
    turned: Hidden = np.take_along_axis(hidden, place[:, :, None], axis=1)
    return turned


def probe_of(model: OnnxModel, spec: Spec, names: Sequence[str]) -> Probe | LastSteps:
    """Return a probe for these layers."""
    recurrent = frozenset(recurrent_layers(model)).intersection(names)
    return LastSteps(model, spec, names, recurrent) if recurrent else Probe(model, spec, names)


def recurrent_layers(model: OnnxModel) -> dict[str, RecurrentLayer]:
    """Return the names of recurrent states, each with its layer: `lstm1`, `lstm1.cell`, `gru2`."""
    layers = steps_of(model)
    return {layer.name: layer for layer in layers} | {f"{layer.name}.cell": layer for layer in layers if layer.cells}


def inside_of(shown: RecurrentSteps) -> NDArray[np.bool_]:
    """Return (rows, steps): whether a trace has this step."""
    steps = next(iter(shown.states.values())).shape[1]
    inside: NDArray[np.bool_] = np.arange(steps) < shown.lengths[:, None]
    return inside
