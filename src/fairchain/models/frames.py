"""Feature values as a pandas frame, for models that were made for frames.

The frame has a column for each feature under the table's name for it, whole numbers as whole numbers, categories by the
words of the table; a missing value is NaN. Where the rows were given as a pandas frame, its own cells and types are
used (`OwnFrame`). pandas is imported when the first frame is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError, ModelError
from fairchain.messages import needs
from fairchain.models.onnx.feature_encoding import encode, is_plain, is_whole, words
from fairchain.spec import CategoryFeature, Feature

if TYPE_CHECKING:
    from fairchain.tables import TableRows

TOO_LARGE_TO_DIFFER = (
    'column "{column}": whole numbers beyond 2**53 cannot be told apart here; give them as texts, or leave the column '
    "out of the model"
)
CELLS_ALIKE = (
    'column "{column}": the cells {one} and {two} are one value of the spec, and the model may tell them apart; write '
    "them alike"
)
# Doubles hold whole numbers up to this one exactly.
MOST_WHOLE = 2**53
ONE_HOT_IN_FRAME = '{name}: feature "{feature_name}".one_hot: a frame has one column for each feature; remove one_hot'
COLUMN_TAKEN_TWICE = '{name}: two features are column "{column}" of the frame; give each a column of its own'
NOT_A_FUNCTION = "as_frames: found {type}; give a function, for example as_frames(m.predict)"
NEEDS_PANDAS = needs("a model that takes frames", "pandas")


@dataclass(frozen=True)
class FrameModel:
    """A function that takes a pandas frame; made by `as_frames`."""

    function: Callable[[Any], Any]


def as_frames(function: Callable[[Any], Any]) -> FrameModel:
    """Declare that a function takes a pandas frame in place of an array.

    Parameters
    ----------
    function
        Called with a frame that has one column for each feature of the spec, in its order, named by the feature's
        `column`, or else its name. A category is given by its name (or its `aliases`), or its code if the spec has
        `codes`; a number in the user's own units, unless the spec says what the network gets in its place. It
        returns for each row a label, a score, or a score for each label.

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
    """Return what a frame calls this feature."""
    return feature.column or feature.name


def is_text(feature: Feature) -> bool:
    """Return whether the feature is a column of texts in a frame."""
    if not isinstance(feature, CategoryFeature) or feature.codes is not None:
        return False
    return not all(isinstance(word, int) for word in words(feature))


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


def make_frame(features: Sequence[Feature], values: NDArray[np.floating], columns: Sequence[str] = ()) -> Any:
    """Return these rows as a pandas frame, with all features or with these columns only."""
    try:
        pandas = import_module("pandas")
    except ImportError:
        raise ModelError(NEEDS_PANDAS) from None
    made = {
        column_name(feature): column_values(feature, values[:, place])
        for place, feature in enumerate(features)
        if feature.model_input and (not columns or column_name(feature) in columns)
    }
    return pandas.DataFrame(made, columns=list(columns) or None)


def column_values(feature: Feature, column: NDArray[np.floating]) -> NDArray[Any]:
    """Return one column of the frame; where values are missing, NaN in a column of texts or of doubles."""
    missing = np.isnan(column)
    if missing.any():
        shown = column_values(feature, column[~missing])
        filled = np.full(len(column), np.nan, object if shown.dtype == object else np.float64)
        filled[~missing] = shown
        return filled
    if is_text(feature):
        return np.ascontiguousarray(encode(feature, column, text=True)[:, 0])
    if isinstance(feature, CategoryFeature) and feature.codes is None:
        return np.array(words(feature), np.int64)[column.astype(np.intp)]
    numbers = encode(feature, column)[:, 0]
    return numbers.astype(np.int64 if is_whole(feature) else np.float64)


class OwnFrame:
    """From feature values to a frame with the cells and column types of the pandas frame that the rows came from.

    A model that was fitted on such a frame gets its categories, booleans and marks of missing values as they were.

    Parameters
    ----------
    features
        Of the spec.
    columns
        The columns that the model takes, in order.
    rows
        Rows of a pandas frame.
    """

    def __init__(self, features: Sequence[Feature], columns: Sequence[str], rows: TableRows) -> None:
        from fairchain.tables.columns import CodedCells

        self._pandas = import_module("pandas")
        assert rows.table is not None
        frame = rows.table.frame.iloc[rows.numbers - 1] if rows.dropped else rows.table.frame
        named = {column_name(feature): (place, feature) for place, feature in enumerate(features)}
        owned = {str(name).strip(): place for place, name in enumerate(frame.columns)}
        order = [owned[column] for column in columns]
        self._columns = []
        # How to make the cells of categories, which are made once inputs other than rows of the table are shown.
        self._makers: dict[Any, Callable[[], Any]] = {}
        self._made: dict[Any, Any] = {}
        self._chosen: tuple[NDArray[Any], NDArray[np.int64]] | None = None
        # All rows of the table are shown as they were given.
        self._table, self._frame = rows.values, frame.iloc[:, order]
        for column, (label, series) in zip(columns, self._frame.items(), strict=True):
            place, feature = named[column]
            self._columns.append((label, place, series.dtype))
            if isinstance(feature, CategoryFeature):
                coded = rows.table.cells(column)
                if isinstance(coded, CodedCells):
                    codes = coded.codes[rows.numbers - 1] if rows.dropped else coded.codes
                else:
                    codes = np.unique([f"{type(cell)} {cell}" for cell in series], return_inverse=True)[1]
                self._makers[label] = partial(_cells, feature, series, rows.values[:, place], codes)
                if not isinstance(coded, CodedCells) or coded.has_variants:
                    # Different cells may be one value, which is refused.
                    self._cells_of(label)

    def _cells_of(self, label: Any) -> Any:
        """Return the cell of each value of a column of categories, and at the end that of a missing one."""
        if label not in self._made:
            self._made[label] = self._makers[label]()
        return self._made[label]

    def choose(self, places: NDArray[np.int64]) -> NDArray[Any]:
        """Return the feature values of the rows at these places; the next call shows them as they were given."""
        values = self._table[places]
        self._chosen = values, places
        return values

    def __call__(self, values: NDArray[Any]) -> Any:
        """Return the frame for these rows of feature values."""
        if values is self._table:
            return self._frame.copy(deep=False)
        if self._chosen is not None and values is self._chosen[0]:
            return self._frame.take(self._chosen[1])
        made = {}
        for label, place, numbers in self._columns:
            column = values[:, place]
            if label in self._makers:
                cells = self._cells_of(label)
                made[label] = cells.take(np.where(np.isnan(column), len(cells) - 1, column).astype(np.intp))
            elif isinstance(numbers, np.dtype):
                lacking = numbers.kind != "f" and bool(np.isnan(column).any())
                made[label] = column if lacking else column.astype(numbers)
            else:
                boxed = column.astype(object)
                boxed[np.isnan(column)] = None
                made[label] = import_module("pandas").array(boxed, dtype=numbers)
        return import_module("pandas").DataFrame(made)


def fits_own_frame(features: Sequence[Feature], columns: Sequence[str], frame: Any) -> bool:
    """Return whether the columns of a pandas frame can be shown as they are: the spec changes none of their values."""
    from fairchain.tables.frames import package_of

    if package_of(frame, "DataFrame") != "pandas":
        return False
    named = {column_name(feature): feature for feature in features}
    types = {str(name).strip(): dtype for name, dtype in zip(frame.columns, frame.dtypes, strict=True)}
    for column in columns:
        feature, dtype = named.get(column), types.get(column)
        if feature is None or dtype is None or feature.missing is not None:
            return False
        if isinstance(feature, CategoryFeature):
            changed = feature.one_hot or (feature.codes is not None and str(dtype) not in ("bool", "boolean"))
        else:
            changed = not is_plain(feature) or feature.clip or getattr(dtype, "kind", "O") not in "iuf"
        if changed:
            return False
    for place, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
        if str(name).strip() not in columns or getattr(dtype, "kind", "O") not in "iu":
            continue
        numbers = frame.iloc[:, place]
        plain = numbers.to_numpy() if isinstance(dtype, np.dtype) else numbers.dropna()
        if len(plain) and max(abs(int(plain.min())), abs(int(plain.max()))) > MOST_WHOLE:
            raise DataError(TOO_LARGE_TO_DIFFER.format(column=name))
    return True


def _cells(feature: CategoryFeature, series: Any, column: NDArray[Any], codes: NDArray[np.intp]) -> Any:
    """Return an array of the series' own type with the cell of each value, and a missing one at the end.

    `codes` are numbers of the different cells.
    """
    pandas = import_module("pandas")
    names = words(feature)
    # The first row of each different cell, then of each value.
    rows = np.full(int(codes.max()) + 1, -1)
    rows[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    rows = np.sort(rows[rows >= 0])[::-1]
    places = np.where(np.isnan(column[rows]), len(names), column[rows]).astype(np.intp)
    first = np.full(len(names) + 1, -1)
    first[places] = rows
    cells = series.array.take(np.maximum(first, 0)).astype(object)
    other = np.flatnonzero((rows != first[places]) & (places < len(names)))
    if other.size:
        one, two = series.iloc[rows[other[-1]]], cells[places[other[-1]]]
        raise DataError(CELLS_ALIKE.format(column=feature.name, one=repr(one), two=repr(two)))
    categories = {str(each): each for each in getattr(series.dtype, "categories", ())}
    for place in np.flatnonzero(first[:-1] < 0).tolist():
        cells[place] = categories.get(str(names[place]), names[place])
    if first[-1] < 0:
        # A column of booleans has no missing value, and none is wanted of it.
        cells[-1] = cells[0] if series.dtype == bool else None if categories else np.nan
    return pandas.array(cells, dtype=series.dtype)
