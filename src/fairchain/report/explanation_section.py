"""The part of the page that says why: the units that carry the gap, and people who are decided otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from fairchain.explaining.result import Example, Explanation, Influence, LayerTotal, WordEffect
from fairchain.number_format import bounded
from fairchain.report.elements import figure, not_possible, section, table
from fairchain.report.findings import Findings, unit_name
from fairchain.report.markup import Child, Markup, el, join, name
from fairchain.report.plots.intervals import Line, intervals
from fairchain.report.plots.units import Bar, units_overview
from fairchain.statistics import Interval
from fairchain.verification.record import Witness

MOST_NAMED, MOST_WITNESSES, MOST_WORDS = 15, 12, 15
# Bars in the picture of all units: with many more the page would no longer be small.
MOST_BARS = 600


def why_section(findings: Findings) -> Markup | None:
    """Features and neurons by how much of the gap goes with them."""
    explanation = findings.explanation
    if explanation is None or not explanation.units:
        return not_possible(findings, "explanation", "why", _title(findings))
    units = explanation.units
    return section(
        "why",
        _title(findings),
        _what_is_explained(findings, explanation),
        el("p", f"How much smaller would that be without one unit? {_instead(findings, units)}"),
        el("h3", "Effects"),
        _effects(units),
        el("h3", "Sensitivities"),
        _sensitivities(units),
        _layers(explanation.layers),
        _words(explanation.words),
        el("p", explanation.statement, class_="note"),
        *(el("p", note, class_="note") for note in explanation.notes),
    )


def _what_is_explained(findings: Findings, explanation: Explanation) -> Markup:
    pair, gap = explanation.pair, el("b", bounded(explanation.gap))
    more, less = name(pair.more), name(pair.less)
    if findings.verdict.kind == "individual":
        return el("p", "The decision changes between ", more, " and ", less, " for a share of ", gap, ".")
    return el("p", more, " gets ", name(pair.outcome), " more often than ", less, " by ", gap, ".")


def _title(findings: Findings) -> str:
    return "Why: units and words" if findings.inputs == "texts" else "Why: features and neurons"


def _instead(findings: Findings, units: Sequence[Influence]) -> str:
    """What a unit gets in place of its own value."""
    somebody = "another text" if findings.inputs == "texts" else "somebody else"
    resampled = f"the value that it has for {somebody}, of any group"
    if all(unit.held_as is None for unit in units):
        return f"It gets {resampled}."
    return f"One with a value beside its name is held at that value for everybody; any other gets {resampled}."


def _effects(units: Sequence[Influence]) -> Markup:
    lines = [Line(unit_name(unit), *_three(unit.effect)) for unit in units[:MOST_NAMED]]
    title = "Effect of each unit on the gap"
    more = f" The first {len(lines)} of {len(units):,}." if len(units) > len(lines) else ""
    about = f"Largest: {lines[0].name} with {lines[0].written}."
    return figure(
        intervals(title, about, lines, "smaller gap without it", zero=True),
        title,
        f"To the right of zero: without this unit the gap would be smaller by so much.{more} The intervals hold "
        "together. Effects do not add up: several units may carry the same part.",
    )


def _sensitivities(units: Sequence[Influence]) -> Markup:
    """The paper's measure, in the order of the network."""
    order = {layer: place for place, layer in enumerate(_in_order([unit.layer for unit in units]))}
    ranked = sorted(units, key=lambda unit: -unit.sensitivity.estimate)
    shown = sorted(ranked[:MOST_BARS], key=lambda unit: (order[unit.layer], unit.place))
    title = "Sensitivity of every unit" if len(shown) == len(units) else f"Sensitivity of {len(shown)} units"
    which = "All units" if len(shown) == len(units) else f"The {len(shown)} largest of {len(units):,} units"
    return figure(
        units_overview(
            title,
            f"Largest: {ranked[0].name} with {bounded(ranked[0].sensitivity)}.",
            [Bar(unit.layer, unit.name, *_three(unit.sensitivity)) for unit in shown],
        ),
        title,
        f"The paper's measure. {which} on one scale, thin lines for the intervals; point at a bar for its numbers. It "
        "can mislead, since it does not look at what a unit changes; the effects above do.",
    )


def _three(value: Interval) -> tuple[float, float, float]:
    return value.estimate, value.low, value.high


def _in_order(layers: list[str]) -> list[str]:
    """Inputs first, then layers by their number."""
    return sorted(dict.fromkeys(layers), key=lambda layer: (layer != "inputs", len(layer), layer))


def _layers(layers: Sequence[LayerTotal]) -> Markup | None:
    rows: list[list[Child]] = [
        [name(each.name), f"{each.width:,}", bounded(each.effect), bounded(each.sensitivity)] for each in layers
    ]
    return table("Layer by layer", ["layer", "units", "sum of effects", "sum of sensitivities"], rows) if rows else None


def _words(words: Sequence[WordEffect]) -> Markup | None:
    rows: list[list[Child]] = [
        [name(word.word), f"{word.texts:,}", bounded(word.effect)] for word in words[:MOST_WORDS]
    ]
    caption = "Words: by how much leaving one out lowers the share of texts with this outcome"
    return table(caption, ["word", "texts", "effect"], rows) if rows else None


def witnesses_section(findings: Findings) -> Markup | None:
    """People who are decided otherwise when only their group is changed."""
    explained = findings.explanation.witnesses if findings.explanation is not None else ()
    witnesses: Sequence[Witness] = explained or findings.verdict.witnesses
    if not witnesses:
        return None
    rows: list[list[Child]] = [
        [
            join(
                *(
                    el("div", el("b", name(label)), " as ", name(group))
                    for label, group in zip(witness.labels, witness.groups, strict=True)
                )
            ),
            join(_person(witness.input), _near(witness)),
        ]
        for witness in witnesses[:MOST_WITNESSES]
    ]
    return section(
        "witnesses",
        "One text, two decisions" if findings.inputs == "texts" else "One individual, two decisions",
        el("p", "Nothing but the protected feature differs between the two decisions in a row."),
        table("Witnesses", ["decided", "everything else"], rows, words=(0, 1)),
    )


def _person(values: dict[str, str | float]) -> Markup:
    """Features with their values, which flow into as many lines as they need; of a text alone, the text."""
    if len(values) == 1:
        return el("div", *(_value(value) for value in values.values()), class_="text")
    pairs = (el("li", name(key), " ", el("b", _value(value))) for key, value in values.items())
    return el("ul", *pairs, class_="person")


def _value(value: object) -> Markup:
    return name("–" if value is None else f"{value:g}" if isinstance(value, float | int) else value)


def _near(witness: Witness) -> Markup | None:
    """Return how near the witness is to a row of the given table."""
    if not isinstance(witness, Example) or witness.row is None:
        return None
    off = f"near to row {witness.row:,} (off by {witness.distance:.2g} of the range on average)"
    return el("div", f"row {witness.row:,} of the table" if witness.distance == 0 else off, class_="note")
