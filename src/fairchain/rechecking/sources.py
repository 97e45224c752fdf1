"""What a certificate's question is about, made anew from the spec inside and the files that a checker has.

The comparison, the population and the rows come from the same rooms as in a verification: they define the question.
What is concluded from the counts is computed by this room's own arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairchain.populations import build_population
from fairchain.populations.build import large_enough
from fairchain.spec import Comparison, Individual, Ratio, Spec, comparison_of
from fairchain.spec.conditions import predicate_of


@dataclass(frozen=True)
class Sources:
    """A question that was answered by drawing people."""

    spec: Spec
    comparison: Comparison
    population: Any
    left_out: tuple[tuple[str, float], ...]

    @property
    def kind(self) -> str:
        """difference, ratio or individual."""
        return kind_of(self.spec)

    @property
    def outcomes(self) -> Sequence[str]:
        """What each table of the tally counts, in words."""
        return outcome_words(self.spec, self.comparison)

    def evaluations(self, rounds: int, trials: ArrayLike) -> int:
        """How often the network was asked: each round as every group, or each group as often as it was tried."""
        return rounds * len(self.comparison.subgroups) if self.comparison.individual else int(np.sum(trials))


def sources_of(spec: Spec, people: Any, dtype: Any) -> Sources:
    """Everything about the question that can be made without the counts."""
    groups, left_out = large_enough(spec, people)
    comparison = comparison_of(spec, groups)
    population = build_population(spec, comparison.subgroups, dtype, people=people, predicate=predicate_of(spec))
    return Sources(spec, comparison, population, left_out)


def fair_limit(spec: Spec) -> Fraction:
    """The largest fair gap, decimals exact: the threshold, or for a ratio what may be missing to 1."""
    threshold = Fraction(repr(spec.property.threshold))
    return 1 - threshold if isinstance(spec.property, Ratio) else threshold


def kind_of(spec: Spec) -> str:
    """difference, ratio or individual."""
    if isinstance(spec.property, Individual):
        return "individual"
    return "ratio" if isinstance(spec.property, Ratio) else "difference"


def outcome_words(spec: Spec, comparison: Comparison) -> Sequence[str]:
    """What each table of the tally counts, in words."""
    if comparison.individual:
        label = spec.property.outcome
        return ["changes" if label is None else f"{label} changes"]
    return [spec.model.labels[place] for place in comparison.outcomes]
