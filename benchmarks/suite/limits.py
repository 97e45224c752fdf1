"""How far from what is possible: evaluations against an information bound, time against the bare network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from benchmarks import bench
from benchmarks.suite.cases import DELTA, Case, feed_forward
from benchmarks.suite.outcome import Cell, Check, Column, Found, Table
from benchmarks.suite.paper import THRESHOLD
from benchmarks.suite.sizes import Sizes

Floats = NDArray[np.float64]
# Of the sample that the bound is computed from; no verdict has it.
BOUND_SEED = 2 * 10**6
CHUNK = 8192
TEXT = """**Rounds.** Whoever looks at coupled rounds and is wrong with probability at most delta needs, on average,
at least kl(delta, 1 - delta) / KL of them: KL is the information that one round gives against the nearest
distribution for which the verdict would be wrong (Wald; kl is the same for two coins). For a fair network that is the
pair that is hardest to clear; for an unfair one the nearest distribution in which *every* gap is at most the
threshold. *Evaluations* are bounded for rules that clear each pair by rounds in which both its groups are asked: each
group as long as its hardest pair needs, for an unfair network two groups in every round. KL is computed from a large
sample, so the bounds are estimates. A bound that holds for each known distribution is not attained by any rule that
does not know it.

**Time.** A long `verify` against the bare onnxruntime session on as many inputs that lie in memory already, in turns.
Below 1.0 is impossible in the long run."""


@dataclass(frozen=True)
class Bound:
    """The least rounds, and the least evaluations of a rule that clears pairs by their own rounds."""

    rounds: float
    evaluations: float


def kl_of_coins(delta: float) -> float:
    """kl(delta, 1 - delta): what the two error probabilities ask of the evidence."""
    return delta * math.log(delta / (1 - delta)) + (1 - delta) * math.log((1 - delta) / delta)


def growth_rate(payoffs: Floats, chances: Floats, steps: int = 4000) -> float:
    """The largest expected log growth of wealth on several bets at once: the information against their common null.

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
    """The bound for a network whose answers over the groups have these patterns (patterns, groups)."""
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
    """The distinct patterns of answers in so many coupled rounds, and their frequencies."""
    weights = 1 << np.arange(case.groups)
    counts = np.zeros(2**case.groups, np.int64)
    for chunk in range(-(-rounds // CHUNK)):
        got = case.draw(BOUND_SEED, chunk, CHUNK, coupled=True)
        counts += np.bincount(weights @ got, minlength=len(counts))
    seen = np.flatnonzero(counts)
    patterns = ((seen[:, None] >> np.arange(case.groups)) & 1).astype(bool)
    return patterns, counts[seen] / counts.sum()


def run(sizes: Sizes, models: Path | None) -> Found:
    """Both distances."""
    with feed_forward(models) as cases:
        rows = [_evaluations(case, sizes) for case in cases]
    measured = bench.Sizes(evaluations=sizes.bare, repetitions=sizes.turns)
    lines = list(bench.against_bare_network(measured))
    return Found(
        text=TEXT,
        tables=[_bound_table(rows), _time_table([line for line in lines if line.section == "network"])],
        plots=[],
        checks=[_above_the_bound(rows), *_time_checks(lines, sizes)],
        used={"seeds": sizes.seeds, "evaluations of a timed run": sizes.bare, "turns": sizes.turns},
        behind=_behind(rows),
    )


def _evaluations(case: Case, sizes: Sizes) -> list[Cell]:
    bound = bound_of(*patterns_of(case, sizes.truth // 4), THRESHOLD, DELTA)
    verdicts = [case.asked(seed) for seed in range(sizes.seeds)]
    rounds, evaluations = (fmean(getattr(v, name) for v in verdicts) for name in ("rounds", "evaluations"))
    row: list[Cell] = [case.whose, case.name, verdicts[0].decision.name, bound.rounds, rounds, rounds / bound.rounds]
    return [*row, bound.evaluations, evaluations, evaluations / bound.evaluations]


def _bound_table(rows: list[list[Cell]]) -> Table:
    columns = [Column("network"), Column("case"), Column("verdict"), Column("least rounds", ",.0f")]
    columns += [Column("rounds", ",.0f"), Column("ratio", ".2f"), Column("least evaluations", ",.0f")]
    columns += [Column("evaluations", ",.0f"), Column("ratio", ".2f")]
    note = (
        "The ratio of rounds cannot be below 1 on average; the mean of a few seeds varies. That of evaluations could "
        "be: its bound is one for rules that ask both groups of a pair as long as the pair needs."
    )
    return Table("Evaluations at delta 1e-6 against the information bound", columns, rows, note)


def _above_the_bound(rows: list[list[Cell]]) -> Check:
    ratios = [float(row[5]) for row in rows if isinstance(row[5], float)]
    # A mean over few seeds may fall a little below; far below, the bound or the counts would be wrong.
    found = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return Check(
        "rounds against the information bound",
        min(ratios) >= 0.7 and max(ratios) <= 4,
        found,
        "1 to 4, give or take the seeds",
    )


def _behind(rows: list[list[Cell]]) -> list[str]:
    ratios = [float(row[5]) for row in rows if isinstance(row[5], float)]
    return [
        f"against the information bound every verdict takes {min(ratios):.1f} to {max(ratios):.1f} times the least "
        "number of rounds: the price of not knowing the network's rates beforehand"
    ]


def _time_table(lines: list[bench.Line]) -> Table:
    columns = [Column("case"), Column("verify"), Column("bare onnxruntime"), Column("ratio", ".2f"), Column("note")]
    rows: list[list[Cell]] = [[line.name, line.ours, line.other, line.value, line.note] for line in lines]
    return Table("Time of a long verify against bare onnxruntime", columns, rows)


def _time_checks(lines: list[bench.Line], sizes: Sizes) -> list[Check]:
    return [
        Check(
            f"time against the bare network, {line.name}",
            line.holds,
            f"{line.value:.2f}",
            f"at most {line.limit:g}",
            sizes.timed,
        )
        for line in lines
        if line.limit is not None
    ]
