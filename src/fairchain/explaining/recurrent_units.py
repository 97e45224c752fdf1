"""The cells of recurrent layers, as the rest of the network reads them: one vector for each input, after the last step.

Inside a recurrent operator nothing can be intervened on from outside. What leaves it can: the last hidden state, or
what is made of all of them by an operator that keeps units apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models import OnnxModel
from fairchain.models.base import random_inputs
from fairchain.models.inspect.activations import HiddenLayer
from fairchain.models.inspect.recurrent import RecurrentLayer, steps_of
from fairchain.models.onnx.padding import RECURRENT
from fairchain.spec import Spec

if TYPE_CHECKING:
    from onnx import GraphProto

# Operators that move units about, choose among steps or sum up over them, and never mix one unit with another.
KEEPS_UNITS = frozenset(
    """
    Cast Concat Dropout Flatten Gather GatherElements GatherND Identity ReduceMax ReduceMean ReduceSum Reshape Slice
    Split Squeeze Transpose Unsqueeze
    """.split()  # noqa: SIM905  # a block of names reads better than a list of strings
)
FEW = 5


def cell_layers(model: OnnxModel, spec: Spec) -> tuple[HiddenLayer, ...]:
    """For every recurrent layer the tensor that the network goes on with, if it has a row for each input."""
    graph = model.network.model.graph
    found = []
    for layer in steps_of(model):
        tensor = _read_tensor(model, spec, layer, _leaving(graph, layer))
        if tensor is not None:
            found.append(HiddenLayer(layer.name, tensor, layer.operator, layer.units))
    return tuple(found)


def _leaving(graph: GraphProto, layer: RecurrentLayer) -> list[str]:
    """Tensors made from what leaves the operator by nothing but moving, in the order of the graph."""
    operators = [node for node in graph.node if node.op_type in RECURRENT and not node.domain]
    node = operators[int(layer.name.removeprefix(layer.operator.lower())) - 1]
    # The third output is the cell state, which the network may read too, but not in place of the hidden one.
    reached = {name for name in node.output[:2] if name}
    found = []
    for other in graph.node:
        if other.op_type in KEEPS_UNITS and other.input and other.input[0] in reached:
            reached.update(name for name in other.output if name)
            found += [name for name in other.output if name]
    return found


def _read_tensor(model: OnnxModel, spec: Spec, layer: RecurrentLayer, names: Sequence[str]) -> str | None:
    """The first of these tensors that has the layer's units for each input, in the order of the inputs."""
    if not names:
        return None
    # A number of rows that cannot be mistaken for the number of units.
    rows = FEW + (layer.units == FEW)
    people = random_inputs(spec.described, rows).astype(model.dtype)
    shown = model.with_outputs(names)
    together = _tensors(shown, people, names)
    alone = [_tensors(shown, people[row : row + 1], names) for row in range(rows)]
    for place, name in enumerate(names):
        whole, single = together[place], [each[place] for each in alone]
        if whole.shape != (rows, layer.units) or any(each.shape != (1, layer.units) for each in single):
            continue
        # Rows may stand in another order there, for instance by the length of the texts.
        if np.allclose(whole, np.concatenate(single), rtol=1e-3, atol=1e-5):
            return name
    return None


def _tensors(shown: OnnxModel, people: NDArray[Any], names: Sequence[str]) -> list[NDArray[Any]]:
    try:
        return shown._run_all(shown._feed(people), list(names))
    except ModelError:
        # A tensor that cannot be had for one input alone is none that could be intervened on.
        return [np.empty(0) for _ in names]
