"""Where and with what the numbers were made."""

from __future__ import annotations

import os
import platform
import time
from importlib import metadata
from pathlib import Path

from benchmarks.suite.outcome import Machine
from fairchain import __version__
from fairchain.verification.sampler import default_workers

PACKAGES = ("numpy", "scipy", "onnx", "onnxruntime", "fairlearn")


# Ticks of /proc/stat in which a core was not idle: user, nice, system, irq, softirq, and stolen by the host.
BUSY = (1, 2, 3, 6, 7, 8)


class Watch:
    """Sees how many cores others keep busy while a part runs; a load average would count the suite's own work."""

    def __init__(self) -> None:
        self._start, self._busy, self._own = time.perf_counter(), _busy_seconds(), _own_seconds()

    def others(self) -> float | None:
        """Cores that other processes had on average since this was made, if the system tells."""
        now, elapsed = _busy_seconds(), time.perf_counter() - self._start
        if now is None or self._busy is None:
            return None
        return round(max(0.0, now - self._busy - (_own_seconds() - self._own)) / elapsed, 1)


def _own_seconds() -> float:
    """Of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def _busy_seconds() -> float | None:
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0].split()
        return sum(int(fields[place]) for place in BUSY) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return None


def this_machine(others: float | None = None) -> Machine:
    """The processor, how busy others keep it, the system and the versions that matter."""
    return Machine(
        processor=_processor(),
        cores=default_workers(),
        load=others,
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        versions={"fairchain": __version__, **{name: _version(name) for name in PACKAGES}},
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
