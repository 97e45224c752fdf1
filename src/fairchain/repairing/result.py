"""What a repair comes to: whether it was accepted, on what evidence, at what price, and which weights it changed.

Nothing here searches or measures. `front` and `adjustments` come from the search and promise nothing; `after`,
`attempts` and `price` rest on data that the search knows nothing of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from fairchain.number_format import confidence
from fairchain.records import Record
from fairchain.statistics import Interval
from fairchain.verification.record import VerdictRecord
from fairchain.verification.verdict import Verdict


@dataclass(frozen=True)
class RepairProgress:
    """Where a search stands: generations done and at most, candidates tried, the best gap and accuracy so far."""

    iteration: int
    iterations: int
    candidates: int
    gap: float
    accuracy: float
    seconds: float


class FrontPoint(Record, frozen=True):
    """One candidate that no other beats in both gap and accuracy, as the search data show it.

    `accuracy` is what the search looked at: the share of labelled rows that are right, or of drawn inputs that are
    decided as before. `change` is the size of the change of the weights relative to the weights.
    """

    gap: float
    accuracy: float
    change: float
    chosen: bool = False


class Adjustment(Record, frozen=True):
    """One number that the search was free to choose: what it is, and its value in the old and the new network."""

    name: str
    before: float
    after: float


class WeightChange(Record, frozen=True):
    """One weight: its place in the tensor, and its value in the old and the new network."""

    index: tuple[int, ...]
    before: float
    after: float


class TensorChange(Record, frozen=True):
    """What became of one tensor of weights.

    `changed` of its `size` numbers are different; `relative` is the length of the difference over that of the old
    tensor. `largest` are the weights that changed most.
    """

    tensor: str
    operator: str
    shape: tuple[int, ...]
    changed: int
    size: int
    relative: float
    largest: tuple[WeightChange, ...]


class Price(Record, frozen=True):
    """What a repair costs, on rows or draws that the search knows nothing of.

    `measure` is "accuracy" (then `change` is new minus old, from the rows that became right and those that became
    wrong) or "agreement" (then `change` is the share of drawn inputs that are decided otherwise, as a negative
    number). The interval is two-sided and fails with probability at most `delta`. `usual_before` and `usual_after`
    are the shares of the most frequent answer of the old and the new network.
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
        """The share of inputs that are decided as before, if `measure` is "agreement"."""
        return Interval(1 + self.change.estimate, 1 + self.change.low, 1 + self.change.high)

    def __str__(self) -> str:
        sure = confidence(self.delta)
        if self.measure == "agreement":
            return f"agreement with the original network {self.agreement:.4f} on {self.on} (confidence {sure})"
        return (
            f"accuracy {self.before:.4f} -> {self.after:.4f}, change {self.change:+.4f} on {self.on} "
            f"(confidence {sure}; {self.gained:,} became right, {self.lost:,} wrong)"
        )


class Attempt(Record, frozen=True):
    """One candidate before the judge: the delta it was given, the seed of its fresh inputs, and the answer.

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


class RepairRecord(Record, frozen=True, kw_only=True):
    """A repair as JSON has it; `adjustments` are those with another value than before."""

    accepted: bool
    needed: bool
    before: VerdictRecord
    after: VerdictRecord | None
    original: FrontPoint | None
    front: tuple[FrontPoint, ...]
    adjustments: tuple[Adjustment, ...]
    changes: tuple[TensorChange, ...]
    price: Price | None
    attempts: tuple[Attempt, ...]
    optimizer: str
    change: str
    seed: int
    iterations: int
    candidates: int
    evaluations: int
    stopped: str
    seconds: float = 0.0
    statement: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Repair:
    """What `repair` says.

    `after` is the verdict on the network of `content`: the accepted one or, if none was, the best that was tried (None
    if each of them FAILED). `original` is the network as it was, measured on the same inputs as the front.
    `evaluations` counts the inputs shown to candidates, `candidates` the networks.
    """

    accepted: bool
    needed: bool
    before: Verdict
    after: Verdict | None
    original: FrontPoint | None
    front: tuple[FrontPoint, ...]
    adjustments: tuple[Adjustment, ...]
    changes: tuple[TensorChange, ...]
    price: Price | None
    attempts: tuple[Attempt, ...]
    optimizer: str
    change: str
    seed: int
    iterations: int
    candidates: int
    evaluations: int
    stopped: str
    seconds: float
    statement: str
    notes: tuple[str, ...] = ()
    content: bytes | None = field(default=None, repr=False)

    def __str__(self) -> str:
        if not self.needed:
            return f"NOT NEEDED: {self.before}"
        if self.accepted and self.after is not None:
            return f"REPAIRED: {self.after.headline}; {self.price}"
        return "NOT REPAIRED: " + (self.after.headline if self.after is not None else self.before.headline)

    @cached_property
    def record(self) -> RepairRecord:
        """The result as a typed record: what is written as JSON, without the network's bytes."""
        same = {name: getattr(self, name) for name in RepairRecord.__struct_fields__}
        changed = {
            "before": self.before.record,
            "after": self.after.record if self.after is not None else None,
            "adjustments": tuple(each for each in self.adjustments if each.before != each.after),
        }
        return RepairRecord(**{**same, **changed})

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        return self.record.to_dict()
