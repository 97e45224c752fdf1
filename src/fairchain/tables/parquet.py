"""What runs in a process of its own: polars unpacks a Parquet file, and its columns go to standard output.

A damaged file can make polars abort or take all memory; here that ends a process that nobody needs any more. The answer
is a JSON header behind its length, then the bytes of all columns, so that what reads it executes nothing.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from fairchain.errors import DataError
from fairchain.tables.columns import Column, Numbers
from fairchain.tables.frames import NESTED, column_of
from fairchain.tables.wording import shown

# Bytes that say how long the header is.
HEAD = 8


def main() -> None:
    """Answer for the file in sys.argv[1], within the limits that follow it."""
    path = Path(sys.argv[1])
    file_bytes, columns, cells, memory_bytes = map(int, sys.argv[2:])
    _limit_memory(memory_bytes)
    header: dict[str, Any]
    try:
        header, buffers = _columns(path, file_bytes, columns, cells)
    except DataError as error:
        header, buffers = {"error": str(error)}, []
    text = json.dumps(header).encode()
    for part in (len(text).to_bytes(HEAD, "little"), text, *buffers):
        sys.stdout.buffer.write(part)


def _limit_memory(most: int) -> None:
    # Not every system has such a limit, or lets one set it.
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        # A process that ends here leaves no file with its memory behind.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _columns(path: Path, file_bytes: int, most_columns: int, most_cells: int) -> tuple[dict[str, Any], list[Any]]:
    import polars

    # Opened here, since polars takes a path for a pattern or an address.
    with path.open("rb") as file:
        try:
            schema = polars.read_parquet_schema(file)
            if len(schema) > most_columns:
                raise DataError(f"{path}: {len(schema):,} columns are more than {most_columns:,}; leave some out")
            # A cell of a list can unpack to any size, and a few bytes can stand for any number of equal rows.
            flat = [name for name, dtype in schema.items() if not dtype.is_nested()]
            file.seek(0)
            frame = polars.read_parquet(file, columns=flat, n_rows=most_cells // max(len(flat), 1) + 1)
        # A panic of polars is no Exception, so that nobody catches it by accident; here it means a damaged file.
        except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError, ValueError) as error:
            reason = str(error).partition("\n")[0][:100]
            raise DataError(f"{path}: damaged, or no Parquet file ({shown(reason)}); save it again") from None
    found, buffers = [], []
    for name, dtype in schema.items():
        where = f"{path}: column {shown(name)}"
        try:
            if dtype.is_nested():
                raise DataError(f"{where}: {NESTED.format(dtype)}")
            kind, parts = _buffers(column_of(frame.get_column(name), where, file_bytes))
            found.append({"name": name, "kind": kind, "sizes": [len(part) for part in parts]})
            buffers += parts
        except DataError as error:
            found.append({"name": name, "refused": str(error)})
    return {"count": frame.height, "columns": found}, buffers


def _buffers(column: Column) -> tuple[str, list[Any]]:
    """What a column is, "text" or a type of numpy, and its bytes."""
    if isinstance(column, Numbers):
        return column.values.dtype.str, [column.values.tobytes()]
    return "text", [part.encode() for part in column.parts]
