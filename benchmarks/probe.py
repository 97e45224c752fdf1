"""One measurement in a process of its own, so that its peak memory is its own: a job as JSON in, numbers as JSON out.

`python -m benchmarks.probe '{"kind": "verify", ...}'` is called by the parts scaling and speed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Measured:
    """What came of a job; memory in MiB, `before` is what the process had when the work began."""

    seconds: float
    peak: float
    before: float
    rounds: int
    evaluations: int
    states: int
    query: float
    stopped: str
    processor: float = 0.0


def measured(job: dict[str, Any], timeout: float) -> Measured:
    """Run a job in a fresh process."""
    command = (sys.executable, "-m", "benchmarks.probe", json.dumps(job))
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, timeout=timeout)
    return Measured(**json.loads(done.stdout))


def mebibytes(which: str) -> float:
    """Of this process: VmHWM is the most it ever had, VmRSS what it has."""
    try:
        with Path("/proc/self/status").open(encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith(which)) / 1024
    except OSError:
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / (2**20 if sys.platform == "darwin" else 2**10)


def _verify(job: dict[str, Any]) -> Measured:
    from fairchain import OnnxModel, parse_spec, verify
    from fairchain.spec import revise

    spec = parse_spec(job["spec"])
    model = OnnxModel(job["spec"]["model"]["path"], spec)
    before = mebibytes("VmRSS")
    # What is imported at the first use is not what grows.
    verify(model, revise(spec, guarantee__budget__rounds=16.0), seed=0, workers=1)
    start, processor = time.perf_counter(), time.process_time()
    verdict = verify(model, spec, seed=0, workers=job["workers"])
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    peak = mebibytes("VmHWM")
    return Measured(seconds, peak, before, verdict.rounds, verdict.evaluations, 0, 0.0, verdict.stopped, processor)


def _chain(job: dict[str, Any]) -> Measured:
    from fairchain import learn_chain, parse_spec
    from fairchain.pctl import check_chain

    spec = parse_spec(job["spec"])
    before, start = mebibytes("VmRSS"), time.perf_counter()
    chain = learn_chain(None, spec, units=job["states"], rounds=job["rounds"], seed=0, workers=job["workers"])
    seconds = time.perf_counter() - start
    check_chain(chain, 'P=? [ F "Y=no" ]')
    start = time.perf_counter()
    check_chain(chain, 'P=? [ F "Y=yes" ]')
    query, peak = time.perf_counter() - start, mebibytes("VmHWM")
    return Measured(seconds, peak, before, job["rounds"], 0, len(chain), query, "rounds")


JOBS = {"verify": _verify, "chain": _chain}

if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    print(json.dumps(asdict(JOBS[job["kind"]](job))))
