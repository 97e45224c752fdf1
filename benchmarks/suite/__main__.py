"""Runs the parts of the suite, keeps what they find, and writes RESULTS.md.

    python -m benchmarks.suite [--size quick|paper] [--only PART ...] [--models FOLDER] [--out FOLDER] [--render]

Each part can be run alone; RESULTS.md is written from whatever parts were kept. `--models` adds the networks of the
paper's tables from a folder that you have (see `benchmarks/paper_models.py`). Exit code 1 if something does not hold.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.suite.kept import as_kept
from benchmarks.suite.machine import Watch, this_machine
from benchmarks.suite.outcome import Found, Part, keep, kept
from benchmarks.suite.render import mark, show, write
from benchmarks.suite.sizes import SIZES, Sizes

# In the order of RESULTS.md. Each module has a function `run(sizes, models)`.
PARTS = {
    "verification": "Verification: the paper's eight cases",
    "repair": "Repair",
    "growth": "Time against number of states",
    "sensitivity": "Sensitivity of features and neurons",
    "comparison": "Other methods on the same networks",
    "boundary": "Wrong verdicts near the threshold",
    "scaling": "Scaling",
    "limits": "Distance to the limit",
}
HERE = Path(__file__).resolve().parents[1]


def run_part(name: str, sizes: Sizes, models: Path | None) -> Part:
    """Measure one part, here and now."""
    watch, start = Watch(), time.perf_counter()
    found: Found = import_module(f"benchmarks.suite.{name}").run(sizes, models)
    # A full run is what others are compared with.
    compared = [] if sizes.timed or not found.counts else [as_kept(name, found.counts)]
    return Part(
        name=name,
        title=PARTS[name],
        size=sizes.name,
        used=found.used,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        seconds=round(time.perf_counter() - start, 1),
        machine=this_machine(watch.others()),
        text=found.text,
        tables=found.tables,
        plots=found.plots,
        checks=[*found.checks, *compared],
        behind=found.behind,
        counts=found.counts,
    )


def tell(part: Part) -> None:
    """A part's tables and checks on the terminal."""
    print(f"\n== {part.title} ({part.size}, {part.seconds:.0f} s)")
    for table in part.tables:
        print(f"\n{show(table)}")
    for check in part.checks:
        print(f"{mark(check)}: {check.name}: {check.found} (wanted: {check.wanted})", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="quick", help="how much to measure (default: quick)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="some parts only")
    parser.add_argument("--models", type=Path, default=None, help="folder with the paper's networks")
    parser.add_argument("--out", type=Path, default=None, help="folder for RESULTS.md and results/")
    parser.add_argument("--render", action="store_true", help="measure nothing: write RESULTS.md from what is kept")
    options = parser.parse_args(arguments)
    # What is committed comes from full runs only.
    out = options.out or (HERE if options.size == "paper" or options.render else HERE / "out")
    if not options.render:
        for name in options.only:
            measured = run_part(name, SIZES[options.size], options.models)
            keep(measured, out / "results")
            tell(measured)
    parts = [part for name in PARTS if (part := kept(name, out / "results")) is not None]
    write(parts, out / "RESULTS.md", out / "results")
    asked = [part for part in parts if options.render or part.name in options.only]
    failing = [f"{part.name}: {c.name}" for part in asked for c in part.checks if c.enforced and not c.holds]
    print(f"\n{out / 'RESULTS.md'}: {'does not hold: ' + '; '.join(failing) if failing else 'everything holds'}")
    return 1 if failing else 0


if __name__ == "__main__":
    sys.exit(main())
