"""The pages in docs/ are true: their commands run one after the other and print what is shown."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


def sessions(page: str) -> list[tuple[list[str], list[str]]]:
    """(arguments, lines shown) of every `$ fairchain ...` on a page."""
    found: list[tuple[list[str], list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((shlex.split(line[2:]), []))
            elif found:
                found[-1][1].append(line)
    return found


def fairchain(arguments: list[str], folder: Path) -> list[str]:
    code = "from fairchain.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert ended.returncode in (0, 1, 3), ended.stderr
    return ended.stdout.splitlines()


@pytest.mark.network
def test_what_is_said_about_the_rows_of_the_census(tmp_path: Path) -> None:
    for arguments, shown in sessions("populations.md"):
        assert arguments[0] == "fairchain"
        printed = fairchain(arguments[1:], tmp_path)
        assert [line for line in shown if line != "..." and line not in printed] == []


@pytest.mark.network
def test_what_is_said_about_the_comments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # 132 MB: a cache that somebody keeps is used.
    if "FAIRCHAIN_CACHE" not in os.environ:
        monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path / "cache"))
    for arguments, shown in sessions("text.md"):
        printed = fairchain(arguments[1:], tmp_path)
        assert [line for line in shown if line != "..." and line not in printed] == []


@pytest.mark.parametrize("page", ["audit.md", "chain.md", "explain.md", "queries.md", "repair.md"])
def test_the_python_of_the_chain_pages_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block by itself; in this process, since most of the time of another would go into imports."""
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(compile(block, page, "exec"), {"__name__": "__main__"})


def test_the_python_of_the_models_page_runs(tmp_path: Path) -> None:
    from fairchain import example

    (tmp_path / "audit.toml").write_text(example("census").read_text(encoding="utf-8"), encoding="utf-8")
    block = re.findall(r"```python\n(.*?)```", (DOCS / "models.md").read_text(encoding="utf-8"), flags=re.DOTALL)[0]
    subprocess.run([sys.executable, "-c", block], cwd=tmp_path, check=True, capture_output=True)


def test_the_architecture_page_names_every_module() -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    package = DOCS.parent / "src" / "fairchain"
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
    assert [name for name in files if not (DOCS.parent / "src" / "fairchain" / name).exists()] == []
