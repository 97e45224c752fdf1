"""A network that comes as bytes: the same checks as for a file, and nothing outside the bytes is ever read."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fairchain.errors import ModelError
from fairchain.model.untrusted import Limits, TrustedBytes, check_operators, node_tensors, parse, tensors_of


def check_bytes(path: Path, content: bytes, limits: Limits) -> TrustedBytes:
    """The bytes of an ONNX network if they pass, or a ModelError; `path` is only what messages call it."""
    if len(content) > limits.file_bytes:
        raise ModelError(f"{path}: more than the limit of {limits.file_bytes} bytes")
    model = parse(path, content)
    check_operators(path, model, limits.nodes)
    tensors = [*tensors_of(model.graph), *(t for function in model.functions for t in node_tensors(function.node))]
    if any(tensor.data_location == tensor.EXTERNAL for tensor in tensors):
        raise ModelError(f"{path}: its weights stand in another file; give a network with all weights inside")
    makers = {name: node.op_type for node in model.graph.node for name in node.output}
    return TrustedBytes(content, hashlib.sha256(content).hexdigest(), makers)
