"""Hundreds of units at a glance, layer by layer, as in the literature's figures: one thin bar each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from fairchain.number_format import with_interval
from fairchain.report.markup import Markup, el, join
from fairchain.report.plots.frame import AxisScale, label, picture

WIDTH, LEFT, ROW, SPACE, TOP, BOTTOM = 760, 150, 64, 20, 14, 8
# Bars in a row: of more, one would not see the intervals.
MOST_IN_ROW = 150


@dataclass(frozen=True)
class Bar:
    """One unit of a layer, with its interval."""

    layer: str
    name: str
    estimate: float
    low: float
    high: float


def units_overview(title: str, about: str, bars: Sequence[Bar]) -> Markup:
    """Rows of bars for each layer, in the order given, all on one scale."""
    rows = list(_rows(bars))
    upwards = AxisScale(0.0, max((bar.high for bar in bars), default=0.0) or 1.0, 0.0, ROW)
    return picture(
        title,
        about,
        WIDTH,
        TOP + len(rows) * (ROW + SPACE) + BOTTOM,
        *(_row(name, members, upwards, TOP + place * (ROW + SPACE)) for place, (name, members) in enumerate(rows)),
        class_="plot units",
    )


def _rows(bars: Sequence[Bar]) -> Iterator[tuple[str, list[Bar]]]:
    """Layers, wide ones in several rows; only the first has the name."""
    for layer, members in groupby(bars, key=lambda bar: bar.layer):
        every = list(members)
        for start in range(0, len(every), MOST_IN_ROW):
            yield layer if start == 0 else "", every[start : start + MOST_IN_ROW]


def _row(layer: str, members: Sequence[Bar], upwards: AxisScale, top: float) -> Markup:
    wide = min((WIDTH - LEFT - 10) / len(members), 16.0)
    return el(
        "g",
        label(LEFT - 44, top + ROW / 2 + 4, layer, room=LEFT - 50, class_="name", text_anchor="end"),
        *(
            join(
                el("line", x1=LEFT, x2=WIDTH - 10, y1=y, y2=y, class_="grid"),
                el("text", text, x=LEFT - 6, y=y + 4, class_="tick", text_anchor="end"),
            )
            for y, text in ((top, f"{upwards.high:.2g}"), (top + ROW, "0"))
        ),
        *(_bar(bar, upwards, LEFT + place * wide, wide, top + ROW) for place, bar in enumerate(members)),
    )


def _bar(bar: Bar, upwards: AxisScale, x: float, wide: float, bottom: float) -> Markup:
    height, middle = max(upwards(bar.estimate), 0.5), x + wide * 3 / 8
    low, high = bottom - upwards(bar.low), bottom - upwards(bar.high)
    return el(
        "g",
        el("title", f"{bar.name}: {with_interval(bar.estimate, bar.low, bar.high)}"),
        el("rect", x=x, y=bottom - height, width=wide * 3 / 4, height=height, class_="bar"),
        el("line", x1=middle, x2=middle, y1=low, y2=high, class_="thin"),
        data_name=bar.name,
        data_estimate=repr(bar.estimate),
        data_low=repr(bar.low),
        data_high=repr(bar.high),
    )
