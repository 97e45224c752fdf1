"""Storm's DRN files: states with labels, and below each its transitions; probabilities or intervals.

Names and what the labels stand for are in comments that Storm skips. Files of Storm and of PRISM are read too: rewards
are passed over, valuations become names, and what is no discrete-time Markov chain is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from fairchain.chain.chain import Chain
from fairchain.chain.formats.files import Lines, found
from fairchain.chain.formats.identifiers import (
    NOTE,
    Note,
    identifiers_of,
    labels_by_state,
    note_text,
    notes_of,
    read_note,
)
from fairchain.chain.formats.reader import ChainReader, count_of, default_name, state_count, state_number
from fairchain.errors import ChainError

INIT = "init"
# Never tried from every place of a line, which would take the square of its length.
_LABEL = re.compile(r'\s*+(?:"([^"]*+)"(?=\s|"|$)|([^\s"]++)(?=\s|$))')
_REWARDS = re.compile(r"\[[^\]]*\]")


def to_text(chain: Chain, *, intervals: bool = False) -> str:
    """The chain as a DRN file, with intervals in place of probabilities if asked."""
    return "\n".join(_lines(chain, intervals)) + "\n"


def _lines(chain: Chain, intervals: bool) -> Iterator[str]:
    size = str(len(chain))
    yield "// A Markov chain, written by fairchain"
    yield "@type: DTMC"
    # Without this line also earlier versions of Storm read the file; intervals need it.
    if intervals:
        yield "@value_type: double-interval"
    yield from ("@parameters", "", "@reward_models", "", "@nr_states", size, "@nr_choices", size, "@model")
    identifiers = identifiers_of(chain.labels)
    labels = labels_by_state(chain, identifiers)
    targets, values = chain.targets.tolist(), _values(chain, intervals)
    for state, note in enumerate(notes_of(chain, identifiers)):
        begin, end = int(chain.starts[state]), int(chain.starts[state + 1])
        initial = [INIT] if state == chain.initial else []
        yield " ".join([f"state {state}", *initial, *labels.get(state, [])])
        if intervals:
            note = replace(note, estimates=tuple(chain.probabilities[begin:end].tolist()))  # noqa: PLW2901
        yield f"//{note_text(note)}"
        yield "\taction 0"
        for place in range(begin, end):
            yield f"\t\t{targets[place]} : {values[place]}"


def _values(chain: Chain, intervals: bool) -> list[str]:
    if not intervals:
        return [repr(value) for value in (chain.probabilities + 0.0).tolist()]
    if chain.low is None or chain.high is None:
        raise ChainError("this chain has no intervals; write it without them")
    return [f"[{low!r}, {high!r}]" for low, high in zip(chain.low.tolist(), chain.high.tolist(), strict=True)]


def read(path: Path, *, fix_deadlocks: bool = False) -> Chain:
    """The chain in a DRN file."""
    lines = Lines(path)
    body = _Body(lines, _head(lines))
    for line in lines:
        body.take(line)
    return body.chain(fix_deadlocks)


def _head(lines: Lines) -> int:
    """Pass everything before the states, and return how many there are."""
    facts: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        if line == "@model":
            for missing, example in (("@type", ": DTMC"), ("@nr_states", " and their number below it")):
                if missing not in facts:
                    raise lines.error(f"@model comes before {missing}; write {missing}{example} above")
            return int(facts["@nr_states"])
        if key in ("@type", "@value_type"):
            facts[key] = value.strip()
        elif line in ("@parameters", "@reward_models", "@nr_states", "@nr_choices"):
            facts[line] = lines.following().strip()
        elif line.strip() and not line.startswith("//"):
            raise lines.error(f"found {found(line)}; this is no line of a DRN file's head, which ends with @model")
        _check_fact(lines, key, facts.get(key, ""))
    raise lines.error("the file ends before @model; is it a DRN file, and whole?")


def _check_fact(lines: Lines, key: str, value: str) -> None:
    """Refuse at its line what is no plain DTMC."""
    if key == "@type" and value.lower() != "dtmc":
        raise lines.error(f"found a model of type {found(value)}; only DTMC is read")
    if (key == "@value_type" and value == "parametric") or (key == "@parameters" and value):
        raise lines.error("the model has parameters; put numbers in their place first")
    if key == "@nr_states":
        state_count(lines, value)
    if key == "@nr_choices":
        count_of(lines, value, "the number of choices")


@dataclass
class _Body:
    """The states and transitions read so far."""

    lines: Lines
    size: int
    names: list[str] = field(default_factory=list)
    labels: dict[str, set[int]] = field(default_factory=dict)
    stands_for: dict[str, str] = field(default_factory=dict)
    unvisited: set[int] = field(default_factory=set)
    initial: int | None = None
    acted: bool = False
    noted: bool = False
    estimates: tuple[float, ...] = ()
    first: int = 0

    def __post_init__(self) -> None:
        self.draft = ChainReader(self.lines)

    def take(self, line: str) -> None:
        """Read one line."""
        text = line.strip()
        if line.startswith("//"):
            self._comment(line[2:])
        elif text.startswith("state "):
            self._state(text[6:].lstrip())
        elif text.startswith("action "):
            if self.acted or not self.names:
                raise self.lines.error(
                    "a state has one action in a DTMC; this one has more, or stands before any state"
                )
            self.acted = True
        elif text:
            self._transition(text)

    def _state(self, text: str) -> None:
        number, _, rest = text.partition(" ")
        if state_number(self.lines, number, self.size) != len(self.names):
            raise self.lines.error(f"found state {number}; state {len(self.names)} comes next, write them in order")
        self._close()
        state = len(self.names)
        self.names.append(default_name(state))
        rewards = _REWARDS.match(rest)
        for label in self._labels(rest[rewards.end() :] if rewards else rest):
            if label != INIT:
                self.labels.setdefault(label, set()).add(state)
            elif self.initial is None:
                self.initial = state
            else:
                raise self.lines.error(f"states {self.initial} and {state} are both init; keep one to start from")

    def _close(self) -> None:
        """End a state, whose note must have an estimate for each of its transitions or none."""
        count = len(self.draft.sources) - self.first
        if self.estimates and len(self.estimates) != count:
            raise self.lines.error(
                f"state {len(self.names) - 1} has {count} transitions and its note {len(self.estimates)} estimates; "
                "correct the note or remove it"
            )
        self.acted, self.estimates, self.first = False, (), len(self.draft.sources)

    def _labels(self, text: str) -> Iterator[str]:
        text, end = text.strip(), 0
        while end < len(text):
            match = _LABEL.match(text, end)
            if match is None:
                raise self.lines.error(f"found {found(text[end:])}; separate labels by blanks, or quote them")
            end = match.end()
            yield match[2] if match[1] is None else match[1]

    def _comment(self, text: str) -> None:
        """Names: ours in a note, Storm's as a valuation in brackets."""
        state = len(self.names) - 1
        if state < 0:
            return
        if text.startswith(NOTE):
            note = read_note(text)
            if note is None:
                raise self.lines.error(f"found {found(text)}; this note of fairchain is damaged, remove it")
            self._note(state, note)
        elif text.startswith("[") and text.endswith("]"):
            self.names[state] = " ".join(text[1:-1].split())

    def _note(self, state: int, note: Note) -> None:
        self.noted = True
        self.names[state] = note.name
        self.stands_for.update(note.labels)
        self.estimates = note.estimates
        if note.unvisited:
            self.unvisited.add(state)

    def _transition(self, text: str) -> None:
        if not self.names:
            raise self.lines.error(f"found {found(text)} before any state; write state 0 first")
        target, colon, value = text.partition(":")
        if not colon:
            raise self.lines.error(f"found {found(text)}; write a transition as 3 : 0.25")
        number = state_number(self.lines, target.strip(), self.size)
        place = len(self.draft.sources) - self.first
        estimate = self.estimates[place] if place < len(self.estimates) else None
        self.draft.add(len(self.names) - 1, number, value.strip(), estimate)

    def chain(self, fix_deadlocks: bool) -> Chain:
        """The chain, if the file is whole."""
        self._close()
        if len(self.names) != self.size:
            raise self.lines.error(f"the file ends after {len(self.names)} of {self.size} states; is it whole?")
        if self.initial is None:
            raise self.lines.error("no state is init; write init after the number of the state to start from")
        labels = named(self.lines, self.labels, self.stands_for)
        # A valuation may leave out what tells two states apart; our own notes do not.
        alike = not self.noted and len(set(self.names)) < self.size
        names = list(map(default_name, range(self.size))) if alike else self.names
        return self.draft.chain(names, labels, self.initial, frozenset(self.unvisited), fix_deadlocks)


def named(lines: Lines, labels: dict[str, set[int]], stands_for: dict[str, str]) -> dict[str, frozenset[int]]:
    """The labels of a file under the names that they stand for."""
    full: dict[str, frozenset[int]] = {}
    # A note may name a label that no state has.
    for identifier in {**labels, **stands_for}:
        label = stands_for.get(identifier, identifier)
        if label in full:
            raise lines.error(f"two labels stand for {found(label)}; correct the notes of fairchain in the file")
        full[label] = frozenset(labels.get(identifier, ()))
    return full
