"""Engines and their answers: an engine takes a `Case` and returns one `Answer`, from which the verdict is built.

Sampling, counting, enumeration and bounding are engines, each in its own file; `choosing.engine_for` chooses one. A
further engine is a class with `answer` in its own file, and a line in `engine_for`.
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
    """The result of an engine for a case. Numbers are computed when they are first read.

    Parameters
    ----------
    spec, record, engine
        The question, the run record, which certificates contain, and the name of the engine.
    found
        The conclusions from the counts: the decision, and every number with its bounds.
    delta
        The largest probability that the decision is wrong; 0 if nothing is random.
    rounds, evaluations, tried
        Rounds drawn, evaluations counted, and decisions observed, counted or not.
    stopped
        Why the engine stopped: "decided", "epsilon", "rounds", "evaluations", "seconds", "interrupted", "rows",
        "weights" if the weights of all inputs are not known precisely enough, or "boxes" if no box can be divided
        further.
    witnesses, search
        Counterfactual pairs, or the function that returns them, if it is cheap enough to be called on first access.
    seen, unseen
        Rows of a table in the scope of the question that were evaluated, and that were not.
    ratio, exact_gap
        The estimate of a ratio without rounding, if it is known; and the largest gap as a fraction if every row or
        input was counted, for a ratio 1 - ratio.
    tally, shared
        The counts of all rounds, if inputs were sampled; and the joint rates of decisions as two groups, if all
        individuals were shown as every group.
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
        """Approximate number of further rounds, or of rows, that an undecided question needs; None if unknown."""
        return self.found.forecast() if self.decision is Decision.UNDECIDED else None


class AnswerEngine(Protocol):
    """Protocol of an engine that answers a case."""

    def answer(self, case: Case, *, workers: Workers, cancel: Event, progress: Report | None) -> Answer:
        """Answer the case; soon after `cancel` is set, from the evidence so far."""
