"""Distance to what is possible: rounds and evaluations of verdicts against an information bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from benchmarks.cases import DELTA, Case, feed_forward, text_cases
from benchmarks.paper import THRESHOLD
from benchmarks.results import Cell, Check, Column, PartResult, Table
from benchmarks.sizes import Sizes

Floats = NDArray[np.float64]
# Of the sample that the bound is computed from; no verdict has it.
BOUND_SEED = 2 * 10**6
CHUNK = 8192
# Rounds over their bound are at least 1 on average, and the mean of a few seeds may fall a little below; far below,
# the bound or the counts would be wrong.
LEAST, MOST = 0.7, 4.0
TEXT = """This section compares the rounds and evaluations of fairchain's verdicts with an information bound. The bound
is a lower bound on the mean number of rounds of every rule that uses coupled rounds and is wrong with probability at
most delta.

**Rounds.** Such a rule needs on average at least kl(delta, 1 - delta) / KL rounds (Wald). KL is the Kullback-Leibler
divergence between the true distribution of one round and the nearest distribution for which the verdict would be wrong.
kl(a, b) is the Kullback-Leibler divergence between Bernoulli distributions with the parameters a and b. For a fair
network, the pair of groups that is hardest to decide determines the nearest distribution. For an unfair network, KL
refers to the nearest distribution in which *every* gap is at most the threshold. KL is computed from a large sample, so
the bounds are estimates. The bound holds even for a rule that knows the distribution. A rule that does not know the
distribution cannot attain the bound.

**Evaluations.** The bound of evaluations applies only to rules that decide each pair by rounds in which both groups of
the pair are evaluated. For a fair network, the bound assumes that each group is evaluated until its hardest pair is
decided. For an unfair network, the bound assumes that two groups are evaluated in every round."""


@dataclass(frozen=True)
class Bound:
    """The least rounds of any rule, and the least evaluations of one that clears pairs by their own rounds."""

    rounds: float
    pairwise: float


@dataclass(frozen=True)
class Distance:
    """What the verdicts on a case took on average, and the bound."""

    case: Case
    verdict: str
    bound: Bound
    rounds: float
    evaluations: float

    @property
    def of_rounds(self) -> float:
        """Rounds over the least that any rule needs."""
        return self.rounds / self.bound.rounds

    @property
    def of_evaluations(self) -> float:
        """Evaluations over the least of a rule that clears pairs by their own rounds."""
        return self.evaluations / self.bound.pairwise


def kl_of_coins(delta: float) -> float:
    """Return kl(delta, 1 - delta): the evidence that the two error probabilities require."""
    return delta * math.log(delta / (1 - delta)) + (1 - delta) * math.log((1 - delta) / delta)


def growth_rate(payoffs: Floats, chances: Floats, steps: int = 4000) -> float:
    """Return the largest expected log growth of wealth on several bets: the information against their common null.

    `payoffs` is (outcomes, bets), each at least -1 and with mean at most 0 under the null. The best mixture of the
    bets and of keeping the money is found by multiplying each share with what it earns (Cover), which never falls.
    """
    factors = np.concatenate([np.ones((len(payoffs), 1)), 1 + payoffs], axis=1)
    shares = np.full(factors.shape[1], 1 / factors.shape[1])
    for _ in range(steps):
        earned = chances @ (factors / (factors @ shares)[:, None])
        if earned.max() <= 1 + 1e-9:
            break
        shares *= earned
    return float(chances @ np.log(factors @ shares))


def bound_of(patterns: NDArray[np.bool_], chances: Floats, threshold: float, delta: float) -> Bound:
    """Return the bound for a network whose answers over the groups have these patterns (patterns, groups)."""
    groups = patterns.shape[1]
    apart = [(i, j) for i in range(groups) for j in range(groups) if i != j]
    gaps = np.stack([patterns[:, i].astype(float) - patterns[:, j] for i, j in apart], axis=1)
    need = kl_of_coins(delta)
    if (chances @ gaps).max() > threshold:
        rounds = need / growth_rate((gaps - threshold) / (1 + threshold), chances)
        return Bound(rounds, 2 * rounds)
    each = np.zeros((groups, groups))
    for (i, j), gap in zip(apart, gaps.T, strict=True):
        cells = np.array([chances[gap == value].sum() for value in (-1, 0, 1)])
        payoffs = (threshold - np.array([[-1.0], [0.0], [1.0]])) / (1 - threshold)
        each[i, j] = need / growth_rate(payoffs, cells)
    return Bound(float(each.max()), float(np.maximum(each, each.T).max(axis=1).sum()))


def patterns_of(case: Case, rounds: int) -> tuple[NDArray[np.bool_], Floats]:
    """Return the distinct patterns of answers in so many coupled rounds, and their frequencies."""
    weights = 1 << np.arange(case.groups)
    counts = np.zeros(2**case.groups, np.int64)
    for chunk in range(-(-rounds // CHUNK)):
        successes = case.draw(BOUND_SEED, chunk, CHUNK, coupled=True)
        counts += np.bincount(weights @ successes, minlength=len(counts))
    seen = np.flatnonzero(counts)
    patterns = ((seen[:, None] >> np.arange(case.groups)) & 1).astype(bool)
    return patterns, counts[seen] / counts.sum()


def run(sizes: Sizes, models: Path | None) -> PartResult:
    """Measure the distance of every case."""
    texts = text_cases() if sizes.text_seeds else []
    with feed_forward(models) as cases:
        found = [distance(case, sizes.seeds, sizes.truth // 4) for case in cases]
    found += [distance(case, sizes.text_seeds, sizes.text_truth // 4) for case in texts]
    return PartResult(
        text=TEXT,
        tables=[_bound_table(found, texts=_about_texts(sizes, texts))],
        checks=[_near_the_bound(found)],
        settings={
            "seeds": sizes.seeds,
            "seeds of text cases": sizes.text_seeds,
            "seed of the bound's sample": BOUND_SEED,
        },
        behind=_behind(found),
    )


def distance(case: Case, seeds: int, rounds: int) -> Distance:
    """Return the mean over so many seeds and the bound from so many rounds."""
    bound = bound_of(*patterns_of(case, rounds), THRESHOLD, DELTA)
    verdicts = [case.verdict(seed) for seed in range(seeds)]
    decisions = "/".join(sorted({verdict.decision.name for verdict in verdicts}))
    means = (fmean(getattr(verdict, name) for verdict in verdicts) for name in ("rounds", "evaluations"))
    return Distance(case, decisions, bound, *means)


def _about_texts(sizes: Sizes, texts: list[Case]) -> str:
    if texts:
        return (
            f" The cases about comments have {sizes.text_seeds} seeds. A round of these cases has one text of "
            "each group, and all texts of a round have the same position in the "
            "[sorted texts](../docs/text.md#observed-and-swapped-texts) of their group. The "
            f"bound is computed from {sizes.text_truth // 4:,} such rounds."
        )
    why = "their data are not here" if sizes.text_seeds else "at this size, no comments are evaluated"
    return f" The two cases about comments are left out: {why}."


def _bound_table(found: list[Distance], *, texts: str) -> Table:
    columns = [Column("network"), Column("case"), Column("verdict"), Column("bound of rounds", ",.0f")]
    columns += [Column("rounds", ",.0f"), Column("rounds / bound", ".2f")]
    columns += [Column("bound of evaluations", ",.0f")]
    columns += [Column("evaluations", ",.0f"), Column("evaluations / bound", ".2f")]
    rows: list[list[Cell]] = [
        [
            each.case.owner, each.case.name, each.verdict, each.bound.rounds, each.rounds, each.of_rounds,
            each.bound.pairwise, each.evaluations, each.of_evaluations,
        ]
        for each in found
    ]  # fmt: skip
    note = (
        "The ratio of rounds cannot be below 1 on average, but the mean of a few seeds varies. The ratio of "
        f"evaluations could be below 1 for a rule that does not decide each pair by the pair's own rounds.{texts}"
    )
    return Table("Evaluations at delta 1e-6 against the information bound", columns, rows, note)


def _near_the_bound(found: list[Distance]) -> Check:
    ratios = [each.of_rounds for each in found]
    return Check(
        "rounds / information bound, mean over seeds, in every case",
        min(ratios) >= LEAST and max(ratios) <= MOST,
        f"{min(ratios):.2f} to {max(ratios):.2f}",
        f"{LEAST:g} to {MOST:g} (below 1 is possible, because seeds are few)",
    )


def _behind(found: list[Distance]) -> list[str]:
    ratios = [each.of_rounds for each in found]
    return [
        f"verdicts need {min(ratios):.1f} to {max(ratios):.1f} times as many rounds as the information bound, because "
        "fairchain does not know the network's rates beforehand"
    ]
