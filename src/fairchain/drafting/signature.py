"""Signature of a model: its inputs, classes and outputs, as far as they are visible without a spec.

An ONNX file states most of it; a scikit-learn estimator knows its columns and classes; a torch or Keras model its
width. A plain function shows nothing. A file is checked as untrusted input before it is parsed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from fairchain.errors import ModelError
from fairchain.messages import FILE_NOT_FOUND, unknown
from fairchain.models import Limits, Model, load_model
from fairchain.models.adapters.from_keras import is_keras
from fairchain.models.adapters.from_service import REAL, Service, layout_of
from fairchain.models.adapters.from_torch import inner_module, is_module
from fairchain.models.adapters.from_transformers import is_folder, is_transformer, read_folder
from fairchain.models.adapters.from_transformers import opened as transformer_of
from fairchain.models.adapters.torch_call import forward_parameters
from fairchain.models.fitted import Fitted, class_name, fitted_of
from fairchain.models.frames import FrameModel
from fairchain.models.load import PYTHON, import_named, is_url
from fairchain.models.onnx.file_checks import Network, check_bytes, read_network
from fairchain.models.onnx.padding import RECURRENT
from fairchain.models.onnx.session import OnnxModel
from fairchain.models.onnx.token_inputs import tokens_within
from fairchain.spec import Difference, IntegerFeature, ModelSpec, Spec
from fairchain.tables import TableRows

Class = int | str
# TensorProto.DataType of ONNX.
_REALS, _STRING, _WHOLE = (1, 10, 11), 8, (2, 3, 4, 5, 6, 7, 12, 13)
# Files that are converted for the features of a spec: whether they can be is seen when they are tried.
NEEDS_SPEC = (".json", ".h5", ".hdf5", ".nnet")
SEVERAL_OUTPUTS = "{name}: the network has outputs {by_name}; choose one with --model-output (model_output=...)"
NETWORK_WITHOUT_INPUTS = "{name}: the network has no inputs; export it again"
READS_SEQUENCES = (
    "{name}: reads sequences of any length, and a row of a table is not one; write a spec about texts by hand, as "
    "docs/text.md shows"
)
NAMES_NO_MODEL = "{model}: found a {type}; name a function or a model there"


@dataclass(frozen=True)
class Input:
    """Input of a network; `width` is the number of values per row, None if it is not fixed.

    `whole`: it takes whole numbers, as an embedding does.
    """

    name: str
    text: bool
    width: int | None
    whole: bool = False


@dataclass(frozen=True)
class Signature:
    """Visible properties of a model; what is not visible is empty or None."""

    name: str  # in messages
    inputs: tuple[Input, ...] = ()  # of a network
    columns: tuple[str, ...] = ()  # on which an estimator was fitted, if it was fitted on a frame
    frame: bool = False  # whether the model takes a frame
    classes: tuple[Class, ...] = ()  # the model's own labels in its own order
    labels: bool | None = None  # whether the output holds labels or scores
    answers: int | None = None  # number of scores per row
    maker: str = ""  # operator that computes the output
    fitted: Fitted | None = field(default=None, compare=False)  # None for a network

    def column(self, name: str) -> str | None:
        """Return what a model that was fitted on named columns calls a column of the table; None if it has none."""
        return self.fitted.column(name) if self.fitted is not None else name if name in self.columns else None


@dataclass(frozen=True)
class OpenedModel:
    """Model that was read once: a checked ONNX network, or else an object or a path to convert.

    `width`: how many values a network takes that is converted for the features of a spec.
    """

    source: Any
    network: Network | None
    name: str
    limits: Limits | None
    width: int | None = None

    def load(self, spec: Spec, rows: TableRows | None = None) -> Model:
        """Return the model with the inputs and labels of this spec, to evaluate these rows."""
        if self.network is not None:
            return OnnxModel.from_network(self.network, spec, self.limits)
        # The caller named this model; a name from a spec file never comes here.
        return load_model(self.source, spec, self.limits, allow_python=True, rows=rows)


def open_model(model: Any, limits: Limits | None = None) -> OpenedModel:
    """Read a model once, and refuse at once what cannot be loaded whatever the spec is."""
    source, name, network, width = model, "", None, None
    checked = limits or Limits()
    if isinstance(source, str | os.PathLike) and str(os.fspath(source)).startswith(PYTHON):
        source = import_named(str(os.fspath(model)))
        if isinstance(source, str | os.PathLike):
            raise ModelError(NAMES_NO_MODEL.format(model=model, type=type(source).__name__))
    if is_url(source):
        source = Service(source)
    if isinstance(source, str | os.PathLike):
        path = Path(os.fspath(source))
        if is_folder(path):
            found = read_folder(path)
            network = check_bytes(path, found, checked) if isinstance(found, bytes) else None
            return OpenedModel(found, network, str(path), limits)
        if not path.is_file():
            raise ModelError(
                FILE_NOT_FOUND.format(path=path, remedy="give the file of a model, for example model.onnx")
            )
        name = str(path)
        source, network, width = _open_file(path, checked)
    elif getattr(getattr(source, "DESCRIPTOR", None), "full_name", "") == "onnx.ModelProto":
        source = source.SerializeToString(deterministic=True)
    if isinstance(source, bytes | bytearray | memoryview):
        name = "ONNX network in memory"
        network = check_bytes(Path(name), bytes(source), checked)
    opened = OpenedModel(source, network, name, limits, width)
    runs = (
        is_transformer(source)
        or callable(source)
        or hasattr(source, "predict")
        or isinstance(source, FrameModel)
        or network is not None
    )
    if not runs and Path(name).suffix.lower() not in NEEDS_SPEC:
        # Neither a network nor code: this raises the error for such a file or object.
        placeholder = Difference(protected=("x",), threshold=0.1)
        model_spec, features = ModelSpec(labels=("0", "1")), (IntegerFeature(name="x", low=0, high=1),)
        opened.load(Spec(model=model_spec, described=features, property=placeholder))
    return opened


def _open_file(path: Path, limits: Limits) -> tuple[Any, Network | None, int | None]:
    """Return what is in a file: an object of another package or a checked network; the path if a spec is needed too.

    The third value is the number of values that such a network takes, where it is known.
    """
    suffix = path.suffix.lower()
    if suffix == ".onnx":
        return path, read_network(path, limits), None
    if suffix == ".keras":
        from fairchain.models.adapters.from_keras import read_keras_file

        return read_keras_file(path, limits), None, None
    from fairchain.models.adapters.model_files import holds_object, read_object

    if holds_object(path):
        return read_object(path, limits), None, None
    if suffix == ".json":
        from fairchain.models.adapters.from_socrates import to_network
        from fairchain.models.adapters.socrates_file import SocratesFile

        network = check_bytes(path, to_network(SocratesFile(path, limits), None), limits)
        # How many steps a sequence has is not in the file.
        return path, network if len(network.model.graph.input) == 1 else None, None
    if suffix == ".nnet":
        from fairchain.models.adapters.from_nnet import read_nnet

        return path, None, len(read_nnet(path, limits).low)
    if suffix in (".h5", ".hdf5"):
        from fairchain.models.adapters.from_h5 import h5_network

        return path, check_bytes(path, h5_network(path, limits), limits), None
    return path, None, None


def signature_of(opened: OpenedModel, output: str | None = None) -> Signature:
    """Return what is visible of a model; `output` names the output to read where there are several."""
    model = opened.source
    tokens = tokens_within(opened.network.path, opened.network.model) if opened.network is not None else None
    if tokens is not None:
        return Signature(opened.name, classes=tokens.labels, labels=False, answers=len(tokens.labels))
    if opened.network is not None:
        return _of_network(opened.network, output)
    if isinstance(model, Path):
        return Signature(opened.name, inputs=_flat(opened.width))
    if is_transformer(model):
        found = transformer_of(model)
        return Signature(found.name, classes=found.labels, labels=False, answers=len(found.labels))
    if isinstance(model, Service):
        return _of_service(model)
    if is_keras(model):
        tensors = getattr(model, "inputs", None) or ()
        if len(tensors) > 1:
            return Signature("Keras model", inputs=tuple(map(_keras_input, tensors)))
        shape = getattr(model, "input_shape", None)
        sizes = shape[1:] if isinstance(shape, tuple) else ()
        return Signature("Keras model", inputs=_flat(prod(sizes) if sizes and None not in sizes else None))
    if is_module(model):
        parameters = forward_parameters(inner_module(model))
        if len(parameters) > 1:
            return Signature("torch module", inputs=tuple(Input(each, False, None) for each in parameters))
        first = next((part for part in model.modules() if hasattr(part, "weight")), None)
        width = getattr(first, "in_features", getattr(first, "num_features", None))
        return Signature("torch module", inputs=_flat(width))
    fitted = fitted_of(model)
    if fitted.package is None:
        return Signature("function", frame=isinstance(model, FrameModel), fitted=fitted)
    return Signature(
        fitted.name,
        inputs=() if fitted.columns else _flat(fitted.width),
        columns=fitted.columns or (),
        frame=bool(fitted.frames),
        classes=fitted.classes or (),
        labels=True if fitted.classes and not callable(model) else None,
        answers=None if fitted.classes or fitted.answers != "scores" else 1,
        fitted=fitted,
    )


def _of_service(service: Service) -> Signature:
    """Return what the metadata of a service say; a server of MLflow says nothing."""
    outputs = {tensor.name: tensor for tensor in service.metadata.outputs}
    output = outputs.get(service.output or "", next(iter(outputs.values())) if len(outputs) == 1 else None)
    labels, answers = None, None
    if output is not None:
        labels = output.datatype not in REAL
        answers = prod(output.shape[1:]) if -1 not in output.shape[1:] else None
    common: dict[str, Any] = {"labels": labels, "answers": answers}
    names = tuple(tensor.name for tensor in service.metadata.inputs)
    texts = len(names) == 1 and service.metadata.inputs[0].datatype == "BYTES"
    if texts or (not names and service.inputs is None):
        return Signature(service.name, frame=True, **common)
    if layout_of(service) == "columns":
        return Signature(service.name, columns=names, frame=True, **common)
    width = service.metadata.inputs[0].shape[1] if service.metadata.inputs else -1
    return Signature(service.name, inputs=_flat(width if width > 0 else None), **common)


def _keras_input(tensor: Any) -> Input:
    sizes = tuple(tensor.shape[1:])
    return Input(tensor.name, False, None if None in sizes else prod(sizes), str(tensor.dtype).startswith("int"))


def _flat(width: Any) -> tuple[Input, ...]:
    return (Input("input", False, width),) if isinstance(width, int) else ()


def _of_network(network: Network, output: str | None) -> Signature:
    name, graph = str(network.path), network.model.graph
    constants = {tensor.name for tensor in graph.initializer}
    values = [value for value in graph.input if value.name not in constants]
    if not values:
        raise ModelError(NETWORK_WITHOUT_INPUTS.format(name=name))
    # A sequence has an axis of no fixed size besides that of the rows.
    axes = [value.type.tensor_type.shape.dim for value in values]
    sequence = any(sum(not axis.HasField("dim_value") for axis in each) > 1 for each in axes)
    if sequence and any(node.op_type in RECURRENT for node in graph.node):
        raise ModelError(READS_SEQUENCES.format(name=name))
    chosen = _chosen(graph, name, output)
    maker = network.makers.get(chosen.name)
    return Signature(
        name,
        inputs=tuple(
            Input(value.name, kind == _STRING, _width(value), kind in _WHOLE)
            for value in values
            for kind in (value.type.tensor_type.elem_type,)
        ),
        classes=_classes(graph, chosen.name),
        labels=chosen.type.tensor_type.elem_type not in _REALS,
        answers=_width(chosen),
        maker=maker.op_type if maker is not None else "",
    )


def _width(value: Any) -> int | None:
    """Return the number of values per row; None if the file does not state it."""
    if not value.type.tensor_type.HasField("shape"):
        return None
    sizes = [size.dim_value for size in value.type.tensor_type.shape.dim][1:]
    return prod(sizes) if all(size > 0 for size in sizes) else None


def _chosen(graph: Any, name: str, output: str | None) -> Any:
    """Return the output that decides, by the rule of `model.decision`: labels are preferred to scores."""
    by_name = {value.name: value for value in graph.output}
    if output is not None:
        if output not in by_name:
            raise ModelError(f"{name}: {unknown('output', output, list(by_name))}")
        return by_name[output]
    tensors = [value for value in graph.output if value.type.HasField("tensor_type")]
    labels = [value for value in tensors if value.type.tensor_type.elem_type not in _REALS]
    if len(by_name) == 1:
        return graph.output[0]
    if len(by_name) == 2 and len(labels) == 1:
        return labels[0]
    raise ModelError(SEVERAL_OUTPUTS.format(name=name, by_name=", ".join(by_name)))


def _classes(graph: Any, output: str) -> tuple[Class, ...]:
    """Return the labels that the classifier nearest to the output states."""
    from onnx import numpy_helper

    nodes = {each: node for node in graph.node for each in node.output}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    waiting = [output]
    for node in (nodes[name] for name in waiting if name in nodes):
        for attribute in node.attribute:
            found = attribute.strings or attribute.ints
            if attribute.name.startswith("classlabels_") and found:
                return tuple(each if isinstance(each, int) else each.decode(errors="replace") for each in found)
        if node.op_type == "ArrayFeatureExtractor" and node.input[0] in constants:
            return tuple(map(class_name, numpy_helper.to_array(constants[node.input[0]]).reshape(-1).tolist()))
        waiting += [each for each in dict.fromkeys(node.input) if each not in waiting]
    return ()
