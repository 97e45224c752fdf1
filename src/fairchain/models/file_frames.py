"""Tables in files for models that take frames: as pandas reads a CSV file, and polars a Parquet file.

Cells of a CSV file have no types. A model that was made for frames was fitted on those that a package of frames gave
them, so that the same package reads them here: True is a boolean, 1.0 a real number, NA a missing value. The file was
read before, within limits and with messages about what is wrong in it (`read_table`).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from fairchain.errors import DataError
from fairchain.messages import needs, shown
from fairchain.tables import RawTable, read_table
from fairchain.tables.delimited import CSV_SEPARATORS

NEEDS_A_PACKAGE = "{source}: " + needs("a model that takes frames", "{package}")
READ_OTHERWISE = (
    "{source}: {package} reads it in another way ({reason}); read it yourself, and give the frame in place of the file"
)
READ_BY = "A model that takes frames gets this file as {function} reads it: {types}. To show it other cells, {remedy}."
OTHER_CELLS = "other cells in column {name}"
GIVE_FRAME = "give a frame in Python"


def framed(table: RawTable, path: Path, fitted: Mapping[str, tuple[Any, ...] | None]) -> tuple[RawTable, str]:
    """Return the table of a file as the frame that its package makes of it, and a note that says so.

    Parameters
    ----------
    table
        The file, as `read_table` reads it.
    path
        Of the file.
    fitted
        For columns of the table, the values that the model was fitted on, where it says so. If they are texts, cells
        that look like numbers stay texts.
    """
    parquet = path.suffix.lower() == ".parquet"
    name, function = ("polars", "polars.read_parquet") if parquet else ("pandas", "pandas.read_csv")
    try:
        package = import_module(name)
    except ImportError:
        raise DataError(NEEDS_A_PACKAGE.format(source=table.source, package=name)) from None
    try:
        frame = package.read_parquet(path) if parquet else _read_csv(package, path, table, fitted)
    except Exception as error:
        reason = str(error).partition("\n")[0][:100] or type(error).__name__
        raise DataError(READ_OTHERWISE.format(source=table.source, package=name, reason=reason)) from None
    types: dict[str, list[str]] = {}
    for column, dtype in zip(table.names, frame.dtypes, strict=True):
        types.setdefault(str(dtype), []).append(column)
    told = "; ".join(f"{dtype}: {', '.join(names)}" for dtype, names in types.items())
    note = READ_BY.format(function=function, types=told, remedy=GIVE_FRAME)
    return replace(read_table(frame), source=table.source), note


def _names(frame: Any) -> tuple[str, ...]:
    return tuple(str(name).strip() for name in frame.columns)


def _read_csv(pandas: Any, path: Path, table: RawTable, fitted: Mapping[str, tuple[Any, ...] | None]) -> Any:
    """Return a CSV file as pandas reads it, but numbers to the last bit, and texts where the model knows texts.

    Raises a ValueError if pandas finds other cells than are in the table, as of a quote behind a blank.
    """
    fits = (each for each in CSV_SEPARATORS if _names(pandas.read_csv(path, sep=each, nrows=0)) == table.names)
    # A type is that of all rows, not of those that were read together.
    options = {"sep": next(fits, CSV_SEPARATORS[0]), "low_memory": False, "index_col": False}
    # Since version 3 this is how all numbers are read.
    exact = {"float_precision": "round_trip"} if pandas.__version__ < "3" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = pandas.read_csv(path, **exact, **options)
        cells = pandas.read_csv(path, dtype=str, na_filter=False, **options)
    for column, name in zip(cells.columns, table.names, strict=True):
        here = [cell or "" for cell in table.texts(name)]
        if [cell.strip() for cell in cells[column]] != here:
            raise ValueError(OTHER_CELLS.format(name=shown(name)))
        known = fitted.get(name) or ()
        if known and all(isinstance(each, str) for each in known):
            frame[column] = cells[column].where(frame[column].notna() | cells[column].isin(known))
    return frame
