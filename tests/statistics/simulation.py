"""Rules against coins of known bias: rounds without a network, thousands of runs in seconds."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from fairchain.statistics import BatchPlan, Decision, Rule, Tally, count_together


def simulate(
    rule: Rule, probabilities: Sequence[float], seed: int, most: int, *, coupled: bool = True
) -> tuple[Decision, int]:
    """Run a rule on groups that get the outcome with these probabilities: the decision, and the evaluations."""
    rng = np.random.default_rng(seed)
    chances = np.array(probabilities)
    rounds = evaluations = 0
    while rounds < most and (plan := rule.plan()) is not None:
        count = min(plan.rounds, most - rounds)
        shape = (1, count) if coupled else (len(plan.groups), count)
        got = rng.random(shape) < chances[list(plan.groups)][:, None]
        together = count_together(got.astype(np.uint8), [1])
        rule.observe(plan, Tally.of_batch(count, together, plan.groups, len(chances)))
        rounds += count
        evaluations += count * len(plan.groups)
    return rule.decision, evaluations


def at_the_boundary(groups: int, threshold: float, low: float, run: int) -> list[float]:
    """Probabilities whose largest gap is exactly the threshold: one pair, or as many pairs as possible, or spread."""
    high = low + threshold
    shape = run % 3
    if shape == 0:
        return [low] + [high] * (groups - 1)
    if shape == 1:
        return [high if i % 2 else low for i in range(groups)]
    return [float(p) for p in np.linspace(low, high, groups)]


def cut(plan: BatchPlan | None, most: int) -> BatchPlan | None:
    """A plan with at most so many rounds."""
    return plan and msgspec.structs.replace(plan, rounds=min(plan.rounds, most))
