"""Engines and their answers: an engine takes a `Case` and returns one `Answer`, from which the verdict is written.

Sampling, counting, enumeration and bounding are engines, each in a file of its own; `choosing.engine_for` chooses one.
A further engine is a class with `partial` and `answer` in a file of its own, and a line in `engine_for`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from threading import Event
from typing import Protocol

from fairchain.executors import Workers
from fairchain.prepare import Case
from fairchain.spec import Spec
from fairchain.spec.properties import in_own_unit
from fairchain.statistics import Decision, Inference, Interval
from fairchain.statistics.intervals import Floats
from fairchain.statistics.shift import SharedRates
from fairchain.statistics.tally import Tally
from fairchain.verification.progress import Report
from fairchain.verification.record import Witness
from fairchain.verification.verdict import Evidence


@dataclass(frozen=True, eq=False, kw_only=True)
class Answer:
    """What an engine found out about a case. Numbers are computed when they are first read.

    Parameters
    ----------
    spec
        The question.
    found
        What follows from the counts: the decision, and every number with its bounds.
    record
        The run record, which certificates contain.
    engine
        Which engine it was: "sampling", "counting", "enumeration" or "bounds".
    delta
        The probability that the decision is wrong, at most; 0 where nothing is random.
    rounds, evaluations, tried
        Rounds drawn, evaluations counted, and decisions looked at, counted or not.
    stopped
        Why the engine stopped: "decided", "epsilon", "rounds", "evaluations", "seconds", "interrupted", "rows",
        "weights" where the weights of all inputs are not known well enough, or "boxes" where no box can be divided
        further.
    witnesses
        Counterfactual pairs.
    seen, unseen
        Rows of a table that the question is about, and that were evaluated or not.
    ratio
        The estimate of a ratio without rounding, if it is known.
    exact_gap
        The largest gap as a fraction where every row or input was counted; of a ratio, 1 - ratio.
    tally
        The counts of all rounds, where inputs were sampled.
    shared
        What individuals get as two groups, where all of them were shown as every group.
    search
        Returns the counterfactual pairs if there is so little to compute that a verdict leaves it until it is read.
    """

    spec: Spec
    found: Inference
    record: Evidence
    engine: str
    delta: float
    rounds: int
    evaluations: int
    tried: int
    stopped: str
    witnesses: tuple[Witness, ...]
    seen: int = 0
    unseen: int = 0
    ratio: float | None = None
    exact_gap: Fraction | None = None
    tally: Tally | None = None
    shared: SharedRates | None = None
    search: Callable[[], tuple[Witness, ...]] | None = None

    @property
    def decision(self) -> Decision:
        """FAIR, UNFAIR or UNDECIDED."""
        return self.found.decision

    @cached_property
    def gap(self) -> Interval:
        """The largest gap in the property's own unit."""
        return Interval(*in_own_unit(self.spec, self.found.gap(), self.ratio))

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """Lower and upper bounds of P(outcome | subgroup), each (outcomes, subgroups)."""
        return self.found.probabilities()

    @property
    def forecast(self) -> int | None:
        """About how many more rounds, or how many rows, an undecided question needs; None if unknown."""
        return self.found.forecast() if self.decision is Decision.UNDECIDED else None


class AnswerEngine(Protocol):
    """A way of answering a case."""

    @property
    def partial(self) -> bool:
        """Whether a cancelled run still has an answer."""

    def answer(self, case: Case, *, workers: Workers, cancel: Event, progress: Report | None) -> Answer:
        """Answer the case; a partial engine stops soon after `cancel` is set."""
