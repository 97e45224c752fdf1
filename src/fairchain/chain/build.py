"""From counts of traces to a chain: estimates and bounds of probabilities, and states in columns.

Bounds are Clopper-Pearson for fixed samples, or valid at any time. In a folded chain one trace visits a state several
times. Its visits depend on each other, so they are not a sample of independent draws and Clopper-Pearson bounds are not
valid. Bounds come from sums over traces instead, which are independent (docs/mathematics-chains.md, "Chains over
time").
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.chain import Chain, Floats, Indices
from fairchain.chain.plan import MOST_POSSIBLE, START_STATE, ChainPlan, Estimator
from fairchain.chain.traces import Counts, Link, Moments, TraceCounts
from fairchain.statistics.intervals import bisect, clopper_pearson, probability_any_time

# Stakes as multiples of 1 / steps: small ones for many traces, large ones for rare transitions.
STAKES = 2.0 ** np.arange(-20, 11)
# Source, target, probability, low, high and count of some transitions.
Transitions = tuple[NDArray[Any], ...]


def estimate(table: Counts, estimator: Estimator) -> Floats:
    """Return (states, successors): probabilities from counts; an unvisited state has equal probabilities.

    "frequency" uses the observed frequencies. "laplace" adds one to every count. "good-turing" gives transitions that
    were never observed the share of those observed once, and takes it from the others; if all transitions were
    observed, or none twice, it changes nothing.
    """
    counts = table.astype(np.float64)
    if estimator == "laplace":
        counts += 1
    visits = counts.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = counts / visits
        if estimator == "good-turing":
            unseen = (counts == 0).sum(axis=1, keepdims=True)
            once = (counts == 1).sum(axis=1, keepdims=True)
            missing = np.where((unseen > 0) & (once < visits), once / visits, 0.0)
            shifted = np.where(counts == 0, missing / unseen, found * (1 - missing))
            found = np.where(unseen > 0, shifted, found)
    return np.where(visits > 0, found, 1 / table.shape[1])


def bounds(seen: Counts, visits: Counts, level: float, *, exact: bool) -> tuple[Floats, Floats]:
    """Return bounds of the probabilities behind counts: Clopper-Pearson, or a confidence sequence.

    See docs/mathematics-chains.md, "Chains". Equal counts have equal bounds, which are computed once.
    """
    times, row = np.unique(visits, return_inverse=True)
    most = int(seen.max(initial=0)) + 1
    codes, place = np.unique(row.reshape(seen.shape) * most + seen, return_inverse=True)
    row, count = np.divmod(codes, most)
    low, high = (clopper_pearson if exact else probability_any_time)(count, times[row], level)
    place = place.reshape(seen.shape)
    return low[place], high[place]


def folded_bounds(taken: Counts, moments: Moments, steps: int, level: float) -> tuple[Floats, Floats]:
    """Return bounds of E[n_pq] / E[n_p], each failing with probability at most `level`, at any time.

    `taken` counts each transition over all traces, (groups, width, following); a trace has at most `steps` steps.
    """
    visits = taken.sum(axis=2, keepdims=True).astype(np.float64)
    seen = taken.astype(np.float64)
    bar = math.log(2 / level)
    square, cross, both = (part.astype(np.float64) for part in (moments.square, moments.cross, moments.visits))
    # A trace of n steps takes a transition between states at most n - 1 times, and its last transition once.
    most = np.ones(taken.shape[2])
    most[: taken.shape[1]] = max(steps - 1, 1)
    stakes = STAKES.reshape(-1, *[1] * (taken.ndim + 1)) / steps

    def too_small(value: Floats) -> Floats:
        gain, spread = seen - value * visits, square - 2 * value * cross + value**2 * both
        return _log_wealth(stakes, gain, spread, value * steps) - bar

    def too_large(value: Floats) -> Floats:
        gain, spread = value * visits - seen, square - 2 * value * cross + value**2 * both
        return _log_wealth(stakes, gain, spread, (1 - value) * most) - bar

    rate = seen / np.maximum(visits, 1)
    low = np.where(seen > 0, bisect(too_small, rate, np.zeros_like(rate)), 0.0)
    high = np.where(seen < visits, bisect(too_large, rate, np.ones_like(rate)), 1.0)
    return low, high


def _log_wealth(stakes: Floats, gain: Floats, spread: Floats, loss: Floats) -> Floats:
    """Return a lower bound of the log wealth of bets with equal shares at these stakes.

    `loss` is the largest loss of a bet.

    For y > -1, (log(1 + y) - y) / y^2 rises with y, so its value at the largest loss bounds the logarithm of every
    factor from below by a parabola, and that of the product by sums of gains and of their squares.
    """
    worst = stakes * loss
    allowed = worst < 1
    worst = np.where(allowed, worst, 0.5)
    # -(log(1 - u) + u) / u^2 by its series if the difference would be lost by rounding.
    small = worst < 1e-3
    bent = np.where(small, 0.5 + worst / 3 + worst**2 / 4 + worst**3, 0.0)
    safe = np.where(small, 0.5, worst)
    bent = np.where(small, bent, (-np.log1p(-safe) - safe) / safe**2)
    logs = np.where(allowed, stakes * gain - stakes**2 * bent * spread, -np.inf)
    top = logs.max(axis=0)
    with np.errstate(invalid="ignore"):
        rest = np.log(np.exp(logs - top).sum(axis=0))
    found: Floats = np.where(np.isfinite(top), top + rest - math.log(len(stakes)), -np.inf)
    return found


class ChainLayout:
    """The states of a plan, numbered from left to right: Start, then by column and copy."""

    def __init__(self, plan: ChainPlan) -> None:
        self.names: list[str] = [START_STATE]
        self.labels: dict[str, frozenset[int]] = {START_STATE: frozenset({0})}
        self._plan = plan
        self._firsts: list[int] = []
        for column, names in enumerate(plan.columns):
            self._firsts.append(len(self.names))
            inner = 0 < column < len(plan.columns) - 1
            for before in [f"{group} & " for group in plan.groups] if inner and plan.kind == "product" else [""]:
                for name in names:
                    self._label(name, (len(self.names),))
                    self.names.append(before + name)
        for step in range(1, 1 + plan.steps) if plan.view == "unrolled" else ():
            # States of an unrolled chain have their step and their folded name as further labels.
            members = self.states(step).tolist()
            self._label(f"step={step}", members)
            for place, name in enumerate(plan.units[0].names):
                self._label(name, members[place :: len(plan.units[0].names)])

    def _label(self, label: str, states: Iterable[int]) -> None:
        self.labels[label] = self.labels.get(label, frozenset()) | frozenset(states)

    def states(self, column: int) -> Indices:
        """Return all states of a column."""
        return np.arange(*[*self._firsts, len(self.names)][column : column + 2])

    def at(self, column: int, group: NDArray[np.int64], state: NDArray[np.int64] | int = 0) -> Indices:
        """Return the indices of states of some groups in a column; in the first column a state is a group."""
        width = len(self._plan.columns[column]) if column else 1
        offset = group * width if self._plan.copies(column) > 1 else 0 * group
        return (self._firsts[column] + offset + state).astype(np.intp)

    def successors(self, column: int) -> Indices:
        """Return (states of the column, possible successors): the targets of all possible transitions."""
        group = np.repeat(np.arange(self._plan.copies(column)), self._plan.widths(column)[0])[:, None]
        following = self._plan.following[column]
        return np.concatenate(
            [self.at(each, group) + np.arange(len(self._plan.columns[each])) for each in following], axis=1
        )


def build_chain(counts: TraceCounts, plan: ChainPlan, metadata: Mapping[str, Any]) -> Chain:
    """Build the chain of counted traces; all bounds of transitions hold together with probability 1 - delta."""
    layout = ChainLayout(plan)
    bounded = plan.possible <= MOST_POSSIBLE
    # From Start to the groups: the declared shares, with bounds [0, 1] if they are unknown.
    shares, none = np.asarray(plan.shares), np.zeros(len(plan.shares), np.int64)
    limits = (shares, shares, none + 1) if plan.shares_known else (0 * shares, 0 * shares + 1, none)
    parts: list[Transitions] = [(none.astype(np.intp), layout.states(0), shares, *limits)]
    for column, link in enumerate(counts.links):
        if not bounded:
            parts.append(_seen_transitions(layout, plan, column, link))
            continue
        # An unobserved transition has probability 0 by frequency, and an upper bound.
        taken, to = link.dense(plan.copies(column)), layout.successors(column)
        table, origin = taken.reshape(to.shape), np.broadcast_to(layout.states(column)[:, None], to.shape)
        between = column_bounds(plan, column, taken, counts.moments)
        arrays = (origin, to, estimate(table, plan.estimator), *between, table)
        parts.append(tuple(part.ravel() for part in arrays))
    last = layout.states(len(plan.columns) - 1)
    ones = np.ones(len(last))
    parts.append((last, last, ones, ones, ones, np.zeros(len(last), np.int64)))
    source, target, probability, low, high, count = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.lexsort((target, source))
    visited = np.zeros(len(layout.names), bool)
    visited[source[count > 0]] = visited[target[count > 0]] = True
    if plan.view is not None:
        metadata = {"view": plan.view, "steps": plan.steps, **metadata}
    return Chain(
        states=tuple(layout.names),
        sources=source[order],
        targets=target[order],
        probabilities=probability[order],
        labels=layout.labels,
        low=low[order] if bounded else None,
        high=high[order] if bounded else None,
        counts=count[order],
        unvisited=frozenset(np.flatnonzero(~visited).tolist()) - {0},
        metadata={
            "kind": plan.kind,
            "estimator": plan.estimator,
            "delta": plan.delta,
            "units": [unit.to_dict() for unit in plan.units],
            **metadata,
        },
    )


def column_bounds(plan: ChainPlan, column: int, taken: Counts, moments: Moments | None) -> tuple[Floats, Floats]:
    """Return bounds of the transitions from a column, (copies, width, following), at the level of each transition."""
    level = plan.delta / plan.possible
    if plan.view == "folded" and column == 1:
        assert moments is not None
        parts = (moments.square, moments.cross, moments.visits)
        if len(taken) == 1:
            moments = Moments(*(part.sum(axis=0, keepdims=True) for part in parts))
        return folded_bounds(taken, moments, plan.steps, level)
    visits = np.broadcast_to(taken.sum(axis=2, keepdims=True), taken.shape)
    # Summed counts of several groups are not a binomial sample, but confidence sequences are valid for them.
    return bounds(taken, visits, level, exact=len(taken) == len(plan.groups) and not plan.any_time)


def _seen_transitions(layout: ChainLayout, plan: ChainPlan, column: int, link: Link) -> Transitions:
    """Return the observed transitions, without bounds: for chains with too many possible transitions."""
    group, state, following = link.triples()
    first, second = layout.at(column, group, state), layout.at(column + 1, group, following)
    (start, end), place = np.unique(np.stack([first, second]), axis=1, return_inverse=True)
    counts = np.bincount(place.ravel(), link.counts.astype(np.float64))
    source = layout.states(column)
    visits = np.bincount(start - source[0], counts, minlength=len(source))
    probability = counts / visits[start - source[0]]
    # An unvisited state needs some successor: the first one; it is marked as unvisited.
    alone = source[visits == 0]
    start = np.concatenate([start, alone])
    end = np.concatenate([end, layout.at(column + 1, (alone - source[0]) // plan.widths(column)[0])])
    probability = np.concatenate([probability, np.ones(len(alone))])
    nothing = np.zeros(len(start))
    counts = np.concatenate([counts, np.zeros(len(alone))])
    return start, end, probability, nothing, nothing, counts.astype(np.int64)
