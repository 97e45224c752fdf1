"""Domains and groups: the values of each feature, and the groups of the protected features.

A `Domain` is a set of values with a uniform distribution on it: consecutive integers, listed points, or an
interval of reals. A feature has one, and so has each group of a protected feature.
Category values are drawn as their index; the model encodes the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import SpecError
from fairchain.messages import near
from fairchain.spec.feature_keys import CategoryFeature, Feature, GroupExpr, Members, RealFeature
from fairchain.spec.property_keys import ProbabilityFormula
from fairchain.spec.schema import Spec

if TYPE_CHECKING:
    from fairchain.spec.conditions import Predicate

MOST_GROUPS = 500
GROUPS_EXAMPLE = "groups = {young = [17, 25], older = [26, 90]}"
TOO_MANY_VALUES = (
    'property.protected: "{name}" has {size} values, more than {most_groups} groups; join them into ranges in its '
    "[[feature]]: {example}"
)
TOO_MANY_GROUPS = (
    "property.protected: {count} groups are more than {most_groups}; join values into named groups in the [[feature]]: "
    "{example}"
)
RANGE_TOO_WIDE = (
    "{where}: [{low:g}, {high:g}] leaves the feature's own range [{whole_low:g}, {whole_high:g}]; narrow the group or "
    "widen the feature"
)


class Domain(Struct, frozen=True):
    """A uniform distribution over `low..high` (integers, or reals if `real`), or over `points` if given.

    Of two adjacent ranges of reals, the lower one is `open_high`: the border belongs to the upper one.
    """

    low: float
    high: float
    real: bool = False
    points: tuple[float, ...] = ()
    open_high: bool = False

    @property
    def size(self) -> int:
        """Number of values; 0 for an interval of reals."""
        if self.real:
            return 0
        return len(self.points) or int(self.high - self.low) + 1

    def overlaps(self, other: Domain) -> bool:
        """Return whether a value belongs to both (touching ends of real intervals do not count)."""
        if self.points:
            return any(other.contains(value) for value in self.points)
        if other.points:
            return other.overlaps(self)
        if self.real:
            return self.low < other.high and other.low < self.high
        return self.low <= other.high and other.low <= self.high

    def contains(self, value: float) -> bool:
        """Return whether this value can be drawn."""
        if self.points:
            return value in self.points
        return self.low <= value <= self.high and not (self.open_high and value == self.high)

    def holds(self, values: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Return which of these values belong to it; its ends are rounded like the values."""
        if self.points:
            return np.isin(values, np.array(self.points, values.dtype))
        low, high = values.dtype.type(self.low), values.dtype.type(self.high)
        inside: NDArray[np.bool_] = (values >= low) & ((values < high) if self.open_high else (values <= high))
        return inside


class Group(Struct, frozen=True):
    """A group to compare: a name and, for each protected feature in the spec's order, its values.

    A group of a formula may also have a `condition`, which its members must satisfy.
    """

    name: str
    domains: tuple[Domain, ...]
    condition: Predicate | None = None


def domain_of(feature: Feature) -> Domain:
    """Return all values of a feature."""
    if isinstance(feature, CategoryFeature):
        return Domain(0, len(feature.values) - 1)
    return Domain(feature.low, feature.high, real=isinstance(feature, RealFeature))


def groups_of(spec: Spec) -> tuple[Group, ...]:
    """Return every combination of the protected features' groups, named like `sex=Female & race=White`.

    The groups of a formula are its two conditions. Raises a SpecError if a protected feature is unknown, its groups are
    empty, overlap or leave its range, or only one is left.
    """
    if isinstance(spec.property, ProbabilityFormula):
        from fairchain.spec.formulas import formula_groups

        return formula_groups(spec.property, spec.features, spec.model.labels).groups
    by_name = {feature.name: feature for feature in spec.features}
    parts = [groups_of_feature(by_name[name]) for name in spec.property.protected]
    count = prod(map(len, parts))
    if count < 2:
        raise SpecError(
            f"property.protected: {', '.join(spec.property.protected)} has one group only, nothing to compare; "
            "state at least two groups, or protect a feature with at least two values"
        )
    if count > MOST_GROUPS:
        raise SpecError(TOO_MANY_GROUPS.format(count=count, most_groups=MOST_GROUPS, example=GROUPS_EXAMPLE))
    return tuple(
        Group(" & ".join(name for name, _ in choice), tuple(domain for _, domain in choice))
        for choice in product(*parts)
    )


def reference_group(spec: Spec, groups: Sequence[Group]) -> int | None:
    """Return the group with which the others are compared; None if each is compared with every other.

    Raises a SpecError if the stated reference is not one of the groups.
    """
    reference = getattr(spec.property, "reference", None)
    if reference is None:
        return None
    protected = spec.protected
    if isinstance(reference, dict):
        if sorted(reference) != sorted(protected):
            raise SpecError(
                f"property.reference: names {', '.join(reference) or 'nothing'}; name one group of each protected "
                f"feature: {', '.join(protected)}"
            )
        reference = " & ".join(f"{name}={reference[name]}" for name in protected)
    wanted = {part.strip() for part in reference.split("&")}
    for place, group in enumerate(groups):
        parts = group.name.split(" & ")
        values = [part.removeprefix(f"{name}=") for name, part in zip(protected, parts, strict=True)]
        if reference == group.name or (wanted in (set(parts), set(values)) and len(wanted) == len(parts)):
            return place
    # Without the feature's name, the text is a single value.
    names = [group.name if "=" in reference else group.name.removeprefix(f"{protected[0]}=") for group in groups]
    if reference in {group.name for group in groups_of(spec)}:
        raise SpecError(
            f'property.reference: "{reference}" is below property.min_size and is left out; choose another group'
        )
    raise SpecError(f'property.reference: "{reference}" is not one of the groups; {near(reference, names)}')


def groups_of_feature(feature: Feature) -> list[tuple[str, Domain]]:
    """Return the groups of a feature with their names, in the order of its values; without stated ones, its values.

    The order in a spec is irrelevant: it must not give an issuer another run with the same seed. Raises a SpecError if
    the groups are invalid.
    """
    whole = domain_of(feature)
    if not feature.groups:
        if whole.real:
            raise SpecError(
                f'property.protected: "{feature.name}" is real and has no stated groups; '
                f"divide it in its [[feature]]: {GROUPS_EXAMPLE}"
            )
        if whole.size > MOST_GROUPS:
            limits = {"size": whole.size, "most_groups": MOST_GROUPS, "example": GROUPS_EXAMPLE}
            raise SpecError(TOO_MANY_VALUES.format(name=feature.name, **limits))
        points = [whole.low + i for i in range(whole.size)]
        names = feature.values if isinstance(feature, CategoryFeature) else points
        return [(f"{feature.name}={name}", Domain(point, point)) for name, point in zip(names, points, strict=True)]
    named = [(name, _domain(feature, whole, name, expr)) for name, expr in feature.groups.items()]
    for (first, one), (second, other) in combinations(named, 2):
        if one.overlaps(other):
            raise SpecError(
                f'feature "{feature.name}".groups: "{first}" and "{second}" share values; '
                "give every value to one group at most"
            )
    named.sort(key=lambda group: group[1].low)
    starts = {domain.low for _, domain in named if domain.real}
    return [
        (f"{feature.name}={name}", replace(domain, open_high=domain.real and domain.high in starts))
        for name, domain in named
    ]


def _domain(feature: Feature, whole: Domain, name: str, expr: GroupExpr) -> Domain:
    """Return the values of one group expression."""
    where = f'feature "{feature.name}".groups.{name}'
    listed = expr.values if isinstance(expr, Members) else expr if isinstance(expr, tuple) else (expr,)
    if not isinstance(feature, CategoryFeature):
        return _number_domain(where, whole, expr, listed)
    index: dict[Any, int] = {value: place for place, value in enumerate(feature.values)}
    for value in listed or ():
        if value not in index:
            known = [str(each) for each in feature.values]
            raise SpecError(f'{where}: "{value}" is not one of the feature\'s values; {near(str(value), known)}')
    return _points(where, [index[value] for value in listed or ()])


def _number_domain(where: str, whole: Domain, expr: GroupExpr, listed: tuple[Any, ...] | None) -> Domain:
    """Return the range or the points of a group expression of a number; `listed` are its values."""
    ends: tuple[Any, ...] | None = None
    if isinstance(expr, Members):
        ends = None if expr.low is None and expr.high is None else (expr.low, expr.high)
        if listed is not None and ends is not None:
            raise SpecError(f"{where}: has values and low or high; keep either values or the range")
        if listed is None and (ends is None or None in ends):
            raise SpecError(f"{where}: a range needs both ends; write {{low = ..., high = ...}}")
    elif isinstance(expr, tuple):
        ends = expr
    for value in (listed or ()) if ends is None else ends:
        if isinstance(value, str):
            raise SpecError(f'{where}: found "{value}" where a number is needed')
        if not abs(value) <= 1.7e308:  # including NaN
            raise SpecError(f"{where}: every value must be a finite number")
    if ends and len(ends) != 2:
        raise SpecError(
            f"{where}: found a list of {len(ends)}; a range is [low, high], a set is {{values = [1, 3, 5]}}"
        )
    if whole.real and (ends is None or len(set(ends)) == 1):
        raise SpecError(f"{where}: a single real value has probability 0; write a range [low, high]")
    if ends:
        return _range(where, whole, *ends)
    for value in listed or ():
        if value != int(value) or not whole.low <= value <= whole.high:
            raise SpecError(
                f"{where}: {value:g} is not a whole number in the feature's range [{whole.low:g}, {whole.high:g}]"
            )
    return _points(where, listed or ())


def _range(where: str, whole: Domain, low: float, high: float) -> Domain:
    if low > high:
        raise SpecError(f"{where}: low {low:g} is above high {high:g}, a group with no values; exchange them")
    if not whole.real and (low != int(low) or high != int(high)):
        raise SpecError(f"{where}: the ends of an integer range must be whole numbers, found [{low:g}, {high:g}]")
    if low < whole.low or high > whole.high:
        raise SpecError(
            RANGE_TOO_WIDE.format(where=where, low=low, high=high, whole_low=whole.low, whole_high=whole.high)
        )
    return Domain(low, high, whole.real)


def _points(where: str, values: Sequence[float]) -> Domain:
    """Return these points in order as a domain."""
    if not values:
        raise SpecError(f"{where}: a group with no values; list at least one")
    points = tuple(sorted(values))
    if len(set(points)) != len(points):
        raise SpecError(f"{where}: a value occurs twice")
    return points_domain(points)


def points_domain(points: Sequence[float]) -> Domain:
    """Return these ascending points as a domain; consecutive ones become a range, which is drawn without a table."""
    if points[-1] - points[0] == len(points) - 1:
        return Domain(points[0], points[-1])
    return Domain(points[0], points[-1], points=tuple(points))
