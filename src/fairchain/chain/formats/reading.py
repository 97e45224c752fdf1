"""Text files of chains: names and numbers as PRISM and Storm write them, and the reading of untrusted files.

Queries of PRISM and Storm can only name labels that are identifiers. So `sex=Female` is written as `sex_Female` in
every such file, with a note of its meaning. A note is JSON at a position that the other program skips; with it a chain
is read back with its own names. Files are read within a limit, line by line, with the checks that need all transitions;
every error is one ChainError that names the file, the line and what to write there instead.
"""

from __future__ import annotations

import io
import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fairchain.chain.chain import ROW_SUM_ERROR, Chain
from fairchain.errors import ChainError
from fairchain.system.untrusted_files import UnreadableError, read_plain

# The prefix of a note, unlike comments of other programs.
NOTE = '{"name":'
_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_LONGEST = 80
_SPELLED = (
    (re.compile(r">="), " ge "),
    (re.compile(r"<="), " le "),
    (re.compile(r"!="), " ne "),
    (re.compile(r">"), " gt "),
    (re.compile(r"<"), " lt "),
    (re.compile(r"&"), " and "),
    (re.compile(r"(?<!\w)-(?=[\d.])"), " minus "),
)
# Words of the PRISM language, of its properties and of its later versions; "init" and "deadlock" are predefined labels.
_RESERVED = frozenset(
    re.findall(
        r"\w+",
        """A C E F G I P Pmax Pmin R Rmax Rmin S U W X bool clock const csg ctmc deadlock double dtmc endinit
        endinvariant endmodule endobservables endplayer endrewards endsystem false filter formula func global idtmc
        imdp init int invariant label lts ma max mdp min module nondeterministic observable observables of player
        pomdp popta prob probabilistic pta rate rewards smg stochastic stpg system true""",
    )
)
NOT_UNICODE = "the name {name!r}, or one of its labels, is not valid Unicode; rename it"
CHAIN_WITHOUT_INTERVALS = "this chain has no intervals; write it without them"
# Larger files are refused before they are read; a chain of 100,000 states and a million transitions takes 40 MB.
MOST_CHAIN_BYTES = 2**27
MOST_STATES = 2_000_000
MOST_TRANSITIONS = 5_000_000
_NUMBER = re.compile(r"(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,4})?")
_FRACTION = re.compile(r"([0-9]{1,400})/([0-9]{1,400})")
_INTERVAL = re.compile(r"\[\s{0,9}([^\s,\[\]]{1,900})\s{0,9},\s{0,9}([^\s,\[\]]{1,900})\s{0,9}\]")
_COUNT = re.compile(r"[0-9]{1,18}")
STATE_WITHOUT_TRANSITION = (
    "state {without} has no transition; add one to itself with probability 1, or read the file with fix_deadlocks, "
    "which does so"
)
NOT_UTF8 = "{path}: line {line}: not text in UTF-8; is it the right file?"


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The part of another program's file that only fairchain reads: the name of a state, and more.

    `labels` are identifiers in the file and their meaning; each is noted at the first state that has it, or at state 0
    if none has.
    """

    name: str
    unvisited: bool = False
    labels: dict[str, str] = {}
    estimates: tuple[float, ...] = ()


def note_text(note: Note) -> str:
    """Return a note on one line."""
    try:
        return msgspec.json.encode(note).decode()
    except UnicodeEncodeError:
        raise ChainError(NOT_UNICODE.format(name=note.name)) from None


def notes_of(chain: Chain, identifiers: Mapping[str, str]) -> list[Note]:
    """Return a note for each state."""
    stands_for: dict[int, dict[str, str]] = {}
    for label, identifier in identifiers.items():
        states = chain.labels[label]
        if identifier != label or not states:
            stands_for.setdefault(min(states, default=0), {})[identifier] = label
    return [
        Note(name=name, unvisited=state in chain.unvisited, labels=stands_for.get(state, {}))
        for state, name in enumerate(chain.states)
    ]


def identifiers_of(labels: Iterable[str]) -> dict[str, str]:
    """Return an identifier of PRISM and Storm for each label, all different; a valid label is unchanged."""
    labels = list(labels)
    chosen = {label: label for label in labels if _LEGAL.fullmatch(label) and label not in _RESERVED}
    used, count = set(chosen), dict[str, int]()
    for label in labels:
        if label in chosen:
            continue
        spelled = label
        for pattern, word in _SPELLED:
            spelled = pattern.sub(word, spelled)
        plain = unicodedata.normalize("NFKD", spelled).encode("ascii", "ignore").decode()
        base = re.sub(r"\W+", "_", plain).strip("_")[:_LONGEST] or "unnamed"
        base = name = f"_{base}" if base[0].isdigit() else base
        while name in used or name in _RESERVED:
            count[base] = count.get(base, 1) + 1
            name = f"{base}_{count[base]}"
        used.add(name)
        chosen[label] = name
    return {label: chosen[label] for label in labels}


def labels_by_state(chain: Chain, identifiers: Mapping[str, str]) -> dict[int, list[str]]:
    """Return the identifiers of each state that has labels, in the order of the labels."""
    of: dict[int, list[str]] = {}
    for label, states in chain.labels.items():
        for state in states:
            of.setdefault(state, []).append(identifiers[label])
    return of


def written_values(chain: Chain, intervals: bool = False) -> list[str]:
    """Return the probability of each transition as text that reads back exactly, or its interval."""
    if not intervals:
        return [repr(value) for value in (chain.probabilities + 0.0).tolist()]
    if chain.low is None or chain.high is None:
        raise ChainError(CHAIN_WITHOUT_INTERVALS)
    return [f"[{low!r}, {high!r}]" for low, high in zip(chain.low.tolist(), chain.high.tolist(), strict=True)]


def comment_name(text: str) -> str:
    """Return a name for a comment, without line ends."""
    return text if text.isprintable() else ascii(text)


def read_chain_bytes(path: Path) -> bytes:
    """Return the content of a file of bounded size."""
    try:
        return read_plain(path, MOST_CHAIN_BYTES)
    except UnreadableError as error:
        raise ChainError(f"{path}: {error}; name a file that contains a chain") from None


def found(text: str, most: int = 40) -> str:
    """Return text of a file, quoted and shortened, so that it cannot break a message into lines."""
    short = text if len(text) <= most else text[: most - 3] + "..."
    return f'"{short}"' if short.isprintable() else ascii(short)


class Lines:
    """The lines of a file, with the number of the current line for messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0
        content = read_chain_bytes(path)
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise ChainError(NOT_UTF8.format(path=path, line=line)) from None
        # Split only at line feeds: names may contain other separators of Unicode.
        self._text = io.StringIO(text, newline="\n")

    def __iter__(self) -> Iterator[str]:
        for line in self._text:
            self.number += 1
            yield line.rstrip("\r\n")

    def error(self, problem: str, line: int | None = None) -> ChainError:
        """Return the error for a line, or for the current one."""
        return ChainError(f"{self.path}: line {line or max(self.number, 1)}: {problem}")

    def count(self, text: str, what: str) -> int:
        """Read a non-negative integer."""
        if not _COUNT.fullmatch(text):
            raise self.error(f"found {found(text)}; write {what} here, a whole number")
        return int(text)

    def state(self, text: str, size: int) -> int:
        """Read the index of a state, below the number of states."""
        # Short digits need no pattern, which takes most of the time for a large file.
        number = int(text) if text.isdecimal() and len(text) < 9 else self.count(text, "the number of a state")
        if number >= size:
            raise self.error(f"unknown state {number}; the chain has {size} states, numbered from 0")
        return number

    def state_count(self, text: str) -> int:
        """Read the number of states that a file states: from 1 to MOST_STATES."""
        count = self.count(text, "the number of states")
        if not 1 <= count <= MOST_STATES:
            raise self.error(f"found {count} states; a chain that is read has between 1 and {MOST_STATES}")
        return count


@dataclass
class ChainReader:
    """The contents read so far: transitions in any order, each with its line number; names and labels of states.

    `stands_for` are the identifiers of labels in the file that have another name in the chain.
    """

    lines: Lines
    sources: array[int] = field(default_factory=lambda: array("q"))
    targets: array[int] = field(default_factory=lambda: array("q"))
    low: array[float] = field(default_factory=lambda: array("d"))
    high: array[float] = field(default_factory=lambda: array("d"))
    estimates: array[float] = field(default_factory=lambda: array("d"))
    places: array[int] = field(default_factory=lambda: array("q"))
    has_intervals: bool = False
    names: dict[int, str] = field(default_factory=dict)
    labels: dict[str, set[int]] = field(default_factory=dict)
    stands_for: dict[str, str] = field(default_factory=dict)
    unvisited: set[int] = field(default_factory=set)

    def add(self, source: int, target: int, value: str, estimate: float | None = None) -> None:
        """Add a transition of the current line; its value is a probability or an interval."""
        if len(self.sources) == MOST_TRANSITIONS:
            raise self.lines.error(f"more than {MOST_TRANSITIONS} transitions, the largest number that is read")
        low = high = self._probability(value)
        if low is None:
            self.has_intervals = True
            interval = _INTERVAL.fullmatch(value)
            low, high = (self._probability(part) for part in interval.groups()) if interval else (None, None)
        if low is None or high is None:
            raise self.lines.error(
                f"found {found(value)}; write a probability, as 0.25 or 1/4, or an interval, as [0.2, 0.3]"
            )
        if low > high:
            raise self.lines.error(f"the interval {found(value)} ends before it begins; write the smaller number first")
        if estimate is not None and not 0 <= estimate <= 1 + ROW_SUM_ERROR:
            raise self.lines.error(f"found the estimate {estimate:g} in the note above; probabilities are at most 1")
        self.sources.append(source)
        self.targets.append(target)
        self.low.append(low)
        self.high.append(high)
        self.estimates.append(np.nan if estimate is None else estimate)
        self.places.append(self.lines.number)

    def _probability(self, text: str) -> float | None:
        if _NUMBER.fullmatch(text):
            number = float(text)
        elif fraction := _FRACTION.fullmatch(text):
            above, below = map(int, fraction.groups())
            # The quotient of numbers with 400 digits is not a float if it is above 1e308.
            number = above / below if 0 <= above <= 2 * below and below else np.inf
        else:
            return None
        if not number <= 1 + ROW_SUM_ERROR:
            raise self.lines.error(
                f"found {found(text)}; probabilities are at most 1 (a chain with rates, a CTMC, is not read)"
            )
        return number

    def note(self, lines: Lines, state: int, text: str) -> tuple[float, ...] | None:
        """Read a note of fairchain about a state; return its estimates, None if the text is another comment."""
        if not text.startswith(NOTE):
            return None
        try:
            note = msgspec.json.decode(text, type=Note)
        except (msgspec.MsgspecError, UnicodeError):
            raise lines.error(f"found {found(text)}; this note of fairchain is damaged, remove it") from None
        self.names[state] = note.name
        self.stands_for.update(note.labels)
        if note.unvisited:
            self.unvisited.add(state)
        return note.estimates

    def without_transitions(self, size: int, *, refuse: bool) -> list[int]:
        """Return the states without transitions, or refuse them, before allocating memory of `size`."""
        seen = np.zeros(size, bool)
        seen[np.array(self.sources, np.int64)] = True
        without: list[int] = np.flatnonzero(~seen).tolist()
        if without and refuse:
            raise self.lines.error(STATE_WITHOUT_TRANSITION.format(without=without[0]))
        return without

    def chain(self, size: int, initial: int, *, fix_deadlocks: bool, lines: Lines | None = None) -> Chain:
        """Return the chain; `lines` are those of the labels, if they are in a separate file."""
        for state in self.without_transitions(size, refuse=not fix_deadlocks):
            self.add(state, state, "1")
        labels: dict[str, frozenset[int]] = {}
        # A note may name a label that no state has.
        for identifier in {**self.labels, **self.stands_for}:
            label = self.stands_for.get(identifier, identifier)
            if label in labels:
                raise (lines or self.lines).error(f"two identifiers mean {found(label)}; correct the notes")
            labels[label] = frozenset(self.labels.get(identifier, ()))
        columns = (self.sources, self.targets, self.places, self.low, self.high, self.estimates)
        arrays = [np.array(column) for column in columns]
        order = np.lexsort((arrays[1], arrays[0]))
        source, target, line, low, high, estimates = (column[order] for column in arrays)
        for place in np.flatnonzero((np.diff(source) == 0) & (np.diff(target) == 0))[:1]:
            raise self.lines.error(
                f"the transition from {source[place]} to {target[place]} occurs twice; write it once",
                max(line[place], line[place + 1]),
            )
        probability, metadata = low, dict[str, Any]()
        if self.has_intervals and np.isfinite(estimates).all():
            probability = estimates
        elif self.has_intervals:
            # Only intervals are known: take some distribution inside.
            least, most = (np.bincount(source, bound, minlength=size) for bound in (low, high))
            for state in np.flatnonzero((least > 1 + ROW_SUM_ERROR) | (most < 1 - ROW_SUM_ERROR))[:1]:
                raise self.lines.error(
                    f"no distribution fits the intervals of state {state}: their sums are {least[state]:.9g} and "
                    f"{most[state]:.9g}, and 1 must lie between them",
                    self.places[self.sources.index(state)],
                )
            share = np.clip((1 - least) / np.where(most > least, most - least, 1), 0, 1)[source]
            probability = low + share * (high - low)
            metadata = {"probabilities": "chosen inside the intervals of the file"}
        sums = np.bincount(source, probability, minlength=size)
        for state in np.flatnonzero(~(np.abs(sums - 1) <= ROW_SUM_ERROR))[:1]:
            raise self.lines.error(
                f"the probabilities of state {state} sum to {sums[state]:.9g}, not to 1; correct them, or write them "
                "with more digits",
                int(line[np.searchsorted(source, state)]),
            )
        try:
            return Chain(
                states=tuple(self.names.get(state, default_name(state)) for state in range(size)),
                sources=source.astype(np.intp),
                targets=target.astype(np.intp),
                probabilities=probability,
                labels=labels,
                initial=initial,
                low=low if self.has_intervals else None,
                high=high if self.has_intervals else None,
                unvisited=frozenset(self.unvisited),
                metadata=metadata,
            )
        except ChainError as error:
            raise ChainError(f"{self.lines.path}: {error}; correct the file") from None


def default_name(number: int) -> str:
    """Return the name of a state that has none in the file, after the variable of fairchain's PRISM files."""
    return f"s={number}"
