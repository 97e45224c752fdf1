"""The folder of an audit: what is kept, what is made again, and what is refused."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

import pytest

from fairchain.auditing.checkpoints import (
    ANOTHER_AUDIT,
    CHECKPOINT_FORMAT,
    FOLDER_IN_USE,
    FOLDER_UNUSABLE,
    FOREIGN_RESULT,
    NOT_AN_AUDIT,
    STATE,
    UNFINISHED_AUDIT_FILE,
    Checkpoints,
    Files,
    open_checkpoints,
)
from fairchain.errors import AuditError
from tests.messages import says


def put(checkpoints: Checkpoints, name: str, files: Files) -> bool:
    """Whether a stage was there already."""
    found, kept = checkpoints.stage(name, lambda: files)
    assert found == files
    return kept


def test_a_finished_stage_is_kept(tmp_path: Path) -> None:
    assert not put(Checkpoints(tmp_path / "a", "key"), "one", {"x": b"1"})
    assert put(Checkpoints(tmp_path / "a", "key"), "one", {"x": b"1"})


@pytest.mark.parametrize("damage", [b"", b"2", None])
def test_a_damaged_stage_is_made_again_with_all_that_came_after(tmp_path: Path, damage: bytes | None) -> None:
    checkpoints = Checkpoints(tmp_path, "key")
    for number in range(3):
        put(checkpoints, f"stage {number}", {str(number): b"1"})
    if damage is None:
        (tmp_path / "1").unlink()
    else:
        (tmp_path / "1").write_bytes(damage)
    again = Checkpoints(tmp_path, "key")
    assert [put(again, f"stage {number}", {str(number): b"1"}) for number in range(3)] == [True, False, False]


DAMAGED = [b"", b"{", b"[]", b'{"format": 2, "key": 3, "stages": {"one": {"../x": "1"}}}', b"\xff", b"[" * 100_000]


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_list_means_that_everything_is_made_again(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / STATE).write_bytes(damage)
    (tmp_path / "mine.txt").write_bytes(b"1")
    assert not put(Checkpoints(tmp_path, "key", names=("x", "repaired.onnx")), "one", {"x": b"1"})
    assert sorted(path.name for path in tmp_path.iterdir()) == [STATE, "mine.txt", "x"]


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize("fresh", [False, True])
def test_beside_a_damaged_list_no_file_is_taken_for_a_result_or_removed(
    tmp_path: Path, damage: bytes, fresh: bool
) -> None:
    """The network of an unknown question must not lie beside this one's report."""
    (tmp_path / STATE).write_bytes(damage)
    (tmp_path / "repaired.onnx").write_bytes(b"1")
    with pytest.raises(AuditError, match=says(FOREIGN_RESULT)):
        Checkpoints(tmp_path, "key", restart=fresh, names=("x", "repaired.onnx"))
    assert (tmp_path / "repaired.onnx").read_bytes() == b"1"


def test_another_audit_is_not_mixed_with_this_one(tmp_path: Path) -> None:
    put(Checkpoints(tmp_path, "key"), "one", {"x": b"1"})
    with pytest.raises(AuditError, match=says(ANOTHER_AUDIT)):
        Checkpoints(tmp_path, "another")
    assert (tmp_path / "x").read_bytes() == b"1"


def test_fresh_removes_what_the_audit_before_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network repaired for another question must not lie beside this one's report."""
    checkpoints = Checkpoints(tmp_path, "key")
    put(checkpoints, "one", {"verdict.json": b"1"})
    (tmp_path / "mine.txt").write_text("a note", encoding="utf-8")
    write = Checkpoints._write

    def killed(self: Checkpoints, filename: str, content: bytes) -> None:
        write(self, filename, content)
        if filename == "repaired.onnx":
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoints, "_write", killed)
    with pytest.raises(KeyboardInterrupt):
        put(checkpoints, "two", {"repaired.onnx": b"1"})
    monkeypatch.undo()
    assert (tmp_path / "repaired.onnx").exists()
    Checkpoints(tmp_path, "another", restart=True, names=("verdict.json", "repaired.onnx"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [STATE, "mine.txt"]


def planted(folder: Path, *files: Path) -> None:
    """A list of somebody else, who knows the content of these files."""
    digests = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    written = {name: [digest] for name, digest in digests.items()}
    state = {"format": CHECKPOINT_FORMAT, "key": "key", "stages": {"one": digests}, "written": written}
    (folder / STATE).write_text(json.dumps(state), encoding="utf-8")


def test_a_planted_list_removes_no_file_with_a_name_that_audits_do_not_use(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis.tex"
    thesis.write_bytes(b"years of work")
    planted(tmp_path, thesis)
    Checkpoints(tmp_path, "key", restart=True, names=("report.md",))
    assert thesis.read_bytes() == b"years of work"


def test_a_planted_list_removes_no_file_whose_content_its_author_does_not_know(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    report.write_bytes(b"as it was")
    planted(tmp_path, report)
    report.write_bytes(b"my own report")
    with pytest.raises(AuditError, match=says(FOREIGN_RESULT)):
        Checkpoints(tmp_path, "key", restart=True, names=("report.md",))
    assert report.read_bytes() == b"my own report"


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_planted_list_removes_and_reads_nothing_through_links(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"1")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "report.md").symlink_to(tmp_path / "elsewhere")
    planted(folder, folder / "report.md")
    assert not put(Checkpoints(folder, "key", names=("other",)), "one", {"other": b"1"})
    with pytest.raises(AuditError, match=says(FOREIGN_RESULT)):
        Checkpoints(folder, "key", restart=True, names=("report.md",))
    assert ((tmp_path / "elsewhere").read_bytes(), (folder / "report.md").is_symlink()) == (b"1", True)


def test_a_folder_with_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".other.part").write_text("x", encoding="utf-8")
    with pytest.raises(AuditError, match=says(NOT_AN_AUDIT)):
        Checkpoints(tmp_path, "key")
    assert [path.name for path in tmp_path.iterdir()] == [".other.part"]
    put(Checkpoints(tmp_path, "key", restart=True), "one", {"x": b"1"})
    assert (tmp_path / ".other.part").exists()


def test_a_folder_that_cannot_be_made_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for place in (tmp_path / "file", tmp_path / "file" / "folder"):
        with pytest.raises(AuditError, match=says(FOLDER_UNUSABLE)), open_checkpoints(place, "key"):
            pass


def test_a_stage_that_fails_leaves_nothing(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, "key")

    def fail() -> Files:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        checkpoints.stage("one", fail)
    assert [path.name for path in tmp_path.iterdir()] == [STATE]


def test_two_audits_are_never_at_work_in_one_folder(tmp_path: Path) -> None:
    """Each would take the unfinished files of the other for what a killed process left behind."""
    with open_checkpoints(tmp_path / "a", "key") as checkpoints:
        put(checkpoints, "one", {"x": b"1"})
        unfinished = tmp_path / "a" / "1".join(UNFINISHED_AUDIT_FILE)
        unfinished.write_bytes(b"half")
        for fresh in (False, True):
            with (
                pytest.raises(AuditError, match=re.escape(FOLDER_IN_USE.format(tmp_path / "a"))),
                open_checkpoints(tmp_path / "a", "another", restart=fresh),
            ):
                pass
        assert (unfinished.exists(), (tmp_path / "a" / "x").exists()) == (True, True)
    with open_checkpoints(tmp_path / "a", "key") as checkpoints:
        assert put(checkpoints, "one", {"x": b"1"})
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [STATE, "x"]


def test_a_folder_that_cannot_be_locked_is_used_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems have no locks."""
    fcntl = pytest.importorskip("fcntl")

    def refused(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refused)
    with open_checkpoints(tmp_path, "key") as checkpoints:
        assert not put(checkpoints, "one", {"x": b"1"})
