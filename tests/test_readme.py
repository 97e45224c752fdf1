"""The README is true: its commands run, and its output is what they print."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fairchain import __version__
from tests.auditing.builders import few_inputs
from tests.cli.test_commands import Cli

README = Path(__file__).parents[1] / "README.md"
MAKEFILE = README.with_name("Makefile")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False)


def fairchain(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, "-c", "from fairchain.cli import main; main()", *arguments], folder)


def masked(line: str) -> str:
    """Without numbers, and without the names of units."""
    return re.sub(r"-?\d+\.\d+|layer\d+\[\d+\]|[\w-]+ = [\w ]+?(?= \d)", "#", line)


def test_the_demo_prints_what_is_shown_and_the_commands_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One test for both: the audit of the commands is that of the demo, and finds its stages finished."""
    assert "fairchain demo --report demo-report\n" in MAKEFILE.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with few_inputs():
        printed = Cli(monkeypatch, capsys)("demo", "credit", "--report", "demo-report")[1].splitlines()
    verdict, audit = ([line for line in block.splitlines() if line != "..."] for block in blocks("text"))
    assert [line for line in verdict if line not in printed] == []
    # Few people say the same with other numbers.
    assert [line for line in audit if masked(line) not in map(masked, printed)] == []
    (tmp_path / "demo-report").rename(tmp_path / "report")

    commands = [line[2:].split("#")[0] for block in blocks("console") for line in block.splitlines()]
    ours = [shlex.split(line)[1:] for line in commands if line.startswith("fairchain")]
    assert [arguments[0] for arguments in ours] == ["demo", "verify", "recheck", "audit"]
    assert [fairchain(arguments, tmp_path).returncode for arguments in ours] == [0, 1, 0, 1]


def test_it_is_short_and_shows_the_report() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    assert "](docs/report.png)" in text


def test_the_call_with_a_model_and_a_frame_runs(tmp_path: Path) -> None:
    """On a frame with `sex` and `income`, and a model of it."""
    prepared = """
import numpy as np, pandas as pd
from sklearn.linear_model import LogisticRegression
rng = np.random.default_rng(0)
frame = pd.DataFrame({"age": rng.integers(17, 90, 300), "sex": rng.integers(0, 2, 300)})
frame["income"] = np.where(frame["age"] + rng.normal(0, 20, 300) > 50, "high", "low")
model = LogisticRegression().fit(frame[["age", "sex"]], frame["income"])
frame[["sex", "income"]].to_csv("decisions.csv", index=False)
"""
    (call,) = blocks("python")
    result = run([sys.executable, "-c", f"{prepared}{call}\nprint(verdict.decision.name)"], tmp_path)
    *shown, decision = result.stdout.strip().splitlines() or ("", result.stderr)
    assert any(line.startswith("Assumed: ") for line in shown)
    assert decision in ("FAIR", "UNFAIR", "UNDECIDED")
    recorded = fairchain(["check", "decisions.csv", "--protected", "sex", "--prediction", "income"], tmp_path)
    assert recorded.returncode in (0, 1, 3), recorded.stderr
    (tmp_path / "my_module.py").write_text(f"{prepared}frame.to_csv('data.csv', index=False)\n", encoding="utf-8")
    run([sys.executable, "my_module.py"], tmp_path)
    reference = "python:my_module:model"
    drafted = fairchain(["init", reference, "data.csv", "-o", "spec.toml"], tmp_path)
    assert drafted.returncode == 0, drafted.stderr
    audited = fairchain(["audit", "spec.toml", "--model", reference, "-o", "report", "--no-repair"], tmp_path)
    assert audited.returncode in (0, 1, 3), audited.stderr
    assert (tmp_path / "report/report.html").exists()


@pytest.mark.parametrize("page", [*sorted((README.parent / "docs").glob("*.md")), README], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r'\]\((?!https?:|")([^)#]+)', page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_paragraphs_have_at_most_four_lines() -> None:
    text = re.sub(r"(?s)^```.*?^```$", "", README.read_text(encoding="utf-8"), flags=re.MULTILINE)
    paragraphs = [each.strip().splitlines() for each in text.split("\n\n")]
    assert [lines[0] for lines in paragraphs if len(lines) > 4 and lines[0][:1] not in "|-"] == []


def test_the_changelog_has_the_headings_of_keep_a_changelog_and_the_newest_version_first() -> None:
    text = (README.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= {
        "Added", "Changed", "Deprecated", "Removed", "Fixed", "Security",
    }  # fmt: skip
    versions = re.findall(r"^## \[(\d+)\.(\d+)\.(\d+)\] - (?:Unreleased|\d{4}-\d\d-\d\d)$", text, re.MULTILINE)
    assert len(versions) == len(re.findall(r"^## ", text, re.MULTILINE))
    assert versions == sorted(versions, key=lambda version: [int(part) for part in version], reverse=True)
    assert ".".join(versions[0]) == __version__
