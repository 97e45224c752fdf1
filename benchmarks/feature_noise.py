"""The paper's sensitivity of features when people are uniform: what is left of it is chance.

`python -m benchmarks.feature_noise` counts the embedded networks as the paper does, each group by people of its own,
with 20 seeds, and prints which feature comes first how often. Features do not depend on the group there, so that the
sensitivity of every one of them is 0.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

from fairchain import Spec, example, load_spec
from fairchain.explaining.context import context_of
from fairchain.explaining.units import requested_units, targets_of
from fairchain.prepare import prepare


def sensitivities(spec: Spec, seed: int, people: int) -> dict[str, float]:
    """The paper's formula for every feature that is not protected, from so many people of each group."""
    context = context_of(prepare(None, spec, seed=seed))
    groups = range(len(context.groups))
    shown = [context.population.rounds(seed, 0, people, copy=1 + group).show(group).copy() for group in groups]
    got = [context.model.predict(each) == context.outcomes[0] for each in shown]
    requests, layers = requested_units(context, ["features"])
    found = {}
    for target in targets_of(context, requests, layers, "default", np.concatenate(shown), {}):
        states = [target.state(each, {}) for each in shown]
        parts = []
        for state in range(target.states):
            reached = [float((each == state).mean()) for each in states]
            joint = np.mean([((each == state) & label).mean() for each, label in zip(states, got, strict=True)])
            parts.append(float(joint) * (max(reached) - min(reached)))
        found[target.name] = sum(parts)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--people", type=int, default=2500, help="of each group")
    options = parser.parse_args()
    for name in ("census", "credit"):
        runs = [sensitivities(load_spec(example(name)), seed, options.people) for seed in range(options.seeds)]
        first = Counter(max(run, key=lambda each: run[each]) for run in runs)
        shown = ", ".join(f"{feature} {count}" for feature, count in first.most_common())
        largest = max(max(run.values()) for run in runs)
        print(f"{name}: first in {options.seeds} runs: {shown}; the largest sensitivity is {largest:.4f}", flush=True)


if __name__ == "__main__":
    main()
