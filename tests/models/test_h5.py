"""Promises of `adapters.from_h5`: dense Keras 2 models are read without Keras, and nothing of the file is executed."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain.errors import ModelError
from fairchain.models import Limits, load_model
from fairchain.models.adapters import from_h5
from fairchain.models.adapters.from_h5 import (
    BAD_WEIGHTS,
    NEEDS_H5PY,
    NOT_HDF5,
    NOT_IN_FILE,
    WEIGHTS_WITHOUT_LAYERS,
)
from tests.messages import says
from tests.questions import category, integer, real, spec

FEATURES = [integer("age", 0, 9), real("score", -1, 1), category("sex", "F", "M")]
MAGIC = b"\x89HDF\r\n\x1a\n"


def rows(count: int = 200) -> Any:
    return np.random.default_rng(1).uniform([0, -1, 0], [9, 1, 1], (count, 3)).round(0).astype(np.float32)


def test_without_h5py_the_message_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_h5, "find_spec", lambda _: None)
    (tmp_path / "model.h5").write_bytes(MAGIC)
    with pytest.raises(ModelError, match=says(NEEDS_H5PY)):
        load_model(tmp_path / "model.h5", spec(*FEATURES))


def test_what_is_not_hdf5_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.h5").write_bytes(b"PK")
    with pytest.raises(ModelError, match=says(NOT_HDF5)):
        load_model(tmp_path / "model.h5", spec(*FEATURES))


def layer(kind: str, name: str, **config: Any) -> dict[str, Any]:
    return {"class_name": kind, "config": {"name": name, **config}}


def saved(path: Path, layers: list[dict[str, Any]], weights: dict[str, list[Any]], **more: Any) -> Path:
    """Write a file as Keras 2 does, with h5py alone."""
    import h5py

    with h5py.File(path, "w") as file:
        file.attrs["keras_version"] = b"2.4.3"
        description = {"class_name": "Sequential", "config": {"name": "sequential", "layers": layers}, **more}
        file.attrs["model_config"] = json.dumps(description).encode()
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = [each["config"]["name"].encode() for each in layers]
        for name, arrays in weights.items():
            part = group.create_group(name)
            names = [f"{name}/weight_{place}:0" for place in range(len(arrays))]
            part.attrs["weight_names"] = [each.encode() for each in names]
            for each, array in zip(names, arrays, strict=True):
                part.create_dataset(each, data=np.asarray(array, np.float32))
    return path


RANDOM = np.random.default_rng(0)
KERNELS = {
    "dense": [RANDOM.normal(size=(3, 6)), RANDOM.normal(size=6)],
    "dense_1": [RANDOM.normal(size=(6, 2)), RANDOM.normal(size=2)],
}
LAYERS = [
    layer("Dense", "dense", units=6, activation="relu", use_bias=True, batch_input_shape=[None, 3]),
    layer("Dropout", "dropout", rate=0.5),
    layer("Dense", "dense_1", units=2, activation="softmax"),
]


@pytest.mark.boosting
def test_a_file_of_keras_2_decides_as_its_layers_say(tmp_path: Path) -> None:
    model: Any = load_model(saved(tmp_path / "model.h5", LAYERS, KERNELS), spec(*FEATURES))
    hidden = np.maximum(rows() @ KERNELS["dense"][0] + KERNELS["dense"][1], 0)
    expected = hidden @ KERNELS["dense_1"][0] + KERNELS["dense_1"][1]
    assert model.predict(rows()).tolist() == expected.argmax(axis=1).tolist()
    assert 0 < expected.argmax(axis=1).sum() < len(expected)
    assert model.certifiable


@pytest.mark.boosting
@pytest.mark.parametrize(
    ("layers", "weights", "problem"),
    [
        ([layer("Lambda", "dense", function="x")], {}, r"layer Lambda is not read; load it with Keras"),
        ([layer("Dense", "dense", activation="exec")], KERNELS, "activation exec is not read"),
        ([layer("Dense", "dense_1", activation="relu")], KERNELS, "takes 6 values and gets 3"),
        ([layer("Dropout", "dropout")], {}, "no layer that computes"),
        ([layer("Dense", "elsewhere")], KERNELS, "damaged"),
        ([layer("Dense", "dense")], {"dense": [np.full((3, 2), np.nan), np.zeros(2)]}, "not a finite number"),
    ],
)
def test_what_is_not_read_is_refused_with_what_to_do(
    layers: list[Any], weights: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=problem):
        load_model(saved(tmp_path / "model.h5", layers, weights), spec(*FEATURES))


@pytest.mark.boosting
def test_weights_alone_are_refused_with_what_to_do(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "weights.h5", "w") as file:
        file.attrs["layer_names"] = [b"dense"]
    with pytest.raises(ModelError, match=says(WEIGHTS_WITHOUT_LAYERS)):
        load_model(tmp_path / "weights.h5", spec(*FEATURES))


@pytest.mark.boosting
def test_links_to_other_files_are_not_followed(tmp_path: Path) -> None:
    import h5py

    saved(tmp_path / "other.h5", LAYERS, KERNELS)
    path = saved(tmp_path / "model.h5", LAYERS, {"dense_1": KERNELS["dense_1"]})
    with h5py.File(path, "a") as file:
        file["model_weights"]["dense"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/model_weights/dense")
    with pytest.raises(ModelError, match=says(NOT_IN_FILE, name="dense")):
        load_model(path, spec(*FEATURES))


@pytest.mark.boosting
def test_weights_above_the_limit_are_not_read(tmp_path: Path) -> None:
    import h5py

    path = saved(tmp_path / "model.h5", LAYERS, {"dense_1": KERNELS["dense_1"]})
    with h5py.File(path, "a") as file:
        part = file["model_weights"].create_group("dense")
        part.attrs["weight_names"] = [b"kernel"]
        part.create_dataset("kernel", shape=(3, 10**6), dtype=np.float32, compression="gzip")
    with pytest.raises(ModelError, match=says(BAD_WEIGHTS)):
        load_model(path, spec(*FEATURES), Limits(file_bytes=1_000_000))


@pytest.mark.keras
@pytest.mark.parametrize("functional", [False, True])
def test_a_file_decides_as_keras_itself(functional: bool, tmp_path: Path) -> None:
    import keras

    keras.utils.set_random_seed(0)
    layers = [
        keras.layers.Dense(8, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.5),
        keras.layers.Dense(4, activation="tanh", use_bias=False),
        keras.layers.Dense(2, activation="softmax"),
    ]
    inputs = keras.Input((3,))
    model: Any = keras.Sequential([inputs, *layers])
    if functional:
        flow = inputs
        for each in layers:
            flow = each(flow)
        model = keras.Model(inputs, flow)
    for weight in model.weights:
        sign = 1 if "variance" in weight.path else (-1) ** len(weight.path)
        weight.assign(np.random.default_rng(3).uniform(0.1, 1, weight.shape) * sign)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save(tmp_path / "model.h5")
        expected = model.predict(rows(), verbose=0)
    loaded: Any = load_model(tmp_path / "model.h5", spec(*FEATURES))
    assert np.allclose(loaded.scores(rows()), expected, atol=1e-5)
