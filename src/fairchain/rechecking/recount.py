"""The recheck of an enumeration: points evaluated and weighed again, and every claim computed from the weights.

Points are decoded one by one from their indices and weighed by multiplying the factors of the space, without the tiles
and precomputed values of the enumeration engine. Everything is run again if the forecast is within the budget of
seconds, otherwise a random sample of segments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairchain.certificate_format import EnumerationEvidence, SegmentEvidence, chain_start, chained
from fairchain.input_space import InputSpace
from fairchain.models import Model
from fairchain.models.tiles import of_possible
from fairchain.number_format import close_to, with_interval
from fairchain.populations.finite import Factor
from fairchain.prepare import Case
from fairchain.rechecking.arithmetic import least_gap, ratio_of, shifted_gap
from fairchain.rechecking.expected import claims_of
from fairchain.rechecking.expected_rows import changed_words
from fairchain.rechecking.rerun import Part, RecheckOptions, Repetition
from fairchain.spec.properties import factor_of, kind_of, limit_of
from fairchain.spec.seeds import meaning_of
from fairchain.statements import enumeration_scope, enumeration_statement

# Points that are decoded and weighed at once, and the largest number of evaluations of one segment.
POINTS_AT_ONCE = 8192
LONGEST = 2**30

# Estimate, lower and upper bound.
ExactBounds = tuple[Fraction, Fraction, Fraction]


def in_stated_order(evidence: EnumerationEvidence, inputs: InputSpace, case: Case) -> InputSpace:
    """Return the inputs with points in the certificate's order; any order of the features is valid."""
    names = [feature.name for feature in case.spec.features]
    stated = [names.index(name) for name in evidence.order if name in names]
    return replace(inputs, order=tuple(stated)) if sorted(stated) == sorted(inputs.order) else inputs


def layout_problem(evidence: EnumerationEvidence, inputs: InputSpace, case: Case) -> str:
    """Return why this cannot be the evidence of an enumeration of these inputs, or an empty text."""
    names = [feature.name for feature in case.spec.features]
    stated = (evidence.points, evidence.order, evidence.sizes, evidence.summed, evidence.outcomes)
    found = (
        str(inputs.points),
        [names[column] for column in inputs.order],
        [inputs.space.sizes[column] for column in inputs.order],
        list(inputs.summed),
        list(case.comparison.rows),
    )
    for name, one, other in zip(("points", "order", "sizes", "summed", "outcomes"), stated, found, strict=True):
        if one != other:
            return f"{name}: the certificate states {_short(one)}, but the spec and the network give {_short(other)}"
    if not evidence.segments or evidence.done > inputs.points:
        return f"the segments have {evidence.done:,} points, but the input space has {inputs.points:,}"
    shape = len(inputs.space.measures), len(inputs.parts), 1 + len(case.comparison.rows)
    # Older certificates have none.
    without_pairs = not any(segment.only for segment in evidence.segments)
    for number, segment in enumerate(evidence.segments):
        widths = {len(own) for parts in segment.weights for own in parts}
        lengths = {len(parts) for parts in segment.weights} | {len(segment.inputs)}
        if not segment.points or len(segment.weights) != shape[0] or lengths != {shape[1]} or widths != {shape[2]}:
            return f"segment {number} has no points, or lacks a weight for some part and outcome"
        if segment.points * len(inputs.shown) > LONGEST:
            return f"segment {number} has more than {LONGEST:,} evaluations, too many to be run separately"
        if any(int(own[0]) < max(map(int, own[1:])) for parts in segment.weights for own in parts):
            return f"segment {number} has an outcome with more weight than all inputs together"
        pairs = [] if without_pairs else [len(inputs.pairs)] * shape[0]
        if [len(own) for own in segment.only] != pairs or (segment.only and not inputs.pairs):
            return f"segment {number} lacks a weight for some pair of groups"
    return ""


def _contradiction(segment: SegmentEvidence, inputs: InputSpace) -> str:
    """Return which weights of a segment's pairs are impossible for any decisions, or an empty text.

    For two parts, the weight with the outcome as the first only, minus the second only, equals the difference of the
    rates.
    """
    portions, places = inputs.portions[1], {pair: slot for slot, pair in enumerate(inputs.pairs)}
    for parts, own in zip(segment.weights, segment.only, strict=False):
        for (outcome, i, j), slot in places.items():
            (whole, got), (other_whole, other_got) = ((int(parts[k][0]), int(parts[k][1 + outcome])) for k in (i, j))
            alone, other_alone = int(own[slot]), int(own[places[outcome, j, i]])
            if not 0 <= alone <= got * portions[j]:
                return f'"{inputs.parts[i]}" has more weight of an outcome in only one group than in total'
            both = (got * portions[j] - alone) * other_whole * portions[i]
            if both != (other_got * portions[i] - other_alone) * whole * portions[j]:
                return f'weights of the pair "{inputs.parts[i]}", "{inputs.parts[j]}" contradict those of its groups'
    return ""


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def chain_problem(evidence: EnumerationEvidence, case: Case, model_sha256: str) -> str:
    """Return the segment that does not continue the chain of hashes, or an empty text."""
    chain = chain_start(model_sha256, case.data_sha256, meaning_of(case.spec))
    for number, segment in enumerate(evidence.segments):
        chain = chained(chain, segment)
        if chain != segment.chain:
            return f"segment {number} does not continue the hash of the network, the question and the segments before"
    return ""


@dataclass(frozen=True, eq=False)
class _Stretch(Part):
    """A segment of a certificate: its number, its first point and its claimed weights."""

    number: int
    first: int
    claimed: SegmentEvidence


class _Shown(NamedTuple):
    """The decisions about points that are shown with some protected values.

    The parts, the evaluations of each point, its possible labels, (points, labels), the number of words with each
    outcome, (points, outcomes), and its weights.
    """

    parts: tuple[int, ...]
    times: int
    given: NDArray[np.bool_]
    successes: NDArray[Any]
    weights: list[NDArray[Any]]


class Recount(Repetition[_Stretch]):
    """A re-run of the segments of a certificate with the checker's own network, question and space."""

    unit, agreed = "segments", "inputs evaluated again, with the same weights"

    def __init__(
        self, model: Model, case: Case, inputs: InputSpace, evidence: EnumerationEvidence, options: RecheckOptions
    ) -> None:
        firsts = accumulate((segment.points for segment in evidence.segments), initial=0)
        stretches = [
            _Stretch(segment.points * len(inputs.shown), number, first, segment)
            for number, (segment, first) in enumerate(zip(evidence.segments, firsts, strict=False))
        ]
        super().__init__(stretches, options)
        self._model, self._case, self._inputs = model, case, inputs

    def run(self, part: _Stretch) -> str:
        """Run one segment again; return the problem, or an empty text."""
        inputs, rows = self._inputs, self._case.comparison.rows
        measures = inputs.space.measures
        # Python's integers, which have no largest value.
        weights = np.zeros((len(measures), len(inputs.parts), 1 + len(rows)), object)
        only = np.zeros((len(measures), len(inputs.pairs)), object)
        trials, labels, evaluations = [0] * len(inputs.parts), set[int](), 0
        last = part.first + part.claimed.points
        for start in range(part.first, last, POINTS_AT_ONCE):
            numbers = np.arange(start, min(start + POINTS_AT_ONCE, last))
            decided = self._decided(numbers, start // POINTS_AT_ONCE)
            if decided:
                only += self._more_often(decided)
            for parts, times, given, successes, of_measures in decided:
                possible = np.asarray(of_measures[-1] > 0)
                count = int(possible.sum())
                labels |= set(np.flatnonzero(given[possible].any(axis=0)).tolist())
                evaluations += times * count
                own = [
                    [int(each.sum()) * _unit(self._model), *(each[:, None] * successes).sum(axis=0).tolist()]
                    for each in of_measures
                ]
                for place in parts:
                    trials[place] += count
                    weights[:, place] += np.array(own, object)
        pairs = only.astype(str).tolist() if inputs.pairs else []
        found = {"evaluations": evaluations, "inputs": trials, "labels": sorted(labels)}
        found |= {"weights": weights.astype(str).tolist()} | ({"only": pairs} if part.claimed.only else {})
        for name, again in found.items():
            if again != getattr(part.claimed, name):
                return (
                    f"segment {part.number} gives other {name} than the certificate states; if few of its inputs "
                    "differ, another processor may round the network's sums differently"
                )
        return ""

    def _more_often(self, decided: Sequence[_Shown]) -> NDArray[Any]:
        """Return (measures, pairs): the excess of the outcome as the first part."""
        inputs, (times, portions) = self._inputs, self._inputs.portions
        kind: Any = np.int64 if max(portions) ** 2 * _unit(self._model) < 2**62 else object
        got = [each.successes.astype(kind) * times[place] for place, each in enumerate(decided)]
        found = np.zeros((len(inputs.space.measures), len(inputs.pairs)), object)
        for slot, (outcome, i, j) in enumerate(inputs.pairs):
            mine, others = ([place for place, each in enumerate(decided) if part in each.parts] for part in (i, j))
            first, second = (sum(got[at][:, outcome] for at in ats) for ats in (mine, others))
            more = np.maximum(first * portions[j] - second * portions[i], 0)
            # The weight of a point alone, which is the same for all protected values up to their proportions.
            alone = [each // times[mine[0]] for each in decided[mine[0]].weights]
            found[:, slot] = [_product(weights, more) for weights in alone]
        return found

    def _decided(self, numbers: NDArray[np.int64], batch: int) -> list[_Shown]:
        """Return the decisions about these points, for each of the shown protected values."""
        inputs, space, comparison = self._inputs, self._inputs.space, self._case.comparison
        sizes = tuple(space.sizes[column] for column in inputs.order)
        index = dict(zip(inputs.order, np.unravel_index(numbers, sizes), strict=True)) if sizes else {}
        values = np.empty((len(numbers), len(space.values)))
        for column, known in enumerate(space.values):
            values[:, column] = known[index.get(column, 0)]
        labels = np.arange(len(self._case.spec.model.labels))
        found, decided = [], []
        weights = [_weigh(factors, index, len(numbers)) for factors in space.measures] if inputs.individual else []
        for shown in inputs.shown:
            values[:, list(inputs.protected)] = shown.values
            rows = values.astype(self._model.dtype)
            if not inputs.individual:
                at = {**index, **dict(zip(inputs.protected, shown.indices, strict=True))}
                weights = [_weigh(factors, at, len(numbers)) for factors in space.measures]
            possible = np.asarray(weights[-1] > 0, bool)
            if not possible.any():
                # None of these points is an input, so nothing is evaluated.
                if inputs.individual:
                    return []
                continue
            evaluate = self._model.ends if self._model.drawn else self._model.predict
            own = of_possible(evaluate, self._model, rows, possible, batch).astype(np.int64)
            decided.append(own)
            if not inputs.individual:
                shares = np.diff(own, axis=1, prepend=0) if own.ndim == 2 else (own[:, None] == labels).astype(np.int64)
                successes = shares[:, list(comparison.rows)].astype(object)
                found.append(_Shown(shown.parts, 1, shares > 0, successes, weights))
        if not inputs.individual:
            return found
        seen = np.stack(decided)
        possible_labels = np.diff(seen, axis=2, prepend=0) > 0 if seen.ndim == 3 else seen[..., None] == labels
        changed = changed_words(seen, comparison.outcomes)[:, None]
        return [_Shown((0,), len(seen), np.asarray(possible_labels.any(axis=0)), changed, weights)]


def _product(weights: NDArray[Any], numbers: NDArray[Any]) -> int:
    """Return the sum of the products of integers, in 64 bits if they fit."""
    if weights.dtype == object or int(weights.max()) * int(numbers.max()) * POINTS_AT_ONCE >= 2**62:
        weights, numbers = weights.astype(object), numbers.astype(object)
    else:
        numbers = numbers.astype(np.int64)
    return int((weights * numbers).sum())


def _unit(model: Model) -> int:
    """Return the number of random words of a weight: one, or all 2**32 if labels are drawn."""
    return 2**32 if model.drawn else 1


def _weigh(factors: Sequence[Factor], index: dict[int, Any], rows: int) -> NDArray[Any]:
    """Return the weight of each point: the product of all factors at the indices of its values."""
    largest = math.prod(int(factor.weights.max()) for factor in factors)
    dtype: Any = np.int64 if largest * POINTS_AT_ONCE < 2**62 else object
    weights = np.ones(rows, np.int64).astype(dtype)
    for factor in factors:
        place = tuple(index.get(column, 0) for column in factor.columns)
        weights = weights * np.asarray(factor.weights[place]).astype(dtype)
    return weights


class _Rates:
    """Rates and gaps from the weights of all segments, as fractions."""

    def __init__(self, evidence: EnumerationEvidence, inputs: InputSpace, case: Case) -> None:
        self._comparison, self._inputs, self._segments = case.comparison, inputs, evidence.segments
        self._factor = factor_of(case.spec) or Fraction(1)
        self._sums: Any = sum(_integers(segment.weights) for segment in evidence.segments)
        unit = 2**32 if case.spec.model.decision == "random" else 1
        self._totals = [mass * unit for mass in inputs.part_masses[-1]]
        self.pairs = [(int(o), int(i), int(j)) for o, i, j in np.argwhere(case.comparison.compared)]
        subgroups = range(len(inputs.means))
        self.rates = {(o, s): self._rate(o, s) for o in range(len(case.comparison.rows)) for s in subgroups}
        self._only: Any = sum(_integers(segment.only) for segment in evidence.segments if segment.only)

    def problem(self) -> str:
        """Return which weight exceeds its total, or which weights contradict each other, or an empty text."""
        for place, total in enumerate(self._totals):
            if self._sums[-1, place, 0] > total:
                return f'"{self._inputs.parts[place]}" has more weight than all of its inputs together'
        return next(filter(None, (_contradiction(segment, self._inputs) for segment in self._segments)), "")

    def _rate(self, outcome: int, subgroup: int) -> ExactBounds:
        """Return the rate of a subgroup, the mean of its parts; a subgroup without parts has rate 0."""
        found = [self._share(part, self._sums[:, part, 1 + outcome]) for part in self._inputs.means[subgroup]]
        estimate, low, high = (
            sum(side, start=Fraction(0)) / max(len(found), 1)
            for side in (zip(*found, strict=True) if found else ((),) * 3)
        )
        return estimate, low, high

    def cells(self) -> list[list[tuple[float, float]]]:
        """Return for each compared pair bounds of the shares of points with the outcome in one group, or in both."""
        paired = any(segment.only for segment in self._segments)
        places = {pair: slot for slot, pair in enumerate(self._inputs.pairs)} if paired else {}
        parts, found = [mean[0] if mean else 0 for mean in self._inputs.means], []
        portions = self._inputs.portions[1]
        for o, i, j in self.pairs if places else ():
            first, second = parts[i], parts[j]
            one, other = (self._only[:, places[o, *pair]] for pair in ((first, second), (second, first)))
            both = self._sums[:, first, 1 + o] * portions[second] - one
            shares = [(first, one, portions[second]), (second, other, portions[first]), (first, both, portions[second])]
            found.append([_rounded(*self._share(*each))[1:] for each in shares])
        return found

    def _share(self, part: int, weights: NDArray[Any], times: int = 1) -> ExactBounds:
        """Return the share of a part's inputs, each counted this many times, that have this weight, by each measure."""
        least, most = self._sums[0, part, 0] * times, self._sums[-1, part, 0] * times
        unseen = self._totals[part] * times - most
        got, missed = (weights[0], weights[-1]), (least - weights[0], most - weights[-1])
        below, above = got[0] + missed[1] + unseen, got[1] + missed[0] + unseen
        low = Fraction(got[0], below) if below else Fraction(0)
        high = Fraction(got[1] + unseen, above) if above else Fraction(1)
        seen = sum(got) + sum(missed)
        return sorted((low, Fraction(sum(got), seen) if seen else (low + high) / 2, high))[1], low, high

    def gap(self, more: Fraction, less: Fraction) -> Fraction:
        """Return the gap of two rates; if they may shift, the largest gap."""
        return Fraction(shifted_gap(more, less, self._factor, self._comparison.measure == "ratio"))

    def largest(self) -> tuple[ExactBounds, tuple[int, int, int]]:
        """Return estimate and bounds of the largest gap, and the pair with the largest estimate."""
        one_sided = least_gap(self._comparison.compared, self._comparison.measure == "ratio")
        rate, none = self.rates, Fraction(one_sided or 0)
        estimates = {(o, i, j): self.gap(rate[o, i][0], rate[o, j][0]) for o, i, j in self.pairs}
        pair = max(self.pairs, key=lambda each: estimates[each])
        low = max(none, *(self.gap(rate[o, i][1], rate[o, j][2]) for o, i, j in self.pairs))
        high = max(none, *(self.gap(rate[o, i][2], rate[o, j][1]) for o, i, j in self.pairs))
        return (min(max(none, estimates[pair], low), high), low, high), pair

    def violators(self, limit: Fraction) -> list[tuple[int, int, int]]:
        """Return the pairs whose gap is above the limit."""
        rate = self.rates
        return [(o, i, j) for o, i, j in self.pairs if self.gap(rate[o, i][1], rate[o, j][2]) > limit]


def _integers(weights: Any) -> NDArray[Any]:
    """Return nested lists of decimal digits as an array of Python's integers, which have no largest value."""
    integers: NDArray[Any] = np.vectorize(int, otypes=[object])(np.array(weights, object))
    return integers


def expected_enumeration_claims(
    evidence: EnumerationEvidence, inputs: InputSpace, case: Case, model_sha256: str, stopped: str
) -> tuple[dict[str, Any], str]:
    """Return all claims that the weights support, and the reason why the weights are impossible, or an empty text."""
    spec, kind = case.spec, kind_of(case.spec)
    rates, limit = _Rates(evidence, inputs, case), limit_of(case.spec)
    (estimate, low, high), pair = rates.largest()
    decision = "FAIR" if high <= limit else "UNFAIR" if low > limit else "UNDECIDED"
    gap = _rounded(estimate, low, high)
    if kind == "ratio":
        outcome, i, j = pair
        more, less = rates.rates[outcome, i][0], rates.rates[outcome, j][0]
        exact = low == high and spec.property.shift is None
        ratio = float(ratio_of(more, less)) if exact else 1 - gap[0]
        gap = (ratio, ratio, ratio) if low == high else (ratio, 1 - gap[2], 1 - gap[1])
    trials = [sum(each) for each in zip(*(segment.inputs for segment in evidence.segments), strict=True)]
    of_subgroups = [sum(trials[part] for part in mean) for mean in inputs.means]
    evaluations = sum(segment.evaluations for segment in evidence.segments)
    population = case.described_population
    numbers = {key: _rounded(*each) for key, each in rates.rates.items()}
    ended = stopped if stopped in ("seconds", "interrupted") else "seconds"
    claims = claims_of(
        spec,
        case.comparison,
        decision,
        evidence.labels,
        gap=gap,
        pair=pair,
        rates=numbers,
        trials=of_subgroups,
        cells=rates.cells(),
        violators=rates.violators(limit),
        left_out=case.left_out,
        engine="enumeration",
        delta=0.0,
        evaluations=evaluations,
        stopped="decided" if decision != "UNDECIDED" else "weights" if evidence.done == inputs.points else ended,
        rule="exact",
        model_sha256=model_sha256,
        table_sha256=case.data_sha256,
        population=population,
        statement=enumeration_statement(
            decision,
            kind=kind,
            measured=with_interval(*gap, least=close_to(gap[0], spec.property.threshold)),
            threshold=spec.property.threshold,
            population=population,
            evaluations=evaluations,
            done=(evidence.done, inputs.points),
            left_out=len(case.left_out),
        ),
        scope=enumeration_scope(model_sha256),
    )
    return claims, rates.problem()


def _rounded(estimate: Fraction, low: Fraction, high: Fraction) -> tuple[float, float, float]:
    """Return floating-point numbers; the bounds are rounded outward unless they are equal."""
    if low == high:
        return (float(estimate),) * 3
    down, up = float(low), float(high)
    return (
        float(estimate),
        math.nextafter(down, -math.inf) if Fraction(down) > low else down,
        math.nextafter(up, math.inf) if Fraction(up) < high else up,
    )
