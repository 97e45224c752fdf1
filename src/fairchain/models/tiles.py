"""Tiles: rows of feature values that a network evaluates repeatedly while only some columns change.

A changing column has the same value in every row, or a strip of values. The network's inputs for the other columns are
computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import UnansweredError
from fairchain.models.base import Model
from fairchain.models.onnx.decision import Ends, Labels
from fairchain.models.onnx.feature_encoding import encode_feature, widths
from fairchain.models.onnx.inputs import Feed
from fairchain.models.onnx.rounding import check_alone
from fairchain.models.onnx.session import OnnxModel

Mask = NDArray[np.bool_]
Answers = TypeVar("Answers", bound=NDArray[np.integer])


class Tile:
    """Rows for one worker, (rows, features) in the model's number type; `values` are changed in place."""

    def __init__(self, model: Model, values: NDArray[Any]) -> None:
        self.values = values
        self._model = model
        self._fed: dict[str, NDArray[Any]] = {}
        # For each encoded column: the array of the network's input, and the columns of that array.
        self._places: dict[int, tuple[NDArray[Any], slice]] = {}
        if isinstance(model, OnnxModel) and isinstance(model.inputs, Feed) and _flat(model.inputs):
            self._fed = model.inputs(values)
            spans = widths(model.inputs.features)
            for slot in model.inputs.slots:
                start = 0
                for place in slot.features:
                    self._places[place] = self._fed[slot.name], slice(start, start + spans[place])
                    start += spans[place]

    def set(self, column: int, value: float | NDArray[Any]) -> None:
        """Set a column to one value in all rows, or to a value for each row."""
        self.values[:, column] = value
        if column not in self._places:
            return
        fed, span = self._places[column]
        if fed is not self.values:
            rows = self.values[:1, column] if np.ndim(value) == 0 else self.values[:, column]
            assert isinstance(self._model, OnnxModel)
            fed[:, span] = encode_feature(self._model.inputs.features[column], rows)  # type: ignore[union-attr]  # a Feed

    def ends(self, number: int, possible: Mask | None = None) -> Ends:
        """Return the ends of the words of each row's labels, if labels are drawn."""
        return of_possible(self._model.ends, self._model, self.values, possible, number)

    def predict(self, number: int, possible: Mask | None = None) -> Labels:
        """Return the class of each row; `number` selects the rows that are also evaluated singly, if needed.

        Rows that are not `possible` are not inputs of the question, and may have no class.
        """
        return of_possible(self._predict, self._model, self.values, possible, number)

    def _predict(self, rows: NDArray[Any]) -> Labels:
        if self._fed and rows is self.values:
            assert isinstance(self._model, OnnxModel)
            return self._model.predict_fed(rows, self._fed)
        return self._model.predict(rows)


def of_possible(
    evaluate: Callable[[NDArray[Any]], Answers], model: Model, rows: NDArray[Any], possible: Mask | None, number: int
) -> Answers:
    """Return a model's answers about rows; the answer for an impossible row is meaningless.

    `number` selects the rows that are also evaluated singly.
    """
    try:
        answers = evaluate(rows)
    except UnansweredError:
        if possible is None or not possible.any():
            raise
        rows = np.where(possible[:, None], rows, rows[possible.argmax()])
        answers = evaluate(rows)
    check_alone(model, rows, answers, number)
    return answers


def _flat(feed: Feed) -> bool:
    """Return whether every input of the network is a matrix of numbers with a free number of rows."""
    return feed.batch is None and not any(
        slot.steps_first or len(slot.shape) != 1 or slot.dtype is np.object_ for slot in feed.slots
    )
