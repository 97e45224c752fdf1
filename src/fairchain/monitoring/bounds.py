"""Bounds from the counts of each group, simultaneously valid after every row (docs/monitor.md).

Each group's rate has a confidence sequence, and all of them hold together with probability 1 - delta. The largest gap,
its bounds and the decision follow from these by arithmetic; nothing else is random. Every function takes the counts at
many times at once: arrays (..., groups).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import SpecError
from fairchain.statements import CONSTANT
from fairchain.statistics.intervals import Interval
from fairchain.statistics.rate_counts import any_time
from fairchain.statistics.rules import Decision

Measure = Literal["difference", "ratio"]
Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Mask = NDArray[np.bool_]

MOST_GROUPS = 500
# Largest count of a group: the sum over all groups is then far below 2**63.
MOST_GROUP_ROWS = 2**50
# Characters of a group's name. A state contains every name at most twice, with at most six bytes per character.
MOST_NAME = 1000
# Decisions by index: arrays of numbers are faster than arrays of objects.
DECISIONS = (Decision.UNDECIDED, Decision.FAIR, Decision.UNFAIR)
FAIR, UNFAIR = 1, 2


def name_problem(name: str) -> str:
    """Return why a group's name cannot be stored and shown; the empty text if it can."""
    if len(name) > MOST_NAME:
        return f"the name of a group has more than {MOST_NAME:,} characters; use a column with shorter values"
    return "the name of a group contains a NUL character; remove it" if "\0" in name else ""


@dataclass(frozen=True, kw_only=True)
class MonitoredProperty:
    """The monitored property: the largest gap between groups, its threshold and the error probability.

    The fields are the parameters of `Monitor`; `groups` is empty if groups are added when they occur.
    """

    threshold: float
    kind: Measure = "difference"
    delta: float = 0.05
    groups: tuple[str, ...] = ()
    allow_constant: bool = False

    def __post_init__(self) -> None:
        for name, least, advice in (
            ("threshold", 0.0, "a number strictly between 0 and 1, for example 0.1"),
            ("delta", 1e-100, "a probability from 1e-100 to below 1, for example 0.05"),
        ):
            found = getattr(self, name)
            try:
                number = math.nan if isinstance(found, str) else float(found)
            except (TypeError, ValueError, OverflowError):
                number = math.nan
            if not least <= number < 1 or not number:
                raise SpecError(f"{name}: found {ascii(found)[:60]}; write {advice}")
            object.__setattr__(self, name, number)
        if self.kind not in ("difference", "ratio"):
            raise SpecError(f'kind: found "{self.kind}"; write "difference" or "ratio"')
        if len(self.groups) == 1:
            raise SpecError(f'groups: only "{self.groups[0]}" is named; name at least two groups, or none')
        if len(set(self.groups)) < len(self.groups):
            raise SpecError("groups: a group is named twice; every name must be different")
        if len(self.groups) > MOST_GROUPS:
            raise SpecError(f"groups: {len(self.groups)} are more than {MOST_GROUPS}; join some of them")
        for name in self.groups:
            if problem := name_problem(name):
                raise SpecError(f"groups: {problem}")

    @property
    def limit(self) -> float:
        """The largest gap that still counts as fair; the gap of a ratio is 1 minus the ratio."""
        return self.threshold if self.kind == "difference" else 1 - self.threshold

    def levels(self, count: int) -> Floats:
        """Return the shares of delta: equal for named groups, delta / (i (i + 1)) for the i-th that occurred."""
        if self.groups:
            return np.full(count, self.delta / len(self.groups))
        i = np.arange(1.0, count + 1)
        return self.delta / (i * (i + 1))


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """The counts of a monitor: the rows of each group, and those of them with the outcome.

    Groups are in the order in which they were named or occurred.
    """

    question: MonitoredProperty
    names: tuple[str, ...]
    trials: Counts
    successes: Counts

    @classmethod
    def none(cls, question: MonitoredProperty) -> GroupCounts:
        """Return counts without rows."""
        zeros = np.zeros(len(question.groups), np.int64)
        return cls(question, question.groups, zeros, zeros)

    def widened(self, names: Sequence[str]) -> GroupCounts:
        """Return the counts with entries for groups that occurred later."""
        if len(names) == len(self.names):
            return self
        more = np.zeros(len(names) - len(self.names), np.int64)
        return GroupCounts(self.question, tuple(names), np.append(self.trials, more), np.append(self.successes, more))

    def after(self, codes: NDArray[np.intp], hits: Mask) -> GroupCounts:
        """Return the counts with these rows: the index of each one's group, and whether it got the outcome."""
        size = len(self.names)
        more, more_hits = np.bincount(codes, minlength=size), np.bincount(codes[hits], minlength=size)
        return GroupCounts(self.question, self.names, self.trials + more, self.successes + more_hits)

    def seen(self) -> GroupCounts:
        """Return the counts without groups that occur only in later rows; named groups always stay."""
        count = len(self.question.groups) or int((self.trials > 0).sum())
        return GroupCounts(self.question, self.names[:count], self.trials[:count], self.successes[:count])

    @property
    def rows(self) -> int:
        """The number of counted rows."""
        return int(self.trials.sum())

    @property
    def constant(self) -> bool | None:
        """Whether every row has the outcome (True) or none has it (False); None if there are both, or no rows."""
        successes, rows = int(self.successes.sum()), self.rows
        return None if not rows or 0 < successes < rows else successes == rows

    def concluded(self, decision: Decision) -> str:
        """Return the conclusion for a gate: CONSTANT instead of FAIR while every row has the same decision."""
        empty = decision is Decision.FAIR and self.constant is not None and not self.question.allow_constant
        return CONSTANT if empty else decision.name

    @property
    def rates(self) -> list[Interval]:
        """The rate of every group; all intervals hold together, at all times, with probability 1 - delta."""
        if not self.names:
            return []
        low, high = any_time(self.successes, self.trials, self.question.levels(len(self.names)))
        estimates = self.successes / np.maximum(self.trials, 1)
        return [Interval(float(e), float(a), float(b)) for e, a, b in zip(estimates, low, high, strict=True)]

    @property
    def gap(self) -> Interval:
        """The largest difference, or the smallest ratio; [0, 1] while nothing can be compared."""
        estimate, low, high, kind = 0.0, 0.0, 1.0, self.question.kind
        if (self.trials > 0).sum() >= 2:
            estimate = max(0.0, float(estimated_gap(self.trials, self.successes, kind)))
            bounds = monitored_gap_bounds(self.trials, self.successes, self.question)
            low, high = min(max(0.0, float(bounds[0])), estimate), max(min(1.0, float(bounds[1])), estimate)
        return Interval(1 - estimate, 1 - high, 1 - low) if kind == "ratio" else Interval(estimate, low, high)

    def widest(self) -> tuple[str, str] | None:
        """Return the groups with the highest and the lowest observed rate, if there are two."""
        if (self.trials > 0).sum() < 2:
            return None
        rates = np.where(self.trials > 0, self.successes / np.maximum(self.trials, 1), np.nan)
        more, less = int(np.nanargmax(rates)), int(np.nanargmin(rates))
        return (self.names[more], self.names[less]) if more != less else None


def existing(trials: Counts, question: MonitoredProperty) -> Mask:
    """Return which groups are compared: the named ones, or those that have occurred."""
    return np.ones(trials.shape, bool) if question.groups else trials > 0


def gap_between(more: Floats, less: Floats, here: Mask, kind: Measure) -> Floats:
    """Return the largest gap between two different groups that are `here`, (...,) from (..., groups).

    `more` are the rates of the group that is ahead and `less` those of the one behind: an upper bound takes upper and
    lower bounds, a lower bound the reverse. No group is behind a rate of 0. It is -inf or, for a ratio, 0 if there are
    not two groups.
    """
    more, less = np.where(here, more, -np.inf), np.where(here, less, np.inf)
    # The group behind is the one with the smallest rate, or for that one itself the second smallest.
    place = less.argmin(axis=-1)[..., None]
    smallest, second = np.take_along_axis(less, place, axis=-1), np.partition(less, 1, axis=-1)[..., 1:2]
    behind = np.where(np.arange(less.shape[-1]) == place, second, smallest)
    if kind == "difference":
        gaps: Floats = (more - behind).max(axis=-1)
    else:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            gaps = np.where(more > 0, 1 - behind / more, 0.0).max(axis=-1)
    return gaps


def estimated_gap(trials: Counts, successes: Counts, kind: Measure) -> Floats:
    """Return (...,): the largest gap between the observed rates, for groups that have rows."""
    rates = successes / np.maximum(trials, 1)
    return gap_between(rates, rates, trials > 0, kind)


def monitored_gap_bounds(trials: Counts, successes: Counts, question: MonitoredProperty) -> tuple[Floats, Floats]:
    """Return (...,) each: bounds of the largest gap; a named group without rows can have any rate."""
    low, high = any_time(successes, trials, question.levels(trials.shape[-1]))
    here = existing(trials, question)
    below, above = (gap_between(*sides, here, question.kind) for sides in ((low, high), (high, low)))
    return below, np.where(here.sum(axis=-1) > 1, above, np.inf)


def next_decisions(
    now: int, groups: int | Counts, trials: Counts, successes: Counts, question: MonitoredProperty
) -> NDArray[np.intp]:
    """Return the decision at each look, as indices of DECISIONS, if `now` was decided before it.

    If the bounds decide, this decision is used. Otherwise `now` is kept while the estimate agrees with it and, if it is
    FAIR, no more than `groups` groups have occurred: their number at the previous look, or at the one before each look.
    `trials` and `successes` are (looks, groups).
    """
    if trials.shape[-1] < 2:
        return np.zeros(len(trials), np.intp)
    low, high = monitored_gap_bounds(trials, successes, question)
    kept: Mask | bool = False
    if now:
        above = estimated_gap(trials, successes, question.kind) > question.limit
        kept = above if now == UNFAIR else ~above & (existing(trials, question).sum(axis=-1) <= groups)
    return np.where(low > question.limit, UNFAIR, np.where(high <= question.limit, FAIR, np.where(kept, now, 0)))


def _look_grid() -> Counts:
    """Return the row counts at which the bounds are computed: each up to 256, then in steps of 1%."""
    grid = list(range(1, 257))
    while grid[-1] < MOST_GROUPS * MOST_GROUP_ROWS:
        grid.append(grid[-1] + max(1, grid[-1] // 100))
    return np.array(grid, np.int64)


GRID = _look_grid()


def _looks(counts: GroupCounts, codes: NDArray[np.intp], hits: Mask) -> NDArray[np.intp]:
    """Return the rows after which the bounds are computed: the grid, the first row of a group, a second decision."""
    rows, successes = int(counts.trials.sum()), int(counts.successes.sum())
    first, last = GRID.searchsorted((rows, rows + len(codes)), side="right")
    if first == last and 0 < successes < rows and counts.trials[codes].all():
        return codes[:0]
    looks = [GRID[first:last] - rows - 1]
    if not counts.question.groups:
        looks += [np.flatnonzero(codes == group)[:1] for group in np.flatnonzero(counts.trials == 0)]
    if not rows or counts.constant is not None:
        looks.append(np.flatnonzero(hits != (counts.constant if rows else hits[0]))[:1])
    return np.unique(np.concatenate(looks))


def advance(
    counts: GroupCounts, decision: Decision, codes: NDArray[np.intp], hits: Mask
) -> tuple[int, GroupCounts, Decision]:
    """Count rows until the conclusion changes, or all of them; return their number, the new counts and decision.

    The bounds are valid at all times, so the result is sound for any choice of looks; they depend only on the rows, so
    the result does not depend on the blocks in which they arrive (docs/monitor.md, "The looks"). `counts` has an entry
    for every group of the rows; `codes` and `hits` are, for at least one row, the index of its group, and whether it
    has the outcome.
    """
    looks, question = _looks(counts, codes, hits), counts.question
    if len(looks) and len(counts.names) > 1:
        now, size = DECISIONS.index(decision), len(counts.names)
        # For each row, the first look that includes it; rows after the last look are not needed.
        place = np.repeat(np.arange(len(looks)), np.diff(looks, prepend=-1)) * size + codes[: looks[-1] + 1]
        trials, successes = (
            before + np.bincount(each, minlength=len(looks) * size).reshape(-1, size).cumsum(axis=0)
            for before, each in ((counts.trials, place), (counts.successes, place[hits[: looks[-1] + 1]]))
        )
        groups = existing(trials, question).sum(axis=-1)
        before = np.append(existing(counts.trials, question).sum(), groups[:-1])
        found = next_decisions(now, before, trials, successes, question)
        changed = found != now
        if decision is Decision.FAIR and counts.constant is not None:
            total = successes.sum(axis=-1)
            changed |= (total > 0) & (total < trials.sum(axis=-1))
        if changed.any():
            look = int(changed.argmax())
            done = int(looks[look]) + 1
            return done, counts.after(codes[:done], hits[:done]), DECISIONS[found[look]]
    return len(codes), counts.after(codes, hits), decision
