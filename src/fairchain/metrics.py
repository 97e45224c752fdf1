"""Fairness metrics of recorded decisions, called as in fairlearn, that come with bounds.

Each function takes what fairlearn's function of that name takes, and gives an `Interval` in place of a number: the
estimate is fairlearn's number, and the truth lies between the bounds with probability at least 1 - delta if the
rows are an independent sample of the people it is about and no model was fitted on them. `Interval` prints as
`0.500 [0.383, 0.594]`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError
from fairchain.metric_inputs import (
    MetricRows,
    Truth,
    distinct,
    is_binary,
    read_column,
    read_groups,
    read_rows,
    some,
    tally,
)
from fairchain.statistics.intervals import Interval
from fairchain.statistics.rate_counts import SubgroupCounts, fixed_sample, gap_bounds

__all__ = [
    "demographic_parity_difference",
    "demographic_parity_ratio",
    "equal_opportunity_difference",
    "equal_opportunity_ratio",
    "equalized_odds_difference",
    "equalized_odds_ratio",
    "selection_rates",
]

Method = Literal["between_groups", "to_overall"]
Aggregation = Literal["worst_case", "mean"]
Measure = Literal["difference", "ratio"]
Floats = NDArray[np.float64]


def demographic_parity_difference(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    method: Method = "between_groups",
    sample_weight: None = None,
    delta: float = 0.05,
) -> Interval:
    """Largest difference of P(y_pred = 1) between two groups, or between a group and everybody.

    >>> y_pred = [1, 1, 1, 0] * 50 + [1, 0, 0, 0] * 50
    >>> sex = ["F"] * 200 + ["M"] * 200
    >>> print(demographic_parity_difference(y_pred, y_pred, sensitive_features=sex))
    0.500 [0.383, 0.594]

    Parameters
    ----------
    y_true
        True labels; they play no part here, only their number is checked.
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
    rows = read_rows(y_true, y_pred, sensitive_features, sample_weight)
    return _bounded(rows, (None,), "difference", method, delta)


def demographic_parity_ratio(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    method: Method = "between_groups",
    sample_weight: None = None,
    delta: float = 0.05,
) -> Interval:
    """Smallest ratio of P(y_pred = 1) between two groups, or between a group and everybody.

    The parameters are those of `demographic_parity_difference`. If nobody is selected the estimate is NaN, as there.

    >>> y_pred = [1, 1, 1, 0] * 50 + [1, 1, 0, 0] * 50
    >>> sex = ["F"] * 200 + ["M"] * 200
    >>> print(demographic_parity_ratio(y_pred, y_pred, sensitive_features=sex))
    0.667 [0.545, 0.817]
    """
    rows = read_rows(y_true, y_pred, sensitive_features, sample_weight)
    return _bounded(rows, (None,), "ratio", method, delta)


def equalized_odds_difference(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    method: Method = "between_groups",
    sample_weight: None = None,
    agg: Aggregation = "worst_case",
    delta: float = 0.05,
) -> Interval:
    """The larger (or the mean) of the differences of true positive rates and of false positive rates.

    The parameters are those of `demographic_parity_difference`, and `agg`: `worst_case` or `mean`. Every group needs
    people of both true labels.

    >>> y_true = [1, 1, 0, 0] * 100
    >>> y_pred = [1, 1, 0, 0] * 50 + [1, 0, 0, 0] * 50
    >>> sex = ["F"] * 200 + ["M"] * 200
    >>> print(equalized_odds_difference(y_true, y_pred, sensitive_features=sex))
    0.500 [0.341, 0.636]
    """
    rows = read_rows(y_true, y_pred, sensitive_features, sample_weight)
    return _aggregated(rows, agg, "difference", method, delta)


def equalized_odds_ratio(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    method: Method = "between_groups",
    sample_weight: None = None,
    agg: Aggregation = "worst_case",
    delta: float = 0.05,
) -> Interval:
    """The smaller (or the mean) of the ratios of true positive rates and of false positive rates.

    The parameters are those of `equalized_odds_difference`. Where no group has a false positive, their ratio is left
    out of the estimate, as it is in fairlearn; for the bounds it counts as 1.

    >>> y_true = [1, 1, 0, 0] * 100
    >>> y_pred = [1, 1, 1, 0] * 50 + [1, 0, 1, 0] * 50
    >>> sex = ["F"] * 200 + ["M"] * 200
    >>> print(equalized_odds_ratio(y_true, y_pred, sensitive_features=sex))
    0.500 [0.364, 0.659]
    """
    rows = read_rows(y_true, y_pred, sensitive_features, sample_weight)
    return _aggregated(rows, agg, "ratio", method, delta)


def equal_opportunity_difference(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    method: Method = "between_groups",
    sample_weight: None = None,
    delta: float = 0.05,
) -> Interval:
    """Largest difference of true positive rates P(y_pred = 1 | y_true = 1) between groups.

    The parameters are those of `demographic_parity_difference`. Every group needs people whose true label is 1.

    >>> y_true = [1, 1, 0, 0] * 100
    >>> y_pred = [1, 1, 0, 0] * 50 + [1, 0, 0, 0] * 50
    >>> sex = ["F"] * 200 + ["M"] * 200
    >>> print(equal_opportunity_difference(y_true, y_pred, sensitive_features=sex))
    0.500 [0.352, 0.636]
    """
    rows = read_rows(y_true, y_pred, sensitive_features, sample_weight)
    return _bounded(rows, (True,), "difference", method, delta)


def equal_opportunity_ratio(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    method: Method = "between_groups",
    sample_weight: None = None,
    delta: float = 0.05,
) -> Interval:
    """Smallest ratio of true positive rates P(y_pred = 1 | y_true = 1) between groups.

    The parameters are those of `equal_opportunity_difference`.

    >>> y_true = [1, 1, 0, 0] * 100
    >>> y_pred = [1, 1, 0, 0] * 50 + [1, 0, 0, 0] * 50
    >>> sex = ["F"] * 200 + ["M"] * 200
    >>> print(equal_opportunity_ratio(y_true, y_pred, sensitive_features=sex))
    0.500 [0.364, 0.648]
    """
    rows = read_rows(y_true, y_pred, sensitive_features, sample_weight)
    return _bounded(rows, (True,), "ratio", method, delta)


def selection_rates(
    y_pred: Any, sensitive_features: Any, delta: float = 0.05, *, pos_label: Any = 1
) -> dict[Hashable, Interval]:
    """P(y_pred = pos_label) in each group, all intervals together with probability at least 1 - delta.

    Keys are the groups: values of the sensitive feature, or tuples of values where there are several. Labels may be
    anything; `pos_label` is the one that is counted.

    >>> rates = selection_rates([1, 1, 1, 0] * 50 + [1, 0, 0, 0] * 50, ["F"] * 200 + ["M"] * 200)
    >>> print(rates["F"])
    0.750 [0.675, 0.816]
    """
    labels = read_column("y_pred", y_pred)
    groups, codes = read_groups(sensitive_features, len(labels))
    _check_delta(delta)
    found = distinct("y_pred", labels.tolist())
    if pos_label not in found and not is_binary(found):
        raise DataError(f"y_pred: no row has the label {pos_label!r}, there is {some(found)}; state pos_label=...")
    counts = tally(codes, len(groups), np.equal(labels, pos_label).astype(bool))
    low, high = counts.bounds(delta / 2 / len(groups), fixed_sample)
    return {
        group: Interval(float(rate), float(low[0, i]), float(high[0, i]))
        for i, (group, rate) in enumerate(zip(groups, counts.rates[0], strict=True))
    }


def _aggregated(rows: MetricRows, agg: Aggregation, measure: Measure, method: Method, delta: float) -> Interval:
    """Rates among those whose true label is 1 and among those whose true label is 0."""
    if agg == "worst_case":
        return _bounded(rows, (True, False), measure, method, delta)
    if agg != "mean":
        raise DataError(f'agg: found {agg!r}; write "worst_case" or "mean"')
    parts = [_bounded(rows, (truth,), measure, method, delta / 2) for truth in (True, False)]
    known = [part.estimate for part in parts if not math.isnan(part.estimate)]
    estimate = sum(known) / len(known) if known else math.nan
    return _around(estimate, sum(part.low for part in parts) / 2, sum(part.high for part in parts) / 2)


def _bounded(rows: MetricRows, truths: Sequence[Truth], measure: Measure, method: Method, delta: float) -> Interval:
    """The worst gap among people of the same true label, with its bounds."""
    _check_delta(delta)
    if method not in ("between_groups", "to_overall"):
        raise DataError(f'method: found {method!r}; write "between_groups" or "to_overall"')
    overall = method == "to_overall"
    parts = [rows.counts(truth, overall=overall) for truth in truths]
    pairs = ~np.eye(len(parts[0].trials), dtype=bool)
    if overall:
        pairs[:-1, :-1] = False
    compared = np.kron(np.eye(len(parts), dtype=bool), pairs)[None]
    counts = SubgroupCounts(
        np.concatenate([part.trials for part in parts]), np.concatenate([part.successes for part in parts], axis=1)
    )
    everybody = np.tile(np.arange(len(pairs)) == len(pairs) - 1, len(parts)) if overall else None
    _, low, high = gap_bounds(counts, compared, measure, delta, fixed_sample, everybody, disjoint=not overall)
    each = [_estimate(part.rates[0], measure, overall) for part in parts]
    if measure == "difference":
        return _around(max(each), low, high)
    # As in fairlearn, Python's own minimum: a second ratio that is NaN is left out.
    return _around(min(each), 1 - high, 1 - low)


def _estimate(rates: Floats, measure: Measure, overall: bool) -> float:
    """The metric of these rates, by the same operations as in fairlearn, so that not even the last digit differs."""
    groups, everybody = (rates[:-1], rates[-1]) if overall else (rates, rates.max())
    if measure == "difference":
        return float(np.abs(groups - (everybody if overall else rates.min())).max())
    if everybody == 0:
        return math.nan
    ratios = groups / everybody
    return float(np.where(ratios > 1, 1 / np.maximum(ratios, 1), ratios).min())


def _around(estimate: float, low: float, high: float) -> Interval:
    """Bounds that contain the estimate, whatever the rounding."""
    if math.isnan(estimate):
        return Interval(estimate, max(0.0, low), min(1.0, high))
    return Interval(estimate, max(0.0, min(low, estimate)), min(1.0, max(high, estimate)))


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise DataError(f"delta: found {delta!r}; write a probability between 0 and 1, for example delta=0.05")
