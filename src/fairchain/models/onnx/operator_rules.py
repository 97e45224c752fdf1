"""Rules of operators: the known facts about their outputs, from those about their inputs.

A rule raises a `TaintedError` if the operator works across the batch axis, or if the number of rows or a row's position
becomes a value. An operator without a rule is not known to treat each row independently. Operators that compute come
first, then those on shapes and positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from fairchain.models.onnx.tensor_facts import (
    BATCH,
    BITS,
    INT32,
    INT64,
    MOST_ENTRIES,
    ONE,
    TOO_LARGE_SIZE,
    ZERO,
    Axis,
    Factor,
    Followed,
    Operator,
    Size,
    TaintedError,
    axed,
    axis_of,
    common_order,
    factors_of,
    first_taint,
    fixed_size,
    has_rows,
    is_computed,
    known_numbers,
    most_bits,
    place_of,
    product_of,
    quotient_of,
    rows_once,
    single_entry,
    split_factors,
    whole_numbers,
    written_constant,
)

OperatorRule = Callable[[Operator], Followed | list[Followed]]
AnyRule = TypeVar("AnyRule", bound=OperatorRule)
SHAPE_NOT_ANALYSED = "has a shape that is computed in a way that is not analysed"
RULES: dict[str, OperatorRule] = {}


def rule(operators: str) -> Callable[[AnyRule], AnyRule]:
    """Return a decorator that registers the rule of these operators."""

    def register(rule: AnyRule) -> AnyRule:
        RULES.update(dict.fromkeys(operators.split(), rule))
        return rule

    return register


@rule("""
    Abs Acos Acosh Add And Asin Asinh Atan Atanh Binarizer BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast
    CastLike CategoryMapper Ceil Celu Clip Cos Cosh Div Dropout Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual
    HardSigmoid HardSwish Identity IsInf IsNaN LabelEncoder LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul
    Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish
    Tan Tanh ThresholdedRelu Where Xor
""")
def _elementwise(op: Operator) -> Followed:
    given = [each for each in op.inputs if each is not None]
    if op.kind == "Identity":
        return given[0]
    if op.kind == "Cast" and op.number("to", 0) in BITS:
        to = op.number("to", 0)
        # The entries of a permutation fit into 32 bits, but not into the mantissa of every floating-point type.
        return replace(given[0], permutation=given[0].permutation if to in (INT32, INT64) else "", bits=BITS[to])
    if op.kind in ("CastLike", "Clip", "Dropout"):
        # Limits and rates are single numbers, and may be computed; CastLike reads only the type of the second tensor.
        return replace(
            given[0], taint=first_taint(given[: 1 if op.kind == "CastLike" else None]), entries=None, permutation=""
        )
    joined = op.joined(given)
    entries = computed_entries(op.kind, given)
    return joined if entries is None else whole_numbers(entries, first_taint(given), joined.axes)


@rule("CumSum Hardmax LogSoftmax LpNormalization MeanVarianceNormalization Softmax Trilu")
def _along(op: Operator) -> Followed:
    """Return a tensor of the same shape after an operator that works along some axes."""
    data = op.data
    axes = [op.number("axis", -1)]
    if op.kind in ("Hardmax", "LogSoftmax", "Softmax") and op.opset < 13:
        # Before version 13 all axes from the given one on were merged.
        axes = list(range(op.axis(1), data.rank))
    elif op.kind == "MeanVarianceNormalization":
        given = op.numbers("axes")
        axes = given if given is not None else [0, 2, 3]
    elif op.kind == "CumSum":
        axes = known_numbers(op.inputs[1], "along an axis that is computed")
    elif op.kind == "Trilu":
        axes = list(range(data.rank))[-2:]
    made = data.changed([place_of(axis, data.rank) for axis in axes])
    return replace(made, taint=op.taint) if op.kind == "Trilu" else made


@rule("""
    ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare
""")
def _reduced(op: Operator) -> Followed:
    data, keep = op.data, bool(op.number("keepdims", 1))
    axes = [op.number("axis", 0)] if op.kind.startswith("Arg") else op.axes()
    if not axes and op.number("noop_with_empty_axes", 0):
        return data.changed()
    places = [place_of(axis, data.rank) for axis in axes] if axes else range(data.rank)
    if op.kind == "ReduceProd" and data.entries is not None and data.rank == 1:
        return whole_numbers([product_of(data.entries)], data.taint, ((),) if keep else ())
    return data.combined(places, keep=keep)


@rule("LayerNormalization RMSNormalization")
def _normalised(op: Operator) -> list[Followed]:
    places = range(op.axis(-1), op.data.rank)
    made = op.joined([each for each in op.inputs if each is not None])
    return [made.changed(places), op.data.combined(places, keep=True)]


@rule("TopK")
def _sorted(op: Operator) -> list[Followed]:
    """Sort along an axis; sorting all rows by one number each gives a permutation of them."""
    data, place, chosen = op.data, op.axis(-1), op.optional(1)
    known = single_entry(chosen)
    if data.batch == place:
        whole = known is not None and known == op.size((BATCH,))
        ascending = op.number("sorted", 1) and not op.number("largest", 1)
        if data.axes == ((BATCH,),) and data.permutation and whole and ascending:
            # The positions of 0, 1, 2 ... in a permutation are its inverse.
            return [replace(data, permutation=""), replace(data, permutation=inverse_of(data.permutation))]
        if data.axes != ((BATCH,),) or data.order != "" or data.taint or not whole:
            raise TaintedError("sorts the rows of a batch")
        name = str(op.new()[0])
        taint = "operator TopK sorts the rows of a batch, and their order is used as a number"
        return [replace(data, order=name, entries=None), Followed(data.axes, taint=taint, permutation=name)]
    # The runtime uses 32 bits of the number.
    known = known if known is not None and most_bits(known) < BITS[INT32] else None
    if known is not None and BATCH in known[1]:
        raise TaintedError("chooses as many elements as there are rows")
    taint = data.taint or (first_taint([chosen]) if known is None else "")
    return [rows_once(data.with_axis(place, op.new(known)), data.order, taint)]


@rule("MatMul MatMulInteger QLinearMatMul")
def _multiplied(op: Operator) -> Followed:
    """Multiply matrices, as numpy does."""
    chosen = [op.inputs[0], op.inputs[3 if op.kind == "QLinearMatMul" else 1]]
    first, second = (axed(each) for each in chosen)
    rest = [each for each in op.inputs if each is not None and not any(each is one for one in chosen)]
    one, other = first.shape, second.shape
    columns = len(other) > 1 and BATCH in other[-1]
    if any(any(axed(each).shape) and (each.rank > 1 or columns) for each in rest):
        raise TaintedError("has parameters that differ between rows")
    if not one or not other:
        raise TaintedError("multiplies a single number")
    if BATCH in (*one[-1], *other[-2:][0]):
        raise TaintedError("combines the rows of a batch")
    # The axes before the matrices are broadcast; a last one of size 1 replaces the matrix axis.
    outer = op.joined([replace(each, axes=(*each.shape[:-2], ()), taint="", alike=False) for each in (first, second)])
    axes = [*outer.shape[:-1], *one[-2:-1], *(other[-1:] if len(other) > 1 else ())]
    return rows_once(axes, common_order([first, second]), op.taint)


@rule("Gemm")
def _gemm(op: Operator) -> Followed:
    first, second = (axed(each).shape for each in op.inputs[:2])
    if len(first) != 2 or len(second) != 2:
        raise TaintedError("multiplies tensors that are not matrices")
    first = first[::-1] if op.number("transA", 0) else first
    second = second[::-1] if op.number("transB", 0) else second
    if BATCH in (*first[1], *second[0]):
        raise TaintedError("combines the rows of a batch")
    made = rows_once((first[0], second[1]), common_order(op.inputs[:2]), op.taint)
    added = op.optional(2)
    return op.joined([made, added]) if added is not None else made


@rule("Einsum")
def _einsum(op: Operator) -> Followed:
    equation = op.text("equation").decode("ascii", "replace").replace(" ", "")
    left, arrow, right = equation.partition("->")
    if not arrow or "." in equation:
        raise TaintedError("has an equation that is not analysed")
    sizes: dict[str, list[Axis]] = {}
    for term, each in zip(left.split(","), op.inputs, strict=True):
        for letter, axis in zip(term, axed(each).shape, strict=True):
            sizes.setdefault(letter, []).append(axis)
    found = {letter: op.one_axis(axes) for letter, axes in sizes.items()}
    if any(BATCH in axis and letter not in right for letter, axis in found.items()):
        raise TaintedError("combines the rows of a batch")
    return op.made(found[letter] for letter in right)


@rule("BatchNormalization GroupNormalization InstanceNormalization LRN")
def _by_channel(op: Operator) -> Followed:
    """Treat (rows, channels, places ...) row by row."""
    if op.data.batch is not None and (op.data.batch or op.data.rank < 2):
        raise TaintedError("takes the rows of a batch for channels or places")
    # Before version 14 a second output meant training mode.
    if op.kind == "BatchNormalization" and (op.number("training_mode", 0) or op.outputs > 1):
        raise TaintedError("normalises by the rows of a batch, as in training")
    return op.made(op.data.shape)


@rule("""
    AveragePool Conv ConvTranspose DepthToSpace GlobalAveragePool GlobalMaxPool LpPool MaxPool QLinearConv SpaceToDepth
""")
def _convolved(op: Operator) -> list[Followed]:
    """Return the rows with the channels and positions after a convolution or a pool."""
    axes = _by_channel(op).shape
    pool, count = "Pool" in op.kind, len(axes) - 2
    weights = () if pool or op.kind[-4:] != "Conv" else getattr(op.inputs[3 if op.kind[0] == "Q" else 1], "shape", ())
    kernel = op.numbers("kernel_shape") or [fixed_size(axis) or 0 for axis in weights[2:]]
    steps, spread = op.numbers("strides") or [1] * count, op.numbers("dilations") or [1] * count
    padding = op.text("auto_pad", b"NOTSET")
    pads = (op.numbers("pads") if padding == b"NOTSET" else None) or [0] * (2 * count)
    places: list[Axis] = []
    for place, axis in enumerate(axes[2:]):
        size, known = fixed_size(axis), (pool or weights) and padding in (b"NOTSET", b"VALID")
        if op.kind.startswith("Global"):
            places.append(())
        elif known and size is not None and kernel[place] and not op.number("ceil_mode", 0):
            free = size + pads[place] + pads[place + count] - (kernel[place] - 1) * spread[place] - 1
            places.append(axis_of(free // steps[place] + 1) if free >= 0 else op.new())
        else:
            places.append(op.new())
    made = op.made((*axes[:1], axes[1] if pool else weights[0] if weights else op.new(), *places))
    # The second output of MaxPool counts positions through the whole batch.
    return [made, replace(made, taint=made.taint or f"operator {op.kind} returns positions in the batch")]


@rule("""
    LinearClassifier LinearRegressor SVMClassifier SVMRegressor TreeEnsemble TreeEnsembleClassifier
    TreeEnsembleRegressor
""")
def _by_row(op: Operator) -> list[Followed]:
    """Return labels or scores for each row; the attributes state the number of scores."""
    # A list of numbers is read as one row.
    if op.data.rank != 2 or op.data.batch not in (None, 0):
        raise TaintedError("takes the rows of a batch for columns")
    rows, columns, given = op.data.shape[:1], op.new(), op.attributes
    named = ("classlabels_int64s", "classlabels_strings", "classlabels_ints")
    classes = max((len(given[key].ints or given[key].strings) for key in named if key in given), default=0)
    if op.kind == "TreeEnsembleClassifier" and classes:
        columns = axis_of(classes)
    elif op.kind == "LinearClassifier" and "intercepts" in given:
        count = len(given["intercepts"].floats)
        columns = axis_of(2 if count == 1 and classes == 2 else count)
    elif op.kind in ("LinearRegressor", "TreeEnsembleRegressor", "TreeEnsemble"):
        columns = axis_of(op.number("targets" if op.kind == "LinearRegressor" else "n_targets", 1))
    scores = op.made((*rows, columns))
    return [op.made(rows), scores] if "Classifier" in op.kind else [scores]


@rule("Imputer Normalizer Scaler")
def _by_column(op: Operator) -> Followed:
    if op.data.batch is not None and (op.data.batch != 0 or op.data.rank != 2):
        raise TaintedError("takes the rows of a batch for columns")
    return op.data.changed()


@rule("GRU LSTM RNN")
def _recurrent(op: Operator) -> list[Followed]:
    first = bool(op.number("layout", 0))
    time, rows = (1, 0) if first else (0, 1)
    if op.data.rank != 3 or op.data.batch not in (None, rows):
        raise TaintedError("takes the rows of a batch for steps")
    if any(has_rows(op.optional(place)) for place in (1, 2, 3, 7)):
        raise TaintedError("has weights that differ between rows")
    batch = op.data.shape[rows]
    for place, at, rank in ((4, 0, 1), (5, rows, 3), (6, rows, 3)):
        state = op.optional(place)
        if (
            state is not None
            and not state.alike
            and not state.taint
            and (state.rank != rank or state.shape[at] != batch)
        ):
            raise TaintedError("begins in states, or has lengths, that do not belong to its rows")
    steps, size = op.data.shape[time], axis_of(op.number("hidden_size", 0))
    both = (2,) if op.text("direction") == b"bidirectional" else ()
    every = (batch, steps, both, size) if first else (steps, both, batch, size)
    return [op.made(every), op.made((batch, both, size) if first else (both, batch, size))]


@rule("OneHot OneHotEncoder")
def _one_hot(op: Operator) -> Followed:
    place, new = op.data.rank, op.new()
    if op.kind == "OneHot":
        place = place_of(op.number("axis", -1), op.data.rank + 1)
    else:
        words, numbers = (op.attributes.get(key) for key in ("cats_strings", "cats_int64s"))
        count = len(words.strings) if words is not None else len(numbers.ints) if numbers is not None else 0
        new = axis_of(count) if count else new
    return op.made((*op.data.shape[:place], new, *op.data.shape[place:]))


@rule("ReverseSequence")
def _reversed(op: Operator) -> Followed:
    data, lengths = op.data, axed(op.inputs[1])
    rows, time = (
        place_of(op.number(name, default), data.rank) for name, default in (("batch_axis", 1), ("time_axis", 0))
    )
    own = lengths.batch is None and data.batch is None
    if not own and (data.batch != rows or data.batch == time or lengths.axes != (data.shape[rows],)):
        raise TaintedError("takes the rows of a batch for steps")
    return op.made(data.shape)


@rule("DequantizeLinear QuantizeLinear")
def _quantised(op: Operator) -> Followed:
    along = place_of(op.number("axis", 1), max(op.data.rank, 2))
    for each in op.inputs[1:]:
        if each is not None and any(axed(each).shape) and (each.rank > 1 or along == op.data.batch):
            raise TaintedError("has parameters that differ between rows")
    return op.made(op.data.shape)


@rule("Shape Size")
def _measured(op: Operator) -> Followed:
    if op.kind == "Size":
        return whole_numbers([product_of(op.sizes())], op.taint, ())
    if op.inputs[0] is None or op.inputs[0].axes is None:
        return Followed((op.new(),), taint=op.taint)
    return whole_numbers(op.sizes()[op.number("start", 0) : op.number("end", op.data.rank)], op.taint)


@rule("Constant")
def _written(op: Operator) -> Followed:
    given = op.attributes
    if "value" in given:
        return written_constant(given["value"].t)
    if "value_int" in given:
        return whole_numbers([(op.number("value_int", 0), ())], "", ())
    if "value_ints" in given:
        return whole_numbers([(each, ()) for each in op.numbers("value_ints") or ()], "")
    for name in ("floats", "strings"):
        if f"value_{name}" in given:
            return Followed((axis_of(len(getattr(given[f"value_{name}"], name))),))
    return Followed(tuple(map(axis_of, given["sparse_value"].sparse_tensor.dims)) if "sparse_value" in given else ())


@rule("ConstantOfShape")
def _filled(op: Operator) -> Followed:
    """Return a constant tensor; only its shape can depend on the batch."""
    shape, value = op.inputs[0], op.attributes.get("value")
    fill = written_constant(value.t).entries if value is not None else (ZERO,)
    if shape is None or shape.entries is None:
        if first_taint([shape]):
            raise TaintedError("has a shape that depends on the number of rows")
        return Followed(None)
    (count, symbols), *more = [size or (0, ("",)) for size in shape.entries] or [ONE]
    listed = not more and not symbols and count <= MOST_ENTRIES
    entries = fill * count if listed and fill is not None else None
    return replace(rows_once(_target(op, shape), None, ""), entries=entries, alike=True)


@rule("Range")
def _range(op: Operator) -> Followed:
    start, limit, step = (single_entry(each) for each in op.inputs)
    if start == ZERO and step == ONE and limit is not None:
        if limit == (1, (BATCH,)):
            reason = "operator Range numbers the rows of a batch, and the numbers are used as values"
            return Followed(((BATCH,),), taint=reason, order="", permutation="rows")
        if BATCH not in limit[1] and limit[0] >= 0:
            return Followed((factors_of(limit),))
    if op.taint:
        raise TaintedError("counts to the number of rows")
    return Followed((op.new(),))


@rule("Transpose")
def _transposed(op: Operator) -> Followed:
    order = op.numbers("perm") or list(range(op.data.rank))[::-1]
    return op.data.regarded(op.data.shape[place] for place in order)


@rule("Flatten")
def _flattened(op: Operator) -> Followed:
    at = op.number("axis", 1)
    at = at + op.data.rank if at < 0 else at
    return replace(op.data, entries=None).regarded((sum(op.data.shape[:at], ()), sum(op.data.shape[at:], ())))


@rule("Squeeze")
def _squeezed(op: Operator) -> Followed:
    data, axes = op.data, op.axes()
    if axes is None and any(isinstance(factor, str) for axis in data.shape for factor in axis):
        # An axis of free size is also removed whenever its size is 1.
        raise TaintedError("removes the batch dimension, or another free one, if its size is 1; give it axes")
    ones = [place for place, axis in enumerate(data.shape) if not axis]
    places = [place_of(axis, data.rank) for axis in axes] if axes is not None else ones
    if data.batch in places:
        raise TaintedError("removes the batch dimension")
    return data.regarded(axis for place, axis in enumerate(data.shape) if place not in places)


@rule("Unsqueeze")
def _unsqueezed(op: Operator) -> Followed:
    axes = op.axes() or []
    rank = op.data.rank + len(axes)
    new, rest = {place_of(axis, rank) for axis in axes}, iter(op.data.shape)
    if len(new) < len(axes):
        raise TaintedError("names an axis twice")
    return op.data.regarded(() if place in new else next(rest) for place in range(rank))


@rule("Reshape")
def _reshaped(op: Operator) -> Followed:
    data, wanted = op.inputs[0], op.inputs[1]
    if data is None or wanted is None or (data.taint and data.axes is None):
        return Followed(None, taint=first_taint([data]))
    if data.axes is None or wanted.entries is None:
        if data.batch is not None or first_taint([data, wanted]):
            raise TaintedError(SHAPE_NOT_ANALYSED)
        rank = fixed_size(wanted.axes[0]) if wanted.axes else None
        return Followed(tuple(op.new() for _ in range(rank)) if rank is not None else None)
    _target(op, wanted)
    sizes = list(wanted.entries)
    for place, size in enumerate(sizes):
        if size == ZERO and place < data.rank and not op.number("allowzero", 0):
            sizes[place] = op.size(data.axes[place])
    axes = _regrouped(op, list(sum(data.axes, ())), sizes)
    return replace(data, entries=data.entries if len(axes) <= 1 else None).regarded(axes)


def _regrouped(op: Operator, factors: list[Factor], sizes: list[Size]) -> tuple[Axis, ...]:
    """Split factors into axes of these sizes, or up to the axis with the rows."""
    if (-1, ()) in sizes:
        at = sizes.index((-1, ()))
        sizes[at] = quotient_of(op.size(tuple(factors)), product_of(sizes[:at] + sizes[at + 1 :]))

    def has_batch(sizes: Iterable[Size]) -> bool:
        return any(size is not None and BATCH in size[1] for size in sizes)

    front = split_factors(factors, sizes, op.batch)
    rest = sizes[len(front) :]
    if not rest:
        return tuple(front)
    if not has_batch(rest):
        if BATCH not in factors:
            return (*front, *map(op.new, rest))
        if any(BATCH in axis for axis in front):
            return (*front, *(op.new() for _ in rest))
    back = split_factors(factors[::-1], sizes[::-1], op.batch)
    rest = sizes[: len(sizes) - len(back)]
    if any(BATCH in axis for axis in back) and not has_batch(rest):
        return (*(op.new() for _ in rest), *(axis[::-1] for axis in back[::-1]))
    raise TaintedError("spreads rows over a shape in which they cannot be distinguished")


@rule("Concat")
def _concatenated(op: Operator) -> Followed:
    parts, place = [axed(each) for each in op.inputs], op.axis(1)
    if len(parts) == 1:
        return parts[0]
    if any(part.batch == place for part in parts):
        raise TaintedError("puts rows of several batches one after the other")
    if all(part.entries is not None and part.rank == 1 for part in parts):
        return whole_numbers([entry for part in parts for entry in part.entries or ()], first_taint(parts))
    if any(part.rank != parts[0].rank for part in parts):
        raise TaintedError("joins tensors of different ranks")
    axes = []
    for at, here in enumerate(zip(*(part.shape for part in parts), strict=True)):
        sizes = [fixed_size(axis) for axis in here]
        whole = axis_of(sum(size or 0 for size in sizes)) if None not in sizes else ()
        axes.append(op.one_axis(here) if at != place else whole or op.new())
    made = op.made(axes)
    # The last axis contains positions; the first of them is the row's own number.
    first = parts[0]
    own = first.permutation == "rows" and first.rank > 1 and place == first.rank - 1
    own = own and first.shape[0] == (BATCH,) and first.shape[place] == ()
    if own and not first_taint(parts[1:]) and common_order(parts[1:]) in ("", None):
        return replace(made, permutation="rows first")
    return made


@rule("FeatureVectorizer")
def _columns_joined(op: Operator) -> Followed:
    parts = [axed(each) for each in op.inputs]
    if any(part.batch not in (None, 0) or part.rank != 2 for part in parts):
        raise TaintedError("takes the rows of a batch for columns")
    return op.made((op.one_axis(part.shape[0] for part in parts), op.new()))


@rule("Split")
def _pieces(op: Operator) -> list[Followed]:
    data, place, sizes = op.data, op.axis(0), op.listed("split", 1)
    if data.batch == place:
        raise TaintedError("splits the rows of a batch")
    if sizes is None:
        whole = fixed_size(data.shape[place])
        even = whole is not None and whole % op.outputs == 0
        sizes = [whole // op.outputs if whole is not None and even else -1] * op.outputs
    sizes += [-1] * (op.outputs - len(sizes))
    return [op.made(data.with_axis(place, axis_of(size) if size > 0 else op.new())) for size in sizes[: op.outputs]]


@rule("Slice")
def _sliced(op: Operator) -> Followed:
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
        axes = known_numbers(given, "with axes that are computed") if given is not None else list(range(count))
        steps = [1 if stepped is None else 0] * count
        if stepped is not None and stepped.entries is not None:
            steps = known_numbers(stepped, "")
    if not bounds:
        if data.batch is not None:
            raise TaintedError("cuts in a way that is not analysed")
        return op.made(op.new() for _ in data.shape)
    made, taint = list(data.shape), data.taint
    for axis, (start, end), step in zip(axes, bounds, steps, strict=True):
        place = place_of(axis, data.rank)
        size = op.size(made[place])
        to_end = end is not None and ((not end[1] and end[0] >= TOO_LARGE_SIZE) or end == size)
        if start == ZERO and to_end and step == 1:
            continue
        if place == data.batch:
            raise TaintedError("chooses some rows of a batch")
        if any(bound is None or BATCH in bound[1] for bound in (start, end)):
            taint = taint or first_taint(op.inputs[1:])
        known = step and not any(each is None or each[1] for each in (size, start, end))
        made[place] = axis_of(len(range(size[0])[start[0] : end[0] : step])) if size and known else op.new()
    start, end = bounds[0]
    single = len(bounds) == 1 and data.rank == 1 and steps[0]
    if data.entries is not None and single and not any(each is None or each[1] for each in (start, end)):
        return whole_numbers(data.entries[start[0] : end[0] : steps[0]], op.taint)
    return rows_once(made, data.order, taint, alike=data.alike)


@rule("ArrayFeatureExtractor Gather")
def _gathered(op: Operator) -> Followed:
    data, index, place = op.data, axed(op.inputs[1]), op.axis(0)
    if op.kind == "ArrayFeatureExtractor":
        place = data.rank - 1
        index = replace(index, axes=(sum(index.shape, ()),))
    if data.entries is not None and index.entries is not None and data.rank == 1:
        places = known_numbers(index, "with places that are computed")
        if all(-len(data.entries) <= at < len(data.entries) for at in places):
            return whole_numbers([data.entries[at] for at in places], data.taint, index.axes)
    # Identical rows may be selected, unless something else precedes them in their axis.
    if data.batch == place and (data.order is not None or data.shape[place][0] != BATCH):
        if not index.permutation or index.axes != ((BATCH,),) or data.shape[place] != (BATCH,):
            raise TaintedError("chooses some rows of a batch")
        order = reordered(data.order or "", index.permutation)
        return replace(data, order=order, entries=None, permutation="")
    return op.made((*data.shape[:place], *index.shape, *data.shape[place + 1 :]))


@rule("GatherElements ScatterElements")
def _by_element(op: Operator) -> Followed:
    """Select or replace elements along an axis; rows are unchanged on any other axis."""
    data, index, place = op.data, axed(op.inputs[1]), op.axis(0)
    updates = op.inputs[2] if op.kind == "ScatterElements" else None
    if place in (data.batch, index.batch):
        inverted = updates is not None and updates.permutation == "rows" and updates.axes == index.axes
        replaces = op.text("reduction", b"none") == b"none"
        if inverted and index.permutation and index.axes == data.axes == ((BATCH,),) and replaces:
            return replace(index, permutation=inverse_of(index.permutation))
        raise TaintedError("chooses some rows of a batch")
    parts = [each for each in (data, index, updates) if each is not None]
    if len({(part.batch, part.shape[part.batch] if part.batch is not None else ()) for part in parts}) > 1:
        raise TaintedError("joins rows and values that are not rows along one axis")
    return op.made((data if updates is not None else index).shape)


@rule("GatherND ScatterND")
def _by_position(op: Operator) -> Followed:
    """Gather by tuples of positions; if the first counts the rows, each row selects from itself."""
    data, index = op.data, axed(op.inputs[1])
    if op.kind == "ScatterND":
        if any(map(has_rows, op.inputs)):
            raise TaintedError("replaces rows in a way that is not analysed")
        return op.made(data.shape)
    depth, same = fixed_size((index.axes or ((),))[-1]), op.number("batch_dims", 0)
    if depth is None:
        raise TaintedError("gathers in a way that is not analysed")
    axes = (*index.shape[:-1], *data.shape[same + depth :])
    if (data.batch is None and not same) or (
        same and data.batch == 0 and index.batch == 0 and data.shape[0] == index.shape[0]
    ):
        return op.made(axes)
    if not same and data.shape[0] == (BATCH,) and data.order == "" and index.permutation == "rows first":
        return rows_once(axes, "", data.taint)
    raise TaintedError("chooses some rows of a batch")


@rule("Expand Tile")
def _expanded(op: Operator) -> Followed:
    data, wanted = op.data, op.inputs[1]
    if wanted is None or wanted.entries is None:
        if data.batch is not None or first_taint([wanted]):
            raise TaintedError(SHAPE_NOT_ANALYSED)
        return Followed(None, taint=data.taint)
    target = _target(op, wanted)
    if op.kind == "Tile":
        if any(BATCH in axis and times for axis, times in zip(data.shape, target, strict=True)):
            raise TaintedError("repeats the rows of a batch")
        axes = tuple(times + axis for axis, times in zip(data.shape, target, strict=True))
        return rows_once(axes, data.order, data.taint, alike=data.alike)
    if op.batch is not None and data.batch is not None:
        # If the batch is fixed, its size may be a number.
        at = data.batch - data.rank
        if -at <= len(target) and target[at] == axis_of(op.batch):
            target = Followed(target).with_axis(at + len(target), data.shape[data.batch])
    joined = op.joined([replace(data, alike=False), Followed(target)])
    # The number of each row, repeated for every element of the row.
    numbered = "rows" if data.permutation == "rows" and has_rows(data) else ""
    return replace(joined, taint=data.taint, alike=data.alike, permutation=numbered)


def _target(op: Operator, shape: Followed) -> tuple[Axis, ...]:
    """Return the axes that a list of sizes describes."""
    if shape.taint and any(size is None for size in shape.entries or ()):
        raise TaintedError("has a shape that depends on the number of rows in a way that is not analysed")
    return tuple(map(op.new, shape.entries or ()))


@rule("Pad")
def _padded(op: Operator) -> Followed:
    data, pads = op.data, op.listed("pads", 1)
    if data.batch is None:
        return op.made(op.new() for _ in data.shape)
    if pads is None or len(op.inputs) > 3 or len(pads) != 2 * data.rank:
        raise TaintedError("adds rows in a way that is not analysed")
    grown = [bool(before or after) for before, after in zip(pads[: data.rank], pads[data.rank :], strict=True)]
    if grown[data.batch]:
        raise TaintedError("adds rows to a batch")
    return op.made(op.new() if more else axis for more, axis in zip(grown, data.shape, strict=True))


def inverse_of(permutation: str) -> str:
    """Return the name of the inverse of a permutation."""
    back = "back from "
    return permutation.removeprefix(back) if permutation.startswith(back) else back + permutation


def reordered(order: str, permutation: str) -> str:
    """Return the order of rows after a permutation; only one at a time is traced."""
    if permutation == "rows":
        return order
    if order == "":
        return permutation
    if order == inverse_of(permutation):
        return ""
    raise TaintedError("sorts rows that are sorted already")


def computed_entries(operator: str, given: Sequence[Followed]) -> tuple[Size, ...] | None:
    """Return the entries of the result of arithmetic on short lists of integers."""
    lists = [each.entries for each in given if each.entries is not None and each.rank <= 1]
    count = max(map(len, lists), default=0)
    if (
        operator not in SIZE_ARITHMETIC
        or not lists
        or len(lists) < len(given)
        or any(len(each) not in (1, count) for each in lists)
    ):
        return None
    wide = [each * (count if len(each) == 1 else 1) for each in lists]
    # The result of Where may be known although one of the alternatives is unknown.
    needed = 1 if operator == "Where" else None
    return tuple(
        None if None in entries[:needed] else SIZE_ARITHMETIC[operator](*entries) for entries in zip(*wide, strict=True)
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


SIZE_ARITHMETIC: dict[str, Callable[..., Size]] = {
    "Add": _plus,
    "Sub": lambda one, other: _plus(one, (-other[0], other[1])),
    "Mul": lambda one, other: product_of([one, other]),
    # A computed size may be 0.
    "Div": lambda one, other: None if any(map(is_computed, other[1])) else quotient_of(one, other),
    "Equal": _equal,
    "Mod": lambda one, other: None if one[1] or other[1] or one[0] < 0 or other[0] <= 0 else (one[0] % other[0], ()),
    "Where": lambda test, one, other: None if test[1] else one if test[0] else other,
}
