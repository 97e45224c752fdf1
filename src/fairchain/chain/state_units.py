"""The units that give the states of a chain: input features, hidden neurons and whole layers.

A unit is written `capital-gain`, `layer3[2]`, `layer3` or a tensor's name, with its discretisation after a colon:
`capital-gain:bins=5,10`, `age:quantiles=3`, `layer3[2]:kmeans=3`, `layer3:kmeans`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.discretize import (
    DISCRETIZATIONS,
    MOST_CLUSTERS,
    MOST_PARTS,
    Discretization,
    Discretizer,
    fit_feature,
    fit_layer,
    fit_number,
)
from fairchain.errors import ChainError
from fairchain.messages import unknown
from fairchain.spec import Spec

HiddenLayers = Mapping[str, NDArray[np.floating]]
REQUESTED_TWICE = "{text}: {key} is requested twice; a chain has each unit once"
UNIT_NOT_FINITE = "{name}: the network computes NaN or infinite values there; choose another unit"


@dataclass(frozen=True)
class StateRequest:
    """A requested unit: a feature, or a tensor with or without the index of a unit, and its discretisation."""

    text: str
    feature: int | None
    tensor: str | None
    unit: int | None
    method: Discretization | None
    parts: int | None
    edges: tuple[float, ...]

    @property
    def name(self) -> str:
        """The unit without its discretisation."""
        return self.text.rpartition(":")[0] if self.method else self.text


@dataclass(frozen=True)
class StateUnit:
    """A unit with its discretiser: the source of its numbers, and their states."""

    request: StateRequest
    discretizer: Discretizer

    def states(self, values: NDArray[np.floating], hidden: HiddenLayers) -> NDArray[np.int64]:
        """Return the state of each input."""
        return self.discretizer(numbers_of(self.request, values, hidden))


def parse_requests(texts: Sequence[str], spec: Spec, *, together: bool = True) -> list[StateRequest]:
    """Read units; those of one chain must differ, and none may define the groups."""
    requests = [parse_request(text, spec) for text in texts]
    seen: set[str] = set()
    for request in requests:
        if request.name in spec.protected:
            raise ChainError(f"{request.text}: {request.name} already defines the groups; leave it out of the states")
        key = request.name if together else request.text
        if key in seen:
            raise ChainError(REQUESTED_TWICE.format(text=request.text, key=key))
        seen.add(key)
    return requests


def parse_request(text: str, spec: Spec) -> StateRequest:
    """Read `capital-gain:bins=5,10`; the network determines whether a tensor exists."""
    name, colon, how = text.rpartition(":")
    found = re.fullmatch(r"(\w+)(?:=(.*))?", how) if colon else None
    names = [feature.name for feature in spec.features]
    if found is None or found[1] not in DISCRETIZATIONS:
        surely = name in names or re.fullmatch(r"(layer|lstm|gru|rnn)\d+(\.cell)?(\[\d+\])?", name)
        if found is not None and (
            surely or (get_close_matches(found[1], DISCRETIZATIONS, n=1) and found[2] is not None)
        ):
            raise ChainError(f"{text}: {unknown('method', found[1], DISCRETIZATIONS)}")
        # A tensor's name may contain colons.
        name, found = text, None
    method, parts, edges = _how(text, found)
    if name in names:
        if spec.text is not None:
            raise ChainError(f"{text}: is derived from the text and has no number; name a unit of the network")
        return StateRequest(text, names.index(name), None, None, method, parts, edges)
    unit = re.fullmatch(r"(.+)\[(\d+)\]", name)
    if unit is not None:
        return StateRequest(text, None, unit[1], int(unit[2]), method, parts, edges)
    return StateRequest(text, None, name, None, method, parts, edges)


def _how(text: str, found: re.Match[str] | None) -> tuple[Discretization | None, int | None, tuple[float, ...]]:
    if found is None:
        return None, None, ()
    method: Discretization = found[1]  # type: ignore[assignment]  # one of METHODS, see the caller
    try:
        numbers = [float(number) for number in found[2].split(",")] if found[2] else []
    except ValueError:
        raise ChainError(f"{text}: {found[2]} is not a number; write for example bins=5,10 or kmeans=3") from None
    if not all(math.isfinite(number) for number in numbers):
        raise ChainError(f"{text}: give finite numbers")
    if method in ("sign", "values") and found[2] is not None:
        raise ChainError(f"{text}: {method} takes no number; leave ={found[2]} out")
    most = MOST_CLUSTERS if method == "kmeans" else MOST_PARTS
    if method == "bins":
        if len(numbers) >= most:
            raise ChainError(f"{text[:40]}...: {len(numbers)} edges; give fewer than {most:,}")
        return method, None, tuple(numbers)
    if len(numbers) > 1 or any(number != int(number) or number < 2 for number in numbers):
        raise ChainError(f"{text}: {method} takes one whole number of parts, 2 or more")
    if any(number > most for number in numbers):
        raise ChainError(f"{text}: {method} makes at most {most:,} parts; request fewer")
    return method, int(numbers[0]) if numbers else None, ()


def numbers_of(request: StateRequest, values: NDArray[np.floating], hidden: HiddenLayers) -> NDArray[np.floating]:
    """Return the numbers of a unit, (rows, 1), or of a whole layer, (rows, units)."""
    if request.feature is not None:
        return values[:, request.feature : request.feature + 1]
    assert request.tensor is not None
    layer = hidden[request.tensor]
    found = layer if request.unit is None else layer[:, request.unit : request.unit + 1]
    if not np.isfinite(found).all():
        raise ChainError(UNIT_NOT_FINITE.format(name=request.name))
    return found


def fit_units(
    requests: Sequence[StateRequest],
    spec: Spec,
    values: NDArray[np.floating],
    hidden: HiddenLayers,
    widths: Mapping[str, int],
) -> tuple[StateUnit, ...]:
    """Fit every discretiser on a pilot sample; afterwards they are frozen."""
    units = []
    for request in requests:
        if request.tensor is not None and request.unit is not None and request.unit >= widths[request.tensor]:
            raise ChainError(f'{request.text}: "{request.tensor}" has {widths[request.tensor]} units, numbered from 0')
        pilot = numbers_of(request, values, hidden)
        if request.feature is not None:
            feature, missing = spec.features[request.feature], getattr(spec.population, "keep_missing", False)
            made = fit_feature(feature, pilot[:, 0], request.method, request.parts, request.edges, missing=missing)
        elif pilot.shape[1] == 1:
            made = fit_number(request.name, pilot[:, 0], request.method, request.parts, request.edges)
        else:
            if request.method not in (None, "kmeans"):
                raise ChainError(
                    f'{request.text}: a whole layer is divided by "kmeans"; name one unit: {request.name}[0]'
                )
            made = fit_layer(request.name, pilot, request.parts)
        units.append(StateUnit(request, made))
    return tuple(units)
