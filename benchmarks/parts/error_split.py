"""Wrong verdicts at a gap equal to the threshold, where both answers count as wrong: why each gets half of delta."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks.results import Cell, Column, PartResult, Table, count_name
from benchmarks.sizes import Sizes
from fairchain.statistics import BettingRule, Decision, Tally, count_together

THRESHOLD, DELTA, LOW = 0.1, 0.1, 0.0
FIRST_SEED = 10_000
# A rule with twice delta spends delta on each answer.
SPLITS = {"half of delta for each answer": DELTA, "the whole of delta for each answer": 2 * DELTA}
TEXT = f"""This section compares two ways to divide delta. Rounds of two groups are simulated. The groups have the rates
{LOW:g} and {LOW + THRESHOLD:g}, so the gap equals the threshold {THRESHOLD:g}, and both FAIR and UNFAIR count as wrong.
Delta is {DELTA:g}. The rule in use gives half of delta to each of the verdicts FAIR and UNFAIR. The other rule gives
the whole delta to each of them. See [the verdict](../docs/mathematics.md#the-verdict). *Wrong* is the share of runs
that end with FAIR or UNFAIR."""


def run_once(rule: BettingRule, seed: int, most: int) -> Decision:
    """Run the rule on two coins that share their random numbers, for so many rounds at most."""
    rng = np.random.default_rng(seed)
    chances = np.array([[LOW], [LOW + THRESHOLD]])
    done = 0
    while done < most and (plan := rule.plan()) is not None:
        rounds = min(plan.rounds, most - done)
        successes = (rng.random((1, rounds)) < chances[list(plan.groups)]).astype(np.uint8)
        rule.observe(plan, Tally.of_batch(rounds, count_together(successes, [1]), plan.groups, 2))
        done += rounds
    return rule.decision


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # coins are simulated
    """Count the answers of both rules."""
    runs, rounds = sizes.split_runs, sizes.split_rounds
    rows: list[list[Cell]] = []
    counts: dict[str, list[int | None]] = {}
    for name, delta in SPLITS.items():
        answers = Counter(
            run_once(BettingRule(2, 1, THRESHOLD, delta), FIRST_SEED + run, rounds).name for run in range(runs)
        )
        wrong = runs - answers["UNDECIDED"]
        rows.append([name, runs, answers["FAIR"], answers["UNFAIR"], wrong / runs])
        if sizes.paper:
            counts[count_name(name, f"wrong of {runs} runs of {rounds} rounds")] = [wrong]
    columns = [
        Column("rule"),
        Column("runs", ",d"),
        Column("FAIR", ",d"),
        Column("UNFAIR", ",d"),
        Column("wrong", ".1%"),
    ]
    return PartResult(
        text=TEXT,
        tables=[Table("Answers at a gap equal to the threshold", columns, rows)],
        settings={"rounds of a run": rounds, "seeds": f"{FIRST_SEED:,} to {FIRST_SEED + runs - 1:,}"},
        counts=counts,
    )
