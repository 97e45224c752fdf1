"""Sections of the page with the result: verdict, groups, pairs."""

from __future__ import annotations

from itertools import chain as chained

from fairchain.number_format import bounded, confidence
from fairchain.report.findings import Findings
from fairchain.report.markup import Child, Markup, el, figure, join, name, section, table
from fairchain.report.plots.intervals import Band, Line, intervals
from fairchain.report.plots.matrix import Gap, matrix
from fairchain.spec.subgroups import OVERALL
from fairchain.statements import WARNING
from fairchain.verification.record import GroupRate, VerdictRecord

# Groups in the table of pairs; with hundreds, its cells would be most of the page, and unreadable.
MOST_IN_MATRIX = 40


def verdict_panel(verdict: VerdictRecord) -> Markup:
    """Return the verdict and its sentence."""
    return el(
        "div",
        el("span", verdict.word, class_="word"),
        el("p", verdict.headline, class_="headline"),
        el("p", verdict.statement),
        el("p", verdict.tipping_sentence) if verdict.tipping is not None else None,
        el("p", verdict.scope, class_="note"),
        *(el("p", note) for note in verdict.notes if verdict.constant is not None or note.startswith(WARNING)),
        class_=f"verdict {verdict.verdict}",
    )


def groups_section(findings: Findings) -> Markup | None:
    """Return the probability of the outcome for every group, with the band that the threshold allows."""
    groups = findings.groups
    if findings.verdict.kind == "individual" or not groups:
        return None
    more, less, outcome = findings.widest
    tones = {more: "more", less: "less"}
    lines = [Line(g.name, g.estimate, g.low, g.high, tones.get(g.name, "plain")) for g in groups]
    title = f"Probability of {outcome} for each group"
    estimates = [line.estimate for line in lines]
    about = f"{len(lines)} groups, from {min(estimates):.3f} to {max(estimates):.3f}."
    band = _band(findings, lines)
    allowed = f" If all dots are inside the green band, {band.meaning}." if band is not None else ""
    source = "of the network" if findings.verdict.model_sha256 else "on record"
    return section(
        "groups",
        "Rates of the groups",
        el(
            "p",
            f"Share of decisions {source} that are ",
            el("b", name(outcome)),
            f", for {findings.inputs} of each group.",
        ),
        figure(
            intervals(title, about, lines, f"P({outcome} | group)", band=band, floor=0.0),
            title,
            f"Dot: estimate; line: interval.{allowed} {_from_where(findings)}",
        ),
        _other_outcomes(findings),
    )


def _from_where(findings: Findings) -> str:
    """Return the source of the intervals."""
    verdict, all_pairs = findings.verdict, findings.all_pairs
    if verdict.delta == 0:
        return "All rows were counted: these numbers are exact."
    if all_pairs is None and not verdict.sound:
        return "The intervals come from the rule of the paper and carry no guarantee."
    sure = f"The intervals of all groups hold together with probability at least {confidence(verdict.delta)}"
    if all_pairs is None:
        return f"{sure}. Groups that could no longer change the verdict were evaluated less often."
    if not all_pairs.rounds:
        return f"{sure}, if the rows are a random sample."
    return f"{sure}. They come from {all_pairs.rounds:,} separate rounds, each of which evaluates every group once."


def _band(findings: Findings, lines: list[Line]) -> Band | None:
    """Return the range allowed around the middle of the groups or the overall rate; None if not all are compared."""
    threshold, ratio = findings.verdict.threshold, findings.verdict.kind == "ratio"
    overall = [line.estimate for line in lines if line.name == OVERALL]
    if overall and len(lines) > 2:
        middle = overall[0]
        low, high = (middle * threshold, middle / threshold) if ratio else (middle - threshold, middle + threshold)
        return Band(max(low, 0.0), min(high, 1.0), "no estimate is further from the overall one than is allowed")
    pairs = findings.pairs
    if pairs and len(pairs) < len(lines) * (len(lines) - 1) // 2:
        return None
    low, high = min(line.estimate for line in lines), max(line.estimate for line in lines)
    meaning = "no two estimates are further apart than is allowed"
    if ratio:
        return Band(high * threshold, high, meaning)
    middle = (low + high) / 2
    return Band(max(middle - threshold / 2, 0.0), middle + threshold / 2, meaning)


def _other_outcomes(findings: Findings) -> Markup | None:
    """Return the numbers of all outcomes; of two labels a difference has the same gaps, so one suffices."""
    outcomes = list(dict.fromkeys(group.outcome for group in findings.all_groups))
    if len(outcomes) < 2 or (len(outcomes) == 2 and findings.verdict.kind == "difference"):
        return None
    by_name: dict[str, dict[str, GroupRate]] = {}
    for group in findings.all_groups:
        by_name.setdefault(group.name, {})[group.outcome] = group
    rows: list[list[Child]] = [
        [name(each), *(bounded(have[outcome]) if outcome in have else "–" for outcome in outcomes)]
        for each, have in by_name.items()
    ]
    return table("Every outcome", ["group", *outcomes], rows)


def pairs_section(findings: Findings) -> Markup | None:
    """Return the gap or the ratio of each pair."""
    outcome, ratio = findings.widest[2], findings.verdict.kind == "ratio"
    pairs = findings.pairs
    if not pairs:
        return None
    every = list(dict.fromkeys(chained.from_iterable((pair.first, pair.second) for pair in pairs)))
    names = every if len(every) <= MOST_IN_MATRIX else _of_the_widest(findings, every)
    gaps: dict[tuple[str, str], Gap] = {}
    for pair in pairs:
        gap = pair.estimate, pair.low, pair.high
        gaps[pair.first, pair.second] = gap
        gaps[pair.second, pair.first] = gap if ratio else (-gap[0], -gap[2], -gap[1])
    threshold = findings.verdict.threshold
    side = "below" if ratio else "above"
    beyond = sum(p.high < threshold if ratio else max(p.low, -p.high) > threshold for p in pairs)
    told = {0: f"No pair is known to be {side} it.", 1: f"One pair is known to be {side} it: it is underlined."}.get(
        beyond, f"{beyond} pairs are known to be {side} it: they are underlined."
    )
    what = "the smaller of the two over the larger" if ratio else "row minus column"
    together = "" if findings.verdict.delta == 0 else "; the intervals of all pairs hold together"
    return section(
        "pairs",
        "The ratio of each pair" if ratio else "The gap of each pair",
        el("p", f"P({outcome}), {what}. The redder, the {'smaller' if ratio else 'larger'} against the threshold of "
           f"{threshold:g}. {told}"),
        el("p", f"The table has {len(names)} of {len(every)} groups: those of the pairs that differ most. All pairs "
           "are in all-pairs.json.", class_="note") if len(names) < len(every) else None,
        matrix(f"P({outcome}): {what}{together}", names, gaps, threshold, ratio=ratio),
    )  # fmt: skip


def _of_the_widest(findings: Findings, names: list[str]) -> list[str]:
    """Return the groups of the pairs that differ most, as many as the matrix holds, in their old order."""
    chosen: set[str] = set()
    for pair in sorted(findings.pairs, key=findings.size, reverse=True):
        if len(chosen) >= MOST_IN_MATRIX:
            break
        chosen |= {pair.first, pair.second}
    return [each for each in names if each in chosen]


def limits_paragraph(findings: Findings) -> Markup:
    """Return what a verdict does not state."""
    verdict, inputs = findings.verdict, findings.inputs
    what = f"the network on the {inputs} described here" if verdict.model_sha256 else "the decisions on record"
    return join(
        el("p", f"This is about {what}. It does not carry over to other {inputs}, and it does not state whether the "
           "decisions are right."),
        el("p", "The rule of the paper was used, which carries no valid guarantee.", class_="note")
        if not verdict.sound else None,
    )  # fmt: skip
