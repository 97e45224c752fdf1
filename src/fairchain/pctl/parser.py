"""Parser of formulas: tokens, each with its column in the text, and recursive descent.

    state   true  false  "label"  !phi  phi & psi  phi | psi  phi <=> psi  phi => psi  (phi)
            P>=p [ path ]   S>=p [ phi ]   R<=r [ F phi ]
    path    X phi   F phi   G phi   phi U psi   phi W psi; after F, G, U: <=k <k =k >=k >k [j,k], after W: <=k <k
    query   P=? [ path ]   S=? [ phi ]   R=? [ F phi ]   gap=? [ path ] over "group", "group=*"   or any state formula

Operators bind in the order given, `!` most; F, G and X take everything up to the bracket.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NoReturn

from fairchain.errors import QueryError
from fairchain.pctl.formula import (
    EVER,
    Bound,
    Eventually,
    ExpectedSteps,
    Formula,
    GapQuery,
    Joined,
    Label,
    LongRun,
    Next,
    Not,
    Path,
    Probability,
    Truth,
    Until,
    Window,
    beginning,
)

QUERY_OPERATORS = ("P", "S", "R", "T", "X", "F", "G", "U", "W", "true", "false", "gap", "over")
# Operators of other languages, and those to write instead.
FOREIGN_OPERATORS = {
    **dict.fromkeys(("&&", "/\\", "∧"), '"&"'),
    **dict.fromkeys(("||", "\\/", "∨"), '"|"'),
    **dict.fromkeys(("~", "¬"), '"!"'),
    **dict.fromkeys(("->", "→"), '"=>"'),
    **dict.fromkeys(("<->", "↔"), '"<=>"'),
    **dict.fromkeys(("=<", "≤"), '"<="'),
    "≥": '">="',
    "==": '"=" or "<=>"',
    "!=": '"!" before what must not hold',
    "◇": '"F"',
    "□": '"G"',
    "○": '"X"',
    "'": 'labels in double quotes, like "Start"',
    **dict.fromkeys("“”", 'labels in straight double quotes, like "Start"'),
}

_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
# The pattern is unambiguous: many backslashes must not take exponential time.
_LABEL = re.compile(r'"((?:\\["\\]|\\(?!["\\])|[^"\\])*)"')
_SYMBOL = re.compile(r"<=>|<->|=\?|&&|\|\||/\\|\\/|->|==|!=|>=|<=|=>|=<|[<>=!&|()\[\]{},~¬∧∨→↔≤≥◇□○'“”]")
_ESCAPE = re.compile(r'\\(["\\])')

MOST_QUERY_CHARACTERS = 10_000
MOST_QUERY_DEPTH = 100
MOST_STEP_BOUND = 1_000_000

MEASURES = ("P", "S", "R", "T")
# From the strongest to the weakest binding.
CONNECTIVES = ("&", "|", "<=>", "=>")
BOUND_COMPARISONS = (">=", ">", "<=", "<")
# Words of other languages, and their equivalents here.
WORDS_OF_OTHERS = {
    "and": "&",
    "or": "|",
    "not": "!",
    "implies": "=>",
    "iff": "<=>",
    "next": "X",
    **dict.fromkeys(("finally", "eventually", "future"), "F"),
    **dict.fromkeys(("globally", "always"), "G"),
    "until": "U",
    "LRA": "S",
    "Pr": "P",
    "for": "over",
    "fair": "gap",
}
CHOICES = ("Pmax", "Pmin", "Rmax", "Rmin", "Smax", "Smin", "Tmax", "Tmin")


@dataclass(frozen=True)
class FormulaToken:
    """A token: `kind` is word, number, label, end, or the sign itself.

    `text` is the token without quotes, `shown` the text in the formula from `column` on.
    """

    kind: str
    text: str
    column: int
    shown: str


def fail_query(column: int, message: str) -> NoReturn:
    """Raise a QueryError that points at a column."""
    raise QueryError(f"column {column}: {message}")


def _token(text: str, start: int) -> FormulaToken:
    column = start + 1
    if label := _LABEL.match(text, start):
        return FormulaToken("label", _ESCAPE.sub(r"\1", label[1]), column, label[0])
    if text[start] == '"':
        fail_query(column, 'found " without a closing quote; close the quotes')
    if number := _NUMBER.match(text, start):
        return FormulaToken("number", number[0], column, number[0])
    if word := _WORD.match(text, start):
        return FormulaToken("word", word[0], column, word[0])
    if symbol := _SYMBOL.match(text, start):
        if symbol[0] in FOREIGN_OPERATORS:
            fail_query(column, f"found {symbol[0]}, write {FOREIGN_OPERATORS[symbol[0]]}")
        return FormulaToken(symbol[0], symbol[0], column, symbol[0])
    fail_query(column, f'found "{beginning(text[start])}", which has no meaning here')


def parse(text: str) -> Formula:
    """Parse a formula.

    >>> print(parse('P=?[F<=3("a"|"b")]'))
    P=? [ F<=3 ("a" | "b") ]
    >>> print(parse('P>=0.5 [ "a" U P<0.1 [ X "b" ] ]'))
    P>=0.5 [ "a" U P<0.1 [ X "b" ] ]

    Raises
    ------
    QueryError
        With the column in the text, what was found there and what to write.
    """
    if len(text) > MOST_QUERY_CHARACTERS:
        raise QueryError(f"{len(text)} characters are more than {MOST_QUERY_CHARACTERS}; write a shorter query")
    tokens: list[FormulaToken] = []
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        tokens.append(_token(text, place))
        place += len(tokens[-1].shown)
    return _Parser([*tokens, FormulaToken("end", "", len(text) + 1, "")]).query()


class _Parser:
    """Recursive descent parser, one method for each level of the language."""

    def __init__(self, tokens: Sequence[FormulaToken]) -> None:
        self._tokens, self._place, self._depth = tokens, 0, 0

    @property
    def _next(self) -> FormulaToken:
        return self._tokens[self._place]

    def _take(self) -> FormulaToken:
        token = self._next
        self._place += token.kind != "end"
        return token

    def _is(self, *kinds: str) -> bool:
        return self._next.kind in kinds

    def _is_word(self, *words: str) -> bool:
        return self._next.kind == "word" and self._next.text in words

    def _need(self, kind: str) -> FormulaToken:
        if not self._is(kind):
            self._unexpected(f'"{kind}"')
        return self._take()

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MOST_QUERY_DEPTH:
            fail_query(self._next.column, f"more than {MOST_QUERY_DEPTH} levels of nesting; write a simpler query")

    def query(self) -> Formula:
        """Parse the whole text."""
        formula = self._gap() if self._is_word("gap") else self._state(outermost=True)
        if not self._is("end"):
            if formula.is_number:
                self._unexpected("the end: a formula with =? cannot be part of another,")
            self._unexpected("the end, or one of & | => <=>")
        return formula

    def _state(self, *, outermost: bool = False) -> Formula:
        parts = [self._single(may_ask=outermost)]
        signs: list[str] = []
        while self._is(*CONNECTIVES) and not parts[0].is_number:
            signs.append(self._take().kind)
            parts.append(self._single())
        for sign in CONNECTIVES:
            runs = [[parts[0]]]
            looser: list[str] = []
            for found, part in zip(signs, parts[1:], strict=True):
                if found == sign:
                    runs[-1].append(part)
                else:
                    runs.append([part])
                    looser.append(found)
            parts = [run[0] if len(run) == 1 else Joined(sign, tuple(run)) for run in runs]
            signs = looser
        return parts[0]

    def _single(self, *, may_ask: bool = False) -> Formula:
        """Parse an operand; only a whole query may have `=?`."""
        token = self._next
        if token.kind == "!":
            self._take()
            self._deeper()
            part = self._single()
            self._depth -= 1
            return Not(part)
        if token.kind == "(":
            self._take()
            self._deeper()
            inner = self._state()
            self._depth -= 1
            self._need(")")
            return inner
        if token.kind == "label":
            return Label(self._take().text, token.column)
        if self._is_word("true", "false"):
            return Truth(self._take().text == "true")
        if self._is_word(*MEASURES):
            return self._measure(may_ask=may_ask)
        if self._is_word("X", "F", "G"):
            fail_query(token.column, f"{token.text} belongs inside the brackets of P, like P=? [ {token.text} ... ]")
        if self._is_word("gap"):
            fail_query(token.column, "gap is a whole query and cannot be part of another")
        self._unexpected('a label in quotes, true, false, "!", "(" or one of P S R')

    def _measure(self, *, may_ask: bool) -> Formula:
        token = self._take()
        if token.text in ("R", "T") and self._is("{"):
            self._take()
            if not (self._is("label") and self._next.text == "steps"):
                self._unexpected('"steps" in quotes: steps are the only thing counted here,')
            self._take()
            self._need("}")
        bound = self._bound(token.text, may_ask=may_ask, most=math.inf if token.text in ("R", "T") else 1.0)
        self._need("[")
        self._deeper()
        formula: Formula
        if token.text == "P":
            formula = Probability(bound, self._path())
        elif token.text == "S":
            formula = LongRun(bound, self._state())
        else:
            if not self._is_word("F"):
                self._unexpected('"F": write R=? [ F phi ] for the expected number of steps until phi,')
            self._take()
            if self._is(*BOUND_COMPARISONS, "=", "["):
                fail_query(self._next.column, "the expected number of steps is until phi holds at all, without a bound")
            formula = ExpectedSteps(bound, self._state())
        self._depth -= 1
        self._need("]")
        return formula

    def _gap(self) -> Formula:
        column = self._take().column
        bound = self._bound("gap", may_ask=True, most=1.0)
        self._need("[")
        self._deeper()
        path = self._path()
        self._need("]")
        if not self._is_word("over"):
            self._unexpected('"over" and the labels of the groups, like over "sex=*",')
        groups: list[str] = []
        while not groups or self._is(","):
            self._take()
            if not self._is("label"):
                self._unexpected('the label of a group in quotes, like "sex=Female" or "sex=*",')
            groups.append(self._take().text)
        return GapQuery(bound, path, tuple(groups), column)

    def _bound(self, name: str, *, may_ask: bool, most: float) -> Bound | None:
        sign = self._next
        if sign.kind == "=?":
            if not may_ask:
                fail_query(sign.column, f"{name}=? is a number and cannot be part of another formula; write {name}>=p")
            self._take()
            return None
        if sign.kind == "=>":
            fail_query(sign.column, 'found "=>", write ">="')
        if sign.kind == "=":
            fail_query(sign.column, f'found "=", write {name}=? for the number, or {name}>=p to compare')
        if sign.kind not in BOUND_COMPARISONS:
            self._unexpected(f'"=?" or one of {" ".join(BOUND_COMPARISONS)} after {name}')
        self._take()
        if not self._is("number"):
            self._unexpected(f"a number after {name}{sign.kind}")
        number = self._take()
        value = float(number.text)
        if not (value <= most and math.isfinite(value)):
            wanted = "a probability from 0 to 1" if most == 1 else "a finite number"
            fail_query(number.column, f"found {beginning(number.text)}, expected {wanted}")
        return Bound(sign.kind, value)

    def _path(self) -> Path:
        if self._is_word("X"):
            column = self._take().column
            if self._is(*BOUND_COMPARISONS, "=", "["):
                fail_query(column, "X is exactly one step and takes no bound; write F=k for k steps")
            return Next(self._inner())
        if self._is_word("F", "G"):
            always = self._take().text == "G"
            window = self._window()
            return Eventually(self._inner(), window, always)
        left = self._state()
        if not self._is_word("U", "W"):
            self._unexpected('"U" or "W" and another formula (or X, F or G at the beginning)')
        weak = self._take().text == "W"
        column = self._next.column
        window = self._window()
        if weak and window.low:
            fail_query(column, "W takes an upper bound only, like W<=5")
        return Until(left, self._inner(), window, weak)

    def _inner(self) -> Formula:
        """Parse the state formula of a path operator."""
        if self._is_word("X", "F", "G"):
            token = self._next
            fail_query(
                token.column,
                f"{token.text} inside another path formula needs its own P, like P>=1 [ {token.text} ... ]",
            )
        return self._state()

    def _window(self) -> Window:
        sign = self._next
        if sign.kind == "[":
            self._take()
            low = self._whole()
            self._need(",")
            column = self._next.column
            high = self._whole()
            self._need("]")
            if high < low:
                fail_query(column, f"the window ends at {high}, before it begins at {low}")
            return Window(low, high)
        if sign.kind not in (*BOUND_COMPARISONS, "="):
            return EVER
        self._take()
        steps = self._whole()
        if sign.kind == "<" and not steps:
            fail_query(sign.column, 'no time is before step 0; write "<=0" or more')
        low = {"=": steps, ">=": steps, ">": steps + 1}.get(sign.kind, 0)
        return Window(low, {"=": steps, "<=": steps, "<": steps - 1}.get(sign.kind))

    def _whole(self) -> int:
        if not self._is("number"):
            self._unexpected("a whole number of steps")
        token = self._take()
        if not (token.text.isascii() and token.text.isdigit()):
            fail_query(token.column, f"found {beginning(token.text)}, expected a whole number of steps")
        if len(token.text) > 20 or int(token.text) > MOST_STEP_BOUND:
            fail_query(token.column, f"found {beginning(token.text)}, expected at most {MOST_STEP_BOUND} steps")
        return int(token.text)

    def _unexpected(self, wanted: str) -> NoReturn:
        token = self._next
        wanted = wanted.removesuffix(",")
        if token.kind == "end":
            fail_query(token.column, f"the formula ends where {wanted} was expected")
        word, column = token.text, token.column
        if token.kind == "word" and word not in QUERY_OPERATORS:
            if word in CHOICES:
                fail_query(column, f"found {word}, but a chain has no choices to optimise; write {word[0]}=?")
            meant = WORDS_OF_OTHERS.get(word) or WORDS_OF_OTHERS.get(word.lower())
            if meant:
                fail_query(column, f"found {word}, write {meant}")
            near = get_close_matches(word, QUERY_OPERATORS, n=1)
            near = near or [known for known in QUERY_OPERATORS if known.lower() == word.lower()]
            hint = f"did you mean {near[0]}?" if near else f'write a label in quotes: "{beginning(word)}"'
            fail_query(column, f'found "{beginning(word)}", expected {wanted}; {hint}')
        shown = beginning(token.shown) if token.kind in ("label", "word") else f'"{beginning(token.shown)}"'
        fail_query(token.column, f"found {shown}, expected {wanted}")
