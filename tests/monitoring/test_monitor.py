"""Promises of the class: one by one or many at once, asked often or never, it comes to the same."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairchain.errors import DataError, SpecError
from fairchain.monitoring import Monitor
from fairchain.monitoring.monitor import GROUP_NOT_KNOWN, TOO_MANY_STREAM_GROUPS
from fairchain.statistics import Decision
from tests.messages import says


def rows(size: int, rates: tuple[float, ...] = (0.2, 0.9), seed: int = 0) -> tuple[list[str], list[bool]]:
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, len(rates), size)
    return ["abc"[group] for group in groups], (rng.random(size) < np.array(rates)[groups]).tolist()


def test_one_by_one_is_the_same_as_many_at_once() -> None:
    groups, decisions = rows(300)
    many, single = Monitor(0.3), Monitor(0.3)
    changed = many.update_many(groups, decisions)
    seen = []
    for group, decision in zip(groups, decisions, strict=True):
        single.update(group, decision)
        seen.append(single.decision)
    assert single.to_dict() == many.to_dict()
    assert changed == next(place for place, each in enumerate(seen) if each is not Decision.UNDECIDED)
    assert many.decision is Decision.UNFAIR


@pytest.mark.parametrize("kind", ["difference", "ratio"])
@pytest.mark.parametrize("named", [["a", "b", "c"], None])
def test_it_goes_on_from_its_own_description(kind: Any, named: list[str] | None) -> None:
    groups, decisions = rows(400, (0.3, 0.5, 0.4))
    whole, part = (Monitor(0.2, kind=kind, delta=0.1, groups=named) for _ in range(2))
    whole.update_many(groups, decisions)
    part.update_many(groups[:150], decisions[:150])
    again = Monitor.from_dict(json.loads(json.dumps(part.to_dict())))
    again.update_many(groups[150:], decisions[150:])
    assert again.to_dict() == whole.to_dict()


def test_fair_waits_for_every_named_group_and_loses_its_ground_when_a_new_one_comes() -> None:
    same = ["a", "b"] * 4000, [True, True, False, False] * 2000
    named, growing = Monitor(0.1, groups=["a", "b", "c"]), Monitor(0.1)
    named.update_many(*same)
    growing.update_many(*same)
    assert (named.decision, growing.decision) == (Decision.UNDECIDED, Decision.FAIR)
    growing.update("c", True)
    assert growing.decision is Decision.UNDECIDED
    assert growing.gap.high > 0.4


def test_arrays_and_numbers_are_taken_too() -> None:
    monitor = Monitor(0.5)
    monitor.update_many(np.array([0, 1, 1]), np.array([1, 0, 1]))
    monitor.update_many(np.array(["0", "1"]), np.array([True, False]))
    assert monitor.update_many([], []) is None
    assert monitor.rows == 5
    assert {name: rate.estimate for name, rate in monitor.rates.items()} == {"0": 1.0, "1": 1 / 3}


def test_intervals_contain_the_estimates_and_a_ratio_is_told_as_a_ratio() -> None:
    monitor = Monitor(0.8, kind="ratio")
    monitor.update_many(*rows(500, (0.5, 0.6)))
    found = monitor.to_dict()
    assert found["gap"]["low"] <= found["gap"]["estimate"] <= found["gap"]["high"]
    less, more = sorted(rate.estimate for rate in monitor.rates.values())
    assert found["gap"]["estimate"] == pytest.approx(less / more)
    for rate in monitor.rates.values():
        assert rate.estimate in rate
    assert "smallest ratio" in monitor._repr_html_()


def test_it_shows_itself_and_escapes_names() -> None:
    monitor = Monitor(0.3)
    assert "UNDECIDED after 0 rows" in repr(monitor)
    monitor.update_many(["<b>", "a"] * 60, [True, False] * 60)
    assert "UNFAIR after 120 rows" in repr(monitor)
    assert "&lt;b&gt;" in monitor._repr_html_()
    assert "<b>UNFAIR</b>" in monitor._repr_html_()


def test_the_statement_says_no_more_than_is_true() -> None:
    monitor = Monitor(0.1, groups=["a", "b"])
    monitor.update_many(["a", "b"] * 5000, [True, True, False, False] * 2500)
    assert monitor.to_dict()["statement"] == (
        "If decisions within each group are independent with a fixed rate, and some gap were at least 0.1 among these "
        "2 groups, a monitor like this would ever have reported FAIR with probability at most 0.05."
    )


def test_a_forecast_is_about_right() -> None:
    monitor = Monitor(0.1)
    monitor.update_many(*rows(1000, (0.3, 0.45)))
    assert monitor.decision is Decision.UNDECIDED
    more = monitor.to_dict()["forecast"]
    changed = monitor.update_many(*rows(100_000, (0.3, 0.45), seed=1))
    assert changed is not None
    assert 0.1 < changed / more < 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold": 0.0}, "threshold: found 0.0"),
        ({"threshold": 0.1, "delta": 1.0}, "delta: found 1.0"),
        ({"threshold": Decimal("sNaN")}, "threshold: found Decimal"),
        ({"threshold": Fraction(10**400, 3)}, "threshold: found Fraction\\(1000"),
        ({"threshold": 1j}, "threshold: found 1j"),
        ({"threshold": 0.1, "delta": "0.05"}, "delta: found '0.05'"),
        ({"threshold": 0.1, "kind": "gap"}, 'kind: found "gap"'),
        ({"threshold": 0.1, "groups": ["a"]}, "at least two"),
        ({"threshold": 0.1, "groups": ["a", "a"]}, "named twice"),
        ({"threshold": 0.1, "groups": map(str, range(501))}, "501 are more than 500"),
    ],
)
def test_a_question_that_cannot_be_meant(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        Monitor(**options)


@pytest.mark.parametrize(
    ("groups", "decisions", "words"),
    [
        (["a"], [True, False], "shape \\(2,\\) for 1 groups"),
        (["a"], ["yes"], "write True or 1"),
        (["a"], [0.7], "write True or 1"),
        (["a"], [None], "write True or 1"),
        (["z"], [True], 'group "z": not one of those named \\(a, b\\)'),
        (["a", "b"], np.ma.array([1, 0], mask=[False, True]), "decisions: has masked values"),
        (["a", "b"], [1, np.ma.masked], "decisions: has masked values"),
        (np.ma.array(["a", "b"], mask=[False, True]), [1, 0], "groups: has masked values"),
        (np.array("a"), [1], "groups: found ndarray; give a value for each row"),
        (["a"], np.array(1), "decisions: found ndarray"),
        (["a", "b"], [[1], [0, 1]], "decisions: found lists of different lengths"),
    ],
)
def test_rows_that_cannot_be_counted_change_nothing(groups: Any, decisions: Any, words: str) -> None:
    monitor = Monitor(0.1, groups=["a", "b"])
    with pytest.raises(DataError, match=words):
        monitor.update_many(groups, decisions)
    assert monitor.rows == 0


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, Decimal("sNaN")])
def test_a_missing_group_is_not_counted_as_one(missing: Any) -> None:
    """The texts None and nan are names like others."""
    monitor = Monitor(Fraction(1, 10))
    with pytest.raises(DataError, match=says(GROUP_NOT_KNOWN, row="2")):
        monitor.update_many(["a", missing], [True, False])
    monitor.update_many(["None", "nan"], [True, False])
    assert (monitor.rows, monitor.question.threshold) == (2, 0.1)


@pytest.mark.parametrize(("name", "words"), [("a\0b", "NUL character"), ("a" * 1001, "more than 1,000 characters")])
def test_a_group_whose_name_cannot_be_kept_is_refused(name: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        Monitor(0.1).update(name, True)
    with pytest.raises(SpecError, match=words):
        Monitor(0.1, groups=["a", name])


def test_a_column_of_names_is_no_column_of_groups() -> None:
    monitor = Monitor(0.1)
    with pytest.raises(DataError, match=says(TOO_MANY_STREAM_GROUPS, places_count="501", most_groups="500")):
        monitor.update_many(range(501), [True] * 501)
    assert monitor.rows == 0


@pytest.mark.parametrize(
    "change",
    [
        {"groups": [{"name": "a", "rows": 1, "successes": 2}]},
        {"groups": [{"name": "a"}]},
        {"kind": None},
        {"delta": "x"},
    ],
)
def test_a_description_that_is_none(change: dict[str, Any]) -> None:
    with pytest.raises((DataError, SpecError)):
        Monitor.from_dict({**Monitor(0.1).to_dict(), **change})


@pytest.mark.parametrize("decision", [True, False])
def test_one_decision_for_everybody_is_concluded_as_constant(decision: bool) -> None:
    monitor = Monitor(threshold=0.2)
    monitor.update_many(["a", "b"] * 300, [decision] * 600)
    assert (monitor.decision.name, monitor.conclusion) == ("FAIR", "CONSTANT")
    assert "<b>CONSTANT</b>" in monitor._repr_html_()
    again = Monitor.from_dict(monitor.to_dict())
    assert again.conclusion == "CONSTANT"
    again.update("a", not decision)
    assert (again.decision.name, again.conclusion) == ("FAIR", "FAIR")
    allowed = Monitor.from_dict({**monitor.to_dict(), "allow_constant": True})
    assert allowed.conclusion == "FAIR"
