"""How time and memory grow with groups, features, width, depth, threads, rounds and states."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper_models import write_onnx
from benchmarks.suite.cases import DELTA
from benchmarks.suite.outcome import Cell, Check, Column, Found, Plot, Series, Table
from benchmarks.suite.paper import THRESHOLD
from benchmarks.suite.probe import Measured, measured
from benchmarks.suite.sizes import Sizes
from fairchain.evidence import default_workers

# An estimate that cannot be reached shows all groups to the network until the rounds are spent.
UNREACHABLE = 1e-6
# The peak of a long run over that of the shortest.
MEMORY_LIMIT = 1.5
# Threads should bring at least this share of their number.
WORTHWHILE = 0.75
TEXT = """Random dense networks with ReLU on real features; a run of exactly so many rounds (an estimate that cannot
be reached), each in a process of its own whose peak memory is read at the end. Networks are loaded before the clock
starts. *Power* is the slope on logarithmic scales over all points, *last* that of the last two: 1 is linear, and
small sizes are flat since every run has a fixed cost."""


@dataclass(frozen=True)
class Point:
    """One size and what it took; None if it was not finished in time."""

    size: int
    found: Measured | None


@dataclass(frozen=True)
class Axis:
    """What grows, and everything that does not."""

    name: str
    unit: str
    setup: str
    points: list[Point]

    @property
    def known(self) -> list[tuple[int, Measured]]:
        """The points that were finished."""
        return [(point.size, point.found) for point in self.points if point.found is not None]


def power(points: Sequence[tuple[float, float]]) -> float | None:
    """The slope on logarithmic scales; None for fewer than two points."""
    if len(points) < 2:
        return None
    sizes, values = (np.log([point[place] for point in points]) for place in (0, 1))
    return float(np.polyfit(sizes, values, 1)[0])


class Workshop:
    """Makes networks in a folder and has them measured."""

    def __init__(self, folder: Path, sizes: Sizes) -> None:
        self._folder, self._sizes = folder, sizes

    def network(self, widths: Sequence[int]) -> str:
        """A random network with these layers."""
        rng = np.random.default_rng(len(widths))
        path = self._folder / ("-".join(map(str, widths)) + ".onnx")
        layers = [
            (rng.normal(0, 1.4 / math.sqrt(a), (a, b)).astype(np.float32), rng.normal(0, 0.1, b).astype(np.float32))
            for a, b in pairwise(widths)
        ]
        write_onnx(layers, path)
        return str(path)

    def verify(self, widths: Sequence[int], groups: int, rounds: int, workers: int = 1) -> Measured | None:
        """So many rounds, or as many as the time for a point allows."""
        inputs = [
            _group(groups),
            *({"name": f"x{i}", "kind": "real", "low": -1, "high": 1} for i in range(widths[0] - 1)),
        ]
        budget = {"rounds": float(rounds), "seconds": self._sizes.point_seconds}
        spec = _spec(self.network(widths), inputs, {"delta": DELTA, "epsilon": UNREACHABLE, "budget": budget})
        return self._measured({"kind": "verify", "spec": spec, "workers": workers})

    def chain(self, states: int, rounds: int) -> Measured | None:
        """A product chain of about so many states, learned from so many rounds and asked once."""
        values = max(2, (states - 5) // 2)
        inputs = [_group(2), {"name": "x", "kind": "integer", "low": 0, "high": values - 1}]
        job = {"kind": "chain", "spec": _spec(self.network((2, 4, 2)), inputs, {"delta": DELTA})}
        return self._measured({**job, "states": ["x:values"], "rounds": rounds, "workers": 1})

    def _measured(self, job: dict[str, Any]) -> Measured | None:
        import subprocess

        try:
            return measured(job, timeout=2 * self._sizes.point_seconds + 30)
        except subprocess.TimeoutExpired:
            return None


def _group(groups: int) -> dict[str, Any]:
    return {"name": "group", "kind": "integer", "low": 0, "high": groups - 1}


def _spec(path: str, features: list[dict[str, Any]], guarantee: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": {"path": path, "labels": ["no", "yes"]},
        "feature": features,
        "property": {"kind": "difference", "protected": ["group"], "threshold": THRESHOLD},
        "guarantee": guarantee,
    }


def axes(sizes: Sizes, folder: Path) -> Iterator[Axis]:
    """Everything that grows, one after the other."""
    shop, scales = Workshop(folder, sizes), sizes.scales
    few, many = (10_000, 200_000) if sizes.timed else (1000, 10_000)
    yield Axis(
        "groups", "groups", f"10-64-2, {few:,} rounds, one thread",
        [Point(k, shop.verify((10, 64, 2), k, few)) for k in scales.groups],
    )  # fmt: skip
    yield Axis(
        "features", "features", f"n-64-2, 2 groups, {few:,} rounds, one thread",
        [Point(n, shop.verify((n, 64, 2), 2, few)) for n in scales.features],
    )  # fmt: skip
    yield Axis(
        "width", "neurons in each of two layers", f"10-w-w-2, 2 groups, {few // 10:,} rounds, one thread",
        [Point(w, shop.verify((10, w, w, 2), 2, few // 10)) for w in scales.width],
    )  # fmt: skip
    yield Axis(
        "depth", "hidden layers of 64", f"2 groups, {many // 4:,} rounds, one thread",
        [Point(d, shop.verify((10, *[64] * d, 2), 2, many // 4)) for d in scales.depth],
    )  # fmt: skip
    yield Axis(
        "threads", "threads", f"10-64-64-2, 2 groups, {10 * many:,} rounds",
        [Point(t, shop.verify((10, 64, 64, 2), 2, 10 * many, t)) for t in range(1, default_workers() + 1)],
    )  # fmt: skip
    yield Axis(
        "rounds", "rounds", f"2-2, 2 groups, {default_workers()} threads, at most {sizes.point_seconds:g} s a point",
        [Point(n, shop.verify((2, 2), 2, n, default_workers())) for n in scales.rounds],
    )  # fmt: skip
    yield Axis(
        "states", "states of the chain", f"2-4-2, 2 groups, product chain, {many:,} rounds, one thread",
        [Point(s, shop.chain(s, many)) for s in scales.states],
    )  # fmt: skip


def run(sizes: Sizes, models: Path | None) -> Found:  # noqa: ARG001  # networks are made here
    """One table for each axis, and one with the slopes."""
    with tempfile.TemporaryDirectory() as folder:
        found = list(axes(sizes, Path(folder)))
    lengths = next(axis for axis in found if axis.name == "rounds")
    return Found(
        text=TEXT,
        tables=[_slopes(found), *(_table(axis) for axis in found)],
        plots=[_plot(found, "seconds"), _plot(found, "MB")],
        checks=[_flat_memory(lengths), _all_measured(found)],
        used={"seconds for a point, at most": sizes.point_seconds},
        behind=_behind(found),
    )


def _sized(axis: Axis) -> list[tuple[float, Measured]]:
    """A run that was cut short is set at the rounds it reached, a chain at the states it has."""
    reached = {"rounds": lambda found: found.rounds, "states": lambda found: found.states}
    return [(reached.get(axis.name, lambda _, size=size: size)(each), each) for size, each in axis.known]


def _slopes(found: list[Axis]) -> Table:
    columns = [Column("what grows"), Column("from", ",.0f"), Column("to", ",.0f"), Column("seconds", ".3f")]
    columns += [
        Column("to", ".3f"),
        Column("power", ".2f"),
        Column("last", ".2f"),
        Column("peak MB", ".0f"),
        Column("to", ".0f"),
    ]
    columns += [Column("power", ".2f"), Column("the rest")]
    rows: list[list[Cell]] = []
    for axis in found:
        points = _sized(axis)
        if not points:
            continue
        times, peaks = ([(size, getattr(each, name)) for size, each in points] for name in ("seconds", "peak"))
        (first, low), (last, high) = points[0], points[-1]
        row: list[Cell] = [axis.name, first, last, low.seconds, high.seconds, power(times), power(times[-2:])]
        rows.append([*row, low.peak, high.peak, power(peaks), axis.setup])
    return Table("Slopes", columns, rows)


def _table(axis: Axis) -> Table:
    columns = [Column(axis.unit, ",d"), Column("seconds", ".3f"), Column("rounds", ",d"), Column("evaluations", ",d")]
    columns += [Column("peak MB", ".0f"), Column("of it before the run", ".0f"), Column("ended by")]
    if axis.name == "states":
        columns[3] = Column("seconds of a query", ".4f")
    rows: list[list[Cell]] = []
    for point in axis.points:
        each = point.found
        if each is None:
            rows.append([point.size, None, None, None, None, None, "time"])
            continue
        fourth = each.query if axis.name == "states" else each.evaluations
        size = each.states if axis.name == "states" else point.size
        rows.append([size, each.seconds, each.rounds, fourth, each.peak, each.before, _ended(each)])
    return Table(f"By {axis.name}", columns, rows, f"{axis.setup[0].upper()}{axis.setup[1:]}.")


def _ended(each: Measured) -> str:
    return f"time, after {each.rounds:,} rounds" if each.stopped == "seconds" else "all rounds"


def _plot(found: list[Axis], what: str) -> Plot:
    """Every axis relative to its first point, so that slopes can be seen together."""
    name = "seconds" if what == "seconds" else "peak"
    series = []
    for axis in found:
        points = [(size, float(getattr(each, name))) for size, each in _sized(axis)]
        if len(points) > 1:
            first = points[0]
            series.append(Series(axis.name, [(size / first[0], value / first[1]) for size, value in points]))
    title = f"Growth of {'time' if what == 'seconds' else 'peak memory'}, both axes relative to the smallest size"
    return Plot(
        f"scaling-{name}.svg", title, "times the smallest size", f"times its {what}", series, log_x=True, log_y=True
    )


def _flat_memory(axis: Axis) -> Check:
    peaks = [each.peak for _, each in axis.known]
    ratio = max(peaks) / peaks[0] if peaks else math.inf
    longest = max((each.rounds for _, each in axis.known), default=0)
    name = f"peak memory of {longest:,} rounds over that of the shortest run"
    return Check(name, ratio <= MEMORY_LIMIT, f"{ratio:.2f}", f"at most {MEMORY_LIMIT:g}")


def _all_measured(found: list[Axis]) -> Check:
    points = [point for axis in found for point in axis.points]
    done = sum(point.found is not None for point in points)
    return Check("points that were measured", done == len(points), f"{done} of {len(points)}", "all")


def _behind(found: list[Axis]) -> list[str]:
    """Points that did not get to their end, and threads that brought little."""
    lines = [
        f"scaling by {axis.name}: the point {size:,} was stopped by its time limit after {each.rounds:,} rounds"
        for axis in found
        for size, each in axis.known
        if each.stopped == "seconds"
    ]
    threads = next(axis for axis in found if axis.name == "threads").known
    one, (most, all_of_them) = threads[0][1], threads[-1]
    if most > 1 and one.seconds / all_of_them.seconds < WORTHWHILE * most:
        gain = one.seconds / all_of_them.seconds
        lines.append(f"{most} threads are {gain:.2f} times as fast as one; how busy the machine was stands above")
    return lines
