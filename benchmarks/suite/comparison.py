"""Other methods on the same networks in the same run: how often each asks the network, and how long it takes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.bootstrap import RESAMPLES, bootstrap, by_fairlearn
from benchmarks.baselines.counts import said
from benchmarks.baselines.fixed_sample import fixed_sample, planned
from benchmarks.baselines.sequences import sequences_on_network
from benchmarks.baselines.verifair import AUTHORS_DELTA, authors_delta, verifair
from benchmarks.suite import cases as whose
from benchmarks.suite.cases import DELTA, Case, feed_forward, of_texts
from benchmarks.suite.kept import counted
from benchmarks.suite.missing import all_cases, not_run
from benchmarks.suite.outcome import Cell, Check, Column, Found, Table
from benchmarks.suite.paper import COMPARISON, THRESHOLD, quoted
from benchmarks.suite.sizes import Sizes
from benchmarks.suite.truth import TRUTH_SEED, Truth, truth_of
from fairchain.populations import build_population

TESTED = 1000
# What takes a millisecond is timed so often.
TURNS = 20
FEWER_EACH, FEWER_MEDIAN = 10.0, 15.0
# At most so many people at a time go through a network, and at most so many evaluations are made.
PIECE, MOST = 8192, 3_000_000
TEXT = f"""All methods ask the same networks about people drawn from the same populations. A round of fairchain shows
one person as all groups (about comments: a text of each group, at the same place of the group's texts in order); the
others draw each group's people by themselves, as they were published. *Evaluations* are means over seeds and *seconds*
medians, with one thread for the others and all cores for fairchain (its short runs hardly use the second).

The other methods are written by us from their published descriptions. VeriFair's rule looks after every sample, as its
authors' program does; that program asks the network one person at a time, ours a piece at once, to its advantage in
time. Its authors' delta of {AUTHORS_DELTA:g} is for each group, and so it is here. A difference of probabilities is
its "causal" specification; demographic parity is a ratio in its paper. Confidence sequences are looked at whenever the
people grew by 1%. The fixed sample is told the true rates to plan with, to its advantage: nobody knows them."""


@dataclass(frozen=True)
class Effort:
    """What one method said about a case, after how much."""

    said: str
    evaluations: int
    seconds: float


@dataclass(frozen=True)
class Asked:
    """All that was said about one case, and what is true."""

    truth: str
    efforts: dict[str, list[Effort]]
    # Of our seconds, those that go into making the population ready, which the others are given.
    ready: float = 0.0

    def evaluations(self, method: str) -> float:
        """The mean over seeds."""
        return fmean(each.evaluations for each in self.efforts[method])

    def seconds(self, method: str) -> float:
        """The median over seeds."""
        return median(each.seconds for each in self.efforts[method])

    def ratio(self, method: str) -> tuple[float, float | None]:
        """Evaluations of a method for one of ours, and its standard error (that of a ratio of means, by seed)."""
        theirs, ours = (np.array([each.evaluations for each in self.efforts[name]]) for name in (method, OURS))
        ratio = theirs.mean() / ours.mean()
        if len(ours) < 2:
            return float(ratio), None
        error = (theirs - ratio * ours).std(ddof=1) / (np.sqrt(len(ours)) * ours.mean())
        return float(ratio), float(error)


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


def _verifair(delta: Callable[[int], float]) -> Method:
    def ask(case: Case, truth: Truth, seed: int) -> tuple[str, int]:  # noqa: ARG001
        stopped = verifair(_people(case, seed), case.groups, THRESHOLD, delta(case.groups), MOST)
        return stopped.decision, stopped.evaluations

    return ask


def _sequences(case: Case, truth: Truth, seed: int) -> tuple[str, int]:  # noqa: ARG001
    stopped = sequences_on_network(_people(case, seed), case.groups, THRESHOLD, DELTA, MOST)
    return stopped.decision, stopped.evaluations


def _people(case: Case, seed: int) -> Callable[[int, int], NDArray[np.bool_]]:
    return lambda first, count: case.draw(seed, first // count, count)


def _fixed(case: Case, truth: Truth, seed: int) -> tuple[str, int]:
    people = planned(truth.rates[0], THRESHOLD, DELTA)
    decision = fixed_sample(NetworkCount(case, seed)(people), people, THRESHOLD, DELTA)
    return str(decision[0]), people * case.groups


def _bootstrap(case: Case, truth: Truth, seed: int) -> tuple[str, int]:  # noqa: ARG001
    got = NetworkCount(case, seed)(TESTED)
    return str(said(bootstrap(got, TESTED, seed), THRESHOLD)[0]), TESTED * case.groups


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
RATIO = "VeriFair / ours"
# What must be known to set a method beside ours.
BUT = {FIXED: " (it is told the true rates)", BOOTSTRAP: " (it promises nothing)"}


def efforts(case: Case, truth: Truth, seeds: int) -> Asked:
    """Each method on one case, over seeds."""
    case.asked(0)
    found: dict[str, list[Effort]] = {}
    for name, method in METHODS.items():
        for seed in range(seeds):
            start = time.perf_counter()
            decision, evaluations = method(case, truth, seed)
            found.setdefault(name, []).append(Effort(decision, evaluations, time.perf_counter() - start))
    return Asked(truth.verdict, found, _ready(case))


def _ready(case: Case) -> float:
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        build_population(case.spec, case.comparison.subgroups, case.model.dtype)
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def run(sizes: Sizes, models: Path | None) -> Found:
    """All tables of this part."""
    with feed_forward(models) as cases:
        texts = of_texts() if sizes.text_seeds else []
        found = {}
        for case in (*cases, *texts):
            truth = truth_of(case, sizes.text_truth if case.reads_texts else sizes.truth)
            found[case] = efforts(case, truth, sizes.rivals)
        fairlearn, slower = _fairlearn_table(min(cases, key=lambda case: case.groups), sizes)
    counts = _counts(found)
    checks = [*_fewer(found, sizes), _right(found), all_cases(list(found), sizes)]
    return Found(
        text=TEXT + not_run(list(found), sizes),
        tables=[_samples(found), _ratios(found), _answers(found), _times(found, slower), fairlearn, _papers(found)],
        plots=[],
        checks=checks,
        used={
            "seeds": f"{_seeds(sizes)} of every method, {TRUTH_SEED:,} of the truth, to plan a fixed sample its size",
            "people tested by the bootstrap": TESTED,
        },
        behind=_behind(found, slower),
        counts=counts,
    )


def _seeds(sizes: Sizes) -> str:
    return f"0 to {sizes.rivals - 1}" if sizes.rivals > 1 else "0"


def _counts(found: dict[Case, Asked]) -> dict[str, int]:
    """Of the sequential methods, which are the same on every machine up to rounding in the network."""
    return {
        counted(case.whose, case.name, method, f"seed {seed}"): each.evaluations
        for case, asked in found.items()
        for method in (OURS, RIVAL, AUTHORS, SEQUENCES)
        for seed, each in enumerate(asked.efforts[method])
    }


# Tables.


def _methods(found: dict[Case, Asked]) -> list[str]:
    return list(next(iter(found.values())).efforts)


def _samples(found: dict[Case, Asked]) -> Table:
    methods = _methods(found)
    columns = [Column("network"), Column("case"), Column("groups", "d"), *(Column(name, ",.0f") for name in methods)]
    rows: list[list[Cell]] = [
        [case.whose, case.name, case.groups, *(asked.evaluations(name) for name in methods)]
        for case, asked in found.items()
    ]
    note = (
        f"The bootstrap asks {TESTED:,} people of each group whatever comes, and promises nothing. The fixed sample "
        "decides in nine of ten runs."
    )
    return Table("Evaluations until the verdict", columns, rows, note)


def _ratios(found: dict[Case, Asked]) -> Table:
    columns = [Column("network"), Column("case"), Column(RATIO, ".1f"), Column("standard error", ".1f")]
    columns += [Column("single seeds"), Column("sequences / ours", ".1f"), Column("its standard error", ".1f")]
    rows: list[list[Cell]] = []
    for case, asked in found.items():
        pairs = zip(asked.efforts[RIVAL], asked.efforts[OURS], strict=True)
        single = [rival.evaluations / ours.evaluations for rival, ours in pairs]
        spread = f"{min(single):.0f} to {max(single):.0f}"
        rows.append([case.whose, case.name, *asked.ratio(RIVAL), spread, *asked.ratio(SEQUENCES)])
    note = (
        "Means of both divided, all at delta 1e-6; *single seeds* are the least and the largest quotient of one seed."
    )
    return Table("Evaluations of others for one of fairchain", columns, rows, note)


def _answers(found: dict[Case, Asked]) -> Table:
    columns = [Column("method"), Column("runs", "d"), Column("right", "d"), Column("undecided", "d")]
    columns += [Column("wrong", "d"), Column("where not right")]
    rows: list[list[Cell]] = []
    for name in _methods(found):
        given = Counter[str]()
        for asked in found.values():
            given.update(_judged(each.said, asked.truth) for each in asked.efforts[name])
        row: list[Cell] = [name, given.total(), given["right"], given["undecided"], given["wrong"]]
        rows.append([*row, _otherwise(found, name)])
    note = "Against the truth, from one large run of each case that no method has seen."
    return Table("Answers", columns, rows, note)


def _judged(answer: str, truth: str) -> str:
    return "undecided" if answer == "UNDECIDED" else "right" if answer == truth else "wrong"


def _otherwise(found: dict[Case, Asked], method: str) -> str:
    """Every answer that is not the truth: where, which, and in how many runs."""
    lines = []
    for case, asked in found.items():
        other = Counter(each.said for each in asked.efforts[method] if each.said != asked.truth)
        lines += [f"{case.title}: {answer} {count}" for answer, count in sorted(other.items())]
    return "; ".join(lines) or "-"


def _times(found: dict[Case, Asked], slower: float) -> Table:
    methods = _methods(found)
    columns = [Column("network"), Column("case"), *(Column(name, ".3f") for name in methods)]
    rows: list[list[Cell]] = [
        [case.whose, case.name, *(asked.seconds(name) for name in methods)] for case, asked in found.items()
    ]
    note = (
        f"Medians. {_given(found)} The fixed sample includes planning it by simulation. The bootstrap is resampled by "
        f"counts, which is the same in law; fairlearn itself resamples {slower:,.0f} times as long (next table), so "
        "this column flatters it."
    )
    return Table("Seconds until the verdict", columns, rows, note)


def _given(found: dict[Case, Asked]) -> str:
    most = max(found, key=lambda case: found[case].ready)
    if found[most].ready < 0.001:
        return "A call of fairchain makes the population ready first, in less than a millisecond here."
    return (
        "A call of fairchain makes the population ready first, which the others are given: "
        f"{found[most].ready:.3f} s at most ({most.title})."
    )


def _fairlearn_table(case: Case, sizes: Sizes) -> tuple[Table, float]:
    """Fairlearn's own bootstrap once, beside the same by counts; and how many times as long it takes."""
    people, resamples = (TESTED, RESAMPLES) if sizes.timed else (200, 10)
    got = case.draw(0, 0, people)
    by_fairlearn(got[:, :20], 0, resamples=1)  # what it imports is not its work
    start = time.perf_counter()
    own = by_fairlearn(got, 0, resamples=resamples)
    middle = time.perf_counter()
    for _ in range(TURNS):
        low, high = bootstrap(got.sum(axis=1)[None], people, 0, resamples=resamples)
    seconds, by_counts = middle - start, (time.perf_counter() - middle) / TURNS
    rows: list[list[Cell]] = [
        ["fairlearn's MetricFrame", got.size, resamples, *own, seconds],
        ["by counts (in the tables here)", got.size, resamples, float(low[0]), float(high[0]), by_counts],
    ]
    columns = [Column("bootstrap"), Column("rows", ",d"), Column("resamples", "d"), Column("low", ".3f")]
    columns += [Column("high", ".3f"), Column("seconds", ".4f")]
    note = "Both resample by chance, so that bounds differ a little. Asking the network is not in these seconds."
    return Table(f"fairlearn's bootstrap itself, {case.name}", columns, rows, note), seconds / by_counts


def _papers(found: dict[Case, Asked]) -> Table:
    """The paper's own comparison, quoted, beside how long fairchain takes for its harder question."""
    here = {(case.whose, case.network, case.protected): asked.seconds(OURS) for case, asked in found.items()}
    columns = [Column("case"), Column("paper: FairSquare", "s"), Column("paper: VeriFair", ".2f")]
    columns += [Column("paper: its own method", "s"), Column("here: fairchain, our network", ".3f")]
    columns += [Column("here: fairchain, the paper's network", ".3f")]
    rows: list[list[Cell]] = []
    for (network, protected), told in COMPARISON.items():
        mine = [here.get((owner, network, protected)) for owner in (whose.OURS, whose.PAPERS)]
        rows.append([f"{network} {protected}", told.fairsquare, told.verifair, quoted(told.seconds), *mine])
    note = (
        "Seconds. Those of the paper are quoted: its authors ran these programs on their machine, we did not. They "
        "answer another question than the tables above: protected features binned to two groups (which bins is not "
        "said), and VeriFair's demographic parity, a ratio of at least 0.85, in place of a difference of at most 0.1 "
        "over all groups. So credit by age passes there, though it fails in the paper's first table. How many samples "
        "were taken is not said. FairSquare reads no network with loops, and VeriFair's program no texts."
    )
    return Table("The paper's own comparison", columns, rows, note)


# What must hold, and where others are ahead.


def _fewer(found: dict[Case, Asked], sizes: Sizes) -> list[Check]:
    ratios = {case: asked.ratio(RIVAL) for case, asked in found.items()}
    below = [case for case, (ratio, _) in ratios.items() if ratio < FEWER_EACH]
    least = min(ratios, key=lambda case: ratios[case][0])
    middle = median(ratio for ratio, _ in ratios.values())
    told = ", ".join(f"{_give(*ratios[case])} ({case.title})" for case in below or [least])
    name = "evaluations of VeriFair's rule for one of ours at delta 1e-6, in every case"
    # One seed is no mean: there counts are compared with those that were kept instead.
    mean = sizes.rivals > 1
    return [
        Check(name, not below, told if below else f"{told} at least", f"at least {FEWER_EACH:g}", mean),
        Check(
            "the same in the median of all cases", middle >= FEWER_MEDIAN, f"{middle:.1f}", f"at least {FEWER_MEDIAN:g}"
        ),
    ]


def _give(value: float, error: float | None) -> str:
    return f"{value:.1f}" if error is None else f"{value:.1f} ± {error:.1f}"


def _right(found: dict[Case, Asked]) -> Check:
    answers = [_judged(each.said, asked.truth) for asked in found.values() for each in asked.efforts[OURS]]
    right = answers.count("right")
    return Check(
        "verdicts of fairchain here that are right", right == len(answers), f"{right} of {len(answers)}", "all"
    )


def _behind(found: dict[Case, Asked], slower: float) -> list[str]:
    lines = [
        f"{case.title}: only {_give(*asked.ratio(RIVAL))} times fewer evaluations than VeriFair's rule"
        for case, asked in found.items()
        if asked.ratio(RIVAL)[0] < FEWER_EACH
    ]
    for name in _methods(found)[1:]:
        fewer = [case for case, asked in found.items() if asked.evaluations(name) < asked.evaluations(OURS)]
        if fewer:
            lines.append(f"{name}{BUT.get(name, '')} asks the network less often: {_listed(fewer, found)}")
        faster = [case for case, asked in found.items() if asked.seconds(name) < asked.seconds(OURS)]
        if faster:
            most = max(found[case].seconds(OURS) - found[case].seconds(name) for case in faster)
            own = f"; fairlearn itself resamples {slower:,.0f} times as long" if name == BOOTSTRAP else ""
            lines.append(
                f"{name}{BUT.get(name, '')} takes less time, by up to {1e3 * most:.0f} ms, in "
                f"{len(faster)} of {len(found)} cases: {_listed(faster, found)}{own}"
            )
    if any("takes less time" in line for line in lines):
        lines.append(
            "these networks answer in microseconds, so that other things take the time: others say yes or no, ours "
            f"also gives bounds, witnesses and a ledger. {_given(found)}"
        )
    return lines


def _listed(cases: Sequence[Case], found: dict[Case, Asked]) -> str:
    return "all" if len(cases) == len(found) else ", ".join(case.title for case in cases)
