"""The result of a verification: the answer, every number with its interval, and the ledger it rests on."""

from __future__ import annotations

import html
import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.evidence import Decision, Interval, Rule
from fairchain.evidence.rule import Plan
from fairchain.evidence.sampling import Batch
from fairchain.spec import Group, Spec, groups_of
from fairchain.wording import scope, statement


@dataclass(frozen=True)
class GroupProbability:
    """P(outcome | group) with its interval; all intervals of a verdict hold together with probability 1 - delta."""

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
class Ledger:
    """Everything that was sampled, in order: what was planned from the past, and what came of it."""

    seed: int
    coupled: bool
    outcomes: tuple[int, ...]
    entries: tuple[tuple[Plan, Batch], ...] = field(repr=False)


@dataclass(frozen=True)
class Verdict:
    """What `verify` says. `bool(verdict)` is refused: UNDECIDED is neither."""

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
    population: str
    model_sha256: str
    spec: Spec = field(repr=False)
    ledger: Ledger = field(repr=False)

    def __str__(self) -> str:
        mark = "" if self.sound else " (NOT SOUND)"
        return f"{self.decision.name}{mark}: largest gap {self.gap:.4f}, threshold {self.spec.property.threshold:g}"

    def __bool__(self) -> bool:
        raise TypeError("a verdict is FAIR, UNFAIR or UNDECIDED: compare verdict.decision")

    @property
    def fair(self) -> bool:
        """Whether the answer is FAIR (UNDECIDED is not)."""
        return self.decision is Decision.FAIR

    @property
    def scope(self) -> str:
        """What the statement is about, and what it is not about."""
        return scope(self.model_sha256, self.ledger.seed)

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain JSON values."""
        guarantee = self.spec.guarantee
        return {
            "verdict": self.decision.name,
            "gap": {
                "estimate": self.gap.estimate,
                "low": self.gap.low,
                "high": self.gap.high,
                "more": self.widest.more,
                "less": self.widest.less,
                "outcome": self.widest.outcome,
            },
            "threshold": self.spec.property.threshold,
            "delta": guarantee.delta,
            "epsilon": guarantee.epsilon,
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
            "violators": [{"more": p.more, "less": p.less, "outcome": p.outcome} for p in self.violators],
            "witnesses": [{"groups": w.groups, "labels": w.labels, "input": w.input} for w in self.witnesses],
            "rounds": self.rounds,
            "evaluations": self.evaluations,
            "seconds": self.seconds,
            "stopped": self.stopped,
            "forecast": self.forecast,
            "seed": self.ledger.seed,
            "rule": guarantee.rule,
            "sound": self.sound,
            "model_sha256": self.model_sha256,
            "population": self.population,
            "statement": self.statement,
            "scope": self.scope,
        }

    def _repr_html_(self) -> str:
        """A small table for notebooks."""
        rows = "".join(
            f"<tr><td>{html.escape(group.name)}</td><td>{html.escape(group.outcome)}</td>"
            f"<td>{group.probability}</td></tr>"
            for group in self.groups
        )
        return (
            f"<p><b>{self.decision.name}</b>: largest gap {self.gap}, threshold "
            f"{self.spec.property.threshold:g}<br>{html.escape(self.statement)}<br>{html.escape(self.scope)}</p>"
            f"<table><tr><th>group</th><th>outcome</th><th>probability</th></tr>{rows}</table>"
        )


def assemble(
    spec: Spec,
    rule: Rule,
    ledger: Ledger,
    *,
    stopped: str,
    started: float,
    population: str,
    model_sha256: str,
    witnesses: tuple[Witness, ...],
) -> Verdict:
    """The verdict that a rule has come to, with every number it can vouch for."""
    groups, labels = groups_of(spec), spec.model.labels

    def pair(i: int, j: int, outcome: int) -> Pair:
        return Pair(groups[i].name, groups[j].name, labels[ledger.outcomes[outcome]])

    verdict = Verdict(
        decision=rule.decision,
        gap=Interval(*rule.gap()),
        widest=pair(*rule.tally.widest),
        groups=_probabilities(rule, groups, spec, ledger.outcomes),
        violators=tuple(pair(*violator) for violator in rule.violators()),
        witnesses=witnesses,
        rounds=sum(batch.rounds for _, batch in ledger.entries),
        evaluations=sum(batch.rounds * len(plan.groups) for plan, batch in ledger.entries),
        seconds=0.0,
        stopped=stopped,
        forecast=rule.forecast() if rule.decision is Decision.UNDECIDED else None,
        sound=rule.sound,
        statement=statement(
            rule.decision.name,
            threshold=spec.property.threshold,
            delta=spec.guarantee.delta,
            population=population,
            sound=rule.sound,
            within=spec.guarantee.epsilon if stopped == "decided" else None,
        ),
        population=population,
        model_sha256=model_sha256,
        spec=spec,
        ledger=ledger,
    )
    # Intervals over many pairs take time too, and it belongs to the answer.
    return replace(verdict, seconds=time.perf_counter() - started)


def _probabilities(
    rule: Rule, groups: tuple[Group, ...], spec: Spec, outcomes: tuple[int, ...]
) -> tuple[GroupProbability, ...]:
    """Every group and outcome; of two labels the other one follows."""
    labels = spec.model.labels
    low, high = rule.probabilities()
    rates: NDArray[np.float64] = rule.rates()
    found = [
        GroupProbability(
            group.name,
            labels[outcome],
            Interval(float(rates[row, column]), float(low[row, column]), float(high[row, column])),
            int(rule.tally.trials[column]),
        )
        for row, outcome in enumerate(outcomes)
        for column, group in enumerate(groups)
    ]
    if len(labels) == 2 and spec.property.outcome is None:
        found = [_complement(each, labels[0]) for each in found] + found
    return tuple(found)


def _complement(group: GroupProbability, outcome: str) -> GroupProbability:
    p = group.probability
    return GroupProbability(group.name, outcome, Interval(1 - p.estimate, 1 - p.high, 1 - p.low), group.evaluations)
