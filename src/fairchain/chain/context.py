"""Who is asked and what is looked into: a network with its inner tensors shown, the people, their groups.

The discretisers of a chain are fitted here, on a pilot sample that is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.over_time.probes import LastSteps, probe_of, recurrent_layers
from fairchain.chain.state_units import StateRequest, StateUnit, fit_units, parse_requests
from fairchain.errors import ChainError, ModelError
from fairchain.models import Limits, OnnxModel
from fairchain.models.inspect.activations import Probe, layers_of, resolve
from fairchain.models.inspect.recurrent import steps_of
from fairchain.populations import Scratch
from fairchain.populations.build import Left
from fairchain.prepare import gather, read_question
from fairchain.spec import Group, Spec, Table
from fairchain.spec.schema import Callable as CallablePopulation
from fairchain.spec.seeds import Seed

PILOT = 4096
# Chunks of people who are not counted, each kind far from all others: the fresh ones that the fidelity of a shared
# chain is measured on, and the pilot.
FRESH, PILOT_CHUNK = 2**40, 2**41


@dataclass(frozen=True)
class ChainContext:
    """A network that can be looked into, the people to show it, their groups, and the units that are asked for.

    `apart`: groups draw people of their own. A shared chain adds its groups up, so one person must not count for all.
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
        """What every chain of this subject says about its origin, in plain JSON values."""
        return {
            "population": str(self.population),
            "model_sha256": self.probe.model.sha256,
            "seed": self.seed.value,
            "left_out": [{"name": name, "share": share} for name, share in self.left_out],
        }

    def people(self, chunk: int, count: int) -> Iterator[tuple[int, NDArray[np.floating]]]:
        """(group, people) of a chunk, each valid until the next."""
        seed, scratch = self.seed.value, Scratch()
        rounds = None if self.apart else self.population.rounds(seed, chunk, count, scratch=scratch)
        for group in range(len(self.groups)):
            own = rounds or self.population.rounds(
                seed, chunk, count, copy=1 + group, scratch=scratch, subgroups=[group]
            )
            yield group, own.show(group)


def subject_of(
    model: Any,
    spec: Spec | str | Path,
    states: Sequence[str],
    seed: int | None,
    limits: Limits | None,
    *,
    together: bool = True,
) -> ChainContext:
    """The network with the tensors that the states need, and the people; the states are of one chain or of one each."""
    asked = read_question(spec, guarantee__seed=seed)
    if isinstance(asked.population, Table | CallablePopulation):
        raise ChainError(
            "population.kind: a chain is learned from people whom the spec itself says how to draw; use "
            '"uniform", "marginals" or "network"'
        )
    if model is None and asked.model.path is None:
        raise ChainError("a chain is learned from a network; name its file: path = ... in [model]")
    requests = parse_requests(states, asked, together=together)
    case = gather(model, asked, limits=limits, draw="groups")
    loaded = case.model
    if not isinstance(loaded, OnnxModel):
        assert loaded is not None
        raise ModelError(f"{loaded.name}: only a network that onnxruntime runs can be looked into; {loaded.note}")
    tensors = [request.tensor for request in requests if request.tensor is not None]
    _must_exist(loaded, asked, tensors)
    probe = probe_of(loaded, asked, tensors)
    return ChainContext(asked, probe, case.population, case.groups, case.seed, tuple(requests), left_out=case.left_out)


def _must_exist(model: OnnxModel, spec: Spec, tensors: Sequence[str]) -> None:
    """What is no feature is taken for a tensor; if it is none either, a feature may have been meant."""
    recurrent = recurrent_layers(model)
    for name in dict.fromkeys(tensors):
        if name in recurrent:
            continue
        try:
            resolve(model, name)
        except ModelError:
            known = [*(feature.name for feature in spec.features), *recurrent]
            near = get_close_matches(name, known, n=1, cutoff=0.75)
            if near:
                raise ChainError(f'there is no feature, layer or tensor "{name}"; did you mean {near[0]}?') from None
            if recurrent:
                # What `resolve` lists are the other layers, and often there are none.
                raise ChainError(f'there is no layer or tensor "{name}"; there is {", ".join(recurrent)}') from None
            raise


def fitted(subject: ChainContext) -> tuple[StateUnit, ...]:
    """Fit the discretisers on a pilot sample of all groups; its people are not counted."""
    if not subject.requests:
        return ()
    people = np.concatenate([shown.copy() for _, shown in subject.people(PILOT_CHUNK, PILOT)])
    _, hidden = subject.probe(people)
    return fit_units(subject.requests, subject.spec, people, hidden, subject.probe.widths)


def every_unit(subject: ChainContext) -> list[str]:
    """Every feature that is not protected, and every unit of every layer."""
    spec = subject.spec
    features = [f.name for f in spec.features if f.name not in spec.property.protected and f.model_input]
    layers = layers_of(subject.probe.model, spec)
    return features + [f"{layer.name}[{unit}]" for layer in layers for unit in range(layer.width)] + every_cell(subject)


def every_cell(subject: ChainContext) -> list[str]:
    """Every unit of every recurrent layer."""
    layers = steps_of(subject.probe.model)
    return [f"{layer.name}[{unit}]" for layer in layers for unit in range(layer.units)]
