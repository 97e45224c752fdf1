"""What one column of a table holds, looked at once: numbers or texts, how many, and how many are missing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairchain.drafting.name_hints import ID_NAMES, plain
from fairchain.spec.schema import NOT_KNOWN
from fairchain.tables import RawTable
from fairchain.tables.columns import TextCells, parse_number

# A text column in which so many cells differ names its people rather than their properties.
NEARLY_ALL = 0.9
ENOUGH_ROWS = 50


@dataclass(frozen=True, eq=False)
class Profile:
    """One column of a table; `typed` says whether the table tells texts from numbers, as frames do and CSV does not."""

    table: RawTable
    name: str
    typed: bool = False

    @cached_property
    def numbers(self) -> NDArray[np.float64] | None:
        """The cells as numbers, NaN where one is missing; None if some other cell is no finite number."""
        found = self.table.numeric(self.name)
        if found is None or np.isnan(found).all() or np.isinf(found).any():
            return None
        return found

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many rows hold each text, the empty one left out."""
        return self.table.counts(self.name)

    @property
    def texts(self) -> list[str]:
        """The different cells in the order that encoders give them: numbers by size, texts by letters."""
        numbers = {text: parse_number(text) for text in self.counts}
        if all(number is not None for number in numbers.values()):
            return sorted(numbers, key=lambda text: numbers[text] or 0.0)
        return sorted(numbers)

    @property
    def markers(self) -> list[str]:
        """The cells that stand for "not known", if somebody wrote them out."""
        return [text for text in self.texts if text in NOT_KNOWN]

    @property
    def empty(self) -> int:
        """How many cells are empty."""
        return self.table.count - sum(self.counts.values())

    @property
    def missing(self) -> int:
        """How many cells are no number, or empty if there are texts."""
        return self.empty if self.numbers is None else int(np.isnan(self.numbers).sum())

    @property
    def low(self) -> float:
        """The least number."""
        assert self.numbers is not None
        return float(np.nanmin(self.numbers))

    @property
    def high(self) -> float:
        """The largest number."""
        assert self.numbers is not None
        return float(np.nanmax(self.numbers))

    @cached_property
    def whole(self) -> bool:
        """Whether all numbers are whole ones."""
        known = self.numbers[~np.isnan(self.numbers)] if self.numbers is not None else np.array([0.5])
        return bool((known == np.floor(known)).all())

    @property
    def written(self) -> bool:
        """Whether the cells came as texts, also if these are numbers."""
        return isinstance(self.table.cells(self.name), TextCells)

    @property
    def boolean(self) -> bool:
        """Whether there is nothing but True and False."""
        return bool(self.counts) and set(self.counts) <= {"True", "False"}

    @property
    def numbers_people(self) -> bool:
        """Whether it names or numbers the rows rather than telling something about them."""
        if plain(self.name) in ID_NAMES:
            return True
        if self.table.count < ENOUGH_ROWS:
            return False
        if self.numbers is None:
            return len(self.counts) > NEARLY_ALL * self.table.count
        return self.whole and bool((np.diff(self.numbers) == 1).all())
