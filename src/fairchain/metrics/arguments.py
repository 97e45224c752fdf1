"""The arguments of a metric as arrays: columns without missing values, groups, and labels.

They are checked here, and a message names the argument. Packages for tables are not imported; their objects are
recognised by their methods.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError
from fairchain.tables.frames import has_masked

Objects = NDArray[Any]
NO_ROW_LABEL = "{name}: no row has the label {pos_label!r}, found {found}; state pos_label=..."


def column(name: str, values: Any, rows: int | None = None) -> Objects:
    """Return a column as a one-dimensional array without missing values."""
    return complete(name, one_dimensional(name, values, rows))


def one_dimensional(name: str, values: Any, rows: int | None = None) -> Objects:
    """Return one value for each of this number of rows, which is that of the decisions."""
    if has_masked(values):
        raise DataError(f"{name}: has masked values; fill them or leave these rows out")
    # A list of mixed types must not become one of texts.
    array = np.asarray(values, dtype=object) if isinstance(values, list | tuple) else np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        found = "a single value" if array.ndim == 0 else f"an array of shape {array.shape}"
        raise DataError(f"{name}: found {found}; give one value for each row: a list, an array or a column")
    if not len(array):
        raise DataError(f"{name}: found no rows; give at least one")
    if rows is not None and len(array) != rows:
        raise DataError(f"{name}: {len(array)} rows, but y_pred has {rows}; give one for each")
    return array


def complete(name: str, array: Objects) -> Objects:
    """Return the array; a DataError if a value is missing."""
    if array.dtype.kind in "fcmM":
        missing = np.flatnonzero(array != array)  # noqa: PLR0124  # only NaN and NaT differ from themselves
    else:
        each = map(_is_missing, array if array.dtype.kind == "O" else ())
        missing = np.flatnonzero(np.fromiter(each, bool))
    if len(missing):
        raise DataError(
            f"{name}: {len(missing)} of {len(array)} rows have no value, the first is row {missing[0] + 1}; "
            "fill them, for example with 'unknown', or leave these rows out"
        )
    return array


def _is_missing(value: object) -> bool:
    if value is None or value is np.ma.masked:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124
    except (TypeError, ValueError, ArithmeticError):
        # Comparing a missing value of pandas, or a signalling NaN, with itself raises an error.
        return True


def grouped(columns: Iterable[Objects], rows: int) -> tuple[list[Hashable], NDArray[np.intp]]:
    """Return the values that occur in order, or tuples of them for several columns, and the index of each row."""
    keys: list[Any] = [each.tolist() for each in columns]
    values = keys[0] if len(keys) == 1 else list(zip(*keys, strict=True)) if keys else [()] * rows
    found = distinct_values("sensitive_features", values)
    try:
        found.sort()
    except TypeError:
        found.sort(key=str)
    index = {group: i for i, group in enumerate(found)}
    return found, np.fromiter(map(index.__getitem__, values), np.intp, rows)


def feature_columns(argument: str, features: Any, rows: int) -> dict[str, Objects]:
    """Return the features of an argument as columns of this length, by their names; a single column may have none."""
    if isinstance(features, Mapping) or hasattr(features, "columns"):
        names = list(features) if isinstance(features, Mapping) else list(features.columns)
        if not names:
            raise DataError(f"{argument}: found no column; give at least one")
        found = {str(name): column(f'{argument} "{name}"', features[name]) for name in names}
    elif isinstance(features, np.ndarray) and features.ndim == 2 and features.shape[1] > 1:
        found = {f"column {i + 1}": column(f"{argument}, column {i + 1}", each) for i, each in enumerate(features.T)}
    elif isinstance(features, list | tuple) and any(isinstance(each, list | tuple | np.ndarray) for each in features):
        raise DataError(f'{argument}: found a list of lists; name the columns: {{"sex": [...], "race": [...]}}')
    else:
        named = getattr(features, "name", None)
        found = {named if isinstance(named, str) and named else argument: column(argument, features)}
    for name, each in found.items():
        if len(each) != rows:
            shown = argument if len(found) == 1 else f'{argument} "{name}"'
            raise DataError(f"{shown}: {len(each)} rows, but y_pred has {rows}; give one value for each row")
    return found


def distinct_values(name: str, values: Iterable[Any]) -> list[Any]:
    """Return the distinct values in order of appearance; a DataError names the argument if they cannot be compared."""
    try:
        return list(dict.fromkeys(values))
    except TypeError:
        raise DataError(f"{name}: a value is a list or another container; give plain values or texts") from None


def is_binary(labels: Sequence[Any]) -> bool:
    """Return whether 1 is known to be the positive one of these labels."""
    return set(labels) <= {0, 1} or set(labels) <= {-1, 1}


def is_one(name: str, labels: Objects) -> NDArray[np.bool_]:
    """Return which labels are 1, if they are 0 and 1, or -1 and 1."""
    found = distinct_values(name, labels.tolist())
    if not is_binary(found):
        many = f"{len(found)} labels, {some_values(found)}" if len(found) > 2 else f"the labels {some_values(found)}"
        raise DataError(
            f"{name}: found {many}; they must be 0 and 1, or -1 and 1: write for example {name} == {found[-1]!r}"
        )
    return np.equal(labels, 1).astype(bool)


def positives(name: str, labels: Objects, pos_label: Any) -> NDArray[np.bool_]:
    """Return which labels are `pos_label`; a DataError if none is, unless they are 0 and 1, or -1 and 1."""
    found = distinct_values(name, labels.tolist())
    if pos_label not in found and not is_binary(found):
        raise DataError(NO_ROW_LABEL.format(name=name, pos_label=pos_label, found=some_values(found)))
    positive: NDArray[np.bool_] = np.equal(labels, pos_label).astype(bool)
    return positive


def some_values(values: Sequence[Any], most: int = 5) -> str:
    """Return a few values, for a message."""
    shown = ", ".join(repr(value)[:40] for value in values[:most])
    return f"{shown}, ..." if len(values) > most else shown


def check_delta(delta: float) -> None:
    """Raise a DataError unless it is a probability."""
    if not 0 < delta < 1:
        raise DataError(f"delta: found {delta!r}; write a probability between 0 and 1, for example delta=0.05")
