"""The finite input space of a case: the enumerated inputs, their groups, and their order.

Both the enumeration engine and its recheck start from here; each of them weighs and counts independently. Inputs that
the network cannot distinguish are one point: features that it ignores are summed out, and values with the same encoding
are merged. Points are numbered in mixed radix over the remaining columns.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from math import floor, gcd, prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairchain.certificate_format import MOST_DIGITS
from fairchain.errors import SpecError
from fairchain.models.inspect.ignored_features import ignored_features
from fairchain.models.onnx.feature_encoding import encode_feature
from fairchain.populations.base import columns_of
from fairchain.prepare import Case
from fairchain.spec import CategoryFeature, Feature, Group, RealFeature
from fairchain.spec.conditions import given_features, predicate_of
from fairchain.spec.properties import shared_pairs

if TYPE_CHECKING:
    from fairchain.populations.finite import FiniteSpace

# Rows of a tile: large enough for an efficient call of the network, and small enough that its intermediate results fit
# in the processor's cache.
TILE = 8192
# Largest number of intervals of a real feature that the network gets in steps.
MOST_CUTS = 2**16
NOT_ENUMERABLE = 'guarantee.engine: the inputs cannot be enumerated: {why}; or use engine = "sampling"'
NO_INPUT = "{where} no input of {name}; weaken the condition, or leave out the groups for which it cannot hold"
CONDITION_NEVER_HOLDS = "property.given: holds for no input of the population; weaken it"
GROUP_OF_SEVERAL_VALUES = (
    'group "{several}" has several values, and an individual is shown with one of them drawn at random; give the '
    "feature groups of single values"
)


@dataclass(frozen=True)
class Shown:
    """Protected values with which every point is shown to the network.

    `indices` are the indices of the protected values in the space's columns, `values` the values themselves, and
    `parts` the counted parts to which an input with these values belongs.
    """

    indices: tuple[int, ...]
    values: tuple[float, ...]
    parts: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class InputSpace:
    """All inputs in the scope of a question.

    Parameters
    ----------
    space
        Every input with its weight, which is 0 if `given` does not hold.
    protected
        The columns of the protected features.
    order
        The other columns with several values, the one that changes slowest first: the digits of a point's number.
    tile
        The number of columns at the end of `order` that form a tile of points.
    shown
        The protected values with which each point is shown.
    parts, means
        Names of the counted parts, and for each subgroup of the comparison the parts whose mean it is.
    individual
        Whether a point's decisions are compared with each other: then its own protected values are summed out.
    summed
        Names of the features that the network ignores.
    pairs
        Outcome and two parts each, for which the excess of the outcome as the first part over the second is weighed,
        point by point: every point is shown as each part, with weights in the same proportion.
    """

    space: FiniteSpace
    protected: tuple[int, ...]
    order: tuple[int, ...]
    tile: int
    shown: tuple[Shown, ...]
    parts: tuple[str, ...]
    means: tuple[tuple[int, ...], ...]
    individual: bool
    summed: tuple[str, ...]
    pairs: tuple[tuple[int, int, int], ...] = ()

    @property
    def points(self) -> int:
        """The number of points; each is shown with all of `shown`."""
        return prod(self.space.sizes[column] for column in self.order)

    @property
    def evaluations(self) -> int:
        """Largest number of evaluations of the network for all points."""
        return self.points * len(self.shown)

    @property
    def tile_points(self) -> int:
        """The number of points of a tile."""
        return prod(self.space.sizes[column] for column in self.order[len(self.order) - self.tile :])

    @cached_property
    def part_masses(self) -> list[list[int]]:
        """The weight of every part, for each measure of the space: (measures, parts)."""
        found = []
        for factors in self.space.measures:
            if self.individual:
                found.append([self.space.marginal(factors, ()).item()])
                continue
            by_values = self.space.marginal(factors, self.protected)
            masses = [0] * len(self.parts)
            for shown in self.shown:
                for part in shown.parts:
                    masses[part] += by_values[shown.indices]
            found.append(masses)
        return found

    @cached_property
    def portions(self) -> tuple[list[int], list[int]]:
        """The multiplicity of a point with each of `shown`, and as each part: smallest integers.

        All are 1 if each part has one combination of protected values; the weights of a pair are then those of its
        first part, and otherwise multiplied by the portions of the second part.
        """
        if self.single:
            return [1] * len(self.shown), [1] * len(self.parts)
        by_values = self.space.marginal(self.space.measures[-1], self.protected)
        weights = [int(by_values[shown.indices]) for shown in self.shown]
        own = [weight // gcd(*weights) for weight in weights]
        parts = [0] * len(self.parts)
        for portion, shown in zip(own, self.shown, strict=True):
            for part in shown.parts:
                parts[part] += portion
        return own, parts

    @property
    def single(self) -> bool:
        """Whether each part has one combination of protected values, and no two parts have the same."""
        return sorted(part for shown in self.shown for part in shown.parts) == list(range(len(self.parts)))


def input_space(case: Case) -> InputSpace:
    """Return the finite input space of a case; raise a SpecError with the reason if it cannot be enumerated."""
    from fairchain.populations.finite import TooManyCellsError

    spec, individual = case.spec, case.comparison.individual
    if not spec.model.deterministic:
        raise _not_finite("the model is random (model.deterministic = false)")
    shown = _as_groups(case) if individual else ()
    names, given = [feature.name for feature in spec.features], given_features(spec)
    # Groups of a formula may have their own conditions. The columns that determine the groups: protected ones first.
    conditions = [group.condition for group in case.groups if group.condition is not None]
    of_conditions = {name for condition in conditions for name in condition.names}
    protected = columns_of(spec)
    protected = (*protected, *sorted({names.index(name) for name in of_conditions}.difference(protected)))
    ignored = ignored_features(case.model, spec)
    space = _all_inputs(case, ignored, {*given, *of_conditions})
    try:
        if given:
            predicate = predicate_of(spec)
            assert predicate is not None
            space = space.where([names.index(name) for name in given], predicate.holds)
        for column in protected if individual else ():
            space = space.merged(column)
        # Every counted group once; None for all inputs.
        subgroups = case.comparison.subgroups
        groups = list(dict.fromkeys(group for each in subgroups for group in (each.mixed or (each.group,))))
        shown = shown or _as_members(space, protected, groups, given=bool(given))
    except TooManyCellsError:
        raise _not_finite("the joint table of dependent features, or of the condition, is too large") from None
    for column, feature in enumerate(spec.features):
        if column not in protected:
            classes = None if column in ignored else _classes(feature, space.values[column])
            # Values stay apart if merging them takes too much memory.
            with suppress(TooManyCellsError):
                space = space.merged(column, classes)
    # Upper bound of the bits of a sum of weights; three bits are less than a digit.
    largest = sum(int(factor.weights.max()).bit_length() for factor in space.measures[-1])
    if largest + space.points.bit_length() > 3 * MOST_DIGITS:
        raise _not_finite(
            f"their weights have more than {MOST_DIGITS:,} digits; state probabilities with fewer decimals"
        )
    order, tile = _order([column for column in range(len(names)) if column not in protected], space.sizes)
    inputs = InputSpace(
        space=space,
        protected=protected,
        order=order,
        tile=tile,
        shown=shown,
        parts=("all",) if individual else tuple("all" if group is None else group.name for group in groups),
        means=((0,), ())
        if individual
        else tuple(
            tuple(groups.index(group) for group in (subgroup.mixed or (subgroup.group,)))
            for subgroup in case.comparison.subgroups
        ),
        individual=individual,
        summed=tuple(names[each] for each in sorted(ignored.difference(protected)) if len(space.values[each]) == 1),
    )
    if len(space.measures) == 1 or inputs.single:
        # The portions of several values are unknown if the weights are.
        means = [mean[0] if mean else 0 for mean in inputs.means]
        pairs = shared_pairs(spec, case.comparison)
        inputs = replace(inputs, pairs=tuple((outcome, means[i], means[j]) for outcome, i, j in pairs))
    try:
        masses = inputs.part_masses[-1]
    except TooManyCellsError:
        raise _not_finite("features depend on each other in too many ways") from None
    if not all(masses):
        raise SpecError(CONDITION_NEVER_HOLDS)
    return inputs


def _not_finite(why: str) -> SpecError:
    return SpecError(NOT_ENUMERABLE.format(why=why))


def _all_inputs(case: Case, ignored: Collection[int], given: Collection[str]) -> FiniteSpace:
    """Return every input of the population; a real feature is intervals if the network distinguishes no more."""
    cuts, protected = {}, case.spec.protected
    for column, feature in enumerate(case.spec.features):
        if isinstance(feature, RealFeature) and feature.name not in given:
            found = [] if column in ignored else _cuts(feature)
            if found is not None:
                # The ends of the groups of a protected feature are cuts too.
                places = [protected.index(feature.name)] if feature.name in protected else []
                domains = [group.domains[place] for place in places for group in case.groups]
                cuts[column] = [*found, *(end for domain in domains for end in (domain.low, domain.high))]
    space: FiniteSpace | None = case.population.finite_space(cuts) if case.population is not None else None
    if space is None:
        raise _not_finite(
            f"{case.described_population} has infinitely many, or a feature with more than a million; give real "
            "features bins or steps, and integers a narrower range"
        )
    return space


def _cuts(feature: RealFeature) -> list[float] | None:
    """Return the numbers at which the network's input for a feature changes; None if it changes everywhere."""
    if feature.bins is not None:
        return [float(edge) for edge in feature.bins]
    if feature.step is not None:
        first, last = floor(feature.low / feature.step), floor(feature.high / feature.step)
        return [step * feature.step for step in range(first, last + 1)] if last - first < MOST_CUTS else None
    return None


def _classes(feature: Feature, values: NDArray[np.float64]) -> list[int]:
    """Return for each value of a feature the number of its class: values with the same network input."""
    if isinstance(feature, CategoryFeature) and feature.codes is None:
        return list(range(len(values)))
    numbers: dict[bytes, int] = {}
    return [numbers.setdefault(row.tobytes(), len(numbers)) for row in encode_feature(feature, values)]


def _as_groups(case: Case) -> tuple[Shown, ...]:
    """Return the protected values of each group: every individual is shown with all of them."""
    shown, none = [], (0,) * len(case.spec.protected)
    for subgroup in case.comparison.subgroups:
        assert subgroup.group is not None
        if any(domain.size != 1 for domain in subgroup.group.domains):
            raise _not_finite(GROUP_OF_SEVERAL_VALUES.format(several=subgroup.name))
        shown.append(Shown(none, tuple(domain.low for domain in subgroup.group.domains), (0,)))
    return tuple(shown)


def _as_members(
    space: FiniteSpace, protected: Sequence[int], groups: Sequence[Group | None], *, given: bool
) -> tuple[Shown, ...]:
    """Return the protected values of inputs in the counted groups."""
    possible = space.marginal(space.measures[-1], protected)
    found = []
    for indices in np.ndindex(*possible.shape):
        values = tuple(float(space.values[column][i]) for column, i in zip(protected, indices, strict=True))
        row = np.zeros((1, len(space.values)))
        row[0, list(protected)] = values
        parts = tuple(place for place, group in enumerate(groups) if group is None or _belongs(values, row, group))
        if parts and possible[indices]:
            found.append(Shown(indices, values, parts))
    for place, group in enumerate(groups):
        if not any(place in shown.parts for shown in found):
            name = "the population" if group is None else f'group "{group.name}"'
            where = "property.given: holds for" if given else "population: has"
            raise SpecError(NO_INPUT.format(where=where, name=name))
    return tuple(found)


def _belongs(values: Sequence[float], row: NDArray[np.float64], group: Group) -> bool:
    """Return whether an input belongs to a group: by its protected values, which come first, and its condition."""
    inside = all(domain.contains(value) for value, domain in zip(values, group.domains, strict=False))
    return inside and (group.condition is None or bool(group.condition.holds(row)[0]))


def _order(columns: Sequence[int], sizes: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Return the columns with several values in the order of the digits, and the number of them in a tile.

    A tile has at most `TILE` points, and its columns are those that fill it best; or it is one long column, which is
    divided into strips.
    """
    free = [column for column in columns if sizes[column] > 1]
    # For each number of points of a set of columns, the first such columns.
    reached: dict[int, tuple[int, ...]] = {1: ()}
    for column in free:
        for points, inner in list(reached.items()):
            if points * sizes[column] <= TILE:
                reached.setdefault(points * sizes[column], (*inner, column))
    most = max(reached)
    inner, longest = reached[most], max(free, key=lambda column: sizes[column], default=None)
    if longest is not None and most < TILE // 8 and sizes[longest] > TILE:
        inner = (longest,)
    return (*(column for column in free if column not in inner), *inner), len(inner)
