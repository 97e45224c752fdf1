"""Data sets as plain CSV tables with a header: one row for each individual or comment, in the original units.

`--encoded` gives the integer inputs of the example networks instead. Names of persons are never written.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from fairchain.datasets import schemas
from fairchain.datasets.encode import (
    TASKS,
    NamedCells,
    encode_cells,
    held_out,
    label_of,
    lines_of,
    no_encoding,
    read_parts,
)
from fairchain.datasets.fetch import FetchProgress, get
from fairchain.datasets.layout import split_rows
from fairchain.datasets.sources import SOURCES
from fairchain.errors import DataError
from fairchain.messages import EXISTS_ALREADY, NO_FOLDER, unknown
from fairchain.system.atomic_write import place

# The columns of compas that the literature uses; the file also contains names, birthdays and case numbers.
COMPAS_HEADER = (
    *("sex", "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"),
    *("c_charge_degree", "two_year_recid"),
)
DATA_TABLES = (*TASKS, "compas", "toxicity")

Cells = Sequence[object]
UNKNOWN_CODE_IN_COLUMN = "data set {name!r}, column {column!r}: {row!r} is not a known code"


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
