"""The child process that unpacks a Parquet file with polars and writes its columns to standard output.

A damaged file can make polars abort, run for long or take all memory; here that ends a process of no further use. What
the file holds is measured before it is unpacked: a kilobyte can stand for any number of equal cells. The answer is a
JSON header behind its length, then the same for each column with its bytes, so that reading it executes nothing.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from fairchain.errors import DataError
from fairchain.messages import shown
from fairchain.tables.columns import SEPARATOR, Column, NumberCells
from fairchain.tables.frames import NESTED, column_of, refuse_large

# Bytes that say how long a header is.
HEAD = 8
THREADS = 4
# Columns that are in memory at once.
TOGETHER = 64
# Bytes of a cell: a number, and what is neither number nor text (a truth value, a date).
WIDTH, WIDEST = 8, 32
Header = dict[str, Any]


def main() -> None:
    """Answer for the file in sys.argv[1], within the limits that follow it."""
    path = Path(sys.argv[1])
    file_bytes, columns, cells, memory_bytes, seconds = map(int, sys.argv[2:])
    _limit("RLIMIT_CORE", 0)  # a process that is ended here leaves no file with its memory
    _limit("RLIMIT_AS", memory_bytes)
    # Whoever started this process ends it in time, unless that one was killed itself.
    _limit("RLIMIT_CPU", seconds * THREADS)
    try:
        for header, buffers in answer(path, file_bytes, columns, cells):
            _write(header, buffers)
    except DataError as error:
        _write({"error": str(error)}, [])


def _limit(name: str, most: int) -> None:
    # Some systems lack such a limit, or do not permit setting it.
    with contextlib.suppress(ImportError, AttributeError, ValueError, OSError):
        import resource

        resource.setrlimit(getattr(resource, name), (most, most))


def _write(header: Header, buffers: list[bytes]) -> None:
    text = json.dumps(header | {"sizes": [len(part) for part in buffers]}).encode()
    for part in (len(text).to_bytes(HEAD, "little"), text, *buffers):
        sys.stdout.buffer.write(part)


def answer(path: Path, file_bytes: int, most_columns: int, most_cells: int) -> Iterator[tuple[Header, list[bytes]]]:
    """Yield the header of the file, then each column with its bytes."""
    import polars

    # Opened here, since polars takes a path for a pattern or an address.
    with path.open("rb") as file:
        try:
            schema = polars.read_parquet_schema(file)
            if len(schema) > most_columns:
                raise DataError(f"{path}: {len(schema):,} columns are more than {most_columns:,}; leave some out")
            # A cell of a list can unpack to any size.
            flat = [name for name, dtype in schema.items() if not dtype.is_nested()]
            count = _count(path, file, len(flat), most_cells)
            refuse_large(str(path), _unpacked_size(file, {name: schema[name] for name in flat}, count), file_bytes)
            yield {"count": count, "columns": len(schema)}, []
            for start in range(0, len(schema), TOGETHER):
                names = list(schema)[start : start + TOGETHER]
                file.seek(0)
                frame = polars.read_parquet(file, columns=[name for name in names if not schema[name].is_nested()])
                for name in names:
                    yield _column(path, name, schema[name], frame, file_bytes)
        # A panic of polars is no Exception, so that none is caught by accident; here it means a damaged file.
        except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError, ValueError) as error:
            reason = str(error).partition("\n")[0][:100]
            raise DataError(f"{path}: damaged, or no Parquet file ({shown(reason)}); save it again") from None


def _count(path: Path, file: IO[bytes], columns: int, most_cells: int) -> int:
    """Return how many rows the file states; nothing of them is unpacked."""
    import polars

    file.seek(0)
    count = int(polars.scan_parquet(file).select(polars.len()).collect().item())
    if count * columns > most_cells:
        raise DataError(
            f"{path}: more than {most_cells:,} cells; leave out columns that no feature needs, "
            "or raise TableLimits.cells if there is memory for them"
        )
    return count


def _unpacked_size(file: IO[bytes], schema: dict[str, Any], count: int) -> int:
    """Return how many bytes these columns have as texts and numbers; texts are measured in pieces that are not kept."""
    import polars

    size, lengths = 0, []
    for name, dtype in schema.items():
        if dtype in (polars.Categorical, polars.Enum):
            lengths.append(polars.col(name).cat.len_bytes())
        elif dtype == polars.String:
            lengths.append(polars.col(name).str.len_bytes())
        else:
            size += count * (WIDTH if dtype.is_numeric() else WIDEST)
    if lengths:
        file.seek(0)
        sums = [each.cast(polars.UInt64).sum() for each in lengths]
        size += sum(polars.scan_parquet(file).select(sums).collect(engine="streaming").row(0))
        size += count * len(lengths) * len(SEPARATOR)
    return size


def _column(path: Path, name: str, dtype: Any, frame: Any, most_bytes: int) -> tuple[Header, list[bytes]]:
    """Return what a column is, "text" or a type of numpy, and its bytes; or why it cannot be used."""
    where = f"{path}: column {shown(name)}"
    try:
        if dtype.is_nested():
            raise DataError(f"{where}: {NESTED.format(dtype)}")
        column: Column = column_of(frame.get_column(name), where, most_bytes)
    except DataError as error:
        return {"name": name, "refused": str(error)}, []
    if isinstance(column, NumberCells):
        return {"name": name, "kind": column.values.dtype.str}, [column.values.tobytes()]
    return {"name": name, "kind": "text"}, [part.encode() for part in column.parts]
