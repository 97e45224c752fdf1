"""The choice of an engine: the cheapest that can answer a case, unless the spec names an engine.

Rows of a table are counted, and so are the texts of a corpus of moderate size. A small input space is enumerated
immediately. Otherwise inputs are sampled first. If the input space is finite, the enumeration takes over as soon as
sampling has cost as much as evaluating all inputs, or is forecast to need more: a gap near the threshold costs at most
about twice an enumeration. Small ReLU networks with few real inputs are passed to branch and bound if sampling is not
forecast to reach a verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache
from math import floor, inf, log, prod
from pathlib import Path
from threading import Event

from msgspec import Struct

from fairchain.errors import ModelError, SpecError
from fairchain.executors import Workers
from fairchain.prepare import Case
from fairchain.spec import (
    BayesNetwork,
    CategoryFeature,
    Feature,
    Marginals,
    ProbabilityFormula,
    Spec,
    Table,
    Uniform,
    domain_of,
    groups_of,
)
from fairchain.spec.load import content_of, spec_from
from fairchain.spec.properties import limit_of, shifts_alike
from fairchain.spec.validate import may_count, no_bounds
from fairchain.statistics import DIFFERENCE, Decision, Rule
from fairchain.statistics.e_values import rounds_to_go
from fairchain.verification.answers import Answer, AnswerEngine
from fairchain.verification.progress import Report
from fairchain.verification.sampling import Leave, SamplingEngine

NOT_CONTINUED = (
    "checkpoint: only an enumeration or sampling can be continued; choose one by --engine (engine = ... in [guarantee])"
)
CHECKPOINT_NEEDS_FILE = (
    "checkpoint: needs a model that is a file, because a function may have changed in the meantime; answers of a "
    "service or of Python code are kept by --journal (journaled, or journal=... of a Service)"
)
# Spaces with at most this many evaluations are enumerated immediately: they take a few milliseconds.
FEW_EVALUATIONS = 2048
# A corpus with at most this many evaluations is counted immediately.
FEW_TEXTS = 2**15
# No network is expected to make more evaluations per second: a space that exceeds the budget at this rate is not
# considered.
MOST_SPEED = 2e7
# Branch and bound takes over from sampling for at most this many features beside the protected ones and this many
# ReLUs, after this many evaluations, if sampling is forecast to need this multiple of the remaining seconds.
MOST_AXES, MOST_RELUS = 3, 128
LEAST_SAMPLED, HOPELESS = 2**18, 2
# Fractions of an enumeration's cost at which the remaining cost of sampling is forecast.
FIRST_FORECAST = 1 / 16


def engine_for(case: Case, *, certify: bool = False, checkpoint: Path | None = None) -> AnswerEngine:
    """Return the engine that answers a case.

    With `certify` its answers have certificates; with a `checkpoint` it continues from this file.
    """
    guarantee = case.spec.guarantee
    if checkpoint is not None:
        if guarantee.engine not in ("enumeration", "sampling") or isinstance(case.spec.population, Table):
            raise SpecError(NOT_CONTINUED)
        if not case.model_sha256:
            raise ModelError(CHECKPOINT_NEEDS_FILE)
    if isinstance(case.spec.population, Table):
        from fairchain.verification.counting import CountingEngine

        return CountingEngine()
    # The rates of each group alone do not determine the decisions about one individual as two groups.
    alike = shifts_alike(case.spec)
    if may_count(case.spec) and guarantee.engine in ("auto", "counting") and not alike:
        return CorpusEngine()
    if guarantee.engine == "enumeration":
        from fairchain.verification.enumeration import EnumerationEngine

        return EnumerationEngine(checkpoint=checkpoint)
    if guarantee.engine == "bounds":
        from fairchain.verification.bounding import BoundingEngine

        return BoundingEngine()
    if guarantee.engine == "sampling" or guarantee.rule == "paper" or alike:
        return SamplingEngine(checkpoint=checkpoint)
    content = content_of(case.spec)
    fewest = fewest_evaluations(case.spec) if content is None else _fewest(content)
    if fewest > MOST_SPEED * guarantee.budget.seconds:
        return SamplingEngine() if certify or not _few_axes(case.spec) else ProofEngine()
    return CheapestEngine(fewest)


def _few_axes(spec: Spec) -> bool:
    """Return whether branch and bound may prove an answer: few features beside the protected ones, all independent."""
    protected = spec.protected
    drawn = [feature for feature in spec.features if feature.model_input and feature.name not in protected]
    plain = spec.property.shift is None and spec.guarantee.epsilon is None
    return plain and len(drawn) <= MOST_AXES and not no_bounds(spec)


def fewest_evaluations(spec: Spec) -> float:
    """Return the approximate number of evaluations of an enumeration; infinite for real features and random models.

    This takes microseconds. Features that the network ignores without being declared so, and values that a population
    does not have, are not known yet, so the true number may be smaller.
    """
    if not isinstance(spec.population, Uniform | Marginals | BayesNetwork) or not spec.model.deterministic:
        return inf
    needed = set(spec.protected)
    if spec.property.given is not None:
        from fairchain.spec.conditions import given_features

        needed.update(given_features(spec))
    if isinstance(spec.property, ProbabilityFormula):
        needed.update(name for group in groups_of(spec) if group.condition for name in group.condition.names)
    sizes = [domain_of(each).size or inf if each.name in needed else _codes(each) for each in spec.features]
    return prod(sizes, start=1.0)


@lru_cache(maxsize=32)
def _fewest(content: bytes) -> float:
    """Return the same for the content of a spec, computed once."""
    return fewest_evaluations(spec_from(content))


def _codes(feature: Feature) -> float:
    """Return the number of different encodings of a feature."""
    if not feature.model_input:
        return 1
    if isinstance(feature, CategoryFeature):
        return len(set(feature.codes)) if feature.codes is not None else len(feature.values)
    if feature.bins is not None:
        return len(feature.bins) + 1
    if feature.step is not None:
        return floor(feature.high / feature.step) - floor(feature.low / feature.step) + 1
    return domain_of(feature).size or inf


def fewest_rounds(spec: Spec) -> float:
    """Return the smallest number of rounds of a FAIR verdict if no round shows a difference.

    The evidence for no other measure grows faster than that for the difference.
    """
    limit = float(limit_of(spec))
    if limit <= 0:
        return inf
    return float(rounds_to_go(0.0, [0, 1, 0], DIFFERENCE.against_at_least(limit), log(2 / spec.guarantee.delta)))


class CheapestEngine(Struct):
    """Engine that enumerates a small input space immediately; otherwise it samples, and enumerates if that is cheaper.

    `fewest` is the approximate number of evaluations of an enumeration.
    """

    fewest: float

    def answer(self, case: Case, *, workers: Workers, cancel: Event, progress: Report | None) -> Answer:
        """Answer a case whose input space may be finite."""
        from fairchain.input_space import InputSpace, input_space
        from fairchain.verification.enumeration import EnumerationEngine

        groups = len(case.comparison.subgroups)
        budget, allowed = case.seconds, case.spec.guarantee.budget.evaluations
        next_forecast = 0.0

        @cache
        def inputs() -> InputSpace | None:
            try:
                return input_space(case)
            except SpecError:
                return None

        if self.fewest <= max(FEW_EVALUATIONS, fewest_rounds(case.spec) * groups):
            space = inputs()
            if space is not None and (allowed is None or space.evaluations <= allowed):
                few = EnumerationEngine(inputs=space)
                return few.answer(case, workers=workers, cancel=cancel, progress=progress)

        def leave(rule: Rule, evaluations: int, seconds: float) -> bool:
            nonlocal next_forecast
            if evaluations < FIRST_FORECAST * self.fewest:
                return False
            space = inputs()
            if space is None or space.evaluations * seconds > evaluations * (budget - seconds):
                return False
            if allowed is not None and evaluations + space.evaluations > allowed:
                return False
            if evaluations >= space.evaluations:
                return True
            if evaluations < next_forecast:
                return False
            next_forecast = 2 * evaluations
            to_go = rule.forecast()
            return to_go is not None and to_go * groups > space.evaluations

        def enumeration(seconds: float) -> EnumerationEngine:
            return EnumerationEngine(inputs=inputs(), seconds=seconds)

        return _sampled_first(case, leave, enumeration, workers, cancel, progress)


class ProofEngine(Struct):
    """Engine that samples; if no verdict is forecast within the budget, it proves one by branch and bound if that is
    quick.

    Only a certain answer replaces the sampled one, so the error probability is spent once.
    """

    def answer(self, case: Case, *, workers: Workers, cancel: Event, progress: Report | None) -> Answer:
        """Answer a case about a network with few features."""
        budget, groups = case.seconds, len(case.comparison.subgroups)
        looked = 0

        def leave(rule: Rule, evaluations: int, seconds: float) -> bool:
            nonlocal looked
            if evaluations < max(LEAST_SAMPLED, 2 * looked):
                return False
            looked, to_go = evaluations, rule.forecast()
            if to_go is not None and to_go * groups * seconds <= HOPELESS * (budget - seconds) * evaluations:
                return False
            from fairchain.models.inspect.relu_layers import relu_network

            try:
                return relu_network(case.model).units <= MOST_RELUS
            except ModelError:
                return False

        def bounding(seconds: float) -> AnswerEngine:
            from fairchain.verification.bounding import BoundingEngine

            return BoundingEngine(sampling=False, seconds=seconds)

        return _sampled_first(case, leave, bounding, workers, cancel, progress)


def _sampled_first(
    case: Case,
    leave: Leave,
    certain: Callable[[float], AnswerEngine],
    workers: Workers,
    cancel: Event,
    progress: Report | None,
) -> Answer:
    """Sample until `leave`; then use the engine `certain`, given the remaining seconds.

    If that is undecided, the narrower of the two intervals is the answer.
    """
    spent = 0.0

    def leaves(rule: Rule, evaluations: int, seconds: float) -> bool:
        nonlocal spent
        spent = seconds
        return leave(rule, evaluations, seconds)

    sampled = SamplingEngine(leave=leaves).answer(case, workers=workers, cancel=cancel, progress=progress)
    if sampled.stopped != "left":
        return sampled
    found = certain(case.seconds - spent).answer(case, workers=workers, cancel=cancel, progress=progress)
    widths = [answer.gap.high - answer.gap.low for answer in (sampled, found)]
    undecided = found.decision is Decision.UNDECIDED and widths[0] < widths[1]
    return replace(sampled, stopped=found.stopped) if undecided else found


class CorpusEngine(Struct):
    """Engine that counts a corpus of moderate size, or if the spec says so; others only if sampling costs more."""

    def answer(self, case: Case, *, workers: Workers, cancel: Event, progress: Report | None) -> Answer:
        """Answer a case about a finite corpus."""
        from fairchain.verification.counting import CountingEngine, counted_evaluations

        guarantee = case.spec.guarantee
        needed, allowed = counted_evaluations(case), guarantee.budget.evaluations
        few = needed <= FEW_TEXTS and (allowed is None or needed <= allowed)
        engine = CountingEngine()
        if few or guarantee.engine == "counting":
            return engine.answer(case, workers=workers, cancel=cancel, progress=progress)

        def leave(_rule: Rule, evaluations: int, seconds: float) -> bool:
            if allowed is not None and evaluations + needed > allowed:
                return False
            return evaluations >= needed and needed * seconds <= evaluations * (case.seconds - seconds)

        sampled = SamplingEngine(leave=leave).answer(case, workers=workers, cancel=cancel, progress=progress)
        if sampled.stopped != "left":
            return sampled
        return engine.answer(case, workers=workers, cancel=cancel, progress=progress)
