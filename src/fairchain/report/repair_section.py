"""Section of the page with the repair: the front of candidates, the accepted model, groups, changes, attempts."""

from __future__ import annotations

from fairchain.number_format import bounded, confidence, share
from fairchain.repairing.result import Price, RepairRecord
from fairchain.report.findings import Findings
from fairchain.report.markup import Child, Markup, el, figure, join, name, section, table
from fairchain.report.plots.intervals import Dumbbell, dumbbells
from fairchain.report.plots.scatter import front
from fairchain.report.verdict_section import selection_part, verdict_panel

MOST_WEIGHTS, MOST_GROUPS = 200, 40


def repair_section(findings: Findings) -> Markup | None:
    """Return the verdict after the repair, the groups before and after, the price and the alternatives."""
    repair = findings.repair
    if repair is None:
        return findings.missing("repair", "repair", "The repair")
    if not repair.needed:
        return None
    after = None
    if repair.after is not None:
        title = "After the repair" if repair.accepted else "Best attempt, not accepted"
        after = join(el("h3", title), verdict_panel(repair.after))
    searched = f"{repair.candidates:,} candidates were searched. " if repair.candidates else ""
    tested = f"The repaired model was tested on fresh {findings.inputs}." if repair.accepted else ""
    if repair.before.delta == 0:
        tested = "The repaired model was tested on all rows." if repair.accepted else ""
    return section(
        "repair",
        "The repair" if repair.accepted else "The repair: none was accepted",
        after,
        el("p", f"{searched}{tested}") if searched or tested else None,
        _before_after(findings, repair),
        selection_part(findings, findings.selection_after, "Selection rates after the repair"),
        _price(repair.price) if repair.price is not None else None,
        _groups(repair),
        _front(findings, repair) if repair.front else None,
        el("p", repair.statement, class_="note"),
        *(el("p", note, class_="note") for note in repair.notes),
    )


def annex_repair(findings: Findings) -> Markup | None:
    """Return the changed parameters, the tensors and the attempts of a repair."""
    repair = findings.repair
    if repair is None or not repair.needed:
        return None
    found = _tables(repair)
    return join(*found) if found else None


def _before_after(findings: Findings, repair: RepairRecord) -> Markup | None:
    """Return the rate of each group before and after the repair as a dumbbell each."""
    if repair.after is None or repair.after.kind == "individual":
        return None
    outcome = findings.widest[2]
    after = {group.name: group.estimate for group in repair.after.groups if group.outcome == outcome}
    lines = [
        Dumbbell(group.name, group.estimate, after[group.name]) for group in findings.groups if group.name in after
    ]
    if not lines or len(lines) > MOST_GROUPS:
        return None
    title = f"Probability of {outcome} before and after the repair"
    first = lines[0]
    return figure(
        dumbbells(title, f"{first.name}: {share(first.before)} before, {share(first.after)} after.", lines),
        title,
        "Hollow: before; filled: after. Estimates without intervals; the tables have them.",
    )


def _price(price: Price) -> Markup:
    if price.measure == "agreement":
        text = f"Its price: the repaired model agrees with the original on {bounded(price.agreement)} of {price.on}"
    else:
        text = (
            f"Its price: accuracy {price.before:.4f} before, {price.after:.4f} after, a change of "
            f"{bounded(price.change)}, on {price.on} ({price.gained:,} became right, {price.lost:,} wrong)"
        )
    if price.delta == 0:
        return el("p", f"{text}. All of them were counted.")
    sure = confidence(price.delta)
    return el("p", f"{text}. These were not used in the search; the interval holds with probability {sure}.")


def _groups(repair: RepairRecord) -> Markup | None:
    """Return who gained and who lost, with the threshold of each group where thresholds changed."""
    if not repair.groups or repair.price is None:
        return None
    heads = ["group", f"P({repair.groups[0].outcome}) before", "after", "gained it", "lost it", "of"]
    moved = any(each.threshold is not None for each in repair.groups)
    rows: list[list[Child]] = []
    for each in repair.groups[:MOST_GROUPS]:
        cells: list[Child] = [name(each.group), share(each.before), share(each.after)]
        cells += [f"{each.gained:,}", f"{each.lost:,}", f"{each.inputs:,}"]
        if moved:
            cells += ["" if t is None else f"{t:.4g}" for t in (each.threshold_before, each.threshold)]
        rows.append(cells)
    more = len(repair.groups) - len(rows)
    title = f"Who gained and who lost, on {repair.price.on}" + (f" ({more} more groups)" if more else "")
    return table(title, [*heads, *(["threshold before", "after"] if moved else [])], rows)


def _front(findings: Findings, repair: RepairRecord) -> Markup:
    before, points = repair.before, repair.front
    threshold = 1 - before.threshold if before.kind == "ratio" else before.threshold
    measure = repair.price.measure if repair.price is not None else "accuracy or agreement"
    title = "Fairness against " + measure
    fresh = "are counted over all rows" if before.delta == 0 else f"rest on fresh {findings.inputs}"
    return figure(
        front(title, f"{len(points)} candidates between fairness and {measure}.", points, threshold, measure),
        title,
        "Alternatives considered: each point is a best trade-off between gap and accuracy. These numbers are those of "
        f"the search and carry no guarantee; the verdict and the price above {fresh}.",
    )


def _tables(repair: RepairRecord) -> list[Markup]:
    """Return what changed, the tensors, and the attempts."""
    found = []
    moved = sorted((a for a in repair.adjustments if a.before != a.after), key=lambda a: -abs(a.after - a.before))
    rows: list[list[Child]] = [[name(a.name), f"{a.before:.4g}", f"{a.after:.4g}"] for a in moved[:MOST_WEIGHTS]]
    if rows and repair.changes:
        which = f": the {len(rows)} largest of {len(moved):,}" if len(rows) < len(moved) else ""
        found.append(table(f"Changes{which}", ["parameter", "before", "after"], rows))
    if repair.changes:
        rows = []
        for c in repair.changes:
            largest = (f"{list(w.index)}: {w.before:.4g} → {w.after:.4g}" for w in c.largest[:2])
            cells = join(*(el("div", text, class_="whole") for text in largest))
            rows.append([name(c.tensor), c.operator, f"{c.changed:,} of {c.size:,}", share(c.relative), cells])
        headers = ["tensor", "operator", "weights changed", "relative size", "largest changes"]
        found.append(table("Tensors", headers, rows, words=(0, 1, 4)))
    if len(repair.attempts) > 1 or not all(attempt.accepted for attempt in repair.attempts):
        rows = [
            [str(a.number), f"{a.delta:.3g}", a.decision, bounded(a.gap) if a.gap else "", a.why]
            for a in repair.attempts
        ]
        headers = ["attempt", "delta", "verdict", "gap", "why"]
        found.append(table("Attempts, each with its own share of delta", headers, rows, words=(0, 2, 4)))
    return found
