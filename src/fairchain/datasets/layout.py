"""Checks of a user's own file: whether it has the layout that a data set needs.

Only the layout is checked (columns, header, type), by the first rows: a user's own file may be newer, shorter or
cleaned, and then has another checksum.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from fairchain.datasets.sources import ArchiveMember, DataSource
from fairchain.errors import DataError

PARQUET = b"PAR1"
_LOOKED_AT = 100
HEADER_LACKS = "its header lacks {missing}"
WRONG_SHAPE = "its shape is {shape} instead of (words, {columns})"
LINE_NOT_WORD = "line {number} is not a word"
NOT_IN_CACHE = "data set {name!r}: file not found: {path}"


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Open a text file, compressed or not (detected by its first bytes, because users rename files)."""
    with path.open("rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
    opener = gzip.open if zipped else open
    with opener(path, "rt", encoding="utf-8", newline="") as stream:
        yield stream


def split_rows(lines: Iterable[str], separator: str | None) -> Iterator[list[str]]:
    """Yield rows of stripped cells; blank lines and lines that start with '|' (census remarks) are not rows."""
    kept = (line for line in lines if line.strip() and not line.startswith("|"))
    if separator is None:
        yield from (line.split() for line in kept)
        return
    # Comments of the toxicity table contain unbalanced quotes, so in tab-separated text a quote is an ordinary
    # character.
    if separator == "\t":
        reader = csv.reader(kept, delimiter=separator, quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(kept, delimiter=separator, skipinitialspace=True)
    for row in reader:
        yield [cell.strip() for cell in row]


def separator_of(header: str) -> str:
    """Return the separator of a CSV header: the bank data circulate with commas and with semicolons."""
    return ";" if header.count(";") > header.count(",") else ","


def check_layout(source: DataSource, member: ArchiveMember, path: Path) -> None:
    """Raise a DataError if a file does not have the layout of a member of a data set."""
    if not path.is_file():
        raise DataError(NOT_IN_CACHE.format(name=source.name, path=path))
    try:
        problem = {"table": _table_problem, "npy": _npy_problem, "words": _words_problem}[member.layout](member, path)
    except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
        problem = f"it cannot be read ({error})"
    if problem:
        raise DataError(f"data set {source.name!r}: {path} does not look like {member.filename}: {problem}")


def _table_problem(member: ArchiveMember, path: Path) -> str | None:
    with open_text(path) as stream:
        head = list(itertools.islice(stream, _LOOKED_AT))
    if not head:
        return "it is empty"
    separator = separator_of(head[0]) if member.required and member.separator == "," else member.separator
    rows = list(split_rows(head, separator))
    missing = [name for name in member.required if not rows or name not in rows[0]]
    if missing:
        return HEADER_LACKS.format(missing=", ".join(missing))
    expected = member.columns or len(rows[0])
    body = rows[1:] if member.required else rows
    if not body:
        return "it has no rows"
    # At the end of the checked part, a quoted cell with a line break may be split.
    whole = body[:-1] if len(head) == _LOOKED_AT else body
    for number, row in enumerate(whole, 1):
        if len(row) != expected:
            return f"row {number} has {len(row)} columns instead of {expected}"
    return None


def _npy_problem(member: ArchiveMember, path: Path) -> str | None:
    import numpy as np

    try:
        shape = np.lib.format.open_memmap(path, mode="r").shape
    except Exception as error:  # a header is parsed as a Python literal, and an invalid one can raise any exception
        return f"it is not a .npy file of numbers ({type(error).__name__})"
    if len(shape) == 2 and shape[1] == member.columns:
        return None
    return WRONG_SHAPE.format(shape=shape, columns=member.columns)


def _words_problem(_: ArchiveMember, path: Path) -> str | None:
    with path.open("rb") as raw:
        if raw.read(4) == PARQUET:
            return None
    with path.open(encoding="utf-8", newline="\n") as stream:
        head = [line.rstrip("\n") for line in itertools.islice(stream, _LOOKED_AT)]
    if not head:
        return "it is empty"
    return next(
        (LINE_NOT_WORD.format(number=number) for number, word in enumerate(head, 1) if len(word.split()) != 1), None
    )
