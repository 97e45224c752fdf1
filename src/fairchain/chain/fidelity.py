"""Fidelity: how far the probabilities of a chain are from those of the network, measured on fresh inputs.

A chain whose states do not contain the group can be wrong about a group for any number of traces. A chain over time can
also be wrong about steps and visits, because the next state of a network depends on more than its present state. Each
measured probability is that of an event of one trace, so the error has an exact interval. No verdict depends on such a
chain (docs/mathematics.md, "Chains").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.chain import Chain, Floats, with_int_indices
from fairchain.chain.plan import ChainPlan
from fairchain.chain.traces import TraceCounts
from fairchain.statistics.intervals import clopper_pearson

if TYPE_CHECKING:
    from scipy.sparse import csr_array


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
