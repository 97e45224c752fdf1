"""`--formula` and `--reference` on the command line."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from fairchain.cli.app import run
from fairchain.examples import example


def verified(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any, str]:
    program = ["fairchain", "verify", str(example("census")), "--json", *arguments]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", program)
        with pytest.raises(SystemExit) as ended:
            run()
    output = capsys.readouterr()
    return int(ended.value.code or 0), json.loads(output.out), output.err


def test_a_formula_takes_the_place_of_the_property(capsys: pytest.CaptureFixture[str]) -> None:
    code, found, _ = verified(capsys, "--formula", "P(>50K | sex=Female) / P(>50K | sex=Male) >= 0.8", "--seed", "1")
    assert (code, found["verdict"], found["kind"]) == (0, "FAIR", "ratio")
    assert found["property"] == "P(Y=>50K | sex == 'Female') / P(Y=>50K | sex == 'Male') >= 0.8"
    assert [group["name"] for group in found["groups"]] == ["sex == 'Female'", "sex == 'Male'"]


def test_a_reference_group_is_named_in_the_property(capsys: pytest.CaptureFixture[str]) -> None:
    code, found, _ = verified(capsys, "--reference", "White", "--outcome", ">50K", "--seed", "1")
    assert (code, found["verdict"]) == (0, "FAIR")
    assert found["property"] == "for all i: P(Y=>50K | race=White) - P(Y=>50K | race=i) <= 0.1"
    assert found["gap"]["more"] == "race=White"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--formula", "P(>50K | sex=Femal) >= P(>50K)"], 'did you mean "Female"?'),
        (["--formula", "P(>50K | sex=Female) >= P(>50K)", "--outcome", ">50K"], "property.outcome: unknown key"),
        (["--reference", "Whit", "--outcome", ">50K"], 'did you mean "White"?'),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found, errors = verified(capsys, *arguments)
    assert code == 2
    assert expected in found["error"]
    assert "Traceback" not in errors
