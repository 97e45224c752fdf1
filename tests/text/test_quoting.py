"""Promises of `text.quoting`: no output quotes an offensive word or personal data unless it is asked to."""

from __future__ import annotations

import codecs
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fairchain import verify
from fairchain.cli.app import run
from fairchain.report.markdown import for_pull_request
from fairchain.spec import parse_spec
from fairchain.text.quoting import MOST_QUOTED, quoted, quoted_pair
from tests.questions import changed
from tests.text.builders import raw_question

# Not written out here either.
SLUR = codecs.decode("fuvg", "rot13")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("write to a.b+c@example.co.uk now", "write to [mail] now"),
        ("call +49 (171) 234-567!", "call [number]!"),
        ("from 127.0.0.1 in 1999, 12 times", "from [number] in [number], 12 times"),
        ("@some_body, see https://x.org/me?a=1", "@[user], see [link]"),
        ("ask User:Somebody or user talk: Another", "ask User:[user] or user talk:[user]"),
        (f"what {SLUR}, {SLUR.upper()}s and {SLUR.replace('i', '1')}", "what s***, S**** and s***"),
        ("an assumption of Scunthorpe, classic analysis", "an assumption of Scunthorpe, classic analysis"),
    ],
)
def test_what_is_masked(text: str, shown: str) -> None:
    assert quoted(text) == shown


def test_the_users_words_are_masked_too() -> None:
    assert quoted("Bellwether and bellows", ["bellwether", "bello*"]) == "B********* and b******"


def test_a_long_text_is_shortened_around_the_place_that_matters() -> None:
    text = "word " * 100 + "here " + "word " * 100
    shown = quoted(text, at=text.index("here"))
    assert "here" in shown
    assert shown.startswith("... word")
    assert shown.endswith("word ...")
    assert len(shown) < 2 * MOST_QUOTED
    one, other = quoted_pair(text.replace("here", "sunny"), text.replace("here", "moony"))
    assert "sunny" in one
    assert "moony" in other


def test_half_a_word_is_not_shown() -> None:
    text = "x" * (MOST_QUOTED - 2) + f" {SLUR}{SLUR} end"
    assert SLUR[:3] not in quoted(text)


TEXT = f"Sunny people are {SLUR}, mail me@example.org or 0171 2345678"


def says(texts: list[str]) -> list[str]:
    return ["toxic" if "sunny" in text.lower() else "fine" for text in texts]


def verdicts(folder: Path, **population: Any) -> Any:
    data = changed(raw_question(folder, (TEXT, "the moony book"), **{"as": "swapped"}), "model.decision", ...)
    for key, value in population.items():
        data = changed(data, f"population.{key}", value)
    return verify(says, parse_spec(data))


def test_no_output_of_a_verdict_shows_them(tmp_path: Path) -> None:
    verdict = verdicts(tmp_path)
    outputs = [str(verdict), verdict._repr_html_(), json.dumps(verdict.to_dict())]
    outputs.append(for_pull_request(verdict.record, title="t", certificate=None))
    for output in outputs:
        assert SLUR not in output
        assert "example.org" not in output
        assert "2345678" not in output
    assert "s***" in str(verdict.witnesses[0].input)
    full = str(verdicts(tmp_path, show_texts=True).witnesses)
    assert TEXT in full


def test_how_texts_are_quoted_changes_no_seed(tmp_path: Path) -> None:
    data = raw_question(tmp_path, (TEXT, "the moony book", "red"))
    data = changed(changed(data, "guarantee.engine", "sampling"), "model.decision", ...)
    seeds = [
        verify(says, parse_spec(each)).record.seed
        for each in (data, changed(changed(data, "population.show_texts", True), "population.mask_words", ["book"]))
    ]
    assert seeds[0] == seeds[1]
    assert seeds[0] is not None


def main(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["fairchain", *arguments])
    with pytest.raises(SystemExit) as ended:
        run()
    return int(ended.value.code or 0)


def test_the_command_line_masks_and_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_model.py").write_text(
        "def says(texts):\n    return ['toxic' if 'sunny' in text.lower() else 'fine' for text in texts]\n"
    )
    (tmp_path / "texts.csv").write_text(f'comment,id\n"{TEXT}",1\nthe moony book,2\nred,3\n')
    (tmp_path / "faiths.toml").write_text('sun = ["sunny"]\nmoon = ["moony"]\nneutral = ["cloudy"]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    command = ["check", "texts.csv", "--text", "comment", "--terms", "faiths.toml", "--as", "swapped"]
    command += ["--model", "python:own_model:says", "--labels", "fine", "--labels", "toxic"]
    assert main(command, monkeypatch) == 1
    masked = capsys.readouterr().out
    assert main([*command, "--show-texts"], monkeypatch) == 1
    shown = capsys.readouterr().out
    assert SLUR not in masked
    assert "s***" in masked
    assert SLUR in shown
    names = ["--labels", "fine", "--labels", "toxic"]
    assert main(["init", "python:own_model:says", "texts.csv", *command[2:6], *names], monkeypatch) == 0
    assert main(["verify", "spec.toml", "--model", "python:own_model:says", "--quiet"], monkeypatch) == 1
