"""The command `plan`: sentences, JSON, bars and a picture."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from fairchain import example
from fairchain.cli.app import app
from fairchain.errors import SpecError

BARE = ["plan", "--threshold", "0.2", "--delta", "0.3", "--gap", "0.08"]


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    assert done.return_value == 0
    return done.stdout


def test_a_plan_of_options_with_bars_and_a_picture(tmp_path: Path) -> None:
    shown = run(*BARE, "--curve", "-o", str(tmp_path / "curve.svg"))
    assert "evaluations on average, at most" in shown
    assert "assumed: the largest difference is 0.08" in shown
    assert shown.count("#####") > 3
    drawn = ElementTree.fromstring((tmp_path / "curve.svg").read_text())
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(drawn.findall(".//{*}circle")) == 12


def test_json_has_the_same_numbers_as_python() -> None:
    from fairchain import plan

    assert json.loads(run(*BARE, "--json")) == plan(threshold=0.2, delta=0.3, gap=0.08).to_dict()


def test_a_spec_with_a_pilot() -> None:
    found = json.loads(run("plan", str(example("census")), "--protected", "sex", "--pilot", "500", "--json"))
    assert found["seconds"]["mean"] > 0
    assert found["questions"][0]["groups"] == ["sex=Female", "sex=Male"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rates", "a,b"], '--rates: found "a,b"; write numbers with commas between them'),
        (["--rows", "5,6,7"], "rows: found 3 numbers; write one for each of 2 groups, each above 0"),
    ],
)
def test_bad_options_get_one_message(arguments: list[str], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        run("plan", "--threshold", "0.1", *arguments)
    assert str(caught.value) == message
