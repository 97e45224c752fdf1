"""The benchmark suite in small: parts run, what they find is kept and rendered, and a broken limit is seen.

Nothing here looks at a clock. Statistical tests have fixed seeds, so that they fail always or never.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest


def module(name: str) -> Any:
    return import_module(f"benchmarks.suite.{name}")


@pytest.fixture
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of almost nothing, two cases, few rivals, and no bare network."""
    sizes = replace(
        module("sizes").QUICK, seeds=1, truth=8192, repetitions=2, gaps=(0.02, 0.3, 0.1), most=3000, explained=500
    )
    comparison = module("comparison")
    monkeypatch.setitem(module("__main__").SIZES, "quick", sizes)
    cases = [case for case in module("cases").embedded() if case.name in ("census sex", "credit age")]
    monkeypatch.setattr(module("cases"), "embedded", lambda: cases)
    monkeypatch.setattr(module("boundary"), "GROUPS", (3,))
    monkeypatch.setattr(module("limits").bench, "against_bare_network", lambda _: iter([]))
    monkeypatch.setattr(comparison, "_fairlearn_table", lambda *_: module("outcome").Table("", [], []))
    monkeypatch.delitem(comparison.METHODS, "fixed sample 1e-6")


PARTS = ["verification", "repair", "growth", "sensitivity", "comparison", "boundary", "limits"]


@pytest.mark.usefixtures("_tiny")
def test_the_parts_run_and_everything_counted_holds(tmp_path: Path) -> None:
    main = module("__main__").main
    assert main(["--only", *PARTS, "--out", str(tmp_path)]) == 0
    page = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "**FAILS**" not in page
    for name in PARTS:
        assert f"## {module('__main__').PARTS[name]}\n" in page
    for file in ("growth.svg", "sensitivity-features.svg", "sensitivity-neurons.svg"):
        assert f"results/{file}" in page
        assert ElementTree.parse(tmp_path / "results" / file).getroot().tag.endswith("svg")
    # The page is made from what was kept, and from nothing else.
    (tmp_path / "RESULTS.md").unlink()
    assert main(["--render", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "RESULTS.md").read_text(encoding="utf-8") == page


def test_something_that_does_not_hold_sets_the_exit_code_unless_it_rests_on_the_clock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome, main = module("outcome"), module("__main__").main
    for enforced, code in ((True, 1), (False, 0)):
        check = outcome.Check("a promise", False, "2", "1", enforced)
        found = outcome.Found("Text.", [], [], [check], {}, ["slower somewhere"])
        monkeypatch.setattr(module("growth"), "run", lambda *_, found=found: found)
        assert main(["--only", "growth", "--out", str(tmp_path)]) == code
        assert ("does not hold: growth: a promise" in capsys.readouterr().out) == enforced
        page = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
        assert ("**FAILS**" in page) == enforced
        assert "- slower somewhere" in page


def test_a_part_is_read_as_it_was_kept(tmp_path: Path) -> None:
    outcome = module("outcome")
    table = outcome.Table("T", [outcome.Column("a"), outcome.Column("b", ",.1f")], [["x|y", 1234.56], ["z", None]], "n")
    plot = outcome.Plot("p.svg", "P", "x", "y", [outcome.Series("s", [(1.0, 2.0)])])
    machine = module("machine").this_machine()
    part = outcome.Part("growth", "G", "quick", {"n": 3}, "d", 1.0, machine, "text", [table], [plot], [], [])
    outcome.keep(part, tmp_path)
    assert outcome.kept("growth", tmp_path) == part
    assert outcome.kept("scaling", tmp_path) is None
    page = module("render").render([part])
    assert "| x\\|y | 1,234.6 |\n| z | - |" in page


def test_plots_stay_inside_their_frame() -> None:
    outcome, svg = module("outcome"), module("svg")
    lines = outcome.Plot(
        "a", "A < B", "x", "y", [outcome.Series("s", [(1.0, 1e-4), (1e6, 7.0)])], log_x=True, log_y=True
    )
    bars = outcome.Plot("b", "B", "", "y", [outcome.Series("s", [(0, -0.2), (1, 1.0)])], bars=["u", "v"])
    for plot in (lines, bars):
        root = ElementTree.fromstring(svg.drawn(plot))
        marks = [each for each in root.iter() if each.tag.endswith(("circle", "rect"))][1:]
        for mark in marks:
            x, y = float(mark.get("cx") or mark.get("x")), float(mark.get("cy") or mark.get("y"))
            assert 0 <= x <= svg.WIDTH
            assert 0 <= y <= svg.HEIGHT


def test_the_papers_rule_takes_as_many_traces_in_one_go_as_in_batches() -> None:
    case = next(case for case in module("cases").embedded() if case.name == "census race")
    verification = module("verification")
    once = verification.paper_rule(
        case, verification.truth_of(case, 4096), replace(module("sizes").QUICK, repetitions=1)
    )
    verdict = case.asked(0, guarantee__rule="paper", guarantee__delta=0.1)
    assert once.traces == verdict.evaluations


def test_counts_far_above_those_that_were_kept_are_seen(tmp_path: Path) -> None:
    outcome, verification, machine = module("outcome"), module("verification"), module("machine").this_machine()
    case = next(case for case in module("cases").embedded() if case.name == "census sex")
    asked = verification.asked(case, 1)
    for kept, holds in ((asked.evaluations, True), (asked.evaluations / 3, False)):
        table = outcome.Table("T", [], [["our", "census sex", 2, 5, 1.0, kept]])
        outcome.keep(
            outcome.Part("verification", "V", "paper", {}, "d", 1.0, machine, "", [table], [], [], []), tmp_path
        )
        (check,) = verification._as_kept({case: asked}, tmp_path)
        assert check.holds == holds
    assert verification._as_kept({case: asked}, tmp_path / "nowhere") == []


def test_one_case_below_the_promise_fails_and_is_named() -> None:
    comparison, cases = module("comparison"), module("cases").embedded()
    each, middle = comparison._checks(dict(zip(cases, (6.8, 20, 20, 20, 20, 20), strict=True)))
    assert (each.holds, each.enforced, each.found) == (False, True, "6.8 (our census race)")
    assert middle.holds
    each, middle = comparison._checks(dict.fromkeys(cases, 12.0))
    assert (each.holds, middle.holds) == (True, False)


def test_a_measurement_in_a_process_of_its_own_is_of_the_size_asked_for(tmp_path: Path) -> None:
    shop = module("scaling").Workshop(tmp_path, module("sizes").QUICK)
    found = shop.verify((3, 4, 2), 3, 500)
    assert (found.rounds, found.evaluations, found.stopped) == (500, 1500, "rounds")
    assert 10 < found.before <= found.peak < 2000


def test_slopes_are_powers() -> None:
    power = module("scaling").power
    assert power([(size, 3 * size**1.5) for size in (1, 10, 100)]) == pytest.approx(1.5)
    assert power([(1, 1.0)]) is None


# The information bound.


def test_the_growth_rate_is_the_information_of_a_coin() -> None:
    rate = module("limits").growth_rate
    for p in (0.6, 0.9):
        information = p * np.log(2 * p) + (1 - p) * np.log(2 * (1 - p))
        assert rate(np.array([[1.0], [-1.0]]), np.array([p, 1 - p])) == pytest.approx(information, rel=1e-4)
    # A bet that loses on average is not taken.
    assert rate(np.array([[1.0], [-1.0]]), np.array([0.4, 0.6])) == pytest.approx(0, abs=1e-6)


def test_the_bound_of_two_groups_that_are_always_decided_alike() -> None:
    limits = module("limits")
    bound = limits.bound_of(np.array([[True, True], [False, False]]), np.array([0.3, 0.7]), 0.1, 1e-6)
    assert bound.rounds == pytest.approx(limits.kl_of_coins(1e-6) / -np.log(0.9), rel=1e-3)
    assert bound.evaluations == pytest.approx(2 * bound.rounds)


def test_no_run_near_the_bound_beats_it_on_average() -> None:
    limits, streams = module("limits"), module("streams")
    for gap in (0.05, 0.2):
        stream = streams.Stream(2, gap)
        bound = limits.bound_of(stream.patterns.astype(bool), stream.chances, 0.1, 1e-3)
        rounds = [streams.decided(stream, 0.1, 1e-3, seed, 10**6)[1] / 2 for seed in range(20)]
        assert bound.rounds < np.mean(rounds) < 3 * bound.rounds


# Made-up networks.


@pytest.mark.parametrize(("groups", "gap"), [(2, 0.1), (5, 0.099), (9, 0.11)])
def test_a_stream_has_exactly_its_gap(groups: int, gap: float) -> None:
    stream = module("streams").Stream(groups, gap)
    assert stream.chances.sum() == pytest.approx(1)
    assert np.ptp(stream.rates) == pytest.approx(gap, abs=1e-12)
    tally = stream.tally(np.random.default_rng(0), 10**6, tuple(range(groups)))
    # Five standard errors of a rate from a million rounds.
    assert np.abs(tally.rates[0] - stream.rates).max() < 0.0025
