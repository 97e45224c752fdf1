"""The folder of an audit: what is kept, what is made again, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairchain.auditing.shelf import PART, STATE, Files, Shelf, shelf_in
from fairchain.errors import AuditError


def put(shelf: Shelf, name: str, files: Files) -> bool:
    """Whether a stage was there already."""
    found, kept = shelf.stage(name, lambda: files)
    assert found == files
    return kept


def test_a_finished_stage_is_kept(tmp_path: Path) -> None:
    assert not put(Shelf(tmp_path / "a", "key"), "one", {"x": b"1"})
    assert put(Shelf(tmp_path / "a", "key"), "one", {"x": b"1"})


@pytest.mark.parametrize("damage", [b"", b"2", None])
def test_a_damaged_stage_is_made_again_with_all_that_came_after(tmp_path: Path, damage: bytes | None) -> None:
    shelf = Shelf(tmp_path, "key")
    for number in range(3):
        put(shelf, f"stage {number}", {str(number): b"1"})
    if damage is None:
        (tmp_path / "1").unlink()
    else:
        (tmp_path / "1").write_bytes(damage)
    again = Shelf(tmp_path, "key")
    assert [put(again, f"stage {number}", {str(number): b"1"}) for number in range(3)] == [True, False, False]


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"format": 1, "key": 3, "stages": {"one": {"../x": "1"}}}', b"\xff", b"[" * 100_000]
)
def test_a_damaged_list_means_that_everything_is_made_again(tmp_path: Path, damage: bytes) -> None:
    put(Shelf(tmp_path, "key"), "one", {"x": b"1"})
    (tmp_path / STATE).write_bytes(damage)
    for name in ("repaired.onnx", "mine.txt"):
        (tmp_path / name).write_bytes(b"1")
    assert not put(Shelf(tmp_path, "key", names=("x", "repaired.onnx")), "one", {"x": b"1"})
    # A network of nobody knows which question must not lie beside this one's report.
    assert sorted(path.name for path in tmp_path.iterdir()) == [STATE, "mine.txt", "x"]


def test_another_audit_is_not_mixed_with_this_one(tmp_path: Path) -> None:
    put(Shelf(tmp_path, "key"), "one", {"x": b"1"})
    with pytest.raises(AuditError, match=r"another spec, network, data or version.*--fresh"):
        Shelf(tmp_path, "another")
    assert (tmp_path / "x").read_bytes() == b"1"


def test_fresh_removes_what_the_audit_before_left(tmp_path: Path) -> None:
    """A network repaired for another question must not lie beside this one's report."""
    put(Shelf(tmp_path, "key"), "one", {"verdict.json": b"1"})
    (tmp_path / "mine.txt").write_text("a note", encoding="utf-8")
    # Written by a process that was killed before it could say so.
    (tmp_path / "repaired.onnx").write_bytes(b"1")
    Shelf(tmp_path, "another", fresh=True, names=("repaired.onnx",))
    assert sorted(path.name for path in tmp_path.iterdir()) == [STATE, "mine.txt"]


def test_a_folder_with_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".other.part").write_text("x", encoding="utf-8")
    with pytest.raises(AuditError, match="not empty and holds no audit"):
        Shelf(tmp_path, "key")
    assert [path.name for path in tmp_path.iterdir()] == [".other.part"]
    put(Shelf(tmp_path, "key", fresh=True), "one", {"x": b"1"})
    assert (tmp_path / ".other.part").exists()


def test_a_folder_that_cannot_be_made_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for place in (tmp_path / "file", tmp_path / "file" / "folder"):
        with pytest.raises(AuditError, match=r"cannot be used .*-o"), shelf_in(place, "key"):
            pass


def test_a_stage_that_fails_leaves_nothing(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, "key")

    def fail() -> Files:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        shelf.stage("one", fail)
    assert [path.name for path in tmp_path.iterdir()] == [STATE]


def test_two_audits_are_never_at_work_in_one_folder(tmp_path: Path) -> None:
    """Each would take the unfinished files of the other for what a killed process left behind."""
    with shelf_in(tmp_path / "a", "key") as shelf:
        put(shelf, "one", {"x": b"1"})
        unfinished = tmp_path / "a" / "1".join(PART)
        unfinished.write_bytes(b"half")
        for fresh in (False, True):
            with (
                pytest.raises(AuditError, match=r"another audit is at work.*-o"),
                shelf_in(tmp_path / "a", "another", fresh=fresh),
            ):
                pass
        assert (unfinished.exists(), (tmp_path / "a" / "x").exists()) == (True, True)
    with shelf_in(tmp_path / "a", "key") as shelf:
        assert put(shelf, "one", {"x": b"1"})
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [STATE, "x"]


def test_a_folder_that_cannot_be_locked_is_used_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems have no locks."""
    fcntl = pytest.importorskip("fcntl")

    def refused(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refused)
    with shelf_in(tmp_path, "key") as shelf:
        assert not put(shelf, "one", {"x": b"1"})
