"""A run of 10^12 evaluations on 1,000 simulated workers that fail, and the tallies that a coordinator can add.

    python -m benchmarks.simulated_cluster [--seed N]

The sum of tallies, and the replies that carry them, are measured on this machine with the code of a run. The cluster is
simulated with a fixed seed: workers of different speeds, which fail at random and come back, groups of chunks of about
a quarter of a second (or longer), resubmitted when they are lost, and a coordinator that takes replies one by one.
Nothing is assumed about statistics: the counts do not depend on the workers.
"""

from __future__ import annotations

import argparse
import heapq
import pickle
import time
from dataclasses import dataclass

import numpy as np

from fairchain.executors.tasks import Reply, own_facts

EVALUATIONS = 10**12
WORKERS = 1000
# Evaluations of a small network (7 kFLOP) a second and core, as measured on one core of a laptop.
SPEED = 7e6
CHUNK = 8192
GROUPS, OUTCOMES = 4, 1
# The way to a worker and back.
LATENCY = 0.002
# What a scheduler's client does for a reply before our code sees it.
PER_REPLY = 1e-4


def reply_seconds(chunks: int, repeats: int = 300) -> float:
    """Return what the coordinator spends on a reply with the counts of so many chunks: reading it, and adding them."""
    tables = [(np.full((OUTCOMES, GROUPS, GROUPS), 7, np.uint16), {0, 1}) for _ in range(chunks)]
    content = pickle.dumps(Reply(own_facts(), "host:1", tables, 0.1), protocol=5)
    total, parts = np.zeros((OUTCOMES, GROUPS, GROUPS), np.int64), []
    start = time.process_time()
    for _ in range(repeats):
        for counts, _labels in pickle.loads(content).results:
            total += counts
            parts.append(counts)
        parts.clear()
    return (time.process_time() - start) / repeats


@dataclass
class Outcome:
    """What came of a simulated run: its seconds, those of perfect workers, lost groups, and the busy coordinator."""

    seconds: float
    ideal: float
    lost: int
    busy: float


def simulated(group_seconds: float, failures: float, per_chunk: float, seed: int) -> Outcome:
    """Simulate a run; `failures` are the mean number of failures of one worker in an hour, each for two minutes."""
    random = np.random.default_rng(seed)
    speeds = SPEED * random.uniform(0.6, 1.1, WORKERS)
    chunk_evaluations = CHUNK * GROUPS
    left = EVALUATIONS // chunk_evaluations
    # When, which worker, and the chunks that it returns; minus the chunks that it lost; 0 if it comes back.
    events: list[tuple[float, int, int]] = []
    idle: list[int] = []
    free_at, lost, busy, end = 0.0, 0, 0.0, 0.0

    def begin(worker: int, at: float) -> None:
        nonlocal left
        if not left:
            idle.append(worker)
            return
        share = max(1, left // (2 * WORKERS))
        chunks = int(min(left, max(1, group_seconds * speeds[worker] / chunk_evaluations), share))
        left -= chunks
        took = chunks * chunk_evaluations / speeds[worker]
        fails = failures and random.exponential(3600 / failures) < took
        heapq.heappush(events, (at + took + LATENCY, worker, -chunks if fails else chunks))

    for worker in range(WORKERS):
        begin(worker, 0.0)
    while events:
        now, worker, chunks = heapq.heappop(events)
        if chunks < 0:
            # The group goes to another worker, and this one is away for two minutes.
            lost, left = lost + 1, left - chunks
            heapq.heappush(events, (now + 120.0, worker, 0))
            if idle:
                begin(idle.pop(), now)
            continue
        if chunks:
            # Replies are taken one by one.
            free_at = max(free_at, now) + per_chunk * chunks + PER_REPLY
            busy += per_chunk * chunks + PER_REPLY
            end = free_at
        begin(worker, max(now, free_at))
    return Outcome(end, EVALUATIONS / float(speeds.sum()), lost, busy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    one, many = reply_seconds(1), reply_seconds(64)
    per_chunk = many / 64
    print(f"a reply with 1 chunk: {one * 1e6:.0f} us; with 64: {many * 1e6:.0f} us, {1 / per_chunk:,.0f} tallies/s")
    evaluations = CHUNK * GROUPS / per_chunk
    print(f"the coordinator saturates at {evaluations:.1e} evaluations/s, {evaluations / SPEED:,.0f} such cores")
    print(
        "| group s | failures of a worker in an hour | seconds | of perfect workers | lost groups | coordinator busy |"
    )
    print("|---|---|---|---|---|---|")
    for group_seconds in (0.25, 2.0):
        for failures in (0.0, 1.0, 20.0):
            found = simulated(group_seconds, failures, per_chunk, seed)
            print(
                f"| {group_seconds:g} | {failures:g} | {found.seconds:,.0f} | {found.ideal:,.0f} | {found.lost:,} | "
                f"{found.busy / found.seconds:.1%} |"
            )


if __name__ == "__main__":
    main()
