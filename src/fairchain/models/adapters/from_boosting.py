"""XGBoost, LightGBM and CatBoost: estimators and native boosters, evaluated in Python or converted to ONNX.

A model that was fitted on a frame gets a frame, with category columns that have the categories it was fitted on. The
conversion is in `boosting_network`; files of these packages are read in `model_files`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from fairchain.errors import ModelError
from fairchain.executors.tasks import Remade
from fairchain.models.adapters.boosting_network import to_network
from fairchain.models.adapters.converting import converted_or_original, quiet, same_labels
from fairchain.models.adapters.estimator_inputs import (
    check_words,
    class_order,
    guessed_categories,
    in_label_order,
    input_columns,
    show_columns,
)
from fairchain.models.adapters.from_function import FunctionModel
from fairchain.models.adapters.shown_inputs import flat_array, row_values
from fairchain.models.fitted import Fitted, fitted_of
from fairchain.models.onnx.file_checks import Limits
from fairchain.models.onnx.session import OnnxModel
from fairchain.spec import Spec
from fairchain.tables import TableRows

# The answer that each decision of a spec reads: the label, the probabilities of all classes, the raw sum of the trees.
READS = {"argmax": "probabilities", "probability": "probabilities", "logit": "raw", "score": "raw", "label": "label"}
ARRAY_WITH_CATEGORIES = (
    "{name}: was fitted on an array with categories, whose columns have no names; fit it on a frame, or give a "
    "function: fairchain.as_frames(lambda frame: model.predict(...))"
)
NOT_FITTED = "{name}: was not fitted; fit it, or load its file with load_model(...)"


def from_boosting(
    model: Any, spec: Spec, limits: Limits | None = None, *, rows: TableRows | None = None, direct: bool = False
) -> OnnxModel | FunctionModel:
    """Return a model from a fitted estimator or booster of XGBoost, LightGBM or CatBoost.

    A classifier decides by its own `predict`, unless the spec's `decision` reads probabilities or the raw sum of its
    trees; a native booster decides by its probabilities, and a regressor by a stated cut-off.
    """
    fitted = fitted_of(model)
    name = fitted.name
    if spec.text is not None:
        raise ModelError(
            f"{name}: takes columns of a table, not texts; give a function that derives the columns from texts"
        )
    if fitted.width is None:
        raise ModelError(NOT_FITTED.format(name=name))
    columns, order = input_columns(fitted, spec, name), class_order(fitted, spec.model)
    if not columns and fitted.package == "CatBoost" and fitted.takes_missing is False:
        raise ModelError(ARRAY_WITH_CATEGORIES.format(name=name))
    reads = _reads(fitted, spec)
    evaluate = _evaluation(model, fitted, reads)
    show = show_columns(fitted, columns, spec, rows) if columns else Remade(flat_array, spec, name)
    note = "; ".join(filter(None, (check_words(fitted, spec, name), guessed_categories(fitted, columns, spec, rows))))
    original = FunctionModel(
        lambda shown: in_label_order(evaluate(shown), spec.model, order),
        spec,
        name,
        show=show,
        output=reads,
        maker="Sigmoid" if reads == "probabilities" else "",
        rows=row_values(rows),
    )
    original.stateless = True

    def convert() -> bytes:
        with quiet():
            return to_network(model, fitted, columns, spec, order, reads)

    return converted_or_original(
        name,
        spec,
        limits,
        convert=[convert],
        agrees=lambda network: same_labels(network, original, spec),
        unconverted=lambda: original,
        rows=rows,
        later=partial(from_boosting, model, limits=limits) if direct else None,
        note=note,
    )


def _reads(fitted: Fitted, spec: Spec) -> str:
    """Return which answer of the model the decision reads: label, probabilities, raw, or a regressor's value."""
    decision = spec.model.decision
    if fitted.answers == "scores":
        return "value"
    if decision is None:
        return "probabilities" if fitted.native and fitted.answers != "labels" else "label"
    return READS[decision]


def _evaluation(model: Any, fitted: Fitted, reads: str) -> Callable[[Any], Any]:
    """Return the call of the model for this kind of answer."""
    if fitted.package == "CatBoost":
        kinds = {"label": "Class", "probabilities": "Probability", "raw": "RawFormulaVal", "value": "RawFormulaVal"}
        return partial(model.predict, prediction_type=kinds[reads])
    if fitted.package == "XGBoost" and fitted.native:
        return partial(_predict_matrix, model, reads == "raw")
    if fitted.package == "LightGBM" and fitted.native:
        return partial(model.predict, raw_score=reads == "raw")
    if reads == "probabilities":
        return model.predict_proba  # type: ignore[no-any-return]  # of another package
    raw = {"XGBoost": "output_margin", "LightGBM": "raw_score"}[str(fitted.package)]
    return partial(model.predict, **{raw: True}) if reads == "raw" else model.predict


def _predict_matrix(model: Any, raw: bool, shown: Any) -> Any:
    matrix = import_module("xgboost").DMatrix(shown, enable_categorical=True)
    return model.predict(matrix, output_margin=raw)
