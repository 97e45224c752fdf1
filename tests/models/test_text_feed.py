"""Promises of `model.text_feed`: a network gets the words it was made for, and where they end, whatever its inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto

from fairchain.errors import ModelError
from fairchain.models import OnnxModel, describe_input, load_model
from fairchain.models.adapters.from_function import NO_FRAMES_OF_TEXTS, TEXTS_NOT_WORDS
from fairchain.models.base import DEPENDS_ON_BATCH, OUTPUT_NOT_BY_ROW, random_inputs
from fairchain.models.frames import as_frames
from fairchain.models.onnx.decision import OUTPUT_NOT_DECISION
from fairchain.models.onnx.padding import padding_is_idle
from fairchain.models.onnx.text_inputs import (
    NO_WORD_INPUT,
    NOT_A_WORD_ID,
    NOT_TEXT_ROWS,
    PADDING_NOT_IN_VOCABULARY,
    PADDING_UNKNOWN,
    TextFeed,
    plan_text,
    shifted,
)
from fairchain.spec import Spec, TextFeature
from fairchain.text import lexicon_of
from tests.messages import says, says_one_of
from tests.networks import FLOAT, INT32, INT64, constant, graph, node, value
from tests.sequences import WORDS, Network, Recurrent, text_spec, vectors

LENGTH, WIDTH = 5, 3
BATCH = ("N", "T", WIDTH)


@pytest.fixture
def asked(tmp_path: Path) -> Spec:
    return text_spec(LENGTH, vectors=vectors(tmp_path, WIDTH)[0])


@pytest.fixture
def numbered(tmp_path: Path) -> Any:
    """Makes a spec about ids of a list of words."""

    def make(*first: str, **feature: Any) -> Spec:
        words = [*first, *(f"w{i}" for i in range(9))]
        (tmp_path / "words.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
        return text_spec(LENGTH, vocabulary=tmp_path / "words.txt", **feature)

    return make


def counting(*inputs: Any) -> ModelProto:
    """A network that sums up what it gets of each row, and answers with the sum and its negative."""
    nodes, parts = [], []
    for each in inputs:
        rank = len(each.type.tensor_type.shape.dim)
        axes = list(range(1, rank))
        nodes.append(node("Cast", [each.name], [f"{each.name} real"], to=FLOAT))
        nodes.append(node("ReduceSum", [f"{each.name} real", f"{each.name} axes"], [f"{each.name} sum"], keepdims=0))
        parts.append(constant(f"{each.name} axes", axes, np.int64))
    if any(len(each.type.tensor_type.shape.dim) == 1 for each in inputs):
        nodes = [n for n in nodes if n.op_type == "Cast" or "lengths" not in n.input[0]]
        nodes.append(node("Identity", ["lengths real"], ["lengths sum"]))
    nodes.append(node("Sum", [f"{each.name} sum" for each in inputs], ["all"]))
    nodes += [node("Unsqueeze", ["all", "one"], ["column"]), node("Neg", ["column"], ["negative"])]
    nodes.append(node("Concat", ["negative", "column"], ["y"], axis=1))
    return graph(nodes, list(inputs), [value("y", shape=("N", 2))], [*parts, constant("one", [1], np.int64)])


def loaded(made: ModelProto, spec: Spec) -> OnnxModel:
    return OnnxModel.from_bytes(made.SerializeToString(), "network.onnx", spec)


def feed_of(spec: Spec, *inputs: Any) -> TextFeed:
    """How a network with these inputs is fed."""
    feed = loaded(counting(*inputs), spec).inputs
    assert isinstance(feed, TextFeed)
    return feed


def test_vectors_lengths_and_mask(asked: Spec) -> None:
    feed = feed_of(
        asked, value("x", shape=BATCH), value("lengths", INT64, ("N",)), value("m", TensorProto.BOOL, ("N", "T"))
    )
    ids = np.array([[3, 1, 2, 0, 0], [4, 0, 0, 0, 0], [0, 0, 0, 0, 0]], np.int32)
    fed = feed(ids)
    table = lexicon_of(asked.text).table if asked.text else None
    assert table is not None
    assert np.array_equal(fed["x"], table[ids])
    assert not fed["x"][0, 3:].any()
    assert fed["lengths"].dtype == np.int64
    assert fed["lengths"].tolist() == [3, 1, 1]  # no framework takes a sequence of no steps
    assert fed["m"].dtype == np.bool_
    assert fed["m"].tolist() == [[True] * 3 + [False] * 2, [True] + [False] * 4, [False] * 5]


@pytest.mark.parametrize("kind", [INT32, INT64, FLOAT])
def test_numbers_of_words_are_the_lines_of_the_vocabulary(numbered: Any, kind: int) -> None:
    feed = feed_of(numbered("<unk>", "<pad>"), value("x", kind, ("N", "T")))
    ids = np.array([[3, 4, 11, 0, 0]], np.int32)
    assert feed(ids)["x"].tolist() == [[2, 3, 10, 1, 1]]


def test_padding_on_the_left(numbered: Any) -> None:
    feed = feed_of(numbered("", pad="left"), value("x", INT64, ("N", "T")))
    ids = np.array([[3, 4, 5, 0, 0], [2, 0, 0, 0, 0], [2, 3, 4, 5, 6], [0, 0, 0, 0, 0]], np.int32)
    assert feed(ids)["x"].tolist() == [[0, 0, 2, 3, 4], [0, 0, 0, 0, 1], [1, 2, 3, 4, 5], [0] * 5]
    assert shifted(ids[:1], np.array([3])).tolist() == [[0, 0, 3, 4, 5]]


def test_steps_before_rows_are_found_by_asking(asked: Spec) -> None:
    network = Network(Recurrent("GRU", WIDTH, 4))
    for time_first in (False, True):
        feed = loaded(network.onnx(time_first=time_first), asked).inputs
        assert isinstance(feed, TextFeed)
        assert feed.time_first is time_first
        ids = random_inputs(asked.described, 7)
        assert feed(ids)["x"].shape == ((LENGTH, 7, WIDTH) if time_first else (7, LENGTH, WIDTH))


@pytest.mark.parametrize("rows", [3, 4])
def test_as_many_steps_as_rows_are_told_apart(tmp_path: Path, rows: int) -> None:
    spec = text_spec(rows, vectors=vectors(tmp_path, WIDTH)[0])
    model = loaded(Network(Recurrent("GRU", WIDTH, 4)).onnx(time_first=True), spec)
    assert isinstance(model.inputs, TextFeed)
    assert model.inputs.time_first


def test_a_stated_layout_is_believed(tmp_path: Path) -> None:
    spec = text_spec(LENGTH, vectors=vectors(tmp_path, WIDTH)[0], layout="batch")
    with pytest.raises(ModelError, match=says(OUTPUT_NOT_BY_ROW)):
        loaded(Network(Recurrent("GRU", WIDTH, 4)).onnx(time_first=True), spec)


def test_vectors_in_one_row(asked: Spec) -> None:
    feed = feed_of(asked, value("x", shape=("N", LENGTH * WIDTH)))
    ids = random_inputs(asked.described, 4)
    assert feed(ids)["x"].shape == (4, LENGTH * WIDTH)


def test_a_fixed_batch(asked: Spec) -> None:
    network = Network(Recurrent("LSTM", WIDTH, 4))
    free, made = network.onnx(), network.onnx()
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
    made.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 4
    ids = random_inputs(asked.described, 11)
    assert loaded(made, asked).predict(ids).tolist() == loaded(free, asked).predict(ids).tolist()


@pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN"])
def test_steps_behind_the_longest_text_are_left_out_where_nobody_reads_them(
    asked: Spec, operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(Recurrent(operator, WIDTH, 4, both=True, states=True), Recurrent(operator, 8, 3))
    told = loaded(network.onnx(lengths=True), asked)
    assert isinstance(told.inputs, TextFeed)
    assert told.inputs.cut
    short = np.array([[1, 2, 0, 0, 0], [3, 0, 0, 0, 0]], np.int32)
    assert told.inputs(short)["x"].shape == (2, 2, WIDTH)
    ids = random_inputs(asked.described, 200)
    alone = np.concatenate([told.scores(ids[[row]]) for row in range(len(ids))])
    assert np.array_equal(told.scores(ids), alone)
    monkeypatch.setattr("fairchain.models.onnx.text_inputs.MOST_CALL_TEXTS", 16)
    assert np.array_equal(told.scores(ids), alone)
    assert told.predict(ids).tolist() == (alone[:, 1] > alone[:, 0]).tolist()


@pytest.mark.parametrize(
    ("how", "pad"),
    [({"lengths": False}, "right"), ({"lengths": True, "end": "mean"}, "right"), ({"lengths": True}, "left")],
)
def test_padding_stays_where_it_may_be_read(tmp_path: Path, how: dict[str, Any], pad: str) -> None:
    spec = text_spec(LENGTH, vectors=vectors(tmp_path, WIDTH)[0], pad=pad)
    model = loaded(Network(Recurrent("LSTM", WIDTH, 4)).onnx(**how), spec)
    assert isinstance(model.inputs, TextFeed)
    assert not model.inputs.cut


def step_graph(*nodes: Any, **parts: Any) -> ModelProto:
    """A GRU told its lengths, with operators before it that make `s` of `x`, which is (steps, rows, width)."""
    layer = Recurrent("GRU", WIDTH, 2)
    weights = {"w": layer.w, "r": layer.r, "b": layer.b}
    end = [
        node("GRU", ["s", *weights, parts.pop("told", "lengths"), *parts.pop("h0", [])], ["Y", "H"], hidden_size=2),
        node("Squeeze", ["H", "first"], ["y"]),
    ]
    constants = [constant(name, part) for name, part in weights.items()]
    constants += [constant(name, part, np.asarray(part).dtype) for name, part in parts.items()]
    constants.append(constant("first", [0], np.int64))
    return graph(
        [*nodes, *end], [value("x", shape=("T", "N", WIDTH)), value("lengths", INT32, ("N",))], [value("y")], constants
    )


SAME = node("Identity", ["x"], ["s"])
MIXING = [
    [node("ReduceMean", ["x"], ["m"], axes=[0]), node("Sub", ["x", "m"], ["s"])],
    [node("Slice", ["x", "m1", "m9", "m0", "m1"], ["s"])],
    [node("Softmax", ["x"], ["s"], axis=0)],
    [
        node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        node("MatMul", ["x", "t"], ["a"]),
        node("MatMul", ["a", "x"], ["s"]),
    ],
    [node("CumSum", ["x", "m0s"], ["s"], reverse=1)],
    [node("Shape", ["x"], ["n"]), node("Cast", ["n"], ["c"], to=FLOAT), node("Add", ["x", "c"], ["s"])],
]


def test_only_what_treats_every_step_by_itself_lets_padding_go() -> None:
    extra = {"m1": np.array([-1]), "m9": np.array([-9]), "m0": np.array([0]), "m0s": np.array(0)}
    plain = [
        [SAME],
        [node("Relu", ["x"], ["a"]), node("MatMul", ["a", "weights"], ["s"])],
    ]
    for nodes in plain:
        assert padding_is_idle(step_graph(*nodes, weights=np.eye(WIDTH, dtype=np.float32)), ["x"], [], "y")
    for nodes in MIXING:
        assert not padding_is_idle(step_graph(*nodes, **extra), ["x"], [], "y"), nodes
    assert not padding_is_idle(step_graph(SAME), ["x"], [], "Y")
    assert not padding_is_idle(step_graph(SAME, told=""), ["x"], [], "y")
    sized = [node("Shape", ["x"], ["n"], start=0, end=1), node("Cast", ["n"], ["few"], to=INT32)]
    assert not padding_is_idle(step_graph(SAME, *sized, told="few"), ["x"], [], "y")


def test_a_text_is_shown_in_its_words(asked: Spec) -> None:
    ids = np.array([3, 1, 0, 0, 0], np.int32)
    assert describe_input(asked.described, ids) == 'comment="w2 w0"'


def test_random_texts_have_all_lengths_and_never_the_padding(numbered: Any) -> None:
    spec = numbered("<pad>")
    ids = random_inputs(spec.described, 500)
    words = np.count_nonzero(ids, axis=1)
    assert words[:2].tolist() == [1, LENGTH]
    assert set(words.tolist()) == set(range(1, LENGTH + 1))
    assert all(row[:count].all() for row, count in zip(ids, words, strict=True))
    assert 1 not in ids
    assert np.array_equal(ids, random_inputs(spec.described, 500))
    assert not np.array_equal(ids, random_inputs(spec.described, 500, seed=1))


def test_a_network_that_mixes_texts_is_refused(asked: Spec) -> None:
    made = Network(Recurrent("LSTM", WIDTH, 4)).onnx()
    made.graph.node[0].input[0] = "centred"
    made.graph.node.insert(0, node("Sub", ["x", "mean"], ["centred"]))
    made.graph.node.insert(0, node("ReduceMean", ["x"], ["mean"], axes=[0]))
    with pytest.raises(ModelError, match=says(DEPENDS_ON_BATCH)):
        loaded(made, asked)


@pytest.mark.parametrize(
    ("inputs", "feature", "says"),
    [
        ([value("x", shape=("N", "T", 4))], {}, r"shape \['N', 'T', 4\].*\[rows, 5, 3\]; correct length or vectors"),
        ([value("x", shape=("N", 7, 3))], {}, r"\[rows, 5, 3\]"),
        ([value("x", INT64, ("N", "T", 3))], {}, 'not vectors; give the network\'s list of words: vocabulary = "..."'),
        ([value("x", shape=BATCH), value("z", shape=BATCH)], {}, 'name it: input = "..."'),
        ([value("x", shape=BATCH), value("q", shape=(1, 1, 1, 1))], {}, '"q" .* is neither the words'),
        ([value("x", shape=BATCH)], {"lengths": "n"}, 'lengths: unknown input "n"; expected one of "x"'),
        ([value("x", shape=BATCH)], {"mask": "n"}, 'mask: unknown input "n"; expected one of "x"'),
        ([value("x", TensorProto.STRING, ("N", "T"))], {}, "which no text can fill"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(tmp_path: Path, inputs: Any, feature: Any, says: str) -> None:
    spec = text_spec(LENGTH, vectors=vectors(tmp_path, WIDTH)[0], **feature)
    assert spec.text is not None
    with pytest.raises(ModelError, match=says):
        plan_text(Path("network.onnx"), spec.text, lexicon_of(spec.text), [Declared(each) for each in inputs])


class Declared:
    """An input as onnxruntime describes it."""

    def __init__(self, each: Any) -> None:
        kinds = {FLOAT: "float", INT64: "int64", INT32: "int32", TensorProto.STRING: "string", TensorProto.INT8: "int8"}
        tensor = each.type.tensor_type
        self.name, self.type = each.name, f"tensor({kinds[tensor.elem_type]})"
        self.shape = [size.dim_param or size.dim_value for size in tensor.shape.dim]


def test_sides_that_look_alike_are_named_in_the_spec(numbered: Any) -> None:
    inputs = [value("a", INT64, ("N", "T")), value("b", INT64, ("N", "T")), value("lengths", INT64, ("N",))]
    with pytest.raises(ModelError, match=says(NO_WORD_INPUT)):
        loaded(counting(*inputs), numbered("<pad>"))
    feed = feed_of(numbered("<pad>", input="b", mask="a"), *inputs[:2])
    assert (feed.name, feed.mask.name if feed.mask else "") == ("b", "a")
    feed = feed_of(numbered("<pad>"), value("a", INT64, ("N", "T")), value("attention_mask", INT64, ("N", "T")))
    assert (feed.name, feed.mask.name if feed.mask else "") == ("a", "attention_mask")


def test_padding_that_nobody_names_is_no_guess(numbered: Any) -> None:
    inputs = [value("x", INT64, ("N", "T"))]
    with pytest.raises(ModelError, match=says(PADDING_UNKNOWN)):
        feed_of(numbered(), *inputs)
    with pytest.raises(ModelError, match=says(PADDING_NOT_IN_VOCABULARY, padding="zero")):
        feed_of(numbered(padding="zero"), *inputs)
    assert feed_of(numbered(padding="w3"), *inputs)(np.array([[1, 0, 0, 0, 0]]))["x"].tolist() == [[0, 3, 3, 3, 3]]
    assert feed_of(numbered(), *inputs, value("lengths", INT64, ("N",)))(np.zeros((1, 5), np.int32))["x"].sum() == 0


@pytest.mark.parametrize("ids", [np.full((1, 5), WORDS + 1), np.full((1, 5), -1), np.ones((1, 4)), np.ones(5)])
def test_rows_that_are_no_texts_are_refused(asked: Spec, ids: NDArray[Any]) -> None:
    model = loaded(Network(Recurrent("LSTM", WIDTH, 4)).onnx(), asked)
    with pytest.raises(ModelError, match=says_one_of(NOT_A_WORD_ID, NOT_TEXT_ROWS)):
        model.predict(ids)


def test_what_is_no_decision_is_shown_with_its_text(asked: Spec) -> None:
    made = counting(value("x", shape=BATCH))
    made.graph.node.append(node("Log", ["y"], ["z"]))
    made.graph.output[0].name = "z"
    with pytest.raises(ModelError, match=says(OUTPUT_NOT_DECISION)):
        loaded(made, asked).predict(random_inputs(asked.described, 20))


def test_a_python_function_gets_texts(asked: Spec) -> None:
    seen: list[str] = []
    raw = replace(asked, described=(TextFeature(name="comment"), *asked.features))

    def decide(comments: list[str]) -> list[int]:
        seen.extend(comments)
        return [int("w1" in comment.split()) for comment in comments]

    model = load_model(decide, raw)
    texts = np.array([["w1, W3!"], [" w0\n"]], object)
    assert model.predict(texts).tolist() == [0, 0]
    assert seen[-2:] == ["w1, W3!", " w0\n"]
    assert model.dtype == object
    with pytest.raises(ModelError, match=says(TEXTS_NOT_WORDS)):
        load_model(decide, asked)


def test_a_pipeline_of_texts_is_asked_in_python(asked: Spec) -> None:
    parts = ("feature_extraction.text", "linear_model", "pipeline")
    text, linear, pipeline = (pytest.importorskip(f"sklearn.{part}") for part in parts)
    comments, toxic = ["w1 w2", "w3 w1", "w4", "w5 w6 w2"], ["yes", "yes", "no", "no"]
    made = pipeline.make_pipeline(text.CountVectorizer(), linear.LogisticRegression()).fit(comments, toxic)
    model = load_model(made, replace(asked, described=(TextFeature(name="comment"), *asked.features)))
    assert "without a certificate" in model.note
    assert model.predict(np.array([["w1 w2"], ["w4"]], object)).tolist() == [1, 0]


def test_a_function_of_a_frame_gets_no_texts(asked: Spec) -> None:
    with pytest.raises(ModelError, match=says(NO_FRAMES_OF_TEXTS)):
        load_model(as_frames(len), asked)
