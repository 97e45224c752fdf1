"""Groups to compare: features that may be protected, and ranges of them that have enough rows.

A category has one group for each value. Numbers are put into ranges whose ends are round, in the user's own units,
with neighbours joined until each has enough rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.drafting.columns import PROTECTED_WORDS, like_protected, words_of
from fairchain.drafting.guesses import DraftOptions, Guess
from fairchain.errors import NoProtectedFeatureError, SpecError
from fairchain.messages import listed, shown, unknown
from fairchain.spec import CategoryFeature, Feature, IntegerFeature
from fairchain.spec.schema import GroupExpr
from fairchain.tables.columns import number_text

ENOUGH = 30
# Up to so many different whole numbers each is a group of its own; numbered categories are many more.
FEW_VALUES, MANY_VALUES = 12, 100
MOST_RANGES = 10
VALUES = "Groups: one for each value that occurs; join or rename them as your question needs."
RANGES = f"Groups: ranges with round ends and at least {ENOUGH} rows each, where there are as many; choose your own."
NO_PROTECTED_NAME = (
    "{source}: no name of a feature says that it is protected; name one with --protected (protected=[...]): {names}"
)
SINGLE_VALUE = (
    "protected: {name} has a single value in {source}, so there are no groups to compare; name another feature with "
    "--protected (protected=[...])"
)


def candidates(
    names: Sequence[str], others: Sequence[str], given: Sequence[str], source: str
) -> Sequence[tuple[str, ...]]:
    """Return the possible protected features, the likeliest first: those given, or one by its name.

    `names` are features, `others` columns of the table that the model does not take.
    """
    every = [*names, *others]
    for name in given:
        if name not in every:
            raise SpecError(f"protected: {unknown('column', name, every)}")
    if given:
        return [tuple(dict.fromkeys(given))]
    likely = [(name,) for name in like_protected(every)]
    if not likely:
        raise NoProtectedFeatureError(NO_PROTECTED_NAME.format(source=source, names=listed(names)), tuple(names))
    return likely


def with_groups(
    features: Sequence[Feature],
    values: NDArray[np.float64],
    protected: Sequence[str],
    source: str,
    options: DraftOptions,
) -> tuple[tuple[Feature, ...], float | None, tuple[Guess, ...]]:
    """Return the features with groups, the smallest size of a group that is compared, and the guesses about both.

    Features that are likely protected too get groups as well, so that a later run may compare them.
    """
    grouped = [with_stated_groups(feature, options.groups) for feature in features]
    likely = like_protected(
        [feature.name for feature in features if feature.model_input] if options.every_group else ()
    )
    guesses, members, sizes = [], {}, {}
    for place, feature in enumerate(grouped):
        if feature.name not in (*protected, *likely) or feature.name in options.groups:
            continue
        made, member = group(feature, values[:, place])
        if (member == member[0]).all():
            if feature.name in protected:
                raise SpecError(SINGLE_VALUE.format(name=shown(feature.name), source=source))
            continue
        grouped[place], members[feature.name] = made, member
        sizes[feature.name] = len(made.values if isinstance(made, CategoryFeature) else made.groups)
        if made.groups:
            values_only = not any(isinstance(each, tuple) for each in made.groups.values())
            guesses.append(Guess(f"feature.{feature.name}.groups", VALUES if values_only else RANGES))
    if any(name in options.groups for name in protected) or "min_size" in options.property:
        return tuple(grouped), None, tuple(guesses)
    counts = _combination_counts([members[name] for name in protected])
    total = math.prod(sizes[name] for name in protected)
    least = ENOUGH if (counts >= ENOUGH).sum() >= 2 else 1
    few = total - int((counts >= least).sum())
    if few:
        guesses.append(Guess("property.min_size", f"Groups with fewer rows are left out: {few:,} of {total:,}."))
    return tuple(grouped), float(least) if few else None, tuple(guesses)


def _combination_counts(members: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return how many rows each combination of groups has that occurs, from the index of each row's groups.

    >>> _combination_counts([np.array([0, 0, 1, 1]), np.array([2, 2, 2, 0])])
    array([2, 1, 1])
    """
    codes, counts = members[0], np.bincount(members[0])
    for each in members[1:]:
        _, codes, counts = np.unique(codes * (int(each.max()) + 1) + each, return_inverse=True, return_counts=True)
    return counts[counts > 0]


def with_stated_groups(feature: Feature, stated: Mapping[str, Mapping[str, GroupExpr]]) -> Feature:
    """Return the feature with its stated groups; a number may have all their values, also those without a row."""
    if feature.name not in stated:
        return feature
    groups = stated[feature.name]
    feature = replace(feature, groups=dict(groups))
    ends = [end for each in groups.values() for end in (each if isinstance(each, list | tuple) else (each,))]
    numbers = [end for end in ends if isinstance(end, int | float)]
    if isinstance(feature, CategoryFeature) or not numbers:
        return feature
    return replace(feature, low=min(feature.low, *numbers), high=max(feature.high, *numbers))


def is_quantity(name: str) -> bool:
    """Return whether neighbouring numbers of a feature are alike: true of ages and hours, not of numbered countries.

    >>> [is_quantity(name) for name in ("age", "hours", "race", "native-country", "age at marriage")]
    [True, True, False, False, True]
    """
    words = words_of(name)
    return "age" in words or not any(word in PROTECTED_WORDS for word in words)


def group(feature: Feature, column: NDArray[np.float64]) -> tuple[Feature, NDArray[np.int64]]:
    """Return the feature with groups, and the index of each row's group."""
    if isinstance(feature, CategoryFeature):
        return feature, column.astype(np.int64)
    levels = np.unique(column)
    whole = isinstance(feature, IntegerFeature)
    if whole and len(levels) <= (FEW_VALUES if is_quantity(feature.name) else MANY_VALUES):
        groups: dict[str, GroupExpr] = {number_text(level): int(level) for level in levels}
        return replace(feature, groups=groups), np.searchsorted(levels, column)
    starts = np.array(_starts(column, whole))
    ends = [*(starts[1:] - 1 if whole else starts[1:]), feature.high]
    starts[0] = feature.low
    groups = {}
    for start, end in zip(starts, ends, strict=True):
        low, high = (int(start), int(end)) if whole else (float(start), float(end))
        to = f"{'-' if whole and low >= 0 else ' to '}{number_text(high)}" if low < high else ""
        groups[f"{number_text(low)}{to}"] = (low, high) if low < high else low
    return replace(feature, groups=groups), np.searchsorted(starts, column, side="right") - 1


def _starts(column: NDArray[np.float64], whole: bool) -> list[float]:
    """Return the starts of the ranges: round numbers, or the median where round ones would leave a single range."""
    enough = min(ENOUGH, max(1, len(column) // 4))
    starts = _joined(_round_edges(float(column.min()), float(column.max()), whole), column, enough)
    levels = np.unique(column)
    if len(starts) > 1 or len(levels) < 2:
        return starts
    place = min(int(np.searchsorted(levels, np.median(column), side="right")), len(levels) - 1)
    # A range of real numbers needs some width: it begins half way from the number below.
    middle = float(levels[place] if whole else levels[place] / 2 + levels[place - 1] / 2)
    return [float(levels[0]), middle] if levels[0] < middle and (whole or middle < levels[-1]) else starts


def _round_edges(low: float, high: float, whole: bool) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten: the finest that give at most MOST_RANGES ranges."""
    width = (high - low) / MOST_RANGES
    # Beyond these, steps and their multiples are not representable.
    if not 1e-290 < width < 1e290 or max(abs(low), abs(high)) / width > 1e15:
        return [low]
    power = math.floor(math.log10(width))
    for exponent in range(power, power + 3):
        for digit in (1, 2, 5):
            step = digit * 10.0**exponent
            # What ends at a round number needs no range for that number alone.
            first, last = math.floor(low / step), math.ceil(high / step)
            if last - first <= MOST_RANGES and (not whole or step >= 1):
                edges = [float(f"{place * step:.12g}") for place in range(first, last)]
                return [low, *(edge for edge in edges if edge > low)]
    return [low]


def _joined(edges: Sequence[float], column: NDArray[np.float64], enough: int) -> list[float]:
    """Return the edges at which a range of enough rows begins; the last range takes the remaining rows."""
    counts = np.bincount(np.searchsorted(edges, column, side="right") - 1, minlength=len(edges))
    kept, rows = [edges[0]], 0
    for edge, count in zip(edges[1:], counts[:-1], strict=True):
        rows += int(count)
        if rows >= enough:
            kept.append(edge)
            rows = 0
    if len(kept) > 1 and rows + int(counts[-1]) < enough:
        kept.pop()
    return kept
