"""The page that a stranger reads: its table of parts, what each section states, and what a new run replaces."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fairchain.errors import OutputError

ROOT = Path(__file__).resolve().parents[2]
PARTS = {"stakes": "Stakes of the bets", "growth": "Time: states", "speed": "Speed"}


def module(name: str) -> Any:
    return import_module(f"benchmarks.{name}")


def part(load: float | None = None, name: str = "growth", **changes: Any) -> Any:
    results = module("results")
    table = results.Table("T", [results.Column("delta", "g"), results.Column("n", ",.0f")], [[1e-6, 1234.4]], "a note")
    plain = results.PartResult("Text.", [table], settings={"seeds": "0 to 4"})
    machine = replace(module("measuring").this_machine(load), revision="abc1234")
    return module("page").PartRun(name, PARTS[name], "paper", "2026-11-18", 1234.5, machine, replace(plain, **changes))


def written(page: Path, *runs: Any) -> str:
    module("page").write(page, PARTS, runs)
    return page.read_text(encoding="utf-8")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return tmp_path / "RESULTS.md"


def test_a_section_states_when_where_and_how_it_was_measured_and_what_holds(page: Path) -> None:
    check = module("results").Check
    checks = [check("a", True, "1", "1"), check("b", False, "2", "1"), check("c", False, "2", "1", False)]
    run = part(0.3, checks=checks, behind=["slower somewhere"])
    section = module("page").read_sections(written(page, run))["growth"]
    assert section.startswith("## Time: states\n\n- **Measured** on 2026-11-18 in 1,234 s: part `growth`, size paper\n")
    machine = run.machine
    assert f"- **Version**: fairchain {machine.versions['fairchain']}, commit abc1234\n" in section
    assert f"- **Machine**: {machine.processor}, {machine.cores} cores, {machine.system}; Python" in section
    assert f"numpy {machine.versions['numpy']}, " in section
    assert "- **Settings**: seeds 0 to 4\n- **Checks that hold**: 1 of 3; failing: 1\n\nText.\n" in section
    assert "| a | 1 | 1 | holds |\n| b | 2 | 1 | **FAILS** |\n| c | 2 | 1 | no (not required at this size) |" in section
    assert "**Where fairchain is not ahead**\n\n- slower somewhere\n" in section
    assert "### T\n\n| delta | n |\n| ---: | ---: |\n| 1e-6 | 1,234 |\n\na note" in section


def test_the_head_lists_all_parts_in_order_with_what_their_sections_state(page: Path) -> None:
    check = module("results").Check("a", True, "1", "1")
    head, _, _ = written(page, part(checks=[check]), part(name="stakes")).partition("<!-- part ")
    version = f"fairchain {module('measuring').__version__}, commit abc1234"
    rows = [line for line in head.partition("## What is not comparable")[0].splitlines() if line.startswith("| ")][2:]
    assert rows == [
        f"| [Stakes of the bets](#stakes-of-the-bets) | 2026-11-18 | {version} | no checks |",
        f"| [Time: states](#time-states) | 2026-11-18 | {version} | 1 of 1 |",
        "| Speed | - | - | not measured yet |",
    ]


def test_a_run_replaces_its_section_and_no_other(page: Path) -> None:
    sections = module("page").read_sections
    before = sections(written(page, part(), part(name="stakes")))
    after = sections(written(page, part(text="Other text.")))
    assert list(after) == ["stakes", "growth"]
    assert after["stakes"] == before["stakes"]
    assert after["growth"] == before["growth"].replace("Text.", "Other text.")


def test_a_section_of_an_earlier_version_keeps_its_title_and_its_words(page: Path) -> None:
    text = written(page, part(name="stakes")).replace("Stakes of the bets", "Old: stakes").replace("Text.", "Old text.")
    page.write_text(text.replace("commit abc1234", "commit abc1234; an earlier rule"), encoding="utf-8")
    text = written(page, part())
    assert "| [Old: stakes](#old-stakes) | 2026-11-18 |" in text
    assert ", commit abc1234; an earlier rule | no checks |" in text
    assert "Old text." in text


def test_writing_twice_gives_the_same_bytes(page: Path) -> None:
    runs = [part(text="Text.\n"), part(name="speed")]
    first = written(page, *runs)
    assert [written(page, *runs), written(page, *runs[1:]), written(page)] == [first] * 3


def test_an_interrupted_write_leaves_the_old_page_and_its_figures(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = module("results")
    plot = results.Plot("growth.svg", "Title", "x", "y", [results.Series("line", [(1.0, 2.0), (3, 4.5)])])
    before = written(page, part(plots=[plot]))
    figure = page.parent / "results" / "growth.svg"
    drawn = figure.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OutputError, match="no space"):
        written(page, part(text="Other text.", plots=[replace(plot, title="Other title")]))
    monkeypatch.undo()
    assert page.read_text(encoding="utf-8") == before
    assert figure.read_bytes() == drawn
    assert sorted(path.name for path in page.parent.rglob("*") if path.is_file()) == ["RESULTS.md", "growth.svg"]


@pytest.mark.parametrize(("others", "shown"), [(None, " unknown"), (0.3, " 0.3"), (1.4, " 1.4 (*busy*)")])
def test_a_part_that_was_run_on_a_busy_machine_is_marked(others: float | None, shown: str, page: Path) -> None:
    assert f"; cores used by other programs{shown}\n" in written(page, part(others))


@pytest.mark.parametrize(
    ("changed", "shown"), [("", "abc1234"), (" M src/fairchain/errors.py", "abc1234 with changes"), (None, "unknown")]
)
def test_the_commit_is_marked_if_code_differs_from_it(
    changed: str | None, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    measuring = module("measuring")

    def git(command: str, *_: str) -> str:
        if changed is None:
            raise FileNotFoundError("git")
        return {"rev-parse": "abc1234", "status": changed}[command]

    monkeypatch.setattr(measuring, "_git", git)
    assert measuring.this_machine().revision == shown


def test_only_what_others_did_counts_as_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = module("measuring")
    now = {"clock": 0.0, "busy": 100.0, "own": 7.0}
    monkeypatch.setattr(machine.time, "perf_counter", lambda: now["clock"])
    monkeypatch.setattr(machine, "_busy_seconds", lambda: now["busy"])
    monkeypatch.setattr(machine, "_own_seconds", lambda: now["own"])
    watch = machine.LoadWatch()
    now.update(clock=10.0, busy=119.0, own=15.0)
    assert watch.others() == pytest.approx(1.1)
    now.update(busy=None)
    assert watch.others() is None


@pytest.mark.parametrize("name", ["RESULTS.md", "CALIBRATION.md"])
def test_the_kept_pages_are_what_their_sections_give(name: str) -> None:
    page, program = module("page"), module("__main__")
    kept = (ROOT / "benchmarks" / name).read_text(encoding="utf-8")
    sections = page.read_sections(kept)
    assert [part for part in program.PAGES[name] if part in sections] == list(sections)
    # After a change to the parts or to the texts around them: python -m benchmarks --rewrite
    assert page.render(sections, program.titles(name), name) == kept
    assert "Written by python -m benchmarks;" in kept
    rows = kept.partition("## Parts")[2].partition("\n## ")[0].splitlines()[6:]
    assert [row for row in rows if " | - | " in row and "not measured yet" not in row] == []


def test_the_figures_of_the_kept_page_are_there() -> None:
    kept = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"!\[.*\]\(results/(.+)\)", kept))
    assert shown == {path.name for path in (ROOT / "benchmarks" / "results").iterdir()}


def test_a_page_has_the_exact_tools_of_the_docs() -> None:
    page = module("page")
    assert "| FairSquare (2017) |" in page.exact_tools()
    assert page.exact_tools() in page.render({}, PARTS)


def test_cells_are_escaped_and_missing_ones_are_marked(page: Path) -> None:
    results = module("results")
    table = results.Table("T", [results.Column("a"), results.Column("b", ",.1f")], [["x|y", 1234.56], ["z", None]])
    assert "| x\\|y | 1,234.6 |\n| z | - |" in written(page, part(tables=[table]))
