"""The claim that the counts are the network's own: batches drawn again, asked again, compared count by count."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from fairchain.errors import ModelError
from fairchain.model import OnnxModel
from fairchain.population import UniformPopulation
from fairchain.rechecking.record import CertificateFile, Claim, Evidence
from fairchain.rechecking.replay import BatchRecord, table_of
from fairchain.spec import Spec


def rerun_claim(
    model: OnnxModel,
    asked: Spec,
    file: CertificateFile,
    full: bool,
    evaluations: int,
    seed: int | None,
    progress: Callable[[int, int], None] | None,
) -> tuple[int, Claim]:
    """Draw batches again, ask the network again, compare every count."""
    batches = file.evidence.batches
    numbers = list(range(len(batches)))
    # Unless a seed is given the sample comes from the system's entropy, which nobody can foresee.
    (random.Random(seed) if seed is not None else random.SystemRandom()).shuffle(numbers)
    chosen: list[int] = []
    cost = 0
    for number in numbers:
        price = batches[number].rounds * len(batches[number].groups)
        if full or not chosen or cost + price <= evaluations:
            chosen.append(number)
            cost += price
    population = UniformPopulation(asked, model.dtype)
    done = 0
    for number in sorted(chosen):
        batch = batches[number]
        try:
            again = _count_again(model, population, file.evidence, batch)
        except ModelError as error:
            return done, Claim("re-run", False, str(error))
        done += batch.rounds * len(batch.groups)
        if progress is not None:
            progress(done, cost)
        off = sum(int(np.abs(a - b).max()) for a, b in zip(again, table_of(batch), strict=True))
        if off:
            return done, Claim(
                "re-run",
                False,
                f"batch {number} gives other counts (up to {off} of {batch.rounds} rounds); if they differ by one or "
                "two, another processor may round the network's sums differently",
            )
    share = "all" if len(chosen) == len(batches) else f"{len(chosen)} of {len(batches)} batches, chosen at random,"
    return done, Claim("re-run", True, f"{share} re-drawn and re-run: {done} evaluations, every count the same")


def _count_again(model: OnnxModel, population: UniformPopulation, evidence: Evidence, batch: BatchRecord) -> list[Any]:
    totals: list[Any] = [0 for _ in evidence.outcomes]
    for part, start in enumerate(range(0, batch.rounds, batch.chunk_rounds)):
        count = min(batch.chunk_rounds, batch.rounds - start)
        labels = []
        for group in batch.groups:
            copy = 0 if evidence.coupled else 1 + group
            rounds = population.rounds(evidence.seed, batch.chunk + part, count, copy)
            labels.append(model.predict(rounds.inputs([group])))
        for place, outcome in enumerate(evidence.outcomes):
            got = (np.stack(labels) == outcome).astype(np.int64)
            totals[place] = totals[place] + got @ got.T
    return totals
