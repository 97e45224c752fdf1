"""How things are measured: the machine, times in turns, repetitions on all cores, and slopes of growth."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np

from fairchain import __version__
from fairchain.executors import default_workers

PACKAGES = ("numpy", "scipy", "onnx", "onnxruntime", "fairlearn")
# Ticks of /proc/stat in which a core was not idle: user, nice, system, irq, softirq, and stolen by the host.
BUSY = (1, 2, 3, 6, 7, 8)
# What git compares: code, and not the pages and counts that a run itself writes.
MEASURED = ("src", "benchmarks", ":!benchmarks/*.md", ":!benchmarks/counts.json", ":!benchmarks/results")
BLOCK = 25
Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Machine:
    """Where and with what a part was run; `load` is the mean number of cores that other processes used."""

    processor: str
    cores: int
    load: float | None
    system: str
    python: str
    versions: dict[str, str]
    revision: str


def this_machine(load: float | None = None) -> Machine:
    """Return the processor, its load by others, the system and the versions that matter."""
    return Machine(
        processor=_processor(),
        cores=default_workers(),
        load=load,
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        versions={"fairchain": __version__, **{name: _version(name) for name in PACKAGES}},
        revision=_revision(),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _revision() -> str:
    """Return the commit of this checkout, and whether code that is measured or measures differs from it."""
    try:
        commit = _git("rev-parse", "--short", "HEAD")
        return f"{commit} with changes" if _git("status", "--porcelain", "--", *MEASURED) else commit
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    command = ("git", "-C", str(Path(__file__).parents[1]), *arguments)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class LoadWatch:
    """Measures how many cores other processes use while a part runs; a load average would include the part itself."""

    def __init__(self) -> None:
        self._start, self._busy, self._own = time.perf_counter(), _busy_seconds(), _own_seconds()

    def others(self) -> float | None:
        """Return the mean number of cores used by others since this object was made, None if unknown."""
        now, elapsed = _busy_seconds(), time.perf_counter() - self._start
        if now is None or self._busy is None:
            return None
        return round(max(0.0, now - self._busy - (_own_seconds() - self._own)) / elapsed, 1)


def _own_seconds() -> float:
    """Return the processor time of this process and of the children it has waited for."""
    return sum(os.times()[:4])


def _busy_seconds() -> float | None:
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0].split()
        return sum(int(fields[place]) for place in BUSY) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return None


@dataclass(frozen=True)
class Spent:
    """Wall and processor seconds of one call."""

    wall: float
    processor: float


def spent(call: Callable[[], object]) -> Spent:
    """Measure one call."""
    wall, processor = time.perf_counter(), time.process_time()
    call()
    return Spent(time.perf_counter() - wall, time.process_time() - processor)


def in_turns(
    ours: Callable[[], object], other: Callable[[], object], repetitions: int
) -> tuple[list[Spent], list[Spent]]:
    """Measure both sides alternately, so that disturbances of the machine affect both alike."""
    pairs = [(spent(ours), spent(other)) for _ in range(repetitions)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def median_ratio(ours: Sequence[float], other: Sequence[float]) -> float:
    """Return the median ratio of neighbours in time: a slow minute spoils a pair, not the comparison."""
    return median(a / b for a, b in zip(ours, other, strict=True))


def on_all_cores(work: Callable[[Task], Result], tasks: Sequence[Task], *, parallel: bool) -> list[Result]:
    """Return the result of each task, in order, with one process for each core if `parallel`."""
    processes = min(default_workers(), len(tasks)) if parallel else 1
    if processes <= 1:
        return [work(task) for task in tasks]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return list(pool.map(work, tasks))


def blocks(total: int, size: int = BLOCK) -> list[range]:
    """Return seeds 0, 1, ... in blocks, short enough that no core waits long for the last one."""
    return [range(start, min(start + size, total)) for start in range(0, total, size)]


def power(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the slope on logarithmic scales, by least squares: 1 is linear; None for fewer than two points."""
    if len(points) < 2:
        return None
    sizes, values = np.log(np.array(points, dtype=np.float64)).T
    return float(np.polyfit(sizes, values, 1)[0])
