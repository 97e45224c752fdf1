"""Small recurrent networks for tests, made by hand: one reads a series of 6 steps of 2 numbers, one reads texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fairchain.spec import Spec, parse_spec
from tests.networks import INT32, INT64, constant, graph, node, save, value
from tests.questions import category, integer, question, real

STEPS, CHANNELS, CELLS = 6, 2, 3


def series(folder: Path, *, varied: bool = True, direction: str = "forward", dense: bool = False) -> Spec:
    """A spec with its network: LSTM, then a linear layer, or with `dense` a layer of two units between.

    The second number of the first step is the protected feature; the last feature says how many steps are read.
    """
    rng = np.random.default_rng(5)
    both = 2 if direction == "bidirectional" else 1

    def numbers(*shape: int) -> np.ndarray:
        return rng.normal(0, 1.4, shape)

    nodes = [
        node("Slice", ["x", "zero", "width", "one"], ["flat"]),
        node("Reshape", ["flat", "shape"], ["rows"]),
        node("Transpose", ["rows"], ["steps"], perm=[1, 0, 2]),
        node("Slice", ["x", "width", "end", "one"], ["column"]),
        node("Reshape", ["column", "all"], ["count"]),
        node("Cast", ["count"], ["lengths"], to=6),
        node(
            "LSTM",
            ["steps", "w", "r", "b", "lengths" if varied else ""],
            ["", "last"],
            hidden_size=CELLS,
            direction=direction,
        ),
        node("Transpose", ["last"], ["turned"], perm=[1, 0, 2]),
        node("Reshape", ["turned", "cells"], ["hidden"]),
    ]
    out = "hidden"
    constants = [
        constant("zero", [0], np.int64),
        constant("width", [STEPS * CHANNELS], np.int64),
        constant("end", [STEPS * CHANNELS + 1], np.int64),
        constant("one", [1], np.int64),
        constant("all", [-1], np.int64),
        constant("shape", [-1, STEPS, CHANNELS], np.int64),
        constant("cells", [-1, CELLS * both], np.int64),
        constant("w", numbers(both, 4 * CELLS, CHANNELS)),
        constant("r", numbers(both, 4 * CELLS, CELLS)),
        constant("b", np.zeros((both, 8 * CELLS))),
    ]
    size = CELLS * both
    if dense:
        nodes += [node("MatMul", [out, "v"], ["sums"]), node("Relu", ["sums"], ["units"])]
        constants.append(constant("v", numbers(size, 2)))
        out, size = "units", 2
    nodes.append(node("MatMul", [out, "u"], ["y"]))
    constants.append(constant("u", numbers(size, 2)))
    network = graph(nodes, [value("x", shape=("N", STEPS * CHANNELS + 1))], [value("y")], constants)
    path = save(network, folder / f"series-{varied}-{direction}-{dense}.onnx")
    features = [real(f"x{place}", -1.0, 1.0) for place in range(STEPS * CHANNELS)]
    features[1] = category("sex", "Female", "Male")
    features.append(integer("count", 1, STEPS))
    return parse_spec(question(*features, protected=["sex"], path=str(path)))


def texts(folder: Path) -> Spec:
    """A spec about short texts that mention one of two groups, and a GRU that reads numbers of words."""
    rng = np.random.default_rng(6)
    words = ["<pad>", "cats", "dogs", "are", "good", "bad", "and", "so", "very", "not"]
    (folder / "words.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    lines = [
        " ".join([str(who), "are", *rng.choice(words[4:], rng.integers(1, 6))])
        for who in rng.choice(["cats", "dogs"], 200)
    ]
    (folder / "texts.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    nodes = [
        node("Gather", ["table", "x"], ["rows"]),
        node("Transpose", ["rows"], ["steps"], perm=[1, 0, 2]),
        node("GRU", ["steps", "w", "r", "b", "lengths"], ["", "last"], hidden_size=CELLS),
        node("Squeeze", ["last", "zero"], ["hidden"]),
        node("MatMul", ["hidden", "u"], ["y"]),
    ]
    constants = [
        constant("zero", [0], np.int64),
        constant("table", rng.normal(0, 1, (len(words), CHANNELS))),
        constant("w", rng.normal(0, 1, (1, 3 * CELLS, CHANNELS))),
        constant("r", rng.normal(0, 1, (1, 3 * CELLS, CELLS))),
        constant("b", np.zeros((1, 6 * CELLS))),
        constant("u", rng.normal(0, 1, (CELLS, 2))),
    ]
    inputs = [value("x", INT64, ("N", "T")), value("lengths", INT32, ("N",))]
    path = save(graph(nodes, inputs, [value("y")], constants), folder / "texts.onnx")
    return parse_spec(
        {
            "model": {"path": str(path), "labels": ["fine", "toxic"]},
            "feature": [
                {"name": "comment", "kind": "text", "length": 6, "vocabulary": str(folder / "words.txt")},
                {**category("animal", "cat", "dog"), "terms": {"cat": ["cats"], "dog": ["dogs"]}},
            ],
            "population": {"kind": "text", "path": str(folder / "texts.txt"), "as": "observed"},
            "property": {"kind": "difference", "protected": ["animal"], "threshold": 0.1},
            "guarantee": {"delta": 0.001},
        }
    )
