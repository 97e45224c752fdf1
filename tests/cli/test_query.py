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


LEARN = ["--protected", "sex", "--units", "capital-gain:bins=5", "--rounds", "2000"]


def test_a_query_prints_value_bounds_and_what_the_chain_is(cli: Cli) -> None:
    code_found, out, _err = cli("query", CENSUS, 'P=? [ F "Y=>50K" ]', "--start", "sex=Female", *LEARN)
    assert code_found == 0
    first, second = out.splitlines()
    assert first.startswith("0.9")
    assert "[" in first
    assert second == "9 states, 16 transitions, learned from 2,000 rounds for each group"


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
    _code_found, out, _err = cli("query", CENSUS, 'P=? [ F "Y=>50K" ]', "--chain", "shared", *LEARN)
    assert "The states of a shared chain do not carry the group" in out


@pytest.mark.parametrize("form", ["drn", "json", "explicit"])
def test_a_chain_that_was_exported_can_be_asked(cli: Cli, form: str) -> None:
    name = {"drn": "chain.drn", "json": "chain.json", "explicit": "chain.tra"}[form]
    assert cli("export", CENSUS, "-o", name, *LEARN)[0] == 0
    direct = cli("query", CENSUS, 'P=? [ F "Y=>50K" ]', "--json", *LEARN)
    again = cli("query", name, 'P=? [ F "Y=>50K" ]', "--json")
    assert json.loads(again[1])["value"] == pytest.approx(json.loads(direct[1])["value"], abs=1e-12)


@pytest.mark.parametrize("form", ["prism", "dot", "drn", "json"])
def test_without_a_file_it_goes_to_standard_output(cli: Cli, form: str) -> None:
    code_found, out, _err = cli("export", CENSUS, "--format", form, *LEARN)
    assert code_found == 0
    assert len(out.splitlines()) > 5
    assert list(Path.cwd().iterdir()) == []


MISTAKES = {
    "a typo": (['P=? [ F "Y=>50K" '], "column"),
    "no such label": (['P=? [ F "Y=>50k" ]'], "Y=>50K"),
    "no such state": (['P=? [ F "Y=>50K" ]', "--start", "sex=Femal"], "sex=Femal"),
    "no such tensor": (['P=? [ F "Y=>50K" ]', "--units", "leyer3"], "did you mean layer3"),
    "too many clusters": (['P=? [ F "Y=>50K" ]', "--units", "layer5:kmeans=5000"], "at most 64 parts"),
    "more parts than values": (['P=? [ F "Y=>50K" ]', "--units", "capital-loss:quantiles=1000"], "distinct"),
    "a number for nothing": (['P=? [ F "Y=>50K" ]', "--units", "layer5[0]:sign=5"], "sign takes no number"),
    "no such way": (['P=? [ F "Y=>50K" ]', "--units", "age:deciles"], 'unknown method "deciles"'),
    "no such feature": (['P=? [ F "Y=>50K" ]', "--units", "capitol-gain"], "did you mean capital-gain?"),
    "a unit twice": (
        ['P=? [ F "Y=>50K" ]', "--units", "age", "--units", "age:quantiles=3"],
        "age is requested tw",
    ),
    "the groups again": (['P=? [ F "Y=>50K" ]', "--units", "race"], "race already defines the groups"),
    "a rule for nothing": (['P=? [ F "Y=>50K" ]', "--rule", "paper"], "give epsilon"),
    "no evidence": (
        ['P=? [ X "Y=>50K" ]', "--units", "age:bins=4.2,4.6", "--start", "race=White & 4.2 <= age < 4.6"],
        "never visited",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_message_and_exit_code_2(cli: Cli, name: str) -> None:
    arguments, words = MISTAKES[name]
    code_found, _out, err = cli("query", CENSUS, *arguments, "--rounds", "500")
    assert code_found == 2
    assert words in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "option",
    ["--units age", "--chain shared", "--epsilon 0.1", "--rounds 7", "--delta 0.1", "--protected sex", "--seed 1"],
)
def test_a_chain_that_is_read_is_not_learned_with_options(cli: Cli, option: str) -> None:
    assert cli("export", CENSUS, "-o", "c.json", *LEARN)[0] == 0
    assert cli("query", "c.json", 'P=? [ F "Y=>50K" ]')[0] == 0
    code, out, err = cli("query", "c.json", 'P=? [ F "Y=>50K" ]', *option.split())
    assert (code, out) == (2, "")
    assert f"{option.split(maxsplit=1)[0]}: c.json contains a learned chain" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments", [("query", CENSUS, 'P=? [ F "Y=>50K" '), ("export", CENSUS, "--format", "dot", "--intervals")]
)
def test_what_can_be_said_at_once_does_not_wait_for_a_chain(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr("fairchain.chain.learn.learn_chain", lambda *_, **__: pytest.fail("a chain was learned"))
    assert cli(*arguments)[0] == 2


def test_what_a_file_says_about_its_chain_may_be_anything(cli: Cli) -> None:
    assert cli("export", CENSUS, "-o", "c.json", *LEARN)[0] == 0
    content = json.loads(Path("c.json").read_text())
    content["metadata"] = {"rounds": "many", "fidelity": [1], "sound": 0, "kind": {}, "filler": "x" * 9000}
    # Other programs write keys in an order of their own.
    Path("c.json").write_text(json.dumps(dict(sorted(content.items()))))
    code, out, err = cli("query", "c.json", 'P=? [ F "Y=>50K" ]')
    assert (code, err) == (0, "")
    assert "9 states" in out


@pytest.mark.parametrize(
    ("source", "output"), [("c.json", "c.json"), ("c.json", "./c.json"), ("c.tra", "c.tra"), ("c.tra", "c.lab")]
)
def test_a_chain_is_never_written_over_what_it_is_read_from(cli: Cli, source: str, output: str) -> None:
    assert cli("export", CENSUS, "-o", source, *LEARN)[0] == 0
    before = {path.name: path.read_bytes() for path in Path.cwd().iterdir()}
    code, _out, err = cli("export", source, "-o", output)
    assert code == 2
    assert "the chain is read from this file" in err
    assert {path.name: path.read_bytes() for path in Path.cwd().iterdir()} == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--output FILE, whose suffix is the format, or --format"),
        (["-o", "c.dot", "--format", "dot"], "--output FILE, whose suffix is the format, or --format"),
        (["-o", "chain"], "chain"),
    ],
)
def test_the_format_is_the_suffix_of_the_file(cli: Cli, options: list[str], message: str) -> None:
    code, _, err = cli("export", CENSUS, *options)
    assert code == 2
    assert message in err
