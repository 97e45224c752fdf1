"""Wrong verdicts near the threshold: every method, many times, on real networks and on simulated ones.

A real network's gap is known from a large run (`near_networks.py`); that of a simulated one exactly (`streams.py`), so
that the threshold can lie as near as one likes, or on the gap itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import paper
from benchmarks.baselines.counts import Runs
from benchmarks.baselines.verifair import authors_delta, verifair_on_counts
from benchmarks.cases import DELTA, TRUTH_SEED, feed_forward
from benchmarks.measuring import on_all_cores
from benchmarks.parts import near_networks
from benchmarks.parts.estimates import FALSE_ALARM, most_failures
from benchmarks.parts.rivals import (
    APART,
    AUTHORS,
    COUNTS_SEED,
    DELTAS,
    LOOKING,
    LOOKS,
    LOOSE,
    ONCE,
    OURS,
    RULE,
    TESTED,
    MethodRuns,
    by_bootstrap,
    by_looking,
    by_paper,
    compared_counts,
    counting,
    delta_text,
    with_guarantee,
)
from benchmarks.parts.streams import Stream, decided
from benchmarks.results import Cell, Check, Column, PartResult, Table, count_name
from benchmarks.sizes import Sizes
from fairchain.statistics import Tally

GROUPS = (2, 9)
# The limit of evaluations of fairchain is so much smaller than that of the others.
SHARE = 25
# Groups that are drawn independently are followed where a decision is not too far away.
FAR = 0.01
TEXT = """This section compares how often each method is wrong, and how many evaluations it needs, if the gap is near
the threshold. Verdicts are hardest there. Most methods are described [above](#other-methods-on-the-same-networks).
These methods differ or are new:

- *VeriFair* computes its bounds only when the number of inputs has grown by 1%.
- *Bootstrap 95%, one look* computes one interval from {tested:,} inputs of each group. *Bootstrap 95%, looks until
  decided* computes an interval after {first:,}, {second:,}, ... and {last:,} inputs of each group, until an interval is
  on one side of the threshold.
- *The paper's rule* is run exactly as published, with delta 0.1.

**Networks.** Each of our feed-forward cases is verified with two thresholds, one just below and one just above its gap.
The tables count each case as a network. The distance from the threshold to the gap is {beside:g}, or half of the gap if
this is less. The gap is estimated from {rounds:,} rounds that no verdict has used (seed {seed:,}). The distance is at
least {errors:.0f} standard errors of this estimate.

**Simulated networks.** About half of the groups have one rate, and the other groups have another rate. With nine
groups, the largest gap therefore occurs in several pairs. The threshold is {threshold:g}, and the columns state the
true gap. Verdicts are harder if the gap is nearer to the threshold. At a gap of exactly {threshold:g}, UNFAIR is
wrong. FAIR is true by definition, but is counted as wrong. So a method should stay undecided there.

A simulation also needs the share of rounds in which two groups with different rates get different decisions. We choose
{alike:.0%} at a gap of {threshold:g}. The choice affects only fairchain, because only fairchain's rounds compare
groups. For real networks, the column *rounds that differ* shows this share. *Groups drawn independently* shows the
results of fairchain at the same rates without coupling. In this case, the decisions differ in {apart:.0%} of rounds."""


@dataclass(frozen=True)
class Row:
    """One method on one simulated network."""

    groups: int
    gap: float
    line: MethodRuns


@dataclass(frozen=True)
class Job:
    """All methods on one stream."""

    stream: tuple[int, float]
    sizes: Sizes


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # the six that ship, twice each, are enough
    """Run all methods on networks, then on streams."""
    with feed_forward(None) as cases:
        networks = near_networks.measured(cases[: sizes.near], sizes)
    # The long ones first, so that no core waits for them in the end.
    jobs = [Job((groups, gap), sizes) for groups in sorted(GROUPS, reverse=True) for gap in sizes.gaps]
    rows = [row for found in on_all_cores(on_stream, jobs, parallel=sizes.paper) for row in found]
    counts = {**near_networks.counts(networks), **_counts(rows)}
    every = [(f"{each.case.name}, threshold {each.threshold}", line) for each, lines in networks for line in lines]
    every += [(f"gap {row.gap:g}, {row.groups} groups", row.line) for row in rows]
    checks = [_no_error(every), _loose_errors(every), _all_runs(every, sizes)]
    return PartResult(
        text=_text(networks),
        tables=[
            *near_networks.tables(networks, sizes),
            *(table for groups in GROUPS for table in _tables(rows, groups, sizes)),
        ],
        checks=checks,
        settings={
            "seeds of every method": sizes.repetitions,
            "networks": len(networks) // 2,
            "rounds of the large run": near_networks.ROUNDS,
            "its seed": TRUTH_SEED,
            "seed of the counts of other methods": COUNTS_SEED,
        },
        behind=_behind(every),
        counts=counts,
    )


def _text(networks: near_networks.Found) -> str:
    return TEXT.format(
        beside=near_networks.BESIDE,
        rounds=near_networks.ROUNDS,
        seed=TRUTH_SEED,
        errors=min(each.errors for each, _ in networks),
        threshold=paper.THRESHOLD,
        alike=Stream(2, paper.THRESHOLD).differing,
        apart=Stream(2, paper.THRESHOLD, coupled=False).differing,
        tested=TESTED,
        first=LOOKS[0],
        second=LOOKS[1],
        last=LOOKS[-1],
    )


# Simulated networks.


def on_stream(job: Job) -> list[Row]:
    """Run every method on one stream."""
    groups, gap = job.stream
    stream, sizes, xi = Stream(groups, gap), job.sizes, paper.THRESHOLD
    runs: dict[tuple[str, float | None], Runs] = {}
    for delta in DELTAS:
        runs[OURS, delta] = fairchain(stream, delta, sizes)
        if abs(gap - xi) >= FAR - 1e-9:
            runs[APART, delta] = fairchain(Stream(groups, gap, coupled=False), delta, sizes)
    # At a gap of exactly the threshold no number of inputs would do: it plans for the nearest other gap.
    other = min((each for each in sizes.gaps if each != xi), key=lambda each: abs(each - xi))
    plan_for = Stream(groups, other).rates if gap == xi else None
    runs |= with_guarantee(stream.rates, xi, sizes.repetitions, sizes.most, plan_for=plan_for)
    count = counting(stream.rates, sizes.repetitions)
    runs[AUTHORS, authors_delta(groups)] = verifair_on_counts(count, groups, xi, authors_delta(groups), sizes.most)
    runs[ONCE, None] = by_bootstrap(count, groups, xi)
    runs[LOOKING, None] = by_looking(count, groups, xi)
    runs[RULE, None] = by_paper(lambda seed, size: _apart(stream, seed, size), groups, 2, xi, sizes.repetitions)
    right = None if gap == xi else "FAIR" if gap < xi else "UNFAIR"
    return [Row(groups, gap, MethodRuns(method, delta, found, right)) for (method, delta), found in runs.items()]


def fairchain(stream: Stream, delta: float, sizes: Sizes) -> Runs:
    """Run our rule, seed by seed."""
    found = [decided(stream, paper.THRESHOLD, delta, seed, _rounds(sizes)) for seed in range(sizes.repetitions)]
    return Runs(np.array([name for name, _ in found]), np.array([evaluations for _, evaluations in found]))


def _rounds(sizes: Sizes) -> int:
    return sizes.most // (2 * SHARE)


def _apart(stream: Stream, seed: int, size: int) -> Tally:
    own = np.diag(stream.apart(np.random.default_rng(seed), size))[None]
    return Tally.of_batch(size, own, tuple(range(stream.groups)), stream.groups)


def _counts(rows: list[Row]) -> dict[str, list[int | None]]:
    """Return the evaluations of fairchain in the first runs."""
    return {_name(row, row.line): compared_counts(row.line) for row in rows if row.line.method in (OURS, APART)}


def _name(row: Row, line: MethodRuns) -> str:
    return count_name(line.method, f"{row.groups} groups", f"gap {row.gap:g}", f"delta {delta_text(line.delta)}")


def _tables(rows: list[Row], groups: int, sizes: Sizes) -> list[Table]:
    """Return evaluations by gap, and errors by gap: a row for each method."""
    lines = {(row.line.method, row.line.delta, row.gap): row.line for row in rows if row.groups == groups}
    columns = [Column("method"), Column("delta", "g"), *(Column(f"gap {gap:g}") for gap in sizes.gaps)]
    evaluations: list[list[Cell]] = []
    errors: list[list[Cell]] = []
    for method, delta in dict.fromkeys((method, delta) for method, delta, _ in lines):
        cells = [lines.get((method, delta, gap)) for gap in sizes.gaps]
        evaluations.append([method, delta, *(line.evaluations_cell if line else None for line in cells)])
        errors.append([method, delta, *(line.errors if line else None for line in cells)])
    note = (
        f"The numbers are means of {sizes.repetitions} runs. *Cap* means that all runs were still undecided at their "
        "limit. *Cap in n* means that n runs were still undecided at their limit. "
        f"We chose the limits {_rounds(sizes):,} rounds for fairchain and {sizes.most:,} evaluations for the "
        "other sequential methods. The fixed sample was planned with the true rates, so that nine of ten runs end with "
        "FAIR or UNFAIR."
    )
    return [
        Table(f"Evaluations by gap, {groups} groups, simulated networks", columns, evaluations, note),
        Table(f"Wrong and undecided of {sizes.repetitions} runs by gap, {groups} groups", columns, errors),
    ]


# What must hold.


def _own(every: list[tuple[str, MethodRuns]], delta: float) -> list[tuple[str, MethodRuns]]:
    return [(where, line) for where, line in every if line.method in (OURS, APART) and line.delta == delta]


def _no_error(every: list[tuple[str, MethodRuns]]) -> Check:
    strict = _own(every, DELTA)
    wrong = [f"{where}: {line.wrong}" for where, line in strict if line.wrong]
    found = f"{sum(line.wrong for _, line in strict)} of {sum(line.total for _, line in strict):,}"
    found += f" ({'; '.join(wrong)})" if wrong else ""
    return Check("wrong verdicts of fairchain at delta 1e-6 near the threshold", not wrong, found, "none")


def _loose_errors(every: list[tuple[str, MethodRuns]]) -> Check:
    """Check that no row has more errors at delta 0.05 than chance explains."""
    where, worst = max(_own(every, LOOSE), key=lambda each: each[1].wrong / each[1].total)
    most = most_failures(worst.total, LOOSE)
    return Check(
        f"wrong verdicts of fairchain at delta {LOOSE:g}, in the worst row",
        worst.wrong <= most,
        f"{worst.wrong} of {worst.total} ({where})",
        f"at most {most} (more have probability at most {delta_text(FALSE_ALARM)})",
    )


def _all_runs(every: list[tuple[str, MethodRuns]], sizes: Sizes) -> Check:
    """Check that every method made all its runs on every network."""
    short = [f"{where}, {line.method}: {line.total}" for where, line in every if line.total != sizes.repetitions]
    found = f"{sizes.repetitions} in each of {len(every)} rows" if not short else "; ".join(short)
    return Check("runs of every method", not short, found, f"{sizes.repetitions}")


def _behind(every: list[tuple[str, MethodRuns]]) -> list[str]:
    """Return the methods with the same guarantee that needed fewer evaluations or less time, and where."""
    ours = {(where, line.delta): line for where, line in every if line.method == OURS}
    fewer: dict[str, list[str]] = {}
    faster: dict[str, list[str]] = {}
    for where, line in every:
        mine = ours.get((where, line.delta))
        if mine is None or line.method in (OURS, APART) or line.right is None:
            continue
        name = f'the method "{line.method}" with delta {delta_text(line.delta)}'
        if line.mean < mine.mean:
            fewer.setdefault(name, []).append(where)
        if line.seconds is not None and mine.seconds is not None and line.seconds < mine.seconds:
            times = f"{1e3 * line.seconds:.0f} against {1e3 * mine.seconds:.0f} ms"
            faster.setdefault(name, []).append(f"{where} ({times})")
    lines = [f"near the threshold, {name} needs fewer evaluations: {'; '.join(at)}" for name, at in fewer.items()]
    return lines + [f"near the threshold, {name} is faster: {'; '.join(at)}" for name, at in faster.items()]
