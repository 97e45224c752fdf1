"""Certificates read for display, and the comparison of two: before and after a repair, or of two networks.

Types and digest are checked when a certificate is read; `recheck` verifies its claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fairchain.certificate_format import FamilyCertificate
from fairchain.errors import CertificateError, SpecError
from fairchain.messages import in_a_line
from fairchain.number_format import Bounded, bounded
from fairchain.rechecking.contents import read_certificate
from fairchain.records import Record
from fairchain.spec import parse_spec
from fairchain.statements import measure
from fairchain.statistics import Interval
from fairchain.verification.record import VerdictRecord

# Keys of a feature that define the inputs; the others belong to the network. The length of a text, and the treatment of
# unknown words, determine its terms and therefore its group.
OF_INPUTS = (
    *("name", "kind", "low", "high", "values", "groups", "column", "missing", "clip", "aliases", "terms"),
    *("length", "unknown"),
)
# Keys of a population that do not affect any rate.
NO_DIFFERENCE = ("path", "name", "prediction", "pair_by")
SHOWN = ("verdict", "constant", "kind", "gap", "threshold", "delta", "sound", "model_sha256")
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


class Row(Record, frozen=True):
    """One group in both certificates; None if one has no such group. `moved` is up, down, same or unknown ("")."""

    name: str
    outcome: str
    first: Interval | None
    second: Interval | None
    moved: str


@dataclass(frozen=True)
class CertificateComparison:
    """Two certificates: their claims, every group, and the parts of the question in which they differ."""

    first: VerdictRecord
    second: VerdictRecord
    rows: tuple[Row, ...]
    differences: tuple[str, ...]

    @property
    def comparable(self) -> bool:
        """Whether both gaps are the same measure of the same population, by sound rules."""
        return not self.differences and self.sound

    @property
    def sound(self) -> bool:
        """Whether both rules are sound."""
        return self.first.sound and self.second.sound

    @property
    def delta(self) -> float:
        """Error probability of statements about both, by a union bound: the sum."""
        return min(1.0, self.first.delta + self.second.delta)

    @property
    def sentence(self) -> str:
        """Both gaps, and which one is smaller if the intervals show it."""
        one, other = self.first, self.second
        first, second = (measure(each.kind, each.inputs) for each in (one, other))
        told = f"{first} is {bounded(one.gap)} in the first"
        second = f"{second} is " if first != second else ""
        told += f" and {second}{bounded(other.gap)} in the second"
        if self.differences:
            *others, last = self.differences
            parts = f"{', '.join(others)} and {last}" if others else last
            return f"{told}; they cannot be compared: the certificates differ in {parts}"
        if not self.sound:
            return f"{told}; they cannot be compared: a rule that is not sound gives no valid intervals"
        moved, what = _moved(one.gap, other.gap), "ratio" if one.kind == "ratio" else "gap"
        if moved == "same":
            return f"{told}, the same"
        if not moved:
            return f"{told}; the intervals overlap, so neither is known to be smaller"
        return f"{told}; the second has the {'larger' if moved == 'up' else 'smaller'} {what}"

    @property
    def promise(self) -> str:
        """Error probability of the comparison, as a sentence."""
        if not self.comparable:
            return ""
        if self.delta == 0:
            return "Both were counted, not estimated: the comparison is exact."
        if self.delta >= 1:
            return "The sum of both deltas is 1 or more: the comparison carries no guarantee."
        return (
            f"The statement about both gaps is wrong with probability at most {self.delta:g}, the sum of both deltas. "
            "The statements about individual groups hold with the same probability."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        first, second = self.first.to_dict(), self.second.to_dict()
        return {
            "first": {key: first[key] for key in SHOWN},
            "second": {key: second[key] for key in SHOWN},
            "comparable": self.comparable,
            "differences": list(self.differences),
            "sentence": self.sentence,
            "delta": self.delta if self.comparable else None,
            "promise": self.promise,
            "groups": [row.to_dict() for row in self.rows],
        }


def compare(
    first: CertificateContents | Mapping[str, Any], second: CertificateContents | Mapping[str, Any]
) -> CertificateComparison:
    """Compare two certificates, as `read_claims` or `make_certificate` returns them.

    The intervals of a certificate fail with probability at most its delta, so a statement about both fails with
    probability at most the sum of the two deltas, even if both runs drew the same inputs.
    """
    first, second = contents_of(first), contents_of(second)
    one, other = first.claims, second.claims
    here, there = _question(first), _question(second)
    differences = tuple(word for word in here if here[word] != there[word])
    comparable = not differences and one.sound and other.sound
    mine, theirs = (
        {(group.name, group.outcome): Interval(group.estimate, group.low, group.high) for group in claims.groups}
        for claims in (one, other)
    )
    rows = tuple(
        Row(
            *key,
            mine.get(key),
            theirs.get(key),
            _moved(mine[key], theirs[key]) if comparable and key in mine and key in theirs else "",
        )
        for key in dict.fromkeys((*mine, *theirs))
    )
    return CertificateComparison(one, other, rows, differences)


def _moved(one: Bounded, other: Bounded) -> str:
    """Return up, down, same (both exact), or "" if the intervals overlap."""
    if other.low > one.high:
        return "up"
    if other.high < one.low:
        return "down"
    return "same" if one.low == one.high == other.low == other.high else ""


def _question(certificate: CertificateContents) -> dict[str, object]:
    """Return the parts that comparable certificates share; network, threshold, delta and seed may differ."""
    # Parsed as a struct, so that a missing key equals a key with its default value.
    spec, claims = msgspec.to_builtins(parse_spec(certificate.spec)), certificate.claims
    question = {key: value for key, value in spec["property"].items() if key != "threshold"}
    population = {key: value for key, value in spec["population"].items() if key not in NO_DIFFERENCE}
    features = [{key: feature[key] for key in OF_INPUTS if key in feature} for feature in spec["feature"]]
    return {
        "the question": (claims.kind, question),
        "the labels": sorted(spec["model"]["labels"]),
        "the features or groups": sorted(features, key=lambda feature: str(feature["name"])),
        "the population": population,
        "the table": claims.table_sha256,
    }
