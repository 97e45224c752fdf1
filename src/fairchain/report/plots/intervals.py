"""One line for each name: numbers with their intervals as dots with whiskers, or two numbers as a dumbbell.

Drawn twice, for wide and for narrow pages; the style sheet shows one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairchain.number_format import bounded
from fairchain.report.markup import Markup, el, join
from fairchain.report.plots.frame import (
    AxisScale,
    around,
    axis,
    bounds_data,
    label,
    picture,
    text_width,
    without_prefix,
)

LINE, TOP, BOTTOM, WIDTH, NUMBERS = 26, 12, 44, 760, 190
# On a narrow page, name and number are above the whisker.
NARROW, NARROW_LINE = 340, 44


@dataclass(frozen=True)
class Line:
    """A named number with its interval; `tone` is a class of the style sheet."""

    name: str
    estimate: float
    low: float
    high: float
    tone: str = "plain"


@dataclass(frozen=True)
class Band:
    """Range behind the lines, and its meaning."""

    low: float
    high: float
    meaning: str


@dataclass(frozen=True)
class Dumbbell:
    """A named number before and after a change."""

    name: str
    before: float
    after: float


def intervals(
    title: str,
    about: str,
    lines: Sequence[Line],
    axis_title: str,
    *,
    band: Band | None = None,
    floor: float = -1.0,
    zero: bool = False,
) -> Markup:
    """Draw dots with whiskers on one axis.

    Parameters
    ----------
    title, about
        Text alternative.
    lines
        Numbers from top to bottom.
    axis_title
        Meaning of the numbers.
    band
        Range drawn behind them.
    floor
        Lowest end of the axis; the highest is 1.
    zero
        Whether the axis contains 0, marked by a line.
    """
    values = [value for line in lines for value in (line.low, line.high)]
    values += [0.0] if zero else []
    values += [band.low, band.high] if band else []
    low, high = around(values, floor=floor)
    short = dict(zip((line.name for line in lines), without_prefix([line.name for line in lines]), strict=True))
    names = min(max(map(text_width, short.values()), default=0.0) + 12, 290.0)

    def drawn(width: float, start: float, end: float, step: float, ticks: int, kind: str) -> Markup:
        scale, bottom = AxisScale(low, min(high, 1.0), start, end), TOP + step * len(lines)
        rows = [
            _wide(line, short[line.name], scale, TOP + step * (place + 0.5), names)
            if kind == "wide"
            else _narrow(line, short[line.name], scale, TOP + step * (place + 0.5))
            for place, line in enumerate(lines)
        ]
        return picture(
            title,
            about,
            width,
            bottom + BOTTOM,
            _band(scale, band, bottom) if band else None,
            axis(scale, TOP, bottom, axis_title, ticks),
            el("line", x1=scale(0), x2=scale(0), y1=TOP, y2=bottom, class_="zero") if zero else None,
            *rows,
            class_=f"plot intervals {kind}",
        )

    return join(
        drawn(WIDTH, names + 10, WIDTH - NUMBERS - 10, LINE, 5, "wide"),
        drawn(NARROW, 14, NARROW - 14, NARROW_LINE, 3, "narrow"),
    )


def _band(scale: AxisScale, band: Band, bottom: float) -> Markup:
    left, right = scale(band.low), scale(band.high)
    size = {"x": left, "y": TOP, "width": max(right - left, 1.0), "height": bottom - TOP}
    edges = (el("line", x1=x, x2=x, y1=TOP, y2=bottom, class_="edge") for x in (left, right))
    return join(el("rect", el("title", f"If all estimates are inside, {band.meaning}."), **size, class_="band"), *edges)


def _wide(line: Line, short: str, scale: AxisScale, y: float, names: float) -> Markup:
    return el(
        "g",
        el("title", f"{line.name}: {bounded(line)}"),
        label(names, y + 4, short, space=names - 8, class_="name", text_anchor="end"),
        _whisker(line, scale, y),
        el("text", bounded(line), x=WIDTH - NUMBERS + 4, y=y + 4, class_="number"),
        class_=f"row {line.tone}",
        **bounds_data(line.name, line),
    )


def _lane(y: float) -> Markup:
    """Return the background of name and number on a narrow page, which hides lines and bands of the axis."""
    return el("rect", x=0, y=y - NARROW_LINE / 2, width=NARROW, height=NARROW_LINE / 2 + 3, class_="lane")


def _narrow(line: Line, short: str, scale: AxisScale, y: float) -> Markup:
    return el(
        "g",
        _lane(y),
        label(2, y - 4, short, space=NARROW - text_width(bounded(line)) - 12, class_="name"),
        el("text", bounded(line), x=NARROW - 2, y=y - 4, class_="number", text_anchor="end"),
        _whisker(line, scale, y + 10),
        class_=f"row {line.tone}",
    )


def _whisker(line: Line, scale: AxisScale, y: float) -> Markup:
    left, right = scale(line.low), scale(line.high)
    return join(
        el("line", x1=left, x2=right, y1=y, y2=y, class_="whisker"),
        *(el("line", x1=x, x2=x, y1=y - 4, y2=y + 4, class_="whisker") for x in (left, right) if left < right),
        el("circle", cx=scale(line.estimate), cy=y, r=4.5, class_="dot"),
    )


def dumbbells(title: str, about: str, lines: Sequence[Dumbbell], axis_title: str) -> Markup:
    """Draw a hollow and a filled dot for each name on an axis from 0 to 1 or less, joined by a line."""
    _, high = around([0.0, *(value for line in lines for value in (line.before, line.after))], floor=0.0)
    short = without_prefix([line.name for line in lines])
    names = min(max(map(text_width, short)) + 12, 290.0)

    def drawn(width: float, start: float, end: float, step: float, ticks: int, kind: str) -> Markup:
        scale, bottom = AxisScale(0.0, min(high, 1.0), start, end), TOP + step * len(lines)
        rows = []
        for place, line in enumerate(lines):
            y, told = TOP + step * (place + 0.5), f"{line.before:.3f} → {line.after:.3f}"
            wide = kind == "wide"
            dots = y if wide else y + 10
            rows.append(
                el(
                    "g",
                    el("title", f"{line.name}: {told}"),
                    None if wide else _lane(y),
                    label(names, y + 4, short[place], space=names - 8, class_="name", text_anchor="end")
                    if wide
                    else label(2, y - 4, short[place], space=NARROW - text_width(told) - 12, class_="name"),
                    el("line", x1=scale(line.before), x2=scale(line.after), y1=dots, y2=dots, class_="whisker"),
                    el("circle", cx=scale(line.before), cy=dots, r=4.5, class_="hollow"),
                    el("circle", cx=scale(line.after), cy=dots, r=4.5, class_="dot"),
                    el("text", told, x=WIDTH - NUMBERS + 4, y=y + 4, class_="number")
                    if wide
                    else el("text", told, x=NARROW - 2, y=y - 4, class_="number", text_anchor="end"),
                    class_="row",
                )
            )
        return picture(
            title,
            about,
            width,
            bottom + BOTTOM,
            axis(scale, TOP, bottom, axis_title, ticks),
            *rows,
            class_=f"plot dumbbells {kind}",
        )

    return join(
        drawn(WIDTH, names + 10, WIDTH - NUMBERS - 10, LINE, 5, "wide"),
        drawn(NARROW, 14, NARROW - 14, NARROW_LINE, 3, "narrow"),
    )
