"""Columns of states of a chain, and the flow of each group through them.

A product chain has the group in its states, so the flow of one group is exact. All groups but two are drawn together
with equal weights, because a reader can distinguish two flows but not twenty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fairchain.chain import Chain

# A folded chain returns to its states, and one with many columns is unreadable: the report shows both as tables.
MOST_COLUMNS = 8
Step = tuple[int, str, str]
BoundedValue = tuple[float, float, float]


@dataclass(frozen=True)
class Strand:
    """Flow of one group, or of several together: its share in each state and on each transition.

    `bounds` are the probability of each transition with its interval, if known.
    """

    name: str
    tone: str
    states: Mapping[tuple[int, str], float]
    steps: Mapping[Step, float]
    bounds: Mapping[Step, BoundedValue] = field(default_factory=dict)


@dataclass(frozen=True)
class ChainFlow:
    """States in columns from left to right, and the flows through them."""

    columns: tuple[tuple[str, ...], ...]
    strands: tuple[Strand, ...]


def flow_groups(chain: Chain) -> list[str]:
    """Return the groups: the successors of the first state."""
    return [chain.states[int(chain.targets[number])] for number in _transitions(chain, chain.initial)]


def flow_of(chain: Chain, groups: Sequence[str], more: str, less: str) -> ChainFlow | None:
    """Return the flows of two groups and of all others together; None if there are no columns to draw."""
    columns = _columns(chain)
    if not columns or not {more, less} <= set(groups):
        return None
    strands = [_strand(chain, columns, more, "more"), _strand(chain, columns, less, "less")]
    others = [_strand(chain, columns, group, "others") for group in groups if group not in (more, less)]
    if others:
        strands.insert(1, _together(others))
    names: list[list[str]] = []
    for place, column in enumerate(columns):
        seen = dict.fromkeys(_bare(chain.states[state], groups) for state in column)
        names.append([name for name in seen if any(strand.states.get((place, name), 0) > 0 for strand in strands)])
    return ChainFlow(tuple(tuple(column) for column in names), tuple(strands))


def transitions_of(chain: Chain, group: str) -> dict[tuple[str, str], BoundedValue]:
    """Return the transitions of one group between its states, with bounds; state names omit the group."""
    found: dict[tuple[str, str], BoundedValue] = {}
    for state, called in enumerate(chain.states):
        if called != group and not called.startswith(f"{group} & "):
            continue
        for number in _transitions(chain, state):
            source = "the first step" if called == group else _bare(called, [group])
            found[source, _bare(chain.states[int(chain.targets[number])], [group])] = _bounds(chain, number)
    return found


def _columns(chain: Chain) -> list[list[int]] | None:
    """Return the states after the groups by their distance from Start, if every transition leads to the next column."""
    columns: list[list[int]] = []
    here = [chain.initial]
    for _ in range(MOST_COLUMNS + 1):
        ahead = sorted({int(chain.targets[number]) for state in here for number in _transitions(chain, state)})
        if ahead == here:
            # Labels are absorbing. The first column is that of the groups.
            return columns[1:]
        if set(ahead) & set(here):
            return None
        columns.append(ahead)
        here = ahead
    return None


def _strand(chain: Chain, columns: Sequence[Sequence[int]], group: str, tone: str) -> Strand:
    """Follow one group from its own state to the labels."""
    states: dict[tuple[int, str], float] = {}
    steps: dict[Step, float] = defaultdict(float)
    bounds: dict[Step, BoundedValue] = {}
    here: Mapping[int, float] = {chain.states.index(group): 1.0}
    for place in range(len(columns)):
        ahead: dict[int, float] = defaultdict(float)
        for state, amount in here.items():
            for number in _transitions(chain, state):
                target = int(chain.targets[number])
                step = place, _bare(chain.states[state], [group]), _bare(chain.states[target], [group])
                ahead[target] += amount * float(chain.probabilities[number])
                steps[step] += amount * float(chain.probabilities[number])
                bounds[step] = _bounds(chain, number)
        states |= {(place, _bare(chain.states[state], [group])): amount for state, amount in ahead.items()}
        here = ahead
    return Strand(group, tone, states, steps, bounds)


def _transitions(chain: Chain, state: int) -> Iterator[int]:
    yield from range(int(chain.starts[state]), int(chain.starts[state + 1]))


def _bounds(chain: Chain, number: int) -> BoundedValue:
    """Return a transition's probability and bounds; 0 and 1 without intervals."""
    probability = float(chain.probabilities[number])
    if chain.low is None or chain.high is None:
        return probability, 0.0, 1.0
    return probability, float(chain.low[number]), float(chain.high[number])


def _together(strands: Sequence[Strand]) -> Strand:
    """Return several flows as one, with equal weights."""
    if len(strands) == 1:
        return strands[0]
    states: dict[tuple[int, str], float] = defaultdict(float)
    steps: dict[Step, float] = defaultdict(float)
    for strand in strands:
        for state, amount in strand.states.items():
            states[state] += amount / len(strands)
        for (place, one, other), amount in strand.steps.items():
            steps[place, "" if place == 0 else one, other] += amount / len(strands)
    return Strand(f"{len(strands)} other groups", "others", states, steps)


def _bare(state: str, groups: Sequence[str]) -> str:
    """Return the name of a state without the group."""
    return next((state[len(group) + 3 :] for group in groups if state.startswith(f"{group} & ")), state)
