"""From feature values to the network's inputs: the assignment of features, number types, one tensor or several.

Feature values are a matrix in the user's units, with a column for each feature, and category values as their index. The
encoding of values is in `feature_encoding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.onnx.feature_encoding import encode_feature, extremes, fits_single, is_plain, is_whole, widths
from fairchain.models.onnx.tensor_facts import SIZE_BITS
from fairchain.spec import CategoryFeature, Feature

TYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int16)": np.int16,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.object_,
}


# Largest number of rows in one call: the proof that rows are independent holds for fewer than 2^SIZE_BITS.
MOST_CALL_ROWS = 2**SIZE_BITS - 1
NO_FEATURE = "no feature for {missing}; "
FEATURES_DO_NOT_FILL_INPUT = '{path}: input "{name}" takes {shape} values and {features} {width}'
NO_FEATURE_AXIS = (
    '{path}: input "{name}" has shape {shape}, without an axis for features; export the network with a batch dimension '
    "first: [batch, features]"
)
INPUT_TYPE_TOO_SMALL = (
    '{path}: input "{name}" takes {kind}, which cannot represent every value of feature "{feature_name}"; narrow '
    "the feature, or export the network with another input type"
)
TEXT_INPUT_NEEDS_CATEGORY = (
    '{path}: input "{name}" takes text and gets the names of the values; remove codes of feature "{feature_name}"'
)
INPUT_WIDTH_DIFFERS = (
    '{path}: input "{name}" takes {shape} values and the spec has {detail}; describe every network input in order, one '
    "[[feature]] each (one_hot = true spans one per value or bin, model_input = false none)"
)


class InputSlot(Struct, frozen=True):
    """One input of the network: its name, number type, shape after the batch, and the features that fill it.

    `steps_first` is set for a series whose steps come before the batch: (steps, batch, values of a step).
    """

    name: str
    dtype: Any
    shape: tuple[int, ...]
    features: tuple[int, ...]
    steps_first: bool = False


class Feed(Struct, frozen=True):
    """Conversion of a matrix of feature values to the network's inputs; `batch` is the fixed size, if any."""

    features: tuple[Feature, ...]
    slots: tuple[InputSlot, ...]
    plain: bool
    batch: int | None = None

    def __call__(self, values: NDArray[np.floating]) -> dict[str, NDArray[Any]]:
        """Return the network's inputs for these rows."""
        if self.plain and values.dtype == self.slots[0].dtype:
            return {self.slots[0].name: values}
        return {slot.name: self._fill(slot, values) for slot in self.slots}

    @property
    def rows(self) -> int:
        """How many rows can be given to the network at once."""
        return self.batch or MOST_CALL_ROWS

    def parts(self, values: NDArray[Any]) -> list[NDArray[np.intp]]:
        """Return the rows that are evaluated together."""
        return chunks(len(values), self.rows)

    def shapes(self, _inputs: Sequence[Any]) -> dict[str, tuple[int | str | None, ...]]:
        """Return the shape of each of the network's inputs, None for the batch."""
        return {
            slot.name: (slot.shape[0], None, *slot.shape[1:]) if slot.steps_first else (None, *slot.shape)
            for slot in self.slots
        }

    @property
    def dtype(self) -> np.dtype[Any]:
        """Number type in which values are drawn: single precision if the network takes nothing else."""
        taken = all(slot.dtype in (np.float32, np.float16) for slot in self.slots)
        single = taken and all(fits_single(feature) for feature in self.features if feature.model_input)
        return np.dtype(np.float32 if single else np.float64)

    def _fill(self, slot: InputSlot, values: NDArray[np.floating]) -> NDArray[Any]:
        filled = np.empty((len(values), prod(slot.shape)), slot.dtype)
        text = slot.dtype is np.object_
        start = 0
        # Neighbours that need no change are copied together: one column at a time costs ten times as much.
        for (plain, _), run in groupby(
            enumerate(slot.features), lambda each: (not text and is_plain(self.features[each[1]]), each[1] - each[0])
        ):
            places = [place for _, place in run]
            blocks = (
                [values[:, places[0] : places[-1] + 1]]
                if plain
                else (encode_feature(self.features[place], values[:, place], text=text) for place in places)
            )
            for block in blocks:
                filled[:, start : start + block.shape[1]] = block
                start += block.shape[1]
        filled = filled.reshape(len(values), *slot.shape)
        return np.ascontiguousarray(filled.swapaxes(0, 1)) if slot.steps_first else filled


def chunks(rows: int, size: int) -> list[NDArray[np.intp]]:
    """Return the indices of rows in runs of at most this size."""
    return [np.arange(start, min(start + size, rows)) for start in range(0, max(rows, 1), size)]


def plan_feed(path: Path, features: Sequence[Feature], inputs: Sequence[Any]) -> Feed:
    """Match features with the network's inputs, or raise a ModelError that states the mismatch."""
    features = tuple(features)
    for node in inputs:
        if node.type not in TYPES:
            raise ModelError(f'{path}: input "{node.name}" has type {node.type}, which no feature can fill')
    if len(inputs) == 1:
        for feature in features:
            if feature.model_input and feature.input not in (None, inputs[0].name):
                raise ModelError(
                    f'{path}: feature "{feature.name}".input: unknown input "{feature.input}"; '
                    f'all features fill "{inputs[0].name}", so remove input = ...'
                )
        slots = [_flat_slot(path, features, inputs[0])]
    else:
        slots = _slot_per_input(path, features, inputs)
    for slot in slots:
        for place in slot.features:
            _must_hold(path, slot, features[place])
    one_list = len(slots) == 1 and len(slots[0].shape) == 1
    plain = one_list and all(is_plain(feature) and feature.model_input for feature in features)
    batch = inputs[0].shape[slots[0].steps_first] if inputs[0].shape else None
    return Feed(features, tuple(slots), plain, batch if isinstance(batch, int) else None)


def _must_hold(path: Path, slot: InputSlot, feature: Feature) -> None:
    """Refuse values that a conversion would change silently: fractions as integers, numbers beyond the type's range."""
    kind = "text" if slot.dtype is np.object_ else np.dtype(slot.dtype).name
    if kind == "text":
        fits = isinstance(feature, CategoryFeature)
        if fits and not is_plain(feature):
            raise ModelError(TEXT_INPUT_NEEDS_CATEGORY.format(path=path, name=slot.name, feature_name=feature.name))
    else:
        least, most = 0.0, 1.0
        if kind.startswith("float"):
            least, most = float(np.finfo(slot.dtype).min), float(np.finfo(slot.dtype).max)
        elif kind != "bool":
            least, most = np.iinfo(slot.dtype).min, np.iinfo(slot.dtype).max
        fits = all(least <= value <= most for value in extremes(feature))
        fits = fits and (is_whole(feature) or kind.startswith("float"))
    if not fits:
        raise ModelError(INPUT_TYPE_TOO_SMALL.format(path=path, name=slot.name, kind=kind, feature_name=feature.name))


def _flat_slot(path: Path, features: tuple[Feature, ...], node: Any) -> InputSlot:
    spans = widths(features)
    width = sum(spans)
    fixed = [isinstance(size, int) for size in node.shape]
    # If the second of three axes is free, it is a batch of series: (steps, batch, values of a step).
    steps_first = fixed == [True, False, True] and bool(node.shape[0] * node.shape[2] == width)
    declared = node.shape[:1] + node.shape[2:] if steps_first else node.shape[1:]
    known = prod(size for size in declared if isinstance(size, int))
    free = sum(not isinstance(size, int) for size in declared)
    # A single free axis has the size that the other axes leave for the features.
    rest = width // known if free == 1 and known and width % known == 0 else width
    shape = tuple(size if isinstance(size, int) else rest for size in declared)
    if not shape:
        raise ModelError(NO_FEATURE_AXIS.format(path=path, name=node.name, shape=list(node.shape)))
    seen = [place for place, feature in enumerate(features) if feature.model_input]
    if prod(shape) != width:
        detail = f"{len(seen)} [[feature]] tables" + (f" that span {width} inputs" if width != len(seen) else "")
        raise ModelError(INPUT_WIDTH_DIFFERS.format(path=path, name=node.name, shape=prod(shape), detail=detail))
    return InputSlot(node.name, TYPES[node.type], shape, tuple(seen), steps_first)


def _slot_per_input(path: Path, features: tuple[Feature, ...], inputs: Sequence[Any]) -> list[InputSlot]:
    """Return a slot for each input, filled by the features that name it, or otherwise by the feature with its name."""
    filled: dict[str, list[int]] = {}
    for place, feature in enumerate(features):
        if feature.model_input:
            filled.setdefault(feature.input or feature.name, []).append(place)
    names = [node.name for node in inputs]
    missing, extra = sorted(set(names) - set(filled)), sorted(set(filled) - set(names))
    if missing or extra:
        raise ModelError(
            f"{path}: the network has {len(names)} inputs, {', '.join(names)}; "
            + (NO_FEATURE.format(missing=", ".join(missing)) if missing else "")
            + (f"no input for {', '.join(extra)}; " if extra else "")
            + 'name each [[feature]] like its input, or add input = "..." to it; several may fill one input, in order'
        )
    spans = widths(features)
    slots = []
    for node in inputs:
        places = filled[node.name]
        width = sum(spans[place] for place in places)
        shape = tuple(width if not isinstance(size, int) else size for size in node.shape[1:])
        if prod(shape) != width:
            shown = ", ".join(f'"{features[place].name}"' for place in places)
            given = f"features {shown} give" if len(places) > 1 else f"feature {shown} gives"
            raise ModelError(
                FEATURES_DO_NOT_FILL_INPUT.format(
                    path=path, name=node.name, shape=prod(shape), features=given, width=width
                )
            )
        slots.append(InputSlot(node.name, TYPES[node.type], shape, tuple(places)))
    return slots


def distinct_rows(values: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
    """Return the first index of each distinct text, and the index of each text among these; None if all differ."""
    if values.dtype != object or len(values) < 2:
        return None
    first: dict[str, int] = {}
    which = np.array([first.setdefault(text, len(first)) for text in values[:, 0].tolist()])
    return None if len(first) == len(values) else (np.unique(which, return_index=True)[1], which)
