"""Final verification: a candidate is saved, loaded again as an untrusted model, and verified on fresh inputs.

The random draws of this verification are used neither by the search nor by the selection of candidates. Attempt k may
be wrong with probability delta / 2^k, so that all attempts together, however many, are wrong with probability at most
delta. The price of a candidate is also measured on inputs that the search has not seen (docs/repair.md, "The price of a
repair").
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import UnansweredError
from fairchain.executors import AnyWorkers
from fairchain.models import Model, OnnxModel
from fairchain.models.edit.candidates import CANDIDATE_ROWS_PER_CALL
from fairchain.models.edit.weights import WeightArray, Weights
from fairchain.prepare import Case, case_of, group_masks
from fairchain.repairing.parameters import Parameters
from fairchain.repairing.repair_data import CERTIFICATE_SEED, PRICE_SEED, LabelArray, LabelledRows, inputs_of, seed_for
from fairchain.repairing.result import Attempt, GroupChange, Price
from fairchain.repairing.search import Candidate, is_almost_constant, usual_share
from fairchain.repairing.thresholds import ThresholdEdits
from fairchain.spec import Spec, Table
from fairchain.statistics import Interval
from fairchain.statistics.intervals import clopper_pearson
from fairchain.verification import verify_case
from fairchain.verification.verdict import Verdict

# Largest number of candidates that are judged, and the fraction of the limit that each of them leaves as a margin.
FREE = (0.1, 0.2, 0.35, 0.5, 0.75)
# The probability that some interval of the price fails, over all attempts.
PRICE_DELTA = 0.05
# Rounds on which agreement with the original network is measured.
PRICE_ROUNDS = 20_000
# Replaces a verdict on a candidate with an output that is not a decision.
FAILED = "FAILED"


@dataclass(frozen=True)
class Judged:
    """The judgement of one candidate; without a verdict if it has no decision for some input."""

    candidate: Candidate
    attempt: Attempt
    verdict: Verdict | None
    model: Model
    content: bytes | None
    groups: tuple[GroupChange, ...] = ()

    @property
    def gap_high(self) -> float:
        """The upper bound of the gap; infinite without a verdict."""
        return self.verdict.gap.high if self.verdict is not None else math.inf


@dataclass(frozen=True, eq=False)
class WeightEdits:
    """Networks with changed weights: each is saved, and loaded like any untrusted file."""

    weights: Weights
    original: OnnxModel

    def edited(self, changes: Mapping[str, WeightArray], spec: Spec) -> tuple[Model, bytes]:
        """Return the network with these weights, and its bytes."""
        content = self.weights.network(changes)
        return OnnxModel.from_bytes(content, self.original.name, spec, self.original.limits), content


@dataclass(frozen=True)
class Judge:
    """Final verification of candidates for the model of a case.

    `edits` constructs the models of candidates. `case` has the inputs of the final verification, the original model,
    and the spec of the candidates. `held_out` are labelled rows for the price. `most_lost` is the allowed estimated
    loss of accuracy (or agreement); None for any.
    """

    edits: WeightEdits | ThresholdEdits
    case: Case
    held_out: LabelledRows | None = None
    most_lost: float | None = None
    workers: AnyWorkers = None

    def all(self, candidates: Sequence[Candidate], parameters: Parameters) -> list[Judged]:
        """Judge candidates in order until one is accepted, or until Ctrl-C."""
        judged: list[Judged] = []
        for number, candidate in enumerate(candidates, start=1):
            found = self.one(candidate, parameters, number)
            judged.append(found)
            if found.attempt.accepted or (found.verdict is not None and found.verdict.stopped == "interrupted"):
                break
        return judged

    def one(self, candidate: Candidate, parameters: Parameters, number: int) -> Judged:
        """Judge attempt `number`, counted from 1."""
        spec = attempt_spec(self.case.spec, number)
        model, content = self.edits.edited(parameters.weights(candidate.point), spec)
        # The original is evaluated first: if it has no decision for an input, this is an error, not a failed candidate.
        values, before = self._priced
        case = case_of(spec, model, self.case.rows, function=self.case.function)
        table = isinstance(spec.population, Table)
        exact = isinstance(spec.population, Table) and spec.population.reading == "population"
        seed = None if table else case.seed.value
        try:
            verdict = verify_case(case, workers=self.workers, certify=True)
            after = predicted(model, values)
        except UnansweredError as error:
            delta = 0.0 if exact else spec.guarantee.delta
            why = f"no decision for the input {error.shown}"
            failed = Attempt(number, delta, seed, FAILED, None, None, False, why)
            return Judged(candidate, failed, None, model, content)
        price_delta = PRICE_DELTA * 2.0**-number
        if self.held_out is not None:
            price = accuracy_price(before, after, self.held_out.truth, price_delta, exact=self.held_out.whole)
        else:
            price = agreement_price(before, after, price_delta, exact=exact, rows=table)
        agreement = price.after if price.measure == "agreement" else None
        objection = None
        if not verdict.fair:
            objection = verdict.headline
        elif is_almost_constant(price.usual_before, price.usual_after, agreement):
            usual = f"{price.usual_after:.2%} of {price.on} the same answer, before {price.usual_before:.2%}"
            objection = f"fair, but gives {usual}"
        elif self.most_lost is not None and -price.change.estimate > self.most_lost + 1e-12:
            # The estimate decides, as usual for accuracy; its interval is reported with it.
            objection = f"fair, but costs more than allowed: {price}"
        accepted = verdict.sound and objection is None
        decision, why = verdict.conclusion, objection or "accepted"
        attempt = Attempt(number, verdict.delta, seed, decision, verdict.gap, price, accepted, why)
        groups = group_changes(self.case, values, before, after)
        return Judged(candidate, attempt, verdict, model, content, groups)

    @cached_property
    def _priced(self) -> tuple[NDArray[Any], LabelArray]:
        """The inputs on which the price is measured, and the original network's decisions about them.

        They are held-out rows, or inputs that no search has seen, or all rows of a table.
        """
        case = self.case
        assert case.model is not None
        if self.held_out is not None:
            return self.held_out.values, predicted(case.model, self.held_out.values)
        values: NDArray[Any] = inputs_of(case, seed_for(case.seed.value, PRICE_SEED), 0, PRICE_ROUNDS).values
        if case.population is not None:
            # One random subgroup of each round: the subgroups of a round share a draw and are not independent.
            subgroups = len(case.comparison.subgroups)
            rounds = len(values) // subgroups
            random = np.random.Generator(np.random.Philox(seed_for(case.seed.value, PRICE_SEED, 1)))
            chosen = random.integers(subgroups, size=rounds)
            values = values.reshape(subgroups, rounds, -1)[chosen, np.arange(rounds)]
        return values, predicted(case.model, values)


def attempt_spec(spec: Spec, number: int) -> Spec:
    """Return the question of an attempt: a share of delta, fresh random numbers, and a sound rule.

    Without a chosen seed, the candidate's bytes and its share of delta determine a unique seed.
    """
    chosen = spec.guarantee.seed
    guarantee = replace(
        spec.guarantee,
        delta=spec.guarantee.delta * 2.0**-number,
        seed=None if chosen is None else seed_for(chosen, CERTIFICATE_SEED, number),
        rule="betting",
        epsilon=None,
    )
    return replace(spec, guarantee=guarantee)


def candidates_of(front: Sequence[Candidate], limit: float, floor: float | None) -> list[Candidate]:
    """Return the candidates to judge, in an order that is fixed before any of them is judged.

    Without a floor the most accurate come first, each with a larger margin to the limit; with a floor, the candidate
    with the smallest gap that keeps this accuracy. If no candidate is fair even on the search data, only the one with
    the smallest gap, for its interval.
    """
    kept = [each for each in front if floor is None or each.score.prudent >= floor]
    fair = [each for each in kept if each.score.gap < limit]
    if not fair:
        return [min(kept or front, key=lambda each: (each.score.gap, -each.score.prudent, each.change))]
    ordered: list[Candidate] = []
    by_gap = sorted(fair, key=lambda each: (each.score.gap, each.change))
    for free in FREE if floor is None else ():
        within = [each for each in fair if each.score.gap <= (1 - free) * limit]
        if within:
            ordered.append(max(within, key=lambda each: (each.score.prudent, -each.change)))
    ordered += by_gap[: 1 if floor is None else len(FREE)]
    return list({id(each): each for each in ordered}.values())[: len(FREE)]


def group_changes(case: Case, values: NDArray[Any], before: LabelArray, after: LabelArray) -> tuple[GroupChange, ...]:
    """Return for each group how many of these inputs gained and lost the outcome; empty for texts."""
    spec = case.spec
    if spec.text is not None:
        return ()
    outcome = spec.property.outcome or spec.model.labels[-1]
    old, new = (labels == spec.model.labels.index(outcome) for labels in (before, after))
    return tuple(
        GroupChange(
            group.name,
            outcome,
            int(mine.sum()),
            float(old[mine].mean()) if mine.any() else 0.0,
            float(new[mine].mean()) if mine.any() else 0.0,
            int((new & ~old & mine).sum()),
            int((old & ~new & mine).sum()),
        )
        for group, mine in zip(case.groups, group_masks(spec, case.groups, values), strict=True)
    )


def accuracy_price(old: LabelArray, new: LabelArray, truth: LabelArray, delta: float, *, exact: bool = False) -> Price:
    """Return the change of accuracy, from the decisions of both models about held-out rows.

    Rows that became correct and rows that became wrong are counted separately, each count with exact bounds at
    delta/2, so that rows which both models classify correctly cost no precision. `exact` for all rows of a population.
    """
    before, after = (labels == truth for labels in (old, new))
    gained, lost, count = int((after & ~before).sum()), int((before & ~after).sum()), len(truth)
    (low_gain, low_loss), (high_gain, high_loss) = clopper_pearson([gained, lost], count, delta / 2)
    change = Interval((gained - lost) / count, float(low_gain - high_loss), float(high_gain - low_loss))
    on, accuracy = f"{count:,} held-out rows", (float(before.mean()), float(after.mean()))
    if exact:
        change, delta, on = Interval(*[change.estimate] * 3), 0.0, f"all {count:,} rows"
    return Price("accuracy", on, count, *accuracy, change, delta, gained, lost, usual_share(old), usual_share(new))


def agreement_price(old: LabelArray, new: LabelArray, delta: float, *, exact: bool, rows: bool = False) -> Price:
    """Return the share of inputs with a different decision, as a negative number.

    `exact` for all rows of a population, `rows` for the rows of a table rather than drawn inputs.
    """
    count, other = len(old), int((old != new).sum())
    if exact:
        change, delta, on = Interval(-other / count, -other / count, -other / count), 0.0, f"all {count:,} rows"
    else:
        low, high = clopper_pearson(other, count, delta)
        change = Interval(-other / count, -float(high), -float(low))
        on = f"{count:,} held-out rows" if rows else f"{count:,} freshly drawn inputs"
    usual = usual_share(old), usual_share(new)
    return Price("agreement", on, count, 1.0, 1 - other / count, change, delta, 0, other, *usual)


def predicted(model: Model, values: NDArray[Any]) -> NDArray[np.integer]:
    """Return the decisions of a network, in batches of some thousands."""
    values = values.astype(model.dtype)
    parts = [
        model.predict(values[start : start + CANDIDATE_ROWS_PER_CALL])
        for start in range(0, len(values), CANDIDATE_ROWS_PER_CALL)
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.uint16)
