"""Table of selection rates: for each group how many were assessed and selected, and the impact ratio.

The impact ratio of a group is its selection rate divided by that of the group that is selected most often, as the
four-fifths rule and bias audits of hiring tools define it. Where the intervals of all rates hold together, so do those
of the ratios: the highest rate lies between the largest lower bound and the largest upper bound.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from fairchain.messages import in_a_line
from fairchain.number_format import with_interval
from fairchain.spec.subgroups import AVERAGE, OVERALL
from fairchain.statistics import Interval
from fairchain.verification.record import EvaluatedGroup, GroupRate, VerdictRecord

# Signs with which a spreadsheet would begin a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
FOUR_FIFTHS = 0.8
HEADERS = (
    "question",
    "group",
    "outcome",
    "assessed",
    "selected",
    "selection rate",
    "rate low",
    "rate high",
    "impact ratio",
    "ratio low",
    "ratio high",
    "remark",
)


@dataclass(frozen=True)
class SelectionRow:
    """One group: how many were assessed and selected (None where inputs are weighted), its rate, its impact ratio."""

    group: str
    assessed: int | None
    selected: int | None
    rate: Interval
    ratio: Interval | None
    remark: str = ""


@dataclass(frozen=True)
class SelectionTable:
    """The groups of one question and outcome; `left_out` were too small to be compared, with their size."""

    question: str
    outcome: str
    rows: tuple[SelectionRow, ...]
    left_out: tuple[tuple[str, float], ...] = ()

    @property
    def smallest(self) -> float:
        """The smallest impact ratio; 1 where there is none."""
        return min((row.ratio.estimate for row in self.rows if row.ratio is not None), default=1.0)

    @property
    def four_fifths(self) -> str:
        """How the impact ratios compare with four fifths, in one sentence; empty where nothing is compared."""
        ratios = [row.ratio for row in self.rows if row.ratio is not None]
        if len(ratios) < 2:
            return ""
        low, high = min(ratio.low for ratio in ratios), min(ratio.high for ratio in ratios)
        told = f"The smallest impact ratio is {with_interval(self.smallest, low, high, threshold=FOUR_FIFTHS)}"
        if high < FOUR_FIFTHS:
            return f"{told}, below four fifths (0.8)."
        if low >= FOUR_FIFTHS:
            return f"{told}, not below four fifths (0.8)."
        return f"{told}; the data do not yet show on which side of four fifths (0.8) it is."


def selection_table(
    groups: Sequence[GroupRate], verdict: VerdictRecord, *, rounds: int | None = None
) -> SelectionTable | None:
    """Return the table of one outcome; None where a question compares no rates of groups.

    Parameters
    ----------
    groups
        The rates of one outcome with their intervals, which hold together.
    verdict
        The question that they belong to.
    rounds
        How often each group was evaluated, where the groups do not say it.
    """
    compared = [group for group in groups if group.name not in (OVERALL, AVERAGE)]
    if verdict.kind == "individual" or not compared:
        return None
    most = max(compared, key=lambda group: group.estimate)
    top_low, top_high = max(group.low for group in compared), max(group.high for group in compared)
    counted = verdict.engine in ("sampling", "counting")
    # Rates among different true labels are not compared with each other.
    by_truth = "truth=" in verdict.question
    rows = []
    for group in compared:
        own = group.evaluations if isinstance(group, EvaluatedGroup) else rounds
        assessed = own if counted else None
        rows.append(
            SelectionRow(
                group.name,
                assessed,
                None if assessed is None else round(group.estimate * assessed),
                Interval(group.estimate, group.low, group.high),
                None if by_truth else _ratio(group, most, top_low, top_high),
                "selected most often" if group is most and not by_truth else "",
            )
        )
    small = tuple((group.name, group.size) for group in verdict.left_out)
    return SelectionTable(verdict.question, compared[0].outcome, tuple(rows), small)


def _ratio(group: GroupRate, most: GroupRate, top_low: float, top_high: float) -> Interval | None:
    """Return the impact ratio with its interval; None where no group is ever selected, as far as is known."""
    if most.estimate <= 0:
        return None
    low = group.low / top_high if top_high > 0 else 0.0
    high = min(group.high / top_low, 1.0) if top_low > 0 else 1.0
    return Interval(group.estimate / most.estimate, min(low, 1.0), high)


def selection_csv(tables: Sequence[SelectionTable]) -> str:
    """Return tables as CSV for spreadsheets; no cell can act as a formula there.

    >>> from fairchain.statistics import Interval
    >>> row = SelectionRow("sex=Female", 40, 10, Interval(0.25, 0.2, 0.3), Interval(0.5, 0.4, 0.6))
    >>> print(selection_csv([SelectionTable("by sex", "hired", (row,))]).splitlines()[1])
    by sex,sex=Female,hired,40,10,0.250000,0.200000,0.300000,0.500000,0.400000,0.600000,
    """
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(HEADERS)
    for table in tables:
        for row in table.rows:
            ratio = ["", "", ""] if row.ratio is None else _numbers(row.ratio)
            counts = ["" if count is None else count for count in (row.assessed, row.selected)]
            cells = [
                _cell(table.question),
                _cell(row.group),
                _cell(table.outcome),
                *counts,
                *_numbers(row.rate),
                *ratio,
                row.remark,
            ]
            writer.writerow(cells)
        for name, size in table.left_out:
            counted = f"{size:g} rows" if size >= 1 else f"a share of {size:g}"
            writer.writerow(
                [
                    _cell(table.question),
                    _cell(name),
                    _cell(table.outcome),
                    *[""] * 8,
                    f"left out as too small: {counted}",
                ]
            )
    return written.getvalue()


def _numbers(interval: Interval) -> list[str]:
    return [f"{number:.6f}" for number in (interval.estimate, interval.low, interval.high)]


def _cell(name: str) -> str:
    """Return a name on one line that a spreadsheet takes as text."""
    line = in_a_line(name)
    return f"'{line}" if line.startswith(_FORMULA) else line
