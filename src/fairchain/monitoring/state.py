"""State of a monitor between runs: the property, the counts and the position in the input, in one small JSON file.

The file is replaced atomically, so a reader never sees a part of it. Its digest detects accidental changes. Two runs
over the same lines, however often they were stopped, leave the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from fairchain.certificate_format import digest
from fairchain.errors import DataError, FairchainError
from fairchain.monitoring.bounds import MOST_GROUP_ROWS, MOST_GROUPS, MonitoredProperty, name_problem
from fairchain.system.atomic_write import place
from fairchain.system.locks import locked_by_us
from fairchain.system.untrusted_files import UnreadableError, read_plain

# More than the question and all groups with the longest names need.
MOST_STATE_BYTES = 16_000_000
NEW = "start with a new --state"
STATE_IN_USE = "{}: {} is using this state; stop it, or give each monitor its own --state"
NOT_LOCKED = "{}: cannot be locked ({}); --state must name a file on a disk that has locks"

RowCount = Annotated[int, Meta(ge=0, le=MOST_GROUP_ROWS)]
Verdict = Literal["FAIR", "UNFAIR", "UNDECIDED"]


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of structs in which an undeclared key is an error."""


class StreamSpec(_Strict, frozen=True, kw_only=True):
    """The columns that are read from a stream, and the monitored property; a state belongs to one of these."""

    protected: tuple[str, ...]
    prediction: str
    outcome: str
    kind: Literal["difference", "ratio"]
    threshold: float
    delta: float
    groups: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a row's key: the protected ones, then the prediction."""
        return (*self.protected, self.prediction)

    def monitored(self, *, allow_constant: bool) -> MonitoredProperty:
        """Return the property."""
        return MonitoredProperty(
            threshold=self.threshold,
            kind=self.kind,
            delta=self.delta,
            groups=self.groups,
            allow_constant=allow_constant,
        )


class GroupState(_Strict, frozen=True, kw_only=True):
    """One group's counts."""

    name: str
    rows: RowCount
    successes: RowCount


class Read(_Strict, frozen=True, kw_only=True):
    """The counted part of a regular file and its format, if any of it was counted."""

    format: Literal["csv", "jsonl"] | None
    bytes: RowCount
    sha256: str


class Turn(_Strict, frozen=True, kw_only=True):
    """A decision, and the number of rows after which it was made."""

    verdict: Verdict
    rows: RowCount


FIRST_TURN = Turn(verdict="UNDECIDED", rows=0)


class State(_Strict, frozen=True, kw_only=True):
    """Everything that a monitor needs to continue. `file` is None for a stream."""

    format: Literal["fairchain-monitor"] = "fairchain-monitor"
    version: Literal[1] = 1
    question: StreamSpec
    groups: tuple[GroupState, ...] = ()
    left_out: RowCount = 0
    skipped: RowCount = 0
    now: Turn = FIRST_TURN
    first: Turn | None = None
    file: Read | None = None
    digest: str = ""


class FamilyState(_Strict, frozen=True, kw_only=True):
    """The states of several properties of one input, each as for a single property.

    `definitions` is a hash of the meaning of the names of groups and decisions in the spec.
    """

    format: Literal["fairchain-monitor-family"] = "fairchain-monitor-family"
    version: Literal[1] = 1
    questions: Annotated[tuple[State, ...], Meta(min_length=1)]
    definitions: str = ""
    digest: str = ""


def write_state(state: State | FamilyState, path: Path) -> None:
    """Replace the file atomically."""
    content = msgspec.to_builtins(state)
    content["digest"] = digest(content)
    text = msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"
    if len(text) > MOST_STATE_BYTES:
        raise FairchainError(
            f"{path}: a state of more than {MOST_STATE_BYTES:,} bytes cannot be read again; use shorter names"
        )
    place({path: text}, lasting=True)


def sole_use(path: Path) -> AbstractContextManager[None]:
    """Lock a state while it is in use: if two monitors counted into one file, one would lose its rows.

    Raises a FairchainError if another process uses the state.
    """
    return locked_by_us(path, FairchainError, STATE_IN_USE, NOT_LOCKED)


StateFile = TypeVar("StateFile", State, FamilyState)


def read_state(
    path: Path, kind: type[StateFile], questions: Sequence[StreamSpec], definitions: str = ""
) -> StateFile | None:
    """Return the state of one or several properties in a file; None if there is none.

    Raises a DataError if it is damaged, or belongs to other questions.
    """
    try:
        state = msgspec.json.decode(read_plain(path, MOST_STATE_BYTES), type=kind)
    except UnreadableError as error:
        if error.missing:
            return None
        raise DataError(f"{path}: {error}; --state must name a file that monitor wrote, or a new one") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path}: not a state of fairchain monitor ({error}); {NEW}") from None
    found = (state,) if isinstance(state, State) else state.questions
    intact = state.digest == digest(msgspec.to_builtins(state)) and len({each.file for each in found}) == 1
    if not intact or not all(map(_consistent, found)):
        raise DataError(f"{path}: was damaged or changed by hand; {NEW}")
    if len(found) != len(questions):
        raise DataError(f"{path}: was made for {len(found)} properties, not {len(questions)}; {NEW}")
    for each, question in zip(found, questions, strict=True):
        for key in StreamSpec.__struct_fields__:
            was, now = getattr(each.question, key), getattr(question, key)
            if was != now:
                raise DataError(
                    f"{path}: was made for {key} {_shown(was)}, not {_shown(now)}; give the same options, or {NEW}"
                )
    if isinstance(state, FamilyState) and state.definitions != definitions:
        raise DataError(f"{path}: was made for other definitions of the groups or labels; {NEW}")
    return state


def _consistent(state: State) -> bool:
    """Return whether some sequence of rows could have led to this state."""
    names, known = [group.name for group in state.groups], state.question.groups
    rows = sum(group.rows for group in state.groups)
    first = state.first or FIRST_TURN
    return (
        all(group.successes <= group.rows for group in state.groups)
        and len(set(names)) == len(names) <= MOST_GROUPS
        and not any(map(name_problem, names))
        and (not known or set(names) <= set(known))
        and first.rows <= state.now.rows <= rows
        and (first.verdict == "UNDECIDED") == (state.first is None)
        and (state.now.verdict == "UNDECIDED" or first.verdict != "UNDECIDED")
    )


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
