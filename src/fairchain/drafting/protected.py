"""Who is compared: the features that a law may protect, and groups of them that have enough rows to speak of.

A category has one group for each value. Numbers are put into ranges whose ends are round, in the user's own units,
with neighbours joined until each has enough rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.drafting.draft_result import Guess
from fairchain.drafting.name_hints import is_quantity, like_protected
from fairchain.errors import SpecError
from fairchain.messages import MOST_LISTED, near, shown
from fairchain.spec import CategoryFeature, Feature, IntegerFeature
from fairchain.spec.schema import GroupExpr
from fairchain.tables.columns import number_text

ENOUGH = 30
# Up to so many different whole numbers each is a group of its own; numbered categories are many more.
FEW_VALUES, MANY_VALUES = 12, 100
MOST_RANGES = 10


class NobodyProtectedError(SpecError):
    """No name tells which feature is protected; `candidates` are those that have groups."""

    def __init__(self, message: str, candidates: tuple[str, ...]) -> None:
        super().__init__(message)
        self.candidates = candidates


@dataclass(frozen=True)
class Protection:
    """The features with groups written into those that are protected, and what the property says about them."""

    features: tuple[Feature, ...]
    protected: tuple[str, ...]
    min_size: float | None
    guesses: tuple[Guess, ...]


def candidates(names: Sequence[str], others: Sequence[str], given: Sequence[str], source: str) -> list[tuple[str, ...]]:
    """What may be protected, the likeliest first: what is given and nothing else, or one by its name.

    `names` are features, `others` columns of the table that the model does not take.
    """
    every = [*names, *others]
    for name in given:
        if name not in every:
            raise SpecError(f"protected: {source} has no column {shown(name)} ({near(name, every)})")
    if given:
        return [tuple(dict.fromkeys(given))]
    likely = like_protected(every)
    if likely:
        return [(name,) for name in likely]
    listed = ", ".join(shown(name) for name in names[:MOST_LISTED])
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    raise NobodyProtectedError(
        f"{source}: no name of a feature says that it is protected; name one with --protected (protected=[...]): "
        f"{listed}{more}",
        tuple(names),
    )


def protect(
    features: Sequence[Feature],
    values: NDArray[np.float64],
    protected: Sequence[str],
    likely: Sequence[str],
    source: str,
) -> Protection:
    """Write groups into the protected features, and leave out groups that are too small to speak of.

    Features that are likely protected too get groups as well, so that one may ask about them without more ado.
    """
    grouped = list(features)
    guesses: list[Guess] = []
    members = {}
    for place, feature in enumerate(features):
        if feature.name not in (*protected, *likely):
            continue
        made, member = group(feature, values[:, place])
        if len(np.unique(member)) < 2:
            if feature.name in protected:
                raise SpecError(
                    f"protected: {shown(feature.name)} has a single value in {source}, so there is nobody to compare; "
                    "name another feature with --protected (protected=[...])"
                )
            continue
        grouped[place], members[feature.name] = made, member
        if made.groups:
            guesses.append(Guess(f"feature.{feature.name}.groups", _about_groups(made)))
    least, guess = _least_size(grouped, protected, [members[name] for name in protected])
    return Protection(tuple(grouped), tuple(protected), least, (*guesses, *guess))


def group(feature: Feature, column: NDArray[np.float64]) -> tuple[Feature, NDArray[np.int64]]:
    """The feature with groups, and the number of the group that each row belongs to."""
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
    made = [(_number(low, whole), _number(high, whole)) for low, high in zip(starts, ends, strict=True)]
    groups = {_range_name(low, high, whole): (low, high) if low < high else low for low, high in made}
    return replace(feature, groups=groups), np.searchsorted(starts, column, side="right") - 1


def _number(value: float, whole: bool) -> float:
    return int(value) if whole else float(value)


def _range_name(low: float, high: float, whole: bool) -> str:
    if low == high:
        return number_text(low)
    dash = "-" if whole and low >= 0 else " to "
    return f"{number_text(low)}{dash}{number_text(high)}"


def _starts(column: NDArray[np.float64], whole: bool) -> list[float]:
    """Where the ranges begin: round numbers, or quantiles where round ones would leave everybody in one range."""
    enough = min(ENOUGH, max(1, len(column) // 4))
    rough, fine = _round_edges(float(column.min()), float(column.max()), whole), _quantiles(column, whole)
    for edges, least in ((rough, enough), (fine, enough), (fine, 1)):
        starts = _joined(edges, column, least)
        if len(starts) > 1:
            break
    return starts


def _quantiles(column: NDArray[np.float64], whole: bool) -> list[float]:
    """Edges at the quarters, and above the least number, which may be what most rows hold."""
    levels = np.unique(column)
    quarters = np.searchsorted(levels, np.quantile(column, [0.25, 0.5, 0.75], method="higher"))
    begins = np.array(sorted({1, *quarters.tolist()} - {0, len(levels)}), int)
    if whole:
        return [float(levels[0]), *levels[begins].tolist()]
    # A range of real numbers needs some width: it begins half way from the number below.
    edges = levels[begins] / 2 + levels[begins - 1] / 2
    return [float(levels[0]), *(edge for edge in edges.tolist() if levels[0] < edge < levels[-1])]


def _round_edges(low: float, high: float, whole: bool) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten: the closest ones that make no more ranges than wanted."""
    width = (high - low) / MOST_RANGES
    # Beyond these, steps and their multiples are no numbers any more.
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
    """The edges at which a range of enough rows begins; the last range takes what is left over."""
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


def _about_groups(feature: Feature) -> str:
    if all(not isinstance(members, tuple) for members in feature.groups.values()):
        return "Groups: one for each value that occurs; join or rename them as your question needs."
    return f"Groups: ranges with round ends and at least {ENOUGH} rows each, where there are as many; choose your own."


def _least_size(
    features: Sequence[Feature], protected: Sequence[str], members: Sequence[NDArray[np.int64]]
) -> tuple[float | None, tuple[Guess, ...]]:
    """A least size if some group, or combination of groups, has few rows or none."""
    by_name = {feature.name: feature for feature in features}
    total = math.prod(_group_count(by_name[name]) for name in protected)
    _, counts = np.unique(np.stack(members), axis=1, return_counts=True)
    least = ENOUGH if (counts >= ENOUGH).sum() >= 2 else 1
    few = total - int((counts >= least).sum())
    if not few:
        return None, ()
    text = f"Groups with fewer rows are left out: {few:,} of {total:,}."
    return float(least), (Guess("property.min_size", text),)


def _group_count(feature: Feature) -> int:
    return len(feature.groups) or (len(feature.values) if isinstance(feature, CategoryFeature) else 1)
