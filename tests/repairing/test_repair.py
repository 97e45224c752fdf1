"""A repair keeps its promises: it is judged on what it has not seen, repeats itself, and never half succeeds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest

from fairchain import recheck
from fairchain.errors import DataError, FairchainError, ModelError, SpecError
from fairchain.model import OnnxModel
from fairchain.model.weights import Unit, Weights
from fairchain.repairing import Repair, diff_report, repair, write_repair
from fairchain.repairing.judge import Judge, attempt_spec, candidates_of
from fairchain.repairing.knobs import NamedUnit, Scales, Shifts
from fairchain.repairing.rows import divided, shuffled
from fairchain.repairing.search import Searcher, Tried, front_of
from fairchain.repairing.seeds import CERTIFICATE, OPTIMIZER, PRICE, REFINE, SEARCH, SPLIT, derived_seed
from fairchain.repairing.settings import Settings
from fairchain.repairing.trial import Question, Rows, Score, Trial, is_empty
from fairchain.verification import verify
from tests.repairing.builders import SEX, asked, labelled

QUICK: dict[str, Any] = {"units": 0, "iterations": 2, "workers": 1}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer inputs for the search: this network has few kinds of people."""
    monkeypatch.setattr("fairchain.repairing.front.SEARCHED", 4096)
    monkeypatch.setattr("fairchain.repairing.front.REFINED", 8192)


def test_an_unfair_network_is_repaired_and_the_saved_one_is_fair(tmp_path: Path) -> None:
    spec = asked(tmp_path)
    result = repair(None, spec, data=labelled(), **QUICK)
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


def test_the_new_file_has_the_old_interface_and_other_initialisers_only(tmp_path: Path) -> None:
    spec = asked(tmp_path)
    result = repair(None, spec, **QUICK)
    assert result.content is not None
    old, new = onnx.load(spec.model.path or ""), onnx.load_from_string(result.content)
    onnx.checker.check_model(new)
    del old.graph.initializer[:], new.graph.initializer[:]
    assert old == new


@pytest.mark.parametrize("optimizer", ["evolution", "pso"])
def test_the_same_seed_gives_the_same_bytes_whatever_the_workers(tmp_path: Path, optimizer: str) -> None:
    spec = asked(tmp_path)
    settings: dict[str, Any] = {"optimizer": optimizer, "change": "scales", "units": 3, "iterations": 2}
    one, again = (repair(None, spec, workers=workers, **settings) for workers in (1, 2))
    assert one.content == again.content
    assert one.to_dict()["front"] == again.to_dict()["front"]
    assert repair(None, spec, workers=1, seed=5, **settings).content != one.content


def test_the_judge_is_not_fooled_by_what_the_search_believes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is tried looks fair to this search; nothing of it is."""
    monkeypatch.setattr(Trial, "score", lambda *_: Score(0.0, 1.0))
    # Not a single weight of sex may change, so no candidate can be fair.
    monkeypatch.setattr(Scales, "weights", lambda *_: {})
    result = repair(None, asked(tmp_path), **{**QUICK, "change": "scales"})
    assert not result.accepted
    assert all(point.gap == 0 for point in result.front)
    assert result.after is not None
    assert result.after.decision.name == "UNFAIR"
    assert "not accept" in result.statement
    with pytest.raises(FairchainError, match="nothing is written"):
        write_repair(result, tmp_path / "out.onnx")


def judged(tmp_path: Path, factor: float, number: int = 1, most_lost: float | None = None) -> Any:
    """What the judge says of the network with this factor for sex, of which the search claims that it is fair."""
    spec = asked(tmp_path)
    model = OnnxModel(spec.model.path or "", spec)
    weights = Weights(model)
    knobs = Scales(weights, [NamedUnit(Unit("", SEX), "feature sex", True)], None)
    judge = Judge(model, weights, Question(spec), None, most_lost, 0, 1)
    return judge.one(Tried(np.array([factor - 1]), Score(0.0, 1.0), 0.0), knobs, number)


def test_acceptance_is_the_verdict_of_fresh_inputs_and_nothing_else(tmp_path: Path) -> None:
    assert not judged(tmp_path, 1.0).attempt.accepted
    assert judged(tmp_path, 0.0).attempt.accepted
    dear = judged(tmp_path, 0.0, most_lost=0.001).attempt
    assert not dear.accepted
    assert dear.decision == "FAIR"
    assert "costs more than allowed" in dear.why


def test_attempts_share_delta_and_draw_their_own_inputs(tmp_path: Path) -> None:
    spec = asked(tmp_path)
    deltas = [attempt_spec(spec, number).guarantee.delta for number in range(1, 6)]
    assert sum(deltas) < spec.guarantee.delta
    seeds = {attempt_spec(spec, number).guarantee.seed for number in range(1, 6)}
    purposes = (SEARCH, REFINE, SPLIT, OPTIMIZER, PRICE, CERTIFICATE)
    others = {derived_seed(spec.guarantee.seed, purpose, number) for purpose in purposes for number in (0, 1)}
    assert len(seeds) == 5
    assert len(others | seeds | {spec.guarantee.seed}) == 5 + 12 + 1 - 1  # attempt 1 stands in both
    third = judged(tmp_path, 0.0, number=3)
    assert third.attempt.delta == spec.guarantee.delta / 8
    assert third.verdict.spec.guarantee.delta == spec.guarantee.delta / 8
    assert third.attempt.price.delta == pytest.approx(0.05 / 8)


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
    result = repair(None, asked(tmp_path, property__threshold=0.001), change="biases", iterations=1, units=0, workers=1)
    assert not result.accepted
    assert result.after is not None
    assert not result.after.fair
    assert result.attempts[0].gap.low <= result.attempts[0].gap.high
    assert str(result).startswith("NOT REPAIRED")


def test_a_network_that_answers_everybody_alike_is_no_repair(tmp_path: Path) -> None:
    spec = asked(tmp_path)
    model = OnnxModel(spec.model.path or "", spec)
    weights = Weights(model)
    from fairchain.model.tunable import Tunable

    inputs = Question(spec).inputs(model.dtype, 1, 4000)
    trial = Trial(Tunable(model, weights, ["b2"]), inputs, None)
    assert trial.score({}).gap > 0.1
    assert trial.score({"b2": np.array([100, 0], np.float32)}).gap == 1.0


def test_a_network_that_answers_almost_everybody_alike_is_no_repair_either(tmp_path: Path) -> None:
    """Biases alone reach 0.02 only where nobody but one of 200 kinds of people is refused: agreement 0.46."""
    spec = asked(tmp_path, property__threshold=0.02)
    result = repair(None, spec, change="biases", units=0, iterations=30, workers=1)
    assert result.price is not None
    assert not result.accepted
    assert result.price.after > result.price.usual_before


@pytest.mark.parametrize(
    ("before", "after", "agreement", "empty"),
    [
        (0.55, 1.0, None, True),
        (0.55, 0.96, None, True),
        (0.55, 0.95, None, False),
        (0.55, 0.6, 0.54, True),
        (0.55, 0.6, 0.56, False),
        (0.999, 0.9995, None, False),
        (1.0, 1.0, 1.0, False),
    ],
)
def test_what_counts_as_the_same_answer_for_everybody(
    before: float, after: float, agreement: float | None, empty: bool
) -> None:
    assert is_empty(before, after, agreement) is empty


def test_the_judge_too_refuses_the_same_answer_for_everybody(tmp_path: Path) -> None:
    spec = asked(tmp_path)
    model = OnnxModel(spec.model.path or "", spec)
    weights = Weights(model)
    knobs = Shifts(weights.values, (("b2", 0),), (100.0,), ("b2[0]",))
    judge = Judge(model, weights, Question(spec), None, None, 0, 1)
    found = judge.one(Tried(np.ones(1), Score(0.0, 1.0), 0.0), knobs, 1)
    assert found.verdict.fair
    assert not found.attempt.accepted
    assert "100.00% of 20,000 freshly drawn inputs the same answer" in found.attempt.why


def test_without_labelled_rows_agreement_is_kept_and_that_is_said(tmp_path: Path) -> None:
    result = repair(None, asked(tmp_path), **QUICK)
    assert result.price is not None
    assert result.price.measure == "agreement"
    assert "No labelled rows" in result.notes[0]
    assert "agreement with the original network" in str(result.price)


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
    result = repair(None, asked(tmp_path, **changes), table=table, **QUICK)
    assert result.before.decision.name == "UNFAIR"
    assert result.accepted


def test_rows_that_are_everybody_are_counted_exactly(tmp_path: Path) -> None:
    spec = asked(tmp_path, population__kind="table", population__as="population")
    rows = labelled(1000)
    result = repair(None, spec, table=rows, **QUICK)
    assert result.accepted
    assert result.after is not None
    assert result.after.exact
    assert result.price is not None
    assert result.price.on == "all 1,000 rows"
    with pytest.raises(SpecError, match="a sample is used up by one look"):
        repair(None, asked(tmp_path, population__kind="table", population__as="sample"), table=rows, **QUICK)


def test_what_explain_cannot_rank_is_repaired_without_ranking(tmp_path: Path) -> None:
    rows = labelled(1000)
    more = {"population__label": "label", "property__criterion": "equalized_odds"}
    spec = asked(tmp_path, population__kind="table", population__as="population", **more)
    assert repair(None, spec, table=rows, **QUICK).accepted
    with pytest.raises(SpecError, match="units = 0"):
        repair(None, spec, table=rows, **{**QUICK, "change": "scales", "units": 2})


def test_control_c_keeps_what_was_found_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried, before = Searcher._try, []

    def interrupted(self: Searcher, points: Any) -> Any:
        before.append(points)
        if len(before) == 2:
            raise KeyboardInterrupt
        return tried(self, points)

    monkeypatch.setattr(Searcher, "_try", interrupted)
    result = repair(None, asked(tmp_path), **QUICK)
    assert result.stopped == "interrupted"
    assert result.accepted


def test_control_c_before_anything_was_tried_is_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Searcher, "_try", interrupted)
    with pytest.raises(KeyboardInterrupt):
        repair(None, asked(tmp_path), **QUICK)


def test_people_of_a_function_are_ranked_by_units_too(tmp_path: Path) -> None:
    def people(rng: np.random.Generator, count: int) -> Any:
        return np.column_stack([rng.integers(0, 10, (count, 2)), rng.integers(0, 2, count)])

    spec = asked(tmp_path, population__kind="callable")
    assert repair(None, spec, population=people, **{**QUICK, "change": "scales", "units": 2}).accepted


def test_rows_on_both_sides_are_told_and_the_same_table_is_refused(tmp_path: Path) -> None:
    rows = labelled()
    with pytest.raises(SpecError, match="the same rows as data"):
        repair(None, asked(tmp_path), data=rows, held_out={k: v[::-1] for k, v in rows.items()}, **QUICK)
    result = repair(None, asked(tmp_path), data=rows, **QUICK)
    assert any("held-out rows equal a row that was searched on" in note for note in result.notes)


def test_bad_wishes_are_refused_before_the_work(tmp_path: Path) -> None:
    spec = asked(tmp_path)
    with pytest.raises(SpecError, match="evolution, pso, cma"):
        repair(None, spec, optimizer="annealing")
    with pytest.raises(SpecError, match="last-layer"):
        Settings(change="everything")
    with pytest.raises(SpecError, match="share from 0"):
        Settings(max_accuracy_loss=1.5)
    with pytest.raises(SpecError, match="keep_protected leaves them alone"):
        Settings(change="low-rank", keep_protected=True)
    with pytest.raises(SpecError, match=r"model.path: missing"):
        repair(None, msgspec.structs.replace(spec, model=msgspec.structs.replace(spec.model, path=None)))
    with pytest.raises(DataError, match="too few"):
        repair(None, spec, data=labelled(30), **QUICK)
    with pytest.raises(DataError, match="label"):
        repair(None, spec, data={key: cells for key, cells in labelled().items() if key != "label"}, **QUICK)
    with pytest.raises(ModelError, match="ONNX"):
        repair(lambda x: (x[:, 0] + 3 * x[:, 2] > 5).astype(int), spec, **QUICK)
    with pytest.raises(SpecError, match="give data too"):
        repair(None, spec, held_out=labelled(), **QUICK)


def test_a_sorted_file_is_searched_on_in_an_order_of_chance() -> None:
    rows = Rows(np.arange(100.0)[:, None], np.arange(100) // 50)
    first = shuffled(rows, 0).truth[:50]
    assert 10 < first.sum() < 40
    one, other = divided(rows, 0)
    assert set(one.values[:, 0]).isdisjoint(other.values[:, 0])
    assert len(one) + len(other) == 100


def test_rows_with_numbers_in_place_of_names_are_understood(tmp_path: Path) -> None:
    rows = labelled()
    encoded = {**rows, "sex": [int(each == "Male") for each in rows["sex"]]}
    by_name, by_number = (repair(None, asked(tmp_path), data=each, **QUICK) for each in (rows, encoded))
    assert by_name.content == by_number.content


def test_the_files_hold_together(tmp_path: Path) -> None:
    result = repair(None, asked(tmp_path), data=labelled(), **QUICK)
    files = write_repair(result, tmp_path / "fixed.onnx")
    assert [file.name for file in files] == ["fixed.onnx", "fixed.json", "fixed.txt"]
    assert recheck(tmp_path / "fixed.json", tmp_path / "fixed.onnx", seed=0).holds
    certificate = json.loads((tmp_path / "fixed.json").read_text())
    assert certificate["spec"]["model"]["path"] == "fixed.onnx"
    assert certificate["claims"]["delta"] == result.attempts[-1].delta
    text = (tmp_path / "fixed.txt").read_text()
    assert text == diff_report(result)
    assert "w1 (Gemm, 3 x 4)" in text
    assert "->" in text
    json.dumps(result.to_dict(), allow_nan=False)


def test_the_network_that_was_repaired_is_never_overwritten(tmp_path: Path) -> None:
    spec = asked(tmp_path)
    result = repair(None, spec, **QUICK)
    file = Path(spec.model.path or "")
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(file.read_bytes())
    for path in (file, copy):
        with pytest.raises(FairchainError, match="would be overwritten"):
            write_repair(result, path)
    assert {each.name for each in tmp_path.iterdir()} == {"network.onnx", "copy.onnx"}


def test_an_old_certificate_is_not_left_beside_a_network_that_has_none(tmp_path: Path) -> None:
    result = repair(None, asked(tmp_path), **QUICK)
    write_repair(result, tmp_path / "fixed.onnx")
    assert result.after is not None
    without = replace(result, after=replace(result.after, certifiable=False))
    with pytest.raises(FairchainError, match="which has none"):
        write_repair(without, tmp_path / "fixed.onnx")


def test_a_disk_that_fills_up_leaves_no_file(tmp_path: Path) -> None:
    result = replace(repair(None, asked(tmp_path), **QUICK), content="no bytes")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        write_repair(result, tmp_path / "fixed.onnx")
    assert [each.name for each in tmp_path.iterdir()] == ["network.onnx"]


def test_a_front_holds_what_nothing_else_beats() -> None:
    scores = [(0.3, 0.9), (0.1, 0.8), (0.2, 0.7), (0.1, 0.85), (0.0, 0.5), (0.3, 0.95)]
    tried = [Tried(np.zeros(1), Score(*score), 0.0) for score in scores]
    assert [(t.score.gap, t.score.accuracy) for t in front_of(tried)] == [(0.0, 0.5), (0.1, 0.85), (0.3, 0.95)]
    lucky = Tried(np.zeros(1), Score(0.1, 0.9, error=0.2), 0.0)
    assert lucky not in front_of([*tried, lucky])


def test_candidates_are_put_forward_from_the_most_accurate_to_the_safest() -> None:
    front = [Tried(np.zeros(1), Score(gap, 0.5 + gap), 0.0) for gap in (0.01, 0.04, 0.06, 0.085, 0.095, 0.3)]
    gaps = [each.score.gap for each in candidates_of(front, 0.1, None)]
    assert gaps == [0.085, 0.06, 0.04, 0.01]
    assert [each.score.gap for each in candidates_of(front, 0.1, 0.55)] == [0.06, 0.085, 0.095]
    assert [each.score.gap for each in candidates_of(front[-1:], 0.1, None)] == [0.3]


def test_a_repair_that_was_not_accepted_says_so_in_every_form(tmp_path: Path) -> None:
    result: Repair = replace(repair(None, asked(tmp_path), **QUICK), accepted=False)
    assert str(result).startswith("NOT REPAIRED")
    assert result.to_dict()["accepted"] is False
