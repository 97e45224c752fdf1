"""The exact row after which the decision changes, found without a look at every row.

A group's bounds rise with every row that has the outcome and fall with every other (docs/monitor.md, "The moment"),
so the counts before and after a stretch of rows bound everything between. Stretches in which nothing can change are
passed over; the others are divided until few enough rows are left to look at each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairchain.evidence.counts import any_time
from fairchain.monitoring.bounds import Counts, GroupCounts, Mask, Question, decisions, existing, ranged_gap

Places = NDArray[np.intp]

# A stretch is divided into so many parts, and so many stretches at a time: numpy is quickest with some hundred values.
PARTS = 16
TOGETHER = 32
# More than rounding can do to a bound, so that no stretch is passed over by mistake.
SLACK = 1e-9


def first_change(counts: GroupCounts, codes: Places, hits: Mask, question: Question) -> int | None:
    """The place of the first of these rows after which the decision is not what it is now; None if there is none.

    `counts` has room for all groups of the rows; `codes` are the places of their groups in it.
    """
    if not len(codes) or len(counts.names) < 2:
        return None
    return _Search(counts, codes, hits, question).first()


def rows_unchanged(counts: GroupCounts, question: Question) -> int:
    """A number of rows after which the decision is still the same, whatever they are, if no new group comes."""
    if len(counts.names) < 2:
        return 0
    sizes = 2 ** np.arange(24)[:, None]
    asked, got = counts.asked + 0 * sizes, counts.got + 0 * sizes
    most = asked + sizes, got + sizes, asked - got + sizes
    may = _may_change(_now(counts, question), (asked, got), most, question)
    # Whatever can happen within some rows can happen within more.
    safe = int((~may).sum())
    return int(sizes[safe - 1, 0]) if safe else 0


class _Search:
    """One search through the rows of a block."""

    def __init__(self, counts: GroupCounts, codes: Places, hits: Mask, question: Question) -> None:
        self._counts, self._question, self._size = counts, question, len(codes)
        self._now = _now(counts, question)
        self._rows = [np.flatnonzero(codes == group) for group in range(len(counts.names))]
        self._hits = [rows[hits[rows]] for rows in self._rows]

    def first(self) -> int | None:
        """The place of the first change; stretches are taken in the order of their rows."""
        edges = np.array([[0, self._size]])
        waiting = edges[self._may_change(edges)]
        while len(waiting):
            now, waiting = waiting[:TOGETHER], waiting[TOGETHER:]
            # Only neighbours of one size are divided together, so that they end together.
            if int((now[:, 1] - now[:, 0]).max()) <= PARTS:
                found = self._look_at_each(now)
                if found is not None:
                    return found
            else:
                waiting = np.concatenate([self._divided(now), waiting])
        return None

    def _divided(self, stretches: Places) -> Places:
        """The parts of these stretches in which something can change."""
        share = np.arange(PARTS + 1) / PARTS
        edges = stretches[:, :1] + (share * (stretches[:, 1:] - stretches[:, :1])).astype(np.intp)
        parts = np.stack([edges[:, :-1], edges[:, 1:]], axis=2).reshape(-1, 2)
        parts = parts[parts[:, 0] < parts[:, 1]]
        return parts[self._may_change(parts)]

    def _look_at_each(self, stretches: Places) -> int | None:
        rows = np.concatenate([np.arange(start, stop) for start, stop in stretches])
        changed = decisions(*self._counts_before(rows + 1), self._question) != self._now
        return int(rows[changed.argmax()]) if changed.any() else None

    def _counts_before(self, rows: Places) -> tuple[Counts, Counts]:
        """(rows, groups) each: the counts before these rows."""
        asked, got = (
            np.stack([np.searchsorted(group, rows) for group in groups], axis=1) for groups in (self._rows, self._hits)
        )
        return self._counts.asked + asked, self._counts.got + got

    def _may_change(self, stretches: Places) -> Mask:
        before = self._counts_before(stretches[:, 0])
        asked, got = self._counts_before(stretches[:, 1])
        return _may_change(self._now, before, (asked, got, asked - got), self._question)


def _now(counts: GroupCounts, question: Question) -> int:
    return int(decisions(counts.asked[None], counts.got[None], question)[0])


def _may_change(
    now: int, before: tuple[Counts, Counts], after: tuple[Counts, Counts, Counts], question: Question
) -> Mask:
    """(stretches,): whether the decision could be another one at some time between these counts.

    `before` is asked and got, `after` the most that asked, got and failed can have become.
    """
    (asked, got), (most_asked, most_got, most_failed) = before, after
    failed = asked - got
    # Bounds are highest after all outcomes of a stretch and none of its other rows, lowest the other way round.
    corners = np.stack([most_got, got]), np.stack([most_got + failed, got + most_failed])
    (low_most, low_least), (high_most, high_least) = any_time(*corners, question.levels(asked.shape[-1]))
    first, last = existing(asked, question), existing(most_asked, question)
    if now == 1:
        return np.asarray(ranged_gap(low_least, high_most, last, question.kind)[1] > question.limit - SLACK)
    if now == 2:
        return np.asarray(ranged_gap(low_least, high_most, first, question.kind)[0] <= question.limit + SLACK)
    below = ranged_gap(low_most, high_least, last, question.kind)[0]
    # Of groups that come within the stretch nothing is known but that they may be alike.
    several = first.sum(axis=-1) > 1
    above = np.where(several, ranged_gap(low_most, high_least, first, question.kind)[1], -np.inf)
    return np.asarray((below > question.limit - SLACK) | (above <= question.limit + SLACK))
