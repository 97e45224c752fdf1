"""Recorded decisions in Parquet files, counted by whole commands, against the engine's own group-by."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from benchmarks.measuring import median_ratio
from benchmarks.results import Cell, Check, Column, PartResult, Table
from benchmarks.sizes import Sizes

FAIRCHAIN = (sys.executable, "-c", "from fairchain.cli import main; main()")
FILES = 20
MOST_RATIO, MOST_MEBIBYTES = 1.5, 1000.0
AGES = (18, 65)
SPEC = """[model]
labels = ["no", "yes"]

[[feature]]
name = "sex"
kind = "category"
values = ["f", "m"]

[[feature]]
name = "age"
kind = "integer"
low = 18
high = 65

[property]
kind = "difference"
protected = ["sex"]
outcome = "yes"
threshold = 0.1

[population]
kind = "table"
as = "population"
path = "decisions"
prediction = "hired"
"""
OWN = """import polars
rows = polars.scan_parquet("decisions/*.parquet").group_by("sex", "age", "hired").agg(polars.len())
print(rows.collect(engine="streaming").height)
"""
TEXT = f"""This section compares `fairchain verify` on a large table with a group-by of polars on the same rows. Each
row has a sex (text), an age (integer) and a recorded decision (text). The rows are in {FILES} Parquet files, which are
copies of one file and are read from the system's cache. `fairchain verify` counts the decisions and decides. A Python
program of three lines imports polars and groups the rows by the same columns. Both are complete commands, measured from
start to end, and run alternately.

*Processor* is the time of all processes of a command on all cores. *Peak* is the largest memory of one process. The
ratios in the checks compare the shortest run of each side, which other programs disturbed least. The checks also state
the median of the ratios of all turns."""


@dataclass(frozen=True)
class Command:
    """What one command took, its children included: seconds of wall and processor time, and its peak in MiB."""

    wall: float
    processor: float
    peak: float
    output: str


# A small process starts the command: Linux counts the memory of the process that starts another as the other's peak.
MEASURED = """
import json, os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
output = process.stdout.read()
_, status, used = os.wait4(process.pid, 0)
code = os.waitstatus_to_exitcode(status)
print(json.dumps([code, time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss, output]))
"""


def command(arguments: Sequence[str], folder: Path) -> Command:
    """Run a command to its end."""
    started = [sys.executable, "-I", "-c", MEASURED, *arguments]
    printed = subprocess.run(started, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout
    code, wall, processor, peak, output = json.loads(printed)
    if code:
        raise subprocess.CalledProcessError(code, arguments)
    return Command(wall, processor, peak / (2**20 if sys.platform == "darwin" else 2**10), output)


def write_decisions(folder: Path, rows: int) -> float:
    """Write so many decisions into a folder; return the difference of the rates of both sexes."""
    polars = import_module("polars")
    random = np.random.default_rng(0)
    count = rows // FILES
    sex = random.integers(0, 2, count)
    hired = random.random(count) < 0.3 + 0.05 * sex
    frame = polars.DataFrame(
        {
            "sex": np.array(["f", "m"])[sex],
            "age": random.integers(AGES[0], AGES[1] + 1, count),
            "hired": np.array(["no", "yes"])[hired.astype(int)],
        }
    )
    folder.mkdir()
    first = folder / "part-00.parquet"
    frame.write_parquet(first)
    for place in range(1, FILES):
        shutil.copy(first, folder / f"part-{place:02}.parquet")
    return float(hired[sex == 1].mean() - hired[sex == 0].mean())


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # decisions are recorded
    """Count the table alternately with both commands."""
    ours, other = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        gap = write_decisions(folder / "decisions", sizes.table_rows)
        (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
        (folder / "own.py").write_text(OWN, encoding="utf-8")
        megabytes = sum(each.stat().st_size for each in (folder / "decisions").iterdir()) / 1e6
        for _ in range(sizes.few_turns):
            ours.append(command([*FAIRCHAIN, "verify", "spec.toml"], folder))
            other.append(command([sys.executable, "own.py"], folder))
    rows: list[list[Cell]] = [
        [
            side,
            min(each.wall for each in found),
            min(each.processor for each in found),
            max(each.peak for each in found),
        ]
        for side, found in (("fairchain verify", ours), ("polars, group-by", other))
    ]
    columns = [Column("command"), Column("wall, s", ".2f"), Column("processor, s", ".2f"), Column("peak MiB", ".0f")]
    told = f"{gap:.4f}"
    name = "gap, compared with the gap of the rows that were written"
    answers = [Check(name, all(told in each.output for each in ours), told, told)]
    peak = max(each.peak for each in ours)
    limit = f"below {MOST_MEBIBYTES:g} MiB"
    return PartResult(
        text=TEXT,
        tables=[Table(f"{sizes.table_rows:,} recorded decisions ({megabytes:,.0f} MB)", columns, rows)],
        checks=[
            *answers,
            *_ratios("wall", [each.wall for each in ours], [each.wall for each in other], enforced=sizes.paper),
            *_ratios(
                "processor", [each.processor for each in ours], [each.processor for each in other], enforced=sizes.paper
            ),
            Check("peak memory", peak < MOST_MEBIBYTES, f"{peak:.0f} MiB", limit),
        ],
        settings={"rows": sizes.table_rows, "turns": sizes.few_turns, "seed": 0},
    )


def _ratios(what: str, ours: list[float], other: list[float], *, enforced: bool) -> list[Check]:
    """Judge the shortest runs, and report the median of the turns."""
    best, middle = min(ours) / min(other), median_ratio(ours, other)
    found, limit = f"{best:.2f} (median of the turns {middle:.2f})", f"at most {MOST_RATIO:g}"
    return [Check(f"{what} time / {what} time of the group-by", best <= MOST_RATIO, found, limit, enforced)]
