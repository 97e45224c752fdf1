"""Speed of networks that read texts: against the bare network, and against the minutes that the paper reports."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnxruntime as ort

from benchmarks.baselines.bare import fairchain_command, run_command
from benchmarks.cases import text_cases
from benchmarks.measuring import in_turns, median_ratio, spent
from benchmarks.paper import TABLE
from benchmarks.results import PartResult, Ratio, ratio_checks, ratio_tables
from benchmarks.sizes import Sizes
from fairchain import OnnxModel, Spec, example, load_spec, verify
from fairchain.populations import Scratch
from fairchain.populations.text_rows import read_texts
from fairchain.populations.texts import TextPopulation
from fairchain.spec import comparison_of, revise

READINGS = ("observed", "swapped")
PROTECTED = ("religion", "race")
TIME_LIMIT, DRAWING_LIMIT, FASTER_LIMIT = 1.5, 0.2, 100.0
# The difference of two groups is known within so much in the paper, with probability 0.9 by its own claim.
ACCURACY = 0.01
LONG = 500_000
BATCHES = (256, 512, 1024, 2048)
RESIDENT = 2**13


TITLES = {
    "network": ("Processor time of a warm verify and of the bare network on as many texts", "verify", "bare"),
    "drawing": ("Share of the time of verify that drawing takes, synonyms included", "drawing", "verify"),
    "synonyms": ("Share of the time of verify that replacing words by synonyms takes", "synonyms", "verify"),
    "shell": ("Time of a verdict at delta 1e-6 from the shell, and the paper's time", "ours", "paper"),
    "estimate": (f"Time of estimate mode at epsilon {ACCURACY:g}, delta 1e-6, and the paper's time", "ours", "paper"),
}
TEXT = """This section compares the time of `verify` on texts with the time of onnxruntime alone (the *bare* network),
and with the times that the paper reports. *Observed* and *swapped* name [the population of
texts](../docs/text.md#observed-and-swapped-texts).

The first three tables show ratios of processor times, with one thread on each side. The last two tables show how many
times as fast a command of fairchain is as the paper's program. The ratio is the time that the paper reports, divided by
the wall time of the command. The paper's network has the same size and ran on its authors' laptop. Wall times are
meaningful only if no other program runs. The checks name the five tables in this order: *network*, *drawing*,
*synonyms*, *shell* and *estimate*."""


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # the network that ships
    """Measure both protected features in both readings, if the data sets are there."""
    cases = [(protected, reading) for protected in PROTECTED for reading in READINGS] if text_cases() else []
    ratios = [ratio for case in cases for ratio in against_bare_network(*case, sizes)]
    ratios += [ratio for case in cases for ratio in against_the_paper(*case, sizes)]
    missing = "" if cases else "\n\nNot run: `fairchain data get toxicity glove` was not run."
    return PartResult(
        text=TEXT + missing,
        tables=ratio_tables(ratios, TITLES),
        checks=ratio_checks(ratios, enforced=sizes.paper),
        settings={"evaluations of a long run": sizes.text_bare, "turns": sizes.few_turns, "seed": 0},
    )


def spec_of(protected: str, reading: str, **changes: Any) -> Spec:
    """Return the example's spec in one of its readings."""
    spec = load_spec(example(f"comments-{protected}"))
    return revise(spec, population__as=reading, **changes)


def long_spec(protected: str, reading: str, evaluations: int) -> Spec:
    """Return the spec of so many evaluations: an estimate that cannot be reached has all groups in every round."""
    groups = len(comparison_of(spec_of(protected, reading)).subgroups)
    budget = {"rounds": float(evaluations // groups), "seconds": 3600.0}
    return spec_of(protected, reading, guarantee__epsilon=1e-6, guarantee__budget=budget, guarantee__engine="sampling")


class BareReader:
    """onnxruntime and nothing else, on word vectors that are in memory already, texts of like length together."""

    def __init__(self, path: str, table: Any, ids: Any) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._ids, self._table = ids[np.argsort(np.count_nonzero(ids, axis=1), kind="stable")], table
        self._batches: list[dict[str, Any]] = []

    def prepare(self, batch: int) -> None:
        """Lay out the inputs in batches of this size, each as long as its longest text."""
        self._batches = []
        for start in range(0, len(self._ids), batch):
            ids = self._ids[start : start + batch]
            lengths = np.maximum(np.count_nonzero(ids, axis=1), 1).astype(np.int32)
            self._batches.append({"vectors": self._table[ids[:, : lengths.max()]], "lengths": lengths})

    def run(self, evaluations: int) -> int:
        """Evaluate so many texts, or a few more; returns how many came out."""
        done = 0
        while done < evaluations:
            for batch in self._batches:
                done += len(self._session.run(["logits"], batch)[0])
        return done

    def best_batch(self, tries: int = 3) -> int:
        """Prepare the fastest batch size here and now."""
        seconds: dict[int, list[float]] = {batch: [] for batch in BATCHES}
        for _ in range(tries):
            for batch, times in seconds.items():
                self.prepare(batch)
                start = time.perf_counter()
                self.run(len(self._ids))
                times.append(time.perf_counter() - start)
        best = min(BATCHES, key=lambda batch: median(seconds[batch]))
        self.prepare(best)
        return best


def against_bare_network(protected: str, reading: str, sizes: Sizes) -> Iterator[Ratio]:
    """A long verify against the bare network on as many texts of the same kind, and what drawing them takes of it."""
    spec = long_spec(protected, reading, sizes.text_bare)
    assert spec.model.path is not None
    model = OnnxModel(spec.model.path, spec)
    evaluations = verify(model, spec, seed=0, workers=1).evaluations
    population = TextPopulation(read_texts(spec), comparison_of(spec).subgroups)
    assert population.lexicon is not None
    bare = BareReader(spec.model.path, population.lexicon.table, _drawn_evenly(population))
    batch = bare.best_batch()
    ours, other = in_turns(
        lambda: verify(model, spec, seed=0, workers=1), lambda: bare.run(evaluations), sizes.few_turns
    )
    mine, theirs = median(s.processor for s in ours), median(s.processor for s in other)
    wall, processor = (
        median_ratio([getattr(s, kind) for s in ours], [getattr(s, kind) for s in other])
        for kind in ("wall", "processor")
    )
    name = f"{protected}, {reading}"
    speed = f"{evaluations:,} evaluations, {evaluations / mine:,.0f} per second"
    # The limit is for long runs: reading and laying out before the first round weigh more in shorter ones.
    limit = TIME_LIMIT if sizes.text_bare >= LONG else None
    note = f"{speed}; bare batch {batch}; ratio of wall times {wall:.2f}"
    yield Ratio("network", name, f"{mine:.2f} s", f"{theirs:.2f} s", processor, limit, note=note)
    plain = TextPopulation(read_texts(revise(spec, population__replace=0)), comparison_of(spec).subgroups)
    with_words, without = in_turns(
        lambda: _draw(population, evaluations), lambda: _draw(plain, evaluations), sizes.few_turns
    )
    drawing, copying = median(s.processor for s in with_words), median(s.processor for s in without)
    yield Ratio("drawing", name, f"{drawing:.3f} s", f"{mine:.2f} s", drawing / mine, DRAWING_LIMIT)
    synonyms = max(drawing - copying, 0.0)
    yield Ratio("synonyms", name, f"{synonyms:.3f} s", f"{mine:.2f} s", synonyms / mine, DRAWING_LIMIT)


def _drawn_evenly(population: TextPopulation) -> Any:
    groups = range(len(population.subgroups))
    return population.rounds(1, 0, RESIDENT // len(groups)).inputs(tuple(groups)).copy()


def _draw(population: TextPopulation, evaluations: int, rounds: int = 4096) -> None:
    groups, scratch = tuple(range(len(population.subgroups))), Scratch()
    for chunk in range(-(-evaluations // (rounds * len(groups)))):
        drawn = population.rounds(1, chunk, rounds, scratch=scratch)
        for group in groups:
            drawn.show(group)


def against_the_paper(protected: str, reading: str, sizes: Sizes) -> Iterator[Ratio]:
    """Verdicts at delta 1e-6 from the shell, and estimates of the paper's accuracy."""
    reported = TABLE["comments", protected]
    path = str(example(f"comments-{protected}"))
    for kind, options in (("shell", ()), ("estimate", ("--epsilon", str(ACCURACY)))):
        command = (fairchain_command(), "verify", path, "--as", reading, "--quiet", *options)
        taken = median(spent(partial(run_command, command, (0, 1))).wall for _ in range(sizes.few_turns))
        changes = {"guarantee__epsilon": ACCURACY} if options else {}
        found = verify(None, spec_of(protected, reading, **changes), seed=0)
        note = (
            f"{found.decision.name}, gap {found.gap}; {found.rounds:,} rounds, {found.evaluations:,} evaluations, "
            f"sampling took {found.seconds:.2f} s; the paper: {reported.traces:,} traces"
        )
        name = f"{protected}, {reading}"
        yield Ratio(
            kind,
            name,
            f"{taken:.2f} s",
            f"{reported.seconds:.0f} s",
            reported.seconds / taken,
            FASTER_LIMIT,
            True,
            note,
        )
