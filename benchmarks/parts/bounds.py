"""Certain bounds over time: random networks of few real inputs, the six-layer examples, and bounds with sampling."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Event, Semaphore
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from benchmarks.results import Cell, Check, Column, PartResult, Table, count_name
from benchmarks.sizes import Sizes
from fairchain import example, load_spec, parse_spec
from fairchain.executors import Workers
from fairchain.models.onnx.session import OnnxModel
from fairchain.prepare import Case, case_of, prepare
from fairchain.spec import revise
from fairchain.statistics import Rule
from fairchain.verification.answers import Answer, AnswerEngine
from fairchain.verification.bounding import BoundingEngine, BoundingRun
from fairchain.verification.sampler import Sampler
from fairchain.verification.sampling import SamplingEngine, rule_for
from fairchain.verification.verdict import BoundsRecord

# ReLU layers of the random networks, and how many real inputs they have beside the protected one.
LAYERS = ((12, 12), (24, 24), (16, 16, 16))
INPUTS = (2, 3, 4, 6)
WIDTHS = (0.1, 0.01, 0.001)
# Networks of one group of inputs only say little: both labels must be given to at least this share of some group.
LEAST_SHARE = 0.02
EXAMPLES = (("census", "sex"), ("credit", "sex"), ("bank", "age"))
CASES = (*EXAMPLES, ("census", "race"), ("credit", "age"))
# One that is asked about individuals, whose share of changes is bet on in another way.
INDIVIDUALS = ("census", "sex")
# Seconds of processor time after which a run is stopped, and how many seeds have so long a run, at most.
COSTS = ((0.3, 11), (1.0, 11), (3.0, 3))
# Seconds of processor time that one of two runs in turns works before the other does.
SLICE = 0.005
# The largest median ratio of a case (a handful more rounds, by their labels, makes an interval up to 0.01% narrower or
# wider), and the largest geometric mean of all runs that were timed in turns: one such run is off by a few hundredths,
# and the mean of a hundred by a few thousandths.
WIDER, TIMED_WIDER = 1.00015, 1.01
TEXT = """This section measures the width of the interval of the gap for ReLU networks after a stated time. Two tables
are about branch and bound alone. Two tables compare sampling alone (*sampling*) with the combination of branch and
bound and sampling (*with bounds*). A *guaranteed* interval comes from branch and bound alone, and contains the gap with
certainty.

**Networks of few real inputs.** No input is sampled. The first table shows how long branch and bound takes to reach a
guaranteed interval of a stated width. Weights are random (normal, scaled by the number of inputs of a unit). *Real
inputs* are features that are not protected. They are uniform in [-1, 1], and one more feature is protected. If a
network gives nearly every input the same label, another network is drawn. [Boxes](../docs/glossary.md#sampling) are
counted once for each group. Seconds are processor seconds of one core.

**The examples.** The second table shows guaranteed intervals for the six-layer networks that ship with fairchain (12 to
19 features besides the protected feature). Their guaranteed intervals stay wide, because branch and bound does not end
for these networks. *Settled at last* is the share of inputs in [settled boxes](../docs/glossary.md#sampling) after the
last box.

**Bounds and sampling together.** The third table compares the two widths at equal processor time. The *ratio* is the
width with bounds divided by the width of sampling. The threshold is the gap that a long run finds, so few runs end
early. A run of the engine `bounds` is stopped after the stated seconds of processor time. With two or three real
inputs, such a run begins with boxes, and sampling alone is timed separately for the same seconds. With more features,
the engine forecasts that boxes would cost more than they save. It then only samples, by the same loop as sampling
alone.

Such a run without boxes also spends time on the forecast, on checks whether boxes should begin, and on a longer set-up.
Sampling alone could use this time for additional rounds. So the width of sampling is measured by continuing the same
run with as many additional rounds as fit into this time, if each round costs as much as before. Both sides then have
the same seed and the same processor time. Other programs change the cost of a round by a few percent from run to run,
but do not affect this comparison. The additional rounds are few, and the ratio shows by how much they make the interval
narrower or wider. A ratio of exactly 1 means that the run had already ended with a verdict, so no rounds were added.
The check requires that in each row the median of the ratios of all seeds is at most 1.00015.

*Time beside plain rounds* is the share of processor time that a run with bounds does not spend on rounds drawn from all
inputs. *Boxes* shows the boxes of the last seed.

**In turns.** The last table is a control. The two engines run alternately, 5 ms at a time, for the same seconds of
processor time. The engine that goes first changes with each seed. This comparison includes all other differences
between the engines, and the noise of processor times. When sampling was compared with itself in this way, the ratios
had a standard deviation of 0.06. The check is therefore about the mean over all runs without boxes, and not about
single runs."""


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


def narrow(case: Case, boxes: int, widths: Sequence[float] = ()) -> list[Point]:
    """Narrow the certain interval of the gap until the last width or so many boxes; return a point for each.

    Nothing ends early if an accuracy is asked for that is never reached.
    """
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
        if (widths and not left) or now.boxes >= boxes or not run.halve():
            return [*points, now]


def _random_table(sizes: Sizes) -> tuple[Table, list[Check], dict[str, list[int | None]]]:
    rows: list[list[Cell]] = []
    slowest, counts = 0.0, {}
    for inputs in INPUTS:
        few = inputs == 2
        most = sizes.bound_boxes[-1 if few else -2]
        for layers in LAYERS:
            shown = " + ".join(map(str, layers))
            found = [
                narrow(random_case(inputs, layers, seed, epsilon=1e-9), most, WIDTHS)
                for seed in range(sizes.bounded if few else -(-sizes.bounded // 2))
            ]
            name = count_name(f"{inputs} real inputs", shown)
            cells: list[Cell] = []
            for place, width in enumerate(WIDTHS):
                reached = [points[place] for points in found if len(points) > place + 1]
                counts[f"{name} / boxes until {width:g}"] = [
                    points[place].boxes if len(points) > place + 1 else None for points in found
                ]
                median = float(np.median([point.seconds for point in reached])) if reached else None
                cells.append("-" if median is None else f"{median:.2f} s ({len(reached)} of {len(found)})")
            if not few:
                counts[f"{name} / millionths after {most} boxes"] = [millionths(points[-1].width) for points in found]
            final = float(np.median([points[-1].width for points in found]))
            pace = float(np.median([points[-1].seconds / points[-1].boxes for points in found]))
            rows.append([inputs, shown, *cells, most, final, 1e6 * pace])
            if few:
                slowest = max(slowest, *(p[2].seconds if len(p) > 3 else np.inf for p in found))
    columns = [Column("real inputs", "d"), Column("ReLUs"), *(Column(f"width {width:g}") for width in WIDTHS)]
    columns += [Column("boxes, at most", ",d"), Column("last width, median", ".2g"), Column("µs a box", ".0f")]
    note = (
        "The columns *width* show the median seconds until the interval reaches this width, and how many networks "
        "reached it."
    )
    check = Check(
        "two real inputs: processor seconds until a width of 0.001, slowest network",
        slowest <= 10,
        f"{slowest:.2f}",
        "at most 10",
        enforced=sizes.paper,
    )
    return Table("Guaranteed intervals of random networks", columns, rows, note), [check], counts


def millionths(share: float) -> int:
    """Return a share as a whole number of millionths."""
    return round(share * 1e6)


def _example_case(network: str, protected: str, **changes: Any) -> Case:
    return prepare(None, revise(load_spec(example(network)), property__protected=[protected], **changes))


def _example_table(sizes: Sizes) -> tuple[Table, dict[str, list[int | None]]]:
    rows: list[list[Cell]] = []
    counts: dict[str, list[int | None]] = {}
    for network, protected in EXAMPLES:
        case = _example_case(network, protected, guarantee__epsilon=1e-9)
        start = time.process_time()
        cells: list[Cell] = []
        run = BoundingRun(case, sampling=False)
        for boxes in sizes.bound_boxes:
            while run.partition.boxes < boxes and run.halve():
                pass
            low, high = run.rule.certain_gap()
            cells += [high - low, time.process_time() - start]
            name = count_name(f"{network} {protected}", f"millionths after {boxes} boxes")
            counts[name] = [millionths(high - low), millionths(1 - run.partition.open_mass)]
        rows.append([f"{network} {protected}", *cells, 1 - run.partition.open_mass])
    columns = [Column("case")]
    for boxes in sizes.bound_boxes:
        columns += [Column(f"width after {boxes:,} boxes", ".4f"), Column(f"seconds for {boxes:,} boxes", ".1f")]
    columns.append(Column("settled at last", ".2%"))
    return Table("Guaranteed intervals of the six-layer examples", columns, rows), counts


class SpentTime(Event):
    """An event that is set once the process has worked for some seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._start, self._seconds = time.process_time(), seconds

    @property
    def spent(self) -> float:
        """The seconds so far."""
        return time.process_time() - self._start

    def is_set(self) -> bool:
        """Return whether the seconds are over."""
        return self.spent >= self._seconds


class WatchedRun(BoundingRun):
    """A run that keeps how long it did something else than sampling alone does."""

    def __init__(self, case: Case, workers: Workers) -> None:
        super().__init__(case, workers)
        self.beside, self._looks = 0.0, 0

    def begins_with_boxes(self) -> bool:
        """Forecast, and add the time that it takes."""
        return self._timed(super().begins_with_boxes)

    def leaves(self, rule: Rule, evaluations: int, seconds: float) -> bool:
        """Look whether boxes are due; a look that says no takes less time than the clock, so these are counted."""
        if evaluations < self._plain_until:
            self._looks += 1
            return super().leaves(rule, evaluations, seconds)
        return self._timed(super().leaves, rule, evaluations, seconds)

    def explore(self, left: int) -> bool:
        """Explore, and add the time that it takes."""
        return self._timed(super().explore, left)

    def sample(self, most: int) -> bool:
        """Sample, and add the time of rounds in open boxes."""
        before = self.beside
        found = self._timed(super().sample, most)
        if self.rule.everywhere:
            self.beside = before
        return found

    def _timed(self, work: Callable[..., bool], *about: Any) -> bool:
        # The first call of a clock that is not in the processor's cache takes microseconds of its own.
        time.process_time()
        start = time.process_time()
        try:
            return work(*about)
        finally:
            self.beside += time.process_time() - start

    def price_of_looks(self) -> float:
        """Return the seconds that all looks took, and that a run takes longer to set up than sampling."""
        look = price(partial(BoundingRun.leaves, self, self._plain, 0, 0.0))
        own = price(partial(BoundingRun, self.case, Workers()))
        return self._looks * look + max(0.0, own - price(partial(_set_up_sampling, self.case)))


def _set_up_sampling(case: Case) -> tuple[Rule, Sampler]:
    rule = rule_for(case.spec, case.comparison)
    assert case.model is not None
    return rule, Sampler(case.model, case.population, case.seed.value, case.comparison, workers=Workers())


def price(work: Callable[[], Any], times: int = 200) -> float:
    """Return the seconds of processor time that some work takes, on average."""
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) / times


@dataclass(frozen=True)
class Pair:
    """The widths of bounds with sampling and of sampling alone, with the share of the time that boxes took."""

    together: float
    plain: float
    beside: float
    boxes: int

    @property
    def ratio(self) -> float:
        """The first width as a multiple of the second."""
        return max(self.together, 1e-12) / max(self.plain, 1e-12)


def at_equal_cost(case: Case, seconds: float) -> Pair:
    """Run bounds with sampling for some seconds of processor time, and sampling for the same time.

    A run that only drew rounds among all inputs says how many more would have fit into the time that it spent
    otherwise: these are drawn too. Otherwise sampling is timed by itself.
    """
    clock = SpentTime(seconds)
    run = WatchedRun(case, Workers())
    run.go(float("inf"), clock, None)
    spent = clock.spent
    _, low, high = run.rule.gap()
    boxes = run.boxes
    if run.rule.everywhere:
        beside = (run.beside + run.price_of_looks()) / spent
        rounds = round(run.rule.rounds / (1 - beside))
        while run.rule.rounds < rounds and run.sample(rounds - run.rule.rounds):
            pass
        _, least, most = run.rule.gap()
    else:
        beside = run.beside / spent
        gap = SamplingEngine().answer(case, workers=Workers(), cancel=SpentTime(spent), progress=None).gap
        least, most = gap.low, gap.high
    return Pair(high - low, most - least, beside, boxes)


def _cases_at_their_gap(sizes: Sizes) -> list[tuple[str, Case]]:
    cases = [(f"{network} {protected}", _example_case(network, protected)) for network, protected in CASES]
    cases.append(
        (f"{INDIVIDUALS[0]} {INDIVIDUALS[1]}, individuals", _example_case(*INDIVIDUALS, property__kind="individual"))
    )
    cases += [(f"random, {inputs} real inputs", random_case(inputs, LAYERS[1], 0)) for inputs in INPUTS]
    budget = {"guarantee__budget__rounds": 10**9, "guarantee__budget__seconds": 600.0}
    return [(name, _with(_at_its_gap(case, sizes.bare), **budget)) for name, case in cases]


def _together_table(cases: list[tuple[str, Case]], sizes: Sizes) -> tuple[Table, Check]:
    rows: list[list[Cell]] = []
    worst, where = 0.0, ""
    for name, case in cases:
        for seconds, seeds in COSTS[: len(COSTS) if sizes.paper else 1]:
            pairs = [
                at_equal_cost(_with(case, guarantee__seed=seed), seconds)
                for seed in range(1, 1 + min(seeds, 1 + sizes.bounded))
            ]
            ratios = np.array([pair.ratio for pair in pairs])
            median, mean = float(np.median(ratios)), float(np.exp(np.log(ratios).mean()))
            if median > worst:
                worst, where = median, f"{name}, {seconds:g} s"
            medians: list[Cell] = [
                float(np.median([getattr(pair, each) for pair in pairs])) for each in ("plain", "together", "beside")
            ]
            span: list[Cell] = [float(ratios.min()), float(ratios.max())]
            rows.append([name, seconds, len(pairs), *medians, median, mean, *span, pairs[-1].boxes])
    columns = [Column("case"), Column("seconds", "g"), Column("seeds", "d"), Column("sampling", ".5f")]
    columns += [Column("with bounds", ".5f"), Column("time beside plain rounds", ".3%")]
    columns += [Column(f"ratio, {each}", ".4f") for each in ("median", "geometric mean", "smallest", "largest")]
    columns.append(Column("boxes", ",d"))
    name = "width with bounds / width of sampling at equal processor time, largest median of a row"
    check = Check(name, worst <= WIDER, f"{worst:.4f} ({where})", f"at most {WIDER:g}", enforced=sizes.paper)
    return Table("Width of the gap's interval at equal processor time, delta 1e-6", columns, rows), check


def _turns_table(cases: list[tuple[str, Case]], sizes: Sizes) -> tuple[Table, Check]:
    rows: list[list[Cell]] = []
    logs: list[float] = []
    seconds = COSTS[0][0]
    for name, case in cases:
        found = []
        for seed in range(1, 2 + sizes.bounded):
            # Each way is first every other time.
            order = (SamplingEngine(), BoundingEngine())[:: 1 if seed % 2 else -1]
            answers = in_turns(seconds, _with(case, guarantee__seed=seed), order)
            widths = {isinstance(each.record, BoundsRecord): each.gap.high - each.gap.low for each in answers}
            found.append(float(np.log(max(widths[True], 1e-12) / max(widths[False], 1e-12))))
            if not any(isinstance(each.record, BoundsRecord) and each.record.boxes for each in answers):
                logs.append(found[-1])
        rows.append([name, *(float(np.exp(each(found))) for each in (np.median, np.mean, np.min, np.max))])
    mean, error = float(np.exp(np.mean(logs))), float(np.std(logs) / len(logs) ** 0.5)
    columns = [Column("case"), *(Column(each, ".3f") for each in ("median", "geometric mean", "smallest", "largest"))]
    note = (
        f"For the {len(logs)} runs without boxes, the geometric mean of the ratio is {mean:.4f}, with a standard error "
        f"of {error:.4f}."
    )
    name = "the same ratio with the engines in turns, geometric mean of all runs without boxes"
    check = Check(name, mean <= TIMED_WIDER, f"{mean:.4f}", f"at most {TIMED_WIDER:g}", enforced=sizes.paper)
    return Table(f"Ratio of widths after {seconds:g} s each, in turns", columns, rows, note), check


def _at_its_gap(case: Case, evaluations: int) -> Case:
    """Return the case with its gap as the threshold, from so many evaluations: little is decided early there."""
    budget = {"guarantee__budget__rounds": 10**9, "guarantee__budget__evaluations": evaluations}
    first = _with(case, **budget, property__threshold=0.9, guarantee__epsilon=1e-5, guarantee__seed=0)
    found = SamplingEngine().answer(first, workers=Workers(), cancel=Event(), progress=None)
    return _with(case, property__threshold=round(found.gap.estimate, 6))


def _with(case: Case, **changes: Any) -> Case:
    return case_of(revise(case.spec, **changes), case.model, case.rows)


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # random networks, and those that ship
    """Measure certain widths over boxes and time, and the widths of bounds with sampling."""
    few, checks, counts = _random_table(sizes)
    examples, more = _example_table(sizes)
    cases = _cases_at_their_gap(sizes)
    together, equal = _together_table(cases, sizes)
    turns, control = _turns_table(cases, sizes)
    return PartResult(
        text=TEXT,
        tables=[few, examples, together, turns],
        checks=[*checks, equal, control],
        settings={"networks of two real inputs, each size": sizes.bounded, "threads": 1},
        counts={**counts, **more},
    )
