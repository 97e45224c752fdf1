"""Batches of a sampling run in a checkpoint, from which a stopped or killed run continues.

Only batches of the planned length are kept: the plan of the next one follows from the counts of all earlier ones, so a
continued run has the same batches, and the same certificate, as an uninterrupted one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from fairchain._version import __version__
from fairchain.certificate_format import BatchEvidence, chain_start, upper_triangle
from fairchain.errors import CheckpointError
from fairchain.executors.workers import Halted
from fairchain.prepare import Case
from fairchain.spec.seeds import meaning_of
from fairchain.statistics import Rule
from fairchain.system.work_record import ANOTHER_WRITER, WorkRecord, work_record
from fairchain.verification.sampler import Batch, Sampler


class KeptBatches:
    """Batches of a sampler; the first ones may be known from an earlier run of the same question."""

    def __init__(self, sampler: Sampler, record: WorkRecord, path: Path) -> None:
        self._sampler = sampler
        self._record: WorkRecord | None = record
        try:
            self._known = [msgspec.json.decode(piece, type=BatchEvidence) for piece in reversed(record.pieces)]
        except (msgspec.DecodeError, ValueError):
            raise CheckpointError(ANOTHER_WRITER.format(path)) from None

    def run(self, first: int, planned: int, groups: Sequence[int], halted: Halted, most: int | None = None) -> Batch:
        """Return a batch as `Sampler.run` does: the known one, or a new one."""
        if self._known:
            known = self._known.pop()
            whole = most is None or planned <= most
            if whole and (known.chunk, known.rounds, known.groups) == (first, planned, list(groups)):
                parts = tuple(known.tables(place) for place in range(known.chunks))
                counted = known.totals(), parts, tuple(known.labels)
                return Batch(first, known.chunk_rounds, planned, known.chunks, *counted)
            # A smaller budget shortens this batch: it is sampled again, and not kept.
            self._known.clear()
            self._record = None
        batch = self._sampler.run(first, planned, groups, halted, most)
        if self._record is not None and batch.rounds == planned and batch.parts:
            evidence = BatchEvidence(
                chunk=batch.first,
                chunk_rounds=batch.size,
                rounds=batch.rounds,
                groups=list(groups),
                leader=None,
                phase=0,
                labels=list(batch.labels),
                together=[[upper_triangle(table) for table in part] for part in batch.parts],
            )
            self._record.add(msgspec.json.encode(evidence))
        return batch


@contextmanager
def kept_batches(sampler: Sampler, rule: Rule, case: Case, path: Path) -> Iterator[KeptBatches]:
    """Open the checkpoint of a run, exclusively for this process."""
    key = checkpoint_key(case, case.seed.value, type(rule).__name__, rule.coupled, kind=["sampling"])
    with work_record(path, key) as record:
        yield KeptBatches(sampler, record, path)


def checkpoint_key(case: Case, *depends_on: Any, kind: Sequence[str] = ()) -> str:
    """Return the hash of everything that determines the pieces of a run, including software versions."""
    start = chain_start(case.model_sha256, case.data_sha256, meaning_of(case.spec))
    programs = [__version__, *(version(name) for name in ("numpy", "onnxruntime"))]
    return hashlib.sha256(json.dumps([*kind, start, programs, *depends_on]).encode()).hexdigest()
