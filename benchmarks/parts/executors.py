"""The same run on threads, processes, Dask and Ray, with two workers and with one: wall time, and processor time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.parts.scaling import UNREACHABLE, Workshop
from benchmarks.parts.speed import long_spec
from benchmarks.results import Cell, Check, Column, PartResult, Table
from benchmarks.sizes import Sizes
from fairchain import Verdict, parse_spec, verify
from fairchain.certificates import make_certificate

WORKERS = 2
ROOT = str(Path(__file__).resolve().parents[2])
# A cluster against threads; two threads against one, from so many evaluations on; two processes against one.
CLUSTER_LIMIT, THREADS_GAIN, PROCESSES_GAIN = 1.25, 1.8, 1.7
EVALUATIONS = 10_000_000
# The network whose two threads are judged; those of other networks are reported.
JUDGED = ("the census network, groups by race",)
WIDTHS = (10, 64, 64, 2)
TEXT = f"""This section compares executors: threads, processes, and the clusters Dask and Ray. An executor distributes
a run over workers. Every executor has {WORKERS} workers of one thread on this machine. For comparison, some runs have
one worker. Three models are evaluated:

- a dense network ({"-".join(map(str, WIDTHS))}), which the tables also call the network of real features
- the census network
- a scikit-learn pipeline (a scaler and a forest of 100 trees), which is called through Python

A run asks for an epsilon that cannot be reached, and therefore ends after a fixed number of rounds. The runs take
turns. Clusters are started and have computed something before the clock starts. Processes of a pool start within the
measured time and import scikit-learn, which takes one or two seconds. Runs are so long that this start is a small part
of the measured time.

*Wall* and *processor* are the shortest times over all turns, because other programs can only make a run longer.
*Processor* is the time of the process that starts the run and of all its descendants: workers, schedulers and other
processes of a cluster. Ratios refer to the first row of a table. The certificates of all rows must be equal. The
pipeline has no certificate, so the gaps and their bounds must be equal instead. *Cut* means that the budget of seconds
ended a run, which then has other counts. The checks are about wall time, which other programs disturb more than
processor time.

All turns of two threads run in one process. The gain differs between processes: in fourteen others, it was 1.58 to
1.97."""


@dataclass
class Side:
    """One way to run the work, and what its turns took."""

    name: str
    run: Callable[[], Verdict]
    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    certificates: set[str] = field(default_factory=set)
    cut: bool = False

    def turn(self) -> None:
        """Run once."""
        start, used = time.perf_counter(), processor_seconds()
        verdict = self.run()
        self.wall.append(time.perf_counter() - start)
        self.processor.append(processor_seconds() - used)
        self.cut |= verdict.stopped == "seconds"
        self.certificates.add(str(make_certificate(verdict, timed=False)) if verdict.model_sha256 else str(verdict.gap))


def processor_seconds() -> float:
    """Return the processor time of this process and all its descendants, ended ones included."""
    psutil = import_module("psutil")
    own = psutil.Process()
    total = sum(os.times()[:4])
    for each in own.children(recursive=True):
        try:
            total += sum(each.cpu_times()[:4])
        except psutil.NoSuchProcess:
            # Its parent has waited for it meanwhile, and is counted with it.
            continue
    return float(total)


@contextmanager
def dask() -> Iterator[Executor]:
    """Open a Dask cluster of this machine."""
    distributed = import_module("distributed")
    with (
        distributed.LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client.get_executor(pure=False)


@contextmanager
def ray() -> Iterator[Executor]:
    """Open a Ray cluster of this machine."""
    package = import_module("ray")
    from fairchain.executors.connecting import RayExecutor

    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    package.init(num_cpus=WORKERS, object_store_memory=80 * 2**20, **options)
    try:
        yield RayExecutor()
    finally:
        package.shutdown()


CLUSTERS = {"distributed": ("Dask", dask), "ray": ("Ray", ray)}


def forest() -> Any:
    """Return a fitted pipeline."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    random = np.random.default_rng(0)
    values = random.uniform(-1, 1, (2000, 10))
    values[:, 0] = random.integers(0, 2, 2000)
    labels = np.where(values.sum(axis=1) + random.normal(0, 0.5, 2000) > 0, "yes", "no")
    return make_pipeline(StandardScaler(), RandomForestClassifier(100, random_state=0)).fit(values, labels)


def question(rounds: int, path: str | None = None) -> Any:
    """Return a question about two groups that takes exactly so many rounds."""
    features = [{"name": f"x{place}", "kind": "real", "low": -1, "high": 1} for place in range(9)]
    return parse_spec(
        {
            "model": {"labels": ["no", "yes"], **({} if path is None else {"path": path})},
            "feature": [{"name": "group", "kind": "integer", "low": 0, "high": 1}, *features],
            "property": {"kind": "difference", "protected": ["group"], "threshold": 0.1},
            "guarantee": {
                "engine": "sampling",
                "epsilon": UNREACHABLE,
                "budget": {"rounds": float(rounds), "seconds": 3600.0},
            },
        }
    )


def rounds_in(seconds: float, ask: Callable[[int], Verdict], first: int) -> int:
    """Return how many rounds one worker evaluates in some seconds of processor time.

    By what a run of a second or so takes beyond a short one: loading and checking the model is not part of it.
    """

    def used(rounds: int) -> float:
        start = processor_seconds()
        ask(rounds)
        return processor_seconds() - start

    ask(first)
    short, rounds = used(first), 4 * first
    while (longer := used(rounds) - short) < min(1.0, seconds / 4):
        rounds *= 4
    return max(first, int((rounds - first) * seconds / longer))


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # models are made here
    """Measure the three comparisons."""
    tables, checks = [], []
    with TemporaryDirectory() as folder, ExitStack() as opened:
        path = Workshop(Path(folder), sizes).network(WIDTHS)

        def network(rounds: int, **options: Any) -> Verdict:
            return verify(None, question(rounds, path), seed=0, **options)

        opened.enter_context(python_path())
        clusters = {
            title: opened.enter_context(start()) for name, (title, start) in CLUSTERS.items() if find_spec(name)
        }
        rounds = rounds_in(sizes.worker_seconds, partial(network, workers=1), 100_000)
        sides = [Side("threads", partial(network, rounds, workers=WORKERS))]
        for title, executor in clusters.items():
            network(100_000, executor=executor)
            sides.append(Side(title, partial(network, rounds, executor=executor)))
        tables.append(_in_turns(f"{rounds:,} rounds of the network, two workers", sides, sizes.tries))
        checks += [_most(side, sides[0], sizes) for side in sides[1:]]
    evaluations = EVALUATIONS if sizes.paper else EVALUATIONS // 50
    behind = []
    with TemporaryDirectory() as folder:
        path = Workshop(Path(folder), sizes).network(WIDTHS)
        spec = long_spec("race", evaluations)
        asked: dict[str, Callable[..., Verdict]] = {
            "the census network, groups by race": partial(verify, None, spec, seed=0),
            "the network of real features": partial(network, evaluations // 2),
        }
        for title, ask in asked.items():
            sides = [Side(name, partial(ask, workers=n)) for n, name in ((1, "1 thread"), (WORKERS, "2 threads"))]
            tables.append(_in_turns(f"{evaluations:,} evaluations of {title}", sides, 2 * sizes.few_turns))
            gain = min(sides[0].wall) / min(sides[1].wall)
            if title in JUDGED:
                checks.append(_least(sides[1], sides[0], THREADS_GAIN, sizes))
            elif gain < THREADS_GAIN:
                behind.append(f"two threads evaluate {title} only {gain:.2f} times as fast as one thread")
    pipeline = forest()

    def called(rounds: int, **options: Any) -> Verdict:
        return verify(pipeline, question(rounds), seed=0, **options)

    rounds = rounds_in(sizes.worker_seconds, partial(called, workers=1), 1000)
    sides = [Side("1 process", partial(called, rounds, workers=1))]
    sides.append(Side("2 processes", partial(called, rounds, workers=WORKERS, executor="processes")))
    tables.append(_in_turns(f"{2 * rounds:,} evaluations of the pipeline", sides, sizes.few_turns))
    checks.append(_least(sides[1], sides[0], PROCESSES_GAIN, sizes))
    settings: dict[str, Cell] = {"turns": sizes.tries, "turns of one process": sizes.few_turns, "seed": 0}
    return PartResult(text=TEXT, tables=tables, checks=checks, settings=settings, behind=behind)


@contextmanager
def python_path() -> Iterator[None]:
    """Let workers import what this process can."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (ROOT, before)))
    yield
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


def _in_turns(title: str, sides: list[Side], turns: int) -> Table:
    for _ in range(turns):
        for side in sides:
            side.turn()
    columns = [Column("workers"), Column("wall, s", ".2f"), Column("processor, s", ".2f")]
    columns += [Column("wall, ratio", ".2f"), Column("processor, ratio", ".2f"), Column("certificate")]
    first, rows = sides[0], list[list[Cell]]()
    for side in sides:
        wall, processor = min(side.wall), min(side.processor)
        ratios = [wall / min(first.wall), processor / min(first.processor)]
        rows.append([side.name, wall, processor, *ratios, compared(side, first)])
    return Table(title, columns, rows)


def compared(side: Side, other: Side) -> str:
    """Return whether all certificates of two sides are equal, in a word; a run that the clock cut has others."""
    if side.cut or other.cut:
        return "cut"
    return "equal" if len(side.certificates | other.certificates) == 1 else "DIFFERENT"


def _most(side: Side, other: Side, sizes: Sizes) -> Check:
    wall, processor = min(side.wall) / min(other.wall), min(side.processor) / min(other.processor)
    same = compared(side, other)
    holds = wall <= CLUSTER_LIMIT and same == "equal"
    found = f"wall {wall:.2f}, certificates {same} (processor {processor:.2f})"
    limit = f"wall at most {CLUSTER_LIMIT:g}, and certificates equal"
    return Check(f"time of {side.name} / time of threads", holds, found, limit, enforced=sizes.paper)


def _least(side: Side, other: Side, limit: float, sizes: Sizes) -> Check:
    gain = min(other.wall) / min(side.wall)
    most = WORKERS * min(other.processor) / min(side.processor)
    same = compared(side, other)
    found = f"{gain:.2f} times as fast ({most:.2f} by processor time), certificates {same}"
    holds = gain >= limit and same == "equal"
    name = f"speed of {side.name} / speed of {other.name}"
    return Check(name, holds, found, f"at least {limit:g} times", enforced=sizes.paper)
