"""The answer to a query: a number or a truth value, with bounds and the unvisited states on which it depends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.pctl.formula import Formula, Measure

MOST_NAMED_STATES = 5
ANSWER_HAS_NO_TRUTH = "an answer has no truth value: use its value, low, high and undecided"


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
