"""Inputs drawn from a Bayesian network over the features, each group from its own conditional distribution.

This is exact if the protected nodes and all their ancestors have tables that can be enumerated: then these are drawn
jointly, given the group, from one random number that all subgroups share, and every other node after its parents from
one random number, which is also shared. Each subgroup has exactly its own distribution. Otherwise the overall
population is shown, and `accepts` selects the members of a subgroup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairchain.errors import SpecError
from fairchain.populations.base import FeaturePopulation, Inputs, Rounds, Scratch
from fairchain.populations.bayes.drawing import Buffers, DrawJoint, DrawPlan, deviates, drawing_joint, make_plan
from fairchain.populations.bayes.graph import build_graph, joint_of, space_of
from fairchain.populations.bayes.nodes import Choice
from fairchain.populations.bayes.reading import read_nodes, source_of
from fairchain.populations.finite import FiniteSpace
from fairchain.populations.streams import Address, unit_reals
from fairchain.spec import BayesNetwork, Spec
from fairchain.spec.groups import Group
from fairchain.spec.subgroups import OVERALL, Subgroup

NOT_BAYESIAN_NETWORK = 'population.kind: is not a Bayesian network; write kind = "network" with path or nodes'
GROUP_HAS_PROBABILITY_ZERO = (
    '{source}: group "{name}" has probability 0; {share}leave it out of the feature\'s groups, or change the '
    "probabilities"
)


class BayesPopulation(FeaturePopulation):
    """The joint distribution of a Bayesian network over the features, exact if groups can be conditioned on.

    Raises a SpecError if the network cannot be read or is invalid, or a subgroup has probability 0.
    """

    def __init__(self, spec: Spec, subgroups: Sequence[Subgroup], dtype: DTypeLike = np.float32) -> None:
        super().__init__(spec, subgroups, dtype)
        network = spec.population
        if not isinstance(network, BayesNetwork):
            raise SpecError(NOT_BAYESIAN_NETWORK)
        self._names = [feature.name for feature in spec.features]
        self._protected = spec.protected
        self._source = source_of(network)
        self._called = network.name or ("stated in the spec" if network.path is None else Path(network.path).name)
        self._graph = build_graph(spec.features, read_nodes(network), self._source)
        # Of the protected nodes and all their ancestors; None if they cannot be enumerated.
        self.joint = joint = joint_of(self._graph, self._protected)
        self.plan: DrawPlan = make_plan(self._graph, self._names, () if joint is None else tuple(joint.numbers))
        self.heads: tuple[DrawJoint | None, ...] = (None,) * len(self.subgroups)
        self._shares: tuple[float, ...] | None = None
        if joint is None:
            # A group without any value of a table is refused: rejection sampling would find no member.
            for each in (subgroup.group for subgroup in self.subgroups if subgroup.group is not None):
                for name, members in self.members(each).items():
                    node = self._graph.nodes[name]
                    if isinstance(node, Choice) and not node.table[:, members].any():
                        raise self._impossible(each)
            return
        # How each subgroup is drawn, and its share; subgroups with the same group share them.
        made: dict[Group | None, tuple[DrawJoint, float]] = {}
        for group in (subgroup.group for subgroup in self.subgroups):
            if group not in made:
                own = joint if group is None else joint.given(self.members(group))
                if group is not None and own.share == 0:
                    raise self._impossible(group)
                made[group] = drawing_joint(own, self.plan.kept), 1.0 if group is None else own.share
        self.heads = tuple(made[subgroup.group][0] for subgroup in self.subgroups)
        self._shares = tuple(made[subgroup.group][1] for subgroup in self.subgroups)

    def __str__(self) -> str:
        nodes = f"{self._graph.stated} nodes"
        return f"the Bayesian network {self._called} ({nodes}) over the {self.width} declared features"

    def draw(self, address: Address, count: int, scratch: Scratch, _subgroups: Sequence[int], /) -> Rounds:
        """Draw `count` rounds at an address; if the population is not exact, all subgroups are shown the same inputs.

        Values of tables are the same on every machine; numbers are the same up to the last digits of scipy's normal
        quantiles.
        """
        plan = self.plan
        words = address.halfwords(2 * count * plan.randoms)
        # One row at a time: the allocator reuses small arrays, but not large ones.
        randoms = [unit_reals(*pair) for pair in words.reshape(plan.randoms, 2, count)]
        for row in plan.normal_rows:
            deviates(randoms[row])
        values: Inputs = scratch.rows("values", count, lambda rows: np.empty((rows, self.width), self.dtype))
        own, buffers = scratch.part("nodes"), Buffers(scratch, count)
        states = {name: own.rows(name, count, partial(np.empty, dtype=kind)) for name, kind in plan.kinds.items()}
        current: DrawJoint | None = None

        def fill(names: Iterable[str], *, draw: bool) -> None:
            """Draw nodes that are not yet drawn, and write features into their columns."""
            for name in names:
                if draw:
                    plan.drawings[name](randoms[plan.rows.get(name, 0)], states, states[name], buffers)
                if name in plan.columns:
                    column, listed = plan.columns[name]
                    values[:, column] = states[name] if listed is None else np.take(listed, states[name], mode="clip")

        def show(subgroup: int) -> Inputs:
            nonlocal current
            head = self.heads[subgroup]
            if head is not None and head is not current:
                head(randoms[0], states, buffers)
                fill(plan.kept, draw=False)
                fill(plan.dependent, draw=True)
                current = head
            return values

        fill(plan.common, draw=True)
        return Rounds(show)

    def finite_space(self, cuts: Mapping[int, Sequence[float]], /) -> FiniteSpace | None:
        """Return every input with its weight, if all nodes are tables."""
        return space_of(self._graph, self._names, cuts)

    @property
    def exact(self) -> bool:
        """Whether subgroups are drawn from their conditional distributions; otherwise `accepts` selects them."""
        return self.joint is not None

    def shares(self) -> Sequence[float] | None:
        """Return the probability of each subgroup, if it can be computed."""
        return self._shares

    def members(self, group: Group) -> dict[str, NDArray[np.bool_]]:
        """Return which values of each protected node with a table belong to a group."""
        members = {}
        for name, domain in zip(self._protected, group.domains, strict=True):
            node = self._graph.nodes[name]
            if isinstance(node, Choice):
                members[name] = np.array([domain.contains(value) for value in node.shown.tolist()], bool)
        return members

    def _impossible(self, group: Group) -> SpecError:
        # Without the joint distribution there are no shares, so min_size would be refused.
        share = "set property.min_size to leave out groups below a share, " if self.exact else ""
        return SpecError(GROUP_HAS_PROBABILITY_ZERO.format(source=self._source, name=group.name, share=share))


def network_shares(spec: Spec, groups: Sequence[Group]) -> list[float] | None:
    """Return the probability of each group, 0 if it cannot be drawn; None if it cannot be computed."""
    population = BayesPopulation(spec, [Subgroup(OVERALL)])
    joint = population.joint
    return None if joint is None else [joint.given(population.members(group)).share for group in groups]
