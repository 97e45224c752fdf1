"""A certificate as it is read: strict structs, and what a claim about it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fairchain.certificate_format import FORMAT, VERSION
from fairchain.errors import CertificateError
from fairchain.rechecking.replay import BatchRecord, Count

MOST_BYTES = 500_000_000
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Claim:
    """One thing that a certificate says, and whether it holds."""

    name: str
    holds: bool
    detail: str


class Look(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rounds that were drawn in search of a second label, and the labels seen in them."""

    rounds: Count
    labels: list[Count]


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The counts and how they were drawn."""

    stream: str
    seed: int
    coupled: bool
    outcomes: list[int]
    look: Look | None
    batches: list[BatchRecord]

    @property
    def labels(self) -> list[int]:
        """All labels that the network is said to have given."""
        batches = {label for batch in self.batches for label in batch.labels}
        return sorted(batches.union(self.look.labels if self.look is not None else ()))


class RowEvidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The counts of a table: for each column of people how many there are, and how many got each outcome."""

    rows: Count
    outcomes: list[int]
    asked: list[Count]
    got: list[list[Count]]
    labels: list[Count]


class CertificateFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole certificate."""

    format: str
    version: int
    software: dict[str, str]
    spec: dict[str, Any]
    claims: dict[str, Any]
    evidence: dict[str, Any]
    digest: str
    times: dict[str, Any]


def read_certificate(path: Path) -> tuple[dict[str, Any], CertificateFile]:
    """The file as plain values and as a record, or a CertificateError that says why it is none."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise CertificateError(f"{path}: larger than {MOST_BYTES} bytes")
        content = path.read_bytes()
        raw = msgspec.json.decode(content)
        file = msgspec.convert(raw, CertificateFile)
    except FileNotFoundError:
        raise CertificateError(
            f"{path}: no such file; write one with fairchain verify SPEC --certificate FILE"
        ) from None
    except OSError as error:
        raise CertificateError(f"{path}: cannot be read ({error.strerror})") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CertificateError(f"{path}: not a fairchain certificate: {error}") from None
    if file.format != FORMAT or file.version != VERSION:
        raise CertificateError(
            f"{path}: format {file.format} version {file.version}; this program reads {FORMAT} version {VERSION}"
        )
    return raw, file


def evidence_of(path: Path, file: CertificateFile, kind: type[Kind]) -> Kind:
    """The evidence as a record of this kind, or a CertificateError."""
    try:
        return msgspec.convert(file.evidence, kind)
    except msgspec.ValidationError as error:
        raise CertificateError(f"{path}: not a fairchain certificate: evidence: {error}") from None
