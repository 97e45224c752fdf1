"""A verdict as a file that somebody else can check: versioned JSON with the spec, the seed and every count.

Only the entry `times` differs between two runs of the same spec and seed. The digest guards against accidents; what
guards against forgery is `recheck`, which believes nothing in the file that it can recompute.
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
import numpy as np

from fairchain._version import __version__
from fairchain.certificate_format import FORMAT, STREAM, VERSION, digest
from fairchain.errors import CertificateError
from fairchain.spec import Marginals, Table
from fairchain.spec.files import files_of
from fairchain.statements import NO_CERTIFICATE, NO_PAPER_CERTIFICATE, TOO_MANY_COUNTS, table_name
from fairchain.system.atomic_write import place
from fairchain.verification.verdict import RowRecord, RunRecord, Verdict


def make_certificate(verdict: Verdict, *, timed: bool = True) -> dict[str, Any]:
    """Everything needed to check a verdict again, as plain JSON values; without times the same bytes in every run."""
    if not verdict.sound:
        raise CertificateError(NO_PAPER_CERTIFICATE)
    if not verdict.evidence.whole:
        raise CertificateError(TOO_MANY_COUNTS)
    if not verdict.certifiable:
        raise CertificateError(NO_CERTIFICATE)
    spec = msgspec.to_builtins(verdict.spec)
    # The file's name is enough to find it; the folders of the machine it was checked on are nobody's business.
    parts = [(verdict.spec.model, spec["model"]), (verdict.spec.population, spec["population"])]
    for part, written in [*parts, *zip(verdict.spec.described, spec["feature"], strict=True)]:
        written |= {key: Path(name).name for key, name in files_of(part).items()}
    population = verdict.spec.population
    if verdict.table_sha256 is not None and isinstance(population, Table | Marginals) and population.path is None:
        spec["population"]["path"] = table_name(None)
    claims = verdict.to_dict()
    seconds = claims.pop("seconds")
    # Illustrations, not claims: anybody can find witnesses again, and a forecast or a remark promises nothing.
    del claims["witnesses"], claims["forecast"], claims["notes"]
    record = verdict.evidence
    content = {
        "format": FORMAT,
        "version": VERSION,
        "software": {
            "fairchain": __version__,
            "python": platform.python_version(),
            "numpy": version("numpy"),
            "onnxruntime": version("onnxruntime"),
        },
        "spec": spec,
        "claims": claims,
        "evidence": _rounds(record) if isinstance(record, RunRecord) else _rows(record),
    }
    return {
        **content,
        "digest": digest(content),
        "times": {"created": datetime.now(UTC).isoformat(timespec="seconds"), "seconds": seconds} if timed else {},
    }


def _rounds(record: RunRecord) -> dict[str, Any]:
    return {
        "stream": STREAM,
        "seed": record.seed.value,
        "coupled": record.coupled,
        "outcomes": list(record.outcomes),
        "look": None if record.look is None else {"rounds": record.look.rounds, "labels": list(record.look.labels)},
        "batches": [
            {
                "chunk": batch.first,
                "chunk_rounds": batch.size,
                "rounds": batch.rounds,
                "groups": list(plan.groups),
                "leader": list(plan.leader) if plan.leader else None,
                "phase": plan.phase,
                "labels": list(batch.labels),
                "together": [[_upper(table) for table in part] for part in batch.parts],
            }
            for plan, batch in record.entries
        ],
    }


def _rows(record: RowRecord) -> dict[str, Any]:
    return {
        "rows": record.rows,
        "outcomes": list(record.outcomes),
        "trials": list(record.trials),
        "successes": [list(row) for row in record.successes],
        "labels": list(record.labels),
    }


def write_certificate(verdict: Verdict, path: str | Path) -> None:
    """Write a certificate in one step: a reader never sees half of it."""
    write_text(Path(path), dump(make_certificate(verdict)))


def dump(content: dict[str, Any]) -> str:
    """Return the certificate as JSON that a reader can scroll through: one line for each batch."""
    return _object(content, "", evidence=lambda evidence: _object(evidence, " ", batches=_lines)) + "\n"


def _object(content: Mapping[str, Any], margin: str, **special: Callable[[Any], str]) -> str:
    """An object with an entry a line, of which some are written in a way of their own."""

    def written(value: Any) -> str:
        text = json.dumps(value, indent=1, allow_nan=False)
        return text.replace("\n", f"\n{margin} ")

    entries = [f"{margin} {json.dumps(key)}: {special.get(key, written)(value)}" for key, value in content.items()]
    return "{\n" + ",\n".join(entries) + f"\n{margin}}}"


def _lines(batches: list[dict[str, Any]]) -> str:
    lines = ["   " + json.dumps(batch, separators=(",", ":"), allow_nan=False) for batch in batches]
    return "[\n" + ",\n".join(lines) + "\n  ]" if lines else "[]"


def write_text(path: Path, text: str) -> None:
    """Write a whole file or nothing."""
    write_files({path: text.encode()})


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Write files whole, all of them or none, as far as `place` can promise it."""
    place(contents)


def _upper(table: np.ndarray[Any, Any]) -> list[list[int]]:
    """The upper triangle of a symmetric table, row by row, the diagonal first."""
    return [[int(value) for value in row[i:]] for i, row in enumerate(table)]
