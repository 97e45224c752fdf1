"""Planted subgroups: how often a search finds and certifies one, and how often it finds one where none is planted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.calibration.known_truth import category, spec_of
from benchmarks.results import Cell, Check, Column, PartResult, Table, count_name
from benchmarks.sizes import Sizes
from fairchain.subgroup_search import SubgroupSearch, find_subgroups

# Five features with 2, 4, 5, 5 and 5 values: 889 intersections of up to three. One of three features is planted.
VALUES, DEPTH = (2, 4, 5, 5, 5), 3
PLANTED = ((2, 0), (3, 1), (0, 1))
SHARE, THRESHOLD, DELTA, RATE = 0.02, 0.1, 0.05, 0.5
ROWS = 60_000
MOST_WRONG = DELTA
TEXT = f"""This section measures how often a subgroup search finds a subgroup that was planted in a table, and how often
the search is wrong if none was planted. The section compares this search with a naive search, which selects the
subgroup with the largest estimated gap and computes a 95% interval for this subgroup alone.

Each table has {ROWS:,} rows and five categorical features. Each row gets the outcome with probability {RATE:g}. The
planted subgroup is an intersection of three features and contains {SHARE:.0%} of the rows. In the planted subgroup, the
probability of the outcome is lower by {2 * THRESHOLD:g}, which is twice the threshold. In tables without a planted
subgroup, the true gap of every subgroup is 0. The search covers all intersections of up to three features that contain
at least {SHARE / 2:.0%} of the rows, at delta {DELTA:g}."""


def table(seed: int, *, planted: bool) -> dict[str, NDArray[np.generic]]:
    """Return a table with a planted subgroup, or without one."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(count, size=ROWS) for count in VALUES]
    inside = np.logical_and.reduce([columns[feature] == value for feature, value in PLANTED])
    rate = np.where(inside, RATE - 2 * THRESHOLD, RATE) if planted else np.full(ROWS, RATE)
    decided = rng.random(ROWS) < rate
    found: dict[str, NDArray[np.generic]] = {
        f"f{place}": np.array([f"f{place}{value}" for value in range(count)])[column]
        for place, (count, column) in enumerate(zip(VALUES, columns, strict=True))
    }
    return found | {"y": np.where(decided, "yes", "no")}


def search(seed: int, *, planted: bool) -> SubgroupSearch:
    """Search one table."""
    features = [category(f"f{place}", count) for place, count in enumerate(VALUES)]
    names = [each["name"] for each in features]
    population = {"kind": "table", "as": "sample", "prediction": "y"}
    about = {"protected": names[:1], "outcome": "yes", "threshold": THRESHOLD}
    spec = spec_of(features, about, population, delta=DELTA, model={"labels": ["no", "yes"]})
    rows = table(seed, planted=planted)
    return find_subgroups(None, spec, protected=names, depth=DEPTH, data=rows, min_size=SHARE / 2)


def naive(found: SubgroupSearch) -> tuple[bool, float]:
    """Return whether a naive search reports the widest subgroup, and the gap that it reports."""
    widest = found.subgroups[0]
    error = np.sqrt(widest.rate * (1 - widest.rate) / widest.size + RATE * (1 - RATE) / found.inputs)
    return abs(widest.estimate) - 1.96 * error > 0, abs(widest.estimate)


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # tables are simulated
    """Search tables with and without a planted subgroup."""
    runs = 10 * sizes.seeds
    name = " & ".join(f"f{feature}=f{feature}{value}" for feature, value in sorted(PLANTED))
    certified = [
        any(each.certified and each.name == name for each in search(seed, planted=True).subgroups)
        for seed in range(runs)
    ]
    without = [search(10_000 + seed, planted=False) for seed in range(runs)]
    # Every true gap is 0: a certified subgroup is wrong, and so is an interval without 0.
    false = [found.verdict == "UNFAIR" or any(not e.low <= 0 <= e.high for e in found.subgroups) for found in without]
    naive_found, naive_gap = zip(*map(naive, without), strict=True)
    rows: list[list[Cell]] = [
        ["planted: found and certified", runs, sum(certified) / runs, None],
        ["none planted: certified, or a wrong interval", runs, sum(false) / runs, None],
        ["none planted: naive search finds a gap", runs, sum(naive_found) / runs, float(np.mean(naive_gap))],
    ]
    columns = [Column("tables"), Column("runs", ",d"), Column("share", ".1%"), Column("mean reported gap", ".3f")]
    share = sum(certified) / runs
    return PartResult(
        text=TEXT,
        tables=[Table(f"Search among {without[0].candidates:,} subgroups", columns, rows)],
        checks=[
            Check("tables in which the planted subgroup is certified", share >= 0.95, f"{share:.1%}", "at least 95%"),
            Check(
                "tables without a planted subgroup and with a wrong result",
                sum(false) / runs <= MOST_WRONG,
                f"{sum(false) / runs:.1%}",
                f"at most {DELTA:.0%}",
            ),
        ],
        settings={"seeds": f"0 to {runs - 1}, 10,000 to {10_000 + runs - 1:,}"},
        counts={count_name("planted", f"certified of {runs} tables"): [sum(certified)]} if sizes.paper else {},
    )
