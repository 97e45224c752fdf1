"""Rows of a table as a sample: bounds from counts, against rounds that pair the t-th row of every group.

`python -m benchmarks.sample_rows` asks both rules for a verdict about people whose rates are known, with growing
tables, and prints how many rows each needs (mean over seeds). Groups of equal size favour pairing most; real tables
have small groups. The numbers are those of docs/mathematics.md, "Independent groups".
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fairchain.statistics import BettingRule, Decision, Tally, count_together
from fairchain.statistics.rate_counts import RowsAnswer, SubgroupCounts
from fairchain.statistics.rules import BatchPlan, every_pair

THRESHOLD = 0.1


@dataclass(frozen=True)
class Case:
    """Groups with their share of the rows and their true rate."""

    name: str
    shares: tuple[float, ...]
    rates: tuple[float, ...]


CASES = (
    Case("two equal groups, gap 0.05", (0.5, 0.5), (0.25, 0.30)),
    Case("two equal groups, gap 0.20", (0.5, 0.5), (0.20, 0.40)),
    Case("one in ten, gap 0.05", (0.9, 0.1), (0.25, 0.30)),
    Case("one in ten, gap 0.20", (0.9, 0.1), (0.20, 0.40)),
    Case("census race, its shares and rates", (0.01, 0.031, 0.096, 0.008, 0.855), (0.10, 0.25, 0.10, 0.11, 0.25)),
    Case("census sex, its shares and rates", (0.33, 0.67), (0.10, 0.28)),
)


def by_counts(asked: NDArray[np.int64], got: NDArray[np.int64], delta: float) -> Decision:
    counts = SubgroupCounts(asked, got[None])
    compared = every_pair(len(asked), 1)
    return RowsAnswer(counts, compared, "difference", Fraction("0.1"), delta, disjoint=True).decision


def by_pairs(decisions: list[NDArray[np.int64]], delta: float) -> Decision:
    """The betting rule on rounds of one row each; a group takes part as long as it has rows."""
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


def rows_needed(case: Case, delta: float, seed: int, *, pairs: bool, most: int = 4_000_000) -> int | None:
    """The smallest table, in steps of 1.1, on which the rule decides rightly."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    print(f"{'case':38} {'delta':>7} {'counts':>10} {'pairs':>10} {'ratio':>6}")
    for case in CASES:
        for delta in (0.05, 1e-6):
            counted = [rows_needed(case, delta, seed, pairs=False) for seed in range(options.seeds)]
            paired = [rows_needed(case, delta, seed, pairs=True) for seed in range(options.seeds)]
            means = [np.mean([n for n in each if n is not None]) if any(each) else np.nan for each in (counted, paired)]
            print(f"{case.name:38} {delta:7g} {means[0]:10,.0f} {means[1]:10,.0f} {means[1] / means[0]:6.2f}")


if __name__ == "__main__":
    main()
