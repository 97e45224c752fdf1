"""Counting engine: every row of a table is evaluated once, and the decisions are counted by subgroup.

The decisions come from the model or, for recorded ones, from a column. Nothing here is random.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

import numpy as np
from numpy.typing import NDArray

from fairchain.certificate_format import RowEvidence
from fairchain.errors import DataError
from fairchain.models import Model
from fairchain.models.onnx.rounding import check_alone
from fairchain.prepare import Case
from fairchain.spec import Comparison, Group, Subgroup, Table
from fairchain.spec.properties import limit_of
from fairchain.statistics import Decision
from fairchain.statistics.rate_counts import RowsAnswer, SubgroupCounts
from fairchain.tables import TableRows
from fairchain.verification.answers import Answer, Progress, Report, answer_from
from fairchain.verification.sampler import labels_in, thread_pool
from fairchain.verification.witnesses import changed_rows

Mask = NDArray[np.bool_]
# Rows that go through the network in one call.
ROWS_PER_CALL = 8192
# Rows of a call that are evaluated alone too, if the rounding of the network may depend on the batch.
ALONE_PER_CALL = 256


@dataclass(frozen=True, eq=False)
class RowCounts:
    """The decision about each row, counted by subgroup.

    `labels` has one row for each subgroup of an individual comparison, else a single one; `rows` are the numbers of the
    rows in `case.rows.values` that were evaluated.
    """

    counts: SubgroupCounts
    labels: NDArray[np.integer]
    rows: NDArray[np.int64]
    evaluations: int


@dataclass(frozen=True)
class CountingEngine:
    """Evaluate every row once: exact for a whole population, with exact bounds for a sample of one."""

    partial: bool = False

    def answer(self, case: Case, *, workers: int, cancel: Event, progress: Report | None) -> Answer:  # noqa: ARG002
        """Answer a case about the rows of a table; it cannot be cancelled, as a part of the rows has no answer."""
        spec, comparison, rows = case.spec, case.comparison, case.rows
        assert rows is not None
        assert isinstance(spec.population, Table)
        start = time.perf_counter()
        exact = spec.population.reading == "population"

        def report(done: int, total: int) -> None:
            if progress is not None:
                progress(Progress(0, done, time.perf_counter() - start, None, total))

        with thread_pool(workers) as pool:
            found = count_rows(case, pool=pool, progress=report)
        inference = RowsAnswer(
            found.counts,
            comparison.compared,
            comparison.measure,
            limit_of(spec),
            0.0 if exact else spec.guarantee.delta,
            comparison.overall,
            disjoint=comparison.disjoint,
            single=comparison.individual,
        )
        record = RowEvidence(
            len(rows.values),
            list(comparison.rows),
            found.counts.trials.tolist(),
            found.counts.successes.tolist(),
            sorted(labels_in(found.labels)),
        )
        return answer_from(
            case,
            inference,
            record,
            engine="counting",
            delta=0.0 if exact else spec.guarantee.delta,
            rounds=0,
            evaluations=found.evaluations,
            tried=found.labels.size,
            stopped="rows" if inference.decision is Decision.UNDECIDED else "decided",
            witnesses=changed_rows(spec, comparison, rows.values[found.rows], found.labels),
            ratio=inference.ratio(),
            exact_gap=inference.exact_gap if exact else None,
        )


def count_rows(
    case: Case,
    decisions: NDArray[np.integer] | None = None,
    *,
    pool: ThreadPoolExecutor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RowCounts:
    """Count the decisions about the rows of each subgroup.

    Parameters
    ----------
    case
        About the rows of a table.
    decisions
        (rows,): the label of each row, where it is known; by default the recorded ones, or those of the model.
    pool, progress
        Threads for the model, and what is called with the rows done and wanted.
    """
    rows, comparison = case.rows, case.comparison
    assert rows is not None
    assert case.concerned is not None
    assert case.members is not None
    if comparison.individual:
        return _count_changes(case, rows, case.concerned, pool, progress)
    columns, weights = _columns(comparison, case.groups, case.members, case.concerned, rows.truth)
    if empty := [name for name, mask in columns if not mask.any()]:
        more = f" (and {len(empty) - 1} more)" if len(empty) > 1 else ""
        given = f' for which property.given "{case.spec.property.given}" holds' if case.spec.property.given else ""
        raise DataError(
            f'{rows.source}: group "{empty[0]}"{more} has 0 of the {len(rows.values):,} rows{given}; remove it from '
            "the groups of its [[feature]], or leave small groups out: min_size = 30 in [property]"
        )
    needed = np.flatnonzero(np.any([mask for _, mask in columns], axis=0))
    known = rows.recorded if decisions is None else decisions
    labels = np.zeros(len(rows.values), np.int64)
    if known is not None:
        labels[:] = known
    else:
        assert case.model is not None
        labels[needed] = _decide(case.model, rows.values[needed], pool, progress, 0, len(needed))
    counted = [np.bincount(labels[mask], minlength=len(case.spec.model.labels)) for _, mask in columns]
    successes = np.array(counted).T[list(comparison.outcomes)]
    trials = np.array([np.count_nonzero(mask) for _, mask in columns])
    counts = SubgroupCounts(trials.astype(np.int64), successes.astype(np.int64), weights)
    return RowCounts(counts, labels[None, needed], needed, 0 if known is not None else len(needed))


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


def _count_changes(
    case: Case,
    table: TableRows,
    concerned: Mask,
    pool: ThreadPoolExecutor | None,
    progress: Callable[[int, int], None] | None,
) -> RowCounts:
    """Evaluate every row as each group, with only the protected features changed."""
    spec, comparison, model = case.spec, case.comparison, case.model
    assert model is not None
    names = [feature.name for feature in spec.features]
    places = [names.index(name) for name in spec.property.protected]
    rows = np.flatnonzero(concerned)
    labels = np.empty((len(comparison.subgroups), len(rows)), np.int64)
    for number, (row, subgroup) in enumerate(zip(labels, comparison.subgroups, strict=True)):
        assert subgroup.group is not None
        shown = table.values[rows]
        for place, domain in zip(places, subgroup.group.domains, strict=True):
            if domain.size != 1:
                raise DataError(
                    f'{table.source}: group "{subgroup.name}" has several values, and a row of a table can '
                    f'be shown with one; give "{names[place]}" groups of single values, for example groups = {{a = 25}}'
                )
            shown[:, place] = domain.low
        row[:] = _decide(model, shown, pool, progress, number * len(rows), labels.size)
    changes = comparison.fold(labels)
    counts = SubgroupCounts(np.full(2, len(rows), np.int64), changes.sum(axis=1, dtype=np.int64)[None])
    return RowCounts(counts, labels, rows, labels.size)


def _decide(
    model: Model,
    values: NDArray[np.floating],
    pool: ThreadPoolExecutor | None,
    progress: Callable[[int, int], None] | None,
    done: int,
    total: int,
) -> NDArray[np.integer]:
    """Return the class of every row, some thousands at a time; `done` of a `total` of evaluations came before."""
    starts = range(0, len(values), ROWS_PER_CALL)

    def decide(start: int) -> NDArray[np.integer]:
        part = values[start : start + ROWS_PER_CALL].astype(getattr(model, "dtype", values.dtype))
        labels = model.predict(part)
        check_alone(model, part, labels, start // ROWS_PER_CALL, ALONE_PER_CALL)
        return labels

    labels = []
    for start, found in zip(starts, (pool.map if pool else map)(decide, starts), strict=True):
        labels.append(found)
        if progress is not None:
            progress(done + min(start + ROWS_PER_CALL, len(values)), total)
    return np.concatenate(labels) if labels else np.empty(0, np.int64)
