"""Feature values as a pandas frame, for models that were made for frames.

The frame has a column for each feature under the table's name for it, whole numbers as whole numbers, categories by the
words of the table. pandas is imported when the first frame is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.onnx.feature_encoding import encode, is_whole, words
from fairchain.spec import CategoryFeature, Feature


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
        raise ModelError(
            f"as_frames: found {type(function).__name__}; give a function, for example as_frames(m.predict)"
        )
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
            raise ModelError(
                f'{name}: feature "{feature.name}".one_hot: a frame has one column for each feature; remove one_hot'
            )
    names = [column_name(feature) for feature in shown]
    for column in names:
        if names.count(column) > 1:
            raise ModelError(f'{name}: two features are column "{column}" of the frame; give each a column of its own')


def make_frame(features: Sequence[Feature], values: NDArray[np.floating], columns: Sequence[str] = ()) -> Any:
    """Return these rows as a pandas frame, with all features or with these columns only."""
    try:
        pandas = import_module("pandas")
    except ImportError:
        raise ModelError("a model that takes frames needs pandas; install it: pip install pandas") from None
    made = {
        column_name(feature): column_values(feature, values[:, place])
        for place, feature in enumerate(features)
        if feature.model_input and (not columns or column_name(feature) in columns)
    }
    return pandas.DataFrame(made, columns=list(columns) or None)


def column_values(feature: Feature, column: NDArray[np.floating]) -> NDArray[Any]:
    """Return one column of the frame."""
    if is_text(feature):
        return np.ascontiguousarray(encode(feature, column, text=True)[:, 0])
    if isinstance(feature, CategoryFeature) and feature.codes is None:
        return np.array(words(feature), np.int64)[column.astype(np.intp)]
    numbers = encode(feature, column)[:, 0]
    return numbers.astype(np.int64 if is_whole(feature) else np.float64)
