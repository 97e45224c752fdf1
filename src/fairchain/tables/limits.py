"""Limits of a table; larger tables are refused before memory is allocated for them."""

from __future__ import annotations

from dataclasses import dataclass

from fairchain.errors import DataError

MORE_THAN_BYTES = (
    "{where}: more than {file_bytes:,} bytes{unpacked}; raise TableLimits.file_bytes if you trust the file"
)


@dataclass(frozen=True)
class TableLimits:
    """Limits of a table: bytes, rows, columns, cells and memory.

    Parameters
    ----------
    file_bytes
        Size of the file, and separately of its unpacked contents.
    columns
        Largest number of columns.
    cells
        Rows times columns.
    memory_bytes
        Memory for unpacking a Parquet file, on systems that can limit it.
    seconds
        Seconds for unpacking a Parquet file.
    """

    file_bytes: int = 2_000_000_000
    columns: int = 10_000
    cells: int = 500_000_000
    memory_bytes: int = 8 * 2**30
    seconds: int = 600

    def check_bytes(self, where: str, count: int, unpacked: str = " unpacked") -> None:
        """Raise a DataError if there are too many bytes.

        Lengths of texts must be summed in 64 bits: in 32 bits, four gigabytes overflow to 0.
        """
        if count > self.file_bytes:
            raise DataError(MORE_THAN_BYTES.format(where=where, file_bytes=self.file_bytes, unpacked=unpacked))

    def check_columns(self, where: str, count: int) -> None:
        """Raise a DataError if there are too many columns."""
        if count > self.columns:
            raise DataError(f"{where}: {count:,} columns are more than {self.columns:,}; leave out those not needed")

    def check_cells(self, where: str, count: int) -> None:
        """Raise a DataError if there are too many cells."""
        if count > self.cells:
            raise DataError(
                f"{where}: more than {self.cells:,} cells; leave out columns that no feature needs, "
                "or raise TableLimits.cells if there is memory for them"
            )
