"""Verdicts over all populations within a factor: against linear programs, in every engine, and rechecked."""

from __future__ import annotations

import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from fairchain import Decision, SpecError, check, recheck, verify
from fairchain.certificate_format import SegmentEvidence, chain_start, chained, digest
from fairchain.certificates import make_certificate
from fairchain.cli.app import app
from fairchain.examples import example
from fairchain.explaining import explain
from fairchain.planning import plan
from fairchain.report.first_screen import verdict_panel
from fairchain.report.markdown import summary
from fairchain.spec import parse_spec
from fairchain.spec.load import ADVICE, UNKNOWN_KEY
from fairchain.spec.seeds import meaning_of
from fairchain.spec.validate import ONLY_ASSUMED, SHIFT_OF_WITHOUT_SHIFT, SHIFT_REFUSED
from fairchain.statistics import Tally, count_together
from fairchain.statistics.shifted import ShiftQuestion, ShiftRule
from fairchain.verification.verdict import _Later
from tests.messages import says
from tests.statistics.simulation import cut
from tests.statistics.test_shift import extremes, network, random_shift
from tests.text.builders import raw_question

INPUTS = 12


def spec_of(about: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {
        "model": {"labels": ["no", "yes"], "decision": "label", "codes": [0, 1]},
        "feature": [
            {"name": "g", "kind": "category", "values": ["a", "b", "c"]},
            {"name": "x", "kind": "integer", "low": 0, "high": INPUTS - 1},
        ],
        "property": {"kind": "difference", "protected": ["g"], "threshold": 0.3, **about},
        **others,
    }


def deciding(decided: Any) -> Any:
    return lambda rows: decided[rows[:, 0].astype(int), rows[:, 1].astype(int)]


@pytest.mark.parametrize("seed", range(12))
def test_enumeration_finds_the_largest_gap_of_all_shifted_groups(seed: int) -> None:
    rng = np.random.default_rng(seed)
    decided, factor, even = network(rng, INPUTS), float(rng.choice([1.1, 1.5, 2.5])), np.full(INPUTS, 1 / INPUTS)
    spec = parse_spec(spec_of({"shift": factor}, guarantee={"engine": "enumeration"}))
    verdict = verify(deciding(decided), spec)
    ends = [extremes(even, row.astype(float), factor) for row in decided]
    largest = max(most - least for i, (_, most) in enumerate(ends) for j, (least, _) in enumerate(ends) if i != j)
    assert verdict.gap.estimate == pytest.approx(largest, abs=1e-9)
    assert verdict.decision is (Decision.FAIR if largest <= 0.3 else Decision.UNFAIR)
    # The same answer as the tipping factor of the verdict about the assumed population.
    plain = verify(deciding(decided), parse_spec(spec_of({}, guarantee={"engine": "enumeration"})))
    if plain.tipping is not None and plain.decision is Decision.FAIR:
        assert (verdict.decision is Decision.FAIR) == (factor <= plain.tipping.each_group)


@pytest.mark.parametrize("seed", range(12))
def test_the_gap_of_shared_individuals_is_what_linear_programs_say(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    decided, factor, even = network(rng, INPUTS), float(1 + 2 * rng.random()), np.full(INPUTS, 1 / INPUTS)
    compared = ~np.eye(3, dtype=bool)[None]
    question = ShiftQuestion(factor, True, compared, "difference", 0.3)
    # Every input once: the shares are exact.
    tally = Tally.of_batch(INPUTS, count_together(decided, [1]), range(3), 3)
    found = question.of_rounds(tally, 0.05, np.zeros((1, 3)), np.ones((1, 3)))
    for i, j in np.argwhere(compared[0]):
        _, most = extremes(even, (decided[i] - decided[j]).astype(float), factor)
        assert found.estimates[0, i, j] == pytest.approx(most, abs=1e-8)
        assert found.low[0, i, j] <= most <= found.high[0, i, j]


def rows(decided: Any, times: int) -> dict[str, list[Any]]:
    groups, inputs = np.divmod(np.arange(3 * INPUTS), INPUTS)
    return {
        "g": [*np.array(["a", "b", "c"])[groups]] * times,
        "x": [*map(int, inputs)] * times,
        "said": [*np.array(["no", "yes"])[decided.ravel()]] * times,
    }


@pytest.mark.parametrize(("kind", "threshold"), [("difference", 0.3), ("ratio", 0.6)])
def test_rows_as_the_population_and_as_a_sample(kind: str, threshold: float) -> None:
    decided = network(np.random.default_rng(3), INPUTS)
    table, rates, factor = rows(decided, 200), decided.mean(axis=1), 1.5
    most = np.minimum(factor * rates, 1 - (1 - rates) / factor)
    least = np.maximum(rates / factor, 1 - factor * (1 - rates))
    gaps = most[:, None] - least if kind == "difference" else least / most[:, None]
    largest = gaps[~np.eye(3, dtype=bool)].max() if kind == "difference" else gaps[~np.eye(3, dtype=bool)].min()
    asked = {"protected": "g", "prediction": "said", "outcome": "yes", "kind": kind, "threshold": threshold}
    whole = check(None, table, **asked, reading="population", shift=factor)
    assert whole.exact
    assert whole.gap.estimate == pytest.approx(largest)
    sample = check(None, table, **asked, reading="sample", shift=factor)
    assert sample.gap.low < largest < sample.gap.high
    assert sample.decision in (whole.decision, Decision.UNDECIDED)


def test_the_statement_names_the_populations() -> None:
    fair = verify(None, example("census"), shift=1.2)
    assert fair.decision is Decision.FAIR
    assert "some population in which no input is more than 1.2 times as frequent or as rare as in" in fair.statement
    assert "(each group by itself)" in fair.statement
    assert "the largest gap of all populations within the factor 1.2 is" in fair.headline
    assert fair.tipping is None
    unfair = verify(None, example("credit"), shift=1.2, shift_of="all_groups_alike")
    assert unfair.decision is Decision.UNFAIR
    assert "If every gap were at most 0.1 under every population in which" in unfair.statement
    assert "(all groups alike)" in unfair.statement
    assert unfair.record.shift is not None
    assert unfair.record.shift.to_dict() == {"factor": 1.2, "of": "all_groups_alike"}


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "each group": ("census", {"shift": 1.3}),
    "all alike": ("census", {"shift": 1.5, "shift_of": "all_groups_alike"}),
    "unfair, all alike": ("credit", {"shift": 1.1, "shift_of": "all_groups_alike"}),
    "ratio": ("credit", {"shift": 1.1, "kind": "ratio", "threshold": 0.8, "outcome": "good"}),
    "undecided": ("census", {"shift": 1.3, "rounds": 40}),
    "narrow": ("census", {"shift": 1.2, "refine": 0.02}),
    "narrow, unfair, all alike": ("credit", {"shift": 1.1, "shift_of": "all_groups_alike", "refine": 0.02}),
}


@pytest.mark.parametrize("case", CASES)
def test_certificates_of_drawn_inputs_are_confirmed(tmp_path: Path, case: str) -> None:
    name, about = CASES[case]
    verdict = verify(None, example(name), certify=True, **about)
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(make_certificate(verdict)))
    model = example(name).with_suffix(".onnx")
    found = recheck(path, model)
    assert found.conclusion == "CONFIRMED", [claim for claim in found.claims if not claim.holds]
    # The factor of the claims is that of the spec inside, also where it is left out.
    for claimed in (None, {"factor": 3.0, "of": "each_group"}):
        content = json.loads(path.read_text())
        content["claims"].pop("shift")
        content["claims"] |= {} if claimed is None else {"shift": claimed}
        content["digest"] = digest(content)
        (tmp_path / "other.json").write_text(json.dumps(content))
        found = recheck(tmp_path / "other.json", model)
        assert [claim.name for claim in found.claims if not claim.holds] == ["question"]


def linear(path: Path, rng: np.random.Generator) -> None:
    """Write a network of g and x with a label that depends on both."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = np.array([[0.0, rng.normal()], [0.0, 1.0]], np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["input", "w", "b"], ["output"])],
        "linear",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["rows", 2])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["rows", 2])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array([0, -5.5], np.float32), "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))


@pytest.mark.parametrize("reading", ["enumeration", "population", "sample"])
@pytest.mark.parametrize("kind", ["difference", "ratio"])
def test_certificates_of_counted_inputs_are_confirmed(tmp_path: Path, reading: str, kind: str) -> None:
    linear(tmp_path / "model.onnx", np.random.default_rng(1))
    others: dict[str, Any] = {"guarantee": {"engine": "enumeration"}}
    if reading != "enumeration":
        groups, inputs = np.divmod(np.arange(3 * INPUTS), INPUTS)
        lines = [f"{'abc'[g]},{x}" for g, x in zip(groups, inputs, strict=True)] * 60
        (tmp_path / "rows.csv").write_text("\n".join(["g,x", *lines]))
        others = {"population": {"kind": "table", "path": str(tmp_path / "rows.csv"), "as": reading}}
    about = {"shift": 1.25, "kind": kind, "threshold": 0.4, "outcome": "yes"}
    data = spec_of(about, **others)
    data["model"] = {"labels": ["no", "yes"], "path": str(tmp_path / "model.onnx")}
    verdict = verify(None, parse_spec(data), certify=True)
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(make_certificate(verdict)))
    found = recheck(path, tmp_path / "model.onnx", data=None if reading == "enumeration" else tmp_path / "rows.csv")
    assert found.conclusion == "CONFIRMED", [claim for claim in found.claims if not claim.holds]


def test_sampling_goes_on_after_a_decision_over_shifts_and_the_decision_stands() -> None:
    plain, narrow = (verify(None, example("census"), shift=1.2, refine=refine) for refine in (None, 0.02))
    assert plain.decision is narrow.decision is Decision.FAIR
    assert plain.evaluations == narrow.decision_evaluations < narrow.evaluations
    assert narrow.gap.high - narrow.gap.low < (plain.gap.high - plain.gap.low) / 2
    assert narrow.gap.low <= narrow.gap.estimate <= narrow.gap.high <= 0.1


@pytest.mark.parametrize("seed", range(10))
def test_rounds_that_contradict_a_decision_over_shifts_do_not_undo_it(seed: int) -> None:
    rng, fair = np.random.default_rng(seed), seed % 2 == 0
    rule = ShiftRule(ShiftQuestion(1.5, seed % 3 == 0, ~np.eye(2, dtype=bool)[None], "difference", 0.3), 0.1)
    for _ in range(30):
        plan = rule.plan() or cut(rule.refine(0.001), 400)
        assert plan is not None
        apart = 0.9 if fair == (rule.decision is not Decision.UNDECIDED) else 0.0
        got = (rng.random(plan.rounds) < np.array([[0.05], [0.05 + apart]])).astype(np.uint8)
        rule.observe(plan, Tally.of_batch(plan.rounds, count_together(got, [1]), plan.groups, 2))
        estimate, low, high = rule.gap()
        assert low <= estimate <= high
    assert rule.decision is (Decision.FAIR if fair else Decision.UNFAIR)
    assert high <= 0.3 if fair else low >= 0.3


REFUSED: dict[str, dict[str, Any]] = {
    'compare = "overall" compares groups with a population that they belong to': {"compare": "overall"},
    'shift_of = "all_groups_alike" is about differences': {"kind": "ratio", "shift_of": "all_groups_alike"},
    'shift_of = "all_groups_alike" needs inputs that are each shown as every group': {
        "given": "g == 'a' or x >= 3",
        "shift_of": "all_groups_alike",
    },
}


@pytest.mark.parametrize("why", REFUSED)
def test_questions_without_a_right_answer_are_refused(why: str) -> None:
    with pytest.raises(SpecError) as error:
        parse_spec(spec_of({"shift": 2.0, **REFUSED[why]}))
    assert SHIFT_REFUSED.format(why=why) in str(error.value)


@pytest.mark.parametrize("engine", ["enumeration", "bounds"])
def test_engines_that_cannot_answer_are_refused(engine: str) -> None:
    with pytest.raises(SpecError, match=says(SHIFT_REFUSED)):
        parse_spec(spec_of({"shift": 2.0, "shift_of": "all_groups_alike"}, guarantee={"engine": engine}))


@pytest.mark.parametrize("factor", [1.0, 0.5, 1001.0, float("nan")])
def test_a_factor_is_above_1_and_at_most_1000(factor: float) -> None:
    with pytest.raises(SpecError, match=says(ADVICE["property.shift"])):
        parse_spec(spec_of({"shift": factor}))


def test_what_shifts_needs_a_factor_and_other_kinds_have_none() -> None:
    with pytest.raises(SpecError) as error:
        parse_spec(spec_of({"shift_of": "all_groups_alike"}))
    assert SHIFT_OF_WITHOUT_SHIFT in str(error.value)
    with pytest.raises(SpecError, match=says(UNKNOWN_KEY, key="property.shift")):
        parse_spec(spec_of({"kind": "individual", "shift": 2.0}))


def test_other_commands_say_that_they_are_about_the_assumed_population() -> None:
    spec = parse_spec(spec_of({"shift": 2.0, "outcome": "yes"}))
    for what, use in (
        ("a plan", lambda: plan(spec, gap=0.1)),
        ("an explanation", lambda: explain(lambda rows: rows[:, 0], spec)),
    ):
        with pytest.raises(SpecError) as error:
            use()
        assert ONLY_ASSUMED.format(what=what) in str(error.value)


def test_the_command_line_has_it_too(tmp_path: Path) -> None:
    spec = str(example("census"))
    run = CliRunner().invoke(app, ["verify", spec, "--shift", "1.2", "--json"], standalone_mode=False)
    found = json.loads(run.output)
    assert (run.return_value, found["shift"]) == (0, {"factor": 1.2, "of": "each_group"})
    assert found["tipping"] is None
    table = tmp_path / "rows.csv"
    decided = rows(network(np.random.default_rng(3), INPUTS), 20)
    lines = [",".join(map(str, each)) for each in zip(*decided.values(), strict=True)]
    table.write_text("\n".join([",".join(decided), *lines]))
    asked = ["check", str(table), "--protected", "g", "--prediction", "said", "--as", "population", "--shift", "3"]
    run = CliRunner().invoke(app, [*asked, "--json"], standalone_mode=False)
    assert json.loads(run.output)["shift"] == {"factor": 3.0, "of": "each_group"}


def held(kind: str, threshold: float, rates: Any) -> bool:
    """Return whether rates are FAIR, up to rounding."""
    if kind == "ratio":
        return bool((threshold * rates[:, None] - rates <= 1e-9).all())
    return bool(rates.max() - rates.min() <= threshold + 1e-9)


@pytest.mark.parametrize("kind", ["difference", "ratio"])
@pytest.mark.parametrize("seed", range(15))
def test_enumeration_knows_up_to_which_shift_of_all_groups_alike_it_holds(seed: int, kind: str) -> None:
    """No shift within the factor contradicts the verdict, and just beyond it one does."""
    rng = np.random.default_rng(300 + seed)
    decided, threshold = network(rng, INPUTS), float(rng.choice([0.1, 0.3, 0.6]))
    parts = rng.multinomial(100 - INPUTS, rng.dirichlet(np.ones(INPUTS))) + 1
    spread = {"x": {str(x): int(part) / 100 for x, part in enumerate(parts)}, "g": {"a": 0.5, "b": 0.2, "c": 0.3}}
    about = {"kind": kind, "threshold": threshold, "outcome": "yes"}
    population = {"kind": "marginals", "frequencies": spread}
    spec = parse_spec(spec_of(about, population=population, guarantee={"engine": "enumeration"}))
    verdict = verify(deciding(decided), spec)
    if verdict.constant is not None:
        return
    assert verdict.tipping is not None
    weights, factor, fair = parts / 100, verdict.tipping.all_groups_alike, verdict.decision is Decision.FAIR
    assert held(kind, threshold, decided @ weights) == fair
    assert factor >= verdict.tipping.each_group
    keep, margin = (threshold, 0.0) if kind == "ratio" else (1.0, threshold)

    def survives(within: float) -> bool:
        worst = [
            extremes(weights, (keep * decided[i] - decided[j]).astype(float), within)[int(fair)]
            for i, j in np.argwhere(~np.eye(3, dtype=bool))
        ]
        return max(worst) <= margin if fair else max(worst) > margin

    assert factor == 1 or survives(1 + (min(factor, 50.0) - 1) * (1 - 1e-6))
    assert factor > 50 or not survives(factor * (1 + 1e-6))
    for _ in range(5):
        shifted = random_shift(rng, weights, 1 + (min(factor, 50.0) - 1) * (1 - 1e-6), decided[0] > 0)
        assert held(kind, threshold, decided @ shifted) == fair


@pytest.mark.parametrize("compare", ["groups", "overall"])
@pytest.mark.parametrize("seed", range(6))
def test_groups_of_several_values_shift_alike_by_their_individuals(seed: int, compare: str) -> None:
    """A group's rate is a mean over its values for each individual; the factor is a bound, no less than by itself."""
    rng = np.random.default_rng(400 + seed)
    decided = rng.random((6, INPUTS)) < np.clip(rng.random(INPUTS) + 0.1 * rng.normal(size=(6, 1)), 0, 1)
    ages = {"name": "g", "kind": "integer", "low": 0, "high": 5, "groups": {"young": [0, 1], "old": [2, 5]}}
    about = {"threshold": 0.3, "compare": compare, "outcome": "yes"}
    shares = np.array([0.1, 0.2, 0.1, 0.1, 0.2, 0.3])
    data = spec_of(about, guarantee={"engine": "enumeration"})
    data["feature"][0] = ages
    data["population"] = {"kind": "marginals", "frequencies": {"g": {str(g): s for g, s in enumerate(shares.tolist())}}}
    verdict = verify(deciding(decided.astype(int)), parse_spec(data))
    assert verdict.tipping is not None
    young, old, everyone = (
        np.average(decided[part], axis=0, weights=shares[part]) for part in ([0, 1], [2, 3, 4, 5], list(range(6)))
    )
    pairs = (
        [(young, old), (old, young)]
        if compare == "groups"
        else [(young, everyone), (everyone, young), (old, everyone), (everyone, old)]
    )
    factor, fair, even = (
        verdict.tipping.all_groups_alike,
        verdict.decision is Decision.FAIR,
        np.full(INPUTS, 1 / INPUTS),
    )
    assert factor >= verdict.tipping.each_group
    worst = [extremes(even, one - other, 1 + (factor - 1) * (1 - 1e-6))[int(fair)] for one, other in pairs]
    assert factor == 1 or (max(worst) <= 0.3 if fair else max(worst) > 0.3)


def test_rows_of_groups_that_share_no_inputs_shift_alike_as_each_by_itself() -> None:
    """The same weight of an input in all groups is no restriction if no two groups have an input in common."""
    decided = network(np.random.default_rng(3), INPUTS)
    table = {**rows(decided, 20), "x": [*range(3 * INPUTS)] * 20}
    verdict = check(None, table, protected="g", prediction="said", reading="population")
    assert verdict.tipping is not None
    assert verdict.tipping.all_groups_alike == verdict.tipping.each_group > 1
    # One table of weights by input, with inputs 0..11 for a, 12..23 for b, 24..35 for c, reaches the threshold.
    rates, factor = decided.mean(axis=1), verdict.tipping.each_group
    most, least = (
        np.minimum(factor * rates, 1 - (1 - rates) / factor),
        np.maximum(rates / factor, 1 - factor * (1 - rates)),
    )
    one, other = divmod(int((most[:, None] - least - 9 * np.eye(3)).argmax()), 3)
    weights = np.ones(3 * INPUTS)
    for group, wanted in ((one, most[one]), (other, least[other])):
        weights[group * INPUTS : (group + 1) * INPUTS] = np.where(
            decided[group], wanted / rates[group], (1 - wanted) / (1 - rates[group])
        )
    assert weights.max() <= factor * (1 + 1e-9)
    assert weights.min() >= 1 / factor * (1 - 1e-9)
    shifted = (decided.ravel() * weights).reshape(3, INPUTS).mean(axis=1)
    assert shifted[one] - shifted[other] == pytest.approx(0.1)


@pytest.mark.parametrize(("given", "alike"), [("x >= 3", True), ("g == 'a' or x >= 3", False)])
def test_a_condition_on_other_features_leaves_the_individuals_shared(given: str, alike: bool) -> None:
    decided = network(np.random.default_rng(5), INPUTS)
    about = {"given": given, "threshold": 0.9}
    verdict = verify(deciding(decided), parse_spec(spec_of(about, guarantee={"engine": "sampling"})), seed=1)
    assert verdict.tipping is not None
    assert (verdict.tipping.all_groups_alike > verdict.tipping.each_group) == alike
    if alike:
        # The rounds of the verdict hold what the individuals with x >= 3 get as two groups at once.
        even = np.full(INPUTS - 3, 1 / (INPUTS - 3))
        factor = min(verdict.tipping.all_groups_alike, 50.0)
        for i, j in np.argwhere(~np.eye(3, dtype=bool)):
            assert extremes(even, (decided[i] - decided[j])[3:].astype(float), factor)[1] <= 0.9 + 1e-9


def test_the_report_says_what_its_numbers_are_about() -> None:
    verdict = verify(None, example("census"), shift=1.2)
    assert verdict.record.shift_sentence.startswith("FAIR holds for every population in which")
    unfair = verify(None, example("credit"), shift=1.2)
    assert unfair.record.shift_sentence.startswith("UNFAIR is shown for some population in which")
    assert verdict.record.shift_sentence in summary(verdict.record)
    assert verdict.record.shift_sentence in str(verdict_panel(verdict.record))


def test_texts_that_are_shown_as_every_group_shift_alike(tmp_path: Path) -> None:
    """The decision depends on no group, so that no population of texts has a gap; each group by itself has one."""
    data = raw_question(tmp_path, **{"as": "swapped"})

    def dogs(texts: list[str]) -> Any:
        return np.array([[float("dog" in text)] for text in texts])

    found = {}
    for shifted in ("each_group", "all_groups_alike"):
        data["property"] |= {"shift": 2.0, "shift_of": shifted}
        found[shifted] = verify(dogs, parse_spec(data))
    assert found["each_group"].decision is Decision.UNFAIR
    assert found["all_groups_alike"].decision is Decision.FAIR
    assert found["all_groups_alike"].gap.estimate == 0


def test_counted_texts_know_up_to_which_shift_of_all_groups_alike_it_holds(tmp_path: Path) -> None:
    texts = tuple(
        f"the sunny {one} and {two}" for one in ("dog", "cat", "sea") for two in ("red", "green", "fine", "bad")
    )
    data = raw_question(tmp_path, texts, **{"as": "swapped"})
    data["property"]["threshold"] = 0.4

    def toxic(shown: list[str]) -> Any:
        return np.array([["dog" in text or ("moon" in text and "red" in text) for text in shown]], float).T

    verdict = verify(toxic, parse_spec(data))
    # Only the two texts of "red" without "dog" are decided differently: those of 12 must weigh 0.4 together.
    assert (verdict.engine, verdict.decision) == ("counting", Decision.FAIR)
    assert verdict.gap.estimate == pytest.approx(2 / 12)
    assert verdict.tipping is not None
    assert verdict.tipping.all_groups_alike == pytest.approx(0.4 * 12 / 2)
    assert verdict.tipping.each_group < verdict.tipping.all_groups_alike


def test_rates_of_each_group_are_no_evidence_about_a_shift_of_all_alike(tmp_path: Path) -> None:
    linear(tmp_path / "model.onnx", np.random.default_rng(1))
    data = spec_of({"shift": 1.25, "threshold": 0.4, "outcome": "yes"})
    data["model"] = {"labels": ["no", "yes"], "path": str(tmp_path / "model.onnx")}
    verdict = verify(None, parse_spec(data), certify=True)
    assert verdict.engine == "enumeration"
    text = json.dumps(make_certificate(verdict)).replace("(each group by itself)", "(all groups alike)")
    content = json.loads(text.replace('"each_group"', '"all_groups_alike"'))
    spec = parse_spec(content["spec"])
    content["claims"]["property"] = str(spec.property)
    chain = chain_start(content["claims"]["model_sha256"], content["claims"]["table_sha256"], meaning_of(spec))
    for segment in content["evidence"]["segments"]:
        chain = segment["chain"] = chained(chain, msgspec.convert(segment, SegmentEvidence))
    content["digest"] = digest(content)
    (tmp_path / "c.json").write_text(json.dumps(content))
    found = recheck(tmp_path / "c.json", tmp_path / "model.onnx")
    assert [claim.name for claim in found.claims if not claim.holds] == ["question"]


def test_a_copy_of_a_verdict_has_its_tipping_factor_and_not_the_counts_behind_it() -> None:
    verdict = verify(None, example("census"))
    copied = pickle.loads(pickle.dumps(verdict))
    assert copied.tipping == verdict.tipping
    assert copied.tipping is not None
    # The copy of a copy, and one with another field, too; none of them has the counts.
    assert dataclasses.replace(copied, seconds=0.0).tipping == verdict.tipping
    assert not any(isinstance(value, _Later) for value in vars(copied).values())
