"""The chain as a flow diagram: groups on the left, states in columns, decisions on the right.

Two groups are drawn in colours, all others as one grey flow. Each node is a stack with one part for each flow, so that
a difference between the groups is a difference in height.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from fairchain.number_format import share, with_interval
from fairchain.report.chain_flow import ChainFlow, Strand
from fairchain.report.markup import Markup, el, join
from fairchain.report.plots.frame import label, picture

WIDTH, NODE, GAP, TOP, BOTTOM = 860, 14, 26, 48, 14
LEFT, RIGHT = 150, 190
# Height of one complete flow in pixels, and the height below which a ribbon is not drawn.
WHOLE, THINNEST = 110.0, 0.15


def flow_picture(title: str, about: str, flow: ChainFlow, headings: Sequence[str], names: Sequence[str]) -> Markup:
    """Draw flows through columns, with `headings` above the columns and `names` before the flows."""
    places = _Places(flow)
    states = [(column, state) for column, each in enumerate(flow.columns) for state in each]
    return picture(
        title,
        about,
        WIDTH,
        places.height,
        *(
            label(places.x(column) + NODE / 2, 18, heading, space=places.space, class_="heading", text_anchor="middle")
            for column, heading in enumerate(headings)
        ),
        *(
            el(
                "g",
                el("title", strand.name),
                el("rect", x=LEFT, y=y, width=NODE, height=WHOLE, class_="node"),
                label(LEFT - 8, y + WHOLE / 2 + 4, short, space=LEFT - 12, class_="name", text_anchor="end"),
                class_=f"strand {strand.tone}",
            )
            for strand, short, y in zip(flow.strands, names, places.starts, strict=True)
        ),
        el("g", *_ribbons(places), class_="ribbons"),
        el("g", *(_node(places, column, state, headings) for column, state in states)),
        class_="plot flow",
    )


class _Places:
    """Positions of the parts of nodes and of the starts of flows, computed from the shares."""

    def __init__(self, flow: ChainFlow) -> None:
        self.flow = flow
        tallest = max(len(states) for states in flow.columns)
        whole = WHOLE * len(flow.strands)
        self.height = TOP + whole + GAP * max(tallest - 1, len(flow.strands) - 1) + BOTTOM
        self.tops: dict[tuple[int, str, int], float] = {}
        self.starts: list[float] = []
        y = TOP + (self.height - TOP - BOTTOM - whole - GAP * (len(flow.strands) - 1)) / 2
        for _ in flow.strands:
            self.starts.append(y)
            y += WHOLE + GAP
        for column, states in enumerate(flow.columns):
            y = TOP + (self.height - TOP - BOTTOM - whole - GAP * (len(states) - 1)) / 2
            for state in states:
                for number, strand in enumerate(flow.strands):
                    self.tops[column, state, number] = y
                    y += WHOLE * strand.states.get((column, state), 0.0)
                y += GAP

    @property
    def space(self) -> float:
        """Width of the text above a column."""
        return min((WIDTH - LEFT - RIGHT) / max(len(self.flow.columns), 1) - 12, 170.0)

    def x(self, column: int) -> float:
        """Return the left edge of a column's nodes."""
        last = max(len(self.flow.columns) - 1, 1)
        first = LEFT + (WIDTH - LEFT - RIGHT) / (last + 1)
        return first + column * (WIDTH - RIGHT - NODE - first) / last if len(self.flow.columns) > 1 else WIDTH - RIGHT


def _ribbons(places: _Places) -> Iterator[Markup]:
    """Yield a ribbon from each part of a node to its successors, from top to bottom."""
    order = {(column, s): i for column, states in enumerate(places.flow.columns) for i, s in enumerate(states)}

    def rank(step: tuple[int, str, str]) -> tuple[int, int, int]:
        column, one, other = step
        return column, order.get((column - 1, one), 0), order.get((column, other), 0)

    for number, strand in enumerate(places.flow.strands):
        leaving: dict[tuple[int, str], float] = defaultdict(float)
        arriving: dict[tuple[int, str], float] = defaultdict(float)
        for step in sorted(strand.steps, key=rank):
            column, one, other = step
            thick = WHOLE * strand.steps[step]
            if thick < THINNEST:
                continue
            x1, x2 = (LEFT if column == 0 else places.x(column - 1)) + NODE, places.x(column)
            first = places.starts[number] if column == 0 else places.tops[column - 1, one, number]
            y1, y2 = first + leaving[column, one], places.tops[column, other, number] + arriving[column, other]
            leaving[column, one] += thick
            arriving[column, other] += thick
            middle = (x1 + x2) / 2
            path = (
                f"M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
                f"v{thick:.1f}C{middle:.1f} {y2 + thick:.1f} {middle:.1f} {y1 + thick:.1f} {x1:.1f} {y1 + thick:.1f}z"
            )
            yield el(
                "path",
                el("title", _ribbon_title(strand, step)),
                d=path,
                class_=f"ribbon {strand.tone}",
                data_from=f"{column - 1}:{order.get((column - 1, one), 0)}",
                data_to=f"{column}:{order[column, other]}",
            )


def _ribbon_title(strand: Strand, step: tuple[int, str, str]) -> str:
    """Return the share of the flow that takes a transition and, if known, the transition's probability."""
    column, one, other = step
    amount, known = share(strand.steps[step]), strand.bounds.get(step)
    if column == 0:
        interval = f" (probability {with_interval(*known)})" if known else ""
        return f"{amount} of {strand.name} go to {other}{interval}"
    told = f"{amount} of {strand.name} go from {one} to {other}"
    return told if known is None else f"{told}; of those in {one}, a share of {with_interval(*known)} does"


def _node(places: _Places, column: int, state: str, headings: Sequence[str]) -> Markup:
    flow = places.flow
    amounts = [strand.states.get((column, state), 0.0) for strand in flow.strands]
    parts = [
        el(
            "rect",
            x=places.x(column),
            y=places.tops[column, state, number],
            width=NODE,
            height=max(WHOLE * amount, 0.5),
            class_=f"node {strand.tone}",
            data_strand=strand.name,
            data_state=state,
            data_share=repr(amount),
        )
        for number, (strand, amount) in enumerate(zip(flow.strands, amounts, strict=True))
    ]
    shares = (f"{share(amount)} of {strand.name}" for strand, amount in zip(flow.strands, amounts, strict=True))
    told = f"{state}: {', '.join(shares)}"
    # Beside a node: the shares of a decision, or the name of a state without its unit.
    x, first = places.x(column), places.tops[column, state, 0]
    if column == len(flow.columns) - 1:
        x, middle = x + NODE + 8, first + WHOLE * sum(amounts) / 2
        numbers = [
            el("tspan", share(amount), dx=0 if number == 0 else 8, class_=strand.tone)
            for number, (strand, amount) in enumerate(zip(flow.strands, amounts, strict=True))
        ]
        text = join(
            label(x, middle - 2, state.removeprefix("Y="), space=RIGHT - NODE - 12, class_="name"),
            el("text", *numbers, x=x, y=middle + 13, class_="number"),
        )
    else:
        unit = headings[column] if column < len(headings) else ""
        short = state.removeprefix(unit).lstrip(" =") or state
        text = label(x + NODE / 2, first - 6, short, space=places.space, class_="name", text_anchor="middle")
    return el(
        "g",
        el("title", told),
        *parts,
        text,
        class_="state",
        tabindex="0",
        role="img",
        aria_label=told,
        data_node=f"{column}:{flow.columns[column].index(state)}",
    )
