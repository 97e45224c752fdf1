"""`audit` as somebody at a terminal meets it: the story in a few lines, what to do next, and how to go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.auditing.builders import SPEC, contents, few_inputs, write_question
from tests.cli.test_commands import Cli
from tests.test_guides import load

ROOT = Path(__file__).parents[2]
# An audit whose second stage never ends, and says when it has begun.
ENDLESS = """
import sys, time
from unittest.mock import patch
from fairchain.cli import main
def endless(run, tell):
    print("working", flush=True)
    while True:
        time.sleep(0.01)
with patch("fairchain.auditing.auditor.chain_files", endless):
    sys.argv[1:] = ["audit", sys.argv[1], "-o", sys.argv[2]]
    main()
"""


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)
    return Cli(monkeypatch, capsys)


def test_an_unfair_audit_tells_the_story_and_what_to_do_next(cli: Cli, tmp_path: Path) -> None:
    write_question(tmp_path)
    with few_inputs():
        code, out, err = cli("audit", SPEC, "-o", "out", "--workers", "1")
    assert code == 1
    assert err == ""
    lines = out.splitlines()
    assert lines[0].startswith("UNFAIR: the largest gap is 0.")
    assert "sex=Male" in out
    assert "━" in out or "●" in out
    assert "Ablating one unit reduces it by: " in out
    assert "REPAIRED: the largest gap is 0." in out
    assert "a run like this would have said UNFAIR with probability at most 0.001" in out
    for line in (
        "read     out/report.html",
        "use      out/repaired.onnx",
        "compare  fairchain compare out/certificate.json out/repaired-certificate.json",
        "check    fairchain recheck out/certificate.json --model out/network.onnx",
        "check    fairchain recheck out/repaired-certificate.json --model out/repaired.onnx",
    ):
        assert line in lines
    # What it says to run does run.
    for line in lines:
        if line.startswith("check"):
            code, told, _ = cli(*line.split()[2:])
            assert (code, "CONFIRMED" in told) == (0, True)


def test_a_fair_audit_ends_with_0_and_json_is_one_object(cli: Cli, tmp_path: Path) -> None:
    write_question(tmp_path, weight=0.0)
    with few_inputs():
        code, out, err = cli("audit", SPEC, "-o", "out", "--json")
    told = json.loads(out)
    assert (code, err) == (0, "")
    assert list(told) == list(load("make_reference").AUDIT)
    assert (told["verdict"], told["repaired"], told["after"], told["left_out"]) == ("FAIR", False, None, {})
    assert told["gap"]["low"] <= told["gap"]["estimate"] <= told["gap"]["high"] <= told["threshold"]
    assert set(told["files"]) | {".audit.json"} == set(contents(tmp_path / "out"))
    assert Path(told["report"]).is_file()


def test_quiet_says_the_verdict_and_where_to_read(cli: Cli, tmp_path: Path) -> None:
    write_question(tmp_path, weight=0.0)
    with few_inputs():
        code, out, _ = cli("audit", SPEC, "-o", "out", "-q")
    assert code == 0
    assert [line.partition(":")[0] for line in out.splitlines()] == ["FAIR", "Report"]


def test_a_stage_that_is_not_possible_is_told(cli: Cli, tmp_path: Path) -> None:
    spec = write_question(tmp_path)
    data = json.loads(spec.read_text(encoding="utf-8"))
    del data["model"]["path"]
    data["population"] = {"kind": "table", "path": "rows.csv", "as": "population", "prediction": "said"}
    spec.write_text(json.dumps(data), encoding="utf-8")
    (tmp_path / "rows.csv").write_text("x,y,sex,said\n1,1,Male,yes\n1,1,Female,no\n", encoding="utf-8")
    code, out, _ = cli("audit", SPEC, "-o", "out")
    assert code == 1
    assert "No repair: population.prediction: recorded decisions have no model that could be repaired;" in out
    assert "check  fairchain recheck out/certificate.json --data rows.csv" in out.splitlines()


def test_a_small_sample_is_decided_by_more_rows_and_not_by_a_budget(cli: Cli, tmp_path: Path) -> None:
    spec = write_question(tmp_path)
    data = json.loads(spec.read_text(encoding="utf-8"))
    data["population"] = {"kind": "table", "path": "rows.csv", "as": "sample"}
    spec.write_text(json.dumps(data), encoding="utf-8")
    cells = [f"{i % 10},{i // 10 % 10},{sex}" for i in range(50) for sex in ("Male", "Female")]
    (tmp_path / "rows.csv").write_text("x,y,sex\n" + "\n".join(cells), encoding="utf-8")
    with few_inputs():
        code, out, _ = cli("audit", SPEC, "-o", "out", "--workers", "1")
    assert code == 3
    assert "decide  with more rows, in a new table and another folder" in out.splitlines()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.toml", "-o", "out"), "none.toml"),
        ((SPEC,), "Missing option '-o' / '--output'"),
        ((SPEC, "-o", "full"), "is not empty and contains no audit"),
        ((SPEC, "-o", "out", "--model", "none.onnx"), "file not found"),
        ((SPEC, "-o", "out", "--labelled", "none.csv"), "none.csv"),
        ((SPEC, "-o", "out", "--label", "truth"), "give the rows with --labelled"),
        ((SPEC, "-o", "out", "--labelled", "rows.csv"), 'name it with --label (label=...), one of "x", "y", "sex"'),
    ],
)
def test_bad_input_is_one_message_and_nothing_is_written(
    cli: Cli, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    write_question(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "rows.csv").write_text("x,y,sex\n1,1,Male\n", encoding="utf-8")
    code, out, err = cli("audit", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_the_help_has_an_example(cli: Cli) -> None:
    code, out, _ = cli("audit", "--help")
    assert code == 0
    assert "Example: fairchain audit audit.toml -o audit --labelled rows.csv" in out


@pytest.mark.skipif(os.name == "nt", reason="another way to interrupt")
def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(tmp_path: Path) -> None:
    spec = write_question(tmp_path, weight=0.0)
    program = [sys.executable, "-c", ENDLESS, str(spec), str(tmp_path / "out")]
    with subprocess.Popen(
        program, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "working\n"
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert err == (
        f"fairchain: interrupted; finished stages are kept in {tmp_path / 'out'}, and the same command continues "
        "there\n"
    )
    assert list(json.loads((tmp_path / "out" / ".audit.json").read_text(encoding="utf-8"))["stages"]) == ["verify"]


def test_on_a_terminal_the_stages_are_told_on_standard_error(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_question(tmp_path, weight=0.0)
    monkeypatch.setattr("fairchain.cli.audit.wanted", lambda quiet: not quiet)
    with few_inputs():
        cli("audit", SPEC, "-o", "out")
        _, out, err = cli("audit", SPEC, "-o", "out")
    assert out.startswith("FAIR")
    for words in ("done before: verifying", "done before: learning the chain", "done before: writing the report"):
        assert words in err
