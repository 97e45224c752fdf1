"""Enumeration: its speed against the bare network, its memory, and a gap next to the threshold."""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import prod
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.bare import BareNetwork
from benchmarks.measuring import in_turns, median_ratio, spent
from benchmarks.probe import measured
from benchmarks.results import Cell, Check, Column, PartResult, Ratio, Table, ratio_checks, ratio_tables
from benchmarks.sizes import Sizes
from fairchain import OnnxModel, Spec, example, parse_spec, verify
from fairchain.spec import load_spec, revise

# The share of the bare network's speed that an enumeration must reach, and how much more memory ten times as many
# inputs may take.
SPEED_LIMIT, MEMORY_LIMIT = 0.7, 1.1
RESIDENT = 2**18
# Features of the census network that are held at one value, so that what is left can be enumerated.
HELD = {"fnlwgt": 20, "capital-gain": 1, "capital-loss": 20}
# Inputs without the hours and without kinds of work: 9 ages, 16 of education, 7 of marital status, ...
FEW = 9 * 16 * 7 * 6 * 5 * 2
# What inputs next to the threshold have in common.
MARRIED = {"marital-status": "Married-civ-spouse", "relationship": "Husband"}
# Kinds of work, which are left out of small spaces.
WORK = {"workclass": 9, "occupation": 15}
TEXT = """This section compares an enumeration of all inputs with onnxruntime alone (the *bare* network), and measures
the memory of an enumeration and its time at the threshold.

**Speed.** All inputs of the census network are enumerated. Four features are held at one value, and the range of the
feature `hours-per-week` determines the number of inputs. The bare network evaluates the same number of inputs, which
are already in memory. The two programs run alternately. The *ratio* is the speed of the enumeration divided by the
speed of the bare network. Speeds refer to processor time, which the load of the machine hardly affects. The longest run
is made once, in a separate process. The bare network evaluates half of the inputs before this run, and half after it.
The threshold of the longest run is next to the gap, so the run cannot end early.

**Memory.** The *ratio* is the peak memory of a long run divided by the peak memory of a short run. Each run has its own
process.

**At the threshold.** The input space is small, and the gap is next to the threshold. fairchain chooses enumeration
without any option, so the verdict is exact."""
TITLES = {
    "speed": ("Speed against bare onnxruntime", "enumeration", "bare network"),
    "memory": ("Peak memory of a long run against a short one", "long", "short"),
}


def run(sizes: Sizes, _models: Path | None) -> PartResult:
    """Measure everything."""
    ratios = [*_against_bare_network(sizes), *_longest(sizes), _memory(sizes)]
    rows, checks = _near_threshold(sizes)
    columns = [Column("threshold", ".6f"), Column("verdict"), Column("engine"), Column("gap", ".8f")]
    columns += [Column("evaluations", ",d"), Column("ms, median", ".1f")]
    return PartResult(
        text=TEXT,
        tables=[*ratio_tables(ratios, TITLES), Table("A gap next to the threshold", columns, rows)],
        checks=[*ratio_checks(ratios, enforced=sizes.paper), *checks],
        settings={"turns of the speed": sizes.few_turns, "turns at the threshold": sizes.turns},
    )


def census(inputs: int) -> Spec:
    """Return the census question over about so many inputs, with an enumeration of them."""
    many = inputs >= FEW * prod(WORK.values())
    hours = max(1, round(inputs / (FEW * (prod(WORK.values()) if many else 1))))
    data = msgspec.to_builtins(load_spec(example("census")))
    for feature in data["feature"]:
        if feature["name"] in HELD:
            feature["low"] = feature["high"] = HELD[feature["name"]]
        elif feature["name"] == "hours-per-week":
            feature["low"], feature["high"] = 1, hours
        elif feature["name"] == "native-country" or (feature["name"] in WORK and not many):
            feature["values"] = feature["values"][:1]
    data["guarantee"] |= {"engine": "enumeration", "budget": {"seconds": 3600.0}}
    return parse_spec(data)


def _against_bare_network(sizes: Sizes) -> Iterator[Ratio]:
    spec = census(sizes.bare)
    assert spec.model.path is not None
    model = OnnxModel(spec.model.path, spec)
    bare = BareNetwork(spec.model.path, _resident(spec))
    for workers in [1] if (os.cpu_count() or 1) < 2 else [1, 2]:
        evaluations = verify(model, spec, workers=workers).evaluations
        batch = bare.best_batch(max(evaluations // 10, RESIDENT), workers)
        ours, other = in_turns(
            lambda workers=workers: verify(model, spec, workers=workers),  # type: ignore[misc]
            lambda n=evaluations, batch=batch, workers=workers: bare.run(n, batch, workers),  # type: ignore[misc]
            sizes.few_turns,
        )
        speeds = [[evaluations / each.processor / 1e6 for each in side] for side in (ours, other)]
        yield Ratio(
            "speed",
            f"{evaluations:,} inputs, {workers} worker{'s' * (workers > 1)}",
            f"{median(speeds[0]):.2f} M/s of processor time",
            f"{median(speeds[1]):.2f} M/s",
            median_ratio(speeds[0], speeds[1]),
            SPEED_LIMIT,
            at_least=True,
            note=f"wall time {median(e.wall for e in ours):.2f} s, bare {median(e.wall for e in other):.2f} s",
        )


def _longest(sizes: Sizes) -> Iterator[Ratio]:
    """Enumerate as many inputs as the size allows, once, between two halves of as many of the bare network."""
    spec = census(sizes.enumerated)
    network = spec.model.path
    assert network is not None
    model = OnnxModel(network, spec)
    workers = min(2, os.cpu_count() or 1)
    # The threshold is next to the gap, so that the run does not end before nearly all inputs were evaluated.
    sampled = verify(model, revise(spec, guarantee__engine="sampling", guarantee__epsilon=0.002), workers=workers)
    spec = revise(spec, property__threshold=round(sampled.gap.estimate, 4))
    bare = BareNetwork(network, _resident(spec))
    batch = bare.best_batch(RESIDENT, workers)
    half = sizes.enumerated // 2
    few = measured(
        {"kind": "verify", "spec": msgspec.to_builtins(census(sizes.bare)), "workers": workers}, timeout=3600
    )
    first = spent(lambda: bare.run(half, batch, workers))
    ours = measured({"kind": "verify", "spec": msgspec.to_builtins(spec), "workers": workers}, timeout=3600)
    second = spent(lambda: bare.run(half, batch, workers))
    wall, processor = first.wall + second.wall, first.processor + second.processor
    speed, other = ours.evaluations / ours.processor / 1e6, 2 * half / processor / 1e6
    name = f"{ours.evaluations:,} inputs, {workers} workers, one run"
    note = (
        f"wall time {ours.seconds:.0f} s, bare {wall:.0f} s; processor {ours.processor:.0f} s, bare {processor:.0f} s"
    )
    yield Ratio(
        "speed",
        name,
        f"{speed:.2f} M/s of processor time",
        f"{other:.2f} M/s",
        speed / other,
        SPEED_LIMIT,
        at_least=True,
        note=note,
    )
    name = f"{ours.evaluations:,} inputs against {few.evaluations:,}, {workers} workers"
    yield Ratio("memory", name, f"{ours.peak:.1f} MiB", f"{few.peak:.1f} MiB", ours.peak / few.peak, MEMORY_LIMIT)


def _resident(spec: Spec) -> NDArray[np.float32]:
    """Return inputs for the bare network."""
    return np.random.default_rng(0).integers(0, 9, (RESIDENT, len(spec.features))).astype(np.float32)


def _memory(sizes: Sizes) -> Ratio:
    few, many = (
        measured({"kind": "verify", "spec": msgspec.to_builtins(census(inputs)), "workers": 2}, timeout=3600)
        for inputs in (FEW, sizes.bare)
    )
    name = f"{many.evaluations:,} inputs against {few.evaluations:,}"
    return Ratio("memory", name, f"{many.peak:.1f} MiB", f"{few.peak:.1f} MiB", many.peak / few.peak, MEMORY_LIMIT)


def _near_threshold(sizes: Sizes) -> tuple[list[list[Cell]], list[Check]]:
    """Verify 1,440 inputs with thresholds on both sides of their gap."""
    data = msgspec.to_builtins(revise(census(1), guarantee__engine="auto"))
    for feature in data["feature"]:
        if feature["name"] in MARRIED:
            value = MARRIED[feature["name"]]
            feature |= {"codes": [feature["values"].index(value)], "values": [value]}
        elif feature["name"] == "hours-per-week":
            feature["low"] = feature["high"] = 40
    spec = parse_spec(data)
    assert spec.model.path is not None
    model = OnnxModel(spec.model.path, spec)
    gap = verify(model, spec).gap.estimate
    rows: list[list[Cell]] = []
    checks = []
    for threshold, expected in ((gap - 1e-5, "UNFAIR"), (gap + 1e-5, "FAIR")):
        asked = revise(spec, property__threshold=round(threshold, 7))
        verdict = verify(model, asked)
        seconds = median(spent(lambda asked=asked: verify(model, asked)).wall for _ in range(sizes.turns))  # type: ignore[misc]
        rows.append(
            [threshold, verdict.conclusion, verdict.engine, verdict.gap.estimate, verdict.evaluations, 1e3 * seconds]
        )
        name = f"a gap {abs(gap - threshold):.0e} from the threshold is decided exactly in under a second"
        found = f"{verdict.conclusion} by {verdict.engine} in {seconds:.3f} s"
        right = verdict.conclusion == expected and verdict.delta == 0
        checks.append(Check(name, right and seconds < 1, found, f"{expected}, delta 0, below 1 s"))
    return rows, checks
