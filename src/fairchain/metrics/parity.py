"""Fairness metrics that compare groups, called as in fairlearn, with bounds.

The functions for differences and ratios take the arguments of fairlearn's functions of the same names, except for
`sample_weight`, which is refused. They return an `Interval` instead of a number, and its estimate is fairlearn's
number. `selection_rates` has no counterpart of this name in fairlearn, and returns an `Interval` for each group. With
probability at least 1 - delta, the true values of a call lie between the bounds, if the rows are an independent sample
of the population and no model was fitted on them. `Interval` prints as `0.500 [0.383, 0.594]`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError
from fairchain.metrics.arguments import (
    Objects,
    check_delta,
    column,
    complete,
    feature_columns,
    grouped,
    is_one,
    one_dimensional,
    positives,
)
from fairchain.statistics.intervals import Interval
from fairchain.statistics.rate_counts import SubgroupCounts, fixed_sample, gap_bounds

ComparedWith = Literal["between_groups", "to_overall"]
Aggregation = Literal["worst_case", "mean"]
Measure = Literal["difference", "ratio"]
Floats = NDArray[np.float64]

NO_SAMPLE_WEIGHTS = (
    "sample_weight: the bounds are not valid for weighted rows; leave it out, or compute the metric on the rows of one "
    "weight"
)


def demographic_parity_difference(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    method: ComparedWith = "between_groups",
    sample_weight: None = None,
    delta: float = 0.05,
) -> Interval:
    """Return the largest difference of P(y_pred = 1) between two groups, or between a group and all rows.

    >>> y_pred = [1, 1, 1, 0] * 50 + [1, 0, 0, 0] * 50
    >>> sex = ["F"] * 200 + ["M"] * 200
    >>> print(demographic_parity_difference(y_pred, y_pred, sensitive_features=sex))
    0.500 [0.383, 0.594]

    Parameters
    ----------
    y_true
        True labels; only their number is checked here.
    y_pred
        Decisions: 0 and 1, or -1 and 1.
    sensitive_features
        A list, array or column with the group of each row, or several of them as a frame, a mapping or a
        two-dimensional array; then their combinations are the groups.
    method
        `between_groups` or `to_overall`.
    sample_weight
        Refused: see the message.
    delta
        The bounds fail with at most this probability.

    Raises
    ------
    DataError
        With the argument, what was found and the remedy.
    """
    rows = _read_rows(y_true, y_pred, sensitive_features, sample_weight)
    return rows.bounded((None,), "difference", method, delta)


def demographic_parity_ratio(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    method: ComparedWith = "between_groups",
    sample_weight: None = None,
    delta: float = 0.05,
) -> Interval:
    """Return the smallest ratio of P(y_pred = 1) between two groups, or between a group and all rows.

    The parameters are those of `demographic_parity_difference`. If no row is selected, the estimate is NaN, as in
    fairlearn.

    >>> y_pred = [1, 1, 1, 0] * 50 + [1, 1, 0, 0] * 50
    >>> sex = ["F"] * 200 + ["M"] * 200
    >>> print(demographic_parity_ratio(y_pred, y_pred, sensitive_features=sex))
    0.667 [0.545, 0.817]
    """
    rows = _read_rows(y_true, y_pred, sensitive_features, sample_weight)
    return rows.bounded((None,), "ratio", method, delta)


def equalized_odds_difference(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    method: ComparedWith = "between_groups",
    sample_weight: None = None,
    agg: Aggregation = "worst_case",
    delta: float = 0.05,
) -> Interval:
    """Return the larger (or the mean) of the differences of true positive rates and of false positive rates.

    The parameters are those of `demographic_parity_difference`, and `agg`: `worst_case` or `mean`. Every group needs
    rows of both true labels.

    >>> y_true = [1, 1, 0, 0] * 100
    >>> y_pred = [1, 1, 0, 0] * 50 + [1, 0, 0, 0] * 50
    >>> sex = ["F"] * 200 + ["M"] * 200
    >>> print(equalized_odds_difference(y_true, y_pred, sensitive_features=sex))
    0.500 [0.341, 0.636]
    """
    rows = _read_rows(y_true, y_pred, sensitive_features, sample_weight)
    return rows.aggregated(agg, "difference", method, delta)


def equalized_odds_ratio(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    method: ComparedWith = "between_groups",
    sample_weight: None = None,
    agg: Aggregation = "worst_case",
    delta: float = 0.05,
) -> Interval:
    """Return the smaller (or the mean) of the ratios of true positive rates and of false positive rates.

    The parameters are those of `equalized_odds_difference`. If no group has a false positive, the estimate leaves out
    the ratio of false positive rates, as fairlearn does; for the bounds it counts as 1.

    >>> y_true = [1, 1, 0, 0] * 100
    >>> y_pred = [1, 1, 1, 0] * 50 + [1, 0, 1, 0] * 50
    >>> sex = ["F"] * 200 + ["M"] * 200
    >>> print(equalized_odds_ratio(y_true, y_pred, sensitive_features=sex))
    0.500 [0.364, 0.659]
    """
    rows = _read_rows(y_true, y_pred, sensitive_features, sample_weight)
    return rows.aggregated(agg, "ratio", method, delta)


def equal_opportunity_difference(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    method: ComparedWith = "between_groups",
    sample_weight: None = None,
    delta: float = 0.05,
) -> Interval:
    """Return the largest difference of true positive rates P(y_pred = 1 | y_true = 1) between groups.

    The parameters are those of `demographic_parity_difference`. Every group needs rows whose true label is 1.

    >>> y_true = [1, 1, 0, 0] * 100
    >>> y_pred = [1, 1, 0, 0] * 50 + [1, 0, 0, 0] * 50
    >>> sex = ["F"] * 200 + ["M"] * 200
    >>> print(equal_opportunity_difference(y_true, y_pred, sensitive_features=sex))
    0.500 [0.352, 0.636]
    """
    rows = _read_rows(y_true, y_pred, sensitive_features, sample_weight)
    return rows.bounded((True,), "difference", method, delta)


def equal_opportunity_ratio(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    method: ComparedWith = "between_groups",
    sample_weight: None = None,
    delta: float = 0.05,
) -> Interval:
    """Return the smallest ratio of true positive rates P(y_pred = 1 | y_true = 1) between groups.

    The parameters are those of `equal_opportunity_difference`.

    >>> y_true = [1, 1, 0, 0] * 100
    >>> y_pred = [1, 1, 0, 0] * 50 + [1, 0, 0, 0] * 50
    >>> sex = ["F"] * 200 + ["M"] * 200
    >>> print(equal_opportunity_ratio(y_true, y_pred, sensitive_features=sex))
    0.500 [0.364, 0.648]
    """
    rows = _read_rows(y_true, y_pred, sensitive_features, sample_weight)
    return rows.bounded((True,), "ratio", method, delta)


def selection_rates(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    pos_label: Any = 1,
    sample_weight: None = None,
    delta: float = 0.05,
) -> dict[Hashable, Interval]:
    """Return P(y_pred = pos_label) in each group; all intervals hold together with probability at least 1 - delta.

    Keys are the groups: values of the sensitive feature, or tuples of values for several features. Labels may be
    anything; `pos_label` is the one that is counted. The other parameters are those of `demographic_parity_difference`.

    >>> y_pred = [1, 1, 1, 0] * 50 + [1, 0, 0, 0] * 50
    >>> rates = selection_rates(y_pred, y_pred, sensitive_features=["F"] * 200 + ["M"] * 200)
    >>> print(rates["F"])
    0.750 [0.675, 0.816]
    """
    if sample_weight is not None:
        raise DataError(NO_SAMPLE_WEIGHTS)
    labels = column("y_pred", y_pred)
    one_dimensional("y_true", y_true, len(labels))
    features = feature_columns("sensitive_features", sensitive_features, len(labels))
    groups, codes = grouped(features.values(), len(labels))
    check_delta(delta)
    trials, successes = _counts(codes, len(groups), positives("y_pred", labels, pos_label))
    return dict(zip(groups, joint_intervals(successes, trials, delta), strict=True))


def joint_intervals(successes: NDArray[np.intp], trials: NDArray[np.intp], share: float) -> Iterator[Interval]:
    """Yield intervals of some rates, [0, 1] for those without rows, with a joint error probability of `share`."""
    low, high = fixed_sample(successes, trials, share / 2 / max(int(np.count_nonzero(trials)), 1))
    for hits, rows, lower, upper in zip(successes.tolist(), trials.tolist(), low, high, strict=True):
        yield Interval(hits / rows, float(lower), float(upper)) if rows else Interval(math.nan, 0.0, 1.0)


def estimate_of(groups: Floats, whole: float | None, measure: Measure) -> float:
    """Return the metric of these rates, by the same operations as in fairlearn, so that all digits are equal.

    Groups are compared with the rate of all rows (`whole`), or with each other if it is None.
    """
    if measure == "difference":
        return float(np.abs(groups - (groups.min() if whole is None else whole)).max())
    reference = groups.max() if whole is None else whole
    if reference == 0:
        return math.nan
    ratios = groups / reference
    return float(np.where(ratios > 1, 1 / np.maximum(ratios, 1), ratios).min())


def check_method(method: str) -> None:
    """Raise a DataError unless groups are compared with each other, or with all rows."""
    if method not in ("between_groups", "to_overall"):
        raise DataError(f'method: found {method!r}; write "between_groups" or "to_overall"')


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a call: the group of each, whether it is selected, and its true label."""

    groups: list[Hashable]
    codes: NDArray[np.intp]
    selected: NDArray[np.bool_]
    truths: Objects

    def aggregated(self, agg: Aggregation, measure: Measure, method: ComparedWith, delta: float) -> Interval:
        """Return the metric of the rates among rows of true label 1 and among those of true label 0."""
        if agg == "worst_case":
            return self.bounded((True, False), measure, method, delta)
        if agg != "mean":
            raise DataError(f'agg: found {agg!r}; write "worst_case" or "mean"')
        parts = [self.bounded((truth,), measure, method, delta / 2) for truth in (True, False)]
        known = [part.estimate for part in parts if not math.isnan(part.estimate)]
        estimate = sum(known) / len(known) if known else math.nan
        return _around(estimate, sum(part.low for part in parts) / 2, sum(part.high for part in parts) / 2)

    def bounded(self, truths: Sequence[bool | None], measure: Measure, method: ComparedWith, delta: float) -> Interval:
        """Return the worst gap among rows of the same true label, with its bounds."""
        check_delta(delta)
        check_method(method)
        overall = method == "to_overall"
        trials, successes = np.concatenate([self._count(truth, overall=overall) for truth in truths], axis=1)
        size = len(trials) // len(truths)
        pairs = ~np.eye(size, dtype=bool)
        if overall:
            pairs[:-1, :-1] = False
        compared = np.kron(np.eye(len(truths), dtype=bool), pairs)[None]
        counts = SubgroupCounts(trials, successes[None])
        whole = np.tile(np.arange(size) == size - 1, len(truths)) if overall else None
        _, low, high = gap_bounds(counts, compared, measure, delta, fixed_sample, whole, disjoint=not overall)
        each = [
            estimate_of(rates[:-1], rates[-1], measure) if overall else estimate_of(rates, None, measure)
            for rates in counts.rates.reshape(-1, size)
        ]
        if measure == "difference":
            return _around(max(each), low, high)
        # As in fairlearn, Python's own minimum: a second ratio that is NaN is left out.
        return _around(min(each), 1 - high, 1 - low)

    def _count(self, truth: bool | None, *, overall: bool) -> NDArray[np.intp]:
        """Return (2, groups): rows of this true label, and those of them that are selected; with all rows last."""
        # True labels are checked only here, because demographic parity does not use them.
        mine = slice(None) if truth is None else is_one("y_true", complete("y_true", self.truths)) == truth
        counts = _counts(self.codes[mine], len(self.groups), self.selected[mine])
        empty = np.flatnonzero(counts[0] == 0)
        if len(empty):
            raise DataError(
                f"y_true: no row of the group {self.groups[empty[0]]!r} has the true label {int(bool(truth))}, so this "
                "rate is unknown; leave out the rows of this group, or join it with another"
            )
        return np.column_stack([counts, counts.sum(axis=1)]) if overall else counts


def _around(estimate: float, low: float, high: float) -> Interval:
    """Return an interval that contains the estimate despite rounding."""
    if not math.isnan(estimate):
        low, high = min(low, estimate), max(high, estimate)
    return Interval(estimate, max(0.0, low), min(1.0, high))


def _read_rows(y_true: Any, y_pred: Any, sensitive_features: Any, sample_weight: Any) -> _Rows:
    """Check the arguments of a metric and convert them to arrays."""
    if sample_weight is not None:
        raise DataError(NO_SAMPLE_WEIGHTS)
    labels = column("y_pred", y_pred)
    truths = one_dimensional("y_true", y_true, len(labels))
    features = feature_columns("sensitive_features", sensitive_features, len(labels))
    groups, codes = grouped(features.values(), len(labels))
    if len(groups) < 2:
        raise DataError(f"sensitive_features: all rows have the group {groups[0]!r}; give at least two groups")
    return _Rows(groups, codes, is_one("y_pred", labels), truths)


def _counts(codes: NDArray[np.intp], groups: int, selected: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return (2, groups): the rows of each group, and those of them that are selected."""
    return np.array([np.bincount(each, minlength=groups) for each in (codes, codes[selected])])
