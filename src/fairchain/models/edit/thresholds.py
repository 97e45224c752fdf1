"""A network with changed decision thresholds: the same scores, and a shift of the output that decides.

The network keeps its inputs and its output, and the spec's decision is unchanged. With a threshold for each group it
also reads the protected features: if it did not before, it gets an input for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from fairchain.errors import ModelError
from fairchain.models.base import random_inputs
from fairchain.models.onnx.feature_encoding import encode_feature, is_plain, widths, words
from fairchain.models.onnx.inputs import Feed
from fairchain.models.onnx.session import OnnxModel
from fairchain.spec import CategoryFeature, Domain, Feature, Group, IntegerFeature, RealFeature, Spec

if TYPE_CHECKING:
    from onnx import ModelProto

# Operators that only pass a label on, with the input of the label.
CARRIES = {"Cast": 0, "Identity": 0, "Reshape": 0, "Squeeze": 0, "LabelEncoder": 0, "ArrayFeatureExtractor": 1}
CARRIES |= {"Gather": 1, "Flatten": 0, "Unsqueeze": 0}
# Operators with two outputs: labels and their scores.
CLASSIFIERS = frozenset({"TreeEnsembleClassifier", "LinearClassifier", "SVMClassifier"})
# The ONNX codes of number types; 7 is an integer, 8 a text.
NUMBER_TYPES = {1: np.float32, 11: np.float64, 10: np.float16}
GROUP_NOT_VISIBLE = (
    '{name}: the network\'s input for "{feature_name}" does not determine the group; use one threshold for all: '
    'change = "threshold"'
)


@dataclass(frozen=True)
class ScoreTensor:
    """The scores behind a network's labels, (rows, 2); `difference` if both columns count, otherwise the second."""

    name: str
    difference: bool


def score_tensors(model: OnnxModel) -> list[str]:
    """Return tensors that may contain the scores behind the label that a network returns, the likeliest first."""
    network, label = model.network, model.decision.output
    found = [output.name for output in network.model.graph.output if output.name != label]
    at = label
    for _ in range(20):
        node = network.makers.get(at)
        if node is None:
            break
        if node.op_type == "ArgMax":
            found.insert(0, node.input[0])
            break
        if node.op_type in CLASSIFIERS and len(node.output) > 1 and node.output[1]:
            found.insert(0, node.output[1])
            break
        if node.op_type not in CARRIES or CARRIES[node.op_type] >= len(node.input):
            break
        at = node.input[CARRIES[node.op_type]]
    return list(dict.fromkeys(found))


def showing_scores(model: OnnxModel, spec: Spec, tensor: str) -> OnnxModel:
    """Return the network with two columns of scores as its output; a ModelError if the tensor does not contain them."""
    from onnx import helper

    shown = replace(spec, model=replace(spec.model, output=tensor, decision="argmax", codes=None))
    problem: ModelError | None = None
    # The file does not state the types of inner tensors.
    for kind in (1, 11):
        network = model.network.copy()
        if tensor not in {output.name for output in network.graph.output}:
            network.graph.output.append(helper.make_tensor_value_info(tensor, kind, ["N", "labels"]))
        try:
            return OnnxModel.from_bytes(network.SerializeToString(), model.name, shown, model.limits)
        except ModelError as error:
            problem = error
    assert problem is not None
    raise problem


def reading_groups(spec: Spec) -> Spec:
    """Return the spec of a network that reads the protected features, even if the original does not."""
    protected = spec.protected
    described = tuple(
        replace(each, model_input=True) if each.name in protected and not each.model_input else each  # type: ignore[union-attr]
        for each in spec.described
    )
    return replace(spec, described=described)


def with_thresholds(
    model: OnnxModel,
    spec: Spec,
    *,
    cut: float,
    thresholds: Sequence[float],
    groups: Sequence[Group] = (),
    scores: ScoreTensor | None = None,
    doubled: bool = False,
) -> bytes:
    """Return the network with one threshold for all rows, or with one for each of some groups.

    Parameters
    ----------
    model, spec
        The network, and the spec with which it was loaded.
    cut
        The original threshold; rows in no group keep it.
    thresholds, groups
        The thresholds of these groups, which share no value; without groups one threshold for all rows.
    scores
        The scores behind the labels, for a network that returns labels.
    doubled
        For a network with two columns of probabilities: thresholds apply to the second one.
    """
    rank = model.scores(random_inputs(spec.described, 2).astype(model.dtype)).ndim
    if rank > 2:
        raise ModelError(f'{model.name}: output "{model.decision.output}" has {rank} axes; export it with one or two')
    draft = _ThresholdGraph(model)
    threshold = draft.thresholds(spec, groups, thresholds, cut)
    if scores is not None:
        draft.decide(scores, threshold)
    elif model.decision.kind == "argmax":
        draft.shift_first_column(threshold, doubled=doubled)
    else:
        draft.shift(threshold, cut, rank)
    return bytes(draft.network.SerializeToString(deterministic=True))


class _ThresholdGraph:
    """The graph of a network under construction; its output is renamed, so the old name is free."""

    def __init__(self, model: OnnxModel) -> None:
        import onnx  # noqa: F401  # with the whole package its own message types are used

        self._model = model
        self.network: ModelProto = model.network.copy()
        self._graph = self.network.graph
        self._taken = {name for node in self._graph.node for name in (*node.input, *node.output)}
        self._taken |= {each.name for each in (*self._graph.input, *self._graph.initializer, *self._graph.output)}
        self._result = model.decision.output
        self._inner = self._renamed(self._result)
        kinds = {each.name: each.type.tensor_type.elem_type for each in self._graph.output}
        self._kind = kinds[self._result] if kinds.get(self._result) in NUMBER_TYPES else 1

    def _renamed(self, tensor: str) -> str:
        """Rename a tensor in all operators, so that its name can be used again."""
        name = self._name(f"{tensor}_before_repair")
        for node in self._graph.node:
            node.output[:] = [name if each == tensor else each for each in node.output]
            node.input[:] = [name if each == tensor else each for each in node.input]
        return name

    def _name(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def _constant(self, values: Any, dtype: Any = None, name: str = "repair_constant") -> str:
        """Add a constant, by default of the type of the scores."""
        from onnx import numpy_helper

        array = np.array(values, dtype or NUMBER_TYPES[self._kind])
        self._graph.initializer.append(numpy_helper.from_array(array, self._name(name)))
        return str(self._graph.initializer[-1].name)

    def _node(self, operator: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        name = out or self._name(f"repair_{operator.lower()}")
        self._graph.node.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def thresholds(self, spec: Spec, groups: Sequence[Group], thresholds: Sequence[float], cut: float) -> str:
        """Return a tensor with the threshold of each row, (rows, 1) or a single one."""
        if not groups:
            return self._constant([[thresholds[0]]])
        columns = self._protected_columns(spec)
        total = self._constant([[cut]])
        for group, threshold in zip(groups, thresholds, strict=True):
            member = ""
            for (feature, column, dtype), domain in zip(columns, group.domains, strict=True):
                inside = self._inside(feature, column, dtype, domain)
                member = self._node("Mul", member, inside) if member else inside
            total = self._node("Add", total, self._node("Mul", member, self._constant(threshold - cut)))
        return total

    def shift(self, threshold: str, cut: float, rank: int) -> None:
        """Subtract the change of each row's threshold from a single column of scores."""
        moved = self._node("Sub", threshold, self._constant(cut))
        if rank == 1:
            moved = self._node("Reshape", moved, self._constant([-1], np.int64))
        self._node("Sub", self._inner, moved, out=self._result)

    def shift_first_column(self, threshold: str, *, doubled: bool) -> None:
        """Add the threshold of each row to the first of two columns; the larger column determines the label."""
        if doubled:
            # A probability p is above t if and only if p > (1 - p) + (2 t - 1).
            twice = self._node("Mul", threshold, self._constant(2.0))
            threshold = self._node("Sub", twice, self._constant(1.0))
        both = self._node("Mul", threshold, self._constant([[1.0, 0.0]]))
        self._node("Add", self._inner, both, out=self._result)

    def decide(self, scores: ScoreTensor, threshold: str) -> None:
        """Decide the label from scores inside the network."""
        name = self._inner if scores.name == self._result else scores.name
        second = self._node("Gather", name, self._constant([1], np.int64), axis=1)
        if scores.difference:
            second = self._node("Sub", second, self._node("Gather", name, self._constant([0], np.int64), axis=1))
        above = self._node("Greater", self._node("Cast", second, to=self._kind), threshold)
        flat = self._node("Reshape", self._node("Cast", above, to=7), self._constant([-1], np.int64))
        codes = self._model.decision.codes or (0, 1)
        texts = isinstance(codes[0], str)
        labels = self._constant(codes, object, "repair_labels") if texts else self._constant(codes, np.int64)
        number = self._node("Gather", labels, flat, axis=0)
        result = next(each for each in self._graph.output if each.name == self._result).type.tensor_type
        # Its shape may have had a second axis.
        result.ClearField("shape")
        result.shape.dim.add().dim_param = "N"
        if texts:
            self._node("Identity", number, out=self._result)
        else:
            self._node("Cast", number, out=self._result, to=result.elem_type)

    def _protected_columns(self, spec: Spec) -> list[tuple[Feature, str, Any]]:
        """Return for each protected feature the tensor with its columns, (rows, width), and their number type."""
        from onnx import helper

        feed = self._model.inputs
        if not isinstance(feed, Feed) or any(len(slot.shape) != 1 for slot in feed.slots):
            raise ModelError(
                f"{self._model.name}: texts and series do not contain the group; use one threshold for all: change "
                '= "threshold"'
            )
        features, names = reading_groups(spec).features, [each.name for each in spec.features]
        protected = [names.index(name) for name in spec.protected]
        found: list[tuple[Feature, str, Any]] = []
        if len(feed.slots) == 1 and len(feed.slots[0].features) == sum(each.model_input for each in spec.features):
            slot, starts = feed.slots[0], np.cumsum([0, *widths(features)])
            if not all(spec.features[place].model_input for place in protected):
                # The input gets columns for the protected features too, which only the thresholds read.
                spans = widths(features)
                kept = np.flatnonzero(np.repeat([feature.model_input for feature in spec.features], spans))
                inner = self._renamed(slot.name)
                first = helper.make_node("Gather", [slot.name, self._constant(kept, np.int64)], [inner], axis=1)
                self._graph.node.insert(0, first)
                shape = next(each for each in self._graph.input if each.name == slot.name).type.tensor_type.shape
                del shape.dim[1:]
                shape.dim.add().dim_value = sum(spans)
            for place in protected:
                columns = self._constant(range(starts[place], starts[place + 1]), np.int64)
                found.append((features[place], self._node("Gather", slot.name, columns, axis=1), slot.dtype))
            return found
        slots = {place: slot for slot in feed.slots for place in slot.features}
        for place in protected:
            feature = features[place]
            if place in slots:
                found.append((feature, slots[place].name, slots[place].dtype))
                continue
            given = self._name(feature.input or feature.name)
            if given != (feature.input or feature.name):
                raise ModelError(
                    f'{self._model.name}: needs an input "{feature.name}", and already has a tensor of that name; '
                    'choose another name: input = "..." in its [[feature]]'
                )
            self._graph.input.append(helper.make_tensor_value_info(given, 1, ["N", widths([feature])[0]]))
            found.append((feature, given, np.float32))
        return found

    def _inside(self, feature: Feature, column: str, dtype: Any, domain: Domain) -> str:
        """Return (rows, 1): 1 if the feature belongs to the domain, otherwise 0."""
        if dtype is np.object_:
            from onnx import helper

            assert isinstance(feature, CategoryFeature)
            keys = [str(word) for place, word in enumerate(words(feature)) if domain.contains(place)]
            table = {"keys_strings": keys, "values_floats": [1.0] * len(keys), "default_float": 0.0}
            member = self._name("repair_member")
            self._node("LabelEncoder", column, out=member, domain="ai.onnx.ml", **table)
            if not any(each.domain == "ai.onnx.ml" for each in self.network.opset_import):
                self.network.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
            return self._node("Cast", member, to=self._kind)
        number = self._node("Cast", column, to=self._kind)
        if feature.one_hot:
            if not isinstance(feature, CategoryFeature):
                raise self._unreadable(feature)
            weights = [[float(domain.contains(place))] for place in range(len(feature.values))]
            return self._node("MatMul", number, self._constant(weights))

        def encoded(value: float) -> str:
            return self._constant(float(encode_feature(feature, np.array([value], np.float64))[0, 0].astype(dtype)))

        if isinstance(feature, CategoryFeature) or domain.points:
            points = domain.points or tuple(range(int(domain.low), int(domain.high) + 1))
            # No other value may have the same network input as a value of the group.
            if isinstance(feature, CategoryFeature):
                codes = feature.codes or tuple(range(len(feature.values)))
                own = {codes[int(point)] for point in points}
                if any(code in own for place, code in enumerate(codes) if place not in points):
                    raise self._unreadable(feature)
            elif not is_plain(feature):
                raise self._unreadable(feature)
            members = [
                self._node("Cast", self._node("Equal", number, encoded(point)), to=self._kind) for point in points
            ]
            return reduce(lambda total, member: self._node("Add", total, member), members)
        self._must_keep_ends(feature, domain)
        below = self._node("Less", number, encoded(domain.low))
        above = self._node("Less" if domain.open_high else "Greater", number, encoded(domain.high))
        left, right = (self._node("Cast", each, to=self._kind) for each in (below, above))
        one = self._constant(1.0)
        right = right if domain.open_high else self._node("Sub", one, right)
        return self._node("Mul", self._node("Sub", one, left), right)

    def _must_keep_ends(self, feature: Feature, domain: Domain) -> None:
        """Refuse a range whose ends are not visible in the network's inputs, for example ages in steps of ten years."""
        if isinstance(feature, RealFeature) and (feature.step is not None or feature.bins is not None):
            raise self._unreadable(feature)
        if isinstance(feature, IntegerFeature):
            for inside, outside in ((domain.low, domain.low - 1), (domain.high, domain.high + 1)):
                if not feature.low <= outside <= feature.high:
                    continue
                one, other = encode_feature(feature, np.array([inside, outside], np.float64))[:, 0]
                if one == other:
                    raise self._unreadable(feature)

    def _unreadable(self, feature: Feature) -> ModelError:
        return ModelError(GROUP_NOT_VISIBLE.format(name=self._model.name, feature_name=feature.name))
