"""The place of each unit in a tensor, followed through operators that leave units in their place.

Only what is sure is followed: a tensor that mixes units, or whose order cannot be told, has none that are known.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any

from fairchain.models.onnx.file_checks import attribute
from fairchain.models.onnx.tensor_facts import Followed

if TYPE_CHECKING:
    from onnx import NodeProto

Units = tuple[Any, ...]

# Operators of one tensor that treat every unit on its own, or only change how they are laid out.
ALONE = frozenset(
    """
    Abs BatchNormalization Cast CastLike Celu Clip Dropout Elu Erf Exp Flatten Floor Gelu GlobalAveragePool
    GlobalMaxPool HardSigmoid HardSwish Identity Imputer LeakyRelu Log MaxPool AveragePool Mish Neg PRelu Reciprocal
    Relu Reshape Round Scaler Selu Shrink Sigmoid Sign Softplus Softsign Sqrt
    Squeeze Swish Tanh ThresholdedRelu Transpose Unsqueeze
    """.split()  # noqa: SIM905  # a block of names reads better than a list of strings
)
REDUCING = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"})
WITH_CONSTANT = frozenset({"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"})


def pass_on(
    node: NodeProto, flows: dict[str, Units], constants: Container[str], shapes: Mapping[str, Followed]
) -> None:
    """Note for the output of an operator without weights which unit is where, if that is sure.

    `shapes` are those of the tensors, as far as they are known: an operator along an axis keeps units apart only if
    they are on another one.
    """
    known = [flows.get(name) for name in node.input]
    units: Units | None = None
    order = attribute(node, "perm", [])
    if node.op_type in ALONE:
        # A transposition must leave the last axis where it is: another one laid flat has units in another order.
        units = known[0] if node.op_type != "Transpose" or (order and order[-1] == len(order) - 1) else None
    elif node.op_type in WITH_CONSTANT and sum(each is not None for each in known) == 1:
        place = next(i for i, each in enumerate(known) if each is not None)
        units = known[place] if all(n in constants for i, n in enumerate(node.input) if i != place) else None
    elif node.op_type in REDUCING and known[0] is not None:
        axis, reduced = _unit_axis(node.input[0], known[0], shapes), _reduced(node, shapes)
        units = known[0] if axis is not None and reduced is not None and axis not in reduced else None
    elif node.op_type in ("Concat", "FeatureVectorizer") and all(each is not None for each in known):
        units = _joined(node, [each or () for each in known], shapes)
    if units is not None:
        flows[node.output[0]] = units


def _unit_axis(tensor: str, units: Units, shapes: Mapping[str, Followed]) -> int | None:
    """Return the axis of the units: the only one of their number; None if that is not sure."""
    shape = shapes.get(tensor)
    wanted = (len(units),) if len(units) != 1 else ()
    places = [place for place, axis in enumerate(shape.shape if shape is not None else ()) if axis == wanted]
    return places[0] if len(places) == 1 else None


def _reduced(node: NodeProto, shapes: Mapping[str, Followed]) -> set[int] | None:
    """Return the axes that an operator sums up over; None if they are not known."""
    shape = shapes.get(node.input[0])
    rank = shape.rank if shape is not None else 0
    axes = attribute(node, "axes")
    if axes is None and len(node.input) > 1 and node.input[1]:
        given = shapes.get(node.input[1])
        if given is None or given.entries is None or any(entry is None or entry[1] for entry in given.entries):
            return None
        axes = [entry[0] for entry in given.entries if entry is not None]
    return {axis % rank for axis in axes} if axes and rank else set(range(rank))


def _joined(node: NodeProto, known: list[Units], shapes: Mapping[str, Followed]) -> Units | None:
    """Return the units of tensors one after the other along the axis of their units, or None."""
    if node.op_type == "FeatureVectorizer":
        return tuple(unit for each in known for unit in each)
    places = {_unit_axis(name, units, shapes) for name, units in zip(node.input, known, strict=True)}
    first = shapes.get(node.input[0])
    rank = first.rank if first is not None else 0
    if len(places) != 1 or None in places or not rank:
        return None
    if attribute(node, "axis", 1) % rank in places:
        return tuple(unit for each in known for unit in each)
    return known[0] if len(set(known)) == 1 else None
