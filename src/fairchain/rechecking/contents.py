"""Reading of certificates: untrusted JSON, parsed strictly, and the claims in it.

A file is unambiguous or refused: no duplicate key, no unknown key, no number that is not finite or does not fit into 64
bits, and a bounded number of values.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from fairchain.certificate_format import (
    APART,
    CUT_CHUNKS,
    FAMILY_FORMAT,
    FORMAT,
    MOST_VALUES,
    VERSION,
    Certificate,
    FamilyCertificate,
    digest,
    family_digest,
)
from fairchain.errors import CertificateError
from fairchain.records import Record
from fairchain.system.untrusted_files import UnreadableError, object_once, read_plain

MOST_CERTIFICATE_BYTES = 200_000_000
TOO_MANY_CERTIFICATE_VALUES = f"{{path}}: more than {MOST_VALUES:,} values"
# The versions of the format that can be checked.
READ_VERSIONS = (APART, CUT_CHUNKS, VERSION)
EvidenceKind = TypeVar("EvidenceKind")
# The evidence before its type, a run or rows, is known.
Raw = dict[str, Any]
NOT_FAIRCHAIN_CERTIFICATE = "{path}: not a fairchain certificate: evidence: {error}"
BAD_EVIDENCE = "{path}: not a fairchain certificate: {why}"
ANOTHER_VERSION = (
    "{path}: a certificate of version {version}, and this program reads versions {versions}; check it with the "
    "fairchain that made it, or issue it again"
)


class Claim(Record, frozen=True):
    """One claim of a certificate, and whether it holds."""

    name: str
    holds: bool
    detail: str

    @classmethod
    def check(cls, name: str, problem: str, detail: str) -> Claim:
        """Return a claim that holds unless there is a problem, with the problem or otherwise the detail."""
        return cls(name, not problem, problem or detail)


def read_certificate(path: Path) -> tuple[Raw, Certificate[Raw] | FamilyCertificate, bool]:
    """Return the file as plain values and as a record, and whether its digest matches.

    Raises a CertificateError if it cannot be read, is not a certificate, or has another version.
    """
    try:
        raw = json.loads(
            _read(path), object_pairs_hook=object_once, parse_int=_integer, parse_float=_real, parse_constant=_refused
        )
        if isinstance(raw, dict) and raw.get("format") == FAMILY_FORMAT and raw.get("version") in READ_VERSIONS:
            family = msgspec.convert(raw, FamilyCertificate)
            return raw, family, family_digest(raw) == family.digest
        return certificate_of(path, raw)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise CertificateError(f"{path}: not a fairchain certificate: {why}") from None


def certificate_of(path: Path, raw: Any) -> tuple[Raw, Certificate[Raw], bool]:
    """Return the certificate of one question, from plain values, and whether its digest matches."""
    try:
        kind, version = (raw.get("format"), raw.get("version")) if isinstance(raw, dict) else (None, None)
        if kind == FORMAT and isinstance(version, int) and version not in READ_VERSIONS:
            raise CertificateError(ANOTHER_VERSION.format(path=path, version=version, versions=_listed()))
        file = msgspec.convert(raw, Certificate[Raw])
        if file.format != FORMAT or file.version not in READ_VERSIONS:
            raise CertificateError(
                f"{path}: format {file.format[:40]} version {file.version}; this program reads {FORMAT} versions "
                f"{_listed()}"
            )
        return raw, file, digest(raw) == file.digest
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise CertificateError(BAD_EVIDENCE.format(path=path, why=why)) from None


def _listed() -> str:
    *others, last = map(str, READ_VERSIONS)
    return f"{', '.join(others)} and {last}"


def evidence_of(path: Path, file: Certificate[Raw], kind: type[EvidenceKind]) -> EvidenceKind:
    """Return the evidence as a record of this kind, or raise a CertificateError."""
    try:
        return msgspec.convert(file.evidence, kind)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise CertificateError(NOT_FAIRCHAIN_CERTIFICATE.format(path=path, error=error)) from None


def _read(path: Path) -> str:
    try:
        content = read_plain(path, MOST_CERTIFICATE_BYTES)
    except UnreadableError as error:
        advice = "; write one with fairchain verify SPEC --certificate FILE" if error.missing else ""
        raise CertificateError(f"{path}: {error}{advice}") from None
    if sum(content.count(mark) for mark in b",[{") > MOST_VALUES:
        raise CertificateError(TOO_MANY_CERTIFICATE_VALUES.format(path=path))
    return content.decode()


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
