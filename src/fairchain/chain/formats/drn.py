"""Storm's DRN files: states with labels, and below each its transitions; probabilities or intervals.

Names of states and labels are in comments that Storm skips. Files of Storm and of PRISM are also read: rewards are
ignored, valuations become names, and models other than discrete-time Markov chains are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from fairchain.chain.chain import Chain
from fairchain.chain.formats.reading import (
    ChainReader,
    Lines,
    default_name,
    found,
    identifiers_of,
    labels_by_state,
    note_text,
    notes_of,
    written_values,
)

INIT = "init"
# Anchored, because trying every position of a line would take quadratic time.
_LABEL = re.compile(r'\s*+(?:"([^"]*+)"(?=\s|"|$)|([^\s"]++)(?=\s|$))')
_REWARDS = re.compile(r"\[[^\]]*\]")
NOT_A_DTMC = "found a model of type {fact}; only DTMC is read"


def to_lines(chain: Chain, *, intervals: bool = False) -> Iterator[str]:
    """Yield the lines of the chain as a DRN file, with intervals instead of probabilities if requested."""
    size = str(len(chain))
    yield "// A Markov chain, written by fairchain"
    yield "@type: DTMC"
    # Without this line earlier versions of Storm can also read the file; intervals need it.
    if intervals:
        yield "@value_type: double-interval"
    yield from ("@parameters", "", "@reward_models", "", "@nr_states", size, "@nr_choices", size, "@model")
    identifiers = identifiers_of(chain.labels)
    labels = labels_by_state(chain, identifiers)
    targets, values = chain.targets.tolist(), written_values(chain, intervals)
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


def read(path: Path, *, fix_deadlocks: bool = False) -> Chain:
    """Read the chain in a DRN file."""
    lines = Lines(path)
    body = _Body(lines, _head(lines))
    for line in lines:
        body.take(line)
    return body.chain(fix_deadlocks=fix_deadlocks)


def _head(lines: Lines) -> int:
    """Read everything before the states, and return the number of states."""
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
            facts[line] = next(iter(lines), "").strip()
        elif line.strip() and not line.startswith("//"):
            raise lines.error(f"found {found(line)}, which is not in the head of a DRN file; end the head with @model")
        fact = facts.get(key, "")
        if key == "@type" and fact.lower() != "dtmc":
            raise lines.error(NOT_A_DTMC.format(fact=found(fact)))
        if (key == "@value_type" and fact == "parametric") or (key == "@parameters" and fact):
            raise lines.error("the model has parameters; replace them by numbers first")
        if key == "@nr_states":
            lines.state_count(fact)
        if key == "@nr_choices":
            lines.count(fact, "the number of choices")
    raise lines.error("the file ends before @model; is it a complete DRN file?")


class _Body:
    """Reader of the states and transitions of a file, line by line."""

    def __init__(self, lines: Lines, size: int) -> None:
        self._lines, self._size, self._reader = lines, size, ChainReader(lines)
        self._states, self._first = 0, 0
        self._initial: int | None = None
        self._acted = self._noted = False
        self._estimates: tuple[float, ...] = ()

    def take(self, line: str) -> None:
        """Read one line."""
        text = line.strip()
        if line.startswith("//"):
            if not self._states:
                return
            # A name: fairchain's in a note, Storm's as a valuation in brackets.
            estimates = self._reader.note(self._lines, self._states - 1, line[2:])
            if estimates is not None:
                self._noted, self._estimates = True, estimates
            elif line.startswith("//[") and line.endswith("]"):
                self._reader.names[self._states - 1] = " ".join(line[3:-1].split())
        elif text.startswith("state "):
            self._state(text[6:].lstrip())
        elif text.startswith("action "):
            if self._acted or not self._states:
                raise self._lines.error("a state of a DTMC has one action; this is a second, or before any state")
            self._acted = True
        elif text:
            if not self._states:
                raise self._lines.error(f"found {found(text)} before any state; write state 0 first")
            target, colon, value = text.partition(":")
            if not colon:
                raise self._lines.error(f"found {found(text)}; write a transition as 3 : 0.25")
            number = self._lines.state(target.strip(), self._size)
            place = len(self._reader.sources) - self._first
            estimate = self._estimates[place] if place < len(self._estimates) else None
            self._reader.add(self._states - 1, number, value.strip(), estimate)

    def _state(self, text: str) -> None:
        number, _, rest = text.partition(" ")
        if self._lines.state(number, self._size) != self._states:
            raise self._lines.error(f"found state {number}; state {self._states} comes next, write them in order")
        self._close()
        state = self._states
        self._states += 1
        rewards = _REWARDS.match(rest)
        text, end = (rest[rewards.end() :] if rewards else rest).strip(), 0
        while end < len(text):
            match = _LABEL.match(text, end)
            if match is None:
                raise self._lines.error(f"found {found(text[end:])}; separate labels by blanks, or quote them")
            end = match.end()
            label = match[2] if match[1] is None else match[1]
            if label != INIT:
                self._reader.labels.setdefault(label, set()).add(state)
            elif self._initial is None:
                self._initial = state
            else:
                raise self._lines.error(f"states {self._initial} and {state} are both init; keep one to start from")

    def _close(self) -> None:
        """End a state; its note must have an estimate for each of its transitions or none."""
        count = len(self._reader.sources) - self._first
        if self._estimates and len(self._estimates) != count:
            raise self._lines.error(
                f"state {self._states - 1} has {count} transitions and its note {len(self._estimates)} estimates; "
                "correct the note or remove it"
            )
        self._acted, self._estimates, self._first = False, (), len(self._reader.sources)

    def chain(self, *, fix_deadlocks: bool) -> Chain:
        """Return the chain, if the file is complete."""
        self._close()
        if self._states != self._size:
            raise self._lines.error(f"the file ends after {self._states} of {self._size} states; is it complete?")
        if self._initial is None:
            raise self._lines.error("no state is init; write init after the number of the state to start from")
        # A valuation may omit what distinguishes two states; fairchain's own notes do not.
        names = self._reader.names
        if not self._noted and len({names.get(each, default_name(each)) for each in range(self._size)}) < self._size:
            names.clear()
        return self._reader.chain(self._size, self._initial, fix_deadlocks=fix_deadlocks)
