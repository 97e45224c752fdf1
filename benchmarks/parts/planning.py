"""Forecasts of `plan` beside what verdicts took, on the cases of the verification tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from pathlib import Path
from statistics import fmean, stdev

import numpy as np

from benchmarks.cases import DELTA, TRUTH_SEED, Case, feed_forward, missing_text, text_cases
from benchmarks.parts.rivals import delta_text
from benchmarks.results import COUNTS, Cell, Check, Column, PartResult, Table, count_name, kept_counts
from benchmarks.sizes import Sizes
from fairchain.planning import plan
from fairchain.statistics.forecast import RoundAnswers, forecast_run
from fairchain.verification.sampling import betting_rule

DELTAS = (0.05, DELTA)
# A forecast may be off by this part of the measured mean.
MOST_OFF = 0.25
# Chunks of rounds from which the true rates are taken, of one size for networks and of another for texts.
CHUNKS, TEXT_CHUNKS = (1, 2**16), (6, 2**12)
# Verdicts whose mean a forecast is compared with in a full benchmark.
VERDICTS, TEXT_VERDICTS = 100, 60
TEXT = """This section compares forecasts of `fairchain plan` with the measured mean number of evaluations until a
verdict. *From rates* is a forecast from the true rate of each group and the mean share of rounds in which two groups
differ. These numbers come from a large run with another seed. *From rounds* is a forecast that draws from the rounds of
this large run, as a forecast with a pilot does. The *ratio* of a forecast is the forecast divided by the measured mean.

A full benchmark makes 100 verdicts for each case (60 for texts), so the standard error of the mean is only a few
percent. With size `quick` of the [benchmarks](../docs/benchmarks.md#how-to-run-the-benchmarks), this part uses the 20
verdicts in `counts.json`. In some cases, the mean of these 20 verdicts is 15% below or above the mean of many verdicts.
The quick size therefore does not check forecasts from rounds."""


def run(sizes: Sizes, models: Path | None) -> PartResult:
    """Forecast every case at two deltas."""
    kept = kept_counts(COUNTS).get("verification", {})
    rows: list[list[Cell]] = []
    off: dict[str, float] = {}
    with feed_forward(models) as networks:
        cases = [*networks, *(text_cases() if sizes.text_seeds else [])]
        for case in cases:
            for delta in DELTAS:
                name = count_name(case.owner, case.name, f"delta {delta_text(delta)}")
                seen = [each for each in kept.get(name, []) if each is not None]
                if sizes.paper:
                    seeds = range(TEXT_VERDICTS if case.reads_texts else VERDICTS)
                    seen = [case.verdict(seed, guarantee__delta=delta).evaluations for seed in seeds]
                if not seen:
                    continue
                measured = fmean(seen)
                by_rates, by_rounds = _forecasts(case, delta)
                off[f"{name}, from rates"] = abs(by_rates / measured - 1)
                if sizes.paper:
                    off[f"{name}, from rounds"] = abs(by_rounds / measured - 1)
                error = stdev(seen) / len(seen) ** 0.5 / measured
                cells = [measured, error, by_rates, by_rates / measured, by_rounds, by_rounds / measured]
                rows.append([case.title, delta_text(delta), *cells])
    return PartResult(
        text=TEXT + missing_text(cases, sizes),
        tables=[
            Table(
                "Forecast and measured evaluations",
                [
                    Column("case"),
                    Column("delta"),
                    Column("measured", ",.0f"),
                    Column("standard error", ".0%"),
                    Column("from rates", ",.0f"),
                    Column("ratio, rates", ".2f"),
                    Column("from rounds", ",.0f"),
                    Column("ratio, rounds", ".2f"),
                ],
                rows,
            )
        ],
        checks=[_within(off)],
        settings={"rounds of the large run": prod(CHUNKS), "of text cases": prod(TEXT_CHUNKS), "its seed": TRUTH_SEED},
    )


def _forecasts(case: Case, delta: float) -> tuple[float, float]:
    """Return the evaluations forecast from true rates, and from rounds of the network."""
    chunks, rounds = TEXT_CHUNKS if case.reads_texts else CHUNKS
    hits = np.concatenate([case.draw(TRUTH_SEED, chunk, rounds, coupled=True) for chunk in range(chunks)], axis=1)
    i, j = np.triu_indices(len(hits), 1)
    differ = float(np.mean([(hits[a] != hits[b]).mean() for a, b in zip(i, j, strict=True)]))
    rates = hits.mean(axis=1).tolist()
    threshold = case.spec.property.threshold
    told = plan(threshold=threshold, delta=delta, groups=len(rates), rates=rates, differ=differ)
    rule = partial(betting_rule, case.comparison, threshold, delta)
    seen = forecast_run(rule, RoundAnswers.seen(hits.astype(np.uint8)))
    assert told.evaluations.mean is not None
    assert seen.evaluations.mean is not None
    return told.evaluations.mean, seen.evaluations.mean


def _within(off: dict[str, float]) -> Check:
    worst: Sequence[str] = sorted(off, key=lambda name: off[name])[-1:]
    found = f"{max(off.values(), default=0.0):.0%} at most" + (f" ({worst[0]})" if worst else "")
    name = "difference between forecast and measured mean"
    return Check(name, max(off.values(), default=1.0) <= MOST_OFF, found, f"at most {MOST_OFF:.0%}")
