"""Time and size of the report of a large audit: 300 groups, 50 labels, a network of 2,000 units.

`python -m benchmarks.large_report` makes up the findings of such an audit (every pair for every label), writes its page
and its Markdown, and exits with 1 if the page takes longer or is larger than the limits below.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import combinations
from typing import Any

import numpy as np

from fairchain.report.findings import Findings
from fairchain.report.markdown import markdown
from fairchain.report.page import page

GROUPS, UNITS, LABELS = 300, 2_000, 50
MOST_SECONDS, MOST_BYTES = 10.0, 2_500_000


def large_findings(groups: int, units: int, labels: int) -> Findings:
    """Return the findings of an audit of this size, with made-up numbers."""
    names = [f"land=group {i}" for i in range(groups)]
    outcomes = [f"label {i}" for i in range(labels)]
    rates = np.linspace(0.3, 0.6, groups)
    every = [
        {"name": name, "outcome": outcome, "probability": p, "low": p - 0.01, "high": p + 0.01, "evaluations": 1000}
        for outcome in outcomes
        for name, p in zip(names, rates.tolist(), strict=True)
    ]
    pairs = [
        {"first": names[i], "second": names[j], "outcome": outcome, **_interval(float(rates[i] - rates[j]))}
        for outcome in outcomes
        for i, j in combinations(range(groups), 2)
    ]
    gap = {**_interval(0.3), "more": names[-1], "less": names[0], "outcome": outcomes[0]}
    verdict = {
        "verdict": "UNFAIR", "kind": "difference", "inputs": "people", "gap": gap, "threshold": 0.1, "delta": 1e-6,
        "property": "made up", "groups": every, "left_out": [], "violators": [], "witnesses": [], "rounds": 1000,
        "evaluations": 20_000, "seed": 0, "rule": "betting", "sound": True, "model_sha256": "ab" * 32,
        "table_sha256": None, "population": "made up", "statement": "Made up.", "scope": "Made up.", "notes": [],
    }  # fmt: skip
    survey = {"groups": every, "pairs": pairs, "measure": "difference", "rounds": 20_000, "delta": 1e-6}
    return Findings("large.toml", verdict, survey, explanation=_explanation(gap, units))


def _explanation(gap: dict[str, Any], count: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    units: list[dict[str, Any]] = [
        {
            "name": f"layer{1 + i % 5}[{i}]", "layer": f"layer{1 + i % 5}", "place": i, "kind": "neuron", "share": 0.5,
            "effect": _interval(float(rng.exponential(0.02))), "sensitivity": _interval(float(rng.exponential(0.1))),
        }
        for i in range(count)
    ]  # fmt: skip
    units.sort(key=lambda unit: -unit["effect"]["estimate"])
    pair = {key: gap[key] for key in ("more", "less", "outcome")}
    return {
        "pair": pair,
        "gap": gap,
        "units": units,
        "layers": [],
        "words": [],
        "witnesses": [],
        "statement": "Made up.",
    }


def _interval(estimate: float) -> dict[str, float]:
    return {"estimate": estimate, "low": estimate - 0.01, "high": estimate + 0.01}


def main() -> None:
    """Print seconds and sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("groups", GROUPS), ("units", UNITS), ("labels", LABELS)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    findings = large_findings(given.groups, given.units, given.labels)
    start = time.process_time()
    html = len(page(findings).encode())
    seconds = time.process_time() - start
    start = time.process_time()
    text = len(markdown(findings).encode())
    print(f"{given.groups} groups, {given.labels} labels, {given.units:,} units")
    print(f"page      {seconds:6.2f} s {html / 1e6:8.2f} MB  (at most {MOST_SECONDS:g} s, {MOST_BYTES / 1e6:g} MB)")
    print(f"Markdown  {time.process_time() - start:6.2f} s {text / 1e6:8.2f} MB")
    sys.exit(seconds > MOST_SECONDS or html > MOST_BYTES)


if __name__ == "__main__":
    main()
