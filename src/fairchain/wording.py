"""The sentences of a guarantee. Their exact wording matters: each says what the mathematics carries, no more."""

from __future__ import annotations

NOT_SOUND = "NOT SOUND: the rule of the paper carries no valid guarantee; use its answer for comparison only."


def statement(
    decision: str, *, threshold: float, delta: float, population: str, sound: bool, within: float | None = None
) -> str:
    """The sentence that belongs to a verdict; `within` is epsilon if an estimate of that accuracy was reached.

    >>> print(statement("FAIR", threshold=0.1, delta=1e-6, population="uniform inputs", sound=True)[:76])
    If some gap were at least 0.1 under uniform inputs, a run like this would ha
    """
    if not sound:
        return NOT_SOUND
    if decision == "FAIR":
        claim = f"If some gap were at least {threshold:g} under {population}, a run like this would have said FAIR"
    elif decision == "UNFAIR":
        claim = f"If every gap were at most {threshold:g} under {population}, a run like this would have said UNFAIR"
    else:
        claim = f"No verdict about the threshold {threshold:g} under {population}: the evidence allows both"
    claim += "." if decision == "UNDECIDED" else f" with probability at most {delta:g}."
    if within is not None:
        claim += (
            f" Every probability and every gap is within {within:g} of its estimate, all of them together "
            f"with probability at least 1 - {delta:g}."
        )
    return claim


def scope(model_sha256: str, seed: int) -> str:
    """What the statement is about, and what it is not about."""
    return (
        f"This is about the network with sha256 {model_sha256[:16]}... and that input distribution, not about the "
        f"people it is used on; seed {seed}."
    )
