"""Which states can be reached from which: questions about a chain that need no probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class TransitionGraph:
    """Edges between the states 0, ..., size - 1."""

    size: int
    sources: Indices
    targets: Indices

    def back(self, goal: Mask, through: Mask) -> Mask:
        """The goal, and the states that can reach it along states of `through`, themselves included."""
        used = through[self.sources]
        return _search(self.size, self.targets[used], self.sources[used], goal)

    def ahead(self, start: Mask, through: Mask) -> Mask:
        """The start, and what can be reached from it by leaving only states of `through`."""
        used = through[self.sources]
        return _search(self.size, self.sources[used], self.targets[used], start)

    def distance(self, goal: Mask) -> Floats:
        """The smallest number of steps to the goal, infinite where there is no way."""
        return _distances(self.size, self.targets, self.sources, goal)

    def within(self, start: Mask, through: Mask, steps: int) -> Mask:
        """As `ahead`, in at most this many steps."""
        used = through[self.sources]
        found: Mask = _distances(self.size, self.sources[used], self.targets[used], start, steps) <= steps
        return found

    @cached_property
    def components(self) -> tuple[int, Indices]:
        """How many strongly connected components there are, and the number of each state's."""
        return components_of(self.size, self.sources, self.targets)

    def bottom(self, closed: Mask | None = None) -> tuple[int, Indices]:
        """Components that are never left, as their count and each state's number; -1 for the other states.

        With `closed`, only those whose states are all in it.
        """
        count, component = self.components
        kept = np.ones(count, bool)
        leaving = component[self.sources] != component[self.targets]
        kept[component[self.sources[leaving]]] = False
        if closed is not None:
            kept[component[~closed]] = False
        number = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.intp)
        return int(kept.sum()), number[component]


def components_of(size: int, sources: Indices, targets: Indices) -> tuple[int, Indices]:
    """Strongly connected components: their number, and each state's."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = coo_array((np.ones(len(sources)), (sources, targets)), shape=(size, size)).tocsr()
    count, component = connected_components(edges, directed=True, connection="strong")
    return int(count), component.astype(np.intp)


def _from_outside(size: int, sources: Indices, targets: Indices, start: Mask) -> object:
    """The edges, and one more state with an edge to each state of the start."""
    from scipy.sparse import coo_array

    first = np.flatnonzero(start)
    rows = np.concatenate([sources, np.full(len(first), size)])
    columns = np.concatenate([targets, first])
    return coo_array((np.ones(len(rows)), (rows, columns)), shape=(size + 1, size + 1)).tocsr()


def _search(size: int, sources: Indices, targets: Indices, start: Mask) -> Mask:
    from scipy.sparse.csgraph import breadth_first_order

    edges = _from_outside(size, sources, targets, start)
    found = np.zeros(size + 1, bool)
    found[breadth_first_order(edges, size, return_predecessors=False)] = True
    return found[:size]


def _distances(size: int, sources: Indices, targets: Indices, start: Mask, most: float = np.inf) -> Floats:
    from scipy.sparse.csgraph import dijkstra

    edges = _from_outside(size, sources, targets, start)
    found = dijkstra(edges, indices=size, unweighted=True, limit=most + 1)
    distances: Floats = found[:size] - 1
    return distances
