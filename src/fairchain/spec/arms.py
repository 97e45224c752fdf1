"""Who is compared with whom: the arms of a question and the pairs of them that must be alike.

An arm is a part of the people whose rates are looked at: a group, everybody, or, where the true label is known,
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
EVERYBODY = "everybody"
AVERAGE = "mean of the groups"
CHANGES, STAYS = "decision changes", "decision stays"


@dataclass(frozen=True)
class Arm:
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
    arms
        Who is shown to the network.
    outcomes
        The labels that are counted.
    compared
        (outcomes, arms, arms): which ordered pairs must be alike in which outcome.
    measure
        Whether rates are compared by their difference or by their ratio.
    individual
        Whether the same person is compared as each arm. Then all that is counted is whether the decision changes (or
        the decision for the one outcome), against a second arm for which it never does.
    """

    arms: tuple[Arm, ...]
    outcomes: tuple[int, ...]
    compared: NDArray[np.bool_]
    measure: Measure = "difference"
    individual: bool = False

    @property
    def counted(self) -> tuple[str, ...]:
        """Names of the arms of the tally: the arms themselves, or whether a decision changes."""
        return (CHANGES, STAYS) if self.individual else tuple(arm.name for arm in self.arms)

    @property
    def disjoint(self) -> bool:
        """Whether arms that are compared have nobody in common, so that they can be counted apart."""
        return not self.individual and all(arm.group is not None for arm in self.arms)

    @property
    def overall(self) -> NDArray[np.bool_]:
        """(counted,): which arms hold all rows, or all of a true label, and not those of a group."""
        if self.individual:
            return np.zeros(len(self.counted), bool)
        return np.array([arm.group is None and not arm.mixed for arm in self.arms])

    @property
    def rows(self) -> tuple[int, ...]:
        """What is counted in the tally, one table each: labels, or that a decision changes."""
        return (1,) if self.individual else self.outcomes

    def asks(self, counted: Sequence[int]) -> Sequence[int]:
        """The arms to show to the network so that these of the tally can be counted."""
        return range(len(self.arms)) if self.individual else counted

    def fold(self, labels: NDArray[np.integer]) -> NDArray[np.integer]:
        """From the labels of the arms asked, (arms, rounds), to what is counted."""
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
        arms = arms_of_groups(groups)
        looked_at = () if asked.outcome is None else (labels.index(asked.outcome),)
        return Comparison(arms, looked_at, ~np.eye(2, dtype=bool)[None], individual=True)
    measure: Measure = "ratio" if isinstance(asked, Ratio) else "difference"
    truths = _truths(spec)
    outcomes = _outcomes(spec)
    arms = tuple(arm for truth in truths for arm in _arms(groups, asked.compare, truth, labels))
    compared = np.zeros((len(outcomes), len(arms), len(arms)), bool)
    for i, one in enumerate(arms):
        for j, other in enumerate(arms):
            if i == j or one.truth != other.truth:
                continue
            if asked.compare == "groups" or (one.group is None and not one.mixed) != (
                other.group is None and not other.mixed
            ):
                compared[:, i, j] = True
    if asked.criterion == "equal_opportunity":
        # Each label is looked at among those who truly have it.
        for row, outcome in enumerate(outcomes):
            for i, arm in enumerate(arms):
                if arm.truth != outcome:
                    compared[row, i, :] = False
    return Comparison(arms, outcomes, compared, measure)


def arms_of_groups(groups: Sequence[Group]) -> tuple[Arm, ...]:
    """One arm for each group."""
    return tuple(Arm(group.name, group) for group in groups)


def unmixed(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """The arms with every mean replaced by the groups that it is made of."""
    return tuple(
        part
        for arm in arms
        for part in ([Arm(group.name, group, arm.truth) for group in arm.mixed] if arm.mixed else [arm])
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


def _arms(groups: tuple[Group, ...], compare: str, truth: int | None, labels: Sequence[str]) -> list[Arm]:
    with_truth = "" if truth is None else f", truth={labels[truth]}"
    everybody = Arm(EVERYBODY + with_truth, None, truth)
    if compare == "average":
        return [Arm(AVERAGE + with_truth, None, truth, mixed=groups), everybody]
    arms = [Arm(group.name + with_truth, group, truth) for group in groups]
    return [*arms, everybody] if compare == "overall" else arms
