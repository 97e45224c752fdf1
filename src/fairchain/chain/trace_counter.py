"""Counting of traces, chunk by chunk on several workers; a chunk number determines its inputs, and counts are
additive.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.context import ChainContext
from fairchain.chain.plan import ChainPlan
from fairchain.chain.probes import LastSteps, inside_of
from fairchain.chain.state_units import StateUnit
from fairchain.chain.traces import Passages, TraceCounts, count_columns, count_steps
from fairchain.executors import Workers

TRACES_PER_CHUNK = 4096
# The units of a chain, in the order of the network, and its plan.
PlannedUnits = tuple[Sequence[StateUnit], ChainPlan]


class TraceCounter:
    """Counter of the traces of several chains from the same inputs; either all chains are over time, or none is."""

    def __init__(
        self,
        context: ChainContext,
        chains: Sequence[PlannedUnits],
        workers: Workers,
        *,
        moments: bool = True,
    ) -> None:
        self._context, self._chains, self._workers = context, chains, workers
        self._moments = moments

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy the inputs of the counts."""
        return partial(TraceCounter, moments=self._moments), (self._context, self._chains, self._workers)

    def counts(self, first: int, rounds: int) -> tuple[TraceCounts, ...]:
        """Return the counts for each chain of this many rounds, from chunk `first` on."""
        sizes = [min(TRACES_PER_CHUNK, rounds - start) for start in range(0, rounds, TRACES_PER_CHUNK)]
        units = [(first + place, size) for place, size in enumerate(sizes)]
        return _sums(self._workers.map(self.count_chunk, units, sizes=sizes))

    def count_chunk(self, unit: tuple[int, int]) -> tuple[TraceCounts, ...]:
        """Return the counts of one chunk, (its number, its rounds), for each chain."""
        chunk, count = unit
        counted = self._columns if self._chains[0][1].view is None else self._steps
        return _sums(counted(group, inputs) for group, inputs in self._context.inputs(chunk, count))

    def _columns(self, group: int, inputs: NDArray[np.floating]) -> tuple[TraceCounts, ...]:
        labels, hidden = self._context.probe(inputs)
        return tuple(
            count_columns(group, plan, [*(unit.states(inputs, hidden) for unit in units), labels])
            for units, plan in self._chains
        )

    def _steps(self, group: int, inputs: NDArray[np.floating]) -> tuple[TraceCounts, ...]:
        probe = self._context.probe
        assert isinstance(probe, LastSteps)
        return _sums(self._part(group, probe, part) for part in probe.parts(inputs))

    def _part(self, group: int, probe: LastSteps, inputs: NDArray[Any]) -> tuple[TraceCounts, ...]:
        shown = probe.steps(inputs)
        numbers = {name: states[inside_of(shown)] for name, states in shown.states.items()}
        passages = Passages.of(shown.lengths, self._chains[0][1])
        return tuple(
            count_steps(
                group,
                plan,
                timed.states(inputs, numbers),
                passages,
                [*(unit.states(inputs, shown.layers) for unit in after), shown.labels],
                moments=self._moments and plan.view == "folded",
            )
            for (timed, *after), plan in self._chains
        )


def _sums(parts: Iterable[tuple[TraceCounts, ...]]) -> tuple[TraceCounts, ...]:
    """Sum the counts of each chain part by part, so that only one part is in memory."""
    return reduce(lambda total, part: tuple(map(add, total, part)), parts)
