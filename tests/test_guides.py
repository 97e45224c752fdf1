"""Notebooks run; the pages and pictures of docs/ that programs write are up to date."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

import fairchain
from fairchain.cli.exit_codes import BAD_INPUT, CLOSED_PIPE, INTERRUPTED, OUR_BUG, TERMINATED, VERDICT_EXIT_CODES

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


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


@pytest.mark.transformers
def test_the_notebook_of_a_transformer_finds_what_its_raters_did(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = notebook("text")
    printed = capsys.readouterr().out
    assert "UNFAIR the largest gap" in printed
    assert "'source'" in printed
    assert "REPAIRED" in printed
    # The certificate holds.
    assert True in [value for value in shown if isinstance(value, bool)]


def test_every_page_has_one_title() -> None:
    """Further titles would stand beside the page in the contents of the site, as if they were pages."""
    for path in DOCS.glob("*.md"):
        prose = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        assert len(re.findall(r"^# ", prose, re.MULTILINE)) <= 1, path.name


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
        re.findall(r"^(?:### |\| `)(\w+)", pages["python.md"](), re.MULTILINE)
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
    from fairchain.certificate_format import BatchEvidence
    from fairchain.report.comparison import compare, contents_of

    reference = load("make_reference")
    verdict = fairchain.verify(None, fairchain.example("credit"), certify=True)
    certificate = fairchain.make_certificate(verdict)
    assert list(reference.VERDICT) == list(verdict.to_dict())
    assert list(reference.CERTIFICATE) == list(certificate)
    assert list(reference.BATCH) == list(BatchEvidence.__struct_fields__)
    contents = contents_of(certificate)
    assert list(reference.COMPARISON) == list(compare(contents, contents).to_dict())
    left_out = {"seconds", "witnesses", "free_regions", "forecast", "notes", "assumptions", "unseen"}
    assert set(certificate["claims"]) == set(reference.VERDICT) - left_out
    assert set(reference.EXIT_CODES) == {
        *VERDICT_EXIT_CODES.values(),
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
