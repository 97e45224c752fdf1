"""The paper's table of verification: verdicts, what they cost at several deltas, and what its own rule gets wrong."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks import paper
from benchmarks.cases import (
    DELTA,
    OURS,
    PAPERS,
    TRUTH_SEED,
    Case,
    Truth,
    all_cases,
    feed_forward,
    missing_text,
    text_cases,
    truth_of,
)
from benchmarks.paper_models import KNOWN_GAPS, KNOWN_WITHIN, PROTOTYPE_EVALUATIONS
from benchmarks.parts import estimates
from benchmarks.parts.estimates import BothRules
from benchmarks.parts.rivals import delta_text
from benchmarks.results import Cell, Check, Column, PartResult, Table, count_name
from benchmarks.sizes import Sizes
from fairchain import OnnxModel, Verdict, verify

DELTAS = (0.1, 0.05, DELTA)
TEXT = """This section verifies the paper's cases with fairchain, and compares evaluations and times with those that the
paper reports. Six cases are about feed-forward networks, and two cases are about comments. In each case, the property
is: the largest difference of P(outcome) between two values of the protected feature is at most 0.1.

- *Evaluations* is the number of evaluations of the network, as a mean over seeds. The paper calls an evaluation a
  *trace*.
- *Ms* is the time of one call of `verify` on all cores in milliseconds, as a median over seeds. The network was loaded
  before the call.
- *States* is the number of states of the chain start -> group -> label, as in the paper.
- The *true gap* comes from one large run of rounds that no verdict has used."""


@dataclass(frozen=True)
class Verdicts:
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
    def decisions(self) -> str:
        """The decisions, with their numbers of runs if they differ."""
        names = [verdict.decision.name for verdict in self.verdicts]
        return ", ".join(f"{name} {names.count(name)}" if len(set(names)) > 1 else name for name in sorted(set(names)))


def verdicts_on(case: Case, seeds: int, **changes: Any) -> Verdicts:
    """Return the verdicts of seeds 0, 1, ... after one that warms up."""
    case.verdict(0, **changes)
    verdicts, seconds = [], []
    for seed in range(seeds):
        start = time.perf_counter()
        verdicts.append(case.verdict(seed, **changes))
        seconds.append(time.perf_counter() - start)
    return Verdicts(verdicts, seconds)


def run(sizes: Sizes, models: Path | None) -> PartResult:
    """Verify every case at every delta."""
    with feed_forward(models) as cases:
        texts = text_cases() if sizes.text_seeds else []
        verdicts: dict[Case, dict[float, Verdicts]] = {}
        truths: dict[Case, Truth] = {}
        for case in (*cases, *texts):
            seeds = sizes.text_seeds if case.reads_texts else sizes.seeds
            verdicts[case] = {delta: verdicts_on(case, seeds, guarantee__delta=delta) for delta in DELTAS}
            truths[case] = truth_of(case, sizes.text_truth if case.reads_texts else sizes.truth)
        together = [_together(cases, owner, sizes) for owner in _owners(cases)]
        repeated = estimates.repeated(truths, sizes)
    best = {case: each[DELTA] for case, each in verdicts.items()}
    counts = _counts(verdicts)
    checks = [all_cases(list(best), sizes), _all_right(best, truths), _intervals_right(best, truths)]
    checks += [
        *_known_networks(best),
        *_fewer_than_traces(best),
        *(check for _, check in together),
        estimates.within_delta(repeated),
    ]
    checks.append(estimates.all_runs(repeated, sizes))
    return PartResult(
        text=TEXT + missing_text(list(best), sizes),
        tables=[
            _verdicts(best, truths),
            _beside_the_paper(best, truths),
            _efforts(verdicts),
            estimates.table(repeated, sizes),
            _together_table([row for row, _ in together]),
        ],
        checks=checks,
        settings={
            "seeds": sizes.seeds,
            "seeds of text cases": sizes.text_seeds if texts else 0,
            "rounds of the large run": sizes.truth,
            "of text cases": sizes.text_truth if texts else 0,
            "seed of the large run": TRUTH_SEED,
            "repetitions of the paper's rule and of estimate mode": sizes.repetitions,
            "of estimate mode on texts": sizes.text_repetitions if texts else 0,
        },
        behind=_behind(verdicts, repeated),
        counts=counts,
    )


def _counts(verdicts: dict[Case, dict[float, Verdicts]]) -> dict[str, list[int | None]]:
    return {
        count_name(case.owner, case.name, f"delta {delta_text(delta)}"): [each.evaluations for each in runs.verdicts]
        for case, by_delta in verdicts.items()
        for delta, runs in by_delta.items()
    }


def _owners(cases: Sequence[Case]) -> list[str]:
    return [owner for owner in (OURS, PAPERS) if any(case.owner == owner for case in cases)]


def _of(owner: str) -> str:
    """Before a noun."""
    return "our" if owner == OURS else owner


# The verdicts themselves.


def _verdicts(best: dict[Case, Verdicts], truths: dict[Case, Truth]) -> Table:
    columns = [Column("network"), Column("case"), Column("groups", "d"), Column("states", "d")]
    columns += [Column("rounds", ",.0f"), Column("evaluations", ",.0f"), Column("gap [bounds], seed 0")]
    columns += [Column("true gap", ".4f"), Column("verdict"), Column("ms", ".1f")]
    rows: list[list[Cell]] = []
    for case, each in best.items():
        rounds = fmean(verdict.rounds for verdict in each.verdicts)
        row: list[Cell] = [case.owner, case.name, case.groups, case.states, rounds, each.evaluations]
        rows.append([*row, str(each.verdicts[0].gap), truths[case].gap, each.decisions, each.milliseconds])
    note = "A run stops as soon as the verdict is known, so the bounds of the gap are wide."
    return Table("Verdicts at delta 1e-6", columns, rows, note)


def _beside_the_paper(best: dict[Case, Verdicts], truths: dict[Case, Truth]) -> Table:
    columns = [Column("network"), Column("case"), Column("verdict"), Column("paper: verdict")]
    columns += [Column("paper: states", "d"), Column("true gap", ".4f"), Column("paper: gap", ".4f")]
    columns += [Column("evaluations", ",.0f"), Column("paper: traces", ",d"), Column("paper: time")]
    rows: list[list[Cell]] = []
    for case, each in best.items():
        reported = case.reported
        row: list[Cell] = [
            case.owner,
            case.name,
            each.decisions,
            reported.verdict,
            reported.states,
            truths[case].gap,
            reported.gap,
        ]
        rows.append(
            [*row, each.evaluations, reported.traces, f"{paper.quoted(reported.seconds)}{_unit(reported.seconds)}"]
        )
    otherwise = [case.title for case, each in best.items() if each.decisions != case.reported.verdict]
    note = (
        "The paper's columns are quoted. Their numbers come from the paper's networks and its authors' machine, at "
        "delta 0.1."
    )
    if otherwise:
        note += f" For {', '.join(otherwise)}, the verdict differs from the paper's, because the gap differs."
    return Table("Verdicts beside what the paper reports", columns, rows, note)


def _unit(seconds: float) -> str:
    return "" if paper.quoted(seconds).endswith("min") else " s"


def _all_right(best: dict[Case, Verdicts], truths: dict[Case, Truth]) -> Check:
    verdicts = [(v.decision.name, truths[case].verdict) for case, each in best.items() for v in each.verdicts]
    right = sum(decisions == true for decisions, true in verdicts)
    found = f"{right} of {len(verdicts)}"
    return Check("verdicts at delta 1e-6 that are right", right == len(verdicts), found, "all")


def _intervals_right(best: dict[Case, Verdicts], truths: dict[Case, Truth]) -> Check:
    """Check that the bounds contain the true gap, which itself is known within a few standard errors."""
    inside = [
        v.gap.low - 0.005 <= truths[case].gap <= v.gap.high + 0.005
        for case, each in best.items()
        for v in each.verdicts
    ]
    name = "bounds of the gap that contain the true gap (which is known within 0.005)"
    return Check(name, all(inside), f"{sum(inside)} of {len(inside)}", "all")


def _known_networks(best: dict[Case, Verdicts]) -> list[Check]:
    """Check the paper's networks against gaps from a large sample of another program, and a prototype's evaluations."""
    papers = {case: each for case, each in best.items() if case.owner == PAPERS}
    if not papers:
        return []
    hits = [
        v.gap.low - KNOWN_WITHIN <= KNOWN_GAPS[case.network, case.protected] <= v.gap.high + KNOWN_WITHIN
        for case, each in papers.items()
        for v in each.verdicts
    ]
    shares = {
        case: each.evaluations / PROTOTYPE_EVALUATIONS[case.network, case.protected] for case, each in papers.items()
    }
    worst = max(shares, key=lambda case: shares[case])
    most = f"{shares[worst]:.2f} at most ({worst.name})"
    return [
        Check(
            "bounds that contain the gap that another program estimated from a large sample, the paper's networks",
            all(hits),
            f"{sum(hits)} of {len(hits)}",
            "all",
        ),
        Check(
            "evaluations / evaluations of a simple prototype program for the betting rule",
            shares[worst] <= 1,
            most,
            "at most 1 in every case",
        ),
    ]


def _fewer_than_traces(best: dict[Case, Verdicts]) -> list[Check]:
    checks = []
    for owner in _owners(list(best)):
        shares = {case: each.evaluations / case.reported.traces for case, each in best.items() if case.owner == owner}
        worst = max(shares, key=lambda case: shares[case])
        seed = max(
            v.evaluations / case.reported.traces for case, each in best.items() for v in each.verdicts if case in shares
        )
        name = f"evaluations at delta 1e-6 on {_of(owner)} networks / the paper's traces at delta 0.1"
        found = f"{shares[worst]:.2f} at most ({worst.name}); {seed:.2f} in the worst single run"
        checks.append(Check(name, shares[worst] < 1, found, "below 1 in every case"))
    return checks


def _behind(verdicts: dict[Case, dict[float, Verdicts]], repeated: dict[Case, BothRules]) -> list[str]:
    """Return the cases in which the paper's program or its rule evaluated the network less often, or was faster."""
    found = []
    for case, each in verdicts.items():
        ours, seconds, reported = each[DELTA].evaluations, each[DELTA].milliseconds / 1e3, case.reported
        rule = repeated[case].rule
        if ours >= reported.traces:
            found.append(f"{case.title}: {ours:,.0f} evaluations at delta 1e-6, the paper {reported.traces:,} traces")
        if rule.runs and ours >= rule.evaluations / rule.runs:
            found.append(
                f"{case.title}: {ours:,.0f} evaluations at delta 1e-6, the paper's rule "
                f"{rule.evaluations / rule.runs:,.0f} at delta 0.1"
            )
        if seconds >= reported.seconds:
            found.append(f"{case.title}: {seconds:.2f} s, the paper {reported.seconds} s")
    more = [
        each.estimate.evaluations / each.estimate.runs / case.reported.traces
        for case, each in repeated.items()
        if each.estimate.runs
    ]
    dearer = sum(ratio >= 1 for ratio in more)
    if dearer:
        found.append(
            f"in {dearer} of {len(more)} cases, estimate mode at the paper's accuracy needs more evaluations than the "
            f"paper reports, up to {max(more):.0f} times as many. This is the cost of a guarantee. In "
            f"{len(estimates.broken(repeated))} of {len(repeated)} cases, the paper's rule had an error above "
            f"{paper.EPSILON:g} in significantly more runs than the paper claims"
        )
    return found


# What other deltas cost.


def _efforts(verdicts: dict[Case, dict[float, Verdicts]]) -> Table:
    columns = [Column("network"), Column("case")]
    columns += [Column(f"evaluations at {delta_text(delta)}", ",.0f") for delta in DELTAS]
    columns += [Column(f"ms at {delta_text(delta)}", ".1f") for delta in DELTAS]
    rows: list[list[Cell]] = []
    for case, each in verdicts.items():
        row: list[Cell] = [case.owner, case.name, *(each[delta].evaluations for delta in DELTAS)]
        rows.append([*row, *(each[delta].milliseconds for delta in DELTAS)])
    return Table("Evaluations and time by delta", columns, rows)


# Six verdicts in a row.


def _together(cases: Sequence[Case], owner: str, sizes: Sizes) -> tuple[list[Cell], Check]:
    six = [case for case in cases if case.owner == owner]
    seconds = [_seconds_of_all(six, seed) for seed in range(max(3, sizes.turns))]
    limit = paper.FASTEST
    found = f"{median(seconds):.3f} s (fastest {min(seconds):.3f} s)"
    name = f"time to read {_of(owner)} networks and decide the six feed-forward cases, one after another"
    check = Check(
        name, median(seconds) < limit, found, f"below {limit} s, the paper's fastest single case", sizes.paper
    )
    return [owner, len(six), median(seconds), min(seconds), limit], check


def _seconds_of_all(cases: Sequence[Case], seed: int) -> float:
    start = time.perf_counter()
    for case in cases:
        assert case.spec.model.path is not None
        verify(OnnxModel(case.spec.model.path, case.spec), case.spec, seed=seed)
    return time.perf_counter() - start


def _together_table(rows: list[list[Cell]]) -> Table:
    columns = [Column("networks"), Column("cases", "d"), Column("seconds, median", ".3f"), Column("best", ".3f")]
    columns.append(Column("paper's fastest single case, seconds", ".2f"))
    note = "The six cases are decided one after another. The time to read the networks is included."
    return Table("The six feed-forward cases together, at delta 1e-6", columns, rows, note)
