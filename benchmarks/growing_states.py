"""Time to learn a chain against its number of states, at fixed accuracy, as in the paper's experiment.

`python -m benchmarks.growing_states` learns chains of the census network by race with more and more features as
states, every value a state of its own, until every transition out of every state is known within epsilon, all
together with probability 1 - delta. The paper's times for 33 to 503 states were 33 to 1278 seconds, by a rule that is
not sound; ours is.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

from benchmarks.power import power
from fairchain import example, load_spec
from fairchain.chain.learn import learn_chain
from fairchain.chain.plan import Kind
from fairchain.spec import Spec, revise

# Features in the order of the network, each added to those before; sex comes last and has two values, so that the
# accuracy of the labels asks for the same in all chains.
STEPS = ("age", "workclass", "fnlwgt", "education", "occupation", "capital-gain", "capital-loss", "hours-per-week")
LAST = "sex"


@dataclass(frozen=True)
class Row:
    """One chain: its states, the rounds it took, and the time."""

    kind: Kind
    states: int
    rounds: int
    seconds: float


def measure(spec: Spec, kind: Kind, features: tuple[str, ...], epsilon: float) -> Row:
    start = time.perf_counter()
    states = [f"{name}:values" for name in (*features, LAST)]
    chain = learn_chain(None, spec, units=states, chain=kind, epsilon=epsilon, seed=0)
    return Row(kind, len(chain), chain.metadata["rounds"], time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=0.01)
    parser.add_argument("--delta", type=float, default=0.1)
    options = parser.parse_args()
    spec = revise(load_spec(example("census")), property__protected=["race"], guarantee__delta=options.delta)
    for kind in ("shared", "product"):
        rows = []
        for count in range(1, len(STEPS) + 1):
            rows.append(measure(spec, kind, STEPS[:count], options.epsilon))
            row = rows[-1]
            print(f"{row.kind:8} {row.states:6} states {row.rounds:10,} rounds {row.seconds:8.2f} s", flush=True)
        slope = power([(row.states, row.seconds) for row in rows])
        print(f"{kind}: time grows with the number of states to the power {slope:.2f}")


if __name__ == "__main__":
    main()
