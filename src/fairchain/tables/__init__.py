"""Rows that somebody recorded: files and frames read as they are, and the people of a spec found in them.

`read_table` knows files and frames but no spec; `encode_rows` knows what a spec's features and labels are in them.
Everything here is untrusted input. pandas and polars are never imported here: a frame that is handed over brings its
own package, and a Parquet file is unpacked by polars in a process of its own.
"""

from fairchain.tables.read import RawTable, TableLimits, read_table
from fairchain.tables.rows import TableRows, encode_rows

__all__ = ["RawTable", "TableLimits", "TableRows", "encode_rows", "read_table"]
