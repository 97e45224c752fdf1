"""From counts over time to a chain: unrolled, with states of their own for each step, or folded, with cycles.

In both views the product chain reaches labels exactly as often as they were counted. Everything between two columns is
one table of transitions, with estimates and bounds; the folded chain's has bounds of its own (`bounds`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from fairchain.chain.build import MOST_POSSIBLE, ChainBlock, ChainLayout, ChainPlan, chain_of_blocks, label_name
from fairchain.chain.chain import Chain
from fairchain.chain.over_time.time_counts import TimeCounts, TimeShape
from fairchain.errors import ChainError

View = Literal["folded", "unrolled"]


def step_name(step: int) -> str:
    """The label of all states after a step."""
    return f"step={step}"


@dataclass(frozen=True)
class TimePlan:
    """What a chain over time is about.

    `plan` says all that other chains have, its first column being the states over time; `unit` is what these are states
    of, as it stands in their names.
    """

    plan: ChainPlan
    shape: TimeShape
    unit: str
    view: View

    def __post_init__(self) -> None:
        """A step is also a label, and one that stood for a group, too, would be answered for both."""
        known = {*self.plan.groups, *(name for column in self.plan.columns for name in column.names)}
        known |= {label_name(label) for label in self.plan.labels}
        steps = range(1, self.shape.steps + 1) if self.view == "unrolled" else ()
        for name in (
            *(step_name(step) for step in steps),
            *(name for names in self.columns[: len(steps)] for name in names),
        ):
            if name in known:
                raise ChainError(f'two different states would be called "{name}"; rename a feature, or fold the chain')

    @property
    def columns(self) -> tuple[tuple[str, ...], ...]:
        """Names of the states over time: one column for each step, or one for all."""
        names = self.plan.columns[0].names
        if self.view == "folded":
            return (names,)
        return tuple(
            tuple(name.replace(self.unit, f"{self.unit}@{step}", 1) for name in names)
            for step in range(1, self.shape.steps + 1)
        )


def build_over_time(counts: TimeCounts, plan: TimePlan, metadata: Mapping[str, Any]) -> Chain:
    """Build the chain of counted traces over time."""
    layout = layout_of(plan)
    metadata = {"view": plan.view, "steps": plan.shape.steps, **metadata}
    return chain_of_blocks(layout, blocks_of(counts, plan, layout), plan.plan, metadata)


def layout_of(plan: TimePlan) -> ChainLayout:
    """The columns of a chain over time; states of an unrolled one have their step and their folded name as labels."""
    names = plan.plan.columns[0].names
    layout = ChainLayout(plan.plan, [*plan.columns, *(column.names for column in plan.plan.columns[1:])])
    for step in range(1, 1 + plan.shape.steps) if plan.view == "unrolled" else ():
        members = layout.states(step).tolist()
        layout.label(step_name(step), members)
        for place, name in enumerate(names):
            layout.label(name, members[place :: len(names)])
    return layout


def blocks_of(counts: TimeCounts, plan: TimePlan, layout: ChainLayout) -> list[ChainBlock]:
    """All transitions that may be, column by column."""
    possible = counts.steps.size if plan.view == "unrolled" else counts.steps[:, 0].size
    if possible > MOST_POSSIBLE:
        raise ChainError(
            f"{possible:,} transitions are possible, more than {MOST_POSSIBLE:,}; "
            'ask for fewer clusters or steps, or for view = "folded"'
        )
    blocks = [layout.block(0, [1], counts.entry[:, None])]
    if plan.view == "folded":
        blocks.append(layout.block(1, [1, 2], counts.steps.sum(axis=1), counts.moments, plan.shape.steps))
    else:
        blocks += _unrolled(counts, plan, layout)
    last = len(layout.firsts) - len(counts.after) - 1
    blocks += [
        layout.block(one, [two], taken)
        for (one, two), taken in zip(pairwise(range(last, len(layout.firsts))), counts.after, strict=True)
    ]
    return blocks


def _unrolled(counts: TimeCounts, plan: TimePlan, layout: ChainLayout) -> Iterator[ChainBlock]:
    """A trace that may not end before the last step has no transitions that say it did."""
    steps, width = plan.shape.steps, plan.shape.width
    after = 1 + steps
    for step in range(1, steps):
        taken = counts.steps[:, step - 1]
        if plan.shape.varied:
            yield layout.block(step, [step + 1, after], taken)
        else:
            yield layout.block(step, [step + 1], taken[..., :width])
    yield layout.block(steps, [after], counts.steps[:, steps - 1, :, width:])
