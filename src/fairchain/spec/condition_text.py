"""The text of a condition or expression: its tokens, and the Python text that is parsed instead.

Names and quoted values become Python identifiers, so that `ast.parse` can read the text. Operators of other languages
are refused, and the message names the operator to write. `conditions` interprets the syntax tree for the features of a
spec.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NoReturn

from fairchain.errors import SpecError
from fairchain.messages import in_a_line

Language = Literal["given", "formula", "expression"]
MOST_CHARACTERS = 10_000
KEYWORDS = ("and", "or", "not", "in")
# Operators of other languages, and their replacements.
FOREIGN = {
    "=": "==", "===": "==", "<>": "!=", "=<": "<=", "=>": ">=", "≤": "<=", "≥": ">=", "≠": "!=",
    "&": "and", "&&": "and", "|": "or", "||": "or", "!": "not", "~": "not",
}  # fmt: skip
NO_ARITHMETIC = "arithmetic is not supported here: compare features with numbers or with each other"
# Quoted values, numbers, names, operators; any other character is a separate token.
_WORDS = re.compile(
    r"""(?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`)|(?P<open>['"`])"""
    r"|(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?P<after>[^\W\d][\w.-]*|_[\w.-]*)?"
    # Vowel signs of many scripts are marks, which \w does not match.
    r"|(?P<name>[^\W\d](?:[\w.-]|[^\x00-\x7f])*)"
    r"|(?P<sign>===|==|!=|<>|<=|>=|=<|=>|&&|\|\||[<>=≤≥≠&|!~])|(?P<other>\S)"
)


class ConditionError(Exception):
    """A problem at a column of the text."""

    def __init__(self, column: int, message: str) -> None:
        super().__init__(message)
        self.column = column


@contextmanager
def messages_at(where: str, text: str, offset: int = 0) -> Iterator[None]:
    """Turn a problem at a column into an error that names the key and the column."""
    if len(text) > MOST_CHARACTERS:
        raise SpecError(f"{where}: {len(text)} characters are more than {MOST_CHARACTERS}; write it shorter")
    try:
        yield
    except ConditionError as problem:
        raise SpecError(f"{where}: column {problem.column + offset}: {in_a_line(problem)}") from None


@dataclass(frozen=True)
class Word:
    """A name, number or quoted value of the text; `code` replaces it in the Python text."""

    kind: str
    text: str
    code: str
    column: int
    shown: str


class ConditionText:
    """A text split into tokens and parsed as a Python expression; names of `features` may look like keywords."""

    def __init__(self, text: str, language: Language, features: Container[str]) -> None:
        self._text, self._language, self._features = text, language, features
        self._columns: list[int] = []
        self.words = {word.code: word for word in self._read()}

    def _read(self) -> Iterator[Word]:
        """Yield the tokens, and build the Python text with the column of each of its characters."""
        code, end, after_operand, before = "", 0, False, ""
        for found in _WORDS.finditer(self._text):
            column = found.start() + 1
            code += " " * (found.start() > end)
            self._columns += [end + 1] * (len(code) - len(self._columns))
            if found["quoted"] or found["name"] or found["number"]:
                word = self._word(found, column, len(code))
                if word.kind == "keyword":
                    code += word.text
                elif after_operand:
                    remedy = "; put a name with blanks in backticks" if word.kind == before == "name" else ""
                    fail_at(
                        column, f'found "{short(word.shown)}" where a comparison, "and" or "or" was expected{remedy}'
                    )
                else:
                    code += f" {word.code} "
                    yield word
                after_operand, before = word.kind != "keyword", word.kind
            else:
                code += self._sign(found, column)
                after_operand = False
            self._columns += [column] * (len(code) - len(self._columns))
            end = found.end()
        self._columns.append(len(self._text) + 1)
        self._code = code

    def _word(self, found: re.Match[str], column: int, place: int) -> Word:
        shown, code = found[0], f"w{place}"
        if quoted := found["quoted"]:
            inner = quoted[1:-1].replace(2 * quoted[0], quoted[0])
            return Word("name" if quoted[0] == "`" else "text", inner, code, column, shown)
        if found["number"]:
            if found["after"]:
                fail_at(column, f'"{short(shown)}" is not a number; put a name that begins like one in backticks')
            return Word("number", shown, code, column, shown)
        name = shown
        if name in KEYWORDS or (self._language == "expression" and name in ("if", "else")):
            return Word("keyword", name, name, column, name)
        if name.lower() in KEYWORDS and name not in self._features:
            fail_at(column, f'found "{name}", write "{name.lower()}"')
        return Word("name", name, code, column, name)

    def tree(self) -> ast.expr:
        """Parse the Python text."""
        try:
            return ast.parse(self._code.strip(), mode="eval").body
        except SyntaxError as error:
            # At the end of the text Python's offset is 0.
            offset = error.offset - 1 + len(self._code) - len(self._code.lstrip()) if error.offset else len(self._code)
            column = self._columns[min(offset, len(self._columns) - 1)]
            at = self._text[column - 1 :].split()
            found_here = f'cannot be read from "{short(at[0])}" on' if at else "ends where more was expected"
            if self._language == "expression":
                fail_at(column, f"the expression {found_here}; write for example max(age, years + 16)")
            fail_at(
                column, f"the condition {found_here}; write comparisons such as age >= 18, joined with and, or, not"
            )
        except (RecursionError, MemoryError, ValueError):
            fail_at(1, "the condition is nested too deeply; use fewer parentheses")

    def column(self, node: ast.AST) -> int:
        """Return the column of the text at which a node begins."""
        start = len(self._code) - len(self._code.lstrip())
        return self._columns[min(getattr(node, "col_offset", 0) + start, len(self._columns) - 1)]

    def _sign(self, found: re.Match[str], column: int) -> str:
        """Return an operator in Python's notation; refuse those of other languages and characters without a meaning."""
        text = found[0]
        if found["open"]:
            fail_at(column, f"found {text} without a closing quote; close the quotes")
        if text == "=" and self._language == "formula":
            return "=="
        if text in FOREIGN:
            fail_at(column, f'found "{text}", write "{FOREIGN[text]}"' + (" to compare" if text == "=" else ""))
        if text == "*" and self._language == "expression":
            return text
        if text in "*/%^":
            reason = "the operators are +, - and *" if self._language == "expression" else NO_ARITHMETIC
            fail_at(column, f'found "{text}", but {reason}')
        if not found["sign"] and text not in "()[],+-":
            fail_at(column, f'found "{text}", which has no meaning here; put a name with such characters in backticks')
        return text


def fail_at(column: int, message: str) -> NoReturn:
    """Raise the error of a column."""
    raise ConditionError(column, message)


def written_value(value: str | int) -> str:
    """Return a value of a category in its canonical form."""
    return str(value) if isinstance(value, int) else _quoted(value, "'")


def written_name(name: str) -> str:
    """Return a name in its canonical form, in backticks if it needs them."""
    plain = _WORDS.fullmatch(name)
    return name if plain and plain["name"] and name.lower() not in KEYWORDS else _quoted(name, "`")


def _quoted(text: str, quote: str) -> str:
    return quote + text.replace(quote, 2 * quote) + quote


def short(text: str, most: int = 60) -> str:
    """Return a text for a message, truncated if it is long."""
    return text if len(text) <= most else text[: most - 3] + "..."
