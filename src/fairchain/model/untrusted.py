"""A network's file is untrusted input: what is looked at before any of it runs.

The file is read once, within a size limit, and handed on as bytes, so that what was checked is what runs.
Operators come from an allow-list (no loops, no conditionals, no custom libraries), and external weights only from
plain files in the model's own folder. Limits on memory and time while it runs are in `onnx_model` and `watchdog`.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairchain.errors import ModelError

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

# Operators of inference graphs that end by themselves. Loop, Scan and If are left out on purpose.
OPERATORS = frozenset(
    """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization BitShift
    BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip Compress Concat Constant
    ConstantOfShape Conv ConvTranspose Cos Cosh CumSum DepthToSpace DequantizeLinear Div Dropout
    DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND
    Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GroupNormalization HardSigmoid HardSwish
    Hardmax Identity InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less LessOrEqual Log
    LogSoftmax LpNormalization LpPool MatMul MatMulInteger Max MaxPool Mean MeanVarianceNormalization Min Mish Mod
    Mul Neg NonZero Not OneHot Or PRelu Pad Pow QLinearConv QLinearMatMul QuantizeLinear RMSNormalization RNN
    Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
    ReduceSum ReduceSumSquare Relu Reshape ReverseSequence Round ScatterElements ScatterND Selu Shape Shrink
    Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze StringNormalizer
    Sub Sum Swish Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Upsample Where Xor
    ArrayFeatureExtractor Binarizer CategoryMapper DictVectorizer FeatureVectorizer Imputer LabelEncoder
    LinearClassifier LinearRegressor Normalizer OneHotEncoder SVMClassifier SVMRegressor Scaler
    TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor ZipMap
    """.split()  # noqa: SIM905  # a block of names reads better than a list of strings
)
DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml"})


@dataclass(frozen=True)
class Limits:
    """How much a network may ask for.

    Parameters
    ----------
    file_bytes
        Of the file and its external weights together.
    nodes
        Operators in the graph, its functions included.
    memory_bytes
        That onnxruntime may allocate in this process (one pool for all networks; the first limit stays).
    seconds
        One call of the network may take. The call is broken off after the operator that is running then.
    """

    file_bytes: int = 500_000_000
    nodes: int = 20_000
    memory_bytes: int = 4 * 2**30
    seconds: float = 60.0


@dataclass(frozen=True)
class TrustedBytes:
    """A network that passed the checks: the bytes to run, their hash, and the operator behind each output."""

    content: bytes
    sha256: str
    makers: dict[str, str]


def read_network(path: Path, limits: Limits) -> TrustedBytes:
    """Read an ONNX file and everything it needs, or raise a ModelError that says why it is not taken."""
    content = _read(path, limits.file_bytes)
    model = parse(path, content)
    check_operators(path, model, limits.nodes)
    digest = hashlib.sha256(content)
    external = [tensor for tensor in tensors_of(model.graph) if tensor.data_location == tensor.EXTERNAL]
    external += [
        t for function in model.functions for t in node_tensors(function.node) if t.data_location == t.EXTERNAL
    ]
    if external:
        content = _with_external_data(path, model, external, limits.file_bytes - len(content), digest)
    makers = {name: node.op_type for node in model.graph.node for name in node.output}
    return TrustedBytes(content, digest.hexdigest(), makers)


def _read(path: Path, most: int) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise ModelError(f"{path}: not a plain file; model.path must name an ONNX file")
        with path.open("rb") as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file; model.path is taken relative to the spec file's folder") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); model.path must name an ONNX file") from None
    except ValueError as error:
        raise ModelError(f"{path}: cannot be read ({error}); model.path must name an ONNX file") from None
    if len(content) > most:
        raise ModelError(f"{path}: more than the limit of {most} bytes")
    if not content:
        raise ModelError(f"{path}: the file is empty; export the network again")
    return content


def _messages() -> Any:
    """The message types of ONNX. They are all that is needed here, and load five times faster than the package."""
    if "onnx" in sys.modules:
        return import_module("onnx.onnx_ml_pb2")
    package = find_spec("onnx")
    if package is None or not package.submodule_search_locations:
        raise ModelError("the onnx package is not installed; install fairchain with its dependencies")
    spec = spec_from_file_location(
        "fairchain.model._onnx_messages", Path(package.submodule_search_locations[0]) / "onnx_ml_pb2.py"
    )
    if spec is None or spec.loader is None:
        return import_module("onnx.onnx_ml_pb2")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parse(path: Path, content: bytes) -> ModelProto:
    """The network in these bytes, or a ModelError."""
    from google.protobuf.message import DecodeError

    model: ModelProto = _messages().ModelProto()
    try:
        model.ParseFromString(content)
    except (DecodeError, ValueError, UnicodeDecodeError):
        raise ModelError(
            f"{path}: not an ONNX file, or a truncated one; model.path must name a network saved as ONNX"
        ) from None
    if not model.graph.node or not model.graph.output:
        raise ModelError(f"{path}: holds no network (no operators or no outputs); export it again as ONNX")
    return model


def check_operators(path: Path, model: ModelProto, most: int) -> None:
    """Raise a ModelError for an operator that is not on the list, or for too many of them."""
    own = {(function.domain, function.name) for function in model.functions}
    if _expanded(model, most) > most:
        raise ModelError(f"{path}: more than {most} operators; raise Limits.nodes if the file is trusted")
    for node in _nodes(model):
        if (node.domain, node.op_type) in own:
            continue
        if node.op_type == "Dropout" and len(node.input) > 2 and node.input[2]:
            raise ModelError(f"{path}: Dropout with a training mode throws dice; export the network for inference")
        if node.domain not in DOMAINS or node.op_type not in OPERATORS:
            name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            advice = "export the network for inference without loops, conditionals and custom operators"
            if name in ("Loop", "Scan"):
                advice += (
                    ": a recurrent layer as the operator LSTM, GRU or RNN, with the lengths of sequences as an input "
                    "(in Keras without mask_zero, in torch by tracing, not by scripting)"
                )
            raise ModelError(
                f"{path}: operator {_plain(name)} is not on the list of those allowed in untrusted files; {advice}"
            )


def _expanded(model: ModelProto, most: int) -> int:
    """How many operators there are once every function is written out; above `most` it only says: too many."""
    bodies = {(function.domain, function.name): list(_inner(function.node)) for function in model.functions}
    sizes: dict[tuple[str, str], int] = {}
    unknown = dict(bodies)
    while unknown:
        ready = [key for key, nodes in unknown.items() if not any((n.domain, n.op_type) in unknown for n in nodes)]
        if not ready:  # what is left calls itself
            return most + 1
        for key in ready:
            sizes[key] = min(most + 1, sum(sizes.get((n.domain, n.op_type), 1) for n in unknown.pop(key)))
    return sum(sizes.get((n.domain, n.op_type), 1) for n in _inner(model.graph.node)) + sum(map(len, bodies.values()))


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Every node, also those inside functions and subgraphs."""
    yield from _inner([*model.graph.node, *(node for function in model.functions for node in function.node)])


def _inner(nodes: Any) -> Iterator[NodeProto]:
    """These nodes and those inside their subgraphs."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        yield node
        for attribute in node.attribute:
            pending.extend(attribute.g.node)
            pending.extend(inner for graph in attribute.graphs for inner in graph.node)


def tensors_of(graph: GraphProto) -> Iterator[TensorProto]:
    """Every tensor in a graph, wherever it hides."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from node_tensors(graph.node)


def node_tensors(nodes: Any) -> Iterator[TensorProto]:
    """Every tensor in the attributes of these operators."""
    for node in nodes:
        for attribute in node.attribute:
            yield attribute.t
            yield from attribute.tensors
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)


def _with_external_data(path: Path, model: ModelProto, tensors: list[TensorProto], room: int, digest: Any) -> bytes:
    """Take external weights into the model itself: from plain files beside it, within the limit, hashed in order."""
    contents: dict[str, bytes] = {}
    for tensor in tensors:
        fields = {entry.key: entry.value for entry in tensor.external_data}
        location = _plain(fields.get("location", ""))
        if location not in contents:
            contents[location] = _beside(path, location, room)
            room -= len(contents[location])
            digest.update(contents[location])
        start, length = _extent(path, fields, len(contents[location]))
        tensor.raw_data = contents[location][start : start + length]
        del tensor.external_data[:]
        tensor.data_location = tensor.DEFAULT
    return bytes(model.SerializeToString())


def _plain(text: str | bytes) -> str:
    """A name from the file; protobuf hands out bytes where they are no text."""
    return text if isinstance(text, str) else ascii(text)


def _beside(path: Path, location: str, room: int) -> bytes:
    folder = path.resolve().parent
    target = folder / location
    plain = location and Path(location).name == location and not target.is_symlink() and target.is_file()
    # A second hard link could be a file from anywhere on the disk.
    if not plain or target.stat().st_nlink != 1:
        raise ModelError(
            f'{path}: external data "{location}" is not a plain file in the model\'s own folder; '
            "save the network as one file"
        )
    return _read(target, room)


def _extent(path: Path, fields: dict[str, str], available: int) -> tuple[int, int]:
    try:
        start = int(fields.get("offset", "0"))
        length = int(fields.get("length", available - start))
    except ValueError:
        start = length = -1
    if start < 0 or length < 0 or start + length > available:
        raise ModelError(f"{path}: external data is shorter than the model says, or damaged; export it again")
    return start, length
