"""The plan as a record, and as sentences."""

from __future__ import annotations

from typing import Literal

from fairchain.records import Record
from fairchain.statistics.forecast import Spread

PropertyKind = Literal["difference", "ratio", "individual"]


class CurvePoint(Record, frozen=True, kw_only=True):
    """The cost of a verdict at one gap (or ratio): evaluations, or rows of each group for a table."""

    gap: float
    verdict: str
    evaluations: Spread | None = None
    rows: int | None = None


class RowsPlan(Record, frozen=True, kw_only=True):
    """A table that is read as a sample.

    `sizes` are the rows of each subgroup, if there is a table, and `decided` the share of samples of this size that
    decide the assumed gap. `needed` are the rows of each subgroup with which 95 of 100 samples decide it. Gaps up to
    `fair_up_to` and from `unfair_from` on are decided by 95 of 100 samples of this size; ratios for a ratio.
    """

    sizes: tuple[int, ...] | None
    decided: float | None
    needed: tuple[int, ...] | None
    fair_up_to: float | None
    unfair_from: float | None


class QuestionPlan(Record, frozen=True, kw_only=True):
    """The expected cost of the verdict on one question.

    `verdict` is that of most simulated runs. `seconds` is None without a measured or stated speed, `rounds` if none are
    drawn. Each number has its mean and the value that 95 of 100 runs do not exceed.
    """

    question: str
    engine: Literal["sampling", "enumeration", "counting"]
    kind: PropertyKind
    threshold: float
    delta: float
    groups: tuple[str, ...]
    verdict: str | None = None
    rounds: Spread | None = None
    evaluations: Spread
    seconds: Spread | None = None
    rows: RowsPlan | None = None
    assumptions: tuple[str, ...] = ()
    curve: tuple[CurvePoint, ...] = ()


class VerificationPlan(Record, frozen=True, kw_only=True):
    """The result of `plan`: a forecast of the cost for one or several questions.

    `evaluations` and `seconds` are the sums over the questions. Questions about the same inputs share evaluations, so
    the real numbers may be smaller.
    """

    delta: float
    evaluations: Spread
    seconds: Spread | None
    questions: tuple[QuestionPlan, ...]

    def __str__(self) -> str:
        return "\n".join(line for each in self.questions for line in plan_lines(each))


def plan_lines(found: QuestionPlan) -> list[str]:
    """Return a plan as sentences."""
    evaluations = amount(found.evaluations, "evaluations")
    lines = [f"{found.question}, delta {found.delta:g}", f"  {found.engine}: {evaluations}"]
    measured = {"rounds": found.rounds, "seconds": found.seconds}
    lines += [f"  {amount(spread, unit)}" for unit, spread in measured.items() if spread is not None]
    if found.verdict is not None:
        lines.append(f"  expected verdict: {found.verdict}")
    if found.rows is not None:
        rows, what = found.rows, "ratio" if found.kind == "ratio" else "gap"
        if rows.decided is not None:
            lines.append(f"  {rows.decided:.0%} of samples of this size lead to the correct verdict")
        needed = ", ".join(f"{size:,}" for size in (rows.needed or ())[:8])
        lines.append(
            f"  rows of each group with which 95 of 100 samples lead to the correct verdict: {needed}"
            if rows.needed
            else "  rows needed: more than a billion in a group"
        )
        sides = ("smallest", "largest") if what == "ratio" else ("largest", "smallest")
        for verdict, side, end in zip(("FAIR", "UNFAIR"), sides, (rows.fair_up_to, rows.unfair_from), strict=True):
            if rows.sizes is not None:
                shown = "none" if end is None else f"{end:g}"
                lines.append(f"  {side} {what} that these rows show to be {verdict}: {shown}")
    return [*lines, *(f"  assumed: {each}" for each in found.assumptions)]


def amount(spread: Spread, unit: str) -> str:
    """Return a mean and the value that 95 of 100 runs do not exceed."""
    if spread.mean is None or spread.most is None:
        return f"{unit}: no forecast of an end, because the gap is too near to the threshold"
    if spread.mean == spread.most:
        return f"{_shown(spread.mean)} {unit}"
    return f"{_shown(spread.mean)} {unit} on average, at most {_shown(spread.most)} in 95 of 100 runs"


def _shown(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
