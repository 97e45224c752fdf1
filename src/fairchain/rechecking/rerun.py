"""The claim that the counts are the network's own: parts of batches drawn again, asked again, compared exactly."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairchain.certificate_format import LOOK_CHUNK, LOOK_ROUNDS
from fairchain.errors import ModelError
from fairchain.model import Model
from fairchain.rechecking.record import Claim, Look
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
        shown = _that_show_labels(batches)
        always = [part for part in parts if part[0] in shown]
        chosen = parts if total <= most else sorted({*_sample(parts, most, seed), *always})
        wanted = sum(cost for *_, cost in chosen)
        done = 0
        labels: dict[int, set[int]] = {}
        for number, part, cost in sorted(chosen):
            try:
                again, given = self._count(batches[number], part)
            except ModelError as error:
                return Claim("re-run", False, str(error)), done, 0.0
            done += cost
            if progress is not None:
                progress(done, wanted)
            off = max(int(np.abs(a - b).max()) for a, b in zip(again, batches[number].tables(part), strict=True))
            if off:
                return Claim("re-run", False, _difference(number, part, off, batches[number])), done, 0.0
            labels[number] = labels.get(number, set()) | given
        missing = {number for number, *_ in set(parts) - set(chosen)}
        for number, given in labels.items():
            claimed, whole = set(batches[number].labels), number not in missing
            if given != claimed if whole else not given <= claimed:
                detail = f"batch {number} gives the labels {sorted(given)}, the certificate says {sorted(claimed)}"
                return Claim("re-run", False, detail), done, 0.0
        fraction = done / total if total else 1.0
        share = "everything" if len(chosen) == len(parts) else f"{len(chosen)} of {len(parts)} parts, chosen at random"
        detail = f"{share}: {done:,} evaluations ({fraction:.1%}) drawn and run again, every count the same"
        return Claim("re-run", True, detail), done, fraction

    def look(self, look: Look, batches: Sequence[BatchRecord]) -> Claim:
        """Try the further inputs again, in which a second label was looked for."""
        given = {label for batch in batches for label in batch.labels}
        arms = range(len(self.sources.comparison.arms))
        for start in range(0, look.rounds, LOOK_ROUNDS):
            count = min(LOOK_ROUNDS, look.rounds - start)
            given |= set(np.unique(self._labels(LOOK_CHUNK + start // LOOK_ROUNDS, count, arms)).tolist())
        names = self.sources.spec.model.labels
        found = ", ".join(f'"{names[label]}"' for label in sorted(given))
        if sorted(given) != look.labels:
            return Claim("labels", False, f"the model gives {found}, the certificate says labels {look.labels}")
        return Claim("labels", True, f"{look.rounds * len(arms):,} further inputs tried again: the model gives {found}")

    def _labels(self, chunk: int, count: int, arms: Sequence[int]) -> Any:
        """The label of each round of a chunk as each of these arms."""
        population, seed = self.sources.population, self.sources.spec.guarantee.seed
        return np.stack(
            [
                self.model.predict(population.rounds(seed, chunk, count, 0 if self.coupled else 1 + arm).inputs([arm]))
                for arm in arms
            ]
        ).astype(np.int64)

    def _count(self, batch: BatchRecord, part: int) -> tuple[list[Any], set[int]]:
        """The counts of a part, and the labels seen in it."""
        comparison = self.sources.comparison
        totals: list[Any] = [0 for _ in comparison.rows]
        given: set[int] = set()
        start, stop = 4 * part, min(4 * part + 4, -(-batch.rounds // batch.chunk_rounds))
        for place in range(start, stop):
            count = min(batch.chunk_rounds, batch.rounds - place * batch.chunk_rounds)
            seen = self._labels(batch.chunk + place, count, comparison.asks(batch.groups))
            given |= set(np.unique(seen).tolist())
            if comparison.individual:
                seen = _changes(seen, comparison.outcomes)
            for each, outcome in enumerate(comparison.rows):
                got = (seen == outcome).astype(np.int64)
                totals[each] = totals[each] + got @ got.T
        return totals, given


def _that_show_labels(batches: Sequence[BatchRecord]) -> set[int]:
    """The first batch, and the first that has a label which no batch before it has: together they show two labels."""
    seen: set[int] = set()
    for number, batch in enumerate(batches):
        seen |= set(batch.labels)
        if len(seen) > 1:
            return {0, number}
    return set()


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
