"""Learning a chain from a network: a pilot fits the discretisers, then traces are counted until they are enough.

The number of traces is given, or follows from `epsilon`: then they go on until every transition out of every state is
known within epsilon, all together with probability 1 - delta, by bounds that may be looked at any time. The paper's
own rule is there for comparison and is not sound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from fairchain.chain.build import ChainPlan, Kind, build_chain
from fairchain.chain.chain import Chain
from fairchain.chain.context import FRESH, ChainContext, every_cell, every_unit, fitted, subject_of
from fairchain.chain.estimators import ESTIMATORS, Estimator
from fairchain.chain.fidelity import fidelity
from fairchain.chain.over_time.learn_over_time import is_over_time, learn_family_over_time, learn_over_time
from fairchain.chain.over_time.time_chain import View
from fairchain.chain.state_units import StateUnit
from fairchain.chain.stopping import ROUNDS, LearningEffort, Progress, Rule, enough
from fairchain.chain.trace_counter import TraceCounter
from fairchain.chain.traces import Counts
from fairchain.errors import ChainError
from fairchain.models import Limits
from fairchain.spec import Spec
from fairchain.verification.sampler import default_workers, thread_pool


def learn_chain(
    model: Any,
    spec: Spec | str | Path,
    *,
    states: Sequence[str] = (),
    kind: Kind = "product",
    estimator: Estimator = "frequency",
    rounds: int | None = None,
    epsilon: float | None = None,
    rule: Rule = "sound",
    view: View | Literal["last"] | None = None,
    seed: int | None = None,
    workers: int | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Chain:
    """Learn a Markov chain Start -> group -> states -> label of what a network does to each group.

    Parameters
    ----------
    model, spec
        As for `verify`; the network must be one that onnxruntime runs.
    states
        Units to look at, in the order of the network: `capital-gain`, `layer3[2]`, `layer3:kmeans=3`,
        `lstm1:kmeans=4`, ...
    kind
        "product": states carry the group, so that probabilities of labels are exactly those counted. "shared": they
        do not, as in the paper; the chain then comes with its fidelity.
    estimator
        Of transitions: "frequency", "laplace" or "good-turing".
    rounds
        Inputs shown to the network as each group; with epsilon the largest number of them.
    epsilon
        Draw inputs until every transition is known within epsilon, all of them with probability 1 - delta.
    rule
        With epsilon: "sound", or the "paper"'s own, which is not.
    view
        Of a recurrent unit: "folded" (the default), one state for each cluster, to which a trace may come back;
        "unrolled", states of their own for each step; or "last", only the state after the last step.
    seed, workers, limits
        As for `verify`.
    progress
        Called with rounds done, and wanted if that is known.

    Examples
    --------
    >>> from fairchain import example
    >>> chain = learn_chain(None, example("census"), states=["capital-gain:bins=5"], rounds=2000)
    >>> len(chain)
    18
    """
    _check(kind, estimator)
    effort = LearningEffort(rounds, epsilon, rule, progress)
    subject = subject_of(model, spec, states, seed, limits)
    over_time = is_over_time(subject, view)
    units = () if over_time else fitted(subject)
    apart = replace(subject, apart=kind == "shared")
    plan = _plan(subject, units, kind, estimator, any_time=epsilon is not None)
    metadata = {
        "property": str(subject.spec.property),
        **subject.metadata,
        "rounds": None,
        "states": list(states),
        "epsilon": epsilon,
        "sound": epsilon is None or rule == "sound",
    }
    with thread_pool(workers or default_workers()) as pool:
        if over_time:
            return learn_over_time(
                subject, plan, "unrolled" if view == "unrolled" else "folded", effort, pool, metadata
            )
        counter = TraceCounter(apart, units, pool)
        counts, done = effort.spend(counter.path, lambda counts, near, by: enough(counts, plan, near, by))
        chain = build_chain(counts, plan, {**metadata, "rounds": done})
        if kind == "shared":
            chain = _with_fidelity(chain, plan, counter.labels(FRESH, done))
    return chain


def learn_family(
    model: Any,
    spec: Spec | str | Path,
    *,
    units: Sequence[str] | None = None,
    kind: Kind = "product",
    estimator: Estimator = "frequency",
    rounds: int = ROUNDS,
    view: Literal["folded", "last"] = "last",
    seed: int | None = None,
    workers: int | None = None,
    limits: Limits | None = None,
) -> dict[str, Chain]:
    """One chain Start -> group -> unit -> label for every unit, all from the same inputs in one pass.

    `units` are written as for `learn_chain`; by default every feature that is not protected and every hidden neuron.
    Each chain keeps delta for itself: it is not shared out among them. A unit of a recurrent layer has the state after
    its last step; with `view` "folded", where all units are such, the chain runs through all of its steps.
    """
    _check(kind, estimator)
    effort = LearningEffort(rounds)
    if view not in ("folded", "last"):
        raise ChainError(f'there is no family of view "{view}"; there is folded, last')
    if units is None:
        base = subject_of(model, spec, (), seed, limits)
        units = every_unit(base) if view == "last" else every_cell(base)
    subject = subject_of(model, spec, units, seed, limits, together=False)
    if view == "folded":
        plan = _plan(subject, (), kind, estimator)
        with thread_pool(workers or default_workers()) as pool:
            return learn_family_over_time(subject, plan, effort, pool)
    made = fitted(subject)
    subject = replace(subject, apart=kind == "shared")
    plans = [_plan(subject, [unit], kind, estimator) for unit in made]
    with thread_pool(workers or default_workers()) as pool:
        counter = TraceCounter(subject, made, pool)
        counts = counter.family(rounds)
        fresh = counter.labels(FRESH, rounds) if kind == "shared" else None
    metadata = {**subject.metadata, "rounds": rounds}
    family = {}
    for text, plan, each in zip(units, plans, counts, strict=True):
        chain = build_chain(each, plan, {**metadata, "states": [text]})
        family[text] = chain if fresh is None else _with_fidelity(chain, plan, fresh)
    return family


def _check(kind: str, estimator: str) -> None:
    if estimator not in ESTIMATORS:
        raise ChainError(f'there is no estimator "{estimator}"; there is {", ".join(ESTIMATORS)}')
    if kind not in ("product", "shared"):
        raise ChainError(f'there is no chain of kind "{kind}"; there is product, shared')


def _plan(
    subject: ChainContext, units: Sequence[StateUnit], kind: Kind, estimator: Estimator, *, any_time: bool = False
) -> ChainPlan:
    shares = subject.population.shares()
    count = len(subject.groups)
    total = sum(shares) if shares is not None else 0
    return ChainPlan(
        groups=tuple(group.name for group in subject.groups),
        shares=tuple(float(share / total) for share in shares) if total else (1 / count,) * count,
        shares_known=bool(total),
        columns=tuple(unit.discretizer for unit in units),
        labels=subject.spec.model.labels,
        kind=kind,
        estimator=estimator,
        delta=subject.spec.guarantee.delta,
        any_time=any_time,
    )


def _with_fidelity(chain: Chain, plan: ChainPlan, fresh: Counts) -> Chain:
    return replace(chain, metadata={**chain.metadata, "fidelity": fidelity(chain, plan, fresh, plan.delta)})
