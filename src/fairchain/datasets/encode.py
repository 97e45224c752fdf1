"""Encoding of census, credit and bank: from raw rows to the integer inputs of the example networks.

`parse_plain` and `parse_bank` read text, `encode_cells` turns rows into numbers; both are pure.
`encode` adds the files and the split into training and held-out rows. The columns are declared in `schemas`.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairchain.datasets import schemas
from fairchain.datasets.fetch import FetchProgress, get
from fairchain.datasets.layout import open_text, separator_of, split_rows
from fairchain.datasets.schemas import EncodedFeature, RawColumn
from fairchain.errors import DataError

__all__ = ["Encoded", "EncodedFeature", "encode", "encode_cells", "held_out", "parse_bank", "parse_plain"]

NamedCells = Mapping[str, str]

_HELD_OUT = 0.2
_SPLIT_SEED = 20
CELL_OF_DATA_SET = "data set {name!r}, row {number}, column {source!r}"
NO_ENCODING = "data set {name!r} has no encoding; expected one of {tasks}"


@dataclass(frozen=True)
class Encoded:
    """A data set in the encoding of a network.

    `x` has one row for each individual and one column per feature, `y` the index of the label in `labels`; `split` is
    True for held-out rows, which no training may use.
    """

    name: str
    features: tuple[EncodedFeature, ...]
    x: NDArray[np.float32]
    y: NDArray[np.int64]
    labels: tuple[str, ...]
    split: NDArray[np.bool_]


@dataclass(frozen=True)
class Task:
    """A prediction task: columns, label names, and the index of each cell of the label's column."""

    columns: tuple[RawColumn, ...]
    labels: tuple[str, ...]
    label_column: str
    label_codes: Mapping[str, int]


TASKS = {
    "census": Task(
        schemas.CENSUS,
        ("<=50K", ">50K"),
        "income",
        # The official test file writes a dot after each label.
        {"<=50K": 0, ">50K": 1, "<=50K.": 0, ">50K.": 1},
    ),
    "credit": Task(schemas.CREDIT, ("bad", "good"), "risk", {"2": 0, "1": 1}),
    "bank": Task(schemas.BANK, ("no", "yes"), "deposit", {"no": 0, "yes": 1}),
}


def encode(name: str, cache: Path | str | None = None, progress: FetchProgress | None = None) -> Encoded:
    """Return a data set in the encoding of its example network, downloaded first if needed."""
    if name not in TASKS:
        raise no_encoding(name)
    parts = read_parts(name, get(name, cache=cache, progress=progress))
    rows = [row for part in parts for row in part]
    # The census data have two files; the second is the official test set.
    split = np.repeat([False, True], [len(part) for part in parts]) if len(parts) > 1 else held_out(len(rows))
    return encode_cells(name, rows, split)


def no_encoding(name: str) -> DataError:
    """Return the error about a data set that no example network takes."""
    return DataError(NO_ENCODING.format(name=name, tasks=", ".join(TASKS)))


def read_parts(name: str, paths: Sequence[Path]) -> list[list[NamedCells]]:
    """Return the raw rows in the files of census, credit or bank; census has two parts."""
    if name == "census":
        return [parse_plain(lines_of(path), schemas.CENSUS_HEADER, ",") for path in paths]
    if name == "credit":
        return [parse_plain(lines_of(paths[0]), schemas.CREDIT_HEADER, None)]
    return [parse_bank([lines_of(path) for path in paths])]


def held_out(count: int, share: float = _HELD_OUT, seed: int = _SPLIT_SEED) -> NDArray[np.bool_]:
    """Return a fixed random choice of rows, the same on every machine and with every version of numpy.

    >>> int(held_out(1000).sum())
    200
    """
    digests = [hashlib.sha256(f"{seed}:{row}".encode()).digest() for row in range(count)]
    chosen = sorted(range(count), key=digests.__getitem__)[: round(share * count)]
    split = np.zeros(count, dtype=np.bool_)
    split[chosen] = True
    return split


def parse_plain(lines: Iterable[str], header: Sequence[str], separator: str | None) -> list[NamedCells]:
    """Return the rows of a table without a header, with fairchain's column names."""
    rows: list[NamedCells] = []
    for number, cells in enumerate(split_rows(lines, separator), 1):
        if len(cells) != len(header):
            raise DataError(f"row {number} has {len(cells)} columns instead of {len(header)}")
        rows.append(dict(zip(header, cells, strict=True)))
    return rows


def parse_bank(parts: Sequence[Iterable[str]]) -> list[NamedCells]:
    """Return the rows of the bank data: parts in the order of their index column, or the original file unchanged.

    The original calls the label 'y' and has no index; the parts call it 'deposit'.
    """
    rows: list[NamedCells] = []
    for part in parts:
        lines = list(part)
        cells = list(split_rows(lines, separator_of(lines[0]) if lines else ","))
        header = ["deposit" if name == "y" else name for name in cells[0]] if cells else []
        rows += [dict(zip(header, row, strict=False)) for row in cells[1:]]
    return sorted(rows, key=lambda row: int(row[""])) if rows and "" in rows[0] else rows


def encode_cells(name: str, rows: Sequence[NamedCells], split: NDArray[np.bool_]) -> Encoded:
    """Return rows of named cells as the integers of the data set's schema, clipped into the declared ranges."""
    task = TASKS[name]
    if not rows:
        raise DataError(f"data set {name!r} has no rows")
    x = np.empty((len(rows), len(task.columns)), dtype=np.float32)
    for position, column in enumerate(task.columns):
        codes = [_code(name, number, row, column) for number, row in enumerate(rows, 1)]
        x[:, position] = np.clip(codes, column.feature.low, column.feature.high)
    return Encoded(
        name=name,
        features=tuple(column.feature for column in task.columns),
        x=x,
        y=np.array([label_of(name, number, row, task) for number, row in enumerate(rows, 1)], dtype=np.int64),
        labels=task.labels,
        split=split,
    )


def _code(name: str, number: int, row: NamedCells, column: RawColumn) -> int:
    try:
        return column.code(row[column.source])
    except (KeyError, ValueError) as error:
        found = repr(row[column.source]) if column.source in row else "nothing"
        expected = f"one of {', '.join(column.feature.values)}" if column.feature.values else "a whole number"
        where = CELL_OF_DATA_SET.format(name=name, number=number, source=column.source)
        raise DataError(f"{where}: found {found}, expected {expected}") from error


def label_of(name: str, number: int, row: NamedCells, task: Task) -> int:
    """Return the index of a row's label; `number` is the row's, for the message."""
    found = row.get(task.label_column, "")
    if found not in task.label_codes:
        known = ", ".join(task.label_codes)
        raise DataError(f"data set {name!r}, row {number}: label {found!r} is not one of {known}")
    return task.label_codes[found]


def lines_of(path: Path) -> list[str]:
    """Return the lines of a text file, compressed or not."""
    try:
        with open_text(path) as stream:
            return stream.readlines()
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
