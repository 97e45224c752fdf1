"""Monitor for Python programs: it counts every decision, and gives an answer at any time."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError
from fairchain.monitoring.bounds import (
    MOST_GROUP_ROWS,
    MOST_GROUPS,
    GroupCounts,
    Measure,
    MonitoredProperty,
    advance,
    name_problem,
    next_decisions,
)
from fairchain.statistics.intervals import Interval
from fairchain.statistics.rules import Decision
from fairchain.tables.frames import has_masked

TOO_MANY_STREAM_GROUPS = "groups: {places_count} are more than {most_groups}; is this a column of groups?"
GROUP_NOT_KNOWN = "groups: row {row:,} has no value; fill it, for example with 'unknown', or leave the row out"
LARGEST_GAP = "the largest gap"
# The texts of missing values of Python, numpy and pandas.
MISSING_TEXTS = frozenset({"None", "nan", "NaN", "sNaN", "NaT", "<NA>"})


class Monitor:
    """A monitor of decisions as they are made. Its bounds of the largest gap are valid at all times.

    The probability that the monitor is ever wrong, with FAIR or with UNFAIR, is at most delta, even if you read the
    result after every row. This assumes that the decisions within each group are independent with a fixed rate
    (docs/monitor.md).

    >>> monitor = Monitor(threshold=0.1)
    >>> monitor.update("Female", True)
    >>> monitor.update_many(["Female", "Male"] * 100, [True, False] * 100)
    21
    >>> monitor.decision.name
    'UNFAIR'
    >>> print(monitor.gap)
    1.000 [0.831, 1.000]

    Parameters
    ----------
    threshold
        Largest difference, or smallest ratio, that counts as fair.
    kind
        `difference` or `ratio`.
    delta
        Largest probability that the monitor is ever wrong.
    groups
        The groups to compare. FAIR then covers all these groups. Without `groups`, groups are added when they first
        occur. FAIR then covers the groups seen so far, and needs more rows.
    allow_constant
        Whether `conclusion` may be FAIR while all rows, or no rows, have the outcome.
    """

    def __init__(
        self,
        threshold: float,
        *,
        kind: Measure = "difference",
        delta: float = 0.05,
        groups: Iterable[str] | None = None,
        allow_constant: bool = False,
    ) -> None:
        self.question = MonitoredProperty(
            threshold=threshold,
            kind=kind,
            delta=delta,
            groups=tuple(map(str, groups or ())),
            allow_constant=allow_constant,
        )
        self._counts = GroupCounts.none(self.question)
        self._places = {name: place for place, name in enumerate(self.question.groups)}
        self._decision = Decision.UNDECIDED

    def update(self, group: object, decision: bool) -> None:
        """Count one row: its group, and whether it has the outcome."""
        place = self._places.get(str(group))
        if place is None or not isinstance(decision, bool):
            self.update_many([group], [decision])
        else:
            self._count(np.array([place]), np.array([decision]))

    def update_many(self, groups: Sequence[Any], decisions: Sequence[Any]) -> int | None:
        """Count many rows as `update` does, and return the index of the first row after which `decision` has changed,
        or None.

        Returns
        -------
        int or None
            The index of the first row after which `decision` has changed.
        """
        given, outcomes = _listed("groups", groups), _array("decisions", decisions)
        names = list(map(str, given))
        if outcomes.shape != (len(names),):
            raise DataError(f"decisions: shape {outcomes.shape} for {len(names)} groups; give one for each row")
        if names and (outcomes.dtype.kind not in "biuf" or not ((outcomes == 0) | (outcomes == 1)).all()):
            raise DataError("decisions: write True or 1 for a row that got the outcome, False or 0 for any other")
        if not MISSING_TEXTS.isdisjoint(names):
            for row, (group, name) in enumerate(zip(given, names, strict=True)):
                if name in MISSING_TEXTS and not isinstance(group, str):
                    raise DataError(GROUP_NOT_KNOWN.format(row=row + 1))
        places = dict(self._places)
        for name in dict.fromkeys(names):
            if name not in places and self.question.groups:
                raise DataError(
                    f'group "{name}": not one of those named ({", ".join(self.question.groups[:8])}); name it, or '
                    "leave its rows out"
                )
            if name not in places and (problem := name_problem(name)):
                raise DataError(f"groups: {problem}")
            places.setdefault(name, len(places))
        if len(places) > MOST_GROUPS:
            raise DataError(TOO_MANY_STREAM_GROUPS.format(places_count=len(places), most_groups=MOST_GROUPS))
        codes = np.fromiter(map(places.__getitem__, names), np.intp, len(names))
        self._counts, self._places = self._counts.widened(tuple(places)), places
        return self._count(codes, outcomes.astype(bool))

    def _count(self, codes: NDArray[np.intp], hits: NDArray[np.bool_]) -> int | None:
        """Count rows; return the first after which the decision has changed."""
        first, done = None, 0
        while done < len(codes):
            taken, self._counts, decision = advance(self._counts, self._decision, codes[done:], hits[done:])
            done += taken
            if first is None and decision is not self._decision:
                first = done - 1
            self._decision = decision
        return first

    @property
    def decision(self) -> Decision:
        """FAIR, UNFAIR or UNDECIDED.

        A decision is kept until the estimate contradicts it or, if it was FAIR, a new group occurs.
        """
        return self._decision

    @property
    def conclusion(self) -> str:
        """The decision, or CONSTANT instead of FAIR while all rows have the same decision, unless `allow_constant` is
        set.
        """
        return self._counts.concluded(self._decision)

    @property
    def gap(self) -> Interval:
        """The largest difference between two groups, or the smallest ratio, as in `Verdict.gap`."""
        return self._counts.gap

    @property
    def rates(self) -> dict[str, Interval]:
        """The rate of the outcome in each group, with intervals that hold simultaneously at all times."""
        return dict(zip(self._counts.names, self._counts.rates, strict=True))

    @property
    def rows(self) -> int:
        """The number of rows counted so far."""
        return self._counts.rows

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values, from which `Monitor.from_dict` continues."""
        return describe_monitor(self._decision, self._counts)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Monitor:
        """Continue from the question, the verdict and the counts in the result of `to_dict`."""
        try:
            named = [group["name"] for group in data["groups"]] if data["named"] else None
            options = {key: data[key] for key in ("kind", "delta", "allow_constant")}
            monitor = cls(data["threshold"], groups=named, **options)
            trials, successes = (
                np.array([group[key] for group in data["groups"]], np.int64) for key in ("rows", "successes")
            )
            names = tuple(str(group["name"]) for group in data["groups"])
            monitor._decision = Decision[data["decision"]]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError(f"monitor: not what Monitor.to_dict gives ({error!r}); start a new one") from None
        if (
            not ((successes >= 0) & (successes <= trials) & (trials <= MOST_GROUP_ROWS)).all()
            or len(set(names)) < len(names)
            or len(names) > MOST_GROUPS
        ):
            raise DataError("monitor: the counts contradict each other; start a new one")
        monitor._counts = GroupCounts(monitor.question, names, trials, successes)
        monitor._places = {name: place for place, name in enumerate(names)}
        return monitor

    def __repr__(self) -> str:
        gap = f"{'ratio' if self.question.kind == 'ratio' else 'gap'} {self.gap:.4f}"
        return f"<Monitor: {self.conclusion} after {self.rows:,} rows, {gap}, threshold {self.question.threshold:g}>"

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{rows}</td><td>{rate}</td></tr>"
            for (name, rate), rows in zip(self.rates.items(), self._counts.trials, strict=True)
        )
        return (
            f"<p><b>{self.conclusion}</b> after {self.rows:,} rows: {html.escape(sentence(self.gap, self.question))}"
            f"<br>{html.escape(monitor_statement(self.decision, self.question, len(self._counts.names)))}</p>"
            f"<table><tr><th>group</th><th>rows</th><th>rate</th></tr>{rows}</table>"
        )


def _listed(name: str, values: Any) -> list[Any]:
    """Return the values of a list, an array or a series; a DataError names the argument if some are masked."""
    try:
        cells = list(values)
    except TypeError:
        raise DataError(f"{name}: found {type(values).__name__}; give a value for each row in a list") from None
    if has_masked(values) or any(cell is np.ma.masked for cell in cells):
        raise DataError(f"{name}: has masked values; fill them or leave these rows out")
    return cells


def _array(name: str, values: Any) -> NDArray[Any]:
    """Return the same as an array of any shape."""
    array = values if isinstance(values, np.ndarray) and values.ndim else None
    try:
        return np.asarray(_listed(name, values) if array is None or has_masked(array) else array)
    except ValueError:
        raise DataError(f"{name}: found lists of different lengths; give one value for each row") from None


def sentence(gap: Interval, question: MonitoredProperty) -> str:
    """Return the gap and the threshold in a few words."""
    what = LARGEST_GAP if question.kind == "difference" else "the smallest ratio"
    return f"{what} is {gap:.4f}; the threshold is {question.threshold:g}"


def monitor_statement(decision: Decision, question: MonitoredProperty, groups: int) -> str:
    """Return the guarantee in a sentence."""
    about = f"these {groups} groups" if question.groups else f"the {groups} groups seen so far"
    if decision is Decision.UNDECIDED:
        return f"No decision about {about} yet: the evidence allows both."
    if question.kind == "difference":
        wrong = "every gap were at most" if decision is Decision.UNFAIR else "some gap were at least"
    else:
        wrong = "every ratio were at least" if decision is Decision.UNFAIR else "some ratio were at most"
    return (
        f"If decisions within each group are independent with a fixed rate, and {wrong} {question.threshold:g} among "
        f"{about}, a monitor like this would ever have reported {decision.name} with probability at most "
        f"{question.delta:g}."
    )


def forecast(counts: GroupCounts) -> int | None:
    """Forecast the number of further rows until a decision at these rates; None beyond a million times the rows."""
    if (counts.trials > 0).sum() < 2:
        return None
    times = 2 ** (np.arange(1, 81) / 4)[:, None]
    times = times[times[:, 0] * counts.rows < 2**62]
    trials = np.round(counts.trials * times).astype(np.int64)
    successes = np.round(counts.successes / np.maximum(counts.trials, 1) * trials).astype(np.int64)
    decided = next_decisions(0, 0, trials, successes, counts.question) > 0
    return int(trials[decided.argmax()].sum()) - counts.rows if decided.any() else None


def describe_monitor(decision: Decision, counts: GroupCounts) -> dict[str, Any]:
    """Return all results as plain JSON values."""
    gap, question = counts.gap, counts.question
    more, less = counts.widest() or (None, None)
    return {
        "verdict": counts.concluded(decision),
        "decision": decision.name,
        "constant": counts.constant,
        "allow_constant": question.allow_constant,
        "rows": counts.rows,
        "gap": {"estimate": gap.estimate, "low": gap.low, "high": gap.high, "more": more, "less": less},
        "kind": question.kind,
        "threshold": question.threshold,
        "delta": question.delta,
        "named": bool(question.groups),
        "groups": [
            {
                "name": name,
                "rows": int(rows),
                "successes": int(successes),
                "rate": rate.estimate,
                "low": rate.low,
                "high": rate.high,
            }
            for name, rows, successes, rate in zip(
                counts.names, counts.trials, counts.successes, counts.rates, strict=True
            )
        ],
        "forecast": forecast(counts) if decision is Decision.UNDECIDED else None,
        "statement": monitor_statement(decision, question, len(counts.names)),
    }
