"""Looking inside a network: the activations behind a decision, read in the same call as the decision itself.

A layer is the output of an activation function. It can be named by its tensor, or by its number: `layer1` is the
first one in the graph, and `layer1[3]` its fourth unit. Recurrent operators have a state for every step: see
`recurrent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.model.asking import random_people
from fairchain.model.decision import Labels
from fairchain.model.onnx_model import Hidden, OnnxModel
from fairchain.spec import Spec

ACTIVATIONS = frozenset(
    {"Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "Selu", "Celu", "Gelu", "PRelu", "Softplus", "Softsign", "Clip"}
    | {"HardSigmoid", "HardSwish", "Swish", "Mish", "ThresholdedRelu", "Erf"}
)


@dataclass(frozen=True)
class Layer:
    """A tensor inside a network: what it is called here, its name in the file, its operator and how many units."""

    name: str
    tensor: str
    operator: str
    width: int


class Probe:
    """A network that shows some of its inner tensors with each decision.

    Parameters
    ----------
    model
        The network; it must be one that onnxruntime runs.
    spec
        That it was loaded with.
    tensors
        Layers (`layer1`) or tensor names.
    """

    def __init__(self, model: OnnxModel, spec: Spec, tensors: Sequence[str]) -> None:
        self.model = model
        self._names = tuple(dict.fromkeys(tensors))
        inside = {name: resolve(model, name) for name in self._names}
        self._tensors = tuple(inside.values())
        self._shown = model.with_outputs(self._tensors) if self._tensors else model
        people = random_people(spec.described, 3).astype(model.dtype)
        self.widths = {name: hidden.shape[1] for name, hidden in self(people)[1].items()}

    def __call__(self, values: NDArray[Any]) -> tuple[Labels, dict[str, Hidden]]:
        """The class of each row, and for each tensor its units, (rows, units)."""
        labels, hidden = self._shown.predict_and_show(values, self._tensors)
        return labels, dict(zip(self._names, hidden, strict=True))


def layers_of(model: OnnxModel, spec: Spec) -> tuple[Layer, ...]:
    """The activations of a network in the order of its graph, named layer1, layer2, ..."""
    found = _activations(model)
    probe = Probe(model, spec, [tensor for tensor, _ in found])
    return tuple(
        Layer(f"layer{number}", tensor, operator, probe.widths[tensor])
        for number, (tensor, operator) in enumerate(found, start=1)
    )


def resolve(model: OnnxModel, name: str) -> str:
    """The tensor that a layer's name or number stands for, or a ModelError with what is near."""
    activations = [tensor for tensor, _ in _activations(model)]
    by_number = {f"layer{number}": tensor for number, tensor in enumerate(activations, start=1)}
    if name in by_number:
        return by_number[name]
    graph = model.network.model.graph
    every = [output for node in graph.node for output in node.output if output]
    if name in every:
        return name
    near = get_close_matches(name, [*by_number, *every], n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there is {', '.join(by_number) or 'no hidden layer'}"
    raise ModelError(f'{model.name}: there is no layer or tensor "{name}"; {hint}')


def _activations(model: OnnxModel) -> list[tuple[str, str]]:
    """(tensor, operator) of every activation that is not an output of the network."""
    graph = model.network.model.graph
    outputs = {output.name for output in graph.output}
    return [
        (node.output[0], node.op_type)
        for node in graph.node
        if node.op_type in ACTIVATIONS and node.output[0] not in outputs
    ]
