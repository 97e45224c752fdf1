"""Answers a query about a chain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from fairchain.chain import Chain
from fairchain.errors import QueryError
from fairchain.pctl.answer import Quantity, QueryAnswer, plain
from fairchain.pctl.formula import Formula, GapQuery, Measure, Probability
from fairchain.pctl.graph import Floats, Mask
from fairchain.pctl.group_gaps import entered, groups_of, widest
from fairchain.pctl.interval_bounds import Between, Bounds, Sat, decided
from fairchain.pctl.label_names import check_labels, state_number
from fairchain.pctl.lexer import quoted
from fairchain.pctl.parser import parse
from fairchain.pctl.point_values import Points, satisfies
from fairchain.pctl.unseen_states import used_rows

EngineName = Literal["own", "storm"]


class Engine(Protocol):
    """Computes values: our own engine, or Storm."""

    def holds(self, formula: Formula) -> Mask:
        """(states,): where a formula is true."""

    def measure(self, formula: Measure) -> Floats:
        """(states,): the number that a measure stands for."""


def check_chain(
    chain: Chain, formula: str | Formula, *, engine: EngineName = "own", state: str | None = None
) -> QueryAnswer:
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
    >>> print(check_chain(coin, 'P=? [ F "heads" ]'))
    0.5
    >>> print(check_chain(coin, 'P>=0.2 [ X "heads" ]', state="toss"))
    true: 0.25 against >=0.2
    """
    asked = parse(formula if isinstance(formula, str) else str(formula))
    check_labels(chain, asked)
    start = chain.initial if state is None else state_number(chain, state)
    points = Points.of(chain)
    bounds = Bounds.of(points) if chain.has_intervals else None
    query = _Query(points, _engine(engine, points), bounds, engine, start)
    if isinstance(asked, GapQuery):
        return query.gap(asked)
    return query.measure(asked) if isinstance(asked, Measure) else query.truth(asked)


def _engine(name: str, points: Points) -> Engine:
    if name == "own":
        return points
    if name == "storm":
        from fairchain.pctl.storm import Storm

        return Storm.of(points)
    raise QueryError(f'no engine "{name}"; there is own, and storm')


@dataclass(frozen=True, eq=False)
class _Query:
    """A chain with its engine and bounds, and the state of the query."""

    points: Points
    values: Engine
    bounds: Bounds | None
    engine: str
    start: int

    def truth(self, asked: Formula) -> QueryAnswer:
        """Whether a formula holds."""
        found = self.values.holds(asked)
        return self._answer(asked, found, None if self.bounds is None else _holding(found, self.bounds.holds(asked)))

    def measure(self, asked: Measure) -> QueryAnswer:
        """A number, or how it compares."""
        numbers = self.values.measure(asked)
        between = None if self.bounds is None else _around(numbers, self.bounds.measure(asked))
        return self._compared(asked, numbers, between)

    def gap(self, asked: GapQuery) -> QueryAnswer:
        """How far apart groups are: one number for the whole chain, the same in every state."""
        groups = groups_of(self.points.chain, asked)
        entries = [entered(self.points, states) for states in groups.values()]
        path = Probability(None, asked.path)
        numbers = self.values.measure(path)
        means = np.array([entry @ numbers for entry in entries])
        quantities = [Quantity(float(mean)) for mean in means]
        gap = np.full(len(numbers), means.max() - means.min())
        between = None
        if self.bounds is not None:
            around = _around(numbers, self.bounds.measure(path))
            low = np.array([around.low[states].min() for states in groups.values()])
            high = np.array([around.high[states].max() for states in groups.values()])
            quantities = [Quantity(*map(float, triple)) for triple in zip(means, low, high, strict=True)]
            least, most = widest(low, high)
            between = Between(np.full_like(gap, least), np.full_like(gap, most))
        start = np.any([entry > 0 for entry in entries], axis=0)
        answer = self._compared(asked, gap, between, start)
        return replace(answer, groups=dict(zip(groups, quantities, strict=True)))

    def _compared(
        self, asked: Measure, numbers: Floats, between: Between | None, start: Mask | None = None
    ) -> QueryAnswer:
        if asked.bound is None:
            return self._answer(asked, numbers, between, start)
        found = satisfies(numbers, asked)
        sat = None if between is None else _holding(found, decided(between, asked))
        of_start = (numbers, *(between or ()))
        quantity = Quantity(*(float(array[self.start]) for array in of_start))
        return replace(self._answer(asked, found, sat, start), quantity=quantity)

    def _answer(
        self, asked: Formula, values: Floats | Mask, bounds: Between | Sat | None, start: Mask | None = None
    ) -> QueryAnswer:
        if start is None:
            start = np.arange(len(values)) == self.start
        return QueryAnswer(
            formula=asked,
            state=self.points.chain.states[self.start],
            value=plain(values[self.start]),
            low=None if bounds is None else plain(bounds[0][self.start]),
            high=None if bounds is None else plain(bounds[1][self.start]),
            values=values,
            bounds=None if bounds is None else (bounds[0], bounds[1]),
            depends_on=_unseen(self.points, asked, start),
            engine=self.engine,
        )


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
