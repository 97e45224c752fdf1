"""Rows of a table: who is compared, who is left out and said to be, and who is shown as somebody else."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain import DataError, Decision, parse_spec, verify
from fairchain.verification.counting import GROUP_WITHOUT_ROWS
from tests.messages import says
from tests.networks import linear, save
from tests.questions import category, changed, integer, question, real
from tests.verification.tables import SEXES, audit, counted, everybody, network, people

AGES = [17.0, 24.9, 25.0, 25.0, 39.0, 40.0]


def test_a_row_on_the_border_of_two_real_ranges_is_counted_once() -> None:
    """[17, 25] and [25, 40]: somebody aged 25 belongs to the range that begins there."""
    data = audit(protected=["age"])
    data["feature"][0] = real("age", 17, 40, groups={"young": [17, 25], "old": [25, 40]})
    table = {"age": AGES, "sex": ["Male"] * 6, "decision": ["yes", "no"] * 3, "truth": ["no"] * 6}
    verdict = verify(None, parse_spec(data), data=table)
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
    everyone = verify(None, parse_spec(combined(outcome="yes")), data=table)
    assert {group.name: group.evaluations for group in everyone.groups} == sizes
    assert everyone.left_out == ()
    least = sorted(sizes.values())[2]
    for min_size in (least, least / len(table["age"])):
        verdict = verify(None, parse_spec(combined(outcome="yes", min_size=min_size)), data=table)
        assert dict(verdict.left_out) == {name: size for name, size in sizes.items() if size < least}
        assert {group.name for group in verdict.groups} == {name for name, size in sizes.items() if size >= least}
        assert len(verdict.left_out) == 2


def test_with_true_labels_a_group_must_be_large_enough_for_each() -> None:
    table = counted({"Female": (30, 60), "Male": (30, 60), "Other": (3, 90)})
    verdict = verify(None, parse_spec(audit(criterion="equalized_odds", outcome="yes", min_size=10)), data=table)
    assert verdict.left_out == (("sex=Other", 3),)


def test_the_statement_says_that_groups_were_left_out() -> None:
    """FAIR speaks of those that are left only."""
    table = counted({"Female": (30, 60), "Male": (30, 60), "Other": (9, 9)})
    for reading in ("population", "sample"):
        verdict = verify(None, parse_spec(audit(reading=reading, threshold=0.9, min_size=10)), data=table)
        assert verdict.decision is Decision.FAIR
        assert "left out" in verdict.statement


@pytest.mark.parametrize("reading", ["population", "sample"])
def test_the_statement_says_that_rows_were_left_out(reading: str) -> None:
    """A table of 15 rows, of which 3 lack a value, is not "the 12 rows" of it."""
    table = counted({"Female": (3, 7), "Male": (3, 5), "Other": (1, 3)})
    table["age"][:3] = [None] * 3
    verdict = verify(None, parse_spec(changed(audit(reading=reading), "population.drop_missing", True)), data=table)
    assert "the 12 rows of" in verdict.statement
    assert "3 were left out" in verdict.statement


def test_a_group_that_nobody_belongs_to_is_named_with_its_count() -> None:
    table = counted({"Female": (3, 6), "Male": (3, 6)})
    with pytest.raises(DataError, match=says(GROUP_WITHOUT_ROWS, empty="sex=Other", values_count="12")):
        verify(None, parse_spec(audit()), data=table)
    assert dict(verify(None, parse_spec(audit(min_size=1)), data=table).left_out) == {"sex=Other": 0}


def test_a_condition_that_holds_for_nobody_of_a_group_is_named_as_the_reason() -> None:
    """The group has six rows; that the condition leaves none of them is what must be said."""
    reason = " for which property.given \"sex != 'Other'\" holds"
    with pytest.raises(DataError, match=says(GROUP_WITHOUT_ROWS, given=reason)):
        verify(None, parse_spec(audit(given="sex != 'Other'")), data=everybody())


def test_what_is_shown_has_every_label_that_is_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    """A ratio looks at both of two labels, and the one that fails it must be among those shown."""
    from fairchain.cli.verdict_display import show_verdict

    data = changed(audit("ratio", threshold=0.8), "feature.1.values", SEXES[:2])
    show_verdict(verify(None, parse_spec(data), data=counted({"Female": (95, 100), "Male": (90, 100)})))
    shown = capsys.readouterr().out
    assert "the smallest ratio is 0.5000" in shown
    assert "0.0500 of 100" in shown


def test_individual_shows_every_row_as_each_group(tmp_path: Path) -> None:
    """Whoever is from 40 to 49 is decided differently as a woman; six of ten rows here are."""
    data = audit("individual", threshold=0.6)
    data = changed(changed(data, "population.prediction", ...), "model.path", str(network(tmp_path)))
    ages = [30, 39, 40, 41, 44, 45, 46, 49, 50, 60]
    table = {"age": ages, "sex": ["Male", "Other"] * 5, "truth": ["no"] * 10}
    verdict = verify(None, parse_spec(data), data=table)
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
    verdict = verify(None, parse_spec(data), data={"age": [1, 2], "sex": ["Male", "Other"]})
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
    verdict = verify(None, parse_spec(data), data=table, workers=workers)
    limits = np.where(table["sex"] == "Female", 39.5, np.where(table["sex"] == "Male", 44.5, 49.5))
    expected = {f"sex={sex}": int(((table["age"] > limits) & (table["sex"] == sex)).sum()) for sex in SEXES}
    found = {
        group.name: group.probability.estimate * group.evaluations for group in verdict.groups if group.outcome == "yes"
    }
    assert found == pytest.approx(expected)


def test_the_share_of_people_in_a_sample_is_one_proportion(tmp_path: Path) -> None:
    """Nothing is spent on the subgroup that never changes: the bounds are those of one exact interval at delta."""
    from scipy.stats import binomtest

    data = audit("individual", threshold=0.1, reading="sample")
    data = changed(changed(data, "population.prediction", ...), "model.path", str(network(tmp_path)))
    ages = [45] * 60 + [20] * 140
    table = {"age": ages, "sex": ["Male", "Other"] * 100, "truth": ["no"] * 200}
    verdict = verify(None, parse_spec(changed(data, "guarantee.delta", 1e-6)), data=table)
    exact = binomtest(60, 200).proportion_ci(1 - 1e-6)
    assert (verdict.gap.low, verdict.gap.high) == pytest.approx((exact.low, exact.high), abs=1e-9)
    assert verdict.decision is Decision.UNFAIR
