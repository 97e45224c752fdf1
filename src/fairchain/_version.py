"""The version of fairchain."""

__version__ = "0.2.0"
