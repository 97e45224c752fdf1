"""Generators of hostile ONNX files: each passes for a network with two inputs (age, sex) and two scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from tests.networks import BOOL, FLOAT, constant, graph, linear, node, value

WEIGHTS = np.array([[0.0, 1.0], [0.0, -1.0]], np.float32)


def external_tensor(location: str = "weights.bin") -> TensorProto:
    """Return a tensor of four numbers whose data are in another file."""
    tensor = TensorProto(name="w", dims=[2, 2], data_type=FLOAT, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


def _function(domain: str, name: str, nodes: list[NodeProto], **more: Any) -> FunctionProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    return helper.make_function(domain, name, ["a"], ["b"], nodes, opsets, **more)


def _calling(*functions: FunctionProto, domain: str = "my") -> ModelProto:
    """Return a linear network whose scores go through the first of these functions."""
    network = linear(WEIGHTS)
    network.functions.extend(functions)
    if domain:
        network.opset_import.append(helper.make_opsetid(domain, 1))
    network.graph.node.append(node(functions[0].name, ["y"], ["z"], domain))
    network.graph.output[0].name = "z"
    return network


def external_in_function_default() -> ModelProto:
    """Hide external data in the default value of a function's attribute."""
    weights = AttributeProto(name="value", type=AttributeProto.TENSOR, t=external_tensor())
    inner = node("Constant", [], ["w"])
    inner.attribute.add(name="value", ref_attr_name="value", type=AttributeProto.TENSOR)
    return _calling(_function("my", "F", [inner, node("MatMul", ["a", "w"], ["b"])], attribute_protos=[weights]))


def external_in_function_node() -> ModelProto:
    """Hide external data in a constant inside a function."""
    inner = [node("Constant", [], ["w"], value=external_tensor()), node("MatMul", ["a", "w"], ["b"])]
    return _calling(_function("my", "F", inner))


def _subgraph() -> GraphProto:
    inner = node("Constant", [], ["b"], value=external_tensor())
    return helper.make_graph([inner], "inner", [], [value("b")])


def external_in_subgraph() -> ModelProto:
    """Hide external data in a graph that is the attribute of an operator that takes none."""
    network = linear(WEIGHTS)
    network.graph.node.append(node("Identity", ["y"], ["z"], hidden=_subgraph()))
    network.graph.output[0].name = "z"
    return network


def external_in_training() -> ModelProto:
    """Hide external data in what a file says about training."""
    network = linear(WEIGHTS)
    network.training_info.add().algorithm.CopyFrom(_subgraph())
    return network


EXTERNAL: dict[str, Callable[[], ModelProto]] = {
    "a function's default": external_in_function_default,
    "a function's operator": external_in_function_node,
    "a subgraph": external_in_subgraph,
    "training": external_in_training,
}


def shadowing(domain: str, name: str = "Relu") -> ModelProto:
    """Define a harmless function under the name of a built-in operator, which the runtime runs in its place."""
    return _calling(_function(domain, name, [node("Identity", ["a"], ["b"])]), domain=domain)


def shadowing_loop() -> ModelProto:
    """Run a real Loop, for which a function of that name is defined."""
    body = helper.make_graph(
        [node("Identity", ["go"], ["on"]), node("Add", ["state", "state"], ["next"])],
        "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), value("go", BOOL, []), value("state")],
        [value("on", BOOL, []), value("next")],
    )
    network = linear(WEIGHTS)
    opsets = [helper.make_opsetid("", 17)]
    inner = [node("Identity", ["c"], ["d"])]
    network.functions.append(helper.make_function("", "Loop", ["a", "b", "c"], ["d"], inner, opsets))
    network.graph.initializer.append(constant("times", 3, np.int64))
    network.graph.node.append(node("Loop", ["times", "", "y"], ["z"], body=body))
    network.graph.output[0].name = "z"
    return network


def defined_twice() -> ModelProto:
    """Define one function twice, with different bodies."""
    return _calling(
        _function("my", "F", [node("Identity", ["a"], ["b"])]), _function("my", "F", [node("Neg", ["a"], ["b"])])
    )


def two_values_of_an_attribute() -> ModelProto:
    """Work along two axes, of which the runtime takes the last one, inside a function."""
    inner = node("Softmax", ["a"], ["b"])
    inner.attribute.extend(AttributeProto(name="axis", type=AttributeProto.INT, i=axis) for axis in (0, 1))
    return _calling(_function("my", "F", [inner]))


def two_defaults_of_an_attribute() -> ModelProto:
    """Give two defaults to an attribute of a function, of which the runtime takes the first one."""
    defaults = [AttributeProto(name="along", type=AttributeProto.INT, i=axis) for axis in (0, 1)]
    inner = node("Softmax", ["a"], ["b"])
    inner.attribute.add(name="axis", ref_attr_name="along", type=AttributeProto.INT)
    return _calling(_function("my", "F", [inner], attribute_protos=defaults))


def a_reference_beside_a_value() -> ModelProto:
    """Refer to an attribute of a function outside of any function; the runtime takes the value."""
    network = linear(WEIGHTS)
    made = node("Softmax", ["y"], ["z"])
    made.attribute.add(name="axis", ref_attr_name="along", type=AttributeProto.INT, i=0)
    network.graph.node.append(made)
    network.graph.output[0].name = "z"
    return network


def two_values_of_a_constant() -> ModelProto:
    """Write two numbers into one constant; the runtime takes the first one."""
    made = node("Constant", [], ["along"], value_ints=[0])
    made.attribute.append(helper.make_attribute("value", constant("", [1], np.int64)))
    nodes = [made, node("ReduceSum", ["x", "along"], ["sum"]), node("Sub", ["x", "sum"], ["y"])]
    return graph(nodes, [value("x", FLOAT, ("N", 2))], [value("y", FLOAT, ("N", 2))], [])


def two_tensors_of_one_name() -> ModelProto:
    """Write two constants of one name; the runtime takes the last one."""
    nodes = [node("ReduceSum", ["x", "along"], ["sum"]), node("Sub", ["x", "sum"], ["y"])]
    constants = [constant("along", [axis], np.int64) for axis in (0, 1)]
    return graph(nodes, [value("x", FLOAT, ("N", 2))], [value("y", FLOAT, ("N", 2))], constants)


AMBIGUOUS: dict[str, Callable[[], ModelProto]] = {
    "attribute": two_values_of_an_attribute,
    "default": two_defaults_of_an_attribute,
    "reference": a_reference_beside_a_value,
    "constant": two_values_of_a_constant,
    "tensor": two_tensors_of_one_name,
}


def nested_functions(count: int) -> ModelProto:
    """Let every function call the next one, in the order in which they are hardest to count."""
    functions = [_function("my", f"F{i}", [node(f"F{i + 1}", ["a"], ["b"], "my")]) for i in range(count)]
    return _calling(*functions, _function("my", f"F{count}", [node("Identity", ["a"], ["b"])]))


def _scores(*nodes: NodeProto, constants: tuple[TensorProto, ...] = (), batch: int | str = "N") -> ModelProto:
    """Return a network from x to y through these operators."""
    return graph(nodes, [value("x", FLOAT, (batch, 2))], [value("y", FLOAT, (batch, 2))], constants)


def _fair_or_not(*nodes: NodeProto, constants: tuple[TensorProto, ...] = ()) -> ModelProto:
    """Decide by age where the tensor `fair` (one number, or one for each row) is 1, and by sex where it is 0."""
    fixed = (constant("by_age", [[0, 1], [0, 0]]), constant("by_sex", [[0, 0], [0, 9]]), *constants)
    last = (
        node("MatMul", ["x", "by_age"], ["aged"]),
        node("MatMul", ["x", "by_sex"], ["sexed"]),
        node("Sub", ["aged", "sexed"], ["difference"]),
        node("Mul", ["difference", "fair"], ["part"]),
        node("Add", ["sexed", "part"], ["y"]),
    )
    return _scores(*nodes, *last, constants=fixed)


def _from_count(*count: NodeProto) -> list[NodeProto]:
    """Make `fair` from the number of rows, `n`: 1 if it is at least `least`."""
    return [
        *count,
        node("Cast", ["n"], ["real"], to=FLOAT),
        node("Sub", ["real", "below"], ["more"]),
        node("Clip", ["more", "zero", "one"], ["fair"]),
    ]


def decides_by_batch_size(how: str = "Shape", least: int = 16) -> ModelProto:
    """Decide by sex in batches of fewer rows, and by age from so many rows on."""
    ones = node("ConstantOfShape", ["shape"], ["ones"], value=helper.make_tensor("v", FLOAT, [1], [1.0]))
    shape, first = node("Shape", ["x"], ["shape"]), constant("first", [0], np.int64)
    ways = {
        "Shape": [shape, node("Gather", ["shape", "first"], ["n"])],
        "Size": [node("Size", ["x"], ["both"]), node("Div", ["both", "two"], ["n"])],
        "ReduceSum": [
            shape,
            ones,
            node("ReduceSum", ["ones"], ["both"], keepdims=0),
            node("Identity", ["both"], ["n"]),
        ],
        "NonZero": [shape, ones, node("NonZero", ["ones"], ["at"]), node("ReduceMax", ["at"], ["n"], keepdims=0)],
        "Slice": [
            shape,
            ones,
            node("Slice", ["ones", "last", "many", "first"], ["rest"]),
            node("ReduceSum", ["rest"], ["sum"], keepdims=0),
            node("Add", ["sum", "below"], ["n"]),
        ],
    }
    constants = (
        first,
        constant("two", 2, np.int64),
        constant("zero", 0.0),
        constant("one", 1.0),
        constant("below", least - 1.0),
        constant("last", [least - 1], np.int64),
        constant("many", [10**6], np.int64),
    )
    return _fair_or_not(*_from_count(*ways[how]), constants=constants)


SIZES = ("Shape", "Size", "ReduceSum", "NonZero", "Slice")


def decides_by_position(first: int = 16) -> ModelProto:
    """Decide by sex in the first rows of a batch, and by age behind them."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "first"], ["count"]),
        node("Squeeze", ["count", "first"], ["n"]),
        node("Range", ["start", "n", "step"], ["places"]),
        node("Cast", ["places"], ["real"], to=FLOAT),
        node("Unsqueeze", ["real", "second"], ["column"]),
        node("Sub", ["column", "below"], ["more"]),
        node("Clip", ["more", "zero", "one"], ["fair"]),
    ]
    constants = (
        constant("first", [0], np.int64),
        constant("second", [1], np.int64),
        constant("start", 0, np.int64),
        constant("step", 1, np.int64),
        constant("zero", 0.0),
        constant("one", 1.0),
        constant("below", first - 1.0),
    )
    return _fair_or_not(*nodes, constants=constants)


def _rarely(*nodes: NodeProto, constants: tuple[TensorProto, ...] = ()) -> ModelProto:
    """Let `mixed`, which combines rows, matter only beyond a value that no random row has."""
    last = (
        node("Sub", ["mixed", "never"], ["above"]),
        node("Relu", ["above"], ["rare"]),
        node("Add", ["x", "rare"], ["y"]),
    )
    return _scores(*nodes, *last, constants=(constant("never", 1e6), *constants))


def works_across_rows(operator: str) -> ModelProto:
    """Combine the rows of a batch by an operator along the batch axis, in a way that trials do not show."""
    axis = constant("axis", 0, np.int64)
    axes = constant("axes", [0], np.int64)
    if operator in ("Softmax", "LpNormalization", "Hardmax"):
        return _rarely(node(operator, ["x"], ["mixed"], axis=0))
    if operator == "CumSum":
        return _rarely(node("CumSum", ["x", "axis"], ["mixed"]), constants=(axis,))
    if operator == "ReduceSum":
        return _rarely(node("ReduceSum", ["x", "axes"], ["mixed"]), constants=(axes,))
    if operator == "TopK":
        nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "axes"], ["n"])]
        return _rarely(*nodes, node("TopK", ["x", "n"], ["mixed", "i"], axis=0), constants=(axes,))
    if operator == "MatMul":
        square = [node("Transpose", ["x"], ["t"]), node("MatMul", ["t", "x"], ["square"])]
        return _rarely(*square, node("MatMul", ["x", "square"], ["mixed"]))
    if operator == "Gather":
        return _rarely(node("Gather", ["x", "axes"], ["mixed"], axis=0), constants=(axes,))
    if operator == "DynamicQuantizeLinear":
        nodes = [node(operator, ["x"], ["q", "scale", "zero"]), node("Mul", ["x", "scale"], ["mixed"])]
        return _rarely(*nodes)
    if operator == "Einsum":
        return _rarely(node("Einsum", ["x", "x"], ["mixed"], equation="ij,kj->ij"))
    if operator == "Reshape":
        nodes = [
            node("Reshape", ["x", "flat"], ["row"]),
            node("ReduceMax", ["row"], ["mixed"], axes=[1]),
        ]
        return _rarely(*nodes, constants=(constant("flat", [1, -1], np.int64),))
    if operator == "Conv":
        nodes = [
            node("Reshape", ["x", "picture"], ["p"]),
            node("Conv", ["p", "kernel"], ["c"], pads=[1, 0, 1, 0]),
            node("Reshape", ["c", "back"], ["mixed"]),
        ]
        kernel = constant("kernel", np.ones((1, 1, 3, 1)))
        shapes = (constant("picture", [1, 1, -1, 2], np.int64), constant("back", [-1, 2], np.int64))
        return _rarely(*nodes, constants=(kernel, *shapes))
    raise KeyError(operator)


ACROSS = (
    *("Softmax", "LpNormalization", "Hardmax", "CumSum", "ReduceSum", "TopK", "MatMul", "Gather"),
    *("DynamicQuantizeLinear", "Einsum", "Reshape", "Conv"),
)


def fixed_batch(size: int) -> ModelProto:
    """Return a network that claims to take this many rows at a time."""
    return linear(WEIGHTS, batch=size)


def differs_by_place_in_fixed_batch(size: int = 4) -> ModelProto:
    """Add another constant to every row of a fixed batch, beyond a value that no random row has."""
    table = constant("table", np.arange(2 * size).reshape(size, 2) * 1e6)
    nodes = [
        node("Sub", ["x", "table"], ["far"]),
        node("Sub", ["far", "never"], ["farther"]),
        node("Relu", ["farther"], ["rare"]),
        node("Add", ["x", "rare"], ["y"]),
    ]
    return _scores(*nodes, constants=(table, constant("never", 1e6)), batch=size)
