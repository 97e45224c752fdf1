"""A folder in which the stages of an audit leave their results, so that a stopped one goes on where it was.

A stage's result is a set of files. Each is written whole or not at all, and the list of finished stages, with the
checksums of their files, comes last: whenever the process ends, a stage is finished or will be made again.

The list also has the checksum of every file before it is written. A file is removed only if it has a name that audits
use, is a plain file of this folder, and has such a checksum: a list from another writer removes nothing of value,
since whoever wrote it knows the content.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fairchain.errors import AuditError
from fairchain.system.atomic_write import place

STATE = ".audit.json"
# On Windows only; elsewhere the folder itself is locked.
LOCK = ".audit.lock"
UNUSABLE = "{}: cannot be used ({}); name another folder with -o"
IN_USE = "{}: another audit is at work in it; wait for its end, or name another folder with -o"
FORMAT = 2
# What an audit that was killed may leave behind, and nobody else.
PART = (".fairchain-audit-", ".part")
Files = Mapping[str, bytes]
Stages = dict[str, dict[str, str]]
Written = dict[str, list[str]]


@contextmanager
def shelf_in(folder: Path, key: str, *, fresh: bool = False, names: Collection[str] = ()) -> Iterator[Checkpoints]:
    """The folder of one audit, for this process alone: two would take each other's files away."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = _locked(folder)
    except OSError as error:
        raise AuditError(UNUSABLE.format(folder, error.strerror)) from None
    try:
        yield Checkpoints(folder, key, fresh=fresh, names=names)
    finally:
        if lock is not None:
            os.close(lock)


def _locked(folder: Path) -> int | None:
    """Something to close at the end; a process that is killed lets go of it too. None where nothing can be locked."""
    try:
        if sys.platform == "win32":
            return os.open(folder / LOCK, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_TEMPORARY)
        import fcntl

        lock = os.open(folder, os.O_RDONLY)
    except FileExistsError:
        raise AuditError(IN_USE.format(folder)) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if isinstance(error, BlockingIOError):
            raise AuditError(IN_USE.format(folder)) from None
        return None
    return lock


class Checkpoints:
    """The folder of one audit.

    Parameters
    ----------
    folder
        Made if it is not there.
    key
        Of everything that the results depend on. A folder with the results of another question is refused, not mixed.
    fresh
        Remove what an audit left there, and begin again.
    names
        Of all files that stages may leave. Where an audit begins again, those that an audit wrote are removed, and
        any other file with such a name is refused: a reader would take it for a result.
    """

    def __init__(self, folder: Path, key: str, *, fresh: bool = False, names: Collection[str] = ()) -> None:
        self.folder, self._key, self._names = folder, key, names
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._stages: Stages = {}
            self._written: Written = {}
            self._begin(fresh)
        except OSError as error:
            raise AuditError(UNUSABLE.format(folder, error.strerror)) from None
        self._write(STATE, self._state())

    def stage(self, name: str, make: Callable[[], Files], *, again: bool = False) -> tuple[dict[str, bytes], bool]:
        """Return the files of a stage, kept or made now, and whether these bytes were kept.

        `again` makes them in any case: the list proves nothing, since whoever can write the files can write the list.
        Where they differ from the kept ones, the stages that came after are made again too.
        """
        found = self._finished(name)
        if found is not None and not again:
            return found, True
        made = dict(make())
        if made == found:
            return made, True
        if name in self._stages:
            # What came after was made from what is gone.
            names = list(self._stages)
            for other in names[names.index(name) :]:
                del self._stages[other]
        digests = {filename: _digest(content) for filename, content in made.items()}
        for filename, digest in digests.items():
            known = self._written.setdefault(filename, [])
            if digest not in known:
                known.append(digest)
        self._write(STATE, self._state())
        for filename, content in made.items():
            self._write(filename, content)
        self._stages[name] = digests
        self._written |= {filename: [digest] for filename, digest in digests.items()}
        self._write(STATE, self._state())
        return made, False

    def _begin(self, fresh: bool) -> None:
        """Take over what is finished already; an error if the folder belongs to something else."""
        for leftover in self.folder.glob("*".join(PART)):
            leftover.unlink(missing_ok=True)
        known = self._read()
        if known is None and not (self.folder / STATE).exists() and any(self.folder.iterdir()) and not fresh:
            raise AuditError(
                f"{self.folder}: is not empty and holds no audit; name a new folder with --output, or write "
                "into this one with --restart"
            )
        if known is None or fresh:
            # A network that was repaired for another question must not lie beside this one's report.
            self._clear(known[2] if known is not None else {})
            return
        key, self._stages, self._written = known
        if key != self._key:
            raise AuditError(
                f"{self.folder}: holds an audit of another spec, network, data or version, or with other options; "
                "name another folder with --output, or begin again in this one with --restart"
            )

    def _clear(self, written: Written) -> None:
        """Remove the files that an audit wrote; an error, before any is removed, if there is another one like them."""
        ours = []
        for filename in self._names:
            path = self.folder / filename
            if not os.path.lexists(path):
                continue
            content = _plain(path)
            if content is None or _digest(content) not in written.get(filename, ()):
                raise AuditError(
                    f"{path}: no audit is known to have written it, and it would seem to be a result of this one; "
                    "move it away, or name another folder with -o"
                )
            ours.append(path)
        for path in ours:
            path.unlink(missing_ok=True)

    def _finished(self, name: str) -> dict[str, bytes] | None:
        """A stage's files, if all of them are there as they were written."""
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

    def _state(self) -> bytes:
        state = {"format": FORMAT, "key": self._key, "stages": self._stages, "written": self._written}
        return (json.dumps(state, indent=1) + "\n").encode()

    def _read(self) -> tuple[str, Stages, Written] | None:
        """The key, the finished stages and the written files of an audit before; None if there is no list to read."""
        try:
            state = json.loads((self.folder / STATE).read_bytes())
            stages = {
                str(name): {_inside(file): str(digest) for file, digest in listed.items()}
                for name, listed in state["stages"].items()
            }
            written = {_inside(file): [str(digest) for digest in known] for file, known in state["written"].items()}
            return (str(state["key"]), stages, written) if state["format"] == FORMAT else None
        except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError):
            return None

    def _write(self, filename: str, content: bytes) -> None:
        """A whole file or nothing: a reader, or a crash, never sees half of it."""
        place({self.folder / filename: content}, lasting=True, part=PART)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _plain(path: Path) -> bytes | None:
    """Return the content of a plain file; None for a link, a folder, or what cannot be read."""
    try:
        return path.read_bytes() if stat.S_ISREG(path.lstat().st_mode) else None
    except OSError:
        return None


def _inside(filename: str) -> str:
    """A file's name in the folder; a list that names anything else is not ours."""
    if Path(filename).name != filename or "\0" in filename:
        raise ValueError(filename)
    return filename
