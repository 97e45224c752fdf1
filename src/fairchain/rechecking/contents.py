"""A certificate as it is read: untrusted JSON, parsed strictly, and what a claim about it is.

A file means one thing or is refused: no key twice, no key that is not known, no number that is not finite or does not
fit into 64 bits, and no more values than a bounded memory holds.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec

from fairchain.certificate_format import FORMAT, MOST_VALUES, VERSION
from fairchain.errors import CertificateError
from fairchain.rechecking.replay import BatchRecord, Count
from fairchain.system.plain_files import open_plain
from fairchain.system.strict_json import object_once

MOST_BYTES = 200_000_000
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
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
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
    trials: list[Count]
    successes: list[list[Count]]
    labels: list[Count]


class Software(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Versions of what made the certificate."""

    fairchain: str
    python: str
    numpy: str
    onnxruntime: str


class Times(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When and in how many seconds; the only part that two runs of the same question do not share."""

    created: str | None = None
    seconds: float | None = None


class CertificateFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole certificate."""

    format: str
    version: int
    software: Software
    spec: dict[str, Any]
    claims: dict[str, Any]
    evidence: dict[str, Any]
    digest: str
    times: Times


def read_certificate(path: Path) -> tuple[dict[str, Any], CertificateFile]:
    """The file as plain values and as a record, or a CertificateError that says why it is none."""
    raw = _parse(path, _read(path))
    version = (raw.get("format"), raw.get("version")) if isinstance(raw, dict) else (None, None)
    if version[0] == FORMAT and isinstance(version[1], int) and version[1] != VERSION:
        raise CertificateError(
            f"{path}: a certificate of version {version[1]}, and this program reads version {VERSION}; check it with "
            "the fairchain that made it, or issue it again"
        )
    try:
        file = msgspec.convert(raw, CertificateFile)
    except (ValueError, RecursionError) as error:
        raise _none(path, error) from None
    if file.format != FORMAT or file.version != VERSION:
        raise CertificateError(
            f"{path}: format {file.format[:40]} version {file.version}; this program reads {FORMAT} version {VERSION}"
        )
    return raw, file


def evidence_of(path: Path, file: CertificateFile, kind: type[Kind]) -> Kind:
    """The evidence as a record of this kind, or a CertificateError."""
    try:
        return msgspec.convert(file.evidence, kind)
    except (ValueError, RecursionError) as error:
        raise CertificateError(f"{path}: not a fairchain certificate: evidence: {error}") from None


def _read(path: Path) -> str:
    try:
        with open_plain(path) as file:
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise CertificateError(
            f"{path}: no such file; write one with fairchain verify SPEC --certificate FILE"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CertificateError(f"{path}: cannot be read ({reason})") from None
    if len(content) > MOST_BYTES or sum(content.count(mark) for mark in b",[{") > MOST_VALUES:
        raise CertificateError(f"{path}: larger than {MOST_BYTES:,} bytes or {MOST_VALUES:,} values")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise _none(path, error) from None


def _parse(path: Path, text: str) -> Any:
    try:
        return json.loads(
            text, object_pairs_hook=object_once, parse_int=_integer, parse_float=_real, parse_constant=_refused
        )
    except (ValueError, RecursionError) as error:
        raise _none(path, error) from None


def _none(path: Path, error: Exception) -> CertificateError:
    why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    return CertificateError(f"{path}: not a fairchain certificate: {why}")


def _integer(text: str) -> int:
    if len(text) > 20 or abs(int(text)) >= 2**63:
        raise ValueError(f"the number {text[:20]}... does not fit into 64 bits")
    return int(text)


def _real(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(f"the number {text[:20]} is not finite, or does not fit into 64 bits")
    return float(text)


def _refused(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number that a certificate can hold")
