"""`repair` as somebody at a terminal meets it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fairchain.errors import OutputError
from fairchain.repairing.parameters import Shifts
from fairchain.repairing.search import CandidateTrial, Score
from tests.cli.test_commands import Cli
from tests.networks import save
from tests.repairing.builders import asked, fragile, labelled

QUICK = ["--iterations", "1", "--max-units", "0", "--workers", "1"]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fairchain.repairing.change_plan.SEARCHED", 4096)
    monkeypatch.setattr("fairchain.repairing.change_plan.REFINED", 8192)
    return Cli(monkeypatch, capsys)


def written(folder: Path, **changes: Any) -> str:
    """The question as a file."""
    path = folder / "audit.json"
    path.write_bytes(msgspec.json.encode(asked(folder, **changes)))
    return str(path)


def test_a_repair_writes_three_files_and_says_what_it_did(cli: Cli, tmp_path: Path) -> None:
    rows = labelled()
    with Path("rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(rows)
        writer.writerows(zip(*rows.values(), strict=True))
    code, out, err = cli("repair", written(tmp_path), "-o", "fixed.onnx", "--labelled", "rows.csv", *QUICK)
    assert code == 0
    assert err == ""
    assert out.startswith("REPAIRED: the largest gap is")
    for words in ("before  UNFAIR", "after   FAIR", "price   accuracy", "w1[2, 2]", "Written: fixed.onnx"):
        assert words in out
    code, out, _err = cli("recheck", "fixed.json", "--model", "fixed.onnx")
    assert code == 0
    assert "CONFIRMED" in out
    assert "Weights that changed" in Path("fixed.txt").read_text()


def test_a_named_function_gets_thresholds_for_groups_with_a_warning(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "cli_scores.py").write_text("def score(x):\n    return x[:, 0] + x[:, 1] + 2 * x[:, 2] - 10.5\n")
    spec = json.loads(Path(written(tmp_path)).read_text())
    spec["model"] = {"labels": ["no", "yes"], "decision": "logit"}
    Path("audit.json").write_text(json.dumps(spec))
    change = ["--change", "group-thresholds", "--model", "python:cli_scores:score"]
    code, out, err = cli("repair", "audit.json", "-o", "fixed.json", *change, *QUICK)
    assert (code, err) == (0, "")
    for words in ("sex=Female", "gained it", "threshold before", "unlawful", "no certificate", "fixed.json, fixed.txt"):
        assert words in out
    saved = json.loads(Path("fixed.json").read_text())
    assert [each["name"] for each in saved["thresholds"]] == ["threshold of sex=Female", "threshold of sex=Male"]
    code, _, err = cli("repair", "audit.json", "-o", "fixed.json", *change[2:], "--change", "scales", *QUICK)
    assert code == 2
    assert "is evaluated in Python, and has no weights that could be changed; take change" in err


def test_a_repair_that_cannot_be_written_is_shown_and_ends_with_2(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OutputError("fixed.onnx: cannot be written (No space left on device)")

    monkeypatch.setattr("fairchain.repairing.files.place", full)
    code, out, err = cli("repair", written(tmp_path), "-o", "fixed.onnx", *QUICK)
    assert code == 2
    assert out.startswith("REPAIRED: the largest gap is")
    assert out.endswith("Nothing was written.\n")
    assert err == "fairchain: fixed.onnx: cannot be written (No space left on device)\n"
    code, out, _ = cli("repair", written(tmp_path), "-o", "fixed.onnx", *QUICK, "--json")
    assert code == 2
    assert (json.loads(out)["accepted"], json.loads(out)["files"]) == (True, [])


def test_a_repair_that_would_overwrite_a_copy_of_the_network_is_shown(cli: Cli, tmp_path: Path) -> None:
    spec = written(tmp_path)
    content = (tmp_path / "network.onnx").read_bytes()
    Path("copy.onnx").write_bytes(content)
    code, out, err = cli("repair", spec, "-o", "copy.onnx", *QUICK)
    assert code == 2
    assert out.startswith("REPAIRED: the largest gap is")
    assert out.endswith("Nothing was written.\n")
    assert "would be overwritten" in err
    assert Path("copy.onnx").read_bytes() == content


def test_json_has_the_front_the_changes_and_the_attempts(cli: Cli, tmp_path: Path) -> None:
    code, out, _err = cli("repair", written(tmp_path), "-o", "fixed.onnx", "--json", *QUICK)
    result = json.loads(out)
    assert code == 0
    assert result["accepted"] is True
    assert result["after"]["verdict"] == "FAIR"
    assert result["attempts"][0]["delta"] == 0.0005
    assert result["files"] == ["fixed.onnx", "fixed.json", "fixed.txt"]
    assert sum(point["chosen"] for point in result["front"]) == 1
    assert {change["tensor"] for change in result["changes"]} == {"w1", "b1"}


def test_a_network_that_is_fair_already_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    code, out, _err = cli("repair", written(tmp_path), "-o", "fixed.onnx", "--threshold", "0.5", *QUICK)
    assert code == 0
    assert out.startswith("NOT NEEDED")
    assert "Nothing was written." in out
    assert not list(Path().glob("fixed*"))


def test_what_cannot_be_repaired_is_exit_code_1_and_leaves_no_file(cli: Cli, tmp_path: Path) -> None:
    arguments = ["repair", written(tmp_path), "-o", "fixed.onnx", "--threshold", "0.001", "--change", "biases", *QUICK]
    code, out, _err = cli(*arguments)
    assert code == 1
    assert out.startswith("NOT REPAIRED")
    assert "best tried" in out
    assert "Nothing was written." in out
    assert not list(Path().glob("fixed*"))
    code, out, _err = cli(*arguments, "--quiet")
    assert code == 1
    assert len(out.splitlines()) == 1


def test_a_judge_without_budget_says_what_would_help(cli: Cli, tmp_path: Path) -> None:
    spec = written(tmp_path, property__threshold=1e-6, guarantee__budget={"rounds": 20_000})
    code, out, _err = cli("repair", spec, "-o", "fixed.onnx", *QUICK)
    assert code == 1
    assert "best tried  UNDECIDED" in out
    assert "allow more in [guarantee.budget]" in out


def test_candidates_that_failed_are_told_with_the_reason(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To this search everything looks fair, and whatever it tries has no decision for anybody whose x is 0."""
    save(fragile(), tmp_path / "network.onnx")
    monkeypatch.setattr(CandidateTrial, "score", lambda *_: Score(0.0, 1.0))
    monkeypatch.setattr(Shifts, "weights", lambda *_: {"b3": np.array([-0.5], np.float32)})
    code, out, err = cli("repair", written(tmp_path), "-o", "fixed.onnx", "--change", "biases", *QUICK)
    assert (code, err) == (1, "")
    assert "the verified candidate was not shown to be fair; no decision for the input x=0" in " ".join(out.split())
    assert "None" not in out


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("network.onnx", "would be overwritten"),
        ("audit.onnx", "would be overwritten"),
        ("fixed.txt", "an .onnx file"),
        ("nowhere/fixed.onnx", "folder that exists"),
    ],
)
def test_nothing_is_overwritten_that_the_repair_is_made_from(
    cli: Cli, tmp_path: Path, output: str, problem: str
) -> None:
    code, out, err = cli("repair", written(tmp_path), "-o", output, *QUICK)
    assert (code, out) == (2, "")
    assert problem in err


def test_no_file_that_the_spec_names_is_overwritten(cli: Cli, tmp_path: Path) -> None:
    """A Bayesian network in JSON stands where the certificate would go."""
    nodes = tmp_path / "people.json"
    nodes.write_text("{}")
    spec = written(tmp_path, population__kind="network", population__path=str(nodes))
    code, out, err = cli("repair", spec, "-o", "people.onnx", *QUICK)
    assert (code, out) == (2, "")
    assert "people.json: is an input of the repair and would be overwritten" in err
