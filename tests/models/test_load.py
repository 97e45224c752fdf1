"""Promises of `model.load`: one front door for models of every kind, and what stays outside, with the reason."""

from __future__ import annotations

import hashlib
import pickle
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from fairchain.errors import ModelError
from fairchain.models import Limits, OnnxModel, load_model, to_onnx
from fairchain.models.adapters.from_transformers import Transformer
from fairchain.models.base import LOADED_FOR_ANOTHER_SPEC
from fairchain.models.frames import as_frames
from fairchain.models.load import MODEL_FORMATS, NOT_A_MODEL, read_model
from fairchain.models.onnx.decision import COLUMNS_AND_LABELS_DIFFER
from tests.child import run_child
from tests.messages import says
from tests.networks import constant, linear, node, save
from tests.questions import category, integer, spec

NETWORK = linear([[0.0, 1.0], [0.0, -1.0]], [4.5, 0])
ROWS = np.array([[age, sex] for age in range(10) for sex in (0, 1)], np.float32)
OLDER = (ROWS[:, 0] - ROWS[:, 1] > 4.5).tolist()


def refused(source: Any, **more: Any) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(source, spec(), **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_onnx_file_a_path_bytes_and_a_proto_are_the_same_network(tmp_path: Path) -> None:
    path = save(NETWORK, tmp_path / "network.onnx")
    content = path.read_bytes()
    sources: list[Any] = [path, str(path), content, bytearray(content), memoryview(content), NETWORK]
    for source in [*sources, load_model(path, spec()), load_model(content, spec())]:
        model = load_model(source, spec())
        assert model.predict(ROWS).tolist() == OLDER
        assert model.sha256 == hashlib.sha256(content).hexdigest()
        assert model.certifiable
        assert model.note == ""
        assert to_onnx(source, spec()) == content
    assert load_model(path, spec()).name == str(path)


def test_what_was_read_once_is_taken_as_it_is() -> None:
    """A draft reads a model once, and loads what was read in every encoding that it tries."""
    network = read_model(NETWORK)
    folder = Transformer(None, cast("Any", None), "folder", "")
    for source in (network, folder, max, as_frames(max)):
        assert read_model(source) is source
    assert load_model(network, spec()).predict(ROWS).tolist() == OLDER
    with pytest.raises(ModelError, match=says(NOT_A_MODEL, type="int", read=MODEL_FORMATS)):
        read_model(3)


def test_the_suffix_may_be_in_capitals(tmp_path: Path) -> None:
    assert load_model(save(NETWORK, tmp_path / "NETWORK.ONNX"), spec()).certifiable


def test_bytes_are_as_untrusted_as_a_file() -> None:
    assert "contains no network" in refused(b"")
    assert "not an ONNX file" in refused(b"\x80\x04 a pickle, perhaps")
    loop = linear([[1.0], [1.0]])
    loop.graph.node.append(node("Loop", ["n", "c"], ["z"]))
    assert "operator Loop is not allowed" in refused(loop.SerializeToString())
    assert "limit of 10 bytes" in refused(NETWORK.SerializeToString(), limits=Limits(file_bytes=10))
    with pytest.raises(ModelError, match=says(LOADED_FOR_ANOTHER_SPEC)):
        load_model(load_model(NETWORK, spec()), spec(integer("years"), category("sex", "a", "b")))


def test_bytes_never_read_weights_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weights.bin").write_bytes(np.ones((2, 2), np.float32).tobytes())
    monkeypatch.chdir(tmp_path)
    network = linear(np.ones((2, 2)))
    weights = constant("w", np.ones((2, 2)))
    weights.ClearField("raw_data")
    weights.data_location = weights.EXTERNAL
    weights.external_data.add(key="location", value="weights.bin")
    network.graph.initializer[0].CopyFrom(weights)
    assert "all weights inside" in refused(network)
    assert "all weights inside" in refused(network.SerializeToString())
    assert load_model(save(network, tmp_path / "network.onnx"), spec(decision="argmax")).certifiable


@pytest.mark.parametrize("suffix", [".pkl", ".pickle", ".joblib", ".PKL"])
def test_a_pickle_is_never_opened(tmp_path: Path, suffix: str) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "pwned",))

    path = tmp_path / f"model{suffix}"
    path.write_bytes(pickle.dumps(Evil()))
    message = refused(path)
    assert "run any code" in message
    assert "ONNX" in message
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("model.pt", ["weights of a torch module", "python:package.module:name"]),
        ("model.pth", ["weights of a torch module"]),
        ("pytorch_model.bin", ["weights of a torch module"]),
        ("model.md", ['ends in ".md"', ".onnx", ".keras", ".h5", ".nnet", ".skops", ".ubj", ".txt", ".cbm", ".json"]),
        ("model", ['ends in ""', ".onnx"]),
    ],
)
def test_other_files_are_refused_with_what_to_do(tmp_path: Path, name: str, words: list[str]) -> None:
    message = refused(tmp_path / name)
    assert message.startswith(str(tmp_path / name))
    for word in words:
        assert word in message


@pytest.mark.parametrize("thing", [3, None, [1, 2], {"a": 1}, object(), np.zeros(3)])
def test_what_is_no_model_is_refused(thing: Any) -> None:
    assert f"an object of type {type(thing).__name__} as a model" in refused(thing)


CODE = """
import numpy as np
calls = []
def older(people):
    calls.append(people)
    return people[:, 0] - people[:, 1] > 4.5
class Box:
    def predict(self, people):
        return older(people)
box = Box()
number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != ""])
    for name in ("my_code", "my_code.inner", "broken", "leaves"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "my_code").mkdir()
    (tmp_path / "my_code" / "__init__.py").write_text("")
    (tmp_path / "my_code" / "inner.py").write_text(CODE)
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "leaves.py").write_text("import sys; sys.exit('bye')")
    (tmp_path / "needs.py").write_text("import no_such_package_at_all")
    return tmp_path


def test_python_code_is_named_by_module_and_name(module: Path) -> None:
    for name in ("older", "box.predict"):
        model = load_model(f"python:my_code.inner:{name}", spec(), allow_python=True)
        assert model.predict(ROWS).tolist() == OLDER
        assert not model.certifiable


@pytest.mark.parametrize("name", ["python:my_code.inner:older", "folder/python:my_code.inner:older"])
def test_a_spec_file_cannot_name_python_code(module: Path, name: str) -> None:
    message = refused(name)
    assert "--model python:my_code.inner:older" in message
    assert "would import and execute that code" in message
    assert "my_code" not in sys.modules


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("python:", ["write python:package.module:name"]),
        ("python:my_code.inner", ["write python:package.module:name"]),
        ("python::older", ["write python:package.module:name"]),
        ("python:my_code.outer:older", ["module my_code.outer not found"]),
        ("python:needs:older", ["module no_such_package_at_all not found"]),
        ("python:.:older", ["importing it failed"]),
        ("python:broken:older", ["ZeroDivisionError"]),
        ("python:leaves:older", ["SystemExit", "bye"]),
        ("python:my_code.inner:younger", ['unknown name "younger" in my_code.inner']),
        ("python:my_code.inner:number", ["type int as a model"]),
        ("python:my_code.inner:Box", ["is a class"]),
        ("python:my_code.inner:box", ["type Box as a model", "model.predict"]),
    ],
)
def test_python_names_that_lead_nowhere_are_refused(module: Path, name: str, words: list[str]) -> None:
    message = refused(name, allow_python=True)
    for word in words:
        assert word in message


def test_weights_belong_to_a_torch_module(module: Path) -> None:
    assert "weights belong to a torch module" in refused("network.onnx", weights="w.pt")
    name = "python:my_code.inner:"
    assert "is not a torch module" in refused(f"{name}Box", allow_python=True, weights="w.pt")
    assert "must return the module of the weights" in refused(f"{name}older", allow_python=True, weights="w.pt")
    assert "is not a torch module" in refused(NETWORK, weights="w.pt")


def test_the_name_of_a_loaded_network_can_be_anything() -> None:
    model = OnnxModel.from_bytes(NETWORK.SerializeToString(), "my network", spec())
    assert model.name == "my network"
    with pytest.raises(ModelError, match=says(COLUMNS_AND_LABELS_DIFFER, path="my network")):
        OnnxModel.from_bytes(NETWORK.SerializeToString(), "my network", spec(labels=["a", "b", "c"]))


BLOCKED = """
import json, sys
blocked = {"torch", "keras", "sklearn", "skl2onnx", "pandas", "polars", "tensorflow", "jax", "scipy"}

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocker())
from fairchain.examples import example
from fairchain.models import load_model, to_onnx
from fairchain.models.frames import as_frames
from fairchain.errors import ModelError
from fairchain.statistics import Decision
from fairchain.spec import load_spec
from tests.questions import spec
import numpy as np

asked = load_spec(example("credit"))
rows = np.zeros((5, len(asked.features)))
assert load_model(asked.model.path, asked).predict(rows + 3).shape == (5,)
assert load_model(lambda x: x[:, 0] > 4, asked).predict(rows).tolist() == [0] * 5
layer = {"type": "linear", "weights": [[0, 0], [1, -1]], "bias": [4.5, 0]}
path = sys.argv[1] + "/network.json"
with open(path, "w") as file:
    json.dump({"model": {"shape": "(1,2)", "layers": [layer]}}, file)
assert load_model(path, spec()).predict(np.array([[9.0, 0], [3, 1]])).tolist() == [1, 0]
for source, word in ((sys.argv[1] + "/m.keras", "not found"), (as_frames(len), "pandas"), (object(), "as a model")):
    try:
        load_model(source, spec())
    except ModelError as error:
        assert word in str(error), error
    else:
        raise AssertionError(source)
import fairchain
for question in (asked, example("credit")):
    assert fairchain.verify(None, question).decision is Decision.UNFAIR
assert fairchain.verify(path, spec()).decision in Decision
assert fairchain.verify(lambda x: x[:, 0] > 4, spec()).decision in Decision
print("done", sorted(blocked & {name.split(".")[0] for name in sys.modules}))
"""


def test_the_core_works_with_no_other_package_installed(tmp_path: Path) -> None:
    assert run_child(BLOCKED, tmp_path, seconds=60).strip() == "done []"


def test_importing_the_models_imports_no_adapter_and_no_package() -> None:
    code = """
import sys, fairchain.models
print(sorted(name for name in sys.modules if name.startswith("fairchain.models.adapters")
    or name.split(".")[0] in ("torch", "keras", "sklearn", "skl2onnx", "pandas", "polars", "onnx", "onnxruntime")))
"""
    assert run_child(code).strip() == "[]"
