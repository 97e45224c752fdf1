"""Drawing of the nodes of a network for many rounds at once, each node from its own random number.

A value is the first whose cumulative probability exceeds the random number; a number is the normal deviate at the
random number's quantile, scaled and shifted. The plan determines the order: nodes that no group changes, nodes drawn
jointly given the group, and the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.populations.base import Scratch
from fairchain.populations.bayes.graph import BayesGraph, Indices, Joint
from fairchain.populations.bayes.nodes import (
    BayesNode,
    Choice,
    Computed,
    Normal,
    Reals,
    cumulative,
    number_of,
    values_of,
)

# Up to this many values, comparing with every edge is faster than bisection.
FEW_NODE_VALUES = 6

# The values of the nodes in each round: indices of values, or reals.
NodeValues = Mapping[str, NDArray[Any]]


class Buffers:
    """Memory for intermediate results between random numbers and values, one entry for each round."""

    def __init__(self, scratch: Scratch, rows: int) -> None:
        self.start: Indices = scratch.rows("start", rows, lambda count: np.empty(count, np.intp))
        self.jump: Indices = scratch.rows("jump", rows, lambda count: np.empty(count, np.intp))
        self.edge: Reals = scratch.rows("edge", rows, np.empty)
        self.beyond: NDArray[np.bool_] = scratch.rows("beyond", rows, lambda count: np.empty(count, bool))
        self.count: NDArray[np.uint8] = scratch.rows("count", rows, lambda count: np.empty(count, np.uint8))


# Discrete parents of a node, each with its stride in the node's table.
Steps = tuple[tuple[str, int], ...]


def _steps(parents: Sequence[str], nodes: Mapping[str, BayesNode], width: int) -> Steps:
    sizes = [len(values_of(nodes[name]) or ()) for name in parents]
    return tuple((name, width * prod(sizes[place + 1 :])) for place, name in enumerate(parents))


def _starts(steps: Steps, states: NodeValues, buffers: Buffers) -> Indices:
    """Compute where the entry or row of the parents' combination begins in each round, in `buffers.start`."""
    if not steps:
        buffers.start.fill(0)
        return buffers.start
    (name, stride), *rest = steps
    np.multiply(states[name], stride, out=buffers.start)
    for name, stride in rest:
        np.multiply(states[name], stride, out=buffers.jump)
        np.add(buffers.start, buffers.jump, out=buffers.start)
    return buffers.start


@dataclass(frozen=True, eq=False)
class DrawChoice:
    """Draw of one of few values: its index is the number of cumulative probabilities up to the random number.

    `edges` are these probabilities without the last, which is 1: (edges, combinations of parents).
    """

    steps: Steps
    edges: Reals

    def __call__(self, uniform: Reals, states: NodeValues, out: NDArray[Any], buffers: Buffers) -> None:
        """Draw one value for each random number in [0, 1)."""
        row = _starts(self.steps, states, buffers) if self.steps else None
        count = buffers.count
        count.fill(0)
        for edges in self.edges:
            edge = edges[0] if row is None else np.take(edges, row, out=buffers.edge, mode="clip")
            np.less_equal(edge, uniform, out=buffers.beyond)
            np.add(count, buffers.beyond.view(np.uint8), out=count)
        np.copyto(out, count)


@dataclass(frozen=True, eq=False)
class DrawLongChoice:
    """Draw of one of many values by bisection; `edges` is (combinations, values), padded to a power of two."""

    steps: Steps
    edges: Reals

    def __call__(self, uniform: Reals, states: NodeValues, out: NDArray[Any], buffers: Buffers) -> None:
        """Draw one value for each random number in [0, 1)."""
        start = _starts(self.steps, states, buffers)
        _bisect(self.edges, start, uniform, out, buffers)
        if self.steps:
            np.subtract(out, start, out=out)


def _bisect(edges: Reals, start: Indices, uniform: Reals, out: Indices, buffers: Buffers) -> None:
    """Find the position of each random number among the edges of its row, which begins at `start`.

    This is several times as fast as `searchsorted`, whose branches cannot be predicted for random numbers.
    """
    flat, step = edges.reshape(-1), edges.shape[1] // 2
    while step:
        np.take(flat[step - 1 :], start, out=buffers.edge, mode="clip")
        np.less_equal(buffers.edge, uniform, out=buffers.beyond)
        np.add(start, np.multiply(buffers.beyond, step, out=buffers.jump), out=out)
        start, step = out, step // 2


def _padded(sums: Reals) -> Reals:
    """Return rows padded to a power of two with the edge 2, which no random number reaches."""
    edges = np.full((len(sums), 1 << (sums.shape[1] - 1).bit_length()), 2.0)
    edges[:, : sums.shape[1]] = sums
    return edges


@dataclass(frozen=True, eq=False)
class DrawNormal:
    """Draw of a number from a normal deviate; `slopes` has the change per unit and, for values, their numbers."""

    node: Normal
    steps: Steps
    slopes: tuple[tuple[str, float, Reals | None], ...]

    def __call__(self, deviate: Reals, states: NodeValues, out: NDArray[Any], buffers: Buffers) -> None:
        """Draw one number for each deviate, clipped to its range, and rounded for an integer."""
        node = self.node
        if not self.steps:
            np.multiply(deviate, node.std[0], out=out)
            np.add(out, node.mean[0], out=out)
        else:
            start = _starts(self.steps, states, buffers)
            np.take(node.std, start, out=out, mode="clip")
            np.multiply(out, deviate, out=out)
            np.add(out, np.take(node.mean, start, out=buffers.edge, mode="clip"), out=out)
        for name, slope, numbers in self.slopes:
            parent = states[name]
            if numbers is not None:
                parent = np.take(numbers, parent, out=buffers.edge, mode="clip")
            np.add(out, np.multiply(parent, slope, out=buffers.edge), out=out)
        if node.whole:
            np.rint(out, out=out)
        # Adding 0 turns a rounded -0.0 into an ordinary 0.
        np.add(np.clip(out, node.low, node.high, out=out), 0.0, out=out)


@dataclass(frozen=True, eq=False)
class DrawComputed:
    """Computation of a node from its parents; for parents with named values, the number of each value."""

    node: Computed
    numbers: tuple[tuple[str, Reals | None], ...]

    def __call__(self, _: Reals, states: NodeValues, out: NDArray[Any], buffers: Buffers) -> None:  # noqa: ARG002
        """Compute the numbers, or the indices of the values."""
        inputs = np.empty((len(out), len(self.numbers)))
        for column, (name, numbers) in enumerate(self.numbers):
            inputs[:, column] = states[name] if numbers is None else np.take(numbers, states[name], mode="clip")
        np.copyto(out, self.node.of(inputs), casting="unsafe")


Drawing = DrawChoice | DrawLongChoice | DrawNormal | DrawComputed


def drawing(node: BayesNode, nodes: Mapping[str, BayesNode]) -> Drawing:
    """Return the drawing of this node, given its parents."""
    if isinstance(node, Computed):
        return DrawComputed(node, tuple((name, number_of(nodes[name])) for name in node.parents))
    if isinstance(node, Normal):
        slopes = tuple((name, slope, number_of(nodes[name])) for name, slope in node.slopes)
        return DrawNormal(node, _steps(node.choices, nodes, 1), slopes)
    edges = cumulative(node.table)
    if len(node.values) <= FEW_NODE_VALUES:
        return DrawChoice(_steps(node.choices, nodes, 1), np.ascontiguousarray(edges[:, :-1].T))
    edges = _padded(edges)
    return DrawLongChoice(_steps(node.choices, nodes, edges.shape[1]), edges)


@dataclass(frozen=True, eq=False)
class DrawJoint:
    """Joint draw of several nodes from the combinations of a group, with one random number for all."""

    numbers: Mapping[str, Indices]
    edges: Reals

    def __call__(self, uniform: Reals, states: NodeValues, buffers: Buffers) -> None:
        """Write the indices of the values."""
        cell = _starts((), states, buffers)
        _bisect(self.edges, cell, uniform, cell, buffers)
        for name, numbers in self.numbers.items():
            np.take(numbers, cell, out=states[name], mode="clip")


def drawing_joint(joint: Joint, kept: Sequence[str]) -> DrawJoint:
    """Return the joint drawing of these nodes, with the combinations' relative probabilities."""
    edges = _padded(cumulative(joint.probabilities / joint.share)[None, :])
    return DrawJoint({name: joint.numbers[name] for name in kept}, edges)


def deviates(uniforms: Reals) -> Reals:
    """Turn random numbers into standard normal deviates, in place. 0 counts as 2**-54, so that none is infinite."""
    from scipy.special import ndtri

    np.maximum(uniforms, 2.0**-54, out=uniforms)
    ndtri(uniforms, out=uniforms)
    return uniforms


@dataclass(frozen=True, eq=False)
class DrawPlan:
    """The order of drawing the nodes of a network, and their columns of feature values.

    `common` are nodes that depend on none of the jointly drawn ones: they are the same for every subgroup. `dependent`
    are all others, drawn once for each subgroup. Each has its own row of random numbers in `rows`; those in
    `normal_rows` are used as normal deviates. `columns` has the column of a node and, for values that are not their own
    number, the numbers. `kept` are jointly drawn nodes that are used again, as a feature or as a parent. `kinds` are
    the number types of all kept or drawn nodes.
    """

    common: tuple[str, ...]
    dependent: tuple[str, ...]
    kept: tuple[str, ...]
    rows: Mapping[str, int]
    normal_rows: tuple[int, ...]
    drawings: Mapping[str, Drawing]
    columns: Mapping[str, tuple[int, Reals | None]]
    kinds: Mapping[str, type[np.intp] | type[np.float64]]

    @property
    def randoms(self) -> int:
        """Number of random numbers per round: row 0 is for the jointly drawn nodes."""
        return 1 + len(self.rows)


def make_plan(graph: BayesGraph, features: Sequence[str], together: Collection[str]) -> DrawPlan:
    """Plan the drawing of a network in which these nodes and all their ancestors are drawn jointly."""
    nodes = graph.nodes
    dependent = tuple(graph.descendants(together))
    later = {*together, *dependent}
    common = tuple(name for name in nodes if name not in later)
    drawn = (*common, *dependent)
    # A node that is computed from its parents needs no random number.
    rows = {name: 1 + i for i, name in enumerate(n for n in drawn if not isinstance(nodes[n], Computed))}
    seen = {*features, *(parent for name in drawn for parent in nodes[name].parents)}
    kept = tuple(name for name in together if name in seen)
    return DrawPlan(
        common=common,
        dependent=dependent,
        kept=kept,
        rows=rows,
        normal_rows=tuple(row for name, row in rows.items() if isinstance(nodes[name], Normal)),
        drawings={name: drawing(nodes[name], nodes) for name in drawn},
        columns={name: (column, _other_values(nodes[name])) for column, name in enumerate(features)},
        kinds={name: np.float64 if values_of(nodes[name]) is None else np.intp for name in (*kept, *drawn)},
    )


def _other_values(node: BayesNode) -> Reals | None:
    """Return the column's number for each index of a value; None if it is the index itself."""
    if not isinstance(node, Choice) or np.array_equal(node.shown, np.arange(len(node.shown))):
        return None
    return node.shown
