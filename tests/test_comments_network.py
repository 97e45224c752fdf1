"""Promises about the network that reads comments: it is small, says how good it is, and is the LSTM it claims to be."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from fairchain.examples import example, example_files

CELLS, WIDTH = 8, 50


@pytest.fixture(scope="module")
def network() -> Any:
    (path,) = [path for path in example_files("comments") if path.suffix == ".onnx"]
    return onnx.load(path)


def texts(count: int, steps: int) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, steps, count, endpoint=True).astype(np.int32)
    return {"vectors": rng.normal(0, 0.6, (count, steps, WIDTH)).astype(np.float32), "lengths": lengths}


def logits(network: Any, shown: dict[str, Any]) -> Any:
    session = onnxruntime.InferenceSession(network.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(["logits"], shown)[0]


def test_it_is_small_and_says_where_it_comes_from(network: Any) -> None:
    facts = {each.key: each.value for each in network.metadata_props}
    assert float(facts["held-out accuracy"]) >= 0.92
    assert float(facts["held-out area under the curve"]) >= 0.95
    assert facts["held-out comments"] == "31866"
    assert len(network.SerializeToString()) < 10_000
    assert network.ir_version <= 10
    assert "CC BY-SA 3.0" in network.doc_string


def test_it_reads_as_many_words_as_its_specs_say(network: Any) -> None:
    facts = {each.key: each.value for each in network.metadata_props}
    for name in ("comments-religion", "comments-race"):
        assert f"length = {facts['words']}\n" in example(name).read_text()


def test_what_stands_behind_a_text_does_not_matter(network: Any) -> None:
    shown = texts(32, 20)
    for vectors, length in zip(shown["vectors"], shown["lengths"], strict=True):
        vectors[length:] = 0
    longer = np.concatenate([shown["vectors"], np.ones((32, 7, WIDTH), np.float32)], axis=1)
    assert np.array_equal(logits(network, shown), logits(network, shown | {"vectors": longer}))


@pytest.mark.torch
def test_it_answers_as_the_same_lstm_in_torch(network: Any) -> None:
    import torch

    weights = {each.name: torch.from_numpy(numpy_helper.to_array(each).copy()) for each in network.graph.initializer}
    lstm = torch.nn.LSTM(WIDTH, CELLS, batch_first=True)

    def gates(stacked: Any) -> Any:
        put_in, put_out, forget, cell = stacked.chunk(4)
        return torch.cat([put_in, forget, cell, put_out])

    bias_in, bias_state = weights["lstm.B"][0].chunk(2)
    state = [weights["lstm.W"][0], weights["lstm.R"][0], bias_in, bias_state]
    with torch.no_grad():
        for parameter, value in zip(lstm.parameters(), state, strict=True):
            parameter.copy_(gates(value))
        shown = texts(200, 60)
        states, _ = lstm(torch.from_numpy(shown["vectors"]))
        last = states[torch.arange(200), torch.from_numpy(shown["lengths"]).long() - 1]
        meant = last @ weights["dense.weight"].T + weights["dense.bias"]
    assert np.abs(logits(network, shown) - meant.numpy()).max() < 1e-5
