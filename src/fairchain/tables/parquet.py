"""Parquet files, unpacked by polars in a child process within limits of memory and time.

A damaged file can make polars abort, run for a long time or exhaust memory; here this ends only the child process. The
contents are measured before unpacking: a kilobyte can describe any number of equal cells. The child (`main`) writes the
length of a JSON header and the header, then the same for each column with its bytes, so that reading it
(`read_parquet`) executes nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairchain.errors import DataError
from fairchain.messages import needs, shown
from fairchain.system.isolation import new_interpreter
from fairchain.tables.columns import SEPARATOR, Column, NumberCells, TableLimits, TextCells
from fairchain.tables.frames import NESTED, column_of

MAGIC = b"PAR1"
# Bytes of the length of a header.
LENGTH_BYTES = 8
THREADS = 4
# Number of columns in memory at once.
TOGETHER = 64
# Bytes of a cell: of a number, and of other non-text types (booleans, dates).
NUMBER_BYTES, CELL_BYTES = 8, 32
DAMAGED_PARQUET = "{path}: damaged, or not a Parquet file ({reason}); save it again"
_CHILD = "from fairchain.tables.parquet import main; main()"
_LAST_SECONDS = 1.0
Header = dict[str, Any]
DAMAGED_OR_TOO_LARGE = (
    "{path}: damaged, or too large for the memory allowed; save it again, or as .csv, or raise "
    "TableLimits.memory_bytes if you trust the file"
)


def read_parquet(path: Path, limits: TableLimits) -> tuple[int, dict[str, Column | str]]:
    """Return the number of rows of a file, and its columns by name; for an unusable column, a message."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise DataError(f"{path}: not a Parquet file; save it as one again, or use the suffix of its format")
    return in_child("fairchain.tables.parquet", path, limits)


def in_child(
    module: str, path: Path, limits: TableLimits, arguments: Sequence[str] = ()
) -> tuple[int, dict[str, Column | str]]:
    """Return the result of a module's `answer` for a table, computed in a separate process within the limits."""
    if find_spec("polars") is None:
        raise DataError(f"{path}: {needs('a Parquet file', 'polars', 'fairchain[parquet]')}, or save the table as .csv")
    try:
        child = subprocess.Popen(
            new_interpreter(_CHILD, module, str(path), *map(str, astuple(limits)), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"POLARS_MAX_THREADS": str(min(THREADS, os.cpu_count() or 1)), **os.environ},
        )
    except OSError as error:
        raise DataError(
            f"{path}: no process can be started to unpack it ({error}); pass the result of polars.read_parquet"
        ) from None
    late = threading.Event()

    def end() -> None:
        late.set()
        child.kill()

    watchdog = threading.Timer(limits.seconds, end)
    watchdog.daemon = True
    watchdog.start()
    with child:
        try:
            assert child.stdout is not None
            return _read(child.stdout, limits.memory_bytes)
        except (ValueError, KeyError, TypeError, EOFError, MemoryError):
            pass
        finally:
            watchdog.cancel()
            # A child that has written everything ends by itself; one that is stopped early is not needed any more.
            with suppress(subprocess.TimeoutExpired):
                child.wait(_LAST_SECONDS)
            child.kill()
    if late.is_set():
        raise DataError(
            f"{path}: unpacking takes more than {limits.seconds:,} seconds; save it again, or raise TableLimits.seconds"
        )
    raise DataError(DAMAGED_OR_TOO_LARGE.format(path=path))


def _read(stream: IO[bytes], most_bytes: int) -> tuple[int, dict[str, Column | str]]:
    """Read the output of `main`, each part directly into its array; it may be truncated at any byte."""

    def exactly(size: int) -> bytes:
        read = stream.read(size)
        if len(read) < size:
            raise EOFError
        return read

    def header() -> Header:
        found: Header = json.loads(exactly(int.from_bytes(exactly(LENGTH_BYTES), "little")))
        if "error" in found:
            raise DataError(found["error"])
        return found

    head = header()
    found: dict[str, Column | str] = {}
    for _ in range(head["columns"]):
        described = header()
        most_bytes -= sum(described["sizes"])
        if most_bytes < 0:
            raise MemoryError
        parts = [exactly(size) for size in described["sizes"]]
        if "refused" in described:
            column: Column | str = str(described["refused"])
        elif described["kind"] == "text":
            texts = tuple(str(part, "utf-8") for part in parts)
            column = TextCells(texts, head["count"], booleans=described["booleans"])
        else:
            column = NumberCells(np.frombuffer(parts[0], described["kind"]))
        found[described["name"]] = column
    return head["count"], found


def main() -> None:
    """Process the table in sys.argv[2], within the limits that follow it; runs in the child process."""
    count = len(fields(TableLimits))
    module, path, limits = sys.argv[1], Path(sys.argv[2]), TableLimits(*map(int, sys.argv[3 : 3 + count]))
    # A process that is killed here leaves no core dump. The parent ends it in time, unless it was killed itself.
    most = {"RLIMIT_CORE": 0, "RLIMIT_AS": limits.memory_bytes, "RLIMIT_CPU": limits.seconds * THREADS}
    for name, value in most.items():
        # Some systems lack such a limit, or do not permit setting it.
        with suppress(ImportError, AttributeError, ValueError, OSError):
            import resource

            resource.setrlimit(getattr(resource, name), (value, value))
    try:
        for header, buffers in import_module(module).answer(path, limits, sys.argv[3 + count :]):
            _write(header, buffers)
    except DataError as error:
        _write({"error": str(error)}, [])


@contextmanager
def damage_refused(path: str | Path) -> Iterator[None]:
    """Turn every failure of polars about a file into a DataError that names the file."""
    import polars

    try:
        yield
    # A panic of polars is not an Exception, so that no code catches it by accident; here it means a damaged file.
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0][:100]
        raise DataError(DAMAGED_PARQUET.format(path=path, reason=shown(reason))) from None


def _write(header: Header, buffers: list[bytes]) -> None:
    text = json.dumps(header | {"sizes": [len(part) for part in buffers]}).encode()
    for part in (len(text).to_bytes(LENGTH_BYTES, "little"), text, *buffers):
        sys.stdout.buffer.write(part)


def answer(path: Path, limits: TableLimits, _arguments: Sequence[str] = ()) -> Iterator[tuple[Header, list[bytes]]]:
    """Yield the header of the file, then each column with its bytes."""
    import polars

    # Opened here, because polars could interpret a path as a pattern or an address.
    with damage_refused(path), path.open("rb") as file:
        schema = polars.read_parquet_schema(file)
        limits.check_columns(str(path), len(schema))
        # A cell with a list can unpack to any size.
        flat = {name: dtype for name, dtype in schema.items() if not dtype.is_nested()}
        # The number of rows that the file states; no row is unpacked.
        file.seek(0)
        count = int(polars.scan_parquet(file).select(polars.len()).collect().item())
        limits.check_cells(str(path), count * len(flat))
        limits.check_bytes(str(path), _unpacked_size(file, flat, count))
        yield {"count": count, "columns": len(schema)}, []
        for start in range(0, len(schema), TOGETHER):
            names = list(schema)[start : start + TOGETHER]
            file.seek(0)
            frame = polars.read_parquet(file, columns=[name for name in names if name in flat])
            for name in names:
                yield column_header(path, name, schema[name], frame, limits)


def _unpacked_size(file: IO[bytes], schema: dict[str, Any], count: int) -> int:
    """Return the bytes of these columns as texts and numbers; texts are measured in pieces that are not kept."""
    import polars

    size, lengths = 0, []
    for name, dtype in schema.items():
        if dtype in (polars.Categorical, polars.Enum):
            lengths.append(polars.col(name).cat.len_bytes())
        elif dtype == polars.String:
            lengths.append(polars.col(name).str.len_bytes())
        else:
            size += count * (NUMBER_BYTES if dtype.is_numeric() else CELL_BYTES)
    if lengths:
        file.seek(0)
        sums = [each.cast(polars.UInt64).sum() for each in lengths]
        size += sum(polars.scan_parquet(file).select(sums).collect(engine="streaming").row(0))
        size += count * len(lengths) * len(SEPARATOR)
    return size


def column_header(path: Path, name: str, dtype: Any, frame: Any, limits: TableLimits) -> tuple[Header, list[bytes]]:
    """Return the type of a column, "text" or a numpy type, and its bytes; or the reason why it cannot be used."""
    where = f"{path}: column {shown(name)}"
    try:
        if dtype.is_nested():
            raise DataError(f"{where}: {NESTED.format(dtype)}")
        column: Column = column_of(frame.get_column(name), where, limits)
    except DataError as error:
        return {"name": name, "refused": str(error)}, []
    if isinstance(column, NumberCells):
        return {"name": name, "kind": column.values.dtype.str}, [column.values.tobytes()]
    return {"name": name, "kind": "text", "booleans": column.booleans}, [part.encode() for part in column.parts]
