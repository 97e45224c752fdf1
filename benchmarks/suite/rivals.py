"""What methods said in many runs near a threshold, and the other methods on counts: they look at rates and no more.

A method that draws each group's people by themselves sees binomial counts. Given the rates of the groups, its runs can
be played on draws of those, many at once; nothing about them changes, except that no network is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.bootstrap import bootstrap
from benchmarks.baselines.counts import Count, Names, Runs, said
from benchmarks.baselines.fixed_sample import fixed_sample, planned
from benchmarks.baselines.sequences import confidence_sequences
from benchmarks.baselines.verifair import verifair_on_counts
from benchmarks.suite import paper
from benchmarks.suite.cases import DELTA
from benchmarks.suite.promises import until_stopped
from fairchain.statistics import PaperRule, Tally

OURS, APART = "fairchain", "fairchain, groups drawn apart"
VERIFAIR, SEQUENCES, FIXED = "VeriFair", "sequences, union bound", "fixed sample, planned"
AUTHORS = "VeriFair, 5e-11 for each group as its authors"
ONCE, LOOKING, RULE = "bootstrap 95%, one look", "bootstrap 95%, looks until decided", "the paper's rule"
# Those that go on until they are decided, or may ask no more.
SEQUENTIAL = {OURS, APART, VERIFAIR, AUTHORS, SEQUENCES}
LOOSE = 0.05
# Runs whose evaluations are kept to be compared: more than a small size makes.
COMPARED = 10
# Of counts that many runs share.
COUNTS_SEED = 1
DELTAS = (DELTA, LOOSE)
TESTED, LOOKS = 2000, (250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000)


@dataclass(frozen=True)
class Line:
    """What one method said in all runs about one network and one threshold."""

    method: str
    promised: float | None
    runs: Runs
    # What is right; nothing is at a gap of exactly the threshold.
    right: str | None
    seconds: float | None = None

    @property
    def total(self) -> int:
        """How many runs there were."""
        return len(self.runs.decisions)

    @property
    def undecided(self) -> int:
        """How many runs said nothing."""
        return int((self.runs.decisions == "UNDECIDED").sum())

    @property
    def wrong(self) -> int:
        """How many runs said what is not so."""
        return sum(name not in ("UNDECIDED", self.right) for name in self.runs.decisions.tolist())

    @property
    def mean(self) -> float:
        """Evaluations of a run."""
        return float(self.runs.evaluations.mean())

    @property
    def capped(self) -> int:
        """Runs that ended because they might ask no more: their evaluations say nothing about the method."""
        return self.undecided if self.method in SEQUENTIAL else 0

    @property
    def asked(self) -> str:
        """Evaluations of a run, as a table's cell."""
        if not self.capped:
            return f"{self.mean:,.0f}"
        return "cap" if self.capped == self.total else f"over {self.mean:,.0f} (cap in {self.capped})"

    @property
    def errors(self) -> str:
        """Wrong runs, and undecided ones, as a table's cell."""
        return f"{self.wrong} wrong" + (f", {self.undecided} undecided" if self.undecided else "")


def shown(delta: float | None) -> str:
    """A delta as tables have it."""
    return "-" if delta is None else f"{delta:g}".replace("e-0", "e-")


def run_of(line: Line, seed: int) -> tuple[str, str]:
    """What names one run of a line, beside its network."""
    return f"delta {shown(line.promised)}", f"seed {seed}"


def counting(rates: NDArray[np.float64], runs: int) -> Count:
    """Counts of more and more people of each group, drawn apart."""
    rng = np.random.default_rng(COUNTS_SEED)

    def count(people: int) -> NDArray[np.int64]:
        return rng.binomial(people, rates, (runs, len(rates)))

    return count


def keeping_a_promise(
    rates: NDArray[np.float64], threshold: float, runs: int, most: int, *, plan_for: NDArray[np.float64] | None = None
) -> dict[tuple[str, float | None], Runs]:
    """Those that promise what fairchain promises, at both deltas; the fixed sample is told the rates to plan with."""
    count, groups = counting(rates, runs), len(rates)
    found: dict[tuple[str, float | None], Runs] = {}
    for delta in DELTAS:
        found[VERIFAIR, delta] = verifair_on_counts(count, groups, threshold, delta, most)
        found[SEQUENCES, delta] = confidence_sequences(count, groups, threshold, delta, most)
        people = planned(rates if plan_for is None else plan_for, threshold, delta)
        decisions = fixed_sample(count(people), people, threshold, delta)
        found[FIXED, delta] = Runs(decisions, np.full(runs, people * groups))
    return found


def by_bootstrap(count: Count, groups: int, threshold: float) -> Runs:
    """One look at so many people of each group."""
    decisions = said(bootstrap(count(TESTED), TESTED, 0), threshold)
    return Runs(decisions, np.full(len(decisions), TESTED * groups))


def by_looking(count: Count, groups: int, threshold: float) -> Runs:
    """A bootstrap after 250, 500, ... people of each group, until it says something."""
    seen, done = count(LOOKS[0]), LOOKS[0]
    decisions: Names = np.full(len(seen), "UNDECIDED")
    evaluations = np.zeros(len(seen), np.int64)
    for people in LOOKS:
        if people > done:
            seen, done = seen + count(people - done), people
        going = decisions == "UNDECIDED"
        if not going.any():
            break
        evaluations[going] = people * groups
        decisions[going] = said(bootstrap(seen[going], people, people), threshold)
    return Runs(decisions, evaluations)


def by_paper(count: Callable[[int, int], Tally], groups: int, labels: int, threshold: float, runs: int) -> Runs:
    """The paper's rule to the letter; `count` takes the run and how many people of each group."""
    decisions, evaluations = [], []
    for run in range(runs):
        rule = PaperRule(groups, 1, threshold, paper.DELTA, paper.EPSILON, labels)
        evaluations.append(int(until_stopped(rule, partial(count, run)).trials.sum()))
        decisions.append(rule.decision.name)
    return Runs(np.array(decisions), np.array(evaluations))
