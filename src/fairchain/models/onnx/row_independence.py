"""Proof from the graph that a network answers every row by itself.

Each tensor is followed from the inputs to the output that decides: where its batch axis is, and which whole numbers it
holds if they describe a shape. A shape is kept as factors, so that a reshape that merges the batch with other axes and
splits it again is understood. A tensor is *tainted* as soon as it may depend on more than its own row: an operator
works across the batch axis, the number of rows or a row's position becomes a value, or the operator is unknown here.
The network is refused if the output that decides is tainted. Sizes that only build the shape for Reshape or Expand, and
sequences that are sorted by length and put back, are understood.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from fairchain.errors import ModelError
from fairchain.models.onnx.file_checks import Network

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

BATCH = "the batch"
# A factor of a size: a number, the batch, or another size that is not known and does not depend on the batch.
Factor = int | str
# The factors of an axis, the slowest first; none for an axis of size 1.
Axis = tuple[Factor, ...]
# An entry of a tensor of whole numbers: a number times unknown sizes; None if nothing is known.
Size = tuple[int, tuple[str, ...]] | None
# Most entries of a tensor of whole numbers that are followed one by one; a shape has fewer.
MOST_ENTRIES = 64
TOO_LARGE = 2**31 - 1
# Numbers of ONNX for types: whole numbers, and fractions that hold them.
INT32, INT64 = 6, 7
# How many bits of a whole number each type keeps: int32, int64, float and double.
BITS = {INT32: 31, INT64: 63, 1: 24, 11: 53}
# Bits of the largest size: of the batch and of the axes of inputs, and of an axis that is computed.
SIZE_BITS, COMPUTED_BITS = 20, 31

ELEMENTWISE = frozenset(
    """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh Binarizer BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast
    CategoryMapper Ceil Celu Clip Cos Cosh Div Dropout Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid
    HardSwish Identity IsInf IsNaN LabelEncoder LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or
    PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh
    ThresholdedRelu Where Xor
    """.split()  # noqa: SIM905  # a block of names reads better than a list of strings
)
# Operators on (rows, channels, places ...) that treat every row by itself if its parameters are the same for all.
BY_CHANNEL = frozenset(
    """
    AveragePool BatchNormalization Conv ConvTranspose DepthToSpace GlobalAveragePool GlobalMaxPool GroupNormalization
    InstanceNormalization LRN LpPool MaxPool QLinearConv SpaceToDepth
    """.split()  # noqa: SIM905
)
SAME_SHAPE = frozenset({"BatchNormalization", "GroupNormalization", "InstanceNormalization", "LRN"})
# Operators on (rows, columns) that answer with columns of their own.
BY_ROW = frozenset(
    """
    LinearClassifier LinearRegressor SVMClassifier SVMRegressor TreeEnsemble TreeEnsembleClassifier
    TreeEnsembleRegressor
    """.split()  # noqa: SIM905
)


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
    def batch(self) -> int | None:
        """The axis with the rows, if there is one."""
        return next((place for place, axis in enumerate(self.axes or ()) if BATCH in axis), None)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.axes or ())


class _TaintedError(Exception):
    """Raised by the rule of an operator with the reason why what it makes is tainted."""


class _PassedOnError(Exception):
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
    found = follow(network, inputs, batch).get(output)
    taint = found.taint if found is not None else "it does not depend on the inputs"
    own = found is None or ((found.axes or ())[:1] == ((BATCH,),) and found.order in ("", None))
    if not taint and not own:
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
    walk = _Walk(network, batch)
    for name, shape in inputs.items():
        axes = tuple(_axis(BATCH if size is None else size) for size in shape)
        walk.known[name] = Followed(axes, order="")
    walk.run(network.model.graph.node, walk.known)
    return walk.known


class _Walk:
    """What is known of the tensors so far, and the rules by which operators pass it on."""

    def __init__(self, network: Network, batch: int | None) -> None:
        self.known: dict[str, Followed] = {}
        self._batch, self._fresh = batch, 0
        model = network.model
        for tensor in model.graph.initializer:
            self.known[tensor.name] = _constant(tensor)
        for sparse in model.graph.sparse_initializer:
            self.known[sparse.values.name] = Followed(tuple(_axis(size) for size in sparse.dims))
        self._functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        self._opset = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 1)
        self._attributes: dict[str, Any] = {}

    def run(
        self, nodes: Iterable[NodeProto], known: dict[str, Followed], given: Mapping[str, Any] | None = None
    ) -> None:
        """Follow these operators; `given` are the attributes of the function that they are in."""
        for node in nodes:
            inputs = [known.get(name) if name else None for name in node.input]
            attributes = {
                each.name: (given or {}).get(each.ref_attr_name) if each.ref_attr_name else each
                for each in node.attribute
            }
            made = self._made(node, inputs, {name: each for name, each in attributes.items() if each is not None})
            known.update((name, each) for name, each in zip(node.output, made, strict=False) if name)

    def _made(self, node: NodeProto, inputs: list[Followed | None], attributes: dict[str, Any]) -> list[Followed]:
        function = self._functions.get((node.domain, node.op_type, node.overload))
        if function is not None:
            return self._called(function, inputs, attributes)
        label = f'operator {node.op_type} "{node.name}"' if node.name else f"operator {node.op_type}"
        outputs = max(1, len(node.output))
        if any(each is None for name, each in zip(node.input, inputs, strict=True) if name):
            return [Followed(None, taint=f"{label} reads a tensor that nothing makes")] * outputs
        rule = self._rule(node.op_type)
        if rule is None:
            # Without rows before it, an operator has none behind it either, whatever it computes.
            rows = any(each is not None and each.batch is not None for each in inputs)
            taint = _taint(inputs) or (f"{label} is not known to treat every row by itself" if rows else "")
            return [Followed(None, taint=taint)] * outputs
        self._attributes = attributes
        try:
            made = rule(self, node, inputs)
        except _TaintedError as reason:
            made = [Followed(None, taint=f"{label} {reason}")]
        except _PassedOnError as reason:
            made = [Followed(None, taint=str(reason))]
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            made = [Followed(None, taint=f"{label} does not fit its inputs")]
        bits = min((each.bits for each in inputs if each is not None), default=63)
        made = [_within(each, min(bits, each.bits)) for each in made]
        return [made[place] if place < len(made) else made[-1] for place in range(outputs)]

    def _rule(self, operator: str) -> Rule | None:
        if operator in ELEMENTWISE:
            return _Walk._elementwise
        if operator in BY_CHANNEL:
            return _Walk._by_channel
        if operator in BY_ROW:
            return _Walk._by_row
        if operator.startswith("Reduce"):
            return _Walk._reduced
        return RULES.get(operator)

    def _called(self, function: Any, inputs: list[Followed | None], attributes: dict[str, Any]) -> list[Followed]:
        """Follow the operators of a function, with these attributes or its own defaults."""
        given = {each.name: each for each in function.attribute_proto} | attributes
        inner = {name: each for name, each in zip(function.input, inputs, strict=False) if each is not None}
        self.run(function.node, inner, given)
        lost = Followed(None, taint=f"function {function.name} has an output that nothing makes")
        return [inner.get(name, lost) for name in function.output]

    # Attributes, and what they may be written as.

    def _int(self, name: str, default: int) -> int:
        found = self._attributes.get(name)
        return int(found.i) if found is not None else default

    def _ints(self, name: str) -> list[int] | None:
        found = self._attributes.get(name)
        return [int(each) for each in found.ints] if found is not None else None

    def _axes_of(self, inputs: list[Followed | None], place: int) -> list[int] | None:
        """Return the axes in the attribute or, in newer versions, in an input; None for all."""
        given = self._ints("axes")
        if given is None and place < len(inputs) and inputs[place] is not None:
            given = _numbers(inputs[place], "with axes that are computed")
        return given

    def _new(self) -> Axis:
        """Return an axis of a size that is not known and has nothing to do with the batch."""
        self._fresh += 1
        return (f"?{self._fresh}",)

    # Rules: one for each kind of operator.

    def _elementwise(self, node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        given = [each for each in inputs if each is not None]
        if node.op_type == "Cast" and self._int("to", 0) in BITS:
            to = self._int("to", 0)
            # A permutation has fewer numbers than 32 bits can count, but not than a fraction can.
            kept = given[0].permutation if to in (INT32, INT64) else ""
            return [replace(given[0], permutation=kept, bits=BITS[to])]
        if node.op_type in ("Clip", "Dropout"):
            # Limits and rates are single numbers, and may be computed.
            if any(each.batch is not None for each in given[1:]):
                raise _TaintedError("has parameters that differ between rows")
            return [replace(given[0], taint=_taint(given), entries=None, permutation="")]
        entries = _computed(node.op_type, given)
        if entries is not None:
            return [_whole(entries, self._joined(given).axes, tainted=any(each.taint for each in given))]
        made = self._joined(given)
        same = node.op_type == "Identity"
        return [given[0] if same else made]

    def _joined(self, given: Sequence[Followed]) -> Followed:
        """Return the shape and order of tensors that are broadcast against each other."""
        taint = next((each.taint for each in given if each.taint), "")
        alike = all(each.alike for each in given)
        if any(each.axes is None for each in given):
            if any(each.batch is not None for each in given) and not taint:
                raise _TaintedError("joins rows with a tensor of unknown shape")
            return Followed(None, taint=taint)
        rank = max((each.rank for each in given), default=0)
        axes = []
        for place in range(-rank, 0):
            here = [each for each in given if -place <= each.rank]
            if any(BATCH in (each.axes or ())[place] for each in here):
                # A tensor of one number suits every row, even if it is written out for a fixed number of them.
                here = [each for each in here if not each.alike or BATCH in (each.axes or ())[place]]
            axes.append(self._one_axis([(each.axes or ())[place] for each in here]))
        return _followed(tuple(axes), _order(given), taint, alike=alike)

    def _one_axis(self, axes: Sequence[Axis]) -> Axis:
        wide = list(dict.fromkeys(axis for axis in axes if axis))
        rows = [axis for axis in wide if BATCH in axis]
        if rows and len(wide) > 1:
            raise _TaintedError("joins the rows with something of another kind at the same axis")
        if len(wide) < 2:
            return wide[0] if wide else ()
        # A number above 1 is what an unknown size beside it must be, or be spread to.
        return next((axis for axis in wide if not any(isinstance(factor, str) for factor in axis)), self._new())

    def _reduced(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        axes = self._axes_of(inputs, 1)
        if not axes and self._int("noop_with_empty_axes", 0):
            return [self._across(data, ())]
        places = [_place(axis, data.rank) for axis in axes] if axes else list(range(data.rank))
        if _node.op_type == "ReduceProd" and data.entries is not None and len(data.axes or ()) == 1:
            kept = ((),) if self._int("keepdims", 1) else ()
            return [_whole((_product(data.entries),), kept, tainted=bool(data.taint))]
        return [self._without(data, places, keep=bool(self._int("keepdims", 1)))]

    def _without(self, data: Followed, places: Sequence[int], *, keep: bool) -> Followed:
        """Return the tensor with these axes combined into one number each."""
        if data.batch in places:
            raise _TaintedError("combines the rows of a batch")
        axes = [() if place in places else axis for place, axis in enumerate(data.axes or ())]
        kept = [axis for place, axis in enumerate(axes) if keep or place not in places]
        return _followed(tuple(kept), data.order, data.taint)

    def _arg(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        return [self._without(data, [_place(self._int("axis", 0), data.rank)], keep=bool(self._int("keepdims", 1)))]

    def _softmax(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        first = _place(self._int("axis", -1 if self._opset >= 13 else 1), data.rank)
        # Before version 13 all axes from the given one on were one.
        return [self._across(data, [first] if self._opset >= 13 else range(first, data.rank))]

    def _normalised(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        first = _place(self._int("axis", -1), data.rank)
        parts = [each for each in inputs if each is not None]
        places = range(first, data.rank)
        made = self._across(self._joined(parts), places)
        return [made, *[self._without(data, places, keep=True)] * 2]

    def _one_axis_at_a_time(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        axes = self._ints("axes")
        if _node.op_type == "MeanVarianceNormalization":
            places = [_place(axis, data.rank) for axis in (axes if axes is not None else [0, 2, 3])]
        elif _node.op_type == "CumSum":
            places = [_place(axis, data.rank) for axis in _numbers(inputs[1], "along an axis that is computed")]
        else:
            places = [_place(self._int("axis", -1), data.rank)]
        return [self._across(data, places)]

    def _across(self, data: Followed, places: Collection[int]) -> Followed:
        """Return the tensor after an operator of the same shape that works along these axes."""
        if data.batch in places:
            raise _TaintedError("works across the rows of a batch")
        return replace(data, entries=None, permutation="", alike=False)

    def _top(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        """Sort along an axis; of all rows by a number for each, it gives the order in which they come."""
        data = _axed(inputs[0])
        place = _place(self._int("axis", -1), data.rank)
        count = inputs[1].entries if len(inputs) > 1 and inputs[1] is not None else None
        if data.batch == place:
            whole = count is not None and len(count) == 1 and count[0] == _size((BATCH,), self._batch)
            ascending = self._int("sorted", 1) and not self._int("largest", 1)
            if data.axes == ((BATCH,),) and data.permutation and whole and ascending:
                # The places of 0, 1, 2 ... in a permutation are its inverse.
                numbers = replace(data, permutation="")
                return [numbers, replace(data, permutation=_inverse(data.permutation))]
            if data.axes != ((BATCH,),) or data.order != "" or data.taint or not whole:
                raise _TaintedError("sorts the rows of a batch")
            (name,) = self._new()
            taint = "operator TopK sorts the rows of a batch, and their order is used as a number"
            return [
                replace(data, order=str(name), entries=None),
                Followed(data.axes, taint=taint, permutation=str(name)),
            ]
        known = count[0] if count is not None and len(count) == 1 else None
        # The runtime keeps 32 bits of the number.
        known = known if known is not None and _largest(known) < BITS[INT32] else None
        if known is not None and BATCH in known[1]:
            raise _TaintedError("chooses as many elements as there are rows")
        taint = data.taint or (inputs[1].taint if len(inputs) > 1 and inputs[1] is not None and known is None else "")
        axis = _factors(known) if known is not None else self._new()
        axes = tuple(axis if at == place else each for at, each in enumerate(data.axes or ()))
        return [_followed(axes, data.order, taint)] * 2

    def _product(self, node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        """Multiply matrices, as numpy does."""
        chosen = (inputs[0], inputs[3]) if node.op_type == "QLinearMatMul" else (inputs[0], inputs[1])
        first, second = (_axed(each) for each in chosen)
        rest = [each for each in inputs if each is not None and not any(each is one for one in chosen)]
        one, other = list(first.axes or ()), list(second.axes or ())
        columns = len(other) > 1 and BATCH in other[-1]
        if any(any(_axed(each).axes or ()) and (each.rank > 1 or columns) for each in rest):
            raise _TaintedError("has parameters that differ between rows")
        if not one or not other:
            raise _TaintedError("multiplies a single number")
        contracted = (one[-1], other[-2] if len(other) > 1 else other[-1])
        if any(BATCH in axis for axis in contracted):
            raise _TaintedError("combines the rows of a batch")
        left = Followed((*one[:-2], ()), order=first.order)
        right = Followed((*other[:-2], ()), order=second.order)
        outer = list(self._joined([left, right]).axes or ())[:-1] if max(len(one), len(other)) > 2 else []
        axes = [*outer, *([one[-2]] if len(one) > 1 else []), *([other[-1]] if len(other) > 1 else [])]
        return [_followed(tuple(axes), _order([first, second]), _taint(inputs))]

    def _gemm(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        first, second = (list(_axed(each).axes or ()) for each in inputs[:2])
        if len(first) != 2 or len(second) != 2:
            raise _TaintedError("multiplies tensors that are not matrices")
        first = first[::-1] if self._int("transA", 0) else first
        second = second[::-1] if self._int("transB", 0) else second
        if BATCH in first[1] or BATCH in second[0]:
            raise _TaintedError("combines the rows of a batch")
        made = _followed((first[0], second[1]), _order(inputs[:2]), _taint(inputs))
        if len(inputs) > 2 and inputs[2] is not None:
            made = self._joined([made, inputs[2]])
        return [made]

    def _einsum(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        equation = self._attributes["equation"].s.decode("ascii", "replace").replace(" ", "")
        left, arrow, right = equation.partition("->")
        if not arrow or "." in equation:
            raise _TaintedError("has an equation that is not analysed")
        sizes: dict[str, list[Axis]] = {}
        for term, each in zip(left.split(","), inputs, strict=True):
            for letter, axis in zip(term, _axed(each).axes or (), strict=True):
                sizes.setdefault(letter, []).append(axis)
        found = {letter: self._one_axis(axes) for letter, axes in sizes.items()}
        if any(BATCH in axis and letter not in right for letter, axis in found.items()):
            raise _TaintedError("combines the rows of a batch")
        return [_followed(tuple(found[letter] for letter in right), _order(inputs), _taint(inputs))]

    def _by_channel(self, node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        if any(each.batch is not None for each in inputs[1:] if each is not None):
            raise _TaintedError("has parameters that differ between rows")
        if data.batch not in (None, 0) or (data.batch == 0 and data.rank < 2):
            raise _TaintedError("takes the rows of a batch for channels or places")
        # Before version 14 a second output asked for training.
        if node.op_type == "BatchNormalization" and (self._int("training_mode", 0) or len(node.output) > 1):
            raise _TaintedError("normalises by the rows of a batch, as in training")
        axes = data.axes or ()
        if node.op_type not in SAME_SHAPE:
            axes = (*axes[:1], *self._convolved(node.op_type, axes, inputs))
        made = _followed(axes, data.order, _taint(inputs))
        # The second output of MaxPool counts places through the whole batch.
        return [made, replace(made, taint=made.taint or f"operator {node.op_type} numbers places in the batch")]

    def _convolved(self, operator: str, axes: tuple[Axis, ...], inputs: list[Followed | None]) -> list[Axis]:
        """Return the channels and places that a convolution or a pool leaves."""
        pool, count = "Pool" in operator, len(axes) - 2
        if operator.startswith("Global"):
            return [axes[1], *[()] * count]
        weighted = inputs[3 if operator == "QLinearConv" else 1] if not pool and operator[-4:] == "Conv" else None
        weights = weighted.axes if weighted is not None else None
        sizes = [_size(axis, None) for axis in (weights or ())]
        kernel = self._ints("kernel_shape") or [size[0] if size and not size[1] else 0 for size in sizes[2:]]
        steps, spread = self._ints("strides") or [1] * count, self._ints("dilations") or [1] * count
        automatic = self._attributes.get("auto_pad")
        pads = (self._ints("pads") if automatic is None or automatic.s == b"NOTSET" else None) or [0] * (2 * count)
        channels = axes[1] if pool else weights[0] if weights else self._new()
        if (not pool and not weights) or (automatic is not None and automatic.s not in (b"NOTSET", b"VALID")):
            return [channels, *(self._new() for _ in axes[2:])]
        places = []
        for place, axis in enumerate(axes[2:]):
            size = _size(axis, None)
            free = size[0] + pads[place] + pads[place + count] - (kernel[place] - 1) * spread[place] - 1 if size else -1
            known = size is not None and not size[1] and kernel[place] and free >= 0 and not self._int("ceil_mode", 0)
            places.append(_axis(free // steps[place] + 1) if known else self._new())
        return [channels, *places]

    def _by_row(self, node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        # A list of numbers is read as one row.
        if data.rank != 2 or data.batch not in (None, 0):
            raise _TaintedError("takes the rows of a batch for columns")
        rows = (data.axes or ())[:1]
        scores = _followed((*rows, self._columns(node.op_type)), data.order, data.taint)
        labels = _followed(rows, data.order, data.taint)
        return [labels, scores] if "Classifier" in node.op_type else [scores]

    def _columns(self, operator: str) -> Axis:
        """Return how many scores an operator gives for each row, where that follows from its attributes."""
        labels = ("classlabels_int64s", "classlabels_strings", "classlabels_ints")
        classes = max(
            (
                len(self._attributes[key].ints or self._attributes[key].strings)
                for key in labels
                if key in self._attributes
            ),
            default=0,
        )
        if operator == "TreeEnsembleClassifier" and classes:
            return _axis(classes)
        if operator == "LinearClassifier" and "intercepts" in self._attributes:
            given = len(self._attributes["intercepts"].floats)
            return _axis(2 if given == 1 and classes == 2 else given)
        if operator in ("LinearRegressor", "TreeEnsembleRegressor", "TreeEnsemble"):
            return _axis(self._int("targets" if operator == "LinearRegressor" else "n_targets", 1))
        return self._new()

    def _in_columns(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        if data.batch is not None and (data.batch != 0 or data.rank != 2):
            raise _TaintedError("takes the rows of a batch for columns")
        return [replace(data, entries=None, permutation="", alike=False)]

    def _recurrent(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        first = bool(self._int("layout", 0))
        time, rows = (1, 0) if first else (0, 1)
        if data.rank != 3 or data.batch not in (None, rows):
            raise _TaintedError("takes the rows of a batch for steps")
        optional = [*inputs, *[None] * (8 - len(inputs))]
        if any(each.batch is not None for each in (*optional[1:4], optional[7]) if each is not None):
            raise _TaintedError("has weights that differ between rows")
        batch = (data.axes or ())[rows]
        for place, at, rank in ((4, 0, 1), (5, rows, 3), (6, rows, 3)):
            state = optional[place]
            if state is not None and not state.alike and state.taint == "":
                axes = state.axes
                if axes is None or len(axes) != rank or axes[at] != batch:
                    raise _TaintedError("begins in states, or has lengths, that do not belong to its rows")
        order, taint = _order(optional), _taint(optional)
        steps, size = (data.axes or ())[time], _axis(self._int("hidden_size", 0))
        both = (2,) if self._attributes.get("direction") and self._attributes["direction"].s == b"bidirectional" else ()
        every = (batch, steps, both, size) if first else (steps, both, batch, size)
        last = (batch, both, size) if first else (both, batch, size)
        return [_followed(every, order, taint), _followed(last, order, taint), _followed(last, order, taint)]

    def _shape(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = inputs[0]
        if data is None or data.axes is None:
            return [Followed((self._new(),), taint=data.taint if data is not None else "")]
        sizes = self._sizes(data)[self._int("start", 0) : self._int("end", data.rank)]
        return [_whole(sizes, tainted=bool(data.taint))]

    def _sizes(self, data: Followed) -> tuple[Size, ...]:
        """Return the size of each axis; one that was computed from tainted numbers may depend on the batch itself."""
        sizes = (_size(axis, self._batch) for axis in data.axes or ())
        return tuple(
            None if data.taint and size is not None and any(_is_computed(symbol) for symbol in size[1]) else size
            for size in sizes
        )

    def _count(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        return [_whole((_product(self._sizes(data)),), (), tainted=bool(data.taint))]

    def _constant_node(self, _node: NodeProto, _inputs: list[Followed | None]) -> list[Followed]:
        given = self._attributes
        if "value" in given:
            return [_constant(given["value"].t)]
        if "value_int" in given:
            return [_whole(((int(given["value_int"].i), ()),), (), tainted=False)]
        if "value_ints" in given:
            return [_whole(tuple((int(each), ()) for each in given["value_ints"].ints), tainted=False)]
        if "value_floats" in given:
            return [Followed((_axis(len(given["value_floats"].floats)),))]
        if "value_strings" in given:
            return [Followed((_axis(len(given["value_strings"].strings)),))]
        sparse = given.get("sparse_value")
        return [Followed(tuple(_axis(size) for size in sparse.sparse_tensor.dims) if sparse is not None else ())]

    def _filled(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        """Make a tensor of one number; only its shape can depend on the batch."""
        shape = inputs[0]
        value = self._attributes.get("value")
        fill = _constant(value.t).entries if value is not None else ((0, ()),)
        if shape is None or shape.entries is None:
            if shape is not None and shape.taint:
                raise _TaintedError("has a shape that depends on the number of rows")
            return [Followed(None)]
        axes = self._target(shape)
        (count, symbols), *more = [size or (0, ("",)) for size in shape.entries] or [(1, ())]
        listed = not more and not symbols and count <= MOST_ENTRIES
        entries = fill * count if listed and fill is not None else None
        return [replace(_followed(axes, None, ""), entries=entries, alike=True)]

    def _target(self, shape: Followed) -> tuple[Axis, ...]:
        """Return the axes that a list of sizes describes."""
        if shape.taint and any(size is None for size in shape.entries or ()):
            raise _TaintedError("has a shape that depends on the number of rows in a way that is not analysed")
        return tuple(_factors(size) if size is not None else self._new() for size in shape.entries or ())

    def _range(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        start, limit, step = (_entry(each) for each in inputs)
        taint = _taint(inputs)
        if start == (0, ()) and step == (1, ()) and limit == _size((BATCH,), None):
            reason = "operator Range numbers the rows of a batch, and the numbers are used as values"
            return [Followed(((BATCH,),), taint=reason, order="", permutation="rows")]
        if start == (0, ()) and step == (1, ()) and limit is not None and BATCH not in limit[1]:
            return [Followed((_factors(limit),))]
        if taint:
            raise _TaintedError("counts to the number of rows")
        return [Followed((self._new(),))]

    def _turned(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        order = self._ints("perm") or list(range(data.rank))[::-1]
        return [_regarded(data, tuple((data.axes or ())[place] for place in order))]

    def _flattened(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        cut = self._int("axis", 1)
        cut = cut + data.rank if cut < 0 else cut
        axes = data.axes or ()
        two = (tuple(f for axis in axes[:cut] for f in axis), tuple(f for axis in axes[cut:] for f in axis))
        return [_regarded(replace(data, entries=None), two)]

    def _squeezed(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        axes = self._axes_of(inputs, 1)
        own = data.axes or ()
        if axes is None and any(isinstance(factor, str) for axis in own for factor in axis):
            # An axis of a free size is removed too whenever it happens to be 1.
            raise _TaintedError("removes the batch dimension, or another free one, if its size is 1; give it axes")
        places = (
            [_place(axis, data.rank) for axis in axes] if axes is not None else [i for i, a in enumerate(own) if not a]
        )
        if data.batch in places:
            raise _TaintedError("removes the batch dimension")
        return [_regarded(data, tuple(axis for place, axis in enumerate(own) if place not in places))]

    def _unsqueezed(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        places = self._axes_of(inputs, 1) or []
        rank = data.rank + len(places)
        new = {_place(place, rank) for place in places}
        rest = iter(data.axes or ())
        return [_regarded(data, tuple(() if place in new else next(rest) for place in range(rank)))]

    def _reshaped(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data, wanted = inputs[0], inputs[1]
        if data is None or wanted is None or (data.taint and data.axes is None):
            return [Followed(None, taint=data.taint if data is not None else "")]
        if data.axes is None or wanted.entries is None:
            if data.batch is not None or wanted.taint or data.taint:
                raise _TaintedError("has a shape that is computed in a way that is not analysed")
            rank = _factors(_size(wanted.axes[0], None)) if wanted.axes else ()
            known = len(rank) == 1 and isinstance(rank[0], int)
            return [Followed(tuple(self._new() for _ in range(int(rank[0]))) if known else None)]
        self._target(wanted)
        sizes = list(wanted.entries)
        if not self._int("allowzero", 0):
            sizes = [
                _size(data.axes[place], self._batch) if size == (0, ()) and place < data.rank else size
                for place, size in enumerate(sizes)
            ]
        factors = [factor for axis in data.axes for factor in axis]
        axes = self._regrouped(factors, sizes)
        return [_regarded(replace(data, entries=data.entries if len(axes) <= 1 else None), axes)]

    def _regrouped(self, factors: list[Factor], sizes: list[Size]) -> tuple[Axis, ...]:
        """Split factors into axes of these sizes, or as far as the axis with the rows."""
        total = _size(tuple(factors), self._batch)
        if (-1, ()) in sizes:
            at = sizes.index((-1, ()))
            sizes[at] = _quotient(total, _product([size for place, size in enumerate(sizes) if place != at]))
        front = _split(factors, sizes, self._batch)
        rest = sizes[len(front) :]
        if not rest:
            return tuple(front)
        if not any(size is not None and BATCH in size[1] for size in rest):
            if BATCH not in factors:
                return (*front, *(_factors(size) if size is not None else self._new() for size in rest))
            if any(BATCH in axis for axis in front):
                return (*front, *(self._new() for _ in rest))
        back = _split(factors[::-1], sizes[::-1], self._batch)
        rest = sizes[: len(sizes) - len(back)]
        if any(BATCH in axis for axis in back) and not any(size is not None and BATCH in size[1] for size in rest):
            return (*(self._new() for _ in rest), *(axis[::-1] for axis in back[::-1]))
        raise _TaintedError("spreads rows over a shape in which they cannot be told apart")

    def _concatenated(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        parts = [_axed(each) for each in inputs]
        place = _place(self._int("axis", 1), parts[0].rank)
        if len(parts) == 1:
            return parts
        if any(part.batch == place for part in parts):
            raise _TaintedError("puts rows of several batches one after the other")
        if all(part.entries is not None and part.rank == 1 for part in parts):
            joined = tuple(entry for part in parts for entry in part.entries or ())
            return [_whole(joined, tainted=bool(_taint(parts)))]
        if any(part.rank != parts[0].rank for part in parts):
            raise _TaintedError("joins tensors of different ranks")
        axes = []
        for at in range(parts[0].rank):
            here = [(part.axes or ())[at] for part in parts]
            axes.append(self._one_axis(here) if at != place else _sum(here) or self._new())
        made = _followed(tuple(axes), _order(parts), _taint(parts))
        own = parts[0].permutation == "rows" and parts[0].axes == ((BATCH,), ()) and place == 1
        if own and not _taint(parts[1:]) and _order(parts[1:]) in ("", None):
            return [replace(made, permutation="rows first")]
        return [made]

    def _columns_joined(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        parts = [_axed(each) for each in inputs]
        if any(part.batch not in (None, 0) or part.rank != 2 for part in parts):
            raise _TaintedError("takes the rows of a batch for columns")
        rows = self._one_axis([(part.axes or ())[0] for part in parts])
        return [_followed((rows, self._new()), _order(parts), _taint(parts))]

    def _pieces(self, node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        place = _place(self._int("axis", 0), data.rank)
        if data.batch == place:
            raise _TaintedError("splits the rows of a batch")
        sizes = self._ints("split")
        if sizes is None and len(inputs) > 1 and inputs[1] is not None and inputs[1].entries is not None:
            sizes = [entry[0] if entry and not entry[1] else -1 for entry in inputs[1].entries]
        taint = _taint(inputs)
        pieces = []
        for number in range(len(node.output)):
            size = sizes[number] if sizes is not None and number < len(sizes) and sizes[number] > 0 else None
            if sizes is None:
                whole = _size((data.axes or ())[place], None)
                even = whole is not None and not whole[1] and whole[0] % len(node.output) == 0
                size = whole[0] // len(node.output) if whole is not None and even else None
            axis = _axis(size) if size is not None else self._new()
            axes = tuple(axis if at == place else each for at, each in enumerate(data.axes or ()))
            pieces.append(_followed(axes, data.order, taint))
        return pieces

    def _sliced(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        if "starts" in self._attributes:
            starts, ends = self._ints("starts") or [], self._ints("ends") or []
            axes, steps = self._ints("axes") or list(range(len(starts))), [1] * len(starts)
            bounds = [((start, ()), (end, ())) for start, end in zip(starts, ends, strict=True)]
        else:
            optional = [*inputs, *[None] * (5 - len(inputs))]
            entries = [each.entries if each is not None else None for each in optional[1:3]]
            count = max((len(each) for each in entries if each is not None), default=0)
            given = [each if each is not None else (None,) * count for each in entries]
            bounds = list(zip(*given, strict=True))
            axes = (
                _numbers(optional[3], "with axes that are computed") if optional[3] is not None else list(range(count))
            )
            known = optional[4] is None or optional[4].entries is not None
            steps = _numbers(optional[4], "") if optional[4] is not None and known else [1 if known else 0] * count
        made = list(data.axes or ())
        taint = data.taint
        if not bounds:
            if data.batch is not None:
                raise _TaintedError("cuts in a way that is not analysed")
            return [_followed(tuple(self._new() for _ in made), data.order, _taint(inputs))]
        for axis, (start, end), step in zip(axes, bounds, steps, strict=True):
            place = _place(axis, data.rank)
            size = _size(made[place], self._batch)
            to_end = end is not None and ((not end[1] and end[0] >= TOO_LARGE) or end == size)
            if start == (0, ()) and to_end and step == 1:
                continue
            if place == data.batch:
                raise _TaintedError("chooses some rows of a batch")
            if any(bound is None or BATCH in bound[1] for bound in (start, end)):
                taint = taint or _taint(inputs[1:])
            made[place] = self._cut(size, start, end, step)
        kept = self._cut_entries(data, bounds, steps)
        if kept is not None:
            return [_whole(kept, tainted=bool(_taint(inputs)))]
        return [_followed(tuple(made), data.order, taint, alike=data.alike)]

    def _cut(self, size: Size, start: Size, end: Size, step: int) -> Axis:
        """Return the axis that a slice leaves of one of a known size."""
        if size is None or start is None or end is None or size[1] or start[1] or end[1] or not step:
            return self._new()
        return _axis(len(range(size[0])[start[0] : end[0] : step]))

    @staticmethod
    def _cut_entries(data: Followed, bounds: Sequence[Any], steps: Sequence[int]) -> tuple[Size, ...] | None:
        if data.entries is None or data.rank != 1 or len(bounds) != 1 or not steps[0]:
            return None
        start, end = bounds[0]
        if start is None or end is None or start[1] or end[1]:
            return None
        return data.entries[start[0] : end[0] : steps[0]]

    def _gathered(self, node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data, index = _axed(inputs[0]), _axed(inputs[1])
        place = _place(self._int("axis", 0), data.rank)
        if node.op_type == "ArrayFeatureExtractor":
            place = data.rank - 1
            index = replace(index, axes=(tuple(f for axis in index.axes or () for f in axis),))
        if data.entries is not None and index.entries is not None and data.rank == 1:
            places = _numbers(index, "with places that are computed")
            if all(-len(data.entries) <= at < len(data.entries) for at in places):
                return [_whole(tuple(data.entries[at] for at in places), index.axes, tainted=bool(data.taint))]
        # Rows that are all alike may be chosen from, unless something else comes before them in their axis.
        if data.batch == place and (data.order is not None or (data.axes or ())[place][0] != BATCH):
            if not index.permutation or index.axes != ((BATCH,),) or (data.axes or ())[place] != (BATCH,):
                raise _TaintedError("chooses some rows of a batch")
            order = _reordered(data.order or "", index.permutation)
            return [replace(data, order=order, entries=None, permutation="")]
        axes = (*(data.axes or ())[:place], *(index.axes or ()), *(data.axes or ())[place + 1 :])
        return [_followed(axes, _order(inputs), _taint(inputs))]

    def _by_element(self, node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        """Pick or replace elements along an axis; rows stay where they are on any other axis."""
        data, index = _axed(inputs[0]), _axed(inputs[1])
        place = _place(self._int("axis", 0), data.rank)
        updates = inputs[2] if node.op_type == "ScatterElements" else None
        if place in (data.batch, index.batch):
            inverted = updates is not None and updates.permutation == "rows" and updates.axes == index.axes
            if inverted and index.permutation and index.axes == data.axes == ((BATCH,),) and not self._adds():
                return [replace(index, permutation=_inverse(index.permutation))]
            raise _TaintedError("chooses some rows of a batch")
        parts = [data, index, *([updates] if updates is not None else [])]
        if len({(part.axes or ())[part.batch] if part.batch is not None else () for part in parts}) > 1:
            raise _TaintedError("joins the rows with something of another kind at the same axis")
        if len({part.batch for part in parts}) > 1:
            raise _TaintedError("joins the rows with something of another kind at the same axis")
        axes = data.axes if updates is not None else index.axes
        return [_followed(axes or (), _order(inputs), _taint(inputs))]

    def _adds(self) -> bool:
        """Whether a scatter combines what it puts in a place with what was there."""
        reduction = self._attributes.get("reduction")
        return reduction is not None and reduction.s != b"none"

    def _by_position(self, node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        """Gather by tuples of positions; if the first counts the rows, each row picks from itself."""
        data, index = _axed(inputs[0]), _axed(inputs[1])
        if node.op_type != "GatherND":
            if data.batch is None and index.batch is None and (inputs[2] is None or inputs[2].batch is None):
                return [_followed(data.axes or (), None, _taint(inputs))]
            raise _TaintedError("replaces rows in a way that is not analysed")
        depth, same = _size((index.axes or ((),))[-1], None), self._int("batch_dims", 0)
        if depth is None or depth[1]:
            raise _TaintedError("gathers in a way that is not analysed")
        axes = (*(index.axes or ())[:-1], *(data.axes or ())[same + depth[0] :])
        if data.batch is None and not same:
            return [_followed(axes, index.order, _taint(inputs))]
        if same and data.batch == 0 and index.batch == 0 and (data.axes or ())[0] == (index.axes or ())[0]:
            return [_followed(axes, _order(inputs), _taint(inputs))]
        if not same and (data.axes or ())[0] == (BATCH,) and data.order == "" and index.permutation == "rows first":
            return [_followed(axes, "", data.taint)]
        raise _TaintedError("chooses some rows of a batch")

    def _expanded(self, node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data, wanted = _axed(inputs[0]), inputs[1]
        if wanted is None or wanted.entries is None:
            if data.batch is not None or (wanted is not None and wanted.taint):
                raise _TaintedError("has a shape that is computed in a way that is not analysed")
            return [Followed(None, taint=data.taint)]
        sizes = wanted.entries
        if node.op_type == "Tile":
            self._target(wanted)
            axes = []
            for axis, times in zip(data.axes or (), sizes, strict=True):
                if BATCH in axis and times != (1, ()):
                    raise _TaintedError("repeats the rows of a batch")
                axes.append((_factors(times) if times is not None else self._new()) + axis)
            return [_followed(tuple(axes), data.order, data.taint, alike=data.alike)]
        target = Followed(self._target(wanted))
        if self._batch is not None and data.batch is not None:
            # Where the batch is fixed its size may be written out.
            at = data.batch - data.rank
            same = -at <= target.rank and target.axes is not None and target.axes[at] == _axis(self._batch)
            if same and target.axes is not None:
                kept = list(target.axes)
                kept[at] = (data.axes or ())[data.batch]
                target = replace(target, axes=tuple(kept))
        return [replace(self._joined([replace(data, alike=False), target]), taint=data.taint, alike=data.alike)]

    def _padded(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        pads = self._ints("pads")
        if pads is None and len(inputs) > 1 and inputs[1] is not None and inputs[1].entries is not None:
            pads = [entry[0] if entry and not entry[1] else -1 for entry in inputs[1].entries]
        if data.batch is None:
            return [_followed(tuple(self._new() for _ in data.axes or ()), None, _taint(inputs))]
        if pads is None or len(inputs) > 3 or len(pads) != 2 * data.rank:
            raise _TaintedError("adds rows in a way that is not analysed")
        if pads[data.batch] or pads[data.batch + data.rank]:
            raise _TaintedError("adds rows to a batch")
        grown = [bool(pads[place] or pads[place + data.rank]) for place in range(data.rank)]
        axes = tuple(self._new() if more else axis for more, axis in zip(grown, data.axes or (), strict=True))
        return [_followed(axes, data.order, _taint(inputs))]

    def _one_hot(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        if any(each.batch is not None for each in inputs[1:] if each is not None):
            raise _TaintedError("has parameters that differ between rows")
        place = _place(self._int("axis", -1), data.rank + 1)
        own = list(data.axes or ())
        own.insert(place, self._new())
        return [_followed(tuple(own), data.order, _taint(inputs))]

    def _encoded(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        words, numbers = (self._attributes.get(key) for key in ("cats_strings", "cats_int64s"))
        count = len(words.strings) if words is not None else len(numbers.ints) if numbers is not None else 0
        return [_followed((*(data.axes or ()), _axis(count) if count else self._new()), data.order, data.taint)]

    def _triangle(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        made = self._across(data, range(max(0, data.rank - 2), data.rank))
        return [replace(made, taint=_taint(inputs))]

    def _reversed(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        rows, time = _place(self._int("batch_axis", 1), data.rank), _place(self._int("time_axis", 0), data.rank)
        lengths = _axed(inputs[1])
        own = lengths.batch is None and data.batch is None
        if not own and (data.batch != rows or data.batch == time or lengths.axes != ((data.axes or ())[rows],)):
            raise _TaintedError("takes the rows of a batch for steps")
        return [_followed(data.axes or (), _order(inputs), _taint(inputs))]

    def _quantised(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        data = _axed(inputs[0])
        along = _place(self._int("axis", 1), max(data.rank, 2))
        for each in inputs[1:]:
            if each is not None and any(_axed(each).axes or ()) and (each.rank > 1 or along == data.batch):
                raise _TaintedError("has parameters that differ between rows")
        return [_followed(data.axes or (), data.order, _taint(inputs))]

    def _like(self, _node: NodeProto, inputs: list[Followed | None]) -> list[Followed]:
        return [replace(_axed(inputs[0]), entries=None, permutation="")]


Rule = Callable[[_Walk, Any, list[Followed | None]], list[Followed]]
RULES: dict[str, Rule] = {
    "ArgMax": _Walk._arg,
    "ArgMin": _Walk._arg,
    "ArrayFeatureExtractor": _Walk._gathered,
    "CastLike": _Walk._like,
    "Concat": _Walk._concatenated,
    "Constant": _Walk._constant_node,
    "ConstantOfShape": _Walk._filled,
    "CumSum": _Walk._one_axis_at_a_time,
    "DequantizeLinear": _Walk._quantised,
    "Einsum": _Walk._einsum,
    "Expand": _Walk._expanded,
    "FeatureVectorizer": _Walk._columns_joined,
    "Flatten": _Walk._flattened,
    "GRU": _Walk._recurrent,
    "Gather": _Walk._gathered,
    "GatherElements": _Walk._by_element,
    "GatherND": _Walk._by_position,
    "Gemm": _Walk._gemm,
    "Hardmax": _Walk._softmax,
    "Imputer": _Walk._in_columns,
    "LSTM": _Walk._recurrent,
    "LayerNormalization": _Walk._normalised,
    "LogSoftmax": _Walk._softmax,
    "LpNormalization": _Walk._one_axis_at_a_time,
    "MatMul": _Walk._product,
    "MatMulInteger": _Walk._product,
    "MeanVarianceNormalization": _Walk._one_axis_at_a_time,
    "Normalizer": _Walk._in_columns,
    "OneHot": _Walk._one_hot,
    "OneHotEncoder": _Walk._encoded,
    "Pad": _Walk._padded,
    "QLinearMatMul": _Walk._product,
    "QuantizeLinear": _Walk._quantised,
    "RMSNormalization": _Walk._normalised,
    "RNN": _Walk._recurrent,
    "Range": _Walk._range,
    "Reshape": _Walk._reshaped,
    "ReverseSequence": _Walk._reversed,
    "Scaler": _Walk._in_columns,
    "ScatterElements": _Walk._by_element,
    "ScatterND": _Walk._by_position,
    "Shape": _Walk._shape,
    "Size": _Walk._count,
    "Slice": _Walk._sliced,
    "Softmax": _Walk._softmax,
    "Split": _Walk._pieces,
    "Squeeze": _Walk._squeezed,
    "Tile": _Walk._expanded,
    "TopK": _Walk._top,
    "Transpose": _Walk._turned,
    "Trilu": _Walk._triangle,
    "Unsqueeze": _Walk._unsqueezed,
}


def _axis(size: int | str) -> Axis:
    return () if size == 1 else (size,)


def _size(axis: Axis, batch: int | None) -> Size:
    """Return the product of factors; a fixed batch is a number."""
    numbers = [batch if factor == BATCH and batch is not None else factor for factor in axis]
    return prod(f for f in numbers if isinstance(f, int)), tuple(sorted(f for f in numbers if isinstance(f, str)))


def _factors(size: Size) -> Axis:
    if size is None:
        return ()
    return (*((size[0],) if size[0] != 1 else ()), *size[1])


def _product(sizes: Iterable[Size]) -> Size:
    number = 1
    symbols: list[str] = []
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


def _sum(axes: Sequence[Axis]) -> Axis:
    """Return the axis of the sum of these sizes; () if it is not known."""
    sizes = [_size(axis, None) for axis in axes]
    return _axis(sum(size[0] for size in sizes if size)) if all(size and not size[1] for size in sizes) else ()


def _split(factors: Sequence[Factor], sizes: Sequence[Size], batch: int | None) -> list[Axis]:
    """Return the factors of each of these sizes, in order, as far as they can be told."""
    rest, axes = list(factors), list[Axis]()
    for size in sizes:
        if size is None:
            return axes
        number, symbols, taken = size[0], list(size[1]), list[Factor]()
        if number < 1:
            return axes
        while number != 1 or symbols:
            factor = rest.pop(0) if rest else None
            if factor == BATCH and BATCH not in symbols and batch is not None and number % batch == 0:
                number //= batch
                taken.append(factor)
            elif isinstance(factor, str) and factor in symbols:
                symbols.remove(factor)
                taken.append(factor)
            elif isinstance(factor, int) and number % factor == 0:
                number //= factor
                taken.append(factor)
            elif isinstance(factor, int) and factor % number == 0 and not symbols:
                taken.append(number)
                rest.insert(0, factor // number)
                number = 1
            else:
                return axes
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
    count = prod(tensor.dims)
    raw = tensor.raw_data
    alike = bool(raw) and not raw.strip(b"\0")  # zeros: where recurrent layers begin
    if tensor.data_type not in (INT32, INT64) or count > MOST_ENTRIES or len(axes) > 1:
        return Followed(axes, alike=alike)
    numbers = list(tensor.int64_data if tensor.data_type == INT64 else tensor.int32_data)
    if raw:
        numbers = np.frombuffer(raw, "<i8" if tensor.data_type == INT64 else "<i4").tolist()
    entries = tuple((int(number), ()) for number in numbers)
    return Followed(axes, entries=entries, alike=len(set(numbers)) == 1, bits=BITS[tensor.data_type])


def _is_computed(symbol: str) -> bool:
    """Whether a symbol is the size of an axis that an operator made, as those of `_Walk._new` are."""
    return symbol.startswith("?")


def _within(given: Followed, bits: int) -> Followed:
    """Return what is known of a tensor without the numbers that may have been rounded or have overflowed."""
    if given.entries is None:
        return replace(given, bits=bits)
    kept = tuple(entry if entry is None or _largest(entry) < bits else None for entry in given.entries)
    return replace(given, entries=kept, bits=bits)


def _largest(size: tuple[int, tuple[str, ...]]) -> int:
    """Return how many bits a number may need."""
    symbols = sum(COMPUTED_BITS if _is_computed(symbol) else SIZE_BITS for symbol in size[1])
    return abs(size[0]).bit_length() + symbols


def _regarded(data: Followed, axes: tuple[Axis, ...]) -> Followed:
    """Return the same elements in the same order, with other axes around them."""
    return replace(data, axes=axes, permutation="" if data.permutation == "rows first" else data.permutation)


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


def _taint(inputs: Iterable[Followed | None]) -> str:
    return next((each.taint for each in inputs if each is not None and each.taint), "")


def _order(inputs: Iterable[Followed | None]) -> str | None:
    """Return the common order of rows, or say that there are several."""
    orders = {each.order for each in inputs if each is not None and each.order is not None and each.batch is not None}
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
    lists = [each.entries for each in given]
    if not lists or any(each is None for each in lists) or operator not in ARITHMETIC:
        return None
    count = max(len(each or ()) for each in lists)
    if any(len(each or ()) not in (1, count) for each in lists) or any(each.rank > 1 for each in given):
        return None
    wide = [(each or ()) * (count if len(each or ()) == 1 else 1) for each in lists]
    return tuple(ARITHMETIC[operator](*entries) for entries in zip(*wide, strict=True))


def _plus(one: Size, other: Size) -> Size:
    if one is None or other is None or (one[1] != other[1] and one[0] and other[0]):
        return None
    total = one[0] + other[0]
    return (total, one[1] if one[0] else other[1]) if total else (0, ())


def _minus(one: Size, other: Size) -> Size:
    return _plus(one, (-other[0], other[1])) if other is not None else None


def _equal(one: Size, other: Size) -> Size:
    if one is None or other is None:
        return None
    if one == other:
        return 1, ()
    # A size is not negative, so it differs from a negative number.
    apart = one[0] * other[0] < 0 and not (one[1] and other[1])
    return (0, ()) if apart or (not one[1] and not other[1]) else None


def _either(test: Size, one: Size, other: Size) -> Size:
    return None if test is None or test[1] else one if test[0] else other


def _modulo(one: Size, other: Size) -> Size:
    known = one is not None and other is not None and not one[1] and not other[1] and one[0] >= 0 and other[0] > 0
    return (one[0] % other[0], ()) if known and one is not None and other is not None else None


def _over(one: Size, other: Size) -> Size:
    # A size that is computed may be 0.
    return _quotient(one, other) if other is not None and not any(map(_is_computed, other[1])) else None


ARITHMETIC: dict[str, Callable[..., Size]] = {
    "Add": _plus,
    "Sub": _minus,
    "Mul": lambda one, other: _product([one, other]),
    "Div": _over,
    "Equal": _equal,
    "Mod": _modulo,
    "Where": _either,
}
