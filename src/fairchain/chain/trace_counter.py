"""Counts traces chunk by chunk on several workers; a chunk number determines its inputs, and counts add."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.context import ChainContext
from fairchain.chain.state_units import StateUnit
from fairchain.chain.traces import PathCounts, count_family, count_path

CHUNK = 4096


class TraceCounter:
    """Counts the traces of a subject through some units."""

    def __init__(self, subject: ChainContext, units: Sequence[StateUnit], pool: ThreadPoolExecutor | None) -> None:
        self._subject, self._units, self._pool = subject, units, pool

    def path(self, first: int, rounds: int) -> PathCounts:
        """Counts of whole traces, from chunk `first` on."""
        return _total(self._each_chunk(self._path, first, rounds))

    def family(self, rounds: int) -> tuple[PathCounts, ...]:
        """Counts of every unit on its own."""
        chunks = list(self._each_chunk(self._family, 0, rounds))
        return tuple(_total(parts) for parts in zip(*chunks, strict=True))

    def labels(self, first: int, rounds: int) -> NDArray[np.int64]:
        """(groups, labels): how often each group got each label, without looking inside."""
        total: NDArray[np.int64] = np.sum(list(self._each_chunk(self._labels, first, rounds)), axis=0)
        return total

    def _each_chunk(self, work: Callable[[int, int], Any], first: int, rounds: int) -> Iterator[Any]:
        sizes = [min(CHUNK, rounds - start) for start in range(0, rounds, CHUNK)]
        numbers = range(first, first + len(sizes))
        yield from (self._pool.map if self._pool else map)(work, numbers, sizes)

    def _path(self, chunk: int, count: int) -> PathCounts:
        return _total(count_path(*args) for args in self._asked(chunk, count))

    def _family(self, chunk: int, count: int) -> tuple[PathCounts, ...]:
        groups = [count_family(*args) for args in self._asked(chunk, count)]
        return tuple(_total(parts) for parts in zip(*groups, strict=True))

    def _asked(self, chunk: int, count: int) -> Iterator[tuple[Any, ...]]:
        groups, classes = len(self._subject.groups), len(self._subject.spec.model.labels)
        for group, people in self._subject.people(chunk, count):
            labels, hidden = self._subject.probe(people)
            yield group, groups, self._units, labels, classes, people, hidden

    def _labels(self, chunk: int, count: int) -> NDArray[np.int64]:
        classes = len(self._subject.spec.model.labels)
        model = self._subject.probe.model
        return np.stack(
            [np.bincount(model.predict(people), minlength=classes) for _, people in self._subject.people(chunk, count)]
        ).astype(np.int64)


def _total(parts: Any) -> PathCounts:
    """The sum of counts; there is at least one."""
    parts = iter(parts)
    total: PathCounts = next(parts)
    for part in parts:
        total = total + part
    return total
