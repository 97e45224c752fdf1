"""`fairchain check`: a verdict from a table and a model or recorded decisions, without a spec file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fairchain
from fairchain.models.load import NAME_CODE
from fairchain.spec import load_spec
from fairchain.spec.load import ASK_WITHOUT_SPEC
from tests.cli.command import Cli
from tests.drafting.builders import by_hours, numbers, one_score
from tests.tables.builders import write_csv


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "network.onnx").write_bytes(by_hours())
    (tmp_path / "score.onnx").write_bytes(one_score())
    write_csv(tmp_path / "people.csv", numbers())
    return Cli(monkeypatch, capsys)


def test_recorded_decisions_are_checked_without_a_spec(cli: Cli) -> None:
    code, out, err = cli("check", "people.csv", "--protected", "sex", "--prediction", "hired", "--as", "population")
    verdict = fairchain.check(None, "people.csv", protected="sex", prediction="hired", reading="population")
    assert code == {"FAIR": 0, "UNFAIR": 1}[verdict.decision.name]
    assert out.splitlines()[0] == verdict.record.sentence
    assert "Assumed: " in out
    assert err == ""


def test_a_model_is_checked_and_json_has_the_keys_of_verify(cli: Cli) -> None:
    question = ("--model", "network.onnx", "--protected", "sex", "--as", "population")
    _, out, err = cli("check", "people.csv", *question, "--json", "--show-spec")
    found = json.loads(out)
    Path("spec.toml").write_text(err)
    _, again, _ = cli("verify", "spec.toml", "--json")
    verified = json.loads(again)
    assert set(found) == set(verified)
    assert {"engine", "assumptions", "notes"} <= set(found)
    assert (found["gap"], found["table_sha256"]) == (verified["gap"], verified["table_sha256"])
    assert found["assumptions"]


def test_the_spec_that_was_used_is_printed_and_is_a_spec(cli: Cli) -> None:
    _, out, _ = cli("check", "people.csv", "--prediction", "hired", "--protected", "sex", "--show-spec", "-q")
    text, verdict = out.rstrip().rsplit("\n", 1)
    Path("spec.toml").write_text(text)
    assert load_spec("spec.toml").property.protected == ("sex",)
    assert verdict.split(":")[0] in ("FAIR", "UNFAIR", "UNDECIDED")


def test_a_score_needs_a_decision_threshold(cli: Cli) -> None:
    question = ("check", "people.csv", "--model", "score.onnx", "--protected", "sex")
    code, _, err = cli(*question)
    assert (code, "--decision-threshold" in err) == (2, True)
    code, out, _ = cli(*question, "--decision-threshold", "5", "--label", "hired", "--as", "population", "--json")
    truth = fairchain.check(
        (Path("score.onnx")).read_bytes(), "people.csv", protected="sex", decision_threshold=5, reading="population"
    )
    assert json.loads(out)["gap"]["estimate"] == truth.gap.estimate
    code, _, err = cli("init", "score.onnx", "people.csv", "--decision-threshold", "5", "--label", "hired")
    assert code == 0
    assert load_spec("spec.toml").model.decision_threshold == 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--protected", "sex"), "give either --model, or --prediction"),
        (("--protected", "sex", "--model", "network.onnx", "--prediction", "hired"), "give either"),
        (("--prediction", "hired"), "protected: missing; name the columns"),
        (("--protected", "sex", "--model", "absent.onnx"), "absent.onnx: file not found"),
        (("--protected", "gender", "--prediction", "hired"), 'unknown column "gender"'),
        (("--protected", "sex", "--model", "own.py:model"), NAME_CODE.format(path="own.py:model")),
    ],
)
def test_mistakes_are_one_message_with_exit_code_2(cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = cli("check", "people.csv", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err


def test_a_table_in_place_of_a_spec_leads_to_check(cli: Cli) -> None:
    code, _, err = cli("verify", "people.csv")
    assert code == 2
    assert ASK_WITHOUT_SPEC.format(path="people.csv") in err


def test_a_certificate_of_a_check_is_confirmed(cli: Cli) -> None:
    question = ("check", "people.csv", "--model", "network.onnx", "--protected", "sex", "--certificate", "c.json")
    cli(*question)
    code, out, _ = cli("recheck", "c.json", "--model", "network.onnx", "--data", "people.csv", "-q")
    assert code == 0
    assert out.startswith("CONFIRMED")


@pytest.mark.parametrize("content", [b"{}", b"not a model", b'{"learner": 3}'])
@pytest.mark.parametrize("name", ["model.json", "model.keras", "model.ubj", "model.txt", "model.pkl"])
def test_init_refuses_what_it_cannot_load_before_it_reads_the_table(cli: Cli, name: str, content: bytes) -> None:
    Path(name).write_bytes(content)
    code, _, err = cli("init", name, "absent.csv")
    assert code == 2
    assert name in err
    assert "absent.csv" not in err
