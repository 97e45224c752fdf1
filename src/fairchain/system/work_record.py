"""Work records: finished pieces of a long computation in a file, so that a killed run can continue.

A record is bound to one question by a hash, and each line to all earlier lines by a keyed hash (HMAC-SHA256). The key
is a private file of the user, so no other user can write a valid line: a changed, exchanged or repeated line ends the
record there, and the pieces from it on are computed again. A line is appended by one write after its piece is finished;
a line that a killed process left unfinished is dropped in the same way.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairchain.errors import CheckpointError
from fairchain.system.atomic_write import append, place
from fairchain.system.cache_folder import own_key
from fairchain.system.locks import locked_by_us
from fairchain.system.untrusted_files import UnreadableError, read_plain

RECORD_FORMAT = "fairchain-checkpoint 1"
# Largest number of bytes of a record.
MOST_RECORD_BYTES = 2**30
NOT_A_RECORD = "{}: not a {} of fairchain; name another file"
ANOTHER_WRITER = (
    "{}: was not written by this user on this computer, or was changed; name another file, or delete this one"
)
ANOTHER_QUESTION = (
    "{}: belongs to another question, network or version of the software; name another file, or delete this one"
)
FILE_IN_USE = "{}: {} is using it; wait until it ends, or name another file"
FILE_UNUSABLE = "{}: {}; name another file"
CANNOT_BE_USED = "cannot be used ({})"


class WorkRecord:
    """The finished pieces of one computation, in their order, in a file that is created if it does not exist.

    `question` is a hash of everything that the pieces depend on, `form` the name of the format in the first line, and
    `another` the message about a file that belongs to another question. `dropped` is the number of invalid bytes at the
    end of the file: an unfinished or a changed line, and everything after it. Raises a CheckpointError if the file
    exists and is not the record of this question, written with this key.
    """

    def __init__(
        self, path: Path, question: str, key: bytes, *, form: str = RECORD_FORMAT, another: str = ANOTHER_QUESTION
    ) -> None:
        self._path, self._key = path, key
        self.pieces: list[bytes] = []
        self.dropped = 0
        head = json.dumps({"format": form, "question": question}).encode()
        try:
            content = read_plain(path, MOST_RECORD_BYTES)
        except UnreadableError as error:
            if not error.missing:
                raise CheckpointError(FILE_UNUSABLE.format(path, error)) from None
            self._tag = self._signed(b"", head)
            place({path: self._line(head)}, lasting=True)
            self._size = len(self._line(head))
            return
        lines = content.split(b"\n")
        tag, _, found = lines[0].partition(b" ")
        if f'"{form}"'.encode() not in found:
            raise CheckpointError(NOT_A_RECORD.format(path, form.split(maxsplit=1)[0].removeprefix("fairchain-")))
        if not hmac.compare_digest(tag, self._signed(b"", found)):
            raise CheckpointError(ANOTHER_WRITER.format(path))
        if found != head:
            raise CheckpointError(another.format(path))
        self._tag, kept = tag, len(lines[0]) + 1
        # The text after the last line break is an unfinished line.
        for line in lines[1:-1]:
            tag, _, piece = line.partition(b" ")
            if not hmac.compare_digest(tag, self._signed(self._tag, piece)):
                break
            self._tag, kept = tag, kept + len(line) + 1
            self.pieces.append(piece)
        self._size, self.dropped = kept, len(content) - kept
        if self.dropped:
            place({path: content[:kept]}, lasting=True)

    def add(self, piece: bytes) -> None:
        """Append a finished piece, one line of JSON."""
        self._tag = self._signed(self._tag, piece)
        line = self._line(piece)
        if self._size + len(line) > MOST_RECORD_BYTES:
            raise CheckpointError(
                FILE_UNUSABLE.format(self._path, f"would be larger than the limit of {MOST_RECORD_BYTES:,} bytes")
            )
        self._size += len(line)
        append(self._path, line)

    def _signed(self, before: bytes, piece: bytes) -> bytes:
        return hmac.digest(self._key, before + b" " + piece, hashlib.sha256).hex().encode()

    def _line(self, piece: bytes) -> bytes:
        return self._tag + b" " + piece + b"\n"


@contextmanager
def work_record(path: Path, question: str, **names: str) -> Iterator[WorkRecord]:
    """Open the record of a question exclusively for this process; `names` as for `WorkRecord`."""
    with locked_by_us(path, CheckpointError, FILE_IN_USE, FILE_UNUSABLE.format("{}", CANNOT_BE_USED)):
        yield WorkRecord(path, question, own_key(path), **names)
