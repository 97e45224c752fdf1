"""The units that are explained: features that are not protected, and the neurons of hidden layers.

A unit has states for the paper's measure, fitted on the pilot and then frozen, and an intervention for ours: it is
held at one value, or gets the value that it has for somebody else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.discretize import Discretizer
from fairchain.chain.state_units import StateRequest, StateUnit, fit_units, parse_request
from fairchain.errors import ModelError
from fairchain.explaining.context import EffectContext
from fairchain.explaining.recurrent_units import cell_layers
from fairchain.explaining.result import INPUTS, Kind, Method
from fairchain.models.inspect.activations import HiddenLayer, layers_of
from fairchain.models.onnx.padding import RECURRENT
from fairchain.spec import CategoryFeature, IntegerFeature, Marginals, RealFeature, Spec, Uniform, domain_of

Choice = Literal["default", "resample", "mean"]
METHODS: tuple[Choice, ...] = ("default", "resample", "mean")
FEATURES, NEURONS = "features", "neurons"
MOST_UNITS = 2048
# Activations that are never negative, nor zero: on and off are told apart at their middle.
MIDDLE = {"Sigmoid": 0.5, "HardSigmoid": 0.5, "Softplus": float(np.log(2))}


@dataclass(frozen=True)
class Target:
    """A unit: where it stands, its states, and what is done to it.

    `column` is the number of the feature, or of the neuron in its layer; `hold` is the value it is held at, and
    `called` how that is said.
    """

    name: str
    layer: str
    kind: Kind
    tensor: str | None
    column: int
    method: Method
    unit: StateUnit
    hold: float
    called: str

    @property
    def states(self) -> int:
        """How many states it has."""
        return len(self.unit.discretizer.names)

    def state(self, people: NDArray[np.floating], hidden: Mapping[str, NDArray[np.floating]]) -> NDArray[np.integer]:
        """The state of each person."""
        edges = self.unit.discretizer.edges
        if edges is None or len(edges) != 1 or self.unit.discretizer.method == "values":
            return self.unit.states(people, hidden)
        # One comparison is a tenth of a search.
        values = people if self.tensor is None else hidden[self.tensor]
        above: NDArray[np.bool_] = values[:, self.column] >= _at_least(edges[0], values.dtype)
        return above.view(np.uint8)


def _at_least(edge: float, dtype: np.dtype[Any]) -> np.floating:
    """The smallest number of a type that is not below the edge: the one just above zero is zero in single precision."""
    rounded: np.floating = np.float64(edge).astype(dtype)
    above: np.floating = np.nextafter(rounded, dtype.type(np.inf))
    return rounded if rounded >= np.float64(edge) else above


def wishes_of(case: EffectContext, units: Sequence[str] | None) -> tuple[list[StateRequest], tuple[HiddenLayer, ...]]:
    """The units that are asked for, every feature and every neuron by default, and all hidden layers."""
    spec = case.spec
    layers = (*cell_layers(case.model, spec), *layers_of(case.model, spec))
    texts: list[str] = []
    for text in units if units is not None else (FEATURES, NEURONS):
        if text == FEATURES:
            texts += [feature.name for feature in spec.features if _explainable(spec, feature)]
        elif text == NEURONS:
            texts += [layer.name for layer in layers]
        else:
            texts.append(text)
    found = [wish for text in dict.fromkeys(texts) for wish in _single(parse_request(text, spec), layers, case)]
    if not found:
        raise ModelError(f"{case.model.name}: there is no unit to explain: no feature but protected ones, no layer")
    if len(found) > MOST_UNITS:
        raise ModelError(
            f"{case.model.name}: {len(found):,} units, more than {MOST_UNITS:,}; name some of them, for example "
            f"--units {FEATURES} --units {layers[-1].name}"
        )
    return list({(wish.feature, wish.tensor, wish.unit): wish for wish in found}.values()), layers


def _explainable(spec: Spec, feature: object) -> bool:
    """Whether it is a feature that can be held at a value, and that makes no group."""
    if not isinstance(feature, CategoryFeature | IntegerFeature | RealFeature) or not feature.model_input:
        return False
    return feature.name not in spec.property.protected


def _single(wish: StateRequest, layers: Sequence[HiddenLayer], case: EffectContext) -> list[StateRequest]:
    """A feature or a neuron as it is, a whole layer as its units; layers by the names of their tensors."""
    if wish.feature is not None:
        if not _explainable(case.spec, case.spec.features[wish.feature]):
            raise ModelError(f"{wish.text}: is protected, or no number or category that the network is shown")
        return [wish]
    layer = next((layer for layer in layers if wish.tensor in (layer.name, layer.tensor)), None)
    if layer is None:
        raise ModelError(
            f'{case.model.name}: there is no feature or hidden layer "{wish.tensor}"; there is '
            f"{FEATURES}, {', '.join(layer.name for layer in layers) or 'no hidden layer'}"
        )
    if wish.unit is not None and wish.unit >= layer.width:
        raise ModelError(f'{wish.text}: "{layer.name}" has {layer.width} units, numbered from 0')
    how = wish.text.removeprefix(wish.name)
    units = range(layer.width) if wish.unit is None else [wish.unit]
    return [replace(wish, text=f"{layer.name}[{unit}]{how}", tensor=layer.tensor, unit=unit) for unit in units]


def targets_of(
    case: EffectContext,
    wishes: Sequence[StateRequest],
    layers: Sequence[HiddenLayer],
    method: Choice,
    people: NDArray[np.floating],
    hidden: Mapping[str, NDArray[np.floating]],
) -> tuple[Target, ...]:
    """The units with states and values to be held at, from a pilot: (groups * rounds) rows, group by group."""
    by_tensor = {layer.tensor: layer for layer in layers}
    widths = {layer.tensor: layer.width for layer in layers}
    weights = np.repeat(case.shares, len(people) // len(case.shares))
    weights = weights / weights.sum()
    # Not a matrix product: its last digits depend on the machine's number of threads.
    means = {name: np.einsum("r,ru->u", weights, values, dtype=np.float64) for name, values in hidden.items()}
    targets = []
    for wish, unit in zip(wishes, fit_units(wishes, case.spec, people, hidden, widths), strict=True):
        if wish.feature is not None:
            hold = _typical(case.spec, wish.feature, people[:, wish.feature], weights)
            way: Method = _for_features(case.spec) if method == "default" else method
            called = _called(case.spec, wish.feature, hold)
            targets.append(Target(wish.name, INPUTS, "feature", None, wish.feature, way, unit, hold, called))
            continue
        assert wish.tensor is not None
        assert wish.unit is not None
        layer = by_tensor[wish.tensor]
        way = "resample" if method == "default" else method
        hold = float(means[layer.tensor][wish.unit])
        kind: Kind = "cell" if layer.operator in RECURRENT else "neuron"
        divided = _divided(unit, layer.operator)
        targets.append(Target(wish.name, layer.name, kind, layer.tensor, wish.unit, way, divided, hold, f"{hold:.4g}"))
    return tuple(targets)


def _for_features(spec: Spec) -> Method:
    """Resampling takes away what a feature has to do with the group; where that is nothing, it would change nothing."""
    return "mean" if isinstance(spec.population, Uniform | Marginals) else "resample"


def _called(spec: Spec, place: int, value: float) -> str:
    """A feature's value in the words of the spec."""
    feature = spec.features[place]
    return str(feature.values[int(value)]) if isinstance(feature, CategoryFeature) else f"{value:.4g}"


def _divided(unit: StateUnit, operator: str) -> StateUnit:
    """On and off of an activation that is always positive are told apart at its middle."""
    if unit.discretizer.method != "sign" or operator not in MIDDLE:
        return unit
    return replace(unit, discretizer=Discretizer(unit.discretizer.names, "bins", (MIDDLE[operator],)))


def _typical(spec: Spec, place: int, column: NDArray[np.floating], weights: NDArray[np.float64]) -> float:
    """The mean of a number, rounded if the feature is whole; of a category the most frequent value.

    Where everything is uniform these are known: the middle, and the first of equals.
    """
    feature = spec.features[place]
    if isinstance(spec.population, Uniform) and spec.property.given is None:
        domain = domain_of(feature)
        middle = (domain.low + domain.high) / 2
        if isinstance(feature, CategoryFeature):
            return 0.0
        return middle if domain.real else float(math.floor(middle))
    if isinstance(feature, CategoryFeature):
        return float(np.bincount(column.astype(np.intp), weights).argmax())
    mean = float(weights @ column.astype(np.float64))
    return float(round(mean)) if isinstance(feature, IntegerFeature) else mean
