"""Targets for files of models: networks, weights, boosted trees; each is asked for decisions."""

from __future__ import annotations

import io
import json
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np

from fairchain.examples import example
from fairchain.spec import Spec, load_spec
from tests.fuzzing.mutate import zipped
from tests.fuzzing.target import Target, limits, made
from tests.networks import linear
from tests.questions import spec

EXAMPLES = ("census", "credit", "bank")


def _networks() -> list[bytes]:
    small = [linear([[1.0], [-1.0]]), linear([[1.0, 0.0], [-1.0, 1.0]], end="Softmax"), linear([[1.0], [2.0]], kind=7)]
    return [
        *(example(name).with_suffix(".onnx").read_bytes() for name in EXAMPLES),
        *(network.SerializeToString() for network in small),
    ]


@cache
def _questions() -> list[Spec]:
    return [*(load_spec(example(name)) for name in EXAMPLES), spec(decision="logit"), spec()]


def _ask_network(path: Path) -> object:
    """Ask the network with the spec whose number of inputs it is likely to have."""
    from fairchain.models import OnnxModel
    from fairchain.models.inspect.relu_layers import relu_network

    asked = _questions()[likely(path.stat().st_size)]
    model = OnnxModel(path, asked, limits())
    answer = model.predict(np.ones((4, len(asked.features)), np.float32))
    relu_network(model)
    return answer


@cache
def _sizes() -> list[int]:
    return [len(content) for content in _networks()]


def likely(size: int) -> int:
    """Return the place of the question that a network of this size probably answers."""
    return min(int(np.argmin([abs(size - known) for known in _sizes()])), len(_questions()) - 1)


def _generate_graph(dice: Random) -> bytes:
    from tests.fuzzing.graphs import random_graph

    return random_graph(dice)


def _check_graph(path: Path) -> None:
    from tests.fuzzing.graphs import check_graph

    check_graph(path)


def _socrates() -> list[bytes]:
    from tests.models.socrates import function, gru, lstm, rnn
    from tests.models.socrates import linear as layer

    networks = [
        [layer(2, 3, func="relu"), layer(3, 2), function("softmax")],
        [lstm(1, 2), layer(2, 2)],
        [gru(1, 2), layer(2, 2)],
        [rnn(1, 2), layer(2, 2)],
        [{**layer(2, 2), "weights": "[[0.5, -1.0], [2.0, .5]]", "bias": "(1, 2.)"}],
    ]
    return [json.dumps({"model": {"shape": "(1,2)", "layers": layers}}).encode() for layers in networks]


def _ask_socrates(path: Path) -> object:
    from fairchain.models import load_model

    return load_model(path, spec(), limits()).predict(np.ones((2, 2), np.float32))


def _ask_socrates_weights(path: Path) -> object:
    from tests.models.socrates import linear as layer

    network = {"model": {"shape": "(1,2)", "layers": [{**layer(2, 2), "weights": path.name}]}}
    described = path.with_suffix(".json")
    described.write_text(json.dumps(network))
    return _ask_socrates(described)


@cache
def _module() -> Any:
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    return torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


def _states() -> list[bytes]:
    import torch

    def saved(new: bool) -> bytes:
        file = io.BytesIO()
        torch.save(_module().state_dict(), file, _use_new_zipfile_serialization=new)
        return file.getvalue()

    return [saved(True), saved(False)]


def _load_state(path: Path) -> object:
    from fairchain.models.adapters.from_torch import load_state

    return load_state(_module(), path, limits())


def _keras_files() -> list[bytes]:
    import keras

    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential([keras.Input((2,)), layers.Dense(4, activation="relu"), layers.Dense(2)])
    content = made(model.save, ".keras")
    import zipfile

    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in sorted(archive.namelist())]
    # The time of saving would make every run another one.
    members = [(name, b"{}" if name == "metadata.json" else content) for name, content in members]
    return [zipped(members)]


def _load_keras(path: Path) -> object:
    from fairchain.models.adapters.from_keras import from_keras_file

    return from_keras_file(path, spec(), limits())


def _check_keras(path: Path) -> object:
    from fairchain.models.adapters.from_keras import check_keras_file

    return check_keras_file(path, limits())


def _keras_descriptions() -> list[bytes]:
    dense = {"module": "keras.layers", "class_name": "Dense", "config": {"units": 2, "activation": "relu"}}
    config = {"module": "keras", "class_name": "Sequential", "config": {"layers": [dense]}, "compile_config": {}}
    return [
        zipped([("config.json", json.dumps(config).encode()), ("metadata.json", b"{}"), ("model.weights.h5", b"x")])
    ]


def _nnet_files() -> list[bytes]:
    from tests.models.test_nnet import written

    return [written((2, 3, 2))[0].encode(), written((2, 2), mean=1.5, spread=2)[0].encode()]


def _ask_nnet(path: Path) -> object:
    from fairchain.models import load_model

    return load_model(path, spec(), limits()).predict(np.ones((2, 2), np.float32))


def _h5_files() -> list[bytes]:
    from tests.models.test_h5 import layer, saved

    layers = [layer("Dense", "dense", activation="relu"), layer("Dense", "dense_1")]
    weights = {"dense": [np.ones((2, 3)), np.ones(3)], "dense_1": [np.ones((3, 2)), np.zeros(2)]}
    return [made(lambda path: saved(path, layers, weights), ".h5")]


@cache
def _reader(suffix: str) -> Any:
    from tests.fuzzing.forked import ForkingReader

    return ForkingReader(suffix)


def _forking(suffix: str) -> Any:
    """The product starts a process for each file; here all forks have one parent."""
    return patch("fairchain.models.adapters.native_reader.read_in_new_process", _reader(suffix))


def _ask_h5(path: Path) -> object:
    from fairchain.models import load_model

    with _forking(".h5"):
        return load_model(path, spec(), limits()).predict(np.ones((2, 2), np.float32))


def _boosted(suffix: str) -> list[bytes]:
    """Return a small model in a format of XGBoost, LightGBM or CatBoost, fitted on two columns."""
    random = np.random.default_rng(0)
    rows = np.column_stack([random.integers(0, 10, 200), random.integers(0, 2, 200)]).astype(float)
    labels = (rows[:, 0] + 3 * rows[:, 1] > 6).astype(int)
    if suffix == ".txt":
        import lightgbm

        settings = {"verbose": -1, "num_threads": 1, "objective": "binary"}
        trees = lightgbm.train(settings, lightgbm.Dataset(rows, labels, categorical_feature=[1]), 3)
        return [trees.model_to_string().encode()]
    if suffix == ".cbm":
        import catboost

        oblivious = catboost.CatBoost({"iterations": 3, "depth": 2, "verbose": 0, "allow_writing_files": False})
        return [made(lambda path: oblivious.fit(rows, labels).save_model(str(path)), ".cbm")]
    import xgboost

    booster = xgboost.train({"max_depth": 3, "nthread": 1}, xgboost.DMatrix(rows, labels), 3)
    return [bytes(booster.save_raw(suffix[1:]))]


def _ask_boosted(path: Path) -> object:
    from fairchain.models import load_model
    from fairchain.models.adapters.model_files import read_object
    from tests.fuzzing.forked import ForkedServer

    question = spec(decision="score", decision_threshold=0.5)
    readers = {
        ".ubj": lambda: _forking(".ubj"),
        ".cbm": lambda: patch("fairchain.models.adapters.catboost_process.start_process", ForkedServer),
    }
    with readers.get(path.suffix, nullcontext)():
        model = read_object(path, limits())
    return load_model(model, question).predict(np.ones((2, 2)))


MODEL_TARGETS: dict[str, Target] = {
    "onnx": Target("protobuf", ".onnx", _networks, _ask_network, share=10),
    "row independence": Target("bytes", ".onnx", list, _check_graph, isolated=True, generate=_generate_graph),
    "socrates": Target("json", ".json", _socrates, _ask_socrates),
    "socrates weights": Target("text", ".txt", lambda: [b"[[0.5, -1.0], [2.0, .5]]"], _ask_socrates_weights),
    "nnet": Target("text", ".nnet", _nnet_files, _ask_nnet),
    "h5": Target("bytes", ".h5", _h5_files, _ask_h5, needs=("h5py",), share=2),
    "xgboost": Target(
        "json", ".json", partial(_boosted, ".json"), _ask_boosted, needs=("xgboost",), share=1, isolated=True
    ),
    "xgboost ubj": Target("bytes", ".ubj", partial(_boosted, ".ubj"), _ask_boosted, needs=("xgboost",)),
    "lightgbm": Target("text", ".txt", partial(_boosted, ".txt"), _ask_boosted, needs=("lightgbm",)),
    "catboost": Target("bytes", ".cbm", partial(_boosted, ".cbm"), _ask_boosted, needs=("catboost",)),
    "torch": Target("zip", ".pt", _states, _load_state, needs=("torch",), share=3),
    "keras": Target("zip", ".keras", _keras_files, _load_keras, needs=("keras", "torch"), share=1),
    "keras archive": Target("zip", ".keras", _keras_descriptions, _check_keras),
}
