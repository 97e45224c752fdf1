"""Promises about hostile files: one hash is one network, built-ins cannot be shadowed, every row counts by itself."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, helper

from fairchain.errors import ModelError
from fairchain.models import Limits, OnnxModel
from fairchain.models.edit.weights import Weights, WeightUnit
from fairchain.models.inspect.activations import layers_of
from fairchain.models.inspect.cut import Cut
from fairchain.models.onnx.file_checks import (
    BUILT_IN,
    FUNCTIONS_TOO_DEEP,
    GRAPH_INSIDE,
    NOT_BESIDE_THE_MODEL,
    check_bytes,
    parse_network,
)
from fairchain.models.onnx.session import BATCH_OUT_OF_RANGE
from fairchain.system.untrusted_files import NOT_PLAIN_FILE
from tests import hostile
from tests.child import run_child
from tests.messages import says, says_one_of
from tests.networks import constant, linear, node, save
from tests.questions import spec

ROWS = np.array([[3, 0], [0, 1]], np.float32)


def refused(network: ModelProto) -> str:
    with pytest.raises(ModelError) as caught:
        OnnxModel.from_bytes(network.SerializeToString(), "network", spec())
    message = str(caught.value)
    assert message.startswith("network: ")
    assert "\n" not in message
    return message


@pytest.mark.parametrize("place", hostile.EXTERNAL)
def test_external_data_in_the_working_directory_is_never_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "weights.bin").write_bytes(hostile.WEIGHTS.tobytes())
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    network = hostile.EXTERNAL[place]()
    path = save(network, tmp_path / "model" / "network.onnx")
    with pytest.raises(ModelError, match=says_one_of(NOT_BESIDE_THE_MODEL, GRAPH_INSIDE)):
        OnnxModel(path, spec())
    assert "another file" in refused(network) or "has a graph inside" in refused(network)


def test_external_data_of_a_function_beside_the_model_are_part_of_its_hash(tmp_path: Path) -> None:
    path = save(hostile.external_in_function_default(), tmp_path / "network.onnx")
    answers, hashes = [], []
    for sign in (1, -1):
        (tmp_path / "weights.bin").write_bytes((sign * hostile.WEIGHTS).tobytes())
        model = OnnxModel(path, spec())
        answers.append(model.predict(ROWS).tolist())
        hashes.append(model.sha256)
    assert answers[0] != answers[1]
    assert hashes[0] != hashes[1]


def test_bytes_that_move_from_one_file_to_the_next_change_the_hash(tmp_path: Path) -> None:
    network = linear(hostile.WEIGHTS)
    for place, name in enumerate(("a.bin", "b.bin")):
        tensor = network.graph.initializer[place]
        tensor.ClearField("raw_data")
        tensor.data_location = tensor.EXTERNAL
        tensor.external_data.add(key="location", value=name)
        tensor.external_data.add(key="length", value=str(4 * np.prod(tensor.dims)))
    path = save(network, tmp_path / "network.onnx")
    whole = np.arange(10, dtype=np.float32).tobytes()
    hashes = set()
    for first in (16, 20, 32):
        (tmp_path / "a.bin").write_bytes(whole[:first])
        (tmp_path / "b.bin").write_bytes(whole[first:])
        hashes.add(OnnxModel(path, spec()).sha256)
    assert len(hashes) == 3


@pytest.mark.parametrize("domain", ["", "ai.onnx", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc"])
def test_functions_in_the_domains_of_built_in_operators_are_refused(domain: str) -> None:
    assert "of built-in operators" in refused(hostile.shadowing(domain))


def test_a_loop_behind_a_function_of_its_name_is_refused() -> None:
    assert "of built-in operators" in refused(hostile.shadowing_loop())


def test_every_domain_of_the_runtime_is_refused_for_functions() -> None:
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    domains = {schema.domain for schema in get_all_operator_schema()}
    assert all(not domain or f"{domain}.".startswith(BUILT_IN) for domain in domains)


def test_a_function_that_is_defined_twice_is_refused() -> None:
    assert "is defined twice" in refused(hostile.defined_twice())


@pytest.mark.parametrize(
    "damaged",
    [
        node("Gemm", ["y"], ["z"]),
        node("Cast", ["y"], ["z"], to=[1, 1]),
        node("Cast", ["y"], ["z"]),
        node("Gemm", ["y", "w"], ["z"], transA=[1]),
    ],
    ids=str,
)
def test_an_operator_without_what_it_needs_is_one_message(damaged: NodeProto) -> None:
    network = linear(hostile.WEIGHTS)
    network.graph.node.append(damaged)
    network.graph.output[0].name = "z"
    refused(network)


@pytest.mark.parametrize("what", hostile.AMBIGUOUS)
def test_a_name_with_two_meanings_is_refused(what: str) -> None:
    """The proof that rows are independent read one value where the runtime took the other."""
    assert re.search("defined twice|several values|besides its value", refused(hostile.AMBIGUOUS[what]()))


def test_a_name_that_is_used_20000_times_is_refused_at_once() -> None:
    network = linear(hostile.WEIGHTS)
    network.graph.initializer.extend(constant(str(place // 2), [1.0]) for place in range(20_000))
    assert "a tensor named" in refused(network)


def test_an_overload_that_is_not_defined_is_not_taken_for_one_that_is() -> None:
    network = hostile.defined_twice()
    network.functions.pop()
    assert OnnxModel.from_bytes(network.SerializeToString(), "network", spec()).predict(ROWS).tolist() == [1, 0]
    network.graph.node[-1].overload = "other"
    assert "operator my.F is not allowed" in refused(network)


def test_nested_functions_are_counted_in_linear_time() -> None:
    """Every function was looked at again for each one that calls it: 44 seconds for 8,000 of them."""
    looked = 0

    class Counted(dict):  # type: ignore[type-arg]
        def __getitem__(self, key: object) -> object:
            nonlocal looked
            looked += 1
            return super().__getitem__(key)

    from fairchain.models.onnx import file_checks

    def count(functions: int) -> None:
        network = hostile.nested_functions(functions)
        file_checks._expanded(
            Path("network"), network, Counted(file_checks._functions(Path("network"), network)), 20_000
        )

    with pytest.raises(ModelError, match=says(FUNCTIONS_TOO_DEEP)):
        count(4000)
    assert looked <= 3 * 4001
    looked = 0
    count(90)
    assert looked <= 3 * 91


def test_functions_below_the_limit_of_levels_are_allowed() -> None:
    network = hostile.nested_functions(40)
    assert OnnxModel.from_bytes(network.SerializeToString(), "network", spec()).predict(ROWS).tolist() == [1, 0]


@pytest.mark.parametrize("least", [16, 5000])
@pytest.mark.parametrize("how", hostile.SIZES)
def test_a_network_that_decides_by_the_number_of_rows_is_refused(how: str, least: int) -> None:
    """No trial has 5000 rows: there the graph itself shows it."""
    assert "depends on the others in its batch" in refused(hostile.decides_by_batch_size(how, least))


@pytest.mark.parametrize("first", [16, 5000])
def test_a_network_that_decides_by_the_place_in_the_batch_is_refused(first: int) -> None:
    assert "depends on the others in its batch" in refused(hostile.decides_by_position(first))


@pytest.mark.parametrize("operator", hostile.ACROSS)
def test_operators_along_the_batch_are_refused_even_if_no_trial_shows_it(operator: str) -> None:
    message = refused(hostile.works_across_rows(operator))
    assert "depends on the others in its batch: operator" in message


def test_constants_for_each_place_of_a_fixed_batch_are_refused() -> None:
    message = refused(hostile.differs_by_place_in_fixed_batch())
    assert "joins rows and values that are not rows" in message


@pytest.mark.parametrize("size", [2**16 + 1, 2**31, 2**62])
def test_a_huge_fixed_batch_is_refused_before_it_is_filled(size: int) -> None:
    assert "outside of 1 to 65,536" in refused(hostile.fixed_batch(size))


def test_the_limit_of_a_fixed_batch_can_be_set() -> None:
    content = hostile.fixed_batch(4).SerializeToString()
    assert OnnxModel.from_bytes(content, "network", spec(), Limits(batch=4)).predict(ROWS).tolist() == [1, 0]
    with pytest.raises(ModelError, match=says(BATCH_OUT_OF_RANGE, limits_batch="3")):
        OnnxModel.from_bytes(content, "network", spec(), Limits(batch=3))


def test_probes_cuts_and_repairs_work_on_the_bytes_that_were_checked(tmp_path: Path) -> None:
    """The file is replaced after it was loaded, and then removed."""
    network = linear(hostile.WEIGHTS, end="Relu")
    network.graph.node.append(node("MatMul", ["y", "w"], ["z"]))
    network.graph.output[0].name = "z"
    path = save(network, tmp_path / "network.onnx")
    model = OnnxModel(path, spec())
    save(linear(-hostile.WEIGHTS), path)
    assert [layer.operator for layer in layers_of(model, spec())] == ["Relu"]
    path.unlink()
    assert Cut(model, "y", ROWS).reaches
    assert parse_network(path, Weights(model).network({})).graph.node[-1].op_type == "MatMul"
    assert check_bytes(path, model.content, Limits()).sha256 == model.sha256


def test_message_types_are_made_once() -> None:
    """The module that defines them was executed again for every file."""
    code = (
        "import sys\\nfrom pathlib import Path\\nfrom fairchain.models.onnx import file_checks\\n"
        "made = [file_checks._messages_alone() for _ in range(3)]\\n"
        "print('onnx' in sys.modules, made[0] is made[1] is made[2])"
    )
    assert run_child(code.replace("\\n", "\n")).split() == ["False", "True"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX pipes")
@pytest.mark.parametrize("suffix", [".onnx", ".keras", ".json"])
def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path, suffix: str) -> None:
    from fairchain.models.load import load_model

    path = tmp_path / f"network{suffix}"
    os.mkfifo(path)
    with pytest.raises(ModelError, match=says(NOT_PLAIN_FILE)):
        load_model(path, spec())


def test_shapes_that_are_built_from_the_number_of_rows_are_allowed() -> None:
    """As exporters write `x.view(x.size(0), -1)`, `zeros(x.size(0), 2)` and `expand`."""
    network = linear(hostile.WEIGHTS)
    network.graph.initializer.extend(
        [constant("first", 0, np.int64), constant("axis", [0], np.int64), constant("rest", [-1], np.int64)]
    )
    network.graph.initializer.append(constant("two", [2], np.int64))
    network.graph.initializer.append(constant("shift", [[0.5, 0.5]]))
    network.graph.node.extend(
        [
            node("Shape", ["y"], ["shape"]),
            node("Gather", ["shape", "first"], ["n"], axis=0),
            node("Unsqueeze", ["n", "axis"], ["rows"]),
            node("Concat", ["rows", "rest"], ["target"], axis=0),
            node("Reshape", ["y", "target"], ["flat"]),
            node("Concat", ["rows", "two"], ["size"], axis=0),
            node("ConstantOfShape", ["size"], ["zeros"]),
            node("Expand", ["shift", "size"], ["shifts"]),
            node("Sum", ["flat", "zeros", "shifts"], ["z"]),
        ]
    )
    network.graph.output[0].name = "z"
    assert OnnxModel.from_bytes(network.SerializeToString(), "network", spec()).predict(ROWS).tolist() == [1, 0]


def test_rows_that_are_merged_with_other_axes_and_split_again_are_allowed() -> None:
    """As (batch, steps, width) is flattened for a layer and unflattened behind it."""
    nodes = [
        node("Reshape", ["x", "merged"], ["all"]),
        node("Relu", ["all"], ["active"]),
        node("Reshape", ["active", "split"], ["y"]),
    ]
    network = linear(hostile.WEIGHTS)
    del network.graph.node[:]
    network.graph.node.extend(nodes)
    network.graph.initializer.extend([constant("merged", [-1, 1], np.int64), constant("split", [-1, 2], np.int64)])
    assert OnnxModel.from_bytes(network.SerializeToString(), "network", spec()).predict(ROWS).tolist() == [0, 1]


def test_a_scalar_from_a_subgraph_is_no_way_around(tmp_path: Path) -> None:
    """Operators on the list take no graph, so that one that has a graph is refused."""
    body = helper.make_graph([node("Identity", ["x"], ["o"])], "inner", [], [])
    network = linear(hostile.WEIGHTS)
    network.graph.node.append(node("Identity", ["y"], ["z"], then_branch=body))
    assert "has a graph inside" in refused(network)


def written_out(activation: str) -> ModelProto:
    """A network whose hidden layer has an activation that older versions of ONNX write out, as `hidden`."""
    network = linear(hostile.WEIGHTS)
    network.graph.initializer.extend(
        [constant("root", 2**0.5), constant("one", 1.0), constant("half", 0.5), constant("out", np.eye(2))]
    )
    nodes = {
        "Swish": [node("Sigmoid", ["y"], ["gate"]), node("Mul", ["y", "gate"], ["hidden"])],
        "Gelu": [
            node("Div", ["y", "root"], ["scaled"]),
            node("Erf", ["scaled"], ["erf"]),
            node("Add", ["erf", "one"], ["gate"]),
            node("Mul", ["y", "gate"], ["twice"]),
            node("Mul", ["twice", "half"], ["hidden"]),
        ],
        "Mish": [
            node("Softplus", ["y"], ["soft"]),
            node("Tanh", ["soft"], ["gate"]),
            node("Mul", ["gate", "y"], ["hidden"]),
        ],
    }
    network.graph.node.extend([*nodes[activation], node("MatMul", ["hidden", "out"], ["z"])])
    network.graph.output[0].name = "z"
    return network


@pytest.mark.parametrize("activation", ["Swish", "Gelu", "Mish"])
def test_an_activation_that_is_written_out_is_one_layer_behind_its_last_operator(activation: str) -> None:
    """Whether a unit is on was read off the gate, which is on for every input."""
    model = OnnxModel.from_bytes(written_out(activation).SerializeToString(), "network", spec())
    assert [(layer.tensor, layer.operator) for layer in layers_of(model, spec())] == [("hidden", activation)]


def test_gates_that_multiply_something_else_are_layers_of_their_own() -> None:
    network = linear(hostile.WEIGHTS)
    nodes = [
        node("Sigmoid", ["y"], ["gate"]),
        node("Tanh", ["x"], ["other"]),
        node("Mul", ["gate", "other"], ["hidden"]),
        node("Identity", ["hidden"], ["z"]),
    ]
    network.graph.node.extend(nodes)
    network.graph.output[0].name = "z"
    model = OnnxModel.from_bytes(network.SerializeToString(), "network", spec())
    assert [layer.tensor for layer in layers_of(model, spec())] == ["gate", "other"]


@pytest.mark.parametrize(("axis", "keeps"), [(1, True), (2, False)])
def test_units_are_followed_through_a_sum_only_along_another_axis(axis: int, keeps: bool) -> None:
    """A sum over the units themselves was taken for one that leaves them in their places."""
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("Reshape", ["m", "steps"], ["s"]),
        node("MatMul", ["s", "v"], ["u"]),
        node("ReduceSum", ["u", "axis"], ["r"], keepdims=0),
        node("MatMul", ["r", "last"], ["y"]),
    ]
    network = linear(hostile.WEIGHTS)
    del network.graph.node[:], network.graph.initializer[:]
    network.graph.node.extend(nodes)
    units = 3 if keeps else 6
    network.graph.initializer.extend(
        [
            constant("w", np.ones((2, 6))),
            constant("steps", [0, 6, 1], np.int64),
            constant("v", np.ones((1, 3))),
            constant("axis", [axis], np.int64),
            constant("last", np.ones((units, 2))),
        ]
    )
    model = OnnxModel.from_bytes(network.SerializeToString(), "network", spec())
    last = next(block for block in Weights(model).blocks if block.tensor == "last")
    assert (last.incoming is not None) == keeps


@pytest.mark.parametrize(("axis", "keeps"), [(1, False), (2, True)])
def test_units_are_joined_in_their_order_only_along_their_own_axis(axis: int, keeps: bool) -> None:
    """Tensors of units put one after the other along another axis were taken for a row of all the units."""
    nodes = [
        node("MatMul", ["x", "v"], ["u"]),
        node("MatMul", ["x", "w"], ["t"]),
        *(node("Unsqueeze", [each, "new"], [f"{each}3"]) for each in "ut"),
        node("Concat", ["u3", "t3"], ["joined"], axis=axis),
        node("Flatten", ["joined"], ["flat"], axis=1),
        node("MatMul", ["flat", "last"], ["y"]),
    ]
    network = linear(hostile.WEIGHTS)
    del network.graph.node[:], network.graph.initializer[:]
    network.graph.node.extend(nodes)
    network.graph.initializer.extend(
        [
            constant("v", np.ones((2, 4))),
            constant("w", np.ones((2, 4))),
            constant("new", [1], np.int64),
            constant("last", np.ones((8, 2))),
        ]
    )
    model = OnnxModel.from_bytes(network.SerializeToString(), "network", spec())
    last = next(block for block in Weights(model).blocks if block.tensor == "last")
    assert last.incoming == (tuple(WeightUnit(layer, place) for layer in "ut" for place in range(4)) if keeps else None)


def test_the_third_row_of_real_features_lies_between_the_first_two() -> None:
    from fairchain.models.base import _varied
    from fairchain.spec import RealFeature

    high, low, middle = _varied([RealFeature(name="x", low=2.0, high=6.0)], 3)[:, 0]
    assert (high, low, middle) == (6.0, 2.0, 4.0)
