"""Rows of a table: for everybody the numbers are fairlearn's and the answer is exact; a sample keeps its promise.

Simulated tables are seeded, so their results are the same every time.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import fairlearn.metrics as fairlearn
import numpy as np
import pytest

from fairchain import DataError, Decision, OnnxModel, Verdict, parse_spec, verify
from tests.networks import linear, save
from tests.questions import category, changed, integer, question, real
from tests.verification.exact import NAMES, Answers, names, random_answers

LABELS = ["no", "yes"]
SEXES = ["Female", "Male", "Other"]
Table = dict[str, list[Any]]


def audit(
    kind: str = "difference", threshold: float = 0.1, reading: str = "population", **asked: Any
) -> dict[str, Any]:
    """A question about decisions that a table records."""
    data = question(integer("age", 0, 99), category("sex", *SEXES))
    data["model"] = {"labels": LABELS}
    data["property"] |= {"kind": kind, "threshold": threshold, **asked}
    return data | {"population": {"kind": "table", "as": reading, "label": "truth", "prediction": "decision"}}


def people(seed: int, count: int = 211) -> Table:
    """Random people; the sizes of the groups, and what they get, have nothing round about them."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(3, count, p=[0.5, 0.37, 0.13])
    truth = rng.random(count) < np.array([0.3, 0.6, 0.5])[sex]
    decision = rng.random(count) < np.where(truth, 0.8, 0.15)
    return {
        "age": rng.integers(17, 90, count).tolist(),
        "sex": [SEXES[each] for each in sex],
        "truth": [LABELS[each] for each in truth.astype(int)],
        "decision": [LABELS[each] for each in decision.astype(int)],
    }


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
    plain = verify(None, parse_spec(audit(compare="overall", outcome="yes")), table=table)
    expected = {f"sex={sex}": frame.by_group["selection"][sex] for sex in SEXES} | {
        "everybody": frame.overall["selection"]
    }
    assert {group.name: group.probability.estimate for group in plain.groups} == expected
    odds = verify(None, parse_spec(audit(criterion="equalized_odds", outcome="yes")), table=table)
    assert {group.name: group.probability.estimate for group in odds.groups} == {
        f"sex={sex}, truth={truth}": frame.by_group[truth][sex] for truth in LABELS for sex in SEXES
    }
    assert all(group.probability.low == group.probability.high for group in (*plain.groups, *odds.groups))


def test_rates_of_the_label_that_was_not_counted_are_to_the_last_digit_too() -> None:
    """Of two labels one is counted; 1 - 1/3 is not the floating number 2/3."""
    data = changed(audit(), "feature.1.values", SEXES[:2])
    verdict = verify(None, parse_spec(data), table=counted({"Female": (1, 3), "Male": (3, 10)}))
    found = {(group.name, group.outcome): group.probability for group in verdict.groups}
    assert found["sex=Female", "no"].estimate == 2 / 3
    assert found["sex=Male", "no"].estimate == 7 / 10
    assert all(each.low == each.estimate == each.high for each in found.values())


def test_the_rate_of_the_other_label_is_right_for_a_mean_of_groups_too() -> None:
    """A mean of rates is no count over a count."""
    data = changed(audit(compare="average"), "feature.1.values", SEXES[:2])
    verdict = verify(None, parse_spec(data), table=counted({"Female": (1, 3), "Male": (3, 10)}))
    found = {(group.name, group.outcome): group.probability.estimate for group in verdict.groups}
    assert found["mean of the groups", "yes"] == pytest.approx((1 / 3 + 3 / 10) / 2)
    assert found["mean of the groups", "no"] == pytest.approx((2 / 3 + 7 / 10) / 2)
    assert found["everybody", "no"] == 9 / 13


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
        verdict = verify(None, parse_spec(audit(criterion=criterion, compare=compare, outcome="yes")), table=table)
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
        verdict = verify(None, parse_spec(audit("ratio", criterion=criterion, outcome="yes")), table=table)
        assert verdict.gap.estimate == theirs(table, metric)
        # Ours has the smaller rate over the larger; theirs divides by everybody's first, and that rounds once more.
        verdict = verify(
            None, parse_spec(audit("ratio", criterion=criterion, compare="overall", outcome="yes")), table=table
        )
        assert verdict.gap.estimate == pytest.approx(theirs(table, metric, method="to_overall"), rel=1e-15)


def counted(groups: dict[str, tuple[int, int]]) -> Table:
    """So many of so many get it in each group."""
    sex = [name for name, (_, rows) in groups.items() for _ in range(rows)]
    decision = [LABELS[place < got] for got, rows in groups.values() for place in range(rows)]
    return {"age": [30] * len(sex), "sex": sex, "decision": decision, "truth": decision}


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
    verdict = verify(None, parse_spec(data), table=counted({"Female": first, "Male": second}))
    assert verdict.decision is Decision.FAIR
    assert verdict.violators == ()
    assert "meets the threshold" in verdict.statement
    worse = verify(None, parse_spec(data), table=counted({"Female": first, "Male": (second[0] - 1, second[1])}))
    assert worse.decision is Decision.UNFAIR
    assert [(pair.more, pair.less) for pair in worse.violators] == [("sex=Female", "sex=Male")]


def test_a_gap_at_the_threshold_is_not_called_below_it() -> None:
    data = changed(audit(outcome="yes"), "feature.1.values", SEXES[:2])
    verdict = verify(None, parse_spec(data), table=counted({"Female": (8, 10), "Male": (7, 10)}))
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
        verdict = verify(None, parse_spec(data), table=table)
        assert verdict.fair == asked.fair(threshold)
        assert verdict.gap.estimate == pytest.approx(numbers.measured, abs=1e-12)
        for group in verdict.groups:
            exact = numbers.rates[group.name, int(group.outcome[1:])] if numbers.rates else numbers.measured
            assert group.probability.estimate == pytest.approx(exact, abs=1e-12)


def everybody() -> Table:
    """A population whose sizes and rates are known, with a gap of exactly 0.2 between two of three groups."""
    return counted({"Female": (600, 1000), "Male": (400, 1000), "Other": (250, 500)})


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
        verdict = verify(None, spec, table=resampled(everybody(), rng, 120), workers=1)
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
        verdict = verify(None, spec, table=resampled(everybody(), rng, 90), workers=1)
        missed += any(truths[group.name] not in group.probability for group in verdict.groups)
    assert missed <= 0.2 * 25


def test_a_sample_that_is_too_small_says_how_many_times_as_many_rows_would_do() -> None:
    spec = parse_spec(audit(threshold=0.4, reading="sample", outcome="yes"))
    small = verify(None, spec, table=counted({"Female": (60, 100), "Male": (40, 100), "Other": (25, 50)}))
    assert (small.decision, small.stopped) == (Decision.UNDECIDED, "rows")
    assert small.forecast is not None
    times = small.forecast
    many = counted(
        {"Female": (60 * times, 100 * times), "Male": (40 * times, 100 * times), "Other": (25 * times, 50 * times)}
    )
    assert verify(None, spec, table=many).decision is Decision.FAIR


def network(folder: Path) -> Path:
    """yes from an age of 40 on for women, of 50 on for all others."""
    weights = np.zeros((2, 2))
    weights[:, 1] = [1, -5]
    return save(linear(weights, [39.5, 0]), folder / "network.onnx")


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
    by_network = verify(None, spec, table=table)
    by_record = verify(None, recorded, table=table | {"decision": [LABELS[label] for label in labels]})

    def numbers(verdict: Verdict) -> tuple[Any, ...]:
        return verdict.decision, verdict.gap, verdict.widest, verdict.groups, verdict.violators, verdict.ledger

    assert numbers(by_network) == numbers(by_record)
    assert (by_record.evaluations, by_record.model_sha256) == (0, "")
    assert by_network.evaluations > 0
    assert 'the decisions recorded in column "decision"' in by_record.scope


AGES = [17.0, 24.9, 25.0, 25.0, 39.0, 40.0]


def test_a_row_on_the_border_of_two_real_ranges_is_counted_once() -> None:
    """[17, 25] and [25, 40]: somebody aged 25 belongs to the range that begins there."""
    data = audit(protected=["age"])
    data["feature"][0] = real("age", 17, 40, groups={"young": [17, 25], "old": [25, 40]})
    table = {"age": AGES, "sex": ["Male"] * 6, "decision": ["yes", "no"] * 3, "truth": ["no"] * 6}
    verdict = verify(None, parse_spec(data), table=table)
    assert {group.name: group.evaluations for group in verdict.groups} == {"age=young": 2, "age=old": 4}


def combined(**asked: Any) -> dict[str, Any]:
    data = audit(protected=["sex", "age"], **asked)
    data["feature"][0] = integer("age", 0, 99, groups={"young": [0, 39], "old": [40, 99]})
    return data


def test_combinations_are_groups_and_small_ones_are_left_out_by_name() -> None:
    table = people(4)
    sizes: dict[str, int] = {}
    for age, sex in zip(table["age"], table["sex"], strict=True):
        name = f"sex={sex} & age={'young' if age < 40 else 'old'}"
        sizes[name] = sizes.get(name, 0) + 1
    assert len(sizes) == 6
    everyone = verify(None, parse_spec(combined(outcome="yes")), table=table)
    assert {group.name: group.evaluations for group in everyone.groups} == sizes
    assert everyone.left_out == ()
    least = sorted(sizes.values())[2]
    for min_size in (least, least / len(table["age"])):
        verdict = verify(None, parse_spec(combined(outcome="yes", min_size=min_size)), table=table)
        assert dict(verdict.left_out) == {name: size for name, size in sizes.items() if size < least}
        assert {group.name for group in verdict.groups} == {name for name, size in sizes.items() if size >= least}
        assert len(verdict.left_out) == 2


def test_with_true_labels_a_group_must_be_large_enough_for_each() -> None:
    table = counted({"Female": (30, 60), "Male": (30, 60), "Other": (3, 90)})
    verdict = verify(None, parse_spec(audit(criterion="equalized_odds", outcome="yes", min_size=10)), table=table)
    assert verdict.left_out == (("sex=Other", 3),)


def test_the_statement_says_that_groups_were_left_out() -> None:
    """FAIR speaks of those that are left only."""
    table = counted({"Female": (30, 60), "Male": (30, 60), "Other": (9, 9)})
    for reading in ("population", "sample"):
        verdict = verify(None, parse_spec(audit(reading=reading, threshold=0.9, min_size=10)), table=table)
        assert verdict.decision is Decision.FAIR
        assert "left out" in verdict.statement


@pytest.mark.parametrize("reading", ["population", "sample"])
def test_the_statement_says_that_rows_were_left_out(reading: str) -> None:
    """A table of 15 rows, of which 3 lack a value, is not "the 12 rows" of it."""
    table = counted({"Female": (3, 7), "Male": (3, 5), "Other": (1, 3)})
    table["age"][:3] = [None] * 3
    verdict = verify(None, parse_spec(changed(audit(reading=reading), "population.drop_missing", True)), table=table)
    assert "the 12 rows of" in verdict.statement
    assert "3 were left out" in verdict.statement


def test_a_group_that_nobody_belongs_to_is_named_with_its_count() -> None:
    table = counted({"Female": (3, 6), "Male": (3, 6)})
    with pytest.raises(DataError, match=r'"sex=Other" has 0 of the 12 rows'):
        verify(None, parse_spec(audit()), table=table)
    assert dict(verify(None, parse_spec(audit(min_size=1)), table=table).left_out) == {"sex=Other": 0}


def test_a_condition_that_holds_for_nobody_of_a_group_is_named_as_the_reason() -> None:
    """The group has six rows; that the condition leaves none of them is what must be said."""
    with pytest.raises(DataError, match="given"):
        verify(None, parse_spec(audit(given="sex != 'Other'")), table=everybody())


def test_what_is_shown_has_every_label_that_is_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    """A ratio looks at both of two labels, and the one that fails it must be among those shown."""
    from fairchain.cli.show import show_verdict

    data = changed(audit("ratio", threshold=0.8), "feature.1.values", SEXES[:2])
    show_verdict(verify(None, parse_spec(data), table=counted({"Female": (95, 100), "Male": (90, 100)})))
    shown = capsys.readouterr().out
    assert "the smallest ratio is 0.5000" in shown
    assert "0.0500 of 100" in shown


def test_individual_shows_every_row_as_each_group(tmp_path: Path) -> None:
    """Whoever is from 40 to 49 is decided differently as a woman; six of ten rows here are."""
    data = audit("individual", threshold=0.6)
    data = changed(changed(data, "population.prediction", ...), "model.path", str(network(tmp_path)))
    ages = [30, 39, 40, 41, 44, 45, 46, 49, 50, 60]
    table = {"age": ages, "sex": ["Male", "Other"] * 5, "truth": ["no"] * 10}
    verdict = verify(None, parse_spec(data), table=table)
    expected = [age for age in ages if (age > 39.5) != (age - 10 > 39.5)]
    assert Fraction(verdict.gap.estimate).limit_denominator(100) == Fraction(len(expected), 10)
    assert verdict.decision is (Decision.FAIR if len(expected) <= 6 else Decision.UNFAIR)
    assert [witness.input["age"] for witness in verdict.witnesses] == expected[:3]
    assert verdict.evaluations == 30


def test_a_witness_shows_the_change_that_is_asked_about(tmp_path: Path) -> None:
    """Three labels, and only changes to or from one of them count: a witness must show such a change."""
    path = save(linear([[0, 0, 0], [0, 0, 0]], [0, 0, 0]), tmp_path / "network.onnx")
    weights = np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 1.6]])
    save(linear(weights, [0.5, 0.0, -0.9]), path)
    data = question(integer("age"), category("sex", *SEXES), path=str(path), labels=["a", "b", "c"])
    data["property"] |= {"kind": "individual", "outcome": "c"}
    data["population"] = {"kind": "table", "as": "population"}
    verdict = verify(None, parse_spec(data), table={"age": [1, 2], "sex": ["Male", "Other"]})
    # As a woman a, as a man b, as somebody else c.
    assert verdict.gap.estimate == 1
    assert all("c" in witness.labels for witness in verdict.witnesses)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_rows_give_the_same_counts_whatever_the_workers(workers: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    count = 20_000
    table = {"age": rng.integers(0, 99, count), "sex": np.array(SEXES)[rng.integers(0, 3, count)]}
    data = audit()
    data = changed(changed(data, "population", {"kind": "table", "as": "sample"}), "model.path", str(network(tmp_path)))
    verdict = verify(None, parse_spec(data), table=table, workers=workers)
    limits = np.where(table["sex"] == "Female", 39.5, np.where(table["sex"] == "Male", 44.5, 49.5))
    expected = {f"sex={sex}": int(((table["age"] > limits) & (table["sex"] == sex)).sum()) for sex in SEXES}
    found = {
        group.name: group.probability.estimate * group.evaluations for group in verdict.groups if group.outcome == "yes"
    }
    assert found == pytest.approx(expected)


def test_the_share_of_people_in_a_sample_is_one_proportion(tmp_path: Path) -> None:
    """Nothing is spent on the arm that never changes: the bounds are those of one exact interval at delta."""
    from scipy.stats import binomtest

    data = audit("individual", threshold=0.1, reading="sample")
    data = changed(changed(data, "population.prediction", ...), "model.path", str(network(tmp_path)))
    ages = [45] * 60 + [20] * 140
    table = {"age": ages, "sex": ["Male", "Other"] * 100, "truth": ["no"] * 200}
    verdict = verify(None, parse_spec(changed(data, "guarantee.delta", 1e-6)), table=table)
    exact = binomtest(60, 200).proportion_ci(1 - 1e-6)
    assert (verdict.gap.low, verdict.gap.high) == pytest.approx((exact.low, exact.high), abs=1e-9)
    assert verdict.decision is Decision.UNFAIR
