"""How time and memory grow with groups, features, width, depth, threads, rounds and states."""

from __future__ import annotations

import math
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases import DELTA
from benchmarks.measuring import power
from benchmarks.paper import THRESHOLD
from benchmarks.paper_models import dense_network
from benchmarks.probe import Measured, measured
from benchmarks.results import Cell, Check, Column, PartResult, Plot, Series, Table
from benchmarks.sizes import Sizes
from fairchain.executors import default_workers

# An estimate that cannot be reached shows all groups to the network until the rounds are spent.
UNREACHABLE = 1e-6
# The peak of a long run over that of the shortest.
MEMORY_LIMIT = 1.5
# Threads should bring at least this share of their number.
WORTHWHILE = 0.75
# Seconds below which a point is measured again.
SHORT = 5.0
TEXT = f"""This section measures how time and memory grow with the numbers of groups, features, rounds, threads and
states, and with the width and depth of the network. Networks are random and dense, with ReLU and real features. A run
asks for an epsilon that cannot be reached, and therefore ends after a fixed number of rounds. Each run has its own
process, whose peak memory is read at the end. Networks are loaded before the clock starts. If a run takes less than
{SHORT:g} s, it is measured several times. The tables show the shortest time and the largest memory.

*Power* is the slope on logarithmic scales over all sizes, and *last* is the slope of the last two sizes. Linear growth
has the slope 1. Small sizes have a smaller slope, because every run has a fixed cost. *Network's work, last* is the
slope of the number of multiplications that one thread makes in the network. If only these multiplications took time,
time would grow with this slope. The column *why* states a reason and, after the colon, the slope that we expect for
large sizes."""
# What time can grow by in the long run, by what the program does.
WHY = {
    "groups": "evaluations grow with the number of groups, and counts of pairs with its square: 1 to 2",
    "features": "inputs are drawn and the first layer is computed feature by feature: 1",
    "width": "weights between two layers grow with the square: 2",
    "depth": "every layer has the same size: 1",
    "threads": "every thread computes its share of the rounds: -1 at best",
    "rounds": "every round takes the same: 1",
    "states": "the rounds stay the same, but every state has its own line in the chain: 0 to 1",
}


@dataclass(frozen=True)
class Point:
    """One size and what it took (None if it never came back), and the network's multiplications in each thread."""

    size: int
    found: Measured | None
    work: float | None = None

    @property
    def complete(self) -> bool:
        """Whether the run reached its end, and was not stopped by its time."""
        return self.found is not None and self.found.stopped == "rounds"


@dataclass(frozen=True)
class Axis:
    """What grows, and everything that does not."""

    name: str
    unit: str
    setup: str
    points: list[Point]

    @property
    def known(self) -> list[tuple[int, Measured]]:
        """The points that came back, complete or not."""
        return [(point.size, point.found) for point in self.points if point.found is not None]

    @property
    def sized(self) -> list[tuple[float, Measured]]:
        """A run that was cut short is set at the rounds it reached, a chain at the states it has."""
        reached = {"rounds": lambda found: found.rounds, "states": lambda found: found.states}
        return [(reached.get(self.name, lambda _, size=size: size)(each), each) for size, each in self.known]


class Workshop:
    """Makes networks in a folder and measures them."""

    def __init__(self, folder: Path, sizes: Sizes) -> None:
        self._folder, self._sizes = folder, sizes

    def network(self, widths: Sequence[int]) -> str:
        """Write a random network with these layers; return its path."""
        rng = np.random.default_rng(len(widths))
        path = self._folder / ("-".join(map(str, widths)) + ".onnx")
        layers = [
            (rng.normal(0, 1.4 / math.sqrt(a), (a, b)).astype(np.float32), rng.normal(0, 0.1, b).astype(np.float32))
            for a, b in pairwise(widths)
        ]
        path.write_bytes(dense_network(layers))
        return str(path)

    def verify(self, size: int, widths: Sequence[int], groups: int, rounds: int, workers: int = 1) -> Point:
        """Measure a point of this size: so many rounds, or as many as the time for a point allows."""
        inputs = [
            _group(groups),
            *({"name": f"x{i}", "kind": "real", "low": -1, "high": 1} for i in range(widths[0] - 1)),
        ]
        budget = {"rounds": float(rounds), "seconds": self._sizes.point_seconds}
        spec = _spec(self.network(widths), inputs, {"delta": DELTA, "epsilon": UNREACHABLE, "budget": budget})
        found = self._measured({"kind": "verify", "spec": spec, "workers": workers})
        return Point(size, found, groups * rounds * sum(a * b for a, b in pairwise(widths)) / workers)

    def chain(self, states: int, rounds: int) -> Point:
        """Measure a product chain of about so many states, learned from so many rounds and queried once."""
        values = max(2, (states - 5) // 2)
        inputs = [_group(2), {"name": "x", "kind": "integer", "low": 0, "high": values - 1}]
        job = {"kind": "chain", "spec": _spec(self.network((2, 4, 2)), inputs, {"delta": DELTA})}
        return Point(states, self._measured({**job, "states": ["x:values"], "rounds": rounds, "workers": 1}))

    def _measured(self, job: dict[str, Any]) -> Measured | None:
        found: list[Measured] = []
        while len(found) < self._sizes.tries and (not found or found[-1].seconds < SHORT):
            try:
                found.append(measured(job, timeout=2 * self._sizes.point_seconds + 30))
            except subprocess.TimeoutExpired:
                break
        return best_of(found)


def best_of(found: Sequence[Measured]) -> Measured | None:
    """Return the shortest of several runs, with the most memory that any of them had."""
    if not found:
        return None
    return replace(min(found, key=lambda each: each.seconds), peak=max(each.peak for each in found))


def _group(groups: int) -> dict[str, Any]:
    return {"name": "group", "kind": "integer", "low": 0, "high": groups - 1}


def _spec(path: str, features: list[dict[str, Any]], guarantee: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": {"path": path, "labels": ["no", "yes"]},
        "feature": features,
        "property": {"kind": "difference", "protected": ["group"], "threshold": THRESHOLD},
        "guarantee": {"engine": "sampling", **guarantee},
    }


def axes(sizes: Sizes, folder: Path) -> Iterator[Axis]:
    """Yield the axes, one after the other."""
    shop, scales = Workshop(folder, sizes), sizes.scales
    few, many = (10_000, 200_000) if sizes.paper else (1000, 10_000)
    yield Axis(
        "groups", "groups", f"10-64-2, {few:,} rounds, one thread",
        [shop.verify(k, (10, 64, 2), k, few) for k in scales.groups],
    )  # fmt: skip
    yield Axis(
        "features", "features", f"n-64-2, 2 groups, {few:,} rounds, one thread",
        [shop.verify(n, (n, 64, 2), 2, few) for n in scales.features],
    )  # fmt: skip
    yield Axis(
        "width", "neurons in each of two layers", f"10-w-w-2, 2 groups, {few // 10:,} rounds, one thread",
        [shop.verify(w, (10, w, w, 2), 2, few // 10) for w in scales.width],
    )  # fmt: skip
    yield Axis(
        "depth", "hidden layers of 64", f"2 groups, {many // 4:,} rounds, one thread",
        [shop.verify(d, (10, *[64] * d, 2), 2, many // 4) for d in scales.depth],
    )  # fmt: skip
    yield Axis(
        "threads", "threads", f"10-64-64-2, 2 groups, {10 * many:,} rounds",
        [shop.verify(t, (10, 64, 64, 2), 2, 10 * many, t) for t in range(1, default_workers() + 1)],
    )  # fmt: skip
    yield Axis(
        "rounds", "rounds", f"2-2, 2 groups, {default_workers()} threads",
        [shop.verify(n, (2, 2), 2, n, default_workers()) for n in scales.rounds],
    )  # fmt: skip
    yield Axis(
        "states", "states of the chain", f"2-4-2, 2 groups, product chain, {many:,} rounds, one thread",
        [shop.chain(s, many) for s in scales.states],
    )  # fmt: skip


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # networks are made here
    """Measure all axes."""
    with tempfile.TemporaryDirectory() as folder:
        found = {axis.name: axis for axis in axes(sizes, Path(folder))}
    every = list(found.values())
    return PartResult(
        text=TEXT,
        tables=[_time_slopes(every), _memory_slopes(every), *(_table(axis) for axis in every)],
        plots=[
            _plot(every, "scaling-seconds.svg", "time", lambda each: each.seconds),
            _plot(every, "scaling-peak.svg", "peak memory", lambda each: each.peak),
        ],
        checks=[_flat_memory(found["rounds"]), _all_complete(every)],
        settings={
            "seed of every run": 0,
            "the seed of a network's weights is": "the number of its layers, including input and output",
            "seconds for a point, at most": sizes.point_seconds,
            "measurements of a short point": sizes.tries,
        },
        behind=[*_cut_short(every), *_few_gains(found["threads"])],
    )


def _time_slopes(found: list[Axis]) -> Table:
    columns = [Column("what grows"), Column("from", ",.0f"), Column("to", ",.0f"), Column("seconds, smallest", ".3f")]
    columns += [Column("seconds, largest", ".3f"), Column("power", ".2f"), Column("last", ".2f")]
    columns += [Column("network's work, last", ".2f"), Column("why")]
    rows: list[list[Cell]] = []
    for axis in found:
        if points := axis.sized:
            times = [(size, each.seconds) for size, each in points]
            (first, low), (last, high) = times[0], times[-1]
            work = [(point.size, point.work) for point in axis.points if point.complete and point.work]
            slopes = [power(times), power(times[-2:]), power(work[-2:])]
            rows.append([axis.name, first, last, low, high, *slopes, WHY[axis.name]])
    return Table("How time grows", columns, rows)


def _memory_slopes(found: list[Axis]) -> Table:
    columns = [Column("what grows"), Column("from", ",.0f"), Column("to", ",.0f"), Column("peak MiB, smallest", ".0f")]
    columns += [Column("peak MiB, largest", ".0f"), Column("power", ".2f"), Column("last", ".2f")]
    rows: list[list[Cell]] = []
    for axis in found:
        if points := axis.sized:
            peaks = [(size, each.peak) for size, each in points]
            (first, low), (last, high) = peaks[0], peaks[-1]
            rows.append([axis.name, first, last, low, high, power(peaks), power(peaks[-2:])])
    return Table("How peak memory grows", columns, rows, "The memory includes Python and its packages.")


def _table(axis: Axis) -> Table:
    chains = axis.name == "states"
    columns = [Column(axis.unit, ",d"), Column("seconds", ".3f"), Column("rounds made", ",d")]
    columns += [Column("seconds of a query", ".4f") if chains else Column("evaluations", ",d")]
    columns += [Column("peak MiB", ".0f"), Column("MiB before the run", ".0f"), Column("ended by")]
    rows: list[list[Cell]] = []
    for point in axis.points:
        each = point.found
        if each is None:
            rows.append([point.size, *[None] * (len(columns) - 2), "time, nothing came back"])
            continue
        size, fourth = (each.states, each.query) if chains else (point.size, each.evaluations)
        ended = "all rounds" if point.complete else f"{each.stopped}, after {each.rounds:,} rounds"
        rows.append([size, each.seconds, each.rounds, fourth, each.peak, each.before, ended])
    return Table(f"By {axis.name}", columns, rows, f"{axis.setup}.")


def _plot(found: list[Axis], file: str, what: str, value: Callable[[Measured], float]) -> Plot:
    """Plot every axis relative to its first point, so that slopes can be seen together."""
    series = []
    for axis in found:
        points = [(size, value(each)) for size, each in axis.sized]
        if len(points) > 1:
            small, low = points[0]
            series.append(Series(axis.name, [(size / small, high / low) for size, high in points]))
    title = f"Growth of {what}, both axes relative to the smallest size"
    return Plot(file, title, "times the smallest size", f"times its {what}", series, log_x=True, log_y=True)


def _flat_memory(axis: Axis) -> Check:
    """Check the memory of the longest run, which must be complete."""
    longest = max(point.size for point in axis.points)
    complete = {point.size: point.found for point in axis.points if point.complete and point.found is not None}
    name = f"peak memory of {longest:,} rounds / peak memory of the shortest run"
    required = f"at most {MEMORY_LIMIT:g}, and all rounds are made"
    if longest not in complete:
        return Check(name, False, f"{longest:,} rounds were not completed", required)
    peaks = [found.peak for found in complete.values()]
    ratio = max(peaks) / complete[min(complete)].peak
    return Check(name, ratio <= MEMORY_LIMIT, f"{ratio:.2f}", required)


def _all_complete(found: list[Axis]) -> Check:
    points = [point for axis in found for point in axis.points]
    done = sum(point.complete for point in points)
    name = "runs that made all rounds within their time limit"
    return Check(name, done == len(points), f"{done} of {len(points)}", "all")


def _cut_short(found: list[Axis]) -> Iterator[str]:
    for axis in found:
        for point in axis.points:
            if not point.complete:
                after = f"after {point.found.rounds:,} rounds" if point.found else "before anything came back"
                yield f"scaling by {axis.name}: the point {point.size:,} was stopped by its time limit {after}"


def _few_gains(axis: Axis) -> Iterator[str]:
    """Yield a line if threads brought little."""
    seconds = {size: each.seconds for size, each in axis.known}
    most = max(seconds, default=1)
    if most > 1 and 1 in seconds and (gain := seconds[1] / seconds[most]) < WORTHWHILE * most:
        busy = "The line *Machine* states the load of other programs"
        yield f"{most} threads are {gain:.2f} times as fast as one thread. {busy}"
