"""Run as a program: tries the mutants of one target, within limits, and reports how each ended.

Before each mutant its number is written to standard output, so that whoever started this process knows which one ended
it. The last line is a JSON object with counts.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from fairchain.errors import FairchainError
from tests.fuzzing.corpus import AS_THEY_ARE, CORPUS
from tests.fuzzing.mutate import mutated, unpacked_size
from tests.fuzzing.target import CautiousRefusalError
from tests.fuzzing.targets import TARGETS

# Address space, not memory: onnxruntime reserves much more than it uses.
MOST_ADDRESSES = 6 * 2**30
# Larger files are tried as they are, and not damaged further.
MOST_SEED = 200_000
# Names in it may be long, and come from the file.
MOST_MESSAGE = 20_000


@cache
def files(name: str) -> tuple[list[bytes], list[bytes]]:
    """Return the hostile files of a target, and all files that are damaged."""
    hostile, whole = CORPUS[name]() if name in CORPUS else [], _whole(name)
    # Whole files have more to damage: each counts as often as all hostile ones together.
    return hostile, [
        *whole * max(1, len(hostile) // 2),
        *(each for each in hostile[AS_THEY_ARE.get(name, 0) :] if _unpacked(each) < MOST_SEED),
    ]


@cache
def _whole(name: str) -> list[bytes]:
    return TARGETS[name].seeds()


def _unpacked(content: bytes) -> int:
    """Return how large a file is, also unpacked: what is damaged should fit into memory many times."""
    try:
        if zipfile.is_zipfile(io.BytesIO(content)):
            return max(len(content), unpacked_size(content))
        return max(len(content), len(gzip.decompress(content)))
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile):
        return len(content)


def mutant(name: str, number: int, seed: int = 0) -> bytes:
    """Return a mutant by its number; the first ones are hostile files as they are, then whole files."""
    hostile, damaged = files(name)
    known = [*hostile, *_whole(name)]
    if number < len(known):
        return known[number]
    dice = Random(f"{seed} {name} {number}")
    generate = TARGETS[name].generate
    if generate is not None:
        return generate(dice)
    return mutated(TARGETS[name].kind, dice.choice(damaged), dice.choice(damaged), dice)


def attempt(name: str, path: Path) -> tuple[str, str]:
    """Return how a file ends, "accepted", "refused", "cautious" or "failed", and what is wrong if it failed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Arithmetic that overflows unseen is a failure too.
            warnings.simplefilter("error", RuntimeWarning)
            TARGETS[name].attempt(path)
    except FairchainError as error:
        message = str(error)
        if not message or "\n" in message or len(message) > MOST_MESSAGE:
            return "failed", f"a message that is empty, too long or of several lines: {message[:200]!r}"
        return "cautious" if isinstance(error, CautiousRefusalError) else "refused", ""
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        own = [each for each in traceback.extract_tb(error.__traceback__) if "/fairchain/" in each.filename]
        where = own[-1] if own else place
        return "failed", f"{type(error).__name__}: {str(error)[:150]!r} at {Path(where.filename).name}:{where.lineno}"
    return "accepted", ""


def main() -> None:
    """Try the mutants from sys.argv[2] to sys.argv[3] of the target sys.argv[1], with the seed sys.argv[4]."""
    name, first, last, seed = sys.argv[1], *map(int, sys.argv[2:5])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))
    counts, failures, slowest = {"accepted": 0, "refused": 0, "cautious": 0, "failed": 0}, {}, (0.0, 0)
    # What readers print of their own is of no interest, and must not get between the numbers.
    told, sys.stdout = sys.stdout, sys.stderr
    files(name)
    # In memory where there is such a place: readers that write results wait for the disk.
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fairchain-fuzz-", dir=shared) as folder:
        for number in range(first, last):
            print(number, file=told, flush=True)
            path = Path(folder) / f"mutant{TARGETS[name].suffix}"
            path.write_bytes(mutant(name, number, seed))
            start = time.perf_counter()
            ended, problem = attempt(name, path)
            slowest = max(slowest, (time.perf_counter() - start, number))
            counts[ended] += 1
            if problem:
                failures[number] = problem
            with suppress(OSError):
                path.unlink()
    found: dict[str, Any] = {"counts": counts, "failures": failures, "slowest": slowest}
    # Not ru_maxrss: it begins with that of the process that started this one.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found["megabytes"] = int(status.partition("VmHWM:")[2].split()[0]) // 1024
    print(json.dumps(found), file=told, flush=True)


if __name__ == "__main__":
    main()
