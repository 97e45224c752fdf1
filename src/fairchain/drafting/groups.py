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

from fairchain.drafting.columns import PROTECTED_WORDS, Columns, like_protected, words_of
from fairchain.drafting.guesses import DraftOptions, Guess
from fairchain.errors import NoProtectedFeatureError, SpecError
from fairchain.messages import listed, shown, unknown
from fairchain.spec import CategoryFeature, Feature, IntegerFeature
from fairchain.spec.feature_keys import GroupExpr
from fairchain.tables.columns import number_text

ENOUGH = 30
# Up to so many different whole numbers each is a group of its own; numbered categories are many more.
FEW_VALUES, MANY_VALUES = 12, 100
MOST_RANGES = 10
VALUES = "Groups: one for each value that occurs; join or rename them as your question needs."
RANGES = f"Groups: ranges with round ends and, if possible, at least {ENOUGH} rows each; check them, or state your own."
NO_PROTECTED_NAME = (
    "{source}: no name of a feature says that it is protected; name one with --protected (protected=[...]): {names}"
)
COLUMNS_IN_ONE_NAME = (
    '{source}: protected: "{name}" names several columns; for their combinations repeat the option: {repeated} '
    "(protected={parts} in Python)"
)
SINGLE_VALUE = (
    "protected: {name} has a single value in {source}, so there are no groups to compare; name another feature with "
    "--protected (protected=[...])"
)


def find_protected(
    columns: Columns, inputs: Sequence[str], options: DraftOptions, told: list[Guess]
) -> tuple[str, ...]:
    """Return the protected features: those given, or the likeliest column by its name that has several values."""
    source = next(iter(columns.values())).table.source
    for name in options.protected:
        if name not in columns:
            parts = [part.strip() for part in name.split(",")]
            if all(part in columns for part in parts):
                repeated = " ".join(f"--protected {shown(part)}" for part in parts)
                raise SpecError(COLUMNS_IN_ONE_NAME.format(source=source, name=name, repeated=repeated, parts=parts))
            raise SpecError(f"{source}: protected: {unknown('column', name, [*columns])}")
    protected, likely = tuple(dict.fromkeys(options.protected)), like_protected(columns)
    if not protected and not likely:
        raise NoProtectedFeatureError(NO_PROTECTED_NAME.format(source=source, names=listed(inputs)), tuple(inputs))
    if not protected:
        protected = (next((name for name in likely if len(columns[name].counts) > 1), likely[0]),)
    also = [shown(name) for name in likely if name not in protected]
    why = [] if options.protected else [f"Guess: {shown(protected[0])}, by its name."]
    why += [f"Also likely: {', '.join(also)}."] if also and options.every_group else []
    if why:
        told.append(Guess("property.protected", " ".join(why)))
    return protected


def with_groups(
    features: Sequence[Feature],
    values: NDArray[np.float64],
    protected: Sequence[str],
    source: str,
    options: DraftOptions,
    told: list[Guess],
) -> tuple[tuple[Feature, ...], float | None]:
    """Return the features with groups, and the smallest size of a group that is compared.

    Features that are likely protected too get groups as well, so that a later run may compare them.
    """
    grouped = [with_stated_groups(feature, options.groups) for feature in features]
    likely = like_protected(feature.name for feature in features if feature.model_input and options.every_group)
    codes, total = np.zeros(len(values), np.int64), 1
    for place, feature in enumerate(grouped):
        if feature.name not in (*protected, *likely) or feature.name in options.groups:
            continue
        made, member = group(feature, values[:, place])
        if (member == member[0]).all():
            if feature.name in protected:
                raise SpecError(SINGLE_VALUE.format(name=shown(feature.name), source=source))
            continue
        grouped[place] = made
        if feature.name in protected:
            size = len(made.values if isinstance(made, CategoryFeature) else made.groups)
            total *= size
            # Numbers of the combinations that occur.
            codes = np.unique(codes * size + member, return_inverse=True)[1]
        if made.groups:
            ranges = any(isinstance(each, tuple) for each in made.groups.values())
            told.append(Guess(f"feature.{feature.name}.groups", RANGES if ranges else VALUES))
    if any(name in options.groups for name in protected) or "min_size" in options.property:
        return tuple(grouped), None
    counts = np.bincount(codes)
    least = ENOUGH if (counts >= ENOUGH).sum() >= 2 else 1
    few = total - int((counts >= least).sum())
    if few:
        told.append(Guess("property.min_size", f"Groups with fewer rows are left out: {few:,} of {total:,}."))
    return tuple(grouped), float(least) if few else None


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


def group(feature: Feature, column: NDArray[np.float64]) -> tuple[Feature, NDArray[np.int64]]:
    """Return the feature with groups, and the index of each row's group."""
    if isinstance(feature, CategoryFeature):
        return feature, column.astype(np.int64)
    levels = np.unique(column)
    whole, words = isinstance(feature, IntegerFeature), words_of(feature.name)
    # Neighbouring numbers are alike in ages and hours, and not in numbered countries.
    quantity = "age" in words or not any(word in PROTECTED_WORDS for word in words)
    if whole and len(levels) <= (FEW_VALUES if quantity else MANY_VALUES):
        groups: dict[str, GroupExpr] = {number_text(level): int(level) for level in levels}
        return replace(feature, groups=groups), np.searchsorted(levels, column)
    starts = np.array(_starts(column, levels, whole))
    ends = [*(starts[1:] - 1 if whole else starts[1:]), feature.high]
    starts[0] = feature.low
    groups = {}
    for start, end in zip(starts, ends, strict=True):
        low, high = (int(start), int(end)) if whole else (float(start), float(end))
        to = f"{'-' if whole and low >= 0 else ' to '}{number_text(high)}" if low < high else ""
        groups[f"{number_text(low)}{to}"] = (low, high) if low < high else low
    return replace(feature, groups=groups), np.searchsorted(starts, column, side="right") - 1


def _starts(column: NDArray[np.float64], levels: NDArray[np.float64], whole: bool) -> list[float]:
    """Return the starts of the ranges: round numbers at which a range of enough rows begins.

    Where these leave a single range, a second one begins at the median. The last range takes the remaining rows.
    """
    enough = min(ENOUGH, max(1, len(column) // 4))
    edges = _round_edges(float(levels[0]), float(levels[-1]), whole)
    counts = np.bincount(np.searchsorted(edges, column, side="right") - 1, minlength=len(edges))
    kept, rows = [edges[0]], 0
    for edge, count in zip(edges[1:], counts[:-1], strict=True):
        rows += int(count)
        if rows >= enough:
            kept.append(edge)
            rows = 0
    if len(kept) > 1 and rows + int(counts[-1]) < enough:
        kept.pop()
    if len(kept) > 1 or len(levels) < 2:
        return kept
    place = min(int(np.searchsorted(levels, np.median(column), side="right")), len(levels) - 1)
    # A range of real numbers needs some width: it begins half way from the number below.
    middle = float(levels[place] if whole else levels[place] / 2 + levels[place - 1] / 2)
    return [float(levels[0]), middle] if levels[0] < middle and (whole or middle < levels[-1]) else kept


def _round_edges(low: float, high: float, whole: bool) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten: the finest that give at most MOST_RANGES ranges."""
    width = (high - low) / MOST_RANGES
    # Beyond these, steps and their multiples are not representable.
    if not 1e-290 < width < 1e290 or max(abs(low), abs(high)) / width > 1e15:
        return [low]
    power = math.floor(math.log10(width))
    for step in (digit * 10.0**exponent for exponent in range(power, power + 3) for digit in (1, 2, 5)):
        # What ends at a round number needs no range for that number alone.
        first, last = math.floor(low / step), math.ceil(high / step)
        if last - first <= MOST_RANGES and (not whole or step >= 1):
            edges = [float(f"{place * step:.12g}") for place in range(first, last)]
            return [low, *(edge for edge in edges if edge > low)]
    return [low]
