"""The sentences of a guarantee. Their exact wording matters: each says what the mathematics carries, no more."""

from __future__ import annotations

NOT_SOUND = "NOT SOUND: the rule of the paper carries no valid guarantee; its answer is for comparison with the literature only."


def statement(decision: str, *, threshold: float, delta: float, population: str, sound: bool) -> str:
    """The sentence that belongs to a verdict.

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
        return (
            f"No verdict about the threshold {threshold:g} under {population}: the evidence so far is compatible with "
            f"both. Each bound of the gap is wrong with probability at most {delta:g}."
        )
    return f"{claim} with probability at most {delta:g}."


def scope(model_sha256: str, seed: int) -> str:
    """What the statement is about, and what it is not about."""
    return (
        f"This is about the network with sha256 {model_sha256[:16]}... and that input distribution, not about the "
        f"people it is used on; seed {seed}."
    )
