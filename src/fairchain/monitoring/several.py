"""Monitoring of several properties: one pass over the input, one error probability for all decisions together.

Each of m properties has delta/m, so that with probability 1 - delta no decision is ever wrong (docs/mathematics.md,
"Several questions"). All properties count every block of lines, so that their counts always belong to the same rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError, SpecError
from fairchain.monitoring.lines import LineSource
from fairchain.monitoring.rows import Grouping
from fairchain.monitoring.state import FamilyState, StreamSpec
from fairchain.monitoring.stream import DEFAULT_OPTIONS, EMPTY_STREAM, ENDING_VERDICTS, Report, StreamOptions, Watch
from fairchain.spec import CategoryFeature, Difference, Ratio, Spec, Table, groups_of
from fairchain.statements import family_conclusion, family_statement
from fairchain.verification.family import divided

NEEDS_RECORDED = (
    'monitor: the spec needs population.kind = "table" with `prediction`, the column of the decisions in the input, '
    'and as = "sample", because a stream has no end'
)
ONLY_RATES = (
    'property {question}: a monitor compares the rates of one outcome between groups; write kind = "difference" or '
    '"ratio" with an outcome, and no given, criterion, compare, reference, min_size or shift'
)
ONLY_LABELS = (
    "model.{key}: a monitor reads decisions by the names of labels, not as scores or codes; record names, and remove "
    "the key"
)


@dataclass(frozen=True)
class StreamQuestion:
    """A property of a spec for a stream: its columns, and the group of a row's values.

    `labels` are the possible decisions, and `definition` describes the meaning of the groups.
    """

    spec: StreamSpec
    name: str
    grouping: Grouping
    labels: tuple[str, ...]
    definition: str


def definitions_of(questions: Sequence[StreamQuestion]) -> str:
    """Return a hash of the meaning of the names of groups and labels."""
    meaning = [[each.definition, each.labels] for each in questions]
    return hashlib.sha256(json.dumps(meaning).encode()).hexdigest()


def stream_questions(specs: Sequence[Spec]) -> tuple[StreamQuestion, ...]:
    """Return the questions of a spec file with their shares of delta.

    Raises a SpecError if one of them needs more than recorded decisions, groups and one outcome.
    """
    return tuple(_question(spec) for spec in divided(specs))


def _question(spec: Spec) -> StreamQuestion:
    population, prop = spec.population, spec.property
    if not isinstance(population, Table) or population.prediction is None or population.reading != "sample":
        raise SpecError(NEEDS_RECORDED)
    if (
        not isinstance(prop, Difference | Ratio)
        or (prop.given, prop.criterion, prop.compare) != (None, "demographic_parity", "groups")
        or prop.outcome is None
        or prop.reference is not None
        or prop.min_size is not None
        or prop.shift is not None
    ):
        raise SpecError(ONLY_RATES.format(question=prop))
    if spec.model.codes is not None or spec.model.decision == "score":
        raise SpecError(ONLY_LABELS.format(key="codes" if spec.model.codes is not None else "decision"))
    features = {feature.name: feature for feature in spec.features}
    columns = tuple(features[name].column or name for name in prop.protected)
    groups = groups_of(spec)
    stream_spec = StreamSpec(
        protected=columns,
        prediction=population.prediction,
        outcome=prop.outcome,
        kind="ratio" if isinstance(prop, Ratio) else "difference",
        threshold=prop.threshold,
        delta=spec.guarantee.delta,
        groups=tuple(group.name for group in groups),
    )

    def grouping(values: Sequence[str]) -> str | None:
        found = [_coded(features[name], value) for name, value in zip(prop.protected, values, strict=True)]
        for group in groups:
            if all(domain.holds(each).all() for domain, each in zip(group.domains, found, strict=True)):
                return group.name
        return None

    cells = [(each.aliases or each.values) if isinstance(each, CategoryFeature) else () for each in features.values()]
    return StreamQuestion(stream_spec, str(prop), grouping, spec.model.labels, repr([groups, cells]))


def _coded(feature: Any, cell: str) -> NDArray[np.float64]:
    """Return the number, (1,), by which groups are defined; raise a DataError for a cell that is no value."""
    if isinstance(feature, CategoryFeature):
        names = [str(each) for each in (feature.aliases or feature.values)]
        if cell not in names:
            raise DataError(f'"{cell}" is not a value of feature {feature.name} ({", ".join(names[:8])})')
        return np.array([names.index(cell)], float)
    try:
        return np.array([float(cell)])
    except ValueError:
        raise DataError(f'"{cell}" is not a number, and feature {feature.name} contains numbers') from None


@dataclass(frozen=True)
class FamilyReport:
    """One report about several properties: `event` is change, every, end or before.

    `changed` are the indices of the properties whose verdict has changed.
    """

    event: str
    reports: tuple[Report, ...]
    names: tuple[str, ...]
    changed: tuple[int, ...] = ()

    @property
    def verdict(self) -> str:
        """UNFAIR if one property is, FAIR if all are, otherwise UNDECIDED or CONSTANT."""
        return family_conclusion([each.verdict for each in self.reports], unanswered=0)

    @property
    def unfair(self) -> frozenset[int]:
        """The indices of the properties that are UNFAIR."""
        return frozenset(place for place, each in enumerate(self.reports) if each.verdict == "UNFAIR")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        delta = sum(each.progress.counts.question.delta for each in self.reports)
        return {
            "event": self.event,
            "verdict": self.verdict,
            "delta": float(f"{delta:.12g}"),
            "statement": family_statement(len(self.reports), float(f"{delta:.12g}")),
            "questions": [
                {"property": name, **report.to_dict()} for name, report in zip(self.names, self.reports, strict=True)
            ],
        }


class FamilyWatch:
    """The monitor of several properties of one input; the arguments are those of `Watch`."""

    def __init__(
        self,
        source: LineSource,
        questions: Sequence[StreamQuestion],
        state: FamilyState | None = None,
        options: StreamOptions = DEFAULT_OPTIONS,
    ) -> None:
        self._source, self._names = source, tuple(each.name for each in questions)
        self._keep_unfinished, self._definitions = options.resumable, definitions_of(questions)
        self.watches: list[Watch] = []
        for number, each in enumerate(questions):
            before = None if state is None else state.questions[number]
            passed = self.watches[0].passed if self.watches else None
            self.watches.append(
                Watch(source, each.spec, before, options, grouping=each.grouping, labels=each.labels, passed=passed)
            )

    @property
    def state(self) -> FamilyState:
        """The states of all properties, which belong to the same rows."""
        return FamilyState(questions=tuple(each.state for each in self.watches), definitions=self._definitions)

    @property
    def rows(self) -> int:
        """Rows that at least one property counted."""
        return max(each.rows for each in self.watches)

    @property
    def verdict(self) -> str:
        """The verdict on all properties."""
        return self._report("").verdict

    def _report(self, event: str, changed: tuple[int, ...] = ()) -> FamilyReport:
        reports = tuple(Report(event, each.progress) for each in self.watches)
        return FamilyReport(event, reports, self._names, changed)

    def reports(
        self, *, every: int | None = None, keep_going: bool = False, after_block: Callable[[], None] = lambda: None
    ) -> Iterator[FamilyReport]:
        """Read the input; yield a report after a block of lines in which a verdict changed, and one at the end.

        Without `keep_going` the run ends as soon as one property is UNFAIR, or all are FAIR. With `every` there is also
        a report after each block in which a further multiple of this number of rows is reached.
        """
        if self.verdict in ENDING_VERDICTS and not keep_going:
            yield self._report("before")
            return
        empty = True
        for raw in self._source.blocks(self.watches[0].progress.place.lines + 1, keep_unfinished=self._keep_unfinished):
            empty = False
            before, rows = [each.verdict for each in self.watches], self.rows
            # All properties count a block, or none: counts always belong to the same rows.
            former = [watch.progress for watch in self.watches]
            try:
                for watch in self.watches:
                    watch.feed(raw)
            except BaseException:
                for watch, progress in zip(self.watches, former, strict=True):
                    watch.progress = progress
                raise
            after = [each.verdict for each in self.watches]
            changed = tuple(place for place, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1])
            if changed:
                yield (report := self._report("change", changed))
                if report.verdict in ENDING_VERDICTS and not keep_going:
                    return
            elif every and rows // every != self.rows // every:
                yield self._report("every")
            after_block()
        if empty and not any(each.started for each in self.watches):
            raise DataError(EMPTY_STREAM.format(name=self._source.name))
        yield self._report("end")
