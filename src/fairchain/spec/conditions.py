"""Conditions and expressions over names: a subset of Python's expressions, parsed and never executed.

    condition   comparisons joined with and, or, not and parentheses
    comparison  age >= 18,  17 <= age < 26,  hours > overtime,  sex == 'Female',  race not in ['White', 'Other']
    expression  max(age, years + 16),  2 * hours,  60 if sex == 'Male' else hours - 5

A feature's name may contain `-` and `.`; any other name that is not a Python identifier goes in backticks. Numbers are
compared with numbers, a category with its values by ==, != and in; arithmetic (+, -, *, min, max, abs, if-else) belongs
to expressions only, which compute a node of a Bayesian network from its parents. A quote inside its own kind of quotes
is written twice. A list after `in` is a set, never a range. The conditions of a formula are more lenient: `sex=Female`
needs no second sign and no quotes, a group of a feature can be named, and a category with the values no and yes can be
written alone.

`condition_text` replaces names and quoted values by Python identifiers; `ast.parse` reads the result, and every node
that is not on a short list is refused.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fairchain.messages import near
from fairchain.spec.condition_text import (
    NO_ARITHMETIC,
    ConditionText,
    Language,
    Word,
    fail_at,
    messages_at,
    short,
    written_name,
    written_value,
)
from fairchain.spec.feature_keys import CategoryFeature, Feature
from fairchain.spec.groups import groups_of_feature
from fairchain.spec.schema import Spec

Values = NDArray[np.floating]
Mask = NDArray[np.bool_]
Holds = Callable[[Values], Mask]
Computes = Callable[[Values], NDArray[np.float64]]
# Maps bounds of the absolute values of features to a bound of an expression.
Reach = Callable[[Sequence[float]], float]
MOST_CONDITION_DEPTH = 100
COMPARISONS: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Mask]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
}
FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "min": (2, np.minimum),
    "max": (2, np.maximum),
    "abs": (1, np.abs),
}
# Values of a yes-or-no category, so that its name alone is a condition of a formula.
YES_OR_NO = (("no", "yes"), ("n", "y"), ("false", "true"), ("0", "1"))


@dataclass(frozen=True)
class Predicate:
    """A checked condition over the features of a spec; `str` returns its canonical form.

    `names` are the features it uses, in the order of the spec.
    """

    names: tuple[str, ...]
    text: str
    _holds: Holds
    _parts: tuple[Predicate, ...]
    _features: tuple[Feature, ...] = field(compare=False, repr=False)
    _language: Language = field(compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # In another process the canonical form is parsed again: functions cannot be copied.
        return _parsed, (self.text, self._features, self._language)

    @staticmethod
    def joined(parts: Sequence[Predicate]) -> Predicate:
        """Return the conjunction of these conditions."""
        return _parsed(" and ".join(f"({part})" for part in parts), parts[0]._features, parts[0]._language)

    @property
    def conjuncts(self) -> tuple[Predicate, ...]:
        """The conditions that it joins by "and"."""
        return self._parts or (self,)

    def __str__(self) -> str:
        return self.text

    def holds(self, values: Values) -> Mask:
        """Return which rows satisfy it, (rows,).

        `values` is (rows, features) with all features of the spec in order, categories as the index of their value.
        A value that is NaN is unequal to everything.
        """
        # Constants are rounded to the columns' type, which must not turn 0.5 into an integer.
        return self._holds(values if values.dtype.kind == "f" else values.astype(np.float64))


@dataclass(frozen=True)
class Expression:
    """A checked expression over some names: a number, or the value of a category, computed from others.

    `names` are those it uses, in the order of the features; `str` returns its canonical form.
    """

    names: tuple[str, ...]
    text: str
    _computes: Computes
    _reach: Reach
    _again: tuple[Any, ...] = field(default=(), compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return parse_expression, self._again

    def __str__(self) -> str:
        return self.text

    def of(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return its value for each row, (rows,) from (rows, features); for a category the index of its value."""
        return np.broadcast_to(self._computes(values), len(values))

    def reach(self, reaches: Sequence[float]) -> float:
        """Return a bound of its absolute value, from those of the features."""
        return self._reach(reaches)


def parse_expression(
    text: str, features: Sequence[Feature], category: CategoryFeature | None, where: str
) -> Expression:
    """Read an expression over these features; its values are numbers, or those of `category`.

    >>> import numpy as np
    >>> from fairchain.spec import IntegerFeature
    >>> age, years = (IntegerFeature(name=name, low=0, high=90) for name in ("age", "years"))
    >>> least = parse_expression("max(age, years+16)", [age, years], None, "node")
    >>> print(least, least.of(np.array([[20.0, 10.0], [20.0, 2.0]])))
    max(age, years + 16) [26. 20.]

    Raises a SpecError that begins with `where`, and states the column in the text, what was found there and what to
    write.
    """
    with messages_at(where, text):
        meaning = _Meaning(text, features, "expression")
        written, computes, reach = meaning.expression(meaning.tree, category)
        return Expression(meaning.used_names(), written, computes, reach, (text, tuple(features), category, where))


def parse_predicate(
    text: str,
    features: Sequence[Feature],
    language: Language = "given",
    *,
    where: str = "property.given",
    offset: int = 0,
) -> Predicate:
    """Read a condition over these features; `where` and `offset` are its position in messages.

    >>> import numpy as np
    >>> from fairchain.spec import CategoryFeature, IntegerFeature
    >>> age = IntegerFeature(name="age", low=17, high=90)
    >>> sex = CategoryFeature(name="sex", values=("Female", "Male"))
    >>> adult_women = parse_predicate("(age>=18) and sex=='Female'", [age, sex])
    >>> print(adult_women)
    age >= 18 and sex == 'Female'
    >>> adult_women.holds(np.array([[17.0, 0.0], [40.0, 0.0], [40.0, 1.0]]))
    array([False,  True, False])

    Raises a SpecError with the column in the text, what was found there and what to write.
    """
    with messages_at(where, text, offset):
        return _parsed(text, tuple(features), language)


def _parsed(text: str, features: tuple[Feature, ...], language: Language) -> Predicate:
    meaning = _Meaning(text, features, language)

    def predicate(node: ast.expr) -> Predicate:
        parts: list[Predicate] = []
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            parts = [part for value in node.values for part in predicate(value).conjuncts]
        written, holds = meaning.condition(node)
        return Predicate(meaning.used_names(), written, holds, tuple(parts), features, language)

    return predicate(meaning.tree)


class _Meaning:
    """The meaning of a text's syntax tree for the features."""

    def __init__(self, text: str, features: Sequence[Feature], language: Language) -> None:
        self._language = language
        self._features = {feature.name: (index, feature) for index, feature in enumerate(features)}
        self._source = ConditionText(text, language, self._features)
        self._words = self._source.words
        self.tree = self._source.tree()
        self._used: set[str] = set()

    def used_names(self) -> tuple[str, ...]:
        """Return the features that were used since the last call, in their order."""
        used, self._used = self._used, set()
        return tuple(name for name in self._features if name in used)

    def condition(self, node: ast.expr, depth: int = 0) -> tuple[str, Holds]:
        """Return a node's canonical text, and the function from values to the rows for which it holds."""
        if depth > MOST_CONDITION_DEPTH:
            fail_at(self._source.column(node), f"nested deeper than {MOST_CONDITION_DEPTH}; write it flatter")
        if isinstance(node, ast.BoolOp):
            joint, join = ("and", operator.iand) if isinstance(node.op, ast.And) else ("or", operator.ior)
            parts = [self.condition(value, depth + 1) for value in node.values]
            written = f" {joint} ".join(
                f"({text})" if isinstance(value, ast.BoolOp) else text
                for value, (text, _) in zip(node.values, parts, strict=True)
            )
            return written, lambda values: reduce(join, (holds(values) for _, holds in parts))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            text, inner = self.condition(node.operand, depth + 1)
            return f"not ({text})" if isinstance(node.operand, ast.BoolOp) else f"not {text}", lambda v: ~inner(v)
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        if isinstance(node, ast.Name | ast.Constant):
            word = self._operand(node)
            if (yes := self._yes_of(word)) is not None:
                return yes
            fail_at(
                word.column,
                f'{short(word.shown)} alone is not a condition; compare it, for example by "==", "<" or "in"',
            )
        self._refuse(node)

    def _comparison(self, node: ast.Compare) -> tuple[str, Holds]:
        if any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            if len(node.ops) > 1:
                fail_at(
                    self._source.column(node.comparators[0]), 'found "in" after a comparison; join the two with "and"'
                )
            return self._membership(node.left, node.comparators[0], negated=isinstance(node.ops[0], ast.NotIn))
        operands = (node.left, *node.comparators)
        if self._language == "expression" and any(
            isinstance(each, ast.BinOp | ast.Call | ast.IfExp) for each in operands
        ):
            return self._number_comparison(node)
        words = [self._operand(each) for each in operands]
        if len(words) == 2 and (named := self._named_group(words[0], node.ops[0], words[1])) is not None:
            return named
        parts: list[Holds] = []
        text = ""
        for (left, right), op in zip(pairwise(words), node.ops, strict=True):
            if type(op) not in COMPARISONS:
                self._refuse(node)
            sign, compare = COMPARISONS[type(op)]
            self._check_pair(left, sign, right)
            (one, first), (other, second) = self._side(left, right), self._side(right, left)
            parts.append(lambda v, c=compare, a=first, b=second: c(a(v), b(v)))  # type: ignore[misc]
            text = f"{text or one} {sign} {other}"
        return text, lambda values: reduce(operator.iand, (part(values) for part in parts))

    def _number_comparison(self, node: ast.Compare) -> tuple[str, Holds]:
        """Compare numbers that are computed, each of them once: twice would double the time with every level."""
        sides = [self.expression(each, None, 1)[:2] for each in (node.left, *node.comparators)]
        signs = [COMPARISONS[type(op)] for op in node.ops]
        text = sides[0][0] + "".join(f" {sign} {other}" for (sign, _), (other, _) in zip(signs, sides[1:], strict=True))

        def holds(values: Values) -> Mask:
            pairs = pairwise([side(values) for _, side in sides])
            return reduce(operator.iand, (compare(*pair) for (_, compare), pair in zip(signs, pairs, strict=True)))

        return text, holds

    def expression(
        self, node: ast.expr, category: CategoryFeature | None, depth: int = 0
    ) -> tuple[str, Computes, Reach]:
        """Return a node's canonical text, the function from values to its value, and its bound."""
        if depth > MOST_CONDITION_DEPTH:
            fail_at(self._source.column(node), f"nested deeper than {MOST_CONDITION_DEPTH}; write it flatter")
        if isinstance(node, ast.IfExp):
            test, holds = self.condition(node.test, depth + 1)
            (yes, one, far), (no, other, away) = (
                self.expression(each, category, depth + 1) for each in (node.body, node.orelse)
            )
            yes = f"({yes})" if isinstance(node.body, ast.IfExp) else yes
            return (
                f"{yes} if {test} else {no}",
                lambda v: np.where(holds(v), one(v), other(v)),
                lambda r: max(far(r), away(r)),
            )
        if category is not None:
            word = self._operand(node)
            if word.kind == "name":
                example = f"for example {written_value(category.values[0])}"
                fail_at(word.column, f'write a value of "{category.name}" in quotes here, {example}')
            index, text = _constant(word, category)
            return text, lambda v: np.full(len(v), index), lambda _: 0.0
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            return self._arithmetic(node, depth)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Name):
            text, inner, far = self.expression(node.operand, None, depth + 1)
            if isinstance(node.op, ast.USub):
                return f"-({text})", lambda v: -inner(v), far
        word = self._operand(node)
        if word.kind != "name":
            if word.kind == "text":
                fail_at(word.column, f"found the text {short(word.shown)}; write a number or a parent's name")
            value = float(word.text)
            if not math.isfinite(value):
                fail_at(word.column, f"{short(word.text)} is too large; write a finite number")
            return _written_number(value), lambda v: np.full(len(v), value), lambda _: abs(value)
        place, feature = self._feature(word)
        if isinstance(feature, CategoryFeature):
            fail_at(word.column, f'"{feature.name}" is a category; compare it with its values, {_example(feature)}')
        return written_name(word.text), lambda v: v[:, place], lambda r: r[place]

    def _arithmetic(self, node: ast.BinOp, depth: int) -> tuple[str, Computes, Reach]:
        sign, compute = ARITHMETIC[type(node.op)]
        (left, one, far), (right, other, away) = (
            self.expression(each, None, depth + 1) for each in (node.left, node.right)
        )
        sums = tuple(
            isinstance(each, ast.BinOp) and not isinstance(each.op, ast.Mult) for each in (node.left, node.right)
        )
        if isinstance(node.left, ast.IfExp) or (sign == "*" and sums[0]):
            left = f"({left})"
        if isinstance(node.right, ast.IfExp) or (sign != "+" and sums[1]):
            right = f"({right})"
        bound: Reach = lambda r: far(r) * away(r) if sign == "*" else far(r) + away(r)  # noqa: E731
        return f"{left} {sign} {right}", lambda v: compute(one(v), other(v)), bound

    def _call(self, node: ast.Call, depth: int) -> tuple[str, Computes, Reach]:
        name = self._words[node.func.id].text if isinstance(node.func, ast.Name) and node.func.id in self._words else ""
        if name not in FUNCTIONS or node.keywords:
            fail_at(self._source.column(node), f"the functions are {', '.join(FUNCTIONS)}; use one of these")
        least, function = FUNCTIONS[name]
        if len(node.args) < least or (least == 1 and len(node.args) > 1):
            fail_at(self._source.column(node), f"{name} takes {'one number' if least == 1 else 'two numbers or more'}")
        parts = [self.expression(each, None, depth + 1) for each in node.args]
        return (
            f"{name}({', '.join(text for text, _, _ in parts)})",
            lambda v: reduce(function, (inner(v) for _, inner, _ in parts)) if least > 1 else function(parts[0][1](v)),
            lambda r: max(far(r) for _, _, far in parts),
        )

    def _yes_of(self, word: Word) -> tuple[str, Holds] | None:
        """Return the condition that a yes-or-no category is yes, if a word of a formula names one."""
        if self._language != "formula" or word.kind != "name":
            return None
        index, feature = self._feature(word)
        if isinstance(feature, CategoryFeature):
            values = [str(value).casefold() for value in feature.values]
            if yes := next((yes for no, yes in YES_OR_NO if sorted(values) == sorted([no, yes])), None):
                place = values.index(yes)
                text = f"{written_name(word.text)} == {written_value(feature.values[place])}"
                return text, lambda v: v[:, index] == _rounded(float(place), v)
        return None

    def _named_group(self, one: Word, op: ast.cmpop, other: Word) -> tuple[str, Holds] | None:
        """Return the condition that a feature belongs to one of its named groups; None if no group is named."""
        if self._language != "formula" or one.kind != "name" or other.kind not in ("value", "text"):
            return None
        index, feature = self._feature(one)
        own = isinstance(feature, CategoryFeature) and other.text in map(str, feature.values)
        if own or other.text not in feature.groups or not isinstance(op, ast.Eq | ast.NotEq):
            return None
        domain = dict(groups_of_feature(feature))[f"{feature.name}={other.text}"]
        sign = COMPARISONS[type(op)][0]
        text = f"{written_name(one.text)} {sign} {written_value(other.text)}"
        return text, lambda values: domain.holds(values[:, index]) ^ (sign == "!=")

    def _membership(self, left: ast.expr, listed: ast.expr, *, negated: bool) -> tuple[str, Holds]:
        word = self._operand(left)
        if word.kind != "name":
            fail_at(word.column, f'{short(word.shown)} is not a feature; write a feature before "in"')
        if not isinstance(listed, ast.List) or not listed.elts:
            fail_at(
                self._source.column(listed), 'after "in", write a list in brackets with a number or a value in quotes'
            )
        index, feature = self._feature(word)
        members = [_constant(self._operand(each), feature) for each in listed.elts]
        sign = "not in" if negated else "in"
        text = f"{written_name(word.text)} {sign} [{', '.join(text for _, text in members)}]"

        def holds(values: Values) -> Mask:
            among = np.array([_rounded(value, values) for value, _ in members], values.dtype)
            found: Mask = np.isin(values[:, index], among, invert=negated)
            return found

        return text, holds

    def _operand(self, node: ast.expr) -> Word:
        """Return the word of a node: a feature, a number or a quoted value."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            word = self._operand(node.operand)
            sign = "-" if isinstance(node.op, ast.USub) else ""
            if word.kind == "number" and word.text[0] != "-":
                return Word("number", sign + word.text, word.code, self._source.column(node), sign + word.shown)
        if not isinstance(node, ast.Name) or node.id not in self._words:
            self._refuse(node)
        word = self._words[node.id]
        if word.kind == "name" and word.text not in self._features:
            if self._language == "formula":
                return replace(word, kind="value")
            self._unknown_name(word)
        return word

    def _feature(self, word: Word) -> tuple[int, Feature]:
        self._used.add(word.text)
        return self._features[word.text]

    def _side(self, word: Word, other: Word) -> tuple[str, Callable[[Values], Any]]:
        """Return the text of one side, and its column or the value of a constant in the column of the other side."""
        if word.kind == "name":
            index, _ = self._feature(word)
            return written_name(word.text), lambda values: values[:, index]
        value, text = _constant(word, self._feature(other)[1])
        return text, lambda values: _rounded(value, values)

    def _check_pair(self, one: Word, sign: str, other: Word) -> None:
        """Raise an error unless the sign may compare these two."""
        features = [self._feature(word)[1] for word in (one, other) if word.kind == "name"]
        values = [str(value) for each in features if isinstance(each, CategoryFeature) for value in each.values]
        # An unquoted word before a sign is a value of the category after it, or unknown.
        if not features or (one.kind == "value" and one.text not in values):
            if unknown := next((word for word in (one, other) if word.kind == "value"), None):
                self._unknown_name(unknown)
            pair = f"{short(one.shown)} {sign} {short(other.shown)}"
            fail_at(one.column, f"{pair} compares two constants; name a feature in it")
        category = next((feature for feature in features if isinstance(feature, CategoryFeature)), None)
        if category is None:
            return
        example = _example(category)
        if len(features) == 2:
            fail_at(one.column, f'"{category.name}" is a category, compared with its own values only, {example}')
        if sign not in ("==", "!="):
            fail_at(
                one.column,
                f'found "{sign}", but "{category.name}" is a category, whose values have no order; '
                f"use ==, != or in, {example}",
            )

    def _unknown_name(self, word: Word) -> NoReturn:
        name, missing = word.text, f'unknown feature "{short(word.text)}"'
        for _, feature in self._features.values():
            if isinstance(feature, CategoryFeature) and name in feature.values:
                fail_at(word.column, f'{missing}; put a value of "{feature.name}" in quotes: {written_value(name)}')
        before = re.split(r"[-.]", name)[0]
        if before != name and before in self._features:
            fail_at(word.column, f'{missing}; {NO_ARITHMETIC}, and "-" and "." belong to a name')
        fail_at(word.column, f"{missing}; {near(name, list(self._features))}")

    def _refuse(self, node: ast.expr) -> NoReturn:
        if isinstance(node, ast.BinOp | ast.UnaryOp):
            fail_at(self._source.column(node), NO_ARITHMETIC)
        fail_at(self._source.column(node), "expected a feature, a number or a value in quotes")


def _constant(word: Word, feature: Feature) -> tuple[float, str]:
    """Return the value of a number or a quoted value in the feature's column, and its canonical text."""
    if word.kind == "name":
        fail_at(word.column, f"found {short(word.shown)}; expected a number or a value in quotes")
    if isinstance(feature, CategoryFeature):
        for index, option in enumerate(feature.values):
            is_number = word.kind == "number" and isinstance(option, int)
            if option == float(word.text) if is_number else word.kind in ("text", "value") and str(option) == word.text:
                return float(index), written_value(option)
        if word.kind == "number" and not any(isinstance(option, int) for option in feature.values):
            fail_at(
                word.column,
                f'found the number {short(word.text)}, but the values of "{feature.name}" are texts; write one of them '
                f"in quotes, for example {written_value(feature.values[0])}",
            )
        options = near(word.text, [str(option) for option in feature.values])
        fail_at(word.column, f'"{short(word.text)}" is not a value of "{feature.name}"; {options}')
    if word.kind == "text":
        fail_at(word.column, f'"{feature.name}" is a number, found the text {short(word.shown)}; write a number')
    if word.kind == "value":
        groups = f"; its groups are {', '.join(feature.groups)}" if feature.groups else ""
        fail_at(word.column, f'"{feature.name}" is a number, found {short(word.shown)}; write a number{groups}')
    value = float(word.text)
    if not math.isfinite(value):
        fail_at(word.column, f"{short(word.text)} is too large; write a finite number")
    # Adding 0.0 makes -0.0 an ordinary zero.
    return value + 0.0, _written_number(value + 0.0)


def _rounded(value: float, values: Values) -> np.floating:
    """Return a constant in the columns' type; otherwise 0.1 would differ from a 0.1 in single precision."""
    with np.errstate(over="ignore"):
        rounded: np.floating = values.dtype.type(value)
    return rounded


def _written_number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _example(category: CategoryFeature) -> str:
    return f"for example {written_name(category.name)} == {written_value(category.values[0])}"


def predicate_of(spec: Spec) -> Predicate | None:
    """Return the condition in `property.given`; None if there is none."""
    return None if spec.property.given is None else parse_predicate(spec.property.given, spec.features)


def given_features(spec: Spec) -> tuple[str, ...]:
    """Return the names of the features in `property.given`."""
    predicate = predicate_of(spec)
    return () if predicate is None else predicate.names
