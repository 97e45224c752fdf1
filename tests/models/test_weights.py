"""Weights: whose they are, whatever the layout, and a file with others in place that is otherwise the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import ModelProto

from fairchain.errors import ModelError
from fairchain.models import OnnxModel
from fairchain.models.base import random_inputs
from fairchain.models.edit.candidates import Tunable, first_source, input_means
from fairchain.models.edit.weights import NO_WEIGHTS, Weights, WeightUnit
from fairchain.spec import Spec
from tests.messages import says
from tests.networks import constant, graph, node, value
from tests.questions import category, integer, real, spec

QUESTION = spec(integer("a"), real("b"), integer("c"))
RANDOM = np.random.default_rng(1)
W1, B1 = RANDOM.normal(size=(3, 5)), RANDOM.normal(size=5)
W2, B2 = RANDOM.normal(size=(5, 2)), RANDOM.normal(size=2)


def network(
    nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto], width: int = 3, ml: bool = False
) -> ModelProto:
    return graph(nodes, [value("x", shape=("N", width))], [value("y")], constants, ml)


def gemm(transposed: bool = False) -> ModelProto:
    turn = np.transpose if transposed else np.asarray
    return network(
        [
            node("Gemm", ["x", "w1", "b1"], ["h"], transB=int(transposed)),
            node("Relu", ["h"], ["r"]),
            node("Gemm", ["r", "w2", "b2"], ["y"], transB=int(transposed)),
        ],
        [constant("w1", turn(W1)), constant("b1", B1), constant("w2", turn(W2)), constant("b2", B2)],
    )


def matmul() -> ModelProto:
    return network(
        [
            node("MatMul", ["x", "w1"], ["m1"]),
            node("Add", ["m1", "b1"], ["h"]),
            node("Relu", ["h"], ["r"]),
            node("MatMul", ["r", "w2"], ["m2"]),
            node("Add", ["b2", "m2"], ["y"]),
        ],
        [constant("w1", W1), constant("b1", B1), constant("w2", W2), constant("b2", B2)],
    )


def in_constants() -> ModelProto:
    """Weights in Constant nodes and behind Identity, as some exporters write them."""
    return network(
        [
            node("Constant", [], ["w1"], value=constant("", W1)),
            node("Gemm", ["x", "w1", "b1"], ["h"]),
            node("Relu", ["h"], ["r"]),
            node("Identity", ["stored"], ["w2"]),
            node("Gemm", ["r", "w2", "b2"], ["y"]),
        ],
        [constant("b1", B1), constant("stored", W2), constant("b2", B2)],
    )


def load(model: ModelProto, asked: Spec = QUESTION) -> OnnxModel:
    return OnnxModel.from_bytes(model.SerializeToString(), "network.onnx", asked)


def scores(content: bytes, people: np.ndarray, asked: Spec = QUESTION) -> np.ndarray:
    return OnnxModel.from_bytes(content, "changed.onnx", asked).scores(people)


def scaled(weights: Weights, unit: WeightUnit, factor: float) -> bytes:
    changed = {}
    for block, entries in weights.outgoing(unit):
        changed[block.tensor] = array = weights.values[block.tensor].copy()
        np.moveaxis(array, block.axis, 0)[entries] *= factor
    return weights.network(changed)


PEOPLE = random_inputs(QUESTION.features, 50).astype(np.float32)


@pytest.mark.parametrize(
    "make", [gemm, lambda: gemm(True), matmul, in_constants], ids=["B", "transB", "MatMul", "Constant"]
)
def test_scaling_what_leaves_a_unit_is_scaling_the_unit(make) -> None:  # type: ignore[no-untyped-def]
    weights = Weights(load(make()))
    half = PEOPLE * np.array([1, 0.5, 1], np.float32)
    original = make().SerializeToString()
    np.testing.assert_allclose(
        scores(scaled(weights, WeightUnit("", 1), 0.5), PEOPLE), scores(original, half), rtol=1e-4
    )

    hidden = np.maximum(PEOPLE @ W1.astype(np.float32) + B1.astype(np.float32), 0)
    hidden[:, 3] = 0
    neuron = weights.unit("r", 3)
    assert neuron is not None
    expected = hidden @ W2 + B2
    np.testing.assert_allclose(scores(scaled(weights, neuron, 0.0), PEOPLE), expected, rtol=1e-3, atol=1e-4)


def test_nothing_changed_is_the_same_file() -> None:
    for model in (gemm(), matmul(), in_constants()):
        content = model.SerializeToString()
        assert Weights(load(model)).network({}) == content


def test_only_the_initialisers_that_were_given_become_others() -> None:
    model = gemm()
    model.producer_name, model.doc_string = "somebody", "with a remark"
    entry = model.metadata_props.add()
    entry.key, entry.value = "licence", "ours"
    weights = Weights(load(model))
    changed = onnx.load_from_string(weights.network({"w1": weights.values["w1"] * 2}))
    onnx.checker.check_model(changed)
    for tensor in changed.graph.initializer:
        if tensor.name == "w1":
            np.testing.assert_allclose(onnx.numpy_helper.to_array(tensor), W1.astype(np.float32) * 2)
            tensor.CopyFrom(constant("w1", W1))
    assert changed == model


def test_a_tensor_that_two_layers_share_is_changed_for_one_of_them_only() -> None:
    square = RANDOM.normal(size=(3, 3))
    model = network(
        [
            node("Gemm", ["x", "w", "b"], ["h1"]),
            node("Tanh", ["h1"], ["t"]),
            node("Gemm", ["t", "w", "b"], ["h2"]),
            node("Gemm", ["h2", "last"], ["y"]),
        ],
        [constant("w", square), constant("b", np.zeros(3)), constant("last", RANDOM.normal(size=(3, 2)))],
    )
    weights = Weights(load(model))
    first, second = weights.blocks[0], weights.blocks[1]
    assert first.tensor != second.tensor
    assert first.bias != second.bias
    changed = onnx.load_from_string(weights.network({second.tensor: weights.values[second.tensor] * 3}))
    held = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in changed.graph.initializer}
    np.testing.assert_allclose(held[changed.graph.node[0].input[1]], square.astype(np.float32))
    np.testing.assert_allclose(held[changed.graph.node[2].input[1]], square.astype(np.float32) * 3)


@pytest.mark.parametrize("operator", ["Gemm", "MatMul"])
def test_a_layer_without_a_bias_gets_one_when_it_is_needed(operator: str) -> None:
    model = network(
        [node(operator, ["x", "w1"], ["h"]), node("Relu", ["h"], ["r"]), node(operator, ["r", "w2"], ["y"])],
        [constant("w1", W1), constant("w2", W2)],
    )
    weights = Weights(load(model))
    assert weights.network({}) == model.SerializeToString()
    bias = weights.blocks[1].bias
    assert bias is not None
    assert not weights.values[bias].any()
    moved = weights.network({bias: np.array([1.0, -2.0], np.float32)})
    onnx.checker.check_model(onnx.load_from_string(moved))
    np.testing.assert_allclose(
        scores(moved, PEOPLE), scores(model.SerializeToString(), PEOPLE) + np.array([1.0, -2.0]), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("operator", ["Gemm", "MatMul"])
def test_units_of_a_layer_without_a_bias_are_known(operator: str) -> None:
    model = network(
        [node(operator, ["x", "w1"], ["h"]), node("Relu", ["h"], ["r"]), node(operator, ["r", "w2"], ["y"])],
        [constant("w1", W1), constant("w2", W2)],
    )
    weights = Weights(load(model))
    neuron = weights.unit("r", 3)
    assert neuron == WeightUnit("h", 3)
    hidden = np.maximum(PEOPLE @ W1.astype(np.float32), 0)
    hidden[:, 3] = 0
    np.testing.assert_allclose(scores(scaled(weights, neuron, 0.0), PEOPLE), hidden @ W2, rtol=1e-3, atol=1e-4)


def test_a_shared_tensor_has_the_same_name_whether_a_bias_is_added_or_not() -> None:
    square = RANDOM.normal(size=(3, 3))
    model = network(
        [node("MatMul", ["x", "w"], ["h"]), node("MatMul", ["h", "w"], ["z"]), node("MatMul", ["z", "last"], ["y"])],
        [constant("w", square), constant("last", RANDOM.normal(size=(3, 2)))],
    )
    weights = Weights(load(model))
    tensor = weights.blocks[1].tensor
    changed = onnx.load_from_string(weights.network({tensor: weights.values[tensor] * 3}))
    onnx.checker.check_model(changed)
    held = {each.name: onnx.numpy_helper.to_array(each) for each in changed.graph.initializer}
    np.testing.assert_allclose(held[changed.graph.node[1].input[1]], square.astype(np.float32) * 3)


def test_a_file_of_the_first_format_stays_valid_with_one_initialiser_more() -> None:
    model = network(
        [node("Gemm", ["x", "w1"], ["h"]), node("Relu", ["h"], ["r"]), node("Gemm", ["r", "w2"], ["y"])],
        [constant("w1", W1), constant("w2", W2)],
    )
    model.ir_version = 3
    for tensor in model.graph.initializer:
        model.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    onnx.checker.check_model(model)
    weights = Weights(load(model))
    assert onnx.load_from_string(weights.network({"w1": weights.values["w1"] * 2})).ir_version == 3
    bias = weights.blocks[0].bias
    assert bias is not None
    onnx.checker.check_model(onnx.load_from_string(weights.network({bias: weights.values[bias] + 1})))


def test_units_are_not_followed_through_a_transposition_that_mixes_their_order() -> None:
    turned = onnx.helper.make_node("Transpose", ["c"], ["t"], perm=[0, 2, 1])
    model = network(
        [
            node("Gemm", ["x", "w1", "b1"], ["h"]),
            node("Reshape", ["h", "cube"], ["c"]),
            turned,
            node("Flatten", ["t"], ["f"]),
            node("Gemm", ["f", "w2", "b2"], ["y"]),
        ],
        [
            constant("w1", RANDOM.normal(size=(3, 6))),
            constant("b1", np.zeros(6)),
            onnx.numpy_helper.from_array(np.array([-1, 2, 3]), "cube"),
            constant("w2", RANDOM.normal(size=(6, 2))),
            constant("b2", np.zeros(2)),
        ],
    )
    assert Weights(load(model)).outgoing(WeightUnit("h", 1)) == []


def laid_out(kind: str, *between: onnx.NodeProto, wide: int = 8) -> OnnxModel:
    """Four units for each of two steps, as (N, 2, 4), or as the channels of a convolution, (N, 4, 2), and a layer."""
    shape = [0, 2, 2] if kind == "MatMul" else [0, 1, 3]
    nodes = [
        node("MatMul", ["x", "first"], ["m"]),
        node("Reshape", ["m", "shape"], ["s"]),
        node(kind, ["s", "v"], ["u"]),
        *between,
        node("MatMul", ["f", "last"], ["y"]),
    ]
    constants = [
        constant("first", RANDOM.normal(size=(3, int(np.prod(shape[1:]))))),
        onnx.numpy_helper.from_array(np.array(shape), "shape"),
        constant("v", RANDOM.normal(size=(2, 4) if kind == "MatMul" else (4, 1, 2))),
        constant("c", [[[0.5, 1.5]]]),
        constant("last", RANDOM.normal(size=(wide, 2))),
        *(onnx.numpy_helper.from_array(np.array([axis]), f"axis{axis}") for axis in (1, 2, 3)),
    ]
    return load(network(nodes, constants))


FLAT = node("Flatten", ["t"], ["f"])
TURNED = node("Transpose", ["u"], ["t"], perm=[0, 2, 1])


@pytest.mark.parametrize(
    ("model", "known"),
    [
        (laid_out("MatMul", node("Relu", ["u"], ["t"]), FLAT), True),
        (laid_out("Conv", node("Relu", ["u"], ["t"]), FLAT), True),
        (laid_out("MatMul", TURNED, FLAT), False),
        (laid_out("Conv", TURNED, FLAT), False),
        (laid_out("MatMul", node("Concat", ["u", "u"], ["t"], axis=1), FLAT, wide=16), False),
        (laid_out("MatMul", node("Concat", ["u", "u"], ["t"], axis=2), FLAT, wide=16), True),
        (laid_out("Conv", node("Concat", ["u", "u"], ["t"], axis=1), FLAT, wide=16), True),
        (laid_out("Conv", node("Concat", ["u", "u"], ["t"], axis=2), FLAT, wide=16), False),
        (laid_out("Conv", node("MaxPool", ["u"], ["t"], kernel_shape=[2]), FLAT, wide=4), True),
        (laid_out("MatMul", node("MaxPool", ["u"], ["t"], kernel_shape=[1]), FLAT), False),
        (laid_out("MatMul", node("ReduceSum", ["u", "axis1"], ["f"], keepdims=0), wide=4), True),
        (laid_out("Conv", node("ReduceSum", ["u", "axis2"], ["f"], keepdims=0), wide=4), True),
        (laid_out("Conv", node("Mul", ["u", "c"], ["t"]), FLAT), True),
        (
            laid_out("MatMul", node("Unsqueeze", ["u", "axis3"], ["w"]), node("Mul", ["w", "c"], ["t"]), FLAT, wide=16),
            False,
        ),
    ],
)
def test_entries_of_a_tensor_that_is_laid_flat_are_those_that_their_unit_changes(model: OnnxModel, known: bool) -> None:
    """Units of two steps were taken for channels, whose entries are in a row: a repair changed other weights."""
    weights = Weights(model)
    last = next(block for block in weights.blocks if block.tensor == "last")
    assert (last.incoming is not None) == known
    before = model.with_outputs(["f"]).run(PEOPLE, ["f"])[0]
    for number in range(4 if known else 0):
        values = weights.values["v"].copy()
        np.moveaxis(values, 0 if values.ndim == 3 else 1, 0)[number] += 1.5
        changed = OnnxModel.from_bytes(weights.network({"v": values}), "changed.onnx", QUESTION)
        after = changed.with_outputs(["f"]).run(PEOPLE, ["f"])[0]
        assert last.entries(WeightUnit("u", number)) == np.flatnonzero((before != after).any(axis=0)).tolist()


def test_a_tunable_network_decides_like_the_saved_one() -> None:
    model = load(gemm())
    weights = Weights(model)
    people = random_inputs(QUESTION.features, 10_000)
    for tensors in (["w1", "b2"], ["w2"], ["b2"]):
        tunable = Tunable(model, weights, tensors)
        prepared = tunable.prepare(people)
        np.testing.assert_array_equal(tunable.decide(prepared, {}), model.predict(people.astype(np.float32)))
        other = {name: weights.values[name] * 0.3 + 1 for name in tensors}
        saved = OnnxModel.from_bytes(weights.network(other), "saved.onnx", QUESTION)
        labels = tunable.decide(prepared, other)
        assert labels is not None
        assert np.mean(labels != saved.predict(people.astype(np.float32))) < 0.001
        broken = {tensors[0]: np.full_like(weights.values[tensors[0]], np.nan)}
        assert tunable.decide(prepared, broken) is None


def test_what_stands_before_the_first_change_is_computed_once() -> None:
    weights = Weights(load(gemm()))
    assert first_source(weights.blocks, ["w2"]) == "r"
    assert first_source(weights.blocks, ["b2", "b1"]) == "x"
    assert first_source(weights.blocks, []) is None
    prepared = Tunable(load(gemm()), weights, ["b2"]).prepare(random_inputs(QUESTION.features, 5000))
    assert [set(feed) for _, feed in prepared.calls] == [{"r"}, {"r"}]


def test_the_mean_of_what_flows_in_is_known_for_inputs_and_neurons() -> None:
    model = load(gemm())
    weights = Weights(model)
    means = input_means(model, weights.blocks, PEOPLE)
    np.testing.assert_allclose(means["x"], PEOPLE.mean(axis=0), rtol=1e-5)
    hidden = np.maximum(PEOPLE @ W1.astype(np.float32) + B1.astype(np.float32), 0)
    np.testing.assert_allclose(means["r"], hidden.mean(axis=0), rtol=1e-3)


def test_features_are_found_behind_scalers_one_hot_spans_and_joined_inputs() -> None:
    asked = spec(integer("a"), category("b", "p", "q", "r", one_hot=True), integer("c"))
    scaler = node("Scaler", ["x"], ["s"], "ai.onnx.ml", offset=[1.0] * 5, scale=[0.5] * 5)
    model = network(
        [scaler, node("Gemm", ["s", "w", "b"], ["y"])],
        [constant("w", np.ones((5, 2))), constant("b", np.zeros(2))],
        5,
        ml=True,
    )
    (block,) = Weights(load(model, asked)).blocks
    assert [block.entries(WeightUnit("", place)) for place in range(3)] == [[0], [1, 2, 3], [4]]

    joined = graph(
        [node("Concat", ["c", "a"], ["j"], axis=1), node("Gemm", ["j", "w", "b"], ["y"])],
        [value("a", shape=("N", 1)), value("c", shape=("N", 1))],
        [value("y")],
        [constant("w", np.ones((2, 2))), constant("b", np.zeros(2))],
    )
    (block,) = Weights(load(joined, spec(integer("a"), integer("c")))).blocks
    assert [block.entries(WeightUnit("", place)) for place in range(2)] == [[1], [0]]


def test_a_recurrent_layer_has_weights_for_inputs_and_for_its_own_cells() -> None:
    cells = 3
    shapes = {"W": (1, 4 * cells, 3), "R": (1, 4 * cells, cells), "B": (1, 8 * cells)}
    model = network(
        [
            node("Unsqueeze", ["x", "axis"], ["steps"]),
            node("LSTM", ["steps", "W", "R", "B"], ["", "Y_h"], hidden_size=cells),
            node("Squeeze", ["Y_h", "axis"], ["h"]),
            node("Gemm", ["h", "w2", "b2"], ["y"]),
        ],
        [
            *(constant(name, RANDOM.normal(size=shape)) for name, shape in shapes.items()),
            constant("w2", RANDOM.normal(size=(cells, 2))),
            constant("b2", np.zeros(2)),
            constant("axis", [0], np.int64),
        ],
    )
    weights = Weights(load(model))
    cell = weights.unit("h", 1)
    assert cell is not None
    assert [(block.tensor, entries) for block, entries in weights.outgoing(cell)] == [("R", [1]), ("w2", [1])]
    assert [block.tensor for block, _ in weights.outgoing(WeightUnit("", 0))] == ["W"]
    # One step from a state of zeros: R has no part in it, so without its way out a cell is as good as gone.
    assert first_source(weights.blocks, ["R"]) == "steps"
    quiet = scores(scaled(weights, cell, 0.0), PEOPLE)
    assert not np.allclose(quiet, scores(model.SerializeToString(), PEOPLE))


def test_a_network_without_changeable_weights_says_so() -> None:
    model = graph(
        [
            node("LinearClassifier", ["x"], ["label", "z"], "ai.onnx.ml", coefficients=[1.0] * 6, intercepts=[0.0, 0.0],
                 classlabels_ints=[0, 1]),
            node("Identity", ["z"], ["y"]),
        ],
        [value("x", shape=("N", 3))],
        [value("y")],
        ml=True,
    )  # fmt: skip
    with pytest.raises(ModelError, match=says(NO_WEIGHTS)):
        Weights(load(model))


def test_a_pipeline_of_scikit_learn_can_be_changed_inside() -> None:
    from skl2onnx import to_onnx
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    people = random_inputs(QUESTION.features, 200).astype(np.float32)
    truth = (people[:, 0] > 4).astype(int)
    pipeline = make_pipeline(StandardScaler(), MLPClassifier((4,), max_iter=2, random_state=0))
    with np.errstate(all="ignore"), pytest.warns(UserWarning, match="Maximum iterations"):
        pipeline.fit(people, truth)
    exported = to_onnx(pipeline, people[:1], options={"zipmap": False}, target_opset=17)
    model = OnnxModel.from_bytes(exported.SerializeToString(), "pipeline.onnx", QUESTION)
    weights = Weights(model)
    assert [entries for _, entries in weights.outgoing(WeightUnit("", 1))] == [[1]]
    silent = OnnxModel.from_bytes(scaled(weights, WeightUnit("", 1), 0.0), "changed.onnx", QUESTION)
    other = people.copy()
    other[:, 1] = 1 - other[:, 1]
    np.testing.assert_array_equal(silent.predict(people), silent.predict(other))
