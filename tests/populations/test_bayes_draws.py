"""Promises of the draws of `population.bayes`: the same bytes for the same seed, whoever asks, in whatever order."""

from __future__ import annotations

import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fairchain.errors import SpecError
from fairchain.populations import Scratch
from fairchain.populations.bayes import graph
from fairchain.populations.bayes.population import NOT_BAYESIAN_NETWORK, BayesPopulation
from fairchain.spec import parse_spec
from tests.messages import says
from tests.populations.towns import FEATURES, JOB, RACE, SEX, TOWN, number, population, town
from tests.questions import question, real

GOLDEN_ROWS = [[2, 0, 40, 0], [0, 0, 0, 0], [0, 0, 40, 0]]
GOLDEN_HASH = "c9ecb2b945732eaf49d57487d6b04d402c64070280a488b560765a03f02ce81a"
GOLDEN_NUMBERS = [1.2904500814844857, 4.169609888123318, 3.422176791304348]


def test_the_draws_of_a_chunk_are_pinned() -> None:
    """Certificates are checked by drawing again: a change here would make every one of them uncheckable."""
    shown = town(("race", "sex")).rounds(42, 7, 100, copy=1).inputs(range(5))
    assert shown[:3].tolist() == GOLDEN_ROWS
    assert hashlib.sha256(shown.astype("<f8").tobytes()).hexdigest() == GOLDEN_HASH
    nodes = [{"name": "sex", "probabilities": [0.5, 0.5]}, number("x", 1.0, 2.0)]
    x = population(nodes, real("x", -90, 90), SEX).rounds(42, 7, 3).show(0)[:, 0]
    assert x == pytest.approx(GOLDEN_NUMBERS, rel=1e-12)


def test_the_same_chunk_is_the_same_bytes_whatever_was_drawn_before_and_by_whom() -> None:
    fresh = town().rounds(5, 3, 500).inputs([0, 2, 1]).tobytes()
    used = town()

    def work(chunk: int) -> bytes:
        scratch = Scratch()
        for count in (7, 3000, 1):
            used.rounds(5, chunk, count, scratch=scratch).show(chunk % 3)
        return used.rounds(5, 3, 500, scratch=scratch).inputs([0, 2, 1]).tobytes()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(work, range(12))) == {fresh}


def test_seeds_chunks_and_copies_differ() -> None:
    drawn = town()
    places = [(seed, chunk, copy) for seed in (1, 2) for chunk in (0, 1) for copy in (0, 1)]
    assert len({drawn.rounds(seed, chunk, 50, copy).inputs([0]).tobytes() for seed, chunk, copy in places}) == 8


def test_any_choice_of_subgroups_shows_the_same_people() -> None:
    rounds = town(("race", "sex")).rounds(9, 9, 40)
    everyone = rounds.inputs(range(5)).reshape(5, 40, 4)
    assert np.array_equal(rounds.inputs([4, 1, 1]).reshape(3, 40, 4), everyone[[4, 1, 1]])
    assert np.array_equal(rounds.show(3), everyone[3])


def test_single_precision_is_the_double_precision_rounded() -> None:
    nodes = [*TOWN[:4], number("hours", {"Female": 30.1, "Male": 40.2}, 9.0, parents=["sex"])]
    single, double = (
        population(nodes, JOB, RACE, real("hours", 0, 80), SEX, dtype=kind).rounds(2, 2, 500).inputs([0, 1])
        for kind in ("f4", "f8")
    )
    assert np.array_equal(single, double.astype(np.float32))


def test_nodes_that_no_feature_depends_on_change_nothing() -> None:
    idle = {"name": "idle", "parents": ["sex"], "values": ["u", "v"],
            "probabilities": {"Female": [0.5, 0.5], "Male": [0.1, 0.9]}}  # fmt: skip
    drawn = population([idle, *TOWN], *FEATURES)
    assert np.array_equal(drawn.rounds(1, 1, 99).show(0), town().rounds(1, 1, 99).show(0))
    assert str(drawn) == "the Bayesian network stated in the spec (6 nodes) over the 4 declared features"


def test_the_order_in_which_a_node_lists_a_categorys_values_changes_nothing() -> None:
    turned = [dict(node) for node in TOWN]
    turned[0] |= {
        "values": ["good", "none", "some"],
        "probabilities": {key: [row[2], row[0], row[1]] for key, row in TOWN[0]["probabilities"].items()},
    }
    drawn = population(turned, *FEATURES)
    assert np.array_equal(drawn.rounds(1, 1, 999).show(0), town().rounds(1, 1, 999).show(0))


def test_a_network_from_a_file_is_drawn_as_the_same_network_stated(tmp_path: Path) -> None:
    path = tmp_path / "people.json"
    path.write_bytes(msgspec.json.encode({"nodes": TOWN}))
    spec = parse_spec(question(*FEATURES) | {"population": {"kind": "network", "path": str(path)}})
    drawn = BayesPopulation(spec, town().subgroups, np.float64)
    assert str(drawn) == "the Bayesian network people.json (5 nodes) over the 4 declared features"
    assert np.array_equal(drawn.rounds(1, 1, 99).inputs(range(3)), town().rounds(1, 1, 99).inputs(range(3)))
    path.write_bytes(msgspec.json.encode({"nodes": TOWN[1:]}))
    with pytest.raises(SpecError, match=re.escape(f'{path}: node "job" is missing, and every feature must be a node')):
        BayesPopulation(spec, town().subgroups)
    path.write_text(path.read_text().replace('{"name"', '{"name":"other","name"', 1))
    with pytest.raises(SpecError, match=re.escape(f'{path}: not valid JSON: the key "name" occurs twice')):
        BayesPopulation(spec, town().subgroups)


def test_a_group_with_probability_0_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [{"name": "sex", "probabilities": [0.0, 1.0]}, {"name": "race", "probabilities": [0.5, 0.5]}]
    expected = 'population.nodes: group "race=a & sex=Female" has probability 0; '
    for most, remedy in ((200_000, "set property.min_size"), (1, "leave it out of the feature's groups")):
        monkeypatch.setattr(graph, "MOST_COMBINATIONS", most)
        with pytest.raises(SpecError, match=expected + remedy):
            population(nodes, RACE, SEX, protected=["race", "sex"])


def test_subgroups_of_the_same_group_show_the_same_people() -> None:
    drawn = town()
    doubled = BayesPopulation(_spec_of_town(), [*drawn.subgroups, *drawn.subgroups])
    shown = doubled.rounds(1, 1, 50).inputs(range(6)).reshape(2, 3, 50, 4)
    assert (shown[0] == shown[1]).all()
    assert doubled.shares() == 2 * drawn.shares()  # type: ignore[operator]


def _spec_of_town() -> Any:
    return parse_spec(question(*FEATURES) | {"population": {"kind": "network", "nodes": TOWN}})


def test_another_kind_of_population_is_refused() -> None:
    with pytest.raises(SpecError, match=says(NOT_BAYESIAN_NETWORK)):
        BayesPopulation(parse_spec(question()), [])
