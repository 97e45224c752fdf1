"""Bounding engine: certain bounds by branch and bound, combined with sampling of what they leave open.

Two kinds of work alternate, whichever is forecast to narrow the interval more for its cost: halving boxes, and drawing
rounds. Rounds are those of a plain run, number by number, until so much is settled that drawing in the open boxes only,
which takes longer, pays. Costs are counted, not timed, so that the order of the work depends on the seed alone; a clock
can only end it, or let a question be refused. A verdict that the certain bounds give alone is proved: its error
probability is 0.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.executors import Workers, default_workers, open_workers
from fairchain.executors.workers import Halted
from fairchain.models.inspect.relu_layers import features_network
from fairchain.populations.base import columns_of
from fairchain.populations.streams import Address, unit_reals
from fairchain.prepare import Case
from fairchain.spec import CategoryFeature, RealFeature
from fairchain.spec.properties import in_own_unit, limit_of
from fairchain.statistics import Decision, Interval, Tally
from fairchain.statistics.rules import BatchPlan
from fairchain.statistics.strata import StrataRule
from fairchain.statistics.tally import count_together
from fairchain.verification.answers import Answer
from fairchain.verification.boxes import BoxSpace, Floats, WeightedChoice, box_space
from fairchain.verification.partition import FEW_POINTS, LabelledBoxes, Partition, label_bounds
from fairchain.verification.progress import Progress, Report
from fairchain.verification.record import FreeRegion
from fairchain.verification.sampler import Sampler, labels_in
from fairchain.verification.sampling import bets_of
from fairchain.verification.verdict import BoundsRecord
from fairchain.verification.witnesses import WITNESSES, changed_points

# Boxes that are halved at a time, at least, and the part of all work so far that one step takes.
LEAST_BOXES, STEP_SHARE = 64, 0.1
# An answer by sampling ends the run unless a proof is forecast to need at most so many boxes in all, one for each
# member. Before so many boxes are bounded, a forecast means nothing.
MOST_PROOF_BOXES, FIRST_FORECAST_BOXES = 2**16, 2**9
# A new stratum begins when the open probability, times the cost of a round, has fallen to this part of the last one's.
NEW_STRATUM = 0.9
# While nothing is decided, halving may set the run back by this part of what plain sampling would know for its cost.
EXPLORED = 0.0025
# Measured costs in plain evaluations of the network, about the largest of ten networks: of a box, for each evaluation
# that its multiplications would make, and besides; of a step; of reading the network and the population; and of drawing
# a round in open boxes, for each axis, besides its evaluations.
OVERHEAD, PER_BOX, PER_STEP, SET_UP, PER_AXIS = 15, 220, 20_000, 20_000, 0.15
# Seconds after which it is known at the latest whether boxes can answer the question: finding out takes milliseconds.
REFUSED_AFTER = 2.0
REPORT_EVERY = 0.2
# Rounds of a chunk, and substreams of the choice of a box and of a member of a mean.
STRATA_CHUNK = 8192
BOX_SUBSTREAM, MEMBER_SUBSTREAM = 2**61, 2**61 + 1


@dataclass(frozen=True)
class BoundingEngine:
    """Narrow certain bounds by branch and bound; sample what is open; stop when either decides.

    Parameters
    ----------
    sampling
        Whether rounds are drawn; without them every answer is certain.
    seconds
        The budget, by default the spec's.
    """

    sampling: bool = True
    seconds: float | None = None
    partial: bool = True

    def answer(self, case: Case, *, workers: Workers, cancel: Event, progress: Report | None) -> Answer:
        """Answer a case about a feed-forward ReLU network with independent features."""
        start = time.perf_counter()
        # Boxes are halved in small steps that depend on each other: threads, whatever the executor.
        with open_workers(default_workers() if workers.remote else workers) as opened:
            run = BoundingRun(case, opened, sampling=self.sampling)
            budget = case.seconds if self.seconds is None else self.seconds
            stopped = run.go(start + budget, cancel, progress)
        return run.answer(stopped)


class BoundingRun:
    """One run: a partition, a rule, and the rounds drawn so far.

    Parameters
    ----------
    case
        The question.
    workers
        Threads to use.
    sampling
        Whether rounds are drawn.

    Raises
    ------
    ModelError
        If the model is no ONNX network of features.
    """

    def __init__(self, case: Case, workers: Workers | None = None, *, sampling: bool = True) -> None:
        comparison, spec = case.comparison, case.spec
        self.case, model = case, features_network(case.model)
        self._apply = map if workers is None or workers.pool is None else workers.pool.map
        self._partition: Partition | None = None
        self._sampler = Sampler(model, case.population, case.seed.value, comparison, workers=workers)
        self._halted: Halted = lambda _seconds: False
        groups, outcomes = len(comparison.counted), len(comparison.rows)
        delta, limit = spec.guarantee.delta, limit_of(spec)
        payoff, compared = bets_of(comparison)
        self.rule = StrataRule(groups, outcomes, limit, delta, compared, payoff=payoff)
        # An accuracy is reached by certain bounds or not at all.
        self._sampling = sampling and spec.guarantee.epsilon is None
        self.rounds = self.evaluations = 0
        self.witnesses: list[Any] = []
        self._labels: set[int] = set()
        self._chunk = 0
        self._sampled: LabelledBoxes | None = None
        # Evaluations that bounding one box costs, once that is known, and what each kind of work has cost so far.
        self._cost = 0.0
        self._halving_cost, self._sampling_cost = float(SET_UP), 1.0
        # Evaluations of a plain run that would tell as much as the rounds so far.
        self.worth = 1.0
        self._gain = math.inf

    @property
    def partition(self) -> Partition:
        """The boxes. The network and the population are read when they are first needed, since that takes a while.

        Raises
        ------
        SpecError, ModelError
            If the question or the network is not one that boxes can answer.
        """
        if self._partition is None:
            case, bounds = self.case, label_bounds(self.case.model)
            assert case.model is not None
            self._partition = Partition(box_space(case), bounds, case.model.predict, case.comparison, self._apply)
            self._cost = bounds.linear.cost * OVERHEAD + PER_BOX
        return self._partition

    @property
    def space(self) -> BoxSpace:
        """The inputs as boxes."""
        return self.partition.space

    @property
    def _begun(self) -> bool:
        return self._partition is not None and self._partition.begun

    def _evaluates_all(self) -> bool:
        """Return whether all inputs are so few that the first step evaluates them: nothing has to be drawn."""
        spec, protected = self.case.spec, columns_of(self.case.spec)
        free = [each for place, each in enumerate(spec.features) if each.model_input and place not in protected]
        # Mostly that is seen without reading the network and the population.
        if len(free) > math.log2(FEW_POINTS) or any(isinstance(each, RealFeature) for each in free):
            return False
        return bool(self.space.points(*self.space.whole)[0] <= FEW_POINTS)

    # -- The loop ----------------------------------------------------------------------------------------------------

    def go(self, deadline: float, cancel: Event, progress: Report | None) -> str:
        """Work until the question is decided or the budget is spent; return why it ended."""
        spec, most = self.case.spec, int(self.case.spec.guarantee.budget.rounds)
        reported = start = time.perf_counter()
        self._halted = lambda seconds: cancel.is_set() or time.perf_counter() + seconds > deadline
        while not self._done():
            now = time.perf_counter()
            if cancel.is_set():
                return "interrupted"
            if now >= deadline:
                return "seconds"
            left = most - self.rounds
            if left <= 0 and self._sampling and not self._proof_is_near():
                return "rounds"
            if not self.explore(left, now - start) and not self.sample(left):
                if self._gain > 0:
                    self._gain = 0.0
                    continue
                return "boxes"
            if progress is not None and now - reported > REPORT_EVERY:
                reported = now
                gap = Interval(*in_own_unit(spec, self.rule.gap()))
                progress(Progress(self.rule.rounds, self._asked, now - start, gap))
        return "decided" if spec.guarantee.epsilon is None else "epsilon"

    def _done(self) -> bool:
        epsilon = self.case.spec.guarantee.epsilon
        if epsilon is not None:
            low, high = self.rule.certain_gap()
            return max(high - low, float((self.rule.high - self.rule.low).max())) <= 2 * epsilon
        if self.rule.proved:
            return True
        return self.rule.decision is not Decision.UNDECIDED and not self._proof_is_near()

    def _proof_is_near(self) -> bool:
        """Return whether certain bounds are forecast to decide within `MOST_PROOF_BOXES` boxes, at the present pace."""
        boxes = self.partition.boxes
        if self._gain <= 0 or boxes >= MOST_PROOF_BOXES:
            return False
        if boxes < FIRST_FORECAST_BOXES:
            return True
        wanted = max(abs(self.rule.gap_estimate() - float(limit_of(self.case.spec))), 1e-9)
        # The open probability falls about as a power of the work.
        power = self._gain * self._halving_cost
        return math.log(max(self.partition.open_mass / wanted, 1.0)) <= power * math.log(MOST_PROOF_BOXES / boxes)

    def explore(self, left: int, seconds: float) -> bool:
        """Halve boxes if that pays, with so many rounds left and after so many seconds; return whether it was done."""
        if seconds > REFUSED_AFTER:
            _ = self.partition
        return self._wants_halving(left) and self.halve()

    def _wants_halving(self, left: int) -> bool:
        """Return whether halving boxes is forecast to narrow the interval more than sampling, for the same cost.

        The squared width of the interval is about proportional to the open probability, and to one over the rounds. A
        run may be stopped at any time, so halving is an investment that is limited by what the rounds so far are worth
        more than as many plain ones.
        """
        if self.rule.decision is not Decision.UNDECIDED or not self._sampling or left <= 0:
            return True
        if not self.evaluations and not self._begun and self._evaluates_all():
            return True
        if not self._affords_step():
            return False
        if self._partition is None:
            # Only now can be said what a step costs.
            _ = self.partition
            return self._affords_step()
        explored = self._halving_cost + self._step_cost <= EXPLORED * self._sampling_cost
        return explored or self._gain * self._sampling_cost >= 1

    def _affords_step(self) -> bool:
        """Return whether the rounds so far are worth nearly as much as plain ones for the whole cost with a step."""
        return self.worth >= (1 - EXPLORED) * (self.cost + self._step_cost)

    @property
    def cost(self) -> float:
        """What the run has cost so far, in evaluations of the network."""
        return self._halving_cost + self._sampling_cost

    @property
    def _step(self) -> int:
        """Boxes that the next step halves."""
        return max(LEAST_BOXES, int(STEP_SHARE * len(self.partition.open)))

    @property
    def _step_cost(self) -> float:
        """What the next step costs, at most: both halves of every box, as each protected value; the first has one."""
        if self._partition is None:
            return PER_STEP
        boxes = 2.0 * min(self._step, len(self.partition.open)) if self._begun else 1.0
        return PER_STEP + boxes * len(self.space.weights[0]) * self._cost

    @property
    def _draw_cost(self) -> float:
        """What a round in open boxes costs more than one among all inputs."""
        return PER_AXIS * len(self.space.axes)

    def halve(self) -> bool:
        """Halve some open boxes; return whether there were any."""
        before, bounded = self.partition.open_mass, self.partition.boxes
        if not self.partition.refine(self._step):
            self._gain = 0.0
            return False
        spent = PER_STEP + (self.partition.boxes - bounded) * self._cost
        self._halving_cost += spent
        after = max(self.partition.open_mass, 1e-300)
        self._gain = math.log(before / after) / spent if before > after else EXPLORED * min(self._gain, 1 / spent)
        self._bound()
        return True

    def _bound(self) -> None:
        """Hand the certain bounds to the rule, and put aside what no open pair needs."""
        self.rule.bound(*self.partition.rate_bounds())
        if self.case.comparison.individual or self.case.spec.guarantee.epsilon is not None:
            return
        if self.rule.decision is Decision.UNDECIDED:
            waiting = ~self.rule.cleared
            matter = waiting.any(axis=(0, 1)) | waiting.any(axis=(0, 2))
            self.partition.restrict(np.asarray(self.space.weights[matter].any(axis=0)))

    # -- Sampling ----------------------------------------------------------------------------------------------------

    def sample(self, most: int) -> bool:
        """Draw a batch of rounds, in the open boxes if that pays; return whether there was anything to draw."""
        if self.rule.decision is not Decision.UNDECIDED or not self._sampling:
            return False
        if most <= 0 or (self._begun and not len(self.partition.open)):
            return False
        groups = len(self.case.comparison.subgroups)
        mass, cost = self.rule.strata[-1].mass, float(groups)
        if not self.rule.everywhere:
            cost += self._draw_cost
        if self._begun and self.partition.open_mass * (groups + self._draw_cost) < NEW_STRATUM * mass * cost:
            partition = self.partition
            self._sampled = partition.open
            slack = 8 * partition.error + len(partition.open) * 2.0**-50 + self.space.draw_error
            self.rule.begin(partition.settled(), partition.open_mass, slack)
        plan = self.rule.plan()
        self.rule.observe(plan, self._batch(plan, most))
        return True

    def _batch(self, plan: BatchPlan, most: int) -> Tally:
        comparison = self.case.comparison
        subgroups = comparison.evaluated(plan.groups)
        if self.rule.everywhere:
            batch = self._sampler.run(self._chunk, plan.rounds, plan.groups, self._halted, most)
            self._chunk += batch.chunks
            self._labels.update(batch.labels)
            rounds, together, cost = batch.rounds, batch.together, len(subgroups)
        else:
            together = np.zeros((len(comparison.rows), len(plan.groups), len(plan.groups)), np.int64)
            wanted, rounds = min(plan.rounds, most), 0
            while rounds < wanted and not (rounds and self._halted(0.0)):
                drawn = min(STRATA_CHUNK, plan.rounds - rounds)
                labels, places = self._labels_of(min(drawn, wanted - rounds), drawn, subgroups)
                self._labels |= labels_in(labels)
                self._keep_witnesses(labels, places, subgroups)
                together += count_together(comparison.fold(labels), comparison.rows)
                rounds += labels.shape[1]
            cost = len(subgroups) + self._draw_cost
        self.rounds += rounds
        self.evaluations += rounds * len(subgroups)
        self._sampling_cost += rounds * cost
        self.worth += rounds * len(subgroups) / self.rule.strata[-1].mass
        return Tally.of_batch(rounds, together, plan.groups, len(comparison.counted))

    def _labels_of(self, rounds: int, drawn: int, subgroups: Sequence[int]) -> tuple[NDArray[np.integer], Floats]:
        """Return the labels of the first rounds of a chunk as each subgroup, (subgroups, rounds), and their places."""
        assert self._sampled is not None
        address = Address(self.case.seed.value, self._chunk)
        self._chunk += 1
        boxes, axes = self._sampled, len(self.space.axes)
        chosen = boxes.choice(_reals(address, drawn, BOX_SUBSTREAM)[:rounds])
        units = _reals(address, drawn * axes, 0).reshape(drawn, axes)[:rounds]
        places = self.space.draw(boxes.low.take(chosen, axis=0), boxes.high.take(chosen, axis=0), units)
        model = self.case.model
        assert model is not None
        shown = self.space.shared_inputs(places)
        labels = []
        for group in subgroups:
            shares = self.space.weights[group]
            if (shares == 1).any():
                member: int | NDArray[np.intp] = int(shares.argmax())
            else:
                member = WeightedChoice(shares)(_reals(address, drawn, MEMBER_SUBSTREAM)[:rounds])
            labels.append(model.predict(self.space.shown_as(shown, places, member)))
        return np.stack(labels), places

    def _keep_witnesses(self, labels: NDArray[np.integer], places: Floats, subgroups: Sequence[int]) -> None:
        """Keep a few inputs whose decision differs between groups of one protected value each."""
        comparison = self.case.comparison
        alone = [place for place, group in enumerate(subgroups) if (self.space.weights[group] == 1).any()]
        if len(self.witnesses) >= WITNESSES or len(alone) < 2 or len(self.space.axes) > len(self.space.free_axes):
            return
        shown = self.space.inputs(places, np.zeros(len(places), np.intp))
        names = [comparison.subgroups[subgroups[place]].name for place in alone]
        found = changed_points(self.case, names, labels[alone], np.broadcast_to(shown, (len(alone), *shown.shape)))
        self.witnesses = (self.witnesses + found)[:WITNESSES]

    # -- The answer --------------------------------------------------------------------------------------------------

    @property
    def _asked(self) -> int:
        return self.evaluations + (0 if self._partition is None else self._partition.evaluations)

    def answer(self, stopped: str) -> Answer:
        """Return what is known."""
        partition = self.partition
        seen = {label for label in range(32) if int(partition.labels) >> label & 1} | self._labels
        unseen = self._sampled is None and self.rule.rounds > 0 and not self.witnesses
        if (len(seen) < 2 or unseen) and len(partition.open):
            # A constant network is one whose every input has the same label, so the open part is looked at; inputs
            # with different decisions are there too.
            self._sampled = partition.open
            subgroups = range(len(self.case.comparison.subgroups))
            labels, places = self._labels_of(1024, 1024, subgroups)
            self._keep_witnesses(labels, places, subgroups)
            seen |= labels_in(labels)
            self.evaluations += labels.size
        mass = partition.open_mass if len(partition.open) else 0.0
        record = BoundsRecord(
            self.case.seed,
            self.rule.rounds,
            partition.boxes,
            len(partition.open),
            mass,
            tuple(sorted(seen)),
            self._free_regions(),
        )
        if self.rule.decision is Decision.UNDECIDED and self.case.spec.guarantee.epsilon is None:
            self.rule.settle()
            stopped = stopped if self.rule.decision is Decision.UNDECIDED else "decided"
        certain = self.rule.proved or not self.rule.rounds
        return Answer(
            spec=self.case.spec,
            found=self.rule,
            record=record,
            engine="bounds",
            delta=0.0 if certain else self.case.spec.guarantee.delta,
            rounds=self.rule.rounds,
            evaluations=self._asked,
            tried=self._asked,
            stopped=stopped,
            witnesses=tuple(self.witnesses),
        )

    def _free_regions(self) -> tuple[FreeRegion, ...]:
        """Return settled boxes in which all groups get the same label, in the words of the spec."""
        space, labels = self.space, self.case.spec.model.labels
        if len(space.axes) > len(space.free_axes):
            return ()
        boxes, found = self.partition.free(), []
        for low, high, mass, possible in zip(boxes.low, boxes.high, boxes.mass, boxes.possible, strict=True):
            features: dict[str, Any] = {}
            for place, (column, axis) in enumerate(zip(space.columns, space.axes, strict=True)):
                feature = space.features[column]
                first, last = (float(axis.values(end[place : place + 1])[0]) for end in (low, high))
                if isinstance(feature, CategoryFeature):
                    features[feature.name] = tuple(str(each) for each in feature.values[int(first) : int(last) + 1])
                else:
                    features[feature.name] = (first, last)
            found.append(FreeRegion(labels[int(possible[0]).bit_length() - 1], float(mass), features))
        return tuple(found)


def _reals(address: Address, count: int, substream: int) -> Floats:
    words = address.halfwords(2 * count, substream)
    return unit_reals(words[:count], words[count:])
