"""How busy a service is kept: the share of its connections' time in which it works on a request."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import Cell, Check, Column, PartResult, Table
from benchmarks.sizes import Sizes

LATENCY, CONNECTIONS, FIRST = 0.05, 16, 200
LEAST = 0.9
TEXT = """This section measures whether fairchain keeps a slow service busy. A service in a separate process answers
each request after 50 ms. Each request has one input, and 16 connections are used. The first question counts the rows of
a table, and the second question samples drawn inputs. The size of a batch of drawn inputs follows from the counts of
the previous batch. While the last answers of a batch are on their way, idle connections request the inputs that are
expected next.

The *utilisation* of the connections is a ratio for the requests after the first 200. Its numerator is the time in which
the service works on these requests, measured by the service. Its denominator is 16 (connections) times the time from
the 201st request to the end of the last request."""


@contextmanager
def latency_server() -> Iterator[str]:
    """Start the service, and return its address."""
    command = [sys.executable, "-m", "benchmarks.latency_server", str(LATENCY)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def busy(spans: list[tuple[float, float]]) -> float:
    """Return the share of the connections' time in which requests were worked on, after the first ones."""
    later = sorted(spans)[FIRST:]
    worked = sum(end - start for start, end in later)
    return worked / (CONNECTIONS * (max(end for _, end in later) - later[0][0]))


def _question(table: bool) -> dict[str, Any]:
    return {
        "model": {"labels": ["no", "yes"], "decision": "label"},
        "feature": [
            {"name": "g", "kind": "category", "values": ["a", "b"]},
            {"name": "x", "kind": "real", "low": 0, "high": 1},
        ],
        "property": {"protected": ["g"], "kind": "difference", "threshold": 0.01},
        "population": {"kind": "table", "as": "population"} if table else {"kind": "uniform"},
    }


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # the service is its own
    """Measure the time in which the service is busy, for rows and for drawn inputs."""
    from fairchain import Service, parse_spec, verify

    count = 2400
    random = np.random.default_rng(0)
    data = {"g": random.choice(["a", "b"], count).tolist(), "x": random.random(count).tolist()}
    rows: list[list[Cell]] = []
    checks = []
    for name, table in (("rows of a table", True), ("drawn inputs", False)):
        with latency_server() as address:
            service = Service(f"{address}/v2/models/m", connections=CONNECTIONS, rows_per_request=1)
            start = time.perf_counter()
            budget = {} if table else {"max_evaluations": count}
            verify(service, parse_spec(_question(table)), data=data if table else None, **budget)  # type: ignore[arg-type]
            took = time.perf_counter() - start
            spans = json.loads(urllib.request.urlopen(f"{address}/spans").read())
        share = busy([(first, last) for first, last in spans])
        rows.append([name, len(spans), took, share])
        asked = f"at least {LEAST:g}"
        what = f"{name}: utilisation of the connections"
        checks.append(Check(what, share >= LEAST, f"{share:.3f}", asked, enforced=sizes.paper))
    columns = [Column("question"), Column("requests", ",d"), Column("seconds", ".1f"), Column("utilisation", ".3f")]
    title = f"A service of {1000 * LATENCY:.0f} ms with {CONNECTIONS} connections"
    settings: dict[str, str | int | float | None] = {"latency": LATENCY, "connections": CONNECTIONS}
    return PartResult(text=TEXT, tables=[Table(title, columns, rows)], settings=settings, checks=checks)
