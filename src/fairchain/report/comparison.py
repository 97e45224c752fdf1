"""Two certificates side by side: before and after a repair, or two networks that answer the same question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from fairchain.number_format import Bounded, bounded
from fairchain.records import Record
from fairchain.report.certificate_contents import CertificateContents, contents_of
from fairchain.spec import parse_spec
from fairchain.statements import measure
from fairchain.statistics import Interval
from fairchain.verification.record import VerdictRecord

# Keys of a feature that say which inputs there are; the others say what the network gets, and belong to it. How many
# words of a text are read, and what becomes of unknown ones, decides which terms it holds and so its group.
OF_PEOPLE = (
    *("name", "kind", "low", "high", "values", "groups", "column", "missing", "clip", "cells", "terms"),
    *("length", "unknown"),
)
# Of a population what changes no rate: where the file lies, what it is called, how texts of a round are chosen.
NO_DIFFERENCE = ("path", "name", "prediction", "pair_by")
SHOWN = ("verdict", "constant", "kind", "gap", "threshold", "delta", "sound", "model_sha256")


class Row(Record, frozen=True):
    """One group in both certificates; None where one has no such group. `moved` is up, down, same or unknown ("")."""

    name: str
    outcome: str
    first: Interval | None
    second: Interval | None
    moved: str


@dataclass(frozen=True)
class CertificateComparison:
    """Two certificates: their claims, every group, and in what they are not about the same thing."""

    first: VerdictRecord
    second: VerdictRecord
    rows: tuple[Row, ...]
    differences: tuple[str, ...]

    @property
    def comparable(self) -> bool:
        """Whether both gaps are measured alike, for the same people, by rules that are sound."""
        return not self.differences and self.sound

    @property
    def sound(self) -> bool:
        """Whether the numbers of both carry a guarantee."""
        return self.first.sound and self.second.sound

    @property
    def delta(self) -> float:
        """With which probability something that is said of both is wrong, at most: by a union bound, the sum."""
        return min(1.0, self.first.delta + self.second.delta)

    @property
    def sentence(self) -> str:
        """What can be said about the two gaps."""
        one, other = self.first, self.second
        first, second = (measure(each.kind, each.inputs) for each in (one, other))
        told = f"{first} is {bounded(one.gap)} in the first"
        second = f"{second} is " if first != second else ""
        told += f" and {second}{bounded(other.gap)} in the second"
        if self.differences:
            return f"{told}; they cannot be compared: the certificates differ in {_listed(self.differences)}"
        if not self.sound:
            return f"{told}; they cannot be compared: a rule that is not sound gives no valid intervals"
        return told + self._conclusion()

    def _conclusion(self) -> str:
        moved = _moved(self.first.gap, self.second.gap)
        if moved == "same":
            return ", the same"
        if not moved:
            return "; the intervals overlap, so neither is known to be more even"
        more_even = (moved == "up") == (self.first.kind == "ratio")
        return f"; the second is {'more' if more_even else 'less'} even"

    @property
    def promise(self) -> str:
        """How sure that is."""
        if not self.comparable:
            return ""
        if self.delta == 0:
            return "Both were counted, not estimated: nothing is left to chance."
        if self.delta >= 1:
            return "The two deltas add up to 1 or more: nothing is promised about both."
        return (
            f"What is said of both gaps is wrong with probability at most {self.delta:g}, the sum of both deltas; "
            "and so, by itself, is what is said of all groups."
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

    Each certificate's intervals fail with probability delta at most, so a statement about both fails with the sum of
    the two deltas at most, whether or not the same inputs were drawn.
    """
    first, second = contents_of(first), contents_of(second)
    one, other = first.claims, second.claims
    found = CertificateComparison(one, other, (), _differences(first, second))
    mine, theirs = _by_group(one), _by_group(other)
    rows = tuple(
        Row(
            *key,
            mine.get(key),
            theirs.get(key),
            _moved(mine[key], theirs[key]) if found.comparable and key in mine and key in theirs else "",
        )
        for key in dict.fromkeys((*mine, *theirs))
    )
    return CertificateComparison(one, other, rows, found.differences)


def _by_group(claims: VerdictRecord) -> dict[tuple[str, str], Interval]:
    return {(group.name, group.outcome): Interval(group.estimate, group.low, group.high) for group in claims.groups}


def _moved(one: Bounded, other: Bounded) -> str:
    """What the intervals say: up, down, the same (both exact), or nothing."""
    if other.low > one.high:
        return "up"
    if other.high < one.low:
        return "down"
    return "same" if one.low == one.high == other.low == other.high else ""


def _differences(first: CertificateContents, second: CertificateContents) -> tuple[str, ...]:
    """Where two certificates are not about the same thing; another network, threshold, delta or seed is no reason."""
    one, other = _question(first), _question(second)
    return tuple(word for word in one if one[word] != other[word])


def _question(certificate: CertificateContents) -> dict[str, object]:
    # Through the struct, so that a key that is left out and one with its default value are the same.
    spec, claims = msgspec.to_builtins(parse_spec(certificate.spec)), certificate.claims
    question = {key: value for key, value in spec["property"].items() if key != "threshold"}
    people = {key: value for key, value in spec["population"].items() if key not in NO_DIFFERENCE}
    features = [{key: feature[key] for key in OF_PEOPLE if key in feature} for feature in spec["feature"]]
    return {
        "the question": (claims.kind, question),
        "the labels": sorted(spec["model"]["labels"]),
        "the features or groups": sorted(features, key=lambda feature: str(feature["name"])),
        "the people": people,
        "the table": claims.table_sha256,
    }


def _listed(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
