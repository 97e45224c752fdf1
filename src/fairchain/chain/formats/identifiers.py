"""Names and numbers in files of PRISM and Storm, whose queries can only name labels that are identifiers.

So `sex=Female` is written as `sex_Female` in every such file, with a note of its meaning. A note is JSON at a position
that the other program skips; with it a chain is read back with its own names.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping

import msgspec

from fairchain.chain.chain import Chain
from fairchain.errors import ChainError

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


def read_note(text: str) -> Note | None:
    """Return the note in a text; None if it is damaged."""
    try:
        return msgspec.json.decode(text, type=Note)
    except (msgspec.MsgspecError, UnicodeError):
        return None


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
        base = name = _spelled(label)
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


def _spelled(label: str) -> str:
    for pattern, word in _SPELLED:
        label = pattern.sub(word, label)
    plain = unicodedata.normalize("NFKD", label).encode("ascii", "ignore").decode()
    name = re.sub(r"\W+", "_", plain).strip("_")[:_LONGEST] or "unnamed"
    return f"_{name}" if name[0].isdigit() else name
