"""The claim that the counts come from the network: chunks are drawn and evaluated again, and compared exactly.

Everything is run again if the forecast is within the budget of seconds, otherwise a random sample of single chunks. Its
value is the number of chunks that a forgery needs, and the probability that all of them escape
(docs/mathematics-intervals.md, "A sampled recheck").
"""

from __future__ import annotations

import math
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairchain.certificate_format import LOOK_CHUNK, LOOK_ROUNDS, BatchEvidence, Look
from fairchain.errors import ModelError
from fairchain.models import Limits, Model
from fairchain.models.base import decide
from fairchain.models.onnx.rounding import check_alone
from fairchain.populations.streams import decision_words
from fairchain.prepare import Case
from fairchain.rechecking import arithmetic
from fairchain.rechecking.contents import Claim
from fairchain.rechecking.replay import ReplayedRule
from fairchain.records import Record

ProgressReport = Callable[[int, int], None] | None
# Numbers in memory at once: pairs are processed in blocks.
AT_ONCE = 5_000_000
# The smallest number of chunks of a sample, and the seconds for measuring the speed.
LEAST_CHUNKS, PROBE_SECONDS = 60, 0.1


@dataclass(frozen=True)
class RecheckOptions:
    """The options of `recheck`."""

    full: bool
    fresh: bool
    seconds: float
    seed: int | None
    limits: Limits | None
    progress: ProgressReport
    report: Callable[[Cost], None] | None


@dataclass(frozen=True)
class Cost:
    """The cost of a re-run, known before it starts: all evaluations and chunks, those to be run, and a forecast."""

    evaluations: int
    chunks: int
    sampled_evaluations: int
    sampled_chunks: int
    seconds: float

    @property
    def whole(self) -> bool:
        """Whether everything is run again."""
        return self.sampled_chunks == self.chunks

    def __str__(self) -> str:
        part = "all" if self.whole else f"{self.sampled_chunks:,} chosen at random"
        return (
            f"re-run of {self.sampled_evaluations:,} of {self.evaluations:,} evaluations ({part} of {self.chunks:,} "
            f"chunks), about {self.seconds:.1f} s"
        )


class Sample(Record, frozen=True):
    """The value of a sample of chunks as evidence.

    `one_escapes` is the probability that one forged chunk is not in the sample. `needed` is the number of chunks that
    the verdict depends on (None without a verdict), and `needed_escape` the probability that none of that many is in
    the sample.
    """

    chunks: int
    sampled: int
    one_escapes: float
    needed: int | None
    needed_escape: float | None

    @classmethod
    def of(cls, cost: Cost, needed: int | None) -> Sample:
        """Return the probabilities that forgeries escape a sample of this size."""
        sizes = cost.chunks, cost.sampled_chunks
        escape = None if needed is None else escape_probability(*sizes, needed)
        return cls(*sizes, escape_probability(*sizes, 1), needed, escape)


def escape_probability(chunks: int, sampled: int, forged: int) -> float:
    """Return the probability that a sample without replacement contains none of the forged chunks.

    >>> escape_probability(100, 60, 1), round(escape_probability(100, 60, 5), 4)
    (0.4, 0.0087)
    """
    if forged > chunks - sampled:
        return 0.0
    return math.prod((chunks - sampled - each) / (chunks - each) for each in range(forged))


def smallest_forgery(batches: Sequence[BatchEvidence], question: ReplayedRule, verdict: str) -> int | None:
    """Return the number of chunks that a verdict depends on: without them, the others are no evidence for it.

    It is a lower bound, at least 1; None without a verdict. For FAIR it is the minimum over all pairs, because FAIR
    needs all of them. For UNFAIR it is that of the leaders, or in estimate mode of the pair that needs most. For a
    verdict about shifted populations it is 1.
    """
    if verdict not in ("FAIR", "UNFAIR"):
        return None
    if question.shift > 1:
        return 1
    side: arithmetic.Side = "above" if verdict == "FAIR" else "below"
    if side == "below" and question.epsilon is None:
        return max(1, int(_needed(_cells(batches, question, None), question, side)[0]))
    pairs = np.argwhere(question.compared)
    size = sum(batch.chunks for batch in batches)
    block = max(1, AT_ONCE // (3 * max(size, 1)))
    needed = np.concatenate(
        [
            _needed(_cells(batches, question, pairs[start : start + block]), question, side)
            for start in range(0, len(pairs), block)
        ]
    )
    return max(1, int(needed.min() if side == "above" else needed.max()))


def _needed(cells: NDArray[np.int64], question: ReplayedRule, side: arithmetic.Side) -> NDArray[np.int64]:
    """Return for each pair the fewest chunks without which its e-value is at most 1; `cells` is (chunks, pairs, 3).

    The e-value is a mean over betting fractions, so it is at most 1 only if each fraction's share is. The logarithm of
    a fraction's wealth is a sum over chunks, of which the largest terms are removed first; the fraction that needs most
    decides.
    """
    most = np.zeros(cells.shape[1], np.int64)
    for factors, weight in arithmetic.log_factors(question.threshold, side, question.relative, question.share):
        gains = cells @ np.array(factors)
        left = gains.sum(axis=0) + weight
        taken = left - np.cumsum(-np.sort(-gains, axis=0), axis=0)
        enough = (taken <= 0).argmax(axis=0) + 1
        most = np.maximum(most, np.where(left <= 0, 0, enough))
    return most


def _cells(
    batches: Sequence[BatchEvidence], question: ReplayedRule, pairs: NDArray[np.intp] | None
) -> NDArray[np.int64]:
    """Return (chunks, pairs, 3), the counts (only the first, middle, only the second) of every chunk.

    `pairs` are (outcome, i, j); None means the leader of each batch.
    """
    found = [np.zeros((1 if pairs is None else len(pairs), 3), np.int64)]
    for batch in batches:
        if pairs is not None:
            outcome, first, second = pairs.T
        elif batch.leader is not None:
            first, second, outcome = np.array(batch.leader)[:, None]
        else:
            continue
        place = np.full(question.groups, -1)
        place[batch.groups] = np.arange(len(batch.groups))
        a, b = place[first], place[second]
        drawn = (a >= 0) & (b >= 0)
        for chunk in range(batch.chunks):
            tables = batch.tables(chunk)
            both = tables[outcome, a, b]
            plus, minus = tables[outcome, a, a] - both, tables[outcome, b, b] - both
            middle = both if question.relative else batch.size(chunk) - plus - minus
            found.append(np.stack([plus, middle, minus], axis=1) * drawn[:, None])
    return np.stack(found)


@dataclass(frozen=True)
class Counter:
    """A counter of chunks: the network, the inputs and the seed."""

    model: Model
    case: Case
    seed: int
    coupled: bool = True

    def labels(
        self, chunk: int, count: int, subgroups: Sequence[int], *, length: int | None = None
    ) -> NDArray[np.int64]:
        """Return the label of each of these subgroups in each of the first rounds of a chunk.

        The result is (subgroups, rounds). A round is drawn once for all subgroups. The chunk has `length` rounds, by
        default as many as are returned.
        """
        population, shown = self.case.population, list(subgroups)
        found = []
        for copy, drawn in [(0, shown)] if self.coupled else [(1 + subgroup, [subgroup]) for subgroup in shown]:
            rounds = population.rounds(self.seed, chunk, length or count, copy, subgroups=drawn)
            for subgroup in drawn:
                values = rounds.inputs([subgroup])[:count]
                words = decision_words(self.seed, chunk, count, copy) if self.model.drawn else None
                found.append(decide(self.model, values, words))
                check_alone(self.model, values, found[-1], chunk, words=words)
        return np.stack(found).astype(np.int64)

    def tables(self, seen: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Count the labels of a chunk: for each outcome the number of rounds in which each two groups both got it."""
        comparison = self.case.comparison
        if comparison.individual:
            # Two columns: whether the decision differs between groups, and one that is always 0.
            decided = (seen == comparison.outcomes[0]) if comparison.outcomes else seen
            changed = decided.max(axis=0) != decided.min(axis=0)
            seen = np.stack([changed.astype(np.int64), np.zeros(len(changed), np.int64)])
        # Sums of at most 8192 ones are exact in single precision, whose products are fast.
        masks = [(seen == outcome).astype(np.float32) for outcome in comparison.rows]
        return [(mask @ mask.T).astype(np.int64) for mask in masks]


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a certificate that can be run alone, with its evaluations."""

    cost: int


AnyPart = TypeVar("AnyPart", bound=Part)


class Repetition(ABC, Generic[AnyPart]):
    """A re-run of the parts of a certificate, all or a random sample; `evaluations` is the number that agreed.

    A sample is chosen by the seed of the options; without one the choice comes from the system's entropy and cannot be
    predicted.
    """

    # The name of a part, and the sentence about parts that agree.
    unit, agreed = "chunks", "evaluations repeated, with the same counts"

    def __init__(self, parts: Sequence[AnyPart], options: RecheckOptions) -> None:
        self._parts, self._options = parts, options
        self._done: set[AnyPart] = set()
        self.evaluations = 0

    @abstractmethod
    def run(self, part: AnyPart) -> str:
        """Run one part again; return the problem, or an empty text."""

    def further(self) -> Sequence[AnyPart]:
        """Return the parts that are run in any case."""
        return ()

    def contradiction(self) -> str:
        """Return the problem that the agreeing parts show together, or an empty text."""
        return ""

    def check(self) -> tuple[Claim, Cost, float]:
        """Measure the speed, report the cost, and compare; return the claim, the cost, and the share that agreed."""
        cost, options = Cost(0, len(self._parts), 0, 0, 0.0), self._options
        try:
            wrong, speed = self._probe()
            total, size = sum(part.cost for part in self._parts), len(self._parts)
            if not options.full and total > speed * options.seconds:
                fitting = int(size * options.seconds * speed / total)
                size = min(size, max(LEAST_CHUNKS, fitting))
            chosen = sample_of(self._parts, size, options.seed)
            wanted = sum(part.cost for part in chosen)
            cost = Cost(total, len(self._parts), wanted, size, wanted / speed)
            if options.report is not None:
                options.report(cost)
            for part in [*chosen, *self.further()] if not wrong else ():
                wrong = self._differs(part)
                if wrong:
                    break
                if options.progress is not None:
                    options.progress(min(self.evaluations, cost.sampled_evaluations), cost.sampled_evaluations)
        except ModelError as error:
            wrong = str(error)
        wrong = wrong or self.contradiction()
        if wrong:
            return Claim("re-run", False, wrong), cost, 0.0
        some = f"{cost.sampled_chunks:,} of {cost.chunks:,} {self.unit}, chosen at random"
        share = "everything" if cost.whole else some
        claim = Claim("re-run", True, f"{share}: {cost.sampled_evaluations:,} {self.agreed}")
        return claim, cost, self.evaluations / cost.evaluations if cost.evaluations else 1.0

    def _differs(self, part: AnyPart) -> str:
        if part in self._done:
            return ""
        wrong = self.run(part)
        if not wrong:
            self._done.add(part)
            self.evaluations += part.cost
        return wrong

    def _probe(self) -> tuple[str, float]:
        """Run chunks of growing size until one takes long enough to measure evaluations per second."""
        speed, last = 1.0, 0
        for part in sorted(self._parts, key=lambda part: part.cost):
            if part.cost < 4 * last:
                continue
            start = time.perf_counter()
            if wrong := self._differs(part):
                return wrong, speed
            spent = max(time.perf_counter() - start, 1e-9)
            speed, last = part.cost / spent, part.cost
            if spent > PROBE_SECONDS:
                break
        return "", speed


@dataclass(frozen=True, eq=False)
class _Chunk(Part):
    """One chunk of one batch."""

    batch: int
    place: int


class Rerun(Repetition[_Chunk]):
    """A re-run of a certificate's chunks of rounds."""

    def __init__(self, counter: Counter, batches: Sequence[BatchEvidence], options: RecheckOptions) -> None:
        chunks = [
            _Chunk(batch.size(place) * len(counter.case.comparison.evaluated(batch.groups)), number, place)
            for number, batch in enumerate(batches)
            for place in range(batch.chunks)
        ]
        super().__init__(chunks, options)
        self._counter, self._batches = counter, batches
        self._given: dict[int, set[int]] = {}

    def run(self, part: _Chunk) -> str:
        """Run one chunk again; return the problem, or an empty text."""
        batch = self._batches[part.batch]
        subgroups = self._counter.case.comparison.evaluated(batch.groups)
        counted, drawn = batch.size(part.place), batch.drawn(part.place)
        seen = self._counter.labels(batch.chunk + part.place, counted, subgroups, length=drawn)
        again = self._counter.tables(seen)
        off = max(int(np.abs(a - b).max()) for a, b in zip(again, batch.tables(part.place), strict=True))
        if off:
            return (
                f"batch {part.batch}, chunk {part.place} gives other counts (up to {off} of {counted} rounds); if "
                "they differ by one or two, another processor may round the network's sums differently"
            )
        self._given.setdefault(part.batch, set()).update(np.unique(seen).tolist())
        return ""

    def further(self) -> Sequence[_Chunk]:
        """Return the chunks of the first batch, and of the first with a label that no earlier batch has.

        Together they show that the network gives two labels, which the counts of one label may not show.
        """
        seen: set[int] = set()
        for number, batch in enumerate(self._batches):
            seen |= set(batch.labels)
            if len(seen) > 1:
                return [part for part in self._parts if part.batch in (0, number)]
        return []

    def contradiction(self) -> str:
        """Return the batch in which the observed labels differ from those of the certificate, or an empty text."""
        unseen = {part.batch for part in self._parts if part not in self._done}
        for number, given in self._given.items():
            claimed = set(self._batches[number].labels)
            if not given <= claimed or (number not in unseen and given != claimed):
                return f"batch {number} gives the labels {sorted(given)}, the certificate states {sorted(claimed)}"
        return ""

    def look(self, look: Look, *, cut_chunks: bool) -> Claim:
        """Test the further inputs again, in which a second label was searched; older chunks are as long as tested."""
        given = {label for batch in self._batches for label in batch.labels}
        case = self._counter.case
        subgroups = range(len(case.comparison.subgroups))
        for start in range(0, look.rounds, LOOK_ROUNDS):
            count = min(LOOK_ROUNDS, look.rounds - start)
            length = count if cut_chunks else LOOK_ROUNDS
            seen = self._counter.labels(LOOK_CHUNK + start // LOOK_ROUNDS, count, subgroups, length=length)
            given |= set(np.unique(seen).tolist())
        found = ", ".join(f'"{case.spec.model.labels[label]}"' for label in sorted(given))
        if sorted(given) != look.labels:
            return Claim("labels", False, f"the model gives {found}, the certificate states labels {look.labels}")
        return Claim(
            "labels", True, f"{look.rounds * len(subgroups):,} further inputs tried again: the model gives {found}"
        )


def sample_of(chunks: Sequence[Any], size: int, seed: int | None) -> list[Any]:
    """Choose this many chunks at random without replacement, in their order; each subset is equally likely."""
    source = random.Random(seed) if seed is not None else random.SystemRandom()
    return [chunks[place] for place in sorted(source.sample(range(len(chunks)), size))]
