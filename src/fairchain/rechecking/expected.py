"""The claims that the counts of a certificate support, computed independently: every word and every number.

`expected_claims` returns all of them; a claim that is missing there, or differs, does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairchain.prepare import Case
from fairchain.rechecking import arithmetic
from fairchain.rechecking.replay import Replay
from fairchain.spec import Comparison, Spec
from fairchain.spec.properties import kind_of, limit_of, outcome_names, shows_same_individual
from fairchain.spec.seeds import Seed
from fairchain.statements import conclusion, scope, statement

CLOSE = 1e-8
EDGE = 1.0 - 1e-12
# Numbers that the spec states: they are not computed, so they have no rounding error.
STATED_NUMBERS = ("threshold", "delta", "epsilon")
# An estimate with its lower and upper bound.
BoundedEstimate = tuple[float, float, float]


def expected_claims(
    replay: Replay, case: Case, labels: Sequence[int], model_sha256: str, seed: Seed, stopped: str
) -> dict[str, Any]:
    """Return all claims that the counts and the observed labels support, with the keys of a certificate."""
    rule, spec, comparison = replay.question, case.spec, case.comparison
    population = case.described_population
    estimate, low, high = _gap_numbers(replay)
    decision = replay.decision
    if rule.epsilon is not None or (rule.one_event and decision == "UNDECIDED"):
        # Bets and intervals hold in one event: a value that the final interval excludes is decided.
        decision = "FAIR" if high <= rule.threshold else "UNFAIR" if low > rule.threshold else "UNDECIDED"
    known = rule.epsilon is not None and within_epsilon(replay, rule.epsilon)
    gap = (1 - estimate, 1 - high, 1 - low) if rule.relative else (estimate, low, high)
    if rule.shift > 1:
        shifted = replay.shifted_gaps()
        violators = np.argwhere(rule.compared)[shifted[:, 1] > rule.threshold]
        widest = tuple(np.argwhere(rule.compared)[shifted[:, 0].argmax()].tolist())
    else:
        evidence = rule.evidence(replay.cells(), "below")
        violators, widest = np.argwhere((evidence >= rule.pairs_bar) & rule.compared), replay.widest()
    trials = np.diag(replay.joint)
    return claims_of(
        spec,
        comparison,
        decision,
        labels,
        gap=gap,
        pair=widest,
        rates=_group_numbers(replay),
        trials=trials.tolist(),
        cells=_cells_of_rounds(replay, case, decision),
        violators=violators.tolist(),
        left_out=case.left_out,
        engine="sampling",
        delta=rule.delta,
        epsilon=rule.epsilon,
        rounds=replay.rounds,
        evaluations=evaluations(case, replay.rounds, trials),
        decision_rounds=replay.decision_rounds,
        decision_evaluations=evaluations(case, replay.decision_rounds, replay.decision_trials),
        stopped=_why_it_ended(replay, case, decision, known, stopped),
        seed=seed.value,
        seed_origin=seed.origin,
        rule=spec.guarantee.rule,
        model_sha256=model_sha256,
        table_sha256=None,
        population=population,
        statement=statement(
            decision,
            threshold=spec.property.threshold,
            delta=rule.delta,
            population=case.populations(decision),
            sound=True,
            within=rule.epsilon if known else None,
            kind=kind_of(spec),
            inputs=spec.inputs,
            left_out=len(case.left_out),
        ),
        scope=scope(model_sha256, seed.value, seed.origin),
    )


def claims_of(
    spec: Spec,
    comparison: Comparison,
    decision: str,
    labels: Sequence[int],
    *,
    gap: BoundedEstimate,
    pair: Sequence[int],
    rates: Mapping[tuple[int, int], BoundedEstimate],
    trials: Sequence[int],
    cells: Sequence[Sequence[tuple[float, float]]],
    violators: Sequence[Sequence[int]],
    left_out: Sequence[tuple[str, float]],
    **others: Any,
) -> dict[str, Any]:
    """Return all claims of a certificate: those that follow from these numbers, and the `others`.

    `gap` is the largest gap, that of `pair`, (outcome, i, j); `rates` are by (outcome, subgroup), from the `trials` of
    each subgroup. `cells` are, for each compared pair, bounds of the probabilities that only the first group gets the
    outcome, only the second, and both; there are none if no individual was seen as every group.
    """
    names, prop, outcomes = spec.model.labels, spec.property, outcome_names(spec, comparison)
    constant = names[labels[0]] if len(labels) == 1 and labels[0] < len(names) else None
    tipping = None
    if decision != "UNDECIDED" and prop.shift is None and constant is None:
        each_group = _tipping_of_rates(spec, comparison, decision, rates, gap)
        # Without an individual seen as every group, each group's own factor is a bound.
        alike = _tipping_of_cells(spec, decision, cells) if cells else each_group
        tipping = {"each_group": each_group, "all_groups_alike": alike}

    def named(pair: Sequence[int]) -> dict[str, str]:
        outcome, i, j = pair
        return {"more": comparison.counted[i], "less": comparison.counted[j], "outcome": outcomes[outcome]}

    # For individual discrimination the single rate is the gap itself. With two labels the other rate follows.
    found = [
        (outcomes[outcome], subgroup, each)
        for (outcome, subgroup), each in (rates if not comparison.individual else {(0, 0): gap}).items()
        if comparison.compared[outcome, subgroup].any() or comparison.compared[outcome, :, subgroup].any()
    ]
    if not comparison.individual and len(names) == 2 and prop.outcome is None and len(outcomes) == 1:
        found = [(names[0], subgroup, (1 - p, 1 - high, 1 - low)) for _, subgroup, (p, low, high) in found] + found
    groups = [
        {
            "name": comparison.counted[subgroup],
            "outcome": word,
            "probability": p,
            "low": low,
            "high": high,
            "evaluations": trials[subgroup],
        }
        for word, subgroup, (p, low, high) in found
    ]
    estimate, low, high = gap
    claims = {
        "verdict": conclusion(decision, constant, allowed=spec.guarantee.allow_constant),
        "decision": decision,
        "constant": constant,
        "kind": kind_of(spec),
        "inputs": spec.inputs,
        "threshold": prop.threshold,
        "property": str(prop),
        "sound": True,
        "tipping": tipping,
        "shift": None if prop.shift is None else {"factor": prop.shift, "of": prop.shift_of},
        "gap": {"estimate": estimate, "low": low, "high": high, **named(pair)},
        "epsilon": None,
        "groups": groups,
        "left_out": [{"name": name, "size": size} for name, size in left_out],
        "violators": [named(each) for each in violators],
        "rounds": 0,
        "rows": None,
        "decision_rounds": 0,
        "decision_evaluations": others["evaluations"],
        "seed": None,
        "seed_origin": None,
    }
    return claims | others


def _tipping_of_rates(
    spec: Spec,
    comparison: Comparison,
    decision: str,
    rates: Mapping[tuple[int, int], BoundedEstimate],
    gap: BoundedEstimate,
) -> float:
    """Return the largest factor for which the decision holds if each group shifts separately.

    For individual discrimination the gap is the single rate.
    """
    limit, fair = float(limit_of(spec)), decision == "FAIR"
    scale, margin = (1 - limit, 0.0) if comparison.measure == "ratio" else (1.0, limit)
    pairs = [(o, i, j) for o, i, j in np.argwhere(comparison.compared).tolist() if not comparison.individual or i == 0]
    known = {(0, 0): gap, (0, 1): (0.0, 0.0, 0.0)} if comparison.individual else rates
    one, other = (2, 1) if fair else (1, 2)
    ends = {(known[o, i][one], known[o, j][other]) for o, i, j in pairs}
    first, second = (np.array(each) for each in zip(*ends, strict=True))

    def holds(factor: float) -> bool:
        (least, most), (other_least, other_most) = (arithmetic.shifted_rates(each, factor) for each in (first, second))
        if fair:
            return bool((scale * most - other_least <= margin).all())
        return bool((scale * least - other_most > margin).any())

    return arithmetic.tipping_factor(holds)


def _cells_of_rounds(replay: Replay, case: Case, decision: str) -> list[list[tuple[float, float]]]:
    """Return the cells of a decision from rounds that show one individual as every group, for `claims_of`."""
    rule = replay.question
    pairs = np.argwhere(rule.compared).tolist()
    if (
        decision == "UNDECIDED"
        or case.comparison.individual
        or not shows_same_individual(case.spec)
        or len(pairs) > arithmetic.MOST_SHIFTED_PAIRS
    ):
        return []
    cells = 3 if rule.relative else 2
    alpha = rule.delta / cells / (1 if decision == "FAIR" else len(pairs))
    bounds = {}
    for o, i, j in pairs:
        counts = replay.only[o, i, j], replay.only[o, j, i], replay.both[o, i, j]
        key = (*(int(count) for count in counts[:cells]), int(replay.joint[i, j]))
        if key not in bounds:
            bounds[key] = [arithmetic.any_time_bounds(count, key[-1], alpha) for count in key[:-1]]
    return list(bounds.values())


def _tipping_of_cells(spec: Spec, decision: str, pairs: Sequence[Sequence[tuple[float, float]]]) -> float:
    """Return the largest factor for which the decision holds if the individuals shown to all groups shift."""
    limit, fair, relative = float(limit_of(spec)), decision == "FAIR", kind_of(spec) == "ratio"
    keep, margin = (1 - limit, 0.0) if relative else (1.0, limit)

    def survives(cells: Sequence[tuple[float, float]], factor: float) -> bool:
        # The first cell is evidence against FAIR and for UNFAIR, the others the reverse. Only a ratio needs the third.
        shares = [ends[(place == 0) == fair] for place, ends in enumerate(cells[: 3 if relative else 2])]
        worth = dict(zip((keep, -1.0, keep - 1), shares, strict=False))
        worth[0.0] = worth.get(0.0, 0.0) + 1 - sum(shares)
        if fair:
            return arithmetic.largest_mean(worth, factor) <= margin
        return -arithmetic.largest_mean({-value: share for value, share in worth.items()}, factor) > margin

    found = [
        arithmetic.tipping_factor(lambda factor, cells=cells: survives(cells, factor))  # type: ignore[misc]
        for cells in pairs
    ]
    return min(found) if fair else max(found)


def evaluations(case: Case, rounds: int, trials: ArrayLike) -> int:
    """Return the evaluations of the network: each round as every group, or the trials of each group."""
    return rounds * len(case.comparison.subgroups) if case.comparison.individual else int(np.sum(trials))


def differences(found: Any, expected: Any, where: str = "") -> list[str]:
    """Return where two nested values differ by more than rounding; integers and stated numbers must be equal."""
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
    if isinstance(expected, float) and where not in STATED_NUMBERS and isinstance(found, int | float):
        same = not isinstance(found, bool) and math.isclose(found, expected, rel_tol=0.0, abs_tol=CLOSE)
    else:
        # 1, 1.0 and true are equal in Python, but different in a certificate.
        same = type(found) is type(expected) and found == expected
    return [] if same else [where]


def _why_it_ended(replay: Replay, case: Case, decision: str, reached: bool, said: str) -> str:
    """Return why the run ended; the counts show an answer or a budget, no time limit, interrupt or failed proof."""
    budget = case.spec.guarantee.budget
    if reached:
        return "epsilon"
    if replay.question.epsilon is None and decision != "UNDECIDED":
        return "decided"
    if replay.rounds >= budget.rounds:
        return "rounds"
    if budget.evaluations is not None:
        spent = evaluations(case, replay.rounds, np.diag(replay.joint))
        groups = replay.next_batch().groups if replay.cut is None else replay.cut
        if budget.evaluations - spent < len(case.comparison.evaluated(groups)):
            return "evaluations"
    return said if said in ("seconds", "interrupted", "boxes") else "seconds"


def within_epsilon(replay: Replay, epsilon: float) -> bool:
    """Return whether, in estimate mode, every probability and every gap is known within epsilon."""
    if not replay.known:
        return False
    gaps, bar = replay.gaps(), replay.question.pairs_bar
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


def _gap_numbers(replay: Replay) -> tuple[float, float, float]:
    """Return the largest gap and its bounds: from all pairs in estimate mode, otherwise from leaders and pairs."""
    question = replay.question
    if question.shift > 1:
        # If every pair is compared in both directions, the largest gap is at least 0.
        none = arithmetic.least_gap(question.compared, question.relative) or 0.0
        first, *ends = (max(none, float(each)) for each in replay.shifted_gaps().max(axis=0))
        # Values that the bounds excluded at the decision remain excluded.
        beyond = {"FAIR": min, "UNFAIR": max}.get(replay.decision)
        low, high = ends if beyond is None else [beyond(each, question.threshold) for each in ends]
        return sorted((first, low, high))[1], low, high
    plus, zero, minus = (table.astype(float) for table in replay.cells())
    off, pairs = question.compared, np.argwhere(question.compared).tolist()
    counts = plus[off], zero[off], minus[off]
    estimating = question.epsilon is not None
    bar = question.pairs_bar if estimating else question.gap_bar
    below, above = (np.full(int(off.sum()), end) for end in (-np.inf, np.inf))
    # The pairs that refute "every gap is at most c", and the critical value.
    witnesses = [(counts if estimating else replay.lead_cells(), bar)]
    if question.one_event and not question.share:
        # The bounds of the gaps that follow from those of the rates.
        numbers, relative = _group_numbers(replay), question.relative
        below, above = (
            np.array(
                [float(arithmetic.shifted_gap(numbers[o, i][a], numbers[o, j][b], 1, relative)) for o, i, j in pairs]
            )
            for a, b in ((1, 2), (2, 1))
        )
        witnesses += [] if estimating else [(counts, question.pairs_bar)]

    def refuted(c: float) -> bool:
        return bool((below >= c).any()) or any(
            (arithmetic.log_evidence(cells, c, "below", question.relative, question.share) >= level).any()
            for cells, level in witnesses
        )

    one_sided = arithmetic.least_gap(off, question.relative)
    least, floor = (-1.0, 0.0) if one_sided is None else (one_sided, one_sided)
    if question.share:
        least, floor = 0.0, 0.0
    low = arithmetic.crossing(refuted, EDGE, least * EDGE)
    if not estimating:
        above = np.where(replay.cleared[off], np.minimum(above, question.threshold), above)
    high = arithmetic.largest_bound(counts, bar, above, question.relative, least)
    if replay.decision == "UNFAIR":
        # Values that the leaders refuted before the last round remain refuted.
        low = max(low, question.threshold)
        high = max(low, high)
    low = max(floor, low)
    observed = max(floor, float(replay.gaps()[off].max()))
    if estimating and not question.one_event:
        return observed, low, high
    # Where bounds contradict each other, one of them is kept.
    low, high = (low, max(low, high)) if estimating else (min(low, high), high)
    return min(max(observed, low), high), low, high


def _group_numbers(replay: Replay) -> dict[tuple[int, int], BoundedEstimate]:
    """Return the rate of every outcome and group with its bounds: exact ones after a try that succeeded."""
    rule = replay.question
    cells = list(np.ndindex(rule.outcomes, rule.groups))
    if replay.known:
        low, high = replay.exact_bounds()
        rates = replay.try_successes / replay.try_rounds
        return {cell: (float(rates[cell]), float(low[cell]), float(high[cell])) for cell in cells}
    # In estimate mode half of delta is for the gaps, and nine tenths of the rest for complete tries.
    alpha = (rule.delta / 2 / 10 if rule.epsilon is not None else rule.rates_delta) / (rule.groups * rule.outcomes)
    trials = np.broadcast_to(np.diag(replay.joint), replay.successes.shape)
    table = arithmetic.any_time_table(replay.successes, trials, alpha)
    return {cell: tuple(table[cell].tolist()) for cell in cells}
