"""The guides in docs/ are true: tutorial, CI, cookbook and notebook run; reference and pictures are up to date.

Models are trained on the way, so numbers may differ between machines: what is shown is compared without them.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

import fairchain
from fairchain.cli.app import run
from fairchain.cli.exit_codes import BAD_INPUT, CLOSED_PIPE, INTERRUPTED, OUR_BUG, TERMINATED, VERDICTS

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with the examples that pages speak of."""
    monkeypatch.chdir(tmp_path)
    for name in ("census", "credit"):
        spec = fairchain.example(name)
        for path in (spec, spec.with_suffix(".onnx")):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


class Reader:
    """Follows a page: runs its Python blocks and its commands, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self.codes: list[int] = []

    def follow(self, page: str) -> None:
        for language, block in blocks(page, "python|console"):
            if language == "python":
                execute(block)
            else:
                for command, shown in sessions(block):
                    self.command(command, shown)

    def command(self, line: str, shown: list[str] | None = None) -> str:
        program, *arguments = shlex.split(line)
        assert program == "fairchain"
        self._capsys.readouterr()
        self._monkeypatch.setattr(sys, "argv", ["fairchain", *arguments])
        with pytest.raises(SystemExit) as ended:
            run()
        printed = self._capsys.readouterr()
        self.codes.append(int(ended.value.code or 0))
        assert self.codes[-1] in (0, 1, 3), printed.err
        lines = [masked(each) for each in (printed.out + printed.err).splitlines()]
        assert [each for each in shown or () if each != "..." and masked(each) not in lines] == [], line
        return printed.out


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], here: Path) -> Reader:
    return Reader(monkeypatch, capsys)


def blocks(page: str, languages: str) -> list[tuple[str, str]]:
    return re.findall(rf"```({languages})\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)


def sessions(block: str) -> list[tuple[str, list[str]]]:
    """(command, lines shown) of every `$ fairchain ...` in a block."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def masked(line: str) -> str:
    """A line without numbers, bars and the blanks that depend on them."""
    return re.sub(r"[\s·━●│]+", " ", re.sub(r"-?\d[\d.,]*(e-\d+)?", "#", line)).strip()


def execute(code: str, names: dict[str, Any] | None = None) -> Any:
    """Run Python, and give what its last line is worth, as a notebook would show it."""
    names = {"__name__": "__main__"} if names is None else names
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<docs>", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "<docs>", "eval"), names)


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def anchors(page: Path) -> set[str]:
    """What can be linked to on a page."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.*)", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [*sorted(DOCS.glob("*.md")), DOCS.parent / "README.md"], ids=lambda page: page.name)
def test_links_into_pages_lead_to_a_heading(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*\.md|)#([^)]+)\)", page.read_text(encoding="utf-8"))
    assert [f"{to}#{name}" for to, name in links if name not in anchors((page.parent / to) if to else page)] == []


def test_the_tutorial_runs_from_the_first_line_to_the_last(reader: Reader, here: Path) -> None:
    reader.follow("tutorial.md")
    # init, verify, recheck, explain, init, repair, before, after, compare, audit, card
    assert reader.codes == [1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 0]
    assert (here / "audit" / "report.html").exists()
    test = blocks("tutorial.md", "python")[-1][1]
    execute(f"{test}\ntest_loans_are_fair()")


def test_the_commands_of_the_ci_page_run(reader: Reader, here: Path) -> None:
    for _, block in blocks("ci.md", "console"):
        for command, shown in sessions(block):
            reader.command(command, shown)
    assert ElementTree.parse(here / "fairness.xml").getroot().get("failures") == "1"
    assert (here / "summary.md").read_text(encoding="utf-8").startswith("### Fairness: credit.toml")


def test_the_workflows_of_the_ci_page_call_commands_that_exist(reader: Reader, here: Path) -> None:
    (here / "audit.toml").write_bytes((here / "credit.toml").read_bytes())
    text = "\n".join(block for _, block in blocks("ci.md", "yaml"))
    lines = re.findall(r"(?:run|entry|-):? (fairchain .*)", text)
    commands = [line.split("||")[0].replace("$GITHUB_STEP_SUMMARY", "summary.md") for line in lines]
    # In two workflows, once why, and once before a commit.
    assert [command.split()[1] for command in commands] == ["verify", "audit", "verify", "verify"]
    for command in commands:
        # An audit takes long, and has its own tests: here that it is called as it wants to be.
        reader.command(f"{command} --help" if command.startswith("fairchain audit") else command)
    assert (here / "summary.md").exists()


def test_the_hook_for_pre_commit_is_the_command_that_the_page_says(reader: Reader, here: Path) -> None:
    hook = (DOCS.parent / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    entry = re.search(r"entry: (.*)", hook)
    assert entry is not None
    assert "id: fairchain-verify" in hook
    assert "id: fairchain-verify" in (DOCS / "ci.md").read_text(encoding="utf-8")
    assert reader.command(f"{entry[1]} census.toml").startswith("FAIR")


def cookbook() -> list[Any]:
    """Every recipe, marked with what it needs."""
    marks = {"# torch": [pytest.mark.torch], "# keras": [pytest.mark.keras]}
    return [
        pytest.param(block, marks=marks.get(block.splitlines()[0], ()), id=f"recipe{i}")
        for i, (_, block) in enumerate(blocks("cookbook.md", "python"))
    ]


@pytest.mark.parametrize("recipe", cookbook())
def test_every_recipe_of_the_cookbook_runs(recipe: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = execute(recipe)
    printed = capsys.readouterr().out
    assert re.search("FAIR|UNFAIR|UNDECIDED|largest gap", printed) or "FAIR" in shown._repr_html_()


def notebook(name: str) -> list[Any]:
    """The values that the last lines of a notebook's code cells have; its cells are those of make_notebooks.py."""
    book = json.loads((DOCS / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in book["cells"]]
    assert cells == [cell.strip() for cell in load("make_notebooks").NOTEBOOKS[name]], "run docs/make_notebooks.py"
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] or "import" in "".join(cell["source"]) for cell in code)
    assert not any(output["output_type"] == "error" for cell in code for output in cell["outputs"])
    names: dict[str, Any] = {"__name__": "__main__"}
    return [execute("".join(cell["source"]), names) for cell in code]


def test_the_notebook_of_an_audit_runs_and_shows_what_it_promises(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = notebook("audit")
    pages = [value._repr_html_() for value in shown if hasattr(value, "_repr_html_")]
    assert [("UNFAIR" in page, "effect on the gap" in page) for page in pages[:2]] == [(True, False), (False, True)]
    assert len(pages) == 3
    assert True in shown
    printed = capsys.readouterr().out
    assert "for all i, j" in printed
    assert "UNFAIR: the largest gap is" in printed


@pytest.mark.boosting
@pytest.mark.network
def test_the_notebook_of_boosted_trees_runs_and_counts_what_the_model_predicts(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook("tabular")
    printed = capsys.readouterr().out
    exact, by_hand = next(line.split() for line in printed.splitlines() if line.startswith("0."))
    assert float(exact) == pytest.approx(float(by_hand), abs=1e-4)
    assert "UNFAIR the smallest ratio" in printed


def test_the_reference_is_up_to_date() -> None:
    reference = load("make_reference")
    assert (DOCS / "reference.md").read_text(encoding="utf-8") == reference.render(), "run docs/make_reference.py"


def test_commands_and_functions_are_described_as_they_are() -> None:
    """Of commands the options alone are compared: how click writes a usage line changes between its versions."""
    pages = load("make_pages").PAGES
    option = re.compile(r"^\| `([^` ]+)|^## (.+)$", re.MULTILINE)
    for name, page in pages.items():
        written, now = (DOCS / name).read_text(encoding="utf-8"), page()
        if name == "commands.md":
            assert option.findall(written) == option.findall(now), "run docs/make_pages.py"
        else:
            assert written == now, "run docs/make_pages.py"
    assert set(fairchain.__all__) - {"__version__"} == set(
        re.findall(r"^(?:## |\| `)(\w+)", pages["python.md"](), re.MULTILINE)
    )


def test_every_key_of_a_spec_is_described() -> None:
    reference = load("make_reference")
    definitions = fairchain.spec.json_schema()["$defs"]
    listed = {name for names in reference.PARTS.values() for name in names}
    assert listed == set(definitions) - {"Spec"}
    silent = [
        f"{name}.{key}"
        for name in listed
        for key, value in definitions[name].get("properties", {}).items()
        if key != "kind" and not value.get("description")
    ]
    assert silent == []


def test_the_fields_of_the_output_and_of_certificates_are_those_described() -> None:
    from fairchain.report.certificate_contents import contents_of
    from fairchain.report.comparison import compare

    reference = load("make_reference")
    verdict = fairchain.verify(None, fairchain.example("credit"), certify=True)
    certificate = fairchain.make_certificate(verdict)
    assert list(reference.VERDICT) == list(verdict.to_dict())
    assert list(reference.CERTIFICATE) == list(certificate)
    assert list(reference.BATCH) == list(certificate["evidence"]["batches"][0])
    contents = contents_of(certificate)
    assert list(reference.COMPARISON) == list(compare(contents, contents).to_dict())
    left_out = {"seconds", "witnesses", "free_regions", "forecast", "notes", "assumptions", "unseen"}
    assert set(certificate["claims"]) == set(reference.VERDICT) - left_out
    assert set(reference.EXIT_CODES) == {
        *VERDICTS.values(),
        BAD_INPUT,
        INTERRUPTED,
        TERMINATED,
        CLOSED_PIPE,
        OUR_BUG,
    }


def test_the_pictures_are_those_that_are_drawn() -> None:
    """Up to the last digit of a coordinate, which may be rounded otherwise on another machine."""
    pictures = load("pictures")
    number = re.compile(r"-?\d+(?:\.\d+)?")
    for name, draw in pictures.PICTURES.items():
        kept, drawn = (DOCS / name).read_text(encoding="utf-8"), draw()
        assert number.sub("#", kept) == number.sub("#", drawn), "run docs/pictures.py"
        pairs = zip(number.findall(kept), number.findall(drawn), strict=True)
        assert max(abs(float(one) - float(other)) for one, other in pairs) <= 0.11
        assert ElementTree.fromstring(kept).find("{http://www.w3.org/2000/svg}title") is not None


def test_the_papers_rule_is_as_wrong_as_the_picture_says() -> None:
    """Against a simulation of 4000 runs; five standard errors, a false alarm in 1.7 million."""
    import numpy as np

    pictures = load("pictures")
    rng = np.random.default_rng(0)
    rounds, runs = 1590, 4000
    for gap in (0.09, 0.12):
        first, second = (rng.binomial(rounds, p, runs) / rounds for p in (0.4, 0.4 + gap))
        above = (np.abs(second - first) > 0.1).mean()
        wrong = above if gap <= 0.1 else 1 - above
        assert wrong == pytest.approx(pictures.wrong_by_the_papers_rule(gap, rounds), abs=5 * 0.5 / runs**0.5)
