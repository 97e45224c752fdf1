"""The section of a model card: everything a reader needs, and nothing that acts."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

import fairchain
from fairchain.report.card import model_card as card_of
from fairchain.report.comparison import contents_of

Plain = dict[str, Any]


def model_card(certificate: Plain, source: str = "certificate.json") -> str:
    return card_of(contents_of(certificate), source=source)


@pytest.fixture(scope="module")
def credit() -> Plain:
    return fairchain.make_certificate(fairchain.verify(None, fairchain.example("credit"), certify=True))


def test_the_card_says_verdict_question_people_and_limits(credit: Plain) -> None:
    card = model_card(credit)
    assert card.startswith("## Fairness\n\n❌ **UNFAIR**: the largest gap is 0.1586 [0.1000, 0.3424]")
    for part in ("- Protected: age", "independent uniform inputs", "at most 1e-06", credit["claims"]["model_sha256"]):
        assert part in card
    assert "Other groups were not compared" in card
    page = MarkdownIt("gfm-like", {"linkify": False}).render(card)
    assert page.count("<li>") == 5
    assert page.count("<tr>") == 9


def test_a_card_about_texts_speaks_of_texts(credit: Plain) -> None:
    texts = deepcopy(credit)
    texts["claims"]["inputs"] = "texts"
    assert "- Texts: independent" in model_card(texts)
    assert "nothing is stated about other texts" in model_card(texts)


def test_the_command_on_the_card_checks_the_certificate(credit: Plain, tmp_path: Path) -> None:
    from fairchain.certificates import dump

    found = re.search(r"check it again: `(.*)`", model_card(credit, source="my certificate.json"))
    assert found is not None
    (tmp_path / "my certificate.json").write_text(dump(credit), encoding="utf-8")
    network = fairchain.example("credit").with_suffix(".onnx")
    (tmp_path / network.name).write_bytes(network.read_bytes())
    _, *arguments = shlex.split(found[1])
    code = "from fairchain.cli import main; main()"
    ended = subprocess.run([sys.executable, "-c", code, *arguments], cwd=tmp_path, check=False, capture_output=True)
    assert ended.returncode == 0, ended.stderr


def test_names_from_a_stranger_do_nothing(credit: Plain) -> None:
    hostile = deepcopy(credit)
    hostile["spec"]["property"]["protected"] = ["<script>alert(1)</script>"]
    hostile["claims"] |= {"population": "a | b\n# title\n@all", "scope": "<img src=x>", "statement": "x\n\n<b>y</b>"}
    hostile["claims"]["groups"][0]["name"] = "a | b `c`"
    hostile["software"] = {"fairchain": "<i>"}
    page = MarkdownIt("gfm-like", {"linkify": False}).render(model_card(hostile))
    assert not re.search(r"<(script|img|b|i|h1)\b", page)
    assert page.count("<tr>") == 9


def test_rows_are_checked_with_their_table_and_need_no_network_if_recorded(credit: Plain) -> None:
    rows = deepcopy(credit)
    rows["spec"]["population"] = {"kind": "table", "as": "population", "path": "people.csv"}
    rows["claims"] |= {"table_sha256": "ab", "model_sha256": "", "delta": 0.0, "left_out": [{"name": "x", "size": 1}]}
    card = model_card(rows)
    assert "`fairchain recheck certificate.json --data people.csv`" in card
    assert "- Decisions as recorded" in card
    assert "none, all rows were counted" in card
    assert "- Groups too small to be compared: 1" in card


@pytest.mark.parametrize(("source", "asked"), [({"path": "talk.csv"}, True), ({"dataset": "toxicity"}, False)])
def test_texts_of_a_file_are_handed_over_and_those_of_a_data_set_are_not(
    credit: Plain, source: Plain, asked: bool
) -> None:
    texts = deepcopy(credit)
    texts["spec"]["population"] = {"kind": "text", "as": "observed", **source}
    texts["claims"]["table_sha256"] = "ab"
    assert ("--data talk.csv" in model_card(texts)) == asked
    assert ("--data" in model_card(texts)) == asked


def test_a_rule_that_is_not_sound_promises_nothing(credit: Plain) -> None:
    unsound = deepcopy(credit)
    unsound["claims"]["sound"] = False
    assert "unknown, because the rule is not sound" in model_card(unsound)
    assert "at most 1e-06" not in model_card(unsound).split("- Protected")[1]
