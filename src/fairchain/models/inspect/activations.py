"""Looking inside a network: the activations behind a decision, read in the same call as the decision itself.

A layer is the output of an activation function. It can be named by its tensor, or by its number: `layer1` is the
first one in the graph, and `layer1[3]` its fourth unit. Recurrent operators have a state for every step: see
`recurrent`.
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
from fairchain.models.onnx.session import Hidden, OnnxModel
from fairchain.spec import Spec

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

ACTIVATIONS = frozenset(
    {"Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "Selu", "Celu", "Gelu", "PRelu", "Softplus", "Softsign", "Clip"}
    | {"HardSigmoid", "HardSwish", "Swish", "Mish", "ThresholdedRelu", "Erf"}
)
# Gates, and the activations that multiply x by one of them.
GATED = {"Sigmoid": "Swish", "HardSigmoid": "HardSwish", "Erf": "Gelu", "Tanh": "Gelu", "Softplus": "Mish"}


@dataclass(frozen=True)
class HiddenLayer:
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
        people = random_inputs(spec.described, 3).astype(model.dtype)
        self.widths = {name: hidden.shape[1] for name, hidden in self(people)[1].items()}

    def __call__(self, values: NDArray[Any]) -> tuple[Labels, dict[str, Hidden]]:
        """The class of each row, and for each tensor its units, (rows, units)."""
        labels, hidden = self._shown.predict_and_show(values, self._tensors)
        return labels, dict(zip(self._names, hidden, strict=True))


def layers_of(model: OnnxModel, spec: Spec) -> tuple[HiddenLayer, ...]:
    """The activations of a network in the order of its graph, named layer1, layer2, ..."""
    found = _activations(model)
    probe = Probe(model, spec, [tensor for tensor, _ in found])
    return tuple(
        HiddenLayer(f"layer{number}", tensor, operator, probe.widths[tensor])
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
    """(tensor, operator) of every activation that is not an output of the network.

    An activation that is written out as several operators (GELU, SiLU) is the tensor that the last of them makes.
    """
    graph = model.network.model.graph
    outputs = {output.name for output in graph.output}
    gates = _Gates(graph)
    found: dict[str, str] = {}
    for node in graph.node:
        if node.op_type not in ACTIVATIONS:
            continue
        tensor = gates.behind(node)
        # The error function by itself switches nothing on or off.
        if (tensor or node.op_type != "Erf") and (tensor or node.output[0]) not in outputs:
            operator = GATED.get(node.op_type, node.op_type) if tensor else node.op_type
            found.setdefault(tensor or node.output[0], operator)
    return list(found.items())


class _Gates:
    """Activations of the form x * gate(x), such as GELU and SiLU, that a file writes out operator by operator."""

    def __init__(self, graph: GraphProto) -> None:
        self._makers = {name: node for node in graph.node for name in node.output if name}
        self._users: dict[str, list[NodeProto]] = {}
        for node in graph.node:
            for name in node.input:
                self._users.setdefault(name, []).append(node)
        self._constants = {tensor.name for tensor in graph.initializer}
        self._constants |= {name for name, node in self._makers.items() if node.op_type == "Constant"}

    def behind(self, node: NodeProto) -> str:
        """Return the tensor x * gate(x) if this operator makes a gate, possibly times constants; "" if it does not."""
        if node.op_type not in GATED:
            return ""
        sources, at, closed = self._sources(node.input[0]), node.output[0], ""
        while len(self._users.get(at, ())) == 1:
            user = self._users[at][0]
            others = [name for name in user.input if name != at and name not in self._constants]
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

    def _sources(self, tensor: str) -> set[str]:
        """Return the tensors that a gate is computed from element by element, and those times constants."""
        found, pending = set[str](), [tensor]
        while pending and len(found) < 50:
            name = pending.pop()
            if name in found or name in self._constants:
                continue
            found.add(name)
            maker = self._makers.get(name)
            if maker is not None and maker.op_type in ("Add", "Mul", "Div", "Pow", *GATED):
                pending.extend(maker.input)
        scaled = (user for name in found for user in self._users.get(name, ()) if user.op_type in ("Mul", "Div"))
        return found | {
            user.output[0] for user in scaled if sum(name not in self._constants for name in user.input) == 1
        }
