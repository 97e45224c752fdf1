"""The fairness property as a query: the largest difference between groups in the probability of a path formula."""

from __future__ import annotations

import re

import numpy as np

from fairchain.chain import Chain
from fairchain.errors import QueryError
from fairchain.pctl.equations import solve
from fairchain.pctl.formula import GapQuery
from fairchain.pctl.graph import Floats, Mask
from fairchain.pctl.interval_rows import difference
from fairchain.pctl.label_names import holds_in, no_label
from fairchain.pctl.lexer import quoted_label
from fairchain.pctl.point_values import Points


def gap_groups(chain: Chain, gap: GapQuery) -> dict[str, Mask]:
    """Return the labels of the groups of a gap, each with its states.

    Raises a QueryError if a pattern matches no label, or there are fewer than two groups.
    """
    found: dict[str, Mask] = {}
    for pattern in gap.groups:
        # Only the star is special: names may contain ? and [. A label with exactly this name comes first.
        fits = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
        matches = [pattern] if pattern in chain.labels else [label for label in chain.labels if fits.fullmatch(label)]
        if not matches:
            raise no_label(chain, pattern, gap.column)
        found |= {label: holds_in(chain, label) for label in matches}
    for label, states in found.items():
        if not states.any():
            raise QueryError(f"no state has label {quoted_label(label)}; name groups that the chain has")
    if len(found) < 2:
        raise QueryError(
            f"a gap needs at least two groups, found only {', '.join(map(quoted_label, found))}; "
            'name more labels, or a pattern like "sex=*"'
        )
    return found


def entered(points: Points, states: Mask) -> Floats:
    """Return (states,): the probability that a state is the first visited one of its group, given that one is visited.

    Raises a QueryError if the group has several states and none of them can be reached from the initial state.
    """
    weights = np.zeros(points.graph.size)
    initial = points.chain.initial
    if states.sum() == 1 or states[initial]:
        weights[np.flatnonzero(states)[0] if not states[initial] else initial] = 1.0
        return weights
    start = np.zeros_like(states)
    start[initial] = True
    before = points.graph.ahead(start, ~states) & points.graph.back(states, ~states) & ~states
    if not before.any():
        names = ", ".join(quoted_label(points.chain.states[state]) for state in np.flatnonzero(states)[:3])
        raise QueryError(f"the states of a group, {names}, cannot be reached from the initial state")
    rows = points.matrix[before]
    leaving = rows[:, ~before].sum(axis=1)
    visits = solve(rows[:, before], leaving, start[before].astype(float), visits=True)
    weights[states] = rows[:, states].T @ visits
    weights /= weights.sum()
    return weights


def widest(low: Floats, high: Floats) -> tuple[float, float]:
    """Return bounds of the largest difference between two of several numbers, from bounds of each; rounded outward."""
    surely = difference(low.max(keepdims=True), high.min(keepdims=True), largest=False)[0]
    # The largest upper bound minus the smallest lower one of another: the two smallest are enough.
    smallest = np.argsort(low)[:2]
    other = np.where(np.arange(len(low)) == smallest[0], low[smallest[1]], low[smallest[0]])
    return max(0.0, float(surely)), min(1.0, float(difference(high, other, largest=True).max()))
