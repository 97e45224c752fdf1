"""Counts of rounds, chunk by chunk: unchanged decisions, decisions with each unit intervened on, and states.

The inputs of a chunk depend only on its number, and counts are additive, so the number of workers affects only time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from fairchain.explaining.context import INPUTS, ComparedPair, EffectContext
from fairchain.explaining.units import Target
from fairchain.models.inspect.cut import Cut
from fairchain.statistics import count_together

Counts = NDArray[np.int64]
Values = NDArray[np.floating]
# Function from inputs to their labels, and the activations of hidden layers by the name of the tensor.
Evaluate = Callable[[Values], tuple[NDArray[np.integer], dict[str, Values]]]
# The values of inputs in each tensor, (rows, ...); None for the inputs themselves.
Layers = dict[str | None, Values]
# With more groups than this, states are counted for each group instead of each pair.
MOST_PAIRED = 40
# Differences and sums of two rounds' values: -2, -1, 0, 1, 2.
PAIR_VALUES = np.arange(-2, 3)


@dataclass(frozen=True, eq=False)
class EffectCounts:
    """Counts of some rounds; counts of different rounds are additive.

    Parameters
    ----------
    rounds, evaluations
        Rounds, and rows that were evaluated by the network or a part of it.
    together
        (outcomes, groups, groups): rounds in which two groups both had the outcome.
    now
        (3,): rounds in which the unchanged value of the gap was -1, 0 and 1.
    minus, plus
        (units, 5): rounds in which the unchanged value of the gap, minus or plus the one under intervention, was -2 to
        2.
    changed
        (units,): decisions about inputs of the pair that the intervention changes.
    shift, shift_rounds
        (units, outcomes, groups): the increase of each group's count of each outcome under intervention, and the number
        of rounds in which it was counted.
    states
        (states, groups, groups), for all units in order: rounds in which two groups were both in the state; with many
        groups, only the diagonal.
    joint
        (states, groups): rounds in which a group was in the state and had the label.
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

    def __add__(self, other: EffectCounts) -> EffectCounts:
        return EffectCounts(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


class EffectCounter:
    """Counter of rounds by chunk, for some units and one pair of groups."""

    def __init__(
        self, context: EffectContext, pair: ComparedPair, targets: Sequence[Target], evaluate: Evaluate
    ) -> None:
        self._context, self._pair, self._targets, self._evaluate = context, pair, targets, evaluate
        self._resampled = any(target.method == "resample" for target in targets)
        few = next(context.inputs(INPUTS, 3)).copy()
        tensors = dict.fromkeys(target.tensor for target in targets if target.tensor is not None)
        network = context.network
        self._cuts = {tensor: Cut(network, tensor, few) for tensor in tensors} if network is not None else {}

    def count(self, unit: tuple[int, int, bool]) -> EffectCounts:
        """Count one chunk: its number, its rounds, and whether to intervene on all groups or only on the pair."""
        chunk, count, all_groups = unit
        context, pair, targets = self._context, self._pair, self._targets
        groups, compared = len(context.groups), [pair.more, pair.less]
        active = list(range(groups)) if all_groups else compared
        labels = np.empty((groups, count), np.uint16)
        # One byte each if that is enough: there may be thousands of units.
        states = [np.empty((groups, count), np.min_scalar_type(target.states)) for target in targets]
        kept: dict[int, Layers] = {}
        for group, inputs in enumerate(context.inputs(INPUTS + chunk, count)):
            labels[group], hidden = self._evaluate(inputs)
            for state, target in zip(states, targets, strict=True):
                state[group] = target.state(inputs, hidden)
            if group in active:
                kept[group] = {None: inputs.copy()} | hidden
        layers = {name: np.concatenate([kept[group][name] for group in active]) for name in kept[pair.more]}
        evaluations, donors = groups * count, Layers()
        if self._resampled:
            drawn = context.donors(chunk, count)
            donors = {None: drawn} | self._evaluate(drawn)[1]
            evaluations += count
        now, before = pair.values(labels[compared]), self._outcomes(labels)
        minus, plus, changed, shift = [], [], [], []
        for target in targets:
            # In a round the unit has the same value for all groups: its typical one, or that of the donor.
            given = np.full(count, target.hold)
            if target.method == "resample":
                given = donors[target.tensor][:, target.column]
            after = labels[active]
            evaluations += self._intervene(target, layers, np.tile(given, len(active)), after.reshape(-1))
            of_pair = after[[active.index(group) for group in compared]]
            value = pair.values(of_pair)
            minus.append(_histogram(now - value, 2))
            plus.append(_histogram(now + value, 2))
            changed.append(np.count_nonzero(of_pair != labels[compared]))
            shift.append(self._outcomes(after) - before if all_groups else np.zeros_like(before))
        return EffectCounts(
            rounds=count,
            evaluations=evaluations,
            together=count_together(labels, context.outcomes),
            now=_histogram(now, 1),
            minus=np.array(minus, np.int64),
            plus=np.array(plus, np.int64),
            changed=np.array(changed, np.int64),
            shift=np.array(shift, np.int64),
            shift_rounds=count if all_groups else 0,
            states=np.concatenate(
                [np.empty((0, groups, groups), np.int64), *map(_states, states, (target.states for target in targets))]
            ),
            joint=np.array(
                [
                    np.count_nonzero((state == number) & (labels == pair.label), axis=1)
                    for state, target in zip(states, targets, strict=True)
                    for number in range(target.states)
                ],
                np.int64,
            ),
        )

    def _intervene(self, target: Target, layers: Layers, given: Values, labels: NDArray[np.integer]) -> int:
        """Set a unit to the given values and write the new labels, (rows,); return the number of rows evaluated."""
        layer = layers[target.tensor]
        wanted = given.astype(layer.dtype)
        # Rows that already have the value do not change.
        rows = np.flatnonzero(layer[:, target.column] != wanted)
        if target.tensor is not None and not self._cuts[target.tensor].reaches:
            rows = rows[:0]
        if len(rows):
            changed = layer[rows]
            changed[:, target.column] = wanted[rows]
            if target.tensor is None:
                labels[rows] = self._context.model.predict(changed)
            else:
                labels[rows] = self._cuts[target.tensor].predict(changed, layers[None][rows])
        return len(rows)

    def _outcomes(self, labels: NDArray[np.integer]) -> Counts:
        """Return (outcomes, groups): the number of inputs of each group with each outcome."""
        return np.array([np.count_nonzero(labels == each, axis=1) for each in self._context.outcomes], np.int64)


def _states(states: NDArray[np.integer], number: int) -> Counts:
    """Return (states, groups, groups): the rounds with two groups in a state, from states of (groups, rounds)."""
    if len(states) <= MOST_PAIRED:
        return count_together(states, range(number))
    own = np.stack([np.count_nonzero(states == state, axis=1) for state in range(number)])
    return (own[:, :, None] * np.eye(len(states), dtype=np.int64)).astype(np.int64)


def _histogram(values: NDArray[np.int8], most: int) -> Counts:
    """Return the counts of the numbers from -most to most."""
    return np.bincount(values.astype(np.intp) + most, minlength=2 * most + 1).astype(np.int64)
