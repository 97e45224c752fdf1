"""XGBoost, LightGBM and CatBoost: estimators and native boosters, evaluated in Python or converted to ONNX.

A model that was fitted on a frame gets a frame, with category columns that have the categories it was fitted on.
onnxmltools converts XGBoost and LightGBM, and CatBoost writes ONNX itself; this module replaces the matrix by an input
for each feature, category values by the codes that the trees split on, and keeps one output. Category splits of XGBoost
and CatBoost have no converter; such models are evaluated in Python. Files of these packages are read in `model_files`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from fairchain.errors import ModelError
from fairchain.executors.tasks import Remade
from fairchain.messages import needs
from fairchain.models.adapters.catboost_process import CatBoostFile, saved_network
from fairchain.models.adapters.converting import converted_or_original, quiet, same_labels
from fairchain.models.adapters.estimator_inputs import (
    category_codes,
    check_words,
    class_order,
    guessed_categories,
    in_label_order,
    input_columns,
    show_columns,
)
from fairchain.models.adapters.from_function import FunctionModel, flat_array
from fairchain.models.adapters.from_sklearn import ML_OPSET, keep_one_output
from fairchain.models.adapters.onnx_graph import IR_VERSION, OPSET, plain_bytes
from fairchain.models.fitted import Fitted, fitted_of
from fairchain.models.frames import column_name
from fairchain.models.onnx.feature_encoding import words
from fairchain.models.onnx.file_checks import Limits
from fairchain.models.onnx.session import OnnxModel
from fairchain.spec import CategoryFeature, Feature, Spec
from fairchain.tables import TableRows

# The answer that each decision of a spec reads: the label, the probabilities of all classes, the raw sum of the trees.
READS = {"argmax": "probabilities", "probability": "probabilities", "logit": "raw", "score": "raw", "label": "label"}
NO_CATEGORY_SPLITS = "{package}'s splits by category have no converter"
# The name of the single input that converters create.
MATRIX = "matrix"
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
    trees; a native booster decides by its probabilities, and a regressor by a stated threshold.
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
    maker = "Sigmoid" if reads == "probabilities" else ""
    function = partial(in_label_order, evaluate, spec.model, order)
    original = FunctionModel(function, spec, name, show=show, output=reads, maker=maker, rows=rows)
    original.stateless = True

    def convert() -> bytes:
        with quiet():
            return to_network(model, fitted, columns, spec, order, reads)

    agrees = partial(same_labels, original, spec)
    later = partial(from_boosting, model, limits=limits) if direct else None
    return converted_or_original(
        name, spec, limits, [convert], agrees, lambda: original, rows=rows, later=later, note=note
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


# ---- Conversion to ONNX ---------------------------------------------------------------------------------------------


def to_network(
    model: Any, fitted: Fitted, columns: Sequence[str], spec: Spec, order: Sequence[int], reads: str
) -> bytes:
    """Convert a model that was fitted on these columns, or on an array if there are none.

    `order` has the index of the model's class for each label of the spec; `reads` is the answer that the decision
    reads: label, probabilities, raw, value.
    """
    if reads == "raw":
        raise ModelError("only labels and probabilities are converted, not the raw sum of the trees")
    if fitted.category_columns and fitted.package != "LightGBM":
        raise ModelError(NO_CATEGORY_SPLITS.format(package=fitted.package))
    if fitted.package == "LightGBM":
        made = _onnxmltools(model, fitted, zipmap=False)
    else:
        made = _xgboost(model, fitted) if fitted.package == "XGBoost" else _catboost(model, fitted)
    made.ir_version = IR_VERSION
    # Some converters write 1 as the first axis, which must be free.
    for value in (*made.graph.input, *made.graph.output):
        shape = value.type.tensor_type.shape
        if shape.dim:
            shape.dim[0].Clear()
            shape.dim[0].dim_param = "N"
    for version in made.opset_import:
        if version.domain == "ai.onnx.ml":
            version.version = min(version.version, ML_OPSET)
    if columns:
        features = {column_name(feature): feature for feature in spec.features}
        _split_matrix(made, [features[column] for column in columns], fitted, spec)
    if reads == "probabilities" and spec.model.decision is None:  # like the answers of a native booster
        del made.graph.output[0]
    keep_one_output(made, spec, order)
    return plain_bytes(made)


def _onnxmltools(model: Any, fitted: Fitted, **options: Any) -> Any:
    if find_spec("onnxmltools") is None:
        raise ModelError(needs("the conversion", "onnxmltools", "fairchain[boosting]"))
    convert = getattr(import_module("onnxmltools"), f"convert_{str(fitted.package).lower()}")
    types = import_module("onnxmltools.convert.common.data_types")
    matrix = [(MATRIX, types.FloatTensorType([None, fitted.width]))]
    return convert(model, initial_types=matrix, target_opset=OPSET - 2, **options)


def _xgboost(model: Any, fitted: Fitted) -> Any:
    booster = model if fitted.native else model.get_booster()
    if booster.attr("best_iteration") is not None and not fitted.native:
        booster = booster[: int(booster.attr("best_iteration")) + 1]  # the estimator uses only these trees
    booster = booster.copy()
    booster.feature_names = booster.feature_types = None  # the converter accepts only f0, f1, ...
    return _onnxmltools(booster, fitted)


def _catboost(model: Any, fitted: Fitted) -> Any:
    from onnx import helper, load_model_from_string

    content = model.network() if isinstance(model, CatBoostFile) else saved_network(model)
    made = load_model_from_string(content)
    matrix = made.graph.input[0]
    for node in made.graph.node:
        node.input[:] = [MATRIX if each == matrix.name else each for each in node.input]
    matrix.name = MATRIX
    # Probabilities are a sequence of dictionaries, computed from a tensor.
    for node in list(made.graph.node):
        if node.op_type == "ZipMap":
            made.graph.node.remove(node)
            output = next(each for each in made.graph.output if each.name == node.output[0])
            made.graph.output.remove(output)
            made.graph.output.append(helper.make_tensor_value_info(node.input[0], 1, [None, len(fitted.classes or ())]))
    return made


def _split_matrix(model: Any, used: Sequence[Feature], fitted: Fitted, spec: Spec) -> None:
    """Insert an input for each feature before the matrix; a category becomes the number that the trees split on."""
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    del graph.input[:]
    for feature in (*used, *(each for each in spec.features if each.model_input and each not in used)):
        name = feature.input or feature.name
        graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 1]))
    nodes, parts = [], []
    for place, feature in enumerate(used):
        name, part = feature.input or feature.name, f"column_{place}"
        if isinstance(feature, CategoryFeature) and feature.codes is None:
            codes = _codes(feature, fitted)
            graph.initializer.append(numpy_helper.from_array(codes, f"{part}_codes"))
            nodes.append(helper.make_node("Cast", [name], [f"{part}_index"], to=TensorProto.INT64))
            nodes.append(helper.make_node("Gather", [f"{part}_codes", f"{part}_index"], [part], axis=0))
        else:
            nodes.append(helper.make_node("Identity", [name], [part]))
        parts.append(part)
    nodes.append(helper.make_node("Concat", parts, [MATRIX], axis=1))
    for node in reversed(nodes):
        graph.node.insert(0, node)


def _codes(feature: CategoryFeature, fitted: Fitted) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the trees' code for each value of a category: its index among the model's categories, or its number."""
    places = np.arange(len(feature.values), dtype=np.float64)
    known = fitted.categories.get(fitted.column(column_name(feature)) or "")
    if known is None:
        if not all(isinstance(word, int) for word in words(feature)):
            raise ModelError(f'the model does not know the categories of "{feature.name}"')
        return np.array(words(feature), np.float32)
    codes = category_codes(feature, known)(places).astype(np.float32)
    return np.where(codes < 0, np.float32(np.nan), codes)
