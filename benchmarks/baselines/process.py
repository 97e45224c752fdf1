"""Other processes, measured from outside: how long one takes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

BARE_START = (sys.executable, "-c", "import numpy, onnxruntime")


def fairchain_command() -> str:
    """The console script of the Python that runs this."""
    return str(Path(sys.executable).with_name("fairchain"))


def seconds_of(command: tuple[str, ...]) -> float:
    """Wall time of a command that must succeed."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start
