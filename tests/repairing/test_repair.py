"""A repair keeps its promises: it is judged on what it has not seen, repeats itself, and never half succeeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fairchain import Coupled
from fairchain.errors import DataError, FairchainError, ModelError, SpecError
from fairchain.messages import unknown
from fairchain.models import OnnxModel
from fairchain.prepare import NO_MODEL_PATH
from fairchain.repairing import Repair, repair, write_repair
from fairchain.repairing.change_plan import BAD_ACCURACY_LOSS, LOW_RANK_KEEPS_NOTHING, UNITS_CANNOT_BE_RANKED, Settings
from fairchain.repairing.files import REPAIR_NOT_ACCEPTED
from fairchain.repairing.judge import attempt_spec
from fairchain.repairing.parameters import CHANGEABLE, Scales
from fairchain.repairing.repair_data import LABEL_NOT_NAMED, TOO_FEW_LABELLED, LabelledRows
from fairchain.repairing.repairer import HELD_OUT_IS_DATA, HELD_OUT_WITHOUT_LABELLED, RECORDED_DECISIONS
from fairchain.repairing.search import OPTIMIZERS, CandidateTrial, Score, Searcher
from fairchain.repairing.thresholds import NO_SCORES
from fairchain.verification import verify
from tests.messages import says
from tests.repairing.builders import QUICK, asked, labelled

pytestmark = pytest.mark.usefixtures("few_inputs")


def test_an_unfair_network_is_repaired_and_the_saved_one_is_fair(tmp_path: Path) -> None:
    spec = asked(tmp_path)
    result = repair(None, spec, labelled=labelled(), **QUICK)
    assert result.before.decision.name == "UNFAIR"
    assert result.accepted
    assert result.after is not None
    assert result.content is not None
    saved = OnnxModel.from_bytes(result.content, "saved.onnx", spec)
    assert saved.sha256 == result.after.model_sha256
    # Another seed than the judge's.
    assert verify(saved, spec, seed=99).fair
    assert result.price is not None
    assert result.price.measure == "accuracy"
    assert result.price.inputs == 200
    assert result.price.change.low <= result.price.after - result.price.before <= result.price.change.high
    assert {change.tensor for change in result.changes} <= {"w1", "b1"}
    assert result.original is not None
    assert result.original.gap > 0.1


@pytest.mark.parametrize("optimizer", ["evolution", "pso"])
def test_the_same_seed_gives_the_same_bytes_whatever_the_workers(tmp_path: Path, optimizer: str) -> None:
    spec = asked(tmp_path)
    settings: dict[str, Any] = {"optimizer": optimizer, "change": "scales", "max_units": 3, "iterations": 2}
    one, again = (repair(None, spec, workers=workers, **settings) for workers in (1, 2))
    assert one.content == again.content
    assert one.to_dict()["front"] == again.to_dict()["front"]
    assert repair(None, spec, workers=1, seed=5, **settings).content != one.content


def test_the_judge_is_not_fooled_by_what_the_search_believes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is tried looks fair to this search; nothing of it is."""
    monkeypatch.setattr(CandidateTrial, "score", lambda *_: Score(0.0, 1.0))
    # Not a single weight of sex may change, so no candidate can be fair.
    monkeypatch.setattr(Scales, "weights", lambda *_: {})
    result = repair(None, asked(tmp_path), **{**QUICK, "change": "scales"})
    assert not result.accepted
    assert all(point.gap == 0 for point in result.front)
    assert result.after is not None
    assert result.after.decision.name == "UNFAIR"
    assert "not shown to be fair" in result.statement
    with pytest.raises(FairchainError, match=says(REPAIR_NOT_ACCEPTED)):
        write_repair(result, tmp_path / "out.onnx")


def test_an_unsound_rule_is_never_the_judge(tmp_path: Path) -> None:
    spec = asked(tmp_path, guarantee__rule="paper")
    assert attempt_spec(spec, 1).guarantee.rule == "betting"
    result = repair(None, spec, **QUICK)
    assert result.after is not None
    assert result.after.sound


def test_a_threshold_that_is_met_already_needs_nothing(tmp_path: Path) -> None:
    result = repair(None, asked(tmp_path, property__threshold=0.5), **QUICK)
    assert not result.needed
    assert not result.accepted
    assert result.content is None
    assert str(result).startswith("NOT NEEDED")
    assert "Nothing to repair" in result.statement


def test_a_threshold_out_of_reach_is_said_and_the_best_has_its_interval(tmp_path: Path) -> None:
    """Biases alone cannot make this network forget sex without giving everybody the same answer."""
    result = repair(
        None, asked(tmp_path, property__threshold=0.001), change="biases", iterations=1, max_units=0, workers=1
    )
    assert not result.accepted
    assert result.after is not None
    assert not result.after.fair
    assert result.attempts[0].gap.low <= result.attempts[0].gap.high
    assert str(result).startswith("NOT REPAIRED")


def test_a_network_that_answers_almost_everybody_alike_is_no_repair_either(tmp_path: Path) -> None:
    """Biases alone reach 0.02 only where nobody but one of 200 kinds of people is refused: agreement 0.46."""
    spec = asked(tmp_path, property__threshold=0.02)
    result = repair(None, spec, change="biases", max_units=0, iterations=30, workers=1)
    assert result.price is not None
    assert not result.accepted
    assert result.price.after > result.price.usual_before


def test_without_labelled_rows_agreement_is_kept_and_that_is_said(tmp_path: Path) -> None:
    result = repair(None, asked(tmp_path), **QUICK)
    assert result.price is not None
    assert result.price.measure == "agreement"
    assert "Accuracy was not measured, because no labelled rows were given" in result.notes[0]
    assert "agreement with the original model" in str(result.price)


def test_the_fairest_network_within_a_loss_can_be_asked_for(tmp_path: Path) -> None:
    free = repair(None, asked(tmp_path), **QUICK)
    bound = repair(None, asked(tmp_path), max_accuracy_loss=0.2, **QUICK)
    assert free.after is not None
    assert bound.after is not None
    assert bound.accepted
    assert bound.after.gap.estimate <= free.after.gap.estimate
    none = repair(None, asked(tmp_path), max_accuracy_loss=0.001, **QUICK)
    assert not none.accepted


@pytest.mark.parametrize(
    "changes",
    [
        {"property__kind": "ratio", "property__threshold": 0.9},
        {"property__kind": "individual"},
        {"property__compare": "overall", "property__threshold": 0.05},
        {"population__kind": "marginals", "population__path": "people.csv"},
    ],
    ids=["ratio", "individual", "overall", "marginals"],
)
def test_other_properties_and_populations_are_repaired_too(tmp_path: Path, changes: dict[str, Any]) -> None:
    table = labelled(100) if "population__kind" in changes else None
    result = repair(None, asked(tmp_path, **changes), data=table, **QUICK)
    assert result.before.decision.name == "UNFAIR"
    assert result.accepted


def test_rows_that_are_everybody_are_counted_exactly(tmp_path: Path) -> None:
    spec = asked(tmp_path, population__kind="table", population__as="population")
    rows = labelled(1000)
    result = repair(None, spec, data=rows, **QUICK)
    assert result.accepted
    assert result.after is not None
    assert result.after.exact
    assert result.price is not None
    assert result.price.on == "all 1,000 rows"
    assert any("does not apply to other rows" in note for note in result.notes)


def test_what_explain_cannot_rank_is_repaired_without_ranking(tmp_path: Path) -> None:
    rows = labelled(1000)
    more = {"population__label": "label", "property__criterion": "equalized_odds"}
    spec = asked(tmp_path, population__kind="table", population__as="population", **more)
    assert repair(None, spec, data=rows, **QUICK).accepted
    with pytest.raises(SpecError, match=says(UNITS_CANNOT_BE_RANKED)):
        repair(None, spec, data=rows, **{**QUICK, "change": "scales", "max_units": 2})


def test_control_c_keeps_what_was_found_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried, before = Searcher.score, []

    def interrupted(self: Searcher, points: Any) -> Any:
        before.append(points)
        if len(before) == 2:
            raise KeyboardInterrupt
        return tried(self, points)

    monkeypatch.setattr(Searcher, "score", interrupted)
    result = repair(None, asked(tmp_path), **QUICK)
    assert result.stopped == "interrupted"
    assert result.accepted


def test_control_c_before_anything_was_tried_is_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Searcher, "score", interrupted)
    with pytest.raises(KeyboardInterrupt):
        repair(None, asked(tmp_path), **QUICK)


def everybody(rng: np.random.Generator, count: int) -> Any:
    return np.column_stack([rng.integers(0, 10, (count, 2)), rng.integers(0, 2, count)])


def of_group(rng: np.random.Generator, count: int, group: str | None) -> Any:
    rng.random(int(group == "sex=Male"))
    return from_uniforms(rng.random((count, 2)), group)


def from_uniforms(u: np.ndarray, group: str | None) -> Any:
    return np.column_stack([np.floor(10 * u), np.full(len(u), group == "sex=Male")])


@pytest.mark.parametrize("function", [everybody, of_group, Coupled(from_uniforms, uniforms=2)])
def test_inputs_of_a_function_are_repaired_and_ranked_by_units_too(tmp_path: Path, function: Any) -> None:
    spec = asked(tmp_path, population__kind="callable")
    result = repair(None, spec, population=function, **{**QUICK, "change": "scales", "max_units": 2})
    assert result.accepted
    assert result.content is not None
    # The function draws uniform inputs, so the repaired network is fair for these.
    saved = OnnxModel.from_bytes(result.content, "saved.onnx", spec)
    assert verify(saved, asked(tmp_path), seed=7).fair


def test_rows_on_both_sides_are_told_and_the_same_table_is_refused(tmp_path: Path) -> None:
    rows = labelled()
    with pytest.raises(SpecError, match=says(HELD_OUT_IS_DATA)):
        repair(None, asked(tmp_path), labelled=rows, held_out={k: v[::-1] for k, v in rows.items()}, **QUICK)
    result = repair(None, asked(tmp_path), labelled=rows, **QUICK)
    assert any("held-out rows equal a row of the search" in note for note in result.notes)


def test_bad_wishes_are_refused_before_the_work(tmp_path: Path) -> None:
    spec = asked(tmp_path)
    with pytest.raises(SpecError, match=says(unknown("name", "annealing", OPTIMIZERS))):
        repair(None, spec, optimizer="annealing")
    with pytest.raises(SpecError, match=says(unknown("name", "everything", CHANGEABLE))):
        Settings(change="everything")
    with pytest.raises(SpecError, match=says(BAD_ACCURACY_LOSS)):
        Settings(max_accuracy_loss=1.5)
    with pytest.raises(SpecError, match=says(LOW_RANK_KEEPS_NOTHING)):
        Settings(change="low-rank", keep_protected=True)
    with pytest.raises(SpecError, match=says(NO_MODEL_PATH)):
        repair(None, msgspec.structs.replace(spec, model=msgspec.structs.replace(spec.model, path=None)))
    with pytest.raises(DataError, match=says(TOO_FEW_LABELLED)):
        repair(None, spec, labelled=labelled(30), **QUICK)
    with pytest.raises(DataError, match=says(LABEL_NOT_NAMED, names='"x", "y", "sex"')):
        repair(None, spec, labelled={key: cells for key, cells in labelled().items() if key != "label"}, **QUICK)
    with pytest.raises(ModelError, match=says(NO_SCORES)):
        repair(lambda x: (x[:, 0] + 3 * x[:, 2] > 5).astype(int), spec, **QUICK)
    with pytest.raises(SpecError, match=says(HELD_OUT_WITHOUT_LABELLED)):
        repair(None, spec, held_out=labelled(), **QUICK)


def test_recorded_decisions_are_refused_also_beside_a_network(tmp_path: Path) -> None:
    """With a path in the spec the model of the case was None, and an assertion failed."""
    spec = asked(tmp_path, population__kind="table", population__as="population", population__prediction="said")
    with pytest.raises(SpecError, match=says(RECORDED_DECISIONS)):
        repair(None, spec, data={**labelled(), "said": labelled()["label"]}, **QUICK)


def test_a_sorted_file_is_searched_on_in_an_order_of_chance() -> None:
    rows = LabelledRows(np.arange(100.0)[:, None], np.arange(100) // 50)
    first = rows.shuffled(0).truth[:50]
    assert 10 < first.sum() < 40
    one, other = rows.split(0)
    assert set(one.values[:, 0]).isdisjoint(other.values[:, 0])
    assert len(one) + len(other) == 100


def test_rows_with_numbers_in_place_of_names_are_understood(tmp_path: Path) -> None:
    rows = labelled()
    encoded = {**rows, "sex": [int(each == "Male") for each in rows["sex"]]}
    by_name, by_number = (repair(None, asked(tmp_path), labelled=each, **QUICK) for each in (rows, encoded))
    assert by_name.content == by_number.content


def test_a_repair_that_was_not_accepted_says_so_in_every_form(tmp_path: Path) -> None:
    result: Repair = msgspec.structs.replace(repair(None, asked(tmp_path), **QUICK), accepted=False)
    assert str(result).startswith("NOT REPAIRED")
    assert result.to_dict()["accepted"] is False
