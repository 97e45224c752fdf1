"""The result of a verification: the answer, every number with its interval, and the evidence."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from msgspec import Struct

from fairchain.certificate_format import EnumerationEvidence, Look, RowEvidence
from fairchain.executors import Workers
from fairchain.messages import needs
from fairchain.number_format import bounded, close_to
from fairchain.prepare import Case
from fairchain.spec import Comparison, Spec, Table, Texts
from fairchain.spec.properties import kind_of, limit_of, outcome_names, shows_same_individual
from fairchain.spec.seeds import Seed
from fairchain.statements import (
    bounds_statement,
    conclusion,
    constant_note,
    enumeration_scope,
    enumeration_statement,
    exact_statement,
    ignored_note,
    open_part,
    rows_scope,
    scope,
    statement,
    unseen_statement,
)
from fairchain.statistics import Decision, Interval
from fairchain.statistics.rules import BatchPlan, Leader, compared_rates
from fairchain.statistics.shift import factor_of_rates, factor_of_rounds
from fairchain.statistics.tally import Tally
from fairchain.verification.record import (
    MOST_PRINTED_GROUPS,
    EvaluatedGroup,
    FreeRegion,
    Gap,
    Pair,
    Shift,
    SmallGroup,
    Tipping,
    VerdictRecord,
    Witness,
)
from fairchain.verification.sampler import Batch

if TYPE_CHECKING:
    from fairchain.verification.answers import Answer
# Two computations of a factor differ by less than this relative error, due to rounding.
FACTOR_ROUNDING = 1e-9
VERDICT_HAS_NO_TRUTH = "a verdict is FAIR, UNFAIR, UNDECIDED or CONSTANT: compare verdict.conclusion"


class GroupProbability(Struct, frozen=True):
    """P(outcome | group) with its interval.

    The verdict, the interval of its gap and the intervals of all groups hold together with probability 1 - delta.
    """

    name: str
    outcome: str
    probability: Interval
    evaluations: int


@dataclass(frozen=True)
class RunRecord:
    """The batches of a run in order: each plan, made from earlier batches, and its counts.

    `look` is set if all counted rounds gave one label. The first `decided` batches led to the decision, and later ones
    only make intervals narrower; None if all did.
    """

    seed: Seed
    coupled: bool
    outcomes: tuple[int, ...]
    entries: tuple[tuple[BatchPlan, Batch], ...] = field(repr=False)
    look: Look | None = None
    decided: int | None = None

    @property
    def labels(self) -> tuple[int, ...]:
        """All labels that the model gave, whether they are counted or not."""
        found = {label for _, batch in self.entries for label in batch.labels}
        return tuple(sorted(found.union(self.look.labels if self.look is not None else ())))

    def tally(self, groups: int, outcomes: int) -> Tally:
        """Return the counts of all batches together."""
        total = Tally.empty(groups, outcomes)
        for plan, batch in self.entries:
            total += Tally.of_batch(batch.rounds, batch.together, plan.groups, groups)
        return total

    @property
    def whole(self) -> bool:
        """Whether the counts of every chunk were kept, so that a certificate can be written."""
        return all(len(batch.parts) == batch.chunks for _, batch in self.entries)


@dataclass(frozen=True)
class BoundsRecord:
    """The record of a run of the bounding engine.

    `rounds` were drawn with `seed`. `boxes` were bounded, one for each combination of protected values; `open_boxes` of
    them are still open, with the probability `open_mass`. `labels` occurred or were proved to occur, and `free` are the
    most probable regions in which all groups provably get the same label.
    """

    seed: Seed
    rounds: int
    boxes: int
    open_boxes: int
    open_mass: float
    labels: tuple[int, ...]
    free: tuple[FreeRegion, ...] = field(default=(), repr=False)


# The evidence for an answer, which certificates contain; bounds have no certificates yet.
Evidence = RunRecord | RowEvidence | EnumerationEvidence | BoundsRecord


Value = TypeVar("Value")


class _Later:
    """A part of a verdict that is computed on first access: many callers read only the decision."""

    def __init__(self, compute: Callable[[], Any]) -> None:
        self.compute = compute


def _later(compute: Callable[[], Value]) -> Value:
    return cast("Value", _Later(compute))


class _Readable:
    """A field of a verdict that may be computed `_Later`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, verdict: Verdict | None, owner: type[Verdict]) -> Any:
        if verdict is None:
            return self
        found = verdict.__dict__[self._name]
        if isinstance(found, _Later):
            found = verdict.__dict__[self._name] = found.compute()
        return found

    def __set__(self, verdict: Verdict, value: Any) -> None:
        verdict.__dict__[self._name] = value


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of `verify`. `bool(verdict)` raises an error, because UNDECIDED is neither true nor false.

    - `gap` is the largest difference, the smallest ratio, or the share of inputs whose decision changes, as the
      property states.
    - `widest` is the pair of groups with this difference or ratio, and `violators` are the pairs that are shown to be
      beyond the threshold.
    - `witnesses` are counterfactual pairs: inputs whose decision changes with the group.
    - `left_out` names the groups below the smallest size, with their number of rows, or their share of the population.
    - `constant` is the decision, if all tested inputs get the same decision. Otherwise it is None.
    - `assumptions` lists what fairchain assumed about model and data because the caller did not state it, and `notes`
      lists further remarks.
    - `workers` describes the processes that an executor used, with versions and processors.
    - `unseen` is the number of rows that were not evaluated because the run was stopped or its budget was spent.
    - `pairs` is the number of compared pairs over all outcomes.
    - `engine` names the method, and `delta` is the largest probability that the verdict is wrong.
    - `exact` is True if the whole population was counted or enumerated. All numbers are then exact.
    - `certifiable` is True if a certificate can be written.
    - `tipping` states how far the population may change before the verdict could change. It is None without a sound
      verdict FAIR or UNFAIR, for a constant model, and for a property with a shift.

    Bounds, witnesses and sentences may be computed when they are first read.
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
    assumptions: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    unseen: int = 0
    certifiable: bool = True
    constant: str | None = None
    pairs: int = 0
    decision_rounds: int = 0
    decision_evaluations: int = 0
    engine: str
    delta: float
    exact: bool
    spec: Spec = field(repr=False)
    evidence: Evidence = field(repr=False)
    tipping: Tipping | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Compute all deferred parts, and copy them instead of their inputs."""
        return {name: getattr(self, name) for name in self.__dict__}

    def __repr__(self) -> str:
        return f"<Verdict {self.record.sentence}>"

    def __str__(self) -> str:
        return self.record.text()

    def __bool__(self) -> bool:
        raise TypeError(VERDICT_HAS_NO_TRUTH)

    @property
    def headline(self) -> str:
        """The measured gap or ratio and the threshold, in one line."""
        return self.record.headline

    @property
    def conclusion(self) -> str:
        """The final verdict: the decision, or CONSTANT instead of FAIR or UNDECIDED if the model is constant and
        constant models are not allowed.

        `decision` is the answer to the question alone; for a constant model it is FAIR or UNDECIDED.
        """
        return conclusion(self.decision.name, self.constant, allowed=self.spec.guarantee.allow_constant)

    @property
    def fair(self) -> bool:
        """Whether the conclusion is FAIR."""
        return self.conclusion == Decision.FAIR.name

    @property
    def shift(self) -> Shift | None:
        """The populations that the verdict covers in addition to the assumed population, or None."""
        prop = self.spec.property
        return None if prop.shift is None else Shift(prop.shift, prop.shift_of)

    @property
    def rule(self) -> str:
        """The name of the rule that led to the verdict."""
        if self.engine == "sampling" or (self.engine == "bounds" and self.delta > 0):
            return self.spec.guarantee.rule
        if self.engine != "counting":
            return "exact" if self.delta == 0 else "stratified"
        interrupted = self.stopped == "interrupted"
        if counts_all(self.spec):
            return "exact" if not self.unseen else "worst case" if interrupted else "random part"
        return "any time" if interrupted else "fixed sample"

    @cached_property
    def record(self) -> VerdictRecord:
        """The verdict as a typed record, which is written as JSON and used by every report."""
        evidence, gap, widest = self.evidence, self.gap, self.widest
        drawn = isinstance(evidence, RunRecord) or (isinstance(evidence, BoundsRecord) and evidence.rounds > 0)
        seed = evidence.seed if isinstance(evidence, RunRecord | BoundsRecord) and drawn else None
        own: dict[str, Any] = {
            "verdict": self.conclusion,
            "decision": self.decision.name,
            "kind": kind_of(self.spec),
            "inputs": self.spec.inputs,
            "gap": Gap(gap.estimate, gap.low, gap.high, widest.more, widest.less, widest.outcome),
            "threshold": self.spec.property.threshold,
            "epsilon": self.spec.guarantee.epsilon if self.engine in ("sampling", "bounds") else None,
            "question": str(self.spec.property),
            "groups": tuple(
                EvaluatedGroup(group.name, group.outcome, p.estimate, p.low, p.high, group.evaluations)
                for group in self.groups
                for p in [group.probability]
            ),
            "left_out": tuple(SmallGroup(name, size) for name, size in self.left_out),
            "free_regions": evidence.free if isinstance(evidence, BoundsRecord) else (),
            "rows": evidence.rows if isinstance(evidence, RowEvidence) else None,
            "seed": seed.value if seed is not None else None,
            "seed_origin": seed.origin if seed is not None else None,
        }
        # All other fields have the same name and value here.
        same = {name: getattr(self, name) for name in VerdictRecord.__struct_fields__ if name not in own}
        return VerdictRecord(**own, **same)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        return self.record.to_dict()

    def to_frame(self) -> Any:
        """Return the groups as a pandas frame: group, outcome, rate, low, high, evaluations."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise ImportError(f"{needs('to_frame', 'pandas')}, or use verdict.groups") from None
        rows = [(g.name, g.outcome, g.estimate, g.low, g.high, g.evaluations) for g in self.record.groups]
        return pandas.DataFrame(rows, columns=["group", "outcome", "rate", "low", "high", "evaluations"])

    def _repr_html_(self) -> str:
        """Return the verdict for notebooks: groups as a table, then everything that `print` shows."""
        from html import escape

        record = self.record
        rows = "".join(
            f"<tr><td>{escape(group.name)}</td><td>{escape(group.outcome)}</td><td>{bounded(group)}</td></tr>"
            for group in record.shown_groups[:MOST_PRINTED_GROUPS]
        )
        further = [record.widest_pair, *(witness.text(record.inputs) for witness in self.witnesses[:1])]
        further += [self.statement, record.tipping_sentence, self.scope]
        told = "".join(f"<p>{escape(text)}</p>" for text in further if text)
        told += "".join(f"<p><b>Note</b>: {escape(note)}</p>" for note in self.notes)
        if self.assumptions:
            listed = "".join(f"<li>{escape(text)}</li>" for text in self.assumptions)
            told += f"<p><b>Assumed</b>:</p><ul>{listed}</ul>"
        return (
            f"<p><b>{record.word}</b>: {escape(record.headline)}</p>"
            f"<table><tr><th>group</th><th>outcome</th><th>rate</th></tr>{rows}</table>{told}"
        )


for _name in ("gap", "widest", "groups", "violators", "witnesses", "statement", "scope", "population", "tipping"):
    setattr(Verdict, _name, _Readable(_name))


def assemble(case: Case, answer: Answer, started: float, workers: Workers | None = None) -> Verdict:
    """Return the verdict of an answer; the work began at the time `started` on `workers`."""
    spec, comparison, seen = case.spec, case.comparison, answer.record.labels

    def pairs(leaders: Iterable[Leader]) -> tuple[Pair, ...]:
        names, outcomes = comparison.counted, outcome_names(spec, comparison)
        return tuple(Pair(names[i], names[j], outcomes[outcome]) for i, j, outcome in leaders)

    def read(compute: Callable[[], Value]) -> Value:
        """Compute a part of the verdict: now, or on first access if it is cheap."""
        return compute() if answer.search is None else _later(compute)

    constant = spec.model.labels[seen[0]] if len(seen) == 1 else None
    rounds, evaluations = answer.rounds, answer.evaluations
    if isinstance(answer.record, RunRecord):
        first = answer.record.entries[: answer.record.decided]
        rounds = sum(batch.rounds for _, batch in first)
        evaluations = sum(batch.rounds * len(comparison.evaluated(plan.groups)) for plan, batch in first)
    return Verdict(
        decision=answer.decision,
        gap=read(lambda: answer.gap),
        widest=read(lambda: pairs([answer.found.widest()])[0]),
        groups=read(lambda: _probabilities(case, answer)),
        violators=read(lambda: pairs(answer.found.violators())),
        witnesses=answer.witnesses if answer.search is None else _later(answer.search),
        rounds=answer.rounds,
        evaluations=answer.evaluations,
        stopped=answer.stopped,
        forecast=answer.forecast,
        sound=answer.found.sound,
        statement=read(lambda: _statement(case, answer)),
        scope=read(lambda: _scope(case, answer.record)),
        population=read(lambda: case.described_population),
        model_sha256=case.model_sha256,
        table_sha256=case.data_sha256,
        left_out=case.left_out,
        assumptions=case.assumptions,
        workers=() if workers is None else workers.described,
        unseen=answer.unseen,
        notes=tuple(
            filter(None, (*case.notes, "" if workers is None else workers.note, *_notes(spec, answer, constant)))
        ),
        certifiable=case.certifiable
        and not answer.unseen
        and not isinstance(answer.record, BoundsRecord)
        and (not isinstance(answer.record, RunRecord) or answer.record.whole),
        constant=constant,
        tipping=_later(lambda: _tipping(spec, comparison, answer)) if constant is None else None,
        pairs=int(np.count_nonzero(comparison.compared)),
        decision_rounds=rounds,
        decision_evaluations=evaluations,
        engine=answer.engine,
        delta=answer.delta,
        exact=answer.exact_gap is not None,
        spec=spec,
        evidence=answer.record,
        # Intervals over many pairs take time that belongs to the answer.
        seconds=time.perf_counter() - started,
    )


def _tipping(spec: Spec, comparison: Comparison, answer: Answer) -> Tipping | None:
    """Return how far the population may change before the verdict could change; None without a sound verdict.

    A verdict about all populations within a factor states this itself.
    """
    if answer.decision is Decision.UNDECIDED or not answer.found.sound or spec.property.shift is not None:
        return None
    fair, limit = answer.decision is Decision.FAIR, float(limit_of(spec))
    about: dict[str, Any] = {"compared": comparison.compared, "measure": comparison.measure}
    about |= {"limit": limit, "fair": fair}
    if comparison.individual:
        low, high = (np.array([[end, 0.0]]) for end in (answer.gap.low, answer.gap.high))
        factor = factor_of_rates(low, high, **about | {"compared": np.array([[[False, True], [False, False]]])})
        return Tipping(factor, factor)
    each_group, alike = factor_of_rates(*answer.bounds, **about), None
    if answer.shared is not None:
        alike = answer.shared.factor(**about)
    elif answer.tally is not None and shows_same_individual(spec):
        alike = factor_of_rounds(answer.tally, delta=spec.guarantee.delta, **about)
    # A change of all groups alike is a special change of each group: without joint counts its factor is at least that
    # one.
    if alike is None or (answer.delta == 0 and each_group * (1 - FACTOR_ROUNDING) < alike < each_group):
        alike = each_group
    return Tipping(each_group, alike)


def _notes(spec: Spec, answer: Answer, constant: str | None) -> Iterator[str]:
    """Yield notes about rows that were not evaluated, features that the network ignores, and a constant decision."""
    if answer.unseen:
        why = "the run was stopped" if answer.stopped == "interrupted" else "the budget of evaluations is spent"
        yield f"{answer.seen:,} of {answer.seen + answer.unseen:,} rows seen, in random order: {why}."
    summed = answer.record.summed if isinstance(answer.record, EnumerationEvidence) else ()
    if summed and (taken := [each.name for each in spec.features if each.model_input and each.name in summed]):
        yield ignored_note(taken)
    if constant is not None:
        recorded = isinstance(spec.population, Table) and spec.population.prediction is not None
        yield constant_note(constant, answer.tried, allowed=spec.guarantee.allow_constant, recorded=recorded)


def _statement(case: Case, answer: Answer) -> str:
    spec, record, decision, whole = case.spec, answer.record, answer.decision.name, counts_all(case.spec)
    common: dict[str, Any] = {"kind": kind_of(spec), "threshold": spec.property.threshold}
    common |= {"population": case.described_population, "left_out": len(case.left_out)}
    if isinstance(record, EnumerationEvidence):
        measured = bounded(answer.gap, least=close_to(answer.gap.estimate, spec.property.threshold))
        done = record.done, int(record.points)
        return enumeration_statement(decision, measured=measured, evaluations=answer.evaluations, done=done, **common)
    if isinstance(record, BoundsRecord) and answer.delta == 0:
        measured = bounded(answer.gap, least=4)
        return bounds_statement(decision, measured=measured, open_mass=record.open_mass, **common)
    if whole and answer.unseen and answer.stopped == "interrupted":
        del common["left_out"]
        low, high = f"{answer.gap.low:.4f}", f"{answer.gap.high:.4f}"
        return unseen_statement(decision, low=low, high=high, seen=answer.seen, unseen=answer.unseen, **common)
    if answer.exact_gap is not None:
        # From the fraction: a sentence must not depend on floating-point rounding.
        exact = float(1 - answer.exact_gap if common["kind"] == "ratio" else answer.exact_gap)
        return exact_statement(decision, measured=exact, inputs=spec.inputs, **common)
    common["population"] = case.populations(decision)
    if answer.unseen:
        common["population"] += f" ({answer.seen:,} of them were evaluated, chosen at random)"
    told = statement(
        decision,
        delta=spec.guarantee.delta,
        sound=answer.found.sound,
        within=spec.guarantee.epsilon if answer.stopped == "epsilon" else None,
        inputs=spec.inputs,
        run="sample" if isinstance(spec.population, Table) and not whole else "run",
        **common,
    )
    return f"{told} {open_part(record.open_mass, sampled=True)}" if isinstance(record, BoundsRecord) else told


def _scope(case: Case, record: Evidence) -> str:
    population = case.spec.population
    if isinstance(record, EnumerationEvidence) or (isinstance(record, BoundsRecord) and not record.rounds):
        return enumeration_scope(case.model_sha256)
    if isinstance(record, RunRecord | BoundsRecord):
        return scope(case.model_sha256, record.seed.value, record.seed.origin)
    assert isinstance(population, Table | Texts)
    recorded = population.prediction if isinstance(population, Table) else None
    sha256, inputs = case.data_sha256 or "", case.spec.inputs
    return rows_scope(case.model_sha256, sha256, exact=counts_all(case.spec), recorded=recorded, inputs=inputs)


def counts_all(spec: Spec) -> bool:
    """Return whether the counted rows are the whole population; a corpus is the whole population of its texts."""
    population = spec.population
    return isinstance(population, Texts) or (isinstance(population, Table) and population.reading == "population")


def _probabilities(case: Case, answer: Answer) -> tuple[GroupProbability, ...]:
    """Return every compared subgroup and outcome; with two labels the rate of the other follows.

    For individual discrimination the single rate is the gap itself, so it has the gap's interval.
    """
    spec, comparison = case.spec, case.comparison
    names, outcomes = comparison.counted, outcome_names(spec, comparison)
    if comparison.individual:
        return (GroupProbability(names[0], outcomes[0], answer.gap, int(answer.found.trials[0])),)
    used = compared_rates(comparison.compared)
    rates, low, high = (side.tolist() for side in (answer.found.rates(), *answer.bounds))
    trials = answer.found.trials.tolist()
    found = [
        GroupProbability(
            name, outcome, Interval(rates[row][column], low[row][column], high[row][column]), trials[column]
        )
        for row, outcome in enumerate(outcomes)
        for column, name in enumerate(names)
        if used[row, column]
    ]
    if len(spec.model.labels) == 2 and spec.property.outcome is None and comparison.outcomes == (1,):
        found = [_complement(each, spec.model.labels[0]) for each in found] + found
    return tuple(found)


def _complement(group: GroupProbability, outcome: str) -> GroupProbability:
    p, trials = group.probability, group.evaluations
    if p.low == p.high and trials:
        # 1 - 1/3 differs from 2/3 in floating point; a mean over groups is not such a fraction.
        successes = round(p.estimate * trials)
        exact = (trials - successes) / trials if successes / trials == p.estimate else 1 - p.estimate
        return GroupProbability(group.name, outcome, Interval(exact, exact, exact), trials)
    return GroupProbability(group.name, outcome, Interval(1 - p.estimate, 1 - p.high, 1 - p.low), trials)
