"""Promises of `model.recurrent`: states of every step are those that the operators compute, for each row its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models import OnnxModel, load_model
from fairchain.models.base import random_inputs
from fairchain.models.inspect.activations import Probe, layers_of
from fairchain.models.inspect.recurrent import SEQUENCES_ARE_NOT_ROWS, STATES_IN_ANOTHER_ORDER, StepProbe, steps_of
from fairchain.models.onnx.file_checks import RECURRENT_ADVICE
from fairchain.spec import Spec
from tests.messages import says
from tests.networks import constant, graph, node, save, value
from tests.questions import category, real, spec
from tests.sequences import Network, Recurrent, sigmoid, text_spec, vectors

LENGTH, WIDTH = 6, 3


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Spec, NDArray[np.float32]]:
    path, table = vectors(tmp_path, WIDTH)
    return text_spec(LENGTH, vectors=path), table


def loaded(network: Network, asked: Spec, **how: Any) -> OnnxModel:
    return OnnxModel.from_bytes(network.onnx(**how).SerializeToString(), "network", asked)


def sequences(table: NDArray[Any], ids: NDArray[Any], *, whole: bool) -> list[NDArray[np.float64]]:
    """What the network reads of each text: its words, or with the padding behind them."""
    padded = np.concatenate([np.zeros((1, table.shape[1])), table])[ids]
    return [rows if whole else rows[: np.count_nonzero(row)] for rows, row in zip(padded, ids, strict=True)]


def same_states(network: Network, model: OnnxModel, asked: Spec, read: list[NDArray[np.float64]], ids: Any) -> None:
    names = [name for name in network.states(read[0]) if "lstm" in name or not name.endswith(".cell")]
    shown = StepProbe(model, asked, names)(ids)
    assert shown.labels.tolist() == model.predict(ids).tolist()
    for row, sequence in enumerate(read):
        assert shown.lengths[row] == len(sequence)
        expected = network.states(sequence)
        for name in names:
            assert shown.states[name][row, : len(sequence)] == pytest.approx(expected[name], abs=1e-5), name
            assert not shown.states[name][row, len(sequence) :].any()
        assert model.scores(ids[[row]])[0] == pytest.approx(network.scores(sequence), abs=1e-4)


@pytest.mark.parametrize("time_first", [False, True])
@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN"])
def test_states_of_stacked_layers_in_both_directions(
    texts: tuple[Spec, Any], operator: str, lengths: bool, time_first: bool
) -> None:
    asked, table = texts
    network = Network(Recurrent(operator, WIDTH, 4, both=True), Recurrent(operator, 8, 2, seed=1))
    model = loaded(network, asked, time_first=time_first, lengths=lengths)
    ids = random_inputs(asked.described, 12)
    same_states(network, model, asked, sequences(table, ids, whole=not lengths), ids)


@pytest.mark.parametrize("lengths", [False, True])
def test_states_of_an_lstm_with_peepholes_that_does_not_begin_at_zero(texts: tuple[Spec, Any], lengths: bool) -> None:
    asked, table = texts
    network = Network(Recurrent("LSTM", WIDTH, 4, both=True, states=True), Recurrent("LSTM", 8, 3, seed=2))
    model = loaded(network, asked, lengths=lengths)
    ids = random_inputs(asked.described, 12)
    same_states(network, model, asked, sequences(table, ids, whole=not lengths), ids)


def test_an_embedding_inside(tmp_path: Path) -> None:
    words = ["<pad>", *(f"w{i}" for i in range(9))]
    (tmp_path / "words.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    asked = text_spec(LENGTH, vocabulary=tmp_path / "words.txt")
    table = np.random.default_rng(3).normal(0, 1, (len(words), WIDTH)).astype(np.float32)
    network = Network(Recurrent("GRU", WIDTH, 4), Recurrent("LSTM", 4, 3, both=True, seed=1))
    model = loaded(network, asked, embedding=table)
    ids = random_inputs(asked.described, 12)
    same_states(network, model, asked, list(table[np.maximum(ids - 1, 0)].astype(float)), ids)


@pytest.mark.parametrize("time_first", [False, True])
@pytest.mark.parametrize("free", [False, True])
def test_a_series_of_features(tmp_path: Path, time_first: bool, free: bool) -> None:
    steps = 4
    asked = spec(
        *(real(f"x{t}{i}", -2, 2) for t in range(steps) for i in range(WIDTH)),
        category("g", "a", "b", model_input=False),
    )
    network = Network(Recurrent("LSTM", WIDTH, 4, both=True))
    made = network.onnx(time_first=time_first)
    sizes = made.graph.input[0].type.tensor_type.shape.dim
    if not free or time_first:
        sizes[0 if time_first else 1].dim_value = steps
    model = OnnxModel.from_bytes(made.SerializeToString(), "network", asked)
    people = random_inputs(asked.features, 9)
    read = list(people[:, : steps * WIDTH].reshape(9, steps, WIDTH))
    same_states(network, model, asked, read, people.astype(model.dtype))


def test_layers_have_names_numbers_and_sizes(texts: tuple[Spec, Any]) -> None:
    network = Network(Recurrent("LSTM", WIDTH, 4, both=True), Recurrent("GRU", 8, 5), Recurrent("RNN", 5, 2))
    model = loaded(network, texts[0])
    layers = steps_of(model)
    assert [(layer.name, layer.operator, layer.units, layer.direction) for layer in layers] == [
        ("lstm1", "LSTM", 8, "bidirectional"),
        ("gru2", "GRU", 5, "forward"),
        ("rnn3", "RNN", 2, "forward"),
    ]
    assert [layer.cells for layer in layers] == [True, False, False]
    assert layers_of(model, texts[0]) == ()
    probe = StepProbe(model, texts[0], ["rnn3", "lstm1.cell", "h"])
    assert probe.units == {"rnn3": 2, "lstm1.cell": 8, "h": 2}
    shown = probe(random_inputs(texts[0].described, 5))
    assert shown.layers["h"] == pytest.approx(shown.states["rnn3"][:, -1])


def test_a_large_batch_is_looked_at_in_parts(texts: tuple[Spec, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    asked, _ = texts
    network = Network(Recurrent("LSTM", WIDTH, 4), Recurrent("GRU", 4, 2))
    model = loaded(network, asked, lengths=True)
    ids = random_inputs(asked.described, 50)
    names = ["lstm1", "lstm1.cell", "gru2", "h"]
    whole = StepProbe(model, asked, names)(ids)
    labels, (units,) = model.with_outputs(["h"]).predict_and_show(ids, ["h"])
    monkeypatch.setattr("fairchain.models.onnx.text_inputs.MOST_CALL_TEXTS", 7)
    parts = StepProbe(model, asked, names)(ids)
    for one, other in ((whole.states, parts.states), (whole.layers, parts.layers)):
        assert one.keys() == other.keys()
        for name in one:  # the network's own numbers do not change; the cells are sums of ours
            assert one[name] == pytest.approx(other[name], rel=0, abs=1e-6 if name.endswith(".cell") else 0)
    assert np.array_equal(whole.lengths, parts.lengths)
    assert whole.labels.tolist() == parts.labels.tolist() == labels.tolist() == model.predict(ids).tolist()
    assert np.array_equal(Probe(model, asked, ["h"])(ids)[1]["h"], units)


def test_rows_that_the_network_sorts_come_back_in_order(texts: tuple[Spec, Any]) -> None:
    asked, table = texts
    network = Network(Recurrent("LSTM", WIDTH, 4))
    made = network.onnx(lengths=True)
    inner = list(made.graph.node)
    del made.graph.node[:]
    # As torch packs sequences: the longest first, and back again afterwards.
    made.graph.node.extend(
        [
            node("Shape", ["lengths"], ["count"]),
            node("TopK", ["lengths", "count"], ["sorted", "order"]),
            node("TopK", ["order", "count"], ["unused", "back"], largest=0),
            node("Gather", ["x", "order"], ["x sorted"], axis=0),
        ]
    )
    for each in inner:
        each.input[:] = [{"x": "x sorted", "lengths": "sorted", "H1": "H1 back"}.get(name, name) for name in each.input]
        made.graph.node.append(each)
        if each.op_type == "LSTM":
            made.graph.node.append(node("Gather", ["H1", "back"], ["H1 back"], axis=1))
    model = OnnxModel.from_bytes(made.SerializeToString(), "network", asked)
    ids = random_inputs(asked.described, 12)
    same_states(network, model, asked, sequences(table, ids, whole=False), ids)


def test_states_of_other_rows_are_refused(texts: tuple[Spec, Any]) -> None:
    made = Network(Recurrent("LSTM", WIDTH, 4)).onnx(lengths=True)
    made.graph.initializer.extend([constant("none", 0.0), constant("axes", [1, 2], np.int64)])
    sorting = [
        node("Shape", ["lengths"], ["count"]),
        node("TopK", ["lengths", "count"], ["sorted", "order"]),
        node("TopK", ["order", "count"], ["unused", "back"], largest=0),
        node("Gather", ["x", "order"], ["x sorted"], axis=0),
        # The way on leads past the reordering, which is not found therefore.
        node("Cast", ["sorted"], ["fraction"], to=1),
        node("Mul", ["fraction", "none"], ["zero"]),
        node("Unsqueeze", ["zero", "axes"], ["zeros"]),
        node("Add", ["zeros", "x sorted"], ["turned"]),
    ]
    for each in made.graph.node:
        each.input[:] = [{"x": "turned", "lengths": "sorted"}.get(name, name) for name in each.input]
    for place, each in enumerate(sorting):
        made.graph.node.insert(place, each)
    made.graph.node.append(node("Gather", ["y", "back"], ["z"], axis=0))
    made.graph.output[0].name = "z"
    model = OnnxModel.from_bytes(made.SerializeToString(), "network", texts[0])
    with pytest.raises(ModelError, match=says(STATES_IN_ANOTHER_ORDER)):
        StepProbe(model, texts[0], ["lstm1"])


@pytest.mark.parametrize(
    ("name", "more", "says"),
    [
        ("gru2.cell", {}, "only an LSTM has cell states"),
        ("lstm1.cell", {"activations": ["Sigmoid", "Softsign", "Tanh"]}, "not for softsign; use the hidden states"),
        ("lstm1.cell", {"clip": 3.0}, "with clip or input_forget"),
        ("lstm7", {}, 'unknown layer or tensor "lstm7"'),
    ],
)
def test_cells_that_are_not_known_are_refused(texts: tuple[Spec, Any], name: str, more: Any, says: str) -> None:
    made = Network(Recurrent("LSTM", WIDTH, 4), Recurrent("GRU", 4, 2)).onnx()
    lstm = next(each for each in made.graph.node if each.op_type == "LSTM")
    lstm.attribute.extend(node("LSTM", [], [], **more).attribute)
    model = OnnxModel.from_bytes(made.SerializeToString(), "network", texts[0])
    with pytest.raises(ModelError, match=says):
        StepProbe(model, texts[0], [name])


def test_an_operator_over_the_rows_is_refused() -> None:
    asked = spec(real("x"), real("y"), category("g", "a", "b", model_input=False))
    layer = Recurrent("RNN", 2, 2)
    shapes = [constant("three", [0, 1, 2], np.int64), constant("flat", [-1, 2], np.int64)]
    nodes = [
        node("Concat", ["x", "x"], ["twice"], axis=1),
        node("Reshape", ["twice", "flat"], ["doubled"]),
        node("Unsqueeze", ["doubled", "zero"], ["steps"]),
        node("RNN", ["steps", "w", "r", "b"], ["Y"], hidden_size=2),
        node("Identity", ["x"], ["y"]),
    ]
    parts = [constant("w", layer.w), constant("r", layer.r), constant("b", layer.b), constant("zero", [0], np.int64)]
    made = graph(nodes, [value("x")], [value("y")], [*parts, *shapes])
    model = OnnxModel.from_bytes(made.SerializeToString(), "network", asked)
    with pytest.raises(ModelError, match=says(SEQUENCES_ARE_NOT_ROWS, name2="rnn1", shape="16", rows="8")):
        StepProbe(model, asked, ["rnn1"])


def test_a_loop_is_refused_with_what_to_do(tmp_path: Path, texts: tuple[Spec, Any]) -> None:
    body = graph([node("Identity", ["a"], ["b"])], [value("a")], [value("b")]).graph
    made = graph([node("Loop", ["", "", "x"], ["y"], body=body)], [value("x")], [value("y")])
    with pytest.raises(ModelError, match=says(RECURRENT_ADVICE)):
        OnnxModel(save(made, tmp_path / "network.onnx"), texts[0])


def test_a_socrates_network_reads_texts_to_their_own_end(tmp_path: Path, texts: tuple[Spec, Any]) -> None:
    asked, table = texts
    random = np.random.default_rng(4)
    sizes = [(WIDTH, 4), (4, 3)]
    layers: list[dict[str, Any]] = [
        {
            "type": "lstm",
            "weights": random.normal(0, 0.7, (4 * units, inputs + units)).tolist(),
            "bias": random.normal(0, 0.7, 4 * units).tolist(),
            "h0": random.normal(0, 0.7, units).tolist(),
            "c0": random.normal(0, 0.7, units).tolist(),
        }
        for inputs, units in sizes
    ]
    answer = random.normal(0, 1, (2, 3))
    layers.append({"type": "linear", "weights": answer.tolist(), "bias": [0.0, 0.0]})
    path = tmp_path / "network.json"
    path.write_text(json.dumps({"model": {"shape": "(1,3)", "layers": layers}}), encoding="utf-8")
    model = load_model(path, asked)
    assert isinstance(model, OnnxModel)
    ids = random_inputs(asked.described, 15)
    shown = StepProbe(model, asked, ["lstm1", "lstm2", "lstm2.cell"])(ids)
    for row, sequence in enumerate(sequences(table, ids, whole=False)):
        for number, layer in enumerate(layers[:2], start=1):
            h, c = np.array(layer["h0"]), np.array(layer["c0"])
            hidden, cells = [], []
            for step in sequence:  # the gates are input, candidate, forget, output
                gates = np.array(layer["weights"]) @ np.concatenate([step, h]) + layer["bias"]
                i, j, f, o = np.split(gates, 4)
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(j)
                h = sigmoid(o) * np.tanh(c)
                hidden.append(h)
                cells.append(c)
            sequence = np.array(hidden)  # noqa: PLW2901  # what the next layer reads
            assert shown.states[f"lstm{number}"][row, : len(sequence)] == pytest.approx(sequence, abs=1e-5)
        assert shown.states["lstm2.cell"][row, : len(sequence)] == pytest.approx(np.array(cells), abs=1e-5)
        assert model.scores(ids[[row]])[0] == pytest.approx(answer @ sequence[-1], abs=1e-5)
