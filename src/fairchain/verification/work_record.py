"""Work records: finished pieces of a long computation in a file, so that a run that was killed continues.

A record is bound to one question by a hash, and each line to all lines before it by a keyed hash (HMAC-SHA256). The key
is a private file of the user, so nobody else can write a line that is believed: a changed, exchanged or repeated line
ends the record there, and the pieces from it on are computed again. A line is appended by one write after its piece is
finished; a line that a killed process left unfinished is dropped in the same way.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fairchain.errors import CheckpointError
from fairchain.system.atomic_write import append, place
from fairchain.system.locks import LockedError, locked
from fairchain.system.untrusted_files import UnreadableError, read_plain

FORMAT = "fairchain-checkpoint 1"
# Bytes of a record, at most.
LARGEST = 2**30
KEY = "checkpoint.key"
KEY_BYTES = 32
NOT_OURS = "{}: not a checkpoint of fairchain; name another file"
ANOTHER_WRITER = "{}: was not written by this user on this computer, or was changed; name another file, or delete this"
ANOTHER_QUESTION = (
    "{}: belongs to another question, network or version of the software; name another file, or delete this"
)
IN_USE = "{}: {} is using it; wait for its end, or name another file"
UNUSABLE = "{}: {}; name another file"
NO_KEY = "{}: the key of checkpoints {}; set FAIRCHAIN_CACHE to a folder of your own"


class WorkRecord:
    """The finished pieces of one computation, in their order.

    Parameters
    ----------
    path
        The file; it is made if it does not exist.
    question
        A hash of everything that the pieces depend on.
    key
        What lines are signed with.

    Raises
    ------
    CheckpointError
        If the file exists and is not the record of this question, written with this key.
    """

    def __init__(self, path: Path, question: str, key: bytes) -> None:
        self._path, self._key = path, key
        self.pieces: list[bytes] = []
        head = json.dumps({"format": FORMAT, "question": question}).encode()
        try:
            content = read_plain(path, LARGEST)
        except UnreadableError as error:
            if not error.missing:
                raise CheckpointError(UNUSABLE.format(path, error)) from None
            self._tag = self._signed(b"", head)
            place({path: self._line(head)}, lasting=True)
            return
        lines = content.split(b"\n")
        tag, _, found = lines[0].partition(b" ")
        if f'"{FORMAT}"'.encode() not in found:
            raise CheckpointError(NOT_OURS.format(path))
        if not hmac.compare_digest(tag, self._signed(b"", found)):
            raise CheckpointError(ANOTHER_WRITER.format(path))
        if found != head:
            raise CheckpointError(ANOTHER_QUESTION.format(path))
        self._tag, kept = tag, len(lines[0]) + 1
        # What follows the last line break is an unfinished line.
        for line in lines[1:-1]:
            tag, _, piece = line.partition(b" ")
            if not hmac.compare_digest(tag, self._signed(self._tag, piece)):
                break
            self._tag, kept = tag, kept + len(line) + 1
            self.pieces.append(piece)
        if kept < len(content):
            place({path: content[:kept]}, lasting=True)

    def add(self, piece: bytes) -> None:
        """Append a finished piece, one line of JSON."""
        self._tag = self._signed(self._tag, piece)
        append(self._path, self._line(piece))

    def _signed(self, before: bytes, piece: bytes) -> bytes:
        return hmac.digest(self._key, before + b" " + piece, hashlib.sha256).hex().encode()

    def _line(self, piece: bytes) -> bytes:
        return self._tag + b" " + piece + b"\n"


@contextmanager
def work_record(path: Path, question: str) -> Iterator[WorkRecord]:
    """Open the record of a question for this process alone."""
    stack = ExitStack()
    try:
        stack.enter_context(locked(path))
    except LockedError as error:
        raise CheckpointError(IN_USE.format(path, error)) from None
    except (OSError, ValueError) as error:
        why = f"cannot be used ({getattr(error, 'strerror', None) or error})"
        raise CheckpointError(UNUSABLE.format(path, why)) from None
    with stack:
        yield WorkRecord(path, question, _own_key(path))


def _own_key(path: Path) -> bytes:
    """Return the user's key, made when it is first needed; refuse one that others could have read or put there."""
    from fairchain.datasets.fetch import cache_dir

    file = cache_dir() / KEY
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with locked(file, wait=True):
            if not file.exists():
                with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as new:
                    new.write(secrets.token_bytes(KEY_BYTES))
            found = file.lstat()
            key = read_plain(file, KEY_BYTES)
    except OSError as error:
        raise CheckpointError(NO_KEY.format(path, f"cannot be read or made ({error.strerror})")) from None
    except UnreadableError as error:
        raise CheckpointError(NO_KEY.format(path, error)) from None
    private = not stat.S_ISLNK(found.st_mode) and len(key) == KEY_BYTES
    if hasattr(os, "getuid"):
        private = private and found.st_uid == os.getuid() and not found.st_mode & 0o077
    if not private:
        raise CheckpointError(NO_KEY.format(path, f"is not a private file of this user ({file})"))
    return key
