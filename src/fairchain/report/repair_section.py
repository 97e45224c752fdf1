"""Section of the page with the repair: the Pareto front, the accepted model, groups, changes, attempts."""

from __future__ import annotations

from collections.abc import Sequence

from fairchain.number_format import bounded, confidence, share
from fairchain.repairing.result import Price, RepairRecord
from fairchain.report.findings import Findings
from fairchain.report.first_screen import counted_words, property_text, verdict_panel
from fairchain.report.markup import Child, Markup, el, figure, html_table, join, name, section, two_lines
from fairchain.report.plots.intervals import Dumbbell, dumbbells
from fairchain.report.plots.scatter import front
from fairchain.report.verdict_section import MOST_UNFOLDED
from fairchain.verification.record import EvaluatedGroup

MOST_WEIGHTS, MOST_SHOWN_GROUPS = 200, 40
OTHER_DRAWS = (
    "Its numbers come from other draws than those at the top, so a part of each difference is random; the intervals "
    "account for this."
)
REPAIR = (
    "The model was changed so that the groups differ less, and the changed model was tested {again}. Whether to use it "
    "is a human decision, because some decisions change."
)


def repair_section(findings: Findings) -> Markup | None:
    """Return the verdict after the repair, the groups before and after, the price and the alternatives."""
    repair = findings.repair
    if repair is None:
        return findings.missing("repair", "repair", "The repair")
    if not repair.needed:
        return None
    after = same_direction = None
    # Each group before and after the repair; none if groups are not compared.
    pairs: list[tuple[EvaluatedGroup, EvaluatedGroup]] = []
    if repair.after is not None:
        title = "After the repair" if repair.accepted else "Best attempt, not accepted"
        after = join(el("h3", title), verdict_panel(repair.after))
        if repair.after.kind != "individual":
            later = {group.name: group for group in repair.after.groups if group.outcome == findings.outcome}
            pairs = [(group, later[group.name]) for group in findings.groups if group.name in later]
    less, more = all(new.high < old.low for old, new in pairs), all(new.low > old.high for old, new in pairs)
    if pairs and (less or more):
        # Equal rates may be low for all.
        often = f"{'less' if less else 'more'} often than before the repair."
        same_direction = el("p", f"Every group gets “{findings.outcome}” {often}")
    searched = f"{repair.candidates:,} candidates were searched. " if repair.candidates else ""
    tested = f"The repaired model was tested on fresh {findings.inputs}. {OTHER_DRAWS}" if repair.accepted else ""
    if repair.before.delta == 0:
        tested = "The repaired model was tested on all rows." if repair.accepted else ""
    other_questions = None
    if findings.questions_after:
        # A repair for one question can violate another.
        answers = findings.answers_after
        failed = [property_text(each) for each in answers if each.verdict != "FAIR"]
        open_ones = f" Not FAIR: {', '.join(failed)}." if failed else ""
        other_questions = el("p", el("b", f"All {len(answers)} questions after the repair: "),
                             f"{counted_words(answers)}.", name(open_ones),
                             " The repair was made for the question above.")  # fmt: skip
    return section(
        "repair",
        "The repair" if repair.accepted else "The repair: none was accepted",
        el("p", REPAIR.format(again="on new inputs" if repair.before.delta else "again")) if repair.accepted else None,
        after,
        same_direction,
        other_questions,
        el("p", f"{searched}{tested}") if searched or tested else None,
        _before_after(findings, repair, pairs),
        _table_after(findings, repair),
        _price(repair.price) if repair.price is not None else None,
        _front(findings, repair) if repair.front else None,
        el("p", "The guarantee in the words of statistics: ", repair.statement, class_="note")
        if repair.accepted
        else el("p", repair.statement, class_="note"),
        *(el("p", note[:1].upper() + note[1:], class_="note") for note in repair.notes),
    )


def _before_after(
    findings: Findings, repair: RepairRecord, pairs: Sequence[tuple[EvaluatedGroup, EvaluatedGroup]]
) -> Markup | None:
    """Return the rate of each group before and after the repair as a dumbbell each."""
    lines = [Dumbbell(old.name, old.estimate, new.estimate) for old, new in pairs]
    if not lines or len(lines) > MOST_SHOWN_GROUPS:
        return None
    title = f"Probability of {findings.outcome} before and after the repair"
    about = f"{lines[0].name}: {share(lines[0].before)} before, {share(lines[0].after)} after."
    return figure(
        dumbbells(title, about, lines, f"share of {findings.outcome}"),
        title,
        "Hollow: before; filled: after."
        + ("" if repair.before.delta == 0 else " Estimates without intervals; the tables have them."),
    )


def _price(price: Price) -> Markup:
    if price.measure == "agreement":
        text = f"Its price: on {price.on}, the share of unchanged decisions is {bounded(price.agreement)}"
    else:
        text = (
            f"Its price: accuracy {price.before:.4f} before, {price.after:.4f} after, a change of "
            f"{bounded(price.change)}, on {price.on} ({price.gained:,} became right, {price.lost:,} wrong)"
        )
    if price.delta == 0:
        return el("p", f"{text}. All of them were counted.")
    sure = confidence(price.delta)
    return el("p", f"{text}. The search did not use these inputs; the interval holds with probability {sure}.")


def _table_after(findings: Findings, repair: RepairRecord) -> Markup | None:
    """Return each group before and after: its rate, its impact ratio, decisions gained and lost, thresholds."""
    before, after = findings.selection, findings.selection_after
    if before is None or after is None or repair.price is None:
        return None
    earlier = {row.group: row for row in before.rows}
    thresholds = {each.group: (each.threshold_before, each.threshold) for each in repair.groups}
    moved = any(new is not None for _, new in thresholds.values())
    heads = ["group", "rate before", "rate after", "ratio before", "ratio after"]
    heads += ["gained", "lost", "of"] if after.moved else []
    heads += ["threshold before", "after"] if moved else []
    rows: list[list[Child]] = []
    for row in after.rows:
        old = earlier.get(row.group)
        cells: list[Child] = [name(row.group)]
        rates = ["–" if each is None else bounded(each.rate) for each in (old, row)]
        ratios = ["–" if old is None else before.shown_ratio(old), after.shown_ratio(row)]
        cells += [two_lines(number) for number in (*rates, *ratios)]
        if after.moved:
            changed = after.moved.get(row.group)
            cells += ["–"] * 3 if changed is None else [f"{number:,}" for number in changed]
        if moved:
            cells += ["–" if t is None else f"{t:.4g}" for t in thresholds.get(row.group, (None, None))]
        rows.append(cells)
    compared = [each.four_fifths[:1].lower() + each.four_fifths[1:] for each in (before, after)]
    told = [f"Ratio: the impact ratio. Before the repair: {compared[0]} After it: {compared[1]}" if compared[1] else ""]
    if after.moved:
        told.append(
            "Gained: individuals with the outcome only after the repair; lost: only before. Counted on "
            f"{repair.price.on}, shown as their own group."
        )
    content = join(
        html_table(f"Before and after the repair: {after.outcome}", heads, rows, tools=True),
        el("p", " ".join(filter(None, told)), class_="note"),
    )
    return content if len(rows) <= MOST_UNFOLDED else el("details", el("summary", f"All {len(rows)} groups"), content)


def _front(findings: Findings, repair: RepairRecord) -> Markup:
    before, points = repair.before, repair.front
    threshold = 1 - before.threshold if before.kind == "ratio" else before.threshold
    measure = repair.price.measure if repair.price is not None else "accuracy or agreement"
    title = "Fairness against " + measure
    fresh = "are counted over all rows" if before.delta == 0 else f"rest on fresh {findings.inputs}"
    return figure(
        front(title, f"{len(points)} candidates between fairness and {measure}.", points, threshold, measure),
        title,
        f"Alternatives considered: each point is a best trade-off between gap and {measure}. The axis of {measure} "
        "does not start at 0. These numbers come from the search (repair.json) and carry no guarantee; the verdict "
        f"and the price above {fresh}.",
    )


def annex_repair(findings: Findings) -> Markup | None:
    """Return the changed parameters, the tensors and the attempts of a repair."""
    repair = findings.repair
    if repair is None or not repair.needed:
        return None
    found = []
    moved = sorted((a for a in repair.adjustments if a.before != a.after), key=lambda a: -abs(a.after - a.before))
    rows: list[list[Child]] = [[name(a.name), f"{a.before:.4g}", f"{a.after:.4g}"] for a in moved[:MOST_WEIGHTS]]
    if rows and repair.changes:
        which = f": the {len(rows)} largest of {len(moved):,}" if len(rows) < len(moved) else ""
        found.append(html_table(f"Changes{which}", ["parameter", "before", "after"], rows))
    if repair.changes:
        rows = []
        for c in repair.changes:
            largest = (f"{list(w.index)}: {w.before:.4g} → {w.after:.4g}" for w in c.largest[:2])
            cells = join(*(el("div", text, class_="whole") for text in largest))
            rows.append([name(c.tensor), c.operator, f"{c.changed:,} of {c.size:,}", share(c.relative), cells])
        headers = ["tensor", "operator", "weights changed", "relative size", "largest changes"]
        found.append(html_table("Tensors", headers, rows, words=(0, 1, 4)))
    if len(repair.attempts) > 1 or not all(attempt.accepted for attempt in repair.attempts):
        rows = []
        for a in repair.attempts:
            gap = bounded(a.gap, least=4, threshold=repair.before.threshold) if a.gap else ""
            rows.append([str(a.number), f"{a.delta:.3g}", a.decision, gap, a.why])
        headers = ["attempt", "delta", "verdict", "gap", "why"]
        found.append(html_table("Attempts, each with its own share of delta", headers, rows, words=(0, 2, 4)))
    return join(*found) if found else None
