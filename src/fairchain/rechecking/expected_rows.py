"""Rows of a table counted a second time, and every number that follows from the counts.

Written apart from what made the certificate: people are sorted into subgroups one feature at a time, and the bounds
come
from the tails of the binomial distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import CertificateError
from fairchain.models import Model
from fairchain.models.onnx.rounding import check_alone
from fairchain.rechecking.arithmetic import Array, bounds_at, crossing, exact_bounds
from fairchain.rechecking.labels import concluded
from fairchain.spec import Comparison, Group, Spec, Table, comparison_of, groups_of
from fairchain.spec.conditions import predicate_of
from fairchain.spec.properties import kind_of, limit_of, outcome_names
from fairchain.statements import exact_statement, rows_phrase, rows_scope, statement
from fairchain.tables import TableRows

Bounds = dict[tuple[int, int], tuple[float, float]]
ROWS = 4096


@dataclass(frozen=True)
class RowCount:
    """The counts: for each column of people `asked` and, for each outcome, `got`; `parts` are the columns of an
    subgroup.

    `labels` are all labels that were seen, whether they are counted or not.
    """

    comparison: Comparison
    trials: list[int]
    successes: list[list[int]]
    parts: list[list[int]]
    left_out: list[tuple[str, int]]
    evaluations: int
    labels: list[int]

    def rate(self, outcome: int, subgroup: int) -> Fraction:
        """The exact rate of a subgroup, a mean over its columns."""
        rates = [Fraction(self.successes[outcome][part], self.trials[part]) for part in self.parts[subgroup]]
        return sum(rates, start=Fraction(0)) / len(rates)

    def bounds(
        self, level: float, shared_level: float = 0.0, shared: frozenset[tuple[int, int]] = frozenset()
    ) -> Bounds:
        """Bounds of every subgroup's rate; each fails with at most `level`, those of `shared` with `shared_level`."""
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
    people: TableRows, spec: Spec, model: Model | None, progress: Callable[[int, int], None] | None = None
) -> RowCount:
    """Sort everybody into subgroups, ask the network about each, and count."""
    predicate = predicate_of(spec)
    concerned = np.ones(len(people.values), bool) if predicate is None else predicate.holds(people.values)
    inside = {group.name: concerned & _in_group(people, spec, group) for group in groups_of(spec)}
    groups, left_out = _kept(people, spec, inside)
    if not concerned.any() or len(groups) < 2:
        raise CertificateError(f"{people.source}: these rows cannot answer the question inside the certificate")
    comparison = comparison_of(spec, groups)
    if comparison.individual:
        assert model is not None
        return _count_changes(people, spec, model, comparison, concerned, left_out, progress)
    columns: list[NDArray[np.bool_]] = []
    parts = []
    for subgroup in comparison.subgroups:
        of_truth = (
            concerned
            if subgroup.truth is None or people.truth is None
            else concerned & (people.truth == subgroup.truth)
        )
        masks = [inside[group.name] & of_truth for group in subgroup.mixed]
        masks = masks or [of_truth if subgroup.group is None else inside[subgroup.group.name] & of_truth]
        parts.append(list(range(len(columns), len(columns) + len(masks))))
        columns += masks
    if not all(mask.any() for mask in columns):
        raise CertificateError(f"{people.source}: a group that the certificate speaks of has no rows")
    needed = np.logical_or.reduce(columns)
    if people.recorded is not None:
        labels = people.recorded.astype(np.int64)
    else:
        assert model is not None
        labels = np.full(len(people.values), -1, np.int64)
        labels[needed] = _ask(model, people.values[needed], progress)
    return RowCount(
        comparison,
        [int(mask.sum()) for mask in columns],
        [[int((labels[mask] == outcome).sum()) for mask in columns] for outcome in comparison.outcomes],
        parts,
        left_out,
        0 if people.recorded is not None else int(needed.sum()),
        np.unique(labels[needed]).tolist(),
    )


def _in_group(people: TableRows, spec: Spec, group: Group) -> NDArray[np.bool_]:
    names = [feature.name for feature in spec.features]
    inside = np.ones(len(people.values), bool)
    for protected, domain in zip(spec.property.protected, group.domains, strict=True):
        values, place = np.unique(people.values[:, names.index(protected)], return_inverse=True)
        inside &= np.array([domain.contains(value) for value in values.tolist()])[place]
    return inside


def _kept(
    people: TableRows, spec: Spec, inside: dict[str, NDArray[np.bool_]]
) -> tuple[tuple[Group, ...], list[tuple[str, int]]]:
    groups, least = groups_of(spec), spec.property.min_size
    if least is None:
        return groups, []
    truths = {subgroup.truth for subgroup in comparison_of(spec).subgroups if subgroup.truth is not None}
    wanted = least if least >= 1 else least * len(people.values)
    sizes = {}
    for group in groups:
        mask = inside[group.name]
        sizes[group.name] = min((int((mask & (people.truth == t)).sum()) for t in truths), default=int(mask.sum()))
    kept = tuple(group for group in groups if sizes[group.name] >= wanted)
    return kept, [(name, size) for name, size in sizes.items() if size < wanted]


def _count_changes(
    people: TableRows,
    spec: Spec,
    model: Model,
    comparison: Comparison,
    concerned: NDArray[np.bool_],
    left_out: list[tuple[str, int]],
    progress: Callable[[int, int], None] | None,
) -> RowCount:
    names = [feature.name for feature in spec.features]
    everybody = people.values[concerned]
    seen = []
    given: set[int] = set()
    for subgroup in comparison.subgroups:
        shown = everybody.copy()
        if subgroup.group is None or any(domain.size != 1 for domain in subgroup.group.domains):
            raise CertificateError(
                f'{people.source}: nobody can be shown as "{subgroup.name}", which has several values'
            )
        for protected, domain in zip(spec.property.protected, subgroup.group.domains, strict=True):
            shown[:, names.index(protected)] = domain.low
        labels = _ask(model, shown, progress)
        given |= set(labels.tolist())
        seen.append(labels == comparison.outcomes[0] if comparison.outcomes else labels)
    changed = int((np.max(seen, axis=0) != np.min(seen, axis=0)).sum())
    people_count = len(everybody)
    return RowCount(
        comparison,
        [people_count, people_count],
        [[changed, 0]],
        [[0], [1]],
        left_out,
        people_count * len(comparison.subgroups),
        sorted(given),
    )


def _ask(model: Model, values: NDArray[np.float64], progress: Callable[[int, int], None] | None) -> NDArray[np.integer]:
    answers = []
    for start in range(0, len(values), ROWS):
        part = values[start : start + ROWS].astype(model.dtype)
        answers.append(model.predict(part).astype(np.int64))
        check_alone(model, part, answers[-1], start // ROWS)
        if progress is not None:
            progress(min(start + ROWS, len(values)), len(values))
    return np.concatenate(answers) if answers else np.empty(0, np.int64)


def expected_row_claims(count: RowCount, spec: Spec, people: TableRows, model_sha256: str) -> dict[str, Any]:
    """Everything that the rows allow to be said, under the names that a certificate uses."""
    population = spec.population
    assert isinstance(population, Table)
    exact = population.reading == "population"
    delta = 0.0 if exact else spec.guarantee.delta
    gaps = _Gaps(count, delta)
    decision = gaps.decision(limit_of(spec))
    phrase = rows_phrase(
        len(people.values), population.path, exact=exact, given=spec.property.given, dropped=people.dropped
    )
    network = "" if people.recorded is not None else model_sha256
    return {
        **concluded(decision, count.labels, spec.model.labels, allowed=spec.guarantee.allow_constant),
        "kind": kind_of(spec),
        "inputs": spec.inputs,
        "gap": _gap_claim(count, spec, gaps),
        "threshold": spec.property.threshold,
        "delta": delta,
        "epsilon": None,
        "property": str(spec.property),
        "groups": _group_claims(count, spec, gaps),
        "left_out": [{"name": name, "size": size} for name, size in count.left_out],
        "violators": [_pair(count, spec, *pair) for pair in gaps.violators(limit_of(spec))],
        "rounds": 0,
        "rows": len(people.values),
        "evaluations": count.evaluations,
        "stopped": "rows" if decision == "UNDECIDED" else "decided",
        "seed": None,
        "seed_origin": None,
        "rule": "exact" if exact else "fixed sample",
        "sound": True,
        "model_sha256": network,
        "table_sha256": people.sha256,
        "population": phrase,
        "statement": _statement(count, spec, gaps, phrase),
        "scope": rows_scope(network, people.sha256, exact=exact, recorded=population.prediction),
    }


def _gap_claim(count: RowCount, spec: Spec, gaps: _Gaps) -> dict[str, Any]:
    """The widest gap; of a ratio it is told as a ratio."""
    found = gaps.largest()
    outcome, more, less = gaps.widest()
    if kind_of(spec) == "ratio":
        rates = float(count.rate(outcome, less)), float(count.rate(outcome, more))
        ratio = rates[0] / rates[1] if rates[1] else 1.0
        found = (ratio, 1 - found[2], 1 - found[1]) if gaps.delta else (ratio, ratio, ratio)
    return {**dict(zip(("estimate", "low", "high"), found, strict=True)), **_pair(count, spec, outcome, more, less)}


def _pair(count: RowCount, spec: Spec, outcome: int, more: int, less: int) -> dict[str, str]:
    """Who gets what more often than whom."""
    names = count.comparison.counted
    return {"more": names[more], "less": names[less], "outcome": outcome_names(spec, count.comparison)[outcome]}


def _statement(count: RowCount, spec: Spec, gaps: _Gaps, phrase: str) -> str:
    """The sentence that the counts carry; without a delta they are exact."""
    decision, kind = gaps.decision(limit_of(spec)), kind_of(spec)
    if not gaps.delta:
        return exact_statement(
            decision,
            kind=kind,
            measured=float(1 - gaps.exact_largest() if kind == "ratio" else gaps.exact_largest()),
            threshold=spec.property.threshold,
            population=phrase,
            left_out=len(count.left_out),
        )
    return statement(
        decision,
        threshold=spec.property.threshold,
        delta=gaps.delta,
        population=phrase,
        sound=True,
        kind=kind,
        run="sample",
        left_out=len(count.left_out),
    )


class _Gaps:
    """Gaps of all pairs that are compared, with their bounds; everything is a plain number by (outcome, i, j)."""

    def __init__(self, count: RowCount, delta: float) -> None:
        self._pairs = [(int(o), int(i), int(j)) for o, i, j in np.argwhere(count.comparison.compared)]
        self._relative = count.comparison.measure == "ratio"
        self.exact = {(o, i, j): self._gap(count.rate(o, i), count.rate(o, j)) for o, i, j in self._pairs}
        self.delta = delta
        self.above: dict[tuple[int, int, int], float] = {}
        self.below: dict[tuple[int, int, int], float] = {}
        if delta:
            if count.comparison.individual:
                # One share of people: each side of its exact interval fails at delta/2.
                low, high = exact_bounds(count.successes[0][0], count.trials[0], delta)
                self.above = {(0, 0, 1): high, (0, 1, 0): -low}
                self.below = {(0, 0, 1): low, (0, 1, 0): -high}
                return
            if count.comparison.disjoint:
                self._from_both(count)
                return
            # The rates of all rows together have levels of their own: which groups are compared may be seen in them.
            shared = _overall_rates(count)
            alone = count.bounds(delta / 4, delta / 8 / len(shared), shared)
            together = _together(count, delta / 2)
            self.above = {(o, i, j): self._gap(alone[o, i][1], alone[o, j][0]) for o, i, j in self._pairs}
            self.below = {(o, i, j): self._gap(together[o, i][0], together[o, j][1]) for o, i, j in self._pairs}

    def _from_both(self, count: RowCount) -> None:
        """Bounds of each pair from the product of two p-values, one group each, in 256 steps of one against the other.

        Within a step from level a to a' the first rate is taken at a and the second at F/a', the worst of both.
        """
        alone, together = (_levels(count, alpha) for alpha in (self.delta / 2, self.delta / 2 / len(self._pairs)))
        for o, i, j in self._pairs:
            self.above[o, i, j] = float(self._gaps(alone[o, i][1][:-1], alone[o, j][0][-2::-1], 0.0).max())
            self.below[o, i, j] = float(self._gaps(together[o, i][0][:-1], together[o, j][1][-2::-1], -np.inf).min())

    def _gaps(self, more: Array, less: Array, of_nobody: float) -> Array:
        if not self._relative:
            return more - less
        return np.array([1 - b / a if a > 0 else of_nobody for a, b in zip(more, less, strict=True)])

    def _gap(self, more: Any, less: Any) -> Any:
        if not self._relative:
            return more - less
        return 1 - less / more if more else 0

    def largest(self) -> tuple[float, float, float]:
        estimate = max(0.0, float(max(self.exact.values())))
        if not self.delta:
            return estimate, estimate, estimate
        low = max(0.0, min(max(self.below.values()), estimate))
        return estimate, low, max(*self.above.values(), estimate)

    def decision(self, limit: Fraction) -> str:
        if not self.delta:
            return "FAIR" if max(0, *self.exact.values()) <= limit else "UNFAIR"
        _, low, high = self.largest()
        return "FAIR" if high < limit else "UNFAIR" if low > limit else "UNDECIDED"

    def exact_largest(self) -> Fraction:
        return max(Fraction(0), *(Fraction(gap) for gap in self.exact.values()))

    def widest(self) -> tuple[int, int, int]:
        return max(self._pairs, key=lambda pair: self.exact[pair])

    def violators(self, limit: Fraction) -> list[tuple[int, int, int]]:
        gaps = self.below if self.delta else self.exact
        return [pair for pair in self._pairs if gaps[pair] > (limit if not self.delta else float(limit))]


def _levels(count: RowCount, alpha: float) -> dict[tuple[int, int], tuple[Array, Array]]:
    """Bounds of every rate at the levels F = a_0 < ... < a_256 = 1, where F (1 - ln F) = alpha."""
    exponent = crossing(lambda x: x - math.log1p(x) >= -math.log(alpha), 0.0, 100 - 2 * math.log(alpha))
    levels = np.exp(np.linspace(-exponent, 0.0, 257))
    return {
        (outcome, subgroup): bounds_at(count.successes[outcome][column], count.trials[column], levels)
        for outcome in range(len(count.successes))
        for subgroup, (column,) in enumerate(count.parts)
    }


def _overall_rates(count: RowCount) -> frozenset[tuple[int, int]]:
    """The compared rates, (outcome, subgroup), that are not of a group nor of a mean of groups but of all rows."""
    return frozenset(
        (int(outcome), int(subgroup))
        for outcome, subgroup in np.argwhere(count.comparison.compared.any(axis=2))
        if count.comparison.subgroups[subgroup].group is None and not count.comparison.subgroups[subgroup].mixed
    )


def _together(count: RowCount, spend: float) -> Bounds:
    """Bounds of all compared rates that together fail with probability at most `spend`.

    Half of it is for the rates of all rows together, if there are any, and half for the others: the level of neither
    depends on how many of the other kind there are.
    """
    shared = _overall_rates(count)
    own = int(count.comparison.compared.any(axis=2).sum()) - len(shared)
    part = spend / 2 if shared else spend
    return count.bounds(part / 2 / own, part / 2 / max(len(shared), 1), shared)


def _group_claims(count: RowCount, spec: Spec, gaps: _Gaps) -> list[dict[str, Any]]:
    comparison, names = count.comparison, list(count.comparison.counted)
    bounds = _together(count, gaps.delta) if gaps.delta and not comparison.individual else None
    words = list(outcome_names(spec, comparison))
    subgroups = names[:1] if comparison.individual else names
    claims: list[dict[str, Any]] = []
    for outcome, word in enumerate(words):
        for subgroup, name in enumerate(subgroups):
            if not comparison.compared[outcome, subgroup].any():
                continue
            rate = float(count.rate(outcome, subgroup))
            low, high = (
                bounds[outcome, subgroup] if bounds else gaps.largest()[1:] if comparison.individual else (rate, rate)
            )
            tried = sum(count.trials[part] for part in count.parts[subgroup])
            claims.append(
                {"name": name, "outcome": word, "probability": rate, "low": low, "high": high, "evaluations": tried}
            )
    if not comparison.individual and len(spec.model.labels) == 2 and len(words) == 1 and not spec.property.outcome:
        other = spec.model.labels[0]
        flipped = [
            {**c, "outcome": other, "probability": 1 - c["probability"], "low": 1 - c["high"], "high": 1 - c["low"]}
            for c in claims
        ]
        claims = flipped + claims
    return claims
