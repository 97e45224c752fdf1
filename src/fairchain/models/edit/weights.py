"""The weights of a network: which can be changed, the unit of each, and the file with changed weights.

A network keeps its interface and its operators; only initialisers change. Two preparations may be needed: a tensor that
several operators share is copied for each, and a layer without a bias gets one of zeros. Layouts differ (Gemm has a
transposition flag, recurrent operators stack their gates), so each layer states the axis of its inputs, and whether
they are features or units of an earlier layer. Linear operators, whose weights are attributes, are rewritten as layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.edit.unit_axes import UnitPlaces, Units
from fairchain.models.onnx.feature_encoding import widths
from fairchain.models.onnx.file_checks import attribute
from fairchain.models.onnx.inputs import Feed
from fairchain.models.onnx.session import OnnxModel

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

WeightArray = NDArray[np.floating[Any]]
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
# Operators with changeable weights: the index of the input with the weights and of the one with the bias, if any.
PLACES = {"Gemm": (1, 2), "Conv": (1, 2), "MatMul": (1, None), **dict.fromkeys(GATES, (1, 3))}
# TensorProto.FLOAT and TensorProto.DOUBLE.
FLOATS: dict[int, Any] = {1: np.float32, 11: np.float64}
# The operators of the activations of a linear model, and the operator version for a network that has only such models.
LINEAR_ACTIVATIONS = {b"NONE": "Identity", b"LOGISTIC": "Sigmoid", b"SOFTMAX": "Softmax"}
LINEAR_OPSET = 17
NO_WEIGHTS = (
    "{name}: has no weights that can be changed (those of Gemm, MatMul, Conv, LSTM, GRU and RNN), so it cannot be "
    "repaired"
)


class WeightUnit(NamedTuple):
    """A feature (`layer` is empty and `place` its index in the spec), or a unit of the layer that computes a tensor."""

    layer: str
    place: int


@dataclass(frozen=True)
class WeightBlock:
    """One tensor of weights in a layer.

    `source` is multiplied with it along `axis`, and `incoming` has the unit of each entry there (None if unknown). Its
    contribution to the layer is multiplied by `gain`, and `bias`, from index `shift` on, is added to the same sums
    (None if the layer has no changeable bias).
    """

    tensor: str
    operator: str
    source: str
    output: str
    axis: int
    incoming: Units | None
    bias: str | None
    shift: int = 0
    gain: float = 1.0

    def entries(self, unit: WeightUnit) -> list[int]:
        """Return the entries of this unit; empty if there are none."""
        return [place for place, each in enumerate(self.incoming or ()) if each == unit]

    def columns(self, values: WeightArray, entries: Sequence[int]) -> WeightArray:
        """Return the weights of these entries, as (entries, ...)."""
        return np.moveaxis(values, self.axis, 0)[list(entries)]


class Weights:
    """The changeable weights of a network.

    Raises a ModelError if it has none: a tree, a linear model of scikit-learn, weights that are computed.
    """

    def __init__(self, model: OnnxModel) -> None:
        self._model = model
        draft = _Draft(model, None)
        self.blocks = tuple(draft.blocks)
        if not self.blocks:
            raise ModelError(NO_WEIGHTS.format(name=model.name))
        self._flows = draft.flows
        self.values: dict[str, WeightArray] = draft.values()
        for array in self.values.values():
            array.flags.writeable = False

    def unit(self, tensor: str, index: int) -> WeightUnit | None:
        """Return the unit of one entry of a tensor; a tensor after an activation has the units of the one before it."""
        units = self._flows.get(tensor)
        return units[index] if units is not None and index < len(units) else None

    def outgoing(self, unit: WeightUnit) -> list[tuple[WeightBlock, list[int]]]:
        """Return the blocks that read a unit, with its entries; a recurrent cell is also read by its own layer."""
        found = ((block, block.entries(unit)) for block in self.blocks)
        return [(block, entries) for block, entries in found if entries]

    def operator_of(self, tensor: str) -> str:
        """Return the operator of a tensor's layer."""
        return next(block.operator for block in self.blocks if tensor in (block.tensor, block.bias))

    def network(self, changes: Mapping[str, WeightArray]) -> bytes:
        """Return a complete ONNX file with these values; everything else is unchanged."""
        return _Draft(self._model, set(changes)).written(changes).SerializeToString()  # type: ignore[no-any-return]

    def overridable(self, tensors: Collection[str]) -> bytes:
        """Return the same network as a file in which these tensors can be given with each run."""
        from onnx import helper

        network = _Draft(self._model, set(tensors)).written({})
        # Before this version of the format every initialiser was a constant.
        network.ir_version = max(network.ir_version, 4)
        listed = {value.name for value in network.graph.input}
        for tensor in network.graph.initializer:
            if tensor.name in tensors and tensor.name not in listed:
                network.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        return network.SerializeToString()  # type: ignore[no-any-return]


class _Draft:
    """One parsed copy of a file, with separate weights for each layer.

    `wanted` are the tensors to prepare; None for all. Names do not depend on it.
    """

    def __init__(self, model: OnnxModel, wanted: set[str] | None) -> None:
        import onnx  # noqa: F401  # with the whole package its own message types are used

        self._network: ModelProto = model.network.copy()
        self._graph: GraphProto = self._network.graph
        self._wanted = wanted
        self._initial = {tensor.name: tensor for tensor in self._graph.initializer}
        for node in list(self._graph.node):
            # A weight in a Constant node, or behind Identity, counts as an initialiser.
            value = attribute(node, "value")
            if node.op_type == "Constant" and value is not None and value.data_type in FLOATS:
                name = node.output[0]
                copy = type(value)()
                copy.CopyFrom(value)
                copy.name = name
                self._initial[name] = copy
                if wanted is None or name in wanted:
                    self._initial[name] = self._added(copy)
                    self._graph.node.remove(node)
            elif node.op_type == "Identity" and node.input[0] in self._initial:
                self._initial[node.output[0]] = self._initial[node.input[0]]
        self._uses = Counter(name for node in self._graph.node for name in node.input)
        self._uses.update(value.name for value in self._graph.output)
        self._fresh: dict[str, WeightArray] = {}
        self.blocks: list[WeightBlock] = []
        self.flows: dict[str, Units] = {}
        if isinstance(model.inputs, Feed):  # a text has words instead of features
            spans = widths(model.inputs.features)
            for slot in model.inputs.slots:
                if len(slot.shape) == 1:
                    features = (WeightUnit("", place) for place in slot.features for _ in range(spans[place]))
                    self.flows[slot.name] = tuple(features)
        self._places = UnitPlaces(self.flows, model.followed())
        for node in list(self._graph.node):
            if not self._read(node):
                self._places.pass_on(node, self._initial)

    def values(self) -> dict[str, WeightArray]:
        """Return every changeable tensor of weights or biases."""
        names = {name for block in self.blocks for name in (block.tensor, block.bias) if name}
        return {name: self._array(name) for name in sorted(names)}

    def written(self, changes: Mapping[str, WeightArray]) -> ModelProto:
        """Return the network with these values."""
        from onnx import numpy_helper

        for name, array in changes.items():
            old = self._array(name)
            if array.shape != old.shape:
                raise ValueError(f'tensor "{name}" has shape {old.shape}, not {array.shape}')
            self._initial[name].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array, old.dtype), name))
        return self._network

    def _array(self, name: str) -> WeightArray:
        from onnx import numpy_helper

        if name in self._fresh:
            return self._fresh[name].copy()
        return np.array(numpy_helper.to_array(self._initial[name]))

    def _tensor(self, node: NodeProto, place: int | None) -> TensorProto | None:
        """Return the initialiser at an input of an operator, if it has changeable numbers."""
        if place is None or place >= len(node.input):
            return None
        tensor = self._initial.get(node.input[place])
        return tensor if tensor is not None and tensor.data_type in FLOATS else None

    def _read(self, node: NodeProto) -> bool:
        """Read the weights of one operator; return False if it has none."""
        place, bias = PLACES.get(node.op_type, (0, None))
        tensor = self._tensor(node, place)
        if not place or node.domain not in ("", "ai.onnx") or tensor is None or node.input[0] in self._initial:
            return False
        shape = tuple(tensor.dims)
        if node.op_type in GATES:
            self._read_recurrent(node, shape, bias or 0)
            return True
        if len(shape) < 2 or (node.op_type in ("Gemm", "MatMul") and len(shape) != 2) or attribute(node, "transA"):
            return False
        turned = node.op_type == "Conv" or bool(attribute(node, "transB"))
        beta = attribute(node, "beta", 1.0)
        width = shape[0] if turned else shape[1]
        # If a bias is inserted after it, the operator's own output is renamed.
        output = node.output[0]
        own = None
        if node.op_type == "MatMul":
            own = self._following_bias(node, width)
        elif beta:
            own = self._own_bias(node, bias or 0, (width,), tensor.data_type)
        name = self._own(node, place, output)
        gain = attribute(node, "alpha", 1.0) / beta if node.op_type == "Gemm" and beta else 1.0
        axis = 1 if turned else 0
        grouped = attribute(node, "group", 1) != 1
        incoming = None if grouped else self._places.incoming(node.input[0], shape[axis], node.op_type)
        self.blocks.append(
            WeightBlock(name, node.op_type, node.input[0], output, axis, incoming, own, gain=float(gain))
        )
        self.flows[output] = tuple(WeightUnit(output, j) for j in range(width))
        if node.op_type == "Conv":
            self._places.channels.update(self.flows[output])
        return True

    def _read_recurrent(self, node: NodeProto, shape: tuple[int, ...], bias: int) -> None:
        """Read W for the inputs, R for the cells of the previous step, and B with the biases of both."""
        directions, stacked, width = shape
        cells = stacked // GATES[node.op_type]
        kind = self._initial[node.input[1]].data_type
        own = self._own_bias(node, bias, (directions, 2 * stacked), kind)
        output = next(name for name in node.output if name)
        units = tuple(WeightUnit(output, j) for j in range(directions * cells))
        incoming = self._places.incoming(node.input[0], width, node.op_type)
        self.blocks.append(
            WeightBlock(self._own(node, 1, output), node.op_type, node.input[0], output, 2, incoming, own)
        )
        if self._tensor(node, 2) is not None:
            # With two directions an entry is a different cell in each of them.
            back = units if directions == 1 else None
            self.blocks.append(
                WeightBlock(self._own(node, 2, output), node.op_type, output, output, 2, back, own, shift=stacked)
            )
        for name in node.output:
            if name:
                self.flows[name] = units

    def _own(self, node: NodeProto, place: int, output: str) -> str:
        """Give an operator its own copy of the initialiser at this input, named after its output; return the name."""
        name: str = node.input[place]
        tensor = self._initial[name]
        if self._uses[name] == 1 and tensor.name == name:
            return name
        own = self._name(f"{name}_of_{output}")
        self._fresh[own] = self._array(name)
        if self._wanted is None or own in self._wanted:
            copy = self._added(tensor)
            copy.name = own
            self._initial[own] = copy
            node.input[place] = own
        return own

    def _own_bias(self, node: NodeProto, place: int, shape: tuple[int, ...], kind: int) -> str | None:
        """Return the bias of an operator as a separate vector, zeros if there is none; None if it is computed."""
        values: WeightArray = np.zeros(shape, FLOATS[kind])
        if place < len(node.input) and node.input[place]:
            tensor = self._tensor(node, place)
            if tensor is None:
                return None
            if tuple(tensor.dims) in (shape, (1, *shape)):
                return self._own(node, place, node.output[0])
            if np.prod(tensor.dims) != 1:
                return None
            values = np.broadcast_to(self._array(tensor.name).reshape(()), shape)
        own = self._name(f"bias_of_{node.output[0]}")
        self._fresh[own] = np.array(values)
        if self._wanted is None or own in self._wanted:
            node.input.extend([""] * (place + 1 - len(node.input)))
            node.input[place] = self._initialiser(own, values)
        return own

    def _following_bias(self, node: NodeProto, width: int) -> str | None:
        """Return the bias of a MatMul, which is in the following Add; it is inserted if missing."""
        output = node.output[0]
        users = [each for each in self._graph.node if output in each.input]
        if len(users) == 1 and users[0].op_type == "Add" and self._uses[output] == 1:
            place = 1 - list(users[0].input).index(output)
            tensor = self._tensor(users[0], place)
            if tensor is not None and tuple(tensor.dims) in ((width,), (1, width)):
                return self._own(users[0], place, users[0].output[0])
        kind = self._initial[node.input[1]].data_type
        own, values = self._name(f"bias_of_{output}"), np.zeros(width, FLOATS[kind])
        self._fresh[own] = values
        if self._wanted is None or own in self._wanted:
            from onnx import helper

            inner = self._name(f"{output}_without_bias")
            added = helper.make_node("Add", [inner, self._initialiser(own, values)], [output])
            self._graph.node.insert(list(self._graph.node).index(node) + 1, added)
            node.output[0] = inner
            self._initial.pop(output, None)
        return own

    def _initialiser(self, name: str, values: WeightArray) -> str:
        from onnx import numpy_helper

        self._initial[name] = self._added(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def _added(self, tensor: TensorProto) -> TensorProto:
        """Add an initialiser; before version 4 of the format each also had to be an input of the network."""
        self._network.ir_version = max(self._network.ir_version, 4)
        self._graph.initializer.append(tensor)
        return self._graph.initializer[-1]  # type: ignore[no-any-return]

    def _name(self, name: str) -> str:
        """Return a name that does not occur in the file."""
        taken = {*self._initial, *self._fresh, *(name for node in self._graph.node for name in node.output)}
        taken |= {value.name for value in self._graph.input}
        while name in taken:
            name += "_"
        return name


def with_dense_layers(model: OnnxModel) -> OnnxModel:
    """Return the same network with a Gemm instead of each linear operator; the network itself if it has none.

    `LinearClassifier` and `LinearRegressor` of ONNX have their coefficients as attributes. The equivalent Gemm,
    activation and argmax have them as tensors, like any layer.
    """
    from onnx import helper

    network = model.network.copy()
    changed = False
    for node in list(network.graph.node):
        made = _dense(network, node) if node.op_type in ("LinearClassifier", "LinearRegressor") else []
        if made:
            place = list(network.graph.node).index(node)
            network.graph.node.remove(node)
            for offset, each in enumerate(made):
                network.graph.node.insert(place + offset, each)
            changed = True
    if not changed:
        return model
    if not any(each.domain in ("", "ai.onnx") for each in network.opset_import):
        network.opset_import.append(helper.make_opsetid("", LINEAR_OPSET))
    return model.with_graph(network)


def _dense(network: ModelProto, node: NodeProto) -> list[NodeProto]:
    """Return operators that are equivalent to a linear one; none for an unsupported form."""
    from onnx import helper, numpy_helper

    activation = LINEAR_ACTIVATIONS.get(attribute(node, "post_transform", b"NONE"))
    coefficients = np.array(attribute(node, "coefficients", []), np.float32)
    intercepts = np.array(attribute(node, "intercepts", []), np.float32)
    labels: list[Any] = list(attribute(node, "classlabels_ints", []) or attribute(node, "classlabels_strings", []))
    regressor = node.op_type == "LinearRegressor"
    outputs = int(attribute(node, "targets", 1)) if regressor else len(labels)
    if activation is None or not outputs or len(coefficients) % outputs or len(intercepts) not in (0, outputs):
        return []
    if not regressor and (outputs < 2 or len(intercepts) != outputs):
        return []
    scores = node.output[0] if regressor else node.output[1]
    base = scores or node.output[0]
    single, raw = f"{base}_single", f"{base}_sums"
    tensors = [
        numpy_helper.from_array(coefficients.reshape(outputs, -1), f"{base}_weights"),
        numpy_helper.from_array(intercepts if len(intercepts) else np.zeros(outputs, np.float32), f"{base}_bias"),
    ]
    made = [
        helper.make_node("Cast", [node.input[0]], [single], to=1),
        helper.make_node("Gemm", [single, f"{base}_weights", f"{base}_bias"], [raw], transB=1),
    ]
    if scores:
        axis: dict[str, Any] = {"axis": 1} if activation == "Softmax" else {}
        made.append(helper.make_node(activation, [raw], [scores], **axis))
    if not regressor:
        kind = 8 if isinstance(labels[0], bytes) else 7
        tensors.append(helper.make_tensor(f"{base}_labels", kind, [outputs], labels))
        made.append(helper.make_node("ArgMax", [raw], [f"{base}_largest"], axis=1, keepdims=0))
        made.append(helper.make_node("Gather", [f"{base}_labels", f"{base}_largest"], [node.output[0]], axis=0))
    network.ir_version = max(network.ir_version, 4)
    network.graph.initializer.extend(tensors)
    return made
