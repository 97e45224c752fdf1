"""Traces counted: Start -> group -> states in the order of the network -> label, as integer columns.

Only how often one state followed another is kept, for each group; counts add, in any order. A path of several units
is counted link by link, and a family of single units each as group -> unit -> label, from the same inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.state_units import Hidden, StateUnit
from fairchain.errors import ChainError

Counts = NDArray[np.int64]
# Tables up to this size are counted densely.
DENSE = 2**18


@dataclass(frozen=True, eq=False)
class Link:
    """How often a state of one column was followed by a state of the next, in each group.

    Counted by code, `(group * width + state) * next_width + next_state`: a table of all codes where that is small, else
    only the codes that were seen, in order, with `seen` saying which.
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
        """How often each of `triples` was seen."""
        return self.table if self.seen is not None else self.table[self.table > 0]

    def triples(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Group, state and next state of everything that was seen."""
        codes = self.seen if self.seen is not None else np.flatnonzero(self.table)
        first, following = np.divmod(codes, self.next_width)
        group, state = np.divmod(first, self.width)
        return group, state, following

    def dense(self, groups: int) -> Counts:
        """(groups, width, next_width): all counts as a table; those of all groups added up if `groups` is 1."""
        group, state, following = self.triples()
        table = np.zeros((groups, self.width, self.next_width), np.int64)
        np.add.at(table, (group * (groups > 1), state, following), self.counts)
        return table


def count_link(
    group: int, groups: int, columns: tuple[NDArray[np.int64], NDArray[np.int64]], widths: tuple[int, int]
) -> Link:
    """The link between two columns of one group's inputs."""
    state, following = columns
    for column, width in zip(columns, widths, strict=True):
        if column.size and not 0 <= column.min() <= column.max() < width:
            raise ChainError(f"a trace is in state {column.min()} or {column.max()} of {width}, numbered from 0")
    code = (group * widths[0] + state) * widths[1] + following
    size = groups * widths[0] * widths[1]
    if size <= DENSE:
        return Link(*widths, np.bincount(code, minlength=size).astype(np.int64))
    seen, counts = np.unique(code, return_counts=True)
    return Link(*widths, counts.astype(np.int64), seen)


@dataclass(frozen=True, eq=False)
class PathCounts:
    """The links of a path: group -> first unit -> ... -> last unit -> label; without units, group -> label."""

    links: tuple[Link, ...]

    def __add__(self, other: PathCounts) -> PathCounts:
        return PathCounts(tuple(one + two for one, two in zip(self.links, other.links, strict=True)))


def count_path(
    group: int,
    groups: int,
    units: Sequence[StateUnit],
    labels: NDArray[np.integer],
    classes: int,
    values: NDArray[np.floating],
    hidden: Hidden,
) -> PathCounts:
    """Count the traces of one group's inputs through all units, in order."""
    columns = [np.zeros(len(labels), np.int64)]
    widths = [1]
    for unit in units:
        columns.append(unit.states(values, hidden))
        widths.append(len(unit.discretizer.names))
    columns.append(labels.astype(np.int64))
    widths.append(classes)
    links = [
        count_link(group, groups, (columns[place], columns[place + 1]), (widths[place], widths[place + 1]))
        for place in range(len(columns) - 1)
    ]
    return PathCounts(tuple(links))


def count_family(
    group: int,
    groups: int,
    units: Sequence[StateUnit],
    labels: NDArray[np.integer],
    classes: int,
    values: NDArray[np.floating],
    hidden: Hidden,
) -> tuple[PathCounts, ...]:
    """Count group -> unit -> label for every unit on its own, from the same inputs."""
    return tuple(count_path(group, groups, [unit], labels, classes, values, hidden) for unit in units)
