"""Formulas as trees.

A `Formula` is true or false in a state, or has a number there; a `Path` is the formula inside the brackets of P. `str`
returns the canonical text, which parses back to the same tree. Nothing is computed here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import and_, or_
from typing import Any, Generic, NamedTuple, TypeVar

# An engine's result for a state formula, and for the number of a measure.
S = TypeVar("S")
N = TypeVar("N")


def quoted_label(label: str) -> str:
    r"""Return a label in the syntax of a formula: in double quotes, with `"` and `\` after a backslash."""
    return '"' + label.replace("\\", "\\\\").replace('"', '\\"') + '"'


def beginning(text: str) -> str:
    """Return the beginning of a long text, on one line."""
    line = "".join(letter if letter.isprintable() else "?" for letter in text[:61])
    return line if len(line) <= 60 else line[:57] + "..."


class _Node:
    """A node of a formula's tree."""

    @property
    def parts(self) -> tuple[Formula, ...]:
        """The formulas among the fields of this node, including those inside a path formula."""
        found: list[Formula] = []
        for value in vars(self).values():
            if isinstance(value, Path):
                found += value.parts
            else:
                values = value if isinstance(value, tuple) else (value,)
                found += [each for each in values if isinstance(each, Formula)]
        return tuple(found)


class Formula(_Node):
    """A state formula: true or false, or a number if its outermost operator has `=?`."""

    @property
    def is_number(self) -> bool:
        """Whether its value is a number."""
        return isinstance(self, Measure) and self.bound is None


class Path(_Node):
    """A path formula: a statement about a run of the chain."""


@dataclass(frozen=True)
class Truth(Formula):
    """`true` or `false`."""

    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


TRUE = Truth(True)


@dataclass(frozen=True)
class Label(Formula):
    """Whether the state has a label; `column` is its position in the text, 0 if none."""

    name: str
    column: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return quoted_label(self.name)


@dataclass(frozen=True)
class Not(Formula):
    """`!phi`."""

    part: Formula

    def __str__(self) -> str:
        return f"!{_inside(self.part)}"


@dataclass(frozen=True)
class Joined(Formula):
    """Parts joined by one operator: `&`, `|`, `<=>`, or `=>`, which associates to the right."""

    sign: str
    joined: tuple[Formula, ...]

    def __str__(self) -> str:
        return f" {self.sign} ".join(map(_inside, self.joined))


@dataclass(frozen=True)
class Bound:
    """`>= 0.5`: a comparison and its number."""

    sign: str
    value: float

    def __str__(self) -> str:
        whole = self.value == int(self.value) and self.value < 1e15
        return f"{self.sign}{int(self.value) if whole else repr(self.value)}"


@dataclass(frozen=True)
class Measure(Formula):
    """A formula with a number in each state; with a bound it is true or false instead."""

    bound: Bound | None

    @property
    def comparison(self) -> str:
        """`=?`, or the bound."""
        return "=?" if self.bound is None else str(self.bound)


@dataclass(frozen=True)
class Probability(Measure):
    """`P=? [ path ]`: the probability of the runs from a state that satisfy the path formula."""

    path: Path

    def __str__(self) -> str:
        return f"P{self.comparison} [ {self.path} ]"


@dataclass(frozen=True)
class LongRun(Measure):
    """`S=? [ phi ]`: the share of time, in the long run, in states where phi holds."""

    part: Formula

    def __str__(self) -> str:
        return f"S{self.comparison} [ {self.part} ]"


@dataclass(frozen=True)
class ExpectedSteps(Measure):
    """`R=? [ F phi ]`: the expected number of steps until phi holds, infinite if it may never hold."""

    target: Formula

    def __str__(self) -> str:
        return f"R{self.comparison} [ F {_inside(self.target)} ]"


@dataclass(frozen=True)
class GapQuery(Measure):
    """`gap=? [ path ] over "sex=*"`: the largest difference of the path's probability between two groups.

    Each of `groups` is a label, or a pattern in which `*` matches any text. Only a whole query can be a gap.
    """

    path: Path
    groups: tuple[str, ...]
    column: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return f"gap{self.comparison} [ {self.path} ] over {', '.join(map(quoted_label, self.groups))}"


@dataclass(frozen=True)
class Window:
    """From `low` to `high` steps from now, both included; `high` is None without an end."""

    low: int = 0
    high: int | None = None

    def __str__(self) -> str:
        if self.high is None:
            return f">={self.low}" if self.low else ""
        if not self.low:
            return f"<={self.high}"
        return f"={self.low}" if self.low == self.high else f"[{self.low},{self.high}]"


EVER = Window()


@dataclass(frozen=True)
class Next(Path):
    """`X phi`: phi holds after one step."""

    part: Formula

    def __str__(self) -> str:
        return f"X {_inside(self.part)}"


class UntilForm(NamedTuple):
    """A path formula as `left U right` within a window, or as its complement."""

    opposite: bool
    left: Formula
    right: Formula
    window: Window


@dataclass(frozen=True)
class Eventually(Path):
    """`F phi`: phi holds at some time in the window; `G phi` if `always`: at all times in it."""

    part: Formula
    window: Window = EVER
    always: bool = False

    def __str__(self) -> str:
        return f"{'G' if self.always else 'F'}{self.window} {_inside(self.part)}"

    @property
    def until(self) -> UntilForm:
        """`true U phi`, and G as the complement of F of the negation."""
        return UntilForm(self.always, TRUE, Not(self.part) if self.always else self.part, self.window)


@dataclass(frozen=True)
class Until(Path):
    """`phi U psi`: psi at some time in the window, and phi until then; `phi W psi` if `weak`: or phi throughout."""

    left: Formula
    right: Formula
    window: Window = EVER
    weak: bool = False

    def __str__(self) -> str:
        return f"{_inside(self.left)} {'W' if self.weak else 'U'}{self.window} {_inside(self.right)}"

    @property
    def until(self) -> UntilForm:
        """Itself; W fails if both fail at once, and before that psi never held while phi did."""
        if not self.weak:
            return UntilForm(False, self.left, self.right, self.window)
        lost = Not(self.right)
        return UntilForm(True, Joined("&", (self.left, lost)), Joined("&", (Not(self.left), lost)), self.window)


def labels_of(formula: Formula) -> Iterator[Label]:
    """Yield all labels that a formula names, in the order of the text."""
    if isinstance(formula, Label):
        yield formula
    for part in formula.parts:
        yield from labels_of(part)


def _inside(part: Formula) -> str:
    return f"({part})" if isinstance(part, Joined) else str(part)


class Evaluator(ABC, Generic[S, N]):
    """Evaluation of formulas from the inside out; a subclass defines the atoms and the measures."""

    @cached_property
    def _known(self) -> dict[Formula, S]:
        """Formulas that were already evaluated: a formula may contain the same part many times."""
        return {}

    def holds(self, formula: Formula) -> S:
        """Evaluate a state formula."""
        if formula in self._known:
            return self._known[formula]
        match formula:
            case Truth():
                found = self.truth(formula.value)
            case Label():
                found = self.label(formula.name)
            case Not():
                found = self.negated(self.holds(formula.part))
            case Joined():
                found = self.joined(formula.sign, [self.holds(part) for part in formula.joined])
            case _:
                assert isinstance(formula, Measure)
                found = self.compared(self.measure(formula), formula)
        self._known[formula] = found
        return found

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
