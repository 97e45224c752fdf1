"""The paper's table of verification: verdicts, what they cost at several deltas, and what its own rule gets wrong."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.suite import paper, promises
from benchmarks.suite.cases import DELTA, OURS, PAPERS, Case, feed_forward, of_texts
from benchmarks.suite.kept import counted
from benchmarks.suite.missing import all_cases, not_run
from benchmarks.suite.outcome import Cell, Check, Column, Found, Table
from benchmarks.suite.promises import Promises
from benchmarks.suite.rivals import shown
from benchmarks.suite.sizes import Sizes
from benchmarks.suite.truth import TRUTH_SEED, Truth, truth_of
from fairchain import OnnxModel, Verdict, verify

DELTAS = (0.1, 0.05, DELTA)
TEXT = """Each case asks whether the largest difference of P(outcome) between two values of the protected feature is
at most 0.1. *Evaluations* is how often the network was asked, the mean over seeds; times are medians of one call of
`verify` with the network loaded, all cores. *States* counts start, groups and labels, as in the paper. The *true gap*
is from one large run of rounds that no verdict has seen."""


@dataclass(frozen=True)
class Asked:
    """Verdicts of one kind on one case."""

    verdicts: list[Verdict]
    seconds: list[float]

    @property
    def evaluations(self) -> float:
        """The mean over seeds."""
        return fmean(verdict.evaluations for verdict in self.verdicts)

    @property
    def milliseconds(self) -> float:
        """The median over seeds."""
        return 1e3 * median(self.seconds)

    @property
    def said(self) -> str:
        """What was said, in how many runs if not always the same."""
        names = [verdict.decision.name for verdict in self.verdicts]
        return ", ".join(f"{name} {names.count(name)}" if len(set(names)) > 1 else name for name in sorted(set(names)))


def asked(case: Case, seeds: int, **changes: Any) -> Asked:
    """The verdicts of seeds 0, 1, ... after one that warms up."""
    case.asked(0, **changes)
    verdicts, seconds = [], []
    for seed in range(seeds):
        start = time.perf_counter()
        verdicts.append(case.asked(seed, **changes))
        seconds.append(time.perf_counter() - start)
    return Asked(verdicts, seconds)


def run(sizes: Sizes, models: Path | None) -> Found:
    """All tables of this part."""
    with feed_forward(models) as cases:
        texts = of_texts() if sizes.text_seeds else []
        verdicts: dict[Case, dict[float, Asked]] = {}
        truths: dict[Case, Truth] = {}
        for case in (*cases, *texts):
            seeds = sizes.text_seeds if case.reads_texts else sizes.seeds
            verdicts[case] = {delta: asked(case, seeds, guarantee__delta=delta) for delta in DELTAS}
            truths[case] = truth_of(case, sizes.text_truth if case.reads_texts else sizes.truth)
        together = [_together(cases, whose, sizes) for whose in _owners(cases)]
        promised = promises.repeated(truths, sizes)
    best = {case: each[DELTA] for case, each in verdicts.items()}
    counts = _counts(verdicts)
    checks = [all_cases(list(best), sizes), _all_right(best, truths), _intervals_right(best, truths)]
    checks += [*_fewer_than_traces(best), *(check for _, check in together), promises.kept_promise(promised)]
    checks.append(promises.all_runs(promised, sizes))
    return Found(
        text=TEXT + not_run(list(best), sizes),
        tables=[
            _verdicts(best, truths),
            _beside_the_paper(best, truths),
            _efforts(verdicts),
            promises.table(promised, sizes),
            _together_table([row for row, _ in together]),
        ],
        plots=[],
        checks=checks,
        used={
            "seeds": sizes.seeds,
            "seeds of text cases": sizes.text_seeds if texts else 0,
            "rounds of the large run": sizes.truth,
            "of text cases": sizes.text_truth if texts else 0,
            "seed of the large run": TRUTH_SEED,
            "repetitions of the paper's rule and of estimate mode": sizes.repetitions,
            "of estimate mode on texts": sizes.text_repetitions if texts else 0,
        },
        behind=_behind(verdicts, promised),
        counts=counts,
    )


def _counts(verdicts: dict[Case, dict[float, Asked]]) -> dict[str, int]:
    return {
        counted(case.whose, case.name, f"delta {shown(delta)}", f"seed {seed}"): verdict.evaluations
        for case, each in verdicts.items()
        for delta, runs in each.items()
        for seed, verdict in enumerate(runs.verdicts)
    }


def _owners(cases: Sequence[Case]) -> list[str]:
    return [whose for whose in (OURS, PAPERS) if any(case.whose == whose for case in cases)]


def _of(whose: str) -> str:
    """Before a noun."""
    return "our" if whose == OURS else whose


# The verdicts themselves.


def _verdicts(best: dict[Case, Asked], truths: dict[Case, Truth]) -> Table:
    columns = [Column("network"), Column("case"), Column("groups", "d"), Column("states", "d")]
    columns += [Column("rounds", ",.0f"), Column("evaluations", ",.0f"), Column("gap [bounds], seed 0")]
    columns += [Column("true gap", ".4f"), Column("verdict"), Column("ms", ".1f")]
    rows: list[list[Cell]] = []
    for case, each in best.items():
        rounds = fmean(verdict.rounds for verdict in each.verdicts)
        row: list[Cell] = [case.whose, case.name, case.groups, case.states, rounds, each.evaluations]
        rows.append([*row, str(each.verdicts[0].gap), truths[case].gap, each.said, each.milliseconds])
    note = "A verdict stops as soon as the threshold is decided, so its bounds of the gap are wide."
    return Table("Verdicts at delta 1e-6", columns, rows, note)


def _beside_the_paper(best: dict[Case, Asked], truths: dict[Case, Truth]) -> Table:
    columns = [Column("network"), Column("case"), Column("verdict"), Column("paper: verdict")]
    columns += [Column("paper: states", "d"), Column("true gap", ".4f"), Column("paper: gap", ".4f")]
    columns += [Column("evaluations", ",.0f"), Column("paper: traces", ",d"), Column("paper: time")]
    rows: list[list[Cell]] = []
    for case, each in best.items():
        told = case.reported
        row: list[Cell] = [case.whose, case.name, each.said, told.verdict, told.states, truths[case].gap, told.gap]
        rows.append([*row, each.evaluations, told.traces, f"{paper.quoted(told.seconds)}{_unit(told.seconds)}"])
    otherwise = [case.title for case, each in best.items() if each.said != case.reported.verdict]
    note = "The paper's columns are its own numbers, on its own networks and its authors' machine, at delta 0.1."
    if otherwise:
        note += f" Decided otherwise than there: {', '.join(otherwise)}; another network has another gap."
    return Table("The same beside what the paper reports", columns, rows, note)


def _unit(seconds: float) -> str:
    return "" if paper.quoted(seconds).endswith("min") else " s"


def _all_right(best: dict[Case, Asked], truths: dict[Case, Truth]) -> Check:
    verdicts = [(v.decision.name, truths[case].verdict) for case, each in best.items() for v in each.verdicts]
    right = sum(said == true for said, true in verdicts)
    found = f"{right} of {len(verdicts)}"
    return Check("verdicts at delta 1e-6 that are right", right == len(verdicts), found, "all")


def _intervals_right(best: dict[Case, Asked], truths: dict[Case, Truth]) -> Check:
    """The bounds at delta 1e-6 contain the true gap, which itself is known within a few standard errors."""
    inside = [
        v.gap.low - 0.005 <= truths[case].gap <= v.gap.high + 0.005
        for case, each in best.items()
        for v in each.verdicts
    ]
    name = "bounds of the gap that contain the true one (itself known within 0.005)"
    return Check(name, all(inside), f"{sum(inside)} of {len(inside)}", "all")


def _fewer_than_traces(best: dict[Case, Asked]) -> list[Check]:
    checks = []
    for whose in _owners(list(best)):
        shares = {case: each.evaluations / case.reported.traces for case, each in best.items() if case.whose == whose}
        worst = max(shares, key=lambda case: shares[case])
        seed = max(
            v.evaluations / case.reported.traces for case, each in best.items() for v in each.verdicts if case in shares
        )
        name = f"evaluations at delta 1e-6 on {_of(whose)} networks, as a share of the paper's traces at 0.1"
        found = f"{shares[worst]:.2f} at most ({worst.name}); {seed:.2f} in the worst single run"
        checks.append(Check(name, shares[worst] < 1, found, "below 1 in every case"))
    return checks


def _behind(verdicts: dict[Case, dict[float, Asked]], promised: dict[Case, Promises]) -> list[str]:
    """Cases in which the paper's program or its rule asked the network less often, or was faster."""
    found = []
    for case, each in verdicts.items():
        ours, seconds, told = each[DELTA].evaluations, each[DELTA].milliseconds / 1e3, case.reported
        literal = promised[case].rule
        if ours >= told.traces:
            found.append(f"{case.title}: {ours:,.0f} evaluations at delta 1e-6, the paper {told.traces:,}")
        if literal.runs and ours >= literal.evaluations / literal.runs:
            found.append(
                f"{case.title}: {ours:,.0f} evaluations at delta 1e-6, the paper's rule to the letter "
                f"{literal.evaluations / literal.runs:,.0f} at 0.1"
            )
        if seconds >= told.seconds:
            found.append(f"{case.title}: {seconds:.2f} s, the paper {told.seconds} s")
    more = [
        each.estimate.evaluations / each.estimate.runs / case.reported.traces
        for case, each in promised.items()
        if each.estimate.runs
    ]
    dearer = sum(ratio >= 1 for ratio in more)
    if dearer:
        found.append(
            f"estimate mode at the paper's accuracy asks the network more often than the paper did in {dearer} of "
            f"{len(more)} cases, up to {max(more):.0f} times as often: this is what it takes to keep a promise that "
            f"the paper's rule was seen to break in {len(promises.broken(promised))} of {len(promised)}"
        )
    return found


# What other deltas cost.


def _efforts(verdicts: dict[Case, dict[float, Asked]]) -> Table:
    columns = [Column("network"), Column("case")]
    columns += [Column(f"evaluations at {shown(delta)}", ",.0f") for delta in DELTAS]
    columns += [Column(f"ms at {shown(delta)}", ".1f") for delta in DELTAS]
    rows: list[list[Cell]] = []
    for case, each in verdicts.items():
        row: list[Cell] = [case.whose, case.name, *(each[delta].evaluations for delta in DELTAS)]
        rows.append([*row, *(each[delta].milliseconds for delta in DELTAS)])
    return Table("Evaluations and time by delta", columns, rows)


# Six verdicts in a row.


def _together(cases: Sequence[Case], whose: str, sizes: Sizes) -> tuple[list[Cell], Check]:
    six = [case for case in cases if case.whose == whose]
    seconds = [_seconds_of_all(six, seed) for seed in range(max(3, sizes.turns))]
    limit = paper.FASTEST
    found = f"{median(seconds):.3f} s (fastest {min(seconds):.3f} s)"
    name = f"six feed-forward cases on {_of(whose)} networks decided together, networks read from their files"
    check = Check(
        name, median(seconds) < limit, found, f"below {limit} s, the paper's fastest single case", sizes.timed
    )
    return [whose, len(six), median(seconds), min(seconds), limit], check


def _seconds_of_all(cases: Sequence[Case], seed: int) -> float:
    start = time.perf_counter()
    for case in cases:
        assert case.spec.model.path is not None
        verify(OnnxModel(case.spec.model.path, case.spec), case.spec, seed=seed)
    return time.perf_counter() - start


def _together_table(rows: list[list[Cell]]) -> Table:
    columns = [Column("networks"), Column("cases", "d"), Column("seconds, median", ".3f"), Column("best", ".3f")]
    columns.append(Column("paper's fastest single case, seconds", ".2f"))
    return Table("The six feed-forward cases together, at delta 1e-6", columns, rows, "Reading the networks included.")
