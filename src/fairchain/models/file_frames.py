"""Tables in files for models that take frames: CSV files as pandas reads them, Parquet files as polars does.

Cells of a CSV file have no types. A model for frames was fitted on the types that a data frame package assigned, so the
same package reads the file here: True is a boolean, 1.0 a real number, NA a missing value. `read_table` has already
read the file within limits, and reported its errors.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from fairchain.errors import DataError
from fairchain.messages import listed, needs, shown
from fairchain.models.frames import column_name, is_text
from fairchain.models.onnx.feature_encoding import words
from fairchain.spec import CategoryFeature, Feature, Spec, Table
from fairchain.spec.validate import MOST_EXACT
from fairchain.tables import RawTable, TableRows, read_table
from fairchain.tables.columns import parse_number
from fairchain.tables.rows import feature_values

NEEDS_A_PACKAGE = "{source}: " + needs("a model that takes frames", "{package}")
READ_OTHERWISE = (
    "{source}: {package} reads it differently ({reason}); write the file again without such cells, or read it in "
    "Python and give the frame instead of the file"
)
READ_BY = (
    "A model that takes frames gets this file as {function} reads it: {types}.{known} To show it other cells, give a "
    "frame in Python."
)
AS_KNOWN = " Cells of {names} are texts as the model was fitted on them."
OTHER_CELLS = "other cells in column {name}"


def framed(table: RawTable, path: Path, fitted: Mapping[str, tuple[Any, ...] | None]) -> tuple[RawTable, str]:
    """Return the table of a file, as read by `read_table`, as its package's frame, and a note that states this.

    `fitted` has for columns of the table the values on which the model was fitted, if it states them. If they are
    texts, cells that look like numbers remain texts, and blanks around known texts are removed.
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
    columns = "; ".join(f"{dtype}: {', '.join(names)}" for dtype, names in types.items())
    known = [column for column in table.names if not parquet and are_texts(fitted.get(column))]
    as_known = AS_KNOWN.format(names=listed(known)) if known else ""
    note = READ_BY.format(function=function, types=columns, known=as_known)
    return replace(read_table(frame), source=table.source), note


def with_own_cells(rows: TableRows, spec: Spec) -> TableRows:
    """Return the rows of a file with those columns, as its package reads them, that agree with the spec.

    Texts, codes and changed numbers are those of the spec.
    """
    if rows.path is None or rows.table is not None or not isinstance(spec.population, Table):
        return rows
    places = {column_name(feature): place for place, feature in enumerate(spec.features) if feature.model_input}
    table, _ = framed(
        read_table(rows.path), rows.path, {name: _words(spec.features[place]) for name, place in places.items()}
    )
    own = {}
    for label, name in zip(table.frame.columns, table.names, strict=True):
        if name not in places or rows.numbers[-1] > table.count:
            continue
        feature, found, cells = spec.features[places[name]], rows.values[:, places[name]], table.frame[label]
        texts = [cell for cell in cells[rows.numbers[~np.isnan(found)] - 1] if isinstance(cell, str)]
        # A cell that the spec does not know is read by pandas in another way, for example as true.
        with suppress(DataError):
            values = feature_values(table, feature, spec.population.na_values)[rows.numbers - 1]
            if set(texts) <= set(_words(feature) or texts) and np.array_equal(values, found, equal_nan=True):
                own[label] = cells
    return replace(rows, table=read_table(own)) if own else rows


def _words(feature: Feature) -> tuple[str, ...]:
    """Return the texts of a text feature; none for numbers that a spec can only state as texts, such as infinity."""
    stated = tuple(map(str, words(feature))) if isinstance(feature, CategoryFeature) and is_text(feature) else ()
    numbers = [number for number in map(parse_number, stated) if number is not None]
    return () if len(numbers) == len(stated) and max(map(abs, numbers), default=0) > MOST_EXACT else stated


def are_texts(known: tuple[Any, ...] | None) -> bool:
    """Return whether the values that a model was fitted on are known, and are texts."""
    return bool(known) and all(isinstance(each, str) for each in known or ())


def _read_csv(pandas: Any, path: Path, table: RawTable, fitted: Mapping[str, tuple[Any, ...] | None]) -> Any:
    """Return a CSV file as pandas reads it, with numbers exact to the last bit, and texts if the model knows texts.

    Raises a ValueError if pandas finds cells that differ from the table, for example after a quote that follows a
    blank.
    """
    from fairchain.tables.delimited import CSV_SEPARATORS

    heads = ((each, pandas.read_csv(path, sep=each, nrows=0).columns) for each in CSV_SEPARATORS)
    fits = (each for each, head in heads if tuple(str(name).strip() for name in head) == table.names)
    # The type of a column depends on all rows, not on those that were read together.
    options = {"sep": next(fits, CSV_SEPARATORS[0]), "low_memory": False, "index_col": False}
    # Since version 3 this is how all numbers are read.
    exact = {"float_precision": "round_trip"} if pandas.__version__ < "3" else {}
    with warnings.catch_warnings():
        # Other warnings are about future changes of pandas, not about the file.
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        frame = pandas.read_csv(path, **exact, **options)
        cells = pandas.read_csv(path, dtype=str, na_filter=False, **options)
    for column, name in zip(cells.columns, table.names, strict=True):
        here = [cell or "" for cell in table.texts(name)]
        if [cell.strip() for cell in cells[column].tolist()] != here:
            raise ValueError(OTHER_CELLS.format(name=shown(name)))
        known = fitted.get(name) or ()
        if are_texts(known):
            bare = cells[column].str.strip()
            texts = cells[column].where(cells[column].isin(known) | ~bare.isin(known), bare)
            frame[column] = texts.where(frame[column].notna() | texts.isin(known))
    return frame
