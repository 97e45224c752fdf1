"""Checking of a query on a chain: a number or a truth value, with bounds and the unvisited states on which it depends.

A gap is the largest difference of the probability of a path between groups.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairchain.chain import Chain
from fairchain.errors import QueryError
from fairchain.messages import unknown
from fairchain.pctl.equations import solve
from fairchain.pctl.formula import (
    Eventually,
    ExpectedSteps,
    Formula,
    GapQuery,
    LongRun,
    Measure,
    Next,
    Probability,
    Until,
    quoted_label,
)
from fairchain.pctl.graph import Floats, Mask
from fairchain.pctl.interval_bounds import Between, Bounds, decided
from fairchain.pctl.interval_rows import difference
from fairchain.pctl.parser import parse
from fairchain.pctl.point_values import Points, check_labels, holds_in, no_label, satisfies, state_number

if TYPE_CHECKING:
    from fairchain.pctl.storm import Storm


MOST_NAMED_STATES = 5
ANSWER_HAS_NO_TRUTH = "an answer has no truth value: use its value, low, high and undecided"
EngineName = Literal["own", "storm"]
NO_EVIDENCE = (
    "state {states} was never visited, so there is no evidence for an answer; use more rounds, or start from another "
    "state"
)


@dataclass(frozen=True)
class Quantity:
    """A number and its bounds, if known.

    >>> print(Quantity(0.25, 0.125, 0.5))
    0.25 [0.125, 0.5]
    """

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.6g}"
        return f"{self.value:.6g} [{self.low:.6g}, {self.high:.6g}]"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; an infinite number is the text "inf"."""
        return {"value": _plain(self.value), "low": _plain(self.low), "high": _plain(self.high)}


@dataclass(frozen=True, eq=False)
class QueryAnswer:
    """The answer to a query about a chain.

    Parameters
    ----------
    formula, state
        The query, and its start state.
    value
        A number, or True or False, for the chain's point estimates.
    low, high
        Its bounds, if the chain has bounds: the smallest and the largest number, or whether it holds for all chains
        between the bounds and whether it holds for some.
    values, bounds
        The same for all states, in the order of the chain.
    quantity
        The number that was compared, if the query is `P>=p` or similar.
    groups
        For a gap, the probability of each group.
    depends_on
        Unvisited states whose placeholder rows affect the value.
    engine
        The engine that computed the value; bounds are always fairchain's own.
    """

    formula: Formula
    state: str
    value: float | bool
    low: float | bool | None
    high: float | bool | None
    values: NDArray[Any]
    bounds: tuple[NDArray[Any], NDArray[Any]] | None = None
    quantity: Quantity | None = None
    groups: Mapping[str, Quantity] = field(default_factory=dict)
    depends_on: tuple[str, ...] = ()
    engine: str = "own"

    @property
    def undecided(self) -> bool:
        """Whether it is true for some chains between the bounds and false for others."""
        return isinstance(self.value, bool) and self.low is not self.high

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for a reader of the answer."""
        if not self.depends_on:
            return ()
        count, named = len(self.depends_on), ", ".join(self.depends_on[:MOST_NAMED_STATES])
        states = "a state that was never visited" if count == 1 else f"{count} states that were never visited"
        more = ", ..." if count > MOST_NAMED_STATES else ""
        return (f"depends on {states}, with placeholder probabilities: {named}{more}",)

    def __bool__(self) -> bool:
        raise TypeError(ANSWER_HAS_NO_TRUTH)

    def __str__(self) -> str:
        word = "undecided" if self.undecided else str(self.value).lower()
        if not isinstance(self.value, bool):
            word = str(Quantity(self.value, self.low, self.high))
        elif self.quantity is not None and isinstance(self.formula, Measure):
            word = f"{word}: {self.quantity} against {self.formula.comparison}"
        elif self.undecided:
            word = f"{word}, {str(self.value).lower()} for the estimate"
        return "\n".join([word, *(f"note: {note}" for note in self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; an infinite number is the text "inf"."""
        return {
            "formula": str(self.formula),
            "state": self.state,
            "value": _plain(self.value),
            "low": _plain(self.low),
            "high": _plain(self.high),
            "undecided": self.undecided,
            "quantity": None if self.quantity is None else self.quantity.to_dict(),
            "groups": {name: group.to_dict() for name, group in self.groups.items()},
            "depends_on": list(self.depends_on),
            "notes": list(self.notes),
            "engine": self.engine,
        }


def python_value(value: Any) -> float | bool:
    """Return a number or truth value of numpy as one of Python."""
    return bool(value) if isinstance(value, bool | np.bool_) else float(value)


def _plain(value: float | None) -> float | str | None:
    return "inf" if value is not None and math.isinf(value) else value


def check_chain(
    chain: Chain, formula: str | Formula, *, engine: EngineName = "own", start: str | None = None
) -> QueryAnswer:
    """Check a PCTL formula on a chain, or compute its value (docs/chains.md).

    Parameters
    ----------
    chain
        The chain. If the transitions of the chain have bounds, the answer has bounds too.
    formula
        A formula such as `P=? [ F "Y=>50K" ]`, or the result of `parse`.
    engine
        "own" for fairchain's own engine, or "storm" for Storm, which needs `pip install fairchain[storm]`.
    start
        The state to start from, instead of the initial state.

    Raises
    ------
    QueryError
        If the formula cannot be read or names an unknown label, or if `start` is unknown. Also if the answer depends on
        the transitions of a start state that was never visited.

    Examples
    --------
    >>> from fairchain.chain import Chain
    >>> import numpy as np
    >>> coin = Chain(
    ...     states=("toss", "heads", "tails"),
    ...     sources=np.array([0, 0, 0, 1, 2]), targets=np.array([0, 1, 2, 1, 2]),
    ...     probabilities=np.array([0.5, 0.25, 0.25, 1.0, 1.0]), labels={"heads": frozenset({1})},
    ... )
    >>> print(check_chain(coin, 'P=? [ F "heads" ]'))
    0.5
    >>> print(check_chain(coin, 'P>=0.2 [ X "heads" ]', start="toss"))
    true: 0.25 against >=0.2
    """
    query = parse(str(formula))
    check_labels(chain, query)
    first = chain.initial if start is None else state_number(chain, start)
    points = Points(chain)
    values: Points | Storm = points
    if engine == "storm":
        from fairchain.pctl.storm import Storm

        values = Storm(points)
    elif engine != "own":
        raise QueryError(unknown("engine", engine, ("own", "storm")))
    bounds = Bounds(points) if chain.has_intervals else None
    origin = np.arange(len(chain)) == first
    groups: dict[str, Quantity] = {}
    quantity = None
    found: Floats | Mask
    if not isinstance(query, Measure):
        found = values.holds(query)
        between = None if bounds is None else _including(found, bounds.holds(query))
    else:
        if isinstance(query, GapQuery):
            found, between, groups, origin = _gap(query, points, values, bounds)
        else:
            found, between = _measured(query, values, bounds)
        if query.bound is not None:
            quantity = Quantity(*(float(each[first]) for each in (found, *(between or ()))))
            found, numbers = satisfies(found, query), between
            between = None if numbers is None else _including(found, decided(numbers, query))
    low, high = (None, None) if between is None else (python_value(each[first]) for each in between)
    return QueryAnswer(
        formula=query,
        state=chain.states[first],
        value=python_value(found[first]),
        low=low,
        high=high,
        values=found,
        bounds=None if between is None else (between.low, between.high),
        quantity=quantity,
        groups=groups,
        depends_on=_unvisited(points, query, origin),
        engine=engine,
    )


def _including(values: Any, between: Between) -> Between:
    """Return bounds extended to include the values, which may be outside because of rounding or another engine."""
    return Between(np.minimum(between.low, values), np.maximum(between.high, values))


def _measured(query: Measure, values: Points | Storm, bounds: Bounds | None) -> tuple[Floats, Between | None]:
    numbers = values.measure(query)
    return numbers, None if bounds is None else _including(numbers, bounds.measure(query))


def _gap(
    query: GapQuery, points: Points, values: Points | Storm, bounds: Bounds | None
) -> tuple[Floats, Between | None, dict[str, Quantity], Mask]:
    """Return the gap, the same in every state, its bounds, the number of each group and the states entered first."""
    groups = gap_groups(points.chain, query)
    entries = np.stack([entered(points, states) for states in groups.values()])
    numbers, around = _measured(Probability(None, query.path), values, bounds)
    means = np.array([entry @ numbers for entry in entries])
    quantities = [Quantity(float(mean)) for mean in means]
    gap = np.full(len(numbers), means.max() - means.min())
    between = None
    if around is not None:
        low = np.array([around.low[states].min() for states in groups.values()])
        high = np.array([around.high[states].max() for states in groups.values()])
        quantities = [Quantity(*map(float, triple)) for triple in zip(means, low, high, strict=True)]
        between = Between(*(np.full_like(gap, bound) for bound in widest(low, high)))
    return gap, between, dict(zip(groups, quantities, strict=True)), np.logical_or.reduce(entries > 0)


def _unvisited(points: Points, query: Formula, start: Mask) -> tuple[str, ...]:
    """Return the unvisited states on which the answer depends; without evidence at the start raise a QueryError."""
    chain = points.chain
    if not chain.unvisited:
        return ()
    unvisited = np.zeros(len(chain), bool)
    unvisited[list(chain.unvisited)] = True
    used = unvisited & _used_rows(points, query, start)
    for state in np.flatnonzero(used & start)[:1]:
        raise QueryError(NO_EVIDENCE.format(states=quoted_label(chain.states[state])))
    return tuple(chain.states[state] for state in np.flatnonzero(used))


def _used_rows(points: Points, formula: Formula, start: Mask) -> Mask:
    """Return (states,): whether the value of a formula in the states of `start` depends on a state's transitions.

    The recursion goes from the outside in, with the states in which each part is evaluated.
    """
    graph, every = points.graph, np.ones(points.graph.size, bool)
    path = formula.path if isinstance(formula, Probability | GapQuery) else None
    if isinstance(formula, ExpectedSteps):
        path = Eventually(formula.target)
    if isinstance(formula, LongRun):
        used = touched = graph.ahead(start, every)
    elif isinstance(path, Next):
        used, touched = start, graph.ahead(start, every, 1)
    elif isinstance(path, Eventually | Until):
        _, left, right, window = path.until
        # Before the window begins, a path continues even in a goal state.
        through = points.holds(left) if window.low else points.holds(left) & ~points.holds(right)
        touched = graph.ahead(start, through, window.high)
        used = through & (touched if window.high is None else graph.ahead(start, through, window.high - 1))
    else:
        used, touched = ~every, start
    for part in formula.parts:
        used = used | _used_rows(points, part, touched)
    return used


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
