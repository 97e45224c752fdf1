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
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.bare import BareNetwork
from benchmarks.baselines.process import BARE_START, fairchain_command, peak_memory, seconds_of
from benchmarks.baselines.verifair import verifair
from benchmarks.paper_models import KNOWN_GAPS, KNOWN_WITHIN, PROTOTYPE_EVALUATIONS, paper_specs
from fairchain import OnnxModel, Spec, Verdict, example, load_spec, verify
from fairchain.population import UniformPopulation
from fairchain.spec import comparison_of, revise

DELTA, THRESHOLD = 1e-6, 0.1
TIME_LIMITS = {"sex": 1.5, "race": 1.3, "age": 1.3}
# The time limits are a promise about long runs: in shorter ones the looks at the counts weigh more.
LONG = 10_000_000
START_LIMIT, FEWER_LIMIT, MEMORY_LIMIT = 2.5, 10.0, 1.1
# Inputs that the bare network is shown in turn: a multiple of every batch size.
RESIDENT = 2**18


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    evaluations: int = LONG
    repetitions: int = 7
    starts: int = 15
    seeds: int = 5
    verdicts: int = 15
    memory: tuple[int, int] = (1_000_000, 100_000_000)


QUICK = Sizes(evaluations=1_000_000, repetitions=3, starts=5, verdicts=5, memory=(1_000_000, 10_000_000))


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
class Case:
    """A network and a protected feature; what is known about them, where something is."""

    name: str
    spec: Spec
    known_gap: float | None = None
    prototype: int | None = None


@dataclass(frozen=True)
class Spent:
    """Wall and processor seconds of one call."""

    wall: float
    processor: float


def embedded_cases() -> list[Case]:
    """The six cases of the paper's tables on the networks that come with fairchain."""
    return [Case(f"{name} {protected}", embedded(name, protected)) for name, protected in KNOWN_GAPS]


def embedded(name: str, protected: str) -> Spec:
    spec = load_spec(example(name))
    return revise(spec, property__protected=[protected], property__threshold=THRESHOLD, guarantee__delta=DELTA)


def paper_cases(folder: Path, out: Path) -> list[Case]:
    """The same six on the paper's own networks."""
    specs = paper_specs(folder, out, THRESHOLD, DELTA)
    return [
        Case(f"paper's {' '.join(key)}", spec, KNOWN_GAPS[key], PROTOTYPE_EVALUATIONS[key])
        for key, spec in specs.items()
    ]


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


# A run of exactly so many evaluations: an estimate that cannot be reached shows every group to the network in every
# round until the budget ends, whereas a verdict would leave out groups that no longer matter.


def long_question(protected: str, evaluations: int) -> Spec:
    spec = embedded("census", protected)
    groups = len(UniformPopulation(spec).groups)
    budget = {"rounds": float(evaluations // groups), "seconds": 3600.0}
    return revise(spec, guarantee__epsilon=1e-6, guarantee__budget=budget)


def against_bare_network(sizes: Sizes) -> Iterator[Line]:
    """A long verify against the bare network on as many inputs, with as many threads."""
    workers = [1] if (os.cpu_count() or 1) < 2 else [1, 2]
    rates: dict[str, dict[int, float]] = {}
    for protected, promised in TIME_LIMITS.items():
        for count in workers:
            # The promise is about one thread on each side; how well two share a machine is its own affair, and told.
            limit = promised if sizes.evaluations >= LONG and count == 1 else None
            line, rate = _against_bare(protected, count, limit, sizes)
            rates.setdefault(protected, {})[count] = rate
            yield line
    for protected, each in rates.items():
        if len(each) > 1:
            name = f"census {protected}, 2 workers for 1"
            ours, other = (f"{each[count] / 1e6:.2f} M/s" for count in (2, 1))
            yield Line("workers", name, ours, other, each[2] / each[1], note="throughput, just reported")


def _against_bare(protected: str, workers: int, limit: float | None, sizes: Sizes) -> tuple[Line, float]:
    spec = long_question(protected, sizes.evaluations)
    model = OnnxModel(_network(spec), spec)
    verdict = verify(model, spec, workers=workers)
    evaluations = verdict.evaluations
    bare = BareNetwork(_network(spec), _resident_inputs(spec))
    batch = bare.best_batch(max(evaluations // 10, RESIDENT), workers)
    ours, other = in_turns(
        lambda: verify(model, spec, workers=workers),
        lambda: bare.run(evaluations, batch, workers),
        sizes.repetitions,
    )
    wall, processor = (
        median_ratio([getattr(s, kind) for s in ours], [getattr(s, kind) for s in other])
        for kind in ("wall", "processor")
    )
    mine, theirs = median(s.wall for s in ours), median(s.wall for s in other)
    best = min(s.wall for s in ours) / min(s.wall for s in other)
    groups = len(UniformPopulation(spec).groups)
    name = f"census {protected}, {groups} groups, {workers} worker{'s' * (workers > 1)}"
    note = f"{evaluations:,} evaluations, bare batch {batch}; best of each {best:.2f}, processor time {processor:.2f}"
    return Line("network", name, f"{mine:.3f} s", f"{theirs:.3f} s", wall, limit, note=note), evaluations / mine


def _network(spec: Spec) -> str:
    assert spec.model.path is not None
    return spec.model.path


def _resident_inputs(spec: Spec) -> NDArray[np.floating]:
    return UniformPopulation(spec).rounds(1, 0, RESIDENT).inputs((0,))


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
    model = OnnxModel(_network(case.spec), case.spec)
    verdicts = [verify(model, case.spec, seed=seed) for seed in range(seeds)]
    rivals = [verifair(_draw(model, case.spec, seed), *_asked(case.spec)) for seed in range(seeds)]
    mean = fmean(verdict.evaluations for verdict in verdicts)
    theirs = fmean(rival.evaluations for rival in rivals)
    said = "/".join(sorted({verdict.decision.name for verdict in verdicts}))
    rival_said = "/".join(sorted({rival.decision for rival in rivals}))
    gap = median(verdict.gap.estimate for verdict in verdicts)
    yield Line(
        "evaluations",
        case.name,
        f"{mean:,.0f}",
        f"{theirs:,.0f}",
        theirs / mean,
        FEWER_LIMIT,
        at_least=True,
        note=f"{said}, VeriFair {rival_said}; gap about {gap:.3f}",
    )
    yield from _against_knowledge(case, verdicts, mean)


def _against_knowledge(case: Case, verdicts: list[Verdict], mean: float) -> Iterator[Line]:
    if case.prototype is not None:
        ratio = mean / case.prototype
        yield Line("prototype", case.name, f"{mean:,.0f}", f"{case.prototype:,}", ratio, 1.0)
    if case.known_gap is not None:
        right = "UNFAIR" if case.known_gap > THRESHOLD else "FAIR"
        hits = sum(contains(verdict, case.known_gap) and verdict.decision.name == right for verdict in verdicts)
        known = f"{case.known_gap:.3f} +-{KNOWN_WITHIN:g}"
        yield Line(
            "known gap", case.name, f"{hits} of {len(verdicts)}", known, hits / len(verdicts), 1.0, at_least=True
        )


def contains(verdict: Verdict, known: float) -> bool:
    """Whether the verdict's interval agrees with a gap that is itself known only so well."""
    return verdict.gap.low - KNOWN_WITHIN <= known <= verdict.gap.high + KNOWN_WITHIN


def _asked(spec: Spec) -> tuple[int, float, float]:
    return len(UniformPopulation(spec).groups), spec.property.threshold, spec.guarantee.delta


def _draw(model: OnnxModel, spec: Spec, seed: int) -> Callable[[int, int], NDArray[np.bool_]]:
    """Samples of the same network and population, each group's drawn by themselves."""
    population, outcome = UniformPopulation(spec, dtype=model.dtype), comparison_of(spec).outcomes[0]

    def draw(first: int, count: int) -> NDArray[np.bool_]:
        rows = [
            model.predict(population.rounds(seed, first // count, count, copy=1 + group).inputs((group,)))
            for group in range(len(population.groups))
        ]
        got: NDArray[np.bool_] = np.stack(rows) == outcome
        return got

    return draw


def flat_memory(sizes: Sizes) -> Iterator[Line]:
    """Peak memory of a long run against a short one."""
    few, many = (peak_memory(example("census"), "race", size // 5, 2) for size in sizes.memory)
    name = f"{many[0]:,} evaluations for {few[0]:,}"
    yield Line("memory", name, f"{many[1]:.1f} MB", f"{few[1]:.1f} MB", many[1] / few[1], MEMORY_LIMIT)


def warm_verdict(case: Case, repetitions: int) -> Line:
    """Milliseconds until a verdict once the network is loaded."""
    model = OnnxModel(_network(case.spec), case.spec)
    verify(model, case.spec)
    seconds = [spent(partial(verify, model, case.spec, seed=seed)).wall for seed in range(repetitions)]
    return Line("verdict", case.name, f"{median(seconds) * 1e3:.1f} ms", "", median(seconds) * 1e3)


def measure(sizes: Sizes, models: Path | None) -> Iterator[Line]:
    """Everything, in the order of the table."""
    yield from against_bare_network(sizes)
    yield from against_bare_start(sizes)
    with tempfile.TemporaryDirectory() as folder:
        cases = embedded_cases() + (paper_cases(models, Path(folder)) if models else [])
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
