"""People of a town as a Bayesian network, and the same people by hand."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2_contingency

from fairchain.populations.bayes.graph import joint_of
from fairchain.populations.bayes.population import BayesPopulation
from fairchain.spec import parse_spec
from fairchain.spec.groups import groups_of
from fairchain.spec.subgroups import Subgroup
from tests.questions import category, integer, question

RARE = 1e-6
SEX = category("sex", "Female", "Male")
JOB = category("job", "none", "some", "good")
HOURS = integer("hours", 0, 60)
# The region, which is no feature, bears on sex and race, and these on the job; hours depend on nothing.
TOWN = [
    {"name": "job", "parents": ["sex", "race"], "probabilities": {
        "Female, a": [0.5, 0.3, 0.2], "Female, b": [0.1, 0.1, 0.8], "Male, a": [0.2, 0.2, 0.6],
        "Male, b": [0.0, 0.75, 0.25]}},
    {"name": "region", "values": ["north", "south"], "probabilities": [0.6, 0.4]},
    {"name": "sex", "parents": ["region"], "probabilities": {"north": [0.5, 0.5], "south": [0.2, 0.8]}},
    {"name": "race", "parents": ["region"], "probabilities": {"north": [0.9, 0.1], "south": [0.3, 0.7]}},
    {"name": "hours", "values": [40, 20, 0, 10, 30, 50, 60],
     "probabilities": [0.4, 0.2, 0.05, 0.05, 0.1, 0.15, 0.05]},
]  # fmt: skip
RACE = category("race", "a", "b")
FEATURES = (JOB, RACE, HOURS, SEX)


def population(
    nodes: list[dict[str, Any]],
    *features: dict[str, Any],
    protected: list[str] | None = None,
    everybody: bool = False,
    dtype: Any = np.float64,
) -> BayesPopulation:
    """A population over these features with a subgroup for each group, and one more for everybody if wanted."""
    data = question(*features, protected=protected) | {"population": {"kind": "network", "nodes": nodes}}
    spec = parse_spec(data)
    subgroups = [Subgroup(group.name, group) for group in groups_of(spec)] + [Subgroup("everybody")] * everybody
    return BayesPopulation(spec, subgroups, dtype)


def town(protected: tuple[str, ...] = ("sex",), **more: Any) -> BayesPopulation:
    return population(TOWN, *FEATURES, protected=list(protected), everybody=True, **more)


def enumerated(drawn: BayesPopulation, subgroup: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All inputs that a subgroup can show, (inputs, features), and the probability of each, from the joint table."""
    graph, group = drawn._graph, drawn.subgroups[subgroup].group
    joint = joint_of(graph, drawn._names)
    assert joint is not None
    if group is not None:
        joint = joint.given(drawn.members(group))
    columns = [graph.nodes[name].shown[joint.numbers[name]] for name in drawn._names]  # type: ignore[union-attr]
    inputs, place = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    likely = np.zeros(len(inputs))
    np.add.at(likely, place.reshape(-1), joint.probabilities / joint.share)
    return inputs, likely


def town_by_hand(**given: str) -> dict[tuple[float, ...], float]:
    """Probability of each row (job, race, hours, sex) of the town, from its tables, by summing over everything."""
    tables = {node["name"]: node for node in TOWN}
    jobs, races, sexes = (feature["values"] for feature in (JOB, RACE, SEX))
    hours = tables["hours"]["values"]
    rows: dict[tuple[float, ...], float] = {}
    for region, sex, race, job, hour in product(("north", "south"), sexes, races, jobs, hours):
        if any({"sex": sex, "race": race}[name] != value for name, value in given.items()):
            continue
        row = (jobs.index(job), races.index(race), hour, sexes.index(sex))
        rows[row] = rows.get(row, 0.0) + prod([
            tables["region"]["probabilities"][("north", "south").index(region)],
            tables["sex"]["probabilities"][region][sexes.index(sex)],
            tables["race"]["probabilities"][region][races.index(race)],
            tables["job"]["probabilities"][f"{sex}, {race}"][jobs.index(job)],
            tables["hours"]["probabilities"][hours.index(hour)],
        ])  # fmt: skip
    total = sum(rows.values())
    return {row: probability / total for row, probability in rows.items()}


def codes(rows: NDArray[Any]) -> NDArray[np.int64]:
    """Rows of small whole numbers as one number each, as numpy is slow at rows."""
    return ((rows + 1) @ 128.0 ** np.arange(rows.shape[1])).astype(np.int64)


def alike(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether two samples of rows may have the same distribution: one false alarm in a million."""
    _, place = np.unique(codes(np.concatenate([one, other])), return_inverse=True)
    counts = np.stack([np.bincount(part, minlength=place.max() + 1) for part in np.split(place, [len(one)])])
    common = counts.sum(axis=0) >= 20
    table = np.concatenate([counts[:, common], counts[:, ~common].sum(axis=1, keepdims=True)], axis=1)
    return bool(chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue > RARE)


def picked(drawn: BayesPopulation, subgroup: int, count: int) -> NDArray[Any]:
    """The people of a subgroup by rejection: copies of a chunk until there are enough."""
    parts: list[NDArray[Any]] = []
    while sum(map(len, parts)) < count:
        shown = drawn.rounds(8, 0, 4 * count, copy=len(parts)).show(subgroup)
        accepted = drawn.accepts(subgroup, shown)
        assert accepted is not None
        parts.append(shown[accepted])
    return np.concatenate(parts)[:count]


def number(name: str, mean: Any, std: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "mean": mean, "std": std, **more}
