"""Which unit stands where in a tensor, followed through operators that leave units in their place.

Only what is sure is followed: a tensor that mixes units, or whose order cannot be told, has none that are known.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx import NodeProto

Units = tuple[Any, ...]

# Operators of one tensor that treat every unit on its own, or only change how they are laid out.
ALONE = frozenset(
    """
    Abs BatchNormalization Cast CastLike Celu Clip Dropout Elu Erf Exp Flatten Floor Gelu GlobalAveragePool
    GlobalMaxPool HardSigmoid HardSwish Identity Imputer LeakyRelu Log MaxPool AveragePool Mish Neg PRelu Reciprocal
    ReduceMax ReduceMean ReduceMin ReduceSum Relu Reshape Round Scaler Selu Shrink Sigmoid Sign Softplus Softsign Sqrt
    Squeeze Swish Tanh ThresholdedRelu Transpose Unsqueeze
    """.split()  # noqa: SIM905  # a block of names reads better than a list of strings
)
WITH_CONSTANT = frozenset({"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"})


def pass_on(node: NodeProto, flows: dict[str, Units], constants: Container[str]) -> None:
    """Say for the output of an operator without weights which unit stands where, if that is sure."""
    known = [flows.get(name) for name in node.input]
    units: Units | None = None
    if node.op_type in ALONE and (node.op_type != "Transpose" or _last_stays(node)):
        units = known[0]
    elif node.op_type in WITH_CONSTANT and sum(each is not None for each in known) == 1:
        place = next(i for i, each in enumerate(known) if each is not None)
        units = known[place] if all(n in constants for i, n in enumerate(node.input) if i != place) else None
    elif node.op_type in ("Concat", "FeatureVectorizer") and all(each is not None for each in known):
        units = tuple(unit for each in known for unit in each or ())
    if units is not None:
        flows[node.output[0]] = units


def _last_stays(node: NodeProto) -> bool:
    """Whether a transposition leaves the last axis where it is: another one laid flat has units in another order."""
    order = next((list(each.ints) for each in node.attribute if each.name == "perm"), [])
    return bool(order) and order[-1] == len(order) - 1
