"""Rows of a table as a sample: bounds from counts, against rounds that pair the t-th row of every group."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.results import Cell, Column, PartResult, Table, count_name
from benchmarks.sizes import Sizes
from fairchain.statistics import BettingRule, Decision, Tally, count_together
from fairchain.statistics.rate_counts import RowsAnswer, SubgroupCounts
from fairchain.statistics.rules import BatchPlan, every_pair

THRESHOLD = 0.1
DELTAS = (0.05, 1e-6)
TEXT = """This section compares two rules that decide from the rows of a sample. One rule computes bounds from the
counts of each group. The other rule makes rounds that pair one row of every group. The rows are simulated with known
rates. Tables grow by a factor of 1.1 until the rule reaches a verdict. The table shows how many rows each rule needs,
as a mean over seeds. *Ratio* is the number of rows by pairs divided by the number of rows by counts. Pairing works best
for groups of equal size. In practice, tables have small groups, so fairchain uses counts. See [independent
groups](../docs/mathematics-tables.md#independent-groups)."""


@dataclass(frozen=True)
class SampledGroups:
    """Groups with their share of the rows and their true rate."""

    name: str
    shares: tuple[float, ...]
    rates: tuple[float, ...]


CASES = (
    SampledGroups("two equal groups, gap 0.05", (0.5, 0.5), (0.25, 0.30)),
    SampledGroups("two equal groups, gap 0.20", (0.5, 0.5), (0.20, 0.40)),
    SampledGroups("one in ten, gap 0.05", (0.9, 0.1), (0.25, 0.30)),
    SampledGroups("one in ten, gap 0.20", (0.9, 0.1), (0.20, 0.40)),
    SampledGroups(
        "census race, its shares and rates", (0.01, 0.031, 0.096, 0.008, 0.855), (0.10, 0.25, 0.10, 0.11, 0.25)
    ),
    SampledGroups("census sex, its shares and rates", (0.33, 0.67), (0.10, 0.28)),
)


def by_counts(trials: NDArray[np.int64], successes: NDArray[np.int64], delta: float) -> Decision:
    """Decide by bounds from the counts of each group."""
    counts = SubgroupCounts(trials, successes[None])
    compared = every_pair(len(trials), 1)
    return RowsAnswer(counts, compared, "difference", Fraction("0.1"), delta, disjoint=True).decision


def by_pairs(decisions: list[NDArray[np.int64]], delta: float) -> Decision:
    """Decide by the betting rule on rounds of one row of each group, as long as it has rows."""
    rule = BettingRule(len(decisions), 1, THRESHOLD, delta, narrow=False)
    done = 0
    while rule.decision is Decision.UNDECIDED:
        groups = tuple(group for group, rows in enumerate(decisions) if len(rows) > done)
        if len(groups) < 2:
            break
        rounds = min(max(16, done // 10), min(len(decisions[group]) for group in groups) - done)
        plan = rule.plan()
        leader = plan.leader if plan is not None else None
        labels = np.stack([decisions[group][done : done + rounds] for group in groups])
        tally = Tally.of_batch(rounds, count_together(labels, [1]), groups, len(decisions))
        rule.observe(BatchPlan(rounds, groups, leader if leader and set(leader[:2]) <= set(groups) else None), tally)
        done += rounds
    return rule.decision


def rows_needed(case: SampledGroups, delta: float, seed: int, *, pairs: bool, most: int = 4_000_000) -> int | None:
    """Return the size of the smallest table, in steps of 1.1, on which the rule decides rightly."""
    rng = np.random.default_rng(seed)
    rows = 200
    while rows <= most:
        sizes = np.maximum((np.array(case.shares) * rows).astype(np.int64), 1)
        decisions = [rng.random(size) < rate for size, rate in zip(sizes, case.rates, strict=True)]
        if pairs:
            found = by_pairs([each.astype(np.int64) for each in decisions], delta)
        else:
            found = by_counts(sizes, np.array([int(each.sum()) for each in decisions]), delta)
        if found is not Decision.UNDECIDED:
            return rows
        rows = int(rows * 1.1)
    return None


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # rows are simulated
    """Measure both rules on every case."""
    rows: list[list[Cell]] = []
    counts: dict[str, list[int | None]] = {}
    for case in CASES:
        for delta in DELTAS:
            counted, paired = (
                [rows_needed(case, delta, seed, pairs=pairs) for seed in range(sizes.row_seeds)]
                for pairs in (False, True)
            )
            counts[count_name(case.name, f"delta {delta:g}", "rows by counts")] = counted
            counts[count_name(case.name, f"delta {delta:g}", "rows by pairs")] = paired
            means = [float(np.mean([n for n in each if n is not None])) for each in (counted, paired)]
            rows.append([case.name, delta, *means, means[1] / means[0]])
    columns = [Column("case"), Column("delta", "g"), Column("rows by counts", ",.0f"), Column("rows by pairs", ",.0f")]
    columns.append(Column("ratio", ".2f"))
    return PartResult(
        text=TEXT,
        tables=[Table("Rows until a verdict", columns, rows)],
        settings={"seeds": sizes.row_seeds},
        counts=counts,
    )
