"""Recorded rows: files and frames read as they are, and encoded as the features of a spec.

`read_table` knows files and frames but no spec; `encode_rows` knows what a spec's features and labels are in them.
Everything here is untrusted input. pandas and polars are never imported here: a frame that is handed over brings its
own package, and a Parquet file is unpacked by polars in a process of its own.
"""

from fairchain.tables.limits import TableLimits
from fairchain.tables.read import RawTable, read_table
from fairchain.tables.rows import TableRows, encode_named_or_numbered, encode_rows

__all__ = ["RawTable", "TableLimits", "TableRows", "encode_named_or_numbered", "encode_rows", "read_table"]
