"""Scaling: points are of the size asked for, what was cut short is not called measured, and slopes are powers."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest


def module(name: str) -> Any:
    return import_module(f"benchmarks.{name}")


def measured(**changes: Any) -> Any:
    base = module("probe").Measured(1.0, 70.0, 60.0, 1000, 2000, 0, 0.0, "rounds")
    return replace(base, **changes)


def axis(name: str, *points: tuple[int, Any]) -> Any:
    scaling = module("parts.scaling")
    return scaling.Axis(name, name, "made up", [scaling.Point(size, found, size * 10.0) for size, found in points])


def test_a_measurement_in_a_process_of_its_own_is_of_the_size_asked_for(tmp_path: Path) -> None:
    point = module("parts.scaling").Workshop(tmp_path, module("sizes").QUICK).verify(7, (3, 4, 2), 3, 500, 2)
    assert (point.size, point.complete) == (7, True)
    assert (point.found.rounds, point.found.evaluations) == (500, 1500)
    assert 10 < point.found.before <= point.found.peak < 2000
    assert point.work == 3 * 500 * (3 * 4 + 4 * 2) / 2


@pytest.mark.parametrize(("seconds", "runs"), [((3.0, 1.0, 2.0), 3), ((6.0,), 1), ((4.0, 5.5), 2)])
def test_short_points_are_measured_again_and_long_ones_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seconds: tuple[float, ...], runs: int
) -> None:
    scaling, took = module("parts.scaling"), iter(seconds)
    jobs: list[Any] = []

    def fake(job: Any, timeout: float) -> Any:
        jobs.append((job, timeout))
        return measured(seconds=next(took), peak=70.0 + len(jobs))

    monkeypatch.setattr(scaling, "measured", fake)
    point = scaling.Workshop(tmp_path, replace(module("sizes").QUICK, tries=3)).chain(100, 1000)
    assert len(jobs) == runs
    # The shortest time, and the most memory.
    assert (point.found.seconds, point.found.peak) == (min(seconds), 70.0 + runs)


def test_a_point_stopped_by_its_time_is_not_measured_and_is_named() -> None:
    scaling = module("parts.scaling")
    whole = axis("rounds", (1000, measured()), (10**9, measured(rounds=10**9, peak=75.0)))
    cut = axis("rounds", (1000, measured()), (10**9, measured(rounds=7 * 10**8, stopped="seconds")))
    lost = axis("rounds", (1000, measured()), (10**9, None))
    assert scaling._all_complete([whole]).holds
    assert scaling._flat_memory(whole).holds
    assert list(scaling._cut_short([whole])) == []
    for short, told in ((cut, "after 700,000,000 rounds"), (lost, "before anything came back")):
        assert scaling._all_complete([whole, short]).found == "3 of 4"
        assert not scaling._all_complete([whole, short]).holds
        assert not scaling._flat_memory(short).holds
        (line,) = scaling._cut_short([short])
        assert told in line
        assert scaling._table(short).rows[-1][-1] != "all rounds"


def test_memory_that_grows_with_the_rounds_is_seen() -> None:
    grown = axis("rounds", (1000, measured()), (10**6, measured(peak=110.0)))
    assert not module("parts.scaling")._flat_memory(grown).holds


def test_a_full_run_has_the_points_that_were_promised() -> None:
    scales = module("sizes").PAPER.scales
    promised = {
        "groups": (2, 200), "features": (10, 1000), "width": (64, 4096), "depth": (2, 20),
        "rounds": (10**4, 10**9), "states": (10, 10**5),
    }  # fmt: skip
    for name, (least, most) in promised.items():
        points = getattr(scales, name)
        assert (points[0], points[-1]) == (least, most)
        assert list(points) == sorted(set(points))


def test_threads_that_bring_little_are_named() -> None:
    scaling = module("parts.scaling")
    assert list(scaling._few_gains(axis("threads", (1, measured()), (2, measured(seconds=0.55))))) == []
    (line,) = scaling._few_gains(axis("threads", (1, measured()), (2, measured(seconds=1.1))))
    assert "0.91 times" in line
    assert list(scaling._few_gains(axis("threads", (1, measured())))) == []


def test_every_axis_is_explained_and_its_work_is_a_slope() -> None:
    scaling = module("parts.scaling")
    table = scaling._time_slopes([axis("width", (10, measured()), (100, measured(seconds=100.0)))])
    names = [column.name for column in table.columns]
    (row,) = (dict(zip(names, row, strict=True)) for row in table.rows)
    assert len(names) == len(set(names))
    assert (row["power"], row["last"], row["network's work, last"]) == (
        pytest.approx(2),
        pytest.approx(2),
        pytest.approx(1),
    )
    assert set(scaling.WHY) == {"groups", "features", "width", "depth", "threads", "rounds", "states"}


def test_slopes_are_powers() -> None:
    power = import_module("benchmarks.measuring").power
    assert power([(size, 3 * size**1.5) for size in (1, 10, 100)]) == pytest.approx(1.5)
    assert power([(1, 1.0)]) is None
