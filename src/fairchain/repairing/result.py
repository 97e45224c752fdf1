"""What a repair comes to: whether it was accepted, on what evidence, at what price, and which weights it changed.

Nothing here searches or measures. `front` and `adjustments` come from the search and promise nothing; `after`,
`attempts` and `price` rest on data that the search knows nothing of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fairchain.statistics import Interval
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


@dataclass(frozen=True)
class FrontPoint:
    """One candidate that no other beats in both gap and accuracy, as the search data show it.

    `accuracy` is what the search looked at: the share of labelled rows that are right, or of drawn inputs that are
    decided as before. `change` is the size of the change of the weights relative to the weights.
    """

    gap: float
    accuracy: float
    change: float
    chosen: bool = False


@dataclass(frozen=True)
class Adjustment:
    """One number that the search was free to choose: what it is, and its value in the old and the new network."""

    name: str
    before: float
    after: float


@dataclass(frozen=True)
class WeightChange:
    """One weight: its place in the tensor, and its value in the old and the new network."""

    index: tuple[int, ...]
    before: float
    after: float


@dataclass(frozen=True)
class TensorChange:
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


@dataclass(frozen=True)
class Price:
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

    def __str__(self) -> str:
        sure = f"{1 - self.delta:.4g}" if self.delta >= 1e-3 else f"1 - {self.delta:g}"
        if self.measure == "agreement":
            same = Interval(1 + self.change.estimate, 1 + self.change.low, 1 + self.change.high)
            return f"agreement with the original network {same:.4f} on {self.on} (confidence {sure})"
        return (
            f"accuracy {self.before:.4f} -> {self.after:.4f}, change {self.change:+.4f} on {self.on} "
            f"(confidence {sure}; {self.gained:,} became right, {self.lost:,} wrong)"
        )


@dataclass(frozen=True)
class Attempt:
    """One candidate before the judge: the delta it was given, the seed of its fresh inputs, and the answer.

    A candidate without a decision for some input FAILED, and has neither a gap nor a price.
    """

    number: int
    delta: float
    seed: int | None
    decision: str
    gap: Interval | None
    price: Price | None
    accepted: bool
    why: str


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

    def to_dict(self) -> dict[str, Any]:
        """The result as plain JSON values, without the network's bytes."""
        return {
            "accepted": self.accepted,
            "needed": self.needed,
            "before": self.before.to_dict(),
            "after": self.after.to_dict() if self.after is not None else None,
            "original": _point(self.original) if self.original is not None else None,
            "front": [_point(point) for point in self.front],
            "adjustments": [
                {"name": a.name, "before": a.before, "after": a.after} for a in self.adjustments if a.before != a.after
            ],
            "changes": [_tensor(change) for change in self.changes],
            "price": _price(self.price),
            "attempts": [
                {
                    "number": a.number,
                    "delta": a.delta,
                    "seed": a.seed,
                    "verdict": a.decision,
                    "gap": _interval(a.gap) if a.gap is not None else None,
                    "price": _price(a.price),
                    "accepted": a.accepted,
                    "why": a.why,
                }
                for a in self.attempts
            ],
            "optimizer": self.optimizer,
            "change": self.change,
            "seed": self.seed,
            "iterations": self.iterations,
            "candidates": self.candidates,
            "evaluations": self.evaluations,
            "stopped": self.stopped,
            "seconds": self.seconds,
            "statement": self.statement,
            "notes": list(self.notes),
        }


def _point(point: FrontPoint) -> dict[str, Any]:
    return {"gap": point.gap, "accuracy": point.accuracy, "change": point.change, "chosen": point.chosen}


def _interval(interval: Interval) -> dict[str, float]:
    return {"estimate": interval.estimate, "low": interval.low, "high": interval.high}


def _price(price: Price | None) -> dict[str, Any] | None:
    if price is None:
        return None
    return {
        "measure": price.measure,
        "on": price.on,
        "inputs": price.inputs,
        "before": price.before,
        "after": price.after,
        "change": _interval(price.change),
        "delta": price.delta,
        "gained": price.gained,
        "lost": price.lost,
        "usual_before": price.usual_before,
        "usual_after": price.usual_after,
    }


def _tensor(change: TensorChange) -> dict[str, Any]:
    return {
        "tensor": change.tensor,
        "operator": change.operator,
        "shape": list(change.shape),
        "changed": change.changed,
        "size": change.size,
        "relative": change.relative,
        "largest": [{"index": list(w.index), "before": w.before, "after": w.after} for w in change.largest],
    }
