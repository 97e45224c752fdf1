"""Chains for the tests: from rows, at random, with bounds, and at random between bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairchain.chain import Chain


def chain_of(rows: Sequence[Mapping[int, float]], labels: Mapping[str, Sequence[int]], **more: Any) -> Chain:
    """A chain from the transitions of each state."""
    entries = [(source, target, row[target]) for source, row in enumerate(rows) for target in sorted(row)]
    sources, targets, probabilities = (np.array(column) for column in zip(*entries, strict=True))
    return Chain(
        states=tuple(f"s{number}" for number in range(len(rows))),
        sources=sources,
        targets=targets,
        probabilities=probabilities.astype(float),
        labels={label: frozenset(states) for label, states in labels.items()},
        **more,
    )


def random_chain(rng: np.random.Generator, size: int) -> Chain:
    """Loops, absorbing states and classes, unreachable parts; labels a (rare), b and c (nearly everywhere)."""
    sources = np.repeat(np.arange(size), rng.integers(1, 5, size))
    count = len(sources)
    anywhere = rng.integers(0, size, count)
    block = max(2, size // 6)
    kind = rng.integers(4)
    if kind == 0:
        targets = anywhere
    elif kind == 1:
        # Ahead or to itself: no cycles but loops.
        targets = np.minimum(sources + rng.integers(0, 4, count), size - 1)
    elif kind == 2:
        # Classes that are left in one direction only.
        ahead = rng.random(count) < 0.1
        first = sources // block * block
        targets = np.minimum(first + rng.integers(0, block, count) + np.where(ahead, block, 0), size - 1)
    else:
        targets = np.clip(sources + rng.integers(-2, 3, count), 0, size - 1)
    absorbing = rng.random(size) < rng.choice([0, 0.02, 0.3])
    targets = np.where(absorbing[sources], sources, targets)
    pairs = np.unique(sources * size + targets)
    sources, targets = pairs // size, pairs % size
    weights = rng.random(len(pairs)) + 0.05
    return Chain(
        states=tuple(f"s{number}" for number in range(size)),
        sources=sources,
        targets=targets,
        probabilities=weights / np.bincount(sources, weights, minlength=size)[sources],
        labels={
            label: frozenset(np.flatnonzero(rng.random(size) < share).tolist())
            for label, share in (("a", 0.1), ("b", 0.4), ("c", 0.85))
        },
        initial=int(rng.integers(size)),
    )


def clustered(count: int, size: int, *, ahead: bool) -> Chain:
    """Random graphs with three ways out of each: to the next, or to anywhere, which makes one component of all.

    Every state leads to eight others of its cluster; runs end "left" or "right", from everywhere with certainty.
    """
    rng = np.random.default_rng(0)
    inner = count * size
    sources = np.repeat(np.arange(inner), 8)
    cluster = sources // size
    # One of the eight is the neighbour, so that each cluster is one component for sure.
    inside = np.where(np.arange(len(sources)) % 8, rng.integers(0, size, len(sources)), (sources + 1) % size)
    targets = cluster * size + inside
    ways = (8 * (np.arange(count)[:, None] * size + np.arange(3) * (size // 3)) + 1).ravel()
    following = (cluster[ways] + 1) * size + rng.integers(0, size, len(ways))
    targets[ways] = following if ahead else rng.integers(0, inner, len(ways))
    if not ahead:
        # One way out of each leads on all the same, and from the last to the first.
        targets[ways[2::3]] = following[2::3] % inner
    targets[ways[-3:-1]] = inner, inner + 1
    targets = np.where(targets >= inner, inner + targets % 2, targets)
    ends = np.array([inner, inner + 1])
    sources, targets = np.concatenate([sources, ends]), np.concatenate([targets, ends])
    pairs = np.unique(sources * (inner + 2) + targets)
    sources, targets = pairs // (inner + 2), pairs % (inner + 2)
    weights = rng.random(len(pairs)) + 0.1
    return Chain(
        states=tuple(f"s{number}" for number in range(inner + 2)),
        sources=sources,
        targets=targets,
        probabilities=weights / np.bincount(sources, weights, minlength=inner + 2)[sources],
        labels={"left": frozenset([inner]), "right": frozenset([inner + 1]), "odd": frozenset(range(1, inner, 2))},
    )


def with_bounds(rng: np.random.Generator, chain: Chain, *, open_ends: bool) -> Chain:
    """Bounds around each probability; with `open_ends` some transitions may not be there at all."""
    probabilities = chain.probabilities
    width = rng.choice([0.01, 0.1, 0.5])
    low = np.minimum(np.maximum(probabilities - width * rng.random(len(probabilities)), 1e-3), probabilities)
    high = np.minimum(probabilities + width * rng.random(len(probabilities)), 1)
    if open_ends:
        low = np.where(rng.random(len(low)) < 0.4, 0, low)
        high = np.where(rng.random(len(high)) < 0.3, 1, high)
    return replace(chain, low=low, high=high)


def between(rng: np.random.Generator, chain: Chain) -> Chain:
    """A chain whose probabilities are anywhere between the bounds of another."""
    assert chain.low is not None
    assert chain.high is not None
    first, second = (corner(chain, [rng.permutation(length) for length in np.diff(chain.starts)]) for _ in range(2))
    mixed = rng.random(len(chain))[chain.sources]
    mixed = np.where(rng.random() < 0.5, mixed, 1.0)
    return replace(chain, probabilities=mixed * first + (1 - mixed) * second, low=None, high=None)


def corner(chain: Chain, orders: Sequence[Sequence[int]]) -> np.ndarray:
    """Probabilities that give each row's transitions, in an order, as much as the bounds allow."""
    assert chain.low is not None
    assert chain.high is not None
    probabilities = chain.low.copy()
    for state, order in enumerate(orders):
        places = slice(chain.starts[state], chain.starts[state + 1])
        left = 1 - chain.low[places].sum()
        row = probabilities[places]
        for place in order:
            given = min(left, chain.high[places][place] - chain.low[places][place])
            row[place] += given
            left -= given
    return probabilities
