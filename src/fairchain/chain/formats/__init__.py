"""Chains as files: PRISM's language and explicit files, Storm's DRN, DOT for drawing, and JSON with all contents.

docs/chains.md describes the contents of each format, and what a round trip preserves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from fairchain.chain.chain import Chain
from fairchain.chain.formats import dot, drn, json_file, prism
from fairchain.errors import ChainError
from fairchain.messages import unknown
from fairchain.system.atomic_write import place

__all__ = ["FORMATS", "ChainFormat", "chain_text", "read_chain", "write_chain"]
UNKNOWN_SUFFIX = "{path}: unknown suffix; use one of {suffixes}, or name the format"
WRITTEN_NOT_READ = '{path}: "{name}" is written but not read; read the chain from {readable}'
TAKES_THREE_FILES = '"{value}" consists of three files ({suffixes}); write it to a path'
FORMAT_WITHOUT_INTERVALS = '"{value}" does not support intervals; write {able}, or "json", which contains both'
NOT_WRITABLE = "{file}: cannot be written: {text!r} is not valid Unicode"


@dataclass(frozen=True)
class ChainFormat:
    """A file format: the suffixes of its files, the usual one first, and functions that write and read it.

    `lines` returns the lines of a file, None if a chain needs several files; `read` is None if the format is only
    written. `intervals`: whether bounds can be written instead of probabilities.
    """

    suffixes: tuple[str, ...]
    lines: Callable[..., Iterable[str]] | None
    read: Callable[..., Chain] | None
    intervals: bool = False


FORMATS: Mapping[str, ChainFormat] = MappingProxyType(
    {
        "prism": ChainFormat((".prism", ".pm"), prism.to_lines, None, intervals=True),
        "explicit": ChainFormat(prism.EXPLICIT_SUFFIXES, None, prism.read_explicit),
        "drn": ChainFormat((".drn",), drn.to_lines, drn.read, intervals=True),
        "dot": ChainFormat((".dot", ".gv"), dot.to_lines, None),
        "json": ChainFormat((".json",), json_file.to_lines, json_file.read),
    }
)


def write_chain(
    chain: Chain, path: str | Path, format: str | None = None, *, intervals: bool = False
) -> tuple[Path, ...]:
    """Write a chain to a file, atomically.

    Parameters
    ----------
    chain
        The chain.
    path
        The file to write. For the format "explicit", the common stem of the three files, or the name of one of them.
    format
        The format: "prism", "explicit", "drn", "dot" or "json". By default, the format that belongs to the suffix of
        the path.
    intervals
        For "drn" and "prism": write the bounds of the transition probabilities instead of the probabilities.

    Returns
    -------
    tuple of Path
        The files written.
    """
    path = Path(path)
    name = chain_format(path, format)
    check_intervals(name, intervals)
    files = format_files(path, name)
    texts = prism.explicit_texts(chain) if name == "explicit" else [chain_text(chain, name, intervals=intervals)]
    contents = {}
    for file, text in zip(files, texts, strict=True):
        try:
            contents[file] = text.encode("utf-8")
        except UnicodeEncodeError as error:
            invalid = error.object[error.start]
            raise ChainError(NOT_WRITABLE.format(file=file, text=invalid)) from None
    place(contents)
    return files


def format_files(path: Path, format: str) -> tuple[Path, ...]:
    """Return the files of a chain in this format, given one of them."""
    return prism.explicit_paths(path) if format == "explicit" else (path,)


def chain_text(chain: Chain, format: str, *, intervals: bool = False) -> str:
    """Return a chain as the text of a file, for any format but "explicit", which needs three."""
    check_intervals(chain_format(Path(), format), intervals)
    lines = FORMATS[format].lines
    if lines is None:
        raise ChainError(TAKES_THREE_FILES.format(value=format, suffixes=", ".join(FORMATS[format].suffixes)))
    return "\n".join(lines(chain, intervals=True) if intervals else lines(chain)) + "\n"


def read_chain(path: str | Path, format: str | None = None, *, fix_deadlocks: bool = False) -> Chain:
    """Read a chain from a file that fairchain, PRISM or Storm wrote.

    Parameters
    ----------
    path
        The file. For the format "explicit", this is the .tra file, and .sta and .lab files beside it are read if they
        exist.
    format
        The format: "explicit", "drn" or "json". By default, the format that belongs to the suffix of the path.
    fix_deadlocks
        Add a loop to each state without transitions, as PRISM and Storm do. Otherwise, such a state is an error.

    Raises
    ------
    ChainError
        If the file is not a chain. The message states the file, the line and what to write there.
    """
    path = Path(path)
    name = chain_format(path, format)
    read = FORMATS[name].read
    if read is None:
        readable = ", ".join(f'"{each}"' for each, entry in FORMATS.items() if entry.read)
        raise ChainError(WRITTEN_NOT_READ.format(path=path, name=name, readable=readable))
    return read(path, fix_deadlocks=fix_deadlocks)


def chain_format(path: Path, format: str | None) -> str:
    """Return the requested format, or the one of a path's suffix."""
    if format is not None and format not in FORMATS:
        raise ChainError(unknown("format", format, list(FORMATS)))
    if format is not None:
        return format
    for name, entry in FORMATS.items():
        if path.suffix.lower() in entry.suffixes:
            return name
    suffixes = ", ".join(suffix for entry in FORMATS.values() for suffix in entry.suffixes)
    raise ChainError(UNKNOWN_SUFFIX.format(path=path, suffixes=suffixes))


def check_intervals(format: str, intervals: bool) -> None:
    """Raise a ChainError if bounds are requested in a format without bounds."""
    if intervals and not FORMATS[format].intervals:
        able = ", ".join(f'"{name}"' for name, entry in FORMATS.items() if entry.intervals)
        raise ChainError(FORMAT_WITHOUT_INTERVALS.format(value=format, able=able))
