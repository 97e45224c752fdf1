"""Feature values as a pandas frame, for models that take frames.

The frame has a column for each feature with the table's name: integers as integers, categories by the names in the
table, True and False with the codes 1 and 0 as booleans; a missing value is NaN. If the rows were given as a frame or
as columns, their own cells and types are used (`OwnFrame`). pandas is imported when the first frame is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError, ModelError
from fairchain.messages import needs, shown
from fairchain.models.onnx.feature_encoding import encode_feature, is_plain, is_whole, words
from fairchain.spec import CategoryFeature, Feature
from fairchain.tables.columns import CodedCells, Column, Index, NumberCells
from fairchain.tables.frames import frame_package

if TYPE_CHECKING:
    from fairchain.tables import TableRows

TOO_LARGE_TO_DIFFER = (
    'column "{column}": whole numbers beyond 2**53 are not distinguished here; give them as texts, or leave the '
    "column out of the model"
)
CELLS_ALIKE = (
    'column "{column}": the cells {one} and {two} are one value of the spec, and the model may distinguish them; '
    "write them alike"
)
NOT_OF_TYPE = (
    'column "{column}": the value {value} of the spec occurs in no row, and a column of type {type} cannot contain it; '
    "remove it from values, or give the column as texts"
)
# The network's numbers for the cells of a column of booleans.
TRUTHS = {"False": 0, "True": 1}
# Doubles represent integers up to this one exactly.
MOST_EXACT = 2**53
ONE_HOT_IN_FRAME = '{name}: feature "{feature_name}".one_hot: a frame has one column for each feature; remove one_hot'
COLUMN_TAKEN_TWICE = '{name}: two features have the column "{column}" of the frame; give each a separate column'
NOT_A_FUNCTION = "as_frames: found {type}; give a function, for example as_frames(m.predict)"
NEEDS_PANDAS = needs("a model that takes frames", "pandas")


@dataclass(frozen=True)
class FrameModel:
    """A function that takes a pandas frame; made by `as_frames`."""

    function: Callable[[Any], Any]


def as_frames(function: Callable[[Any], Any]) -> FrameModel:
    """Declare that a function takes a pandas frame instead of an array.

    Parameters
    ----------
    function
        A function that takes a pandas frame with one column for each feature that the model receives, in the order of
        the spec. The key `column` of a feature names its column. By default, the column has the name of the feature.
        Categories are passed by the names in the table, or by their codes if the spec states `codes`. A categorical
        feature with the values True and False and the codes 1 and 0 is passed as booleans. Numbers have the unit and
        the type of the table, unless the spec states another encoding. For each row, the function returns a label, a
        score, or a score for each label.

    Examples
    --------
    >>> def granted(applicants):
    ...     return applicants["hours"] >= 40
    >>> model = as_frames(granted)
    """
    if not callable(function):
        raise ModelError(NOT_A_FUNCTION.format(type=type(function).__name__))
    return FrameModel(function)


def column_name(feature: Feature) -> str:
    """Return the name of this feature in a frame."""
    return feature.column or feature.name


def is_text(feature: Feature) -> bool:
    """Return whether the feature is a column of texts in a frame."""
    if not isinstance(feature, CategoryFeature) or feature.codes is not None:
        return False
    return not all(isinstance(word, int) for word in words(feature))


def is_boolean(feature: Feature) -> bool:
    """Return whether the feature is a column of booleans in a frame."""
    if not isinstance(feature, CategoryFeature) or feature.codes is None:
        return False
    return [TRUTHS.get(str(word)) for word in words(feature)] == list(feature.codes)


def cell_kind(feature: Feature) -> str:
    """Return a description of this feature's cells in a frame."""
    if is_text(feature):
        return "texts"
    return "booleans" if is_boolean(feature) else "whole numbers" if is_whole(feature) else "numbers"


def check_columns(name: str, features: Sequence[Feature]) -> None:
    """Raise a ModelError unless every feature can be one column of a frame."""
    shown = [feature for feature in features if feature.model_input]
    for feature in shown:
        if feature.one_hot:
            raise ModelError(ONE_HOT_IN_FRAME.format(name=name, feature_name=feature.name))
    names = [column_name(feature) for feature in shown]
    for column in names:
        if names.count(column) > 1:
            raise ModelError(COLUMN_TAKEN_TWICE.format(name=name, column=column))


def make_columns(
    features: Sequence[Feature], values: NDArray[np.floating], columns: Sequence[str] = ()
) -> dict[str, NDArray[Any]]:
    """Return these rows as columns with the names of a frame, for all features or only these columns."""
    return {
        column_name(feature): column_values(feature, values[:, place])
        for place, feature in enumerate(features)
        if feature.model_input and (not columns or column_name(feature) in columns)
    }


def make_frame(features: Sequence[Feature], values: NDArray[np.floating], columns: Sequence[str] = ()) -> Any:
    """Return these rows as a pandas frame, with all features or only these columns."""
    return _pandas().DataFrame(make_columns(features, values, columns), columns=list(columns) or None)


def _pandas() -> Any:
    try:
        return import_module("pandas")
    except ImportError:
        raise ModelError(NEEDS_PANDAS) from None


def column_values(feature: Feature, column: NDArray[np.floating]) -> NDArray[Any]:
    """Return one column of the frame; missing values are NaN in a column of texts or doubles."""
    missing = np.isnan(column)
    if missing.any():
        shown = column_values(feature, column[~missing])
        filled = np.full(len(column), np.nan, object if shown.dtype.kind in "Ob" else np.float64)
        filled[~missing] = shown
        return filled
    if is_text(feature):
        return np.ascontiguousarray(encode_feature(feature, column, text=True)[:, 0])
    if isinstance(feature, CategoryFeature) and feature.codes is None:
        return np.array(words(feature), np.int64)[column.astype(np.intp)]
    numbers = encode_feature(feature, column)[:, 0]
    return numbers.astype(bool if is_boolean(feature) else np.int64 if is_whole(feature) else np.float64)


class OwnFrame:
    """Function from feature values to a frame with the cells and column types of the rows' original frame.

    A model that was fitted on such a frame gets its categories, booleans and missing values unchanged; only a column
    that the spec changes is computed from its feature. Rows with equal values are one input, so different cells with
    the same value are refused, because the model may distinguish them. `columns` are those that the model takes, in
    order; the rows are those of a frame, or of a mapping of columns.
    """

    def __init__(self, features: Sequence[Feature], columns: Sequence[str], rows: TableRows) -> None:
        assert rows.table is not None
        named = {column_name(feature): (place, feature) for place, feature in enumerate(features)}
        frame = pandas_frame(rows.table.frame, columns)
        # The rows may be a part of the table: some were dropped, or a repair divides them.
        if not np.array_equal(rows.numbers, np.arange(1, len(frame) + 1)):
            frame = frame.iloc[rows.numbers - 1]
        owned = {str(name).strip(): place for place, name in enumerate(frame.columns)}
        self._columns: list[tuple[Any, int, Callable[[NDArray[Any]], Any]]] = []
        self._chosen: tuple[NDArray[Any], NDArray[np.int64]] | None = None
        shown: dict[str, Any] = {}
        for column in columns:
            place, feature = named[column]
            label, show = column, cast(Callable[[NDArray[Any]], Any], partial(column_values, feature))
            if column in owned and _is_as_given(feature, rows.table.cells(column), rows, place):
                label, series = frame.columns[owned[column]], frame.iloc[:, owned[column]]
                show = _own_cells(feature, series, rows, place)
            else:
                shown[column] = show(rows.values[:, place])
            self._columns.append((label, place, show))
        # All rows of the table are shown as they were given.
        self._table = rows.values
        if shown:
            shown |= {column: frame.iloc[:, owned[column]] for column in columns if column not in shown}
            self._frame = import_module("pandas").DataFrame(shown, index=frame.index, columns=list(columns))
            self._frame.columns = [label for label, _, _ in self._columns]
        else:
            self._frame = frame.iloc[:, [owned[column] for column in columns]]

    def choose(self, places: NDArray[np.int64]) -> NDArray[Any]:
        """Return the feature values of the rows at these indices; the next call shows their original cells."""
        values = self._table[places]
        self._chosen = values, places
        return values

    def __call__(self, values: NDArray[Any]) -> Any:
        """Return the frame for these rows of feature values."""
        if values is self._table:
            return self._frame.copy(deep=False)
        if self._chosen is not None and values is self._chosen[0]:
            return self._frame.take(self._chosen[1])
        return import_module("pandas").DataFrame(
            {label: show(values[:, place]) for label, place, show in self._columns}
        )


def pandas_frame(source: Any, columns: Sequence[str]) -> Any:
    """Return a pandas frame unchanged; a polars frame or a mapping as a pandas frame with these of its columns."""
    pandas = _pandas()
    package = frame_package(source, "DataFrame")
    if package == "pandas":
        return source
    made = {}
    for name in source if package is None else source.columns:
        if str(name).strip() in columns:
            cells = source[name]
            if frame_package(cells, "Series") == "polars":
                plain = cells.dtype.is_numeric() and not cells.dtype.is_decimal()
                cells = cells.to_numpy() if plain else cells.to_list()
            made[name] = pandas.Series(cells).reset_index(drop=True)
    return pandas.DataFrame(made)


def _is_as_given(feature: Feature, cells: Column, rows: TableRows, place: int) -> bool:
    """Return whether the spec does not change any cell of a column."""
    if feature.missing is not None or feature.one_hot:
        return False
    if not isinstance(feature, CategoryFeature):
        return isinstance(cells, NumberCells) and is_plain(feature) and not feature.clip
    if feature.codes is None:
        return True
    if not isinstance(cells, NumberCells):
        return cells.booleans and is_boolean(feature)
    known = ~np.isnan(rows.values[:, place])
    numbers = cells.values[rows.numbers - 1][known].astype(np.float64)
    return np.array_equal(encode_feature(feature, rows.values[known, place])[:, 0], numbers)


def _own_cells(feature: Feature, series: Any, rows: TableRows, place: int) -> Callable[[NDArray[Any]], Any]:
    """Return a function from values of a feature to cells of its column; refuse different cells with the same value."""
    assert rows.table is not None
    column, dtype, cells = rows.values[:, place], series.dtype, rows.table.cells(column_name(feature))
    kind = getattr(dtype, "kind", "O")
    if kind in "iu":
        plain = series.to_numpy() if isinstance(dtype, np.dtype) else series.dropna()
        if len(plain) and max(abs(int(plain.min())), abs(int(plain.max()))) > MOST_EXACT:
            raise DataError(TOO_LARGE_TO_DIFFER.format(column=series.name))
    missing, category = np.isnan(column), isinstance(feature, CategoryFeature)
    exact = isinstance(dtype, np.dtype) and kind in "iuf" and dtype.itemsize <= np.dtype(np.float64).itemsize
    if not category and exact and (not missing.any() or bool(series.isna().to_numpy()[missing].all())):
        return partial(_in_type, dtype)
    own = OwnCells(feature, series, column)
    if not category or not isinstance(cells, CodedCells) or frame_package(rows.table.frame, "DataFrame") != "pandas":
        own.must_be_alike(_numbered(series))
    elif cells.has_variants or missing.any():
        # Otherwise each value has one cell.
        own.must_be_alike(cells.codes[rows.numbers - 1])
    return own


def _in_type(dtype: np.dtype[Any], column: NDArray[Any]) -> NDArray[Any]:
    """Return numbers in a type; with missing values, which integer types lack, as doubles."""
    return column if dtype.kind != "f" and np.isnan(column).any() else column.astype(dtype)


def _bits(column: NDArray[Any]) -> NDArray[np.uint64]:
    """Return doubles as bits, which distinguish 0.0 and -0.0; all NaN have the same bits."""
    return np.where(np.isnan(column), np.nan, column).astype(np.float64).view(np.uint64)


def _numbered(series: Any) -> NDArray[np.intp]:
    """Return a number for each cell, equal for cells of one type with the same text."""
    pandas = import_module("pandas")
    if series.dtype != object and getattr(series.dtype, "kind", "O") != "f":
        return np.asarray(pandas.factorize(series)[0], np.intp)
    cells = series.to_numpy(object)
    if pandas.api.types.infer_dtype(series, skipna=True) == "string":
        return Index().codes(cells)
    # Some floating-point types distinguish NaN from a missing value, and all distinguish 0.0 from -0.0.
    return Index().codes([f"{type(cell)} {cell!r}" for cell in series])


@dataclass(eq=False)
class OwnCells:
    """Function from values of a feature to the cells of a column of the table; `values` are those of its rows."""

    feature: Feature
    series: Any
    values: NDArray[Any]

    @cached_property
    def _known(self) -> NDArray[np.uint64]:
        """The sorted bits of the numbers in the table."""
        return np.unique(_bits(self.values))

    def _places(self, column: NDArray[Any]) -> NDArray[np.intp]:
        """Return the index of each value among those of a category, with missing last, or among known numbers."""
        if isinstance(self.feature, CategoryFeature):
            return np.where(np.isnan(column), len(self.feature.values), column).astype(np.intp)
        return np.minimum(np.searchsorted(self._known, _bits(column)), len(self._known) - 1)

    @cached_property
    def _rows(self) -> NDArray[np.intp]:
        """The first row with each value, -1 if none."""
        feature = self.feature
        rows = np.full(len(feature.values) + 1 if isinstance(feature, CategoryFeature) else len(self._known), -1)
        rows[self._places(self.values)[::-1]] = np.arange(len(self.values) - 1, -1, -1)
        return rows

    def must_be_alike(self, numbers: NDArray[np.intp]) -> None:
        """Raise a DataError if different cells have the same value; `numbers` identify the different cells."""
        first, cells = self._rows[self._places(self.values)], self.series.array
        for row in np.flatnonzero(numbers != numbers[first]).tolist():
            one, two = cells[int(first[row])], cells[row]
            if type(one) is not type(two) or repr(one) != repr(two):
                raise DataError(CELLS_ALIKE.format(column=self.feature.name, one=repr(one), two=repr(two)))

    @cached_property
    def _cells(self) -> Any:
        """An array of the column's type with the cell of each value."""
        cells = self.series.array.take(np.maximum(self._rows, 0))
        unseen = np.flatnonzero(self._rows < 0).tolist()
        if not unseen:
            return cells
        assert isinstance(self.feature, CategoryFeature)
        cells, dtype, names = cells.astype(object), self.series.dtype, words(self.feature)
        truths = any(isinstance(cell, bool | np.bool_) for cell in cells)
        known = {str(each): each for each in getattr(dtype, "categories", (False, True) if truths else ())}
        # The spec may write 1.0 as 1.
        known |= {f"{each:g}": each for each in known.values() if isinstance(each, float)}
        plain = isinstance(dtype, np.dtype) and dtype.kind in "biu"
        for place in unseen:
            if place < len(names):
                cells[place] = self._cell_of(known.get(str(names[place]), names[place]), known)
            else:
                # A column of booleans or integers has no missing value, and none is needed.
                cells[place] = cells[0] if plain else None if known else np.nan
        return import_module("pandas").array(cells, dtype=dtype)

    def _cell_of(self, value: Any, known: Mapping[str, Any]) -> Any:
        """Return a value as a cell of the column's type; raise a DataError if this type cannot contain it."""
        dtype, text, cell = self.series.dtype, str(value), None
        if text in known or not hasattr(dtype, "categories"):
            with suppress(ValueError, TypeError, OverflowError), np.errstate(over="ignore"):
                (cell,) = import_module("pandas").array([value], dtype=dtype)
        same = np.isfinite(cell) if isinstance(cell, float | np.floating) else str(cell) == text
        if cell is None or not same:
            raise DataError(NOT_OF_TYPE.format(column=self.feature.name, value=shown(text), type=dtype))
        return cell

    def __call__(self, column: NDArray[Any]) -> Any:
        """Return the cells with these values, as a series of the column's type."""
        pandas, dtype = import_module("pandas"), self.series.dtype
        places = self._places(column)
        cells = self._cells.take(places)
        if not isinstance(self.feature, CategoryFeature):
            other = np.flatnonzero(self._known[places] != _bits(column)).tolist()
            if other:
                # Numbers that occur in no row, in the type of the others.
                kind, cells = type(next(iter(self.series.dropna()), 0.0)), cells.astype(object)
                for row in other:
                    cells[row] = None if np.isnan(column[row]) else kind(column[row])
                cells = pandas.array(cells, dtype=dtype)
        return pandas.Series(cells, dtype=dtype)
