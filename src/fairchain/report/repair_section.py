"""The part of the page about the repair: what was possible, what was accepted and why, which weights moved."""

from __future__ import annotations

from collections.abc import Sequence

from fairchain.number_format import bounded, confidence, share
from fairchain.repairing.result import Adjustment, Attempt, Price, RepairRecord, TensorChange, WeightChange
from fairchain.report.elements import figure, not_possible, section, table
from fairchain.report.findings import Findings
from fairchain.report.markup import Child, Markup, el, join, name
from fairchain.report.plots.scatter import Point, front
from fairchain.report.verdict_section import verdict_panel

MOST_WEIGHTS = 12


def repair_section(findings: Findings) -> Markup | None:
    """Before and after, the front, and the changed weights."""
    repair = findings.repair
    if repair is None:
        return not_possible(findings, "repair", "repair", "The repair")
    if not repair.needed:
        return None
    return section(
        "repair",
        "The repair" if repair.accepted else "The repair: none was accepted",
        el("p", repair.statement),
        _before_and_after(repair),
        _price(repair.price),
        _front(findings, repair),
        _adjustments(repair.adjustments),
        _weights(repair.changes),
        _attempts(repair.attempts),
        *(el("p", note, class_="note") for note in repair.notes),
    )


def _before_and_after(repair: RepairRecord) -> Markup | None:
    after = repair.after
    if after is None:
        return None
    return el(
        "div",
        el("div", el("h3", "Before"), verdict_panel(repair.before)),
        el("div", el("h3", "After" if repair.accepted else "Best attempt, not accepted"), verdict_panel(after)),
        class_="pair",
    )


def _price(price: Price | None) -> Markup | None:
    if price is None:
        return None
    change = price.change
    sure = confidence(price.delta)
    if price.measure == "agreement":
        text = f"Its price: the repaired network agrees with the original on {bounded(price.agreement)} of {price.on}"
    else:
        text = (
            f"Its price: accuracy {price.before:.4f} before, {price.after:.4f} after, a change of "
            f"{bounded(change)}, on {price.on} ({price.gained:,} became right, {price.lost:,} wrong)"
        )
    if price.delta == 0:
        return el("p", f"{text}. All of them were counted.")
    return el("p", f"{text}. These were not used in the search; the interval holds with probability {sure}.")


def _front(findings: Findings, repair: RepairRecord) -> Markup | None:
    points = [
        Point(p.gap, p.accuracy, "chosen" if p.chosen else "candidate", "chosen" if p.chosen else "plain")
        for p in repair.front
    ]
    if not points:
        return None
    threshold = repair.before.threshold
    threshold = 1 - threshold if repair.before.kind == "ratio" else threshold
    measure = repair.price.measure if repair.price is not None else "accuracy or agreement"
    title = "What could be had"
    fresh = "are counted over all rows" if repair.before.delta == 0 else f"rest on fresh {findings.inputs}"
    return figure(
        front(title, f"{len(points)} networks between fairness and {measure}.", points, threshold, measure),
        title,
        "Each point is a network that no other beats in both. As the search saw it, which promises nothing: the "
        f"verdict and the price above {fresh}.",
    )


def _adjustments(adjustments: Sequence[Adjustment]) -> Markup | None:
    moved = sorted((a for a in adjustments if a.before != a.after), key=lambda a: -abs(a.after - a.before))
    if not moved:
        return None
    shown = moved[:MOST_WEIGHTS]
    rows: list[list[Child]] = [[name(a.name), f"{a.before:.4g}", f"{a.after:.4g}"] for a in shown]
    which = f": the {len(shown)} largest of {len(moved):,}" if len(shown) < len(moved) else ""
    return table(f"What was changed{which}", ["what", "before", "after"], rows)


def _weights(changes: Sequence[TensorChange]) -> Markup | None:
    if not changes:
        return None
    rows: list[list[Child]] = [
        [
            name(c.tensor),
            c.operator,
            f"{c.changed:,} of {c.size:,}",
            share(c.relative),
            _largest(c.largest),
        ]
        for c in changes
    ]
    headers = ["tensor", "operator", "weights changed", "relative size", "largest changes"]
    return table("Tensors", headers, rows, words=(0, 1, 4))


def _largest(weights: Sequence[WeightChange]) -> Markup:
    shown = (f"{list(w.index)}: {w.before:.4g} → {w.after:.4g}" for w in weights[:2])
    return join(*(el("div", text, class_="whole") for text in shown))


def _attempts(attempts: Sequence[Attempt]) -> Markup | None:
    if len(attempts) < 2 and all(attempt.accepted for attempt in attempts):
        return None
    rows: list[list[Child]] = [
        [str(a.number), f"{a.delta:.3g}", a.decision, bounded(a.gap) if a.gap else "", a.why] for a in attempts
    ]
    headers = ["attempt", "delta", "verdict", "gap", "why"]
    return table("Attempts, each with its own share of delta", headers, rows, words=(0, 2, 4))
