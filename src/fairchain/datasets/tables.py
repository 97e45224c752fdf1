"""Data sets as plain CSV tables with a header: one row for each person or comment, in the user's own units.

`--encoded` gives the integers that the example networks take instead. Names of persons are never written.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path

from fairchain.datasets import schemas
from fairchain.datasets.encode import TASKS, Row, encode_rows, held_out, label_of, lines_of, read_parts
from fairchain.datasets.fetch import Progress, get
from fairchain.datasets.layout import split_rows
from fairchain.datasets.sources import SOURCES
from fairchain.errors import DataError
from fairchain.system.atomic_write import place

# What the field uses of compas; the file also holds names, birthdays and case numbers.
COMPAS_HEADER = (
    *("sex", "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"),
    *("c_charge_degree", "two_year_recid"),
)
TABLES = (*TASKS, "compas", "toxicity")

Cells = Sequence[object]


def write_table(
    name: str,
    path: str | Path,
    *,
    encoded: bool = False,
    cache: Path | str | None = None,
    file: Path | str | Sequence[Path | str] | None = None,
    progress: Progress | None = None,
    force: bool = False,
) -> int:
    """Write a data set as one CSV file, fetched first if need be; returns the number of rows.

    Parameters
    ----------
    name
        census (the rows of the training file, then those of the test file), credit, bank, compas or toxicity.
    path
        The file to write, in one step; one that is there already stays unless `force` is true.
    encoded
        The integer inputs of the example network, under the names in its spec, and the label; census, credit, bank.
    cache, file, progress
        As for `get`.
    force
        Overwrite.
    """
    path = Path(path)
    if name not in TABLES:
        known = f"{', '.join(TABLES[:-1])} and {TABLES[-1]}" if name in SOURCES else ", ".join(SOURCES)
        raise DataError(f"there is no table {name!r}; there is {known}")
    if encoded and name not in TASKS:
        raise DataError(f"data set {name!r} has no encoding; encoded are {', '.join(TASKS)}")
    if path.is_dir() or not path.parent.is_dir():
        raise DataError(f"{path}: cannot be written; name a file in a folder that exists")
    if path.exists() and not force:
        raise DataError(f"{path}: exists already; give another name, or --force to overwrite it")
    header, rows = table_of(name, get(name, cache=cache, file=file, progress=progress), encoded=encoded)
    _write(path, header, rows)
    return len(rows)


def table_of(name: str, paths: Sequence[Path], *, encoded: bool = False) -> tuple[list[str], list[Cells]]:
    """The header and the rows of a data set's table, read from its files."""
    if name == "compas":
        return _compas(lines_of(paths[0]))
    if name == "toxicity":
        header, *comments = csv.reader(lines_of(paths[0]))
        return header, list(comments)
    rows = [row for part in read_parts(name, paths) for row in part]
    task = TASKS[name]
    labels = [task.labels[label_of(name, number, row, task)] for number, row in enumerate(rows, 1)]
    if encoded:
        data = encode_rows(name, rows, held_out(len(rows), share=0.0))
        names = [feature.name for feature in data.features]
        return [*names, task.label_column], _labelled(data.x.astype(int).tolist(), labels)
    if name == "credit":
        header = [column.source for column in schemas.CREDIT]
        cells: list[Cells] = [[_readable(column, row) for column in schemas.CREDIT] for row in rows]
    else:
        header = [*schemas.CENSUS_HEADER[:-1]] if name == "census" else [column.source for column in schemas.BANK]
        cells = [[_cell(name, row, column) for column in header] for row in rows]
    return [*header, task.label_column], _labelled(cells, labels)


def _labelled(cells: Sequence[Cells], labels: Sequence[str]) -> list[Cells]:
    return [[*row, label] for row, label in zip(cells, labels, strict=True)]


def _cell(name: str, row: Row, column: str) -> str:
    if column not in row:
        raise DataError(f"data set {name!r}: a row has no column {column!r}")
    return row[column]


def _readable(column: schemas.RawColumn, row: Row) -> str:
    """A code such as A11 as what it means; numbers stay as they are."""
    cell = _cell("credit", row, column.source)
    if column.feature.values is None:
        return cell
    try:
        return column.feature.values[column.code(cell)]
    except KeyError:
        raise DataError(f"data set 'credit', column {column.source!r}: {cell!r} is no known code") from None


def _compas(lines: Iterable[str]) -> tuple[list[str], list[Cells]]:
    rows = split_rows(lines, ",")
    header = next(rows, [])
    # Some columns stand twice in the file; the first is the one that is meant.
    places = [header.index(column) if column in header else -1 for column in COMPAS_HEADER]
    if -1 in places:
        raise DataError(f"data set 'compas': its header lacks {COMPAS_HEADER[places.index(-1)]}")
    return list(COMPAS_HEADER), [[row[place] for place in places] for row in rows]


def _write(path: Path, header: Sequence[str], rows: Sequence[Cells]) -> None:
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    place({path: text.getvalue().encode()})
