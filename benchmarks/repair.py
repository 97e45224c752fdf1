"""What repairs achieve and what they cost, beside the paper's own numbers.

    python -m benchmarks.repair [--quick] [--models FOLDER] [--text] [--seed N] [--json]

Needs the data sets census and credit (`fairchain data get census credit`; `--text`: toxicity and glove). `--models`
adds the networks of the paper's tables from a folder that you have (see `paper_models.py`). Every repair is certified
at delta 1e-6, and its price is measured on rows that neither training nor search has seen; without rows it is
agreement with the original network. Search settings were chosen with other seeds than that of the table in
docs/repair.md. Exit code 1 if a limit does not hold.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.baselines.bare import BareNetwork
from benchmarks.paper_models import paper_specs
from fairchain import OnnxModel, Repair, Spec, example, explain, load_spec, repair
from fairchain.datasets import here
from fairchain.datasets.encode import held_out
from fairchain.datasets.tables import table_of
from fairchain.models.edit.candidates import Tunable, input_means
from fairchain.models.edit.weights import Weights
from fairchain.prepare import prepare
from fairchain.repairing.optimizers import make_optimizer
from fairchain.repairing.parameters import Parameters, Scales, low_rank, protected_units, ranked_units
from fairchain.repairing.repair_data import inputs_of
from fairchain.repairing.search import MARGIN, STEP, CandidateTrial, Objective, Searcher
from fairchain.spec import revise

DELTA = 1e-6
COST_LIMIT, SECONDS_LIMIT = 1.5, 60.0
# The paper's table of repairs: gap before and after, change of accuracy.
PAPER = {"credit age": (0.1683, 0.1125, -0.055), "census race": (0.0588, 0.0225, -0.0173)}
PAPER |= {"comments religion": (0.0756, 0.0590, -0.0066)}
TESTED_TEXTS = 20_000


@dataclass(frozen=True)
class Case:
    """A network to repair: the question, labelled rows to search on and to judge on, and what it may lose."""

    name: str
    spec: Spec
    most_lost: float
    data: dict[str, list[Any]] | None = None
    held_out: dict[str, list[Any]] | None = None
    label: str | None = None


@dataclass(frozen=True)
class Line:
    """One measurement and the limit that it must keep, if it has one."""

    name: str
    value: float
    limit: float | None
    holds: bool
    note: str


def embedded_cases() -> Iterator[Case]:
    """Our own networks. The gap of census by race is 0.009, so the paper's threshold is met before any repair."""
    for name, protected, threshold, lost in (("credit", "age", 0.1, 0.03), ("census", "race", 0.005, 0.01)):
        header, rows = table_of(name, here(name), encoded=True)
        # What the network was not trained on: the official test file, or the fixed fifth.
        kept = np.arange(len(rows)) >= 32_561 if name == "census" else held_out(len(rows))
        data, judged = (
            {column: [row[place] for row in rows_of] for place, column in enumerate(header)}
            for rows_of in (
                [row for row, out in zip(rows, kept, strict=True) if out == wanted] for wanted in (False, True)
            )
        )
        spec = revise(
            load_spec(example(name)),
            property__protected=[protected],
            property__threshold=threshold,
            guarantee__delta=DELTA,
        )
        yield Case(f"{name} {protected}", spec, lost, data, judged, header[-1])


def paper_cases(folder: Path, out: Path) -> Iterator[Case]:
    """The networks of the paper; there are no rows to them, so agreement is kept."""
    for (name, protected), threshold, lost in ((("credit", "age"), 0.1, 0.05), (("census", "race"), 0.03, 0.05)):
        yield Case(f"{name} {protected}", paper_specs(folder, out, threshold, DELTA)[name, protected], lost)


def text_case() -> Case:
    """The network that reads comments, by religion: searched on the development rows, judged on the test rows."""
    rows: dict[str, dict[str, list[Any]]] = {part: {"comment": [], "toxic": []} for part in ("dev", "test")}
    with here("toxicity")[0].open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            part = rows.get(row["split"])
            if part is not None and len(part["toxic"]) < TESTED_TEXTS:
                part["comment"].append(row["comment"])
                part["toxic"].append(row["toxic"])
    spec = revise(load_spec(example("comments-religion")), guarantee__delta=DELTA)
    return Case("comments religion", spec, 0.01, rows["dev"], rows["test"], "toxic")


def repaired(case: Case, whose: str, **settings: Any) -> tuple[Line, Repair]:
    """Repair once and see whether it is certified and cheap enough."""
    result = repair(None, case.spec, labelled=case.data, held_out=case.held_out, label=case.label, **settings)
    assert result.price is not None
    assert result.after is not None
    assert result.original is not None
    lost = -result.price.change.estimate
    before, after, paper = PAPER[case.name]
    note = (
        f"gap at most {case.spec.property.threshold:g}: {result.original.gap:.4f} -> {result.after}; {result.price}; "
        f"{result.candidates} candidates, {result.evaluations:,} evaluations, {result.seconds:.1f} s; "
        f"the paper: {before} -> {after}, accuracy {paper:+.4f}"
    )
    name = f"{whose}, {case.name}: lost {result.price.measure}"
    return Line(name, lost, case.most_lost, result.accepted and lost <= case.most_lost, note), result


def searched(case: Case, candidates: int, seed: int) -> list[Line]:
    """The paper's swarm and ours under equal numbers of candidates, on the same inputs: the best that is fair."""
    spec = case.spec
    model = OnnxModel(spec.model.path or "", spec)
    weights = Weights(model)
    inputs = inputs_of(prepare(model, spec), seed, 32_768)
    means = input_means(model, weights.blocks, inputs.values[::8])
    explanation = explain(model, spec, rounds=10_000, seed=seed)
    ranked = ranked_units(explanation, spec, weights, 10, "sensitivity")
    columns = low_rank(weights, protected_units(spec, weights), means)
    limit = spec.property.threshold
    ways: list[tuple[str, Parameters, str, Objective]] = [
        ("the paper's swarm, neurons", Scales(weights, ranked, None), "pso", Objective(limit, paper=True)),
        ("a swarm, protected weights", columns, "pso", Objective(limit)),
        ("evolution, protected weights", columns, "evolution", Objective(limit)),
    ]
    lines = []
    for name, parameters, optimizer, aim in ways:
        trial = CandidateTrial(Tunable(model, weights, parameters.tensors), inputs, None)
        best = _best(Searcher(trial, parameters, weights, aim), parameters, optimizer, aim, candidates, seed)
        lines.append(Line(f"{case.name}, {candidates} candidates, {name}: agreement", best, None, True, ""))
    return lines


def _best(
    searcher: Searcher, parameters: Parameters, optimizer: str, aim: Objective, candidates: int, seed: int
) -> float:
    """The highest agreement of a candidate that is fair with a margin; without any rule for stopping."""
    first = [np.zeros(len(parameters.names)), *(parameters.starts() if optimizer != "pso" else [])]
    searcher.score(first)
    search = make_optimizer(optimizer, min(searcher.tried, key=aim.fitness).point, STEP, seed)
    while len(searcher.tried) < candidates:
        points = search.ask()
        search.tell(points, np.array([aim.fitness(each) for each in searcher.score(list(points))]))
    room = (1 - MARGIN) * aim.limit
    return max((t.score.accuracy for t in searcher.tried[:candidates] if t.score.gap <= room), default=float("nan"))


def cost(count: int, repetitions: int) -> Line:
    """A candidate's evaluation against the bare network on the same number of inputs, in turns."""
    spec = load_spec(example("census"))
    model = OnnxModel(spec.model.path or "", spec)
    weights = Weights(model)
    inputs = inputs_of(prepare(model, spec), 1, count)
    means = input_means(model, weights.blocks, inputs.values[::8])
    parameters = low_rank(weights, protected_units(spec, weights), means)
    trial = CandidateTrial(Tunable(model, weights, parameters.tensors), inputs, None)
    bare = BareNetwork(spec.model.path or "", inputs.values)
    point = parameters.starts()[3]
    ours, theirs = [], []
    for _ in range(repetitions):
        theirs.append(_seconds(lambda: bare.run(len(inputs.values), 4096)))
        ours.append(_seconds(lambda: trial.score(parameters.weights(point))))
    ratio = median(ours) / median(theirs)
    note = f"{len(inputs.values):,} inputs: {median(ours) * 1e3:.1f} ms against {median(theirs) * 1e3:.1f} ms"
    return Line("a candidate against the bare network, time", ratio, COST_LIMIT, ratio <= COST_LIMIT, note)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def lines_of(models: Path | None, seed: int, *, text: bool, quick: bool) -> Iterator[Line]:
    yield cost(100_000, 5 if quick else 25)
    for case in embedded_cases():
        line, result = repaired(case, "our network", seed=seed)
        yield line
        if case.name == "census race":
            seconds = result.seconds
            yield Line("seconds of a census repair", seconds, SECONDS_LIMIT, seconds <= SECONDS_LIMIT, "")
            again = repaired(case, "again", seed=seed)[1]
            same = again.content == result.content
            yield Line("two runs give the same bytes", float(same), 1.0, same, result.after.model_sha256[:16])  # type: ignore[union-attr]
    if text:
        yield repaired(text_case(), "our network", seed=seed)[0]
    if models is not None:
        with tempfile.TemporaryDirectory() as folder:
            for case in paper_cases(models, Path(folder)):
                yield repaired(case, "the paper's network", seed=seed)[0]
                for candidates in (100,) if quick else (100, 300, 1000):
                    yield from searched(case, candidates, seed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--models", type=Path, help="folder with the networks of the paper's tables")
    parser.add_argument("--text", action="store_true", help="also the network that reads comments")
    parser.add_argument("--seed", type=int, default=0, help="of every repair and search")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    lines = []
    for line in lines_of(arguments.models, arguments.seed, text=arguments.text, quick=arguments.quick):
        lines.append(line)
        if not arguments.json:
            limit = "" if line.limit is None else f" (limit {line.limit:g})"
            print(f"{'ok  ' if line.holds else 'FAIL'} {line.name} {line.value:.4f}{limit}", flush=True)
            if line.note:
                print(f"       {line.note}", flush=True)
    if arguments.json:
        print(json.dumps({"lines": [asdict(line) for line in lines]}, indent=1))
    return 0 if all(line.holds for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
