"""What `learn_chain` needs for states over time: which unit they are of, its discretiser, and counts chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.build import ChainPlan
from fairchain.chain.chain import Chain
from fairchain.chain.context import FRESH, PILOT, PILOT_CHUNK, ChainContext
from fairchain.chain.fidelity import fidelity_over_time
from fairchain.chain.over_time.probes import LastSteps, inside_of, recurrent_layers
from fairchain.chain.over_time.time_chain import TimePlan, View, blocks_of, build_over_time, layout_of
from fairchain.chain.over_time.time_counts import Passages, TimeCounts, TimeShape, check_lengths, count_passed
from fairchain.chain.state_units import StateUnit, fit_units
from fairchain.chain.stopping import ROUNDS, LearningEffort, needed_by_paper
from fairchain.chain.trace_counter import TraceCounter
from fairchain.errors import ChainError

VIEWS = (*get_args(View), "last")
# Texts of each group in a pilot, at least; all of their steps count in it.
FEWEST = 16


@dataclass(frozen=True)
class TimeUnits:
    """A unit whose states follow each other, those behind it, and how many steps there may be."""

    timed: StateUnit
    after: tuple[StateUnit, ...]
    steps: int
    varied: bool

    def shape(self, classes: int) -> TimeShape:
        """What the traces may be, with so many labels."""
        after = (*(len(unit.discretizer.names) for unit in self.after), classes)
        return TimeShape(self.steps, len(self.timed.discretizer.names), after, self.varied)

    def plan(self, plan: ChainPlan, view: View) -> TimePlan:
        """The plan of a chain of these units, given what it has in common with other chains."""
        columns = tuple(unit.discretizer for unit in (self.timed, *self.after))
        return TimePlan(replace(plan, columns=columns), self.shape(len(plan.labels)), self.timed.request.name, view)


def is_over_time(subject: ChainContext, view: str | None) -> bool:
    """Whether a subject's states make a chain over time; a ChainError if they cannot make what was asked for."""
    if view is not None and view not in VIEWS:
        raise ChainError(f'there is no view "{view}"; there is {", ".join(VIEWS)}')
    recurrent = _recurrent(subject)
    if not recurrent and view is not None:
        known = sorted(recurrent_layers(subject.probe.model))
        there = f"name one of {', '.join(known)}" if known else "this network has no recurrent layer"
        raise ChainError(f"view: only states of a recurrent layer follow each other in time; {there}")
    if not recurrent or view == "last":
        return False
    timed = [request.text for request in subject.requests if request.tensor in recurrent]
    if len(timed) > 1:
        raise ChainError(
            f"{timed[0]} and {timed[1]}: a chain over time is of one recurrent unit; "
            'ask for one, for clusters of its whole layer, or for view = "last"'
        )
    if subject.requests[0].tensor not in recurrent:
        raise ChainError(
            f"{subject.requests[0].text}: comes before {timed[0]}, which begins with the first step; name units behind "
            'it after it, or ask for view = "last"'
        )
    return True


def _recurrent(subject: ChainContext) -> frozenset[str]:
    return subject.probe.recurrent if isinstance(subject.probe, LastSteps) else frozenset()


def learn_over_time(
    subject: ChainContext,
    plan: ChainPlan,
    view: View,
    effort: LearningEffort,
    pool: ThreadPoolExecutor | None,
    metadata: Mapping[str, Any],
) -> Chain:
    """The chain of a subject whose first state is over time; `plan` is what it has in common with other chains."""
    timed, *after = fit_over_time(subject)
    units = _units(subject, timed, after)
    made = units.plan(plan, view)
    subject = replace(subject, apart=plan.kind == "shared")
    counter = TimeCounter(subject, [units], pool, moments=view == "folded")
    counts, done = effort.spend(
        lambda first, rounds: counter.traces(first, rounds)[0],
        lambda counts, epsilon, rule: enough_over_time(counts, made, epsilon, rule),
    )
    chain = build_over_time(counts, made, {**metadata, "rounds": done})
    fresh = TimeCounter(subject, [units], pool, moments=False).traces(FRESH, done)[0]
    return _with_fidelity(chain, made, fresh)


def learn_family_over_time(
    subject: ChainContext, plan: ChainPlan, effort: LearningEffort, pool: ThreadPoolExecutor | None
) -> dict[str, Chain]:
    """A folded chain for every unit of a subject, all from the same inputs in one pass; all must be over time."""
    for request in subject.requests:
        if request.tensor not in _recurrent(subject):
            raise ChainError(f'{request.text}: has one state and none over time; ask for it without view = "folded"')
    units = [_units(subject, unit) for unit in fit_over_time(subject)]
    plans = [unit.plan(plan, "folded") for unit in units]
    subject = replace(subject, apart=plan.kind == "shared")
    rounds = effort.rounds or ROUNDS
    counts = TimeCounter(subject, units, pool, moments=True).traces(0, rounds)
    fresh = TimeCounter(subject, units, pool, moments=False).traces(FRESH, rounds)
    metadata = {**subject.metadata, "rounds": rounds}
    return {
        request.text: _with_fidelity(build_over_time(one, made, {**metadata, "states": [request.text]}), made, new)
        for request, made, one, new in zip(subject.requests, plans, counts, fresh, strict=True)
    }


def _with_fidelity(chain: Chain, plan: TimePlan, fresh: TimeCounts) -> Chain:
    return replace(
        chain, metadata={**chain.metadata, "fidelity": fidelity_over_time(chain, plan, fresh, plan.plan.delta)}
    )


def _units(subject: ChainContext, timed: StateUnit, after: Sequence[StateUnit] = ()) -> TimeUnits:
    probe = subject.probe
    assert isinstance(probe, LastSteps)
    # The network may take fewer steps for one row than for another if it is told how many.
    layers = recurrent_layers(probe.model)
    varied = any(layers[name].varied for name in probe.recurrent)
    return TimeUnits(timed, tuple(after), probe.most, varied)


def fit_over_time(subject: ChainContext) -> tuple[StateUnit, ...]:
    """Fit the discretisers on all steps of a pilot sample of all groups, which is not counted."""
    probe = subject.probe
    assert isinstance(probe, LastSteps)
    people = [shown.copy() for _, shown in subject.people(PILOT_CHUNK, max(PILOT // probe.most, FEWEST))]
    parts = [probe.steps(each) for each in people]
    hidden = {name: np.concatenate([part.layers[name] for part in parts]) for name in parts[0].layers}
    for name in parts[0].states:
        hidden[name] = np.concatenate([part.states[name][inside_of(part)] for part in parts])
    return fit_units(subject.requests, subject.spec, np.concatenate(people), hidden, probe.widths)


class TimeCounter(TraceCounter):
    """Counts the traces of a subject over time; several chains from the same inputs."""

    def __init__(
        self, subject: ChainContext, chains: Sequence[TimeUnits], pool: ThreadPoolExecutor | None, *, moments: bool
    ) -> None:
        super().__init__(subject, (), pool)
        self._chains, self._moments = tuple(chains), moments
        self._shapes = tuple(chain.shape(len(subject.spec.model.labels)) for chain in self._chains)

    def traces(self, first: int, rounds: int) -> tuple[TimeCounts, ...]:
        """Counts for each chain, from chunk `first` on."""
        return _sums(self._each_chunk(self._traces, first, rounds))

    def _traces(self, chunk: int, count: int) -> tuple[TimeCounts, ...]:
        groups = [_sums(self._parts(people)) for _, people in self._subject.people(chunk, count)]
        return tuple(TimeCounts.of_groups(each) for each in zip(*groups, strict=True))

    def _parts(self, people: NDArray[np.floating]) -> Iterator[tuple[TimeCounts, ...]]:
        probe = self._subject.probe
        assert isinstance(probe, LastSteps)
        for part in probe.parts(people):
            yield self._counted(probe, part)

    def _counted(self, probe: LastSteps, people: NDArray[np.floating]) -> tuple[TimeCounts, ...]:
        shown = probe.steps(people)
        inside = inside_of(shown)
        numbers = {name: states[inside] for name, states in shown.states.items()}
        check_lengths(shown.lengths, self._shapes[0])
        passages = Passages.of(shown.lengths)
        found = []
        for chain, shape in zip(self._chains, self._shapes, strict=True):
            states = chain.timed.states(people, numbers)
            after = [*(unit.states(people, shown.layers) for unit in chain.after), shown.labels.astype(np.int64)]
            found.append(count_passed(states, passages, after, shape, moments=self._moments))
        return tuple(found)


def _sums(parts: Iterable[tuple[TimeCounts, ...]]) -> tuple[TimeCounts, ...]:
    """Added up one after the other, so that only one is held."""
    return reduce(lambda total, part: tuple(map(add, total, part)), parts)


def enough_over_time(counts: TimeCounts, plan: TimePlan, epsilon: float, rule: str) -> bool:
    """Whether every state that was ever seen has been seen often enough, as `stopping.enough` for other chains."""
    layout = layout_of(plan)
    blocks = blocks_of(counts, plan, layout)
    if rule == "paper":
        needed = needed_by_paper(len(layout.names), epsilon, plan.plan.delta)
        visits = np.concatenate([block.taken.sum(axis=1) for block in blocks])
        return bool(visits[visits > 0].min() >= needed)
    level = plan.plan.delta / sum(block.taken.size for block in blocks)
    for block in blocks:
        visits = block.taken.sum(axis=1, keepdims=True)
        low, high = block.bounds(level, plan.plan)
        rate = block.taken / np.maximum(visits, 1)
        off = np.maximum(rate - low, high - rate)[visits[:, 0] > 0]
        if off.size and off.max() > epsilon:
            return False
    return True
