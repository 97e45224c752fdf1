"""Where and with what the numbers were made."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

from benchmarks.suite.outcome import Machine
from fairchain import __version__
from fairchain.evidence import default_workers

PACKAGES = ("numpy", "scipy", "onnx", "onnxruntime", "fairlearn")


def this_machine() -> Machine:
    """The processor, how busy it is, the system and the versions that matter."""
    return Machine(
        processor=_processor(),
        cores=default_workers(),
        load=round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
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
