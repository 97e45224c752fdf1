"""The Pareto front of fairness and accuracy: each point is a network, the chosen one is marked.

Drawn twice, for wide and for narrow pages; the style sheet shows one of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairchain.repairing.result import FrontPoint
from fairchain.report.markup import Markup, el, join
from fairchain.report.plots.frame import AxisScale, around, axis, picture, round_numbers, upright_axis

WIDTH, NARROW, HEIGHT, LEFT, TOP, BOTTOM = 620, 340, 340, 76, 16, 48


def front(title: str, about: str, points: Sequence[FrontPoint], threshold: float, accuracy: str) -> Markup:
    """Draw the gap to the right, the accuracy upwards, the threshold as a line."""
    gaps = around([*(point.gap for point in points), threshold, 0.0], floor=0.0)
    upwards = AxisScale(*around([point.accuracy for point in points]), HEIGHT - BOTTOM, TOP)

    def drawn(width: float, kind: str, ticks: int) -> Markup:
        across, end = AxisScale(*gaps, LEFT, width - 20), width - 20
        line = across(threshold)
        side: dict[str, str | float] = (
            {"x": line - 4, "text_anchor": "end"} if line > (LEFT + end) / 2 else {"x": line + 4}
        )
        heights = [(f"{tick:g}", upwards(tick)) for tick in round_numbers(upwards.low, upwards.high)]
        return picture(
            title,
            about,
            width,
            HEIGHT,
            el("rect", x=LEFT, y=TOP, width=line - LEFT, height=HEIGHT - BOTTOM - TOP, class_="band"),
            axis(across, TOP, HEIGHT - BOTTOM, "gap on the search data (smaller gaps to the left)", ticks),
            upright_axis(heights, LEFT, end, accuracy, HEIGHT / 2),
            el("line", x1=line, x2=line, y1=TOP, y2=HEIGHT - BOTTOM, class_="edge"),
            el("text", f"threshold {threshold:g}", y=TOP + 12, class_="tick", **side),
            *(_point(point, across(point.gap), upwards(point.accuracy)) for point in points),
            class_=f"plot front {kind}",
        )

    return join(drawn(WIDTH, "wide", 5), drawn(NARROW, "narrow", 3))


def _point(point: FrontPoint, x: float, y: float) -> Markup:
    told = f"{'chosen' if point.chosen else 'candidate'}: gap {point.gap:.4f}, {point.accuracy:.4f}"
    return el(
        "circle",
        el("title", told),
        cx=x,
        cy=y,
        r=7.0 if point.chosen else 4.0,
        class_=f"point {'chosen' if point.chosen else 'plain'}",
        tabindex="0" if point.chosen else None,
        role="img",
        aria_label=told,
        data_gap=repr(point.gap),
        data_accuracy=repr(point.accuracy),
    )
