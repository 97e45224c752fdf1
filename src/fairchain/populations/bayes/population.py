"""People drawn from a Bayesian network over the features, each group from its own conditional distribution.

Exact where the protected nodes and all that they depend on have tables that can be enumerated: then these are drawn
together, given the group, from one random number that all subgroups share, and every other node after its parents
from one
random number, shared too. Each subgroup has exactly its own distribution, and subgroups differ only where that makes
them.
Otherwise everybody is shown, and `accepts` says who belongs to an subgroup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairchain.errors import SpecError
from fairchain.populations.bayes.drawing import DrawJoint, Scratch, States, deviates, drawing_joint
from fairchain.populations.bayes.enumeration import Joint, joint_of
from fairchain.populations.bayes.graph import build_graph
from fairchain.populations.bayes.nodes import Choice, Reals
from fairchain.populations.bayes.plan import DrawPlan, make_plan
from fairchain.populations.bayes.reading import read_nodes, source_of
from fairchain.populations.streams import Address, unit_reals
from fairchain.spec.groups import Group
from fairchain.spec.schema import Network, Spec
from fairchain.spec.subgroups import EVERYBODY, Subgroup

__all__ = ["BayesDesk", "BayesPopulation", "BayesRounds", "read_nodes"]

Inputs = NDArray[np.floating]


class BayesRounds:
    """The draws of one chunk, as each subgroup shows them."""

    def __init__(self, population: BayesPopulation, randoms: Sequence[Reals], desk: BayesDesk) -> None:
        self._plan, self._heads, self._randoms = population.plan, population.heads, randoms
        self._people, self._states, self._scratch = desk.clear(len(randoms[0]))
        self._shown: DrawJoint | None = None
        self._draw(self._plan.common)

    def inputs(self, subgroups: Sequence[int]) -> Inputs:
        """Feature values, one block of rows after another for each subgroup: (subgroups * rounds, features)."""
        shown = np.empty((len(subgroups), *self._people.shape), self._people.dtype)
        for block, subgroup in zip(shown, subgroups, strict=True):
            block[:] = self.show(subgroup)
        return shown.reshape(-1, self._people.shape[1])

    def show(self, subgroup: int) -> Inputs:
        """The people of one subgroup, (rounds, features), or everybody if not exact; valid until the next call."""
        head = self._heads[subgroup]
        if head is not None and head is not self._shown:
            head(self._randoms[0], self._states, self._scratch)
            self._write(self._plan.kept)
            self._draw(self._plan.dependent)
            self._shown = head
        return self._people

    def _draw(self, names: Iterable[str]) -> None:
        for name in names:
            random = self._randoms[self._plan.rows[name]]
            self._plan.drawings[name](random, self._states, self._states[name], self._scratch)
        self._write(names)

    def _write(self, names: Iterable[str]) -> None:
        """Into the columns of those nodes that are features."""
        for name in names:
            column, values = self._plan.columns.get(name, (None, None))
            if column is not None:
                state = self._states[name]
                self._people[:, column] = state if values is None else np.take(values, state, mode="clip")


class BayesPopulation:
    """Where inputs come from when a Bayesian network says how the features depend on each other.

    Parameters
    ----------
    spec
        Gives the features in the order of the columns, the protected ones, and the network.
    subgroups
        Who is asked about: a group, or everybody where an subgroup has none.
    dtype
        Of the feature values handed out.

    Attributes
    ----------
    exact
        Whether subgroups are drawn from their conditional distributions; else they must be picked out with `accepts`.

    Raises
    ------
    SpecError
        If the network cannot be read or cannot be meant, or an subgroup's group has probability 0.
    """

    def __init__(self, spec: Spec, subgroups: Sequence[Subgroup], dtype: DTypeLike = np.float32) -> None:
        network = spec.population
        if not isinstance(network, Network):
            raise SpecError('population.kind: is no Bayesian network; write kind = "network" with path or nodes')
        self.subgroups, self.dtype = tuple(subgroups), np.dtype(dtype)
        self._names = [feature.name for feature in spec.features]
        self._protected = spec.property.protected
        self._source = source_of(network)
        self._called = network.name or ("stated in the spec" if network.path is None else Path(network.path).name)
        self._graph = build_graph(spec.features, read_nodes(network), self._source)
        joint = joint_of(self._graph, self._protected)
        self.exact = joint is not None
        self.plan: DrawPlan = make_plan(self._graph, self._names, () if joint is None else tuple(joint.numbers))
        self.heads: tuple[DrawJoint | None, ...] = (None,) * len(self.subgroups)
        self._shares: Reals | None = None
        if joint is not None:
            self._condition(joint)
        else:
            self._check_possible()

    def __str__(self) -> str:
        """In one phrase, for the statement under a verdict."""
        nodes = f"{self._graph.stated} nodes"
        return f"the Bayesian network {self._called} ({nodes}) over the {self.width} declared features"

    @property
    def width(self) -> int:
        """How many features there are."""
        return len(self._names)

    def desk(self) -> BayesDesk:
        """Memory to draw into, for one worker."""
        return BayesDesk(self)

    def rounds(
        self,
        seed: int,
        chunk: int,
        count: int,
        copy: int = 0,
        desk: BayesDesk | None = None,
        subgroups: Sequence[int] | None = None,  # noqa: ARG002
    ) -> BayesRounds:
        """Draw `count` rounds of a chunk: the same for the same arguments, always.

        Values of tables are the same on every machine; numbers up to the last digits of scipy's normal quantiles.
        `copy` addresses independent draws of the same chunk. With a desk the rounds are drawn into its memory, and
        are valid until the next draw there.
        """
        words = Address(seed, chunk, copy).halfwords(2 * count * self.plan.randoms)
        # One row after another: small arrays are reused by the allocator, large ones are not.
        randoms = [unit_reals(*pair) for pair in words.reshape(self.plan.randoms, 2, count)]
        for row in self.plan.normal_rows:
            deviates(randoms[row])
        return BayesRounds(self, randoms, desk or BayesDesk(self))

    def shares(self) -> Reals | None:
        """The probability of each subgroup's group, where it can be computed."""
        return None if self._shares is None else self._shares.copy()

    def shares_of(self, groups: Sequence[Group]) -> list[float] | None:
        """Return the probability of each of these groups, also of those that no subgroup shows; None if not exact."""
        joint = joint_of(self._graph, self._protected)
        return None if joint is None else [joint.given(self._members(group)).share for group in groups]

    def accepts(self, subgroup: int, values: Inputs) -> NDArray[np.bool_] | None:
        """Which of these people, (rows, features), belong to an subgroup; None if all that it shows do."""
        group = self.subgroups[subgroup].group
        if self.exact or group is None:
            return None
        accepted = np.ones(len(values), bool)
        for name, domain in zip(self._protected, group.domains, strict=True):
            accepted &= domain.holds(values[:, self._names.index(name)])
        return accepted

    def exact_people(self, subgroup: int) -> tuple[Inputs, Reals] | None:
        """Everybody that an subgroup can show, (people, features), and how likely each is.

        None if a node is a number or there are too many combinations to enumerate.
        """
        joint = joint_of(self._graph, self._names)
        if joint is None:
            return None
        joint = self._of_subgroup(joint, self.subgroups[subgroup])
        columns = []
        for name in self._names:
            node = self._graph.nodes[name]
            assert isinstance(node, Choice)
            columns.append(node.shown[joint.numbers[name]])
        people, place = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        likely = np.zeros(len(people))
        np.add.at(likely, place.reshape(-1), joint.probabilities / joint.share)
        return people, likely

    def _condition(self, joint: Joint) -> None:
        """How each subgroup is drawn; subgroups of the same group share it."""
        made: dict[object, tuple[DrawJoint, float]] = {}
        for subgroup in self.subgroups:
            if subgroup.group not in made:
                own = self._of_subgroup(joint, subgroup)
                made[subgroup.group] = drawing_joint(own, self.plan.kept), 1.0 if subgroup.group is None else own.share
        self.heads = tuple(made[subgroup.group][0] for subgroup in self.subgroups)
        self._shares = np.array([made[subgroup.group][1] for subgroup in self.subgroups])

    def _of_subgroup(self, joint: Joint, subgroup: Subgroup) -> Joint:
        """The combinations that belong to an subgroup."""
        if subgroup.group is None:
            return joint
        own = joint.given(self._members(subgroup.group))
        if own.share == 0:
            raise self._nobody(subgroup.group)
        return own

    def _check_possible(self) -> None:
        """Refuse groups that no value of a table belongs to, which rejection would look for in vain."""
        for group in (subgroup.group for subgroup in self.subgroups if subgroup.group is not None):
            for name, members in self._members(group).items():
                node = self._graph.nodes[name]
                if isinstance(node, Choice) and not node.table[:, members].any():
                    raise self._nobody(group)

    def _members(self, group: Group) -> dict[str, NDArray[np.bool_]]:
        """Which values of each protected node with a table belong to a group."""
        members = {}
        for name, domain in zip(self._protected, group.domains, strict=True):
            node = self._graph.nodes[name]
            if isinstance(node, Choice):
                members[name] = np.array([domain.contains(value) for value in node.shown.tolist()], bool)
        return members

    def _nobody(self, group: Group) -> SpecError:
        # Without the joint distribution there are no shares, so min_size would be refused.
        share = "set property.min_size to leave out groups below a share, " if self.exact else ""
        return SpecError(
            f'{self._source}: group "{group.name}" has probability 0; '
            f"{share}leave it out of the feature's groups, or change the probabilities"
        )


def network_shares(spec: Spec, groups: Sequence[Group]) -> list[float] | None:
    """Return the probability of each group, 0 where it cannot be drawn; None where it cannot be computed."""
    everybody = BayesPopulation(spec, [Subgroup(EVERYBODY)])
    return everybody.shares_of(groups)


class BayesDesk:
    """Memory to draw into again and again, for one worker."""

    def __init__(self, population: BayesPopulation) -> None:
        self._population = population
        self._rows = -1

    def clear(self, rows: int) -> tuple[Inputs, States, Scratch]:
        """Room for the values, (rows, features), for what each node is in each round, and for steps on the way."""
        population = self._population
        if rows > self._rows:
            self._rows = rows
            self._people = np.empty((rows, population.width), population.dtype)
            self._states = {name: np.empty(rows, kind) for name, kind in population.plan.kinds.items()}
            self._scratch = Scratch.of(rows)
        states = {name: state[:rows] for name, state in self._states.items()}
        return self._people[:rows], states, self._scratch.first(rows)
