"""What a certificate may claim, computed again from its counts: every word and every number.

`expected_claims` gives the whole of it; a claim that is not there, or differs, does not hold.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairchain.population import UniformPopulation
from fairchain.rechecking import arithmetic
from fairchain.rechecking.replay import Replay
from fairchain.spec import Spec, groups_of
from fairchain.wording import scope, statement

CLOSE = 1e-6
EDGE = 1.0 - 1e-12


def expected_claims(replay: Replay, asked: Spec, model_sha256: str, evaluations: int, stopped: str) -> dict[str, Any]:
    """Everything that the counts allow to be said, under the names that a certificate uses."""
    question, guarantee = replay.question, asked.guarantee
    population = str(UniformPopulation(asked))
    estimate, low, high = _gap_numbers(replay)
    decision = replay.decision
    if question.epsilon is not None:
        decision = "FAIR" if high <= question.threshold else "UNFAIR" if low > question.threshold else "UNDECIDED"
    reached = question.epsilon is not None and _reached(replay, question.epsilon)
    pairs = _Pairs(replay, asked)
    return {
        "verdict": decision,
        "gap": {"estimate": estimate, "low": low, "high": high, **pairs.widest()},
        "threshold": question.threshold,
        "delta": question.delta,
        "epsilon": question.epsilon,
        "property": str(asked.property),
        "groups": _group_claims(replay, asked),
        "violators": pairs.violators(),
        "rounds": replay.rounds,
        "evaluations": evaluations,
        "stopped": _why_it_ended(replay, asked, decision, reached, stopped),
        "seed": guarantee.seed,
        "rule": guarantee.rule,
        "sound": True,
        "model_sha256": model_sha256,
        "population": population,
        "statement": statement(
            decision,
            threshold=question.threshold,
            delta=question.delta,
            population=population,
            sound=True,
            within=question.epsilon if reached else None,
        ),
        "scope": scope(model_sha256, guarantee.seed),
    }


def differences(found: Any, expected: Any, where: str = "") -> list[str]:
    """The places in which two nested values differ by more than rounding."""
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = list(expected) + [key for key in found if key not in expected]
        missing = object()
        return [
            place
            for key in keys
            for place in differences(found.get(key, missing), expected.get(key, missing), f"{where}.{key}".lstrip("."))
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [
            place
            for number, (one, other) in enumerate(zip(found, expected, strict=True))
            for place in differences(one, other, f"{where}[{number}]")
        ]
    numbers = [isinstance(each, int | float) and not isinstance(each, bool) for each in (found, expected)]
    same = math.isclose(found, expected, rel_tol=1e-12, abs_tol=CLOSE) if all(numbers) else found == expected
    return [] if same else [where]


def _why_it_ended(replay: Replay, asked: Spec, decision: str, reached: bool, said: str) -> str:
    """An answer or a budget of rounds can be seen in the counts; of a clock or a key we only have the word."""
    if reached or (replay.question.epsilon is None and decision != "UNDECIDED"):
        return "decided"
    if replay.rounds >= asked.guarantee.budget.rounds:
        return "rounds"
    return said if said in ("seconds", "interrupted") else "seconds"


def _union_bar(replay: Replay) -> float:
    """What each pair must reach so that all may be spoken of together."""
    question = replay.question
    return question.bar + math.log(question.groups * (question.groups - 1) * question.outcomes)


def _reached(replay: Replay, epsilon: float) -> bool:
    """Estimate mode: every probability and every gap is known within epsilon."""
    if not replay.known:
        return False
    gaps, bar = replay.gaps(), _union_bar(replay)
    for cell in np.ndindex(gaps.shape):
        if cell[1] == cell[2]:
            continue
        plus, zero, minus = (table[cell].reshape(1) for table in replay.cells())
        above, below = float(gaps[cell]) + epsilon, float(gaps[cell]) - epsilon
        if above < 1 and arithmetic.log_evidence((plus, zero, minus), above, "above")[0] < bar:
            return False
        if below > -1 and arithmetic.log_evidence((plus, zero, minus), below, "below")[0] < bar:
            return False
    return True


class _Pairs:
    """Pairs by name: the widest one seen, and those above the threshold by a union bound."""

    def __init__(self, replay: Replay, asked: Spec) -> None:
        self._replay = replay
        self._groups = [group.name for group in groups_of(asked)]
        label = asked.property.outcome
        self._labels = [label] if label is not None else list(asked.model.labels)[-replay.question.outcomes :]

    def _named(self, cell: Any) -> dict[str, Any]:
        outcome, i, j = (int(x) for x in cell)
        return {"more": self._groups[i], "less": self._groups[j], "outcome": self._labels[outcome]}

    def widest(self) -> dict[str, Any]:
        gaps = self._replay.gaps() - 3 * np.eye(len(self._groups))
        return self._named(np.unravel_index(np.argmax(gaps), gaps.shape))

    def violators(self) -> list[dict[str, Any]]:
        evidence = arithmetic.log_evidence(self._replay.cells(), self._replay.question.threshold, "below")
        return [self._named(cell) for cell in np.argwhere(evidence >= _union_bar(self._replay))]


def _gap_numbers(replay: Replay) -> tuple[float, float, float]:
    """The largest gap and its bounds: from all pairs together in estimate mode, else from leaders and pairs."""
    question = replay.question
    plus, zero, minus = (table.astype(float) for table in replay.cells())
    off = np.broadcast_to(~np.eye(question.groups, dtype=bool), plus.shape)
    counts = plus[off], zero[off], minus[off]
    estimating = question.epsilon is not None
    bar = _union_bar(replay) if estimating else question.bar
    leaders = counts if estimating else replay.lead_cells()
    low = arithmetic.crossing(lambda c: bool((arithmetic.log_evidence(leaders, c, "below") >= bar).any()), EDGE, -EDGE)
    cleared = replay.cleared[off] & (not estimating)
    high = arithmetic.largest_bound(counts, bar, cleared, question.threshold)
    return max(0.0, float(replay.gaps().max())), max(0.0, low), high


def _group_claims(replay: Replay, asked: Spec) -> list[dict[str, Any]]:
    question = replay.question
    trials = np.diag(replay.asked)
    share = question.delta / (question.groups * question.outcomes)
    alpha = share / 2 if question.epsilon is not None else share
    exact = replay.exact_bounds() if replay.known else None
    numbers: list[tuple[float, float, float]] = []
    for outcome, group in np.ndindex(question.outcomes, question.groups):
        if exact is not None:
            rate = float(replay.fresh_got[outcome, group] / replay.fresh_asked)
            numbers.append((rate, float(exact[0][outcome, group]), float(exact[1][outcome, group])))
            continue
        successes, tried = int(replay.got[outcome, group]), int(trials[group])
        low, high = arithmetic.any_time_bounds(successes, tried, alpha)
        numbers.append((successes / max(tried, 1), low, high))
    if question.labels == 2 and asked.property.outcome is None:
        numbers = [(1 - rate, 1 - high, 1 - low) for rate, low, high in numbers] + numbers
    labels = [asked.property.outcome] if asked.property.outcome is not None else list(asked.model.labels)
    names = [(group.name, label, int(n)) for label in labels for group, n in zip(groups_of(asked), trials, strict=True)]
    return [
        {"name": name, "outcome": label, "probability": rate, "low": low, "high": high, "evaluations": tried}
        for (name, label, tried), (rate, low, high) in zip(names, numbers, strict=True)
    ]
