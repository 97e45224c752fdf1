"""Promises of `datasets.fetch`: only what was meant reaches the cache; every failure says what to do."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fairchain import datasets
from fairchain.datasets import fetch
from fairchain.datasets.fetch import (
    CACHE_UNUSABLE,
    COPIES_INCOMPLETE,
    FILES_OF_ONE_DATA_SET,
    LINK_OUT_OF_CACHE,
    NEEDS_FILE,
    WRONG_CHECKSUM,
)
from fairchain.datasets.prepare import HEADER_LACKS, LINE_NOT_WORD, NOT_IN_CACHE, WRONG_SHAPE
from fairchain.datasets.sources import SOURCES, ArchiveMember, DataSource, Wheel
from fairchain.errors import DataError
from fairchain.messages import unknown
from tests.child import run_child
from tests.messages import says

CONTENT = b"1, a\n2, b\n"
MEMBER = "toy/data/toy.csv"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def make_wheel(folder: Path, content: bytes = CONTENT, member: str = MEMBER) -> Path:
    path = folder / "toy-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(member), content)
    return path


def make_source(wheel_sha256: str) -> DataSource:
    return DataSource(
        name="toy",
        wheel=Wheel("toy==1.0", wheel_sha256, 0.1),
        members=(ArchiveMember(MEMBER, digest(CONTENT), columns=2),),
        rows=2,
        columns=2,
        licence="CC0 1.0",
        summary="A toy",
        citation="nobody",
    )


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A source named toy, served by a download that works; the list grows by one with every download."""
    made: list[str] = []

    def download(requirement: str, folder: Path, **_: object) -> Path:
        made.append(requirement)
        return make_wheel(folder)

    wheel = make_wheel(tmp_path)
    monkeypatch.setitem(SOURCES, "toy", make_source(digest(wheel.read_bytes())))
    monkeypatch.setattr(fetch, "download", download)
    return made


def use_pip(monkeypatch: pytest.MonkeyPatch, returncode: int, stderr: str) -> list[list[str]]:
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, returncode, "", stderr)

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_a_first_get_downloads_and_leaves_only_the_member(tmp_path: Path, downloads: list[str]) -> None:
    cache = tmp_path / "cache"
    lines: list[str] = []
    assert datasets.get("toy", cache=cache, progress=lines.append) == [cache / "toy" / "toy.csv"]
    assert (cache / "toy" / "toy.csv").read_bytes() == CONTENT
    assert [path.name for path in cache.rglob("*") if path.is_file()] == ["toy.csv"]
    assert lines == ["toy: downloading toy==1.0 (0.1 MB)"]


def test_what_is_removed_is_gone_with_all_that_was_made_from_it_and_nothing_else(
    tmp_path: Path, downloads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fetch.MADE_FROM, "toy", ("corpora",))
    cache = tmp_path / "cache"
    datasets.get("toy", cache=cache)
    for name in ("corpora", "census"):
        (cache / name).mkdir()
        (cache / name / "x").write_bytes(b"123")
    assert datasets.remove(["toy"], cache=cache) == {"toy": len(CONTENT) + 3}
    assert [path.name for path in cache.iterdir()] == ["census"]
    assert datasets.remove(["toy"], cache=cache) == {"toy": 0}
    datasets.get("toy", cache=cache)
    assert len(downloads) == 2
    with pytest.raises(DataError, match=says(unknown("data set", "toys", ["toy"]))):
        datasets.remove(["toy", "toys"], cache=cache)
    assert (cache / "toy" / "toy.csv").exists()


def test_only_folders_of_the_cache_are_removed(tmp_path: Path, downloads: list[str]) -> None:
    """A link out of it may be where somebody keeps more than this."""
    cache, elsewhere = tmp_path / "cache", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine.csv").write_bytes(b"1")
    cache.mkdir()
    (cache / "toy").symlink_to(elsewhere)
    with pytest.raises(DataError, match=says(LINK_OUT_OF_CACHE)):
        datasets.remove(["toy"], cache=cache)
    assert (elsewhere / "mine.csv").exists()


def test_a_second_get_downloads_nothing(tmp_path: Path, downloads: list[str]) -> None:
    first = datasets.get("toy", cache=tmp_path / "cache")
    assert datasets.get("toy", cache=tmp_path / "cache") == first
    assert downloads == ["toy==1.0"]


def test_a_corrupted_cache_is_fetched_again(tmp_path: Path, downloads: list[str]) -> None:
    (path,) = datasets.get("toy", cache=tmp_path / "cache")
    path.write_bytes(CONTENT[:-1])
    datasets.get("toy", cache=tmp_path / "cache")
    assert path.read_bytes() == CONTENT
    assert len(downloads) == 2


def test_a_wheel_with_another_checksum_is_refused(
    tmp_path: Path, downloads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "download", lambda _, folder, **__: make_wheel(folder, b"3, c\n"))
    with pytest.raises(DataError, match=says(WRONG_CHECKSUM)):
        datasets.get("toy", cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: make_wheel(folder, b"3, c\n"), "checksum of toy/data/toy.csv"),
        (lambda folder: make_wheel(folder, member="elsewhere.csv"), "cannot be read as expected"),
    ],
)
def test_a_wheel_without_the_right_member_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], Path], message: str
) -> None:
    monkeypatch.setitem(SOURCES, "toy", make_source(digest(make(tmp_path).read_bytes())))
    monkeypatch.setattr(fetch, "download", lambda _, folder, **__: make(folder))
    with pytest.raises(DataError, match=message):
        datasets.get("toy", cache=tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_pip_is_asked_without_a_shell_and_without_naming_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = use_pip(monkeypatch, 0, "")
    make_wheel(tmp_path)
    assert fetch.download("toy==1.0", tmp_path).name.startswith("toy-1.0")
    (command,) = commands
    assert command[1:5] == ["-I", "-m", "pip", "download"]
    assert command[-1] == "toy==1.0"
    assert {"--no-deps", "--only-binary", ":all:"} <= set(command)
    assert not any("index" in word or "://" in word for word in command)


@pytest.mark.parametrize(
    ("stderr", "message"),
    [
        (
            "/usr/bin/python: No module named pip",
            r"'census': .*this Python has no pip; .*ensurepip.*--file PATH",
        ),
        (
            "WARNING: Retrying\nERROR: No matching distribution found for aif360==0.2.3",
            r"'census': .*check the network.*No matching distribution.*adult.data, adult.test.*--file PATH",
        ),
        ("", "no reason given"),
    ],
)
def test_a_failed_download_says_why_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stderr: str, message: str
) -> None:
    use_pip(monkeypatch, 1, stderr)
    with pytest.raises(DataError, match=message):
        datasets.get("census", cache=tmp_path)


def test_an_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=says(unknown("data set", "adult", tuple(SOURCES)))):
        datasets.get("adult", cache=tmp_path)


def test_a_cache_that_cannot_be_written_is_an_input_error(tmp_path: Path, downloads: list[str]) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(DataError, match=says(CACHE_UNUSABLE)):
        datasets.get("toy", cache=blocked)


def test_a_file_of_ones_own_is_copied_and_then_used(tmp_path: Path, downloads: list[str]) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text("7, x\n")
    (kept,) = datasets.get("toy", cache=tmp_path / "cache", file=mine)
    mine.unlink()
    assert kept.read_text() == "7, x\n"
    assert datasets.get("toy", cache=tmp_path / "cache") == [kept]
    assert downloads == []


def test_a_new_file_of_ones_own_replaces_the_old_even_by_itself(tmp_path: Path, downloads: list[str]) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text("7, x\n")
    (kept,) = datasets.get("toy", cache=tmp_path / "cache", file=mine)
    (again,) = datasets.get("toy", cache=tmp_path / "cache", file=[kept])
    assert again.read_text() == "7, x\n"
    assert len(list(again.parent.iterdir())) == 1


# Gives new files to a data set that has old ones, in forked processes that end at the first, second, ... operation on
# files of the cache, and prints what is in use after each: the old file, the new one, or the published one.
KILLED = """
import os, sys
from pathlib import Path
from fairchain import datasets
import fairchain.datasets.prepare, shutil, tempfile
cache, mine = Path(sys.argv[1]), Path(sys.argv[2])
(cache / "credit").mkdir(parents=True)
(cache / "credit" / "german.data").write_text("published")

def give(letter, last=0):
    mine.write_text(" ".join(letter * 21))
    left = last

    def count(event, arguments):
        nonlocal left
        if event.split(".")[0] in ("open", "os", "shutil") and any(str(cache) in str(each) for each in arguments):
            left -= 1
            if left == 0:
                os._exit(9)

    if last:
        sys.addaudithook(count)
    datasets.get("credit", cache=cache, file=mine)

give("a")
for last in range(1, 100):
    number = os.fork()
    if not number:
        give("b", last)
        os._exit(0)
    _, status = os.waitpid(number, 0)
    print(datasets.here("credit", cache=cache)[0].read_text()[:3], flush=True)
    if not status:
        break
    give("a")
print(len(list((cache / "credit" / "own").iterdir())))
"""


def test_a_kill_at_any_moment_leaves_the_old_files_of_ones_own_or_the_new_ones(tmp_path: Path) -> None:
    *used, left = run_child(KILLED, tmp_path / "cache", tmp_path / "mine").splitlines()
    assert len(used) > 10
    assert used == sorted(used)
    assert set(used) == {"a a", "b b"}
    # What killed processes left behind is gone: the copies in use, and their name.
    assert left == "2"


def test_two_who_give_files_at_once_both_succeed(tmp_path: Path, downloads: list[str]) -> None:
    def give(letter: str) -> str:
        mine = tmp_path / letter
        mine.write_text(f"1, {letter}\n")
        for _ in range(5):
            datasets.get("toy", cache=tmp_path / "cache", file=mine)
        return mine.read_text()

    with ThreadPoolExecutor(4) as pool:
        given = list(pool.map(give, "wxyz"))
    (kept,) = datasets.get("toy", cache=tmp_path / "cache")
    assert kept.read_text() in given
    assert sorted(path.name for path in (tmp_path / "cache" / "toy").iterdir()) == ["own"]


def test_files_of_ones_own_that_are_gone_are_never_replaced_in_silence(tmp_path: Path, downloads: list[str]) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text("7, x\n")
    (kept,) = datasets.get("toy", cache=tmp_path / "cache", file=mine)
    kept.unlink()
    with pytest.raises(DataError, match=says(COPIES_INCOMPLETE)):
        datasets.get("toy", cache=tmp_path / "cache")
    assert datasets.get("toy", cache=tmp_path / "cache", file=mine)[0].read_text() == "7, x\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1, a, extra\n2, b, extra\n", "row 1 has 3 columns instead of 2"),
        (b"", "it is empty"),
        (b"\n\n", "it has no rows"),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_a_file_with_another_layout_is_refused(
    tmp_path: Path, downloads: list[str], content: bytes, message: str
) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_bytes(content)
    with pytest.raises(DataError, match=message):
        datasets.get("toy", cache=tmp_path / "cache", file=mine)
    assert not (tmp_path / "cache").exists()


def test_the_original_bank_file_stands_for_both_parts(tmp_path: Path) -> None:
    header = ";".join(f'"{name}"' for name in (*SOURCES["bank"].members[0].required, "y"))
    mine = tmp_path / "bank-full.csv.gz"
    mine.write_bytes(gzip.compress((header + "\n" + ";".join("1" * 17) + "\n").encode()))
    assert len(datasets.get("bank", cache=tmp_path / "cache", file=mine)) == 1
    mine.write_text("age;job\n1;2\n")
    with pytest.raises(DataError, match=says(HEADER_LACKS)):
        datasets.get("bank", cache=tmp_path / "cache", file=mine)


def test_word_vectors_must_be_an_array_of_the_right_width(tmp_path: Path) -> None:
    vectors, words = tmp_path / "v.npy", tmp_path / "w.parquet"
    np.save(vectors, np.zeros((3, 50), dtype=np.float32))
    words.write_bytes(b"the\nof\nand\n")
    assert len(datasets.get("glove", cache=tmp_path / "cache", file=[vectors, words])) == 2
    np.save(vectors, np.zeros((3, 100), dtype=np.float32))
    with pytest.raises(DataError, match=says(WRONG_SHAPE, shape="(3, 100)")):
        datasets.get("glove", cache=tmp_path / "cache", file=[vectors, words])
    np.save(vectors, np.zeros((3, 50), dtype=np.float32))
    words.write_bytes(b"the\nof the\n")
    with pytest.raises(DataError, match=says(LINE_NOT_WORD, number="2")):
        datasets.get("glove", cache=tmp_path / "cache", file=[vectors, words])


def test_data_sets_of_one_wheel_download_it_once(
    tmp_path: Path, downloads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SOURCES, "other", replace(SOURCES["toy"], name="other"))
    found = datasets.get_all(["toy", "other"], cache=tmp_path / "cache")
    assert [path.read_bytes() for paths in found.values() for path in paths] == [CONTENT, CONTENT]
    assert downloads == ["toy==1.0"]
    with pytest.raises(DataError, match=says(FILES_OF_ONE_DATA_SET)):
        datasets.get_all(["toy", "other"], cache=tmp_path / "cache", file="x")


def test_the_number_of_files_and_their_existence_are_checked(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=says(NEEDS_FILE, count="2", files_count="1")):
        datasets.get("census", cache=tmp_path, file="adult.data")
    with pytest.raises(DataError, match=says(NOT_IN_CACHE)):
        datasets.get("credit", cache=tmp_path, file=tmp_path / "missing")


def test_describe_tells_whose_files_are_cached(tmp_path: Path, downloads: list[str]) -> None:
    def states() -> dict[str, str]:
        return {row.name: row.cached for row in datasets.describe(tmp_path / "cache")}

    assert set(states().values()) == {"no"}
    datasets.get("toy", cache=tmp_path / "cache")
    assert states()["toy"] == "fetched"
    (tmp_path / "mine").write_text("1, 2\n")
    datasets.get("toy", cache=tmp_path / "cache", file=tmp_path / "mine")
    assert states()["toy"] == "own"
    assert states()["census"] == "no"


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"FAIRCHAIN_CACHE": "/a"}, "/a"),
        ("linux", {"XDG_CACHE_HOME": "/b"}, "/b/fairchain"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "/home/.cache/fairchain"),
        ("linux", {}, "/home/.cache/fairchain"),
        ("darwin", {"XDG_CACHE_HOME": "/b"}, "/home/Library/Caches/fairchain"),
        ("win32", {"LOCALAPPDATA": "/c"}, "/c/fairchain/cache"),
        ("win32", {}, "/home/AppData/Local/fairchain/cache"),
    ],
)
def test_the_cache_is_where_the_platform_wants_it(
    monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], expected: str
) -> None:
    for name in ("FAIRCHAIN_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("/home"))
    assert datasets.cache_dir() == Path(expected)


def test_every_source_is_pinned() -> None:
    for source in SOURCES.values():
        assert "==" in source.wheel.requirement
        assert all(len(checksum) == 64 for checksum in (source.wheel.sha256, *(m.sha256 for m in source.members)))


@pytest.mark.network
@pytest.mark.parametrize("name", ["census", "credit", "bank"])
def test_the_real_files_can_be_had(tmp_path: Path, name: str) -> None:
    assert all(path.is_file() for path in datasets.get(name, cache=tmp_path))
