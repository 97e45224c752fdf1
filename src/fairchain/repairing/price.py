"""What a repair costs, measured on inputs that the search never saw (docs/repair.md, "The price")."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.models import Model
from fairchain.models.edit.candidates import ROWS_PER_CALL
from fairchain.prepare import Case
from fairchain.repairing.evaluation import DrawnInputs, Labels, inputs_of, usual_share
from fairchain.repairing.result import Price
from fairchain.repairing.seeds import PRICE, derived_seed
from fairchain.statistics import Interval
from fairchain.statistics.intervals import clopper_pearson

# Rounds on which agreement with the original network is measured.
ROUNDS = 20_000


def accuracy_price(old: Labels, new: Labels, truth: Labels, delta: float) -> Price:
    """The change of accuracy, from what both networks decide about rows of the source of those searched on.

    Rows that became right and rows that became wrong are counted apart, each count with exact bounds at delta/2, so
    that what both networks get right costs no precision.
    """
    before, after = (labels == truth for labels in (old, new))
    gained, lost, count = int((after & ~before).sum()), int((before & ~after).sum()), len(truth)
    (low_gain, low_loss), (high_gain, high_loss) = clopper_pearson([gained, lost], count, delta / 2)
    change = Interval((gained - lost) / count, float(low_gain - high_loss), float(high_gain - low_loss))
    on = f"{count:,} held-out rows"
    right = float(before.mean()), float(after.mean())
    return Price("accuracy", on, count, *right, change, delta, gained, lost, usual_share(old), usual_share(new))


def agreement_price(old: Labels, new: Labels, delta: float, *, everybody: bool) -> Price:
    """The share of inputs that are decided otherwise, as a negative number; of everybody it is counted."""
    count, other = len(old), int((old != new).sum())
    if everybody:
        change, delta, on = Interval(-other / count, -other / count, -other / count), 0.0, f"all {count:,} rows"
    else:
        low, high = clopper_pearson(other, count, delta)
        change, on = Interval(-other / count, -float(high), -float(low)), f"{count:,} freshly drawn inputs"
    usual = usual_share(old), usual_share(new)
    return Price("agreement", on, count, 1.0, 1 - other / count, change, delta, 0, other, *usual)


def fresh_inputs(case: Case, seed: int) -> NDArray[Any]:
    """Inputs that no search has seen, to measure agreement on; of a table all rows."""
    inputs = inputs_of(case, derived_seed(seed, PRICE), 0, ROUNDS)
    return _one_subgroup(inputs, seed) if isinstance(inputs, DrawnInputs) else inputs.values


def _one_subgroup(inputs: DrawnInputs, seed: int) -> NDArray[Any]:
    """One subgroup of each round, by chance: the subgroups of a round are the same person, and would not be
    independent.
    """
    subgroups = len(inputs.comparison.subgroups)
    rounds = len(inputs.values) // subgroups
    random = np.random.Generator(np.random.Philox(derived_seed(seed, PRICE, 1)))
    return inputs.values.reshape(subgroups, rounds, -1)[random.integers(subgroups, size=rounds), np.arange(rounds)]


def predicted(model: Model, values: NDArray[Any]) -> NDArray[np.integer]:
    """The decisions of a network, some thousands at a time."""
    values = values.astype(model.dtype)
    parts = [model.predict(values[start : start + ROWS_PER_CALL]) for start in range(0, len(values), ROWS_PER_CALL)]
    return np.concatenate(parts) if parts else np.empty(0, np.uint16)
