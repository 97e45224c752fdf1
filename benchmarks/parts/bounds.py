"""Certain bounds over time: random networks of few real inputs, the six-layer examples, and bounds with sampling."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Event, Semaphore
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from benchmarks.results import Cell, Check, Column, PartResult, Table
from benchmarks.sizes import Sizes
from fairchain import example, load_spec, parse_spec
from fairchain.executors import Workers
from fairchain.models.onnx.session import OnnxModel
from fairchain.prepare import Case, case_of, prepare
from fairchain.spec import revise
from fairchain.verification.answers import Answer, AnswerEngine
from fairchain.verification.bounding import BoundingEngine, BoundingRun
from fairchain.verification.sampling import SamplingEngine
from fairchain.verification.verdict import BoundsRecord

# ReLU layers of the random networks, and how many real inputs they have beside the protected one.
LAYERS = ((12, 12), (24, 24), (16, 16, 16))
INPUTS = (2, 3, 4, 6)
WIDTHS = (0.1, 0.01, 0.001)
# Networks of one group of inputs only say little: both labels must be given to at least this share of some group.
LEAST_SHARE = 0.02
CASES = (("census", "sex"), ("census", "race"), ("credit", "sex"), ("credit", "age"), ("bank", "age"))
# One that is asked about individuals, whose share of changes is bet on in another way.
INDIVIDUALS = ("census", "sex")
# Seconds of processor time after which both ways of working are stopped.
COSTS = (0.3, 1.0, 3.0)
# Seconds of processor time that one of them works before the other has its turn.
SLICE = 0.02
# The largest median ratio of a case: halving may cost 0.5% of the width, the rest is noise of the processor's time.
NOISE = 1.05
TEXT = """**Networks of few real inputs.** Weights are random (normal, scaled by the inputs of a unit), inputs are
uniform in [-1, 1], and one more input is the protected feature; networks that give nearly every input the same label
are drawn again. The width is that of the certain interval of the gap; no input is sampled. Boxes are counted once for
each group. Seconds are those of one core, so that other work on the machine does not count.

**The examples.** The same for the six-layer networks that ship with fairchain (12 to 19 features beside the protected
one). Their certain intervals stay wide: this is where branch and bound does not end.

**Bounds and sampling together.** The threshold is the gap that a long run finds, so that nothing ends early. Both
ways have the same seed and are stopped after the same seconds of processor time. They work in turns of 20 ms each, so
that other work on the machine slows both down alike. Until boxes pay, bounds with sampling draws the rounds of
sampling alone, fewer by what halving took: at most 1% of the cost in counted evaluations, so that the interval is
wider by at most half a percent wherever the run is stopped. "Never wider" means this, and a median ratio over seeds
of at most 1.05 in each row: a few hundredths are what two runs of the same work differ by in processor time. A ratio
far below 1 is what boxes gained. The settled share and the boxes are those of the last seed."""


class Turn(Event):
    """An event that is set once its thread has worked for some seconds of processor time, in turns with another.

    Of two runs on two threads one works while the other waits, `SLICE` by `SLICE`: whatever else the machine does slows
    both down alike. `partner` is set before either begins.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds, self._spent, self._began = seconds, 0.0, 0.0
        self._mine = Semaphore(0)
        self.partner: Turn | None = None

    def begin(self) -> None:
        """Let this thread work first."""
        self._mine.release()

    def is_set(self) -> bool:
        """Return whether the seconds are over; the other thread may have its turn meanwhile."""
        now = time.process_time() - self._began
        if now >= SLICE and self.partner is not None:
            self._spent += now
            self.partner.begin()
            self._wait()
            now = 0.0
        return self._spent + now >= self._seconds

    def answer(self, engine: AnswerEngine, case: Case) -> Answer:
        """Answer a case when it is this thread's turn, then leave all turns to the other."""
        self._wait()
        try:
            return engine.answer(case, workers=Workers(), cancel=self, progress=None)
        finally:
            if self.partner is not None:
                self.partner.partner = None
                self.partner.begin()

    def _wait(self) -> None:
        self._mine.acquire()
        self._began = time.process_time()


def in_turns(seconds: float, case: Case, engines: Sequence[AnswerEngine]) -> list[Answer]:
    """Return the answers of two engines that have the same seconds of processor time each."""
    turns = [Turn(seconds) for _ in engines]
    turns[0].partner, turns[1].partner = reversed(turns)
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(turn.answer, engine, case) for turn, engine in zip(turns, engines, strict=True)]
        turns[0].begin()
        return [answer.result() for answer in answers]


@dataclass(frozen=True)
class Point:
    """A certain interval on the way: its width, the boxes and the seconds that it took."""

    width: float
    boxes: int
    seconds: float


def random_network(rng: np.random.Generator, widths: list[int]) -> bytes:
    """Return a network with ReLUs between its layers."""
    nodes, weights, flow = [], [], "x"
    for number, (before, after) in enumerate(pairwise(widths)):
        matrix = rng.standard_normal((before, after)) * np.sqrt((8 if number == 0 else 2) / before)
        last = number == len(widths) - 2
        for name, array in ((f"w{number}", matrix), (f"b{number}", rng.standard_normal(after) / 2)):
            weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        made = "y" if last else f"s{number}"
        nodes.append(helper.make_node("Gemm", [flow, f"w{number}", f"b{number}"], [made]))
        if not last:
            flow = f"h{number}"
            nodes.append(helper.make_node("Relu", [made], [flow]))
    given, made_value = (
        helper.make_tensor_value_info(name, 1, ["N", width]) for name, width in (("x", widths[0]), ("y", widths[-1]))
    )
    graph = helper.make_graph(nodes, "random", [given], [made_value], weights)
    made_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    content: bytes = made_model.SerializeToString()
    return content


def random_case(inputs: int, layers: tuple[int, ...], seed: int, **guarantee: Any) -> Case:
    """Return a question about a random network that does not give nearly all inputs the same label."""
    features: list[dict[str, Any]] = [
        {"name": f"x{place}", "kind": "real", "low": -1.0, "high": 1.0} for place in range(inputs)
    ]
    features.append({"name": "sex", "kind": "category", "values": ["F", "M"]})
    asked = {"kind": "difference", "protected": ["sex"], "threshold": 0.1}
    model = {"path": "random.onnx", "labels": ["no", "yes"]}
    spec = parse_spec({"model": model, "feature": features, "property": asked, "guarantee": guarantee})
    rng = np.random.default_rng([inputs, *layers, seed])
    while True:
        network = OnnxModel.from_bytes(random_network(rng, [inputs + 1, *layers, 2]), "random.onnx", spec)
        values = rng.uniform(-1, 1, (4000, inputs + 1)).astype(np.float32)
        values[:, -1] = rng.integers(0, 2, len(values))
        if LEAST_SHARE < network.predict(values).mean() < 1 - LEAST_SHARE:
            return case_of(spec, network, None)


def narrow(case: Case, seconds: float, widths: tuple[float, ...] = ()) -> list[Point]:
    """Narrow the certain interval of the gap until the last width; return a point for each width, then the last."""
    start = time.process_time()
    points: list[Point] = []
    run = BoundingRun(case, sampling=False)
    left = list(widths)
    while True:
        low, high = run.rule.certain_gap()
        now = Point(high - low, run.partition.boxes, time.process_time() - start)
        while left and now.width <= left[0]:
            points.append(now)
            left.pop(0)
        if (widths and not left) or now.seconds >= seconds or not run.halve():
            return [*points, now]


def _random_table(sizes: Sizes) -> tuple[Table, list[Check]]:
    rows: list[list[Cell]] = []
    slowest = 0.0
    for inputs in INPUTS:
        for layers in LAYERS:
            shown = " + ".join(map(str, layers))
            found = [
                # Nothing is decided early: an accuracy is asked for that is never reached.
                narrow(random_case(inputs, layers, seed, epsilon=1e-9), sizes.bound_seconds[-1] / 2, WIDTHS)
                for seed in range(sizes.bounded)
            ]
            cells: list[Cell] = []
            for place, _ in enumerate(WIDTHS):
                reached = [points[place] for points in found if len(points) > place + 1]
                median = float(np.median([point.seconds for point in reached])) if reached else None
                cells.append("-" if median is None else f"{median:.2f} s ({len(reached)} of {len(found)})")
            final = float(np.median([points[-1].width for points in found]))
            rows.append([inputs, shown, *cells, final])
            if inputs == 2:
                slowest = max(slowest, *(p[2].seconds if len(p) > 3 else np.inf for p in found))
    columns = [Column("real inputs", "d"), Column("ReLUs"), *(Column(f"width {width:g}") for width in WIDTHS)]
    columns.append(Column("last width, median", ".2g"))
    note = (
        f"Median seconds until the interval is that narrow, and how many of the networks reached it within "
        f"{sizes.bound_seconds[-1] / 2:g} s."
    )
    check = Check(
        "two real inputs: a width of 0.001, seconds of the slowest network",
        slowest <= 10,
        f"{slowest:.2f}",
        "at most 10",
        enforced=sizes.paper,
    )
    return Table("Certain intervals of random networks", columns, rows, note), [check]


def _example_case(network: str, protected: str, **changes: Any) -> Case:
    return prepare(None, revise(load_spec(example(network)), property__protected=[protected], **changes))


def _example_table(sizes: Sizes) -> Table:
    rows: list[list[Cell]] = []
    for network, protected in CASES:
        case = _example_case(network, protected, guarantee__epsilon=1e-9)
        start = time.process_time()
        cells: list[Cell] = []
        run = BoundingRun(case, sampling=False)
        for seconds in sizes.bound_seconds:
            while time.process_time() - start < seconds and run.halve():
                pass
            low, high = run.rule.certain_gap()
            cells.append(high - low)
        rows.append([f"{network} {protected}", *cells, 1 - run.partition.open_mass, run.partition.boxes])
    columns = [Column("case"), *(Column(f"width after {each:g} s", ".3f") for each in sizes.bound_seconds)]
    columns += [Column("settled", ".1%"), Column("boxes", ",d")]
    return Table("Certain intervals of the six-layer examples", columns, rows)


def _together_table(sizes: Sizes) -> tuple[Table, list[Check]]:
    rows: list[list[Cell]] = []
    cases = [(f"{network} {protected}", _example_case(network, protected)) for network, protected in CASES]
    cases.append(
        (f"{INDIVIDUALS[0]} {INDIVIDUALS[1]}, individuals", _example_case(*INDIVIDUALS, property__kind="individual"))
    )
    cases += [(f"random, {inputs} real inputs", random_case(inputs, LAYERS[1], 0)) for inputs in INPUTS]
    worst, where = 0.0, ""
    for name, case in cases:
        near = _with(_at_its_gap(case), guarantee__budget__rounds=10**9, guarantee__budget__seconds=600.0)
        for seconds in COSTS[: 3 if sizes.paper else 1]:
            widths: dict[bool, list[float]] = {False: [], True: []}
            for seed in range(1, 2 + sizes.bounded):
                seeded = _with(near, guarantee__seed=seed)
                # Each way is first every other time.
                order = (SamplingEngine(), BoundingEngine())[:: 1 if seed % 2 else -1]
                for answer in in_turns(seconds, seeded, order):
                    bounded = isinstance(answer.record, BoundsRecord)
                    widths[bounded].append(max(answer.gap.high - answer.gap.low, 1e-12))
                    if isinstance(answer.record, BoundsRecord):
                        record = answer.record
            ratios = np.array(widths[True]) / np.array(widths[False])
            median, mean = float(np.median(ratios)), float(np.exp(np.log(ratios).mean()))
            if median > worst:
                worst, where = median, f"{name}, {seconds:g} s"
            plain, together = (float(np.median(widths[bounded])) for bounded in (False, True))
            span: list[Cell] = [float(ratios.min()), float(ratios.max())]
            rows.append([name, seconds, plain, together, median, mean, *span, 1 - record.open_mass, record.boxes])
    columns = [Column("case"), Column("seconds", "g"), Column("sampling", ".4f"), Column("with bounds", ".4f")]
    columns += [Column(f"ratio, {each}", ".2f") for each in ("median", "geometric mean", "smallest", "largest")]
    columns += [Column("settled", ".1%"), Column("boxes", ",d")]
    name = "width with bounds / width of sampling at equal processor time, largest median of a case"
    found = f"{worst:.3f} ({where})"
    checks = [Check(name, worst <= NOISE, found, f"at most {NOISE:g}", enforced=sizes.paper)]
    return Table("Width of the gap's interval at equal processor time, delta 1e-6", columns, rows), checks


def _at_its_gap(case: Case) -> Case:
    """Return the case with its estimated gap as the threshold: nothing is decided early there."""
    first = _with(case, guarantee__budget__rounds=200_000, property__threshold=0.9, guarantee__epsilon=0.004)
    found = SamplingEngine().answer(first, workers=Workers(), cancel=Event(), progress=None)
    return _with(case, property__threshold=round(max(found.gap.estimate, 0.002), 4))


def _with(case: Case, **changes: Any) -> Case:
    return case_of(revise(case.spec, **changes), case.model, case.rows)


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # random networks, and those that ship
    """Measure certain widths over time, and the widths of bounds with sampling."""
    few, checks = _random_table(sizes)
    together, more = _together_table(sizes)
    return PartResult(
        text=TEXT,
        tables=[few, _example_table(sizes), together],
        checks=[*checks, *more],
        settings={"networks of each size": sizes.bounded, "threads": 1},
    )
