"""The version of fairchain."""

__version__ = "0.1.0"
