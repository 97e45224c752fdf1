"""The bare network: onnxruntime and nothing else, on inputs that are in memory already; and commands as processes.

No drawing, no decision, no counting, no memory cap, no watchdog: the least that any tool built on onnxruntime pays.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

BATCHES = (4096, 8192, 16384)


class BareNetwork:
    """A session of one thread per call, with inputs to show it again and again.

    Parameters
    ----------
    path
        The ONNX file; it has one input and its first output is read.
    inputs
        Rows of the network's own number type. Their number is a multiple of every batch size.
    """

    def __init__(self, path: str, inputs: NDArray[Any]) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._input = self._session.get_inputs()[0].name
        self._outputs = [self._session.get_outputs()[0].name]
        self._inputs = np.ascontiguousarray(inputs)

    def run(self, evaluations: int, batch: int, threads: int = 1) -> int:
        """Evaluate this many inputs, shared among threads; returns how many came out."""
        share = -(-evaluations // threads)
        shares = [min(share, evaluations - start) for start in range(0, evaluations, share)]
        if threads == 1:
            return self._run(evaluations, batch)
        with ThreadPoolExecutor(threads) as pool:
            return sum(pool.map(lambda each: self._run(each, batch), shares))

    def _run(self, evaluations: int, batch: int) -> int:
        done = 0
        while done < evaluations:
            start = done % len(self._inputs)
            rows = self._inputs[start : start + min(batch, evaluations - done)]
            done += len(self._session.run(self._outputs, {self._input: rows})[0])
        return done

    def best_batch(self, evaluations: int, threads: int, tries: int = 3) -> int:
        """The fastest batch size here and now: the median of a few short runs of each, taken in turns."""
        seconds: dict[int, list[float]] = {batch: [] for batch in BATCHES}
        for _ in range(tries):
            for batch, times in seconds.items():
                start = time.perf_counter()
                self.run(evaluations, batch, threads)
                times.append(time.perf_counter() - start)
        return min(BATCHES, key=lambda batch: median(seconds[batch]))


def fairchain_command() -> str:
    """Return the console script of the Python that runs this."""
    return str(Path(sys.executable).with_name("fairchain"))


def run_command(command: Sequence[str], accepted: Sequence[int] = (0,)) -> None:
    """Run a command that must end with one of these exit codes."""
    ended = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    if ended.returncode not in accepted:
        raise RuntimeError(f"{' '.join(command)}: exit code {ended.returncode}")
