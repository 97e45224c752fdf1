"""Chains over time of recurrent networks: Start -> group -> h(1) -> h(2) -> ... -> label, unrolled or folded."""

from fairchain.chain.over_time.time_chain import TimePlan, View, build_over_time
from fairchain.chain.over_time.time_counts import TimeCounts, TimeShape, count_cells, count_traces
from fairchain.chain.over_time.time_fidelity import fidelity_over_time

__all__ = [
    "TimeCounts",
    "TimePlan",
    "TimeShape",
    "View",
    "build_over_time",
    "count_cells",
    "count_traces",
    "fidelity_over_time",
]
