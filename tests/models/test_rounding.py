"""Promises about rounding: a decision that depends on the batch is found, and operators called exact are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto

from fairchain import ModelError, OnnxModel, parse_spec, recheck, verify, write_certificate
from fairchain.models.base import _varied
from fairchain.models.onnx.file_checks import Limits, check_bytes
from fairchain.models.onnx.rounding import DIFFERS_ALONE, SAME_BITS_IN_SINGLE, SAME_BITS_RECURRENT, rounding_may_vary
from fairchain.models.onnx.runtime import Runtime
from fairchain.spec import Spec, Table, revise
from tests.messages import says
from tests.networks import DOUBLE, FLOAT, constant, graph, linear, node, save, value
from tests.questions import category, question, real

SHIFTS = 16
INT32, UINT32 = 6, 12


def asked() -> Spec:
    return parse_spec(
        {**question(real("x"), category("g", "a", "b"), decision="probability"), "population": {"kind": "uniform"}}
    )


def magnifier() -> ModelProto:
    """A network that says yes to large numbers, and to group b where rounding shows that a row is alone.

    Softplus is computed from the same numbers one by one and 16 at once. Inputs of the trials at loading lie outside of
    the range in which the difference counts.
    """
    tried = np.sort(_varied(asked().described, 17)[:, 0])
    widest = int(np.diff(tried).argmax())
    low, high = tried[widest], tried[widest + 1]
    shifts = np.arange(SHIFTS) / 4
    nodes = [
        node("MatMul", ["x", "to_all"], ["same"]),
        node("Add", ["same", "shifts"], ["shifted"]),
        node("Softplus", ["shifted"], ["whole"]),
        node("Split", ["shifted"], [f"one{k}" for k in range(SHIFTS)], axis=1),
        *(node("Softplus", [f"one{k}"], [f"alone{k}"]) for k in range(SHIFTS)),
        node("Concat", [f"alone{k}" for k in range(SHIFTS)], ["alone"], axis=1),
        node("Sub", ["alone", "whole"], ["last_bits"]),
        node("Abs", ["last_bits"], ["sizes"]),
        node("MatMul", ["sizes", "huge"], ["magnified"]),
        node("Clip", ["magnified", "zero", "one"], ["differs"]),
        node("MatMul", ["x", "take_x"], ["position"]),
        node("Greater", ["position", "low"], ["above"]),
        node("Less", ["position", "high"], ["below"]),
        node("And", ["above", "below"], ["inside"]),
        node("Cast", ["inside"], ["gate"], to=FLOAT),
        node("MatMul", ["x", "take_group"], ["group"]),
        node("Mul", ["differs", "gate"], ["gated"]),
        node("Mul", ["gated", "group"], ["hidden"]),
        node("Greater", ["position", "large"], ["is_large"]),
        node("Cast", ["is_large"], ["shown"], to=FLOAT),
        node("Max", ["hidden", "shown"], ["y"]),
    ]
    constants = [
        constant("to_all", np.stack([np.ones(SHIFTS), np.zeros(SHIFTS)])),
        constant("shifts", shifts),
        constant("huge", np.full((SHIFTS, 1), 1e12)),
        constant("take_x", [[1], [0]]),
        constant("take_group", [[0], [1]]),
        constant("zero", 0.0),
        constant("one", 1.0),
        constant("large", [0.95]),
        constant("low", [low]),
        constant("high", [high]),
    ]
    return graph(nodes, [value("x", FLOAT, ("N", 2))], [value("y", FLOAT, ("N", 1))], constants)


def test_a_network_that_magnifies_rounding_is_refused(tmp_path: Path) -> None:
    spec = asked()
    model = OnnxModel(save(magnifier(), tmp_path / "network.onnx"), spec)
    # Alone the groups differ by more than the threshold of 0.1, and in whole batches not at all.
    rows = np.random.default_rng(0).random((400, 2)).astype(np.float32)
    rows[:, 1] = 1
    together, alone = model.predict(rows), np.concatenate([model.predict(rows[[row]]) for row in range(400)])
    assert alone.mean() > together.mean() + 0.12
    table = {"x": rows[:, 0].tolist(), "g": ["a", "b"] * 200}
    of_rows = revise(spec, population=Table(reading="population"))
    for given in ((model, spec, None), (model, of_rows, table)):
        with pytest.raises(ModelError, match=says(DIFFERS_ALONE)):
            verify(*given[:2], data=given[2])
    # Without these trials it is FAIR.
    model.rounding_may_vary = False
    assert verify(model, spec).conclusion == "FAIR"


def test_recheck_finds_it_too_where_the_issuer_left_the_trials_out(tmp_path: Path) -> None:
    spec, network = asked(), save(magnifier(), tmp_path / "network.onnx")
    model = OnnxModel(network, spec)
    model.rounding_may_vary = False
    write_certificate(verify(model, spec), tmp_path / "certificate.json")
    report = recheck(tmp_path / "certificate.json", network)
    assert not report.holds
    assert any("decides an input differently alone" in claim.detail for claim in report.claims if not claim.holds)


def test_trials_of_a_row_alone_cost_nothing_where_all_operators_are_exact() -> None:
    def varies(model: ModelProto) -> bool:
        return rounding_may_vary(check_bytes(Path("network"), model.SerializeToString(), Limits()))

    assert not varies(linear([[1, 2], [3, 4]], end="Sigmoid"))
    assert varies(linear([[1, 2], [3, 4]], end="Softplus"))
    assert varies(linear([[1, 2], [3, 4]], end="Sigmoid", kind=DOUBLE))
    assert varies(magnifier())


def varying() -> dict[str, ModelProto]:
    """Networks of 3 features in single precision whose last bits depend on the batch though no function is in them."""
    rng = np.random.default_rng(0)

    def made(nodes: list[NodeProto], **constants: NDArray[np.float32]) -> ModelProto:
        written = [constant(name, array) for name, array in constants.items()]
        return graph(nodes, [value("x", FLOAT, ("N", 3))], [value("y", FLOAT, ("N", None))], written)

    replaceable = made([node("MatMul", ["x", "w"], ["y"])], w=rng.standard_normal((3, 5)))
    replaceable.graph.input.append(value("w", FLOAT, (3, 5)))
    turned = [node("Transpose", ["x"], ["t"], perm=[1, 0]), node("MatMul", ["w", "t"], ["z"])]
    divided = node("Div", ["one", "z"], ["y"])
    return {
        "weights that a call could replace": replaceable,
        "weights times columns": made(
            [*turned, node("Transpose", ["z"], ["y"], perm=[1, 0])], w=rng.standard_normal((1, 3))
        ),
        "two matrices at once": made(
            [node("MatMul", ["x", "w"], ["z"]), node("Transpose", ["z"], ["y"], perm=[1, 0, 2])],
            w=rng.standard_normal((2, 3, 5)),
        ),
        "numbers beyond uint32": made(
            [
                node("Mul", ["x", "huge"], ["z"]),
                node("Cast", ["z"], ["cut"], to=UINT32),
                node("Cast", ["cut"], ["y"], to=FLOAT),
            ],
            huge=np.float32(1e10),
        ),
        "zeros with a sign": made(
            [
                node("Mul", ["x", "zero"], ["signed"]),
                node("Max", ["signed", "zero"], ["z"]),
                divided,
            ],
            zero=np.float32(0),
            one=np.float32(1),
        ),
    }


@pytest.mark.parametrize("case", varying())
def test_operators_that_choose_their_arithmetic_by_the_batch_are_not_called_exact(case: str) -> None:
    """Each network really gives some of 600 rows other bits in smaller batches."""
    checked = check_bytes(Path("network"), varying()[case].SerializeToString(), Limits())
    assert rounding_may_vary(checked)
    session = Runtime(checked, Limits())
    rows = np.random.default_rng(1).standard_normal((600, 3)).astype(np.float32)
    whole = session.run({"x": rows}, ["y"])[0]
    parts = [np.concatenate([session.run({"x": p}, ["y"])[0] for p in np.split(rows, 600 // n)]) for n in (1, 2, 3)]
    assert any(not np.array_equal(part, whole) for part in parts)


@pytest.mark.parametrize("operator", sorted(SAME_BITS_IN_SINGLE))
@pytest.mark.parametrize("columns", [1, 3, 13])
def test_operators_called_exact_give_a_row_the_same_bits_wherever_it_is(operator: str, columns: int) -> None:
    """Rows in batches of 64, alone, in odd batches, and in another order; copies, so that addresses differ too."""
    rng = np.random.default_rng(1)
    weights = constant("w", rng.standard_normal((columns, 5)))
    product = operator in ("Gemm", "MatMul")
    made = node(operator, ["x", "w"] if product else ["x"], ["y"])
    network = graph([made], [value("x", FLOAT, ("N", columns))], [value("y", FLOAT, ("N", None))], [weights] * product)
    session = Runtime(check_bytes(Path("network"), network.SerializeToString(), Limits()), Limits())

    def run(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        found: NDArray[np.float32] = session.run({"x": rows.copy()}, ["y"])[0]
        return found

    rows = (2 * rng.standard_normal((1024, columns))).astype(np.float32)
    whole = run(rows)
    for size in (1, 2, 3, 5, 17, 63, 64):
        parts = np.concatenate([run(rows[start : start + size]) for start in range(0, 1024, size)])
        assert np.array_equal(parts, whole)
    order = rng.permutation(1024)
    assert np.array_equal(run(rows[order]), whole[order])


GATES = {"GRU": 3, "LSTM": 4}


def recurrent(
    operator: str, units: int, width: int, *, computed: bool = False, peepholes: bool = False, **attributes: Any
) -> ModelProto:
    """A layer over steps of `width` numbers, which is told the length of each sequence; y is its last state."""
    rng, gates = np.random.default_rng(2), GATES[operator]
    sides = 2 if attributes.get("direction") == "bidirectional" else 1
    weights = {
        "w": rng.standard_normal((sides, gates * units, width)),
        "r": rng.standard_normal((sides, gates * units, units)),
        "b": rng.standard_normal((sides, 2 * gates * units)),
        "p": rng.standard_normal((sides, 3 * units)),
        "zero": np.float32(0),
    }
    w, r = ("w_sum", "r_sum") if computed else ("w", "r")
    inputs = ["x", w, r, "b", "lengths", *(["", "", "p"] if peepholes else [])]
    sums = [node("Add", [name, "zero"], [f"{name}_sum"]) for name in ("w", "r") if computed]
    layer = node(operator, inputs, ["", "y"], hidden_size=units, **attributes)
    used = {*inputs, *(["w", "r", "zero"] if computed else [])}
    return graph(
        [*sums, layer],
        [value("x", FLOAT, ("T", "N", width)), value("lengths", INT32, ("N",))],
        [value("y", FLOAT, (sides, "N", units))],
        [constant(name, array) for name, array in weights.items() if name in used],
    )


def last_states(network: ModelProto, width: int) -> dict[int, NDArray[np.float32]]:
    """The last states of 64 sequences from runs of so many at a time, in which the longest has no padding."""
    session = Runtime(check_bytes(Path("network"), network.SerializeToString(), Limits()), Limits())
    rng = np.random.default_rng(3)
    steps, lengths = rng.standard_normal((7, 64, width)).astype(np.float32), rng.integers(1, 8, 64).astype(np.int32)

    def run(rows: NDArray[np.intp]) -> NDArray[np.float32]:
        own = np.ascontiguousarray(steps[: lengths[rows].max(), rows])
        found: NDArray[np.float32] = session.run({"x": own, "lengths": lengths[rows]}, ["y"])[0]
        return found

    found = {
        size: np.concatenate([run(np.arange(start, min(start + size, 64))) for start in range(0, 64, size)], axis=1)
        for size in (1, 2, 3, 5, 17, 64)
    }
    order = rng.permutation(64)
    found[0] = run(order)[:, np.argsort(order)]
    return found


@pytest.mark.parametrize("operator", sorted(SAME_BITS_RECURRENT))
@pytest.mark.parametrize(("units", "width"), [(1, 1), (8, 50), (13, 3), (64, 300)])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"direction": "reverse", "clip": 1.5},
        {"direction": "bidirectional", "activations": ["Sigmoid", "Tanh", "Tanh"] * 2},
        {"linear_before_reset": 1, "input_forget": 1},
    ],
    ids=["plain", "reverse", "both ways", "variants"],
)
def test_recurrent_layers_called_exact_give_a_sequence_the_same_bits_wherever_it_is(
    operator: str, units: int, width: int, attributes: dict[str, Any]
) -> None:
    """Sequences alone, in odd batches, without the padding behind the longest, and in another order."""
    known = {"GRU": {"linear_before_reset"}, "LSTM": {"input_forget"}}[operator]
    own = {name: each for name, each in attributes.items() if name in known | {"direction", "clip", "activations"}}
    if operator == "GRU" and "activations" in own:
        own["activations"] = ["Sigmoid", "Tanh"] * 2
    network = recurrent(operator, units, width, **own)
    assert not rounding_may_vary(check_bytes(Path("network"), network.SerializeToString(), Limits()))
    found = last_states(network, width)
    assert all(np.array_equal(each, found[64]) for each in found.values())


@pytest.mark.parametrize("operator", sorted(SAME_BITS_RECURRENT))
def test_recurrent_layers_are_not_called_exact_where_weights_are_computed(operator: str) -> None:
    """A single sequence really gets other bits."""
    network = recurrent(operator, 8, 50, computed=True)
    assert rounding_may_vary(check_bytes(Path("network"), network.SerializeToString(), Limits()))
    found = last_states(network, 50)
    assert not np.array_equal(found[1], found[64])


@pytest.mark.parametrize(
    "more", [{"peepholes": True}, {"activations": ["Sigmoid", "Softsign", "Tanh"]}], ids=["peepholes", "functions"]
)
def test_recurrent_layers_that_were_not_measured_are_not_called_exact(more: dict[str, Any]) -> None:
    network = recurrent("LSTM", 8, 3, **more)
    assert rounding_may_vary(check_bytes(Path("network"), network.SerializeToString(), Limits()))
