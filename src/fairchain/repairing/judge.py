"""The judge: a candidate is saved, loaded again as a stranger's network, and verified on inputs of its own.

Neither the search nor the choice of candidates knows anything of the draws that decide here. Attempt k may be wrong
with probability delta / 2^k, so that all attempts together, however many, are wrong with probability at most delta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import UnansweredError
from fairchain.models import OnnxModel
from fairchain.models.edit.weights import Weights
from fairchain.prepare import Case, case_of
from fairchain.repairing.evaluation import LabelledRows, Labels, is_empty
from fairchain.repairing.parameters import Parameters
from fairchain.repairing.price import accuracy_price, agreement_price, fresh_inputs, predicted
from fairchain.repairing.result import Attempt, Price
from fairchain.repairing.search import Tried
from fairchain.repairing.seeds import CERTIFICATE, derived_seed
from fairchain.spec import Spec, Table
from fairchain.verification import verify_case
from fairchain.verification.verdict import Verdict

# Candidates that are put before the judge, at most, and the part of the limit that each of them leaves free.
FREE = (0.1, 0.2, 0.35, 0.5, 0.75)
# How often the intervals of the price may fail, all attempts together.
PRICE_DELTA = 0.05
# In place of a verdict on a candidate that answers some input with something that is no class.
FAILED = "FAILED"


@dataclass(frozen=True)
class Judged:
    """What became of one candidate; without a verdict if it has no decision for some input."""

    tried: Tried
    attempt: Attempt
    verdict: Verdict | None
    content: bytes


@dataclass(frozen=True)
class Judge:
    """Everything that a judgement needs besides the candidate.

    `most_lost` is the loss of accuracy (or agreement) that is allowed, as estimated; None for any.
    """

    original: OnnxModel
    weights: Weights
    case: Case
    held_out: LabelledRows | None
    most_lost: float | None
    seed: int
    workers: int | None = None

    def all(self, candidates: Sequence[Tried], knobs: Parameters) -> list[Judged]:
        """One after another until one is accepted or somebody presses Ctrl-C."""
        judged: list[Judged] = []
        for number, tried in enumerate(candidates, start=1):
            found = self.one(tried, knobs, number)
            judged.append(found)
            if found.attempt.accepted or (found.verdict is not None and found.verdict.stopped == "interrupted"):
                break
        return judged

    def one(self, tried: Tried, knobs: Parameters, number: int) -> Judged:
        """Attempt `number`, counted from 1."""
        content = self.weights.network(knobs.weights(tried.point))
        spec = attempt_spec(self.case.spec, number)
        model = OnnxModel.from_bytes(content, self.original.name, spec, self.original.limits)
        # The original is asked first: an input that it has no decision for is an error, and no candidate's failure.
        values, before = self._shown
        case = case_of(spec, model, self.case.rows, function=self.case.function)
        seed = None if self._everybody else case.seed.value
        try:
            verdict = verify_case(case, workers=self.workers)
            price = self._price(before, predicted(model, values), number)
        except UnansweredError as error:
            delta = 0.0 if self._everybody else spec.guarantee.delta
            why = f"no decision for the input {error.shown}"
            return Judged(tried, Attempt(number, delta, seed, FAILED, None, None, False, why), None, content)
        against = _why(verdict, price, self.most_lost)
        accepted = verdict.fair and verdict.sound and against is None
        decision, why = verdict.conclusion, against or "accepted"
        attempt = Attempt(number, verdict.delta, seed, decision, verdict.gap, price, accepted, why)
        return Judged(tried, attempt, verdict, content)

    @property
    def _everybody(self) -> bool:
        """Whether rows of a table are all there is, so that nothing is left to chance."""
        return isinstance(self.case.spec.population, Table)

    @cached_property
    def _shown(self) -> tuple[NDArray[Any], Labels]:
        """What the price is measured on, and what the original network decides about it."""
        if self.held_out is not None:
            values = self.held_out.values
        else:
            values = fresh_inputs(self.case, self.seed)
        return values, predicted(self.original, values)

    def _price(self, before: Labels, after: Labels, number: int) -> Price:
        delta = PRICE_DELTA * 2.0**-number
        if self.held_out is not None:
            return accuracy_price(before, after, self.held_out.truth, delta)
        return agreement_price(before, after, delta, everybody=self._everybody)


def attempt_spec(spec: Spec, number: int) -> Spec:
    """The question of an attempt: a share of delta, fresh random numbers, and a rule that keeps its promise.

    Without a chosen seed the candidate's own bytes and its share of delta give it a seed that no other has.
    """
    chosen = spec.guarantee.seed
    guarantee = replace(
        spec.guarantee,
        delta=spec.guarantee.delta * 2.0**-number,
        seed=None if chosen is None else derived_seed(chosen, CERTIFICATE, number),
        rule="betting",
        epsilon=None,
    )
    return replace(spec, guarantee=guarantee)


def _why(verdict: Verdict, price: Price, most_lost: float | None) -> str | None:
    """What speaks against a candidate; None for nothing."""
    if not verdict.fair:
        return verdict.headline
    if is_empty(price.usual_before, price.usual_after, price.after if price.measure == "agreement" else None):
        return f"fair, but gives {price.usual_after:.2%} of {price.on} the same answer, before {price.usual_before:.2%}"
    # The estimate is what counts, as of accuracy anywhere; its interval is told with it.
    if most_lost is not None and -price.change.estimate > most_lost + 1e-12:
        return f"fair, but costs more than allowed: {price}"
    return None


def candidates_of(front: Sequence[Tried], limit: float, floor: float | None) -> list[Tried]:
    """Whom to put before the judge, in order: fixed before any of them is judged.

    Without a floor the most accurate first, each time with more of the limit left free; with one the fairest that
    keeps this accuracy. If nothing is fair even where it was searched, the fairest alone, for its interval.
    """
    kept = [each for each in front if floor is None or each.score.prudent >= floor]
    fair = [each for each in kept if each.score.gap < limit]
    if not fair:
        return [min(kept or front, key=lambda each: (each.score.gap, -each.score.prudent, each.change))]
    ordered: list[Tried] = []
    by_gap = sorted(fair, key=lambda each: (each.score.gap, each.change))
    for free in FREE if floor is None else ():
        room = [each for each in fair if each.score.gap <= (1 - free) * limit]
        if room:
            ordered.append(max(room, key=lambda each: (each.score.prudent, -each.change)))
    ordered += by_gap[: 1 if floor is None else len(FREE)]
    return list({id(each): each for each in ordered}.values())[: len(FREE)]
