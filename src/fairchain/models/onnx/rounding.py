"""Rounding that depends on the batch: the networks that may have it, and inputs of a run that are evaluated singly.

Some operators of onnxruntime round the last bit of a number differently at the end of a batch than inside it. A network
can amplify this bit, so that its decision about an input depends on the batch (docs/trust.md, "Rounding that depends on
other inputs"). The graph does not show whether this happens: inputs must be tested.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.base import Model
from fairchain.models.onnx.file_checks import Network

if TYPE_CHECKING:
    from onnx import NodeProto

# Operators that give a number the same bits at every position of a batch: they move numbers, or round to the nearest.
# Max and Min are not among them: they choose between 0 and -0 by position, and a division turns this into an infinity.
SAME_BITS = frozenset(
    """
    Abs Add And ArgMax ArgMin Cast Ceil Clip Concat Constant Div Dropout Equal Expand Flatten Floor Gather Greater
    GreaterOrEqual Identity LeakyRelu Less LessOrEqual Mul Neg Not OneHot Or PRelu Pad Relu Reshape Round Shape Sign
    Slice Split Squeeze Sub Transpose Unsqueeze Where Xor
    """.split()  # noqa: SIM905  # a block of names reads better than a list of strings
)
# Operators whose kernels do so in single precision; tests/models/test_rounding.py measures it.
SAME_BITS_IN_SINGLE = frozenset({"Erf", "Exp", "Gemm", "MatMul", "Sigmoid", "Softmax", "Tanh"})
# Layers that consist of these products and functions, if their weights are constants of the file.
SAME_BITS_RECURRENT = frozenset({"GRU", "LSTM"})
# ONNX codes of the types to which Cast is exact even for numbers that do not fit: float, int32, int64 and bool. A
# number beyond uint32 is converted differently inside a batch than at its end.
EXACT_CASTS = frozenset({1, 6, 7, 9})
# ONNX codes of half, double and bfloat16.
NOT_SINGLE = frozenset({10, 11, 16})
# Number of inputs of a batch that are evaluated singly, and number of batches at the start of a run in which they are;
# later it is one.
ALONE, CHECKED_BATCHES = 16, 64
DIFFERS_ALONE = (
    "{name}: decides an input differently alone than in a batch of {values_count:,}, because it amplifies rounding; "
    "remove operations that amplify it, such as differences of nearly equal numbers"
)


def rounding_may_vary(network: Network) -> bool:
    """Return whether the last bit of an answer may depend on the position of its row in the batch."""
    graph = network.model.graph
    # Weights that are also inputs could be replaced in a call, so the runtime does not pack them when it opens the
    # file.
    replaceable = {each.name for each in graph.input}
    written = {tensor.name: len(tensor.dims) for tensor in graph.initializer if tensor.name not in replaceable}
    if not all(_is_exact(node, written) for node in graph.node):
        return True
    types = {tensor.data_type for tensor in graph.initializer}
    types |= {each.type.tensor_type.elem_type for each in graph.input}
    for node in graph.node:
        types |= {each.t.data_type for each in node.attribute}
        types |= {each.i for each in node.attribute if each.name == "to"}
    return not types.isdisjoint(NOT_SINGLE)


def _is_exact(node: NodeProto, written: Mapping[str, int]) -> bool:
    """Return whether an operator gives every row the same bits at each position of a single-precision batch.

    `written` has the number of axes of each constant tensor of the file. Other weights are multiplied in another order
    for a single row.
    """
    if node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type in SAME_BITS_RECURRENT:
        # Peepholes and other functions were not measured.
        functions = {function for each in node.attribute for function in each.strings}
        known = functions <= {b"Sigmoid", b"Tanh"} and not any(node.input[7:])
        return known and all(written.get(name) == 3 for name in node.input[1:3])
    if node.op_type not in SAME_BITS and node.op_type not in SAME_BITS_IN_SINGLE:
        return False
    if node.op_type == "Cast":
        return all(each.i in EXACT_CASTS for each in node.attribute if each.name == "to")
    if node.op_type in ("Gemm", "MatMul"):
        # Rows times one matrix of weights. For weights times columns, and for several matrices at once, the runtime
        # chooses a kernel by the number of rows, and kernels add in different orders.
        turned = any(each.i for each in node.attribute if each.name == "transA")
        return len(node.input) > 1 and written.get(node.input[1]) in (1, 2) and not turned
    return True


def check_alone(
    model: Model,
    values: NDArray[Any],
    found: NDArray[np.integer],
    batch: int,
    count: int = ALONE,
    words: NDArray[np.uint32] | None = None,
) -> None:
    """Raise a ModelError if one of some inputs gets another decision singly than in its batch.

    They are chosen by the hash of the network and the number of the batch, so the network is fixed before they are. A
    network whose operators all round independently of the batch is not tested. `found` are labels or, (rows, classes),
    the ends of drawn ones.
    """
    if not getattr(model, "rounding_may_vary", False):
        return
    from fairchain.models.base import decide

    random = np.random.Generator(np.random.Philox(int(model.sha256[:16], 16) + batch))
    for row in random.permutation(len(values))[: count if batch < CHECKED_BATCHES else 1]:
        word = None if words is None else words[row : row + 1]
        one = values[row : row + 1]
        alone = model.ends(one) if found.ndim == 2 else decide(model, one, word)
        if not np.array_equal(alone[0], found[row]):
            raise ModelError(DIFFERS_ALONE.format(name=model.name, values_count=len(values)))
