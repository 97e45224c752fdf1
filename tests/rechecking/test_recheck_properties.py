"""Certificates of every property and population: honest ones hold wherever they are checked, by a second arithmetic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain import make_certificate, parse_spec, verify
from fairchain.certificate_format import BatchEvidence
from fairchain.certificates import dump
from fairchain.rechecking import arithmetic
from fairchain.rechecking.expected import _gap_numbers
from fairchain.rechecking.replay import Replay, ReplayedRule
from fairchain.statistics import RATIO, Tally
from fairchain.statistics.e_values import log_wealth
from fairchain.statistics.estimate import EstimateRule
from fairchain.statistics.intervals import pair_bounds
from fairchain.statistics.rate_counts import SubgroupCounts, fixed_sample, gap_bounds
from fairchain.statistics.rules import every_pair
from tests.rechecking.builders import FEATURES, LABELS, PAIRS, RACES, audit, certificate, check, failing


@pytest.mark.parametrize(("population", "asked"), PAIRS)
def test_an_honest_certificate_holds(population: str, asked: str, folder: Path) -> None:
    assert failing(check(folder, certificate(folder, population, asked))) == set()


@pytest.mark.parametrize("population", ["marginals", "population", "recorded sample"])
def test_it_holds_elsewhere_for_the_same_rows_in_another_file_or_in_none(
    population: str, folder: Path, tmp_path: Path
) -> None:
    """Neither the folder nor the name of the checker's own file is a claim, and no folder is told to anybody."""
    import pandas as pd

    content = certificate(folder, population, "difference")
    assert str(folder) not in json.dumps(content)
    elsewhere = tmp_path / "rows-of-ours.csv"
    elsewhere.write_text((folder / "people.csv").read_text())
    for table in (elsewhere, pd.read_csv(elsewhere), pd.read_csv(elsewhere).to_dict("list")):
        assert failing(check(folder, content, table=table)) == set()


def test_rows_that_were_handed_over_can_be_checked(folder: Path) -> None:
    """Stated frequencies of one feature, and a frame for the others."""
    import pandas as pd

    frame = pd.read_csv(folder / "people.csv")
    verdict = verify(None, parse_spec(audit(folder, "stated", "difference")), data=frame)
    content = json.loads(dump(make_certificate(verdict)))
    assert failing(check(folder, content, table=frame)) == set()


def recorded(rows: list[tuple[str, str]], **asked: Any) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    data = {
        "model": {"labels": LABELS},
        "feature": FEATURES,
        "property": {"kind": "difference", "protected": ["race"], "threshold": 0.1, **asked},
        "population": {"kind": "table", "as": "population", "prediction": "decision"},
    }
    races, decisions = zip(*rows, strict=True)
    return data, {"hours": [1] * len(rows), "sex": ["s0"] * len(rows), "race": list(races), "decision": list(decisions)}


@pytest.mark.parametrize(
    "counts",
    [
        {"r0": (2, 0, 8), "r1": (3, 0, 7)},
        {"r0": (3, 7, 0), "r1": (2, 8, 0)},
        {"r0": (3, 1, 6), "r1": (2, 2, 6)},
    ],
    ids=["8/10 - 7/10", "3/10 - 2/10", "ties"],
)
def test_a_gap_at_the_threshold_and_ties_are_read_alike_by_both(
    counts: dict[str, tuple[int, ...]], folder: Path
) -> None:
    """Floating numbers tell 8/10 - 7/10 from 3/10 - 2/10; a certificate must not."""
    rows = [(race, LABELS[label]) for race, each in counts.items() for label, n in enumerate(each) for _ in range(n)]
    data, table = recorded(rows)
    content = json.loads(dump(make_certificate(verify(None, parse_spec(data), data=table))))
    assert content["claims"]["verdict"] == "FAIR"
    assert failing(check(folder, content, table=table)) == set()


@pytest.mark.parametrize(
    ("first", "second", "asked"),
    [
        ((2, 3), (17, 48), {"kind": "ratio", "threshold": 0.5}),
        ((1, 2), (6, 30), {"compare": "average", "threshold": 0.2}),
    ],
    ids=["a ratio of 0.53125", "a gap of 0.13125"],
)
def test_a_number_in_a_sentence_is_rounded_alike_by_both(
    first: tuple[int, int], second: tuple[int, int], asked: dict[str, Any], folder: Path
) -> None:
    """Half way between two numbers of four digits: what a person reads must not depend on the order of a sum."""
    groups = zip(RACES, (first, second), strict=True)
    rows = [(race, LABELS[2 * (place < got)]) for race, (got, size) in groups for place in range(size)]
    data, table = recorded(rows, outcome="yes", **asked)
    content = json.loads(dump(make_certificate(verify(None, parse_spec(data), data=table))))
    assert failing(check(folder, content, table=table)) == set()


def test_the_second_arithmetic_agrees_with_the_first_about_ratios_and_about_pairs_of_rates() -> None:
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 800, (100, 3))
    triple = cells[:, 0], cells[:, 1], cells[:, 2]
    for gap in (-0.9, -0.2, 0.0, 0.05, 0.2, 0.7):
        above = arithmetic.log_evidence(triple, gap, "above", relative=True)
        below = arithmetic.log_evidence(triple, gap, "below", relative=True)
        assert np.allclose(above, log_wealth(cells, RATIO.against_at_least(gap)))
        assert np.allclose(below, log_wealth(cells, RATIO.against_at_most(gap)))
    bound = arithmetic.largest_bound(triple, 7.0, np.full(100, np.inf), relative=True)
    assert bound == pytest.approx(pair_bounds(cells, 7.0, RATIO)[1].max(), abs=1e-9)
    assert pair_bounds(cells, 7.0, RATIO)[0].max() <= bound
    counts = SubgroupCounts(np.array([40, 31]), np.array([[22, 9]]))
    _, low, high = gap_bounds(counts, every_pair(2, 1), "difference", 0.01, fixed_sample)
    one, other = (arithmetic.exact_bounds(got, asked, 0.01 / 2) for got, asked in ((22, 40), (9, 31)))
    assert high == pytest.approx(one[1] - other[0], abs=1e-9)
    one, other = (arithmetic.exact_bounds(got, asked, 0.01 / 4) for got, asked in ((22, 40), (9, 31)))
    assert low == pytest.approx(max(0, one[0] - other[1]), abs=1e-9)


def test_an_estimate_whose_bounds_contradict_each_other_is_rechecked_as_it_was_stated() -> None:
    """The pilot and the rounds after it show opposite things, which has a probability below delta."""
    compared = every_pair(2, 1)
    rule = EstimateRule(2, 1, 0.2, 1e-6, 0.1)
    replay = Replay(ReplayedRule(2, 1, 0.2, 1e-6, 0.1, paper=False, compared=compared))
    number = 0
    while (plan := rule.plan()) is not None:
        rounds = plan.rounds
        # In the pilot only one group ever gets the outcome, and afterwards both get it together.
        together = [[rounds // 2] * 2] * 2 if plan.phase else [[rounds, 0], [0, 0]]
        rule.observe(plan, Tally.of_batch(rounds, np.array([together]), plan.groups, 2))
        tables = [[row[i:] for i, row in enumerate(together)]]
        batch = BatchEvidence(number, rounds, rounds, list(plan.groups), plan.leader, plan.phase, [0, 1], [tables])
        replay.take(number, batch, last=True)
        number += 1
    _, low, high = rule.gap()
    assert low == high > 0.2
    assert _gap_numbers(replay) == pytest.approx(rule.gap(), abs=1e-9)
