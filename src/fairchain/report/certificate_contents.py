"""Certificates read for display: types and digest are checked; `recheck` verifies the claims."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from fairchain.certificate_format import FamilyCertificate
from fairchain.errors import CertificateError, SpecError
from fairchain.messages import in_a_line
from fairchain.rechecking.contents import read_certificate
from fairchain.records import Record
from fairchain.spec import parse_spec
from fairchain.verification.record import VerdictRecord

CHANGED_AFTER_WRITTEN = (
    "{path}: was changed after it was written, since its digest does not match; write it again with fairchain "
    "verify SPEC --certificate FILE"
)


class CertificateContents(Record, frozen=True):
    """Claims of a certificate, its spec as plain values, and the versions of the software."""

    claims: VerdictRecord
    spec: dict[str, Any]
    software: dict[str, str] = msgspec.field(default_factory=dict)


def contents_of(certificate: CertificateContents | Mapping[str, Any]) -> CertificateContents:
    """Return the typed contents of a certificate that `make_certificate` wrote, or of one that is already typed."""
    if isinstance(certificate, CertificateContents):
        return certificate
    return msgspec.convert(certificate, CertificateContents)


def read_claims(path: Path) -> CertificateContents:
    """Read a certificate; raise a CertificateError that states why it cannot be shown."""
    raw, file, intact = read_certificate(path)
    if isinstance(file, FamilyCertificate):
        raise CertificateError(f"{path}: contains {len(file.members)} questions, expected one")
    if not intact:
        raise CertificateError(CHANGED_AFTER_WRITTEN.format(path=path))
    try:
        parse_spec(file.spec)
        return contents_of(raw)
    except msgspec.ValidationError as error:
        raise CertificateError(f"{path}: not a fairchain certificate: {in_a_line(error)}") from None
    except SpecError as error:
        raise CertificateError(f"{path}: the spec inside is not valid: {error}") from None
