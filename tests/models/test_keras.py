"""Promises of `adapters.from_keras`: a Keras model decides here as it does in Keras; files are read with care."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from fairchain.errors import ModelError
from fairchain.models import Limits, OnnxModel, load_model, to_onnx
from fairchain.models.adapters.from_function import FAILED_ON
from fairchain.models.adapters.from_keras import (
    KERAS_TOO_OLD,
    LAYER_NOT_ALLOWED,
    WEIGHTS_DAMAGED,
    check_keras_file,
)
from fairchain.models.base import random_inputs
from fairchain.models.onnx.decision import COLUMNS_AND_LABELS_DIFFER
from tests.messages import says
from tests.questions import category, integer, real, spec

FEATURES = [integer("age", 0, 9), real("score", -1, 1), integer("hours", 0, 5), category("sex", "F", "M")]


@pytest.fixture
def keras() -> Any:
    missing = [name for name in ("keras", "torch") if importlib.util.find_spec(name) is None]
    if missing and not os.environ.get("FAIRCHAIN_NO_SKIP"):
        pytest.skip(f"{missing[0]} is not installed: make test-all runs this")
    os.environ.setdefault("KERAS_BACKEND", "torch")
    keras: Any = importlib.import_module("keras")

    if keras.backend.backend() != "torch":
        pytest.skip("Keras runs on another back end here")
    keras.utils.set_random_seed(0)
    return keras


def rows(count: int = 1000) -> Any:
    return random_inputs(spec(*FEATURES).features, count, seed=3).astype(np.float32)


def needs_keras(test: Any) -> Any:
    """Marks a test; Keras on torch warns about numpy in its own code."""
    return pytest.mark.keras(pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")(test))


def made(keras: Any, kind: str) -> Any:
    layers = keras.layers
    start = keras.Input((4,))
    if kind == "functional":
        hidden = layers.Dense(6, activation="gelu")(layers.Normalization(mean=[4.0] * 4, variance=[9.0] * 4)(start))
        return keras.Model(start, layers.Dense(3)(layers.Concatenate()([hidden, start])))
    parts = {
        "dense": [
            layers.Normalization(mean=[4.0] * 4, variance=[9.0] * 4),
            layers.Dense(8, activation="relu", kernel_regularizer="l2"),
            layers.BatchNormalization(),
            layers.Dropout(0.3),
            layers.Dense(3, activation="softmax"),
        ],
        "lstm": [layers.Reshape((2, 2)), layers.LSTM(5), layers.Dense(3)],
        "gru": [layers.Reshape((2, 2)), layers.GRU(5), layers.Dense(3)],
        "convolution": [
            layers.Reshape((4, 1)),
            layers.Conv1D(4, 2, activation="relu"),
            layers.MaxPooling1D(2),
            layers.Flatten(),
            layers.Dense(3),
        ],
    }
    return keras.Sequential([start, *parts[kind]])


QUESTION = spec(*FEATURES, labels=["a", "b", "c"])


@needs_keras
@pytest.mark.parametrize("kind", ["dense", "functional", "lstm", "gru", "convolution"])
def test_a_model_decides_as_keras_does(keras: Any, tmp_path: Path, kind: str) -> None:
    model = made(keras, kind)
    expected = np.asarray(model.predict_on_batch(rows())).argmax(axis=1)
    loaded = load_model(model, QUESTION)
    assert loaded.certifiable, loaded.note
    assert loaded.predict(rows()).tolist() == expected.tolist()
    assert len(set(expected.tolist())) > 1
    path = tmp_path / "model.keras"
    model.save(path)
    from_file = load_model(path, QUESTION)
    assert from_file.certifiable, from_file.note
    assert from_file.predict(rows()).tolist() == expected.tolist()
    assert from_file.name == str(path)
    saved = tmp_path / "model.onnx"
    saved.write_bytes(to_onnx(path, QUESTION))
    assert OnnxModel(saved, QUESTION).predict(rows()).tolist() == expected.tolist()


@needs_keras
def test_a_sigmoid_is_a_probability(keras: Any) -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, activation="sigmoid")])
    loaded = load_model(model, spec(*FEATURES))
    expected = np.asarray(model.predict_on_batch(rows()))[:, 0] > 0.5
    assert loaded.predict(rows()).tolist() == expected.tolist()


@needs_keras
def test_what_cannot_be_exported_is_asked_in_python(keras: Any) -> None:
    class Own(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return keras.ops.convert_to_tensor(np.sort(keras.ops.convert_to_numpy(x), axis=1))

    model = keras.Sequential([keras.Input((4,)), Own(), keras.layers.Dense(3)])
    loaded = load_model(model, QUESTION)
    assert not loaded.certifiable
    assert "evaluated in Python" in loaded.note
    assert loaded.predict(rows()).tolist() == np.asarray(model.predict_on_batch(rows())).argmax(axis=1).tolist()


@needs_keras
def test_several_inputs_are_filled_by_the_features_that_name_them(keras: Any) -> None:
    codes, numbers = keras.Input((2,), dtype="int32", name="codes"), keras.Input((2,), name="numbers")
    embedded = keras.layers.Flatten()(keras.layers.Embedding(10, 3)(codes))
    model = keras.Model([codes, numbers], keras.layers.Dense(3)(keras.layers.Concatenate()([embedded, numbers])))
    filled = {"age": "codes", "score": "numbers", "hours": "codes", "sex": "numbers"}
    features = [replace(each, input=filled[each.name]) for each in QUESTION.features]
    loaded = load_model(model, replace(QUESTION, described=tuple(features)))
    assert loaded.certifiable, loaded.note
    expected = np.asarray(model.predict_on_batch([rows()[:, [0, 2]].astype(np.int32), rows()[:, [1, 3]]])).argmax(
        axis=1
    )
    assert loaded.predict(rows()).tolist() == expected.tolist()
    assert len(set(expected.tolist())) > 1


@needs_keras
def test_models_that_do_not_fit_are_refused(keras: Any, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=says(COLUMNS_AND_LABELS_DIFFER, columns="3", count="2")):
        load_model(made(keras, "dense"), spec(*FEATURES))
    wide = keras.Sequential([keras.Input((7,)), keras.layers.Dense(3)])
    with pytest.raises(ModelError, match=says(FAILED_ON, call="an array of shape (3, 4)")) as caught:
        load_model(wide, QUESTION)
    assert str(caught.value).startswith("keras model sequential")
    path = tmp_path / "model.keras"
    made(keras, "dense").save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["model.weights.h5"] = b"no weights"
    archived(path, parts)
    with pytest.raises(ModelError, match=says(WEIGHTS_DAMAGED)):
        load_model(path, QUESTION)


@needs_keras
def test_a_lambda_in_a_file_is_refused_before_keras_sees_it(keras: Any, tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Lambda(lambda x: x * 2), keras.layers.Dense(3)])
    path = tmp_path / "model.keras"
    model.save(path)
    with pytest.raises(ModelError, match=says(LAYER_NOT_ALLOWED, name="Lambda")):
        load_model(path, QUESTION)


@needs_keras
def test_a_keras_that_is_not_safe_is_refused(keras: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.keras"
    made(keras, "dense").save(path)
    monkeypatch.setattr(keras, "__version__", "3.13.1")
    with pytest.raises(ModelError, match=says(KERAS_TOO_OLD)):
        load_model(path, QUESTION)


# From here on no Keras is needed: this is what stands before it.


def archived(path: Path, parts: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content if isinstance(content, bytes) else json.dumps(content))
    return path


def described(**layer: Any) -> dict[str, Any]:
    dense = {"module": "keras.layers", "class_name": "Dense", "config": {"units": 3}, "registered_name": None}
    layers = [dense, {"module": "keras.layers", "class_name": "ReLU", "config": {}, "registered_name": None, **layer}]
    optimizer = {"module": "keras.optimizers", "class_name": "Adam", "config": {}}
    config = {"name": "sequential", "layers": layers}
    return {
        "module": "keras",
        "class_name": "Sequential",
        "config": config,
        "compile_config": {"optimizer": optimizer},
    }


def refused(path: Path, limits: Limits | None = None) -> str:
    with pytest.raises(ModelError) as caught:
        check_keras_file(path, limits or Limits())
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "layer",
    [
        {"class_name": "Lambda"},
        {"class_name": "TFSMLayer"},
        {"class_name": "TorchModuleWrapper"},
        {"class_name": "StringLookup"},
        {"class_name": "TextVectorization"},
        {"class_name": "function", "module": "builtins"},
        {"class_name": "Dense", "module": "somebody.else"},
        {"class_name": "Dense", "module": "os"},
        {"class_name": "Dense", "registered_name": "mine>Dense"},
        {"class_name": "run\n", "module": "subprocess"},
        {"class_name": "get_file", "module": "keras.utils"},
        {"class_name": ["Dense"]},
        {"config": {"activation": {"class_name": "__lambda__", "config": {"value": "abc"}}}},
        {"config": {"layer": {"class_name": "Lambda", "module": "keras.layers", "config": {}}}},
        {"config": {"kernel_initializer": {"class_name": "Dense", "module": "keras.initializers"}}},
    ],
)
def test_only_layers_on_the_list_are_let_through(tmp_path: Path, layer: dict[str, Any]) -> None:
    path = tmp_path / "model.keras"
    check_keras_file(archived(path, {"config.json": described()}), Limits())
    message = refused(archived(path, {"config.json": described(**layer)}))
    assert "not allowed in untrusted files" in message


def test_files_that_are_no_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    assert "file not found" in refused(path)
    for content in (b"PK", b"\x89HDF\r\n\x1a\n", b"\x80\x04 pickle"):
        path.write_bytes(content)
        assert "not a .keras file" in refused(path)
    assert "no description" in refused(archived(path, {"metadata.json": {}}))
    assert "not a .keras file" in refused(archived(path, {"config.json": b"{"}))
    assert "not a .keras file" in refused(archived(path, {"config.json": b"[" * 1_000_000}))


def test_an_archive_that_swells_is_refused(tmp_path: Path) -> None:
    path = archived(tmp_path / "model.keras", {"config.json": described(), "model.weights.h5": b"\0" * 10_000_000})
    assert path.stat().st_size < 100_000
    assert "limit of 5000000 bytes" in refused(path, Limits(file_bytes=5_000_000))
    assert "huge" in refused(archived(path, {"config.json": b" " * 30_000_000}))
