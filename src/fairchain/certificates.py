"""A verdict as a file that others can check: versioned JSON with the spec, the seed and every count.

Only the entry `times` differs between two runs of the same spec and seed. The digest detects accidental changes;
`recheck` detects forgery, because it trusts nothing in the file that it can compute again.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from fairchain import statements
from fairchain._version import __version__
from fairchain.certificate_format import (
    FAMILY_FORMAT,
    FORMAT,
    STREAM,
    VERSION,
    BatchEvidence,
    Certificate,
    EnumerationEvidence,
    FamilyCertificate,
    RowEvidence,
    RunEvidence,
    Software,
    Times,
    digest,
    family_digest,
    upper_triangle,
)
from fairchain.errors import CertificateError
from fairchain.spec import Marginals, Table
from fairchain.spec.documents import files_of, texts_in_memory
from fairchain.system.atomic_write import place
from fairchain.verification.family import FamilyVerdict
from fairchain.verification.verdict import BoundsRecord, RunRecord, Verdict


def make_certificate(verdict: Verdict, *, timed: bool = True) -> dict[str, Any]:
    """Return the certificate of a verdict as plain JSON values.

    If `timed` is False, the date and the duration are left out. Two runs with the same model, spec, data and seed then
    have the same certificate, unless a budget of seconds ended a run.
    """
    record = verdict.evidence
    if not verdict.sound:
        raise CertificateError(statements.NO_PAPER_CERTIFICATE)
    if isinstance(record, BoundsRecord):
        raise CertificateError(statements.NO_BOUNDS_CERTIFICATE)
    if isinstance(record, RunRecord) and not record.whole:
        raise CertificateError(statements.TOO_MANY_COUNTS)
    if verdict.unseen:
        raise CertificateError(statements.NO_PARTIAL_CERTIFICATE)
    if not verdict.certifiable:
        in_memory = texts_in_memory(verdict.spec.population)
        raise CertificateError(statements.NO_TEXTS_CERTIFICATE if in_memory else statements.NO_CERTIFICATE)
    claims = verdict.to_dict()
    seconds = claims.pop("seconds")
    # Illustrations, not claims: anyone can find witnesses again, and a forecast or a remark has no guarantee.
    for name in ("witnesses", "free_regions", "forecast", "notes", "assumptions", "unseen"):
        del claims[name]
    created = datetime.now(UTC).isoformat(timespec="seconds")
    certificate: Certificate[RunEvidence | RowEvidence | EnumerationEvidence] = Certificate(
        format=FORMAT,
        version=VERSION,
        software=Software(
            fairchain=__version__,
            python=platform.python_version(),
            numpy=version("numpy"),
            onnxruntime=version("onnxruntime"),
        ),
        spec=_spec_without_folders(verdict),
        claims=claims,
        evidence=_run_evidence(record) if isinstance(record, RunRecord) else record,
        digest="",
        times=Times(created, seconds, verdict.workers) if timed else Times(),
        notes=(*verdict.assumptions, *verdict.notes),
    )
    content = certificate.to_dict()
    return {**content, "digest": digest(content)}


def _spec_without_folders(verdict: Verdict) -> dict[str, Any]:
    """Return the spec with only the names of its files: the folders of the issuer's machine are private."""
    spec: dict[str, Any] = msgspec.to_builtins(verdict.spec)
    parts = [(verdict.spec.model, spec["model"]), (verdict.spec.population, spec["population"])]
    for part, written in [*parts, *zip(verdict.spec.described, spec["feature"], strict=True)]:
        written |= {key: Path(name).name for key, name in files_of(part).items()}
    population = verdict.spec.population
    if verdict.table_sha256 is not None and isinstance(population, Table | Marginals) and population.path is None:
        spec["population"]["path"] = statements.table_name(None)
    return spec


def _run_evidence(record: RunRecord) -> RunEvidence:
    batches = [
        BatchEvidence(
            chunk=batch.first,
            chunk_rounds=batch.size,
            rounds=batch.rounds,
            groups=list(plan.groups),
            leader=plan.leader,
            phase=plan.phase,
            labels=list(batch.labels),
            together=[[upper_triangle(table) for table in part] for part in batch.parts],
            planned=plan.rounds if plan.rounds > batch.rounds else None,
        )
        for plan, batch in record.entries
    ]
    return RunEvidence(STREAM, record.seed.value, record.coupled, list(record.outcomes), record.look, batches)


def make_family_certificate(family: FamilyVerdict, *, timed: bool = True) -> dict[str, Any]:
    """Return everything needed to check the verdicts on several questions again, as plain JSON values."""
    if family.unanswered:
        raise CertificateError(
            f"no certificate: {len(family.unanswered)} of the questions were not answered; run again until the end"
        )
    certificate = FamilyCertificate(
        format=FAMILY_FORMAT,
        version=VERSION,
        verdict=family.conclusion,
        delta=family.delta,
        members=[make_certificate(verdict, timed=timed) for verdict in family.verdicts],
        digest="",
    )
    content = certificate.to_dict()
    return {**content, "digest": family_digest(content)}


def write_certificate(verdict: Verdict | FamilyVerdict, path: str | Path) -> None:
    """Write a certificate atomically, so that a reader never sees an incomplete file."""
    content = make_family_certificate(verdict) if isinstance(verdict, FamilyVerdict) else make_certificate(verdict)
    place({Path(path): dump(content).encode()})


def dump(content: dict[str, Any]) -> str:
    """Return a certificate as readable JSON: one line for each batch or segment."""
    return _certificate(content) + "\n"


def _certificate(content: dict[str, Any]) -> str:
    return _object(
        content,
        "",
        evidence=lambda evidence: _object(evidence, " ", batches=_lines, segments=_lines),
        members=lambda members: "[\n" + ",\n".join(map(_certificate, members)) + "\n]",
    )


def _object(content: Mapping[str, Any], margin: str, **special: Callable[[Any], str]) -> str:
    """Return an object with one entry per line; the entries in `special` are written by separate functions."""

    def written(value: Any) -> str:
        text = json.dumps(value, indent=1, allow_nan=False)
        return text.replace("\n", f"\n{margin} ")

    entries = [f"{margin} {json.dumps(key)}: {special.get(key, written)(value)}" for key, value in content.items()]
    return "{\n" + ",\n".join(entries) + f"\n{margin}}}"


def _lines(batches: list[dict[str, Any]]) -> str:
    lines = ["   " + json.dumps(batch, separators=(",", ":"), allow_nan=False) for batch in batches]
    return "[\n" + ",\n".join(lines) + "\n  ]" if lines else "[]"
