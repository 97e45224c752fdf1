"""Padding of texts: whether a network's answer depends on the number of padding steps.

If every path from the words to the answer leads through recurrent operators that get each text's length, and only their
final states are used, then steps after the longest text of a batch can be left out, which changes only the time. The
analysis is conservative: padding is kept for an operator that is not known to treat every step separately.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto

RECURRENT = ("LSTM", "GRU", "RNN")
# Kinds of tensors with a step for each word.
TIMED = ("steps", "masked")
# Operators that treat every step separately, whichever axis the steps are on.
BY_STEP = frozenset(
    """
    Add Cast Celu Clip Concat Div Dropout Elu Erf Exp Gelu Gemm HardSigmoid Identity LeakyRelu
    MatMul Mul Neg PRelu Relu Reshape Selu Sigmoid Softplus Softsign Sqrt Squeeze Sub Swish Tanh Transpose
    Unsqueeze
    """.split()  # noqa: SIM905  # a block of names reads better than a list of strings
)
# Operators that may process a size read from a tensor, and those that may receive it.
ON_SIZES = frozenset({"Cast", "Concat", "Gather", "Identity", "Slice", "Squeeze", "Unsqueeze"})
SHAPED = frozenset({"Expand", "Reshape"})
# Operators that may process a tensor with equal elements, so that only its shape can depend on the steps.
ON_BLANKS = frozenset({"Cast", "Expand", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})


def padding_is_idle(model: ModelProto, inputs: Collection[str], zeros: Collection[str], output: str) -> bool:
    """Return whether `output` is the same if final steps that are padding for every row are left out.

    `inputs` are those with a step for each word, and `zeros` those of them in which padding is 0 and no word is
    negative.
    """
    # A tensor is a constant, has a step for each word ("steps"; "masked" if padding is 0 in it), contains a "size", has
    # equal elements ("blank"), or does not depend on the steps ("").
    kinds = dict.fromkeys((tensor.name for tensor in model.graph.initializer), "constant")
    kinds |= dict.fromkeys(inputs, "steps") | dict.fromkeys(zeros, "masked")
    for node in model.graph.node:
        if node.op_type in RECURRENT:
            # It must get the lengths of texts, so that it does not read the padding.
            lengths = node.input[4] if len(node.input) > 4 else ""
            if not lengths or kinds.get(lengths) in (*TIMED, "size", "blank") or kinds.get(node.input[0]) not in TIMED:
                return False
            if any(name and kinds.get(name) != "constant" for name in (*node.input[1:4], *node.input[7:])):
                return False
            # The last states do not depend on the steps.
            kinds |= dict.fromkeys(node.output[:1], "steps")
            continue
        kind = _kind_of_output(node.op_type, [kinds.get(name, "") for name in node.input if name])
        if kind is None:
            return False
        kinds |= dict.fromkeys(node.output, kind)
    return kinds.get(output) not in (*TIMED, "size")


def _kind_of_output(operator: str, given: list[str]) -> str | None:
    """Return the kind of an operator's output, from those of its inputs; None if padding may affect it."""
    timed = [kind in TIMED for kind in given]
    if not any(timed) and "size" not in given and "blank" not in given:
        return "constant" if all(kind == "constant" for kind in given) else ""
    if given[0] == "blank" and not any(timed):
        return "blank" if operator in ON_BLANKS else None
    if "size" in given:
        if operator in ON_SIZES and not any(timed):
            return "size"
        if operator == "ConstantOfShape":
            return "blank"
        return "steps" if operator in SHAPED and given[0] != "size" else None
    if "blank" in given:
        return None
    if operator == "Shape":
        return "size"
    if given[0] == "masked" and operator in ("Cast", "ReduceSum", "Sign"):
        # A sum, for example the number of words, does not change: padding adds zeros.
        return "" if operator == "ReduceSum" else "masked"
    if operator == "Gather":
        # Vectors from a table by words' ids, or another order of the rows; a constant index may count from the end.
        return "steps" if (given[0] == "constant" if timed[1] else given[1] != "constant") else None
    mixes = operator in ("MatMul", "Gemm") and timed[0] and timed[1]
    return "steps" if operator in BY_STEP and not mixes else None
