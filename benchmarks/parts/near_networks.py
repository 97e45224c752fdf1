"""Wrong verdicts on real networks: each is verified with a threshold just below its own gap, and one just above."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from benchmarks import paper
from benchmarks.baselines.counts import Runs
from benchmarks.cases import TRUTH_SEED, Case, Truth, truth_of
from benchmarks.measuring import blocks, on_all_cores
from benchmarks.parts.rivals import (
    DELTAS,
    FIXED,
    LOOSE,
    ONCE,
    OURS,
    RULE,
    SEQUENCES,
    VERIFAIR,
    MethodRuns,
    by_bootstrap,
    by_paper,
    compared_counts,
    delta_text,
    with_guarantee,
)
from benchmarks.results import Cell, Column, Table, count_name
from benchmarks.sizes import Sizes
from fairchain import verify
from fairchain.spec import revise

# The distance of a threshold from the gap, or half of the gap where that is less; and the rounds of the large run that
# knows the gap, the same in every size so that thresholds are too.
BESIDE, ROUNDS = 0.02, 2**20
# Evaluations from which a network's speed is taken.
TIMED = 2**17


@dataclass(frozen=True)
class NearCase:
    """A network, and a threshold beside its gap."""

    case: Case
    truth: Truth
    differing: float
    threshold: float

    @property
    def right(self) -> str:
        """The right verdict."""
        return "FAIR" if self.truth.gap <= self.threshold else "UNFAIR"

    @property
    def errors(self) -> float:
        """The distance from the gap, in standard errors with which that is known."""
        return abs(self.threshold - self.truth.gap) / float(np.sqrt(self.differing / ROUNDS))


@dataclass(frozen=True)
class Job:
    """Some verdicts of fairchain; or, without a delta, all the others."""

    near: NearCase
    seeds: range
    delta: float | None
    most: int


Found = list[tuple[NearCase, list[MethodRuns]]]


def near_cases(cases: Sequence[Case]) -> list[NearCase]:
    """Return two thresholds for each network, with fresh copies that can be sent to another process."""
    found = []
    for case in cases:
        truth = truth_of(case, ROUNDS)
        beside = min(BESIDE, truth.gap / 2)
        apart, fresh = differing(case, truth), replace(case)
        found += [NearCase(fresh, truth, apart, round(truth.gap + side, 4)) for side in (-beside, beside)]
    return found


def differing(case: Case, truth: Truth) -> float:
    """Return how often the two groups that are farthest apart are decided differently in a round."""
    successes = case.draw(TRUTH_SEED, 0, TIMED // case.groups, coupled=True)
    return float((successes[truth.rates[0].argmax()] != successes[truth.rates[0].argmin()]).mean())


def measured(cases: Sequence[Case], sizes: Sizes) -> Found:
    """Run every method on every network and threshold."""
    every = near_cases(cases)
    jobs = [
        Job(near, seeds, delta, sizes.most) for near in every for delta in DELTAS for seeds in blocks(sizes.repetitions)
    ]
    jobs += [Job(near, range(sizes.repetitions), None, sizes.most) for near in every]
    results = list(zip(jobs, on_all_cores(done, jobs, parallel=sizes.paper), strict=True))
    return [
        (near, [*_ours(near, [(job, lines) for job, lines in results if job.near is near]), *_others(near, results)])
        for near in every
    ]


def done(job: Job) -> list[MethodRuns]:
    """Run one job."""
    return others(job) if job.delta is None else [ours(job, job.delta)]


def ours(job: Job, delta: float) -> MethodRuns:
    """Return verdicts on one core, one for each seed."""
    case, near = job.near.case, job.near
    spec = revise(case.spec, property__threshold=near.threshold, guarantee__delta=delta)
    case.verdict(0)
    start = time.perf_counter()
    verdicts = [verify(case.model, spec, seed=seed, workers=1) for seed in job.seeds]
    seconds = (time.perf_counter() - start) / len(verdicts)
    runs = Runs(np.array([v.decision.name for v in verdicts]), np.array([v.evaluations for v in verdicts]))
    return MethodRuns(OURS, delta, runs, near.right, seconds)


def others(job: Job) -> list[MethodRuns]:
    """Run other methods: short runs evaluate the network, long ones use counts at its rates and pay at its speed."""
    near, case, runs = job.near, job.near.case, len(job.seeds)
    speed = seconds_each(case)
    lines = [
        MethodRuns(method, delta, found, near.right, speed * float(found.evaluations.mean()))
        for (method, delta), found in with_guarantee(near.truth.rates[0], near.threshold, runs, job.most).items()
    ]
    labels = len(case.spec.model.labels)
    start = time.perf_counter()
    once = by_bootstrap(lambda size: drawn(case, runs, size), case.groups, near.threshold)
    middle = time.perf_counter()
    rule = by_paper(lambda run, size: case.count(run, size, coupled=False), case.groups, labels, near.threshold, runs)
    lines.append(MethodRuns(ONCE, None, once, near.right, (middle - start) / runs))
    lines.append(MethodRuns(RULE, None, rule, near.right, (time.perf_counter() - middle) / runs))
    return lines


def drawn(case: Case, runs: int, size: int) -> NDArray[np.int64]:
    """Return the successes among so many inputs of each group, run by run, from the network."""
    return np.array([case.draw(seed, 0, size).sum(axis=1) for seed in range(runs)])


def seconds_each(case: Case) -> float:
    """Return the seconds of one evaluation on one core, drawing inputs included."""
    size = TIMED // case.groups
    case.draw(0, 0, size)
    start = time.perf_counter()
    case.draw(0, 1, size)
    return (time.perf_counter() - start) / (size * case.groups)


def _ours(near: NearCase, results: list[tuple[Job, list[MethodRuns]]]) -> list[MethodRuns]:
    """Join the blocks of seeds."""
    found = []
    for delta in DELTAS:
        parts = [line for job, (line, *_) in results if job.delta == delta]
        decisions = np.concatenate([line.runs.decisions for line in parts])
        evaluations = np.concatenate([line.runs.evaluations for line in parts])
        seconds = sum((line.seconds or 0.0) * line.total for line in parts) / len(decisions)
        found.append(MethodRuns(OURS, delta, Runs(decisions, evaluations), near.right, seconds))
    return found


def _others(near: NearCase, results: list[tuple[Job, list[MethodRuns]]]) -> list[MethodRuns]:
    return next(lines for job, lines in results if job.near is near and job.delta is None)


def counts(found: Found) -> dict[str, list[int | None]]:
    """Return the evaluations of fairchain in the first runs."""
    return {_name(near, line): compared_counts(line) for near, lines in found for line in lines if line.method == OURS}


def _name(near: NearCase, line: MethodRuns) -> str:
    delta = f"delta {delta_text(line.delta)}"
    return count_name(near.case.owner, near.case.name, f"threshold {near.threshold}", delta)


def _line(lines: list[MethodRuns], method: str, delta: float | None) -> MethodRuns:
    return next(line for line in lines if (line.method, line.delta) == (method, delta))


def tables(found: Found, sizes: Sizes) -> list[Table]:
    """Return a table of all networks together, then evaluations and errors of each."""
    return [_summary(found, sizes), *(_evaluations(found, delta) for delta in DELTAS), _errors(found)]


def _summary(found: Found, sizes: Sizes) -> Table:
    columns = [Column("method"), Column("delta", "g"), Column("runs", ",d"), Column("wrong", ",d")]
    columns += [Column("undecided", ",d"), Column("wrong in the worst row", ".1%")]
    columns += [Column("evaluations / fairchain's", ".1f"), Column("seconds of a run", ".3f")]
    columns.append(Column("how"))
    rows: list[list[Cell]] = []
    for method, delta in [(line.method, line.delta) for line in found[0][1]]:
        lines = [_line(each, method, delta) for _, each in found]
        mine = [_line(each, OURS, LOOSE if delta is None else delta) for _, each in found]
        row: list[Cell] = [method, delta, sum(line.total for line in lines), sum(line.wrong for line in lines)]
        row += [sum(line.undecided for line in lines), max(line.wrong / line.total for line in lines)]
        row += [median(line.mean / own.mean for line, own in zip(lines, mine, strict=True))]
        row += [fmean(line.seconds or 0.0 for line in lines), _how(method)]
        rows.append(row)
    note = (
        f"Each method has {sizes.repetitions} runs for each threshold. *Wrong in the worst row* is the largest share "
        "of wrong runs for one case and threshold. *Evaluations / fairchain's* is the number of evaluations of the "
        "method divided by that of fairchain at the same delta (at 0.05 if *delta* shows a dash). The table shows "
        "the median of this ratio over all cases and thresholds. Seconds are means on one core.\n\n*Counts, time "
        "computed* means that the method uses only the successes of each group. For such a method, this benchmark does "
        "not evaluate the network, but draws binomial counts at the network's rates. The seconds of such a method are "
        "the time that the evaluations would take."
    )
    title = f"{len({near.case.name for near, _ in found})} networks, thresholds on both sides of their gaps"
    return Table(title, columns, rows, note)


def _how(method: str) -> str:
    return "evaluates the network" if method in (OURS, ONCE, RULE) else "counts, time computed"


def _evaluations(found: Found, delta: float) -> Table:
    methods: list[tuple[str, float | None]] = [(name, delta) for name in (OURS, VERIFAIR, SEQUENCES, FIXED)]
    if delta == LOOSE:
        methods += [(RULE, None)]
    columns = [Column("case"), Column("true gap", ".4f"), Column("threshold", ".4f")]
    columns += [Column("rounds that differ", ".1%"), *(Column(name) for name, _ in methods)]
    columns.append(Column("fairchain, ms", ".0f"))
    rows: list[list[Cell]] = []
    for near, lines in found:
        row: list[Cell] = [near.case.name, near.truth.gap, near.threshold, near.differing]
        row += [_line(lines, *method).evaluations_cell for method in methods]
        rows.append([*row, 1e3 * (_line(lines, OURS, delta).seconds or 0.0)])
    note = (
        "*Rounds that differ* is the share of fairchain's rounds in which the two groups with the largest gap get "
        "different decisions. Milliseconds are measured on one core."
    )
    if delta == LOOSE:
        note = f"The paper's rule has delta {paper.DELTA:g} instead."
    return Table(f"Evaluations on networks near the threshold, delta {delta_text(delta)}", columns, rows, note)


def _errors(found: Found) -> Table:
    methods: list[tuple[str, float | None]] = [(OURS, delta) for delta in DELTAS]
    methods += [(name, LOOSE) for name in (VERIFAIR, SEQUENCES, FIXED)] + [(ONCE, None), (RULE, None)]
    columns = [Column("case"), Column("threshold", ".4f"), Column("right")]
    columns += [Column(name if delta is None else f"{name}, {delta_text(delta)}") for name, delta in methods]
    rows: list[list[Cell]] = [
        [near.case.name, near.threshold, near.right, *(_line(lines, *method).errors for method in methods)]
        for near, lines in found
    ]
    return Table("Wrong verdicts on networks near the threshold", columns, rows)
