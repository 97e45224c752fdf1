"""Reachability and strongly connected components: properties of a chain that do not depend on its probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]
COMPONENT_ORDER = "scipy numbers strongly connected components in another order than is relied on"


@dataclass(frozen=True, eq=False)
class TransitionGraph:
    """Edges between the states 0, ..., size - 1."""

    size: int
    sources: Indices
    targets: Indices

    def back(self, goal: Mask, through: Mask) -> Mask:
        """Return the goal, and the states that can reach it through states of `through`, including themselves."""
        used = through[self.sources]
        return _distances(self.targets[used], self.sources[used], goal) < np.inf

    def ahead(self, start: Mask, through: Mask, steps: int | None = None) -> Mask:
        """Return the start, and the states reached from it in at most `steps`, leaving only states of `through`."""
        used = through[self.sources]
        found = _distances(self.sources[used], self.targets[used], start, steps)
        return found < np.inf if steps is None else found <= steps

    def distance(self, goal: Mask) -> Floats:
        """Return the smallest number of steps to the goal, infinite if it cannot be reached."""
        return _distances(self.targets, self.sources, goal, self.size)

    @cached_property
    def components(self) -> tuple[int, Indices]:
        """The number of strongly connected components, and the component of each state."""
        return components_of(self.size, self.sources, self.targets)

    def bottom(self, closed: Mask | None = None) -> tuple[int, Indices]:
        """Return the number of bottom components within `closed`, and the one of each state, -1 for the others."""
        count, component = self.components
        kept = np.ones(count, bool)
        leaving = component[self.sources] != component[self.targets]
        kept[component[self.sources[leaving]]] = False
        if closed is not None:
            kept[component[~closed]] = False
        number = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.intp)
        return int(kept.sum()), number[component]


def components_of(size: int, sources: Indices, targets: Indices) -> tuple[int, Indices]:
    """Return the number of strongly connected components, and the component of each state.

    Edges between components lead to smaller numbers: components are numbered in the order in which Tarjan's and
    Pearce's algorithms finish them.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = coo_array((np.ones(len(sources)), (sources, targets)), shape=(size, size)).tocsr()
    count, component = connected_components(edges, directed=True, connection="strong")
    component = component.astype(np.intp)
    if not (component[sources] >= component[targets]).all():
        raise RuntimeError(COMPONENT_ORDER)
    return int(count), component


def _distances(sources: Indices, targets: Indices, start: Mask, most: int | None = None) -> Floats:
    """Return steps from the start, infinite beyond `most`; without it 0 for all reached states."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order, dijkstra

    # One more state, with an edge to each state of the start.
    size, first = len(start), np.flatnonzero(start)
    rows, columns = np.concatenate([sources, np.full(len(first), size)]), np.concatenate([targets, first])
    edges = coo_array((np.ones(len(rows)), (rows, columns)), shape=(size + 1, size + 1)).tocsr()
    if most is None:
        found = np.full(size + 1, np.inf)
        found[breadth_first_order(edges, size, return_predecessors=False)] = 0
        return found[:size]
    distances: Floats = dijkstra(edges, indices=size, unweighted=True, limit=most + 1)[:size] - 1
    return distances
