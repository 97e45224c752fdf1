"""Starts a process for each Parquet file, within limits of memory and time, and reads what `parquet` writes there."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairchain.errors import DataError
from fairchain.system.isolation import new_interpreter
from fairchain.tables.columns import Column, NumberCells, TextCells
from fairchain.tables.parquet import HEAD, THREADS

MAGIC = b"PAR1"
_CHILD = "from fairchain.tables.parquet import main; main()"
_LAST_SECONDS = 1.0


def read_parquet(path: Path, *limits: int) -> tuple[int, dict[str, Column | str]]:
    """Return how many rows a file has, and its columns by name; for a column that is unusable, the message why.

    `limits` are the largest numbers of bytes in the file, columns, cells, bytes of memory, and seconds.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise DataError(f"{path}: not a Parquet file; save it as one again, or name it by what it is")
    if find_spec("polars") is None:
        raise DataError(
            f"{path}: reading a Parquet file needs the package polars; install it, or save the table as .csv"
        )
    *_, memory_bytes, seconds = limits
    with _child(path, *map(str, limits)) as child, _ended_after(child, seconds) as late:
        try:
            return _read(_stream(child), memory_bytes)
        except (ValueError, KeyError, TypeError, EOFError, MemoryError):
            pass
    if late.is_set():
        raise DataError(
            f"{path}: unpacking takes more than {seconds:,} seconds; save it again, or raise TableLimits.seconds"
        )
    raise DataError(
        f"{path}: damaged, or too large for the memory allowed; save it again, or as .csv, "
        "or raise TableLimits.memory_bytes if you trust the file"
    )


def _child(path: Path, *limits: str) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            new_interpreter(_CHILD, str(path), *limits),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"POLARS_MAX_THREADS": str(THREADS), **os.environ},
        )
    except OSError as error:
        raise DataError(
            f"{path}: no process can be started to unpack it ({error}); hand over what polars.read_parquet gives"
        ) from None


@contextmanager
def _ended_after(child: subprocess.Popen[bytes], seconds: int) -> Iterator[threading.Event]:
    """End the child when this is left, or after so many seconds; the event tells that they have passed."""
    late = threading.Event()

    def end() -> None:
        late.set()
        child.kill()

    watchdog = threading.Timer(seconds, end)
    watchdog.daemon = True
    watchdog.start()
    try:
        yield late
    finally:
        watchdog.cancel()
        # A child that wrote all it has ends by itself; one that is left early is of no further use.
        with suppress(subprocess.TimeoutExpired):
            child.wait(_LAST_SECONDS)
        child.kill()


def _stream(child: subprocess.Popen[bytes]) -> IO[bytes]:
    if child.stdout is None:
        raise EOFError
    return child.stdout


def _read(stream: IO[bytes], most_bytes: int) -> tuple[int, dict[str, Column | str]]:
    """Read the answer of `parquet`, each part straight into its place; it may be cut short at any byte."""
    head = _header(stream)
    found: dict[str, Column | str] = {}
    for _ in range(head["columns"]):
        described = _header(stream)
        most_bytes -= sum(described["sizes"])
        if most_bytes < 0:
            raise MemoryError
        parts = [_exactly(stream, size) for size in described["sizes"]]
        found[described["name"]] = _column(described, head["count"], parts)
    return head["count"], found


def _header(stream: IO[bytes]) -> dict[str, Any]:
    size = int.from_bytes(_exactly(stream, HEAD), "little")
    header: dict[str, Any] = json.loads(_exactly(stream, size))
    if "error" in header:
        raise DataError(header["error"])
    return header


def _exactly(stream: IO[bytes], size: int) -> bytes:
    read = stream.read(size)
    if len(read) < size:
        raise EOFError
    return read


def _column(described: dict[str, Any], count: int, parts: list[bytes]) -> Column | str:
    if "refused" in described:
        return str(described["refused"])
    if described["kind"] == "text":
        return TextCells(tuple(str(part, "utf-8") for part in parts), count)
    return NumberCells(np.frombuffer(parts[0], described["kind"]))
