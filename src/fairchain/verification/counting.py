"""Counting engine: every row of a table, or text of a corpus, is evaluated once, and decisions are counted by subgroup.

The decisions come from the model or, for recorded ones, from a column. Nothing here is random, except the decisions of
a model that draws them: those of a sample are drawn, a whole population is counted with their probabilities. A run that
is stopped, or whose budget of evaluations is spent, has seen the first rows of a random order, and its answer says what
they allow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from fairchain.certificate_format import RowEvidence
from fairchain.errors import DataError, StoppedError
from fairchain.executors import Workers
from fairchain.models import Model
from fairchain.models.adapters.from_function import FunctionModel
from fairchain.models.base import decide
from fairchain.models.onnx.decision import WORDS, words_that_change
from fairchain.models.onnx.rounding import check_alone
from fairchain.populations.streams import decision_words
from fairchain.prepare import Case
from fairchain.spec import Comparison, Group, Subgroup, Table, Texts
from fairchain.spec.properties import factor_of, limit_of
from fairchain.spec.seeds import derive_seed
from fairchain.statistics import Decision, Inference
from fairchain.statistics.masses import EnumeratedRates, PartMasses, WeightRange
from fairchain.statistics.rate_counts import RowsAnswer, SubgroupCounts
from fairchain.statistics.shifted import ShiftedRows
from fairchain.statistics.unseen_rows import UnseenRowsAnswer
from fairchain.tables import TableRows
from fairchain.verification.answers import Answer, answer_from
from fairchain.verification.progress import Progress, Report
from fairchain.verification.record import Witness
from fairchain.verification.sampler import labels_in
from fairchain.verification.sampling import shift_question
from fairchain.verification.witnesses import changed_rows, changed_texts

if TYPE_CHECKING:
    from fairchain.populations.texts import TextRows

Mask = NDArray[np.bool_]
# Rows that go through the network in one call.
ROWS_PER_CALL = 8192
# Rows of a call that are evaluated alone too, if the rounding of the network may depend on the batch.
ALONE_PER_CALL = 256
# Python code is called with as many rows as take about this long, so that progress and Ctrl-C need not wait for more.
SECONDS_PER_CALL = 0.5
MOST_PER_CALL = 32768
NO_LABELS: NDArray[np.integer] = np.empty((1, 0), np.int64)
GROUP_WITHOUT_ROWS = (
    '{source}: group "{empty}"{more} has 0 of the {values_count:,} rows{given}; remove it from the groups of its '
    "[[feature]], or leave small groups out: min_size = 30 in [property]"
)


@dataclass(frozen=True, eq=False)
class RowCounts:
    """The decision about each row that was evaluated, counted by subgroup.

    `labels` has one row for each subgroup of an individual comparison, else a single one; `rows` are the numbers of the
    rows in `case.rows.values` that were evaluated. `totals` are the rows of each column of `counts`, evaluated or not,
    and `unseen` rows that the question is about were not evaluated. `seen` are all labels that were given, or can be.
    Where rows have labels with a probability only, `labels` is empty.
    """

    counts: SubgroupCounts
    totals: NDArray[np.int64]
    labels: NDArray[np.integer]
    rows: NDArray[np.int64]
    evaluations: int
    seen: tuple[int, ...]
    unseen: int = 0


@dataclass(frozen=True)
class CountingEngine:
    """Evaluate every row once: exact for a whole population, with exact bounds for a sample of one."""

    partial: bool = True

    def answer(self, case: Case, *, workers: Workers, cancel: Event, progress: Report | None) -> Answer:
        """Answer a case about the rows of a table; about those that were seen if it is cancelled."""
        comparison, rows = case.comparison, case.rows
        assert rows is not None
        start = time.perf_counter()

        def report(done: int, total: int) -> None:
            if progress is not None:
                progress(Progress(0, done, time.perf_counter() - start, None, total))

        found = count_rows(case, workers=workers, progress=report, cancel=cancel)
        if found.unseen and not len(found.rows):
            raise KeyboardInterrupt
        stopped = "" if not found.unseen else "interrupted" if cancel.is_set() else "evaluations"
        inference = _inference(case, found, stopped)
        record = RowEvidence(
            rows.count,
            list(comparison.rows),
            found.counts.trials.tolist(),
            found.counts.successes.tolist(),
            list(found.seen),
        )
        return answer_from(
            case,
            inference,
            record,
            engine="counting",
            delta=inference.delta,
            rounds=0,
            evaluations=found.evaluations,
            tried=found.evaluations or found.labels.size,
            stopped=stopped or ("rows" if inference.decision is Decision.UNDECIDED else "decided"),
            seen=len(found.rows),
            unseen=found.unseen,
            witnesses=_witnesses(case, found, inference),
            ratio=inference.ratio(),
            exact_gap=inference.exact_gap if _exact(case) and not found.unseen else None,
        )


def _exact(case: Case) -> bool:
    """Return whether the rows are all there are; a corpus is the whole population of its texts."""
    population = case.spec.population
    return isinstance(population, Texts) or (isinstance(population, Table) and population.reading == "population")


def counted_evaluations(case: Case) -> int:
    """Return how many evaluations it takes to count a corpus whole."""
    if _is_swapped(case):
        return len(_texts(case).any_pool) * len(_shown(case))
    assert case.concerned is not None
    assert case.members is not None
    columns, _ = _columns(case.comparison, case.groups, case.members, case.concerned, _texts(case).truth)
    return int(np.count_nonzero(np.any([mask for _, mask in columns], axis=0)))


def _is_swapped(case: Case) -> bool:
    """Return whether every text is shown with the terms of each group."""
    return isinstance(case.spec.population, Texts) and case.spec.population.reading == "swapped"


def _texts(case: Case) -> TextRows:
    return cast("TextRows", case.rows)


def _shown(case: Case) -> list[Group | None]:
    """Return the groups as which every text is shown; None is the text as it is."""
    parts = [part for subgroup in case.comparison.subgroups for part in (subgroup.mixed or (subgroup.group,))]
    return list({None if part is None else part.name: part for part in parts}.values())


def _witnesses(case: Case, found: RowCounts, inference: Inference) -> tuple[Witness, ...]:
    """Return a few rows, or exchanged texts, whose decision changes with the protected features alone."""
    comparison, rows = case.comparison, case.rows
    assert rows is not None
    if not _is_swapped(case):
        # Rows that were evaluated as they are show no change.
        individual = comparison.individual
        return changed_rows(case.spec, comparison, rows.values[found.rows], found.labels) if individual else ()
    if not found.labels.size:
        return ()
    shown = _shown(case)
    pair: Sequence[int] = range(len(shown))
    if not comparison.individual:
        i, j, _ = inference.widest()
        names = [None if group is None else group.name for group in shown]
        groups = [comparison.subgroups[place].group for place in (i, j)]
        pair = [names.index(group.name) for group in groups if group is not None]
        if len(pair) < 2:
            return ()
    return changed_texts(case, [shown[place] for place in pair], found.rows, found.labels[list(pair)])


def _inference(case: Case, found: RowCounts, stopped: str) -> RowsAnswer | EnumeratedRates | ShiftedRows:
    """Return the statistics of the counts; with a shift, about all populations within its factor."""
    spec, question = case.spec, shift_question(case.spec, case.comparison)
    if question is None:
        return _of_the_rows(case, found, stopped)
    if stopped or not _exact(case):
        return ShiftedRows(_of_the_rows(case, found, stopped), question)
    counts, alone = found.counts, [[column] for column in range(len(found.counts.trials))]
    parts = [
        PartMasses(
            tuple(WeightRange(int(got), int(got)) for got in successes),
            tuple(WeightRange(int(trials - got), int(trials - got)) for got in successes),
            0,
        )
        for trials, successes in zip(counts.trials, counts.successes.T, strict=True)
    ]
    common = (case.comparison.compared, case.comparison.measure, limit_of(spec), counts.trials)
    return EnumeratedRates(parts, alone, *common, factor_of(spec) or Fraction(1))


def _of_the_rows(case: Case, found: RowCounts, stopped: str) -> RowsAnswer:
    """Return the statistics of the counts about the population itself.

    A budget is fixed before any decision is seen: then the rows that were seen are a smaller sample, or a random part
    of the population. Whoever interrupts a run may have seen decisions: then bounds must hold at every time, or
    whatever the other decisions are (docs/mathematics.md, "Rows that were not evaluated").
    """
    spec, comparison, exact = case.spec, case.comparison, _exact(case)
    common = (found.counts, comparison.compared, comparison.measure, limit_of(spec))
    delta, single = spec.guarantee.delta, comparison.individual
    if not stopped or (stopped == "evaluations" and not exact):
        delta = 0.0 if exact else delta
        return RowsAnswer(*common, delta, comparison.overall, disjoint=comparison.disjoint, single=single)
    totals = found.totals if exact else None
    delta = 0.0 if exact and stopped == "interrupted" else delta
    return UnseenRowsAnswer(*common, delta, comparison.overall, totals=totals, single=single)


def count_rows(
    case: Case,
    decisions: NDArray[np.integer] | None = None,
    *,
    workers: Workers | None = None,
    progress: Callable[[int, int], None] | None = None,
    cancel: Event | None = None,
) -> RowCounts:
    """Count the decisions about the rows of each subgroup.

    Parameters
    ----------
    case
        About the rows of a table.
    decisions
        (rows,): the label of each row, where it is known; by default the recorded ones, or those of the model.
    workers, progress, cancel
        Who evaluates rows, what is called with the rows done and wanted, and what ends the evaluation early.
    """
    rows, comparison = case.rows, case.comparison
    assert rows is not None
    assert case.concerned is not None
    assert case.members is not None
    evaluation = _Evaluation(case, workers or Workers(), progress, cancel)
    if _is_swapped(case):
        return _count_swapped(case, evaluation)
    if comparison.individual:
        return _count_changes(case, rows, case.concerned, evaluation)
    columns, weights = _columns(comparison, case.groups, case.members, case.concerned, rows.truth)
    if empty := [name for name, mask in columns if not mask.any()]:
        more = f" (and {len(empty) - 1} more)" if len(empty) > 1 else ""
        given = f' for which property.given "{case.spec.property.given}" holds' if case.spec.property.given else ""
        raise DataError(
            GROUP_WITHOUT_ROWS.format(
                source=rows.source, empty=empty[0], more=more, values_count=len(rows.values), given=given
            )
        )
    needed = seen = np.flatnonzero(np.any([mask for _, mask in columns], axis=0))
    known, classes = rows.recorded if decisions is None else decisions, len(case.spec.model.labels)
    totals = np.array([rows.sizes(mask) for _, mask in columns], np.int64)
    if known is None and evaluation.with_probabilities:
        _, ends = evaluation(needed, lambda part: rows.values[part])
        shares = np.zeros((len(rows.values), classes), np.int64)
        shares[needed] = np.diff(ends[0], axis=1, prepend=0)
        successes = np.array([shares[mask].sum(axis=0) for _, mask in columns]).T[list(comparison.outcomes)]
        counts = SubgroupCounts(totals, successes, weights, WORDS)
        return RowCounts(counts, totals, NO_LABELS, needed, len(needed), _possible(shares))
    labels = np.full(len(rows.values), -1, np.int64)
    if known is not None:
        labels[:] = known
    else:

        def evaluate(some: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.integer]]:
            found, each = evaluation(some, lambda part: rows_at(rows.values, part))
            return found, each[0]

        # A budget is spent on a random part of these rows, whatever other questions have seen.
        budget = case.spec.guarantee.budget.evaluations
        alone = case.shared is None or budget is not None or (case.model is not None and case.model.drawn)
        seen, decided = evaluate(needed) if alone else case.shared.rows(case, needed, evaluate)
        labels[seen] = decided
        seen = np.sort(seen)
    evaluated = np.zeros(len(labels), bool)
    evaluated[seen] = True
    masks = [mask if len(seen) == len(needed) else mask & evaluated for _, mask in columns]
    counted = [
        [rows.sizes(mask & (labels == label)) for label in comparison.outcomes]
        if rows.repeats is not None
        else np.bincount(labels[mask], minlength=classes)[list(comparison.outcomes)]
        for mask in masks
    ]
    successes = np.array(counted).T.astype(np.int64)
    trials = np.array([rows.sizes(mask) for mask in masks], np.int64)
    found = _row_counts(SubgroupCounts(trials, successes, weights), totals, needed, seen, labels[None, seen])
    return found if known is None else replace(found, evaluations=0)


def rows_at(values: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the rows at these places; all of them in order are the array itself, by which a model knows its table."""
    whole = len(places) == len(values) and bool((places == np.arange(len(values))).all())
    return values if whole else values[places]


def _possible(shares: NDArray[np.int64]) -> tuple[int, ...]:
    """Return the labels with a probability above 0 for some row, from (rows, classes)."""
    return tuple(np.flatnonzero(shares.any(axis=0)).tolist())


def _columns(
    comparison: Comparison,
    groups: tuple[Group, ...],
    masks: Mask,
    concerned: Mask,
    truth: NDArray[np.integer] | None,
) -> tuple[list[tuple[str, Mask]], NDArray[np.float64] | None]:
    """Return the rows behind each subgroup, and for means over groups the weights of what is counted."""
    of_group = {group.name: mask for group, mask in zip(groups, masks, strict=True)}

    def rows_of(group: Group | None, subgroup: Subgroup) -> Mask:
        mask = concerned if group is None else of_group[group.name]
        if subgroup.truth is None:
            return mask
        assert truth is not None
        with_it: Mask = mask & (truth == subgroup.truth)
        return with_it

    if not any(subgroup.mixed for subgroup in comparison.subgroups):
        return [(subgroup.name, rows_of(subgroup.group, subgroup)) for subgroup in comparison.subgroups], None
    columns: list[tuple[str, Mask]] = []
    spans = []
    for subgroup in comparison.subgroups:
        parts = subgroup.mixed or (None,)
        spans.append(range(len(columns), len(columns) + len(parts)))
        columns += [(subgroup.name if part is None else part.name, rows_of(part, subgroup)) for part in parts]
    weights = np.zeros((len(spans), len(columns)))
    for subgroup_weights, span in zip(weights, spans, strict=True):
        subgroup_weights[list(span)] = 1 / len(span)
    return columns, weights


def _count_changes(case: Case, table: TableRows, concerned: Mask, evaluation: _Evaluation) -> RowCounts:
    """Evaluate every row as each group, with only the protected features changed."""
    spec, comparison = case.spec, case.comparison
    names = [feature.name for feature in spec.features]
    places = [names.index(name) for name in spec.protected]
    for subgroup in comparison.subgroups:
        assert subgroup.group is not None
        for place, domain in zip(places, subgroup.group.domains, strict=True):
            if domain.size != 1:
                raise DataError(
                    f'{table.source}: group "{subgroup.name}" has several values, and a row of a table can '
                    f'be shown with one; give "{names[place]}" groups of single values, for example groups = {{a = 25}}'
                )
    members = [[domain.low for domain in each.group.domains] for each in comparison.subgroups if each.group is not None]

    def as_each_group(rows: NDArray[np.int64]) -> NDArray[np.floating]:
        shown = np.tile(table.values[rows], (len(members), 1))
        shown[:, places] = np.repeat(members, len(rows), axis=0)
        return shown

    needed = np.flatnonzero(concerned)
    rows, answers = evaluation(needed, as_each_group, len(members))
    return _changes(case, evaluation, needed, rows, answers)


def _changes(
    case: Case,
    evaluation: _Evaluation,
    needed: NDArray[np.int64],
    rows: NDArray[np.int64],
    answers: NDArray[np.integer],
) -> RowCounts:
    """Count the rows whose decision is not the same as every group; `answers` is (groups, rows)."""
    comparison, groups = case.comparison, len(answers)
    totals, trials = (np.full(2, len(each), np.int64) for each in (needed, rows))
    if evaluation.with_probabilities:
        outcome = comparison.outcomes[0] if comparison.outcomes else None
        changing = int(words_that_change(answers.astype(np.int64), outcome).sum())
        counts = SubgroupCounts(trials, np.array([[changing, 0]]), unit=WORDS)
        possible = _possible(np.diff(answers, axis=2, prepend=0).reshape(-1, answers.shape[2]))
        return RowCounts(counts, totals, NO_LABELS, rows, groups * len(rows), possible)
    changes = comparison.fold(answers).sum(axis=1, dtype=np.int64)
    return _row_counts(SubgroupCounts(trials, changes[None]), totals, needed, rows, answers)


def _row_counts(
    counts: SubgroupCounts,
    totals: NDArray[np.int64],
    needed: NDArray[np.int64],
    rows: NDArray[np.int64],
    labels: NDArray[np.integer],
) -> RowCounts:
    """Return the counts of rows with these labels, (evaluations of each, rows); `needed` are all that matter."""
    seen = tuple(sorted(labels_in(labels)))
    return RowCounts(counts, totals, labels, rows, labels.size, seen, len(needed) - len(rows))


def _count_swapped(case: Case, evaluation: _Evaluation) -> RowCounts:
    """Evaluate every text that mentions a group as each group, with only its terms exchanged."""
    comparison, texts, shown = case.comparison, _texts(case), _shown(case)

    def as_each_group(rows: NDArray[np.int64]) -> NDArray[Any]:
        return np.concatenate([texts.values[rows] if group is None else texts.shown_as(rows, group) for group in shown])

    needed = texts.any_pool.astype(np.int64)
    rows, answers = evaluation(needed, as_each_group, len(shown))
    if comparison.individual:
        return _changes(case, evaluation, needed, rows, answers)
    # Each subgroup is the texts of its true label, if it has one, as its group.
    names = [None if group is None else group.name for group in shown]
    columns: list[tuple[int, int | None]] = []
    spans = []
    for subgroup in comparison.subgroups:
        parts = subgroup.mixed or (subgroup.group,)
        spans.append(range(len(columns), len(columns) + len(parts)))
        columns += [(names.index(None if part is None else part.name), subgroup.truth) for part in parts]
    weights = None
    if any(subgroup.mixed for subgroup in comparison.subgroups):
        weights = np.zeros((len(spans), len(columns)))
        for subgroup_weights, span in zip(weights, spans, strict=True):
            subgroup_weights[list(span)] = 1 / len(span)

    def of(among: NDArray[np.int64], truth: int | None) -> Mask:
        if truth is None or texts.truth is None:
            return np.ones(len(among), bool)
        return np.asarray(texts.truth[among] == truth)

    totals = np.array([np.count_nonzero(of(needed, truth)) for _, truth in columns], np.int64)
    classes = len(case.spec.model.labels)
    if evaluation.with_probabilities:
        ends: NDArray[np.int64] = answers.astype(np.int64)
        shares = ends - np.concatenate([np.zeros_like(ends[..., :1]), ends[..., :-1]], axis=2)
        counted = [shares[place][of(rows, truth)].sum(axis=0) for place, truth in columns]
        successes = np.array(counted).T[list(comparison.outcomes)]
        possible = _possible(shares.reshape(-1, classes))
        return RowCounts(
            SubgroupCounts(totals, successes, weights, WORDS), totals, NO_LABELS, rows, len(shown) * len(rows), possible
        )
    counted = [np.bincount(answers[place][of(rows, truth)], minlength=classes) for place, truth in columns]
    successes = np.array(counted).T[list(comparison.outcomes)].astype(np.int64)
    trials = np.array([np.count_nonzero(of(rows, truth)) for _, truth in columns], np.int64)
    return _row_counts(SubgroupCounts(trials, successes, weights), totals, needed, rows, answers)


@dataclass(frozen=True, eq=False)
class _Evaluation:
    """The evaluation of rows by the model of a case, some at a time, until all are done, cancelled, or over budget."""

    case: Case
    workers: Workers
    progress: Callable[[int, int], None] | None
    cancel: Event | None

    @property
    def with_probabilities(self) -> bool:
        """Whether rows have labels with probabilities: those of a whole population, if decisions are drawn."""
        return _exact(self.case) and self.case.model is not None and self.case.model.drawn

    def __call__(
        self, rows: NDArray[np.int64], show: Callable[[NDArray[np.int64]], NDArray[np.floating]], times: int = 1
    ) -> tuple[NDArray[np.int64], NDArray[np.integer]]:
        """Return the rows that were evaluated, and their labels, (times, rows).

        For probabilities, return the ends of labels, (times, rows, classes), in place of the labels. `show` makes of
        some rows the values that the model gets: all rows one time, then all of them the next time.
        """
        model = self.case.model
        assert model is not None
        budget = self.case.spec.guarantee.budget.evaluations
        most = len(rows) if budget is None else min(len(rows), int(budget) // times)
        if not most:
            raise DataError(
                f"guarantee.budget.evaluations: {int(budget or 0):,} are not enough for one row, which is evaluated as "
                f"each of {times} groups; allow more"
            )
        if most < len(rows) and self.with_probabilities:
            raise DataError(
                f"guarantee.budget.evaluations: {int(budget or 0):,} are not enough for {len(rows) * times:,} "
                "evaluations, and a population whose decisions are drawn must be counted whole; allow more"
            )
        at_once = isinstance(model, FunctionModel) and model.local and self._size(model, times, most) == len(rows)
        if not at_once or self.workers.remote:
            # A part of the rows is a random part, whatever the order of the table.
            order = np.random.Philox(self.case.seed.value).random_raw(len(rows))
            rows = rows[np.argsort(order, kind="stable")]
        read = RowReader(model, times, self.with_probabilities)
        words = self._words(model)
        found: list[NDArray[np.integer]] = []
        done = 0

        def part(start: int, size: int) -> RowPart:
            chosen = rows[start : min(start + size, most)]
            own = None if words is None else np.tile(words[chosen], times)
            return RowPart(chosen, start // ROWS_PER_CALL, own, show)

        def cancelled(_seconds: float = 0.0) -> bool:
            return self.cancel is not None and self.cancel.is_set()

        while done < most and not cancelled():
            if isinstance(model, FunctionModel):
                size = self._size(model, times, most - done)
                together = 4 if model.thread_safe and not self.workers.remote and not model.costly else 1
                # Where other processes answer, what a call takes here includes their start.
                size = int(self.workers.batch((most - done) * times, 2 * SECONDS_PER_CALL) / times) or size
            else:
                size, together = ROWS_PER_CALL, -(-most // ROWS_PER_CALL)
            parts = [part(start, size) for start in range(done, min(most, done + size * together), size)]
            if isinstance(model, FunctionModel) and together == 1:
                following = rows[done + size : min(most, done + 2 * size)]
                model.expect(partial(show, following) if len(following) else None)
                results = self._asked(model, read, parts)
            else:
                results = self.workers.map(read, parts, sizes=[len(each.rows) for each in parts], halted=cancelled)
            for labels in _until_stopped(results, read, parts):
                found.append(labels)
                done += labels.shape[1]
                if self.progress is not None:
                    self.progress(done * times, len(rows) * times)
        grouped = self.case.rows is not None and self.case.rows.repeats is not None
        if (self.with_probabilities or grouped) and done < most:
            raise KeyboardInterrupt
        if not found:
            return rows[:0], np.empty((times, 0), np.int64)
        place = np.full(int(rows.max()) + 1, -1)
        place[rows[:done]] = np.arange(done)
        seen = np.flatnonzero(place >= 0)
        return seen, np.concatenate(found, axis=1)[:, place[seen]]

    @staticmethod
    def _size(model: FunctionModel, times: int, left: int) -> int:
        """Return how many rows are evaluated in the next call; a local model's has a cost of its own."""
        size = model.rows_per_call(SECONDS_PER_CALL / times, MOST_PER_CALL)
        return left if model.local and left < 2 * size else size

    def _asked(self, model: FunctionModel, read: RowReader, parts: Sequence[RowPart]) -> Iterator[NDArray[np.integer]]:
        """Yield the labels of parts from a function that is called once for each distinct row."""
        with model.spread_over(self.workers):
            for part in parts:
                yield read(part)

    def _words(self, model: Model) -> NDArray[np.uint32] | None:
        """Return the word with which the decision about each row of the table is drawn, if it is."""
        if not model.drawn or self.with_probabilities:
            return None
        assert self.case.rows is not None
        # Never a chosen seed: decisions about the rows of a sample must not be drawn until they suit.
        seed = derive_seed(self.case.spec, model.sha256, self.case.data_sha256)
        return decision_words(seed, 0, len(self.case.rows.values))


def _until_stopped(
    results: Iterator[NDArray[np.integer]], read: RowReader, parts: Sequence[RowPart]
) -> Iterator[NDArray[np.integer]]:
    """Yield results until a slow model is stopped, which sets `cancel` too; then what it has answered of a part."""
    done = 0
    try:
        for labels in results:
            yield labels
            done += 1
    except StoppedError:
        known = read.answered(parts[done])
        if known.shape[1]:
            yield known


@dataclass(frozen=True, eq=False)
class RowPart:
    """Some rows of a table as a unit of work: their numbers, the number of the batch, and the words of drawn decisions.

    `show` makes the values that the model gets, in the worker; another process gets the values.
    """

    rows: NDArray[np.int64]
    batch: int
    words: NDArray[np.uint32] | None
    show: Callable[[NDArray[np.int64]], NDArray[np.floating]]

    def __reduce__(self) -> tuple[Any, ...]:
        return RowPart, (self.rows, self.batch, self.words, _Shown(self.show(self.rows)))


@dataclass(frozen=True, eq=False)
class _Shown:
    """Values that were made elsewhere."""

    values: NDArray[np.floating]

    def __call__(self, _rows: NDArray[np.int64]) -> NDArray[np.floating]:
        return self.values


@dataclass(frozen=True, eq=False)
class RowReader:
    """Evaluates parts of a table: labels, (times, rows), or the ends of labels, (times, rows, classes).

    Some rows are evaluated alone too where rounding may depend on the batch.
    """

    model: Model
    times: int
    with_probabilities: bool

    def answered(self, part: RowPart) -> NDArray[np.integer]:
        """Return what a slow model has decided about the first rows of a part before it was stopped."""
        if not isinstance(self.model, FunctionModel) or self.times > 1 or self.model.drawn:
            return np.empty((self.times, 0), np.int64)
        return self.model.answered(self._values(part))[None]

    def _values(self, part: RowPart) -> NDArray[Any]:
        values = part.show(part.rows)
        return values.astype(getattr(self.model, "dtype", values.dtype), copy=False)

    def __call__(self, part: RowPart) -> NDArray[np.integer]:
        """Return what the model decides about some rows."""
        values = self._values(part)
        if self.with_probabilities:
            ends = self.model.ends(values)
            check_alone(self.model, values, ends, part.batch, ALONE_PER_CALL)
            return ends.reshape(self.times, len(part.rows), -1)
        labels = decide(self.model, values, part.words)
        check_alone(self.model, values, labels, part.batch, ALONE_PER_CALL, part.words)
        return labels.reshape(self.times, -1)
