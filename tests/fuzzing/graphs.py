"""Random small ONNX graphs, and whether they treat every row by itself: by trial, against the proof from the graph.

A graph is built node by node. Each node is run at once, so that nearly every graph is valid for some batch size. All
numbers are small integers, so that results are exact and do not depend on how the runtime splits a batch; an operator
that jumps (ArgMax, a comparison) reads only tensors that are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from fairchain.errors import ModelError
from tests.fuzzing.target import CautiousRefusalError

Array = NDArray[Any]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
# Rows while a graph is built: no other size in a graph is 5, except on purpose.
ROWS = 5
SHAPES = ((3,), (4,), (2, 3), (3, 2))
MOST_ELEMENTS, MOST_VALUE = 2000, 2**16
OPSET = 17


@dataclass(frozen=True)
class Tensor:
    """A tensor of a graph that is being built: its value for one batch, and whether it is free of rounding."""

    name: str
    value: Array
    exact: bool = True

    @property
    def rank(self) -> int:
        """The number of axes."""
        return self.value.ndim

    @property
    def real(self) -> bool:
        """Whether it holds real numbers."""
        return self.value.dtype == np.float32


class Builder:
    """A graph that grows by random nodes."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        shape = (ROWS, *dice.choice(SHAPES))
        self.tensors = [Tensor("x", _rows(shape, dice.randrange(2**32)))]
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def constant(self, value: Any, kind: Any = np.int64) -> Tensor:
        """Add a constant."""
        made = Tensor(f"c{len(self.constants)}", np.asarray(value, kind))
        self.constants.append(numpy_helper.from_array(made.value, made.name))
        return made

    def weights(self, *shape: int) -> Tensor:
        """Add a constant of small numbers."""
        count = int(np.prod(shape))
        return self.constant(np.reshape(self.dice.choices((-1, 0, 1, 2), k=count), shape), np.float32)

    def add(self, operator: str, *inputs: Tensor, outputs: int = 1, exact: bool = True, **attributes: Any) -> None:
        """Add a node if it runs and its results are small; `exact` is False for one that rounds."""
        names = [f"{operator}{len(self.nodes)}_{place}" for place in range(outputs)]
        node = helper.make_node(operator, [each.name for each in inputs], names, **attributes)
        found = _run_node(node, inputs)
        if found is None or not all(0 < each.size <= MOST_ELEMENTS and _is_small(each) for each in found):
            return
        self.nodes.append(node)
        exact = exact and all(each.exact for each in inputs)
        self.tensors += [Tensor(name, each, exact) for name, each in zip(names, found, strict=True)]

    def pick(self, suits: Callable[[Tensor], bool] = lambda _: True) -> Tensor:
        """Return one of the tensors, more often a late one."""
        fitting = [each for each in self.tensors if suits(each)]
        if not fitting:
            raise LookupError("no tensor suits")
        return self.dice.choice(fitting[-3:] if self.dice.random() < 0.7 else fitting)

    def axis(self, tensor: Tensor, more: int = 0) -> int:
        """Return one of the axes of a tensor, which must have one."""
        if not tensor.rank + more:
            raise LookupError("no axis")
        place = self.dice.randrange(tensor.rank + more)
        # The first axis has the rows: the others are what a sensible network works along.
        return place or self.dice.randrange(tensor.rank + more)

    def _as_real(self, tensor: Tensor) -> Tensor:
        if not tensor.real:
            self.add("Cast", tensor, to=FLOAT)
        return tensor if tensor.real else self.tensors[-1]

    def step(self) -> None:
        """Try to add a random node."""
        try:
            self.dice.choice(STEPS)(self)
        except (LookupError, ValueError):
            return

    def model(self) -> ModelProto:
        """Return the graph; its output is one of the last tensors that have as many rows as the input, or a sum."""
        fitting = [each for each in self.tensors[1:] if each.value.shape[:1] == (ROWS,)] or self.tensors
        last = self._as_real(self.dice.choice(fitting[-2:]))
        for _ in range(self.dice.randrange(3)):
            self.add(self.dice.choice(("Add", "Mul")), last, self._as_real(self.pick()))
            if self.tensors[-1].value.shape == last.value.shape:
                last = self.tensors[-1]
        self.nodes.append(helper.make_node("Identity", [last.name], ["y"]))
        sizes = self.tensors[0].value.shape[1:]
        graph = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_tensor_value_info("x", FLOAT, ["N", *sizes])],
            [helper.make_tensor_value_info("y", FLOAT, None)],
            self.constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def random_graph(dice: Random) -> bytes:
    """Return a random graph as a file."""
    builder = Builder(dice)
    for _ in range(dice.randint(2, 20)):
        builder.step()
    content: bytes = builder.model().SerializeToString()
    return content


def _rows(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


def _is_small(value: Array) -> bool:
    return value.dtype == bool or bool(np.all(np.isfinite(value)) and np.all(np.abs(value) < MOST_VALUE))


def _session(model: ModelProto) -> ort.InferenceSession | None:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # the runtime's own errors have no base class
        return None


def _run_node(node: NodeProto, inputs: tuple[Tensor, ...]) -> list[Array] | None:
    """Return the results of one node; None if it does not run with these inputs."""
    given = {each.name: each.value for each in inputs}
    kinds = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in given.items()}
    graph = helper.make_graph(
        [node],
        "node",
        [helper.make_tensor_value_info(name, kinds[name], value.shape) for name, value in given.items()],
        [helper.make_empty_tensor_value_info(name) for name in node.output],
    )
    session = _session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8))
    try:
        return session.run(None, given) if session is not None else None
    except Exception:
        return None


# ---- steps: each adds a node with suitable inputs ----


def _is_real(tensor: Tensor) -> bool:
    return tensor.real


def _is_whole(tensor: Tensor) -> bool:
    return tensor.value.dtype == np.int64


def _unary(b: Builder) -> None:
    operator = b.dice.choice(("Abs", "Identity", "Neg", "Relu", "Sigmoid", "Softplus", "Tanh"))
    b.add(operator, b.pick(_is_real), exact=operator not in ("Sigmoid", "Softplus", "Tanh"))


def _binary(b: Builder) -> None:
    first = b.pick(_is_real)
    shape = [size if b.dice.random() < 0.5 else 1 for size in first.value.shape]
    second = b.pick(_is_real) if b.dice.random() < 0.6 else b.weights(*shape[b.dice.randrange(len(shape) + 1) :])
    pair = (first, second) if b.dice.random() < 0.5 else (second, first)
    b.add(b.dice.choice(("Add", "Max", "Mean", "Min", "Mul", "Sub", "Sum")), *pair)


def _compared(b: Builder) -> None:
    first, second = b.pick(lambda t: t.real and t.exact), b.pick(lambda t: t.real and t.exact)
    b.add(b.dice.choice(("Equal", "Greater", "LessOrEqual")), first, second)


def _where(b: Builder) -> None:
    b.add("Where", b.pick(lambda t: t.value.dtype == bool), b.pick(_is_real), b.pick(_is_real))


def _cast(b: Builder) -> None:
    tensor = b.pick(lambda t: t.exact)
    b.add("Cast", tensor, to=INT64 if tensor.real else FLOAT)


def _reduced(b: Builder) -> None:
    data, keep = b.pick(_is_real), b.dice.randrange(2)
    operator = b.dice.choice(("ReduceL1", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"))
    if operator == "ReduceSum":
        b.add(operator, data, b.constant([b.axis(data)]), keepdims=keep)
    else:
        b.add(operator, data, axes=[b.axis(data)], keepdims=keep, exact=operator != "ReduceMean")


def _arg(b: Builder) -> None:
    data = b.pick(lambda t: t.real and t.exact)
    b.add(b.dice.choice(("ArgMax", "ArgMin")), data, axis=b.axis(data), keepdims=b.dice.randrange(2))


def _along(b: Builder) -> None:
    data = b.pick(_is_real)
    operator = b.dice.choice(("Hardmax", "LogSoftmax", "LpNormalization", "Softmax"))
    if operator != "Hardmax" or data.exact:
        b.add(operator, data, axis=b.axis(data), exact=operator == "Hardmax")


def _normalised(b: Builder) -> None:
    data = b.pick(_is_real)
    axis = b.axis(data)
    b.add("LayerNormalization", data, b.weights(*data.value.shape[axis:]), axis=axis, exact=False)


def _cumulated(b: Builder) -> None:
    data = b.pick(_is_real)
    b.add("CumSum", data, b.constant(b.axis(data)), reverse=b.dice.randrange(2))


def _top(b: Builder) -> None:
    data = b.pick(lambda t: t.real and t.exact)
    axis = b.axis(data)
    count = b.dice.choice((1, 2, data.value.shape[axis]))
    if b.dice.random() < 0.2:
        b.add("TopK", data, b.pick(lambda t: _is_whole(t) and t.value.size == 1), axis=axis, outputs=2)
    else:
        b.add("TopK", data, b.constant([count]), axis=axis, outputs=2, largest=b.dice.randrange(2))


def _turned(b: Builder) -> None:
    data = b.pick()
    order = list(range(data.rank))
    b.dice.shuffle(order)
    b.add("Transpose", data, perm=order)


def _reshaped(b: Builder) -> None:
    data = b.pick()
    sizes = list(data.value.shape)
    choice = b.dice.randrange(5)
    if choice == 0:
        b.add("Reshape", data, b.pick(lambda t: _is_whole(t) and t.rank == 1))
    elif choice == 1:
        b.add("Flatten", data, axis=b.axis(data, 1))
    elif choice == 2:
        b.add("Reshape", data, b.constant([0, -1]))
    else:
        b.dice.shuffle(sizes)
        target = [-1 if size == ROWS else size for size in sizes]
        place = b.axis(data)
        if choice == 3 and place + 1 < len(target):
            target[place : place + 2] = [-1 if -1 in target[place : place + 2] else target[place] * target[place + 1]]
        b.add("Reshape", data, b.constant(target))


def _squeezed(b: Builder) -> None:
    data = b.pick()
    if b.dice.random() < 0.5:
        b.add("Unsqueeze", data, b.constant([b.axis(data, 1)]))
    else:
        ones = [place for place, size in enumerate(data.value.shape) if size == 1]
        b.add("Squeeze", data, b.constant([b.dice.choice(ones)]))


def _joined(b: Builder) -> None:
    first = b.pick()
    second = b.pick(lambda t: t.value.dtype == first.value.dtype and t.rank == first.rank)
    b.add("Concat", first, second, axis=b.axis(first))


def _sliced(b: Builder) -> None:
    data = b.pick()
    step = b.dice.choice((1, 1, 2, -1))
    start, end = (0, b.dice.choice((1, 2, 2**31))) if step > 0 else (-1, -(2**31))
    b.add("Slice", data, *(b.constant([each]) for each in (start, end, b.axis(data), step)))


def _split(b: Builder) -> None:
    data = b.pick()
    axis = b.axis(data)
    size = data.value.shape[axis]
    b.add("Split", data, b.constant([1, size - 1]), axis=axis, outputs=2)


def _gathered(b: Builder) -> None:
    data = b.pick()
    places = b.constant(b.dice.choice((0, [0], [0, 1], [1, 0], [[0, 1]])))
    if b.dice.random() < 0.3:
        places = b.pick(_is_whole)
    b.add(b.dice.choice(("Gather", "GatherElements")), data, places, axis=b.axis(data))


def _scattered(b: Builder) -> None:
    data = b.pick(_is_real)
    places = b.pick(lambda t: _is_whole(t) and t.rank == data.rank)
    updates = b.pick(lambda t: t.real and t.value.shape == places.value.shape)
    b.add("ScatterElements", data, places, updates, axis=b.axis(data))


def _spread(b: Builder) -> None:
    data = b.pick()
    if b.dice.random() < 0.5:
        b.add("Expand", data, b.pick(lambda t: _is_whole(t) and t.rank == 1))
    else:
        b.add("Tile", data, b.constant([b.dice.choice((1, 1, 2)) for _ in range(data.rank)]))


def _padded(b: Builder) -> None:
    data = b.pick(_is_real)
    b.add("Pad", data, b.constant([b.dice.choice((0, 0, 0, 1)) for _ in range(2 * data.rank)]))


def _multiplied(b: Builder) -> None:
    data = b.pick(lambda t: t.real and t.rank > 0)
    second = b.weights(data.value.shape[-1], b.dice.choice((2, 3))) if b.dice.random() < 0.7 else b.pick(_is_real)
    if b.dice.random() < 0.3:
        b.add("Gemm", data, second, transA=b.dice.randrange(2), transB=b.dice.randrange(2))
    else:
        b.add("MatMul", data, second)


def _einsum(b: Builder) -> None:
    first, second = b.pick(lambda t: t.real and t.rank > 0), b.pick(lambda t: t.real and t.rank > 0)
    letters = "abcde"
    left = "".join(b.dice.sample(letters, min(first.rank, 5)))
    right = "".join(b.dice.sample(letters, min(second.rank, 5)))
    both = sorted({*left, *right})
    b.dice.shuffle(both)
    b.add("Einsum", first, second, equation=f"{left},{right}->{''.join(both[: b.dice.randint(1, len(both))])}")


def _convolved(b: Builder) -> None:
    data = b.pick(lambda t: t.real and t.rank == 3)
    if b.dice.random() < 0.5:
        b.add("Conv", data, b.weights(2, data.value.shape[1], 2))
    else:
        b.add(b.dice.choice(("AveragePool", "MaxPool")), data, kernel_shape=[2], exact=False)


def _size(b: Builder) -> None:
    data = b.pick()
    if b.dice.random() < 0.2:
        b.add("Size", data)
    elif b.dice.random() < 0.5 or not data.rank:
        b.add("Shape", data)
    else:
        place = b.axis(data)
        b.add("Shape", data, start=place, end=place + 1)


def _counted(b: Builder) -> None:
    whole = b.pick(lambda t: _is_whole(t) and t.value.size == 1 and t.rank == 0)
    b.add("Range", b.constant(0), whole, b.constant(1))


def _filled(b: Builder) -> None:
    b.add("ConstantOfShape", b.pick(lambda t: _is_whole(t) and t.rank == 1))


def _arithmetic(b: Builder) -> None:
    operator = b.dice.choice(("Add", "Div", "Equal", "Mod", "Mul", "Sub"))
    second = b.constant([b.dice.choice((1, 2, 3, ROWS))])
    if b.dice.random() < 0.4:
        # A whole number over 0 ends the process.
        second = b.pick(lambda t: _is_whole(t) and (operator not in ("Div", "Mod") or t.name.startswith("Shape")))
    b.add(operator, b.pick(_is_whole), second)


def _triangle(b: Builder) -> None:
    b.add("Trilu", b.pick(_is_real), upper=b.dice.randrange(2))


def _one_hot(b: Builder) -> None:
    places = b.pick(_is_whole)
    values = b.constant([0, 1], np.float32)
    b.add("OneHot", places, b.constant(3), values, axis=b.axis(places, 1))


STEPS: tuple[Callable[[Builder], None], ...] = (
    *(_unary, _binary, _binary, _multiplied, _multiplied, _reduced, _reduced, _along, _turned, _turned),
    *(_reshaped, _reshaped, _squeezed, _squeezed, _joined, _joined, _sliced, _split, _gathered, _gathered),
    *(_size, _size, _arithmetic, _arithmetic, _spread, _spread, _compared, _where, _cast, _arg, _normalised),
    *(_cumulated, _top, _scattered, _padded, _einsum, _convolved, _counted, _filled, _triangle, _one_hot),
)


# ---- by trial ----


def check_graph(path: Path) -> None:
    """Hold the proof from a graph against trials.

    Raises
    ------
    AssertionError
        If the graph is accepted, and a row was answered differently with other rows beside it.
    CautiousRefusalError
        If it is refused, and no trial shows a reason.
    ModelError
        If it is refused for a reason.
    """
    from fairchain.models import Limits
    from fairchain.models.onnx.file_checks import read_network
    from fairchain.models.onnx.row_independence import check_row_independence

    network = read_network(path, Limits())
    shape = [each.dim_value or None for each in network.model.graph.input[0].type.tensor_type.shape.dim]
    session = _session(network.model)
    if session is None:
        raise ModelError(f"{path}: the runtime refuses the graph")
    problem = found_dependence(session, tuple(size for size in shape if size is not None))
    try:
        check_row_independence(network, {"x": shape}, "y")
    except ModelError as error:
        if problem:
            raise
        raise CautiousRefusalError(str(error)) from None
    assert not problem, f"accepted, but {problem}"


def found_dependence(session: ort.InferenceSession, sizes: tuple[int, ...]) -> str:
    """Return what shows that rows are not treated by themselves; "" if no trial does."""
    for rows in _inputs(sizes):
        whole = _answers(session, rows)
        order = np.random.default_rng(len(rows)).permutation(len(rows))
        trials = [("shuffled", order), ("split", order[:2]), ("split", order[2:]), ("repeated", order[[0, 0, 1]])]
        trials += [("alone", np.array([place])) for place in range(len(rows))]
        if whole is not None and len(whole) != len(rows):
            return f"{len(rows)} rows have {len(whole)} answers"
        for how, places in trials:
            part = _answers(session, rows[places])
            if part is None or whole is None:
                # A batch that is an error is no wrong answer.
                continue
            if part.shape != whole[places].shape or not np.allclose(part, whole[places], 1e-3, 1e-3, equal_nan=True):
                return f"the answers for {how} rows are others"
    return ""


@cache
def _inputs(sizes: tuple[int, ...]) -> tuple[Array, ...]:
    """Return batches of the sizes that small graphs can mistake for something else, and of others."""
    return tuple(_rows((count, *sizes), seed) for seed, count in enumerate((4, ROWS, 6, 9)))


def _answers(session: ort.InferenceSession, rows: Array) -> Array | None:
    try:
        found = np.asarray(session.run(None, {"x": rows})[0])
    except Exception:  # as above
        return None
    return found if found.ndim else found.reshape(1)
