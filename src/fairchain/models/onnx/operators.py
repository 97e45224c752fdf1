"""Operators in the form that their rules use, and the table of these rules (`operator_rules`, `shape_rules`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from msgspec import Struct, field

from fairchain.models.onnx.tensor_facts import (
    BATCH,
    Axis,
    Followed,
    Size,
    TaintedError,
    axed,
    common_order,
    factors_of,
    first_taint,
    has_rows,
    is_computed,
    known_numbers,
    place_of,
    rows_once,
    size_of,
)


class GraphContext(Struct):
    """The graph of an operator: its fixed batch size, if any, and the version of its operators."""

    batch: int | None
    opset: int
    _new: int = 0

    def new_axis(self) -> Axis:
        """Return an axis of unknown size that is unrelated to the batch."""
        self._new += 1
        return (f"?{self._new}",)


class Operator(Struct, frozen=True):
    """An operator for its rule: graph and type, known facts about its inputs, number of outputs, attributes."""

    graph: GraphContext
    kind: str
    inputs: list[Followed | None]
    outputs: int
    attributes: dict[str, Any]

    @property
    def data(self) -> Followed:
        """The first input, whose rank must be known."""
        return axed(self.inputs[0])

    def optional(self, place: int) -> Followed | None:
        """Return an input that may be missing."""
        return self.inputs[place] if place < len(self.inputs) else None

    def number(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        found = self.attributes.get(name)
        return int(found.i) if found is not None else default

    def text(self, name: str, default: bytes = b"") -> bytes:
        """Return a text attribute."""
        found = self.attributes.get(name)
        return bytes(found.s) if found is not None else default

    def numbers(self, name: str) -> list[int] | None:
        """Return an attribute that is a list of integers."""
        found = self.attributes.get(name)
        return [int(each) for each in found.ints] if found is not None else None

    def listed(self, name: str, place: int) -> list[int] | None:
        """Return numbers from an attribute or, in newer versions, from an input, with -1 for an unknown one."""
        given, entries = self.numbers(name), getattr(self.optional(place), "entries", None)
        if given is None and entries is not None:
            given = [entry[0] if entry and not entry[1] else -1 for entry in entries]
        return given

    def axes(self) -> list[int] | None:
        """Return the axes in the attribute or, in newer versions, in the second input; None for all."""
        given = self.numbers("axes")
        if given is None and self.optional(1) is not None:
            given = known_numbers(self.inputs[1], "with axes that are computed")
        return given

    def axis(self, default: int) -> int:
        """Return the index of the axis in the attribute among those of the first input."""
        return place_of(self.number("axis", default), self.data.rank)

    def size(self, axis: Axis) -> Size:
        """Return the size of an axis; a fixed batch is a number."""
        return size_of(axis, self.graph.batch)

    def sizes(self) -> tuple[Size, ...]:
        """Return the shape of the first input; a size computed from tainted numbers may depend on the batch itself."""
        sizes = map(self.size, self.data.shape)
        return tuple(None if self.data.taint and size and any(map(is_computed, size[1])) else size for size in sizes)

    def new(self, size: Size = None) -> Axis:
        """Return the axis of this size, a new one if it is unknown."""
        return factors_of(size) if size is not None else self.graph.new_axis()

    def made(self, axes: Iterable[Axis], *, alike: bool = False) -> Followed:
        """Return a tensor with these axes, with the order of rows and the taint of all inputs."""
        return rows_once(tuple(axes), common_order(self.inputs), first_taint(self.inputs), alike=alike)

    def one_axis(self, axes: Iterable[Axis]) -> Axis:
        """Return the result of these axes when tensors are broadcast against each other."""
        wide = list(dict.fromkeys(axis for axis in axes if axis))
        if len(wide) < 2:
            return wide[0] if wide else ()
        if any(BATCH in axis for axis in wide):
            raise TaintedError("joins rows and values that are not rows along one axis")
        # An unknown size next to a number above 1 must be equal to it, or is broadcast to it.
        return next((axis for axis in wide if not any(isinstance(factor, str) for factor in axis)), self.new())

    def joined(self, given: Sequence[Followed]) -> Followed:
        """Return the shape and order of tensors that are broadcast against each other."""
        if any(each.axes is None for each in given):
            if any(map(has_rows, given)) and not first_taint(given):
                raise TaintedError("joins rows with a tensor of unknown shape")
            return Followed(None, taint=first_taint(given))
        axes = []
        for place in range(-max((each.rank for each in given), default=0), 0):
            here = [each for each in given if -place <= each.rank]
            if any(BATCH in each.shape[place] for each in here):
                # A tensor of one number applies to every row, even if it is written for a fixed number of rows.
                here = [each for each in here if not each.alike or BATCH in each.shape[place]]
            axes.append(self.one_axis(each.shape[place] for each in here))
        return rows_once(tuple(axes), common_order(given), first_taint(given), alike=all(each.alike for each in given))


OperatorRule = Callable[[Operator], Followed | list[Followed]]
AnyRule = TypeVar("AnyRule", bound=OperatorRule)
# Operators whose inputs from this index on are the same for all rows: weights, limits, lists of sizes or positions.
PARAMETERS = {"ConstantOfShape": 0, "Range": 0} | dict.fromkeys(
    """
    AveragePool BatchNormalization Clip Conv ConvTranspose DepthToSpace Dropout Expand GlobalAveragePool GlobalMaxPool
    GroupNormalization InstanceNormalization LRN LpPool MaxPool OneHot Pad QLinearConv Reshape Slice SpaceToDepth Split
    Tile
    """.split(),  # noqa: SIM905  # a block of names reads better than a list of strings
    1,
)


class RuleTable(Struct, frozen=True):
    """The rules of operators by name; calling it with names registers the decorated function."""

    rules: dict[str, OperatorRule] = field(default_factory=dict)

    def __call__(self, operators: str) -> Callable[[AnyRule], AnyRule]:
        """Return a decorator that registers the rule of these operators."""

        def register(rule: AnyRule) -> AnyRule:
            self.rules.update(dict.fromkeys(operators.split(), rule))
            return rule

        return register


def unknown_operator(op: Operator) -> Followed:
    """Return an output without rows if no input has rows, whatever the operator computes."""
    if any(map(has_rows, op.inputs)) and not first_taint(op.inputs):
        raise TaintedError("is not known to treat each row independently")
    return Followed(None, taint=first_taint(op.inputs))
