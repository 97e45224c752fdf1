"""Plans: what is assumed is stated, and the forecast is that of the rule that a verdict uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairchain
from fairchain import example, load_spec, plan, verify
from fairchain.errors import SpecError
from fairchain.planning.planner import DIFFER_OF_ROWS, MEASURED_AND_ASSUMED, SPEC_HAS_ITS_OWN
from fairchain.planning.result import plan_lines
from fairchain.spec import revise
from tests.messages import says, says_one_of

BARE = {"threshold": 0.1, "delta": 0.05}


def test_a_plan_states_what_it_assumes() -> None:
    found = plan(threshold=0.1).questions[0]
    assert found.assumptions == (
        "the largest difference is 0.05, halfway between equal rates and the threshold",
        "the highest rate is 0.5, the lowest 0.45",
        "two groups get different decisions in 0.14 of all rounds",
    )
    assert found.delta == 1e-6
    assert (found.engine, found.verdict, found.seconds) == ("sampling", "FAIR", None)


def test_the_same_plan_has_the_same_numbers_and_they_are_json() -> None:
    one, two = (plan(threshold=0.3, delta=0.3, gap=0.6, rate=0.8, curve=True) for _ in range(2))
    assert one == two
    written = one.to_dict()
    assert written["questions"][0]["evaluations"] == {
        "mean": one.evaluations.mean,
        "most": one.evaluations.most,
    }
    assert [point["verdict"] for point in written["questions"][0]["curve"]] == ["FAIR"] * 6 + ["UNFAIR"] * 6


def test_more_evidence_is_needed_for_a_smaller_delta_a_nearer_gap_and_more_groups() -> None:
    base = plan(threshold=0.4, delta=0.1, gap=0.04).evaluations.mean
    assert base < plan(threshold=0.4, delta=1e-3, gap=0.04).evaluations.mean
    assert base < plan(threshold=0.4, delta=0.1, gap=0.2).evaluations.mean
    assert base < plan(threshold=0.4, delta=0.1, gap=0.04, groups=4).evaluations.mean


def test_questions_share_delta() -> None:
    found = plan(threshold=0.4, delta=0.05, gap=0.08, questions=5)
    assert found.delta == 0.05
    assert [each.delta for each in found.questions] == [0.01] * 5
    assert found.evaluations.mean == pytest.approx(5 * found.questions[0].evaluations.mean)
    assert found.questions[0].evaluations == plan(threshold=0.4, delta=0.01, gap=0.08).evaluations


def test_seconds_follow_from_a_stated_speed() -> None:
    found = plan(threshold=0.4, delta=0.05, speed=50)
    assert found.seconds.mean == pytest.approx(found.evaluations.mean / 50)
    assert "50 evaluations a second" in found.questions[0].assumptions


@pytest.mark.parametrize(("kind", "threshold"), [("ratio", 0.5), ("individual", 0.3)])
def test_other_measures(kind: str, threshold: float) -> None:
    found = plan(kind=kind, threshold=threshold, delta=0.05, groups=3).questions[0]
    assert found.verdict == "FAIR"
    # A round of individual discrimination shows every group.
    ratio = found.evaluations.mean / found.rounds.mean
    assert ratio == pytest.approx(3) if kind == "individual" else 2 < ratio <= 3


def test_rows_needed_decide_a_table_and_half_of_them_do_not() -> None:
    assumed = {"threshold": 0.3, "delta": 0.05, "gap": 0.12, "rate": 0.5}
    needed = plan(**assumed).questions[0].rows.needed
    enough, few = (plan(**assumed, rows=list(size)).questions[0].rows for size in (
        needed, [each // 2 for each in needed]
    ))  # fmt: skip
    assert enough.decided >= 0.95 > few.decided
    # The verdicts of tables that are drawn anew: fewer than 32 of 40 are decided with a chance of about 1e-4.
    rng, decided = np.random.default_rng(8), 0
    spec = revise(recorded_decisions(), property__threshold=0.3)
    for _ in range(40):
        table = {
            "sex": ["Female"] * needed[0] + ["Male"] * needed[1],
            "decision": [
                ("no", "yes")[int(hit)] for rate, size in zip((0.5, 0.38), needed, strict=True)
                for hit in rng.random(size) < rate
            ],
        }  # fmt: skip
        decided += verify(None, spec, data=table).decision.name == "FAIR"
    assert decided >= 32


def recorded_decisions() -> fairchain.Spec:
    return fairchain.parse_spec(
        {
            "model": {"labels": ["no", "yes"]},
            "feature": [{"name": "sex", "kind": "category", "values": ["Female", "Male"]}],
            "population": {"kind": "table", "prediction": "decision", "as": "sample"},
            "property": {"kind": "difference", "protected": ["sex"], "threshold": 0.1, "outcome": "yes"},
            "guarantee": {"delta": 0.05},
        }
    )


def test_a_table_is_planned_from_its_own_sizes_without_its_decisions() -> None:
    table = {"sex": ["Female"] * 2100 + ["Male"] * 2700, "decision": ["no", "yes"] * 2400}
    found = plan(recorded_decisions(), data=table, gap=0.3).questions[0]
    assert found.rows.sizes == (2100, 2700)
    assert found.evaluations.mean == 0  # decisions are recorded
    assert found.rows.decided == 1
    assert found.rows.fair_up_to < 0.1 < found.rows.unfair_from < 0.2


def test_smallest_gaps_that_rows_decide_shrink_with_the_rows() -> None:
    few, many = (plan(**BARE, rows=size).questions[0].rows for size in (500, 5000))
    assert few.unfair_from > many.unfair_from > 0.1
    assert many.fair_up_to < 0.1
    assert few.fair_up_to is None or few.fair_up_to < many.fair_up_to


def test_a_pilot_is_near_the_verdicts() -> None:
    spec = revise(load_spec(example("census")), property__protected=["sex"])
    found = plan(spec, pilot=4000)
    measured = np.mean([verify(None, spec, seed=seed).evaluations for seed in range(20)])
    # The pilot's gap has a standard error of 0.002, which moves the forecast by about 2%; both means vary by 5%.
    assert found.evaluations.mean == pytest.approx(measured, rel=0.25)
    assert found.seconds.mean > 0


@pytest.mark.parametrize("given", [{"groups": 5}, {"pilot": 64, "gap": 0.1}, {"pilot": 64, "speed": 100.0}])
def test_options_that_would_be_ignored_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=says_one_of(SPEC_HAS_ITS_OWN, MEASURED_AND_ASSUMED)):
        plan(example("census"), **given)


def test_rows_are_not_planned_with_rounds_that_differ() -> None:
    with pytest.raises(SpecError, match=says(DIFFER_OF_ROWS)):
        plan(**BARE, rows=500, differ=0.1)


def test_an_enumeration_is_forecast_where_it_costs_less() -> None:
    spec = fairchain.parse_spec(
        {
            "model": {"labels": ["no", "yes"]},
            "feature": [
                {"name": "sex", "kind": "category", "values": ["Female", "Male"]},
                {"name": "age", "kind": "integer", "low": 0, "high": 99},
                {"name": "hours", "kind": "integer", "low": 0, "high": 99},
            ],
            "population": {"kind": "uniform"},
            "property": {"kind": "difference", "protected": ["sex"], "threshold": 0.1},
            "guarantee": {"delta": 0.05},
        }
    )
    near, far = plan(spec, gap=0.0999).questions[0], plan(spec, gap=0.0).questions[0]
    assert (near.engine, near.evaluations.mean) == ("enumeration", pytest.approx(20_000 * 17 / 16))
    assert far.engine == "sampling"
    assert far.evaluations.mean < 20_000


@pytest.mark.parametrize("compare", ["groups", "overall", "average"])
def test_the_assumed_gap_is_that_of_a_compared_pair(compare: str) -> None:
    """A larger gap takes more evidence, whatever groups are compared with."""
    near, far = (plan(example("census"), compare=compare, delta=0.1, gap=gap).evaluations.mean for gap in (0.06, 0.0))
    assert near > 1.5 * far


def test_several_properties_of_a_file(tmp_path: Path) -> None:
    text = (Path(example("census")).read_text()).replace("[property]", "[[property]]")
    text += '\n[[property]]\nkind = "ratio"\nprotected = ["sex"]\nthreshold = 0.8\n'
    (tmp_path / "family.toml").write_text(text.replace('"census.onnx"', f'"{example("census").with_suffix(".onnx")}"'))
    found = plan(tmp_path / "family.toml")
    assert [each.delta for each in found.questions] == [5e-7, 5e-7]
    assert [each.kind for each in found.questions] == ["difference", "ratio"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"gap": 0.6}, "rate: 0.5 with a gap of 0.6 leaves a rate of -0.1; assume a higher rate"),
        ({"gap": 1.5}, "gap: found 1.5; write a number from 0 to 1"),
        ({"differ": 0.9}, "differ: found 0.9; these rates allow 0.05 to 0.5"),
        ({"rates": [0.3], "gap": 0.1}, "rates, gap: the gap follows from the rates; give one of the two"),
        ({"rates": [0.3]}, "rates: found 1; write 2, one for each group"),
        ({"rows": [5, 5, 5]}, "rows: found 3 numbers; write one for each of 2 groups, each above 0"),
        ({"speed": 0}, "speed: found 0; write the number of evaluations per second, above 0"),
        ({"pilot": 100}, "pilot, model, data: need a spec, which states the inputs of the model"),
        ({"groups": 1}, "groups, questions: give at least two groups and one question"),
        ({"compare": "overall"}, "compare: needs a spec; give one"),
    ],
)
def test_wrong_assumptions_get_one_message(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        plan(**BARE, **wrong)
    assert str(caught.value) == message


def test_a_plan_reads_as_sentences() -> None:
    lines = plan_lines(plan(threshold=0.1, delta=0.05, gap=0.1).questions[0])
    assert "  sampling: evaluations: no forecast of an end, because the gap is too near to the threshold" in lines
