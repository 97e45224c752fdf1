"""Formulas: comparisons of two conditional probabilities of a decision.

    P(hired | sex=Female and qualified) / P(hired | sex=Male and qualified) >= 0.8

A formula compares the difference or the ratio of two probabilities with a number. Every spelling is converted to one of
three canonical forms: X - Y <= c, |X - Y| <= c, or X / Y >= c with c up to 1, which means X >= c Y even if Y is 0. Each
probability is about one label, given a condition in the language of `given` (see `conditions`), or overall.

A condition becomes a `Group`. The required values of single features are its domains, from which populations draw
directly and with common random numbers. The other requirements are the group's own condition.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NoReturn

import numpy as np

from fairchain.errors import SpecError
from fairchain.messages import in_a_line, near
from fairchain.spec.condition_text import MOST_CHARACTERS
from fairchain.spec.conditions import Predicate, parse_predicate
from fairchain.spec.feature_keys import Feature, RealFeature
from fairchain.spec.groups import Domain, Group, domain_of, points_domain
from fairchain.spec.property_keys import ProbabilityFormula

WHERE = "property.formula"
FORMULA_EXAMPLE = "P(hired | sex=Female) / P(hired | sex=Male) >= 0.8"
COMPARE_TWO = (
    f"compare two probabilities by their difference or their ratio with a number, for example {FORMULA_EXAMPLE}"
)
OVERALL = "overall"
# Conditions on a feature with more values than this are evaluated on each drawn input.
MOST_POINTS = 100_000
# Quoted values are skipped; "P(" begins a probability.
_MARKS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|(?P<start>\bP\s*\()|(?P<sign>[()|])""")
_EVENT = re.compile(r"\s*(?:Y\s*(?P<sign>==?))?\s*(?P<label>.*?)\s*", re.DOTALL)
_SIGNS = {"≤": "<=", "≥": ">=", "=<": "<=", "=>": ">=", "−": "-", "·": "*", "×": "*"}

Measure = Literal["difference", "ratio"]


@dataclass(frozen=True)
class Term:
    """One probability of a formula as written: its label, its condition, and the column of the condition."""

    label: str
    condition: str
    column: int = field(compare=False)


@dataclass(frozen=True)
class Shape:
    """A formula whose conditions are not interpreted yet: X - Y <= c, |X - Y| <= c (`absolute`) or X / Y >= c.

    `first` and `second` are the probabilities X and Y, and `threshold` is c.
    """

    first: Term
    second: Term
    measure: Measure
    absolute: bool
    threshold: Fraction

    @property
    def limit(self) -> Fraction:
        """The largest fair gap: c, or for a ratio 1 - c."""
        return 1 - self.threshold if self.measure == "ratio" else self.threshold

    def written(self, first: str, second: str) -> str:
        """Return the canonical form with these texts for the probabilities."""
        number = _written(self.threshold)
        if self.measure == "ratio":
            return f"{first} / {second} >= {number}"
        return f"|{first} - {second}| <= {number}" if self.absolute else f"{first} - {second} <= {number}"


def shape_of(formula: str) -> Shape:
    """Read the two probabilities of a formula and their measure; conditions are not interpreted.

    >>> shape = shape_of("P(hired | sex=Male) <= P(hired | sex=Female) + 0.1")
    >>> shape.measure, shape.first.condition, shape.second.condition, shape.threshold
    ('difference', 'sex=Male', 'sex=Female', Fraction(1, 10))
    """
    if len(formula) > MOST_CHARACTERS:
        raise SpecError(f"{WHERE}: {len(formula)} characters are more than {MOST_CHARACTERS}; write it shorter")
    terms, rest = _split(formula)
    for found, sign in _SIGNS.items():
        rest = rest.replace(found, sign)
    if rest.count("|") not in (0, 2):
        _fail('found a single "|" outside of a probability; write |P(...) - P(...)| <= 0.1 for an absolute value')
    # |x| is read as abs(x).
    rest = rest.replace("|", " abs(", 1).replace("|", ") ", 1)
    try:
        tree = ast.parse(rest.strip(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError, ValueError):
        _fail(f"cannot be read; write it like {FORMULA_EXAMPLE}")
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1:
        _fail(f'found no comparison, or several; write one "<=" or ">=", for example {FORMULA_EXAMPLE}')
    op = tree.ops[0]
    if isinstance(op, ast.Lt | ast.Gt):
        sign = "<" if isinstance(op, ast.Lt) else ">"
        _fail(f'found "{sign}", write "{sign}=": no finite number of inputs distinguishes the two')
    if not isinstance(op, ast.LtE | ast.GtE):
        _fail(
            'two probabilities are compared by "<=" or ">="; for equality within 0.05 write |P(...) - P(...)| <= 0.05'
        )
    left, right = _Value.of(tree.left), _Value.of(tree.comparators[0])
    if isinstance(op, ast.GtE):
        left, right = right, left
    return _canonical(left, right, terms)


def _split(formula: str) -> tuple[list[Term], str]:
    """Return the probabilities, and the formula with the names p0, p1, ... in their places."""
    terms: list[Term] = []
    rest, end, depth, start, bar = "", 0, 0, 0, None
    for found in _MARKS.finditer(formula):
        if found["start"] and not depth:
            rest += formula[end : found.start()]
            start, bar, depth = found.end(), None, 1
        elif not depth:
            continue
        elif found["start"]:
            _fail("found a probability inside a condition; write conditions on features")
        elif found["sign"] == "|" and depth == 1 and bar is None:
            bar = found.start()
        elif found["sign"] in ("(", ")"):
            depth += 1 if found["sign"] == "(" else -1
            if not depth:
                stop = found.start() if bar is None else bar
                term = _term(formula[start:stop], formula[stop + 1 : found.start()] if bar is not None else None, stop)
                if term not in terms:
                    terms.append(term)
                rest += f" p{terms.index(term)} "
                end = found.end()
    if depth:
        _fail('"P(" is not closed; write the ")" that ends the probability')
    if len(terms) != 2:
        number = {0: "no probability", 1: "one probability"}.get(len(terms), f"{len(terms)} probabilities")
        _fail(f"found {number}; compare two different ones, for example {FORMULA_EXAMPLE}")
    return terms, rest + formula[end:]


def _term(event: str, condition: str | None, column: int) -> Term:
    found = _EVENT.fullmatch(event)
    label = found["label"] if found else ""
    if not label:
        _fail(f"P( ) has no label; write P(Y=label | condition), for example {FORMULA_EXAMPLE}")
    if label[0] in "'\"" and label[-1] == label[0] and len(label) > 1:
        label = label[1:-1].replace(2 * label[0], label[0])
    if condition is None:
        return Term(label, "", column + 1)
    if not condition.strip():
        _fail('found nothing after "|"; write a condition, or leave out "|" for all inputs')
    return Term(label, condition.strip(), column + 1 + len(condition) - len(condition.lstrip()))


@dataclass(frozen=True)
class _Value:
    """A side of a formula: a p0 + b p1 + c, or its absolute value, or p0 over p1 times a number."""

    weights: tuple[Fraction, Fraction]
    constant: Fraction
    form: Literal["linear", "absolute", "quotient"] = "linear"

    @classmethod
    def of(cls, node: ast.expr) -> _Value:
        match node:
            case ast.Name(id="p0" | "p1" as name):
                return cls((Fraction(name == "p0"), Fraction(name == "p1")), Fraction(0))
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                if abs(number) > 1e15:
                    _fail(f"{number:g} is too large; probabilities and their ratios are compared with small numbers")
                return cls((Fraction(0), Fraction(0)), Fraction(repr(number)))
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return cls.of(inner)._times(Fraction(-1))
            case ast.Call(func=ast.Name(id="abs"), args=[inner], keywords=[]):
                value = cls.of(inner)
                if value.form == "linear" and not value.constant:
                    return cls(value.weights, Fraction(0), "absolute")
            case ast.BinOp(left=left, op=op, right=right):
                return cls._joined(cls.of(left), op, cls.of(right))
        _fail(COMPARE_TWO)

    @classmethod
    def _joined(cls, one: _Value, op: ast.operator, other: _Value) -> _Value:
        if isinstance(op, ast.Add | ast.Sub) and one.form == other.form == "linear":
            sign = 1 if isinstance(op, ast.Add) else -1
            first, second = (a + sign * b for a, b in zip(one.weights, other.weights, strict=True))
            return cls((first, second), one.constant + sign * other.constant)
        if isinstance(op, ast.Mult):
            for number, value in ((one, other), (other, one)):
                if number.is_number:
                    return value._times(number.constant)
        if isinstance(op, ast.Div) and other.is_number and other.constant:
            return one._times(1 / other.constant)
        if isinstance(op, ast.Div) and one.single is not None and other.single is not None:
            (top, above), (bottom, below) = one.single, other.single
            if top != bottom:
                weights = (above / below, Fraction(0)) if top == 0 else (Fraction(0), above / below)
                return cls(weights, Fraction(0), "quotient")
        _fail(COMPARE_TWO)

    @property
    def is_number(self) -> bool:
        return self.form == "linear" and not any(self.weights)

    @property
    def single(self) -> tuple[int, Fraction] | None:
        """The probability and its factor, if this side is a multiple of one probability; None for any other side."""
        used = [(place, weight) for place, weight in enumerate(self.weights) if weight]
        return used[0] if self.form == "linear" and len(used) == 1 and not self.constant else None

    def _times(self, factor: Fraction) -> _Value:
        if self.form == "absolute" and factor < 0:
            _fail("an absolute value is compared as |P(...) - P(...)| <= 0.1")
        first, second = (factor * weight for weight in self.weights)
        return _Value((first, second), factor * self.constant, self.form)


def _canonical(small: _Value, large: _Value, terms: list[Term]) -> Shape:
    """Return the canonical form of small <= large."""
    if "quotient" in (small.form, large.form):
        ratio, number = (small, large) if small.form == "quotient" else (large, small)
        if not number.is_number:
            _fail(f"compare a ratio of two probabilities with a number, for example {FORMULA_EXAMPLE}")
        top = 0 if ratio.weights[0] else 1
        over, under, c = terms[top], terms[1 - top], number.constant / ratio.weights[top]
        if ratio.weights[top] < 0 or c <= 0:
            _fail(f"a ratio of probabilities is compared with a number above 0, for example {FORMULA_EXAMPLE}")
        if ratio is small:
            # X / Y <= c is Y / X >= 1 / c.
            over, under, c = under, over, 1 / c
        return _checked(Shape(over, under, "ratio", False, c))
    if small.form == "absolute" and large.is_number:
        one, other = small.weights
        if one != -other:
            _fail("the absolute value is of one probability minus the other: |P(...) - P(...)| <= 0.1")
        # |X - Y| and |Y - X| are the same; the order is that of the text.
        first, second = terms
        return _checked(Shape(first, second, "difference", True, large.constant / abs(one)))
    if small.form == large.form == "linear":
        (a, b), c = (x - y for x, y in zip(small.weights, large.weights, strict=True)), small.constant - large.constant
        first, second = terms
        if a < 0 < b:
            a, b, first, second = b, a, second, first
        # a X + b Y + c <= 0 with a > 0 > b.
        if a > 0 > b:
            if a == -b:
                return _checked(Shape(first, second, "difference", False, -c / a))
            if not c:
                return _checked(Shape(second, first, "ratio", False, a / -b))
    _fail(COMPARE_TWO)


def _checked(shape: Shape) -> Shape:
    """Raise a SpecError unless some models satisfy the formula and others violate it."""
    if shape.first.label != shape.second.label:
        _fail(
            f'the probabilities are of two labels, "{shape.first.label}" and "{shape.second.label}"; compare the same '
            "label under two conditions"
        )
    if shape.measure == "ratio" and not 0 < shape.threshold <= 1:
        _fail(
            'a ratio is compared by ">=" with a number above 0 and up to 1, or by "<=" with a number from 1 on; for '
            "another question use a difference"
        )
    least = 0 if shape.absolute else -1
    if shape.measure == "difference" and not least < shape.threshold < 1:
        number = _written(shape.threshold)
        _fail(f"a difference of probabilities is at most {number} for every model, or for none; choose another number")
    return shape


def _written(number: Fraction) -> str:
    """Return a number as a decimal if it is one, otherwise as a fraction."""
    rest = number.denominator
    for factor in (2, 5):
        while rest % factor == 0:
            rest //= factor
    shown = repr(float(number)).removesuffix(".0")
    return shown if rest == 1 and Fraction(shown) == number else str(number)


def _fail(problem: str) -> NoReturn:
    raise SpecError(f"{WHERE}: {in_a_line(problem)}")


@dataclass(frozen=True, eq=False)
class FormulaGroups:
    """The meaning of a formula for the features of a spec; `text` is its canonical form.

    `protected` are the features with a single value in the formula, in the order of the spec; `groups` are the two
    conditions, in the order of the canonical form.
    """

    shape: Shape
    protected: tuple[str, ...]
    groups: tuple[Group, Group]
    text: str

    @property
    def disjoint(self) -> bool:
        """Whether the conditions on single features show that no individual belongs to both groups."""
        one, other = self.groups
        return any(not first.overlaps(second) for first, second in zip(one.domains, other.domains, strict=True))


def formula_groups(prop: ProbabilityFormula, features: Sequence[Feature], labels: Sequence[str]) -> FormulaGroups:
    """Read a formula over these features and labels.

    Raises a SpecError if it is not a comparison of two probabilities, or names an unknown label, feature or value.
    """
    return _read_formula(prop.formula, _Same(features), tuple(labels))


class _Same(tuple[Feature, ...]):
    """Features that are compared by identity, because their groups have no hash."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(tuple(map(id, self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and len(self) == len(other) and all(map(operator.is_, self, other))


# Cached, because a run interprets its spec many times.
@lru_cache(maxsize=32)
def _read_formula(formula: str, features: _Same, labels: tuple[str, ...]) -> FormulaGroups:
    shape = shape_of(formula)
    if shape.first.label not in labels:
        _fail(f'"{shape.first.label}" is not one of model.labels; {near(shape.first.label, list(labels))}')
    predicates = [
        parse_predicate(term.condition, features, "formula", where=WHERE, offset=term.column)
        if term.condition
        else None
        for term in (shape.first, shape.second)
    ]
    demanded = [_domains(predicate, features) for predicate in predicates]
    protected = [feature for feature in features if any(feature.name in each for each, _ in demanded)]
    label = shape.first.label
    if not re.fullmatch(r"[^'\"`()|=\s][^'\"`()|]*", label) or label != label.strip():
        label = "'" + label.replace("'", "''") + "'"
    groups, written = [], []
    for predicate, (domains, condition) in zip(predicates, demanded, strict=True):
        name = OVERALL if predicate is None else str(predicate)
        own = tuple(domains.get(feature.name) or domain_of(feature) for feature in protected)
        groups.append(Group(name, own, condition))
        written.append(f"P(Y={label})" if predicate is None else f"P(Y={label} | {predicate})")
    if groups[0].name == groups[1].name:
        _fail("both probabilities have the same condition; compare two different ones")
    names = tuple(feature.name for feature in protected)
    return FormulaGroups(shape, names, (groups[0], groups[1]), shape.written(*written))


def _domains(predicate: Predicate | None, features: Sequence[Feature]) -> tuple[dict[str, Domain], Predicate | None]:
    """Return the values of single features that a condition requires, and the rest of the condition."""
    if predicate is None:
        return {}, None
    allowed: dict[str, np.ndarray] = {}
    places = {feature.name: place for place, feature in enumerate(features)}
    rest = []
    for part in predicate.conjuncts:
        feature = features[places[part.names[0]]]
        whole = domain_of(feature)
        if len(part.names) > 1 or isinstance(feature, RealFeature) or whole.size > MOST_POINTS:
            rest.append(part)
            continue
        points = whole.low + np.arange(whole.size)
        values = np.zeros((whole.size, len(features)))
        values[:, places[feature.name]] = points
        allowed[feature.name] = part.holds(values) & allowed.get(feature.name, True)
        if not allowed[feature.name].any():
            _fail(f'no value of "{feature.name}" satisfies the condition {predicate}; widen it')
    domains = {
        name: points_domain((domain_of(features[places[name]]).low + np.flatnonzero(held)).tolist())
        for name, held in allowed.items()
    }
    return domains, Predicate.joined(rest) if rest else None
