"""Arrays that took long to compute, kept in the user's cache under the hash of what they were computed from.

A file is written in one step and begins with the hash of the rest; one that is damaged or strange is as good as none.
Nothing in it is executed.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

DIGEST = 32


def key_of(*parts: Any) -> str:
    """A name that follows from everything that an answer depends on."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def kept(folder: Path, key: str) -> dict[str, NDArray[Any]] | None:
    """What was kept under a key, if it is whole."""
    try:
        content = memoryview((folder / f"{key}.npz").read_bytes())
        if hashlib.sha256(content[DIGEST:]).digest() != bytes(content[:DIGEST]):
            return None
        with np.load(BytesIO(content[DIGEST:]), allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (OSError, ValueError, EOFError, SyntaxError, BadZipFile, AttributeError):
        return None


def keep(folder: Path, key: str, **arrays: NDArray[Any]) -> None:
    """Keep arrays for the next time; a folder that cannot be written keeps nothing."""
    body = BytesIO()
    np.savez(body, **arrays)  # type: ignore[arg-type]  # its other argument is no array
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=folder, prefix=".part-", delete=False) as file:
            file.write(hashlib.sha256(body.getbuffer()).digest())
            file.write(body.getbuffer())
        try:
            Path(file.name).replace(folder / f"{key}.npz")
        finally:
            Path(file.name).unlink(missing_ok=True)
