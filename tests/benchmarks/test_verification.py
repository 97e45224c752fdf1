"""The first part: estimates are judged by what was promised, and what was not run is said."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from importlib import import_module
from operator import add
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom


def module(name: str) -> Any:
    return import_module(f"benchmarks.{name}")


def case_of(name: str) -> Any:
    return next(case for case in module("cases").embedded() if case.name == name)


def test_the_papers_rule_takes_as_many_traces_in_one_go_as_in_batches() -> None:
    case = case_of("census race")
    once = module("parts.estimates").paper_rule(case, module("cases").truth_of(case, 4096), 0)
    verdict = case.verdict(0, guarantee__rule="paper", guarantee__delta=0.1)
    assert (once.runs, once.evaluations) == (1, verdict.evaluations)


def test_an_error_counts_if_it_is_above_what_is_guaranteed_and_what_the_truth_may_be_off() -> None:
    estimates, truth = module("parts.estimates"), module("cases").Truth(np.array([[0.3, 0.35]]), error=0.001)
    fair = module("parts.rivals").PaperRule(2, 1, 0.1, 0.1, 0.01, 2).decision

    def off(low: float, high: float, largest: float) -> tuple[int, int, int]:
        found = estimates._judged(np.array([[low, high]]), largest, truth, fair, 5, 1.0)
        return found.pair_off, found.largest_off, found.any_off

    assert off(0.3, 0.35, 0.05) == (0, 0, 0)
    assert off(0.3, 0.3605, 0.0605) == (0, 0, 0)
    assert off(0.3, 0.3615, 0.0615) == (1, 1, 1)
    # Both off alike: the difference is right, a group is not.
    assert off(0.32, 0.37, 0.05) == (0, 0, 1)


@pytest.mark.parametrize(("runs", "delta"), [(200, 0.1), (10, 0.1), (200, 0.05)])
def test_a_kept_promise_is_doubted_once_in_a_million(runs: int, delta: float) -> None:
    most = module("parts.estimates").most_failures(runs, delta)
    assert binom.sf(most, runs, delta) <= 1e-6 < binom.sf(most - 1, runs, delta)


def test_estimate_mode_that_fails_too_often_is_seen_and_named() -> None:
    estimates, one, other = module("parts.estimates"), case_of("census sex"), case_of("credit sex")
    good = replace(estimates.NONE, runs=200, any_off=3)
    for off, holds in ((43, True), (60, False)):
        bad = replace(good, any_off=off)
        found = {case: estimates.BothRules(good, each) for case, each in ((one, good), (other, bad))}
        check = estimates.within_delta(found)
        assert check.holds == holds
        assert check.found == f"{off} of 200 (credit sex (ours))"


def test_repetitions_in_blocks_are_those_in_one_go() -> None:
    case, estimates, crew = case_of("census sex"), module("parts.estimates"), module("measuring")
    truth = module("cases").truth_of(case, 4096)
    sizes = replace(module("sizes").QUICK, repetitions=3)
    found = estimates.repeated({case: truth}, sizes)[case].rule
    by_hand = reduce(add, (estimates.paper_rule(case, truth, seed) for seed in range(3)))
    assert replace(found, seconds=0.0) == replace(by_hand, seconds=0.0)
    assert [seed for block in crew.blocks(60) for seed in block] == list(range(60))


def test_a_case_that_was_not_run_is_named_and_fails_at_full_size() -> None:
    missing, cases = module("cases"), module("cases").embedded()
    for size, enforced in (("paper", True), ("quick", False)):
        check = missing.all_cases(cases, module("sizes").SIZES[size])
        assert (check.holds, check.enforced) == (False, enforced)
        assert check.found == "6 of 8 (not comments religion, comments race)"
        assert "comments were not run" in missing.missing_text(cases, module("sizes").SIZES[size])


def test_work_that_is_shared_out_comes_back_in_order() -> None:
    sizes = module("sizes")
    for size in (sizes.QUICK, sizes.PAPER):
        assert module("measuring").on_all_cores(abs, [-3, -1, -2], parallel=size.paper) == [3, 1, 2]
