"""How good the stakes of a bet are: rounds needed, relative to somebody who knows the best stake for each situation.

`python -m benchmarks.stakes` prints the numbers of docs/mathematics.md, "The stakes", for the shares in use and for
twelve equal shares at ratio 2. Expected growth only: no sampling, so the numbers are the same on every machine.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairchain.statistics.e_values import BETS, LOG_SHARES

# Values of [i got it] - [j got it].
DIFFERENCES = np.array([1.0, 0.0, -1.0])

Floats = NDArray[np.float64]
Situation = tuple[Floats, Floats]


def situations() -> list[Situation]:
    """(chances, payoffs divided by the largest loss) for thresholds, disagreements and gaps that occur."""
    found: list[Situation] = []
    for threshold in (0.02, 0.05, 0.1, 0.2):
        for differ in (0.01, 0.03, 0.1, 0.3, 0.5):
            for times in (-0.5, 0, 0.25, 0.5, 0.8, 0.95, 1.1, 1.3, 1.7, 2.5):
                gap = times * threshold
                if abs(gap) > differ:
                    continue
                chances = np.array([(differ + gap) / 2, 1 - differ, (differ - gap) / 2])
                fair = (threshold - DIFFERENCES) / (1 - threshold)
                unfair = (DIFFERENCES - threshold) / (1 + threshold)
                found.append((chances, fair if times < 1 else unfair))
    return found


def rates(situation: Situation, bets: Floats) -> Floats:
    """Expected log growth of each bet."""
    chances, payoffs = situation
    return chances @ np.log1p(np.outer(payoffs, bets))


def relative_cost(situation: Situation, bets: Floats, log_shares: Floats, alpha: float) -> float:
    """Rounds until the expected wealth of all bets reaches 1/alpha, divided by those of the best single bet."""
    growth = rates(situation, bets)
    best = rates(situation, np.geomspace(1e-4, 0.999, 4000)).max()
    few, many = 0.0, 1e9
    for _ in range(80):
        middle = (few + many) / 2
        reached = np.logaddexp.reduce(log_shares + middle * growth) >= -math.log(alpha)
        few, many = (few, middle) if reached else (middle, many)
    return float(many * best / -math.log(alpha))


def main() -> None:
    equal = 0.97 * 2.0 ** -np.arange(12.0), np.full(12, -math.log(12))
    for name, (bets, log_shares) in {"in use": (BETS, LOG_SHARES), "twelve equal": equal}.items():
        for alpha in (1e-6, 0.05):
            costs = [relative_cost(each, bets, log_shares, alpha) for each in situations()]
            print(
                f"{name:13} alpha {alpha:<6g} {len(costs)} situations: "
                f"mean {np.mean(costs):.3f}, median {np.median(costs):.3f}, worst {max(costs):.3f}"
            )


if __name__ == "__main__":
    main()
