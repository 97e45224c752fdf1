"""CSV and TSV files, also gzipped, as columns of texts.

The standard library's parser reads them: it says in which row something is wrong, where faster ones fill in what is
missing, and for tables of ordinary size it is done before a faster one is imported.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, cast

from fairchain.errors import DataError
from fairchain.messages import doubled, many, shown
from fairchain.tables.columns import PART, SEPARATOR, TextCells, parse_number

# Rows that are parsed together: more of them leave the processor's cache, and take twice the time.
BLOCK = 256
READ_AHEAD = 2**18
MOST_LINE = 2**24
BOM = b"\xef\xbb\xbf"
COMPRESSED = b"\x1f\x8b"
PARQUET = b"PAR1"
# The header decides which of these separates the cells of a .csv file; the first wins where several could.
CSV_SEPARATORS = (",", ";", "\t")
# What the parser of the standard library says, and what to do about it.
REMEDIES = {
    "unexpected end of data": "a quote is opened and never closed; close it, or double the quotes inside a cell",
    "expected after": "text follows a closing quote; put quotes around the whole cell and double those inside",
    "field larger": "a cell is longer than any value; is a quote opened and never closed?",
    "new-line character": "a carriage return stands inside the line; end lines with a line feed",
}


def read_delimited(path: Path, file_bytes: int, columns: int, cells: int) -> dict[str, TextCells]:
    """Every column of a file, by name, within these limits; a DataError says what is wrong with it otherwise."""
    compressed = path.suffix.lower() == ".gz"
    suffix = Path(path.stem).suffix.lower() if compressed else path.suffix.lower()
    with path.open("rb") as file:
        _check_start(path, file, compressed)
        stream = cast(IO[bytes], gzip.GzipFile(fileobj=file)) if compressed else file
        try:
            lines = _lines(path, stream, file_bytes)
            return _columns(path, lines, "\t" if suffix == ".tsv" else None, columns, cells)
        except (zlib.error, gzip.BadGzipFile, EOFError) as error:
            raise DataError(f"{path}: damaged or cut short ({error}); compress it again") from None


def _check_start(path: Path, file: IO[bytes], compressed: bool) -> None:
    start = file.read(4)
    file.seek(0)
    if not start:
        raise DataError(f"{path}: the file is empty; write a row with the names of the columns, then the rows")
    if start == PARQUET:
        raise DataError(f"{path}: this is a Parquet file; name it .parquet")
    if start.startswith(COMPRESSED) and not compressed:
        raise DataError(f"{path}: this file is compressed; name it {path.name}.gz")
    if compressed and not start.startswith(COMPRESSED):
        raise DataError(f"{path}: not a gzip file; compress it again, or name it without .gz")


def _lines(path: Path, stream: IO[bytes], most: int) -> Iterator[str]:
    """The lines of a file with their ends."""
    # Line feeds only: texts have other characters too that some take for the end of a line.
    return chain.from_iterable(io.StringIO(text, newline="\n") for text in _whole_lines(path, stream, most))


def _whole_lines(path: Path, stream: IO[bytes], most: int) -> Iterator[str]:
    """Blocks of whole lines. Their sum is limited: a small file can hold any number of them compressed."""
    size, lines, rest = 0, 0, b""
    while block := stream.read(READ_AHEAD):
        if not size:
            block = block.removeprefix(BOM)
        size += len(block)
        if size > most:
            raise DataError(
                f"{path}: holds more than {most:,} bytes; raise TableLimits.file_bytes if you trust the file"
            )
        if len(rest) > MOST_LINE:
            raise DataError(f"{path}: line {lines + 1} is longer than {MOST_LINE:,} bytes; this is no table of people")
        end = block.rfind(b"\n") + 1
        if end:
            whole, rest = rest + block[:end], block[end:]
            yield _decoded(path, whole, lines)
            lines += whole.count(b"\n")
        else:
            rest += block
    yield _decoded(path, rest, lines)


def _decoded(path: Path, block: bytes, lines_before: int) -> str:
    wrong, place = "", block.find(b"\0")
    if place >= 0:
        wrong = "holds a NUL byte"
    try:
        text = block.decode()
    except UnicodeDecodeError as error:
        wrong, place = "is not UTF-8 text", error.start
    if wrong:
        line = lines_before + block.count(b"\n", 0, place) + 1
        raise DataError(f"{path}: line {line:,} {wrong}; save the table as UTF-8 text")
    return text


def _columns(
    path: Path, lines: Iterator[str], separator: str | None, most_columns: int, most_cells: int
) -> dict[str, TextCells]:
    blank = 0
    for first in lines:
        if first.strip():
            break
        blank += 1
    else:
        raise DataError(f"{path}: the file is blank; write a row with the names of the columns, then the rows")
    # strict: a quote that is never closed would otherwise swallow the rest of the file.
    reader = csv.reader(
        chain([first], lines), delimiter=separator or _separator(first), skipinitialspace=True, strict=True
    )
    names = [name.strip() for name in _take(path, reader, 1, blank)[0]]
    _check_header(path, names, most_columns)
    packed: list[list[str]] = [[] for _ in names]
    count = 0
    while block := _take(path, reader, BLOCK, blank):
        block = [row for row in block if row]
        if set(map(len, block)) - {len(names)}:
            _refuse_ragged(path, names, block, count)
        for column, cells in zip(packed, zip(*block, strict=True), strict=bool(block)):
            column.append(SEPARATOR.join(cells))
        count += len(block)
        if count * len(names) > most_cells:
            raise DataError(
                f"{path}: more than {most_cells:,} cells; raise TableLimits.cells if there is memory for them"
            )
    return {name: TextCells(tuple(_joined(column)), count) for name, column in zip(names, packed, strict=True)}


def _take(path: Path, reader: Any, count: int, before: int) -> list[list[str]]:
    """Return the next rows, blank ones as empty lists, fewer at the end; `before` lines came before the reader's."""
    try:
        return list(islice(reader, count))
    except csv.Error as error:
        remedy = next((text for sign, text in REMEDIES.items() if sign in str(error)), str(error))
        raise DataError(f"{path}: line {before + reader.line_num:,}: {remedy}") from None


def _joined(parts: list[str]) -> Iterator[str]:
    for start in range(0, len(parts), PART // BLOCK):
        yield SEPARATOR.join(parts[start : start + PART // BLOCK])


def _separator(header: str) -> str:
    """What makes the most columns of the header."""
    return max(CSV_SEPARATORS, key=lambda separator: _width(header, separator))


def _width(header: str, separator: str) -> int:
    try:
        return len(next(csv.reader([header], delimiter=separator)))
    except csv.Error:
        return 0


def _check_header(path: Path, names: list[str], most: int) -> None:
    if len(names) > most:
        raise DataError(f"{path}: {len(names):,} columns are more than {most:,}; leave out those that no feature needs")
    advice = "the first row must name the columns"
    if all(parse_number(name) is not None for name in names):
        raise DataError(f"{path}: the first row holds numbers only, which looks like data; {advice}")
    if "" in names:
        raise DataError(
            f"{path}: column {names.index('') + 1} has no name; {advice}, "
            "and a column of row numbers needs a name too or is left out (pandas: to_csv(..., index=False))"
        )
    double = doubled(names)
    if double is not None:
        raise DataError(f"{path}: two columns are called {shown(double)}; {advice}, each by a name of its own")


def _refuse_ragged(path: Path, names: list[str], block: list[list[str]], before: int) -> None:
    place, row = next((place, row) for place, row in enumerate(block, 1) if len(row) != len(names))
    raise DataError(
        f"{path}: row {before + place:,} has {many(len(row), 'cell')} and the header {len(names):,}; "
        "put quotes around cells that hold a separator, and write an empty cell where a value is missing"
    )
