"""Replay of a certificate's batches: check that each choice follows from earlier counts, and compute the results.

A leader chosen with hindsight, or a batch that ends at a convenient time, would void the guarantee, so each choice is
computed again from the earlier counts. The counts themselves are not questioned here; the re-run checks whether the
network gives them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairchain.certificate_format import (
    APART,
    CUT_CHUNKS,
    LOOKED,
    VERSION,
    BatchEvidence,
    RunEvidence,
    Table,
    full_table,
)
from fairchain.prepare import Case
from fairchain.rechecking import arithmetic
from fairchain.spec import Comparison
from fairchain.spec.properties import limit_of, shifts_alike

PILOT = 1024
# The relative difference that a forecast of rounds may have between two computers.
ROUNDING = 1e-6


@dataclass(frozen=True)
class ReplayedRule:
    """The stopping rule of a spec, as numbers.

    `compared` marks the ordered pairs that are compared for each outcome; `threshold` is the largest fair gap, which
    for a ratio (`relative`) is 1 minus the smallest ratio. A `share` of changed decisions is compared with 0, in one
    direction.
    """

    groups: int
    outcomes: int
    threshold: float
    delta: float
    epsilon: float | None
    paper: bool
    compared: NDArray[np.bool_]
    relative: bool = False
    share: bool = False
    # The factor of a verdict about all populations within it; 1 for the assumed one alone.
    shift: float = 1.0
    alike: bool = False
    refine: float | None = None
    # Whether the verdict and all intervals share one delta; in older certificates not, and batches grew by an eighth.
    one_event: bool = True
    # Whether a batch that a budget shortened has different chunks, as in older certificates.
    cut_chunks: bool = False

    @classmethod
    def of(cls, case: Case, version: int = VERSION) -> ReplayedRule:
        """Return the rule of a case, for a version of the certificate format."""
        guarantee, comparison = case.spec.guarantee, case.comparison
        share = comparison.individual and guarantee.epsilon is None and guarantee.rule != "paper"
        return cls(
            groups=len(comparison.counted),
            outcomes=len(comparison.rows),
            threshold=float(limit_of(case.spec)),
            delta=guarantee.delta,
            epsilon=guarantee.epsilon,
            paper=guarantee.rule == "paper",
            compared=np.array([[[False, True], [False, False]]]) if share else comparison.compared,
            relative=comparison.measure == "ratio",
            share=share,
            shift=case.spec.property.shift or 1.0,
            alike=shifts_alike(case.spec),
            refine=guarantee.refine,
            one_event=version > APART,
            cut_chunks=version <= CUT_CHUNKS,
        )

    def evidence(self, cells: arithmetic.Triple, side: arithmetic.Side) -> arithmetic.Floats:
        """Return the log e-values against a gap on this side of the threshold."""
        return arithmetic.log_evidence(cells, self.threshold, side, self.relative, self.share)

    def rounds_left(
        self, evidence: arithmetic.Floats, cells: arithmetic.Triple, rounds: Table, side: arithmetic.Side
    ) -> arithmetic.Floats:
        """Return the forecast that ends a batch: rounds until each of these pairs reaches the critical value."""
        best = np.full(np.shape(cells[0]), -np.inf)
        for factors, _ in arithmetic.log_factors(self.threshold, side, self.relative, self.share):
            gain = sum(cell * factor for cell, factor in zip(cells, factors, strict=True))
            best = np.maximum(best, gain / np.maximum(rounds, 1))
        found: arithmetic.Floats = np.where(
            best > 0, np.maximum(self.bar - evidence, 0) / np.where(best > 0, best, 1.0), np.inf
        )
        return found

    @property
    def bar(self) -> float:
        """The logarithm that an e-value must reach: half of delta for each of the two answers."""
        return math.log(2) - math.log(self.delta)

    @property
    def gap_bar(self) -> float:
        """The same for each end of the gap's interval: a quarter of delta, or half if there is no other interval."""
        return self.bar if self.share or not self.one_event else math.log(4) - math.log(self.delta)

    @property
    def pairs_bar(self) -> float:
        """The same for each end of the intervals of all pairs, which together have an eighth of delta."""
        if self.share or not self.one_event or self.epsilon is not None:
            return self.bar + math.log(int(self.compared.sum()))
        ends = len({(o, *order) for o, i, j in np.argwhere(self.compared).tolist() for order in ((i, j), (j, i))})
        return math.log(8 * ends * (2 if self.relative else 1)) - math.log(self.delta)

    @property
    def rates_delta(self) -> float:
        """The rates' share of delta: an eighth, or all of it if the gap has no other bounds."""
        alone = self.shift > 1 and not self.alike
        return self.delta / 8 if self.one_event and not alone else self.delta


class NextBatch(NamedTuple):
    """The next batch according to the rule: `rounds`, or another of `sizes` if rounding of the forecast decides."""

    leader: tuple[int, int, int] | None
    groups: list[int]
    rounds: int
    sizes: frozenset[int]


@dataclass
class Replay:
    """The state of a run after some of its batches."""

    question: ReplayedRule
    faults: list[str] = field(default_factory=list)
    rounds: int = 0
    phase: int = 0
    wanted: int = PILOT
    known: bool = False
    decision: str = "UNDECIDED"
    # The groups of the last batch if it was shortened.
    cut: list[int] | None = None

    def __post_init__(self) -> None:
        k, m = self.question.groups, self.question.outcomes
        self.joint: Table = np.zeros((k, k), np.int64)
        self.only: Table = np.zeros((m, k, k), np.int64)
        self.successes: Table = np.zeros((m, k), np.int64)
        self.lead: Table = np.zeros(3, np.int64)
        self.both: Table = np.zeros((m, k, k), np.int64)
        self.cleared = np.logical_not(self.question.compared)
        self.try_successes, self.try_rounds = np.zeros((m, k), np.int64), 0
        # Rounds, and trials of each group, up to the decision.
        self.decision_rounds, self.decision_trials = 0, np.zeros(k, np.int64)

    def cells(self) -> tuple[Table, Table, Table]:
        """Return counts of "only i", of the middle cell and of "only j" for each outcome and ordered pair."""
        minus = np.transpose(self.only, (0, 2, 1))
        return self.only, self.both if self.question.relative else self.joint[None] - self.only - minus, minus

    def lead_cells(self) -> tuple[Table, Table, Table]:
        """Return the same counts for the leaders' batches together."""
        return self.lead[:1], self.lead[1:2], self.lead[2:]

    def gaps(self) -> NDArray[np.float64]:
        """Return estimated gaps of all ordered pairs."""
        plus, _, minus = self.cells()
        gaps: NDArray[np.float64] = (plus - minus) / np.maximum(self._base(), 1)
        least = arithmetic.least_gap(self.question.compared, self.question.relative)
        if self.question.relative and least is not None:
            gaps[(self._base() == 0) & (minus > 0)] = least
        return gaps

    def _base(self) -> Table:
        """Return the denominator of a gap: all rounds, or for a ratio those with the outcome for the first group."""
        return self.only + self.both if self.question.relative else np.broadcast_to(self.joint, self.only.shape)

    def widest(self) -> tuple[int, int, int]:
        """Return (outcome, i, j) of the largest gap among the compared pairs."""
        gaps = np.where(self.question.compared, self.gaps(), -np.inf)
        outcome, i, j = np.unravel_index(np.argmax(gaps), gaps.shape)
        return int(outcome), int(i), int(j)

    def take(self, number: int, batch: BatchEvidence, last: bool) -> None:
        """Check the choices of one batch, then count it."""
        if not self.question.paper:
            self._check_choices(number, batch, last)
        together = batch.totals()
        self.joint[np.ix_(batch.groups, batch.groups)] += batch.rounds
        self.rounds += batch.rounds
        every = np.ix_(range(self.question.outcomes), batch.groups, batch.groups)
        own = together.diagonal(axis1=1, axis2=2)
        self.only[every] += own[:, :, None] - together
        self.both[every] += together
        self.successes[:, batch.groups] += own
        if not self.known:
            self.try_successes[:, batch.groups] += own
        if batch.leader is not None:
            i, j, outcome = batch.leader
            if i in batch.groups and j in batch.groups:
                table, a, b = together[outcome], batch.groups.index(i), batch.groups.index(j)
                plus, minus = int(table[a, a] - table[a, b]), int(table[b, b] - table[a, b])
                middle = int(table[a, b]) if self.question.relative else batch.rounds - plus - minus
                self.lead += np.array([plus, middle, minus])
        if self.decision == "UNDECIDED":
            self.decision_rounds, self.decision_trials = self.rounds, np.diag(self.joint).copy()
        self._judge()
        if not self.question.paper:
            self._end_of_try(batch)

    def _judge(self) -> None:
        """Decide by the e-values after this batch; the first answer is final."""
        q = self.question
        if self.decision != "UNDECIDED" or q.paper or q.epsilon is not None:
            return
        if q.shift > 1:
            _, low, high = self.shifted_gaps().max(axis=0)
            self.decision = "FAIR" if high < q.threshold else "UNFAIR" if low > q.threshold else "UNDECIDED"
            return
        self.cleared |= q.evidence(self.cells(), "above") >= q.bar
        if q.evidence(self.lead_cells(), "below")[0] >= q.bar:
            self.decision = "UNFAIR"
        elif self.cleared.all():
            self.decision = "FAIR"

    def shifted_gaps(self) -> NDArray[np.float64]:
        """Return (compared pairs, 3): the largest gap of each within the factor, with simultaneous bounds.

        They follow from bounds of the rates of each group or, if all groups shift alike, of the shares of rounds in
        which only one of two groups gets the outcome.
        """
        q = self.question
        pairs = np.argwhere(q.compared).tolist()
        trials = np.broadcast_to(np.diag(self.joint), self.successes.shape)
        rates = arithmetic.any_time_table(self.successes, trials, q.rates_delta / self.successes.size)
        of_rates = [(rates[o, i], rates[o, j]) for o, i, j in pairs]
        if not q.alike:
            return _gaps_between(of_rates, q.shift, q.relative)
        used = q.compared | q.compared.transpose(0, 2, 1)
        joint = np.broadcast_to(self.joint, self.only.shape)
        delta = q.delta - q.rates_delta if q.one_event else q.delta
        known = arithmetic.any_time_table(self.only, joint, delta / int(used.sum()))
        found = _gaps_between([(known[o, i, j], known[o, j, i]) for o, i, j in pairs], q.shift, q.relative)
        if q.one_event:
            # A joint shift of all groups is a special case of separate shifts; the assumed population is among all of
            # them.
            found[:, 1] = np.maximum(found[:, 1], _gaps_between(of_rates, 1.0, q.relative)[:, 1])
            found[:, 2] = np.minimum(found[:, 2], _gaps_between(of_rates, q.shift, q.relative)[:, 2])
        return found

    def _check_choices(self, number: int, batch: BatchEvidence, last: bool) -> None:
        if self.decision != "UNDECIDED":
            # After the decision: all groups, the forecast rounds, the widest pair as the leader.
            outcome, i, j = self.widest()
            leader = None if self.question.shift > 1 else (i, j, outcome)
            if batch.phase != 1:
                self.faults.append(f"batch {number}: was sampled although the answer was there")
            if batch.leader != leader or batch.groups != list(range(self.question.groups)):
                self.faults.append(
                    f"batch {number}: after the decision all groups are drawn, and the widest pair leads"
                )
            refining = self._refining_sizes()
            self._check_size(number, batch, last, refining, max(refining))
            return
        leader, groups, rounds, sizes = self.next_batch()
        if batch.leader != leader:
            self.faults.append(f"batch {number}: the leader is {batch.leader}, the earlier counts give {leader}")
        if batch.groups != groups:
            self.faults.append(f"batch {number}: groups {batch.groups} were drawn, the rule gives {groups}")
        if batch.phase != self.phase:
            self.faults.append(f"batch {number}: belongs to try {batch.phase}, the rule gives {self.phase}")
        self._check_size(number, batch, last, sizes, rounds)

    def _check_size(self, number: int, batch: BatchEvidence, last: bool, sizes: Collection[int], planned: int) -> None:
        """Check the rounds and chunks of a batch: the rule plans one of these sizes, and here `planned` rounds.

        Any other size could have been chosen after its rounds were seen; only the last batch may be shortened. Other
        chunks contain other rounds: the chunks are those of the plan, so that a shortened batch has the first rounds of
        the plan.
        """
        if self.question.cut_chunks:
            whole, cut = batch.rounds in sizes, batch.rounds < planned
            least, most = chunk_rounds(batch.rounds), chunk_rounds(max(planned, batch.rounds))
        else:
            whole, cut = batch.planned is None and batch.rounds in sizes, batch.length in sizes
            least = most = chunk_rounds(batch.length)
        self.cut = None if whole else batch.groups
        if not whole and not (last and cut):
            self.faults.append(f"batch {number}: has {batch.rounds} rounds, the rule gives {planned}")
        if not least <= batch.chunk_rounds <= most:
            self.faults.append(f"batch {number}: has chunks of {batch.chunk_rounds} rounds")

    def _refining_sizes(self) -> set[int]:
        """Return the rounds of a batch after the decision, or several values if rounding of the forecast decides."""
        q = self.question
        if q.refine is None:
            return {0}
        own = np.broadcast_to(np.diagonal(self.joint), self.successes.shape)
        used = np.argwhere(q.compared.any(axis=1) | q.compared.any(axis=2))
        alpha = q.rates_delta / (q.groups * q.outcomes)
        sizes = set()
        for factor in (1, 1 - ROUNDING, 1 + ROUNDING):
            lacking = max(
                arithmetic.trials_within(int(self.successes[m, g]), int(own[m, g]), alpha, q.refine) * factor
                - int(own[m, g])
                for m, g in used
            )
            rounds = -(-self.rounds // 2)
            if lacking > 0:
                rounds = math.ceil(min(max(lacking, self.rounds / 8), 15 * self.rounds))
            sizes.add(rounds if rounds <= 1024 else math.ceil(rounds / 1024) * 1024)
        return sizes

    def next_batch(self) -> NextBatch:
        """Return leader, groups and rounds of the next batch, from the counts so far."""
        q = self.question
        all_groups = list(range(q.groups))
        many = min(q.groups * q.groups * q.outcomes // 64, 2048)
        if q.epsilon is not None or q.shift > 1:
            rounds = _whole_shares(max(16 if self.rounds < 32 else 32, many, self.rounds // 8))
            if not self.known and q.epsilon is not None:
                rounds = min(max(rounds, 64), self.wanted - self.try_rounds)
            return NextBatch(None, all_groups, rounds, frozenset([rounds]))
        if not self.rounds:
            return NextBatch((0, 1, 0) if q.share else None, all_groups, max(16, many), frozenset([max(16, many)]))
        gaps = self.gaps()
        outcome, i, j = self.widest()
        plus, zero, minus = self.cells()
        above = bool(gaps[outcome, i, j] > q.threshold)
        if above:
            groups = self._promising(gaps, (outcome, i, j))
            one = (slice(outcome, outcome + 1), i, j)
            evidence = q.evidence(self.lead_cells(), "below")
            left = q.rounds_left(evidence, (plus[one], zero[one], minus[one]), self.joint[i : i + 1, j], "below")
        else:
            at = ~self.cleared
            pairs = np.argwhere(at & q.compared)
            groups = sorted({int(group) for _, *pair in pairs for group in pair})
            cells = plus[at], zero[at], minus[at]
            evidence = q.evidence(cells, "above")
            left = q.rounds_left(evidence, cells, np.broadcast_to(self.joint, plus.shape)[at], "above")
        to_go = float(left.max(initial=0.0))
        if not above and q.one_event and plus.size <= 256:
            # The first group that has no pair left.
            to_go = min((float(left[(pairs[:, 1:] == group).any(axis=1)].max()) for group in groups), default=0.0)
        rounds, *others = [
            self._size(max(1.0, to_go * factor), many, len(groups), above) for factor in (1, 1 - ROUNDING, 1 + ROUNDING)
        ]
        return NextBatch((i, j, outcome), groups, rounds, frozenset([rounds, *others]))

    def _size(self, left: float, many: int, evaluated: int, above: bool) -> int:
        """Return the rounds of a batch with this forecast."""
        done, two, share = self.rounds, evaluated == 2, self.question.share
        if not self.question.one_event:
            # The rule of older certificates.
            least = max(16 if share or done < 32 else 32, many)
            near = math.ceil(min(max(left, least // 4), least))
            return _whole_shares(max(near, math.ceil(min(done // 8, left))))
        longest = min(1024, done // (1 if not above else 2 if two and not share else 8))
        aim = left if 20 * left <= done else 0.7 * left
        short = share and above
        rounds = min(max(8 if short else 32, many, done // 8, longest), aim)
        return _whole_shares(max(4 if short else 8, many // 4, done // (32 if two else 12), math.ceil(rounds)))

    def _promising(self, gaps: NDArray[np.float64], leader: tuple[int, int, int]) -> list[int]:
        """Return the leader's groups, and those whose gap plus a standard error suggests a faster end.

        Their distance from the threshold, relative to the leader's, must be at least 1.5 and at least the fifth root of
        half the number of groups that suggest at least as much.
        """
        plus, both, minus = self.cells()
        joint = np.maximum(self.joint, 1)
        variance = np.maximum((plus + minus) / joint - gaps**2, 0) / joint
        if self.question.relative:
            c = np.clip(gaps, -1, 1)
            moment = (plus * (1 - c) ** 2 + both * c**2 + minus) / joint
            variance = moment / joint * (joint / np.maximum(self._base(), 1)) ** 2
        error = np.where(self.joint > 0, np.sqrt(variance), np.inf)
        hopes = np.where(self.question.compared, gaps + error, -np.inf)
        best = [float(max(hopes[:, group, :].max(), hopes[:, :, group].max())) for group in range(len(joint))]
        above = float(gaps[leader]) - self.question.threshold
        found = set(leader[1:])
        for group, hope in enumerate(best):
            rivals = sum(other >= hope for other in best)
            if hope - self.question.threshold >= max(1.5, (rivals / 2) ** 0.2) * above:
                found.add(group)
        return sorted(found)

    def _end_of_try(self, batch: BatchEvidence) -> None:
        """Decide at the end of a try of estimate mode whether it is enough, and otherwise the length of the next."""
        q = self.question
        if self.known or q.epsilon is None:
            return
        self.try_rounds += batch.rounds
        if self.try_rounds < self.wanted:
            return
        if self.phase == 0:
            share = q.delta / 2 / (q.groups * q.outcomes)
            self.wanted = arithmetic.planned_rounds(self.try_successes, self.try_rounds, 0.8 * share, q.epsilon)
        else:
            low, high = self.exact_bounds()
            centre = self.try_successes / self.try_rounds
            if np.maximum(centre - low, high - centre).max() <= q.epsilon:
                self.known = True
                return
            self.wanted = math.ceil(1.7 * self.wanted)
        self.phase += 1
        self.try_successes, self.try_rounds = np.zeros_like(self.try_successes), 0

    def exact_bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return Clopper-Pearson bounds of the current try, at its share of delta."""
        q = self.question
        spend = 0.8 if self.phase == 1 else 0.1 / 2 ** (self.phase - 1)
        alpha = q.delta / 2 / (q.groups * q.outcomes) * spend
        bounds = [
            [arithmetic.exact_bounds(int(count), self.try_rounds, alpha) for count in row] for row in self.try_successes
        ]
        both = np.array(bounds)
        return both[..., 0], both[..., 1]


def _gaps_between(
    ends: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]], factor: float, relative: bool
) -> NDArray[np.float64]:
    """Return (pairs, 3): gaps with bounds within a factor, from (estimate, low, high) of both numbers of each pair."""
    sides = ((0, 0), (1, 2), (2, 1))
    return np.array(
        [[arithmetic.shifted_gap(one[a], other[b], factor, relative) for a, b in sides] for one, other in ends], float
    )


def impossible(batch: BatchEvidence, question: ReplayedRule) -> str | None:
    """Return why no network could have given these counts, or None."""
    size = len(batch.groups)
    if not batch.rounds or batch.chunk_rounds not in (1024, 2048, 4096, 8192):
        return "no rounds, or chunks of a size that does not exist"
    if batch.planned is not None and (batch.planned <= batch.rounds or question.cut_chunks):
        return "more or no fewer rounds than planned"
    if len(set(batch.groups)) != size or not size or max(batch.groups) >= question.groups:
        return "groups that do not exist"
    if batch.leader is not None:
        i, j, outcome = batch.leader
        if i == j or max(i, j) >= question.groups or outcome >= question.outcomes:
            return "a leader that does not exist"
    if len(batch.together) != batch.chunks:
        return "counts for more or fewer chunks than its rounds make"
    for place, tables in enumerate(batch.together):
        if len(tables) != question.outcomes:
            return "a wrong number of outcomes"
        for rows in tables:
            if [len(row) for row in rows] != list(range(size, 0, -1)):
                return "tables of the wrong size"
            # Two groups share at most what the smaller one has, and at least what must be shared in these rounds.
            table, rounds = full_table(rows), batch.size(place)
            own = np.diag(table)
            most, least = np.minimum.outer(own, own), np.maximum(np.add.outer(own, own) - rounds, 0)
            if (table > most).any() or (table < least).any() or (own > rounds).any():
                return "counts that contradict each other"
    return None


def chunk_rounds(rounds: int) -> int:
    """Return the rounds of each chunk of a batch with this many rounds."""
    return max([1024, *(each for each in (2048, 4096, 8192) if 2 * each <= rounds)])


def _whole_shares(rounds: int) -> int:
    """Return the rounds of a batch: long ones are multiples of 32768."""
    return rounds if rounds <= 32768 else rounds // 32768 * 32768


def contradiction(evidence: RunEvidence, comparison: Comparison, names: Sequence[str]) -> str:
    """Return why no network could have given these labels with these counts, or an empty text.

    For counted labels the counts show this. For other labels, and for changed decisions, a certificate has only its
    lists of labels, so the batches that show two different ones are always run again (`rerun`).
    """
    batches = {label for batch in evidence.batches for label in batch.labels}
    for number, batch in enumerate(evidence.batches):
        own = batch.totals().diagonal(axis1=1, axis2=2)
        if comparison.individual and _are_labels(batch.labels, len(names)):
            why = "a decision changed, and there is one label" if own.any() and len(batch.labels) == 1 else ""
        else:
            trials = np.full(own.shape[1], batch.rounds)
            why = labels_problem(batch.labels, own, trials, comparison.outcomes, len(names))
        if why:
            return f"batch {number}: {why}"
    look = evidence.look
    if (look is not None) != (len(batches) == 1):
        return "further inputs are tried where the batches have one label, and only there"
    if look is not None and not (_are_labels(look.labels, len(names)) and batches <= set(look.labels)):
        return "the labels of further inputs are none, or lack one that was seen before"
    if look is not None and look.rounds > -(-LOOKED // len(comparison.subgroups)):
        return f"{look.rounds} further rounds are more than are ever tried"
    return ""


def _are_labels(labels: Sequence[int], count: int) -> bool:
    return bool(labels) and list(labels) == sorted(set(labels)) and labels[-1] < count


def labels_problem(
    given: Sequence[int], counts: NDArray[np.int64], trials: NDArray[np.int64], outcomes: Sequence[int], labels: int
) -> str:
    """Return why decisions with these counts cannot have had these labels, or an empty text.

    `counts` is (outcomes, columns) and `trials` (columns,); `labels` is the number of labels of the model.
    """
    if not _are_labels(given, labels):
        return f"{list(given)} are not labels of the model"
    for label, count in zip(outcomes, counts, strict=True):
        if count.any() != (label in given):
            return f"label {label} is counted {int(count.sum())} times, and the labels are {list(given)}"
        if (count == trials).all() and list(given) != [label]:
            return f"every decision is label {label}, and the labels are {list(given)}"
    if (counts.sum(axis=0) < trials).any() and set(given) <= set(outcomes):
        return f"some decisions are none of the labels {list(given)}"
    return ""
