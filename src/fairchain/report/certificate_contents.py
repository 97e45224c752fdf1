"""A certificate as it is read for showing: its claims have the right shape, and its digest fits.

What it says is believed here; whether it is true is the business of `recheck`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from fairchain.certificate_format import digest
from fairchain.errors import CertificateError, SpecError
from fairchain.rechecking.contents import read_certificate
from fairchain.report.findings import Plain
from fairchain.spec import parse_spec


class _Gap(msgspec.Struct, frozen=True):
    estimate: float
    low: float
    high: float
    more: str
    less: str
    outcome: str


class _Group(msgspec.Struct, frozen=True):
    name: str
    outcome: str
    probability: float
    low: float
    high: float


class _Claims(msgspec.Struct, frozen=True):
    """What is shown of the claims; others may stand beside them."""

    verdict: Literal["FAIR", "UNFAIR", "UNDECIDED", "CONSTANT"]
    decision: Literal["FAIR", "UNFAIR", "UNDECIDED"]
    constant: str | None
    kind: Literal["difference", "ratio", "individual"]
    inputs: Literal["people", "texts"]
    gap: _Gap
    threshold: float
    delta: float
    property: str
    groups: list[_Group]
    sound: bool
    model_sha256: str
    population: str
    statement: str
    scope: str
    table_sha256: str | None = None


def read_claims(path: Path) -> Plain:
    """A whole certificate as plain values, or a CertificateError that says why it cannot be shown."""
    raw, file = read_certificate(path)
    if digest(raw) != file.digest:
        raise CertificateError(
            f"{path}: was changed after it was written: its digest does not fit; write it again with "
            "fairchain verify SPEC --certificate FILE"
        )
    try:
        msgspec.convert(file.claims, _Claims)
        parse_spec(file.spec)
    except msgspec.ValidationError as error:
        raise CertificateError(f"{path}: not a fairchain certificate: claims: {error}") from None
    except SpecError as error:
        raise CertificateError(f"{path}: the spec inside is not valid: {error}") from None
    return raw
