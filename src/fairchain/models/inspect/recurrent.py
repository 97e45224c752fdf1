"""Looking inside a recurrent network: its states after every step, read in the same call as the decision.

The recurrent operators are numbered in the order of the graph: `lstm1`, `gru2`, `rnn3`, and `lstm1.cell` for the cell
states. Hidden states come from the operator itself; its cell states, of which it shows only the last, are computed
again in `cells`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.base import random_inputs
from fairchain.models.inspect.activations import resolve
from fairchain.models.inspect.lstm_cells import add_gates, check_cells, read_cells
from fairchain.models.onnx.decision import Labels
from fairchain.models.onnx.padding import RECURRENT
from fairchain.models.onnx.session import Hidden, OnnxModel
from fairchain.spec import Spec

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

CELL = ".cell"
# The place of the lengths among the inputs of a recurrent operator.
LENGTHS = 4


@dataclass(frozen=True)
class RecurrentLayer:
    """A recurrent operator.

    Parameters
    ----------
    name
        `lstm1`: its kind and its number among the recurrent ones.
    tensor
        Its hidden states in the file, (steps, directions, batch, units); "" if the file does not name them.
    operator
        LSTM, GRU or RNN.
    units
        Of one step, both directions side by side.
    directions
        2 if it also reads backwards.
    direction
        forward, reverse or bidirectional.
    varied
        Whether it is told how many steps to take, so that rows may differ.
    """

    name: str
    tensor: str
    operator: str
    units: int
    directions: int
    direction: str
    varied: bool

    @property
    def cells(self) -> bool:
        """Whether it has cell states, `name.cell`."""
        return self.operator == "LSTM"


@dataclass(frozen=True, eq=False)
class RecurrentSteps:
    """What a `StepProbe` shows.

    Parameters
    ----------
    labels
        The class of each row.
    states
        For each recurrent name (rows, steps, units): the states after each step, zeros behind a row's last one. A
        backward direction stands where it has read to, in the second half of the units.
    lengths
        How many steps the network takes for each row: the words if it is told their number, else all, padding too.
    layers
        For each other name (rows, units).
    """

    labels: Labels
    states: dict[str, Hidden]
    lengths: NDArray[np.int64]
    layers: dict[str, Hidden]


def steps_of(model: OnnxModel) -> tuple[RecurrentLayer, ...]:
    """The recurrent operators of a network in the order of its graph; none if it is feed-forward."""
    return tuple(_layer(*numbered) for numbered in _operators(model.network.model).items())


class StepProbe:
    """A network that shows its states after every step with each decision.

    Parameters
    ----------
    model
        The network; it must be one that onnxruntime runs.
    spec
        That it was loaded with.
    names
        Recurrent layers (`lstm1`), their cells (`lstm1.cell`), and others as for `Probe` (`layer1`).
    """

    def __init__(self, model: OnnxModel, spec: Spec, names: Sequence[str]) -> None:
        self.model = model
        network = model.network.copy()
        self._operators = _operators(network)
        names = tuple(dict.fromkeys(names))
        self._recurrent = tuple(name for name in names if name.removesuffix(CELL) in self._operators)
        self._plain = {name: resolve(model, name) for name in names if name not in self._recurrent}
        for name in self._recurrent:
            if name.endswith(CELL):
                check_cells(f"{model.name}: {name}", self._operators[name.removesuffix(CELL)])
        self._tensors = self._shown_tensors(network)
        self._shown = model.with_graph(network)
        people = random_inputs(spec.described, 8).astype(model.dtype)
        first = self(people)
        self.units = {name: shown.shape[-1] for name, shown in {**first.states, **first.layers}.items()}
        self._check_rows(people, first)

    def __call__(self, values: NDArray[Any]) -> RecurrentSteps:
        """The class of each row, and the states after each step."""
        rows = self._shown.parts(values)
        if len(rows) == 1:
            return self._part(values)
        return _joined([self._part(values[part]) for part in rows], np.argsort(np.concatenate(rows)))

    def _shown_tensors(self, network: ModelProto) -> dict[tuple[str, str], str]:
        """Let the network show what is needed: for (layer, what) the tensor's name."""
        tensors = {}
        for name in dict.fromkeys(name.removesuffix(CELL) for name in self._recurrent):
            node = self._operators[name]
            if not any(node.output[:1]):
                node.output[:] = [f"{name} states", *node.output[1:]]
            wanted = {"y": node.output[0]}
            if len(node.input) > LENGTHS and node.input[LENGTHS]:
                wanted["lengths"] = node.input[LENGTHS]
            if name + CELL in self._recurrent:
                wanted |= add_gates(network, node, name)
            wanted |= {f"order{place}": tensor for place, tensor in enumerate(_orders(network, node))}
            for what, tensor in wanted.items():
                # A copy, since an input of the network cannot be an output of it too.
                copy = network.graph.node.add(op_type="Identity", input=[tensor], output=[f"{name} shown {what}"])
                network.graph.output.add().name = copy.output[0]
                tensors[name, what] = copy.output[0]
        known = {output.name for output in network.graph.output}
        for tensor in self._plain.values():
            if tensor not in known:
                network.graph.output.add().name = tensor
        return tensors

    def _part(self, values: NDArray[Any]) -> RecurrentSteps:
        labels, found = self._shown.predict_with(values, [*self._tensors.values(), *self._plain.values()])
        shown = dict(zip(self._tensors, found, strict=False))
        plain = found[len(self._tensors) :]
        layers = {
            name: self._shown.by_row(tensor, hidden, len(values))
            for (name, tensor), hidden in zip(self._plain.items(), plain, strict=True)
        }
        states, lengths = {}, np.zeros(len(values), np.int64)
        for name in self._recurrent:
            layer = name.removesuffix(CELL)
            parts = {what: tensor for (owner, what), tensor in shown.items() if owner == layer}
            orders = [parts.pop(what) for what in list(parts) if what.startswith("order")]
            self._must_have_rows(name, parts["y"], len(values))
            made = read_cells(self._operators[layer], parts) if name.endswith(CELL) else parts["y"]
            read = np.broadcast_to(parts.get("lengths", len(made)), len(values))
            states[name], taken = _by_row(made), read
            for order in orders:
                back = np.argsort(order.reshape(-1))
                states[name], taken = states[name][back], taken[back]
            lengths = np.maximum(lengths, taken)
        return RecurrentSteps(labels, states, lengths, layers)

    def _check_rows(self, people: NDArray[Any], together: RecurrentSteps) -> None:
        """Refuse a graph in which the states of a row cannot be told from another's."""
        for row in range(len(people)):
            alone = self(people[row : row + 1])
            for name, states in alone.states.items():
                steps = states.shape[1]
                shown = together.states[name][row, :steps]
                if not np.allclose(states[0], shown, rtol=1e-3, atol=1e-5):
                    raise ModelError(
                        f"{self.model.name}: the states of {name} stand in another order than the rows; export the "
                        "network without sorting its sequences (torch: enforce_sorted=True)"
                    )

    def _must_have_rows(self, name: str, states: Hidden, rows: int) -> None:
        if states.shape[2] != rows:
            raise ModelError(
                f"{self.model.name}: {name} has {states.shape[2]} sequences for {rows} rows; only an operator that "
                "reads one sequence for each row can be looked at"
            )


def _by_row(states: Hidden) -> Hidden:
    """From (steps, directions, batch, units) to (rows, steps, units of all directions)."""
    steps, directions, rows, units = states.shape
    return np.ascontiguousarray(states.transpose(2, 0, 1, 3)).reshape(rows, steps, directions * units)


def _joined(parts: Sequence[RecurrentSteps], order: NDArray[np.intp]) -> RecurrentSteps:
    """Parts of a batch as one, in its order; those with fewer steps are filled up with zeros."""

    def join(shown: Sequence[Mapping[str, Hidden]]) -> dict[str, Hidden]:
        joined = {}
        for name in shown[0]:
            most = max(part[name].shape[1] for part in shown)
            whole = np.zeros((len(order), most, *shown[0][name].shape[2:]), shown[0][name].dtype)
            start = 0
            for part in shown:
                whole[start : start + len(part[name]), : part[name].shape[1]] = part[name]
                start += len(part[name])
            joined[name] = whole[order]
        return joined

    return RecurrentSteps(
        np.concatenate([part.labels for part in parts])[order],
        join([part.states for part in parts]),
        np.concatenate([part.lengths for part in parts])[order],
        join([part.layers for part in parts]),
    )


def _operators(network: ModelProto) -> dict[str, NodeProto]:
    """The recurrent operators by their names."""
    found = [node for node in network.graph.node if node.op_type in RECURRENT and not node.domain]
    return {f"{node.op_type.lower()}{number}": node for number, node in enumerate(found, start=1)}


def _orders(network: ModelProto, node: NodeProto) -> list[str]:
    """Tensors that say which row comes first, second, ... where rows were put into another order before this operator.

    torch sorts sequences by their lengths. The last reordering stands first.
    """
    makers = {output: maker for maker in network.graph.node for output in maker.output}
    constants = {tensor.name for tensor in network.graph.initializer}
    constants |= {name for name, maker in makers.items() if maker.op_type == "Constant"}
    orders = []
    at = node.input[0]
    while at in makers:
        maker = makers[at]
        data = maker.input[0] if maker.input else ""
        if maker.op_type == "Gather" and data not in constants and maker.input[1] not in constants:
            orders.append(maker.input[1])
        at = next((name for name in maker.input if name not in constants), "")
    return orders


def _layer(name: str, node: NodeProto) -> RecurrentLayer:
    attributes = {attribute.name: attribute for attribute in node.attribute}
    direction = attributes["direction"].s.decode("ascii", "replace") if "direction" in attributes else "forward"
    directions = 2 if direction == "bidirectional" else 1
    units = int(attributes["hidden_size"].i) * directions
    varied = len(node.input) > LENGTHS and bool(node.input[LENGTHS])
    return RecurrentLayer(name, next(iter(node.output), ""), node.op_type, units, directions, direction, varied)
