"""A table of metrics by group: selection rate, accuracy, error rates, precision and calibration, with joint intervals.

All intervals of a table hold together with probability at least 1 - delta (docs/mathematics-tables.md, "Tables of
metrics"). The estimates are those of fairlearn's `MetricFrame`, except that a rate among no rows is NaN here, not 0.
"""

from __future__ import annotations

import html
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError
from fairchain.messages import many, needs, unknown
from fairchain.metrics.arguments import check_delta, column, feature_columns, grouped, positives
from fairchain.metrics.parity import ComparedWith, check_method, estimate_of, joint_intervals
from fairchain.statistics.intervals import Interval

Codes = NDArray[np.intp]
Mask = NDArray[np.bool_]
GroupKey = tuple[Hashable, ...]
TITLES = {
    "selection_rate": "selection rate",
    "accuracy": "accuracy",
    "false_positive_rate": "FPR",
    "false_negative_rate": "FNR",
    "positive_predictive_value": "PPV",
}
MOST_SCORE_BINS = 100
# Number of lines of a printed table.
MOST_LINES = 60
NOTHING_TO_COMPARE = 'metric: fewer than two groups have rows for "{metric}", so it cannot be compared'


@dataclass(frozen=True)
class TableRate:
    """One rate of a table: its metric, the group, and the number of rows among which it is counted.

    `features` are the sensitive features that define the group, none for all rows; `control` are the values of the
    control features.
    """

    metric: str
    features: tuple[str, ...]
    control: GroupKey
    group: GroupKey
    rows: int
    rate: Interval


@dataclass(frozen=True)
class CalibrationBin:
    """The rows of a group with scores above `low` and up to `high` (the first bin includes its lower end).

    `rate` is P(y_true is positive | group, bin), and `score` the mean score of these rows.
    """

    features: tuple[str, ...]
    control: GroupKey
    group: GroupKey
    low: float
    high: float
    rows: int
    score: float
    rate: Interval

    @property
    def miscalibrated(self) -> bool:
        """Whether the true rate is certainly outside of the bin, while the mean score is inside."""
        return self.rate.low > self.high or self.rate.high < self.low


@dataclass(frozen=True, repr=False)
class GroupTable:
    """Metrics by group, made by `by_group`; printed as a table.

    Parameters
    ----------
    rates
        Every rate with its interval: of all rows, of the groups of each sensitive feature, of their combinations.
    calibration
        Every bin of scores of every group, if scores were given.
    metrics, features, controls
        Names of the metrics, of the sensitive features and of the control features.
    rows, delta
        The number of rows, and the probability that some interval fails.
    """

    rates: tuple[TableRate, ...]
    calibration: tuple[CalibrationBin, ...]
    metrics: tuple[str, ...]
    features: tuple[str, ...]
    controls: tuple[str, ...]
    rows: int
    delta: float

    @cached_property
    def _known(self) -> dict[tuple[str, tuple[str, ...]], dict[GroupKey, TableRate]]:
        """The rates by metric and features, then by group."""
        known: dict[tuple[str, tuple[str, ...]], dict[GroupKey, TableRate]] = {}
        for each in self.rates:
            known.setdefault((each.metric, each.features), {})[(*each.control, *each.group)] = each
        return known

    def by_group(self, metric: str, *, by: str | None = None) -> dict[Hashable, Interval]:
        """Return the intervals of a metric: by group, or by the values of one sensitive feature.

        Keys are values, or tuples of values: of the control features, then of the sensitive features.
        """
        return {_key(key): each.rate for key, each in self._part(metric, by).items()}

    def overall(self, metric: str) -> dict[Hashable, Interval]:
        """Return the interval of a metric over all rows, by the values of the control features; () without any."""
        return {_key(key): each.rate for key, each in self._known[self._metric(metric), ()].items()}

    def difference(
        self, metric: str, *, method: ComparedWith = "between_groups", by: str | None = None, control: Hashable = ()
    ) -> Interval:
        """Return the largest difference of a metric between two groups, or between a group and all rows.

        The interval holds together with all others of the table. Groups without rows for the metric are left out. For a
        single difference `demographic_parity_difference` has a narrower interval.

        Parameters
        ----------
        metric
            One of `metrics`.
        method
            As in fairlearn.
        by
            Compare the values of one sensitive feature, rather than combinations of all.
        control
            The value of the control feature, or a tuple of values, within which groups are compared.
        """
        estimates, whole, pairs = self._compared(metric, method, by, control)
        low = max(one.low - other.high for one, other in pairs)
        high = max(one.high - other.low for one, other in pairs)
        return Interval(estimate_of(estimates, whole, "difference"), max(0.0, low), min(1.0, high))

    def ratio(
        self, metric: str, *, method: ComparedWith = "between_groups", by: str | None = None, control: Hashable = ()
    ) -> Interval:
        """Return the smallest ratio of a metric between two groups, or between a group and all rows.

        The parameters are those of `difference`. If the group in the denominator has no success, the estimate is NaN.
        """
        estimates, whole, pairs = self._compared(metric, method, by, control)
        low = min(one.low / other.high if other.high else math.inf for one, other in pairs)
        high = min(one.high / other.low if other.low else math.inf for one, other in pairs)
        return Interval(estimate_of(estimates, whole, "ratio"), min(1.0, low), min(1.0, high))

    def to_frame(self, *, by: str | None = None) -> Any:
        """Return a pandas frame with a line for each group, and columns such as `accuracy`, `accuracy_low`, `_high`.

        `by` is one sensitive feature, rather than the combinations of all.
        """
        lines: dict[GroupKey, dict[str, Any]] = {}
        for metric in self.metrics:
            for key, each in self._part(metric, by).items():
                line = lines.setdefault(key, {})
                line |= {f"{metric}_rows": each.rows, metric: each.rate.estimate}
                line |= {f"{metric}_low": each.rate.low, f"{metric}_high": each.rate.high}
        names = [*self.controls, *(self.features if by is None else (by,))]
        return _frame(names, list(lines), list(lines.values()))

    def calibration_frame(self, *, by: str | None = None) -> Any:
        """Return a pandas frame with a line for each group and bin of scores."""
        features = self._features(by)
        bins = [each for each in self.calibration if each.features == features]
        keys = [(*each.control, *each.group, each.low, each.high) for each in bins]
        lines = [
            {
                "rows": each.rows,
                "score": each.score,
                "rate": each.rate.estimate,
                "rate_low": each.rate.low,
                "rate_high": each.rate.high,
                "miscalibrated": each.miscalibrated,
            }
            for each in bins
        ]
        return _frame([*self.controls, *features, "low", "high"], keys, lines)

    @property
    def statement(self) -> str:
        """The guarantee in a sentence."""
        return (
            f"All {len(self.rates) + len(self.calibration):,} intervals hold together with probability at least "
            f"1 - {self.delta:g}, if the {self.rows:,} rows are independent draws from one population on which no "
            "model was fitted."
        )

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        heads, lines = self._lines()
        widths = [max(map(len, cells)) for cells in zip(heads, *lines, strict=True)]
        shown = [
            "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
            for cells in (heads, *lines)
        ]
        return "\n".join([*shown, *self._remarks(), self.statement])

    def _repr_html_(self) -> str:
        """Return the table for notebooks."""
        heads, lines = self._lines()
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in heads)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in line)}</tr>" for line in lines)
        told = "<br>".join(html.escape(line) for line in (*self._remarks(), self.statement))
        return f"<table><tr>{head}</tr>{body}</table><p>{told}</p>"

    def _lines(self) -> tuple[list[str], list[list[str]]]:
        """Return the headers and the lines of the printed table, all rows last; long tables are shortened."""
        heads = ["group", *(TITLES[metric] for metric in self.metrics)]
        names = (*self.controls, *self.features)
        lines: list[list[str]] = []
        for features in (self.features, ()):
            parts = [self._known[metric, features] for metric in self.metrics]
            for key in parts[0]:
                named = ", ".join(f"{name}={value}" for name, value in zip(names, key, strict=False))
                lines.append([named or "all rows", *(f"{part[key].rate}" for part in parts)])
        if len(lines) > MOST_LINES:
            rest = len(lines) - MOST_LINES
            lines = [*lines[:MOST_LINES], [f"... and {rest} more: to_frame()", *[""] * len(self.metrics)]]
        return heads, lines

    def _remarks(self) -> Iterator[str]:
        """Yield notes on what is not shown: empty denominators, and bins that are certainly miscalibrated."""
        empty = [each for each in self.rates if not each.rows]
        if empty:
            yield f"{many(len(empty), 'rate')} without rows: unknown, and not compared."
        if self.calibration:
            wrong = sum(each.miscalibrated for each in self.calibration)
            yield f"Calibration: {wrong} of {len(self.calibration)} bins have a rate that is certainly outside."

    def _metric(self, metric: str) -> str:
        if metric not in self.metrics:
            raise DataError(f"metric: {unknown('name', metric, list(self.metrics))}")
        return metric

    def _features(self, by: str | None) -> tuple[str, ...]:
        if by is not None and by not in self.features:
            raise DataError(f'by: "{by}" is not a sensitive feature; expected one of {", ".join(self.features)}')
        return self.features if by is None else (by,)

    def _part(self, metric: str, by: str | None) -> dict[GroupKey, TableRate]:
        return self._known[self._metric(metric), self._features(by)]

    def _compared(
        self, metric: str, method: str, by: str | None, control: Hashable
    ) -> tuple[NDArray[np.float64], float | None, list[tuple[Interval, Interval]]]:
        """Return estimates of groups within a control value, that of all rows if compared, and the compared pairs."""
        check_method(method)
        wanted = control if isinstance(control, tuple) else (control,)
        found = [each for each in self._part(metric, by).values() if each.control == wanted]
        if not found:
            known = dict.fromkeys(each.control for each in self._part(metric, by).values())
            raise DataError(
                f"control: found {control!r}; give one of {', '.join(repr(_key(each)) for each in known)}"
                if self.controls
                else f"control: found {control!r}, and this table has no control features; leave it out"
            )
        groups = [each.rate for each in found if each.rows]
        if len(groups) < 2:
            raise DataError(NOTHING_TO_COMPARE.format(metric=metric))
        estimates = np.array([each.estimate for each in groups])
        if method == "between_groups":
            return estimates, None, list(permutations(groups, 2))
        whole = self._known[metric, ()][wanted].rate
        return estimates, whole.estimate, [pair for each in groups for pair in ((each, whole), (whole, each))]


def by_group(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    y_score: Any = None,
    bins: int = 10,
    pos_label: Any = 1,
    delta: float = 0.05,
) -> GroupTable:
    """Return selection rate, accuracy, FPR, FNR and PPV of every group, with simultaneous intervals.

    >>> y_true = [1, 1, 0, 0] * 100
    >>> y_pred = [1, 1, 0, 0] * 50 + [1, 0, 0, 0] * 50
    >>> table = by_group(y_true, y_pred, sensitive_features={"sex": ["F"] * 200 + ["M"] * 200})
    >>> print(table.by_group("selection_rate")["M"])
    0.250 [0.164, 0.352]
    >>> print(table.difference("accuracy"))
    0.250 [0.131, 0.352]

    Parameters
    ----------
    y_true
        True labels; None if only the selection rate is needed.
    y_pred
        Decisions.
    sensitive_features
        A list, array or column with the group of each row, or several of them as a frame, a mapping or a
        two-dimensional array. For several features the table has the groups of each, and their combinations.
    control_features
        Columns of the same shapes within whose values groups are compared, as in fairlearn.
    y_score
        Probabilities of the positive label, for calibration: in each of `bins` equal parts of the range from 0 to 1
        the rate of positive true labels among the rows with such scores.
    bins
        The number of bins; it must not be chosen by looking at the rows.
    pos_label
        The label that counts as positive.
    delta
        The probability that some interval of the table fails.

    Raises
    ------
    DataError
        With the argument, what was found and the remedy.
    """
    check_delta(delta)
    labels = column("y_pred", y_pred)
    selected = positives("y_pred", labels, pos_label)
    sensitive = feature_columns("sensitive_features", sensitive_features, len(labels))
    controls = {} if control_features is None else feature_columns("control_features", control_features, len(labels))
    twice = set(sensitive) & set(controls)
    if twice:
        raise DataError(f"control_features: {sorted(twice)[0]!r} is a sensitive feature too; give other columns")
    parts: dict[str, tuple[Mask, Mask]] = {"selection_rate": (np.ones(len(labels), bool), selected)}
    truth = None
    if y_true is not None:
        truths = column("y_true", y_true, len(labels))
        truth = positives("y_true", truths, pos_label)
        parts |= {
            "accuracy": (parts["selection_rate"][0], np.equal(truths, labels).astype(bool)),
            "false_positive_rate": (~truth, selected),
            "false_negative_rate": (truth, ~selected),
            "positive_predictive_value": (selected, truth),
        }
    scores = None if y_score is None else _scores(y_score, len(labels), bins)
    if scores is not None and truth is None:
        raise DataError("y_score: calibration compares scores with true labels; give y_true")
    # All rows, the groups of each sensitive feature if there are several, and the combinations of all.
    families = []
    for features in [(), *([(name,) for name in sensitive] if len(sensitive) > 1 else []), tuple(sensitive)]:
        columns = [*controls.values(), *(sensitive[name] for name in features)]
        groups, codes = grouped(columns, len(labels))
        keys = [(group,) if len(columns) == 1 else group for group in groups]
        split = tuple((tuple(key[: len(controls)]), tuple(key[len(controls) :])) for key in keys)  # type: ignore[index]
        families.append(_Family(features, codes, split))
    # The share of delta of each metric, and of each family of groups, does not depend on the rows.
    share = delta / (len(parts) + (scores is not None)) / len(families)
    rates = [rate for metric, part in parts.items() for each in families for rate in each.rates(metric, *part, share)]
    calibrated: list[CalibrationBin] = []
    if scores is not None and truth is not None:
        calibrated = [found for each in families for found in each.calibration(scores, truth, bins, share)]
    return GroupTable(
        tuple(rates), tuple(calibrated), tuple(parts), tuple(sensitive), tuple(controls), len(labels), delta
    )


@dataclass(frozen=True, eq=False)
class _Family:
    """Groups that share no row: the index of each row's group, and for each group its control and own values."""

    features: tuple[str, ...]
    codes: Codes
    keys: tuple[tuple[GroupKey, GroupKey], ...]

    def rates(self, metric: str, counted: Mask, successes: Mask, share: float) -> Iterator[TableRate]:
        """Yield the rate of successes among counted rows of each group; their joint error probability is `share`."""
        size = len(self.keys)
        trials = np.bincount(self.codes[counted], minlength=size)
        hits = np.bincount(self.codes[counted & successes], minlength=size)
        intervals = joint_intervals(hits, trials, share)
        for (control, group), rows, rate in zip(self.keys, trials.tolist(), intervals, strict=True):
            yield TableRate(metric, self.features, control, group, rows, rate)

    def calibration(
        self, scores: NDArray[np.float64], truth: Mask, bins: int, share: float
    ) -> Iterator[CalibrationBin]:
        """Yield the rate of positive true labels in each bin of scores of each group that has rows."""
        edges = np.linspace(0.0, 1.0, bins + 1)
        codes = self.codes * bins + np.searchsorted(edges[1:-1], scores)
        size = len(self.keys) * bins
        trials = np.bincount(codes, minlength=size)
        sums = np.bincount(codes, scores, minlength=size)
        for place, rate in enumerate(joint_intervals(np.bincount(codes[truth], minlength=size), trials, share)):
            if trials[place]:
                (control, group), number = self.keys[place // bins], place % bins
                low, high = float(edges[number]), float(edges[number + 1])
                mean = float(sums[place] / trials[place])
                yield CalibrationBin(self.features, control, group, low, high, int(trials[place]), mean, rate)


def _scores(values: Any, rows: int, bins: int) -> NDArray[np.float64]:
    """Return the scores as probabilities."""
    found = column("y_score", values, rows)
    if not isinstance(bins, int) or not 1 <= bins <= MOST_SCORE_BINS:
        raise DataError(f"bins: found {bins!r}; give a whole number from 1 to {MOST_SCORE_BINS}")
    try:
        scores = found.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(f"y_score: found {found[0]!r}; give numbers from 0 to 1") from None
    outside = np.flatnonzero((scores < 0) | (scores > 1))
    if len(outside):
        raise DataError(
            f"y_score: row {outside[0] + 1} has {scores[outside[0]]:g}; calibration is about probabilities from 0 to 1"
        )
    return scores


def _key(key: GroupKey) -> Hashable:
    return key[0] if len(key) == 1 else key


def _frame(names: Sequence[str], keys: Sequence[GroupKey], lines: Sequence[Mapping[str, Any]]) -> Any:
    try:
        pandas = import_module("pandas")
    except ImportError:
        raise DataError(f"{needs('to_frame', 'pandas')}, or use rates") from None
    index = (
        pandas.Index([key[0] for key in keys], name=names[0])
        if len(names) == 1
        else pandas.MultiIndex.from_tuples(keys, names=names)
    )
    return pandas.DataFrame(list(lines), index=index)
