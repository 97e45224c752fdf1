"""Tables of recorded rows: files and frames are read, and encoded as the features of a spec.

`read_table` reads files and frames without a spec; `encode_rows` interprets them for a spec's features and labels.
Everything here is untrusted input. pandas and polars are never imported here: the caller of a frame has imported its
package, and polars unpacks a Parquet file in a separate process.
"""

from fairchain.tables.columns import TableLimits
from fairchain.tables.read import RawTable, read_table
from fairchain.tables.rows import TableRows, encode_named_or_numbered, encode_rows

__all__ = ["RawTable", "TableLimits", "TableRows", "encode_named_or_numbered", "encode_rows", "read_table"]
