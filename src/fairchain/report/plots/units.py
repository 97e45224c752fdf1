"""Hundreds of units layer by layer, as in the literature's figures: one thin bar each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from fairchain.explaining.result import Influence
from fairchain.number_format import bounded
from fairchain.report.markup import Markup, el, join
from fairchain.report.plots.frame import AxisScale, bounds_data, label, picture

WIDTH, LEFT, ROW, SPACE, TOP, BOTTOM = 760, 150, 64, 20, 14, 8
# Largest number of bars in a row: with more, the intervals would not be visible.
MOST_IN_ROW = 150


def units_overview(title: str, about: str, units: Sequence[Influence]) -> Markup:
    """Draw the sensitivities as rows of bars for each layer, in the order given, all on one scale."""
    rows: list[tuple[str, list[Influence]]] = []
    for layer, members in groupby(units, key=lambda unit: unit.layer):
        every = list(members)
        for start in range(0, len(every), MOST_IN_ROW):
            rows.append((layer if start == 0 else "", every[start : start + MOST_IN_ROW]))
    upwards = AxisScale(0.0, max((unit.sensitivity.high for unit in units), default=0.0) or 1.0, 0.0, ROW)
    return picture(
        title,
        about,
        WIDTH,
        TOP + len(rows) * (ROW + SPACE) + BOTTOM,
        *(_row(name, members, upwards, TOP + place * (ROW + SPACE)) for place, (name, members) in enumerate(rows)),
        class_="plot units",
    )


def _row(layer: str, members: Sequence[Influence], upwards: AxisScale, top: float) -> Markup:
    wide = min((WIDTH - LEFT - 10) / len(members), 16.0)
    ends = (
        join(
            el("line", x1=LEFT, x2=WIDTH - 10, y1=y, y2=y, class_="grid"),
            el("text", text, x=LEFT - 6, y=y + 4, class_="tick", text_anchor="end"),
        )
        for y, text in ((top, f"{upwards.high:.2g}"), (top + ROW, "0"))
    )
    bars = (_bar(unit, upwards, LEFT + place * wide, wide, top + ROW) for place, unit in enumerate(members))
    name = label(LEFT - 44, top + ROW / 2 + 4, layer, space=LEFT - 50, class_="name", text_anchor="end")
    return el("g", name, *ends, *bars)


def _bar(unit: Influence, upwards: AxisScale, x: float, wide: float, bottom: float) -> Markup:
    value = unit.sensitivity
    height, middle = max(upwards(value.estimate), 0.5), x + wide * 3 / 8
    return el(
        "g",
        el("title", f"{unit.name}: {bounded(value)}"),
        el("rect", x=x, y=bottom - height, width=wide * 3 / 4, height=height, class_="bar"),
        el(
            "line", x1=middle, x2=middle, y1=bottom - upwards(value.low), y2=bottom - upwards(value.high), class_="thin"
        ),
        **bounds_data(unit.name, value),
    )
