"""The result of a repair: whether it was accepted, the evidence, the price, and the changes.

This module neither searches nor measures. `front` and `adjustments` come from the search and carry no guarantee;
`after`, `attempts` and `price` come from data that the search has not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from fairchain.number_format import confidence
from fairchain.records import Record
from fairchain.statistics import Interval
from fairchain.verification.record import VerdictRecord
from fairchain.verification.verdict import Verdict

V = TypeVar("V")


@dataclass(frozen=True)
class RepairProgress:
    """Progress of a search: generations done and at most, candidates scored, the best gap and accuracy so far."""

    iteration: int
    iterations: int
    candidates: int
    gap: float
    accuracy: float
    seconds: float


class FrontPoint(Record, frozen=True):
    """A candidate that no other dominates in gap and accuracy, on the search data.

    `accuracy` is the share of labelled rows that are classified correctly, or of drawn inputs with an unchanged
    decision. `change` is the size of the change of the weights relative to the weights.
    """

    gap: float
    accuracy: float
    change: float
    chosen: bool = False


class Adjustment(Record, frozen=True):
    """One parameter of the search with its name, and its value in the old and the new network."""

    name: str
    before: float
    after: float


class WeightChange(Record, frozen=True):
    """One weight: its index in the tensor, and its value in the old and the new network."""

    index: tuple[int, ...]
    before: float
    after: float


class TensorChange(Record, frozen=True):
    """The change of one tensor of weights.

    `changed` is the number of different entries among `size`; `relative` is the norm of the difference divided by that
    of the old tensor. `largest` are the weights that changed most.
    """

    tensor: str
    operator: str
    shape: tuple[int, ...]
    changed: int
    size: int
    relative: float
    largest: tuple[WeightChange, ...]


class Price(Record, frozen=True):
    """The price of a repair, on rows or draws that the search has not seen.

    `measure` is "accuracy" (then `change` is new minus old, from the rows that became correct and those that became
    wrong) or "agreement" (then `change` is the share of drawn inputs with a different decision, as a negative number).
    The interval is two-sided and fails with probability at most `delta`. `usual_before` and `usual_after` are the
    shares of the most frequent answer of the old and the new network.
    """

    measure: str
    on: str
    inputs: int
    before: float
    after: float
    change: Interval
    delta: float
    gained: int
    lost: int
    usual_before: float
    usual_after: float

    @property
    def agreement(self) -> Interval:
        """The share of inputs with an unchanged decision, if `measure` is "agreement"."""
        return Interval(1 + self.change.estimate, 1 + self.change.low, 1 + self.change.high)

    def __str__(self) -> str:
        sure = f"confidence {confidence(self.delta)}" if self.delta else ""
        if self.measure == "agreement":
            share = f"{self.agreement:.4f} on {self.on} ({sure})" if sure else f"{self.after:.4f} on {self.on}"
            return f"agreement with the original model {share}"
        change = f"{self.change:+.4f}" if sure else f"{self.change.estimate:+.4f}"
        counted = f"{sure + '; ' if sure else ''}{self.gained:,} became right, {self.lost:,} wrong"
        return f"accuracy {self.before:.4f} -> {self.after:.4f}, change {change} on {self.on} ({counted})"


class Attempt(Record, frozen=True):
    """The judgement of one candidate: its share of delta, the seed of its fresh inputs, and the decision.

    A candidate without a decision for some input FAILED, and has neither a gap nor a price.
    """

    number: int
    delta: float
    seed: int | None
    decision: str = msgspec.field(name="verdict")
    gap: Interval | None
    price: Price | None
    accepted: bool
    why: str


class GroupChange(Record, frozen=True):
    """The effect of a repair on one group, on the inputs on which its price was measured.

    `before` and `after` are the shares of its `inputs` with the label `outcome`; `gained` inputs have it only after the
    repair, `lost` only before. `threshold_before` and `threshold` are its thresholds of the score, if thresholds
    changed.
    """

    group: str
    outcome: str
    inputs: int
    before: float
    after: float
    gained: int
    lost: int
    threshold_before: float | None = None
    threshold: float | None = None


class RepairOf(Record, Generic[V], frozen=True, kw_only=True):
    """The fields of a repair, with verdicts or with their records.

    `after` is the verdict on the accepted network or, if none was accepted, on the best that was judged (None if each
    of them FAILED). `original` is the original network, measured on the same inputs as the front. The record contains
    only the `adjustments` that changed. `evaluations` counts the inputs shown to candidates, `candidates` the networks.
    `judged_on` describes the inputs of the final verification. `recheckable` is whether others can check the verdict
    with the files of the repair.
    """

    accepted: bool
    needed: bool
    before: V
    after: V | None = None
    original: FrontPoint | None = None
    front: tuple[FrontPoint, ...] = ()
    adjustments: tuple[Adjustment, ...] = ()
    changes: tuple[TensorChange, ...] = ()
    groups: tuple[GroupChange, ...] = ()
    price: Price | None = None
    attempts: tuple[Attempt, ...] = ()
    optimizer: str
    change: str
    seed: int
    iterations: int = 0
    candidates: int = 0
    evaluations: int = 0
    stopped: str
    seconds: float = 0.0
    judged_on: str = ""
    recheckable: bool = False
    statement: str
    notes: tuple[str, ...] = ()


RepairRecord = RepairOf[VerdictRecord]


class Repair(RepairOf[Verdict], frozen=True, kw_only=True):
    """The result of `repair`.

    `accepted` is True if the final verification accepted a new model. `before` and `after` are the verdicts on the
    original and on the new model. `content` contains the bytes of the new network, or is None for a model that is
    evaluated in Python. `model` is the accepted model. To verify this model again, use the spec `after.spec`.
    """

    content: bytes | None = None
    model: Any = None

    def __str__(self) -> str:
        if not self.needed:
            return f"NOT NEEDED: {self.before}"
        if self.accepted and self.after is not None:
            return f"REPAIRED: {self.after.headline}; {self.price}"
        return f"NOT REPAIRED: {self.objection}"

    def __repr__(self) -> str:
        return f"<Repair {self}>"

    @property
    def objection(self) -> str:
        """The reason why no candidate was accepted: the gap or another defect of the best candidate."""
        if self.after is None:
            return self.before.headline
        refused = [attempt.why for attempt in self.attempts if attempt.gap == self.after.gap]
        return refused[-1] if self.after.fair and refused else self.after.headline

    @property
    def record(self) -> RepairRecord:
        """The result as a typed record, which is written as JSON, without the network's bytes."""
        fields = {name: getattr(self, name) for name in RepairOf.__struct_fields__}
        fields["before"] = self.before.record
        fields["after"] = self.after.record if self.after is not None else None
        fields["adjustments"] = tuple(each for each in self.adjustments if each.before != each.after)
        return RepairRecord(**fields)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        return self.record.to_dict()
