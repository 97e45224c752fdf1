"""scikit-learn classifiers, pipelines and similar objects: evaluated in Python, or converted by skl2onnx.

An estimator that was fitted on a frame gets a frame with the values of the table (see `models/frames.py`), and its
network has an input for each column; one that was fitted on an array gets the array for a network. After the conversion
the inputs are named like the spec, categories that are integers in the table are looked up, columns that the estimator
does not use have an input too, and one output is kept.
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
from fairchain.models.adapters.converting import TO_CERTIFY_TEXTS, converted_or_original, quiet, same_labels
from fairchain.models.adapters.estimator_inputs import (
    check_words,
    class_order,
    in_label_order,
    input_columns,
    show_columns,
)
from fairchain.models.adapters.from_function import FunctionModel
from fairchain.models.adapters.onnx_graph import IR_VERSION, OPSET, plain_bytes
from fairchain.models.base import random_inputs
from fairchain.models.fitted import fitted_of, package_of
from fairchain.models.frames import column_name, is_text, make_frame
from fairchain.models.onnx.feature_encoding import widths, words
from fairchain.models.onnx.file_checks import Limits
from fairchain.models.onnx.session import OnnxModel
from fairchain.spec import CategoryFeature, Feature, Spec
from fairchain.statements import WITHOUT_CERTIFICATE
from fairchain.tables import TableRows

IS_A_CLUSTERER = (
    "{name}: is a clusterer, and clusters are not decisions; give a classifier, a regressor, or a pipeline that ends"
    " in one of them"
)
HAS_NO_PREDICT = "{name}: has no predict; give a classifier, a regressor, or a pipeline that ends in one of them"
READS_TEXTS = "{name}: reads texts; name the column of the texts: text=... (--text)"
TEXTS_NOT_CONVERTED = (
    f"{{name}} is evaluated in Python, {WITHOUT_CERTIFICATE}: pipelines of texts are not converted. {TO_CERTIFY_TEXTS}"
)
ML_OPSET = 3


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
    original = FunctionModel(function, spec, name, show=show, output=output, note=note, rows=rows, local=local)
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

    # Single precision first: trees are exact in it, and it is faster. Linear models may need the digits of double.
    converters = [partial(convert, kind) for kind in ("Float", "Double")]
    agrees = partial(same_labels, original, spec)
    later = partial(from_sklearn, estimator, limits=limits) if direct else None
    return converted_or_original(
        name, spec, limits, converters, agrees, lambda: original, rows=rows, later=later, note=note
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
        return partial(in_label_order, call, spec.model, order), method
    if method == "predict" and classes is not None and np.asarray(classes).dtype.kind == "f":
        return partial(_whole, call), method
    return call, method


def _whole(call: Callable[[Any], Any], inputs: Any) -> Any:
    """Return classes such as 0.0 and 1.0 as integers: they are labels, not scores."""
    labels = call(inputs)
    numbers = np.asarray(labels).astype(np.int64)
    return numbers if np.array_equal(numbers, labels) else labels


# ---- Conversion to ONNX ---------------------------------------------------------------------------------------------


def to_network(
    skl2onnx: Any, estimator: Any, columns: Sequence[str], spec: Spec, kind: str, order: Sequence[int]
) -> bytes:
    """Convert an estimator that was fitted on these columns, or on an array if there are none.

    `kind` is the type of numbers, Float or Double; `order` has the index of the estimator's class for each label of the
    spec.
    """
    estimator = getattr(estimator, "best_estimator_", estimator)  # of a hyperparameter search
    types = skl2onnx.common.data_types
    number, text = getattr(types, f"{kind}TensorType"), types.StringTensorType
    features = {column_name(feature): feature for feature in spec.features}
    if columns:
        estimator = _joining(estimator, columns, spec)
        initial = [(name, (text if is_text(features[name]) else number)([None, 1])) for name in columns]
    else:
        initial = [("input", number([None, sum(widths(spec.features))]))]
    last = estimator
    while hasattr(last, "steps"):
        last = last.steps[-1][1]
    _register(skl2onnx, last)
    # The converter of LinearSVC, which has no probabilities, does not support zipmap, and needs a separate option.
    option = {"raw_scores": True} if type(last).__name__ == "LinearSVC" else {"zipmap": False}
    model = skl2onnx.convert_sklearn(
        estimator,
        initial_types=initial,
        options={id(last): option} if hasattr(last, "classes_") else None,
        target_opset={"": OPSET, "ai.onnx.ml": ML_OPSET},
    )
    model.ir_version = IR_VERSION
    if columns:
        _name_inputs(model, [features[name] for name in columns], spec.features)
    keep_one_output(model, spec, order)
    return plain_bytes(model)


def _register(skl2onnx: Any, last: Any) -> None:
    """Register converters in skl2onnx for a last step of XGBoost or LightGBM (of onnxmltools), or of boosted trees."""
    package, classes = package_of(last), hasattr(last, "classes_")
    options = {"nocl": [True, False], "zipmap": [True, False, "columns"], "raw_scores": [True, False]}
    if type(last).__name__.startswith("HistGradientBoosting"):
        classes = type(last).__name__.endswith("Classifier")
        trees = import_module("skl2onnx.operator_converters.random_forest")
        name = "classifier" if classes else "regressor_converter"
        convert = partial(_with_numbers, getattr(trees, f"convert_sklearn_random_forest_{name}"))
        alias, options = f"Sklearn{type(last).__name__}", {**options, "output_class_labels": [False, True]}
    elif package in ("XGBoost", "LightGBM"):
        if find_spec("onnxmltools") is None:
            raise ModelError(needs("the conversion", "onnxmltools", "fairchain[boosting]"))
        file = {"XGBoost": "XGBoost", "LightGBM": "LightGbm"}[package]
        converters = import_module(f"onnxmltools.convert.{package.lower()}.operator_converters.{file}")
        convert, alias = getattr(converters, f"convert_{package.lower()}"), f"{package}{type(last).__name__}"
    else:
        return
    shapes = import_module("skl2onnx.common.shape_calculator")
    shape = getattr(shapes, f"calculate_linear_{'classifier' if classes else 'regressor'}_output_shapes")
    skl2onnx.update_registered_converter(type(last), alias, shape, convert, options=options if classes else None)


def _with_numbers(convert: Callable[[Any, Any, Any], None], scope: Any, operator: Any, container: Any) -> None:
    """Convert boosted trees of scikit-learn: skl2onnx's own converter passes booleans where ONNX expects numbers."""
    add = container.add_node

    def add_node(*arguments: Any, **attributes: Any) -> Any:
        for name, given in attributes.items():
            if isinstance(given, list):
                attributes[name] = [int(each) if isinstance(each, bool | np.bool_) else each for each in given]
        return add(*arguments, **attributes)

    container.add_node = add_node
    try:
        convert(scope, operator, container)
    finally:
        del container.add_node


def _joining(estimator: Any, columns: Sequence[str], spec: Spec) -> Any:
    """Return the estimator with a step before it that joins the columns, unless it takes them one by one."""
    compose, pipeline = import_module("sklearn.compose"), import_module("sklearn.pipeline")
    first = estimator.steps[0][1] if hasattr(estimator, "steps") else estimator
    if isinstance(first, compose.ColumnTransformer):
        return estimator
    few = make_frame(spec.features, random_inputs(spec.features, 2), columns)
    join = compose.ColumnTransformer([("all", "passthrough", list(columns))]).fit(few)
    return pipeline.Pipeline([("join", join), ("model", estimator)])


def _name_inputs(model: Any, used: Sequence[Feature], features: Sequence[Feature]) -> None:
    """Rename each input like the spec; skl2onnx keeps the order but changes names such as `hours-per-week`.

    A category whose values are integers in the table is given as an index, which is looked up.
    """
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    if len(graph.input) != len(used):
        raise ModelError("the numbers of skl2onnx's inputs and of columns differ")
    columns = {value.name: f"column_{place}" for place, value in enumerate(graph.input)}
    for node in graph.node:
        node.input[:] = [columns.get(name, name) for name in node.input]
    for value, column, feature in zip(graph.input, columns.values(), used, strict=True):
        value.name = feature.input or feature.name
        if not isinstance(feature, CategoryFeature) or feature.codes is not None or is_text(feature):
            graph.node.insert(0, helper.make_node("Identity", [value.name], [column]))
            continue
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        graph.initializer.append(numpy_helper.from_array(np.array(words(feature), dtype), f"{column}_words"))
        graph.node.insert(0, helper.make_node("Gather", [f"{column}_words", f"{column}_index"], [column], axis=0))
        graph.node.insert(0, helper.make_node("Cast", [value.name], [f"{column}_index"], to=TensorProto.INT64))
    for feature in features:
        if feature.model_input and feature not in used:
            kind = TensorProto.STRING if is_text(feature) else TensorProto.FLOAT
            graph.input.append(helper.make_tensor_value_info(feature.input or feature.name, kind, [None, 1]))


def keep_one_output(model: Any, spec: Spec, order: Sequence[int]) -> None:
    """Keep the output that the spec's decision reads: the labels, or the scores of all classes.

    If the spec names an output, both are kept. `order` has the column of scores for each label of the spec.
    """
    from onnx import helper, numpy_helper

    outputs = {output.name: output for output in model.graph.output}
    if spec.model.output is not None or len(outputs) == 1:
        return
    decision = spec.model.decision
    label, scores = list(outputs.values())
    if decision in ("logit", "score"):
        raise ModelError("only labels and probabilities are converted, not the decision function")
    kept = scores if decision in ("argmax", "probability") else label
    wanted = list(order[1:] if decision == "probability" else order)
    if kept is scores and wanted != list(range(len(order))):
        model.graph.initializer.append(numpy_helper.from_array(np.array(wanted, np.int64), "chosen"))
        model.graph.node.append(helper.make_node("Gather", [scores.name, "chosen"], ["probability"], axis=1))
        kept = helper.make_tensor_value_info("probability", scores.type.tensor_type.elem_type, ["N", len(wanted)])
    del model.graph.output[:]
    model.graph.output.append(kept)
