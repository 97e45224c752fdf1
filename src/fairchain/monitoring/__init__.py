"""Monitoring of decisions as they are made: bounds that hold at all times, streams of rows, and a state between runs.

Only counts are kept. No model is evaluated; the rows are recorded decisions.
"""

from fairchain.monitoring.monitor import Monitor

__all__ = ["Monitor"]
