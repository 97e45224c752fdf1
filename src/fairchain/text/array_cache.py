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
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import OutputError
from fairchain.system.atomic_write import place

DIGEST = 32


def key_of(*parts: Any) -> str:
    """Return a name that follows from everything that an answer depends on."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def kept(folder: Path, key: str) -> dict[str, NDArray[Any]] | None:
    """Return what was kept under a key, if it is whole."""
    try:
        content = memoryview((folder / f"{key}.npz").read_bytes())
        if hashlib.sha256(content[DIGEST:]).digest() != bytes(content[:DIGEST]):
            return None
        body = BytesIO(content[DIGEST:])
        with ZipFile(body) as whole:
            if any(member.compress_type != ZIP_STORED for member in whole.infolist()):
                return None  # `keep` packs nothing, and what is packed may be of any size
        with np.load(body, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
    except Exception:  # a strange file ends in anything
        return None
    return arrays if all(isinstance(array, np.ndarray) for array in arrays.values()) else None


def keep(folder: Path, key: str, **arrays: NDArray[Any]) -> None:
    """Keep arrays for the next time; a folder that cannot be written keeps nothing."""
    body = BytesIO()
    np.savez(body, **arrays)  # type: ignore[arg-type]  # its other argument is no array
    with suppress(OSError, OutputError):
        folder.mkdir(parents=True, exist_ok=True)
        place({folder / f"{key}.npz": hashlib.sha256(body.getbuffer()).digest() + body.getbuffer()})
