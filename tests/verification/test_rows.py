"""Rows of a table: for everybody the numbers are fairlearn's and the answer is exact; a sample keeps its promise.

Simulated tables are seeded, so their results are the same every time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fairlearn.metrics as fairlearn
import numpy as np
import pytest

from fairchain import Decision, OnnxModel, Verdict, parse_spec, verify
from tests.questions import changed
from tests.verification.exact import NAMES, Answers, names, random_answers
from tests.verification.tables import LABELS, SEXES, Table, audit, counted, everybody, network, people


def coded(table: Table, column: str) -> np.ndarray:
    return np.array([LABELS.index(each) for each in table[column]])


def theirs(table: Table, metric: Any, **options: Any) -> float:
    return float(metric(coded(table, "truth"), coded(table, "decision"), sensitive_features=table["sex"], **options))


@pytest.mark.parametrize("seed", range(3))
def test_rates_of_groups_are_fairlearns_to_the_last_digit(seed: int) -> None:
    table = people(seed)
    metrics = {"selection": fairlearn.selection_rate, "yes": fairlearn.true_positive_rate}
    metrics["no"] = fairlearn.false_positive_rate
    frame = fairlearn.MetricFrame(
        metrics=metrics,
        y_true=coded(table, "truth"),
        y_pred=coded(table, "decision"),
        sensitive_features=table["sex"],
    )
    plain = verify(None, parse_spec(audit(compare="overall", outcome="yes")), data=table)
    expected = {f"sex={sex}": frame.by_group["selection"][sex] for sex in SEXES} | {
        "overall": frame.overall["selection"]
    }
    assert {group.name: group.probability.estimate for group in plain.groups} == expected
    odds = verify(None, parse_spec(audit(criterion="equalized_odds", outcome="yes")), data=table)
    assert {group.name: group.probability.estimate for group in odds.groups} == {
        f"sex={sex}, truth={truth}": frame.by_group[truth][sex] for truth in LABELS for sex in SEXES
    }
    assert all(group.probability.low == group.probability.high for group in (*plain.groups, *odds.groups))


def test_rates_of_the_label_that_was_not_counted_are_to_the_last_digit_too() -> None:
    """Of two labels one is counted; 1 - 1/3 is not the floating number 2/3."""
    data = changed(audit(), "feature.1.values", SEXES[:2])
    verdict = verify(None, parse_spec(data), data=counted({"Female": (1, 3), "Male": (3, 10)}))
    found = {(group.name, group.outcome): group.probability for group in verdict.groups}
    assert found["sex=Female", "no"].estimate == 2 / 3
    assert found["sex=Male", "no"].estimate == 7 / 10
    assert all(each.low == each.estimate == each.high for each in found.values())


def test_the_rate_of_the_other_label_is_right_for_a_mean_of_groups_too() -> None:
    """A mean of rates is no count over a count."""
    data = changed(audit(compare="average"), "feature.1.values", SEXES[:2])
    verdict = verify(None, parse_spec(data), data=counted({"Female": (1, 3), "Male": (3, 10)}))
    found = {(group.name, group.outcome): group.probability.estimate for group in verdict.groups}
    assert found["mean of the groups", "yes"] == pytest.approx((1 / 3 + 3 / 10) / 2)
    assert found["mean of the groups", "no"] == pytest.approx((2 / 3 + 7 / 10) / 2)
    assert found["overall", "no"] == 9 / 13


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("compare", ["groups", "overall"])
def test_differences_are_fairlearns_to_the_last_digit(compare: str, seed: int) -> None:
    table, method = people(seed), "between_groups" if compare == "groups" else "to_overall"
    metrics = {
        "demographic_parity": fairlearn.demographic_parity_difference,
        "equal_opportunity": fairlearn.equal_opportunity_difference,
        "equalized_odds": fairlearn.equalized_odds_difference,
    }
    for criterion, metric in metrics.items():
        verdict = verify(None, parse_spec(audit(criterion=criterion, compare=compare, outcome="yes")), data=table)
        assert verdict.gap.estimate == verdict.gap.low == verdict.gap.high == theirs(table, metric, method=method)
        assert verdict.delta == 0
        assert verdict.rule == "exact"


@pytest.mark.parametrize("seed", [0, 6, 12])
def test_ratios_are_fairlearns_to_the_last_digit(seed: int) -> None:
    table = people(seed)
    metrics = {
        "demographic_parity": fairlearn.demographic_parity_ratio,
        "equal_opportunity": fairlearn.equal_opportunity_ratio,
        "equalized_odds": fairlearn.equalized_odds_ratio,
    }
    for criterion, metric in metrics.items():
        verdict = verify(None, parse_spec(audit("ratio", criterion=criterion, outcome="yes")), data=table)
        assert verdict.gap.estimate == theirs(table, metric)
        # Ours has the smaller rate over the larger; theirs divides by everybody's first, and that rounds once more.
        verdict = verify(
            None, parse_spec(audit("ratio", criterion=criterion, compare="overall", outcome="yes")), data=table
        )
        assert verdict.gap.estimate == pytest.approx(theirs(table, metric, method="to_overall"), rel=1e-15)


# (got, rows) of two groups whose gap, or ratio, is exactly the threshold, whatever floating numbers make of it.
AT_THE_THRESHOLD = [
    ("difference", 0.1, (8, 10), (7, 10)),
    ("difference", 0.1, (3, 10), (2, 10)),
    ("difference", 0.1, (47, 70), (4, 7)),
    ("difference", 0.3, (9, 10), (6, 10)),
    ("difference", 0.07, (57, 100), (50, 100)),
    ("ratio", 0.8, (5, 10), (4, 10)),
    ("ratio", 0.8, (35, 45), (28, 45)),
    ("ratio", 0.9, (10, 11), (9, 11)),
    ("ratio", 0.7, (10, 30), (7, 30)),
]


@pytest.mark.parametrize(("kind", "threshold", "first", "second"), AT_THE_THRESHOLD)
def test_exactly_at_the_threshold_is_fair_and_one_row_more_is_not(
    kind: str, threshold: float, first: tuple[int, int], second: tuple[int, int]
) -> None:
    data = audit(kind, threshold, outcome="yes")
    data["feature"][1]["values"] = SEXES[:2]
    verdict = verify(None, parse_spec(data), data=counted({"Female": first, "Male": second}))
    assert verdict.decision is Decision.FAIR
    assert verdict.violators == ()
    assert "meets the threshold" in verdict.statement
    worse = verify(None, parse_spec(data), data=counted({"Female": first, "Male": (second[0] - 1, second[1])}))
    assert worse.decision is Decision.UNFAIR
    assert [(pair.more, pair.less) for pair in worse.violators] == [("sex=Female", "sex=Male")]


def test_a_gap_at_the_threshold_is_not_called_below_it() -> None:
    data = changed(audit(outcome="yes"), "feature.1.values", SEXES[:2])
    verdict = verify(None, parse_spec(data), data=counted({"Female": (8, 10), "Male": (7, 10)}))
    assert verdict.fair
    assert "below" not in str(verdict)


@pytest.mark.parametrize("number", range(30))
def test_a_table_with_everybody_once_gives_the_exact_answer(number: int, tmp_path: Path) -> None:
    """Random networks and questions under uniform inputs, counted by hand; thresholds lie as near as they like."""
    rng = np.random.default_rng(number)
    asked: Answers = random_answers(rng, ("difference", "ratio", "individual")[number % 3], "uniform")
    truth = asked.measured()
    near = [float(truth), round(float(truth), 2), float(rng.uniform(0.01, 0.99))]
    rows = list(asked.world.shares)
    table: Table = {
        name: [names(name, size)[row[at]] if at else row[0] for row in rows]
        for at, (name, size) in enumerate(zip(NAMES, asked.world.sizes, strict=True))
    }
    path, numbers = asked.net.save(tmp_path / "network.onnx"), asked.numbers()
    for threshold in near:
        if not 0 < threshold < 1:
            continue
        data = asked.spec(path, threshold) | {"population": {"kind": "table", "as": "population"}}
        verdict = verify(None, parse_spec(data), data=table)
        assert (verdict.decision is Decision.FAIR) == asked.fair(threshold)
        assert verdict.gap.estimate == pytest.approx(numbers.measured, abs=1e-12)
        for group in verdict.groups:
            exact = numbers.rates[group.name, int(group.outcome[1:])] if numbers.rates else numbers.measured
            assert group.probability.estimate == pytest.approx(exact, abs=1e-12)


def resampled(table: Table, rng: np.random.Generator, rows: int) -> Table:
    chosen = rng.integers(0, len(table["sex"]), rows)
    return {name: [column[row] for row in chosen] for name, column in table.items()}


@pytest.mark.parametrize(
    ("asked", "truth"),
    [
        ({"kind": "difference"}, 0.2),
        ({"kind": "ratio"}, 400 / 600),
        ({"kind": "difference", "compare": "overall"}, 0.1),
        ({"kind": "difference", "compare": "average"}, 0.0),
    ],
    ids=["difference", "ratio", "overall", "average"],
)
def test_intervals_from_samples_of_a_known_population_contain_its_gap(asked: dict[str, Any], truth: float) -> None:
    """25 tables at delta 0.1; the threshold is the gap, so that any verdict would be wrong too."""
    threshold = truth or 0.5
    data = audit(threshold=threshold, reading="sample", outcome="yes", **asked)
    spec = parse_spec(changed(data, "guarantee.delta", 0.1))
    rng, missed, wrong = np.random.default_rng(1), 0, 0
    for _ in range(25):
        verdict = verify(None, spec, data=resampled(everybody(), rng, 120), workers=1)
        missed += truth not in verdict.gap
        wrong += verdict.decision is not Decision.UNDECIDED
        assert verdict.gap.low <= verdict.gap.estimate <= verdict.gap.high
    assert missed <= 0.1 * 25
    if truth:
        assert wrong <= 0.1 * 25


def test_all_rates_of_a_sample_are_within_their_intervals_together() -> None:
    """25 tables at delta 0.2: some rate of some group lies outside in at most a fifth of them."""
    truths = {"sex=Female": 0.6, "sex=Male": 0.4, "sex=Other": 0.5}
    spec = parse_spec(changed(audit(reading="sample", outcome="yes"), "guarantee.delta", 0.2))
    rng, missed = np.random.default_rng(2), 0
    for _ in range(25):
        verdict = verify(None, spec, data=resampled(everybody(), rng, 90), workers=1)
        missed += any(truths[group.name] not in group.probability for group in verdict.groups)
    assert missed <= 0.2 * 25


def test_a_sample_that_is_too_small_says_how_many_times_as_many_rows_would_do() -> None:
    spec = parse_spec(audit(threshold=0.4, reading="sample", outcome="yes"))
    small = verify(None, spec, data=counted({"Female": (60, 100), "Male": (40, 100), "Other": (25, 50)}))
    assert (small.decision, small.stopped) == (Decision.UNDECIDED, "rows")
    assert small.forecast is not None
    times = small.forecast
    many = counted(
        {"Female": (60 * times, 100 * times), "Male": (40 * times, 100 * times), "Other": (25 * times, 50 * times)}
    )
    assert verify(None, spec, data=many).decision is Decision.FAIR


@pytest.mark.parametrize("reading", ["population", "sample"])
@pytest.mark.parametrize(
    "asked", [{}, {"criterion": "equalized_odds"}, {"compare": "average"}, {"given": "age < 60"}], ids=str
)
def test_recorded_decisions_give_the_numbers_of_the_network_that_made_them(
    asked: dict[str, Any], reading: str, tmp_path: Path
) -> None:
    table = people(3)
    data = audit(reading=reading, outcome="yes", **asked)
    recorded = parse_spec(data)
    data = changed(changed(data, "population.prediction", ...), "model.path", str(network(tmp_path)))
    spec = parse_spec(data)
    values = np.array(
        [[age, SEXES.index(sex)] for age, sex in zip(table["age"], table["sex"], strict=True)], np.float32
    )
    labels = OnnxModel(data["model"]["path"], spec).predict(values)
    by_network = verify(None, spec, data=table)
    by_record = verify(None, recorded, data=table | {"decision": [LABELS[label] for label in labels]})

    def numbers(verdict: Verdict) -> tuple[Any, ...]:
        return verdict.decision, verdict.gap, verdict.widest, verdict.groups, verdict.violators, verdict.evidence

    assert numbers(by_network) == numbers(by_record)
    assert (by_record.evaluations, by_record.model_sha256) == (0, "")
    assert by_network.evaluations > 0
    assert 'the decisions recorded in column "decision"' in by_record.scope
