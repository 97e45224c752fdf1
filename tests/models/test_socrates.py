"""Promises of `adapters.from_socrates`: a network in SOCRATES JSON computes what the format's own program computes."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairchain.errors import ModelError
from fairchain.models import Limits, OnnxModel, load_model, to_onnx
from fairchain.models.onnx.decision import SINGLE_COLUMN
from fairchain.models.onnx.inputs import INPUT_WIDTH_DIFFERS
from tests.messages import says
from tests.models.socrates import Reference, function, gru, linear, lstm, numbers, rnn, write
from tests.questions import integer, real, spec


def question(width: int, columns: int = 2) -> Any:
    features = [real(f"x{i}", -2, 2, groups={"low": [-2, 0], "high": [0, 2]}) for i in range(width)]
    return spec(*features, labels=[f"l{i}" for i in range(columns)], protected=["x0"])


def check(path: Path, layers: list[dict[str, Any]], shape: tuple[int, ...], width: int, columns: int = 2) -> None:
    model = load_model(path, question(width, columns))
    assert isinstance(model, OnnxModel)
    people = np.random.default_rng(1).uniform(-2, 2, (40, width))
    expected = np.array([Reference(layers, shape)(person) for person in people])
    assert expected.shape == (40, columns)
    assert np.allclose(model.scores(people.astype(model.dtype)), expected, rtol=1e-4, atol=1e-5)
    assert np.ptp(expected, axis=0).min() > 1e-3


@pytest.mark.parametrize(
    "layers",
    [
        [linear(3, 2)],
        [linear(3, 5), function("relu"), linear(5, 4), function("sigmoid"), linear(4, 2), function("tanh")],
        [linear(3, 5, func="tanh"), linear(5, 2, func="softmax")],
        [linear(3, 5, func="RELU"), function("Sigmoid"), linear(5, 2)],
    ],
)
def test_dense_layers(tmp_path: Path, layers: list[dict[str, Any]]) -> None:
    lower = [{**layer, **({"func": layer["func"].lower()} if "func" in layer else {})} for layer in layers]
    check(write(tmp_path, layers, "(1,3)"), lower, (3,), 3)


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize(
    "layers",
    [
        [lstm(2, 3), linear(3, 2)],
        [gru(2, 3), linear(3, 2)],
        [rnn(2, 3, func="tanh"), linear(3, 2)],
        [rnn(2, 3, func="relu"), linear(3, 2)],
        [rnn(2, 3, func="sigmoid"), linear(3, 2)],
        [rnn(2, 2)],
        [lstm(2, 3), lstm(3, 4), lstm(4, 2)],
        [linear(2, 3, func="relu"), gru(3, 4), function("tanh"), linear(4, 3), lstm(3, 3), linear(3, 2)],
    ],
    ids=lambda layers: "-".join(layer["type"] for layer in layers),
)
def test_recurrent_layers_read_a_flat_row_step_by_step(
    tmp_path: Path, layers: list[dict[str, Any]], steps: int
) -> None:
    check(write(tmp_path, layers, "(1,2)"), layers, (2,), 2 * steps)


def test_convolutions_pooling_and_shapes(tmp_path: Path) -> None:
    layers = [
        function("reshape", newshape=[1, 2, 6]),
        {"type": "conv1d", "filters": numbers(3, 2, 3), "bias": numbers(3), "stride": 1, "padding": 1},
        {"type": "maxpool1d", "kernel": 2, "stride": 2, "padding": 1},
        function("transpose", axes=[0, 2, 1]),
        function("reshape", newshape=[1, 12]),
        linear(12, 2),
    ]
    check(write(tmp_path, layers, "(1,12)"), layers, (12,), 12)


@pytest.mark.parametrize("sizes", [2, 3])
def test_convolutions_in_more_dimensions(tmp_path: Path, sizes: int) -> None:
    shape = (2, *[4] * sizes)
    layers = [
        {
            "type": f"conv{sizes}d",
            "filters": numbers(2, 2, *[2] * sizes),
            "bias": numbers(2),
            "stride": 2,
            "padding": 1,
        },
        {"type": f"maxpool{sizes}d", "kernel": [2] * sizes, "stride": 1, "padding": 0},
        function("reshape", newshape=[1, 2 * 2**sizes]),
        linear(2 * 2**sizes, 2),
    ]
    check(write(tmp_path, layers, [1, *shape]), layers, shape, int(np.prod(shape)))


def test_padding_of_a_pool_is_zero_as_the_format_has_it(tmp_path: Path) -> None:
    """Of negative values beside the padding, zero is the largest."""
    layers = [
        function("reshape", newshape=[1, 1, 2]),
        {"type": "maxpool1d", "kernel": 2, "stride": 1, "padding": 1},
        function("reshape", newshape=[1, -1]),
    ]
    model = load_model(write(tmp_path, layers), question(2, 3))
    assert isinstance(model, OnnxModel)
    assert model.scores(np.array([[-1.5, -0.5]])).tolist() == [[0, -0.5, 0]]


@pytest.mark.parametrize(
    "name", ["weights/w1.txt", "./weights/w1.txt", "/data/nets/weights/w1.txt", "data\\nets\\weights\\w1.txt"]
)
def test_numbers_may_stand_in_text_files_beside_the_json(tmp_path: Path, name: str) -> None:
    """Such paths start at the folder of the program that wrote them; what follows it is looked for here."""
    layer = linear(2, 2)
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "w1.txt").write_text(f"{layer['weights']}\n")
    (tmp_path / "b1.txt").write_text(str(tuple(layer["bias"])))
    path = write(tmp_path, [{**layer, "weights": name, "bias": "b1.txt"}])
    check(path, [layer], (2,), 2)


@pytest.mark.parametrize("text", ["[[1., -.5], [+2, 5e-1]]", "((1.0,-0.5),(2,0.5,),)", " [ [1,-0.5],\n[2.,.5] ] "])
def test_texts_are_python_literals_of_numbers(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, [{"type": "linear", "weights": text, "bias": "[0, 0]"}])
    model = load_model(path, question(2))
    assert isinstance(model, OnnxModel)
    assert model.scores(np.array([[1.0, 2.0]])).tolist() == [[0.0, 3.0]]


def test_the_network_can_be_saved_and_is_the_same(tmp_path: Path) -> None:
    asked = question(6)
    path = write(tmp_path, [gru(2, 3), linear(3, 2)])
    model = load_model(path, asked)
    saved = tmp_path / "saved.onnx"
    saved.write_bytes(to_onnx(path, asked))
    again = OnnxModel(saved, asked)
    assert again.sha256 == model.sha256
    assert model.certifiable
    people = np.random.default_rng(0).uniform(-2, 2, (50, 6)).astype(np.float32)
    assert np.array_equal(again.predict(people), model.predict(people))


def test_a_sigmoid_at_the_end_is_a_probability(tmp_path: Path) -> None:
    path = write(tmp_path, [{"type": "linear", "weights": [[1.0, -1.0]], "bias": [0.1]}, function("sigmoid")])
    assert set(load_model(path, question(2)).predict(np.random.default_rng(0).uniform(-2, 2, (90, 2)))) == {0, 1}
    with pytest.raises(ModelError, match=says(SINGLE_COLUMN)):
        load_model(write(tmp_path, [linear(2, 1)]), question(2))


def refused(path: Path, width: int = 2, limits: Limits | None = None) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(path, question(width), limits)
    message = str(caught.value)
    assert str(path.parent) in message
    assert "\n" not in message
    return message


OK = linear(2, 2)


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ({"type": "resnet2l"}, ["layer 2 (resnet2l)", "unknown", "conv2d"]),
        ({"type": "attention\n"}, ["layer 2 (attention\\n)"]),
        ({}, ["layer 2 ()", "unknown"]),
        (function("gelu"), ["layer 2 (function)", '"gelu"', "reshape"]),
        (rnn(2, 2, func="softmax"), ["layer 2 (rnn)", "softmax"]),
        ({**OK, "func": "swish"}, ["layer 2 (linear)", '"swish"']),
        ({**OK, "kernel": 3}, ["layer 2 (linear)", 'unknown key "kernel"']),
        ({"type": "linear", "weights": [[1, 2]]}, ["layer 2 (linear)", '"bias" is missing']),
        ({**OK, "bias": [1, 2, 3]}, ["bias has 3 numbers, expected 2"]),
        ({**OK, "weights": [[1, 2, 3]]}, ["weights take 3 values, and the layer gets 2"]),
        ({**OK, "weights": [1, 2]}, ["weights has 1 dimensions"]),
        ({**OK, "weights": [[1, 2], [3]]}, ["(linear).weights", "one length"]),
        ({**OK, "weights": [["a", 2], [3, 4]]}, ["(linear).weights"]),
        ({**OK, "weights": [[1e999, 2], [3, 4]]}, ["(linear).weights", "not finite"]),
        ({**OK, "weights": [[10**400, 2], [3, 4]]}, ["(linear).weights", "export it again"]),
        ({**OK, "weights": f"[[{10**400}, 2], [3, 4]]"}, ["(linear).weights", "export it again"]),
        ({**OK, "weights": f"[[{'9' * 5000}, 2], [3, 4]]"}, ["(linear).weights", "export it again"]),
        (function("reshape", newshape=[1, 10**400]), ["newshape", "export it again"]),
        ({**OK, "weights": None}, ["(linear).weights"]),
        ({**OK, "weights": "[[1, 2], [3"}, ["(linear).weights"]),
        ({**OK, "weights": "[" * 100_000}, ["(linear).weights"]),
        ({**OK, "weights": "__import__('os')"}, ["no file"]),
        ({**OK, "weights": "w/none.txt"}, ["no file", "w/none.txt"]),
        ({**OK, "weights": "../secret.txt"}, ["not a path inside"]),
        ({**OK, "weights": "a/../../secret.txt"}, ["not a path inside"]),
        ({**OK, "weights": "a\0b"}, ["not a path inside"]),
        ({**lstm(2, 3), "weights": numbers(8, 5)}, ["8 rows, expected 4 * 3"]),
        ({**lstm(2, 3), "weights": numbers(12, 9)}, ["do not fit an input of (2,)"]),
        ({**gru(2, 3), "candidate_weights": numbers(3, 4)}, ["do not fit a state of 3"]),
        (function("reshape", newshape="(1,3)"), ["2 input values"]),
        (function("reshape", newshape="(2,1)"), ["2 input values"]),
        (function("reshape", newshape="(1,0.5)"), ["whole numbers"]),
        (function("transpose", axes="(1,0)"), ["axes"]),
        ({"type": "conv1d", "filters": numbers(1, 1, 2), "bias": [0], "stride": 1, "padding": 0}, ["do not fit"]),
    ],
)
def test_a_layer_that_cannot_be_is_named(tmp_path: Path, layer: dict[str, Any], words: list[str]) -> None:
    (tmp_path.parent / "secret.txt").write_text("[[1, 2], [3, 4]]")
    message = refused(write(tmp_path, [OK, layer]))
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [("stride", 0, "from 1 up"), ("padding", -1, "from 0 up"), ("stride", [1, 2], "one whole")],
)
def test_windows_that_cannot_slide_are_refused(tmp_path: Path, key: str, value: Any, word: str) -> None:
    layer = {"type": "conv1d", "filters": numbers(1, 1, 2), "bias": [0], "stride": 1, "padding": 0, key: value}
    assert word in refused(write(tmp_path, [function("reshape", newshape=[1, 1, 2]), layer]))


def test_a_window_larger_than_its_input_is_refused(tmp_path: Path) -> None:
    layer = {"type": "maxpool1d", "kernel": 5, "stride": 1, "padding": 0}
    assert "larger than" in refused(write(tmp_path, [function("reshape", newshape=[1, 1, 2]), layer]))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "JSON"),
        ("{", "JSON"),
        ("[" * 100_000, "JSON"),
        ("[]", "the object"),
        ("{}", '"model"'),
        ('{"model": {"layers": []}}', "model.layers"),
        ('{"model": {"layers": [3]}}', "model.layers"),
        ('{"model": {"path": "net.pt"}}', "pickle"),
        ('{"model": {"path": "net.onnx", "labels": ["a", "b"]}, "feature": []}', "is a spec"),
        ('{"model": {"layers": [{"type": "linear"}]}}', "model.shape"),
        ('{"model": {"shape": "(2, 3)", "layers": [{"type": "linear"}]}}', "model.shape"),
        ('{"model": {"shape": "()", "layers": [{"type": "linear"}]}}', "model.shape"),
        ('{"model": {"shape": "(1, 0)", "layers": [{"type": "linear"}]}}', "model.shape"),
    ],
)
def test_json_that_is_no_network_is_refused(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "network.json"
    path.write_text(text)
    assert word in refused(path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "network.json").write_bytes(b"\xff\xfe{}")
    assert "UTF-8" in refused(tmp_path / "network.json")


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    assert "cannot be read" in refused(tmp_path / "none.json")
    (tmp_path / "folder.json").mkdir()
    assert "not a plain file" in refused(tmp_path / "folder.json")


def test_a_file_name_that_the_system_refuses_is_one_message(tmp_path: Path) -> None:
    """Found by fuzzing: the operating system's own error came through."""
    assert "no file" in refused(write(tmp_path, [OK | {"weights": "w" * 300}]))


def test_all_files_together_stay_within_the_limit(tmp_path: Path) -> None:
    (tmp_path / "w.txt").write_text("[[1, 2], [3, 4]]" + " " * 3000)
    path = write(tmp_path, [{**OK, "weights": "w.txt"}])
    assert load_model(path, question(2), Limits(file_bytes=4000))
    assert "limit" in refused(path, limits=Limits(file_bytes=3000))


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "w.txt").write_text("[[1, 2], [3, 4]]")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "w.txt").symlink_to(outside / "w.txt")
    assert "no file" in refused(write(inside, [{**OK, "weights": "w.txt"}]))


VALID = [
    lstm(2, 3),
    rnn(3, 4, func="tanh"),
    gru(4, 6),
    function("reshape", newshape="(1, 2, 3)"),
    {"type": "conv1d", "filters": numbers(2, 2, 2), "bias": [0, 1], "stride": 1, "padding": 1},
    {"type": "maxpool1d", "kernel": 2, "stride": 2, "padding": 0},
    function("transpose", axes=[0, 2, 1]),
    function("reshape", newshape=[1, 4]),
    linear(4, 2, func="softmax"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.sampled_from(["(1,2)", "[[1]]"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=6,
)
PLACES = [(place, key) for place, layer in enumerate(VALID) for key in layer]


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(place=st.sampled_from([*PLACES, (0, "extra"), (-1, "shape"), (-1, "layers")]), value=JSON)
def test_any_entry_may_be_nonsense_and_nothing_worse_than_a_model_error_comes_of_it(
    tmp_path: Path, place: tuple[int, str], value: Any
) -> None:
    number, key = place
    model: dict[str, Any] = {"shape": "(1,2)", "layers": [dict(layer) for layer in VALID]}
    (model if number == -1 else model["layers"][number])[key] = value
    path = tmp_path / "network.json"
    path.write_text(json.dumps({"model": model}))
    with suppress(ModelError):
        load_model(path, question(4))


def test_the_network_that_is_spoilt_above_is_one(tmp_path: Path) -> None:
    assert load_model(write(tmp_path, VALID), question(4)).certifiable


def test_a_sequence_of_half_a_step_is_refused(tmp_path: Path) -> None:
    message = refused(write(tmp_path, [lstm(2, 3), linear(3, 2)]), width=5)
    assert "each step of a sequence takes 2 values" in message


def test_another_number_of_features_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=says(INPUT_WIDTH_DIFFERS, shape="2")):
        load_model(write(tmp_path, [OK]), spec(integer("a"), integer("b"), integer("c")))
