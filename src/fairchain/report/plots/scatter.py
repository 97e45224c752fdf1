"""The front between fairness and accuracy: each point a network, the chosen one marked.

Drawn twice, for wide and for narrow pages; the style sheet shows one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairchain.report.markup import Markup, el, join
from fairchain.report.plots.frame import AxisScale, around, axis, picture

WIDTH, NARROW, HEIGHT, LEFT, TOP, BOTTOM = 620, 340, 340, 76, 16, 48


@dataclass(frozen=True)
class Point:
    """One network: its gap, its accuracy, and what it is."""

    gap: float
    accuracy: float
    name: str
    tone: str = "plain"


def front(title: str, about: str, points: Sequence[Point], threshold: float, accuracy: str) -> Markup:
    """Gap to the right, accuracy upwards, the threshold as a line."""
    gaps = around([*(point.gap for point in points), threshold, 0.0], least=0.02, floor=0.0)
    upwards = AxisScale(*around([point.accuracy for point in points], least=0.02), HEIGHT - BOTTOM, TOP)

    def drawn(width: float, name: str, ticks: int) -> Markup:
        inside = _inside(AxisScale(*gaps, LEFT, width - 20), upwards, points, threshold, accuracy, ticks)
        return picture(title, about, width, HEIGHT, inside, class_=f"plot front {name}")

    return join(drawn(WIDTH, "wide", 5), drawn(NARROW, "narrow", 3))


def _inside(
    across: AxisScale, upwards: AxisScale, points: Sequence[Point], threshold: float, accuracy: str, ticks: int
) -> Markup:
    line = across(threshold)
    left = line > (across.start + across.end) / 2
    return join(
        el("rect", x=LEFT, y=TOP, width=line - LEFT, height=HEIGHT - BOTTOM - TOP, class_="band"),
        axis(across, TOP, HEIGHT - BOTTOM, "gap on the search data (to the left is fairer)", ticks),
        *(_height(upwards, tick, across.end) for tick in upwards.ticks(5)),
        el(
            "text",
            accuracy,
            x=14,
            y=HEIGHT / 2,
            class_="tick",
            text_anchor="middle",
            transform=f"rotate(-90 14 {HEIGHT / 2:g})",
        ),
        el("line", x1=line, x2=line, y1=TOP, y2=HEIGHT - BOTTOM, class_="edge"),
        el(
            "text",
            f"threshold {threshold:g}",
            x=line - 4 if left else line + 4,
            y=TOP + 12,
            class_="tick",
            text_anchor="end" if left else None,
        ),
        *(_point(point, across, upwards) for point in points),
    )


def _height(upwards: AxisScale, tick: float, end: float) -> Markup:
    y = upwards(tick)
    return el(
        "g",
        el("line", x1=LEFT, x2=end, y1=y, y2=y, class_="grid"),
        el("text", f"{tick:g}", x=LEFT - 8, y=y + 4, class_="tick", text_anchor="end"),
    )


def _point(point: Point, across: AxisScale, upwards: AxisScale) -> Markup:
    told = f"{point.name}: gap {point.gap:.4f}, {point.accuracy:.4f}"
    return el(
        "circle",
        el("title", told),
        cx=across(point.gap),
        cy=upwards(point.accuracy),
        r=7.0 if point.tone != "plain" else 4.0,
        class_=f"point {point.tone}",
        tabindex="0" if point.tone != "plain" else None,
        role="img",
        aria_label=told,
        data_gap=repr(point.gap),
        data_accuracy=repr(point.accuracy),
    )
