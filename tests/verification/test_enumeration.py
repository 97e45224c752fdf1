"""Enumeration gives the exact answer to every question about a finite space, and certain bounds when it ends early.

Brute force is written down a second time in `exact`, with fractions and without anything of fairchain.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fairchain import Decision, ModelError, SpecError, Verdict, example, make_certificate, parse_spec, recheck, verify
from fairchain.executors import Workers
from fairchain.input_space import (
    CONDITION_NEVER_HOLDS,
    GROUP_OF_SEVERAL_VALUES,
    NO_INPUT,
    NOT_ENUMERABLE,
    InputSpace,
    Shown,
    input_space,
)
from fairchain.models.onnx.decision import DECISION_WORDS, OUTPUT_NOT_DECISION
from fairchain.prepare import prepare
from fairchain.spec import load_spec, revise
from fairchain.statistics.masses import EnumeratedRates, rate_within
from fairchain.verification import enumeration, pair_weights
from fairchain.verification.answers import Answer
from fairchain.verification.enumeration import BUDGET_TOO_SMALL, EnumerationEngine
from fairchain.verification.pair_weights import BlockPairs, PairWeights
from fairchain.verification.progress import Progress
from fairchain.verification.tile_weights import WeightVector
from tests.messages import says
from tests.networks import constant, graph, linear, node, save, value
from tests.questions import category, changed, integer, question, real
from tests.verification.exact import KINDS, POPULATIONS, Answers, random_answers


def asked_at(number: int) -> tuple[np.random.Generator, Answers]:
    rng = np.random.default_rng(number)
    return rng, random_answers(rng, KINDS[number % 3], POPULATIONS[number // 3 % 4])


def small_tiles(monkeypatch: pytest.MonkeyPatch, tile: int, segment: int) -> None:
    """Blocks and segments of a few points, so that small worlds have many."""
    monkeypatch.setattr("fairchain.input_space.TILE", tile)
    monkeypatch.setattr(enumeration, "TILE", tile)
    monkeypatch.setattr(enumeration, "SEGMENT_EVALUATIONS", segment)


def enumerated(asked: Answers, path: Path, threshold: float, **guarantee: Any) -> Verdict:
    data = asked.spec(path, threshold, engine="enumeration", **guarantee)
    return verify(None, parse_spec(data), data=asked.world.table, workers=1)


@pytest.mark.parametrize("first", range(0, 200, 10))
def test_an_enumeration_is_the_brute_force_answer(first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(first, first + 10):
        rng, asked = asked_at(number)
        path, truth, exact = asked.net.save(tmp_path / f"{number}.onnx"), asked.numbers(), asked.measured()
        small_tiles(monkeypatch, int(rng.choice([1, 2, 3, 7, 8192])), int(rng.choice([1, 9, 2**18])))
        at_the_gap = float(exact) if number % 2 and 0 < exact < 1 else round(float(rng.uniform(0.05, 0.6)), 3)
        verdict = enumerated(asked, path, at_the_gap)
        assert (verdict.engine, verdict.delta, verdict.exact, verdict.rule) == ("enumeration", 0, True, "exact")
        assert (verdict.decision is Decision.FAIR) == asked.fair(at_the_gap)
        assert verdict.gap.low == verdict.gap.estimate == verdict.gap.high == float(exact)
        for group in verdict.groups:
            rate = truth.rates[group.name, int(group.outcome[1:])] if truth.rates else truth.measured
            assert group.probability.estimate == pytest.approx(rate, abs=1e-15)


def partial_answer(asked: Answers, path: Path, segments: int) -> Answer:
    """The answer of a run that is cancelled after so many segments."""
    case = prepare(None, parse_spec(asked.spec(path, 0.3, engine="enumeration")), data=asked.world.table)
    cancel = Event()
    seen = 0

    class Cancelling(enumeration.Enumerator):
        def run(self, first: int, blocks: int) -> enumeration.SegmentEvidence:
            nonlocal seen
            seen += 1
            if seen >= segments:
                cancel.set()
            return super().run(first, blocks)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(enumeration, "Enumerator", Cancelling)
        return EnumerationEngine().answer(case, workers=Workers(), cancel=cancel, progress=None)


@pytest.mark.parametrize("number", range(60))
def test_bounds_of_a_run_that_ends_early_contain_the_truth(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, asked = asked_at(1000 + number)
    path, exact = asked.net.save(tmp_path / "network.onnx"), asked.measured()
    small_tiles(monkeypatch, int(rng.integers(1, 4)), 1)
    widths = []
    for segments in (1, 2, 3, 10**6):
        answer = partial_answer(asked, path, segments)
        assert answer.gap.low <= float(exact) <= answer.gap.high
        if answer.decision is not Decision.UNDECIDED:
            assert (answer.decision is Decision.FAIR) == asked.fair(0.3)
        widths.append(answer.gap.high - answer.gap.low)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] == 0


def test_bounds_that_ignore_what_was_not_seen_would_be_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same runs, with the weight that was not seen taken to be 0: some interval misses the truth."""
    small_tiles(monkeypatch, 1, 1)
    monkeypatch.setattr(enumeration, "rate_within", lambda got, missed, _unseen: rate_within(got, missed, 0))
    missed = 0
    for number in range(10):
        _, asked = asked_at(1000 + number)
        answer = partial_answer(asked, asked.net.save(tmp_path / "network.onnx"), 1)
        missed += not answer.gap.low <= float(asked.measured()) <= answer.gap.high
    assert missed > 0


@pytest.mark.parametrize("workers", [1, 2])
def test_a_space_that_no_machine_could_enumerate_ends_with_the_budget(workers: int) -> None:
    """The census network has 5e15 inputs: the bounds say that nothing is known, and say so soon."""
    spec = revise(load_spec(example("census")), guarantee__engine="enumeration", guarantee__budget__seconds=0.05)
    verdict = verify(None, spec, workers=workers)
    assert (verdict.decision, verdict.stopped, verdict.engine) == (Decision.UNDECIDED, "seconds", "enumeration")
    assert verdict.gap.low == 0
    assert verdict.gap.high > 0.999
    assert verdict.evaluations > 0


def test_the_segments_of_a_vast_space_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are 83 million: a list took 40 seconds and gigabytes before the first one was evaluated."""
    listed: list[Any] = []
    whole = Workers.map

    def seen(self: Workers, function: Any, units: Any, **options: Any) -> Any:
        listed.append(units)
        return whole(self, function, units, **options)

    monkeypatch.setattr(Workers, "map", seen)
    spec = revise(load_spec(example("census")), guarantee__engine="enumeration", guarantee__budget__seconds=0.05)
    verify(None, spec, workers=1)
    assert [type(units) for units in listed] == [range]
    assert len(listed[0]) > 1e7


def test_the_number_of_workers_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_tiles(monkeypatch, 2, 1)
    _, asked = asked_at(5)
    data = parse_spec(asked.spec(asked.net.save(tmp_path / "network.onnx"), 0.3, engine="enumeration"))
    one, three = (verify(None, data, data=asked.world.table, workers=workers) for workers in (1, 3))
    assert one.evidence == three.evidence
    assert one.gap == three.gap


def near_threshold(folder: Path, **guarantee: Any) -> dict[str, Any]:
    """A network of 1,248 possible inputs: 8 of 78 women more than men get "yes", against a threshold of 0.1."""
    weights = np.array([[1.0], [0.01], [-8.0]])
    save(linear(weights, [-40.005], end="Identity"), folder / "network.onnx")
    data = question(
        integer("income", 0, 77), integer("rest", 0, 7), category("sex", "F", "M"), decision="logit",
        path=str(folder / "network.onnx"),
    )  # fmt: skip
    return {**data, "guarantee": guarantee, "property": {**data["property"], "threshold": 0.10256}}


def test_a_gap_within_a_hundred_thousandth_of_the_threshold_is_decided_without_any_option(tmp_path: Path) -> None:
    """The gap is 8/78 = 0.1025641..., and the threshold 0.10256: sampling could not tell them apart."""
    verdict = verify(None, parse_spec(near_threshold(tmp_path)))
    assert abs(Fraction(8, 78) - Fraction("0.10256")) < Fraction(1, 100_000)
    assert (verdict.decision, verdict.engine, verdict.delta) == (Decision.UNFAIR, "enumeration", 0.0)
    assert verdict.evaluations == 1248
    assert verdict.gap.estimate == 8 / 78
    assert verdict.statement.startswith("Exact: all 1,248 inputs were evaluated.")
    assert "0.102564" in verdict.headline
    fair = verify(None, parse_spec(changed(near_threshold(tmp_path), "property.threshold", 0.10257)))
    assert fair.decision is Decision.FAIR


def test_sampling_goes_on_to_enumerate_where_it_would_cost_more(tmp_path: Path) -> None:
    """78,000 inputs are sampled first, and the gap is too near to the threshold for that."""
    data = changed(near_threshold(tmp_path), "feature.1.high", 499)
    verdict = verify(None, parse_spec(data), workers=1)
    assert (verdict.engine, verdict.exact) == ("enumeration", True)
    easy = verify(None, parse_spec(changed(data, "property.threshold", 0.6)), workers=1)
    assert (easy.engine, easy.decision) == ("sampling", Decision.FAIR)


@pytest.mark.parametrize("engine", ["sampling", "enumeration"])
def test_an_engine_can_be_forced(engine: str, tmp_path: Path) -> None:
    verdict = verify(None, parse_spec(near_threshold(tmp_path, engine=engine, budget={"rounds": 1000})), workers=1)
    assert verdict.engine == verdict.to_dict()["engine"] == engine


def test_a_real_feature_is_refused_unless_the_network_gets_bins(tmp_path: Path) -> None:
    path = save(linear([[1.0], [1.0]], [-2.5], end="Identity"), tmp_path / "network.onnx")
    data = question(real("x", 0.0, 4.0), category("sex", "F", "M"), decision="logit", path=str(path))
    data["guarantee"]["engine"] = "enumeration"
    with pytest.raises(SpecError, match=says(NOT_ENUMERABLE)):
        verify(None, parse_spec(data))
    binned = changed(data, "feature.0.bins", [1.0, 2.0, 3.5])
    verdict = verify(None, parse_spec(binned))
    # Yes above 2.5: men from bin 2 on (x >= 2), women from bin 3 on (x >= 3.5).
    assert {group.name: group.probability.estimate for group in verdict.groups if group.outcome == "yes"} == {
        "sex=F": 0.125,
        "sex=M": 0.5,
    }


def test_values_with_the_same_encoding_and_features_that_are_ignored_are_one_point(tmp_path: Path) -> None:
    path = save(linear([[1.0], [0.0], [1.0]], [-2.5], end="Identity"), tmp_path / "network.onnx")
    data = question(
        integer("age", 17, 90, bins=[30, 50, 65]), integer("idle", 0, 10**6 - 1), category("sex", "F", "M"),
        decision="logit", path=str(path),
    )  # fmt: skip
    data["guarantee"] = {"engine": "enumeration"}
    verdict = verify(None, parse_spec(data))
    assert verdict.evaluations == 8
    assert verdict.evidence.to_dict()["summed"] == ["idle"]
    assert "The network provably ignores idle" in verdict.notes[0]
    rates = {group.name: group.probability.estimate for group in verdict.groups if group.outcome == "yes"}
    assert rates == {"sex=F": 26 / 74, "sex=M": 41 / 74}


def test_a_condition_on_a_feature_that_the_network_does_not_take_is_counted(tmp_path: Path) -> None:
    path = save(linear([[1.0], [1.0]], [-2.5], end="Identity"), tmp_path / "network.onnx")
    data = question(
        integer("x", 0, 3), integer("region", 0, 9, model_input=False), category("sex", "F", "M"),
        decision="logit", path=str(path),
    )  # fmt: skip
    data["guarantee"] = {"engine": "enumeration"}
    data["property"]["given"] = "region < x"
    verdict = verify(None, parse_spec(data))
    # x weighs as much as there are regions below it: 0, 1, 2 and 3 of ten.
    rates = {group.name: group.probability.estimate for group in verdict.groups if group.outcome == "yes"}
    assert rates == {"sex=F": 3 / 6, "sex=M": 5 / 6}
    assert verdict.evaluations == 6
    with pytest.raises(SpecError, match=says(NO_INPUT)):
        verify(None, parse_spec(changed(data, "property.given", "region < x and x < 0")))
    data["property"] = {"kind": "individual", "protected": ["sex"], "threshold": 0.1, "given": "x < 0"}
    with pytest.raises(SpecError, match=says(CONDITION_NEVER_HOLDS)):
        verify(None, parse_spec(data))


def test_a_long_column_is_cut_into_strips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_tiles(monkeypatch, 16, 1)
    path = save(linear([[1.0], [10.0]], [-50.5], end="Identity"), tmp_path / "network.onnx")
    data = question(integer("x", 0, 99), category("sex", "F", "M"), decision="logit", path=str(path))
    data["guarantee"] = {"engine": "enumeration"}
    verdict = verify(None, parse_spec(data), workers=1)
    assert [segment["points"] for segment in verdict.evidence.to_dict()["segments"]] == [16] * 6 + [4]
    assert verdict.gap.estimate == 0.1


def test_one_hot_and_scaled_features_are_prepared_once_and_are_right(tmp_path: Path) -> None:
    weights = np.array([[1.0], [-2.0], [0.5], [3.0], [-1.0]])
    path = save(linear(weights, [0.25], end="Identity"), tmp_path / "network.onnx")
    job = category("job", "a", "b", "c", one_hot=True)
    data = question(
        job, integer("hours", 0, 5, scale={"mean": 2.0, "std": 1.5}), category("sex", "F", "M"),
        decision="logit", path=str(path),
    )  # fmt: skip
    data["guarantee"] = {"engine": "enumeration"}
    scores = [
        [weights[job, 0] + 3 * (hours - 2) / 1.5 - sex + 0.25 for job in range(3) for hours in range(6)]
        for sex in range(2)
    ]
    rates = [Fraction(sum(score > 0 for score in of_sex), 18) for of_sex in scores]
    verdict = verify(None, parse_spec(data))
    assert verdict.gap.estimate == float(abs(rates[0] - rates[1]))


def test_weights_of_any_size_are_added_exactly() -> None:
    """Three weights that double precision cannot add: the float sum is off, the vector is not."""
    weights = np.array([2**80, 1, 3, 2**80 + 7], object)
    labels = np.array([0, 1, 1, 1], np.uint8)
    found = WeightVector.of(weights).by_label(labels, 2)
    assert found == [2**80, 2**80 + 11]
    assert WeightVector.of(weights).by_label(labels.astype(np.int64), 3) == [2**80, 2**80 + 11, 0]
    rounded = float(weights[1]) + float(weights[2]) + float(weights[3])
    assert int(rounded) != 2**80 + 11


def test_rounded_sums_would_decide_a_tie_wrongly() -> None:
    """Two groups that differ by 1 part in 2**80 more than the limit allows: fractions see it, floats do not."""
    whole = 2**81
    parts = [[rate_within((got, got), (whole - got, whole - got), 0)] for got in (2**80 + 1, 2**80 - 2**78)]
    compared = ~np.eye(2, dtype=bool)[None]
    found = EnumeratedRates(parts, [[0], [1]], compared, "difference", Fraction(1, 8), np.array([1, 1]))
    assert found.decision is Decision.UNFAIR
    assert found.gap()[0] == 0.125


def test_weights_that_are_only_enclosed_give_bounds_that_hold() -> None:
    """Any weights between the bounds give rates between the bounds of the rates."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        low = rng.integers(0, 9, 4)
        high = low + rng.integers(0, 4, 4)
        unseen = int(rng.integers(0, 5))
        got, missed = ((int(low[place]), int(high[place])) for place in (0, 1))
        _, least, most = rate_within(got, missed, unseen)
        for _ in range(20):
            true = [
                Fraction(int(rng.integers(0, 101)), 100) * int(b - a) + int(a) for a, b in zip(low, high, strict=True)
            ]
            more = Fraction(int(rng.integers(0, 101)), 100) * unseen
            yes = Fraction(int(rng.integers(0, 101)), 100) * more
            if true[0] + true[1] + more:
                assert least <= (true[0] + yes) / (true[0] + true[1] + more) <= most


def space_of(data: dict[str, Any]) -> InputSpace:
    return input_space(prepare(None, parse_spec(data)))


def test_a_feature_whose_weights_are_not_zero_is_not_ignored(tmp_path: Path) -> None:
    path = save(linear([[1.0], [1e-30], [1.0]], end="Identity"), tmp_path / "network.onnx")
    data = question(integer("a"), integer("b"), category("sex", "F", "M"), decision="logit", path=str(path))
    assert space_of(data).summed == ()


def test_a_feature_that_reaches_the_decision_past_the_first_layer_is_not_ignored(tmp_path: Path) -> None:
    """The first layer multiplies it by 0, and another operator reads it."""
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("MatMul", ["x", "v"], ["n"]),
        node("Add", ["m", "n"], ["y"]),
    ]
    constants = [constant("w", [[1.0], [0.0], [1.0]]), constant("v", [[0.0], [1.0], [0.0]])]
    path = save(
        graph(nodes, [value("x", shape=("N", 3))], [value("y", shape=("N", 1))], constants), tmp_path / "n.onnx"
    )
    data = question(integer("a"), integer("b"), category("sex", "F", "M"), decision="logit", path=str(path))
    assert space_of(data).summed == ()
    zero = [constants[0], constant("v", [[0.0], [0.0], [1.0]])]
    save(graph(nodes, [value("x", shape=("N", 3))], [value("y", shape=("N", 1))], zero), tmp_path / "n.onnx")
    assert space_of(data).summed == ("b",)


def test_a_sign_of_zero_that_could_matter_keeps_the_feature(tmp_path: Path) -> None:
    """1/0 and 1/-0 differ, so a network that divides is not analysed."""
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Reciprocal", ["m"], ["y"])]
    model = graph(
        nodes, [value("x", shape=("N", 3))], [value("y", shape=("N", 1))], [constant("w", [[1.0], [0.0], [1.0]])]
    )
    path = save(model, tmp_path / "network.onnx")
    data = question(integer("a", 1, 9), integer("b"), category("sex", "F", "M"), decision="logit", path=str(path))
    assert space_of(data).summed == ()


def test_groups_of_several_values_cannot_be_enumerated_for_individuals(tmp_path: Path) -> None:
    data = near_threshold(tmp_path, engine="enumeration")
    data["feature"].append(integer("age", 0, 3, groups={"young": [0, 1], "old": [2, 3]}, model_input=False))
    data["property"] = {"kind": "individual", "protected": ["age"], "threshold": 0.1}
    with pytest.raises(SpecError, match=says(GROUP_OF_SEVERAL_VALUES)):
        verify(None, parse_spec(data))


def test_a_witness_is_an_input_with_two_decisions(tmp_path: Path) -> None:
    verdict = verify(None, parse_spec(near_threshold(tmp_path)))
    assert verdict.witnesses
    for witness in verdict.witnesses:
        income = float(witness.input["income"])
        assert dict(zip(witness.groups, witness.labels, strict=True)) == {"sex=F": "yes", "sex=M": "no"}
        assert 40 < income + 0.01 * float(witness.input["rest"]) < 48.005


def test_progress_has_the_evaluations_and_the_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_tiles(monkeypatch, 8, 1)
    monkeypatch.setattr(enumeration, "REPORT_EVERY", 0.0)
    seen: list[Progress] = []
    spec = parse_spec(near_threshold(tmp_path, engine="enumeration"))
    verdict = verify(None, spec, workers=1, progress=seen.append)
    assert all(each.total == 1248 and each.gap is not None for each in seen)
    assert [each.evaluations for each in seen] == sorted(each.evaluations for each in seen)
    assert all(each.gap.low <= 8 / 78 <= each.gap.high for each in seen if each.gap is not None)
    assert verdict.gap.low <= 8 / 78 <= verdict.gap.high


def test_a_run_stops_when_the_rest_cannot_change_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_tiles(monkeypatch, 8, 1)
    monkeypatch.setattr(enumeration, "FIRST_LOOK", 0)
    data = changed(near_threshold(tmp_path, engine="enumeration"), "property.threshold", 0.5)
    verdict = verify(None, parse_spec(data), workers=1)
    assert (verdict.decision, verdict.stopped, verdict.exact, verdict.delta) == (Decision.FAIR, "decided", False, 0.0)
    assert verdict.evaluations < 1248
    assert verdict.gap.low <= 8 / 78 <= verdict.gap.high <= 0.5
    assert verdict.statement.startswith("Certain, but not exact")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"population": {"kind": "callable"}}, "cannot list the inputs"),
        ({"guarantee": {"engine": "enumeration", "rule": "paper"}}, "no stopping rule"),
        ({"guarantee": {"engine": "counting"}}, "is for the rows of a table"),
        ({"guarantee": {"engine": "enumerate"}}, 'write "auto"'),
    ],
)
def test_an_engine_that_cannot_answer_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse_spec({**question(), "guarantee": {"engine": "enumeration"}, **change})


def test_the_engine_changes_no_seed_and_is_no_part_of_the_question(tmp_path: Path) -> None:
    seeds = {
        prepare(None, parse_spec(near_threshold(tmp_path, engine=engine))).seed
        for engine in ("auto", "sampling", "enumeration")
    }
    assert len(seeds) == 1


def test_the_verdict_of_an_enumeration_is_plain_json(tmp_path: Path) -> None:
    found = json.loads(json.dumps(verify(None, parse_spec(near_threshold(tmp_path))).to_dict()))
    assert (found["engine"], found["delta"], found["rule"], found["rounds"], found["seed"]) == (
        "enumeration", 0.0, "exact", 0, None,
    )  # fmt: skip


def test_a_budget_of_evaluations_is_never_exceeded(tmp_path: Path) -> None:
    _, asked = asked_at(0)
    path = asked.net.save(tmp_path / "net.onnx")
    spec = parse_spec(changed(asked.spec(path, 0.3), "guarantee.engine", "auto"))
    whole = verify(None, spec, data=asked.world.table, workers=1)
    assert whole.engine == "enumeration"
    for most in (whole.evaluations, whole.evaluations - 1, 16):
        verdict = verify(None, spec, data=asked.world.table, workers=1, max_evaluations=most)
        assert verdict.evaluations <= most
        assert (verdict.engine == "enumeration") == (most == whole.evaluations)
    with pytest.raises(SpecError, match=says(BUDGET_TOO_SMALL, allowed="16")):
        enumerated(asked, path, 0.3, budget={"evaluations": 16})


def rooted(path: Path) -> Path:
    """A network of (hours, job, sex) that answers NaN for 0 hours."""
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["s"]), node("Sqrt", ["s"], ["y"])]
    weights = np.array([[1, 0], [0, 1], [0, 0.8]], np.float32)
    constants = [constant("w", weights), constant("b", np.array([-1, 0.5], np.float32))]
    return save(graph(nodes, [value("x", shape=("N", 3))], [value("y", shape=("N", 2))], constants), path)


@pytest.mark.parametrize("kind", ["difference", "individual"])
@pytest.mark.parametrize("tile", [2, 8192])
def test_an_input_that_the_condition_excludes_needs_no_answer(
    kind: str, tile: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tiles(monkeypatch, tile, 1)
    path = rooted(tmp_path / "network.onnx")
    data = question(integer("hours", 0, 4), category("job", "a", "b", "c"), category("sex", "F", "M"), path=str(path))
    data["property"] |= {"kind": kind, "given": "hours >= 1"}
    data["guarantee"] = {"engine": "enumeration"}
    verdict = verify(None, parse_spec(data), workers=1)
    assert verdict.exact
    # The second score is larger for hours - 1 < job + 0.5 + 0.8 sex.
    people = [(hours, job, sex) for hours in range(1, 5) for job in range(3) for sex in range(2)]
    rates = [sum(h - 1 < j + 0.5 + 0.8 * s for h, j, s in people if s == sex) / 12 for sex in range(2)]
    assert verdict.gap.estimate == pytest.approx(rates[1] - rates[0])
    certificate = tmp_path / "certificate.json"
    certificate.write_text(json.dumps(make_certificate(verdict)))
    assert recheck(certificate, path).conclusion == "CONFIRMED"
    with pytest.raises(ModelError, match=says(OUTPUT_NOT_DECISION)):
        verify(None, parse_spec(changed(data, "property.given", "hours >= 0")), workers=1)


def test_a_witness_is_an_input_that_the_condition_allows(tmp_path: Path) -> None:
    """Decisions differ for 0 hours only; jobs do not matter to the network, and the first one is excluded there."""
    weights = np.array([[0, -1], [0, 0], [0, 0.5]], np.float32)
    path = save(linear(weights.tolist(), [0.0, -0.2]), tmp_path / "network.onnx")
    data = question(integer("hours", 0, 4), category("job", "a", "b", "c"), category("sex", "F", "M"), path=str(path))
    data["guarantee"] = {"engine": "enumeration"}
    shown = verify(None, parse_spec(data), workers=1).witnesses
    assert [witness.input["hours"] for witness in shown] == [0]
    for given in ("hours >= 1 or job == 'b'", "hours >= 1 or job != 'a'"):
        data["property"]["given"] = given
        verdict = verify(None, parse_spec(data), workers=1)
        assert verdict.gap.estimate > 0
        assert not [witness for witness in verdict.witnesses if witness.input["job"] == "a"]


@pytest.mark.parametrize("words", [1, DECISION_WORDS])
@pytest.mark.parametrize("portions", [[1, 1, 1, 1, 1], [1, 2, 2, 1, 3], [1, 2, 4, 8, 2**40 + 1]])
@pytest.mark.parametrize("largest", [1, 30, 10**30])
@pytest.mark.parametrize("sparse", [False, True])
def test_what_points_get_more_often_as_one_part_is_weighed_without_rounding(
    portions: list[int], words: int, largest: int, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of Python's whole numbers, point by point, are the same: with few and many levels, and beyond 64 bits."""
    monkeypatch.setattr(pair_weights, "SPARSE", 1 if sparse else 16)
    rng, rows = np.random.default_rng(17), 50
    members = [[0, 1], [2, 3, 4], [0, 1, 2, 3, 4]]
    shown = [Shown((v,), (float(v),), tuple(p for p, own in enumerate(members) if v in own)) for v in range(5)]
    parts = [sum(portions[value] for value in own) for own in members]
    pairs = [(outcome, i, j) for outcome in range(2) for i in range(3) for j in range(3) if i != j]
    space: Any = SimpleNamespace(portions=(portions, parts), pairs=pairs, shown=shown, single=False)
    weights = [int(rng.integers(1, 31)) * largest // 30 + 1 for _ in range(rows)] if largest > 1 else [1] * rows
    got = rng.integers(0, 2 if words == 1 else words, (5, 2, rows))
    block, only = BlockPairs(PairWeights(space, 2, words), rows), np.zeros((1, len(pairs)), object)
    for v in range(5):
        scales = [(7 * portions[v], WeightVector.of(np.array(weights, object)))]
        block.add(v, scales, [each > 0 if words == 1 else each for each in got[v]])
    block.add_to(only)
    for slot, (outcome, i, j) in enumerate(pairs):
        one, other = (
            [sum(portions[v] * int(got[v, outcome, x]) for v in members[p]) for x in range(rows)] for p in (i, j)
        )
        more = [max(a * parts[j] - b * parts[i], 0) for a, b in zip(one, other, strict=True)]
        assert only[0, slot] == 7 * sum(weight * each for weight, each in zip(weights, more, strict=True))
