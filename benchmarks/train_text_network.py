"""Trains the example network that reads comments, and writes it as ONNX.

One LSTM layer of 8 cells over the word vectors of a comment, its last hidden state, and a dense layer to two logits.
The vectors stay outside the network. One thread, fixed seeds: the same machine gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

CELLS = 8

FloatArray = NDArray[np.float32]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Recipe:
    """How to train; the rate rises to `rate` and falls again over all steps."""

    epochs: int = 10
    batch: int = 256
    rate: float = 0.02
    clip: float = 1.0


@dataclass(frozen=True)
class Comments:
    """Comments as numbers of words, 0 behind the last; the vectors by number; 1 for the label; the split of each."""

    ids: NDArray[np.int32]
    table: FloatArray
    labels: NDArray[np.int64]
    split: NDArray[np.str_]

    @property
    def lengths(self) -> Rows:
        """The words of each comment; one without any known word is read as one word of zeros."""
        lengths: Rows = np.maximum((self.ids > 0).sum(axis=1), 1)
        return lengths

    def rows(self, split: str) -> Rows:
        """The comments of a split."""
        return np.flatnonzero(self.split == split)


class Reader(torch.nn.Module):  # type: ignore[misc, unused-ignore]  # Any where torch is not installed
    """The network."""

    def __init__(self, width: int, labels: int) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(width, CELLS, batch_first=True)
        self.dense = torch.nn.Linear(CELLS, labels)
        with torch.no_grad():
            # An LSTM that forgets nothing at first learns from the whole text.
            dict(self.lstm.named_parameters())["bias_ih_l0"][CELLS : 2 * CELLS] = 1.0

    def forward(self, vectors: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """The logits of texts that end after `lengths` words."""
        states, _ = self.lstm(vectors)
        logits: torch.Tensor = self.dense(states[torch.arange(len(states)), lengths - 1])
        return logits


def train(data: Comments, recipe: Recipe, seed: int) -> Reader:
    """Fit on the training split, for a fixed number of epochs."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    network = Reader(data.table.shape[1], 2)
    fitted, lengths = data.rows("train"), data.lengths
    steps = recipe.epochs * -(-len(fitted) // recipe.batch)
    optimiser = torch.optim.Adam(network.parameters(), lr=recipe.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, recipe.rate, total_steps=steps)
    for epoch in range(1, recipe.epochs + 1):
        total = 0.0
        for batch in _batches(fitted, lengths, recipe.batch, rng):
            optimiser.zero_grad()
            logits = network(*_shown(data, lengths, batch))
            loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(data.labels[batch]))
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(network.parameters(), recipe.clip)
            optimiser.step()
            schedule.step()
            total += float(loss.detach()) * len(batch)
        print(f"epoch {epoch}: loss {total / len(fitted):.4f}", flush=True)
    return network


def _batches(rows: Rows, lengths: Rows, size: int, rng: np.random.Generator) -> Iterator[Rows]:
    """Texts of about the same length together, so that little is computed on padding; in random order."""
    order = rows[np.argsort(lengths[rows] + 4 * rng.random(len(rows)))]
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    for place in rng.permutation(len(batches)):
        yield batches[place]


def _shown(data: Comments, lengths: Rows, rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
    longest = int(lengths[rows].max())
    return torch.from_numpy(data.table[data.ids[rows, :longest]]), torch.from_numpy(lengths[rows])


def torch_logits(network: Reader, data: Comments, rows: Rows, batch: int = 1024) -> FloatArray:
    """What the trained network answers to some comments."""
    lengths = data.lengths
    with torch.no_grad():
        parts = [network(*_shown(data, lengths, rows[at : at + batch])) for at in range(0, len(rows), batch)]
    logits: FloatArray = torch.cat(parts).numpy()
    return logits


def to_onnx(network: Reader, doc: str, facts: dict[str, str]) -> bytes:
    """The network as an ONNX file: from `vectors` (batch, time, width) and `lengths` (batch,) to `logits`."""
    width, labels = network.lstm.input_size, network.dense.out_features
    graph = helper.make_graph(
        [
            helper.make_node("Transpose", ["vectors"], ["by_time"], perm=[1, 0, 2], name="by_time"),
            helper.make_node(
                "LSTM",
                ["by_time", "lstm.W", "lstm.R", "lstm.B", "lengths"],
                ["lstm.states", "lstm.last"],
                name="lstm",
                hidden_size=CELLS,
            ),
            helper.make_node("Squeeze", ["lstm.last", "first_axis"], ["last"], name="last"),
            helper.make_node("Gemm", ["last", "dense.weight", "dense.bias"], ["logits"], name="dense", transB=1),
        ],
        "comments",
        [
            helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", "time", width]),
            helper.make_tensor_value_info("lengths", TensorProto.INT32, ["batch"]),
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", labels])],
        initializer=[numpy_helper.from_array(value, name) for name, value in _weights(network).items()],
    )
    model = helper.make_model(
        graph,
        producer_name="fairchain",
        doc_string=doc,
        ir_version=8,
        opset_imports=[helper.make_opsetid("", 17)],
    )
    helper.set_model_props(model, facts)
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _weights(network: Reader) -> dict[str, NDArray[np.generic]]:
    lstm = network.lstm
    given = {name: value.detach().numpy() for name, value in lstm.named_parameters()}
    return {
        "lstm.W": _gates(given["weight_ih_l0"])[None],
        "lstm.R": _gates(given["weight_hh_l0"])[None],
        "lstm.B": np.concatenate([_gates(given["bias_ih_l0"]), _gates(given["bias_hh_l0"])])[None],
        "first_axis": np.array([0], dtype=np.int64),
        "dense.weight": network.dense.weight.detach().numpy(),
        "dense.bias": network.dense.bias.detach().numpy(),
    }


def _gates(stacked: NDArray[np.float32]) -> NDArray[np.float32]:
    """The gates in the order of ONNX: torch stacks input, forget, cell, output; ONNX input, output, forget, cell."""
    put_in, forget, cell, put_out = np.split(stacked, 4)
    return np.concatenate([put_in, put_out, forget, cell])
