"""Boxes of inputs with independent features: their probabilities, the network's inputs in them, and sampling in them.

A box is an interval on each axis of a `BoxSpace`. Each feature that is not protected has its own axis. A protected
feature has no axis if there are few protected values: each combination is then a *member*, evaluated for every box, and
a subgroup is a weighted mean over members. Otherwise its axis is the quantile that all subgroups share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import SpecError
from fairchain.models.inspect.linear_bounds import InputBoxes
from fairchain.models.onnx.feature_encoding import encode_feature, widths
from fairchain.models.onnx.inputs import Feed
from fairchain.models.onnx.session import OnnxModel
from fairchain.populations.base import columns_of
from fairchain.populations.distributions import Counted, Distribution, Ranges
from fairchain.populations.marginals import distributions_of
from fairchain.prepare import Case
from fairchain.spec import CategoryFeature, Feature
from fairchain.spec.subgroups import unmixed

Floats = NDArray[np.float64]
# Largest number of combinations of protected values that are evaluated one by one; with more, the axis of a protected
# feature is split.
MOST_MEMBERS = 64
# How far a quantile is moved outward: far more than the rounding error of its computation.
OUTWARD = 1e-12
BOUNDS_OF_INDIVIDUALS = (
    'guarantee.engine: "bounds" compares individuals as groups of one value each; give every protected feature groups '
    "of single values"
)


class Axis:
    """A coordinate along which boxes are divided, from `low` to `high`; by default the quantile of a protected feature.

    It is uniform in [0, 1], and subgroups share it. A `real` axis is divided at real numbers; any other has whole
    numbers, and a box contains both ends.
    """

    low, high, real = 0.0, 1.0, True

    def masses(self, low: Floats, high: Floats) -> Floats:
        """Return the probability of each interval, with a relative error of a few rounding units."""
        return high - low

    def values(self, places: Floats) -> Floats:
        """Return the feature's value at each position; at a quantile each member has its own."""
        return places

    def draw(self, low: Floats, high: Floats, unit: Floats) -> Floats:
        """Return a position in each interval, with the axis's distribution there, from uniform reals in [0, 1)."""
        return low + (high - low) * unit


class ListedAxis(Axis):
    """Values with integer counts; a position is the index of a value."""

    real = False

    def __init__(self, listed: Counted) -> None:
        kept = listed.counts > 0
        self._values, self._sums = listed.values[kept], np.concatenate([[0], np.cumsum(listed.counts[kept])])
        self.high = float(len(self._values) - 1)

    def masses(self, low: Floats, high: Floats) -> Floats:
        """Return the share of the counts."""
        sums = self._sums
        return np.asarray((sums[high.astype(np.intp) + 1] - sums[low.astype(np.intp)]) / sums[-1])

    def values(self, places: Floats) -> Floats:
        """Return the values with these indices."""
        return self._values[places.astype(np.intp)]

    def draw(self, low: Floats, high: Floats, unit: Floats) -> Floats:
        """Return the index of a value, with probability proportional to its count."""
        sums = self._sums.astype(float)
        first, last = sums[low.astype(np.intp)], sums[high.astype(np.intp) + 1]
        found = np.searchsorted(sums, first + (last - first) * unit, side="right") - 1.0
        return np.asarray(np.clip(found, low, high))


class RangesAxis(Axis):
    """Ranges with weights, uniform inside each; a position is the value itself."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges, self.real = ranges, ranges.real
        self.low, self.high = float(ranges.parts[0].low), float(ranges.parts[-1].high)

    def masses(self, low: Floats, high: Floats) -> Floats:
        """Return the sum over the ranges of the share of each that is inside."""
        return np.asarray(self._inside(low, high)[0].sum(axis=-1))

    def _inside(self, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
        """Return (..., ranges): the probability, the lower and the upper end of each part of an interval."""
        lows, highs, share = self._columns
        whole = 0 if self.real else 1
        first, last = np.maximum(low[..., None], lows), np.minimum(high[..., None], highs)
        return share * np.maximum(last - first + whole, 0.0) / (highs - lows + whole), first, last

    @cached_property
    def _columns(self) -> tuple[Floats, Floats, Floats]:
        """Lows, highs and probabilities of the ranges."""
        parts, mass = self.ranges.parts, self.ranges.mass
        share = [float(part.weight / mass) for part in parts]
        return np.array([part.low for part in parts]), np.array([part.high for part in parts]), np.array(share)

    def draw(self, low: Floats, high: Floats, unit: Floats) -> Floats:
        """Choose a range by its share of the interval, then a position in it."""
        if len(self.ranges.parts) == 1:
            return self._placed(low, high, unit)
        mass, first, last = self._inside(low, high)
        ends = np.cumsum(mass, axis=-1)
        wanted = unit * ends[..., -1]
        chosen = np.minimum((wanted[..., None] >= ends).sum(axis=-1), mass.shape[-1] - 1)[..., None]
        mass, end, first, last = (
            np.take_along_axis(each, chosen, axis=-1)[..., 0] for each in (mass, ends, first, last)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.clip(np.where(mass > 0, (wanted - (end - mass)) / mass, 0.0), 0.0, 1.0)
        return np.clip(self._placed(first, last, inner), low, high)

    def _placed(self, first: Floats, last: Floats, unit: Floats) -> Floats:
        """Return a uniform position between two ends of one range."""
        if self.real:
            return np.minimum(first + (last - first) * unit, last)
        return np.minimum(np.floor(first + (last - first + 1) * unit), last)


def quantiles(distribution: Distribution, places: Floats) -> Floats:
    """Return the quantiles of a distribution at positions in [0, 1], in floating-point arithmetic."""
    if isinstance(distribution, Counted):
        ends = np.cumsum(distribution.counts) / distribution.counts.sum()
        index = np.minimum(np.searchsorted(ends, places, side="right"), len(ends) - 1)
        return distribution.values[index]
    axis = RangesAxis(distribution)
    everywhere = np.full(len(places), axis.low), np.full(len(places), axis.high)
    return axis.draw(*everywhere, np.clip(places, 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class Member:
    """Protected features of a part of the inputs: one value or one distribution for each protected column."""

    distributions: tuple[Distribution, ...]

    def values(self, place: int, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return bounds of a protected feature between two quantiles, moved outward."""
        found = self.distributions[place]
        if (value := single(found)) is not None:
            fixed = np.full(len(low), value)
            return fixed, fixed
        first, last = quantiles(found, low - OUTWARD), quantiles(found, high + OUTWARD)
        if isinstance(found, Ranges) and found.real:
            reach = 1e-15 * (abs(found.parts[0].low) + abs(found.parts[-1].high))
            first, last = first - reach, last + reach
            first, last = np.maximum(first, found.parts[0].low), np.minimum(last, found.parts[-1].high)
        return first, last


def single(distribution: Distribution) -> float | None:
    """Return the only value of a distribution, or None if there are several."""
    if isinstance(distribution, Counted):
        return float(distribution.values[0]) if len(distribution.values) == 1 else None
    part = distribution.parts[0]
    return float(part.low) if len(distribution.parts) == 1 and part.low == part.high else None


def points_of(distribution: Distribution, most: int) -> list[tuple[float, float]] | None:
    """Return the values of a distribution with their probabilities; None for reals or more than `most`."""
    if isinstance(distribution, Counted):
        mass = int(distribution.counts.sum())
        points = zip(distribution.values.tolist(), distribution.counts.tolist(), strict=True)
        found = [(value, count / mass) for value, count in points if count]
        return found if len(found) <= most else None
    sizes = [int(part.high - part.low) + 1 for part in distribution.parts]
    if distribution.real or sum(sizes) > most:
        return None
    return [
        (part.low + index, float(part.weight / distribution.mass / size))
        for part, size in zip(distribution.parts, sizes, strict=True)
        for index in range(size)
    ]


class WeightedChoice:
    """Numbers drawn by probabilities that are proportional to `mass`; sums are of whole numbers, thus exact."""

    def __init__(self, mass: Floats) -> None:
        self._ends = np.cumsum(np.rint(mass / mass.sum() * 2.0**52).astype(np.int64))
        # The first number of each of many equal parts: most searches end a step or two behind it.
        parts = 4 * len(mass)
        self._width = -(-int(self._ends[-1]) // parts)
        self._firsts = np.searchsorted(self._ends, np.arange(parts) * self._width, side="right")

    def __call__(self, units: Floats) -> NDArray[np.intp]:
        """Return a number for each uniform real in [0, 1)."""
        ends = self._ends
        wanted = (units * float(ends[-1])).astype(np.int64)
        chosen = self._firsts.take(wanted // self._width, mode="clip")
        for _ in range(2):
            chosen += ends.take(chosen, mode="clip") <= wanted
        late = np.flatnonzero(ends.take(chosen, mode="clip") <= wanted)
        chosen[late] = np.searchsorted(ends, wanted[late], side="right")
        return np.minimum(chosen, len(ends) - 1)


@dataclass(frozen=True, eq=False)
class BoxSpace:
    """The inputs of a question as a space of boxes.

    `features` are those of the spec, in the order of the columns; `columns` has the column of each of the `axes`, and
    `protected` those of the protected features. `members` are combinations of protected values, and `weights` their
    shares in each subgroup, (subgroups, members). The `model` determines the number type and the order of its inputs.
    """

    features: tuple[Feature, ...]
    axes: tuple[Axis, ...]
    columns: tuple[int, ...]
    protected: tuple[int, ...]
    members: tuple[Member, ...]
    weights: Floats
    model: OnnxModel

    @property
    def finite(self) -> bool:
        """Whether a box has finitely many inputs."""
        return not any(axis.real for axis in self.axes)

    @property
    def whole(self) -> tuple[Floats, Floats]:
        """The box of all inputs: its lower and upper ends, (1, axes) each."""
        return np.array([[axis.low for axis in self.axes]]), np.array([[axis.high for axis in self.axes]])

    @cached_property
    def relative_error(self) -> float:
        """Bound of the relative error of the probability of a box."""
        parts = [len(axis.ranges.parts) for axis in self.axes if isinstance(axis, RangesAxis)]
        return (8 * len(self.axes) + sum(parts) + 8) * 2.0**-52

    @property
    def free_axes(self) -> tuple[Axis, ...]:
        """The axes of features that are not protected."""
        return tuple(axis for axis in self.axes if isinstance(axis, ListedAxis | RangesAxis))

    @property
    def draw_error(self) -> float:
        """Bound of the total variation distance between a draw in a box and the exact distribution, due to rounding."""
        sizes = [axis.high - axis.low + 1 for axis in self.axes if not axis.real]
        return (sum(sizes) + 8 * len(self.axes) + 64) * 2.0**-51

    def masses(self, low: Floats, high: Floats) -> Floats:
        """Return the probability of each box, (boxes,) from (boxes, axes)."""
        mass = np.ones(len(low))
        for place, axis in enumerate(self.axes):
            mass *= axis.masses(low[:, place], high[:, place])
        return mass

    def halves(self, low: Floats, high: Floats, axis: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Return (2, boxes, axes): both halves of each box, divided at the middle of an axis."""
        rows = np.arange(len(low))
        middle = low[rows, axis] + (high[rows, axis] - low[rows, axis]) / 2
        real = np.array([each.real for each in self.axes])[axis]
        lows, highs = np.stack([low, low]), np.stack([high, high])
        highs[0, rows, axis] = np.where(real, middle, np.floor(middle))
        lows[1, rows, axis] = np.where(real, middle, np.floor(middle) + 1)
        return lows, highs

    def points(self, low: Floats, high: Floats) -> NDArray[np.float64]:
        """Return the number of inputs in each box; infinite for reals."""
        if not self.axes:
            return np.ones(len(low))
        sizes = np.where([axis.real for axis in self.axes], np.inf, high - low + 1)
        return np.asarray(sizes.prod(axis=1))

    def places_in(self, low: Floats, high: Floats) -> Floats:
        """Return every position in one finite box, (points, axes)."""
        ranges = [np.arange(first, last + 1) for first, last in zip(low, high, strict=True)]
        return np.array(list(product(*ranges)), float).reshape(-1, len(ranges))

    def draw(self, low: Floats, high: Floats, units: Floats) -> Floats:
        """Return a position in each box, (boxes, axes), from uniform reals of the same shape."""
        places = np.empty_like(low)
        for place, axis in enumerate(self.axes):
            places[:, place] = axis.draw(low[:, place], high[:, place], units[:, place])
        return places

    def inputs(self, places: Floats, members: NDArray[np.intp]) -> NDArray[Any]:
        """Return the feature values at these positions, each as one member: (rows, features), ready for the model."""
        return self.shown_as(self.shared_inputs(places), places, members)

    def shared_inputs(self, places: Floats) -> Floats:
        """Return the feature values at these positions, (rows, features), without those of a member."""
        shown = np.zeros((len(places), len(self.features)))
        for place, (column, axis) in enumerate(zip(self.columns, self.axes, strict=True)):
            shown[:, column] = axis.values(places[:, place])
        return shown

    def shown_as(self, shown: Floats, places: Floats, members: int | NDArray[np.intp]) -> NDArray[Any]:
        """Put in the protected values of one member, or of one for each row; return what the model gets."""
        numbers = [members] if isinstance(members, int) else range(len(self.members))
        for number in numbers:
            rows: Any = slice(None) if isinstance(members, int) else np.flatnonzero(members == number)
            for place, column in enumerate(self.protected):
                distribution = self.members[number].distributions[place]
                value = single(distribution)
                shown[rows, column] = (
                    quantiles(distribution, places[rows, self.columns.index(column)]) if value is None else value
                )
        return shown.astype(self.model.dtype)

    def network_inputs(self, low: Floats, high: Floats, members: NDArray[np.intp]) -> InputBoxes:
        """Return the intervals of the network's inputs in each box as one member."""
        rows = len(low)
        first, last = np.zeros((rows, len(self.features))), np.zeros((rows, len(self.features)))
        for place, (column, axis) in enumerate(zip(self.columns, self.axes, strict=True)):
            first[:, column], last[:, column] = axis.values(low[:, place]), axis.values(high[:, place])
        for number, member in enumerate(self.members):
            chosen = np.flatnonzero(members == number)
            for place, column in enumerate(self.protected):
                span = first[chosen, column], last[chosen, column]
                first[chosen, column], last[chosen, column] = member.values(place, *span)
        return self._encoded(first.astype(self.model.dtype), last.astype(self.model.dtype))

    def _encoded(self, first: NDArray[Any], last: NDArray[Any]) -> InputBoxes:
        """Return intervals of the network's inputs: every encoding is monotone, one-hot, or given by a table."""
        feed = self.model.inputs
        assert isinstance(feed, Feed)
        spans = widths(self.features)
        width = sum(spans[place] for slot in feed.slots for place in slot.features)
        low, high = np.zeros((len(first), width)), np.zeros((len(first), width))
        blocks: list[slice] = []
        firsts, lasts = [], []
        start = 0
        for slot in feed.slots:
            for place in slot.features:
                feature, span = self.features[place], slice(start, start + spans[place])
                ends = first[:, place], last[:, place]
                if feature.one_hot:
                    blocks.append(span)
                    firsts.append(encode_feature(feature, ends[0]).argmax(axis=1))
                    lasts.append(encode_feature(feature, ends[1]).argmax(axis=1))
                elif isinstance(feature, CategoryFeature) and feature.codes is not None:
                    low[:, start], high[:, start] = _code_range(feature, slot.dtype, *ends)
                else:
                    low[:, start], high[:, start] = (
                        encode_feature(feature, each)[:, 0].astype(slot.dtype).astype(np.float64) for each in ends
                    )
                start += spans[place]
        none = np.zeros((len(first), 0), np.int64)
        first_values, last_values = (np.stack(each, axis=1) if blocks else none for each in (firsts, lasts))
        return InputBoxes(low, high, first_values, last_values, tuple(blocks))

    def widths_of(self, weights: Floats, boxes: InputBoxes, splittable: NDArray[np.bool_]) -> Floats:
        """Return (rows, axes): the change of a linear function of the network's inputs along each axis of a box."""
        feed = self.model.inputs
        assert isinstance(feed, Feed)
        spans = widths(self.features)
        moves = np.zeros((len(weights), len(self.features)))
        reach = boxes.high - boxes.low
        start, block = 0, 0
        for slot in feed.slots:
            for place in slot.features:
                span = slice(start, start + spans[place])
                if self.features[place].one_hot:
                    index = np.arange(spans[place])
                    inside = (index >= boxes.first[:, block, None]) & (index <= boxes.last[:, block, None])
                    most = np.where(inside, weights[:, span], 0.0).max(axis=1)
                    moves[:, place] = np.where(inside.sum(axis=1) > 1, most, 0.0)
                    block += 1
                else:
                    moves[:, place] = (weights[:, span] * reach[:, span]).sum(axis=1)
                start += spans[place]
        return np.where(splittable, moves[:, list(self.columns)], -1.0)


def _code_range(
    feature: CategoryFeature, dtype: Any, first: NDArray[Any], last: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the smallest and largest code of the values between two numbers."""
    codes = np.asarray(feature.codes, np.float64).astype(dtype).astype(np.float64)
    low, high = np.empty(len(first)), np.empty(len(first))
    for start, end in {*zip(first.tolist(), last.tolist(), strict=True)}:
        rows = (first == start) & (last == end)
        between = codes[int(start) : int(end) + 1]
        low[rows], high[rows] = between.min(), between.max()
    return low, high


def box_space(case: Case) -> BoxSpace:
    """Return the box space of a case; raise a SpecError if individuals are compared as groups of several values."""
    spec, comparison, model = case.spec, case.comparison, case.model
    assert isinstance(model, OnnxModel)
    distributions = distributions_of(spec, case.rows)
    protected = columns_of(spec)
    # The distributions of the protected features in each group, or in the overall population.
    restricted = [
        tuple(distributions[column] for column in protected)
        if part.group is None
        else tuple(
            distributions[column].within(each) for column, each in zip(protected, part.group.domains, strict=True)
        )
        for part in unmixed(comparison.subgroups)
    ]
    members, shares = _members(restricted)
    ranges = any(single(each) is None for member in members for each in member.distributions)
    if comparison.individual and (ranges or (shares.max(axis=1) < 1).any()):
        raise SpecError(BOUNDS_OF_INDIVIDUALS)
    weights = np.zeros((len(comparison.subgroups), len(members)))
    start = 0
    for row, subgroup in enumerate(comparison.subgroups):
        count = max(len(subgroup.mixed), 1)
        weights[row] = shares[start : start + count].mean(axis=0)
        start += count
    axes: dict[int, Axis] = {}
    for column, distribution in enumerate(distributions):
        if column in protected:
            place = protected.index(column)
            if any(single(member.distributions[place]) is None for member in members):
                axes[column] = Axis()
        elif spec.features[column].model_input:
            axes[column] = ListedAxis(distribution) if isinstance(distribution, Counted) else RangesAxis(distribution)
    return BoxSpace(spec.features, tuple(axes.values()), tuple(axes), protected, members, weights, model)


def _members(restricted: Sequence[tuple[Distribution, ...]]) -> tuple[tuple[Member, ...], Floats]:
    """Return the members, and the share of each in every part: single values if these are few, otherwise the parts."""
    listed = [[points_of(each, MOST_MEMBERS) for each in part] for part in restricted]
    shares: list[dict[tuple[float, ...], float]] = []
    for part in listed:
        if any(points is None for points in part):
            break
        combined = product(*(points for points in part if points is not None))
        shares.append({tuple(value for value, _ in each): prod(share for _, share in each) for each in combined})
    found = sorted({values for part in shares for values in part})
    if len(shares) < len(restricted) or len(found) > MOST_MEMBERS:
        return tuple(Member(part) for part in restricted), np.eye(len(restricted))
    members = tuple(Member(tuple(Counted(np.array([value]), np.array([1])) for value in values)) for values in found)
    return members, np.array([[part.get(values, 0.0) for values in found] for part in shares])
