"""Several questions about one model: one stream of inputs, one error probability, a verdict for each and a joint one.

Each of m questions gets delta/m, so that all verdicts are right together with probability 1 - delta
(docs/mathematics.md, "Several questions"). All questions use one seed, so questions about the same groups see the same
inputs while their batches are the same, and labels that one of them has computed are reused. Every verdict equals that
of its question alone with this seed, delta/m and its part of the budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from fairchain.certificate_format import LOOK_CHUNK
from fairchain.errors import CertificateError, SpecError
from fairchain.executors import AnyWorkers, open_workers
from fairchain.models import Limits
from fairchain.populations.uniform import IndependentPopulation
from fairchain.prepare import Case, case_of, gather, read_question, read_rows
from fairchain.records import Record
from fairchain.spec import Spec, Table, load_specs
from fairchain.spec.seeds import Seed, family_seed
from fairchain.statements import family_conclusion, family_statement
from fairchain.verification.progress import Report, reporting
from fairchain.verification.record import VerdictRecord
from fairchain.verification.verdict import Verdict
from fairchain.verification.verifier import refuse_uncertifiable, spec_changes, verify_case, why_uncertifiable

if TYPE_CHECKING:
    from concurrent.futures import Executor

FAMILY_HAS_NO_TRUTH = "a family is FAIR, UNFAIR, UNDECIDED or CONSTANT: compare family.conclusion"
QUESTIONS_DIFFER = "property: the questions of a family share model, features, population and guarantee; these differ"
# Bytes of labels that are kept for other questions.
MOST_KEPT_BYTES = 2**26
LabelArray = NDArray[np.integer]


@dataclass(eq=False)
class SharedLabels:
    """Labels that questions of a family have computed: for rounds by chunk, and for the rows of a table.

    `saved` counts the evaluations that were avoided.
    """

    saved: int = 0
    _rounds: dict[tuple[Any, ...], dict[int, LabelArray]] = field(default_factory=dict)
    _rows: dict[str, LabelArray] = field(default_factory=dict)
    _kept: int = 0
    _lock: Lock = field(default_factory=Lock)

    def rounds(
        self,
        case: Case,
        place: tuple[int, int, int],
        groups: Sequence[int],
        evaluate: Callable[[Sequence[int]], LabelArray],
    ) -> LabelArray:
        """Return (groups, rounds): the labels of a chunk; `evaluate` computes those that are missing.

        `place` is the number of the chunk, the requested rounds, and the rounds to draw.
        """
        chunk, count, _ = place
        spec, subgroups = case.spec, case.comparison.subgroups
        conditional = any(each.group is not None and each.group.condition is not None for each in subgroups)
        # Inputs that are only tested in search of a second label are not counted as evaluations.
        if conditional or chunk >= LOOK_CHUNK:
            return evaluate(groups)
        # What determines, with chunk and group, the inputs that are shown. Drawn candidates may depend on the groups.
        shown = tuple((each.name, None if each.group is None else each.group.domains, each.truth) for each in subgroups)
        independent = isinstance(case.population, IndependentPopulation)
        own = case.comparison.individual and not independent, type(case.population).__name__
        together = () if independent else tuple(groups)
        key = spec.protected, spec.property.given, shown, *own, *place, together
        with self._lock:
            known = self._rounds.setdefault(key, {})
            missing = [group for group in groups if group not in known]
        if missing:
            found = evaluate(missing)
            with self._lock:
                if self._kept + found.nbytes > MOST_KEPT_BYTES:
                    known = known | dict(zip(missing, found, strict=True))
                else:
                    known.update(zip(missing, found, strict=True))
                    self._kept += found.nbytes
        with self._lock:
            self.saved += count * (len(groups) - len(missing))
        return np.stack([known[group] for group in groups])

    def rows(
        self,
        case: Case,
        needed: NDArray[np.int64],
        evaluate: Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], LabelArray]],
    ) -> tuple[NDArray[np.int64], LabelArray]:
        """Return the rows that have a label and their labels, (rows,); `evaluate` computes those that are missing."""
        assert case.rows is not None
        labels = self._rows.setdefault(case.rows.sha256, np.full(len(case.rows.values), -1, np.int64))
        unknown = needed[labels[needed] < 0]
        self.saved += len(needed) - len(unknown)
        if len(unknown):
            seen, found = evaluate(unknown)
            labels[seen] = found
        known = needed[labels[needed] >= 0]
        return known, labels[known]


class FamilyRecord(Record, frozen=True, kw_only=True):
    """The verdicts on several questions in the form of their JSON.

    `delta` is for all of them together. `evaluations` is the number of evaluations made: an input that several
    questions share is evaluated once. `unanswered` are the questions that were not reached because the run was stopped.
    """

    verdict: Literal["FAIR", "UNFAIR", "UNDECIDED", "CONSTANT"]
    delta: float
    evaluations: int
    seconds: float = 0.0
    statement: str
    questions: tuple[VerdictRecord, ...]
    unanswered: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the verdict on each question in a line, and the joint statement."""
        lines = [f"{self.verdict}: {len(self.questions) + len(self.unanswered)} questions"]
        lines += [f"  {each.sentence} ({each.question})" for each in self.questions]
        lines += [f"  not answered: {question}" for question in self.unanswered]
        return "\n".join([*lines, self.statement])


@dataclass(frozen=True, kw_only=True)
class FamilyVerdict:
    """The verdicts on several questions about one model.

    All verdicts are right with probability at least 1 - delta. The `conclusion` is FAIR if every question is answered
    FAIR, and UNFAIR if at least one verdict is UNFAIR. Otherwise, the `conclusion` is UNDECIDED if a verdict is
    UNDECIDED or a question has no verdict, and CONSTANT in all other cases.
    """

    verdicts: tuple[Verdict, ...]
    delta: float
    evaluations: int
    seconds: float
    unanswered: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.record.text()

    def __bool__(self) -> bool:
        raise TypeError(FAMILY_HAS_NO_TRUTH)

    @property
    def conclusion(self) -> str:
        """The verdict on all questions together: FAIR, UNFAIR, UNDECIDED or CONSTANT."""
        return family_conclusion([each.conclusion for each in self.verdicts], unanswered=len(self.unanswered))

    @property
    def fair(self) -> bool:
        """Whether every question is answered FAIR."""
        return self.conclusion == "FAIR"

    @cached_property
    def record(self) -> FamilyRecord:
        """The family as a typed record, which is written as JSON."""
        return FamilyRecord(
            verdict=self.conclusion,  # type: ignore[arg-type]  # one of the four words
            delta=self.delta,
            evaluations=self.evaluations,
            seconds=self.seconds,
            statement=family_statement(len(self.verdicts) + len(self.unanswered), self.delta),
            questions=tuple(each.record for each in self.verdicts),
            unanswered=self.unanswered,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        return self.record.to_dict()


def verify_family(
    model: Any,
    spec: Spec | str | Path | Sequence[Spec],
    *,
    weights: str | Path | None = None,
    data: Any = None,
    population: Callable[..., Any] | None = None,
    seed: int | None = None,
    allow_constant: bool | None = None,
    workers: int | None = None,
    executor: Executor | str | None = None,
    limits: Limits | None = None,
    progress: Report | bool | None = None,
    certify: bool = False,
    **overrides: Any,
) -> FamilyVerdict:
    """Answer several questions about one model, with one error probability for all verdicts together.

    Parameters
    ----------
    model
        As for `verify`.
    spec
        The path of a spec file with one or more [[property]] tables or with `depth`, or a sequence of specs that differ
        only in their property.
    weights, data, population, seed, allow_constant, workers, executor, limits, progress, certify
        As for `verify`.
    overrides
        As for `verify`. The values replace the keys of every question. `delta` applies to all questions together. A
        budget of seconds or rounds applies to each question, and a budget of evaluations is divided among the
        questions.

    Returns
    -------
    FamilyVerdict
        A verdict for each question, in order. After Ctrl-C, `unanswered` lists the questions without a verdict.

    Examples
    --------
    >>> from fairchain.examples import example
    >>> from fairchain.spec import load_spec, revise
    >>> census = load_spec(example("census"))
    >>> family = verify_family(None, [census, revise(census, property__protected=["sex"])])
    >>> family.conclusion, [verdict.delta for verdict in family.verdicts]
    ('FAIR', [5e-07, 5e-07])
    """
    specs = load_specs(spec) if isinstance(spec, str | Path) else (spec,) if isinstance(spec, Spec) else tuple(spec)
    changes = spec_changes(overrides) | {"guarantee__seed": seed, "guarantee__allow_constant": allow_constant}
    questions = divided([read_question(each, **changes) for each in specs])
    if certify:
        for question in questions:
            refuse_uncertifiable(question)
    sources = {"weights": weights, "data": data, "population": population, "limits": limits}
    cases = family_cases(model, questions, network=certify, **sources)
    if certify and not cases[0].certifiable:
        raise CertificateError(why_uncertifiable(cases[0]))
    with reporting(progress) as report, open_workers(workers, executor) as opened:
        return verify_cases(cases, workers=opened, progress=report, certify=certify)


def family_cases(
    model: Any,
    questions: Sequence[Spec],
    *,
    network: bool = False,
    data: Any = None,
    population: Callable[..., Any] | None = None,
    **sources: Any,
) -> list[Case]:
    """Return a case for each question, with one seed for all; the model is loaded and the rows are read once."""
    first = gather(model, questions[0], data=data, population=population, network=network, **sources)
    loaded: Any = first.model
    if getattr(loaded, "costly", False) and loaded.kept.most is not None:
        # The budget was already divided among the questions.
        loaded.kept.most *= len(questions)
    cases = [first]
    for question in questions[1:]:
        began = time.perf_counter()
        kept = getattr(question.population, "keep_missing", False)
        rows = read_rows(question, data) if kept else first.rows
        again = question if kept else msgspec.structs.replace(question, population=first.spec.population)
        case = case_of(again, first.model, rows, function=population)
        cases.append(replace(case, prepared=time.perf_counter() - began))
    return with_one_seed(cases)


def divided(questions: Sequence[Spec]) -> list[Spec]:
    """Return the questions with their shares of delta and of the budget of evaluations.

    Raises a SpecError if they differ in more than their property.
    """
    first, count = questions[0], len(questions)
    for each in questions[1:]:
        if msgspec.structs.replace(each, property=first.property) != first:
            raise SpecError(QUESTIONS_DIFFER)
    budget = first.guarantee.budget.evaluations
    changes: dict[str, Any] = {"guarantee__delta": first.guarantee.delta / count}
    if budget is not None:
        changes["guarantee__budget__evaluations"] = max(1.0, budget // count)
    return [read_question(each, **changes) for each in questions] if count > 1 else list(questions)


def verify_cases(
    cases: Sequence[Case], *, workers: AnyWorkers = None, progress: Report | None = None, certify: bool = False
) -> FamilyVerdict:
    """Answer prepared cases that share model, population, data and seed; their deltas add up to the family's."""
    start = time.perf_counter()
    shared = SharedLabels()
    ready = [replace(case, shared=shared) for case in cases]
    verdicts: list[Verdict] = []
    for case in ready:
        verdicts.append(verify_case(case, workers=workers, progress=progress, certify=certify))
        if verdicts[-1].stopped == "interrupted":
            break
    return FamilyVerdict(
        verdicts=tuple(verdicts),
        # The sum of equal shares as it was stated: 1e-6 and not 9.99e-7.
        delta=float(f"{cases[0].spec.guarantee.delta * len(cases):.12g}"),
        evaluations=sum(verdict.evaluations for verdict in verdicts) - shared.saved,
        seconds=time.perf_counter() - start,
        unanswered=tuple(str(case.spec.property) for case in ready[len(verdicts) :]),
    )


def with_one_seed(cases: Sequence[Case]) -> list[Case]:
    """Return the cases with the seed of the family; a chosen seed is already that of every question."""
    if len(cases) == 1 or cases[0].seed.origin == "chosen" or isinstance(cases[0].spec.population, Table):
        return list(cases)
    seed = Seed(family_seed([case.seed.value for case in cases]), "derived")
    return [replace(case, seed=seed) for case in cases]
