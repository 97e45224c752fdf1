"""The rows of a call in fairlearn's words: groups and labels from lists, arrays, frames or mappings, checked.

Packages for tables are not imported; their objects are known by what they can do.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError
from fairchain.statistics.rate_counts import SubgroupCounts
from fairchain.tables.frames import has_masked

Truth = bool | None
Objects = NDArray[Any]

NO_WEIGHTS = (
    "sample_weight: the bounds count people, and weighted people cannot be counted; leave it out, or repeat the "
    "question on the rows of one weight"
)


@dataclass(frozen=True, eq=False)
class MetricRows:
    """The rows as the metrics need them: who belongs to which group, who is selected, who truly has label 1."""

    groups: list[Hashable]
    codes: NDArray[np.intp]
    selected: NDArray[np.bool_]
    truths: Objects

    def counts(self, truth: Truth, *, overall: bool) -> SubgroupCounts:
        """People of each group, and of all together if wanted, with this true label; and those selected."""
        mine = slice(None) if truth is None else self._is_true() == truth
        counts = tally(self.codes[mine], len(self.groups), self.selected[mine])
        empty = np.flatnonzero(counts.trials == 0)
        if len(empty):
            raise DataError(
                f"y_true: nobody in the group {self.groups[empty[0]]!r} has the true label {int(bool(truth))}, so that "
                "the rate among them is not known; leave the rows of this group out, or join it with another"
            )
        if not overall:
            return counts
        return SubgroupCounts(
            np.append(counts.trials, counts.trials.sum()), np.append(counts.successes, counts.successes.sum())[None]
        )

    def _is_true(self) -> NDArray[np.bool_]:
        """Who truly has label 1; these labels are checked here only, since demographic parity does without them."""
        return _is_one("y_true", _without_missing("y_true", self.truths))


def read_rows(y_true: Any, y_pred: Any, sensitive_features: Any, sample_weight: Any) -> MetricRows:
    """Check the arguments of a metric and bring them into arrays."""
    if sample_weight is not None:
        raise DataError(NO_WEIGHTS)
    truths, labels = _one_dimensional("y_true", y_true), read_column("y_pred", y_pred)
    if len(truths) != len(labels):
        raise DataError(f"y_true: {len(truths)} rows, but y_pred has {len(labels)}; give one true label for each")
    groups, codes = read_groups(sensitive_features, len(labels))
    if len(groups) < 2:
        raise DataError(
            f"sensitive_features: every row has the group {groups[0]!r}, nothing to compare; give at least two groups"
        )
    return MetricRows(groups, codes, _is_one("y_pred", labels), truths)


def tally(codes: NDArray[np.intp], groups: int, selected: NDArray[np.bool_]) -> SubgroupCounts:
    """How many people each group has, and how many of them are selected."""
    trials, successes = np.bincount(codes, minlength=groups), np.bincount(codes[selected], minlength=groups)
    return SubgroupCounts(trials, successes[None])


def read_column(name: str, values: Any) -> Objects:
    """A column as a one-dimensional array in which no value is missing."""
    return _without_missing(name, _one_dimensional(name, values))


def _one_dimensional(name: str, values: Any) -> Objects:
    if has_masked(values):
        raise DataError(f"{name}: has masked values; fill them or leave these rows out")
    # A list of mixed types must not become one of texts.
    array = np.asarray(values, dtype=object) if isinstance(values, list | tuple) else np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{name}: found {_shape(array)}; give one value for each row: a list, an array or a column")
    if not len(array):
        raise DataError(f"{name}: there are no rows; give at least one")
    return array


def _without_missing(name: str, array: Objects) -> Objects:
    missing = np.flatnonzero(_missing(array))
    if len(missing):
        raise DataError(
            f"{name}: {len(missing)} of {len(array)} rows have no value, the first is row {missing[0] + 1}; "
            "fill them, for example with 'unknown', or leave these rows out"
        )
    return array


def _shape(array: Objects) -> str:
    return "a single value" if array.ndim == 0 else f"an array of shape {array.shape}"


def _missing(array: Objects) -> NDArray[np.bool_]:
    if array.dtype.kind in "fcmM":
        return np.asarray(array != array)  # noqa: PLR0124  # only NaN and NaT differ from themselves
    if array.dtype.kind != "O":
        return np.zeros(len(array), bool)
    return np.fromiter(map(_is_missing, array), bool, len(array))


def _is_missing(value: object) -> bool:
    if value is None or value is np.ma.masked:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124
    except (TypeError, ValueError, ArithmeticError):
        # A missing value of pandas, and a signalling NaN, refuse to say whether they differ from themselves.
        return True


def read_groups(features: Any, rows: int) -> tuple[list[Hashable], NDArray[np.intp]]:
    """The groups in order, and the number of each row's group."""
    columns = _feature_columns(features)
    for name, column in columns.items():
        if len(column) != rows:
            raise DataError(f"{name}: {len(column)} rows, but y_pred has {rows}; give one value for each row")
    keys: list[Any] = [column.tolist() for column in columns.values()]
    values = keys[0] if len(keys) == 1 else list(zip(*keys, strict=True))
    found = distinct("sensitive_features", values)
    try:
        found.sort()
    except TypeError:
        found.sort(key=str)
    index = {group: i for i, group in enumerate(found)}
    return found, np.fromiter(map(index.__getitem__, values), np.intp, rows)


def _feature_columns(features: Any) -> dict[str, Objects]:
    """Every sensitive feature as a column, under the name that a message gives it."""
    if isinstance(features, Mapping) or hasattr(features, "columns"):
        names = list(features) if isinstance(features, Mapping) else list(features.columns)
        if not names:
            raise DataError("sensitive_features: there is no column; give at least one")
        return {
            f'sensitive_features "{name}"': read_column(f'sensitive_features "{name}"', features[name])
            for name in names
        }
    name = "sensitive_features"
    if isinstance(features, np.ndarray) and features.ndim == 2 and features.shape[1] > 1:
        return {
            f"{name}, column {i + 1}": read_column(f"{name}, column {i + 1}", each) for i, each in enumerate(features.T)
        }
    if isinstance(features, list | tuple) and any(isinstance(each, list | tuple | np.ndarray) for each in features):
        raise DataError(f'{name}: found a list of lists; name the columns: {{"sex": [...], "race": [...]}}')
    return {name: read_column(name, features)}


def distinct(name: str, values: Iterable[Any]) -> list[Any]:
    """Return the different values in the order they come; a DataError names the argument if they cannot be compared."""
    try:
        return list(dict.fromkeys(values))
    except TypeError:
        raise DataError(f"{name}: a value is a list or the like; give plain values or texts") from None


def is_binary(labels: Sequence[Any]) -> bool:
    """Whether the labels are those of which 1 is known to be the positive one."""
    return set(labels) <= {0, 1} or set(labels) <= {-1, 1}


def _is_one(name: str, labels: Objects) -> NDArray[np.bool_]:
    """Which labels are 1, if they are 0 and 1, or -1 and 1."""
    found = distinct(name, labels.tolist())
    if not is_binary(found):
        many = f"{len(found)} labels, {some(found)}" if len(found) > 2 else f"the labels {some(found)}"
        raise DataError(f"{name}: found {many}; they must be 0 and 1, or -1 and 1: write {name} == {found[-1]!r}, say")
    return np.equal(labels, 1).astype(bool)


def some(values: Sequence[Any], most: int = 5) -> str:
    """A few values, for a message."""
    shown = ", ".join(repr(value)[:40] for value in values[:most])
    return f"{shown}, ..." if len(values) > most else shown
