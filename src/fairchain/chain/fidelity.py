"""How far a shared chain is from the network: the largest error of P(label | group), measured on fresh people.

A chain whose states forget the group can be wrong about it however many traces it was learned from, so its error is
measured, with an interval, and said; nothing is decided on such a chain (docs/mathematics.md, "Chains").
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.build import ChainPlan
from fairchain.chain.chain import Chain, Floats
from fairchain.statistics.intervals import clopper_pearson


def reach_by_layers(chain: Chain, groups: int, labels: int) -> Floats:
    """(groups, labels): P(label | group) in a chain whose columns follow each other."""
    size = len(chain)
    mass = np.zeros((groups, size))
    mass[np.arange(groups), 1 + np.arange(groups)] = 1
    last = np.arange(size - labels, size)
    for _ in range(size):
        if np.isclose(mass[:, last].sum(), groups, atol=1e-15):
            break
        mass = mass @ chain.matrix
    return mass[:, last]


def fidelity(chain: Chain, plan: ChainPlan, fresh: NDArray[np.int64], delta: float) -> dict[str, Any]:
    """Phi = max |reach(group, label) - P(label | group)| with bounds from fresh people, at delta for all together."""
    reached = reach_by_layers(chain, len(plan.groups), len(plan.labels))
    trials = fresh.sum(axis=1, keepdims=True)
    low, high = clopper_pearson(fresh, np.broadcast_to(trials, fresh.shape), delta / fresh.size)
    off = np.abs(reached - fresh / trials)
    at_least = np.maximum(np.maximum(reached - high, low - reached), 0)
    at_most = np.maximum(np.abs(reached - low), np.abs(reached - high))
    group, label = np.unravel_index(int(off.argmax()), off.shape)
    return {
        "estimate": float(off.max()),
        "low": float(at_least.max()),
        "high": float(at_most.max()),
        "group": plan.groups[int(group)],
        "label": plan.labels[int(label)],
        "rounds": int(trials[0, 0]),
    }
