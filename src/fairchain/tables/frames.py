"""Columns of frames and plain sequences: pandas and polars series, numpy arrays, lists.

Packages are recognised through `sys.modules`, never imported: whoever hands over a frame has imported its package.
True and False are the texts "True" and "False", a category and not a number.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, time
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError
from fairchain.tables.columns import PART, SEPARATOR, Column, NumberCells, TextCells, number_text

# Below this doubles hold every whole number.
MOST_EXACT = 2**53
BOOLEANS = ("False", "True")
NESTED = "cells of type {}; a column holds texts or numbers, so convert it or choose another"


def package_of(value: Any, kind: str) -> str | None:
    """Which of pandas and polars this is a `kind` of: "DataFrame", "LazyFrame" or "Series"."""
    for name in ("pandas", "polars"):
        # A package that is just being imported, or another one of the same name, may lack the type.
        expected = getattr(sys.modules.get(name), kind, None)
        if isinstance(expected, type) and isinstance(value, expected):
            return name
    return None


def column_of(values: Any, where: str, most_bytes: int) -> Column:
    """The column that a series, an array or a sequence is; `where` names it in messages."""
    package = package_of(values, "Series")
    if package == "pandas":
        return _pandas_column(values, where)
    if package == "polars":
        return _polars_column(values, where, most_bytes)
    if isinstance(values, np.ndarray):
        return _array_column(values, where)
    if isinstance(values, Sequence) and not isinstance(values, str | bytes | bytearray | memoryview):
        return _object_column(list(values), where)
    raise DataError(f"{where}: found {_kind(values)}; a column is a list, an array or a series")


def has_masked(values: Any) -> bool:
    """Return whether this is a masked array with a masked cell, or the masked constant of numpy.

    Any conversion to a plain array shows the number behind a mask as if it were a value.
    """
    return isinstance(values, np.ma.MaskedArray) and bool(np.ma.getmaskarray(values).any())


def _array_column(values: NDArray[Any], where: str) -> Column:
    if values.ndim != 1:
        raise DataError(f"{where}: an array of shape {values.shape}; a column has one dimension")
    if isinstance(values, np.ma.MaskedArray):
        values = _unmasked(values)
    if values.dtype.kind in "iuf":
        return NumberCells(values)
    if values.dtype.kind == "b":
        return _looked_up(BOOLEANS, values.astype(np.intp), where)
    if values.dtype.kind == "M":
        return _texts(_cut(np.where(np.isnat(values), "", values.astype(str)).tolist()), where)
    if values.dtype.kind in "UTO":
        return _object_column(values.tolist(), where)
    raise DataError(f"{where}: an array of type {values.dtype}; a column holds texts or numbers")


def _unmasked(values: np.ma.MaskedArray[Any, Any]) -> NDArray[Any]:
    """Return a plain array in which masked cells are missing values."""
    if not has_masked(values):
        return values.data
    if values.dtype.kind in "fM":
        return np.asarray(values.filled(np.nan if values.dtype.kind == "f" else np.datetime64("NaT")))
    plain = values.data.astype(object)
    plain[np.ma.getmaskarray(values)] = None
    return plain


def _object_column(cells: list[Any], where: str) -> Column:
    """A column of Python objects: numbers if there is nothing else in it, else texts."""
    kinds = set(map(type, cells))
    if kinds <= {str, type(None)}:
        return _texts(_cut(cells), where)
    if any(map(_is_missing_kind, kinds)):
        cells = [None if _is_missing_kind(type(cell)) else cell for cell in cells]
    values = _numbers(cells)
    if values is not None:
        return NumberCells(values)
    return _texts(_cut([_text(cell, where, row) for row, cell in enumerate(cells, 1)]), where)


def _numbers(cells: list[Any]) -> NDArray[np.float64] | None:
    """The cells as doubles; None if some are no numbers, or whole numbers too large to be exact."""
    kinds = set(map(type, cells)) - {type(None)}
    if bool in kinds or not all(issubclass(kind, Real | Decimal) for kind in kinds):
        return None
    try:
        values = np.array(cells, np.float64)
    except (OverflowError, ValueError):  # a fraction beyond all doubles, a signalling NaN
        return None
    return values if _is_exact(values) or not any(issubclass(kind, Integral) for kind in kinds) else None


def _is_exact(values: NDArray[np.float64]) -> bool:
    """Whether whole numbers that were turned into these doubles are still themselves."""
    return not bool((np.abs(values) >= MOST_EXACT).any())


def _text(cell: Any, where: str, row: int) -> str:
    if isinstance(cell, str):
        return str(cell)
    if cell is None:
        return ""
    if isinstance(cell, bool | np.bool_):
        return BOOLEANS[int(cell)]
    if isinstance(cell, Real | Decimal):
        return _number_text(cell, where, row)
    if isinstance(cell, date | time):
        return str(cell)
    raise DataError(f"{where}: row {row:,} holds {_kind(cell)}; a cell is a text or a number")


def _number_text(cell: Any, where: str, row: int) -> str:
    try:
        return number_text(float(cell) if isinstance(cell, Decimal) else cell)
    except (ValueError, OverflowError):  # some thousand digits, a fraction beyond all doubles, a signalling NaN
        raise DataError(
            f"{where}: row {row:,} holds {_kind(cell)} that is too long or no number; make it a text or a float"
        ) from None


def _is_missing_kind(kind: type) -> bool:
    # The types of pandas.NA, pandas.NaT and numpy.ma.masked, of which these are the only values.
    return kind.__name__ in ("NAType", "NaTType", "MaskedConstant")


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _cut(cells: Sequence[str | None]) -> Iterator[Sequence[str | None]]:
    for start in range(0, len(cells), PART):
        yield cells[start : start + PART]


def _texts(parts: Iterable[Sequence[str | None]], where: str) -> TextCells:
    """A column of these cells, where None and "" are missing ones."""
    packed, count = [], 0
    for part in parts:
        cells = [cell or "" for cell in part]
        packed.append(SEPARATOR.join(cells))
        if packed[-1].count(SEPARATOR) != len(cells) - 1:
            raise _nul(where, next(row for row, cell in enumerate(cells, count) if SEPARATOR in cell))
        count += len(cells)
    return TextCells(tuple(packed), count)


def _nul(where: str, row: int) -> DataError:
    return DataError(f"{where}: row {row + 1:,} holds a NUL character; remove it from the cell")


def _looked_up(levels: Sequence[str], codes: NDArray[np.intp], where: str) -> TextCells:
    """The texts that these codes stand for; -1 is a missing cell."""
    return _texts(_cut(np.array([*levels, ""], object)[codes].tolist()), where)


def _pandas_column(series: Any, where: str) -> Column:
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return _array_column(series.to_numpy(), where)
    if hasattr(dtype, "categories"):
        levels = [_level(level) for level in dtype.categories]
        return _looked_up(levels, np.asarray(series.cat.codes, np.intp), where)
    kind = getattr(dtype, "kind", "O")
    if kind == "f":
        return NumberCells(series.to_numpy(getattr(dtype, "numpy_dtype", np.float64), na_value=np.nan))
    if kind in "iu":
        values = series.to_numpy(np.float64, na_value=np.nan)
        if _is_exact(values):
            return NumberCells(values)
    missing = series.isna().to_numpy(bool)
    cells = series.to_numpy(object, copy=True)
    cells[missing] = None
    return _object_column(cells.tolist(), where)


def _level(level: Any) -> str:
    """A category of pandas as text; it may be anything, an interval for example."""
    return number_text(level) if isinstance(level, Real) and not isinstance(level, bool) else str(level)


def _polars_column(series: Any, where: str, most_bytes: int) -> Column:
    polars: Any = sys.modules["polars"]
    dtype = series.dtype
    if dtype.is_nested() or dtype in (polars.Object, polars.Binary):
        raise DataError(f"{where}: {NESTED.format(dtype)}")
    if dtype == polars.Boolean:
        return _looked_up(BOOLEANS, series.cast(polars.Int8).fill_null(-1).to_numpy().astype(np.intp), where)
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
    # In a Parquet file equal cells share their memory; as texts of their own they do not.
    refuse_large(where, texts.str.len_bytes().cast(polars.UInt64).sum(), most_bytes)
    broken = texts.str.contains(SEPARATOR, literal=True)
    if broken.any():
        raise _nul(where, int(broken.arg_max()))
    parts = (texts.slice(start, PART).str.join(SEPARATOR)[0] for start in range(0, len(texts), PART))
    return TextCells(tuple(parts), len(texts))


def refuse_large(where: str, found: int, most: int) -> None:
    """Refuse cells of too many bytes. Lengths of texts must be summed in 64 bits: in 32, four gigabytes are none."""
    if found > most:
        raise DataError(
            f"{where}: holds more than {most:,} bytes unpacked; raise TableLimits.file_bytes if you trust it"
        )
