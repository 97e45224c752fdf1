"""Journal of a model's answers: no answer of a slow or paid model is computed twice, and a killed run can continue.

An answer is stored under a keyed hash of the model's identity, of the model's input, and of the number of earlier
evaluations of this input in the run, so the file contains no inputs. The n-th evaluation of an input in a run gets the
n-th stored answer, and only missing ones are evaluated: a continued run sees the same answers as the killed one,
including those that were repeated as a test. Without a file, answers are stored in memory, for all users of the same
model object.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import CheckpointError, ModelError
from fairchain.models.frames import FrameModel
from fairchain.system.cache_folder import own_key
from fairchain.system.work_record import ANOTHER_WRITER, FILE_UNUSABLE, WorkRecord, work_record

JOURNAL_FORMAT = "fairchain-journal 1"
ANOTHER_MODEL = "{}: is the journal of another model or of another version; name another file, or delete this one"
DAMAGED = "{}: its last {:,} bytes were not written to the end, or were changed; these inputs are evaluated again"
ANOTHER_SHAPE = "{name}: answered with shape {other}, but with {shape} before; return answers of one shape"
ANOTHER_KIND = "{name}: answered with {kinds} at different times; return answers of one type"
NOT_JOURNALED = "journaled: found {type}; give a function, or as_frames(function)"
# The types of an answer, by the kind of its array.
NAMES_OF_KINDS = {"f": "fractions", "i": "whole numbers", "O": "texts"}
KINDS = {"f": np.float64, "i": np.int64, "O": object}
# Journals that are open in this process, by their file: two objects of one model share one.
_OPEN: weakref.WeakValueDictionary[Path, Journal] = weakref.WeakValueDictionary()


class Journal:
    """The answers of one model: those of another `identity` are never used.

    They are in memory, and in a file if there is a `path`, which is created if needed and locked until `close`. `note`
    is the problem at the end of the file, in a sentence, and `version` that of the model that gave the answers, if they
    state it; otherwise both are "".
    """

    def __init__(self, path: Path | None, identity: str) -> None:
        self.identity, self.note, self.version = identity, "", ""
        self._kept: dict[bytes, tuple[str, Any]] = {}
        self._record: WorkRecord | None = None
        self._lock, self._key, self._stack = threading.Lock(), b"", ExitStack()
        if path is None:
            return
        question = hashlib.sha256(identity.encode()).hexdigest()
        opened = work_record(path, question, form=JOURNAL_FORMAT, another=ANOTHER_MODEL)
        self._record = self._stack.enter_context(opened)
        weakref.finalize(self, self._stack.close)
        self._key = own_key(path)
        try:
            for piece in self._record.pieces:
                line = json.loads(piece)
                self.version = str(line.get("version", self.version))
                self._keep([bytes.fromhex(key) for key in line["keys"]], line["answers"], line["kind"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise CheckpointError(ANOTHER_WRITER.format(path)) from None
        self._record.pieces.clear()
        if self._record.dropped:
            self.note = DAMAGED.format(path, self._record.dropped)

    def __len__(self) -> int:
        """Return the number of answers."""
        return len(self._kept)

    @property
    def has_file(self) -> bool:
        """Whether answers are stored in a file."""
        return self._record is not None

    def close(self) -> None:
        """Release the file."""
        self._record = None
        self._stack.close()

    def keys(self, shown: Any, used: Counter[bytes] | None = None) -> list[bytes]:
        """Return the keyed hash of each row of the model's input.

        `used` counts the earlier evaluations of each row; each evaluation has another key. Without it, all keys are
        those of the first evaluation.
        """
        prefix = hashlib.sha256(self.identity.encode()).digest()
        keys = []
        with self._lock:
            for content in _contents(shown):
                row = hashlib.sha256(prefix + content).digest()
                before = 0 if used is None else used[row]
                keys.append(hmac.digest(self._key, row + before.to_bytes(8), hashlib.sha256)[:16])
                if used is not None:
                    used[row] += 1
        return keys

    def find(self, keys: Sequence[bytes]) -> list[Any]:
        """Return the answer under each key, (kind, value); None if there is none."""
        with self._lock:
            return [self._kept.get(key) for key in keys]

    def add(self, keys: Sequence[bytes], answers: NDArray[Any]) -> None:
        """Store answers, with a single write to the file."""
        kind, values = answers.dtype.kind, answers.tolist()
        with self._lock:
            self._keep(keys, values, kind)
            if self._record is not None:
                line = {"keys": [key.hex() for key in keys], "answers": values, "kind": kind}
                line |= {"version": self.version} if self.version else {}
                self._record.add(json.dumps(line, separators=(",", ":")).encode())

    def _keep(self, keys: Sequence[bytes], values: Sequence[Any], kind: str) -> None:
        if kind not in KINDS:
            raise ValueError(kind)
        for key, value in zip(keys, values, strict=True):
            self._kept[key] = kind, value


def open_journal(path: str | Path | None, identity: str) -> Journal:
    """Return the journal of a model; the one that is already open in this process, if any."""
    if path is None:
        return Journal(None, identity)
    # One file has one lock and one object, also if it is opened by another path.
    place = Path(os.path.realpath(path))
    if (journal := _OPEN.get(place)) is not None and journal.has_file:
        if journal.identity != identity:
            raise CheckpointError(ANOTHER_MODEL.format(path))
        return journal
    try:
        journal = _OPEN[place] = Journal(place if Path(path).is_symlink() else Path(path), identity)
    except OSError as error:
        raise CheckpointError(FILE_UNUSABLE.format(path, f"cannot be used ({error.strerror})")) from None
    return journal


def as_array(found: Sequence[tuple[str, Any]], name: str) -> NDArray[Any]:
    """Return answers as one array; refuse those of different kinds or shapes."""
    kinds = {kind for kind, _ in found}
    shapes = {np.shape(value) for _, value in found}
    if len(kinds) > 1:
        raise ModelError(ANOTHER_KIND.format(name=name, kinds=" and ".join(sorted(NAMES_OF_KINDS[k] for k in kinds))))
    if len(shapes) > 1:
        shape, other = sorted(map(str, shapes))[:2]
        raise ModelError(ANOTHER_SHAPE.format(name=name, other=other, shape=shape))
    return np.array([value for _, value in found], KINDS[kinds.pop()])


def _contents(shown: Any) -> list[bytes]:
    """Return each row of a model's input as unique bytes."""
    if isinstance(shown, list):
        return [b"t" + text.encode("utf-8", "surrogatepass") for text in shown]
    if isinstance(shown, np.ndarray):
        kind = f"a{shown.dtype.str}{shown.shape[1:]}".encode()
        return [kind + row.tobytes() for row in shown]
    if isinstance(shown, tuple):
        parts = zip(*map(_contents, shown), strict=True)
        return [b"p" + b"".join(len(part).to_bytes(8) + part for part in row) for row in parts]
    names = shown if isinstance(shown, dict) else shown.columns
    columns = {str(name): np.asarray(shown[name]).tolist() for name in names}
    head = b"f" + json.dumps(list(columns)).encode()
    return [head + repr(row).encode("utf-8", "surrogatepass") for row in zip(*columns.values(), strict=True)]


class Journaled:
    """A model with a journal: a service, or a function given through `journaled`.

    `client` sends the requests of a service, and is None for a function. `used` counts the evaluations of each input by
    all users of the model: no answer of a random model is used twice.
    """

    client: Any = None
    journal: Journal
    used: Counter[bytes]

    @property
    def has_file(self) -> bool:
        """Whether answers are stored in a file."""
        return self.journal.has_file


class JournaledFunction(Journaled):
    """A function with stored answers; made by `journaled`."""

    def __init__(self, function: Callable[[Any], Any] | FrameModel, journal: Journal) -> None:
        self.function, self.journal, self.used = function, journal, Counter()
        self._inner = function.function if isinstance(function, FrameModel) else function
        self.__qualname__ = getattr(self._inner, "__qualname__", type(self._inner).__name__)

    def __call__(self, shown: Any) -> Any:
        """Call the function."""
        return self._inner(shown)


def journaled(
    function: Callable[[Any], Any] | FrameModel, journal: str | Path | None = None, *, identity: str | None = None
) -> JournaledFunction:
    """Declare that a function is slow or costs money, so that its answers are stored and reused.

    If the function is deterministic, each distinct input is evaluated once. As a test, up to 16 of these inputs are
    evaluated a second time.

    Parameters
    ----------
    function
        A function of an array or of texts. Wrap a function of a frame with `as_frames` first.
    journal
        A file that stores each answer. A run that was stopped or killed continues from these answers. The file contains
        the answers with hashes of the inputs, and is valid only for the user who created it. With None, answers are
        kept in memory.
    identity
        A name for this model, for example the name and version of a service that the function calls. By default, the
        name of the function and a hash of its code. Change the identity when the answers may have changed.

    Examples
    --------
    >>> model = journaled(lambda applicants: applicants[:, 0] > 40, identity="rule 1")
    """
    inner = function.function if isinstance(function, FrameModel) else function
    if not callable(inner):
        raise ModelError(NOT_JOURNALED.format(type=type(inner).__name__))
    if identity is None:
        code = getattr(inner, "__code__", None)
        content = b"" if code is None else code.co_code + repr(code.co_names).encode() + _constants(code.co_consts)
        name = f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', type(inner).__name__)}"
        identity = f"function {name} {hashlib.sha256(content).hexdigest()}"
    return JournaledFunction(function, open_journal(journal, identity))


def _constants(constants: Sequence[Any]) -> bytes:
    """Return the constants of code without memory addresses, including those of inner functions."""
    return b" ".join(
        item.co_code + _constants(item.co_consts)
        if hasattr(item, "co_code")
        # The order of a set differs between processes.
        else repr(sorted(map(repr, item)) if isinstance(item, frozenset) else item).encode()
        for item in constants
    )
