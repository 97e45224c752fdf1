"""`python -m tests.fuzzing`: damaged files for every parser, with a table of how they ended.

python -m tests.fuzzing --total 100000          over all formats, as make fuzz does
python -m tests.fuzzing --each 2000             of each format
python -m tests.fuzzing --target onnx --show 17 how mutant 17 of a format ends; --write FILE keeps it
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzzing.run import ENDS, MOST_MEGABYTES, MOST_SECONDS, Result, fuzz, shared_out
from tests.fuzzing.targets import TARGETS

COLUMNS = ("mutants", *ENDS, "slowest", "memory")
HEAD = f"{'format':18}" + "".join(f"{name:>10}" for name in COLUMNS)


def line(result: Result) -> str:
    """Return a line of the table."""
    counts = {**result.counts, "failed": max(result.counts["failed"], len(result.failures))}
    numbers = (result.mutants, *(counts[key] for key in ENDS))
    shown = "".join(f"{number:10,}" for number in numbers)
    return f"{result.name:18}{shown}{result.slowest[0]:8.2f} s{result.megabytes:7,} MB"


def show(name: str, number: int, seed: int, target: Path | None) -> None:
    """Try one mutant in this process."""
    from tests.fuzzing.worker import attempt, mutant

    content = mutant(name, number, seed)
    if target is not None:
        target.write_bytes(content)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"mutant{TARGETS[name].suffix}"
        path.write_bytes(content)
        print(f"{name} {number}: {len(content):,} bytes")
        print(*attempt(name, path))
        path.write_bytes(content)
        TARGETS[name].attempt(path)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--total", type=int, help="mutants over all formats")
    parser.add_argument("--each", type=int, default=300, help="mutants of each format, without --total")
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="only this format; may be repeated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", type=int, metavar="NUMBER", help="try one mutant here, and show its error")
    parser.add_argument("--write", type=Path, metavar="FILE", help="with --show: keep the mutant")
    given = parser.parse_args()
    names = given.target or list(TARGETS)
    if given.show is not None:
        show(names[0], given.show, given.seed, given.write)
        return
    for name in [name for name in names if not TARGETS[name].available]:
        print(f"{name:18} left out: needs {', '.join(TARGETS[name].needs)}")
        names.remove(name)
    counts = shared_out(given.total, names) if given.total else dict.fromkeys(names, given.each)
    start = time.monotonic()
    print(HEAD, flush=True)
    results = fuzz(counts, given.seed, given.jobs, lambda result: print(line(result), flush=True))
    whole = Result("all")
    for result in results:
        whole.add(result)
    print(line(whole))
    print(f"{time.monotonic() - start:,.0f} s; limits for a mutant: {MOST_SECONDS:g} s, {MOST_MEGABYTES:,} MB")
    for result in results:
        for number, problem in sorted(result.failures.items()):
            print(f"\n{result.name} {number}: {problem}")
            print(f"  python -m tests.fuzzing --target '{result.name}' --seed {given.seed} --show {number}")
    sys.exit(any(result.failures for result in results))


if __name__ == "__main__":
    main()
