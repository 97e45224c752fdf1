"""The position of each unit in a tensor, traced through operators that keep units in place.

Only certain positions are traced: a tensor that mixes units, or has an unknown order, has no known units. Flattened
without the batch, a tensor repeats the units of most layers in order, and has all entries of a *channel*, a unit of a
convolution, in a row. No reshape changes that.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairchain.models.onnx.file_checks import attribute
from fairchain.models.onnx.tensor_facts import Followed, fixed_size, size_of

if TYPE_CHECKING:
    from onnx import NodeProto

Units = tuple[Any, ...]

# Elementwise operators.
ELEMENTWISE = frozenset(
    """
    Abs BatchNormalization Cast CastLike Celu Clip Dropout Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity Imputer
    LeakyRelu Log Mish Neg PRelu Reciprocal Relu Round Scaler Selu Shrink Sigmoid Sign Softplus Softsign Sqrt Swish Tanh
    ThresholdedRelu
    """.split()  # noqa: SIM905  # a block of names reads better than a list of strings
)
LAID_OUT = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
POOLING = frozenset({"AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"})
REDUCING = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"})
WITH_CONSTANT = frozenset({"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"})


@dataclass
class UnitPlaces:
    """The positions of units in tensors: the known units and shapes of each tensor, and the units that are channels."""

    flows: dict[str, Units]
    shapes: Mapping[str, Followed]
    channels: set[Any] = field(default_factory=set)

    def pass_on(self, node: NodeProto, constants: Container[str]) -> None:
        """Record the positions of units in the output of an operator without weights, if they are certain."""
        known = [self.flows.get(name) for name in node.input]
        units: Units | None = None
        if node.op_type in ELEMENTWISE | LAID_OUT:
            units = known[0]
        elif node.op_type == "Transpose" and known[0] is not None:
            units = known[0] if self._keeps_order(node, known[0]) else None
        elif node.op_type in POOLING and known[0] is not None:
            units = known[0] if self.channels.issuperset(known[0]) else None
        elif node.op_type in WITH_CONSTANT and sum(each is not None for each in known) == 1:
            place = next(i for i, each in enumerate(known) if each is not None)
            fixed = all(name in constants for i, name in enumerate(node.input) if i != place)
            # Entries that are repeated along an axis are in another order.
            units = known[place] if fixed and self._alike(node.input[place], node.output[0]) else None
        elif node.op_type in REDUCING and known[0] is not None:
            axis, reduced = self._unit_axis(node.input[0], known[0]), _reduced(node, self.shapes)
            units = known[0] if axis is not None and reduced is not None and axis not in reduced else None
        elif node.op_type in ("Concat", "FeatureVectorizer") and all(each is not None for each in known):
            units = self._joined(node, [each or () for each in known])
        if units is not None:
            self.flows[node.output[0]] = units

    def incoming(self, source: str, size: int, operator: str) -> Units | None:
        """Return the unit of each entry over which an operator sums, or None."""
        units = self.flows.get(source)
        if not units or size % len(units):
            return None
        channels = self.channels.issuperset(units)
        if operator == "Conv":
            return units if size == len(units) and (channels or self._unit_axis(source, units) == 1) else None
        if not channels:
            return None if self.channels.intersection(units) and size != len(units) else units * (size // len(units))
        shape = self.shapes.get(source)
        if shape is None or shape.rank != 2:
            return None
        return tuple(unit for unit in units for _ in range(size // len(units)))

    def _keeps_order(self, node: NodeProto, units: Units) -> bool:
        """Return whether a transposition keeps all entries of a row in order, or the units within their axis."""
        shape, order = self.shapes.get(node.input[0]), list(attribute(node, "perm", []))
        if shape is None or len(order) != shape.rank:
            return False
        moved = [place for place in order if place != shape.batch and shape.shape[place]]
        if moved == sorted(moved):
            return True
        last = fixed_size(shape.shape[-1])
        whole = last is not None and not last % len(units)
        return whole and order[-1] == len(order) - 1 and not self.channels.intersection(units)

    def _alike(self, one: str, other: str) -> bool:
        """Return whether two tensors have the same shape, up to axes of size 1."""
        found = [self.shapes.get(name) for name in (one, other)]
        if any(each is None or each.axes is None for each in found):
            return False
        first, second = ([size_of(axis) for axis in each.shape if axis] for each in found if each is not None)
        return first == second

    def _unit_axis(self, tensor: str, units: Units) -> int | None:
        """Return the axis of the units: the only one of their number, with no other after it (before a channel's)."""
        shape = self.shapes.get(tensor)
        wanted = (len(units),) if len(units) != 1 else ()
        axes = shape.shape if shape is not None else ()
        places = [place for place, axis in enumerate(axes) if axis == wanted]
        if len(places) != 1 or shape is None:
            return None
        others = range(places[0]) if self.channels.issuperset(units) else range(places[0] + 1, len(axes))
        return places[0] if not any(axes[place] for place in others if place != shape.batch) else None

    def _joined(self, node: NodeProto, known: list[Units]) -> Units | None:
        """Return the units of tensors concatenated along the axis of their units, or None."""
        joined = tuple(unit for each in known for unit in each)
        if node.op_type == "FeatureVectorizer":
            return joined
        places = {self._unit_axis(name, units) for name, units in zip(node.input, known, strict=True)}
        first = self.shapes.get(node.input[0])
        rank = first.rank if first is not None else 0
        return joined if rank and places == {attribute(node, "axis", 1) % rank} else None


def _reduced(node: NodeProto, shapes: Mapping[str, Followed]) -> set[int] | None:
    """Return the axes over which an operator sums; None if unknown."""
    shape = shapes.get(node.input[0])
    rank = shape.rank if shape is not None else 0
    axes = attribute(node, "axes")
    if axes is None and len(node.input) > 1 and node.input[1]:
        given = shapes.get(node.input[1])
        if given is None or given.entries is None or any(entry is None or entry[1] for entry in given.entries):
            return None
        axes = [entry[0] for entry in given.entries if entry is not None]
    return {axis % rank for axis in axes} if axes and rank else set(range(rank))
