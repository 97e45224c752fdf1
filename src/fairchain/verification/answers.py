"""Engines and their answers: an engine takes a `Case` and returns one `Answer`, from which the verdict is written.

Sampling, counting, enumeration and bounding are engines, each in a file of its own; `choosing.engine_for` chooses one.
A further engine is a class with `partial` and `answer` in a file of its own, and a line in `engine_for`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from threading import Event
from typing import Protocol

from fairchain.executors import Workers
from fairchain.prepare import Case
from fairchain.spec.properties import in_own_unit
from fairchain.statistics import Decision, Inference, Interval
from fairchain.statistics.intervals import Floats
from fairchain.statistics.rules import Leader
from fairchain.statistics.shift import SharedRates
from fairchain.statistics.tally import Counts, Tally
from fairchain.verification.progress import Report
from fairchain.verification.record import Witness
from fairchain.verification.verdict import Evidence


@dataclass(frozen=True, eq=False, kw_only=True)
class Answer:
    """What an engine found out about a case.

    Parameters
    ----------
    engine
        Which engine it was: "sampling", "counting", "enumeration" or "bounds".
    delta
        The probability that the decision is wrong, at most; 0 where nothing is random.
    decision, sound
        FAIR, UNFAIR or UNDECIDED, and whether that carries a guarantee.
    gap
        The largest gap in the property's own unit.
    exact_gap
        The largest gap as a fraction where every row or input was counted; of a ratio, 1 - ratio.
    widest, violators
        The pair and outcome with the largest gap, and those known to be above the threshold, as numbers.
    rates, low, high
        (outcomes, subgroups): estimates and bounds of P(outcome | subgroup).
    trials
        (subgroups,): evaluations of each.
    forecast
        About how many more rounds, or how many rows, an undecided question needs; None if unknown.
    record
        The run record, which certificates contain.
    rounds, evaluations, tried
        Rounds drawn, evaluations counted, and decisions looked at, counted or not.
    stopped
        Why the engine stopped: "decided", "epsilon", "rounds", "evaluations", "seconds", "interrupted", "rows",
        "weights" where the weights of all inputs are not known well enough, or "boxes" where no box can be divided
        further.
    seen, unseen
        Rows of a table that the question is about, and that were evaluated or not.
    witnesses
        Counterfactual pairs.
    tally
        The counts of all rounds, where inputs were sampled.
    shared
        What individuals get as two groups, where all of them were shown as every group.
    """

    engine: str
    delta: float
    decision: Decision
    sound: bool
    gap: Interval
    exact_gap: Fraction | None
    widest: Leader
    violators: tuple[Leader, ...]
    rates: Floats
    low: Floats
    high: Floats
    trials: Counts
    forecast: int | None
    record: Evidence
    rounds: int
    evaluations: int
    tried: int
    stopped: str
    seen: int
    unseen: int
    witnesses: tuple[Witness, ...]
    tally: Tally | None = None
    shared: SharedRates | None = None


class AnswerEngine(Protocol):
    """A way of answering a case."""

    @property
    def partial(self) -> bool:
        """Whether a cancelled run still has an answer."""

    def answer(self, case: Case, *, workers: Workers, cancel: Event, progress: Report | None) -> Answer:
        """Answer the case; a partial engine stops soon after `cancel` is set."""


def answer_from(
    case: Case,
    found: Inference,
    record: Evidence,
    *,
    engine: str,
    delta: float,
    rounds: int,
    evaluations: int,
    tried: int,
    stopped: str,
    seen: int = 0,
    unseen: int = 0,
    witnesses: tuple[Witness, ...],
    ratio: float | None = None,
    exact_gap: Fraction | None = None,
    tally: Tally | None = None,
    shared: SharedRates | None = None,
) -> Answer:
    """Return the answer with every number that the statistics give; `ratio` is its estimate without rounding."""
    low, high = found.probabilities()
    return Answer(
        engine=engine,
        delta=delta,
        decision=found.decision,
        sound=found.sound,
        gap=Interval(*in_own_unit(case.spec, found.gap(), ratio)),
        exact_gap=exact_gap,
        widest=found.widest(),
        violators=tuple(found.violators()),
        rates=found.rates(),
        low=low,
        high=high,
        trials=found.trials,
        forecast=found.forecast() if found.decision is Decision.UNDECIDED else None,
        record=record,
        seen=seen,
        unseen=unseen,
        rounds=rounds,
        evaluations=evaluations,
        tried=tried,
        stopped=stopped,
        witnesses=witnesses,
        tally=tally,
        shared=shared,
    )
