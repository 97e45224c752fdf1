"""The worst subgroup: exact on a population, certified on a sample, and never the largest estimate alone."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks.parts.subgroups import PLANTED, search, table
from fairchain import SpecError, find_subgroups
from fairchain.examples import example
from fairchain.spec import Spec, parse_spec
from tests.cli.command import Cli

CENSUS = example("census")


def question(reading: str = "sample", **about: Any) -> Spec:
    return parse_spec(
        {
            "model": {"labels": ["no", "yes"]},
            "feature": [
                {"name": "sex", "kind": "category", "values": ["F", "M"]},
                {"name": "race", "kind": "category", "values": ["a", "b", "c"]},
            ],
            "property": {"kind": "difference", "protected": ["sex", "race"], "threshold": 0.1, **about},
            "population": {"kind": "table", "as": reading, "prediction": "hired"},
            "guarantee": {"delta": 0.05},
        }
    )


def people(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Rows in which women of race b are hired less often."""
    rng = np.random.default_rng(seed)
    sex, race = rng.choice(["F", "M"], count), rng.choice(["a", "b", "c"], count)
    hired = rng.random(count) < np.where((sex == "F") & (race == "b"), 0.2, 0.6)
    return {"sex": sex.tolist(), "race": race.tolist(), "hired": np.where(hired, "yes", "no").tolist()}


def test_a_population_is_counted_exactly() -> None:
    rows = people(600)
    found = find_subgroups(None, question("population"), data=rows)
    assert found.method == "exact"
    assert found.delta == 0
    assert found.candidates == 2 + 3 + 6
    worst = found.subgroups[0]
    assert worst.name == "sex=F & race=b"
    inside = np.array([s == "F" and r == "b" for s, r in zip(rows["sex"], rows["race"], strict=True)])
    hired = np.array(rows["hired"]) == "yes"
    assert worst.estimate == worst.low == worst.high == hired[inside].mean() - hired[~inside].mean()
    assert found.verdict == "UNFAIR"
    assert list(found.subgroups) == sorted(found.subgroups, key=lambda each: -abs(each.estimate))


def test_a_sample_certifies_the_subgroup_and_small_ones_are_passed_over() -> None:
    found = find_subgroups(None, question(), data=people(4000))
    assert found.method == "simultaneous"
    assert found.subgroups[0].name == "sex=F & race=b"
    assert found.subgroups[0].certified
    few = find_subgroups(None, question(), data=people(4000), min_size=0.3)
    assert few.small == 6
    assert all(each.share >= 0.3 for each in few.subgroups)


@pytest.mark.parametrize(("top", "delta", "most"), [(1, 0.5, 45), (10, 0.2, 24)])
def test_intervals_hold_together_where_nothing_is_planted(top: int, delta: float, most: int) -> None:
    # 11 candidates, of which every gap is 0; the one of a single listed subgroup comes from a fresh half. More than
    # `most` wrong searches of 60 have a chance below 2e-4 if each is wrong with probability delta.
    wrong = 0
    for seed in range(60):
        rng = np.random.default_rng(10_000 + seed)
        rows = people(400, seed) | {"hired": rng.choice(["yes", "no"], 400).tolist()}
        found = find_subgroups(None, question(), data=rows, delta=delta, top=top, threshold=0.05)
        assert found.method == ("fresh half" if top == 1 else "simultaneous")
        wrong += any(not each.low <= 0 <= each.high for each in found.subgroups)
    assert wrong <= most


def test_a_search_without_the_union_is_caught() -> None:
    # The naive search takes the largest estimate with its own interval: among 889 subgroups it is nearly always wrong.
    found = [search(20_000 + seed, planted=False) for seed in range(2)]
    for each in found:
        widest = each.subgroups[0]
        error = np.sqrt(0.25 / widest.size)
        assert abs(widest.estimate) > 2 * error
        assert widest.low <= 0 <= widest.high


def test_a_planted_subgroup_is_found_among_hundreds() -> None:
    found = search(3, planted=True)
    assert found.candidates == 889
    assert found.subgroups[0].name == " & ".join(f"f{f}=f{f}{v}" for f, v in sorted(PLANTED))
    assert found.subgroups[0].certified
    assert abs(found.subgroups[0].share - 0.02) < 0.005
    assert len(table(3, planted=True)["y"]) == found.inputs


def test_drawn_inputs_have_one_seed_for_one_question() -> None:
    one, two = (find_subgroups(None, CENSUS, protected=["sex", "race"], inputs=20_000, delta=0.01) for _ in range(2))
    assert one.subgroups == two.subgroups
    assert one.verdict == "FAIR"
    assert one.evaluations == 20_000
    other = find_subgroups(None, CENSUS, protected=["race"], depth=1, inputs=20_000, delta=0.01)
    assert other.seed != one.seed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 3}, "from 1 to 2"),
        ({"protected": ["height"]}, "height"),
        ({"top": 0}, "top"),
        ({"outcome": "maybe"}, "maybe"),
    ],
)
def test_bad_questions_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        find_subgroups(None, question(), data=people(100), **options)


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    cli = Cli(monkeypatch, capsys)
    arguments = ["subgroups", CENSUS, "--protected", "sex", "--protected", "race", "--inputs", 20000, "--delta", 0.01]
    code, out, _ = cli(*arguments, "--json")
    assert code == 0
    assert json.loads(out)["candidates"] == 17
    assert "subgroups searched" in cli(*arguments)[1]


def test_one_protected_feature_is_searched_without_a_depth() -> None:
    found = find_subgroups(None, example("credit"), inputs=2_000)
    assert found.depth == 1
