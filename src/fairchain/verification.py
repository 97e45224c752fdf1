"""Verification: sample, count, bet, stop (the paper's Algorithm 1, lines 1-6, with a rule that keeps its promise).

One loop serves every rule. It decides nothing itself: it asks the rule what to sample, samples it, and hands back
the counts, until the rule has its answer, the budget is spent, or somebody presses Ctrl-C.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from fairchain.errors import SpecError
from fairchain.evidence import (
    Batch,
    BettingRule,
    EstimateRule,
    Interval,
    PaperRule,
    Plan,
    Rule,
    Sampler,
    Tally,
    default_workers,
    thread_pool,
)
from fairchain.evidence.paper import DEFAULT_EPSILON
from fairchain.model import Limits, OnnxModel
from fairchain.population import UniformPopulation
from fairchain.spec import Spec, load_spec, revise
from fairchain.verdict import Ledger, Verdict, assemble
from fairchain.witnesses import find_witnesses

# Seconds between two reports of progress: computing the bounds for one costs a few milliseconds.
REPORT_EVERY = 0.2


@dataclass(frozen=True)
class Progress:
    """Where a run stands: rounds and evaluations so far, seconds, and the gap with its bounds."""

    rounds: int
    evaluations: int
    seconds: float
    gap: Interval


def verify(
    model: str | Path | OnnxModel | None,
    spec: Spec | str | Path,
    *,
    seed: int | None = None,
    workers: int | None = None,
    limits: Limits | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Verdict:
    """Decide whether a network treats the groups of a spec alike.

    Parameters
    ----------
    model
        An ONNX file, a loaded `OnnxModel`, or None for the file that the spec names.
    spec
        A `Spec`, or the path of a spec file.
    seed
        Instead of the spec's. The same spec and seed give the same counts, whatever the workers.
    workers
        Threads; by default one for each core.
    limits
        What an untrusted network may ask for.
    progress
        Called now and then with a `Progress`.

    Returns
    -------
    Verdict
        FAIR or UNFAIR with its guarantee, or UNDECIDED with what is known so far.

    Examples
    --------
    >>> from fairchain.examples import example
    >>> verify(None, example("census")).decision.name
    'FAIR'
    """
    spec = spec if isinstance(spec, Spec) else load_spec(spec)
    spec = revise(spec, guarantee__seed=seed)
    if isinstance(model, OnnxModel):
        model.must_fit(spec)
    else:
        model = OnnxModel(model if model is not None else spec.model.path, spec, limits)
    population = UniformPopulation(spec, model.dtype)
    outcomes = outcomes_of(spec)
    rule = _rule(spec, len(population.groups), len(outcomes))
    if workers is not None and workers < 1:
        raise SpecError(f"workers: found {workers}; give at least one thread, or leave it out for one for each core")
    workers = workers or default_workers()
    start = time.perf_counter()
    with thread_pool(workers) as pool, _interruption() as interrupted:
        sampler = Sampler(
            model,
            population,
            spec.guarantee.seed,
            outcomes,
            coupled=rule.coupled,
            pool=pool,
            workers=workers,
        )
        entries, stopped = _sample(rule, sampler, spec, start, interrupted, progress)
    ledger = Ledger(spec.guarantee.seed, rule.coupled, outcomes, tuple(entries))
    witnesses = find_witnesses(model, population, spec, population.groups, rule, ledger)
    return assemble(
        spec,
        rule,
        ledger,
        stopped=stopped,
        started=start,
        population=str(population),
        model_sha256=model.sha256,
        witnesses=witnesses,
    )


def outcomes_of(spec: Spec) -> tuple[int, ...]:
    """The labels to look at. Of two labels one is enough: their gaps are the same."""
    labels = spec.model.labels
    if spec.property.outcome is not None:
        return (labels.index(spec.property.outcome),)
    return (1,) if len(labels) == 2 else tuple(range(len(labels)))


def _rule(spec: Spec, groups: int, outcomes: int) -> Rule:
    threshold, guarantee = spec.property.threshold, spec.guarantee
    if guarantee.rule == "paper":
        epsilon = guarantee.epsilon or DEFAULT_EPSILON
        return PaperRule(groups, outcomes, threshold, guarantee.delta, epsilon, len(spec.model.labels))
    if guarantee.epsilon is not None:
        return EstimateRule(groups, outcomes, threshold, guarantee.delta, guarantee.epsilon)
    return BettingRule(groups, outcomes, threshold, guarantee.delta)


def _sample(
    rule: Rule,
    sampler: Sampler,
    spec: Spec,
    start: float,
    interrupted: threading.Event,
    progress: Callable[[Progress], None] | None,
) -> tuple[list[tuple[Plan, Batch]], str]:
    """The loop: plan, sample, observe. Returns the ledger's entries and why it ended."""
    budget = spec.guarantee.budget
    most, deadline = int(budget.rounds), start + budget.seconds
    entries: list[tuple[Plan, Batch]] = []
    rounds = evaluations = chunk = 0
    reported = start
    groups = len(rule.tally.trials)

    def halted() -> bool:
        return interrupted.is_set() or time.perf_counter() > deadline

    while (plan := rule.plan()) is not None:
        if interrupted.is_set():
            return entries, "interrupted"
        if rounds >= most:
            return entries, "rounds"
        if time.perf_counter() > deadline:
            return entries, "seconds"
        batch = sampler.run(chunk, min(plan.rounds, most - rounds), plan.groups, halted)
        rule.observe(plan, Tally.of_batch(batch.rounds, batch.together, plan.groups, groups))
        entries.append((plan, batch))
        rounds, chunk = rounds + batch.rounds, chunk + batch.chunks
        evaluations += batch.rounds * len(plan.groups)
        now = time.perf_counter()
        if progress is not None and now - reported > REPORT_EVERY:
            reported = now
            progress(Progress(rounds, evaluations, now - start, Interval(*rule.gap())))
    return entries, "decided"


@contextmanager
def _interruption() -> Iterator[threading.Event]:
    """Ctrl-C sets the event, so that a batch ends between two chunks; a second one interrupts as usual."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield event
        return

    def once(_number: int, _frame: FrameType | None) -> None:
        event.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, once)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
