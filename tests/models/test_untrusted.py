"""Promises of `model.untrusted`: a hostile or damaged file ends in a ModelError, quickly, and reads nothing else."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import numpy as np
import pytest
from onnx import FunctionProto, ModelProto, NodeProto, SparseTensorProto, TensorProto, helper

from fairchain.errors import ModelError
from fairchain.examples import example
from fairchain.models import Limits, OnnxModel
from fairchain.models.onnx.file_checks import NO_MODEL_FILE
from fairchain.models.onnx.runtime import CALL_TOO_SLOW
from fairchain.system.untrusted_files import TOO_LARGE
from tests.child import run_child
from tests.messages import says
from tests.networks import constant, graph, linear, node, save, value
from tests.questions import spec

WEIGHTS = np.array([[0.0, 1.0], [0.0, -1.0]], np.float32)
ROWS = np.array([[3, 0], [0, 1]], np.float32)

# Loads the network sys.argv[1] with a limit of sys.argv[2] seconds and says how that ended and what it took.
ASK = """
import sys, time
import numpy as np
from fairchain.errors import ModelError
from fairchain.models import Limits, OnnxModel
from tests.questions import spec
start = time.monotonic()
try:
    OnnxModel(sys.argv[1], spec(), Limits(seconds=float(sys.argv[2]))).predict(np.ones((3, 2), np.float32))
    print("answered")
except ModelError as error:
    print("refused", "".join(str(error).split("\\n")[:1]))
print(time.monotonic() - start)
# Not ru_maxrss, which Linux carries over from the process that started this one.
with open("/proc/self/status") as status:
    print(next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:")))
"""


def refused(path: Path, limits: Limits | None = None) -> str:
    with pytest.raises(ModelError) as caught:
        OnnxModel(path, spec(), limits)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


def ask(path: Path, seconds: float = 2.0) -> tuple[str, float, float]:
    """How it ended, seconds and megabytes, in a process of its own."""
    ended, took, memory = run_child(ASK, path, seconds).splitlines()
    return ended, float(took), float(memory)


def test_a_missing_file_says_where_it_was_looked_for(tmp_path: Path) -> None:
    assert NO_MODEL_FILE in refused(tmp_path / "nothing.onnx")


def test_a_folder_is_no_network(tmp_path: Path) -> None:
    assert "must name an ONNX file" in refused(tmp_path)


def test_a_name_that_cannot_be_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        OnnxModel(tmp_path / "a\0b.onnx", spec())


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (b"name,age\nAnn,3\n", "not an ONNX file"),
        (b"\x80\x04\x95 a pickle, perhaps", "not an ONNX file"),
        (b"\x00" * 100, "not an ONNX file"),
        (b"\xff" * 100, "not an ONNX file"),
        (ModelProto(ir_version=8).SerializeToString(), "no network"),
    ],
)
def test_a_file_that_is_no_network_says_so(tmp_path: Path, content: bytes, word: str) -> None:
    (tmp_path / "network.onnx").write_bytes(content)
    assert word in refused(tmp_path / "network.onnx")


@pytest.mark.parametrize("name", ["census", "credit"])
def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path: Path, name: str) -> None:
    whole = example(name).with_suffix(".onnx").read_bytes()
    lengths = [*range(1, 60), *range(60, len(whole), 331), *range(len(whole) - 12, len(whole))]
    path = tmp_path / "network.onnx"
    for length in lengths:
        path.write_bytes(whole[:length])
        refused(path)


@pytest.mark.parametrize("kind", ["zero", "pipe"])
def test_a_file_without_an_end_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "network.onnx"
    if kind == "zero":
        path.symlink_to("/dev/zero")
    else:
        os.mkfifo(path)
    ended, _, memory = ask(path)
    assert ended.startswith("refused")
    assert memory < 1000


def garbled(place: str) -> bytes:
    """A network with bytes that are no text where a name should be."""
    network = linear(WEIGHTS)
    tiny = network.graph
    if place == "output":
        tiny.node[2].output[0] = tiny.output[0].name = "QQQQ"
    elif place == "input":
        tiny.node[0].input[0] = tiny.input[0].name = "QQQQ"
    elif place == "wire":
        tiny.node[1].input[1] = "QQQQ"
    elif place == "operator":
        tiny.node[1].op_type = "QQQQ"
    elif place == "external data":
        tiny.initializer[0].data_location = TensorProto.EXTERNAL
        tiny.initializer[0].external_data.add(key="location", value="QQQQ")
    else:
        side = tiny.input[0] if place == "input dimension" else tiny.output[0]
        side.type.tensor_type.shape.dim[0].dim_param = "QQQQ"
    return network.SerializeToString().replace(b"QQQQ", b"Q\xff\xfeQ")


@pytest.mark.parametrize(
    "place", ["output", "input", "wire", "operator", "external data", "input dimension", "output dimension"]
)
def test_a_name_that_is_no_text_is_refused_quietly(
    tmp_path: Path, place: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "network.onnx").write_bytes(garbled(place))
    refused(tmp_path / "network.onnx")
    assert capfd.readouterr() == ("", "")


def external(path: Path, location: str, **fields: str) -> Path:
    """A network whose weights lie in another file."""
    network = linear(WEIGHTS)
    weights = network.graph.initializer[0]
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    for key, text in {"location": location, **fields}.items():
        entry = weights.external_data.add()
        entry.key, entry.value = key, text
    return save(network, path)


def test_weights_in_a_plain_file_beside_the_network_are_taken_and_hashed(tmp_path: Path) -> None:
    path = external(tmp_path / "network.onnx", "weights.bin", offset="8", length="16")
    (tmp_path / "weights.bin").write_bytes(b"\0" * 8 + WEIGHTS.tobytes() + b"rest")
    model = OnnxModel(path, spec())
    assert model.predict(ROWS).tolist() == [1, 0]
    files = (path, tmp_path / "weights.bin")
    hashes = b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)
    assert model.sha256 == hashlib.sha256(hashes).hexdigest()
    (tmp_path / "weights.bin").write_bytes(b"\0" * 8 + (-WEIGHTS).tobytes() + b"rest")
    changed = OnnxModel(path, spec())
    assert changed.sha256 != model.sha256
    assert changed.predict(ROWS).tolist() == [0, 1]


@pytest.mark.parametrize(
    "location", ["{secret}", "../secret.bin", "./../secret.bin", "sub/../../secret.bin", "", ".", "sub", "missing.bin"]
)
def test_weights_from_elsewhere_are_refused(tmp_path: Path, location: str) -> None:
    secret = tmp_path / "secret.bin"
    secret.write_bytes(WEIGHTS.tobytes())
    (tmp_path / "model" / "sub").mkdir(parents=True)
    path = external(tmp_path / "model" / "network.onnx", location.format(secret=secret))
    assert "save the network as one file" in refused(path)


@pytest.mark.parametrize("place", ["value", "sparse_value", "sparse initializer"])
def test_weights_in_the_working_directory_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The runtime looks there when it finds external data that was not taken in before."""
    (tmp_path / "model").mkdir()
    (tmp_path / "weights.bin").write_bytes(WEIGHTS.tobytes())
    monkeypatch.chdir(tmp_path)
    dense = TensorProto(name="w", dims=[2, 2], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    dense.external_data.add(key="location", value="weights.bin")
    sparse = SparseTensorProto(values=dense, indices=constant("i", range(4), np.int64), dims=[2, 2])
    sparse.values.dims[:] = [4]
    network = graph([node("MatMul", ["x", "w"], ["y"])], [value("x")], [value("y")])
    if place == "sparse initializer":
        network.graph.sparse_initializer.append(sparse)
    else:
        given = {place: dense if place == "value" else sparse}
        network.graph.node.insert(0, node("Constant", [], ["w"], **given))
    assert "save the network as one file" in refused(save(network, tmp_path / "model" / "network.onnx"))


@pytest.mark.parametrize("kind", ["symlink", "hard link", "pipe"])
def test_weights_that_are_no_plain_file_are_refused(tmp_path: Path, kind: str) -> None:
    secret, weights = tmp_path / "secret.bin", tmp_path / "model" / "weights.bin"
    secret.write_bytes(WEIGHTS.tobytes())
    weights.parent.mkdir()
    if kind == "symlink":
        weights.symlink_to(secret)
    elif kind == "hard link":
        weights.hardlink_to(secret)
    else:
        os.mkfifo(weights)
    path = external(weights.parent / "network.onnx", "weights.bin")
    assert "save the network as one file" in refused(path)


@pytest.mark.parametrize(
    "fields",
    [{"offset": "4"}, {"offset": "99"}, {"offset": "-4"}, {"length": "17"}, {"offset": "x"}, {"length": str(10**30)}],
)
def test_weights_that_reach_beyond_their_file_are_refused(tmp_path: Path, fields: dict[str, str]) -> None:
    (tmp_path / "weights.bin").write_bytes(WEIGHTS.tobytes())
    refused(external(tmp_path / "network.onnx", "weights.bin", **fields))


def test_weights_in_another_file_count_for_the_size_limit(tmp_path: Path) -> None:
    path = external(tmp_path / "network.onnx", "weights.bin", length="16")
    (tmp_path / "weights.bin").write_bytes(WEIGHTS.tobytes() + b"\0" * 5000)
    with pytest.raises(ModelError, match=says(TOO_LARGE)):
        OnnxModel(path, spec(), Limits(file_bytes=5000))


def test_a_file_over_the_size_limit_is_refused(tmp_path: Path) -> None:
    path = save(linear(WEIGHTS), tmp_path / "network.onnx")
    assert "larger than the limit of 100 bytes" in refused(path, Limits(file_bytes=100))


def with_node(operator: str, domain: str = "", **attributes: object) -> ModelProto:
    network = linear(WEIGHTS)
    network.graph.node.append(node(operator, ["y"], ["z"], domain, **attributes))
    return network


BODY = helper.make_graph([node("Identity", ["a"], ["b"])], "body", [], [value("b")])


@pytest.mark.parametrize(
    "network",
    [
        with_node("Loop", body=BODY),
        with_node("If", then_branch=BODY, else_branch=BODY),
        with_node("Scan", body=BODY, num_scan_inputs=1),
        with_node("FusedGemm", "com.microsoft"),
        with_node("Anything", "my.own"),
        with_node("Relu", "my.own"),
        with_node("RandomNormalLike"),
        with_node(
            "Relu", hidden=helper.make_graph([node("Loop", ["a"], ["b"], body=BODY)], "deeper", [], [value("b")])
        ),
    ],
)
def test_operators_that_are_not_listed_are_refused_wherever_they_stand(tmp_path: Path, network: ModelProto) -> None:
    assert "without loops, conditionals and custom operators" in refused(save(network, tmp_path / "network.onnx"))


def function(name: str, *inner: str) -> FunctionProto:
    """my.name: the inner operators one after the other."""
    wires = [f"w{i}" for i in range(len(inner))]
    nodes = [
        node(each, [wires[i]], [wires[i + 1] if i + 1 < len(inner) else "out"], "my" if each.startswith("F") else "")
        for i, each in enumerate(inner)
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    return helper.make_function("my", name, wires[:1], ["out"], nodes, opsets)


def with_functions(*functions: FunctionProto) -> ModelProto:
    network = linear(WEIGHTS)
    network.functions.extend(functions)
    network.opset_import.append(helper.make_opsetid("my", 1))
    network.graph.node.append(node(functions[0].name, ["y"], ["z"], "my"))
    network.graph.output[0].name = "z"
    return network


def test_functions_of_listed_operators_are_allowed(tmp_path: Path) -> None:
    path = save(with_functions(function("F", "Relu", "Identity")), tmp_path / "network.onnx")
    assert OnnxModel(path, spec()).predict(ROWS).tolist() == [1, 0]


def test_operators_inside_functions_are_checked_too(tmp_path: Path) -> None:
    refused(save(with_functions(function("F", "Relu", "Loop")), tmp_path / "network.onnx"))


def test_functions_that_multiply_each_other_count_as_what_they_expand_to(tmp_path: Path) -> None:
    """Two calls in each of 25 levels: less than 2 kB that stand for 33 million operators."""
    levels = [function(f"F{i}", f"F{i + 1}", f"F{i + 1}") for i in range(25)]
    path = save(with_functions(*levels, function("F25", "Identity")), tmp_path / "network.onnx")
    ended, took, _ = ask(path)
    assert ended.startswith("refused")
    assert took < 5


def test_a_function_that_calls_itself_is_refused(tmp_path: Path) -> None:
    assert ask(save(with_functions(function("F", "F")), tmp_path / "network.onnx"))[0].startswith("refused")


def test_too_many_operators_are_refused(tmp_path: Path) -> None:
    network = linear(WEIGHTS)
    network.graph.node.extend(node("Identity", ["y"], [f"z{i}"]) for i in range(60))
    path = save(network, tmp_path / "network.onnx")
    assert "more than 50 operators" in refused(path, Limits(nodes=50))
    assert OnnxModel(path, spec(), Limits(nodes=63)).predict(ROWS).tolist() == [1, 0]


def test_a_flood_of_memory_is_stopped_before_it_comes(tmp_path: Path) -> None:
    """Sixteen gigabytes of zeros from a file of 200 bytes."""
    nodes = [
        node("ConstantOfShape", ["shape"], ["zeros"]),
        node("ReduceSum", ["zeros"], ["sum"], keepdims=0),
        node("Add", ["x", "sum"], ["y"]),
    ]
    network = graph(nodes, [value("x")], [value("y")], [constant("shape", [100_000, 40_000], np.int64)])
    ended, _, memory = ask(save(network, tmp_path / "network.onnx"))
    assert ended.startswith("refused")
    assert memory < 1000


def slow(first: list[NodeProto]) -> ModelProto:
    """A minute and more of matrix products."""
    size, count = 1500, 400
    products = [node("MatMul", [f"m{i}", "m0"], [f"m{i + 1}"]) for i in range(count)]
    last = [node("ReduceMax", [f"m{count}"], ["r"], keepdims=0), node("Add", ["x", "r"], ["y"])]
    return graph([*first, *products, *last], [value("x")], [value("y")], [constant("shape", [size, size], np.int64)])


def test_a_call_that_takes_too_long_is_broken_off(tmp_path: Path) -> None:
    first = [node("ConstantOfShape", ["shape"], ["m0"])]
    path = save(slow(first), tmp_path / "network.onnx")
    start = time.monotonic()
    with pytest.raises(ModelError, match=says(CALL_TOO_SLOW, seconds="0.3")):
        OnnxModel(path, spec(), Limits(seconds=0.3)).predict(ROWS)
    assert time.monotonic() - start < 10


def test_loading_that_takes_too_long_is_broken_off(tmp_path: Path) -> None:
    """Products of constants, which an optimiser would compute while the file is being loaded."""
    ended, took, _ = ask(save(slow([node("ConstantOfShape", ["shape"], ["m0"])]), tmp_path / "network.onnx"), 0.3)
    assert ended.startswith("refused")
    assert took < 10


def test_a_quick_call_is_not_broken_off(tmp_path: Path) -> None:
    model = OnnxModel(save(linear(WEIGHTS), tmp_path / "network.onnx"), spec(), Limits(seconds=5))
    assert [model.predict(ROWS).tolist() for _ in range(50)] == [[1, 0]] * 50
    assert model.limits.seconds == 5


def test_a_network_needs_no_file_once_it_is_loaded(tmp_path: Path) -> None:
    """What was checked is what runs, whatever happens to the file meanwhile."""
    path = save(linear(WEIGHTS), tmp_path / "network.onnx")
    model = OnnxModel(path, spec())
    save(linear(-WEIGHTS), path)
    assert model.predict(ROWS).tolist() == [1, 0]


def test_probes_cuts_and_repairs_open_no_file_again(tmp_path: Path) -> None:
    """The file is replaced by another network with the same names after it was checked, and then removed."""
    from fairchain.models.edit.weights import Weights
    from fairchain.models.inspect.activations import Probe
    from fairchain.models.inspect.cut import Cut

    def network(sign: int) -> ModelProto:
        made = linear(sign * WEIGHTS)
        made.graph.node.append(node("Identity", ["y"], ["z"]))
        made.graph.output[0].name = "z"
        return made

    path = save(network(1), tmp_path / "network.onnx")
    model = OnnxModel(path, spec())
    save(network(-1), path)
    for _ in range(2):
        labels, shown = Probe(model, spec(), ["y"])(ROWS)
        assert labels.tolist() == [1, 0]
        assert Cut(model, "y", ROWS).predict(shown["y"], ROWS).tolist() == [1, 0]
        weights = Weights(model)
        assert np.array_equal(weights.values[weights.blocks[0].tensor], WEIGHTS)
        assert OnnxModel.from_bytes(weights.network({}), "network", spec()).predict(ROWS).tolist() == [1, 0]
        path.unlink(missing_ok=True)
