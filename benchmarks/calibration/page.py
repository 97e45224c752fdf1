"""What was measured, as a page: one row for each mode, with wrong statements and the chance of so many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.calibration.measure import ALARM, VERDICT, Effort, Finding, Measured

HEAD = (
    "population",
    "property",
    "engine",
    "truth",
    "delta",
    "runs",
    "wrong verdicts",
    "intervals that miss",
    "chance",
    "result",
    "unsound variant",
    "its wrong statements",
    "caught",
)


@dataclass(frozen=True)
class About:
    """When and where a run was made."""

    date: str
    seconds: float
    version: str
    processor: str
    cores: int


def verdicts(found: Measured) -> str:
    """Return how many verdicts were wrong, if there were any to be given."""
    return str(found.wrong[VERDICT]) if VERDICT in found.wrong else "-"


def intervals(found: Measured) -> str:
    """Return how many runs had an interval that misses, by kind."""
    return ", ".join(f"{kind} {count}" for kind, count in found.wrong.items() if kind != VERDICT) or "-"


def statements_of(findings: Sequence[Finding]) -> int:
    """Return the number of statements that could each have raised a false alarm."""
    return sum(len(finding.sound.wrong) for finding in findings if finding.mode.delta)


def row_of(finding: Finding) -> tuple[str, ...]:
    """Return the cells of a mode."""
    mode, sound, unsound = finding.mode, finding.sound, finding.unsound
    worst = max(unsound.wrong.items(), key=lambda each: each[1], default=("none", 0))
    return (
        mode.population,
        mode.asked,
        mode.engine,
        mode.truth,
        f"{mode.delta:g}",
        str(sound.runs),
        verdicts(sound),
        intervals(sound),
        f"{sound.chance:.1g}",
        "FAIL" if sound.alarming else "PASS",
        mode.variant,
        f"{worst[0]} {worst[1]} of {unsound.tried}",
        "yes" if unsound.alarming else "NO",
    )


def summary(findings: Sequence[Finding]) -> str:
    """Return the result in a sentence."""
    failed = [finding.mode.name for finding in findings if finding.sound.alarming]
    missed = [finding.mode.name for finding in findings if not finding.unsound.alarming]
    text = f"{len(findings) - len(failed)} of {len(findings)} modes keep to delta"
    text += f"; {len(findings) - len(missed)} of {len(findings)} unsound variants are caught."
    if failed:
        text += f" Above delta: {'; '.join(failed)}."
    if missed:
        text += f" Not caught: {'; '.join(missed)}."
    return text


def page(findings: Sequence[Finding], effort: Effort, about: About) -> str:
    """Return the Markdown page."""
    kinds = statements_of(findings)
    lines = [
        "# Calibration",
        "",
        f"Written by `python -m benchmarks.calibration` ({effort.name}, {about.date}, fairchain {about.version}, "
        f"{about.seconds:.0f} s on {about.cores} cores, {about.processor}).",
        "",
        f"**{summary(findings)}**",
        "",
        "Each mode is asked at a place where it is likely to be wrong; the truth is known by construction. Where the",
        "gap equals the threshold, FAIR and UNFAIR are both counted as wrong. A verdict, the interval of the gap and",
        "each family of intervals that hold together may each be wrong with probability delta. *Chance* is the",
        "probability that a mode whose error probability is exactly delta makes at least so many wrong statements of",
        f"one kind, the smallest over its kinds. Below {ALARM:g} the mode fails. If all modes keep their promise, one",
        f"of the {kinds} kinds of statements here raises a false alarm with probability at most {kinds * ALARM:.1g}.",
        "",
        "The unsound variant of a mode differs in one rule, level or assumption and goes through the same",
        "measurement, until an alarm is certain. It shows that the measurement can fail. An exact mode (delta 0)",
        "fails by one wrong verdict.",
        "",
        f"| {' | '.join(HEAD)} |",
        "|" + "---|" * len(HEAD),
        *(f"| {' | '.join(row_of(finding))} |" for finding in findings),
    ]
    return "\n".join(lines) + "\n"
