"""Rows to numbers: the place of each row's group, and whether it got the outcome.

A dictionary that fills itself knows every combination of values that has come; there are few of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairchain.monitoring.bounds import MOST_GROUPS, MonitoredProperty, name_problem
from fairchain.monitoring.row_parser import Columns, Key

MOST_LABELS = 1000
MOST_KEYS = 100_000


class Encoder(dict[Key, int]):
    """From the values of a row to a number, by which `encode` finds its group and whether it got the outcome."""

    LEFT_OUT, TROUBLE = -1, -2

    def __init__(
        self, columns: Columns, outcome: str, question: MonitoredProperty, names: Sequence[str], where: str
    ) -> None:
        super().__init__()
        self._columns, self._outcome, self._where = columns, outcome, where
        self._fixed = bool(question.groups)
        self._places = {name: place for place, name in enumerate(names)}
        self._groups: list[int] = []
        self._hits: list[bool] = []
        self.labels: set[str] = set()
        self.trouble = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The groups in the order in which they were named or came."""
        return tuple(self._places)

    def encode(self, keys: Sequence[Key]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """(rows,) each: place of the group, or LEFT_OUT, or TROUBLE; and whether the row got the outcome."""
        numbers = np.fromiter(map(self.__getitem__, keys), np.intp, len(keys))
        return np.array(self._groups, np.intp)[numbers], np.array(self._hits, bool)[numbers]

    def __missing__(self, key: Key) -> int:
        *values, label = key
        self.labels.add(label)
        self._groups.append(self._group(values))
        self._hits.append(label == self._outcome)
        self[key] = len(self._groups) - 1
        return self[key]

    def _group(self, values: Sequence[str]) -> int:
        name = group_name(self._columns.protected, values)
        if len(self.labels) > MOST_LABELS:
            return self._refused(
                f'column "{self._columns.prediction}" has more than {MOST_LABELS} different values; --prediction must '
                "name decisions, not scores"
            )
        if name in self._places:
            return self._places[name]
        if len(self) >= MOST_KEYS:
            return self._refused(f"more than {MOST_KEYS} different combinations of values; is --protected meant so?")
        if self._fixed:
            return self.LEFT_OUT
        if problem := name_problem(name):
            return self._refused(problem)
        if len(self._places) >= MOST_GROUPS:
            return self._refused(
                f"{name} is one more than {MOST_GROUPS} groups; is this what people are grouped by? Name those to "
                "compare with --group"
            )
        self._places[name] = len(self._places)
        return self._places[name]

    def _refused(self, reason: str) -> int:
        self.trouble = self.trouble or reason
        return self.TROUBLE


def group_name(columns: Sequence[str], values: Sequence[str]) -> str:
    """What a group is called: `sex=Female & race=White`."""
    return " & ".join(f"{column}={value}" for column, value in zip(columns, values, strict=True))
