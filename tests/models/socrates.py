"""Networks in the SOCRATES format, and what they compute by the format's rules.

One step after the other, every step through all layers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True),
}
RANDOM = np.random.default_rng(11)


def numbers(*shape: int) -> list[Any]:
    found: list[Any] = RANDOM.normal(size=shape).tolist()
    return found


def linear(inputs: int, outputs: int, **more: Any) -> dict[str, Any]:
    return {"type": "linear", "weights": numbers(outputs, inputs), "bias": numbers(outputs), **more}


def lstm(inputs: int, size: int) -> dict[str, Any]:
    states = {"h0": numbers(size), "c0": numbers(size)}
    return {"type": "lstm", "weights": numbers(4 * size, inputs + size), "bias": numbers(4 * size), **states}


def gru(inputs: int, size: int) -> dict[str, Any]:
    return {
        "type": "gru",
        "gate_weights": numbers(2 * size, inputs + size),
        "gate_bias": numbers(2 * size),
        "candidate_weights": numbers(size, inputs + size),
        "candidate_bias": numbers(size),
        "h0": numbers(size),
    }


def rnn(inputs: int, size: int, **more: Any) -> dict[str, Any]:
    state = numbers(size)
    weights = (np.array(numbers(size, inputs + size)) / 3).tolist()
    return {"type": "rnn", "weights": weights, "bias": numbers(size), "h0": state, **more}


def function(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "func": name, **more}


class Reference:
    """One person through the layers, step by step, in doubles."""

    def __init__(self, layers: list[dict[str, Any]], shape: tuple[int, ...]) -> None:
        self.layers, self.shape = layers, shape
        self.states = [{key: np.array(layer[key]) for key in ("h0", "c0") if key in layer} for layer in layers]

    def __call__(self, person: Array) -> Array:
        for step in person.reshape(-1, *self.shape):
            x = step
            for layer, state in zip(self.layers, self.states, strict=True):
                x = self.apply(layer, state, x)
        return x.ravel()

    def apply(self, layer: dict[str, Any], state: dict[str, Array], x: Array) -> Array:
        part = {key: np.array(v) for key, v in layer.items() if key not in ("type", "func")}
        kind, squash = layer["type"], FUNCTIONS.get(layer.get("func", ""), lambda v: v)
        if kind == "linear":
            return squash(part["weights"] @ x + part["bias"])
        if kind == "rnn":
            state["h0"] = squash(part["weights"] @ np.concatenate([x, state["h0"]]) + part["bias"])
        elif kind == "lstm":
            i, j, f, o = np.split(part["weights"] @ np.concatenate([x, state["h0"]]) + part["bias"], 4)
            s = FUNCTIONS["sigmoid"]
            state["c0"] = state["c0"] * s(f) + s(i) * np.tanh(j)
            state["h0"] = s(o) * np.tanh(state["c0"])
        elif kind == "gru":
            gates = part["gate_weights"] @ np.concatenate([x, state["h0"]]) + part["gate_bias"]
            r, u = np.split(FUNCTIONS["sigmoid"](gates), 2)
            mixed = np.concatenate([x, r * state["h0"]])
            state["h0"] = (1 - u) * np.tanh(part["candidate_weights"] @ mixed + part["candidate_bias"]) + u * state[
                "h0"
            ]
        elif kind.startswith("conv") or kind.startswith("maxpool"):
            return self.window(part, x)
        elif layer["func"] == "reshape":
            return x.reshape(part["newshape"][1:])
        elif layer["func"] == "transpose":
            return x.transpose(part["axes"][1:] - 1)
        else:
            return squash(x)
        return state["h0"]

    def window(self, part: dict[str, Array], x: Array) -> Array:
        """Every place of a window that slides over the padded input, one by one."""
        padding, stride = int(part["padding"]), int(part["stride"])
        x = np.pad(x, [(0, 0)] + [(padding, padding)] * (x.ndim - 1))
        kernel = part["filters"].shape[2:] if "filters" in part else tuple(np.atleast_1d(part["kernel"]))
        places = [(size - width) // stride + 1 for size, width in zip(x.shape[1:], kernel, strict=True)]
        channels = len(part["filters"]) if "filters" in part else len(x)
        out = np.empty((channels, *places))
        for place in np.ndindex(*places):
            seen = x[(slice(None), *(slice(p * stride, p * stride + w) for p, w in zip(place, kernel, strict=True)))]
            if "filters" in part:
                value = (part["filters"] * seen).reshape(channels, -1).sum(axis=1) + part["bias"]
            else:
                value = seen.reshape(channels, -1).max(axis=1)
            out[(slice(None), *place)] = value
        return out


def write(folder: Path, layers: list[dict[str, Any]], shape: Any = "(1,2)") -> Path:
    path = folder / "network.json"
    path.write_text(json.dumps({"model": {"shape": shape, "layers": layers}, "assert": {}}))
    return path
