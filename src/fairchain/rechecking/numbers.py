"""The claims that follow from the counts: the choices, the verdict with its sentence, and every interval."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairchain.population import UniformPopulation
from fairchain.rechecking import arithmetic
from fairchain.rechecking.record import CertificateFile, Claim
from fairchain.rechecking.replay import Replay
from fairchain.spec import Spec, groups_of
from fairchain.wording import statement

CLOSE = 1e-6


def choices_claim(replay: Replay) -> Claim:
    """Every choice was made from the past alone."""
    if replay.question.paper:
        return Claim("choices", True, "this rule chooses nothing")
    if replay.faults:
        more = f" (and {len(replay.faults) - 1} more)" if len(replay.faults) > 1 else ""
        return Claim("choices", False, replay.faults[0] + more)
    return Claim("choices", True, "leaders, groups and batch sizes follow from earlier counts alone")


def verdict_claim(file: CertificateFile, replay: Replay, asked: Spec) -> Claim:
    """The answer follows from the counts, and the sentence is the one that belongs to it."""
    claimed, question = file.claims.get("verdict"), replay.question
    sentence = statement(
        str(claimed),
        threshold=question.threshold,
        delta=question.delta,
        population=str(UniformPopulation(asked)),
        sound=not question.paper,
        within=question.epsilon if question.epsilon is not None and _reached(replay, question.epsilon) else None,
    )
    if question.paper:
        return Claim("verdict", False, "rule = paper carries no valid guarantee, so there is nothing that could hold")
    if claimed != replay.decision:
        return Claim("verdict", False, f"says {claimed}, the counts give {replay.decision}")
    if file.claims.get("statement") != sentence or file.claims.get("sound") is not True:
        return Claim("verdict", False, "the statement is not the one that belongs to this verdict")
    return Claim("verdict", True, f"{claimed}: the e-values computed again give the same answer")


def _reached(replay: Replay, epsilon: float) -> bool:
    """Estimate mode: every probability and every gap is known within epsilon."""
    if not replay.known:
        return False
    question, gaps = replay.question, replay.gaps()
    bar = math.log(2 * question.groups * (question.groups - 1) * question.outcomes / question.delta)
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


def interval_claim(file: CertificateFile, replay: Replay, asked: Spec) -> Claim:
    """Every number with its bounds, computed again."""
    if replay.question.paper:
        return Claim("intervals", False, "rule = paper gives no valid intervals")
    if not replay.rounds:
        return Claim("intervals", True, "nothing was sampled, so nothing is claimed")
    expected = _gap_numbers(replay) + _group_numbers(replay, asked)
    claims = file.claims
    evaluations = sum(batch.rounds * len(batch.groups) for batch in file.evidence.batches)
    expected += [float(replay.rounds), float(evaluations)]
    try:
        gap = claims["gap"]
        found = [gap["estimate"], gap["low"], gap["high"]]
        for group in claims["groups"]:
            found += [group["probability"], group["low"], group["high"]]
        found += [claims["rounds"], claims["evaluations"]]
        names = [(group["name"], group["outcome"]) for group in claims["groups"]]
        close = len(found) == len(expected) and all(
            math.isclose(a, b, abs_tol=CLOSE) for a, b in zip(found, expected, strict=True)
        )
    except (KeyError, TypeError):
        return Claim("intervals", False, "some numbers are missing")
    if not close or names != _group_names(asked) or not _pairs_named(claims, replay, asked):
        return Claim("intervals", False, "some estimate, bound or named pair is not what the counts give")
    return Claim("intervals", True, f"{len(found) - 2} numbers computed again from the counts")


def _pairs_named(claims: dict[str, Any], replay: Replay, asked: Spec) -> bool:
    """The widest pair, and the pairs above the threshold by a union bound, are those of the counts."""
    question, groups = replay.question, [group.name for group in groups_of(asked)]
    label = asked.property.outcome
    labels = [label] if label is not None else list(asked.model.labels)[-question.outcomes :]

    def named(cell: Any) -> dict[str, Any]:
        outcome, i, j = (int(x) for x in cell)
        return {"more": groups[i], "less": groups[j], "outcome": labels[outcome]}

    bar = question.bar + math.log(question.groups * (question.groups - 1) * question.outcomes)
    above = np.argwhere(arithmetic.log_evidence(replay.cells(), question.threshold, "below") >= bar)
    gaps = replay.gaps() - 3 * np.eye(question.groups)
    widest = named(np.unravel_index(np.argmax(gaps), gaps.shape))
    said = {key: claims["gap"].get(key) for key in widest}
    return said == widest and claims.get("violators") == [named(cell) for cell in above]


def _gap_numbers(replay: Replay) -> list[float]:
    question = replay.question
    plus, zero, minus = (table.astype(float) for table in replay.cells())
    off = np.broadcast_to(~np.eye(question.groups, dtype=bool), plus.shape)
    counts = plus[off], zero[off], minus[off]
    estimate = max(0.0, float(replay.gaps().max()))
    if question.epsilon is not None:
        bar = math.log(2 * question.groups * (question.groups - 1) * question.outcomes / question.delta)
        low = arithmetic.crossing(
            lambda c: bool((arithmetic.log_evidence(counts, c, "below") >= bar).any()),
            1.0 - 1e-12,
            -1.0 + 1e-12,
        )
        high = arithmetic.crossing(
            lambda c: bool((arithmetic.log_evidence(counts, c, "above") >= bar).all()),
            -1.0 + 1e-12,
            1.0 - 1e-12,
        )
        return [estimate, max(0.0, low), high]
    cleared = replay.cleared[off]
    low = arithmetic.crossing(
        lambda c: bool(arithmetic.log_evidence(replay.lead_cells(), c, "below")[0] >= question.bar),
        1.0 - 1e-12,
        -1.0 + 1e-12,
    )

    def all_below(c: float) -> bool:
        beaten = arithmetic.log_evidence(counts, c, "above") >= question.bar
        return bool((beaten | (cleared & (c >= question.threshold))).all())

    return [estimate, max(0.0, low), arithmetic.crossing(all_below, -1.0 + 1e-12, 1.0 - 1e-12)]


def _group_numbers(replay: Replay, asked: Spec) -> list[float]:
    question = replay.question
    trials = np.diag(replay.asked)
    numbers: list[list[float]] = []
    alpha = question.delta / (question.groups * question.outcomes)
    exact = replay.exact_bounds() if replay.known else None
    for outcome in range(question.outcomes):
        for group in range(question.groups):
            if exact is not None:
                rate = float(replay.fresh_got[outcome, group] / replay.fresh_asked)
                numbers.append([rate, float(exact[0][outcome, group]), float(exact[1][outcome, group])])
                continue
            successes, tried = int(replay.got[outcome, group]), int(trials[group])
            low, high = arithmetic.any_time_bounds(successes, tried, alpha)
            numbers.append([successes / max(tried, 1), low, high])
    if question.labels == 2 and asked.property.outcome is None:
        numbers = [[1 - rate, 1 - high, 1 - low] for rate, low, high in numbers] + numbers
    return [number for triple in numbers for number in triple]


def _group_names(asked: Spec) -> list[tuple[str, str]]:
    labels = [asked.property.outcome] if asked.property.outcome is not None else list(asked.model.labels)
    return [(group.name, str(label)) for label in labels for group in groups_of(asked)]
