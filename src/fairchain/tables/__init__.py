"""Rows that somebody recorded: files and frames read as they are, and the people of a spec found in them.

`read_table` knows files and frames but no spec; `people_of` knows what a spec's features and labels are in them.
Everything here is untrusted input. pandas and polars are never imported here: a frame that is handed over brings its
own package, and a Parquet file is unpacked by polars in a process of its own.
"""

from fairchain.tables.people import People, frequencies_from, people_of
from fairchain.tables.read import Limits, RawTable, read_table

__all__ = ["Limits", "People", "RawTable", "frequencies_from", "people_of", "read_table"]
