"""One recursion over formulas, shared by the engines: values, bounds, and the translation for Storm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Generic, TypeVar

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

# What an engine makes of a state formula, and of the number of a measure.
S = TypeVar("S")
N = TypeVar("N")


class Evaluator(ABC, Generic[S, N]):
    """Evaluates formulas from the inside out; a subclass says what each operator means."""

    @cached_property
    def _known(self) -> dict[Formula, S]:
        """What was evaluated before: a formula may hold the same part many times."""
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
        """Evaluate the number of a measure, whatever its bound."""
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

    @abstractmethod
    def truth(self, value: bool) -> S:
        """`true` or `false`."""

    @abstractmethod
    def label(self, name: str) -> S:
        """Whether a state has a label."""

    @abstractmethod
    def negated(self, part: S) -> S:
        """`!phi`."""

    @abstractmethod
    def joined(self, sign: str, parts: list[S]) -> S:
        """Parts with `&`, `|`, `=>` or `<=>` between them."""

    @abstractmethod
    def compared(self, number: N, formula: Measure) -> S:
        """Whether the number of a measure keeps its bound."""

    @abstractmethod
    def next(self, part: S) -> N:
        """`P [ X phi ]`."""

    @abstractmethod
    def until(self, left: S, right: S, until: UntilForm) -> N:
        """`P [ phi U psi ]` within a window, or its opposite."""

    @abstractmethod
    def long_run(self, part: S) -> N:
        """`S [ phi ]`."""

    @abstractmethod
    def expected_steps(self, target: S) -> N:
        """`R [ F phi ]`."""
