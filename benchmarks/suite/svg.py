"""Plots as SVG text, written here so that the suite needs no plotting package: lines with points, and bars."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape

from benchmarks.suite.outcome import Plot

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 80, 20, 40, 60
# Distinguishable also without colour vision.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
Scale = Callable[[float], float]


def drawn(plot: Plot) -> str:
    """The whole SVG file."""
    body = _bars(plot) if plot.bars is not None else _lines(plot)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="12" fill="#222" role="img" aria-label="{escape(plot.title)}">'
    )
    frame = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        _text(WIDTH / 2, 22, plot.title, size=15),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, plot.x),
        _text(18, (TOP + HEIGHT - BOTTOM) / 2, plot.y, turn=True),
    ]
    return "\n".join([head, *frame, *body, "</svg>", ""])


def _lines(plot: Plot) -> Iterator[str]:
    points = [point for series in plot.series for point in series.points]
    along = _axis([x for x, _ in points], LEFT, WIDTH - RIGHT, log=plot.log_x)
    up = _axis([y for _, y in points], HEIGHT - BOTTOM, TOP, log=plot.log_y)
    yield from _grid(along, up)
    for place, series in enumerate(plot.series):
        colour = COLOURS[place % len(COLOURS)]
        path = " ".join(f"{along[0](x):.1f},{up[0](y):.1f}" for x, y in sorted(series.points))
        dash = ' stroke-dasharray="5 4"' if series.dashed else ""
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
        for x, y in series.points:
            yield f'<circle cx="{along[0](x):.1f}" cy="{up[0](y):.1f}" r="3" fill="{colour}"/>'
    yield from _legend([series.name for series in plot.series])


def _bars(plot: Plot) -> Iterator[str]:
    assert plot.bars is not None
    values = [y for series in plot.series for _, y in series.points]
    up = _axis([0.0, *values], HEIGHT - BOTTOM, TOP, log=False)
    yield from _grid(None, up)
    slot = (WIDTH - RIGHT - LEFT) / max(1, len(plot.bars))
    each = 0.8 * slot / max(1, len(plot.series))
    for place, series in enumerate(plot.series):
        for x, y in series.points:
            left = LEFT + x * slot + 0.1 * slot + place * each
            top, foot = sorted((up[0](y), up[0](0.0)))
            colour = COLOURS[place % len(COLOURS)]
            yield f'<rect x="{left:.1f}" y="{top:.1f}" width="{each:.1f}" height="{foot - top:.1f}" fill="{colour}"/>'
    for place, name in enumerate(plot.bars):
        x, y = LEFT + (place + 0.5) * slot, HEIGHT - BOTTOM + 10
        yield (
            f'<text x="{x:.1f}" y="{y}" text-anchor="end" font-size="10" transform="rotate(-35 {x:.1f} {y})">'
            f"{escape(name)}</text>"
        )
    # Bars come in falling order: there is room on the right.
    yield from _legend([series.name for series in plot.series], WIDTH - RIGHT - 190)


Axis = tuple[Scale, list[tuple[float, str]]]


def _axis(values: Sequence[float], start: float, end: float, *, log: bool) -> Axis:
    """Where a value stands, and the ticks."""
    if log:
        low, high = (math.log10(each) for each in (min(values), max(values)))
        low, high = math.floor(low), max(math.ceil(high), math.floor(low) + 1)
        ticks = [(10.0**power, _power(power)) for power in range(low, high + 1)]
        return lambda value: start + (math.log10(value) - low) / (high - low) * (end - start), ticks
    bottom, top = min(0.0, *values), max(values)
    step = _step((top - bottom) or 1.0)
    bottom, count = math.floor(bottom / step) * step, 0
    top = max(math.ceil(top / step) * step, bottom + step)
    count = round((top - bottom) / step)
    marks = [(bottom + step * place, f"{bottom + step * place:g}") for place in range(count + 1)]
    return lambda value: start + (value - bottom) / (top - bottom) * (end - start), marks


def _step(span: float) -> float:
    """1, 2 or 5 times a power of ten, so that there are four to ten steps."""
    power = 10.0 ** math.floor(math.log10(span))
    return next(power * part for part in (0.1, 0.2, 0.5, 1.0) if span / (power * part) <= 10)


def _power(power: int) -> str:
    return f"{10.0**power:g}" if -3 <= power <= 4 else f"1e{power}"


def _grid(along: Axis | None, up: Axis) -> Iterator[str]:
    line = '<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="#ddd"/>'
    for value, name in up[1]:
        y = up[0](value)
        yield line.format(LEFT, y, WIDTH - RIGHT, y)
        yield _text(LEFT - 6, y + 4, name, anchor="end")
    for value, name in along[1] if along else ():
        x = along[0](value) if along else 0.0
        yield line.format(x, TOP, x, HEIGHT - BOTTOM)
        yield _text(x, HEIGHT - BOTTOM + 18, name)


def _legend(names: Sequence[str], left: float = LEFT + 10) -> Iterator[str]:
    for place, name in enumerate(names):
        y = TOP + 14 + 16 * place
        yield f'<rect x="{left:g}" y="{y - 9}" width="10" height="10" fill="{COLOURS[place % len(COLOURS)]}"/>'
        yield _text(left + 16, y, name, anchor="start")


def _text(x: float, y: float, text: str, *, size: int = 12, anchor: str = "middle", turn: bool = False) -> str:
    turned = f' transform="rotate(-90 {x:g} {y:g})"' if turn else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}"{turned}>{escape(text)}</text>'
