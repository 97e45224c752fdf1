"""The cell states of an LSTM after every step, from its inputs, its weights and its hidden states.

Since the hidden states are known, the sums in all gates of all steps are products of matrices, which the network
computes in the same call; only c(t) = f * c(t-1) + i * g is left to be done step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Array = NDArray[Any]
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "sigmoid": lambda z: 0.5 * (np.tanh(0.5 * z) + 1),
    "tanh": np.tanh,
    "relu": lambda z: np.maximum(z, 0),
}


def check_cells(where: str, node: NodeProto) -> None:
    """Raise a ModelError if the cell states of this operator cannot be computed here."""
    if node.op_type != "LSTM":
        raise ModelError(f"{where}: only an LSTM has cell states; {node.op_type} has hidden states alone")
    attributes = {attribute.name: attribute for attribute in node.attribute}
    unknown = [name for name in _functions(node) if name not in ACTIVATIONS]
    if unknown:
        raise ModelError(
            f"{where}: cell states are known for {', '.join(ACTIVATIONS)}, not for {unknown[0]}; look at the hidden "
            "states"
        )
    if "clip" in attributes or ("input_forget" in attributes and attributes["input_forget"].i):
        raise ModelError(
            f"{where}: cell states of an LSTM with clip or input_forget are not known; look at the hidden ones"
        )


def add_gates(network: ModelProto, node: NodeProto, name: str) -> dict[str, str]:
    """Let a network compute the sums in the gates of this LSTM too; returns what they, and all else needed, are called.

    For each direction there are `x0`, what the inputs add at every step, `y0`, what the hidden states of every step
    add to the gates of the next one, and `h0`, what the state before the first step adds, if there is one.
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
    """(steps, directions, batch, units): the cell states after each step, zeros behind a row's last one.

    `parts` are the tensors that `add_gates` names, the hidden states `y` and, if there are some, the `lengths`.
    """
    functions = [ACTIVATIONS[name] for name in _functions(node)]
    cells = np.zeros_like(parts["y"])
    for place in range(cells.shape[1]):
        own = {key: parts[key + str(place)] for key in ("x", "y", "h") if key + str(place) in parts}
        own |= {key: parts[key][place] for key in ("b", "c", "peepholes") if key in parts}
        gate, candidate = functions[3 * place : 3 * place + 2]
        backward = _direction(node) == b"reverse" or place == 1
        _fill(cells[:, place], own, parts.get("lengths"), gate, candidate, backward=backward)
    return cells


def _fill(
    cells: Array,
    parts: Mapping[str, Array],
    lengths: Array | None,
    gate: Callable[[Array], Array],
    candidate: Callable[[Array], Array],
    *,
    backward: bool,
) -> None:
    """The cell states of one direction, step after step as it reads."""
    steps, rows, units = cells.shape
    x, y = parts["x"], parts["y"]
    first = parts.get("h", np.zeros((rows, 4 * units), y.dtype))
    bias = parts["b"][: 4 * units] + parts["b"][4 * units :] if "b" in parts else np.zeros(4 * units, y.dtype)
    peeps = np.split(parts["peepholes"], 3) if "peepholes" in parts else None
    c = parts.get("c", np.zeros((rows, units), y.dtype))
    for t in range(steps - 1, -1, -1) if backward else range(steps):
        before = t + 1 if backward else t - 1
        z = x[t] + bias
        z += y[before] if 0 <= before < steps else first
        if backward and lengths is not None and "h" in parts and before < steps:
            # A row whose text ends here begins here: behind its end y is 0, and what stands before is `first`.
            z += np.where(np.equal(lengths, before)[:, None], first, 0)
        # ONNX has the gates in the order input, output, forget, candidate.
        enters, keeps = z[:, :units], z[:, 2 * units : 3 * units]
        if peeps is not None:
            enters, keeps = enters + peeps[0] * c, keeps + peeps[2] * c
        made = gate(keeps) * c + gate(enters) * candidate(z[:, 3 * units :])
        if lengths is None:
            cells[t] = c = made
        else:
            reads = (t < lengths)[:, None]
            cells[t] = np.where(reads, made, 0)
            c = np.where(reads, made, c)


def _direction(node: NodeProto) -> bytes:
    return next((bytes(a.s) for a in node.attribute if a.name == "direction"), b"forward")


def _functions(node: NodeProto) -> list[str]:
    """The names of the functions f, g and h, three for each direction."""
    stated = [name for a in node.attribute if a.name == "activations" for name in a.strings]
    return [bytes(name).decode(errors="replace").lower() for name in stated] or ["sigmoid", "tanh", "tanh"] * 2
