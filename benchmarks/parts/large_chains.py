"""Time to check a chain against its number of states, by kind of chain and by operator."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.measuring import power
from benchmarks.results import Cell, Check, Column, PartResult, Table
from benchmarks.sizes import Sizes
from fairchain.chain import Chain
from fairchain.errors import QueryError
from fairchain.pctl import check_chain

KINDS = ("layers", "line", "square", "graph", "steps", "clusters")
WALKS = ("line", "square")
FORMULAS = {
    "F": 'P=? [ F "left" ]',
    "U": 'P=? [ !"tenth" U "left" ]',
    "G": 'P=? [ G !"left" ]',
    "F<=100": 'P=? [ F<=100 "left" ]',
    "S": 'S=? [ "tenth" ]',
    "R": 'R=? [ F ("left" | "right") ]',
}
TEXT = """This section measures how long fairchain takes to answer [queries](../docs/chains.md#queries) on large chains.
There is one query for each of these operators: F (eventually), U (until), G (always), F<=100 (within 100 steps), S
(steady state) and R (expected steps). Each query is answered twice: in the first table for the transition probabilities
themselves, and in the second table for intervals around them (2% of each probability to either side). There are six
kinds of chains:

- *Layers* is like a chain learned from a feed-forward network.
- *Line* and *square* are random walks whose ends are far apart.
- In a *graph*, every state leads to four random states, so nearly all states are one strongly connected component.
- *Steps* and *clusters* consist of a hundred random graphs, and three edges lead from each graph to other graphs. In
  *steps*, these edges lead to the next graph only. In *clusters*, these edges lead to random states, so most states are
  one strongly connected component.

*Power* is the slope of seconds against states on logarithmic scales. fairchain
[refuses](../docs/chains.md#limits-of-the-computation) a query if it cannot compute a reliable answer in reasonable
time. A dash marks a query that was refused."""
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
    """Return the seconds of a query, None if it was refused."""
    chain = large_chain(kind, size, returning=operator == "S")
    if bounds:
        low, high = ((1 + side * WIDTH) * chain.probabilities for side in (-1, 1))
        single = chain.probabilities == 1
        chain = replace(chain, low=np.where(single, 1, low), high=np.minimum(high, 1))
    start = time.perf_counter()
    try:
        check_chain(chain, FORMULAS[operator])
    except QueryError:
        return None
    return time.perf_counter() - start


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # chains are made here
    """Measure every kind of chain and every operator."""
    tables = [_table(bounds=bounds, states=sizes.chain_states) for bounds in (False, True)]
    refused = sum(row[2] is None for table in tables for row in table.rows)
    name = f"queries refused on chains of {sizes.chain_states[0]:,} states"
    return PartResult(
        text=TEXT,
        tables=tables,
        checks=[Check(name, refused == 0, str(refused), "none")],
        settings={"states": ", ".join(f"{states:,}" for states in sizes.chain_states), "seed": 0},
    )


def _table(*, bounds: bool, states: tuple[int, ...]) -> Table:
    columns = [Column("chain"), Column("operator"), *(Column(f"{n:,} states, s", ".3f") for n in states)]
    columns.append(Column("power", ".2f"))
    rows: list[list[Cell]] = []
    for kind in KINDS:
        for operator in FORMULAS:
            seconds = [measure(kind, size, operator, bounds=bounds) for size in states]
            known = [(size, each) for size, each in zip(states, seconds, strict=True) if each is not None]
            rows.append([kind, operator, *seconds, power(known)])
    title = "Bounds for intervals of the probabilities" if bounds else "Values for the probabilities themselves"
    return Table(title, columns, rows)
