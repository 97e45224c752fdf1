"""Recurrent modules of torch: exported with their operators kept, and states that are torch's own."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain.errors import ModelError
from fairchain.models import OnnxModel, load_model
from fairchain.models.adapters.from_function import TEXTS_NOT_WORDS
from fairchain.models.adapters.from_torch import FORWARD_WITHOUT_LENGTHS
from fairchain.models.base import LOADED_FOR_ANOTHER_SPEC, random_inputs
from fairchain.models.inspect.recurrent import StepProbe, steps_of
from fairchain.spec import Spec
from tests.messages import says
from tests.questions import category, real, spec
from tests.sequences import text_spec, vectors

pytestmark = pytest.mark.torch
LENGTH, WIDTH, UNITS = 6, 3, 4


@pytest.fixture
def torch() -> Any:
    if importlib.util.find_spec("torch") is None and not os.environ.get("FAIRCHAIN_NO_SKIP"):
        pytest.skip("torch is not installed: make test-all runs this")
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    return torch


def module(
    torch: Any, kind: str, how: str, *, rows_first: bool = True, embedding: bool = False, both: bool = True
) -> Any:
    """Two layers and an answer from the final states; `how` says what is known of the lengths."""
    nn = torch.nn

    class Reads(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(30, WIDTH) if embedding else nn.Identity()
            self.recurrent = getattr(nn, kind)(WIDTH, UNITS, 2, batch_first=rows_first, bidirectional=both)
            self.answer = nn.Linear(UNITS * (1 + both), 2)

        def read(self, x: Any, lengths: Any = None) -> Any:
            read = self.words(x)
            if how in ("sorted", "unsorted"):
                read = nn.utils.rnn.pack_padded_sequence(
                    read, lengths.cpu(), batch_first=rows_first, enforce_sorted=how == "sorted"
                )
            return self.recurrent(read)

    class Plain(Reads):
        def forward(self, x: Any) -> Any:
            return final(self, self.read(x)[1])

    class Told(Reads):
        def forward(self, x: Any, lengths: Any) -> Any:
            return final(self, self.read(x, lengths)[1])

    def final(made: Any, state: Any) -> Any:
        state = state[0] if kind == "LSTM" else state
        return made.answer(torch.cat(list(state[-1 - both :]), dim=1))

    return (Plain if how == "plain" else Told)()


def hidden(torch: Any, made: Any, sequence: Any) -> Any:
    """torch's own states of the second layer after each step of one sequence."""
    with torch.no_grad():
        x = sequence[None] if made.recurrent.batch_first else sequence[:, None]
        return made.recurrent(x)[0].reshape(len(sequence), -1).numpy()


def cells(torch: Any, made: Any, sequence: Any, layer: int) -> Any:
    """Cell states after each step of a layer that reads forward: those at the end of every beginning."""
    recurrent = made.recurrent
    with torch.no_grad():
        ends = [
            recurrent(sequence[None, :n] if recurrent.batch_first else sequence[:n, None])[1][1]
            for n in range(1, len(sequence) + 1)
        ]
    return np.array([end[layer, 0].numpy() for end in ends])


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize(
    ("how", "rows_first", "both"),
    [
        ("plain", True, True),
        ("plain", False, False),
        ("sorted", True, False),
        ("unsorted", True, True),
        ("unsorted", False, True),
    ],
)
def test_states_are_those_of_torch(
    torch: Any, tmp_path: Path, kind: str, how: str, rows_first: bool, both: bool
) -> None:
    asked = text_spec(LENGTH, vectors=vectors(tmp_path, WIDTH)[0])
    made = module(torch, kind, how, rows_first=rows_first, both=both)
    model = load_model(made, asked)
    assert isinstance(model, OnnxModel), model.note
    layers = steps_of(model)
    assert [layer.name for layer in layers] == [f"{kind.lower()}1", f"{kind.lower()}2"]
    names = [layer.name for layer in layers] + [f"{layer.name}.cell" for layer in layers if layer.cells]
    probe = StepProbe(model, asked, names)
    table = np.concatenate([np.zeros((1, WIDTH), np.float32), vectors(tmp_path, WIDTH)[1]])
    ids = random_inputs(asked.described, 12)
    shown = probe(ids)
    for row, words in enumerate(ids):
        read = torch.tensor(table[words if how == "plain" else words[words > 0]])
        n = len(read)
        assert shown.lengths[row] == n
        assert shown.states[names[1]][row, :n] == pytest.approx(hidden(torch, made, read), abs=1e-5)
        if kind == "LSTM" and not both:
            for layer in range(2):
                assert shown.states[names[2 + layer]][row, :n] == pytest.approx(
                    cells(torch, made, read, layer), abs=1e-5
                )
        if kind == "LSTM" and both:
            with torch.no_grad():
                end = made.recurrent(read[None] if rows_first else read[:, None])[1][1][:, 0].numpy()
            for layer in range(2):
                state = shown.states[names[2 + layer]][row]
                assert state[n - 1, :UNITS] == pytest.approx(end[2 * layer], abs=1e-5)
                assert state[0, UNITS:] == pytest.approx(end[2 * layer + 1], abs=1e-5)


@pytest.mark.parametrize("how", ["plain", "sorted", "unsorted"])
def test_an_embedding_inside(torch: Any, tmp_path: Path, how: str) -> None:
    (tmp_path / "words.txt").write_text("\n".join(["<pad>", *(f"w{i}" for i in range(29))]), encoding="utf-8")
    asked = text_spec(LENGTH, vocabulary=tmp_path / "words.txt")
    made = module(torch, "LSTM", how, embedding=True)
    model = load_model(made, asked)
    assert isinstance(model, OnnxModel), model.note
    ids = random_inputs(asked.described, 300)
    with torch.no_grad():
        ordered = ids[np.argsort(-np.count_nonzero(ids, axis=1), kind="stable")]
        lengths = [] if how == "plain" else [torch.tensor(np.count_nonzero(ordered, axis=1))]
        answers = made(torch.tensor(np.maximum(ordered - 1, 0)), *lengths).numpy()
    assert model.predict(ordered).tolist() == answers.argmax(axis=1).tolist()


@pytest.mark.parametrize("rows_first", [False, True])
def test_a_series(torch: Any, rows_first: bool) -> None:
    steps = 5
    asked = spec(
        *(real(f"x{t}{i}", -2, 2) for t in range(steps) for i in range(WIDTH)),
        category("g", "a", "b", model_input=False),
    )
    made = module(torch, "GRU", "plain", rows_first=rows_first)
    model = load_model(made, asked)
    assert isinstance(model, OnnxModel), model.note
    people = random_inputs(asked.features, 200).astype(model.dtype)
    x = torch.tensor(people[:, : steps * WIDTH].astype(np.float32)).reshape(200, steps, WIDTH)
    with torch.no_grad():
        answers = made(x if rows_first else x.swapaxes(0, 1)).numpy()
    assert model.predict(people).tolist() == answers.argmax(axis=1).tolist()
    assert StepProbe(model, asked, ["gru1", "gru2"]).units == {"gru1": 2 * UNITS, "gru2": 2 * UNITS}


def mean_of(torch: Any, name: str) -> Any:
    """A module that averages the states of words, and takes a mask under this name."""

    class Averages(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.recurrent = torch.nn.GRU(WIDTH, UNITS, batch_first=True)
            self.answer = torch.nn.Linear(UNITS, 2)

        def read(self, x: Any, mask: Any) -> Any:
            states = self.recurrent(x)[0] * mask.unsqueeze(-1)
            return self.answer(states.sum(1) / mask.sum(1, keepdim=True))

    scope: dict[str, Any] = {}
    exec(f"def forward(self, x, {name}):\n    return self.read(x, {name})", scope)
    Averages.forward = scope["forward"]
    return Averages()


def test_a_mask_is_known_by_its_name_or_named(torch: Any, tmp_path: Path) -> None:
    path = vectors(tmp_path, WIDTH)[0]
    for name, feature in (("attention_mask", {}), ("seen", {"mask": "seen"})):
        model = load_model(mean_of(torch, name), text_spec(LENGTH, vectors=path, **feature))
        assert isinstance(model, OnnxModel), model.note
        assert [node.name for node in model.network.model.graph.input] == ["input", feature.get("mask", "mask")]
    with pytest.raises(ModelError, match=says(FORWARD_WITHOUT_LENGTHS, parameter_name="seen")):
        load_model(mean_of(torch, "seen"), text_spec(LENGTH, vectors=path))


def test_an_answer_that_depends_on_the_longest_text_is_refused(torch: Any, tmp_path: Path) -> None:
    class Mean(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.recurrent = torch.nn.GRU(WIDTH, UNITS, batch_first=True)
            self.answer = torch.nn.Linear(UNITS, 2)

        def forward(self, x: Any, lengths: Any) -> Any:
            rnn = torch.nn.utils.rnn
            packed = rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
            return self.answer(rnn.pad_packed_sequence(self.recurrent(packed)[0], batch_first=True)[0].mean(1))

    # It has no faithful conversion, and Python code gets texts as they are.
    with pytest.raises(ModelError, match=says(TEXTS_NOT_WORDS)):
        load_model(Mean(), text_spec(LENGTH, vectors=vectors(tmp_path, WIDTH)[0]))


def test_the_spec_is_what_a_module_is_loaded_with(torch: Any, tmp_path: Path) -> None:
    asked: Spec = text_spec(LENGTH, vectors=vectors(tmp_path, WIDTH)[0])
    model = load_model(module(torch, "LSTM", "unsorted"), asked)
    model.must_fit(asked)
    with pytest.raises(ModelError, match=says(LOADED_FOR_ANOTHER_SPEC)):
        model.must_fit(text_spec(LENGTH + 1, vectors=vectors(tmp_path, WIDTH)[0]))
