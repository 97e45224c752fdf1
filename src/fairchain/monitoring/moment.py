"""The exact row after which the decision changes, found without a look at every row.

A group's bounds rise with every row that has the outcome and fall with every other (docs/monitor.md, "The moment"),
so the counts before and after a stretch of rows bound everything between. Stretches in which nothing can change are
passed over; the others are divided until few enough rows are left to look at each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairchain.monitoring.bounds import (
    DECISIONS,
    FAIR,
    UNFAIR,
    Counts,
    Floats,
    GroupCounts,
    Mask,
    MonitoredProperty,
    existing,
    gap_between,
    next_decisions,
)
from fairchain.statistics.rate_counts import any_time
from fairchain.statistics.rules import Decision

Places = NDArray[np.intp]
Pair = tuple[Counts, Counts]

# A stretch is divided into so many parts, and so many stretches at a time: numpy is quickest with some hundred values.
PARTS = 16
TOGETHER = 32
# More than rounding can do to a bound, so that no stretch is passed over by mistake.
SLACK = 1e-9


def first_change(
    now: Decision, counts: GroupCounts, codes: Places, hits: Mask, question: MonitoredProperty
) -> tuple[int, Decision] | None:
    """The place of the first of these rows after which the decision is not `now`, and what it is then.

    `counts` has room for all groups of the rows; `codes` are the places of their groups in it.
    """
    if not len(codes) or len(counts.names) < 2:
        return None
    return _Search(now, counts, codes, hits, question).first()


def rows_unchanged(now: Decision, counts: GroupCounts, question: MonitoredProperty) -> int:
    """A number of rows after which the decision is still `now`, whatever they are, if no new group comes."""
    if len(counts.names) < 2:
        return 0
    sizes = 2 ** np.arange(24)[:, None]
    got, failed = counts.got + 0 * sizes, counts.asked - counts.got + 0 * sizes
    here = existing(counts.asked, question)
    # A group that is not there yet is not asked either.
    may = _may_change(DECISIONS.index(now), (got, failed), (got + sizes * here, failed + sizes * here), question)
    # Whatever can happen within some rows can happen within more.
    safe = int((~may).sum())
    return int(sizes[safe - 1, 0]) if safe else 0


class _Search:
    """One search through the rows of a block."""

    def __init__(
        self, now: Decision, counts: GroupCounts, codes: Places, hits: Mask, question: MonitoredProperty
    ) -> None:
        self._now, self._counts, self._question, self._size = DECISIONS.index(now), counts, question, len(codes)
        self._groups = int(existing(counts.asked, question).sum())
        self._rows = [np.flatnonzero(codes == group) for group in range(len(counts.names))]
        self._hits = [rows[hits[rows]] for rows in self._rows]

    def first(self) -> tuple[int, Decision] | None:
        """The first change; stretches are taken in the order of their rows."""
        whole = np.array([[0, self._size]])
        waiting = whole[self._may_change(whole)]
        while len(waiting):
            some, waiting = waiting[:TOGETHER], waiting[TOGETHER:]
            if int((some[:, 1] - some[:, 0]).max()) > PARTS:
                waiting = np.concatenate([self._divided(some), waiting])
            elif (found := self._look_at_each(some)) is not None:
                return found
        return None

    def _divided(self, stretches: Places) -> Places:
        """The parts of these stretches in which something can change."""
        share = np.arange(PARTS + 1) / PARTS
        edges = stretches[:, :1] + (share * (stretches[:, 1:] - stretches[:, :1])).astype(np.intp)
        parts = np.stack([edges[:, :-1], edges[:, 1:]], axis=2).reshape(-1, 2)
        parts = parts[parts[:, 0] < parts[:, 1]]
        return parts[self._may_change(parts)]

    def _look_at_each(self, stretches: Places) -> tuple[int, Decision] | None:
        rows = np.concatenate([np.arange(start, stop) for start, stop in stretches])
        got, failed = self._counts_before(rows + 1)
        found = next_decisions(self._now, self._groups, got + failed, got, self._question)
        place = int((found != self._now).argmax())
        return (int(rows[place]), DECISIONS[found[place]]) if found[place] != self._now else None

    def _counts_before(self, rows: Places) -> Pair:
        """(rows, groups) each: how many got the outcome and how many did not, before these rows."""
        asked, got = (
            np.stack([np.searchsorted(group, rows) for group in groups], axis=1) for groups in (self._rows, self._hits)
        )
        return self._counts.got + got, self._counts.asked - self._counts.got + asked - got

    def _may_change(self, stretches: Places) -> Mask:
        return _may_change(
            self._now,
            self._counts_before(stretches[:, 0]),
            self._counts_before(stretches[:, 1]),
            self._question,
            self._groups,
        )


def _may_change(now: int, before: Pair, after: Pair, question: MonitoredProperty, groups: int | None = None) -> Mask:
    """(stretches,): whether the decision could be another one at some time between these counts.

    `before` and `after` say how many got the outcome and how many did not. More than `groups` groups end a FAIR.
    """
    (got, failed), (most_got, most_failed) = before, after
    first, last = existing(got + failed, question), existing(most_got + most_failed, question)
    # Rates and bounds are highest after all outcomes of a stretch and none of its other rows, and lowest the other
    # way round.
    if now == FAIR:
        came = last.sum(axis=-1) > groups if groups is not None else np.zeros(len(got), bool)
        gaps = gap_between(
            _rates(most_got, failed), _rates(got, most_failed), most_got + most_failed > 0, question.kind
        )
        return came | (gaps > question.limit - SLACK)
    if now == UNFAIR:
        gaps = gap_between(_rates(got, most_failed), _rates(most_got, failed), got + failed > 0, question.kind)
        return np.asarray(gaps <= question.limit + SLACK)
    corners = np.stack([most_got, got]), np.stack([most_got + failed, got + most_failed])
    low, high = any_time(*corners, question.levels(got.shape[-1]))
    low_most, high_least = low[0], high[1]
    below = gap_between(low_most, high_least, last, question.kind)
    # Of groups that come within the stretch nothing is known but that they may be alike.
    above = np.where(first.sum(axis=-1) > 1, gap_between(high_least, low_most, first, question.kind), -np.inf)
    return np.asarray((below > question.limit - SLACK) | (above <= question.limit + SLACK))


def _rates(got: Counts, failed: Counts) -> Floats:
    rates: Floats = got / np.maximum(got + failed, 1)
    return rates
