"""Speed of this tree's `verify` against that of another revision, as ratios measured in one run.

    python -m benchmarks.against REVISION [--repetitions N] [--calls N] [--limit RATIO]

Both revisions answer the embedded examples with the same seed, in turns: as whole commands (cold), and as repeated
calls of `fairchain.verify` in one process (warm; each call reads and checks the network again). Commands are run
plainly, where a revision may go on for narrower intervals, and to the verdict, where such a revision is told not to
(`--stop-at-verdict`). A ratio above one means that this tree is slower: medians and minima, of wall time and of
processor time, which other programs disturb less. Exit code 1 if a ratio of medians is above the limit: of wall time,
or of processor time with `--by processor`.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

EXAMPLES = ("census", "credit", "bank")
STOP = "--stop-at-verdict"
SEED = 1
LIMIT = 1.10
ROOT = Path(__file__).parents[1]
COMMAND = "import sys; from fairchain.cli import main; sys.exit(main())"
# One line with an example's name goes in, one with seconds, verdict and evaluations comes out.
SERVER = f"""
import json, sys, time
import fairchain
for line in sys.stdin:
    spec = fairchain.example(line.strip())
    start = time.perf_counter(), time.process_time()
    verdict = fairchain.verify(None, spec, seed={SEED})
    seconds = time.perf_counter() - start[0], time.process_time() - start[1]
    print(json.dumps([seconds, verdict.decision.name, verdict.evaluations]), flush=True)
"""


class Seconds(NamedTuple):
    """Wall time and processor time of one run."""

    wall: float
    processor: float


Timed = Callable[[], Seconds]
Clock = Literal["wall", "processor"]
CLOCKS: tuple[Clock, ...] = ("wall", "processor")


@dataclass(frozen=True)
class Comparison:
    """Times of one example in both revisions, measured in turns."""

    name: str
    ours: tuple[Seconds, ...]
    theirs: tuple[Seconds, ...]

    def ratio(self, clock: Clock = "wall") -> float:
        """Return our median time divided by theirs."""
        return self._ratio(median, CLOCKS.index(clock))

    def _ratio(self, of: Callable[[list[float]], float], clock: int) -> float:
        return of([run[clock] for run in self.ours]) / of([run[clock] for run in self.theirs])

    def __str__(self) -> str:
        ours, theirs = (median(run.wall for run in runs) * 1e3 for runs in (self.ours, self.theirs))
        ratios = (self.ratio(), self._ratio(min, 0), self._ratio(median, 1), self._ratio(min, 1))
        return f"{self.name:22}{ours:8.1f} ms {theirs:8.1f} ms" + "".join(f"{ratio:10.2f}" for ratio in ratios)


def unpack_sources(revision: str, folder: Path) -> Path:
    """Unpack the package of a revision of this repository into a folder; return what goes on `sys.path`."""
    command = ("git", "-C", str(ROOT), "archive", revision, "src")
    archive = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        members.extractall(folder, filter="data")
    return folder / "src"


def environment(sources: Path) -> dict[str, str]:
    """Return the environment in which Python imports fairchain from a folder, and keeps what it compiles."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": str(sources)}


def cold(sources: Path, example: str, *, stop: bool = False) -> Seconds:
    """Return the times of a whole `fairchain verify` on an embedded example, with `stop` to the verdict only."""
    spec = sources / "fairchain" / "examples" / f"{example}.toml"
    options = sources / "fairchain" / "cli" / "verify.py"
    known = stop and options.exists() and STOP in options.read_text()
    before, start = _processor_time_of_children(), time.perf_counter()
    done = subprocess.run(
        (sys.executable, "-c", COMMAND, "verify", str(spec), "--seed", str(SEED), *([STOP] if known else [])),
        env=environment(sources),
        stdout=subprocess.PIPE,
        check=False,
    )
    seconds = Seconds(time.perf_counter() - start, _processor_time_of_children() - before)
    # A command that fails ends with 1 as well, but writes a traceback or nothing instead of a verdict.
    if done.returncode not in (0, 1) or b"FAIR" not in done.stdout:
        raise RuntimeError(f"verify of {example} in {sources} ended with exit code {done.returncode}")
    return seconds


def _processor_time_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def server(sources: Path) -> Iterator[Callable[[str], tuple[Seconds, str, int]]]:
    """Start a process that answers examples with the package of a folder; yield the call."""
    process = subprocess.Popen(
        (sys.executable, "-c", SERVER),
        env=environment(sources),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stdout
    requests, answers = process.stdin, process.stdout

    def answer(example: str) -> tuple[Seconds, str, int]:
        requests.write(f"{example}\n")
        requests.flush()
        seconds, decision, evaluations = json.loads(answers.readline())
        return Seconds(*seconds), decision, evaluations

    try:
        yield answer
    finally:
        requests.close()
        process.wait()
        answers.close()


def in_turns(name: str, ours: Timed, theirs: Timed, repetitions: int) -> Comparison:
    """Measure both sides alternately, after one run of each that is not counted; each goes first every other time."""
    ours(), theirs()
    pairs = [(ours(), theirs()) if turn % 2 else (theirs(), ours())[::-1] for turn in range(repetitions)]
    return Comparison(name, tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs))


def compare(theirs: Path, repetitions: int, calls: int) -> Iterator[Comparison]:
    """Compare the package of this tree with that of another folder, example by example."""
    ours = ROOT / "src"
    for name, stop in (("plain", False), ("to the verdict", True)):
        for example in EXAMPLES:
            here, there = (partial(cold, sources, example, stop=stop) for sources in (ours, theirs))
            yield in_turns(f"{example} {name}", here, there, repetitions)
    with server(ours) as ask, server(theirs) as ask_other:
        for example in EXAMPLES:
            if ask(example)[1:] != ask_other(example)[1:]:
                print(f"{example}: the revisions differ in verdict or evaluations")
            yield in_turns(f"{example} warm", partial(_warm, ask, example), partial(_warm, ask_other, example), calls)


def _warm(answer: Callable[[str], tuple[Seconds, str, int]], example: str) -> Seconds:
    return answer(example)[0]


def main() -> None:
    """Print the ratios; exit with 1 if one is above the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="a commit, tag or branch of this repository")
    parser.add_argument("--repetitions", type=int, default=15, help="whole commands of each side (default: 15)")
    parser.add_argument("--calls", type=int, default=60, help="warm calls of each side (default: 60)")
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"largest ratio of medians (default: {LIMIT})")
    parser.add_argument("--by", choices=CLOCKS, default="wall", help="the clock that is judged (default: wall)")
    given = parser.parse_args()
    above = False
    with tempfile.TemporaryDirectory() as folder:
        theirs = unpack_sources(given.revision, Path(folder))
        print(f"{'':22}{'this tree':>11} {given.revision[:10]:>11}{'wall':>10}{'min':>10}{'CPU':>10}{'min':>10}")
        for comparison in compare(theirs, given.repetitions, given.calls):
            print(comparison, flush=True)
            above |= comparison.ratio(given.by) > given.limit
    sys.exit(above)


if __name__ == "__main__":
    main()
