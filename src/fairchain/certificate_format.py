"""Certificates as a file format: the writer (`certificates`) builds it and the checker (`rechecking`) decodes it.

The format is shared; the arithmetic is not. A certificate is a `Certificate` as JSON; its evidence is a `RunEvidence`
if inputs were drawn, a `RowEvidence` if the rows of a table were counted, and an `EnumerationEvidence` if all inputs of
a finite space were evaluated.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from fairchain.records import Record

FORMAT = "fairchain-certificate"
# Certificates of several questions about one model, which share an error probability.
FAMILY_FORMAT = "fairchain-family-certificate"
VERSION = 8
# Certificates of these versions can still be checked. Up to version 7 a batch that a budget shortened had different
# chunks; in version 6 the intervals of rates and gap also have a separate delta each, and batches grew by an eighth.
CUT_CHUNKS, APART = 7, 6
# The definition of the random words of a round, so that a reader can draw them without fairchain's code.
STREAM = "philox4x64-10, key=seed, counter=[0, substream, chunk, copy], 32-bit words low half first"

# If the counted rounds gave only one label, more inputs are tested before a model counts as constant: the evaluations,
# the first chunk, and the rounds in each chunk. They are not counted.
LOOKED, LOOK_CHUNK, LOOK_ROUNDS = 20_000, 2**45, 1024

# Number of values that a certificate may contain, counted by commas and brackets: about 70 bytes of memory each for a
# reader.
MOST_VALUES = 20_000_000

# A count in a certificate: at most the largest number in exact arithmetic.
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
# Successes of rows that have an outcome with a probability are counted in 2**32 parts.
WeightedCount = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Table = NDArray[np.int64]
Contents = TypeVar("Contents")


class Look(Record, frozen=True, forbid_unknown_fields=True):
    """Further rounds of all groups, drawn in search of a second label and not counted; `labels` are their labels."""

    rounds: Count
    labels: list[Count]


class BatchEvidence(Record, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A batch of rounds: its plan, made from earlier batches, and its counts.

    `together` has the rounds in which two groups both got the outcome: for every chunk and every outcome the upper
    triangle of a symmetric table. `labels` are all labels that the network gave in the batch, counted or not. For a
    shortened batch, `planned` is its planned number of rounds: its chunks are drawn as planned.
    """

    chunk: Count
    chunk_rounds: Count
    rounds: Count
    groups: list[Count]
    leader: tuple[Count, Count, Count] | None
    phase: Count
    labels: list[Count]
    together: list[list[list[list[Count]]]]
    planned: Count | None = None

    @property
    def length(self) -> int:
        """The planned number of rounds."""
        return self.rounds if self.planned is None else self.planned

    @property
    def chunks(self) -> int:
        """The number of chunks of its rounds."""
        return -(-self.rounds // self.chunk_rounds)

    def size(self, place: int) -> int:
        """Return the rounds that are counted in one of its chunks."""
        return min(self.chunk_rounds, self.rounds - place * self.chunk_rounds)

    def drawn(self, place: int) -> int:
        """Return the rounds that are drawn in one of its chunks."""
        return min(self.chunk_rounds, self.length - place * self.chunk_rounds)

    def tables(self, place: int) -> Table:
        """Return the counts of a chunk as full symmetric tables, (outcomes, groups, groups)."""
        return np.stack([full_table(rows) for rows in self.together[place]])

    def totals(self) -> Table:
        """Return the counts of the whole batch, (outcomes, groups, groups)."""
        total = self.tables(0)
        for place in range(1, len(self.together)):
            total += self.tables(place)
        return total


class RunEvidence(Record, frozen=True, forbid_unknown_fields=True):
    """The counts of a run, and how its rounds were drawn; `look` is set if all counted rounds gave one label."""

    stream: str
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    coupled: bool
    outcomes: list[int]
    look: Look | None
    batches: list[BatchEvidence]

    @property
    def labels(self) -> list[int]:
        """All labels that occur among the decisions, as the certificate states them."""
        batches = {label for batch in self.batches for label in batch.labels}
        return sorted(batches.union(self.look.labels if self.look is not None else ()))


class RowEvidence(Record, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The counts of a table: the rows in each column of a subgroup, and the number of them with each outcome.

    `labels` are all labels of these rows, counted or not. If labels are drawn and the rows are a whole population, a
    row counts with the probability of the outcome, in parts of 2**-32, and `labels` are possible ones. `only` counts
    the texts that are shown as every group and get an outcome as one group and not as another, for each of the
    `shared_pairs` of the spec.
    """

    rows: Count
    outcomes: list[int]
    trials: list[Count]
    successes: list[list[WeightedCount]]
    labels: list[Count]
    only: list[WeightedCount] = msgspec.field(default_factory=list)


# An integer in decimal digits: JSON numbers end at 64 bits, and Python reads no text of more than 4300 digits.
MOST_DIGITS = 4000
Whole = Annotated[str, msgspec.Meta(pattern=f"^(0|[1-9][0-9]{{0,{MOST_DIGITS - 1}}})$")]


class SegmentEvidence(Record, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A sequence of points of a finite input space, all of them evaluated.

    `evaluations` counts inputs of positive weight, `inputs` those of each part, and `labels` are their labels.
    `weights` is (measures, parts, 1 + outcomes): the weight of all inputs of a part, then of those with each outcome.
    `chain` is the hash of all this and of the chain before it. `only` is (measures, pairs): the weight of the inputs of
    one part that get an outcome, while the same point shown as another part does not.
    """

    points: Count
    evaluations: Count
    inputs: list[Count]
    labels: list[Count]
    weights: list[list[list[Whole]]]
    chain: str
    only: list[list[Whole]] = msgspec.field(default_factory=list)


class EnumerationEvidence(Record, frozen=True, forbid_unknown_fields=True):
    """The weights of an enumeration.

    A point is a choice of a value for each feature in `order`, numbered in mixed radix with these `sizes`, the first
    feature changing slowest; it is shown with all protected values that are counted. Features in `summed` are ignored
    by the network, and their weights are summed. The segments begin at point 0 and follow each other.
    """

    points: Whole
    order: list[str]
    sizes: list[Count]
    summed: list[str]
    outcomes: list[int]
    segments: list[SegmentEvidence]

    @property
    def labels(self) -> list[int]:
        """All labels that occur among the decisions, as the certificate states them."""
        return sorted({label for segment in self.segments for label in segment.labels})

    @property
    def done(self) -> int:
        """The number of evaluated points."""
        return sum(segment.points for segment in self.segments)


def chain_start(model_sha256: str, data_sha256: str | None, meaning: dict[str, str]) -> str:
    """Return the first hash of an enumeration's chain: of the network, the data and the question."""
    return _hash(["fairchain enumeration 1", model_sha256, data_sha256, meaning])


def chained(before: str, segment: SegmentEvidence) -> str:
    """Return the hash of a segment and of all segments before it."""
    content = [before, segment.points, segment.evaluations, segment.inputs, segment.labels, segment.weights]
    return _hash([*content, segment.only] if segment.only else content)


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class Software(Record, frozen=True, forbid_unknown_fields=True):
    """Versions of the software that wrote the certificate."""

    fairchain: str
    python: str
    numpy: str
    onnxruntime: str


class Times(Record, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The date of a run, its seconds, and the other processes that computed for it, if any.

    It is the only part that two runs of the same spec and seed do not share.
    """

    created: str | None = None
    seconds: float | None = None
    workers: tuple[str, ...] = ()


class Certificate(Record, Generic[Contents], frozen=True, forbid_unknown_fields=True):
    """A complete certificate; its evidence is decoded as `dict[str, Any]` first, because the spec determines its type.

    `notes` are the issuer's assumptions and remarks, which a recheck does not check.
    """

    format: str
    version: int
    software: Software
    spec: dict[str, Any]
    claims: dict[str, Any]
    evidence: Contents
    digest: str
    times: Times
    notes: tuple[str, ...] = ()


class FamilyCertificate(Record, frozen=True, forbid_unknown_fields=True):
    """The certificates of several questions about one model; the sum of their deltas is at most `delta`."""

    format: str
    version: int
    verdict: str
    delta: float
    members: list[dict[str, Any]]
    digest: str


def digest(content: dict[str, Any]) -> str:
    """Return the SHA-256 of a certificate without its digest and times, in one canonical form."""
    kept = {key: value for key, value in content.items() if key not in ("digest", "times")}
    return _hash(kept)


def family_digest(content: dict[str, Any]) -> str:
    """Return the SHA-256 of a certificate of several questions: of its claims and the digests of its members."""
    members = [member.get("digest") for member in content["members"]]
    return _hash([content["format"], content["version"], content["verdict"], content["delta"], members])


def upper_triangle(table: NDArray[np.integer]) -> list[list[int]]:
    """Return the upper triangle of a symmetric table, row by row, the diagonal first."""
    return [row[i:].tolist() for i, row in enumerate(table)]


def full_table(rows: list[list[int]]) -> Table:
    """Return the symmetric table with this upper triangle."""
    table = np.zeros((len(rows), len(rows)), np.int64)
    for i, row in enumerate(rows):
        table[i, i:] = table[i:, i] = row
    return table
