"""Data sets as tables: census, credit and bank as the integer inputs of the example networks, and five as CSV files.

`parse_plain` and `parse_bank` read text, `encode_cells` turns rows into numbers; `encode` adds the files and the split
into training and held-out rows. A CSV file has a header and one row for each individual or comment, in the original
units or, with `--encoded`, as those integers; names of persons are never written. `schemas` declares the columns.
"""

from __future__ import annotations

import csv
import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairchain.datasets import schemas
from fairchain.datasets.fetch import FetchProgress, get
from fairchain.datasets.prepare import open_text, separator_of, split_rows
from fairchain.datasets.schemas import EncodedFeature, RawColumn
from fairchain.datasets.sources import SOURCES
from fairchain.errors import DataError
from fairchain.messages import EXISTS_ALREADY, NO_FOLDER, unknown
from fairchain.system.atomic_write import place

NamedCells = Mapping[str, str]

_HELD_OUT = 0.2
_SPLIT_SEED = 20
CELL_OF_DATA_SET = "data set {name!r}, row {number}, column {source!r}"
NO_ENCODING = "data set {name!r} has no encoding; expected one of {tasks}"
# The columns of compas that the literature uses; the file also contains names, birthdays and case numbers.
COMPAS_HEADER = (
    *("sex", "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"),
    *("c_charge_degree", "two_year_recid"),
)
Cells = Sequence[object]
UNKNOWN_CODE_IN_COLUMN = "data set {name!r}, column {column!r}: {row!r} is not a known code"


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
DATA_TABLES = (*TASKS, "compas", "toxicity")


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


def write_table(
    name: str,
    path: str | Path,
    *,
    encoded: bool = False,
    cache: Path | str | None = None,
    file: Path | str | Sequence[Path | str] | None = None,
    progress: FetchProgress | None = None,
    force: bool = False,
) -> int:
    """Write a data set as one CSV file, downloaded first if needed; return the number of rows.

    Parameters
    ----------
    name
        census (the rows of the training file, then those of the test file), credit, bank, compas or toxicity.
    path
        The file to write, atomically; an existing one is kept unless `force` is true.
    encoded
        Whether to write the integer inputs of the example network, with the names in its spec, and the label; census,
        credit, bank.
    cache, file, progress
        As for `get`.
    force
        Whether to overwrite the file.
    """
    path = Path(path)
    if name not in DATA_TABLES:
        raise DataError(unknown("table", name, tuple(DATA_TABLES if name in SOURCES else SOURCES)))
    if encoded and name not in TASKS:
        raise no_encoding(name)
    if path.is_dir() or not path.parent.is_dir():
        raise DataError(NO_FOLDER.format(path=path))
    if path.exists() and not force:
        raise DataError(EXISTS_ALREADY.format(path=path))
    header, rows = data_set_table(name, get(name, cache=cache, file=file, progress=progress), encoded=encoded)
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    place({path: text.getvalue().encode()})
    return len(rows)


def data_set_table(name: str, paths: Sequence[Path], *, encoded: bool = False) -> tuple[list[str], list[Cells]]:
    """Return the header and the rows of a data set's table, read from its files."""
    if name == "compas":
        rows = split_rows(lines_of(paths[0]), ",")
        found = next(rows, [])
        # Some columns occur twice in the file; the first one is used.
        places = [found.index(column) if column in found else -1 for column in COMPAS_HEADER]
        if -1 in places:
            raise DataError(f"data set 'compas': its header lacks {COMPAS_HEADER[places.index(-1)]}")
        return list(COMPAS_HEADER), [[row[place] for place in places] for row in rows]
    if name == "toxicity":
        header, *comments = csv.reader(lines_of(paths[0]))
        return header, list(comments)
    task = TASKS[name]
    parsed = [row for part in read_parts(name, paths) for row in part]
    labels = [task.labels[label_of(name, number, row, task)] for number, row in enumerate(parsed, 1)]
    cells: Sequence[Cells]
    if encoded:
        data = encode_cells(name, parsed, held_out(len(parsed), share=0.0))
        header, cells = [feature.name for feature in data.features], data.x.astype(int).tolist()
    else:
        columns = {column.source: column for column in task.columns}
        header = [*schemas.CENSUS_HEADER[:-1]] if name == "census" else list(columns)
        codes = columns if name == "credit" else {}
        cells = [[_cell(name, row, column, codes.get(column)) for column in header] for row in parsed]
    return [*header, task.label_column], [[*row, label] for row, label in zip(cells, labels, strict=True)]


def _cell(name: str, row: NamedCells, column: str, coded: schemas.RawColumn | None) -> str:
    """Return a cell unchanged, or the meaning of a code such as A11."""
    if column not in row:
        raise DataError(f"data set {name!r}: a row has no column {column!r}")
    if coded is None or coded.feature.values is None:
        return row[column]
    try:
        return coded.feature.values[coded.code(row[column])]
    except KeyError:
        raise DataError(UNKNOWN_CODE_IN_COLUMN.format(name=name, column=column, row=row[column])) from None
