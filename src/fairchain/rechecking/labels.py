"""Which labels a network gave: whether a certificate's word on it can be true, and whether the model is constant.

Counts show it for the labels that are counted. Of other labels, and of decisions that change, a certificate only has
its lists of labels, so the batches that show two different ones are always run again (`rerun`).
"""

from __future__ import annotations

from collections.abc import Sequence

from fairchain.certificate_format import LOOKED, BatchEvidence, RunEvidence
from fairchain.spec import Comparison
from fairchain.statements import conclusion


def constant_label(labels: Sequence[int], names: Sequence[str]) -> str | None:
    """Return the one label that was given, by its name; None if there were several."""
    return names[labels[0]] if len(labels) == 1 and labels[0] < len(names) else None


def concluded(decision: str, labels: Sequence[int], names: Sequence[str], *, allowed: bool) -> dict[str, str | None]:
    """Return the claims about the verdict as a gate takes it: `verdict`, `decision` and `constant`."""
    constant = constant_label(labels, names)
    return {"verdict": conclusion(decision, constant, allowed=allowed), "decision": decision, "constant": constant}


def contradiction(evidence: RunEvidence, comparison: Comparison, names: Sequence[str]) -> str:
    """Return why no network could have given these labels with these counts, or an empty text."""
    batches = {label for batch in evidence.batches for label in batch.labels}
    for number, batch in enumerate(evidence.batches):
        if why := _in_batch(batch, comparison, len(names)):
            return f"batch {number}: {why}"
    look = evidence.look
    if (look is not None) != (len(batches) == 1):
        return "further inputs are tried where the batches have one label, and only there"
    if look is not None and not (_are_labels(look.labels, len(names)) and batches <= set(look.labels)):
        return "the labels of further inputs are none, or lack one that was seen before"
    if look is not None and look.rounds > -(-LOOKED // len(comparison.subgroups)):
        return f"{look.rounds} further rounds are more than are ever tried"
    return ""


def _are_labels(labels: Sequence[int], count: int) -> bool:
    return bool(labels) and list(labels) == sorted(set(labels)) and labels[-1] < count


def _in_batch(batch: BatchEvidence, comparison: Comparison, count: int) -> str:
    if not _are_labels(batch.labels, count):
        return f"{batch.labels} are no labels of the model"
    own = batch.totals().diagonal(axis1=1, axis2=2)
    if comparison.individual:
        return "a decision changed, and there is one label" if own.any() and len(batch.labels) == 1 else ""
    for label, got in zip(comparison.outcomes, own, strict=True):
        if got.any() != (label in batch.labels):
            return f"label {label} is counted {int(got.sum())} times, and the labels are {batch.labels}"
        if (got == batch.rounds).all() and batch.labels != [label]:
            return f"every decision is label {label}, and the labels are {batch.labels}"
    if own.sum(axis=0).min() < batch.rounds and set(batch.labels) <= set(comparison.outcomes):
        return f"some decisions are none of the labels {batch.labels}"
    return ""
