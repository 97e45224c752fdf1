"""Rounds counted, chunk by chunk: decisions as they are, decisions with each unit intervened on, and the states.

A chunk's people depend on its number alone, and counts add, so the number of workers changes nothing but time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from fairchain.explaining.context import PEOPLE, ComparedPair, EffectContext
from fairchain.explaining.units import Target
from fairchain.models.inspect.activations import Probe
from fairchain.models.inspect.cut import Cut
from fairchain.statistics import count_together

Counts = NDArray[np.int64]
Values = NDArray[np.floating]
# With more groups than this, states are counted for each group and not for each pair.
MOST_PAIRED = 40
# Differences and sums of two rounds' values: -2, -1, 0, 1, 2.
STEPS = np.arange(-2, 3)


@dataclass(frozen=True, eq=False)
class Look:
    """What was counted; looks add.

    Parameters
    ----------
    rounds, evaluations
        Rounds, and rows that went through the network or a part of it.
    together
        (outcomes, groups, groups): rounds in which two groups both got the outcome.
    now
        (3,): rounds in which the gap's value as it is was -1, 0 and 1.
    minus, plus
        (units, 5): rounds in which the gap's value as it is, minus or plus the one under intervention, was -2 to 2.
    changed
        (units,): decisions about people of the pair that the intervention changes.
    shift, shift_rounds
        (units, outcomes, groups): how much more often each group got each outcome under intervention, and in how many
        rounds that was looked at.
    states
        (states, groups, groups), of all units one after another: rounds in which two groups were both in the state;
        where there are many groups, the diagonal only.
    joint
        (states, groups): rounds in which a group was in the state and got the label.
    """

    rounds: int
    evaluations: int
    together: Counts
    now: Counts
    minus: Counts
    plus: Counts
    changed: Counts
    shift: Counts
    shift_rounds: int
    states: Counts
    joint: Counts

    def __add__(self, other: Look) -> Look:
        return Look(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


@dataclass(frozen=True, eq=False)
class _Asked:
    """People of some groups, stacked, with what the network decides about them and what it has inside."""

    people: Values
    labels: NDArray[np.integer]
    hidden: Mapping[str, Values]


class EffectCounter:
    """Counts chunks of rounds for some units and one question."""

    def __init__(self, case: EffectContext, question: ComparedPair, targets: Sequence[Target], probe: Probe) -> None:
        self._case, self._question, self._targets, self._probe = case, question, targets, probe
        self._resampled = any(target.method == "resample" for target in targets)
        few = next(case.people(PEOPLE, 3)).copy()
        tensors = dict.fromkeys(target.tensor for target in targets if target.tensor is not None)
        self._cuts = {tensor: Cut(case.model, tensor, few) for tensor in tensors}

    def look(self, chunk: int, count: int, everybody: bool) -> Look:
        """Count one chunk; `everybody` says whether all groups are intervened on, or only the two of the question."""
        case, question = self._case, self._question
        groups = range(len(case.groups))
        pair = [question.more, question.less]
        active = list(groups) if everybody else pair
        labels = np.empty((len(groups), count), np.uint16)
        # One byte for each where that is enough: there may be thousands of units.
        states = [np.empty((len(groups), count), np.min_scalar_type(target.states)) for target in self._targets]
        kept: dict[int, _Asked] = {}
        for group, people in enumerate(case.people(PEOPLE + chunk, count)):
            labels[group], hidden = self._probe(people)
            for state, target in zip(states, self._targets, strict=True):
                state[group] = target.state(people, hidden)
            if group in active:
                kept[group] = _Asked(people.copy(), labels[group], hidden)
        donors = self._donors(chunk, count) if self._resampled else None
        asked = _stacked([kept[group] for group in active])
        now = question.values(labels[pair])
        minus, plus, changed, shift = [], [], [], []
        before = _outcomes(labels, case)
        evaluations = len(groups) * count + (count if donors is not None else 0)
        for target in self._targets:
            then, rows = self._intervened(target, asked, donors, len(active), count)
            evaluations += rows
            of_pair = then[[active.index(group) for group in pair]]
            value = question.values(of_pair)
            minus.append(_counted(now - value, 2))
            plus.append(_counted(now + value, 2))
            changed.append(np.count_nonzero(of_pair != labels[pair]))
            if everybody:
                shift.append(_outcomes(then, case) - before)
        shape = (len(self._targets), len(case.outcomes), len(groups))
        return Look(
            rounds=count,
            evaluations=evaluations,
            together=count_together(labels, case.outcomes),
            now=_counted(now, 1),
            minus=np.array(minus, np.int64),
            plus=np.array(plus, np.int64),
            changed=np.array(changed, np.int64),
            shift=np.array(shift, np.int64) if everybody else np.zeros(shape, np.int64),
            shift_rounds=count if everybody else 0,
            states=np.concatenate([self._states(s, t) for s, t in zip(states, self._targets, strict=True)]),
            joint=_joint(states, self._targets, labels == question.label),
        )

    def _donors(self, chunk: int, count: int) -> _Asked:
        people = self._case.donors(chunk, count)
        labels, hidden = self._probe(people)
        return _Asked(people, labels, hidden)

    def _intervened(
        self, target: Target, asked: _Asked, donors: _Asked | None, groups: int, count: int
    ) -> tuple[NDArray[np.integer], int]:
        """(groups, rounds): labels with the unit intervened on, and how many rows had to be asked again."""
        given = self._given(target, donors, count)
        layer = asked.people if target.tensor is None else asked.hidden[target.tensor]
        wanted = np.tile(given, groups).astype(layer.dtype)
        labels = asked.labels.copy()
        # Nothing changes for those who have the value already.
        rows = np.flatnonzero(layer[:, target.column] != wanted)
        if target.tensor is not None and not self._cuts[target.tensor].reaches:
            rows = rows[:0]
        if len(rows):
            changed = layer[rows]
            changed[:, target.column] = wanted[rows]
            if target.tensor is None:
                labels[rows] = self._case.model.predict(changed)
            else:
                labels[rows] = self._cuts[target.tensor].predict(changed, asked.people[rows])
        return labels.reshape(groups, count), len(rows)

    def _given(self, target: Target, donors: _Asked | None, count: int) -> Values:
        """What the unit gets in each round, the same for all groups: its typical value, or somebody else's."""
        if target.method == "mean" or donors is None:
            return np.full(count, target.hold)
        layer = donors.people if target.tensor is None else donors.hidden[target.tensor]
        return layer[:, target.column]

    def _states(self, states: NDArray[np.integer], target: Target) -> Counts:
        """(states, groups, groups): how often two groups are both in a state."""
        if len(states) <= MOST_PAIRED:
            return count_together(states, range(target.states))
        own = np.stack([np.count_nonzero(states == state, axis=1) for state in range(target.states)])
        return (own[:, :, None] * np.eye(len(states), dtype=np.int64)).astype(np.int64)


def _stacked(parts: Sequence[_Asked]) -> _Asked:
    """The people of several groups one after another."""
    return _Asked(
        np.concatenate([part.people for part in parts]),
        np.concatenate([part.labels for part in parts]),
        {name: np.concatenate([part.hidden[name] for part in parts]) for name in parts[0].hidden},
    )


def _outcomes(labels: NDArray[np.integer], case: EffectContext) -> Counts:
    """(outcomes, groups): how often each group gets each outcome."""
    return np.array([np.count_nonzero(labels == outcome, axis=1) for outcome in case.outcomes], np.int64)


def _counted(values: NDArray[np.int8], most: int) -> Counts:
    """How often each number from -most to most occurs."""
    return np.bincount(values.astype(np.intp) + most, minlength=2 * most + 1).astype(np.int64)


def _joint(states: Sequence[NDArray[np.integer]], targets: Sequence[Target], got: NDArray[np.bool_]) -> Counts:
    """(states, groups): how often a group is in a state and gets the label."""
    rows = [
        np.count_nonzero((state == number) & got, axis=1)
        for state, target in zip(states, targets, strict=True)
        for number in range(target.states)
    ]
    return np.array(rows, np.int64)
