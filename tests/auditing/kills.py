"""Run as a program: audits in children that are killed, at every file operation or at random moments.

Children are forked from a process that has imported everything and started no thread, so that dozens of them are cheap.
What goes wrong ends the program with an assertion.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

# What children would otherwise import, each for itself.
import onnx  # noqa: F401
import onnxruntime  # noqa: F401
import scipy.special  # noqa: F401

import fairchain.chain.formats
import fairchain.chain.learn
import fairchain.explaining
import fairchain.repairing
import fairchain.report.markdown
import fairchain.report.page
import fairchain.verification.all_pairs  # noqa: F401
from fairchain.auditing import audit
from fairchain.auditing.checkpoints import STATE, UNFINISHED_AUDIT_FILE, open_checkpoints
from tests.auditing.builders import contents, few_inputs, write_question

KILLS = 25
STAGES = {"one": {"a": b"1" * 70_000, "b": b"2"}, "two": {}, "three": {"c": b"3" * 1000}}


def child(work: Callable[[], object], *, after: float | None = None) -> bool:
    """Whether the work came to its end in a process of its own, before it was killed."""
    number = os.fork()
    if number == 0:
        work()
        os._exit(0)
    if after is not None:
        time.sleep(after)
        os.kill(number, signal.SIGKILL)
    _, status = os.waitpid(number, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the work failed"
    return not os.WIFSIGNALED(status)


def finished(folder: Path) -> list[str]:
    """The stages that a folder has; its list must be whole at any time."""
    try:
        return list(json.loads((folder / STATE).read_bytes())["stages"])
    except FileNotFoundError:
        return []


def whole(folder: Path, expected: dict[str, bytes]) -> None:
    """Every file that is there is as it will be."""
    found = contents(folder) if folder.exists() else {}
    found.pop(STATE, None)
    assert found.items() <= expected.items(), "a file is not whole"


def kill_at(operation: int) -> None:
    """Let this process kill itself before its file operation of that number, counted from 0."""
    done = 0

    def watched(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            nonlocal done
            if done == operation:
                os.kill(os.getpid(), signal.SIGKILL)
            done += 1
            return function(*arguments, **options)

        return call

    for name in ("mkdir", "open", "write", "fsync", "chmod", "replace"):
        setattr(os, name, watched(getattr(os, name)))


def all_stages(folder: Path, made: list[str] | None = None) -> None:
    with open_checkpoints(folder, "key") as kept:
        for name, files in STAGES.items():
            kept.stage(name, lambda name=name, files=files: (made.append(name) if made is not None else None) or files)  # type: ignore[misc]


def at_every_operation(folder: Path) -> int:
    """Checkpoints, killed before each of its file operations, goes on and loses nothing."""
    all_stages(folder / "unbroken")
    expected = contents(folder / "unbroken")
    for operation in range(200):
        place = folder / str(operation)
        if child(lambda place=place, operation=operation: (kill_at(operation), all_stages(place))):  # type: ignore[misc]
            break
        whole(place, expected)
        before, made = finished(place), list[str]()
        all_stages(place, made)
        assert made == [name for name in STAGES if name not in before], "a finished stage was made again"
        assert contents(place) == expected
        assert not list(place.glob("*".join(UNFINISHED_AUDIT_FILE))), "something was left behind"
    return operation


def at_random_moments(folder: Path) -> int:
    """Audits with all of their stages, killed again and again."""
    spec = write_question(folder)
    lots = random.Random(0)

    def run(place: Path) -> None:
        with few_inputs():
            audit(spec, place, workers=1)

    child(lambda: run(folder / "first"))
    start = time.perf_counter()
    child(lambda: run(folder / "unbroken"))
    usual = time.perf_counter() - start
    expected = contents(folder / "unbroken")
    assert expected == contents(folder / "first")
    kills, number, done = 0, 0, []
    while kills < KILLS:
        place = folder / str(number)
        ended = child(lambda place=place: run(place), after=lots.uniform(0, 0.4 * usual))  # type: ignore[misc]
        whole(place, expected)
        assert finished(place)[: len(done)] == done, "a finished stage was lost"
        done = [] if ended else finished(place)
        if ended:
            assert contents(place) == expected
            number += 1
        else:
            kills += 1
    child(lambda: run(folder / str(number)))
    assert contents(folder / str(number)) == expected
    return kills


if __name__ == "__main__":
    place = Path(sys.argv[1])
    operations, moments = at_every_operation(place / "checkpoints"), at_random_moments(place / "audit")
    print(json.dumps({"operations": operations, "moments": moments}))
