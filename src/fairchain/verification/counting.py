"""Counting engine: every row of a table, or text of a corpus, is evaluated once, and decisions are counted by subgroup.

The decisions come from the model or, if recorded, from a column. Nothing here is random, except the decisions of a
randomised model: for a sample of rows they are drawn, for a whole population their probabilities are counted. A run
that is stopped, or that exhausts its budget of evaluations, has seen the first rows of a random order, and its answer
has the bounds that these rows allow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from threading import Event
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from fairchain.certificate_format import RowEvidence
from fairchain.errors import DataError
from fairchain.executors import Workers
from fairchain.models.onnx.decision import DECISION_WORDS, words_that_change
from fairchain.prepare import Case
from fairchain.spec import Comparison, Group, Texts
from fairchain.spec.properties import factor_of, limit_of, shared_pairs
from fairchain.spec.subgroups import unmixed
from fairchain.statistics import Decision, Inference
from fairchain.statistics.masses import EnumeratedRates, rate_within
from fairchain.statistics.rate_counts import RowsAnswer, SubgroupCounts
from fairchain.statistics.shift import SharedRates
from fairchain.statistics.shifted import ShiftedRows
from fairchain.statistics.unseen_rows import UnseenRowsAnswer
from fairchain.verification.answers import Answer
from fairchain.verification.progress import Progress, Report
from fairchain.verification.record import Witness
from fairchain.verification.row_evaluation import RowEvaluation
from fairchain.verification.sampler import labels_in
from fairchain.verification.sampling import shift_question
from fairchain.verification.verdict import counts_all
from fairchain.verification.witnesses import changed_rows, changed_texts

if TYPE_CHECKING:
    from fairchain.populations.text_rows import TextRows

Mask = NDArray[np.bool_]
NO_LABELS: NDArray[np.integer] = np.empty((1, 0), np.int64)
GROUP_WITHOUT_ROWS = (
    '{source}: group "{empty}"{more} has 0 of the {values_count:,} rows{given}; remove it from the groups of its '
    "[[feature]], or leave small groups out: min_size = 30 in [property]"
)


@dataclass(frozen=True, eq=False)
class RowCounts:
    """The decisions about the evaluated rows, counted by subgroup.

    `labels` has one row for each subgroup of an individual comparison, otherwise a single one. `rows` are the indices
    in `case.rows.values` of the evaluated rows. `totals` are the rows of each column of `counts`, evaluated or not, and
    `unseen` is the number of rows in the scope of the question that were not evaluated. `seen` are all labels that
    occurred or can occur. If rows have label probabilities instead of labels, `labels` is empty. `only` counts texts
    that get an outcome as one group and not as another, (pairs,), if every text is shown as each group.
    """

    counts: SubgroupCounts
    totals: NDArray[np.int64]
    labels: NDArray[np.integer]
    rows: NDArray[np.int64]
    evaluations: int
    seen: tuple[int, ...]
    unseen: int = 0
    only: tuple[int, ...] = ()


class CountingEngine:
    """Engine that evaluates every row once: exact for a whole population, with exact bounds for a sample."""

    def answer(self, case: Case, *, workers: Workers, cancel: Event, progress: Report | None) -> Answer:
        """Answer a case about the rows of a table; if cancelled, from the rows seen so far."""
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
            list(found.only),
        )
        return Answer(
            spec=case.spec,
            found=inference,
            record=record,
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
            exact_gap=inference.exact_gap if counts_all(case.spec) and not found.unseen else None,
            shared=_shared(case, found),
        )


def _shared(case: Case, found: RowCounts) -> SharedRates | None:
    """Return the joint rates of texts as two groups, if all were shown as both."""
    if not found.only or found.unseen:
        return None
    counts, (only, both) = found.counts, np.zeros((2, *case.comparison.compared.shape))
    for count, (outcome, i, j) in zip(found.only, shared_pairs(case.spec, case.comparison), strict=True):
        trials = int(counts.trials[i]) * counts.unit
        only[outcome, i, j] = count / trials
        both[outcome, i, j] = (int(counts.successes[outcome, i]) - count) / trials
    return SharedRates((only, only), (both, both))


def counted_evaluations(case: Case) -> int:
    """Return the number of evaluations that counting a whole corpus takes."""
    if _is_swapped(case):
        return len(_texts(case).any_pool) * len(_shown(case))
    return int(np.count_nonzero(np.any([mask for _, mask in _columns(case)], axis=0)))


def _is_swapped(case: Case) -> bool:
    """Return whether every text is shown with the terms of each group."""
    return isinstance(case.spec.population, Texts) and case.spec.population.reading == "swapped"


def _texts(case: Case) -> TextRows:
    return cast("TextRows", case.rows)


def _shown(case: Case) -> list[Group | None]:
    """Return the groups as which every text is shown; None means the unchanged text."""
    groups = [part.group for part in unmixed(case.comparison.subgroups)]
    return list({None if group is None else group.name: group for group in groups}.values())


def _witnesses(case: Case, found: RowCounts, inference: Inference) -> tuple[Witness, ...]:
    """Return a few rows, or texts with exchanged terms, whose decision changes with the protected features alone."""
    comparison, rows = case.comparison, case.rows
    assert rows is not None
    if not _is_swapped(case):
        # Rows that were evaluated unchanged show no change.
        individual = comparison.individual
        return changed_rows(case, rows.values[found.rows], found.labels) if individual else ()
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
    if stopped or not counts_all(spec):
        return ShiftedRows(_of_the_rows(case, found, stopped), question)
    counts, alone = found.counts, [[column] for column in range(len(found.counts.trials))]
    parts = [
        [rate_within((got, got), (trials - got, trials - got), 0) for got in successes]
        for trials, successes in zip(counts.trials.tolist(), counts.successes.T.tolist(), strict=True)
    ]
    common = (case.comparison.compared, case.comparison.measure, limit_of(spec), counts.trials)
    return EnumeratedRates(parts, alone, *common, factor_of(spec) or Fraction(1))


def _of_the_rows(case: Case, found: RowCounts, stopped: str) -> RowsAnswer:
    """Return the statistics of the counts about the population itself.

    A budget is fixed before any decision is seen, so the rows that were seen are a smaller sample, or a random part of
    the population. A run may be interrupted because of the decisions seen so far: then bounds must hold at every time,
    or for any values of the other decisions (docs/mathematics-tables.md, "Rows that were not evaluated").
    """
    spec, comparison, exact = case.spec, case.comparison, counts_all(case.spec)
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

    `decisions` (rows,) are the labels, if known; by default the recorded ones, or those of the model. `progress` is
    called with the numbers of finished and of all rows, and `cancel` ends the evaluation early.
    """
    rows, comparison = case.rows, case.comparison
    assert rows is not None
    evaluation = RowEvaluation(case, workers or Workers(), progress, cancel)
    if _is_swapped(case):
        return _count_swapped(case, evaluation)
    if comparison.individual:
        return _count_changes(case, evaluation)
    columns, weights = _columns(case), _mean_weights(comparison)
    if empty := [name for name, mask in columns if not mask.any()]:
        more = f" (and {len(empty) - 1} more)" if len(empty) > 1 else ""
        given = f' for which property.given "{case.spec.property.given}" holds' if case.spec.property.given else ""
        found_in = {"source": rows.source, "values_count": len(rows.values), "given": given}
        raise DataError(GROUP_WITHOUT_ROWS.format(empty=empty[0], more=more, **found_in))
    needed = seen = np.flatnonzero(np.any([mask for _, mask in columns], axis=0))
    known, classes = rows.recorded if decisions is None else decisions, len(case.spec.model.labels)
    totals = np.array([rows.sizes(mask) for _, mask in columns], np.int64)
    if known is None and evaluation.with_probabilities:
        _, ends = evaluation(needed, lambda part: rows.values[part])
        shares = np.zeros((len(rows.values), classes), np.int64)
        shares[needed] = np.diff(ends[0], axis=1, prepend=0)
        successes = np.array([shares[mask].sum(axis=0) for _, mask in columns]).T[list(comparison.outcomes)]
        counts = SubgroupCounts(totals, successes, weights, DECISION_WORDS)
        return RowCounts(counts, totals, NO_LABELS, needed, len(needed), _possible(shares))
    labels = np.full(len(rows.values), -1, np.int64)
    if known is not None:
        labels[:] = known
    else:

        def evaluate(some: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.integer]]:
            found, each = evaluation(some, lambda part: rows_at(rows.values, part))
            return found, each[0]

        # A budget is spent on a random part of these rows, independently of the rows that other questions have seen.
        budget = case.spec.guarantee.budget.evaluations
        alone = case.shared is None or budget is not None or (case.model is not None and case.model.drawn)
        seen, decided = evaluate(needed) if alone else case.shared.rows(case, needed, evaluate)
        labels[seen] = decided
    masks = [mask for _, mask in columns]
    if len(seen) < len(needed):
        evaluated = np.zeros(len(labels), bool)
        evaluated[seen] = True
        masks = [mask & evaluated for mask in masks]
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
    """Return the rows at these indices; for all in order the array itself, by which a model knows its table."""
    whole = len(places) == len(values) and bool((places == np.arange(len(values))).all())
    return values if whole else values[places]


def _possible(shares: NDArray[np.int64]) -> tuple[int, ...]:
    """Return the labels with a probability above 0 for some row, from (rows, classes)."""
    return tuple(np.flatnonzero(shares.any(axis=0)).tolist())


def _columns(case: Case) -> list[tuple[str, Mask]]:
    """Return the name and the rows of each subgroup, with every mean over groups replaced by its groups."""
    assert case.rows is not None
    assert case.concerned is not None
    assert case.members is not None
    of_group = {group.name: mask for group, mask in zip(case.groups, case.members, strict=True)}
    columns = []
    for part in unmixed(case.comparison.subgroups):
        mask: Mask = case.concerned if part.group is None else of_group[part.group.name]
        columns.append((part.name, mask if part.truth is None else mask & (case.rows.truth == part.truth)))
    return columns


def _mean_weights(comparison: Comparison) -> NDArray[np.float64] | None:
    """Return (subgroups, columns): the weights by which subgroups are means over columns; None without means."""
    counts = [max(len(subgroup.mixed), 1) for subgroup in comparison.subgroups]
    if not any(subgroup.mixed for subgroup in comparison.subgroups):
        return None
    return np.repeat(np.diag(1 / np.array(counts)), counts, axis=1)


def _count_changes(case: Case, evaluation: RowEvaluation) -> RowCounts:
    """Evaluate every row as each group, with only the protected features changed."""
    spec, comparison, table = case.spec, case.comparison, case.rows
    assert table is not None
    assert case.concerned is not None
    names = [feature.name for feature in spec.features]
    places = [names.index(name) for name in spec.protected]
    for subgroup in comparison.subgroups:
        assert subgroup.group is not None
        for place, domain in zip(places, subgroup.group.domains, strict=True):
            if domain.size != 1:
                raise DataError(
                    f'{table.source}: group "{subgroup.name}" has several values, and a row of a table can be shown '
                    f'with only one; give "{names[place]}" groups of single values, for example groups = {{a = 25}}'
                )
    members = [[domain.low for domain in each.group.domains] for each in comparison.subgroups if each.group is not None]

    def as_each_group(rows: NDArray[np.int64]) -> NDArray[np.floating]:
        shown = np.tile(table.values[rows], (len(members), 1))
        shown[:, places] = np.repeat(members, len(rows), axis=0)
        return shown

    needed = np.flatnonzero(case.concerned)
    rows, answers = evaluation(needed, as_each_group, len(members))
    return _changes(case, evaluation, needed, rows, answers)


def _changes(
    case: Case,
    evaluation: RowEvaluation,
    needed: NDArray[np.int64],
    rows: NDArray[np.int64],
    answers: NDArray[np.integer],
) -> RowCounts:
    """Count the rows whose decision differs between groups; `answers` is (groups, rows)."""
    comparison, groups = case.comparison, len(answers)
    totals, trials = (np.full(2, len(each), np.int64) for each in (needed, rows))
    if evaluation.with_probabilities:
        outcome = comparison.outcomes[0] if comparison.outcomes else None
        changing = int(words_that_change(answers.astype(np.int64), outcome).sum())
        counts = SubgroupCounts(trials, np.array([[changing, 0]]), unit=DECISION_WORDS)
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
    """Return the counts of rows with these labels, (evaluations of each, rows); `needed` are the rows in scope."""
    seen = tuple(sorted(labels_in(labels)))
    return RowCounts(counts, totals, labels, rows, labels.size, seen, len(needed) - len(rows))


def _count_swapped(case: Case, evaluation: RowEvaluation) -> RowCounts:
    """Evaluate every text that mentions a group as each group, with only its terms exchanged."""
    comparison, texts, shown = case.comparison, _texts(case), _shown(case)

    def as_each_group(rows: NDArray[np.int64]) -> NDArray[Any]:
        return np.concatenate([texts.values[rows] if group is None else texts.shown_as(rows, group) for group in shown])

    needed = texts.any_pool.astype(np.int64)
    rows, answers = evaluation(needed, as_each_group, len(shown))
    if comparison.individual:
        return _changes(case, evaluation, needed, rows, answers)
    # Each subgroup consists of the texts with its true label, if it has one, shown as its group.
    names = [None if group is None else group.name for group in shown]
    parts = unmixed(comparison.subgroups)
    columns = [(names.index(None if part.group is None else part.group.name), part.truth) for part in parts]
    weights = _mean_weights(comparison)

    def of(among: NDArray[np.int64], truth: int | None) -> Mask:
        if truth is None or texts.truth is None:
            return np.ones(len(among), bool)
        return np.asarray(texts.truth[among] == truth)

    def apart(alone: Callable[[int, int, int], NDArray[Any]]) -> tuple[int, ...]:
        """Return the counts of texts that get an outcome as one group only; `alone` gives those of each text."""
        found = []
        for number, i, j in shared_pairs(case.spec, comparison):
            (one, truth), (other, _) = columns[i], columns[j]
            found.append(int(alone(one, other, comparison.outcomes[number])[of(rows, truth)].sum()))
        return tuple(found)

    totals = np.array([np.count_nonzero(of(needed, truth)) for _, truth in columns], np.int64)
    classes = len(case.spec.model.labels)
    if evaluation.with_probabilities:
        ends: NDArray[np.int64] = answers.astype(np.int64)
        shares = ends - np.concatenate([np.zeros_like(ends[..., :1]), ends[..., :-1]], axis=2)
        counted = [shares[place][of(rows, truth)].sum(axis=0) for place, truth in columns]
        successes = np.array(counted).T[list(comparison.outcomes)]
        counts = SubgroupCounts(totals, successes, weights, DECISION_WORDS)
        possible = _possible(shares.reshape(-1, classes))
        only = apart(lambda i, j, outcome: np.maximum(shares[i, :, outcome] - shares[j, :, outcome], 0))
        return RowCounts(counts, totals, NO_LABELS, rows, len(shown) * len(rows), possible, only=only)
    counted = [np.bincount(answers[place][of(rows, truth)], minlength=classes) for place, truth in columns]
    successes = np.array(counted).T[list(comparison.outcomes)].astype(np.int64)
    trials = np.array([np.count_nonzero(of(rows, truth)) for _, truth in columns], np.int64)
    only = apart(lambda i, j, outcome: (answers[i] == outcome) & (answers[j] != outcome))
    return replace(_row_counts(SubgroupCounts(trials, successes, weights), totals, needed, rows, answers), only=only)
