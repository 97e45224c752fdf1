"""A run of 10^12 evaluations on 1,000 simulated workers that fail, and what a coordinator and a scheduler can do."""

from __future__ import annotations

import heapq
import pickle
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.parts.executors import CLUSTERS, python_path
from benchmarks.results import Cell, Column, Counts, PartResult, Table, count_name
from benchmarks.sizes import Sizes
from fairchain import example
from fairchain.executors import Workers
from fairchain.executors.sending import group_size
from fairchain.executors.tasks import Job, Reply, Sealed, own_facts, run_units
from fairchain.prepare import prepare
from fairchain.statistics.rules import next_batch
from fairchain.verification.sampler import Sampler

EVALUATIONS, WORKERS = 10**12, 1000
CHUNK, GROUPS = 8192, 4
# Evaluations of a small network (7 kFLOP) a second on a core of this machine's kind.
SPEED = 7e6
CHUNK_SECONDS = CHUNK * GROUPS / SPEED
# The way to a worker and back, and how long a worker that failed is away.
LATENCY, AWAY = 0.002, 120.0
FAILURES = (0.0, 1.0, 20.0)
# Microseconds of a run of size paper, within the rounding of its tables, which they repeat: for a tally in a reply, and
# for a reply without and with a scheduler. A simulation from these costs has the same counts everywhere;
# docs/scaling.md has them.
KEPT_TALLY, KEPT_REPLIES = 7.47585, {"none": 25.18, "Dask": 1394.79, "Ray": 544.77}
TEXT = f"""This section estimates what 10<sup>12</sup> evaluations would cost on {WORKERS:,} cores. No run used so many
cores. The *coordinator* is the process that starts a run and adds up the counts.

The first table is *measured*. It shows the processor time of the coordinator for a worker's reply, and its note states
the time for each tally in the reply. A tally contains the counts of {CHUNK:,} rounds of four groups. The coordinator
runs the code of a real run (`Sampler.run`) with {WORKERS:,} workers that answer immediately. The processor time that
Dask or Ray adds to a reply is measured with requests without work. It is measured in the process that contains Dask's
client and scheduler, or Ray's driver. The coordinator *saturates* if replies arrive faster than it can process them.

The second table is *simulated*, with a fixed seed. Workers make 60% to 110% of {SPEED:,.0f} evaluations a second. They
fail at random and are then away for {AWAY:g} seconds. fairchain determines the batches and divides them into groups of
chunks. Lost groups of chunks are sent again. The coordinator processes the replies one by one. The counts do not depend
on the workers. *Perfect workers* are the same workers if they never fail and are never idle."""


class AtOnce(Executor):
    """Answers every group at once, with the same counts for each chunk: what is left is the coordinator's work."""

    def __init__(self, counts: Any, chunk_seconds: float) -> None:
        self._counts, self._seconds, self.replies = counts, chunk_seconds, 0
        # The replies with so many chunks, as their bytes come from another process.
        self._bytes: dict[int, bytes] = {}

    def submit(self, _function: Callable[..., Any], /, *arguments: Any, **_named: Any) -> Future[Any]:
        """Return the counts of the units."""
        count = len(arguments[2].value)
        if count not in self._bytes:
            tallies = [(self._counts.copy(), {0, 1}) for _ in range(count)]
            reply = Reply(own_facts(), "host:1", tallies, self._seconds * count)
            self._bytes[count] = pickle.dumps(Sealed(reply), protocol=5)
        # The request is pickled by whoever sends it.
        pickle.dumps(arguments, protocol=5)
        self.replies += 1
        future: Future[Any] = Future()
        future.set_result(pickle.loads(self._bytes[count]))
        return future


def coordinator_seconds(chunks: int) -> tuple[float, float]:
    """Return the processor time of the coordinator for a reply, and for each tally in it, from two runs."""
    case = prepare(None, example("census"))
    assert case.model is not None
    counts = np.full((len(case.comparison.rows), GROUPS, GROUPS), 7, np.uint16)
    found = []
    # Groups of one chunk, and of as many as take long enough.
    for seconds in (1e3, CHUNK_SECONDS):
        pool = AtOnce(counts, seconds)
        sampler = Sampler(case.model, case.population, 0, case.comparison, workers=Workers(pool, WORKERS))
        # The first run pickles the work, and makes the replies.
        sampler.run(0, CHUNK * chunks, range(len(case.groups)), lambda _: False)
        start, before = time.process_time(), pool.replies
        sampler.run(0, CHUNK * chunks, range(len(case.groups)), lambda _: False)
        found.append((pool.replies - before, time.process_time() - start))
    (many, slow), (few, fast) = found
    reply = max(0.0, (slow - fast) / (many - few))
    return reply, max(0.0, fast - few * reply) / chunks


def nothing(unit: int) -> int:
    """Return the unit: work that takes no time."""
    return unit


def scheduler_seconds(executor: Executor, groups: int) -> float:
    """Return the processor time of this process, which holds the scheduler or driver, for a group of no work."""
    job = Job.of(nothing)

    def round_trips(count: int) -> None:
        waiting = [executor.submit(run_units, job.sha256, job, Sealed([place])) for place in range(count)]
        for future in waiting:
            future.result()

    round_trips(8)
    start = time.process_time()
    round_trips(groups)
    return (time.process_time() - start) / groups


@dataclass
class Outcome:
    """What came of a simulated run: its seconds, those of perfect workers, lost groups, and the busy coordinator."""

    seconds: float
    ideal: float
    lost: int
    busy: float


def simulated(failures: float, per_reply: float, per_tally: float, seed: int) -> Outcome:
    """Simulate a run; `failures` are the mean number of failures of one worker in an hour."""
    random = np.random.default_rng(seed)
    speeds = random.uniform(0.6, 1.1, WORKERS)
    away_until = np.zeros(WORKERS)
    now = busy = 0.0
    lost = done = 0
    total = EVALUATIONS // GROUPS
    while done < total:
        rounds = min(next_batch(done, GROUPS, 1), total - done)
        now, spent, missing = _batch(
            -(-rounds // CHUNK), now, speeds, away_until, random, failures, per_reply, per_tally
        )
        busy, lost, done = busy + spent, lost + missing, done + rounds
    return Outcome(now, EVALUATIONS / (SPEED * float(speeds.sum())), lost, busy)


def _batch(
    chunks: int,
    start: float,
    speeds: Any,
    away_until: Any,
    random: np.random.Generator,
    failures: float,
    per_reply: float,
    per_tally: float,
) -> tuple[float, float, int]:
    """Simulate one batch, which all workers share; return when it ends, the coordinator's seconds, and lost groups."""
    left, free_at, busy, lost = chunks, start, 0.0, 0
    # When a worker is free (0 chunks), returns chunks, or was lost with them (less than 0).
    events = [(max(start, float(away)), worker, 0) for worker, away in enumerate(away_until)]
    heapq.heapify(events)
    back = pending = 0
    idle: list[int] = []
    while back < chunks:
        now, worker, returned = heapq.heappop(events)
        if returned:
            pending -= abs(returned)
        if returned < 0:
            lost, left = lost + 1, left - returned
            away_until[worker] = now + AWAY
            heapq.heappush(events, (now + AWAY, worker, 0))
            if not idle:
                continue
            worker = idle.pop()
        elif returned:
            # Replies are taken one by one.
            spent = per_reply + per_tally * returned
            free_at, busy, back = max(free_at, now) + spent, busy + spent, back + returned
        if not left:
            idle.append(worker)
            continue
        size = int(min(left, max(1, group_size(left, chunks, WORKERS, CHUNK_SECONDS))))
        left, pending = left - size, pending + size
        took = size * CHUNK_SECONDS / speeds[worker]
        fails = bool(failures) and random.exponential(3600 / failures) < took
        heapq.heappush(events, (max(now, free_at) + took + LATENCY, worker, -size if fails else size))
    return free_at, busy, lost


def kept_simulation() -> Counts:
    """Return seconds, those of perfect workers, lost groups and percent that the coordinator is busy, by kept costs.

    And the cores at which the coordinator saturates.
    """
    counts: dict[str, list[int | None]] = {}
    for title, cost in KEPT_REPLIES.items():
        counts[count_name(title, "cores until it saturates")] = [round(_saturated(cost / 1e6, KEPT_TALLY / 1e6))]
        for failures in FAILURES:
            found = simulated(failures, cost / 1e6, KEPT_TALLY / 1e6, seed=0)
            counts[count_name(title, f"{failures:g} failures an hour")] = [
                round(found.seconds),
                round(found.ideal),
                found.lost,
                round(100 * found.busy / found.seconds),
            ]
    return counts


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # nothing is evaluated
    """Measure the coordinator and the schedulers, and simulate the run with each."""
    chunks, groups = (200_000, 1000) if sizes.paper else (20_000, 50)
    per_reply, per_tally = coordinator_seconds(chunks)
    costs = {"none": per_reply}
    with ExitStack() as opened:
        opened.enter_context(python_path())
        for package, (title, start) in CLUSTERS.items():
            if find_spec(package):
                costs[title] = per_reply + scheduler_seconds(opened.enter_context(start()), groups)
    measured: list[list[Cell]] = [
        [title, 1e6 * cost, 1 / (cost + per_tally), _saturated(cost, per_tally)] for title, cost in costs.items()
    ]
    rows: list[list[Cell]] = []
    for title, cost in costs.items():
        for failures in FAILURES:
            found = simulated(failures, cost, per_tally, seed=0)
            rows.append([title, failures, found.seconds, found.ideal, found.lost, 100 * found.busy / found.seconds])
    heads = [
        Column("scheduler"),
        Column("microseconds a reply", ",.0f"),
        Column("replies of one tally a second", ",.0f"),
    ]
    heads += [Column("cores until the coordinator saturates", ",.0f")]
    columns = [Column("scheduler"), Column("failures of a worker an hour", "g"), Column("seconds", ",.0f")]
    columns += [Column("seconds with perfect workers", ",.0f"), Column("lost groups of chunks", ",d")]
    columns.append(Column("time in which the coordinator works, %", ".0f"))
    each = (
        f"Each tally in a reply takes {1e6 * per_tally:.1f} microseconds, so the coordinator can add "
        f"{1 / per_tally:,.0f} tallies a second."
    )
    return PartResult(
        text=TEXT,
        tables=[
            Table("What a coordinator can add (measured)", heads, measured, each),
            Table(f"10^12 evaluations on {WORKERS:,} workers (simulated)", columns, rows),
        ],
        settings={"seed": 0, "tallies": chunks, "requests without work": groups},
        counts=kept_simulation(),
    )


def _saturated(per_reply: float, per_tally: float) -> float:
    """Return at how many cores the coordinator is busy all the time, with groups as the program makes them."""
    cores = 1.0
    for _ in range(200):
        chunks = group_size(1e18, 1e18, int(cores), CHUNK_SECONDS)
        possible = chunks * CHUNK_SECONDS / (per_reply + per_tally * chunks)
        if possible <= cores:
            return possible
        cores = min(possible, 1.1 * cores + 1)
    return cores
