"""Wrong verdicts on real networks: each is asked with a threshold just below its own gap, and one just above."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.counts import Runs
from benchmarks.suite import paper
from benchmarks.suite.cases import Case
from benchmarks.suite.crew import blocks, shared_out
from benchmarks.suite.kept import counted
from benchmarks.suite.outcome import Cell, Column, Table
from benchmarks.suite.rivals import (
    COMPARED,
    DELTAS,
    FIXED,
    LOOSE,
    ONCE,
    OURS,
    RULE,
    SEQUENCES,
    TESTED,
    VERIFAIR,
    Line,
    by_bootstrap,
    by_paper,
    keeping_a_promise,
    run_of,
    shown,
)
from benchmarks.suite.sizes import Sizes
from benchmarks.suite.truth import TRUTH_SEED, Truth, truth_of
from fairchain import verify
from fairchain.spec import revise

# The distance of a threshold from the gap, or half of the gap where that is less; and the rounds of the large run that
# knows the gap, the same in every size so that thresholds are too.
BESIDE, ROUNDS = 0.02, 2**20
# Evaluations from which a network's speed is taken.
TIMED = 2**17


@dataclass(frozen=True)
class Near:
    """A network, and a threshold beside its gap."""

    case: Case
    truth: Truth
    differing: float
    threshold: float

    @property
    def right(self) -> str:
        """What a verdict must say."""
        return "FAIR" if self.truth.gap <= self.threshold else "UNFAIR"

    @property
    def errors(self) -> float:
        """The distance from the gap, in standard errors with which that is known."""
        return abs(self.threshold - self.truth.gap) / float(np.sqrt(self.differing / ROUNDS))


@dataclass(frozen=True)
class Job:
    """Some verdicts of fairchain; or, without a delta, all the others."""

    near: Near
    seeds: range
    delta: float | None
    most: int


Found = list[tuple[Near, list[Line]]]


def questions(cases: Sequence[Case]) -> list[Near]:
    """Two for each network, with fresh copies that can be handed to another process."""
    found = []
    for case in cases:
        truth = truth_of(case, ROUNDS)
        beside = min(BESIDE, truth.gap / 2)
        apart, fresh = differing(case, truth), replace(case)
        found += [Near(fresh, truth, apart, round(truth.gap + side, 4)) for side in (-beside, beside)]
    return found


def differing(case: Case, truth: Truth) -> float:
    """How often the two groups that are farthest apart are decided differently in a round."""
    got = case.draw(TRUTH_SEED, 0, TIMED // case.groups, coupled=True)
    return float((got[truth.rates[0].argmax()] != got[truth.rates[0].argmin()]).mean())


def measured(cases: Sequence[Case], sizes: Sizes) -> Found:
    """Every method on every question."""
    asked = questions(cases)
    jobs = [
        Job(near, seeds, delta, sizes.most) for near in asked for delta in DELTAS for seeds in blocks(sizes.repetitions)
    ]
    jobs += [Job(near, range(sizes.repetitions), None, sizes.most) for near in asked]
    results = list(zip(jobs, shared_out(done, jobs, sizes), strict=True))
    return [
        (near, [*_ours(near, [(job, lines) for job, lines in results if job.near is near]), *_others(near, results)])
        for near in asked
    ]


def done(job: Job) -> list[Line]:
    """What the runs of one job said."""
    return others(job) if job.delta is None else [ours(job, job.delta)]


def ours(job: Job, delta: float) -> Line:
    """Verdicts on one core, by seeds."""
    case, near = job.near.case, job.near
    spec = revise(case.spec, property__threshold=near.threshold, guarantee__delta=delta)
    case.asked(0)
    start = time.perf_counter()
    verdicts = [verify(case.model, spec, seed=seed, workers=1) for seed in job.seeds]
    seconds = (time.perf_counter() - start) / len(verdicts)
    runs = Runs(np.array([v.decision.name for v in verdicts]), np.array([v.evaluations for v in verdicts]))
    return Line(OURS, delta, runs, near.right, seconds)


def others(job: Job) -> list[Line]:
    """The others: short ones ask the network, long ones are played on counts at its rates and pay at its speed."""
    near, case, runs = job.near, job.near.case, len(job.seeds)
    speed = seconds_each(case)
    lines = [
        Line(method, delta, found, near.right, speed * float(found.evaluations.mean()))
        for (method, delta), found in keeping_a_promise(near.truth.rates[0], near.threshold, runs, job.most).items()
    ]
    labels = len(case.spec.model.labels)
    start = time.perf_counter()
    once = by_bootstrap(lambda people: drawn(case, runs, people), case.groups, near.threshold)
    middle = time.perf_counter()
    rule = by_paper(
        lambda run, people: case.count(run, people, coupled=False), case.groups, labels, near.threshold, runs
    )
    lines.append(Line(ONCE, None, once, near.right, (middle - start) / runs))
    lines.append(Line(RULE, None, rule, near.right, (time.perf_counter() - middle) / runs))
    return lines


def drawn(case: Case, runs: int, people: int) -> NDArray[np.int64]:
    """How many of so many people of each group got the outcome, run by run, from the network."""
    return np.array([case.draw(seed, 0, people).sum(axis=1) for seed in range(runs)])


def seconds_each(case: Case) -> float:
    """What one evaluation takes on one core, drawing people included."""
    people = TIMED // case.groups
    case.draw(0, 0, people)
    start = time.perf_counter()
    case.draw(0, 1, people)
    return (time.perf_counter() - start) / (people * case.groups)


def _ours(near: Near, results: list[tuple[Job, list[Line]]]) -> list[Line]:
    """Blocks of seeds put together."""
    found = []
    for delta in DELTAS:
        parts = [line for job, (line, *_) in results if job.delta == delta]
        decisions = np.concatenate([line.runs.decisions for line in parts])
        evaluations = np.concatenate([line.runs.evaluations for line in parts])
        seconds = sum((line.seconds or 0.0) * line.total for line in parts) / len(decisions)
        found.append(Line(OURS, delta, Runs(decisions, evaluations), near.right, seconds))
    return found


def _others(near: Near, results: list[tuple[Job, list[Line]]]) -> list[Line]:
    return next(lines for job, lines in results if job.near is near and job.delta is None)


def counts(found: Found) -> dict[str, int]:
    """Evaluations of fairchain in the first runs."""
    return {
        counted(near.case.whose, near.case.name, f"threshold {near.threshold}", *run_of(line, k)): n
        for near, lines in found
        for line in lines
        if line.method == OURS
        for k, n in enumerate(line.runs.evaluations[:COMPARED].tolist())
    }


def _line(lines: list[Line], method: str, delta: float | None) -> Line:
    return next(line for line in lines if (line.method, line.promised) == (method, delta))


def tables(found: Found, sizes: Sizes) -> list[Table]:
    """All networks together, then evaluations and errors of each."""
    return [_summary(found, sizes), *(_evaluations(found, delta) for delta in DELTAS), _errors(found)]


def _summary(found: Found, sizes: Sizes) -> Table:
    columns = [Column("method"), Column("delta", "g"), Column("runs", ",d"), Column("wrong", ",d")]
    columns += [Column("undecided", ",d"), Column("wrong in the worst row", ".1%")]
    columns += [Column("evaluations for one of fairchain's", ".1f"), Column("seconds of a run", ".3f")]
    columns.append(Column("how"))
    rows: list[list[Cell]] = []
    for method, delta in [(line.method, line.promised) for line in found[0][1]]:
        lines = [_line(each, method, delta) for _, each in found]
        mine = [_line(each, OURS, LOOSE if delta is None else delta) for _, each in found]
        row: list[Cell] = [method, delta, sum(line.total for line in lines), sum(line.wrong for line in lines)]
        row += [sum(line.undecided for line in lines), max(line.wrong / line.total for line in lines)]
        row += [median(line.mean / own.mean for line, own in zip(lines, mine, strict=True))]
        row += [fmean(line.seconds or 0.0 for line in lines), _how(method)]
        rows.append(row)
    note = (
        f"{sizes.repetitions} runs for each threshold. Evaluations are the median over networks of the ratio to "
        "fairchain's at the same delta (at 0.05 for those without one); seconds are the mean, on one core. "
        "*Counts*: the method sees nothing but how many of each group's people got the outcome, so that its long runs "
        "are played on binomial draws at the network's rates, and pay what the network takes for an evaluation here."
    )
    title = f"{len({near.case.name for near, _ in found})} networks, thresholds on both sides of their gaps"
    return Table(title, columns, rows, note)


def _how(method: str) -> str:
    return "asks the network" if method in (OURS, ONCE, RULE) else "counts, time reckoned"


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
        row += [_line(lines, *method).asked for method in methods]
        rows.append([*row, 1e3 * (_line(lines, OURS, delta).seconds or 0.0)])
    note = (
        "*Rounds that differ*: how often the two groups that are farthest apart are decided differently in a round of "
        "fairchain. Milliseconds are of one core."
    )
    if delta == LOOSE:
        note = f"The paper's rule has delta {paper.DELTA:g}; the bootstrap asks {TESTED:,} people of each group."
    return Table(f"Evaluations on networks near the threshold, delta {shown(delta)}", columns, rows, note)


def _errors(found: Found) -> Table:
    methods: list[tuple[str, float | None]] = [(OURS, delta) for delta in DELTAS]
    methods += [(name, LOOSE) for name in (VERIFAIR, SEQUENCES, FIXED)] + [(ONCE, None), (RULE, None)]
    columns = [Column("case"), Column("threshold", ".4f"), Column("right")]
    columns += [Column(name if delta is None else f"{name}, {shown(delta)}") for name, delta in methods]
    rows: list[list[Cell]] = [
        [near.case.name, near.threshold, near.right, *(_line(lines, *method).errors for method in methods)]
        for near, lines in found
    ]
    return Table("Wrong verdicts on networks near the threshold", columns, rows)
