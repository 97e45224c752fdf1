"""Measures the error probability of every mode and writes CALIBRATION.md.

    python -m benchmarks.calibration [--size quick|full] [--runs N] [--only PATTERN] [--out FILE] [--list]

Exit code 1 if a mode is wrong more often than its false-alarm chance allows, or an unsound variant is not caught.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.calibration.measure import EFFORTS, Finding, calibrate
from benchmarks.calibration.modes import MODES
from benchmarks.calibration.page import About, intervals, page, summary, verdicts
from benchmarks.suite.machine import this_machine
from fairchain import __version__

HERE = Path(__file__).resolve().parents[1]


def tell(finding: Finding) -> None:
    """Print one mode."""
    sound, unsound = finding.sound, finding.unsound
    mark = "PASS" if finding.holds else "FAIL"
    caught = "caught" if unsound.alarming else "NOT CAUGHT"
    print(
        f"{mark}  {finding.mode.name}\n"
        f"      delta {sound.delta:g}, {sound.runs} runs: wrong verdicts {verdicts(sound)}, intervals that miss: "
        f"{intervals(sound)}; chance {sound.chance:.1g}\n"
        f"      {finding.mode.variant}: {caught} after {unsound.tried} runs",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=EFFORTS, default="full", help="how much to measure (default: full)")
    parser.add_argument("--runs", type=int, default=None, help="runs of each mode, in place of the size's")
    parser.add_argument("--only", metavar="PATTERN", default="", help="modes whose name contains this")
    parser.add_argument("--out", type=Path, default=None, help="the page (default: CALIBRATION.md after a whole run)")
    parser.add_argument("--list", action="store_true", help="print the names of the modes and measure nothing")
    options = parser.parse_args(arguments)
    modes = [mode for name, mode in MODES.items() if options.only.lower() in name.lower()]
    if not modes:
        parser.error(f"--only: no mode has {options.only!r} in its name; --list prints the names")
    if options.runs is not None and options.runs < 1:
        parser.error(f"--runs: found {options.runs}; give at least 1")
    if options.list:
        print("\n".join(mode.name for mode in modes))
        return 0
    effort, start = EFFORTS[options.size], time.perf_counter()
    findings = calibrate(modes, effort, options.runs, tell)
    machine = this_machine()
    about = About(
        datetime.datetime.now(datetime.UTC).date().isoformat(),
        time.perf_counter() - start,
        __version__,
        machine.processor,
        machine.cores,
    )
    # What is committed comes from whole, full runs only.
    whole = options.size == "full" and not options.only and options.runs is None
    out = options.out or (HERE / "CALIBRATION.md" if whole else HERE / "out" / "CALIBRATION.md")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(findings, effort, about), encoding="utf-8")
    print(f"\n{summary(findings)}\n{out}, {about.seconds:.0f} s")
    return 0 if all(finding.holds for finding in findings) else 1


if __name__ == "__main__":
    sys.exit(main())
