"""Checks of an untrusted network file before any of it runs.

A file is read once, within a size limit, into a `Network`: the checked bytes, their hash and the parsed graph. All
later steps (sessions, probes, cuts, repairs) work on that object, so only checked bytes run. Operators come from an
allow-list (no loops, no conditionals, no custom libraries), and external weights only from plain files in the model's
own folder. Limits on memory and time while it runs are in `runtime`.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from fairchain.errors import ModelError
from fairchain.messages import in_a_line
from fairchain.models.onnx.operator_rules import RULES
from fairchain.system.untrusted_files import UnreadableError, read_plain

if TYPE_CHECKING:
    from onnx import FunctionProto, ModelProto, NodeProto, TensorProto

# Operators of inference graphs that always terminate: those with a rule for rows, and a few that may not read rows.
# Loop, Scan and If are left out on purpose.
OPERATORS = frozenset(RULES) | {
    *("Compress", "DictVectorizer", "DynamicQuantizeLinear", "EyeLike"),
    *("NonZero", "StringNormalizer", "Upsample", "ZipMap"),
}
DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml"})
# Domains whose operators the runtime implements itself: it would not run a function there.
BUILT_IN = ("ai.onnx.", "com.microsoft.", "com.ms.")
# Domain, name and overload of a function.
FunctionKey = tuple[str, str, str]
# Largest depth of calls between functions; exported networks have a handful of levels.
DEPTH = 100
# Fields of a message that may contain operators or tensors, by the name of its type.
PARTS = {
    "ModelProto": ("graph", "training_info", "functions"),
    "TrainingInfoProto": ("initialization", "algorithm"),
    "FunctionProto": ("attribute_proto", "node"),
    "GraphProto": ("initializer", "sparse_initializer", "node"),
    "NodeProto": ("attribute",),
    "AttributeProto": ("t", "g", "sparse_tensor", "tensors", "graphs", "sparse_tensors"),
    "SparseTensorProto": ("values", "indices"),
    "TensorProto": (),
}
NOT_BESIDE_THE_MODEL = (
    '{path}: external data "{location}" is not a plain file in the model\'s own folder; save the network as one file'
)
GRAPH_INSIDE = "has a graph inside"
NO_MODEL_FILE = "model.path is relative to the spec file's folder; or give another model: --model (model=... in Python)"
NOT_ONNX = "{path}: not an ONNX file, or a truncated one; model.path must name a network saved as ONNX"
NOT_ALLOWED = "is not allowed in untrusted files"
FUNCTIONS_TOO_DEEP = "{path}: functions call each other more than {depth} levels deep; export the network without them"
RECURRENT_ADVICE = (
    ": a recurrent layer as the operator LSTM, GRU or RNN, with the lengths of sequences as an input (in Keras without "
    "mask_zero, in torch by tracing, not by scripting)"
)
TWO_OPERATOR_VERSIONS = "{path}: {shown} names two versions of its operators; export the network again"
OPERATOR_VERSIONS_DIFFER = (
    '{path}: {shown} has version {version} of the operators "{name}" and the network {versions}; export both with the '
    "same version"
)


@dataclass(frozen=True)
class Limits:
    """Limits for the size and the resources of a network.

    Parameters
    ----------
    file_bytes
        Largest size of the file with its external weights, and of the unpacked contents of an archive.
    nodes
        Largest number of operators in the graph, including operators in functions.
    memory_bytes
        Largest memory that onnxruntime may allocate in this process. All networks share one pool with the limit of the
        first network.
    seconds
        Time limit of one call of the network. A call that takes longer ends after the operator that is running.
    batch
        Largest number of rows that a network with a fixed batch dimension may take in one call.
    """

    file_bytes: int = 500_000_000
    nodes: int = 20_000
    memory_bytes: int = 4 * 2**30
    seconds: float = 60.0
    batch: int = 2**16


class Network(Struct, frozen=True, eq=False, dict=True):
    """A network that passed the checks.

    Parameters
    ----------
    path
        The name that messages use; the file is never opened again.
    content
        The bytes of one ONNX file, external weights included.
    sha256
        Hash of the file; with external weights, the hash of the hashes of all files.
    model
        The parsed network, to be read and never changed.
    """

    path: Path
    content: bytes
    sha256: str
    model: ModelProto

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the arguments for a copy in another process, which parses the bytes again."""
        return _parsed, (self.path, self.content, self.sha256)

    @cached_property
    def makers(self) -> dict[str, NodeProto]:
        """The operator that computes each tensor."""
        return {name: node for node in self.model.graph.node for name in node.output if name}

    @cached_property
    def users(self) -> dict[str, list[NodeProto]]:
        """The operators that read each tensor."""
        users: dict[str, list[NodeProto]] = {}
        for node in self.model.graph.node:
            for name in node.input:
                users.setdefault(name, []).append(node)
        return users

    @cached_property
    def constants(self) -> frozenset[str]:
        """The names of all tensors that are written in the file."""
        made = {name for name, node in self.makers.items() if node.op_type == "Constant"}
        return frozenset(made.union(tensor.name for tensor in self.model.graph.initializer))

    def copy(self) -> ModelProto:
        """Return a copy of the parsed network, which may be changed."""
        return parse_network(self.path, self.content)


def _parsed(path: Path, content: bytes, sha256: str) -> Network:
    return Network(path, content, sha256, parse_network(path, content))


def read_network(path: Path, limits: Limits) -> Network:
    """Read an ONNX file with its external weights, or raise a ModelError with the reason why it is refused."""
    content = read_file(path, limits.file_bytes)
    model = parse_network(path, content)
    external = _checked(path, model, limits)
    sha256 = hashlib.sha256(content)
    if external:
        digests = [sha256.digest()]
        content = _with_external_data(path, model, external, limits.file_bytes - len(content), digests)
        # A hash of hashes: bytes cannot move from one file to the next under the same hash.
        sha256 = hashlib.sha256(b"".join(digests))
    return Network(path, content, sha256.hexdigest(), model)


def check_bytes(path: Path, content: bytes, limits: Limits) -> Network:
    """Check an ONNX network in memory; `path` is only the name that messages use.

    Raises a ModelError as `read_network` does, and also for external weights, because bytes have no folder.
    """
    if len(content) > limits.file_bytes:
        raise ModelError(f"{path}: more than the limit of {limits.file_bytes} bytes")
    model = parse_network(path, content)
    if _checked(path, model, limits):
        raise ModelError(f"{path}: its weights are in another file; give a network with all weights inside")
    return Network(path, content, hashlib.sha256(content).hexdigest(), model)


def read_file(path: Path, most: int, kind: str = "an ONNX file") -> bytes:
    """Read a regular file of at most `most` bytes, or raise a ModelError."""
    try:
        content = read_plain(path, most)
    except UnreadableError as error:
        raise ModelError(
            f"{path}: {error}; {NO_MODEL_FILE if error.missing else f'the path must name {kind}'}"
        ) from None
    if not content:
        raise ModelError(f"{path}: the file is empty; export the network again")
    return content


@cache
def _messages_alone() -> Any:
    """Return the message types of ONNX, which load five times faster than the whole package."""
    package = find_spec("onnx")
    if package is None or not package.submodule_search_locations:
        raise ModelError("the onnx package is not installed; install fairchain with its dependencies")
    spec = spec_from_file_location(
        "fairchain.models._onnx_messages", Path(package.submodule_search_locations[0]) / "onnx_ml_pb2.py"
    )
    if spec is None or spec.loader is None:
        return import_module("onnx.onnx_ml_pb2")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parse_network(path: Path, content: bytes) -> ModelProto:
    """Return the network in these bytes, or raise a ModelError."""
    from google.protobuf.message import DecodeError

    messages = import_module("onnx.onnx_ml_pb2") if "onnx" in sys.modules else _messages_alone()
    model: ModelProto = messages.ModelProto()
    try:
        model.ParseFromString(content)
    except (DecodeError, ValueError, UnicodeDecodeError):
        raise ModelError(NOT_ONNX.format(path=path)) from None
    if not model.graph.node or not model.graph.output:
        raise ModelError(f"{path}: contains no network (no operators or no outputs); export it again as ONNX")
    return model


def attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    """Return the value of an operator's attribute: a number, bytes, a tensor, or a list."""
    fields = {1: "f", 2: "i", 3: "s", 4: "t", 6: "floats", 7: "ints", 8: "strings"}
    return next((getattr(each, fields.get(each.type, "i")) for each in node.attribute if each.name == name), default)


def _checked(path: Path, model: ModelProto, limits: Limits) -> list[TensorProto]:
    """Check every part of a network in one walk; return the tensors whose data is in other files."""
    own = _functions(path, model)
    _check_names(path, model)
    if _expanded(path, model, own, limits.nodes) > limits.nodes:
        raise ModelError(f"{path}: more than {limits.nodes} operators; raise Limits.nodes if the file is trusted")
    external = []
    # Every operator, graph, attribute and tensor, at any depth.
    pending: list[Any] = [model]
    while pending:
        part = pending.pop()
        kind = part.DESCRIPTOR.name
        if kind == "NodeProto":
            _check_operator(path, part, own)
        elif kind == "TensorProto" and part.data_location == part.EXTERNAL:
            external.append(part)
        for field, found in part.ListFields() if PARTS[kind] else ():
            if field.name in PARTS[kind]:
                pending.extend(reversed(found) if hasattr(found, "__len__") else [found])
    return external


def _key(node: NodeProto) -> FunctionKey:
    return node.domain, node.op_type, node.overload


def _functions(path: Path, model: ModelProto) -> dict[FunctionKey, FunctionProto]:
    """Return the functions that a file defines, none of which may have the name of an operator of the runtime."""
    own: dict[FunctionKey, FunctionProto] = {}
    for function in model.functions:
        key = function.domain, function.name, function.overload
        shown, domain = _shown(function.name), _shown(function.domain)
        if not domain or f"{domain}.".startswith(BUILT_IN):
            raise ModelError(
                f'{path}: function {shown} is in the domain "{domain}" of built-in operators; export '
                "the network with functions in a domain of their own, or without functions"
            )
        # Older runtimes do not distinguish overloads of a name.
        if any(known[:2] == key[:2] for known in own):
            raise ModelError(f"{path}: function {shown} is defined twice; export the network again")
        own[key] = function
    versions = _versions(path, model, "the network")
    for function in model.functions:
        shown = f"function {_plain(function.name)}"
        for name, version in _versions(path, function, shown).items():
            # The runtime uses the network's version for operators in functions too.
            if versions.get(name, version) != version:
                raise ModelError(
                    OPERATOR_VERSIONS_DIFFER.format(
                        path=path, shown=shown, version=version, name=_plain(name), versions=versions[name]
                    )
                )
    return own


def _versions(path: Path, part: ModelProto | FunctionProto, shown: str) -> dict[str, int]:
    """Return the version of each set of operators; operators of two versions would have two meanings."""
    versions: dict[str, int] = {}
    for each in part.opset_import:
        name = "" if each.domain == "ai.onnx" else each.domain
        if versions.setdefault(name, each.version) != each.version:
            raise ModelError(TWO_OPERATOR_VERSIONS.format(path=path, shown=shown))
    return versions


def _check_names(path: Path, model: ModelProto) -> None:
    """Refuse a name with two meanings: the runtime and the checks might use different ones."""
    graph = model.graph
    constants = [each.name for each in graph.initializer] + [each.values.name for each in graph.sparse_initializer]
    made = [name for node in graph.node for name in node.output if name]
    _check_different(path, "a tensor", constants + made)
    _check_different(path, "a tensor", [each.name for each in graph.input] + made)
    for node in graph.node:
        _check_attributes(path, node, ())
    for function in model.functions:
        inner = [name for node in function.node for name in node.output if name]
        _check_different(path, "a tensor", [*function.input, *inner])
        declared = [*function.attribute, *(each.name for each in function.attribute_proto)]
        _check_different(path, "an attribute", declared)
        for node in function.node:
            _check_attributes(path, node, declared)


def _check_attributes(path: Path, node: NodeProto, declared: Collection[str]) -> None:
    """Refuse attributes with two values; `declared` are those of the function that an operator is in."""
    attributes = node.attribute
    if len(attributes) > 1:
        _check_different(path, "an attribute", [each.name for each in attributes])
        if node.op_type == "Constant":
            raise ModelError(f"{path}: operator Constant has several values; export the network again")
    for each in attributes:
        if not each.ref_attr_name:
            continue
        fields = {field.name for field, _ in each.ListFields()}
        if each.ref_attr_name not in declared or not fields <= {"name", "ref_attr_name", "type", "doc_string"}:
            raise ModelError(
                f'{path}: attribute "{_shown(each.name)}" refers to another one besides its value, or to one that its '
                "function does not declare; export the network again"
            )


def _check_different(path: Path, what: str, names: Sequence[str]) -> None:
    """Raise a ModelError if one of these names occurs twice."""
    if len(set(names)) < len(names):
        again = Counter(names).most_common(1)[0][0]
        raise ModelError(f'{path}: {what} named "{_shown(again)}" is defined twice; export the network again')


def _check_operator(path: Path, node: NodeProto, own: Iterable[FunctionKey]) -> None:
    """Raise a ModelError for an operator that is not allowed, is random, or contains a graph."""
    name = _shown(f"{node.domain}.{node.op_type}" if node.domain else node.op_type)
    built_in = _key(node) not in own
    if built_in and node.op_type == "Dropout" and len(node.input) > 2 and node.input[2]:
        raise ModelError(f"{path}: Dropout with a training mode is random; export the network for inference")
    if built_in and (node.domain not in DOMAINS or node.op_type not in OPERATORS):
        problem = NOT_ALLOWED
    elif any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
        problem = GRAPH_INSIDE
    else:
        return
    advice = "export the network for inference without loops, conditionals and custom operators"
    if name in ("Loop", "Scan"):
        advice += RECURRENT_ADVICE
    raise ModelError(f"{path}: operator {name} {problem}; {advice}")


def _expanded(path: Path, model: ModelProto, own: dict[FunctionKey, FunctionProto], most: int) -> int:
    """Return the number of operators after all functions are expanded, plus those in the functions themselves.

    Each function is counted once, so the time is linear in the size of the file. Above `most` the result is not exact.
    """
    sizes: dict[FunctionKey, int] = {}
    depths: dict[FunctionKey, int] = {}
    written = 0
    for start in own:
        pending = [start]
        open_calls: set[FunctionKey] = set()
        while pending:
            key = pending[-1]
            if key in sizes:
                pending.pop()
                continue
            called = [_key(node) for node in own[key].node]
            inner = [call for call in called if call in own]
            missing = [call for call in inner if call not in sizes]
            if missing and key in open_calls:
                raise ModelError(f"{path}: function {_shown(key[1])} calls itself; export the network again")
            if missing:
                open_calls.add(key)
                pending.extend(dict.fromkeys(missing))
                continue
            pending.pop()
            written += len(called)
            sizes[key] = min(most + 1, sum(sizes.get(call, 1) for call in called))
            depths[key] = 1 + max((depths[call] for call in inner), default=0)
            if depths[key] > DEPTH:
                raise ModelError(FUNCTIONS_TOO_DEEP.format(path=path, depth=DEPTH))
    return written + sum(sizes.get(_key(node), 1) for node in model.graph.node)


def _with_external_data(
    path: Path, model: ModelProto, tensors: list[TensorProto], most: int, digests: list[bytes]
) -> bytes:
    """Move external weights, from plain files within the limit, into the model; record the hash of each file."""
    contents: dict[str, bytes] = {}
    for tensor in tensors:
        fields = {entry.key: entry.value for entry in tensor.external_data}
        location = _plain(fields.get("location", ""))
        if location not in contents:
            target = path.resolve().parent / location
            plain = location and Path(location).name == location and not target.is_symlink() and target.is_file()
            # A file with a second hard link could be any file on the disk.
            if not plain or target.stat().st_nlink != 1:
                raise ModelError(NOT_BESIDE_THE_MODEL.format(path=path, location=location))
            contents[location] = read_file(target, most, "a file of weights")
            most -= len(contents[location])
            digests.append(hashlib.sha256(contents[location]).digest())
        available = len(contents[location])
        try:
            start = int(fields.get("offset", "0"))
            length = int(fields.get("length", available - start))
        except ValueError:
            start = length = -1
        if start < 0 or length < 0 or start + length > available:
            raise ModelError(f"{path}: external data is shorter than the model states, or damaged; export it again")
        tensor.raw_data = contents[location][start : start + length]
        del tensor.external_data[:]
        tensor.data_location = tensor.DEFAULT
    return bytes(model.SerializeToString())


def _plain(text: str | bytes) -> str:
    """Return a name from the file as text; protobuf returns bytes if it is not UTF-8."""
    return text if isinstance(text, str) else ascii(text)


def _shown(name: str | bytes) -> str:
    """Return a name from the file for a message: on one line, without control characters, at most 80 characters."""
    text = in_a_line(_plain(name))
    return text if len(text) <= 80 else text[:77] + "..."
