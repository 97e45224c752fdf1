"""The context of a chain: a network with visible hidden layers, the population and its groups.

Of recurrent layers all steps are visible, or the last one as an ordinary layer. The discretisers of a chain are fitted
here, on a pilot sample that is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.state_units import StateRequest, StateUnit, fit_units, parse_requests
from fairchain.errors import ChainError, ModelError
from fairchain.models import Limits, OnnxModel
from fairchain.models.base import random_inputs
from fairchain.models.inspect.activations import Probe, layers_of, resolve
from fairchain.models.inspect.recurrent import RecurrentLayer, RecurrentSteps, StepProbe, steps_of
from fairchain.models.onnx.decision import Labels
from fairchain.models.onnx.session import Hidden
from fairchain.populations import Scratch
from fairchain.populations.build import Left
from fairchain.prepare import Case, gather, group_population, read_question, with_network
from fairchain.spec import Group, Spec, Table
from fairchain.spec.population_keys import UserFunction
from fairchain.spec.seeds import Seed

# Largest number of values that one call of the network may return.
MOST_CALL_NUMBERS = 2**24
PILOT_INPUTS = 4096
# Smallest number of texts or series of each group in a pilot; the pilot contains all of their steps.
FEWEST = 16
# First chunks of inputs that are not counted, disjoint from all other chunks: the fresh inputs that measure fidelity,
# and the pilot.
FRESH, PILOT_CHUNK = 2**40, 2**41


class LastSteps:
    """A network that returns some of its layers with each decision; recurrent layers after the last step.

    It is used like a `Probe`; `steps` returns all steps, at most `most`.
    """

    def __init__(self, model: OnnxModel, spec: Spec, names: Sequence[str], recurrent: frozenset[str]) -> None:
        self.model = model
        self.recurrent = recurrent
        self._layers = recurrent_layers(model)
        # Whether the network may take fewer steps for one row than for another, because it has an input for lengths.
        self.varied = any(self._layers[name].varied for name in recurrent)
        self._probe = StepProbe(model, spec, tuple(dict.fromkeys(names)))
        self.widths = dict(self._probe.units)
        one = random_inputs(spec.described, 1).astype(model.dtype)
        self.most = spec.text.steps if spec.text is not None else inside_of(self._probe(one)).shape[1]

    def parts(self, values: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Yield blocks of rows: a large layer has very many values over time."""
        size = max(1, MOST_CALL_NUMBERS // (self.most * sum(self.widths.values())))
        for start in range(0, len(values), size):
            yield values[start : start + size]

    def steps(self, values: NDArray[Any]) -> RecurrentSteps:
        """Return the class of each row, and the states after each step in the order of the steps."""
        shown = self._probe(values)
        states, lengths = dict(shown.states), shown.lengths[:, None]
        for name, hidden in shown.states.items():
            if self._layers[name].direction == "reverse":
                # Each row's steps from the last to the first.
                steps = np.arange(hidden.shape[1])
                place = np.where(steps < lengths, lengths - 1 - steps, steps)
                states[name] = np.take_along_axis(hidden, place[:, :, None], axis=1)
        return replace(shown, states=states)

    def __call__(self, values: NDArray[Any]) -> tuple[Labels, dict[str, Hidden]]:
        """Return the class of each row, and for each layer its units, (rows, units)."""
        labels: list[Labels] = []
        layers: list[dict[str, Hidden]] = []
        for part in self.parts(values):
            shown = self.steps(part)
            last = dict(shown.layers)
            for name, hidden in shown.states.items():
                last[name] = hidden[np.arange(len(hidden)), shown.lengths - 1]
                if self._layers[name].direction == "bidirectional":
                    # The backward direction reaches the first word last.
                    half = hidden.shape[2] // 2
                    last[name][:, half:] = hidden[:, 0, half:]
            labels.append(shown.labels)
            layers.append(last)
        joined = {name: np.concatenate([layer[name] for layer in layers]) for name in layers[0]}
        return np.concatenate(labels), joined


def probe_of(model: OnnxModel, spec: Spec, names: Sequence[str]) -> Probe | LastSteps:
    """Return a probe for these layers."""
    recurrent = frozenset(recurrent_layers(model)).intersection(names)
    return LastSteps(model, spec, names, recurrent) if recurrent else Probe(model, spec, names)


def recurrent_layers(model: OnnxModel) -> dict[str, RecurrentLayer]:
    """Return the names of recurrent states, each with its layer: `lstm1`, `lstm1.cell`, `gru2`."""
    layers = steps_of(model)
    return {layer.name: layer for layer in layers} | {f"{layer.name}.cell": layer for layer in layers if layer.cells}


def inside_of(shown: RecurrentSteps) -> NDArray[np.bool_]:
    """Return (rows, steps): whether a trace has this step."""
    steps = next(iter(shown.states.values())).shape[1]
    inside: NDArray[np.bool_] = np.arange(steps) < shown.lengths[:, None]
    return inside


@dataclass(frozen=True)
class ChainContext:
    """A network with visible hidden layers, the population, the groups, and the requested units.

    `apart`: each group draws separate inputs. A shared chain sums its groups, so one input must not count for all.
    `left_out`: the groups below `property.min_size`, each with its share of the population.
    """

    spec: Spec
    probe: Probe | LastSteps
    population: Any
    groups: tuple[Group, ...]
    seed: Seed
    requests: tuple[StateRequest, ...] = ()
    apart: bool = False
    left_out: Left = ()

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of every chain of this context, in plain JSON values."""
        return {
            "population": str(self.population),
            "model_sha256": self.probe.model.sha256,
            "seed": self.seed.value,
            "left_out": [{"name": name, "share": share} for name, share in self.left_out],
        }

    @property
    def recurrent(self) -> frozenset[str]:
        """The requested layers that are recurrent."""
        return self.probe.recurrent if isinstance(self.probe, LastSteps) else frozenset()

    def inputs(self, chunk: int, count: int) -> Iterator[tuple[int, NDArray[np.floating]]]:
        """Yield (group, inputs) of a chunk, each valid until the next."""
        seed, scratch = self.seed.value, Scratch()
        rounds = None if self.apart else self.population.rounds(seed, chunk, count, scratch=scratch)
        for group in range(len(self.groups)):
            own = rounds or self.population.rounds(
                seed, chunk, count, copy=1 + group, scratch=scratch, subgroups=[group]
            )
            yield group, own.show(group)


def prepare_context(
    model: Any,
    source: Spec | str | Path | Case,
    states: Sequence[str],
    seed: int | None,
    limits: Limits | None,
    *,
    together: bool = True,
) -> ChainContext:
    """Prepare the network, the tensors that the states need, and the population; `together`: for one chain."""
    case = source if isinstance(source, Case) else None
    spec = source.spec if isinstance(source, Case) else read_question(source, guarantee__seed=seed)
    if isinstance(spec.population, Table | UserFunction):
        raise ChainError(
            'population.kind: a chain needs a population that the spec itself defines; use "uniform", "marginals" '
            'or "network"'
        )
    if case is None and model is None and spec.model.path is None:
        raise ChainError("model.path: a chain is learned from a network; name its file")
    requests = parse_requests(states, spec, together=together)
    case = with_network(case or gather(model, spec, limits=limits, network=True))
    loaded = case.model
    if not isinstance(loaded, OnnxModel):
        assert loaded is not None
        raise ModelError(f"{loaded.name}: a chain needs a network that onnxruntime runs; {loaded.note}")
    tensors = [request.tensor for request in requests if request.tensor is not None]
    recurrent = recurrent_layers(loaded)
    for name in dict.fromkeys(tensors):
        try:
            if name not in recurrent:
                resolve(loaded, name)
        except ModelError:
            known = [*(feature.name for feature in spec.features), *recurrent]
            near = get_close_matches(name, known, n=1, cutoff=0.75)
            if near:
                raise ChainError(f'unknown feature, layer or tensor "{name}"; did you mean {near[0]}?') from None
            if recurrent:
                # `resolve` lists only the other layers, and often there are none.
                raise ChainError(f'unknown layer or tensor "{name}"; expected one of {", ".join(recurrent)}') from None
            raise
    probe = probe_of(loaded, spec, tensors)
    drawn = group_population(case)
    return ChainContext(spec, probe, drawn, case.groups, case.seed, tuple(requests), left_out=case.left_out)


def fitted(context: ChainContext, *, over_time: bool = False) -> tuple[StateUnit, ...]:
    """Fit the discretisers on a pilot sample of all groups, or on all of its steps; its inputs are not counted."""
    if not context.requests:
        return ()
    probe = context.probe
    steps = probe.most if over_time and isinstance(probe, LastSteps) else 1
    rounds = max(PILOT_INPUTS // steps, FEWEST)
    inputs = [shown.copy() for _, shown in context.inputs(PILOT_CHUNK, rounds)]
    if over_time and isinstance(probe, LastSteps):
        parts = [probe.steps(each) for each in inputs]
        hidden = {name: np.concatenate([part.layers[name] for part in parts]) for name in parts[0].layers}
        for name in parts[0].states:
            hidden[name] = np.concatenate([part.states[name][inside_of(part)] for part in parts])
    else:
        _, hidden = probe(np.concatenate(inputs))
    return fit_units(context.requests, context.spec, np.concatenate(inputs), hidden, probe.widths)


def every_unit(context: ChainContext) -> list[str]:
    """Return every feature that is not protected, and every unit of every layer."""
    spec = context.spec
    features = [f.name for f in spec.features if f.name not in spec.protected and f.model_input]
    layers = layers_of(context.probe.model, spec)
    return features + [f"{layer.name}[{unit}]" for layer in layers for unit in range(layer.width)] + every_cell(context)


def every_cell(context: ChainContext) -> list[str]:
    """Return every unit of every recurrent layer."""
    layers = steps_of(context.probe.model)
    return [f"{layer.name}[{unit}]" for layer in layers for unit in range(layer.units)]
