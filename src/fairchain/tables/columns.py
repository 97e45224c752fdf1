"""A column as it was found, and its cells as texts and as numbers.

Text stays text until a feature asks for numbers, so that a category "007" or "1e3" is what it is. A missing cell is the
empty text or a NaN. In one canonical form a whole number has no fraction: 1.0 in a frame is the text "1".
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Rows that are looked at together: few enough that their cells stay in the processor's cache.
PART = 2048
# Cells of a part by which one sees whether most differ from each other.
_LOOK = 512
# Joins the cells of a part; no cell may hold it.
SEPARATOR = "\0"

_NUMBER = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?inf(?:inity)?", re.ASCII | re.IGNORECASE
)
_WHOLE = re.compile(r"(-?[0-9]+)\.0+", re.ASCII)
_WHOLE_BYTES = b"0123456789+- " + SEPARATOR.encode()


@dataclass(frozen=True)
class Piece:
    """Some consecutive rows of a column, from row `start` (0-based): cell i is `levels[codes[i]]`, "" is missing."""

    start: int
    codes: NDArray[np.intp]
    levels: list[str]


@dataclass(frozen=True)
class TextCells:
    """A column of texts. Each part packs up to `PART` cells in one string, a tenth of the memory of as many strings."""

    parts: tuple[str, ...]
    count: int

    def pieces(self) -> Iterator[Piece]:
        """The column piece by piece, without the blanks around its cells."""
        start = 0
        for part in self.parts:
            piece = _piece(start, part.split(SEPARATOR))
            yield piece
            start += len(piece.codes)


@dataclass(frozen=True, eq=False)
class NumberCells:
    """A column of numbers in the type it came in: a float32 0.1 is the text "0.1", a large whole number is exact."""

    values: NDArray[Any]

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.values)

    def pieces(self) -> Iterator[Piece]:
        """The column as one piece, its numbers in canonical text."""
        levels, codes = np.unique(self.values, return_inverse=True)
        yield Piece(0, codes.reshape(-1), [number_text(level) for level in levels])


Column = TextCells | NumberCells


@dataclass(frozen=True, eq=False)
class ParsedNumbers:
    """The numbers of a column, NaN where a cell is missing or no number, and which cell was no number first."""

    values: NDArray[np.float64]
    bad: int = 0
    row: int = 0
    cell: str = ""

    def with_wrong(self, piece: Piece, wrong: NDArray[np.bool_]) -> ParsedNumbers:
        """The same with more rows that hold no number."""
        if not wrong.any():
            return self
        first = int(np.argmax(wrong))
        place = (self.row, self.cell) if self.bad else (piece.start + first, piece.levels[piece.codes[first]])
        return ParsedNumbers(self.values, self.bad + int(wrong.sum()), *place)


class _Index(dict[str, int]):
    """Gives every new text the next number."""

    def __missing__(self, text: str) -> int:
        self[text] = number = len(self)
        return number


def number_text(value: Any) -> str:
    """A number in canonical text: whole ones without a fraction, others with the fewest digits that tell them apart.

    >>> [number_text(value) for value in (1.0, -0.0, 0.1, np.float32(0.1), np.int64(7), float("nan"))]
    ['1', '0', '0.1', '0.1', '7', '']
    """
    if isinstance(value, Integral):
        return str(int(value))
    if math.isnan(value):
        return ""
    return str(int(value)) if math.isfinite(value) and value == int(value) else str(value)


def plain_text(text: str) -> str:
    """A text in canonical form: `1.0` is `1`; `007` and everything else stay as they are."""
    match = _WHOLE.fullmatch(text)
    return ("0" if match[1] == "-0" else match[1]) if match else text


def parse_number(text: str) -> float | None:
    """The number that a text is, infinite ones too; None if it is none. `1_000`, `nan` and `1,5` are none."""
    return float(text) if _NUMBER.fullmatch(text) else None


def numbers_in(column: Column, na_values: Sequence[str]) -> ParsedNumbers:
    """The cells of a column as numbers; an empty one and those in `na_values` are missing."""
    missing = {"", *na_values, *map(plain_text, na_values)}
    stand_ins = [number for number in map(parse_number, missing) if number is not None]
    if isinstance(column, NumberCells):
        values = column.values.astype(np.float64)
        values[np.isin(values, stand_ins)] = np.nan
        return ParsedNumbers(values)
    parsed = ParsedNumbers(np.empty(column.count, np.float64))
    start = 0
    for part in column.parts:
        cells = part.split(SEPARATOR)
        numbers = None if stand_ins else _quick(part, cells)
        if numbers is None:
            piece = _piece(start, cells)
            numbers, wrong = _careful(piece, missing)
            parsed = parsed.with_wrong(piece, wrong)
        parsed.values[start : start + len(cells)] = numbers
        start += len(cells)
    return parsed


def _quick(part: str, cells: list[str]) -> NDArray[np.float64] | None:
    """The numbers of a part that holds nothing else; None if that is not so, or if looking up each once is quicker."""
    few = len(set(cells[:_LOOK])) < len(cells[:_LOOK]) // 2
    if few or not part.isascii():
        return None
    others = part.encode().translate(None, _WHOLE_BYTES)
    try:
        if not others:
            return np.fromiter(map(int, cells), np.int64, len(cells)).astype(np.float64)
        if not others.translate(None, b".eE"):
            return np.fromiter(map(float, cells), np.float64, len(cells))
    except (ValueError, OverflowError):
        pass
    return None


def _careful(piece: Piece, missing: Collection[str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The numbers of a piece, NaN where there is none, and in which rows this is not because the cell is missing."""
    known = [level not in missing and plain_text(level) not in missing for level in piece.levels]
    found = [parse_number(level) if use else None for level, use in zip(piece.levels, known, strict=True)]
    numbers = np.array([np.nan if number is None else number for number in found])
    return numbers[piece.codes], (np.array(known) & np.isnan(numbers))[piece.codes]


def _piece(start: int, cells: list[str]) -> Piece:
    index = _Index()
    codes = np.fromiter(map(index.__getitem__, cells), np.intp, len(cells))
    return Piece(start, codes, [level.strip() for level in index])
