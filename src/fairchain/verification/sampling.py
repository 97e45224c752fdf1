"""By rounds: sample, count, bet, stop (the paper's Algorithm 1, lines 1-6, with a rule that keeps its promise).

One loop serves every rule. It decides nothing itself: it asks the rule what to sample, samples it, and hands back
the counts, until the rule has its answer, the budget is spent, or somebody presses Ctrl-C.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairchain.certificate_format import LOOK_CHUNK, LOOK_ROUNDS, LOOKED
from fairchain.errors import SpecError
from fairchain.models import Model
from fairchain.populations import build_population
from fairchain.populations.build import large_enough
from fairchain.spec import Comparison, Spec, comparison_of
from fairchain.spec.conditions import predicate_of
from fairchain.spec.schema import Callable as CallablePopulation
from fairchain.spec.seeds import seed_of
from fairchain.statistics import DIFFERENCE, RATIO, BatchPlan, BettingRule, EstimateRule, PaperRule, Rule, Tally
from fairchain.statistics.paper import DEFAULT_EPSILON
from fairchain.system.interrupts import first_interrupt
from fairchain.verification.progress import Progress, Report, notes_on
from fairchain.verification.sampler import Batch, Sampler, labels_in, thread_pool
from fairchain.verification.verdict import Inquiry, Look, RunRecord, Verdict, assemble, in_own_unit, limit_of
from fairchain.verification.witnesses import find_witnesses

if TYPE_CHECKING:
    from fairchain.tables import People

# Seconds between two reports of progress: computing the bounds for one costs a few milliseconds.
REPORT_EVERY = 0.2
# Before anything was measured: what one look at a pair of groups takes. After the last batch come about so many looks.
SECONDS_PER_PAIR, LOOKS_AFTER = 5e-8, 3


def verify_rounds(
    model: Model,
    spec: Spec,
    people: People | None,
    function: Callable[..., Any] | None,
    workers: int,
    progress: Report | None,
) -> Verdict:
    """People drawn in coupled rounds until the rule has its answer."""
    if (function is not None) != isinstance(spec.population, CallablePopulation):
        raise SpecError(
            'population.kind: "callable" goes with a Python function, given as population=... or --population; '
            "give both or neither"
        )
    groups, left_out = large_enough(spec, people)
    comparison = comparison_of(spec, groups)
    population = build_population(
        spec, comparison.subgroups, model.dtype, people=people, function=function, predicate=predicate_of(spec)
    )
    data_sha256 = people.sha256 if people is not None else population.sha256
    seed = seed_of(spec, model.sha256, data_sha256)
    rule = _rule(spec, comparison)
    start = time.perf_counter()
    interrupted = threading.Event()
    # From here to the verdict: what is known when Ctrl-C comes is never lost.
    with first_interrupt(interrupted.set):
        with thread_pool(workers) as pool:
            sampler = Sampler(
                model, population, seed.value, comparison, coupled=rule.coupled, pool=pool, workers=workers
            )
            entries, stopped = _sample(rule, sampler, spec, start, interrupted, progress)
            ledger = RunRecord(seed, rule.coupled, comparison.rows, tuple(entries))
            if len(ledger.labels) == 1:
                deadline = start + spec.guarantee.budget.seconds
                ledger = replace(ledger, look=_second_look(sampler, spec, comparison, ledger, deadline, interrupted))
        evaluations = sum(batch.rounds * len(comparison.asks(plan.groups)) for plan, batch in entries)
        inquiry = Inquiry(
            spec=spec,
            comparison=comparison,
            ledger=ledger,
            rounds=sum(batch.rounds for _, batch in entries),
            evaluations=evaluations,
            tried=evaluations + (ledger.look.rounds * len(comparison.subgroups) if ledger.look is not None else 0),
            stopped=stopped,
            population=str(population),
            model_sha256=model.sha256,
            table_sha256=data_sha256,
            witnesses=find_witnesses(model, population, spec, comparison, rule, ledger),
            left_out=left_out,
            notes=population.notes + notes_on(model, people.dropped if people is not None else 0),
            certifiable=model.certifiable and function is None and rule.sound,
        )
        return assemble(inquiry, rule, start)


def _rule(spec: Spec, comparison: Comparison) -> Rule:
    limit, guarantee = float(limit_of(spec)), spec.guarantee
    groups, outcomes = len(comparison.counted), len(comparison.rows)
    if guarantee.rule == "paper":
        epsilon = guarantee.epsilon or DEFAULT_EPSILON
        return PaperRule(groups, outcomes, limit, guarantee.delta, epsilon, len(spec.model.labels))
    compared = comparison.compared
    if guarantee.epsilon is not None:
        return EstimateRule(groups, outcomes, limit, guarantee.delta, guarantee.epsilon, compared=compared)
    payoff = RATIO if comparison.measure == "ratio" else DIFFERENCE
    return BettingRule(groups, outcomes, limit, guarantee.delta, compared=compared, payoff=payoff)


def _sample(
    rule: Rule,
    sampler: Sampler,
    spec: Spec,
    start: float,
    interrupted: threading.Event,
    progress: Report | None,
) -> tuple[list[tuple[BatchPlan, Batch]], str]:
    """The loop: plan, sample, observe. Returns the ledger's entries and why it ended."""
    budget = spec.guarantee.budget
    most, deadline = int(budget.rounds), start + budget.seconds
    entries: list[tuple[BatchPlan, Batch]] = []
    rounds = evaluations = chunk = 0
    reported = start
    groups = len(rule.tally.trials)
    # The bounds of many pairs take time too, and the budget is for the whole answer.
    look = rule.tally.both.size * SECONDS_PER_PAIR

    def halted() -> bool:
        return interrupted.is_set() or time.perf_counter() > deadline - LOOKS_AFTER * look

    while (plan := rule.plan()) is not None:
        if interrupted.is_set():
            return entries, "interrupted"
        if rounds >= most:
            return entries, "rounds"
        if halted():
            return entries, "seconds"
        batch = sampler.run(chunk, min(plan.rounds, most - rounds), plan.groups, halted)
        before = time.perf_counter()
        rule.observe(plan, Tally.of_batch(batch.rounds, batch.together, plan.groups, groups))
        look = time.perf_counter() - before
        entries.append((plan, batch))
        rounds, chunk = rounds + batch.rounds, chunk + batch.chunks
        evaluations += batch.rounds * sampler.asked(plan.groups)
        now = time.perf_counter()
        if progress is not None and now - reported > REPORT_EVERY:
            reported = now
            progress(Progress(rounds, evaluations, now - start, in_own_unit(spec, rule)))
    # Estimate mode ends where everything is within epsilon, whatever that says about the threshold.
    return entries, "epsilon" if isinstance(rule, EstimateRule) else "decided"


def _second_look(
    sampler: Sampler,
    spec: Spec,
    comparison: Comparison,
    ledger: RunRecord,
    deadline: float,
    interrupted: threading.Event,
) -> Look:
    """Show more inputs to a model that gave one label so far, until it gives another or enough were tried.

    A verdict can take a few hundred inputs, and a model with a rare outcome may give it to none of them. The budget
    holds here too. Nothing is counted, so the guarantee is not touched.
    """
    subgroups, done, found = range(len(comparison.subgroups)), 0, set(ledger.labels)
    left = int(spec.guarantee.budget.rounds) - sum(batch.rounds for _, batch in ledger.entries)
    most = min(-(-LOOKED // len(subgroups)), left)
    while done < most and len(found) < 2 and not interrupted.is_set() and time.perf_counter() < deadline:
        count = min(LOOK_ROUNDS, most - done)
        found |= labels_in(sampler.labels(LOOK_CHUNK + done // LOOK_ROUNDS, count, subgroups))
        done += count
    return Look(done, tuple(sorted(found)))
