"""The command line as a person and a program meet it: output, exit codes, files, and nothing unasked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fairchain import example
from tests.cli.command import Cli

FIELDS = {
    "verdict", "gap", "threshold", "delta", "groups", "rounds", "evaluations", "seconds", "seed", "rule", "sound",
    "model_sha256", "population", "statement",
}  # fmt: skip


@pytest.mark.parametrize(("name", "code"), [("census", 0), ("credit", 1), ("bank", 0)])
def test_exit_codes_tell_fair_from_unfair(cli: Cli, name: str, code: int) -> None:
    found, out, err = cli("verify", example(name))
    assert found == code
    assert out.startswith("UNFAIR" if code else "FAIR")
    assert err == ""


def test_undecided_exits_with_3_and_says_what_to_do(cli: Cli) -> None:
    code, out, _ = cli("verify", example("census"), "--threshold", 0.0092, "--rounds", 2000)
    assert code == 3
    assert "the budget of rounds is spent" in out


def test_json_is_one_object_and_nothing_else(cli: Cli) -> None:
    code, out, err = cli("verify", example("credit"), "--json")
    answer = json.loads(out)
    assert code == 1
    assert err == ""
    assert set(answer) >= FIELDS
    assert set(answer["gap"]) >= {"estimate", "low", "high"}
    assert all(set(group) >= {"name", "probability", "low", "high"} for group in answer["groups"])
    assert len(answer["groups"]) == 8


def test_an_error_is_json_too_when_asked_for(cli: Cli, tmp_path: Path) -> None:
    code, out, err = cli("verify", tmp_path / "no.toml", "--json")
    assert code == 2
    assert "no.toml" in json.loads(out)["error"]
    assert err.count("\n") == 1


def test_the_command_line_wins_over_the_spec(cli: Cli) -> None:
    _, out, _ = cli(
        "verify", example("census"), "--json", "--threshold", 0.2, "--delta", 0.01, "--seed", 9,
        "--protected", "sex", "--outcome", "<=50K",
    )  # fmt: skip
    answer = json.loads(out)
    assert (answer["threshold"], answer["delta"], answer["seed"]) == (0.2, 0.01, 9)
    assert [group["name"] for group in answer["groups"]] == ["sex=Female", "sex=Male"]
    assert {group["outcome"] for group in answer["groups"]} == {"<=50K"}


def test_an_option_is_checked_like_the_key_it_replaces(cli: Cli) -> None:
    code, _, err = cli("verify", example("census"), "--threshold", 7)
    assert code == 2
    assert "property.threshold" in err
    assert "census.toml, with options of the command line" in err


def test_quiet_prints_the_verdict_only(cli: Cli) -> None:
    _, out, _ = cli("verify", example("census"), "--quiet")
    assert out.count("\n") == 1


def test_the_paper_rule_is_marked_in_every_output(cli: Cli) -> None:
    for extra in ([], ["--quiet"], ["--json"]):
        _, out, _ = cli("verify", example("census"), "--rule", "paper", "--delta", 0.1, *extra)
        assert "NOT SOUND" in out


def test_a_certificate_is_written_when_asked_and_can_be_rechecked(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    cli("verify", example("credit"), "--certificate", path)
    code, out, _ = cli("recheck", path, "--model", example("credit").with_suffix(".onnx"))
    assert code == 0
    assert "CONFIRMED" in out
    assert [item.name for item in tmp_path.iterdir()] == ["certificate.json"]
    content = json.loads(path.read_text())
    content["claims"]["verdict"] = "FAIR"
    path.write_text(json.dumps(content))
    code, out, _ = cli("recheck", path, "--model", example("credit").with_suffix(".onnx"), "--full")
    assert code == 1
    assert "REJECTED" in out


@pytest.fixture(scope="module", name="demo")
def _demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str, str, list[Path]]:
    """A demo in a process of its own, once: exit code, standard output and error, and the files that it left."""
    folder = tmp_path_factory.mktemp("demo")
    process = command("demo", cwd=folder)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err, list(folder.iterdir())


def test_nothing_is_written_unasked(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo: tuple[int, str, str, list[Path]]
) -> None:
    monkeypatch.chdir(tmp_path)
    cli("verify", example("census"))
    assert list(tmp_path.iterdir()) == demo[3] == []


def test_the_demo_shows_a_fair_and_an_unfair_network_and_exits_0(demo: tuple[int, str, str, list[Path]]) -> None:
    code, out, _, _ = demo
    assert code == 0
    assert "\nFAIR" in out
    assert "\nUNFAIR" in out
    assert "with probability at most 1e-06" in out


def test_the_demo_says_why_a_network_is_unfair_and_where_a_report_is_to_be_had(cli: Cli) -> None:
    _, out, _ = cli("demo", "credit")
    assert "Between age=80-89 and age=10-19 the gap is 0." in out
    assert "fairchain demo credit --report demo-report" in out


def test_a_demo_with_a_report_names_it_and_refuses_a_folder_with_something_else(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "report"
    code, out, _ = cli("demo", "census", "--report", folder)
    assert code == 0
    assert f"read   {folder / 'report.html'}" in out.splitlines()
    assert (folder / "report.html").is_file()
    told = json.loads(cli("demo", "census", "--report", folder, "--json")[1])
    assert (told["census"]["verdict"], told["audit"]["report"]) == ("FAIR", str(folder / "report.html"))
    code, _, err = cli("demo", "bank", "--report", folder)
    assert code == 2
    assert err.endswith("name a new folder with --report\n")


def test_the_demo_leaves_a_spec_to_start_from(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    assert cli("demo", "bank", "-o", folder)[0] == 0
    assert cli("verify", folder / "bank.toml")[0] == 0
    code, _, err = cli("demo", "bank", "-o", folder)
    assert code == 2
    assert "exists already" in err


def test_the_schema_accepts_the_examples(cli: Cli) -> None:
    import tomllib

    _, out, _ = cli("schema")
    schema: dict[str, Any] = json.loads(out)
    jsonschema.validate(tomllib.loads(example("census").read_text()), schema)


def test_data_list_names_licences_and_fetches_nothing(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path))
    code, out, _ = cli("data", "list")
    assert code == 0
    assert "CC BY 4.0" in out
    _, out, _ = cli("data", "list", "--json")
    assert {each["name"] for each in json.loads(out)["datasets"]} >= {"census", "credit", "bank"}


def test_data_sets_are_removed_by_name_or_all_at_once(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path))
    for name in ("census", "credit"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_bytes(bytes(1_500_000))
    assert cli("data", "remove", "census", "bank") == (0, "census: 1.5 MB removed\nbank: was not in the cache\n", "")
    code, out, _ = cli("data", "remove", "--all", "--json")
    assert (code, json.loads(out)["removed_bytes"]["credit"]) == (0, 1_500_000)
    assert not list(tmp_path.iterdir())
    assert cli("data", "remove", "--all")[1] == "The cache has no data set.\n"
    for arguments in ((), ("--all", "census")):
        code, _, err = cli("data", "remove", *arguments)
        assert code == 2
        assert "--all" in err


def test_an_unknown_data_set_is_an_error(cli: Cli) -> None:
    code, _, err = cli("data", "get", "nothing")
    assert code == 2
    assert "census" in err


def test_a_bug_of_ours_exits_with_101_and_no_traceback(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("fairchain.verification.verify", broken)
    code, _, err = cli("verify", example("census"))
    assert code == 101
    assert "bug in fairchain" in err
    assert "Traceback" not in err


def test_help_shows_examples(cli: Cli) -> None:
    assert "fairchain demo" in cli("--help")[1]
    assert "--certificate" in cli("verify", "--help")[1]
    assert cli("--version")[1].strip() == __import__("fairchain").__version__


def command(*arguments: object, **more: Any) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", "from fairchain.cli import main; main()", *map(str, arguments)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(program, **(pipes | more))


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_ctrl_c_half_way_prints_what_is_known(tmp_path: Path) -> None:
    """As on a terminal: the progress line shows the running interval; Ctrl-C then ends with the result so far."""
    import pty

    path = tmp_path / "certificate.json"
    terminal, side = pty.openpty()
    process = command(
        "verify", example("census"), "--threshold", 0.0091, "--delta", 1e-12, "--seconds", 50, "--certificate", path,
        stderr=side, env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    os.close(side)
    shown = b""
    while b"so far" not in shown:
        shown += os.read(terminal, 4096)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    os.close(terminal)
    assert process.returncode == 3
    assert out.startswith("UNDECIDED")
    assert "you stopped it" in out
    assert json.loads(path.read_text())["claims"]["stopped"] == "interrupted"


def test_colours_and_bars_stay_away_from_pipes(demo: tuple[int, str, str, list[Path]]) -> None:
    _, out, err, _ = demo
    assert "\x1b[" not in out
    assert err == ""


@pytest.mark.parametrize("buffered", ["", "1"])
def test_a_reader_that_goes_away_is_no_verdict(buffered: str) -> None:
    """Exit code 1 would mean unfair."""
    process = command("data", "list", env={**os.environ, "PYTHONUNBUFFERED": buffered})
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process:
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_ctrl_c_before_anything_is_known_is_no_verdict(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fairchain.verification.verify", interrupted)
    code, out, err = cli("verify", example("census"))
    assert (code, out) == (130, "")
    assert "interrupted" in err


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_terminal_that_cannot_show_a_bar_still_gets_the_verdict(encoding: str) -> None:
    variables = {**os.environ, "PYTHONIOENCODING": encoding}
    out, err = command("demo", "census", env=variables, encoding=encoding).communicate(timeout=60)
    assert "FAIR: the largest gap" in out
    assert err == ""


def test_bad_usage_is_json_too_when_asked_for(cli: Cli) -> None:
    code, out, _ = cli("verify", "--json")
    assert code == 2
    assert "SPEC" in json.loads(out)["error"]


@pytest.mark.parametrize(
    "options", [["--epsilon", "0.05", "--delta", "1e-60"], ["--rule", "paper", "--delta", "1e-60"]]
)
def test_a_very_small_delta_is_a_question_like_any_other(cli: Cli, options: list[str]) -> None:
    code, _, _ = cli("verify", example("census"), "--protected", "sex", *options)
    assert code in (0, 3)
