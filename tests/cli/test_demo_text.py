"""`fairchain demo text`: nothing is fetched unasked, and with the data here it runs offline in both readings."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from fairchain import datasets
from fairchain.cli import demo
from fairchain.cli.demo import NOTHING_FETCHED
from fairchain.errors import FairchainError
from fairchain.examples import example
from tests.cli.command import Cli
from tests.comments import fill_cache
from tests.messages import says

TITLES = ["religion, observed", "religion, swapped", "race, observed", "race, swapped"]


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A cache with nothing in it, and a list of what would have been fetched."""
    fetched: list[Any] = []
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets, "get_all", lambda names, **_: fetched.append(names))
    return fetched


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache with a small corpus in it."""
    fill_cache(tmp_path / "cache")
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path / "cache"))


def test_a_program_is_told_the_size_and_the_command(cli: Cli, empty: list[Any]) -> None:
    for arguments in (["demo", "text"], ["demo", "text", "--json"], ["demo", "text", "--quiet"]):
        code, _, err = cli(*arguments)
        assert code == 2
        assert "toxicity and glove, 132 MB to download once; run: fairchain demo text --yes" in err
    assert empty == []


def test_a_person_is_asked_first(monkeypatch: pytest.MonkeyPatch, empty: list[Any]) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    asked: list[str] = []

    def answer(text: str, said: bool) -> bool:
        asked.append(text)
        return said

    monkeypatch.setattr(demo.click, "confirm", lambda text, **_: answer(text, False))
    with pytest.raises(FairchainError, match=says(NOTHING_FETCHED)):
        demo.fetch_first(yes=False, silent=False)
    assert (asked, empty) == (["Download 132 MB?"], [])
    monkeypatch.setattr(demo.click, "confirm", lambda text, **_: answer(text, True))
    demo.fetch_first(yes=False, silent=False)
    assert empty == [["toxicity", "glove"]]


def test_yes_is_not_asked_again(empty: list[Any]) -> None:
    demo.fetch_first(yes=True, silent=True)
    assert empty == [["toxicity", "glove"]]


@pytest.mark.usefixtures("filled")
def test_both_readings_of_both_questions_run_offline(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.fetch, "download", None)
    code, out, _ = cli("demo", "text", "--json", "-o", tmp_path / "audit")
    assert code == 0
    answers = json.loads(out)
    assert list(answers) == TITLES
    assert [len(answer["groups"]) for answer in answers.values()] == [7, 7, 4, 4]
    assert all(answer["delta"] == 1e-6 for answer in answers.values())
    names = sorted(path.name for path in (tmp_path / "audit").iterdir())
    assert names == ["comments-race.toml", "comments-religion.toml", "comments.onnx"]
    code, out, _ = cli("verify", tmp_path / "audit" / "comments-race.toml", "--as", "swapped", "--json")
    again = json.loads(out)
    assert again["gap"] == answers["race, swapped"]["gap"]


@pytest.mark.usefixtures("filled")
def test_the_words_of_a_demo_are_those_of_a_verdict(cli: Cli) -> None:
    code, out, err = cli("demo", "text")
    assert (code, err) == (0, "")
    assert [title for title in TITLES if f"{title} ─" not in out] == []
    assert "fairchain demo text -o my-audit" in out


def test_readings_of_texts_are_for_texts(cli: Cli) -> None:
    code, _, err = cli("verify", example("census"), "--as", "swapped")
    assert code == 2
    assert "--as swapped needs texts" in err


@pytest.mark.network
def test_the_real_comments_are_judged_as_the_docs_say(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 132 MB: a cache that somebody keeps is used.
    if "FAIRCHAIN_CACHE" not in os.environ:
        monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path))
    code, out, _ = cli("demo", "text", "--yes", "--json")
    assert code == 0
    answers = json.loads(out)
    assert [answers[title]["verdict"] for title in TITLES] == ["UNFAIR", "FAIR", "FAIR", "FAIR"]
