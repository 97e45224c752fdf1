"""Monitoring of decisions in a stream: bounds that are valid at all times, rows of streams, and a state between runs.

Only counts are stored. No model is evaluated; the rows are recorded decisions.
"""

from fairchain.monitoring.monitor import Monitor

__all__ = ["Monitor"]
