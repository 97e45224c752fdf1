"""Promises of `adapters.from_torch`: a module decides here as it does in inference mode; weights run no code."""

from __future__ import annotations

import importlib.util
import os
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fairchain.errors import ModelError
from fairchain.models import Limits, OnnxModel, load_model, to_onnx
from fairchain.models.adapters.converting import NOT_CONVERTED
from fairchain.models.adapters.from_torch import PARAMETERS_DO_NOT_FIT
from fairchain.models.base import random_inputs
from tests.messages import says
from tests.questions import category, integer, real, spec

pytestmark = pytest.mark.torch
FEATURES = [integer("age", 0, 9), real("score", -1, 1), category("sex", "F", "M")]


@pytest.fixture
def torch() -> Any:
    if importlib.util.find_spec("torch") is None and not os.environ.get("FAIRCHAIN_NO_SKIP"):
        pytest.skip("torch is not installed: make test-all runs this")
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    return torch


def rows(count: int = 1000) -> Any:
    return random_inputs(spec(*FEATURES).features, count, seed=3).astype(np.float32)


def centred(torch: Any, module: Any, end: Any) -> Any:
    """Move the bias of a layer so that every label is somebody's."""
    seen: list[Any] = []
    hook = end.register_forward_hook(lambda *call: seen.append(call[2]))
    scores(torch, module, rows())
    hook.remove()
    with torch.no_grad():
        end.bias -= seen[0].median(dim=0).values + 0.001  # nobody stands on the boundary
    return module


def dense(torch: Any, columns: int = 2, *last: Any) -> Any:
    nn = torch.nn
    made = nn.Sequential(
        nn.Linear(3, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, columns), *last
    )
    return centred(torch, made, made[4])


def sequence(torch: Any) -> Any:
    class Reads(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.cells = torch.nn.LSTM(1, 4, batch_first=True)
            self.end = torch.nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            return self.end(self.cells(x.unsqueeze(2))[0][:, -1])

    made = Reads()
    return centred(torch, made, made.end)


def scores(torch: Any, module: Any, x: Any) -> Any:
    module.eval()
    with torch.no_grad():
        return module(torch.as_tensor(x, dtype=next(module.parameters()).dtype)).numpy()


@pytest.mark.parametrize("kind", ["logits", "softmax", "sigmoid", "column", "flat", "double", "lstm"])
def test_a_module_decides_as_torch_does(torch: Any, kind: str) -> None:
    model: dict[str, Any] = {}
    made = {
        "logits": lambda: dense(torch),
        "softmax": lambda: dense(torch, 3, torch.nn.Softmax(dim=1)),
        "sigmoid": lambda: dense(torch, 1, torch.nn.Sigmoid()),
        "column": lambda: dense(torch, 1),
        "flat": lambda: dense(torch, 1, torch.nn.Flatten(0)),
        "double": lambda: dense(torch).double(),
        "lstm": lambda: sequence(torch),
    }
    if kind in ("column", "flat"):
        model["decision"] = "logit"
    if kind == "softmax":
        model["labels"] = ["a", "b", "c"]
    module = made[kind]()
    module.train()
    question = spec(*FEATURES, **model)
    loaded = load_model(module, question)
    assert loaded.certifiable, loaded.note
    assert module.training
    assert loaded.dtype == (np.float64 if kind == "double" else np.float32)
    answer = scores(torch, module, rows())
    if kind in ("sigmoid", "column", "flat"):
        expected = answer.reshape(-1) > (0.5 if kind == "sigmoid" else 0)
    else:
        expected = answer.argmax(axis=1)
    assert loaded.predict(rows()).tolist() == expected.tolist()
    assert len(set(expected.tolist())) > 1


def test_each_part_of_a_module_keeps_its_mode(torch: Any) -> None:
    module = dense(torch)
    module.train()
    module[1].eval()
    load_model(module, spec(*FEATURES))
    assert [part.training for part in module] == [True, False, True, True, True]


def test_the_spec_s_preprocessing_comes_before_the_module(torch: Any) -> None:
    features = [integer("age", 0, 90, step=10), category("sex", "F", "M", one_hot=True)]
    module = torch.nn.Sequential(torch.nn.Linear(3, 2))
    people = random_inputs(spec(*features).features, 200)
    shown = np.column_stack([np.floor(people[:, 0] / 10), people[:, 1] == 0, people[:, 1] == 1])
    expected = scores(torch, module, shown).argmax(axis=1)
    assert load_model(module, spec(*features)).predict(people).tolist() == expected.tolist()


def test_the_exported_network_can_be_saved_and_is_the_same(torch: Any, tmp_path: Path) -> None:
    module, question = dense(torch), spec(*FEATURES)
    saved = tmp_path / "module.onnx"
    saved.write_bytes(to_onnx(module, question))
    assert OnnxModel(saved, question).sha256 == load_model(module, question).sha256
    assert str(Path(__file__).parent).encode() not in saved.read_bytes()


def test_what_tracing_cannot_do_the_newer_exporter_does(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    export = torch.onnx.export

    def fails_to_trace(*arguments: Any, dynamo: bool, **more: Any) -> Any:
        if not dynamo:
            raise RuntimeError("no such operator")
        return export(*arguments, dynamo=dynamo, **more)

    monkeypatch.setattr(torch.onnx, "export", fails_to_trace)
    module, question = dense(torch), spec(*FEATURES)
    loaded = load_model(module, question)
    assert loaded.certifiable, loaded.note
    assert loaded.predict(rows()).tolist() == scores(torch, module, rows()).argmax(axis=1).tolist()
    assert str(Path(__file__).parent).encode() not in to_onnx(module, question)


def test_a_branch_that_an_export_would_freeze_is_noticed(torch: Any) -> None:
    """The exported network would follow the example's branch for everybody."""

    class Branches(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.end = torch.nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            parts = [self.end(row) if row[0] > 4 else -self.end(row) for row in x]
            return torch.stack(parts)

    module = Branches()
    loaded = load_model(module, spec(*FEATURES))
    assert not loaded.certifiable
    assert "evaluated in Python, without a certificate" in loaded.note
    assert loaded.predict(rows(50)).tolist() == scores(torch, module, rows(50)).argmax(axis=1).tolist()
    with pytest.raises(ModelError, match=says(NOT_CONVERTED, name="torch module Branches")):
        to_onnx(module, spec(*FEATURES))


def refused(source: Any, **more: Any) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(source, spec(*FEATURES), **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_modules_that_do_not_fit_are_refused(torch: Any) -> None:
    assert 'decision = "logit"' in refused(dense(torch, 1))
    assert "3 columns and the spec names 2 labels" in refused(dense(torch, 3))
    assert 'decision = "argmax"' in refused(dense(torch, 2, torch.nn.Sigmoid()))
    message = refused(torch.nn.Linear(5, 2))
    assert message.startswith("torch module Linear: failed on an array of shape (3, 3)")
    assert "is a class" in refused(torch.nn.Linear)
    noisy = torch.nn.Sequential(torch.nn.Linear(3, 2))
    noisy.register_forward_hook(lambda *call: call[2] + torch.rand_like(call[2]))
    assert "non-deterministic" in refused(noisy)


def test_a_module_that_returns_more_than_its_scores_is_refused(torch: Any) -> None:
    message = refused(torch.nn.LSTM(3, 2))
    assert "returns a tuple; wrap it" in message


def save_state(torch: Any, path: Path, module: Any) -> Path:
    torch.save(module.state_dict(), path)
    return path


def test_a_state_dict_is_loaded_into_its_module(torch: Any, tmp_path: Path) -> None:
    from fairchain.models.adapters.from_torch import load_state

    trained, fresh = dense(torch), dense(torch)
    path = save_state(torch, tmp_path / "state.pt", trained)
    before = scores(torch, fresh, rows())
    loaded = load_model(fresh, spec(*FEATURES), weights=path)
    expected = scores(torch, trained, rows())
    assert loaded.predict(rows()).tolist() == expected.argmax(axis=1).tolist()
    assert np.array_equal(scores(torch, fresh, rows()), before), "the caller's module is not changed"
    assert np.array_equal(scores(torch, load_state(fresh, path), rows()), expected)


def test_python_code_names_a_module_a_class_or_a_function_that_makes_one(
    torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_network", raising=False)
    code = """
import torch
class Net(torch.nn.Sequential):
    def __init__(self, width=4):
        super().__init__(torch.nn.Linear(3, width), torch.nn.ReLU(), torch.nn.Linear(width, 2))
def make():
    return Net()
net = Net()
def wants_more(width):
    return Net(width)
"""
    (tmp_path / "my_network.py").write_text(code)
    assert load_model("python:my_network:net", spec(*FEATURES), allow_python=True).certifiable
    trained = sys.modules["my_network"].Net()
    path = save_state(torch, tmp_path / "state.pt", trained)
    expected = scores(torch, trained, rows()).argmax(axis=1).tolist()
    for name in ("Net", "make", "net"):
        loaded = load_model(f"python:my_network:{name}", spec(*FEATURES), allow_python=True, weights=path)
        assert loaded.predict(rows()).tolist() == expected
    message = refused("python:my_network:wants_more", allow_python=True, weights=path)
    assert "must return the module of the weights" in message


def test_states_that_are_none_are_refused_and_run_nothing(torch: Any, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "pwned",))

    module = dense(torch)
    path = tmp_path / "state.pt"
    contents: list[tuple[Any, str]] = [
        (lambda: torch.save(Evil(), path), "without running code"),
        (lambda: path.write_bytes(pickle.dumps(Evil())), "without running code"),
        (lambda: path.write_bytes(b"PK\x03\x04 not a zip"), "not a state dict"),
        (lambda: path.write_bytes(b""), "the file is empty"),
        (lambda: torch.save({"state": module.state_dict(), "epoch": 3}, path), "contains more than tensors"),
        (lambda: torch.save(module.state_dict()["0.weight"], path), "contains more than tensors"),
        (lambda: save_state(torch, path, torch.nn.Linear(3, 2)), "is not the state of Sequential"),
        (lambda: save_state(torch, path, dense(torch, 3)), "is not the state of Sequential: "),
        (path.unlink, "file not found"),
    ]
    for write, word in contents:
        write()
        message = refused(module, weights=path)
        assert word in message
        assert message.startswith(str(path))
    assert not (tmp_path / "pwned").exists()
    save_state(torch, path, module)
    assert "limit of 10 bytes" in refused(module, weights=path, limits=Limits(file_bytes=10))


def test_a_torch_that_is_not_safe_is_refused(torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    assert "update torch" in refused(dense(torch), weights=tmp_path / "state.pt")


# ---- several inputs, scripted and compiled modules ------------------------------------------------------------------


def mixed_module(torch: Any, flat: bool = False) -> Any:
    """An embedding of a category beside numbers; `flat` says that the category comes without an axis of its own."""

    class Mixed(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(3, 4)
            self.out = torch.nn.Linear(6, 2)

        def forward(self, kinds: Any, numbers: Any) -> Any:
            vectors = self.table(kinds if flat else kinds[:, 0])
            return self.out(torch.cat([vectors, numbers], dim=1))

    return Mixed()


MIXED = [
    real("score", -1, 1, input="numbers"),
    category("kind", "a", "b", "c", input="kinds"),
    real("rate", -1, 1, input="numbers"),
]


@pytest.mark.parametrize("flat", [False, True])
def test_parameters_of_forward_are_filled_by_the_features_that_name_them(torch: Any, flat: bool) -> None:
    module, question = mixed_module(torch, flat), spec(*MIXED, protected=["kind"])
    inputs = random_inputs(question.features, 200).astype(np.float32)
    kinds = torch.as_tensor(inputs[:, 1].astype(np.int64))
    with torch.no_grad():
        expected = module(kinds if flat else kinds[:, None], torch.as_tensor(inputs[:, [0, 2]])).argmax(1)
    loaded = load_model(module, question)
    assert isinstance(loaded, OnnxModel), loaded.note
    assert loaded.predict(inputs).tolist() == expected.tolist()
    assert 0 < expected.sum() < 200


def test_parameters_that_no_feature_names_are_told_with_the_remedy(torch: Any) -> None:
    with pytest.raises(ModelError, match=says(PARAMETERS_DO_NOT_FIT, value="kinds, numbers")):
        load_model(mixed_module(torch), spec(*FEATURES))


def test_a_scripted_module_is_a_module(torch: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(dense(torch).eval())
    loaded = load_model(scripted, spec(*FEATURES))
    assert loaded.predict(rows()).tolist() == scores(torch, scripted, rows()).argmax(1).tolist()
    assert isinstance(loaded, OnnxModel), loaded.note


def test_a_traced_module_with_several_inputs_is_filled_by_name(torch: Any) -> None:
    module = mixed_module(torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        traced = torch.jit.trace(module, (torch.zeros(2, 1, dtype=torch.int64), torch.zeros(2, 2)))
    question = spec(*MIXED, protected=["kind"])
    inputs = random_inputs(question.features, 100).astype(np.float32)
    same = load_model(module, question).predict(inputs).tolist()
    assert load_model(traced, question).predict(inputs).tolist() == same


def test_of_a_compiled_module_the_module_inside_is_taken(torch: Any) -> None:
    module = dense(torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch, in what it imports
        compiled = torch.compile(module)
    loaded = load_model(compiled, spec(*FEATURES))
    assert isinstance(loaded, OnnxModel), loaded.note
    assert loaded.predict(rows()).tolist() == scores(torch, module, rows()).argmax(1).tolist()


def test_rows_of_a_table_are_shown_to_the_module_itself(torch: Any) -> None:
    import fairchain
    from fairchain.spec import Table, revise

    module, question = dense(torch), spec(*FEATURES)
    table = msgspec.structs.replace(question, population=Table(reading="population"))
    inputs = rows(300)
    people = {"age": inputs[:, 0].astype(int).tolist(), "score": inputs[:, 1].tolist()}
    people["sex"] = ["FM"[int(sex)] for sex in inputs[:, 2]]
    chosen = np.asarray(scores(torch, module, inputs).argmax(1)) == 1
    rates = [chosen[inputs[:, 2] == sex].mean() for sex in (0, 1)]
    for certify in (False, True):
        verdict = fairchain.verify(module, revise(table, property__outcome="yes"), data=people, certify=certify)
        assert verdict.gap.estimate == pytest.approx(abs(rates[0] - rates[1]), abs=1e-12)
        assert verdict.certifiable is certify
