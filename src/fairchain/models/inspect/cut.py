"""A network cut at one of its tensors: what stands behind it, asked with other activations than its own.

The part behind is a network of its own that takes the tensor as an input, and the network's inputs besides where a
way leads past the tensor. Activations are computed once; each change of them costs only what stands behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.base import check_shape, first_line
from fairchain.models.onnx.decision import Labels, NoDecisionError
from fairchain.models.onnx.file_checks import check_bytes
from fairchain.models.onnx.session import OnnxModel, open_session
from fairchain.models.onnx.time_limit import Watchdog

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

# The numbers of ONNX for the types that a layer may have.
ELEMENTS = {"float32": 1, "float16": 10, "float64": 11}


class Opened:
    """A network made from another one, to be run under the limits of that one.

    Parameters
    ----------
    model, network
        The one that it was made from, and what was made.
    problem
        What to say if it does not run.
    """

    def __init__(self, model: OnnxModel, network: ModelProto, problem: str) -> None:
        part = check_bytes(model.path, network.SerializeToString(), model.limits)
        self._model, self._problem = model, problem
        self._session = open_session(part, model.limits)
        self._watchdog = Watchdog(model.limits.seconds)

    def run(self, feed: dict[str, NDArray[Any]], output: str) -> NDArray[Any]:
        """What the output holds for these inputs."""
        options = self._model._new_options()
        options.log_severity_level = 4
        call = self._watchdog.begin(options)
        try:
            answer: NDArray[Any] = self._session.run([output], feed, options)[0]
        except Exception as error:  # onnxruntime raises a dozen types of its own, all derived from Exception
            raise ModelError(f"{self._model.name}: {self._problem}: {first_line(error)}") from None
        finally:
            self._watchdog.end(call)
        return answer


class Cut:
    """The part of a network behind a tensor.

    Parameters
    ----------
    model
        The network.
    tensor
        Its name in the file; the batch must be its first dimension.
    values
        A few rows of feature values, to see what the tensor looks like.

    `reaches` says whether the decision depends on the tensor at all.
    """

    def __init__(self, model: OnnxModel, tensor: str, values: NDArray[np.floating]) -> None:
        self.model, self.tensor = model, tensor
        shown = model.with_outputs([tensor])
        sample = shown._run_all(shown._feed(values), [tensor])[0]
        if sample.ndim < 1 or len(sample) != len(values) or sample.dtype.name not in ELEMENTS:
            raise ModelError(
                f'{model.name}: tensor "{tensor}" has shape {sample.shape} and type {sample.dtype} for {len(values)} '
                "inputs; only layers of numbers with the batch first can be intervened on"
            )
        self._shape, self._dtype = sample.shape[1:], sample.dtype
        network = model.network.copy()
        kept = behind(network.graph, tensor, model._rule.output)
        read = {name for node in kept for name in _reads(node)}
        self.reaches = tensor in read
        if not self.reaches:
            return
        self._inputs = [node.name for node in network.graph.input if node.name in read and node.name != tensor]
        keep_only(network, kept, read, model._rule.output)
        _add_input(network, tensor, sample)
        self._part = Opened(model, network, f'the part behind "{tensor}" cannot be run')

    def predict(self, hidden: NDArray[np.floating], values: NDArray[np.floating]) -> Labels:
        """The class of each row if the tensor held `hidden`, (rows, units), and all else followed from `values`."""
        feed: dict[str, NDArray[Any]] = {}
        if self._inputs:
            whole = self.model._feed(values)
            feed = {name: whole[name] for name in self._inputs}
        feed[self.tensor] = hidden.astype(self._dtype, copy=False).reshape(len(hidden), *self._shape)
        rule = self.model._rule
        answer = self._part.run(feed, rule.output)
        check_shape(self.model.name, rule, answer, len(hidden))
        try:
            return rule(answer, len(hidden))
        except NoDecisionError as problem:
            raise ModelError(
                f'{self.model.path}: with other activations in "{self.tensor}": {problem}; leave that layer out'
            ) from None


def _reads(node: NodeProto) -> Iterable[str]:
    """Tensors that an operator takes; an empty name is an input that is left out."""
    return (name for name in node.input if name)


def behind(graph: GraphProto, tensor: str, output: str) -> list[NodeProto]:
    """The operators that the output needs if the tensor is given, in the order of the graph."""
    maker = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    needed: set[int] = set()
    pending = [output] if output != tensor else []
    while pending:
        name = pending.pop()
        place = maker.get(name)
        if name == tensor or place is None or place in needed:
            continue
        needed.add(place)
        pending.extend(_reads(graph.node[place]))
    return [graph.node[place] for place in sorted(needed)]


def keep_only(network: ModelProto, kept: list[NodeProto], read: set[str], output: str) -> None:
    """Leave only these operators, what they read, and one output."""
    graph = network.graph
    nodes = [type(node).FromString(node.SerializeToString()) for node in kept]
    del graph.node[:]
    graph.node.extend(nodes)
    for field, used in (
        (graph.initializer, lambda each: each.name in read),
        (graph.sparse_initializer, lambda each: each.values.name in read),
        (graph.input, lambda each: each.name in read),
        (graph.output, lambda each: each.name == output),
        (graph.value_info, lambda _: False),
    ):
        for place in reversed(range(len(field))):
            if not used(field[place]):
                del field[place]


def _add_input(network: ModelProto, tensor: str, sample: NDArray[Any]) -> None:
    """Declare the tensor as an input with a free batch dimension."""
    added = network.graph.input.add()
    added.name = tensor
    added.type.tensor_type.elem_type = ELEMENTS[sample.dtype.name]
    shape = added.type.tensor_type.shape
    shape.dim.add().dim_param = "batch"
    for size in sample.shape[1:]:
        shape.dim.add().dim_value = size
