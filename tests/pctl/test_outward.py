"""Bounds are rounded outward: they contain what exact arithmetic gives, to the last digit, and are hardly wider."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairchain.chain import Chain
from fairchain.pctl import check_chain
from fairchain.pctl.interval_rows import IntervalRows, difference
from tests.pctl.builders import chain_of

seeds = st.integers(0, 2**32 - 1)
Values = list[Fraction]
Row = dict[int, Fraction]
ZERO, ONE = Fraction(0), Fraction(1)
# The last state of every chain is never left. "a" is rare, "c" nearly everywhere.
LABELS = {"a": [2, 4], "b": [1, 3], "c": [0, 1, 2, 3]}


@dataclass(frozen=True)
class Exact:
    """An interval chain in exact arithmetic: for each state its targets with the bounds of their probabilities."""

    rows: tuple[dict[int, tuple[Fraction, Fraction]], ...]

    def extreme(self, state: int, order: Sequence[int]) -> Row:
        """The row that gives targets as much as the bounds allow, in this order."""
        row = {target: low for target, (low, _) in self.rows[state].items()}
        left = 1 - sum(row.values())
        for target in order:
            low, high = self.rows[state][target]
            given = min(left, high - low)
            row[target] += given
            left -= given
        assert left == 0
        return row

    def back(self, values: Values, *, largest: bool) -> Values:
        """The largest or smallest expected value of the next state."""
        found = []
        for state, targets in enumerate(self.rows):
            row = self.extreme(state, sorted(targets, key=lambda target: values[target], reverse=largest))
            found.append(sum((share * values[target] for target, share in row.items()), ZERO))
        return found

    def corners(self) -> Iterator[list[Row]]:
        """All chains whose rows are corners of what the bounds allow."""
        choices = []
        for state, targets in enumerate(self.rows):
            rows = {tuple(sorted(self.extreme(state, order).items())) for order in itertools.permutations(targets)}
            choices.append([dict(row) for row in rows])
        for chosen in itertools.product(*choices):
            yield list(chosen)


def interval_chain(seed: int) -> tuple[Chain, Exact]:
    """Three states with two or three ways each, a fourth with two, and one that is never left."""
    rng = np.random.default_rng(seed)
    rows: list[dict[int, float]] = []
    for state in range(4):
        targets = rng.choice(5, int(rng.integers(2, 4 if state < 3 else 3)), replace=False)
        shares = rng.dirichlet(np.ones(len(targets)))
        rows.append(dict(zip(targets.tolist(), shares.tolist(), strict=True)))
    chain = chain_of([*rows, {4: 1.0}], LABELS)
    width = rng.random(len(chain.probabilities)) * rng.choice([1e-12, 0.01, 0.5]) + 1e-14
    low, high = chain.probabilities * (1 - width), np.minimum(chain.probabilities * (1 + width), 1)
    low[-1] = high[-1] = 1.0
    chain = replace(chain, low=low, high=high)
    exact: list[dict[int, tuple[Fraction, Fraction]]] = [{} for _ in range(5)]
    for source, target, least, most in zip(
        *(each.tolist() for each in (chain.sources, chain.targets, low, high)), strict=True
    ):
        exact[source][target] = Fraction(least), Fraction(most)
    return chain, Exact(tuple(exact))


def contains(chain: Chain, formula: str, least: Sequence[Fraction | float], most: Sequence[Fraction | float]) -> None:
    """The bounds of a formula are beyond these, exactly, and not by much."""
    low, high = check_chain(chain, formula).bounds or ()
    for state, (below, above) in enumerate(zip(least, most, strict=True)):
        assert low[state] <= below, (formula, state)
        assert above <= high[state], (formula, state)
        assert low[state] == pytest.approx(float(below), rel=1e-7, abs=1e-9)
        assert high[state] == pytest.approx(float(above), rel=1e-7, abs=1e-9)


def mask(label: str) -> Values:
    return [Fraction(state in LABELS[label]) for state in range(5)]


def steps_back(exact: Exact, goal: Values, through: Values, steps: int, *, largest: bool) -> Values:
    values = goal
    for _ in range(steps):
        before = exact.back(values, largest=largest)
        values = [before[state] if through[state] else values[state] for state in range(5)]
    return values


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_bounds_in_a_number_of_steps_contain_the_exact_ones(seed: int) -> None:
    chain, exact = interval_chain(seed)
    a, b, c = mask("a"), mask("b"), mask("c")
    ends = [exact.back(b, largest=largest) for largest in (False, True)]
    contains(chain, 'P=? [ X "b" ]', *ends)
    through = [1 - each for each in a]
    ends = [steps_back(exact, a, through, 5, largest=largest) for largest in (False, True)]
    contains(chain, 'P=? [ F<=5 "a" ]', *ends)
    contains(chain, 'P=? [ G<=5 !"a" ]', *([1 - value for value in end] for end in reversed(ends)))
    ends = []
    for largest in (False, True):
        within = steps_back(
            exact, b, [Fraction(x == 1 and y == 0) for x, y in zip(c, b, strict=True)], 2, largest=largest
        )
        held = [value if inside else ZERO for value, inside in zip(within, c, strict=True)]
        ends.append(steps_back(exact, held, c, 2, largest=largest))
    contains(chain, 'P=? [ "c" U[2,4] "b" ]', *ends)


def solved(rows: list[Row], unknown: list[int], right: Callable[[int], Fraction]) -> dict[int, Fraction]:
    """x = right + P x on the unknown states, by elimination."""
    place = {state: number for number, state in enumerate(unknown)}
    system = []
    for state in unknown:
        line = [ZERO] * len(unknown)
        line[place[state]] += 1
        for target, share in rows[state].items():
            if target in place:
                line[place[target]] -= share
        system.append([*line, right(state)])
    for pivot in range(len(system)):
        swap = next(row for row in range(pivot, len(system)) if system[row][pivot])
        system[pivot], system[swap] = system[swap], system[pivot]
        system[pivot] = [value / system[pivot][pivot] for value in system[pivot]]
        for row in range(len(system)):
            if row != pivot and system[row][pivot]:
                factor = system[row][pivot]
                system[row] = [one - factor * two for one, two in zip(system[row], system[pivot], strict=True)]
    return {state: system[number][-1] for state, number in place.items()}


def can_reach(rows: list[Row], goal: set[int], through: set[int]) -> set[int]:
    found = set(goal)
    while more := {s for s in through - found if any(share and target in found for target, share in rows[s].items())}:
        found |= more
    return found


def reached(rows: list[Row], goal: set[int]) -> Values:
    """P(F goal) of one chain."""
    can = sorted(can_reach(rows, goal, set(range(5))) - goal)
    found = solved(rows, can, lambda state: sum((rows[state].get(target, ZERO) for target in goal), ZERO))
    return [ONE if state in goal else found.get(state, ZERO) for state in range(5)]


def steps_to(rows: list[Row], goal: set[int]) -> list[Fraction | float]:
    """Expected steps to the goal of one chain."""
    states = set(range(5))
    lost = can_reach(rows, states - can_reach(rows, goal, states), states - goal)
    inside = sorted(states - goal - lost)
    found = solved(rows, inside, lambda _: ONE)
    return [ZERO if state in goal else found.get(state, float("inf")) for state in range(5)]


@settings(max_examples=12, deadline=None)
@given(seeds)
def test_bounds_without_an_end_in_time_contain_the_exact_ones(seed: int) -> None:
    chain, exact = interval_chain(seed)
    corners = list(exact.corners())
    for formula, of in (
        ('P=? [ F "a" ]', lambda rows: reached(rows, set(LABELS["a"]))),
        ('R=? [ F "a" ]', lambda rows: steps_to(rows, set(LABELS["a"]))),
    ):
        values = list(zip(*(of(rows) for rows in corners), strict=True))
        contains(chain, formula, [min(each) for each in values], [max(each) for each in values])


@settings(max_examples=200, deadline=None)
@given(seeds, st.booleans())
def test_bounds_of_a_share_of_time_contain_the_exact_ones(seed: int, alternating: bool) -> None:
    """Two states that lead to each other, with p and q between bounds: the share in the second is p / (p + q).

    Where p and q are nearly 1, the iteration ends so near the exact share that every rounding matters.
    """
    rng = np.random.default_rng(seed)
    if alternating:
        p, q = 1 - rng.random(2) * 10.0 ** -rng.integers(4, 9)
        width, least = float(rng.choice([1e-12, 1e-9, 1e-6])), 0.0
    else:
        p, q = rng.random(2) * 0.9 + 0.05
        width, least = float(rng.choice([1e-9, 1e-3, 0.04])), 0.01
    chain = chain_of([{0: 1 - p, 1: p}, {0: q, 1: 1 - q}], {"on": [1]})
    low, high = np.maximum(chain.probabilities - width, least), np.minimum(chain.probabilities + width, 1)
    answer = check_chain(replace(chain, low=low, high=high), 'S=? [ "on" ]')
    # What one transition may have, the other one has to leave.
    ends = [[Fraction(float(bound)) for bound in side] for side in (low, high)]
    p_low, p_high = max(ends[0][1], 1 - ends[1][0]), min(ends[1][1], 1 - ends[0][0])
    q_low, q_high = max(ends[0][2], 1 - ends[1][3]), min(ends[1][2], 1 - ends[0][3])
    assert answer.low is not None
    assert answer.high is not None
    assert answer.low <= p_low / (p_low + q_high)
    assert p_high / (p_high + q_low) <= answer.high
    assert answer.high - answer.low <= float(p_high / (p_high + q_low) - p_low / (p_low + q_high)) + 1e-6


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_what_is_near_a_bound_is_never_sure(seed: int) -> None:
    """An edge that lies inside of the interval, by a part in 10**11 only: neither side of it is sure."""
    chain, exact = interval_chain(seed)
    low, high = (exact.back(mask("b"), largest=largest) for largest in (False, True))
    for state in range(4):
        if not 1e-3 < low[state] < high[state] < 1 - 1e-3:
            continue
        step = min((high[state] - low[state]) / 2, Fraction(1, 10**12))
        above, below = float(low[state] + step), float(high[state] - step)
        if not (low[state] < above <= high[state] and low[state] <= below < high[state]):
            continue
        for formula in (f'P>={above:.17g} [ X "b" ]', f'P<={below:.17g} [ X "b" ]'):
            sure, possible = check_chain(chain, formula).bounds or ()
            assert not sure[state], formula
            assert possible[state], formula


def test_a_transition_with_hardly_any_room_stays_possible() -> None:
    """Three times the number next to 1/3 leaves 5e-17 for a fourth transition: rounding must not take it away."""
    third = 1 / 3
    chain = chain_of([{0: 0.0, 1: third, 2: third, 3: third}, {1: 1.0}, {2: 1.0}, {3: 1.0}], {"end": [1, 2, 3]})
    low, high = chain.probabilities.copy(), chain.probabilities.copy()
    high[0] = 0.5
    assert Fraction(third) * 3 < 1
    rows = IntervalRows.of(replace(chain, low=low, high=high))
    assert (rows.sources == 0).sum() == 4
    low[1] = high[1] = np.nextafter(third, 1)
    assert (IntervalRows.of(replace(chain, low=low, high=high)).sources == 0).sum() == 3


@given(st.floats(0, 1), st.floats(0, 1))
def test_differences_are_rounded_outward_and_exact_ones_stay(more: float, less: float) -> None:
    exact = Fraction(more) - Fraction(less)
    below, above = (Fraction(float(difference(np.array(more), np.array(less), largest=up))) for up in (False, True))
    assert below <= exact <= above
    if exact == Fraction(more - less):
        assert below == exact == above
