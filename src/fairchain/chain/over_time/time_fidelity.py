"""How far a chain over time is from the network, measured on fresh traces, in three kinds of questions.

Which label a group gets; where a trace is after step t; whether it is ever in a state. Each is a yes or no of one
trace, so the error has an exact interval. A product chain is right about labels, a folded one need not be about steps,
and neither about visits: what a network does next depends on more than the state it is in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.chain import Chain, Floats
from fairchain.chain.over_time.time_chain import TimePlan
from fairchain.chain.over_time.time_counts import TimeCounts
from fairchain.statistics.intervals import clopper_pearson

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def fidelity_over_time(chain: Chain, plan: TimePlan, fresh: TimeCounts, delta: float) -> dict[str, Any]:
    """The largest error in P(label | group), and of P(state after step t | group) and P(ever in state | group).

    The intervals of each kind of question hold together with probability 1 - delta.
    """
    names, states = plan.plan.groups, plan.plan.columns[0].names
    groups, rounds = len(names), int(fresh.traces[0])
    first = 1 + np.arange(groups)
    labels = len(plan.plan.labels)
    reached = np.stack([_reach(chain, {state})[first] for state in range(len(chain) - labels, len(chain))], axis=1)
    visited = np.stack([_reach(chain, chain.labels[name])[first] for name in states], axis=1)
    over_labels = _largest(reached, fresh.labels, rounds, delta)
    over_visits = _largest(visited, fresh.visited, rounds, delta)
    over_steps = _largest(_after_steps(chain, plan, groups), fresh.occupied, rounds, delta)
    group, label = over_labels.pop("where")
    late, step, there = over_steps.pop("where")
    other, ever = over_visits.pop("where")
    return {
        **over_labels,
        "group": names[group],
        "label": plan.plan.labels[label],
        "rounds": rounds,
        "steps": {**over_steps, "group": names[late], "step": step + 1, "state": states[there]},
        "visits": {**over_visits, "group": names[other], "state": states[ever]},
    }


def _largest(said: Floats, seen: NDArray[np.int64], rounds: int, delta: float) -> dict[str, Any]:
    """The largest |said - true| with bounds, true being known from so many of `rounds`."""
    low, high = clopper_pearson(seen, np.full(seen.shape, rounds), delta / seen.size)
    off = np.abs(said - seen / rounds)
    at_least = np.maximum(np.maximum(said - high, low - said), 0)
    at_most = np.maximum(np.abs(said - low), np.abs(said - high))
    where = tuple(int(place) for place in np.unravel_index(int(off.argmax()), off.shape))
    return {
        "estimate": float(off.max()),
        "low": float(at_least.max()),
        "high": float(at_most.max()),
        "where": where,
    }


def _reach(chain: Chain, goal: frozenset[int] | set[int]) -> Floats:
    """(states,): the probability of ever being in a goal state; from every other state there is a way to a label."""
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import spsolve

    inside = np.zeros(len(chain), bool)
    inside[list(goal)] = True
    stays = inside | (chain.matrix.diagonal() == 1)
    matrix: csr_array = chain.matrix[~stays]
    found = inside.astype(np.float64)
    found[~stays] = spsolve((eye_array(int((~stays).sum())) - matrix[:, ~stays]).tocsc(), matrix @ found)
    return found


def _after_steps(chain: Chain, plan: TimePlan, groups: int) -> Floats:
    """(groups, steps, states): the probability of being in a state after so many steps from a group."""
    mass = np.zeros((groups, len(chain)))
    mass[np.arange(groups), 1 + np.arange(groups)] = 1
    members = np.zeros((len(chain), plan.shape.width))
    for place, name in enumerate(plan.plan.columns[0].names):
        members[list(chain.labels[name]), place] = 1
    found = np.empty((groups, plan.shape.steps, plan.shape.width))
    for step in range(plan.shape.steps):
        mass = mass @ chain.matrix
        found[:, step] = mass @ members
    return found
