"""The units that give the states of a chain, and their discretisers: from one number or several to a few named states.

A unit is a feature, a hidden neuron or a whole layer, `capital-gain`, `layer3[2]` or `layer3`, or a tensor's name, with
its discretisation after a colon: `capital-gain:bins=5,10`, `age:quantiles=3`, `layer3[2]:kmeans=3`, `layer3:kmeans`. A
discretiser is fitted once on a pilot sample, then frozen and saved with the chain: its names, `education=Masters` or
`layer3[2] off`, and the edges or centres that divide the values.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ChainError
from fairchain.messages import unknown
from fairchain.spec import CategoryFeature, Feature, IntegerFeature, RealFeature, Spec, domain_of

Discretization = Literal["values", "bins", "width", "quantiles", "kmeans", "sign"]
DISCRETIZATIONS: tuple[Discretization, ...] = ("values", "bins", "width", "quantiles", "kmeans", "sign")
# Integers with more values than this are divided unless all values are requested.
FEW_INTEGERS = 12
DEFAULT_PARTS = 4
# Clusters when their number is chosen automatically, and the largest number that may be requested: time grows with the
# square.
MOST_CHOSEN, MOST_CLUSTERS = 8, 64
# Parts of any other kind, and values of an integer, each a state.
MOST_PARTS, MOST_STATE_VALUES = 1000, 100_000
# The share of the variance that clusters must explain when their number is chosen automatically.
EXPLAINED = 0.8
# Matrix products up to this size are computed by the calling thread; larger ones by all cores, which would slow down
# workers with one core each.
MOST_TERMS_ON_ONE_THREAD = 2**17
# Just above zero: an activation is on if it is positive.
ON = float(np.nextafter(0.0, 1.0))
TOO_FEW_DISTINCT_VALUES = (
    "{name}: {parts} parts were requested, and the pilot sample has {distinct} distinct value{value}; request fewer"
)
CATEGORY_NO_ORDER = '{name}: a category has no order; leave the method out, or use "values"'
VALUES_NEED_WHOLE_NUMBERS = '{name}: "values" needs a category or whole numbers; use bins, width or quantiles'
TOO_MANY_STATES = "{name}: has {size:,} values, and at most {most_values:,} can be states; use quantiles, width or bins"
BINS_NOT_RISING = "{name}: bins must be edges in rising order, for example bins=5,10"
HiddenLayers = Mapping[str, NDArray[np.floating]]
REQUESTED_TWICE = "{text}: {key} is requested twice; a chain has each unit once"
UNIT_NOT_FINITE = "{name}: the network computes NaN or infinite values there; choose another unit"


@dataclass(frozen=True)
class Discretizer:
    """Names of the states, and their boundaries: edges of one number, or centres of several.

    State `i` of `edges` contains values with exactly `i` edges at or below them; a state after those is for missing
    values (NaN). State `i` of `centres` contains those that are nearest to centre `i`.
    """

    names: tuple[str, ...]
    method: str
    edges: tuple[float, ...] | None = None
    centres: tuple[tuple[float, ...], ...] | None = None

    def __call__(self, values: NDArray[np.floating]) -> NDArray[np.int64]:
        """Return the state of each row of (rows, numbers)."""
        if self.edges is not None and len(self.names) > len(self.edges) + 1:
            missing = np.isnan(values[:, :1])
            known = Discretizer(self.names[:-1], self.method, self.edges)(np.where(missing, 0, values[:, :1]))
            return np.where(missing[:, 0], len(self.names) - 1, known)
        if self.method == "values" and self.edges:
            return values[:, 0].astype(np.int64) - int(self.edges[0] - 1)
        if self.edges is not None:
            place: NDArray[np.intp] = np.searchsorted(np.asarray(self.edges), values[:, 0], side="right")
            return place.astype(np.int64)
        centres = np.asarray(self.centres)
        # Nearest by |x - c|^2 = |x|^2 - 2 x.c + |c|^2; the first term is the same for all.
        squares, twice = (centres**2).sum(axis=1), -2 * centres.T
        nearest = np.empty(len(values), np.int64)
        block = max(1, MOST_TERMS_ON_ONE_THREAD // twice.size)
        for start in range(0, len(values), block):
            part = values[start : start + block].astype(np.float64)
            nearest[start : start + block] = (part @ twice + squares).argmin(axis=1)
        return nearest

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "names": list(self.names),
            "method": self.method,
            "edges": None if self.edges is None else list(self.edges),
            "centres": None if self.centres is None else [list(centre) for centre in self.centres],
        }


def fit_feature(
    feature: Feature,
    pilot: NDArray[np.floating],
    method: Discretization | None,
    parts: int | None,
    edges: Sequence[float],
    *,
    missing: bool = False,
) -> Discretizer:
    """Fit a discretiser for an input feature; by default its values if they are few, otherwise quantiles.

    With `missing`, its missing values (NaN) have a state of their own.
    """
    name = feature.name
    if missing:
        values = pilot[~np.isnan(pilot)]
        if not len(values) and not edges and isinstance(feature, RealFeature):
            return Discretizer((name, f"{name} missing"), "bins", ())
        known = fit_feature(feature, values, method, parts, edges)
        return replace(known, names=(*known.names, f"{name} missing"))
    domain = domain_of(feature)
    few = isinstance(feature, CategoryFeature) or (isinstance(feature, IntegerFeature) and domain.size <= FEW_INTEGERS)
    method = method or ("bins" if edges else "values" if few and parts is None else "quantiles")
    if method == "values":
        if domain.real:
            raise ChainError(VALUES_NEED_WHOLE_NUMBERS.format(name=name))
        if domain.size > MOST_STATE_VALUES:
            raise ChainError(TOO_MANY_STATES.format(name=name, size=domain.size, most_values=MOST_STATE_VALUES))
        values = np.arange(int(domain.low), int(domain.high) + 1)
        words = feature.values if isinstance(feature, CategoryFeature) else values.tolist()
        return Discretizer(tuple(f"{name}={word}" for word in words), method, tuple(values[1:].tolist()))
    if isinstance(feature, CategoryFeature):
        raise ChainError(CATEGORY_NO_ORDER.format(name=name))
    return fit_number(name, pilot, method, parts, edges, whole=isinstance(feature, IntegerFeature))


def fit_number(
    name: str,
    pilot: NDArray[np.floating],
    method: Discretization | None,
    parts: int | None,
    edges: Sequence[float] = (),
    *,
    whole: bool = False,
) -> Discretizer:
    """Fit a discretiser for one number, from its values in a pilot sample."""
    method = method or ("bins" if edges else "sign" if parts is None else "kmeans")
    if method == "sign":
        return Discretizer((f"{name} off", f"{name} on"), method, (ON,))
    if method == "bins":
        if not edges or list(edges) != sorted(set(map(float, edges))):
            raise ChainError(BINS_NOT_RISING.format(name=name))
        return Discretizer(_named(name, edges), method, tuple(map(float, edges)))
    if method == "values":
        raise ChainError(f'{name}: "values" needs a category or whole numbers; use sign, bins, width or quantiles')
    _enough_values(name, pilot, parts or 2)
    if method == "width":
        found = np.linspace(pilot.min(), pilot.max(), (parts or DEFAULT_PARTS) + 1)[1:-1]
    elif method == "quantiles":
        found = np.quantile(pilot, np.linspace(0, 1, (parts or DEFAULT_PARTS) + 1)[1:-1])
    else:
        centres = np.sort(_cluster(name, pilot.reshape(-1, 1), parts)[:, 0])
        found = (centres[1:] + centres[:-1]) / 2
    # Integers are divided between two of them, and no part may be certainly empty.
    found = np.unique(np.ceil(found) if whole else found)
    found = found[(found > pilot.min()) & (found <= pilot.max())]
    return Discretizer(_named(name, found.tolist()), method, tuple(found.tolist()))


def fit_layer(name: str, pilot: NDArray[np.floating], parts: int | None) -> Discretizer:
    """Fit a discretiser for a whole layer: clusters of its activations."""
    _enough_values(name, pilot, parts or 2)
    centres = _cluster(name, pilot, parts)
    centres = centres[np.lexsort(centres.T[::-1])]
    names = tuple(f"{name} cluster {number}" for number in range(1, len(centres) + 1))
    return Discretizer(names, "kmeans", centres=tuple(tuple(map(float, centre)) for centre in centres))


def _enough_values(name: str, pilot: NDArray[np.floating], parts: int) -> None:
    distinct = len(np.unique(pilot, axis=0))
    if distinct < parts:
        raise ChainError(
            TOO_FEW_DISTINCT_VALUES.format(name=name, parts=parts, distinct=distinct, value="s" * (distinct != 1))
        )


def _cluster(name: str, pilot: NDArray[np.floating], parts: int | None) -> NDArray[np.float64]:
    """Return centres by k-means; without a number, the fewest that explain most of the variance."""
    from scipy.cluster.vq import kmeans2

    points = pilot.astype(np.float64)
    centres: NDArray[np.float64]
    spread = float(points.var(axis=0).sum())
    for count in [parts] if parts is not None else range(2, MOST_CHOSEN + 1):
        with warnings.catch_warnings():
            # Empty clusters are reported below.
            warnings.simplefilter("ignore")
            centres, label = kmeans2(points, count, minit="++", rng=0, iter=30)
        left = float(((points - centres[label]) ** 2).sum(axis=1).mean())
        if parts is not None or left <= (1 - EXPLAINED) * spread:
            break
    if len(np.unique(label)) < len(centres):
        raise ChainError(f"{name}: {len(centres)} clusters are not distinct; request fewer")
    return centres


def _named(name: str, edges: Sequence[float]) -> tuple[str, ...]:
    """Return names like `x < 5`, `5 <= x < 10`, `x >= 10`."""
    if not edges:
        return (name,)
    shown = [f"{edge:g}" for edge in edges]
    if len(set(shown)) < len(shown):
        shown = [repr(float(edge)) for edge in edges]
    middle = [f"{low} <= {name} < {high}" for low, high in pairwise(shown)]
    return (f"{name} < {shown[0]}", *middle, f"{name} >= {shown[-1]}")


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
