"""Search for the worst subgroup among all intersections of protected features up to a depth.

A subgroup is compared with all other inputs. Its gap is the difference of the two rates of an outcome. The largest of
many estimates overstates the truth, so intervals are corrected for the selection: for all candidates on all inputs, or
for the few that one part of the inputs selects on the other part, whichever is forecast to be narrower before any
decision is seen (docs/mathematics-tables.md, "Subgroup search").
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import SpecError
from fairchain.models import Limits
from fairchain.models.base import decide
from fairchain.models.onnx.rounding import check_alone
from fairchain.number_format import bounded
from fairchain.populations.build import build_population
from fairchain.prepare import Case, gather, read_question
from fairchain.records import Record
from fairchain.spec import Difference, Group, Spec, Table, groups_of
from fairchain.spec.conditions import predicate_of
from fairchain.spec.seeds import derive_seed, family_seed
from fairchain.spec.subgroups import OVERALL, Subgroup
from fairchain.spec.validate import refuse_shift
from fairchain.statistics.intervals import clopper_pearson
from fairchain.verification.row_evaluation import ROWS_AT_A_TIME

Mask = NDArray[np.bool_]
# Largest number of candidates, default number of drawn inputs, and default number of features of a subgroup.
MOST_CANDIDATES, DRAWN, DEFAULT_DEPTH = 20_000, 100_000, 2
# The inputs of the intervals: all of them for all candidates, the second half for a few, or the population.
IntervalSource = Literal["simultaneous", "fresh half", "exact"]


class WorstSubgroup(Record, frozen=True):
    """A subgroup compared with all other inputs: its gap is `rate - other_rate`, with an interval.

    `certified` is whether the gap is known to be beyond the threshold, on either side.
    """

    name: str
    size: int
    share: float
    rate: float
    other_rate: float
    estimate: float
    low: float
    high: float
    certified: bool


class SubgroupSearch(Record, frozen=True, kw_only=True):
    """The result of `find_subgroups`: the subgroups in the order of their gaps, and the verdict.

    `verdict` is UNFAIR if a listed subgroup is shown to be beyond the threshold. It is FAIR if every subgroup of at
    least the smallest size is shown to be within the threshold, and otherwise UNDECIDED. Smaller subgroups are not
    listed, and a FAIR verdict does not cover them.
    """

    verdict: Literal["FAIR", "UNFAIR", "UNDECIDED"]
    outcome: str
    threshold: float
    delta: float
    features: tuple[str, ...]
    depth: int
    candidates: int
    small: int
    inputs: int
    method: IntervalSource
    evaluations: int
    seconds: float
    seed: int | None
    model_sha256: str
    population: str
    statement: str
    subgroups: tuple[WorstSubgroup, ...]

    def text(self) -> str:
        """Return the result as plain text."""
        lines = [f"{self.verdict}: {self.candidates:,} subgroups of {', '.join(self.features)}"]
        lines += [
            f"  {'*' if each.certified else ' '} {each.name}: P({self.outcome}) {each.rate:.4f}, others "
            f"{each.other_rate:.4f}, gap {bounded(each)}, {each.share:.1%} of the inputs"
            for each in self.subgroups
        ]
        return "\n".join([*lines, self.statement])


def find_subgroups(
    model: Any,
    spec: Spec | str | Path,
    *,
    protected: Sequence[str] | None = None,
    depth: int | None = None,
    min_size: float = 0.01,
    outcome: str | None = None,
    threshold: float | None = None,
    delta: float | None = None,
    top: int = 10,
    inputs: int = DRAWN,
    weights: str | Path | None = None,
    data: Any = None,
    seed: int | None = None,
    limits: Limits | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SubgroupSearch:
    """Find the subgroups whose rate of an outcome differs most from the rate of all other inputs.

    Parameters
    ----------
    model, spec, weights, data, seed, limits
        As for `verify`. If `protected`, `outcome` or `threshold` is not given, the value in the spec's property is
        used.
    protected
        The features whose intersections are searched.
    depth
        Largest number of features in an intersection; by default 2, or 1 if one feature is protected.
    min_size
        Smallest size of a searched subgroup: a number of inputs, or a share of the inputs if it is below 1.
    outcome
        The label whose rates are compared; by default the outcome of the spec, or the second of two labels.
    threshold
        The largest fair difference between the rate of a subgroup and the rate of all other inputs.
    delta
        The largest probability that the verdict or at least one interval is wrong.
    top
        Number of subgroups to list.
    inputs
        Number of inputs to draw. If the spec is about the rows of a table, all rows are used instead.
    progress
        Called with the number of finished inputs, and the number of requested inputs.

    Returns
    -------
    SubgroupSearch
        The subgroups. Their intervals hold simultaneously with probability at least 1 - delta.

    Examples
    --------
    >>> from fairchain.examples import example
    >>> found = find_subgroups(None, example("census"), protected=["sex", "race"], inputs=20_000, delta=0.01)
    >>> found.verdict, found.candidates
    ('FAIR', 17)
    """
    start = time.perf_counter()
    singles = _questions(spec, protected, outcome, threshold, delta, seed)
    question, features = singles[0], tuple(each.protected[0] for each in singles)
    depth = min(DEFAULT_DEPTH, len(features)) if depth is None else depth
    if not 1 <= depth <= len(features):
        raise SpecError(f"depth: found {depth}; give a number from 1 to {len(features)}, the protected features")
    if top < 1 or inputs < 2 or not min_size > 0:
        raise SpecError("top, inputs and min_size must be positive, and inputs at least 2")
    groups = [groups_of(each) for each in singles]
    candidates = _candidates(groups, depth)
    case = gather(model, question, weights=weights, data=data, population=None, limits=limits)
    derived = family_seed([derive_seed(each, case.model_sha256, case.data_sha256) for each in singles])
    chosen_seed = seed if seed is not None else derived
    values, hits = _evaluated(case, question, inputs, chosen_seed, progress)
    exact = isinstance(question.population, Table) and question.population.reading == "population"
    recorded = case.rows is not None and case.rows.recorded is not None
    columns = [feature.name for feature in question.features]
    # For each feature, (groups, inputs): which inputs belong to which group.
    members = [
        np.array([group.domains[0].holds(values[:, columns.index(name)]) for group in each])
        for name, each in zip(features, groups, strict=True)
    ]
    alpha = question.guarantee.delta
    # Fixed before any decision is seen: the method with the narrower forecast intervals.
    together, few = math.log(4 * len(candidates) / alpha), 2 * math.log(4 * top / alpha)
    method: IntervalSource = "exact" if exact else "simultaneous" if together <= few else "fresh half"
    least = min_size if min_size >= 1 else min_size * len(values)
    search = _Search(members, hits, candidates, least)
    found, sizes_below = search.worst(method, alpha, top, chosen_seed)
    limit = question.property.threshold
    listed = tuple(
        WorstSubgroup(
            " & ".join(groups[feature][group].name for feature, group in candidates[place]),
            size,
            size / max(len(values), 1),
            rate,
            other,
            rate - other,
            low,
            high,
            low > limit or high < -limit,
        )
        for place, size, rate, other, low, high in found[:top]
    )
    verdict: Literal["FAIR", "UNFAIR", "UNDECIDED"] = "UNDECIDED"
    if any(each.certified for each in listed):
        verdict = "UNFAIR"
    elif method != "fresh half" and all(-limit <= low and high <= limit for *_, low, high in found):
        verdict = "FAIR"
    return SubgroupSearch(
        verdict=verdict,
        outcome=str(question.property.outcome),
        threshold=limit,
        delta=0.0 if exact else alpha,
        features=features,
        depth=depth,
        candidates=len(candidates),
        small=sizes_below,
        inputs=len(values),
        method=method,
        evaluations=0 if recorded else len(values),
        seconds=time.perf_counter() - start,
        seed=None if exact else chosen_seed,
        model_sha256=case.model_sha256,
        population=case.described_population,
        statement=_statement(method, alpha, len(candidates), sizes_below, min(top, len(found))),
        subgroups=listed,
    )


def _statement(method: IntervalSource, delta: float, candidates: int, small: int, listed: int) -> str:
    without = f" Nothing is stated about {small:,} candidates below the smallest size." if small else ""
    if method == "exact":
        return f"Counted, not estimated: every gap is that of all rows.{without}"
    if method == "simultaneous":
        return (
            f"The intervals of all {candidates:,} candidates hold together with probability at least 1 - {delta:g}."
            f"{without}"
        )
    return (
        f"{listed} subgroups were found on one half of the inputs; their intervals come from the other half, and "
        f"hold together with probability at least 1 - {delta:g}. Nothing is stated about other subgroups."
    )


def _questions(
    spec: Spec | str | Path,
    protected: Sequence[str] | None,
    outcome: str | None,
    threshold: float | None,
    delta: float | None,
    seed: int | None,
) -> list[Spec]:
    """Return a question for each feature: the difference of two rates of one label."""
    question = read_question(spec, guarantee__seed=seed, guarantee__delta=delta)
    refuse_shift(question, "a search for subgroups")
    before = question.property
    if question.text is not None or not question.model.deterministic or question.model.decision == "random":
        raise SpecError("a search for subgroups needs features and a deterministic decision; texts have no features")
    label = outcome or before.outcome
    if label is None and len(question.model.labels) > 2:
        raise SpecError("outcome: missing; name the label whose rates are compared")
    label = label or question.model.labels[1]
    if threshold is None:
        if not isinstance(before, Difference):
            raise SpecError("threshold: missing; give the largest fair difference, because the spec states none")
        threshold = before.threshold
    names = tuple(protected) if protected else question.protected
    about = [Difference(protected=(name,), outcome=label, threshold=threshold, given=before.given) for name in names]
    return [read_question(replace(question, property=each)) for each in about]


def _candidates(groups: Sequence[Sequence[Group]], depth: int) -> list[tuple[tuple[int, int], ...]]:
    """Return every intersection as (feature, group) pairs, the shorter ones first."""
    chosen = [some for size in range(1, depth + 1) for some in combinations(range(len(groups)), size)]
    total = sum(math.prod(len(groups[feature]) for feature in some) for some in chosen)
    if total > MOST_CANDIDATES:
        raise SpecError(f"depth: {total:,} subgroups, and at most {MOST_CANDIDATES:,} are searched; lower the depth")
    return [
        tuple(zip(some, places, strict=True))
        for some in chosen
        for places in product(*(range(len(groups[feature])) for feature in some))
    ]


def _evaluated(
    case: Case, question: Spec, inputs: int, seed: int, progress: Callable[[int, int], None] | None
) -> tuple[NDArray[Any], Mask]:
    """Return the rows of a table, or fresh inputs of the overall population, and which of them get the outcome."""
    population, model = question.population, case.model
    outcome = question.model.labels.index(str(question.property.outcome))
    if isinstance(population, Table):
        assert case.rows is not None
        assert case.concerned is not None
        values = case.rows.values[case.concerned]
        if case.rows.recorded is not None:
            return values, case.rows.recorded[case.concerned] == outcome
    else:
        assert model is not None
        drawn = build_population(
            question,
            [Subgroup(OVERALL)],
            model.dtype,
            rows=case.rows,
            function=case.function,
            predicate=predicate_of(question) if question.property.given is not None else None,
        )
        parts = [
            np.array(drawn.rounds(seed, chunk, min(ROWS_AT_A_TIME, inputs - start)).show(0))
            for chunk, start in enumerate(range(0, inputs, ROWS_AT_A_TIME))
        ]
        values = np.concatenate(parts)
    assert model is not None
    hits = np.empty(len(values), bool)
    for batch, start in enumerate(range(0, len(values), ROWS_AT_A_TIME)):
        part = values[start : start + ROWS_AT_A_TIME].astype(model.dtype)
        labels = decide(model, part, None)
        check_alone(model, part, labels, batch)
        hits[start : start + len(part)] = labels == outcome
        if progress is not None:
            progress(start + len(part), len(values))
    return values, hits


# Index of the candidate, its inputs, its rate and that of the others, and bounds of the gap.
_Found = tuple[int, int, float, float, float, float]


@dataclass(frozen=True, eq=False)
class _Search:
    """The candidates among some inputs, with their counts."""

    members: Sequence[Mask]
    hits: Mask
    candidates: Sequence[tuple[tuple[int, int], ...]]
    least: float

    def worst(self, method: IntervalSource, delta: float, top: int, seed: int) -> tuple[list[_Found], int]:
        """Return the candidates with their intervals, the widest gap first, and the number of those that are too small.

        For a "fresh half" these are the few candidates that the first half of the inputs selects.
        """
        everything = np.arange(len(self.hits))
        if method != "fresh half":
            trials, successes = self._counts(everything, range(len(self.candidates)))
            large = np.flatnonzero(trials >= self.least)
            level = 0.0 if method == "exact" else delta / (2 * len(self.candidates))
            return self._ranked(everything, large, trials, successes, level), len(trials) - len(large)
        # A random half, whatever the order of the inputs.
        order = np.random.Philox(seed).random_raw(len(self.hits)).argsort(kind="stable")
        first, second = order[: len(order) // 2], order[len(order) // 2 :]
        trials, successes = self._counts(first, range(len(self.candidates)))
        large = np.flatnonzero(trials >= self.least / 2)
        # The level is only a score here: wide intervals of small candidates come last.
        ranked = self._ranked(first, large, trials, successes, delta / (2 * len(self.candidates)), by_bound=True)
        chosen = np.array([place for place, *_ in ranked[:top]], np.intp)
        fresh_trials, fresh_successes = self._counts(second, chosen.tolist())
        trials[chosen], successes[chosen] = fresh_trials, fresh_successes
        return self._ranked(second, chosen, trials, successes, delta / (2 * top)), len(trials) - len(large)

    def _counts(self, some: NDArray[np.intp], places: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the number of inputs of each candidate among these inputs, and the number of them with the outcome."""
        members = [np.packbits(masks[:, some], axis=1) for masks in self.members]
        hits = np.packbits(self.hits[some])
        trials, successes = np.zeros((2, len(places)), np.int64)
        for row, place in enumerate(places):
            (feature, group), *others = self.candidates[place]
            inside = members[feature][group]
            for feature, group in others:
                inside = inside & members[feature][group]
            trials[row] = np.bitwise_count(inside).sum()
            successes[row] = np.bitwise_count(inside & hits).sum()
        return trials, successes

    def _ranked(
        self,
        some: NDArray[np.intp],
        places: NDArray[np.intp],
        trials: NDArray[np.int64],
        successes: NDArray[np.int64],
        level: float,
        *,
        by_bound: bool = False,
    ) -> list[_Found]:
        """Return candidates with their intervals at a level for each, the widest gap (or its bound) first."""
        own, hits = trials[places], successes[places]
        others, other_hits = len(some) - own, int(self.hits[some].sum()) - hits
        kept = (own > 0) & (others > 0)
        places, own, hits, others, other_hits = (each[kept] for each in (places, own, hits, others, other_hits))
        rate, other = hits / own, other_hits / others
        low = high = rate - other
        if level:
            low_in, high_in = clopper_pearson(hits, own, level)
            low_out, high_out = clopper_pearson(other_hits, others, level)
            low, high = low_in - high_out, high_in - low_out
        score = np.maximum(low, -high) if by_bound else np.abs(rate - other)
        order = np.argsort(-score, kind="stable")
        return list(zip(*(each[order].tolist() for each in (places, own, rate, other, low, high)), strict=True))
