"""Activations of a network, read in the same call as the decision itself.

A layer is the output of an activation function. It is named by its tensor, or by its number: `layer1` is the first one
in the graph, and `layer1[3]` its fourth unit. Recurrent operators have a state for every step: see `recurrent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.base import random_inputs
from fairchain.models.onnx.decision import Labels
from fairchain.models.onnx.file_checks import Network
from fairchain.models.onnx.session import Hidden, OnnxModel
from fairchain.models.onnx.tensor_facts import fixed_size
from fairchain.spec import Spec

if TYPE_CHECKING:
    from onnx import NodeProto

ACTIVATIONS = frozenset(
    {"Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "Selu", "Celu", "Gelu", "PRelu", "Softplus", "Softsign", "Clip"}
    | {"HardSigmoid", "HardSwish", "Swish", "Mish", "ThresholdedRelu", "Erf"}
)
# Gates, and the activations that multiply x by one of them.
GATED = {"Sigmoid": "Swish", "HardSigmoid": "HardSwish", "Erf": "Gelu", "Tanh": "Gelu", "Softplus": "Mish"}
UNKNOWN_LAYER_OR_TENSOR = '{name}: unknown layer or tensor "{name2}"; {hint}'


@dataclass(frozen=True)
class HiddenLayer:
    """A tensor inside a network: its layer name, its name in the file, its operator and its number of units."""

    name: str
    tensor: str
    operator: str
    width: int


class Probe:
    """A network, loaded with this spec, that returns some layers (`layer1`) or other tensors with each decision."""

    def __init__(self, model: OnnxModel, spec: Spec, tensors: Sequence[str]) -> None:
        self.model = model
        self._names = tuple(dict.fromkeys(tensors))
        self._tensors = tuple(resolve(model, name) for name in self._names)
        self._shown = model.with_outputs(self._tensors) if self._tensors else model
        inputs = random_inputs(spec.described, 3).astype(model.dtype)
        self.widths = {name: hidden.shape[1] for name, hidden in self(inputs)[1].items()}

    def __call__(self, values: NDArray[Any]) -> tuple[Labels, dict[str, Hidden]]:
        """Return the class of each row, and for each tensor its units, (rows, units)."""
        labels, hidden = self._shown.predict_and_show(values, self._tensors)
        return labels, dict(zip(self._names, hidden, strict=True))


def layers_of(model: OnnxModel, spec: Spec) -> tuple[HiddenLayer, ...]:
    """Return the activations of a network in the order of its graph, named layer1, layer2, ..."""
    found = _activations(model)
    probe = Probe(model, spec, [tensor for tensor, _ in found])
    return tuple(
        HiddenLayer(f"layer{number}", tensor, operator, probe.widths[tensor])
        for number, (tensor, operator) in enumerate(found, start=1)
    )


def resolve(model: OnnxModel, name: str) -> str:
    """Return the tensor of a layer's name or number, or raise a ModelError with similar names."""
    activations = [tensor for tensor, _ in _activations(model)]
    by_number = {f"layer{number}": tensor for number, tensor in enumerate(activations, start=1)}
    if name in by_number:
        return by_number[name]
    if name in model.network.makers:
        return name
    near = get_close_matches(name, [*by_number, *model.network.makers], n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there is {', '.join(by_number) or 'no hidden layer'}"
    raise ModelError(UNKNOWN_LAYER_OR_TENSOR.format(name=model.name, name2=name, hint=hint))


def _activations(model: OnnxModel) -> list[tuple[str, str]]:
    """Return (tensor, operator) of every activation that is not an output of the network.

    An activation that is written as several operators (GELU, SiLU) is the output of the last of them.
    """
    graph = model.network.model.graph
    outputs = {output.name for output in graph.output}
    # In a network of tokens, only a tensor with the same units for every text, such as the pooled state, is a layer.
    followed = model.followed() if model.tokens is not None else {}
    varied = {name for name, each in followed.items() if any(fixed_size(axis) is None for axis in each.shape[1:])}
    found: dict[str, str] = {}
    for node in graph.node:
        if node.op_type not in ACTIVATIONS:
            continue
        tensor = _gated_product(model.network, node)
        # The error function alone is not an activation.
        if (tensor or node.op_type != "Erf") and (tensor or node.output[0]) not in outputs | varied:
            operator = GATED.get(node.op_type, node.op_type) if tensor else node.op_type
            found.setdefault(tensor or node.output[0], operator)
    return list(found.items())


def _gated_product(network: Network, node: NodeProto) -> str:
    """Return the tensor x * gate(x) if this operator computes a gate, possibly times constants; otherwise "".

    GELU and SiLU are such products, which a file may express by several operators.
    """
    if node.op_type not in GATED:
        return ""
    sources, at, closed = _gate_sources(network, node.input[0]), node.output[0], ""
    while len(network.users.get(at, ())) == 1:
        user = network.users[at][0]
        others = [name for name in user.input if name != at and name not in network.constants]
        if not others and user.op_type in ("Add", "Mul", "Div", *(() if closed else GATED)):
            at = user.output[0]
            closed = at if closed and user.op_type != "Add" else closed
        elif len(others) == 1 and user.op_type == "Mul" and not closed and others[0] in sources:
            at = closed = user.output[0]
        else:
            break
        if closed and at != closed:
            break
    return closed


def _gate_sources(network: Network, tensor: str) -> set[str]:
    """Return the tensors from which a gate is computed elementwise, and those times constants."""
    found, pending = set[str](), [tensor]
    while pending and len(found) < 50:
        name = pending.pop()
        if name in found or name in network.constants:
            continue
        found.add(name)
        maker = network.makers.get(name)
        if maker is not None and maker.op_type in ("Add", "Mul", "Div", "Pow", *GATED):
            pending.extend(maker.input)
    scaled = (user for name in found for user in network.users.get(name, ()) if user.op_type in ("Mul", "Div"))
    return found | {user.output[0] for user in scaled if sum(n not in network.constants for n in user.input) == 1}
