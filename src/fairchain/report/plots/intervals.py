"""Numbers with their intervals as dots with whiskers, one line each: probabilities of groups, influences of units.

Drawn twice, for wide and for narrow pages; the style sheet shows one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairchain.number_format import with_interval
from fairchain.report.markup import Markup, el, join
from fairchain.report.plots.frame import AxisScale, around, axis, label, picture, text_width

LINE, TOP, BOTTOM, WIDTH, NUMBERS = 26, 12, 44, 760, 190
# On a narrow page name and number stand above the whisker.
NARROW, NARROW_LINE = 340, 44


@dataclass(frozen=True)
class Line:
    """One line of such a picture; `tone` is a class of the style sheet."""

    name: str
    estimate: float
    low: float
    high: float
    tone: str = "plain"

    @property
    def written(self) -> str:
        """The number with its interval."""
        return with_interval(self.estimate, self.low, self.high)


@dataclass(frozen=True)
class Band:
    """A range behind the lines, and what it means."""

    low: float
    high: float
    meaning: str


def intervals(
    title: str,
    about: str,
    lines: Sequence[Line],
    axis_title: str,
    *,
    band: Band | None = None,
    floor: float = -1.0,
    ceiling: float = 1.0,
    zero: bool = False,
) -> Markup:
    """Dots with whiskers on one axis.

    Parameters
    ----------
    title, about
        For those who do not see the picture.
    lines
        What is drawn, from top to bottom.
    axis_title
        What the numbers are.
    band
        Drawn behind them.
    floor, ceiling
        Where the axis ends at the latest.
    zero
        Whether the axis shows 0, with a line of its own.
    """
    values = [value for line in lines for value in (line.low, line.high)]
    values += [0.0] if zero else []
    values += [band.low, band.high] if band else []
    low, high = around(values, least=0.02)
    low, high = max(low, floor), min(high, ceiling)
    names = min(max((text_width(line.name) for line in lines), default=0.0) + 12, 250.0)
    wide = AxisScale(low, high, names + 10, WIDTH - NUMBERS - 10)
    narrow = AxisScale(low, high, 14, NARROW - 14)
    rows = [_line(line, wide, TOP + LINE * (place + 0.5), names) for place, line in enumerate(lines)]
    stacked = [_stacked(line, narrow, TOP + NARROW_LINE * (place + 0.5)) for place, line in enumerate(lines)]
    plot = _Plot(title, about, axis_title, band, zero)
    return join(
        plot.drawn(wide, TOP + LINE * len(lines), rows, WIDTH, 5, "wide"),
        plot.drawn(narrow, TOP + NARROW_LINE * len(lines), stacked, NARROW, 3, "narrow"),
    )


@dataclass(frozen=True)
class _Plot:
    """What the wide and the narrow picture have in common."""

    title: str
    about: str
    axis_title: str
    band: Band | None
    zero: bool

    def drawn(
        self, scale: AxisScale, bottom: float, rows: Sequence[Markup], width: float, ticks: int, kind: str
    ) -> Markup:
        return picture(
            self.title,
            self.about,
            width,
            bottom + BOTTOM,
            _band(scale, self.band, bottom) if self.band else None,
            axis(scale, TOP, bottom, self.axis_title, ticks),
            el("line", x1=scale(0), x2=scale(0), y1=TOP, y2=bottom, class_="zero") if self.zero else None,
            *rows,
            class_=f"plot intervals {kind}",
        )


def _band(scale: AxisScale, band: Band, bottom: float) -> Markup:
    left, right = scale(band.low), scale(band.high)
    area = el(
        "rect", el("title", band.meaning), x=left, y=TOP, width=max(right - left, 1.0), height=bottom - TOP,
        class_="band",
    )  # fmt: skip
    edges = (el("line", x1=x, x2=x, y1=TOP, y2=bottom, class_="edge") for x in (left, right))
    return join(area, *edges)


def _line(line: Line, scale: AxisScale, y: float, names: float) -> Markup:
    return el(
        "g",
        el("title", f"{line.name}: {line.written}"),
        label(names, y + 4, line.name, room=names - 8, class_="name", text_anchor="end"),
        _whisker(line, scale, y),
        el("text", line.written, x=WIDTH - NUMBERS + 4, y=y + 4, class_="number"),
        class_=f"row {line.tone}",
        data_name=line.name,
        data_estimate=repr(line.estimate),
        data_low=repr(line.low),
        data_high=repr(line.high),
    )


def _stacked(line: Line, scale: AxisScale, y: float) -> Markup:
    room = NARROW - text_width(line.written) - 12
    return el(
        "g",
        label(2, y - 4, line.name, room=room, class_="name"),
        el("text", line.written, x=NARROW - 2, y=y - 4, class_="number", text_anchor="end"),
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
