"""Checking of a query on a chain."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np

from fairchain.chain import Chain
from fairchain.errors import QueryError
from fairchain.messages import unknown
from fairchain.pctl.answer import Quantity, QueryAnswer, python_value
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
)
from fairchain.pctl.graph import Floats, Mask
from fairchain.pctl.group_gaps import entered, gap_groups, widest
from fairchain.pctl.interval_bounds import Between, Bounds, decided
from fairchain.pctl.label_names import check_labels, state_number
from fairchain.pctl.lexer import quoted_label
from fairchain.pctl.parser import parse
from fairchain.pctl.point_values import Points, satisfies

EngineName = Literal["own", "storm"]
NO_EVIDENCE = (
    "state {states} was never visited, so there is no evidence for an answer; use more rounds, or start from another "
    "state"
)


class Engine(Protocol):
    """An engine that computes values: "own" (`Points`), or Storm."""

    def holds(self, formula: Formula) -> Mask:
        """Return (states,): whether a formula is true."""

    def measure(self, formula: Measure) -> Floats:
        """Return (states,): the value of a measure."""


def check_chain(
    chain: Chain, formula: str | Formula, *, engine: EngineName = "own", start: str | None = None
) -> QueryAnswer:
    """Check a PCTL formula on a chain, or compute its value (docs/chains.md).

    Parameters
    ----------
    chain
        The chain; if its transitions have bounds, the answer has bounds too.
    formula
        A formula such as `P=? [ F "Y=>50K" ]`, or the result of `parse`.
    engine
        "own", or "storm" for values by Storm, which needs `pip install fairchain[storm]`.
    start
        State to start from, instead of the initial one.

    Raises
    ------
    QueryError
        If the formula cannot be read, names a label or a state that does not exist, or starts from a state that was
        never visited.

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
    values = _engine(engine, points)
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


def _engine(name: str, points: Points) -> Engine:
    if name == "own":
        return points
    if name == "storm":
        from fairchain.pctl.storm import Storm

        return Storm(points)
    raise QueryError(unknown("engine", name, ("own", "storm")))


def _including(values: Any, between: Between) -> Between:
    """Return bounds extended to include the values, which may be outside because of rounding or another engine."""
    return Between(np.minimum(between.low, values), np.maximum(between.high, values))


def _measured(query: Measure, values: Engine, bounds: Bounds | None) -> tuple[Floats, Between | None]:
    numbers = values.measure(query)
    return numbers, None if bounds is None else _including(numbers, bounds.measure(query))


def _gap(
    query: GapQuery, points: Points, values: Engine, bounds: Bounds | None
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
    """Return the names of the unvisited states that the answer depends on.

    Raises a QueryError if a state of `start` is unvisited: there is no evidence for the answer.
    """
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
