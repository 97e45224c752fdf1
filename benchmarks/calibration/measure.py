"""What a mode is, how often it makes wrong statements in seeded runs, and when a count is an alarm.

A mode guarantees that each of its statements is wrong with probability at most delta. In every run the truth is known
by construction, so a wrong statement is seen. Of `n` independent runs, `x` or more are wrong with probability at most
P(Binomial(n, delta) >= x): where that is below `ALARM` the mode fails. The same measurement must
find the mode's unsound variant, which differs from it in one rule, level or assumption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from scipy.stats import binom

# A sound mode raises an alarm with at most this probability for each of its statements.
ALARM = 1e-6
# A test of a mode ends before its last run where an alarm has become less likely than this.
HOPELESS = 1e-3
# The statements of a mode, each with a delta of its own.
# All intervals of a verdict, together, are one statement more.
VERDICT, GAP, RATES, TOGETHER, TIPPING = "verdict", "gap", "rates", "together", "tipping"
STATEMENTS = (VERDICT, GAP, RATES, TOGETHER, TIPPING)


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    `runs` of each mode, `variant_runs` of each unsound variant at most, and the `rounds` that a verification may draw;
    `variant_rounds` for unsound variants, most of which go wrong more often the longer they run.
    """

    name: str
    runs: int
    variant_runs: int
    rounds: int
    variant_rounds: int


QUICK = Effort("quick", 36, 36, 112, 448)
FULL = Effort("paper", 2000, 300, 400, 448)
EFFORTS = {effort.name: effort for effort in (QUICK, FULL)}

# Which statements were made in a run, and whether each was wrong.
Wrong = Mapping[str, bool]
Play = Callable[[int, Effort], Wrong]


@dataclass(frozen=True)
class Mode:
    """One way of coming to a statement, at a place where a wrong one is most likely.

    Parameters
    ----------
    population, about, engine
        The inputs, the property, and how the answer is found.
    truth
        Where the truth comes from.
    delta
        The guaranteed error probability; 0 for exact answers.
    play
        One run: which statements were made with this seed, and which of them were wrong.
    variant, unsound
        What the unsound variant does differently, and one run of it.
    share
        Times as many runs as other modes get: below 1 for slow modes, above for fast ones.
    """

    population: str
    about: str
    engine: str
    truth: str
    delta: float
    play: Play
    variant: str
    unsound: Play
    share: float = 1.0

    @property
    def name(self) -> str:
        """The mode in one line; different for every mode."""
        return f"{self.population} | {self.about} | {self.engine}"


@dataclass(frozen=True)
class Measured:
    """How many of so many runs made each statement wrongly."""

    runs: int
    wrong: Mapping[str, int]
    delta: float
    stopped: int | None = None

    @property
    def tried(self) -> int:
        """The runs that were made; the others count as right."""
        return self.runs if self.stopped is None else self.stopped

    @property
    def chance(self) -> float:
        """The probability that a sound mode has as many wrong statements of one kind; the smallest over the kinds."""
        return min((chance(count, self.runs, self.delta) for count in self.wrong.values()), default=1.0)

    @property
    def alarming(self) -> bool:
        """Whether the mode fails."""
        return self.chance < ALARM


def chance(wrong: int, runs: int, delta: float) -> float:
    """P(Binomial(runs, delta) >= wrong)."""
    return float(binom.sf(wrong - 1, runs, delta)) if wrong else 1.0


def runs_of(mode: Mode, effort: Effort) -> int:
    """Return how many runs a mode gets, at least ten."""
    return max(10, round(effort.runs * mode.share))


def count(play: Play, seeds: Iterable[int], effort: Effort) -> Counter[str]:
    """Wrong statements of each kind in the runs with these seeds."""
    total: Counter[str] = Counter()
    for seed in seeds:
        total.update({statement: int(wrong) for statement, wrong in play(seed, effort).items()})
    return total


def measure(mode: Mode, effort: Effort) -> Measured:
    """Measure a mode in this process, until it is clear whether it fails."""
    return measure_runs(mode.play, runs_of(mode, effort), mode.delta, effort, hopeless=True)


def measure_unsound(mode: Mode, effort: Effort) -> Measured:
    """Measure a mode's unsound variant in this process, until it is certain whether it is caught."""
    size = max(10, round(effort.variant_runs * mode.share))
    return measure_runs(mode.unsound, size, mode.delta, replace(effort, rounds=effort.variant_rounds), hopeless=False)


def measure_runs(play: Play, size: int, delta: float, effort: Effort, *, hopeless: bool) -> Measured:
    """Make runs until those that are left cannot change whether the count of all `size` runs is an alarm.

    Wrong statements only become more: as soon as those of a part would be an alarm in all runs, there is one. As soon
    as there would be none if every further run were wrong, there is none. What is left out counts as right.

    With `hopeless`, so few wrong statements that something at the edge of an alarm would make them with a probability
    below `HOPELESS` are the end as well: of 36 runs at delta 0.05, 11 are an alarm, and 19 runs without a wrong
    statement are enough. Whatever the error probability, that hides an alarm with a probability of
    at most 2e-4, as tests compute for the numbers in use.
    """
    least = least_alarming(size, delta)
    total: Counter[str] = Counter()
    for tried in range(1, size + 1):
        total.update(count(play, (tried - 1,), effort))
        most = max(total.values(), default=0)
        certain = most >= least or most + size - tried < least
        if certain or (hopeless and binom.cdf(most, tried, least / size) < HOPELESS):
            return Measured(size, total, delta, tried)
    return Measured(size, total, delta)


def least_alarming(size: int, delta: float) -> int:
    """Return how many wrong statements of one kind in `size` runs are an alarm."""
    return next(wrong for wrong in range(size + 2) if chance(wrong, size, delta) < ALARM)
