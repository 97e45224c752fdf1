"""Columns of a table, their cells as texts and as numbers, and the limits of a table.

Text remains text until a feature needs numbers, so that a category "007" or "1e3" is unchanged. A missing cell is the
empty text or a NaN. In the canonical form an integer has no fraction: 1.0 in a frame is the text "1".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError

MORE_THAN_BYTES = (
    "{where}: more than {file_bytes:,} bytes{unpacked}; raise TableLimits.file_bytes if you trust the file"
)
# Number of rows that are processed together: few enough that their cells fit in the processor's cache.
CELLS_AT_ONCE = 2048
# Number of cells of a part that show whether most cells differ from each other.
_LOOK = 512
# Separator of the cells of a part; no cell may contain it.
SEPARATOR = "\0"

_NUMBER = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?inf(?:inity)?", re.ASCII | re.IGNORECASE
)
_WHOLE = re.compile(r"(-?[0-9]+)\.0+", re.ASCII)
_WHOLE_BYTES = b"0123456789+- " + SEPARATOR.encode()


@dataclass(frozen=True)
class TableLimits:
    """Limits of a table: bytes, columns, cells and memory.

    `file_bytes` limits the size of the file, and separately of its unpacked contents; `cells` are rows times columns.
    `memory_bytes` (on systems that can limit it) and `seconds` limit the unpacking of a Parquet file.
    """

    file_bytes: int = 2_000_000_000
    columns: int = 10_000
    cells: int = 500_000_000
    memory_bytes: int = 8 * 2**30
    seconds: int = 600

    def check_bytes(self, where: str, count: int, unpacked: str = " unpacked") -> None:
        """Raise a DataError if there are too many bytes.

        Lengths of texts must be summed in 64 bits: in 32 bits, four gigabytes overflow to 0.
        """
        if count > self.file_bytes:
            raise DataError(MORE_THAN_BYTES.format(where=where, file_bytes=self.file_bytes, unpacked=unpacked))

    def check_columns(self, where: str, count: int) -> None:
        """Raise a DataError if there are too many columns."""
        if count > self.columns:
            raise DataError(f"{where}: {count:,} columns are more than {self.columns:,}; leave out those not needed")

    def check_cells(self, where: str, count: int) -> None:
        """Raise a DataError if there are too many cells."""
        if count > self.cells:
            raise DataError(
                f"{where}: more than {self.cells:,} cells; leave out columns that no feature needs, "
                "or raise TableLimits.cells if there is memory for them"
            )


class Piece(NamedTuple):
    """Some consecutive rows of a column, from row `start` (0-based): cell i is `levels[codes[i]]`, "" is missing."""

    start: int
    codes: NDArray[np.intp]
    levels: list[str]


@dataclass(frozen=True)
class TextCells:
    """A column of texts. Each part packs up to `CELLS_AT_ONCE` cells in one string, which takes a tenth of the memory.

    `merged` names two cells of different types with the same text, such as 1 and "1", if any; `booleans` is whether all
    non-missing cells are True or False, and not these texts.
    """

    parts: tuple[str, ...]
    count: int
    merged: str = ""
    booleans: bool = False

    @property
    def spellings(self) -> list[str]:
        """The distinct cells, including surrounding blanks."""
        return list(dict.fromkeys(cell for part in self.parts for cell in part.split(SEPARATOR)))

    def pieces(self) -> Iterator[Piece]:
        """Yield the column in pieces, without surrounding blanks."""
        start = 0
        for part in self.parts:
            piece = _piece(start, part.split(SEPARATOR))
            yield piece
            start += len(piece.codes)


@dataclass(frozen=True, eq=False)
class CodedCells:
    """A column of texts as indices of its distinct texts: cell i is `levels[codes[i]]`, "" is missing.

    `categories` are all values that the column's type allows, in its order; None if the type states none. `booleans` as
    in `TextCells`.
    """

    codes: NDArray[np.intp]
    levels: tuple[str, ...]
    categories: tuple[str, ...] | None = None
    booleans: bool = False

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.codes)

    @property
    def parts(self) -> tuple[str, ...]:
        """The cells in the form of `TextCells`."""
        cells = np.array(self.levels, object)[self.codes].tolist()
        return tuple(
            SEPARATOR.join(cells[start : start + CELLS_AT_ONCE]) for start in range(0, len(cells), CELLS_AT_ONCE)
        )

    @property
    def spellings(self) -> list[str]:
        """The distinct cells, including surrounding blanks."""
        return [self.levels[code] for code in dict.fromkeys(self.codes.tolist())]

    @property
    def has_variants(self) -> bool:
        """Whether two cells may be one value: they differ only in surrounding blanks, or like 1 and 1.0."""
        texts = [plain_text(level) for level in self._piece.levels if level]
        return len(set(texts)) < len(texts)

    def pieces(self) -> Iterator[Piece]:
        """Yield the column as one piece, without surrounding blanks and without texts that do not occur."""
        yield self._piece

    @cached_property
    def _piece(self) -> Piece:
        occur = np.bincount(self.codes, minlength=len(self.levels)) > 0
        levels = [level.strip() for level, occurs in zip(self.levels, occur.tolist(), strict=True) if occurs]
        renumbered = not occur[: len(levels)].all()
        return Piece(0, (np.cumsum(occur) - 1)[self.codes] if renumbered else self.codes, levels)


@dataclass(frozen=True, eq=False)
class NumberCells:
    """A column of numbers in its original type: a float32 0.1 is the text "0.1", a large integer is exact."""

    values: NDArray[Any]

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.values)

    def pieces(self) -> Iterator[Piece]:
        """Yield the column as one piece, its numbers in canonical text."""
        levels, codes = np.unique(self.values, return_inverse=True)
        yield Piece(0, codes.reshape(-1), [number_text(level) for level in levels])


Column = TextCells | CodedCells | NumberCells


class ParsedNumbers(NamedTuple):
    """The numbers of a column, NaN if a cell is missing or not a number.

    `bad` counts the cells that are neither; the first of them is `cell`, in row `row` from 0.
    """

    values: NDArray[np.float64]
    bad: int = 0
    row: int = 0
    cell: str = ""


class Index(dict[str, int]):
    """An index of texts: every new one gets the next number."""

    def __missing__(self, text: str) -> int:
        self[text] = number = len(self)
        return number

    def codes(self, texts: Sequence[str] | NDArray[np.object_]) -> NDArray[np.intp]:
        """Return the number of each text."""
        try:
            # Numbers below 256, as in most columns, are faster to collect as bytes.
            few = np.frombuffer(bytearray(map(self.__getitem__, texts)), np.uint8)
        except ValueError:
            return np.fromiter(map(self.__getitem__, texts), np.intp, len(texts))
        return few.astype(np.intp)


def number_text(value: Any) -> str:
    """Return a number as canonical text: integers without a fraction, others with the fewest digits that identify them.

    >>> [number_text(value) for value in (1.0, -0.0, 0.1, np.float32(0.1), np.int64(7), float("nan"))]
    ['1', '0', '0.1', '0.1', '7', '']
    """
    if isinstance(value, Integral):
        return str(int(value))
    if math.isnan(value):
        return ""
    return str(int(value)) if math.isfinite(value) and value == int(value) else str(value)


def plain_text(text: str) -> str:
    """Return a text in canonical form: `1.0` becomes `1`; `007` and other texts are unchanged."""
    match = _WHOLE.fullmatch(text)
    return ("0" if match[1] == "-0" else match[1]) if match else text


def parse_number(text: str) -> float | None:
    """Return the number of a text, including infinite ones; None for other texts such as `1_000`, `nan` and `1,5`."""
    return float(text) if _NUMBER.fullmatch(text) else None


def numbers_in(column: Column, na_values: Sequence[str]) -> ParsedNumbers:
    """Return the cells of a column as numbers; empty cells and those in `na_values` are missing."""
    missing = {"", *na_values, *map(plain_text, na_values)}
    stand_ins = [number for number in map(parse_number, missing) if number is not None]
    if isinstance(column, NumberCells):
        values = column.values.astype(np.float64)
        if stand_ins:
            values[np.isin(values, stand_ins)] = np.nan
        return ParsedNumbers(values)
    values = np.empty(column.count, np.float64)
    bad, row, cell = 0, 0, ""
    for piece in _quick_pieces(column, values) if isinstance(column, TextCells) and not stand_ins else column.pieces():
        known = [level not in missing and plain_text(level) not in missing for level in piece.levels]
        parsed = [parse_number(level) if use else None for level, use in zip(piece.levels, known, strict=True)]
        levels = np.array([np.nan if number is None else number for number in parsed])
        values[piece.start : piece.start + len(piece.codes)] = levels[piece.codes]
        wrong = (np.array(known) & np.isnan(levels))[piece.codes]
        if not bad and wrong.any():
            row, cell = piece.start + int(np.argmax(wrong)), piece.levels[piece.codes[np.argmax(wrong)]]
        bad += int(wrong.sum())
    return ParsedNumbers(values, bad, row, cell)


def _quick_pieces(column: TextCells, values: NDArray[np.float64]) -> Iterator[Piece]:
    """Write the parts that are plain numbers into `values`, and yield the others."""
    start = 0
    for part in column.parts:
        cells = part.split(SEPARATOR)
        numbers = _quick(part, cells)
        if numbers is None:
            yield _piece(start, cells)
        else:
            values[start : start + len(cells)] = numbers
        start += len(cells)


def _quick(part: str, cells: list[str]) -> NDArray[np.float64] | None:
    """Return the numbers of a part; None if it has other cells too, or if looking up each distinct text is faster."""
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


def _piece(start: int, cells: list[str]) -> Piece:
    index = Index()
    codes = index.codes(cells)
    return Piece(start, codes, [level.strip() for level in index])
