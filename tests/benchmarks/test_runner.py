"""The benchmarks in small: parts run, what they find is written, and a broken limit is seen.

Nothing here looks at a clock. Statistical tests have fixed seeds, so that they fail always or never.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]


def module(name: str) -> Any:
    return import_module(f"benchmarks.{name}")


@pytest.fixture
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use tiny sizes, two cases and few other methods."""
    sizes = replace(
        module("sizes").QUICK,
        seeds=1,
        truth=8192,
        repetitions=2,
        explained=500,
        report=(3, 5, 2),
    )
    comparison = module("parts.comparison")
    monkeypatch.setitem(module("__main__").SIZES, "quick", sizes)
    cases = [case for case in module("cases").embedded() if case.name in ("census sex", "credit age")]
    monkeypatch.setattr(module("cases"), "embedded", lambda: cases)
    # Kept counts are compared by `make bench`; here there are none.
    monkeypatch.setattr(module("__main__"), "COUNTS", Path("missing.json"))
    monkeypatch.setattr(comparison, "_fairlearn_table", lambda *_: (module("results").Table("", [], []), 1.0))
    monkeypatch.delitem(comparison.METHODS, "fixed sample 1e-6")
    # Without rows there is one repair all the same.
    monkeypatch.setattr(module("parts.repair"), "embedded_cases", lambda: iter([]))


# The others are run by `make bench`.
PARTS = [
    "verification",
    "repair",
    "chain_growth",
    "sensitivity",
    "planted",
    "comparison",
    "error_split",
    "stakes",
    "limits",
]
PARTS += ["large_report"]


@pytest.mark.usefixtures("_tiny")
def test_the_parts_run_and_everything_counted_holds(tmp_path: Path) -> None:
    main = module("__main__").main
    # Without counts to compare with a run fails, and nothing else does.
    assert main([*PARTS, "--output", str(tmp_path)]) == 1
    page = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    failing = [line for line in page.splitlines() if "**FAILS**" in line]
    assert failing
    assert all("NOTHING TO COMPARE" in line for line in failing)
    for name in PARTS:
        assert f"## {module('__main__').PARTS[name]}\n" in page
    for line in page.splitlines():
        if line.startswith("| network | case |"):
            heads = [head.strip() for head in line.strip("|").split("|")]
            # What a reader can follow: few columns, each with a head of its own.
            assert len(heads) <= 10, heads
            assert len(set(heads)) == len(heads), heads
    for file in ("growth.svg", "sensitivity-census.svg", "sensitivity-features.svg", "sensitivity-neurons.svg"):
        assert f"results/{file}" in page
        assert ElementTree.parse(tmp_path / "results" / file).getroot().tag.endswith("svg")
    kept = module("results").kept_counts(tmp_path / "missing.json")
    assert {"verification", "chain_growth", "planted", "comparison", "stakes"} == set(kept)


def test_every_part_has_a_module_that_runs_it_and_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    program = module("__main__")
    assert all(callable(module(f"parts.{name}").run) for name in program.PARTS)
    assert program.main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(program.PARTS)
    assert sorted(part for parts in program.PAGES.values() for part in parts) == sorted(program.PARTS)


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        module("__main__").main(["grwth"])
    assert "unknown part 'grwth'; expected one of verification," in capsys.readouterr().err


def test_no_two_modules_have_the_same_name() -> None:
    files = [path.name for path in (ROOT / "benchmarks").rglob("*.py") if path.name != "__init__.py"]
    packages = [p.name for p in (ROOT / "benchmarks").rglob("*") if p.is_dir() and "out" not in p.parts]
    assert [name for name, count in Counter(files).items() if count > 1] == []
    assert [name for name, count in Counter(packages).items() if count > 1 and name != "__pycache__"] == []


def test_something_that_does_not_hold_sets_the_exit_code_unless_it_rests_on_the_clock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, main = module("results"), module("__main__").main
    for enforced, code in ((True, 1), (False, 0)):
        check = results.Check("a promise", False, "2", "1", enforced)
        found = results.PartResult("Text.", [], [check], behind=["slower somewhere"])
        monkeypatch.setattr(module("parts.chain_growth"), "run", lambda *_, found=found: found)
        assert main(["chain_growth", "--output", str(tmp_path)]) == code
        assert ("fails: chain_growth: a promise" in capsys.readouterr().out) == enforced
        page = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
        assert ("**FAILS**" in page) == enforced
        assert "- slower somewhere" in page


def test_parts_that_run_one_by_one_replace_their_sections_of_the_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    results, program = module("results"), module("__main__")
    monkeypatch.setattr(program, "HERE", tmp_path)
    monkeypatch.setattr(program, "COUNTS", tmp_path / "counts.json")
    monkeypatch.setattr(program, "PAGES", {"RESULTS.md": ["stakes", "chain_growth"]})

    def found(name: str, seeds: int) -> Any:
        table = results.Table(
            "Table", [results.Column("what"), results.Column("count", ",d")], [[name, 1234], ["", None]]
        )
        series = results.Series("line", [(1.0, 2.0), (3, 4.5)], spread=[(0.5, 1.5), (1, 2)])
        plot = results.Plot(f"{name}.svg", "Title", "x", "y", [series])
        return results.PartResult(
            f"About {name}.", [table], [results.Check("a", True, "2", "1")], {"seeds": seeds}, [plot], counts={"n": [1]}
        )

    def run(name: str, seeds: int) -> None:
        monkeypatch.setattr(module(f"parts.{name}"), "run", lambda *_: found(name, seeds))
        assert program.main([name, "--size", "paper"]) == 0

    run("chain_growth", 1)
    page = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "About chain_growth." in page
    assert "| Stakes of the bets | - | - | not measured yet |" in page
    run("stakes", 2)
    run("chain_growth", 3)
    page = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert page.index("About stakes.") < page.index("About chain_growth.")
    assert "seeds 3" in page
    assert "seeds 1" not in page
    assert page.count("| stakes | 1,234 |") == 1
    assert (tmp_path / "results" / "stakes.svg").exists()
    assert set(results.kept_counts(tmp_path / "counts.json")) == {"stakes", "chain_growth"}
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(program, "PAGES", {"RESULTS.md": ["chain_growth", "stakes"]})
    assert program.main(["--rewrite"]) == 0
    again = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert again.index("About stakes.") > again.index("About chain_growth.")


def test_an_interrupted_run_has_written_the_parts_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    found = module("results").PartResult("About growth.", [])
    monkeypatch.setattr(module("parts.chain_growth"), "run", lambda *_: found)
    monkeypatch.setattr(module("parts.stakes"), "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        module("__main__").main(["chain_growth", "stakes", "--output", str(tmp_path)])
    assert "About growth." in (tmp_path / "RESULTS.md").read_text(encoding="utf-8")


def test_some_modes_do_not_replace_the_section_about_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = module("__main__")
    monkeypatch.setattr(program, "HERE", tmp_path)
    monkeypatch.setattr(module("parts.calibration"), "run", lambda *_: module("results").PartResult("Modes.", []))
    assert program.main(["calibration", "--size", "paper", "--modes", "repair"]) == 0
    assert not (tmp_path / "CALIBRATION.md").exists()
    assert "Modes." in (tmp_path / "out" / "CALIBRATION.md").read_text(encoding="utf-8")
    assert program.main(["calibration", "--size", "paper"]) == 0
    assert "Modes." in (tmp_path / "CALIBRATION.md").read_text(encoding="utf-8")
