"""Proof from the graph that a network answers every row by itself.

Each tensor is followed from the inputs to the output that decides: where its batch axis is, and which whole numbers it
holds if they describe a shape. A shape is kept as factors, so that a reshape that merges the batch with other axes and
splits it again is understood. A tensor is *tainted* as soon as it may depend on more than its own row: an operator
works across the batch axis, the number of rows or a row's position becomes a value, or the operator has no rule here.
The network is refused if the output that decides is tainted. Sizes that only build the shape for Reshape or Expand, and
sequences that are sorted by length and put back, are understood.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fairchain.errors import ModelError

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

    from fairchain.models.onnx.file_checks import Network

BATCH = "the batch"
# A factor of a size: a number, the batch, or another size that is not known and does not depend on the batch.
Factor = int | str
# The factors of an axis, the slowest first; none for an axis of size 1.
Axis = tuple[Factor, ...]
# An entry of a tensor of whole numbers: a number times unknown sizes; None if nothing is known.
Size = tuple[int, tuple[str, ...]] | None
ZERO, ONE = (0, ()), (1, ())
# Most entries of a tensor of whole numbers that are followed one by one; a shape has fewer.
MOST_ENTRIES = 64
TOO_LARGE = 2**31 - 1
# Numbers of ONNX for types: whole numbers, and fractions that hold them.
INT32, INT64 = 6, 7
# How many bits of a whole number each type keeps: int32, int64, float and double.
BITS = {INT32: 31, INT64: 63, 1: 24, 11: 53}
# Bits of the largest size: of the batch and of the axes of inputs, and of an axis that is computed.
SIZE_BITS, COMPUTED_BITS = 20, 31


@dataclass(frozen=True)
class Followed:
    """What is known of a tensor.

    Parameters
    ----------
    axes
        Its shape in factors; None if its rank is unknown, in which case it has no batch axis.
    entries
        What it holds if it is a short list of whole numbers.
    taint
        Why it may depend on more than its own row; "" if it cannot.
    order
        The order of its rows: "" as in the inputs, or the name of a permutation; None if all rows are alike.
    permutation
        The name of the permutation that it holds, if it holds one.
    alike
        Whether all of its elements are the same number.
    bits
        How large its whole numbers can be, and those that they were computed from.
    """

    axes: tuple[Axis, ...] | None
    entries: tuple[Size, ...] | None = None
    taint: str = ""
    order: str | None = None
    permutation: str = ""
    alike: bool = False
    bits: int = 63

    @property
    def shape(self) -> tuple[Axis, ...]:
        """The axes of a tensor whose rank is known."""
        return self.axes or ()

    @property
    def batch(self) -> int | None:
        """The axis with the rows, if there is one."""
        return next((place for place, axis in enumerate(self.shape) if BATCH in axis), None)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)


class _TaintedError(Exception):
    """Raised by the rule of an operator with the reason why what it makes is tainted."""


class _PassedOnError(_TaintedError):
    """Raised with the reason why a tensor that an operator needs to know more of is tainted already."""


def check_row_independence(
    network: Network, inputs: Mapping[str, Sequence[int | str | None]], output: str, batch: int | None = None
) -> None:
    """Refuse a network that may treat a row differently with other rows beside it.

    Parameters
    ----------
    network
        The network.
    inputs
        The shape of each input that is fed; None marks the batch axis, a text another free axis.
    output
        The tensor that decides.
    batch
        The fixed batch size, if there is one.

    Raises
    ------
    ModelError
        Names the operator because of which the answer for one row may depend on the others.
    """
    found = follow(network, inputs, batch).get(output, Followed(None, taint="it does not depend on the inputs"))
    taint = found.taint
    if not taint and (found.shape[:1] != ((BATCH,),) or found.order not in ("", None)):
        taint = "its rows are not those of the input, in their order"
    if taint:
        raise ModelError(
            f"{network.path}: the answer for one input depends on the others in its batch: {taint}; export the "
            "network for inference, with a free batch dimension first and no operator across it"
        )


def follow(
    network: Network, inputs: Mapping[str, Sequence[int | str | None]], batch: int | None = None
) -> dict[str, Followed]:
    """Return what is known of every tensor of a network; parameters as in `check_row_independence`."""
    graph = network.model.graph
    known = {tensor.name: _constant(tensor) for tensor in graph.initializer}
    known |= {each.values.name: Followed(tuple(map(_axis, each.dims))) for each in graph.sparse_initializer}
    for name, shape in inputs.items():
        known[name] = Followed(tuple(_axis(BATCH if size is None else size) for size in shape), order="")
    _Walk(network, batch).run(graph.node, known, {})
    return known


class _Walk:
    """A pass over the operators of a network, functions included."""

    def __init__(self, network: Network, batch: int | None) -> None:
        self.batch, self._fresh = batch, 0
        versions = network.model.opset_import
        self.opset = next((each.version for each in versions if each.domain in ("", "ai.onnx")), 1)
        self._functions = {(f.domain, f.name, f.overload): f for f in network.model.functions}

    def run(self, nodes: Iterable[NodeProto], known: dict[str, Followed], given: Mapping[str, Any]) -> None:
        """Follow these operators; `given` are the attributes of the function that they are in."""
        for node in nodes:
            inputs = [known.get(name) if name else None for name in node.input]
            attributes = {
                each.name: given.get(each.ref_attr_name) if each.ref_attr_name else each for each in node.attribute
            }
            attributes = {name: each for name, each in attributes.items() if each is not None}
            function = self._functions.get((node.domain, node.op_type, node.overload))
            if function is not None:
                made = self._called(function, inputs, attributes)
            else:
                made = self._made(node, inputs, attributes)
            known.update((name, each) for name, each in zip(node.output, made, strict=False) if name)

    def _called(self, function: Any, inputs: list[Followed | None], attributes: dict[str, Any]) -> list[Followed]:
        """Follow the operators of a function, with these attributes or its own defaults."""
        given = {each.name: each for each in function.attribute_proto} | attributes
        inner = {name: each for name, each in zip(function.input, inputs, strict=False) if each is not None}
        self.run(function.node, inner, given)
        lost = Followed(None, taint=f"function {function.name} has an output that nothing makes")
        return [inner.get(name, lost) for name in function.output]

    def _made(self, node: NodeProto, inputs: list[Followed | None], attributes: dict[str, Any]) -> list[Followed]:
        """Return what is known of the outputs of an operator."""
        label = f'operator {node.op_type} "{node.name}"' if node.name else f"operator {node.op_type}"
        outputs = max(1, len(node.output))
        try:
            if any(each is None for name, each in zip(node.input, inputs, strict=True) if name):
                raise _TaintedError("reads a tensor that nothing makes")
            if any(_has_rows(each) for each in inputs[PARAMETERS.get(node.op_type, len(inputs)) :]):
                raise _TaintedError("has parameters that differ between rows")
            rule = RULES.get(node.op_type, _unknown)
            found = rule(_Operator(self, node.op_type, inputs, outputs, attributes))
            made = found if isinstance(found, list) else [found]
        except _PassedOnError as reason:
            made = [Followed(None, taint=str(reason))]
        except _TaintedError as reason:
            made = [Followed(None, taint=f"{label} {reason}")]
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            made = [Followed(None, taint=f"{label} does not fit its inputs")]
        bits = min((each.bits for each in inputs if each is not None), default=63)
        made = [_within(each, min(bits, each.bits)) for each in made]
        return [made[min(place, len(made) - 1)] for place in range(outputs)]

    def new(self) -> Axis:
        """Return an axis of a size that is not known and has nothing to do with the batch."""
        self._fresh += 1
        return (f"?{self._fresh}",)


@dataclass(frozen=True)
class _Operator:
    """An operator as its rule sees it: its type, what is known of its inputs, the number of outputs, its attributes."""

    walk: _Walk
    kind: str
    inputs: list[Followed | None]
    outputs: int
    attributes: dict[str, Any]

    @property
    def data(self) -> Followed:
        """The first input, whose rank must be known."""
        return _axed(self.inputs[0])

    def optional(self, place: int) -> Followed | None:
        """Return an input that may be missing."""
        return self.inputs[place] if place < len(self.inputs) else None

    def number(self, name: str, default: int) -> int:
        """Return an attribute that is a whole number."""
        found = self.attributes.get(name)
        return int(found.i) if found is not None else default

    def text(self, name: str, default: bytes = b"") -> bytes:
        """Return an attribute that is a text."""
        found = self.attributes.get(name)
        return bytes(found.s) if found is not None else default

    def numbers(self, name: str) -> list[int] | None:
        """Return an attribute that is a list of whole numbers."""
        found = self.attributes.get(name)
        return [int(each) for each in found.ints] if found is not None else None

    def listed(self, name: str, place: int) -> list[int] | None:
        """Return numbers from an attribute or, in newer versions, from an input, -1 for one that is not known."""
        given, entries = self.numbers(name), getattr(self.optional(place), "entries", None)
        if given is None and entries is not None:
            given = [entry[0] if entry and not entry[1] else -1 for entry in entries]
        return given

    def axes(self) -> list[int] | None:
        """Return the axes in the attribute or, in newer versions, in the second input; None for all."""
        given = self.numbers("axes")
        if given is None and self.optional(1) is not None:
            given = _numbers(self.inputs[1], "with axes that are computed")
        return given

    def axis(self, default: int) -> int:
        """Return the place of the axis in the attribute among those of the first input."""
        return _place(self.number("axis", default), self.data.rank)

    def size(self, axis: Axis) -> Size:
        """Return the size of an axis; a fixed batch is a number."""
        return _size(axis, self.walk.batch)

    def sizes(self) -> tuple[Size, ...]:
        """Return the shape of the first input; a size computed from tainted numbers may depend on the batch itself."""
        sizes = map(self.size, self.data.shape)
        return tuple(None if self.data.taint and size and any(map(_is_computed, size[1])) else size for size in sizes)

    def new(self, size: Size = None) -> Axis:
        """Return the axis of this size, a new one if it is not known."""
        return _factors(size) if size is not None else self.walk.new()

    def made(self, axes: Iterable[Axis], *, alike: bool = False) -> Followed:
        """Return a tensor with these axes, with the order of rows and the taint of all inputs."""
        return _followed(tuple(axes), _order(self.inputs), _taint(self.inputs), alike=alike)

    def one_axis(self, axes: Iterable[Axis]) -> Axis:
        """Return the axis that these become where tensors are broadcast against each other."""
        wide = list(dict.fromkeys(axis for axis in axes if axis))
        if len(wide) < 2:
            return wide[0] if wide else ()
        if any(BATCH in axis for axis in wide):
            raise _TaintedError("joins rows and values that are not rows along one axis")
        # A number above 1 is what an unknown size beside it must be, or be spread to.
        return next((axis for axis in wide if not any(isinstance(factor, str) for factor in axis)), self.new())

    def joined(self, given: Sequence[Followed]) -> Followed:
        """Return the shape and order of tensors that are broadcast against each other."""
        if any(each.axes is None for each in given):
            if any(map(_has_rows, given)) and not _taint(given):
                raise _TaintedError("joins rows with a tensor of unknown shape")
            return Followed(None, taint=_taint(given))
        axes = []
        for place in range(-max((each.rank for each in given), default=0), 0):
            here = [each for each in given if -place <= each.rank]
            if any(BATCH in each.shape[place] for each in here):
                # A tensor of one number suits every row, even if it is written out for a fixed number of them.
                here = [each for each in here if not each.alike or BATCH in each.shape[place]]
            axes.append(self.one_axis(each.shape[place] for each in here))
        return _followed(tuple(axes), _order(given), _taint(given), alike=all(each.alike for each in given))


Rule = Callable[[_Operator], Followed | list[Followed]]
AnyRule = TypeVar("AnyRule", bound=Rule)
RULES: dict[str, Rule] = {}
# Operators whose inputs from this one on are the same for all rows: weights, limits, lists of sizes or places.
PARAMETERS = {"ConstantOfShape": 0, "Range": 0} | dict.fromkeys(
    """
    AveragePool BatchNormalization Clip Conv ConvTranspose DepthToSpace Dropout Expand GlobalAveragePool GlobalMaxPool
    GroupNormalization InstanceNormalization LRN LpPool MaxPool OneHot Pad QLinearConv Reshape Slice SpaceToDepth Split
    Tile
    """.split(),  # noqa: SIM905  # a block of names reads better than a list of strings
    1,
)


def _rule(operators: str) -> Callable[[AnyRule], AnyRule]:
    """Register the rule of these operators."""

    def register(rule: AnyRule) -> AnyRule:
        RULES.update(dict.fromkeys(operators.split(), rule))
        return rule

    return register


def _unknown(op: _Operator) -> Followed:
    """Follow an operator without a rule: without rows in its inputs it has none in its outputs."""
    if any(map(_has_rows, op.inputs)) and not _taint(op.inputs):
        raise _TaintedError("is not known to treat every row by itself")
    return Followed(None, taint=_taint(op.inputs))


@_rule("""
    Abs Acos Acosh Add And Asin Asinh Atan Atanh Binarizer BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast
    CastLike CategoryMapper Ceil Celu Clip Cos Cosh Div Dropout Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual
    HardSigmoid HardSwish Identity IsInf IsNaN LabelEncoder LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul
    Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish
    Tan Tanh ThresholdedRelu Where Xor
""")
def _elementwise(op: _Operator) -> Followed:
    given = [each for each in op.inputs if each is not None]
    if op.kind == "Identity":
        return given[0]
    if op.kind == "Cast" and op.number("to", 0) in BITS:
        to = op.number("to", 0)
        # A permutation has fewer numbers than 32 bits can count, but not than a fraction can.
        return replace(given[0], permutation=given[0].permutation if to in (INT32, INT64) else "", bits=BITS[to])
    if op.kind in ("CastLike", "Clip", "Dropout"):
        # Limits and rates are single numbers, and may be computed; CastLike reads only the type of the second tensor.
        return replace(
            given[0], taint=_taint(given[: 1 if op.kind == "CastLike" else None]), entries=None, permutation=""
        )
    joined = op.joined(given)
    entries = _computed(op.kind, given)
    return joined if entries is None else _whole(entries, joined.axes, tainted=bool(_taint(given)))


@_rule("CumSum Hardmax LogSoftmax LpNormalization MeanVarianceNormalization Softmax Trilu")
def _along(op: _Operator) -> Followed:
    """Return a tensor of the same shape after an operator that works along some axes."""
    data = op.data
    axes = [op.number("axis", -1)]
    if op.kind in ("Hardmax", "LogSoftmax", "Softmax") and op.walk.opset < 13:
        # Before version 13 all axes from the given one on were one.
        axes = list(range(op.axis(1), data.rank))
    elif op.kind == "MeanVarianceNormalization":
        given = op.numbers("axes")
        axes = given if given is not None else [0, 2, 3]
    elif op.kind == "CumSum":
        axes = _numbers(op.inputs[1], "along an axis that is computed")
    elif op.kind == "Trilu":
        axes = list(range(data.rank))[-2:]
    made = _changed(data, [_place(axis, data.rank) for axis in axes])
    return replace(made, taint=_taint(op.inputs)) if op.kind == "Trilu" else made


@_rule("""
    ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare
""")
def _reduced(op: _Operator) -> Followed:
    data, keep = op.data, bool(op.number("keepdims", 1))
    axes = [op.number("axis", 0)] if op.kind.startswith("Arg") else op.axes()
    if not axes and op.number("noop_with_empty_axes", 0):
        return _changed(data)
    places = [_place(axis, data.rank) for axis in axes] if axes else range(data.rank)
    if op.kind == "ReduceProd" and data.entries is not None and data.rank == 1:
        return _whole((_product(data.entries),), ((),) if keep else (), tainted=bool(data.taint))
    return _combined(data, places, keep=keep)


@_rule("LayerNormalization RMSNormalization")
def _normalised(op: _Operator) -> list[Followed]:
    places = range(op.axis(-1), op.data.rank)
    made = _changed(op.joined([each for each in op.inputs if each is not None]), places)
    return [made, _combined(op.data, places, keep=True)]


@_rule("TopK")
def _sorted(op: _Operator) -> list[Followed]:
    """Sort along an axis; of all rows by a number for each, it gives the order in which they come."""
    data, place, chosen = op.data, op.axis(-1), op.optional(1)
    known = _entry(chosen)
    if data.batch == place:
        whole = known is not None and known == op.size((BATCH,))
        ascending = op.number("sorted", 1) and not op.number("largest", 1)
        if data.axes == ((BATCH,),) and data.permutation and whole and ascending:
            # The places of 0, 1, 2 ... in a permutation are its inverse.
            return [replace(data, permutation=""), replace(data, permutation=_inverse(data.permutation))]
        if data.axes != ((BATCH,),) or data.order != "" or data.taint or not whole:
            raise _TaintedError("sorts the rows of a batch")
        name = str(op.new()[0])
        taint = "operator TopK sorts the rows of a batch, and their order is used as a number"
        return [replace(data, order=name, entries=None), Followed(data.axes, taint=taint, permutation=name)]
    # The runtime keeps 32 bits of the number.
    known = known if known is not None and _largest(known) < BITS[INT32] else None
    if known is not None and BATCH in known[1]:
        raise _TaintedError("chooses as many elements as there are rows")
    taint = data.taint or (_taint([chosen]) if known is None else "")
    return [_followed(_with_axis(data, place, op.new(known)), data.order, taint)]


@_rule("MatMul MatMulInteger QLinearMatMul")
def _multiplied(op: _Operator) -> Followed:
    """Multiply matrices, as numpy does."""
    chosen = [op.inputs[0], op.inputs[3 if op.kind == "QLinearMatMul" else 1]]
    first, second = (_axed(each) for each in chosen)
    rest = [each for each in op.inputs if each is not None and not any(each is one for one in chosen)]
    one, other = first.shape, second.shape
    columns = len(other) > 1 and BATCH in other[-1]
    if any(any(_axed(each).shape) and (each.rank > 1 or columns) for each in rest):
        raise _TaintedError("has parameters that differ between rows")
    if not one or not other:
        raise _TaintedError("multiplies a single number")
    if BATCH in (*one[-1], *other[-2:][0]):
        raise _TaintedError("combines the rows of a batch")
    # The axes before the matrices are broadcast; a last one of size 1 stands for the matrix.
    outer = op.joined([replace(each, axes=(*each.shape[:-2], ()), taint="", alike=False) for each in (first, second)])
    axes = [*outer.shape[:-1], *one[-2:-1], *(other[-1:] if len(other) > 1 else ())]
    return _followed(tuple(axes), _order([first, second]), _taint(op.inputs))


@_rule("Gemm")
def _gemm(op: _Operator) -> Followed:
    first, second = (_axed(each).shape for each in op.inputs[:2])
    if len(first) != 2 or len(second) != 2:
        raise _TaintedError("multiplies tensors that are not matrices")
    first = first[::-1] if op.number("transA", 0) else first
    second = second[::-1] if op.number("transB", 0) else second
    if BATCH in (*first[1], *second[0]):
        raise _TaintedError("combines the rows of a batch")
    made = _followed((first[0], second[1]), _order(op.inputs[:2]), _taint(op.inputs))
    added = op.optional(2)
    return op.joined([made, added]) if added is not None else made


@_rule("Einsum")
def _einsum(op: _Operator) -> Followed:
    equation = op.text("equation").decode("ascii", "replace").replace(" ", "")
    left, arrow, right = equation.partition("->")
    if not arrow or "." in equation:
        raise _TaintedError("has an equation that is not analysed")
    sizes: dict[str, list[Axis]] = {}
    for term, each in zip(left.split(","), op.inputs, strict=True):
        for letter, axis in zip(term, _axed(each).shape, strict=True):
            sizes.setdefault(letter, []).append(axis)
    found = {letter: op.one_axis(axes) for letter, axes in sizes.items()}
    if any(BATCH in axis and letter not in right for letter, axis in found.items()):
        raise _TaintedError("combines the rows of a batch")
    return op.made(found[letter] for letter in right)


@_rule("BatchNormalization GroupNormalization InstanceNormalization LRN")
def _by_channel(op: _Operator) -> Followed:
    """Treat (rows, channels, places ...) row by row."""
    if op.data.batch is not None and (op.data.batch or op.data.rank < 2):
        raise _TaintedError("takes the rows of a batch for channels or places")
    # Before version 14 a second output asked for training.
    if op.kind == "BatchNormalization" and (op.number("training_mode", 0) or op.outputs > 1):
        raise _TaintedError("normalises by the rows of a batch, as in training")
    return op.made(op.data.shape)


@_rule("""
    AveragePool Conv ConvTranspose DepthToSpace GlobalAveragePool GlobalMaxPool LpPool MaxPool QLinearConv SpaceToDepth
""")
def _convolved(op: _Operator) -> list[Followed]:
    """Return the rows with the channels and places that a convolution or a pool leaves."""
    axes = _by_channel(op).shape
    pool, count = "Pool" in op.kind, len(axes) - 2
    weights = () if pool or op.kind[-4:] != "Conv" else getattr(op.inputs[3 if op.kind[0] == "Q" else 1], "shape", ())
    kernel = op.numbers("kernel_shape") or [_fixed(axis) or 0 for axis in weights[2:]]
    steps, spread = op.numbers("strides") or [1] * count, op.numbers("dilations") or [1] * count
    padding = op.text("auto_pad", b"NOTSET")
    pads = (op.numbers("pads") if padding == b"NOTSET" else None) or [0] * (2 * count)
    places: list[Axis] = []
    for place, axis in enumerate(axes[2:]):
        size, known = _fixed(axis), (pool or weights) and padding in (b"NOTSET", b"VALID")
        if op.kind.startswith("Global"):
            places.append(())
        elif known and size is not None and kernel[place] and not op.number("ceil_mode", 0):
            free = size + pads[place] + pads[place + count] - (kernel[place] - 1) * spread[place] - 1
            places.append(_axis(free // steps[place] + 1) if free >= 0 else op.new())
        else:
            places.append(op.new())
    made = op.made((*axes[:1], axes[1] if pool else weights[0] if weights else op.new(), *places))
    # The second output of MaxPool counts places through the whole batch.
    return [made, replace(made, taint=made.taint or f"operator {op.kind} numbers places in the batch")]


@_rule("""
    LinearClassifier LinearRegressor SVMClassifier SVMRegressor TreeEnsemble TreeEnsembleClassifier
    TreeEnsembleRegressor
""")
def _by_row(op: _Operator) -> list[Followed]:
    """Return labels or scores for each row, as many scores as the attributes say."""
    # A list of numbers is read as one row.
    if op.data.rank != 2 or op.data.batch not in (None, 0):
        raise _TaintedError("takes the rows of a batch for columns")
    rows, columns, given = op.data.shape[:1], op.new(), op.attributes
    named = ("classlabels_int64s", "classlabels_strings", "classlabels_ints")
    classes = max((len(given[key].ints or given[key].strings) for key in named if key in given), default=0)
    if op.kind == "TreeEnsembleClassifier" and classes:
        columns = _axis(classes)
    elif op.kind == "LinearClassifier" and "intercepts" in given:
        count = len(given["intercepts"].floats)
        columns = _axis(2 if count == 1 and classes == 2 else count)
    elif op.kind in ("LinearRegressor", "TreeEnsembleRegressor", "TreeEnsemble"):
        columns = _axis(op.number("targets" if op.kind == "LinearRegressor" else "n_targets", 1))
    scores = op.made((*rows, columns))
    return [op.made(rows), scores] if "Classifier" in op.kind else [scores]


@_rule("Imputer Normalizer Scaler")
def _by_column(op: _Operator) -> Followed:
    if op.data.batch is not None and (op.data.batch != 0 or op.data.rank != 2):
        raise _TaintedError("takes the rows of a batch for columns")
    return _changed(op.data)


@_rule("GRU LSTM RNN")
def _recurrent(op: _Operator) -> list[Followed]:
    first = bool(op.number("layout", 0))
    time, rows = (1, 0) if first else (0, 1)
    if op.data.rank != 3 or op.data.batch not in (None, rows):
        raise _TaintedError("takes the rows of a batch for steps")
    if any(_has_rows(op.optional(place)) for place in (1, 2, 3, 7)):
        raise _TaintedError("has weights that differ between rows")
    batch = op.data.shape[rows]
    for place, at, rank in ((4, 0, 1), (5, rows, 3), (6, rows, 3)):
        state = op.optional(place)
        if (
            state is not None
            and not state.alike
            and not state.taint
            and (state.rank != rank or state.shape[at] != batch)
        ):
            raise _TaintedError("begins in states, or has lengths, that do not belong to its rows")
    steps, size = op.data.shape[time], _axis(op.number("hidden_size", 0))
    both = (2,) if op.text("direction") == b"bidirectional" else ()
    every = (batch, steps, both, size) if first else (steps, both, batch, size)
    return [op.made(every), op.made((batch, both, size) if first else (both, batch, size))]


@_rule("Shape Size")
def _measured(op: _Operator) -> Followed:
    tainted = bool(_taint(op.inputs))
    if op.kind == "Size":
        return _whole((_product(op.sizes()),), (), tainted=tainted)
    if op.inputs[0] is None or op.inputs[0].axes is None:
        return Followed((op.new(),), taint=_taint(op.inputs))
    return _whole(op.sizes()[op.number("start", 0) : op.number("end", op.data.rank)], tainted=tainted)


@_rule("Constant")
def _written(op: _Operator) -> Followed:
    given = op.attributes
    if "value" in given:
        return _constant(given["value"].t)
    if "value_int" in given:
        return _whole(((op.number("value_int", 0), ()),), (), tainted=False)
    if "value_ints" in given:
        return _whole(tuple((each, ()) for each in op.numbers("value_ints") or ()), tainted=False)
    for name in ("floats", "strings"):
        if f"value_{name}" in given:
            return Followed((_axis(len(getattr(given[f"value_{name}"], name))),))
    return Followed(tuple(map(_axis, given["sparse_value"].sparse_tensor.dims)) if "sparse_value" in given else ())


@_rule("ConstantOfShape")
def _filled(op: _Operator) -> Followed:
    """Make a tensor of one number; only its shape can depend on the batch."""
    shape, value = op.inputs[0], op.attributes.get("value")
    fill = _constant(value.t).entries if value is not None else (ZERO,)
    if shape is None or shape.entries is None:
        if _taint([shape]):
            raise _TaintedError("has a shape that depends on the number of rows")
        return Followed(None)
    (count, symbols), *more = [size or (0, ("",)) for size in shape.entries] or [ONE]
    listed = not more and not symbols and count <= MOST_ENTRIES
    entries = fill * count if listed and fill is not None else None
    return replace(_followed(_target(op, shape), None, ""), entries=entries, alike=True)


@_rule("Range")
def _range(op: _Operator) -> Followed:
    start, limit, step = (_entry(each) for each in op.inputs)
    if start == ZERO and step == ONE and limit is not None:
        if limit == (1, (BATCH,)):
            reason = "operator Range numbers the rows of a batch, and the numbers are used as values"
            return Followed(((BATCH,),), taint=reason, order="", permutation="rows")
        if BATCH not in limit[1] and limit[0] >= 0:
            return Followed((_factors(limit),))
    if _taint(op.inputs):
        raise _TaintedError("counts to the number of rows")
    return Followed((op.new(),))


@_rule("Transpose")
def _transposed(op: _Operator) -> Followed:
    order = op.numbers("perm") or list(range(op.data.rank))[::-1]
    return _regarded(op.data, (op.data.shape[place] for place in order))


@_rule("Flatten")
def _flattened(op: _Operator) -> Followed:
    at = op.number("axis", 1)
    at = at + op.data.rank if at < 0 else at
    return _regarded(replace(op.data, entries=None), (sum(op.data.shape[:at], ()), sum(op.data.shape[at:], ())))


@_rule("Squeeze")
def _squeezed(op: _Operator) -> Followed:
    data, axes = op.data, op.axes()
    if axes is None and any(isinstance(factor, str) for axis in data.shape for factor in axis):
        # An axis of a free size is removed too whenever it happens to be 1.
        raise _TaintedError("removes the batch dimension, or another free one, if its size is 1; give it axes")
    ones = [place for place, axis in enumerate(data.shape) if not axis]
    places = [_place(axis, data.rank) for axis in axes] if axes is not None else ones
    if data.batch in places:
        raise _TaintedError("removes the batch dimension")
    return _regarded(data, (axis for place, axis in enumerate(data.shape) if place not in places))


@_rule("Unsqueeze")
def _unsqueezed(op: _Operator) -> Followed:
    axes = op.axes() or []
    rank = op.data.rank + len(axes)
    new, rest = {_place(axis, rank) for axis in axes}, iter(op.data.shape)
    if len(new) < len(axes):
        raise _TaintedError("names an axis twice")
    return _regarded(op.data, tuple(() if place in new else next(rest) for place in range(rank)))


@_rule("Reshape")
def _reshaped(op: _Operator) -> Followed:
    data, wanted = op.inputs[0], op.inputs[1]
    if data is None or wanted is None or (data.taint and data.axes is None):
        return Followed(None, taint=_taint([data]))
    if data.axes is None or wanted.entries is None:
        if data.batch is not None or _taint([data, wanted]):
            raise _TaintedError("has a shape that is computed in a way that is not analysed")
        rank = _fixed(wanted.axes[0]) if wanted.axes else None
        return Followed(tuple(op.new() for _ in range(rank)) if rank is not None else None)
    _target(op, wanted)
    sizes = list(wanted.entries)
    for place, size in enumerate(sizes):
        if size == ZERO and place < data.rank and not op.number("allowzero", 0):
            sizes[place] = op.size(data.axes[place])
    axes = _regrouped(op, list(sum(data.axes, ())), sizes)
    return _regarded(replace(data, entries=data.entries if len(axes) <= 1 else None), axes)


def _regrouped(op: _Operator, factors: list[Factor], sizes: list[Size]) -> tuple[Axis, ...]:
    """Split factors into axes of these sizes, or as far as the axis with the rows."""
    if (-1, ()) in sizes:
        at = sizes.index((-1, ()))
        sizes[at] = _quotient(op.size(tuple(factors)), _product(sizes[:at] + sizes[at + 1 :]))

    def has_batch(sizes: Iterable[Size]) -> bool:
        return any(size is not None and BATCH in size[1] for size in sizes)

    front = _split(factors, sizes, op.walk.batch)
    rest = sizes[len(front) :]
    if not rest:
        return tuple(front)
    if not has_batch(rest):
        if BATCH not in factors:
            return (*front, *map(op.new, rest))
        if any(BATCH in axis for axis in front):
            return (*front, *(op.new() for _ in rest))
    back = _split(factors[::-1], sizes[::-1], op.walk.batch)
    rest = sizes[: len(sizes) - len(back)]
    if any(BATCH in axis for axis in back) and not has_batch(rest):
        return (*(op.new() for _ in rest), *(axis[::-1] for axis in back[::-1]))
    raise _TaintedError("spreads rows over a shape in which they cannot be told apart")


@_rule("Concat")
def _concatenated(op: _Operator) -> Followed:
    parts, place = [_axed(each) for each in op.inputs], op.axis(1)
    if len(parts) == 1:
        return parts[0]
    if any(part.batch == place for part in parts):
        raise _TaintedError("puts rows of several batches one after the other")
    if all(part.entries is not None and part.rank == 1 for part in parts):
        return _whole(tuple(entry for part in parts for entry in part.entries or ()), tainted=bool(_taint(parts)))
    if any(part.rank != parts[0].rank for part in parts):
        raise _TaintedError("joins tensors of different ranks")
    axes = []
    for at, here in enumerate(zip(*(part.shape for part in parts), strict=True)):
        axes.append(op.one_axis(here) if at != place else _sum(here) or op.new())
    made = op.made(axes)
    own = parts[0].permutation == "rows" and parts[0].axes == ((BATCH,), ()) and place == 1
    if own and not _taint(parts[1:]) and _order(parts[1:]) in ("", None):
        return replace(made, permutation="rows first")
    return made


@_rule("FeatureVectorizer")
def _columns_joined(op: _Operator) -> Followed:
    parts = [_axed(each) for each in op.inputs]
    if any(part.batch not in (None, 0) or part.rank != 2 for part in parts):
        raise _TaintedError("takes the rows of a batch for columns")
    return op.made((op.one_axis(part.shape[0] for part in parts), op.new()))


@_rule("Split")
def _pieces(op: _Operator) -> list[Followed]:
    data, place, sizes = op.data, op.axis(0), op.listed("split", 1)
    if data.batch == place:
        raise _TaintedError("splits the rows of a batch")
    if sizes is None:
        whole = _fixed(data.shape[place])
        even = whole is not None and whole % op.outputs == 0
        sizes = [whole // op.outputs if whole is not None and even else -1] * op.outputs
    sizes += [-1] * (op.outputs - len(sizes))
    return [op.made(_with_axis(data, place, _axis(size) if size > 0 else op.new())) for size in sizes[: op.outputs]]


@_rule("Slice")
def _sliced(op: _Operator) -> Followed:
    data = op.data
    if "starts" in op.attributes:
        starts, ends = op.numbers("starts") or [], op.numbers("ends") or []
        axes, steps = op.numbers("axes") or list(range(len(starts))), [1] * len(starts)
        bounds: list[Any] = [((start, ()), (end, ())) for start, end in zip(starts, ends, strict=True)]
    else:
        entries = [getattr(op.optional(place), "entries", None) for place in (1, 2)]
        count = max((len(each) for each in entries if each is not None), default=0)
        bounds = list(zip(*(each if each is not None else (None,) * count for each in entries), strict=True))
        given, stepped = op.optional(3), op.optional(4)
        axes = _numbers(given, "with axes that are computed") if given is not None else list(range(count))
        steps = [1 if stepped is None else 0] * count
        if stepped is not None and stepped.entries is not None:
            steps = _numbers(stepped, "")
    if not bounds:
        if data.batch is not None:
            raise _TaintedError("cuts in a way that is not analysed")
        return op.made(op.new() for _ in data.shape)
    made, taint = list(data.shape), data.taint
    for axis, (start, end), step in zip(axes, bounds, steps, strict=True):
        place = _place(axis, data.rank)
        size = op.size(made[place])
        to_end = end is not None and ((not end[1] and end[0] >= TOO_LARGE) or end == size)
        if start == ZERO and to_end and step == 1:
            continue
        if place == data.batch:
            raise _TaintedError("chooses some rows of a batch")
        if any(bound is None or BATCH in bound[1] for bound in (start, end)):
            taint = taint or _taint(op.inputs[1:])
        known = step and not any(each is None or each[1] for each in (size, start, end))
        made[place] = _axis(len(range(size[0])[start[0] : end[0] : step])) if size and known else op.new()
    start, end = bounds[0]
    single = len(bounds) == 1 and data.rank == 1 and steps[0]
    if data.entries is not None and single and not any(each is None or each[1] for each in (start, end)):
        return _whole(data.entries[start[0] : end[0] : steps[0]], tainted=bool(_taint(op.inputs)))
    return _followed(tuple(made), data.order, taint, alike=data.alike)


@_rule("ArrayFeatureExtractor Gather")
def _gathered(op: _Operator) -> Followed:
    data, index, place = op.data, _axed(op.inputs[1]), op.axis(0)
    if op.kind == "ArrayFeatureExtractor":
        place = data.rank - 1
        index = replace(index, axes=(sum(index.shape, ()),))
    if data.entries is not None and index.entries is not None and data.rank == 1:
        places = _numbers(index, "with places that are computed")
        if all(-len(data.entries) <= at < len(data.entries) for at in places):
            return _whole(tuple(data.entries[at] for at in places), index.axes, tainted=bool(data.taint))
    # Rows that are all alike may be chosen from, unless something else comes before them in their axis.
    if data.batch == place and (data.order is not None or data.shape[place][0] != BATCH):
        if not index.permutation or index.axes != ((BATCH,),) or data.shape[place] != (BATCH,):
            raise _TaintedError("chooses some rows of a batch")
        order = _reordered(data.order or "", index.permutation)
        return replace(data, order=order, entries=None, permutation="")
    return op.made((*data.shape[:place], *index.shape, *data.shape[place + 1 :]))


@_rule("GatherElements ScatterElements")
def _by_element(op: _Operator) -> Followed:
    """Pick or replace elements along an axis; rows stay where they are on any other axis."""
    data, index, place = op.data, _axed(op.inputs[1]), op.axis(0)
    updates = op.inputs[2] if op.kind == "ScatterElements" else None
    if place in (data.batch, index.batch):
        inverted = updates is not None and updates.permutation == "rows" and updates.axes == index.axes
        replaces = op.text("reduction", b"none") == b"none"
        if inverted and index.permutation and index.axes == data.axes == ((BATCH,),) and replaces:
            return replace(index, permutation=_inverse(index.permutation))
        raise _TaintedError("chooses some rows of a batch")
    parts = [each for each in (data, index, updates) if each is not None]
    if len({(part.batch, part.shape[part.batch] if part.batch is not None else ()) for part in parts}) > 1:
        raise _TaintedError("joins rows and values that are not rows along one axis")
    return op.made((data if updates is not None else index).shape)


@_rule("GatherND ScatterND")
def _by_position(op: _Operator) -> Followed:
    """Gather by tuples of positions; if the first counts the rows, each row picks from itself."""
    data, index = op.data, _axed(op.inputs[1])
    if op.kind == "ScatterND":
        if any(map(_has_rows, op.inputs)):
            raise _TaintedError("replaces rows in a way that is not analysed")
        return op.made(data.shape)
    depth, same = _fixed((index.axes or ((),))[-1]), op.number("batch_dims", 0)
    if depth is None:
        raise _TaintedError("gathers in a way that is not analysed")
    axes = (*index.shape[:-1], *data.shape[same + depth :])
    if (data.batch is None and not same) or (
        same and data.batch == 0 and index.batch == 0 and data.shape[0] == index.shape[0]
    ):
        return op.made(axes)
    if not same and data.shape[0] == (BATCH,) and data.order == "" and index.permutation == "rows first":
        return _followed(axes, "", data.taint)
    raise _TaintedError("chooses some rows of a batch")


@_rule("Expand Tile")
def _expanded(op: _Operator) -> Followed:
    data, wanted = op.data, op.inputs[1]
    if wanted is None or wanted.entries is None:
        if data.batch is not None or _taint([wanted]):
            raise _TaintedError("has a shape that is computed in a way that is not analysed")
        return Followed(None, taint=data.taint)
    target = _target(op, wanted)
    if op.kind == "Tile":
        if any(BATCH in axis and times for axis, times in zip(data.shape, target, strict=True)):
            raise _TaintedError("repeats the rows of a batch")
        axes = tuple(times + axis for axis, times in zip(data.shape, target, strict=True))
        return _followed(axes, data.order, data.taint, alike=data.alike)
    if op.walk.batch is not None and data.batch is not None:
        # Where the batch is fixed its size may be written out.
        at = data.batch - data.rank
        if -at <= len(target) and target[at] == _axis(op.walk.batch):
            target = _with_axis(Followed(target), at + len(target), data.shape[data.batch])
    joined = op.joined([replace(data, alike=False), Followed(target)])
    return replace(joined, taint=data.taint, alike=data.alike)


def _target(op: _Operator, shape: Followed) -> tuple[Axis, ...]:
    """Return the axes that a list of sizes describes."""
    if shape.taint and any(size is None for size in shape.entries or ()):
        raise _TaintedError("has a shape that depends on the number of rows in a way that is not analysed")
    return tuple(map(op.new, shape.entries or ()))


@_rule("Pad")
def _padded(op: _Operator) -> Followed:
    data, pads = op.data, op.listed("pads", 1)
    if data.batch is None:
        return op.made(op.new() for _ in data.shape)
    if pads is None or len(op.inputs) > 3 or len(pads) != 2 * data.rank:
        raise _TaintedError("adds rows in a way that is not analysed")
    grown = [bool(before or after) for before, after in zip(pads[: data.rank], pads[data.rank :], strict=True)]
    if grown[data.batch]:
        raise _TaintedError("adds rows to a batch")
    return op.made(op.new() if more else axis for more, axis in zip(grown, data.shape, strict=True))


@_rule("OneHot OneHotEncoder")
def _one_hot(op: _Operator) -> Followed:
    place, new = op.data.rank, op.new()
    if op.kind == "OneHot":
        place = _place(op.number("axis", -1), op.data.rank + 1)
    else:
        words, numbers = (op.attributes.get(key) for key in ("cats_strings", "cats_int64s"))
        count = len(words.strings) if words is not None else len(numbers.ints) if numbers is not None else 0
        new = _axis(count) if count else new
    return op.made((*op.data.shape[:place], new, *op.data.shape[place:]))


@_rule("ReverseSequence")
def _reversed(op: _Operator) -> Followed:
    data, lengths = op.data, _axed(op.inputs[1])
    rows, time = (
        _place(op.number(name, default), data.rank) for name, default in (("batch_axis", 1), ("time_axis", 0))
    )
    own = lengths.batch is None and data.batch is None
    if not own and (data.batch != rows or data.batch == time or lengths.axes != (data.shape[rows],)):
        raise _TaintedError("takes the rows of a batch for steps")
    return op.made(data.shape)


@_rule("DequantizeLinear QuantizeLinear")
def _quantised(op: _Operator) -> Followed:
    along = _place(op.number("axis", 1), max(op.data.rank, 2))
    for each in op.inputs[1:]:
        if each is not None and any(_axed(each).shape) and (each.rank > 1 or along == op.data.batch):
            raise _TaintedError("has parameters that differ between rows")
    return op.made(op.data.shape)


def _axis(size: int | str) -> Axis:
    return () if size == 1 else (size,)


def _size(axis: Axis, batch: int | None = None) -> tuple[int, tuple[str, ...]]:
    """Return the product of factors; a fixed batch is a number."""
    numbers = [batch if factor == BATCH and batch is not None else factor for factor in axis]
    return prod(f for f in numbers if isinstance(f, int)), tuple(sorted(f for f in numbers if isinstance(f, str)))


def _fixed(axis: Axis) -> int | None:
    """Return the size of an axis that is a number."""
    number, symbols = _size(axis)
    return None if symbols else number


def _factors(size: tuple[int, tuple[str, ...]]) -> Axis:
    return (*_axis(size[0]), *size[1])


def _product(sizes: Iterable[Size]) -> Size:
    number, symbols = 1, list[str]()
    for size in sizes:
        if size is None:
            return None
        number *= size[0]
        symbols += size[1]
    return number, tuple(sorted(symbols))


def _quotient(whole: Size, part: Size) -> Size:
    if whole is None or part is None or not part[0] or whole[0] % part[0]:
        return None
    left = Counter(whole[1])
    left.subtract(part[1])
    if any(count < 0 for count in left.values()):
        return None
    return whole[0] // part[0], tuple(sorted(left.elements()))


def _sum(axes: Iterable[Axis]) -> Axis:
    """Return the axis of the sum of these sizes; () if it is not known."""
    sizes = [_fixed(axis) for axis in axes]
    return _axis(sum(size or 0 for size in sizes)) if None not in sizes else ()


def _split(factors: Sequence[Factor], sizes: Sequence[Size], batch: int | None) -> list[Axis]:
    """Return the factors of each of these sizes, in order, as far as they can be told."""
    rest, axes = list(factors), list[Axis]()
    for size in sizes:
        if size is None or size[0] < 1:
            return axes
        number, symbols, taken = size[0], list(size[1]), list[Factor]()
        while number != 1 or symbols:
            factor = rest.pop(0) if rest else None
            if factor == BATCH and BATCH not in symbols and batch is not None and number % batch == 0:
                number //= batch
            elif isinstance(factor, str) and factor in symbols:
                symbols.remove(factor)
            elif isinstance(factor, int) and number % factor == 0:
                number //= factor
            elif isinstance(factor, int) and factor % number == 0 and not symbols:
                rest.insert(0, factor // number)
                factor, number = number, 1
            else:
                return axes
            taken.append(factor)
        axes.append(tuple(taken))
    return axes


def _followed(axes: tuple[Axis, ...], order: str | None, taint: str, *, alike: bool = False) -> Followed:
    """Return what is known of a tensor with rows along one axis at most."""
    if sum(axis.count(BATCH) for axis in axes) > 1:
        raise _TaintedError("compares the rows of a batch with each other")
    return Followed(axes, taint=taint, order=order, alike=alike)


def _whole(entries: tuple[Size, ...], axes: tuple[Axis, ...] | None = None, *, tainted: bool) -> Followed:
    """Return what is known of a tensor of whole numbers, which is tainted if one of them depends on the batch.

    `tainted` says whether something that it was made from is; then a number that is not known may depend on the batch.
    """
    depends = any(BATCH in entry[1] if entry is not None else tainted for entry in entries)
    taint = "the number of rows is used as a value" if depends else ""
    kept = entries if len(entries) <= MOST_ENTRIES else None
    return Followed(axes if axes is not None else (_axis(len(entries)),), entries=kept, taint=taint)


def _constant(tensor: TensorProto) -> Followed:
    """Return what is known of a constant: its shape, and its entries if it is a short list of whole numbers."""
    axes = tuple(_axis(int(size)) for size in tensor.dims)
    raw = tensor.raw_data
    alike = bool(raw) and not raw.strip(b"\0")  # zeros: where recurrent layers begin
    if tensor.data_type not in (INT32, INT64) or prod(tensor.dims) > MOST_ENTRIES or len(axes) > 1:
        return Followed(axes, alike=alike)
    numbers = list(tensor.int64_data if tensor.data_type == INT64 else tensor.int32_data)
    if raw:
        numbers = np.frombuffer(raw, "<i8" if tensor.data_type == INT64 else "<i4").tolist()
    entries = tuple((int(number), ()) for number in numbers)
    return Followed(axes, entries=entries, alike=len(set(numbers)) == 1, bits=BITS[tensor.data_type])


def _is_computed(symbol: str) -> bool:
    """Return whether a symbol is the size of an axis that an operator made, as those of `_Walk.new` are."""
    return symbol.startswith("?")


def _largest(size: tuple[int, tuple[str, ...]]) -> int:
    """Return how many bits a number may need."""
    symbols = sum(COMPUTED_BITS if _is_computed(symbol) else SIZE_BITS for symbol in size[1])
    return abs(size[0]).bit_length() + symbols


def _within(given: Followed, bits: int) -> Followed:
    """Return what is known of a tensor without the numbers that may have been rounded or have overflowed."""
    if given.entries is None:
        return replace(given, bits=bits)
    kept = tuple(entry if entry is None or _largest(entry) < bits else None for entry in given.entries)
    return replace(given, entries=kept, bits=bits)


def _regarded(data: Followed, axes: Iterable[Axis]) -> Followed:
    """Return the same elements in the same order, with other axes around them."""
    return replace(data, axes=tuple(axes), permutation="" if data.permutation == "rows first" else data.permutation)


def _changed(data: Followed, places: Collection[int] = ()) -> Followed:
    """Return a tensor of the same shape with other elements, each computed along these axes."""
    if data.batch in places:
        raise _TaintedError("works across the rows of a batch")
    return replace(data, entries=None, permutation="", alike=False)


def _combined(data: Followed, places: Collection[int], *, keep: bool) -> Followed:
    """Return the tensor with these axes combined into one number each, which are kept or removed."""
    if data.batch in places:
        raise _TaintedError("combines the rows of a batch")
    axes = [() if place in places else axis for place, axis in enumerate(data.shape) if keep or place not in places]
    return _followed(tuple(axes), data.order, data.taint)


def _with_axis(data: Followed, place: int, axis: Axis) -> tuple[Axis, ...]:
    """Return the axes of a tensor with another one at this place."""
    return (*data.shape[:place], axis, *data.shape[place + 1 :])


def _axed(given: Followed | None) -> Followed:
    """Return a tensor whose rank is known, or say that it is not."""
    if given is not None and given.axes is None and given.taint:
        raise _PassedOnError(given.taint)
    if given is None or given.axes is None:
        raise _TaintedError("reads a tensor of unknown shape")
    return given


def _place(axis: int, rank: int) -> int:
    place = axis + rank if axis < 0 else axis
    if not 0 <= place < max(rank, 1):
        raise _TaintedError("names an axis that is not there")
    return place


def _entry(given: Followed | None) -> Size:
    return given.entries[0] if given is not None and given.entries is not None and len(given.entries) == 1 else None


def _numbers(given: Followed | None, problem: str) -> list[int]:
    """Return the numbers of a tensor, or say that they are computed."""
    if given is None or given.entries is None or any(entry is None or entry[1] for entry in given.entries):
        raise _TaintedError(f"works {problem}")
    return [entry[0] for entry in given.entries if entry is not None]


def _has_rows(given: Followed | None) -> bool:
    return given is not None and given.batch is not None


def _taint(inputs: Iterable[Followed | None]) -> str:
    return next((each.taint for each in inputs if each is not None and each.taint), "")


def _order(inputs: Iterable[Followed | None]) -> str | None:
    """Return the common order of rows, or say that there are several."""
    orders = {each.order for each in inputs if each is not None and each.order is not None and _has_rows(each)}
    if len(orders) > 1:
        raise _TaintedError("joins rows in different orders")
    return next(iter(orders), None)


def _inverse(permutation: str) -> str:
    back = "back from "
    return permutation.removeprefix(back) if permutation.startswith(back) else back + permutation


def _reordered(order: str, permutation: str) -> str:
    """Return the order of rows after a permutation; only one at a time is followed."""
    if permutation == "rows":
        return order
    if order == "":
        return permutation
    if order == _inverse(permutation):
        return ""
    raise _TaintedError("sorts rows that are sorted already")


def _computed(operator: str, given: Sequence[Followed]) -> tuple[Size, ...] | None:
    """Return the entries of what arithmetic makes of short lists of whole numbers."""
    lists = [each.entries for each in given if each.entries is not None and each.rank <= 1]
    count = max(map(len, lists), default=0)
    if (
        operator not in ARITHMETIC
        or not lists
        or len(lists) < len(given)
        or any(len(each) not in (1, count) for each in lists)
    ):
        return None
    wide = [each * (count if len(each) == 1 else 1) for each in lists]
    # The result of Where may be known although one of the alternatives is not.
    needed = 1 if operator == "Where" else None
    return tuple(
        None if None in entries[:needed] else ARITHMETIC[operator](*entries) for entries in zip(*wide, strict=True)
    )


def _plus(one: Any, other: Any) -> Size:
    total = one[0] + other[0]
    if one[1] != other[1] and one[0] and other[0]:
        return None
    return (total, one[1] if one[0] else other[1]) if total else ZERO


def _equal(one: Any, other: Any) -> Size:
    if one == other:
        return ONE
    # A size is not negative, so it differs from a negative number.
    apart = one[0] * other[0] < 0 and not (one[1] and other[1])
    return ZERO if apart or (not one[1] and not other[1]) else None


ARITHMETIC: dict[str, Callable[..., Size]] = {
    "Add": _plus,
    "Sub": lambda one, other: _plus(one, (-other[0], other[1])),
    "Mul": lambda one, other: _product([one, other]),
    # A size that is computed may be 0.
    "Div": lambda one, other: None if any(map(_is_computed, other[1])) else _quotient(one, other),
    "Equal": _equal,
    "Mod": lambda one, other: None if one[1] or other[1] or one[0] < 0 or other[0] <= 0 else (one[0] % other[0], ()),
    "Where": lambda test, one, other: None if test[1] else one if test[0] else other,
}
