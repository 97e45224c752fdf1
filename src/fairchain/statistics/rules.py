"""Protocols of inferences from counts and of stopping rules, so that one loop in `verify` serves all rules.

A rule plans the next batch from earlier ones (`plan`), takes its counts (`observe`), and returns its results at any
time (`decision`, `gap`, `probabilities`, `forecast`).
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fairchain.statistics.intervals import Floats, probability_any_time, trials_within
from fairchain.statistics.tally import Counts, Tally

Leader = tuple[int, int, int]
# Four chunks of the largest size: equal shares for one, two or four workers.
WORKERS_SHARE = 4 * 8192
# The smallest chunk.
CHUNK = 1024
# Upper bound of the smallest batch, however many pairs a check has: a budget of seconds is kept only if the first check
# comes early.
LEAST_ROUNDS = 2048
# The size of a batch relative to the rounds before it.
GROWTH = 8
# A batch of the betting rule ends after this fraction of the forecast rounds, because forecasts err; below the second
# fraction of the rounds before it, another check is not worthwhile.
AHEAD, WORTH = 0.7, 20
# The smallest size of a batch relative to the rounds before it if two groups are evaluated, and if more are.
LEAST_OF_TWO, LEAST_OF_MORE = 32, 12
# The shares of delta besides the verdict's (docs/mathematics-intervals.md, "One event"): for each side of the largest
# gap, for all rates and for all pairs. The verdict and all intervals hold together with probability 1 - delta, so that
# each may use the others.
OF_GAP, OF_RATES, OF_PAIRS = 1 / 4, 1 / 8, 1 / 8


class Decision(Enum):
    """Decision of a verdict. The `value` of each member is a sentence that explains the decision to the user."""

    FAIR = "Every gap is below the threshold."
    UNFAIR = "Some gap is above the threshold."
    UNDECIDED = "Not enough evidence: raise the budget, or move the threshold away from the gap."


class BatchPlan(Struct, frozen=True):
    """The next rounds to sample: chosen only from earlier counts, on which the guarantee depends.

    `groups` are evaluated in each round. `leader`, (i, j, outcome), is the pair that bets on being unfair in this
    batch; None in the first. `phase` is the part of a plan with several parts to which this belongs.
    """

    rounds: int
    groups: tuple[int, ...]
    leader: Leader | None = None
    phase: int = 0


class Inference(Protocol):
    """The conclusions from counts: the decision, and every number with its bounds."""

    @property
    def sound(self) -> bool:
        """Whether the answer carries a guarantee."""

    @property
    def decision(self) -> Decision:
        """The answer so far."""

    @property
    def trials(self) -> Counts:
        """Trials of each subgroup."""

    def gap(self) -> tuple[float, float, float]:
        """Return estimate, lower and upper bound of the largest gap over pairs and outcomes."""

    def probabilities(self) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of P(outcome | group), each (outcomes, groups)."""

    def rates(self) -> Floats:
        """Return the estimates that belong to `probabilities`, (outcomes, groups)."""

    def widest(self) -> Leader:
        """Return the pair and outcome with the largest gap so far."""

    def violators(self) -> list[Leader]:
        """Return pairs that are known, jointly, to be above the threshold."""

    def forecast(self) -> int | None:
        """Forecast the number of further rounds; None without a forecast."""


class Rule(Inference, Protocol):
    """A stopping rule, from rounds to an answer."""

    @property
    def coupled(self) -> bool:
        """Whether all groups share a round's random numbers."""

    @property
    def tally(self) -> Tally:
        """All counts so far."""

    def plan(self) -> BatchPlan | None:
        """Return the next rounds to sample, or None if the answer is final."""

    def observe(self, plan: BatchPlan, tally: Tally) -> None:
        """Take the counts of a plan (with fewer rounds than planned if the run was stopped early)."""

    def rounds_after(self, rounds: int) -> int:
        """Return the probable number of rounds planned after a batch of this size; only the time depends on it."""


class TallyCounts:
    """Base of the rules: results that follow from the tally of all rounds alone."""

    tally: Tally

    @property
    def trials(self) -> Counts:
        """Trials of each group."""
        return self.tally.trials

    def rounds_after(self, rounds: int) -> int:
        """Return the smallest number of rounds planned after a batch of this size, unless the end is near."""
        outcomes, groups, _ = self.tally.both.shape
        return next_batch(int(self.tally.joint.max()) + rounds, groups, outcomes)

    def rates(self) -> Floats:
        """Return the estimates that belong to `probabilities`."""
        return self.tally.rates


class RefiningRule(TallyCounts):
    """Base of rules that may continue after the decision for narrow intervals.

    Every bound is valid at all times, so continuing does not affect validity. The decision is final.
    """

    _compared: NDArray[np.bool_]
    _delta: float
    _rounds: int
    # The share of delta of the bounds of all rates, and whether the widest pair leads each batch.
    _of_rates, leads = OF_RATES, False

    def widest(self) -> Leader:
        """Return the pair and outcome with the largest gap so far."""
        raise NotImplementedError

    def gap(self) -> tuple[float, float, float]:
        """Return estimate, lower and upper bound of the largest gap over pairs and outcomes."""
        raise NotImplementedError

    def probabilities(self) -> tuple[Floats, Floats]:
        """Return simultaneous bounds, valid at all times, in one event of probability 1 - delta with the gap's."""
        successes = self.tally.successes
        trials = np.broadcast_to(self.tally.trials, successes.shape)
        return probability_any_time(successes, trials, self._of_rates * self._delta / successes.size)

    def refine(self, within: float) -> BatchPlan | None:
        """Return a batch of all groups after the decision; None if every bound is within this distance of its estimate.

        Its rounds are those that the rates are forecast to lack, but at most fifteen times the rounds so far, because
        rates from few rounds are imprecise about the lacking ones; if no rate lacks any, so that only the gap is not
        narrow yet, half of the rounds so far. Long batches are whole chunks.
        """
        (outcomes, groups, _), rates, done = self._compared.shape, self.rates(), self._rounds
        used, trials = compared_rates(self._compared), np.broadcast_to(self.tally.trials, rates.shape)
        alpha = self._of_rates * self._delta / (groups * outcomes)
        lacking = float((trials_within(rates[used], trials[used], alpha, within) - trials[used]).max())
        if lacking > 0:
            rounds = math.ceil(min(max(lacking, done / GROWTH), 15 * done))
        else:
            # Bounds take longer than the forecast.
            (low, high), (estimate, least, largest) = self.probabilities(), self.gap()
            widest = float(np.maximum(rates - low, high - rates)[used].max())
            if max(widest, estimate - least, largest - estimate) <= within:
                return None
            rounds = -(-done // 2)
        rounds = rounds if rounds <= CHUNK else -(-rounds // CHUNK) * CHUNK
        return BatchPlan(rounds, tuple(range(groups)), self.widest() if self.leads else None, phase=1)


def every_pair(groups: int, outcomes: int) -> NDArray[np.bool_]:
    """Return (outcomes, groups, groups): every group compared with every other."""
    return np.repeat(~np.eye(groups, dtype=bool)[None], outcomes, axis=0)


def compared_rates(compared: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return (outcomes, subgroups): whether each rate belongs to a compared pair, on either side."""
    return np.asarray(compared.any(axis=2) | compared.any(axis=1))


def next_batch(done: int, groups: int, outcomes: int, to_go: float = math.inf, *, few: int = 32) -> int:
    """Return rounds until the next check: an eighth of the rounds so far, or less if the end is forecast to be nearer.

    A check costs more than a few rounds of the network, so a batch has at least `few` rounds (the first ones 16), and
    more if there are many pairs, up to `LEAST_ROUNDS`; a quarter is enough if the end is forecast to be that near.
    """
    least = max(16 if done < 32 else few, min(groups * groups * outcomes // 64, LEAST_ROUNDS))
    least = math.ceil(max(least // 4, min(least, to_go)))
    return _whole_shares(max(least, math.ceil(min(done // GROWTH, to_go))))


def betting_batch(
    done: int,
    groups: int,
    outcomes: int,
    to_go: float = math.inf,
    *,
    evaluated: int = 2,
    above: bool = False,
    share: bool = False,
) -> int:
    """Return rounds until the next check of the betting rule, whose end is forecast to be `to_go` rounds away.

    A batch is as long as all before it, up to one chunk, and then an eighth of them; while the largest gap is `above`
    the threshold it is half as long if two groups are `evaluated`, so that another leader can take over, and an eighth
    if more are, because most of them will be left out soon. A `share` has no other leader, and few rounds show that it
    is above: then its batches are short. Checks cost time: many pairs have longer batches.
    """
    many = min(groups * groups * outcomes // 64, LEAST_ROUNDS)
    if not done:
        return max(16, many)
    short = share and above
    longest = done if not above else done // 2 if evaluated == 2 and not share else done // GROWTH
    most = max(8 if short else 32, many, done // GROWTH, min(longest, CHUNK))
    least = max(4 if short else 8, many // 4, done // (LEAST_OF_TWO if evaluated == 2 else LEAST_OF_MORE))
    ahead = to_go if WORTH * to_go <= done else AHEAD * to_go
    return _whole_shares(max(least, math.ceil(min(most, ahead))))


def _whole_shares(rounds: int) -> int:
    """Return the rounds of a batch: long ones are multiples of four chunks, so that workers have equal shares."""
    return rounds - rounds % WORKERS_SHARE if rounds > WORKERS_SHARE else rounds
