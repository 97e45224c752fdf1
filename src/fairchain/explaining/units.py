"""The units that are explained: unprotected features, neurons of hidden layers, and cells of recurrent layers.

A unit has states for the paper's measure, fitted on the pilot and then frozen, and an intervention for the effect: it
is held at one value, or gets the value that it has for another input. An intervention inside a recurrent operator is
not possible, but one on its output is: on the last hidden state, or on the result of an operator that keeps units
separate over all steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.state_units import Discretizer, StateRequest, StateUnit, fit_units, parse_request
from fairchain.errors import ModelError
from fairchain.explaining.context import EffectContext
from fairchain.explaining.result import INPUT_LAYER, Intervention, UnitKind
from fairchain.models import OnnxModel
from fairchain.models.base import random_inputs
from fairchain.models.inspect.activations import HiddenLayer, layers_of
from fairchain.models.inspect.recurrent import steps_of
from fairchain.models.onnx.padding import RECURRENT
from fairchain.spec import CategoryFeature, Feature, IntegerFeature, Marginals, Spec, Uniform, domain_of

Choice = Literal["default", "resample", "mean"]
INTERVENTIONS: tuple[Choice, ...] = ("default", "resample", "mean")
FEATURES, NEURONS = "features", "neurons"
MOST_UNITS = 2048
# Activations that are always positive: their midpoint separates on and off.
MIDDLE = {"Sigmoid": 0.5, "HardSigmoid": 0.5, "Softplus": float(np.log(2))}

# Operators that move units, select steps or aggregate over them, and never mix one unit with another.
KEEPS_UNITS = frozenset(
    """
    Cast Concat Dropout Flatten Gather GatherElements GatherND Identity ReduceMax ReduceMean ReduceSum Reshape Slice
    Split Squeeze Transpose Unsqueeze
    """.split()  # noqa: SIM905  # a block of names reads better than a list of strings
)
FEW_UNITS = 5
NO_NEURONS = "{name}: has no neurons, because it is evaluated in Python and not as a network; use {features}{note}"
UNKNOWN_UNIT = '{name}: unknown feature or hidden layer "{tensor}"; expected {names}'


@dataclass(frozen=True)
class Target:
    """A unit: its position in the network, its states, and the intervention on it.

    `column` is the index of the feature, or of the neuron in its layer; `hold` is the value at which it is held, and
    `called` is the name of that value in the spec.
    """

    name: str
    layer: str
    kind: UnitKind
    tensor: str | None
    column: int
    method: Intervention
    unit: StateUnit
    hold: float
    called: str

    @property
    def states(self) -> int:
        """The number of states."""
        return len(self.unit.discretizer.names)

    def state(self, inputs: NDArray[np.floating], hidden: Mapping[str, NDArray[np.floating]]) -> NDArray[np.integer]:
        """Return the state of each input, (rows,)."""
        edges = self.unit.discretizer.edges
        if edges is None or len(edges) != 1 or self.states != 2 or self.unit.discretizer.method == "values":
            return self.unit.states(inputs, hidden)
        # One comparison takes a tenth of the time of a binary search.
        values = (inputs if self.tensor is None else hidden[self.tensor])[:, self.column]
        edge = np.float64(edges[0]).astype(values.dtype)
        if edge < np.float64(edges[0]):
            # The smallest number of this type that is not below the edge.
            edge = np.nextafter(edge, values.dtype.type(np.inf))
        above: NDArray[np.bool_] = values >= edge
        return above.view(np.uint8)


def requested_units(
    context: EffectContext, units: Sequence[str] | None
) -> tuple[list[StateRequest], tuple[HiddenLayer, ...]]:
    """Return the requested units, by default every feature and every neuron, and all hidden layers."""
    spec, name, network = context.spec, context.model.name, context.network
    layers = (*cell_layers(network, spec), *layers_of(network, spec)) if network is not None else ()
    if network is None and NEURONS in (units or ()):
        note = f"; {context.model.note}" if context.model.note else ""
        raise ModelError(NO_NEURONS.format(name=name, features=FEATURES, note=note))
    named = {
        FEATURES: [feature.name for feature in spec.features if _explainable(spec, feature)],
        NEURONS: [layer.name for layer in layers],
    }
    wanted = units if units is not None else (FEATURES, NEURONS)
    texts = [name for text in wanted for name in named.get(text, [text])]
    found: dict[tuple[int | None, str | None, int | None], StateRequest] = {}
    for text in dict.fromkeys(texts):
        for request in _single(parse_request(text, spec), layers, context):
            found[request.feature, request.tensor, request.unit] = request
    if not found and spec.text is None:
        raise ModelError(f"{name}: has no unprotected feature and no hidden layer, so it has no units to explain")
    if len(found) > MOST_UNITS:
        raise ModelError(
            f"{name}: {len(found):,} units, more than {MOST_UNITS:,}; name some of them, for example "
            f"--units {layers[-1].name if layers else spec.features[0].name}"
        )
    return list(found.values()), layers


def _explainable(spec: Spec, feature: Feature) -> bool:
    """Return whether the model reads a feature that is not protected."""
    return feature.model_input and feature.name not in spec.protected


def _single(request: StateRequest, layers: Sequence[HiddenLayer], context: EffectContext) -> list[StateRequest]:
    """Return a feature or a neuron itself, a whole layer as its units; layers by the names of their tensors."""
    if request.feature is not None:
        if not _explainable(context.spec, context.spec.features[request.feature]):
            raise ModelError(f"{request.text}: is protected, or not a number or category that the model reads")
        return [request]
    layer = next((layer for layer in layers if request.tensor in (layer.name, layer.tensor)), None)
    if layer is None:
        raise ModelError(
            UNKNOWN_UNIT.format(
                name=context.model.name,
                tensor=request.tensor,
                names=", ".join([FEATURES, *(layer.name for layer in layers)]),
            )
        )
    if request.unit is not None and request.unit >= layer.width:
        raise ModelError(f'{request.text}: "{layer.name}" has {layer.width} units, numbered from 0')
    how = request.text.removeprefix(request.name)
    units = range(layer.width) if request.unit is None else [request.unit]
    return [replace(request, text=f"{layer.name}[{unit}]{how}", tensor=layer.tensor, unit=unit) for unit in units]


def targets_of(
    context: EffectContext,
    requests: Sequence[StateRequest],
    layers: Sequence[HiddenLayer],
    method: Choice,
    inputs: NDArray[np.floating],
    hidden: Mapping[str, NDArray[np.floating]],
) -> tuple[Target, ...]:
    """Return the units with states and values to hold, from a pilot of (groups * rounds) rows, ordered by group."""
    spec, by_tensor = context.spec, {layer.tensor: layer for layer in layers}
    widths = {layer.tensor: layer.width for layer in layers}
    weights = np.repeat(context.shares, len(inputs) // len(context.shares))
    weights = weights / weights.sum()
    # Not a matrix product: its last digits depend on the number of threads.
    means = {name: np.einsum("r,ru->u", weights, values, dtype=np.float64) for name, values in hidden.items()}
    # Resampling removes the dependence of a feature on the group; without dependence, it would change nothing.
    independent = isinstance(spec.population, Uniform | Marginals)
    targets = []
    for request, unit in zip(requests, fit_units(requests, spec, inputs, hidden, widths), strict=True):
        if request.feature is not None:
            feature, column = spec.features[request.feature], request.feature
            hold = _typical(spec, feature, inputs[:, column], weights)
            called = "missing" if math.isnan(hold) else f"{hold:.4g}"
            if isinstance(feature, CategoryFeature) and not math.isnan(hold):
                called = str(feature.values[int(hold)])
            applied: Intervention = ("mean" if independent else "resample") if method == "default" else method
            targets.append(Target(request.name, INPUT_LAYER, "feature", None, column, applied, unit, hold, called))
            continue
        assert request.tensor is not None
        assert request.unit is not None
        layer = by_tensor[request.tensor]
        hold = float(means[layer.tensor][request.unit])
        kind: UnitKind = "cell" if layer.operator in RECURRENT else "neuron"
        applied = "resample" if method == "default" else method
        divided = unit
        if unit.discretizer.method == "sign" and layer.operator in MIDDLE:
            middle = Discretizer(unit.discretizer.names, "bins", (MIDDLE[layer.operator],))
            divided = replace(unit, discretizer=middle)
        targets.append(
            Target(request.name, layer.name, kind, layer.tensor, request.unit, applied, divided, hold, f"{hold:.4g}")
        )
    return tuple(targets)


def _typical(spec: Spec, feature: Feature, column: NDArray[np.floating], weights: NDArray[np.float64]) -> float:
    """Return the mean of a number, rounded if the feature is an integer; for a category the most frequent value.

    For uniform features these are known: the midpoint, and the first of equally frequent values. Missing values do not
    count; NaN if all are missing.
    """
    if isinstance(spec.population, Uniform) and spec.property.given is None:
        domain = domain_of(feature)
        middle = (domain.low + domain.high) / 2
        if isinstance(feature, CategoryFeature):
            return 0.0
        return middle if domain.real else float(math.floor(middle))
    known = ~np.isnan(column)
    if not known.all():
        if not known.any():
            return math.nan
        column, weights = column[known], weights[known] / weights[known].sum()
    if isinstance(feature, CategoryFeature):
        return float(np.bincount(column.astype(np.intp), weights).argmax())
    mean = float(weights @ column.astype(np.float64))
    return float(round(mean)) if isinstance(feature, IntegerFeature) else mean


def cell_layers(model: OnnxModel, spec: Spec) -> tuple[HiddenLayer, ...]:
    """Return for every recurrent layer the tensor through which the network reads it, if it has a row for each input.

    Operators that keep units separate compute this tensor from the layer's output.
    """
    found = []
    for layer in steps_of(model):
        # The third output is the cell state, which the network may also read, but not instead of the hidden state.
        reached, names = {name for name in layer.outputs[:2] if name}, list[str]()
        for other in model.network.model.graph.node:
            if other.op_type in KEEPS_UNITS and other.input and other.input[0] in reached:
                made = [name for name in other.output if name]
                reached.update(made)
                names += made
        tensor = _read_tensor(model, spec, layer.units, names) if names else None
        if tensor is not None:
            found.append(HiddenLayer(layer.name, tensor, layer.operator, layer.units))
    return tuple(found)


def _read_tensor(model: OnnxModel, spec: Spec, units: int, names: Sequence[str]) -> str | None:
    """Return the first of these tensors that has so many units for each input, in the order of the inputs."""
    # A number of rows that differs from the number of units.
    rows = FEW_UNITS + (units == FEW_UNITS)
    inputs = random_inputs(spec.described, rows).astype(model.dtype)
    shown, runs = model.with_outputs(names), list[list[NDArray[Any]]]()
    for batch in (inputs, *(inputs[row : row + 1] for row in range(rows))):
        try:
            runs.append(shown.run(batch, names))
        except ModelError:
            # A tensor that does not exist for a single input cannot be intervened on.
            runs.append([np.empty(0) for _ in names])
    for name, (whole, *single) in zip(names, zip(*runs, strict=True), strict=True):
        if whole.shape != (rows, units) or any(each.shape != (1, units) for each in single):
            continue
        # Rows may be ordered differently there, for instance by the length of the texts.
        if np.allclose(whole, np.concatenate(single), rtol=1e-3, atol=1e-5):
            return name
    return None
