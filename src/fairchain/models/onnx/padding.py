"""Padding of texts: whether a network's answer depends on the number of padding steps.

If every path from the words to the answer leads through recurrent operators that get each text's length, and only their
final states are used, then steps after the longest text of a batch can be left out, which changes only the time. The
analysis is conservative: padding is kept for an operator that is not known to treat every step separately.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

RECURRENT = ("LSTM", "GRU", "RNN")
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
    constants = {tensor.name for tensor in model.graph.initializer}
    walk = _Walk(set(inputs), set(zeros), constants)
    return all(map(walk.passes, model.graph.node)) and output not in walk.timed and output not in walk.sizes


class _Walk:
    """The known facts about the tensors so far.

    These are the tensors with a step for each word, those of them in which padding is 0, constants, sizes, and blanks:
    tensors with equal elements.
    """

    def __init__(self, timed: set[str], masked: set[str], constants: set[str]) -> None:
        self.timed, self.masked, self.constants = timed, masked, constants
        self.sizes: set[str] = set()
        self.blanks: set[str] = set()

    def passes(self, node: NodeProto) -> bool:
        """Process one operator; return False if padding may affect its output."""
        inputs, outputs = [name for name in node.input if name], [name for name in node.output if name]
        if node.op_type in RECURRENT:
            return self._recurrence_passes(node)
        if not any(name in known for name in inputs for known in (self.timed, self.sizes, self.blanks)):
            if all(name in self.constants for name in inputs):
                self.constants.update(outputs)
            return True
        if inputs[0] in self.blanks and self.timed.isdisjoint(inputs):
            self.blanks.update(outputs)
            return node.op_type in ON_BLANKS
        if not self.sizes.isdisjoint(inputs):
            return self._size_passes(node, inputs, outputs)
        if not self.blanks.isdisjoint(inputs):
            return False
        if node.op_type == "Shape":
            self.sizes.update(outputs)
            return True
        if node.op_type == "ReduceSum" and inputs[0] in self.masked:
            return True  # for example the number of words: padding adds zeros
        if node.op_type in ("Cast", "Sign") and inputs[0] in self.masked:
            self.masked.update(outputs)
            self.timed.update(outputs)
            return True
        mixes = node.op_type in ("MatMul", "Gemm") and inputs[0] in self.timed and inputs[1] in self.timed
        # Vectors from a table by words' ids, or another order of the rows; a constant index may count from the end.
        picks = node.op_type == "Gather" and (
            inputs[0] in self.constants if inputs[1] in self.timed else inputs[1] not in self.constants
        )
        self.timed.update(outputs)
        return not mixes and (node.op_type in BY_STEP or picks)

    def _size_passes(self, node: NodeProto, inputs: list[str], outputs: list[str]) -> bool:
        if node.op_type in ON_SIZES and self.timed.isdisjoint(inputs):
            self.sizes.update(outputs)
            return True
        if node.op_type == "ConstantOfShape":
            self.blanks.update(outputs)
            return True
        self.timed.update(outputs)
        return node.op_type in SHAPED and inputs[0] not in self.sizes

    def _recurrence_passes(self, node: NodeProto) -> bool:
        """Return whether padding has no effect after a recurrent operator: with lengths it stops at a text's end."""
        if node.input[0] not in self.timed:
            return False
        lengths = node.input[4] if len(node.input) > 4 else ""
        weights = [name for name in (*node.input[1:4], *node.input[7:]) if name]
        by_steps = any(lengths in known for known in (self.timed, self.sizes, self.blanks))
        if not lengths or by_steps or not all(name in self.constants for name in weights):
            return False
        self.timed.update(name for name in node.output[:1] if name)
        return True
