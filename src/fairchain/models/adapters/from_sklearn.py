"""scikit-learn classifiers and pipelines: converted by skl2onnx where it can, evaluated in Python else.

An estimator that was fitted on a frame is shown a frame, in the table's own words (see `model.frames`), and its
network has an input for each column; one fitted on an array is shown the array that a network would get.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from fairchain.errors import ModelError
from fairchain.models.adapters.converting import converted_or_asked, quiet
from fairchain.models.adapters.from_function import FunctionModel, show_frame
from fairchain.models.adapters.sklearn_network import to_network
from fairchain.models.base import random_inputs
from fairchain.models.frames import check_columns, column_name, make_frame
from fairchain.models.onnx.file_checks import Limits
from fairchain.models.onnx.session import OnnxModel
from fairchain.spec import CategoryFeature, Spec
from fairchain.tables import TableRows

# Rows about which a network must decide exactly as the estimator does.
COMPARED = 4096


def is_estimator(source: object) -> bool:
    """Whether this is a scikit-learn estimator; False if scikit-learn was never imported."""
    base = sys.modules.get("sklearn.base")
    return base is not None and isinstance(source, base.BaseEstimator)


def from_sklearn(
    estimator: Any, spec: Spec, limits: Limits | None = None, rows: TableRows | None = None
) -> OnnxModel | FunctionModel:
    """Return a model from a fitted classifier or pipeline; `rows` are those of the table that it is asked about.

    Its own `predict` decides, unless the spec's `decision` names the probability (with a `decision_threshold`), the
    logit or the largest probability.
    """
    name = f"scikit-learn {type(estimator).__name__}"
    columns = _columns(estimator, spec, name)
    function, output = _function(estimator, spec, name)
    show = show_frame(spec, columns, rows) if columns else None
    if columns:
        _check_words(estimator, spec, name)
    values = None if rows is None else rows.values
    original = FunctionModel(function, spec, name, show=show, output=output, rows=values)
    if spec.text is not None:
        original.note = f"{name} is evaluated in Python, without a certificate: pipelines of texts are not converted"
        return original

    def convert(kind: str) -> bytes:
        if find_spec("skl2onnx") is None:
            raise ModelError("skl2onnx is not installed: pip install 'fairchain[sklearn]'")
        with quiet():
            return to_network(import_module("skl2onnx"), estimator, columns, spec, kind)

    def agrees(network: OnnxModel) -> bool:
        inputs = random_inputs(spec.described, COMPARED).astype(network.dtype)
        return np.array_equal(network.predict(inputs), original.predict(inputs))

    # Single precision first: trees are exact in it, and it is faster. Linear models may need the digits of double.
    for kind in ("Float", "Double"):
        model = converted_or_asked(
            name, spec, limits, convert=partial(convert, kind), agrees=agrees, ask=lambda: original
        )
        if model.certifiable:
            return model
    return original


def _columns(estimator: Any, spec: Spec, name: str) -> tuple[str, ...]:
    """Return the columns of the frame that the estimator was fitted on; none if it was fitted on an array."""
    fitted = tuple(str(column) for column in getattr(estimator, "feature_names_in_", ()))
    if not fitted:
        return ()
    check_columns(name, spec.features)
    seen = [column_name(feature) for feature in spec.features if feature.model_input]
    missing = [column for column in fitted if column not in seen]
    if missing:
        raise ModelError(
            f"{name}: was fitted on columns without a feature: {', '.join(missing)}; "
            'name a [[feature]] like each column, or add column = "..." to it'
        )
    return fitted


def _function(estimator: Any, spec: Spec, name: str) -> tuple[Callable[[Any], Any], str]:
    """Return what is called for an answer, and its name."""
    decision, classes = spec.model.decision, getattr(estimator, "classes_", None)
    methods = {"argmax": "predict_proba", "probability": "predict_proba", "logit": "decision_function"}
    methods["score"] = "decision_function"
    # What a regressor, which has no classes, predicts is a score.
    method = "predict" if classes is None else methods.get(decision or "", "predict")
    if not hasattr(estimator, method):
        raise ModelError(
            f'{name}: has no {method}, which decision = "{decision}" in [model] needs; remove decision = ... '
            "to take what predict says"
        )
    call = getattr(estimator, method)

    def whole(inputs: Any) -> Any:
        """Return classes such as 0.0 and 1.0 as whole numbers: they are labels, not scores."""
        labels = call(inputs)
        numbers = np.asarray(labels).astype(np.int64)
        return numbers if np.array_equal(numbers, labels) else labels

    if decision == "probability" and classes is not None:
        return lambda inputs: call(inputs)[:, 1:], method
    if method == "predict" and classes is not None and np.asarray(classes).dtype.kind == "f":
        return whole, method
    return call, method


def _check_words(estimator: Any, spec: Spec, name: str) -> None:
    """Refuse categories of which an encoder knows no word: it may ignore what it does not know, silently."""
    by_column = {column_name(feature): feature for feature in spec.features}
    first = estimator.steps[0][1] if hasattr(estimator, "steps") else estimator
    for _, transformer, columns in getattr(first, "transformers_", ()):
        encoder = transformer.steps[-1][1] if hasattr(transformer, "steps") else transformer
        categories = getattr(encoder, "categories_", ())
        if not isinstance(columns, Sequence) or isinstance(columns, str) or len(columns) != len(categories):
            continue
        for column, known in zip(columns, categories, strict=True):
            named = str(first.feature_names_in_[column] if isinstance(column, int) else column)
            feature = by_column.get(named)
            if not isinstance(feature, CategoryFeature):
                continue
            values = np.arange(len(feature.values), dtype=np.float64)[:, None]
            shown = make_frame([feature], values)[named].tolist()
            if not set(shown).intersection(known.tolist()):
                raise ModelError(
                    f'{name}: column "{named}" was fitted on {_some(known)}, and feature "{feature.name}" shows '
                    f"{_some(shown)}; state what the table calls each value: aliases = [...] in [[feature]]"
                )


def _some(words: Sequence[Any]) -> str:
    return ", ".join(map(str, words[:5])) + (", ..." if len(words) > 5 else "")
