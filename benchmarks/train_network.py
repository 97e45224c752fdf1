"""Trains one example network and writes it as ONNX.

The network is a stack of dense layers n-64-32-16-8-4-2 with ReLU between them and logits at the end. It is
trained on standardised inputs; the standardisation is then folded into the first layer, so that the file
takes the encoded integers as they are. One thread, fixed seeds: the same machine gives the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from fairchain.datasets.tables import Encoded

HIDDEN = (64, 32, 16, 8, 4)

FloatArray = NDArray[np.float32]
Layers = tuple[tuple[FloatArray, FloatArray], ...]


@dataclass(frozen=True)
class Recipe:
    """How to train on one data set; `validation` is the share of the rows that decides when to stop."""

    batch: int
    epochs: int
    patience: int
    validation: float
    rate: float = 1e-3
    decay: float = 1e-4


@dataclass(frozen=True)
class Trained:
    """A trained network in its final form, and the rows it was fitted and stopped on."""

    seed: int
    epoch: int
    layers: Layers
    fitted: NDArray[np.int64]
    validated: NDArray[np.int64]
    reference: FloatArray


def train(data: Encoded, recipe: Recipe, seed: int) -> Trained:
    """Fit on part of the training rows and keep the epoch with the smallest loss on the other part."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(seed)
    rows = np.random.default_rng(seed).permutation(np.flatnonzero(~data.split))
    cut = round(recipe.validation * len(rows))
    validated, fitted = rows[:cut], rows[cut:]
    centre, scale = _standard(data.x[fitted])
    inputs = torch.from_numpy(((data.x - centre) / scale).astype(np.float32))
    targets = torch.from_numpy(data.y)
    network = _dense((data.x.shape[1], *HIDDEN, len(data.labels)))
    fit, stop = (_Part(inputs[chosen], targets[chosen]) for chosen in (fitted, validated))
    epoch = _fit(network, fit, stop, recipe)
    with torch.no_grad():
        reference = network(inputs).numpy()
    return Trained(seed, epoch, _fold(network, centre, scale), fitted, validated, reference)


def _standard(x: FloatArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    exact = x.astype(np.float64)
    spread = exact.std(axis=0)
    return exact.mean(axis=0), np.where(spread > 0, spread, 1.0)


def _dense(widths: tuple[int, ...]) -> torch.nn.Sequential:
    parts: list[torch.nn.Module] = []
    for wide, narrow in pairwise(widths):
        parts += [torch.nn.Linear(wide, narrow), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts[:-1])


@dataclass(frozen=True)
class _Part:
    x: torch.Tensor
    y: torch.Tensor


def _fit(network: torch.nn.Sequential, fitted: _Part, validated: _Part, recipe: Recipe) -> int:
    loss = torch.nn.functional.cross_entropy
    optimiser = torch.optim.AdamW(network.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    best_loss, best_epoch, best_state = np.inf, 0, _copy(network)
    for epoch in range(1, recipe.epochs + 1):
        for batch in torch.split(torch.randperm(len(fitted.x)), recipe.batch):
            optimiser.zero_grad()
            torch.autograd.backward(loss(network(fitted.x[batch]), fitted.y[batch]))
            optimiser.step()
        with torch.no_grad():
            now = float(loss(network(validated.x), validated.y))
        if now < best_loss:
            best_loss, best_epoch, best_state = now, epoch, _copy(network)
        elif epoch - best_epoch >= recipe.patience:
            break
    network.load_state_dict(best_state)
    return best_epoch


def _copy(network: torch.nn.Sequential) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


def _fold(network: torch.nn.Sequential, centre: NDArray[np.float64], scale: NDArray[np.float64]) -> Layers:
    """W ((x - centre) / scale) + b = (W / scale) x + (b - W (centre / scale)), in double until the end."""
    dense = [part for part in network if isinstance(part, torch.nn.Linear)]
    pairs = [
        (part.weight.detach().double().numpy().copy(), part.bias.detach().double().numpy().copy()) for part in dense
    ]
    weight, bias = pairs[0]
    pairs[0] = (weight / scale, bias - weight @ (centre / scale))
    return tuple((w.astype(np.float32), b.astype(np.float32)) for w, b in pairs)


def to_onnx(layers: Layers, name: str, doc: str) -> bytes:
    """The network as an ONNX file: Gemm and Relu nodes from `input` to `logits`."""
    nodes, weights = _graph_parts(layers)
    first, last = layers[0][0].shape[1], layers[-1][0].shape[0]
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", first])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", last])],
        initializer=weights,
    )
    model = helper.make_model(
        graph,
        producer_name="fairchain",
        doc_string=doc,
        ir_version=8,
        opset_imports=[helper.make_opsetid("", 17)],
    )
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _graph_parts(layers: Layers) -> tuple[list[Any], list[Any]]:
    nodes, weights = [], []
    flowing = "input"
    for number, (weight, bias) in enumerate(layers, 1):
        last = number == len(layers)
        out = "logits" if last else f"dense{number}"
        names = [f"dense{number}.weight", f"dense{number}.bias"]
        weights += [numpy_helper.from_array(weight, names[0]), numpy_helper.from_array(bias, names[1])]
        nodes.append(helper.make_node("Gemm", [flowing, *names], [out], name=f"gemm{number}", transB=1))
        flowing = out
        if not last:
            flowing = f"relu{number}"
            nodes.append(helper.make_node("Relu", [out], [flowing], name=flowing))
    return nodes, weights
