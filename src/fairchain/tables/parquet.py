"""Parquet files, through polars, which is imported here and nowhere else."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from fairchain.errors import DataError

MAGIC = b"PAR1"


def read_parquet(path: Path, file_bytes: int, columns: int, cells: int) -> tuple[Any, dict[str, str]]:
    """A file as a polars frame, with at most one row more than the limits allow, and the types of what is left out.

    Columns of lists and structs are left out: a cell of theirs can unpack to any size.
    """
    try:
        import polars
    except ImportError:
        raise DataError(
            f"{path}: reading a Parquet file needs the package polars; install it, or save the table as .csv"
        ) from None
    # As bytes, since polars takes a path for a pattern or an address, and what was measured is what must be read.
    with path.open("rb") as file:
        content = file.read(file_bytes + 1)
    if len(content) > file_bytes:
        raise DataError(f"{path}: larger than {file_bytes:,} bytes; raise Limits.file_bytes if you trust the file")
    if not content.startswith(MAGIC):
        raise DataError(f"{path}: not a Parquet file; save it as one again, or name it by what it is")
    try:
        schema = polars.read_parquet_schema(io.BytesIO(content))
        flat = [name for name, dtype in schema.items() if not dtype.is_nested()]
        if len(schema) > columns:
            raise DataError(f"{path}: {len(schema):,} columns are more than {columns:,}; leave out those not needed")
        # A few bytes can stand for any number of equal rows, so no more are unpacked than may be there.
        frame = polars.read_parquet(io.BytesIO(content), columns=flat, n_rows=cells // max(len(flat), 1) + 1)
    # A panic of polars is no Exception, so that nobody catches it by accident; here it means a damaged file.
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0][:100]
        raise DataError(f"{path}: damaged, or no Parquet file ({reason}); save it again") from None
    return frame, {name: str(dtype) for name, dtype in schema.items() if name not in flat}
