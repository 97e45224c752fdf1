"""Rows of a table, each asked once: who belongs to which subgroup, what is decided about them, and the counts.

The decisions come from the network or, for recorded ones, from a column. Nothing here is random.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError
from fairchain.models import Model
from fairchain.spec import Comparison, Group, Spec, Subgroup, Table, comparison_of, groups_of
from fairchain.spec.conditions import predicate_of
from fairchain.statements import rows_phrase
from fairchain.statistics import Decision
from fairchain.statistics.fixed_sample import RowsAnswer
from fairchain.statistics.rate_counts import SubgroupCounts
from fairchain.tables import People
from fairchain.verification.progress import Progress, Report, notes_on
from fairchain.verification.sampler import labels_in, thread_pool
from fairchain.verification.verdict import Inquiry, RowRecord, Verdict, assemble, limit_of
from fairchain.verification.witnesses import changed_rows

Mask = NDArray[np.bool_]
# Rows that go through the network in one call.
ROWS_PER_CALL = 8192


@dataclass(frozen=True, eq=False)
class Poll:
    """Everything that was asked: the comparison, the rows of each subgroup, and the decision about each row.

    `labels` has one row for each subgroup of an individual comparison, else a single one; `rows` are those that were
    asked, as numbers into `people.values`. `left_out` names groups that are too small, with their size.
    """

    comparison: Comparison
    counts: SubgroupCounts
    labels: NDArray[np.integer]
    rows: NDArray[np.int64]
    left_out: tuple[tuple[str, int], ...]
    evaluations: int


def group_masks(spec: Spec, groups: Sequence[Group], values: NDArray[np.floating]) -> Mask:
    """(groups, rows): who belongs to which group."""
    names = [feature.name for feature in spec.features]
    masks = np.ones((len(groups), len(values)), bool)
    for place, protected in enumerate(spec.property.protected):
        column = values[:, names.index(protected)]
        inside = {domain: domain.holds(column) for domain in {group.domains[place] for group in groups}}
        masks &= [inside[group.domains[place]] for group in groups]
    return masks


def poll(
    people: People,
    spec: Spec,
    model: Model | None,
    *,
    pool: ThreadPoolExecutor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Poll:
    """Ask every row that matters and count what each subgroup gets."""
    concerned = _concerned(people, spec)
    groups = groups_of(spec)
    masks = group_masks(spec, groups, people.values) & concerned
    groups, masks, left_out = _large_enough(people, spec, groups, masks)
    comparison = comparison_of(spec, groups)
    if comparison.individual:
        return _poll_changes(people, spec, model, comparison, concerned, left_out, pool, progress)
    columns, weights = _columns(comparison, groups, masks, concerned, people.truth)
    _none_empty(people, spec, columns)
    needed = np.flatnonzero(np.any([mask for _, mask in columns], axis=0))
    labels = np.zeros(len(people.values), np.int64)
    if people.recorded is not None:
        labels[:] = people.recorded
        evaluations = 0
    else:
        assert model is not None
        labels[needed] = _decide(model, people.values[needed], pool, progress, len(needed))
        evaluations = len(needed)
    counted = [np.bincount(labels[mask], minlength=len(spec.model.labels)) for _, mask in columns]
    got = np.array(counted).T[list(comparison.outcomes)]
    asked = np.array([np.count_nonzero(mask) for _, mask in columns])
    counts = SubgroupCounts(asked.astype(np.int64), got.astype(np.int64), weights)
    return Poll(comparison, counts, labels[None, needed], needed, left_out, evaluations)


def _concerned(people: People, spec: Spec) -> Mask:
    """Who the question is about: everybody, or those for whom the predicate holds."""
    predicate = predicate_of(spec)
    if predicate is None:
        return np.ones(len(people.values), bool)
    holds: Mask = predicate.holds(people.values)
    if not holds.any():
        raise DataError(
            f'{people.source}: property.given "{spec.property.given}" is true for none of the {len(holds):,} rows; '
            "widen it"
        )
    return holds


def _large_enough(
    people: People, spec: Spec, groups: tuple[Group, ...], masks: Mask
) -> tuple[tuple[Group, ...], Mask, tuple[tuple[str, int], ...]]:
    """Leave out groups below the least size; with true labels, those that are too small for one of them."""
    sizes = masks.sum(axis=1)
    truths = {subgroup.truth for subgroup in comparison_of(spec, groups).subgroups if subgroup.truth is not None}
    if truths and people.truth is not None:
        sizes = np.min([(masks & (people.truth == truth)).sum(axis=1) for truth in truths], axis=0)
    least = spec.property.min_size
    if least is None:
        return groups, masks, ()
    least = least if least >= 1 else least * len(people.values)
    kept = sizes >= least
    left_out = tuple((group.name, int(size)) for group, size in zip(groups, sizes, strict=True) if size < least)
    if kept.sum() < 2:
        largest = int(sizes.max())
        raise DataError(
            f"{people.source}: property.min_size leaves {int(kept.sum())} of {len(groups)} groups, and two are needed; "
            f"the largest has {largest:,} rows, so lower min_size"
        )
    return tuple(group for group, keep in zip(groups, kept, strict=True) if keep), masks[kept], left_out


def _columns(
    comparison: Comparison,
    groups: tuple[Group, ...],
    masks: Mask,
    concerned: Mask,
    truth: NDArray[np.integer] | None,
) -> tuple[list[tuple[str, Mask]], NDArray[np.float64] | None]:
    """The rows behind each subgroup, and for means over groups the weights of what is counted."""
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


def _none_empty(people: People, spec: Spec, columns: Sequence[tuple[str, Mask]]) -> None:
    empty = [name for name, mask in columns if not mask.any()]
    if empty:
        more = f" (and {len(empty) - 1} more)" if len(empty) > 1 else ""
        given = f' for whom property.given "{spec.property.given}" holds' if spec.property.given else ""
        raise DataError(
            f'{people.source}: group "{empty[0]}"{more} has 0 of the {len(people.values):,} rows{given}; remove it '
            "from the groups of its [[feature]], or leave small groups out: min_size = 30 in [property]"
        )


def _poll_changes(
    people: People,
    spec: Spec,
    model: Model | None,
    comparison: Comparison,
    concerned: Mask,
    left_out: tuple[tuple[str, int], ...],
    pool: ThreadPoolExecutor | None,
    progress: Callable[[int, int], None] | None,
) -> Poll:
    """Show every person as each group, with only the protected features changed."""
    assert model is not None
    names = [feature.name for feature in spec.features]
    places = [names.index(name) for name in spec.property.protected]
    rows = np.flatnonzero(concerned)
    labels = np.empty((len(comparison.subgroups), len(rows)), np.int64)
    total = labels.size
    for number, (row, subgroup) in enumerate(zip(labels, comparison.subgroups, strict=True)):
        assert subgroup.group is not None
        shown = people.values[rows]
        for place, domain in zip(places, subgroup.group.domains, strict=True):
            if domain.size != 1:
                raise DataError(
                    f'{people.source}: group "{subgroup.name}" has several values, and a row of a table can '
                    f'be shown with one; give "{names[place]}" groups of single values, for example groups = {{a = 25}}'
                )
            shown[:, place] = domain.low
        report = None if progress is None else _shifted(progress, number * len(rows), total)
        row[:] = _decide(model, shown, pool, report, len(rows))
    changes = comparison.fold(labels)
    counts = SubgroupCounts(np.full(2, len(rows), np.int64), changes.sum(axis=1, dtype=np.int64)[None])
    return Poll(comparison, counts, labels, rows, left_out, total)


def _shifted(progress: Callable[[int, int], None], done: int, total: int) -> Callable[[int, int], None]:
    return lambda more, _: progress(done + more, total)


def _decide(
    model: Model,
    values: NDArray[np.floating],
    pool: ThreadPoolExecutor | None,
    progress: Callable[[int, int], None] | None,
    total: int,
) -> NDArray[np.integer]:
    """The class of every row, some thousands at a time."""
    starts = range(0, len(values), ROWS_PER_CALL)

    def ask(start: int) -> NDArray[np.integer]:
        return model.predict(values[start : start + ROWS_PER_CALL].astype(getattr(model, "dtype", values.dtype)))

    answers = []
    for start, answer in zip(starts, (pool.map if pool else map)(ask, starts), strict=True):
        answers.append(answer)
        if progress is not None:
            progress(min(start + ROWS_PER_CALL, total), total)
    return np.concatenate(answers) if answers else np.empty(0, np.int64)


def verify_rows(model: Model | None, spec: Spec, people: People, workers: int, progress: Report | None) -> Verdict:
    """Every row asked once: exact for everybody, with exact bounds for a sample."""
    population = spec.population
    assert isinstance(population, Table)
    start = time.perf_counter()
    exact = population.reading == "population"

    def report(done: int, total: int) -> None:
        if progress is not None:
            progress(Progress(0, done, time.perf_counter() - start, None, total))

    with thread_pool(workers) as pool:
        found = poll(people, spec, model, pool=pool, progress=report)
    comparison = found.comparison
    delta = 0.0 if exact else spec.guarantee.delta
    answer = RowsAnswer(
        found.counts,
        comparison.compared,
        comparison.measure,
        limit_of(spec),
        delta,
        comparison.overall,
        disjoint=comparison.disjoint,
        single=comparison.individual,
    )
    inquiry = Inquiry(
        spec=spec,
        comparison=comparison,
        ledger=RowRecord(
            len(people.values),
            comparison.rows,
            tuple(found.counts.asked.tolist()),
            tuple(tuple(row) for row in found.counts.got.tolist()),
            tuple(sorted(labels_in(found.labels))),
        ),
        rounds=0,
        evaluations=found.evaluations,
        tried=found.labels.size,
        stopped="rows" if answer.decision is Decision.UNDECIDED else "decided",
        population=rows_phrase(
            len(people.values), population.path, exact=exact, given=spec.property.given, dropped=people.dropped
        ),
        model_sha256=model.sha256 if model is not None else "",
        table_sha256=people.sha256,
        witnesses=changed_rows(spec, comparison, people.values[found.rows], found.labels),
        left_out=found.left_out,
        notes=notes_on(model, people.dropped),
        certifiable=model is None or model.certifiable,
    )
    return assemble(inquiry, answer, start)
