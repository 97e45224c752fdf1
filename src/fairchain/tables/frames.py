"""Columns of frames and plain sequences: pandas and polars series, numpy arrays, lists.

Packages are recognised through `sys.modules`, never imported: a caller that passes a frame has imported its package.
True and False are the texts "True" and "False", categories and not numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, time
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError
from fairchain.spec.validate import MOST_EXACT
from fairchain.tables.columns import (
    CELLS_AT_ONCE,
    SEPARATOR,
    CodedCells,
    Column,
    Index,
    NumberCells,
    TableLimits,
    TextCells,
    number_text,
)

BOOLEANS = ("False", "True")
NESTED = "cells of type {}; a column contains texts or numbers, so convert it or choose another"
CELL_TOO_LONG = "{where}: row {row:,} contains {cell} that is too long or not a number; make it a text or a float"


def frame_package(value: Any, kind: str) -> str | None:
    """Return the package, pandas or polars, of which this is a `kind`: "DataFrame", "LazyFrame" or "Series"."""
    for name in ("pandas", "polars"):
        # A package that is being imported, or another one of the same name, may lack the type.
        expected = getattr(sys.modules.get(name), kind, None)
        if isinstance(expected, type) and isinstance(value, expected):
            return name
    return None


def column_of(values: Any, where: str, limits: TableLimits) -> Column:
    """Return the column of a series, an array or a sequence; `where` names it in messages."""
    package = frame_package(values, "Series")
    if package == "pandas":
        return _pandas_column(values, where)
    if package == "polars":
        return _polars_column(values, where, limits)
    if isinstance(values, np.ndarray):
        return _array_column(values, where)
    if isinstance(values, Sequence) and not isinstance(values, str | bytes | bytearray | memoryview):
        return _object_column(list(values), where)
    raise DataError(f"{where}: found {_kind(values)}; a column is a list, an array or a series")


def has_masked(values: Any) -> bool:
    """Return whether this is a masked array with a masked cell, or the masked constant of numpy.

    Conversion to a plain array would turn the number behind a mask into a value.
    """
    return isinstance(values, np.ma.MaskedArray) and bool(np.ma.getmaskarray(values).any())


def _array_column(values: NDArray[Any], where: str) -> Column:
    if values.ndim != 1:
        raise DataError(f"{where}: an array of shape {values.shape}; a column has one dimension")
    kind = values.dtype.kind
    if isinstance(values, np.ma.MaskedArray):
        # Masked cells are missing values.
        if not has_masked(values):
            values = values.data
        elif kind in "fM":
            values = np.asarray(values.filled(np.nan if kind == "f" else np.datetime64("NaT")))
        else:
            plain, kind = values.data.astype(object), "O"
            plain[np.ma.getmaskarray(values)] = None
            values = plain
    if kind in "iuf":
        return NumberCells(values)
    if kind == "b":
        return _coded(BOOLEANS, values.astype(np.intp), where, booleans=True)
    if kind == "M":
        return _texts(np.where(np.isnat(values), "", values.astype(str)).tolist(), where)
    if kind in "UTO":
        return _object_column(values.tolist(), where)
    raise DataError(f"{where}: an array of type {values.dtype}; a column contains texts or numbers")


def _object_column(cells: list[Any], where: str) -> Column:
    """Return a column of Python objects: numbers if all cells are numbers, otherwise texts."""
    kinds = set(map(type, cells))
    if kinds <= {str, type(None)}:
        return _texts(cells, where)
    # The types of pandas.NA, pandas.NaT and numpy.ma.masked, which have no other values.
    missing = {kind for kind in kinds if kind.__name__ in ("NAType", "NaTType", "MaskedConstant")}
    if missing:
        cells = [None if type(cell) in missing else cell for cell in cells]
        kinds -= missing
    values = _numbers(cells, kinds - {type(None)})
    if values is not None:
        return NumberCells(values)
    texts = [_text(cell, where, row) for row, cell in enumerate(cells, 1)]
    truths = bool(kinds - {type(None)}) and kinds <= {bool, np.bool_, type(None)}
    return replace(_texts(texts, where), merged=_merged(cells, texts), booleans=truths)


def _merged(cells: list[Any], texts: list[str]) -> str:
    """Return two cells of different types with the same text, "" if none; 1 and 1.0 are one number."""
    known: dict[str, Any] = {}
    for cell, text in zip(cells, texts, strict=True):
        other = known.setdefault(text, cell)
        if text and _family(other) is not _family(cell):
            return f"{other!r} and {cell!r}"
    return ""


def _family(cell: Any) -> type:
    return bool if isinstance(cell, bool | np.bool_) else Real if isinstance(cell, Real | Decimal) else type(cell)


def _numbers(cells: list[Any], kinds: set[type]) -> NDArray[np.float64] | None:
    """Return the cells as doubles; None if some are not numbers, or integers too large to be exact."""
    if bool in kinds or not all(issubclass(kind, Real | Decimal) for kind in kinds):
        return None
    try:
        values = np.array(cells, np.float64)
    except (OverflowError, ValueError):  # a fraction outside the range of doubles, a signalling NaN
        return None
    return values if _is_exact(values) or not any(issubclass(kind, Integral) for kind in kinds) else None


def _is_exact(values: NDArray[np.float64]) -> bool:
    """Return whether integers that were converted to these doubles are unchanged."""
    return not bool((np.abs(values) >= MOST_EXACT).any())


def _text(cell: Any, where: str, row: int) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool | np.bool_):
        return BOOLEANS[int(cell)]
    if isinstance(cell, str | date | time):
        return str(cell)
    if not isinstance(cell, Real | Decimal):
        raise DataError(f"{where}: row {row:,} contains {_kind(cell)}; a cell is a text or a number")
    try:
        return number_text(float(cell) if isinstance(cell, Decimal) else cell)
    # thousands of digits, a fraction outside the range of doubles, a signalling NaN
    except (ValueError, OverflowError):
        raise DataError(CELL_TOO_LONG.format(where=where, row=row, cell=_kind(cell))) from None


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _texts(cells: Sequence[str | None], where: str) -> TextCells:
    """Return a column of these cells; None and "" are missing."""
    packed = []
    for start in range(0, len(cells), CELLS_AT_ONCE):
        part = [cell or "" for cell in cells[start : start + CELLS_AT_ONCE]]
        packed.append(SEPARATOR.join(part))
        if packed[-1].count(SEPARATOR) != len(part) - 1:
            raise _nul(where, next(row for row, cell in enumerate(part, start) if SEPARATOR in cell))
    return TextCells(tuple(packed), len(cells))


def _nul(where: str, row: int) -> DataError:
    return DataError(f"{where}: row {row + 1:,} contains a NUL character; remove it from the cell")


def _coded(
    levels: Sequence[str], codes: NDArray[np.intp], where: str, *, stated: bool = False, booleans: bool = False
) -> CodedCells:
    """Return the texts of these codes, -1 for a missing cell; `stated` is whether the type has these categories."""
    for place, level in enumerate(levels):
        if SEPARATOR in level and (codes == place).any():
            raise _nul(where, int(np.argmax(codes == place)))
    found = np.where(codes < 0, len(levels), codes)
    return CodedCells(found, (*levels, ""), tuple(levels) if stated else None, booleans)


def _pandas_column(series: Any, where: str) -> Column:
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return _array_column(series.to_numpy(), where)
    if hasattr(dtype, "categories"):
        # A category of pandas may be any object, for example an interval.
        levels = [
            number_text(level) if isinstance(level, Real) and not isinstance(level, bool) else str(level)
            for level in dtype.categories
        ]
        truths = bool(levels) and all(isinstance(level, bool | np.bool_) for level in dtype.categories)
        return _coded(levels, np.asarray(series.cat.codes, np.intp), where, stated=True, booleans=truths)
    kind = getattr(dtype, "kind", "O")
    if kind == "f":
        return NumberCells(series.to_numpy(getattr(dtype, "numpy_dtype", np.float64), na_value=np.nan))
    if kind in "iu":
        values = series.to_numpy(np.float64, na_value=np.nan)
        if _is_exact(values):
            return NumberCells(values)
    pandas: Any = sys.modules["pandas"]
    if kind == "O" and pandas.api.types.infer_dtype(series, skipna=True) == "string":
        # Python stores the hash of a text with it: one lookup per cell, while `factorize` takes three.
        index = Index()
        codes = index.codes(series.to_numpy(object))
        return _coded([str(text) if isinstance(text, str) else "" for text in index], codes, where)
    missing = series.isna().to_numpy(bool)
    cells = series.to_numpy(object, copy=True)
    cells[missing] = None
    return _object_column(cells.tolist(), where)


def _polars_column(series: Any, where: str, limits: TableLimits) -> Column:
    polars: Any = sys.modules["polars"]
    dtype = series.dtype
    if dtype.is_nested() or dtype in (polars.Object, polars.Binary):
        raise DataError(f"{where}: {NESTED.format(dtype)}")
    if dtype == polars.Boolean:
        codes = series.cast(polars.Int8).fill_null(-1).to_numpy().astype(np.intp)
        return _coded(BOOLEANS, codes, where, booleans=True)
    if isinstance(dtype, polars.Enum):
        levels = dtype.categories.to_list()
        return _coded(levels, series.to_physical().cast(polars.Int64).fill_null(-1).to_numpy(), where, stated=True)
    if dtype.is_float():
        return NumberCells(series.to_numpy())
    if dtype.is_integer() or dtype.is_decimal():
        values = series.cast(polars.Float64).to_numpy()
        if dtype.is_decimal() or _is_exact(values):
            return NumberCells(values)
    try:
        texts = series.cast(polars.String).fill_null("")
    except polars.exceptions.PolarsError:
        raise DataError(f"{where}: {NESTED.format(dtype)}") from None
    # In a Parquet file equal cells share their memory; as separate texts they do not.
    limits.check_bytes(where, texts.str.len_bytes().cast(polars.UInt64).sum())
    broken = texts.str.contains(SEPARATOR, literal=True)
    if broken.any():
        raise _nul(where, int(broken.arg_max()))
    parts = (texts.slice(start, CELLS_AT_ONCE).str.join(SEPARATOR)[0] for start in range(0, len(texts), CELLS_AT_ONCE))
    return TextCells(tuple(parts), len(texts))
