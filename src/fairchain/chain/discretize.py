"""Discretisers: from one number or several to a few named states; fitted once on a pilot sample, then frozen.

A discretiser is data: its names, and the edges or centres that divide the values. It is saved with the chain, and its
names are readable: `capital-gain >= 5`, `education=Masters`, `layer3[2] off`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ChainError
from fairchain.spec import CategoryFeature, Feature, IntegerFeature, RealFeature, domain_of

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
    points = pilot.astype(np.float64)
    spread = float(points.var(axis=0).sum())
    for count in [parts] if parts is not None else range(2, MOST_CHOSEN + 1):
        centres, label = _kmeans(points, count)
        left = float(((points - centres[label]) ** 2).sum(axis=1).mean())
        if parts is not None or left <= (1 - EXPLAINED) * spread:
            break
    if len(np.unique(label)) < len(centres):
        raise ChainError(f"{name}: {len(centres)} clusters are not distinct; request fewer")
    return centres


def _kmeans(points: NDArray[np.float64], count: int) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    import warnings

    from scipy.cluster.vq import kmeans2

    with warnings.catch_warnings():
        # The caller detects and reports empty clusters.
        warnings.simplefilter("ignore")
        centres, label = kmeans2(points, count, minit="++", rng=0, iter=30)
    return centres, label


def _named(name: str, edges: Sequence[float]) -> tuple[str, ...]:
    """Return names like `x < 5`, `5 <= x < 10`, `x >= 10`."""
    if not edges:
        return (name,)
    shown = [f"{edge:g}" for edge in edges]
    if len(set(shown)) < len(shown):
        shown = [repr(float(edge)) for edge in edges]
    middle = [f"{low} <= {name} < {high}" for low, high in pairwise(shown)]
    return (f"{name} < {shown[0]}", *middle, f"{name} >= {shown[-1]}")
