"""Groups that the rows themselves choose, by their sizes: what is said about those that were kept keeps its promise.

Built cases at the worst place: every kept group has a label of its own, which it alone gets, so that a kept group
means both a gap and a rate of all rows that is seen too high. Simulated tables are seeded.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from fairchain import Decision, SpecError, parse_spec, recheck, verify, write_certificate
from fairchain.spec.validate import MIN_SIZE_OF_INDIVIDUAL
from fairchain.statistics.payoff import gaps_of
from fairchain.statistics.rate_counts import RowsAnswer, SubgroupCounts, fixed_sample, gap_bounds
from tests.messages import says
from tests.verification.tables import audit, people

DELTA = 0.1
# Two large groups that get label 0, and small groups each of which alone gets a label of its own.
ROWS, SHARE, SMALL, LEAST = 2000, 0.01, 25, 31
RATES = np.array([(1 - SMALL * SHARE) / 2] * 2 + [SHARE] * SMALL)
# A group of its own label has the gap 1 - SHARE to all rows, and the threshold lies just below it: FAIR is wrong.
LIMIT = Fraction(989_999, 1_000_000)


def sizes_of(runs: int, seed: int = 0) -> np.ndarray:
    """(runs, groups): tables in which at least one small group is kept; in the others FAIR would be right."""
    sizes = np.random.default_rng(seed).multinomial(ROWS, RATES, runs)
    return sizes[(sizes[:, 2:] >= LEAST).any(axis=1)]


def overall(sizes: np.ndarray) -> tuple[SubgroupCounts, np.ndarray, np.ndarray]:
    """Counts of the kept groups and of all rows, which pairs are compared, and which subgroup holds all rows."""
    kept = np.flatnonzero(sizes >= LEAST)
    labels = np.where(kept < 2, 0, kept - 1)
    got = np.zeros((SMALL + 1, len(kept) + 1), np.int64)
    got[labels, np.arange(len(kept))] = sizes[kept]
    got[:, -1] = np.append(sizes[:2].sum(), sizes[2:])
    compared = np.zeros((SMALL + 1, len(kept) + 1, len(kept) + 1), bool)
    compared[:, :-1, -1] = compared[:, -1, :-1] = True
    everybody = np.arange(len(kept) + 1) == len(kept)
    return SubgroupCounts(np.append(sizes[kept], ROWS), got), compared, everybody


def three_bounds(counts: SubgroupCounts, compared: np.ndarray) -> float:
    """Not sound: an upper bound that pays for three bounds, whichever labels and groups there are."""
    low, high = counts.bounds(DELTA / 6, fixed_sample)
    return float(gaps_of(high, low, "difference")[compared].max())


def test_a_wrong_fair_about_kept_groups_and_all_rows_is_rarer_than_half_of_delta() -> None:
    """Of 400 tables; more than the quantile would be seen in one of a million suites if it were just delta/2."""
    runs, wrong, unsound = 400, 0, 0
    for sizes in sizes_of(runs):
        counts, compared, everybody = overall(sizes)
        wrong += gap_bounds(counts, compared, "difference", DELTA, fixed_sample, everybody)[2] < LIMIT
        unsound += three_bounds(counts, compared) < LIMIT
    assert wrong <= binom.ppf(1 - 1e-6, runs, DELTA / 2)
    # The rule that pays for three bounds fails this very test.
    assert unsound > binom.ppf(1 - 1e-6, runs, DELTA)


def test_the_level_of_all_rows_does_not_depend_on_how_many_groups_are_kept() -> None:
    """Counts of all rows are the same; with two or with twelve groups beside them their intervals are the same."""

    def of_all_rows(groups: int) -> tuple[float, float]:
        got = np.full((3, groups + 1), 10)
        got[:, -1] = (500, 300, 200)
        compared = np.zeros((3, groups + 1, groups + 1), bool)
        compared[:, :-1, -1] = compared[:, -1, :-1] = True
        everybody = np.arange(groups + 1) == groups
        counts = SubgroupCounts(np.append(np.full(groups, 40), 1000), got)
        low, high = RowsAnswer(counts, compared, "difference", Fraction(1, 10), DELTA, everybody).probabilities()
        return float(low[0, -1]), float(high[0, -1])

    assert of_all_rows(2) == of_all_rows(12)


def test_a_verdict_about_kept_groups_is_not_fair_where_the_gap_is_above_the_threshold() -> None:
    """End to end, on a table of the built case for which the rule with three bounds says FAIR."""
    sizes = next(each for each in sizes_of(400) if (o := overall(each)) and three_bounds(o[0], o[1]) < LIMIT)
    data = audit(reading="sample", threshold=float(LIMIT), compare="overall", min_size=LEAST)
    data["model"] = {"labels": [f"l{i}" for i in range(SMALL + 1)], "codes": list(range(SMALL + 1))}
    data["feature"] = [{"name": "sex", "kind": "category", "values": [f"g{i}" for i in range(SMALL + 2)]}]
    del data["population"]["label"]
    data["guarantee"] |= {"delta": DELTA}
    groups = np.repeat(np.arange(SMALL + 2), sizes)
    table = {"sex": [f"g{i}" for i in groups], "decision": np.where(groups < 2, 0, groups - 1).tolist()}
    assert verify(None, parse_spec(data), data=table).decision is Decision.UNDECIDED


@pytest.mark.parametrize("compare", ["overall", "average"])
@pytest.mark.parametrize("criterion", ["demographic_parity", "equalized_odds", "equal_opportunity"])
def test_certificates_about_kept_groups_and_all_rows_hold(compare: str, criterion: str, tmp_path: Any) -> None:
    """The second arithmetic divides delta in the same way."""
    table = people(3, 800)
    data = audit(reading="sample", compare=compare, criterion=criterion, min_size=40)
    path = tmp_path / "certificate.json"
    write_certificate(verify(None, parse_spec(data), data=table), path)
    assert recheck(path, data=table).holds


def test_sizes_in_a_sample_do_not_choose_the_groups_as_which_every_row_is_shown() -> None:
    """Kept, they would choose the question by its own rows; ignored, more groups would be compared than meant."""
    data = audit("individual", reading="sample", min_size=30)
    del data["population"]["prediction"]
    with pytest.raises(SpecError, match=says(MIN_SIZE_OF_INDIVIDUAL)) as refusal:
        parse_spec(data)
    assert str(refusal.value).count(". ") <= 1
    for other in ({"population": {"kind": "uniform"}, "min_size": 0.1}, {"reading": "population", "min_size": 30}):
        asked = audit("individual", reading=other.get("reading", "sample"), min_size=other["min_size"])
        del asked["population"]["prediction"]
        assert parse_spec(asked | {"population": other.get("population", asked["population"])})


def test_a_decision_that_changes_has_one_interval() -> None:
    """The share of rows whose decision changes is the gap: it is not shown with two intervals."""
    data = audit("individual", reading="sample", threshold=0.05)
    data["model"] |= {"decision": "label", "codes": [0, 1]}
    data["population"] = {"kind": "table", "as": "sample"}
    data["guarantee"] |= {"delta": 0.05}
    table = {key: values for key, values in people(1).items() if key in ("age", "sex")}
    for asked in (data, data | {"population": {"kind": "uniform"}}):
        verdict = verify(
            lambda rows: (rows[:, 0] > 40 + 8 * rows[:, 1]).astype(int),
            parse_spec(asked),
            data=table if asked is data else None,
        )
        (row,) = verdict.groups
        assert row.probability == verdict.gap
