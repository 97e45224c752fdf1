"""The cost of a verdict as a function of the gap: a curve on a logarithmic scale, in a separate file."""

from __future__ import annotations

import math

from fairchain.planning import QuestionPlan
from fairchain.report.markup import Markup, el
from fairchain.report.plots.frame import AxisScale, axis, picture, upright_axis

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 620, 340, 84, 16, 48
# The file is shown without the page's style sheet, so it contains its own.
STYLE = """svg{background:#fff;font:13px sans-serif}.grid{stroke:#ddd}.tick{fill:#444}.edge{stroke:#b00;stroke-width:2}
.mean{fill:none;stroke:#0050a0;stroke-width:2}.most{fill:none;stroke:#0050a0;stroke-dasharray:5 4}.dot{fill:#0050a0}"""


def cost_curve(found: QuestionPlan) -> Markup:
    """Draw evaluations, or rows of each group, against the gap; the threshold is a vertical line.

    A gap without a forecast of the end has no point.
    """
    rows = any(point.rows is not None for point in found.curve)
    means, mosts = [], []
    for point in found.curve:
        mean = point.rows if rows else point.evaluations.mean if point.evaluations else None
        most = point.evaluations.most if point.evaluations else None
        means += [(point.gap, float(mean), point.verdict)] if mean else []
        mosts += [(point.gap, most)] if most else []
    heights = [each[1] for each in means] + [most for _, most in mosts]
    low, high = math.floor(math.log10(min(heights))), math.ceil(math.log10(max(heights)))
    across = AxisScale(min(p.gap for p in found.curve), max(p.gap for p in found.curve), LEFT, WIDTH - 20)
    upwards = AxisScale(low, max(high, low + 1), HEIGHT - BOTTOM, TOP)
    what = "rows of each group" if rows else "evaluations"
    unit = "ratio" if found.kind == "ratio" else "gap"
    ticks = [(f"{10.0**power:,.0f}", upwards(power)) for power in range(low, max(high, low + 1) + 1)]
    line = across(found.threshold)
    return picture(
        f"{what} against the assumed {unit}",
        f"{found.question}, delta {found.delta:g}: the cost of a verdict grows as the {unit} approaches the "
        f"threshold {found.threshold:g}",
        WIDTH,
        HEIGHT,
        el("style", STYLE),
        axis(across, TOP, HEIGHT - BOTTOM, f"assumed {unit}"),
        upright_axis(ticks, LEFT, WIDTH - 20, what, (HEIGHT - BOTTOM + TOP) / 2),
        el("line", x1=line, x2=line, y1=TOP, y2=HEIGHT - BOTTOM, class_="edge"),
        _path([(across(gap), upwards(math.log10(each))) for gap, each, _ in means], "mean"),
        _path([(across(gap), upwards(math.log10(each))) for gap, each in mosts], "most"),
        *(
            el(
                "circle",
                el("title", f"{unit} {gap:g}: {each:,.0f} {what}, {verdict}"),
                cx=across(gap),
                cy=upwards(math.log10(each)),
                r=4.0,
                class_="dot",
            )
            for gap, each, verdict in means
        ),
        xmlns="http://www.w3.org/2000/svg",
    )


def _path(points: list[tuple[float, float]], kind: str) -> Markup:
    return el("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=kind)
