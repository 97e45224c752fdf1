"""PRISM's explicit files: transitions (.tra), states (.sta) and labels (.lab), three files with one stem.

PRISM reads numbers only in .sta and skips what follows them on a line; our notes stand there. Storm's older explicit
files, which say `dtmc` and `#DECLARATION` where PRISM counts, are read but not written: Storm has DRN.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fairchain.chain.chain import Chain
from fairchain.chain.formats.drn import INIT, named
from fairchain.chain.formats.files import MOST_STATES, Lines, found
from fairchain.chain.formats.identifiers import NOTE, identifiers_of, labels_by_state, note_text, notes_of, read_note
from fairchain.chain.formats.reader import ChainReader, count_of, default_name, state_count, state_number

TRANSITIONS, STATES, LABELS = SUFFIXES = (".tra", ".sta", ".lab")
_DECLARED = re.compile(r'\s*+([0-9]{1,9})="([^"]*+)"')
_STATE = re.compile(r"([0-9]{1,18}):\(([^()]*+)\)\s*+")


def to_texts(chain: Chain) -> dict[str, str]:
    """The three files by suffix."""
    identifiers = identifiers_of(chain.labels)
    return {
        TRANSITIONS: "".join(_transition_lines(chain)),
        STATES: "(s)\n"
        + "".join(f"{state}:({state}) {note_text(note)}\n" for state, note in enumerate(notes_of(chain, identifiers))),
        LABELS: "".join(_label_lines(chain, identifiers)),
    }


def _transition_lines(chain: Chain) -> Iterator[str]:
    yield f"{len(chain)} {len(chain.sources)}\n"
    columns = chain.sources.tolist(), chain.targets.tolist(), (chain.probabilities + 0.0).tolist()
    for source, target, probability in zip(*columns, strict=True):
        yield f"{source} {target} {probability!r}\n"


def _label_lines(chain: Chain, identifiers: dict[str, str]) -> Iterator[str]:
    names = [INIT, "deadlock", *identifiers.values()]
    yield " ".join(f'{number}="{name}"' for number, name in enumerate(names)) + "\n"
    number_of = {name: number for number, name in enumerate(names)}
    of = labels_by_state(chain, identifiers)
    for state in sorted({chain.initial, *of}):
        numbers = [0] if state == chain.initial else []
        numbers += [number_of[name] for name in of.get(state, [])]
        yield f"{state}: {' '.join(map(str, numbers))}\n"


def stem_of(path: Path) -> Path:
    """The name that the three files share."""
    return path.with_suffix("") if path.suffix in SUFFIXES else path


def read(path: Path, *, fix_deadlocks: bool = False) -> Chain:
    """The chain in a .tra file, with the names and labels of the .sta and .lab beside it if there are any."""
    stem = stem_of(path)
    draft, size = _read_transitions(_with(stem, TRANSITIONS))
    if not fix_deadlocks:
        draft.check_states(size)
    names = [default_name(state) for state in range(size)]
    stands_for: dict[str, str] = {}
    unvisited: frozenset[int] = frozenset()
    if _with(stem, STATES).exists():
        names, stands_for, unvisited = _read_states(_with(stem, STATES), size)
    # PRISM starts from state 0 if nothing else is said.
    initial, labels = 0, dict[str, frozenset[int]]()
    if _with(stem, LABELS).exists():
        initial, labels = _read_labels(_with(stem, LABELS), size, stands_for)
    return draft.chain(names, labels, initial, unvisited, fix_deadlocks)


def _with(stem: Path, suffix: str) -> Path:
    return stem.with_name(stem.name + suffix)


def _content(lines: Lines) -> Iterator[str]:
    """Lines that say something."""
    for line in lines:
        text = line.strip()
        if text and (text[0] != "#" or text == "#DECLARATION"):
            yield text


def _read_transitions(path: Path) -> tuple[ChainReader, int]:
    """The transitions, and how many states there are."""
    lines = Lines(path)
    head = next(_content(lines), "").split()
    counted = [word.lower() for word in head] != ["dtmc"]
    if counted and len(head) != 2:
        what = "; a head of three numbers belongs to an MDP, which is not read" if len(head) == 3 else ""
        raise lines.error(
            f"found {found(' '.join(head))}; write the numbers of states and of transitions, as 5 8{what}"
        )
    size = state_count(lines, head[0]) if counted else MOST_STATES
    draft = ChainReader(lines)
    for text in _content(lines):
        words = text.split(maxsplit=3)
        if len(words) < 3:
            raise lines.error(f"found {found(text)}; write source, target and probability, as 0 3 0.25")
        draft.add(state_number(lines, words[0], size), state_number(lines, words[1], size), words[2])
    if not draft.sources:
        raise lines.error("the file has no transitions; is it whole?")
    if not counted:
        return draft, max(map(max, (draft.sources, draft.targets))) + 1
    if count_of(lines, head[1], "the number of transitions") != len(draft.sources):
        raise lines.error(
            f"the file has {len(draft.sources)} transitions, and its first line says {head[1]}; is it whole?"
        )
    return draft, size


def _read_states(path: Path, size: int) -> tuple[list[str], dict[str, str], frozenset[int]]:
    """Names of the states, what identifiers of labels stand for, and the states of which nothing was seen."""
    lines = Lines(path)
    head = next(_content(lines), "")
    if not (head.startswith("(") and head.endswith(")")):
        raise lines.error(f"found {found(head)}; write the names of the variables, as (s) or (s,d)")
    variables = head[1:-1].split(",")
    names: dict[int, str] = {}
    stands_for: dict[str, str] = {}
    unvisited: set[int] = set()
    for text in _content(lines):
        match = _STATE.match(text)
        values = match[2].split(",") if match else []
        if match is None or len(values) != len(variables):
            raise lines.error(f"found {found(text)}; write a state as 0:({','.join('0' for _ in variables[:9])})")
        state = state_number(lines, match[1], size)
        if state in names:
            raise lines.error(f"state {state} stands twice; write it once")
        names[state] = ", ".join(
            f"{name.strip()}={value.strip()}" for name, value in zip(variables, values, strict=True)
        )
        tail = text[match.end() :]
        if tail.startswith(NOTE):
            note = read_note(tail)
            if note is None:
                raise lines.error(f"found {found(tail)}; this note of fairchain is damaged, remove it")
            names[state] = note.name
            stands_for.update(note.labels)
            if note.unvisited:
                unvisited.add(state)
    if len(names) != size:
        raise lines.error(f"the file has {len(names)} states, and there are {size}; write one line for each")
    return [names[state] for state in range(size)], stands_for, frozenset(unvisited)


@dataclass
class _Labels:
    """Where each label stands."""

    lines: Lines
    size: int
    states: dict[str, set[int]] = field(default_factory=dict)

    def declare(self, label: str) -> None:
        if label in self.states:
            raise self.lines.error(f"the label {found(label)} is declared twice; declare it once")
        self.states[label] = set()

    def put(self, label: str, state: str) -> None:
        self.states[label].add(state_number(self.lines, state, self.size))


def _read_labels(path: Path, size: int, stands_for: dict[str, str]) -> tuple[int, dict[str, frozenset[int]]]:
    """The initial state, and the labels."""
    lines = Lines(path)
    labels = _Labels(lines, size)
    head = next(_content(lines), "")
    if head == "#DECLARATION":
        _storm_labels(lines, labels)
    else:
        _prism_labels(lines, head, labels)
    initial = labels.states.pop(INIT, set())
    if len(initial) != 1:
        raise lines.error(f'{len(initial)} states have the label "{INIT}"; give it to the one to start from')
    if not labels.states.get("deadlock"):
        labels.states.pop("deadlock", None)
    return initial.pop(), named(lines, labels.states, stands_for)


def _prism_labels(lines: Lines, head: str, labels: _Labels) -> None:
    names: list[str] = []
    end = 0
    while end < len(head):
        match = _DECLARED.match(head, end)
        if match is None or int(match[1]) != len(names):
            raise lines.error(f'found {found(head[end:])}; declare labels in order, as 0="init" 1="deadlock" 2="done"')
        names.append(match[2])
        labels.declare(match[2])
        end = match.end()
    for text in _content(lines):
        state, _, numbers = text.partition(":")
        for number in numbers.split():
            place = count_of(lines, number, "the number of a label")
            if place >= len(names):
                raise lines.error(f"there is no label {place}; there are {len(names)}, numbered from 0")
            labels.put(names[place], state.strip())


def _storm_labels(lines: Lines, labels: _Labels) -> None:
    for line in lines:
        if line.strip() == "#END":
            break
        for name in line.split():
            labels.declare(name)
    for text in _content(lines):
        state, *names = text.split()
        for name in names:
            if name not in labels.states:
                raise lines.error(f"the label {found(name)} is not declared; write it between #DECLARATION and #END")
            labels.put(name, state)
