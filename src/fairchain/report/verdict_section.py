"""Sections of the page with the result: verdict, groups with their selection rates, pairs."""

from __future__ import annotations

from itertools import chain as chained

from fairchain.number_format import bounded, confidence, share
from fairchain.report.findings import Findings
from fairchain.report.markup import Child, Markup, el, figure, join, name, section, table
from fairchain.report.plots.intervals import Band, Line, intervals
from fairchain.report.plots.matrix import Gap, matrix, side_of
from fairchain.report.selection_table import SelectionTable
from fairchain.spec.subgroups import OVERALL
from fairchain.statements import WARNING, error_in_words
from fairchain.verification.record import GroupRate, VerdictRecord

# Groups in the table of pairs; with hundreds, its cells would be most of the page, and unreadable.
MOST_IN_MATRIX = 40
# Groups of a table that is shown unfolded.
MOST_UNFOLDED = 60


def verdict_panel(verdict: VerdictRecord, *details: Child) -> Markup:
    """Return the verdict, its sentence, what it was tested on, and how often such a verdict is wrong."""
    return el(
        "div",
        el("span", verdict.word, class_="word"),
        el("p", verdict.headline, class_="headline"),
        *details,
        el("p", error_in_words(verdict.decision, verdict.delta, sound=verdict.sound)),
        el("p", verdict.tipping_sentence) if verdict.tipping is not None else None,
        *(el("p", note) for note in verdict.notes if verdict.constant is not None or note.startswith(WARNING)),
        class_=f"verdict {verdict.verdict}",
    )


def first_screen(findings: Findings) -> Markup:
    """Return the verdict with the two extreme groups in percent and the kind of inputs that were tested."""
    return verdict_panel(findings.verdict, _extremes(findings), el("p", _tested_on(findings), class_="badge"))


def questions_section(findings: Findings) -> Markup | None:
    """Return the verdicts on all questions of an audit, before and after a repair; None for a single question."""
    if not findings.questions:
        return None
    after = {each.question: each for each in findings.questions_after}
    rows: list[list[Child]] = []
    for each in findings.questions:
        cells: list[Child] = [el("code", each.question), el("b", each.word, class_=f"tone {each.verdict}")]
        cells += [bounded(each.gap, threshold=each.threshold), f"{each.threshold:g}", _pair(each)]
        if after:
            then = after.get(each.question)
            cells += [f"{then.word}: {bounded(then.gap, threshold=each.threshold)}" if then is not None else "–"]
        rows.append(cells)
    heads = ["question", "verdict", "measured", "threshold", "widest pair", *(["after the repair"] if after else [])]
    delta = sum(each.delta for each in findings.questions)
    together = "All answers are exact." if not delta else (
        f"All verdicts are right together with probability at least {confidence(delta)}."
    )  # fmt: skip
    tables = [table for table in findings.all_selections if table.question != findings.verdict.question]
    return section(
        "questions",
        f"{len(rows)} questions",
        el("p", f"{together} The sections below are about the question that is furthest from being met."),
        table("Every question with its verdict", heads, rows, words=(0, 1, 4, 5), tools=True),
        *(
            el("details", el("summary", f"Selection rates: {each.question}"), selection_part(findings, each))
            for each in tables
        ),
    )


def _pair(verdict: VerdictRecord) -> Markup | str:
    if verdict.kind == "individual":
        return "–"
    return join(name(verdict.gap.more), " and ", name(verdict.gap.less))


def _extremes(findings: Findings) -> Markup | None:
    """Return the rates of the two groups that differ most, in percent."""
    # Of the verdict itself, so that their difference is the gap above.
    gap = findings.verdict.gap
    more, less, outcome = gap.more, gap.less, gap.outcome
    rates = {group.name: group.estimate for group in findings.verdict.groups if group.outcome == outcome}
    if findings.verdict.kind == "individual" or not {more, less} <= rates.keys() or rates[more] == rates[less]:
        return None
    about = "" if findings.verdict.delta == 0 else "about "
    return el(
        "p",
        el("b", name(more)),
        " gets ",
        name(outcome),
        f" in {about}{share(rates[more])} of cases, ",
        el("b", name(less)),
        f" in {about}{share(rates[less])}.",
    )  # fmt: skip


def _tested_on(findings: Findings) -> str:
    """Return what was tested, in the words of a reader who knows no populations."""
    verdict, texts = findings.verdict, findings.inputs == "texts"
    if verdict.rows is not None:
        rows = f"{verdict.rows:,} {'texts of a corpus' if texts else 'rows of a table'}"
        if not verdict.model_sha256 and not verdict.evaluations:
            rows = f"the recorded decisions in {rows}"
        return f"Tested on {rows}" + (", all of them counted." if verdict.delta == 0 else ", taken as a random sample.")
    if texts:
        return "Tested on texts drawn from a corpus."
    return "Tested on synthetic profiles, not on real individuals."


def groups_section(findings: Findings) -> Markup | None:
    """Return the selection rate of every group: a picture with the range that the threshold allows, and a table."""
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
    source = "of the model" if findings.verdict.model_sha256 else "on record"
    return section(
        "groups",
        "Selection rates of the groups",
        el(
            "p",
            f"The share of decisions {source} that are ",
            el("b", name(outcome)),
            f", for {findings.inputs} of each group.",
        ),
        figure(
            intervals(title, about, lines, f"P({outcome} | group)", band=band, floor=0.0, zero=True),
            title,
            f"Dot: estimate; line: interval.{allowed} {_from_where(findings)}",
        ),
        selection_part(findings, findings.selection),
        _other_outcomes(findings),
    )


def selection_part(findings: Findings, selection: SelectionTable | None, title: str = "Selection rates") -> Markup:
    """Return the table of selection rates and impact ratios, with groups that were left out, and four fifths."""
    if selection is None:
        return join()
    ratios = any(row.ratio is not None for row in selection.rows)
    counted = any(row.assessed is not None for row in selection.rows)
    heads = ["group", *(["assessed", "selected"] if counted else []), "selection rate"]
    heads += ["impact ratio"] if ratios else []
    heads += ["labelled rows"] if findings.support else []
    rows: list[list[Child]] = []
    for row in selection.rows:
        cells: list[Child] = [name(row.group)]
        if counted:
            cells += ["–" if count is None else f"{count:,}" for count in (row.assessed, row.selected)]
        cells.append(bounded(row.rate))
        cells += ([bounded(row.ratio) if row.ratio is not None else "–"]) if ratios else []
        cells += [f"{findings.support.get(row.group, 0):,}"] if findings.support else []
        rows.append(cells)
    few = [row.group for row in selection.rows if findings.support and findings.support.get(row.group, 0) < 30]
    told = [selection.four_fifths]
    if ratios:
        told.append("The impact ratio is a group's selection rate divided by the highest one.")
    if few:
        told.append(f"Fewer than 30 labelled rows support the rates of {', '.join(few[:5])}.")
    content = join(
        table(f"{title}: {selection.outcome}", heads, rows, tools=True),
        el("p", " ".join(filter(None, told)), class_="note"),
        _left_out(selection),
    )
    if len(rows) <= MOST_UNFOLDED:
        return content
    return el("details", el("summary", f"Table of all {len(rows)} groups"), content)


def _left_out(selection: SelectionTable) -> Markup | None:
    small = selection.left_out
    if not small:
        return None
    named = ", ".join(f"{group} ({size:,g}{' rows' if size >= 1 else ' of all'})" for group, size in small[:40])
    more = f" and {len(small) - 40} more" if len(small) > 40 else ""
    return el("p", f"Left out as smaller than the spec's min_size: {named}{more}.", class_="note")


def _from_where(findings: Findings) -> str:
    """Return the source of the intervals."""
    verdict, all_pairs = findings.verdict, findings.all_pairs
    if verdict.delta == 0:
        return "All rows were counted: these numbers are exact." if verdict.rows is not None else "They are exact."
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
    """Return the gap or the ratio of each pair, and how many fail the threshold, meet it, and are unresolved."""
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
    sides = [side_of(p.low, p.high, threshold, ratio=ratio) for p in pairs]
    fails, meets = sides.count("fails"), sides.count("meets")
    what = "the smaller rate divided by the larger" if ratio else "row minus column"
    together = "" if findings.verdict.delta == 0 else "; the intervals of all pairs hold together"
    of = "ratio" if ratio else "gap"
    side = ("below", "not below") if ratio else ("above", "not above")
    return section(
        "pairs",
        "The ratio of each pair" if ratio else "The gap of each pair",
        el("p", f"Of {len(pairs):,} pairs, {fails:,} are known to have a {of} {side[0]} {threshold:g} (underlined), "
           f"{meets:,} are known to be {side[1]} it, and {len(pairs) - fails - meets:,} are unresolved "
           f"(dotted line). Darker means a {'smaller ratio' if ratio else 'larger gap'}."),
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
