"""From counts of traces to a chain: states with names and labels, estimates, and an interval for each transition.

The product chain's states carry the group, so that reaching a label from a group has exactly the counted frequency.
The shared chain's do not, as in the paper; how far it may be off is its fidelity (`fidelity`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.chain import Chain, Floats
from fairchain.chain.discretize import Discretizer
from fairchain.chain.estimators import Estimator, estimate
from fairchain.chain.traces import PathCounts
from fairchain.errors import ChainError
from fairchain.statistics.intervals import clopper_pearson, probability_any_time

Kind = Literal["product", "shared"]
START = "Start"
# Beyond so many possible transitions no intervals are computed: every pair of neighbours would need one.
MOST_POSSIBLE = 2_000_000


@dataclass(frozen=True)
class ChainPlan:
    """What the chain is about: groups with their share of the people, units in order, labels, and how to build it.

    `any_time`: the counts themselves said when to stop, so that only bounds hold which do at any time.
    `shares_known`: else nobody says how many people each group has, and the shares only stand in for that.
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
        """A name is also a label, and a label that stood for two things would be answered for both."""
        seen: set[str] = set()
        for name in (START, *self.groups, *(n for c in self.columns for n in c.names), *map(label_name, self.labels)):
            if name in seen:
                raise ChainError(f'two different states would be called "{name}"; rename a feature, or leave it out')
            seen.add(name)


def label_name(label: str) -> str:
    """What the state of a label is called."""
    return f"Y={label}"


def build_chain(counts: PathCounts, plan: ChainPlan, about: Mapping[str, Any]) -> Chain:
    """The chain that these counts make."""
    layers = _Layers(plan)
    rows: list[_Rows] = [_start(plan, layers)]
    for place, link in enumerate(counts.links):
        group, state, following = link.triples()
        first, second = layers.at(place, group, state), layers.at(place + 1, group, following)
        make = _every_transition if layers.possible <= MOST_POSSIBLE else _seen_transitions
        rows.append(make(layers, place, first, second, link.counts, plan))
    rows.append(_absorbing(layers))
    joined = _Rows(*(np.concatenate(parts) for parts in zip(*(row.parts for row in rows), strict=True)))
    order = np.lexsort((joined.target, joined.source))
    visited = np.zeros(len(layers.names), bool)
    visited[joined.source[joined.count > 0]] = True
    visited[joined.target[joined.count > 0]] = True
    possible = layers.possible <= MOST_POSSIBLE
    return Chain(
        states=tuple(layers.names),
        sources=joined.source[order],
        targets=joined.target[order],
        probabilities=joined.probability[order],
        labels=layers.labels,
        low=joined.low[order] if possible else None,
        high=joined.high[order] if possible else None,
        counts=joined.count[order],
        unvisited=frozenset(np.flatnonzero(~visited).tolist()) - {0},
        about={
            "kind": plan.kind,
            "estimator": plan.estimator,
            "delta": plan.delta,
            "units": [column.to_dict() for column in plan.columns],
            **about,
        },
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some transitions, with everything that is known of each."""

    source: NDArray[np.intp]
    target: NDArray[np.intp]
    probability: Floats
    low: Floats
    high: Floats
    count: NDArray[np.int64]

    @property
    def parts(self) -> tuple[NDArray[Any], ...]:
        return self.source, self.target, self.probability, self.low, self.high, self.count


class _Layers:
    """The states in columns: Start, groups, units, labels; numbered from left to right."""

    def __init__(self, plan: ChainPlan) -> None:
        self.names: list[str] = [START]
        self.labels: dict[str, frozenset[int]] = {START: frozenset({0})}
        self.firsts: list[int] = []
        self.widths: list[int] = []
        self.by_group: list[bool] = []
        groups = len(plan.groups)
        self._column(plan.groups, None, 1)
        # The group column has one state for each group, counted as state 0 of that group.
        self.widths[0], self.by_group[0] = 1, True
        for column in plan.columns:
            shared = plan.kind == "shared"
            self._column(column.names, None if shared else plan.groups, len(column.names))
        self._column([label_name(label) for label in plan.labels], None, len(plan.labels))
        self.groups = groups

    def _column(self, names: Sequence[str], groups: Sequence[str] | None, width: int) -> None:
        first = len(self.names)
        self.firsts.append(first)
        self.widths.append(width)
        self.by_group.append(groups is not None)
        for group in groups or [""]:
            for name in names:
                number = len(self.names)
                self.names.append(f"{group} & {name}" if group else name)
                self.labels[name] = self.labels.get(name, frozenset()) | {number}

    @cached_property
    def possible(self) -> int:
        """How many transitions there may be between neighbouring columns."""
        return sum(len(self.sources(column)) * self.widths[column + 1] for column in range(len(self.firsts) - 1))

    def at(self, column: int, group: NDArray[np.int64], state: NDArray[np.int64]) -> NDArray[np.intp]:
        """The numbers of states in a column."""
        offset = group * self.widths[column] if self.by_group[column] else 0
        return (self.firsts[column] + offset + state).astype(np.intp)

    def sources(self, column: int) -> NDArray[np.intp]:
        """All states of a column."""
        end = self.firsts[column + 1] if column + 1 < len(self.firsts) else len(self.names)
        return np.arange(self.firsts[column], end)

    def successors(self, column: int, source: NDArray[np.intp]) -> NDArray[np.intp]:
        """(sources, width): everything that may follow each of these states of a column."""
        width = self.widths[column + 1]
        first = np.full(len(source), self.firsts[column + 1])
        if self.by_group[column + 1]:
            first = first + (source - self.firsts[column]) // self.widths[column] * width
        return first[:, None] + np.arange(width)


def _start(plan: ChainPlan, layers: _Layers) -> _Rows:
    """From Start to the groups: their shares of the people are declared, not estimated; else anything may be true."""
    target = layers.sources(0)
    shares = np.asarray(plan.shares)
    zeros = np.zeros(len(target), np.intp)
    if not plan.shares_known:
        return _Rows(
            zeros, target, shares, np.zeros(len(target)), np.ones(len(target)), np.zeros(len(target), np.int64)
        )
    return _Rows(zeros, target, shares, shares, shares, np.ones(len(target), np.int64))


def _absorbing(layers: _Layers) -> _Rows:
    """Labels stay as they are."""
    last = layers.sources(len(layers.firsts) - 1)
    ones = np.ones(len(last))
    return _Rows(last, last, ones, ones, ones, np.zeros(len(last), np.int64))


def _every_transition(
    layers: _Layers,
    column: int,
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    seen: NDArray[np.int64],
    plan: ChainPlan,
) -> _Rows:
    """All transitions from one column to the next that may be, with estimates and bounds."""
    source = layers.sources(column)
    target = layers.successors(column, source)
    table = np.zeros(target.shape, np.int64)
    place = second - target[first - source[0], 0]
    np.add.at(table, (first - source[0], place), seen)
    visits = table.sum(axis=1, keepdims=True)
    probability = estimate(table, plan.estimator)
    # All transitions of the chain together: as many chances to be wrong as there are transitions.
    level = plan.delta / max(layers.possible, 1)
    # Counts of several groups added up are no binomial sample; the bounds at any time hold for them all the same.
    exact = layers.by_group[column] and not plan.any_time
    low, high = bounds(table, np.broadcast_to(visits, table.shape), level, exact=exact)
    spread = np.broadcast_to(source[:, None], target.shape)
    # A transition that was never seen has no place in the chain of frequencies, but it may be there in truth.
    return _Rows(
        spread.ravel(), target.ravel(), probability.ravel(), low.ravel(), high.ravel(), table.ravel().astype(np.int64)
    )


def bounds(seen: NDArray[np.int64], visits: NDArray[np.int64], level: float, *, exact: bool) -> tuple[Floats, Floats]:
    """Bounds of the probabilities behind counts: Clopper-Pearson, or those that hold at any time.

    See docs/mathematics.md, "Chains". Equal counts have equal bounds, which are computed once.
    """
    times, row = np.unique(visits, return_inverse=True)
    most = int(seen.max(initial=0)) + 1
    codes, place = np.unique(row.reshape(seen.shape) * most + seen, return_inverse=True)
    row, count = np.divmod(codes, most)
    low, high = (clopper_pearson if exact else probability_any_time)(count, times[row], level)
    place = place.reshape(seen.shape)
    return low[place], high[place]


def _seen_transitions(
    layers: _Layers,
    column: int,
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    seen: NDArray[np.int64],
    plan: ChainPlan,
) -> _Rows:
    """Only what was seen, without bounds: for chains of so many states that not all pairs can be looked at."""
    if plan.estimator != "frequency":
        raise ChainError(
            f"{layers.possible:,} transitions are possible, more than {MOST_POSSIBLE:,}; only the estimator "
            '"frequency" leaves those out that were never seen'
        )
    source = layers.sources(column)
    pairs, place = np.unique(np.stack([first, second]), axis=1, return_inverse=True)
    counts = np.bincount(place.ravel(), seen.astype(np.float64))
    visits = np.bincount(pairs[0] - source[0], counts, minlength=len(source))
    alone = source[visits == 0]
    start, end = pairs
    probability = counts / visits[start - source[0]]
    # A state that was never seen needs some successor: the first one; it is marked as unvisited.
    start = np.concatenate([start, alone])
    end = np.concatenate([end, layers.successors(column, alone)[:, 0]])
    probability = np.concatenate([probability, np.ones(len(alone))])
    nothing = np.zeros(len(start))
    counts = np.concatenate([counts, np.zeros(len(alone))])
    return _Rows(start, end, probability, nothing, nothing, counts.astype(np.int64))
