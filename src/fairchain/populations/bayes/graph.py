"""The nodes of a network together: every feature a node, parents before children, and only what features depend on."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fairchain.errors import SpecError
from fairchain.populations.bayes.nodes import Choice, Normal, Site, make_node
from fairchain.populations.bayes.tables import MOST_CELLS, MOST_NODES, near, repeated
from fairchain.spec.schema import Feature, Node


@dataclass(frozen=True, eq=False)
class BayesGraph:
    """Nodes by name, parents before children. `stated` is how many there were before those not needed were left out."""

    nodes: Mapping[str, Choice | Normal]
    stated: int

    def ancestors(self, names: Iterable[str]) -> list[str]:
        """These nodes and all that they depend on, parents first."""
        wanted, todo = set[str](), list(names)
        while todo:
            name = todo.pop()
            if name not in wanted:
                wanted.add(name)
                todo.extend(self.nodes[name].parents)
        return [name for name in self.nodes if name in wanted]

    def descendants(self, names: Iterable[str]) -> list[str]:
        """The nodes that depend on one of these, without them, parents first."""
        start = set(names)
        found: dict[str, None] = {}
        for name, node in self.nodes.items():
            if name not in start and any(parent in start or parent in found for parent in node.parents):
                found[name] = None
        return list(found)


def build_graph(features: Sequence[Feature], nodes: Sequence[Node], source: str) -> BayesGraph:
    """Check nodes against each other and against the features, and arrange them for drawing.

    Parameters
    ----------
    features
        Each must be a node of the same name; other nodes are latent.
    nodes
        As stated.
    source
        What messages call the network: its file, or `population.nodes`.

    Raises
    ------
    SpecError
        One message with the node, what is wrong and what to write.
    """
    by_name = _named(features, nodes, source)
    by_feature = {feature.name: feature for feature in features}
    made: dict[str, Choice | Normal] = {}
    cells = 0
    for name in _in_order(by_name, source):
        made[name] = node = make_node(Site(source, name), by_name[name], by_feature.get(name), made)
        cells += node.table.size if isinstance(node, Choice) else node.mean.size
        if cells > MOST_CELLS:
            raise SpecError(f"{source}: the tables have more than {MOST_CELLS} numbers; use fewer parents or values")
    graph = BayesGraph(made, len(made))
    return BayesGraph({name: made[name] for name in graph.ancestors(by_feature)}, len(made))


def _named(features: Sequence[Feature], nodes: Sequence[Node], source: str) -> dict[str, Node]:
    if len(nodes) > MOST_NODES:
        raise SpecError(f"{source}: {len(nodes)} nodes are more than {MOST_NODES}; leave some out")
    twice = repeated(node.name for node in nodes)
    if twice is not None:
        raise Site(source, twice).error("", "stands twice; rename or remove one")
    by_name = {node.name: node for node in nodes}
    for feature in features:
        if feature.name not in by_name:
            raise SpecError(
                f'{source}: no node is called "{feature.name}", and every feature must be one; '
                f"{near(feature.name, list(by_name))}"
            )
    for node in nodes:
        twice = repeated(node.parents)
        if twice is not None:
            raise Site(source, node.name).error("parents", f'"{twice}" stands twice; name each parent once')
        for parent in node.parents:
            if parent not in by_name:
                there = near(parent, list(by_name))
                raise Site(source, node.name).error("parents", f'there is no node "{parent}"; {there}')
    return by_name


def _in_order(nodes: Mapping[str, Node], source: str) -> list[str]:
    """Parents before children, and otherwise as stated."""
    names = list(nodes)
    number = {name: i for i, name in enumerate(names)}
    missing = {name: len(nodes[name].parents) for name in names}
    children: dict[str, list[str]] = {name: [] for name in names}
    for name in names:
        for parent in nodes[name].parents:
            children[parent].append(name)
    ready = [number[name] for name in names if not missing[name]]
    order: list[str] = []
    while ready:
        order.append(names[heapq.heappop(ready)])
        for child in children[order[-1]]:
            missing[child] -= 1
            if not missing[child]:
                heapq.heappush(ready, number[child])
    if len(order) < len(names):
        cycle = _cycle(nodes, {name: None for name in names if missing[name]})
        shown = " <- ".join(cycle if len(cycle) <= 8 else [*cycle[:6], "...", cycle[-1]])
        raise Site(source, cycle[0]).error("parents", f"it depends on itself ({shown}); remove one of these parents")
    return order


def _cycle(nodes: Mapping[str, Node], stuck: Mapping[str, None]) -> list[str]:
    """A way round: follow parents among the nodes that wait for each other until one comes again."""
    seen: dict[str, int] = {}
    name = next(iter(stuck))
    while name not in seen:
        seen[name] = len(seen)
        name = next(parent for parent in nodes[name].parents if parent in stuck)
    return [*list(seen)[seen[name] :], name]
