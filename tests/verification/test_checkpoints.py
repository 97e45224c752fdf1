"""Checkpoints of enumerations: a run that was killed continues to the same certificate, and no file is believed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fairchain import (
    CheckpointError,
    ExecutorError,
    ModelError,
    SpecError,
    Verdict,
    example,
    load_spec,
    make_certificate,
    parse_spec,
    verify,
)
from fairchain.certificate_format import SegmentEvidence
from fairchain.spec import revise
from fairchain.system.cache_folder import NOT_PRIVATE
from fairchain.system.locks import locked
from fairchain.system.untrusted_files import NOT_PLAIN_FILE
from fairchain.system.work_record import (
    ANOTHER_QUESTION,
    ANOTHER_WRITER,
    CANNOT_BE_USED,
    FILE_IN_USE,
    NOT_A_RECORD,
    WorkRecord,
)
from fairchain.verification import enumeration
from fairchain.verification.choosing import CHECKPOINT_NEEDS_FILE, NOT_CONTINUED
from fairchain.verification.enumeration import Enumerator
from fairchain.verification.sampler import Sampler
from tests.messages import says
from tests.rechecking.builders import audit, written

KEY = b"k" * 32


@pytest.fixture(name="data", scope="module")
def _data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return audit(written(tmp_path_factory.mktemp("enumerated")), "uniform", "difference", engine="enumeration")


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """About 30 inputs in segments of a few points, and a key of the test's own."""
    monkeypatch.setattr("fairchain.input_space.TILE", 2)
    monkeypatch.setattr(enumeration, "TILE", 2)
    monkeypatch.setattr(enumeration, "SEGMENT_EVALUATIONS", 1)
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path / "cache"))


def run(data: dict[str, Any], file: Path | None = None, **options: Any) -> Verdict:
    return verify(None, parse_spec(data), workers=1, checkpoint=file, **options)


def content_of(verdict: Verdict) -> dict[str, Any]:
    return make_certificate(verdict, timed=False)


def evaluated(monkeypatch: pytest.MonkeyPatch, stop_after: int | None = None) -> list[int]:
    """Note the first block of every segment that is evaluated; raise in place of one."""
    found: list[int] = []
    plain = Enumerator.run

    def noted(self: Enumerator, first: int, blocks: int) -> SegmentEvidence:
        if len(found) == stop_after:
            raise RuntimeError("the machine stops")
        found.append(first)
        return plain(self, first, blocks)

    monkeypatch.setattr(Enumerator, "run", noted)
    return found


@pytest.mark.parametrize("done", [0, 1, 3])
def test_a_run_that_broke_off_continues_to_the_same_certificate(
    done: int, data: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, file = content_of(run(data)), tmp_path / "points"
    with monkeypatch.context() as patch:
        evaluated(patch, stop_after=done)
        with pytest.raises(RuntimeError):
            run(data, file)
    with monkeypatch.context() as patch:
        blocks = evaluated(patch)
        assert content_of(run(data, file)) == whole
    segments = len(whole["evidence"]["segments"])
    assert len(blocks) == segments - done
    with monkeypatch.context() as patch:
        blocks = evaluated(patch)
        assert content_of(run(data, file)) == whole
    assert blocks == []


KILLED = """
import os, signal, sys
from fairchain import parse_spec, verify
from fairchain.verification import enumeration
from fairchain.system.work_record import WorkRecord
import fairchain.input_space, json
fairchain.input_space.TILE = enumeration.TILE = 2
enumeration.SEGMENT_EVALUATIONS = 1
plain, lines = WorkRecord.add, []
def add(self, piece):
    plain(self, piece)
    lines.append(piece)
    if len(lines) == 2:
        with open(sys.argv[2], "ab", buffering=0) as file:
            file.write(b"0123 {half of a line")
        os.kill(os.getpid(), signal.SIGKILL)
WorkRecord.add = add
verify(None, parse_spec(json.loads(sys.argv[1])), workers=1, checkpoint=sys.argv[2])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 here")
def test_a_process_that_was_killed_in_the_middle_of_a_line_continues(data: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "points"
    command = [sys.executable, "-c", KILLED, json.dumps(data), str(file)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert content_of(run(data, file)) == content_of(run(data))


def test_an_early_stop_is_at_the_same_place_after_an_interruption(
    data: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = len(content_of(run(data))["evidence"]["segments"])
    monkeypatch.setattr(enumeration, "FIRST_LOOK", 0)
    stopped, file = content_of(run(data)), tmp_path / "points"
    assert len(stopped["evidence"]["segments"]) < segments
    with monkeypatch.context() as patch:
        evaluated(patch, stop_after=1)
        with pytest.raises(RuntimeError):
            run(data, file)
    assert content_of(run(data, file)) == stopped
    assert content_of(run(data, file)) == stopped


def forged(line: bytes) -> bytes:
    """A line in which all inputs got the outcome, with a tag that its writer made up."""
    tag, _, piece = line.partition(b" ")
    segment = json.loads(piece)
    segment["weights"] = [[[own[0]] * len(own) for own in parts] for parts in segment["weights"]]
    return tag + b" " + json.dumps(segment).encode()


TAMPERED = {
    "a weight": lambda lines: [*lines[:2], forged(lines[2]), *lines[3:]],
    "a line left out": lambda lines: [*lines[:2], *lines[3:]],
    "a line twice": lambda lines: [*lines[:3], lines[2], *lines[3:]],
    "two lines exchanged": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "an end cut off": lambda lines: lines[:3],
    "bytes that are no text": lambda lines: [*lines[:2], b"\xff\x00 \xfe", *lines[2:]],
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_changed_line_is_computed_again(name: str, data: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "points"
    whole = content_of(run(data, file))
    file.write_bytes(b"\n".join([*TAMPERED[name](file.read_bytes().split(b"\n")[:-1]), b""]))
    assert content_of(run(data, file)) == whole
    # The record is whole again.
    assert len(file.read_bytes().splitlines()) == 1 + len(whole["evidence"]["segments"])


def test_a_record_without_tags_would_lead_to_a_wrong_verdict(
    data: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the tags are for: with any tag believed, a forged line changes the weights that are certified."""
    file = tmp_path / "points"
    whole = content_of(run(data, file))
    lines = file.read_bytes().split(b"\n")
    file.write_bytes(b"\n".join([*map(forged_but_head, enumerate(lines[:-1])), b""]))
    monkeypatch.setattr("hmac.compare_digest", lambda *_: True)
    assert content_of(run(data, file))["claims"]["groups"] != whole["claims"]["groups"]


def forged_but_head(numbered: tuple[int, bytes]) -> bytes:
    number, line = numbered
    return forged(line) if number else line


def test_a_file_that_is_no_record_of_this_question_is_refused_and_kept(data: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "points"
    for content in (b"", b"name,age\n", b"{}", b"\x00" * 100):
        file.write_bytes(content)
        with pytest.raises(CheckpointError, match=says(NOT_A_RECORD)) as found:
            run(data, file)
        assert str(found.value) == NOT_A_RECORD.format(file, "checkpoint")
        assert file.read_bytes() == content
    file.unlink()
    run(data, file)
    kept = file.read_bytes()
    other = {**data, "property": {**data["property"], "threshold": 0.123}}
    with pytest.raises(CheckpointError) as found:
        run(other, file)
    assert str(found.value) == ANOTHER_QUESTION.format(file)
    assert file.read_bytes() == kept


def test_a_record_of_another_user_is_refused(data: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "points"
    run(data, file)
    (tmp_path / "cache" / "checkpoint.key").unlink()
    with pytest.raises(CheckpointError) as found:
        run(data, file)
    assert str(found.value) == ANOTHER_WRITER.format(file)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no permissions here")
def test_a_key_that_others_can_read_is_refused(data: dict[str, Any], tmp_path: Path) -> None:
    run(data, tmp_path / "points")
    key = tmp_path / "cache" / "checkpoint.key"
    assert key.stat().st_mode & 0o777 == 0o600
    key.chmod(0o644)
    with pytest.raises(CheckpointError, match=says(NOT_PRIVATE)):
        run(data, tmp_path / "points")


def test_a_file_in_use_or_in_no_folder_is_one_message(data: dict[str, Any], tmp_path: Path) -> None:
    with locked(tmp_path / "points"), pytest.raises(CheckpointError, match=says(FILE_IN_USE)):
        run(data, tmp_path / "points")
    for file in (tmp_path / "nowhere" / "points", tmp_path / "bad\0name"):
        with pytest.raises(CheckpointError, match=says(CANNOT_BE_USED)):
            run(data, file)
    with pytest.raises(CheckpointError, match=says(NOT_PLAIN_FILE)):
        run(data, tmp_path)


def test_what_has_no_checkpoint_is_refused_with_the_remedy(data: dict[str, Any], tmp_path: Path) -> None:
    chosen = {**data, "guarantee": {**data["guarantee"], "engine": "auto"}}
    with pytest.raises(SpecError, match=says(NOT_CONTINUED)):
        run(chosen, tmp_path / "points")
    with pytest.raises(ModelError, match=says(CHECKPOINT_NEEDS_FILE)):
        verify(lambda inputs: inputs[:, 0] > 1, parse_spec(data), checkpoint=tmp_path / "points")
    assert not (tmp_path / "points").exists()


def test_pieces_come_back_in_their_order(tmp_path: Path) -> None:
    record = WorkRecord(tmp_path / "work", "question", KEY)
    for piece in (b"1", b'{"a": 2}', b""):
        record.add(piece)
    assert WorkRecord(tmp_path / "work", "question", KEY).pieces == [b"1", b'{"a": 2}', b""]


def sampled(file: Path | None, **options: Any) -> Verdict:
    spec = revise(load_spec(example("credit")), guarantee__engine="sampling", guarantee__epsilon=0.01)
    return verify(None, spec, checkpoint=file, **options)


class Failing:
    """A sampler that loses its workers after some batches."""

    MESSAGE = "all workers are lost"

    def __init__(self, batches: int) -> None:
        self.left, self.run = batches, Sampler.run

    def patched(self) -> Any:
        def run(sampler: Sampler, *given: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise ExecutorError(Failing.MESSAGE)
            return self.run(sampler, *given)

        return run


@pytest.mark.parametrize("batches", [0, 1, 5])
def test_sampling_continues_where_it_lost_its_workers(
    batches: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make_certificate(sampled(None), timed=False)
    with monkeypatch.context() as patch:
        failing = Failing(batches)
        patch.setattr(Sampler, "run", failing.patched())
        with pytest.raises(ExecutorError, match=Failing.MESSAGE):
            sampled(tmp_path / "batches")
    assert (tmp_path / "batches").read_bytes().count(b"\n") == 1 + batches
    counting = Failing(10**6)
    monkeypatch.setattr(Sampler, "run", counting.patched())
    assert make_certificate(sampled(tmp_path / "batches"), timed=False) == whole
    assert 10**6 - counting.left == len(whole["evidence"]["batches"]) - batches
    # A third run finds everything, and evaluates nothing.
    before = counting.left
    assert make_certificate(sampled(tmp_path / "batches"), timed=False) == whole
    assert counting.left == before
    with pytest.raises(CheckpointError, match=says(ANOTHER_QUESTION)):
        sampled(tmp_path / "batches", seed=7)
