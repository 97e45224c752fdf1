"""Starts a process of its own for each Parquet file, and reads what `parquet` says there."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from fairchain.errors import DataError
from fairchain.isolation import new_interpreter
from fairchain.tables.columns import Column, Numbers, Texts
from fairchain.tables.parquet import HEAD

MAGIC = b"PAR1"
_CHILD = "from fairchain.tables.parquet import main; main()"
_THREADS = "4"


def read_parquet(path: Path, *limits: int) -> tuple[int, dict[str, Column | str]]:
    """How many rows a file has, and its columns by name; for one that is no texts and no numbers, the message why.

    `limits` are the largest numbers of bytes in the file, columns, cells, and bytes of memory.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise DataError(f"{path}: not a Parquet file; save it as one again, or name it by what it is")
    if find_spec("polars") is None:
        raise DataError(
            f"{path}: reading a Parquet file needs the package polars; install it, or save the table as .csv"
        )
    answer = _unpacked(path, *map(str, limits))
    try:
        return _unfold(memoryview(answer))
    except (ValueError, KeyError, TypeError):
        raise DataError(
            f"{path}: damaged, or too large for the memory allowed; save it again, or as .csv, "
            "or raise Limits.memory_bytes if you trust the file"
        ) from None


def _unpacked(path: Path, *limits: str) -> bytes:
    """What the child says; nothing if it did not end well."""
    try:
        child = subprocess.run(
            new_interpreter(_CHILD, str(path), *limits),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env={"POLARS_MAX_THREADS": _THREADS, **os.environ},
        )
    except OSError as error:
        raise DataError(
            f"{path}: no process can be started to unpack it ({error}); hand over what polars.read_parquet gives"
        ) from None
    return b"" if child.returncode else child.stdout


def _unfold(answer: memoryview) -> tuple[int, dict[str, Column | str]]:
    start = HEAD + int.from_bytes(answer[:HEAD], "little")
    header = json.loads(bytes(answer[HEAD:start]))
    if "error" in header:
        raise DataError(header["error"])
    rest = _cut(answer, start, [size for column in header["columns"] for size in column.get("sizes", ())])
    return header["count"], {column["name"]: _column(column, header["count"], rest) for column in header["columns"]}


def _cut(answer: memoryview, start: int, sizes: list[int]) -> Iterator[memoryview]:
    for size in sizes:
        yield answer[start : start + size]
        start += size


def _column(described: dict[str, Any], count: int, rest: Iterator[memoryview]) -> Column | str:
    if "refused" in described:
        return str(described["refused"])
    parts = [next(rest) for _ in described["sizes"]]
    if described["kind"] == "text":
        return Texts(tuple(str(part, "utf-8") for part in parts), count)
    return Numbers(np.frombuffer(parts[0], described["kind"]))
