"""One recursion over formulas, shared by the engines: values, bounds, and the translation for Storm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property, reduce
from operator import and_, or_
from typing import Any, Generic, TypeVar

from fairchain.pctl.formula import (
    Eventually,
    ExpectedSteps,
    Formula,
    Joined,
    Label,
    LongRun,
    Measure,
    Next,
    Not,
    Path,
    Probability,
    Truth,
    Until,
    UntilForm,
)

# An engine's result for a state formula, and for the number of a measure.
S = TypeVar("S")
N = TypeVar("N")


class Evaluator(ABC, Generic[S, N]):
    """Evaluation of formulas from the inside out; a subclass defines the atoms and the measures."""

    @cached_property
    def _known(self) -> dict[Formula, S]:
        """Formulas that were already evaluated: a formula may contain the same part many times."""
        return {}

    def holds(self, formula: Formula) -> S:
        """Evaluate a state formula."""
        if formula not in self._known:
            self._known[formula] = self._state(formula)
        return self._known[formula]

    def _state(self, formula: Formula) -> S:
        match formula:
            case Truth():
                return self.truth(formula.value)
            case Label():
                return self.label(formula.name)
            case Not():
                return self.negated(self.holds(formula.part))
            case Joined():
                return self.joined(formula.sign, [self.holds(part) for part in formula.joined])
        assert isinstance(formula, Measure)
        return self.compared(self.measure(formula), formula)

    def measure(self, formula: Measure) -> N:
        """Evaluate the number of a measure, without its bound."""
        match formula:
            case LongRun():
                return self.long_run(self.holds(formula.part))
            case ExpectedSteps():
                return self.expected_steps(self.holds(formula.target))
        assert isinstance(formula, Probability)
        return self.probability(formula.path)

    def probability(self, path: Path) -> N:
        """Evaluate the probability of a path formula."""
        if isinstance(path, Next):
            return self.next(self.holds(path.part))
        assert isinstance(path, Eventually | Until)
        until = path.until
        return self.until(self.holds(until.left), self.holds(until.right), until)

    def negated(self, part: Any) -> S:
        """Evaluate `!phi`."""
        negation: S = ~part
        return negation

    def joined(self, sign: str, parts: list[Any]) -> S:
        """Evaluate parts with `&`, `|`, `=>` or `<=>` between them; `=>` associates to the right."""
        found: S
        if sign == "=>":
            found = reduce(lambda after, before: ~before | after, parts[::-1])
        elif sign == "<=>":
            found = reduce(lambda one, two: (one & two) | (~one & ~two), parts)
        else:
            found = reduce(and_ if sign == "&" else or_, parts)
        return found

    @abstractmethod
    def truth(self, value: bool) -> S:
        """Evaluate `true` or `false`."""

    @abstractmethod
    def label(self, name: str) -> S:
        """Evaluate a label."""

    @abstractmethod
    def compared(self, number: N, formula: Measure) -> S:
        """Compare the number of a measure with its bound."""

    @abstractmethod
    def next(self, part: S) -> N:
        """Evaluate `P [ X phi ]`."""

    @abstractmethod
    def until(self, left: S, right: S, until: UntilForm) -> N:
        """Evaluate `P [ phi U psi ]` within a window, or its complement."""

    @abstractmethod
    def long_run(self, part: S) -> N:
        """Evaluate `S [ phi ]`."""

    @abstractmethod
    def expected_steps(self, target: S) -> N:
        """Evaluate `R [ F phi ]`."""
