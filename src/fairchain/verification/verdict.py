"""The result of a verification: the answer, every number with its interval, and the ledger it rests on."""

from __future__ import annotations

import html
import time
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.spec import Comparison, Ratio, Spec, Table
from fairchain.spec.seeds import Seed
from fairchain.statements import (
    CONSTANT,
    conclusion,
    constant_headline,
    constant_note,
    exact_statement,
    headline,
    rows_scope,
    scope,
    statement,
)
from fairchain.statistics import Answer, Decision, Interval
from fairchain.statistics.rules import BatchPlan
from fairchain.verification.sampler import Batch


@dataclass(frozen=True)
class GroupProbability:
    """P(outcome | group) with its interval.

    The intervals of all groups of a verdict hold together with probability 1 - delta. The verdict and the interval of
    its gap keep a delta of their own, except in estimate mode, where one delta covers groups and gaps.
    """

    name: str
    outcome: str
    probability: Interval
    evaluations: int


@dataclass(frozen=True)
class Pair:
    """Two groups and the outcome on which they differ; the first gets it more often."""

    more: str
    less: str
    outcome: str


@dataclass(frozen=True)
class Witness:
    """One person, two groups, two decisions: an input that changes its class with the protected feature alone."""

    groups: tuple[str, str]
    labels: tuple[str, str]
    input: dict[str, str | float]


@dataclass(frozen=True)
class Look:
    """Further rounds of all groups, drawn in search of a second label and not counted; `labels` were seen in them."""

    rounds: int
    labels: tuple[int, ...]


@dataclass(frozen=True)
class RunRecord:
    """Everything that was sampled, in order: what was planned from the past, and what came of it.

    `look` is there if all counted rounds gave one label.
    """

    seed: Seed
    coupled: bool
    outcomes: tuple[int, ...]
    entries: tuple[tuple[BatchPlan, Batch], ...] = field(repr=False)
    look: Look | None = None

    @property
    def labels(self) -> tuple[int, ...]:
        """All labels that the model gave, whether they are counted or not."""
        found = {label for _, batch in self.entries for label in batch.labels}
        return tuple(sorted(found.union(self.look.labels if self.look is not None else ())))


@dataclass(frozen=True)
class RowRecord:
    """What the rows of a table gave: for each column of people how many there are, and how many got each outcome.

    `labels` are all labels that these rows got, whether they are counted or not.
    """

    rows: int
    outcomes: tuple[int, ...]
    asked: tuple[int, ...]
    got: tuple[tuple[int, ...], ...]
    labels: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What `verify` says. `bool(verdict)` is refused: UNDECIDED is neither.

    `gap` is in the property's own unit: the largest difference, the smallest ratio, or the share of people (or texts)
    whose decision changes. `left_out` names groups below the least size, with their number of rows or their share.
    `constant` is the decision that every input got, if all got the same; then groups cannot differ, whatever they are.
    """

    decision: Decision
    gap: Interval
    widest: Pair
    groups: tuple[GroupProbability, ...]
    violators: tuple[Pair, ...]
    witnesses: tuple[Witness, ...]
    rounds: int
    evaluations: int
    seconds: float
    stopped: str
    forecast: int | None
    sound: bool
    statement: str
    scope: str
    population: str
    model_sha256: str
    table_sha256: str | None = None
    left_out: tuple[tuple[str, float], ...] = ()
    notes: tuple[str, ...] = ()
    certifiable: bool = True
    constant: str | None = None
    spec: Spec = field(repr=False)
    ledger: RunRecord | RowRecord = field(repr=False)

    def __str__(self) -> str:
        mark = "" if self.sound else " (NOT SOUND)"
        return f"{self.conclusion}{mark}: {self.headline}"

    def __bool__(self) -> bool:
        raise TypeError("a verdict is FAIR, UNFAIR, UNDECIDED or CONSTANT: compare verdict.conclusion")

    @property
    def headline(self) -> str:
        """The verdict in a line, after its name."""
        told = headline(
            self.decision.name,
            kind=kind_of(self.spec),
            inputs=self.spec.inputs,
            measured=f"{self.gap.estimate:.4f}" if self.exact else f"{self.gap:.4f}",
            threshold=self.spec.property.threshold,
            at_threshold=self.exact
            and self.decision is Decision.FAIR
            and abs(self.gap.estimate - self.spec.property.threshold) < 1e-12,
        )
        if self.conclusion == CONSTANT and self.constant is not None:
            return constant_headline(self.constant, told)
        return told

    @property
    def conclusion(self) -> str:
        """What a gate acts on: FAIR, UNFAIR, UNDECIDED, or CONSTANT for a constant model that is not allowed.

        `decision` is the answer to the question alone, and of a constant model it is FAIR or UNDECIDED.
        """
        return conclusion(self.decision.name, self.constant, allowed=self.spec.guarantee.allow_constant)

    @property
    def fair(self) -> bool:
        """Whether the conclusion is FAIR; UNDECIDED and CONSTANT are not."""
        return self.conclusion == Decision.FAIR.name

    @property
    def exact(self) -> bool:
        """Whether everybody was counted, so that nothing is left to chance."""
        return isinstance(self.spec.population, Table) and self.spec.population.reading == "population"

    @property
    def delta(self) -> float:
        """The probability of a wrong verdict, at most."""
        return 0.0 if self.exact else self.spec.guarantee.delta

    @property
    def rule(self) -> str:
        """How the answer was come to."""
        if not isinstance(self.spec.population, Table):
            return self.spec.guarantee.rule
        return "exact" if self.exact else "fixed sample"

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain JSON values."""
        ledger = self.ledger
        return {
            "verdict": self.conclusion,
            "decision": self.decision.name,
            "constant": self.constant,
            "kind": kind_of(self.spec),
            "inputs": self.spec.inputs,
            "gap": {
                "estimate": self.gap.estimate,
                "low": self.gap.low,
                "high": self.gap.high,
                "more": self.widest.more,
                "less": self.widest.less,
                "outcome": self.widest.outcome,
            },
            "threshold": self.spec.property.threshold,
            "delta": self.delta,
            "epsilon": self.spec.guarantee.epsilon,
            "property": str(self.spec.property),
            "groups": [
                {
                    "name": group.name,
                    "outcome": group.outcome,
                    "probability": group.probability.estimate,
                    "low": group.probability.low,
                    "high": group.probability.high,
                    "evaluations": group.evaluations,
                }
                for group in self.groups
            ],
            "left_out": [{"name": name, "size": size} for name, size in self.left_out],
            "violators": [{"more": p.more, "less": p.less, "outcome": p.outcome} for p in self.violators],
            "witnesses": [{"groups": w.groups, "labels": w.labels, "input": w.input} for w in self.witnesses],
            "rounds": self.rounds,
            "rows": ledger.rows if isinstance(ledger, RowRecord) else None,
            "evaluations": self.evaluations,
            "seconds": self.seconds,
            "stopped": self.stopped,
            "forecast": self.forecast,
            "seed": ledger.seed.value if isinstance(ledger, RunRecord) else None,
            "seed_origin": ledger.seed.origin if isinstance(ledger, RunRecord) else None,
            "rule": self.rule,
            "sound": self.sound,
            "model_sha256": self.model_sha256,
            "table_sha256": self.table_sha256,
            "population": self.population,
            "statement": self.statement,
            "scope": self.scope,
            "notes": list(self.notes),
        }

    def _repr_html_(self) -> str:
        """A small table for notebooks."""
        rows = "".join(
            f"<tr><td>{html.escape(group.name)}</td><td>{html.escape(group.outcome)}</td>"
            f"<td>{group.probability}</td></tr>"
            for group in self.groups
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        mark = "" if self.sound else " (NOT SOUND)"
        return (
            f"<p><b>{self.conclusion}{mark}</b>: {html.escape(self.headline)}<br>"
            f"{html.escape(self.statement)}<br>{html.escape(self.scope)}</p>"
            f"{notes}<table><tr><th>group</th><th>outcome</th><th>probability</th></tr>{rows}</table>"
        )


@dataclass(frozen=True, kw_only=True)
class Inquiry:
    """What was asked of whom, and how that is said: everything of a verdict that is not the answer.

    `tried` is the number of decisions that were looked at: of the network, or recorded ones, counted or not.
    """

    spec: Spec
    comparison: Comparison
    ledger: RunRecord | RowRecord
    rounds: int
    evaluations: int
    tried: int
    stopped: str
    population: str
    model_sha256: str
    table_sha256: str | None = None
    witnesses: tuple[Witness, ...] = ()
    left_out: tuple[tuple[str, float], ...] = ()
    notes: tuple[str, ...] = ()
    certifiable: bool = True


def kind_of(spec: Spec) -> str:
    """difference, ratio or individual."""
    return str(type(spec.property).__struct_config__.tag)


def assemble(inquiry: Inquiry, answer: Answer, started: float) -> Verdict:
    """The verdict that an answer comes to, with every number it can vouch for."""
    spec, comparison = inquiry.spec, inquiry.comparison
    names = comparison.counted

    def pair(i: int, j: int, outcome: int) -> Pair:
        return Pair(names[i], names[j], outcome_names(spec, comparison)[outcome])

    gap, seen = in_own_unit(spec, answer), inquiry.ledger.labels
    constant = spec.model.labels[seen[0]] if len(seen) == 1 else None
    verdict = Verdict(
        decision=answer.decision,
        gap=gap,
        widest=pair(*answer.widest()),
        groups=_probabilities(answer, gap, spec, comparison),
        violators=tuple(pair(*violator) for violator in answer.violators()),
        witnesses=inquiry.witnesses,
        rounds=inquiry.rounds,
        evaluations=inquiry.evaluations,
        seconds=0.0,
        stopped=inquiry.stopped,
        forecast=answer.forecast() if answer.decision is Decision.UNDECIDED else None,
        sound=answer.sound,
        statement=_statement(inquiry, answer),
        scope=_scope(inquiry),
        population=inquiry.population,
        model_sha256=inquiry.model_sha256,
        table_sha256=inquiry.table_sha256,
        left_out=inquiry.left_out,
        notes=inquiry.notes + (() if constant is None else (_constant_note(inquiry, constant),)),
        certifiable=inquiry.certifiable,
        constant=constant,
        spec=spec,
        ledger=inquiry.ledger,
    )
    # Intervals over many pairs take time too, and it belongs to the answer.
    return replace(verdict, seconds=time.perf_counter() - started)


def _constant_note(inquiry: Inquiry, label: str) -> str:
    population = inquiry.spec.population
    recorded = isinstance(population, Table) and population.prediction is not None
    allowed = inquiry.spec.guarantee.allow_constant
    return constant_note(label, inquiry.tried, allowed=allowed, recorded=recorded)


def limit_of(spec: Spec) -> Fraction:
    """The largest fair gap as the evidence has it: of a ratio, what may be missing to 1. Decimals are exact."""
    threshold = Fraction(repr(spec.property.threshold))
    return 1 - threshold if isinstance(spec.property, Ratio) else threshold


def in_own_unit(spec: Spec, answer: Answer) -> Interval:
    """A gap as the property measures it; of counted rows the ratio is one rate over the other, to the last digit."""
    estimate, low, high = answer.gap()
    if not isinstance(spec.property, Ratio):
        return Interval(estimate, low, high)
    ratio: float = answer.ratio() if hasattr(answer, "ratio") else 1 - estimate
    return Interval(ratio, ratio, ratio) if low == high else Interval(ratio, 1 - high, 1 - low)


def outcome_names(spec: Spec, comparison: Comparison) -> tuple[str, ...]:
    """What each table of the tally counts, in words."""
    if comparison.individual:
        return ("changes" if spec.property.outcome is None else f"{spec.property.outcome} changes",)
    return tuple(spec.model.labels[outcome] for outcome in comparison.outcomes)


def _statement(inquiry: Inquiry, answer: Answer) -> str:
    spec, population = inquiry.spec, inquiry.spec.population
    kind, threshold = kind_of(spec), spec.property.threshold
    decision = answer.decision.name
    if isinstance(population, Table) and population.reading == "population":
        # From the fraction: a sentence must not depend on how floating numbers were rounded on the way.
        gap: Fraction = answer.exact_gap  # type: ignore[attr-defined]  # rows answer for a table
        return exact_statement(
            decision,
            kind=kind,
            measured=float(1 - gap if kind == "ratio" else gap),
            threshold=threshold,
            population=inquiry.population,
            left_out=len(inquiry.left_out),
        )
    return statement(
        decision,
        threshold=threshold,
        delta=spec.guarantee.delta,
        population=inquiry.population,
        sound=answer.sound,
        within=spec.guarantee.epsilon if inquiry.stopped == "epsilon" else None,
        kind=kind,
        inputs=spec.inputs,
        run="sample" if isinstance(population, Table) else "run",
        left_out=len(inquiry.left_out),
    )


def _scope(inquiry: Inquiry) -> str:
    ledger, population = inquiry.ledger, inquiry.spec.population
    if isinstance(ledger, RunRecord):
        return scope(inquiry.model_sha256, ledger.seed.value, ledger.seed.origin)
    assert isinstance(population, Table)
    exact, sha256 = population.reading == "population", inquiry.table_sha256 or ""
    return rows_scope(inquiry.model_sha256, sha256, exact=exact, recorded=population.prediction)


def _probabilities(answer: Answer, gap: Interval, spec: Spec, comparison: Comparison) -> tuple[GroupProbability, ...]:
    """Return every subgroup and outcome that is compared; of two labels the other one follows.

    Of individual discrimination the one rate is the gap itself, so that it has the gap's interval and no other.
    """
    if comparison.individual:
        (outcome,) = outcome_names(spec, comparison)
        return (GroupProbability(comparison.counted[0], outcome, gap, int(answer.trials[0])),)
    low, high = answer.probabilities()
    rates: NDArray[np.float64] = answer.rates()
    names, used = comparison.counted, np.asarray(comparison.compared.any(axis=2))
    found = [
        GroupProbability(
            name,
            outcome,
            Interval(float(rates[row, column]), float(low[row, column]), float(high[row, column])),
            int(answer.trials[column]),
        )
        for row, outcome in enumerate(outcome_names(spec, comparison))
        for column, name in enumerate(names)
        if used[row, column]
    ]
    if len(spec.model.labels) == 2 and spec.property.outcome is None and comparison.outcomes == (1,):
        found = [_complement(each, spec.model.labels[0]) for each in found] + found
    return tuple(found)


def _complement(group: GroupProbability, outcome: str) -> GroupProbability:
    p, asked = group.probability, group.evaluations
    if p.low == p.high:
        # 1 - 1/3 is not the floating number 2/3; a mean over groups is no such fraction.
        got = round(p.estimate * asked)
        exact = (asked - got) / asked if got / asked == p.estimate else 1 - p.estimate
        return GroupProbability(group.name, outcome, Interval(exact, exact, exact), asked)
    return GroupProbability(group.name, outcome, Interval(1 - p.estimate, 1 - p.high, 1 - p.low), asked)
