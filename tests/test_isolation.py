"""Promises of a process of its own: a crash is an error, results are the same, and no planted file runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import fairchain
from fairchain import ModelError, example, verify
from fairchain.datasets.fetch import DownloadError, download
from fairchain.system.isolation import (
    NATIVE_CODE_CRASHED,
    NOT_PICKLABLE,
    describe_end,
    isolated,
    new_interpreter,
    out_of_memory,
)
from fairchain.text.files import NO_FILE
from tests.crashes import division, write_question
from tests.messages import says

PLANTED = "import sys; sys.stdout.write('planted'); sys.stdout.flush(); raise SystemExit(66)\n"


def test_a_native_crash_is_an_error_and_the_caller_goes_on(tmp_path: Path) -> None:
    spec = write_question(tmp_path, division())
    with pytest.raises(ModelError, match=says(NATIVE_CODE_CRASHED, sign="SIGFPE")):
        verify(None, spec, isolate=True)


def test_a_verdict_comes_back_as_without_isolation() -> None:
    found, here = verify(None, example("credit"), isolate=True).to_dict(), verify(None, example("credit")).to_dict()
    assert {**found, "seconds": 0} == {**here, "seconds": 0}


def test_control_c_reaches_the_process_and_returns_what_is_known() -> None:
    spec = fairchain.spec.revise(
        fairchain.load_spec(example("census")), property__threshold=0.0091, guarantee__delta=1e-12
    )
    pressed: list[fairchain.Progress] = []

    def press(progress: fairchain.Progress) -> None:
        if not pressed:
            pressed.append(progress)
            os.kill(os.getpid(), signal.SIGINT)

    verdict = verify(None, spec, isolate=True, progress=press)
    assert (verdict.decision.name, verdict.stopped) == ("UNDECIDED", "interrupted")
    assert verdict.rounds >= pressed[0].rounds > 0


def test_an_error_of_the_call_is_raised_here() -> None:
    with pytest.raises(ModelError, match=says(NO_FILE, path="none.onnx")):
        verify("none.onnx", example("credit"), isolate=True)


def test_what_cannot_be_copied_into_a_process_is_refused_with_a_remedy() -> None:
    with pytest.raises(ModelError, match=says(NOT_PICKLABLE)):
        verify(lambda values: values[:, 0], example("credit"), isolate=True)


@pytest.mark.parametrize(("call", "part"), [(os._exit, "ended the process"), (sys.exit, "raised SystemExit")])
def test_a_process_that_ends_without_a_result_is_an_error(call: object, part: str) -> None:
    with pytest.raises(ModelError, match=part):
        isolated(call, 0)  # type: ignore[arg-type]


def test_memory_that_runs_out_is_told_from_other_errors() -> None:
    cause = ImportError("libfoo.so: failed to map segment from shared object")
    error = RuntimeError("x")
    error.__cause__ = cause
    assert all(map(out_of_memory, (MemoryError(), OSError(12, "Cannot allocate memory"), cause, error)))
    assert not any(map(out_of_memory, (None, RuntimeError("x"), OSError(2, "No such file"))))


def test_every_end_has_a_message() -> None:
    for code in (0, 1, *(-number for number in range(1, 65))):
        for model in ("", "a.onnx"):
            assert describe_end(code, model).startswith(f"{model}: " if model else "")


def _planted(folder: Path) -> None:
    for name in ("json.py", "numpy.py", "polars.py", "sitecustomize.py", "usercustomize.py", "contextlib.py"):
        (folder / name).write_text(PLANTED, encoding="utf-8")
    (folder / "pip").mkdir()
    for name in ("__init__.py", "__main__.py"):
        (folder / "pip" / name).write_text(PLANTED, encoding="utf-8")


@pytest.mark.parametrize("variable", ["", "PYTHONPATH"])
def test_a_new_interpreter_runs_no_file_of_the_working_directory(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _planted(tmp_path)
    monkeypatch.chdir(tmp_path)
    # As for `python -m`, and for a program that is given on the command line.
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), ".", *sys.path])
    if variable:
        monkeypatch.setenv(variable, str(tmp_path))
    code = "import json, numpy, contextlib; from fairchain.tables import parquet; print(sys.argv[1:])"
    done = subprocess.run(new_interpreter(code, "a b", "c"), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "['a b', 'c']\n", "")


def test_a_parquet_file_is_read_beside_planted_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    polars = pytest.importorskip("polars")
    polars.DataFrame({"sex": ["f", "m"]}).write_parquet(tmp_path / "people.parquet")
    _planted(tmp_path)
    monkeypatch.chdir(tmp_path)
    from fairchain.tables import read_table

    assert read_table("people.parquet").count == 2


def test_pip_is_not_taken_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A requirement that no index is needed for: pip itself refuses it."""
    _planted(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(DownloadError) as caught:
        download("fairchain-does-not-exist==1", tmp_path / "wheels")
    assert "No matching distribution" in str(caught.value) or "no pip" in str(caught.value)
