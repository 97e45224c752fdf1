"""The language of `given`: conditions over feature names, parsed into a small tree and never executed as Python.

    condition   comparisons joined with and, or, not and parentheses
    comparison  age >= 18,  17 <= age < 26,  hours > overtime,  sex == 'Female',  race not in ['White', 'Other']

A name is made of letters, digits, `_`, `-` and `.` and begins with a letter or `_`; any other name stands in
backticks. Numbers are compared with numbers, a category with its values by ==, != and in; there is no arithmetic.
A quote inside its own kind of quotes is written twice. A list after `in` is a set, never a range.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NoReturn

from fairchain.errors import SpecError
from fairchain.spec.predicate_tokens import ARITHMETIC, KEYWORDS, NO_ARITHMETIC, Token, fail, quoted, tokens_of
from fairchain.spec.predicate_tree import (
    COMPARE,
    Chain,
    Column,
    Comparison,
    Constant,
    Joined,
    Member,
    Node,
    Not,
    Predicate,
)
from fairchain.spec.schema import CategoryFeature, Feature

__all__ = ["Predicate", "parse_predicate"]

MOST_CHARACTERS = 10_000
MOST_DEPTH = 100
MOST_SHOWN = 8


def parse_predicate(text: str, features: Sequence[Feature]) -> Predicate:
    """Read a condition over these features.

    >>> import numpy as np
    >>> from fairchain.spec import CategoryFeature, IntegerFeature
    >>> age = IntegerFeature(name="age", low=17, high=90)
    >>> sex = CategoryFeature(name="sex", values=("Female", "Male"))
    >>> adult_women = parse_predicate("(age>=18) and sex=='Female'", [age, sex])
    >>> print(adult_women)
    age >= 18 and sex == 'Female'
    >>> adult_women.holds(np.array([[17.0, 0.0], [40.0, 0.0], [40.0, 1.0]]))
    array([False,  True, False])

    Raises
    ------
    SpecError
        With the column in the text, what was found there and what to write.
    """
    if len(text) > MOST_CHARACTERS:
        raise SpecError(f"property.given: {len(text)} characters are more than {MOST_CHARACTERS}; write it shorter")
    parser = _Parser(tokens_of(text), features)
    root = parser.condition()
    return Predicate(tuple(feature.name for feature in features if feature.name in parser.used), root)


class _Parser:
    """Recursive descent, one method for each level of the language."""

    def __init__(self, tokens: Sequence[Token], features: Sequence[Feature]) -> None:
        self._tokens, self._place, self._depth = tokens, 0, 0
        self._features = features
        self._index = {feature.name: index for index, feature in enumerate(features)}
        self.used: set[str] = set()

    @property
    def _next(self) -> Token:
        return self._tokens[self._place]

    def _take(self) -> Token:
        self._place += 1
        return self._tokens[self._place - 1]

    def condition(self) -> Node:
        """The whole text."""
        root = self._joined("or")
        if self._next.kind != "end":
            self._unexpected('"and", "or" or the end')
        return root

    def _joined(self, word: str) -> Node:
        parts = [self._part_of(word)]
        while self._next.kind == word:
            self._take()
            parts.append(self._part_of(word))
        return parts[0] if len(parts) == 1 else Joined(word, tuple(parts))

    def _part_of(self, word: str) -> Node:
        return self._joined("and") if word == "or" else self._negation()

    def _negation(self) -> Node:
        if self._next.kind not in ("not", "("):
            return self._comparison()
        self._depth += 1
        if self._depth > MOST_DEPTH:
            fail(self._next.column, f"nested deeper than {MOST_DEPTH}; write it flatter")
        if self._take().kind == "not":
            node: Node = Not(self._negation())
        else:
            node = self._joined("or")
            if self._next.kind != ")":
                self._unexpected('"and", "or" or ")"')
            self._take()
        self._depth -= 1
        return node

    def _comparison(self) -> Node:
        left = self._operand()
        if self._next.kind in ("in", "not"):
            return self._membership(left)
        if self._next.kind not in COMPARE:
            self._unexpected(f'"==", "<", "in" or the like ({_short(left.shown)} alone is no condition)')
        parts: list[Comparison] = []
        while self._next.kind in COMPARE:
            sign = self._take()
            right = self._operand()
            self._check_pair(left, sign, right)
            parts.append(Comparison(self._side(left, right), sign.kind, self._side(right, left)))
            left = right
        if self._next.kind in ("in", "not"):
            fail(self._next.column, f'found "{self._next.kind}" after a comparison; join the two with "and"')
        return Chain(tuple(parts))

    def _operand(self) -> Token:
        if self._next.kind not in ("name", "number", "text"):
            self._unexpected("a feature, a number or a value in quotes")
        token = self._take()
        if token.kind == "name" and token.text not in self._index:
            self._unknown_name(token)
        return token

    def _membership(self, token: Token) -> Node:
        negated = self._take().kind == "not"
        if negated and self._next.kind != "in":
            self._unexpected('"in"')
        self._place += negated
        if token.kind != "name":
            fail(token.column, f'{_short(token.shown)} is no feature; before "in" stands the name of one')
        if self._next.kind != "[":
            self._unexpected("a list in brackets")
        members: list[Constant] = []
        while self._take().kind != "]":
            if self._next.kind not in ("number", "text"):
                self._unexpected("a number or a value in quotes")
            members.append(_constant(self._take(), self._feature(token)))
            if self._next.kind not in (",", "]"):
                self._unexpected('"," or "]"')
        return Member(self._column(token), tuple(members), negated)

    def _feature(self, token: Token) -> Feature:
        return self._features[self._index[token.text]]

    def _column(self, token: Token) -> Column:
        self.used.add(token.text)
        return Column(self._index[token.text], token.text)

    def _side(self, token: Token, other: Token) -> Column | Constant:
        """A feature's column, or what a constant is in the column of the other side."""
        return self._column(token) if token.kind == "name" else _constant(token, self._feature(other))

    def _check_pair(self, one: Token, sign: Token, other: Token) -> None:
        """Raise unless the sign can stand between these two."""
        features = [self._feature(token) for token in (one, other) if token.kind == "name"]
        if not features:
            pair = f"{_short(one.shown)} {sign.kind} {_short(other.shown)}"
            fail(one.column, f"{pair} compares two constants; name a feature in it")
        category = next((feature for feature in features if isinstance(feature, CategoryFeature)), None)
        if category is None:
            return
        example = f"for example {Column(0, category.name)} == {_written(category.values[0])}"
        if len(features) == 2:
            fail(sign.column, f'"{category.name}" is a category, compared with its own values only, {example}')
        if sign.kind not in ("==", "!="):
            fail(
                sign.column,
                f'found "{sign.kind}", but "{category.name}" is a category, whose values have no order; '
                f"use ==, != or in, {example}",
            )

    def _unknown_name(self, token: Token) -> NoReturn:
        name, missing = token.text, f'there is no feature "{_short(token.text)}"'
        if name.lower() in KEYWORDS:
            fail(token.column, f'{missing}; write "{name.lower()}" in small letters if you mean that word')
        for feature in self._features:
            if isinstance(feature, CategoryFeature) and name in feature.values:
                fail(token.column, f'{missing}; a value of "{feature.name}" stands in quotes: {_written(name)}')
        before = re.split(r"[-.]", name)[0]
        if before != name and before in self._index:
            fail(token.column, f'{missing}; {NO_ARITHMETIC}, and "-" and "." belong to a name')
        fail(token.column, f"{missing}; {_suggest(name, list(self._index))}")

    def _unexpected(self, wanted: str) -> NoReturn:
        token = self._next
        if token.kind == "end":
            fail(token.column, f"the text ends where {wanted} was expected")
        found = f'found "{_short(token.shown)}"'
        if token.kind == "name" and token.text.lower() in KEYWORDS:
            fail(token.column, f'{found}, write "{token.text.lower()}"')
        if token.kind == "number" and token.text[0] in ARITHMETIC:
            fail(token.column, f"{found}, but {NO_ARITHMETIC}")
        fail(token.column, f"{found} where {wanted} was expected")


def _constant(token: Token, feature: Feature) -> Constant:
    """What a number or a quoted value is in the feature's column."""
    if isinstance(feature, CategoryFeature):
        return _category_value(token, feature)
    if token.kind == "text":
        fail(token.column, f'"{feature.name}" is a number, found the text {_short(token.shown)}; write a number')
    value = float(token.text)
    if not math.isfinite(value):
        fail(token.column, f"{_short(token.text)} is too large; write a finite number")
    # Adding 0.0 makes -0.0 an ordinary zero.
    return Constant(value + 0.0, str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value))


def _category_value(token: Token, feature: CategoryFeature) -> Constant:
    for index, value in enumerate(feature.values):
        is_number = token.kind == "number" and isinstance(value, int)
        if value == float(token.text) if is_number else token.kind == "text" and str(value) == token.text:
            return Constant(float(index), _written(value))
    if token.kind == "number" and not any(isinstance(value, int) for value in feature.values):
        fail(
            token.column,
            f'found the number {_short(token.text)}, but the values of "{feature.name}" are texts; write one of them '
            f"in quotes, for example {_written(feature.values[0])}",
        )
    names = [str(value) for value in feature.values]
    fail(token.column, f'"{_short(token.text)}" is not a value of "{feature.name}"; {_suggest(token.text, names)}')


def _written(value: str | int) -> str:
    return str(value) if isinstance(value, int) else quoted(value, "'")


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _suggest(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(_short(name), known, n=1)
    if near:
        return f'did you mean "{near[0]}"?'
    return f"there is {', '.join(known[:MOST_SHOWN])}{', ...' if len(known) > MOST_SHOWN else ''}"
