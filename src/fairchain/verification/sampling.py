"""Sampling engine: sample, count, bet, stop (the paper's Algorithm 1, lines 1-6, with a sound stopping rule).

One loop serves every rule. It decides nothing itself: it takes from the rule what to sample, samples it, and hands back
the counts, until the rule has its answer, the budget is spent, or the run is cancelled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event

import numpy as np

from fairchain.certificate_format import LOOK_CHUNK, LOOK_ROUNDS, LOOKED, Look
from fairchain.executors import Workers
from fairchain.executors.workers import Halted
from fairchain.models import OnnxModel
from fairchain.prepare import Case
from fairchain.spec import Comparison, Spec
from fairchain.spec.properties import in_own_unit, limit_of
from fairchain.statistics import (
    SHARE,
    BatchPlan,
    BettingRule,
    EstimateRule,
    Interval,
    PaperRule,
    Rule,
    Tally,
    payoff_of,
)
from fairchain.statistics.paper import DEFAULT_EPSILON
from fairchain.verification.answers import Answer, answer_from
from fairchain.verification.progress import Progress, Report
from fairchain.verification.sampler import Batch, Sampler, labels_in
from fairchain.verification.verdict import RunRecord
from fairchain.verification.witnesses import find_witnesses

# Seconds between two reports of progress: computing the bounds for one costs a few milliseconds.
REPORT_EVERY = 0.2
# A look that takes longer goes through many pairs, whose bounds will take a while too.
QUICK_LOOK = 0.01
# What bounds and sentences about one group and outcome take after the last look; measured with 50,000 of them.
SECONDS_PER_RATE = 2e-5

# Seconds for narrow intervals after the decision; those of an evaluation beside its weights, and of each weight.
CHEAP_SECONDS, SECONDS_PER_EVALUATION, SECONDS_PER_WEIGHT = 0.2, 4e-7, 1e-10
# Words of a text whose length the spec does not state.
LONG_TEXT = 512

# Whether to leave the sampling after so many evaluations and seconds.
Leave = Callable[[Rule, int, float], bool]


@dataclass(frozen=True)
class SamplingEngine:
    """Draw coupled rounds until the stopping rule has its answer, or the budget is spent.

    Parameters
    ----------
    leave
        Called before each batch with the rule, the evaluations and the seconds so far: whether another engine takes
        over. The answer then has `stopped == "left"`.
    checkpoint
        A file in which finished batches are kept, and from which a run continues.
    """

    partial: bool = True
    leave: Leave | None = None
    checkpoint: Path | None = None

    def answer(self, case: Case, *, workers: Workers, cancel: Event, progress: Report | None) -> Answer:
        """Answer a case whose inputs are drawn."""
        model, spec, comparison = case.model, case.spec, case.comparison
        assert model is not None
        rule = _rule(spec, comparison)
        start = time.perf_counter()
        # Labels of other questions are here, and not where other processes count.
        known = case.shared is not None and rule.coupled and not workers.remote
        recall = partial(case.shared.rounds, case) if known else None
        common = (model, case.population, case.seed.value, comparison)
        sampler = Sampler(*common, coupled=rule.coupled, workers=workers, recall=recall)
        with ExitStack() as stack:
            run = sampler.run
            if self.checkpoint is not None:
                from fairchain.verification.kept_batches import kept_batches

                run = stack.enter_context(kept_batches(sampler, rule, case, self.checkpoint)).run
            entries, stopped = _sample(rule, sampler, run, case, start, cancel, progress, self.leave)
            decided = len(entries)
            if stopped == "decided" and isinstance(rule, BettingRule):
                entries += _refine(rule, sampler, case, entries, start, cancel)
        record = RunRecord(case.seed, rule.coupled, comparison.rows, tuple(entries), decided=decided)
        if len(record.labels) == 1 and stopped != "left":
            deadline = start + spec.guarantee.budget.seconds
            record = replace(record, look=_second_look(sampler, spec, comparison, record, deadline, cancel))
        evaluations = sum(batch.rounds * len(comparison.asks(plan.groups)) for plan, batch in entries)
        looked = record.look.rounds * len(comparison.subgroups) if record.look is not None else 0
        return answer_from(
            case,
            rule,
            record,
            engine="sampling",
            delta=spec.guarantee.delta,
            rounds=sum(batch.rounds for _, batch in entries),
            evaluations=evaluations,
            tried=evaluations + looked,
            stopped=stopped,
            witnesses=find_witnesses(case, rule, record),
        )


def _rule(spec: Spec, comparison: Comparison) -> Rule:
    limit, guarantee = float(limit_of(spec)), spec.guarantee
    groups, outcomes = len(comparison.counted), len(comparison.rows)
    if guarantee.rule == "paper":
        epsilon = guarantee.epsilon or DEFAULT_EPSILON
        return PaperRule(groups, outcomes, limit, guarantee.delta, epsilon, len(spec.model.labels))
    compared = comparison.compared
    if guarantee.epsilon is not None:
        return EstimateRule(groups, outcomes, limit, guarantee.delta, guarantee.epsilon, compared=compared)
    payoff = payoff_of(comparison.measure, compared)
    if comparison.individual:
        # The second subgroup never changes: only the share of the first is bet on.
        payoff, compared = SHARE, np.triu(compared)
    return BettingRule(groups, outcomes, limit, guarantee.delta, compared=compared, payoff=payoff)


def _sample(
    rule: Rule,
    sampler: Sampler,
    run: Callable[[int, int, Sequence[int], Halted], Batch],
    case: Case,
    start: float,
    cancel: Event,
    progress: Report | None,
    leave: Leave | None,
) -> tuple[list[tuple[BatchPlan, Batch]], str]:
    """Plan, sample and observe until the end; return the entries of the run record and why it ended."""
    spec, budget = case.spec, case.spec.guarantee.budget
    most, deadline = int(budget.rounds), start + budget.seconds
    allowed = float("inf") if budget.evaluations is None else budget.evaluations
    entries: list[tuple[BatchPlan, Batch]] = []
    rounds = evaluations = chunk = bounded = 0
    reported = start
    outcomes, groups, _ = rule.tally.both.shape
    # The budget is for the whole answer, with a look at the last batch, the bounds of the gap and the pairs above the
    # threshold. All are measured.
    look = bounds = 0.0

    def halted(seconds: float) -> bool:
        left = deadline - time.perf_counter() - outcomes * groups * SECONDS_PER_RATE
        return cancel.is_set() or left < seconds + look + bounds

    while (plan := rule.plan()) is not None:
        if cancel.is_set():
            return entries, "interrupted"
        if rounds >= most:
            return entries, "rounds"
        asked = len(case.comparison.asks(plan.groups))
        if allowed - evaluations < asked:
            return entries, "evaluations"
        if halted(sampler.seconds):
            return entries, "seconds"
        if leave is not None and entries and leave(rule, evaluations, time.perf_counter() - start):
            return entries, "left"
        left = most - rounds if budget.evaluations is None else min(most - rounds, int(allowed - evaluations) // asked)
        batch = run(chunk, min(plan.rounds, left), plan.groups, halted)
        before = time.perf_counter()
        rule.observe(plan, Tally.of_batch(batch.rounds, batch.together, plan.groups, groups))
        look = time.perf_counter() - before
        entries.append((plan, batch))
        rounds, chunk = rounds + batch.rounds, chunk + batch.chunks
        evaluations += batch.rounds * len(case.comparison.asks(plan.groups))
        if look > QUICK_LOOK and rounds >= 2 * bounded:
            before = time.perf_counter()
            rule.gap()
            rule.violators()
            bounds, bounded = time.perf_counter() - before, rounds
        now = time.perf_counter()
        if progress is not None and now - reported > REPORT_EVERY:
            reported = now
            progress(Progress(rounds, evaluations, now - start, Interval(*in_own_unit(spec, rule.gap()))))
    # Estimate mode ends where everything is within epsilon, whatever that says about the threshold.
    return entries, "epsilon" if isinstance(rule, EstimateRule) else "decided"


def _refine(
    rule: BettingRule,
    sampler: Sampler,
    case: Case,
    entries: Sequence[tuple[BatchPlan, Batch]],
    start: float,
    cancel: Event,
) -> list[tuple[BatchPlan, Batch]]:
    """Go on after the decision until intervals are narrow; how far depends on evaluations, and on no clock."""
    guarantee, groups = case.spec.guarantee, len(case.comparison.counted)
    within, asked = guarantee.refine, len(case.comparison.subgroups)
    if within is None:
        return []
    budget, deadline = guarantee.budget, start + guarantee.budget.seconds
    left = cheap_evaluations(case)
    if budget.evaluations is not None:
        used = sum(batch.rounds * len(case.comparison.asks(plan.groups)) for plan, batch in entries)
        left = min(left, int(budget.evaluations) - used)
    rounds_left = min(left // asked, int(budget.rounds) - sum(batch.rounds for _, batch in entries))
    chunk = sum(batch.chunks for _, batch in entries)
    further: list[tuple[BatchPlan, Batch]] = []

    def halted(seconds: float) -> bool:
        return cancel.is_set() or deadline - time.perf_counter() < seconds

    while not halted(sampler.seconds) and (plan := rule.refine(within, rounds_left)) is not None:
        batch = sampler.run(chunk, plan.rounds, plan.groups, halted)
        rule.observe(plan, Tally.of_batch(batch.rounds, batch.together, plan.groups, groups))
        further.append((plan, batch))
        chunk, rounds_left = chunk + batch.chunks, rounds_left - batch.rounds
    return further


def cheap_evaluations(case: Case) -> int:
    """Return about how many evaluations of an ONNX network take 0.2 s; 0 for every other model.

    It follows from the size of the network, so that it is the same on every machine. A network that reads texts goes
    through its weights once for each word.
    """
    if not isinstance(case.model, OnnxModel):
        return 0
    words = 1 if case.spec.text is None else case.spec.text.length or LONG_TEXT
    weights = len(case.model.content) / 4 * words
    return int(CHEAP_SECONDS / (SECONDS_PER_EVALUATION + weights * SECONDS_PER_WEIGHT))


def _second_look(
    sampler: Sampler,
    spec: Spec,
    comparison: Comparison,
    record: RunRecord,
    deadline: float,
    cancel: Event,
) -> Look:
    """Show more inputs to a model that gave one label so far, until it gives another or enough were tried.

    A verdict can take a few hundred inputs, and a model with a rare outcome may give it to none of them. The budget
    holds here too. Nothing is counted, so the guarantee is not touched.
    """
    subgroups, done, found = range(len(comparison.subgroups)), 0, set(record.labels)
    budget = spec.guarantee.budget
    left = int(budget.rounds) - sum(batch.rounds for _, batch in record.entries)
    if budget.evaluations is not None:
        used = sum(batch.rounds * len(comparison.asks(plan.groups)) for plan, batch in record.entries)
        left = min(left, max(0, int(budget.evaluations) - used) // len(subgroups))
    most = min(-(-LOOKED // len(subgroups)), left)
    while done < most and len(found) < 2 and not cancel.is_set() and time.perf_counter() < deadline:
        count = min(LOOK_ROUNDS, most - done)
        found |= labels_in(sampler.labels(LOOK_CHUNK + done // LOOK_ROUNDS, count, subgroups))
        done += count
    return Look(done, sorted(found))
