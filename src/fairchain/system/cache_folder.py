"""The folder of the user's cache: data sets, prepared corpora, and the key with which work in files is signed."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from pathlib import Path

from fairchain.errors import CheckpointError
from fairchain.system.locks import locked
from fairchain.system.untrusted_files import UnreadableError, read_plain

KEY = "checkpoint.key"
KEY_BYTES = 32
NOT_PRIVATE = "is not a private file of this user ({})"
NO_KEY = "{}: the key of checkpoints and journals {}; set FAIRCHAIN_CACHE to a folder of your own"


def cache_dir() -> Path:
    """Return the folder of the cache: $FAIRCHAIN_CACHE, otherwise the platform's folder for caches."""
    chosen = os.environ.get("FAIRCHAIN_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "fairchain" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fairchain"
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # According to the XDG standard, a relative path must be ignored.
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "fairchain"


def own_key(path: Path) -> bytes:
    """Return the user's key, created when it is first needed; refuse one that others could have read or written.

    `path` is the file that it is needed for, for messages.
    """
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
        raise CheckpointError(NO_KEY.format(path, NOT_PRIVATE.format(file)))
    return key
