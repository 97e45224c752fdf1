"""How good the stakes of the bets are: expected rounds, relative to the best stake for each situation."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.results import Cell, Column, PartResult, Table, count_name
from benchmarks.sizes import Sizes
from fairchain.statistics.e_values import BETS, LOG_SHARES

# Values of [group i gets the outcome] - [group j gets it].
DIFFERENCES = np.array([1.0, 0.0, -1.0])

TEXT = """This section compares two choices of [stakes](../docs/mathematics.md#the-stakes) by their *cost*. *In use*
names the stakes of fairchain. *Twelve equal* divides the initial wealth equally between 12 stakes. Each of these stakes
is half of the previous stake. The cost in a situation is a ratio. The numerator is the number of rounds until the total
[wealth](../docs/mathematics.md#betting) reaches 1/alpha for the error probability alpha. The denominator is this number
of rounds for the best single stake.

The wealth of each stake is assumed to grow at its expected logarithmic rate. This rate is computed and not sampled, so
the numbers are the same on every machine. Each situation has a threshold of 0.02 to 0.2, a gap of -0.5 to 2.5 times the
threshold, and a disagreement of 1% to 50%. Disagreement is the share of rounds in which the decisions of the two groups
differ."""
Floats = NDArray[np.float64]
Situation = tuple[Floats, Floats]


def situations() -> list[Situation]:
    """Return (chances, payoffs divided by the largest loss) for many thresholds, disagreements and gaps."""
    found: list[Situation] = []
    for threshold in (0.02, 0.05, 0.1, 0.2):
        for differ in (0.01, 0.03, 0.1, 0.3, 0.5):
            for times in (-0.5, 0, 0.25, 0.5, 0.8, 0.95, 1.1, 1.3, 1.7, 2.5):
                gap = times * threshold
                if abs(gap) > differ:
                    continue
                chances = np.array([(differ + gap) / 2, 1 - differ, (differ - gap) / 2])
                fair = (threshold - DIFFERENCES) / (1 - threshold)
                unfair = (DIFFERENCES - threshold) / (1 + threshold)
                found.append((chances, fair if times < 1 else unfair))
    return found


def rates(situation: Situation, bets: Floats) -> Floats:
    """Return the expected log growth of each bet."""
    chances, payoffs = situation
    return chances @ np.log1p(np.outer(payoffs, bets))


def relative_cost(situation: Situation, bets: Floats, log_shares: Floats, alpha: float) -> float:
    """Return the rounds until the expected wealth of all bets is 1/alpha, divided by those of the best bet."""
    growth = rates(situation, bets)
    best = rates(situation, np.geomspace(1e-4, 0.999, 4000)).max()
    few, many = 0.0, 1e9
    for _ in range(80):
        middle = (few + many) / 2
        reached = np.logaddexp.reduce(log_shares + middle * growth) >= -math.log(alpha)
        few, many = (few, middle) if reached else (middle, many)
    return float(many * best / -math.log(alpha))


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # nothing is sampled
    """Compare the stakes in use with twelve equal shares at ratio 2."""
    equal = 0.97 * 2.0 ** -np.arange(12.0), np.full(12, -math.log(12))
    rows: list[list[Cell]] = []
    counts: dict[str, list[int | None]] = {}
    for name, (bets, log_shares) in {"in use": (BETS, LOG_SHARES), "twelve equal": equal}.items():
        for alpha in (1e-6, 0.05):
            costs = [relative_cost(each, bets, log_shares, alpha) for each in situations()]
            found = [float(np.mean(costs)), float(np.median(costs)), max(costs)]
            rows.append([name, alpha, len(costs), *found])
            counts[count_name(name, f"alpha {alpha:g}", "mean, median, worst in thousandths")] = [
                round(1000 * cost) for cost in found
            ]
    columns = [Column("stakes"), Column("alpha", "g"), Column("situations", "d"), Column("mean cost", ".3f")]
    columns += [Column("median", ".3f"), Column("worst", ".3f")]
    return PartResult(
        text=TEXT, tables=[Table("Cost of the stakes", columns, rows)], settings={"seeds": "none"}, counts=counts
    )
