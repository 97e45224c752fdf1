"""From counts over time to a chain: unrolled, with states of their own for each step, or folded, with cycles.

In both views the product chain reaches labels exactly as often as they were counted. Everything between two columns is
one table of transitions, with estimates and bounds; the folded chain's has bounds of its own (`bounds`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.build import MOST_POSSIBLE, START, ChainPlan, bounds, label_name
from fairchain.chain.chain import Chain, Floats
from fairchain.chain.estimators import estimate
from fairchain.chain.over_time.passage_bounds import folded_bounds
from fairchain.chain.over_time.time_counts import Counts, Moments, TimeCounts, TimeShape
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
    def shared(self) -> bool:
        """Whether states forget the group."""
        return self.plan.kind == "shared"

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


@dataclass(frozen=True, eq=False)
class ChainBlock:
    """All transitions that may be from the states of one column, with how often each was taken."""

    source: NDArray[np.intp]
    target: NDArray[np.intp]
    taken: Counts
    moments: Moments | None = None
    exact: bool = True

    def bounds(self, level: float, plan: TimePlan) -> tuple[Floats, Floats]:
        """Of each transition's probability, each failing with probability at most `level`."""
        if self.moments is not None:
            low, high = folded_bounds(
                self.taken.reshape(self.moments.square.shape), self.moments, plan.shape.steps, level
            )
            return low.reshape(self.taken.shape), high.reshape(self.taken.shape)
        visits = np.broadcast_to(self.taken.sum(axis=1, keepdims=True), self.taken.shape)
        return bounds(self.taken, visits, level, exact=self.exact and not plan.plan.any_time)


def build_over_time(counts: TimeCounts, plan: TimePlan, about: Mapping[str, Any]) -> Chain:
    """The chain that these counts make."""
    layout = ChainLayout(plan)
    blocks = blocks_of(counts, plan, layout)
    level = plan.plan.delta / sum(block.taken.size for block in blocks)
    parts = [_start(plan), *(_rows(block, level, plan) for block in blocks), _absorbing(layout)]
    source, target, probability, low, high, count = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.lexsort((target, source))
    visited = np.zeros(len(layout.names), bool)
    visited[source[count > 0]] = visited[target[count > 0]] = True
    return Chain(
        states=tuple(layout.names),
        sources=source[order],
        targets=target[order],
        probabilities=probability[order],
        labels=layout.labels,
        low=low[order],
        high=high[order],
        counts=count[order],
        unvisited=frozenset(np.flatnonzero(~visited).tolist()) - {0},
        about={
            "kind": plan.plan.kind,
            "view": plan.view,
            "steps": plan.shape.steps,
            "estimator": plan.plan.estimator,
            "delta": plan.plan.delta,
            "units": [column.to_dict() for column in plan.plan.columns],
            **about,
        },
    )


class ChainLayout:
    """The states in columns: Start, groups, steps (or one column for all), units after them, labels."""

    def __init__(self, plan: TimePlan) -> None:
        groups = plan.plan.groups
        self.names: list[str] = [START]
        self.labels: dict[str, frozenset[int]] = {START: frozenset({0})}
        self.firsts: list[int] = []
        self.widths: list[int] = []
        self.copies: list[int] = []
        self._column([(name,) for name in groups], ("",) * len(groups))
        copies = ("",) if plan.shared else tuple(f"{name} & " for name in groups)
        for number, names in enumerate(plan.columns, start=1):
            first = len(self.names)
            self._column([names] * len(copies), copies)
            if plan.view == "unrolled":
                members = range(first, len(self.names))
                self._also(step_name(number), members)
                for place, name in enumerate(plan.plan.columns[0].names):
                    self._also(name, members[place :: len(names)])
        for column in plan.plan.columns[1:]:
            self._column([column.names] * len(copies), copies)
        self._column([tuple(label_name(label) for label in plan.plan.labels)], ("",))

    def _column(self, names: Sequence[tuple[str, ...]], copies: Sequence[str]) -> None:
        self.firsts.append(len(self.names))
        self.widths.append(len(names[0]))
        self.copies.append(len(copies))
        for each, before in zip(names, copies, strict=True):
            for name in each:
                self._also(name, (len(self.names),))
                self.names.append(before + name)

    def _also(self, label: str, states: Sequence[int]) -> None:
        self.labels[label] = self.labels.get(label, frozenset()) | frozenset(states)

    def block(self, column: int, following: Sequence[int], taken: Counts, moments: Moments | None = None) -> ChainBlock:
        """Transitions from a column to others, from counts of each group, (groups, width, following)."""
        width, copies = self.widths[column], self.copies[column]
        source = self.firsts[column] + np.arange(width * copies)
        copy = np.repeat(np.arange(copies), width)[:, None]
        target = np.concatenate(
            [
                self.firsts[to]
                + np.arange(self.widths[to])
                + (copy * self.widths[to] if self.copies[to] > 1 else 0 * copy)
                for to in following
            ],
            axis=1,
        )
        if copies == 1 and len(taken) > 1:
            taken = taken.sum(axis=0, keepdims=True)
            if moments is not None:
                parts = (moments.square, moments.cross, moments.visits)
                moments = Moments(*(part.sum(axis=0, keepdims=True) for part in parts))
            return ChainBlock(source, target, taken.reshape(target.shape), moments, exact=False)
        return ChainBlock(source, target, taken.reshape(target.shape), moments)


def blocks_of(counts: TimeCounts, plan: TimePlan, layout: ChainLayout) -> list[ChainBlock]:
    """All transitions that may be, column by column."""
    possible = counts.steps.size if plan.view == "unrolled" else counts.steps[:, 0].size
    if possible > MOST_POSSIBLE:
        raise ChainError(
            f"{possible:,} transitions are possible, more than {MOST_POSSIBLE:,}; "
            'ask for fewer clusters or steps, or for view = "folded"'
        )
    blocks = [layout.block(0, [1], counts.entry[:, None])]
    blocks += _folded(counts, layout) if plan.view == "folded" else _unrolled(counts, plan, layout)
    last = len(layout.firsts) - len(counts.after) - 1
    blocks += [
        layout.block(one, [two], taken)
        for (one, two), taken in zip(pairwise(range(last, len(layout.firsts))), counts.after, strict=True)
    ]
    return blocks


def _folded(counts: TimeCounts, layout: ChainLayout) -> Iterator[ChainBlock]:
    assert counts.moments is not None
    yield layout.block(1, [1, 2], counts.steps.sum(axis=1), counts.moments)


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


_Row = tuple[NDArray[np.intp], NDArray[np.intp], Floats, Floats, Floats, Counts]


def _rows(block: ChainBlock, level: float, plan: TimePlan) -> _Row:
    probability = estimate(block.taken, plan.plan.estimator)
    low, high = block.bounds(level, plan)
    source = np.broadcast_to(block.source[:, None], block.target.shape)
    return source.ravel(), block.target.ravel(), probability.ravel(), low.ravel(), high.ravel(), block.taken.ravel()


def _start(plan: TimePlan) -> _Row:
    """From Start to the groups: their shares of the people are declared, not estimated."""
    shares = np.asarray(plan.plan.shares)
    target = 1 + np.arange(len(shares))
    zeros, none = np.zeros(len(shares), np.intp), np.zeros(len(shares), np.int64)
    if not plan.plan.shares_known:
        return zeros, target, shares, np.zeros(len(shares)), np.ones(len(shares)), none
    return zeros, target, shares, shares, shares, none + 1


def _absorbing(layout: ChainLayout) -> _Row:
    """Labels stay as they are."""
    last = np.arange(layout.firsts[-1], len(layout.names))
    ones = np.ones(len(last))
    return last, last, ones, ones, ones, np.zeros(len(last), np.int64)
