"""Chains as JSON: everything there is in one, with numbers that come back exactly.

The file is versioned and read strictly: what is missing, unknown or of another kind is an error.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from fairchain.chain.chain import Chain
from fairchain.chain.formats.files import MOST_STATES, read_bytes
from fairchain.errors import ChainError

FORMAT, VERSION = "fairchain-chain", 2
_COLUMNS = ("sources", "targets", "probabilities", "low", "high", "counts")
State = Annotated[int, msgspec.Meta(ge=0, lt=MOST_STATES)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Share = Annotated[float, msgspec.Meta(ge=0)]


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """The entries that say what a file is."""

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
    counts: list[Count] | None
    metadata: dict[str, Any]


def to_text(chain: Chain) -> str:
    """The chain as JSON, one entry on each line."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "states": chain.states,
        "initial": chain.initial,
        "labels": {label: sorted(states) for label, states in chain.labels.items()},
        "unvisited": sorted(chain.unvisited),
        **{name: _column(getattr(chain, name)) for name in _COLUMNS},
        "metadata": dict(chain.metadata),
    }
    try:
        entries = [f"{json.dumps(key)}: {_dumped(value)}" for key, value in content.items()]
    except (TypeError, ValueError, RecursionError) as error:
        raise ChainError(f"the chain cannot be written as JSON: {error}; keep plain values in metadata") from None
    return "{\n" + ",\n".join(entries) + "\n}\n"


def read(path: Path, *, fix_deadlocks: bool = False) -> Chain:
    """The chain in a JSON file."""
    content = read_bytes(path)
    _check_head(path, content)
    try:
        file = msgspec.json.decode(content, type=_File)
        _check_rest(file)
        if fix_deadlocks:
            file = _without_deadlocks(file)
        return Chain(
            states=tuple(file.states),
            sources=np.array(file.sources, np.intp),
            targets=np.array(file.targets, np.intp),
            probabilities=np.array(file.probabilities, np.float64),
            labels={label: frozenset(states) for label, states in file.labels.items()},
            initial=file.initial,
            low=None if file.low is None else np.array(file.low, np.float64),
            high=None if file.high is None else np.array(file.high, np.float64),
            counts=None if file.counts is None else np.array(file.counts, np.int64),
            unvisited=frozenset(file.unvisited),
            metadata=file.metadata,
        )
    except ChainError as error:
        raise ChainError(f"{path}: {error}; correct the file or write the chain again") from None
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise _damaged(path, content, error) from None


def _check_rest(file: _File) -> None:
    """What a chain itself does not check."""
    if any(state >= len(file.states) for state in file.unvisited):
        raise ChainError('"unvisited" names a state that does not exist')


def _without_deadlocks(file: _File) -> _File:
    """The same with a loop at every state that has no transition."""
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


def _column(array: Any) -> list[Any] | None:
    return None if array is None else array.tolist()


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _check_head(path: Path, content: bytes) -> None:
    """Say it plainly if this is another kind of file."""
    try:
        head = msgspec.json.decode(content, type=_Head)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise _damaged(path, content, error) from None
    if head.format != FORMAT:
        raise ChainError(
            f'{path}: is no chain: "format" is {json.dumps(head.format[:40])}, not "{FORMAT}"; '
            "name a file that write_chain or export wrote"
        )
    if head.version != VERSION:
        raise ChainError(
            f"{path}: cannot read chain file version {head.version}, expected {VERSION}; learn the chain again, or "
            "export it to another format with the fairchain that wrote it"
        )


def _damaged(path: Path, content: bytes, error: Exception) -> ChainError:
    place = re.search(r"\(byte ([0-9]{1,12})\)", str(error))
    line = f" line {content.count(bytes([10]), 0, int(place[1])) + 1}:" if place else ""
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return ChainError(f"{path}:{line} is no chain in JSON: {reason}; correct it or write the chain again")
