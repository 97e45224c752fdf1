"""Python code in a process of its own, with limits: a crash, a hang or a flood of memory there is a failure here."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Address space, not memory: onnxruntime reserves much more than it uses.
MOST_ADDRESSES = 6 * 2**30


def run_child(code: str, *arguments: object, seconds: float = 12) -> str:
    """Run `code` with `arguments` as sys.argv[1:]; returns what it printed, fails if it did not end well."""
    result = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        cwd=ROOT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES)),
    )
    assert result.returncode == 0, f"exit code {result.returncode}: {result.stderr[-2000:]}"
    return result.stdout
