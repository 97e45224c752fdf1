"""scikit-learn classifiers, pipelines and similar objects: evaluated in Python, or converted by skl2onnx.

An estimator that was fitted on a frame gets a frame with the values of the table (see `models/frames.py`), and its
network has an input for each column; one that was fitted on an array gets the array for a network.
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
from fairchain.messages import needs
from fairchain.models.adapters.converting import converted_or_original, quiet, same_labels
from fairchain.models.adapters.estimator_inputs import (
    check_words,
    class_order,
    in_label_order,
    input_columns,
    show_columns,
)
from fairchain.models.adapters.from_function import FunctionModel
from fairchain.models.adapters.shown_inputs import row_values
from fairchain.models.adapters.sklearn_network import to_network
from fairchain.models.fitted import fitted_of
from fairchain.models.onnx.file_checks import Limits
from fairchain.models.onnx.session import OnnxModel
from fairchain.spec import ModelSpec, Spec
from fairchain.tables import TableRows

IS_A_CLUSTERER = (
    "{name}: is a clusterer, and clusters are not decisions; give a classifier, a regressor, or a pipeline that ends"
    " in one of them"
)
HAS_NO_PREDICT = "{name}: has no predict; give a classifier, a regressor, or a pipeline that ends in one of them"
READS_TEXTS = "{name}: reads texts; name the column of the texts: text=... (--text)"
TEXTS_NOT_CONVERTED = (
    "{name} is evaluated in Python, without a certificate: pipelines of texts are not converted. To certify its "
    "decisions, write them into a column beside the groups, and check that table: prediction=... (--prediction)"
)


def is_estimator(source: object) -> bool:
    """Return whether this is a scikit-learn estimator; False if scikit-learn was never imported."""
    base = sys.modules.get("sklearn.base")
    return base is not None and isinstance(source, base.BaseEstimator)


def from_sklearn(
    estimator: Any, spec: Spec, limits: Limits | None = None, *, rows: TableRows | None = None, direct: bool = False
) -> OnnxModel | FunctionModel:
    """Return a model from a fitted classifier or pipeline; `rows` are those of the table that it evaluates.

    Its own `predict` decides, unless the spec's `decision` names the probability (with a `decision_threshold`), the
    logit or the largest probability.
    """
    fitted = fitted_of(estimator)
    name = fitted.name
    _check_kind(estimator, name, spec)
    columns, order = input_columns(fitted, spec, name), class_order(fitted, spec.model)
    function, output = _function(estimator, spec, name, order)
    show = show_columns(fitted, columns, spec, rows) if columns else None
    note = check_words(fitted, spec, name) if columns else ""
    local = fitted.package is not None
    original = FunctionModel(
        function, spec, name, show=show, output=output, note=note, rows=row_values(rows), local=local
    )
    original.stateless = True
    if spec.text is not None:
        original.note = TEXTS_NOT_CONVERTED.format(name=name)
        return original

    def convert(kind: str) -> bytes:
        if fitted.package is None:
            raise ModelError("this kind of model has no converter")
        if find_spec("skl2onnx") is None:
            raise ModelError(needs("the conversion", "skl2onnx", "fairchain[sklearn]"))
        with quiet():
            return to_network(import_module("skl2onnx"), estimator, columns, spec, kind, order)

    return converted_or_original(
        name,
        spec,
        limits,
        # Single precision first: trees are exact in it, and it is faster. Linear models may need the digits of double.
        convert=[partial(convert, kind) for kind in ("Float", "Double")],
        agrees=lambda network: same_labels(network, original, spec),
        unconverted=lambda: original,
        rows=rows,
        later=partial(from_sklearn, estimator, limits=limits) if direct else None,
        note=note,
    )


def _check_kind(estimator: Any, name: str, spec: Spec) -> None:
    """Refuse a clusterer, and an estimator of texts if the spec has none."""
    steps = [step for _, step in getattr(estimator, "steps", ())] or [estimator]
    if isinstance(steps[-1], sys.modules["sklearn.base"].ClusterMixin):
        raise ModelError(IS_A_CLUSTERER.format(name=name))
    if not hasattr(estimator, "predict"):
        raise ModelError(HAS_NO_PREDICT.format(name=name))
    texts: Any = sys.modules.get("sklearn.feature_extraction.text")
    vectorizers = () if texts is None else (texts.CountVectorizer, texts.HashingVectorizer)
    if spec.text is None and isinstance(steps[0], vectorizers):
        raise ModelError(READS_TEXTS.format(name=name))


def _function(estimator: Any, spec: Spec, name: str, order: Sequence[int]) -> tuple[Callable[[Any], Any], str]:
    """Return the function that gives the answer, and its name."""
    decision, classes = spec.model.decision, getattr(estimator, "classes_", None)
    methods = dict.fromkeys(("argmax", "probability"), "predict_proba")
    methods |= dict.fromkeys(("logit", "score"), "decision_function")
    # The prediction of a regressor, which has no classes, is a score.
    method = "predict" if classes is None else methods.get(decision or "", "predict")
    if not hasattr(estimator, method):
        raise ModelError(
            f'{name}: has no {method}, which decision = "{decision}" in [model] needs; remove decision = ... to use '
            "the labels of predict"
        )
    call = getattr(estimator, method)
    if method == "predict_proba":
        return partial(_ordered, call, spec.model, order), method
    if method == "predict" and classes is not None and np.asarray(classes).dtype.kind == "f":
        return partial(_whole, call), method
    return call, method


def _ordered(call: Callable[[Any], Any], model: ModelSpec, order: Sequence[int], inputs: Any) -> Any:
    return in_label_order(call(inputs), model, order)


def _whole(call: Callable[[Any], Any], inputs: Any) -> Any:
    """Return classes such as 0.0 and 1.0 as integers: they are labels, not scores."""
    labels = call(inputs)
    numbers = np.asarray(labels).astype(np.int64)
    return numbers if np.array_equal(numbers, labels) else labels
