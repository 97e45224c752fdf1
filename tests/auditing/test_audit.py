"""An audit: which stages run when, what is asked again and what is not, and what cannot be done is said."""

from __future__ import annotations

import csv
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace as changed

from fairchain import verify
from fairchain.auditing import Step, audit, auditor
from fairchain.auditing.checkpoints import ANOTHER_AUDIT
from fairchain.errors import AuditError, DataError, ModelError, SpecError
from fairchain.explaining import Influence
from fairchain.messages import FILE_NOT_FOUND
from fairchain.repairing.result import RepairRecord
from fairchain.spec import parse_spec
from fairchain.verification.record import Witness
from tests.auditing.builders import contents, few_inputs, write_question
from tests.messages import says
from tests.report import builders

FAIR_FILES = {
    ".audit.json", "verdict.json", "certificate.json", "all-pairs.json", "chain.json", "chain.prism", "chain.drn",
    "chain.dot", "report.html", "report.md", "network.onnx", "selection-rates.csv",
}  # fmt: skip
UNFAIR_FILES = FAIR_FILES | {"explanation.json", "repair.json", "repaired.onnx", "repaired-certificate.json"}
UNFAIR_FILES |= {"selection-rates-repaired.csv"}


def run(spec: Path, folder: Path, **options: Any) -> tuple[Any, dict[str, bool]]:
    """The audit, and of each stage whether it was there already."""
    steps: list[Step] = []
    with few_inputs():
        found = audit(spec, folder, workers=1, progress=steps.append, **options)
    return found, {step.stage: step.kept for step in steps if step.finished}


def test_an_unfair_network_goes_the_whole_way_and_its_certificates_hold(tmp_path: Path) -> None:
    from fairchain import recheck

    found, ran = run(write_question(tmp_path), tmp_path / "out")
    assert (found.decision, found.repaired) == ("UNFAIR", True)
    assert list(ran) == ["verify", "explain", "chain", "repair", "report"]
    assert set(contents(found.folder)) == UNFAIR_FILES
    # As delivered: the folder has everything that the check needs.
    assert recheck(found.folder / "certificate.json", found.folder / "network.onnx").holds
    repaired = found.folder / "repaired.onnx"
    assert recheck(found.folder / "repaired-certificate.json", repaired).holds
    claims = json.loads((found.folder / "repaired-certificate.json").read_text(encoding="utf-8"))
    assert (claims["claims"]["verdict"], claims["spec"]["model"]["path"]) == ("FAIR", "repaired.onnx")
    assert str(tmp_path) not in found.report.read_text(encoding="utf-8")
    verdict, repair, report = str(found).splitlines()
    assert [verdict[:8], repair[:10], report] == ["UNFAIR: ", "REPAIRED: ", f"Report: {found.report}"]


def test_a_printed_audit_says_why_there_is_no_repaired_model(tmp_path: Path) -> None:
    accepted, failed = (builders.findings(3, accepted=value) for value in (True, False))
    refused = replace(failed, repair=None, left_out={"repair": "the table has no labels"})
    fair = replace(failed, repair=None)
    starts = ["REPAIRED: ", "NOT REPAIRED: ", "No repair: the table has no labels.", "Report: "]
    for found, start in zip((accepted, failed, refused, fair), starts, strict=True):
        printed = str(auditor.Audit("UNFAIR", found is accepted, tmp_path, (), found)).splitlines()
        assert printed[0] == found.verdict.sentence
        assert printed[1].startswith(start)


def test_the_report_names_a_model_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deciding.py").write_text("def yes_to_men(rows):\n    return (rows[:, 2] > 0).astype(int)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = write_question(tmp_path)
    by_file, _ = run(spec, tmp_path / "by-file", repair=False)
    by_name, _ = run(spec, tmp_path / "by-name", repair=False, model="python:deciding:yes_to_men")
    assert by_file.findings.model == json.loads(spec.read_text(encoding="utf-8"))["model"]["path"]
    assert by_name.findings.model == "python:deciding:yes_to_men"
    assert "about the model python:deciding:yes_to_men on" in by_name.report.read_text(encoding="utf-8")


def test_a_verdict_is_no_spec_and_the_message_says_what_is(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"object of type Verdict.*verdict\.spec"):
        audit(verify(None, write_question(tmp_path)), tmp_path / "out")  # type: ignore[arg-type]


def test_of_several_questions_all_get_a_verdict_and_the_worst_is_explained_and_repaired(tmp_path: Path) -> None:
    """The worst question is the second one; after its repair all of them are asked again."""
    from fairchain import recheck

    spec = write_question(tmp_path)
    data = json.loads(spec.read_text(encoding="utf-8"))
    worst = data["property"]
    data["property"] = [worst | {"threshold": 0.9}, worst, worst | {"kind": "ratio", "threshold": 0.01}]
    data["about"] = {"auditor": "Ada"}
    spec.write_text(json.dumps(data), encoding="utf-8")
    found, ran = run(spec, tmp_path / "out")
    assert (found.decision, found.repaired) == ("UNFAIR", True)
    assert list(ran) == ["verify", "explain", "chain", "repair", "verify repaired", "report"]
    assert [each.verdict for each in found.findings.questions] == ["FAIR", "UNFAIR", "FAIR"]
    assert [each.verdict for each in found.findings.questions_after] == ["FAIR", "FAIR", "FAIR"]
    assert found.findings.verdict == found.findings.questions[1]
    assert sum(each.delta for each in found.findings.questions) == pytest.approx(1e-3)
    assert recheck(found.folder / "certificate.json", found.folder / "network.onnx").holds
    html = found.report.read_text(encoding="utf-8")
    assert "3 questions" in html
    assert html.index('id="questions"') < html.index('id="groups"')
    rates = list(csv.DictReader((found.folder / "selection-rates.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["question"] for row in rates] == [each.question for each in found.findings.questions for _ in range(2)]
    again, reran = run(spec, tmp_path / "out")
    assert all(kept for stage, kept in reran.items() if stage not in ("verify", "report"))
    assert contents(again.folder) == contents(found.folder)


def test_a_fair_network_needs_no_reason_and_no_repair(tmp_path: Path) -> None:
    # A damaged list, and nothing that could be mistaken for a result.
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".audit.json").write_bytes(b"{")
    found, ran = run(write_question(tmp_path, weight=0.0), tmp_path / "out")
    assert (found.decision, found.repaired, list(ran)) == ("FAIR", False, ["verify", "chain", "report"])
    assert set(contents(found.folder)) == FAIR_FILES


def test_an_undecided_one_is_explained_and_not_repaired(tmp_path: Path) -> None:
    spec = write_question(tmp_path, threshold=0.165)
    data = json.loads(spec.read_text(encoding="utf-8"))
    data["guarantee"]["budget"] = {"rounds": 300}
    spec.write_text(json.dumps(data), encoding="utf-8")
    found, ran = run(spec, tmp_path / "out")
    assert found.decision == "UNDECIDED"
    assert list(ran) == ["verify", "explain", "chain", "report"]


def test_an_audit_again_makes_nothing_again_wherever_its_files_lie(tmp_path: Path) -> None:
    run(write_question(tmp_path), tmp_path / "out")
    before = contents(tmp_path / "out")
    elsewhere = write_question(tmp_path / "moved")
    _, ran = run(elsewhere, tmp_path / "out")
    assert all(ran.values())
    assert contents(tmp_path / "out") == before


def test_an_audit_prepares_once_and_verifies_and_explains_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages hand their results on: none reads the spec, the rows or the network again."""

    def again(*_: object, **_options: object) -> Any:
        raise AssertionError

    for stage in ("explaining.explainer", "chain.context", "repairing.repairer"):
        monkeypatch.setattr(f"fairchain.{stage}.gather", again)
    monkeypatch.setattr("fairchain.repairing.repairer.verify_case", again)
    monkeypatch.setattr("fairchain.repairing.change_plan.explain_case", again)
    monkeypatch.setattr("fairchain.auditing.auditor.read_chain", again)
    found, _ = run(write_question(tmp_path), tmp_path / "out")
    assert (found.repaired, set(found.findings.left_out)) == (True, set())


def test_a_verdict_that_somebody_wrote_into_the_folder_is_not_believed(tmp_path: Path) -> None:
    """A forged verdict whose checksum was corrected in the list of finished stages was printed, with exit code 0."""
    spec, folder = write_question(tmp_path), tmp_path / "out"
    run(spec, folder)
    before = contents(folder)
    forged = before["verdict.json"].replace(b'"UNFAIR"', b'"FAIR"')
    assert forged != before["verdict.json"]
    for name, content in {"verdict.json": forged, "report.md": b"FAIR"}.items():
        true, written = (hashlib.sha256(each).hexdigest() for each in (before[name], content))
        (folder / name).write_bytes(content)
        (folder / ".audit.json").write_text((folder / ".audit.json").read_text().replace(true, written))
    found, ran = run(spec, folder)
    assert found.decision == "UNFAIR"
    assert not any(ran.values())
    assert contents(folder) == before


def test_a_stage_that_was_interrupted_is_made_again_and_the_end_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write_question(tmp_path)
    run(spec, tmp_path / "unbroken")

    def interrupted(*_: object) -> Any:
        raise KeyboardInterrupt

    for name in ("explain_files", "repair_files"):
        with monkeypatch.context() as patched:
            patched.setattr(f"fairchain.auditing.auditor.{name}", interrupted)
            with pytest.raises(KeyboardInterrupt):
                run(spec, tmp_path / "out")
    found, ran = run(spec, tmp_path / "out")
    assert ran == {name: name in ("verify", "explain", "chain") for name in ran}
    assert contents(found.folder) == contents(tmp_path / "unbroken")


def test_a_verdict_or_a_repair_that_was_cut_short_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C lets verify and repair answer with what they know; another run would not answer the same."""
    import dataclasses

    verify = auditor.verify_cases

    def cut_short(*arguments: Any, **options: Any) -> Any:
        family = verify(*arguments, **options)
        verdicts = tuple(dataclasses.replace(each, stopped="interrupted") for each in family.verdicts)
        return dataclasses.replace(family, verdicts=verdicts)

    monkeypatch.setattr(auditor, "verify_cases", cut_short)
    with pytest.raises(KeyboardInterrupt):
        run(write_question(tmp_path), tmp_path / "out")
    assert set(contents(tmp_path / "out")) == {".audit.json"}


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 5},
        {"repair": False},
        {"label": "truth", "labelled": "rows.csv"},
        {"model": "other/network.onnx"},
    ],
)
def test_what_the_results_depend_on_is_in_the_key(tmp_path: Path, change: dict[str, Any]) -> None:
    spec = write_question(tmp_path, weight=0.0)
    write_question(tmp_path / "other", weight=0.01)
    rows = "x,y,sex,truth\n" + "1,2,Male,yes\n" * 50
    (tmp_path / "rows.csv").write_text(rows, encoding="utf-8")
    run(spec, tmp_path / "out")
    options = {key: tmp_path / value if key in ("labelled", "model") else value for key, value in change.items()}
    with pytest.raises(AuditError, match=says(ANOTHER_AUDIT)):
        run(spec, tmp_path / "out", **options)
    assert not any(run(spec, tmp_path / "out", restart=True, **options)[1].values())


def test_the_content_of_a_table_is_in_the_key(tmp_path: Path) -> None:
    spec = write_question(tmp_path)
    data = json.loads(spec.read_text(encoding="utf-8"))
    data["population"] = {"kind": "marginals", "path": "rows.csv"}
    spec.write_text(json.dumps(data), encoding="utf-8")
    rows = "x,y,sex\n" + "1,2,Male\n3,4,Female\n" * 50
    (tmp_path / "rows.csv").write_text(rows, encoding="utf-8")
    run(spec, tmp_path / "out", repair=False)
    (tmp_path / "rows.csv").write_text(rows + "5,5,Male\n", encoding="utf-8")
    with pytest.raises(AuditError, match=says(ANOTHER_AUDIT)):
        run(spec, tmp_path / "out", repair=False)


def test_rows_of_a_table_are_counted_and_need_no_estimates_of_all_pairs(tmp_path: Path) -> None:
    spec = write_question(tmp_path)
    data = json.loads(spec.read_text(encoding="utf-8"))
    data["population"] = {"kind": "table", "path": "rows.csv", "as": "sample"}
    spec.write_text(json.dumps(data), encoding="utf-8")
    cells = [f"{i % 10},{i // 10 % 10},{sex}" for i in range(1500) for sex in ("Male", "Female")]
    (tmp_path / "rows.csv").write_text("x,y,sex\n" + "\n".join(cells), encoding="utf-8")
    found, _ = run(spec, tmp_path / "out")
    assert found.decision == "UNFAIR"
    assert set(found.findings.left_out) == {"chain"}
    page = found.report.read_text(encoding="utf-8")
    assert "The 3,000 rows of the sample were divided at random: 1,500 for the search and 1,500 for the final" in page
    assert not (found.folder / "repaired-certificate.json").exists()
    assert found.recheck[0].endswith(f"--data {tmp_path / 'rows.csv'}")


def test_recorded_decisions_have_no_network_to_open(tmp_path: Path) -> None:
    spec = write_question(tmp_path)
    data = json.loads(spec.read_text(encoding="utf-8"))
    del data["model"]["path"]
    data["population"] = {"kind": "table", "path": "rows.csv", "as": "population", "prediction": "said"}
    spec.write_text(json.dumps(data), encoding="utf-8")
    cells = [
        f"{i % 10},{i * 7 % 10},{sex},{said}" for i in range(40) for sex, said in (("Male", "yes"), ("Female", "no"))
    ]
    (tmp_path / "rows.csv").write_text("x,y,sex,said\n" + "\n".join(cells), encoding="utf-8")
    found, _ = run(spec, tmp_path / "out")
    assert found.decision == "UNFAIR"
    assert "recorded decisions have no model" in found.findings.left_out["repair"]
    assert "the decisions on record" in found.report.read_text(encoding="utf-8")


def scores(rows: Any) -> Any:
    """Score as the network of these tests does, in Python."""
    return rows[:, 0] + rows[:, 1] + 2 * rows[:, 2] - 10.5 + 0.01 * rows[:, 0]


def test_a_function_with_a_spec_and_a_frame_in_memory_is_audited(tmp_path: Path) -> None:
    data = json.loads(write_question(tmp_path).read_text(encoding="utf-8"))
    data["model"] = {"labels": ["no", "yes"], "decision": "logit"}
    data["population"] = {"kind": "table", "as": "population"}
    frame = {
        "x": [i % 10 for i in range(400)],
        "y": [i // 10 % 10 for i in range(400)],
        "sex": [("Male", "Female")[i // 100 % 2] for i in range(400)],
    }
    rows = {**frame, "label": [("no", "yes")[x + y > 9] for x, y in zip(frame["x"], frame["y"], strict=True)]}
    evaluated = []

    def counted(rows: Any) -> Any:
        evaluated.append(len(rows))
        return scores(rows)

    given: dict[str, Any] = {"model": counted, "data": frame, "labelled": rows, "label": "label"}
    found, _ = run(parse_spec(data), tmp_path / "out", **given)
    assert (found.decision, found.repaired) == ("UNFAIR", True)
    assert found.findings.explanation is not None
    assert {unit.kind for unit in found.findings.explanation.units} == {"feature"}
    assert not found.recheck
    saved = json.loads((found.folder / "thresholds.json").read_text(encoding="utf-8"))
    assert [each["name"] for each in saved["thresholds"]] == ["threshold"]
    page = found.report.read_text(encoding="utf-8")
    assert "lost: only before. Counted on 200 held-out rows" in page
    assert "threshold before" in page
    assert found.findings.title == "groups by sex"
    # Nothing tells whether the function is still the same, so that no stage is taken from the folder.
    first = sum(evaluated)
    run(parse_spec(data), tmp_path / "out", **given)
    assert sum(evaluated) == 2 * first


def test_a_named_function_is_audited_and_other_names_are_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write_question(tmp_path)
    data = json.loads(spec.read_text(encoding="utf-8"))
    data["model"] = {"labels": ["no", "yes"], "decision": "logit"}
    spec.write_text(json.dumps(data), encoding="utf-8")
    (tmp_path / "audited_scores.py").write_text("def score(x):\n    return x[:, 0] + x[:, 1] + 2 * x[:, 2] - 10.5\n")
    monkeypatch.chdir(tmp_path)
    found, _ = run(spec, tmp_path / "out", model="python:audited_scores:score", repair=False)
    assert found.decision == "UNFAIR"
    with pytest.raises(AuditError, match=says(FILE_NOT_FOUND)):
        run(spec, tmp_path / "other", model="audited_scores:score")


def test_a_model_in_memory_is_saved_so_that_its_certificate_can_be_checked(tmp_path: Path) -> None:
    from fairchain import recheck

    spec = write_question(tmp_path)
    content = (tmp_path / "network.onnx").read_bytes()
    found, _ = run(spec, tmp_path / "out", model=content, repair=False)
    assert (found.folder / "network.onnx").read_bytes() == content
    assert found.recheck == (
        f"fairchain recheck {found.folder / 'certificate.json'} --model {found.folder / 'network.onnx'}",
    )
    assert recheck(found.folder / "certificate.json", found.folder / "network.onnx").holds


def test_rows_that_cannot_be_used_are_known_before_the_work(tmp_path: Path) -> None:
    spec = write_question(tmp_path)
    (tmp_path / "rows.csv").write_text("x,y\n1,2\n", encoding="utf-8")
    with pytest.raises(DataError):
        run(spec, tmp_path / "out", labelled=tmp_path / "rows.csv")
    assert not (tmp_path / "out").exists()


def test_a_network_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    spec = write_question(tmp_path)
    with pytest.raises(AuditError, match=says(FILE_NOT_FOUND)):
        audit(spec, tmp_path / "out", model=tmp_path / "none.onnx")
    (tmp_path / "network.onnx").unlink()
    with pytest.raises(ModelError):
        audit(spec, tmp_path / "out")


def test_a_feature_called_seconds_is_not_a_time() -> None:
    """Times are left out of the files; the values of inputs are not."""
    witness = Witness(("a", "b"), ("no", "yes"), {"seconds": 3.0})
    found = builders.repair(2)
    found = changed(found, seconds=1.5, before=changed(found.before, seconds=2.5, witnesses=(witness,)))
    read = json.loads(auditor.to_json(found))  # type: ignore[arg-type]  # the record of a repair
    assert "seconds" not in {*read, *read["before"], *read["after"]}
    assert read["before"]["witnesses"][0]["input"] == {"seconds": 3.0}
    assert msgspec.convert(read, RepairRecord) == changed(found, seconds=0.0, before=changed(found.before, seconds=0.0))


def test_units_that_are_drawn_part_the_groups() -> None:
    made = builders.explanation(2, 1)

    def unit(name: str, layer: str, effect: float, sensitivity: float, kind: Any = "neuron") -> Influence:
        bounds = {"effect": builders.interval(effect, 0.0), "sensitivity": builders.interval(sensitivity, 0.0)}
        return changed(made.units[0], name=name, layer=layer, kind=kind, **bounds)

    def shown(*units: Influence) -> tuple[list[str], Any]:
        return auditor.chain_units(changed(made, layers=layers, units=units))

    layers = tuple(changed(made.layers[0], name=name) for name in ("inputs", "layer1", "layer2", "lstm1"))
    independent = unit("income", "inputs", 0.3, 0.0, "feature")
    first, second = unit("layer2[1]", "layer2", 0.2, 0.1), unit("layer2[0]", "layer2", 0.15, 0.1)
    third, none = unit("layer1[4]", "layer1", 0.1, 0.1), unit("layer1[5]", "layer1", -0.1, 0.2)
    assert shown(independent, first, second, third, none) == (["layer1[4]", "layer2[1]"], None)
    cell = unit("lstm1[0]", "lstm1", 0.1, 0.1, "cell")
    assert shown(cell, none) == (["lstm1[0]"], "last")
