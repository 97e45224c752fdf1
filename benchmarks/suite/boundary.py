"""Wrong verdicts near the threshold: every method, many times, on real networks and on made-up ones.

A real network's gap is known from a large run (`near.py`); that of a made-up one exactly (`streams.py`), so that the
threshold can lie as near as one likes, or on the gap itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.baselines.counts import Runs
from benchmarks.baselines.verifair import authors_delta, verifair_on_counts
from benchmarks.suite import near, paper
from benchmarks.suite.cases import DELTA, feed_forward
from benchmarks.suite.crew import shared_out
from benchmarks.suite.kept import counted
from benchmarks.suite.outcome import Cell, Check, Column, Found, Table
from benchmarks.suite.promises import FALSE_ALARM, most_failures
from benchmarks.suite.rivals import (
    APART,
    AUTHORS,
    COMPARED,
    COUNTS_SEED,
    DELTAS,
    LOOKING,
    LOOSE,
    ONCE,
    OURS,
    RULE,
    Line,
    by_bootstrap,
    by_looking,
    by_paper,
    counting,
    keeping_a_promise,
    run_of,
    shown,
)
from benchmarks.suite.sizes import Sizes
from benchmarks.suite.streams import Stream, decided
from benchmarks.suite.truth import TRUTH_SEED
from fairchain.statistics import Tally

GROUPS = (2, 9)
# What fairchain may ask at most, in evaluations of all groups, is so much less than what the others may.
SHARE = 25
# Groups that are drawn apart are followed where a decision is not too far away.
FAR = 0.01
TEXT = """**Networks.** Each of our feed-forward networks is asked with a threshold just below its own gap and one just
above: {beside:g} away from it, or half of the gap where that is less. The gap is known from {rounds:,} rounds that no
verdict has seen (seed {seed:,}); the threshold is at least {errors:.0f} of its standard errors away.

**Made-up networks.** Half of the groups stand on one level and half on another, so with nine groups several pairs are
widest at once; the threshold is {threshold:g} and the gap lies beside it. The farther gaps show what a decision costs,
the nearer ones are hard, and at exactly {threshold:g} no verdict is right and a method should stay undecided (by the
letter FAIR is right there; it is counted as wrong all the same). How often two groups of different levels are decided
differently in one round is our choice: {alike:.0%} of rounds at a gap of {threshold:g} (for real networks see the
column *rounds that differ*). It matters to fairchain alone, whose rounds compare groups: *groups drawn apart* is
fairchain on the same rates with nothing in common, where {apart:.0%} of rounds differ."""


@dataclass(frozen=True)
class Row:
    """One method on one made-up network."""

    groups: int
    gap: float
    line: Line


@dataclass(frozen=True)
class Job:
    """All methods on one stream."""

    stream: tuple[int, float]
    sizes: Sizes


def run(sizes: Sizes, models: Path | None) -> Found:  # noqa: ARG001  # the six that ship, twice each, are enough
    """All methods on networks, then on streams."""
    with feed_forward(None) as cases:
        networks = near.measured(cases[: sizes.near], sizes)
    # The long ones first, so that no core waits for them in the end.
    jobs = [Job((groups, gap), sizes) for groups in sorted(GROUPS, reverse=True) for gap in sizes.gaps]
    rows = [row for found in shared_out(on_stream, jobs, sizes) for row in found]
    counts = {**near.counts(networks), **_counts(rows)}
    every = [(f"{each.case.name}, threshold {each.threshold}", line) for each, lines in networks for line in lines]
    every += [(f"gap {row.gap:g}, {row.groups} groups", row.line) for row in rows]
    checks = [_no_error(every), _loose_errors(every), _all_runs(every, sizes)]
    return Found(
        text=_text(networks),
        tables=[*near.tables(networks, sizes), *(table for groups in GROUPS for table in _tables(rows, groups, sizes))],
        plots=[],
        checks=checks,
        used={
            "seeds of every method": sizes.repetitions,
            "networks": len(networks) // 2,
            "rounds of the large run": near.ROUNDS,
            "its seed": TRUTH_SEED,
            "seed of the counts of other methods": COUNTS_SEED,
        },
        behind=_behind(every),
        counts=counts,
    )


def _text(networks: near.Found) -> str:
    return TEXT.format(
        beside=near.BESIDE,
        rounds=near.ROUNDS,
        seed=TRUTH_SEED,
        errors=min(each.errors for each, _ in networks),
        threshold=paper.THRESHOLD,
        alike=Stream(2, paper.THRESHOLD).differing,
        apart=Stream(2, paper.THRESHOLD, coupled=False).differing,
    )


# Made-up networks.


def on_stream(job: Job) -> list[Row]:
    """Every method on one stream, all runs."""
    groups, gap = job.stream
    stream, sizes, xi = Stream(groups, gap), job.sizes, paper.THRESHOLD
    runs: dict[tuple[str, float | None], Runs] = {}
    for delta in DELTAS:
        runs[OURS, delta] = fairchain(stream, delta, sizes)
        if abs(gap - xi) >= FAR - 1e-9:
            runs[APART, delta] = fairchain(Stream(groups, gap, coupled=False), delta, sizes)
    # At a gap of exactly the threshold no number of people would do: it plans for the nearest other gap.
    other = min((each for each in sizes.gaps if each != xi), key=lambda each: abs(each - xi))
    plan_for = Stream(groups, other).rates if gap == xi else None
    runs |= keeping_a_promise(stream.rates, xi, sizes.repetitions, sizes.most, plan_for=plan_for)
    count = counting(stream.rates, sizes.repetitions)
    runs[AUTHORS, authors_delta(groups)] = verifair_on_counts(count, groups, xi, authors_delta(groups), sizes.most)
    runs[ONCE, None] = by_bootstrap(count, groups, xi)
    runs[LOOKING, None] = by_looking(count, groups, xi)
    runs[RULE, None] = by_paper(lambda seed, people: _apart(stream, seed, people), groups, 2, xi, sizes.repetitions)
    right = None if gap == xi else "FAIR" if gap < xi else "UNFAIR"
    return [Row(groups, gap, Line(method, delta, found, right)) for (method, delta), found in runs.items()]


def fairchain(stream: Stream, delta: float, sizes: Sizes) -> Runs:
    """Our rule, run by run."""
    found = [decided(stream, paper.THRESHOLD, delta, seed, _rounds(sizes)) for seed in range(sizes.repetitions)]
    return Runs(np.array([name for name, _ in found]), np.array([evaluations for _, evaluations in found]))


def _rounds(sizes: Sizes) -> int:
    return sizes.most // (2 * SHARE)


def _apart(stream: Stream, seed: int, people: int) -> Tally:
    own = np.diag(stream.apart(np.random.default_rng(seed), people))[None]
    return Tally.of_batch(people, own, tuple(range(stream.groups)), stream.groups)


def _counts(rows: list[Row]) -> dict[str, int]:
    """Evaluations of fairchain in the first runs, unless cut by what it may ask, which depends on the size."""
    return {
        counted(row.line.method, f"{row.groups} groups", f"gap {row.gap:g}", *run_of(row.line, k)): n
        for row in rows
        if row.line.method in (OURS, APART)
        for k, (name, n) in enumerate(zip(row.line.runs.decisions, row.line.runs.evaluations.tolist(), strict=True))
        if name != "UNDECIDED" and k < COMPARED
    }


def _tables(rows: list[Row], groups: int, sizes: Sizes) -> list[Table]:
    """Evaluations by gap, and errors by gap: a row for each method."""
    lines = {(row.line.method, row.line.promised, row.gap): row.line for row in rows if row.groups == groups}
    columns = [Column("method"), Column("delta", "g"), *(Column(f"gap {gap:g}") for gap in sizes.gaps)]
    asked: list[list[Cell]] = []
    errors: list[list[Cell]] = []
    for method, delta in dict.fromkeys((method, delta) for method, delta, _ in lines):
        cells = [lines.get((method, delta, gap)) for gap in sizes.gaps]
        asked.append([method, delta, *(line.asked if line else None for line in cells)])
        errors.append([method, delta, *(line.errors if line else None for line in cells)])
    note = (
        f"Means of {sizes.repetitions} runs. *Cap*: every run was still undecided when it might ask no more, "
        f"{_rounds(sizes):,} rounds for fairchain and {sizes.most:,} evaluations for the other sequential methods; "
        "these numbers are ours and say nothing about a method. The fixed sample was planned, from the true rates, "
        "to decide in nine of ten runs."
    )
    return [
        Table(f"Evaluations by gap, {groups} groups, made-up networks", columns, asked, note),
        Table(f"Wrong and undecided of {sizes.repetitions} runs by gap, {groups} groups", columns, errors),
    ]


# What must hold.


def _own(every: list[tuple[str, Line]], delta: float) -> list[tuple[str, Line]]:
    return [(where, line) for where, line in every if line.method in (OURS, APART) and line.promised == delta]


def _no_error(every: list[tuple[str, Line]]) -> Check:
    strict = _own(every, DELTA)
    wrong = [f"{where}: {line.wrong}" for where, line in strict if line.wrong]
    found = f"{sum(line.wrong for _, line in strict)} of {sum(line.total for _, line in strict):,}"
    found += f" ({'; '.join(wrong)})" if wrong else ""
    return Check("wrong verdicts of fairchain at delta 1e-6 near the threshold", not wrong, found, "none")


def _loose_errors(every: list[tuple[str, Line]]) -> Check:
    """At delta 0.05 errors may happen, and no row may have more than chance explains."""
    where, worst = max(_own(every, LOOSE), key=lambda each: each[1].wrong / each[1].total)
    most = most_failures(worst.total, LOOSE)
    return Check(
        f"wrong verdicts of fairchain at delta {LOOSE:g}, worst row",
        worst.wrong <= most,
        f"{worst.wrong} of {worst.total} ({where})",
        f"at most {most} (false alarm {shown(FALSE_ALARM)})",
    )


def _all_runs(every: list[tuple[str, Line]], sizes: Sizes) -> Check:
    """No row is short of runs, and every network that should be asked was."""
    short = [f"{where}, {line.method}: {line.total}" for where, line in every if line.total != sizes.repetitions]
    found = f"{sizes.repetitions} in each of {len(every)} rows" if not short else "; ".join(short)
    return Check("repetitions of every method", not short, found, f"{sizes.repetitions}")


def _behind(every: list[tuple[str, Line]]) -> list[str]:
    """Methods that keep the same promise, and where they needed fewer evaluations or less time."""
    ours = {(where, line.promised): line for where, line in every if line.method == OURS}
    fewer: dict[str, list[str]] = {}
    faster: dict[str, list[str]] = {}
    for where, line in every:
        mine = ours.get((where, line.promised))
        if mine is None or line.method in (OURS, APART) or line.right is None:
            continue
        name = f"{line.method}, delta {shown(line.promised)}"
        if line.mean < mine.mean:
            fewer.setdefault(name, []).append(where)
        if line.seconds is not None and mine.seconds is not None and line.seconds < mine.seconds:
            times = f"{1e3 * line.seconds:.0f} against {1e3 * mine.seconds:.0f} ms"
            faster.setdefault(name, []).append(f"{where} ({times})")
    told = [f"near the threshold, {name} needs fewer evaluations: {'; '.join(at)}" for name, at in fewer.items()]
    return told + [f"near the threshold, {name} is faster: {'; '.join(at)}" for name, at in faster.items()]
