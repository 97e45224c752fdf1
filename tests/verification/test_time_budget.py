"""Promises about `budget.seconds`: it is for the whole answer, from loading the model to the bounds of many pairs.

Time is simulated: a clock goes on by what each step of the work is said to cost. No test depends on the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fairchain
from fairchain import prepare
from fairchain.executors import workers
from fairchain.spec import parse_spec
from fairchain.statistics import BettingRule, Tally
from fairchain.verification import sampling, verifier

GROUPS, LABELS, SECONDS = 20, 5, 10.0
PAIRS = GROUPS * GROUPS * LABELS


class SimulatedClock:
    """Takes the place of the module `time`."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def costs(self, function: Callable[..., Any], seconds: Callable[..., float]) -> Callable[..., Any]:
        """Return the function, with this price for each call."""

        def paid(*given: Any, **options: Any) -> Any:
            self.now += seconds(*given)
            return function(*given, **options)

        return paid


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimulatedClock:
    made = SimulatedClock()
    for module in (prepare, sampling, verifier, workers):
        monkeypatch.setattr(module, "time", made)
    return made


def question() -> Any:
    return parse_spec(
        {
            "model": {"labels": [f"l{i}" for i in range(LABELS)], "decision": "label", "codes": list(range(LABELS))},
            "feature": [
                {"name": "g", "kind": "category", "values": [f"g{i}" for i in range(GROUPS)]},
                {"name": "x", "kind": "real", "low": 0, "high": 1},
            ],
            # At the threshold, so that no run comes to an end by itself.
            "property": {"protected": ["g"], "kind": "difference", "threshold": 0.1},
            "guarantee": {"budget": {"rounds": 1e9, "seconds": SECONDS}},
        }
    )


def decide(rows: Any) -> Any:
    moved = np.where((rows[:, 0] == 0) & (rows[:, 1] < 0.1), 0.25, 0.0)
    return np.minimum(((rows[:, 1] + moved) % 1 * LABELS).astype(int), LABELS - 1)


def spent(clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch, row: float, look: float, bounds: float) -> Any:
    """Return a verdict, with prices for a row and, each for one pair, for a look and for the bounds of the gap.

    Each look costs a tenth more than the one before, up to three times as much.
    """
    looks = 0

    def price(*_: Any) -> float:
        nonlocal looks
        looks += 1
        return PAIRS * look * min(1 + looks / 10, 3)

    def price_of_gap(rule: BettingRule) -> float:
        return PAIRS * bounds if rule._bounds is None else 0.0

    monkeypatch.setattr(BettingRule, "observe", clock.costs(BettingRule.observe, price))
    monkeypatch.setattr(BettingRule, "gap", clock.costs(BettingRule.gap, price_of_gap))
    monkeypatch.setattr(BettingRule, "violators", clock.costs(BettingRule.violators, lambda _: PAIRS * bounds / 2))
    model = clock.costs(decide, lambda rows: len(rows) * row)
    return fairchain.verify(model, question(), workers=1, seed=1)


# Seconds for a row, and for each pair in a look and in the bounds.
PRICES = {
    "rows": (1e-5, 1e-8, 1e-8),
    "looks": (1e-7, 4e-4, 1e-6),
    "bounds": (1e-7, 2e-6, 4e-4),
    "all": (1e-6, 1e-4, 2e-4),
}


@pytest.mark.parametrize("prices", PRICES)
def test_the_whole_answer_keeps_to_the_budget(
    prices: str, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the first look costs on the simulated machine.
    monkeypatch.setattr(sampling, "SECONDS_PER_PAIR", 8e-4)
    verdict = spent(clock, monkeypatch, *PRICES[prices])
    assert verdict.stopped == "seconds"
    assert SECONDS / 2 < clock.now <= SECONDS


def test_preparation_is_part_of_the_budget(clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "load_model", clock.costs(prepare.load_model, lambda *_: 0.6 * SECONDS))
    verdict = spent(clock, monkeypatch, 1e-6, 1e-8, 1e-8)
    assert verdict.stopped == "seconds"
    assert verdict.rounds > 0
    assert 0.6 * SECONDS < clock.now <= SECONDS


def test_a_budget_that_preparation_uses_up_ends_without_a_round(
    clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "load_model", clock.costs(prepare.load_model, lambda *_: 2 * SECONDS))
    verdict = spent(clock, monkeypatch, 1e-6, 1e-8, 1e-8)
    assert (verdict.stopped, verdict.rounds, verdict.decision.name) == ("seconds", 0, "UNDECIDED")


@pytest.mark.parametrize("slower", [1.0, 3.0])
def test_before_the_first_look_at_very_many_pairs_one_outcome_is_tried(
    slower: float, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 groups and 100 labels: a budget of four seconds leaves room for a look, unless the machine is busy."""

    def price(_: BettingRule, __: Any, tally: Tally) -> float:
        # What 25 million pairs take on a quiet machine.
        return slower * 1.5 * tally.both.size / 25e6

    monkeypatch.setattr(BettingRule, "observe", clock.costs(BettingRule.observe, price))
    rule: Any = SimpleNamespace(tally=Tally.empty(500, 100))
    expected = sampling._AfterSampling(rule, 0.0, Event()).seconds
    assert expected == pytest.approx(slower * 3.0 + 0.5)
    assert (expected < 3.8) == (slower == 1.0)


@pytest.mark.parametrize("prices", ["looks", "bounds", "all"])
def test_the_test_above_can_fail(prices: str, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that leaves no time for what comes after the last round takes longer than its budget."""
    monkeypatch.setattr(sampling._AfterSampling, "seconds", 0.0)
    spent(clock, monkeypatch, *PRICES[prices])
    assert clock.now > SECONDS


def test_before_the_first_look_its_time_follows_from_the_number_of_pairs(
    clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first batch of many chunks is cut while there is still time for a look at it."""
    monkeypatch.setattr(sampling, "SECONDS_PER_PAIR", 8.0 / PAIRS)
    monkeypatch.setattr("fairchain.statistics.betting.betting_batch", lambda *_, **__: 40 * 1024)
    verdict = spent(clock, monkeypatch, 1e-5, 2.0 / PAIRS, 2.0 / PAIRS)
    assert verdict.stopped == "seconds"
    assert 0 < verdict.rounds < 40 * 1024
    assert clock.now <= SECONDS


def test_the_search_for_witnesses_ends_with_the_budget(clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[float] = []
    original = sampling.find_witnesses

    def search(*given: Any, seconds: float) -> tuple[Any, ...]:
        left.append(seconds)
        assert seconds == pytest.approx(SECONDS - clock.now)
        assert original(*given, seconds=-1.0) == ()
        return original(*given, seconds=seconds)

    monkeypatch.setattr(sampling, "find_witnesses", search)
    spent(clock, monkeypatch, 1e-5, 1e-8, 1e-8)
    assert len(left) == 1
