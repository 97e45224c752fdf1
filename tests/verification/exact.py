"""Small worlds that can be counted by hand: every input, its probability as a fraction, and every exact answer.

Nothing of fairchain is used here: groups, conditions and rates are written down a second time, in the plainest way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.networks import constant, graph, node, save, value
from tests.questions import category, integer

Person = tuple[int, ...]
# Conditions as a spec writes them, and as Python decides them about (hours, job, sex, race).
CONDITIONS: dict[str, Callable[[Person], bool]] = {
    "hours >= 1": lambda person: person[0] >= 1,
    "job == 'j0' or hours != 1": lambda person: person[1] == 0 or person[0] != 1,
    "not (sex == 's0' and hours == 0)": lambda person: not (person[2] == 0 and person[0] == 0),
    "race in ['r0'] or 1 <= hours": lambda person: person[3] == 0 or person[0] >= 1,
}
NAMES = ("hours", "job", "sex", "race")
KINDS, POPULATIONS = ("difference", "ratio", "individual"), ("uniform", "marginals", "network", "computed")


@dataclass(frozen=True)
class World:
    """Everybody there can be, how likely they are, and how a spec says so; `table` are rows to hand over."""

    sizes: tuple[int, ...]
    shares: dict[Person, Fraction]
    population: dict[str, Any]
    table: dict[str, list[Any]] | None = None

    @property
    def features(self) -> list[dict[str, Any]]:
        """Whole numbers of hours, then categories with values j0, j1, ..., s0, ... and r0, ..."""
        hours, *others = self.sizes
        named = [category(name, *names(name, size)) for name, size in zip(NAMES[1:], others, strict=True)]
        return [integer("hours", 0, hours - 1), *named]


def names(feature: str, size: int) -> list[str]:
    return [f"{feature[0]}{place}" for place in range(size)]


def random_world(rng: np.random.Generator, kind: str) -> World:
    """Return a world with one of `POPULATIONS`.

    Half of the features of marginals are from a table. In a network jobs depend on sex; a computed one also has a
    mixture, nodes that switch at a number, and one that follows from others.
    """
    sizes = tuple(int(size) for size in (rng.integers(2, 5), rng.integers(2, 4), rng.integers(2, 4), 2))
    everybody = list(product(*map(range, sizes)))
    if kind == "uniform":
        return World(sizes, dict.fromkeys(everybody, Fraction(1, len(everybody))), {"kind": "uniform"})
    if kind == "marginals":
        return _marginals(rng, sizes, everybody)
    return _network(rng, sizes, everybody) if kind == "network" else _computed(rng, sizes)


def _marginals(rng: np.random.Generator, sizes: tuple[int, ...], everybody: list[Person]) -> World:
    stated = [shares_of(rng, size) for size in sizes[1:3]]
    rows = 9
    # Every value at least once, since a group that nobody belongs to is an error.
    columns = [[*range(size), *rng.integers(0, size, rows - size).tolist()] for size in (sizes[0], sizes[3])]
    counted = [
        [Fraction(column.count(each), rows) for each in range(size)]
        for column, size in zip(columns, (sizes[0], sizes[3]), strict=True)
    ]
    laws = [counted[0], *stated, counted[1]]
    shares = {person: _product(laws[place][each] for place, each in enumerate(person)) for person in everybody}
    frequencies = {
        name: dict(zip(names(name, len(law)), map(float, law), strict=True))
        for name, law in zip(NAMES[1:3], stated, strict=True)
    }
    table = {"hours": columns[0], "race": [f"r{each}" for each in columns[1]]}
    return World(sizes, shares, {"kind": "marginals", "path": "people.csv", "frequencies": frequencies}, table)


def _network(rng: np.random.Generator, sizes: tuple[int, ...], everybody: list[Person]) -> World:
    """sex -> job, (sex, job) -> hours, race on its own."""
    hours, jobs, sexes, races = sizes
    sex, race = shares_of(rng, sexes), shares_of(rng, races)
    job = {s: shares_of(rng, jobs) for s in range(sexes)}
    hour = {(s, j): shares_of(rng, hours) for s in range(sexes) for j in range(jobs)}
    shares = {(h, j, s, r): sex[s] * race[r] * job[s][j] * hour[s, j][h] for h, j, s, r in everybody}
    nodes = [
        {"name": "sex", "probabilities": floats(sex)},
        {"name": "race", "probabilities": floats(race)},
        {"name": "job", "parents": ["sex"], "probabilities": {f"s{s}": floats(law) for s, law in job.items()}},
        {
            "name": "hours",
            "parents": ["sex", "job"],
            "probabilities": {f"s{s}, j{j}": floats(law) for (s, j), law in hour.items()},
        },
    ]
    return World(sizes, shares, {"kind": "network", "nodes": nodes})


def _computed(rng: np.random.Generator, sizes: tuple[int, ...]) -> World:
    """A hidden kind -> hours (a mixture), hours -> job and sex (switches), (hours, job) -> race (follows)."""
    hours, jobs, sexes, _ = sizes
    hidden, hour = shares_of(rng, 2), [shares_of(rng, hours) for _ in range(2)]
    cuts = {name: int(rng.integers(1, hours)) for name in ("job", "sex", "race")}
    job, sex = ([shares_of(rng, size) for _ in range(2)] for size in (jobs, sexes))
    shares: dict[Person, Fraction] = {}
    for k, h, j, s in product(range(2), range(hours), range(jobs), range(sexes)):
        race = int(not (h < cuts["race"] or j == 0))
        share = hidden[k] * hour[k][h] * job[h >= cuts["job"]][j] * sex[h >= cuts["sex"]][s]
        shares[h, j, s, race] = shares.get((h, j, s, race), Fraction(0)) + share

    def switching(name: str, laws: list[list[Fraction]]) -> dict[str, Any]:
        cut = cuts[name]
        probabilities = {f"hours < {cut}": floats(laws[0]), f"hours >= {cut}": floats(laws[1])}
        return {"name": name, "parents": ["hours"], "switches": {"hours": cut}, "probabilities": probabilities}

    nodes = [
        {"name": "kind", "values": ["a", "b"], "probabilities": floats(hidden)},
        {"name": "hours", "parents": ["kind"], "probabilities": dict(zip("ab", map(floats, hour), strict=True))},
        switching("job", job),
        switching("sex", sex),
        {
            "name": "race",
            "parents": ["hours", "job"],
            "value": f"'r0' if hours < {cuts['race']} or job == 'j0' else 'r1'",
        },
    ]
    return World(sizes, shares, {"kind": "network", "nodes": nodes})


def shares_of(rng: np.random.Generator, size: int) -> list[Fraction]:
    """Twentieths that sum to 1, none of them 0."""
    cuts = sorted(rng.choice(np.arange(1, 20), size - 1, replace=False).tolist())
    return [Fraction(b - a, 20) for a, b in zip([0, *cuts], [*cuts, 20], strict=True)]


def floats(law: list[Fraction]) -> list[float]:
    return [float(share) for share in law]


def _product(parts: Any) -> Fraction:
    result = Fraction(1)
    for part in parts:
        result *= part
    return result


@dataclass(frozen=True)
class Net:
    """A network with one hidden layer and small whole numbers as weights, so that every sum is exact."""

    first: NDArray[np.int64]
    shift: NDArray[np.int64]
    second: NDArray[np.int64]

    def decide(self, person: Person) -> int:
        """The first of the largest outputs."""
        hidden = np.maximum(np.array(person) @ self.first + self.shift, 0)
        return int((hidden @ self.second).argmax())

    def save(self, path: Path, *, softmax: bool = False) -> Path:
        """Write the network; with `softmax` its outputs are probabilities, of scores a quarter as large."""
        width, labels = len(self.first), self.second.shape[1]
        nodes = [
            node("MatMul", ["x", "w1"], ["m1"]),
            node("Add", ["m1", "b1"], ["a1"]),
            node("Relu", ["a1"], ["h"]),
            node("MatMul", ["h", "w2"], ["s" if softmax else "y"]),
            *([node("Softmax", ["s"], ["y"], axis=-1)] if softmax else []),
        ]
        second = self.second / 4 if softmax else self.second
        constants = [constant("w1", self.first), constant("b1", self.shift), constant("w2", second)]
        return save(graph(nodes, [value("x", shape=("N", width))], [value("y", shape=("N", labels))], constants), path)


def random_net(rng: np.random.Generator, world: World, labels: int) -> Net:
    """One that does not give everybody the same."""
    while True:
        net = Net(rng.integers(-3, 4, (4, 5)), rng.integers(-3, 4, 5), rng.integers(-3, 4, (5, labels)))
        if len({net.decide(person) for person in world.shares}) > 1:
            return net


@dataclass(frozen=True)
class Numbers:
    """Exact answers, rounded once: the gap in its own unit, and the rate of each subgroup and label."""

    measured: float
    rates: dict[tuple[str, int], float]


@dataclass(frozen=True)
class Answers:
    """Every exact number of a question about a world: rates of each subgroup and outcome, and what is compared.

    Labels that are drawn have `chances` for each person.
    """

    world: World
    net: Net
    labels: int
    protected: tuple[str, ...]
    kind: str
    outcome: int | None = None
    given: str | None = None
    compare: str = "groups"
    chances: dict[Person, list[Fraction]] | None = None
    decided: dict[Person, int] = field(init=False)

    def __post_init__(self) -> None:
        everybody = product(*map(range, self.world.sizes))
        object.__setattr__(self, "decided", {person: self.net.decide(person) for person in everybody})

    @property
    def outcomes(self) -> list[int]:
        return list(range(self.labels)) if self.outcome is None else [self.outcome]

    def concerned(self, person: Person) -> bool:
        return self.given is None or CONDITIONS[self.given](person)

    def groups(self) -> dict[str, tuple[int, ...]]:
        """Name -> the values of the protected features."""
        places = [NAMES.index(name) for name in self.protected]
        values = [
            [(f"{NAMES[at]}={NAMES[at][0]}{each}", each) for each in range(self.world.sizes[at])] for at in places
        ]
        return {
            " & ".join(name for name, _ in choice): tuple(each for _, each in choice) for choice in product(*values)
        }

    def mass(self, keep: Callable[[Person], bool]) -> Fraction:
        return sum((share for person, share in self.world.shares.items() if keep(person)), start=Fraction(0))

    def _members(self, group: tuple[int, ...] | None) -> list[Person]:
        places = [NAMES.index(name) for name in self.protected]
        return [
            person
            for person in self.world.shares
            if self.concerned(person) and (group is None or tuple(person[at] for at in places) == group)
        ]

    def rate(self, group: tuple[int, ...] | None, label: int) -> Fraction:
        inside = self._members(group)
        got = sum((self.world.shares[person] * self._chance(person, label) for person in inside), start=Fraction(0))
        return got / sum((self.world.shares[person] for person in inside), start=Fraction(0))

    def _chance(self, person: Person, label: int) -> Fraction:
        return Fraction(self.decided[person] == label) if self.chances is None else self.chances[person][label]

    def subgroups(self, label: int) -> dict[str, Fraction]:
        """The rate of each subgroup."""
        groups = {name: self.rate(group, label) for name, group in self.groups().items()}
        everybody = {"overall": self.rate(None, label)}
        if self.compare == "groups":
            return groups
        if self.compare == "overall":
            return groups | everybody
        return {"mean of the groups": sum(groups.values(), start=Fraction(0)) / len(groups)} | everybody

    def pairs(self) -> list[tuple[Fraction, Fraction]]:
        """Rates that must be alike, both ways round, for all labels that are looked at."""
        found = []
        for label in self.outcomes:
            subgroups = self.subgroups(label)
            for one, other in product(subgroups, subgroups):
                if one != other and (self.compare == "groups" or (one == "overall") != (other == "overall")):
                    found.append((subgroups[one], subgroups[other]))
        return found

    def measured(self) -> Fraction:
        """The largest difference, the smallest ratio, or the share of people whose decision changes."""
        if self.kind == "individual":
            return self.changing()
        if self.kind == "difference":
            return max(one - other for one, other in self.pairs())
        return min(other / one if one else Fraction(1) for one, other in self.pairs())

    def changing(self) -> Fraction:
        places = [NAMES.index(name) for name in self.protected]

        def changes(person: Person) -> bool:
            seen = set()
            for group in self.groups().values():
                other = list(person)
                for at, each in zip(places, group, strict=True):
                    other[at] = each
                label = self.decided[tuple(other)]
                seen.add(label if self.outcome is None else label == self.outcome)
            return len(seen) > 1

        concerned = self.mass(self.concerned)
        return self.mass(lambda person: self.concerned(person) and changes(person)) / concerned

    def numbers(self) -> Numbers:
        """Everything that a verdict gives intervals for."""
        if self.kind == "individual":
            return Numbers(float(self.changing()), {})
        rates = {
            (name, label): float(rate) for label in range(self.labels) for name, rate in self.subgroups(label).items()
        }
        return Numbers(float(self.measured()), rates)

    def fair(self, threshold: float) -> bool:
        limit = Fraction(repr(threshold))
        return self.measured() >= limit if self.kind == "ratio" else self.measured() <= limit

    def possible(self) -> bool:
        """Whether somebody belongs to every group."""
        return all(
            any(self.world.shares[person] for person in self._members(group)) for group in self.groups().values()
        )

    def spec(self, path: Path, threshold: float, **guarantee: Any) -> dict[str, Any]:
        """The same question as a spec."""
        labels = [f"l{each}" for each in range(self.labels)]
        asked: dict[str, Any] = {"kind": self.kind, "protected": list(self.protected), "threshold": threshold}
        if self.outcome is not None:
            asked["outcome"] = labels[self.outcome]
        if self.given is not None:
            asked["given"] = self.given
        if self.compare != "groups":
            asked["compare"] = self.compare
        drawn = {} if self.chances is None else {"decision": "random"}
        return {
            "model": {"path": str(path), "labels": labels, **drawn},
            "feature": self.world.features,
            "population": self.world.population,
            "property": asked,
            "guarantee": guarantee,
        }


def random_answers(rng: np.random.Generator, kind: str, population: str) -> Answers:
    """A random world, a random network, and a random question of this kind about them."""
    while True:
        world = random_world(rng, population)
        labels = int(rng.choice([2, 3]))
        asked = Answers(
            world=world,
            net=random_net(rng, world, labels),
            labels=labels,
            protected=(("sex",), ("sex",), ("race",), ("sex", "race"))[rng.integers(4)],
            kind=kind,
            outcome=None if rng.random() < 0.5 else int(rng.integers(labels)),
            given=None if rng.random() < 0.5 else str(rng.choice(list(CONDITIONS))),
            compare="groups" if kind == "individual" else str(rng.choice(["groups", "groups", "overall", "average"])),
        )
        if asked.possible():
            return asked
