"""Sampling engine: sample, count, bet, stop (the paper's Algorithm 1, lines 1-6, with a sound stopping rule).

One loop serves every rule. It decides nothing itself: it asks the rule for a plan, samples accordingly, and passes the
counts to the rule, until the rule has its answer, the budget is spent, or the run is cancelled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fairchain.certificate_format import LOOK_CHUNK, LOOK_ROUNDS, LOOKED, Look
from fairchain.errors import StoppedError
from fairchain.executors import Workers
from fairchain.executors.workers import Halted
from fairchain.models import OnnxModel
from fairchain.prepare import Case
from fairchain.spec import Comparison, Spec
from fairchain.spec.properties import in_own_unit, limit_of, shifts_alike
from fairchain.statistics import (
    SHARE,
    BatchPlan,
    BettingRule,
    Decision,
    EstimateRule,
    Interval,
    PaperRule,
    Payoff,
    Rule,
    Tally,
    payoff_of,
)
from fairchain.statistics.e_values import FEW_AT_ONCE
from fairchain.statistics.paper import DEFAULT_EPSILON
from fairchain.statistics.rules import RefiningRule
from fairchain.verification.answers import Answer
from fairchain.verification.progress import Progress, Report
from fairchain.verification.sampler import Batch, Sampler, labels_in
from fairchain.verification.verdict import RunRecord
from fairchain.verification.witnesses import find_witnesses

if TYPE_CHECKING:
    from fairchain.statistics.shifted import ShiftQuestion

# Seconds between two reports of progress: computing the bounds for one costs a few milliseconds.
REPORT_EVERY = 0.2
# A check of the rule that takes longer has many pairs, whose bounds will also be slow.
QUICK_LOOK = 0.01
# Seconds for the bounds and sentences of one group and outcome after the last check; measured with 50,000 of them, and
# doubled.
SECONDS_PER_RATE = 1e-5
# Seconds of the first check and its bounds for each pair and outcome; measured with 25 million of them, and doubled.
SECONDS_PER_PAIR = 1.2e-7
# With more pairs and outcomes than this, the time is measured on one outcome.
MANY_PAIRS = 2**20
# Safety factor for the seconds of the last check and the bounds, relative to the measured ones.
SLOWER = 1.5

# Width of the intervals for which commands and reports continue after the decision.
REFINE = 0.01
# Seconds for narrow intervals after the decision; seconds of an evaluation apart from its weights, and of each weight.
CHEAP_SECONDS, SECONDS_PER_EVALUATION, SECONDS_PER_WEIGHT = 0.2, 4e-7, 1e-10
# Further inputs that test whether a model is constant, if its answers cost time or money.
LOOKED_COSTLY = 512
# Number of words assumed for a text if the spec does not state it.
LONG_TEXT = 512

# Whether to stop sampling after these evaluations and seconds.
Leave = Callable[[Rule, int, float], bool]


class SamplingEngine(Struct, frozen=True):
    """Engine that draws coupled rounds until the stopping rule has its answer, or the budget is spent.

    `leave` is called before each batch: whether another engine takes over. The answer then has `stopped == "left"`.
    `checkpoint` is a file in which finished batches are stored, and from which a run continues.
    """

    partial: bool = True
    leave: Leave | None = None
    checkpoint: Path | None = None

    def answer(self, case: Case, *, workers: Workers, cancel: Event, progress: Report | None) -> Answer:
        """Answer a case with drawn inputs."""
        model, spec, comparison = case.model, case.spec, case.comparison
        assert model is not None
        rule = rule_for(spec, comparison)
        start = time.perf_counter()
        deadline = start + case.seconds
        # The labels of other questions are in this process, not in the others.
        known = case.shared is not None and rule.coupled and not workers.remote
        recall = partial(case.shared.rounds, case) if known else None
        common = (model, case.population, case.seed.value, comparison)
        sampler = Sampler(*common, coupled=rule.coupled, workers=workers, recall=recall)
        with ExitStack() as stack:
            run = sampler.run
            if self.checkpoint is not None:
                from fairchain.verification.kept_batches import kept_batches

                run = stack.enter_context(kept_batches(sampler, rule, case, self.checkpoint)).run
            entries, stopped = sample_rounds(rule, sampler, run, case, start, deadline, cancel, progress, self.leave)
            decided = len(entries)
            if stopped not in ("left", "decided") and isinstance(rule, BettingRule):
                rule.settle()
                stopped = stopped if rule.decision is Decision.UNDECIDED else "decided"
            elif stopped == "decided":
                entries += _refine(rule, sampler, case, entries, deadline, cancel)
        record = RunRecord(case.seed, rule.coupled, comparison.rows, tuple(entries), decided=decided)
        if len(record.labels) == 1:
            record = replace(record, look=_second_look(sampler, case, record, deadline, cancel))
        evaluations = sum(batch.rounds * len(comparison.evaluated(plan.groups)) for plan, batch in entries)
        looked = record.look.rounds * len(comparison.subgroups) if record.look is not None else 0
        search = partial(find_witnesses, case, rule, record, seconds=deadline - time.perf_counter())
        quick = isinstance(model, OnnxModel) and rule.tally.both.size <= FEW_AT_ONCE
        return Answer(
            spec=spec,
            found=rule,
            record=record,
            engine="sampling",
            delta=spec.guarantee.delta,
            rounds=sum(batch.rounds for _, batch in entries),
            evaluations=evaluations,
            tried=evaluations + looked,
            stopped=stopped,
            witnesses=() if quick else search(),
            search=search if quick else None,
            tally=rule.tally,
        )


def rule_for(spec: Spec, comparison: Comparison) -> Rule:
    """Return a new rule for a question about drawn inputs."""
    limit, guarantee = float(limit_of(spec)), spec.guarantee
    groups, outcomes = len(comparison.counted), len(comparison.rows)
    if guarantee.rule == "paper":
        epsilon = guarantee.epsilon or DEFAULT_EPSILON
        return PaperRule(groups, outcomes, limit, guarantee.delta, epsilon, len(spec.model.labels))
    if guarantee.epsilon is not None:
        compared = comparison.compared
        return EstimateRule(groups, outcomes, limit, guarantee.delta, guarantee.epsilon, compared=compared)
    if (question := shift_question(spec, comparison)) is not None:
        from fairchain.statistics.shifted import ShiftRule

        return ShiftRule(question, guarantee.delta)
    return betting_rule(comparison, limit, guarantee.delta)


def shift_question(spec: Spec, comparison: Comparison) -> ShiftQuestion | None:
    """Return the question about the populations within a factor; None for the assumed one alone."""
    prop = spec.property
    if prop.shift is None:
        return None
    from fairchain.statistics.shifted import ShiftQuestion

    return ShiftQuestion(prop.shift, shifts_alike(spec), comparison.compared, comparison.measure, float(limit_of(spec)))


def betting_rule(comparison: Comparison, limit: float, delta: float) -> BettingRule:
    """Return a new betting rule for a comparison with the largest fair gap `limit`."""
    payoff, compared = bets_of(comparison)
    groups, outcomes = len(comparison.counted), len(comparison.rows)
    return BettingRule(groups, outcomes, limit, delta, compared=compared, payoff=payoff)


def bets_of(comparison: Comparison) -> tuple[Payoff, NDArray[np.bool_]]:
    """Return the payoffs of the bets, and the ordered pairs that bet, (outcomes, groups, groups)."""
    if comparison.individual:
        # The second subgroup never changes: only the share of the first is bet on.
        return SHARE, np.triu(comparison.compared)
    return payoff_of(comparison.measure, comparison.compared), comparison.compared


def sample_rounds(
    rule: Rule,
    sampler: Sampler,
    run: Callable[[int, int, Sequence[int], Halted, int], Batch],
    case: Case,
    start: float,
    deadline: float,
    cancel: Event,
    progress: Report | None,
    leave: Leave | None,
) -> tuple[list[tuple[BatchPlan, Batch]], str]:
    """Plan, sample and observe until the end; return the entries of the run record and the reason for the end."""
    spec, budget = case.spec, case.spec.guarantee.budget
    most = int(budget.rounds)
    allowed = float("inf") if budget.evaluations is None else budget.evaluations
    entries: list[tuple[BatchPlan, Batch]] = []
    rounds = evaluations = chunk = 0
    reported, cut = start, ""
    groups, costly = rule.tally.both.shape[1], getattr(case.model, "costly", False)
    after = _AfterSampling(rule, deadline, cancel)
    while (plan := rule.plan()) is not None:
        # A batch that is shorter than planned is the last, because later plans assume whole batches.
        if cut:
            return entries, cut
        if cancel.is_set():
            return entries, "interrupted"
        if rounds >= most:
            return entries, "rounds"
        each_round = len(case.comparison.evaluated(plan.groups))
        if allowed - evaluations < each_round:
            return entries, "evaluations"
        left = most - rounds
        if budget.evaluations is not None:
            left = min(left, int(allowed - evaluations) // each_round)
        if after.halted(sampler.seconds_for(plan.rounds, plan.groups, left)):
            return entries, "seconds"
        if leave is not None and entries and leave(rule, evaluations, time.perf_counter() - start):
            return entries, "left"
        wanted = min(plan.rounds, left)
        if costly:
            after_it = rule.rounds_after(wanted)
            sampler.after = (after_it, min(after_it, left - wanted)) if left > wanted else None
        try:
            batch = run(chunk, plan.rounds, plan.groups, after.halted, left)
        except StoppedError:
            return entries, "interrupted"
        before = time.perf_counter()
        rule.observe(plan, Tally.of_batch(batch.rounds, batch.together, plan.groups, groups))
        now = time.perf_counter()
        after.measured(now - before, rounds + batch.rounds)
        entries.append((plan, batch))
        rounds, chunk = rounds + batch.rounds, chunk + batch.chunks
        evaluations += batch.rounds * each_round
        if batch.rounds < plan.rounds:
            spent = "rounds" if rounds >= most else "evaluations" if batch.rounds == left else "seconds"
            cut = "interrupted" if cancel.is_set() else spent
        if progress is not None and now - reported > REPORT_EVERY:
            reported = now
            progress(Progress(rounds, evaluations, now - start, Interval(*in_own_unit(spec, rule.gap()))))
    # Estimate mode ends when every interval is within epsilon, whatever this implies for the threshold.
    return entries, "epsilon" if isinstance(rule, EstimateRule) else "decided"


class _AfterSampling:
    """Seconds that the answer takes after the last round: the budget is for the whole answer.

    They are for a check of the last batch, the bounds of the gap, the pairs above the threshold, and the bounds of each
    rate. Checks and bounds are measured; before the first check their time follows from the number of pairs, or from a
    trial with one outcome if there are very many.
    """

    def __init__(self, rule: Rule, deadline: float, cancel: Event) -> None:
        outcomes, groups, _ = rule.tally.both.shape
        self._rule, self._deadline, self._cancel = rule, deadline, cancel
        self._rates: float = outcomes * groups * SECONDS_PER_RATE
        self._pairs: float = rule.tally.both.size * SECONDS_PER_PAIR
        if rule.tally.both.size > MANY_PAIRS:
            # A busy machine is slower: one outcome is timed, and all of them are expected to take as long each. The
            # first of three trials also loads code, and any of them may be disturbed.
            self._pairs = 2 * outcomes * min(_trial_look(groups, outcomes) for _ in range(3))
        self._bounds, self._bounded = 0.0, 0

    @property
    def seconds(self) -> float:
        """The seconds to reserve."""
        return self._rates + self._pairs

    def halted(self, seconds: float) -> bool:
        """Return whether to start nothing more that takes this many seconds."""
        return self._cancel.is_set() or self._deadline - time.perf_counter() < seconds + self.seconds

    def measured(self, look: float, rounds: int) -> None:
        """Record the seconds of the last check; the bounds are timed each time the rounds have doubled."""
        if look > QUICK_LOOK and rounds >= 2 * self._bounded:
            before = time.perf_counter()
            self._rule.gap()
            self._rule.violators()
            self._bounds, self._bounded = time.perf_counter() - before, rounds
        self._pairs = SLOWER * (look + self._bounds)


def _trial_look(groups: int, outcomes: int) -> float:
    """Return the seconds of a check, and of its bounds, for artificial counts of one of this many outcomes."""
    start = time.perf_counter()
    rounds, rule = 1024, BettingRule(groups, 1, 0.1, 1e-6)
    own = np.maximum(rounds / outcomes * (1 + 0.1 * np.sin(np.arange(groups))), 1).astype(np.int64)
    together = np.minimum(own[:, None], own)
    rule.observe(BatchPlan(rounds, tuple(range(groups))), Tally.of_batch(rounds, together[None], range(groups), groups))
    rule.gap()
    rule.violators()
    return time.perf_counter() - start


def _refine(
    rule: Rule, sampler: Sampler, case: Case, entries: Sequence[tuple[BatchPlan, Batch]], deadline: float, cancel: Event
) -> list[tuple[BatchPlan, Batch]]:
    """Continue after the decision until intervals are narrow; the end depends on evaluations only, not on time.

    A batch that is shorter than planned is the last.
    """
    guarantee, groups = case.spec.guarantee, len(case.comparison.counted)
    within, each_round = guarantee.refine, len(case.comparison.subgroups)
    plan, batch = entries[-1]
    if not isinstance(rule, RefiningRule) or within is None or batch.rounds < plan.rounds:
        return []
    budget, left = guarantee.budget, cheap_evaluations(case)
    if budget.evaluations is not None:
        used = sum(batch.rounds * len(case.comparison.evaluated(plan.groups)) for plan, batch in entries)
        left = min(left, int(budget.evaluations) - used)
    rounds_left = min(left // each_round, int(budget.rounds) - sum(batch.rounds for _, batch in entries))
    chunk = sum(batch.chunks for _, batch in entries)
    further: list[tuple[BatchPlan, Batch]] = []
    after = _AfterSampling(rule, deadline, cancel)
    while rounds_left > 0 and not after.halted(sampler.seconds) and (next_plan := rule.refine(within)) is not None:
        batch = sampler.run(chunk, next_plan.rounds, next_plan.groups, after.halted, rounds_left)
        rule.observe(next_plan, Tally.of_batch(batch.rounds, batch.together, next_plan.groups, groups))
        further.append((next_plan, batch))
        if batch.rounds < next_plan.rounds:
            break
        chunk, rounds_left = chunk + batch.chunks, rounds_left - batch.rounds
    return further


def cheap_evaluations(case: Case) -> int:
    """Return the approximate number of evaluations of an ONNX network in 0.2 s; 0 for every other model.

    It is computed from the size of the network, so it is the same on every machine. A network that reads texts uses its
    weights once for each word.
    """
    if not isinstance(case.model, OnnxModel):
        return 0
    words = 1 if case.spec.text is None else case.spec.text.length or LONG_TEXT
    weights = len(case.model.content) / 4 * words
    return int(CHEAP_SECONDS / (SECONDS_PER_EVALUATION + weights * SECONDS_PER_WEIGHT))


def _second_look(sampler: Sampler, case: Case, record: RunRecord, deadline: float, cancel: Event) -> Look:
    """Show more inputs to a model that gave one label so far, until it gives another or enough were tested.

    A verdict can take a few hundred inputs, and a model with a rare outcome may give it to none of them. The budget
    applies here too. Nothing is counted, so the guarantee is not affected.
    """
    comparison, budget = case.comparison, case.spec.guarantee.budget
    subgroups, done, found = range(len(comparison.subgroups)), 0, set(record.labels)
    left = int(budget.rounds) - sum(batch.rounds for _, batch in record.entries)
    if budget.evaluations is not None:
        used = sum(batch.rounds * len(comparison.evaluated(plan.groups)) for plan, batch in record.entries)
        left = min(left, max(0, int(budget.evaluations) - used) // len(subgroups))
    looked = LOOKED_COSTLY if getattr(case.model, "costly", False) else LOOKED
    most = min(-(-looked // len(subgroups)), left)
    while done < most and len(found) < 2 and not cancel.is_set() and time.perf_counter() < deadline:
        count = min(LOOK_ROUNDS, most - done)
        try:
            place = LOOK_CHUNK + done // LOOK_ROUNDS
            found |= labels_in(sampler.labels(place, count, subgroups, drawn=LOOK_ROUNDS))
        except StoppedError:
            break
        done += count
    return Look(done, sorted(found))
