"""Signature of a model: its inputs, classes and outputs, as far as they are visible without a spec.

An ONNX file states most of it; a scikit-learn estimator knows its columns and classes; a torch or Keras model its
width. A plain function shows nothing. A file is checked as untrusted input before it is parsed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

from fairchain.errors import ModelError
from fairchain.messages import unknown
from fairchain.models import Limits
from fairchain.models.adapters.from_keras import is_keras
from fairchain.models.adapters.from_nnet import read_nnet
from fairchain.models.adapters.from_service import REAL, Service, layout_of
from fairchain.models.adapters.from_torch import forward_parameters, inner_module, is_module
from fairchain.models.adapters.from_transformers import is_transformer, model_and_tokenizer
from fairchain.models.fitted import Fitted, class_name, fitted_of
from fairchain.models.frames import FrameModel
from fairchain.models.load import read_model
from fairchain.models.onnx.file_checks import Network
from fairchain.models.onnx.padding import RECURRENT
from fairchain.models.onnx.token_inputs import tokens_within

Class = int | str
# TensorProto.DataType of ONNX: real numbers of 16, 32 and 64 bits, and texts.
_REALS, _STRING = (1, 10, 11, 16), 8
SEVERAL_OUTPUTS = "{name}: the network has outputs {by_name}; choose one with --model-output (model_output=...)"
NETWORK_WITHOUT_INPUTS = "{name}: the network has no inputs; export it again"
READS_SEQUENCES = (
    "{name}: reads sequences of any length, and a row of a table is not one; write a spec about texts by hand, as "
    "docs/text.md shows"
)


@dataclass(frozen=True)
class Input:
    """Input of a network; `width` is the number of values per row, None if it is not fixed.

    `whole`: it takes whole numbers, as an embedding does.
    """

    name: str
    text: bool
    width: int | None
    whole: bool = False


# What a model without names of columns says about itself; missing values are no inputs of a network or a service.
NOTHING_SAID = Fitted("", takes_missing=False)


@dataclass(frozen=True)
class Signature:
    """Visible properties of a model; what is not visible is empty or None."""

    name: str  # in messages
    inputs: tuple[Input, ...] = ()  # of a network
    columns: tuple[str, ...] = ()  # on which an estimator was fitted on a frame, or which a service takes
    frame: bool = False  # whether the model takes a frame
    classes: tuple[Class, ...] = ()  # the model's own labels in its own order
    labels: bool | None = None  # whether the output holds labels or scores
    answers: int | None = None  # number of scores per row
    maker: str = ""  # operator that computes the output
    fitted: Fitted = field(default=NOTHING_SAID, compare=False)
    source: Any = field(default=None, compare=False, repr=False)  # as `read_model` returns it; None without a model

    @property
    def class_names(self) -> list[str]:
        """The model's own labels as texts."""
        return [str(each) for each in self.classes]

    def values_of(self, name: str) -> tuple[Any, ...] | None:
        """Return the values of a column of the table that the model was fitted on; None if it does not say."""
        return self.fitted.categories.get(self.fitted.column(name) or name)

    @property
    def runs_code(self) -> bool:
        """Whether there is a model that is no network yet: Python code, a service, or a file that a spec makes one."""
        return self.source is not None and not isinstance(self.source, Network)


def read_signature(model: Any, output: str | None = None, limits: Limits | None = None) -> Signature:
    """Read a model once, and return what is visible of it; `output` names the output to read where there are several.

    What cannot be loaded whatever the spec is, is refused.
    """
    if model is None:
        return Signature("no model")
    source = read_model(model, limits, allow_python=True)
    return replace(_seen(source, output, limits or Limits()), source=source)


def _seen(source: Any, output: str | None, limits: Limits) -> Signature:
    if isinstance(source, Network):
        tokens = tokens_within(source.path, source.model)
        return _of_network(source, output) if tokens is None else _of_texts(str(source.path), tokens.labels)
    if is_transformer(source):
        transformer = model_and_tokenizer(source)
        return _of_texts(transformer.name, transformer.labels)
    if isinstance(source, Path):
        dense = source.suffix.lower() == ".nnet"
        return Signature(str(source), inputs=_flat(len(read_nnet(source, limits).low) if dense else None))
    if isinstance(source, Service):
        return _of_service(source)
    if is_keras(source):
        inputs = []
        for tensor in getattr(source, "inputs", None) or ():
            sizes, whole = tuple(tensor.shape[1:]), str(tensor.dtype).startswith("int")
            inputs.append(Input(tensor.name, False, None if None in sizes else prod(sizes), whole))
        return Signature("Keras model", inputs=tuple(inputs) if len(inputs) != 1 else _flat(inputs[0].width))
    if is_module(source):
        several = tuple(Input(each, False, None) for each in forward_parameters(inner_module(source)))
        first = next((part for part in source.modules() if hasattr(part, "weight")), None)
        flat = _flat(getattr(first, "in_features", getattr(first, "num_features", None)))
        return Signature("torch module", inputs=several if len(several) > 1 else flat)
    fitted = fitted_of(source)
    if fitted.package is None:
        return Signature("function", frame=isinstance(source, FrameModel), fitted=fitted)
    return Signature(
        fitted.name,
        inputs=() if fitted.columns else _flat(fitted.width),
        columns=fitted.columns or (),
        frame=bool(fitted.frames),
        classes=fitted.classes or (),
        labels=True if fitted.classes and not callable(source) else None,
        answers=None if fitted.classes or fitted.answers != "scores" else 1,
        fitted=fitted,
    )


def _of_texts(name: str, labels: tuple[str, ...]) -> Signature:
    """Return the signature of a classifier of texts, which has a score for each label."""
    return Signature(name, classes=labels, labels=False, answers=len(labels))


def _flat(width: Any) -> tuple[Input, ...]:
    return (Input("input", False, width),) if isinstance(width, int) else ()


def _of_service(service: Service) -> Signature:
    """Return what the metadata of a service say; a server of MLflow says nothing."""
    inputs, outputs = service.metadata.inputs, {tensor.name: tensor for tensor in service.metadata.outputs}
    output = outputs.get(service.output or "", next(iter(outputs.values())) if len(outputs) == 1 else None)
    labels, answers = None, None
    if output is not None:
        labels = output.datatype not in REAL
        answers = prod(output.shape[1:]) if -1 not in output.shape[1:] else None
    texts = len(inputs) == 1 and inputs[0].datatype == "BYTES"
    frame = texts or (not inputs and service.inputs is None) or layout_of(service) == "columns"
    names = tuple(tensor.name for tensor in inputs) if frame and not texts else ()
    width = inputs[0].shape[1] if inputs and not frame else -1
    said = replace(NOTHING_SAID, columns=names)
    flat = _flat(width if width > 0 else None)
    return Signature(service.name, flat, names, frame, labels=labels, answers=answers, fitted=said)


def _of_network(network: Network, output: str | None) -> Signature:
    name, graph = str(network.path), network.model.graph
    inputs = [value for value in graph.input if value.name not in network.constants]
    if not inputs:
        raise ModelError(NETWORK_WITHOUT_INPUTS.format(name=name))
    # A sequence has an axis of no fixed size besides that of the rows.
    axes = [value.type.tensor_type.shape.dim for value in inputs]
    sequence = any(sum(not axis.HasField("dim_value") for axis in each) > 1 for each in axes)
    if sequence and any(node.op_type in RECURRENT for node in graph.node):
        raise ModelError(READS_SEQUENCES.format(name=name))
    outputs = {value.name: _tensor(value) for value in graph.output}
    if output is None:
        # By the rule of `model.decision`: labels are preferred to scores, which ZipMap makes no tensor.
        labels = [value.name for value in graph.output if value.type.tensor_type.elem_type not in (0, *_REALS)]
        likely = [*outputs] if len(outputs) == 1 else labels if len(outputs) == 2 else []
        if len(likely) != 1:
            raise ModelError(SEVERAL_OUTPUTS.format(name=name, by_name=", ".join(outputs)))
        output = likely[0]
    elif output not in outputs:
        raise ModelError(f"{name}: {unknown('output', output, list(outputs))}")
    chosen, maker = outputs[output], network.makers.get(output)
    return Signature(
        name,
        inputs=tuple(map(_tensor, inputs)),
        classes=_classes(network, output),
        labels=chosen.text or chosen.whole,
        answers=chosen.width,
        maker=maker.op_type if maker is not None else "",
    )


def _tensor(value: Any) -> Input:
    """Return an input or output of a network; its width is None if the file does not state it."""
    tensor = value.type.tensor_type
    sizes = [size.dim_value for size in tensor.shape.dim][1:]
    width = prod(sizes) if tensor.HasField("shape") and all(size > 0 for size in sizes) else None
    text = tensor.elem_type == _STRING
    return Input(value.name, text, width, whole=not text and tensor.elem_type not in _REALS)


def _classes(network: Network, output: str) -> tuple[Class, ...]:
    """Return the labels that the classifier nearest to the output states."""
    from onnx import numpy_helper

    constants = {tensor.name: tensor for tensor in network.model.graph.initializer}
    waiting = [output]
    for node in (network.makers[name] for name in waiting if name in network.makers):
        for attribute in node.attribute:
            found = attribute.strings or attribute.ints
            if attribute.name.startswith("classlabels_") and found:
                return tuple(each if isinstance(each, int) else each.decode(errors="replace") for each in found)
        if node.op_type == "ArrayFeatureExtractor" and node.input[0] in constants:
            return tuple(map(class_name, numpy_helper.to_array(constants[node.input[0]]).reshape(-1).tolist()))
        waiting += [each for each in dict.fromkeys(node.input) if each not in waiting]
    return ()
