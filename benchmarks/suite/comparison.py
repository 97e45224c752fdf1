"""Other methods on the same networks in the same run: how often each asks the network, and how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.bootstrap import RESAMPLES, bootstrap, by_fairlearn
from benchmarks.baselines.counts import said
from benchmarks.baselines.fixed_sample import fixed_sample, planned
from benchmarks.baselines.sequences import confidence_sequences
from benchmarks.baselines.verifair import verifair
from benchmarks.suite.cases import DELTA, Case, feed_forward, of_texts
from benchmarks.suite.outcome import Cell, Check, Column, Found, Table
from benchmarks.suite.paper import THRESHOLD
from benchmarks.suite.sizes import Sizes
from benchmarks.suite.verification import Truth, truth_of

VERIFAIR_DELTA = 5e-11
TESTED = 1000
FEWER_EACH, FEWER_MEDIAN = 10.0, 15.0
# At least so many people at a time go through a network.
PIECE = 8192
TEXT = """All methods ask the same networks about people drawn in the same way; fairchain shows one person as all
groups, the others draw each group's people by themselves, as they were published. Evaluations until the verdict and
seconds are means over seeds, one thread for the others and all cores for fairchain (its short runs hardly use the
second). Written by us from the published descriptions, each to its advantage: VeriFair looks after every sample and
pays for samples only; the fixed sample is told the true rates to plan with."""


@dataclass(frozen=True)
class Effort:
    """What one method said about a case, after how much."""

    said: str
    evaluations: int
    seconds: float


class NetworkCount:
    """Counts of more and more people of each group, each drawn once."""

    def __init__(self, case: Case, seed: int) -> None:
        self._case, self._seed, self._chunk = case, seed, 0

    def __call__(self, people: int) -> NDArray[np.int64]:
        """How many of so many more people of each group got the outcome, (1, groups)."""
        total = np.zeros((1, self._case.groups), np.int64)
        for start in range(0, people, PIECE):
            got = self._case.draw(self._seed, self._chunk, min(PIECE, people - start))
            total[0] += got.sum(axis=1)
            self._chunk += 1
        return total


Method = Callable[[Case, Truth, int], tuple[str, int]]


def _fairchain(case: Case, truth: Truth, seed: int) -> tuple[str, int]:  # noqa: ARG001  # it knows no truth
    verdict = case.asked(seed)
    return verdict.decision.name, verdict.evaluations


def _verifair(delta: float) -> Method:
    def ask(case: Case, truth: Truth, seed: int) -> tuple[str, int]:  # noqa: ARG001
        stopped = verifair(
            lambda first, count: case.draw(seed, first // count, count), case.groups, THRESHOLD, delta, 3_000_000
        )
        return stopped.decision, stopped.evaluations

    return ask


def _sequences(case: Case, truth: Truth, seed: int) -> tuple[str, int]:  # noqa: ARG001
    runs = confidence_sequences(NetworkCount(case, seed), case.groups, THRESHOLD, DELTA)
    return str(runs.decisions[0]), int(runs.evaluations[0])


def _fixed(case: Case, truth: Truth, seed: int) -> tuple[str, int]:
    people = planned(truth.rates[0], THRESHOLD, DELTA)
    decision = fixed_sample(NetworkCount(case, seed)(people), people, THRESHOLD, DELTA)
    return str(decision[0]), people * case.groups


def _bootstrap(case: Case, truth: Truth, seed: int) -> tuple[str, int]:  # noqa: ARG001
    got = NetworkCount(case, seed)(TESTED)
    return str(said(bootstrap(got, TESTED, seed), THRESHOLD)[0]), TESTED * case.groups


METHODS: dict[str, Method] = {
    "fairchain 1e-6": _fairchain,
    "VeriFair 1e-6": _verifair(DELTA),
    "VeriFair 5e-11": _verifair(VERIFAIR_DELTA),
    "sequences 1e-6": _sequences,
    "fixed sample 1e-6": _fixed,
    "bootstrap 95%": _bootstrap,
}
OURS, RIVAL = "fairchain 1e-6", "VeriFair 1e-6"


def efforts(case: Case, truth: Truth, seeds: int) -> dict[str, list[Effort]]:
    """Each method on one case, over seeds."""
    case.asked(0)
    found: dict[str, list[Effort]] = {}
    for name, method in METHODS.items():
        for seed in range(seeds):
            start = time.perf_counter()
            decision, evaluations = method(case, truth, seed)
            found.setdefault(name, []).append(Effort(decision, evaluations, time.perf_counter() - start))
    return found


def run(sizes: Sizes, models: Path | None) -> Found:
    """All tables of this part."""
    with feed_forward(models) as cases:
        texts = of_texts() if sizes.text_seeds else []
        found = {}
        for case in (*cases, *texts):
            truth = truth_of(case, sizes.text_truth if case.reads_texts else sizes.truth)
            found[case] = efforts(case, truth, sizes.rivals)
        fairlearn = _fairlearn_table(min(cases, key=lambda case: case.groups), sizes)
    fewer = {case: _mean(each[RIVAL]) / _mean(each[OURS]) for case, each in found.items()}
    return Found(
        text=TEXT,
        tables=[_samples(found), _times(found), fairlearn],
        plots=[],
        checks=_checks(fewer),
        used={"seeds": sizes.rivals, "people tested by the bootstrap": TESTED},
        behind=_behind(found, fewer),
    )


def _mean(efforts: Sequence[Effort]) -> float:
    return fmean(each.evaluations for each in efforts)


def _time(efforts: Sequence[Effort]) -> float:
    return median(each.seconds for each in efforts)


def _samples(found: dict[Case, dict[str, list[Effort]]]) -> Table:
    columns = [Column("network"), Column("case"), Column("groups", "d")]
    columns += [Column(name, ",.0f") for name in METHODS]
    columns += [
        Column("VeriFair / ours, both at 1e-6", ".1f"),
        Column("sequences / ours", ".1f"),
        Column("said otherwise"),
    ]
    rows: list[list[Cell]] = []
    for case, each in found.items():
        ours = _mean(each[OURS])
        row: list[Cell] = [case.whose, case.name, case.groups, *(_mean(each[name]) for name in METHODS)]
        rows.append([*row, _mean(each[RIVAL]) / ours, _mean(each["sequences 1e-6"]) / ours, _otherwise(each)])
    note = (
        "*Said otherwise* names methods whose answer was not that of fairchain, and in how many seeds. The bootstrap "
        f"asks {TESTED:,} people of each group whatever comes, and promises nothing."
    )
    return Table("Evaluations until the verdict", columns, rows, note)


def _otherwise(each: dict[str, list[Effort]]) -> str:
    ours = each[OURS][0].said
    other = {name: [e.said for e in runs if e.said != ours] for name, runs in each.items()}
    return "; ".join(f"{name}: {answers[0]} {len(answers)}" for name, answers in other.items() if answers) or "-"


def _times(found: dict[Case, dict[str, list[Effort]]]) -> Table:
    columns = [Column("network"), Column("case"), *(Column(name, ".3f") for name in METHODS)]
    rows: list[list[Cell]] = [
        [case.whose, case.name, *(fmean(e.seconds for e in each[name]) for name in METHODS)]
        for case, each in found.items()
    ]
    return Table("Seconds until the verdict", columns, rows, "The fixed sample includes planning it by simulation.")


def _fairlearn_table(case: Case, sizes: Sizes) -> Table:
    """Fairlearn's own bootstrap once, beside the same by counts."""
    people, resamples = (TESTED, RESAMPLES) if sizes.timed else (200, 10)
    got = case.draw(0, 0, people)
    start = time.perf_counter()
    own = by_fairlearn(got, 0, resamples=resamples)
    middle = time.perf_counter()
    low, high = bootstrap(got.sum(axis=1)[None], people, 0, resamples=resamples)
    rows: list[list[Cell]] = [
        ["fairlearn's MetricFrame", got.size, resamples, *own, middle - start],
        [
            "by counts (in the tables here)",
            got.size,
            resamples,
            float(low[0]),
            float(high[0]),
            time.perf_counter() - middle,
        ],
    ]
    columns = [Column("bootstrap"), Column("rows", ",d"), Column("resamples", "d"), Column("low", ".3f")]
    columns += [Column("high", ".3f"), Column("seconds", ".4f")]
    return Table(
        f"fairlearn's bootstrap itself, {case.name}",
        columns,
        rows,
        "Both resample by chance, so that bounds differ a little.",
    )


def _checks(fewer: dict[Case, float]) -> list[Check]:
    least, middle = min(fewer, key=lambda case: fewer[case]), median(fewer.values())
    name = "evaluations of VeriFair's rule for one of ours at delta 1e-6, in every case"
    below = [f"{ratio:.1f} ({case.whose} {case.name})" for case, ratio in fewer.items() if ratio < FEWER_EACH]
    found = ", ".join(below) or f"{fewer[least]:.1f} at least ({least.whose} {least.name})"
    return [
        Check(name, not below, found, f"at least {FEWER_EACH:g}"),
        Check(
            "the same in the median of all cases", middle >= FEWER_MEDIAN, f"{middle:.1f}", f"at least {FEWER_MEDIAN:g}"
        ),
    ]


def _behind(found: dict[Case, dict[str, list[Effort]]], fewer: dict[Case, float]) -> list[str]:
    lines = [
        f"{case.whose} {case.name}: only {ratio:.1f} times fewer evaluations than VeriFair's rule"
        for case, ratio in fewer.items()
        if ratio < FEWER_EACH
    ]
    faster = [case for case, each in found.items() if _time(each[RIVAL]) < _time(each[OURS])]
    if faster:
        slower = max(_time(found[case][OURS]) - _time(found[case][RIVAL]) for case in faster)
        lines.append(
            f"time on tiny networks: in {len(faster)} of {len(found)} cases the bare loop of VeriFair was faster "
            f"by up to {1e3 * slower:.0f} ms, though it asks the network far more often; it says yes or no, ours also "
            "gives bounds, witnesses and a ledger"
        )
    for name in METHODS:
        ahead = [case for case, each in found.items() if _mean(each[name]) < _mean(each[OURS])]
        if ahead and name != OURS:
            cases = ", ".join(f"{case.whose} {case.name}" for case in ahead)
            promise = " (it promises nothing)" if name.startswith("bootstrap") else ""
            lines.append(f"{name}{promise} asks the network less often: {cases}")
    return lines
