"""Near the threshold: gaps of made-up networks are exact, errors are counted as errors, and a cap is not a cost."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest


def module(name: str) -> Any:
    return import_module(f"benchmarks.{name}")


def line(
    method: str, said: list[str], evaluations: list[int], right: str | None = "FAIR", delta: float | None = 1e-6
) -> Any:
    runs = module("parts.rivals").Runs(np.array(said), np.array(evaluations))
    return module("parts.rivals").MethodRuns(method, delta, runs, right, 0.5)


@pytest.mark.parametrize("coupled", [True, False])
@pytest.mark.parametrize(("groups", "gap"), [(2, 0.1), (5, 0.099), (9, 0.11)])
def test_a_stream_has_exactly_its_gap(groups: int, gap: float, coupled: bool) -> None:
    stream = module("parts.streams").Stream(groups, gap, coupled)
    assert stream.chances.sum() == pytest.approx(1)
    assert np.ptp(stream.rates) == pytest.approx(gap, abs=1e-12)
    tally = stream.tally(np.random.default_rng(0), 10**6, tuple(range(groups)))
    # Five standard errors of a rate from a million rounds.
    assert np.abs(tally.rates[0] - stream.rates).max() < 0.0025


def test_groups_drawn_apart_have_the_same_rates_and_nothing_in_common() -> None:
    together, apart = (module("parts.streams").Stream(3, 0.1, coupled) for coupled in (True, False))
    assert apart.rates == pytest.approx(together.rates)
    low, high = apart.rates[0], apart.rates[-1]
    assert apart.differing == pytest.approx(low * (1 - high) + high * (1 - low))
    assert together.differing < apart.differing / 2


def test_wrong_undecided_and_capped_runs_are_told_apart() -> None:
    rivals = module("parts.rivals")
    cut = line(rivals.VERIFAIR, ["FAIR", "UNFAIR", "UNDECIDED", "UNDECIDED"], [10, 20, 90, 90])
    assert (cut.wrong, cut.undecided, cut.evaluations_cell) == (1, 2, "over 52 (cap in 2)")
    assert cut.errors == "1 wrong, 2 undecided"
    assert line(rivals.OURS, ["UNDECIDED"] * 2, [90, 90], None).evaluations_cell == "cap"
    # A sample that was settled beforehand costs what it costs.
    assert line(rivals.FIXED, ["UNDECIDED"] * 2, [90, 90]).evaluations_cell == "90"
    # On the threshold itself nothing is right.
    assert line(rivals.OURS, ["FAIR", "UNFAIR", "UNDECIDED"], [1, 1, 1], None).wrong == 2


def test_one_wrong_verdict_at_the_strict_delta_fails_and_too_many_at_the_loose_one() -> None:
    boundary, rivals = module("parts.near_threshold"), module("parts.rivals")
    right = ("there", line(rivals.OURS, ["FAIR"] * 3, [1] * 3))
    for method in (rivals.OURS, rivals.APART):
        check = boundary._no_error([right, ("here", line(method, ["FAIR", "UNFAIR"], [1, 1]))])
        assert (check.holds, check.found) == (False, "1 of 5 (here: 1)")
    # Others may err.
    assert boundary._no_error([right, ("here", line(rivals.RULE, ["UNFAIR"], [1]))]).holds
    for wrong, holds in ((25, True), (40, False)):
        said = ["UNFAIR"] * wrong + ["FAIR"] * (200 - wrong)
        assert boundary._loose_errors([("here", line(rivals.OURS, said, [1] * 200, delta=0.05))]).holds == holds


def test_a_row_short_of_runs_fails() -> None:
    boundary, rivals = module("parts.near_threshold"), module("parts.rivals")
    sizes = replace(module("sizes").QUICK, repetitions=2)
    rows = [("here", line(rivals.OURS, ["FAIR"] * 2, [1] * 2)), ("there", line(rivals.RULE, ["FAIR"], [1]))]
    assert boundary._all_runs(rows[:1], sizes).holds
    assert not boundary._all_runs(rows, sizes).holds


def test_a_method_that_needs_less_near_the_threshold_is_named() -> None:
    boundary, rivals = module("parts.near_threshold"), module("parts.rivals")
    ours = line(rivals.OURS, ["FAIR"], [100])
    cheaper = replace(line(rivals.SEQUENCES, ["FAIR"], [99]), seconds=0.4)
    assert boundary._behind([("here", ours), ("here", cheaper)]) == [
        'near the threshold, the method "sequences, union bound" with delta 1e-6 needs fewer evaluations: here',
        'near the threshold, the method "sequences, union bound" with delta 1e-6 is faster: here (400 against 500 ms)',
    ]
    assert boundary._behind([("here", ours), ("there", cheaper)]) == []


def test_networks_are_evaluations_on_both_sides_of_their_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    near = module("parts.near_networks")
    monkeypatch.setattr(near, "ROUNDS", 2**17)
    cases = [case for case in module("cases").embedded() if case.name in ("census sex", "credit age")]
    pairs = near.near_cases(cases)
    for below, above in (pairs[:2], pairs[2:]):
        gap = below.truth.gap
        assert below.threshold < gap < above.threshold
        assert (below.right, above.right) == ("UNFAIR", "FAIR")
        assert above.threshold - gap == pytest.approx(min(near.BESIDE, gap / 2), abs=1e-4)
        # Rounds that differ are at least as many as the gap is wide.
        assert gap < below.differing + 0.01 < 0.6
    said = near.ours(near.Job(pairs[3], range(2), 0.05, 10**6), 0.05)
    assert (said.wrong, said.undecided, said.total) == (0, 0, 2)
