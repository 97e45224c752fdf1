"""Encoding of one feature for the network: a number's steps, bins or scale, a category's code, name or one-hot span.

Arithmetic is done in double precision; the cast to the type of the network's input comes last, in `inputs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.spec import CategoryFeature, Feature, IntegerFeature, RealFeature

NumberFeature = IntegerFeature | RealFeature
# Single precision represents every integer up to this one.
EXACT_IN_SINGLE = 2**24
# Up to this number of edges, comparing with each edge is faster than a binary search.
FEW_BIN_EDGES = 20


def widths(features: Sequence[Feature]) -> list[int]:
    """Return the number of network inputs of each feature."""
    return [_width(feature) for feature in features]


def _width(feature: Feature) -> int:
    if not feature.model_input:
        return 0
    if not feature.one_hot:
        return 1
    return len(feature.values) if isinstance(feature, CategoryFeature) else len(feature.bins or ()) + 1


def is_plain(feature: Feature) -> bool:
    """Return whether the network gets the feature's value unchanged."""
    if isinstance(feature, CategoryFeature):
        return feature.codes is None and not feature.one_hot
    return feature.step is None and feature.bins is None and feature.scale is None


def is_whole(feature: Feature) -> bool:
    """Return whether the network gets only integers for the feature."""
    if isinstance(feature, CategoryFeature):
        return all(code == int(code) for code in feature.codes or ())
    counted = isinstance(feature, IntegerFeature) or feature.step is not None or feature.bins is not None
    return counted and feature.scale is None


def fits_single(feature: Feature) -> bool:
    """Return whether a single-precision network gets the same numbers if the feature is drawn in single precision.

    A real number at the edge of a bin may be encoded differently: 0.7 becomes 0.69999999.
    """
    if isinstance(feature, CategoryFeature) or is_plain(feature):
        return True
    return isinstance(feature, IntegerFeature) and max(abs(feature.low), abs(feature.high)) <= EXACT_IN_SINGLE


def extremes(feature: Feature) -> tuple[float, ...]:
    """Return the smallest and the largest number that the network can get for the feature, or all of them."""
    if feature.one_hot:
        return 0.0, 1.0
    if isinstance(feature, CategoryFeature):
        return feature.codes or (0, len(feature.values) - 1)
    if is_plain(feature):
        return feature.low, feature.high
    # Counting steps, counting edges and scaling all preserve the order.
    low, high = _from_number(feature, np.array([feature.low, feature.high], np.float64)).tolist()
    return low, high


def words(feature: CategoryFeature) -> tuple[str | int, ...]:
    """Return the table's name of each value, which a model that was fitted on the table uses."""
    return feature.aliases or feature.values


def encode_feature(feature: Feature, column: NDArray[np.floating], *, text: bool = False) -> NDArray[Any]:
    """Return the network's inputs for these values of a feature, (rows, width of the feature).

    With `text` a category is given by its name.
    """
    if is_plain(feature) and not text:
        return column[:, None]
    if isinstance(feature, CategoryFeature):
        missing = np.isnan(column)
        some = missing.any()
        if some and (text or feature.one_hot):
            raise ModelError(
                f'feature "{feature.name}": a missing value has no {"name" if text else "one-hot input"} in the '
                "network; state missing = ... in the [[feature]], or leave such rows out: drop_missing = true in "
                "[population]"
            )
        places = (np.where(missing, 0, column) if some else column).astype(np.intp)
        if text:
            return np.array([str(word) for word in words(feature)], object)[places][:, None]
        if feature.one_hot:
            return np.eye(len(feature.values), dtype=column.dtype)[places]
        codes = np.asarray(feature.codes, np.float64)[places]
        if some:
            codes[missing] = np.nan
        return codes[:, None]
    numbers = _from_number(feature, column.astype(np.float64, copy=False))
    if feature.one_hot:
        return np.eye(_width(feature))[numbers.astype(np.intp)]
    return numbers[:, None]


def _from_number(feature: NumberFeature, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    if feature.bins is not None:  # the number of edges up to each value
        if len(feature.bins) > FEW_BIN_EDGES:
            return np.searchsorted(np.asarray(feature.bins, np.float64), numbers, side="right").astype(np.float64)
        count = np.zeros(numbers.shape)
        for edge in feature.bins:
            count += numbers >= edge
        return count
    if feature.step is not None:
        numbers = np.floor(numbers / feature.step)
    if feature.scale is not None:
        # Either mean and std are given or low and high: the spec was checked.
        zero = feature.scale.mean or feature.scale.low or 0.0
        unit = feature.scale.std or (feature.scale.high or 0.0) - zero
        with np.errstate(over="ignore"):  # values that do not fit are refused when the network is loaded
            numbers = (numbers - zero) / unit
    return numbers
