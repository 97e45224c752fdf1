"""The words of a condition: names, numbers, quoted values and signs, each with its column in the text."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import NoReturn

from fairchain.errors import SpecError

KEYWORDS = ("and", "or", "not", "in")
# What people write in other languages, and what it is here.
FOREIGN = {
    "=": '"==" to compare',
    "===": '"=="',
    "<>": '"!="',
    "=<": '"<="',
    "=>": '">="',
    "≤": '"<="',
    "≥": '">="',
    "≠": '"!="',
    "&": '"and"',
    "&&": '"and"',
    "|": '"or"',
    "||": '"or"',
    "!": '"not"',
    "~": '"not"',
}
ARITHMETIC = "+-*/%^"
NO_ARITHMETIC = "there is no arithmetic here: compare features with numbers or with each other"

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SYMBOL = re.compile(r"===|==|!=|<>|<=|>=|=<|=>|&&|\|\||[<>=≤≥≠&|!~()\[\],]")


@dataclass(frozen=True)
class Token:
    """A word: `kind` is name, number, text, end, or the keyword or sign itself.

    `text` is what it says, without quotes, `shown` what stands in the condition from `column` on.
    """

    kind: str
    text: str
    column: int
    shown: str


def fail(column: int, message: str) -> NoReturn:
    """Raise a SpecError that points at a column."""
    raise SpecError(f"property.given: column {column}: {message}")


def tokens_of(text: str) -> list[Token]:
    """All words of a condition, and one for its end."""
    tokens: list[Token] = []
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        tokens.append(_token(text, place))
        place += len(tokens[-1].shown)
    return [*tokens, Token("end", "", len(text) + 1, "")]


def is_plain(name: str) -> bool:
    """Whether a name can stand without backticks."""
    begins = name[:1].isalpha() or name[:1] == "_"
    return begins and name not in KEYWORDS and all(map(_in_word, name))


def quoted(text: str, quote: str) -> str:
    """The text in quotes; a quote inside is written twice."""
    return quote + text.replace(quote, 2 * quote) + quote


def _token(text: str, start: int) -> Token:
    letter, column = text[start], start + 1
    if letter in "'\"`":
        return _quotation(text, start)
    if number := _NUMBER.match(text, start):
        return _number(text, number[0], column)
    word = _word_at(text, start)
    if word and (letter.isalpha() or letter == "_"):
        return Token(word if word in KEYWORDS else "name", word, column, word)
    if symbol := _SYMBOL.match(text, start):
        if symbol[0] in FOREIGN:
            fail(column, f'found "{symbol[0]}", write {FOREIGN[symbol[0]]}')
        return Token(symbol[0], symbol[0], column, symbol[0])
    if letter in ARITHMETIC:
        fail(column, f'found "{letter}", but {NO_ARITHMETIC}')
    fail(column, f'found "{letter}", which has no meaning here; a name with such characters stands in backticks')


def _number(text: str, number: str, column: int) -> Token:
    after = _word_at(text, column - 1 + len(number))
    if after.startswith("-"):
        fail(column + len(number), f'found "-", but {NO_ARITHMETIC}')
    if after:
        word = f"{number}{after}"[:60]
        fail(column, f'"{word}" is no number; a name that begins like one stands in backticks')
    return Token("number", number, column, number)


def _in_word(letter: str) -> bool:
    # Vowel signs of many scripts are marks, not letters.
    return letter.isalnum() or letter in "_-." or unicodedata.category(letter).startswith("M")


def _word_at(text: str, start: int) -> str:
    end = start
    while end < len(text) and _in_word(text[end]):
        end += 1
    return text[start:end]


def _quotation(text: str, start: int) -> Token:
    quote, end = text[start], start + 1
    while True:
        end = text.find(quote, end)
        if end < 0:
            fail(start + 1, f"found {quote} without its end; close the quotes")
        if text[end + 1 : end + 2] != quote:
            break
        end += 2
    inner = text[start + 1 : end].replace(2 * quote, quote)
    return Token("name" if quote == "`" else "text", inner, start + 1, text[start : end + 1])
