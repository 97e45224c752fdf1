"""Asks a chain a question."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, Protocol

import numpy as np

from fairchain.chain import Chain
from fairchain.checker.answer import Answer, Quantity, plain
from fairchain.checker.bounds import Between, Bounds, Sat, decided
from fairchain.checker.depends import used_rows
from fairchain.checker.formula import Formula, Gap, Measure, Probability
from fairchain.checker.graph import Floats, Mask
from fairchain.checker.groups import entered, groups_of, widest
from fairchain.checker.names import check_labels, state_number
from fairchain.checker.parser import parse
from fairchain.checker.points import Points, satisfies
from fairchain.checker.tokens import quoted
from fairchain.errors import QueryError

EngineName = Literal["own", "storm"]


class Engine(Protocol):
    """Who computes values: our own engine, or Storm."""

    def holds(self, formula: Formula) -> Mask:
        """(states,): where a formula is true."""

    def measure(self, formula: Measure) -> Floats:
        """(states,): the number that a measure stands for."""


def check(chain: Chain, formula: str | Formula, *, engine: EngineName = "own", state: str | None = None) -> Answer:
    """Ask a chain a question (docs/queries.md).

    Parameters
    ----------
    chain
        The chain; if its transitions have bounds, so has the answer.
    formula
        Like `P=? [ F "Y=>50K" ]`, or what `parse` made of it.
    engine
        "own", or "storm" for values by Storm, which needs `pip install fairchain[storm]`.
    state
        The state to ask about; the initial one if it is not given.

    Raises
    ------
    QueryError
        If the formula cannot be read, names a label or a state that does not exist, or asks about a state of which
        nothing was ever seen.

    >>> from fairchain.chain import Chain
    >>> import numpy as np
    >>> coin = Chain(
    ...     states=("toss", "heads", "tails"),
    ...     sources=np.array([0, 0, 0, 1, 2]), targets=np.array([0, 1, 2, 1, 2]),
    ...     probabilities=np.array([0.5, 0.25, 0.25, 1.0, 1.0]), labels={"heads": frozenset({1})},
    ... )
    >>> print(check(coin, 'P=? [ F "heads" ]'))
    0.5
    >>> print(check(coin, 'P>=0.2 [ X "heads" ]', state="toss"))
    true: 0.25 against >=0.2
    """
    asked = parse(formula if isinstance(formula, str) else str(formula))
    check_labels(chain, asked)
    start = chain.initial if state is None else state_number(chain, state)
    points = Points.of(chain)
    values = _engine(engine, points)
    bounds = Bounds.of(points) if chain.has_intervals else None
    if isinstance(asked, Gap):
        return _gap_answer(points, values, bounds, asked, start, engine)
    mask = np.zeros(len(chain), bool)
    mask[start] = True
    depends_on = _unseen(points, asked, mask)
    if isinstance(asked, Measure):
        return _measured(points, values, bounds, asked, start, engine, depends_on)
    found: Mask = values.holds(asked)
    sat = bounds and _holding(found, bounds.holds(asked))
    return _answer(points, asked, start, engine, depends_on, found, sat)


def _engine(name: str, points: Points) -> Engine:
    if name == "own":
        return points
    if name == "storm":
        from fairchain.checker.storm import Storm

        return Storm.of(points)
    raise QueryError(f'no engine "{name}"; there is own, and storm')


def _answer(
    points: Points,
    asked: Formula,
    start: int,
    engine: str,
    depends_on: tuple[str, ...],
    values: Floats | Mask,
    bounds: Between | Sat | None,
    quantity: Quantity | None = None,
) -> Answer:
    return Answer(
        formula=asked,
        state=points.chain.states[start],
        value=plain(values[start]),
        low=None if bounds is None else plain(bounds[0][start]),
        high=None if bounds is None else plain(bounds[1][start]),
        values=values,
        bounds=None if bounds is None else (bounds[0], bounds[1]),
        quantity=quantity,
        depends_on=depends_on,
        engine=engine,
    )


def _measured(
    points: Points,
    values: Engine,
    bounds: Bounds | None,
    asked: Measure,
    start: int,
    engine: str,
    depends_on: tuple[str, ...],
) -> Answer:
    """A measure with its number, whether that was asked for or is only compared."""
    numbers = values.measure(asked)
    between = None if bounds is None else _around(numbers, bounds.measure(asked))
    if asked.bound is None:
        return _answer(points, asked, start, engine, depends_on, numbers, between)
    found = satisfies(numbers, asked)
    low, high = (None, None) if between is None else (float(between.low[start]), float(between.high[start]))
    quantity = Quantity(float(numbers[start]), low, high)
    sat = None if between is None else _holding(found, decided(between, asked))
    return _answer(points, asked, start, engine, depends_on, found, sat, quantity)


def _gap_answer(points: Points, values: Engine, bounds: Bounds | None, asked: Gap, start: int, engine: str) -> Answer:
    chain = points.chain
    groups = groups_of(chain, asked)
    weights = [entered(points, states) for states in groups.values()]
    from_here = np.any([weight > 0 for weight in weights], axis=0)
    depends_on = _unseen(points, asked, from_here)
    path = Probability(None, asked.path)
    numbers = values.measure(path)
    means = np.array([weight @ numbers for weight in weights])
    gap = float(means.max() - means.min())
    between: tuple[Floats, Floats] | None = None
    span: tuple[float, float] | None = None
    if bounds is not None:
        around = _around(numbers, bounds.measure(path))
        low = np.array([around.low[states].min() for states in groups.values()])
        high = np.array([around.high[states].max() for states in groups.values()])
        between, span = (low, high), widest(low, high)
    quantities = {
        name: Quantity(float(means[i]), *(() if between is None else (float(between[0][i]), float(between[1][i]))))
        for i, name in enumerate(groups)
    }
    return _gap(points, asked, start, engine, depends_on, gap, span, quantities)


def _gap(
    points: Points,
    asked: Gap,
    start: int,
    engine: str,
    depends_on: tuple[str, ...],
    gap: float,
    span: tuple[float, float] | None,
    groups: dict[str, Quantity],
) -> Answer:
    """A gap is one number for the whole chain: every state has the same."""
    size = len(points.chain)
    numbers = np.full(size, gap)
    between = None if span is None else Between(np.full(size, span[0]), np.full(size, span[1]))
    if asked.bound is None:
        answer = _answer(points, asked, start, engine, depends_on, numbers, between)
    else:
        quantity = Quantity(gap, *(span or ()))
        sat = None if between is None else decided(between, asked)
        answer = _answer(points, asked, start, engine, depends_on, satisfies(numbers, asked), sat, quantity)
    return replace(answer, groups=groups)


def _around(values: Floats, between: Between) -> Between:
    """Bounds that hold the values too, from which rounding or another engine may have moved them."""
    return Between(np.minimum(between.low, values), np.maximum(between.high, values))


def _holding(found: Mask, sat: Sat) -> Sat:
    return Sat(sat.sure & found, sat.possible | found)


def _unseen(points: Points, asked: Formula, start: Mask) -> tuple[str, ...]:
    """Names of the states that were never seen and that the answer depends on.

    Raises
    ------
    QueryError
        If one of them is a state that was asked about: all of the answer would be made up.
    """
    chain = points.chain
    if not chain.unvisited:
        return ()
    unseen = np.zeros(len(chain), bool)
    unseen[list(chain.unvisited)] = True
    used = unseen & used_rows(points, asked, start)
    for state in np.flatnonzero(used & start)[:1]:
        raise QueryError(
            f"state {quoted(chain.states[state])} was never seen, so there is no evidence for an answer; "
            "sample more, or ask about another state"
        )
    return tuple(chain.states[state] for state in np.flatnonzero(used))
