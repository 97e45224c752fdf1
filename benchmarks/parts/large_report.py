"""Time and size of the report of a large audit, with the findings of every pair for every label made up."""

from __future__ import annotations

import time
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks.results import Cell, Check, Column, PartResult, Table
from benchmarks.sizes import Sizes
from fairchain.explaining.result import Agreement, Explanation, Influence
from fairchain.report.findings import Findings
from fairchain.report.markdown import markdown
from fairchain.report.page import page
from fairchain.statistics import Interval
from fairchain.verification.all_pairs import AllPairs, PairGap
from fairchain.verification.record import EvaluatedGroup, Gap, Pair, VerdictRecord

MOST_SECONDS, MOST_BYTES = 10.0, 2_500_000
TEXT = """This section measures the time to write the report of a large audit, and the size of the report. The findings
of the audit are invented, and no model is evaluated. *Page* is the HTML page, and *Markdown* is the summary in
Markdown."""


def large_findings(groups: int, units: int, labels: int) -> Findings:
    """Return the findings of an audit of this size, with made-up numbers."""
    names = [f"land=group {i}" for i in range(groups)]
    outcomes = [f"label {i}" for i in range(labels)]
    rates = np.linspace(0.3, 0.6, groups)
    every = tuple(
        EvaluatedGroup(name, outcome, p, p - 0.01, p + 0.01, 1000)
        for outcome in outcomes
        for name, p in zip(names, rates.tolist(), strict=True)
    )
    pairs = tuple(
        PairGap(names[i], names[j], outcome, gap, gap - 0.01, gap + 0.01)
        for outcome in outcomes
        for i, j in combinations(range(groups), 2)
        for gap in [float(rates[i] - rates[j])]
    )
    verdict = VerdictRecord(
        verdict="UNFAIR", decision="UNFAIR", constant=None, engine="sampling", kind="difference", inputs="individuals",
        gap=Gap(0.3, 0.29, 0.31, names[-1], names[0], outcomes[0]), threshold=0.1, delta=1e-6, epsilon=None,
        question="made up", groups=every, left_out=(), violators=(), rounds=1000, rows=None, evaluations=20_000,
        stopped="decided", seed=0, seed_origin="chosen", rule="betting", sound=True, model_sha256="ab" * 32,
        table_sha256=None, population="made up", statement="Made up.", scope="Made up.",
    )  # fmt: skip
    explanation = _explanation(Pair(names[-1], names[0], outcomes[0]), units)
    return Findings("large.toml", verdict, AllPairs(pairs, "difference", 1e-6), explanation=explanation)


def _explanation(pair: Pair, count: int) -> Explanation:
    rng = np.random.default_rng(0)
    units = [
        Influence(
            name=f"layer{1 + i % 5}[{i}]", layer=f"layer{1 + i % 5}", place=i, kind="neuron", tensor="made up",
            method="resample", held_at=None, held_as=None, effect=_interval(float(rng.exponential(0.02))),
            remaining=0.2, max_gap=0.3, changed=0.1, sensitivity=_interval(float(rng.exponential(0.1))), share=0.5,
        )
        for i in range(count)
    ]  # fmt: skip
    return Explanation(
        pair=pair, gap=_interval(0.3), largest=_interval(0.3), threshold=0.1,
        units=tuple(sorted(units, key=lambda unit: -unit.effect.estimate)), layers=(),
        agreement=Agreement(None, None, 0, 0), witnesses=(), method="resample", rounds=20_000, seed=0, delta=1e-6,
        evaluations=20_000, population="made up", model_sha256="ab" * 32, statement="Made up.", scope="Made up.",
    )  # fmt: skip


def _interval(estimate: float) -> Interval:
    return Interval(estimate, estimate - 0.01, estimate + 0.01)


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # nothing is evaluated
    """Write the page and the Markdown of one report."""
    groups, units, labels = sizes.report
    findings = large_findings(groups, units, labels)
    rows: list[list[Cell]] = []
    for name, write in (("page", page), ("Markdown", markdown)):
        start = time.process_time()
        size = len(write(findings).encode())
        rows.append([name, time.process_time() - start, size])
    seconds, size = float(str(rows[0][1])), int(str(rows[0][2]))
    columns = [Column("file"), Column("processor seconds", ".2f"), Column("bytes", ",d")]
    limit = f"at most {MOST_SECONDS:g} s"
    return PartResult(
        text=TEXT,
        tables=[Table(f"{groups} groups, {labels} labels, {units:,} units", columns, rows)],
        checks=[
            Check("time to write the page", seconds <= MOST_SECONDS, f"{seconds:.2f} s", limit, sizes.paper),
            Check("size of the page", size <= MOST_BYTES, f"{size:,} bytes", f"at most {MOST_BYTES:,}"),
        ],
        settings={"seed": 0},
    )
