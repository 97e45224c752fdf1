"""Whether guessed codes are borne out: a network that has learnt from categories does worse when they are shuffled.

The check is about all guessed codes together, not about each. If the guess were as good as any other order, it would
be the best of twenty with probability 1/20; the chance to pass is larger where many orders are nearly as good.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.drafting.draft_result import Guess
from fairchain.drafting.encoding_trial import (
    BETTER,
    EncodingTrial,
    ask_rows,
    balanced,
    confusion,
    load,
    some_rows,
    spec_of,
)
from fairchain.messages import shown
from fairchain.models import Limits
from fairchain.spec import CategoryFeature
from fairchain.spec.schema import Population

SHUFFLES = 19
# By how much agreement must fall on average for the codes to matter at all.
MATTERS = 0.01
MOST_ROWS = 5_000


def about_codes(model: Any, trial: EncodingTrial, population: Population, limits: Limits | None) -> Guess | None:
    """What the rows say about the guessed codes; loud if they do not speak for them. None if there are none."""
    guessed = {guess.key for guess in trial.layout.guesses}
    sizes = {
        place: len(feature.values)
        for place, feature in enumerate(trial.layout.features)
        if f"feature.{feature.name}" in guessed and isinstance(feature, CategoryFeature) and len(feature.values) > 1
    }
    if not sizes or model is None:
        return None
    whose = f"The order of the values of {_listed([trial.layout.features[place].name for place in sizes])} is a guess"
    remedy = "State the order in which the network was trained, or codes = [...], in each [[feature]]"
    if trial.truth is None:
        return Guess("feature", f"{whose} that nothing here can check. {remedy}, or name the label.", loud=True)
    rows = some_rows(len(trial.values), MOST_ROWS)
    loaded = load(model, spec_of(trial.layout, trial.reading, population), limits)
    labels = len(trial.reading.model.labels)

    def agreement(values: NDArray[np.float64]) -> float:
        assert trial.truth is not None
        return balanced(confusion(trial.truth[rows], ask_rows(loaded, values), labels))

    random = np.random.Generator(np.random.Philox(0))
    values = trial.values[rows]
    stated = agreement(values)
    others = [agreement(_shuffled(values, sizes, random)) for _ in range(SHUFFLES)]
    if max(others) <= stated + BETTER and np.mean(others) < stated - MATTERS:
        return Guess("feature", f"{whose}; none of {SHUFFLES} other orders agrees clearly better with the labels.")
    return Guess(
        "feature",
        f"{whose}, and probably a wrong one: other orders agree with the labels as well. {remedy}.",
        loud=True,
    )


def _shuffled(values: NDArray[np.float64], sizes: dict[int, int], random: np.random.Generator) -> NDArray[np.float64]:
    values = values.copy()
    for place, size in sizes.items():
        values[:, place] = random.permutation(size)[values[:, place].astype(np.intp)]
    return values


def _listed(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(shown(name) for name in names[:most]) + (", ..." if len(names) > most else "")
