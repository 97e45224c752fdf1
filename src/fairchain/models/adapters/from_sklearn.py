"""scikit-learn classifiers and pipelines: converted by skl2onnx where it can, asked in Python else.

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
from fairchain.models.adapters.converting import converted_or_asked
from fairchain.models.adapters.from_function import FunctionModel
from fairchain.models.adapters.from_torch import quiet
from fairchain.models.adapters.sklearn_network import to_network
from fairchain.models.base import random_inputs
from fairchain.models.frames import check_columns, column_name, make_frame
from fairchain.models.onnx.file_checks import Limits
from fairchain.models.onnx.session import OnnxModel
from fairchain.spec import CategoryFeature, Spec

# People about whom a network must decide exactly as the estimator does.
COMPARED = 4096


def is_estimator(source: object) -> bool:
    """Whether this is a scikit-learn estimator; False if scikit-learn was never imported."""
    base = sys.modules.get("sklearn.base")
    return base is not None and isinstance(source, base.BaseEstimator)


def from_sklearn(estimator: Any, spec: Spec, limits: Limits | None = None) -> OnnxModel | FunctionModel:
    """A model from a fitted classifier or pipeline.

    Its own `predict` decides, unless the spec's `decision` asks for the probability (with a `cut`), the logit or
    the largest probability.
    """
    name = f"scikit-learn {type(estimator).__name__}"
    columns = _columns(estimator, spec, name)
    function, output = _function(estimator, spec, name)
    show = partial(make_frame, spec.features, columns=columns) if columns else None
    if columns:
        _check_words(estimator, spec, name)
    asked = FunctionModel(function, spec, name, show=show, output=output)
    if spec.text is not None:
        asked.note = f"{name} is asked in Python, without a certificate: pipelines of texts are not converted to ONNX"
        return asked

    def convert(kind: str) -> bytes:
        if find_spec("skl2onnx") is None:
            raise ModelError("skl2onnx is not installed: pip install 'fairchain[sklearn]'")
        with quiet():
            return to_network(import_module("skl2onnx"), estimator, columns, spec, kind)

    def agrees(network: OnnxModel) -> bool:
        people = random_inputs(spec.described, COMPARED).astype(network.dtype)
        return np.array_equal(network.predict(people), asked.predict(people))

    # Single precision first: trees are exact in it, and it is faster. Linear models may need the digits of double.
    for kind in ("Float", "Double"):
        model = converted_or_asked(name, spec, limits, convert=partial(convert, kind), agrees=agrees, ask=lambda: asked)
        if model.certifiable:
            return model
    return asked


def _columns(estimator: Any, spec: Spec, name: str) -> tuple[str, ...]:
    """The columns of the frame that the estimator was fitted on; none if it was fitted on an array."""
    fitted = tuple(str(column) for column in getattr(estimator, "feature_names_in_", ()))
    if not fitted:
        return ()
    check_columns(name, spec.features)
    seen = [column_name(feature) for feature in spec.features if feature.model_input]
    missing = [column for column in fitted if column not in seen]
    if missing:
        raise ModelError(
            f"{name}: was fitted on columns that no feature stands for: {', '.join(missing)}; "
            'name a [[feature]] like each column, or add column = "..." to it'
        )
    return fitted


def _function(estimator: Any, spec: Spec, name: str) -> tuple[Callable[[Any], Any], str]:
    """What is called for an answer, and its name."""
    decision = spec.model.decision
    method = {"argmax": "predict_proba", "probability": "predict_proba", "logit": "decision_function"}.get(
        decision or "", "predict"
    )
    classes = getattr(estimator, "classes_", None)
    if classes is None:  # a regressor: what it predicts is a score
        method = "predict"
    if not hasattr(estimator, method):
        raise ModelError(
            f'{name}: has no {method}, which decision = "{decision}" in [model] needs; remove decision = ... '
            "to take what predict says"
        )
    ask = getattr(estimator, method)
    if decision == "probability" and classes is not None:
        return lambda people: ask(people)[:, 1:], method
    if method == "predict" and classes is not None and np.asarray(classes).dtype.kind == "f":
        return lambda people: _whole(ask(people)), method
    return ask, method


def _whole(labels: Any) -> Any:
    """Classes 0.0 and 1.0 are labels, not scores."""
    whole = np.asarray(labels).astype(np.int64)
    return whole if np.array_equal(whole, labels) else labels


def _check_words(estimator: Any, spec: Spec, name: str) -> None:
    """Refuse categories of which an encoder knows no word: it may ignore what it does not know, silently."""
    by_column = {column_name(feature): feature for feature in spec.features}
    for column, known in _encoded(estimator):
        feature = by_column.get(column)
        if not isinstance(feature, CategoryFeature):
            continue
        shown = set(make_frame([feature], np.arange(len(feature.values), dtype=np.float64)[:, None])[column].tolist())
        if not shown & set(known):
            raise ModelError(
                f'{name}: column "{column}" was fitted on {_some(known)}, and feature "{feature.name}" shows '
                f"{_some(sorted(shown, key=str))}; say what the table calls each value: cells = [...] in [[feature]]"
            )


def _encoded(estimator: Any) -> list[tuple[str, list[Any]]]:
    """The (column, categories) that the encoders at the front of a pipeline were fitted on."""
    first = estimator.steps[0][1] if hasattr(estimator, "steps") else estimator
    found = []
    for _, transformer, columns in getattr(first, "transformers_", ()):
        encoder = transformer.steps[-1][1] if hasattr(transformer, "steps") else transformer
        categories = getattr(encoder, "categories_", ())
        if isinstance(columns, Sequence) and not isinstance(columns, str) and len(columns) == len(categories):
            names = [first.feature_names_in_[c] if isinstance(c, int) else c for c in columns]
            found += [(str(column), known.tolist()) for column, known in zip(names, categories, strict=True)]
    return found


def _some(words: Sequence[Any], most: int = 5) -> str:
    return ", ".join(map(str, words[:most])) + (", ..." if len(words) > most else "")
