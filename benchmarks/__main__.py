"""Run benchmarks: print their tables, compare counts with the kept ones, and write RESULTS.md and CALIBRATION.md.

    python -m benchmarks [PART ...] [--size quick|paper] [--models FOLDER] [--output FOLDER]
                         [--modes PATTERN] [--list] [--rewrite]

Without PART all parts of RESULTS.md run; `--list` prints them. As soon as a part has run, its section of the page is
replaced; the other sections stay as they are. Size paper does this in benchmarks, and keeps the counts. Size quick does
it in benchmarks/out, and compares counts with benchmarks/counts.json. `--rewrite` measures nothing: it writes the pages
again from their sections, after a change to the texts around them.
`--models` adds the networks of the paper's tables from a folder that you have (benchmarks/paper_models.py). Exit code 1
if a check fails.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from benchmarks.measuring import LoadWatch, this_machine
from benchmarks.page import PartRun, show, write
from benchmarks.results import COUNTS, PartResult, compare_counts, keep_counts, kept_counts
from benchmarks.sizes import SIZES, Sizes

HERE = Path(__file__).resolve().parent
CALIBRATION = "calibration"
# In the order of RESULTS.md; the module of each has a function `run(sizes, models)`.
PARTS = {
    "verification": "Verification: the paper's eight cases",
    "repair": "Repair",
    "thresholds": "Decision thresholds beside fairlearn",
    "chain_growth": "Time against number of states",
    "sensitivity": "Sensitivity of features and neurons",
    "planted": "Planted causes",
    "comparison": "Other methods on the same networks",
    "near_threshold": "Wrong verdicts near the threshold",
    "error_split": "Half of delta for each answer",
    "families": "Several questions together",
    "subgroups": "Planted subgroups",
    "planning": "Forecasts and what verdicts took",
    "sample_rows": "Rows of a sample",
    "stakes": "Stakes of the bets",
    "bounds": "Bounds by branch and bound",
    "limits": "Distance to the information bound",
    "simulated_limits": "Distance to the bound on simulated rounds and rows",
    "speed": "Speed",
    "enumeration": "Enumeration of finite input spaces",
    "check_cost": "One call against the model's own predict",
    "services": "Services that are kept busy",
    "texts": "Speed on texts",
    "scaling": "Scaling",
    "large_tables": "Tables beyond memory",
    "executors": "Executors",
    "simulated_cluster": "A thousand workers, simulated",
    "large_chains": "Large chains",
    "large_report": "Report of a large audit",
    CALIBRATION: "Calibration of the error probability",
}
PAGES = {"RESULTS.md": [part for part in PARTS if part != CALIBRATION], "CALIBRATION.md": [CALIBRATION]}


def titles(page: str) -> dict[str, str]:
    """Return the titles of a page's parts by name, in order."""
    return {name: PARTS[name] for name in PAGES[page]}


def run_part(name: str, sizes: Sizes, models: Path | None) -> PartRun:
    """Measure one part."""
    watch, start = LoadWatch(), time.perf_counter()
    result: PartResult = import_module(f"benchmarks.parts.{name}").run(sizes, models)
    if result.counts and not sizes.paper:
        check = compare_counts(kept_counts(COUNTS).get(name, {}), result.counts)
        result = replace(result, checks=[*result.checks, check])
    return PartRun(
        name=name,
        title=PARTS[name],
        size=sizes.name,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        seconds=round(time.perf_counter() - start, 1),
        machine=this_machine(watch.others()),
        result=result,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts, print and write what they found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="parts to run (default: all of RESULTS.md)")
    parser.add_argument("--size", choices=SIZES, default="quick", help="how much to measure (default: quick)")
    parser.add_argument("--models", type=Path, default=None, help="folder with the paper's networks")
    parser.add_argument("--output", type=Path, default=None, help="folder for pages, figures and counts")
    parser.add_argument("--modes", metavar="PATTERN", default="", help="calibrate only modes whose name contains this")
    parser.add_argument("--list", action="store_true", help="print the parts and measure nothing")
    parser.add_argument("--rewrite", action="store_true", help="write the pages from their sections, measure nothing")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.parts if name not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}; expected one of {', '.join(PARTS)}")
    if options.list:
        print("\n".join(f"{name:15} {title}" for name, title in PARTS.items()))
        return 0
    if options.rewrite:
        for page in PAGES:
            write((options.output or HERE) / page, titles(page))
        return 0
    sizes = replace(SIZES[options.size], modes=options.modes)
    wanted = options.parts or PAGES["RESULTS.md"]
    # A part of the modes must not replace the section about all of them.
    folder = options.output or (HERE if sizes.paper and not sizes.modes else HERE / "out")
    runs: list[PartRun] = []
    for name in (part for part in PARTS if part in wanted):
        runs.append(run := run_part(name, sizes, options.models))
        print(show(run), flush=True)
        if run.result.counts and (sizes.paper or options.output):
            keep_counts({name: run.result.counts}, options.output / COUNTS.name if options.output else COUNTS)
        page = next(page for page, parts in PAGES.items() if name in parts)
        write(folder / page, titles(page), [run])
        print(f"\nwrote {folder / page}", flush=True)
    failing = [line for run in runs for line in run.failing]
    print(f"fails: {'; '.join(failing)}" if failing else "every check holds")
    return 1 if failing else 0


if __name__ == "__main__":
    sys.exit(main())
