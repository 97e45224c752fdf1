"""The folder in which the stages of an audit store their results, so that an interrupted audit can continue.

A stage's result is a set of files. Each is written completely or not at all. The list of finished stages, with the
checksums of their files, is written last: whenever the process ends, each stage is finished or will run again.

The list also has the checksum of every file before it is written. A file is removed only if it has a name that audits
use, is a regular file in this folder, and has such a checksum. So a forged list can remove only files whose content its
author knows.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from fairchain.errors import AuditError
from fairchain.records import Record
from fairchain.system.atomic_write import place

STATE = ".audit.json"
# On Windows only; elsewhere the folder itself is locked.
LOCK = ".audit.lock"
FOLDER_UNUSABLE = "{}: cannot be used ({}); name another folder with -o"
FOLDER_IN_USE = "{}: another audit is using it; wait for its end, or name another folder with -o"
CHECKPOINT_FORMAT: Literal[2] = 2
# Prefix and suffix of unfinished files, which only an audit that was killed leaves behind.
UNFINISHED_AUDIT_FILE = (".fairchain-audit-", ".part")
Files = Mapping[str, bytes]
# The name of a file in the folder itself; a list with other names was not written by fairchain.
Filename = Annotated[str, msgspec.Meta(pattern=r"^[^/\\\x00]+$")]
ANOTHER_AUDIT = (
    "{folder}: contains an audit of another spec, network, data or version, or with other options; name another folder "
    "with --output, or start again in this one with --restart"
)
FOREIGN_RESULT = (
    "{path}: was not written by a known audit, but has the name of one of its files; move it away, or name another "
    "folder with -o"
)
NOT_AN_AUDIT = (
    "{folder}: is not empty and contains no audit; name a new folder with --output, or write into this one with "
    "--restart"
)


class AuditState(Record, frozen=True):
    """The list of an audit: finished stages with the checksums of their files, and checksums of all written files."""

    format: Literal[2]
    key: str
    stages: dict[str, dict[Filename, str]]
    written: dict[Filename, list[str]]


@contextmanager
def open_checkpoints(
    folder: Path, key: str, *, restart: bool = False, names: Collection[str] = ()
) -> Iterator[Checkpoints]:
    """Open the folder of an audit exclusively: two processes would remove each other's files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = _locked(folder)
    except OSError as error:
        raise AuditError(FOLDER_UNUSABLE.format(folder, error.strerror)) from None
    try:
        yield Checkpoints(folder, key, restart=restart, names=names)
    finally:
        if lock is not None:
            os.close(lock)


def _locked(folder: Path) -> int | None:
    """Return a locked descriptor, which is released even if the process is killed; None if locking is not supported."""
    try:
        if sys.platform == "win32":
            return os.open(folder / LOCK, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_TEMPORARY)
        import fcntl

        lock = os.open(folder, os.O_RDONLY)
    except FileExistsError:
        raise AuditError(FOLDER_IN_USE.format(folder)) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if isinstance(error, BlockingIOError):
            raise AuditError(FOLDER_IN_USE.format(folder)) from None
        return None
    return lock


class Checkpoints:
    """The folder of one audit.

    `key` is a hash of everything that the results depend on: a folder with the results of another question is refused.
    `restart` removes the files of an earlier audit. `names` are those of all files that stages may return: when an
    audit starts again, files with these names that an audit wrote are removed, and any other file with such a name is
    refused, since a reader would take it for a result.
    """

    def __init__(self, folder: Path, key: str, *, restart: bool = False, names: Collection[str] = ()) -> None:
        self.folder, self._key, self._names = folder, key, names
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._stages: dict[str, dict[str, str]] = {}
            self._written: dict[str, list[str]] = {}
            self._begin(restart)
        except OSError as error:
            raise AuditError(FOLDER_UNUSABLE.format(folder, error.strerror)) from None
        self._save()

    def stage(self, name: str, make: Callable[[], Files], *, again: bool = False) -> tuple[dict[str, bytes], bool]:
        """Return the files of a stage, kept or new, and whether these bytes were kept.

        `again` runs the stage in any case: the list is no proof, because whoever can write the files can write the
        list. If the new files differ from the kept ones, the later stages run again too.
        """
        found = self._finished(name)
        if found is not None and not again:
            return found, True
        made = dict(make())
        if made == found:
            return made, True
        if name in self._stages:
            # Later stages used the replaced files.
            names = list(self._stages)
            for other in names[names.index(name) :]:
                del self._stages[other]
        digests = {filename: _digest(content) for filename, content in made.items()}
        for filename, digest in digests.items():
            known = self._written.setdefault(filename, [])
            if digest not in known:
                known.append(digest)
        self._save()
        for filename, content in made.items():
            self._write(filename, content)
        self._stages[name] = digests
        self._written |= {filename: [digest] for filename, digest in digests.items()}
        self._save()
        return made, False

    def _begin(self, restart: bool) -> None:
        """Restore finished stages; raise an error if the folder contains other files."""
        for leftover in self.folder.glob("*".join(UNFINISHED_AUDIT_FILE)):
            leftover.unlink(missing_ok=True)
        known = None
        with suppress(OSError, msgspec.MsgspecError, UnicodeError, RecursionError):
            known = msgspec.json.decode((self.folder / STATE).read_bytes(), type=AuditState)
        if known is None and not (self.folder / STATE).exists() and any(self.folder.iterdir()) and not restart:
            raise AuditError(NOT_AN_AUDIT.format(folder=self.folder))
        if known is None or restart:
            # A network that was repaired for another question must not remain next to this report.
            written, ours = known.written if known is not None else {}, []
            for filename in self._names:
                path = self.folder / filename
                if not os.path.lexists(path):
                    continue
                content = _plain(path)
                if content is None or _digest(content) not in written.get(filename, ()):
                    raise AuditError(FOREIGN_RESULT.format(path=path))
                ours.append(path)
            # Only now, so that nothing is removed from a folder that is refused.
            for path in ours:
                path.unlink(missing_ok=True)
            return
        self._stages, self._written = known.stages, known.written
        if known.key != self._key:
            raise AuditError(ANOTHER_AUDIT.format(folder=self.folder))

    def _finished(self, name: str) -> dict[str, bytes] | None:
        """Return the files of a stage, if all of them exist unchanged."""
        listed = self._stages.get(name)
        if listed is None:
            return None
        found = {}
        for filename, digest in listed.items():
            content = _plain(self.folder / filename)
            if content is None or _digest(content) != digest:
                return None
            found[filename] = content
        return found

    def _save(self) -> None:
        state = AuditState(CHECKPOINT_FORMAT, self._key, self._stages, self._written)
        self._write(STATE, (json.dumps(state.to_dict(), indent=1) + "\n").encode())

    def _write(self, filename: str, content: bytes) -> None:
        """Write a file atomically: neither a reader nor a crash sees a part of it."""
        place({self.folder / filename: content}, lasting=True, part=UNFINISHED_AUDIT_FILE)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _plain(path: Path) -> bytes | None:
    """Return the content of a regular file; None for a link, a folder, or an unreadable file."""
    try:
        return path.read_bytes() if stat.S_ISREG(path.lstat().st_mode) else None
    except OSError:
        return None
