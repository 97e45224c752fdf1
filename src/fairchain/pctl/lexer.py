"""The tokens of a formula: operators, numbers, labels in quotes and signs, each with its column in the text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from fairchain.errors import QueryError

QUERY_OPERATORS = ("P", "S", "R", "T", "X", "F", "G", "U", "W", "true", "false", "gap", "over")
# Operators of other languages, and those to write instead.
FOREIGN_OPERATORS = {
    "&&": '"&"',
    "||": '"|"',
    "/\\": '"&"',
    "\\/": '"|"',
    "∧": '"&"',
    "∨": '"|"',
    "~": '"!"',
    "¬": '"!"',
    "->": '"=>"',
    "→": '"=>"',
    "<->": '"<=>"',
    "↔": '"<=>"',
    "=<": '"<="',
    "≤": '"<="',
    "≥": '">="',
    "==": '"=" or "<=>"',
    "!=": '"!" before what must not hold',
    "◇": '"F"',
    "□": '"G"',
    "○": '"X"',
    "'": 'labels in double quotes, like "Start"',
    "“": 'labels in straight double quotes, like "Start"',
    "”": 'labels in straight double quotes, like "Start"',
}

_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
# The pattern is unambiguous: many backslashes must not take exponential time.
_LABEL = re.compile(r'"((?:\\["\\]|\\(?!["\\])|[^"\\])*)"')
_SYMBOL = re.compile(r"<=>|<->|=\?|&&|\|\||/\\|\\/|->|==|!=|>=|<=|=>|=<|[<>=!&|()\[\]{},~¬∧∨→↔≤≥◇□○'“”]")
_ESCAPE = re.compile(r'\\(["\\])')


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


def beginning(text: str) -> str:
    """Return the beginning of a long text, on one line."""
    line = "".join(letter if letter.isprintable() else "?" for letter in text[:61])
    return line if len(line) <= 60 else line[:57] + "..."


def quoted_label(label: str) -> str:
    r"""Return a label in the syntax of a formula: in double quotes, with `"` and `\` after a backslash."""
    return '"' + label.replace("\\", "\\\\").replace('"', '\\"') + '"'


def tokens_of(text: str) -> list[FormulaToken]:
    """Return all tokens of a formula, and one for its end."""
    tokens: list[FormulaToken] = []
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        tokens.append(_token(text, place))
        place += len(tokens[-1].shown)
    return [*tokens, FormulaToken("end", "", len(text) + 1, "")]


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
