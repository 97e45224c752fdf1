"""Distance to what is possible on simulated rounds and rows, at places where a rule loses most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from benchmarks.cases import DELTA
from benchmarks.parts.limits import growth_rate, kl_of_coins
from benchmarks.results import Cell, Check, Column, PartResult, Table, count_name
from benchmarks.sizes import Sizes
from fairchain.statistics import SHARE, BettingRule, Tally
from fairchain.statistics.tally import count_together
from fairchain.statistics.two_sample import two_sample_bounds

TEXT = """This section compares fairchain with the information bound of [the section
above](#distance-to-the-information-bound) in simulated hard cases. Rounds are simulated with known rates, so the bound
is exact. *Taken* is the mean number of rounds or evaluations until the verdict. The first table has three kinds of
cases:

- *Share.* The decision changes for a known share of individuals when only their protected features change
  (`kind = "individual"`). In each round, the decision either changes or stays the same. The table shows rounds.
- *Tied pairs.* Ten groups have a higher rate than ten other groups. The gaps of the 100 pairs are equal and above the
  threshold. The table shows evaluations. The bound is the bound for one pair, with two evaluations in a round.
- *All alike.* 20 groups have the same rate. FAIR requires a decision about all 380 ordered pairs. The slowest pair
  takes longer than the average pair, even for a rule that knows all rates. So fairchain is also compared with such a
  rule (*rule that knows*): a sequential probability ratio test for each pair. This rule leaves out a group when all its
  pairs are decided.

The second table is about samples of rows in which one group can be much larger than the other group. It shows how many
rows of the smaller group are needed to show that the gap is below the threshold. It also shows how many rows
would be enough if the rate of the larger group were known."""
# Shares that are fair, and true ones.
SHARES = ((0.1, 0.3), (0.05, 0.2), (0.01, 0.1), (0.01, 0.3), (0.1, 0.145))
THRESHOLD = 0.1
MOST_SHARE, MOST_TIED = 1.5, 3.0
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Distance:
    """What verdicts took on average, and the bound."""

    what: str
    verdict: str
    bound: float
    taken: float

    @property
    def ratio(self) -> float:
        """How many times the bound was taken."""
        return self.taken / self.bound


def play_share(limit: float, share: float, seed: int) -> tuple[str, int]:
    """Return the verdict on a share of changed decisions, and its rounds."""
    rng = np.random.default_rng((seed, 3))
    rule = BettingRule(2, 1, limit, DELTA, compared=np.triu(~np.eye(2, dtype=bool))[None], payoff=SHARE)
    rounds = 0
    while (plan := rule.plan()) is not None:
        changed = int(rng.binomial(plan.rounds, share))
        rule.observe(plan, Tally.of_batch(plan.rounds, np.array([[[changed, 0], [0, 0]]]), (0, 1), 2))
        rounds += plan.rounds
    return rule.decision.name, rounds


def play_groups(rates: Sequence[float], coupled: bool, seed: int) -> tuple[str, int, int]:
    """Return the verdict on groups with these rates, its rounds and its evaluations."""
    rng, every = np.random.default_rng((seed, 4)), np.array(rates)
    rule = BettingRule(len(rates), 1, THRESHOLD, DELTA)
    rounds = evaluations = 0
    while (plan := rule.plan()) is not None:
        groups = list(plan.groups)
        uniforms = rng.random((1 if coupled else len(groups), plan.rounds))
        labels = (uniforms < every[groups][:, None]).astype(np.uint8)
        rule.observe(plan, Tally.of_batch(plan.rounds, count_together(labels, [1]), plan.groups, len(rates)))
        rounds, evaluations = rounds + plan.rounds, evaluations + plan.rounds * len(groups)
    return rule.decision.name, rounds, evaluations


def play_oracle(rate: float, groups: int, seed: int) -> tuple[int, int]:
    """Return rounds and evaluations of a rule that knows the common rate of independent groups."""
    rng = np.random.default_rng((seed, 4))
    chances = np.array([rate * (1 - rate), rate**2 + (1 - rate) ** 2, rate * (1 - rate)])
    payoffs = (THRESHOLD - np.array([1.0, 0.0, -1.0])) / (1 - THRESHOLD)
    stakes = np.linspace(0.0, 0.999, 2000)
    best = stakes[int((chances @ np.log1p(np.outer(payoffs, stakes))).argmax())]
    up, same, down = np.log1p(best * payoffs)
    wealth, open_pairs = np.zeros((groups, groups)), ~np.eye(groups, dtype=bool)
    rounds = evaluations = 0
    while open_pairs.any():
        active = open_pairs.any(axis=0) | open_pairs.any(axis=1)
        got = rng.random((groups, 16)) < rate
        for hits in got.T:
            wealth += np.where(hits[:, None] == hits, same, np.where(hits[:, None], up, down))
        rounds, evaluations = rounds + 16, evaluations + 16 * int(active.sum())
        open_pairs &= wealth < math.log(1 / DELTA)
    return rounds, evaluations


def rows_needed(trials: int | None, rate: float, alpha: float) -> int:
    """Return the rows of the smaller group until its rate is known to be less than the threshold above the other's.

    The other group has `trials` rows for each row of the smaller one; with None its rate is known.
    """
    from fairchain.statistics.intervals import clopper_pearson

    def below(rows: int) -> bool:
        got = round(rows * rate)
        if trials is None:
            return float(clopper_pearson(got, rows, 2 * alpha)[1]) - rate < THRESHOLD
        sizes = np.array([rows, rows * trials])
        counts = np.array([[got, round(rows * trials * rate)]])
        pair = np.array([[0, 0, 1]])
        return float(two_sample_bounds(sizes, counts, pair, "difference", alpha, upper=True)[0]) < THRESHOLD

    few, many = 8, 16
    while not below(many):
        few, many = many, 2 * many
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if below(middle) else (middle, many)
    return many


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # nothing is loaded
    """Measure the distances."""
    seeds, need = range(sizes.simulated), kl_of_coins(DELTA)
    counts: dict[str, list[int | None]] = {}
    shares, tied, alike = [], [], []
    for limit, share in SHARES:
        runs = [play_share(limit, share, seed) for seed in seeds]
        name = f"share {share:g}, threshold {limit:g}"
        information = share * math.log(share / limit) + (1 - share) * math.log((1 - share) / (1 - limit))
        counts[count_name(name, "rounds")] = [rounds for _, rounds in runs]
        shares.append(_distance(name, [each for each, _ in runs], need / information, [n for _, n in runs]))
    for coupled in (True, False):
        runs_of_groups = [play_groups([0.545] * 10 + [0.4] * 10, coupled, seed) for seed in seeds]
        name = f"100 tied pairs, {'coupled' if coupled else 'independent'}"
        more, less = (0.145, 0.0) if coupled else (0.545 * 0.6, 0.455 * 0.4)
        chances = np.array([more, 1 - more - less, less])
        payoffs = (np.array([[1.0], [0.0], [-1.0]]) - THRESHOLD) / (THRESHOLD if coupled else 1 + THRESHOLD)
        bound = 2 * need / growth_rate(np.maximum(payoffs, -1.0), chances)
        counts[count_name(name, "evaluations")] = [evaluations for *_, evaluations in runs_of_groups]
        tied.append(_distance(name, [each for each, *_ in runs_of_groups], bound, [n for *_, n in runs_of_groups]))
    runs_of_groups = [play_groups([0.4] * 20, False, seed) for seed in seeds]
    known = [play_oracle(0.4, 20, seed) for seed in seeds]
    name, names = "20 groups all alike", [each for each, *_ in runs_of_groups]
    counts[count_name(name, "evaluations")] = [evaluations for *_, evaluations in runs_of_groups]
    one = need / growth_rate((THRESHOLD - np.array([[1.0], [0.0], [-1.0]])) / (1 - THRESHOLD), _alike(0.4))
    alike.append(_distance(f"{name}: rounds, bound of one pair", names, one, [n for _, n, _ in runs_of_groups]))
    oracle = fmean(rounds for rounds, _ in known)
    alike.append(_distance(f"{name}: rounds, rule that knows", names, oracle, [n for _, n, _ in runs_of_groups]))
    oracle = fmean(evaluations for _, evaluations in known)
    alike.append(_distance(f"{name}: evaluations, rule that knows", names, oracle, [n for *_, n in runs_of_groups]))
    rows: list[list[Cell]] = [[each.what, each.verdict, each.bound, each.taken, each.ratio] for each in shares]
    rows += [[each.what, each.verdict, each.bound, each.taken, each.ratio] for each in tied + alike]
    return PartResult(
        text=TEXT,
        tables=[_rounds_table(rows, len(seeds)), _rows_table()],
        checks=[
            _at_most("shares: rounds / information bound", shares, MOST_SHARE),
            _at_most("100 tied pairs: evaluations / bound for one pair", tied, MOST_TIED),
        ],
        settings={"seeds": len(seeds), "delta": DELTA},
        counts=counts,
    )


def _alike(rate: float) -> Floats:
    apart = rate * (1 - rate)
    return np.array([apart, 1 - 2 * apart, apart])


def _distance(what: str, verdicts: Sequence[str], bound: float, taken: Sequence[int]) -> Distance:
    return Distance(what, "/".join(sorted(set(verdicts))), bound, fmean(taken))


def _at_most(what: str, found: list[Distance], most: float) -> Check:
    ratios = [each.ratio for each in found]
    return Check(what, max(ratios) <= most, f"{min(ratios):.2f} to {max(ratios):.2f}", f"at most {most:g}")


def _rounds_table(rows: list[list[Cell]], seeds: int) -> Table:
    columns = [Column("simulated"), Column("verdict"), Column("bound", ",.0f"), Column("taken", ",.0f")]
    columns += [Column("taken / bound", ".2f")]
    return Table(f"Simulated cases at delta 1e-6, means of {seeds} seeds", columns, rows)


def _rows_table() -> Table:
    columns = [Column("delta", "g"), Column("rows of the larger group for each row of the smaller group", ",d")]
    columns += [Column("rows", ",d"), Column("rows if the rate of the larger group is known", ",d")]
    columns.append(Column("ratio", ".2f"))
    rows: list[list[Cell]] = []
    for delta in (0.1, DELTA):
        known = rows_needed(None, 0.3, delta / 2)
        for times in (1, 10, 100, 10_000):
            needed = rows_needed(times, 0.3, delta / 2)
            rows.append([delta, times, needed, known, needed / known])
    return Table("Rows of the smaller group until FAIR, both rates 0.3, threshold 0.1", columns, rows)
