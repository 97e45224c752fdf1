"""A condition as a tree: which rows it holds for, computed on whole columns, and how it is written.

Nothing is parsed here; `predicate` reads the text and builds the tree.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairchain.spec.predicate_tokens import is_plain, quoted

Values = NDArray[np.floating]
Mask = NDArray[np.bool_]

COMPARE: dict[str, Callable[[Any, Any], Mask]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Node(Protocol):
    """A part of a condition; `str` writes it in the language it was read from."""

    def holds(self, values: Values) -> Mask:
        """(rows,): for which rows it is true, in a fresh array."""


@dataclass(frozen=True)
class Column:
    """A feature, by its place among the columns."""

    index: int
    name: str

    def __str__(self) -> str:
        return self.name if is_plain(self.name) else quoted(self.name, "`")

    def side(self, values: Values) -> Values:
        """What a comparison sees."""
        column: Values = values[:, self.index]
        return column


@dataclass(frozen=True)
class Constant:
    """A number, or a category's value by its index; and how it is written."""

    value: float
    text: str

    def __str__(self) -> str:
        return self.text

    def side(self, values: Values) -> np.floating:
        """What a comparison sees: rounded like the column, or 0.1 would differ from a 0.1 in single precision."""
        with np.errstate(over="ignore"):
            rounded: np.floating = values.dtype.type(self.value)
        return rounded


@dataclass(frozen=True)
class Comparison:
    """Two sides and the sign between them."""

    left: Column | Constant
    sign: str
    right: Column | Constant

    def holds(self, values: Values) -> Mask:
        """(rows,): where it is true."""
        return COMPARE[self.sign](self.left.side(values), self.right.side(values))


@dataclass(frozen=True)
class Chain:
    """Comparisons in a row: `17 <= age < 26` is true where each of them is."""

    parts: tuple[Comparison, ...]

    def __str__(self) -> str:
        return str(self.parts[0].left) + "".join(f" {part.sign} {part.right}" for part in self.parts)

    def holds(self, values: Values) -> Mask:
        """(rows,): where every comparison is true."""
        return reduce(operator.iand, (part.holds(values) for part in self.parts))


@dataclass(frozen=True)
class Member:
    """`race in ['White', 'Other']`, or `not in`."""

    column: Column
    members: tuple[Constant, ...]
    negated: bool

    def __str__(self) -> str:
        return f"{self.column} {'not in' if self.negated else 'in'} [{', '.join(map(str, self.members))}]"

    def holds(self, values: Values) -> Mask:
        """(rows,): which rows have one of the values."""
        members = np.array([member.side(values) for member in self.members], values.dtype)
        found: Mask = np.isin(self.column.side(values), members, invert=self.negated)
        return found


@dataclass(frozen=True)
class Not:
    """True where the part is not."""

    part: Node

    def __str__(self) -> str:
        return f"not {_inside(self.part)}"

    def holds(self, values: Values) -> Mask:
        """(rows,): where the part does not hold."""
        mask = self.part.holds(values)
        return np.logical_not(mask, out=mask)


@dataclass(frozen=True)
class Joined:
    """Several parts with `and` or `or` between them."""

    word: str
    parts: tuple[Node, ...]

    def __str__(self) -> str:
        return f" {self.word} ".join(map(_inside, self.parts))

    def holds(self, values: Values) -> Mask:
        """(rows,): where all, or some, of the parts hold."""
        join = operator.iand if self.word == "and" else operator.ior
        return reduce(join, (part.holds(values) for part in self.parts))


def _inside(part: Node) -> str:
    return f"({part})" if isinstance(part, Joined) else str(part)


@dataclass(frozen=True)
class Predicate:
    """A checked condition over the features of a spec; `str` gives it in one canonical form.

    Parameters
    ----------
    names
        The features it uses, in the order of the spec.
    root
        The tree.
    """

    names: tuple[str, ...]
    root: Node

    def __str__(self) -> str:
        return str(self.root)

    def holds(self, values: Values) -> Mask:
        """(rows,): which rows satisfy it.

        `values` is (rows, features) with all features of the spec in order, categories as the index of their value.
        A value that is NaN is unequal to everything.
        """
        # Constants are rounded to the columns' type, which must not make a whole number of 0.5.
        return self.root.holds(values if values.dtype.kind == "f" else values.astype(np.float64))
