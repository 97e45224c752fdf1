"""The input of a function: an array as for a network, a frame, or raw texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from fairchain.errors import ModelError
from fairchain.models.adapters.answer_memo import RowArray
from fairchain.models.file_frames import with_own_cells
from fairchain.models.frames import OwnFrame, make_frame
from fairchain.models.onnx.inputs import plan_feed
from fairchain.models.onnx.runtime import TensorInfo
from fairchain.spec import Spec, TextFeature
from fairchain.tables import TableRows

TEXTS_NOT_WORDS = (
    '{name}: gets whole texts, and feature "{feature}" has vectors or vocabulary and length, which are for networks '
    "of words; remove these keys from the [[feature]]"
)


def row_values(rows: TableRows | None) -> RowArray | None:
    """Return the feature values of the rows, if any."""
    return None if rows is None else rows.values


def show_frame(spec: Spec, columns: Sequence[str], rows: TableRows | None) -> Callable[[RowArray], Any]:
    """Return a function from feature values to a frame with these columns, if possible with the rows' own cells."""
    rows = None if rows is None else with_own_cells(rows, spec)
    if rows is not None and rows.table is not None:
        return OwnFrame(spec.features, columns, rows)
    return partial(make_frame, spec.features, columns=columns)


def flat_array(spec: Spec, name: str) -> Callable[[RowArray], Any]:
    """Return a function from feature values to the array that a network with one input of doubles would get."""
    features = [replace(feature, input=None) for feature in spec.features]  # there is one input, and it has no name
    feed = plan_feed(Path(name), features, [TensorInfo("input", "tensor(double)", ("N", "features"))])
    return lambda values: feed(values)["input"]


def texts_of(text: TextFeature, name: str) -> Callable[[RowArray], list[str]]:
    """Return a function from rows of one text each to a list of unchanged texts."""
    if not text.raw:
        raise ModelError(TEXTS_NOT_WORDS.format(name=name, feature=text.name))
    return lambda values: values[:, 0].tolist()


def apart(shown: Any, values: RowArray) -> Any:
    """Return a copy of the input, so that a function may modify it."""
    if isinstance(shown, tuple):
        return tuple(apart(part, values) for part in shown)
    return shown.copy() if isinstance(shown, np.ndarray) and np.may_share_memory(shown, values) else shown


def describe_call(shown: Any) -> str:
    """Describe the argument of a function, for the message about its failure."""
    if isinstance(shown, list):
        return f"{len(shown)} texts"
    if isinstance(shown, tuple) and len(shown) == 1:
        return describe_call(shown[0])
    if isinstance(shown, tuple):
        return f"arrays of shapes {', '.join(str(part.shape) for part in shown)}"
    if isinstance(shown, np.ndarray):
        return f"an array of shape {shown.shape}"
    if isinstance(shown, dict):
        return f"columns {', '.join(map(str, shown))}"
    return f"a frame with columns {', '.join(map(str, shown.columns))}"
