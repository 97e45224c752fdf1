"""Enumeration engine: every input of a finite space is evaluated, and its exact weight is summed.

Points are evaluated in tiles: the inner columns of a tile are prepared once, the outer ones are set for each block. A
segment is a sequence of blocks; workers process segments in any order, and their weights are integers that are added in
the order of the segments. A run that ends early bounds every probability by the remaining weight. Finished segments may
be stored in a checkpoint, from which a later run continues.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from dataclasses import replace as replace_field
from fractions import Fraction
from functools import partial
from math import prod
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.certificate_format import EnumerationEvidence, SegmentEvidence, chain_start, chained
from fairchain.errors import CheckpointError, SpecError
from fairchain.executors import Workers
from fairchain.input_space import TILE, InputSpace, Shown, input_space
from fairchain.models import Model
from fairchain.models.onnx.decision import DECISION_WORDS, words_that_change
from fairchain.models.tiles import Tile
from fairchain.prepare import Case
from fairchain.spec.conditions import predicate_of
from fairchain.spec.properties import factor_of, in_own_unit, limit_of
from fairchain.spec.seeds import meaning_of
from fairchain.statistics import Decision, Interval
from fairchain.statistics.masses import EnumeratedRates, rate_within
from fairchain.system.work_record import ANOTHER_WRITER, work_record
from fairchain.verification.answers import Answer
from fairchain.verification.kept_batches import checkpoint_key
from fairchain.verification.pair_weights import BlockPairs, PairWeights, shared_rates
from fairchain.verification.progress import Progress, Report
from fairchain.verification.record import Witness
from fairchain.verification.sampler import labels_in
from fairchain.verification.tile_weights import TileWeights
from fairchain.verification.witnesses import WITNESSES, changed_points

# Smallest number of evaluations of a segment, and largest number of segments of a run; a certificate lists them.
SEGMENT_EVALUATIONS, MOST_SEGMENTS = 2**18, 1024
# Largest number of evaluations of a segment in a longer run: about ten seconds of a small network.
LONGEST_SEGMENT = 2**26
# Largest number of values in all segments of a certificate.
MOST_SEGMENT_WEIGHTS = 1_000_000
# Number of blocks that are searched for witnesses.
SEARCHED_BLOCKS = 8
# Checks whether the remaining weight can still change the verdict: the largest number of checks in a run, of pairs in
# all checks, and the first check's number of evaluations, about half a second. They are at fixed positions, so that a
# continued run stops at the same point as an uninterrupted one.
LOOKS, LOOKED_PAIRS, FIRST_LOOK = 16, 2**16, 2**22
# Seconds between two reports of progress.
REPORT_EVERY = 0.2
BUDGET_TOO_SMALL = (
    "guarantee.budget.evaluations: {allowed:,} are not enough for the {evaluations:,} evaluations of an enumeration; "
    "allow more, or leave guarantee.engine out"
)


class Enumerator:
    """Evaluator of sequences of blocks of an input space; `halted` is whether to end after the current block."""

    def __init__(self, model: Model, case: Case, inputs: InputSpace, halted: Callable[[], bool]) -> None:
        self._model, self._case, self._inputs, self._halted = model, case, inputs, halted
        space, split = inputs.space, len(inputs.order) - inputs.tile
        self._outer, self._inner = inputs.order[:split], inputs.order[split:]
        self._sizes = tuple(space.sizes[column] for column in self._outer)
        self.strips = -(-inputs.tile_points // TILE)
        self.blocks = prod(self._sizes) * self.strips
        columns = (*self._outer, *inputs.protected)
        self._weights = [TileWeights(each, self._inner, columns, space.sizes, TILE) for each in space.measures]
        self._own = threading.local()
        # If labels are drawn, weights are counted in random words: each label has as many words as its probability
        # requires.
        self.unit = DECISION_WORDS if model.drawn else 1
        self._pairs = PairWeights(inputs, len(case.comparison.rows), self.unit) if inputs.pairs else None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy the inputs of the weights; another process finishes every segment that it has started."""
        return Enumerator, (self._model, replace_field(self._case, shared=None), self._inputs, bool)

    def rows(self, block: int) -> int:
        """Return the number of points of a block."""
        return min(TILE, self._inputs.tile_points - block % self.strips * TILE)

    def points_before(self, block: int) -> int:
        """Return the number of points in all blocks before this one."""
        outer, strip = divmod(block, self.strips)
        return outer * self._inputs.tile_points + strip * TILE

    def _digits(self, block: int) -> list[int]:
        """Return the values of the outer columns in a block."""
        digits = []
        left = block // self.strips
        for size in reversed(self._sizes):
            left, digit = divmod(left, size)
            digits.append(digit)
        return digits[::-1]

    def _tile(self, block: int) -> Tile:
        """Return a worker's rows for a block, with the values of its points."""
        tiles: dict[int, tuple[Tile, list[int]]] | None = getattr(self._own, "tiles", None)
        if tiles is None:
            tiles = self._own.tiles = {}
        space, rows, digits = self._inputs.space, self.rows(block), [*self._digits(block), block % self.strips]
        if rows not in tiles:
            values = np.empty((rows, len(space.values)), self._model.dtype)
            values[:] = [each[0] for each in space.values]
            if self._inner:
                shape = [space.sizes[column] for column in self._inner]
                for column, index in zip(self._inner, np.indices(shape).reshape(len(shape), -1), strict=True):
                    values[:, column] = space.values[column][index[:rows]]
            tiles[rows] = Tile(self._model, values), [0] * len(digits)
        tile, before = tiles[rows]
        for column, digit, last in zip(self._outer, digits, before, strict=False):
            if digit != last:
                tile.set(column, float(space.values[column][digit]))
        if digits[-1] != before[-1]:
            (column,) = self._inner
            tile.set(column, space.values[column][digits[-1] * TILE : digits[-1] * TILE + rows])
        tiles[rows] = tile, digits
        return tile

    def shown(self, block: int, shown: Shown) -> tuple[NDArray[np.integer], Tile]:
        """Return the labels of a block's points with these protected values; and the rows, until the next call."""
        tile = self._with(block, shown)
        return tile.predict(block, self.possible(block, shown)), tile

    def _ends(self, block: int, shown: Shown) -> NDArray[np.int64]:
        """Return the upper ends of the words of each label, for a block's points with these protected values."""
        return self._with(block, shown).ends(block, self.possible(block, shown))

    def _with(self, block: int, shown: Shown) -> Tile:
        tile = self._tile(block)
        for column, value in zip(self._inputs.protected, shown.values, strict=True):
            tile.set(column, value)
        return tile

    def possible(self, block: int, shown: Shown) -> NDArray[np.bool_] | None:
        """Return which points of a block are inputs with these protected values, that is, have a positive weight; None
        for all.

        The decisions about individuals do not depend on their own protected values.
        """
        scale, vector = self._weights[-1].at((*self._digits(block), *shown.indices), block % self.strips)
        return vector.possible if scale else np.zeros(self.rows(block), bool)

    def run(self, first: int, blocks: int) -> SegmentEvidence:
        """Evaluate some blocks; fewer at the end of the space, or if the run is halted meanwhile. It has no chain."""
        inputs, comparison = self._inputs, self._case.comparison
        outcomes = comparison.rows
        sums = [[[0] * (1 + len(outcomes)) for _ in inputs.parts] for _ in self._weights]
        trials = [0] * len(inputs.parts)
        only = np.zeros((len(self._weights), len(inputs.pairs)), object)
        seen: set[int] = set()
        points = evaluations = 0
        count = self._changes if inputs.individual else self._rates
        for block in range(first, min(first + blocks, self.blocks)):
            if block > first and self._halted():
                break
            evaluations += count(block, sums, trials, seen, only)
            points += self.rows(block)
        weights = [[[str(each) for each in own] for own in parts] for parts in sums]
        exceeding = [[str(each) for each in own] for own in only.tolist()] if inputs.pairs else []
        return SegmentEvidence(points, evaluations, trials, sorted(seen), weights, "", exceeding)

    def _rates(
        self, block: int, sums: list[list[list[int]]], trials: list[int], seen: set[int], only: NDArray[Any]
    ) -> int:
        """Add the weights of a block, with each input evaluated as its own group; return the number of evaluations."""
        outcomes, classes = self._case.comparison.rows, len(self._case.spec.model.labels)
        digits, strip, evaluations = self._digits(block), block % self.strips, 0
        pairs = BlockPairs(self._pairs, self.rows(block)) if self._pairs is not None else None
        for choice, shown in enumerate(self._inputs.shown):
            found = [weights.at((*digits, *shown.indices), strip) for weights in self._weights]
            scale, vector = found[-1]
            if not scale or not vector.total:
                continue
            if self._model.drawn:
                shares = np.diff(self._ends(block, shown), axis=1, prepend=0)
            else:
                labels, _ = self.shown(block, shown)
            if pairs is not None:
                drawn = self._model.drawn
                pairs.add(choice, found, [shares[:, each] if drawn else labels == each for each in outcomes])
            evaluations += vector.count
            for place, (scale, vector) in enumerate(found):
                by_label = vector.by_share(shares) if self._model.drawn else vector.by_label(labels, classes)
                if place == len(found) - 1:
                    seen.update(label for label, weight in enumerate(by_label) if weight)
                for part in shown.parts:
                    own = sums[place][part]
                    own[0] += scale * vector.total * self.unit
                    for number, outcome in enumerate(outcomes, 1):
                        own[number] += scale * by_label[outcome]
            for part in shown.parts:
                trials[part] += found[-1][1].count
        if pairs is not None:
            pairs.add_to(only)
        return evaluations

    def _changes(
        self, block: int, sums: list[list[list[int]]], trials: list[int], seen: set[int], _only: NDArray[Any]
    ) -> int:
        """Add the weights of a block, with each point evaluated as every group; return the number of evaluations."""
        none = (0,) * len(self._inputs.protected)
        chosen, strip = (*self._digits(block), *none), block % self.strips
        found = [weights.at(chosen, strip) for weights in self._weights]
        scale, vector = found[-1]
        if not scale or not vector.total:
            return 0
        if self._model.drawn:
            outcomes = self._case.comparison.outcomes
            ends = np.stack([self._ends(block, shown) for shown in self._inputs.shown])
            given = np.diff(ends, axis=2, prepend=0) > 0
            possible = given if vector.possible is None else given[:, vector.possible]
            seen.update(np.flatnonzero(possible.any(axis=(0, 1))).tolist())
            changing = words_that_change(ends, outcomes[0] if outcomes else None)[:, None]
        else:
            labels = np.stack([self.shown(block, shown)[0] for shown in self._inputs.shown])
            changes = self._case.comparison.fold(labels)[0]
            seen.update(labels_in(labels if vector.possible is None else labels[:, vector.possible]))
        trials[0] += vector.count
        for place, (scale, vector) in enumerate(found):
            sums[place][0][0] += scale * vector.total * self.unit
            by_label = vector.by_share(changing) if self._model.drawn else vector.by_label(changes, 2)
            sums[place][0][1] += scale * by_label[-1]
        return vector.count * len(self._inputs.shown)


@dataclass(frozen=True)
class EnumerationEngine:
    """Engine that evaluates every input of a finite space; the answer is exact, or has certain bounds if it ends early.

    `inputs` is the space, if already built, and `seconds` replaces the spec's budget. The segments in the file
    `checkpoint` are not evaluated again; new ones are appended.
    """

    inputs: InputSpace | None = None
    seconds: float | None = None
    checkpoint: Path | None = None

    def answer(self, case: Case, *, workers: Workers, cancel: Event, progress: Report | None) -> Answer:
        """Answer a case with a finite input space."""
        start = time.perf_counter()
        assert case.model is not None
        inputs = self.inputs or input_space(case)
        allowed = case.spec.guarantee.budget.evaluations
        if allowed is not None and inputs.evaluations > allowed:
            raise SpecError(BUDGET_TOO_SMALL.format(allowed=int(allowed), evaluations=inputs.evaluations))
        budget = case.seconds if self.seconds is None else self.seconds
        deadline = start + budget

        def halted() -> bool:
            return cancel.is_set() or time.perf_counter() > deadline

        enumerator = Enumerator(case.model, case, inputs, halted)
        size = _segment_blocks(enumerator.blocks, inputs, len(case.comparison.rows))
        count = -(-enumerator.blocks // size)
        run = _Run(case, inputs, enumerator.unit, count, start, progress)
        with ExitStack() as stack:
            record = None
            if self.checkpoint is not None:
                sizes = [inputs.space.sizes[column] for column in inputs.order]
                key = checkpoint_key(case, [inputs.order, sizes, inputs.summed, size])
                record = stack.enter_context(work_record(self.checkpoint, key))
                try:
                    for piece in record.pieces:
                        run.add(msgspec.json.decode(piece, type=SegmentEvidence))
                except (msgspec.DecodeError, ValueError):
                    raise CheckpointError(ANOTHER_WRITER.format(self.checkpoint)) from None
            first = len(run.segments)
            if first < count and not run.settled:
                # A range, not a list: a space can have many more segments than a run evaluates.
                starts = range(first * size, enumerator.blocks, size)
                evaluate = partial(enumerator.run, blocks=size)
                segments = workers.map(evaluate, starts, halted=lambda _seconds: halted())
                stack.callback(segments.close)
                for place, segment in enumerate(segments, first + 1):
                    found = run.add(segment)
                    if run.points < enumerator.points_before(min(place * size, enumerator.blocks)):
                        break
                    if record is not None:
                        record.add(msgspec.json.encode(found))
                    if run.settled:
                        break
        return run.answer(enumerator, "interrupted" if cancel.is_set() else "seconds")


def _segment_blocks(blocks: int, inputs: InputSpace, outcomes: int) -> int:
    """Return the blocks of a segment: few segments for a certificate to list, each short enough to check alone."""
    values = (len(inputs.parts) * (1 + outcomes) + len(inputs.pairs)) * len(inputs.space.measures)
    few = -(-blocks // max(16, min(MOST_SEGMENTS, MOST_SEGMENT_WEIGHTS // values)))
    each = min(TILE, inputs.tile_points) * len(inputs.shown)
    return max(SEGMENT_EVALUATIONS // each, min(few, LONGEST_SEGMENT // each), 1)


class _Run:
    """The segments of a run so far, and their sums.

    `points` is the number of those evaluated so far; `settled` is whether the others cannot change the verdict.
    """

    def __init__(
        self, case: Case, inputs: InputSpace, unit: int, count: int, start: float, progress: Report | None
    ) -> None:
        self._case, self._inputs, self._start, self._progress = case, inputs, start, progress
        self.segments: list[SegmentEvidence] = []
        self._chain = chain_start(case.model_sha256, case.data_sha256, meaning_of(case.spec))
        looks = min(LOOKS, count, LOOKED_PAIRS // max(1, int(case.comparison.compared.sum())))
        self._looks = {count * look // looks for look in range(1, looks)}
        self._reported = start
        self._totals = [[mass * unit for mass in masses] for masses in inputs.part_masses]
        outcomes = 1 + len(case.comparison.rows)
        self._sums = [[[0] * outcomes for _ in inputs.parts] for _ in inputs.space.measures]
        self._only = [[0] * len(inputs.pairs) for _ in inputs.space.measures]
        self.points = self._evaluations = 0
        self.settled = False
        self._trials = [0] * len(inputs.parts)

    def add(self, segment: SegmentEvidence) -> SegmentEvidence:
        """Add a segment; return its entry for a certificate, with its chain."""
        self._chain = chained(self._chain, segment)
        found = replace(segment, chain=self._chain)
        self.segments.append(found)
        self.points += segment.points
        self._evaluations += segment.evaluations
        self._trials = [one + other for one, other in zip(self._trials, segment.inputs, strict=True)]
        for one, other in zip(self._sums, segment.weights, strict=True):
            for sums, own in zip(one, other, strict=True):
                sums[:] = [mine + int(weight) for mine, weight in zip(sums, own, strict=True)]
        for sums, own in zip(self._only, segment.only, strict=bool(self._inputs.pairs)):
            sums[:] = [mine + int(weight) for mine, weight in zip(sums, own, strict=True)]
        if len(self.segments) in self._looks and self._evaluations >= FIRST_LOOK:
            self.settled = self._inference().decision is not Decision.UNDECIDED
        now, inputs = time.perf_counter(), self._inputs
        if self._progress is not None and now - self._reported >= REPORT_EVERY and self.points < inputs.points:
            gap = Interval(*in_own_unit(self._case.spec, self._inference().gap()))
            self._progress(Progress(0, self._evaluations, now - self._start, gap, inputs.evaluations))
            self._reported = time.perf_counter()
        return found

    def _inference(self) -> EnumeratedRates:
        comparison = self._case.comparison
        parts = [
            [
                rate_within((got, most), (low[0] - got, high[0] - most), total - high[0])
                for got, most in zip(low[1:], high[1:], strict=True)
            ]
            for low, high, total in zip(self._sums[0], self._sums[-1], self._totals[-1], strict=True)
        ]
        trials = np.array([sum(self._trials[part] for part in mean) for mean in self._inputs.means], np.int64)
        if comparison.individual:
            trials[:] = self._trials[0]
        limit, factor = limit_of(self._case.spec), factor_of(self._case.spec) or Fraction(1)
        compared, measure = comparison.compared, comparison.measure
        return EnumeratedRates(parts, self._inputs.means, compared, measure, limit, trials, factor)

    def answer(self, enumerator: Enumerator, stopped: str) -> Answer:
        """Return the answer from all segments."""
        case, inputs, found = self._case, self._inputs, self._inference()
        whole = self.points == inputs.points
        names = [feature.name for feature in case.spec.features]
        evidence = EnumerationEvidence(
            points=str(inputs.points),
            order=[names[column] for column in inputs.order],
            sizes=[inputs.space.sizes[column] for column in inputs.order],
            summed=list(inputs.summed),
            outcomes=list(case.comparison.rows),
            segments=self.segments,
        )
        if found.decision is not Decision.UNDECIDED:
            stopped = "decided"
        elif whole:
            stopped = "weights"
        return Answer(
            spec=case.spec,
            found=found,
            record=evidence,
            engine="enumeration",
            delta=0.0,
            rounds=0,
            evaluations=self._evaluations,
            tried=self._evaluations,
            stopped=stopped,
            witnesses=_witnesses(case, inputs, enumerator, found),
            ratio=found.ratio() if found.exact_gap is not None else None,
            exact_gap=found.exact_gap if whole else None,
            shared=shared_rates(inputs, case.comparison.compared.shape, self._sums, self._only, self._totals[-1]),
        )


def _witnesses(case: Case, inputs: InputSpace, enumerator: Enumerator, found: EnumeratedRates) -> tuple[Witness, ...]:
    """Return a few inputs of the first blocks with different decisions in two compared groups."""
    if enumerator.unit > 1:
        # Labels are drawn: every input has several possible decisions as one group.
        return ()
    i, j, outcome = found.widest()
    rates = found.rates()[outcome]
    subgroups = case.comparison.subgroups
    if inputs.individual:
        pair = [(shown, subgroup.name) for shown, subgroup in zip(inputs.shown, subgroups, strict=True)]
    else:
        pair = [
            (shown, subgroups[place].name)
            for place in (i, j)
            if subgroups[place].group is not None
            for shown in [each for each in inputs.shown if inputs.means[place][0] in each.parts][:1]
        ]
    if rates[i] == rates[j] or len(pair) < 2:
        return ()
    witnesses: list[Witness] = []
    predicate = predicate_of(case.spec)
    for block in range(min(enumerator.blocks, SEARCHED_BLOCKS)):
        eligible = np.ones(enumerator.rows(block), bool)
        for shown, _ in pair:
            possible = enumerator.possible(block, shown)
            eligible &= True if possible is None else possible
        labels, rows = [], []
        for shown, _ in pair if eligible.any() else ():
            decided, tile = enumerator.shown(block, shown)
            labels.append(decided)
            rows.append(tile.values.copy())
            if predicate is not None:
                # Of values that the network cannot distinguish the first is shown, and it may be excluded.
                eligible &= predicate.holds(tile.values.astype(np.float64))
        if eligible.any():
            names = [name for _, name in pair]
            witnesses += changed_points(case, names, np.stack(labels)[:, eligible], np.stack(rows)[:, eligible])
        if len(witnesses) >= WITNESSES:
            break
    return tuple(witnesses[:WITNESSES])
