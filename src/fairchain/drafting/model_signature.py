"""What a model takes and answers, as far as that can be seen without a spec.

An ONNX file says most of it; a scikit-learn estimator knows its columns and classes; a torch or Keras model tells its
width. Of a plain function nothing can be seen. A file is checked as untrusted input before it is looked at; a
`python:` name is the caller's own code, and what it stands for is looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from fairchain.errors import ModelError
from fairchain.models import Limits
from fairchain.models.adapters.from_keras import is_keras
from fairchain.models.adapters.from_sklearn import is_estimator
from fairchain.models.adapters.from_torch import is_module
from fairchain.models.frames import FrameModel
from fairchain.models.load import PYTHON, import_named
from fairchain.models.onnx.file_checks import check_bytes, read_network
from fairchain.models.onnx.padding import RECURRENT

Class = int | str
# TensorProto.DataType of ONNX.
_REALS, _STRING = (1, 10, 11), 8


@dataclass(frozen=True)
class Input:
    """One input of a network; `width` is how many values it takes for a person, None if that is free."""

    name: str
    text: bool
    width: int | None


@dataclass(frozen=True)
class Signature:
    """What can be seen of a model.

    Parameters
    ----------
    name
        What messages call it.
    inputs
        Of a network; none if they cannot be seen.
    columns
        That an estimator was fitted on, if it was fitted on a frame.
    frame
        Whether it is shown a frame.
    classes
        What it calls its labels, in its own order; none if that cannot be seen.
    labels
        Whether it answers with labels (True) or scores (False).
    answers
        How many scores it gives for a person; None if that cannot be seen.
    maker
        The operator that makes the scores, "" if that cannot be seen.
    """

    name: str
    inputs: tuple[Input, ...] = ()
    columns: tuple[str, ...] = ()
    frame: bool = False
    classes: tuple[Class, ...] = ()
    labels: bool | None = None
    answers: int | None = None
    maker: str = ""


def signature_of(model: Any, output: str | None = None, limits: Limits | None = None) -> Signature:
    """Look at a model; `output` names the output to read where there are several."""
    limits = limits or Limits()
    model = _named(model)
    if model is None:
        return Signature("no model")
    if isinstance(model, str | os.PathLike):
        path = Path(os.fspath(model))
        if not path.is_file():
            raise ModelError(f"{path}: no such file; give the model's file, for example model.onnx")
        if path.suffix.lower() == ".onnx":
            return _of_network(read_network(path, limits).content, str(path), output)
        return Signature(str(path))
    if getattr(getattr(model, "DESCRIPTOR", None), "full_name", "") == "onnx.ModelProto":
        model = model.SerializeToString()
    if isinstance(model, bytes | bytearray | memoryview):
        name = "ONNX network in memory"
        return _of_network(check_bytes(Path(name), bytes(model), limits).content, name, output)
    if is_keras(model):
        return Signature("Keras model", inputs=_flat(_keras_width(model)))
    if is_module(model):
        return Signature("torch module", inputs=_flat(_torch_width(model)))
    if is_estimator(model):
        return _of_estimator(model)
    return Signature("function", frame=isinstance(model, FrameModel))


def _named(model: Any) -> Any:
    """What a `python:` name stands for; anything else as it is."""
    if not isinstance(model, str | os.PathLike) or not str(os.fspath(model)).startswith(PYTHON):
        return model
    found = import_named(str(os.fspath(model)))
    if isinstance(found, str | os.PathLike):
        raise ModelError(f"{model}: is a {type(found).__name__}, not a model; name a function or a model there")
    return found


def _flat(width: int | None) -> tuple[Input, ...]:
    return (Input("input", False, width),) if width is not None else ()


def _keras_width(model: Any) -> int | None:
    shape = getattr(model, "input_shape", None)
    sizes = shape[1:] if isinstance(shape, tuple) else ()
    return prod(sizes) if sizes and all(isinstance(size, int) for size in sizes) else None


def _torch_width(module: Any) -> int | None:
    first = next((part for part in module.modules() if hasattr(part, "weight")), None)
    width = getattr(first, "in_features", None)
    return width if isinstance(width, int) else None


def _of_estimator(estimator: Any) -> Signature:
    columns = tuple(str(name) for name in getattr(estimator, "feature_names_in_", ()))
    width = getattr(estimator, "n_features_in_", None)
    classes = getattr(estimator, "classes_", ())
    return Signature(
        f"scikit-learn {type(estimator).__name__}",
        inputs=() if columns else _flat(width if isinstance(width, int) else None),
        columns=columns,
        frame=bool(columns),
        classes=tuple(_class(each) for each in getattr(classes, "tolist", lambda: ())()),
        labels=True if len(classes) else None,
    )


def _class(value: Any) -> Class:
    """Booleans and 1.0 are whole numbers, as the estimator's answers will be."""
    if isinstance(value, bool | int | float) and value == int(value):
        return int(value)
    return str(value)


def _of_network(content: bytes, name: str, output: str | None) -> Signature:
    from onnx import ModelProto

    graph = ModelProto.FromString(content).graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = tuple(_input(value) for value in graph.input if value.name not in constants)
    if not inputs:
        raise ModelError(f"{name}: the network has no inputs, so there is nothing to describe; export it again")
    if any(_is_free(value) for value in graph.input) and any(node.op_type in RECURRENT for node in graph.node):
        raise ModelError(
            f"{name}: reads sequences of any length, which no row of a table is; a spec about texts is written by "
            "hand, as docs/text.md shows"
        )
    chosen = _chosen(graph, name, output)
    kind = chosen.type.tensor_type.elem_type
    makers = {each: node.op_type for node in graph.node for each in node.output}
    return Signature(
        name,
        inputs=inputs,
        classes=_classes(graph, chosen.name),
        labels=kind not in _REALS,
        answers=_width(chosen),
        maker=makers.get(chosen.name, ""),
    )


def _is_free(value: Any) -> bool:
    """Whether an input has an axis besides that of the rows whose size is not given."""
    axes = value.type.tensor_type.shape.dim
    return len(axes) > 1 and sum(not axis.HasField("dim_value") for axis in axes) > 1


def _input(value: Any) -> Input:
    return Input(value.name, value.type.tensor_type.elem_type == _STRING, _width(value))


def _width(value: Any) -> int | None:
    """How many numbers there are for each row; None if the file does not say."""
    if not value.type.tensor_type.HasField("shape"):
        return None
    sizes = [size.dim_value for size in value.type.tensor_type.shape.dim][1:]
    return prod(sizes) if all(size > 0 for size in sizes) else None


def _chosen(graph: Any, name: str, output: str | None) -> Any:
    """The output that decides, by the rule of `model.decision`: labels are preferred to the scores beside them."""
    names = [value.name for value in graph.output]
    if output is not None:
        if output not in names:
            raise ModelError(f'{name}: there is no output "{output}"; there is {", ".join(names)}')
        return graph.output[names.index(output)]
    tensors = [value for value in graph.output if value.type.HasField("tensor_type")]
    labels = [value for value in tensors if value.type.tensor_type.elem_type not in _REALS]
    if len(names) == 1:
        return graph.output[0]
    if len(names) == 2 and len(labels) == 1:
        return labels[0]
    raise ModelError(f"{name}: the network has outputs {', '.join(names)}; choose one with --model-output (output=...)")


def _classes(graph: Any, output: str) -> tuple[Class, ...]:
    """What the network calls its labels: said by the classifier nearest to the output."""
    from onnx import numpy_helper

    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in _upstream(graph, output):
        for attribute in node.attribute:
            if attribute.name in ("classlabels_strings", "classlabels_int64s", "classlabels_ints"):
                found = attribute.strings or attribute.ints
                if found:
                    return tuple(each.decode(errors="replace") if isinstance(each, bytes) else each for each in found)
        if node.op_type == "ArrayFeatureExtractor" and node.input[0] in constants:
            values = numpy_helper.to_array(constants[node.input[0]]).reshape(-1).tolist()
            return tuple(each.decode(errors="replace") if isinstance(each, bytes) else _class(each) for each in values)
    return ()


def _upstream(graph: Any, output: str) -> Iterator[Any]:
    """The operators behind an output, the nearest first."""
    makers = {name: node for node in graph.node for name in node.output}
    waiting, seen = [output], {output}
    while waiting:
        node = makers.get(waiting.pop(0))
        if node is None:
            continue
        yield node
        fresh = [name for name in node.input if name not in seen]
        waiting += fresh
        seen |= set(fresh)
