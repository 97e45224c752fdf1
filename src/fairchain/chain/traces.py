"""Counts of traces: the number of transitions from a state of one column to a state of the next, in each group.

Only integers are stored, which are additive in any order. A trace over time visits the states of its first unit step by
step; the counts of a folded chain are those of the unrolled one, summed over steps. Chunks of traces are counted on
several workers; a chunk number determines its inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.context import ChainContext, LastSteps, inside_of
from fairchain.chain.plan import ChainPlan
from fairchain.chain.state_units import StateUnit
from fairchain.errors import ChainError
from fairchain.executors import Workers

States = NDArray[np.integer]
Counts = NDArray[np.int64]
# Tables up to this size are counted densely.
DENSE = 2**18
# Cells of the largest table for the traces of one chunk.
MOST_TRACE_CELLS = 2**22
TRACE_STATE_OUT_OF_RANGE = "a trace is in state {least} or {largest} of {width}, numbered from 0"
WRONG_NUMBER_OF_STEPS = "traces have {least} to {largest} steps, expected {least2} to {steps}"
TRACES_PER_CHUNK = 4096
# The units of a chain, in the requested order, and its plan.
PlannedUnits = tuple[Sequence[StateUnit], ChainPlan]


@dataclass(frozen=True, eq=False)
class Link:
    """The counts of transitions from each state of one column to each possible successor, in each group.

    They are counted by code, `(group * width + state) * next_width + next_state`: in a table of all codes if that is
    small, otherwise only for the observed codes, in order; `seen` has these codes.
    """

    width: int
    next_width: int
    table: Counts
    seen: NDArray[np.int64] | None = None

    def __add__(self, other: Link) -> Link:
        if self.seen is None or other.seen is None:
            return Link(self.width, self.next_width, self.table + other.table)
        seen, place = np.unique(np.concatenate([self.seen, other.seen]), return_inverse=True)
        total = np.zeros(len(seen), np.int64)
        np.add.at(total, place, np.concatenate([self.table, other.table]))
        return Link(self.width, self.next_width, total, seen)

    @property
    def counts(self) -> Counts:
        """The count of each of `triples`."""
        return self.table if self.seen is not None else self.table[self.table > 0]

    def triples(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return group, state and next state of every observed transition."""
        codes = self.seen if self.seen is not None else np.flatnonzero(self.table)
        first, following = np.divmod(codes, self.next_width)
        group, state = np.divmod(first, self.width)
        return group, state, following

    def dense(self, copies: int) -> Counts:
        """Return (copies, width, next_width): all counts as a table; those of all groups summed for one copy."""
        group, state, following = self.triples()
        table = np.zeros((copies, self.width, self.next_width), np.int64)
        np.add.at(table, (group * (copies > 1), state, following), self.counts)
        return table


def count_link(group: int, groups: int, columns: tuple[States, States], widths: tuple[int, int]) -> Link:
    """Count the link between two columns of one group's inputs."""
    for column, width in zip(columns, widths, strict=True):
        if column.size and not 0 <= column.min() <= column.max() < width:
            raise ChainError(TRACE_STATE_OUT_OF_RANGE.format(least=column.min(), largest=column.max(), width=width))
    state, following = (column.astype(np.int64) for column in columns)
    code = (group * widths[0] + state) * widths[1] + following
    size = groups * widths[0] * widths[1]
    if size <= DENSE:
        return Link(*widths, np.bincount(code, minlength=size).astype(np.int64))
    seen, counts = np.unique(code, return_counts=True)
    return Link(*widths, counts.astype(np.int64), seen)


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over traces for transitions p -> q of a folded chain; n_p and n_pq are the counts of one trace.

    `square` and `cross` are the sums of n_pq^2 and n_pq n_p, (groups, width, following); `visits` of n_p^2,
    (groups, width, 1).
    """

    square: Counts
    cross: Counts
    visits: Counts

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.square + other.square, self.cross + other.cross, self.visits + other.visits)


@dataclass(frozen=True, eq=False)
class TraceCounts:
    """Counts of traces: a link for each column but the last, and (groups, labels), the number that ended in each label.

    For traces over time also: `occupied`, (groups, steps, width), the number in a state after a step; `visited`,
    (groups, width), the number that were ever in a state; and, for the bounds of a folded chain, `moments`.
    """

    links: tuple[Link, ...]
    labels: Counts
    occupied: Counts | None = None
    visited: Counts | None = None
    moments: Moments | None = None

    def __add__(self, other: TraceCounts) -> TraceCounts:
        links = tuple(one + two for one, two in zip(self.links, other.links, strict=True))
        pairs = [(getattr(self, name), getattr(other, name)) for name in ("occupied", "visited", "moments")]
        sums = (None if one is None else one + two for one, two in pairs)
        return TraceCounts(links, self.labels + other.labels, *sums)


def count_columns(group: int, plan: ChainPlan, columns: Sequence[States]) -> TraceCounts:
    """Count one group's traces through the columns of units and the label, one state in each."""
    columns = [np.zeros(len(columns[0]), np.int64), *columns]
    links = (
        count_link(group, len(plan.groups), (columns[place], columns[place + 1]), plan.widths(place))
        for place in range(len(columns) - 1)
    )
    return TraceCounts(tuple(links), _labels(group, plan, columns[-1]))


@dataclass(frozen=True, eq=False)
class Passages:
    """All steps of some traces, in order: the trace and number of each, and where traces end."""

    row: Counts
    step: Counts
    last: Counts

    @classmethod
    def of(cls, lengths: States, plan: ChainPlan) -> Self:
        """Return the passages of traces with these numbers of steps; raise a ChainError for impossible lengths."""
        least = 1 if plan.varied else plan.steps
        if len(lengths) and (lengths.min() < least or lengths.max() > plan.steps):
            raise ChainError(
                WRONG_NUMBER_OF_STEPS.format(
                    least=int(lengths.min()), largest=int(lengths.max()), least2=least, steps=plan.steps
                )
            )
        ends = np.cumsum(lengths, dtype=np.int64)
        row = np.repeat(np.arange(len(lengths)), lengths)
        return cls(row, np.arange(len(row)) - (ends - lengths)[row], ends - 1)


def count_steps(
    group: int, plan: ChainPlan, states: States, passages: Passages, after: Sequence[States], *, moments: bool = False
) -> TraceCounts:
    """Count one group's traces over time, with the state of every passage in the order of the traces.

    `after` has the states in the columns after the last step, (traces,) each, the label last. `moments`: whether to
    count second moments for the bounds of a folded chain.
    """
    groups, width, steps = len(plan.groups), len(plan.units[0].names), plan.steps
    following = width + len(plan.columns[-len(after)])
    here = states.astype(np.int64)
    then = np.empty_like(here)
    then[:-1] = here[1:]
    then[passages.last] = width + after[0]
    pair = here * following + then
    taken = np.bincount(passages.step * (width * following) + pair, minlength=steps * width * following)
    taken = taken.reshape(steps, width, following)
    if plan.view == "folded":
        tables = [taken.sum(axis=0)]
    else:
        tables = [*(taken[:-1] if plan.varied else taken[:-1, :, :width]), taken[-1, :, width:]]
    rows = len(passages.last)
    been = np.bincount(passages.row * width + here, minlength=rows * width).reshape(rows, width)
    first = len(plan.columns) - len(after)
    entry = np.zeros(rows, np.int64), here[passages.step == 0]
    links = [
        count_link(group, groups, entry, plan.widths(0)),
        *(Link(len(table), table.shape[1], _of_group(group, groups, table).ravel()) for table in tables),
        *(
            count_link(group, groups, (after[place], after[place + 1]), plan.widths(first + place))
            for place in range(len(after) - 1)
        ),
    ]
    return TraceCounts(
        tuple(links),
        _labels(group, plan, after[-1]),
        occupied=_of_group(group, groups, taken.sum(axis=2)),
        visited=_of_group(group, groups, np.count_nonzero(been, axis=0)),
        moments=_moments(group, groups, pair, been, passages, following) if moments else None,
    )


def _labels(group: int, plan: ChainPlan, labels: States) -> Counts:
    return _of_group(group, len(plan.groups), np.bincount(labels, minlength=len(plan.labels)))


def _of_group(group: int, groups: int, counts: Counts) -> Counts:
    """Return (groups, ...): the counts of one group, zero for the others."""
    table = np.zeros((groups, *counts.shape), np.int64)
    table[group] = counts
    return table


def _moments(group: int, groups: int, pair: Counts, been: Counts, passages: Passages, following: int) -> Moments:
    """Return second moments of the counts of transitions in one trace; computed for some traces at a time."""
    rows, width = been.shape
    size = width * following
    square = np.zeros((width, following), np.int64)
    cross = np.zeros_like(square)
    block = max(1, MOST_TRACE_CELLS // size)
    for start in range(0, rows, block):
        end = min(start + block, rows)
        part = slice(passages.last[start - 1] + 1 if start else 0, passages.last[end - 1] + 1)
        taken = np.bincount((passages.row[part] - start) * size + pair[part], minlength=(end - start) * size)
        taken = taken.reshape(end - start, width, following)
        square += np.einsum("rpq,rpq->pq", taken, taken)
        cross += np.einsum("rpq,rp->pq", taken, been[start:end])
    visits = np.einsum("rp,rp->p", been, been)[:, None]
    return Moments(*(_of_group(group, groups, sums) for sums in (square, cross, visits)))


@dataclass(frozen=True, eq=False)
class TraceCounter:
    """Counter of the traces of several chains from the same inputs; either all chains are over time, or none is."""

    context: ChainContext
    chains: Sequence[PlannedUnits]
    workers: Workers
    moments: bool = True

    def counts(self, first: int, rounds: int) -> tuple[TraceCounts, ...]:
        """Return the counts for each chain of this many rounds, from chunk `first` on."""
        sizes = [min(TRACES_PER_CHUNK, rounds - start) for start in range(0, rounds, TRACES_PER_CHUNK)]
        units = [(first + place, size) for place, size in enumerate(sizes)]
        return _sums(self.workers.map(self.count_chunk, units, sizes=sizes))

    def count_chunk(self, unit: tuple[int, int]) -> tuple[TraceCounts, ...]:
        """Return the counts of one chunk, (its number, its rounds), for each chain."""
        parts, probe = self.context.inputs(*unit), self.context.probe
        if self.chains[0][1].view is None:
            return _sums(self._columns(group, inputs) for group, inputs in parts)
        assert isinstance(probe, LastSteps)
        return _sums(self._steps(group, probe, part) for group, inputs in parts for part in probe.parts(inputs))

    def _columns(self, group: int, inputs: NDArray[np.floating]) -> tuple[TraceCounts, ...]:
        labels, hidden = self.context.probe(inputs)
        return tuple(
            count_columns(group, plan, [*(unit.states(inputs, hidden) for unit in units), labels])
            for units, plan in self.chains
        )

    def _steps(self, group: int, probe: LastSteps, inputs: NDArray[Any]) -> tuple[TraceCounts, ...]:
        shown = probe.steps(inputs)
        numbers = {name: states[inside_of(shown)] for name, states in shown.states.items()}
        passages = Passages.of(shown.lengths, self.chains[0][1])
        return tuple(
            count_steps(
                group,
                plan,
                timed.states(inputs, numbers),
                passages,
                [*(unit.states(inputs, shown.layers) for unit in after), shown.labels],
                moments=self.moments and plan.view == "folded",
            )
            for (timed, *after), plan in self.chains
        )


def _sums(parts: Iterable[tuple[TraceCounts, ...]]) -> tuple[TraceCounts, ...]:
    """Sum the counts of each chain part by part, so that only one part is in memory."""
    return reduce(lambda total, part: tuple(map(add, total, part)), parts)
