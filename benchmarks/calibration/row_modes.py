"""Modes that count rows: tables as samples and as populations, recorded decisions, metrics, and monitored streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks.calibration.known_truth import (
    DELTA,
    NO_YES,
    ROUNDING,
    Labels,
    Model,
    Plain,
    Truth,
    Values,
    as_labels,
    below,
    category,
    formula,
    mistakes,
    number,
    outside,
    rates_of,
    spec_of,
)
from benchmarks.calibration.measure import GAP, RATES, VERDICT, Effort, Mode, Wrong
from benchmarks.calibration.unsound import Breaking, exchanged
from fairchain import Decision, Interval, Verdict, metrics, verify
from fairchain.errors import SpecError
from fairchain.monitoring import Monitor
from fairchain.monitoring.bounds import monitored_gap_bounds
from fairchain.monitoring.several import StreamQuestion, stream_questions
from fairchain.spec import Spec
from fairchain.statistics import rate_counts as counts
from fairchain.statistics.intervals import Floats
from fairchain.statistics.rate_counts import Level, RowsAnswer, SubgroupCounts, fixed_sample

AT_THRESHOLD = "gap equal to the threshold"
SAMPLE, RECORDED = "table as sample", "recorded decisions as sample"
# How often the intervals of a stream are looked at.
LOOKS = 12
# How often each row occurs in a table whose rows are not independent.
COPIES = 32
DUPLICATES = f"every row occurs {COPIES} times in the table"
Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Source:
    """Where rows come from: shares of groups, P(yes) in each, and for true labels the share of those who truly are 1.

    `rates` has a row for each true label, (truths, groups), or one row where there are none.
    """

    shares: tuple[float, ...]
    rates: tuple[tuple[float, ...], ...]
    truly: float | None = None

    def draw(self, rng: np.random.Generator, size: int) -> Columns:
        """Draw independent rows: group, decision, true label."""
        group = rng.choice(len(self.shares), size, p=self.shares)
        truth = (rng.random(size) < (self.truly or 0.0)).astype(np.int64)
        decision = (rng.random(size) < np.array(self.rates)[truth, group]).astype(np.int64)
        return {"group": group, "decision": decision, "truth": truth}


def table_of(columns: Columns, copies: int = 1) -> dict[str, list[Any]]:
    """Return the cells of a table, perhaps with every row several times."""
    rows = {name: np.repeat(column, copies) for name, column in columns.items()}
    return {
        "g": [f"g{i}" for i in rows["group"]],
        "d": rows["decision"].tolist(),
        "t": rows["truth"].tolist(),
    }


@dataclass(frozen=True)
class Counting:
    """One property of rows, verified on many tables."""

    spec: Spec
    source: Source
    size: int
    truth: Truth

    def play(self, seed: int, _: Effort, copies: int = 1) -> Wrong:
        """Draw a table and verify once."""
        columns = self.source.draw(np.random.default_rng((seed, 1)), self.size)
        return mistakes(verdict_on(None, self.spec, table_of(columns, copies)), self.truth)


def verdict_on(model: Any, spec: Spec, table: dict[str, list[Any]]) -> Verdict:
    """Return the verdict on a table without its forecast, which guarantees nothing and takes most of the time."""
    with exchanged(RowsAnswer, "forecast", lambda _: None):
        return verify(model, spec, data=table, workers=1)


def recorded(about: Plain, source: Source, size: int, gap: float, **more: Any) -> Counting:
    """Return a question about recorded decisions."""
    population = {"kind": "table", "as": "sample", "prediction": "d", **({"label": "t"} if source.truly else {})}
    spec = spec_of([category("g", len(source.shares))], about, population, **more)
    names = [f"g=g{i}" for i in range(len(source.shares))]
    rates = {} if source.truly else {(name, "yes"): p for name, p in zip(names, source.rates[0], strict=True)}
    return Counting(spec, source, size, Truth(gap, rates))


def recorded_modes() -> list[Mode]:
    """Return the properties of recorded decisions, all with duplicated rows as the unsound variant."""
    two, five = Source((0.3, 0.7), ((0.4, 0.6),)), Source((0.1, 0.2, 0.2, 0.2, 0.3), ((0.4, 0.6, 0.5, 0.5, 0.6),))
    odds = Source((0.4, 0.6), ((0.2, 0.4), (0.6, 0.8)), 0.5)
    even, huge = Source((0.5, 0.5), ((0.2, 0.6),)), Source((0.03, 0.97), ((0.4, 0.6),))
    questions = [
        ("difference, 2 groups", recorded({"threshold": 0.2}, two, 200, 0.2)),
        ("difference, one huge group", recorded({"threshold": 0.2}, huge, 2000, 0.2)),
        ("difference, 5 groups", recorded({"threshold": 0.2}, five, 400, 0.2)),
        ("difference, 5 groups, min_size", recorded({"threshold": 0.2, "min_size": 30}, five, 400, 0.2)),
        ("ratio, 2 groups", recorded({"kind": "ratio", "threshold": 0.8, "outcome": "yes"}, _ratio(), 300, 0.8)),
        ("equal opportunity", recorded(_criterion("equal_opportunity", outcome="yes"), odds, 300, 0.2)),
        ("equalized odds", recorded(_criterion("equalized_odds", outcome="yes"), odds, 300, 0.2)),
        ("difference to overall", recorded({"threshold": 0.2, "compare": "overall"}, even, 300, 0.2)),
        ("formula, ratio", recorded(formula("P(yes | g=g0) / P(yes | g=g1) >= 0.8"), _ratio(), 300, 0.8)),
        ("formula, overlapping groups", recorded(formula("P(yes | g=g0) - P(yes) <= -0.2"), even, 300, -0.2)),
        ("average", recorded({"threshold": 0.2, "compare": "average"}, Source((0.1, 0.9), ((0.1, 0.6),)), 100, 0.2)),
    ]
    return [
        Mode(
            RECORDED,
            about,
            "fixed-sample bounds",
            AT_THRESHOLD,
            DELTA,
            counting.play,
            DUPLICATES,
            partial(counting.play, copies=COPIES),
            # The copies are seen less often here.
            share=1.7 if about == "average" else 1.0,
        )
        for about, counting in questions
    ]


def _ratio() -> Source:
    return Source((0.4, 0.6), ((0.6, 0.75),))


def _criterion(name: str, **more: Any) -> Plain:
    return {"criterion": name, "threshold": 0.2, **more}


@dataclass(frozen=True)
class Asking:
    """One question that a model answers about the rows of many tables: a group and a number from 0 to 999."""

    spec: Spec
    model: Model
    groups: int
    size: int
    truth: Truth

    def play(self, seed: int, _: Effort, copies: int = 1) -> Wrong:
        """Draw a table and verify once."""
        rng = np.random.default_rng((seed, 2))
        group, x, y = (np.repeat(rng.integers(0, most, self.size), copies) for most in (self.groups, 1000, 10))
        table: dict[str, list[Any]] = {"g": [f"g{i}" for i in group], "x": x.tolist(), "y": y.tolist()}
        return mistakes(verdict_on(self.model, self.spec, table), self.truth)


def _three_labels(values: Values) -> Labels:
    edges = np.array([[200, 500], [400, 500], [300, 500]])[values[:, 0].astype(int)]
    return as_labels((values[:, 1:2] >= edges).sum(axis=1))


def model_modes() -> list[Mode]:
    """Return rows that a model decides about."""
    features, population = [category("g", 3), number(), number("y", 9)], {"kind": "table", "as": "sample"}
    known = rates_of((200, 300, 400))
    cases = [
        ("individual", {"kind": "individual"}, below((200, 300, 400)), ("no", "yes"), {}),
        ("difference, given", {"given": "y <= 4"}, below((200, 300, 400)), ("no", "yes"), known),
        ("difference, 3 labels", {}, _three_labels, ("low", "middle", "high"), {}),
    ]
    modes = []
    for name, about, model, labels, rates in cases:
        spec = spec_of(features, {"threshold": 0.2, **about}, population, labels=labels)
        asking = Asking(spec, model, 3, 200, Truth(0.2, rates))
        unsound = partial(asking.play, copies=COPIES)
        modes.append(Mode(SAMPLE, name, "fixed-sample bounds", AT_THRESHOLD, DELTA, asking.play, DUPLICATES, unsound))
    return modes


class SmallGroups:
    """Rows in which the groups that are compared are chosen by their sizes in the same rows (`min_size`).

    Two large groups, and `rare` small ones that should have `SHARE` of `ROWS` rows each. The worst `min_size` is the
    smallest at which one small group that just reaches it brings the wrong verdict; it is found by trying.

    Parameters
    ----------
    rare
        How many small groups there are.
    delta
        The delta of the spec; an unsound variant states more than is guaranteed.
    labels
        Whether every small group has a label of its own, which all its rows get, and is compared with all rows; else
        the property is the share of rows whose decision changes with the group, and those of a small group do.
    by_hand
        Whether the small groups are left out of the spec after a look at the rows, in place of `min_size`.
    """

    ROWS, SHARE = 2000, 0.01

    def __init__(self, rare: int, delta: float, *, labels: bool) -> None:
        self.rare, self._labels, self._delta = rare, labels, delta
        self.groups = rare + 2
        self.wrong = Decision.FAIR if labels else Decision.UNFAIR

    @cache  # noqa: B019  # few objects, which live as long as the process
    def least(self, breaking: Breaking) -> int:
        """The smallest size at which a single small group that has it brings the wrong verdict; bisection."""
        few, many = int(self.ROWS * self.SHARE), 8 * int(self.ROWS * self.SHARE)
        while many - few > 1:
            middle = (few + many) // 2
            sizes = np.array([(self.ROWS - middle) // 2, (self.ROWS - middle + 1) // 2, middle, *[0] * (self.rare - 1)])
            with breaking():
                found = self._ask(np.repeat(np.arange(self.groups), sizes), middle, by_hand=not self._labels)
            few, many = (few, middle) if found.decision is self.wrong else (middle, many)
        return many

    def _spec(self, least: int, kept: Sequence[int] | None) -> Spec:
        group = category("g", self.groups)
        about: Plain = {"min_size": least}
        if kept is not None:
            group, about = {**group, "groups": {f"g{i}": f"g{i}" for i in kept}}, {}
        population = {"kind": "table", "as": "sample"}
        if self._labels:
            names = [f"l{i}" for i in range(self.rare + 1)]
            about |= {"compare": "overall", "threshold": 1 - self.SHARE - 1e-6}
            return spec_of([group], about, {**population, "prediction": "d"}, delta=self._delta, labels=names)
        about |= {"kind": "individual", "threshold": self.SHARE + 5e-6}
        return spec_of([group, number("z", self.groups - 1)], about, population, delta=self._delta)

    def _ask(self, group: Labels, least: int, *, by_hand: bool) -> Verdict:
        kept = np.flatnonzero(np.bincount(group, minlength=self.groups) >= least).tolist()
        spec, names = self._spec(least, kept if by_hand else None), [f"g{i}" for i in group]
        if self._labels:
            return verdict_on(None, spec, {"g": names, "d": np.maximum(group - 1, 0).tolist()})
        return verdict_on(_own_number, spec, {"g": names, "z": group.tolist()})

    def play(self, seed: int, _: Effort, breaking: Breaking = nullcontext, *, by_hand: bool = False) -> Wrong:
        """Draw group sizes and verify once; what is true depends on which groups are compared.

        A question that is refused is never answered wrongly.
        """
        rng = np.random.default_rng((seed, 3))
        large = (1 - self.rare * self.SHARE) / 2
        group = np.sort(rng.choice(self.groups, self.ROWS, p=[large] * 2 + [self.SHARE] * self.rare))
        least = self.least(breaking)
        try:
            with breaking():
                verdict = self._ask(group, least, by_hand=by_hand)
        except SpecError:
            return {VERDICT: False, GAP: False}
        compared = int((np.bincount(group, minlength=self.groups)[2:] >= least).sum())
        if self._labels:
            gap = 1 - self.SHARE if compared else self.rare * self.SHARE
            fair = not compared
        else:
            gap = compared * self.SHARE
            fair = compared <= 1
        wrong = frozenset([Decision.UNFAIR if fair else Decision.FAIR])
        return mistakes(verdict, Truth(gap, {}, wrong))


def _own_number(values: Values) -> Labels:
    """Say yes to a row of a small group as long as it is shown as that group."""
    return as_labels((values[:, 0] == values[:, 1]) & (values[:, 1] >= 2))


def selected_modes() -> list[Mode]:
    """Return the modes in which `min_size` selects groups by the rows that are then counted."""
    delta, rare = 0.02, 30
    overall, changes = (SmallGroups(rare, delta, labels=labels) for labels in (True, False))
    truth = "known for every set of compared groups"
    bounds = SubgroupCounts.bounds

    def at_delta(subgroups: SubgroupCounts, _: Any, method: Any) -> Any:
        return bounds(subgroups, delta, method)

    no_union = partial(overall.play, breaking=partial(exchanged, SubgroupCounts, "bounds", at_delta))
    by_hand = partial(changes.play, by_hand=True)
    removed = "small groups removed by hand after a look at the rows"
    to_overall, individual = f"difference to overall, min_size, {rare + 1} labels", "individual, min_size (refused)"
    engine = "fixed-sample bounds"
    return [
        Mode(RECORDED, to_overall, engine, truth, delta, overall.play, "every bound at delta: no union", no_union),
        Mode(SAMPLE, individual, engine, truth, delta, changes.play, removed, by_hand, share=1.7),
    ]


def _exact(seed: int, _: Effort, *, floating: bool = False) -> Wrong:
    """Verify a table that is the whole population, with groups of 10 rows and a threshold of two tenths."""
    rng = np.random.default_rng((seed, 4))
    decision = (rng.random((3, 10)) < rng.random((3, 1))).astype(np.int64)
    sums = decision.sum(axis=1)
    columns = {"group": np.repeat(np.arange(3), 10), "decision": decision.ravel(), "truth": np.zeros(30, np.int64)}
    spec = spec_of([category("g", 3)], {"threshold": 0.2}, {"kind": "table", "as": "population", "prediction": "d"})
    verdict = verdict_on(None, spec, table_of(columns))
    fair = Fraction(int(np.ptp(sums)), 10) <= Fraction(2, 10)
    # The decision, not the conclusion: a table with one decision for all rows is fair, and concluded as CONSTANT.
    fair_by_verdict = verdict.gap.estimate <= 0.2 if floating else verdict.decision is Decision.FAIR
    return {VERDICT: fair_by_verdict != fair}


def exact_modes() -> list[Mode]:
    """Return the mode whose verdicts are never wrong."""
    variant = "gap compared as a floating-point number"
    unsound = partial(_exact, floating=True)
    truth = "counted in fractions; every gap is a tenth"
    return [Mode("table as population", "difference, 3 groups", "exact", truth, 0.0, _exact, variant, unsound, share=3)]


@dataclass(frozen=True)
class Metric:
    """A metric of recorded decisions, whose true value is known."""

    function: Callable[..., Interval]
    source: Source
    size: int
    truth: float
    options: Plain

    def play(self, seed: int, _: Effort, copies: int = 1) -> Wrong:
        """Draw decisions and take the metric."""
        drawn = self.source.draw(np.random.default_rng((seed, 5)), self.size)
        rows = {name: np.repeat(column, copies) for name, column in drawn.items()}
        found = self.function(
            rows["truth"], rows["decision"], sensitive_features=rows["group"], delta=DELTA, **self.options
        )
        return {GAP: outside(self.truth, found.low, found.high)}


def _rates(seed: int, _: Effort, copies: int = 1) -> Wrong:
    source = Source((0.2, 0.3, 0.5), ((0.1, 0.5, 0.7),))
    drawn = source.draw(np.random.default_rng((seed, 6)), 300)
    rows = {name: np.repeat(column, copies) for name, column in drawn.items()}
    found = metrics.selection_rates(rows["decision"], rows["decision"], sensitive_features=rows["group"], delta=DELTA)
    return {RATES: any(outside(source.rates[0][int(str(g))], each.low, each.high) for g, each in found.items())}


def _table(seed: int, _: Effort, copies: int = 1) -> Wrong:
    """Draw decisions and make the table of metrics: selection rate, accuracy, error rates and precision by group."""
    source = Source((0.2, 0.3, 0.5), ((0.2, 0.3, 0.4), (0.5, 0.7, 0.9)), 0.4)
    drawn = source.draw(np.random.default_rng((seed, 8)), 400)
    rows = {name: np.repeat(column, copies) for name, column in drawn.items()}
    found = metrics.by_group(rows["truth"], rows["decision"], sensitive_features=rows["group"], delta=DELTA)

    def truth_of(metric: str, group: int) -> float:
        (wrong, right), truly = (each[group] for each in source.rates), source.truly or 0.0
        selected = truly * right + (1 - truly) * wrong
        return {
            "selection_rate": selected,
            "accuracy": truly * right + (1 - truly) * (1 - wrong),
            "false_positive_rate": wrong,
            "false_negative_rate": 1 - right,
            "positive_predictive_value": truly * right / selected,
        }[metric]

    known = [(each, truth_of(each.metric, int(str(each.group[0])))) for each in found.rates if each.group]
    gap = truth_of("accuracy", 2) - truth_of("accuracy", 0)
    widest = found.difference("accuracy")
    return {
        RATES: any(outside(truth, each.rate.low, each.rate.high) for each, truth in known),
        GAP: outside(gap, widest.low, widest.high),
    }


def metric_modes() -> list[Mode]:
    """Return the functions that are called as in fairlearn."""
    two, odds = Source((0.3, 0.7), ((0.4, 0.6),)), Source((0.4, 0.6), ((0.2, 0.4), (0.6, 0.9)), 0.5)
    to_overall = {"method": "to_overall"}
    cases: dict[str, Any] = {
        "demographic parity difference": Metric(metrics.demographic_parity_difference, two, 300, 0.2, {}).play,
        "demographic parity difference to overall": Metric(
            metrics.demographic_parity_difference, Source((0.5, 0.5), ((0.2, 0.8),)), 300, 0.3, to_overall
        ).play,
        "demographic parity ratio": Metric(metrics.demographic_parity_ratio, two, 300, 2 / 3, {}).play,
        "equal opportunity difference": Metric(metrics.equal_opportunity_difference, odds, 300, 0.3, {}).play,
        "equalized odds difference": Metric(metrics.equalized_odds_difference, odds, 300, 0.3, {}).play,
        "equalized odds difference, mean": Metric(
            metrics.equalized_odds_difference, odds, 300, 0.25, {"agg": "mean"}
        ).play,
        "selection rates, 3 groups": _rates,
        "table of 5 metrics, 3 groups": _table,
    }
    truth = "value known"
    return [
        Mode(RECORDED, name, "metrics", truth, DELTA, play, DUPLICATES, partial(play, copies=COPIES), share=3)
        for name, play in cases.items()
    ]


# Properties of a stream that are watched together; each feature moves the rate by 0.1, the threshold.
PROPERTIES = 5


@dataclass(frozen=True)
class Watching:
    """A stream of decisions whose gap is the threshold: any decision, after any row, is wrong."""

    rates: tuple[float, ...]
    options: Plain
    gap: float

    def play(self, seed: int, effort: Effort, breaking: Breaking = nullcontext) -> Wrong:
        """Watch one stream; intervals are looked at now and then, the decision after every row."""
        rng = np.random.default_rng((seed, 7))
        rows = 2 * effort.rounds
        groups = rng.integers(0, len(self.rates), rows)
        hits = rng.random(rows) < np.array(self.rates)[groups]
        monitor = Monitor(**self.options, delta=DELTA)
        # Groups are numbered as they come, which matters where they are not named.
        order = np.argsort([np.flatnonzero(groups == group)[0] for group in range(len(self.rates))])
        mine = groups[:, None] == (np.arange(len(order)) if monitor.question.groups else order)
        looks = np.unique(np.geomspace(8, rows, LOOKS).astype(np.int64)) - 1
        trials, successes = mine.cumsum(axis=0)[looks], (mine & hits[:, None]).cumsum(axis=0)[looks]
        rates = np.array(self.rates)[np.arange(len(order)) if monitor.question.groups else order]
        with breaking():
            changed = monitor.update_many(groups.tolist(), hits.tolist())
            low, high = counts.any_time(successes, trials, monitor.question.levels(len(order)))
            below, above = monitored_gap_bounds(trials, successes, monitor.question)
        complete = (trials > 0).all(axis=1)
        return {
            VERDICT: changed is not None,
            GAP: bool((complete & ((self.gap < below - ROUNDING) | (self.gap > above + ROUNDING))).any()),
            RATES: bool(((trials > 0) & ((rates < low - ROUNDING) | (rates > high + ROUNDING))).any()),
        }


def _five_properties() -> tuple[StreamQuestion, ...]:
    """Return the questions of a monitor about five features of one stream, with their shares of delta."""
    features = [category(f"g{place}", 2) for place in range(PROPERTIES)]
    about = {"kind": "difference", "threshold": 0.1, "outcome": "yes"}
    population = {"kind": "table", "prediction": "decision", "as": "sample"}
    return stream_questions(
        [
            spec_of(
                features,
                {**about, "protected": [f"g{place}"]},
                population=population,
                delta=DELTA,
                model={"labels": list(NO_YES), "decision": "label"},
            )
            for place in range(PROPERTIES)
        ]
    )


def watch_five(seed: int, effort: Effort, breaking: Breaking = nullcontext) -> Wrong:
    """Watch five properties of the same rows, each with a gap equal to its threshold: every decision is wrong."""
    rng = np.random.default_rng((seed, 11))
    groups = rng.integers(0, 2, (PROPERTIES, 2 * effort.rounds))
    hits = rng.random(groups.shape[1]) < 0.25 + 0.1 * groups.sum(axis=0)
    found = False
    for question, mine in zip(_five_properties(), groups, strict=True):
        asked = question.spec
        monitor = Monitor(asked.threshold, kind=asked.kind, delta=asked.delta, groups=asked.groups)
        names = np.array(asked.groups)[mine]
        with breaking():
            found |= monitor.update_many(names.tolist(), hits.tolist()) is not None
    return {VERDICT: found}


def monitor_modes() -> list[Mode]:
    """Return streams that are looked at after every row."""
    named = {"groups": ["0", "1"]}
    cases = {
        "difference, named groups": Watching((0.3, 0.8), {"threshold": 0.5, **named}, 0.5),
        "difference, groups not named beforehand": Watching((0.45, 0.55, 0.5), {"threshold": 0.1}, 0.1),
        "ratio, named groups": Watching((0.4, 0.5), {"threshold": 0.8, "kind": "ratio", **named}, 0.2),
    }
    variant = "Clopper-Pearson bounds, inspected after every row"
    peeking = partial(exchanged, counts, "probability_any_time", fixed_sample)
    stream = "stream of decisions"
    greedy = partial(exchanged, counts, "probability_any_time", _at_delta)
    return [
        *(
            Mode(stream, name, "monitor", AT_THRESHOLD, DELTA, each.play, variant, partial(each.play, breaking=peeking))
            for name, each in cases.items()
        ),
        Mode(
            stream,
            "five properties of one stream",
            "monitor",
            AT_THRESHOLD,
            DELTA,
            watch_five,
            "every bound at delta: no union",
            partial(watch_five, breaking=greedy),
        ),
    ]


def _at_delta(successes: ArrayLike, trials: ArrayLike, level: Level) -> tuple[Floats, Floats]:
    """Return bounds of a fixed sample that spend all of delta, whatever they may spend."""
    return fixed_sample(successes, trials, DELTA + 0 * np.asarray(level))


def row_modes() -> list[Mode]:
    """Return all modes of this module."""
    return [
        *recorded_modes(),
        *model_modes(),
        *selected_modes(),
        *exact_modes(),
        *metric_modes(),
        *monitor_modes(),
    ]
