"""The claim that the counts are the network's own: parts of batches drawn again, asked again, compared exactly."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairchain.errors import ModelError
from fairchain.model import Model
from fairchain.rechecking.record import Claim
from fairchain.rechecking.replay import BatchRecord
from fairchain.rechecking.sources import Sources


@dataclass(frozen=True)
class Rerun:
    """How to run a certificate's rounds again: on which network, from which seed, counting which labels."""

    model: Model
    sources: Sources
    coupled: bool

    def check(
        self,
        batches: Sequence[BatchRecord],
        most: float,
        seed: int | None,
        progress: Callable[[int, int], None] | None,
    ) -> tuple[Claim, int, float]:
        """Re-run parts worth about `most` evaluations; the claim, the evaluations, and which fraction that was."""
        comparison = self.sources.comparison
        parts = [
            (number, part, rounds * len(comparison.asks(batch.groups)))
            for number, batch in enumerate(batches)
            for part, rounds in enumerate(batch.part_rounds())
        ]
        total = sum(cost for *_, cost in parts)
        chosen = parts if total <= most else _sample(parts, most, seed)
        wanted = sum(cost for *_, cost in chosen)
        done = 0
        for number, part, cost in sorted(chosen):
            try:
                again = self._count(batches[number], part)
            except ModelError as error:
                return Claim("re-run", False, str(error)), done, 0.0
            done += cost
            if progress is not None:
                progress(done, wanted)
            off = max(int(np.abs(a - b).max()) for a, b in zip(again, batches[number].tables(part), strict=True))
            if off:
                return Claim("re-run", False, _difference(number, part, off, batches[number])), done, 0.0
        fraction = done / total if total else 1.0
        share = "everything" if len(chosen) == len(parts) else f"{len(chosen)} of {len(parts)} parts, chosen at random"
        detail = f"{share}: {done:,} evaluations ({fraction:.1%}) drawn and run again, every count the same"
        return Claim("re-run", True, detail), done, fraction

    def _count(self, batch: BatchRecord, part: int) -> list[Any]:
        comparison, population = self.sources.comparison, self.sources.population
        seed = self.sources.spec.guarantee.seed
        totals: list[Any] = [0 for _ in comparison.rows]
        start, stop = 4 * part, min(4 * part + 4, -(-batch.rounds // batch.chunk_rounds))
        for place in range(start, stop):
            count = min(batch.chunk_rounds, batch.rounds - place * batch.chunk_rounds)
            labels = []
            shown = list(comparison.asks(batch.groups))
            for copy, arms in [(0, shown)] if self.coupled else [(1 + arm, [arm]) for arm in shown]:
                rounds = population.rounds(seed, batch.chunk + place, count, copy, arms=arms)
                labels += [self.model.predict(rounds.inputs([arm])) for arm in arms]
            seen = np.stack(labels).astype(np.int64)
            if comparison.individual:
                seen = _changes(seen, comparison.outcomes)
            for each, outcome in enumerate(comparison.rows):
                got = (seen == outcome).astype(np.int64)
                totals[each] = totals[each] + got @ got.T
        return totals


def _changes(labels: Any, outcomes: Sequence[int]) -> Any:
    """Two arms for each person: 1 where the decision is not the same in all groups, and a second that is always 0."""
    looked_at = (labels == outcomes[0]) if outcomes else labels
    changed = looked_at.max(axis=0) != looked_at.min(axis=0)
    return np.stack([changed.astype(np.int64), np.zeros(len(changed), np.int64)])


def _sample(parts: list[tuple[int, int, int]], most: float, seed: int | None) -> list[tuple[int, int, int]]:
    """Parts at random, without repetition, each as likely as its cost: evidence is worth what was sampled for it.

    Unless a seed is given the choice comes from the system's entropy, which nobody can foresee.
    """
    source = random.Random(seed) if seed is not None else random.SystemRandom()
    order = sorted(parts, key=lambda part: source.random() ** (1 / part[2]), reverse=True)
    chosen: list[tuple[int, int, int]] = []
    cost = 0
    for part in order:
        if chosen and cost + part[2] > most:
            break
        chosen.append(part)
        cost += part[2]
    return chosen


def _difference(number: int, part: int, off: int, batch: BatchRecord) -> str:
    return (
        f"batch {number}, part {part} gives other counts (up to {off} of {batch.part_rounds()[part]} rounds); if they "
        "differ by one or two, another processor may round the network's sums differently"
    )
