"""Sections of the page with the explanation: effects of units on the gap, and counterfactual pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairchain.explaining.result import Example, Explanation, Influence
from fairchain.number_format import bounded
from fairchain.report.findings import Findings, unit_name
from fairchain.report.first_screen import features_drawn_apart
from fairchain.report.markup import Child, Markup, el, figure, html_table, join, name, section
from fairchain.report.plots.intervals import Line, intervals
from fairchain.report.plots.units import units_overview
from fairchain.verification.record import Witness

MOST_NAMED_UNITS, MOST_WITNESSES, MOST_SHOWN_WORDS = 15, 12, 15
# Number of bars in the picture of all units: with many more the file would become large.
MOST_BARS = 600
DRAWN_ALIKE = (
    "All other features are drawn in the same way for every group, so the whole gap comes from the model's use of "
    "{features}. The effects show which other features make this gap larger or smaller."
)
WORDS_CAPTION = (
    "Words: the decrease of the share of texts with this decision when the word is left out. If the brackets contain "
    "0, no effect was shown."
)

NO_WORD_EFFECT = "No single word has an effect that was shown: the brackets of every word contain 0."


def why_section(findings: Findings) -> Markup | None:
    """Return the features and neurons, or words, with the largest effects on the gap."""
    explanation, texts = findings.explanation, findings.inputs == "texts"
    title = "Why: words and units" if texts else "Why: the features behind the gap"
    if explanation is None or not (explanation.units or explanation.words):
        return findings.missing("explanation", "why", title)
    pair = explanation.pair
    units = _main_units(explanation)
    more, less = name(pair.more), name(pair.less)
    told: tuple[Child, ...] = (more, " gets ", name(pair.outcome), " more often than ", less, ".")
    if findings.verdict.kind == "individual":
        told = ("The decision changes between ", more, " and ", less, " for some inputs.")
    instead = f"Every {findings.input} gets the value of a randomly drawn {findings.input}, of any group"
    if any(unit.held_as is not None for unit in units):
        instead = "This value is stated beside the feature's name" + (
            f"; if no value is stated, {instead[0].lower()}{instead[1:]}"
            if any(unit.held_as is None for unit in units)
            else ""
        )
    held = all(unit.held_as is not None for unit in units)
    ablated = f"has the same value for all {findings.inputs}" if held else "no longer distinguishes the groups"
    apart = features_drawn_apart(findings.verdict)
    protected = "" if texts else " The protected features define the groups and are not changed."
    words: list[list[Child]] = [
        [name(word.word), f"{word.texts:,}", bounded(word.effect)] for word in explanation.words[:MOST_SHOWN_WORDS]
    ]
    return section(
        "why",
        title,
        el("p", *told, f" Which {'words and units' if texts else 'features'} contribute to this difference?"),
        el("p", DRAWN_ALIKE.format(features=apart)) if apart else None,
        html_table(WORDS_CAPTION, ["word", "texts drawn with it", "effect"], words) if words else None,
        el("p", NO_WORD_EFFECT) if words and all(each.effect.low <= 0 <= each.effect.high for each in explanation.words)
        else None,
        el("p", f"An effect is the amount by which the gap shrinks when one {'unit' if texts else 'feature'} {ablated} "
            f"(ablation). {instead}.{protected}") if units else None,
        _effects(units, findings.codes) if units else None,
        *(el("p", note, class_="note") for note in explanation.notes),
    )  # fmt: skip


def _main_units(explanation: Explanation) -> Sequence[Influence]:
    """Return the features, which are known to every reader; without features, all units."""
    return [unit for unit in explanation.units if unit.kind == "feature"] or explanation.units


def annex_explanation(findings: Findings) -> Markup | None:
    """Return the paper's sensitivities, sums over layers, and the statement of an explanation."""
    explanation = findings.explanation
    if explanation is None or not explanation.units:
        return None
    layers: list[list[Child]] = [
        [name(each.name), f"{each.width:,}", bounded(each.effect), bounded(each.sensitivity)]
        for each in explanation.layers
    ]
    headers = ["layer", "units", "sum of effects", "sum of sensitivities"]
    pair, units = explanation.pair, explanation.units
    # The sensitivities of the paper in the order of the network: inputs first, then layers by their number.
    ranked = sorted(units, key=lambda unit: -unit.sensitivity.estimate)
    drawn = sorted(ranked[:MOST_BARS], key=lambda u: (u.layer != "inputs", len(u.layer), u.layer, u.place))
    every = len(drawn) == len(units)
    title = "Sensitivity of every unit" if every else f"Sensitivity of {len(drawn)} units"
    which = "All units" if every else f"The {len(drawn)} largest of {len(units):,} units"
    sensitivities = figure(
        units_overview(title, f"Largest: {ranked[0].name} with {bounded(ranked[0].sensitivity)}.", drawn),
        title,
        f"Sensitivity compares how often a unit's states occur in different groups. {which} on one scale, thin "
        "lines for the intervals; numbers are in explanation.json. It can mislead, because it does not measure the "
        "influence of a unit on the decision; the effects above do.",
    )
    return join(
        el("p", f"Effects and sensitivities are about the gap between {pair.more} and {pair.less}. They are measured "
            f"on {explanation.rounds:,} separate inputs; explanation.json has the gap for these "
            "inputs.", class_="note"),
        _effects(units, findings.codes) if len(_main_units(explanation)) < len(units) else None,
        sensitivities,
        html_table("Layer by layer", headers, layers) if layers else None,
        el("p", explanation.statement, class_="note"),
    )  # fmt: skip


def _effects(units: Sequence[Influence], codes: Mapping[str, Mapping[float, str]]) -> Markup:
    shown = units[:MOST_NAMED_UNITS]
    lines = [Line(unit_name(unit, codes), unit.effect.estimate, unit.effect.low, unit.effect.high) for unit in shown]
    title = f"Effect of each {'feature' if all(unit.kind == 'feature' for unit in units) else 'unit'} on the gap"
    more = f" The {len(lines)} largest of {len(units):,}; explanation.json has all." if len(units) > len(lines) else ""
    about = f"Largest: {lines[0].name} with {bounded(lines[0])}."
    return figure(
        intervals(title, about, lines, "reduction of the gap"),
        title,
        f"Right of zero, the gap shrinks by this amount; left of zero, it grows.{more} If a line crosses zero, "
        "no effect was shown. The intervals hold together. Effects overlap, so they do not add up to the gap. They are "
        "effects inside the model, not causes in the world.",
    )


def witnesses_section(findings: Findings) -> Markup | None:
    """Return counterfactual pairs as cards: inputs whose decision changes with their group alone."""
    explained = findings.explanation.witnesses if findings.explanation is not None else ()
    witnesses: Sequence[Witness] = explained or findings.verdict.witnesses
    if not witnesses:
        return None
    drawn = " The profiles are synthetic: they describe no real individual." if findings.inputs == "profiles" else ""
    # Examples alone could be misleading: how many inputs change in each direction?
    directions, explanation = "", findings.explanation
    if explanation is not None and explanation.flips is not None and findings.verdict.kind != "individual":
        flips, pair = explanation.flips, explanation.pair
        directions = (
            f"Of {flips.inputs:,} {findings.inputs} shown as both groups, {flips.along:,} get {pair.outcome} only as "
            f"{pair.more} and {flips.against:,} only as {pair.less}."
        )
    return section(
        "witnesses",
        f"One {findings.input}, two decisions",
        el("p", f"Each card is one {findings.input}. Only the protected feature differs between its two decisions."
           f"{drawn} {directions}"),
        el("div", *(_card(witness, findings) for witness in witnesses[:MOST_WITNESSES]), class_="cards"),
    )  # fmt: skip


def _card(witness: Witness, findings: Findings) -> Markup:
    """Return both decisions, the features with their values or the text, and the nearest row of the table."""
    decisions = [
        el("div", name(group), ": ", el("b", name(label)), class_="yes" if label == findings.outcome else "no")
        for group, label in zip(witness.groups, witness.labels, strict=True)
    ]
    values = {}
    for key, value in witness.input.items():
        meant = None if isinstance(value, str) else findings.codes.get(key, {}).get(value)
        shown_value = "–" if value is None else value if isinstance(value, str) else f"{value:g}"
        values[key] = name(meant or shown_value)
    if len(values) == 1:
        shown = el("div", *values.values(), class_="text")
    else:
        shown = el("ul", *(el("li", name(key), " ", el("b", value)) for key, value in values.items()), class_="person")
    place = None
    if isinstance(witness, Example) and witness.row is not None:
        near = f"near row {witness.row:,} (mean distance {witness.distance:.2g} of the range)"
        place = el("div", f"row {witness.row:,} of the table" if witness.distance == 0 else near, class_="note")
    return el("div", el("div", *decisions, class_="decisions"), shown, place, class_="card")
