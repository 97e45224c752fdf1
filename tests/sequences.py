"""Recurrent networks for tests: their ONNX graphs, what they compute, written plainly, and specs of texts for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from fairchain.spec import Spec, parse_spec
from tests.networks import INT32, constant, graph, node, value
from tests.questions import category, question

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
WORDS = 30
Array = NDArray[np.float64]


def sigmoid(z: Array) -> Array:
    return 1 / (1 + np.exp(-z))


class Recurrent:
    """One recurrent operator with random weights."""

    def __init__(
        self, operator: str, inputs: int, units: int, *, both: bool = False, seed: int = 0, states: bool = False
    ) -> None:
        random = np.random.default_rng(seed)
        self.operator, self.inputs, self.units, self.directions = operator, inputs, units, 1 + both
        gates = GATES[operator]

        def numbers(*shape: int) -> NDArray[np.float32]:
            return random.normal(0, 0.7, (self.directions, *shape)).astype(np.float32)

        self.w, self.r = numbers(gates * units, inputs), numbers(gates * units, units)
        self.b, self.h0, self.c0 = numbers(2 * gates * units), numbers(1, units), numbers(1, units)
        self.peepholes = numbers(3 * units)
        if not states:
            self.h0, self.c0, self.peepholes = 0 * self.h0, 0 * self.c0, 0 * self.peepholes
        self.states = states

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Hidden and cell states of one sequence, (steps, directions * units)."""
        made = [self._read(x if d == 0 else x[::-1], d) for d in range(self.directions)]
        hidden, cells = (
            [part[d] if d == 0 else part[d][::-1] for d in range(len(made))] for part in zip(*made, strict=True)
        )
        return np.concatenate(hidden, axis=1), np.concatenate(cells, axis=1)

    def _read(self, x: Array, d: int) -> tuple[Array, Array]:
        n = self.units
        w, r, (wb, rb) = self.w[d].astype(float), self.r[d].astype(float), np.split(self.b[d].astype(float), 2)
        h, c = self.h0[d, 0].astype(float), self.c0[d, 0].astype(float)
        hidden, cells = [], []
        for step in x:
            if self.operator == "RNN":
                h = np.tanh(w @ step + wb + r @ h + rb)
            elif self.operator == "GRU":  # update, reset, candidate; the reset after the product, as torch has it
                a, z = w @ step + wb, r @ h + rb
                update, reset = sigmoid(a[:n] + z[:n]), sigmoid(a[n : 2 * n] + z[n : 2 * n])
                h = update * h + (1 - update) * np.tanh(a[2 * n :] + reset * z[2 * n :])
            else:  # input, output, forget, candidate
                i, o, f, g = np.split(w @ step + wb + r @ h + rb, 4)
                peep_i, peep_o, peep_f = np.split(self.peepholes[d].astype(float), 3)
                i, f = sigmoid(i + peep_i * c), sigmoid(f + peep_f * c)
                c = f * c + i * np.tanh(g)
                h = sigmoid(o + peep_o * c) * np.tanh(c)
            hidden.append(h)
            cells.append(c)
        return np.array(hidden), np.array(cells)


class Network:
    """Recurrent operators over each other and a linear answer from the last one's final states."""

    def __init__(self, *layers: Recurrent) -> None:
        self.layers = layers
        final = layers[-1].directions * layers[-1].units
        self.v = np.random.default_rng(9).normal(0, 1, (final, 2)).astype(np.float32)

    def states(self, x: Array) -> dict[str, Array]:
        """Hidden and cell states of every layer for one sequence."""
        found = {}
        for number, layer in enumerate(self.layers, start=1):
            name = f"{layer.operator.lower()}{number}"
            found[name], found[f"{name}.cell"] = layer(x)
            x = found[name]
        return found

    def scores(self, x: Array) -> Array:
        last, n = list(self.states(x).values())[-2], self.layers[-1].units
        ends = [last[-1, :n], last[0, n:]]
        return np.concatenate(ends) @ self.v

    def onnx(
        self, *, time_first: bool = False, lengths: bool = False, embedding: Any = None, end: str = "final"
    ) -> ModelProto:
        """The graph; words come as vectors, or as ids if it has the `embedding` inside."""
        constants, nodes, width = [constant("v", self.v)], [], self.layers[0].inputs
        shape: list[int | str] = ["time", "batch"] if time_first else ["batch", "time"]
        inputs = [value("x", shape=[*shape, width])]
        at = "x"
        if embedding is not None:
            constants.append(constant("embedding", embedding))
            inputs = [value("x", INT32, shape)]
            nodes.append(node("Gather", ["embedding", "x"], ["vectors"]))
            at = "vectors"
        if not time_first:
            nodes.append(node("Transpose", [at], ["steps"], perm=[1, 0, 2]))
            at = "steps"
        if lengths:
            inputs.append(value("lengths", INT32, ["batch"]))
        for number, layer in enumerate(self.layers, start=1):
            at = _add(nodes, constants, layer, number, at, "lengths" if lengths else "")
        nodes += _ending(end, len(self.layers), at)
        constants.append(constant("units", [0, -1], np.int64))
        return graph(nodes, inputs, [value("y", shape=["batch", 2])], constants)


def _add(nodes: list[Any], constants: list[Any], layer: Recurrent, number: int, at: str, lengths: str) -> str:
    parts = {f"w{number}": layer.w, f"r{number}": layer.r, f"b{number}": layer.b}
    constants += [constant(name, part) for name, part in parts.items()]
    inputs = [at, *parts, lengths]
    if layer.states:
        constants += [constant(f"h0{number}", layer.h0[:, 0]), constant(f"c0{number}", layer.c0[:, 0])]
        constants += [constant(f"p{number}", layer.peepholes), constant(f"one{number}", [1], np.int64)]
        nodes.append(node("Shape", [at], [f"shape{number}"], start=1, end=2))
        constants += [constant(f"d{number}", [layer.directions], np.int64)]
        constants += [constant(f"n{number}", [layer.units], np.int64)]
        nodes.append(node("Concat", [f"d{number}", f"shape{number}", f"n{number}"], [f"size{number}"], axis=0))
        for key in ("h0", "c0"):
            nodes.append(node("Unsqueeze", [f"{key}{number}", f"one{number}"], [f"{key}u{number}"]))
            nodes.append(node("Expand", [f"{key}u{number}", f"size{number}"], [f"{key}e{number}"]))
        inputs += [f"h0e{number}", *([f"c0e{number}", f"p{number}"] if layer.operator == "LSTM" else [])]
    more = {"linear_before_reset": 1} if layer.operator == "GRU" else {}
    direction = "bidirectional" if layer.directions == 2 else "forward"
    outputs = [f"Y{number}", f"H{number}"]
    nodes.append(node(layer.operator, inputs, outputs, hidden_size=layer.units, direction=direction, **more))
    # (steps, directions, batch, units) to (steps, batch, units of both)
    constants.append(constant(f"flat{number}", [0, 0, -1], np.int64))
    nodes.append(node("Transpose", [f"Y{number}"], [f"Yt{number}"], perm=[0, 2, 1, 3]))
    nodes.append(node("Reshape", [f"Yt{number}", f"flat{number}"], [f"Yr{number}"]))
    return f"Yr{number}"


def _ending(end: str, number: int, at: str) -> list[Any]:
    if end == "mean":
        return [node("ReduceMean", [at], ["h"], axes=[0], keepdims=0), node("MatMul", ["h", "v"], ["y"])]
    return [
        node("Transpose", [f"H{number}"], ["rows"], perm=[1, 0, 2]),
        node("Reshape", ["rows", "units"], ["h"]),
        node("MatMul", ["h", "v"], ["y"]),
    ]


def vectors(folder: Path, width: int, count: int = WORDS) -> tuple[Path, NDArray[np.float32]]:
    """A file of random vectors for the words w0, w1, ..., and the vectors."""
    table = np.random.default_rng(5).normal(0, 1, (count, width)).round(3).astype(np.float32)
    lines = [f"w{i} " + " ".join(f"{x:.3f}" for x in row) for i, row in enumerate(table)]
    path = folder / "vectors.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path, table


def text_spec(length: int, *, path: str = "network.onnx", model: dict[str, Any] | None = None, **feature: Any) -> Spec:
    """A spec about texts; `feature` has vectors or vocabulary."""
    text = {"name": "comment", "kind": "text", "length": length, **{k: str(v) for k, v in feature.items()}}
    group = category("word", "zero", "one", terms={"zero": ["w0"], "one": ["w1"]})
    asked = question(text, group, path=path, **(model or {}))
    asked["population"] = {"kind": "text", "path": "texts.txt", "as": "observed"}
    return parse_spec(asked)
