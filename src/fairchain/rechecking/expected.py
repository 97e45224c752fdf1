"""What a certificate may claim, computed again from its counts: every word and every number.

`expected_claims` gives the whole of it; a claim that is not there, or differs, does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairchain.prepare import Case
from fairchain.rechecking import arithmetic
from fairchain.rechecking.labels import concluded
from fairchain.rechecking.replay import Replay
from fairchain.spec import Spec
from fairchain.spec.properties import kind_of, outcome_names
from fairchain.spec.seeds import Seed
from fairchain.statements import scope, statement

CLOSE = 1e-8
EDGE = 1.0 - 1e-12
# Numbers that the spec states: nothing about them was computed, so nothing about them is rounded.
STATED = ("threshold", "delta", "epsilon")


def expected_claims(
    replay: Replay, case: Case, labels: Sequence[int], model_sha256: str, seed: Seed, stopped: str
) -> dict[str, Any]:
    """Everything that the counts, and the labels seen, allow to be said, under the names that a certificate uses."""
    question, spec = replay.question, case.spec
    guarantee, population = spec.guarantee, str(case.population)
    estimate, low, high = _gap_numbers(replay)
    decision = replay.decision
    if question.epsilon is not None:
        decision = "FAIR" if high <= question.threshold else "UNFAIR" if low > question.threshold else "UNDECIDED"
    known = question.epsilon is not None and reached(replay, question.epsilon)
    pairs = _Pairs(replay, case)
    if question.relative:
        estimate, low, high = 1 - estimate, 1 - high, 1 - low
    return {
        **concluded(decision, labels, spec.model.labels, allowed=guarantee.allow_constant),
        "kind": kind_of(spec),
        "inputs": spec.inputs,
        "gap": {"estimate": estimate, "low": low, "high": high, **pairs.widest()},
        "threshold": spec.property.threshold,
        "delta": question.delta,
        "epsilon": question.epsilon,
        "property": str(spec.property),
        "groups": _group_claims(replay, case, (estimate, low, high)),
        "left_out": [{"name": name, "size": size} for name, size in case.left_out],
        "violators": pairs.violators(),
        "rounds": replay.rounds,
        "rows": None,
        "evaluations": evaluations(case, replay.rounds, np.diag(replay.joint)),
        "stopped": _why_it_ended(replay, spec, decision, known, stopped),
        "seed": seed.value,
        "seed_origin": seed.origin,
        "rule": guarantee.rule,
        "sound": True,
        "model_sha256": model_sha256,
        "table_sha256": None,
        "population": population,
        "statement": statement(
            decision,
            threshold=spec.property.threshold,
            delta=question.delta,
            population=population,
            sound=True,
            within=question.epsilon if known else None,
            kind=kind_of(spec),
            inputs=spec.inputs,
            left_out=len(case.left_out),
        ),
        "scope": scope(model_sha256, seed.value, seed.origin),
    }


def evaluations(case: Case, rounds: int, trials: ArrayLike) -> int:
    """Return the evaluations of the network: each round as every group, or each group as often as it was tried."""
    return rounds * len(case.comparison.subgroups) if case.comparison.individual else int(np.sum(trials))


def differences(found: Any, expected: Any, where: str = "") -> list[str]:
    """The places in which two nested values differ by more than rounding; whole numbers and stated ones by nothing."""
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
    if isinstance(expected, float) and where not in STATED and isinstance(found, int | float):
        same = not isinstance(found, bool) and math.isclose(found, expected, rel_tol=0.0, abs_tol=CLOSE)
    else:
        # 1, 1.0 and true are equal in Python, and three things in a certificate.
        same = type(found) is type(expected) and found == expected
    return [] if same else [where]


def _why_it_ended(replay: Replay, spec: Spec, decision: str, reached: bool, said: str) -> str:
    """An answer or a budget of rounds can be seen in the counts; of a clock or a key we only have the word."""
    if reached:
        return "epsilon"
    if replay.question.epsilon is None and decision != "UNDECIDED":
        return "decided"
    if replay.rounds >= spec.guarantee.budget.rounds:
        return "rounds"
    return said if said in ("seconds", "interrupted") else "seconds"


def _union_bar(replay: Replay) -> float:
    """What each pair must reach so that all may be spoken of together."""
    return replay.question.bar + math.log(int(replay.question.compared.sum()))


def reached(replay: Replay, epsilon: float) -> bool:
    """Estimate mode: every probability and every gap is known within epsilon."""
    if not replay.known:
        return False
    gaps, bar = replay.gaps(), _union_bar(replay)
    for cell in np.ndindex(gaps.shape):
        if not replay.question.compared[cell]:
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

    def __init__(self, replay: Replay, case: Case) -> None:
        self._replay = replay
        self._groups, self._labels = case.comparison.counted, outcome_names(case.spec, case.comparison)

    def _named(self, cell: Any) -> dict[str, Any]:
        outcome, i, j = (int(x) for x in cell)
        return {"more": self._groups[i], "less": self._groups[j], "outcome": self._labels[outcome]}

    def widest(self) -> dict[str, Any]:
        return self._named(self._replay.widest())

    def violators(self) -> list[dict[str, Any]]:
        question = self._replay.question
        evidence = arithmetic.log_evidence(self._replay.cells(), question.threshold, "below", question.relative)
        return [self._named(cell) for cell in np.argwhere((evidence >= _union_bar(self._replay)) & question.compared)]


def _gap_numbers(replay: Replay) -> tuple[float, float, float]:
    """The largest gap and its bounds: from all pairs together in estimate mode, else from leaders and pairs."""
    question = replay.question
    plus, zero, minus = (table.astype(float) for table in replay.cells())
    off = question.compared
    counts = plus[off], zero[off], minus[off]
    estimating = question.epsilon is not None
    bar = _union_bar(replay) if estimating else question.bar
    leaders = counts if estimating else replay.lead_cells()

    def refuted(c: float) -> bool:
        return bool((arithmetic.log_evidence(leaders, c, "below", question.relative) >= bar).any())

    low = arithmetic.crossing(refuted, EDGE, -EDGE)
    cleared = replay.cleared[off] & (not estimating)
    high = arithmetic.largest_bound(counts, bar, cleared, question.threshold, question.relative)
    return max(0.0, float(replay.gaps()[off].max())), max(0.0, low), high


def _group_claims(replay: Replay, case: Case, gap: tuple[float, float, float]) -> list[dict[str, Any]]:
    question = replay.question
    comparison, names = case.comparison, list(case.comparison.counted)
    trials = np.diag(replay.joint)
    share = question.delta / (question.groups * question.outcomes)
    # In estimate mode half of delta is for the gaps, and nine tenths of the rest for tries that were not cut short.
    alpha = share / 2 / 10 if question.epsilon is not None else share
    exact = replay.exact_bounds() if replay.known else None
    numbers: list[tuple[float, float, float]] = []
    for outcome, group in np.ndindex(question.outcomes, question.groups):
        if exact is not None:
            rate = float(replay.fresh_got[outcome, group] / replay.fresh_asked)
            numbers.append((rate, float(exact[0][outcome, group]), float(exact[1][outcome, group])))
            continue
        successes, tried = int(replay.successes[outcome, group]), int(trials[group])
        low, high = arithmetic.any_time_bounds(successes, tried, alpha)
        numbers.append((successes / max(tried, 1), low, high))
    labels = list(outcome_names(case.spec, case.comparison))
    if comparison.individual:
        # The one rate is the gap itself.
        numbers, names = [gap], names[:1]
    elif len(case.spec.model.labels) == 2 and case.spec.property.outcome is None and len(labels) == 1:
        numbers = [(1 - rate, 1 - high, 1 - low) for rate, low, high in numbers] + numbers
        labels = list(case.spec.model.labels)
    keys = [(name, label, int(n)) for label in labels for name, n in zip(names, trials, strict=False)]
    return [
        {"name": name, "outcome": label, "probability": rate, "low": low, "high": high, "evaluations": tried}
        for (name, label, tried), (rate, low, high) in zip(keys, numbers, strict=True)
    ]
