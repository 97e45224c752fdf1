"""One line for each name: numbers with their intervals as dots with whiskers, or two numbers as a dumbbell.

Drawn twice, for wide and for narrow pages; the style sheet shows one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
) -> Markup:
    """Draw dots with whiskers on one axis from `floor` or higher to at most 1, which contains 0, marked by a line.

    `title` and `about` are the text alternative.
    """
    values = [0.0, *(value for line in lines for value in (line.low, line.high))]
    values += [band.low, band.high] if band else []

    def row(place: int, short: str, scale: AxisScale, y: float, space: float | None) -> Markup:
        line = lines[place]
        name, number = _texts(short, bounded(line), y, space)
        if space is None:
            return el("g", _lane(y), name, number, _whisker(line, scale, y + 10), class_=f"row {line.tone}")
        return el(
            "g",
            el("title", f"{line.name}: {bounded(line)}"),
            name,
            _whisker(line, scale, y),
            number,
            class_=f"row {line.tone}",
            **bounds_data(line.name, line),
        )

    ends, names = around(values, floor=floor), [line.name for line in lines]
    return _drawn_twice("intervals", title, about, names, ends, axis_title, row, band=band, zero=True)


def dumbbells(title: str, about: str, lines: Sequence[Dumbbell], axis_title: str) -> Markup:
    """Draw a hollow and a filled dot for each name on an axis from 0 to 1 or less, joined by a line."""
    _, high = around([0.0, *(value for line in lines for value in (line.before, line.after))], floor=0.0)

    def row(place: int, short: str, scale: AxisScale, y: float, space: float | None) -> Markup:
        line = lines[place]
        told = f"{line.before:.3f} → {line.after:.3f}"
        name, number = _texts(short, told, y, space)
        dots = y + 10 if space is None else y
        return el(
            "g",
            el("title", f"{line.name}: {told}"),
            _lane(y) if space is None else None,
            name,
            el("line", x1=scale(line.before), x2=scale(line.after), y1=dots, y2=dots, class_="whisker"),
            el("circle", cx=scale(line.before), cy=dots, r=4.5, class_="hollow"),
            el("circle", cx=scale(line.after), cy=dots, r=4.5, class_="dot"),
            number,
            class_="row",
        )

    return _drawn_twice("dumbbells", title, about, [line.name for line in lines], (0.0, high), axis_title, row)


def _drawn_twice(
    kind: str,
    title: str,
    about: str,
    names: Sequence[str],
    ends: tuple[float, float],
    axis_title: str,
    row: Callable[[int, str, AxisScale, float, float | None], Markup],
    *,
    band: Band | None = None,
    zero: bool = False,
) -> Markup:
    """Draw a row for each name, for wide and for narrow pages.

    `row` takes the place of a name, the name without its prefix, the scale, the middle of the row, and the space for
    names on a wide page, None on a narrow one.
    """
    short = without_prefix(names)
    space = min(max(map(text_width, short), default=0.0) + 12, 290.0)

    def drawn(width: float, start: float, end: float, step: float, ticks: int, beside: float | None) -> Markup:
        scale, bottom = AxisScale(ends[0], min(ends[1], 1.0), start, end), TOP + step * len(names)
        return picture(
            title,
            about,
            width,
            bottom + BOTTOM,
            _band(scale, band, bottom) if band else None,
            axis(scale, TOP, bottom, axis_title, ticks),
            el("line", x1=scale(0), x2=scale(0), y1=TOP, y2=bottom, class_="zero") if zero else None,
            *(row(place, name, scale, TOP + step * (place + 0.5), beside) for place, name in enumerate(short)),
            class_=f"plot {kind} {'narrow' if beside is None else 'wide'}",
        )

    return join(
        drawn(WIDTH, space + 10, WIDTH - NUMBERS - 10, LINE, 5, space),
        drawn(NARROW, 14, NARROW - 14, NARROW_LINE, 3, None),
    )


def _band(scale: AxisScale, band: Band, bottom: float) -> Markup:
    left, right = scale(band.low), scale(band.high)
    size = {"x": left, "y": TOP, "width": max(right - left, 1.0), "height": bottom - TOP}
    edges = (el("line", x1=x, x2=x, y1=TOP, y2=bottom, class_="edge") for x in (left, right))
    return join(el("rect", el("title", f"If all estimates are inside, {band.meaning}."), **size, class_="band"), *edges)


def _texts(name: str, number: str, y: float, space: float | None) -> tuple[Markup, Markup]:
    """Return the name and the number of a row: beside its marks in `space`, or above them if that is None."""
    if space is None:
        return (
            label(2, y - 4, name, space=NARROW - text_width(number) - 12, class_="name"),
            el("text", number, x=NARROW - 2, y=y - 4, class_="number", text_anchor="end"),
        )
    return (
        label(space, y + 4, name, space=space - 8, class_="name", text_anchor="end"),
        el("text", number, x=WIDTH - NUMBERS + 4, y=y + 4, class_="number"),
    )


def _lane(y: float) -> Markup:
    """Return the background of name and number on a narrow page, which hides lines and bands of the axis."""
    return el("rect", x=0, y=y - NARROW_LINE / 2, width=NARROW, height=NARROW_LINE / 2 + 3, class_="lane")


def _whisker(line: Line, scale: AxisScale, y: float) -> Markup:
    left, right = scale(line.low), scale(line.high)
    return join(
        el("line", x1=left, x2=right, y1=y, y2=y, class_="whisker"),
        *(el("line", x1=x, x2=x, y1=y - 4, y2=y + 4, class_="whisker") for x in (left, right) if left < right),
        el("circle", cx=scale(line.estimate), cy=y, r=4.5, class_="dot"),
    )
