"""Optimisers: they find what is better, within bounds, and the same way each time."""

from __future__ import annotations

import numpy as np
import pytest

from fairchain.repairing.search import Evolution, Points, Swarm, make_optimizer

TARGET = np.array([0.5, -0.3, 0.8, 0.0])


def far(points: Points) -> Points:
    """A long valley that is not along the axes."""
    moved = points - TARGET
    turned = np.stack([moved[:, 0] + moved[:, 1], moved[:, 0] - moved[:, 1], moved[:, 2] - moved[:, 3], moved[:, 3]], 1)
    distance: Points = (turned**2 * [100, 1, 10, 1]).sum(axis=1)
    return distance


def best_of(name: str, generations: int = 60, seed: int = 3) -> tuple[float, Points]:
    optimizer = make_optimizer(name, np.zeros(4), 0.2, seed)
    best, asked = np.inf, []
    for _ in range(generations):
        points = optimizer.ask()
        assert (np.abs(points) <= 1).all()
        asked.append(points)
        optimizer.tell(points, far(points))
        best = min(best, float(far(points).min()))
    return best, np.concatenate(asked)


@pytest.mark.parametrize("name", ["evolution", "pso"])
def test_each_finds_the_bottom_of_a_valley_and_repeats_itself(name: str) -> None:
    best, asked = best_of(name)
    assert best < 0.01 * float(far(np.zeros((1, 4)))[0])
    np.testing.assert_array_equal(asked, best_of(name)[1])
    assert not np.array_equal(asked, best_of(name, seed=4)[1])


def test_the_evolution_needs_fewer_candidates_than_the_swarm() -> None:
    evolved, moved = best_of("evolution", 40), best_of("pso", 40)
    assert len(evolved[1]) <= len(moved[1])
    assert evolved[0] < moved[0]


def test_the_swarm_begins_at_the_unchanged_network() -> None:
    swarm = Swarm(np.zeros(4), seed=0)
    assert not swarm.ask()[0].any()
    assert np.abs(swarm.ask()).max() > 0


def test_one_number_can_be_searched_for_too() -> None:
    search = Evolution(np.zeros(1), 0.2, 0)
    for _ in range(30):
        points = search.ask()
        search.tell(points, (points[:, 0] - 0.7) ** 2)
    assert abs(search.ask().mean() - 0.7) < 0.01


def test_many_numbers_are_searched_for_without_a_table_of_all_pairs() -> None:
    many = 300
    search, best = Evolution(np.zeros(many), 0.3, 0), []
    assert search._covariance.shape == (many,)
    for _ in range(60):
        points = search.ask()
        best.append(float(((points - 0.5) ** 2).sum(axis=1).min()))
        search.tell(points, ((points - 0.5) ** 2).sum(axis=1))
    assert best[-1] < 0.5 * best[0]
