"""Watching decisions as they are made: bounds that hold at all times, streams of rows, and a state that survives.

Only counts are kept. Nothing here knows a network; the rows are what somebody else decided.
"""

from fairchain.monitoring.monitor import Monitor

__all__ = ["Monitor"]
