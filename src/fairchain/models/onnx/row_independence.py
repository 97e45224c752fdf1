"""Proof from the graph that a network treats every row independently.

Each tensor is traced from the inputs to the output that decides: the position of its batch axis, and its integers if
they describe a shape (`tensor_facts`). A tensor is *tainted* as soon as it may depend on more than its own row: an
operator works across the batch axis, the number of rows or a row's position becomes a value, or the operator has no
rule (`operator_rules`). The network is refused if the output that decides is tainted. Sizes that only build the shape
for Reshape or Expand, and sequences that are sorted by length and restored, are supported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from fairchain.errors import ModelError
from fairchain.models.onnx.operator_rules import RULES
from fairchain.models.onnx.tensor_facts import (
    BATCH,
    Followed,
    Operator,
    PassedOnError,
    TaintedError,
    axis_of,
    first_taint,
    has_rows,
    written_constant,
)

if TYPE_CHECKING:
    from onnx import NodeProto

    from fairchain.models.onnx.file_checks import Network


# Operators whose inputs from this index on are the same for all rows: weights, limits, lists of sizes or positions.
PARAMETERS = {"ConstantOfShape": 0, "Range": 0} | dict.fromkeys(
    """
    AveragePool BatchNormalization Clip Conv ConvTranspose DepthToSpace Dropout Expand GlobalAveragePool GlobalMaxPool
    GroupNormalization InstanceNormalization LRN LpPool MaxPool OneHot Pad QLinearConv Reshape Slice SpaceToDepth Split
    Tile
    """.split(),  # noqa: SIM905  # a block of names reads better than a list of strings
    1,
)


def check_row_independence(
    network: Network, inputs: Mapping[str, Sequence[int | str | None]], output: str, batch: int | None = None
) -> None:
    """Refuse a network whose answer for a row may depend on the other rows of the batch, with the operator's name.

    `inputs` are the shapes of its inputs, in which None marks the batch axis and a text another free axis; `output` is
    the tensor that decides, and `batch` the fixed batch size, if any.
    """
    found = follow(network, inputs, batch).get(output, Followed(None, taint="it does not depend on the inputs"))
    taint = found.taint
    if not taint and (found.shape[:1] != ((BATCH,),) or found.order not in ("", None)):
        taint = "its rows are not those of the input, in their order"
    if taint:
        raise ModelError(
            f"{network.path}: the answer for one input depends on the others in its batch: {taint}; export the "
            "network for inference, with a free batch dimension first and no operator across it"
        )


def follow(
    network: Network, inputs: Mapping[str, Sequence[int | str | None]], batch: int | None = None
) -> dict[str, Followed]:
    """Return the known facts about every tensor of a network; parameters as in `check_row_independence`."""
    graph = network.model.graph
    known = {tensor.name: written_constant(tensor) for tensor in graph.initializer}
    known |= {each.values.name: Followed(tuple(map(axis_of, each.dims))) for each in graph.sparse_initializer}
    for name, shape in inputs.items():
        known[name] = Followed(tuple(axis_of(BATCH if size is None else size) for size in shape), order="")
    _Walk(network, batch).run(graph.node, known, {})
    return known


class _Walk:
    """A pass over the operators of a network, including functions."""

    def __init__(self, network: Network, batch: int | None) -> None:
        versions = network.model.opset_import
        self._opset = next((each.version for each in versions if each.domain in ("", "ai.onnx")), 1)
        self._batch, self._unused = batch, count(1)
        self._functions = {(f.domain, f.name, f.overload): f for f in network.model.functions}

    def run(self, nodes: Iterable[NodeProto], known: dict[str, Followed], given: Mapping[str, Any]) -> None:
        """Process these operators; `given` are the attributes of the enclosing function."""
        for node in nodes:
            inputs = [known.get(name) if name else None for name in node.input]
            attributes = {
                each.name: given.get(each.ref_attr_name) if each.ref_attr_name else each for each in node.attribute
            }
            attributes = {name: each for name, each in attributes.items() if each is not None}
            function = self._functions.get((node.domain, node.op_type, node.overload))
            if function is None:
                made = self._made(node, inputs, attributes)
            else:
                defaults = {each.name: each for each in function.attribute_proto}
                inner = {name: each for name, each in zip(function.input, inputs, strict=False) if each is not None}
                self.run(function.node, inner, defaults | attributes)
                lost = Followed(None, taint=f"function {function.name} has an output that nothing makes")
                made = [inner.get(name, lost) for name in function.output]
            known.update((name, each) for name, each in zip(node.output, made, strict=False) if name)

    def _made(self, node: NodeProto, inputs: list[Followed | None], attributes: dict[str, Any]) -> list[Followed]:
        """Return the known facts about the outputs of an operator."""
        label = f'operator {node.op_type} "{node.name}"' if node.name else f"operator {node.op_type}"
        outputs = max(1, len(node.output))
        try:
            if any(each is None for name, each in zip(node.input, inputs, strict=True) if name):
                raise TaintedError("reads a tensor that nothing makes")
            if any(has_rows(each) for each in inputs[PARAMETERS.get(node.op_type, len(inputs)) :]):
                raise TaintedError("has parameters that differ between rows")
            if node.op_type in RULES:
                shared = self._batch, self._opset, self._unused
                found = RULES[node.op_type](Operator(node.op_type, inputs, outputs, attributes, *shared))
                made = found if isinstance(found, list) else [found]
            elif any(map(has_rows, inputs)) and not first_taint(inputs):
                raise TaintedError("is not known to treat each row independently")
            else:
                made = [Followed(None, taint=first_taint(inputs))]
        except PassedOnError as reason:
            made = [Followed(None, taint=str(reason))]
        except TaintedError as reason:
            made = [Followed(None, taint=f"{label} {reason}")]
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            made = [Followed(None, taint=f"{label} does not fit its inputs")]
        bits = min((each.bits for each in inputs if each is not None), default=63)
        made = [each.within_bits(min(bits, each.bits)) for each in made]
        return [made[min(place, len(made) - 1)] for place in range(outputs)]
