"""Learning of a chain from a network: a pilot fits the discretisers, then traces are counted until there are enough.

The number of traces is given, or determined by `epsilon`: then traces are drawn until every transition out of every
state is known within epsilon, simultaneously with probability 1 - delta, by bounds that are valid at any time. The
paper's own rule is available for comparison and is not sound.

Fidelity, how far the probabilities of a chain are from those of the network, is measured on fresh inputs. A chain whose
states do not contain the group can be wrong about a group for any number of traces. A chain over time can also be wrong
about steps and visits, because the next state of a network depends on more than its present state. Each measured
probability is that of an event of one trace, so the error has an exact interval. No verdict depends on such a chain
(docs/mathematics-chains.md, "Chains").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.build import build_chain, column_bounds
from fairchain.chain.chain import Chain, Floats, with_int_indices
from fairchain.chain.context import (
    FRESH,
    ChainContext,
    LastSteps,
    every_cell,
    every_unit,
    fitted,
    prepare_context,
    recurrent_layers,
)
from fairchain.chain.plan import ESTIMATORS, ChainPlan, ColumnKind, Estimator, View
from fairchain.chain.state_units import StateUnit
from fairchain.chain.traces import TRACES_PER_CHUNK, PlannedUnits, TraceCounter, TraceCounts
from fairchain.errors import ChainError
from fairchain.executors import AnyWorkers, Workers, open_workers
from fairchain.messages import unknown
from fairchain.models import Limits
from fairchain.prepare import Case
from fairchain.spec import Spec
from fairchain.statistics.intervals import clopper_pearson, probability_any_time

if TYPE_CHECKING:
    from scipy.sparse import csr_array


ROUNDS = 20_000
MOST_ROUNDS = 10**9
StoppingRule = Literal["sound", "paper"]
LearningProgress = Callable[[int, int | None], None]
EPSILON_NOT_REACHED = (
    "epsilon: after {done:,} rounds some transition is not known within {epsilon:g}, because a state is rare; leave "
    "it out, divide it into other states, or use a larger epsilon"
)
VIEWS = (*get_args(View), "last")
NO_STATES_OVER_TIME = '{text}: is not a recurrent unit; use it without view = "folded"'
UNKNOWN_FAMILY_VIEW = 'unknown view "{view}" of a family; expected folded or last'


def enough(counts: TraceCounts, plan: ChainPlan, epsilon: float, rule: str) -> bool:
    """Return whether every visited state has been visited often enough, by the rule."""
    states = 1 + sum(plan.copies(column) * len(names) for column, names in enumerate(plan.columns) if column)
    # The visits of a state that the paper's rule needs, in a chain of this many states.
    half, level = epsilon / 2, -math.expm1(math.log1p(-plan.delta) / 2)
    bound = math.log(2 * (states + len(plan.groups)) / level)
    needed = 2 / half**2 * bound * (0.25 - (0.5 - 2 * half / 3) ** 2)
    for column, link in enumerate(counts.links):
        if plan.view == "folded" and column == 1 and rule == "sound":
            taken = link.dense(plan.copies(column))
            low, high = column_bounds(plan, column, taken, counts.moments)
            visits = taken.sum(axis=2, keepdims=True)
            rate = taken / np.maximum(visits, 1)
            if np.where(visits > 0, np.maximum(rate - low, high - rate), 0).max() > epsilon:
                return False
            continue
        # The counts of the observed transitions, and the visits of their sources.
        group, state, following = link.triples()
        source = state if plan.copies(column) == 1 else group * link.width + state
        code, place = np.unique(source * link.next_width + following, return_inverse=True)
        seen = np.bincount(place, link.counts.astype(np.float64))
        _, at = np.unique(code // link.next_width, return_inverse=True)
        visits = np.bincount(at, seen)[at]
        if rule == "paper":
            # The largest |1/2 - n_pq/n_p| over all states q is always 1/2.
            if visits.min(initial=needed) < needed:
                return False
            continue
        # The widest intervals are near one half or of rarely visited states: they usually show that a run is not
        # finished, before all are computed.
        worst = np.argsort(visits / np.maximum(seen * (visits - seen), 1))[-64:]
        for part in (worst, slice(None)):
            low, high = probability_any_time(seen[part], visits[part], plan.delta / plan.possible)
            rate = seen[part] / visits[part]
            if np.maximum(rate - low, high - rate).max(initial=0) > epsilon:
                return False
    return True


def learn_chain(
    model: Any,
    spec: Spec | str | Path | Case,
    *,
    units: Sequence[str] = (),
    chain: ColumnKind = "product",
    estimator: Estimator = "frequency",
    rounds: int | None = None,
    epsilon: float | None = None,
    rule: StoppingRule = "sound",
    view: View | Literal["last"] | None = None,
    seed: int | None = None,
    workers: AnyWorkers = None,
    executor: Executor | str | None = None,
    limits: Limits | None = None,
    progress: LearningProgress | None = None,
) -> Chain:
    """Learn a Markov chain Start -> group -> states -> label from a network's decisions for each group.

    Parameters
    ----------
    model, spec
        As for `verify`, but the model must be a network that onnxruntime runs. Instead of a spec, `spec` can be a
        `Case`, which contains the model and the spec.
    units
        Units whose states the chain contains, in this order. A unit is a feature (`capital-gain`), a neuron
        (`layer3[2]`), or a whole layer whose states are clusters (`layer3`, `layer3:kmeans=3`, `lstm1:kmeans=4`).
    chain
        "product": each group has separate states. With the estimator "frequency", the probabilities of labels then
        equal the counted frequencies. "shared": all groups have the same states, as in the original paper on
        which fairchain builds (docs/mathematics.md). The probabilities of labels can then be wrong, so the fidelity of
        the chain is measured.
    estimator
        Estimator of transition probabilities: "frequency", "laplace" or "good-turing".
    rounds
        Number of inputs. Each input is shown to the network as each group. With `epsilon`, the largest number of
        inputs.
    epsilon
        Draw inputs until every transition probability is known within epsilon. All intervals hold simultaneously with
        probability at least 1 - delta.
    rule
        Stopping rule for `epsilon`: "sound", or "paper" for the rule of the original paper, which is not sound.
    view
        States of a recurrent unit. "folded" (default): the same states for all steps. "unrolled": separate states for
        each step. "last": only the state after the last step.
    seed, workers, executor, limits
        As for `verify`.
    progress
        With `epsilon`: called with the number of finished rounds, and None, because the number of needed rounds is not
        known beforehand. Without `epsilon`, `progress` is not called.

    Examples
    --------
    >>> from fairchain import example
    >>> learned = learn_chain(None, example("census"), units=["capital-gain:bins=5"], rounds=2000)
    >>> len(learned)
    18
    """
    _check(chain, estimator, rounds)
    if rule not in ("sound", "paper"):
        raise ChainError(unknown("rule", rule, ("sound", "paper")))
    if rule == "paper" and epsilon is None:
        raise ChainError('rule: "paper" is a stopping rule for epsilon; give epsilon, or leave the rule out')
    if epsilon is not None and not 0 < epsilon < 0.5:
        raise ChainError(f"epsilon: found {epsilon:g}; give a half width between 0 and 0.5")
    context = prepare_context(model, spec, units, seed, limits)
    over_time = _view(context, view)
    fit = fitted(context, over_time=over_time is not None)
    plan = _plan(context, fit, chain, estimator, over_time, any_time=epsilon is not None)
    with open_workers(workers, executor) as opened:
        counter = TraceCounter(replace(context, apart=chain == "shared"), [(fit, plan)], opened)
        if epsilon is None:
            done = rounds or ROUNDS
            counts = counter.counts(0, done)[0]
        else:
            counts, done = _counts_within(counter, plan, epsilon, rule, rounds or MOST_ROUNDS, progress)
        metadata = {
            "property": str(context.spec.property),
            **context.metadata,
            "rounds": done,
            "states": list(units),
            "epsilon": epsilon,
            "sound": epsilon is None or rule == "sound",
        }
        learned = build_chain(counts, plan, metadata)
        return _with_fidelity([learned], context, [(fit, plan)], done, opened)[0]


def learn_family(
    model: Any,
    spec: Spec | str | Path,
    *,
    units: Sequence[str] | None = None,
    chain: ColumnKind = "product",
    estimator: Estimator = "frequency",
    rounds: int = ROUNDS,
    view: Literal["folded", "last"] = "last",
    seed: int | None = None,
    workers: AnyWorkers = None,
    executor: Executor | str | None = None,
    limits: Limits | None = None,
) -> dict[str, Chain]:
    """Learn one chain Start -> group -> unit -> label for every unit, all from the same inputs in one pass.

    `units` and `chain` are as for `learn_chain`. By default, the units are all hidden neurons and all unprotected
    features that the model receives. The bounds of each chain fail with probability at most delta. Delta is not divided
    among the chains, so the bounds of all chains together may fail with a larger probability. For a unit of a recurrent
    layer, the chain contains only the state after the last step. With `view="folded"`, the chains pass through all
    steps. The units must then be recurrent cells, by default all recurrent cells.
    """
    _check(chain, estimator, rounds)
    if view not in ("folded", "last"):
        raise ChainError(UNKNOWN_FAMILY_VIEW.format(view=view))
    if units is None:
        base = prepare_context(model, spec, (), seed, limits)
        units = every_unit(base) if view == "last" else every_cell(base)
    context = prepare_context(model, spec, units, seed, limits, together=False)
    over_time: View | None = "folded" if view == "folded" else None
    for request in context.requests:
        if over_time and request.tensor not in context.recurrent:
            raise ChainError(NO_STATES_OVER_TIME.format(text=request.text))
    planned = [
        ((unit,), _plan(context, (unit,), chain, estimator, over_time))
        for unit in fitted(context, over_time=over_time is not None)
    ]
    metadata = {**context.metadata, "rounds": rounds}
    with open_workers(workers, executor) as opened:
        counts = TraceCounter(replace(context, apart=chain == "shared"), planned, opened).counts(0, rounds)
        family = [
            build_chain(each, plan, {**metadata, "states": [text]})
            for text, (_, plan), each in zip(units, planned, counts, strict=True)
        ]
        return dict(zip(units, _with_fidelity(family, context, planned, rounds, opened), strict=True))


def _counts_within(
    counter: TraceCounter, plan: ChainPlan, epsilon: float, rule: str, most: int, progress: LearningProgress | None
) -> tuple[TraceCounts, int]:
    """Return counts of as many rounds as the rule needs for epsilon, and their number."""
    counts = None
    done, chunk = 0, 0
    while done < most:
        batch = min(max(TRACES_PER_CHUNK, done // 4 // TRACES_PER_CHUNK * TRACES_PER_CHUNK), most - done)
        more = counter.counts(chunk, batch)[0]
        counts = more if counts is None else counts + more
        done, chunk = done + batch, chunk + -(-batch // TRACES_PER_CHUNK)
        if progress is not None:
            progress(done, None)
        if enough(counts, plan, epsilon, rule):
            return counts, done
    raise ChainError(EPSILON_NOT_REACHED.format(done=done, epsilon=epsilon))


def _check(kind: str, estimator: str, rounds: int | None) -> None:
    if estimator not in ESTIMATORS:
        raise ChainError(unknown("estimator", estimator, ESTIMATORS))
    if kind not in ("product", "shared"):
        raise ChainError(unknown("kind of chain", kind, ("product", "shared")))
    if rounds is not None and not 1 <= rounds <= MOST_ROUNDS:
        raise ChainError(f"rounds: found {rounds}; give at least one and at most {MOST_ROUNDS:,}")


def _view(context: ChainContext, view: str | None) -> View | None:
    """Return the view of a recurrent unit, None if units have one state each; raise an error if units do not fit."""
    if view not in (None, *VIEWS):
        raise ChainError(unknown("view", str(view), VIEWS))
    timed = [request.text for request in context.requests if request.tensor in context.recurrent]
    if not timed and view is not None:
        known = sorted(recurrent_layers(context.probe.model))
        remedy = f"name one of {', '.join(known)}" if known else "this network has none"
        raise ChainError(f"view: only recurrent layers have a view; {remedy}")
    if not timed or view == "last":
        return None
    if len(timed) > 1:
        raise ChainError(
            f"{timed[0]} and {timed[1]}: a chain over time has one recurrent unit; "
            'use one, clusters of its whole layer, or view = "last"'
        )
    if context.requests[0].text != timed[0]:
        raise ChainError(
            f"{context.requests[0].text}: is named before the recurrent unit {timed[0]}; name units of later layers "
            'after it, or use view = "last"'
        )
    return "unrolled" if view == "unrolled" else "folded"


def _plan(
    context: ChainContext,
    units: Sequence[StateUnit],
    kind: ColumnKind,
    estimator: Estimator,
    view: View | None,
    *,
    any_time: bool = False,
) -> ChainPlan:
    shares = context.population.shares()
    count = len(context.groups)
    total = sum(shares) if shares is not None else 0
    plan = ChainPlan(
        groups=tuple(group.name for group in context.groups),
        shares=tuple(float(share / total) for share in shares) if total else (1 / count,) * count,
        shares_known=bool(total),
        units=tuple(unit.discretizer for unit in units),
        labels=context.spec.model.labels,
        kind=kind,
        estimator=estimator,
        delta=context.spec.guarantee.delta,
        any_time=any_time,
    )
    if view is None:
        return plan
    probe = context.probe
    assert isinstance(probe, LastSteps)
    return replace(plan, view=view, timed=units[0].request.name, steps=probe.most, varied=probe.varied)


def _with_fidelity(
    chains: Sequence[Chain], context: ChainContext, planned: Sequence[PlannedUnits], rounds: int, workers: Workers
) -> list[Chain]:
    """Measure the fidelity of chains that may be wrong: those over time, and shared ones, for which labels suffice."""
    plan = planned[0][1] if planned else None
    if plan is None or (plan.view is None and plan.kind == "product"):
        return list(chains)
    context = replace(context, apart=plan.kind == "shared")
    needed = planned if plan.view is not None else [((), replace(plan, units=()))]
    fresh = TraceCounter(context, needed, workers, moments=False).counts(FRESH, rounds)
    return [
        replace(chain, metadata={**chain.metadata, "fidelity": fidelity(chain, each, fresh[place % len(fresh)])})
        for place, (chain, (_, each)) in enumerate(zip(chains, planned, strict=True))
    ]


def fidelity(chain: Chain, plan: ChainPlan, fresh: TraceCounts) -> dict[str, Any]:
    """Return the largest error of P(label | group), with an interval from counts of fresh traces.

    A chain over time also has the errors of P(state after step t | group) and P(ever in state | group). The intervals
    of each of these kinds hold together with probability 1 - delta.
    """
    groups, labels = len(plan.groups), fresh.labels
    rounds = int(labels[0].sum())
    reached = _reach(chain, [[state] for state in range(len(chain) - len(plan.labels), len(chain))], groups)
    found, (group, label) = _largest(reached, labels, rounds, plan.delta)
    found |= {"group": plan.groups[group], "label": plan.labels[label], "rounds": rounds}
    if fresh.occupied is not None and fresh.visited is not None:
        states = plan.units[0].names
        steps, (group, step, state) = _largest(_after_steps(chain, plan), fresh.occupied, rounds, plan.delta)
        found["steps"] = {**steps, "group": plan.groups[group], "step": step + 1, "state": states[state]}
        visited = _reach(chain, [chain.labels[name] for name in states], groups)
        visits, (group, state) = _largest(visited, fresh.visited, rounds, plan.delta)
        found["visits"] = {**visits, "group": plan.groups[group], "state": states[state]}
    return found


def _largest(
    said: Floats, seen: NDArray[np.int64], rounds: int, delta: float
) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Return the largest |chain - network| with bounds, and its index; `seen` of `rounds` estimate the network's."""
    low, high = clopper_pearson(seen, np.full(seen.shape, rounds), delta / seen.size)
    off = np.abs(said - seen / rounds)
    at_least = np.maximum(np.maximum(said - high, low - said), 0)
    at_most = np.maximum(np.abs(said - low), np.abs(said - high))
    where = tuple(int(place) for place in np.unravel_index(int(off.argmax()), off.shape))
    return {"estimate": float(off.max()), "low": float(at_least.max()), "high": float(at_most.max())}, where


def _reach(chain: Chain, goals: Iterable[Iterable[int]], groups: int) -> Floats:
    """Return (groups, goals): the probability of ever being in a goal state; every other state leads to a label."""
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import spsolve

    reached = []
    for goal in goals:
        inside = np.zeros(len(chain), bool)
        inside[list(goal)] = True
        stays = inside | (chain.matrix.diagonal() == 1)
        matrix: csr_array = chain.matrix[~stays]
        found = inside.astype(np.float64)
        found[~stays] = spsolve(
            with_int_indices((eye_array(int((~stays).sum())) - matrix[:, ~stays]).tocsc()), matrix @ found
        )
        reached.append(found[1 : 1 + groups])
    return np.stack(reached, axis=1)


def _after_steps(chain: Chain, plan: ChainPlan) -> Floats:
    """Return (groups, steps, states): the probability of being in a state after each number of steps from a group."""
    groups, names = len(plan.groups), plan.units[0].names
    mass = np.zeros((groups, len(chain)))
    mass[np.arange(groups), 1 + np.arange(groups)] = 1
    members = np.zeros((len(chain), len(names)))
    for place, name in enumerate(names):
        members[list(chain.labels[name]), place] = 1
    found = np.empty((groups, plan.steps, len(names)))
    for step in range(plan.steps):
        mass = mass @ chain.matrix
        found[:, step] = mass @ members
    return found
