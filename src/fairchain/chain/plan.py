"""The plan of a chain: its columns of states, the order of columns, and the options of the estimates.

States are in columns from left to right: groups, units in the requested order, labels. A recurrent unit has a
column for each step if the chain is unrolled, and one column, which may follow itself, if it is folded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from fairchain.chain.state_units import Discretizer
from fairchain.errors import ChainError

ColumnKind = Literal["product", "shared"]
Estimator = Literal["frequency", "laplace", "good-turing"]
ESTIMATORS: tuple[Estimator, ...] = ("frequency", "laplace", "good-turing")
View = Literal["folded", "unrolled"]
START_STATE = "Start"
# With more possible transitions no intervals are computed: every possible transition would need one.
MOST_POSSIBLE = 2_000_000
TWO_DIFFERENT_STATES = 'two different states would be called "{name}"; rename a feature, or {remedy}'
FEWER_CLUSTERS = 'use fewer clusters or steps, or view = "folded"'


@dataclass(frozen=True)
class ChainPlan:
    """The specification from which a chain is built.

    The states of a product chain contain the group, so that reaching a label from a group has exactly the counted
    frequency. Those of a shared chain do not, as in the paper; its error is measured as its fidelity (`learn`).
    """

    groups: tuple[str, ...]
    shares: tuple[float, ...]  # of the groups in the population
    units: tuple[Discretizer, ...]  # in the requested order
    labels: tuple[str, ...]
    kind: ColumnKind
    estimator: Estimator
    delta: float
    any_time: bool = False  # the counts determine when to stop: only bounds that are valid at any time can be used
    shares_known: bool = True  # otherwise `shares` are equal placeholders
    view: View | None = None  # of the first unit, for a chain over time
    timed: str = ""  # the name of this unit
    steps: int = 1  # at most
    varied: bool = True  # whether a trace may have fewer steps

    def __post_init__(self) -> None:
        """Refuse duplicate names, because a name is also a label, and chains that are too large."""
        names = [START_STATE, *(name for column in self.columns for name in column)]
        if self.view == "unrolled":
            names += [*self.units[0].names, *(f"step={step}" for step in range(1, 1 + self.steps))]
        seen: set[str] = set()
        for name in names:
            if name in seen:
                remedy = 'use view = "folded"' if self.view == "unrolled" else "leave it out"
                raise ChainError(TWO_DIFFERENT_STATES.format(name=name, remedy=remedy))
            seen.add(name)
        if self.possible > MOST_POSSIBLE and (self.view is not None or self.estimator != "frequency"):
            remedy = 'use the estimator "frequency", which leaves out transitions that were never observed'
            if self.view is not None:
                remedy = FEWER_CLUSTERS
            raise ChainError(f"{self.possible:,} transitions are possible, more than {MOST_POSSIBLE:,}; {remedy}")

    @cached_property
    def columns(self) -> tuple[tuple[str, ...], ...]:
        """The names of the states in each column: groups, units or steps of one, labels."""
        names = [unit.names for unit in self.units]
        if self.view == "unrolled":
            names[:1] = [
                tuple(name.replace(self.timed, f"{self.timed}@{step}", 1) for name in names[0])
                for step in range(1, 1 + self.steps)
            ]
        return (self.groups, *names, tuple(f"Y={label}" for label in self.labels))

    @cached_property
    def following(self) -> tuple[tuple[int, ...], ...]:
        """For each column but the last, the columns that may follow it."""
        following: list[tuple[int, ...]] = [(column + 1,) for column in range(len(self.columns) - 1)]
        if self.view == "folded":
            following[1] = (1, 2)
        if self.view == "unrolled" and self.varied:
            # A trace may end after any step.
            following[1 : self.steps] = [(step + 1, self.steps + 1) for step in range(1, self.steps)]
        return tuple(following)

    def copies(self, column: int) -> int:
        """Return the number of copies of a column's states: one for each group, or one."""
        pooled = column == len(self.columns) - 1 or (self.kind == "shared" and column > 0)
        return 1 if pooled else len(self.groups)

    def widths(self, column: int) -> tuple[int, int]:
        """Return the number of states of a copy of a column, and the number of possible successors."""
        width = len(self.columns[column]) if column else 1
        return width, sum(len(self.columns[each]) for each in self.following[column])

    @property
    def possible(self) -> int:
        """The number of possible transitions between columns."""
        columns = range(len(self.following))
        return sum(self.copies(column) * math.prod(self.widths(column)) for column in columns)
