"""Wrong verdicts at a gap of exactly the threshold, where both answers are wrong: why each gets half of delta.

`python -m benchmarks.boundary` runs the betting rule on two coupled coins (0 and 0.1, threshold 0.1) for 200,000
rounds, 1500 times, once as it is and once with the whole of delta for each answer, and prints how often each was given.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

from fairchain.statistics import BettingRule, Decision, Tally, count_together

THRESHOLD, DELTA, LOW = 0.1, 0.1, 0.0


def run_once(rule: BettingRule, seed: int, most: int) -> Decision:
    """One run on two coins that share their random numbers."""
    rng = np.random.default_rng(seed)
    chances = np.array([[LOW], [LOW + THRESHOLD]])
    done = 0
    while done < most and (plan := rule.plan()) is not None:
        rounds = min(plan.rounds, most - done)
        got = (rng.random((1, rounds)) < chances[list(plan.groups)]).astype(np.uint8)
        rule.observe(plan, Tally.of_batch(rounds, count_together(got, [1]), plan.groups, 2))
        done += rounds
    return rule.decision


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=200_000)
    options = parser.parse_args()
    # A rule asked for 2 delta spends delta on each answer.
    for name, delta in (("half of delta for each answer", DELTA), ("the whole of delta for each", 2 * DELTA)):
        answers = Counter(
            run_once(BettingRule(2, 1, THRESHOLD, delta), 10_000 + run, options.rounds).name
            for run in range(options.runs)
        )
        wrong = options.runs - answers["UNDECIDED"]
        print(f"{name}: {wrong / options.runs:.1%} wrong at delta = {DELTA:g} ({dict(answers)})", flush=True)


if __name__ == "__main__":
    main()
