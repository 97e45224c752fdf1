"""Independent count of the rows of a table, and every number that follows from the counts.

This code is independent of the issuer's: rows are assigned to subgroups one feature at a time, and the bounds come from
the tails of the binomial distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.certificate_format import APART, VERSION
from fairchain.errors import CertificateError
from fairchain.models import Model
from fairchain.models.base import decide
from fairchain.models.onnx.rounding import check_alone
from fairchain.populations.streams import decision_words
from fairchain.populations.text_rows import TextRows
from fairchain.rechecking.arithmetic import Floats, bounds_at, crossing, exact_bounds, least_gap, ratio_of, shifted_gap
from fairchain.rechecking.expected import claims_of
from fairchain.spec import Comparison, Group, Spec, Table, Texts, comparison_of, groups_of
from fairchain.spec.conditions import predicate_of
from fairchain.spec.properties import factor_of, kind_of, limit_of, populations_of, shared_pairs
from fairchain.spec.seeds import derive_seed
from fairchain.statements import exact_statement, rows_phrase, rows_scope, statement
from fairchain.tables import TableRows

PairBounds = dict[tuple[int, int], tuple[float, float]]
PairGaps = dict[tuple[int, int, int], float]
ROWS_PER_EVALUATION = 4096


@dataclass(frozen=True)
class RowCount:
    """The counts: for each column of rows its `trials` and, for each outcome, its `successes`.

    `parts` are the columns of each subgroup, and `labels` all observed labels, counted or not. A success counts as
    `unit`: if labels are drawn, a row of a whole population counts with its probability, in words of 32 bits. `only`
    counts the texts that get an outcome as one group only, for each of the `shared_pairs`.
    """

    comparison: Comparison
    trials: list[int]
    successes: list[list[int]]
    parts: list[list[int]]
    left_out: list[tuple[str, float]]
    evaluations: int
    labels: list[int]
    unit: int = 1
    only: tuple[int, ...] = ()

    def rate(self, outcome: int, subgroup: int) -> Fraction:
        """Return the exact rate of a subgroup, a mean over its columns."""
        rates = [
            Fraction(self.successes[outcome][part], self.trials[part] * self.unit) for part in self.parts[subgroup]
        ]
        return sum(rates, start=Fraction(0)) / len(rates)

    def cells(self, spec: Spec) -> list[list[tuple[float, float]]]:
        """Return for each compared pair the shares of texts with the outcome as one of the groups only, or as both."""
        alone = dict(zip(shared_pairs(spec, self.comparison), self.only, strict=True)) if self.only else {}
        found = []
        for o, i, j in np.argwhere(self.comparison.compared).tolist() if alone else ():
            trials, both = self.trials[i] * self.unit, self.successes[o][i] - alone[o, i, j]
            found.append([(count / trials,) * 2 for count in (alone[o, i, j], alone[o, j, i], both)])
        return found

    def bounds(
        self, level: float, shared_level: float = 0.0, shared: frozenset[tuple[int, int]] = frozenset()
    ) -> PairBounds:
        """Return bounds of every rate, which fail with probability `level`, those of `shared` with `shared_level`."""
        found = {}
        for outcome in range(len(self.successes)):
            for subgroup, parts in enumerate(self.parts):
                mine = shared_level if (outcome, subgroup) in shared else level
                each = [
                    exact_bounds(self.successes[outcome][part], self.trials[part], 2 * mine / len(parts))
                    for part in parts
                ]
                low, high = (sum(ends) / len(parts) for ends in zip(*each, strict=True))
                found[outcome, subgroup] = low, high
        return found


def count_rows(
    rows: TableRows, spec: Spec, model: Model | None, progress: Callable[[int, int], None] | None = None
) -> RowCount:
    """Assign all rows to subgroups, evaluate the network on each, and count."""
    predicate = predicate_of(spec)
    beside = rows.columns if isinstance(rows, TextRows) else rows.values
    concerned = np.ones(len(rows.values), bool) if predicate is None else predicate.holds(beside)
    inside = {
        group.name: concerned & (rows.members(group) if isinstance(rows, TextRows) else _in_group(rows, spec, group))
        for group in groups_of(spec)
    }
    groups, left_out = _large_enough(rows, spec, inside)
    if not concerned.any() or len(groups) < 2:
        raise CertificateError(
            f"{rows.source}: these rows have fewer than two groups of the certificate's spec; give the rows that it "
            "was issued for"
        )
    comparison = comparison_of(spec, groups)
    if comparison.individual or (isinstance(rows, TextRows) and rows.population.reading == "swapped"):
        assert model is not None
        return _count_shown(rows, spec, model, comparison, concerned, left_out, progress)
    columns: list[NDArray[np.bool_]] = []
    parts = []
    for subgroup in comparison.subgroups:
        truth = subgroup.truth
        mask = concerned if truth is None or rows.truth is None else concerned & (rows.truth == truth)
        masks = [inside[group.name] & mask for group in subgroup.mixed]
        masks = masks or [mask if subgroup.group is None else inside[subgroup.group.name] & mask]
        parts.append(list(range(len(columns), len(columns) + len(masks))))
        columns += masks
    if not all(mask.any() for mask in columns):
        raise CertificateError(f"{rows.source}: a group that the certificate is about has no rows")
    needed = np.logical_or.reduce(columns)
    if rows.recorded is not None:
        answers = rows.recorded[needed].astype(np.int64)
    else:
        assert model is not None
        answers = _evaluate(model, rows, spec, rows.values[needed], needed, progress)
    hits = [_words(answers, outcome) for outcome in comparison.outcomes]
    return RowCount(
        comparison,
        [int(mask.sum()) for mask in columns],
        [[int(own[mask[needed]].sum()) for mask in columns] for own in hits],
        parts,
        left_out,
        0 if rows.recorded is not None else len(answers),
        sorted(_given(answers)),
        _unit(answers),
    )


def _in_group(rows: TableRows, spec: Spec, group: Group) -> NDArray[np.bool_]:
    names = [feature.name for feature in spec.features]
    inside = np.ones(len(rows.values), bool)
    for protected, domain in zip(spec.protected, group.domains, strict=True):
        values, place = np.unique(rows.values[:, names.index(protected)], return_inverse=True)
        inside &= np.array([domain.contains(value) for value in values.tolist()])[place]
    return inside if group.condition is None else inside & group.condition.holds(rows.values)


def _large_enough(
    rows: TableRows, spec: Spec, inside: dict[str, NDArray[np.bool_]]
) -> tuple[tuple[Group, ...], list[tuple[str, float]]]:
    groups, least = groups_of(spec), spec.property.min_size
    if least is None:
        return groups, []
    truths = {subgroup.truth for subgroup in comparison_of(spec).subgroups if subgroup.truth is not None}
    wanted = least if least >= 1 else least * len(rows.values)
    sizes = {}
    for group in groups:
        mask = inside[group.name]
        sizes[group.name] = min((int((mask & (rows.truth == t)).sum()) for t in truths), default=int(mask.sum()))
    kept = tuple(group for group in groups if sizes[group.name] >= wanted)
    # A verdict states rows as integers, and texts as the numbers of a distribution.
    written = float if isinstance(rows, TextRows) else int
    return kept, [(name, written(size)) for name, size in sizes.items() if size < wanted]


def _count_shown(
    rows: TableRows,
    spec: Spec,
    model: Model,
    comparison: Comparison,
    concerned: NDArray[np.bool_],
    left_out: list[tuple[str, float]],
    progress: Callable[[int, int], None] | None,
) -> RowCount:
    """Show every row, or every text that mentions a value of each protected feature, as every group, and count."""
    chosen = concerned.copy()
    for mentions in rows.mentions.values() if isinstance(rows, TextRows) else ():
        chosen &= np.logical_or.reduce(list(mentions.values()))
    places = np.flatnonzero(chosen)
    found: dict[str | None, NDArray[np.int64]] = {}

    def answers(group: Group | None) -> NDArray[np.int64]:
        name = None if group is None else group.name
        if name not in found:
            found[name] = _evaluate(model, rows, spec, _shown_as(rows, spec, places, group), chosen, progress)
        return found[name]

    only: list[int] = []
    if comparison.individual:
        each = np.stack([answers(subgroup.group) for subgroup in comparison.subgroups])
        changed = int(changed_words(each, comparison.outcomes).sum())
        trials, successes, parts = [len(places), len(places)], [[changed, 0]], [[0], [1]]
    else:
        among = [
            np.ones(len(places), bool) if truth is None or rows.truth is None else rows.truth[places] == truth
            for truth in (subgroup.truth for subgroup in comparison.subgroups)
        ]
        trials, parts = [], []
        columns: list[list[int]] = []
        for subgroup, mask in zip(comparison.subgroups, among, strict=True):
            shown = subgroup.mixed or (subgroup.group,)
            parts.append(list(range(len(columns), len(columns) + len(shown))))
            columns += [[int(_words(answers(group), o)[mask].sum()) for o in comparison.outcomes] for group in shown]
            trials += [int(mask.sum())] * len(shown)
        successes = [list(counts) for counts in zip(*columns, strict=True)]
        for number, i, j in shared_pairs(spec, comparison):
            first, second = (
                _words(answers(comparison.subgroups[each].group), comparison.outcomes[number])[among[i]]
                for each in (i, j)
            )
            only.append(int(np.maximum(first - second, 0).sum()))
    labels = sorted(set().union(*map(_given, found.values())))
    unit = _unit(next(iter(found.values())))
    evaluations = len(places) * len(found)
    return RowCount(comparison, trials, successes, parts, left_out, evaluations, labels, unit, tuple(only))


def _shown_as(rows: TableRows, spec: Spec, places: NDArray[np.intp], group: Group | None) -> NDArray[Any]:
    """Return these rows with the protected values, or the terms, of a group."""
    if group is None:
        return rows.values[places]
    if isinstance(rows, TextRows):
        return rows.shown_as(places, group)
    if any(domain.size != 1 for domain in group.domains):
        raise CertificateError(f'{rows.source}: no row can be shown as "{group.name}", which has several values')
    names, shown = [feature.name for feature in spec.features], rows.values[places]
    for protected, domain in zip(spec.protected, group.domains, strict=True):
        shown[:, names.index(protected)] = domain.low
    return shown


def _whole(spec: Spec) -> bool:
    population = spec.population
    return isinstance(population, Texts) or (isinstance(population, Table) and population.reading == "population")


def _evaluate(
    model: Model,
    rows: TableRows,
    spec: Spec,
    values: NDArray[Any],
    which: NDArray[np.bool_],
    progress: Callable[[int, int], None] | None,
) -> NDArray[np.int64]:
    """Return the label of each of these rows.

    For a whole population with drawn labels, rows count with the probabilities of their labels; the result is then
    (rows, labels): the ends of the labels' words.
    """
    probable, words = model.drawn and _whole(spec), None
    found = [np.empty((0, len(spec.model.labels)) if probable else 0, np.int64)]
    if model.drawn and not probable:
        words = decision_words(derive_seed(spec, model.sha256, rows.sha256), 0, len(rows.values))[which]
    for start in range(0, len(values), ROWS_PER_EVALUATION):
        part = values[start : start + ROWS_PER_EVALUATION].astype(model.dtype)
        own = None if words is None else words[start : start + ROWS_PER_EVALUATION]
        found.append((model.ends(part) if probable else decide(model, part, own)).astype(np.int64))
        check_alone(model, part, found[-1], start // ROWS_PER_EVALUATION, words=own)
        if progress is not None:
            progress(min(start + ROWS_PER_EVALUATION, len(values)), len(values))
    return np.concatenate(found)


def _unit(answers: NDArray[np.int64]) -> int:
    """Return the number of words of a row: all 2**32 if it counts with the probabilities of its labels."""
    return 2**32 if answers.ndim == 2 else 1


def _words(answers: NDArray[np.int64], label: int) -> NDArray[np.int64]:
    """Return the number of words with which each row gets a label."""
    words: NDArray[Any] = answers == label if answers.ndim == 1 else np.diff(answers, axis=1, prepend=0)[:, label]
    return words.astype(np.int64)


def _given(answers: NDArray[np.int64]) -> set[int]:
    """Return the labels that rows get, or can get."""
    if answers.ndim == 1:
        return set(np.unique(answers).tolist())
    return set(np.flatnonzero(np.diff(answers, axis=1, prepend=0).any(axis=0)).tolist())


def changed_words(seen: NDArray[np.int64], outcomes: Sequence[int]) -> NDArray[Any]:
    """Return for each row the number of words with which it is decided differently in two groups.

    `seen` is (groups, rows) with labels, or (groups, rows, labels) with the ends of their words. Nothing changes
    between two neighbouring ends, so one word of each interval is enough.
    """
    if seen.ndim == 2:
        decided: NDArray[Any] = seen == outcomes[0] if outcomes else seen
        return np.array(decided.max(axis=0) != decided.min(axis=0), np.int64)
    changed = []
    for ends in seen.transpose(1, 0, 2):
        changed.append(0)
        for low, high in pairwise(sorted({0, *ends.ravel().tolist()})):
            labels = {int(np.searchsorted(row, low, side="right")) for row in ends}
            different = len({label == outcomes[0] for label in labels} if outcomes else labels) > 1
            changed[-1] += (high - low) * different
    return np.array(changed, object)


def expected_row_claims(
    count: RowCount,
    spec: Spec,
    rows: TableRows,
    model_sha256: str,
    phrase: str | None = None,
    *,
    version: int = VERSION,
) -> dict[str, Any]:
    """Return all claims that the rows support, with the keys of a certificate of this version.

    `phrase` describes a corpus; tables are described here.
    """
    population, comparison, kind = spec.population, count.comparison, kind_of(spec)
    assert isinstance(population, Table | Texts)
    exact = _whole(spec)
    delta = 0.0 if exact else spec.guarantee.delta
    # The rates' share of delta: an eighth, or all of it if the gap has no other bounds.
    of_rates = delta if version == APART or spec.property.shift is not None else delta / 8
    of_gap = delta - of_rates if of_rates < delta and not comparison.individual else delta
    gaps, limit = _Gaps(count, of_gap, factor_of(spec)), limit_of(spec)
    bounds = _together(count, of_rates) if delta and not comparison.individual else {}
    if of_gap < delta:
        gaps.narrow(bounds)
    decision, gap, pair = gaps.decision(limit), gaps.largest(), gaps.widest()
    if kind == "ratio":
        outcome, more, less = pair
        rates = float(count.rate(outcome, less)), float(count.rate(outcome, more))
        ratio = float(ratio_of(rates[1], rates[0])) if spec.property.shift is None else 1 - gap[0]
        gap = (ratio, 1 - gap[2], 1 - gap[1]) if delta else (ratio, ratio, ratio)
    phrase = phrase or rows_phrase(
        len(rows.values), population.path, exact=exact, given=spec.property.given, dropped=rows.dropped
    )
    recorded = population.prediction if isinstance(population, Table) else None
    words: dict[str, Any] = {
        "threshold": spec.property.threshold,
        "population": populations_of(spec, phrase, None if exact else decision),
        "left_out": len(count.left_out),
    }
    if exact:
        measured = float(1 - gaps.exact_largest() if kind == "ratio" else gaps.exact_largest())
        sentence = exact_statement(decision, kind=kind, measured=measured, inputs=spec.inputs, **words)
    else:
        sentence = statement(decision, delta=delta, sound=True, kind=kind, run="sample", **words)
    numbers = {}
    for outcome, subgroup in np.ndindex(len(count.successes), len(count.parts)):
        rate = float(count.rate(outcome, subgroup))
        numbers[outcome, subgroup] = (rate, *bounds.get((outcome, subgroup), (rate, rate)))
    trials = [sum(count.trials[part] for part in parts) for parts in count.parts]
    network = "" if rows.recorded is not None else model_sha256
    return claims_of(
        spec,
        comparison,
        decision,
        count.labels,
        gap=gap,
        pair=pair,
        rates=numbers,
        trials=trials,
        cells=count.cells(spec),
        violators=gaps.violators(limit),
        left_out=count.left_out,
        engine="counting",
        delta=delta,
        rows=len(rows.values),
        evaluations=count.evaluations,
        stopped="rows" if decision == "UNDECIDED" else "decided",
        rule="exact" if exact else "fixed sample",
        model_sha256=network,
        table_sha256=rows.sha256,
        population=populations_of(spec, phrase),
        statement=sentence,
        scope=rows_scope(network, rows.sha256, exact=exact, recorded=recorded, inputs=spec.inputs),
    )


class _Gaps:
    """Gaps of all compared pairs, with their bounds; all are plain numbers by (outcome, i, j)."""

    def __init__(self, count: RowCount, delta: float, factor: Fraction | None = None) -> None:
        self._factor, self.delta, self._most = factor or Fraction(1), delta, math.inf
        self._pairs = [(int(o), int(i), int(j)) for o, i, j in np.argwhere(count.comparison.compared)]
        self._relative = count.comparison.measure == "ratio"
        self._floor = least_gap(count.comparison.compared, self._relative) or 0.0
        self.exact = {(o, i, j): self._gap(count.rate(o, i), count.rate(o, j)) for o, i, j in self._pairs}
        self.above: PairGaps = {}
        self.below: PairGaps = {}
        if not delta:
            return
        if count.comparison.individual:
            # One share of rows: each side of its exact interval fails at delta/2.
            low, high = exact_bounds(count.successes[0][0], count.trials[0], delta)
            self.above, self.below = {(0, 0, 1): high, (0, 1, 0): -low}, {(0, 0, 1): low, (0, 1, 0): -high}
        elif factor is not None:
            known = _together(count, delta)
            self.above, self.below = self._between(known, 1, 0), self._between(known, 0, 1)
        elif count.comparison.disjoint:
            # From a weighted product of two p-values, one for each group, in 256 steps. Within a step from level a to
            # a' the first rate is evaluated at a, the second at the level that a' leaves: the worst case of the step.
            alone, together = (_Levels(count, alpha) for alpha in (delta / 2, delta / 2 / len(self._pairs)))
            for o, i, j in self._pairs:
                one, other = alone.of(o, i, j), alone.of(o, j, i)
                self.above[o, i, j] = float(self._gaps(one[1][:-1], other[0][-2::-1], 0.0).max())
                one, other = together.of(o, i, j), together.of(o, j, i)
                self.below[o, i, j] = float(self._gaps(one[0][:-1], other[1][-2::-1], -np.inf).min())
        else:
            # The rates of all rows together have separate levels, because they may show which groups are compared.
            shared = _overall_rates(count)
            known = count.bounds(delta / 4, delta / 8 / max(len(shared), 1), shared)
            self.above, self.below = self._between(known, 1, 0), self._between(_together(count, delta / 2), 0, 1)

    def _gaps(self, more: Floats, less: Floats, at_zero: float) -> Floats:
        if not self._relative:
            return more - less
        return np.array([1 - b / a if a > 0 else at_zero for a, b in zip(more, less, strict=True)])

    def _gap(self, more: Any, less: Any) -> Any:
        # Bounds of a sample are floating-point numbers, counted rates are fractions.
        factor = self._factor if isinstance(more, Fraction) else float(self._factor)
        return shifted_gap(more, less, factor, self._relative)

    def _between(self, rates: PairBounds, one: int, other: int) -> PairGaps:
        """Return the gaps between the lower (0) or upper (1) bounds of two rates."""
        return {(o, i, j): float(self._gap(rates[o, i][one], rates[o, j][other])) for o, i, j in self._pairs}

    def largest(self) -> tuple[float, float, float]:
        estimate = max(self._floor, float(max(self.exact.values())))
        if not self.delta:
            return estimate, estimate, estimate
        low = max(self._floor, min(max(self.below.values()), estimate))
        return estimate, low, min(max(estimate, *self.above.values()), self._most)

    def narrow(self, rates: PairBounds) -> None:
        """Intersect with bounds of the rates that hold in the same event."""
        self.below = {pair: max(self.below[pair], low) for pair, low in self._between(rates, 0, 1).items()}
        self._most = max(self._between(rates, 1, 0).values())

    def decision(self, limit: Fraction) -> str:
        if not self.delta:
            return "FAIR" if max(self.exact.values()) <= limit else "UNFAIR"
        _, low, high = self.largest()
        return "FAIR" if high < limit else "UNFAIR" if low > limit else "UNDECIDED"

    def exact_largest(self) -> Fraction:
        return max(Fraction(self._floor), *(Fraction(gap) for gap in self.exact.values()))

    def widest(self) -> tuple[int, int, int]:
        return max(self._pairs, key=lambda pair: self.exact[pair])

    def violators(self, limit: Fraction) -> list[tuple[int, int, int]]:
        gaps = self.below if self.delta else self.exact
        return [pair for pair in self._pairs if gaps[pair] > (limit if not self.delta else float(limit))]


class _Levels:
    """Bounds of rates at the levels a_0 < ... < a_256 = 1 of a combination of p-values with error probability `alpha`.

    The p-value of the smaller of two groups has weight 1, that of the larger 1, 1/2, ... or 1/64. With c such that E +
    weight E' > c has probability alpha for two exponential variables, -ln a_0 is c for the smaller group, and c /
    weight for the larger one. The weight minimises c (1 + (smaller / larger) / weight).
    """

    def __init__(self, count: RowCount, alpha: float) -> None:
        self._count, self._alpha = count, alpha
        self._reach = {weight: self._beyond(weight) for weight in (0.5**n for n in range(7))}
        self._found: dict[tuple[int, int, float], tuple[Floats, Floats]] = {}

    def _beyond(self, weight: float) -> float:
        def log_tail(c: float) -> float:
            if weight == 1:
                return math.log1p(c) - c
            return math.log((math.exp(-c / 2) - weight * math.exp(c / 2 - c / weight)) / (1 - weight)) - c / 2

        return crossing(lambda c: log_tail(c) <= math.log(self._alpha), 1e-9, 100 - 2 * math.log(self._alpha))

    def of(self, outcome: int, group: int, other: int) -> tuple[Floats, Floats]:
        """Return the bounds of a group's rate in the comparison with another group."""
        count = self._count
        column, rows = count.parts[group][0], count.trials[count.parts[group][0]]
        others = count.trials[count.parts[other][0]]
        ratio = min(rows, others) / max(rows, others)
        weight = min(self._reach, key=lambda each: self._reach[each] * (1 + ratio / each))
        # Of two groups of equal size, which have weight 1, either counts as the smaller one.
        first = self._reach[weight] / (weight if rows > others else 1.0)
        if (outcome, group, first) not in self._found:
            levels = np.exp(-first * np.linspace(1.0, 0.0, 257))
            self._found[outcome, group, first] = bounds_at(count.successes[outcome][column], rows, levels)
        return self._found[outcome, group, first]


def _compared_rates(count: RowCount) -> set[tuple[int, int]]:
    """Return (outcome, subgroup) of every rate that is compared with another."""
    pairs = np.argwhere(count.comparison.compared).tolist()
    return {(outcome, subgroup) for outcome, *both in pairs for subgroup in both}


def _overall_rates(count: RowCount) -> frozenset[tuple[int, int]]:
    """Return the compared rates, (outcome, subgroup), that are of all rows, not of a group or a mean of groups."""
    overall = [subgroup.group is None and not subgroup.mixed for subgroup in count.comparison.subgroups]
    return frozenset(each for each in _compared_rates(count) if overall[each[1]])


def _together(count: RowCount, spend: float) -> PairBounds:
    """Return bounds of all compared rates with a joint error probability of at most `spend`.

    Half of it is for the rates of all rows together, if any, and half for the others: the level of each kind does not
    depend on the number of the other kind.
    """
    shared = _overall_rates(count)
    own = len(_compared_rates(count)) - len(shared)
    part = spend / 2 if shared else spend
    return count.bounds(part / 2 / own, part / 2 / max(len(shared), 1), shared)
