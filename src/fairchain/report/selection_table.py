"""Table of selection rates: the numbers of assessed and selected members of each group, and the impact ratio.

The impact ratio of a group is its selection rate divided by that of the group that is selected most often, as the
four-fifths rule and bias audits of hiring tools define it. If the intervals of all rates hold together, so do those of
the ratios: the highest rate is between the largest lower bound and the largest upper bound. For models with scores
there is also a scoring rate: the share of rows whose score is above the median of all rows.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field

from fairchain.messages import in_a_line
from fairchain.number_format import bounded, with_interval
from fairchain.spec.subgroups import AVERAGE, OVERALL
from fairchain.statistics import Interval
from fairchain.verification.record import EvaluatedGroup, VerdictRecord

# Characters with which a formula starts in a spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
FOUR_FIFTHS = 0.8
HEADERS = (
    *("question", "group", "outcome", "assessed", "selected", "selection rate", "rate low", "rate high"),
    *("impact ratio", "ratio low", "ratio high", "scored above the median", "scoring rate", "scoring ratio"),
    *("labelled rows", "decided right", "gained by the repair", "lost by the repair", "inputs of gained and lost"),
    "remark",
)


@dataclass(frozen=True)
class GroupFacts:
    """Counts of rows of one group: its support, rows decided correctly, and rows with a score above the median.

    None means unknown.
    """

    group: str
    support: int | None = None
    right: int | None = None
    above_median: int | None = None


@dataclass(frozen=True)
class RowsLeftOut:
    """Rows, or a share of the population, that are not compared, and the reason.

    `selected` and `above_median` count those that are selected and have a score above the median, if known.
    """

    group: str
    size: float
    selected: int | None
    reason: str
    above_median: int | None = None

    def rate(self, count: int | None) -> float | None:
        """Return a count as a share of these rows; None if unknown."""
        return None if count is None or self.size < 1 else count / self.size


@dataclass(frozen=True)
class RowFacts:
    """Facts about the rows of a question's groups beside its verdict; `support_is` describes the counted rows."""

    groups: tuple[GroupFacts, ...] = ()
    left_out: tuple[RowsLeftOut, ...] = ()
    median: float | None = None
    support_is: str = "labelled rows"


@dataclass(frozen=True)
class SelectionRow:
    """One group: the numbers assessed and selected (None if inputs are weighted), its rate, its impact ratio.

    `scoring` is the share with a score above the median, and `scoring_ratio` that share over the largest one.
    """

    group: str
    assessed: int | None
    selected: int | None
    rate: Interval
    ratio: Interval | None
    facts: GroupFacts
    scoring: float | None = None
    scoring_ratio: float | None = None
    remark: str = ""


@dataclass(frozen=True)
class SelectionTable:
    """The groups of one question and outcome, with rows that are not compared.

    `of_verdict` is the group with the smallest ratio, and that ratio in the verdict, if the verdict is about the same
    ratios: every table shows it with the same number and interval. `of_rows` is whether rows of a table were assessed,
    not drawn inputs. `moved` has for each group of a repaired model the decisions gained and lost, and the number of
    inputs behind them.
    """

    question: str
    outcome: str
    rows: tuple[SelectionRow, ...]
    facts: RowFacts = RowFacts()
    moved: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    of_verdict: tuple[str, Interval] | None = None
    of_rows: bool = False

    def shown_ratio(self, row: SelectionRow) -> str:
        """Return the impact ratio of a row with its interval; the smallest may be that of the verdict."""
        if row.ratio is None:
            return "–"
        if self.of_verdict is not None and row.group == self.of_verdict[0]:
            return f"{bounded(self.of_verdict[1], least=4, threshold=FOUR_FIFTHS)} (smallest)"
        return bounded(row.ratio, threshold=FOUR_FIFTHS)

    @property
    def four_fifths(self) -> str:
        """The comparison of the impact ratios with four fifths, in one sentence; empty if nothing is compared."""
        ratios = [row.ratio for row in self.rows if row.ratio is not None]
        if len(ratios) < 2:
            return ""
        low, high = min(ratio.low for ratio in ratios), min(ratio.high for ratio in ratios)
        shown = with_interval(min(ratio.estimate for ratio in ratios), low, high, threshold=FOUR_FIFTHS)
        if self.of_verdict is not None:
            ratio = self.of_verdict[1]
            low, high, shown = ratio.low, ratio.high, bounded(ratio, least=4, threshold=FOUR_FIFTHS)
        told = f"The smallest impact ratio is {shown}"
        if high < FOUR_FIFTHS:
            return f"{told}, below four fifths (0.8)."
        if low >= FOUR_FIFTHS:
            return f"{told}, not below four fifths (0.8)."
        return f"{told}; the data do not yet show on which side of four fifths (0.8) it is."


def selection_table(
    verdict: VerdictRecord,
    facts: RowFacts | None = None,
    *,
    outcome: str | None = None,
    moved: dict[str, tuple[int, int, int]] | None = None,
) -> SelectionTable | None:
    """Return the table of one outcome, by default that with the largest gap; None if no rates of groups are compared.

    `facts` are about the rows beside the verdict. `moved` has for each group the decisions that a repair gained and
    lost, and the inputs behind them.
    """
    outcome = verdict.gap.outcome if outcome is None else outcome
    groups = [group for group in verdict.groups if group.outcome == outcome]
    compared = [group for group in groups if group.name not in (OVERALL, AVERAGE)]
    if verdict.kind == "individual" or not compared:
        return None
    if facts is None:
        small = (RowsLeftOut(group.name, group.size, None, "smaller than min_size") for group in verdict.left_out)
        facts = RowFacts(left_out=tuple(small))
    known = {each.group: each for each in facts.groups}
    most = max(compared, key=lambda group: group.estimate)
    top_low, top_high = max(group.low for group in compared), max(group.high for group in compared)
    counted = verdict.engine in ("sampling", "counting")
    by_truth = "truth=" in verdict.question
    scoring = {
        group.name: above / group.evaluations
        for group in compared
        if group.evaluations and (above := known.get(group.name, GroupFacts("")).above_median) is not None
    }
    best = max(scoring.values(), default=0.0)
    gap, of_verdict = verdict.gap, None
    all_pairs = verdict.kind == "ratio" and verdict.question.startswith("for all i, j:") and verdict.shift is None
    # The smallest ratio is the verdict's, so no other is below it.
    floor = gap.low if all_pairs and gap.outcome == outcome else 0.0

    def impact_ratio(group: EvaluatedGroup) -> Interval | None:
        # Rates for different true labels are not compared with each other.
        if by_truth or most.estimate <= 0:
            return None
        low = group.low / top_high if top_high > 0 else 0.0
        high = min(group.high / top_low, 1.0) if top_low > 0 else 1.0
        ratio = group.estimate / most.estimate
        return Interval(ratio, min(max(low, min(floor, ratio)), 1.0), high)

    rows = []
    for group in compared:
        assessed, scored = group.evaluations if counted else None, scoring.get(group.name)
        rows.append(
            SelectionRow(
                group.name,
                assessed,
                None if assessed is None else round(group.estimate * assessed),
                Interval(group.estimate, group.low, group.high),
                impact_ratio(group),
                known.get(group.name, GroupFacts(group.name)),
                scored,
                None if scored is None or not best else scored / best,
                "selected most often" if group is most and not by_truth else "",
            )
        )
    least = min(compared, key=lambda group: group.estimate)
    if all_pairs and not by_truth and (gap.more, gap.less) == (most.name, least.name):
        of_verdict = least.name, Interval(gap.estimate, gap.low, gap.high)
    of_rows = verdict.rows is not None
    return SelectionTable(verdict.question, outcome, tuple(rows), facts, moved or {}, of_verdict, of_rows)


def selection_csv(tables: Sequence[SelectionTable]) -> str:
    """Return tables as CSV for spreadsheets; no cell starts a formula, and unknown values are empty.

    >>> from fairchain.statistics import Interval
    >>> rate, ratio = Interval(0.25, 0.2, 0.3), Interval(0.5, 0.4, 0.6)
    >>> row = SelectionRow("sex=Female", 40, 10, rate, ratio, GroupFacts("sex=Female"))
    >>> print(selection_csv([SelectionTable("by sex", "hired", (row,))]).splitlines()[1])
    by sex,sex=Female,hired,40,10,0.250000,0.200000,0.300000,0.500000,0.400000,0.600000,,,,,,,,,
    """
    written = io.StringIO()
    writer = csv.DictWriter(written, HEADERS, restval="", lineterminator="\n")
    writer.writeheader()
    for table in tables:
        about = {"question": _cell(table.question), "outcome": _cell(table.outcome)}
        for row in table.rows:
            gained, lost, inputs = table.moved.get(row.group, (None, None, None))
            cells = {
                "group": _cell(row.group),
                "assessed": row.assessed,
                "selected": row.selected,
                **_numbers(row.rate, ("selection rate", "rate low", "rate high")),
                **_numbers(row.ratio, ("impact ratio", "ratio low", "ratio high")),
                "scored above the median": row.facts.above_median,
                "scoring rate": _number(row.scoring),
                "scoring ratio": _number(row.scoring_ratio),
                "labelled rows": row.facts.support,
                "decided right": row.facts.right,
                "gained by the repair": gained,
                "lost by the repair": lost,
                "inputs of gained and lost": inputs,
                "remark": row.remark,
            }
            writer.writerow(about | cells)
        for left in table.facts.left_out:
            size = f"{left.size:,.0f} rows" if left.size >= 1 else f"a share of {left.size:g}"
            writer.writerow(
                about
                | {
                    "group": _cell(left.group),
                    "assessed": f"{left.size:.0f}" if left.size >= 1 else None,
                    "selected": left.selected,
                    "selection rate": _number(left.rate(left.selected)),
                    "scored above the median": left.above_median,
                    "scoring rate": _number(left.rate(left.above_median)),
                    "remark": f"left out, {left.reason}: {size}",
                }
            )
    return written.getvalue()


def _numbers(interval: Interval | None, keys: Sequence[str]) -> dict[str, str | None]:
    ends = (None,) * 3 if interval is None else (interval.estimate, interval.low, interval.high)
    return {key: _number(end) for key, end in zip(keys, ends, strict=True)}


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.6f}"


def _cell(name: str) -> str:
    """Return a name on one line that a spreadsheet reads as text."""
    line = in_a_line(name)
    return f"'{line}" if line.startswith(_FORMULA) else line
