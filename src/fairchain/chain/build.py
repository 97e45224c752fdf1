"""From counts of traces to a chain: columns of states, and blocks of transitions with estimates and bounds.

The product chain's states carry the group, so that reaching a label from a group has exactly the counted frequency.
The shared chain's do not, as in the paper; its error is measured as its fidelity (`fidelity`). A chain over time
(`over_time`) has the same columns and blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.chain import Chain, Floats, Indices
from fairchain.chain.discretize import Discretizer
from fairchain.chain.estimators import Estimator, estimate
from fairchain.chain.over_time.passage_bounds import folded_bounds
from fairchain.chain.over_time.time_counts import Moments
from fairchain.chain.traces import Counts, Link, PathCounts
from fairchain.errors import ChainError
from fairchain.statistics.intervals import clopper_pearson, probability_any_time

Kind = Literal["product", "shared"]
# Source, target, probability, low, high and count of some transitions.
Transitions = tuple[NDArray[Any], ...]
START = "Start"
# Beyond so many possible transitions no intervals are computed: every pair of neighbours would need one.
MOST_POSSIBLE = 2_000_000


@dataclass(frozen=True)
class ChainPlan:
    """What a chain is built from: groups with their shares of the population, units in order, labels, options.

    `any_time`: the counts decided when to stop, so that only bounds hold which do at any time.
    `shares_known`: whether the population gives the groups' shares; otherwise `shares` are equal placeholders.
    """

    groups: tuple[str, ...]
    shares: tuple[float, ...]
    columns: tuple[Discretizer, ...]
    labels: tuple[str, ...]
    kind: Kind
    estimator: Estimator
    delta: float
    any_time: bool = False
    shares_known: bool = True

    def __post_init__(self) -> None:
        """Refuse names that occur twice: a name is also a label, and queries would mix both meanings."""
        seen: set[str] = set()
        for name in (START, *self.groups, *(n for c in self.columns for n in c.names), *map(label_name, self.labels)):
            if name in seen:
                raise ChainError(f'two different states would be called "{name}"; rename a feature, or leave it out')
            seen.add(name)


def label_name(label: str) -> str:
    """Return the name of a label's state."""
    return f"Y={label}"


@dataclass(frozen=True, eq=False)
class ChainBlock:
    """All possible transitions from the states of one column, with how often each was taken.

    `moments`, with the largest number of `steps`, are those of a folded column, which a trace visits several times.
    """

    source: Indices
    target: Indices
    taken: Counts
    exact: bool
    moments: Moments | None = None
    steps: int = 1

    def bounds(self, level: float, plan: ChainPlan) -> tuple[Floats, Floats]:
        """Bounds of each transition's probability, each failing with probability at most `level`."""
        if self.moments is not None:
            taken = self.taken.reshape(self.moments.square.shape)
            low, high = folded_bounds(taken, self.moments, self.steps, level)
            return low.reshape(self.taken.shape), high.reshape(self.taken.shape)
        visits = np.broadcast_to(self.taken.sum(axis=1, keepdims=True), self.taken.shape)
        # Counts of several groups added up are not a binomial sample; bounds that hold at any time hold for them.
        return bounds(self.taken, visits, level, exact=self.exact and not plan.any_time)

    def transitions(self, level: float, plan: ChainPlan) -> Transitions:
        """Return all transitions; one that was never seen has probability 0 by frequency, and an upper bound."""
        low, high = self.bounds(level, plan)
        source = np.broadcast_to(self.source[:, None], self.target.shape)
        parts = (source, self.target, estimate(self.taken, plan.estimator), low, high, self.taken)
        return tuple(part.ravel() for part in parts)


class ChainLayout:
    """The states in columns, numbered from left to right: Start, groups, the given columns, labels.

    A column has one copy of its states for each group, or a single one if the chain is shared.
    """

    def __init__(self, plan: ChainPlan, columns: Iterable[Sequence[str]]) -> None:
        self.names: list[str] = [START]
        self.labels: dict[str, frozenset[int]] = {START: frozenset({0})}
        self.groups = len(plan.groups)
        self.firsts: list[int] = []
        self.widths: list[int] = []
        self.copies: list[int] = []
        self._column([(name,) for name in plan.groups], ("",) * self.groups)
        copies = ("",) if plan.kind == "shared" else tuple(f"{name} & " for name in plan.groups)
        for names in columns:
            self._column([names] * len(copies), copies)
        self._column([tuple(label_name(label) for label in plan.labels)], ("",))

    def _column(self, names: Sequence[Sequence[str]], copies: Sequence[str]) -> None:
        self.firsts.append(len(self.names))
        self.widths.append(len(names[0]))
        self.copies.append(len(copies))
        for each, before in zip(names, copies, strict=True):
            for name in each:
                self.label(name, (len(self.names),))
                self.names.append(before + name)

    def label(self, label: str, states: Iterable[int]) -> None:
        """Give states one more label."""
        self.labels[label] = self.labels.get(label, frozenset()) | frozenset(states)

    def states(self, column: int) -> Indices:
        """All states of a column."""
        return self.firsts[column] + np.arange(self.widths[column] * self.copies[column])

    def at(self, column: int, group: NDArray[np.int64], state: NDArray[np.int64] | int = 0) -> Indices:
        """The numbers of states of some groups in a column."""
        offset = group * self.widths[column] if self.copies[column] > 1 else 0 * group
        return (self.firsts[column] + offset + state).astype(np.intp)

    def block(
        self, column: int, following: Sequence[int], taken: Counts, moments: Moments | None = None, steps: int = 1
    ) -> ChainBlock:
        """Transitions from a column to others, from counts of each copy or group, (groups, width, following)."""
        copies = self.copies[column]
        group = np.repeat(np.arange(copies), self.widths[column])[:, None]
        target = np.concatenate([self.at(to, group) + np.arange(self.widths[to]) for to in following], axis=1)
        if len(taken) > copies:
            taken = taken.sum(axis=0, keepdims=True)
            if moments is not None:
                parts = (moments.square, moments.cross, moments.visits)
                moments = Moments(*(part.sum(axis=0, keepdims=True) for part in parts))
        exact = copies == self.groups
        return ChainBlock(self.states(column), target, taken.reshape(target.shape), exact, moments, steps)


def build_chain(counts: PathCounts, plan: ChainPlan, metadata: Mapping[str, Any]) -> Chain:
    """Build the chain of counted traces, whose columns follow each other."""
    layout = ChainLayout(plan, [column.names for column in plan.columns])
    steps = range(len(counts.links))
    possible = sum(len(layout.states(column)) * layout.widths[column + 1] for column in steps)
    if possible <= MOST_POSSIBLE:
        tables = [link.dense(layout.copies[column]) for column, link in enumerate(counts.links)]
        blocks = [layout.block(column, [column + 1], table) for column, table in enumerate(tables)]
        return chain_of_blocks(layout, blocks, plan, metadata)
    if plan.estimator != "frequency":
        raise ChainError(
            f"{possible:,} transitions are possible, more than {MOST_POSSIBLE:,}; use the estimator "
            '"frequency", which leaves out transitions that were never seen'
        )
    seen = [_seen_transitions(layout, column, link) for column, link in enumerate(counts.links)]
    return _assembled(layout, seen, plan, metadata, bounded=False)


def chain_of_blocks(
    layout: ChainLayout, blocks: Sequence[ChainBlock], plan: ChainPlan, metadata: Mapping[str, Any]
) -> Chain:
    """Build a chain of all possible transitions; their bounds hold together with probability 1 - delta."""
    level = plan.delta / sum(block.taken.size for block in blocks)
    return _assembled(layout, [block.transitions(level, plan) for block in blocks], plan, metadata)


def _assembled(
    layout: ChainLayout,
    parts: Sequence[Transitions],
    plan: ChainPlan,
    metadata: Mapping[str, Any],
    *,
    bounded: bool = True,
) -> Chain:
    every = zip(_start(layout, plan), *parts, _absorbing(layout), strict=True)
    source, target, probability, low, high, count = (np.concatenate(each) for each in every)
    order = np.lexsort((target, source))
    visited = np.zeros(len(layout.names), bool)
    visited[source[count > 0]] = visited[target[count > 0]] = True
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
            "units": [column.to_dict() for column in plan.columns],
            **metadata,
        },
    )


def _start(layout: ChainLayout, plan: ChainPlan) -> Transitions:
    """From Start to the groups: the declared shares, with bounds [0, 1] if they are not known."""
    target, shares = layout.states(0), np.asarray(plan.shares)
    source, none = np.zeros(len(shares), np.intp), np.zeros(len(shares), np.int64)
    if not plan.shares_known:
        return source, target, shares, np.zeros(len(shares)), np.ones(len(shares)), none
    return source, target, shares, shares, shares, none + 1


def _absorbing(layout: ChainLayout) -> Transitions:
    last = layout.states(-1)
    ones = np.ones(len(last))
    return last, last, ones, ones, ones, np.zeros(len(last), np.int64)


def bounds(seen: NDArray[np.int64], visits: NDArray[np.int64], level: float, *, exact: bool) -> tuple[Floats, Floats]:
    """Return bounds of the probabilities behind counts: Clopper-Pearson, or bounds that hold at any time.

    See docs/mathematics.md, "Chains". Equal counts have equal bounds, which are computed once.
    """
    times, row = np.unique(visits, return_inverse=True)
    most = int(seen.max(initial=0)) + 1
    codes, place = np.unique(row.reshape(seen.shape) * most + seen, return_inverse=True)
    row, count = np.divmod(codes, most)
    low, high = (clopper_pearson if exact else probability_any_time)(count, times[row], level)
    place = place.reshape(seen.shape)
    return low[place], high[place]


def _seen_transitions(layout: ChainLayout, column: int, link: Link) -> Transitions:
    """Only what was seen, without bounds: for chains of so many states that not all pairs can be looked at."""
    group, state, following = link.triples()
    first, second = layout.at(column, group, state), layout.at(column + 1, group, following)
    (start, end), place = np.unique(np.stack([first, second]), axis=1, return_inverse=True)
    counts = np.bincount(place.ravel(), link.counts.astype(np.float64))
    source = layout.states(column)
    visits = np.bincount(start - source[0], counts, minlength=len(source))
    probability = counts / visits[start - source[0]]
    # A state that was never seen needs some successor: the first one; it is marked as unvisited.
    alone = source[visits == 0]
    start = np.concatenate([start, alone])
    end = np.concatenate([end, layout.at(column + 1, (alone - source[0]) // layout.widths[column])])
    probability = np.concatenate([probability, np.ones(len(alone))])
    nothing = np.zeros(len(start))
    counts = np.concatenate([counts, np.zeros(len(alone))])
    return start, end, probability, nothing, nothing, counts.astype(np.int64)
