"""Repetitions side by side: a process for each core where there are many, and each run has one core to itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from benchmarks.suite.sizes import Sizes
from fairchain.verification.sampler import default_workers

Task = TypeVar("Task")
Result = TypeVar("Result")
BLOCK = 25


def shared_out(work: Callable[[Task], Result], tasks: Sequence[Task], sizes: Sizes) -> list[Result]:
    """The result of each task, in order; starting processes takes seconds, so small sizes do without."""
    processes = min(default_workers(), len(tasks)) if sizes.timed else 1
    if processes <= 1:
        return [work(task) for task in tasks]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return list(pool.map(work, tasks))


def blocks(total: int) -> list[range]:
    """Seeds 0, 1, ... in blocks: short enough that no core waits long for the last one."""
    return [range(start, min(start + BLOCK, total)) for start in range(0, total, BLOCK)]
