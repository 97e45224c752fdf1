"""Rules of operators that compute: the known facts about their outputs, from those about their inputs.

A rule raises a `TaintedError` if the operator works across the batch axis, or if the number of rows or a row's position
becomes a value. An operator without a rule is not known to treat each row independently.
"""

from __future__ import annotations

from msgspec.structs import replace

from fairchain.models.onnx.operators import Operator, RuleTable
from fairchain.models.onnx.shape_rules import shape_rule
from fairchain.models.onnx.tensor_facts import (
    BATCH,
    BITS,
    INT32,
    INT64,
    Axis,
    Followed,
    TaintedError,
    axed,
    axis_of,
    changed,
    combined,
    common_order,
    computed_entries,
    first_taint,
    fixed_size,
    has_rows,
    inverse_of,
    known_numbers,
    most_bits,
    place_of,
    product_of,
    rows_once,
    single_entry,
    whole_numbers,
    with_axis,
)

rule = RuleTable(dict(shape_rule.rules))
RULES = rule.rules


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
    return joined if entries is None else whole_numbers(entries, joined.axes, tainted=bool(first_taint(given)))


@rule("CumSum Hardmax LogSoftmax LpNormalization MeanVarianceNormalization Softmax Trilu")
def _along(op: Operator) -> Followed:
    """Return a tensor of the same shape after an operator that works along some axes."""
    data = op.data
    axes = [op.number("axis", -1)]
    if op.kind in ("Hardmax", "LogSoftmax", "Softmax") and op.graph.opset < 13:
        # Before version 13 all axes from the given one on were merged.
        axes = list(range(op.axis(1), data.rank))
    elif op.kind == "MeanVarianceNormalization":
        given = op.numbers("axes")
        axes = given if given is not None else [0, 2, 3]
    elif op.kind == "CumSum":
        axes = known_numbers(op.inputs[1], "along an axis that is computed")
    elif op.kind == "Trilu":
        axes = list(range(data.rank))[-2:]
    made = changed(data, [place_of(axis, data.rank) for axis in axes])
    return replace(made, taint=first_taint(op.inputs)) if op.kind == "Trilu" else made


@rule("""
    ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare
""")
def _reduced(op: Operator) -> Followed:
    data, keep = op.data, bool(op.number("keepdims", 1))
    axes = [op.number("axis", 0)] if op.kind.startswith("Arg") else op.axes()
    if not axes and op.number("noop_with_empty_axes", 0):
        return changed(data)
    places = [place_of(axis, data.rank) for axis in axes] if axes else range(data.rank)
    if op.kind == "ReduceProd" and data.entries is not None and data.rank == 1:
        return whole_numbers((product_of(data.entries),), ((),) if keep else (), tainted=bool(data.taint))
    return combined(data, places, keep=keep)


@rule("LayerNormalization RMSNormalization")
def _normalised(op: Operator) -> list[Followed]:
    places = range(op.axis(-1), op.data.rank)
    made = changed(op.joined([each for each in op.inputs if each is not None]), places)
    return [made, combined(op.data, places, keep=True)]


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
    return [rows_once(with_axis(data, place, op.new(known)), data.order, taint)]


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
    return rows_once(tuple(axes), common_order([first, second]), first_taint(op.inputs))


@rule("Gemm")
def _gemm(op: Operator) -> Followed:
    first, second = (axed(each).shape for each in op.inputs[:2])
    if len(first) != 2 or len(second) != 2:
        raise TaintedError("multiplies tensors that are not matrices")
    first = first[::-1] if op.number("transA", 0) else first
    second = second[::-1] if op.number("transB", 0) else second
    if BATCH in (*first[1], *second[0]):
        raise TaintedError("combines the rows of a batch")
    made = rows_once((first[0], second[1]), common_order(op.inputs[:2]), first_taint(op.inputs))
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
    return changed(op.data)


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
