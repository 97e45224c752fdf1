"""Recurrent models of Keras: written with the operators of ONNX, masks as lengths, and equal to Keras's answers."""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain.models import OnnxModel, load_model
from fairchain.models.base import random_inputs
from fairchain.models.inspect.recurrent import StepProbe, steps_of
from tests.questions import category, real, spec
from tests.sequences import text_spec, vectors

LENGTH, WIDTH = 6, 3
pytestmark = [
    pytest.mark.keras,
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]


@pytest.fixture
def keras() -> Any:
    if importlib.util.find_spec("keras") is None and not os.environ.get("FAIRCHAIN_NO_SKIP"):
        pytest.skip("Keras is not installed: make test-all runs this")
    os.environ.setdefault("KERAS_BACKEND", "torch")
    keras: Any = importlib.import_module("keras")
    if keras.backend.backend() != "torch":
        pytest.skip("Keras runs on another back end here")
    importlib.import_module("torch").set_num_threads(1)
    return keras


def model_of(keras: Any, *layers: Any) -> Any:
    """A model with random weights, biases too."""
    made = keras.Sequential(list(layers))
    random = np.random.default_rng(1)
    for weight in made.weights:
        weight.assign(random.normal(0, 0.6, weight.shape))
    return made


@pytest.mark.parametrize("pad", ["right", "left"])
@pytest.mark.parametrize("masked", [False, True])
def test_words_by_their_numbers(keras: Any, tmp_path: Path, masked: bool, pad: str) -> None:
    (tmp_path / "words.txt").write_text("\n".join(["", "[UNK]", *(f"w{i}" for i in range(28))]), encoding="utf-8")
    asked = text_spec(LENGTH, vocabulary=tmp_path / "words.txt", pad=pad)
    layers = keras.layers
    made = model_of(
        keras,
        keras.Input((None,)),
        layers.Embedding(30, WIDTH, mask_zero=masked),
        layers.Bidirectional(layers.LSTM(4, return_sequences=True)),
        layers.Dropout(0.5),
        layers.GRU(3, return_sequences=True),
        layers.SimpleRNN(3, activation="relu"),
        layers.Dense(2, activation="softmax"),
    )
    model = load_model(made, asked)
    assert isinstance(model, OnnxModel), model.note
    assert [layer.name for layer in steps_of(model)] == ["lstm1", "gru2", "rnn3"]
    ids = np.concatenate([random_inputs(asked.described, 40), np.zeros((1, LENGTH), np.int32)])
    words = np.count_nonzero(ids, axis=1)
    shown = np.maximum(ids - 1, 0)
    if pad == "left":
        shown = np.array([np.roll(row, LENGTH - count) for row, count in zip(shown, words, strict=True)])
    assert model.scores(ids) == pytest.approx(np.asarray(made.predict_on_batch(shown)), abs=1e-5)
    assert (StepProbe(model, asked, ["gru2"])(ids).lengths == (words if masked else LENGTH)).all()


@pytest.mark.parametrize("pooling", ["GlobalMaxPooling1D", "GlobalAveragePooling1D"])
def test_vectors_of_words(keras: Any, tmp_path: Path, pooling: str) -> None:
    path, table = vectors(tmp_path, WIDTH)
    asked = text_spec(LENGTH, vectors=path)
    layers = keras.layers
    made = model_of(
        keras,
        keras.Input((LENGTH, WIDTH)),
        layers.Dense(4, activation="tanh"),
        layers.GRU(3, reset_after=False, return_sequences=True, use_bias=False),
        getattr(layers, pooling)(),
        layers.Dense(2),
    )
    model = load_model(made, asked)
    assert isinstance(model, OnnxModel), model.note
    assert [layer.name for layer in steps_of(model)] == ["gru1"]
    ids = random_inputs(asked.described, 20)
    shown = np.concatenate([np.zeros((1, WIDTH), np.float32), table])[ids]
    assert model.scores(ids) == pytest.approx(np.asarray(made.predict_on_batch(shown)), abs=1e-5)


def test_cells_are_those_of_keras(keras: Any) -> None:
    steps = 4
    asked = spec(
        *(real(f"x{t}{i}", -2, 2) for t in range(steps) for i in range(WIDTH)),
        category("g", "a", "b", model_input=False),
    )
    layers = keras.layers
    made = model_of(keras, keras.Input((steps, WIDTH)), layers.LSTM(4), layers.Dense(2))
    model = load_model(made, asked)
    assert isinstance(model, OnnxModel), model.note
    people = random_inputs(asked.features, 10).astype(model.dtype)
    shown = StepProbe(model, asked, ["lstm1", "lstm1.cell"])(people)
    inner = layers.LSTM(4, return_state=True)
    inner.build((None, None, WIDTH))
    inner.set_weights(made.layers[0].get_weights())
    x = people[:, : steps * WIDTH].reshape(10, steps, WIDTH).astype(np.float32)
    for end in range(1, steps + 1):
        _, hidden, cell = (keras.ops.convert_to_numpy(part) for part in inner(x[:, :end]))
        assert shown.states["lstm1"][:, end - 1] == pytest.approx(hidden, abs=1e-5)
        assert shown.states["lstm1.cell"][:, end - 1] == pytest.approx(cell, abs=1e-5)


def test_what_is_not_written_here_is_exported_by_keras(keras: Any) -> None:
    steps = 3
    asked = spec(*(real(f"x{t}", -2, 2) for t in range(steps)), category("g", "a", "b", model_input=False))
    layers = keras.layers
    start = keras.Input((steps, 1))
    both = layers.Concatenate()([layers.LSTM(3)(start), layers.GRU(2)(start)])
    made = keras.Model(start, layers.Dense(2)(both))
    model = load_model(made, asked)
    people = random_inputs(asked.features, 50).astype(model.dtype)
    shown = people[:, :steps].reshape(50, steps, 1).astype(np.float32)
    expected = np.asarray(made.predict_on_batch(shown)).argmax(axis=1)
    assert model.certifiable, model.note
    assert model.predict(people).tolist() == expected.tolist()
