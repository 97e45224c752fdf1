"""Plots as SVG text, written here so that no plotting package is needed: lines with points, and bars.

The legend is above the frame, so that nothing is ever drawn over it; every series has a mark of its own besides
its colour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape

from benchmarks.results import Plot, Series

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, BOTTOM = 80, 20, 60
# Of bars, whose names are turned.
DEEP = 90
# Where the legend begins, the height of its lines, and about the width of a letter.
TITLE, LINE, LETTER = 34, 18, 6.4
# Distinguishable also without colour vision.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
# Corners of each series' mark around a point; the first is a circle.
CORNERS: tuple[tuple[tuple[float, float], ...], ...] = (
    (),
    ((-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)),
    ((0, -5), (5, 0), (0, 5), (-5, 0)),
    ((0, -5), (4.5, 4), (-4.5, 4)),
    ((0, 5), (4.5, -4), (-4.5, -4)),
    ((-5, -2), (5, -2), (5, 2), (-5, 2)),
    ((-2, -5), (2, -5), (2, 5), (-2, 5)),
)
# How far below the start of a logarithmic axis a point may lie: noise is not worth more space.
BELOW = 1.06
Scale = Callable[[float], float]
Axis = tuple[Scale, list[tuple[float, str]]]


def draw(plot: Plot) -> str:
    """Return the whole SVG file."""
    places = _places([series.name for series in plot.series])
    top = TITLE + LINE * (1 + max((line for line, _ in places), default=0)) + 8
    foot = HEIGHT - (BOTTOM if plot.bars is None else DEEP)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="12" fill="#222" role="img" aria-label="{escape(plot.title)}">'
    )
    frame = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        _text(WIDTH / 2, 22, plot.title, size=15),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, plot.x),
        _text(18, (top + foot) / 2, plot.y, turn=True),
    ]
    body = _bars(plot, top, foot) if plot.bars is not None else _lines(plot, top, foot)
    return "\n".join([head, *frame, *_legend(plot.series, places, bars=plot.bars is not None), *body, "</svg>", ""])


def _lines(plot: Plot, top: float, foot: float) -> Iterator[str]:
    points = [point for series in plot.series for point in series.points]
    along = _axis([x for x, _ in points], LEFT, WIDTH - RIGHT, log=plot.log_x)
    up = _axis([y for _, y in points], foot, top, log=plot.log_y)
    yield from _grid(along, up, top, foot)
    for place, series in enumerate(plot.series):
        path = " ".join(f"{along[0](x):.1f},{up[0](y):.1f}" for x, y in sorted(series.points))
        dash = ' stroke-dasharray="5 4"' if series.dashed else ""
        yield f'<polyline points="{path}" fill="none" stroke="{_colour(place)}" stroke-width="2"{dash}/>'
        yield from (_mark(place, along[0](x), up[0](y)) for x, y in series.points)


def _bars(plot: Plot, top: float, foot: float) -> Iterator[str]:
    assert plot.bars is not None
    values = [y for series in plot.series for _, y in series.points]
    values += [y for series in plot.series for ends in series.spread or [] for y in ends]
    up = _axis([0.0, *values], foot, top, log=False)
    yield from _grid(None, up, top, foot)
    slot = (WIDTH - RIGHT - LEFT) / max(1, len(plot.bars))
    each = 0.8 * slot / max(1, len(plot.series))
    for place, series in enumerate(plot.series):
        for number, (x, y) in enumerate(series.points):
            left = LEFT + x * slot + 0.1 * slot + place * each
            high, low = sorted((up[0](y), up[0](0.0)))
            size = f'width="{each:.1f}" height="{low - high:.1f}"'
            yield f'<rect x="{left:.1f}" y="{high:.1f}" {size} fill="{_colour(place)}"/>'
            if series.spread is not None:
                low, high = map(up[0], series.spread[number])
                yield _whisker(left + each / 2, low, high, each / 4)
    yield f'<line x1="{LEFT}" y1="{up[0](0.0):.1f}" x2="{WIDTH - RIGHT}" y2="{up[0](0.0):.1f}" stroke="#222"/>'
    for place, name in enumerate(plot.bars):
        x, y = LEFT + (place + 0.5) * slot + 4, foot + 12
        turned = f'transform="rotate(-35 {x:.1f} {y:.1f})"'
        yield f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="end" font-size="11" {turned}>{escape(name)}</text>'


def _whisker(x: float, low: float, high: float, half: float) -> str:
    caps = " ".join(f"M{x - half:.1f},{y:.1f} H{x + half:.1f}" for y in (low, high))
    return f'<path d="M{x:.1f},{low:.1f} V{high:.1f} {caps}" fill="none" stroke="#222"/>'


def _axis(values: Sequence[float], start: float, end: float, *, log: bool) -> Axis:
    """Return the position of a value on the axis, and the ticks."""
    if log:
        ticks, first, last = _logarithmic(min(values), max(values))
        low, high = math.log10(first), math.log10(last)
        names = [(tick, f"{tick:g}" if 1e-4 < tick < 1e5 else f"1e{round(math.log10(tick))}") for tick in ticks]
        return lambda value: start + (math.log10(value) - low) / (high - low) * (end - start), names
    bottom, top = min(0.0, *values), max(values)
    step = _step((top - bottom) or 1.0)
    bottom = math.floor(bottom / step) * step
    top = max(math.ceil(top / step) * step, bottom + step)
    marks = [(place * step, f"{place * step:g}") for place in range(round(bottom / step), round(top / step) + 1)]
    return lambda value: start + (value - bottom) / (top - bottom) * (end - start), marks


def _logarithmic(least: float, most: float) -> tuple[list[float], float, float]:
    """Return ticks and both ends of the axis: 1, 2 or 5 times a power of ten, beyond two decades only powers."""
    decades = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(most)) + 2)
    ticks = [float(f"{part}e{decade}") for decade in decades for part in (1, 2, 5)]
    first = max(tick for tick in ticks if tick <= BELOW * least)
    last = min(tick for tick in ticks if tick >= most and tick > first)
    wide = last > 200 * first
    return [tick for tick in (ticks[::3] if wide else ticks) if first <= tick <= last], first, last


def _step(span: float) -> float:
    """1, 2 or 5 times a power of ten, so that there are four to ten steps."""
    power = 10.0 ** math.floor(math.log10(span))
    return next(power * part for part in (0.1, 0.2, 0.5, 1.0) if span / (power * part) <= 10)


def _grid(along: Axis | None, up: Axis, top: float, foot: float) -> Iterator[str]:
    line = '<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="#ddd"/>'
    for value, name in up[1]:
        y = up[0](value)
        yield line.format(LEFT, y, WIDTH - RIGHT, y)
        yield _text(LEFT - 6, y + 4, name, anchor="end")
    for value, name in along[1] if along else ():
        x = along[0](value) if along else 0.0
        yield line.format(x, top, x, foot)
        yield _text(x, foot + 18, name)


def _places(names: Sequence[str]) -> list[tuple[int, float]]:
    """Return the line of the legend and the horizontal position of each name."""
    places, line, x = [], 0, float(LEFT)
    for name in names:
        wide = 34 + LETTER * len(name)
        if x + wide > WIDTH - RIGHT and x > LEFT:
            line, x = line + 1, float(LEFT)
        places.append((line, x))
        x += wide
    return places


def _legend(every: Sequence[Series], places: Sequence[tuple[int, float]], *, bars: bool) -> Iterator[str]:
    for place, (series, (line, x)) in enumerate(zip(every, places, strict=True)):
        y = TITLE + LINE * line + 8
        if bars:
            yield f'<rect x="{x:g}" y="{y - 5}" width="10" height="10" fill="{_colour(place)}"/>'
        else:
            yield _mark(place, x + 5, y)
        yield _text(x + 16, y + 4, series.name, anchor="start")


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def _mark(place: int, x: float, y: float) -> str:
    corners = CORNERS[place % len(CORNERS)]
    if not corners:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{_colour(place)}"/>'
    around = " ".join(f"{x + right:.1f},{y + down:.1f}" for right, down in corners)
    return f'<polygon points="{around}" fill="{_colour(place)}"/>'


def _text(x: float, y: float, text: str, *, size: int = 12, anchor: str = "middle", turn: bool = False) -> str:
    turned = f' transform="rotate(-90 {x:g} {y:g})"' if turn else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}"{turned}>{escape(text)}</text>'
