"""A verdict is one sentence, the same in every output."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairchain.auditing import Audit
from fairchain.certificate_format import RowEvidence
from fairchain.cli.audit import show_audit
from fairchain.cli.verdict_display import show_verdict
from fairchain.report.card import model_card
from fairchain.report.comparison import CertificateContents
from fairchain.report.findings import Findings
from fairchain.report.junit import junit
from fairchain.report.markdown import for_pull_request, markdown
from fairchain.report.page import page
from fairchain.spec import Spec, parse_spec
from fairchain.statistics import Decision, Interval
from fairchain.verification.record import Pair
from fairchain.verification.verdict import GroupProbability, Verdict
from tests.questions import question

LABEL = "<no> & *never*"
KINDS: dict[str, dict[str, Any]] = {
    "difference": {"kind": "difference", "threshold": 0.1},
    "ratio": {"kind": "ratio", "threshold": 0.8},
    "individual": {"kind": "individual", "threshold": 0.1},
    "exact": {"kind": "difference", "threshold": 0.1},
}
MEASURED = {
    "difference": "the largest gap is 0.0500 [0.0400, 0.0600]",
    "ratio": "the smallest ratio is 0.0500 [0.0400, 0.0600]",
    "individual": "the share of individuals whose decision changes with the protected features alone is 0.0500 "
    "[0.0400, 0.0600]",
    "exact": "the largest gap is 0.0500",
}
UNDECIDED = "; the data do not yet show whether it is above or below the threshold {}"
RELATION = {
    ("FAIR", False): ", below the threshold {}",
    ("UNFAIR", False): ", above the threshold {}",
    ("FAIR", True): ", above the threshold {}",
    ("UNFAIR", True): ", below the threshold {}",
}


def spec_of(kind: str) -> Spec:
    data = question()
    data["property"] |= KINDS[kind]
    if kind == "exact":
        data["population"] = {"kind": "table", "as": "population", "path": "rows.csv"}
    return parse_spec(data)


def verdict_of(word: str, kind: str) -> Verdict:
    """A verdict with made-up numbers: only the words are tested here."""
    gap = Interval(0.05, 0.05, 0.05) if kind == "exact" else Interval(0.05, 0.04, 0.06)
    pair = Pair("sex=Male", "sex=Female", "yes")
    return Verdict(
        decision=Decision["FAIR" if word == "CONSTANT" else word],
        gap=gap,
        widest=pair,
        groups=tuple(GroupProbability(name, "yes", gap, 100) for name in (pair.more, pair.less)),
        violators=(),
        witnesses=(),
        rounds=100,
        evaluations=200,
        seconds=0.5,
        stopped="rounds",
        forecast=None,
        sound=True,
        statement="The statement.",
        scope="The scope.",
        population="uniform inputs",
        model_sha256="ab" * 32,
        constant=LABEL if word == "CONSTANT" else None,
        engine="counting" if kind == "exact" else "sampling",
        delta=0.0 if kind == "exact" else 1e-6,
        exact=kind == "exact",
        spec=spec_of(kind),
        evidence=RowEvidence(100, [1], [50, 50], [[5, 5]], [0, 1]),
    )


def expected(word: str, kind: str) -> str:
    decision = "FAIR" if word == "CONSTANT" else word
    relation = UNDECIDED if word == "UNDECIDED" else RELATION[decision, kind == "ratio"]
    found = MEASURED[kind] + relation.format(KINDS[kind]["threshold"])
    if word == "CONSTANT":
        found = f'every input that was tried got the decision "{LABEL}", so groups cannot differ: {found}'
    return f"{word}: {found}"


def findings(verdict: Verdict) -> Findings:
    return Findings("a.toml", verdict.record)


def card(verdict: Verdict) -> str:
    spec: dict[str, Any] = msgspec.to_builtins(verdict.spec)
    return model_card(CertificateContents(verdict.record, spec))


# Markup around and inside the sentence is removed; the HTML page sets the word apart from the rest by its style.
HTML: dict[str, Callable[[Verdict], str]] = {
    "page": lambda verdict: page(findings(verdict)).replace("</span><p", ": </span><p"),
    "notebook": lambda verdict: verdict._repr_html_(),
    "junit": lambda verdict: junit({"a": verdict.record}),
}
MARKDOWN: dict[str, Callable[[Verdict], str]] = {
    "report": lambda verdict: markdown(findings(verdict)),
    "pull request": lambda verdict: for_pull_request(verdict.record, title="a"),
    "card": card,
}


@pytest.mark.parametrize("engine", ["sampling", "counting", "enumeration", "bounds"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", ["FAIR", "UNFAIR", "UNDECIDED", "CONSTANT"])
def test_every_output_has_the_same_sentence(word: str, kind: str, engine: str, capsys: Any) -> None:
    verdict, sentence = replace(verdict_of(word, kind), engine=engine), expected(word, kind)
    assert str(verdict).splitlines()[0] == verdict.record.sentence == sentence
    for name, written in HTML.items():
        assert sentence in unescape(re.sub("<[^>]+>", "", written(verdict))), name
    for name, written in MARKDOWN.items():
        assert sentence in re.sub(r"\\(.)", r"\1", written(verdict).replace("**", "")), name
    show_verdict(verdict, brief=True)
    assert capsys.readouterr().out == f"{sentence}\n"
    show_verdict(verdict)
    assert capsys.readouterr().out.replace("\n", " ").startswith(sentence)
    show_audit(Audit(word, False, Path("out"), (), findings(verdict)), Path("a.toml"), brief=True)
    assert capsys.readouterr().out.splitlines()[0] == sentence


def test_a_gap_that_is_the_threshold_and_a_rule_that_is_not_sound_are_said() -> None:
    at = replace(verdict_of("FAIR", "exact"), gap=Interval(0.1, 0.1, 0.1))
    assert str(at).splitlines()[0] == "FAIR: the largest gap is 0.1000, exactly the threshold 0.1"
    assert str(replace(at, sound=False)).startswith("FAIR (NOT SOUND): the largest gap")
