"""Sections of the page with the result: questions, groups with their selection rates, pairs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain as chained

from fairchain.number_format import bounded, close_to, confidence, share
from fairchain.report.findings import Findings
from fairchain.report.first_screen import property_text
from fairchain.report.markup import Child, Markup, el, figure, html_table, join, name, section
from fairchain.report.plots.intervals import Band, Line, intervals
from fairchain.report.plots.matrix import Gap, matrix, side_of
from fairchain.report.selection_table import FOUR_FIFTHS, RowsLeftOut, SelectionRow, SelectionTable
from fairchain.spec.subgroups import OVERALL
from fairchain.verification.record import GroupRate, VerdictRecord

FOUR_FIFTHS_RULE = (
    "The four-fifths rule, a rule of thumb for hiring in the United States, treats a ratio below 0.8 as a sign of "
    "disparate impact. It is meant for outcomes that are an advantage; for a disadvantage, the group with the highest "
    "rate is worst off."
)
# Groups in the table of pairs: with more, its numbers would be unreadable on paper.
MOST_IN_MATRIX = 20
# Groups of a table that is shown unfolded; with more groups, the picture has this many at each end.
MOST_UNFOLDED, MOST_EXTREME = 60, 20
# A group with fewer labelled rows has weak support; the next is the number of groups and categories that are named.
FEW_ROWS, MOST_FEW, MOST_LEFT_OUT = 30, 8, 40
NO_SUPPORT = (
    "The number of real individuals of each group in the training data is unknown, because no labelled rows were given."
)


def questions_section(findings: Findings) -> Markup | None:
    """Return the verdicts on all questions of an audit, before and after a repair; None for a single question."""
    if not findings.questions:
        return None
    after = {each.question: each for each in findings.answers_after}
    rows: list[list[Child]] = []
    for each in findings.questions:
        question = join(property_text(each), el("small", el("code", each.question)))
        pair = join(name(each.gap.more), " and ", name(each.gap.less)) if each.kind != "individual" else "–"
        cells: list[Child] = [question, _word(each), each.measured, f"{each.threshold:g}", pair]
        if after:
            then = after.get(each.question)
            cells += ["–" if then is None else join(_word(then), el("small", then.measured))]
        rows.append(cells)
    heads = ["question", "verdict", "measured", "threshold", "widest pair", *(["after the repair"] if after else [])]
    delta = sum(each.delta for each in findings.questions)
    together = "All answers are exact." if not delta else (
        f"All verdicts are right together with probability at least {confidence(delta)}."
    )  # fmt: skip
    page_too = ", on selection-rates.html" if "selection-rates.html" in findings.files else ""
    return section(
        "questions",
        f"{len(rows)} questions",
        el("p", f"{together} The sections below are about the question that is furthest from being met; the selection "
           f"rates of the others are in the annex{page_too} and in selection-rates.csv."),
        html_table("Every question with its verdict", heads, rows, words=(0, 1, 4, 5), tools=True),
    )  # fmt: skip


def _word(verdict: VerdictRecord) -> Markup:
    return el("b", verdict.word, class_=f"tone {verdict.verdict}")


def other_questions(findings: Findings) -> Markup | None:
    """Return the selection rates of the questions that the other sections do not cover."""
    others = [each for each in findings.all_selections if each.question != findings.verdict.question]
    return join(*(join(el("h3", each.question), selection_part(each)) for each in others)) if others else None


def groups_section(findings: Findings) -> Markup | None:
    """Return the selection rate of every group: a picture with the range that the threshold allows, and a table."""
    groups = findings.groups
    if findings.verdict.kind == "individual" or not groups:
        return None
    gap, outcome = findings.verdict.gap, findings.outcome
    tones = {gap.more: "more", gap.less: "less"}
    lines = [Line(g.name, g.estimate, g.low, g.high, tones.get(g.name, "plain")) for g in groups]
    drawn, some = lines, ""
    if len(lines) > MOST_UNFOLDED:
        ranked = sorted(lines, key=lambda line: -line.estimate)
        drawn = ranked[:MOST_EXTREME] + ranked[-MOST_EXTREME:]
        some = f" The {MOST_EXTREME} highest and the {MOST_EXTREME} lowest of {len(lines)} groups."
    title = f"Probability of {outcome} for each group"
    estimates = [line.estimate for line in lines]
    about = f"{len(lines)} groups, from {min(estimates):.3f} to {max(estimates):.3f}."
    band = _band(findings, lines)
    allowed = f" If all dots are inside the green band, {band.meaning}." if band is not None else ""
    source = "on record" if findings.recorded else "of the model"
    exact = findings.verdict.delta == 0
    dots = "Dot: the share." if exact else "Dot: the estimate; line: its interval, the numbers in brackets."
    return section(
        "groups",
        "Selection rates of the groups",
        el("p", f"The share of decisions {source} that are ", el("b", name(outcome)),
           f", for {findings.inputs} of each group."),
        figure(
            intervals(title, about, drawn, f"share of {outcome}", band=band, floor=0.0),
            title,
            f"{dots}{some}{allowed} {from_where(findings)}",
        ),
        selection_part(findings.selection),
        _other_outcomes(findings),
    )  # fmt: skip


def selection_part(selection: SelectionTable | None) -> Markup:
    """Return the table of selection rates and impact ratios, with the four-fifths rule, and rows not compared."""
    if selection is None:
        return join()
    columns = _columns(selection)
    heads = ["group", *columns]
    rows: list[list[Child]] = [[name(row.group), *(make(row) for make in columns.values())] for row in selection.rows]
    told = [selection.four_fifths]
    if "impact ratio" in columns:
        told.append("The impact ratio is a group's selection rate divided by the highest one.")
        told += [FOUR_FIFTHS_RULE] if selection.four_fifths else []
    if selection.facts.median is not None:
        told.append(
            f"The scoring rate is the share of scores above the median of all rows, {selection.facts.median:g}; it is "
            "counted on these rows."
        )
    content = join(
        html_table(f"Selection rates: how often each group gets {selection.outcome}", heads, rows, tools=True),
        el("p", " ".join(filter(None, told)), class_="note"),
        _support_note(selection),
        _left_out(selection),
    )
    if len(rows) <= MOST_UNFOLDED:
        return content
    return el("details", el("summary", f"Table of all {len(rows)} groups"), content)


def _columns(selection: SelectionTable) -> dict[str, Callable[[SelectionRow], str]]:
    """Return the columns of a table that are not empty, with the function for their cells."""

    def count(number: int | None) -> str:
        return "–" if number is None else f"{number:,}"

    def accuracy(row: SelectionRow) -> str:
        right, support = row.facts.right, row.facts.support
        return "–" if right is None or not support else f"{right / support:.3f}"

    def scoring_ratio(row: SelectionRow) -> str:
        ratio = row.scoring_ratio
        return "–" if ratio is None else f"{ratio:.{close_to(ratio, FOUR_FIFTHS, least=3)}f}"

    columns: dict[str, Callable[[SelectionRow], str]] = {
        "assessed": lambda row: count(row.assessed),
        "selected": lambda row: count(row.selected),
        "selection rate": lambda row: bounded(row.rate),
        "impact ratio": selection.shown_ratio,
        "scoring rate": lambda row: _rate(row.scoring),
        "scoring ratio": scoring_ratio,
        selection.facts.support_is: lambda row: count(row.facts.support),
        "accuracy": accuracy,
    }
    # The numbers of rows behind the accuracy are shown if they are others than those assessed.
    support = any(row.facts.support not in (None, row.assessed) for row in selection.rows)
    return {
        head: make
        for head, make in columns.items()
        if any(make(row) != "–" for row in selection.rows) and (support or head != selection.facts.support_is)
    }


def _support_note(selection: SelectionTable) -> Markup | None:
    """Return which groups have few rows, and the rows on which the accuracy is counted; None if nothing is known."""
    facts = selection.facts
    supports = {row.group: row.facts.support for row in selection.rows if row.facts.support is not None}
    if not supports:
        return el("p", NO_SUPPORT, class_="note") if facts.groups and not selection.of_rows else None
    few = [f"{group} ({rows:,})" for group, rows in supports.items() if rows < FEW_ROWS]
    more = f" and {len(few) - MOST_FEW} more groups" if len(few) > MOST_FEW else ""
    told = []
    if any(row.facts.right is not None for row in selection.rows):
        told.append(f"The accuracy is counted on the {facts.support_is}, and is only about these rows.")
    if few:
        told.append(
            f"Weak support: fewer than {FEW_ROWS} {facts.support_is} are of {', '.join(few[:MOST_FEW])}{more}. If the "
            "model was fitted on such data, it learned little about these inputs."
        )
    return el("p", " ".join(told), class_="note") if told else None


def _left_out(selection: SelectionTable) -> Markup | None:
    """Return the rows that are not compared: their number, the number selected if known, and the reason."""
    left = selection.facts.left_out
    if not left:
        return None
    columns: dict[str, Callable[[RowsLeftOut], Child]] = {
        "category": lambda each: name(each.group),
        "rows" if all(each.size >= 1 for each in left) else "size": lambda each: (
            f"{each.size:,.0f}" if each.size >= 1 else share(each.size)
        ),
    }
    if any(each.selected is not None for each in left):
        columns["selected"] = lambda each: "–" if each.selected is None else f"{each.selected:,}"
        columns["selection rate"] = lambda each: _rate(each.rate(each.selected))
    if any(each.above_median is not None for each in left):
        columns["scoring rate"] = lambda each: _rate(each.rate(each.above_median))
    columns["reason"] = lambda each: each.reason
    rows = [[make(each) for make in columns.values()] for each in left[:MOST_LEFT_OUT]]
    more = f" ({len(left) - MOST_LEFT_OUT} more)" if len(left) > MOST_LEFT_OUT else ""
    return html_table(f"Not compared{more}", [*columns], rows, words=(0, len(columns) - 1))


def _rate(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:.3f}"


def from_where(findings: Findings) -> str:
    """Return the source of the intervals."""
    verdict = findings.verdict
    if verdict.delta == 0:
        return "All rows were counted: these numbers are exact." if verdict.rows is not None else "They are exact."
    if not verdict.sound:
        return "The intervals come from the rule of the paper and carry no guarantee."
    sure = f"The intervals of all groups hold together with probability at least {confidence(verdict.delta)}"
    if verdict.rows is not None:
        return f"{sure}, if the rows are a random sample."
    if len({group.evaluations for group in findings.groups}) > 1:
        sure += ". Groups that could no longer change the verdict were evaluated less often"
    return f"{sure}."


def _band(findings: Findings, lines: list[Line]) -> Band | None:
    """Return the range allowed around the middle of the groups or the overall rate; None if not all are compared."""
    if findings.verdict.shift is not None:
        # The threshold is for the worst of many populations, and these are rates of one.
        return None
    threshold, ratio = findings.verdict.threshold, findings.verdict.kind == "ratio"
    overall = [line.estimate for line in lines if line.name == OVERALL]
    if overall and len(lines) > 2:
        middle = overall[0]
        low, high = (middle * threshold, middle / threshold) if ratio else (middle - threshold, middle + threshold)
        meaning = (
            f"no {'estimate' if findings.verdict.delta else 'share'} differs from the overall one by more than the "
            "threshold allows"
        )
        return Band(max(low, 0.0), min(high, 1.0), meaning)
    pairs = findings.pairs
    if pairs and len(pairs) < len(lines) * (len(lines) - 1) // 2:
        return None
    low, high = min(line.estimate for line in lines), max(line.estimate for line in lines)
    meaning = f"no two {'estimates' if findings.verdict.delta else 'shares'} differ by more than the threshold allows"
    if ratio:
        return Band(high * threshold, high, meaning)
    middle = (low + high) / 2
    return Band(max(middle - threshold / 2, 0.0), middle + threshold / 2, meaning)


def _other_outcomes(findings: Findings) -> Markup | None:
    """Return the numbers of all outcomes; with two labels both have the same differences, so one suffices."""
    outcomes = list(dict.fromkeys(group.outcome for group in findings.verdict.groups))
    if len(outcomes) < 2 or (len(outcomes) == 2 and findings.verdict.kind == "difference"):
        return None
    by_name: dict[str, dict[str, GroupRate]] = {}
    for group in findings.verdict.groups:
        by_name.setdefault(group.name, {})[group.outcome] = group
    rows: list[list[Child]] = [
        [name(each), *(bounded(have[outcome]) if outcome in have else "–" for outcome in outcomes)]
        for each, have in by_name.items()
    ]
    return html_table("Every outcome", ["group", *outcomes], rows)


def pairs_section(findings: Findings) -> Markup | None:
    """Return the gap or the ratio of each pair, and how many fail the threshold, meet it, and are unresolved."""
    outcome, ratio = findings.outcome, findings.verdict.kind == "ratio"
    pairs = findings.pairs
    if len(pairs) < 2:
        # The gap of a single pair is that of the verdict.
        return None
    every = list(dict.fromkeys(chained.from_iterable((pair.first, pair.second) for pair in pairs)))
    names = every
    if len(every) > MOST_IN_MATRIX:
        # The groups of the pairs that differ most, in their original order.
        chosen: set[str] = set()
        for pair in sorted(pairs, key=findings.size, reverse=True):
            if len(chosen) >= MOST_IN_MATRIX:
                break
            chosen |= {pair.first, pair.second}
        names = [each for each in every if each in chosen]
    gaps: dict[tuple[str, str], Gap] = {}
    for pair in pairs:
        gap = pair.estimate, pair.low, pair.high
        gaps[pair.first, pair.second] = gap
        gaps[pair.second, pair.first] = gap if ratio else (0 - gap[0], 0 - gap[2], 0 - gap[1])
    threshold = findings.verdict.threshold
    exact = findings.verdict.delta == 0
    # The verdict may know more about a pair than the simultaneous intervals of all pairs show.
    above = {frozenset((v.more, v.less)) for v in findings.verdict.violators if v.outcome == outcome}
    above = above if findings.verdict.shift is None else set()
    sides = ["fails" if {p.first, p.second} in above else side_of(p.low, p.high, threshold, ratio=ratio) for p in pairs]
    fails, meets = sides.count("fails"), sides.count("meets")
    # The pair of the verdict has the verdict's number, unless the table has another number for it.
    worst, headline = findings.verdict.gap, None
    widest = frozenset((worst.more, worst.less))
    own = next((each for each in pairs if {each.first, each.second} == widest), None)
    if own is not None and abs(abs(own.estimate) - worst.estimate) <= 1e-9:
        headline = widest, findings.verdict.measured.partition(" ")[0]
    what = "the smaller rate divided by the larger" if ratio else "row minus column"
    of, most = ("ratio", "smallest") if ratio else ("gap", "largest")
    together = "" if exact else f" The intervals of all pairs hold together; that of the {most} {of} is in the verdict."
    side = ("below", "not below") if ratio else ("above", "not above")
    known, meets_it = "has" if fails == 1 else "have", "; the others do not" if fails < len(pairs) else ""
    if not exact:
        rest = len(pairs) - fails - meets
        unresolved = f"and {rest:,} {'is' if rest == 1 else 'are'} unresolved (dotted line)"
        known = f"{'is' if fails == 1 else 'are'} known to have"
        meets_it = f", {meets:,} {'is' if meets == 1 else 'are'} known to be {side[1]} it, {unresolved}"
    return section(
        "pairs",
        "The ratio of each pair" if ratio else "The gap of each pair",
        el("p", f"Of {len(pairs):,} pairs, {fails:,} {known} a {of} {side[0]} {threshold:g} (underlined)"
           f"{meets_it}. "
           f"Darker means a {'smaller ratio' if ratio else 'larger gap'}."),
        el("p", f"The table has {len(names)} of {len(every)} groups: those of the pairs that differ most. All pairs "
           "are in all-pairs.json.", class_="note") if len(names) < len(every) else None,
        matrix(
            f"Share of {outcome}: {what}.{together}",
            names,
            gaps,
            threshold,
            ratio=ratio,
            headline=headline,
            above=above,
        ),
    )  # fmt: skip
