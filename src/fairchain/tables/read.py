"""Reading of tables: a file, a pandas or polars frame, or a mapping of columns.

Nothing is interpreted here: the feature determines which cells are missing, and which are numbers. A table is untrusted
input: files are read within limits, and nothing in them is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError
from fairchain.messages import FILE_NOT_FOUND, doubled, shown, unknown
from fairchain.spec.population_keys import NA_VALUES
from fairchain.tables.columns import CodedCells, Column, TableLimits, numbers_in, parse_number
from fairchain.tables.frames import column_of, frame_package
from fairchain.tables.parquet import read_parquet

DELIMITED = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
TABLE_FORMATS = "a .csv, .tsv, .csv.gz or .parquet file, a pandas or polars frame, or a mapping of names to columns"
NO_COLUMN = "{source}: {problem}{advice}"
HEADER_ADVICE = "; if the first row contains data, write one above it that names the columns"


@dataclass(frozen=True, eq=False)
class RawTable:
    """A table with uninterpreted cells: columns with these `names`, and `count` rows.

    `source` is its name in messages: the path, or "the pandas frame". `load` returns a column by name, or the reason
    why it cannot be used; columns of a frame are converted when they are first used. `frame` is the original frame or
    mapping of columns, None for a file. `repeats` has the number of copies of each row, if only distinct rows were
    read (`grouped`).
    """

    source: str
    names: tuple[str, ...]
    count: int
    load: Callable[[str], Column | str] = field(repr=False)
    frame: Any = field(default=None, repr=False)
    repeats: NDArray[np.int64] | None = field(default=None, repr=False)
    path: Path | None = None

    def cells(self, name: str, remedy: str = "") -> Column:
        """Return a column in its stored form; `remedy` is the advice if there is no column with this name."""
        if name not in self.names:
            advice = f"; {remedy}" if remedy else ""
            if any(parse_number(other) is not None for other in self.names):
                advice += HEADER_ADVICE
            raise DataError(
                NO_COLUMN.format(source=self.source, problem=unknown("column", name, self.names), advice=advice)
            )
        column = self.load(name)
        if isinstance(column, str):
            raise DataError(column)
        return column

    def texts(self, name: str) -> NDArray[np.object_]:
        """Return a column as texts without surrounding blanks, integers without a fraction; None is missing."""
        cells = self.cells(name)
        texts = np.empty(cells.count, object)
        for piece in cells.pieces():
            levels = np.array([level or None for level in piece.levels], object)
            texts[piece.start : piece.start + len(piece.codes)] = levels[piece.codes]
        return texts

    def numeric(self, name: str, na_values: Sequence[str] = NA_VALUES) -> NDArray[np.float64] | None:
        """Return a column as numbers, NaN if missing or in `na_values`; None if another cell is not a number."""
        parsed = numbers_in(self.cells(name), na_values)
        return None if parsed.bad else parsed.values

    def categories(self, name: str) -> tuple[str, ...] | None:
        """Return all values that the type of a column allows, in its order; None if the type states none."""
        cells = self.cells(name)
        return cells.categories if isinstance(cells, CodedCells) else None

    def counts(self, name: str) -> dict[str, int]:
        """Return the number of rows with each text of a column, in order of appearance; missing cells are left out."""
        counts: dict[str, int] = {}
        for piece in self.cells(name).pieces():
            for level, count in zip(piece.levels, np.bincount(piece.codes), strict=True):
                if level:
                    counts[level] = counts.get(level, 0) + int(count)
        return counts


def read_table(source: Any, limits: TableLimits | None = None) -> RawTable:
    """Read a table of any supported type.

    Parameters
    ----------
    source
        Path of a `.csv`, `.tsv`, `.csv.gz` or `.parquet` file whose first row names the columns; a pandas or polars
        DataFrame; or a mapping of names to lists, arrays or series. The cells of a `.csv` file are separated by
        commas, or by semicolons or tabs if these divide its header into more columns.
    limits
        Limits of the table.

    Raises
    ------
    DataError
        One message with the source, the problem and the remedy.

    Examples
    --------
    >>> table = read_table({"age": [39, 50, None], "sex": ["Male", " Male", "Female"]})
    >>> table.count, table.names
    (3, ('age', 'sex'))
    >>> table.counts("sex")
    {'Male': 2, 'Female': 1}
    """
    limits = limits or TableLimits()
    if isinstance(source, RawTable):
        return source
    if isinstance(source, str | Path):
        return _read_file(Path(source), limits)
    package = frame_package(source, "DataFrame")
    if package == "pandas":
        return _from_frame("the pandas frame", source, source.columns, len(source), lambda i: source.iloc[:, i], limits)
    if package == "polars":
        return _from_frame("the polars frame", source, source.columns, source.height, source.to_series, limits)
    if frame_package(source, "LazyFrame"):
        raise DataError("the polars frame: it is lazy; pass the result of collect()")
    if not isinstance(source, Mapping):
        raise DataError(f"a table of type {type(source).__name__} cannot be read; give {TABLE_FORMATS}")
    counts = {}
    for name, values in source.items():
        try:
            counts[name] = len(values)
        except TypeError:  # also for an array without dimensions
            raise DataError(
                f"the table: column {shown(str(name))} is not a list, array or series; make it one"
            ) from None
    short, long = min(counts, key=counts.__getitem__, default=None), max(counts, key=counts.__getitem__, default=None)
    if counts and counts[short] < counts[long]:
        raise DataError(
            f"the table: column {shown(str(short))} has {counts[short]:,} rows and column {shown(str(long))} "
            f"{counts[long]:,}; all columns must be equally long"
        )
    names, count = list(source), counts[short] if counts else 0
    return _from_frame("the table", source, names, count, lambda i: source[names[i]], limits)


def _from_frame(
    source: str, frame: Any, names: Iterable[Any], count: int, series: Callable[[int], Any], limits: TableLimits
) -> RawTable:
    """Return a table whose columns, found by their place, are converted once, on first use."""
    texts = [str(name) for name in names]

    @cache
    def load(place: int) -> Column:
        return column_of(series(place), f"{source}: column {shown(texts[place].strip())}", limits)

    return replace(table_of(source, texts, count, load, limits), frame=frame)


def table_of(
    source: str, names: Sequence[str], count: int, load: Callable[[int], Column | str], limits: TableLimits
) -> RawTable:
    """Return a table; `load` returns the column at a place, or the reason why it cannot be used."""
    stripped = tuple(name.strip() for name in names)
    if not stripped or not count:
        raise DataError(f"{source}: no {'rows' if stripped else 'columns'}; a table needs at least one row")
    limits.check_columns(source, len(stripped))
    limits.check_cells(source, len(stripped) * count)
    for place, name in enumerate(stripped, 1):
        if "\0" in name:
            raise DataError(f"{source}: the name of column {place} contains a NUL character; rename it")
    if (double := doubled(stripped)) is not None:
        raise DataError(f"{source}: two columns are called {shown(double)}; rename one of them")
    places = {name: place for place, name in enumerate(stripped)}
    return RawTable(source, stripped, count, lambda name: load(places[name]))


def _read_file(path: Path, limits: TableLimits) -> RawTable:
    if path.is_dir():
        raise DataError(
            f"{path}: this is a folder; give {TABLE_FORMATS} (folders of Parquet files are read by verify, with a spec)"
        )
    suffix = "".join(path.suffixes[-2:]).lower() if path.suffix.lower() == ".gz" else path.suffix.lower()
    if suffix not in (*DELIMITED, ".parquet"):
        raise DataError(f'{path}: files that end in "{suffix}" are not read; give {TABLE_FORMATS}')
    found: Mapping[str, Column | str]
    try:
        if path.exists() and not path.is_file():
            raise DataError(f"{path}: not a plain file; give {TABLE_FORMATS}")
        limits.check_bytes(str(path), path.stat().st_size, "")
        if suffix == ".parquet":
            count, found = read_parquet(path, limits)
        else:
            from fairchain.tables.delimited import read_delimited

            found = texts = read_delimited(path, limits)
            count = next(iter(texts.values())).count
    except FileNotFoundError:
        raise DataError(FILE_NOT_FOUND.format(path=path, remedy=f"give {TABLE_FORMATS}")) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot be read ({reason}); give {TABLE_FORMATS}") from None
    return replace(table_of(str(path), list(found), count, list(found.values()).__getitem__, limits), path=path)
