"""Promises about the proof that rows are independent: whatever a trial can refute is refused from the graph alone.

Every network here answers a row differently with other rows beside it, for the inputs that are tried below. A hostile
one would do so only for rare inputs, so that trials cannot replace the proof.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from fairchain.errors import ModelError
from fairchain.models import Limits
from fairchain.models.onnx.file_checks import OPERATOR_VERSIONS_DIFFER, TWO_OPERATOR_VERSIONS, check_bytes
from fairchain.models.onnx.row_independence import check_row_independence
from tests.messages import says

ROWS = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
Attack = Callable[["Graph"], Any]
ATTACKS: dict[str, Attack] = {}


class Graph:
    """A network under construction: operators by name, constants as arrays; the input is "x", (rows, 2)."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def __getattr__(self, operator: str) -> Callable[..., Any]:
        def add(*inputs: Any, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
            number = len(self.nodes)
            names = [f"{operator}{number}_{place}" for place in range(outputs)]
            given = [self.constant(each) for each in inputs]
            self.nodes.append(helper.make_node(operator, given, names, domain=domain, **attributes))
            return names[0] if outputs == 1 else names

        return add

    def constant(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        name = f"c{len(self.constants)}"
        array = np.array(value)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def rows(self) -> Any:
        """Return the number of rows, as a list of one number."""
        return self.Shape("x", start=0, end=1)

    def scaled(self, number: str) -> Any:
        """Return the inputs times a number."""
        return self.Mul("x", self.Cast(number, to=TensorProto.FLOAT))

    def model(self, output: str, batch: int | None = None, opset: int = 17) -> ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "attack",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch or "N", 2])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            self.constants,
        )
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def attack(build: Attack) -> Attack:
    ATTACKS[build.__name__] = build
    return build


def answers(network: ModelProto, rows: NDArray[Any]) -> NDArray[Any]:
    session = ort.InferenceSession(
        network.SerializeToString(), providers=["CPUExecutionProvider"], disabled_optimizers=["ConstantFolding"]
    )
    return np.asarray(session.run(None, {"x": rows})[0])


def is_dependent(network: ModelProto, batch: int | None = None, rows: NDArray[Any] = ROWS) -> bool:
    """Whether some row is answered differently in another batch, or at another place in one."""
    sizes = (1, 2, 3, 4, 8, 12) if batch is None else (batch,)
    whole = [answers(network, rows[:size]) for size in sizes]
    turned = [answers(network, rows[:size][::-1].copy())[::-1] for size in sizes]
    longest = whole[-1]
    return any(not np.allclose(each, longest[: len(each)]) for each in (*whole, *turned))


def proven(network: ModelProto, batch: int | None = None) -> bool:
    checked = check_bytes(Path("attack"), network.SerializeToString(), Limits())
    try:
        check_row_independence(checked, {"x": [None, 2]}, network.graph.output[0].name, batch)
    except ModelError:
        return False
    return True


@attack
def concatenated_remainder(g: Graph) -> Any:
    odd = g.Mod(g.rows(), [2])
    return g.scaled(g.Slice(g.Concat(odd, [5], axis=0), [0], [1]))


@attack
def gathered_remainder(g: Graph) -> Any:
    return g.scaled(g.Gather(g.Mod(g.rows(), [2]), [0]))


@attack
def sliced_remainder(g: Graph) -> Any:
    return g.scaled(g.Slice(g.Mod(g.Shape("x"), [2, 3]), [0], [1]))


@attack
def shape_of_a_slice(g: Graph) -> Any:
    return g.scaled(g.Shape(g.Slice(np.arange(100.0), [0], g.rows())))


@attack
def size_of_a_slice(g: Graph) -> Any:
    return g.scaled(g.Size(g.Slice(np.arange(100.0), [0], g.rows())))


@attack
def negative_number_of_rows(g: Graph) -> Any:
    return g.scaled(g.Where(g.Equal(g.Mul(g.rows(), [-1]), [-3]), [2], [7]))


@attack
def overflow_of_64_bits(g: Graph) -> Any:
    one = g.Add(g.Mul([2**40], [2**40]), [1])
    return g.Sub("x", g.Slice("x", [0], one, [0]))


@attack
def cast_to_32_bits(g: Graph) -> Any:
    one = g.Cast(g.Cast([2**32 + 1], to=TensorProto.INT32), to=TensorProto.INT64)
    return g.Sub("x", g.Slice("x", [0], one, [0]))


@attack
def rounding_of_a_fraction(g: Graph) -> Any:
    # 28, but 0 between numbers of 24 bits.
    small = g.Sub(g.Cast([2**31 - 100], to=TensorProto.FLOAT), g.Cast([2**31 - 128], to=TensorProto.FLOAT))
    return g.Sub("x", g.Slice("x", [0], g.Add(g.Mul(g.Cast(small, to=TensorProto.INT64), [2**30]), [1]), [0]))


@attack
def overflow_in_the_number_of_rows(g: Graph) -> Any:
    small = g.Cast(g.rows(), to=TensorProto.INT32)
    back = g.Div(g.Mul(small, np.array([2**30], np.int32)), np.array([2**30], np.int32))
    return g.scaled(g.Where(g.Equal(back, small), [2], [7]))


@attack
def division_by_an_empty_axis(g: Graph) -> Any:
    none = g.Shape(g.Slice(np.arange(2.0), [0], g.Cast([0.0], to=TensorProto.INT64)))
    none = g.Cast(none, to=TensorProto.DOUBLE)
    whole = g.Cast(g.Div(g.Mul(none, g.Cast([2**20], to=TensorProto.DOUBLE)), none), to=TensorProto.INT64)
    return g.Sub("x", g.Slice("x", [0], g.Add(g.Mul(whole, [2**12]), [1]), [0]))


@attack
def interleaved_unsqueezed_lists(g: Graph) -> Any:
    one = g.Unsqueeze(g.Concat([2], g.rows(), axis=0), [1])
    other = g.Unsqueeze(g.Concat([3], [4], axis=0), [1])
    return g.scaled(g.Gather(g.Reshape(g.Concat(one, other, axis=1), [-1]), [2]))


@attack
def backward_slice(g: Graph) -> Any:
    sizes = g.Concat([3], g.rows(), [4], axis=0)
    return g.scaled(g.Slice(g.Slice(sizes, [1], [-(2**40)], [0], [-1]), [0], [1]))


@attack
def reordered_numbers_of_rows(g: Graph) -> Any:
    count = g.rows()
    numbers = g.Range(0, g.Squeeze(count, [0]), 1)
    key = g.ReduceSum("x", [1], keepdims=0)
    _, order = g.TopK(key, count, axis=0, outputs=2)
    return g.Add("x", g.Gather("x", g.Gather(numbers, order, axis=0), axis=0))


def _order(g: Graph) -> tuple[Any, Any, Any]:
    count = g.rows()
    numbers = g.Range(0, g.Squeeze(count, [0]), 1)
    _, order = g.TopK(g.ReduceSum("x", [1], keepdims=0), count, axis=0, outputs=2)
    return count, numbers, order


@attack
def inverse_by_addition(g: Graph) -> Any:
    count, numbers, order = _order(g)
    shifted = g.ScatterElements(g.Expand([-1], count), order, numbers, axis=0, reduction="add")
    return g.Add("x", g.Gather(g.Gather("x", order, axis=0), shifted, axis=0))


@attack
def inverse_without_sorting(g: Graph) -> Any:
    count, _, order = _order(g)
    _, back = g.TopK(order, count, axis=0, largest=0, sorted=0, outputs=2)
    return g.Add("x", g.Gather(g.Gather("x", order, axis=0), back, axis=0))


@attack
def positions_that_are_regrouped(g: Graph) -> Any:
    count = g.rows()
    numbers = g.Unsqueeze(g.Range(0, g.Squeeze(count, [0]), 1), [1])
    pairs = g.Concat(numbers, g.Expand([[0]], g.Concat(count, [1], axis=0)), axis=1)
    doubled = g.GatherND("x", g.Reshape(pairs, g.Concat(g.Mul(count, [2]), [1], axis=0)))
    return g.ReduceSum(g.Reshape(doubled, g.Concat(count, [2], [2], axis=0)), [1], keepdims=0)


def _positions(g: Graph, first: Any, second: Any) -> Any:
    """Return (rows, 2, 2): for each of two places of a row the position of an element."""
    wide = g.Concat(g.rows(), [2], [1], axis=0)
    return g.Concat(g.Expand(g.Unsqueeze(first, [1, 2]), wide), g.Expand(g.Unsqueeze(second, [1, 2]), wide), axis=2)


def _numbers(g: Graph) -> Any:
    return g.Range(0, g.Squeeze(g.rows(), [0]), 1)


@attack
def rows_numbered_backwards_at_several_places(g: Graph) -> Any:
    back = g.Sub(g.Sub(g.rows(), [1]), _numbers(g))
    return g.GatherND("x", _positions(g, back, g.Mul(_numbers(g), [0])))


@attack
def a_place_that_follows_from_the_number_of_the_row(g: Graph) -> Any:
    return g.GatherND("x", _positions(g, _numbers(g), g.Mod(_numbers(g), [2])))


@attack
def numbered_positions_that_are_turned(g: Graph) -> Any:
    wide = g.Concat(g.rows(), [2], [1], axis=0)
    pairs = g.Concat(g.Expand(g.Unsqueeze(_numbers(g), [1, 2]), wide), g.Expand([[[0], [1]]], wide), axis=2)
    flat = g.Reshape(g.Transpose(pairs, perm=[1, 0, 2]), g.Concat(g.rows(), [2, 2], axis=0))
    return g.GatherND("x", flat)


def test_a_row_that_picks_from_itself_at_several_places_is_proven() -> None:
    g = Graph()
    wide = g.Concat(g.rows(), [2], [1], axis=0)
    pairs = g.Concat(g.Expand(g.Unsqueeze(_numbers(g), [1, 2]), wide), g.Expand([[[1], [0]]], wide), axis=2)
    network = g.model(g.GatherND("x", pairs))
    assert not is_dependent(network)
    assert proven(network)


@attack
def constants_spread_in_front_of_rows(g: Graph) -> Any:
    spread = g.Expand([[0.0], [1.0], [2.0], [3.0]], g.Concat([4], g.rows(), axis=0))
    return g.Mul("x", g.Gather(g.Reshape(spread, [-1]), [3]))


@attack
def a_triangle_from_the_number_of_rows(g: Graph) -> Any:
    return g.Mul("x", g.ReduceSum(g.Trilu(np.ones((20, 20)), g.Squeeze(g.rows(), [0])), keepdims=0))


@attack
def padding_by_the_number_of_rows(g: Graph) -> Any:
    pads = g.Concat([0, 0, 0], g.rows(), axis=0)
    return g.ReduceMean(g.Pad("x", pads, 1.0), axes=[1])


@attack
def padding_with_the_number_of_rows(g: Graph) -> Any:
    value = g.Squeeze(g.Cast(g.rows(), to=TensorProto.FLOAT), [0])
    return g.ReduceMean(g.Pad("x", [0, 0, 0, 1], value), axes=[1])


@attack
def a_shape_with_as_many_axes_as_rows(g: Graph) -> Any:
    made = g.ConstantOfShape(g.Tile([2], g.rows()))
    return g.Mul("x", g.ReduceSum(g.Add(made, 1.0), keepdims=0))


@attack
def a_single_unit_that_is_spread(g: Graph) -> Any:
    steps = g.Unsqueeze("x", [0])
    _, last = g.RNN(steps, np.ones((1, 1, 2)), np.ones((1, 1, 1)), hidden_size=1, outputs=2)
    wide = g.Add(g.Squeeze(last, [0]), [0.0, 1.0, 2.0, 3.0, 4.0])
    numbers = g.Range(0, g.Squeeze(g.rows(), [0]), 1)
    return g.Gather(g.Reshape(wide, [-1, 1]), numbers, axis=0)


@attack
def a_list_as_one_row_of_a_regressor(g: Graph) -> Any:
    made = g.LinearRegressor(np.arange(2.0), domain="ai.onnx.ml", coefficients=[1.0, 1.0], intercepts=[0.0], targets=1)
    size = g.Shape(made, start=0, end=1)
    numbers = g.Range(0, g.Squeeze(g.rows(), [0]), 1)
    return g.Gather(g.Reshape("x", g.Concat([-1], size, axis=0)), numbers, axis=0)


@attack
def all_axes_of_size_one_removed(g: Graph) -> Any:
    flat = g.Squeeze(g.Unsqueeze("x", [2]))
    first = g.Shape(flat, start=0, end=1)
    wide = g.Add(g.Reshape(flat, g.Concat(first, [-1], axis=0)), [[0.0, 5.0]])
    numbers = g.Range(0, g.Squeeze(g.rows(), [0]), 1)
    return g.Gather(g.ReduceSum(wide, [1]), numbers, axis=0)


@attack
def an_empty_slice_taken_for_a_whole_one(g: Graph) -> Any:
    empty = g.Shape(g.Slice(np.arange(2.0), [0], [-(2**40)]))
    end = g.Add(g.Mul(empty, [2**30]), [1])
    return g.Sub("x", g.Slice("x", [0], end, [0]))


@attack
def a_range_to_a_negative_number(g: Graph) -> Any:
    empty = g.Shape(g.Range(0, -5, 1))
    return g.Sub("x", g.Slice("x", [0], g.Add(g.Mul(empty, [-(2**30)]), [1]), [0]))


@pytest.mark.parametrize("name", ATTACKS)
def test_what_a_trial_refutes_is_not_proven(name: str) -> None:
    graph = Graph()
    network = graph.model(ATTACKS[name](graph))
    assert is_dependent(network)
    assert not proven(network)


@pytest.mark.parametrize("name", ATTACKS)
def test_what_trials_miss_because_it_is_rare_is_not_proven(name: str) -> None:
    """The same attacks, but only rows that begin with a number above 5 are answered by them."""
    graph = Graph()
    attacked = graph.Sub(ATTACKS[name](graph), "x")
    rare = graph.Cast(graph.Greater(graph.Slice("x", [0], [1], [1]), 5.0), to=TensorProto.FLOAT)
    network = graph.model(graph.Add("x", graph.Mul(attacked, rare)))
    assert not is_dependent(network)
    assert is_dependent(network, rows=ROWS + 9)
    assert not proven(network)


FIXED: dict[str, Attack] = {}


def fixed(build: Attack) -> Attack:
    FIXED[build.__name__] = build
    return build


def _bytes(g: Graph) -> Any:
    return g.Cast(g.Clip(g.Add(g.Mul("x", 10.0), 100.0), 0.0, 200.0), to=TensorProto.UINT8)


@fixed
def a_zero_point_for_each_place(g: Graph) -> Any:
    points = np.arange(12).astype(np.uint8)
    made = g.MatMulInteger(np.ones((1, 2), np.uint8), g.Transpose(_bytes(g)), np.uint8(0), points)
    return g.Cast(g.Transpose(made), to=TensorProto.FLOAT)


@fixed
def a_scale_for_each_place(g: Graph) -> Any:
    return g.DequantizeLinear(_bytes(g), np.arange(1.0, 13.0), np.zeros(12, np.uint8), axis=0)


@pytest.mark.parametrize("name", FIXED)
def test_parameters_for_each_place_of_a_fixed_batch_are_not_proven(name: str) -> None:
    graph = Graph()
    network = graph.model(FIXED[name](graph), batch=12)
    assert is_dependent(network, 12)
    assert not proven(network, 12)


@pytest.mark.parametrize("opset", [9, 13])
def test_training_that_is_asked_for_by_further_outputs_is_not_proven(opset: int) -> None:
    graph = Graph()
    ones, zeros = np.ones(2), np.zeros(2)
    network = graph.model(graph.BatchNormalization("x", ones, zeros, zeros, ones, outputs=5)[0], opset=opset)
    assert is_dependent(network)
    assert not proven(network)


def _softmax(opset: int) -> ModelProto:
    """Return a softmax along the columns by the rules of version 13, and along everything by those before."""
    graph = Graph()
    return graph.model(graph.Transpose(graph.Softmax(graph.Transpose("x"), axis=0)), opset=opset)


def test_operators_of_two_versions_are_refused() -> None:
    for first, second in ((13, 12), (12, 13)):
        network = _softmax(first)
        network.opset_import.append(helper.make_opsetid("ai.onnx", second))
        with pytest.raises(ModelError, match=says(TWO_OPERATOR_VERSIONS)):
            proven(network)


def test_a_function_of_another_version_than_the_network_is_refused() -> None:
    inner = _softmax(13).graph.node
    graph = Graph()
    network = graph.model(graph.Own("x", domain="own"), opset=12)
    network.opset_import.append(helper.make_opsetid("own", 1))
    opsets = [helper.make_opsetid("", 13)]
    network.functions.append(helper.make_function("own", "Own", ["x"], [inner[-1].output[0]], inner, opsets))
    assert is_dependent(network)
    with pytest.raises(ModelError, match=says(OPERATOR_VERSIONS_DIFFER, version="13")):
        proven(network)


def test_a_number_of_elements_that_the_runtime_cuts_to_32_bits_is_not_taken_for_a_size() -> None:
    graph = Graph()
    some = graph.Slice(np.arange(3.0), [0], graph.Cast([3.0], to=TensorProto.INT64))
    chosen = graph.TopK(some, graph.Mul([2**20], [2**20]), outputs=2)[0]
    output = graph.Sub("x", graph.Slice("x", [0], graph.Add(graph.Shape(chosen), [1]), [0]))
    network = graph.model(output)
    assert is_dependent(network)
    assert not proven(network)
