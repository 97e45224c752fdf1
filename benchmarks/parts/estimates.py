"""The paper's accuracy by its own rule and in estimate mode: many runs of each, and how often each exceeds it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray

from benchmarks import paper
from benchmarks.cases import Case, Truth
from benchmarks.measuring import blocks, on_all_cores
from benchmarks.results import Cell, Check, Column, Table
from benchmarks.sizes import Sizes
from fairchain import verify
from fairchain.spec import revise
from fairchain.statistics import Decision, PaperRule, Tally

ESTIMATE = {"guarantee__delta": paper.DELTA, "guarantee__epsilon": paper.EPSILON}
# How often a check may fail though the guarantee holds.
FALSE_ALARM = 1e-6


@dataclass(frozen=True)
class Repeated:
    """Runs with fresh inputs: their evaluations, and the number of runs with an error above the guaranteed one."""

    runs: int
    evaluations: int
    seconds: float
    pair_off: int
    largest_off: int
    any_off: int
    wrong: int

    def __add__(self, other: Repeated) -> Repeated:
        return Repeated(*(one + more for one, more in zip(vars(self).values(), vars(other).values(), strict=True)))

    def share(self, count: int) -> float | None:
        """Of all runs."""
        return count / self.runs if self.runs else None

    def each(self, total: float) -> float | None:
        """The mean over runs."""
        return total / self.runs if self.runs else None


NONE = Repeated(0, 0, 0.0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Job:
    """Some runs of one kind on one case."""

    case: Case
    truth: Truth
    seeds: range
    once: Callable[[Case, Truth, int], Repeated]


def done(job: Job) -> Repeated:
    """All of the job's runs together, after one that warms up."""
    job.case.verdict(0)
    return reduce(Repeated.__add__, (job.once(job.case, job.truth, seed) for seed in job.seeds), NONE)


def paper_rule(case: Case, truth: Truth, seed: int) -> Repeated:
    """One run of the paper's rule to the letter, on inputs of each group drawn apart."""
    start = time.perf_counter()
    rule = PaperRule(case.groups, 1, paper.THRESHOLD, paper.DELTA, paper.EPSILON, len(case.spec.model.labels))
    observed = until_stopped(rule, partial(case.count, seed, coupled=False))
    seconds = time.perf_counter() - start
    largest = float(np.ptp(observed.rates[0]))
    return _judged(observed.rates, largest, truth, rule.decision, int(observed.trials.sum()), seconds)


def until_stopped(rule: PaperRule, count: Callable[[int], Tally]) -> Tally:
    """Give the rule all traces that its H(n) requires at once: H(n) does not depend on them (docs/mathematics.md)."""
    plan = rule.plan()
    assert plan is not None
    rule.observe(plan, count(int(np.ceil(rule.needed()))))
    assert rule.decision is not Decision.UNDECIDED
    return rule.tally


def estimate(case: Case, truth: Truth, seed: int) -> Repeated:
    """One run of estimate mode at the paper's accuracy and delta."""
    start = time.perf_counter()
    verdict = verify(case.model, revise(case.spec, **ESTIMATE), seed=seed, workers=1)
    seconds = time.perf_counter() - start
    # With two labels, and no outcome named, one is counted and the other's probabilities are reported besides.
    rates = np.array([each.probability.estimate for each in verdict.groups if each.outcome == case.outcome])[None]
    return _judged(rates, verdict.gap.estimate, truth, verdict.decision, verdict.evaluations, seconds)


def _judged(
    rates: NDArray[np.float64], largest: float, truth: Truth, decision: Decision, evaluations: int, seconds: float
) -> Repeated:
    # The truth itself is not known exactly: what may be its error is not counted.
    high, low, allowed = int(truth.rates[0].argmax()), int(truth.rates[0].argmin()), paper.EPSILON + truth.error
    pair = abs(rates[0, high] - rates[0, low] - truth.gap) > allowed
    most = abs(largest - truth.gap) > allowed
    group = float(np.abs(rates - truth.rates).max()) > allowed
    wrong = decision.name != truth.verdict
    return Repeated(1, evaluations, seconds, int(pair), int(most), int(most or group), int(wrong))


@dataclass(frozen=True)
class BothRules:
    """Both on one case."""

    rule: Repeated
    estimate: Repeated


def repeated(truths: dict[Case, Truth], sizes: Sizes) -> dict[Case, BothRules]:
    """The paper's rule and estimate mode on every case, as often as the size says."""
    jobs, owners = [], []
    for case, truth in truths.items():
        # A copy has no network loaded, so that it can be handed to another process.
        fresh = replace(case)
        for once in (paper_rule, estimate):
            short = once is estimate and case.reads_texts
            for seeds in blocks(sizes.text_repetitions if short else sizes.repetitions):
                jobs.append(Job(fresh, truth, seeds, once))
                owners.append((case, once))
    found = dict.fromkeys([(case, once) for case in truths for once in (paper_rule, estimate)], NONE)
    for owner, result in zip(owners, on_all_cores(done, jobs, parallel=sizes.paper), strict=True):
        found[owner] += result
    return {case: BothRules(found[case, paper_rule], found[case, estimate]) for case in truths}


def table(found: dict[Case, BothRules], sizes: Sizes) -> Table:
    """The failures of both, side by side."""
    columns = [Column("network"), Column("case"), Column("paper's rule: traces", ",.0f")]
    columns += [Column(f"paper's rule: {what}", ".1%") for what in ("widest pair", "largest difference", "any value")]
    columns += [Column("estimate mode: evaluations", ",.0f")]
    columns += [Column(f"estimate mode: {what}", ".1%") for what in ("largest difference", "any value")]
    columns += [Column("estimate mode: ms on one core", ",.0f")]
    rows: list[list[Cell]] = []
    for case, each in found.items():
        rule, ours = each.rule, each.estimate
        row: list[Cell] = [case.owner, case.name, rule.each(rule.evaluations)]
        row += [rule.share(count) for count in (rule.pair_off, rule.largest_off, rule.any_off)]
        row += [ours.each(ours.evaluations), ours.share(ours.largest_off), ours.share(ours.any_off)]
        rows.append([*row, ours.each(1e3 * ours.seconds)])
    title = f"The paper's accuracy: runs with an error above {paper.EPSILON:g}, by its rule and in estimate mode"
    return Table(title, columns, rows, _note(found, sizes))


def _note(found: dict[Case, BothRules], sizes: Sizes) -> str:
    rule = reduce(Repeated.__add__, (each.rule for each in found.values()), NONE)
    texts = f" (estimate mode on comments: {sizes.text_repetitions})" if any(c.reads_texts for c in found) else ""
    alarm = f"{FALSE_ALARM:g}".replace("e-0", "e-")
    return (
        f"The paper's rule and estimate mode have {sizes.repetitions} runs for each case{texts}. The percentages are "
        f"shares of runs with an error above {paper.EPSILON:g}. *Widest pair* is the error of the difference of one "
        "pair: the pair of groups with the largest true difference. *Largest difference* is the error of the largest "
        "difference over all pairs. *Any value* counts a run if the largest difference, or the selection rate "
        f"of any group, has an error above {paper.EPSILON:g}. The true rates are estimated from {sizes.truth:,} rounds"
        + (f" ({sizes.text_truth:,} for comments)" if any(c.reads_texts for c in found) else "")
        + f". An error counts only if it exceeds {paper.EPSILON:g} by more than two standard errors of these rates."
        f"\n\nThe paper claims that the error of an estimated difference is above {paper.EPSILON:g} in at most "
        f"{paper.DELTA:.0%} of runs. Estimate mode guarantees the same for the selection rates of all groups and for "
        f"all differences simultaneously. In {len(broken(found))} of {len(found)} cases, the paper's rule has an error "
        f"above {paper.EPSILON:g} for the widest pair in significantly more runs (p at most {alarm}) than the paper "
        'claims. The paper\'s rule is run exactly as published (`rule = "paper"`), and needs fewer traces than the '
        "paper's tables report. With many groups, its estimate of the largest difference is biased upwards. The "
        f"paper's rule gave {rule.wrong} wrong verdicts in {rule.runs:,} runs, because these gaps are far from the "
        "threshold. [Another section](#wrong-verdicts-near-the-threshold) shows wrong verdicts of the paper's rule "
        "near the threshold."
    )


def most_failures(runs: int, delta: float) -> int:
    """Return the most failures that delta explains: more have at most the probability of a false alarm."""
    from scipy.special import bdtrc

    return next(count for count in range(runs + 1) if count == runs or bdtrc(count, runs, delta) <= FALSE_ALARM)


def within_delta(found: dict[Case, BothRules]) -> Check:
    """Estimate mode fails in no case more often than its delta explains."""
    ours = {case: each.estimate for case, each in found.items() if each.estimate.runs}
    limits = {case: most_failures(each.runs, paper.DELTA) for case, each in ours.items()}
    worst = max(ours, key=lambda case: ours[case].any_off / max(limits[case], 1))
    runs = ours[worst].runs
    return Check(
        "estimate mode at the paper's accuracy: runs with an error above 0.01, in the worst case",
        all(each.any_off <= limits[case] for case, each in ours.items()),
        f"{ours[worst].any_off} of {runs} ({worst.title})",
        f"at most {limits[worst]} of {runs} (at delta {paper.DELTA:g}, more have probability at most 1e-6)",
    )


def all_runs(found: dict[Case, BothRules], sizes: Sizes) -> Check:
    """Nothing was cut short."""
    wanted = made = 0
    for case, each in found.items():
        wanted += sizes.repetitions + (sizes.text_repetitions if case.reads_texts else sizes.repetitions)
        made += each.rule.runs + each.estimate.runs
    name = "runs of the paper's rule and of estimate mode that were made"
    return Check(name, made == wanted, f"{made:,} of {wanted:,}", "all")


def broken(found: dict[Case, BothRules]) -> Sequence[str]:
    """Cases in which the paper's rule failed more often than its delta explains."""
    return [
        case.title for case, each in found.items() if each.rule.pair_off > most_failures(each.rule.runs, paper.DELTA)
    ]
