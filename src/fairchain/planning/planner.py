"""Plan of an audit: the rounds, evaluations, seconds or rows that a verdict is expected to need.

A forecast runs the stopping rule on simulated rounds or rows (docs/scaling.md). The plan lists all its assumptions;
only a pilot evaluates the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import combinations
from math import ceil, isfinite
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace as replace_record
from numpy.typing import NDArray
from scipy.stats import binom

from fairchain.errors import SpecError
from fairchain.models.journal import Journaled
from fairchain.planning.result import CurvePoint, PropertyKind, QuestionPlan, RowsPlan, VerificationPlan
from fairchain.prepare import Case, case_of, gather, read_question, read_rows
from fairchain.spec import Comparison, Guarantee, Spec, Subgroup, Table, comparison_of, load_specs
from fairchain.spec.groups import Group
from fairchain.spec.properties import kind_of, limit_of, shows_same_individual
from fairchain.spec.seeds import family_seed
from fairchain.spec.validate import may_count, refuse_shift
from fairchain.statistics import Rule
from fairchain.statistics.forecast import HORIZON, RUNS, RoundAnswers, RunForecast, Spread, differing, forecast_run
from fairchain.statistics.rate_counts import decided_samples
from fairchain.statistics.rules import every_pair
from fairchain.verification.choosing import (
    FEW_EVALUATIONS,
    FEW_TEXTS,
    FIRST_FORECAST,
    fewest_evaluations,
    fewest_rounds,
)
from fairchain.verification.counting import counted_evaluations
from fairchain.verification.family import divided
from fairchain.verification.sampler import Sampler
from fairchain.verification.sampling import betting_rule, rule_for
from fairchain.verification.verifier import spec_changes

# For rounds that show one individual as every group, the assumed excess of differing rounds over the smallest possible
# share, as a fraction of the excess for independent answers: at most this on thirteen of fourteen networks of the
# benchmarks.
DIFFER_PART = 0.2
# Gaps of a curve: these multiples of the threshold, for a ratio of its distance from 1; and the number of simulated
# runs for each.
CURVE = (0.0, 0.25, 0.5, 0.7, 0.8, 0.9, 1.1, 1.2, 1.35, 1.5, 2.0, 2.5, 3.0)
CURVE_RUNS = 40
# A table decides a gap if it does so in this share of samples; larger numbers of rows of a group are not planned.
POWER, MOST_PLANNED_ROWS = 0.95, 10**9
ONLY_DISJOINT_GROUPS = "rows: can be planned only if groups are compared with each other and share no row"
LEAST_PILOT = 64
SPEC_HAS_ITS_OWN = "groups, rows, questions: are for a plan without a spec; leave them out"
MEASURED_AND_ASSUMED = "pilot, {name}: a pilot measures what {name} assumes; give one of the two"
PILOT_OF_ROWS = "pilot: is for inputs that are drawn; here every row or text is evaluated once"
DIFFER_OF_ROWS = "differ: applies to rounds that show one input as every group, not to rows of a sample; leave it out"
PILOT_IN_JOURNAL = (
    "pilot: the verdict on a random model would use the answers of the pilot again, which are in the journal; leave "
    "--journal (journal=...) out"
)
EVERY_INPUT = "every row or text is evaluated, for any rates"


@dataclass(frozen=True)
class _Question:
    """A question in the form that the forecast needs."""

    name: str
    kind: PropertyKind
    threshold: float
    limit: Fraction
    delta: float
    comparison: Comparison
    rule: Callable[[], Rule]
    # Whether a round shows one individual as every group.
    coupled: bool = True

    def rates(self, gap: float, rate: float) -> list[float]:
        """Return a rate for each subgroup: the highest and the lowest differ by this gap, the others are between."""
        if self.kind == "individual":
            return [gap, 0.0]
        low = rate * gap if self.kind == "ratio" else rate - gap
        if not 0 <= low <= 1:
            raise SpecError(f"rate: {rate:g} with a gap of {gap:g} leaves a rate of {low:g}; assume a higher rate")
        _, first, last = (int(place) for place in np.argwhere(self.comparison.compared)[0])
        # Subgroups of one group, which differ in their true label, have the same rate.
        keys = [each.name if each.group is None else each.group.name for each in self.comparison.subgroups]
        between = [key for key in dict.fromkeys(keys) if key not in (keys[first], keys[last])]
        steps = np.linspace(rate, low, len(between) + 2).tolist()
        of = dict(zip([keys[first], *between, keys[last]], steps, strict=True))
        return [of[key] for key in keys]

    def gap_of(self, rates: Sequence[float]) -> float:
        """Return the largest difference between compared rates, or the smallest ratio."""
        pairs = np.argwhere(self.comparison.compared)[:, 1:]
        # Rates are stated decimals, so their differences are decimals too.
        if self.kind == "ratio":
            return round(float(min((rates[j] / rates[i] if rates[i] else 1.0) for i, j in pairs)), 12)
        return round(float(max(rates[i] - rates[j] for i, j in pairs)), 12)

    def decides(self, gap: float) -> str:
        """Return the correct verdict for a gap."""
        fair = gap >= self.threshold if self.kind == "ratio" else gap <= self.limit
        return "FAIR" if fair else "UNFAIR"

    def plan(self, **found: Any) -> QuestionPlan:
        """Return the plan of this question with these results."""
        groups = tuple(each.name for each in self.comparison.subgroups)
        about: dict[str, Any] = {"kind": self.kind, "threshold": self.threshold, "delta": self.delta}
        return QuestionPlan(question=self.name, groups=groups, **about, **found)

    def forecast(
        self, rates: Sequence[float], differ: float | None, runs: int = RUNS, most_rounds: int = HORIZON
    ) -> RunForecast:
        """Return the forecast for assumed rates."""
        if self.gap_of(rates) == self.threshold:
            # No number of rounds decides this.
            return RunForecast(Spread(None, None), Spread(None, None), {"UNDECIDED": runs})
        answers, outcome = RoundAnswers.assumed(rates, differ), self.comparison.rows[-1]
        other = next(label for label in range(3) if label != outcome)
        answers = replace(answers, labels=np.where(answers.labels == 1, outcome, other))
        return self.of_answers(answers, runs, most_rounds)

    def of_answers(self, answers: RoundAnswers, runs: int = RUNS, most_rounds: int = HORIZON) -> RunForecast:
        """Return the forecast for a distribution of labels."""
        comparison = self.comparison
        return forecast_run(
            self.rule,
            answers,
            outcomes=comparison.rows,
            evaluations=lambda groups: len(comparison.evaluated(groups)),
            runs=runs,
            most_rounds=most_rounds,
        )


def plan(
    spec: Spec | str | Path | Sequence[Spec] | None = None,
    *,
    model: Any = None,
    data: Any = None,
    gap: float | None = None,
    rate: float = 0.5,
    rates: Sequence[float] | None = None,
    differ: float | None = None,
    groups: int = 2,
    rows: int | Sequence[int] | None = None,
    questions: int = 1,
    speed: float | None = None,
    pilot: int | None = None,
    curve: bool = False,
    **overrides: Any,
) -> VerificationPlan:
    """Forecast the cost of a verdict: rounds, evaluations, seconds, or the rows of a table.

    Parameters
    ----------
    spec
        The question: a spec, or the path of a spec file, which may contain several [[property]] tables. Without a spec,
        the kind of the property is `difference`, or the `kind` in `overrides`. The inputs are then the rows of a table
        if `rows` is given, and otherwise drawn.
    model, data
        As for `verify`. The model is evaluated only for a pilot.
    gap
        The assumed true value: the largest difference between groups, the smallest ratio, or for `individual` the share
        of decisions that change. By default, halfway between the value for equal rates and the threshold.
    rate, rates
        `rate` is the assumed rate of the outcome in the group with the highest rate. `rates` are the assumed rates of
        all groups, instead of `gap` and `rate`.
    differ
        The assumed share of rounds in which two groups get different decisions.
    groups, rows, questions
        Without a spec: the number of groups, the number of rows of each group in a sample, and the number of questions
        that share delta.
    speed
        Evaluations per second. Without `speed` and without a pilot, seconds are not forecast.
    pilot
        Number of rounds on which the model is evaluated first. The measured rates replace the assumed rates. The seed
        of the pilot is not used by any verdict.
    curve
        Whether to forecast the cost for other assumed gaps too.
    overrides
        Values that replace keys of the spec, as for `verify`. Without a spec, only `threshold`, `delta` and `kind`.

    Examples
    --------
    >>> print(plan(threshold=0.1, delta=1e-6, gap=0.05, rate=0.3, differ=0.1).evaluations.mean > 2000)
    True
    """
    if rates is not None and gap is not None:
        raise SpecError("rates, gap: the gap follows from the rates; give one of the two")
    numbers = {"rate": rate, "gap": gap, "differ": differ}
    for name, value in (*numbers.items(), *((f"rates: {each}", each) for each in rates or ())):
        if value is not None and not 0 <= value <= 1:
            raise SpecError(f"{name}: found {value:g}; write a number from 0 to 1")
    if speed is not None and not (speed > 0 and isfinite(speed)):
        raise SpecError(f"speed: found {speed:g}; write the number of evaluations per second, above 0")
    assume = _Assumed(gap=gap, rate=rate, rates=None if rates is None else tuple(rates), differ=differ)
    if spec is None:
        if pilot is not None or model is not None or data is not None:
            raise SpecError("pilot, model, data: need a spec, which states the inputs of the model")
        bare = _bare_question(groups, questions, **overrides)
        found = [_without_spec(bare, rows, groups, assume, curve=curve)] * questions
    else:
        if rows is not None or questions != 1 or groups != 2:
            raise SpecError(SPEC_HAS_ITS_OWN)
        measured = {"gap": gap, "rates": rates, "differ": differ, "speed": speed}
        if pilot is not None and (assumed := [name for name, value in measured.items() if value is not None]):
            raise SpecError(MEASURED_AND_ASSUMED.format(name=assumed[0]))
        specs = load_specs(spec) if isinstance(spec, str | Path) else (spec,) if isinstance(spec, Spec) else tuple(spec)
        changed = divided([read_question(each, **spec_changes(overrides)) for each in specs])
        found = [_of_spec(each, model, data, pilot, assume, curve=curve) for each in changed]
    if speed is not None:
        found = [
            replace_record(
                each,
                seconds=each.evaluations.times(1 / speed),
                assumptions=(*each.assumptions, f"{speed:,.10g} evaluations a second"),
            )
            for each in found
        ]
    seconds = [each.seconds for each in found if each.seconds is not None]
    return VerificationPlan(
        delta=float(f"{found[0].delta * len(found):.12g}"),
        evaluations=_sum([each.evaluations for each in found]),
        seconds=_sum(seconds) if len(seconds) == len(found) else None,
        questions=tuple(found),
    )


@dataclass(frozen=True)
class _Assumed:
    """The caller's assumptions; None if not stated."""

    gap: float | None
    rate: float
    rates: tuple[float, ...] | None
    differ: float | None

    def of(self, question: _Question) -> tuple[list[float], float | None, tuple[str, ...]]:
        """Return a rate for each subgroup, the share of rounds that differ (None: independent), and the sentences."""
        individual = question.kind == "individual"
        if self.rates is None:
            equal = 1.0 if question.kind == "ratio" else 0.0
            gap = self.gap if self.gap is not None else round((equal + question.threshold) / 2, 12)
            halfway = "" if self.gap is not None else ", halfway between equal rates and the threshold"
            what = {"ratio": "the smallest ratio", "individual": "the share of decisions that change"}
            stated = [f"{what.get(question.kind, 'the largest difference')} is {gap:g}{halfway}"]
            rates = question.rates(gap, self.rate)
            if not individual:
                others = "; other groups are spread evenly between" if len(set(rates)) > 2 else ""
                stated.append(f"the highest rate is {max(rates):g}, the lowest {min(rates):g}{others}")
        else:
            counted = len(question.comparison.subgroups)
            if individual or len(self.rates) != counted:
                wanted = "gap, the share" if individual else f"{counted}, one for each group"
                raise SpecError(f"rates: found {len(self.rates)}; write {wanted}")
            rates = list(self.rates)
            stated = ["the rates are " + ", ".join(f"{each:g}" for each in rates)]
        if individual:
            return rates, None, tuple(stated)
        if self.differ is None and not question.coupled:
            return rates, None, (*stated, "groups are drawn independently")
        least, most = differing(rates)
        differ = least + DIFFER_PART * (most - least) if self.differ is None else self.differ
        if not least - 1e-9 <= differ <= most + 1e-9:
            raise SpecError(f"differ: found {differ:g}; these rates allow {least:.4g} to {most:.4g}")
        return rates, differ, (*stated, f"two groups get different decisions in {differ:.3g} of all rounds")


def _bare_question(
    groups: int,
    questions: int,
    threshold: float | None = None,
    delta: float | None = None,
    kind: str | None = None,
    **unknown: Any,
) -> _Question:
    """Return a question without a spec."""
    if unknown:
        raise SpecError(f"{', '.join(unknown)}: needs a spec; give one")
    kind = kind or "difference"
    if kind not in ("difference", "ratio", "individual"):
        raise SpecError(f'kind: found "{kind}"; write difference, ratio or individual')
    if threshold is None or not 0 < threshold < 1:
        raise SpecError("threshold: missing; write a number between 0 and 1")
    delta = Guarantee().delta if delta is None else delta
    if not 0 < delta < 1:
        raise SpecError(f"delta: found {delta:g}; write a number between 0 and 1")
    if groups < 2 or questions < 1:
        raise SpecError("groups, questions: give at least two groups and one question")
    exact = Fraction(repr(float(threshold)))
    limit = 1 - exact if kind == "ratio" else exact
    individual = kind == "individual"
    comparison = Comparison(
        tuple(Subgroup(name, Group(name, ())) for name in (f"group {place + 1}" for place in range(groups))),
        () if individual else (1,),
        every_pair(2 if individual else groups, 1),
        "ratio" if kind == "ratio" else "difference",
        individual=individual,
    )
    share = delta / questions
    return _Question(
        name=f"{kind} {'at least' if kind == 'ratio' else 'at most'} {threshold:g}",
        kind=kind,  # type: ignore[arg-type]  # one of the three
        threshold=threshold,
        limit=limit,
        delta=share,
        comparison=comparison,
        rule=partial(betting_rule, comparison, float(limit), share),
    )


def _without_spec(
    question: _Question, rows: int | Sequence[int] | None, groups: int, assume: _Assumed, *, curve: bool
) -> QuestionPlan:
    """Return the plan for drawn inputs, with the rows that a table would need, or for a table with these rows."""
    if rows is None:
        found = _of_rounds(question, None, assume, curve=curve)
        if question.kind == "individual":
            return found
        return replace_record(found, rows=_of_sample(question, None, assume, curve=False).rows)
    sizes = [rows] * groups if isinstance(rows, int) else list(rows)
    if len(sizes) != groups or min(sizes) < 1:
        raise SpecError(f"rows: found {len(sizes)} numbers; write one for each of {groups} groups, each above 0")
    return _of_sample(question, np.array(sizes, np.int64), assume, curve=curve)


def _of_spec(spec: Spec, model: Any, data: Any, pilot: int | None, assume: _Assumed, *, curve: bool) -> QuestionPlan:
    """Return the plan of a question."""
    refuse_shift(spec, "a plan")
    table = isinstance(spec.population, Table)
    if table and pilot is not None:
        raise SpecError(PILOT_OF_ROWS)
    if pilot is not None and not spec.model.deterministic and isinstance(model, Journaled) and model.has_file:
        raise SpecError(PILOT_IN_JOURNAL)
    if not table and data is None and pilot is None and not may_count(spec):
        return _of_rounds(_question_of(spec, comparison_of(spec)), spec, assume, curve=curve)
    case = gather(model, spec, data=data) if pilot is not None else case_of(spec, None, read_rows(spec, data))
    question = _question_of(spec, case.comparison)
    if table or (may_count(spec) and spec.guarantee.engine in ("auto", "counting")):
        sample = isinstance(spec.population, Table) and spec.population.reading == "sample"
        recorded = isinstance(spec.population, Table) and spec.population.prediction is not None
        rows = 0 if recorded else counted_evaluations(case)
        if sample:
            found = _of_sample(question, _subgroup_sizes(case), assume, curve=curve)
            return replace_record(found, evaluations=Spread(rows, rows))
        if table or rows <= FEW_TEXTS or spec.guarantee.engine == "counting":
            if pilot is not None:
                raise SpecError(PILOT_OF_ROWS)
            return question.plan(engine="counting", evaluations=Spread(rows, rows), assumptions=(EVERY_INPUT,))
    if pilot is None:
        return _of_rounds(question, spec, assume, curve=curve)
    return _of_pilot(case, question, pilot, curve=curve)


def _question_of(spec: Spec, comparison: Comparison) -> _Question:
    return _Question(
        name=str(spec.property),
        kind=kind_of(spec),  # type: ignore[arg-type]  # one of the three
        threshold=spec.property.threshold,
        limit=limit_of(spec),
        delta=spec.guarantee.delta,
        comparison=comparison,
        rule=partial(rule_for, spec, comparison),
        coupled=shows_same_individual(spec),
    )


def _of_rounds(question: _Question, spec: Spec | None, assume: _Assumed, *, curve: bool) -> QuestionPlan:
    """Return the plan for drawn inputs, or enumerated ones if that is cheaper."""
    rates, differ, assumptions = assume.of(question)
    most_rounds = HORIZON if spec is None else _worth_sampling(spec)
    forecast = question.forecast(rates, differ, most_rounds=most_rounds)
    points = _curve(question, max(rates), partial(_cost, question, assume)) if curve else ()
    return _cheapest(spec, question, forecast, assumptions, points)


def _cost(question: _Question, assume: _Assumed, rates: Sequence[float]) -> dict[str, Any]:
    least, most = differing(rates) if question.kind != "individual" else (0.0, 0.0)
    given = least + DIFFER_PART * (most - least) if question.coupled else None
    if assume.differ is not None:
        given = min(max(assume.differ, least), most)
    found = question.forecast(rates, None if question.kind == "individual" else given, CURVE_RUNS)
    return {"verdict": found.decision, "evaluations": found.evaluations}


def _worth_sampling(spec: Spec) -> int:
    """Return the rounds after which a run would certainly have switched to an enumeration."""
    fewest = fewest_evaluations(spec)
    return int(min(4 * fewest, HORIZON)) if spec.guarantee.engine == "auto" else HORIZON


def _cheapest(
    spec: Spec | None,
    question: _Question,
    sampled: RunForecast,
    assumptions: tuple[str, ...],
    curve: tuple[CurvePoint, ...],
) -> QuestionPlan:
    """Return the plan of the engine that a verdict would use: an enumeration takes over if it costs less."""
    about: dict[str, Any] = {"verdict": sampled.decision, "assumptions": assumptions, "curve": curve}
    found = question.plan(engine="sampling", evaluations=sampled.evaluations, rounds=sampled.rounds, **about)
    if spec is None or spec.guarantee.engine not in ("auto", "enumeration") or spec.guarantee.rule == "paper":
        return found
    fewest, mean = fewest_evaluations(spec), sampled.evaluations.mean
    if not isfinite(fewest):
        return found
    # Sampling comes first, until it is forecast to need more, or has cost as much.
    cost = Spread((1 + FIRST_FORECAST) * fewest, 2 * fewest)
    few = max(FEW_EVALUATIONS, fewest_rounds(spec) * len(question.comparison.subgroups))
    if spec.guarantee.engine == "enumeration" or fewest <= few:
        cost = Spread(fewest, fewest)
    elif mean is not None and mean <= fewest:
        return found
    return question.plan(engine="enumeration", evaluations=cost, **about)


def _of_pilot(case: Case, question: _Question, rounds: int, *, curve: bool) -> QuestionPlan:
    """Return the plan from rounds of the model itself, and its speed."""
    if rounds < LEAST_PILOT:
        raise SpecError(f"pilot: found {rounds}; write at least {LEAST_PILOT} rounds")
    assert case.model is not None
    comparison, groups = case.comparison, tuple(range(len(case.comparison.subgroups)))
    # Not the seed of the verdict: a pilot must not select a question that the same inputs answer.
    seed = family_seed([case.seed.value, rounds])
    sampler = Sampler(case.model, case.population, seed, comparison)
    sampler.labels(0, LEAST_PILOT, groups)
    start = time.perf_counter()
    labels = sampler.labels(1, rounds, groups)
    speed = rounds * len(groups) / max(time.perf_counter() - start, 1e-9)
    folded = comparison.fold(labels)
    hits = folded == np.array(comparison.rows)[:, None, None]
    worst = hits[int(np.ptp(hits.mean(axis=2), axis=1).argmax())]
    rates = worst.mean(axis=1).tolist()
    individual = question.kind == "individual"
    assumptions = (
        f"a pilot of {rounds:,} rounds: {'a share' if individual else 'rates'} of "
        + ", ".join(f"{each:.3g}" for each in (rates[:1] if individual else rates)),
        f"{speed:,.0f} evaluations a second, measured in one thread",
    )
    forecast = question.of_answers(RoundAnswers.seen(folded), most_rounds=_worth_sampling(case.spec))
    points: tuple[CurvePoint, ...] = ()
    if curve:
        differ = float(np.mean([(one != other).mean() for one, other in combinations(worst, 2)]))
        assume = _Assumed(gap=None, rate=max(rates), rates=None, differ=differ)
        points = _curve(question, max(rates), partial(_cost, question, assume))
    found = _cheapest(case.spec, question, forecast, assumptions, points)
    return replace_record(found, seconds=found.evaluations.times(1 / speed))


def _curve(question: _Question, rate: float, cost: Callable[[list[float]], dict[str, Any]]) -> tuple[CurvePoint, ...]:
    """Return the cost of other gaps, at the same highest rate."""
    points = []
    for times in CURVE:
        unfair = times * float(question.limit)
        gap = round(1 - unfair if question.kind == "ratio" else unfair, 12)
        if gap < 0 or gap > (1 if question.kind != "difference" else rate):
            continue
        points.append(CurvePoint(gap=gap, **cost(question.rates(gap, rate))))
    return tuple(points)


def _of_sample(question: _Question, sizes: NDArray[np.int64] | None, assume: _Assumed, *, curve: bool) -> QuestionPlan:
    """Return the plan for a table that is read as a sample; without sizes all groups have the same number of rows."""
    if not question.comparison.disjoint or question.kind == "individual":
        raise SpecError(ONLY_DISJOINT_GROUPS)
    question = replace(question, coupled=False)
    known = sizes is not None
    if known and assume.differ is not None:
        raise SpecError(DIFFER_OF_ROWS)
    sizes = np.ones(len(question.comparison.subgroups), np.int64) if sizes is None else sizes
    rates, _, assumptions = replace(assume, differ=None).of(question)
    sample = _Sample(question, sizes)
    gap = question.gap_of(rates)
    rows = RowsPlan(
        sizes=tuple(sizes.tolist()) if known else None,
        decided=sample.decided(rates, 1) if known else None,
        needed=sample.needed(rates),
        fair_up_to=sample.extreme(max(rates), above=False) if known else None,
        unfair_from=sample.extreme(max(rates), above=True) if known else None,
    )

    def cost(some: list[float]) -> dict[str, Any]:
        needed = sample.needed(some)
        return {"verdict": question.decides(question.gap_of(some)), "rows": max(needed) if needed else None}

    return question.plan(
        engine="counting",
        evaluations=Spread(int(sizes.sum()), int(sizes.sum())),
        verdict=question.decides(gap) if gap != question.threshold else None,
        assumptions=assumptions,
        rows=rows,
        curve=_curve(question, max(rates), cost) if curve else (),
    )


@dataclass(frozen=True, eq=False)
class _Sample:
    """Samples of rows from groups with assumed rates, and whether they decide a question."""

    question: _Question
    sizes: NDArray[np.int64]

    def decided(self, rates: Sequence[float], times: float, runs: int = RUNS) -> float:
        """Return the share of samples that give the correct verdict, each with this multiple of the rows."""
        question, comparison = self.question, self.question.comparison
        trials = np.maximum(np.ceil(self.sizes * times), 1).astype(np.int64)
        # The same random numbers for every size and rate: the share increases with the rows, except for single steps.
        uniforms = np.random.default_rng(0).random((runs, len(trials)))
        successes = binom.ppf(uniforms, trials, np.asarray(rates)).astype(np.int64)
        table = np.zeros((runs, len(comparison.rows), len(trials)), np.int64)
        table[:, 0] = trials - successes
        table[:, -1] = successes
        fair = question.decides(question.gap_of(rates)) == "FAIR"
        pairs = comparison.compared, comparison.measure
        return float(decided_samples(trials, table, *pairs, question.delta, question.limit, fair=fair).mean())

    def needed(self, rates: Sequence[float]) -> tuple[int, ...] | None:
        """Return the rows of each subgroup with which 95 of 100 samples decide, within 3%; None beyond a billion."""
        if self.question.gap_of(rates) == self.question.threshold:
            return None
        few, many = 0.0, max(1.0 / int(self.sizes.min()), 0.125)
        while self.decided(rates, many) < POWER:
            few, many = many, 2 * many
            if many * self.sizes.max() > MOST_PLANNED_ROWS:
                return None
        while many - few > 0.03 * many and (many - few) * self.sizes.min() > 1:
            middle = (few + many) / 2
            few, many = (few, middle) if self.decided(rates, middle) >= POWER else (middle, many)
        return tuple(ceil(each) for each in (self.sizes * many).tolist())

    def extreme(self, rate: float, *, above: bool) -> float | None:
        """Return the gap nearest to the threshold on one side that 95 of 100 samples decide; None if there is none."""
        question = self.question
        relative = question.kind == "ratio"
        near = question.threshold if above or relative else min(question.threshold, rate)
        far = float(relative) if not above else 0.0 if relative else rate
        if self.decided(question.rates(far, rate), 1) < POWER:
            return None
        for _ in range(8):
            middle = (near + far) / 2
            decided = self.decided(question.rates(middle, rate), 1) >= POWER
            near, far = (near, middle) if decided else (middle, far)
        return round(far, 4)


def _subgroup_sizes(case: Case) -> NDArray[np.int64]:
    """Return (subgroups,): the number of rows of a table in each subgroup."""
    assert case.rows is not None
    assert case.members is not None
    of = dict(zip(case.groups, case.members, strict=True))
    sizes = []
    for each in case.comparison.subgroups:
        if each.group is None:
            raise SpecError(ONLY_DISJOINT_GROUPS)
        mask = of[each.group]
        sizes.append(case.rows.sizes(mask if each.truth is None else mask & (case.rows.truth == each.truth)))
    return np.array(sizes, np.int64)


def _sum(spreads: Sequence[Spread]) -> Spread:
    """Return the sum of the means and of the 95% values; None if one of them is None."""
    ends = zip(*((each.mean, each.most) for each in spreads), strict=True)
    return Spread(*(None if None in end else float(sum(each for each in end if each is not None)) for end in ends))
