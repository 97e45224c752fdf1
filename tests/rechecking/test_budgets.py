"""A budget may be chosen after looking: a run that it cuts short is the beginning of a longer run.

Otherwise each budget would be another try with the same seed, and an issuer could show the one that suits.
"""

from __future__ import annotations

import json
import time
from itertools import pairwise, permutations
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import numpy as np
import pytest

from fairchain import SpecError, make_certificate, parse_spec, recheck, verify
from fairchain.certificate_format import LOOK_ROUNDS, digest
from fairchain.certificates import dump, make_family_certificate
from fairchain.executors import Workers
from fairchain.prepare import Case, case_of, prepare
from fairchain.rechecking import result
from fairchain.spec import Spec
from fairchain.spec.load import SPEC_NOT_UNICODE
from fairchain.statistics import BatchPlan
from fairchain.verification.choosing import engine_for
from fairchain.verification.enumeration import EnumerationEngine
from fairchain.verification.family import verify_family
from fairchain.verification.sampler import Batch, Sampler
from fairchain.verification.sampling import SamplingEngine, _second_look
from fairchain.verification.verdict import RunRecord, assemble
from tests.messages import says
from tests.networks import linear, save
from tests.questions import category, changed, integer, question
from tests.rechecking.builders import audit, written
from tests.text.builders import raw_question

KINDS = {
    "uniform": ("uniform", "difference"),
    "given": ("uniform", "given"),
    "marginals": ("marginals", "ratio"),
    "Bayesian network": ("network", "difference"),
    "Bayesian network, one input": ("network", "individual"),
    "Bayesian network, overall": ("network", "overall"),
}


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("budgets"))


def case(folder: Path, kind: str) -> Case:
    return prepare(None, parse_spec(audit(folder, *KINDS[kind], seed=None)))


def batch(of: Case, planned: int, most: int | None = None) -> Batch:
    groups = range(len(of.comparison.counted))
    return Sampler(of.model, of.population, of.seed.value, of.comparison).run(0, planned, groups, lambda _: False, most)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("planned", [100, 3000, 5000, 40_000])
def test_a_batch_that_a_budget_cuts_has_the_first_rounds_of_the_whole(kind: str, planned: int, folder: Path) -> None:
    """Chunk by chunk: all but the last are equal, and the last one is a part of that of the whole batch."""
    of = case(folder, kind)
    whole = batch(of, planned)
    for most in (1, planned // 3, planned - 1):
        part = batch(of, planned, most)
        assert (part.rounds, part.size, part.chunks) == (most, whole.size, -(-most // whole.size))
        for one, other in zip(part.parts[:-1], whole.parts, strict=False):
            assert np.array_equal(one, other)
        assert (part.parts[-1] <= whole.parts[part.chunks - 1]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_labels_of_the_first_rounds_do_not_depend_on_how_many_are_counted(kind: str, folder: Path) -> None:
    of = case(folder, kind)
    assert of.model is not None
    every = range(len(of.comparison.subgroups))
    asked = Sampler(of.model, of.population, of.seed.value, of.comparison)
    whole = asked.labels(3, 2000, every)
    for count in (1, 77, 1999):
        assert np.array_equal(asked.labels(3, count, every, drawn=2000), whole[:, :count])


def test_texts_that_are_swapped_are_the_first_of_a_longer_chunk(tmp_path: Path) -> None:
    spec = parse_spec(raw_question(tmp_path, **{"as": "swapped"}))
    of = case_of(spec, None, None)
    whole = of.population.rounds(1, 0, 500).inputs([0, 1]).reshape(2, 500, -1)
    part = of.population.rounds(1, 0, 60, drawn=500).inputs([0, 1]).reshape(2, 60, -1)
    assert np.array_equal(part, whole[:, :60])


def test_an_issuer_who_picks_the_budget_sees_one_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts after every budget grow with it; if a cut batch had draws of its own, some would shrink.

    The second half makes the draws of a cut batch its own, which is the rule of certificates of version 7.
    """
    data = changed(audit(folder, "network", "difference", seed=None, delta=1e-9), "property.threshold", 0.955)

    def shrinking() -> int:
        totals = []
        for rounds in range(40, 160, 3):
            spec = parse_spec(changed(data, "guarantee.budget", {"rounds": rounds}))
            verdict = verify(None, spec, workers=1)
            assert verdict.stopped == "rounds"
            counts = np.zeros((3, 3), np.int64)
            for plan, entry in verdict.evidence.entries:
                counts[:, list(plan.groups)] += entry.together.diagonal(axis1=1, axis2=2)
            totals.append(counts)
        return sum(bool((after < before).any()) for before, after in pairwise(totals))

    assert shrinking() == 0
    plain = Sampler.labels
    with monkeypatch.context() as unsound:
        unsound.setattr(Sampler, "labels", lambda self, chunk, count, groups, **_: plain(self, chunk, count, groups))
        assert shrinking() > 0


def issued(folder: Path, threshold: float = 0.955, **guarantee: Any) -> dict[str, Any]:
    """A certificate of a run that its budget cut within a batch."""
    guarantee = {"seed": None, "delta": 1e-9, "budget": {"rounds": 6000}, **guarantee}
    data = changed(audit(folder, "network", "difference", **guarantee), "property.threshold", threshold)
    content: dict[str, Any] = json.loads(dump(make_certificate(verify(None, parse_spec(data), workers=1))))
    return content


def checked(folder: Path, tmp_path: Path, content: dict[str, Any]) -> result.Recheck:
    content["digest"] = digest(content)
    (tmp_path / "c.json").write_text(json.dumps(content))
    return recheck(tmp_path / "c.json", folder / "network.onnx")


@pytest.mark.parametrize("guarantee", [{}, {"budget": {"evaluations": 5000}}, {"refine": 0.01, "threshold": 0.5}])
def test_a_run_that_was_cut_is_confirmed(guarantee: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    content = issued(folder, **guarantee)
    *whole, last = content["evidence"]["batches"]
    assert last["planned"] > last["rounds"]
    assert not any("planned" in entry for entry in whole)
    assert checked(folder, tmp_path, content).conclusion == "CONFIRMED"


EDITS = {
    "no plan": lambda last: last.pop("planned"),
    "a longer plan": lambda last: last.update(planned=last["planned"] + 1),
    "a shorter plan": lambda last: last.update(planned=last["planned"] - 1),
    "a plan that was reached": lambda last: last.update(planned=last["rounds"]),
    "smaller chunks": lambda last: last.update(chunk_rounds=last["chunk_rounds"] // 2),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_plan_that_the_rule_does_not_make_is_rejected(edit: str, folder: Path, tmp_path: Path) -> None:
    content = issued(folder, budget={"rounds": 80_000})
    last = content["evidence"]["batches"][-1]
    assert last["chunk_rounds"] > 1024
    EDITS[edit](last)
    assert checked(folder, tmp_path, content).conclusion == "REJECTED"


def test_a_plan_in_the_middle_of_a_run_is_rejected(folder: Path, tmp_path: Path) -> None:
    content = issued(folder)
    middle = content["evidence"]["batches"][2]
    middle["planned"] = middle["rounds"] + 1
    assert checked(folder, tmp_path, content).conclusion == "REJECTED"


def test_an_older_version_does_not_hide_a_chosen_budget(folder: Path, tmp_path: Path) -> None:
    """In version 7 a cut batch had draws of its own, so such a certificate is CONSISTENT at best."""
    content = issued(folder)
    content["version"] = 7
    assert checked(folder, tmp_path, content).conclusion == "REJECTED"
    del content["evidence"]["batches"][-1]["planned"]
    found = checked(folder, tmp_path, content)
    assert found.cut
    assert found.conclusion != "CONFIRMED"
    kept = Path(__file__).parent / "fixtures" / "network-cut-7.json"
    honest = recheck(kept, folder / "network.onnx")
    assert (honest.conclusion, honest.remarks) == ("CONSISTENT", (result.CUT_REMARK,))
    assert recheck(kept, folder / "network.onnx", fresh=True, seed=1).holds


@pytest.mark.parametrize(("threshold", "refine"), [(0.9, None), (0.5, 0.001)])
@pytest.mark.parametrize("early", [0, 1, 3])
def test_a_batch_that_ends_early_is_the_last(
    threshold: float, refine: float | None, early: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows a part of a batch would be planned from other counts than a recheck plans it from.

    The batch before or after the decision loses a round, as if a clock had stopped it and then allowed more.
    """
    data = audit(folder, "uniform", "difference", seed=None, delta=0.01, refine=refine, budget={"rounds": 50_000})
    of = prepare(None, parse_spec(changed(data, "property.threshold", threshold)))
    decided = len(SamplingEngine().answer(of, workers=Workers(), cancel=Event(), progress=None).record.entries)
    number = early if refine is None else decided - 1 - early
    plain, done = Sampler.run, 0

    def ending_early(self: Sampler, *arguments: Any) -> Batch:
        nonlocal done
        done += 1
        found = plain(self, *arguments)
        return found if done <= number else msgspec.structs.replace(found, rounds=found.rounds - 1)

    monkeypatch.setattr(Sampler, "run", ending_early)
    answer = SamplingEngine().answer(of, workers=Workers(), cancel=Event(), progress=None)
    assert done == len(answer.record.entries) == number + 1 < decided + 1


@pytest.mark.parametrize("evaluations", range(31, 60, 4))
def test_a_batch_that_a_budget_of_evaluations_cuts_is_the_last(evaluations: int, folder: Path, tmp_path: Path) -> None:
    """What is left of the budget would pay for rounds of fewer groups, which another plan would follow."""
    content = issued(folder, 0.02, delta=1e-3, budget={"evaluations": evaluations})
    *whole, last = content["evidence"]["batches"]
    assert not any("planned" in entry for entry in whole)
    assert "planned" in last or content["claims"]["stopped"] == "decided"
    assert checked(folder, tmp_path, content).conclusion == "CONFIRMED"


@pytest.mark.parametrize(("issuer", "checker"), [(0.02, None), (0.02, 0.05), (None, 0.02)])
def test_a_spec_with_another_refinement_asks_the_same_question(
    issuer: float | None, checker: float | None, folder: Path, tmp_path: Path
) -> None:
    """A command adds a refinement that the spec file does not have."""
    content = issued(folder, 0.5, refine=issuer)
    content["digest"] = digest(content)
    (tmp_path / "c.json").write_text(json.dumps(content))
    guarantee = {"seed": None, "delta": 1e-9, "budget": {"rounds": 6000}, "refine": checker}
    own = parse_spec(changed(audit(folder, "network", "difference", **guarantee), "property.threshold", 0.5))
    named = parse_spec(changed(msgspec.to_builtins(own), "population.name", "another name"))
    for spec in (own, named):
        assert recheck(tmp_path / "c.json", folder / "network.onnx", spec=spec).conclusion == "CONFIRMED"


def test_inputs_that_are_looked_at_for_a_second_label_do_not_depend_on_the_budget(folder: Path) -> None:
    of = case(folder, "Bayesian network")
    assert of.model is not None
    asked = Sampler(of.model, of.population, of.seed.value, of.comparison)
    seen: list[tuple[int, int | None]] = []
    plain = asked.labels

    def noted(chunk: int, count: int, groups: Any, *, drawn: int | None = None) -> Any:
        seen.append((count, drawn))
        return np.zeros_like(plain(chunk, count, groups, drawn=drawn))

    asked.labels = noted  # type: ignore[method-assign]
    one_label = msgspec.structs.replace(batch(of, 16), labels=(0,))
    record = RunRecord(of.seed, True, of.comparison.rows, ((BatchPlan(16, (0, 1, 2)), one_label),), decided=1)
    _second_look(asked, of, record, time.perf_counter() + 60, Event())
    assert seen[-1][0] < LOOK_ROUNDS
    assert {drawn for _, drawn in seen} == {LOOK_ROUNDS}


def test_the_order_in_which_groups_are_named_is_not_another_try(folder: Path) -> None:
    """Groups are numbered by their values: picks of an average, and ties between leaders, follow the numbers."""
    named = {"first": ["s0"], "second": ["s1"], "third": ["s2"]}
    for asked in ("average ratio", "difference", "ratio"):
        runs = set()
        for order in permutations(named):
            data = audit(folder, "uniform", asked, seed=None)
            data["feature"][1]["groups"] = {name: named[name] for name in order}
            runs.add(json.dumps(make_certificate(verify(None, parse_spec(data), workers=1), timed=False)["evidence"]))
        assert len(runs) == 1


def test_questions_of_a_family_share_no_labels_that_were_drawn_for_other_groups(folder: Path, tmp_path: Path) -> None:
    """Under a condition, the candidates of a round depend on the groups that are drawn."""

    def asked(threshold: float, outcome: str, **guarantee: Any) -> Spec:
        guarantee = {"seed": None, "delta": 1e-2, "budget": {"rounds": 3000}, **guarantee}
        data = audit(folder, "network", "overall", **guarantee)
        data["property"].update(threshold=threshold, given="hours >= 3", outcome=outcome)
        return parse_spec(data)

    questions = [(0.2, "no"), (0.9, "maybe"), (0.3, "no")]
    family = verify_family(None, [asked(*each) for each in questions], workers=1)
    for each, verdict in zip(questions, family.verdicts, strict=True):
        own = asked(*each, seed=verdict.evidence.seed.value, delta=1e-2 / 3)
        alone = verify(None, own, workers=1)
        entries = [found.evidence.entries for found in (verdict, alone)]
        assert len({str([(plan.groups, entry.together.tolist()) for plan, entry in each]) for each in entries}) == 1
    (tmp_path / "f.json").write_text(json.dumps(make_family_certificate(family)))
    assert recheck(tmp_path / "f.json", folder / "network.onnx").conclusion == "CONFIRMED"


def test_a_sampled_answer_that_replaces_a_stopped_enumeration_is_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rounds gave one label, and sampling was left for an enumeration that Ctrl-C ends."""
    weights = np.arange(14).reshape(7, 2) * 0.01
    weights[0] = 0
    network = save(linear(weights.tolist(), [1000.0, 0.0]), tmp_path / "n.onnx")
    data = question(*[integer(f"x{i}", 0, 9) for i in range(6)], category("sex", "F", "M"), path=str(network))
    data["property"].update(threshold=5e-5)
    data["guarantee"] = {"engine": "auto", "delta": 1e-6, "budget": {"seconds": 20}}
    of, plain = prepare(None, parse_spec(data)), EnumerationEngine.answer

    def stopped(self: EnumerationEngine, case: Case, **options: Any) -> Any:
        options["cancel"].set()
        return plain(self, case, **options)

    monkeypatch.setattr(EnumerationEngine, "answer", stopped)
    start = time.perf_counter()
    answer = engine_for(of, certify=True).answer(of, workers=Workers(), cancel=Event(), progress=None)
    verdict = assemble(of, answer, start)
    assert verdict.engine == "sampling"
    assert verdict.constant is not None
    (tmp_path / "c.json").write_text(json.dumps(make_certificate(verdict)))
    assert recheck(tmp_path / "c.json", network).conclusion == "CONFIRMED"


def test_a_label_that_is_not_unicode_is_refused(folder: Path) -> None:
    data = changed(audit(folder, "uniform", "difference"), "model.labels", ["no", "maybe", "\ud800"])
    with pytest.raises(SpecError, match=says(SPEC_NOT_UNICODE)):
        parse_spec(data)
