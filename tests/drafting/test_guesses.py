"""Promises of the written file: it says what the draft says, loads as the same spec, and destroys nothing."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairchain.drafting import Draft, infer_spec, save_spec, write_spec
from fairchain.drafting.guesses import NOT_IN_TOML, comment, key, value
from fairchain.errors import SpecError
from fairchain.messages import EXISTS_ALREADY
from fairchain.spec import Spec, load_spec
from tests.drafting.builders import applicants, by_hours, draft, numbers, one_score, with_jobs
from tests.messages import says
from tests.tables.builders import write_csv

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(TEXTS, VALUES)
def test_toml_reads_back_whatever_is_written(name: str, item: Any) -> None:
    assert tomllib.loads(f"{key(name)} = {value(item)}") == {name: item}


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_comment_never_ends_early(text: str) -> None:
    assert tomllib.loads("\n".join(comment(text))) == {}


def test_what_toml_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match=says(NOT_IN_TOML, type="NoneType")):
        value(None)


def written(made: Draft, folder: Path) -> Spec:
    path = folder / "spec.toml"
    save_spec(made, path)
    return load_spec(path)


def without_paths(spec: Spec) -> Spec:
    population = spec.population
    if hasattr(population, "path"):
        population = replace(population, path=None)
    return replace(spec, model=replace(spec.model, path="m"), population=population)


@pytest.mark.parametrize("reading", ["sample", "population", "uniform"])
@pytest.mark.parametrize(
    ("people", "network", "wishes"),
    [
        (numbers(), by_hours(), {}),
        (numbers(), one_score("Sigmoid"), {"protected": ("age", "sex")}),
        (applicants(1000), with_jobs(8, 1, {5: 15, 6: 15}), {"outcome": "no", "threshold": 0.05}),
        (applicants(), None, {}),
        ({**numbers(), "age": [0.1] * 399 + [None]}, by_hours(), {}),
        ({**numbers(), "hired": [1, 2] * 200}, None, {}),
    ],
)
def test_the_file_is_the_draft(tmp_path: Path, people: Any, network: Any, wishes: Any, reading: Any) -> None:
    made = draft(people, network, reading=reading, **wishes)
    assert without_paths(written(made, tmp_path)) == without_paths(made.spec)


def test_every_guess_stands_in_a_comment() -> None:
    people = applicants(1000)
    people["age"][:5] = [None] * 5
    people["sex"][5:8] = ["X"] * 3
    made = draft(people, with_jobs(4, 1, {3: 0.01}))
    text = " ".join(line.removeprefix("# ") for line in write_spec(made).splitlines())
    assert made.warnings
    assert len(made.guesses) >= 9
    for guess in made.guesses:
        assert guess.text in text
        assert (f"WARNING: {guess.text}" in text) == guess.loud


def test_odd_names_survive(tmp_path: Path) -> None:
    people = {
        'a "quoted"\tname': [1, 2] * 40,
        "sex # or so": ["männlich", 'w"', "d\\n"] * 26 + ["d\\n"] * 2,
        "= hired": ["no\u202e", "yes"] * 40,
    }
    made = draft(people, label="= hired")
    assert without_paths(written(made, tmp_path)) == without_paths(made.spec)
    assert "\u202e" not in (tmp_path / "spec.toml").read_text(encoding="utf-8")


def test_paths_are_seen_from_the_file(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    network = home / "network.onnx"
    network.write_bytes(by_hours())
    table = write_csv(home / "people.csv", numbers())
    made = draft(str(table), network)
    save_spec(made, elsewhere / "spec.toml")
    spec = load_spec(elsewhere / "spec.toml")
    assert 'path = "../home/network.onnx"' in (elsewhere / "spec.toml").read_text()
    assert spec.model.path is not None
    assert Path(spec.model.path).read_bytes() == by_hours()
    assert Path(spec.population.path).resolve() == table.resolve()  # type: ignore[union-attr,arg-type]


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text("mine")
    made = draft(numbers(), by_hours())
    with pytest.raises(SpecError, match=says(EXISTS_ALREADY)):
        save_spec(made, path)
    assert path.read_text() == "mine"
    save_spec(made, path, force=True)
    assert load_spec(path).property == made.spec.property
    assert [each.name for each in tmp_path.iterdir()] == ["spec.toml"]


@pytest.mark.parametrize(
    ("name", "words"), [("no/spec.toml", "a folder that exists"), ("spec.json", "written as TOML"), (".", "TOML")]
)
def test_a_place_that_cannot_be_is_refused(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        save_spec(draft(numbers(), by_hours()), tmp_path / name)


@settings(max_examples=25, deadline=None)
@given(
    st.dictionaries(
        st.text("abcxyz -_\"'#.", min_size=1, max_size=6).filter(lambda name: name == name.strip()),
        st.sampled_from(["whole", "real", "text", "gaps", "constant", "flags"]),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 2**16),
)
def test_any_table_gives_a_spec_that_loads_as_itself(kinds: dict[str, str], seed: int) -> None:
    random = np.random.default_rng(seed)
    make: dict[str, Any] = {
        "whole": lambda: random.integers(-50, 2000, 60).tolist(),
        "real": lambda: random.normal(size=60).tolist(),
        "text": lambda: random.choice(["a", "b c", "?", '"'], 60).tolist(),
        "gaps": lambda: [None, *random.integers(0, 9, 59).tolist()],
        "constant": lambda: [0.5] * 60,
        "flags": lambda: [bool(each) for each in random.integers(0, 2, 60)],
    }
    people = {name: make[kind]() for name, kind in kinds.items()}
    people |= {"sex": random.choice(["F", "M"], 60).tolist(), "label": random.choice(["no", "yes"], 60).tolist()}
    made = draft(people)
    text = write_spec(made)
    from fairchain.spec import parse_spec

    assert parse_spec(tomllib.loads(text)) == made.spec
    assert infer_spec(people) == made.spec
