"""Starts workers for targets, notices when one dies or hangs, and adds up what they report."""

from __future__ import annotations

import json
import math
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from fairchain.examples import example
from tests.fuzzing.model_targets import EXAMPLES, likely
from tests.fuzzing.targets import TARGETS
from tests.fuzzing.worker import mutant
from tests.questions import question

ROOT = Path(__file__).parent.parent.parent
# For one mutant. Reading takes milliseconds; the limits that readers set themselves are below this.
MOST_SECONDS = 30.0
# Resident memory of a worker: the packages that it imports, and what one file may ask for.
MOST_MEGABYTES = 1500
# Before the first mutant packages are imported and whole files are made.
MOST_START = 180.0
PROGRAM = "from fairchain.cli import main; main()"
# How a mutant ends: "cautious" is a refusal that no trial gives a reason for, "isolated" a crash in a child process.
ENDS = ("accepted", "refused", "cautious", "isolated", "failed")
# Mutants of one process.
PART = 500


@dataclass
class Result:
    """How the mutants of a target ended."""

    name: str
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ENDS, 0))
    failures: dict[int, str] = field(default_factory=dict)
    slowest: tuple[float, int] = (0.0, 0)
    megabytes: int = 0

    @property
    def mutants(self) -> int:
        """How many were tried."""
        return sum(self.counts.values())

    def add(self, other: Result) -> None:
        """Add the mutants of another part of the same target."""
        for key, count in other.counts.items():
            self.counts[key] += count
        self.failures |= other.failures
        self.slowest = max(self.slowest, other.slowest)
        self.megabytes = max(self.megabytes, other.megabytes)


def tried(name: str, first: int, last: int, seed: int = 0) -> Result:
    """Try some mutants of a target, in as many processes as die on the way."""
    result = Result(name)
    while first < last:
        found, reached, why = _worker(name, first, last, seed)
        result.add(found)
        if not why:
            break
        # The worker's counts died with it: what came before is tried again, without the one that ended it.
        if reached > first:
            result.add(tried(name, first, reached, seed))
        _judge(result, name, reached, seed, why)
        first = reached + 1
    if result.megabytes > MOST_MEGABYTES:
        result.failures[-1] = f"{result.megabytes:,} MB of memory are more than {MOST_MEGABYTES:,}"
    return result


def _judge(result: Result, name: str, number: int, seed: int, why: str) -> None:
    """A crash is a refusal where the product reads such files in a child process."""
    crashed = why.startswith("signal")
    if crashed and (TARGETS[name].isolated or _refused_by_isolation(name, number, seed)):
        result.counts["isolated"] += 1
        return
    result.counts["failed"] += 1
    result.failures[number] = why


def _refused_by_isolation(name: str, number: int, seed: int) -> bool:
    """Whether the command line answers a network that brings the runtime down with exit code 2 and one message."""
    if name != "onnx":
        return False

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        path.write_bytes(mutant(name, number, seed))
        place = likely(path.stat().st_size)
        spec = Path(folder) / "spec.json"
        if place < len(EXAMPLES):
            spec = example(EXAMPLES[place])
        else:
            spec.write_text(json.dumps(question(**({"decision": "logit"} if place == len(EXAMPLES) else {}))))
        command = [sys.executable, "-c", PROGRAM, "verify", str(spec), "--model", str(path), "--quiet"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return ended.returncode == 2 and ended.stderr.count("\n") == 1 and "Traceback" not in ended.stderr


def _worker(name: str, first: int, last: int, seed: int) -> tuple[Result, int, str]:
    """Return what a worker reports, the last mutant that it began, and why it did not come to its end, if so."""
    command = [sys.executable, "-m", "tests.fuzzing.worker", name, str(first), str(last), str(seed)]
    environment = {**os.environ, "KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    with tempfile.TemporaryFile() as errors:
        reached, report, late = first - 1, None, threading.Event()
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT, env=environment, text=True
        ) as process:
            for line in _lines(process, late):
                if line.startswith("{"):
                    report = json.loads(line)
                else:
                    reached = int(line)
        code = process.returncode
        if report is not None:
            counts = {**Result(name).counts, **report["counts"]}
            failures = {int(number): problem for number, problem in report["failures"].items()}
            return Result(name, counts, failures, tuple(report["slowest"]), report["megabytes"]), reached, ""
        if reached < first:
            errors.seek(0)
            raise RuntimeError(f"the worker of {name!r} does not start: {errors.read()[-2000:].decode()}")
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return Result(name), reached, f"takes more than {MOST_SECONDS:g} s" if late.is_set() else how


def _lines(process: subprocess.Popen[str], late: threading.Event) -> Iterator[str]:
    """Yield the lines of a process; one that is silent for too long is killed, and `late` is set."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    patience = MOST_START
    while True:
        try:
            line = lines.get(timeout=patience)
        except queue.Empty:
            late.set()
            process.kill()
            line = None
        if line is None:
            reader.join()
            return
        patience = MOST_SECONDS
        yield line


def fuzz(
    counts: dict[str, int], seed: int = 0, jobs: int = 2, done: Callable[[Result], None] = lambda _: None
) -> list[Result]:
    """Try so many mutants of each target, in several processes at once; `done` is called after each target."""
    results = {name: Result(name) for name in counts}
    left = {name: -(-count // PART) for name, count in counts.items()}
    parts = [
        (name, start, min(start + PART, count)) for name, count in counts.items() for start in range(0, count, PART)
    ]
    guard = threading.Lock()

    def work(part: tuple[str, int, int]) -> None:
        found = tried(*part, seed)
        with guard:
            results[part[0]].add(found)
            left[part[0]] -= 1
            if not left[part[0]]:
                done(results[part[0]])

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(work, parts))
    return list(results.values())


def shared_out(total: int, names: Sequence[str]) -> dict[str, int]:
    """Return how many mutants each target gets of so many in all, at least, by its share."""
    whole = sum(TARGETS[name].share for name in names)
    return {name: math.ceil(total * TARGETS[name].share / whole) for name in names}
