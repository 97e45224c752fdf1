"""Who is compared with whom: the subgroups of a question and the pairs of them that must be alike.

A subgroup is a part of the people whose rates are looked at: a group, everybody, or, where the true label is known,
those of a group who have the same true label. A property becomes a `Comparison`, and that is all the evidence needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairchain.spec.groups import Group, groups_of
from fairchain.spec.schema import Individual, Ratio, Spec

Measure = Literal["difference", "ratio"]
OVERALL = "overall"
AVERAGE = "mean of the groups"
CHANGES, STAYS = "decision changes", "decision stays"


@dataclass(frozen=True)
class Subgroup:
    """People to ask about: of one group or, without one, everybody; all of them or those of one true label.

    `mixed` is set for a mean over groups: each of them counts the same.
    """

    name: str
    group: Group | None = None
    truth: int | None = None
    mixed: tuple[Group, ...] = ()


@dataclass(frozen=True, eq=False)
class Comparison:
    """What the evidence has to decide.

    Parameters
    ----------
    subgroups
        Who is shown to the network.
    outcomes
        The labels that are counted.
    compared
        (outcomes, subgroups, subgroups): which ordered pairs must be alike in which outcome.
    measure
        Whether rates are compared by their difference or by their ratio.
    individual
        Whether the same person is compared as each subgroup. Then all that is counted is whether the decision changes
        (or
        the decision for the one outcome), against a second subgroup for which it never does.
    """

    subgroups: tuple[Subgroup, ...]
    outcomes: tuple[int, ...]
    compared: NDArray[np.bool_]
    measure: Measure = "difference"
    individual: bool = False

    @property
    def counted(self) -> tuple[str, ...]:
        """Names of the subgroups of the tally: the subgroups themselves, or whether a decision changes."""
        return (CHANGES, STAYS) if self.individual else tuple(subgroup.name for subgroup in self.subgroups)

    @property
    def disjoint(self) -> bool:
        """Whether subgroups that are compared have nobody in common, so that they can be counted apart."""
        return not self.individual and all(subgroup.group is not None for subgroup in self.subgroups)

    @property
    def overall(self) -> NDArray[np.bool_]:
        """(counted,): which subgroups hold all rows, or all of a true label, and not those of a group."""
        if self.individual:
            return np.zeros(len(self.counted), bool)
        return np.array([subgroup.group is None and not subgroup.mixed for subgroup in self.subgroups])

    @property
    def rows(self) -> tuple[int, ...]:
        """What is counted in the tally, one table each: labels, or that a decision changes."""
        return (1,) if self.individual else self.outcomes

    def asks(self, counted: Sequence[int]) -> Sequence[int]:
        """The subgroups to show to the network so that these of the tally can be counted."""
        return range(len(self.subgroups)) if self.individual else counted

    def fold(self, labels: NDArray[np.integer]) -> NDArray[np.integer]:
        """From the labels of the subgroups asked, (subgroups, rounds), to what is counted."""
        if not self.individual:
            return labels
        seen = labels == self.outcomes[0] if self.outcomes else labels
        changes = (seen != seen[0]).any(axis=0)
        return np.stack([changes, np.zeros_like(changes)]).view(np.uint8)


def comparison_of(spec: Spec, groups: Sequence[Group] | None = None) -> Comparison:
    """The comparison that a spec asks for; `groups` are those that are large enough, if some are not."""
    groups = tuple(groups_of(spec) if groups is None else groups)
    asked, labels = spec.property, spec.model.labels
    if isinstance(asked, Individual):
        subgroups = subgroups_of_groups(groups)
        looked_at = () if asked.outcome is None else (labels.index(asked.outcome),)
        return Comparison(subgroups, looked_at, ~np.eye(2, dtype=bool)[None], individual=True)
    measure: Measure = "ratio" if isinstance(asked, Ratio) else "difference"
    truths = _truths(spec)
    outcomes = _outcomes(spec)
    subgroups = tuple(subgroup for truth in truths for subgroup in _subgroups(groups, asked.compare, truth, labels))
    compared = np.zeros((len(outcomes), len(subgroups), len(subgroups)), bool)
    for i, one in enumerate(subgroups):
        for j, other in enumerate(subgroups):
            if i == j or one.truth != other.truth:
                continue
            if asked.compare == "groups" or (one.group is None and not one.mixed) != (
                other.group is None and not other.mixed
            ):
                compared[:, i, j] = True
    if asked.criterion == "equal_opportunity":
        # Each label is looked at among those who truly have it.
        for row, outcome in enumerate(outcomes):
            for i, subgroup in enumerate(subgroups):
                if subgroup.truth != outcome:
                    compared[row, i, :] = False
    return Comparison(subgroups, outcomes, compared, measure)


def subgroups_of_groups(groups: Sequence[Group]) -> tuple[Subgroup, ...]:
    """One subgroup for each group."""
    return tuple(Subgroup(group.name, group) for group in groups)


def unmixed(subgroups: Sequence[Subgroup]) -> tuple[Subgroup, ...]:
    """The subgroups with every mean replaced by the groups that it is made of."""
    return tuple(
        part
        for subgroup in subgroups
        for part in (
            [Subgroup(group.name, group, subgroup.truth) for group in subgroup.mixed] if subgroup.mixed else [subgroup]
        )
    )


def _outcomes(spec: Spec) -> tuple[int, ...]:
    """The labels to look at. Of two labels one is enough for a difference: their gaps are the same."""
    labels, asked = spec.model.labels, spec.property
    if asked.outcome is not None:
        return (labels.index(asked.outcome),)
    one_is_enough = (
        len(labels) == 2 and not isinstance(asked, Ratio | Individual) and asked.criterion != "equal_opportunity"
    )
    return (1,) if one_is_enough else tuple(range(len(labels)))


def _truths(spec: Spec) -> tuple[int | None, ...]:
    asked, labels = spec.property, spec.model.labels
    if isinstance(asked, Individual) or asked.criterion == "demographic_parity":
        return (None,)
    if asked.criterion == "equal_opportunity" and asked.outcome is not None:
        return (labels.index(asked.outcome),)
    return tuple(range(len(labels)))


def _subgroups(groups: tuple[Group, ...], compare: str, truth: int | None, labels: Sequence[str]) -> list[Subgroup]:
    with_truth = "" if truth is None else f", truth={labels[truth]}"
    everybody = Subgroup(OVERALL + with_truth, None, truth)
    if compare == "average":
        return [Subgroup(AVERAGE + with_truth, None, truth, mixed=groups), everybody]
    subgroups = [Subgroup(group.name + with_truth, group, truth) for group in groups]
    return [*subgroups, everybody] if compare == "overall" else subgroups
