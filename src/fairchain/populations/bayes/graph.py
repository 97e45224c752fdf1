"""A Bayesian network as a graph, and the enumeration of its nodes with tables.

Every feature is a node, parents come before children, and only ancestors of features are kept. The enumeration gives
every combination of values with its probability; exact conditioning on a group uses it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from fairchain.errors import SpecError
from fairchain.messages import doubled, near, unknown
from fairchain.populations.bayes.nodes import (
    MOST_NODES,
    MOST_NUMBER,
    MOST_TABLE_CELLS,
    BayesNode,
    Choice,
    Normal,
    Reals,
    Site,
    make_node,
    make_switch,
    number_of,
    values_of,
)
from fairchain.populations.finite import Factor, FiniteSpace, TooManyCellsError, whole_weights, without
from fairchain.spec import Feature, Node

TOO_MANY_NODES = "{source}: {nodes_count} nodes are more than {most_nodes}; leave some out"
DEPENDS_ON_ITSELF = "it depends on itself ({listed}); remove one of these parents"


@dataclass(frozen=True, eq=False)
class BayesGraph:
    """Nodes by name, parents before children. `stated` is the number of nodes before unneeded ones were left out."""

    nodes: Mapping[str, BayesNode]
    stated: int

    def ancestors(self, names: Iterable[str]) -> list[str]:
        """Return these nodes and all their ancestors, parents first."""
        wanted, todo = set[str](), list(names)
        while todo:
            name = todo.pop()
            if name not in wanted:
                wanted.add(name)
                todo.extend(self.nodes[name].parents)
        return [name for name in self.nodes if name in wanted]

    def descendants(self, names: Iterable[str]) -> list[str]:
        """Return the descendants of these nodes, without them, parents first."""
        start = set(names)
        reached = set(start)
        for name, node in self.nodes.items():
            if not reached.isdisjoint(node.parents):
                reached.add(name)
        return [name for name in self.nodes if name in reached and name not in start]


def build_graph(features: Sequence[Feature], nodes: Sequence[Node], source: str) -> BayesGraph:
    """Check nodes against each other and against the features, and order them for drawing.

    Each feature must be a node of the same name; other nodes are latent. `source` is the name of the network in
    messages: its file, or `population.nodes`. Raises a SpecError with the node, the problem and the remedy.
    """
    by_name = _named(features, nodes, source)
    by_feature = {feature.name: feature for feature in features}
    made: dict[str, BayesNode] = {}
    cells = 0
    for name in _in_order(by_name, source):
        stated = _switched(Site(source, name), by_name[name], made)
        made[name] = node = make_node(Site(source, name), stated, by_feature.get(name), made)
        cells += node.table.size if isinstance(node, Choice) else node.mean.size if isinstance(node, Normal) else 1
        if cells > MOST_TABLE_CELLS:
            raise SpecError(
                f"{source}: the tables have more than {MOST_TABLE_CELLS} numbers; use fewer parents or values"
            )
    graph = BayesGraph(made, len(nodes))
    return BayesGraph({name: made[name] for name in graph.ancestors(by_feature)}, len(nodes))


def _switched(site: Site, node: Node, made: dict[str, BayesNode]) -> Node:
    """Return the node with each parent that has thresholds replaced by a node for the parent's interval.

    These nodes are added to `made`; nodes with the same thresholds share them.
    """
    parents = list(node.parents)
    for parent, stated in node.switches.items():
        if parent not in parents:
            there = near(parent, node.parents) if node.parents else "it has none"
            raise site.error("switches", f'"{parent}" is not one of its parents; {there}')
        if values_of(made[parent]) is not None and number_of(made[parent]) is None:
            raise site.error("switches", f'the values of "{parent}" are names, not numbers; remove its threshold')
        thresholds = [float(each) for each in (stated if isinstance(stated, tuple) else (stated,))]
        if not thresholds or not all(abs(each) <= MOST_NUMBER for each in thresholds):
            raise site.error(f"switches.{parent}", f"found {stated}; write one finite number or more, as in [30, 50]")
        if any(one >= other for one, other in pairwise(thresholds)):
            raise site.error(f"switches.{parent}", f"found {stated}; write every number once, the smallest first")
        # No stated node has a name with a line end, so these names are unique.
        name = "\n".join([parent, *map(repr, thresholds)])
        if name not in made:
            made[name] = make_switch(name, made[parent], parent, thresholds)
        place = parents.index(parent)
        parents[place : place + 1] = [name, parent] if parent in node.slopes else [name]
    return msgspec.structs.replace(node, parents=tuple(parents))


def _named(features: Sequence[Feature], nodes: Sequence[Node], source: str) -> dict[str, Node]:
    """Return the nodes by name; every feature and every parent must be one of them."""
    if len(nodes) > MOST_NODES:
        raise SpecError(TOO_MANY_NODES.format(source=source, nodes_count=len(nodes), most_nodes=MOST_NODES))
    if (twice := doubled(node.name for node in nodes)) is not None:
        raise Site(source, twice).error("", "occurs twice; rename or remove one")
    by_name = {node.name: node for node in nodes}
    for feature in features:
        if feature.name not in by_name:
            hint = near(feature.name, list(by_name))
            raise SpecError(f'{source}: node "{feature.name}" is missing, and every feature must be a node; {hint}')
    for node in nodes:
        if "\n" in node.name:
            raise Site(source, node.name).error("name", "has a line end; rename it")
        if (twice := doubled(node.parents)) is not None:
            raise Site(source, node.name).error("parents", f'"{twice}" occurs twice; name each parent once')
        for parent in node.parents:
            if parent not in by_name:
                raise Site(source, node.name).error("parents", unknown("node", parent, list(by_name)))
    return by_name


def _in_order(nodes: Mapping[str, Node], source: str) -> list[str]:
    """Return the names, parents before children and otherwise in the stated order."""
    sorter = TopologicalSorter({name: node.parents for name, node in nodes.items()})
    try:
        sorter.prepare()
    except CycleError as error:
        cycle = error.args[1][::-1]
        listed = " <- ".join(cycle if len(cycle) <= 8 else [*cycle[:6], "...", cycle[-1]])
        raise Site(source, cycle[0]).error("parents", DEPENDS_ON_ITSELF.format(listed=listed)) from None
    names = list(nodes)
    number = {name: place for place, name in enumerate(names)}
    ready: list[int] = []
    order: list[str] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heapq.heappush(ready, number[name])
        order.append(names[heapq.heappop(ready)])
        sorter.done(order[-1])
    return order


# Largest number of enumerated combinations, and of probabilities that are read as fractions.
MOST_COMBINATIONS = 200_000
MOST_FRACTIONS = 200_000

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Joint:
    """Combinations with positive probability: for each node the index of its value, and their probabilities.

    They are in lexicographic order: the first node (parents come first) changes slowest.
    """

    numbers: Mapping[str, Indices]
    probabilities: Reals

    @property
    def share(self) -> float:
        """The sum of their probabilities."""
        return math.fsum(self.probabilities)

    def given(self, members: Mapping[str, NDArray[np.bool_]]) -> Joint:
        """Return those in which these nodes have one of these values, with their original probabilities."""
        kept = np.ones(len(self.probabilities), bool)
        for name, values in members.items():
            kept &= values[self.numbers[name]]
        return Joint({name: numbers[kept] for name, numbers in self.numbers.items()}, self.probabilities[kept])


def joint_of(graph: BayesGraph, names: Iterable[str]) -> Joint | None:
    """Return the joint distribution of these nodes and all their ancestors.

    None if one of them is a number, or if there are more than `MOST_COMBINATIONS` combinations.
    """
    wanted = graph.ancestors(names)
    nodes = [node for node in (graph.nodes[name] for name in wanted) if isinstance(node, Choice)]
    count = math.prod(len(node.values) for node in nodes)
    if len(nodes) < len(wanted) or count > MOST_COMBINATIONS:
        return None
    probabilities = np.ones(count)
    numbers: dict[str, Indices] = {}
    sizes = {node.name: len(node.values) for node in nodes}
    none = np.zeros(count, np.intp)
    stride = count
    for node in nodes:
        size = sizes[node.name]
        stride //= size
        # A node with a single value changes nothing, and there may be thousands of them.
        numbers[node.name] = none if size == 1 else np.arange(count) // stride % size
        if size > 1:
            row = none
            for parent in node.choices:
                row = row * sizes[parent] + numbers[parent]
            probabilities *= node.table[row, numbers[node.name]]
    possible = probabilities > 0
    return Joint({name: each[possible] for name, each in numbers.items()}, probabilities[possible])


def space_of(graph: BayesGraph, features: Sequence[str], cuts: Mapping[int, Sequence[float]]) -> FiniteSpace | None:
    """Return every input of a network of tables with its exact weight; None if there is another kind of node.

    Stated probabilities are read as decimals, and a row of a table is divided by its sum, so every probability is a
    fraction. Nodes that are not features are summed out. A real feature without descendants is left out if possible: it
    is one interval in `cuts`.
    """
    left_out = {
        name
        for column, name in enumerate(features)
        if isinstance(graph.nodes[name], Normal) and len(cuts.get(column, [0.0])) == 0 and not graph.descendants([name])
    }
    wanted = graph.ancestors(name for name in features if name not in left_out)
    nodes = [node for node in (graph.nodes[name] for name in wanted) if isinstance(node, Choice)]
    if len(nodes) < len(wanted) or sum(node.table.size for node in nodes) > MOST_FRACTIONS:
        return None
    # Latent nodes are further columns after those of the features.
    place = {name: column for column, name in enumerate(features)}
    place |= {name: len(features) + number for number, name in enumerate(n for n in wanted if n not in place)}
    by_name = {node.name: node for node in nodes}
    values: list[Reals] = [np.zeros(1)] * len(place)
    for name, node in by_name.items():
        values[place[name]] = node.shown
    factors = [_factor(node, by_name, place) for node in nodes]
    factors += [Factor((place[name],), np.ones(1, np.int64).astype(object)) for name in left_out]
    space = FiniteSpace(tuple(values), tuple(factors))
    try:
        for column in range(len(features), len(place)):
            space = space.merged(column)
    except TooManyCellsError:
        return None
    # Each latent column has one value left, which is dropped from the factors too.
    latent = range(len(features), len(place))
    return FiniteSpace(space.values[: len(features)], tuple(without(factor, latent) for factor in space.factors))


def _factor(node: Choice, nodes: Mapping[str, Choice], place: Mapping[str, int]) -> Factor:
    """Return a node's table as integers, (values of each parent, values of the node)."""
    rows = [[Fraction(repr(share)) for share in row] for row in node.stated.tolist()]
    weights = whole_weights(share / sum(row) for row in rows for share in row)
    shape = [len(nodes[parent].values) for parent in node.choices] + [len(node.values)]
    return Factor((*(place[parent] for parent in node.choices), place[node.name]), weights.reshape(shape))
