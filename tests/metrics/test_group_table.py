"""Promises of `metrics.by_group`: the numbers of fairlearn's MetricFrame, and intervals that hold together."""

from __future__ import annotations

import math
from typing import Any

import fairlearn.metrics
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, precision_score

from fairchain import metrics
from fairchain.errors import DataError
from fairchain.metrics import GroupTable, by_group
from fairchain.metrics.group_table import NOTHING_TO_COMPARE
from tests.child import run_child
from tests.messages import says

FUNCTIONS = {
    "selection_rate": fairlearn.metrics.selection_rate,
    "accuracy": accuracy_score,
    "false_positive_rate": fairlearn.metrics.false_positive_rate,
    "false_negative_rate": fairlearn.metrics.false_negative_rate,
    "positive_predictive_value": precision_score,
}


def rows(seed: int, count: int = 400) -> dict[str, Any]:
    """Draw labels, decisions, scores, two sensitive features and one control feature."""
    rng = np.random.default_rng(seed)
    sex, race = np.array(["F", "M"])[rng.integers(0, 2, count)], rng.integers(0, 3, count)
    y_true = rng.integers(0, 2, count)
    score = np.clip(0.3 * y_true + 0.2 * (sex == "F") + 0.5 * rng.random(count), 0, 1)
    return {
        "y_true": y_true,
        "y_pred": (score > 0.45).astype(int),
        "y_score": score,
        "sensitive": pd.DataFrame({"sex": sex, "race": race}),
        "control": pd.Series(np.array(["north", "south"])[rng.integers(0, 2, count)], name="region"),
    }


def frames(seed: int, *, control: bool) -> tuple[GroupTable, Any]:
    """Return our table and fairlearn's MetricFrame of the same rows."""
    found = rows(seed)
    controls = {"control_features": found["control"]} if control else {}
    both = {"sensitive_features": found["sensitive"], **controls}
    theirs = fairlearn.metrics.MetricFrame(metrics=FUNCTIONS, y_true=found["y_true"], y_pred=found["y_pred"], **both)
    return by_group(found["y_true"], found["y_pred"], **both), theirs


@pytest.mark.parametrize("control", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_estimates_are_those_of_a_metric_frame_to_the_last_digit(seed: int, control: bool) -> None:
    ours, theirs = frames(seed, control=control)
    for metric in FUNCTIONS:
        assert ours.to_frame()[metric].to_dict() == theirs.by_group[metric].to_dict()
        assert {key: each.estimate for key, each in ours.by_group(metric).items()} == theirs.by_group[metric].to_dict()
        overall = {key: each.estimate for key, each in ours.overall(metric).items()}
        assert overall == (theirs.overall[metric].to_dict() if control else {(): theirs.overall[metric]})
        for method in ("between_groups", "to_overall"):
            for name in ("difference", "ratio"):
                values = getattr(theirs, name)(method=method)
                for region in ("north", "south") if control else ((),):
                    found = getattr(ours, name)(metric, method=method, control=region)
                    assert found.estimate == (values[metric][region] if control else values[metric])
                    assert 0 <= found.low <= found.estimate <= found.high <= 1


def test_the_groups_of_each_feature_are_there_besides_their_combinations() -> None:
    found = rows(4)
    ours = by_group(found["y_true"], found["y_pred"], sensitive_features=found["sensitive"])
    alone = by_group(found["y_true"], found["y_pred"], sensitive_features=found["sensitive"]["sex"])
    assert alone.features == ("sex",)
    for metric in FUNCTIONS:
        each = {key: rate.estimate for key, rate in ours.by_group(metric, by="sex").items()}
        assert each == {key: rate.estimate for key, rate in alone.by_group(metric).items()}
        assert ours.difference(metric, by="sex").estimate == alone.difference(metric).estimate
    assert list(ours.to_frame(by="race").index) == [0, 1, 2]


def test_calibration_is_that_of_scikit_learn_in_every_group() -> None:
    found = rows(5, 3000)
    sex = found["sensitive"]["sex"]
    table = by_group(found["y_true"], found["y_pred"], sensitive_features=sex, y_score=found["y_score"], bins=5)
    for group in ("F", "M"):
        mine = sex == group
        rate, score = calibration_curve(found["y_true"][mine], found["y_score"][mine], n_bins=5)
        bins = [each for each in table.calibration if each.group == (group,)]
        assert [each.rate.estimate for each in bins] == rate.tolist()
        assert [each.score for each in bins] == pytest.approx(score.tolist(), abs=1e-12)
        assert all(each.low <= each.score <= each.high for each in bins)
    # Scores are at most 0.8 in group M without a true label, and positives are rarer than the highest scores say.
    assert any(each.miscalibrated for each in table.calibration)
    assert table.calibration_frame()["miscalibrated"].any()


def test_a_rate_among_no_rows_is_not_known_and_not_compared() -> None:
    y_true, y_pred = [1, 1, 0, 0, 1, 1], [1, 0, 1, 0, 1, 1]
    table = by_group(y_true, y_pred, sensitive_features=list("aabbcc"))
    empty = table.by_group("false_positive_rate")["a"]
    assert math.isnan(empty.estimate)
    assert (empty.low, empty.high) == (0.0, 1.0)
    assert "3 rates without rows" in str(table)
    with pytest.raises(DataError, match=says(NOTHING_TO_COMPARE)):
        table.difference("false_positive_rate")


def test_without_true_labels_the_table_has_selection_rates() -> None:
    table = by_group(None, ["yes", "no"] * 20, sensitive_features=["F", "F", "M", "M"] * 10, pos_label="yes")
    assert table.metrics == ("selection_rate",)
    assert table.by_group("selection_rate")["F"].estimate == 0.5


def test_the_table_prints_groups_all_rows_and_its_guarantee() -> None:
    found = rows(6)
    hostile = np.where(found["sensitive"]["sex"] == "F", "<b>F</b>", "M")
    table = by_group(found["y_true"], found["y_pred"], sensitive_features={"sex": hostile})
    text, page = str(table), table._repr_html_()
    assert "sex=M" in text
    assert "all rows" in text
    assert "hold together with probability at least 1 - 0.05" in text
    assert repr(table) == text
    assert "<b>" not in page
    assert "&lt;b&gt;F&lt;/b&gt;" in page


MISTAKES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "lengths": ({"y_true": [0, 1]}, ["y_true", "2 rows", "y_pred has 8"]),
    "labels": ({"y_pred": ["no", "yes"] * 4}, ["y_pred", "state pos_label"]),
    "control length": ({"control_features": [1]}, ["control_features", "1 rows"]),
    "control twice": (
        {"sensitive_features": {"a": [0, 1] * 4}, "control_features": {"a": [0, 1] * 4}},
        ["control_features", "sensitive feature too"],
    ),
    "scores": ({"y_score": [2.0] * 8}, ["y_score", "row 1 has 2", "from 0 to 1"]),
    "scores that are texts": ({"y_score": ["high"] * 8}, ["y_score", "numbers"]),
    "scores without truth": ({"y_true": None, "y_score": [0.5] * 8}, ["y_score", "give y_true"]),
    "bins": ({"y_score": [0.5] * 8, "bins": 0}, ["bins", "found 0"]),
    "delta": ({"delta": 2}, ["delta"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_message_names_the_argument_and_the_remedy(mistake: str) -> None:
    changes, parts = MISTAKES[mistake]
    good = {"y_true": [0, 1] * 4, "y_pred": [0, 1, 1, 1] * 2, "sensitive_features": ["F", "F", "M", "M"] * 2}
    with pytest.raises(DataError) as caught:
        by_group(**{**good, **changes})
    assert all(part in str(caught.value) for part in parts)


def test_questions_about_a_table_are_checked() -> None:
    table = by_group([0, 1] * 4, [0, 1, 1, 1] * 2, sensitive_features={"sex": ["F", "F", "M", "M"] * 2})
    for call, part in (
        (lambda: table.difference("f1"), 'unknown name "f1"'),
        (lambda: table.ratio("accuracy", by="race"), '"race" is not a sensitive feature'),
        (lambda: table.difference("accuracy", control="north"), "no control features"),
        (lambda: table.difference("accuracy", method="to_mean"), "method"),  # type: ignore[arg-type]
    ):
        with pytest.raises(DataError, match=part):
            call()


# P(group), P(true label | group), and P(decision | group, true label); scores have two values, one on each side of 0.5.
SHARES = {("F", 0): 0.1, ("F", 1): 0.2, ("M", 0): 0.3, ("M", 1): 0.4}
TRUE = {("F", 0): 0.2, ("F", 1): 0.5, ("M", 0): 0.4, ("M", 1): 0.7}
DECIDED = {("F", 0): (0.1, 0.5), ("F", 1): (0.3, 0.6), ("M", 0): (0.2, 0.8), ("M", 1): (0.4, 0.9)}


def truth_of(metric: str, keys: list[tuple[str, int]]) -> float:
    """Return the true value of a metric in a set of groups."""
    counted = hit = 0.0
    for key in keys:
        for truth in (0, 1):
            for decision in (0, 1):
                chance = SHARES[key] * (TRUE[key] if truth else 1 - TRUE[key])
                chance *= DECIDED[key][truth] if decision else 1 - DECIDED[key][truth]
                asked, got = {
                    "selection_rate": (True, decision),
                    "accuracy": (True, truth == decision),
                    "false_positive_rate": (not truth, decision),
                    "false_negative_rate": (truth, not decision),
                    "positive_predictive_value": (decision, truth),
                }[metric]
                counted += chance * bool(asked)
                hit += chance * bool(asked and got)
    return hit / counted


def misses(delta: float, runs: int) -> int:
    """Return how many tables of drawn rows have at least one interval without the true value."""
    keys, wrong = list(SHARES), 0
    for seed in range(runs):
        rng = np.random.default_rng((seed, 77))
        drawn = rng.choice(4, 250, p=list(SHARES.values()))
        truth = (rng.random(250) < np.array([TRUE[key] for key in keys])[drawn]).astype(int)
        decided = (rng.random(250) < np.array([DECIDED[key] for key in keys])[drawn, truth]).astype(int)
        features = {"sex": [keys[i][0] for i in drawn], "race": [keys[i][1] for i in drawn]}
        table = by_group(truth, decided, sensitive_features=features, y_score=0.25 + 0.5 * decided, bins=2, delta=delta)

        def inside(features: tuple[str, ...], group: tuple[Any, ...]) -> list[tuple[str, int]]:
            wanted = dict(zip(features, group, strict=True))
            return [
                key for key in keys if all(wanted.get(n, v) == v for n, v in zip(("sex", "race"), key, strict=True))
            ]

        bad = [
            not each.rate.low - 1e-12
            <= truth_of(each.metric, inside(each.features, each.group))
            <= each.rate.high + 1e-12
            for each in table.rates
        ]
        for each in table.calibration:
            among = inside(each.features, each.group)
            known = truth_of("positive_predictive_value", among)
            if each.high <= 0.5:
                # P(true label | not selected) follows from the other rates.
                positive, selected = sum(SHARES[k] * TRUE[k] for k in among), truth_of("selection_rate", among)
                share = sum(SHARES[k] for k in among)
                known = (positive / share - known * selected) / (1 - selected)
            bad.append(not each.rate.low - 1e-12 <= known <= each.rate.high + 1e-12)
        gap = max(truth_of("positive_predictive_value", [k]) for k in keys) - min(
            truth_of("positive_predictive_value", [k]) for k in keys
        )
        if all(each.rows for each in table.rates):
            found = table.difference("positive_predictive_value")
            bad.append(not found.low - 1e-12 <= gap <= found.high + 1e-12)
        wrong += any(bad)
    return wrong


def test_all_intervals_of_a_table_hold_together_and_would_not_without_the_union() -> None:
    """A sound table is called unsound with probability below 1e-6, whatever the rates."""
    runs, delta, intervals = 150, 0.008, 63
    assert binom.sf(misses(delta, runs) - 1, runs, delta) > 1e-6
    # Each interval at delta by itself: the same levels without their division by the number of intervals.
    assert binom.sf(misses(delta * intervals, runs) - 1, runs, delta) < 1e-6


def test_metrics_are_found_without_an_import_of_their_own() -> None:
    assert metrics.by_group is by_group
    assert run_child("import fairchain; print(fairchain.metrics.by_group.__name__)").strip() == "by_group"
