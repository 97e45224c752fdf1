"""Chains as JSON: a complete chain, with numbers that read back exactly.

The file is versioned and read strictly: a missing or unknown entry, or one of another type, is an error.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np

from fairchain.chain.chain import Chain
from fairchain.chain.formats.reading import MOST_STATES, read_chain_bytes
from fairchain.errors import ChainError

CHAIN_FORMAT, CHAIN_VERSION = "fairchain-chain", 2
_COLUMNS: dict[str, Any] = {
    "sources": np.intp,
    "targets": np.intp,
    "probabilities": np.float64,
    "low": np.float64,
    "high": np.float64,
    "counts": np.int64,
}
Decoded = TypeVar("Decoded")
State = Annotated[int, msgspec.Meta(ge=0, lt=MOST_STATES)]
TransitionCount = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Share = Annotated[float, msgspec.Meta(ge=0)]
NOT_JSON_VALUES = "the chain cannot be written as JSON: {error}; keep plain values in metadata"


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """The entries that identify a file."""

    format: str = ""
    version: int = 0


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file: a chain in columns."""

    format: Literal["fairchain-chain"]
    version: Literal[2]
    states: list[str]
    initial: State
    labels: dict[str, list[State]]
    unvisited: list[State]
    sources: list[State]
    targets: list[State]
    probabilities: list[Share]
    low: list[Share] | None
    high: list[Share] | None
    counts: list[TransitionCount] | None
    metadata: dict[str, Any]


def to_lines(chain: Chain) -> list[str]:
    """Return the lines of the chain as JSON, one for each entry."""
    columns = {name: getattr(chain, name) for name in _COLUMNS}
    content = {
        "format": CHAIN_FORMAT,
        "version": CHAIN_VERSION,
        "states": chain.states,
        "initial": chain.initial,
        "labels": {label: sorted(states) for label, states in chain.labels.items()},
        "unvisited": sorted(chain.unvisited),
        **{name: None if column is None else column.tolist() for name, column in columns.items()},
        "metadata": dict(chain.metadata),
    }
    try:
        entries = [
            f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}"
            for key, value in content.items()
        ]
    except (TypeError, ValueError, RecursionError) as error:
        raise ChainError(NOT_JSON_VALUES.format(error=error)) from None
    return ["{", ",\n".join(entries), "}"]


def read(path: Path, *, fix_deadlocks: bool = False) -> Chain:
    """Read the chain in a JSON file."""
    content = read_chain_bytes(path)
    head = _decoded(path, content, _Head)
    if head.format != CHAIN_FORMAT:
        raise ChainError(
            f'{path}: not a chain: "format" is {json.dumps(head.format[:40])}, not "{CHAIN_FORMAT}"; '
            "name a file that write_chain or export wrote"
        )
    if head.version != CHAIN_VERSION:
        raise ChainError(
            f"{path}: cannot read chain file version {head.version}, expected {CHAIN_VERSION}; learn the chain again, "
            "or export it to another format with the fairchain that wrote it"
        )
    file = _decoded(path, content, _File)
    try:
        if any(state >= len(file.states) for state in file.unvisited):
            raise ChainError('"unvisited" names a state that does not exist')
        if fix_deadlocks:
            file = _without_deadlocks(file)
        arrays: dict[str, Any] = {}
        for name, kind in _COLUMNS.items():
            column = getattr(file, name)
            arrays[name] = None if column is None else np.array(column, kind)
        return Chain(
            states=tuple(file.states),
            labels={label: frozenset(states) for label, states in file.labels.items()},
            initial=file.initial,
            unvisited=frozenset(file.unvisited),
            metadata=file.metadata,
            **arrays,
        )
    except ChainError as error:
        raise ChainError(f"{path}: {error}; correct the file or write the chain again") from None


def _decoded(path: Path, content: bytes, kind: type[Decoded]) -> Decoded:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        found = re.search(r"\(byte ([0-9]{1,12})\)", str(error))
        line = f" line {content.count(bytes([10]), 0, int(found[1])) + 1}:" if found else ""
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ChainError(f"{path}:{line} not a chain in JSON: {reason}; correct it or write the chain again") from None


def _without_deadlocks(file: _File) -> _File:
    """Add a loop to every state that has no transition."""
    columns = {name: getattr(file, name) for name in _COLUMNS if getattr(file, name) is not None}
    stuck = sorted(set(range(len(file.states))) - set(file.sources))
    if not stuck or {len(column) for column in columns.values()} != {len(file.sources)}:
        return file
    loops: dict[str, list[Any]] = {"sources": stuck, "targets": stuck, "counts": [0] * len(stuck)}
    longer = {name: column + loops.get(name, [1.0] * len(stuck)) for name, column in columns.items()}
    order = sorted(range(len(longer["sources"])), key=longer["sources"].__getitem__)
    return msgspec.structs.replace(
        file, **{name: [column[place] for place in order] for name, column in longer.items()}
    )
