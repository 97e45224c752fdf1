"""`query` and `export` as somebody at a terminal meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairchain import example
from tests.cli.test_commands import Cli

CENSUS = str(example("census"))


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)
    return Cli(monkeypatch, capsys)


LEARN = ["--protected", "sex", "--states", "capital-gain:bins=5", "--rounds", "2000"]


def test_a_query_prints_value_bounds_and_what_the_chain_is(cli: Cli) -> None:
    code_found, out, _err = cli("query", CENSUS, 'P=? [ F "Y=>50K" ]', "--state", "sex=Female", *LEARN)
    assert code_found == 0
    first, second = out.splitlines()
    assert first.startswith("0.9")
    assert "[" in first
    assert second == "9 states, 16 transitions, learned from 2,000 rounds as each group"


def test_json_has_value_low_and_high(cli: Cli) -> None:
    _code_found, out, _err = cli("query", CENSUS, 'P=? [ F "Y=>50K" ]', "--json", *LEARN)
    answer = json.loads(out)
    assert answer["low"] <= answer["value"] <= answer["high"]
    assert answer["chain"]["states"] == 9


@pytest.mark.parametrize(("bound", "code"), [("0.5", 0), ("0.99", 1), ("0.95", 3)])
def test_a_formula_that_is_true_or_false_sets_the_exit_code(cli: Cli, bound: str, code: int) -> None:
    code_found, _out, _err = cli("query", CENSUS, f'P>={bound} [ F "Y=>50K" ]', *LEARN)
    assert code_found == code


def test_a_shared_chain_says_how_far_it_may_be_off(cli: Cli) -> None:
    _code_found, out, _err = cli("query", CENSUS, 'P=? [ F "Y=>50K" ]', "--kind", "shared", *LEARN)
    assert "A shared chain forgets the group" in out


@pytest.mark.parametrize("form", ["drn", "json", "explicit"])
def test_a_chain_that_was_exported_can_be_asked(cli: Cli, form: str) -> None:
    name = {"drn": "chain.drn", "json": "chain.json", "explicit": "chain.tra"}[form]
    assert cli("export", CENSUS, "--to", form, "-o", name, *LEARN)[0] == 0
    direct = cli("query", CENSUS, 'P=? [ F "Y=>50K" ]', "--json", *LEARN)
    again = cli("query", name, 'P=? [ F "Y=>50K" ]', "--json")
    assert json.loads(again[1])["value"] == pytest.approx(json.loads(direct[1])["value"], abs=1e-12)


@pytest.mark.parametrize("form", ["prism", "dot", "drn", "json"])
def test_without_a_file_it_goes_to_standard_output(cli: Cli, form: str) -> None:
    code_found, out, _err = cli("export", CENSUS, "--to", form, *LEARN)
    assert code_found == 0
    assert len(out.splitlines()) > 5
    assert list(Path.cwd().iterdir()) == []


MISTAKES = {
    "a typo": (['P=? [ F "Y=>50K" '], "column"),
    "no such label": (['P=? [ F "Y=>50k" ]'], "Y=>50K"),
    "no such state": (['P=? [ F "Y=>50K" ]', "--state", "sex=Femal"], "sex=Femal"),
    "no such tensor": (['P=? [ F "Y=>50K" ]', "--states", "leyer3"], "did you mean layer3"),
    "too many clusters": (['P=? [ F "Y=>50K" ]', "--states", "layer5[0]:kmeans=9999"], "distinct"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_message_and_exit_code_2(cli: Cli, name: str) -> None:
    arguments, words = MISTAKES[name]
    code_found, _out, err = cli("query", CENSUS, *arguments, "--rounds", "500")
    assert code_found == 2
    assert words in err
    assert len(err.splitlines()) == 1
