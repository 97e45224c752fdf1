"""CSV and TSV files, also gzipped, as columns of texts.

The parser of the standard library reads them: it reports the row of an error, while faster parsers fill in missing
cells, and for tables of ordinary size it finishes before a faster one is imported.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import IO, cast

from fairchain.errors import DataError
from fairchain.messages import doubled, many, shown
from fairchain.tables.columns import CELLS_AT_ONCE, SEPARATOR, TableLimits, TextCells, parse_number

# Number of rows that are parsed together: more would not fit in the processor's cache, and take twice the time.
ROWS_AT_ONCE = 256
READ_AHEAD = 2**18
MOST_LINE_CHARACTERS = 2**24
BOM = b"\xef\xbb\xbf"
COMPRESSED = b"\x1f\x8b"
PARQUET = b"PAR1"
WRITE_HEADER = "write a row with the names of the columns, then the rows"
# The header determines which of these separates the cells of a .csv file; of several possible ones the first is used.
CSV_SEPARATORS = (",", ";", "\t")
# Messages of the standard library's parser, and the remedies.
REMEDIES = {
    "unexpected end of data": "a quote is opened and never closed; close it, or double the quotes inside a cell",
    "expected after": "text follows a closing quote; put quotes around the whole cell and double those inside",
    "field larger": "a cell is longer than any value; is a quote opened and never closed?",
    "new-line character": "a carriage return is inside the line; end lines with a line feed",
}


def read_delimited(path: Path, limits: TableLimits) -> dict[str, TextCells]:
    """Return every column of a file, by name; raise a DataError that states what is wrong with it."""
    compressed = path.suffix.lower() == ".gz"
    suffix = Path(path.stem).suffix.lower() if compressed else path.suffix.lower()
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(0)
        if not start:
            raise DataError(f"{path}: the file is empty; {WRITE_HEADER}")
        if start == PARQUET:
            raise DataError(f"{path}: this is a Parquet file; name it .parquet")
        if start.startswith(COMPRESSED) and not compressed:
            raise DataError(f"{path}: this file is compressed; name it {path.name}.gz")
        if compressed and not start.startswith(COMPRESSED):
            raise DataError(f"{path}: not a gzip file; compress it again, or name it without .gz")
        stream = cast(IO[bytes], gzip.GzipFile(fileobj=file)) if compressed else file
        # Only line feeds: texts contain other characters that some programs treat as the end of a line.
        blocks = (io.StringIO(text, newline="\n") for text in _whole_lines(path, stream, limits))
        try:
            return _columns(path, chain.from_iterable(blocks), "\t" if suffix == ".tsv" else None, limits)
        except (zlib.error, gzip.BadGzipFile, EOFError) as error:
            raise DataError(f"{path}: damaged or truncated ({error}); compress it again") from None


def _whole_lines(path: Path, stream: IO[bytes], limits: TableLimits) -> Iterator[str]:
    """Yield blocks of whole lines, limited in total, because a small compressed file can contain any number."""
    size, lines, rest = 0, 0, b""
    while block := stream.read(READ_AHEAD):
        if not size:
            block = block.removeprefix(BOM)
        size += len(block)
        limits.check_bytes(str(path), size)
        if len(rest) > MOST_LINE_CHARACTERS:
            raise DataError(
                f"{path}: line {lines + 1} is longer than {MOST_LINE_CHARACTERS:,} bytes; is this the right file?"
            )
        end = block.rfind(b"\n") + 1
        if end:
            whole, rest = rest + block[:end], block[end:]
            yield _decoded(path, whole, lines)
            lines += whole.count(b"\n")
        else:
            rest += block
    yield _decoded(path, rest, lines)


def _decoded(path: Path, block: bytes, lines_before: int) -> str:
    wrong, place = "holds a NUL byte", block.find(b"\0")
    try:
        text = block.decode()
    except UnicodeDecodeError as error:
        wrong, place = "is not UTF-8 text", error.start
    if place >= 0:
        line = lines_before + block.count(b"\n", 0, place) + 1
        raise DataError(f"{path}: line {line:,} {wrong}; save the table as UTF-8 text")
    return text


def _columns(path: Path, lines: Iterator[str], separator: str | None, limits: TableLimits) -> dict[str, TextCells]:
    blank = 0
    for first in lines:
        if first.strip():
            break
        blank += 1
    else:
        raise DataError(f"{path}: the file is blank; {WRITE_HEADER}")
    if separator is None:
        separator = max(CSV_SEPARATORS, key=lambda each: _width(first, each))
    # strict: otherwise a quote that is never closed would swallow the rest of the file.
    reader = csv.reader(chain([first], lines), delimiter=separator, skipinitialspace=True, strict=True)

    def take(count: int) -> list[list[str]]:
        """Return the next rows, blank ones as empty lists, fewer at the end."""
        try:
            return list(islice(reader, count))
        except csv.Error as error:
            remedy = next((text for sign, text in REMEDIES.items() if sign in str(error)), str(error))
            raise DataError(f"{path}: line {blank + reader.line_num:,}: {remedy}") from None

    names = [name.strip() for name in take(1)[0]]
    _check_header(path, names, limits)
    packed: list[list[str]] = [[] for _ in names]
    count = 0
    while block := take(ROWS_AT_ONCE):
        block = [row for row in block if row]
        if set(map(len, block)) - {len(names)}:
            place, row = next((place, row) for place, row in enumerate(block, 1) if len(row) != len(names))
            raise DataError(
                f"{path}: row {count + place:,} has {many(len(row), 'cell')} and the header {len(names):,}; "
                "put quotes around cells that contain a separator, and write an empty cell where a value is missing"
            )
        for column, cells in zip(packed, zip(*block, strict=True), strict=bool(block)):
            column.append(SEPARATOR.join(cells))
        count += len(block)
        limits.check_cells(str(path), count * len(names))
    several = CELLS_AT_ONCE // ROWS_AT_ONCE
    return {
        name: TextCells(
            tuple(SEPARATOR.join(column[start : start + several]) for start in range(0, len(column), several)), count
        )
        for name, column in zip(names, packed, strict=True)
    }


def _width(header: str, separator: str) -> int:
    """Return the number of columns that a separator gives for a header."""
    try:
        return len(next(csv.reader([header], delimiter=separator)))
    except csv.Error:
        return 0


def _check_header(path: Path, names: list[str], limits: TableLimits) -> None:
    limits.check_columns(str(path), len(names))
    advice = "the first row must name the columns"
    if all(parse_number(name) is not None for name in names):
        raise DataError(f"{path}: the first row has only numbers, which looks like data; {advice}")
    if "" in names:
        raise DataError(
            f"{path}: column {names.index('') + 1} has no name; {advice}, "
            "and a column of row numbers needs a name too or is left out (pandas: to_csv(..., index=False))"
        )
    double = doubled(names)
    if double is not None:
        raise DataError(f"{path}: two columns are called {shown(double)}; {advice}, with different names")
