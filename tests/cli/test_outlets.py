"""Verdicts for others on the command line: compare, card, files for build servers, help and completion."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest

from fairchain import example
from fairchain.certificate_format import digest
from fairchain.cli.app import app
from tests.cli.command import Cli


@pytest.fixture
def certificates(cli: Cli, tmp_path: Path) -> tuple[Path, Path]:
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    assert cli("verify", example("credit"), "-q", "--certificate", one)[0] == 1
    assert cli("verify", example("credit"), "-q", "--certificate", other, "--seed", 4, "--delta", 0.01)[0] == 1
    return one, other


def test_compare_shows_both_and_says_how_sure_it_is(cli: Cli, certificates: tuple[Path, Path]) -> None:
    code, out, err = cli("compare", *certificates)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["one.json", "other.json"]
    assert lines[1].split() == ["verdict", "UNFAIR", "UNFAIR"]
    assert "at most 0.010001, the sum of both deltas" in out
    assert sum(line.startswith("age=") for line in lines) == 8


def test_compare_prints_one_json_object(cli: Cli, certificates: tuple[Path, Path]) -> None:
    code, out, _ = cli("compare", *certificates, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["comparable"] is True
    assert found["first"]["verdict"] == "UNFAIR"
    assert found["delta"] == pytest.approx(0.010001)
    assert {"name", "outcome", "first", "second", "moved"} == set(found["groups"][0])


def test_files_of_the_same_name_are_told_apart(cli: Cli, certificates: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    twin = certificates[1].rename(tmp_path / "b" / "one.json")
    _, out, _ = cli("compare", certificates[0], twin)
    assert out.splitlines()[0].split() == [str(certificates[0]), str(twin)]


def test_names_in_a_strangers_certificate_do_not_act_on_the_terminal(cli: Cli, certificates: tuple[Path, Path]) -> None:
    hostile = json.loads(certificates[1].read_text(encoding="utf-8"))
    hostile["claims"]["groups"][0]["name"] = "\x1b[2J\x07age\nUNFAIR: nothing\u202e"
    hostile["digest"] = digest(hostile)
    certificates[1].write_text(json.dumps(hostile), encoding="utf-8")
    code, out, _ = cli("compare", *certificates)
    assert code == 0
    assert not set("\x1b\x07\u202e") & set(out)
    assert not any(line.startswith("UNFAIR:") for line in out.splitlines())


@pytest.mark.parametrize("command", ["compare", "card"])
@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"format": "fairchain-certificate"}', "\x00\xff"])
def test_what_is_no_certificate_is_one_message(cli: Cli, command: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content, encoding="latin-1")
    code, out, err = cli(command, *[path] * (2 if command == "compare" else 1))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "bad.json" in err


def test_a_changed_or_missing_certificate_is_one_message(
    cli: Cli, certificates: tuple[Path, Path], tmp_path: Path
) -> None:
    text = certificates[0].read_text(encoding="utf-8")
    certificates[0].write_text(text.replace('"verdict": "UNFAIR"', '"verdict": "FAIR"', 1), encoding="utf-8")
    for path, said in (
        (certificates[0], "was changed"),
        (tmp_path / "none.json", "file not found"),
        (tmp_path, "none"),
    ):
        code, out, err = cli("card", path)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert said in err or path == tmp_path


def test_a_card_is_printed(cli: Cli, certificates: tuple[Path, Path]) -> None:
    code, out, _ = cli("card", certificates[0])
    assert code == 0
    assert out.startswith("## Fairness\n")
    assert "fairchain recheck one.json --model credit.onnx" in out


def test_verify_writes_junit_and_adds_to_a_summary(cli: Cli, tmp_path: Path) -> None:
    junit, summary = tmp_path / "junit.xml", tmp_path / "summary.md"
    summary.write_text("# My build\n\n", encoding="utf-8")
    certificate = tmp_path / "certificate.json"
    files = ("--junit", junit, "--summary", summary)
    assert cli("verify", example("credit"), "-q", *files, "--certificate", certificate)[0] == 1
    root = ElementTree.parse(junit).getroot()
    assert root.get("failures") == "1"
    assert str(root[0][0].get("name")).startswith("credit.toml: for all i, j:")
    assert cli("verify", example("census"), "--json", *files)[0] == 0
    assert ElementTree.parse(junit).getroot().get("failures") == "0"
    text = summary.read_text(encoding="utf-8")
    assert re.findall(r"^#.*", text, flags=re.MULTILINE) == [
        "# My build", "### Fairness: credit.toml", "### Fairness: census.toml",
    ]  # fmt: skip
    assert text.count("`certificate.json`") == 1


@pytest.mark.parametrize("option", ["--junit", "--summary"])
def test_a_file_that_cannot_be_written_is_told_before_the_work(cli: Cli, option: str, tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "file", tmp_path):
        code, out, err = cli("verify", tmp_path / "no.toml", option, path)
        assert (code, out) == (2, "")
        assert f"cannot be written; {option} must name a file in a folder that exists" in err


def commands(group: click.Group = app, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


EVERY = dict(commands())


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_command_has_help_and_an_example_that_it_understands(path: tuple[str, ...]) -> None:
    command = EVERY[path]
    assert command.help
    assert command.get_short_help_str(200)
    found = re.search(r"Example: (.*)", command.epilog or "")
    assert found is not None, f"{' '.join(path)}: no example"
    line = next(part for part in re.split(r"[|;]", found[1]) if part.strip().startswith("fairchain"))
    _, *words = shlex.split(re.split(r" >>? ", line)[0])
    assert tuple(words[: len(path)]) == path
    if not isinstance(command, click.Group):
        command.make_context(path[-1], words[len(path) :])


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_option_says_what_it_does(path: tuple[str, ...]) -> None:
    options = [each for each in EVERY[path].params if isinstance(each, click.Option)]
    unclear = [each.name for each in options if not each.help and not each.required and each.show_default is not True]
    assert unclear == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed_for_each_shell(cli: Cli, shell: str) -> None:
    code, out, _ = cli("completion", shell)
    assert code == 0
    assert f"_FAIRCHAIN_COMPLETE={shell}_complete" in out


def complete(*words: str) -> list[str]:
    """What a shell is offered for the last word."""
    typed = {"COMP_WORDS": shlex.join(words), "COMP_CWORD": str(len(words) - 1), "_FAIRCHAIN_COMPLETE": "bash_complete"}
    code = f"import os; os.environ.update({typed!r}); from fairchain.cli import main; main()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return ended.stdout.split()


def test_commands_options_choices_and_files_are_completed() -> None:
    assert complete("fairchain", "ver") == ["plain,verify"]
    assert "plain,--threshold" in complete("fairchain", "verify", "--t")
    assert complete("fairchain", "demo", "cre") == ["plain,credit"]
    assert complete("fairchain", "card", "cert") == ["file,cert"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_the_bash_script_completes_in_a_real_bash(cli: Cli, tmp_path: Path) -> None:
    _, script, _ = cli("completion", "bash")
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "fairchain"
    command.write_text(f"#!{sys.executable}\nfrom fairchain.cli import main\nmain()\n", encoding="utf-8")
    command.chmod(0o755)
    asked = 'COMP_WORDS=(fairchain rech); COMP_CWORD=1; _fairchain_completion fairchain; echo "${COMPREPLY[@]}"'
    ended = subprocess.run(
        ["bash", "--norc", "-c", f'PATH="{folder}:$PATH"\n{script}\n{asked}'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.strip() == "recheck"
