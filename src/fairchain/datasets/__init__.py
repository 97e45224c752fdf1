"""The real data sets of the examples and benchmarks.

`sources` is the table of all data sets, and `fetch` downloads files into the user's cache. `tables`, which needs numpy
and is imported separately, turns three of them into the integer inputs of the example networks and writes five as CSV
files. None of the data ships with the package.
"""

from fairchain.datasets.fetch import Description, describe, get, get_all, here, missing, remove
from fairchain.datasets.sources import SOURCES, DataSource
from fairchain.system.cache_folder import cache_dir

__all__ = [
    "SOURCES",
    "DataSource",
    "Description",
    "cache_dir",
    "describe",
    "get",
    "get_all",
    "here",
    "missing",
    "remove",
]
