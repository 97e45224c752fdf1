"""Inspection of a recurrent network: its states after every step, read in the same call as the decision.

The recurrent operators are numbered in the order of the graph: `lstm1`, `gru2`, `rnn3`, and `lstm1.cell` for the cell
states. Hidden states come from the operator itself. Its cell states, of which it returns only the last, are computed
again: because the hidden states are known, the sums in all gates of all steps are matrix products, which the network
computes in the same call, and only c(t) = f * c(t-1) + i * g is computed step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.base import random_inputs
from fairchain.models.inspect.activations import resolve
from fairchain.models.onnx.decision import Labels
from fairchain.models.onnx.file_checks import attribute
from fairchain.models.onnx.padding import RECURRENT
from fairchain.models.onnx.session import Hidden, OnnxModel, rejoined
from fairchain.spec import Spec

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Array = NDArray[Any]
CELL = ".cell"
# Functions of gates and cells whose cell states can be computed here.
CELL_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "sigmoid": lambda z: 0.5 * (np.tanh(0.5 * z) + 1),
    "tanh": np.tanh,
    "relu": lambda z: np.maximum(z, 0),
}
# The index of the lengths among the inputs of a recurrent operator.
LENGTHS = 4
STATES_IN_ANOTHER_ORDER = (
    "{name}: the states of {name2} are in another order than the rows; export the network without sorting its "
    "sequences (torch: enforce_sorted=True)"
)
SEQUENCES_ARE_NOT_ROWS = (
    "{name}: {name2} has {shape} sequences for {rows} rows; only operators that read one sequence for each row are "
    "supported"
)


@dataclass(frozen=True)
class RecurrentLayer:
    """A recurrent operator.

    Parameters
    ----------
    name
        `lstm1`: its type and its number among the recurrent operators.
    operator
        LSTM, GRU or RNN.
    outputs
        Its tensors in the file: all hidden states, the last one, the last cell states; "" if the file names none.
    units
        The number of units of one step, both directions together.
    direction
        forward, reverse or bidirectional.
    varied
        Whether it gets the number of steps, so that rows may differ.
    """

    name: str
    operator: str
    outputs: tuple[str, ...]
    units: int
    direction: str
    varied: bool

    @property
    def cells(self) -> bool:
        """Whether it has cell states, `name.cell`."""
        return self.operator == "LSTM"


@dataclass(frozen=True, eq=False)
class RecurrentSteps:
    """The result of a `StepProbe`.

    Parameters
    ----------
    labels
        The class of each row.
    states
        For each recurrent name (rows, steps, units): the states after each step, zeros after a row's last one. The
        second half of the units is the backward direction, at the step that it has read.
    lengths
        The number of steps of the network for each row: the words if it gets their number, otherwise all, including
        padding.
    layers
        For each other name the units, (rows, units).
    """

    labels: Labels
    states: dict[str, Hidden]
    lengths: NDArray[np.int64]
    layers: dict[str, Hidden]


def steps_of(model: OnnxModel) -> tuple[RecurrentLayer, ...]:
    """Return the recurrent operators of a network in the order of its graph; empty if it is feed-forward."""
    found = []
    for name, node in _operators(model.network.model).items():
        direction = _direction(node).decode("ascii", "replace")
        units = int(attribute(node, "hidden_size")) * (2 if direction == "bidirectional" else 1)
        varied = len(node.input) > LENGTHS and bool(node.input[LENGTHS])
        found.append(RecurrentLayer(name, node.op_type, tuple(node.output), units, direction, varied))
    return tuple(found)


class StepProbe:
    """A network, loaded with this spec, that returns its states after every step with each decision.

    `names` are recurrent layers (`lstm1`), their cells (`lstm1.cell`), and others as for `Probe` (`layer1`).
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
        inputs = random_inputs(spec.described, 8).astype(model.dtype)
        first = self(inputs)
        self.units = {name: shown.shape[-1] for name, shown in {**first.states, **first.layers}.items()}
        # In some graphs the states of different rows cannot be distinguished.
        for row in range(len(inputs)):
            for name, states in self(inputs[row : row + 1]).states.items():
                shown = first.states[name][row, : states.shape[1]]
                if not np.allclose(states[0], shown, rtol=1e-3, atol=1e-5):
                    raise ModelError(STATES_IN_ANOTHER_ORDER.format(name=model.name, name2=name))

    def __call__(self, values: NDArray[Any]) -> RecurrentSteps:
        """Return the class of each row, and the states after each step."""
        rows = self._shown.inputs.parts(values)
        parts = [self._part(values[part]) for part in rows]

        def join(arrays: Sequence[Array]) -> Array:
            """Concatenate parts in the order of the rows, with zeros after those with fewer steps."""
            most = max(each.shape[1] for each in arrays)
            fill = [[(0, 0), (0, most - each.shape[1])] + [(0, 0)] * (each.ndim - 2) for each in arrays]
            return rejoined(rows, [np.pad(each, more) for each, more in zip(arrays, fill, strict=True)])

        return RecurrentSteps(
            rejoined(rows, [part.labels for part in parts]),
            {name: join([part.states[name] for part in parts]) for name in parts[0].states},
            rejoined(rows, [part.lengths for part in parts]),
            {name: join([part.layers[name] for part in parts]) for name in parts[0].layers},
        )

    def _shown_tensors(self, network: ModelProto) -> dict[tuple[str, str], str]:
        """Add the needed tensors to the network's outputs: the tensor's name for (layer, kind)."""
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
            # Tensors with the order of the rows, the last reordering first: torch sorts sequences by their lengths.
            at, orders, before = node.input[0], 0, self.model.network
            while at in before.makers:
                taken = before.makers[at].input
                if before.makers[at].op_type == "Gather" and not before.constants.intersection(taken[:2]):
                    wanted[f"order{orders}"] = taken[1]
                    orders += 1
                at = next((name for name in taken if name not in before.constants), "")
            for what, tensor in wanted.items():
                # A copy, because an input of the network cannot also be an output.
                copy = network.graph.node.add(op_type="Identity", input=[tensor], output=[f"{name} shown {what}"])
                network.graph.output.add().name = copy.output[0]
                tensors[name, what] = copy.output[0]
        known = {output.name for output in network.graph.output}
        for tensor in self._plain.values():
            if tensor not in known:
                network.graph.output.add().name = tensor
        return tensors

    def _part(self, values: NDArray[Any]) -> RecurrentSteps:
        rows = len(values)
        labels, found = self._shown.predict_with(values, [*self._tensors.values(), *self._plain.values()])
        shown = dict(zip(self._tensors, found, strict=False))
        plain = zip(self._plain.items(), found[len(self._tensors) :], strict=True)
        layers = {name: self._shown.by_row(tensor, hidden, rows) for (name, tensor), hidden in plain}
        states, lengths = {}, np.zeros(rows, np.int64)
        for name in self._recurrent:
            layer = name.removesuffix(CELL)
            parts = {what: tensor for (owner, what), tensor in shown.items() if owner == layer}
            made = parts["y"]
            if made.shape[2] != rows:
                raise ModelError(
                    SEQUENCES_ARE_NOT_ROWS.format(name=self.model.name, name2=name, shape=made.shape[2], rows=rows)
                )
            if name.endswith(CELL):
                made = read_cells(self._operators[layer], parts)
            # From (steps, directions, rows, units) to (rows, steps, units of all directions).
            states[name] = np.ascontiguousarray(made.transpose(2, 0, 1, 3)).reshape(
                rows, len(made), made.shape[1] * made.shape[3]
            )
            taken = np.broadcast_to(parts.get("lengths", len(made)), rows)
            for what, order in parts.items():
                if what.startswith("order"):
                    back = np.argsort(order.reshape(-1))
                    states[name], taken = states[name][back], taken[back]
            lengths = np.maximum(lengths, taken)
        return RecurrentSteps(labels, states, lengths, layers)


def _operators(network: ModelProto) -> dict[str, NodeProto]:
    """Return the recurrent operators by their names."""
    found = [node for node in network.graph.node if node.op_type in RECURRENT and not node.domain]
    return {f"{node.op_type.lower()}{number}": node for number, node in enumerate(found, start=1)}


def check_cells(where: str, node: NodeProto) -> None:
    """Raise a ModelError if the cell states of this operator cannot be computed here."""
    if node.op_type != "LSTM":
        raise ModelError(f"{where}: only an LSTM has cell states; {node.op_type} has only hidden states")
    unknown = [name for name in _functions(node) if name not in CELL_FUNCTIONS]
    if unknown:
        raise ModelError(
            f"{where}: cell states are available for {', '.join(CELL_FUNCTIONS)}, not for {unknown[0]}; use the "
            "hidden states"
        )
    if attribute(node, "clip") is not None or attribute(node, "input_forget"):
        raise ModelError(
            f"{where}: cell states of an LSTM with clip or input_forget are not available; use the hidden states"
        )


def add_gates(network: ModelProto, node: NodeProto, name: str) -> dict[str, str]:
    """Add the sums in the gates of this LSTM to the network; return the names of these and all other needed tensors.

    For each direction there are `x0`, the contribution of the inputs at every step, `y0`, the contribution of the
    hidden states of every step to the gates of the next one, and `h0`, the contribution of the initial state, if any.
    """
    inputs = dict(zip(("x", "w", "r", "b", "lengths", "h", "c", "peepholes"), node.input, strict=False))
    wanted = {what: inputs[what] for what in ("b", "c", "peepholes") if inputs.get(what)}

    def add(operator: str, *taken: str, **attributes: int | list[int]) -> str:
        made = network.graph.node.add(op_type=operator, input=taken, output=[f"{name} {len(network.graph.node)}"])
        for key, value in attributes.items():
            if isinstance(value, list):
                made.attribute.add(name=key, ints=value, type=7)
            else:
                made.attribute.add(name=key, i=value, type=2)
        return str(made.output[0])

    for place in range(2 if _direction(node) == b"bidirectional" else 1):
        one = f"{name} direction {place}"
        network.graph.initializer.add(name=one, data_type=7, int64_data=[place])
        w, r = (add("Transpose", add("Gather", inputs[key], one, axis=0), perm=[1, 0]) for key in ("w", "r"))
        wanted[f"x{place}"] = add("MatMul", inputs["x"], w)
        wanted[f"y{place}"] = add("MatMul", add("Gather", node.output[0], one, axis=1), r)
        if inputs.get("h"):
            wanted[f"h{place}"] = add("MatMul", add("Gather", inputs["h"], one, axis=0), r)
    return wanted


def read_cells(node: NodeProto, parts: Mapping[str, Array]) -> Array:
    """Return the cell states after each step, (steps, directions, batch, units); zeros after a row's last one.

    `parts` are the tensors that `add_gates` names, the hidden states `y` and, if any, the `lengths`. The states of a
    direction are computed step by step in its reading order.
    """
    functions = [CELL_FUNCTIONS[name] for name in _functions(node)]
    cells, lengths = np.zeros_like(parts["y"]), parts.get("lengths")
    steps, directions, _, units = cells.shape
    zeros = np.zeros(4 * units, cells.dtype)
    for place in range(directions):
        gate, candidate = functions[3 * place : 3 * place + 2]
        x, y, first = parts[f"x{place}"], parts[f"y{place}"], parts.get(f"h{place}", zeros)
        bias = parts["b"][place][: 4 * units] + parts["b"][place][4 * units :] if "b" in parts else zeros
        peeps = np.split(parts["peepholes"][place], 3) if "peepholes" in parts else None
        c = parts["c"][place] if "c" in parts else zeros[:units]
        backward = _direction(node) == b"reverse" or place == 1
        for t in range(steps - 1, -1, -1) if backward else range(steps):
            before = t + 1 if backward else t - 1
            z = x[t] + bias
            z += y[before] if 0 <= before < steps else first
            if backward and lengths is not None and f"h{place}" in parts and before < steps:
                # A row whose text ends here starts here: after its end y is 0, and the state before it is `first`.
                z += np.where(np.equal(lengths, before)[:, None], first, 0)
            # ONNX has the gates in the order input, output, forget, candidate.
            enters, keeps = z[:, :units], z[:, 2 * units : 3 * units]
            if peeps is not None:
                enters, keeps = enters + peeps[0] * c, keeps + peeps[2] * c
            made = gate(keeps) * c + gate(enters) * candidate(z[:, 3 * units :])
            if lengths is None:
                cells[t, place] = c = made
            else:
                reads = (t < lengths)[:, None]
                cells[t, place] = np.where(reads, made, 0)
                c = np.where(reads, made, c)
    return cells


def _direction(node: NodeProto) -> bytes:
    return bytes(attribute(node, "direction", b"forward"))


def _functions(node: NodeProto) -> list[str]:
    """Return the names of the functions f, g and h, three for each direction."""
    stated = attribute(node, "activations", ())
    return [bytes(name).decode(errors="replace").lower() for name in stated] or ["sigmoid", "tanh", "tanh"] * 2
