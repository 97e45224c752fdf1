"""The real data sets behind the examples and benchmarks.

`sources` is the table of what there is, `fetch` brings files into the user's cache, and `encode` (imported by
its own name, since it needs numpy) turns three of them into the integer inputs of the example networks. None
of the data ships with the package.
"""

from fairchain.datasets.fetch import Description, cache_dir, describe, get
from fairchain.datasets.sources import SOURCES, Source

__all__ = ["SOURCES", "Description", "Source", "cache_dir", "describe", "get"]
