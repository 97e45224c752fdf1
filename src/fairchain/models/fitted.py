"""The description that a fitted model gives: its columns, their categories, its classes, support of missing values.

Only attributes are read; the model is not evaluated, and nothing is guessed: unknown values are None. Models of
scikit-learn, XGBoost, LightGBM and CatBoost are recognised by the packages of their classes, which their owner has
already imported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import pairwise
from typing import Any, Literal

from fairchain.models.frames import FrameModel

AnswerKind = Literal["labels", "probabilities", "scores"]
Package = Literal["scikit-learn", "XGBoost", "LightGBM", "CatBoost"]
# By the first part of a class's module. Estimators of XGBoost and LightGBM derive from scikit-learn's.
_PACKAGES: dict[str, Package] = {
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
    "catboost": "CatBoost",
    "sklearn": "scikit-learn",
}
BOOSTING: tuple[Package, ...] = ("XGBoost", "LightGBM", "CatBoost")
# Attributes in which scikit-learn's wrappers store the fitted estimator.
_WRAPPED = ("best_estimator_", "estimator_", "calibrated_classifiers_")
_IMPUTERS = ("SimpleImputer", "KNNImputer", "IterativeImputer")
_XGBOOST_ANSWERS: dict[str, AnswerKind] = {
    "binary:logistic": "probabilities",
    "multi:softprob": "probabilities",
    "binary:hinge": "labels",
    "multi:softmax": "labels",
}
_METHOD_ANSWERS: dict[str, AnswerKind] = {
    "predict_proba": "probabilities",
    "decision_function": "scores",
    "predict": "labels",
}
_LIGHTGBM_PROBABILITIES = ("binary", "multiclass", "multiclassova", "cross_entropy")


class OwnProcessModel:
    """Base of models that another process evaluates: `kind` is the class of the package that it replaces."""

    package: Package
    kind: str


@dataclass(frozen=True)
class Fitted:
    """The description that a fitted model gives; None, or a missing column, means unknown."""

    # The name in messages, its package and class; None is the package of other Python code.
    name: str
    package: Package | None = None
    # Whether it is a booster of XGBoost or LightGBM, or a plain `CatBoost`, rather than an estimator with classes.
    native: bool = False
    # Names of its input columns, in order, and their number.
    columns: tuple[str, ...] | None = None
    width: int | None = None
    # Whether it was fitted on frames, so that columns are found by name.
    frames: bool | None = None
    # Columns that it treats as categories itself: a frame must have them as categories.
    category_columns: tuple[str, ...] | None = None
    # For a column, the values on which the model, or an encoder inside it, was fitted, in their order, without missing
    # ones.
    categories: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    # Its labels, in its order.
    classes: tuple[int | str, ...] | None = None
    # Whether every column may have missing values; columns that may have them, and those that may not.
    takes_missing: bool | None = None
    missing_in: Mapping[str, bool] = field(default_factory=dict)
    # The most informative answer: probabilities of classes, only labels, or scores (of a regressor).
    answers: AnswerKind | None = None

    def column(self, name: str) -> str | None:
        """Return the model's name of a table's column; None if it has no such column, or does not name its columns.

        LightGBM writes blanks as underscores.
        """
        known = self.columns or ()
        changed = "_".join(name.split(" ")) if self.package == "LightGBM" else name
        return next((each for each in (name, changed) if each in known), None)

    def takes_missing_in(self, column: str) -> bool | None:
        """Return whether a column, by the model's name, may have missing values."""
        return self.missing_in.get(column, self.takes_missing)


def fitted_of(model: Any) -> Fitted:
    """Return the description of a model, without evaluating it.

    The model is an estimator, a pipeline, a booster, an object with `predict` and `feature_names_in_`, or a method of
    one of these, also given through `as_frames`. For other objects the record has only a name.
    """
    if isinstance(model, FrameModel):
        return replace(fitted_of(model.function), frames=True)
    owner = getattr(model, "__self__", None)
    if owner is not None and (package_of(owner) is not None or is_predictor(owner)):
        return replace(fitted_of(owner), answers=_METHOD_ANSWERS.get(getattr(model, "__name__", "")))
    package = package_of(model)
    if package is None and not is_predictor(model):
        return Fitted(str(getattr(model, "__qualname__", type(model).__name__)))
    if package is None:
        return replace(_sklearn(model), name=type(model).__name__, package=None)
    read = {"XGBoost": _xgboost, "LightGBM": _lightgbm, "CatBoost": _catboost, "scikit-learn": _sklearn}[package]
    return read(model)


def is_predictor(model: Any) -> bool:
    """Return whether an object, not a class, has `predict` and scikit-learn's attributes of one fitted on a frame."""
    return not isinstance(model, type) and hasattr(model, "predict") and _read(model, "feature_names_in_") is not None


def package_of(model: Any) -> Package | None:
    """Return the package of a model, by its class and base classes."""
    if isinstance(model, OwnProcessModel):
        return model.package
    roots = [base.__module__.partition(".")[0] for base in type(model).__mro__]
    return next((package for root, package in _PACKAGES.items() if root in roots), None)


def _common(model: Any, package: Package) -> Fitted:
    """Return the attributes that estimators of all packages share."""
    found, width = _read(model, "classes_"), _read(model, "n_features_in_")
    classes = None if found is None or not len(found) else tuple(map(class_name, _plain(found)))
    answers: AnswerKind | None = None
    if hasattr(model, "predict"):
        answers = "probabilities" if hasattr(model, "predict_proba") else "labels"
        answers = "scores" if classes is None else answers
    width = int(width) if width is not None else None
    return Fitted(f"{package} {_kind(model)}", package, width=width, classes=classes, answers=answers)


def _kind(model: Any) -> str:
    return model.kind if isinstance(model, OwnProcessModel) else type(model).__name__


def class_name(value: Any) -> int | str:
    """Return a class in the form of answers: booleans and 1.0 are integers."""
    if isinstance(value, bool | int | float) and value == int(value):
        return int(value)
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _plain(values: Any) -> list[Any]:
    """Return the items of an array or a list as Python's own values."""
    return list(values.tolist() if hasattr(values, "tolist") else values)


def _read(model: Any, name: str) -> Any:
    """Return an attribute; None if it does not exist, or exists only after fitting."""
    try:
        return getattr(model, name, None)
    except Exception:  # exceptions of packages for a model that was not fitted
        return None


# ---- boosters -----------------------------------------------------------------------------------------------------


def _xgboost(model: Any) -> Fitted:
    native = not hasattr(model, "get_booster")
    found = _common(model, "XGBoost")
    try:
        booster = model if native else model.get_booster()
    except Exception:  # it was not fitted
        return found
    names, types = booster.feature_names, booster.feature_types
    columns = tuple(map(str, names)) if names else None
    if native:
        objective = str(json.loads(booster.save_config())["learner"]["objective"]["name"])
        found = replace(found, native=True, answers=_XGBOOST_ANSWERS.get(objective, "scores"))
    places = [place for place, kind in enumerate(types or ()) if kind == "c"]
    return replace(
        found,
        columns=columns,
        width=int(booster.num_features()),
        frames=columns is not None,
        category_columns=tuple(columns[place] for place in places) if columns else None,
        categories=_xgboost_categories(booster, columns or ()) if places else {},
        takes_missing=True,
    )


def _xgboost_categories(booster: Any, columns: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Return the categories that XGBoost 3.1 and later store in a model; older ones store only codes."""
    content = json.loads(bytes(booster.save_raw(raw_format="json")))
    booster_part = content["learner"]["gradient_booster"]
    trees = booster_part.get("model") or booster_part.get("gbtree", {}).get("model", {})  # dart stores trees inside
    encoded = trees.get("cats", {}).get("enc", ())
    found = {}
    for column, each in zip(columns, encoded, strict=False):
        values = each.get("values", ())
        if "offsets" in each:
            text, ends = bytes(value % 256 for value in values), each["offsets"]
            values = [text[start:end].decode(errors="replace") for start, end in pairwise(ends)]
        if values:
            found[column] = tuple(values)
    return found


def _lightgbm(model: Any) -> Fitted:
    native = hasattr(model, "feature_name")
    found = _common(model, "LightGBM")
    booster = model if native else _read(model, "booster_")
    if booster is None:
        return found
    columns = tuple(map(str, booster.feature_name()))
    named = columns != tuple(f"Column_{place}" for place in range(len(columns)))
    params = getattr(booster, "params", {})
    if native:
        # In a file the objective may have its own parameters: "binary sigmoid:1".
        probabilities = str(params.get("objective", "")).partition(" ")[0] in _LIGHTGBM_PROBABILITIES
        found = replace(found, native=True, answers="probabilities" if probabilities else "scores")
    known = getattr(booster, "pandas_categorical", None) or []
    # The indices of category columns are a parameter of the booster, also stored in its file.
    stated = (params.get(key) for key in ("categorical_column", "categorical_feature"))
    lists = (each for each in stated if isinstance(each, list | tuple) and all(isinstance(at, int) for at in each))
    places = next((sorted(each) for each in lists), None if known else [])
    categories = {}
    if named and places is not None and len(places) == len(known):
        categories = {columns[place]: tuple(values) for place, values in zip(places, known, strict=True)}
    return replace(
        found,
        columns=columns if named else None,
        width=len(columns),
        frames=named,
        category_columns=tuple(columns[place] for place in places) if named and places is not None else None,
        categories=categories,
        takes_missing=True,
    )


def _catboost(model: Any) -> Fitted:
    found = _common(model, "CatBoost")
    names = _read(model, "feature_names_")
    if not names:
        return found
    columns = tuple(map(str, names))
    named = columns != tuple(str(place) for place in range(len(columns)))
    places = [*model.get_cat_feature_indices(), *model.get_text_feature_indices()]
    # A plain CatBoost has classes if it was fitted as a classifier, but predicts raw scores.
    native = _kind(model) == "CatBoost"
    if native or isinstance(model, OwnProcessModel):
        found = replace(found, native=native, answers="probabilities" if found.classes else "scores")
    return replace(
        found,
        columns=columns if named else None,
        width=len(columns),
        frames=named,
        category_columns=tuple(columns[place] for place in places) if named else None,
        takes_missing=not places,
        missing_in={column: place not in places for place, column in enumerate(columns)} if named else {},
    )


# ---- scikit-learn -------------------------------------------------------------------------------------------------


@dataclass
class _Flow:
    """The state of one column in a pipeline.

    `missing` is whether missing values may remain, `taken` whether every step so far accepts them, and `raw` whether
    the values are still those of the table.
    """

    missing: bool = True
    taken: bool | None = True
    raw: bool = True
    categories: tuple[Any, ...] | None = None
    category: bool = False


# By the index of the column in the table.
_Flows = dict[int, _Flow]


def _sklearn(model: Any) -> Fitted:
    found = _common(model, "scikit-learn")
    names = _read(model, "feature_names_in_")
    columns = tuple(map(str, _plain(names))) if names is not None else None
    width = found.width if found.width is not None else len(columns or ())
    flows = {place: _Flow() for place in range(width)}
    _pass(model, flows, list(range(width)), columns)
    named = dict(zip(columns or map(str, range(width)), flows.values(), strict=True))
    taken = {key: flow.taken for key, flow in named.items()}
    categories = {key: flow.categories for key, flow in named.items() if flow.categories is not None}
    return replace(
        found,
        columns=columns,
        frames=None if columns is None and found.width is None else columns is not None,
        category_columns=tuple(key for key, flow in named.items() if flow.category),
        categories=categories if columns else {},
        takes_missing=all(taken.values()) if width and None not in taken.values() else None,
        missing_in={key: value for key, value in taken.items() if value is not None} if columns else {},
    )


def _pass(step: Any, flows: _Flows, places: Sequence[int], columns: Sequence[str] | None) -> None:
    """Pass the columns at these indices through a step, and record its description of them."""
    identity = type(step).__name__ == "FunctionTransformer" and getattr(step, "func", step) is None
    if isinstance(step, str) or identity:  # "drop" and "passthrough" of a ColumnTransformer; after fitting, a function
        if isinstance(step, str) and step == "drop":
            for place in places:
                flows[place].missing = False
        return
    wrapped = next((found for found in (_read(step, name) for name in _WRAPPED) if found is not None), None)
    if wrapped is not None:
        inner = wrapped[0].estimator if isinstance(wrapped, list) and wrapped else wrapped
        return _pass(inner, flows, places, columns)
    if hasattr(step, "steps"):
        for each in (each for _, each in step.steps if each is not None):
            _pass(each, flows, places, columns)
        return None
    if _read(step, "transformers_") is not None:
        return _pass_columns(step, flows, places, columns)
    found, allows_missing = _read(step, "categories_"), cache(partial(_allows_missing, step))
    for index, place in enumerate(places):
        known = found[index] if found is not None and len(found) == len(places) else None
        _pass_one(step, flows[place], None if known is None else _plain(known), allows_missing)
    if type(step).__name__.startswith("HistGradientBoosting"):
        _histogram_categories(step, [flows[place] for place in places])
    return None


def _pass_columns(step: Any, flows: _Flows, places: Sequence[int], columns: Sequence[str] | None) -> None:
    """Pass columns through a ColumnTransformer: each goes through every transformer that selects it."""
    names = _read(step, "feature_names_in_")
    order = list(map(str, _plain(names))) if names is not None else list(columns or map(str, range(len(places))))
    branches: dict[int, list[_Flow]] = {}
    for _, transformer, selected in step.transformers_:
        chosen = [places[index] for index in _selected(selected, order) if index < len(places)]
        branch = {place: replace(flows[place]) for place in chosen}
        _pass(transformer, branch, chosen, columns)
        for place in chosen:
            branches.setdefault(place, []).append(branch[place])
    for place, parts in branches.items():
        flows[place] = _Flow(
            missing=any(part.missing for part in parts),
            taken=None if any(part.taken is None for part in parts) else all(part.taken for part in parts),
            raw=all(part.raw for part in parts),
            categories=next((part.categories for part in parts if part.categories is not None), None),
            category=any(part.category for part in parts),
        )


def _selected(selected: Any, order: Sequence[str]) -> Iterator[int]:
    """Yield the indices of the columns that a transformer selects: names, numbers, a slice or a mask."""
    if isinstance(selected, slice):
        if all(end is None or isinstance(end, int) for end in (selected.start, selected.stop)):
            yield from range(*selected.indices(len(order)))
            return
        start = order.index(selected.start) if selected.start is not None else 0
        stop = order.index(selected.stop) + 1 if selected.stop is not None else len(order)
        yield from range(start, stop)
        return
    items = [selected] if isinstance(selected, str | int) else _plain(selected)
    if items and all(isinstance(item, bool) for item in items):
        yield from (place for place, item in enumerate(items) if item)
        return
    for item in items:
        if isinstance(item, int):
            yield item % len(order) if order else item
        elif str(item) in order:
            yield order.index(str(item))


def _pass_one(step: Any, flow: _Flow, known: list[Any] | None, allows_missing: Callable[[], bool | None]) -> None:
    """Record the description of one column by one step."""
    kind = type(step).__name__
    if kind in _IMPUTERS:
        flow.missing = False
        return
    if known is not None:
        words = tuple(word for word in known if not _is_missing(word))
        if flow.raw and flow.categories is None:
            flow.categories = words
        named = len(words) < len(known)
        forgiving = getattr(step, "handle_unknown", "error") not in ("error", "value")
        if flow.missing and flow.taken:
            flow.taken = named or forgiving or kind == "TargetEncoder"
        # The code of missing or unknown values may itself be NaN; one-hot columns and target means never are.
        code = getattr(step, "encoded_missing_value" if named else "unknown_value", None)
        flow.missing = flow.missing and kind == "OrdinalEncoder" and code is not None and _is_missing(code)
        flow.raw = False
        return
    flow.raw = False
    if flow.missing and flow.taken:
        flow.taken = allows_missing()


def _histogram_categories(step: Any, flows: Sequence[_Flow]) -> None:
    """Record the category columns of a HistGradientBoosting estimator, found by dtype or stated by a parameter."""
    mask = _read(step, "is_categorical_")
    if mask is None or len(mask) != len(flows):
        return
    encoders = getattr(_read(step, "_preprocessor"), "named_transformers_", {})
    known = iter(getattr(encoders.get("encoder"), "categories_", ()))
    for flow, category in zip(flows, _plain(mask), strict=True):
        if category:
            flow.category = True
            values = next(known, None)
            if values is not None and flow.categories is None:
                flow.categories = tuple(word for word in _plain(values) if not _is_missing(word))


def _allows_missing(step: Any) -> bool | None:
    """Return whether a step, of scikit-learn or with its interface, declares that it accepts missing values."""
    if package_of(step) in ("XGBoost", "LightGBM"):
        return True
    try:
        if hasattr(step, "__sklearn_tags__"):
            tags = step.__sklearn_tags__()
            return None if tags.no_validation else bool(tags.input_tags.allow_nan)
        older = getattr(step, "_more_tags")()  # before scikit-learn 1.6  # noqa: B009
        return None if older.get("no_validation") else bool(older["allow_nan"])
    except Exception:  # an estimator of the user may not declare it
        return None


def _is_missing(value: Any) -> bool:
    return value is None or value != value or type(value).__name__ in ("NAType", "NaTType")  # noqa: PLR0124  # NaN
