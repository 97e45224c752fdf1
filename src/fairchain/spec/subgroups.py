"""The subgroups that a property compares, and the compared pairs.

A subgroup is a part of the population whose rate is counted: a group, the overall population, or, if the true label is
known, the members of a group with the same true label. A property becomes a `Comparison`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fairchain.spec.groups import Group, groups_of, reference_group
from fairchain.spec.property_keys import Individual, ProbabilityFormula, Ratio
from fairchain.spec.schema import Spec

Measure = Literal["difference", "ratio"]
OVERALL = "overall"
AVERAGE = "mean of the groups"
CHANGES, STAYS = "decision changes", "decision stays"


class Subgroup(Struct, frozen=True):
    """A part of the population: one group or, without one, all of it; optionally restricted to one true label.

    `mixed` is set for a mean over groups with equal weights.
    """

    name: str
    group: Group | None = None
    truth: int | None = None
    mixed: tuple[Group, ...] = ()


class Comparison(Struct, frozen=True, eq=False):
    """The comparisons that a verdict is about.

    Parameters
    ----------
    subgroups
        The subgroups whose inputs are shown to the network.
    outcomes
        The labels that are counted.
    compared
        (outcomes, subgroups, subgroups): the ordered pairs that are compared for each outcome.
    measure
        Whether rates are compared by their difference or by their ratio.
    individual
        Whether the same individual is compared as each subgroup. Then only changes of the decision are counted (or of
        the decision for the one outcome), against a second subgroup in which nothing changes.
    overlapping
        Whether two groups may share individuals, as those of a formula may.
    """

    subgroups: tuple[Subgroup, ...]
    outcomes: tuple[int, ...]
    compared: NDArray[np.bool_]
    measure: Measure = "difference"
    individual: bool = False
    overlapping: bool = False

    @property
    def counted(self) -> tuple[str, ...]:
        """Names of the subgroups of the tally: the subgroups themselves, or whether a decision changes."""
        return (CHANGES, STAYS) if self.individual else tuple(subgroup.name for subgroup in self.subgroups)

    @property
    def disjoint(self) -> bool:
        """Whether compared subgroups share no individual, so that they can be counted separately."""
        apart = not self.individual and not self.overlapping
        return apart and all(subgroup.group is not None for subgroup in self.subgroups)

    @property
    def overall(self) -> NDArray[np.bool_]:
        """(counted,): the subgroups that contain all rows, or all rows of a true label, and not those of a group."""
        if self.individual:
            return np.zeros(len(self.counted), bool)
        return np.array([subgroup.group is None and not subgroup.mixed for subgroup in self.subgroups])

    @property
    def rows(self) -> tuple[int, ...]:
        """The names of the tables of the tally: labels, or that a decision changes."""
        return (1,) if self.individual else self.outcomes

    def evaluated(self, counted: Sequence[int]) -> Sequence[int]:
        """Return the subgroups to show to the network for counting these of the tally."""
        return range(len(self.subgroups)) if self.individual else counted

    def fold(self, labels: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return the counted events, from the labels of the shown subgroups, (subgroups, rounds)."""
        if not self.individual:
            return labels
        seen = labels == self.outcomes[0] if self.outcomes else labels
        changes = (seen != seen[0]).any(axis=0)
        return np.stack([changes, np.zeros_like(changes)]).view(np.uint8)


def comparison_of(spec: Spec, groups: Sequence[Group] | None = None) -> Comparison:
    """Return the comparison of a spec; `groups` are those that are large enough, if some are not."""
    groups = tuple(groups_of(spec) if groups is None else groups)
    prop, labels = spec.property, spec.model.labels
    if isinstance(prop, ProbabilityFormula):
        return _comparison_of_formula(spec, prop)
    outcome = None if prop.outcome is None else labels.index(prop.outcome)
    if isinstance(prop, Individual):
        counted = () if outcome is None else (outcome,)
        return Comparison(subgroups_of_groups(groups), counted, ~np.eye(2, dtype=bool)[None], individual=True)
    measure: Measure = "ratio" if isinstance(prop, Ratio) else "difference"
    truths: Sequence[int | None] = range(len(labels))
    if prop.criterion == "demographic_parity":
        truths = (None,)
    elif prop.criterion == "equal_opportunity" and outcome is not None:
        truths = (outcome,)
    outcomes = tuple(range(len(labels)))
    if outcome is not None:
        outcomes = (outcome,)
    elif len(labels) == 2 and measure == "difference" and prop.criterion != "equal_opportunity":
        # With two labels one is enough for a difference: their gaps are the same.
        outcomes = (1,)
    subgroups = tuple(subgroup for truth in truths for subgroup in _subgroups(groups, prop.compare, truth, labels))
    overall = [subgroup.group is None and not subgroup.mixed for subgroup in subgroups]
    place = reference_group(spec, groups)
    reference = None if place is None else groups[place]
    compared = np.zeros((len(outcomes), len(subgroups), len(subgroups)), bool)
    for i, one in enumerate(subgroups):
        for j, other in enumerate(subgroups):
            if i != j and one.truth == other.truth and (prop.compare == "groups" or overall[i] != overall[j]):
                compared[:, i, j] = True
        if reference is not None and one.group is not reference:
            # No group may be behind the reference; it may be ahead.
            compared[:, i, :] = False
        if prop.criterion == "equal_opportunity":
            # Each label is compared among individuals who truly have it.
            compared[[outcome != one.truth for outcome in outcomes], i, :] = False
    return Comparison(subgroups, outcomes, compared, measure)


def _comparison_of_formula(spec: Spec, prop: ProbabilityFormula) -> Comparison:
    """Return the single pair that a formula compares: for X - Y <= c it is (X, Y), for X / Y >= c it is (Y, X)."""
    from fairchain.spec.formulas import formula_groups

    found = formula_groups(prop, spec.features, spec.model.labels)
    shape = found.shape
    compared = np.zeros((1, 2, 2), bool)
    compared[0, 0, 1] = shape.measure == "difference"
    compared[0, 1, 0] = shape.measure == "ratio" or shape.absolute
    outcomes = (spec.model.labels.index(prop.outcome),)
    subgroups = subgroups_of_groups(found.groups)
    return Comparison(subgroups, outcomes, compared, shape.measure, overlapping=not found.disjoint)


def subgroups_of_groups(groups: Sequence[Group]) -> tuple[Subgroup, ...]:
    """Return one subgroup for each group."""
    return tuple(Subgroup(group.name, group) for group in groups)


def unmixed(subgroups: Sequence[Subgroup]) -> tuple[Subgroup, ...]:
    """Return the subgroups with every mean replaced by its groups."""
    found: list[Subgroup] = []
    for subgroup in subgroups:
        found += [Subgroup(group.name, group, subgroup.truth) for group in subgroup.mixed] or [subgroup]
    return tuple(found)


def _subgroups(groups: tuple[Group, ...], compare: str, truth: int | None, labels: Sequence[str]) -> list[Subgroup]:
    with_truth = "" if truth is None else f", truth={labels[truth]}"
    overall = Subgroup(OVERALL + with_truth, None, truth)
    if compare == "average":
        return [Subgroup(AVERAGE + with_truth, None, truth, mixed=groups), overall]
    subgroups = [Subgroup(group.name + with_truth, group, truth) for group in groups]
    return [*subgroups, overall] if compare == "overall" else subgroups
