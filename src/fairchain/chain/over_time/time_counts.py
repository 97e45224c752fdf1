"""Traces over time counted: group -> state after step 1 -> state after step 2 -> ... -> what comes after the last step.

One group's traces come as a matrix of states, a column for each step, with how many steps each trace has. Only integers
are kept, which add in any order; the folded chain is the unrolled one with its steps added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ChainError

Counts = NDArray[np.int64]
States = NDArray[np.integer]
# Cells of the largest table that is made of the traces of one chunk.
MOST_CELLS = 2**22


@dataclass(frozen=True)
class TimeShape:
    """What there may be: so many steps, states in each, and widths of the columns after the last step.

    `varied`: whether traces may have fewer steps. The last column is the label; a column before it is a unit behind the
    recurrent layer.
    """

    steps: int
    width: int
    after: tuple[int, ...]
    varied: bool = True

    @property
    def following(self) -> int:
        """How many things may follow a state: the states, and those of the first column after the last step."""
        return self.width + self.after[0]


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over traces for transitions p -> q of a folded chain, with n_p and n_pq how often one trace took them.

    `square` and `cross` are the sums of n_pq^2 and n_pq n_p, (groups, width, following); `visits` of n_p^2,
    (groups, width).
    """

    square: Counts
    cross: Counts
    visits: Counts

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.square + other.square, self.cross + other.cross, self.visits + other.visits)


@dataclass(frozen=True, eq=False)
class TimeCounts:
    """Counts of traces over time, for each group.

    Parameters
    ----------
    entry
        (groups, width): how often a trace began in a state.
    steps
        (groups, steps, width, following): how often a state of a step was followed by each state of the next, or, if
        that step was the trace's last, by each of the first column after it.
    after
        For each two neighbouring columns after the last step, (groups, width, next width).
    visited
        (groups, width): how many traces were ever in a state.
    moments
        For the bounds of a folded chain, if they were asked for.
    """

    entry: Counts
    steps: Counts
    after: tuple[Counts, ...]
    visited: Counts
    moments: Moments | None = None

    def __add__(self, other: TimeCounts) -> TimeCounts:
        return TimeCounts(
            self.entry + other.entry,
            self.steps + other.steps,
            tuple(one + two for one, two in zip(self.after, other.after, strict=True)),
            self.visited + other.visited,
            None if self.moments is None or other.moments is None else self.moments + other.moments,
        )

    @classmethod
    def of_groups(cls, groups: Sequence[Self]) -> Self:
        """Several groups, each counted alone, side by side."""
        moments = [each.moments for each in groups if each.moments is not None]
        return cls(
            np.concatenate([each.entry for each in groups]),
            np.concatenate([each.steps for each in groups]),
            tuple(np.concatenate(parts) for parts in zip(*(each.after for each in groups), strict=True)),
            np.concatenate([each.visited for each in groups]),
            Moments(
                np.concatenate([each.square for each in moments]),
                np.concatenate([each.cross for each in moments]),
                np.concatenate([each.visits for each in moments]),
            )
            if moments
            else None,
        )

    @property
    def traces(self) -> Counts:
        """(groups,): how many traces there are."""
        total: Counts = self.entry.sum(axis=1)
        return total

    @property
    def occupied(self) -> Counts:
        """(groups, steps, width): how many traces were in a state after a step."""
        total: Counts = self.steps.sum(axis=3)
        return total

    @property
    def labels(self) -> Counts:
        """(groups, labels): how many traces ended in each label."""
        width = self.entry.shape[1]
        total: Counts = self.after[-1].sum(axis=1) if self.after else self.steps[..., width:].sum(axis=(1, 2))
        return total


def count_traces(
    states: States, lengths: States, after: Sequence[States], shape: TimeShape, *, moments: bool = False
) -> TimeCounts:
    """Count one group's traces.

    Parameters
    ----------
    states
        (rows, at most shape.steps): the state after each step; what stands behind a trace's last step is not looked at.
    lengths
        (rows,): how many steps each trace has, at least one.
    after
        (rows,) each: the columns after the last step, the label last.
    shape
        What there may be.
    moments
        Whether sums for the bounds of a folded chain are wanted, too.

    Returns
    -------
    Counts with one group.

    Examples
    --------
    >>> shape = TimeShape(steps=3, width=2, after=(2,))
    >>> counts = count_traces(np.array([[0, 1, 1], [0, 0, 0]]), np.array([3, 1]), [np.array([1, 0])], shape)
    >>> counts.steps[0].sum(axis=0).tolist()
    [[0, 1, 1, 0], [0, 1, 0, 1]]
    """
    _check(states, lengths, shape)
    inside = np.arange(states.shape[1]) < lengths[:, None]
    return count_passed(states[inside], Passages.of(lengths), after, shape, moments=moments)


@dataclass(frozen=True, eq=False)
class Passages:
    """All steps of some traces, one trace after the other: whose each is, its number from 0, and where traces end."""

    row: Counts
    step: Counts
    last: Counts

    @classmethod
    def of(cls, lengths: States) -> Self:
        """Of traces with so many steps."""
        ends = np.cumsum(lengths, dtype=np.int64)
        row = np.repeat(np.arange(len(lengths)), lengths)
        return cls(row, np.arange(len(row)) - (ends - lengths)[row], ends - 1)


def count_passed(
    states: States, passages: Passages, after: Sequence[States], shape: TimeShape, *, moments: bool = False
) -> TimeCounts:
    """The same as `count_traces`, from the states of all steps, one trace after the other."""
    width, following = shape.width, shape.following
    here = states.astype(np.int64)
    then = np.empty_like(here)
    then[:-1] = here[1:]
    then[passages.last] = width + after[0]
    pair = here * following + then
    size = width * following
    rows = len(passages.last)
    by_step = np.bincount(passages.step * size + pair, minlength=shape.steps * size)
    been = np.bincount(passages.row * width + here, minlength=rows * width).reshape(rows, width)
    links = [
        np.bincount(one.astype(np.int64) * wide + two, minlength=narrow * wide).reshape(1, narrow, wide)
        for one, two, narrow, wide in zip(after[:-1], after[1:], shape.after[:-1], shape.after[1:], strict=True)
    ]
    return TimeCounts(
        entry=np.bincount(here[passages.step == 0], minlength=width)[None],
        steps=by_step.reshape(1, shape.steps, width, following),
        after=tuple(links),
        visited=np.count_nonzero(been, axis=0)[None],
        moments=_moments(pair, been, passages, following) if moments else None,
    )


def _check(states: States, lengths: States, shape: TimeShape) -> None:
    if states.ndim != 2 or not 1 <= states.shape[1] <= shape.steps:
        raise ChainError(f"states over time have shape {states.shape}; (rows, at most {shape.steps} steps) is needed")
    check_lengths(lengths, replace(shape, steps=states.shape[1]) if shape.varied else shape)


def check_lengths(lengths: States, shape: TimeShape) -> None:
    """Raise a ChainError for traces that have no step, or others than there may be."""
    least = 1 if shape.varied else shape.steps
    if len(lengths) and (lengths.min() < least or lengths.max() > shape.steps):
        raise ChainError(
            f"traces have {int(lengths.min())} to {int(lengths.max())} steps, where {least} to {shape.steps} may be"
        )


def _moments(pair: Counts, been: Counts, passages: Passages, following: int) -> Moments:
    """Second moments of how often one trace took a transition; some traces at a time."""
    rows, width = been.shape
    size = width * following
    square = np.zeros((1, width, following), np.int64)
    cross = np.zeros_like(square)
    block = max(1, MOST_CELLS // size)
    for start in range(0, rows, block):
        end = min(start + block, rows)
        part = slice(passages.last[start - 1] + 1 if start else 0, passages.last[end - 1] + 1)
        taken = np.bincount((passages.row[part] - start) * size + pair[part], minlength=(end - start) * size)
        taken = taken.reshape(end - start, width, following)
        square += np.einsum("rpq,rpq->pq", taken, taken)
        cross += np.einsum("rpq,rp->pq", taken, been[start:end])
    return Moments(square, cross, np.einsum("rp,rp->p", been, been)[None])
