"""What is drawn in which order: nodes that no group changes, nodes drawn together given the group, and the rest."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairchain.populations.bayes.drawing import Drawing, drawing
from fairchain.populations.bayes.graph import BayesGraph
from fairchain.populations.bayes.nodes import Choice, Normal, Reals


@dataclass(frozen=True, eq=False)
class DrawPlan:
    """How the nodes of a network become feature values.

    `common` are nodes that depend on none of those drawn together: they are the same for every subgroup. `dependent`
    are
    all others, drawn once for each subgroup. Each has a row of random numbers of its own in `rows`; those in
    `normal_rows`
    are used as normal deviates. `columns` says which column a node fills and, for values that are not their own
    number, with what. `kept` are nodes drawn together that are seen again, as a feature or as a parent. `kinds` are
    the number types of all nodes that are kept or drawn.
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
        """How many random numbers a round takes: row 0 is for the nodes drawn together."""
        return 1 + len(self.rows)


def make_plan(graph: BayesGraph, features: Sequence[str], together: Collection[str]) -> DrawPlan:
    """DrawPlan the drawing of a network in which these nodes, with all that they depend on, are drawn together."""
    nodes = graph.nodes
    dependent = tuple(graph.descendants(together))
    later = {*together, *dependent}
    common = tuple(name for name in nodes if name not in later)
    rows = {name: 1 + i for i, name in enumerate((*common, *dependent))}
    seen = {*features, *(parent for name in rows for parent in nodes[name].parents)}
    kept = tuple(name for name in together if name in seen)
    return DrawPlan(
        common=common,
        dependent=dependent,
        kept=kept,
        rows=rows,
        normal_rows=tuple(row for name, row in rows.items() if isinstance(nodes[name], Normal)),
        drawings={name: drawing(nodes[name], nodes) for name in rows},
        columns={name: (column, _other_values(nodes[name])) for column, name in enumerate(features)},
        kinds={name: np.float64 if isinstance(nodes[name], Normal) else np.intp for name in (*kept, *rows)},
    )


def _other_values(node: Choice | Normal) -> Reals | None:
    """What a column holds for each number of a value, unless it is that number."""
    if isinstance(node, Normal) or np.array_equal(node.shown, np.arange(len(node.shown))):
        return None
    return node.shown
