"""Time to check a chain against its number of states, by kind of chain and by operator.

`python -m benchmarks.large_chains` asks chains of 1,000, 10,000 and 100,000 states one question for each operator, of
the probabilities as they are and of intervals around them (2% of each probability to either side). Kinds: layers, as
learned from a feed-forward network; a walk on a line and one on a square, with few ends far apart; a graph in which
every state leads to four others anywhere, so that everything is one component; and a hundred such graphs, with three
ways out of each: to the next one only (steps), or to anywhere (clusters), so that everything is one component again.
The last column is the power of the number of states with which the time grows.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from fairchain.chain import Chain
from fairchain.errors import QueryError
from fairchain.pctl import check_chain

KINDS = ("layers", "line", "square", "graph", "steps", "clusters")
SIZES = (1_000, 10_000, 100_000)
WALKS = ("line", "square")
FORMULAS = {
    "F": 'P=? [ F "left" ]',
    "U": 'P=? [ !"tenth" U "left" ]',
    "G": 'P=? [ G !"left" ]',
    "F<=100": 'P=? [ F<=100 "left" ]',
    "S": 'S=? [ "tenth" ]',
    "R": 'R=? [ F ("left" | "right") ]',
}
ENDS = 10
CLUSTERS = 100
WIDTH = 0.02


def large_chain(kind: str, size: int, *, returning: bool = False) -> Chain:
    """Ten ends, half of them left and half right; if `returning` they lead back to the initial state."""
    rng = np.random.default_rng(0)
    inner = size - ENDS
    sources, targets = _edges(kind, inner, rng)
    ends = np.arange(inner, size)
    initial = inner // 2 if kind in WALKS else 0
    pairs = np.unique(np.concatenate([sources * size + targets, ends * size + (initial if returning else ends)]))
    sources, targets = pairs // size, pairs % size
    # A walk with random weights digs itself in: it would be left after more steps than there are numbers for.
    weights = np.ones(len(pairs)) if kind in WALKS else rng.random(len(pairs)) + 0.1
    return Chain(
        states=tuple(map(str, range(size))),
        sources=sources,
        targets=targets,
        probabilities=weights / np.bincount(sources, weights, minlength=size)[sources],
        labels={
            "left": frozenset(ends[::2].tolist()),
            "right": frozenset(ends[1::2].tolist()),
            "tenth": frozenset(range(5, inner, 10)),
        },
        initial=initial,
    )


def _edges(kind: str, inner: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Four edges from each inner state; the ends are the numbers from `inner` on."""
    sources = np.repeat(np.arange(inner), 4)
    if kind == "graph":
        return sources, rng.integers(0, inner + ENDS, len(sources))
    if kind in ("steps", "clusters"):
        return sources, _clustered(sources, inner, rng, ahead=kind == "steps")
    if kind == "layers":
        targets = (sources // 100 + 1) * 100 + rng.integers(0, 100, len(sources))
        return sources, np.where(targets >= inner, inner + targets % ENDS, targets)
    if kind == "line":
        targets = sources + np.tile([-2, -1, 1, 2], inner)
        return sources, np.where(targets < 0, inner, np.where(targets >= inner, inner + 1, targets))
    # A square whose border is a wall, but for the upper and the lower side, which are the ends.
    side = int(np.sqrt(inner))
    rows, columns = sources // side, sources % side
    across = np.clip(columns + np.tile([-1, 1, 0, 0], inner), 0, side - 1)
    targets = (rows + np.tile([0, 0, -1, 1], inner)) * side + across
    return sources, np.where(targets < 0, inner, np.where(targets >= inner, inner + 1, targets))


def _clustered(sources: np.ndarray, inner: int, rng: np.random.Generator, *, ahead: bool) -> np.ndarray:
    """Targets within the source's own cluster, but for three edges of each: to the next one, or to anywhere.

    One of the four is the next state, so that each cluster is one component.
    """
    size = inner // CLUSTERS
    cluster = np.minimum(sources // size, CLUSTERS - 1)
    inside = np.where(np.arange(len(sources)) % 4 == 3, (sources + 1) % size, rng.integers(0, size, len(sources)))
    targets: np.ndarray = cluster * size + inside
    for edge in range(3):
        ways = 4 * (np.arange(CLUSTERS) * size + rng.integers(0, size, CLUSTERS)) + edge
        following = (cluster[ways] + 1) * size + rng.integers(0, size, CLUSTERS)
        following[-1] = inner
        targets[ways] = following if ahead else rng.integers(0, inner, CLUSTERS)
    targets[4 * rng.choice(size * CLUSTERS, ENDS, replace=False)] = np.arange(inner, inner + ENDS)
    return targets


def measure(kind: str, size: int, operator: str, *, bounds: bool) -> float | None:
    """Seconds to answer, None if the question was refused."""
    chain = large_chain(kind, size, returning=operator == "S")
    if bounds:
        low, high = ((1 + side * WIDTH) * chain.probabilities for side in (-1, 1))
        single = chain.probabilities == 1
        chain = replace(chain, low=np.where(single, 1, low), high=np.minimum(high, 1))
    start = time.perf_counter()
    try:
        check_chain(chain, FORMULAS[operator])
    except QueryError as refused:
        print(f"    {kind}, {size:,} states, {operator}: {refused}")
        return None
    return time.perf_counter() - start


def power(seconds: list[tuple[int, float]]) -> float:
    """How time grows with states, on logarithmic scales: 1 is linear."""
    states, spent = np.log(np.array(seconds, float)).T
    return float(np.polyfit(states, spent, 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--operators", nargs="+", choices=FORMULAS, default=list(FORMULAS))
    parser.add_argument("--most", type=int, default=SIZES[-1], help="the largest number of states")
    options = parser.parse_args()
    sizes = [size for size in SIZES if size <= options.most]
    for bounds in (False, True):
        print("bounds from intervals" if bounds else "values", "(seconds by number of states)")
        print(f"{'':16}" + "".join(f"{size:>10,}" for size in sizes) + "     power")
        for kind in options.kinds:
            for operator in options.operators:
                seconds = [measure(kind, size, operator, bounds=bounds) for size in sizes]
                shown = "".join("   refused" if spent is None else f"{spent:10.3f}" for spent in seconds)
                known = [(size, spent) for size, spent in zip(sizes, seconds, strict=True) if spent is not None]
                grows = f"{power(known):10.2f}" if len(known) > 1 else f"{'-':>10}"
                print(f"{kind:8}{operator:8}{shown}{grows}", flush=True)


if __name__ == "__main__":
    main()
