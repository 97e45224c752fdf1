"""A chain in the making: transitions as they are read from lines of a file, and the checks that need all of them."""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.chain import ROUNDING, Chain, Floats
from fairchain.chain.formats.files import MOST_STATES, MOST_TRANSITIONS, Lines, found
from fairchain.errors import ChainError

_DIGITS = r"(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,4})?"
_NUMBER = re.compile(_DIGITS)
_FRACTION = re.compile(r"([0-9]{1,400})/([0-9]{1,400})")
_INTERVAL = re.compile(r"\[\s{0,9}([^\s,\[\]]{1,900})\s{0,9},\s{0,9}([^\s,\[\]]{1,900})\s{0,9}\]")
_COUNT = re.compile(r"[0-9]{1,18}")


@dataclass
class ChainReader:
    """Transitions read so far, in any order, each with the number of its line."""

    lines: Lines
    sources: array[int] = field(default_factory=lambda: array("q"))
    targets: array[int] = field(default_factory=lambda: array("q"))
    low: array[float] = field(default_factory=lambda: array("d"))
    high: array[float] = field(default_factory=lambda: array("d"))
    estimates: array[float] = field(default_factory=lambda: array("d"))
    places: array[int] = field(default_factory=lambda: array("q"))
    has_intervals: bool = False

    def add(self, source: int, target: int, value: str, estimate: float | None = None) -> None:
        """Take a transition from the line that was reached; its value is a probability or an interval."""
        if len(self.sources) == MOST_TRANSITIONS:
            raise self.lines.error(f"there are more than {MOST_TRANSITIONS} transitions, the most that are read")
        low, high = self._value(value)
        if estimate is not None and not 0 <= estimate <= 1 + ROUNDING:
            raise self.lines.error(f"found the estimate {estimate:g} in the note above; probabilities are at most 1")
        self.sources.append(source)
        self.targets.append(target)
        self.low.append(low)
        self.high.append(high)
        self.estimates.append(np.nan if estimate is None else estimate)
        self.places.append(self.lines.number)

    def _value(self, text: str) -> tuple[float, float]:
        number = self._probability(text)
        if number is not None:
            return number, number
        self.has_intervals = True
        interval = _INTERVAL.fullmatch(text)
        low, high = (self._probability(part) for part in interval.groups()) if interval else (None, None)
        if low is None or high is None:
            raise self.lines.error(
                f"found {found(text)}; write a probability, as 0.25 or 1/4, or an interval, as [0.2, 0.3]"
            )
        if low > high:
            raise self.lines.error(f"the interval {found(text)} ends before it begins; write the smaller number first")
        return low, high

    def _probability(self, text: str) -> float | None:
        if _NUMBER.fullmatch(text):
            number = float(text)
        elif fraction := _FRACTION.fullmatch(text):
            above, below = map(int, fraction.groups())
            # Numbers of 400 digits have no quotient as a float if it is above 1e308.
            number = above / below if 0 <= above <= 2 * below and below else np.inf
        else:
            return None
        if not number <= 1 + ROUNDING:
            raise self.lines.error(
                f"found {found(text)}; probabilities are at most 1 (a chain with rates, a CTMC, is not read)"
            )
        return number

    def chain(
        self,
        names: Sequence[str],
        labels: Mapping[str, frozenset[int]],
        initial: int,
        unvisited: frozenset[int] = frozenset(),
        fix_deadlocks: bool = False,
    ) -> Chain:
        """The chain, if it is one."""
        size = len(names)
        if fix_deadlocks:
            self._fix(size)
        self.check_states(size)
        source, target, line = np.array(self.sources), np.array(self.targets), np.array(self.places)
        order = np.lexsort((target, source))
        source, target, line = source[order], target[order], line[order]
        self._check_pairs(source, target, line)
        low, high = np.array(self.low)[order], np.array(self.high)[order]
        probability, metadata = low, dict[str, Any]()
        if self.has_intervals:
            probability, metadata = self._inside(source, low, high, np.array(self.estimates)[order], size)
        self._check_sums(source, probability, line, size)
        try:
            return Chain(
                states=tuple(names),
                sources=source.astype(np.intp),
                targets=target.astype(np.intp),
                probabilities=probability,
                labels=labels,
                initial=initial,
                low=low if self.has_intervals else None,
                high=high if self.has_intervals else None,
                unvisited=unvisited,
                metadata=metadata,
            )
        except ChainError as error:
            raise ChainError(f"{self.lines.path}: {error}; correct the file") from None

    def _fix(self, size: int) -> None:
        """Let states without transitions stay where they are."""
        for state in self._without(size).tolist():
            self.add(state, state, "1")

    def _check_pairs(self, source: Any, target: Any, line: Any) -> None:
        same = np.flatnonzero((np.diff(source) == 0) & (np.diff(target) == 0))
        if same.size:
            place = int(same[0])
            raise self.lines.error(
                f"the transition from {source[place]} to {target[place]} stands twice; write it once",
                max(line[place], line[place + 1]),
            )

    def _without(self, size: int) -> NDArray[np.intp]:
        """The states that have no transition."""
        seen = np.zeros(size, bool)
        seen[np.array(self.sources, np.int64)] = True
        return np.flatnonzero(~seen)

    def check_states(self, size: int) -> None:
        """Refuse states that lead nowhere, before anything as large as their number is made."""
        without = self._without(size)
        if without.size:
            raise self.lines.error(
                f"state {without[0]} has no transition; add one to itself with probability 1, or read the file with "
                "fix_deadlocks, which does so"
            )

    def _inside(
        self, source: NDArray[np.int64], low: Floats, high: Floats, estimates: Floats, size: int
    ) -> tuple[Floats, dict[str, Any]]:
        """Points, and what is to be said about them: if only intervals are known, some distribution inside."""
        if np.isfinite(estimates).all():
            return estimates, {}
        least, most = (np.bincount(source, bound, minlength=size) for bound in (low, high))
        wrong = np.flatnonzero((least > 1 + ROUNDING) | (most < 1 - ROUNDING))
        if wrong.size:
            state = int(wrong[0])
            raise self.lines.error(
                f"no distribution fits the intervals of state {state}: they sum to between {least[state]:.9g} and "
                f"{most[state]:.9g}; let 1 lie between",
                self._line_of(state),
            )
        room = np.where(most > least, most - least, 1)
        share = np.clip((1 - least) / room, 0, 1)[source]
        return low + share * (high - low), {"probabilities": "chosen inside the intervals of the file"}

    def _check_sums(self, source: NDArray[np.int64], probability: Floats, line: Any, size: int) -> None:
        sums = np.bincount(source, probability, minlength=size)
        wrong = np.flatnonzero(~(np.abs(sums - 1) <= ROUNDING))
        if wrong.size:
            state = int(wrong[0])
            raise self.lines.error(
                f"the probabilities of state {state} sum to {sums[state]:.9g}, not to 1; correct them, or write them "
                "with more digits",
                int(line[np.searchsorted(source, state)]),
            )

    def _line_of(self, state: int) -> int:
        """The first line with a transition from a state."""
        return self.places[self.sources.index(state)]


def state_number(lines: Lines, text: str, size: int) -> int:
    """A state's number, below the number of states."""
    # Short digits need no pattern, which takes most of the time of a large file.
    number = int(text) if text.isdecimal() and len(text) < 9 else count_of(lines, text, "the number of a state")
    if number >= size:
        raise lines.error(f"there is no state {number}; there are {size}, numbered from 0")
    return number


def count_of(lines: Lines, text: str, what: str) -> int:
    """A whole number that is not negative."""
    if not _COUNT.fullmatch(text):
        raise lines.error(f"found {found(text)}; write {what} here, a whole number")
    return int(text)


def state_count(lines: Lines, text: str) -> int:
    """How many states a file says it has: at least one and not more than are read."""
    count = count_of(lines, text, "the number of states")
    if not 1 <= count <= MOST_STATES:
        raise lines.error(f"found {count} states; a chain that is read has between 1 and {MOST_STATES}")
    return count


def default_name(number: int) -> str:
    """What a state is called if the file has no name for it, after the variable of our own PRISM files."""
    return f"s={number}"
