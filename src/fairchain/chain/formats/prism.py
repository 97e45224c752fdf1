"""PRISM's files: its language, which is only written, and three explicit files with one stem (.tra, .sta and .lab).

The language has one module with one variable, the index of the state; PRISM and Storm both read it. Names of states are
in comments, labels are written as identifiers (`reading`). Of .sta PRISM reads only the numbers and skips the rest
of a line, which contains fairchain's notes. Storm's older explicit files, which have `dtmc` and `#DECLARATION` where
PRISM has counts, are read but not written: Storm has DRN.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from fairchain.chain.chain import Chain
from fairchain.chain.formats.drn import INIT
from fairchain.chain.formats.reading import (
    MOST_STATES,
    ChainReader,
    Lines,
    comment_name,
    found,
    identifiers_of,
    labels_by_state,
    note_text,
    notes_of,
    written_values,
)

# Longer disjunctions of states are nested by halves, because a parser recurses into each "|".
FLAT = 16
EXPLICIT_SUFFIXES = (".tra", ".sta", ".lab")
_DECLARED = re.compile(r'\s*+([0-9]{1,9})="([^"]*+)"')
_STATE = re.compile(r"([0-9]{1,18}):\(([^()]*+)\)\s*+")


def to_lines(chain: Chain, *, intervals: bool = False) -> Iterator[str]:
    """Yield the lines of the chain in the PRISM language, with intervals instead of probabilities if requested."""
    yield "// A Markov chain, written by fairchain"
    yield from ("dtmc", "", "module chain")
    # PRISM has no variable with a single value.
    yield f"  s : [0..{max(len(chain) - 1, 1)}] init {chain.initial};"
    yield ""
    values, targets = written_values(chain, intervals), chain.targets.tolist()
    # A transition of probability 0 is left out.
    possible = ((chain.high if intervals and chain.high is not None else chain.probabilities) > 0).tolist()
    for state, name in enumerate(chain.states):
        unvisited = " (never visited: its transitions are placeholders)" if state in chain.unvisited else ""
        yield f"  // {comment_name(name)}{unvisited}"
        row = range(chain.starts[state], chain.starts[state + 1])
        updates = [f"{values[place]} : (s'={targets[place]})" for place in row if possible[place]]
        yield f"  [] s={state} -> " + "\n    + ".join(updates) + ";"
    yield "endmodule"
    for label, identifier in identifiers_of(chain.labels).items():
        yield ""
        yield f"// {comment_name(label)}"
        yield f'label "{identifier}" = {_any_of(sorted(chain.labels[label]))};'


def _any_of(states: Sequence[int]) -> str:
    """Return a formula for being in one of these states, which are sorted."""
    runs: list[tuple[int, int]] = []
    for state in states:
        if runs and runs[-1][1] == state - 1:
            runs[-1] = runs[-1][0], state
        else:
            runs.append((state, state))
    parts = [
        f"(s>={first}&s<={last})" if last - first > 1 else "|".join(f"s={state}" for state in range(first, last + 1))
        for first, last in runs
    ]
    return _joined(parts) if parts else "false"


def _joined(parts: Sequence[str]) -> str:
    if len(parts) <= FLAT:
        return "|".join(parts)
    half = len(parts) // 2
    return f"({_joined(parts[:half])})|({_joined(parts[half:])})"


def explicit_texts(chain: Chain) -> tuple[str, str, str]:
    """Return the texts of the three files, in the order of `EXPLICIT_SUFFIXES`."""
    identifiers = identifiers_of(chain.labels)
    columns = chain.sources.tolist(), chain.targets.tolist(), written_values(chain)
    rows = [f"{source} {target} {value}" for source, target, value in zip(*columns, strict=True)]
    notes = [f"{state}:({state}) {note_text(note)}" for state, note in enumerate(notes_of(chain, identifiers))]
    number_of = {name: number for number, name in enumerate([INIT, "deadlock", *identifiers.values()])}
    declared = " ".join(f'{number}="{name}"' for name, number in number_of.items())
    by_state = labels_by_state(chain, identifiers)
    marked = []
    for state in sorted({chain.initial, *by_state}):
        names = [INIT] * (state == chain.initial) + by_state.get(state, [])
        marked.append(f"{state}: {' '.join(str(number_of[name]) for name in names)}")
    files = [f"{len(chain)} {len(rows)}", *rows], ["(s)", *notes], [declared, *marked]
    tra, sta, lab = ("\n".join(lines) + "\n" for lines in files)
    return tra, sta, lab


def explicit_paths(path: Path) -> tuple[Path, Path, Path]:
    """Return the paths of the three files, given one of them or their stem."""
    stem = path.with_suffix("") if path.suffix in EXPLICIT_SUFFIXES else path
    tra, sta, lab = (stem.with_name(stem.name + suffix) for suffix in EXPLICIT_SUFFIXES)
    return tra, sta, lab


def read_explicit(path: Path, *, fix_deadlocks: bool = False) -> Chain:
    """Read the chain in a .tra file, with the names and labels of the .sta and .lab next to it, if any."""
    tra, sta, lab = explicit_paths(path)
    reader = ChainReader(Lines(tra))
    size = _read_transitions(reader)
    if not fix_deadlocks:
        reader.without_transitions(size, refuse=True)
    if sta.exists():
        _read_states(reader, Lines(sta), size)
    # PRISM starts from state 0 by default.
    initial, lines = 0, reader.lines
    if lab.exists():
        lines = Lines(lab)
        initial = _read_labels(reader, lines, size)
    else:
        reader.stands_for.clear()
    return reader.chain(size, initial, fix_deadlocks=fix_deadlocks, lines=lines)


def _content(lines: Lines) -> Iterator[str]:
    """Yield the lines that are not empty or comments."""
    for line in lines:
        text = line.strip()
        if text and (text[0] != "#" or text == "#DECLARATION"):
            yield text


def _read_transitions(reader: ChainReader) -> int:
    """Read the transitions, and return the number of states."""
    lines = reader.lines
    head = next(_content(lines), "").split()
    counted = [word.lower() for word in head] != ["dtmc"]
    if counted and len(head) != 2:
        what = "; a head of three numbers belongs to an MDP, which is not read" if len(head) == 3 else ""
        raise lines.error(
            f"found {found(' '.join(head))}; write the numbers of states and of transitions, as 5 8{what}"
        )
    size = lines.state_count(head[0]) if counted else MOST_STATES
    for text in _content(lines):
        words = text.split(maxsplit=3)
        if len(words) < 3:
            raise lines.error(f"found {found(text)}; write source, target and probability, as 0 3 0.25")
        reader.add(lines.state(words[0], size), lines.state(words[1], size), words[2])
    if not reader.sources:
        raise lines.error("the file has no transitions; is it complete?")
    if not counted:
        return max(map(max, (reader.sources, reader.targets))) + 1
    if lines.count(head[1], "the number of transitions") != len(reader.sources):
        raise lines.error(
            f"the file has {len(reader.sources)} transitions, and its first line states {head[1]}; is it complete?"
        )
    return size


def _read_states(reader: ChainReader, lines: Lines, size: int) -> None:
    """Read the names of the states, and fairchain's notes: names of labels, and the unvisited states."""
    head = next(_content(lines), "")
    if not (head.startswith("(") and head.endswith(")")):
        raise lines.error(f"found {found(head)}; write the names of the variables, as (s) or (s,d)")
    variables = head[1:-1].split(",")
    for text in _content(lines):
        match = _STATE.match(text)
        values = match[2].split(",") if match else []
        if match is None or len(values) != len(variables):
            raise lines.error(f"found {found(text)}; write a state as 0:({','.join('0' for _ in variables[:9])})")
        state = lines.state(match[1], size)
        if state in reader.names:
            raise lines.error(f"state {state} occurs twice; write it once")
        pairs = zip(variables, values, strict=True)
        reader.names[state] = ", ".join(f"{name.strip()}={value.strip()}" for name, value in pairs)
        reader.note(lines, state, text[match.end() :])
    if len(reader.names) != size:
        raise lines.error(f"the file has {len(reader.names)} states, and there are {size}; write one line for each")


def _read_labels(reader: ChainReader, lines: Lines, size: int) -> int:
    """Read the labels, and return the initial state."""
    labels = reader.labels
    head = next(_content(lines), "")
    prism = head != "#DECLARATION"
    # Storm declares labels on lines up to #END.
    by_storm = (name for line in takewhile(lambda line: line.strip() != "#END", lines) for name in line.split())
    for name in _declared(lines, head) if prism else by_storm:
        if name in labels:
            raise lines.error(f"the label {found(name)} is declared twice; declare it once")
        labels[name] = set()
    names = list(labels)
    for text in _content(lines):
        if prism:
            state, _, numbers = text.partition(":")
            places = [lines.count(number, "the number of a label") for number in numbers.split()]
            for place in places:
                if place >= len(names):
                    raise lines.error(f"unknown label {place}; the file has {len(names)} labels, numbered from 0")
            own = [names[place] for place in places]
        else:
            state, *own = text.split()
        for name in own:
            if name not in labels:
                raise lines.error(f"the label {found(name)} is not declared; write it between #DECLARATION and #END")
            labels[name].add(lines.state(state.strip(), size))
    initial = labels.pop(INIT, set())
    if len(initial) != 1:
        raise lines.error(f'{len(initial)} states have the label "{INIT}"; give it to the one to start from')
    if not labels.get("deadlock"):
        labels.pop("deadlock", None)
    return initial.pop()


def _declared(lines: Lines, head: str) -> Iterator[str]:
    """Yield the labels that PRISM declares on the first line."""
    end = number = 0
    while end < len(head):
        match = _DECLARED.match(head, end)
        if match is None or int(match[1]) != number:
            raise lines.error(f'found {found(head[end:])}; declare labels in order, as 0="init" 1="deadlock" 2="done"')
        yield match[2]
        end, number = match.end(), number + 1
