"""Promise: a damaged or hostile file of any format ends in a result or in one of our errors.

No crash, no hang, no other exception, and memory below a limit. Mutants are tried in processes of their own, so that a
crash is seen, with the number that made it. `make test-all` tries 2,000 of each format, `make fuzz` 100,000 in all.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from fairchain.errors import FairchainError
from fairchain.models.onnx import row_independence
from tests.fuzzing import corpus, run, worker
from tests.fuzzing.mutate import MUTATORS, mutated
from tests.fuzzing.run import Result, tried
from tests.fuzzing.target import Target
from tests.fuzzing.targets import TARGETS

# In the default run: hostile files, whole files and some mutants of each format.
FEW = 25
# In `make test-all`, of each format.
MANY = 2_000
# Their packages take seconds to import.
HEAVY = ("torch", "keras", "h5", "xgboost", "xgboost ubj", "lightgbm", "catboost")
# Native code reads these, and a crash would end the tests.
NATIVE = ("onnx", "row independence", "parquet")
LIGHT = [name for name in TARGETS if name not in (*HEAVY, *NATIVE)]


def check(result: Result) -> None:
    commands = [
        f"{problem}\n  python -m tests.fuzzing --target '{result.name}' --show {number}"
        for number, problem in result.failures.items()
    ]
    assert not commands, "\n".join(commands)


@pytest.mark.parametrize("name", LIGHT)
def test_hostile_files_and_some_mutants_are_refused_or_read(name: str, tmp_path: Path) -> None:
    """In this process, for speed."""
    path = tmp_path / f"mutant{TARGETS[name].suffix}"
    ended = {"accepted": 0, "refused": 0}
    hostile, _ = worker.files(name)
    for number in range(len(hostile) + FEW):
        path.write_bytes(worker.mutant(name, number))
        how, problem = worker.attempt(name, path)
        assert not problem, f"{problem}: python -m tests.fuzzing --target '{name}' --show {number}"
        ended[how] += 1
    # Both ways out are taken: the damage is neither always fatal nor never felt.
    assert ended["accepted"]
    assert ended["refused"] or name in ("corpus", "vocabulary")


@pytest.mark.parametrize("name", NATIVE)
def test_hostile_files_and_some_mutants_of_what_native_code_reads_are_refused_or_read(name: str) -> None:
    hostile, _ = worker.files(name)
    result = tried(name, 0, len(hostile) + 4 * FEW)
    check(result)
    assert result.counts["accepted"]
    assert result.counts["refused"]


@pytest.mark.fuzz
@pytest.mark.parametrize("name", TARGETS)
def test_many_mutants_are_refused_or_read(name: str) -> None:
    if not TARGETS[name].available and not os.environ.get("FAIRCHAIN_NO_SKIP"):
        pytest.skip(f"needs {', '.join(TARGETS[name].needs)}: make test-all runs this")
    result = tried(name, 0, MANY)
    check(result)
    assert result.mutants == MANY


def test_a_proof_that_accepts_every_graph_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of the first random graphs many mix rows, and trials show it."""
    path = tmp_path / "graph.onnx"
    monkeypatch.setattr(row_independence, "check_row_independence", lambda *_: None)
    failed = 0
    for number in range(FEW):
        path.write_bytes(worker.mutant("row independence", number))
        how, problem = worker.attempt("row independence", path)
        failed += how == "failed"
        assert how == "accepted" or "accepted, but" in problem
    assert failed


def test_a_mutant_follows_from_its_number() -> None:
    for kind in MUTATORS:
        whole, other = b'{"a": [1, 2], "b": "text"}\nc = 3\n' * 3, b"other = 4"
        made = [[mutated(kind, whole, other, Random(number)) for number in range(50)] for _ in range(2)]
        assert made[0] == made[1]
        assert len(set(made[0])) > 20


def test_every_hostile_file_belongs_to_a_target() -> None:
    assert set(corpus.CORPUS) <= set(TARGETS)


def _refuse(path: Path) -> None:
    raise FairchainError(f"{path}: refused")


def _foreign(path: Path) -> None:
    raise KeyError("foreign")


def _flood(path: Path) -> None:
    bytearray(10**12)


def test_the_targets_together_get_as_many_mutants_as_were_asked_for() -> None:
    for total in (1, 100, 100_000):
        counts = run.shared_out(total, list(TARGETS))
        assert total <= sum(counts.values()) <= total + len(TARGETS)


def test_what_is_no_error_of_ours_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for attempt, ended in ((_refuse, "refused"), (_foreign, "failed"), (_flood, "failed"), (Path.exists, "accepted")):
        monkeypatch.setitem(TARGETS, "toy", Target("bytes", ".toy", lambda: [b"toy"], attempt))
        assert worker.attempt("toy", tmp_path / "file")[0] == ended


# A worker that ends, or does not end, at mutant 3.
WORKER = """
import os, sys, time, json
first, last = int(sys.argv[2]), int(sys.argv[3])
for number in range(first, last):
    print(number, flush=True)
    if number == 3:
        {}
counts = {{"accepted": last - first, "refused": 0, "failed": 0}}
print(json.dumps({{"counts": counts, "failures": {{}}, "slowest": [0.0, 0], "megabytes": {}}}))
"""


@pytest.mark.parametrize(
    ("what", "megabytes", "number", "words"),
    [
        ("os.abort()", 1, 3, "signal 6"),
        ("time.sleep(60)", 1, 3, "takes more than"),
        ("os._exit(101)", 1, 3, "exit code 101"),
        ("pass", 10**5, -1, "MB of memory"),
    ],
)
def test_a_worker_that_dies_hangs_or_takes_all_memory_is_a_failure_and_the_others_are_still_tried(
    what: str, megabytes: int, number: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "tests" / "fuzzing"
    package.mkdir(parents=True)
    (package / "worker.py").write_text(WORKER.format(what, megabytes))
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "MOST_SECONDS", 1.0)
    result = tried("csv", 0, 8)
    assert words in result.failures[number]
    assert len(result.failures) == 1
    assert result.mutants == 8


def test_a_crash_is_a_refusal_where_the_product_reads_the_file_in_a_child_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "tests" / "fuzzing"
    package.mkdir(parents=True)
    (package / "worker.py").write_text(WORKER.format("os.abort()", 1))
    monkeypatch.setattr(run, "ROOT", tmp_path)
    result = tried("parquet", 0, 8)
    assert result.failures == {}
    assert result.counts["isolated"] == 1
