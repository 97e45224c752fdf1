"""Formulas and reference groups: sampling, counting and enumeration agree with brute force, and so does the recheck.

Brute force is written down a second time with fractions, in the plainest way. At delta 1e-6 one of the few hundred
intervals of these tests misses the truth with a chance below 1e-3; seeds are fixed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain import Decision, Verdict, parse_spec, recheck, verify
from fairchain.certificates import make_certificate
from fairchain.statistics import BettingRule, Payoff, Tally, payoff_of
from fairchain.statistics.payoff import MOST_RATIO
from tests.networks import linear, save
from tests.questions import category, changed, integer, question, real
from tests.verification.exact import NAMES, POPULATIONS, Answers, Net, Person, World, names, random_net, random_world

Condition = tuple[str, Callable[[Person], bool]]
# As a formula writes them, and as Python decides them about (hours, job, sex, race).
CONDITIONS: tuple[Condition, ...] = (
    ("", lambda person: True),  # noqa: ARG005
    ("sex=s0", lambda person: person[2] == 0),
    ("sex == 's1' and race=r0", lambda person: person[2] == 1 and person[3] == 0),
    ("race=r1 and hours >= 1", lambda person: person[3] == 1 and person[0] >= 1),
    ("job='j0' or hours != 1", lambda person: person[1] == 0 or person[0] != 1),
    ("sex != s0 and (job == j1 or race == r0)", lambda person: person[2] != 0 and (person[1] == 1 or person[3] == 0)),
    ("not (sex == s0 and hours == 0) and hours in [0, 1]", lambda p: not (p[2] == 0 and p[0] == 0) and p[0] in (0, 1)),
)


@dataclass(frozen=True)
class Asked:
    """A question about a world: its property as a spec has it, and how to answer it from shares of people."""

    world: World
    net: Net
    labels: int
    property: dict[str, Any]
    measured: Callable[[dict[Person, Fraction]], Fraction]
    relative: bool

    def spec(self, path: Path, population: dict[str, Any], **guarantee: Any) -> dict[str, Any]:
        return {
            "model": {"path": str(path), "labels": [f"l{each}" for each in range(self.labels)]},
            "feature": self.world.features,
            "population": population,
            "property": self.property,
            "guarantee": guarantee,
        }


def rate(net: Net, shares: dict[Person, Fraction], holds: Callable[[Person], bool], label: int) -> Fraction:
    inside = {person: share for person, share in shares.items() if holds(person)}
    got = sum((share for person, share in inside.items() if net.decide(person) == label), start=Fraction(0))
    return got / sum(inside.values(), start=Fraction(0))


def possible(world: World, *conditions: Condition) -> bool:
    return all(any(holds(person) for person in world.shares) for _, holds in conditions)


def over(first: Fraction, second: Fraction) -> Fraction:
    if not second:
        return Fraction(MOST_RATIO) if first else Fraction(1)
    return min(first / second, Fraction(MOST_RATIO))


def random_formula(rng: np.random.Generator, population: str) -> Asked:
    """One of the canonical forms in one of the ways to write it, with a threshold near the truth or at it."""
    while True:
        world, labels = random_world(rng, population), int(rng.choice([2, 3]))
        net, label = random_net(rng, world, labels), int(rng.integers(labels))
        one, other = (CONDITIONS[place] for place in rng.choice(len(CONDITIONS), 2, replace=False))
        if possible(world, one, other):
            break
    x, y = (f"P({'Y=' * int(rng.integers(2))}l{label}{f' | {text}' if text else ''})" for text, _ in (one, other))

    def rates(shares: dict[Person, Fraction]) -> tuple[Fraction, Fraction]:
        return rate(net, shares, one[1], label), rate(net, shares, other[1], label)

    form = int(rng.integers(5))
    near = round(float(rng.uniform(-0.3, 0.3)), 2)
    first, second = rates(world.shares)
    if form == 0:
        c = Fraction(str(near)) if rng.random() < 0.5 or abs(first - second) >= 1 else first - second
        return Asked(world, net, labels, formula(f"{x} - {y} <= {c}"), lambda s: rates(s)[0] - rates(s)[1], False)
    if form == 1:
        text = f"{y} + {near} >= {x}" if near >= 0 else f"{x} <= {y} - {-near}"
        return Asked(world, net, labels, formula(text), lambda s: rates(s)[0] - rates(s)[1], False)
    if form == 2:
        text = f"|{x} - {y}| <= {abs(near) + 0.01:.2f}"
        return Asked(world, net, labels, formula(text), lambda s: abs(rates(s)[0] - rates(s)[1]), False)
    c = round(float(rng.uniform(0.5, 1.0)), 2)
    text = f"{x} / {y} >= {c}" if form == 3 else f"{y} / {x} <= {1 / Fraction(str(c))}"
    return Asked(world, net, labels, formula(text), lambda s: over(*rates(s)), True)


def formula(text: str) -> dict[str, Any]:
    return {"kind": "formula", "formula": text}


def random_reference(rng: np.random.Generator, population: str) -> Asked:
    """Every group against one of them, in one label, one-sided."""
    world, labels = random_world(rng, population), int(rng.choice([2, 3]))
    net, label, relative = random_net(rng, world, labels), int(rng.integers(labels)), bool(rng.random() < 0.5)
    protected = (("sex",), ("sex", "race"))[int(rng.integers(2))]
    asked = Answers(world, net, labels, protected, "ratio" if relative else "difference", outcome=label)
    groups = asked.groups()
    chosen = list(groups)[int(rng.integers(len(groups)))]
    mapping = dict(part.split("=") for part in chosen.split(" & "))
    written: Any = (chosen, mapping, " & ".join(reversed(chosen.split(" & "))))[int(rng.integers(3))]
    places = [NAMES.index(name) for name in protected]

    def measured(shares: dict[Person, Fraction]) -> Fraction:
        def of(group: tuple[int, ...]) -> Fraction:
            return rate(net, shares, lambda person: tuple(person[at] for at in places) == group, label)

        others = [of(group) for name, group in groups.items() if name != chosen]
        reference = of(groups[chosen])
        if relative:
            return min(over(other, reference) for other in others)
        return max(reference - other for other in others)

    prop = {
        "kind": asked.kind, "protected": list(protected), "outcome": f"l{label}", "reference": written,
        "threshold": round(float(rng.uniform(0.6, 0.95) if relative else rng.uniform(0.02, 0.3)), 2),
    }  # fmt: skip
    return Asked(world, net, labels, prop, measured, relative)


def random_question(number: int) -> tuple[np.random.Generator, Asked]:
    rng = np.random.default_rng(number)
    make = random_reference if number % 3 == 0 else random_formula
    return rng, make(rng, POPULATIONS[number // 3 % 4])


def is_right(verdict: Verdict, asked: Asked, truth: Fraction) -> None:
    spec = verdict.spec
    from fairchain.spec.properties import limit_of

    gap = 1 - truth if asked.relative else truth
    assert verdict.gap.low - 1e-9 <= float(truth) <= verdict.gap.high + 1e-9
    if verdict.decision is not Decision.UNDECIDED:
        assert (verdict.decision is Decision.FAIR) == (gap <= limit_of(spec))


def drawn_table(
    rng: np.random.Generator, world: World, rows: int
) -> tuple[dict[str, list[Any]], dict[Person, Fraction]]:
    """Rows drawn from the world, each kind of person at least once, and their shares."""
    everybody = [person for person, share in world.shares.items() if share]
    weights = np.array([float(world.shares[person]) for person in everybody])
    picked = [*range(len(everybody)), *rng.choice(len(everybody), rows, p=weights / weights.sum()).tolist()]
    people = [everybody[place] for place in picked]
    columns = {
        name: [person[at] if name == "hours" else names(name, world.sizes[at])[person[at]] for person in people]
        for at, name in enumerate(NAMES)
    }
    return columns, {person: Fraction(people.count(person), len(people)) for person in everybody}


@pytest.mark.no_cover
@pytest.mark.parametrize("first", range(0, 120, 12))
def test_sampling_counting_and_enumeration_agree_with_brute_force(first: int, tmp_path: Path) -> None:
    for number in range(first, first + 12):
        rng, asked = random_question(number)
        path = asked.net.save(tmp_path / f"{number}.onnx")
        truth, population = asked.measured(asked.world.shares), asked.world.population
        budget = {"rounds": 3000, "seconds": 60}
        sampled = parse_spec(asked.spec(path, population, delta=1e-6, engine="sampling", seed=number, budget=budget))
        is_right(verify(None, sampled, data=asked.world.table, workers=1), asked, truth)
        enumerated = parse_spec(asked.spec(path, population, engine="enumeration"))
        verdict = verify(None, enumerated, data=asked.world.table, workers=1)
        assert verdict.exact
        assert verdict.gap.estimate == pytest.approx(float(truth), abs=1e-12)
        is_right(verdict, asked, truth)
        table, shares = drawn_table(rng, asked.world, 120)
        counted = parse_spec(asked.spec(path, {"kind": "table", "as": "population"}))
        verdict = verify(None, counted, data=table, workers=1)
        of_rows = asked.measured(shares)
        assert verdict.gap.estimate == pytest.approx(float(of_rows), abs=1e-12)
        assert verdict.decision is not Decision.UNDECIDED
        is_right(verdict, asked, of_rows)


@pytest.mark.parametrize("number", range(0, 40))
def test_a_sample_of_rows_has_bounds_that_contain_the_truth_about_its_source(number: int, tmp_path: Path) -> None:
    rng, asked = random_question(1000 + number)
    path = asked.net.save(tmp_path / "network.onnx")
    everybody = [person for person, share in asked.world.shares.items() if share]
    weights = np.array([float(asked.world.shares[person]) for person in everybody])
    people = [everybody[place] for place in rng.choice(len(everybody), 600, p=weights / weights.sum())]
    table = {
        name: [person[at] if name == "hours" else names(name, asked.world.sizes[at])[person[at]] for person in people]
        for at, name in enumerate(NAMES)
    }
    spec = parse_spec(asked.spec(path, {"kind": "table", "as": "sample"}, delta=1e-6))
    is_right(verify(None, spec, data=table, workers=1), asked, asked.measured(asked.world.shares))


@pytest.mark.parametrize("number", range(0, 45))
def test_a_certificate_of_each_engine_is_confirmed(number: int, tmp_path: Path) -> None:
    rng, asked = random_question(2000 + number)
    path = asked.net.save(tmp_path / "network.onnx")
    engine = ("sampling", "enumeration", "population", "sample")[number % 4]
    data: Any = asked.world.table
    if engine in ("population", "sample"):
        data, _ = drawn_table(rng, asked.world, 150)
        spec = parse_spec(asked.spec(path, {"kind": "table", "as": engine}))
    else:
        budget = {"rounds": 2000}
        spec = parse_spec(asked.spec(path, asked.world.population, engine=engine, budget=budget, delta=1e-3))
    verdict = verify(None, spec, data=data, workers=1)
    (tmp_path / "certificate.json").write_text(json.dumps(make_certificate(verdict)))
    found = recheck(tmp_path / "certificate.json", path, data=data)
    assert found.conclusion == "CONFIRMED", [str(claim) for claim in found.claims if not claim.holds]


def test_a_forged_one_sided_number_is_rejected(tmp_path: Path) -> None:
    """The gap of a one-sided comparison may be negative, and is computed again as such."""
    path = save(linear([[1, 0], [0, 1]]), tmp_path / "network.onnx")
    data = question(integer("age"), category("sex", "F", "M"), path=str(path), protected=["sex"])
    data["property"] = formula("P(yes | sex=F) - P(yes | sex=M) <= 0.1")
    verdict = verify(None, parse_spec(changed(data, "guarantee.engine", "sampling")), seed=1)
    assert verdict.gap.estimate < 0 <= verdict.spec.property.threshold
    content = make_certificate(verdict)
    assert content["claims"]["gap"]["low"] < 0
    for key in ("estimate", "low", "high"):
        forged = json.loads(json.dumps(content))
        forged["claims"]["gap"][key] = 0.0
        (tmp_path / "certificate.json").write_text(json.dumps(forged))
        assert recheck(tmp_path / "certificate.json", path).conclusion == "REJECTED"


def test_a_condition_couples_the_inputs_of_a_round_where_it_can(tmp_path: Path) -> None:
    """Both groups see the same ages, so that a network that ignores sex never shows a difference."""
    path = save(linear([[1, 0], [0, 0]], [0, 4]), tmp_path / "network.onnx")
    data = question(integer("age"), category("sex", "F", "M"), path=str(path))
    data["property"] = formula("P(yes | sex=F and age >= 2) - P(yes | sex=M and age >= 2) <= 0.05")
    verdict = verify(None, parse_spec(changed(data, "guarantee.engine", "sampling")), seed=0)
    assert (verdict.decision, verdict.gap.estimate) == (Decision.FAIR, 0.0)
    assert verdict.rounds < 300


def test_a_condition_on_a_real_number_selects_the_inputs_that_satisfy_it(tmp_path: Path) -> None:
    """P(x > 0.5 | x > 0.2) = 5/8 and P(x > 0.5 | x <= 0.8) = 3/8: the groups overlap."""
    path = save(linear([[1.0], [0.0]], [-0.5], end="Identity"), tmp_path / "network.onnx")
    data = question(real("x"), category("sex", "F", "M"), path=str(path), decision="logit")
    data["property"] = formula("P(yes | x > 0.2) - P(yes | x <= 0.8) <= 0.2")
    verdict = verify(None, parse_spec(data), seed=3)
    assert verdict.decision is Decision.UNFAIR
    assert 0.25 in verdict.gap


def test_bounds_of_a_one_sided_ratio_go_beyond_two() -> None:
    """The ratio is 5: an interval that ended at 2, as that of the smaller over the larger rate may, would miss it."""
    compared = np.array([[[False, True], [False, False]]])
    payoff = payoff_of("ratio", compared)
    assert payoff == Payoff(relative=True, one_sided=True)
    rng, misses = np.random.default_rng(5), 0
    for payoff_used in (payoff, Payoff(relative=True)):
        for _ in range(20):
            rule = BettingRule(2, 1, 0.2, 0.05, compared=compared, payoff=payoff_used)
            for _ in range(6):
                plan = rule.plan()
                if plan is None:
                    break
                hits = np.stack([rng.random(800) < 0.1, rng.random(800) < 0.5])
                together = (hits.astype(int) @ hits.T.astype(int))[None]
                rule.observe(plan, Tally.of_batch(800, together, (0, 1), 2))
            _, low, high = rule.gap()
            misses += not 1 - high <= 5 <= 1 - low
        if payoff_used is payoff:
            assert misses <= 3
    assert misses >= 20


def test_a_one_sided_question_needs_no_more_rounds_than_the_two_sided_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    world = random_world(rng, "uniform")
    net = random_net(rng, world, 2)
    asked = Answers(world, net, 2, ("sex",), "difference", outcome=1)
    path = net.save(tmp_path / "network.onnx")
    both = asked.spec(path, 0.6, seed=1, engine="sampling")
    one = changed(both, "property.reference", "s0")
    pair = [verify(None, parse_spec(data), workers=1) for data in (both, one)]
    assert all(verdict.decision is Decision.FAIR for verdict in pair)
    assert pair[1].evaluations <= pair[0].evaluations
