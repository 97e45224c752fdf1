"""Other processes, measured from outside: how long one takes, and how much memory it had at most."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

BARE_START = (sys.executable, "-c", "import numpy, onnxruntime")

# The peak is read by the process itself: what its parent reads after it ended includes the parent's own memory
# at the time of the fork.
PEAK = """
import sys
import fairchain

spec, protected, rounds, workers = sys.argv[1:]
from fairchain.spec import load_spec, revise
question = revise(load_spec(spec), property__protected=[protected], guarantee__epsilon=1e-6,
                  guarantee__budget__rounds=float(rounds), guarantee__budget__seconds=3600.0)
verdict = fairchain.verify(None, question, workers=int(workers))
try:
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
except OSError:
    import resource
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)
print(verdict.evaluations, peak)
"""


def fairchain_command() -> str:
    """The console script of the Python that runs this."""
    return str(Path(sys.executable).with_name("fairchain"))


def seconds_of(command: tuple[str, ...]) -> float:
    """Wall time of a command that must succeed."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def peak_memory(spec: Path, protected: str, rounds: int, workers: int) -> tuple[int, float]:
    """Evaluations, and the most memory (in MB) that a verify of so many rounds had."""
    command = (sys.executable, "-c", PEAK, str(spec), protected, str(rounds), str(workers))
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    evaluations, kilobytes = map(int, answer.split())
    return evaluations, kilobytes / 1024
