"""Other methods on the same networks in the same run: how many evaluations each needs, and how long it takes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from benchmarks import cases as owners
from benchmarks.baselines.bootstrap import RESAMPLES, bootstrap, by_fairlearn
from benchmarks.baselines.counts import verdicts_of
from benchmarks.baselines.fixed_sample import fixed_sample, planned
from benchmarks.baselines.sequences import sequences_on_network
from benchmarks.baselines.verifair import AUTHORS_DELTA, authors_delta, verifair
from benchmarks.cases import DELTA, TRUTH_SEED, Case, Truth, all_cases, feed_forward, missing_text, text_cases, truth_of
from benchmarks.paper import COMPARISON, THRESHOLD, quoted
from benchmarks.results import Cell, Check, Column, PartResult, Table, count_name
from benchmarks.sizes import Sizes
from fairchain.prepare import prepare
from fairchain.verification.sampler import Sampler

TESTED = 1000
# What takes a millisecond is timed so often.
TURNS = 20
# How often a method that takes fewer seconds than this is timed for each seed.
REPEATED, SHORT = 5, 0.02
FEWER_EACH, FEWER_MEDIAN = 10.0, 15.0
# At most so many inputs at a time go through a network, and at most so many evaluations are made.
PIECE, MOST = 8192, 3_000_000
TEXT = f"""This section compares fairchain with other methods that decide the same property on the same networks, with
inputs from the same populations. We implemented the other methods from their [published
descriptions](../docs/benchmarks.md#other-methods):

- *VeriFair 1e-6* is VeriFair's rule with fairchain's delta. *VeriFair {AUTHORS_DELTA:g} a group* is the same rule with
  a delta of {AUTHORS_DELTA:g} for each group, as in the program of VeriFair's authors.
- *Sequences 1e-6* are confidence sequences for the rate of each group. They are computed whenever the number of inputs
  has grown by 1%.
- *Fixed sample 1e-6* computes exact intervals once, after a number of inputs that is planned before the run. The plan
  uses the true rates, which are unknown in practice.
- *Bootstrap 95%* computes an interval of the gap from {TESTED:,} inputs of each group. It has no guarantee.

A round of fairchain shows one input as several groups. In the cases about comments, a round has one text of each group,
and all texts of a round have the same position in the [sorted texts](../docs/text.md#observed-and-swapped-texts) of
their group. The other methods draw the inputs of each group separately, as published.

VeriFair's rule computes its bounds after every input, as its authors' program does. The authors' program evaluates the
network on one input at a time. Our implementation evaluates many inputs at once, which makes VeriFair's rule faster.
VeriFair's paper defines demographic parity as a ratio. We use VeriFair's "causal" specification instead, because it
limits a difference of probabilities, as our property does.

The methods run in turns. Every method starts with the loaded network and the spec, and prepares the population in the
measured time. If a run takes less than {1e3 * SHORT:g} ms, it is repeated, and the shortest of {REPEATED} times is
used. The other methods use one thread. fairchain uses all cores, but its short runs hardly use the second core."""


@dataclass(frozen=True)
class Effort:
    """One run of a method on a case: its decision and its cost."""

    verdicts_of: str
    evaluations: int
    seconds: float


@dataclass(frozen=True)
class CaseRuns:
    """All runs of all methods on one case, and the right verdict."""

    truth: str
    efforts: dict[str, list[Effort]]

    def evaluations(self, method: str) -> float:
        """The mean over seeds."""
        return fmean(each.evaluations for each in self.efforts[method])

    def seconds(self, method: str) -> float:
        """The median over seeds."""
        return median(each.seconds for each in self.efforts[method])

    def ratio(self, method: str) -> tuple[float, float | None]:
        """Return evaluations of a method for one of ours, and the standard error of this ratio of means, by seed."""
        theirs, ours = (np.array([each.evaluations for each in self.efforts[name]]) for name in (method, OURS))
        ratio = theirs.mean() / ours.mean()
        if len(ours) < 2:
            return float(ratio), None
        error = (theirs - ratio * ours).std(ddof=1) / (np.sqrt(len(ours)) * ours.mean())
        return float(ratio), float(error)


class Drawn:
    """Inputs of each group, drawn separately; prepared from the loaded network and the spec, as fairchain's are."""

    def __init__(self, case: Case, seed: int) -> None:
        ready = prepare(case.model, case.spec, seed=seed)
        self._comparison, self._groups = ready.comparison, tuple(range(len(ready.comparison.counted)))
        self._sampler = Sampler(case.model, ready.population, seed, self._comparison, coupled=False)

    def __call__(self, first: int, count: int) -> NDArray[np.bool_]:
        """Return (groups, count): whether each input gets the outcome, from the first one on, a multiple of `count`."""
        labels = self._comparison.fold(self._sampler.labels(first // count, count, self._groups))
        successes: NDArray[np.bool_] = labels == self._comparison.rows[0]
        return successes


class NetworkCount:
    """Counts of more and more inputs of each group, each drawn once."""

    def __init__(self, case: Case, seed: int) -> None:
        self._drawn, self._groups, self._chunk = Drawn(case, seed), case.groups, 0

    def __call__(self, size: int) -> NDArray[np.int64]:
        """Return the successes among so many more inputs of each group, (1, groups)."""
        total = np.zeros((1, self._groups), np.int64)
        for start in range(0, size, PIECE):
            count = min(PIECE, size - start)
            total[0] += self._drawn(self._chunk * count, count).sum(axis=1)
            self._chunk += 1
        return total


Method = Callable[[Case, Truth, int], tuple[str, int]]


def _fairchain(case: Case, truth: Truth, seed: int) -> tuple[str, int]:  # noqa: ARG001  # it knows no truth
    verdict = case.verdict(seed)
    return verdict.decision.name, verdict.evaluations


def _verifair(delta: Callable[[int], float]) -> Method:
    def decide(case: Case, truth: Truth, seed: int) -> tuple[str, int]:  # noqa: ARG001
        stopped = verifair(Drawn(case, seed), case.groups, THRESHOLD, delta(case.groups), MOST)
        return stopped.decision, stopped.evaluations

    return decide


def _sequences(case: Case, truth: Truth, seed: int) -> tuple[str, int]:  # noqa: ARG001
    stopped = sequences_on_network(Drawn(case, seed), case.groups, THRESHOLD, DELTA, MOST)
    return stopped.decision, stopped.evaluations


def _fixed(case: Case, truth: Truth, seed: int) -> tuple[str, int]:
    size = planned(truth.rates[0], THRESHOLD, DELTA)
    decision = fixed_sample(NetworkCount(case, seed)(size), size, THRESHOLD, DELTA)
    return str(decision[0]), size * case.groups


def _bootstrap(case: Case, truth: Truth, seed: int) -> tuple[str, int]:  # noqa: ARG001
    successes = NetworkCount(case, seed)(TESTED)
    return str(verdicts_of(bootstrap(successes, TESTED, seed), THRESHOLD)[0]), TESTED * case.groups


OURS, RIVAL, SEQUENCES = "fairchain 1e-6", "VeriFair 1e-6", "sequences 1e-6"
AUTHORS, FIXED, BOOTSTRAP = f"VeriFair {AUTHORS_DELTA:g} a group", "fixed sample 1e-6", "bootstrap 95%"
METHODS: dict[str, Method] = {
    OURS: _fairchain,
    RIVAL: _verifair(lambda groups: DELTA),  # noqa: ARG005
    AUTHORS: _verifair(authors_delta),
    SEQUENCES: _sequences,
    FIXED: _fixed,
    BOOTSTRAP: _bootstrap,
}
RATIO, SEQUENCES_RATIO = "VeriFair / ours", "sequences / ours"
# What must be known to set a method beside ours.
BUT = {FIXED: " (it knows the true rates)", BOOTSTRAP: " (it guarantees nothing)"}


def efforts(case: Case, truth: Truth, seeds: int) -> CaseRuns:
    """Run each method on one case, over seeds."""
    case.verdict(0)
    found: dict[str, list[Effort]] = {}
    for seed in range(seeds):
        for name, method in METHODS.items():
            took: list[float] = []
            # Methods take turns, and one that takes milliseconds is timed several times, of which the shortest counts:
            # other programs can only make a time longer.
            while len(took) < (REPEATED if not took or took[0] < SHORT else 1):
                start = time.perf_counter()
                decision, evaluations = method(case, truth, seed)
                took.append(time.perf_counter() - start)
            found.setdefault(name, []).append(Effort(decision, evaluations, min(took)))
    return CaseRuns(truth.verdict, found)


def run(sizes: Sizes, models: Path | None) -> PartResult:
    """Run every method on every case."""
    with feed_forward(models) as cases:
        texts = text_cases() if sizes.text_seeds else []
        found = {}
        for case in (*cases, *texts):
            truth = truth_of(case, sizes.text_truth if case.reads_texts else sizes.truth)
            found[case] = efforts(case, truth, sizes.rivals)
        fairlearn, slower = _fairlearn_table(min(cases, key=lambda case: case.groups), sizes)
    counts = _counts(found)
    checks = [*_fewer(found, sizes), _slower(found, sizes), _right(found), all_cases(list(found), sizes)]
    return PartResult(
        text=TEXT + missing_text(list(found), sizes),
        tables=[_samples(found), _ratios(found), _answers(found), _times(found, slower), fairlearn, _papers(found)],
        checks=checks,
        settings={
            "seeds": f"{_seeds(sizes)} of every method, {TRUTH_SEED:,} of the large run",
            "the plan of a fixed sample has": "its size as the seed",
            "inputs tested by the bootstrap": TESTED,
        },
        behind=_behind(found, slower),
        counts=counts,
    )


def _seeds(sizes: Sizes) -> str:
    return f"0 to {sizes.rivals - 1}" if sizes.rivals > 1 else "0"


def _counts(found: dict[Case, CaseRuns]) -> dict[str, list[int | None]]:
    """Return the evaluations of the sequential methods, which do not depend on the machine but for rounding."""
    return {
        count_name(case.owner, case.name, method): [each.evaluations for each in runs.efforts[method]]
        for case, runs in found.items()
        for method in (OURS, RIVAL, AUTHORS, SEQUENCES)
    }


# Tables.


def _methods(found: dict[Case, CaseRuns]) -> list[str]:
    return list(next(iter(found.values())).efforts)


def _samples(found: dict[Case, CaseRuns]) -> Table:
    methods = _methods(found)
    columns = [Column("network"), Column("case"), Column("groups", "d"), *(Column(name, ",.0f") for name in methods)]
    rows: list[list[Cell]] = [
        [case.owner, case.name, case.groups, *(runs.evaluations(name) for name in methods)]
        for case, runs in found.items()
    ]
    note = (
        f"The numbers are means over seeds. The bootstrap always evaluates {TESTED:,} inputs of each group. The size "
        "of the fixed sample is planned so that nine of ten runs end with FAIR or UNFAIR."
    )
    return Table("Evaluations until the verdict", columns, rows, note)


def _ratios(found: dict[Case, CaseRuns]) -> Table:
    columns = [Column("network"), Column("case"), Column(RATIO, ".1f"), Column("its standard error", ".1f")]
    columns += [Column("single seeds"), Column(SEQUENCES_RATIO, ".1f"), Column("standard error of this", ".1f")]
    rows: list[list[Cell]] = []
    for case, runs in found.items():
        pairs = zip(runs.efforts[RIVAL], runs.efforts[OURS], strict=True)
        single = [rival.evaluations / ours.evaluations for rival, ours in pairs]
        spread = f"{min(single):.0f} to {max(single):.0f}"
        rows.append([case.owner, case.name, *runs.ratio(RIVAL), spread, *runs.ratio(SEQUENCES)])
    note = (
        "A ratio is the mean number of evaluations of the other method divided by that of fairchain, at delta 1e-6. "
        "*Single seeds* shows the smallest and the largest of the ratios of all seeds, for VeriFair."
    )
    return Table("Evaluations of others for one of fairchain", columns, rows, note)


def _answers(found: dict[Case, CaseRuns]) -> Table:
    columns = [Column("method"), Column("runs", "d"), Column("right", "d"), Column("undecided", "d")]
    columns += [Column("wrong", "d"), Column("where not right")]
    rows: list[list[Cell]] = []
    for name in _methods(found):
        given = Counter[str]()
        for runs in found.values():
            given.update(_judged(each.verdicts_of, runs.truth) for each in runs.efforts[name])
        row: list[Cell] = [name, given.total(), given["right"], given["undecided"], given["wrong"]]
        rows.append([*row, _otherwise(found, name)])
    note = "The right verdict comes from one large run of each case, which no method has used."
    return Table("Answers", columns, rows, note)


def _judged(answer: str, truth: str) -> str:
    return "undecided" if answer == "UNDECIDED" else "right" if answer == truth else "wrong"


def _otherwise(found: dict[Case, CaseRuns], method: str) -> str:
    """Return every answer that is not the truth: where, which, and in how many runs."""
    lines = []
    for case, runs in found.items():
        other = Counter(each.verdicts_of for each in runs.efforts[method] if each.verdicts_of != runs.truth)
        lines += [f"{case.title}: {answer} {count}" for answer, count in sorted(other.items())]
    return "; ".join(lines) or "-"


def _times(found: dict[Case, CaseRuns], slower: float) -> Table:
    methods = _methods(found)
    columns = [Column("network"), Column("case"), *(Column(name, ",.2f") for name in methods)]
    columns.append(Column(SEQUENCES_RATIO, ".2f"))
    rows: list[list[Cell]] = []
    for case, runs in found.items():
        ratio = runs.seconds(SEQUENCES) / runs.seconds(OURS)
        rows.append([case.owner, case.name, *(1e3 * runs.seconds(name) for name in methods), ratio])
    note = (
        f"The times are medians over seeds. *{SEQUENCES_RATIO.capitalize()}* is the time of confidence sequences "
        "divided by the time of fairchain. The time of the fixed sample includes planning by simulation. Our bootstrap "
        f"resamples counts. fairlearn's own bootstrap resamples rows and takes {slower:,.0f} times as long (next "
        "table)."
    )
    return Table("Milliseconds until the verdict", columns, rows, note)


def _fairlearn_table(case: Case, sizes: Sizes) -> tuple[Table, float]:
    """Run fairlearn's own bootstrap once, beside the same by counts; return the table and the ratio of times."""
    size, resamples = (TESTED, RESAMPLES) if sizes.paper else (200, 10)
    successes = case.draw(0, 0, size)
    by_fairlearn(successes[:, :20], 0, resamples=1)  # what it imports is not its work
    start = time.perf_counter()
    own = by_fairlearn(successes, 0, resamples=resamples)
    middle = time.perf_counter()
    for _ in range(TURNS):
        low, high = bootstrap(successes.sum(axis=1)[None], size, 0, resamples=resamples)
    seconds, by_counts = middle - start, (time.perf_counter() - middle) / TURNS
    rows: list[list[Cell]] = [
        ["fairlearn's MetricFrame", successes.size, resamples, *own, seconds],
        ["by counts (in the tables here)", successes.size, resamples, float(low[0]), float(high[0]), by_counts],
    ]
    columns = [Column("bootstrap"), Column("rows", ",d"), Column("resamples", "d"), Column("low", ".3f")]
    columns += [Column("high", ".3f"), Column("seconds", ".4f")]
    note = (
        "*Low* and *high* are the bounds of the gap. Both bootstraps resample at random, so their bounds differ a "
        "little. The seconds do not include the evaluations of the network."
    )
    return Table(f"fairlearn's bootstrap itself, {case.name}", columns, rows, note), seconds / by_counts


def _papers(found: dict[Case, CaseRuns]) -> Table:
    """Return the paper's own comparison, quoted, beside how long fairchain takes for its harder property."""
    here = {(case.owner, case.network, case.protected): runs.seconds(OURS) for case, runs in found.items()}
    columns = [Column("case"), Column("paper: FairSquare", "s"), Column("paper: VeriFair", ".2f")]
    columns += [Column("paper: its own method", "s"), Column("here: fairchain, our network", ".4f")]
    columns += [Column("here: fairchain, the paper's network", ".4f")]
    rows: list[list[Cell]] = []
    for (network, protected), reported in COMPARISON.items():
        mine = [here.get((owner, network, protected)) for owner in (owners.OURS, owners.PAPERS)]
        rows.append([f"{network} {protected}", reported.fairsquare, reported.verifair, quoted(reported.seconds), *mine])
    note = (
        "The table shows seconds, and minutes where a cell says so. The paper's times are quoted, and were measured on "
        "its authors' machine. The paper's comparison is about another property than our tables. In the paper, "
        "protected features are binned into two groups (the bins are not stated), and the property is VeriFair's "
        "demographic parity, a ratio of at least 0.85. Our seconds are about a difference of at most 0.1 over all "
        "groups. So credit by age is fair in the paper's comparison, but unfair in our tables and in the paper's first "
        "table. The paper does not state the number of evaluations. FairSquare does not read recurrent networks, and "
        "VeriFair's program does not read texts, so their cells for comments are empty."
    )
    return Table("The paper's own comparison", columns, rows, note)


# What must hold, and where others are ahead.


def _fewer(found: dict[Case, CaseRuns], sizes: Sizes) -> list[Check]:
    ratios = {case: runs.ratio(RIVAL) for case, runs in found.items()}
    below = [case for case, (ratio, _) in ratios.items() if ratio < FEWER_EACH]
    least = min(ratios, key=lambda case: ratios[case][0])
    middle = median(ratio for ratio, _ in ratios.values())
    reported = ", ".join(f"{_give(*ratios[case])} ({case.title})" for case in below or [least])
    name = "evaluations of VeriFair's rule / evaluations of fairchain, at delta 1e-6, in every case"
    # One seed gives no mean: there counts are compared with the kept ones instead.
    mean = sizes.rivals > 1
    return [
        Check(name, not below, reported if below else f"{reported} at least", f"at least {FEWER_EACH:g}", mean),
        Check(
            "the same ratio, median of all cases", middle >= FEWER_MEDIAN, f"{middle:.1f}", f"at least {FEWER_MEDIAN:g}"
        ),
    ]


def _slower(found: dict[Case, CaseRuns], sizes: Sizes) -> Check:
    """Check that no method with a guarantee is faster in any case."""
    rivals = (RIVAL, AUTHORS, SEQUENCES, FIXED)
    behind = [
        case
        for case, runs in found.items()
        if any(name in runs.efforts and runs.seconds(name) < runs.seconds(OURS) for name in rivals)
    ]
    reported = f"{len(behind)} of {len(found)}" + (f" ({', '.join(case.title for case in behind)})" if behind else "")
    return Check("cases in which another method with a guarantee is faster", not behind, reported, "none", sizes.paper)


def _give(value: float, error: float | None) -> str:
    return f"{value:.1f}" if error is None else f"{value:.1f} ± {error:.1f}"


def _right(found: dict[Case, CaseRuns]) -> Check:
    answers = [_judged(each.verdicts_of, runs.truth) for runs in found.values() for each in runs.efforts[OURS]]
    right = answers.count("right")
    return Check("verdicts of fairchain that are right", right == len(answers), f"{right} of {len(answers)}", "all")


def _behind(found: dict[Case, CaseRuns], slower: float) -> list[str]:
    lines = [
        f"{case.title}: only {_give(*runs.ratio(RIVAL))} times fewer evaluations than VeriFair's rule"
        for case, runs in found.items()
        if runs.ratio(RIVAL)[0] < FEWER_EACH
    ]
    for name in _methods(found)[1:]:
        fewer = [case for case, runs in found.items() if runs.evaluations(name) < runs.evaluations(OURS)]
        if fewer:
            lines.append(f"{name}{BUT.get(name, '')} evaluates the network less often: {_listed(fewer, found)}")
        faster = [case for case, runs in found.items() if runs.seconds(name) < runs.seconds(OURS)]
        if faster:
            most = max(found[case].seconds(OURS) - found[case].seconds(name) for case in faster)
            own = f". fairlearn's own bootstrap takes {slower:,.0f} times as long as our bootstrap"
            own = own if name == BOOTSTRAP else ""
            at_most = f"up to {1e3 * most:.0f} ms" if most >= 0.001 else "less than 1 ms"
            lines.append(
                f"{name}{BUT.get(name, '')} takes less time, by {at_most}, in "
                f"{len(faster)} of {len(found)} cases: {_listed(faster, found)}{own}"
            )
    if any("takes less time" in line for line in lines):
        lines.append(
            "the reason for these times in the feed-forward cases: the networks answer in microseconds, so the methods "
            "themselves take most of the time. The other methods return only a verdict. fairchain also keeps "
            "evidence, from which it computes bounds and witnesses when they are read"
        )
    return lines


def _listed(cases: Sequence[Case], found: dict[Case, CaseRuns]) -> str:
    return "all" if len(cases) == len(found) else ", ".join(case.title for case in cases)
