"""Inputs of fitted estimators and boosters: frames like those that they were fitted on, and the order of classes.

The fitted model states its columns and classes (`fitted`), and the spec must agree with them. A column that the model
treats as categories has the categories that the model was fitted on, because their order determines their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.executors.tasks import Remade
from fairchain.messages import listed
from fairchain.models.adapters.from_function import show_frame
from fairchain.models.fitted import Fitted
from fairchain.models.frames import check_columns, column_name, column_values, pandas_frame
from fairchain.models.onnx.feature_encoding import words
from fairchain.spec import CategoryFeature, Feature, ModelSpec, Spec
from fairchain.tables import TableRows

RowArray = NDArray[Any]
# Code of a missing or unknown value in a pandas categorical.
NO_CATEGORY = -1
VALUES_NOT_FITTED = (
    '{name}: column "{feature}" was fitted on {known}, and feature "{feature_name}" shows {shown}; state the '
    "table's name of each value: aliases = [...] in [[feature]]"
)
ORDER_ASSUMED = "{name} does not state the order of its categories of {guessed}: that of the spec's values was assumed"
COLUMNS_WITHOUT_FEATURE = (
    "{name}: was fitted on columns without a feature: {missing}; name a [[feature]] like each column, or add column = "
    '"..." to it'
)


def input_columns(fitted: Fitted, spec: Spec, name: str) -> tuple[str, ...]:
    """Return the table's names of the columns that a model was fitted on, in its order; empty if it states none."""
    if not fitted.frames or fitted.columns is None:
        return ()
    check_columns(name, spec.features)
    found = {
        fitted.column(column_name(feature)): column_name(feature) for feature in spec.features if feature.model_input
    }
    missing = [column for column in fitted.columns if column not in found]
    if missing:
        raise ModelError(COLUMNS_WITHOUT_FEATURE.format(name=name, missing=", ".join(missing)))
    return tuple(found[column] for column in fitted.columns)


def show_columns(
    fitted: Fitted, columns: Sequence[str], spec: Spec, rows: TableRows | None = None
) -> Callable[[RowArray], Any]:
    """Return a function from feature values to the frame with these columns that the model takes."""
    show = show_frame(spec, columns, rows)
    coded = {
        column: (place, Remade(category_codes, feature, known), known)
        for column, place, feature, known in _category_columns(fitted, columns, spec)
    }
    return WithCategories(show, coded) if coded else show


@dataclass(frozen=True)
class WithCategories:
    """Encoder of feature values as a frame in which some columns are categories: indices, codes and known values."""

    show: Callable[[RowArray], Any]
    coded: Mapping[str, tuple[int, Callable[[RowArray], NDArray[np.int64]], Any]]

    def __call__(self, values: RowArray) -> Any:
        """Return the frame."""
        pandas, frame = import_module("pandas"), self.show(values)
        for column, (place, codes, known) in self.coded.items():
            if str(frame[column].dtype) != "category":  # the caller's own categories are kept
                index = values[:, place]
                made = np.full(len(values), NO_CATEGORY)
                made[~np.isnan(index)] = codes(index[~np.isnan(index)])
                frame[column] = pandas.Categorical.from_codes(made, categories=list(known))
        return frame


def category_codes(feature: Feature, known: Sequence[Any]) -> Callable[[RowArray], NDArray[np.int64]]:
    """Return a function from values of a feature to their indices among the categories that a model knows."""
    places = _places(known)

    def place_of(word: Any) -> int:
        return places.get(str(word), places.get(_number_text(word), NO_CATEGORY))

    if isinstance(feature, CategoryFeature):
        table = np.array([place_of(word) for word in words(feature)], np.int64)
        return lambda values: table[values.astype(np.intp)]
    return lambda values: np.array([place_of(each) for each in column_values(feature, values).tolist()], np.int64)


def _category_columns(fitted: Fitted, columns: Sequence[str], spec: Spec) -> list[tuple[str, int, Feature, Any]]:
    """Return the columns that a booster treats as categories, with their feature and the categories it knows."""
    if fitted.package not in ("XGBoost", "LightGBM"):  # the others take categories as texts
        return []
    features = {column_name(feature): (place, feature) for place, feature in enumerate(spec.features)}
    found = []
    for column in columns:
        own = fitted.column(column) or column
        if own in (fitted.category_columns or ()):
            place, feature = features[column]
            stated = words(feature) if isinstance(feature, CategoryFeature) else ()
            found.append((column, place, feature, fitted.categories.get(own, stated)))
    return found


def check_words(fitted: Fitted, spec: Spec, name: str) -> str:
    """Return a note about categories that the model was not fitted on, or raise a ModelError if it knows none of them.

    An encoder may ignore an unknown category, and a booster treats it as missing.
    """
    notes = []
    for feature in spec.features:
        known = fitted.categories.get(fitted.column(column_name(feature)) or "")
        if not feature.model_input or known is None or not isinstance(feature, CategoryFeature):
            continue
        shown = [str(word) for word in (words(feature) if feature.codes is None else feature.codes)]
        places = _places(known)
        unknown = [word for word in shown if not places.keys() & {word, _number_text(word)}]
        if len(unknown) == len(shown):
            named = {"name": name, "feature": column_name(feature), "feature_name": feature.name}
            raise ModelError(VALUES_NOT_FITTED.format(known=_some(known), shown=_some(shown), **named))
        if unknown:
            notes.append(f'{name} was not fitted on {listed(unknown)} of "{feature.name}"')
    return "; ".join(notes)


def guessed_categories(fitted: Fitted, columns: Sequence[str], spec: Spec, rows: TableRows | None) -> str:
    """Return a note about categories whose order the model does not state, unless the caller's own frame states it."""
    types = {} if rows is None or rows.table is None else pandas_frame(rows.table.frame, columns).dtypes
    guessed = [
        column
        for column, _, _, _ in _category_columns(fitted, columns, spec)
        if (fitted.column(column) or column) not in fitted.categories and str(types.get(column)) != "category"
    ]
    return ORDER_ASSUMED.format(name=fitted.name, guessed=listed(guessed)) if guessed else ""


def class_order(fitted: Fitted, model: ModelSpec) -> list[int]:
    """Return for each label of the spec the index of its class in the model, which may have another order."""
    known = [str(each) for each in fitted.classes or ()]
    for names in (model.codes, model.labels):
        wanted = [str(name) for name in names or ()]
        if wanted and sorted(wanted) == sorted(known):
            return [known.index(name) for name in wanted]
    return list(range(len(model.labels)))


def in_label_order(call: Callable[[Any], Any], model: ModelSpec, order: Sequence[int], inputs: Any) -> Any:
    """Return the scores of a call, a column for each label of the spec, or of the second label alone for a threshold.

    Answers with another number of columns are returned unchanged: the decision rule reports the problem.
    """
    answer = np.asarray(call(inputs))
    if answer.ndim < 2 or answer.shape[1] != len(order) or len(order) < 2:
        return answer
    return answer[:, order[1:]] if model.decision == "probability" else answer[:, order]


def _places(known: Sequence[Any]) -> dict[str, int]:
    """Return the index of each category by its text; True is also the code 1, and 1.0 also the text "1"."""
    return {text: place for place, each in enumerate(known) for text in (str(each), _number_text(each))}


def _number_text(value: Any) -> str:
    """Return a whole number of any type or spelling as the text of an integer, and other values as their text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return str(int(number)) if number.is_integer() else str(value)


def _some(items: Sequence[Any]) -> str:
    return ", ".join(map(str, items[:5])) + (", ..." if len(items) > 5 else "")
