"""What fairchain promises about speed and effort, measured in one run as ratios, each beside its limit.

    python -m benchmarks.bench [--quick] [--models FOLDER] [--json]

Ratios, because machines differ: both sides of each are measured here and now, in turns. `--models` adds the networks
of the paper's tables from a folder that you have (see `paper_models.py`). Exit code 1 if a limit does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.bare import BareNetwork
from benchmarks.baselines.process import BARE_START, fairchain_command, seconds_of
from benchmarks.baselines.verifair import verifair
from benchmarks.paper_models import KNOWN_GAPS, KNOWN_WITHIN, PROTOTYPE_EVALUATIONS
from benchmarks.suite.cases import DELTA, PAPERS, Case, embedded, feed_forward
from benchmarks.suite.paper import THRESHOLD
from benchmarks.suite.probe import Measured, measured
from fairchain import OnnxModel, Spec, Verdict, example, verify
from fairchain.spec import revise

TIME_LIMITS = {"sex": 1.5, "race": 1.3, "age": 1.3}
# The time limits are a promise about long runs: in shorter ones the looks at the counts weigh more.
LONG = 10_000_000
START_LIMIT, FEWER_LIMIT, MEMORY_LIMIT = 2.5, 10.0, 1.1
# Inputs that the bare network is shown in turn: a multiple of every batch size.
RESIDENT = 2**18


@dataclass(frozen=True)
class Sizes:
    """How much to measure: `repetitions` of what a limit judges, `told` of what is just reported."""

    evaluations: int = LONG
    repetitions: int = 15
    told: int = 5
    starts: int = 15
    seeds: int = 5
    verdicts: int = 15
    memory: tuple[int, int] = (1_000_000, 100_000_000)


QUICK = Sizes(evaluations=1_000_000, repetitions=3, told=2, starts=5, verdicts=5, memory=(1_000_000, 10_000_000))


@dataclass(frozen=True)
class Line:
    """One measurement: two sides, what they make together, and the limit it must keep, if it has one."""

    section: str
    name: str
    ours: str
    other: str
    value: float
    limit: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the limit is kept; always, where there is none."""
        if self.limit is None:
            return True
        return self.value >= self.limit if self.at_least else self.value <= self.limit


@dataclass(frozen=True)
class Spent:
    """Wall and processor seconds of one call."""

    wall: float
    processor: float


def spent(call: Callable[[], object]) -> Spent:
    wall, processor = time.perf_counter(), time.process_time()
    call()
    return Spent(time.perf_counter() - wall, time.process_time() - processor)


def in_turns(
    ours: Callable[[], object], other: Callable[[], object], repetitions: int
) -> tuple[list[Spent], list[Spent]]:
    """Measure both sides alternately, so that whatever else the machine does meets both alike."""
    pairs = [(spent(ours), spent(other)) for _ in range(repetitions)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def median_ratio(ours: Sequence[float], other: Sequence[float]) -> float:
    """Of neighbours in time: a slow minute of the machine spoils a pair, not the comparison."""
    return median(a / b for a, b in zip(ours, other, strict=True))


@dataclass(frozen=True)
class Timed:
    """A long verify and the bare network on as many inputs, measured in turns; judged if it has a limit."""

    protected: str
    groups: int
    workers: int
    evaluations: int
    batch: int
    ours: tuple[Spent, ...]
    other: tuple[Spent, ...]
    limit: float | None = None

    @property
    def name(self) -> str:
        """As it stands in tables."""
        return f"census {self.protected}, {self.groups} groups, {self.workers} worker{'s' * (self.workers > 1)}"

    def ratio(self, clock: Literal["wall", "processor"] = "wall") -> float:
        """The median of the turns' ratios."""
        ours, other = ([getattr(each, clock) for each in side] for side in (self.ours, self.other))
        return median_ratio(ours, other)

    @property
    def seconds(self) -> tuple[float, float]:
        """Wall seconds of both sides, each side's median; their ratio is not the median of the ratios."""
        return median(each.wall for each in self.ours), median(each.wall for each in self.other)

    @property
    def best(self) -> float:
        """The ratio of the two shortest runs, which need not be of the same turn."""
        return min(each.wall for each in self.ours) / min(each.wall for each in self.other)

    @property
    def rate(self) -> float:
        """Evaluations of verify in a second."""
        return self.evaluations / self.seconds[0]

    @property
    def holds(self) -> bool:
        """Whether the median of the turns keeps the limit; always, where there is none."""
        return self.limit is None or self.ratio() <= self.limit

    @property
    def line(self) -> Line:
        """For the terminal."""
        ours, other = (f"{seconds:.3f} s" for seconds in self.seconds)
        note = (
            f"{self.evaluations:,} evaluations, bare batch {self.batch}, {len(self.ours)} turns; best of each "
            f"{self.best:.2f}, processor time {self.ratio('processor'):.2f}"
        )
        return Line("network", self.name, ours, other, self.ratio(), self.limit, note=note)


# A run of exactly so many evaluations: an estimate that cannot be reached shows every group to the network in every
# round until the budget ends, whereas a verdict would leave out groups that no longer matter.


def long_question(protected: str, evaluations: int) -> Spec:
    """Of the census network."""
    case = census(protected)
    budget = {"rounds": float(evaluations // case.groups), "seconds": 3600.0}
    return revise(case.spec, guarantee__epsilon=1e-6, guarantee__budget=budget)


def census(protected: str) -> Case:
    """The case of the embedded census network with this protected feature."""
    return next(case for case in embedded() if (case.network, case.protected) == ("census", protected))


def timed(sizes: Sizes) -> Iterator[Timed]:
    """A long verify against the bare network on as many inputs, with as many threads."""
    for protected, promised in TIME_LIMITS.items():
        for workers in [1] if (os.cpu_count() or 1) < 2 else [1, 2]:
            # The promise is about one thread on each side; how well two share a machine is its own affair, and told.
            limit = promised if sizes.evaluations >= LONG and workers == 1 else None
            yield _timed(protected, workers, limit, sizes)


def _timed(protected: str, workers: int, limit: float | None, sizes: Sizes) -> Timed:
    case, spec = census(protected), long_question(protected, sizes.evaluations)
    model = OnnxModel(_network(spec), spec)
    evaluations = verify(model, spec, seed=0, workers=workers).evaluations
    bare = BareNetwork(_network(spec), _resident_inputs(case))
    batch = bare.best_batch(max(evaluations // 10, RESIDENT), workers)
    ours, other = in_turns(
        lambda: verify(model, spec, seed=0, workers=workers),
        lambda: bare.run(evaluations, batch, workers),
        sizes.repetitions if workers == 1 else sizes.told,
    )
    return Timed(protected, case.groups, workers, evaluations, batch, tuple(ours), tuple(other), limit)


def against_bare_network(sizes: Sizes) -> Iterator[Line]:
    """The times, and what a second worker brings."""
    found: dict[tuple[str, int], Timed] = {}
    for each in timed(sizes):
        found[each.protected, each.workers] = each
        yield each.line
    for protected in TIME_LIMITS:
        if (protected, 2) in found:
            two, one = (found[protected, workers].rate for workers in (2, 1))
            name, ours, other = f"census {protected}, 2 workers for 1", f"{two / 1e6:.2f} M/s", f"{one / 1e6:.2f} M/s"
            yield Line("workers", name, ours, other, two / one, note="throughput, just reported")


def _network(spec: Spec) -> str:
    assert spec.model.path is not None
    return spec.model.path


def _resident_inputs(case: Case) -> NDArray[np.floating]:
    inputs: NDArray[np.floating] = case.population.rounds(1, 0, RESIDENT).inputs((0,))
    return inputs


def against_bare_start(sizes: Sizes) -> Iterator[Line]:
    """A first verdict from the shell against starting Python with the two packages that nobody can do without."""
    command = (fairchain_command(), "verify", str(example("census")))
    ours, other = in_turns(lambda: seconds_of(command), lambda: seconds_of(BARE_START), sizes.starts)
    mine, theirs = [s.wall for s in ours], [s.wall for s in other]
    best = min(mine) / min(theirs)
    yield Line(
        "start",
        "fairchain verify census.toml",
        f"{median(mine):.3f} s",
        f"{median(theirs):.3f} s",
        median_ratio(mine, theirs),
        START_LIMIT,
        note=f"wall time, median of {sizes.starts} each; best of each {best:.2f}",
    )


def against_verifair(case: Case, seeds: int) -> Iterator[Line]:
    """Evaluations until the verdict, ours and VeriFair's; and what else is known about the case."""
    verdicts = [case.asked(seed) for seed in range(seeds)]
    rivals = [verifair(_apart(case, seed), case.groups, THRESHOLD, DELTA) for seed in range(seeds)]
    mean = fmean(verdict.evaluations for verdict in verdicts)
    theirs = fmean(rival.evaluations for rival in rivals)
    said = "/".join(sorted({verdict.decision.name for verdict in verdicts}))
    rival_said = "/".join(sorted({rival.decision for rival in rivals}))
    gap = median(verdict.gap.estimate for verdict in verdicts)
    yield Line(
        "evaluations",
        title(case),
        f"{mean:,.0f}",
        f"{theirs:,.0f}",
        theirs / mean,
        FEWER_LIMIT,
        at_least=True,
        note=f"{said}, VeriFair {rival_said}; gap about {gap:.3f}",
    )
    if case.whose == PAPERS:
        yield from _against_knowledge(case, verdicts, mean)


def title(case: Case) -> str:
    """With whose network it is, if not ours."""
    return f"paper's {case.name}" if case.whose == PAPERS else case.name


def _against_knowledge(case: Case, verdicts: list[Verdict], mean: float) -> Iterator[Line]:
    """What other programs found on the same network: a prototype's evaluations, and the gap from a large sample."""
    key = case.network, case.protected
    prototype, known = PROTOTYPE_EVALUATIONS[key], KNOWN_GAPS[key]
    yield Line("prototype", title(case), f"{mean:,.0f}", f"{prototype:,}", mean / prototype, 1.0)
    right = "UNFAIR" if known > THRESHOLD else "FAIR"
    hits = sum(contains(verdict, known) and verdict.decision.name == right for verdict in verdicts)
    ours, other = f"{hits} of {len(verdicts)}", f"{known:.3f} +-{KNOWN_WITHIN:g}"
    yield Line("known gap", title(case), ours, other, hits / len(verdicts), 1.0, at_least=True)


def contains(verdict: Verdict, known: float) -> bool:
    """Whether the verdict's interval agrees with a gap that is itself known only so well."""
    return verdict.gap.low - KNOWN_WITHIN <= known <= verdict.gap.high + KNOWN_WITHIN


def _apart(case: Case, seed: int) -> Callable[[int, int], NDArray[np.bool_]]:
    """Samples of the same network and population, each group's drawn by themselves."""
    return lambda first, count: case.draw(seed, first // count, count)


def flat_memory(sizes: Sizes) -> Iterator[Line]:
    """Peak memory of a long run against a short one."""
    few, many = (peak_memory("race", evaluations, 2) for evaluations in sizes.memory)
    name = f"{many.evaluations:,} evaluations for {few.evaluations:,}"
    yield Line("memory", name, f"{many.peak:.1f} MiB", f"{few.peak:.1f} MiB", many.peak / few.peak, MEMORY_LIMIT)


def peak_memory(protected: str, evaluations: int, workers: int) -> Measured:
    """A long run on the census network in a process of its own."""
    spec = msgspec.to_builtins(long_question(protected, evaluations))
    return measured({"kind": "verify", "spec": spec, "workers": workers}, timeout=3600)


def warm_verdict(case: Case, repetitions: int) -> Line:
    """Milliseconds until a verdict once the network is loaded."""
    case.asked(0)
    seconds = [spent(partial(case.asked, seed)).wall for seed in range(repetitions)]
    return Line("verdict", title(case), f"{median(seconds) * 1e3:.1f} ms", "", median(seconds) * 1e3)


def measure(sizes: Sizes, models: Path | None) -> Iterator[Line]:
    """Everything, in the order of the table."""
    yield from against_bare_network(sizes)
    yield from against_bare_start(sizes)
    with feed_forward(models) as cases:
        found = [line for case in cases for line in against_verifair(case, sizes.seeds)]
        yield from sorted(found, key=lambda line: ("evaluations", "prototype", "known gap").index(line.section))
        yield from (warm_verdict(case, sizes.verdicts) for case in cases)
    yield from flat_memory(sizes)


TITLES = {
    "network": ("Time of a warm verify against bare onnxruntime on as many inputs", "verify", "bare"),
    "workers": ("Two workers against one", "two", "one"),
    "start": ("Cold start against importing numpy and onnxruntime", "fairchain", "imports"),
    "evaluations": ("Evaluations until the verdict, VeriFair's against ours", "ours", "VeriFair"),
    "prototype": ("Evaluations against a plain prototype of the same rule", "ours", "prototype"),
    "known gap": ("Right verdicts whose interval contains the known gap", "verdicts", "known"),
    "verdict": ("Warm verdict, milliseconds", "", ""),
    "memory": ("Peak memory of a long run against a short one", "long", "short"),
}


def show(lines: Iterator[Line]) -> list[Line]:
    """Print each line as it comes, under the title of its section."""
    shown: list[Line] = []
    for line in lines:
        if not shown or shown[-1].section != line.section:
            title, ours, other = TITLES[line.section]
            print(f"\n{title}\n  {'':36}{ours:>12}{other:>15}{'ratio':>8}{'limit':>9}")
        print(render(line), flush=True)
        shown.append(line)
    return shown


def render(line: Line) -> str:
    value = "" if line.section == "verdict" else f"{line.value:.2f}"
    limit = "" if line.limit is None else f"{'>=' if line.at_least else '<='} {line.limit:g}"
    mark = "" if line.limit is None else "holds" if line.holds else "FAILS"
    return f"  {line.name:36}{line.ours:>12}{line.other:>15}{value:>8}{limit:>9}  {mark:6} {line.note}".rstrip()


def to_json(lines: Sequence[Line]) -> str:
    return json.dumps([asdict(line) | {"holds": line.holds} for line in lines], indent=1)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run, and about how fast")
    parser.add_argument("--models", type=Path, default=None, help="folder with the paper's networks")
    parser.add_argument("--json", action="store_true", help="print one JSON list and nothing else")
    options = parser.parse_args(arguments)
    lines = measure(QUICK if options.quick else Sizes(), options.models)
    if options.json:
        found = list(lines)
        print(to_json(found))
    else:
        found = show(lines)
        failing = [f"{line.section}: {line.name}" for line in found if not line.holds]
        print(f"\n{'every limit holds' if not failing else 'does not hold: ' + '; '.join(failing)}")
    return 0 if all(line.holds for line in found) else 1


if __name__ == "__main__":
    sys.exit(main())
