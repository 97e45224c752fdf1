"""Bounding engine: certain bounds by branch and bound, combined with sampling of what they leave open.

Two kinds of work alternate, whichever is forecast to narrow the interval more for its cost: halving boxes, and drawing
rounds. With few features, boxes are forecast to pay soon, and the run begins with them. With many, the run is a plain
one, by the loop of the sampling engine, until a useful number of boxes is a negligible part of its cost. Costs are
counted, not timed, so that the order of the work depends on the seed alone; a clock can only end it, or let a question
be refused. A verdict that the certain bounds give alone is proved: its error probability is 0.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.executors import Workers, default_workers, open_workers
from fairchain.executors.workers import Halted
from fairchain.models.inspect.relu_layers import features_network, has_known_operators
from fairchain.populations.streams import Address, unit_reals
from fairchain.prepare import Case
from fairchain.spec import CategoryFeature, RealFeature
from fairchain.spec.properties import in_own_unit, limit_of
from fairchain.statistics import Decision, Interval, Rule, Tally
from fairchain.statistics.rules import BatchPlan
from fairchain.statistics.strata import StrataRule
from fairchain.statistics.tally import count_together
from fairchain.verification.answers import Answer
from fairchain.verification.boxes import MOST_MEMBERS, BoxSpace, Floats, WeightedChoice, box_space
from fairchain.verification.partition import FEW_POINTS, LabelledBoxes, Partition, label_bounds
from fairchain.verification.progress import Progress, Report
from fairchain.verification.record import FreeRegion
from fairchain.verification.sampler import Sampler, labels_in
from fairchain.verification.sampling import bets_of, betting_rule, sample_rounds
from fairchain.verification.verdict import BoundsRecord
from fairchain.verification.witnesses import WITNESSES, changed_points

# Boxes that are halved at a time, at least, and the part of all work so far that one step takes.
LEAST_BOXES, STEP_SHARE = 64, 0.1
# An answer by sampling ends the run unless a proof is forecast to need at most so many boxes in all, one for each
# member. Before so many boxes are bounded, a forecast means nothing.
MOST_PROOF_BOXES, FIRST_FORECAST_BOXES = 2**16, 2**9
# A new stratum begins when the open probability, times the cost of a round, has fallen to this part of the last one's.
NEW_STRATUM = 0.9
# Forecast of the boxes after which half of all inputs are settled: so many for each subgroup, times `CUTS` for each
# free feature, or the number of its values; about the median of 96 networks with 1 to 4 real inputs. With more than
# `MOST_FEATURES` nothing is forecast: they are too many.
FIRST_BOXES, CUTS, MOST_FEATURES = 1.5, 6, 8
# A run begins with boxes if they are forecast to cost at most `SOON` evaluations, about 30 ms. It goes on with them
# until a round in the open ones tells as much as `WORTH_IT` plain ones for its cost, or for three times that cost.
SOON, WORTH_IT = 500_000, 2.25
# Any other run is a plain one until `USEFUL_BOXES` cost the part `EXPLORED` of it. After the beginning, halving may set
# a run back by this part of what plain sampling would know for its cost.
USEFUL_BOXES, EXPLORED = 1000, 0.0025
# Measured costs in plain evaluations of the network, about the largest of ten networks: of a box, for each evaluation
# that its multiplications would make, and besides; of a step; of reading the network and the population; and of drawing
# a round in open boxes, for each axis, besides its evaluations.
OVERHEAD, PER_BOX, PER_STEP, SET_UP, PER_AXIS = 15, 220, 20_000, 20_000, 0.15
# Seconds after which a plain run looks whether boxes can answer the question at all, unless it is known by then.
REFUSED_AFTER = 2.0
REPORT_EVERY = 0.2
# Rounds of a chunk, and substreams of the choice of a box and of a member of a mean.
STRATA_CHUNK = 8192
BOX_SUBSTREAM, MEMBER_SUBSTREAM = 2**61, 2**61 + 1


@dataclass(frozen=True)
class BoundingEngine:
    """Narrow certain bounds by branch and bound; sample what is open; stop when either decides.

    Without `sampling` no rounds are drawn, and every answer is certain. `seconds` replaces the spec's budget.
    """

    sampling: bool = True
    seconds: float | None = None

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

    It raises a ModelError if the model is no ONNX network of features.
    """

    def __init__(self, case: Case, workers: Workers | None = None, *, sampling: bool = True) -> None:
        comparison, spec = case.comparison, case.spec
        self.case, model = case, features_network(case.model)
        self._apply = map if workers is None or workers.pool is None else workers.pool.map
        self._partition: Partition | None = None
        self._sampler = Sampler(model, case.population, case.seed.value, comparison, workers=workers)
        self._halted: Halted = lambda _seconds: False
        self._plain = betting_rule(comparison, float(limit_of(spec)), spec.guarantee.delta)
        # An accuracy is reached by certain bounds or not at all.
        self._sampling = sampling and spec.guarantee.epsilon is None
        self.rounds = self.evaluations = 0
        self.witnesses: list[Any] = []
        self._labels: set[int] = set()
        self._chunk = 0
        self._sampled: LabelledBoxes | None = None
        # Evaluations that bounding one box costs, at least until the network is read, and what each kind of work has
        # cost so far.
        self._cost = float(OVERHEAD + PER_BOX)
        self._halving_cost, self._sampling_cost = 0.0, 1.0
        # Evaluations of a plain run before boxes are worth a look.
        self._plain_until = (SET_UP + USEFUL_BOXES * self._cost) / EXPLORED
        self._refused_after = REFUSED_AFTER
        # Whether the run is at its beginning, and begins with boxes.
        self._beginning = False
        # Evaluations of a plain run that would tell as much as the rounds so far.
        self.worth = 1.0
        self._gain = math.inf
        # The halving cost and the open probability after each step of late.
        self._course = deque([(0.0, 1.0)])

    @cached_property
    def rule(self) -> StrataRule:
        """The rule. A plain run needs it only at its end."""
        comparison, spec = self.case.comparison, self.case.spec
        payoff, compared = bets_of(comparison)
        groups, outcomes = len(comparison.counted), len(comparison.rows)
        limit, delta = limit_of(spec), spec.guarantee.delta
        return StrataRule(groups, outcomes, limit, delta, compared, payoff=payoff, plain=self._plain)

    @property
    def partition(self) -> Partition:
        """The boxes. The network and the population are read when they are first needed, since that takes a while.

        It raises a SpecError or a ModelError if the question or the network is not one that boxes can answer.
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
    def boxes(self) -> int:
        """Boxes bounded so far, one for each member."""
        return 0 if self._partition is None else self._partition.boxes

    @property
    def _begun(self) -> bool:
        return self._partition is not None and self._partition.begun

    def begins_with_boxes(self) -> bool:
        """Return whether boxes are forecast to pay soon. Where they are not, mostly the spec alone says so."""
        boxes = first_boxes(self.case, SOON / self._cost)
        if boxes * self._cost <= SOON:
            _ = self.partition
        return boxes * self._cost <= SOON

    # -- The loop ----------------------------------------------------------------------------------------------------

    def go(self, deadline: float, cancel: Event, progress: Report | None) -> str:
        """Work until the question is decided or the budget is spent; return why it ended."""
        spec, most = self.case.spec, int(self.case.spec.guarantee.budget.rounds)
        reported = start = time.perf_counter()
        self._beginning = self._sampling and self.begins_with_boxes()
        if self._sampling and not self._beginning:
            stopped = self._sample_plainly(start, deadline, cancel, progress)
            if stopped in ("interrupted", "seconds"):
                return stopped
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
            if not self.explore(left) and not self.sample(left):
                if self._gain > 0:
                    self._gain = 0.0
                    continue
                return "boxes"
            if progress is not None and now - reported > REPORT_EVERY:
                reported = now
                gap = Interval(*in_own_unit(spec, self.rule.gap()))
                progress(Progress(self.rule.rounds, self._all_evaluations, now - start, gap))
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

    def _sample_plainly(self, start: float, deadline: float, cancel: Event, progress: Report | None) -> str:
        """Sample as a plain run does, in the same loop, as long as boxes are not worth a look; return why it ended."""
        case, groups = self.case, len(self.case.comparison.counted)
        entries, stopped = sample_rounds(
            self._plain, self._sampler, self._sampler.run, case, start, deadline, cancel, progress, self.leaves
        )
        for plan, batch in entries:
            self.rounds += batch.rounds
            self.evaluations += batch.rounds * len(case.comparison.evaluated(plan.groups))
            self._chunk += batch.chunks
            self._labels.update(batch.labels)
        self._sampling_cost += self.evaluations
        self.worth += self.evaluations
        self.rule.take_over(
            (plan, Tally.of_batch(batch.rounds, batch.together, plan.groups, groups)) for plan, batch in entries
        )
        return stopped

    def leaves(self, _rule: Rule, evaluations: int, seconds: float) -> bool:
        """Return whether a plain run has come so far that boxes are worth a look."""
        if seconds > self._refused_after:
            self._refused_after = math.inf
            comparison = self.case.comparison
            groups = [subgroup.group for subgroup in comparison.subgroups if subgroup.group is not None]
            several = comparison.individual and any(domain.size != 1 for each in groups for domain in each.domains)
            # A look of microseconds; the partition raises an error if boxes do not support the question.
            if several or not has_known_operators(features_network(self.case.model)):
                _ = self.partition
        if evaluations < self._plain_until:
            return False
        # Only now can be said what a box costs.
        _ = self.partition
        self._plain_until = (SET_UP + USEFUL_BOXES * self._cost) / EXPLORED
        return evaluations >= self._plain_until

    def explore(self, left: int) -> bool:
        """Halve boxes if that pays, with so many rounds left; return whether it was done."""
        return self._wants_halving(left) and self.halve()

    def _wants_halving(self, left: int) -> bool:
        """Return whether halving boxes is forecast to narrow the interval more than sampling, for the same cost.

        The squared width of the interval is about proportional to the open probability, and to one over the rounds. A
        run may be stopped at any time, so after its beginning halving is an investment that is limited by what the
        rounds so far are worth more than as many plain ones.
        """
        if self.rule.decision is not Decision.UNDECIDED or not self._sampling or left <= 0:
            return True
        if self._beginning:
            groups = len(self.case.comparison.subgroups)
            worth = groups / (groups + self._draw_cost) / max(self.partition.open_mass, 1e-300)
            self._beginning = worth < WORTH_IT and self._halving_cost < 3 * SOON
            return self._beginning
        # The rounds so far must be worth nearly as much as plain ones for the whole cost with a step.
        if self.worth < (1 - EXPLORED) * (self.cost + self._step_cost):
            return False
        explored = self._halving_cost + self._step_cost <= EXPLORED * self._sampling_cost
        return explored or self._gain * self._sampling_cost >= 1

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
        """What the next step costs, at most: both halves of every box, as each member; the first has one box."""
        members = len(self.space.weights[0])
        if not self._begun:
            return SET_UP + PER_STEP + members * self._cost
        return PER_STEP + 2.0 * min(self._step, len(self.partition.open)) * members * self._cost

    @property
    def _draw_cost(self) -> float:
        """What a round in open boxes costs more than one among all inputs."""
        return PER_AXIS * len(self.space.axes)

    def halve(self) -> bool:
        """Halve some open boxes; return whether there were any."""
        bounded, fixed = self.partition.boxes, PER_STEP if self._begun else SET_UP + PER_STEP
        if not self.partition.refine(self._step):
            self._gain = 0.0
            return False
        self._halving_cost += fixed + (self.partition.boxes - bounded) * self._cost
        spent, now = self._halving_cost, max(self.partition.open_mass, 1e-300)
        self._course.append((spent, now))
        # By how much, for its cost, the logarithm of the open probability fell while the last half was spent: single
        # steps tell little, since boxes of one size are settled together.
        while len(self._course) > 2 and self._course[1][0] <= spent / 2:
            self._course.popleft()
        earlier, before = self._course[0]
        self._gain = max(math.log(before / now), EXPLORED) / (spent - earlier)
        self.rule.bound(*self.partition.rate_bounds())
        whole = self.case.comparison.individual or self.case.spec.guarantee.epsilon is not None
        if not whole and self.rule.decision is Decision.UNDECIDED:
            # What no open pair needs is put aside.
            waiting = ~self.rule.cleared
            matter = waiting.any(axis=(0, 1)) | waiting.any(axis=(0, 2))
            self.partition.restrict(np.asarray(self.space.weights[matter].any(axis=0)))
        return True

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
            rounds, together, cost = batch.rounds, batch.together, float(len(subgroups))
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
    def _all_evaluations(self) -> int:
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
        counted = self.rule.rounds, partition.boxes, len(partition.open), mass
        record = BoundsRecord(self.case.seed, *counted, tuple(sorted(seen)), self._free_regions())
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
            evaluations=self._all_evaluations,
            tried=self._all_evaluations,
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


def first_boxes(case: Case, most: float = math.inf) -> float:
    """Forecast how many boxes, one for each subgroup, are bounded before drawing in the open ones pays.

    It takes microseconds: only the spec is read, and only until more than `most` are certain, which is infinity.
    """
    features, protected = case.spec.features, case.spec.protected
    if len(features) - len(protected) > MOST_FEATURES:
        return math.inf
    each = boxes = len(case.comparison.subgroups) * FIRST_BOXES
    inputs = 2 * len(case.comparison.subgroups) / FEW_POINTS
    for feature in features:
        if isinstance(feature, RealFeature):
            size = math.inf
        else:
            size = len(feature.values) if isinstance(feature, CategoryFeature) else feature.high - feature.low + 1
        if size > MOST_MEMBERS if feature.name in protected else feature.model_input:
            each *= min(CUTS, size)
            inputs *= size
            # A finite box with few inputs is evaluated.
            boxes = min(each, inputs)
            if boxes > most:
                return math.inf
    return boxes


def _reals(address: Address, count: int, substream: int) -> Floats:
    words = address.halfwords(2 * count, substream)
    return unit_reals(words[:count], words[count:])
