"""Networks as torch exports them, by both of its exporters; and the recipe of the example networks."""

from __future__ import annotations

import importlib.util
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain import Decision, OnnxModel, verify
from fairchain.populations import UniformPopulation
from tests.questions import category, integer, real, spec

pytestmark = pytest.mark.torch


@pytest.fixture
def torch() -> Any:
    if importlib.util.find_spec("torch") is None and not os.environ.get("FAIRCHAIN_NO_SKIP"):
        pytest.skip("torch is not installed: make test-all runs this")
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    return torch


def export(torch: Any, network: Any, path: Path, width: int, dynamo: bool) -> None:
    example = torch.zeros(2, width)
    if dynamo:
        torch.onnx.export(
            network, (example,), path, dynamo=True, external_data=False, verbose=False,
            dynamic_shapes=({0: torch.export.Dim("batch")},),
        )  # fmt: skip
    else:
        buffer = io.BytesIO()
        torch.onnx.export(
            network, (example,), buffer, dynamo=False, input_names=["x"], output_names=["y"],
            dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}},
        )  # fmt: skip
        path.write_bytes(buffer.getvalue())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamo", [False, True], ids=["legacy", "dynamo"])
@pytest.mark.parametrize("head", ["logits", "softmax", "sigmoid"])
def test_an_exported_network_decides_as_torch_does(torch: Any, tmp_path: Path, head: str, dynamo: bool) -> None:
    nn = torch.nn
    columns = 1 if head == "sigmoid" else 3
    last: list[Any] = {"logits": [], "softmax": [nn.Softmax(dim=1)], "sigmoid": [nn.Sigmoid()]}[head]
    network = nn.Sequential(nn.Linear(3, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, columns), *last).eval()
    path = tmp_path / "network.onnx"
    export(torch, network, path, 3, dynamo)
    labels = ["no", "yes"] if columns == 1 else ["a", "b", "c"]
    asked = spec(integer("age", 0, 9), real("score", -1, 1), category("sex", "F", "M"), labels=labels)
    model = OnnxModel(path, asked)
    rows = UniformPopulation(asked, dtype=model.dtype).rounds(0, 0, 500).inputs([0, 1])
    with torch.no_grad():
        answer = network(torch.from_numpy(rows)).numpy()
    expected = answer[:, 0] > 0.5 if columns == 1 else answer.argmax(axis=1)
    assert np.array_equal(model.predict(rows), expected)
    assert verify(model, asked).decision in Decision


@pytest.mark.network
def test_training_the_credit_network_again_gives_the_one_that_ships(torch: Any, tmp_path: Path) -> None:
    """Byte for byte on one machine; elsewhere sums may round differently, so nearly all decisions must agree."""
    import onnxruntime as ort

    from benchmarks.train import RECIPES
    from benchmarks.train_network import to_onnx, train
    from fairchain import example
    from fairchain.datasets.tables import encode

    data = encode("credit", tmp_path)
    content = to_onnx(train(data, RECIPES["credit"], 0).layers, "credit", "")
    answers = []
    for network in (content, example("credit").with_suffix(".onnx").read_bytes()):
        session = ort.InferenceSession(network, providers=["CPUExecutionProvider"])
        answers.append(session.run(None, {"input": data.x})[0].argmax(axis=1))
    assert (answers[0] == answers[1]).mean() > 0.98
    held_out = data.split
    assert (answers[0][held_out] == data.y[held_out]).mean() > 0.75
