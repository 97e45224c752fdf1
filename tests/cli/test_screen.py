"""What stands in a name is shown and does not act: no escape code, line end or turn of direction reaches a terminal."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from fairchain.cli.terminal import Screen
from tests.auditing.builders import write_question
from tests.cli.test_commands import Cli

ACTS = "a\x1b[2Jb\nFAIR\t\x9b31m\u202ec\r\x07"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("where", [io.StringIO, Terminal])
def test_no_character_of_a_name_acts(where: type[io.StringIO], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stdout", where())
    screen = Screen()
    screen.line(ACTS, (ACTS, "bold"))
    screen.title(ACTS)
    screen.table([ACTS], [[ACTS], [("[red]x[/red]", "green")]])
    assert isinstance(sys.stdout, io.StringIO)
    shown = sys.stdout.getvalue()
    assert not {letter for letter in shown if not letter.isprintable()} - {"\n"}
    assert len(shown.splitlines()) == 5
    assert shown.count("a␛[2Jb␊FAIR␉") == 5
    assert "[red]x[/red]" in shown


@pytest.mark.parametrize(
    "command",
    [
        ("verify",),
        ("explain", "--rounds", 300),
        ("explain", "--rounds", 300, "-q"),
        ("audit", "--no-repair", "-o", "out"),
        ("query", 'P=? [ F "Y=yes" ]'),
    ],
    ids=lambda command: " ".join(map(str, command[:1] + command[-1:])),
)
def test_names_with_escape_codes_are_shown_by_every_command(
    command: tuple[object, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    spec = write_question(tmp_path)
    data = json.loads(spec.read_text(encoding="utf-8"))
    data["feature"][2]["values"] = ["Fe\x1b[2Jmale", "Male\nFAIR: "]
    spec.write_text(json.dumps(data), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    _, out, err = Cli(monkeypatch, capsys)(command[0], spec, *command[1:])
    assert out
    assert "\x1b" not in out + err
    assert not [line for line in out.splitlines()[1:] if line.startswith("FAIR")]


@pytest.mark.parametrize(("width", "kept"), [(28, "abcd"), (27, "abd"), (20, "ab"), (10, "ab")])
def test_a_narrow_terminal_leaves_out_what_may_be_left_out(
    width: int, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four columns of seven letters, two of them blank."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Terminal())
    Screen().table([letter * 5 for letter in "abcd"], [[letter * 5 for letter in "abcd"]], optional=(2, 3))
    assert isinstance(sys.stdout, Terminal)
    assert "".join(letter for letter in "abcd" if letter in sys.stdout.getvalue()) == kept
