"""Several questions about one model: one delta, one stream of inputs, no input evaluated twice."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain import FamilyVerdict, SpecError, check, recheck, verify, verify_family, write_certificate
from fairchain.checking import BAD_DEPTH
from fairchain.errors import CertificateError
from fairchain.examples import example
from fairchain.rechecking.rechecker import NO_MEMBERS
from fairchain.spec import Spec, load_spec, load_specs, parse_specs, revise
from fairchain.spec.load import SEVERAL_QUESTIONS
from fairchain.verification.family import FAMILY_HAS_NO_TRUTH, QUESTIONS_DIFFER, divided, family_cases
from tests.cli.command import Cli
from tests.messages import says

CENSUS = example("census")


def census(**changes: Any) -> Spec:
    return revise(load_spec(CENSUS), **changes)


def three() -> list[Spec]:
    ratio = {"property__kind": "ratio", "property__threshold": 0.7, "property__outcome": ">50K"}
    return [census(), census(property__threshold=0.2), census(**ratio)]


def test_deltas_add_up_and_verdicts_are_those_of_single_runs_with_the_same_seed() -> None:
    family = verify_family(None, three())
    assert family.delta == 1e-6
    assert family.conclusion == "FAIR"
    assert family.fair
    for spec, verdict in zip(three(), family.verdicts, strict=True):
        assert verdict.delta == pytest.approx(1e-6 / 3)
        seed = verdict.record.seed
        alone = verify(None, spec, delta=1e-6 / 3, seed=seed)
        assert alone.record.gap == verdict.record.gap
        assert alone.evaluations == verdict.evaluations


def test_every_question_of_a_family_counts_its_own_preparation() -> None:
    start = time.perf_counter()
    cases = family_cases(None, divided([census(), census(property__protected=["sex"])]))
    passed = time.perf_counter() - start
    assert all(case.prepared > 0 for case in cases)
    assert sum(case.prepared for case in cases) <= passed


def test_questions_about_the_same_groups_evaluate_an_input_once() -> None:
    family = verify_family(None, three())
    each = [verdict.evaluations for verdict in family.verdicts]
    assert max(each) <= family.evaluations < 0.8 * sum(each)
    # Questions about other groups add their evaluations.
    apart = verify_family(None, [census(), census(property__protected=["sex"])])
    assert apart.evaluations == sum(verdict.evaluations for verdict in apart.verdicts)


def test_all_questions_have_one_seed_and_workers_change_nothing() -> None:
    one, two = (verify_family(None, three(), workers=workers) for workers in (1, 2))
    assert len({verdict.record.seed for verdict in one.verdicts}) == 1
    seeds = {verify(None, spec, delta=1e-6 / 3).record.seed for spec in three()}
    assert one.verdicts[0].record.seed not in seeds
    assert [each.record.gap for each in one.verdicts] == [each.record.gap for each in two.verdicts]
    assert one.evaluations == two.evaluations


def test_one_unfair_question_makes_the_family_unfair_and_an_open_one_undecided() -> None:
    unfair = census(property__threshold=0.005)
    assert verify_family(None, [census(), unfair]).conclusion == "UNFAIR"
    few = verify_family(None, [census(), census(property__threshold=0.2)], rounds=20)
    assert few.conclusion == "UNDECIDED"
    with pytest.raises(TypeError, match=says(FAMILY_HAS_NO_TRUTH)):
        bool(few)


PEOPLE = {
    "sex": ["F", "M"] * 300,
    "race": ["a", "b", "c"] * 200,
    "age": list(range(20, 80)) * 10,
    "hired": ["yes", "no", "yes", "yes", "no"] * 120,
}


def test_rows_of_a_table_are_asked_once_however_many_questions_there_are() -> None:
    asked: list[int] = []

    def model(frame: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        asked.append(len(frame))
        return (frame[:, 0].astype(int) + frame[:, 1].astype(int)) % 2

    features = [
        {"name": "sex", "kind": "category", "values": ["F", "M"]},
        {"name": "race", "kind": "category", "values": ["a", "b", "c"]},
        {"name": "age", "kind": "integer", "low": 20, "high": 79, "groups": {"young": [20, 39], "old": [40, 79]}},
    ]
    data = {
        "model": {"labels": ["no", "yes"], "decision": "label", "codes": [0, 1]},
        "feature": features,
        "property": {"kind": "difference", "protected": ["sex", "race", "age"], "depth": 2, "threshold": 0.1},
        "population": {"kind": "table", "as": "population"},
    }
    specs = parse_specs(data)
    assert len(specs) == 6
    family = verify_family(model, specs, data=PEOPLE)
    assert len(family.verdicts) == 6
    assert family.evaluations == 600
    assert sum(verdict.evaluations for verdict in family.verdicts) == 6 * 600
    for spec, verdict in zip(specs, family.verdicts, strict=True):
        assert verdict.gap == verify(model, spec, data=PEOPLE).gap


def test_check_expands_protected_columns_up_to_a_depth() -> None:
    found = check(None, PEOPLE, protected=["sex", "race"], depth=2, prediction="hired", reading="population")
    assert isinstance(found, FamilyVerdict)
    assert [verdict.spec.protected for verdict in found.verdicts] == [("sex",), ("race",), ("sex", "race")]
    one = check(None, PEOPLE, protected=["sex", "race"], prediction="hired", reading="population")
    assert one.record.gap == found.verdicts[2].record.gap
    with pytest.raises(SpecError, match=says(BAD_DEPTH, most="2")):
        check(None, PEOPLE, protected=["sex", "race"], depth=3, prediction="hired")


def test_a_spec_file_with_several_properties(tmp_path: Path) -> None:
    text = Path(CENSUS).read_text(encoding="utf-8")
    head, rest = text.split("[property]")
    network = Path(CENSUS).with_suffix(".onnx").as_posix()
    second = '[[property]]\nkind = "difference"\nprotected = ["sex"]\nthreshold = 0.05\n\n'
    path = tmp_path / "two.toml"
    path.write_text((head + second + "[[property]]" + rest).replace("census.onnx", network), encoding="utf-8")
    assert [spec.protected for spec in load_specs(path)] == [("sex",), ("race",)]
    with pytest.raises(SpecError, match=says(SEVERAL_QUESTIONS, count="2")):
        load_spec(path)
    family = verify_family(None, path, certify=True)
    certificate = tmp_path / "family.json"
    write_certificate(family, certificate)
    found = recheck(certificate, network, spec=path)
    assert found.conclusion == "CONFIRMED", [claim for member in found.members for claim in member.claims]
    assert [member.verdict for member in found.members] == ["FAIR", "FAIR"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("family") / "family.json"
    write_certificate(verify_family(None, three(), certify=True), path)
    return path


def edited(certificate: Path, folder: Path, **changes: Any) -> Path:
    from fairchain.certificate_format import family_digest

    content = json.loads(certificate.read_text(encoding="utf-8"))
    for key, value in changes.items():
        content[key] = value(content[key]) if callable(value) else value
    content["digest"] = family_digest(content)
    path = folder / "edited.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        ({"delta": 5e-7}, "delta"),
        ({"verdict": "UNFAIR"}, "verdict"),
        ({"members": lambda members: [*members, members[0]]}, "questions"),
    ],
)
def test_what_is_claimed_of_all_questions_is_checked(
    certificate: Path, tmp_path: Path, changes: dict[str, Any], claim: str
) -> None:
    network = load_spec(CENSUS).model.path
    found = recheck(edited(certificate, tmp_path, **changes), network)
    assert found.conclusion == "REJECTED"
    assert claim in {each.name for each in found.claims if not each.holds}


def test_a_question_that_was_dropped_changes_the_seed_of_the_others(certificate: Path, tmp_path: Path) -> None:
    network = load_spec(CENSUS).model.path
    found = recheck(edited(certificate, tmp_path, members=lambda members: members[:2]), network)
    assert found.conclusion == "REJECTED"
    assert all("seed" in {each.name for each in member.claims if not each.holds} for member in found.members)


def test_a_family_certificate_without_members_is_refused(certificate: Path, tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match=says(NO_MEMBERS)):
        recheck(edited(certificate, tmp_path, members=[]), "m.onnx")


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ([], "empty list"),
        ([{"kind": "difference", "protected": ["sex"], "threshold": 0.1}] * 2, "stated twice"),
        ([{"kind": "difference", "protected": ["sex"], "threshold": 0.1}, {"kind": "x"}], "number 2"),
        ({"kind": "difference", "protected": ["sex"], "threshold": 0.1, "depth": 3}, "from 1 to"),
    ],
)
def test_bad_lists_of_questions_are_refused(questions: Any, message: str) -> None:
    data = {
        "model": {"labels": ["no", "yes"]},
        "feature": [{"name": "sex", "kind": "category", "values": ["F", "M"]}],
        "property": questions,
    }
    with pytest.raises(SpecError, match=message):
        parse_specs(data)


def test_questions_that_differ_in_more_than_their_property_are_refused() -> None:
    with pytest.raises(SpecError, match=says(QUESTIONS_DIFFER)):
        verify_family(None, [census(), census(guarantee__epsilon=0.01)])


def test_the_command_prints_every_question(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cli = Cli(monkeypatch, capsys)
    text = Path(CENSUS).read_text(encoding="utf-8").replace("census.onnx", Path(CENSUS).with_suffix(".onnx").as_posix())
    head, rest = text.split("[property]")
    spec = tmp_path / "two.toml"
    second = '[[property]]\nkind = "difference"\nprotected = ["sex"]\nthreshold = 0.05\n\n'
    spec.write_text(f"{head}{second}[[property]]{rest}", encoding="utf-8")
    files = {name: tmp_path / name for name in ("certificate.json", "junit.xml", "summary.md")}
    options = [
        *("--certificate", files["certificate.json"], "--junit", files["junit.xml"]),
        *("--summary", files["summary.md"]),
    ]
    code, out, _ = cli("verify", spec, "--json", *options)
    found = json.loads(out)
    assert code == 0
    assert [each["verdict"] for each in found["questions"]] == ["FAIR", "FAIR"]
    assert found["delta"] == 1e-6
    assert 'tests="2"' in files["junit.xml"].read_text(encoding="utf-8")
    assert "2 questions" in files["summary.md"].read_text(encoding="utf-8")
    assert "right together" in cli("verify", spec)[1]
    network = Path(CENSUS).with_suffix(".onnx")
    code, out, _ = cli("recheck", files["certificate.json"], "--model", network)
    assert code == 0
    assert "question 2: re-run" in out
    assert cli("explain", spec)[0] == 2
