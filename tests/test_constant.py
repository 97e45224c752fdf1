"""Promises about a model that gives one decision to everything: its own outcome, in every output, unless allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairchain
from fairchain import Verdict, parse_spec, recheck, verify
from fairchain.certificate_format import digest
from fairchain.certificates import dump, make_certificate
from fairchain.report.junit import junit
from fairchain.report.markdown import for_pull_request
from fairchain.statements import CONSTANT_REFUSED
from fairchain.testing import UnfairError
from tests.cli.command import Cli
from tests.messages import says
from tests.networks import linear, save
from tests.questions import category, integer, question

pytest_plugins = ["pytester"]

LABELS = ["no", "maybe", "yes"]
NOTE = 'Constant model: all {} inputs that were tried got the decision "no"'
ALLOW = "--allow-constant, or allow_constant = true in [guarantee]"
TABLE = {"age": [1, 2, 3, 4] * 10, "sex": ["Female", "Male"] * 20}


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Says no, whatever it is shown."""
    return save(linear(np.zeros((2, 3)), [1.0, 0.0, 0.0]), tmp_path / "network.onnx")


def asked(network: Path, population: dict[str, Any] | None = None, guarantee: Any = None, **prop: Any) -> Any:
    data = question(integer("age"), category("sex", "Female", "Male"), labels=LABELS, path=str(network))
    data["property"] |= prop
    data["guarantee"] |= guarantee or {}
    return parse_spec(data | {"population": population or {"kind": "uniform"}})


QUESTIONS: dict[str, dict[str, Any]] = {
    "every label": {},
    "one label": {"outcome": "maybe"},
    "the label itself": {"outcome": "no"},
    "ratio of a label nobody gets": {"kind": "ratio", "threshold": 0.8, "outcome": "yes"},
    "ratio": {"kind": "ratio", "threshold": 0.8},
    "individual": {"kind": "individual"},
    "individual for one label": {"kind": "individual", "outcome": "yes"},
    "overall": {"compare": "overall"},
    "estimate": {"guarantee": {"epsilon": 0.05}},
    "rows": {"population": {"kind": "table", "as": "population"}},
    "sample": {"population": {"kind": "table", "as": "sample"}, "threshold": 0.6},
    "individual rows": {"population": {"kind": "table", "as": "population"}, "kind": "individual"},
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_kind_of_question_finds_a_constant_model_and_recheck_confirms_it(
    name: str, network: Path, tmp_path: Path
) -> None:
    spec = asked(network, **QUESTIONS[name])
    rows = TABLE if spec.population.__class__.__name__ == "Table" else None
    verdict = verify(None, spec, data=rows)
    assert (verdict.conclusion, verdict.constant, verdict.fair) == ("CONSTANT", "no", False)
    assert verdict.decision.name in ("FAIR", "UNDECIDED")
    path = tmp_path / "certificate.json"
    fairchain.write_certificate(verdict, path)
    found = recheck(path, network, data=rows)
    assert found.holds, [claim for claim in found.claims if not claim.holds]
    assert (found.verdict, found.constant) == ("CONSTANT", "no")
    allowed = verify(None, spec, data=rows, allow_constant=True)
    assert (allowed.conclusion, allowed.constant) == (allowed.decision.name, "no")
    assert any(note.startswith("Constant model, allowed: ") for note in allowed.notes)


def test_a_label_that_is_not_counted_still_counts_as_another_answer(network: Path) -> None:
    """Of three labels one is looked at: that nobody gets it says nothing of the other two."""
    save(linear([[1.0, 0.0, -9.0], [0.0, 0.0, 0.0]], [0.0, 4.5, -9.0]), network)  # no from age 5 on, else maybe
    for name in ("ratio of a label nobody gets", "individual for one label"):
        assert verify(None, asked(network, **QUESTIONS[name])).constant is None


def test_recorded_decisions_can_be_constant_too() -> None:
    spec = asked(Path("unused"), {"kind": "table", "as": "population", "prediction": "decision"})
    verdict = verify(None, spec, data=TABLE | {"decision": ["no"] * 40})
    assert (verdict.conclusion, verdict.constant) == ("CONSTANT", "no")
    assert verdict.notes[-1].startswith('Constant decisions: all 40 rows got the decision "no"')
    assert verify(None, spec, data=TABLE | {"decision": ["no"] * 38 + ["yes"] * 2}).constant is None


def test_a_rare_outcome_is_found_before_a_model_is_called_constant(network: Path, tmp_path: Path) -> None:
    """The verdict takes some 100 inputs; this outcome comes once in 1,000, and is found among 20,000.

    It is missed by chance with probability (1 - 1/1000)^20000 < 3e-9; the seed is fixed.
    """
    save(linear([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [0.0, -9e9, 998.5]), network)
    data = question(integer("age", 0, 999), category("sex", "Female", "Male"), labels=LABELS, path=str(network))
    verdict = verify(None, parse_spec(data))
    assert verdict.evaluations < 1000
    assert (verdict.conclusion, verdict.constant) == ("FAIR", None)
    fairchain.write_certificate(verdict, tmp_path / "c.json")
    assert recheck(tmp_path / "c.json", network).holds


def test_the_budget_holds_while_a_second_label_is_looked_for(network: Path) -> None:
    spec = asked(network, guarantee={"budget": {"rounds": 200, "seconds": 30}})
    verdict = verify(None, spec)
    assert isinstance(verdict.evidence, fairchain.verification.verdict.RunRecord)
    assert verdict.evidence.look is not None
    assert verdict.rounds + verdict.evidence.look.rounds <= 200
    assert verdict.conclusion == "CONSTANT"


@pytest.fixture
def verdict(network: Path) -> Verdict:
    return verify(None, asked(network))


def test_text_and_notebook_say_it(verdict: Verdict) -> None:
    note = NOTE.format(f"{20_000 + verdict.evaluations:,}")
    assert str(verdict).startswith('CONSTANT: every input that was tried got the decision "no", so groups cannot')
    assert [text.startswith(note) and ALLOW in text for text in verdict.notes] == [True]
    page = verdict._repr_html_()
    assert "<b>CONSTANT</b>" in page
    assert "Constant model: all" in page


def test_plain_values_say_it_where_a_gate_would_look(verdict: Verdict) -> None:
    plain = verdict.to_dict()
    assert (plain["verdict"], plain["decision"], plain["constant"]) == ("CONSTANT", "FAIR", "no")
    assert "Constant model" in plain["notes"][0]
    claims = make_certificate(verdict)["claims"]
    assert (claims["verdict"], claims["decision"], claims["constant"]) == ("CONSTANT", "FAIR", "no")


def test_build_servers_see_a_failure(verdict: Verdict) -> None:
    shown = junit({"audit.toml": verdict.record})
    assert 'failures="1" errors="0"' in shown
    assert 'type="CONSTANT"' in shown
    assert shown.count("Constant model: all") == 2
    summary = for_pull_request(verdict.record, title="audit.toml")
    assert "**CONSTANT**: every input that was tried got the decision" in summary
    assert "Constant model: all" in summary


def test_a_label_in_a_summary_stays_text(network: Path) -> None:
    data = question(integer("age"), category("sex", "Female", "Male"), labels=["<b>@no", "b", "c"], path=str(network))
    summary = for_pull_request(verify(None, parse_spec(data)).record, title="x")
    assert "<b>" not in summary
    assert "@no" not in summary


@pytest.mark.parametrize("undecided", ["fail", "pass"])
@pytest.mark.parametrize("name", ["every label", "ratio of a label nobody gets"])
def test_assert_fair_fails_with_the_reason_unless_it_is_allowed(name: str, undecided: str, network: Path) -> None:
    """Also where the mathematics leave it undecided, and the gate lets undecided models pass."""
    spec = asked(network, **QUESTIONS[name])
    with pytest.raises(UnfairError, match=says(CONSTANT_REFUSED)):
        fairchain.assert_fair(None, spec, undecided=undecided)
    if undecided == "pass" or name == "every label":
        assert fairchain.assert_fair(None, spec, undecided=undecided, allow_constant=True).constant == "no"


def test_a_spec_can_allow_it(network: Path) -> None:
    assert verify(None, asked(network, guarantee={"allow_constant": True})).fair


def test_tracking_logs_it(verdict: Verdict) -> None:
    from fairchain.tracking import tags_of

    tags = tags_of(verdict)
    assert (tags["fairness.verdict"], tags["fairness.constant"]) == ("CONSTANT", "no")


def test_a_constant_candidate_is_no_repair_and_a_constant_network_needs_none(network: Path) -> None:
    result = fairchain.repair(None, asked(network))
    assert (result.needed, result.accepted) == (False, False)
    assert result.before.conclusion == "CONSTANT"
    assert "Constant model" in result.notes[0]


def test_an_audit_and_its_pages_say_it_and_explain_nothing(network: Path, tmp_path: Path) -> None:
    import msgspec

    path = tmp_path / "audit.json"
    path.write_bytes(msgspec.json.encode(asked(network)))
    found = fairchain.audit(path, tmp_path / "audit")
    assert found.decision == "CONSTANT"
    page = found.report.read_text()
    assert '<div class="verdict CONSTANT"><span class="word">CONSTANT</span>' in page
    assert "got the decision &quot;no&quot;, so groups cannot differ" in page
    assert "Constant model: all" in page
    assert "Constant model: all" in (tmp_path / "audit" / "report.md").read_text()
    assert not (tmp_path / "audit" / "explanation.json").exists()
    assert fairchain.audit(path, tmp_path / "allowed", allow_constant=True).decision == "FAIR"


@pytest.mark.parametrize("command", ["verify", "repair", "audit"])
def test_commands_exit_with_3_and_with_0_if_it_is_allowed(
    command: str, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import msgspec

    path, cli = tmp_path / "audit.json", Cli(monkeypatch, capsys)
    path.write_bytes(msgspec.json.encode(asked(network)))
    output = {"verify": [], "repair": ["-o", tmp_path / "r.onnx"], "audit": ["-o", tmp_path / "audit", "--restart"]}
    for form in ([], ["-q"]):
        code, out, err = cli(command, path, *output[command], *form)
        assert (code, err) == (3, "")
        line = out.splitlines()[0]
        assert line.startswith("NOT NEEDED: " if command == "repair" else "CONSTANT: ")
        assert 'very input that was tried got the decision "no"' in line
    code, out, _ = cli(command, path, *output[command], "--json")
    plain = json.loads(out)["before"] if command == "repair" else json.loads(out)
    assert (code, plain["verdict"], plain["constant"]) == (3, "CONSTANT", "no")
    assert "Constant model: all" in plain["notes"][0]
    assert cli(command, path, *output[command], "--allow-constant")[0] == 0
    if command == "verify":
        code, out, _ = cli("verify", path, "--certificate", tmp_path / "c.json")
        assert out.count("Constant model: all") == 1
        code, out, _ = cli("recheck", tmp_path / "c.json", "--model", network)
        assert code == 0
        assert 'Constant model: every tested input got the decision "no".' in out
        _, out, _ = cli("card", tmp_path / "c.json")
        assert "**CONSTANT**" in out
        assert "Constant: every tested input got the decision `no`" in out
        _, out, _ = cli("compare", tmp_path / "c.json", tmp_path / "c.json")
        assert out.splitlines()[1].split() == ["verdict", "CONSTANT", "CONSTANT"]


def forged(verdict: Verdict, path: Path, change: Any) -> Path:
    content = json.loads(dump(make_certificate(verdict)))
    change(content)
    content["digest"] = digest(content)
    path.write_text(dump(content))
    return path


def hide(content: dict[str, Any], *, label: int = 2) -> None:
    """Say that another label was seen in the first batch, and nowhere that the model is constant."""
    content["evidence"]["batches"][0]["labels"] = sorted({0, label})
    content["evidence"]["look"] = None
    content["claims"] |= {"verdict": content["claims"]["decision"], "constant": None}


@pytest.mark.parametrize("name", ["every label", "one label", "individual", "individual for one label", "estimate"])
@pytest.mark.parametrize("seconds", [60.0, 0.0])
def test_a_constant_model_cannot_be_certified_as_another(
    name: str, seconds: float, network: Path, tmp_path: Path
) -> None:
    """Also where the label that is claimed is not counted, and only a sample of the evaluations is run again."""
    path = forged(verify(None, asked(network, **QUESTIONS[name])), tmp_path / "c.json", hide)
    assert not recheck(path, network, seconds=seconds, seed=1).holds


def test_a_second_label_cannot_be_claimed_of_inputs_that_are_not_counted(network: Path, tmp_path: Path) -> None:
    def claim(content: dict[str, Any]) -> None:
        content["evidence"]["look"]["labels"] = [0, 2]
        content["claims"] |= {"verdict": "FAIR", "constant": None}

    def claim_as_older_certificates(content: dict[str, Any]) -> None:
        claim(content)
        del content["claims"]["tipping"]

    verdict = verify(None, asked(network))
    # A constant model has no tipping factor, and a fair one has; older certificates do not speak of it.
    for change, wrong in ((claim, ["intervals", "labels"]), (claim_as_older_certificates, ["labels"])):
        found = recheck(forged(verdict, tmp_path / "c.json", change), network)
        assert [each.name for each in found.claims if not each.holds] == wrong


def test_an_allowance_that_was_not_given_is_found(network: Path, tmp_path: Path) -> None:
    verdict = verify(None, asked(network))
    path = forged(verdict, tmp_path / "c.json", lambda content: content["claims"].update(verdict="FAIR"))
    assert [each.name for each in recheck(path, network).claims if not each.holds] == ["verdict"]
    path = forged(
        verify(None, verdict.spec, allow_constant=True), tmp_path / "c.json", lambda _: None
    )  # fmt: skip
    assert recheck(path, network).holds
    found = recheck(path, network, spec=verdict.spec)
    assert [each.name for each in found.claims if not each.holds] == ["question"]


def test_a_marked_test_fails_with_the_reason(network: Path, pytester: pytest.Pytester) -> None:
    import msgspec

    (pytester.path / "audit.json").write_bytes(msgspec.json.encode(asked(network)))
    pytester.makepyfile(
        """
import pytest
@pytest.mark.fairchain("audit.json")
def test_constant(): pass
@pytest.mark.fairchain("audit.json", allow_constant=True)
def test_allowed(fairchain_verdict): assert fairchain_verdict.constant == "no"
"""
    )
    found = pytester.runpytest_inprocess("--strict-markers")
    found.assert_outcomes(failed=1, passed=1)
    found.stdout.fnmatch_lines(["*CONSTANT: every input that was tried got the decision*", "*--allow-constant*"])
