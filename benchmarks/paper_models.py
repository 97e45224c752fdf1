"""The networks of the paper's tables, for comparison: read from a folder that the caller has, never shipped.

The folder holds `census_model.npz`, `credit_model.npz`, `bank_model.npz` (keys W0, b0, W1, b1, ...; each W is
(inputs, outputs); ReLU between the layers, the larger of the two last values is the class) and `spaces.json` (for
each: its features with their integer ranges, both ends included, its classes and its protected features).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from fairchain.spec import Spec, parse_spec

# Largest difference of P(Y=1) between two groups under uniform inputs, from 400,000 to 2,000,000 samples each.
KNOWN_GAPS = {
    ("census", "race"): 0.055,
    ("census", "age"): 0.057,
    ("census", "sex"): 0.026,
    ("credit", "age"): 0.170,
    ("credit", "sex"): 0.030,
    ("bank", "age"): 0.010,
}
KNOWN_WITHIN = 0.002

# Network evaluations of a plain prototype of the betting rule at delta 1e-6, threshold 0.1 (mean of 20 seeds).
PROTOTYPE_EVALUATIONS = {
    ("census", "race"): 9517,
    ("census", "age"): 18060,
    ("census", "sex"): 1036,
    ("credit", "age"): 15104,
    ("credit", "sex"): 1557,
    ("bank", "age"): 3978,
}

Layers = list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]


def paper_specs(folder: Path, out: Path, threshold: float, delta: float) -> dict[tuple[str, str], Spec]:
    """Write each network as ONNX into `out`, and return the spec of every case in the paper's tables."""
    spaces = json.loads((folder / "spaces.json").read_text(encoding="utf-8"))
    specs = {}
    for name, protected in KNOWN_GAPS:
        path = out / f"{name}.onnx"
        if not path.exists():
            path.write_bytes(dense_network(read_layers(folder / f"{name}_model.npz")))
        specs[name, protected] = spec_of(path, spaces[name], protected, threshold, delta)
    return specs


def read_layers(path: Path) -> Layers:
    """Return weights and biases from the first layer to the last."""
    with np.load(path, allow_pickle=False) as arrays:
        count = sum(key.startswith("W") for key in arrays.files)
        return [(arrays[f"W{i}"].astype(np.float32), arrays[f"b{i}"].astype(np.float32)) for i in range(count)]


def dense_network(layers: Layers) -> bytes:
    """Return dense layers with ReLU between them as the content of an ONNX file."""
    nodes, weights, last = [], [], "input"
    for i, (weight, bias) in enumerate(layers):
        weights += [numpy_helper.from_array(weight, f"W{i}"), numpy_helper.from_array(bias, f"b{i}")]
        name = "logits" if i == len(layers) - 1 else f"dense{i}"
        nodes.append(helper.make_node("Gemm", [last, f"W{i}", f"b{i}"], [name]))
        last = name
        if name != "logits":
            last = f"relu{i}"
            nodes.append(helper.make_node("Relu", [name], [last]))
    inputs = helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", layers[0][0].shape[0]])
    outputs = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", layers[-1][0].shape[1]])
    graph = helper.make_graph(nodes, "dense", [inputs], [outputs], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def spec_of(path: Path, space: dict[str, Any], protected: str, threshold: float, delta: float) -> Spec:
    """Return the spec of a network and a protected feature."""
    features = [
        {"name": each["name"], "kind": "integer", "low": each["low"], "high": each["high"]}
        for each in space["features"]
    ]
    return parse_spec(
        {
            "model": {"path": str(path), "labels": space["classes"]},
            "feature": features,
            "property": {"kind": "difference", "protected": [protected], "threshold": threshold},
            "guarantee": {"delta": delta},
        }
    )
