"""Many runs of each method near a threshold; other methods run on counts, because rates are all they look at.

A method that draws each group's inputs independently sees binomial counts. Given the rates of the groups, its runs can
be simulated by draws of those, many at once; nothing about them changes, except that no network is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks import paper
from benchmarks.baselines.bootstrap import bootstrap
from benchmarks.baselines.counts import Count, Names, Runs, verdicts_of
from benchmarks.baselines.fixed_sample import fixed_sample, planned
from benchmarks.baselines.sequences import confidence_sequences
from benchmarks.baselines.verifair import verifair_on_counts
from benchmarks.cases import DELTA
from benchmarks.parts.estimates import until_stopped
from fairchain.statistics import PaperRule, Tally

OURS, APART = "fairchain", "fairchain, groups drawn independently"
VERIFAIR, SEQUENCES, FIXED = "VeriFair", "sequences, union bound", "fixed sample, planned"
AUTHORS = "VeriFair, 5e-11 for each group as its authors"
ONCE, LOOKING, RULE = "bootstrap 95%, one look", "bootstrap 95%, looks until decided", "the paper's rule"
# Methods that continue until they decide, or reach a limit of evaluations.
SEQUENTIAL = {OURS, APART, VERIFAIR, AUTHORS, SEQUENCES}
LOOSE = 0.05
# Runs whose evaluations are kept to be compared: more than a small size makes.
COMPARED = 10
# Of counts that many runs share.
COUNTS_SEED = 1
DELTAS = (DELTA, LOOSE)
TESTED, LOOKS = 2000, (250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000)


@dataclass(frozen=True)
class MethodRuns:
    """All runs of one method on one network and one threshold."""

    method: str
    delta: float | None
    runs: Runs
    # The right verdict; none at a gap of exactly the threshold.
    right: str | None
    seconds: float | None = None

    @property
    def total(self) -> int:
        """The number of runs."""
        return len(self.runs.decisions)

    @property
    def undecided(self) -> int:
        """The number of undecided runs."""
        return int((self.runs.decisions == "UNDECIDED").sum())

    @property
    def wrong(self) -> int:
        """The number of runs with a wrong verdict."""
        return sum(name not in ("UNDECIDED", self.right) for name in self.runs.decisions.tolist())

    @property
    def mean(self) -> float:
        """The mean number of evaluations of a run."""
        return float(self.runs.evaluations.mean())

    @property
    def capped(self) -> int:
        """The number of runs that reached the limit of evaluations, which says nothing about the method."""
        return self.undecided if self.method in SEQUENTIAL else 0

    @property
    def evaluations_cell(self) -> str:
        """The mean number of evaluations, as a table's cell."""
        if not self.capped:
            return f"{self.mean:,.0f}"
        return "cap" if self.capped == self.total else f"over {self.mean:,.0f} (cap in {self.capped})"

    @property
    def errors(self) -> str:
        """Wrong and undecided runs, as a table's cell."""
        return f"{self.wrong} wrong" + (f", {self.undecided} undecided" if self.undecided else "")


def delta_text(delta: float | None) -> str:
    """Return a delta as it is printed in tables."""
    return "-" if delta is None else f"{delta:g}".replace("e-0", "e-")


def compared_counts(line: MethodRuns) -> list[int | None]:
    """Return the evaluations of the first runs, None where a run reached the limit, which depends on the size."""
    runs = zip(line.runs.decisions.tolist(), line.runs.evaluations.tolist(), strict=True)
    return [None if name == "UNDECIDED" else count for name, count in runs][:COMPARED]


def counting(rates: NDArray[np.float64], runs: int) -> Count:
    """Return the counts of more and more inputs of each group, drawn independently."""
    rng = np.random.default_rng(COUNTS_SEED)

    def count(size: int) -> NDArray[np.int64]:
        return rng.binomial(size, rates, (runs, len(rates)))

    return count


def with_guarantee(
    rates: NDArray[np.float64], threshold: float, runs: int, most: int, *, plan_for: NDArray[np.float64] | None = None
) -> dict[tuple[str, float | None], Runs]:
    """Run the methods with the guarantee of fairchain, at both deltas; the fixed sample is planned from the rates."""
    count, groups = counting(rates, runs), len(rates)
    found: dict[tuple[str, float | None], Runs] = {}
    for delta in DELTAS:
        found[VERIFAIR, delta] = verifair_on_counts(count, groups, threshold, delta, most)
        found[SEQUENCES, delta] = confidence_sequences(count, groups, threshold, delta, most)
        size = planned(rates if plan_for is None else plan_for, threshold, delta)
        decisions = fixed_sample(count(size), size, threshold, delta)
        found[FIXED, delta] = Runs(decisions, np.full(runs, size * groups))
    return found


def by_bootstrap(count: Count, groups: int, threshold: float) -> Runs:
    """Run a bootstrap on one sample of each group."""
    decisions = verdicts_of(bootstrap(count(TESTED), TESTED, 0), threshold)
    return Runs(decisions, np.full(len(decisions), TESTED * groups))


def by_looking(count: Count, groups: int, threshold: float) -> Runs:
    """Run a bootstrap after 250, 500, ... inputs of each group, until it decides."""
    seen, done = count(LOOKS[0]), LOOKS[0]
    decisions: Names = np.full(len(seen), "UNDECIDED")
    evaluations = np.zeros(len(seen), np.int64)
    for size in LOOKS:
        if size > done:
            seen, done = seen + count(size - done), size
        going = decisions == "UNDECIDED"
        if not going.any():
            break
        evaluations[going] = size * groups
        decisions[going] = verdicts_of(bootstrap(seen[going], size, size), threshold)
    return Runs(decisions, evaluations)


def by_paper(count: Callable[[int, int], Tally], groups: int, labels: int, threshold: float, runs: int) -> Runs:
    """Run the paper's rule to the letter; `count` takes the run and the number of inputs of each group."""
    decisions, evaluations = [], []
    for run in range(runs):
        rule = PaperRule(groups, 1, threshold, paper.DELTA, paper.EPSILON, labels)
        evaluations.append(int(until_stopped(rule, partial(count, run)).trials.sum()))
        decisions.append(rule.decision.name)
    return Runs(np.array(decisions), np.array(evaluations))
