"""Speed as ratios: both sides of each are measured in the same run, in turns, because machines differ."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from compileall import compile_dir
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

import fairchain
from benchmarks.baselines.bare import BareNetwork, fairchain_command, run_command
from benchmarks.cases import Case, embedded, feed_forward, missing_text, text_cases
from benchmarks.measuring import Spent, in_turns, median_ratio
from benchmarks.probe import Measured, measured
from benchmarks.results import Cell, Check, Column, PartResult, Ratio, Table, ratio_checks, ratio_tables
from benchmarks.sizes import Sizes
from fairchain import OnnxModel, Spec, example, verify
from fairchain.spec import revise

TIME_LIMITS = {"sex": 1.5, "race": 1.3, "age": 1.3}
# The limits of time are for long runs: in shorter ones looking at the counts weighs more.
LONG = 10_000_000
START_LIMIT, MEMORY_LIMIT = 2.0, 1.1
# Processor milliseconds of a warm verdict beyond evaluating the network.
WARM_LIMIT = 5.0
# Inputs that the bare network evaluates again and again: a multiple of every batch size.
RESIDENT = 2**18
BARE_START = (sys.executable, "-c", "import numpy, onnxruntime")
TEXT = """This section compares the time and memory of fairchain with those of onnxruntime alone (the *bare* network).

**Time of a long run.** A long `verify` is compared with the bare network on the same number of inputs, which are
already in memory. The two programs run alternately. A check limits the *ratio*, which is the median of the ratios of
all turns. The ratio is not the ratio of the two medians of seconds. If the machine is slow for a moment, one turn is
affected, but not the median. *Best of each* is the ratio of the two shortest runs, which may be from different turns.
`verify` also evaluates the network, so a ratio below 1.0 can only be noise of the measurement. The checks are about one
thread on each side. Runs with two threads are only reported.

**Start.** A check limits the time of a first verdict from the shell, divided by the time to start Python and to import
numpy and onnxruntime. An installer compiles modules, so this part compiles fairchain's modules before the measurement.

**Memory.** A check limits the peak memory of a long run, divided by the peak memory of a short run. Each run has its
own process.

**Warm verdict.** The process has already loaded the network and read the comments. The processor time of one call is
compared with the time in which this call evaluates the network. Bounds and witnesses are computed when they are read,
so their time is not included. All cases are measured one after another, and this series is repeated several times. For
each case, the table shows the measurement with the smallest median time beyond the network, because other programs can
only make a time longer."""
TITLES = {
    "workers": ("Throughput of two workers against one", "two", "one"),
    "start": ("Start of the command against importing numpy and onnxruntime", "fairchain", "imports"),
    "memory": ("Peak memory of a long run against a short one", "long", "short"),
}


@dataclass(frozen=True)
class Timed:
    """A long verify and the bare network on as many inputs, measured in turns."""

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
        """The run in a table."""
        return f"census {self.protected}, {self.groups} groups, {self.workers} worker{'s' * (self.workers > 1)}"

    def ratio(self, clock: Literal["wall", "processor"] = "wall") -> float:
        """Return the median of the turns' ratios."""
        ours, other = ([getattr(each, clock) for each in side] for side in (self.ours, self.other))
        return median_ratio(ours, other)

    @property
    def seconds(self) -> tuple[float, float]:
        """Wall seconds of both sides, each side's median."""
        return median(each.wall for each in self.ours), median(each.wall for each in self.other)

    @property
    def best(self) -> float:
        """The ratio of the two shortest runs."""
        return min(each.wall for each in self.ours) / min(each.wall for each in self.other)

    @property
    def rate(self) -> float:
        """Evaluations of verify in a second."""
        return self.evaluations / self.seconds[0]


def run(sizes: Sizes, models: Path | None) -> PartResult:
    """Measure everything."""
    timed = list(against_bare_network(sizes))
    ratios = [*_workers(timed), _start(sizes), _memory(sizes)]
    with feed_forward(models) as cases:
        texts = text_cases() if sizes.text_seeds else []
        warm = _warm_verdicts([*cases, *texts], sizes)
    checks = [*time_checks(timed, enforced=sizes.paper), *ratio_checks(ratios, enforced=sizes.paper)]
    return PartResult(
        text=TEXT + missing_text(list(warm), sizes),
        tables=[time_table(timed), *ratio_tables(ratios, TITLES), warm_table(warm)],
        checks=[*checks, warm_check(warm, enforced=sizes.paper)],
        settings={
            "evaluations of a long run": sizes.bare,
            "turns of one worker and of warm verdicts": sizes.turns,
            "turns of two workers": sizes.few_turns,
            "starts": sizes.starts,
            "seeds of warm verdicts": "0, 1, ...",
            "measurements of each warm verdict": sizes.few_turns,
            "seed of all other runs": 0,
        },
    )


# A run of exactly so many evaluations: an estimate that cannot be reached evaluates every group in every round until
# the budget ends, whereas a verdict would leave out groups that no longer matter.


def long_spec(protected: str, evaluations: int) -> Spec:
    """Return the spec of a long run on the census network."""
    case = census(protected)
    budget = {"rounds": float(evaluations // case.groups), "seconds": 3600.0}
    return revise(case.spec, guarantee__epsilon=1e-6, guarantee__budget=budget)


def census(protected: str) -> Case:
    """Return the case of the embedded census network with this protected feature."""
    return next(case for case in embedded() if (case.network, case.protected) == ("census", protected))


def against_bare_network(sizes: Sizes) -> Iterator[Timed]:
    """Measure a long verify against the bare network on as many inputs, with as many threads."""
    for protected, limit in TIME_LIMITS.items():
        for workers in [1] if (os.cpu_count() or 1) < 2 else [1, 2]:
            judged = sizes.bare >= LONG and workers == 1
            yield _timed(protected, workers, limit if judged else None, sizes)


def _timed(protected: str, workers: int, limit: float | None, sizes: Sizes) -> Timed:
    case, spec = census(protected), long_spec(protected, sizes.bare)
    assert spec.model.path is not None
    model = OnnxModel(spec.model.path, spec)
    evaluations = verify(model, spec, seed=0, workers=workers).evaluations
    inputs: NDArray[np.floating] = case.population.rounds(1, 0, RESIDENT).inputs((0,))
    bare = BareNetwork(spec.model.path, inputs)
    batch = bare.best_batch(max(evaluations // 10, RESIDENT), workers)
    ours, other = in_turns(
        lambda: verify(model, spec, seed=0, workers=workers),
        lambda: bare.run(evaluations, batch, workers),
        sizes.turns if workers == 1 else sizes.few_turns,
    )
    return Timed(protected, case.groups, workers, evaluations, batch, tuple(ours), tuple(other), limit)


def time_table(timed: list[Timed]) -> Table:
    """Return the times against the bare network."""
    columns = [Column("case"), Column("verify, median s", ".3f"), Column("bare onnxruntime, median s", ".3f")]
    columns += [Column("ratio, median of turns", ".2f"), Column("ratio, best of each", ".2f")]
    columns += [Column("ratio of processor time", ".2f"), Column("turns", "d"), Column("evaluations", ",d")]
    columns += [Column("batch of the bare network", ",d")]
    rows: list[list[Cell]] = [
        [each.name, *each.seconds, each.ratio(), each.best, each.ratio("processor"), len(each.ours), each.evaluations,
         each.batch]
        for each in timed
    ]  # fmt: skip
    return Table("Time of a long verify against bare onnxruntime", columns, rows)


def time_checks(timed: list[Timed], *, enforced: bool) -> list[Check]:
    """Judge the median of the turns where there is a limit."""
    return [
        Check(
            f"time against the bare network, median of {len(each.ours)} turns, {each.name}",
            each.ratio() <= each.limit,
            f"{each.ratio():.2f} (best of each {each.best:.2f})",
            f"at most {each.limit:g}",
            enforced,
        )
        for each in timed
        if each.limit is not None
    ]


def _workers(timed: list[Timed]) -> Iterator[Ratio]:
    rates = {(each.protected, each.workers): each.rate for each in timed}
    for protected in TIME_LIMITS:
        if (protected, 2) in rates:
            two, one = rates[protected, 2], rates[protected, 1]
            yield Ratio("workers", f"census {protected}", f"{two / 1e6:.2f} M/s", f"{one / 1e6:.2f} M/s", two / one)


def _start(sizes: Sizes) -> Ratio:
    # As an installer does, and a checkout may not be allowed to do by itself.
    compile_dir(Path(fairchain.__file__).parent, quiet=2)
    command = (fairchain_command(), "verify", str(example("census")))
    sides = in_turns(lambda: run_command(command), lambda: run_command(BARE_START), sizes.starts)
    ours, other = ([each.wall for each in side] for side in sides)
    return Ratio(
        "start",
        "fairchain verify census.toml",
        f"{median(ours):.3f} s",
        f"{median(other):.3f} s",
        median_ratio(ours, other),
        START_LIMIT,
        note=f"wall time, median of {sizes.starts} each; best of each {min(ours) / min(other):.2f}",
    )


def _memory(sizes: Sizes) -> Ratio:
    few, many = (peak_memory("race", evaluations, 2) for evaluations in sizes.memory)
    name = f"{many.evaluations:,} evaluations against {few.evaluations:,}"
    return Ratio("memory", name, f"{many.peak:.1f} MiB", f"{few.peak:.1f} MiB", many.peak / few.peak, MEMORY_LIMIT)


def peak_memory(protected: str, evaluations: int, workers: int) -> Measured:
    """Measure a long run on the census network in a process of its own."""
    spec = msgspec.to_builtins(long_spec(protected, evaluations))
    return measured({"kind": "verify", "spec": spec, "workers": workers}, timeout=3600)


@dataclass(frozen=True)
class Warm:
    """Processor milliseconds of warm verdicts, and of the network in each; one of each seed."""

    whole: tuple[float, ...]
    network: tuple[float, ...]

    @property
    def beyond(self) -> float:
        """The median of what a verdict takes beyond the network."""
        return median(whole - network for whole, network in zip(self.whole, self.network, strict=True))


def _warm_verdicts(cases: list[Case], sizes: Sizes) -> dict[Case, Warm]:
    """Measure all cases several times, so that a slow moment of the machine is in few measurements of a case."""
    measured = [{case: _warm_verdict(case, sizes.turns) for case in cases} for _ in range(sizes.few_turns)]
    return {case: min((each[case] for each in measured), key=lambda warm: warm.beyond) for case in cases}


def _warm_verdict(case: Case, repetitions: int) -> Warm:
    """Measure verdicts once the network is loaded, and the calls of the network in them."""
    case.verdict(0)
    whole, network = [], []
    with evaluation_times(case.model) as calls:
        for seed in range(repetitions):
            calls.clear()
            start = time.process_time()
            verify(case.model, case.spec, seed=seed, workers=1)
            whole.append(1e3 * (time.process_time() - start))
            network.append(1e3 * sum(calls))
    return Warm(tuple(whole), tuple(network))


@contextmanager
def evaluation_times(model: Any) -> Iterator[list[float]]:
    """Yield a list that receives the processor seconds of each evaluation of a batch by a model."""
    seconds: list[float] = []
    predict = model.predict

    def timed(values: NDArray[Any]) -> NDArray[Any]:
        start = time.process_time()
        labels: NDArray[Any] = predict(values)
        seconds.append(time.process_time() - start)
        return labels

    model.predict = timed
    try:
        yield seconds
    finally:
        del model.predict


def warm_table(warm: dict[Case, Warm]) -> Table:
    """Return the times of warm verdicts."""
    columns = [Column("network"), Column("case"), Column("CPU ms, median", ".1f")]
    columns += [Column("in the network, ms", ".1f"), Column("beyond the network, ms", ".1f")]
    rows: list[list[Cell]] = [
        [case.owner, case.name, median(each.whole), median(each.network), each.beyond] for case, each in warm.items()
    ]
    return Table("Warm verdict at delta 1e-6", columns, rows)


def warm_check(warm: dict[Case, Warm], *, enforced: bool) -> Check:
    """Judge what every case takes beyond the network; all cases above the limit are named, or the slowest one."""
    above = [case for case, each in warm.items() if each.beyond > WARM_LIMIT]
    named = above or [max(warm, key=lambda case: warm[case].beyond)]
    found = ", ".join(f"{warm[case].beyond:.1f} ms ({case.title})" for case in named)
    return Check(
        "warm verdict: processor time beyond the network, in every case",
        not above,
        found if above else f"{found} at most",
        f"at most {WARM_LIMIT:g} ms",
        enforced,
    )
