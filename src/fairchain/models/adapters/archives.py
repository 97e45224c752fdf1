"""ZIP archives of other packages, unpacked within a limit before those packages see them."""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path

from fairchain.errors import ModelError
from fairchain.models.base import first_line


def unpacked(
    path: Path, content: bytes, most: int, kind: str, wanted: Collection[str] | None = None
) -> dict[str, bytes]:
    """Return the members of an archive, all or those wanted, of at most `most` bytes together.

    The limit is on what the archive says of their sizes and on what they unpack to, measured while they are unpacked.
    `kind` is what messages call the file.
    """
    parts: dict[str, bytes] = {}
    left = most
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for entry in archive.infolist():
                if entry.is_dir() or (wanted is not None and entry.filename not in wanted):
                    continue
                if entry.filename in parts:
                    raise ModelError(f"{path}: holds {ascii(entry.filename)[1:-1][:80]} twice; save the model again")
                parts[entry.filename] = b""
                if entry.file_size <= left:
                    with archive.open(entry) as member:
                        parts[entry.filename] = member.read(left + 1)
                left -= max(len(parts[entry.filename]), entry.file_size)
                if left < 0:
                    raise ModelError(f"{path}: unpacks to more than the limit of {most} bytes")
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, EOFError, ValueError, OSError) as error:
        raise ModelError(f"{path}: not {kind}, or a damaged one ({first_line(error)}); save the model again") from None
    return parts
