"""The pages in docs/ are true: their code, commands and specs run one after the other and print what is shown.

Every block of Python, of commands (`console`, `sh`) and of TOML runs. Comments before a block change that:

    <!-- needs: MARK -->           it runs under this mark of pytest, after the blocks of the page that need the same
    <!-- file: NAME -->            it is a file, which the blocks after it use
    <!-- numbers vary: REASON -->  lines that are shown are compared without their numbers
    <!-- parsed: REASON -->        the arguments of its commands are checked; the commands do not run
    <!-- not run: REASON -->       it needs what a test cannot have
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest

import fairchain
from fairchain.cli.app import app, run
from tests.auditing.builders import few_inputs

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# Written from the program itself: usage lines and signatures, whose examples are tested where they are written.
GENERATED = {"commands.md", "python.md", "reference.md"}
# Has a test of its own, and trains a model.
START = "start.md"
MARKS = ("needs", "file", "numbers vary", "parsed", "not run")
FENCE = re.compile(
    rf"^(?P<marks>(?:<!-- (?:{'|'.join(MARKS)}): [^\n]+ -->\n)*)"
    r"```(?P<language>python|console|sh|toml)\n(?P<text>.*?)^```$",
    flags=re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, with the comments before it."""

    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)

    @property
    def needs(self) -> str:
        return self.marks.get("needs", "")


def blocks(page: str) -> list[Block]:
    found = FENCE.finditer((DOCS / page).read_text(encoding="utf-8"))
    return [
        Block(each["language"], each["text"], dict(re.findall(r"<!-- (.+?): (.+) -->", each["marks"])))
        for each in found
    ]


def sessions(text: str) -> list[tuple[str, list[str]]]:
    """(command, lines shown) of every `$ command` in a block."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def masked(line: str) -> str:
    """A line without numbers, bars and the blanks that depend on them."""
    return re.sub(r"[\s·━●│]+", " ", re.sub(r"[-+]?\d[\d.,]*(e-\d+)?", "#", line)).strip()


class Reader:
    """Follows a page: runs its blocks, in order, in one folder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self.codes: list[int] = []

    def follow(self, block: Block, *, vary: bool = False) -> None:
        if "file" in block.marks:
            Path(block.marks["file"]).write_text(block.text, encoding="utf-8")
        if block.language == "python":
            exec(compile(block.text, "<docs>", "exec"), self._names)
        elif block.language == "toml":
            check_keys(tomllib.loads(block.text))
        else:
            console = block.language == "console"
            for command, shown in sessions(block.text) if console else [(line, []) for line in block.text.splitlines()]:
                if "parsed" in block.marks:
                    parse(command)
                else:
                    self.command(command, shown, vary=vary or "numbers vary" in block.marks)

    def command(self, line: str, shown: Sequence[str] = (), *, vary: bool = False) -> str:
        program, *arguments = shlex.split(line, comments=True)
        if program == "python":
            return subprocess.run(
                [sys.executable, *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
            ).stdout
        assert program == "fairchain", f"a test cannot run {line!r}: say why before the block"
        self._capsys.readouterr()
        self._monkeypatch.setattr(sys, "argv", ["fairchain", *arguments])
        with pytest.raises(SystemExit) as ended:
            run()
        printed = self._capsys.readouterr()
        self.codes.append(int(ended.value.code or 0))
        assert self.codes[-1] in (0, 1, 3), printed.err
        seen = masked if vary else str.rstrip
        lines = [seen(each) for each in (printed.out + printed.err).splitlines()]
        assert [each for each in shown if each != "..." and seen(each) not in lines] == [], line
        return printed.out


def parse(line: str) -> None:
    """Check that a command, at the end of a pipe if there is one, has its options and arguments."""
    program, *arguments = shlex.split(line.rpartition("| ")[2], comments=True)
    assert program == "fairchain"
    command: click.Command = app
    while isinstance(command, click.Group):
        command = command.commands[arguments.pop(0)]
    command.make_context(None, arguments)


def check_keys(table: dict[str, Any]) -> None:
    """Check a part of a spec: each key must be one that a spec has there, with a value of its type."""
    import jsonschema

    def partial(schema: Any) -> Any:
        if isinstance(schema, dict):
            return {key: partial(value) for key, value in schema.items() if key != "required"}
        return [partial(value) for value in schema] if isinstance(schema, list) else schema

    jsonschema.validate(table, partial(fairchain.spec.json_schema()))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with the examples that pages speak of."""
    monkeypatch.chdir(tmp_path)
    for path in fairchain.example("census").parent.iterdir():
        if path.suffix in (".toml", ".onnx"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "audit.toml").write_bytes((tmp_path / "credit.toml").read_bytes())
    return tmp_path


def pages() -> list[Any]:
    """Every page, once for each mark that blocks of it need."""
    found = []
    for page in sorted({path.name for path in DOCS.glob("*.md")} - GENERATED - {START}):
        mine = [block for block in blocks(page) if "not run" not in block.marks]
        for needs in dict.fromkeys(block.needs for block in mine):
            marks = [getattr(pytest.mark, mark) for mark in needs.split()]
            name = f"{page} {needs}".strip()
            found.append(pytest.param(page, [each for each in mine if each.needs == needs], marks=marks, id=name))
    return found


@pytest.mark.parametrize(("page", "steps"), pages())
def test_a_page_runs_from_its_first_line_to_its_last(
    page: str,
    steps: list[Block],
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Data sets are large: a cache that is kept is used.
    if "FAIRCHAIN_CACHE" not in os.environ:
        monkeypatch.setenv("FAIRCHAIN_CACHE", str(here / "cache"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (here / "store").as_uri())
    for name in ("MLFLOW_ALLOW_FILE_STORE", "MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        monkeypatch.setenv(name, "true")
    reader = Reader(monkeypatch, capsys)
    with few_inputs():
        for block in steps:
            reader.follow(block)


def test_a_comment_before_a_block_is_known_and_gives_a_reason() -> None:
    comment = re.compile(r"^<!-- ([\w ]+): (.+) -->\n(?:<!-- .*\n)*```", flags=re.MULTILINE)
    found = [each for page in DOCS.glob("*.md") for each in comment.findall(page.read_text(encoding="utf-8"))]
    assert {mark for mark, _ in found} <= set(MARKS)
    assert all(len(value.split()) > 2 for mark, value in found if mark in MARKS[2:]), found


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], here: Path) -> Reader:
    return Reader(monkeypatch, capsys)


def test_the_start_page_ends_with_a_repaired_model_that_a_test_accepts(reader: Reader, here: Path) -> None:
    (here / "audit.toml").unlink()
    for block in blocks(START):
        reader.follow(block, vary=True)
    # check twice, init, verify, recheck, explain, init, repair, before, after, compare, audit, card
    assert reader.codes == [1, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 0]
    assert (here / "audit" / "report.html").exists()
    reader.follow(Block("python", "test_loans_are_fair()"))


def test_the_ci_page_leaves_a_report_for_the_build_server(reader: Reader, here: Path) -> None:
    reader.follow(next(block for block in blocks("ci.md") if block.language == "console"))
    assert ElementTree.parse(here / "fairness.xml").getroot().get("failures") == "1"
    assert (here / "summary.md").read_text(encoding="utf-8").startswith("### Fairness: credit.toml")


def test_the_workflows_of_the_ci_page_call_commands_that_exist(reader: Reader, here: Path) -> None:
    page = (DOCS / "ci.md").read_text(encoding="utf-8")
    text = "\n".join(re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL))
    lines = re.findall(r"(?:run|entry|-):? (fairchain .*)", text)
    commands = [line.split("||")[0].replace("$GITHUB_STEP_SUMMARY", "summary.md") for line in lines]
    # In two workflows, once why, and once before a commit.
    assert [command.split()[1] for command in commands] == ["verify", "audit", "verify", "verify"]
    for command in commands:
        # An audit takes long, and has its own tests: here that it is called as it wants to be.
        reader.command(f"{command} --help" if command.startswith("fairchain audit") else command)
    assert (here / "summary.md").exists()


def test_the_hook_for_pre_commit_is_the_command_that_the_page_says(reader: Reader, here: Path) -> None:
    hook = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    entry = re.search(r"entry: (.*)", hook)
    assert entry is not None
    assert "id: fairchain-verify" in hook
    assert "id: fairchain-verify" in (DOCS / "ci.md").read_text(encoding="utf-8")
    assert reader.command(f"{entry[1]} census.toml").startswith("FAIR")


def test_the_projects_workflow_runs_the_tests_that_make_test_runs() -> None:
    chosen = r'-m "(not network .*?)"'
    makefile, workflow = (
        (ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", ".github/workflows/tests.yml")
    )
    assert set(re.findall(chosen, workflow)) == set(re.findall(chosen, makefile))


def anchors(page: Path) -> set[str]:
    """What can be linked to on a page."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.*)", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [*sorted(DOCS.glob("*.md")), ROOT / "README.md"], ids=lambda page: page.name)
def test_links_into_pages_lead_to_a_heading(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*\.md|)#([^)]+)\)", page.read_text(encoding="utf-8"))
    assert [f"{to}#{name}" for to, name in links if name not in anchors((page.parent / to) if to else page)] == []


def test_the_architecture_page_names_every_module() -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    package = ROOT / "src" / "fairchain"
    modules = [path.relative_to(package) for path in sorted(package.rglob("*.py")) if not path.name.startswith("_")]
    rows = [line for line in page.partition("## Packages")[2].splitlines() if line.startswith("| `")]
    missing = []
    for module in modules:
        inside = len(module.parts) > 1
        own = [row for row in rows if row.startswith(f"| `{module.parts[0]}/")] if inside else rows
        named = f"`{module.stem}`" if inside else f"`{module.name}`"
        if not any(named in row for row in own):
            missing.append(module.as_posix())
    assert missing == []


def test_the_files_that_the_architecture_page_points_to_exist() -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    files = re.findall(r"`([\w/]+\.py)`", page.partition("## Where is ...?")[2].partition("\n## ")[0])
    assert len(files) > 20
    assert [name for name in files if not (ROOT / "src" / "fairchain" / name).exists()] == []
