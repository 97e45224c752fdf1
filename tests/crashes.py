"""Small networks that pass every check of a file and crash onnxruntime, and a spec that names them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from onnx import ModelProto

from tests.networks import FLOAT, constant, graph, node, save, value


def division() -> ModelProto:
    """The smallest whole number divided by -1, which x86 processors answer with SIGFPE."""
    nodes = [
        node("Div", ["least", "minus"], ["d"]),
        node("Cast", ["d"], ["r"], to=FLOAT),
        node("Add", ["x", "r"], ["y"]),
    ]
    constants = [constant("least", [-(2**63)], np.int64), constant("minus", [-1], np.int64)]
    return graph(nodes, [value("x")], [value("y")], constants)


def split() -> ModelProto:
    """A Split that leaves out one of its outputs."""
    nodes = [node("Split", ["x"], ["a", ""], axis=1), node("Concat", ["a", "a"], ["y"], axis=1)]
    return graph(nodes, [value("x")], [value("y")])


def largest() -> ModelProto:
    """A Max that leaves out one of its inputs."""
    nodes = [node("Max", ["x", "", "zero"], ["y"])]
    return graph(nodes, [value("x")], [value("y")], [constant("zero", [0.0])])


CRASHES = {"division": (division, "SIGFPE"), "split": (split, "SIGSEGV"), "largest": (largest, "SIGSEGV")}


def write_question(folder: Path, model: ModelProto | None = None) -> Path:
    """A spec for a network of two inputs and two outputs, which lies beside it."""
    if model is not None:
        save(model, folder / "network.onnx")
    spec = {
        "model": {"path": "network.onnx", "labels": ["no", "yes"]},
        "feature": [
            {"name": "sex", "kind": "category", "values": ["f", "m"]},
            {"name": "x", "kind": "real", "low": 0, "high": 1},
        ],
        "property": {"kind": "difference", "protected": ["sex"], "threshold": 0.1},
    }
    path = folder / "spec.json"
    path.write_text(json.dumps(spec), encoding="utf-8")
    return path
