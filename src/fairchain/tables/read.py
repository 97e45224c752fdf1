"""One way in for every kind of table: a file, a pandas or polars frame, or a mapping of columns.

Nothing is interpreted here: which cells are missing, and which are numbers, depends on who asks. A table is untrusted
input: files are read within limits, and nothing in them is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError
from fairchain.messages import doubled, near, shown
from fairchain.spec.schema import NA_VALUES
from fairchain.tables.columns import Column, NumberCells, numbers_in, parse_number
from fairchain.tables.delimited import read_delimited
from fairchain.tables.frames import column_of, package_of
from fairchain.tables.parquet_process import read_parquet

DELIMITED = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
READ = "a .csv, .tsv, .csv.gz or .parquet file, a pandas or polars frame, or a mapping of names to columns"


@dataclass(frozen=True)
class TableLimits:
    """How much a table may ask for.

    Parameters
    ----------
    file_bytes
        Of the file, and again of what it holds unpacked.
    columns
        How many there may be.
    cells
        Rows times columns.
    memory_bytes
        That unpacking a Parquet file may take, on systems that can limit it.
    seconds
        That unpacking a Parquet file may take.
    """

    file_bytes: int = 2_000_000_000
    columns: int = 10_000
    cells: int = 500_000_000
    memory_bytes: int = 8 * 2**30
    seconds: int = 600


@dataclass(frozen=True, eq=False)
class RawTable:
    """A table as it was found.

    Parameters
    ----------
    source
        What it is called in messages: the path, or "the pandas frame".
    names
        Of the columns, without the blanks around them.
    count
        How many rows there are.
    load
        Gives a column by name. Columns of a frame are converted when they are asked for, and only these.
    """

    source: str
    names: tuple[str, ...]
    count: int
    load: Callable[[str], Column] = field(repr=False)

    def cells(self, name: str, remedy: str = "") -> Column:
        """A column in the form it is kept in; `remedy` says what to do if there is none of this name."""
        if name not in self.names:
            advice = f"; {remedy}" if remedy else ""
            if any(parse_number(other) is not None for other in self.names):
                advice += "; if the first row holds a person, write one above it that names the columns"
            raise DataError(f"{self.source}: there is no column {shown(name)} ({near(name, self.names)}){advice}")
        return self.load(name)

    def column(self, name: str) -> NDArray[Any]:
        """What a column holds: float64 with NaN for a missing cell, or an object array of str, and None if missing.

        Columns of files with text (CSV, TSV) are always texts; True and False in a frame are "True" and "False".
        """
        cells = self.cells(name)
        return cells.values.astype(np.float64) if isinstance(cells, NumberCells) else self.texts(name)

    def texts(self, name: str) -> NDArray[np.object_]:
        """A column as texts without the blanks around them, whole numbers without a fraction; None is missing."""
        cells = self.cells(name)
        texts = np.empty(cells.count, object)
        for piece in cells.pieces():
            levels = np.array([level or None for level in piece.levels], object)
            texts[piece.start : piece.start + len(piece.codes)] = levels[piece.codes]
        return texts

    def numeric(self, name: str, na_values: Sequence[str] = NA_VALUES) -> NDArray[np.float64] | None:
        """A column as numbers, NaN for a missing cell or one in `na_values`; None if some other cell is no number."""
        parsed = numbers_in(self.cells(name), na_values)
        return None if parsed.bad else parsed.values

    def counts(self, name: str) -> dict[str, int]:
        """How many rows hold each text of a column, in the order they come; missing cells are left out."""
        counts: dict[str, int] = {}
        for piece in self.cells(name).pieces():
            for level, count in zip(piece.levels, np.bincount(piece.codes), strict=True):
                if level:
                    counts[level] = counts.get(level, 0) + int(count)
        return counts


def read_table(source: Any, limits: TableLimits | None = None) -> RawTable:
    """Read a table, whatever it is.

    Parameters
    ----------
    source
        Path of a `.csv`, `.tsv`, `.csv.gz` or `.parquet` file whose first row names the columns; a pandas or polars
        DataFrame; or a mapping of names to lists, arrays or series. The cells of a `.csv` file are separated by
        commas, or by semicolons or tabs if these divide its header into more columns.
    limits
        How much the table may ask for.

    Raises
    ------
    DataError
        One message with the source, what is wrong and the remedy.

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
    package = package_of(source, "DataFrame")
    if package == "pandas":
        series: Any = [partial(_nth, source, place) for place in range(source.shape[1])]
        return _from_series("the pandas frame", [str(name) for name in source.columns], len(source), series, limits)
    if package == "polars":
        series = [partial(source.get_column, name) for name in source.columns]
        return _from_series("the polars frame", source.columns, source.height, series, limits)
    if package_of(source, "LazyFrame"):
        raise DataError("the polars frame: it is lazy; hand over what collect() gives")
    if isinstance(source, Mapping):
        return _from_mapping(source, limits)
    raise DataError(f"a table of type {type(source).__name__} cannot be read; give {READ}")


def _nth(frame: Any, place: int) -> Any:
    return frame.iloc[:, place]


def _from_mapping(source: Mapping[Any, Any], limits: TableLimits) -> RawTable:
    names, counts = [str(name) for name in source], []
    for name, values in zip(names, source.values(), strict=True):
        try:
            counts.append(len(values))
        except TypeError:  # also of an array without dimensions
            raise DataError(f"the table: column {shown(name)} is not a list, array or series; make it one") from None
    if len(set(counts)) > 1:
        short, long = min(counts), max(counts)
        raise DataError(
            f"the table: column {shown(names[counts.index(short)])} has {short:,} rows and column "
            f"{shown(names[counts.index(long)])} {long:,}; all columns must be equally long"
        )
    series = [partial(source.__getitem__, name) for name in source]
    return _from_series("the table", names, counts[0] if counts else 0, series, limits)


def _from_series(
    source: str, names: Sequence[str], count: int, series: Sequence[Callable[[], Any]], limits: TableLimits
) -> RawTable:
    """A table of columns that are converted when somebody asks for them."""

    def column(name: str, get: Callable[[], Any]) -> Column:
        return column_of(get(), f"{source}: column {shown(name)}", limits.file_bytes)

    loaders = [partial(column, name.strip(), get) for name, get in zip(names, series, strict=True)]
    return _table(source, names, count, loaders, limits)


def _table(
    source: str, names: Sequence[str], count: int, loaders: Sequence[Callable[[], Column]], limits: TableLimits
) -> RawTable:
    stripped = tuple(name.strip() for name in names)
    _check_size(source, len(stripped), count, limits)
    double = doubled(stripped)
    if double is not None:
        raise DataError(f"{source}: two columns are called {shown(double)}; give each a name of its own")
    by_name = dict(zip(stripped, loaders, strict=True))
    return RawTable(source, stripped, count, lambda name: by_name[name]())


def _check_size(source: str, columns: int, count: int, limits: TableLimits) -> None:
    if not columns or not count:
        raise DataError(f"{source}: no {'rows' if columns else 'columns'}; a table needs at least one person")
    if columns > limits.columns:
        raise DataError(f"{source}: {columns:,} columns are more than {limits.columns:,}; leave out those not needed")
    if columns * count > limits.cells:
        raise DataError(
            f"{source}: more than {limits.cells:,} cells; leave out columns that no feature needs, "
            "or raise TableLimits.cells if there is memory for them"
        )


def _read_file(path: Path, limits: TableLimits) -> RawTable:
    if path.is_dir():
        raise DataError(f"{path}: this is a folder; give {READ}")
    suffix = "".join(path.suffixes[-2:]).lower() if path.suffix.lower() == ".gz" else path.suffix.lower()
    if suffix not in (*DELIMITED, ".parquet"):
        raise DataError(f'{path}: files that end in "{suffix}" are not read; give {READ}')
    try:
        if path.exists() and not path.is_file():
            raise DataError(f"{path}: not a plain file; give {READ}")
        if path.stat().st_size > limits.file_bytes:
            raise DataError(
                f"{path}: larger than {limits.file_bytes:,} bytes; raise TableLimits.file_bytes if you trust the file"
            )
        if suffix == ".parquet":
            count, found = read_parquet(path, *astuple(limits))
        else:
            texts = read_delimited(path, limits.file_bytes, limits.columns, limits.cells)
            count, found = next(iter(texts.values())).count, {**texts}
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; give {READ}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}); give {READ}") from None
    except ValueError as error:
        raise DataError(f"{path}: cannot be read ({error}); give {READ}") from None
    return _table(str(path), list(found), count, [partial(_given, column) for column in found.values()], limits)


def _given(column: Column | str) -> Column:
    """A column that was read; a text says why it cannot be used."""
    if isinstance(column, str):
        raise DataError(column)
    return column
