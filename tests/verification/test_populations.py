"""Populations as a verdict sees them: intervals contain what can be computed by hand, and a seed says everything."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from fairchain import Decision, OnnxModel, Spec, parse_spec, verify
from fairchain.certificates import make_certificate
from fairchain.errors import SpecError
from fairchain.populations import build_population
from fairchain.populations.bayes.population import GROUP_HAS_PROBABILITY_ZERO
from fairchain.spec import comparison_of
from fairchain.verification.verdict import RunRecord
from tests.messages import says
from tests.networks import linear, save
from tests.questions import category, changed, integer, question, real
from tests.verification.exact import Answers, Net, World, floats, random_net, shares_of
from tests.verification.test_properties import contains_the_truth

# How many seeds each question is asked with.
SEEDS = {"difference": 100, "ratio to everybody": 30}


def hidden_world() -> World:
    """town -> sex, (town, sex) -> job, job -> hours, race: a Bayesian network with a node that is no feature."""
    rng = np.random.default_rng(11)
    sizes = (3, 3, 2, 2)
    town, race = shares_of(rng, 3), shares_of(rng, 2)
    sex = {t: shares_of(rng, 2) for t in range(3)}
    job = {(t, s): shares_of(rng, 3) for t in range(3) for s in range(2)}
    hours = {j: shares_of(rng, 3) for j in range(3)}
    shares: dict[tuple[int, ...], Fraction] = {}
    for h, j, s, r in product(*map(range, sizes)):
        shares[h, j, s, r] = sum(
            (town[t] * sex[t][s] * job[t, s][j] * hours[j][h] * race[r] for t in range(3)), start=Fraction(0)
        )
    nodes = [
        {"name": "town", "values": ["north", "south", "west"], "probabilities": floats(town)},
        {"name": "sex", "parents": ["town"], "probabilities": {n: floats(sex[t]) for t, n in enumerate(TOWNS)}},
        {
            "name": "job",
            "parents": ["town", "sex"],
            "probabilities": {f"{n}, s{s}": floats(job[t, s]) for t, n in enumerate(TOWNS) for s in range(2)},
        },
        {"name": "hours", "parents": ["job"], "probabilities": {f"j{j}": floats(law) for j, law in hours.items()}},
        {"name": "race", "probabilities": floats(race)},
    ]
    return World(sizes, shares, {"kind": "network", "nodes": nodes})


TOWNS = ("north", "south", "west")
WORLD = hidden_world()
NET: Net = random_net(np.random.default_rng(3), WORLD, 3)
QUESTIONS: dict[str, dict[str, Any]] = {
    "difference": {"kind": "difference", "protected": ("sex",)},
    "ratio to everybody": {"kind": "ratio", "protected": ("sex", "race"), "compare": "overall"},
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_intervals_contain_the_exact_probabilities_of_a_bayesian_network_with_every_seed(
    name: str, tmp_path: Path
) -> None:
    """100 seeds at delta 1e-3; they are fixed, and others would all do with a chance of at least 0.8."""
    asked = Answers(world=WORLD, net=NET, labels=3, **QUESTIONS[name])
    path = NET.save(tmp_path / "network.onnx")
    threshold = min(max(round(float(asked.measured()), 2), 0.01), 0.99)
    spec = parse_spec(asked.spec(path, threshold, engine="sampling", delta=1e-3, budget={"rounds": 200}))
    model, truth = OnnxModel(path, spec), asked.numbers()
    for seed in range(SEEDS[name]):
        contains_the_truth(verify(model, spec, seed=seed, workers=1), truth)


def test_a_network_in_a_file_is_the_same_population_as_one_in_the_spec(tmp_path: Path) -> None:
    path = save(linear([[1, 0], [0, 1]]), tmp_path / "network.onnx")
    (tmp_path / "people.bif").write_text(
        "network people {}\n"
        "variable sex { type discrete [2] { Female, Male }; }\n"
        "variable job { type discrete [2] { no, yes }; }\n"
        "probability (sex) { table 0.3, 0.7; }\n"
        "probability (job | sex) { (Female) 0.6, 0.4; (Male) 0.1, 0.9; }\n"
    )
    nodes = [
        {"name": "sex", "probabilities": [0.3, 0.7]},
        {"name": "job", "parents": ["sex"], "probabilities": {"Female": [0.6, 0.4], "Male": [0.1, 0.9]}},
    ]
    data = question(category("job", "no", "yes"), category("sex", "Female", "Male"), path=str(path))
    found = []
    for people in ({"path": str(tmp_path / "people.bif")}, {"nodes": nodes}):
        verdict = verify(None, parse_spec({**data, "population": {"kind": "network", **people}}), seed=0)
        found.append((verdict.decision, verdict.gap, make_certificate(verdict)["evidence"]))
    assert found[0] == found[1]


def test_numbers_of_a_bayesian_network_have_their_conditional_distribution(tmp_path: Path) -> None:
    """skill ~ N(0, 1) held in [-1, 1]; score ~ N(skill, 1): P(score > 0 | skill below or above 0.5) by integration.

    The protected node is a number, so people are drawn until one of the group comes. Ten seeds at delta 1e-3.
    """
    data = question(
        real("score", -9, 9),
        real("skill", -1, 1, groups={"low": [-1, 0.5], "high": [0.5, 1]}),
        path=str(save(linear([[0, 1], [0, 0]]), tmp_path / "network.onnx")),
    )
    nodes = [
        {"name": "skill", "mean": 0, "std": 1},
        {"name": "score", "parents": ["skill"], "mean": 0, "std": 1, "slopes": {"skill": 1}},
    ]
    data["population"] = {"kind": "network", "nodes": nodes}
    data["guarantee"] = {"engine": "sampling", "delta": 1e-3, "budget": {"rounds": 2000}}
    spec = parse_spec(data)

    def density(s: float) -> float:
        return math.exp(-s * s / 2) / math.sqrt(2 * math.pi)

    def within(low: float, high: float) -> float:
        return float(quad(lambda s: density(s) * ndtr(s), low, high)[0])

    outside = ndtr(-1.0)
    truth = {
        "skill=low": (outside * ndtr(-1.0) + within(-1, 0.5)) / ndtr(0.5),
        "skill=high": (outside * ndtr(1.0) + within(0.5, 1)) / (1 - ndtr(0.5)),
    }
    for seed in range(10):
        verdict = verify(None, spec, seed=seed)
        for group in verdict.groups:
            if group.outcome == "yes":
                assert truth[group.name] in group.probability
        assert truth["skill=high"] - truth["skill=low"] in verdict.gap


def draw(rng: np.random.Generator, count: int) -> dict[str, Any]:
    """People whose job depends on their sex."""
    sex = rng.integers(0, 2, count)
    job = sex + rng.integers(0, 2, count)
    return {
        "hours": rng.integers(0, 3, count),
        "job": np.array(["j0", "j1", "j2"])[job],
        "sex": np.array(["s0", "s1"])[sex],
    }


FEATURES = [integer("hours", 0, 2), category("job", "j0", "j1", "j2"), category("sex", "s0", "s1")]
ROWS = {
    "hours": [0, 1, 2, 1, 0, 2, 2],
    "job": ["j0", "j1", "j2", "j1", "j1", "j0", "j2"],
    "sex": ["s0", "s1", "s1"] * 2 + ["s0"],
}
NODES = [
    {"name": "sex", "probabilities": [0.4, 0.6]},
    {"name": "job", "parents": ["sex"], "probabilities": {"s0": [0.2, 0.5, 0.3], "s1": [0.6, 0.2, 0.2]}},
    {
        "name": "hours",
        "parents": ["job"],
        "probabilities": {"j0": [0.1, 0.8, 0.1], "j1": [0.3, 0.3, 0.4], "j2": [1, 0, 0]},
    },
]
DRAWN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "uniform": ({"kind": "uniform"}, {}),
    "marginals": ({"kind": "marginals", "path": "people.csv"}, {"data": ROWS}),
    "stated": ({"kind": "marginals", "frequencies": {"job": {"j0": 0.2, "j2": 0.8}}}, {}),
    "network": ({"kind": "network", "nodes": NODES}, {}),
    "callable": ({"kind": "callable"}, {"population": draw}),
}
ASKED: dict[str, dict[str, Any]] = {
    "difference": {},
    "given": {"given": "hours >= 1 or job != 'j0' or sex == 's1'"},
    "average": {"compare": "average"},
    "individual": {"kind": "individual"},
}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    weights = [[0, 1], [0, -2], [0, 1]]
    return save(linear(weights, [0.25, 0]), tmp_path_factory.mktemp("model") / "network.onnx")


def asked_of(network: Path, population: str, **asked: Any) -> dict[str, Any]:
    data = question(*FEATURES, path=str(network))
    data["property"] |= asked
    return data | {"population": DRAWN[population][0]}


PAIRED = [("difference", population) for population in DRAWN]
PAIRED += [("given", "uniform"), ("average", "network"), ("individual", "network")]


@pytest.mark.parametrize(("asked", "population"), PAIRED)
def test_the_same_seed_gives_the_same_tallies_whatever_the_workers(asked: str, population: str, network: Path) -> None:
    """The threshold is the gap, so that batches grow to several chunks each, and workers have something to share."""
    data, extra = asked_of(network, population, **ASKED[asked]), DRAWN[population][1]
    model = OnnxModel(network, parse_spec(data))
    quick = parse_spec(changed(data, "guarantee", {"engine": "sampling", "delta": 1e-60, "budget": {"rounds": 1500}}))
    gap = verify(model, quick, seed=5, workers=1, **extra).gap.estimate
    data["guarantee"] = {"engine": "sampling", "delta": 1e-60, "budget": {"rounds": 12_000}}
    near = parse_spec(changed(data, "property.threshold", min(max(round(gap, 3), 0.01), 0.99)))

    def tallies(spec: Spec, **options: Any) -> list[Any]:
        record = verify(model, spec, **options, **extra).evidence
        assert isinstance(record, RunRecord)
        return [(plan, batch.rounds, batch.together.tolist()) for plan, batch in record.entries]

    alone = tallies(near, workers=1, seed=5)
    assert max(rounds for _, rounds, _ in alone) > 1024
    assert alone == tallies(near, workers=2, seed=5) == tallies(near, workers=3, seed=5)
    assert tallies(quick, seed=5) != tallies(quick, seed=6)


@pytest.mark.parametrize("population", ["network", "callable"])
def test_individual_changes_nothing_but_the_protected_feature(population: str, tmp_path: Path) -> None:
    """The network looks at the job only, which depends on sex: groups differ, and yet nobody's decision changes."""
    path = save(linear([[0, 0], [0, 1], [0, 0]], [0.5, 0]), tmp_path / "network.onnx")
    extra = DRAWN[population][1]
    groups = verify(None, parse_spec(asked_of(path, population)), **extra)
    assert groups.decision is Decision.UNFAIR
    changes = verify(None, parse_spec(asked_of(path, population, kind="individual")), **extra)
    assert changes.decision is Decision.FAIR
    assert changes.gap.estimate == 0
    assert changes.witnesses == ()


def _by_marginals(ages: list[float]) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"kind": "marginals", "path": "people.csv"}, {"data": {"hours": [0] * len(ages), "age": ages}}


def _by_function(ages: list[float]) -> tuple[dict[str, Any], dict[str, Any]]:
    def people(rng: np.random.Generator, count: int) -> dict[str, Any]:
        return {"hours": np.zeros(count), "age": rng.choice(ages, count)}

    return {"kind": "callable"}, {"function": people}


@pytest.mark.parametrize("by", [_by_marginals, _by_function])
def test_people_on_the_border_of_two_real_ranges_belong_to_the_one_that_begins(
    by: Callable[[list[float]], tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    """As rows of a table do: nobody is in two groups."""
    from fairchain.tables import encode_rows, read_table

    population, extra = by([20.0, 25.0, 25.0, 30.0])
    data = question(integer("hours"), real("age", 17, 40, groups={"young": [17, 25], "old": [25, 40]}))
    spec = parse_spec({**data, "population": population})
    if "data" in extra:
        extra = {"rows": encode_rows(read_table(extra["data"]), spec)}
    drawn = build_population(spec, comparison_of(spec).subgroups, np.float64, **extra).rounds(0, 0, 400)
    young, old = (set(drawn.show(subgroup)[:, 1].tolist()) for subgroup in (0, 1))
    assert (young, old) == ({20.0}, {25.0, 30.0})


def test_a_group_below_the_least_share_is_left_out_and_named(network: Path) -> None:
    data = asked_of(network, "network", protected=["job"], min_size=0.28)
    verdict = verify(None, parse_spec(data))
    shares = {"job=j0": 0.4 * 0.2 + 0.6 * 0.6, "job=j1": 0.4 * 0.5 + 0.6 * 0.2, "job=j2": 0.4 * 0.3 + 0.6 * 0.2}
    assert [name for name, _ in verdict.left_out] == ["job=j2"]
    assert dict(verdict.left_out)["job=j2"] == pytest.approx(shares["job=j2"])
    assert {group.name for group in verdict.groups} == {"job=j0", "job=j1"}


def test_a_group_with_probability_0_in_a_network_is_left_out_like_any_small_one(network: Path) -> None:
    data = asked_of(network, "network", protected=["job"])
    nodes = [NODES[0], {"name": "job", "parents": ["sex"], "probabilities": {"s0": [0.5, 0.5, 0], "s1": [0.2, 0.8, 0]}}]
    data["population"] = {"kind": "network", "nodes": [*nodes, NODES[2]]}
    with pytest.raises(SpecError, match=says(GROUP_HAS_PROBABILITY_ZERO, name="job=j2")):
        verify(None, parse_spec(data))
    verdict = verify(None, parse_spec(changed(data, "property.min_size", 0.01)))
    assert verdict.left_out == (("job=j2", 0.0),)
    assert {group.name for group in verdict.groups} == {"job=j0", "job=j1"}


def test_a_network_that_was_read_from_a_file_is_called_by_its_name(network: Path, tmp_path: Path) -> None:
    (tmp_path / "people.json").write_bytes(msgspec.json.encode({"nodes": NODES}))
    data = asked_of(network, "network")
    data["population"] = {"kind": "network", "path": str(tmp_path / "people.json")}
    assert "the Bayesian network people.json" in verify(None, parse_spec(data)).statement
    data["population"]["name"] = "town"
    assert "the Bayesian network town" in verify(None, parse_spec(data)).statement


@pytest.mark.parametrize("population", ["uniform", "network"])
def test_a_least_share_can_be_asked_for_whatever_is_measured(population: str, network: Path) -> None:
    verdict = verify(
        None, parse_spec(asked_of(network, population, kind="individual", protected=["job"], min_size=0.28))
    )
    assert [name for name, _ in verdict.left_out] == (["job=j2"] if population == "network" else [])


def test_rows_that_give_no_frequencies_are_mentioned(network: Path) -> None:
    data = asked_of(network, "marginals")
    table = ROWS | {"hours": [None, *ROWS["hours"][1:]]}
    verdict = verify(None, parse_spec(changed(data, "population.drop_missing", True)), data=table)
    assert any("1 of " in note and "was left out, as a value is missing" in note for note in verdict.notes)


def test_a_share_of_nothing_is_not_called_rows(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fairchain.cli.verdict_display import show_verdict

    data = asked_of(network, "stated", protected=["job"], min_size=0.1)
    show_verdict(verify(None, parse_spec(data)))
    assert "job=j1 (share 0)" in capsys.readouterr().out


def test_the_seed_and_the_population_are_said_in_the_statement(network: Path) -> None:
    for population, words in {
        "uniform": "independent uniform inputs",
        "stated": "stated frequencies of job",
        "network": "the Bayesian network stated in the spec",
        "callable": "the Python function draw",
    }.items():
        verdict = verify(None, parse_spec(asked_of(network, population)), seed=9, **DRAWN[population][1])
        assert words in verdict.statement
        assert "seed 9" in verdict.scope


def test_two_groups_that_never_get_an_outcome_have_no_ratio(tmp_path: Path) -> None:
    """Nothing can be shown about it: UNDECIDED, with the whole range as interval."""
    path = save(linear([[0, 0]] * 3, [1, 0]), tmp_path / "network.onnx")
    data = changed(
        asked_of(path, "uniform", kind="ratio", threshold=0.8, outcome="yes"), "guarantee.budget.rounds", 500
    )
    verdict = verify(None, parse_spec(data))
    assert verdict.decision is Decision.UNDECIDED
    assert (verdict.gap.low, verdict.gap.high) == pytest.approx((0, 1), abs=1e-9)
    assert verdict.forecast is None
