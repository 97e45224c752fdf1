"""How much each part measures: as much as the paper's tables need, or just enough to see that everything works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scales:
    """The points of the scaling tables."""

    groups: tuple[int, ...]
    features: tuple[int, ...]
    width: tuple[int, ...]
    depth: tuple[int, ...]
    rounds: tuple[int, ...]
    states: tuple[int, ...]


@dataclass(frozen=True)
class Sizes:
    """How much to measure.

    Parameters
    ----------
    seeds, text_seeds
        Verdicts for each case, and for each case about texts (0: these are left out).
    truth, text_truth
        Rounds of the large run from which the truth is estimated.
    repetitions
        Runs of the paper's rule, of estimate mode, and of every method near the threshold.
    text_repetitions
        Runs of estimate mode on a case about texts.
    near
        Networks that are verified with a threshold beside their own gap.
    gaps, most
        Gaps of the simulated networks near the threshold, and the evaluations after which another method gives up.
    rivals
        Seeds of fairchain and of each other method on a network.
    steps, accuracy
        Chains of the growth figure, and the accuracy with which they are learned.
    explained
        Rounds of the sensitivity figure.
    planted
        Networks of each family with a planted cause.
    split_runs, split_rounds
        Simulated runs at a gap equal to the threshold, and the rounds of each.
    row_seeds
        Growing tables for each case of a sample of rows.
    bounded, bound_boxes
        Random networks of each size whose answers are bounded, and the boxes after which widths are read.
    simulated
        Seeds of each case of simulated rounds.
    point_seconds, tries
        The limit of time for one point of the scaling tables, and how often a short one is measured.
    bare, text_bare
        Evaluations of a long run against the bare network, and against that which reads texts.
    enumerated
        Inputs of the longest enumeration.
    turns, few_turns
        Repetitions of what a limit judges, and of what is only reported.
    starts, memory
        Starts of the command, and evaluations of the short and the long run whose memory is compared.
    iterations
        Iterations of the search of each repair, at most; those of our networks need the data sets.
    candidates
        Candidates after which the searches of repairs are compared.
    chain_states
        States of the chains that are checked, operator by operator.
    report
        Groups, units and labels of the large report.
    table_rows
        Recorded decisions in Parquet files.
    worker_seconds
        Seconds that one worker should need for the work that executors share.
    modes
        Text that the name of a calibrated mode contains.
    """

    name: str
    seeds: int
    text_seeds: int
    truth: int
    text_truth: int
    repetitions: int
    text_repetitions: int
    near: int
    gaps: tuple[float, ...]
    most: int
    rivals: int
    steps: int
    accuracy: float
    explained: int
    planted: int
    split_runs: int
    split_rounds: int
    row_seeds: int
    bounded: int
    bound_boxes: tuple[int, ...]
    simulated: int
    point_seconds: float
    tries: int
    bare: int
    text_bare: int
    enumerated: int
    turns: int
    few_turns: int
    starts: int
    memory: tuple[int, int]
    iterations: int
    candidates: tuple[int, ...]
    chain_states: tuple[int, ...]
    report: tuple[int, int, int]
    table_rows: int
    worker_seconds: float
    scales: Scales
    modes: str = ""

    @property
    def paper(self) -> bool:
        """Whether checks of times are enforced, repetitions use all cores, and counts are kept."""
        return self.name == "paper"


PAPER = Sizes(
    name="paper",
    seeds=20,
    text_seeds=5,
    truth=2**20,
    text_truth=2**16,
    repetitions=200,
    text_repetitions=10,
    near=6,
    gaps=(0.09, 0.11, 0.099, 0.101, 0.1),
    most=10**9,
    rivals=20,
    steps=8,
    accuracy=0.01,
    explained=100_000,
    planted=50,
    split_runs=1500,
    split_rounds=200_000,
    row_seeds=10,
    bounded=10,
    bound_boxes=(4_000, 60_000, 400_000),
    simulated=200,
    point_seconds=180.0,
    tries=3,
    bare=10_000_000,
    text_bare=500_000,
    enumerated=1_010_000_000,
    turns=15,
    few_turns=5,
    starts=15,
    memory=(1_000_000, 100_000_000),
    iterations=100,
    candidates=(100, 300, 1000),
    chain_states=(1_000, 10_000, 100_000),
    report=(300, 2_000, 50),
    table_rows=100_000_000,
    worker_seconds=45.0,
    scales=Scales(
        groups=(2, 5, 10, 20, 50, 100, 200),
        features=(10, 30, 100, 300, 1000),
        width=(64, 256, 1024, 4096),
        depth=(2, 5, 10, 20),
        rounds=(10**4, 10**5, 10**6, 10**7, 10**8, 10**9),
        states=(10, 100, 1000, 10_000, 100_000),
    ),
)

QUICK = Sizes(
    name="quick",
    seeds=3,
    text_seeds=0,
    truth=2**16,
    text_truth=0,
    repetitions=5,
    text_repetitions=0,
    near=2,
    gaps=(0.09, 0.11, 0.1),
    most=10_000_000,
    rivals=1,
    steps=2,
    accuracy=0.05,
    explained=2000,
    planted=1,
    split_runs=20,
    split_rounds=2000,
    row_seeds=1,
    bounded=2,
    bound_boxes=(500, 2_000, 10_000),
    simulated=60,
    point_seconds=5.0,
    tries=1,
    bare=200_000,
    text_bare=30_000,
    enumerated=2_000_000,
    turns=2,
    few_turns=1,
    starts=1,
    memory=(100_000, 1_000_000),
    iterations=1,
    candidates=(100,),
    chain_states=(1_000,),
    report=(30, 200, 5),
    table_rows=1_000_000,
    worker_seconds=1.0,
    scales=Scales(
        groups=(2, 10),
        features=(10, 50),
        width=(64, 128),
        depth=(2, 4),
        rounds=(10**4, 10**5),
        states=(10, 100),
    ),
)

SIZES = {"paper": PAPER, "quick": QUICK}
