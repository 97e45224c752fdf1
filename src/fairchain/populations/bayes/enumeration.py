"""Nodes with tables enumerated together: every combination of their values and its probability.

This is what exact conditioning on a group is made from, and what tests compare draws with.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairchain.populations.bayes.graph import BayesGraph
from fairchain.populations.bayes.nodes import Choice, Reals

# Combinations that are enumerated at most.
MOST_COMBINATIONS = 200_000

Numbers = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Joint:
    """Combinations that have a probability: for each node the number of its value, and how likely they are.

    In lexicographic order, the first of the nodes (which come parents first) changing slowest.
    """

    numbers: Mapping[str, Numbers]
    probabilities: Reals

    @property
    def share(self) -> float:
        """The probability of all of them."""
        return math.fsum(self.probabilities)

    def given(self, members: Mapping[str, NDArray[np.bool_]]) -> Joint:
        """Those in which these nodes have one of these values, with the probabilities that they had."""
        kept = np.ones(len(self.probabilities), bool)
        for name, values in members.items():
            kept &= values[self.numbers[name]]
        return Joint({name: numbers[kept] for name, numbers in self.numbers.items()}, self.probabilities[kept])


def joint_of(graph: BayesGraph, names: Iterable[str]) -> Joint | None:
    """The joint distribution of these nodes and all that they depend on.

    None if one of them is a number, or if there are more than `MOST_COMBINATIONS` combinations.
    """
    wanted = graph.ancestors(names)
    nodes = [node for node in (graph.nodes[name] for name in wanted) if isinstance(node, Choice)]
    count = math.prod(len(node.values) for node in nodes)
    if len(nodes) < len(wanted) or count > MOST_COMBINATIONS:
        return None
    probabilities = np.ones(count)
    numbers: dict[str, Numbers] = {}
    none = np.zeros(count, np.intp)
    stride = count
    for node in nodes:
        size = len(node.values)
        stride //= size
        # A node with a single value changes nothing, and there may be thousands of them.
        numbers[node.name] = none if size == 1 else np.arange(count) // stride % size
        if size > 1:
            probabilities *= node.table[_row(node, graph, numbers, none), numbers[node.name]]
    possible = probabilities > 0
    return Joint({name: each[possible] for name, each in numbers.items()}, probabilities[possible])


def _row(node: Choice, graph: BayesGraph, numbers: Mapping[str, Numbers], none: Numbers) -> Numbers:
    """The row of a node's table that belongs to each combination."""
    row = none
    for name in node.choices:
        parent = graph.nodes[name]
        assert isinstance(parent, Choice)
        row = row * len(parent.values) + numbers[name]
    return row
