"""How much each part measures: as much as the paper's tables ask for, or just enough to see that everything works."""

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
    """How much to measure; `timed` says whether checks that rest on the clock are enforced.

    Parameters
    ----------
    seeds, text_seeds
        Verdicts for each case, and for each case about texts (0: these are left out).
    truth, text_truth
        Rounds of the large run that stands for the truth.
    repetitions
        Of the paper's rule, of estimate mode, and of every method near the threshold.
    text_repetitions
        Of estimate mode on a case about texts.
    near
        Networks that are asked with a threshold beside their own gap.
    gaps, most
        Of the made-up networks near the threshold, and the evaluations after which a rival gives up there.
    rivals
        Seeds for ours and each other method on a network.
    steps, accuracy
        Chains of the growth figure, and how exactly they are learned.
    explained
        Rounds of the sensitivity figure.
    point_seconds, tries
        The most that one point of the scaling tables may take, and how often a short one is measured.
    bare, turns, told
        Evaluations against the bare network, and repetitions: of what is judged, and of what is just told.
    iterations
        Of the search of each repair, at most; those of our networks need the data sets.
    """

    name: str
    timed: bool
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
    point_seconds: float
    tries: int
    bare: int
    turns: int
    told: int
    iterations: int
    scales: Scales


PAPER = Sizes(
    name="paper",
    timed=True,
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
    point_seconds=180.0,
    tries=3,
    bare=10_000_000,
    turns=15,
    told=5,
    iterations=100,
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
    timed=False,
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
    point_seconds=5.0,
    tries=1,
    bare=200_000,
    turns=2,
    told=1,
    iterations=1,
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
